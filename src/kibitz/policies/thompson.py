r"""Thompson sampling, which learns from pulls and looks.

Thompson sampling pulls each arm once, then the arm with the largest posterior sample. With a flat
prior the posterior of arm i is N(\bar X_i, 1/O_i) for Gaussian rewards (in units of their scale), and
Beta(1 + S_i, 1 + O_i - S_i) for rewards in [0, 1], where O_i counts pulls and looks, \bar X_i
averages both and S_i is the sum of their rewards. An active observer looks at the arm with the second
largest sample in a fresh set of samples, which spreads the looks over the arms that may still be
best. The paper only mentions Thompson sampling (section 1).
"""

import math
from typing import Any

import numpy as np

from kibitz._jit import jit
from kibitz.policies.index_policy import State, hide, init, make_two_largest, show, update
from kibitz.policies.policy import GraphFunctions, Policy, Rewards, check_rewards, check_scale


def thompson(rewards: Rewards = "gaussian", scale: float | None = None) -> Policy:
    """Return Thompson sampling, which the paper only mentions (section 1).

    Parameters
    ----------
    rewards
        "gaussian", "bernoulli" (0 or 1) or "bounded" (any number in [0, 1]).
    scale
        The sub-Gaussian scale of the rewards. Default: the scale of the problem.
    """
    has_beta_prior = check_rewards(rewards) != "gaussian"
    return Policy(
        "thompson",
        {"beta": has_beta_prior},
        init,
        pull,
        look,
        update,
        on_graph=GraphFunctions(pull_on_graph, look_on_graph, None, show, hide),
        rewards=rewards,
        scale=check_scale(scale, rewards),
        parameters={"rewards": rewards},
    )


@jit
def draw_sample(params: Any, state: State, stage: int, arm: int, rng: Any) -> Any:
    """Return a sample from the posterior of an arm's mean; infinity before the arm's first pull."""
    if state.statistics.n_pulls[arm] == 0:
        return np.inf
    return draw_posterior(params, state, stage, arm, rng)


@jit
def draw_posterior(params: Any, state: State, stage: int, arm: int, rng: Any) -> Any:
    """Return a sample from the posterior of an arm's mean; infinity without observations."""
    stats = state.statistics
    n, total = stats.n_observed[arm], stats.sums[arm]
    if n == 0:
        return np.inf
    if params.beta:
        return rng.beta(1.0 + total, 1.0 + n - total)
    return total / n + 1 / math.sqrt(n) * rng.standard_normal()


find_two_largest = make_two_largest(draw_sample)
find_two_largest_on_graph = make_two_largest(draw_posterior)


@jit
def pull(params: Any, state: State, stage: int, rng: Any) -> Any:
    """Return the arm with the largest sample."""
    return find_two_largest(params, state, stage, state.allowed.size, rng)[0]


@jit
def look(params: Any, state: State, stage: int, rng: Any) -> Any:
    """Return the arm with the second largest sample, in a fresh set of samples."""
    return find_two_largest(params, state, stage, state.allowed.size, rng)[1]


@jit
def pull_on_graph(params: Any, state: State, stage: int, rng: Any) -> Any:
    """Return the arm with the largest sample; an arm that was shown need not be pulled first."""
    return find_two_largest_on_graph(params, state, stage, state.allowed.size, rng)[0]


@jit
def look_on_graph(params: Any, state: State, stage: int, rng: Any) -> Any:
    """Return the arm with the second largest sample, in a fresh set of samples."""
    return find_two_largest_on_graph(params, state, stage, state.allowed.size, rng)[1]
