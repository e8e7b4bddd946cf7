r"""OCUCB-n (Lattimore, 2016): the index of the paper's active algorithm.

.. math::

    \bar X_i + \sqrt{2 \eta \log(B_i) / O_i}, \qquad
    B_i = \max\Big\{e, \log t, \frac{t \log t}{\sum_j \min\{O_i, O_j^\rho O_i^{1-\rho}\}}\Big\}

with the sum over j (paper, section 4.2; docs/errata.md, D23). The paper states it for pulls; here it
counts looks too unless `ignore_looks`. As an active observer it looks at the runner-up; no theorem
covers that.

The sum over j is O_i^{1-\rho} times that of min{O_i^\rho, O_j^\rho}: the powers below O_i^\rho, and
O_i^\rho for each other arm. With many arms the statistics hold, as derived floats, the powers by arm,
the powers in ascending order and the sums of the k least of them. An index is then a bisection, and a
new count updates the sums from its place on. The derived floats depend on the counts only, not on
their history. Without them the sum is computed as the formula says.
"""

import math
from typing import Any

import numpy as np

from kibitz._jit import jit
from kibitz._validation import between, flag, invalid, number
from kibitz.policies.index_policy import (
    State,
    choices_by,
    update as count_all,
    update_pulls as count_pulls,
    view,
    view_pulls,
)  # fmt: skip
from kibitz.policies.policy import Array, Policy, Statistics, check_scale, new_statistics

MANY = 16  # arms from which on the sums are kept up to date


def ocucb(
    eta: float = 2.0, rho: float = 0.5, ignore_looks: bool = False, scale: float | None = None
) -> Policy:
    """Return OCUCB-n (section 4.2).

    Parameters
    ----------
    eta
        \\eta > 1; 2 in the experiments.
    rho
        \\rho in [1/2, 1]; 1/2 in the experiments.
    ignore_looks
        Whether to learn from pulls only.
    scale
        The sub-Gaussian scale of the rewards; that of the problem unless given.
    """
    constants = ocucb_constants(eta, rho)
    pulls_only = flag(ignore_looks, "ignore_looks")
    view_of = view_pulls if pulls_only else view
    pull, runner_up = choices_by(index, view_of, "statistics")
    return Policy(
        "ocucb",
        constants,
        init,
        pull,
        runner_up,
        update_pulls if pulls_only else update,
        index=index,
        view=view_of,
        index_reads="statistics",
        scale=check_scale(scale),
        parameters={**constants, "ignore_looks": pulls_only},
    )


def ocucb_constants(eta: float, rho: float) -> dict[str, Any]:
    """Return the parameters of OCUCB-n, or refuse those that it is not defined for."""
    if not 1 < number(eta, "eta") < math.inf:
        raise invalid("eta", "above 1 and finite", eta)
    return {"eta": float(eta), "rho": between(rho, "rho", 0.5, 1)}


@jit
def index(params: Any, stage: int, known: Statistics, arm: int, mean: float) -> float:
    """Return the index of OCUCB-n."""
    n, log = float(known.n_observed[arm]), math.log(stage)
    level = max(math.e, log, stage * log / total(params, known, arm))
    return mean + math.sqrt(2 * params.eta * math.log(level) / n)


@jit
def power(rho: float, count: float) -> float:
    """Return O^rho."""
    return math.sqrt(count) if rho == 0.5 else count**rho


@jit(inline=False)
def total(params: Any, known: Statistics, arm: int) -> float:
    """Return the sum over j; an arm with no observations adds nothing to it."""
    n = float(known.n_observed[arm])
    own = power(params.rho, n)
    if known.derived.size > 0:
        least = sum_of_least(known, arm, own)
    else:
        least = 0.0
        for count in known.n_observed:
            least += min(own, power(params.rho, float(count)))
    return least * (own if params.rho == 0.5 else n ** (1 - params.rho))


# ------------------------------------------------------------------- sums that are kept up to date


@jit(allocates=True)
def ocucb_statistics(n_arms: int) -> Statistics:
    """Return statistics without observations, with derived floats if there are many arms."""
    return new_statistics(n_arms, 3 * n_arms + 1 if n_arms >= MANY else 0)


@jit(allocates=True)
def init(params: Any, n_arms: int) -> State:
    """Return the state before any observation."""
    return State(ocucb_statistics(n_arms), np.ones(n_arms, np.bool_))


@jit
def rank(ascending: Array, value: float) -> int:
    """Return how many of some ascending numbers are below a value."""
    low, high = 0, ascending.size
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@jit
def derived_parts(known: Statistics) -> tuple[Array, Array, Array]:
    """Return the powers by arm, the powers in ascending order, and the sums of the k least."""
    n_arms = known.n_observed.size
    derived = known.derived
    return derived[:n_arms], derived[n_arms : 2 * n_arms], derived[2 * n_arms :]


@jit
def sum_of_least(known: Statistics, arm: int, own: float) -> float:
    """Return the sum over j of min{O_i^rho, O_j^rho}, where `own` is the current O_i^rho."""
    powers, ascending, sums = derived_parts(known)
    below = rank(ascending, own)
    return sums[below] + (ascending.size - below) * own + (own - min(own, powers[arm]))


@jit(inline=False)
def update_derived(params: Any, known: Statistics, arm: int) -> None:
    """Update the derived floats, if there are any, after the count of an arm has changed."""
    if known.derived.size == 0:
        return
    powers, ascending, sums = derived_parts(known)
    old, new = powers[arm], power(params.rho, float(known.n_observed[arm]))
    if new == old:
        return
    powers[arm] = new
    place, step = rank(ascending, new), 1
    if new > old:
        place, step = place - 1, -1
    first = place
    while ascending[place] != old:  # shift the entries in between by one place
        ascending[place], new = new, ascending[place]
        place += step
    ascending[place] = new
    first = min(first, place)
    so_far = sums[first]
    for k in range(first, ascending.size):
        so_far += ascending[k]
        sums[k + 1] = so_far


@jit
def update(
    params: Any, state: State, stage: int, arm: int, n: int, total: float, is_look: bool
) -> State:
    """Count all observations."""
    update_derived(params, count_all(params, state, stage, arm, n, total, is_look).statistics, arm)
    return state


@jit
def update_pulls(
    params: Any, state: State, stage: int, arm: int, n: int, total: float, is_look: bool
) -> State:
    """Count pulls only."""
    update_derived(params, count_pulls(params, state, stage, arm, n, total, is_look).statistics, arm)
    return state
