r"""kibitzer: our own policy, which knows neither the horizon nor the rate of looks.

Pull an arm that was never seen, lowest first (a look is enough), else the arm with the largest

.. math:: \bar X_i + \sqrt{2 \ell(x_i) / O_i}, \quad x_i = 1 + \frac{b\, t}{K O_i + b F}, \quad
   \ell(x) = \log x - \beta \log(1 + \log x)

where O_i counts pulls and looks of arm i, \bar X_i averages both and F is the number of looks so far.
t / F stands for 1/\varepsilon: the width is that of log(1/\varepsilon) where looks come, and of
log(t / (K O_i)), as in MOSS-anytime, where they do not. For rewards in [0, 1] the index is the
largest q with O_i kl(\bar X_i, q) <= \ell(x_i).

Every fourth look is for the arms in turn. In its r-th turn an arm is looked at if it was seen r times
or less, which is what a theorem needs: each arm is sure of a quarter of its fair share of looks. All
other looks go to an arm that was never seen, highest first, other than the one that is pulled, else,
with L the arm of largest mean, to the arm i other than L of smallest

.. math:: O_i\, d(\bar X_i, \bar X_L) + \big(1 + \log(1 + t / 100 F)\big) \log O_i,

d being (\bar X_i - \bar X_L)^2 / 2, or the Bernoulli divergence, and F counting this look, too. Where
looks are not rare it is the index of IMED (Honda and Takemura, 2015), here for looks; the rarer they
are, the longer an unlucky best arm would wait for looks at arms that hardly differ from the leader,
and the less the divergence counts. Once it was seen 256 times, that arm is held until it was seen a
tenth more often, or L is another arm, so that many looks can be foreseen (docs/leap.md).
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

EVERY = 4  # of so many looks one is for the arms in turn
LONG = 256  # an arm that was seen less often is not held
TENTH = 10  # an arm is held until it was seen this part of its count more often
RARE = 100.0  # looks are rare that come once in so many stages
NEARLY_ONE = 1 - 2.0**-20  # no mean is taken for larger: no divergence from it is infinite
KL_UCB = params_type(("c",))(0.0)  # the parameters of KL-UCB of level log t


def kibitzer(
    b: float = 8.0, beta: float = 1.0, rewards: Rewards = "gaussian", scale: float | None = None
) -> Policy:
    """Return kibitzer, our own policy; not in the paper.

    Parameters
    ----------
    b
        What trades the mean of the regret (small) against its tail (large).
    beta
        The factor of log(1 + log x), in [0, 1]; 0 has the better theorem and more regret.
    rewards
        "gaussian", "bernoulli" (0 or 1) or "bounded" (any number in [0, 1]).
    scale
        The sub-Gaussian scale of the rewards; that of the problem unless given.
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
    """What was seen, and the arm that is held."""

    statistics: Statistics
    allowed: Array
    hold: Array  # one record


HOLD = np.dtype(
    [
        ("arm", np.int64),  # is held
        ("until", np.int64),  # it was seen so often
        ("leader", np.int64),  # or another arm than this has the largest mean
    ],
    align=True,
)


@jit(allocates=True)
def init(params: Any, n_arms: int) -> State:
    """Return the state before anything was seen."""
    return State(new_statistics(n_arms, 0), np.ones(n_arms, np.bool_), np.zeros(1, HOLD))


@jit
def spread(params: Any, stage: int, known: Statistics, arm: int) -> float:
    """Return x_i."""
    counts = known.n_observed
    n_looks = known.totals[LOOKS]
    return 1 + params.b * stage / (counts.size * counts[arm] + params.b * n_looks)


@jit
def index(params: Any, stage: int, known: Statistics, arm: int, mean: float) -> float:
    """Return the index for Gaussian rewards."""
    log = math.log(spread(params, stage, known, arm))
    level = log - params.beta * math.log(1 + log)  # negative by rounding only
    return mean + math.sqrt(2 * abs(level) / known.n_observed[arm])


@jit
def bernoulli_index(params: Any, stage: int, known: Statistics, arm: int, mean: float) -> float:
    """Return the index for rewards in [0, 1]: that of KL-UCB when log t is the level."""
    x = spread(params, stage, known, arm)
    clock = x / (1 + math.log(x)) ** params.beta
    return kl_index(KL_UCB, max(1.0, clock), known.n_observed, arm, mean)


@jit
def view(params: Any, state: State, stage: int) -> View:
    """Return all statistics and all arms, without end; a look replaces the first pull of an arm."""
    known = state.statistics
    return View(known, known.n_observed, state.allowed, 0, NEVER, True, NEVER)


@cache
def pulling_by(index: Any) -> Any:
    """Return `pull` for an index."""

    def pull(params: Any, state: State, stage: int, rng: Any) -> int:
        """Return the first arm that was never seen, or the arm of largest index."""
        known = state.statistics
        best, most = 0, -np.inf
        for arm in range(known.sums.size):
            n = known.n_observed[arm]
            if n == 0:
                return arm
            value = index(params, stage, known, arm, known.sums[arm] / n)
            if value > most:
                best, most = arm, value
        return best

    return jit(pull)


