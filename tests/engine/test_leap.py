"""Tests that the leap engine has the distribution of stage-by-stage play, up to its stated error.

The statistical tests have fixed seeds. Each group of tests states its probability of a false alarm,
that is, of a failure with a random seed although both engines have the same distribution. The stated
probability is a Bonferroni bound over all comparisons of the group.
"""

import functools
import math

import mpmath
import numpy as np
import pytest
from leap_trials import (
    ANY_HISTORY,
    BLOCKS,
    BROKEN_BLOCKS,
    HistoryParams,
    compile_binomials,
    compile_trials,
    play_trials,
)
from scipy import stats

import kibitz as kb
from kibitz.engine.cache import cached_dispatcher
from kibitz.engine.environment import make_arms, make_graph, make_looks
from kibitz.engine.leap import (
    binomial,
    binomial_upper_bound,
    can_leap,
    charge,
    cutoff,
    deviation_bound,
    draw_arrivals,
    make_leap_functions,
    max_arrivals,
    new_certificate,
    normal_quantile,
)
from kibitz.engine.loop import get_statistics_index
from kibitz.engine.rng import make_seeds, new_streams
from kibitz.policies.policy import NEVER

pytestmark = pytest.mark.slow

GAUSSIAN = kb.gaussian([2, 1, 0.5])
BERNOULLI = kb.bernoulli([0.9, 0.4, 0.1])
FALSE_ALARM_PROBABILITY = 1e-4  # the probability of a false alarm in each group of tests


# --------------------------------------------------------------------------------- inequalities


@pytest.mark.parametrize("neg_log_p", [1, 1.5, 3, 10, 22, 37.5, 45, 60])
def test_the_normal_quantile_is_valid_and_tight(neg_log_p):
    z = mpmath.mpf(normal_quantile(float(neg_log_p)))
    with mpmath.workdps(40):
        ratio_to_allowed = 2 * mpmath.ncdf(-z) / mpmath.exp(-neg_log_p)
    assert 0.5 < ratio_to_allowed <= 1


@pytest.mark.parametrize("neg_log_p", [1.0, 5.0, 20.0, 45.0])
@pytest.mark.parametrize("n", [1, 7, 100, 10**4, 10**8, 10**12])
@pytest.mark.parametrize("p", [1e-9, 1e-3, 0.1, 0.5, 0.9, 1 - 1e-9])
def test_the_binomial_upper_bound_is_valid(n, p, neg_log_p):
    upper_bound = binomial_upper_bound(float(n), p, neg_log_p)
    assert stats.binom.logsf(upper_bound, n, p) <= -neg_log_p + 1e-9
    assert upper_bound <= n


def test_the_binomial_upper_bound_for_extreme_arguments():
    assert binomial_upper_bound(1e15, 0.0, 40.0) == 0
    assert binomial_upper_bound(0.0, 0.5, 40.0) == 0
    assert binomial_upper_bound(1e15, 1.0, 40.0) == 10**15
    assert 0.1 * 1e15 < binomial_upper_bound(1e15, 0.1, 40.0) < 0.1 * 1e15 * (1 + 1e-6)


def test_the_deviation_bound_of_gaussian_sums_is_valid():
    """A Gaussian walk W satisfies P(max_{k <= n} W_k >= z sqrt(n)) <= exp(-neg_log_p).

    Here z is `normal_quantile(neg_log_p)`. The bound is exact in continuous time, so the probability
    is not much smaller than the bound.
    """
    rng = np.random.default_rng(5)
    walk_maxima = np.cumsum(rng.standard_normal((20_000, 400)), axis=1).max(axis=1)
    for neg_log_p in (1.0, 2.0, 4.0):
        max_deviation = deviation_bound(
            make_arms(GAUSSIAN, 1.0), 0, 400, neg_log_p, normal_quantile(neg_log_p)
        )
        n_exceeded = int((walk_maxima >= max_deviation).sum())
        max_probability = math.exp(-neg_log_p)
        assert stats.binom.sf(n_exceeded - 1, 20_000, max_probability) > FALSE_ALARM_PROBABILITY
        # The standard deviation of `n_exceeded` is below a tenth of this limit.
        assert n_exceeded > 0.4 * max_probability * 20_000


@pytest.mark.parametrize("mean", [0.02, 0.5, 0.9])
def test_the_deviation_bound_of_bernoulli_sums_is_valid(mean):
    rng = np.random.default_rng(6)
    walks = np.cumsum((rng.random((20_000, 400)) < mean) - mean, axis=1)
    for neg_log_p in (1.0, 2.0, 4.0):
        max_deviation = deviation_bound(
            make_arms(BERNOULLI, 1.0), 0, 400, neg_log_p, normal_quantile(neg_log_p)
        )
        for n_exceeded in (
            (walks >= max_deviation).any(axis=1).sum(),
            (walks <= -max_deviation).any(axis=1).sum(),
        ):
            assert (
                stats.binom.sf(int(n_exceeded) - 1, 20_000, math.exp(-neg_log_p))
                > FALSE_ALARM_PROBABILITY
            )


