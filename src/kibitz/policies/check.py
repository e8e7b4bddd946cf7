"""Test the promises that a policy makes on random inputs."""

import math
from typing import Any

import numpy as np

from kibitz.policies.index_policy import index_of_statistics
from kibitz.policies.policy import Array, Policy, Statistics, arrays_of, check_policy

TRIALS = 300  # of the index
STAGES = 100  # of decisions, for each number of arms
ROOM = 1e-12  # for rounding, relative


def check_promises(policy: Policy) -> None:
    """Raise ValueError if a policy breaks a promise that the engine relies on."""
    check_policy(policy)
    rng = np.random.default_rng(0)
    params = policy.params_for(1000)
    if policy.index is not None:
        check_monotonicity(policy, params)
    if policy.rule is None:  # else its decisions follow from the index
        for n_arms in (2, 3, 6):
            try:
                check_decisions(policy, params, n_arms, rng)
            except ArithmeticError as error:
                raise ValueError(
                    f"{policy.name} must decide without errors in plain Python, got "
                    f"{type(error).__name__}: {error}"
                ) from error


def check_monotonicity(policy: Policy, params: Any) -> None:
    """Test that an index goes the right way in each of its arguments."""
    formula: Any = policy.index

    def index(params: Any, stage: int, counts: Array, arm: int, mean: float) -> float:
        known: Any = counts if policy.index_reads == "counts" else statistics_of(counts)
        try:
            return float(formula(params, stage, known, arm, mean))
        except (ArithmeticError, ValueError):  # which compiled code takes for infinite or no number
            return math.nan
        except Exception as error:
            raise ValueError(
                f"index of {policy.name} must be a function of params, stage, counts, arm and mean, "
                f"got {type(error).__name__}: {error}"
            ) from error

    rng = np.random.default_rng(0)
    for _ in range(TRIALS):
        n_arms = int(rng.integers(2, 11))
        counts = np.floor(10 ** rng.uniform(0, 4, n_arms)).astype(np.int64)
        arm = int(rng.integers(n_arms))
        other = int(rng.integers(n_arms))
        stage = int(counts.sum() * 10 ** rng.uniform(0, 2))
        mean = float(rng.uniform()) if policy.rewards != "gaussian" else float(rng.normal(0, 2))
        value = index(params, stage, counts, arm, mean)
        where = f"stage {stage}, counts {counts.tolist()}, arm {arm} and mean {mean:.6g}"
        if not np.isfinite(value):
            raise ValueError(f"index of {policy.name} must be finite, got {value!r} at {where}")
        more = counts.copy()
        more[other] += 1 + int(10 ** rng.uniform(0, 3))
        later = stage + int(10 ** rng.uniform(0, 4))
        higher = (
            float(rng.uniform(mean, 1)) if policy.rewards != "gaussian" else mean + rng.exponential()
        )
        room = ROOM * (1 + abs(value))
        for promise, changed, sign in (
            (f"non-decreasing in stage, got less at stage {later}", (later, counts, mean), 1),
            (f"non-decreasing in mean, got less at mean {higher:.6g}", (stage, counts, higher), 1),
            (
                f"non-increasing in every count, got more with {more[other]} for arm {other}",
                (stage, more, mean),
                -1,
            ),
        ):
            new = index(params, changed[0], changed[1], arm, changed[2])
            if not sign * (new - value) >= -room:
                raise ValueError(
                    f"index of {policy.name} must be {promise} ({new:.9g} against {value:.9g}) "
                    f"than at {where}"
                )


def statistics_of(counts: Array) -> Statistics:
    """Return statistics with these counts of observations, every third of which is a look."""
    looks = counts // 3
    totals = np.array([(counts - looks).sum(), looks.sum()])
    sums = np.zeros(counts.size)
    return Statistics(counts - looks, looks, counts, sums, totals, np.zeros(0))


