r"""UCB that learns from looks as well as from pulls.

Pull each arm once, then the arm with the largest

.. math:: \bar X_i + \sqrt{c \log t / O_i}

where t is the stage, O_i counts pulls and looks (free observations) of arm i and \bar X_i averages
both. With c = 6 this is Algorithm 1 of the paper (Degenne, Garcelon and Perchet, UAI 2018).
Theorem 3, as corrected in docs/errata/ (D19), bounds its regret as a passive observer.
`ignore_looks=True` gives the plain bandit algorithm, in which O_i is the number of pulls N_i.

As an active observer, `ucb` looks at the arm with the second largest index. The paper calls this
policy "UCB1-Double" (section 4.2.1); no theorem covers it. `ucb_double` is the same policy under the
paper's name.

In `ucb_second`, a second UCB chooses the look among the arms that are not pulled (section 5, "optimal
sampling distribution"). The second UCB learns from looks only, and its clock is the number of looks.
It chooses the arm with the largest

.. math:: \bar Y_i + \sqrt{c \log(1 + \sum_j F_j) / F_i}

where F_i counts the looks at arm i and \bar Y_i averages their rewards. Arms without looks come
first. The paper gives no formula; this is our interpretation.
"""

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from kibitz._jit import jit
from kibitz._validation import flag, positive
from kibitz.policies.index_policy import (
    hide,
    index_policy,
    inverse_root,
    make_choices,
    make_separable_index,
    make_two_largest,
    show,
    with_factors,
)
from kibitz.policies.policy import (
    LOOKS,
    NEVER,
    Array,
    GraphFunctions,
    Policy,
    Statistics,
    View,
    check_scale,
    count,
    new_statistics,
)


def ucb(exploration: float = 6.0, ignore_looks: bool = False, scale: float | None = None) -> Policy:
    """Return UCB (Algorithm 1).

    Parameters
    ----------
    exploration
        The constant c of the index; 6 in the paper, for rewards of sub-Gaussian scale 1.
    ignore_looks
        Whether to learn from pulls only, as the plain bandit algorithm does.
    scale
        The sub-Gaussian scale of the rewards. Default: the scale of the problem.
    """
    c = positive(exploration, "exploration")
    parameters = {"exploration": c, "ignore_looks": flag(ignore_looks, "ignore_looks")}
    policy = index_policy(
        "ucb", index, ignore_looks=ignore_looks, scale=scale, parameters=parameters, exploration=c
    )
    return with_factors(policy, growth, inverse_root)


def ucb_double(exploration: float = 6.0, scale: float | None = None) -> Policy:
    """Return UCB1-Double: UCB that looks at the arm with the second largest index (section 4.2.1)."""
    c = positive(exploration, "exploration")
    policy = index_policy("ucb_double", index, scale=scale, exploration=c)
    return with_factors(policy, growth, inverse_root)


def ucb_second(exploration: float = 6.0, scale: float | None = None) -> Policy:
    """Return UCB with a second UCB, which looks at an arm that is not pulled (section 5)."""
    constants = {"exploration": positive(exploration, "exploration")}
    return Policy(
        "ucb_second",
        constants,
        init,
        pull,
        look,
        update,
        index=index,
        view=view,
        factors=(growth, inverse_root),
        on_graph=GraphFunctions(pull_on_graph, look_on_graph, view_on_graph, show, hide),
        scale=check_scale(scale),
        parameters=constants,
    )


@jit
def growth(params: Any, stage: int) -> float:
    """Return the factor of the index that depends on the stage."""
    return math.sqrt(params.exploration * math.log(stage))


index = make_separable_index(growth, inverse_root)  # the upper confidence bound of Algorithm 1


class State(NamedTuple):
    """The statistics of all observations, and the sums of the rewards of looks."""

    statistics: Statistics
    look_sums: Array
    allowed: Array


@jit(allocates=True)
def init(params: Any, n_arms: int) -> State:
    """Return the state before any observation."""
    return State(new_statistics(n_arms, 0), np.zeros(n_arms, np.float64), np.ones(n_arms, np.bool_))


@jit
def view(params: Any, state: State, stage: int) -> View:
    """Return the data of the first UCB.

    `max_looks` is 0, because each look may change the choice of the next look.
    """
    stats = state.statistics
    return View(stats, stats.n_pulls, state.allowed, 0, NEVER, True, 0)


@jit
def view_on_graph(params: Any, state: State, stage: int) -> View:
    """Return the same view as `view`, but an arm that was observed need not be pulled first."""
    stats = state.statistics
    return View(stats, stats.n_observed, state.allowed, 0, NEVER, True, 0)


pull, _ = make_choices(index, view)
pull_on_graph, _ = make_choices(index, view_on_graph)


@jit
def look_index(params: Any, state: State, clock: int, arm: int, rng: Any) -> float:
    """Return the index of an arm, based on its looks only; infinity before the arm's first look."""
    n_looks = state.statistics.n_looks
    if n_looks[arm] == 0:
        return np.inf
    return index(params, clock, n_looks, arm, state.look_sums[arm] / n_looks[arm])


find_two_best_looks = make_two_largest(look_index)


@cache
def make_look(pull: Any) -> Any:
    """Return the function `look` for the first UCB's function `pull`."""

    def look(params: Any, state: State, stage: int, rng: Any) -> Any:
        """Return the choice of the second UCB among the arms that the first UCB does not pull."""
        pulled_arm = pull(params, state, stage, rng)
        clock = 1 + state.statistics.totals[LOOKS]
        best_arm, second_arm = find_two_best_looks(params, state, clock, state.allowed.size, rng)
        return second_arm if pulled_arm == best_arm else best_arm

    return jit(look)


look, look_on_graph = make_look(pull), make_look(pull_on_graph)


@jit
def update(
    params: Any, state: State, stage: int, arm: int, n: int, total: float, is_look: bool
) -> State:
    """Count an observation for the first UCB; count a look for the second UCB too."""
    count(state.statistics, arm, n, total, is_look)
    if is_look:
        state.look_sums[arm] += total
    return state