def call_max_arrivals(looks, arrival, last_stage, neg_log_p):
    return max_arrivals(looks, arrival, last_stage, neg_log_p)


def compute_max_arrivals(*arguments):
    return cached_dispatcher(call_max_arrivals)(*arguments)


def test_max_arrivals_includes_the_next_arrival():
    gaps = np.zeros(2)
    looks_at_every_stage = make_looks(kb.active(1.0), gaps, 10)
    rare_looks = make_looks(kb.active(1e-3), gaps, 10)
    looks_every_third_stage = make_looks(kb.active(kb.every(3, first=2)), gaps, 10)
    assert compute_max_arrivals(rare_looks, 5, 4, 40.0) == 0
    for last_stage in range(5, 60):
        assert compute_max_arrivals(rare_looks, 5, last_stage, 40.0) >= 1
        assert compute_max_arrivals(looks_at_every_stage, 5, last_stage, 40.0) == last_stage - 4
        assert compute_max_arrivals(looks_every_third_stage, 5, last_stage, 40.0) == len(
            range(5, last_stage + 1, 3)
        )
    for n in (10**5, 10**7):  # blocks that are too long for a cutoff
        n_max = compute_max_arrivals(rare_looks, 5, 5 + n, 10.0)
        assert -16 < stats.binom.logsf(n_max - 1, n, 1e-3) <= -10


def fill_arrivals(looks, arrival, last_stage, rng, out):
    for i in range(out.shape[0]):
        out[i, 0], out[i, 1] = draw_arrivals(looks, arrival, last_stage, rng)


@pytest.mark.parametrize(("rate", "n"), [(0.1, 40), (0.5, 9), (1.0, 20), (0.01, 30), (0.1, 10**5)])
def test_drawn_arrivals_respect_their_bound(rate, n):
    """Arrivals have the right distribution and never exceed the number that a certificate allows.

    The probability of a false alarm is 1e-4.
    """
    looks = make_looks(kb.active(rate), np.zeros(2), 10)
    out = np.zeros((20_000, 2), np.int64)
    cached_dispatcher(fill_arrivals)(looks, 100, 100 + n, np.random.default_rng(4), out)
    n_arrived, end_stage = out.T
    assert n_arrived.max() <= compute_max_arrivals(looks, 100, 100 + n, 40.0)
    assert n_arrived.min() >= 1
    # Stage by stage, the first arrival is at stage 100 and the block ends at the cutoff.
    arrival_cutoff = cutoff(looks, 100, 100 + n)
    if n < 1000:
        is_arrival = np.random.default_rng(5).random((20_000, n)) < rate
        n_so_far = 1 + np.cumsum(is_arrival, axis=1)
        is_over = n_so_far >= arrival_cutoff
        last_stage = np.where(is_over.any(axis=1), 101 + is_over.argmax(axis=1), 100 + n)
        last_stage = np.where(arrival_cutoff == 1, 100, last_stage)
        expected_counts = np.minimum(n_so_far[:, -1], arrival_cutoff)
        assert (
            stats.ks_2samp(end_stage, last_stage, method="asymp").pvalue > FALSE_ALARM_PROBABILITY / 9
        )
    else:
        assert (end_stage == 100 + n).all()
        expected_counts = 1 + np.random.default_rng(5).binomial(n, rate, 20_000)
    assert (
        stats.ks_2samp(n_arrived, expected_counts, method="asymp").pvalue
        > FALSE_ALARM_PROBABILITY / 9
    )


@pytest.mark.parametrize("n_arms", [2, 5, 500])
@pytest.mark.parametrize("error", [1e-3, 1e-9, 1e-12])
def test_the_error_budget_covers_every_event_and_never_runs_out(n_arms, error):
    certificate = new_certificate(n_arms, error, 2 * n_arms + 2)
    leap_state = certificate.leap_state[0]
    costs, spent_error = [], 0.0
    for _ in range(40):  # as after 2^20, 2^21, ... certificates
        cost = leap_state["cost"]
        assert (2 * n_arms + 2) * math.exp(-leap_state["neg_log_p"]) == pytest.approx(cost, rel=1e-9)
        assert mpmath.log(2 * mpmath.ncdf(-mpmath.mpf(leap_state["z"]))) <= -leap_state["neg_log_p"]
        costs.append(cost)
        leap_state["spent"] = (leap_state["spent"] + leap_state["max_error"]) / 2 - cost
        spent_error = leap_state["spent"] + cost
        charge(certificate)
        assert leap_state["spent"] == pytest.approx(spent_error, rel=1e-12)
        assert leap_state["spent"] <= leap_state["max_error"] == error
        assert leap_state["cost"] == cost / 4
    certificate = new_certificate(n_arms, error, 2 * n_arms + 2)
    leap_state = certificate.leap_state[0]
    charge(certificate)
    assert leap_state["spent"] == leap_state["cost"] == costs[0] == error / 2**21


# ------------------------------------------------------------------------------------ the binomial


@functools.cache
def get_binomial_filler():
    return compile_binomials()


def draw_binomials(n, p, size, seed=3):
    out = np.zeros(size, np.int64)
    get_binomial_filler()(n, p, make_seeds(seed, 0, 1), new_streams(), out)
    return out


