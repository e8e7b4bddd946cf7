"""Trials that replay certified blocks of the leap engine stage by stage, from random states.

A trial draws a problem and a history, and asks the leap engine for a certified block. The trial then
calls the `pull` and `look` of the policy at each stage of the block, and counts the decisions that
differ from the certified decisions.
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
    make_graph,
    make_look_functions,
    make_looks,
    next_shown,
)
from kibitz.engine.leap import (
    Certificate,
    binomial,
    cutoff,
    is_rare,
    make_leap_functions,
    new_certificate,
    normal_quantile,
)
from kibitz.engine.loop import get_statistics_index, make_show_functions
from kibitz.engine.rng import Streams, make_seeds, new_streams, seed_stream, uniform
from kibitz.model.feedback import Feedback
from kibitz.model.problem import Problem
from kibitz.policies.policy import NEVER, Graph, Policy, params_type

BLOCKS, STAGES, WRONG_PULLS, WRONG_LOOKS, BROKEN_BLOCKS = range(5)


class HistoryParams(NamedTuple):
    """Parameters of random histories."""

    spread: float  # standard deviation of the means
    max_pulls: float  # the maximum number of pulls of an arm
    narrow_arm: int  # the arm that leads by a narrow margin, or -1
    lead: float  # the margin in a block of n stages, divided by sqrt(n)


ANY_HISTORY = HistoryParams(1.0, 1e4, -1, 0.0)


def compile_trials(policy: Policy, has_graph: bool = False) -> Any:
    """Return the compiled function that replays certified blocks of a policy."""
    policy = policy.for_graph() if has_graph else policy
    show, hide = make_show_functions(policy)
    make_params = params_type(tuple(policy.constants))
    init, pull, update = policy.init, policy.pull, policy.update
    choose_look = policy.look
    view: Any = policy.view
    has_hold = policy.hold is not None
    has_planned_looks = has_hold or policy.turns is not None
    hold: Any = policy.hold
    looks_due: Any = policy.looks_due
    propose, _ = make_leap_functions(
        get_statistics_index(policy),
        policy.update,
        policy.turns,
        policy.hold,
        policy.looks_due,
        has_graph,
    )
    next_arrival, draw_look_arm = make_look_functions(Feedback("active", 0.1))

    def make_history(
        params: Any, arms: Arms, rng: Any, history: HistoryParams, max_lead: int, state: Any
    ) -> int:
        """Report random pulls of each arm and then looks to the policy; return the next stage."""
        n_arms = arms.means.size
        is_pull, is_look = n_arms < 0, n_arms > 0
        stage = 1
        for arm in range(n_arms):
            n = int(history.max_pulls ** rng.random())
            if history.narrow_arm >= 0:  # the means are fixed, and one arm leads by a narrow margin
                reward_sum = n * arms.means[arm]
                if arm == history.narrow_arm:
                    reward_sum += (
                        history.lead * (0.94 + 0.03 * rng.random()) * np.sqrt(1.0 * max_lead)
                    )
            elif arms.kind == GAUSSIAN:
                arms.means[arm] = history.spread * rng.standard_normal()
                reward_sum = n * (
                    arms.means[arm] + history.spread * rng.standard_normal() / np.sqrt(1.0 * n)
                )
            else:
                arms.means[arm] = arms.chances[arm] = rng.random()
                reward_sum = np.floor(n * rng.random())
            state = update(params, state, stage, arm, n, reward_sum, is_pull)
            stage += n
        if history.narrow_arm < 0:
            for _ in range(int(8 * rng.random())):
                arm = choose_look(params, state, stage, rng)
                state = update(params, state, stage, arm, 1, arms.means[arm], is_look)
        return stage

    make_history = jit(make_history)

    def run_trial(
        params: Any,
        state: Any,
        arms: Arms,
        looks: Looks,
        graph: Graph,
        history: HistoryParams,
        streams: Streams,
        certificate: Certificate,
        trial_counts: Any,
    ) -> None:
        n_arms = arms.means.size
        is_pull, is_look = n_arms < 0, n_arms > 0
        certificate.leap_state[0]["last_length"] = 20 + int(300 * streams.policy.rng.random())
        stage = make_history(
            params,
            arms,
            streams.policy.rng,
            history,
            4 * certificate.leap_state[0]["last_length"],
            state,
        )
        view_of_state = view(params, state, stage)
        for pulled_arm in range(n_arms):
            if view_of_state.allowed[pulled_arm] and view_of_state.tried[pulled_arm] == 0:
                return
        pulled_arm = pull(params, state, stage, streams.policy.rng)
        certified_look = -1
        if looks.observer == ACTIVE and not has_planned_looks and view_of_state.max_looks > 0:
            certified_look = choose_look(params, state, stage, streams.policy.rng)
        arrival = next_arrival(looks, stage - 1, NEVER, streams.looks.rng, trial_counts[:0])
        n, _ = propose(
            params,
            state,
            view_of_state,
            arms,
            looks,
            stage,
            NEVER // 2,
            arrival,
            pulled_arm,
            certified_look,
            graph,
            streams.policy.rng,
            certificate,
        )
        if n == 0:
            return
        last_stage = (
            stage + certificate.leap_state[0]["last_length"] - 1
        )  # the last stage without the cutoff
        arrival_cutoff, n_arrived = cutoff(looks, arrival, last_stage), 0
        has_wrong_pull, has_wrong_look = False, False
        if has_hold:
            current_hold = hold(params, state)
        length, has_rare_show = last_stage - stage + 1, False
        while stage <= last_stage and n_arrived < arrival_cutoff and not has_rare_show:
            trial_counts[STAGES] += 1
            has_wrong_pull = (
                has_wrong_pull or pull(params, state, stage, streams.policy.rng) != pulled_arm
            )
            look_arm = choose_look(params, state, stage, streams.policy.rng)
            reward = draw(arms, pulled_arm, streams.rewards)
            if not has_graph or uniform(streams.shows) < graph.own[pulled_arm]:
                state = update(params, state, stage, pulled_arm, 1, reward, is_pull)
            else:
                state = hide(params, state, stage, pulled_arm, 1)
            if has_graph:
                edge = next_shown(graph, pulled_arm, graph.offsets[pulled_arm], streams.shows)
                while edge < graph.offsets[pulled_arm + 1]:
                    shown_arm = graph.arms[edge]
                    has_rare_show |= is_rare(looks, graph.probabilities[edge], length)
                    reward = draw(arms, shown_arm, streams.shows)
                    state = show(params, state, stage, pulled_arm, shown_arm, 1, reward)
                    edge = next_shown(graph, pulled_arm, edge + 1, streams.shows)
            if stage == arrival:
                for nth in range(looks.per_arrival):
                    if looks.observer == PASSIVE:
                        look_arm = draw_look_arm(looks, stage, streams.looks.rng)
                    elif nth > 0:
                        look_arm = choose_look(params, state, stage, streams.policy.rng)
                    if looks.observer == ACTIVE and certified_look >= 0:
                        has_wrong_look = has_wrong_look or look_arm != certified_look
                    if has_hold:
                        planned_arm = current_hold.arm
                        for other_arm in range(n_arms):
                            if (
                                other_arm not in (pulled_arm, current_hold.arm)
                                and looks_due(params, state, other_arm, 1) > 0
                            ):
                                planned_arm = other_arm
                        if looks.observer == ACTIVE:
                            has_wrong_look = has_wrong_look or look_arm != planned_arm
                    reward = draw(arms, look_arm, streams.looks)
                    state = update(params, state, stage, look_arm, 1, reward, is_look)
                arrival = next_arrival(looks, stage, NEVER, streams.looks.rng, trial_counts[:0])
                n_arrived += 1
            stage += 1
        trial_counts[BLOCKS] += 1
        trial_counts[WRONG_PULLS] += has_wrong_pull
        trial_counts[WRONG_LOOKS] += has_wrong_look
        trial_counts[BROKEN_BLOCKS] += has_wrong_pull or has_wrong_look

    run_trial = jit(run_trial)

    def play(
        params_values: Any,
        arms: Arms,
        looks: Looks,
        graph: Graph,
        n_trials: int,
        error: float,
        neg_log_p: float,
        history: HistoryParams,
        seeds: Any,
        streams: Streams,
        trial_counts: Any,
    ) -> None:
        params = make_params(*params_values)
        seed_stream(streams.rewards, seeds[0, 0:3])
        seed_stream(streams.looks, seeds[0, 3:6])
        seed_stream(streams.policy, seeds[0, 6:9])
        seed_stream(streams.shows, seeds[0, 9:12])
        n_bounds = (3 if has_graph else 2) * arms.means.size + 2
        for _ in range(n_trials):
            state = init(params, arms.means.size)
            certificate = new_certificate(arms.means.size, error, n_bounds)
            if neg_log_p > 0:
                certificate.leap_state[0]["neg_log_p"] = neg_log_p
                certificate.leap_state[0]["z"] = normal_quantile(neg_log_p)
            run_trial(params, state, arms, looks, graph, history, streams, certificate, trial_counts)

    return cached_dispatcher(play)


def play_trials(
    play: Any,
    policy: Policy,
    problem: Problem,
    feedback: Feedback,
    n_trials: int,
    history: HistoryParams = ANY_HISTORY,
    *,
    seed: int = 1,
    error: float = 1e-9,
    neg_log_p: float = 0.0,
) -> Any:
    """Play trials and return the counts.

    A positive `neg_log_p` replaces the value in the certificate.
    """
    arms = make_arms(problem, 1.0)  # a history may change its means
    looks = make_looks(feedback, problem.gaps, NEVER // (feedback.looks + 1))
    trial_counts = np.zeros(5, np.int64)
    params_values = tuple(policy.params_for(10**6))
    seeds = make_seeds(seed, 0, 1)
    play(
        params_values,
        arms,
        looks,
        make_graph(feedback.shows, problem.n_arms),
        n_trials,
        error,
        neg_log_p,
        history,
        seeds,
        new_streams(has_graph=True),
        trial_counts,
    )
    return trial_counts


def compile_binomials() -> Any:
    """Return a compiled function that fills an array with binomial random numbers."""

    def fill(n: int, p: float, seeds: Any, streams: Streams, out: Any) -> None:
        seed_stream(streams.rewards, seeds[0, 0:3])
        for i in range(out.size):
            out[i] = binomial(n, p, streams.rewards.rng)

    return cached_dispatcher(fill)
