r"""Choose arms while the reports of earlier decisions are delayed (pending).

If every report arrives before the next request, an agent decides as the simulator does. If reports
are delayed, let an arm have n reported observations and p pending pulls:

- The stage of the policy is the number of pulls requested.
- The mean is taken over reported rewards. The count in the index is min(n + p, 2n): pending pulls
  narrow the confidence interval, so a hundred simultaneous requests do not all get the same arm. At
  most n pending pulls count, so lost reports cannot make an arm seem well known. The policy decides
  in the state that follows min(n, p) further rewards equal to the arm's mean.
- An arm without any report is pulled before all arms with a report. Among several arms without a
  report, the arm with the fewest requested pulls is pulled first. In stage t, this rule excludes an
  arm with \sqrt t requested pulls or more, unless no arm has a report.
- For a look, pending looks count like pending pulls. The pending pull of the current stage does not
  count, because the pull and the look of a stage are chosen from the same state. An arm counts as
  known even if all its reports are of looks.
- Thompson sampling ignores pending pulls, because its random draws already spread the requests.

Policies with phases (`Policy.in_phases`) need the reports in order: each request must wait for the
report of the previous decision.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kibitz.live.events import Arm
from kibitz.policies.policy import Policy


def build_state(
    policy: Policy, params: Any, arms: Sequence[Arm], scale: float, pending: Sequence[tuple[int, int]]
) -> Any:
    """Return the state of a policy after all reports and the `pending` (pulls, looks) of each arm.

    A pending pull or look counts as a reward equal to the mean of its arm. For an arm with n
    observations, at most n pending pulls and looks count.
    """
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


def find_unknown_arms(policy: Policy, params: Any, state: Any, stage: int) -> list[int]:
    """Return the indices of the arms that the policy has not tried and would therefore pull first."""
    tried = policy.view(params, state, stage).tried if policy.view else state.statistics.n_pulls
    return [place for place, n in enumerate(tried) if n == 0]


def count_pending_pulls(arm: Arm, is_current: bool) -> int:
    """Return the number of pending pulls of an arm that the policy should assume.

    The pull of the current stage is not counted if it is of this arm (`is_current`). At least one
    pending pull is assumed for an arm that was pulled but has no report of a pull.
    """
    pulls = arm.n_pending - is_current
    if arm.n_pulls == 0 and arm.n_asked > is_current:
        pulls = max(pulls, 1)
    return pulls


def pull(policy: Policy, params: Any, arms: Sequence[Arm], stage: int, scale: float, rng: Any) -> int:
    """Return the index in `arms` of the arm to pull."""
    places = range(len(arms))
    pending = [(count_pending_pulls(arm, False), 0) for arm in arms]
    state = build_state(policy, params, arms, scale, pending)
    unknown = find_unknown_arms(policy, params, state, stage)
    if unknown:
        first = min(unknown, key=lambda place: arms[place].n_asked)
        if len(unknown) == len(arms) or arms[first].n_asked < math.sqrt(stage):
            return first
        places = [place for place in places if place not in unknown]  # type: ignore[assignment]
        known = [arms[place] for place in places]
        state = build_state(policy, params, known, scale, [pending[place] for place in places])
    return places[int(policy.pull(params, state, stage, rng))]


def look(
    policy: Policy,
    params: Any,
    arms: Sequence[Arm],
    stage: int,
    scale: float,
    rng: Any,
    current: int | None,
    stored: Any = None,
) -> int:
    """Return the index in `arms` of the arm to look at.

    `current` is the index of the arm whose pull in the current stage is pending, or None if no such
    pull is pending. `stored` is the stored state of a policy that looks at one arm several times in a
    row, or None.
    """
    places = [p for p, arm in enumerate(arms) if arm.n_observed > 0 or arm.looks_pending == 0]
    if not places:
        return min(range(len(arms)), key=lambda place: arms[place].looks_pending)
    if len(places) == 1:  # a policy needs at least two arms
        return places[0]
    known = [arms[place] for place in places]
    pending = [
        (count_pending_pulls(arm, place == current), arm.looks_pending)
        for place, arm in zip(places, known, strict=True)
    ]
    state = build_state(policy, params, known, scale, pending)
    if policy.hold is not None:
        same_arms = stored is not None and len(known) == len(arms)
        state.hold[:] = stored.hold if same_arms else np.zeros_like(state.hold)
    return places[int(policy.look(params, state, stage, rng))]
