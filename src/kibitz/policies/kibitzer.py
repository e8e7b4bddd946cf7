r"""kibitzer: our own policy, which knows neither the horizon nor the rate of looks.

Pull an arm without observations, the lowest first (a look counts), else the arm with the largest

.. math:: \bar X_i + \sqrt{2 \ell(x_i) / O_i}, \quad x_i = 1 + \frac{b\, t}{K O_i + b F}, \quad
   \ell(x) = \log x - \beta \log(1 + \log x)

where O_i counts pulls and looks of arm i, \bar X_i averages both and F is the number of looks so far.
t / F estimates 1/\varepsilon: the width is that of log(1/\varepsilon) if looks arrive, and that of
log(t / (K O_i)), as in MOSS-anytime, if they do not. For rewards in [0, 1] the index is the largest q
with O_i kl(\bar X_i, q) <= \ell(x_i).

Every fourth look goes to the arms in turn. In its r-th turn an arm is looked at if it has at most r
observations. A theorem needs this: each arm is certain to get a quarter of its fair share of looks.
All other looks go to an arm without observations, the highest first, unless it is being pulled. If
there is none, they go to the arm i \ne L of smallest

.. math:: O_i\, d(\bar X_i, \bar X_L) + \big(1 + \log(1 + t / 100 F)\big) \log O_i,

where L is the arm of largest mean, d is (\bar X_i - \bar X_L)^2 / 2 or the Bernoulli divergence, and
F includes this look. If looks are frequent, this is the index of IMED (Honda and Takemura, 2015),
applied to looks. If they are rare, an unlucky best arm would wait too long while looks go to arms
close to the leader, so the divergence gets less weight. Once the chosen arm has 256 observations, it
is held until it has a tenth more or L changes. Many looks can then be predicted (docs/leap.md).
"""

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from kibitz._jit import jit
from kibitz._validation import between, positive
from kibitz.policies.kl_ucb import bernoulli_index as kl_index
from kibitz.policies.policy import (
    LOOKS,
    NEVER,
    PULLS,
    Array,
    Hold,
    Policy,
    Rewards,
    Statistics,
    View,
    check_rewards,
    check_scale,
    count,
    new_statistics,
    params_type,
)

TURN_PERIOD = 4  # looks, one of which goes to the arms in turn
MIN_HOLD_COUNT = 256  # observations that an arm needs to be held
HOLD_DIVISOR = 10  # an arm is held for a tenth of its count
RARE_PERIOD = 100.0  # stages between looks from which on they are rare
MAX_MEAN = 1 - 2.0**-20  # of the leader, to keep divergences finite
KL_UCB = params_type(("c",))(0.0)  # parameters of KL-UCB with level log t


def kibitzer(
    b: float = 8.0, beta: float = 1.0, rewards: Rewards = "gaussian", scale: float | None = None
) -> Policy:
    """Return kibitzer, our own policy; not in the paper.

    Parameters
    ----------
    b
        Trades the mean of the regret (small b) against its tail (large b).
    beta
        The factor of log(1 + log x), in [0, 1]. 0 has a stronger theorem but more regret.
    rewards
        "gaussian", "bernoulli" (0 or 1) or "bounded" (any number in [0, 1]).
    scale
        The sub-Gaussian scale of the rewards. Default: the scale of the problem.
    """
    constants = {"b": positive(b, "b"), "beta": between(beta, "beta", 0, 1)}
    in_unit_interval = check_rewards(rewards) != "gaussian"
    return Policy(
        "kibitzer",
        constants,
        init,
        bernoulli_pull if in_unit_interval else pull,
        bernoulli_look if in_unit_interval else look,
        update,
        index=bernoulli_index if in_unit_interval else index,
        view=view,
        index_reads="statistics",
        additive=not in_unit_interval,
        hold=hold,
        due=due,
        rewards=rewards,
        scale=check_scale(scale, rewards),
        parameters={**constants, "rewards": rewards},
    )


