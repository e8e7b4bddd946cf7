r"""Thompson sampling, counting free observations.

Pull each arm once, then the arm of largest sample of the posterior mean: N(\bar X_i, \sigma^2/O_i)
for Gaussian rewards with a flat prior; Beta(1 + S_i, 1 + O_i - S_i) for rewards in [0, 1], S_i being
their sum. An active observer looks at the runner-up of a fresh sample, so that the look is spread
over the arms that may still be best. The paper only mentions Thompson (section 1).
"""

import math
from typing import Any

import numpy as np

from kibitz.compiling.jit import jit
from kibitz.policies.policy import Policy, Seen, params_of, seen_init, seen_update, two_largest


def thompson(law: str = "gaussian", sd: float = 1.0) -> Policy:
    """Return Thompson sampling; not in the paper.

    Parameters
    ----------
    law
        "gaussian", or "bernoulli" for rewards in [0, 1].
    sd
        The standard deviation of Gaussian rewards.
    """
    if law not in {"gaussian", "bernoulli"}:
        raise ValueError(f"law must be 'gaussian' or 'bernoulli', got {law!r}")
    if not 0 < sd < math.inf:
        raise ValueError(f"sd must be positive and finite, got {sd!r}")
    return Policy(
        "thompson",
        params_of(beta=law == "bernoulli", sd=float(sd)),
        seen_init,
        pull,
        observe,
        seen_update,
        unit_rewards=law == "bernoulli",
        setting={"law": law, "sd": float(sd)},
    )


@jit
def sampled(params: Any, state: Seen, stage: int, arm: int, rng: Any) -> Any:
    """Return a sample of the posterior of an arm's mean; infinite before its first pull."""
    n, total = state.counts[arm], state.sums[arm]
    if state.n_pulls[arm] == 0:
        return np.inf
    if params.beta:
        return rng.beta(1.0 + total, 1.0 + n - total)
    return total / n + params.sd / math.sqrt(n) * rng.standard_normal()


best = two_largest(sampled)


@jit
def pull(params: Any, state: Seen, stage: int, rng: Any) -> int:
    """Return the arm of largest sample."""
    return best(params, state, stage, state.counts.size, rng)[0]


@jit
def observe(params: Any, state: Seen, stage: int, rng: Any) -> int:
    """Return the runner-up of a fresh sample."""
    return best(params, state, stage, state.counts.size, rng)[1]
