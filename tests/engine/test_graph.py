"""Tests that the engine plays the runs of the reference on graphs.

The loop of the engine also runs in plain Python, so most tests need no compilation.
"""

from dataclasses import replace
from functools import cache

import numba
import numpy as np
import pytest
import reference
from histories import make_policy, numpy_show_stream, numpy_streams, play_runs, without_index
from scipy import stats

import kibitz as kb
from kibitz.engine.environment import make_arms, make_graph, make_looks
from kibitz.engine.kernel import fill_graph
from kibitz.engine.loop import Environment, Record, make_loop
from kibitz.engine.rng import make_seeds, new_streams
from kibitz.model.graphs import load_graph
from kibitz.policies.policy import GraphFunctions, Policy
from kibitz.simulation.jobs import empty_outcome, new_control

MEANS = [0.9, 0.5, 0.7, 0.2, 0.8]
PROBLEM = kb.gaussian(MEANS)
IS_PLAIN_PYTHON = bool(numba.config.DISABLE_JIT)

RANDOM = np.random.default_rng(3).random((5, 5)).round(2)
GRAPHS = {
    "bandit": np.eye(5),
    "ring": load_graph("ring", 5).toarray(),
    "star": load_graph("star:3", 5).toarray(),
    "one-sided": np.eye(5) + np.outer(np.eye(5)[1], 1 - np.eye(5)[1]),
    "complete": np.ones((5, 5)),
    "redrawn": load_graph("erdos:0.3", 5),
    "random": np.maximum(RANDOM, np.eye(5)),
    "dim": RANDOM,  # pulls may hide their own reward
    "loopless": 1.0 - np.eye(5),
    "loopless star": load_graph("star:3", 5).toarray() - np.eye(5),
}
HIDING = {"dim", "loopless", "loopless star"}


def make_reference(name, shows):
    if name.startswith("max_n:"):
        oracle = REFERENCES[name.removeprefix("max_n:")](5)
        oracle.on_graph = True
        return reference.MaxN(oracle, shows)
    if name.endswith(":informed"):
        return REFERENCES[name](5, shows)
    oracle = REFERENCES[name](5)
    oracle.on_graph = True
    return oracle


REFERENCES = {
    "ftl": reference.FTL,
    "ftl_robin": reference.FTLRobin,
    "ucb": reference.UCB,
    "ucb:ignore_looks": lambda n_arms: reference.UCB(n_arms, ignore_looks=True),
    "ucb_second": reference.UCBSecond,
    "ocucb": reference.OCUCB,
    "moss": reference.MOSS,
    "moss_anytime": reference.MOSSAnytime,
    "kl_ucb": reference.KLUCB,
    "thompson": reference.Thompson,
    "kibitzer": reference.Kibitzer,
    "scout": reference.Scout,
    "scout:informed": reference.Scout,
    "scout:kibitzer": reference.ScoutKibitzer,
    "scout:kibitzer:informed": reference.ScoutKibitzer,
    "max_n:ucb": None,
    "max_n:thompson": None,
    "etc": reference.ETC,
    "etc_ocucb": reference.ETCOCUCB,
    "ucb2": reference.UCB2,
    "improved_ucb": reference.ImprovedUCB,
}


@cache
def get_policy(name):
    if name.startswith("max_n:"):
        return kb.max_n(make_policy(name.removeprefix("max_n:")))
    name, *options = name.split(":")
    if "kibitzer" in options:
        return make_policy(name, rule="kibitzer", informed="informed" in options)
    return make_policy(name, **dict.fromkeys(options, True))


def play_plain(policy, problem, feedback, horizon, seed, runs=1, leap=False):
    """Play runs with the loop of the engine in plain Python; return pulls, looks and regret."""
    outcome = empty_outcome(runs, horizon, problem.n_arms)
    outcome.n_pulls[:], outcome.n_looks[:] = 0, 0
    graph = make_graph(feedback.shows, problem.n_arms)
    stages = np.arange(1, horizon + 1)
    environment = Environment(
        make_arms(problem, policy.scale_for(problem.scale)),
        make_looks(feedback, problem.gaps, horizon),
        horizon,
        new_streams(True),
        Record(stages, problem.gaps, feedback.paid, *outcome),
        new_control(),
        graph,
    )
    params = fill_graph(policy, horizon, graph, problem.n_arms)
    play = make_loop(policy.for_graph() if feedback.shows is not None else policy, feedback, leap)
    play(params, environment, 1e-9, make_seeds(seed, 0, runs))
    return outcome


