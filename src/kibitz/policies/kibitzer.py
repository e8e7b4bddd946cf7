r"""kibitzer: our own policy, which knows neither the horizon nor the rate of looks.

kibitzer first pulls every arm without observations, the lowest arm first; an arm that was looked at
need not be pulled first. Then kibitzer pulls the arm with the largest

.. math:: \bar X_i + \sqrt{2 \ell(x_i) / O_i}, \quad
   x_i = 1 + \frac{b\, t}{\min(K O_i + b F, \; K (2 O_i + b F_i))}, \quad
   \ell(x) = \log x - \beta \log(1 + \log x)

where t is the stage, O_i counts pulls and looks of arm i, \bar X_i averages both, K is the number of
arms, F_i is the number of looks at arm i, F is the number of all looks, and b and \beta are
parameters. For rewards in [0, 1], the index is the largest q with O_i kl(\bar X_i, q) <= \ell(x_i).

The ratio t / F estimates 1/\varepsilon, where \varepsilon is the rate of looks. If an arm gets its
fair share of the looks, the first term of the minimum is smaller, and the logarithm in the width is
about \log(1/\varepsilon). If an arm gets fewer looks, the second term is smaller: t / (K F_i) then
estimates how rarely this arm is shown. If the arm is never shown, the logarithm is about
\log(t / (K O_i)), as in MOSS-anytime. Without the second term, passive looks that never show the best
arm would make the regret linear.

Every fourth look goes to the arms in turn. In its r-th turn, an arm is looked at only if it has at
most r observations. A theorem needs this rule, which guarantees that each arm gets a quarter of its
fair share of looks. All other looks go to an arm without observations that is not pulled at the same
stage, the highest arm first. If there is no such arm, these looks go to the arm i \ne L with the
smallest

.. math:: O_i\, d(\bar X_i, \bar X_L) + \big(1 + \log(1 + t / 100 F)\big) \log O_i,

where L is the arm with the largest mean, d is (\bar X_i - \bar X_L)^2 / 2 or the Bernoulli
divergence, and F includes this look. If looks are frequent, this is the index of IMED (Honda and
Takemura, 2015), applied to looks. If looks are rare, a best arm with unlucky rewards would wait too
long while looks go to arms close to the leader, so the second term gets more weight. If the chosen
arm has at least 256 observations, kibitzer holds it: this arm gets all looks that do not go in turn,
until it has a tenth more observations or L changes. The engine can then predict many looks
(docs/leap.md).
"""

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from kibitz._jit import jit
from kibitz._validation import between, positive
from kibitz.policies.index_policy import hide, show
from kibitz.policies.kl_ucb import bernoulli_index as kl_index
from kibitz.policies.policy import (
    LOOKS,
    NEVER,
    PULLS,
    Array,
    GraphFunctions,
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

TURN_PERIOD = 4  # every fourth look goes to the arms in turn
MIN_HOLD_COUNT = 256  # an arm with fewer observations is never held
HOLD_DIVISOR = 10  # an arm with n observations is held for n / HOLD_DIVISOR more observations
RARE_PERIOD = 100.0  # looks that are more than this many stages apart are rare
MAX_MEAN = 1 - 2.0**-20  # the leader's mean is cut to this value, to keep divergences finite
KL_UCB = params_type(("c",))(0.0)  # parameters of KL-UCB with level log t


def kibitzer(
    b: float = 8.0, beta: float = 1.0, rewards: Rewards = "gaussian", scale: float | None = None
) -> Policy:
    """Return kibitzer, our own policy, which is not in the paper.

    Parameters
    ----------
    b
        The constant b of the index. A larger b makes a large regret less likely; a smaller b reduces
        the mean regret.
    beta
        The factor \\beta of log(1 + log x) in the index, from 0 to 1. With 0, a stronger theorem
        holds, but the regret is larger.
    rewards
        "gaussian", "bernoulli" (0 or 1) or "bounded" (any number in [0, 1]).
    scale
        The sub-Gaussian scale of the rewards. Default: the scale of the problem.
    """
    constants = {"b": positive(b, "b"), "beta": between(beta, "beta", 0, 1)}
    in_unit_interval = check_rewards(rewards) != "gaussian"
    choices = (bernoulli_pull, bernoulli_look) if in_unit_interval else (pull, look)
    return Policy(
        "kibitzer",
        constants,
        init,
        *choices,
        update,
        index=bernoulli_index if in_unit_interval else index,
        view=view,
        index_reads="statistics",
        additive=not in_unit_interval,
        hold=hold,
        looks_due=looks_due,
        on_graph=GraphFunctions(*choices, view, show, hide),
        rewards=rewards,
        scale=check_scale(scale, rewards),
        parameters={**constants, "rewards": rewards},
    )


class State(NamedTuple):
    """The statistics of all observations, the allowed arms (all of them), and the current hold."""

    statistics: Statistics
    allowed: Array
    hold: Array  # one record of type HOLD


HOLD = np.dtype(
    [
        ("arm", np.int64),  # the held arm
        ("until", np.int64),  # the hold ends when the held arm has this many observations
        ("leader", np.int64),  # the hold also ends when this arm no longer has the largest mean
    ],
    align=True,
)


@jit(allocates=True)
def init(params: Any, n_arms: int) -> State:
    """Return the state before any observation."""
    return State(new_statistics(n_arms, 0), np.ones(n_arms, np.bool_), np.zeros(1, HOLD))


@jit
def spread(params: Any, stage: int, stats: Statistics, arm: int) -> float:
    """Return x_i, the argument of the logarithm in the index (see the docstring of this module)."""
    n_arms, n = stats.n_observed.size, stats.n_observed[arm]
    all_looks, own_looks = stats.totals[LOOKS], stats.n_looks[arm]
    denominator = min(n_arms * n + params.b * all_looks, n_arms * (2 * n + params.b * own_looks))
    return 1 + params.b * stage / denominator


@jit
def index(params: Any, stage: int, stats: Statistics, arm: int, mean: float) -> float:
    """Return the index for Gaussian rewards."""
    log = math.log(spread(params, stage, stats, arm))
    level = log - params.beta * math.log(1 + log)  # negative only because of rounding
    return mean + math.sqrt(2 * abs(level) / stats.n_observed[arm])


@jit
def bernoulli_index(params: Any, stage: int, stats: Statistics, arm: int, mean: float) -> float:
    """Return the index for rewards in [0, 1].

    The index equals KL-UCB's index at the (fractional) stage whose logarithm is kibitzer's level.
    """
    x = spread(params, stage, stats, arm)
    clock = x / (1 + math.log(x)) ** params.beta
    return kl_index(KL_UCB, max(1.0, clock), stats.n_observed, arm, mean)


@jit
def view(params: Any, state: State, stage: int) -> View:
    """Return all statistics and all arms; an arm that was looked at need not be pulled first."""
    stats = state.statistics
    return View(stats, stats.n_observed, state.allowed, 0, NEVER, True, NEVER)


@cache
def make_pull(index: Any) -> Any:
    """Return a function `pull` that compares arms by `index`."""

    def pull(params: Any, state: State, stage: int, rng: Any) -> int:
        """Return the lowest arm without observations, or else the arm with the largest index."""
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
    """Return the arm with the largest mean among the arms with observations."""
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
def looks_due(params: Any, state: State, arm: int, n: int) -> int:
    """Return how many of the next n looks an arm gets in turn.

    The number is exact if the arm gets no other observations during these looks.
    """
    n_arms = state.allowed.size
    n_looks = state.statistics.totals[LOOKS]
    before = (n_looks // TURN_PERIOD - arm + n_arms - 1) // n_arms  # turns of the arm so far
    after = ((n_looks + n) // TURN_PERIOD - arm + n_arms - 1) // n_arms
    return max(0, after - max(before, state.statistics.n_observed[arm] - 1))


@jit
def hold(params: Any, state: State) -> Hold:
    """Return the held arm, the leader, and the number of looks for which the hold lasts."""
    stats, record = state.statistics, state.hold[0]
    leader = find_leader(stats)
    max_looks = record["until"] - stats.n_observed[record["arm"]] if is_holding(state, leader) else 0
    return Hold(record["arm"], leader, max_looks)


@jit
def find_unseen(state: State, stage: int) -> int:
    """Return the highest arm without observations that is not being pulled; -1 if there is none."""
    first, last = -1, -1
    stats = state.statistics
    for arm in range(stats.n_observed.size):
        if stats.n_observed[arm] == 0:
            first = arm if first < 0 else first
            last = arm
    if last >= 0 and last == first and stats.totals[PULLS] < stage:
        return -1  # the only arm without observations is being pulled
    return last


@jit
def gaussian_divergence(mean: float, best: float) -> float:
    """Return the divergence of Gaussian distributions with these means and standard deviation 1."""
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
    """Return a function `look` that compares arms by `divergence`."""

    def look(params: Any, state: State, stage: int, rng: Any) -> int:
        """Return the arm to look at.

        The choice is the first of these that exists: the arm whose turn it is, an arm without
        observations, the held arm, the arm with the smallest IMED index.
        """
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
        choice, smallest = -1, np.inf
        for arm in range(n_arms):
            n = counts[arm]
            if arm != leader and n > 0:
                value = n * divergence(sums[arm] / n, best)
                if value < smallest:  # if not, skip the second term, which is not negative
                    value += rarity * math.log(n)
                    if value < smallest:
                        choice, smallest = arm, value
        if choice < 0:  # there are two arms: one has observations, the other is being pulled
            choice = 1 if leader == 0 else 0
        return choice

    return jit(look)


look, bernoulli_look = make_look(gaussian_divergence), make_look(bernoulli_divergence)


@jit
def update(
    params: Any, state: State, stage: int, arm: int, n: int, total: float, is_look: bool
) -> State:
    """Count observations; a look starts a hold of its arm if no arm is held.

    A look that goes in turn (every fourth look) does not start a hold. Several looks reported at once
    do not start a hold either, because it is unknown which of these looks went in turn.
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
