"""Every policy keeps its contract with the engine."""

import copy
from itertools import pairwise

import numba
import numpy as np
import pytest
from histories import make_policy, play_runs, replay, without_index

from kibitz.engine.kernel import make_generic_kernel, make_kernel
from kibitz.model.feedback import active, bandit, every, full, passive
from kibitz.model.problem import bernoulli, empirical, gaussian
from kibitz.policies import POLICIES, index_policy
from kibitz.policies.check import make_statistics
from kibitz.policies.policy import Policy, list_arrays
from kibitz.simulation.executors import play_all
from kibitz.simulation.jobs import Job

# Plain Python is a hundred times slower than compiled code, so its runs are shorter.
IS_PLAIN_PYTHON = bool(numba.config.DISABLE_JIT)
PROBLEM = gaussian([0.5, 0.0, 0.2])
KERNELS = ("generic", "specialised")

VARIANTS = {  # index policies and their arguments; the engine evaluates their indices lazily
    "ftl": ("ftl", {}),
    "ftl_robin": ("ftl_robin", {}),
    "ucb": ("ucb", {}),
    "ucb-bold": ("ucb", {"exploration": 0.1}),
    "ucb-ignore_looks": ("ucb", {"ignore_looks": True}),
    "ucb_double": ("ucb_double", {}),
    "ucb_second": ("ucb_second", {}),
    "ocucb": ("ocucb", {}),
    "ocucb-rho": ("ocucb", {"eta": 1.1, "rho": 0.9}),
    "moss": ("moss", {}),
    "moss-short": ("moss", {"horizon": 100}),
    "moss_anytime": ("moss_anytime", {}),
    "kl_ucb": ("kl_ucb", {"c": 3.0}),
    "kl_ucb-bernoulli": ("kl_ucb", {"rewards": "bernoulli"}),
    "kibitzer": ("kibitzer", {}),
    "kibitzer-beta": ("kibitzer", {"b": 2.0, "beta": 0.0}),
    "kibitzer-bernoulli": ("kibitzer", {"rewards": "bernoulli"}),
    "etc": ("etc", {"alpha": 0.1}),
    "etc_ocucb": ("etc_ocucb", {}),
    "etc_ocucb-2": ("etc_ocucb", {"check": "doubling", "p": 1.5, "alpha": 0.1}),
    "etc_ocucb-restart": ("etc_ocucb", {"restart": True, "p": 1.2, "C": 1.0, "alpha": 0.1}),
    "etc_ocucb-restart-2": ("etc_ocucb", {"restart": True, "check": "doubling", "p": 3.0}),
    "etc_ocucb-all_info": ("etc_ocucb", {"all_info": True, "p": 1.3, "alpha": 0.2, "C": 0.5}),
    "etc_ocucb-all": ("etc_ocucb", {"all_info": True, "restart": True, "check": "doubling"}),
}

FEEDBACKS = {
    "bandit": bandit(),
    "passive": passive(0.1),
    "given": passive(0.3, [0.0, 0.5, 0.5, 0.0, 0.0]),
    "paid": passive(0.05, "optimal", paid=True),
    "rows": passive(0.2, np.eye(5)[np.arange(10_000) % 5]),
    "listed": passive(np.linspace(0, 1, 10_000), "suboptimal"),
    "active": active(0.1),
    "always": active(1.0),
    "rare": active(0.001),
    "several": active(0.05, looks=3, paid=True),
    "periodic": active(every(7, first=2)),
    "full": full(),
}