def replay(policy, shows, feedback, horizon, seed, run):
    """Play a run of a reference policy with NumPy's streams; return (pulled arms, n_looks).

    `shows` is the matrix of the graph, or a function of the stage that returns the matrix. Each stage
    takes one normal number from the stream of rewards. The shows of a pull come from a stream that
    depends on the stage and the pulled arm. If the pull may hide its own reward, it takes a first
    number. For each other arm in order, it then takes one number if the edge has a probability below
    1, and one reward if the arm is shown.
    """
    reward_rng, look_rng, policy_rng = numpy_streams(seed, run)
    getattr(policy, "policy", policy).rng = policy_rng
    pulled_arms, n_looks = [], [0] * 5

    def next_arrival_after(stage):
        if feedback.observer == "bandit":
            return None
        return stage + 1 + int(look_rng.standard_exponential() * -1 / np.log1p(-feedback.rate))

    arrival = next_arrival_after(0)
    for stage in range(1, horizon + 1):
        arm = policy.pull(stage)
        look = policy.look(stage) if stage == arrival and feedback.observer == "active" else None
        pulled_arms.append(arm)
        reward = MEANS[arm] + reward_rng.standard_normal()
        show_rng = numpy_show_stream(seed, run, stage, arm)
        row = (shows(stage) if callable(shows) else shows)[arm]
        if row[arm] == 1 or show_rng.random() < row[arm]:
            policy.update(stage, arm, reward, False)
        else:
            policy.hide(stage, arm)
        for other_arm in range(5):
            probability = row[other_arm]
            if other_arm == arm or probability == 0:
                continue
            if probability == 1 or show_rng.random() < probability:
                reward = MEANS[other_arm] + show_rng.standard_normal()
                policy.show(stage, arm, other_arm, reward)
        if stage == arrival:
            for nth in range(feedback.looks):
                if feedback.observer == "passive":
                    u = look_rng.random()
                    look = sum(u >= threshold for threshold in np.cumsum(feedback.weights)[:-1])
                elif nth > 0:
                    look = policy.look(stage)
                n_looks[look] += 1
                policy.update(stage, look, MEANS[look] + look_rng.standard_normal(), True)
            arrival = next_arrival_after(stage)
    return pulled_arms, n_looks


def can_play(name, graph_name):
    if graph_name not in HIDING or (name.startswith("scout") and "kibitzer" not in name):
        return True
    counts_shows_as_looks = {"etc", "etc_ocucb", "ucb2", "improved_ucb"}
    return graph_name == "dim" and name not in counts_shows_as_looks


