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
    if policy.is_python:
        for n_arms in (2, 3, 6):
            play_python_policy(policy, params, n_arms, rng)
        return
    if policy.index is not None:
        check_monotonicity(policy, params)
    if policy.rule is None:  # with a rule, `index_policy` derived the decisions from the index
        for n_arms in (2, 3, 6):
            try:
                check_decisions(policy, params, n_arms, rng)
            except ArithmeticError as error:
                raise ValueError(
                    f"a function of {policy.name} raised {type(error).__name__} in plain Python, "
                    f"without numba: {error}"
                ) from error


def check_monotonicity(policy: Policy, params: Any) -> None:
    """Raise ValueError if an index is not monotone in stage, mean and counts.

    Also raise ValueError if the index modifies its arguments.
    """
    formula: Any = policy.index

    def index(params: Any, stage: int, counts: Array, arm: int, mean: float) -> float:
        stats = Statistics(*map(np.copy, make_statistics(counts)))
        reads_counts = policy.index_reads == "counts"
        arguments = list_arrays(stats)
        copies = [np.copy(array) for array in arguments]
        value = evaluate(params, stage, stats.n_observed if reads_counts else stats, arm, mean)
        if any(map(differ, copies, arguments)):
            raise ValueError(
                f"index of {policy.name} must not modify its arguments, but it changed the "
                f"{'counts' if reads_counts else 'statistics'} {counts.tolist()} at stage {stage}; "
                "modify a copy instead"
            )
        return value

    def evaluate(params: Any, stage: int, stats: Any, arm: int, mean: float) -> float:
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
        other_arm = int(rng.integers(n_arms))
        stage = int(counts.sum() * 10 ** rng.uniform(0, 2))
        mean = float(rng.uniform()) if policy.rewards != "gaussian" else float(rng.normal(0, 2))
        index_value = index(params, stage, counts, arm, mean)
        place = f"stage {stage}, counts {counts.tolist()}, arm {arm} and mean {mean:.6g}"
        if not np.isfinite(index_value):
            raise ValueError(f"index of {policy.name} must be finite, got {index_value!r} at {place}")
        larger_counts = counts.copy()
        larger_counts[other_arm] += 1 + int(10 ** rng.uniform(0, 3))
        later_stage = stage + int(10 ** rng.uniform(0, 4))
        higher_mean = (
            float(rng.uniform(mean, 1)) if policy.rewards != "gaussian" else mean + rng.exponential()
        )
        tolerance = TOLERANCE * (1 + abs(index_value))
        for requirement, arguments, sign in (
            (
                f"non-decreasing in stage, got less at stage {later_stage}",
                (later_stage, counts, mean),
                1,
            ),
            (
                f"non-decreasing in mean, got less at mean {higher_mean:.6g}",
                (stage, counts, higher_mean),
                1,
            ),
            (
                f"non-increasing in every count, got more with count {larger_counts[other_arm]} "
                f"for arm {other_arm}",
                (stage, larger_counts, mean),
                -1,
            ),
        ):
            new_value = index(params, arguments[0], arguments[1], arm, arguments[2])
            if not sign * (new_value - index_value) >= -tolerance:
                raise ValueError(
                    f"index of {policy.name} must be {requirement} ({new_value:.9g}) than at "
                    f"{place} ({index_value:.9g})"
                )


def differ(array: Array, other_array: Array) -> bool:
    """Return whether two arrays differ; two NaN with the same bits are equal."""
    return array.tobytes() != other_array.tobytes()


def make_statistics(counts: Array) -> Statistics:
    """Return statistics with these counts of observations, of which a third are looks."""
    looks = counts // 3
    totals = np.array([(counts - looks).sum(), looks.sum()])
    sums = np.zeros(counts.size)
    return Statistics(counts - looks, looks, counts, sums, totals, np.zeros(0))