# Rewards that are not Gaussian are sums of a few powers of two, so their sums are exact in any order.
# Sums of Gaussian rewards depend on the order of addition, but by so little that a decision changes
# with probability 10^-9 in all these tests together.
PROBLEMS = {
    "gaussian": gaussian([2.0, 1.8, 1.5, 1.0, 0.5]),
    "sds": gaussian([0.0, 0.1, 0.2, 0.1, 0.0], sd=[2.0, 0.0, 0.5, 1.0, 0.0]),
    "bernoulli": bernoulli([0.85, 0.9, 0.5, 0.5, 0.1]),
    "sure": bernoulli([0.0, 1.0, 1.0, 0.5, 0.0]),
    "table": empirical([[0, 1, 0.5], [0.25, 0.5, 0.75, 1.0], [0.5], [0, 0, 1], [0.375]]),
    "constant": gaussian([0.5, 0.5, 0.5, 0.5, 0.25], sd=0.0),
    "huge gaps": gaussian([-1e6, 0.0, 1e6, 1.0, 2.0]),
    "tiny gaps": gaussian([0.0, 0.0, 1e-9, 0.0, 0.0]),
}


@pytest.fixture(params=POLICIES)
def policy(request):
    return make_policy(request.param)


@pytest.fixture(params=VARIANTS)
def variant(request):
    name, arguments = VARIANTS[request.param]
    return make_policy(name, **arguments)


def has_generic_kernel(policy):
    return make_generic_kernel(policy, bandit(), leap=False) is not None


def assert_equal_results(first_result, second_result):
    for name in first_result._fields:
        np.testing.assert_array_equal(
            getattr(first_result, name), getattr(second_result, name), err_msg=name
        )


# ----------------------------------------------------------------------------------- policies


def test_the_name_is_the_key_in_policies(policy):
    assert isinstance(policy, Policy)
    assert POLICIES[policy.name]().name == policy.name


def test_repr_recreates_the_policy(policy):
    recreated_policy = POLICIES[policy.name](**policy.parameters)
    assert recreated_policy.params == policy.params
    assert repr(recreated_policy) == repr(policy)


def random_history(n_arms, n, seed):
    rng = np.random.default_rng(seed)
    return [
        (int(rng.integers(n_arms)), float(rng.random() < 0.5), *["look"] * int(rng.integers(2)))
        for _ in range(n)
    ]


def test_decisions_do_not_modify_the_state(policy):
    params = policy.params
    state, stage = replay(policy, params, 3, *random_history(3, 40, seed=1))
    arrays_before = copy.deepcopy(list_arrays(state))
    policy.pull(params, state, stage, np.random.default_rng(0))
    policy.look(params, state, stage, np.random.default_rng(0))
    for old_array, new_array in zip(arrays_before, list_arrays(state), strict=True):
        np.testing.assert_array_equal(old_array, new_array)


def test_the_same_history_gives_the_same_decisions(policy):
    params = policy.params

    def decide():
        for n in range(0, 60, 3):
            state, stage = replay(policy, params, 3, *random_history(3, 60, seed=2)[:n])
            rng = np.random.default_rng(3)
            yield policy.pull(params, state, stage, rng), policy.look(params, state, stage, rng)

    assert list(decide()) == list(decide())


@pytest.mark.parametrize("name", [*(name for name in VARIANTS if name != "etc"), "thompson"])
def test_reporting_pulls_at_once_equals_reporting_them_one_by_one(name):
    """Test the policies for which the engine reports several pulls in one update.

    For `etc_ocucb`, the equality holds within one epoch. `etc` and `improved_ucb` are excluded,
    because they test for elimination after each pull.
    """
    name, arguments = VARIANTS.get(name, (name, {}))
    policy = make_policy(name, **arguments)
    params = policy.params
    if name == "etc_ocucb":
        params = params._replace(p=40.0, doubling=False)
    rng = np.random.default_rng(4)
    state_one_by_one, state_at_once = policy.init(params, 3), policy.init(params, 3)
    stage = 1
    while stage < 36:
        arm, n, is_look = int(rng.integers(3)), int(rng.integers(1, 4)), bool(rng.random() < 0.2)
        n = 1 if is_look else n
        rewards = rng.normal(size=n)
        for n_earlier, reward in enumerate(rewards):
            state_one_by_one = policy.update(
                params, state_one_by_one, stage + n_earlier, arm, 1, float(reward), is_look
            )
        state_at_once = policy.update(
            params, state_at_once, stage, arm, n, float(rewards.sum()), is_look
        )
        stage += 0 if is_look else n
    for array_one_by_one, array_at_once in zip(
        list_arrays(state_one_by_one), list_arrays(state_at_once), strict=True
    ):
        if array_one_by_one.dtype.names:  # a record of integers
            assert array_one_by_one == array_at_once, name
        else:
            np.testing.assert_allclose(
                array_one_by_one, array_at_once, rtol=1e-13, atol=1e-13, err_msg=name
            )


