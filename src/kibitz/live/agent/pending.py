r"""How to decide while reports are pending.

If every report arrives before the next question, an agent makes the simulator's decisions. With n
reported observations of an arm and p pending pulls:

- The clock of a policy is the number of questions asked.
- The mean is over what was reported. The count in the index is min(n + p, 2n): pending pulls narrow
  the confidence interval, so a hundred questions at once do not all go to one arm, but never by more
  than the reports do, so lost reports cannot make an arm look known. To the policy it looks as if the
  first n pending pulls had paid the arm's mean.
- An arm without any report is asked, fewest questions first, but at most \sqrt t times; after that
  only if no arm has a report.
- For a look, pending looks count like pending pulls, except the pull of the present stage: pull and
  look are chosen from the same state. An arm that has only looks counts as known.
- Thompson sampling ignores pending pulls: its draws spread by themselves.

Policies with phases (`Policy.in_phases`) need reports in order: a question waits for the last one.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kibitz.live.events import Arm
from kibitz.policies.policy import Policy


def state_of(
    policy: Policy, params: Any, arms: Sequence[Arm], scale: float, pending: Sequence[tuple[int, int]]
) -> Any:
    """Return the state of a policy after all reports, with `pending` (pulls, looks) of each arm."""
    state = policy.init(params, len(arms))
    for place, arm in enumerate(arms):
        if arm.n_pulls:
            total = arm.pull_sum / scale
            state = policy.update(params, state, 1, place, arm.n_pulls, total, False)
        if arm.n_looks:
            total = arm.look_sum / scale
            state = policy.update(params, state, 1, place, arm.n_looks, total, True)
    if policy.view is None:
        return state
    known = policy.view(params, state, 1).statistics
    for place, (pulls, looks) in enumerate(pending):
        n = int(known.n_observed[place])
        if n and (pulls or looks):
            mean = known.sums[place] / n
            pulls = min(pulls, n)
            looks = min(looks, n - pulls)
            if pulls:
                state = policy.update(params, state, 1, place, pulls, pulls * mean, False)
            if looks:
                state = policy.update(params, state, 1, place, looks, looks * mean, True)
    return state


def unknown_arms(policy: Policy, params: Any, state: Any, stage: int) -> list[int]:
    """Return the arms without any observation, which a policy would pull first."""
    tried = policy.view(params, state, stage).tried if policy.view else state.statistics.n_pulls
    return [place for place, n in enumerate(tried) if n == 0]


def pending_pulls(arm: Arm, own: bool) -> int:
    """Return how many pulls to assume: those pending; at least one where only looks have reports."""
    pulls = arm.n_pending - own
    if arm.n_pulls == 0 and arm.n_asked > own:
        pulls = max(pulls, 1)
    return pulls


def pull(policy: Policy, params: Any, arms: Sequence[Arm], stage: int, scale: float, rng: Any) -> int:
    """Return the place of the arm to pull."""
    places = range(len(arms))
    state = state_of(policy, params, arms, scale, [(pending_pulls(arm, False), 0) for arm in arms])
    unknown = unknown_arms(policy, params, state, stage)
    if unknown:
        first = min(unknown, key=lambda place: arms[place].n_asked)
        if len(unknown) == len(arms) or arms[first].n_asked < math.sqrt(stage):
            return first
        places = [place for place in places if place not in unknown]  # type: ignore[assignment]
        known = [arms[place] for place in places]
        state = state_of(
            policy, params, known, scale, [(pending_pulls(arm, False), 0) for arm in known]
        )
    return places[int(policy.pull(params, state, stage, rng))]


def look(
    policy: Policy,
    params: Any,
    arms: Sequence[Arm],
    stage: int,
    scale: float,
    rng: Any,
    own: int | None,
    memory: Any = None,
) -> int:
    """Return the place of the arm to look at; `own` is that of the present stage's pending pull.

    `memory` is the stored state of a policy that holds an arm for some looks.
    """
    places = [p for p, arm in enumerate(arms) if arm.n_seen > 0 or arm.looks_pending == 0]
    if not places:
        return min(range(len(arms)), key=lambda place: arms[place].looks_pending)
    if len(places) == 1:  # policies choose among two arms or more
        return places[0]
    known = [arms[place] for place in places]
    pending = [
        (pending_pulls(arm, place == own), arm.looks_pending)
        for place, arm in zip(places, known, strict=True)
    ]
    state = state_of(policy, params, known, scale, pending)
    if policy.hold is not None:
        same = memory is not None and len(known) == len(arms)
        state.hold[:] = memory.hold if same else np.zeros_like(state.hold)
    return places[int(policy.look(params, state, stage, rng))]