@pytest.mark.parametrize("n", [50, 10**4, 10**6, 10**6 + 1, 10**7, 10**9, 10**12, 10**15])
@pytest.mark.parametrize("p", [1e-3, 0.1, 0.5, 0.97])
def test_binomial_numbers_have_the_binomial_distribution(n, p):
    """The randomised probability integral transform of the numbers is uniform.

    There are 64 tests, two for each case. The probability of a false alarm is 1e-4 in total.
    """
    k = draw_binomials(n, p, 20_000)
    assert k.min() >= 0
    assert k.max() <= n
    u = np.random.default_rng(1).random(k.size)
    if n <= 10**9:
        probability_below, probability_at = stats.binom.cdf(k - 1, n, p), stats.binom.pmf(k, n, p)
        uniform = probability_below + u * probability_at
    else:  # the normal distribution with Edgeworth's first correction is accurate to 1e-5
        x = (k - n * p + u - 0.5) / math.sqrt(n * p * (1 - p))
        skew = (1 - 2 * p) / math.sqrt(n * p * (1 - p))
        uniform = stats.norm.cdf(x) - skew / 6 * (x * x - 1) * stats.norm.pdf(x)
    assert stats.kstest(uniform, "uniform").pvalue > FALSE_ALARM_PROBABILITY / 64
    bin_counts = np.histogram(uniform, bins=40, range=(0, 1))[0]
    assert stats.chisquare(bin_counts).pvalue > FALSE_ALARM_PROBABILITY / 64


@pytest.mark.parametrize("p", [1e-15, 3e-12, 1e-9])
def test_rare_successes_among_many_trials_are_poisson(p):
    """The drawn numbers have practically a Poisson distribution.

    There are three tests. The probability of a false alarm is 1e-4 in total.
    """
    k = draw_binomials(10**15, p, 20_000)
    u = np.random.default_rng(1).random(k.size)
    mean = 1e15 * p
    uniform = stats.poisson.cdf(k - 1, mean) + u * stats.poisson.pmf(k, mean)
    assert stats.kstest(uniform, "uniform").pvalue > FALSE_ALARM_PROBABILITY / 3


@pytest.mark.parametrize(("n", "p"), [(2, 0.5), (7, 0.3), (8, 0.9), (40, 0.02)])
def test_halving_is_exact(n, p, monkeypatch):
    """Halving the number of trials down to single trials, in plain Python, keeps the distribution.

    There are four tests. The probability of a false alarm is 1e-4 in total.
    """
    monkeypatch.setitem(binomial.__globals__, "EXACT_BINOMIAL", 1)
    rng = np.random.default_rng(9)
    frequencies = np.bincount([binomial(n, p, rng) for _ in range(20_000)], minlength=n + 1)
    expected = 20_000 * stats.binom.pmf(np.arange(n + 1), n, p)
    assert frequencies.size == n + 1
    is_frequent = expected > 5
    observed_counts, expected_counts = frequencies[is_frequent], expected[is_frequent]
    observed_counts, expected_counts = (
        np.append(observed_counts, 20_000 - observed_counts.sum()),
        np.append(expected_counts, 20_000 - expected_counts.sum()),
    )
    if expected_counts[-1] < 1:
        observed_counts, expected_counts = (
            observed_counts[:-1],
            expected_counts[:-1] * (observed_counts[:-1].sum() / expected_counts[:-1].sum()),
        )
    assert stats.chisquare(observed_counts, expected_counts).pvalue > FALSE_ALARM_PROBABILITY / 4


def test_binomial_for_extreme_arguments():
    for n in (0, 1, 10**15, 2**61):
        assert set(draw_binomials(n, 0.0, 3)) == {0}
        assert set(draw_binomials(n, 1.0, 3)) == {n}
    assert set(draw_binomials(0, 0.5, 3)) == {0}


# ------------------------------------------------------------ the same distribution, by policy