pull, bernoulli_pull = pulling_by(index), pulling_by(bernoulli_index)


@jit
def leader_of(known: Statistics) -> int:
    """Return the arm of largest mean among those that were seen."""
    leader, most = 0, -np.inf
    for arm in range(known.sums.size):
        n = known.n_observed[arm]
        if n > 0 and known.sums[arm] / n > most:
            leader, most = arm, known.sums[arm] / n
    return leader


@jit
def holds(state: State, leader: int) -> bool:
    """Return whether an arm is held, when `leader` has the largest mean."""
    held = state.hold[0]
    return held["leader"] == leader and state.statistics.n_observed[held["arm"]] < held["until"]


@jit
def due(params: Any, state: State, arm: int, n: int) -> int:
    """Return how many of the next n looks go to an arm in turn, if it is not seen otherwise."""
    n_arms = state.allowed.size
    n_looks = state.statistics.totals[LOOKS]
    before = (n_looks // EVERY - arm + n_arms - 1) // n_arms  # how many turns it has had
    after = ((n_looks + n) // EVERY - arm + n_arms - 1) // n_arms
    return max(0, after - max(before, state.statistics.n_observed[arm] - 1))


@jit
def hold(params: Any, state: State) -> Hold:
    """Return the arm that is held, and for how many looks at least."""
    known, held = state.statistics, state.hold[0]
    leader = leader_of(known)
    most = held["until"] - known.n_observed[held["arm"]] if holds(state, leader) else 0
    return Hold(held["arm"], leader, most)


@jit
def unseen(state: State, stage: int) -> int:
    """Return the last arm that was never seen and is not pulled now; -1 if there is none."""
    first, last = -1, -1
    known = state.statistics
    for arm in range(known.n_observed.size):
        if known.n_observed[arm] == 0:
            first = arm if first < 0 else first
            last = arm
    if last >= 0 and last == first and known.totals[PULLS] < stage:
        return -1  # it is pulled
    return last


@jit
def squared(mean: float, best: float) -> float:
    """Return the divergence of Gaussian distributions of scale 1."""
    return (best - mean) ** 2 / 2


@jit
def divergence(mean: float, best: float) -> float:
    """Return kl(mean, best) of Bernoulli distributions, for a smaller mean."""
    best = min(best, NEARLY_ONE)
    if mean >= best:
        return 0.0
    rest = (1 - mean) * math.log((1 - mean) / (1 - best))
    return rest + mean * math.log(mean / best) if mean > 0 else rest


@cache
def looking_by(distance: Any) -> Any:
    """Return `look` for a divergence."""

    def look(params: Any, state: State, stage: int, rng: Any) -> int:
        """Return the arm whose turn it is, an unseen one, the held one, or that of least IMED."""
        known = state.statistics
        counts, sums = known.n_observed, known.sums
        n_arms, n_looks = counts.size, known.totals[LOOKS]
        turn = n_looks // EVERY
        if n_looks % EVERY == EVERY - 1 and counts[turn % n_arms] < 2 + turn // n_arms:
            return turn % n_arms
        never = unseen(state, stage)
        if never >= 0:
            return never
        leader = leader_of(known)
        if holds(state, leader):
            return state.hold[0]["arm"]
        best = sums[leader] / counts[leader]
        rarity = 1 + math.log(1 + stage / (RARE * (n_looks + 1)))
        look, least = -1, np.inf
        for arm in range(n_arms):
            n = counts[arm]
            if arm != leader and n > 0:
                value = n * distance(sums[arm] / n, best)
                if value < least:  # else its logarithm, which is not negative, is not needed
                    value += rarity * math.log(n)
                    if value < least:
                        look, least = arm, value
        if look < 0:  # of two arms one was seen, the other is pulled
            look = 1 if leader == 0 else 0
        return look

    return jit(look)


look, bernoulli_look = looking_by(squared), looking_by(divergence)


@jit
def update(
    params: Any, state: State, stage: int, arm: int, n: int, total: float, is_look: bool
) -> State:
    """Count all observations; hold an arm that was looked at, but for every fourth, if none is held.

    Of several looks at once nobody knows which of them were fourth: no arm is held for them.
    """
    known = state.statistics
    if is_look:
        held, n_before = state.hold[0], known.n_observed[arm]
        # to hold an arm for this look alone changes nothing, unless it ends another hold
        matters = n_before >= LONG or known.n_observed[held["arm"]] < held["until"]
        if matters and n == 1 and known.totals[LOOKS] % EVERY != EVERY - 1:
            leader = leader_of(known)
            if arm != leader and not holds(state, leader):
                held["arm"] = arm
                held["until"] = n_before + (max(1, n_before // TENTH) if n_before >= LONG else 1)
                held["leader"] = leader
    count(known, arm, n, total, is_look)
    return state
