r"""OCUCB-n (Lattimore, 2016): the index of the paper's active algorithm.

.. math::

    \bar X_i + \sqrt{2 \eta \log(B_i) / O_i}, \qquad
    B_i = \max\Big\{e, \log t, \frac{t \log t}{\sum_j \min\{O_i, O_j^\rho O_i^{1-\rho}\}}\Big\}

with the sum over j (paper, section 4.2; docs/errata.md, D23). The paper states it for pulls; here it
counts looks too unless `ignore_free`. As an active observer it looks at the runner-up; no theorem
covers that.

The sum over j is O_i^{1-\rho} times that of min{O_i^\rho, O_j^\rho}: the powers below O_i^\rho, and
O_i^\rho for each other arm. With many arms the powers are kept in ascending order, and the sums of
the least of them, behind the counts; then an index is a bisection, and a new count adds up the
powers from its place on. These sums follow from the counts alone, whatever came first. Counts that
have nothing behind them are summed up as the formula says.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from kibitz._validation import between, flag, number, refused
from kibitz.engine.jit import jit, jit_init, jit_rare
from kibitz.policies.policy import (
    Array,
    Policy,
    Seen,
    index_policy,
    seen_init,
    seen_update,
    seen_update_pulls,
)

MANY = 16  # arms from which on the sums are kept


def ocucb(
    eta: float = 2.0, rho: float = 0.5, ignore_free: bool = False, scale: float | None = None
) -> Policy:
    """Return OCUCB-n (section 4.2).

    Parameters
    ----------
    eta
        \\eta > 1; 2 in the experiments.
    rho
        \\rho in [1/2, 1]; 1/2 in the experiments.
    ignore_free
        Whether to learn from pulls only.
    scale
        The sub-Gaussian scale of the rewards; that of the problem unless given.
    """
    numbers = ocucb_numbers(eta, rho)
    setting = {**numbers, "ignore_free": flag(ignore_free, "ignore_free")}
    policy = index_policy(
        "ocucb", index, ignore_free=ignore_free, scale=scale, setting=setting, **numbers
    )
    return replace(policy, init=init, update=update_pulls if ignore_free else update)


def ocucb_numbers(eta: float, rho: float) -> dict[str, Any]:
    """Return the parameters of OCUCB-n, or refuse those that it is not defined for."""
    if not 1 < number(eta, "eta") < math.inf:
        raise refused("eta", "above 1 and finite", eta)
    return {"eta": float(eta), "rho": between(rho, "rho", 0.5, 1)}


@jit
def index(params: Any, stage: int, counts: Array, arm: int, mean: float) -> float:
    """Return the index of OCUCB-n."""
    n, log = float(counts[arm]), math.log(stage)
    level = max(math.e, log, stage * log / total(params, counts, arm))
    return mean + math.sqrt(2 * params.eta * math.log(level) / n)


@jit
def power(rho: float, count: float) -> float:
    """Return O^rho."""
    return math.sqrt(count) if rho == 0.5 else count**rho


@jit_rare
def total(params: Any, counts: Array, arm: int) -> float:
    """Return the sum over j; an arm with no observations adds nothing to it."""
    n = float(counts[arm])
    own = power(params.rho, n)
    if counts[counts.size - 1] < 0:
        least = kept_least(counts, arm, own)
    else:
        least = 0.0
        for count in counts:
            least += min(own, power(params.rho, float(count)))
    return least * (own if params.rho == 0.5 else n ** (1 - params.rho))


# ------------------------------------------------------------------------------ sums that are kept

# Behind the counts of many arms stand, as the bits of floats, the powers of the counts by arm, the
# same powers in ascending order and the sums of the k least of them; last, minus the number of arms.


@jit_init
def init(params: Any, n_arms: int) -> Seen:
    """Return the state before anything was seen."""
    seen = seen_init(params, n_arms)
    return Seen(seen.n_pulls, new_counts(n_arms), seen.sums, seen.n_looks, seen.allowed)


@jit_init
def new_counts(n_arms: int) -> Array:
    """Return counts of so many arms, with sums behind them if there are many."""
    if n_arms < MANY:
        return np.zeros(n_arms, np.int64)
    counts = np.zeros(4 * n_arms + 2, np.int64)
    counts[-1] = -n_arms
    return counts


@jit
def behind(counts: Array) -> tuple[Array, Array, Array]:
    """Return what stands behind the counts: powers by arm, ascending, and sums of the k least."""
    n_arms = -counts[counts.size - 1]
    numbers = counts[n_arms : 4 * n_arms + 1].view(np.float64)
    return numbers[:n_arms], numbers[n_arms : 2 * n_arms], numbers[2 * n_arms :]


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
def kept_least(counts: Array, arm: int, own: float) -> float:
    """Return the sum over j of min{O_i^rho, O_j^rho}, for whatever O_i^rho is now (`own`)."""
    powers, ascending, sums = behind(counts)
    below = rank(ascending, own)
    return sums[below] + (ascending.size - below) * own + (own - min(own, powers[arm]))


@jit_rare
def recount(params: Any, counts: Array, arm: int) -> None:
    """Bring the sums up to date, if there are any, when the count of an arm has changed."""
    if counts[counts.size - 1] >= 0:
        return
    powers, ascending, sums = behind(counts)
    old, new = powers[arm], power(params.rho, float(counts[arm]))
    if new == old:
        return
    powers[arm] = new
    place, step = rank(ascending, new), 1
    if new > old:
        place, step = place - 1, -1
    first = place
    while ascending[place] != old:  # those in between move on, into the place that gets free
        ascending[place], new = new, ascending[place]
        place += step
    ascending[place] = new
    first = min(first, place)
    so_far = sums[first]
    for k in range(first, ascending.size):
        so_far += ascending[k]
        sums[k + 1] = so_far


@jit
def update(params: Any, state: Seen, stage: int, arm: int, n: int, total: float, free: bool) -> Seen:
    """Count all observations."""
    state = seen_update(params, state, stage, arm, n, total, free)
    recount(params, state.counts, arm)
    return state


@jit
def update_pulls(
    params: Any, state: Seen, stage: int, arm: int, n: int, total: float, free: bool
) -> Seen:
    """Count pulls only."""
    state = seen_update_pulls(params, state, stage, arm, n, total, free)
    recount(params, state.counts, arm)
    return state