POLICIES = {
    "ftl": (kb.ftl, "gb"),  # rewards: g for gaussian, b for bernoulli
    "ftl_robin": (kb.ftl_robin, "gb"),
    "ucb": (lambda: kb.ucb(1.0), "g"),
    "ucb:wide": (lambda: kb.ucb(4.0), "b"),
    "ucb:ignore_looks": (lambda: kb.ucb(1.0, ignore_looks=True), "g"),
    "ucb_second": (lambda: kb.ucb_second(1.0), "g"),
    "ocucb": (lambda: kb.ocucb(eta=1.1), "gb"),
    "etc": (lambda: kb.etc(0.5), "g"),
    "etc_ocucb": (lambda: kb.etc_ocucb(eta=1.1), "gb"),
    "etc_ocucb:doubling": (lambda: kb.etc_ocucb(p=1.5, check="doubling", all_info=True), "g"),
    "etc_ocucb:restart": (lambda: kb.etc_ocucb(p=3, restart=True), "g"),
    "moss": (lambda: kb.moss(4.0), "b"),
    "moss_anytime": (kb.moss_anytime, "g"),
    "kl_ucb": (kb.kl_ucb, "g"),
    "kl_ucb:bernoulli": (lambda: kb.kl_ucb(rewards="bernoulli"), "b"),
    "kibitzer": (kb.kibitzer, "gb"),
    "kibitzer:bernoulli": (lambda: kb.kibitzer(rewards="bernoulli"), "b"),
}
FEEDBACKS = {
    "bandit": kb.bandit(),
    "passive": kb.passive(0.1),
    "active": kb.active(0.1),
    "rare": kb.active(0.002, paid=True),
    "periodic": kb.active(kb.every(40, first=7), looks=3),
    "skewed": kb.passive(kb.every(9), [0.0, 0.3, 0.7], looks=2, paid=True),
    "never the best": kb.passive(0.3, [0.0, 0.0, 1.0]),
    "rarely the best": kb.passive(0.3, [0.001, 0.4, 0.599]),
}
UNFAIR_FEEDBACKS = {
    "never the best",
    "rarely the best",
}  # weights of looks for which an earlier kibitzer had linear regret
CASES = [
    (policy, feedback, reward_letter)
    for policy, (_, reward_letters) in POLICIES.items()
    for feedback in FEEDBACKS
    for reward_letter in reward_letters
    if feedback in {"bandit", "passive", "active"}
    or (feedback in UNFAIR_FEEDBACKS and policy.startswith("kibitzer"))
    or (
        feedback not in UNFAIR_FEEDBACKS
        and reward_letter == "g"
        and policy in {"ucb", "etc_ocucb", "kibitzer"}
    )
]
RUNS = 200
N_COMPARISONS = 9  # regret at two stages, pulls and looks of three arms, one chi-square test


def simulate_leap_case(policy, feedback, reward_letter):
    """Simulate a case with leaps, in the generic kernel if the policy has one."""
    kernel = "generic" if POLICIES[policy][0]().rule else "specialised"
    return simulate_case(policy, feedback, reward_letter, "leap", kernel)


@functools.cache
def simulate_case(policy, feedback, reward_letter, engine, kernel):
    problem = GAUSSIAN if reward_letter == "g" else BERNOULLI
    seed = 7 if engine == "leap" else 8
    data = kb.simulate(
        problem,
        FEEDBACKS[feedback],
        POLICIES[policy][0](),
        horizon=20_000,
        runs=RUNS,
        seed=seed,
        stages=[2000, 20_000],
        engine=engine,
        kernel=kernel,
    )
    if kernel != "auto":
        assert set(data.encoding["kernel"].values()) == {kernel}
    return data.isel(policy=0)


@pytest.mark.parametrize(("policy", "feedback", "reward_letter"), CASES)
def test_leaps_have_the_distribution_of_stage_by_stage_runs(policy, feedback, reward_letter):
    """Compare regret, pulls and looks; the probability of a false alarm is 1e-4 over all cases."""
    leap_data = simulate_leap_case(policy, feedback, reward_letter)
    step_data = simulate_case(
        policy, feedback, reward_letter, "step", "auto"
    )  # both kernels give the same numbers: tests/policies/test_contract.py
    regrets_by_engine = [
        (a.regret[:, 0].values, a.regret[:, 1].values) for a in (leap_data, step_data)
    ]
    sample_pairs = list(zip(*regrets_by_engine, strict=True))
    for arm in range(3):
        sample_pairs += [
            (leap_data[n][:, arm].values, step_data[n][:, arm].values) for n in ("n_pulls", "n_looks")
        ]
    min_p_value = FALSE_ALARM_PROBABILITY / (N_COMPARISONS * len(CASES))
    for a, b in sample_pairs:
        if len(np.unique([a, b])) > 1:
            assert stats.ks_2samp(a, b, method="asymp").pvalue > min_p_value
    all_regrets = np.concatenate([leap_data.final_regret.values, step_data.final_regret.values])
    edges = np.unique(np.quantile(all_regrets, np.linspace(0, 1, 9)))
    if edges.size > 2:
        counts = [np.histogram(x.final_regret, edges)[0] for x in (leap_data, step_data)]
        assert stats.chi2_contingency(counts).pvalue > min_p_value


LEAPING_CASES = [case for case in CASES if case[:2] != ("ucb_second", "active") and case[0] != "etc"]


def test_the_compared_runs_do_leap():
    """Check that nearly all runs of the previous test leap, which gives them a positive error."""
    for case in LEAPING_CASES:
        leap_data = simulate_leap_case(*case)
        assert float((leap_data.error > 0).mean()) > 0.9, case
        assert float(leap_data.error.max()) <= 1e-9
    assert float(simulate_case("ftl", "bandit", "g", "step", "auto").error.max()) == 0


@pytest.mark.parametrize("case", [case for case in CASES if POLICIES[case[0]][0]().rule])
def test_generic_kernels_leap_like_specialised_kernels(case):
    generic_data, specialised_data = (
        simulate_case(*case, "leap", kernel) for kernel in ("generic", "specialised")
    )
    for name in ("regret", "n_pulls", "n_looks", "error"):
        np.testing.assert_array_equal(generic_data[name], specialised_data[name], err_msg=name)


