r"""The loop around a run: exact, compiled, stage by stage or in leaps.

A stage: the policy decides, from what was seen before it, which arm to pull and, if looks arrive,
where to look; it is told the reward of the pull, then that of the look. All arrays are written at
chosen stages only, so that memory does not grow with the horizon.

Each run has three streams of its own, made from (seed, run): rewards of pulls, everything about
looks, and the policy's own. What is drawn from the first two does not depend on the policy, so all
policies meet the same world: the same arrivals, and the same noise at the same stage.

Index policies are played from decision to decision (`index`) and, where it is sound and pays, in
leaps (`leap`). Other policies are asked at each stage.
"""

from typing import Any, NamedTuple

import numpy as np

from kibitz._jit import jit
from kibitz.engine.environment import ACTIVE, FULL, PASSIVE, Law, Looks, draw, look_functions
from kibitz.engine.lazy_index import Bounds, deciding_by, drop, forget, no_bounds
from kibitz.engine.leap import STEPS, Certificate, leaping_by, new_certificate, sum_of
from kibitz.engine.rng import Streams, seed_stream
from kibitz.model.feedback import Feedback
from kibitz.policies.index_policy import index_of_statistics
from kibitz.policies.policy import Array, Policy, params_type

#: The entries of `control`: whether to stop, and how far a loop is.
STOP, STAGE, RUN = range(3)


class Record(NamedTuple):
    """Where runs are written to."""

    stages: Array  # the stages at which to note the regret
    gaps: Array
    paid: bool  # whether a look costs its gap
    regret: Array  # of each run at each of the stages
    n_pulls: Array  # of each run and arm, at the end
    n_looks: Array
    error: Array  # of each run, in total variation


class Game(NamedTuple):
    """All that surrounds a policy: the world, its randomness, and where a run is written to."""

    law: Law
    looks: Looks
    horizon: int
    rngs: Streams
    record: Record
    control: Array


@jit
def note(record: Record, run: int, noted: int, arm: int, first: int, n: int) -> int:
    """Note `n` pulls of `arm` from stage `first` on; return how many stages are written.

    The looks of the last of these stages are not known yet: it is written by `note_stage`.
    """
    pulls = record.n_pulls[run]
    before = pulls[arm]
    while noted < record.stages.size and record.stages[noted] < first + n - 1:
        pulls[arm] = before + record.stages[noted] - first + 1
        noted = note_stage(record, run, noted, record.stages[noted])
    pulls[arm] = before + n
    return noted


@jit
def note_stage(record: Record, run: int, noted: int, stage: int) -> int:
    """Write the regret at the end of a stage, if it is one to note."""
    if noted < record.stages.size and record.stages[noted] == stage:
        regret = 0.0
        for arm in range(record.gaps.size):
            paid = record.n_looks[run, arm] if record.paid else 0
            regret += record.gaps[arm] * (record.n_pulls[run, arm] + paid)
        record.regret[run, noted] = regret
        return noted + 1
    return noted


def build_loop(policy: Policy, feedback: Feedback, leap: bool) -> Any:
    """Return the loop over the runs of a job, as a plain function."""
    params_of = params_type(tuple(policy.constants))
    init: Any = policy.init
    play_run = run_player(policy, feedback, leap)

    def play(numbers: Any, game: Game, error: float, words: Array) -> None:
        # numbers: the parameters as a plain tuple, so that no class enters the signature
        params = params_of(*numbers)
        rngs, record = game.rngs, game.record
        n_arms = game.law.means.size
        shown = np.zeros(n_arms)
        for run in range(words.shape[0]):
            seed_stream(rngs.rewards, words[run, 0:3])
            seed_stream(rngs.looks, words[run, 3:6])
            seed_stream(rngs.policy, words[run, 6:9])
            state = init(params, n_arms)
            if leap:
                certificate = new_certificate(n_arms, error)
                play_run(params, game, state, no_bounds(n_arms), certificate, shown, run)
                record.error[run] = certificate.now[0]["spent"]
            else:
                play_run(params, game, state, no_bounds(n_arms), None, shown, run)
                record.error[run] = 0.0

    return play


