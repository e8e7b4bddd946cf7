r"""OCUCB-n (Lattimore, 2016): the index of the paper's active algorithm.

.. math::

    \bar X_i + \sqrt{2 \eta \log(B_i) / O_i}, \qquad
    B_i = \max\Big\{e, \log t, \frac{t \log t}{\sum_j \min\{O_i, O_j^\rho O_i^{1-\rho}\}}\Big\}

where t is the stage, O_i counts the observations of arm i, \bar X_i averages them and the sum is over
all arms j (paper, section 4.2; docs/errata/, D23). The paper states the index for pulls; here O_i
counts looks too, unless `ignore_looks` is true. As an active observer, the policy looks at the arm
with the second largest index; no theorem covers these looks.

The sum over j is O_i^{1-\rho} times the sum of min{O_i^\rho, O_j^\rho}. With many arms, the
statistics hold three lists of derived floats: the powers O_j^\rho by arm, the same powers in
ascending order, and for each k the sum of the k smallest powers. Computing an index then needs one
bisection, and a new count changes only the sums from its position on. The derived floats depend on
the counts alone, not on the order of the observations. With few arms, the sum is computed directly.
"""

import math
from typing import Any

import numpy as np

from kibitz._jit import jit
from kibitz._validation import between, flag, invalid, number
from kibitz.policies.index_policy import (
    State,
    make_choices,
    make_graph_functions,
    show as count_show,
    update as count_all,
    update_pulls as count_pulls,
    view,
    view_pulls,
)  # fmt: skip
from kibitz.policies.policy import Array, Policy, Statistics, check_scale, new_statistics

MIN_ARMS_WITH_SUMS = 16  # with fewer arms, the sum is computed directly


def ocucb(
    eta: float = 2.0, rho: float = 0.5, ignore_looks: bool = False, scale: float | None = None
) -> Policy:
    """Return OCUCB-n (section 4.2).

    Parameters
    ----------
    eta
        The constant \\eta > 1 of the index; 2 in the experiments of the paper.
    rho
        The constant \\rho in [1/2, 1] of the index; 1/2 in the experiments of the paper.
    ignore_looks
        Whether to learn from pulls only.
    scale
        The sub-Gaussian scale of the rewards. Default: the scale of the problem.
    """
    constants = ocucb_constants(eta, rho)
    pulls_only = flag(ignore_looks, "ignore_looks")
    view_function = view_pulls if pulls_only else view
    pull, runner_up = make_choices(index, view_function, "statistics")
    on_graph = make_graph_functions(index, "statistics", pulls_only)
    return Policy(
        "ocucb",
        constants,
        init,
        pull,
        runner_up,
        update_pulls if pulls_only else update,
        index=index,
        view=view_function,
        index_reads="statistics",
        on_graph=on_graph if pulls_only else on_graph._replace(show=show),
        scale=check_scale(scale),
        parameters={**constants, "ignore_looks": pulls_only},
    )


def ocucb_constants(eta: float, rho: float) -> dict[str, Any]:
    """Return the parameters of OCUCB-n; raise ValueError if they are out of range."""
    if not 1 < number(eta, "eta") < math.inf:
        raise invalid("eta", "above 1 and finite", eta)
    return {"eta": float(eta), "rho": between(rho, "rho", 0.5, 1)}


@jit
def index(params: Any, stage: int, stats: Statistics, arm: int, mean: float) -> float:
    """Return the index of OCUCB-n."""
    n, log_stage = float(stats.n_observed[arm]), math.log(stage)
    level = max(math.e, log_stage, stage * log_stage / sum_over_arms(params, stats, arm))
    return mean + math.sqrt(2 * params.eta * math.log(level) / n)


@jit
def power(rho: float, count: float) -> float:
    """Return count^rho."""
    return math.sqrt(count) if rho == 0.5 else count**rho


