"""Tests that the engine plays the runs of plain Python and has the same distribution of results."""

import threading
import time
from collections import Counter
from functools import partial

import numba
import numpy as np
import pytest
import reference
from histories import make_policy, numpy_streams, play_runs
from scipy import stats

from kibitz.engine.loop import STAGE, STOP
from kibitz.model.feedback import active, bandit, every, full, passive
from kibitz.model.problem import bernoulli, empirical, gaussian
from kibitz.policies import POLICIES
from kibitz.simulation.executors import play_all
from kibitz.simulation.jobs import Job, new_control, play

pytestmark = pytest.mark.slow

IS_PLAIN_PYTHON = bool(numba.config.DISABLE_JIT)
MEANS = [0.9, 0.5, 0.7, 0.2]
GAPS = [0.0, 0.4, 0.2, 0.7]

REFERENCES = {
    "ftl": reference.FTL,
    "ftl_robin": reference.FTLRobin,
    "ucb": reference.UCB,
    "ucb_double": reference.UCB,
    "ucb_second": reference.UCBSecond,
    "ocucb": reference.OCUCB,
    "etc": reference.ETC,
    "etc_ocucb": reference.ETCOCUCB,
    "ucb2": reference.UCB2,
    "improved_ucb": reference.ImprovedUCB,
    "moss": reference.MOSS,
    "moss_anytime": reference.MOSSAnytime,
    "kl_ucb": reference.KLUCB,
    "thompson": reference.Thompson,
    "epsilon_greedy": reference.EpsilonGreedy,
    "imed": reference.IMED,
    "bayes_ucb": reference.BayesUCB,
    "top_two_thompson": reference.TopTwoThompson,
    "kibitzer": reference.Kibitzer,
    "scout": reference.Scout,
    "lookout": reference.Lookout,
    "sw_ucb": partial(reference.SWUCB, window=100),
    "d_ucb": partial(reference.DUCB, discount=0.99),
    "glr_ucb": partial(reference.GLRUCB, horizon=1000),
}


def replay(name, feedback, horizon, seed, run):
    """Play a run in plain Python with NumPy's streams; return (n_pulls, n_looks).

    Each pull takes one normal number from the stream of rewards. Each arrival takes the waiting time
    until the next arrival from the stream of looks. Each look takes an arm and a reward from the
    stream of looks.
    """
    reward_rng, look_rng, policy_rng = numpy_streams(seed, run)
    policy = REFERENCES[name](len(MEANS))
    policy.rng = policy_rng
    n_pulls, n_looks = [0] * len(MEANS), [0] * len(MEANS)

    def next_arrival_after(stage):
        if feedback.observer in {"bandit", "full"}:
            return None
        if not isinstance(feedback.rate, float):
            return stage + 1 if stage == 0 else stage + feedback.rate.n
        return stage + 1 + int(look_rng.standard_exponential() * -1 / np.log1p(-feedback.rate))

    arrival = next_arrival_after(0)
    for stage in range(1, horizon + 1):
        arm = policy.pull(stage)
        look = policy.look(stage) if stage == arrival and feedback.observer == "active" else None
        n_pulls[arm] += 1
        if feedback.observer == "full":
            all_rewards = [mean + reward_rng.standard_normal() for mean in MEANS]
            policy.update(stage, arm, all_rewards[arm], False)
            for other_arm in range(len(MEANS)):
                if other_arm != arm:
                    n_looks[other_arm] += 1
                    policy.update(stage, other_arm, all_rewards[other_arm], True)
            continue
        policy.update(stage, arm, MEANS[arm] + reward_rng.standard_normal(), False)
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
    return n_pulls, n_looks


@pytest.mark.parametrize("name", POLICIES)
def test_runs_equal_the_reference_with_the_same_streams(name):
    problem, horizon = gaussian(MEANS), 80
    assert REFERENCES.keys() == POLICIES.keys()
    for feedback in (
        bandit(),
        passive(0.3, [0.5, 0.25, 0.0, 0.25]),
        active(0.4, looks=2),
        active(every(4, first=1)),
        full(),
    ):
        result = play_runs(make_policy(name), problem, feedback, horizon=horizon, runs=4, seed=11)
        for run in range(4):
            n_pulls, n_looks = replay(name, feedback, horizon, 11, run)
            assert result.n_pulls[run].tolist() == n_pulls, feedback
            assert result.n_looks[run].tolist() == n_looks, feedback


