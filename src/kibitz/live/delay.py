r"""How to decide while reports are outstanding.

With every report told before the next question, an agent does what the simulator does, decision for
decision. With n observations of an arm told and p of its pulls pending:

- The clock of a policy is the number of questions asked.
- The mean is over what was told. The count in the index is min(n + p, 2n): pending pulls narrow the
  width, so that a hundred questions at once do not all go to one arm, but never by more than what was
  told does, so that lost reports cannot make an arm look known. To the policy it looks as if the
  first n pending pulls had paid the arm's mean.
- An arm that was never heard of is asked, fewest questions first, but at most \sqrt t times; then
  only if no other arm is known either.
- For a look, pending looks count like pending pulls, but not the pull of the present stage: pull and
  look are chosen from the same state. An arm that only looks have told of is no stranger.
- Thompson sampling ignores what is pending: its draws spread by themselves.

Policies in phases (`in_turn`) presuppose order: their next question waits for the answer to the last.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kibitz.live.projection import Arm
from kibitz.policies.policy import Policy


def in_turn(policy: Policy, params: Any) -> bool:
    """Return whether a policy goes through phases, in which the order of reports matters."""
    return policy.in_phases


def heard(
    policy: Policy, params: Any, arms: Sequence[Arm], scale: float, pending: Sequence[tuple[int, int]]
) -> Any:
    """Return the state of a policy that was told of these arms, `pending` pulls and looks assumed."""
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


def unheard(policy: Policy, params: Any, state: Any, stage: int) -> list[int]:
    """Return the places of the arms that a policy knows nothing of and would pull first."""
    tried = policy.view(params, state, stage).tried if policy.view else state.statistics.n_pulls
    return [place for place, n in enumerate(tried) if n == 0]


def assumed(arm: Arm, own: bool) -> int:
    """Return how many pulls to assume: those pending; at least one where only looks were told."""
    pulls = arm.n_pending - own
    if arm.n_pulls == 0 and arm.n_asked > own:
        pulls = max(pulls, 1)
    return pulls


def pull(policy: Policy, params: Any, arms: Sequence[Arm], stage: int, scale: float, rng: Any) -> int:
    """Return the place of the arm to pull."""
    places = range(len(arms))
    state = heard(policy, params, arms, scale, [(assumed(arm, False), 0) for arm in arms])
    strangers = unheard(policy, params, state, stage)
    if strangers:
        first = min(strangers, key=lambda place: arms[place].n_asked)
        if len(strangers) == len(arms) or arms[first].n_asked < math.sqrt(stage):
            return first
        places = [place for place in places if place not in strangers]  # type: ignore[assignment]
        known = [arms[place] for place in places]
        state = heard(policy, params, known, scale, [(assumed(arm, False), 0) for arm in known])
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

    `memory` is the state of a policy that holds an arm for some looks, told of all in order.
    """
    places = [p for p, arm in enumerate(arms) if arm.n_seen > 0 or arm.looks_pending == 0]
    if not places:
        return min(range(len(arms)), key=lambda place: arms[place].looks_pending)
    known = [arms[place] for place in places]
    pending = [
        (assumed(arm, place == own), arm.looks_pending)
        for place, arm in zip(places, known, strict=True)
    ]
    state = heard(policy, params, known, scale, pending)
    if policy.hold is not None:
        same = memory is not None and len(known) == len(arms)
        state.hold[:] = memory.hold if same else np.zeros_like(state.hold)
    return places[int(policy.observe(params, state, stage, rng))]