class State(NamedTuple):
    """All statistics, and the current hold."""

    statistics: Statistics
    allowed: Array
    hold: Array  # one record


HOLD = np.dtype(
    [
        ("arm", np.int64),  # the held arm
        ("until", np.int64),  # the count of observations at which the hold ends
        ("leader", np.int64),  # the hold also ends if this arm loses the largest mean
    ],
    align=True,
)


@jit(allocates=True)
def init(params: Any, n_arms: int) -> State:
    """Return the state before any observation."""
    return State(new_statistics(n_arms, 0), np.ones(n_arms, np.bool_), np.zeros(1, HOLD))


@jit
def spread(params: Any, stage: int, stats: Statistics, arm: int) -> float:
    """Return x_i."""
    counts = stats.n_observed
    n_looks = stats.totals[LOOKS]
    return 1 + params.b * stage / (counts.size * counts[arm] + params.b * n_looks)


@jit
def index(params: Any, stage: int, stats: Statistics, arm: int, mean: float) -> float:
    """Return the index for Gaussian rewards."""
    log = math.log(spread(params, stage, stats, arm))
    level = log - params.beta * math.log(1 + log)  # negative only through rounding
    return mean + math.sqrt(2 * abs(level) / stats.n_observed[arm])


@jit
def bernoulli_index(params: Any, stage: int, stats: Statistics, arm: int, mean: float) -> float:
    """Return the index for rewards in [0, 1]: that of KL-UCB at the stage where the levels agree."""
    x = spread(params, stage, stats, arm)
    clock = x / (1 + math.log(x)) ** params.beta
    return kl_index(KL_UCB, max(1.0, clock), stats.n_observed, arm, mean)


@jit
def view(params: Any, state: State, stage: int) -> View:
    """Return all statistics and all arms; a look replaces the first pull of an arm."""
    stats = state.statistics
    return View(stats, stats.n_observed, state.allowed, 0, NEVER, True, NEVER)


@cache
def make_pull(index: Any) -> Any:
    """Return `pull` for an index."""

    def pull(params: Any, state: State, stage: int, rng: Any) -> int:
        """Return the first arm without observations, else the arm of largest index."""
        stats = state.statistics
        best, largest = 0, -np.inf
        for arm in range(stats.sums.size):
            n = stats.n_observed[arm]
            if n == 0:
                return arm
            value = index(params, stage, stats, arm, stats.sums[arm] / n)
            if value > largest:
                best, largest = arm, value
        return best

    return jit(pull)


pull, bernoulli_pull = make_pull(index), make_pull(bernoulli_index)


@jit
def find_leader(stats: Statistics) -> int:
    """Return the arm of largest mean among those with observations."""
    leader, largest = 0, -np.inf
    for arm in range(stats.sums.size):
        n = stats.n_observed[arm]
        if n > 0 and stats.sums[arm] / n > largest:
            leader, largest = arm, stats.sums[arm] / n
    return leader


@jit
def is_holding(state: State, leader: int) -> bool:
    """Return whether an arm is held, given that `leader` has the largest mean."""
    record = state.hold[0]
    return record["leader"] == leader and state.statistics.n_observed[record["arm"]] < record["until"]


