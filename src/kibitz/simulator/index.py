"""Deciding by an index, with hardly any index computed.

Index policies are played in stretches. By their promise of monotonicity (`policies.policy`), the
index of an arm that is not observed is at most its value at a later stage: such bounds are kept, all
up to one stage, and an index is computed only for an arm whose bound reaches the leader's index.
Moreover, the leader stays the leader while its mean stays above a floor, as long as the bounds hold:
those stages are played without any index at all. How long to try is guessed and learned, and has no
influence on a run that is played stage by stage. The decisions are those of the policy's own `pull`
(tests/policies/test_contract.py), up to exact ties that rounding decides: a stretch sums its rewards
before it adds them.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from kibitz.compiling.jit import jit, jit_init
from kibitz.policies.policy import Array, View
from kibitz.simulator.streams import Stream, normal, uniform
from kibitz.simulator.world import BERNOULLI, GAUSSIAN, Law, draw

ROUNDING = 1e-14  # room for an index whose monotonicity suffers from rounding
BETWEEN_STOPS = 2**20  # stages that are played before the stop flag is read again


class Bounds(NamedTuple):
    """Upper bounds of the indices, from which most decisions follow without computing any."""

    upper: Array  # infinite where there is none, -inf for the leader and for arms not in play
    now: Array  # one record


NOW = np.dtype(
    [
        ("leader", np.int64),  # the arm pulled last
        ("ready", np.int64),  # whether all arms were pulled
        ("until", np.int64),  # the stage that the bounds hold up to
        ("pace", np.float64),  # how long a stretch to try, relative to a guess
    ],
    align=True,
)


@jit_init
def no_bounds(n_arms: int) -> Bounds:
    """Return room for bounds."""
    now = np.zeros(1, NOW)
    now[0]["pace"] = 1.0
    return Bounds(np.full(n_arms, np.inf), now)


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


@jit
def largest(values: Array) -> float:
    """Return the largest of some numbers; numba's own `max` makes an array."""
    most = -np.inf
    for value in values:
        most = max(most, value)
    return most


