r"""KL-UCB (Garivier and Cappé, 2011), which learns from pulls and looks.

The index of arm i at stage t is

.. math:: \max\{q : O_i\, d(\bar X_i, q) \le \log t + c \log \log t\}

where O_i counts pulls and looks of arm i, \bar X_i averages both, and d is the Kullback-Leibler
divergence of the reward distributions. For Gaussian rewards (in units of their scale), d(x, q) is
(q - x)^2 / 2 and the index is explicit; for rewards in [0, 1], d is the Bernoulli divergence. The
authors advise c = 0 in practice and prove a bound for c = 3. The paper does not treat KL-UCB, and no
theorem covers KL-UCB with looks.
"""

import math
from typing import Any

from kibitz._jit import jit
from kibitz._validation import non_negative
from kibitz.policies.index_policy import (
    index_policy,
    inverse_root,
    make_separable_index,
    with_factors,
)
from kibitz.policies.policy import Array, Policy, Rewards, check_rewards


def kl_ucb(rewards: Rewards = "gaussian", c: float = 0.0, scale: float | None = None) -> Policy:
    """Return KL-UCB, which is not in the paper.

    Parameters
    ----------
    rewards
        "gaussian", "bernoulli" (0 or 1) or "bounded" (any number in [0, 1]).
    c
        The factor of log log t in the index.
    scale
        The sub-Gaussian scale of the rewards. Default: the scale of the problem.
    """
    parameters: dict[str, Any] = {"rewards": check_rewards(rewards), "c": non_negative(c, "c")}
    in_unit_interval = rewards != "gaussian"
    policy = index_policy(
        "kl_ucb",
        bernoulli_index if in_unit_interval else index,
        rewards=rewards,
        scale=scale,
        parameters=parameters,
        c=parameters["c"],
    )
    return policy if in_unit_interval else with_factors(policy, growth, inverse_root)


@jit
def level(params: Any, stage: int) -> float:
    """Return log t + c log log t, with log log t replaced by 0 where it is negative."""
    log_stage = math.log(stage)
    return log_stage + params.c * math.log(max(1.0, log_stage))


@jit
def growth(params: Any, stage: int) -> float:
    """Return the factor of the index that depends on the stage, for Gaussian rewards."""
    return math.sqrt(2 * level(params, stage))


index = make_separable_index(growth, inverse_root)


@jit
def bernoulli_index(params: Any, stage: int, counts: Array, arm: int, mean: float) -> float:
    """Return the index for rewards in [0, 1]: the largest q with kl(mean, q) <= level / count.

    Newton's method starts above q. Because kl(p, .) is convex and increasing beyond p, the iterates
    decrease towards q.
    """
    max_divergence = level(params, stage) / counts[arm]
    p = min(max(mean, 0.0), 1.0)
    if p == 1.0 or max_divergence == 0.0:
        return p
    if p == 0.0:
        return -math.expm1(-max_divergence)
    entropy = -p * math.log(p) - (1 - p) * math.log(1 - p)
    # two upper bounds on q - p: by Pinsker's inequality, and by dropping p log(1/q) >= 0 from kl
    distance = min(
        math.sqrt(max_divergence / 2), -math.expm1(-(max_divergence + entropy) / (1 - p)) - p
    )
    if distance >= 1 - p:  # q is 1 up to rounding
        return 1.0
    for _ in range(50):
        excess = (
            -p * math.log1p(distance / p) - (1 - p) * math.log1p(-distance / (1 - p)) - max_divergence
        )
        step = excess * (p + distance) * (1 - p - distance) / distance
        if not step > 1e-15 * distance:
            break
        distance -= step
    return p + distance