def run_player(policy: Policy, feedback: Feedback, leap: bool) -> Any:
    """Return the function that plays one run; its arms are those of a stage, in their order."""
    pull, choose_look, update = policy.pull, policy.look, policy.update
    view: Any = policy.view
    is_index = policy.index is not None
    decide: Any = None
    lead: Any = None
    if is_index:
        decide, lead = deciding_by(statistics_index(policy), policy.additive)
    leap_ahead: Any = block_player(policy, feedback) if leap else None
    next_arrival, drawn_arm = look_functions(feedback)

    def play_run(
        params: Any,
        game: Game,
        state: Any,
        bounds: Bounds,
        certificate: Any,  # None stage by stage
        shown: Array,
        run: int,
    ) -> None:
        law, looks, horizon, rngs, record, control = game
        n_arms, observer = law.means.size, looks.observer
        rewards, of_looks, own = rngs
        # numba would compile functions again for each literal number or flag among their arguments
        zero: Any = np.int64(0)
        one: Any = np.int64(1)
        pulled, looked = one < zero, one > zero
        stage, end, noted = one, zero, zero
        arm, rival, some, floor, sure, stays = zero, np.inf, one, -np.inf, pulled, pulled
        arrival = next_arrival(looks, zero, horizon, of_looks.rng, control)
        control[RUN] = run
        while stage <= horizon:
            control[STAGE] = stage
            if control[STOP] != 0:
                return
            n, last = one, stage
            if is_index:
                seen = view(params, state, stage)
                if stage > end:
                    end = seen.end
                    forget(bounds, seen.allowed)
                    sure = stays = pulled
                if stage < arrival and observer != FULL:
                    last = min(horizon, min(arrival - 1, end))
                    if leap:
                        last = min(last, stage + STEPS)
                if sure:
                    some, floor = one, -np.inf
                else:
                    arm, rival, some, floor = decide(params, seen, stage, last, bounds, stays)
                sure = stays = pulled
                if leap and some > 0 and certificate.now[0]["wait"] == 0:
                    state, n, noted, arrival = leap_ahead(
                        params,
                        game,
                        state,
                        seen,
                        bounds,
                        certificate,
                        run,
                        stage,
                        noted,
                        arrival,
                        arm,
                    )
                    stage += n
                    if n > 0:
                        continue
                    n = one
                if leap:
                    certificate.now[0]["wait"] = max(0, certificate.now[0]["wait"] - 1)
                if some == 0:
                    some, last = one, stage
            else:
                arm = pull(params, state, stage, own.rng)
            look = arm
            if stage == arrival and observer == ACTIVE:
                look = choose_look(params, state, stage, own.rng)
            # the pulls
            if observer == FULL:
                for other in range(n_arms):
                    shown[other] = draw(law, other, rewards)
                total = shown[arm]
            elif is_index:
                n, total, sure = lead(
                    params, seen, game, stage, last, bounds, arm, rival, some, floor
                )
            else:
                total = draw(law, arm, rewards)
            noted = note(record, run, noted, arm, stage, n)
            state = update(params, state, stage, arm, n, total, pulled)
            stage += n - 1
            # the looks
            if stage == arrival or observer == FULL:
                sure, stays = pulled, observer != FULL
                for nth in range(looks.per_arrival if stays else n_arms):
                    if observer == FULL:
                        look = nth
                        if look == arm:
                            continue
                    elif observer == PASSIVE:
                        look = drawn_arm(looks, stage, of_looks.rng)
                    elif nth > 0:
                        look = choose_look(params, state, stage, own.rng)
                    if nth > 0 and control[STOP] != 0:
                        return
                    record.n_looks[run, look] += 1
                    if is_index and seen.learns:
                        drop(bounds, look)
                    reward = draw(law, look, of_looks) if stays else shown[look]
                    state = update(params, state, stage, look, one, reward, looked)
                arrival = next_arrival(looks, stage, horizon, of_looks.rng, control)
            noted = note_stage(record, run, noted, stage)
            stage += 1

    return jit(play_run)


def statistics_index(policy: Policy) -> Any:
    """Return the index of a policy as a function of the whole statistics."""
    index: Any = policy.index
    return index_of_statistics(index, policy.index_reads)


def block_player(policy: Policy, feedback: Feedback) -> Any:
    """Return the function that plays a block of stages at once, if it can certify one."""
    choose_look, update = policy.look, policy.update
    foreseen = policy.turns is not None or policy.hold is not None
    parts: Any = (policy.update, policy.turns, policy.hold, policy.due)
    propose, tell_looks = leaping_by(statistics_index(policy), *parts)
    next_arrival, _ = look_functions(feedback)

    def leap_ahead(
        params: Any,
        game: Game,
        state: Any,
        seen: Any,
        bounds: Bounds,
        certificate: Certificate,
        run: int,
        stage: int,
        noted: int,
        arrival: int,
        arm: int,
    ) -> tuple[Any, int, int, int]:
        """Return the state, the stages played (0: none), the stages noted, and the next arrival."""
        law, looks, horizon, rngs, record, control = game
        n_arms = law.means.size
        pulled = n_arms < 0  # a literal False would compile `update` once more
        look: Any = np.int64(-1)
        if looks.observer == ACTIVE and not foreseen and seen.most_looks > 0:
            look = choose_look(params, state, stage, rngs.policy.rng)
        last = record.stages[noted] if record.paid else horizon
        n, n_arrivals = propose(
            params,
            state,
            seen,
            law,
            looks,
            stage,
            last,
            arrival,
            arm,
            look,
            rngs.looks.rng,
            certificate,
        )
        if n == 0:
            return state, n, noted, arrival
        last = stage + n - 1
        total = sum_of(law, arm, n, rngs.rewards.rng)
        noted = note(record, run, noted, arm, stage, n)
        state = update(params, state, stage, arm, n, total, pulled)
        if n_arrivals > 0:
            n_looks = n_arrivals * looks.per_arrival
            looks_by_arm = record.n_looks[run]
            state = tell_looks(
                params,
                state,
                law,
                looks,
                last,
                n_looks,
                look,
                rngs.looks.rng,
                looks_by_arm,
                certificate,
            )
            for other in range(n_arms):
                drop(bounds, other)
            arrival = next_arrival(looks, last, horizon, rngs.looks.rng, control)
        noted = note_stage(record, run, noted, last)
        return state, n, noted, arrival

    return jit(leap_ahead)