def check_decisions(policy: Policy, params: Any, n_arms: int, rng: np.random.Generator) -> None:
    """Raise ValueError if a decision is not one of the arms, or if deciding modifies the state.

    Also raise ValueError if decisions depend on anything but the observations. To test this, two
    states receive the same observations, the first state one by one and the second state several at
    once. The policy must choose the same arms in both states.
    """
    states = [policy.init(params, n_arms) for _ in range(2)]
    stage, n_reported = 1, 0
    while stage < N_STAGES:
        choices = []
        for state in states:
            copies = [np.copy(array) for array in list_arrays(state)]
            policy_rng = np.random.default_rng(stage)
            arms = tuple(
                int(choose(params, state, stage, policy_rng)) for choose in (policy.pull, policy.look)
            )
            for name, arm in zip(("pull", "look"), arms, strict=True):
                if not 0 <= arm < n_arms:
                    raise ValueError(
                        f"{name} of {policy.name} must return an arm from 0 to {n_arms - 1}, "
                        f"got {arm}"
                    )
            if any(map(differ, copies, list_arrays(state))):
                raise ValueError(
                    f"pull and look of {policy.name} must not modify the state, but they did at "
                    f"stage {stage}"
                )
            choices.append(arms)
        if choices[0] != choices[1]:
            raise ValueError(
                f"decisions of {policy.name} must depend on its observations only, but the arms to "
                f"pull and look at are {choices[0]} after {n_reported} observations reported one by "
                f"one, and {choices[1]} after the same observations reported several at once"
            )
        pull, look = choices[0]
        n_pulls, n_looks = 1, 1
        if policy.index is not None and policy.view is not None:
            view = policy.view(params, states[0], stage)
            check_choice(policy, params, states[0], stage, view, pull, look)
            n_pulls = int(max(1, min(3, view.last_stage - stage)))
            if policy.hold is None:  # with a hold, consecutive looks go to several arms
                n_looks = int(max(1, min(3, view.max_looks)))
        state_one_by_one, state_at_once = states
        rewards = rng.integers(0, 2, n_pulls).astype(float)  # 0 or 1, so sums are exact
        for offset, reward in enumerate(rewards):
            state_one_by_one = policy.update(
                params, state_one_by_one, stage + offset, pull, 1, float(reward), False
            )
        state_at_once = policy.update(
            params, state_at_once, stage, pull, n_pulls, float(rewards.sum()), False
        )
        stage += n_pulls - 1
        n_reported += n_pulls
        if rng.random() < 0.3:
            rewards = rng.integers(0, 2, n_looks).astype(float)
            for reward in rewards:
                state_one_by_one = policy.update(
                    params, state_one_by_one, stage, look, 1, float(reward), True
                )
            state_at_once = policy.update(
                params, state_at_once, stage, look, n_looks, float(rewards.sum()), True
            )
            n_reported += n_looks
        states = [state_one_by_one, state_at_once]
        stage += 1


def play_python_policy(policy: Policy, params: Any, n_arms: int, rng: np.random.Generator) -> None:
    """Play some stages with random rewards; raise ValueError if a decision is not one of the arms."""
    state = policy.init(params, n_arms)
    for stage in range(1, N_STAGES):
        pull = policy.pull(params, state, stage, rng)
        look = policy.look(params, state, stage, rng)
        state = policy.update(params, state, stage, pull, 1, float(rng.integers(2)), False)
        state = policy.update(params, state, stage, look, 1, float(rng.integers(2)), True)


def check_choice(
    policy: Policy, params: Any, state: Any, stage: int, view: Any, pull: int, look: int
) -> None:
    """Raise ValueError if the decisions of an index policy do not agree with its index."""
    index: Any = policy.index
    index = make_statistics_index(index, policy.index_reads)
    indices = np.full(view.allowed.size, -np.inf)
    stats = view.statistics
    for arm in np.flatnonzero(view.allowed):
        indices[arm] = np.inf
        if view.tried[arm] > 0:
            mean = stats.sums[arm] / stats.n_observed[arm]
            indices[arm] = index(params, stage - view.origin, stats, arm, mean)
    best_arm, *other_arms = map(int, np.argsort(-indices, kind="stable"))
    if pull != best_arm:
        raise ValueError(
            f"pull of {policy.name} must be the arm with the largest index, got {pull} "
            f"at stage {stage} with indices {indices.tolist()}"
        )
    if view.max_looks == 0 or np.inf in indices:
        return
    if policy.hold is not None and policy.looks_due is not None:
        rule_text = "the arm whose turn it is, or the held arm"
        hold = policy.hold(params, state)
        expected_arm = hold.arm if hold.max_looks > 0 else look
        for other_arm in range(indices.size):
            if policy.looks_due(params, state, other_arm, 1) > 0:
                expected_arm = other_arm
    elif policy.turns is None:
        rule_text = "the arm with the second largest index"
        expected_arm = other_arms[0] if indices[other_arms[0]] > -np.inf else best_arm
    else:
        rule_text = "the arm whose turn it is"
        takes_turns, last_arm = policy.turns(params, state)
        expected_arm = (last_arm + 1) % indices.size
        while not takes_turns[expected_arm]:
            expected_arm = (expected_arm + 1) % indices.size
    if look != expected_arm:
        raise ValueError(
            f"look of {policy.name} must be {rule_text}, arm {expected_arm}, got arm {look} "
            f"at stage {stage}"
        )
