"""Lazy index evaluation: decide without computing most indices.

By their promise of monotonicity (`policies.policy`), the index of an arm that is not observed is at
most its value at a later stage: such bounds are kept, all up to one stage, and an index is computed
only for an arm whose bound reaches the leader's index. While the bounds hold, the leader is pulled as
long as its own index, as if no time had passed, stays above them. It is not computed after each pull
either, but for some pulls in advance: as long as the mean stays above a floor, the leader stays the
leader. How far ahead to look, and for how long bounds are to hold, is learned, and has no influence
on a run that is played stage by stage. The decisions are those of the policy's own `pull`
(tests/policies/test_contract.py), up to exact ties that rounding decides: the rewards of several
pulls are summed before they are added to those before.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from kibitz._jit import jit
from kibitz.engine.environment import BERNOULLI, GAUSSIAN, Law, draw
from kibitz.engine.rng import Stream, load, next_normal, next_uniform, store
from kibitz.policies.policy import Array, View

CLEAR = 1e-11  # a lead that is larger than what rounding can do to it
ROUNDING = 1e-14  # room for an index whose monotonicity suffers from rounding
WASTE = 4  # an index that is computed by itself costs as much as so many in a row
MOST_AHEAD = 2**20  # pulls, after which the stop flag is read


class Bounds(NamedTuple):
    """Upper bounds of the indices, from which most decisions follow without computing any."""

    upper: Array  # infinite where there is none, -inf for the leader and for arms not in play
    now: Array  # one record


NOW = np.dtype(
    [
        ("leader", np.int64),  # the arm pulled last
        ("ready", np.int64),  # whether all arms were pulled
        ("until", np.int64),  # the stage that the bounds hold up to
        ("reach", np.int64),  # for how many stages to make them
        ("wasted", np.int64),  # indices that were computed because bounds are not tight
        ("pace", np.int64),  # for how many pulls in advance to find a floor
    ],
    align=True,
)


@jit(allocates=True)
def no_bounds(n_arms: int) -> Bounds:
    """Return room for bounds, to be forgotten before they are used."""
    now = np.zeros(1, NOW)
    now[0]["reach"] = 1
    now[0]["pace"] = 1
    return Bounds(np.zeros(n_arms), now)


@jit
def forget(bounds: Bounds, allowed: Array) -> None:
    """Drop all bounds: other arms are in play, or the clock has restarted."""
    bounds.now[0]["ready"] = 0
    for arm in range(allowed.size):
        bounds.upper[arm] = np.inf if allowed[arm] else -np.inf


@jit
def drop(bounds: Bounds, arm: int) -> None:
    """Drop the bound of an arm: it was looked at."""
    if bounds.upper[arm] > -np.inf:
        bounds.upper[arm] = np.inf


@cache
def deciding_by(index: Any, additive: bool) -> tuple[Any, Any]:
    """Return `decide`, which finds the arm to pull, and `lead`, which pulls it while it stays so.

    `index` takes the whole statistics; `additive` says whether it is the mean plus something else.
    """

    def bound(params: Any, seen: View, until: int, arm: int) -> float:
        """Return a bound of an arm's index up to a stage, with room for rounding."""
        known = seen.statistics
        mean = known.sums[arm] / known.n_observed[arm]
        upper = index(params, until - seen.origin, known, arm, mean)
        upper += ROUNDING * (1 + abs(upper))
        return upper if upper > -np.inf else np.inf  # NaN gives no bound

    bound = jit(bound)

    def bound_all(params: Any, seen: View, stage: int, bounds: Bounds) -> None:
        """Bound all indices, in one loop: it costs little more than a few of them.

        Bounds for longer are made less often, and are less tight. Both cost the same when as many
        indices are computed for the one reason as for the other.
        """
        now = bounds.now[0]
        reach = now["reach"]
        if WASTE * now["wasted"] > seen.allowed.size:
            reach = max(1, reach - reach // 4)
        elif stage == now["until"] + 1:  # not behind a leap
            reach = min(reach + reach // 8 + 1, 64 + stage - seen.origin)
        now["reach"], now["wasted"], now["until"] = reach, 0, stage + reach
        for arm in range(seen.allowed.size):
            if bounds.upper[arm] > -np.inf:
                bounds.upper[arm] = bound(params, seen, stage + reach, arm)

    bound_all = jit(bound_all)

    def floor_of(params: Any, seen: View, clock: int, arm: int, mean: float, rival: float) -> float:
        """Return down to which mean the index of an arm is above a number.

        It is infinite if it is not above at this mean.
        """
        slack = index(params, clock, seen.statistics, arm, mean) - rival
        floor = mean - 0.999 * slack
        if additive:
            safe = slack > CLEAR * (1 + abs(rival))
        else:
            safe = slack > 0 and index(params, clock, seen.statistics, arm, floor) > rival
        return floor if safe or rival == -np.inf else np.inf

    floor_of = jit(floor_of)

    def decide(
        params: Any, seen: View, stage: int, last: int, bounds: Bounds, stays: bool
    ) -> tuple[int, float, int, float]:
        """Return the arm to pull, a bound of all others as long as the bounds hold, and a floor.

        The arm is the best one for so many pulls at least, up to a last stage, as long as its mean
        stays above the floor; no pull at all means that it was never pulled. Where the leader
        probably `stays` the leader this is found out at once, and its index is not needed.
        """
        n_arms = seen.allowed.size
        known = seen.statistics
        clock = stage - seen.origin
        now = bounds.now[0]
        if now["ready"] == 0:
            for arm in range(n_arms):
                if seen.allowed[arm] and seen.tried[arm] == 0:
                    return arm, np.inf, 0, -np.inf
            now["ready"] = 1
            now["until"] = 0
            while not seen.allowed[now["leader"]]:
                now["leader"] = (now["leader"] + 1) % n_arms
            bounds.upper[now["leader"]] = -np.inf
        if stage > now["until"]:
            bound_all(params, seen, stage, bounds)
        leader = best = now["leader"]
        count = known.n_observed[best]
        mean = known.sums[best] / count
        rival = -np.inf
        if additive and stays:
            for arm in range(n_arms):
                if bounds.upper[arm] == np.inf:  # it was looked at
                    bounds.upper[arm] = bound(params, seen, now["until"], arm)
                rival = max(rival, bounds.upper[arm])
            n_stages = min(last, now["until"]) - stage + 1
            some = min(now["pace"], n_stages)
            known.n_observed[best] = count + some - (some < n_stages)
            floor = floor_of(params, seen, clock, best, mean, rival)
            known.n_observed[best] = count
            if floor < np.inf:
                return best, rival, some, floor
            rival = -np.inf
        most = index(params, clock, known, best, mean)
        for arm in range(n_arms):
            if bounds.upper[arm] == np.inf:
                bounds.upper[arm] = bound(params, seen, now["until"], arm)
            upper = bounds.upper[arm]
            if upper >= most:
                mean = known.sums[arm] / known.n_observed[arm]
                value = index(params, clock, known, arm, mean)
                if value < most:
                    now["wasted"] += 1
                if value > most or (value == most and arm < best):
                    upper, best, most = bounds.upper[best], arm, value
            rival = max(rival, upper)
        if best != leader:
            now["leader"] = best
            bounds.upper[leader] = bound(params, seen, now["until"], leader)
            bounds.upper[best] = -np.inf
            rival = max(rival, bounds.upper[leader])
        return best, rival, 1, -np.inf

    def lead(
        params: Any,
        seen: View,
        game: Any,
        stage: int,
        last: int,
        bounds: Bounds,
        arm: int,
        rival: float,
        some: int,
        floor: float,
    ) -> tuple[int, float, bool]:
        """Pull the best arm of a stage as long as it surely stays the best, up to a last stage.

        `rival`, `some` and `floor` are those of `decide`. Return how often it was pulled, at least
        once, the sum of its rewards, and whether it surely is the best of the next stage, too.
        """
        now, law, stream, control = bounds.now[0], game.law, game.rngs.rewards, game.control
        counts = seen.statistics.n_observed
        count, known = counts[arm], seen.statistics.sums[arm]
        clock = stage - seen.origin
        n_stages = min(last, now["until"]) - stage + 1
        zero: Any = np.int64(0)  # a literal 0 would compile `pull_on` once more
        first, lowest = (some, floor) if additive else (zero + 1, -np.inf)
        n, total = pull_on(law, arm, stream, zero, first, lowest, count, known, 0.0)
        pace = now["pace"]
        if floor == -np.inf:
            floor = np.inf
        while n < n_stages and control[0] == 0:
            # The index after so many more pulls, as if no time had passed; and at a lower mean.
            some = min(pace, n_stages - n)
            counts[arm] = count + n + some - (some < n_stages - n)
            mean = (known + total) / (count + n)
            floor = floor_of(params, seen, clock, arm, mean, rival)
            if floor == np.inf:
                pace = max(1, some // 4)
                break
            n, total = pull_on(law, arm, stream, n, n + some, floor, count, known, total)
            pace = min(pace + pace // 4 + 1, MOST_AHEAD)
        counts[arm] = count
        now["pace"] = pace
        sure = n == n_stages and stage + n <= now["until"]
        return n, total, sure and known + total >= floor * (count + n)

    return jit(decide), jit(lead)


@jit
def pull_on(
    law: Law,
    arm: int,
    stream: Stream,
    n: int,
    last: int,
    floor: float,
    count: int,
    known: float,
    total: float,
) -> tuple[int, float]:
    """Pull `arm` once more, and then up to `last` times in all while its mean is at least `floor`.

    `n` pulls brought `total`; `count` and `known` are what was known before. Return both anew.
    """
    if law.kind == GAUSSIAN:
        mean, sd = law.means[arm], law.sds[arm]
        state = load(stream)
        while True:
            drawn, state = next_normal(stream, state)
            total += mean + sd * drawn
            n += 1
            if n >= last or known + total < floor * (count + n):
                break
        store(stream, state)
    elif law.kind == BERNOULLI:
        state = load(stream)
        while True:
            drawn, state = next_uniform(stream, state)
            total += law.success if drawn < law.chances[arm] else 0.0
            n += 1
            if n >= last or known + total < floor * (count + n):
                break
        store(stream, state)
    else:
        while True:
            total += draw(law, arm, stream)
            n += 1
            if n >= last or known + total < floor * (count + n):
                break
    return n, total