# Ten entries with two kinds of rewards give 20 cases, with two comparisons each. With a random seed,
# each comparison raises a false alarm with probability at most 10^-6 (the Kolmogorov-Smirnov test is
# conservative for discrete distributions). The probability of any false alarm is at most 4 * 10^-5.
DISTRIBUTION_CASES = [
    ("ucb", {"observer": "bandit"}, bandit()),
    ("ucb", {"observer": "passive", "rate": 0.3, "weights": "optimal"}, passive(0.3, "optimal")),
    (
        "ocucb",
        {"observer": "passive", "rate": 0.1, "weights": "uniform", "looks": 3},
        passive(0.1, looks=3),
    ),
    ("ucb_second", {"observer": "active", "rate": 0.3, "paid": True}, active(0.3, paid=True)),
    ("ftl", {"observer": "full"}, full()),
    ("ftl_robin", {"observer": "active", "every": 5}, active(every(5))),
    ("etc_ocucb", {"observer": "active", "rate": 1.0}, active(1.0)),
    ("etc", {"observer": "active", "every": 3, "first": 7}, active(every(3, first=7))),
    (
        "thompson",
        {"observer": "passive", "rate": lambda t: min(1.0, t / 60), "weights": "suboptimal"},
        passive([min(1.0, t / 60) for t in range(1, 61)], "suboptimal"),
    ),
    ("ucb2", {"observer": "active", "rate": 0.2, "looks": 2}, active(0.2, looks=2)),
]


def make_scaled_draw(scale, draw):
    """Return a function that draws rewards in units of the scale, which a policy receives."""
    return lambda arm, rng: draw(arm, rng) / scale


@pytest.mark.parametrize("rewards", ["gaussian", "bernoulli"])
@pytest.mark.parametrize(("name", "reference_options", "feedback"), DISTRIBUTION_CASES)
def test_runs_have_the_distribution_of_the_reference(name, reference_options, feedback, rewards):
    horizon, n_reference_runs, n_engine_runs = 60, 150, 150 if IS_PLAIN_PYTHON else 2000
    make_problem = {"gaussian": gaussian, "bernoulli": bernoulli}[rewards]
    result = play_runs(
        make_policy(name), make_problem(MEANS), feedback, horizon=horizon, runs=n_engine_runs, seed=12
    )
    rng = np.random.default_rng(13)
    reference_options = dict(reference_options)
    if isinstance(reference_options.get("weights"), str):
        reference_options["weights"] = reference.named_weights(reference_options["weights"], GAPS)
    reference_runs = []
    for _ in range(n_reference_runs):
        policy = REFERENCES[name](len(MEANS))
        policy.rng = rng
        draw = make_scaled_draw(make_problem(MEANS).scale, getattr(reference, rewards)(MEANS))
        reference_runs.append(reference.play(policy, draw, MEANS, horizon, rng, **reference_options))
    regrets = np.round([regrets for regrets, _, _ in reference_runs], 9)
    assert stats.ks_2samp(regrets, np.round(result.regret[:, -1], 9), method="asymp").pvalue > 1e-6
    arm = 2
    looks_at_arm = [n_looks[arm] for _, _, n_looks in reference_runs]
    assert stats.ks_2samp(looks_at_arm, result.n_looks[:, arm], method="asymp").pvalue > 1e-6


# ------------------------------------------------------------------------------- environment


def test_all_policies_see_the_same_looks():
    looks_by_policy = [
        play_runs(
            make_policy(name), gaussian(MEANS), passive(0.3), horizon=200, runs=5, seed=14
        ).n_looks
        for name in POLICIES
    ]
    for other_looks in looks_by_policy[1:]:
        np.testing.assert_array_equal(looks_by_policy[0], other_looks)


def test_active_policies_see_the_same_number_of_arrivals():
    looks_by_policy = [
        play_runs(
            make_policy(name), gaussian(MEANS), active(0.3, looks=2), horizon=200, runs=5, seed=14
        ).n_looks
        for name in POLICIES
    ]
    for other_looks in looks_by_policy[1:]:
        np.testing.assert_array_equal(looks_by_policy[0].sum(axis=1), other_looks.sum(axis=1))


def test_looks_do_not_change_the_noise_of_pulls():
    """A policy that ignores looks makes the same decisions with and without looks."""
    blind_policy = make_policy("ucb", ignore_looks=True)
    result_without_looks = play_runs(
        blind_policy, gaussian(MEANS), bandit(), horizon=300, runs=5, seed=15
    )
    for feedback in (passive(0.5), active(every(2)), active(0.1, looks=4)):
        result_with_looks = play_runs(
            blind_policy, gaussian(MEANS), feedback, horizon=300, runs=5, seed=15
        )
        np.testing.assert_array_equal(result_without_looks.n_pulls, result_with_looks.n_pulls)


def test_runs_differ():
    result = play_runs(
        make_policy("ucb"), gaussian(MEANS), passive(0.3), horizon=500, runs=30, seed=17
    )
    assert len({tuple(row) for row in result.n_pulls}) > 25
    assert len({tuple(row) for row in result.n_looks}) > 25


# ------------------------------------------------------------------------------------- record


@pytest.mark.parametrize(
    "feedback",
    [bandit(), passive(0.3, "optimal"), active(0.3, looks=2), full()],
    ids=lambda feedback: feedback.observer,
)
def test_every_stage_has_a_pull_and_the_regret_is_the_sum_of_gaps(feedback):
    problem = gaussian(MEANS)
    result = play_runs(make_policy("ucb"), problem, feedback, horizon=300, runs=10)
    assert np.all(result.n_pulls.sum(axis=1) == 300)
    np.testing.assert_allclose(result.regret[:, -1], result.n_pulls @ problem.gaps, rtol=1e-13)