@cache
def deciding_by(index: Any) -> tuple[Any, Any]:
    """Return `decide`, which finds the arm to pull, and `stretch`, which says for how long."""

    def bound(params: Any, seen: View, until: int, arm: int) -> float:
        """Return a bound of an arm's index up to a stage, with room for rounding."""
        mean = seen.sums[arm] / seen.counts[arm]
        upper = index(params, until - seen.origin, seen.counts, arm, mean)
        upper += ROUNDING * (1 + abs(upper))
        return upper if upper > -np.inf else np.inf  # what is no number bounds nothing

    bound = jit(bound)

    def bound_all(params: Any, seen: View, until: int, bounds: Bounds) -> None:
        """Bound all indices up to a stage, in one loop: it costs little more than a few of them."""
        bounds.now[0]["until"] = until
        for arm in range(seen.allowed.size):
            if bounds.upper[arm] > -np.inf:
                bounds.upper[arm] = bound(params, seen, until, arm)

    bound_all = jit(bound_all)

    def decide(params: Any, seen: View, stage: int, bounds: Bounds) -> tuple[int, float, float]:
        """Return the arm to pull, its index, and a bound of the others' at this stage.

        The index of an arm not yet pulled is infinite.
        """
        n_arms = seen.allowed.size
        clock = stage - seen.origin
        if bounds.now[0]["ready"] == 0:
            for arm in range(n_arms):
                if seen.allowed[arm] and seen.n_pulls[arm] == 0:
                    return arm, np.inf, np.inf
            bounds.now[0]["ready"] = 1
            bounds.now[0]["until"] = 0
            if not seen.allowed[bounds.now[0]["leader"]]:
                bounds.now[0]["leader"] = np.argmax(seen.allowed)
            bounds.upper[bounds.now[0]["leader"]] = -np.inf
        if stage > bounds.now[0]["until"]:
            bound_all(params, seen, stage + 1 + clock // 64, bounds)
        leader = best = bounds.now[0]["leader"]
        most = index(params, clock, seen.counts, best, seen.sums[best] / seen.counts[best])
        rest = -np.inf
        for arm in range(n_arms):
            value = bounds.upper[arm]
            if value >= most:
                mean = seen.sums[arm] / seen.counts[arm]
                value = index(params, clock, seen.counts, arm, mean)
                if bounds.upper[arm] == np.inf:
                    bounds.upper[arm] = bound(params, seen, bounds.now[0]["until"], arm)
                if value > most or (value == most and arm < best):
                    best, most, value = arm, value, most
            rest = max(rest, value)
        if best != leader:
            bounds.now[0]["leader"] = best
            bounds.upper[leader] = bound(params, seen, bounds.now[0]["until"], leader)
            bounds.upper[best] = -np.inf
        return best, most, rest

    def stretch(
        params: Any,
        seen: View,
        stage: int,
        last: int,
        bounds: Bounds,
        arm: int,
        most: float,
        rest: float,
    ) -> tuple[int, float]:
        """Return for how many stages, up to `last`, and above which mean, `arm` surely stays best.

        `most` is its index at `stage`, `rest` bounds the others'. The answer (1, -inf) says: at this
        stage only.
        """
        if rest == -np.inf:  # no other arm is in play
            return last - stage + 1, -np.inf
        # Guess a length that uses up half of the lead; an index is like mean + sqrt(log / count).
        clock = stage - seen.origin
        count = seen.counts[arm]
        mean = seen.sums[arm] / count
        lead = most - rest
        pace = bounds.now[0]["pace"]
        guess = pace * lead * count / max(abs(most - mean) + 1e-9 * lead, 1e-300)
        if guess < 2:
            bounds.now[0]["pace"] = min(1.02 * pace, 64.0)
            return 1, -np.inf
        n_stages = min(last - stage + 1, int(min(guess, 1e9)))
        if n_stages == 1:
            return 1, -np.inf
        end = stage + n_stages - 1
        rival = np.inf
        if end <= bounds.now[0]["until"]:
            rival = largest(bounds.upper)
        if rival > rest + 0.3 * lead:
            bound_all(params, seen, end, bounds)
            rival = largest(bounds.upper)
        # The leader's index at the end of the stretch, as if no time had passed, at a lower mean.
        seen.counts[arm] = count + n_stages - 1
        slack = index(params, clock, seen.counts, arm, mean) - rival
        floor = mean - 0.999 * slack
        safe = slack > 0 and index(params, clock, seen.counts, arm, floor) > rival
        seen.counts[arm] = count
        if slack < 0.5 * lead:
            bounds.now[0]["pace"] = max(0.8 * pace, 1e-6)
        elif end < last:
            bounds.now[0]["pace"] = min(1.25 * pace, 64.0)
        return (n_stages, floor) if safe else (1, -np.inf)

    return jit(decide), jit(stretch)


@jit
def play_stretch(
    law: Law,
    arm: int,
    stream: Stream,
    n_stages: int,
    floor: float,
    count: int,
    total: float,
    control: Array,
) -> tuple[int, float]:
    """Pull `arm` up to `n_stages` times while its mean is at least `floor`; at least once.

    `count` and `total` are what is known of it so far. Return how often it was pulled and the sum.
    """
    mean, sd = law.means[arm], law.sds[arm]
    n, new = 0, 0.0
    while True:
        some = min(n_stages, n + BETWEEN_STOPS)
        if law.kind == GAUSSIAN:
            while n < some:
                new += mean + sd * normal(stream)
                n += 1
                if total + new < floor * (count + n):
                    return n, new
        elif law.kind == BERNOULLI:
            while n < some:
                new += law.success if uniform(stream) < law.chances[arm] else 0.0
                n += 1
                if total + new < floor * (count + n):
                    return n, new
        else:
            while n < some:
                new += draw(law, arm, stream)
                n += 1
                if total + new < floor * (count + n):
                    return n, new
        if n >= n_stages or control[0] != 0:
            return n, new
