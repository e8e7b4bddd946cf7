r"""IMED, Indexed Minimum Empirical Divergence (Honda and Takemura, 2015).

Pull each arm once, then the arm with the smallest

.. math:: O_i\, d(\bar X_i, \max_j \bar X_j) + \log O_i

where O_i counts pulls and looks of arm i, \bar X_i averages both, and d is the Kullback-Leibler
divergence: (x - y)^2 / 2 for Gaussian rewards (in units of their scale), and the Bernoulli divergence
for rewards in [0, 1]. The authors prove that the regret without looks is asymptotically optimal; for
bounded rewards, they minimise the divergence over all distributions, which our version does only for
0/1 rewards. An active observer looks at the arm with the second smallest value. No theorem covers
IMED with looks.

The value of an arm depends on the means of the other arms, so IMED is not an index policy in the
sense of `index_policy`, and kibitz plays it stage by stage.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from kibitz._jit import jit
from kibitz.policies.index_policy import State, init, make_two_largest, update
from kibitz.policies.policy import Policy, Rewards, Statistics, check_rewards, check_scale


def imed(rewards: Rewards = "gaussian", scale: float | None = None) -> Policy:
    """Return IMED, which is not in the paper.

    Parameters
    ----------
    rewards
        "gaussian", "bernoulli" (0 or 1) or "bounded" (any number in [0, 1]).
    scale
        The sub-Gaussian scale of the rewards. Default: the scale of the problem.
    """
    in_unit_interval = check_rewards(rewards) != "gaussian"
    return Policy(
        "imed",
        {"bernoulli": in_unit_interval},
        init,
        pull,
        look,
        update,
        rewards=rewards,
        scale=check_scale(scale, rewards),
        parameters={"rewards": rewards},
    )


class Comparison(NamedTuple):
    """The data from which the IMED value of an arm is computed."""

    statistics: Statistics
    largest_mean: float


@jit
def compare_with_best(state: State) -> Comparison:
    """Return the statistics, and the largest mean of the arms that were pulled."""
    stats = state.statistics
    largest_mean = -np.inf
    for arm in range(stats.sums.size):
        if stats.n_pulls[arm] > 0:
            largest_mean = max(largest_mean, stats.sums[arm] / stats.n_observed[arm])
    return Comparison(stats, largest_mean)


@jit
def divergence(params: Any, mean: float, largest_mean: float) -> float:
    """Return the divergence between the reward distributions with these means."""
    if not params.bernoulli:
        return 0.5 * (largest_mean - mean) ** 2
    x, y = min(max(mean, 0.0), 1.0), min(max(largest_mean, 0.0), 1.0)
    if x >= y:
        return 0.0
    if y == 1.0:
        return np.inf
    gap = y - x  # `log1p` keeps the precision of small gaps
    value = -(1 - x) * math.log1p(-gap / (1 - x))
    return max(0.0, value - x * math.log1p(gap / x)) if x > 0 else value


@jit
def negative_value(params: Any, data: Comparison, stage: int, arm: int, rng: Any) -> Any:
    """Return minus the IMED value of an arm; infinity before the arm's first pull."""
    stats = data.statistics
    n = stats.n_observed[arm]
    if stats.n_pulls[arm] == 0:
        return np.inf
    # an infinite value would exclude the arm, but it must stay available as the runner-up
    return max(-n * divergence(params, stats.sums[arm] / n, data.largest_mean) - math.log(n), -1e300)


find_two_largest = make_two_largest(negative_value)


@jit
def pull(params: Any, state: State, stage: int, rng: Any) -> int:
    """Return the arm with the smallest IMED value."""
    return find_two_largest(params, compare_with_best(state), stage, state.allowed.size, rng)[0]


@jit
def look(params: Any, state: State, stage: int, rng: Any) -> int:
    """Return the arm with the second smallest IMED value."""
    return find_two_largest(params, compare_with_best(state), stage, state.allowed.size, rng)[1]
