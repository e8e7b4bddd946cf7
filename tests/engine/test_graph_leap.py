"""Leaps on graphs have the distribution of stage-by-stage runs, up to their stated error.

The seeds are fixed. The probability of a false alarm with random seeds is stated for each test.
"""

import math
import time
from functools import cache

import numba
import numpy as np
import pytest
from leap_trials import ANY_HISTORY, BLOCKS, BROKEN_BLOCKS, HistoryParams, compile_trials, play_trials
from scipy import stats

import kibitz as kb
from kibitz.engine.environment import make_graph, make_looks
from kibitz.engine.leap import can_leap, draw_rare_edges, draw_rare_show
from kibitz.model.graphs import load_graph

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="takes minutes in plain Python"),
]

FALSE_ALARM_PROBABILITY = 1e-4
PROBLEMS = {"gaussian": kb.gaussian([2, 1, 0.5]), "bernoulli": kb.bernoulli([0.9, 0.4, 0.1])}
FEEDBACKS = {
    "bad hub": kb.graph([[1, 0, 0], [0, 1, 0], [1, 1, 1]]),
    "redrawn": kb.graph(load_graph("erdos:0.01", 3)),
    "dim": kb.graph([[0.5, 0.1, 0.001], [1, 0.3, 0], [0, 0.2, 0.9]]),
    "passive": kb.graph(load_graph("star:1", 3), looks=kb.passive(0.05)),
    "active": kb.graph([[1, 0.02, 0], [0, 1, 0.5], [0, 0.5, 1]], looks=kb.active(0.1, paid=True)),
}
POLICIES = {"ucb": kb.ucb(1.0), "kibitzer": kb.kibitzer()}
CASES = [("ucb", feedback, rewards) for feedback in FEEDBACKS for rewards in PROBLEMS] + [
    ("kibitzer", feedback, "gaussian") for feedback in FEEDBACKS
]
N_COMPARISONS = 5  # regret at two stages, pulls of three arms


@cache
def simulate_case(policy, feedback, rewards, engine):
    options = {"horizon": 20_000, "runs": 200, "stages": [2000, 20_000], "kernel": "generic"}
    seed = 7 if engine == "leap" else 8
    data = kb.simulate(
        PROBLEMS[rewards], FEEDBACKS[feedback], POLICIES[policy], seed=seed, engine=engine, **options
    )
    return data.isel(policy=0)


@pytest.mark.parametrize(("policy", "feedback", "rewards"), CASES)
def test_leaps_have_the_distribution_of_stage_by_stage_runs(policy, feedback, rewards):
    """Compare regret and pulls; the probability of a false alarm is 1e-4 over all cases."""
    leap_data, step_data = (simulate_case(policy, feedback, rewards, e) for e in ("leap", "step"))
    min_p_value = FALSE_ALARM_PROBABILITY / (N_COMPARISONS * len(CASES))
    pairs = [(leap_data.regret[:, n].values, step_data.regret[:, n].values) for n in (0, 1)]
    pairs += [(leap_data.n_pulls[:, a].values, step_data.n_pulls[:, a].values) for a in range(3)]
    for a, b in pairs:
        if len(np.unique([a, b])) > 1:
            assert stats.ks_2samp(a, b, method="asymp").pvalue > min_p_value
    assert float((leap_data.error > 0).mean()) > 0.9  # the runs do leap
    assert float(leap_data.error.max()) <= 1e-9


TRIAL_FEEDBACKS = [
    kb.graph(load_graph("complete", 4)),
    kb.graph(load_graph("ring", 4), looks=kb.passive(0.1)),
    kb.graph(load_graph("erdos:0.05", 4)),
    kb.graph(np.random.default_rng(2).random((4, 4))),
    kb.graph(load_graph("erdos:0.02", 4), looks=kb.active(0.2, looks=2)),
    kb.graph(load_graph("star:2", 4), looks=kb.active(kb.every(7))),
]


@pytest.mark.parametrize("policy", POLICIES)
def test_certified_blocks_are_played_as_certified(policy):
    """No certificate fails in several thousand blocks, which are replayed stage by stage."""
    play = compile_trials(POLICIES[policy], has_graph=True)
    history = ANY_HISTORY._replace(spread=10.0)
    counts = [
        play_trials(play, POLICIES[policy], problem, feedback, 4000, history, seed=seed)
        for seed, (problem, feedback) in enumerate(
            (p, f) for p in (kb.gaussian([0.0] * 4), kb.bernoulli([0.5] * 4)) for f in TRIAL_FEEDBACKS
        )
    ]
    assert sum(trial_counts[BROKEN_BLOCKS] for trial_counts in counts) == 0
    assert sum(trial_counts[BLOCKS] for trial_counts in counts) > 5000
    assert all(trial_counts[BLOCKS] > 0 for trial_counts in counts)