@jit
def due(params: Any, state: State, arm: int, n: int) -> int:
    """Return how many of the next n looks an arm gets in turn, if nothing else shows it."""
    n_arms = state.allowed.size
    n_looks = state.statistics.totals[LOOKS]
    before = (n_looks // TURN_PERIOD - arm + n_arms - 1) // n_arms  # turns so far
    after = ((n_looks + n) // TURN_PERIOD - arm + n_arms - 1) // n_arms
    return max(0, after - max(before, state.statistics.n_observed[arm] - 1))


@jit
def hold(params: Any, state: State) -> Hold:
    """Return the held arm, the leader, and for how many looks the hold lasts."""
    stats, record = state.statistics, state.hold[0]
    leader = find_leader(stats)
    max_looks = record["until"] - stats.n_observed[record["arm"]] if is_holding(state, leader) else 0
    return Hold(record["arm"], leader, max_looks)


@jit
def find_unseen(state: State, stage: int) -> int:
    """Return the last arm without observations that is not being pulled, or -1."""
    first, last = -1, -1
    stats = state.statistics
    for arm in range(stats.n_observed.size):
        if stats.n_observed[arm] == 0:
            first = arm if first < 0 else first
            last = arm
    if last >= 0 and last == first and stats.totals[PULLS] < stage:
        return -1  # it is being pulled
    return last


@jit
def gaussian_divergence(mean: float, best: float) -> float:
    """Return the divergence of Gaussian distributions with standard deviation 1."""
    return (best - mean) ** 2 / 2


@jit
def bernoulli_divergence(mean: float, best: float) -> float:
    """Return the Bernoulli divergence kl(mean, best); 0 if mean >= best."""
    best = min(best, MAX_MEAN)
    if mean >= best:
        return 0.0
    rest = (1 - mean) * math.log((1 - mean) / (1 - best))
    return rest + mean * math.log(mean / best) if mean > 0 else rest


@cache
def make_look(divergence: Any) -> Any:
    """Return `look` for a divergence."""

    def look(params: Any, state: State, stage: int, rng: Any) -> int:
        """Return the arm in turn, an unseen arm, the held arm, or the arm of smallest IMED index."""
        stats = state.statistics
        counts, sums = stats.n_observed, stats.sums
        n_arms, n_looks = counts.size, stats.totals[LOOKS]
        turn = n_looks // TURN_PERIOD
        if n_looks % TURN_PERIOD == TURN_PERIOD - 1 and counts[turn % n_arms] < 2 + turn // n_arms:
            return turn % n_arms
        unseen = find_unseen(state, stage)
        if unseen >= 0:
            return unseen
        leader = find_leader(stats)
        if is_holding(state, leader):
            return state.hold[0]["arm"]
        best = sums[leader] / counts[leader]
        rarity = 1 + math.log(1 + stage / (RARE_PERIOD * (n_looks + 1)))
        look, smallest = -1, np.inf
        for arm in range(n_arms):
            n = counts[arm]
            if arm != leader and n > 0:
                value = n * divergence(sums[arm] / n, best)
                if value < smallest:  # else adding the logarithm, which is >= 0, cannot help
                    value += rarity * math.log(n)
                    if value < smallest:
                        look, smallest = arm, value
        if look < 0:  # of two arms one has observations and the other is being pulled
            look = 1 if leader == 0 else 0
        return look

    return jit(look)


look, bernoulli_look = make_look(gaussian_divergence), make_look(bernoulli_divergence)


@jit
def update(
    params: Any, state: State, stage: int, arm: int, n: int, total: float, is_look: bool
) -> State:
    """Count all observations; start to hold the arm of a look, if none is held.

    Every fourth look, which goes in turn, does not start a hold. Nor do several looks reported at
    once, because it is unknown which of them went in turn.
    """
    stats = state.statistics
    if is_look:
        record, n_before = state.hold[0], stats.n_observed[arm]
        # a hold for a single look changes nothing, unless it ends another hold
        may_hold = n_before >= MIN_HOLD_COUNT or stats.n_observed[record["arm"]] < record["until"]
        if may_hold and n == 1 and stats.totals[LOOKS] % TURN_PERIOD != TURN_PERIOD - 1:
            leader = find_leader(stats)
            if arm != leader and not is_holding(state, leader):
                record["arm"] = arm
                is_long = n_before >= MIN_HOLD_COUNT
                record["until"] = n_before + (max(1, n_before // HOLD_DIVISOR) if is_long else 1)
                record["leader"] = leader
    count(stats, arm, n, total, is_look)
    return state
