"""Checks, on random inputs, that a policy keeps the contract that the engine relies on."""

import math
from typing import Any

import numpy as np

from kibitz.policies.index_policy import make_statistics_index
from kibitz.policies.policy import Array, Policy, Statistics, check_policy, list_arrays

N_TRIALS = 300  # number of random inputs for which the index is checked
N_STAGES = 100  # number of stages to play with each number of arms
TOLERANCE = 1e-12  # relative tolerance for rounding errors


def check_promises(policy: Policy) -> None:
    """Raise ValueError if a policy breaks the contract that the engine relies on."""
    check_policy(policy)
    rng = np.random.default_rng(0)
    params = policy.params_for(1000)
    if policy.index is not None:
        check_monotonicity(policy, params)
    if policy.rule is None:  # with a rule, `index_policy` derived the decisions from the index
        for n_arms in (2, 3, 6):
            try:
                check_decisions(policy, params, n_arms, rng)
            except ArithmeticError as error:
                raise ValueError(
                    f"{policy.name} raised {type(error).__name__} in plain Python: {error}"
                ) from error


def check_monotonicity(policy: Policy, params: Any) -> None:
    """Raise ValueError if an index is not monotone in stage, mean and counts."""
    formula: Any = policy.index

    def index(params: Any, stage: int, counts: Array, arm: int, mean: float) -> float:
        stats: Any = counts if policy.index_reads == "counts" else make_statistics(counts)
        try:
            return float(formula(params, stage, stats, arm, mean))
        except (ArithmeticError, ValueError):  # compiled code returns inf or NaN instead
            return math.nan
        except Exception as error:
            raise ValueError(
                f"index of {policy.name} raised {type(error).__name__} when called with params, "
                f"stage, counts, arm and mean: {error}"
            ) from error

    rng = np.random.default_rng(0)
    for _ in range(N_TRIALS):
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
        tolerance = TOLERANCE * (1 + abs(value))
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
            if not sign * (new - value) >= -tolerance:
                raise ValueError(
                    f"index of {policy.name} must be {promise} ({new:.9g} against {value:.9g}) "
                    f"than at {where}"
                )


def make_statistics(counts: Array) -> Statistics:
    """Return statistics with the given counts of observations; a third of them are looks."""
    looks = counts // 3
    totals = np.array([(counts - looks).sum(), looks.sum()])
    sums = np.zeros(counts.size)
    return Statistics(counts - looks, looks, counts, sums, totals, np.zeros(0))


def check_decisions(policy: Policy, params: Any, n_arms: int, rng: np.random.Generator) -> None:
    """Raise ValueError if a decision is not one of the arms, or if deciding modifies the state.

    Also raise ValueError if decisions depend on anything but the observations. To test this, two
    states receive the same observations, the first state one by one and the second state several at
    once; the policy must decide alike in both states.
    """
    states = [policy.init(params, n_arms) for _ in range(2)]
    stage, n_reported = 1, 0
    while stage < N_STAGES:
        chosen = []
        for state in states:
            before = [np.copy(part) for part in list_arrays(state)]
            own = np.random.default_rng(stage)
            arms = tuple(int(f(params, state, stage, own)) for f in (policy.pull, policy.look))
            for name, arm in zip(("pull", "look"), arms, strict=True):
                if not 0 <= arm < n_arms:
                    raise ValueError(
                        f"{name} of {policy.name} must be one of {n_arms} arms, got {arm}"
                    )
            for old, new in zip(before, list_arrays(state), strict=True):
                if old.tobytes() != new.tobytes():
                    raise ValueError(
                        f"pull and look of {policy.name} must not modify the state, but they did at "
                        f"stage {stage}"
                    )
            chosen.append(arms)
        if chosen[0] != chosen[1]:
            raise ValueError(
                f"decisions of {policy.name} must depend on its observations only, got {chosen[0]} "
                f"and {chosen[1]} after the same {n_reported} observations, one by one and at once"
            )
        pull, look = chosen[0]
        n_pulls, n_looks = 1, 1
        if policy.index is not None and policy.view is not None:
            view = policy.view(params, states[0], stage)
            check_choice(policy, params, states[0], stage, view, pull, look)
            n_pulls = int(max(1, min(3, view.end - stage)))
            if policy.hold is None:  # with a hold, consecutive looks go to several arms
                n_looks = int(max(1, min(3, view.max_looks)))
        one, once = states
        rewards = rng.integers(0, 2, n_pulls).astype(float)  # 0 or 1, so sums are exact
        for later, reward in enumerate(rewards):
            one = policy.update(params, one, stage + later, pull, 1, float(reward), False)
        once = policy.update(params, once, stage, pull, n_pulls, float(rewards.sum()), False)
        stage += n_pulls - 1
        n_reported += n_pulls
        if rng.random() < 0.3:
            rewards = rng.integers(0, 2, n_looks).astype(float)
            for reward in rewards:
                one = policy.update(params, one, stage, look, 1, float(reward), True)
            once = policy.update(params, once, stage, look, n_looks, float(rewards.sum()), True)
            n_reported += n_looks
        states = [one, once]
        stage += 1


def check_choice(
    policy: Policy, params: Any, state: Any, stage: int, view: Any, pull: int, look: int
) -> None:
    """Raise ValueError if the decisions of an index policy do not agree with its index."""
    index: Any = policy.index
    index = make_statistics_index(index, policy.index_reads)
    values = np.full(view.allowed.size, -np.inf)
    stats = view.statistics
    for arm in np.flatnonzero(view.allowed):
        values[arm] = np.inf
        if view.tried[arm] > 0:
            mean = stats.sums[arm] / stats.n_observed[arm]
            values[arm] = index(params, stage - view.origin, stats, arm, mean)
    best, *others = map(int, np.argsort(-values, kind="stable"))
    if pull != best:
        raise ValueError(
            f"pull of {policy.name} must be the arm with the largest index, got {pull} "
            f"at stage {stage} with indices {values.tolist()}"
        )
    if view.max_looks == 0 or np.inf in values:
        return
    if policy.hold is not None and policy.looks_due is not None:
        rule = "the arm whose turn it is, or the held arm"
        hold = policy.hold(params, state)
        expected = hold.arm if hold.max_looks > 0 else look
        for other in range(values.size):
            if policy.looks_due(params, state, other, 1) > 0:
                expected = other
    elif policy.turns is None:
        rule = "the arm with the second largest index"
        expected = others[0] if values[others[0]] > -np.inf else best
    else:
        rule = "the arm whose turn it is"
        playing, latest = policy.turns(params, state)
        expected = (latest + 1) % values.size
        while not playing[expected]:
            expected = (expected + 1) % values.size
    if look != expected:
        raise ValueError(
            f"look of {policy.name} must be {rule}, arm {expected}, got arm {look} at stage {stage}"
        )
