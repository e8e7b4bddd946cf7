"""Try the promises that a policy makes, and say in a sentence where one is broken."""

from typing import Any

import numpy as np

from kibitz.engine import planned
from kibitz.policies.policy import Policy

TRIALS = 300
ROOM = 1e-12  # for rounding, relative


def check(policy: Policy) -> None:
    """Test the promises of a policy on random inputs; raise a ValueError where one is broken.

    An index must be a finite number, non-decreasing in `stage` and `mean` and non-increasing in every
    count: the engines rely on it. Every policy must choose an arm that there is, leave the state
    alone when it decides, and decide the same after the same observations. What is tried is the same
    at each call; passing is no proof.

    Parameters
    ----------
    policy
        One of kibitz's, or your own, such as `index_policy` makes.
    """
    rng = np.random.default_rng(0)
    params = planned(policy, 1000)
    if policy.index is not None:
        check_monotonicity(policy, params)
    for n_arms in (2, 3, 10):
        check_decisions(policy, params, n_arms, rng)


def check_monotonicity(policy: Policy, params: Any) -> None:
    """Test that an index goes the right way in each of its arguments."""
    index: Any = getattr(policy.index, "py_func", policy.index)  # in plain Python: no need to compile
    rng = np.random.default_rng(0)
    for _ in range(TRIALS):
        n_arms = int(rng.integers(2, 11))
        counts = np.floor(10 ** rng.uniform(0, 4, n_arms)).astype(np.int64)
        arm = int(rng.integers(n_arms))
        other = int(rng.integers(n_arms))
        stage = int(counts.sum() * 10 ** rng.uniform(0, 2))
        mean = float(rng.uniform()) if policy.unit_rewards else float(rng.normal(0, 2))
        value = index(params, stage, counts, arm, mean)
        where = f"stage {stage}, counts {counts.tolist()}, arm {arm} and mean {mean:.6g}"
        if not np.isfinite(value):
            raise ValueError(f"index of {policy.name} must be finite, got {value!r} at {where}")
        more = counts.copy()
        more[other] += 1 + int(10 ** rng.uniform(0, 3))
        later = stage + int(10 ** rng.uniform(0, 4))
        higher = float(rng.uniform(mean, 1)) if policy.unit_rewards else mean + rng.exponential()
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


def check_decisions(policy: Policy, params: Any, n_arms: int, rng: np.random.Generator) -> None:
    """Test that decisions name an arm, leave the state alone and depend on the story alone."""
    story: list[tuple[int, int, float, bool]] = []
    twice = [policy.init(params, n_arms) for _ in range(2)]
    for stage in range(1, 60):
        chosen = []
        for state in twice:
            before = [np.copy(part) for part in state]
            own = np.random.default_rng(stage)
            arms = tuple(int(f(params, state, stage, own)) for f in (policy.pull, policy.observe))
            for name, arm in zip(("pull", "observe"), arms, strict=True):
                if not 0 <= arm < n_arms:
                    raise ValueError(
                        f"{name} of {policy.name} must be one of {n_arms} arms, got {arm}"
                    )
            for old, new in zip(before, state, strict=True):
                if not np.array_equal(old, np.asarray(new), equal_nan=True):
                    raise ValueError(
                        f"deciding of {policy.name} must leave the state alone, got another one "
                        f"at stage {stage}"
                    )
            chosen.append(arms)
        if chosen[0] != chosen[1]:
            raise ValueError(
                f"decisions of {policy.name} must depend on what it was told alone, got {chosen[0]} "
                f"and {chosen[1]} after the same {len(story)} observations"
            )
        pull, look = chosen[0]
        told = [(stage, pull, float(rng.random()), False)]
        if rng.random() < 0.3:
            told.append((stage, look, float(rng.random()), True))
        for at, arm, reward, free in told:
            twice = [policy.update(params, s, at, arm, 1, reward, free) for s in twice]
        story += told