def test_the_index_is_monotone(variant):
    rng = np.random.default_rng(5)
    params = variant.params
    for _ in range(300):
        counts = rng.integers(1, 60, size=int(rng.integers(2, 6)))
        arm, stage, mean = int(rng.integers(counts.size)), int(rng.integers(1, 500)), rng.random()
        make_statistics_or_counts = (
            make_statistics if variant.index_reads == "statistics" else np.copy
        )
        statistics = make_statistics_or_counts(counts)
        index_now = variant.index(params, stage, statistics, arm, mean)
        index_later = variant.index(params, stage + int(rng.integers(1, 100)), statistics, arm, mean)
        index_of_higher_mean = variant.index(
            params, stage, statistics, arm, min(1.0, mean + rng.random())
        )
        more_counts = counts.copy()
        more_counts[rng.integers(counts.size)] += rng.integers(1, 20)
        assert index_later >= index_now - 1e-13
        assert index_of_higher_mean >= index_now - 1e-13
        assert (
            variant.index(params, stage, make_statistics_or_counts(more_counts), arm, mean)
            <= index_now + 1e-13
        )


def test_an_index_policy_looks_as_its_option_says():
    with pytest.raises(ValueError, match=r"^look must be 'runner-up' or 'robin', got 'up'$"):
        index_policy("own", lambda params, stage, counts, arm, mean: mean, look="up")


# ------------------------------------------------------------------------------------- engine


@pytest.mark.slow
def test_lazy_evaluation_makes_the_decisions_of_the_plain_formula(variant):
    """Compare with the same policy without an index, whose `pull` is called at every stage."""
    horizon = 250 if IS_PLAIN_PYTHON else 3000
    stages = np.unique([1, 2, 3, 7, 50, 200, horizon - 1, horizon])
    for problem_name, problem in PROBLEMS.items():
        if variant.rewards != "gaussian" and not (
            problem.support[0] >= 0 and problem.support[1] <= 1
        ):
            continue
        for feedback_name, feedback in FEEDBACKS.items():
            if IS_PLAIN_PYTHON and feedback_name not in {"bandit", "several", "full"}:
                continue
            if not (problem.gaps > 0).any() and feedback.weights in ("optimal", "suboptimal"):
                continue
            setting = {
                "horizon": horizon,
                "runs": 1 if IS_PLAIN_PYTHON else 3,
                "seed": 7,
                "stages": stages,
            }
            plain_result = play_runs(without_index(variant), problem, feedback, **setting)
            for kernel in KERNELS if has_generic_kernel(variant) else ("specialised",):
                lazy_result = play_runs(variant, problem, feedback, kernel=kernel, **setting)
                for name in lazy_result._fields:
                    np.testing.assert_array_equal(
                        getattr(lazy_result, name),
                        getattr(plain_result, name),
                        err_msg=f"{name}: {kernel}, {variant}, {problem_name}, {feedback_name}",
                    )