# -------------------------------------------------------------- certificates, replayed by stages

TRIAL_POLICIES = {
    "ftl": kb.ftl(),
    "ftl_robin": kb.ftl_robin(),
    "ucb": kb.ucb(2.0),
    "ocucb": kb.ocucb(),
    "etc_ocucb": kb.etc_ocucb(all_info=True),
    "kibitzer": kb.kibitzer(),
}
EQUAL_MEANS = [0.0] * 4  # trials draw their own means
TRIAL_FEEDBACKS = [
    kb.bandit(),
    kb.passive(0.1),
    kb.passive(1, [0.7, 0.3, 0, 0]),
    kb.passive(0.3, [0, 0, 0, 1]),
    kb.passive(1e-6),
    kb.active(0.1),
    kb.active(0.01, looks=5),
    kb.active(kb.every(7), looks=3),
    kb.active(1),
]


@functools.cache
def get_compiled_trials(policy):
    return compile_trials(TRIAL_POLICIES[policy])


@pytest.mark.parametrize("policy", TRIAL_POLICIES)
def test_certified_blocks_are_played_as_certified(policy):
    """Check that no certificate fails, for rewards with and without noise.

    The number of blocks is large enough to detect certificates that fail at a rate of 1e-4.
    """
    play = get_compiled_trials(policy)
    problems = (kb.gaussian(EQUAL_MEANS), kb.bernoulli([0.5] * 4), kb.gaussian(EQUAL_MEANS, sd=0.0))
    counts_by_case = [
        play_trials(play, TRIAL_POLICIES[policy], problem, feedback, 3000, seed=seed)
        for seed, (problem, feedback) in enumerate((p, f) for p in problems for f in TRIAL_FEEDBACKS)
    ]
    assert sum(trial_counts[BROKEN_BLOCKS] for trial_counts in counts_by_case) == 0
    assert (
        sum(trial_counts[BLOCKS] for trial_counts in counts_by_case) > 10_000
    )  # for each of the six policies
    assert all(trial_counts[BLOCKS] > 50 for trial_counts in counts_by_case)


@pytest.mark.parametrize("policy", TRIAL_POLICIES)
def test_loose_certificates_fail_no_more_often_than_allowed(policy):
    """Check the rate of failures if each bound may fail with probability e^-3.

    A certificate relies on 2K + 2 = 10 bounds for K = 4 arms.
    """
    play, max_failure_rate = get_compiled_trials(policy), 10 * math.exp(-3)
    for history in (
        ANY_HISTORY,
        ANY_HISTORY._replace(spread=0.1),
        ANY_HISTORY._replace(spread=30.0, max_pulls=100.0),
    ):
        for feedback in TRIAL_FEEDBACKS:
            trial_counts = play_trials(
                play,
                TRIAL_POLICIES[policy],
                kb.gaussian(EQUAL_MEANS),
                feedback,
                500,
                history,
                neg_log_p=3.0,
            )
            assert trial_counts[BROKEN_BLOCKS] <= max_failure_rate * trial_counts[BLOCKS]


ATTACKS = {  # means, sds, the arm with the narrow margin, the sign of the margin, feedback
    "pull": ([0, 0], [1, 0], 0, 1, kb.bandit()),
    "pull, looked at": ([0, 0], [1, 0], 0, 1, kb.passive(1, [1, 0])),
    "rival": ([0, 0], [0, 1], 1, -1, kb.passive(1, [0, 1])),
    "rival, by choice": ([0, 0], [0, 1], 1, -1, kb.active(1)),
    "look": ([1e4, 0, 0], [0, 1, 0], 1, 1, kb.active(1)),
}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("neg_log_p", [4.0, 5.0])
def test_tight_certificates_fail_nearly_as_often_as_allowed(attack, neg_log_p):
    """Check certificates where one arm leads or trails by a little less than z sqrt(n).

    The reflection principle is sharp at this margin. The certificates fail nearly as often as the
    allowed probability exp(-neg_log_p), but not more often. The probability of a false alarm is 1e-4
    over all cases. The test would detect a quantile that is a tenth too small.
    """
    means, sds, narrow_arm, sign, feedback = ATTACKS[attack]
    z = float(stats.norm.isf(math.exp(-neg_log_p) / 2))
    # The arm gets one observation per stage, or two if it is both pulled and looked at.
    lead = sign * z * math.sqrt(2 if attack == "pull, looked at" else 1)
    trial_counts = play_trials(
        get_compiled_trials("ftl"),
        TRIAL_POLICIES["ftl"],
        kb.gaussian(means, sds),
        feedback,
        40_000,
        HistoryParams(1.0, 100.0, narrow_arm, lead),
        neg_log_p=neg_log_p,
    )
    assert trial_counts[BLOCKS] > 30_000
    assert (
        stats.binom.sf(trial_counts[BROKEN_BLOCKS] - 1, trial_counts[BLOCKS], math.exp(-neg_log_p))
        > FALSE_ALARM_PROBABILITY / 10
    )
    assert trial_counts[BROKEN_BLOCKS] > 0.2 * math.exp(-neg_log_p) * trial_counts[BLOCKS]


