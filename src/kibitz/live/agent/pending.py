r"""Choose arms while the reports of earlier decisions are delayed (pending).

If every report arrives before the next request, an agent decides as the simulator does. If reports
are delayed, these rules apply to an arm with n reported observations and p pending pulls:

- The stage of the policy is the number of pulls requested.
- The mean is that of the reported rewards. The count in the index is min(n + p, 2n): pending pulls
  narrow the confidence interval, so a hundred simultaneous requests do not all get the same arm. At
  most n pending pulls count, so lost reports cannot make an arm seem well known. In other words, the
  policy decides as if min(n, p) further rewards, all equal to the arm's mean, had been reported.
- An arm without any report is pulled before all arms with a report. Among several arms without a
  report, the arm with the fewest requested pulls is pulled first. In stage t, this rule does not
  apply to an arm with \sqrt t requested pulls or more, unless no arm has a report.
- For a look, pending looks count like pending pulls. The pending pull of the current stage does not
  count, because the pull and the look of a stage are chosen from the same state. An arm counts as
  known even if all its reports are of looks.
- Policies without an index ignore pending pulls. The random draws of Thompson sampling and ε-greedy
  spread the requests; IMED gives simultaneous requests the same arm.

If silence counts as a reward (`silence=`), a pending decision counts at once as if it had this
reward, and its report corrects the reward. Every arm that was pulled is then known, and Thompson
sampling counts pending pulls too. This rule had the smallest regret of three rules (docs/live.md,
benchmarks/silence.py): most visitors do not click, so the reward of silence is the best guess.

A policy that learns in the order of the decisions (`Policy.revise`) decides from its stored state.
The same rules add the pending decisions to this state; n is then the policy's discounted count.

Policies with phases (`Policy.in_phases`) need the reports in order: each request must wait for the
report of the previous decision.

If the agent has a graph (`shows=`), the policy plays as in the simulator: an arm that was shown need
not be pulled first. A pull that hides its own reward is reported by `forget`. If the graph says that
an arm may hide its reward, its forgotten pulls count as reported. A policy that knows the graph
may pull another arm before an arm without a report, unless such an arm has a pending pull.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kibitz.live.events import Arm
from kibitz.policies.policy import Array, Graph, Policy, count_kind, list_arrays, replace_arrays


def build_state(
    policy: Policy,
    params: Any,
    arms: Sequence[Arm],
    scale: float,
    pending: Sequence[tuple[int, int]],
    silence: float | None,
    shows: Array | None = None,
    stored: Any = None,
) -> Any:
    """Return the state of a policy after all reports and all pending decisions.

    `pending` has the numbers of pending pulls and pending looks of each arm. Each of them counts as
    the reward `silence`. If `silence` is None, each counts as a reward equal to the mean of its arm,
    and for an arm with n observations, at most n pending decisions count. `stored` is the stored
    state of a policy that learns in the order of the decisions; it is None for all other policies.
    """
    if policy.revise is not None:
        return add_pending(policy, params, stored, scale, pending, silence)
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
        if arm.n_shows:
            state = show(policy, params, state, 1, arm_index, arm.n_shows, arm.show_sum / scale)
        if (n := count_hidden(arms, arm_index, shows)) and policy.on_graph is not None:
            state = policy.on_graph.hide(params, state, 1, arm_index, n)
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


def add_pending(
    policy: Policy,
    params: Any,
    state: Any,
    scale: float,
    pending: Sequence[tuple[int, int]],
    silence: float | None,
) -> Any:
    """Add pending decisions to the state of a policy that learns in the order of the decisions.

    This function changes `state`, and returns the new state.
    """
    assert policy.revise is not None
    statistics, stage = state.statistics, int(state.last_stage[0])
    for arm_index, (pulls, looks) in enumerate(pending):
        count_kind(statistics, arm_index, pulls, False)
        count_kind(statistics, arm_index, looks, True)
        n = float(pulls + looks)
        if silence is not None:
            total = n * silence / scale
        else:
            n = min(n, float(statistics.n_observed[arm_index]))
            total = n * statistics.sums[arm_index] / statistics.n_observed[arm_index] if n else 0.0
        if n:
            state = policy.revise(params, state, stage, arm_index, n, total)
    return state


def select_arms(policy: Policy, params: Any, state: Any, arm_indices: Sequence[int]) -> Any:
    """Return a copy of a policy's state that contains only the arms at `arm_indices`.

    An array has one row for each arm if its shape depends on the number of arms.
    """
    shapes = [[array.shape for array in list_arrays(policy.init(params, n))] for n in (2, 3)]
    arrays = [
        array[list(arm_indices)] if two != three else array.copy()
        for array, two, three in zip(list_arrays(state), *shapes, strict=True)
    ]
    return replace_arrays(state, iter(arrays))


def show(
    policy: Policy, params: Any, state: Any, stage: int, arm_index: int, n: int, total: float
) -> Any:
    """Return the state after pulls of other arms showed an arm `n` times.

    `total` is the sum of the shown rewards. The pulled arms do not matter, because no policy of an
    agent learns the graph. A policy without functions for graphs counts shown rewards as looks, as in
    the simulator.
    """
    if policy.on_graph is None:
        return policy.update(params, state, stage, arm_index, n, total, True)
    return policy.on_graph.show(params, state, stage, arm_index, arm_index, n, total)


def count_hidden(arms: Sequence[Arm], arm_index: int, shows: Array | None) -> int:
    """Return the number of pulls of an arm that hid their own reward.

    Callers report such a pull with `forget`. If the arm may hide its reward, all its forgotten pulls
    count as hidden. Otherwise none does.
    """
    if shows is None or shows[arm_index, arm_index] >= 1:
        return 0
    return arms[arm_index].n_forgotten


def make_graph(shows: Array) -> Graph:
    """Convert the matrix of a graph to the record that a policy receives."""
    is_edge = (shows > 0) & ~np.eye(len(shows), dtype=bool)
    offsets = np.concatenate([[0], np.cumsum(is_edge.sum(axis=1))])
    own, no_skip = np.diagonal(shows).copy(), np.zeros(len(shows))
    return Graph(offsets, np.nonzero(is_edge)[1], shows[is_edge], own, no_skip)


def with_graph(policy: Policy, params: Any, shows: Array | None) -> Any:
    """Return the parameters of a policy; add the graph if the policy uses it."""
    if shows is None or "graph" not in policy.constants:
        return params
    return params._replace(graph=make_graph(shows))


def find_unknown_arms(
    policy: Policy, params: Any, state: Any, stage: int, shows: Array | None = None
) -> list[int]:
    """Return the indices of the arms that the policy has not tried and would therefore pull first."""
    if policy.view is not None:
        tried = policy.view(params, state, stage).tried
    else:
        stats = state.statistics
        needs_pull = policy.revise is None and (shows is None or policy.on_graph is None)
        tried = stats.n_pulls if needs_pull else stats.n_observed
    return [arm_index for arm_index, n in enumerate(tried) if n == 0]


def count_pending_pulls(arm: Arm, is_current: bool, silence: float | None, n_hidden: int = 0) -> int:
    """Return the number of pending pulls of an arm that the policy should assume.

    The pull of the current stage is not counted if it is of this arm (`is_current`). If silence does
    not count as a reward, at least one pending pull is assumed for an arm that was pulled but has no
    report of a pull. `n_hidden` is the number of pulls that hid their own reward.
    """
    pulls = arm.n_pending - is_current
    if silence is None and arm.n_pulls == 0 and arm.n_asked - n_hidden > is_current:
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
    shows: Array | None = None,
    stored: Any = None,
) -> int:
    """Return the index in `arms` of the arm to pull.

    `silence` is the reward that silence counts as, or None. `shows` is the matrix of the agent's
    graph, with the rows and columns of `arms`, or None if the agent has no graph. `stored` is the
    stored state of a policy that learns in the order of the decisions, with one row for each of
    `arms`; it is None for all other policies.
    """
    arm_indices = range(len(arms))
    n_hidden = [count_hidden(arms, arm_index, shows) for arm_index in arm_indices]
    # A policy can forget old rewards. An arm with reports can therefore be unknown, and the policy
    # then waits only for its pending pulls.
    n_awaited = [
        arm.n_pending if arm.n_pulls else arm.n_asked - n
        for arm, n in zip(arms, n_hidden, strict=True)
    ]
    pending = [
        (count_pending_pulls(arm, False, silence, n), 0 if silence is None else arm.looks_pending)
        for arm, n in zip(arms, n_hidden, strict=True)
    ]
    learned = None if stored is None else select_arms(policy, params, stored, arm_indices)
    state = build_state(policy, params, arms, scale, pending, silence, shows, learned)
    params = with_graph(policy, params, shows)
    unknown = find_unknown_arms(policy, params, state, stage, shows)
    if "graph" in policy.constants and not any(n_awaited[arm_index] for arm_index in unknown):
        unknown = []  # the policy may pull another arm that shows an unknown arm
    if unknown:
        first = min(unknown, key=n_awaited.__getitem__)
        if len(unknown) == len(arms) or n_awaited[first] < math.sqrt(stage):
            return first
        arm_indices = [arm_index for arm_index in arm_indices if arm_index not in unknown]  # type: ignore[assignment]
        known_arms = [arms[arm_index] for arm_index in arm_indices]
        known_pending = [pending[arm_index] for arm_index in arm_indices]
        shows = None if shows is None else shows[np.ix_(arm_indices, arm_indices)]
        learned = None if stored is None else select_arms(policy, params, stored, arm_indices)
        state = build_state(policy, params, known_arms, scale, known_pending, silence, shows, learned)
        params = with_graph(policy, params, shows)
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
    shows: Array | None = None,
) -> int:
    """Return the index in `arms` of the arm to look at.

    `current` is the index of the arm whose pull in the current stage is pending, or None if no such
    pull is pending. `stored` is the stored state of a policy that looks at one arm several times in a
    row or learns in the order of the decisions, or None. `silence` is the reward that silence counts
    as, or None. `shows` is the matrix of the agent's graph, with the rows and columns of `arms`, or
    None.
    """
    arm_indices = list(range(len(arms)))
    if silence is None:
        arm_indices = [p for p in arm_indices if arms[p].n_observed > 0 or arms[p].looks_pending == 0]
    if not arm_indices:
        return min(range(len(arms)), key=lambda arm_index: arms[arm_index].looks_pending)
    if len(arm_indices) == 1:  # a policy needs at least two arms
        return arm_indices[0]
    candidates = [arms[arm_index] for arm_index in arm_indices]
    pending = []
    for arm_index in arm_indices:
        arm, n_hidden = arms[arm_index], count_hidden(arms, arm_index, shows)
        pulls = count_pending_pulls(arm, arm_index == current, silence, n_hidden)
        pending.append((pulls, arm.looks_pending))
    shows = None if shows is None else shows[np.ix_(arm_indices, arm_indices)]
    learned = select_arms(policy, params, stored, arm_indices) if policy.revise is not None else None
    state = build_state(policy, params, candidates, scale, pending, silence, shows, learned)
    params = with_graph(policy, params, shows)
    if policy.hold is not None:
        same_arms = stored is not None and len(candidates) == len(arms)
        state.hold[:] = stored.hold if same_arms else np.zeros_like(state.hold)
    return arm_indices[int(policy.look(params, state, stage, rng))]