def check_decisions(policy: Policy, params: Any, n_arms: int, rng: np.random.Generator) -> None:
    """Test that decisions name an arm, leave the state alone and depend on the story alone.

    Of two states, one is told one by one, the other of several pulls or looks of an arm at once.
    """
    twice = [policy.init(params, n_arms) for _ in range(2)]
    stage, n_told = 1, 0
    while stage < STAGES:
        chosen = []
        for state in twice:
            before = [np.copy(part) for part in arrays_of(state)]
            own = np.random.default_rng(stage)
            arms = tuple(int(f(params, state, stage, own)) for f in (policy.pull, policy.look))
            for name, arm in zip(("pull", "look"), arms, strict=True):
                if not 0 <= arm < n_arms:
                    raise ValueError(
                        f"{name} of {policy.name} must be one of {n_arms} arms, got {arm}"
                    )
            for old, new in zip(before, arrays_of(state), strict=True):
                if old.tobytes() != new.tobytes():
                    raise ValueError(
                        f"deciding of {policy.name} must leave the state alone, got another one "
                        f"at stage {stage}"
                    )
            chosen.append(arms)
        if chosen[0] != chosen[1]:
            raise ValueError(
                f"decisions of {policy.name} must depend on what it was told alone, got {chosen[0]} "
                f"and {chosen[1]} after the same {n_told} observations, one by one and at once"
            )
        pull, look = chosen[0]
        n_pulls, n_looks = 1, 1
        if policy.index is not None and policy.view is not None:
            seen = policy.view(params, twice[0], stage)
            check_choice(policy, params, twice[0], stage, seen, pull, look)
            n_pulls = int(max(1, min(3, seen.end - stage)))
            if policy.hold is None:  # else they go to several arms
                n_looks = int(max(1, min(3, seen.most_looks)))
        one, once = twice
        rewards = rng.integers(0, 2, n_pulls).astype(float)  # whose sums are exact
        for later, reward in enumerate(rewards):
            one = policy.update(params, one, stage + later, pull, 1, float(reward), False)
        once = policy.update(params, once, stage, pull, n_pulls, float(rewards.sum()), False)
        stage += n_pulls - 1
        n_told += n_pulls
        if rng.random() < 0.3:
            rewards = rng.integers(0, 2, n_looks).astype(float)
            for reward in rewards:
                one = policy.update(params, one, stage, look, 1, float(reward), True)
            once = policy.update(params, once, stage, look, n_looks, float(rewards.sum()), True)
            n_told += n_looks
        twice = [one, once]
        stage += 1


def check_choice(
    policy: Policy, params: Any, state: Any, stage: int, seen: Any, pull: int, look: int
) -> None:
    """Test that an index policy decides what the engines derive from its index."""
    index: Any = policy.index
    index = index_of_statistics(index, policy.index_reads)
    values = np.full(seen.allowed.size, -np.inf)
    known = seen.statistics
    for arm in np.flatnonzero(seen.allowed):
        values[arm] = np.inf
        if seen.tried[arm] > 0:
            mean = known.sums[arm] / known.n_observed[arm]
            values[arm] = index(params, stage - seen.origin, known, arm, mean)
    best, *others = map(int, np.argsort(-values, kind="stable"))
    if pull != best:
        raise ValueError(
            f"pull of {policy.name} must be the arm of largest index, got {pull} at stage {stage}, "
            f"where the indices are {values.tolist()}"
        )
    if seen.most_looks == 0 or np.inf in values:
        return
    if policy.hold is not None and policy.due is not None:
        what = "the arm whose turn it is, or that is held"
        hold = policy.hold(params, state)
        expected = hold.arm if hold.most > 0 else look
        for other in range(values.size):
            if policy.due(params, state, other, 1) > 0:
                expected = other
    elif policy.turns is None:
        what = "the arm of second largest index, or most_looks of its view 0"
        expected = others[0] if values[others[0]] > -np.inf else best
    else:
        what = "the arm whose turn it is"
        playing, latest = policy.turns(params, state)
        expected = (latest + 1) % values.size
        while not playing[expected]:
            expected = (expected + 1) % values.size
    if look != expected:
        raise ValueError(
            f"look of {policy.name} must be {what}, got {look} instead of {expected} at stage {stage}"
        )
