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
- Policies without an index ignore pending pulls. The random draws of Thompson sampling and ε-greedy
  spread the requests; IMED gives simultaneous requests the same arm.

If silence counts as a reward (`silence=`), pending decisions count as silent at once, with that
reward, and a report corrects it. No arm that was pulled is then unknown, and Thompson sampling counts
pending pulls too. Of three rules this one had the smallest regret (docs/live.md,
benchmarks/silence.py): most visitors do not click, so the reward of silence is the best guess.

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
    policy: Policy,
    params: Any,
    arms: Sequence[Arm],
    scale: float,
    pending: Sequence[tuple[int, int]],
    silence: float | None,
) -> Any:
    """Return the state of a policy after all reports and the `pending` (pulls, looks) of each arm.

    A pending pull or look counts as the reward `silence`. If `silence` is None, it counts as a reward
    equal to the mean of its arm; for an arm with n observations, at most n pending pulls and looks
    then count.
    """
    state = policy.init(params, len(arms))
    for arm_index, (arm, (pulls, looks)) in enumerate(zip(arms, pending, strict=True)):
        if silence is None:
            pulls = looks = 0
        if n := arm.n_pulls + pulls:
            total = (arm.pull_sum + pulls * (silence or 0.0)) / scale
            state = policy.update(params, state, 1, arm_index, n, total, False)
        if n := arm.n_looks + looks:
            total = (arm.look_sum + looks * (silence or 0.0)) / scale
            state = policy.update(params, state, 1, arm_index, n, total, True)
    if policy.view is None or silence is not None:
        return state
    statistics = policy.view(params, state, 1).statistics
    for arm_index, (pulls, looks) in enumerate(pending):
        n = int(statistics.n_observed[arm_index])
        if n and (pulls or looks):
            mean = statistics.sums[arm_index] / n
            pulls = min(pulls, n)
            looks = min(looks, n - pulls)
            if pulls:
                state = policy.update(params, state, 1, arm_index, pulls, pulls * mean, False)
            if looks:
                state = policy.update(params, state, 1, arm_index, looks, looks * mean, True)
    return state


def find_unknown_arms(policy: Policy, params: Any, state: Any, stage: int) -> list[int]:
    """Return the indices of the arms that the policy has not tried and would therefore pull first."""
    tried = policy.view(params, state, stage).tried if policy.view else state.statistics.n_pulls
    return [arm_index for arm_index, n in enumerate(tried) if n == 0]


def count_pending_pulls(arm: Arm, is_current: bool, silence: float | None) -> int:
    """Return the number of pending pulls of an arm that the policy should assume.

    The pull of the current stage is not counted if it is of this arm (`is_current`). If silence does
    not count as a reward, at least one pending pull is assumed for an arm that was pulled but has no
    report of a pull.
    """
    pulls = arm.n_pending - is_current
    if silence is None and arm.n_pulls == 0 and arm.n_asked > is_current:
        pulls = max(pulls, 1)
    return pulls


def pull(
    policy: Policy,
    params: Any,
    arms: Sequence[Arm],
    stage: int,
    scale: float,
    rng: Any,
    silence: float | None = None,
) -> int:
    """Return the index in `arms` of the arm to pull.

    `silence` is the reward that silence counts as, or None.
    """
    arm_indices = range(len(arms))
    pending = [
        (count_pending_pulls(arm, False, silence), 0 if silence is None else arm.looks_pending)
        for arm in arms
    ]
    state = build_state(policy, params, arms, scale, pending, silence)
    unknown = find_unknown_arms(policy, params, state, stage)
    if unknown:
        first = min(unknown, key=lambda arm_index: arms[arm_index].n_asked)
        if len(unknown) == len(arms) or arms[first].n_asked < math.sqrt(stage):
            return first
        arm_indices = [arm_index for arm_index in arm_indices if arm_index not in unknown]  # type: ignore[assignment]
        known_arms = [arms[arm_index] for arm_index in arm_indices]
        known_pending = [pending[arm_index] for arm_index in arm_indices]
        state = build_state(policy, params, known_arms, scale, known_pending, silence)
    return arm_indices[int(policy.pull(params, state, stage, rng))]


def look(
    policy: Policy,
    params: Any,
    arms: Sequence[Arm],
    stage: int,
    scale: float,
    rng: Any,
    current: int | None,
    stored: Any = None,
    silence: float | None = None,
) -> int:
    """Return the index in `arms` of the arm to look at.

    `current` is the index of the arm whose pull in the current stage is pending, or None if no such
    pull is pending. `stored` is the stored state of a policy that looks at one arm several times in a
    row, or None. `silence` is the reward that silence counts as, or None.
    """
    arm_indices = list(range(len(arms)))
    if silence is None:
        arm_indices = [p for p in arm_indices if arms[p].n_observed > 0 or arms[p].looks_pending == 0]
    if not arm_indices:
        return min(range(len(arms)), key=lambda arm_index: arms[arm_index].looks_pending)
    if len(arm_indices) == 1:  # a policy needs at least two arms
        return arm_indices[0]
    candidates = [arms[arm_index] for arm_index in arm_indices]
    pending = [
        (count_pending_pulls(arm, arm_index == current, silence), arm.looks_pending)
        for arm_index, arm in zip(arm_indices, candidates, strict=True)
    ]
    state = build_state(policy, params, candidates, scale, pending, silence)
    if policy.hold is not None:
        same_arms = stored is not None and len(candidates) == len(arms)
        state.hold[:] = stored.hold if same_arms else np.zeros_like(state.hold)
    return arm_indices[int(policy.look(params, state, stage, rng))]
