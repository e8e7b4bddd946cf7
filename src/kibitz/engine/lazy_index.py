"""Lazy index evaluation: decide without computing most indices.

An index is monotone (`policies.policy`). Hence, as long as an arm is not observed, its index is at
most the value of the index at a later stage. The engine stores such an upper bound for each arm; all
bounds are valid up to the same stage. It computes the index of an arm only if the arm's bound reaches
the leader's index. While the bounds are valid, the engine pulls the leader as long as a lower bound
on the leader's index (the index at an earlier stage) stays above the bounds of all other arms. The
engine does not compute the leader's index after each pull either. It finds a floor for the leader's
mean: as long as the mean stays above this floor, the leader keeps the largest index for several
pulls. The engine adapts the number of these pulls, and the number of stages for which bounds are
valid; neither number influences the results.

The decisions equal the decisions of the policy's own `pull` (tests/policies/test_contract.py), except
where rounding decides an exact tie, because the rewards of several pulls are summed before they are
added to the arm's sum.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from kibitz._jit import jit
from kibitz.engine.environment import BERNOULLI, GAUSSIAN, Arms, draw
from kibitz.engine.rng import Stream, load, next_normal, next_uniform, store
from kibitz.policies.policy import Array, View

MIN_SAFE_LEAD = 1e-11  # relative lead of an index that exceeds all rounding errors
ROUNDING = 1e-14  # relative tolerance for an index that is monotone only up to rounding
SINGLE_INDEX_COST = 4  # cost of an index computed alone, relative to an index computed in a loop
MAX_PULLS_BETWEEN_STOP_CHECKS = 2**20  # largest number of pulls between two reads of the stop flag


class Bounds(NamedTuple):
    """Upper bounds on the indices of all arms."""

    upper: Array  # inf if unknown, -inf for the leader and for arms that may not be pulled
    status: Array  # one record of type STATUS


STATUS = np.dtype(
    [
        ("leader", np.int64),  # the arm that was pulled last
        ("all_tried", np.int64),  # whether every allowed arm has been tried (`View.tried`)
        ("valid_until", np.int64),  # the last stage at which the bounds are valid
        ("reach", np.int64),  # the number of stages for which the next bounds will be valid
        ("n_wasted", np.int64),  # the number of indices computed only because a bound was loose
        ("pace", np.int64),  # the number of pulls that the next floor covers
    ],
    align=True,
)


@jit(allocates=True)
def new_bounds(n_arms: int) -> Bounds:
    """Return new bounds, which the caller must `reset` before use."""
    status = np.zeros(1, STATUS)
    status[0]["reach"] = 1
    status[0]["pace"] = 1
    return Bounds(np.zeros(n_arms), status)


@jit
def reset(bounds: Bounds, allowed: Array) -> None:
    """Invalidate all bounds; needed when the allowed arms change or the clock restarts."""
    bounds.status[0]["all_tried"] = 0
    for arm in range(allowed.size):
        bounds.upper[arm] = np.inf if allowed[arm] else -np.inf


@jit
def invalidate(bounds: Bounds, arm: int) -> None:
    """Invalidate the bound of an arm; needed after each look at the arm and each show of the arm."""
    if bounds.upper[arm] > -np.inf:
        bounds.upper[arm] = np.inf


@cache
def make_decision_functions(index: Any, additive: bool) -> tuple[Any, Any]:
    """Return `decide`, which finds the arm to pull, and `pull_leader`, which pulls it repeatedly.

    `index` takes the whole statistics. `additive` says whether the index is the mean plus a term that
    does not depend on the mean.
    """

    def bound(params: Any, view: View, until: int, arm: int) -> float:
        """Return an upper bound on an arm's index up to stage `until`, with a rounding tolerance."""
        stats = view.statistics
        mean = stats.sums[arm] / stats.n_observed[arm]
        upper_bound = index(params, until - view.origin, stats, arm, mean)
        upper_bound += ROUNDING * (1 + abs(upper_bound))
        return upper_bound if upper_bound > -np.inf else np.inf  # NaN gives no bound

    bound = jit(bound)

    def refresh_bounds(params: Any, view: View, stage: int, bounds: Bounds) -> None:
        """Compute all bounds again, and adapt their reach, the number of stages until they expire.

        Computing all bounds in one loop costs little more than computing a few indices alone. Bounds
        with a longer reach are computed less often but are looser. The reach is adapted until both
        effects cost the same.
        """
        status = bounds.status[0]
        reach = status["reach"]
        if SINGLE_INDEX_COST * status["n_wasted"] > view.allowed.size:
            reach = max(1, reach - reach // 4)
        elif stage == status["valid_until"] + 1:  # after a leap, the reach stays the same
            reach = min(reach + reach // 8 + 1, 64 + stage - view.origin)
        status["reach"], status["n_wasted"], status["valid_until"] = reach, 0, stage + reach
        for arm in range(view.allowed.size):
            if bounds.upper[arm] > -np.inf:
                bounds.upper[arm] = bound(params, view, stage + reach, arm)

    refresh_bounds = jit(refresh_bounds)

    def mean_floor(
        params: Any, view: View, clock: int, arm: int, mean: float, best_rival: float
    ) -> float:
        """Return a floor: while an arm's mean is at least the floor, its index exceeds `best_rival`.

        The floor is infinite if the index does not exceed `best_rival` at `mean`.
        """
        slack = index(params, clock, view.statistics, arm, mean) - best_rival
        floor = mean - 0.999 * slack
        if additive:
            is_safe = slack > MIN_SAFE_LEAD * (1 + abs(best_rival))
        else:
            is_safe = slack > 0 and index(params, clock, view.statistics, arm, floor) > best_rival
        return floor if is_safe or best_rival == -np.inf else np.inf

    mean_floor = jit(mean_floor)

    def decide(
        params: Any, view: View, stage: int, last_stage: int, bounds: Bounds, expect_same: bool
    ) -> tuple[int, float, int, float]:
        """Return the arm to pull, an upper bound on all other indices, `n_certain` and a floor.

        The arm has the largest index for at least `n_certain` pulls up to `last_stage`, as long as
        its mean stays above the floor. `n_certain` is 0 if the arm was never pulled. `expect_same`
        says that the leader is likely to stay the same: its floor is then computed first, and if the
        floor is finite, the leader's current index is not computed.
        """
        n_arms = view.allowed.size
        stats = view.statistics
        clock = stage - view.origin
        status = bounds.status[0]
        if status["all_tried"] == 0:
            for arm in range(n_arms):
                if view.allowed[arm] and view.tried[arm] == 0:
                    return arm, np.inf, 0, -np.inf
            status["all_tried"] = 1
            status["valid_until"] = 0
            while not view.allowed[status["leader"]]:
                status["leader"] = (status["leader"] + 1) % n_arms
            bounds.upper[status["leader"]] = -np.inf
        if stage > status["valid_until"]:
            refresh_bounds(params, view, stage, bounds)
        leader = best_arm = status["leader"]
        count = stats.n_observed[best_arm]
        mean = stats.sums[best_arm] / count
        best_rival = -np.inf
        if additive and expect_same:
            for arm in range(n_arms):
                if bounds.upper[arm] == np.inf:  # a look invalidated the bound
                    bounds.upper[arm] = bound(params, view, status["valid_until"], arm)
                best_rival = max(best_rival, bounds.upper[arm])
            n_stages = min(last_stage, status["valid_until"]) - stage + 1
            n_certain = min(status["pace"], n_stages)
            stats.n_observed[best_arm] = count + n_certain - (n_certain < n_stages)
            floor = mean_floor(params, view, clock, best_arm, mean, best_rival)
            stats.n_observed[best_arm] = count
            if floor < np.inf:
                return best_arm, best_rival, n_certain, floor
            best_rival = -np.inf
        largest_index = index(params, clock, stats, best_arm, mean)
        for arm in range(n_arms):
            if bounds.upper[arm] == np.inf:
                bounds.upper[arm] = bound(params, view, status["valid_until"], arm)
            upper_bound = bounds.upper[arm]
            if upper_bound >= largest_index:
                mean = stats.sums[arm] / stats.n_observed[arm]
                arm_index = index(params, clock, stats, arm, mean)
                if arm_index < largest_index:
                    status["n_wasted"] += 1
                if arm_index > largest_index or (arm_index == largest_index and arm < best_arm):
                    upper_bound, best_arm, largest_index = bounds.upper[best_arm], arm, arm_index
            best_rival = max(best_rival, upper_bound)
        if best_arm != leader:
            status["leader"] = best_arm
            bounds.upper[leader] = bound(params, view, status["valid_until"], leader)
            bounds.upper[best_arm] = -np.inf
            best_rival = max(best_rival, bounds.upper[leader])
        return best_arm, best_rival, 1, -np.inf

    def pull_leader(
        params: Any,
        view: View,
        environment: Any,
        stage: int,
        last_stage: int,
        bounds: Bounds,
        arm: int,
        best_rival: float,
        n_certain: int,
        floor: float,
    ) -> tuple[int, float, bool]:
        """Pull an arm once, and repeat the pull while its index is certainly the largest.

        Stop after `last_stage` at the latest.
        `best_rival`, `n_certain` and `floor` come from `decide`. Return the number of pulls, the sum
        of their rewards, and whether the arm certainly has the largest index at the next stage too.
        """
        status, arms, stream, control = (
            bounds.status[0],
            environment.arms,
            environment.streams.rewards,
            environment.control,
        )
        counts = view.statistics.n_observed
        count, prior_sum = counts[arm], view.statistics.sums[arm]
        clock = stage - view.origin
        n_stages = min(last_stage, status["valid_until"]) - stage + 1
        zero: Any = np.int64(0)  # a literal 0 would compile `pull_repeatedly` again
        first_pulls, first_floor = (n_certain, floor) if additive else (zero + 1, -np.inf)
        n, total = pull_repeatedly(
            arms, arm, stream, zero, first_pulls, first_floor, count, prior_sum, 0.0
        )
        pace = status["pace"]
        if floor == -np.inf:
            floor = np.inf
        while n < n_stages and control[0] == 0:
            # bound the index from below: the count after `n_certain` more pulls, at the first stage
            n_certain = min(pace, n_stages - n)
            counts[arm] = count + n + n_certain - (n_certain < n_stages - n)
            mean = (prior_sum + total) / (count + n)
            floor = mean_floor(params, view, clock, arm, mean, best_rival)
            if floor == np.inf:
                pace = max(1, n_certain // 4)
                break
            n, total = pull_repeatedly(
                arms, arm, stream, n, n + n_certain, floor, count, prior_sum, total
            )
            pace = min(pace + pace // 4 + 1, MAX_PULLS_BETWEEN_STOP_CHECKS)
        counts[arm] = count
        status["pace"] = pace
        is_certain = n == n_stages and stage + n <= status["valid_until"]
        return n, total, is_certain and prior_sum + total >= floor * (count + n)

    return jit(decide), jit(pull_leader)


@jit
def pull_repeatedly(
    arms: Arms,
    arm: int,
    stream: Stream,
    n: int,
    max_pulls: int,
    floor: float,
    count: int,
    prior_sum: float,
    total: float,
) -> tuple[int, float]:
    """Pull `arm` once, and repeat while `n` < `max_pulls` and the arm's mean is at least `floor`.

    `n` and `total` are the number of pulls so far and the sum of their rewards. `count` and
    `prior_sum` are the number of observations before these pulls and the sum of their rewards. Return
    the new `n` and `total`.
    """
    if arms.kind == GAUSSIAN:
        mean, sd = arms.means[arm], arms.sds[arm]
        state = load(stream)
        while True:
            noise, state = next_normal(stream, state)
            total += mean + sd * noise
            n += 1
            if n >= max_pulls or prior_sum + total < floor * (count + n):
                break
        store(stream, state)
    elif arms.kind == BERNOULLI:
        state = load(stream)
        while True:
            uniform, state = next_uniform(stream, state)
            total += arms.success if uniform < arms.chances[arm] else 0.0
            n += 1
            if n >= max_pulls or prior_sum + total < floor * (count + n):
                break
        store(stream, state)
    else:
        return pull_other_rewards(arms, arm, stream, n, max_pulls, floor, count, prior_sum, total)
    return n, total


@jit(inline=False)  # inlined, it slows the loops of `pull_repeatedly` by 1 %
def pull_other_rewards(
    arms: Arms,
    arm: int,
    stream: Stream,
    n: int,
    max_pulls: int,
    floor: float,
    count: int,
    prior_sum: float,
    total: float,
) -> tuple[int, float]:
    """Pull `arm` like `pull_repeatedly`, for rewards that are neither Gaussian nor Bernoulli."""
    while True:
        total += draw(arms, arm, stream)
        n += 1
        if n >= max_pulls or prior_sum + total < floor * (count + n):
            return n, total
