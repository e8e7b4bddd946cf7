"""The compiled loop that plays a run, stage by stage or in leaps.

At each stage, the policy chooses an arm to pull and, if looks arrive, an arm to look at. Both choices
depend only on the observations before the stage. The policy then receives the reward of the pull,
what the pull shows of other arms, and the reward of the look, in this order. Regret is recorded at
the requested stages only, so memory use does not grow with the horizon.

Each run has four random streams, which depend on (seed, run): one for the rewards of pulls, one for
the arrivals and rewards of looks, one for what a pull shows, and one for the policy's own random
numbers. The first three streams do not depend on the policy, so all policies see the same arrivals,
the same noise at the same stage, and the same shows at the same stage and arm (common random
numbers).

Index policies are played from decision to decision (`lazy_index`) or in leaps (`leap`). Other
policies are called at every stage.

A problem that changes with time is played piece by piece: no stretch of pulls and no leap goes beyond
the end of a piece, and the regret of a piece is recorded as if the piece were a run of its own.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from kibitz._jit import jit
from kibitz.engine.environment import (
    ACTIVE,
    FULL,
    PASSIVE,
    Arms,
    Looks,
    copy_row,
    draw,
    make_look_functions,
    next_shown,
    show_nothing,
    start_piece,
)
from kibitz.engine.lazy_index import Bounds, invalidate, make_decision_functions, new_bounds, reset
from kibitz.engine.leap import (
    RETRY_STAGES,
    Certificate,
    binomial,
    draw_rare_edges,
    draw_sum,
    is_rare,
    make_leap_functions,
    new_certificate,
)
from kibitz.engine.rng import Streams, seed_shows, seed_stream, uniform
from kibitz.model.feedback import Feedback, Shows
from kibitz.policies.index_policy import make_statistics_index
from kibitz.policies.policy import Array, Policy, params_type

#: The entries of `control`: the stop flag, the current stage and the current run.
STOP, STAGE, RUN = range(3)


class Record(NamedTuple):
    """The output arrays of a job, and the data needed to fill them."""

    stages: Array  # the stages at which to record the regret
    gaps: Array
    paid: bool  # whether a look at an arm costs the gap of that arm
    regret: Array  # (run, stage)
    n_pulls: Array  # (run, arm)
    n_looks: Array  # (run, arm)
    error: Array  # (run,); error of the leaps, in total variation


class Environment(NamedTuple):
    """Everything that a run needs besides the policy."""

    arms: Arms
    looks: Looks
    horizon: int
    streams: Streams
    record: Record
    control: Array
    graph: Any  # a `Graph`; None without one, which keeps the arguments of compiled functions small
    pieces: Any = None  # the `Pieces` of a changing problem; None for a stationary problem


@jit
def record_pulls(
    record: Record, run: int, n_recorded: int, arm: int, first_stage: int, n: int
) -> int:
    """Record `n` pulls of `arm` from `first_stage` on; return the new `n_recorded`.

    `n_recorded` is the number of entries of `record.stages` whose regret has been recorded.
    The looks at the stage of the last pull are not known yet, so the caller records the regret of
    this stage later with `record_regret`.
    """
    pulls = record.n_pulls[run]
    pulls_before = pulls[arm]
    while n_recorded < record.stages.size and record.stages[n_recorded] < first_stage + n - 1:
        pulls[arm] = pulls_before + record.stages[n_recorded] - first_stage + 1
        n_recorded = record_regret(record, run, n_recorded, record.stages[n_recorded])
    pulls[arm] = pulls_before + n
    return n_recorded


@jit
def record_regret(record: Record, run: int, n_recorded: int, stage: int) -> int:
    """Record the regret after `stage` if it was requested; return the new `n_recorded`."""
    if n_recorded < record.stages.size and record.stages[n_recorded] == stage:
        regret = 0.0
        for arm in range(record.gaps.size):
            n_paid_looks = record.n_looks[run, arm] if record.paid else 0
            regret += record.gaps[arm] * (record.n_pulls[run, arm] + n_paid_looks)
        record.regret[run, n_recorded] = regret
        return n_recorded + 1
    return n_recorded


@jit
def end_piece(environment: Environment, run: int, first_recorded: int, n_recorded: int) -> None:
    """Add the regret of earlier pieces to the recorded regret of a piece that ends; reset the counts.

    The entries of `record.stages` from `first_recorded` to `n_recorded` belong to the piece.
    """
    record, pieces = environment.record, environment.pieces
    regret = 0.0
    for arm in range(record.gaps.size):
        n_pulls, n_looks = record.n_pulls[run, arm], record.n_looks[run, arm]
        regret += record.gaps[arm] * (n_pulls + (n_looks if record.paid else 0))
        pieces.counts[0, arm] += n_pulls
        pieces.counts[1, arm] += n_looks
        record.n_pulls[run, arm] = 0
        record.n_looks[run, arm] = 0
    for k in range(first_recorded, n_recorded):
        record.regret[run, k] += pieces.carried[0]
    pieces.carried[0] += regret


def make_loop(policy: Policy, feedback: Feedback, leap: bool, is_changing: bool = False) -> Any:
    """Return the Python function that plays all runs of a job; it is not compiled yet."""
    make_params = params_type(tuple(policy.constants))
    init: Any = policy.init
    play_run = make_play_run(policy, feedback, leap, is_changing)
    has_graph = feedback.shows is not None

    def play(param_values: Any, environment: Environment, error: float, seeds: Array) -> None:
        # a plain tuple, because the class of `params` must not be part of the compiled signature
        params = make_params(*param_values)
        streams, record = environment.streams, environment.record
        n_arms = environment.arms.means.size
        all_rewards = np.zeros(n_arms)
        for run in range(seeds.shape[0]):
            seed_stream(streams.rewards, seeds[run, 0:3])
            seed_stream(streams.looks, seeds[run, 3:6])
            seed_stream(streams.policy, seeds[run, 6:9])
            if has_graph:
                streams.show_key[:] = seeds[run, 9:12]
            state = init(params, n_arms)
            if leap:
                # bounds of a certificate, see `new_certificate`; a graph needs one more for each arm
                n_bounds = (3 if has_graph else 2) * n_arms + 2
                certificate = new_certificate(n_arms, error, n_bounds)
                play_run(
                    params, environment, state, new_bounds(n_arms), certificate, all_rewards, run
                )
                record.error[run] = certificate.leap_state[0]["spent"]
            else:
                play_run(params, environment, state, new_bounds(n_arms), None, all_rewards, run)
                record.error[run] = 0.0

    return play


def make_play_run(policy: Policy, feedback: Feedback, leap: bool, is_changing: bool) -> Any:
    """Return the function that plays one run."""
    pull, choose_look, update = policy.pull, policy.look, policy.update
    view: Any = policy.view
    is_index = policy.index is not None
    decide: Any = None
    pull_leader: Any = None
    if is_index:
        decide, pull_leader = make_decision_functions(get_statistics_index(policy), policy.additive)
    play_block: Any = make_play_block(policy, feedback) if leap else None
    next_arrival, draw_look_arm = make_look_functions(feedback)
    has_graph = feedback.shows is not None
    draw_shows: Any = make_draw_shows(policy, feedback.shows) if feedback.shows is not None else None

    def play_run(
        params: Any,
        environment: Environment,
        state: Any,
        bounds: Bounds,
        certificate: Any,  # None without leaps
        all_rewards: Array,
        run: int,
    ) -> None:
        arms, looks, horizon, streams, record, control, _, pieces = environment
        n_arms, observer = arms.means.size, looks.observer
        reward_stream, look_stream, policy_stream = streams.rewards, streams.looks, streams.policy
        # typed constants, because numba would compile each callee again for literal arguments
        zero: Any = np.int64(0)
        one: Any = np.int64(1)
        false, true = one < zero, one > zero
        stage, view_end, n_recorded = one, zero, zero
        arm, best_rival, n_certain, floor = zero, np.inf, one, -np.inf
        is_certain, expect_same = false, false
        arrival = next_arrival(looks, zero, horizon, look_stream.rng, control)
        control[RUN] = run
        piece, piece_end, first_recorded = zero, horizon, zero
        if is_changing:
            piece_end = zero
            pieces.carried[0] = 0.0
            pieces.counts[:] = 0
        while stage <= horizon:
            control[STAGE] = stage
            if control[STOP] != 0:
                return
            if is_changing and stage > piece_end:
                if stage > 1:
                    end_piece(environment, run, first_recorded, n_recorded)
                    piece, first_recorded = piece + 1, n_recorded
                start_piece(pieces, piece, arms, looks, record.gaps)
                is_last = piece + 1 == pieces.starts.size
                piece_end = horizon if is_last else min(horizon, pieces.starts[piece + 1] - 1)
            n, last_stage = one, stage
            if is_index:
                current_view = view(params, state, stage)
                if stage > view_end:
                    view_end = current_view.last_stage
                    reset(bounds, current_view.allowed)
                    is_certain = expect_same = false
                if stage < arrival and observer != FULL and not has_graph:
                    last_stage = min(piece_end, min(arrival - 1, view_end))
                    if leap:
                        last_stage = min(last_stage, stage + RETRY_STAGES)
                if is_certain:
                    n_certain, floor = one, -np.inf
                else:
                    arm, best_rival, n_certain, floor = decide(
                        params, current_view, stage, last_stage, bounds, expect_same
                    )
                is_certain = expect_same = false
                if leap and n_certain > 0 and certificate.leap_state[0]["wait"] == 0:
                    state, n, n_recorded, arrival = play_block(
                        params,
                        environment,
                        state,
                        current_view,
                        bounds,
                        certificate,
                        run,
                        stage,
                        n_recorded,
                        arrival,
                        arm,
                        piece_end,
                    )
                    stage += n
                    if n > 0:
                        continue
                    n = one
                if leap:
                    certificate.leap_state[0]["wait"] = max(0, certificate.leap_state[0]["wait"] - 1)
                if n_certain == 0:
                    n_certain, last_stage = one, stage
            else:
                arm = pull(params, state, stage, policy_stream.rng)
            look = arm
            if stage == arrival and observer == ACTIVE:
                look = choose_look(params, state, stage, policy_stream.rng)
            # play the pulls
            if observer == FULL:
                for other_arm in range(n_arms):
                    all_rewards[other_arm] = draw(arms, other_arm, reward_stream)
                total = all_rewards[arm]
            elif is_index and not has_graph:
                n, total, is_certain = pull_leader(
                    params,
                    current_view,
                    environment,
                    stage,
                    last_stage,
                    bounds,
                    arm,
                    best_rival,
                    n_certain,
                    floor,
                )
            else:
                total = draw(arms, arm, reward_stream)
            n_recorded = record_pulls(record, run, n_recorded, arm, stage, n)
            if has_graph:
                state = draw_shows(params, environment, state, bounds, stage, arm, total)
            else:
                state = update(params, state, stage, arm, n, total, false)
            stage += n - 1
            # play the looks
            if stage == arrival or observer == FULL:
                is_certain, expect_same = false, observer != FULL
                for nth in range(looks.per_arrival if expect_same else n_arms):
                    if observer == FULL:
                        look = nth
                        if look == arm:
                            continue
                    elif observer == PASSIVE:
                        look = draw_look_arm(looks, stage, look_stream.rng)
                    elif nth > 0:
                        look = choose_look(params, state, stage, policy_stream.rng)
                    if nth > 0 and control[STOP] != 0:
                        return
                    record.n_looks[run, look] += 1
                    if is_index and current_view.learns_from_looks:
                        invalidate(bounds, look)
                    reward = draw(arms, look, look_stream) if expect_same else all_rewards[look]
                    state = update(params, state, stage, look, one, reward, true)
                arrival = next_arrival(looks, stage, horizon, look_stream.rng, control)
            n_recorded = record_regret(record, run, n_recorded, stage)
            stage += 1
        if is_changing:
            end_piece(environment, run, first_recorded, n_recorded)
            copy_row(pieces.counts, zero, record.n_pulls[run])
            copy_row(pieces.counts, one, record.n_looks[run])

    return jit(play_run)


def make_draw_shows(policy: Policy, shows: Shows) -> Any:
    """Return the function that tells a policy the reward of a pull and what the pull shows."""
    update, is_index = policy.update, policy.index is not None
    show, hide = make_show_functions(policy)
    varies = shows.function is not None
    show_at: Any = shows.function or show_nothing

    def tell(
        params: Any,
        environment: Environment,
        state: Any,
        bounds: Bounds,
        stage: int,
        pulled: int,
        arm: int,
    ) -> Any:
        """Draw a reward of a shown arm and update the policy."""
        one: Any = np.int64(1)
        reward = draw(environment.arms, arm, environment.streams.shows)
        state = show(params, state, stage, pulled, arm, one, reward)
        if is_index:
            invalidate(bounds, arm)
        return state

    tell = jit(tell)

    def draw_shows(
        params: Any,
        environment: Environment,
        state: Any,
        bounds: Bounds,
        stage: int,
        arm: int,
        reward: float,
    ) -> Any:
        """Draw what a pull of `arm` shows, and update the policy; `reward` is the pull's reward."""
        graph = environment.graph
        stream = environment.streams.shows
        one: Any = np.int64(1)
        false = one < 0  # a literal False would compile `update` again
        seed_shows(stream, environment.streams.show_key, stage, arm)
        own = show_at(stage, arm, arm) if varies else graph.own[arm]
        if own >= 1 or uniform(stream) < own:
            state = update(params, state, stage, arm, one, reward, false)
        else:
            state = hide(params, state, stage, arm, one)
        if varies:
            for other_arm in range(graph.own.size):
                probability = 0.0 if other_arm == arm else show_at(stage, arm, other_arm)
                if probability > 0 and (probability >= 1 or uniform(stream) < probability):
                    state = tell(params, environment, state, bounds, stage, arm, other_arm)
            return state
        edge = next_shown(graph, arm, graph.offsets[arm], stream)
        while edge < graph.offsets[arm + 1]:
            state = tell(params, environment, state, bounds, stage, arm, graph.arms[edge])
            edge = next_shown(graph, arm, edge + 1, stream)
        return state

    return jit(draw_shows)