@jit(inline=False)
def sum_over_arms(params: Any, stats: Statistics, arm: int) -> float:
    """Return the sum over all arms j of min{O_i, O_j^rho O_i^(1-rho)}, where arm i is `arm`.

    O_j is the number of observations of arm j; arms without observations contribute 0. The sum is the
    denominator of a ratio in the index of arm i.
    """
    n = float(stats.n_observed[arm])
    own_power = power(params.rho, n)
    if stats.derived.size > 0:
        sum_of_minima = sum_minima(stats, arm, own_power)
    else:
        sum_of_minima = 0.0
        for count in stats.n_observed:
            sum_of_minima += min(own_power, power(params.rho, float(count)))
    return sum_of_minima * (own_power if params.rho == 0.5 else n ** (1 - params.rho))


# ---------------------------------------------------------------------------- incremental sums


@jit(allocates=True)
def ocucb_statistics(n_arms: int) -> Statistics:
    """Return statistics without observations; with many arms, they have space for derived floats."""
    return new_statistics(n_arms, 3 * n_arms + 1 if n_arms >= MIN_ARMS_WITH_SUMS else 0)


@jit(allocates=True)
def init(params: Any, n_arms: int) -> State:
    """Return the state before any observation."""
    return State(ocucb_statistics(n_arms), np.ones(n_arms, np.bool_))


@jit
def rank(ascending: Array, value: float) -> int:
    """Return the number of entries of an ascending array that are below `value`."""
    low, high = 0, ascending.size
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@jit
def derived_parts(stats: Statistics) -> tuple[Array, Array, Array]:
    """Return the three lists of derived floats.

    The lists are the powers O_j^rho by arm j, where O_j is the number of observations of arm j, the
    same powers in ascending order, and for each k the sum of the k smallest powers.
    """
    n_arms = stats.n_observed.size
    derived = stats.derived
    return derived[:n_arms], derived[n_arms : 2 * n_arms], derived[2 * n_arms :]


@jit
def sum_minima(stats: Statistics, arm: int, own_power: float) -> float:
    """Return the sum over all arms j of min{O_i^rho, O_j^rho}, where arm i is `arm`.

    O_j is the number of observations of arm j. `own_power` is the current O_i^rho; the derived floats
    may still contain an older power of arm i.
    """
    powers, ascending, sums = derived_parts(stats)
    n_below = rank(ascending, own_power)
    return (
        sums[n_below]
        + (ascending.size - n_below) * own_power
        + (own_power - min(own_power, powers[arm]))
    )


@jit(inline=False)
def update_derived(params: Any, stats: Statistics, arm: int) -> None:
    """Update the derived floats, if there are any, after the count of an arm has changed."""
    if stats.derived.size == 0:
        return
    powers, ascending, sums = derived_parts(stats)
    old_power, moved_power = powers[arm], power(params.rho, float(stats.n_observed[arm]))
    if moved_power == old_power:
        return
    powers[arm] = moved_power
    position, step = rank(ascending, moved_power), 1
    if moved_power > old_power:
        position, step = position - 1, -1
    first_changed = position
    while ascending[position] != old_power:  # shift the entries between the old and the new position
        ascending[position], moved_power = moved_power, ascending[position]
        position += step
    ascending[position] = moved_power
    first_changed = min(first_changed, position)
    running_sum = sums[first_changed]
    for k in range(first_changed, ascending.size):
        running_sum += ascending[k]
        sums[k + 1] = running_sum


@jit
def update(
    params: Any, state: State, stage: int, arm: int, n: int, total: float, is_look: bool
) -> State:
    """Count pulls and looks, and learn from both."""
    update_derived(params, count_all(params, state, stage, arm, n, total, is_look).statistics, arm)
    return state


@jit
def update_pulls(
    params: Any, state: State, stage: int, arm: int, n: int, total: float, is_look: bool
) -> State:
    """Count pulls and looks, but learn from pulls only."""
    update_derived(params, count_pulls(params, state, stage, arm, n, total, is_look).statistics, arm)
    return state


@jit
def show(params: Any, state: State, stage: int, pulled: int, arm: int, n: int, total: float) -> State:
    """Learn from what a pull showed."""
    stats = count_show(params, state, stage, pulled, arm, n, total).statistics
    update_derived(params, stats, arm)
    return state
