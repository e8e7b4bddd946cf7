"""Trials that replay certified blocks of the leap engine stage by stage, from random states.

A trial draws a problem and a history and asks for a certified block. It then lets the policy decide
at each stage of the block, by its own `pull` and `look`, and counts the decisions that differ from
the certified decisions.
"""

from typing import Any, NamedTuple

import numpy as np

from kibitz import jit
from kibitz.engine.cache import cached_dispatcher
from kibitz.engine.environment import (
    ACTIVE,
    GAUSSIAN,
    PASSIVE,
    Arms,
    Looks,
    draw,
    make_arms,
    make_look_functions,
    make_looks,
)
from kibitz.engine.leap import (
    Certificate,
    binomial,
    cutoff,
    make_leap_functions,
    new_certificate,
    normal_quantile,
)
from kibitz.engine.loop import get_statistics_index
from kibitz.engine.rng import Streams, make_seeds, new_streams, seed_stream
from kibitz.model.feedback import Feedback
from kibitz.model.problem import Problem
from kibitz.policies.policy import NEVER, Policy, params_type

BLOCKS, STAGES, WRONG_PULLS, WRONG_LOOKS, BROKEN = range(5)


class HistoryParams(NamedTuple):
    """Parameters of random histories."""

    spread: float  # standard deviation of the means
    most: float  # maximum number of pulls of an arm
    tight: int  # the arm that leads by about `far` sqrt(n) in a block of n stages, or -1 for none
    far: float


ANY = HistoryParams(1.0, 1e4, -1, 0.0)