def test_a_tight_certificate_fails_nearly_as_often_as_allowed():
    """The pulled arm has constant rewards and always shows its rival, which trails narrowly.

    The margin is a little less than z sqrt(n), where the bound on the rival's sum is sharp. The
    certificate fails nearly as often as the allowed probability exp(-4), but not more often. The
    probability of a false alarm is 1e-5. A certificate that ignored the shows would fail in every
    second block.
    """
    policy, neg_log_p = kb.ftl(), 4.0
    z = float(stats.norm.isf(math.exp(-neg_log_p) / 2))
    trial_counts = play_trials(
        compile_trials(policy, has_graph=True),
        policy,
        kb.gaussian([0, 0], sd=[0, 1]),
        kb.graph([[1, 1], [0, 1]]),
        20_000,
        HistoryParams(1.0, 100.0, 1, -z),
        neg_log_p=neg_log_p,
    )
    n_blocks, n_broken = trial_counts[BLOCKS], trial_counts[BROKEN_BLOCKS]
    assert n_blocks > 5000
    assert stats.binom.sf(n_broken - 1, n_blocks, math.exp(-neg_log_p)) > 1e-5
    assert n_broken > 0.2 * math.exp(-neg_log_p) * n_blocks


def test_a_billion_stages_of_ten_arms_take_less_than_a_second():
    problem = kb.gaussian(np.linspace(1, 0, 10))
    for name in ("ring", "star:9", "cliques:3", "erdos:0.001"):
        feedback = kb.graph(load_graph(name, 10))
        kb.simulate(problem, feedback, kb.ucb(), horizon=10**5, runs=1, seed=1, engine="leap")
        start = time.process_time()
        data = kb.simulate(problem, feedback, kb.ucb(), horizon=10**9, runs=4, seed=2, threads=1)
        assert (time.process_time() - start) / 4 < 1, name
        assert (data.error > 0).all()


def test_kibitzer_does_not_have_linear_regret_on_two_cliques():
    """kibitzer would stay in the worse clique if shows counted as looks at every arm."""
    problem = kb.gaussian([0.5, 0.0, 0.3, 0.0])
    feedback = kb.graph(load_graph("cliques:2", 4))
    options = {"horizon": 10**6, "runs": 40, "seed": 3, "stages": [10**4, 10**6]}
    regret = kb.simulate(problem, feedback, kb.kibitzer(), **options).regret.mean("run").values[0]
    assert regret[0] < 80
    assert regret[1] < regret[0] + 80  # linear regret would be more than 10^4


def test_which_policies_leap_on_a_graph():
    feedback = kb.graph(load_graph("ring", 3))
    problem = kb.gaussian([1, 0, 0])
    for policy in (kb.ucb(), kb.kibitzer(), kb.ocucb(), kb.ftl_robin(), kb.ucb_second()):
        assert can_leap(policy, problem, feedback)
    for policy in (kb.thompson(), kb.scout(), kb.max_n(kb.ucb()), kb.etc(), kb.etc_ocucb()):
        assert not can_leap(policy, problem, feedback)


def test_rare_shows_do_not_prevent_leaps():
    """The best arm is shown about once in a million pulls. A block ends at each such show."""
    problem = kb.gaussian(np.linspace(1, 0, 10))
    feedback = kb.graph(load_graph("erdos:1e-6", 10))
    start = time.process_time()
    data = kb.simulate(problem, feedback, kb.ucb(2), horizon=10**9, runs=4, seed=2, threads=1)
    assert (time.process_time() - start) / 4 < 1
    assert (data.error > 0).all()


@pytest.mark.parametrize("n_stages", [1, 100])
def test_rare_edges_have_their_conditional_distribution(n_stages):
    """Compare the shows with Bernoulli variables, given that at least one of them is 1.

    Each comparison has a false alarm with probability 1e-5.
    """
    probabilities = [0.3, 0.0, 0.009, 0.004, 1.0, 0.006]
    graph = make_graph(kb.graph([probabilities] * 6, loops=True).shows, 6)
    looks = make_looks(kb.bandit(), np.zeros(6), 10)
    is_rare_edge = [0 < p * n_stages < 1 for p in probabilities[1:]]
    rng, n = np.random.default_rng(4), 4000
    counts, both = np.zeros(6), 0
    for _ in range(n):
        shown = np.zeros(6, np.int64)
        draw_rare_edges(looks, graph, 0, n_stages, rng, shown)
        assert shown.sum() >= 1
        counts += shown
        both += int(shown[2] and shown[5])
    rare = [p for p, is_rare in zip(probabilities[1:], is_rare_edge, strict=True) if is_rare]
    any_shown = 1 - np.prod([1 - p for p in rare])
    for arm, (p, is_rare) in enumerate(zip(probabilities[1:], is_rare_edge, strict=True), 1):
        if is_rare:
            assert stats.binomtest(int(counts[arm]), n, p / any_shown).pvalue > 1e-5
        else:
            assert counts[arm] == 0
    assert stats.binomtest(both, n, 0.009 * 0.006 / any_shown).pvalue > 1e-5
    waits = [draw_rare_show(looks, graph, 0, n_stages, rng) for _ in range(n)]
    mean_wait = 1 / any_shown
    assert abs(np.mean(waits) - mean_wait) < 5 * mean_wait / np.sqrt(n)