def make_show_functions(policy: Policy) -> tuple[Any, Any]:
    """Return the functions `show` and `hide` of a policy.

    A policy without these functions counts shows as looks.
    """
    if policy.on_graph is not None:
        return policy.on_graph.show, policy.on_graph.hide
    update: Any = policy.update
    return count_shows_as_looks(update)


@cache
def count_shows_as_looks(update: Any) -> tuple[Any, Any]:
    """Return `show` and `hide` for a policy that counts shows as looks."""

    def show(params: Any, state: Any, stage: int, pulled: int, arm: int, n: int, total: float) -> Any:
        return update(params, state, stage, arm, n, total, n > 0)

    def hide(params: Any, state: Any, stage: int, arm: int, n: int) -> Any:
        return state  # never called: the schedule rejects graphs that hide a reward

    return jit(show), jit(hide)


def get_statistics_index(policy: Policy) -> Any:
    """Return the index of a policy as a function that takes the whole `Statistics`."""
    index: Any = policy.index
    return make_statistics_index(index, policy.index_reads)


def make_play_block(policy: Policy, feedback: Feedback) -> Any:
    """Return the function that plays a block of stages at once, if a block can be certified."""
    choose_look, update = policy.look, policy.update
    look_is_planned = policy.turns is not None or policy.hold is not None
    functions: Any = (policy.update, policy.turns, policy.hold, policy.looks_due)
    has_graph = feedback.shows is not None
    propose, draw_looks = make_leap_functions(
        get_statistics_index(policy), *functions, has_graph=has_graph
    )
    next_arrival, _ = make_look_functions(feedback)
    show, hide = make_show_functions(policy)

    def play_block(
        params: Any,
        environment: Environment,
        state: Any,
        current_view: Any,
        bounds: Bounds,
        certificate: Certificate,
        run: int,
        stage: int,
        n_recorded: int,
        arrival: int,
        arm: int,
        piece_end: int,
    ) -> tuple[Any, int, int, int]:
        """Play a block of stages at once, if a block can be certified.

        Return the state, the number of stages played (0 without a certified block), `n_recorded` and
        the next arrival.
        """
        arms, looks, horizon, streams, record, control, graph, _ = environment
        n_arms = arms.means.size
        false = n_arms < 0  # a literal False would compile `update` again
        look: Any = np.int64(-1)
        if looks.observer == ACTIVE and not look_is_planned and current_view.max_looks > 0:
            look = choose_look(params, state, stage, streams.policy.rng)
        last_stage = min(piece_end, record.stages[n_recorded]) if record.paid else piece_end
        n, n_arrivals = propose(
            params,
            state,
            current_view,
            arms,
            looks,
            stage,
            last_stage,
            arrival,
            arm,
            look,
            graph,
            streams.looks.rng,
            certificate,
        )
        if n == 0:
            return state, n, n_recorded, arrival
        last_stage = stage + n - 1
        n_recorded = record_pulls(record, run, n_recorded, arm, stage, n)
        n_visible = n
        if has_graph:
            seed_shows(streams.shows, streams.show_key, stage, arm)
            n_visible = binomial(n, graph.own[arm], streams.shows.rng)
            if n_visible < n:
                state = hide(params, state, stage, arm, n - n_visible)
        if n_visible > 0:
            total = draw_sum(arms, arm, n_visible, streams.rewards.rng)
            state = update(params, state, stage, arm, n_visible, total, false)
        if has_graph:
            length = certificate.leap_state[0]["rare_length"]
            certificate.shows[:] = 0
            if certificate.leap_state[0]["rare_stage"] == last_stage:
                draw_rare_edges(looks, graph, arm, length, streams.shows.rng, certificate.shows)
            for edge in range(graph.offsets[arm], graph.offsets[arm + 1]):
                shown_arm = graph.arms[edge]
                n_shown = certificate.shows[shown_arm]
                if not is_rare(looks, graph.probabilities[edge], length):
                    n_shown = binomial(n, graph.probabilities[edge], streams.shows.rng)
                if n_shown > 0:
                    total = draw_sum(arms, shown_arm, n_shown, streams.shows.rng)
                    state = show(params, state, stage, arm, shown_arm, n_shown, total)
                    invalidate(bounds, shown_arm)
        if n_arrivals > 0:
            n_looks = n_arrivals * looks.per_arrival
            looks_by_arm = record.n_looks[run]
            state = draw_looks(
                params,
                state,
                arms,
                looks,
                last_stage,
                n_looks,
                look,
                streams.looks.rng,
                looks_by_arm,
                certificate,
            )
            for other_arm in range(n_arms):
                invalidate(bounds, other_arm)
            arrival = next_arrival(looks, last_stage, horizon, streams.looks.rng, control)
        n_recorded = record_regret(record, run, n_recorded, last_stage)
        return state, n, n_recorded, arrival

    return jit(play_block)
