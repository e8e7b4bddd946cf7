r"""KL-UCB (Garivier and Cappé, 2011), counting free observations.

.. math:: \max\{q : O_i\, d(\bar X_i, q) \le \log t + c \log \log t\}

with d the divergence of the reward law: (q - x)^2 / (2 \sigma^2) for Gaussian rewards, for which the
index is explicit, and the Bernoulli divergence for rewards in [0, 1]. c = 0 is the authors' advice
for practice, c = 3 is what they prove. The paper does not treat it; with looks no theorem covers it.
"""

import math
from typing import Any

from kibitz.compiling.jit import jit
from kibitz.policies.policy import Array, Policy, index_policy


def kl_ucb(law: str = "gaussian", sd: float = 1.0, c: float = 0.0) -> Policy:
    """Return KL-UCB; not in the paper.

    Parameters
    ----------
    law
        "gaussian", or "bernoulli" for rewards in [0, 1].
    sd
        The standard deviation of Gaussian rewards.
    c
        The factor of log log t.
    """
    if not 0 <= c < math.inf:
        raise ValueError(f"c must be non-negative and finite, got {c!r}")
    if not 0 < sd < math.inf:
        raise ValueError(f"sd must be positive and finite, got {sd!r}")
    setting = {"law": law, "sd": float(sd), "c": float(c)}
    if law == "gaussian":
        return index_policy("kl_ucb", index, setting=setting, sd=float(sd), c=float(c))
    if law == "bernoulli":
        return index_policy("kl_ucb", bernoulli_index, setting=setting, unit_rewards=True, c=float(c))
    raise ValueError(f"law must be 'gaussian' or 'bernoulli', got {law!r}")


@jit
def level(params: Any, stage: int) -> float:
    """Return log t + c log log t, non-negative and non-decreasing."""
    log = math.log(stage)
    return log + params.c * math.log(max(1.0, log))


@jit
def index(params: Any, stage: int, counts: Array, arm: int, mean: float) -> float:
    """Return the index for Gaussian rewards."""
    return mean + params.sd * math.sqrt(2 * level(params, stage) / counts[arm])


@jit
def bernoulli_index(params: Any, stage: int, counts: Array, arm: int, mean: float) -> float:
    """Return the index for rewards in [0, 1], by Newton's method from above.

    kl(p, .) is convex and increasing beyond p, so the iterates decrease towards the root.
    """
    bound = level(params, stage) / counts[arm]
    p = min(max(mean, 0.0), 1.0)
    if p == 1.0 or bound == 0.0:
        return p
    if p == 0.0:
        return -math.expm1(-bound)
    entropy = -p * math.log(p) - (1 - p) * math.log(1 - p)
    # Two upper bounds of q - p: Pinsker's, and one that drops p log(1/q) >= 0.
    above = min(math.sqrt(bound / 2), -math.expm1(-(bound + entropy) / (1 - p)) - p)
    if above >= 1 - p:  # closer to 1 than numbers get
        return 1.0
    for _ in range(50):
        excess = -p * math.log1p(above / p) - (1 - p) * math.log1p(-above / (1 - p)) - bound
        step = excess * (p + above) * (1 - p - above) / above
        if not step > 1e-15 * above:
            break
        above -= step
    return p + above