@pytest.mark.slow
@pytest.mark.skipif(IS_PLAIN_PYTHON, reason="takes minutes in plain Python")
def test_lazy_evaluation_with_long_runs_many_arms_and_two_arms(variant):
    rng = np.random.default_rng(8)
    # Near mean 0 the index of `kl_ucb` is steep, so the floor for the leader's mean may be too low.
    problems = [
        bernoulli(rng.uniform(0.2, 0.8, 30)),
        bernoulli([0.7, 0.3]),
        bernoulli([0.02, 0.03, 0.01, 0.02, 0.05]),
        bernoulli([0.001, 0.0, 0.002, 0.001, 0.0005]),
    ]
    if variant.rewards == "gaussian":
        problems += [gaussian([1.0, 0.0]), gaussian(rng.normal(size=30)), gaussian([0.0, 0.0])]
    for problem in problems:
        for feedback in (bandit(), passive(0.01), active(every(1000)), active(0.3)):
            horizon = 40_000 if problem.n_arms <= 5 else 8_000
            setting = {"horizon": horizon, "runs": 2, "seed": 9, "stages": [100, 7999, horizon]}
            plain_result = play_runs(without_index(variant), problem, feedback, **setting)
            for kernel in KERNELS if has_generic_kernel(variant) else ("specialised",):
                assert_equal_results(
                    play_runs(variant, problem, feedback, kernel=kernel, **setting), plain_result
                )


@pytest.mark.slow
@pytest.mark.skipif(IS_PLAIN_PYTHON, reason="nothing is compiled")
def test_one_compilation_serves_all_settings(policy):
    play_runs(policy, PROBLEM, active(0.2), horizon=20)
    play_runs(policy, bernoulli([0.2, 0.5]), passive(0.5, "optimal", paid=True), horizon=30)
    play_runs(policy, PROBLEMS["table"], passive([0.5] * 40), horizon=40, stages=[3, 4])
    play_runs(policy, PROBLEM, full(), horizon=50)
    kernel = make_kernel(policy, active(0.2), leap=False, horizon=50)
    assert len(kernel._get_loop().signatures) == 1


@pytest.mark.slow
def test_runs_depend_on_seed_and_run_only(policy):
    setting = {"horizon": 200, "stages": [1, 10, 200]}
    all_runs = play_runs(policy, PROBLEM, active(0.2), seed=1, runs=5, **setting)
    for run in range(5):
        single_run = play_runs(policy, PROBLEM, active(0.2), seed=1, first=run, **setting)
        for values_of_all, values_of_one in zip(all_runs, single_run, strict=True):
            np.testing.assert_array_equal(values_of_all[run], values_of_one[0])
    other_seed_runs = play_runs(policy, PROBLEM, active(0.2), seed=2, runs=5, **setting)
    assert np.any(other_seed_runs.n_pulls != all_runs.n_pulls)


@pytest.mark.slow
def test_results_do_not_depend_on_threads_and_jobs(policy):
    def play(threads, *bounds):
        setting = (policy, PROBLEM, active(0.2), 300, np.array([100, 300]), 1)
        jobs = [Job(first, *setting, first, last) for first, last in pairwise(bounds)]
        results = {job.label: result for job, result in play_all(jobs, threads, lambda _: None)}
        return [
            np.concatenate(parts) for parts in zip(*(results[b] for b in bounds[:-1]), strict=True)
        ]

    one_thread = play(1, 0, 6)
    for other_split in (play(2, 0, 3, 6), play(3, 0, 1, 2, 3, 4, 5, 6), play(1, 0, 5, 6)):
        for expected, actual in zip(one_thread, other_split, strict=True):
            np.testing.assert_array_equal(expected, actual)


@pytest.mark.slow
def test_a_longer_horizon_starts_like_a_shorter_one(policy):
    stages = [1, 2, 5, 60, 120]
    for feedback in (passive(0.3), active(every(3)), passive(np.linspace(0, 1, 400))):
        short_result = play_runs(policy, PROBLEM, feedback, horizon=120, runs=4, stages=stages)
        long_result = play_runs(policy, PROBLEM, feedback, horizon=400, runs=4, stages=[*stages, 400])
        np.testing.assert_array_equal(short_result.regret, long_result.regret[:, :-1])