def test_full_information_shows_every_other_arm_at_each_stage():
    result = play_runs(make_policy("ftl"), gaussian(MEANS), full(), horizon=300, runs=3)
    np.testing.assert_array_equal(result.n_pulls + result.n_looks, np.full((3, 4), 300))


def test_a_paid_look_costs_its_gap_and_changes_nothing_else():
    problem = gaussian(MEANS)
    for make_feedback in (
        lambda is_paid: passive(0.3, paid=is_paid),
        lambda is_paid: active(0.3, paid=is_paid),
    ):
        free_result = play_runs(
            make_policy("ucb"), problem, make_feedback(False), horizon=300, runs=10
        )
        paid_result = play_runs(
            make_policy("ucb"), problem, make_feedback(True), horizon=300, runs=10
        )
        np.testing.assert_array_equal(free_result.n_pulls, paid_result.n_pulls)
        cost = paid_result.n_looks @ problem.gaps
        assert np.all(cost > 0)
        np.testing.assert_allclose(
            paid_result.regret[:, -1], free_result.regret[:, -1] + cost, rtol=1e-13
        )


@pytest.mark.parametrize("name", ["ucb", "ftl", "thompson"])
@pytest.mark.parametrize("paid", [False, True])
def test_the_curve_does_not_depend_on_the_number_of_recorded_stages(name, paid):
    problem, feedback = gaussian(MEANS), passive(0.2, "optimal", paid=paid)
    setting = {"horizon": 500, "runs": 3, "seed": 18}
    fine_result = play_runs(make_policy(name), problem, feedback, stages=range(1, 501), **setting)
    coarse_result = play_runs(
        make_policy(name), problem, feedback, stages=[1, 4, 17, 18, 250, 499], **setting
    )
    np.testing.assert_array_equal(
        coarse_result.regret, fine_result.regret[:, [0, 3, 16, 17, 249, 498]]
    )
    increments = np.round(np.diff(fine_result.regret, axis=1, prepend=0.0), 9)
    if not paid:
        assert set(np.unique(increments)) <= {0.0, 0.2, 0.4, 0.7}
        counts = Counter(increments[0])
        assert [counts[gap] for gap in GAPS] == coarse_result.n_pulls[0].tolist()
    assert np.all(increments >= 0)
    np.testing.assert_array_equal(fine_result.n_pulls, coarse_result.n_pulls)


def test_the_first_stages_pull_each_arm_once_in_order():
    for name in POLICIES:
        curve = play_runs(
            make_policy(name), gaussian(MEANS), bandit(), horizon=4, stages=[1, 2, 3, 4]
        ).regret[0]
        np.testing.assert_allclose(curve, np.cumsum(GAPS), atol=1e-12, err_msg=name)


def test_empirical_arms_pay_their_values():
    """The arms have one, two and three values. Follow the leader always prefers the third arm."""
    problem = empirical([[1.0], [0.0, 0.5], [2.0, 3.0, 4.0]])
    result = play_runs(make_policy("ftl"), problem, bandit(), horizon=50, runs=5)
    np.testing.assert_array_equal(result.n_pulls, [[1, 1, 48]] * 5)


# ----------------------------------------------------------------------------- stopping, progress


def make_job(horizon, first_run=0, end_run=1, name="ucb"):
    stages = np.array([horizon])
    return Job(
        first_run,
        make_policy(name),
        gaussian(MEANS),
        active(0.1),
        horizon,
        stages,
        0,
        first_run,
        end_run,
    )


def test_a_stopped_job_returns_none():
    control = new_control()
    control[STOP] = 1
    assert play(make_job(100), control) is None


@pytest.mark.parametrize("name", ["ucb", "thompson"])
def test_a_running_job_can_be_stopped(name):
    control = new_control()
    results = []
    play(make_job(10, name=name))  # compile the kernel first
    job = make_job(10**12, name=name)
    thread = threading.Thread(target=lambda: results.append(play(job, control)))
    thread.start()
    time.sleep(0.1)
    assert thread.is_alive()
    control[STOP] = 1
    thread.join(timeout=10)
    assert results == [None]
    assert 0 < control[STAGE] < 10**12


def test_closing_the_generator_stops_running_jobs():
    jobs = [make_job(10, first_run=0, end_run=1), make_job(10**12, first_run=1, end_run=2)]
    for job, _ in play_all(jobs, 2, lambda _: None):
        assert job.label == 0
        break  # closes the generator, which must stop the long job


def test_an_error_in_progress_stops_running_jobs():
    def fail(share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(play_all([make_job(10**12)], 1, fail))


def test_progress_ends_at_one():
    shares = []
    jobs = [make_job(100, first_run=n, end_run=n + 2) for n in (0, 2, 4)]
    assert len(list(play_all(jobs, 2, shares.append))) == 3
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