# ---------------------------------------------------------------------------------- whole runs

FOUR_ARMS = kb.gaussian([2, 1.8, 0.5, 0.2])


def simulate_leaps(problem, feedback, policy, horizon, runs=4, **options):
    options = {"seed": 1, "engine": "leap", **options}
    data = kb.simulate(problem, feedback, policy, horizon=horizon, runs=runs, **options)
    return data.isel(policy=0)


def check_counts_add_up(data, problem, horizon, paid=False):
    """Check that counts and regret add up exactly at every recorded stage."""
    assert (data.n_pulls.sum("arm") == horizon).all()
    assert (data.n_pulls >= (1 if horizon >= problem.n_arms else 0)).all()
    assert (data.n_looks >= 0).all()
    n_counted = data.n_pulls + data.n_looks if paid else data.n_pulls
    expected = (n_counted.values * problem.gaps).sum(axis=-1)
    np.testing.assert_allclose(data.final_regret, expected, rtol=1e-12, atol=1e-9)
    np.testing.assert_array_equal(data.regret[:, -1], data.final_regret)
    assert np.isfinite(data.regret).all()
    assert (np.diff(data.regret, axis=-1) >= -1e-6).all()
    assert ((data.error >= 0) & (data.error <= 1e-9)).all()


@pytest.mark.parametrize("horizon", [10**12, 10**15, 2**61])
def test_counts_add_up_at_huge_horizons(horizon):
    for feedback in (kb.bandit(), kb.passive(0.1), kb.active(kb.every(10))):
        if feedback.observer == "bandit" and horizon > 10**15:
            continue  # leads are below the precision of a float; see docs/leap.md
        data = simulate_leaps(FOUR_ARMS, feedback, kb.ucb(), horizon, runs=2)
        check_counts_add_up(data, FOUR_ARMS, horizon)
        assert (data.error > 0).all()
        if feedback.observer == "active":
            assert (data.n_looks.sum("arm") == horizon // 10).all()
        if feedback.observer == "passive":  # the limits are more than four standard deviations
            n_excess_looks = data.n_looks.sum("arm") - horizon / 10
            assert (abs(n_excess_looks) < 6 * math.sqrt(0.09 * horizon)).all()
            shares = data.n_looks / data.n_looks.sum("arm")
            assert (abs(shares - 0.25) < 6 / math.sqrt(0.1 * horizon) + 1e-15).all()


@pytest.mark.parametrize("horizon", [1, 2, 4, 5, 10, 127, 128, 129, 300])
def test_short_horizons_are_played_stage_by_stage(horizon):
    for feedback in (kb.bandit(), kb.active(0.5)):
        data = simulate_leaps(FOUR_ARMS, feedback, kb.ucb(), horizon, runs=3)
        check_counts_add_up(data, FOUR_ARMS, horizon)
        if not data.error.any():
            stepped_data = simulate_leaps(
                FOUR_ARMS, feedback, kb.ucb(), horizon, runs=3, engine="step"
            )
            np.testing.assert_array_equal(data.n_pulls, stepped_data.n_pulls)


ODD_PROBLEMS = {
    "tiny gap": (kb.gaussian([0, 1e-9]), kb.passive(0.1)),
    "tied": (kb.gaussian([1, 1]), kb.passive(0.1)),
    "tied without noise": (kb.gaussian([1, 1, 0], sd=0), kb.active(0.1)),
    "all tied at zero": (kb.gaussian([0, 0, 0], sd=0), kb.bandit()),
    "huge gap": (kb.gaussian([1e9, -1e9]), kb.active(0.1)),
    "one noisy arm": (kb.gaussian([1, 0.5, 0], sd=[0, 100, 0]), kb.passive(0.2, [0, 0.5, 0.5])),
    "certain rewards": (kb.bernoulli([1, 0]), kb.active(0.1)),
    "rarest rewards": (kb.bernoulli([1e-3, 0, 1e-12]), kb.passive(0.1)),
    "all ones": (kb.bernoulli([1, 1]), kb.bandit()),
    "rate 0": (FOUR_ARMS, kb.passive(0)),
    "rate 1e-6": (FOUR_ARMS, kb.active(1e-6)),
    "rate 1": (FOUR_ARMS, kb.active(1)),
    "always, passive": (FOUR_ARMS, kb.passive(1.0, [0.25, 0.25, 0.25, 0.25 - 1e-10])),
    "two looks in turn": (FOUR_ARMS, kb.passive(kb.every(3), "suboptimal", looks=2)),
    "first look after the end": (FOUR_ARMS, kb.active(kb.every(5, first=10**9))),
}


@pytest.mark.parametrize("problem_name", ODD_PROBLEMS)
def test_counts_add_up_for_odd_problems(problem_name):
    problem, feedback = ODD_PROBLEMS[problem_name]
    for policy in (kb.ucb(), kb.ftl_robin()):
        data = simulate_leaps(problem, feedback, policy, 50_000, runs=3)
        check_counts_add_up(data, problem, 50_000)
        n_looks = data.n_looks.sum("arm")
        if problem_name in {"rate 1", "always, passive"}:
            assert (n_looks == 50_000).all()
        if problem_name == "two looks in turn":
            assert (n_looks == 2 * (50_000 // 3)).all()
        if problem_name in {"rate 0", "first look after the end", "all ones", "all tied at zero"}:
            assert (n_looks == 0).all()


def test_counts_add_up_with_500_arms():
    problem = kb.gaussian(np.r_[2, np.linspace(1, 0, 499)])
    data = simulate_leaps(problem, kb.passive(0.5), kb.ucb(), 10**10, runs=2)
    check_counts_add_up(data, problem, 10**10)
    assert (data.error > 0).all()


def test_no_look_is_lost_where_weights_do_not_quite_sum_to_one():
    weights = np.array([0.1, 0.2, 0.3, 0.4]) * (1 - 5e-10)
    data = simulate_leaps(FOUR_ARMS, kb.passive(kb.every(2), weights), kb.ftl(), 10**12, runs=3)
    assert (data.n_looks.sum("arm") == 5 * 10**11).all()
    shares = data.n_looks.values / (5 * 10**11)
    assert np.all(abs(shares - weights / weights.sum()) < 6 / math.sqrt(5e11))


def test_a_run_depends_on_seed_and_run_only():
    setting = {"problem": FOUR_ARMS, "feedback": kb.active(0.1), "policy": kb.ucb(), "horizon": 10**6}
    data_of_all_runs = simulate_leaps(**setting, runs=5, threads=2)
    for other_data in (
        simulate_leaps(**setting, runs=5, threads=1),
        simulate_leaps(**setting, runs=5, stages=[10, 5000, 77_777]),
        simulate_leaps(**setting, runs=3).isel(run=slice(0, 3)),
    ):
        n = other_data.sizes["run"]
        np.testing.assert_array_equal(other_data.n_pulls, data_of_all_runs.n_pulls[:n])
        np.testing.assert_array_equal(other_data.n_looks, data_of_all_runs.n_looks[:n])
        np.testing.assert_array_equal(other_data.error, data_of_all_runs.error[:n])
    assert not np.array_equal(
        simulate_leaps(**setting, runs=5, seed=2).n_pulls, data_of_all_runs.n_pulls
    )


def test_the_curve_does_not_depend_on_the_recorded_stages():
    setting = {
        "problem": FOUR_ARMS,
        "feedback": kb.passive(0.1),
        "policy": kb.ucb(1.0),
        "horizon": 10**7,
    }
    fine_data = simulate_leaps(**setting, stages=np.arange(1, 20_001))
    coarse_data = simulate_leaps(**setting, stages=[17, 1000, 19_999])
    common_stages = [17, 1000, 19_999, 10**7]
    np.testing.assert_array_equal(
        fine_data.regret.sel(stage=common_stages), coarse_data.regret.sel(stage=common_stages)
    )
    increments = np.diff(fine_data.regret.sel(stage=slice(1, 20_000)), axis=-1)
    gaps = np.unique(FOUR_ARMS.gaps)
    assert np.all(np.abs(increments[..., None] - gaps).min(axis=-1) < 1e-9)  # each stage adds a gap


def test_paid_looks_are_counted_at_each_stage():
    stages = [100, 5000, 10**5, 10**6]
    feedback = kb.active(0.1, paid=True)
    data = simulate_leaps(FOUR_ARMS, feedback, kb.ucb(), 10**6, stages=stages)
    check_counts_add_up(data, FOUR_ARMS, 10**6, paid=True)
    free_data = simulate_leaps(
        FOUR_ARMS, kb.active(0.1), kb.ucb(), 10**5, runs=200, stages=[100, 5000]
    )
    data_of_engines = [
        simulate_leaps(FOUR_ARMS, feedback, kb.ucb(), 10**5, runs=200, engine=engine)
        for engine in ("leap", "step")
    ]
    assert float(data_of_engines[0].final_regret.mean()) > float(free_data.final_regret.mean())
    leap_regrets, step_regrets = (
        data.regret.isel(stage=slice(-60, None, 15)).values for data in data_of_engines
    )
    for column in range(leap_regrets.shape[1]):
        assert (
            stats.ks_2samp(leap_regrets[:, column], step_regrets[:, column], method="asymp").pvalue
            > FALSE_ALARM_PROBABILITY / 4
        )


def test_the_price_of_each_look_is_in_the_curve():
    """Check the regret of paid looks for gaps so large that the regret is deterministic.

    After one pull of each arm, all pulls go to arm 0. Looks go to the arms in turn.
    """
    problem = kb.gaussian([10, 0, 0], sd=0.1)
    stages = np.unique(np.geomspace(3, 10**6, 300).astype(int))
    data = simulate_leaps(
        problem, kb.active(kb.every(7), paid=True), kb.ftl_robin(), 10**6, stages=stages
    )
    n_looks = stages // 7
    n_looks_at_other_arms = n_looks - (n_looks + 2) // 3
    assert (data.error > 0).all()
    np.testing.assert_allclose(
        data.regret, np.tile(20 + 10 * n_looks_at_other_arms, (4, 1)), rtol=1e-12
    )


def test_looks_in_turn_are_reported_in_turn():
    """The numbers of looks of FTL-robin at any two arms differ by at most one."""
    for problem in (FOUR_ARMS, kb.gaussian([1, 0, -1])):
        for horizon in (10_000, 10**6 + 7):
            data = simulate_leaps(problem, kb.active(kb.every(3)), kb.ftl_robin(), horizon)
            n, k = horizon // 3, problem.n_arms
            expected = [n // k + (arm < n % k) for arm in range(k)]
            assert (data.n_looks == expected).all()


@pytest.mark.parametrize("rate", [0.0, 0.02])
def test_a_leap_ends_with_the_hold_of_the_pulled_arm(rate):
    """Arm 1 has the largest index. It is pulled, and held for 99 more observations."""
    policy = kb.kibitzer()
    params, state, stage = policy.params, policy.init(policy.params, 3), 10**12
    for arm, n, mean in ((0, 10**12 - 2000, 0.0), (1, 1000, -0.095), (2, 1000, -0.6)):
        state = policy.update(params, state, stage, arm, n, n * mean, False)
    state = policy.update(params, state, stage, 1, 1, -0.095, True)
    assert policy.hold(params, state) == (1, 0, 99)
    assert policy.pull(params, state, stage, None) == 1
    propose, _ = make_leap_functions(
        get_statistics_index(policy), policy.update, None, policy.hold, policy.looks_due
    )
    arms = make_arms(kb.gaussian([0, -0.095, -0.6]), 1.0)
    looks = make_looks(kb.active(0.02), np.array([0, 0.095, 0.6]), 2 * stage)
    graph = make_graph(None, 3)
    arrival = NEVER if rate == 0 else stage + 10
    longest_leap = 0
    for seed in range(20):
        certificate = new_certificate(3, 0.5, 8)  # a large error allows long leaps
        certificate.leap_state[0]["last_length"] = 100
        rng = np.random.default_rng(seed)
        view = policy.view(params, state, stage)
        n, n_arrivals = propose(
            params,
            state,
            view,
            arms,
            looks,
            stage,
            2 * stage,
            arrival,
            1,
            -1,
            graph,
            rng,
            certificate,
        )
        longest_leap = max(longest_leap, n)
        assert n_arrivals == 0 or n + n_arrivals <= 99
    assert longest_leap > (99 if rate == 0 else 20)


def test_the_number_of_certificates_grows_slowly():
    """The number of certificates grows at most like (log T)^3 and stays below 2^20 here."""
    for policy, feedback in ((kb.ucb(), kb.passive(0.1)), (kb.ucb(), kb.bandit())):
        mean_errors = [
            float(simulate_leaps(FOUR_ARMS, feedback, policy, T).error.mean())
            for T in (10**6, 10**9, 10**12)
        ]
        assert mean_errors[0] > 0
        if feedback.observer == "passive":
            assert mean_errors[2] < 2 * mean_errors[0]
        assert mean_errors[2] < mean_errors[1] * (12 / 9) ** 3 * 2
        assert mean_errors[2] < 0.25e-9


def test_policies_that_cannot_leap_are_played_stage_by_stage():
    for policy, feedback in (
        (kb.thompson(), kb.passive(0.1)),
        (kb.ucb2(), kb.bandit()),
        (kb.ucb(), kb.full()),
        (kb.ucb(), kb.passive(np.full(2000, 0.1))),
    ):
        data = simulate_leaps(FOUR_ARMS, feedback, policy, 2000)
        assert not data.error.any()
    assert not can_leap(kb.ucb(), kb.empirical([[0, 1], [1, 2]]), kb.bandit())
    assert can_leap(kb.ucb(), FOUR_ARMS, kb.passive(0.1, [0.1, 0.2, 0.3, 0.4]))


@pytest.mark.parametrize("error", [1e-12, 1e-6, 1e-3])
def test_the_error_stays_below_the_limit(error):
    data = simulate_leaps(FOUR_ARMS, kb.active(0.1), kb.ucb(), 10**7, error=error)
    assert ((data.error > 0) & (data.error <= error)).all()


@pytest.mark.parametrize("means", [[1, 0.5], [0.5, 0], [1, 0], [0, 0, 0.5], [1, 1, 0]])
def test_deterministic_rewards_do_not_deviate(means):
    """The sum of an arm with mean 0 or 1 does not deviate, so blocks can be long."""
    problem = kb.bernoulli(means)
    arms = make_arms(problem, 1.0)
    for arm, mean in enumerate(means):
        assert (deviation_bound(arms, arm, 100, 40.0, 9.0) == 0) == (mean in {0, 1})
    setting = {"horizon": 10**12, "runs": 2, "seed": 1, "engine": "leap"}
    data = kb.simulate(problem, kb.bandit(), kb.kl_ucb(rewards="bernoulli"), **setting)
    n_certificates = data.error.values / (1e-9 / 2**21)
    # A run needs few certificates; stage by stage it would take days.
    assert np.all((n_certificates >= 1) & (n_certificates < 10_000))