LOOKS = {
    "bandit": None,
    "passive": kb.passive(0.3, [0.5, 0.25, 0.0, 0.25, 0.0]),
    "active": kb.active(0.4, looks=2),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_runs_equal_the_reference_with_the_same_streams(name):
    """Compare all pulls and looks on ten graphs, without looks and with looks."""
    policy = get_policy(name)
    n_cases = 0
    for graph_name, shows in GRAPHS.items():
        if not can_play(name, graph_name):
            continue
        n_cases += 1
        for looks_name, looks in LOOKS.items():
            feedback = kb.graph(shows, looks=looks)
            for run_seed in (11, 12):
                outcome = play_plain(policy, PROBLEM, feedback, 60, run_seed)
                pulled_arms, n_looks = replay(
                    make_reference(name, shows.tolist()), shows, feedback, 60, run_seed, 0
                )
                case = f"{graph_name}, {looks_name}, seed {run_seed}"
                regret = np.cumsum(PROBLEM.gaps[pulled_arms])
                np.testing.assert_allclose(outcome.regret[0], regret, atol=1e-9, err_msg=case)
                assert outcome.n_looks[0].tolist() == n_looks, case
                assert outcome.n_pulls[0].tolist() == np.bincount(pulled_arms, minlength=5).tolist()
    assert n_cases >= 7


def show_by_day(stage, pulled, arm):
    """Return the probability that a pull shows an arm, which depends on the time of day."""
    if pulled == arm:
        return 1 if stage % 3 else 0.5
    if stage % 10 < 5:
        return 1.0 if abs(pulled - arm) == 1 else 0.0
    return 0.1


@pytest.mark.parametrize("name", ["ucb", "kibitzer", "thompson", "scout", "ftl_robin"])
@pytest.mark.parametrize("looks_name", LOOKS)
def test_runs_on_a_graph_that_varies_equal_the_reference(name, looks_name):
    def make_matrix(stage):
        return [[show_by_day(stage, i, j) for j in range(5)] for i in range(5)]

    feedback = kb.graph(show_by_day, looks=LOOKS[looks_name])
    outcome = play_plain(get_policy(name), PROBLEM, feedback, 80, 13)
    oracle = make_reference(name, GRAPHS["bandit"].tolist())
    pulled_arms, n_looks = replay(oracle, make_matrix, feedback, 80, 13, 0)
    np.testing.assert_allclose(outcome.regret[0], np.cumsum(PROBLEM.gaps[pulled_arms]), atol=1e-9)
    assert outcome.n_looks[0].tolist() == n_looks


@cache
def make_recorder(*pulled_arms):
    """Return a policy that pulls given arms in turn, and a list that records all reports to it."""
    events = []

    def init(params, n_arms):
        return (np.zeros(n_arms),)

    def pull(params, state, stage, rng):
        return pulled_arms[(stage - 1) % len(pulled_arms)]

    def update(params, state, stage, arm, n, total, is_look):
        events.append((int(stage), "look" if is_look else "pull", int(arm), float(total)))
        return state

    def show(params, state, stage, pulled, arm, n, total):
        events.append((int(stage), f"show by {pulled}", int(arm), float(total)))
        return state

    def hide(params, state, stage, arm, n):
        events.append((int(stage), "hide", int(arm), 0.0))
        return state

    functions = GraphFunctions(pull, pull, None, show, hide, needs_loops=False)
    return Policy("recorder", {}, init, pull, pull, update, on_graph=functions), events


def record(pulled_arms, shows, looks=None, horizon=200, seed=5):
    policy, events = make_recorder(*pulled_arms)
    events.clear()
    play_plain(policy, PROBLEM, kb.graph(shows, looks=looks), horizon, seed)
    return list(events)


def test_two_policies_see_the_same_shows_at_the_same_stage_and_arm():
    """The policies have different histories, but the shows depend on the stage and the arm only."""
    by_turns = record([0, 1, 2, 3, 4], RANDOM, looks=kb.passive(0.2))
    by_pairs = record([0, 2, 2, 4, 1], RANDOM, looks=kb.passive(0.2))
    common_stages = {t for t in range(1, 201) if t % 5 in {1, 3}}  # both pull arm 0, or both arm 2
    told = [[e for e in events if e[0] in common_stages] for events in (by_turns, by_pairs)]
    assert told[0] == told[1]
    assert {kind for _, kind, _, _ in told[0]} == {"pull", "hide", "look", "show by 0", "show by 2"}
    assert len(told[0]) > 150
    other_stages = [[e for e in events if e[0] % 5 == 2] for events in (by_turns, by_pairs)]
    assert other_stages[0] != other_stages[1]


def test_shows_do_not_change_rewards_and_looks():
    """The streams of rewards and looks are the same with and without a graph."""
    looks = kb.passive(0.2)
    with_graph = record([0, 1, 2], np.ones((5, 5)), looks=looks)
    without_edges = record([0, 1, 2], np.eye(5), looks=looks)
    assert [e for e in with_graph if not e[1].startswith("show")] == without_edges


def test_a_stage_reports_the_pull_then_the_shows_then_the_look():
    events = record([0, 3], np.ones((5, 5)), looks=kb.passive(1.0))
    for stage in range(1, 201):
        kinds = [(kind, arm) for t, kind, arm, _ in events if t == stage]
        pulled = 0 if stage % 2 else 3
        others = [arm for arm in range(5) if arm != pulled]
        assert kinds[0] == ("pull", pulled)
        assert kinds[1:5] == [(f"show by {pulled}", arm) for arm in others]
        assert [kind for kind, _ in kinds[5:]] == ["look"]


def test_a_look_is_a_fresh_draw_even_of_an_arm_that_was_shown():
    events = record([0], np.ones((5, 5)), looks=kb.passive(1.0))
    rewards = [reward for _, _, _, reward in events]
    assert len(set(rewards)) == len(rewards)


@pytest.mark.parametrize("probability", [0.03, 0.2, 0.6])
def test_shows_have_the_probabilities_of_the_graph(probability):
    """Check that the shows of each edge and the joint shows of two edges are binomial.

    The engine draws one number per edge in a row with 4 other arms. In a row with 12 other arms, it
    skips edges of small probability.
    With a random seed, a false alarm has probability at most 1e-5 in each of the 18 comparisons.
    """
    n_stages = 4000
    for n_arms in (5, 13):
        problem = kb.gaussian(np.zeros(n_arms))
        shows = np.full((n_arms, n_arms), probability)
        policy, events = make_recorder(0)
        events.clear()
        play_plain(policy, problem, kb.graph(shows, loops=True), n_stages, 6)
        is_shown = np.zeros((n_stages, n_arms), bool)
        for stage, kind, arm, _ in events:
            is_shown[stage - 1, arm] = kind.startswith("show")
        joint = is_shown[:, 1] & is_shown[:, -1]
        for count, p in (
            (is_shown[:, 1].sum(), probability),
            (is_shown[:, -1].sum(), probability),
            (joint.sum(), probability**2),
        ):
            assert stats.binomtest(int(count), n_stages, p).pvalue > 1e-5


def test_a_policy_without_functions_for_graphs_counts_shows_as_looks():
    policy, events = make_recorder(1)
    events.clear()
    play_plain(replace(policy, on_graph=None), PROBLEM, kb.graph(np.ones((5, 5))), 3, 1)
    assert [kind for _, kind, _, _ in events] == ["pull", *["look"] * 4] * 3


# ------------------------------------------------------------------------------------ compiled loops


COMPILED = ["ucb", "kl_ucb", "kibitzer", "thompson", "scout", "scout:informed", "max_n:ucb"]
COMPILED += ["scout:kibitzer", "scout:kibitzer:informed"]


@pytest.mark.slow
@pytest.mark.skipif(IS_PLAIN_PYTHON, reason="nothing is compiled")
@pytest.mark.parametrize("name", COMPILED)
def test_compiled_runs_equal_plain_python(name):
    policy = get_policy(name)
    for graph_name in ("ring", "redrawn", "dim"):
        feedback = kb.graph(GRAPHS[graph_name], looks=kb.active(0.1))
        plain_result = play_plain(policy, PROBLEM, feedback, 150, 7, runs=2)
        kernel = "generic" if policy.rule else "specialised"
        result = play_runs(
            policy,
            PROBLEM,
            feedback,
            horizon=150,
            runs=2,
            seed=7,
            stages=range(1, 151),
            kernel=kernel,
        )
        for field in ("n_pulls", "n_looks"):
            np.testing.assert_array_equal(getattr(result, field), getattr(plain_result, field))
        np.testing.assert_allclose(result.regret, plain_result.regret, atol=1e-9)


@pytest.mark.slow
@pytest.mark.skipif(IS_PLAIN_PYTHON, reason="nothing is compiled")
def test_compiled_runs_on_a_graph_that_varies_equal_plain_python():
    feedback = kb.graph(show_by_day, looks=kb.active(0.1))
    for policy, kernel in ((kb.ucb(), "generic"), (kb.scout(), "specialised")):
        plain_result = play_plain(policy, PROBLEM, feedback, 150, 7, runs=2)
        setting = {"horizon": 150, "runs": 2, "seed": 7, "stages": range(1, 151)}
        result = play_runs(policy, PROBLEM, feedback, kernel=kernel, **setting)
        np.testing.assert_array_equal(result.n_looks, plain_result.n_looks)
        np.testing.assert_allclose(result.regret, plain_result.regret, atol=1e-9)


@pytest.mark.slow
def test_lazy_evaluation_makes_the_decisions_of_the_plain_formula():
    """Compare UCB with the same policy without an index, whose `pull` is called at every stage."""
    horizon = 200 if IS_PLAIN_PYTHON else 5000
    policy = make_policy("ucb")
    for name in ("ring", "star", "redrawn", "random", "dim"):
        feedback = kb.graph(GRAPHS[name], looks=kb.passive(0.05))
        setting = {"horizon": horizon, "runs": 3, "seed": 8, "stages": [10, 100, horizon]}
        lazy_result = play_runs(policy, PROBLEM, feedback, kernel="generic", **setting)
        plain_result = play_runs(without_index(policy), PROBLEM, feedback, **setting)
        for field in lazy_result._fields:
            np.testing.assert_array_equal(
                getattr(lazy_result, field), getattr(plain_result, field), err_msg=name
            )