def compile_trials(policy: Policy) -> Any:
    """Return the compiled function that replays certified blocks of a policy."""
    params_of = params_type(tuple(policy.constants))
    init, pull, update = policy.init, policy.pull, policy.update
    choose_look = policy.look
    view: Any = policy.view
    holds = policy.hold is not None
    foreseen = holds or policy.turns is not None
    hold: Any = policy.hold
    looks_due: Any = policy.looks_due
    propose, _ = make_leap_functions(
        get_statistics_index(policy), policy.update, policy.turns, policy.hold, policy.looks_due
    )
    next_arrival, draw_look_arm = make_look_functions(Feedback("active", 0.1))

    def make_history(
        params: Any, arms: Arms, rng: Any, history: HistoryParams, max_lead: int, state: Any
    ) -> int:
        """Give the policy a history: pulls of each arm, then looks; return the next stage."""
        n_arms = arms.means.size
        pulled, looked = n_arms < 0, n_arms > 0
        stage = 1
        for arm in range(n_arms):
            n = int(history.most ** rng.random())
            if history.tight >= 0:  # the means are fixed, and one arm leads by a narrow margin
                total = n * arms.means[arm]
                if arm == history.tight:
                    total += history.far * (0.94 + 0.03 * rng.random()) * np.sqrt(1.0 * max_lead)
            elif arms.kind == GAUSSIAN:
                arms.means[arm] = history.spread * rng.standard_normal()
                total = n * (
                    arms.means[arm] + history.spread * rng.standard_normal() / np.sqrt(1.0 * n)
                )
            else:
                arms.means[arm] = arms.chances[arm] = rng.random()
                total = np.floor(n * rng.random())
            state = update(params, state, stage, arm, n, total, pulled)
            stage += n
        if history.tight < 0:
            for _ in range(int(8 * rng.random())):
                arm = choose_look(params, state, stage, rng)
                state = update(params, state, stage, arm, 1, arms.means[arm], looked)
        return stage

    make_history = jit(make_history)

    def trial(
        params: Any,
        state: Any,
        arms: Arms,
        looks: Looks,
        history: HistoryParams,
        streams: Streams,
        certificate: Certificate,
        counted: Any,
    ) -> None:
        n_arms = arms.means.size
        pulled, looked = n_arms < 0, n_arms > 0
        certificate.now[0]["latest"] = 20 + int(300 * streams.policy.rng.random())
        stage = make_history(
            params, arms, streams.policy.rng, history, 4 * certificate.now[0]["latest"], state
        )
        seen = view(params, state, stage)
        for arm in range(n_arms):
            if seen.allowed[arm] and seen.tried[arm] == 0:
                return
        arm = pull(params, state, stage, streams.policy.rng)
        look = -1
        if looks.observer == ACTIVE and not foreseen and seen.max_looks > 0:
            look = choose_look(params, state, stage, streams.policy.rng)
        arrival = next_arrival(looks, stage - 1, NEVER, streams.looks.rng, counted[:0])
        n, _ = propose(
            params,
            state,
            seen,
            arms,
            looks,
            stage,
            NEVER // 2,
            arrival,
            arm,
            look,
            streams.policy.rng,
            certificate,
        )
        if n == 0:
            return
        last = stage + certificate.now[0]["latest"] - 1  # the last stage without the cutoff
        cut, arrived = cutoff(looks, arrival, last), 0
        wrong_pull, wrong_look = False, False
        if holds:
            held = hold(params, state)
        while stage <= last and arrived < cut:
            counted[STAGES] += 1
            wrong_pull = wrong_pull or pull(params, state, stage, streams.policy.rng) != arm
            chosen = choose_look(params, state, stage, streams.policy.rng)
            reward = draw(arms, arm, streams.rewards)
            state = update(params, state, stage, arm, 1, reward, pulled)
            if stage == arrival:
                for nth in range(looks.per_arrival):
                    if looks.observer == PASSIVE:
                        chosen = draw_look_arm(looks, stage, streams.looks.rng)
                    elif nth > 0:
                        chosen = choose_look(params, state, stage, streams.policy.rng)
                    if looks.observer == ACTIVE and look >= 0:
                        wrong_look = wrong_look or chosen != look
                    if holds:
                        planned = held.arm
                        for other in range(n_arms):
                            if (
                                other not in (arm, held.arm)
                                and looks_due(params, state, other, 1) > 0
                            ):
                                planned = other
                        if looks.observer == ACTIVE:
                            wrong_look = wrong_look or chosen != planned
                    reward = draw(arms, chosen, streams.looks)
                    state = update(params, state, stage, chosen, 1, reward, looked)
                arrival = next_arrival(looks, stage, NEVER, streams.looks.rng, counted[:0])
                arrived += 1
            stage += 1
        counted[BLOCKS] += 1
        counted[WRONG_PULLS] += wrong_pull
        counted[WRONG_LOOKS] += wrong_look
        counted[BROKEN] += wrong_pull or wrong_look

    trial = jit(trial)

    def play(
        numbers: Any,
        arms: Arms,
        looks: Looks,
        n_trials: int,
        error: float,
        log: float,
        history: HistoryParams,
        seeds: Any,
        streams: Streams,
        counted: Any,
    ) -> None:
        params = params_of(*numbers)
        seed_stream(streams.rewards, seeds[0, 0:3])
        seed_stream(streams.looks, seeds[0, 3:6])
        seed_stream(streams.policy, seeds[0, 6:9])
        for _ in range(n_trials):
            state = init(params, arms.means.size)
            certificate = new_certificate(arms.means.size, error)
            if log > 0:
                certificate.now[0]["log"] = log
                certificate.now[0]["z"] = normal_quantile(log)
            trial(params, state, arms, looks, history, streams, certificate, counted)

    return cached_dispatcher(play)


def play_trials(
    play: Any,
    policy: Policy,
    problem: Problem,
    feedback: Feedback,
    n_trials: int,
    history: HistoryParams = ANY,
    *,
    seed: int = 1,
    error: float = 1e-9,
    log: float = 0.0,
) -> Any:
    """Play trials and return the counts; a positive `log` replaces the `log` of the certificate."""
    arms = make_arms(problem, 1.0)  # a history may change its means
    looks = make_looks(feedback, problem.gaps, NEVER // (feedback.looks + 1))
    counted = np.zeros(5, np.int64)
    numbers = tuple(policy.params_for(10**6))
    seeds = make_seeds(seed, 0, 1)
    play(numbers, arms, looks, n_trials, error, log, history, seeds, new_streams(), counted)
    return counted


def compile_binomials() -> Any:
    """Return a compiled function that fills an array with binomial random numbers."""

    def fill(n: int, p: float, seeds: Any, streams: Streams, out: Any) -> None:
        seed_stream(streams.rewards, seeds[0, 0:3])
        for i in range(out.size):
            out[i] = binomial(n, p, streams.rewards.rng)

    return cached_dispatcher(fill)
