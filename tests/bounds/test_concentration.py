"""Tests of the concentration inequalities against exact binomials, mpmath and simulated walks."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.special import gammaln
from scipy.stats import binom, norm

from kibitz.bounds import concentration

no_deadline = settings(deadline=None)  # a busy machine may exceed the deadline

# Averages of random walks. The seeds are fixed. With a random seed, a test "frequency ≤ bound" of a
# correct bound would fail with probability far below 1e-6: the bounds are at least 1.7 times the
# probabilities, and the difference is more than 10 standard errors at these numbers of runs.


def compute_crossing_share(radius, horizon, n_runs, seed, step_law="normal"):
    """Return the share of walks whose average of t steps reaches radius(t) for some t ≤ horizon."""
    rng = np.random.default_rng(seed)
    t = np.arange(1, horizon + 1)
    limits = t * radius(t)
    n_crossed = 0
    for _ in range(n_runs // 500):
        if step_law == "normal":
            steps = rng.standard_normal((500, horizon))
        else:
            steps = rng.choice([-1.0, 1.0], (500, horizon))
        n_crossed += (steps.cumsum(axis=1) >= limits).any(axis=1).sum()
    return n_crossed / n_runs


# The block inequality


@given(st.floats(1.0, 1e12))
@no_deadline
def test_phi_is_the_paper_s_and_close_to_one_for_short_blocks(x):
    value = concentration.phi(x)
    assert value == pytest.approx((1 + x + 2 * math.sqrt(x)) / (4 * math.sqrt(x)), rel=1e-12)
    assert 1 - (x - 1) ** 2 / 16 - 1e-12 <= 1 / value <= 1 + 1e-12


def test_the_block_inequality_holds_on_simulated_walks():
    """D24: the inequality holds with β = φ log(1/δ).

    The paper prints a quarter of this β. With the printed β, walks leave the radius far too often.
    """
    start, stop, delta = 100, 400, 0.05

    def radius(t, share=1.0):
        is_in_block = (t >= start) & (t <= stop)
        return np.where(
            is_in_block,
            math.sqrt(share)
            * concentration.block_radius(np.clip(t, start, stop), start, stop, delta),
            math.inf,
        )

    assert compute_crossing_share(radius, stop, 10_000, seed=1) <= delta
    assert compute_crossing_share(lambda t: radius(t, 0.25), stop, 10_000, seed=1) > 4 * delta


def test_a_block_of_one_stage_gives_hoeffdings_inequality():
    assert concentration.block_radius(50, 50, 50, 0.01, sd=2.0) == pytest.approx(
        2 * math.sqrt(2 / 50 * math.log(100))
    )


def test_longer_blocks_cost_a_factor_phi():
    assert concentration.phi(4) == 1.125
    assert concentration.block_radius(200, 100, 400, 0.05) == pytest.approx(
        math.sqrt(2 / 200 * 1.125 * math.log(20))
    )


# The maximal inequality


def test_maximal_radius_is_the_paper_s():
    assert concentration.maximal_radius(50, 2000, 0.05, sd=3.0) == pytest.approx(
        math.sqrt(2 * 9 / 50 * math.log(2000 / (0.05 * 50)))
    )


@pytest.mark.parametrize("step_law", ["normal", "sign"])
@pytest.mark.parametrize("delta", [0.05, 0.2])
def test_the_maximal_inequality_holds_on_simulated_walks(step_law, delta):
    horizon = 1000
    rate = compute_crossing_share(
        lambda t: concentration.maximal_radius(t, horizon, delta), horizon, 10_000, 2, step_law
    )
    bound = concentration.maximal(delta, horizon)
    assert (
        rate <= bound <= concentration.maximal(delta) <= concentration.maximal(delta, form="printed")
    )
    assert bound < 4 * rate  # the printed bound is 17 times the frequency at δ = 0.05


def test_the_maximal_inequality_is_exact_for_one_observation():
    """Check that the bound for T = 1 is δ, and that it holds.

    A single observation exceeds its radius √(2 log(1/δ)) with probability at most δ.
    """
    for delta in (1e-6, 0.1, 0.5):
        assert concentration.maximal(delta, 1) == pytest.approx(delta, rel=1e-9)
        assert norm.sf(concentration.maximal_radius(1, 1, delta)) <= delta


@given(st.floats(1e-300, 0.999), st.integers(1, 10**15))
@no_deadline
def test_peeling_is_a_probability_that_grows_with_delta_and_the_horizon(delta, horizon):
    bound = concentration.maximal(delta, horizon)
    assert delta * (1 - 1e-9) <= bound <= 1
    assert bound <= concentration.maximal(delta) * (1 + 1e-9)
    assert bound <= concentration.maximal(min(0.9999, delta * 1.1), horizon) * (1 + 1e-9)
    assert bound <= concentration.maximal(delta, form="printed")


def sum_over_blocks(delta, horizon, ratio, n_blocks):
    """Return the sum, over blocks of time, of bounds on the probability that a walk crosses a chord.

    Each chord joins the boundary at both ends of a block. The ends of the blocks decrease from the
    horizon by factors of `ratio`, at most down to 1.
    """

    def height(t):
        return math.sqrt(2 * t * (math.log(horizon / t) - math.log(delta)))

    total_bound, stop = 0.0, horizon
    for _ in range(n_blocks):
        start = max(1.0, stop / ratio)
        slope = (height(stop) - height(start)) / (stop - start)
        total_bound += math.exp(-2 * slope * (height(start) - slope * start))
        stop = start
        if stop <= 1:
            break
    return total_bound


def test_peeling_is_a_sum_over_chords():
    smallest_sum = min(
        sum_over_blocks(0.01, 5000.0, 1 + x, 10**4) for x in np.geomspace(0.02, 10.0, 60)
    )
    assert concentration.maximal(0.01, 5000) == pytest.approx(smallest_sum, rel=1e-9)


@pytest.mark.parametrize("delta", [0.2, 1e-3, 1e-30, 1e-300])
def test_peeling_covers_the_times_below_its_last_block(delta):
    """Compare the bound for all T with a sum over 3000 blocks, minimised over the block ratio.

    The bound is never below this sum and at most 0.01 % above it.
    """
    ratios = 1 + np.geomspace(0.02, 10.0, 60)
    smallest_sum = min(sum_over_blocks(delta, 1e25, ratio, 3000) for ratio in ratios)
    assert smallest_sum * (1 - 1e-9) <= concentration.maximal(delta) <= smallest_sum * (1 + 1e-4)


def test_the_printed_maximal_inequality_and_its_proof():
    """D24: the printed 6δ√log(1/δ) holds for δ ≤ 0.2 and is below 1 only for δ < 0.11283."""
    assert concentration.maximal(0.05, form="printed") == pytest.approx(
        6 * 0.05 * math.sqrt(math.log(20))
    )
    assert concentration.maximal(0.11282, form="printed") < 1
    assert concentration.maximal(0.11284, form="printed") == 1
    # the step (δγ²)^q/(γ^q − 1) ≤ δ^q 10/η of the proof, for η ≤ 2.4, γ = 1 + η, q = 1 − η²/16
    eta = np.linspace(1e-3, 2.4, 5000)
    exponent = 1 - eta**2 / 16
    assert ((1 + eta) ** (2 * exponent) * eta / ((1 + eta) ** exponent - 1)).max() < 10
    eta = math.sqrt(8 / math.log(1 / np.float64(0.2)))
    assert eta < 2.4
    assert 5 * math.sqrt(math.e / 2) < 6
    assert 10 / math.sqrt(8) * math.exp(0.5) == pytest.approx(5 * math.sqrt(math.e / 2))


def test_the_asymptotic_constant_is_reached_from_above():
    """Check that the bound for all T, divided by δ√log(1/δ), decreases to √(e/8) as δ tends to 0."""
    ratios = [
        concentration.maximal(d) / concentration.maximal(d, form="leading")
        for d in (1e-3, 1e-10, 1e-100, 1e-300)
    ]
    assert ratios == sorted(ratios, reverse=True)
    assert 1 < ratios[-1] < 1.01


def test_for_a_fixed_horizon_the_ratio_vanishes():
    """D46: for T = 1, P(Z ≥ √(2 log(1/δ)))/(δ√log(1/δ)) tends to 0 as δ tends to 0.

    Z is a standard normal variable. For T = 1, the walk is Z, so this probability is exact.
    """
    deltas = np.array([1e-3, 1e-30, 1e-300])
    exact_tail = norm.sf(np.sqrt(2 * np.log(1 / deltas)))
    ratios = exact_tail / concentration.maximal(deltas, form="leading")
    assert (np.diff(ratios) < 0).all()
    assert ratios[-1] < 1e-3


# Binary tails


@pytest.mark.parametrize("p", [0.01, 0.3, 0.5, 0.7, 0.9, 1.0])
def test_binary_tails_bound_exact_binomials(p):
    for n, alpha in itertools.product([1, 10, 200, 1000], np.linspace(0, 1, 41)):
        exact_tail = binom.cdf(math.floor(n * p - n * alpha + 1e-9), n, p)
        assert exact_tail <= concentration.binary_tail(n, p, alpha) * (1 + 1e-9)
        if p <= 0.5:
            assert exact_tail <= concentration.binary_tail_variance(n, p, alpha) * (1 + 1e-9)


def test_binary_tails_of_unequal_means():
    means = np.array([0.9, 0.8, 0.5, 0.2, 0.9, 0.7, 0.95, 0.3])
    probabilities = np.ones(1)
    for mean in means:
        probabilities = np.convolve(probabilities, [1 - mean, mean])
    for k in range(9):
        alpha = max(0.0, means.mean() - k / 8)
        assert probabilities[: k + 1].sum() <= concentration.binary_tail(8, means.mean(), alpha) + (
            alpha == 0
        )


def test_kl_tail_is_exact_for_zero_successes():
    assert concentration.binary_tail(7, 0.3, 0.3) == pytest.approx(0.7**7)
    assert concentration.binary_tail(7, 0.3, 0.31) == 0.0


def test_the_tail_by_variance_is_gaussian():
    assert concentration.binary_tail_variance(100, 0.2, 0.1) == pytest.approx(math.exp(-1 / 0.32))


def test_the_printed_binary_tail_is_false_for_likely_successes():
    """D18: the counterexample is n = 200, p = 0.9, α = 0.1."""
    exact_tail = binom.cdf(160, 200, 0.9)
    assert exact_tail == pytest.approx(1.7e-5, rel=0.05)
    printed_bound = concentration.binary_tail(200, 0.9, 0.1, form="printed")
    assert printed_bound == pytest.approx(7.1e-10, rel=0.01)
    assert printed_bound < exact_tail <= concentration.binary_tail(200, 0.9, 0.1)
    # for p = 1/2 the printed and the correct bound agree
    assert concentration.binary_tail(9, 0.5, 0.2, form="printed") == pytest.approx(
        concentration.binary_tail(9, 0.5, 0.2)
    )


@pytest.mark.parametrize("u", [None, 1, 4, 12])
def test_chung_and_lu_bound_weighted_sums(u):
    """Compare the bound with exact tails of a weighted sum of 12 binary variables (2¹² outcomes)."""
    rng = np.random.default_rng(3)
    weights, means = rng.uniform(0, 2, 12), rng.uniform(0.05, 0.6, 12)
    outcomes = np.array(list(itertools.product([0, 1], repeat=12)))
    probabilities = np.where(outcomes, means, 1 - means).prod(axis=1)
    weighted_sums = outcomes @ weights
    variance = (weights**2 * means * (1 - means)).sum()
    excesses = weights * (1 - means)
    for alpha in np.linspace(0.05, 12, 60):
        exact_tail = probabilities[weighted_sums >= weights @ means + alpha].sum()
        bound = concentration.chung_lu_tail(alpha, variance, excesses, u)
        assert exact_tail <= bound
        m = np.sort(excesses)
        expected_bounds = [
            math.exp(-(alpha**2) / (2 * (variance + ((m[v:] - m[v]) ** 2).sum() + m[v] * alpha / 3)))
            for v in range(12)
        ]
        assert bound == pytest.approx(min(expected_bounds) if u is None else expected_bounds[u - 1])


def test_a_sum_of_constants_does_not_exceed_its_mean():
    assert concentration.chung_lu_tail(0.5, 0.0, [0.0, 0.0]) == 0.0


@pytest.mark.parametrize("p", [1e-3, 0.05, 0.5, 0.95, 1.0])
def test_few_looks_are_rarer_than_one_over_the_square_of_the_stage(p):
    """Check the lemma "binary_concentration_t2" with exact binomials.

    The lemma bounds the probability of few looks up to stage t by t^{−2}. Even t^{−5/2} is a bound.
    """
    t = np.unique(np.geomspace(1, 10**6, 300).astype(int))
    assert (binom.cdf(np.floor(p * t - np.sqrt(5 * p * t * np.log(t))), t, p) <= t**-2.5).all()
    for n in (t - 1, t):  # number of stages at which looks can arrive
        too_few_looks = np.ceil(concentration.seen_floor(p * n, t)) - 1
        assert (binom.cdf(too_few_looks, n, p) <= t**-2.5).all()


def test_few_looks_are_rare_if_the_rate_changes_too():
    """Check the inequality behind `ucb_schedule` with exact probabilities and a changing rate."""
    rates = np.minimum(1.0, 6 / np.arange(1, 401))
    probabilities = np.ones(1)
    for t, rate in enumerate(rates, start=1):
        probabilities = np.convolve(probabilities, [1 - rate, rate])
        too_few_looks = math.ceil(concentration.seen_floor(rates[:t].sum(), t))
        assert probabilities[:too_few_looks].sum() <= t**-2.5 * (1 + 1e-9)


# Lambert's W function


def test_w_lies_between_its_bounds():
    for x in [math.e, 3.0, 10.0, 1e3, 1e15, 1e300]:
        lower_bound, upper_bound = concentration.lambert_bounds(x)
        with mpmath.workdps(30):
            exact_w = float(mpmath.lambertw(mpmath.mpf(x)).real)
        assert lower_bound - 1e-12 <= exact_w <= upper_bound + 1e-12
        assert upper_bound - lower_bound == pytest.approx(
            (math.e / (math.e - 1) - 0.5) * math.log(math.log(x)) / math.log(x), rel=1e-9, abs=1e-15
        )


def test_the_lower_branch_lies_between_its_bounds():
    for u in np.geomspace(1e-3, 600, 40):
        lower_bound, upper_bound = concentration.lambert_lower_branch_bounds(u)
        with mpmath.workdps(30):
            exact_w = float(mpmath.lambertw(-mpmath.exp(-mpmath.mpf(u) - 1), -1).real)
        assert lower_bound < exact_w < upper_bound


@given(st.floats(1e-12, 1e12), st.floats(-0.5, 0.5))
@no_deadline
def test_x_is_small_if_and_only_if_its_log_ratio_is_large(a, log_shift):
    largest_x = concentration.log_ratio_inverse(a)
    with mpmath.workdps(40):
        exact_x = mpmath.lambertw(mpmath.mpf(a)).real / mpmath.mpf(a)
        assert largest_x == pytest.approx(float(exact_x), rel=1e-12)
        x = exact_x * mpmath.exp(log_shift)
        if abs(log_shift) > 1e-6:
            assert (mpmath.log(1 / x) / x >= a) == (log_shift < 0)


@pytest.mark.parametrize("a", [2.72, 3.0, 20.0, 1e4, 1e15, 1e200])
def test_stage_ratio_inverse_is_the_largest_stage_of_small_ratio(a):
    with mpmath.workdps(60):
        exact_stage = float(-a * mpmath.lambertw(-1 / mpmath.mpf(a), -1).real)
    t = concentration.stage_ratio_inverse(a)
    assert t == pytest.approx(exact_stage, rel=1e-7 if a < 2.8 else 1e-12)
    assert t / math.log(t) == pytest.approx(a, rel=1e-6)
    assert 1.001 * t / math.log(1.001 * t) > a
    tight_bound = a * (math.log(a) + math.sqrt(2 * math.log(a)))
    assert t <= tight_bound <= concentration.stage_ratio_inverse(a, form="printed") * (1 + 1e-12)


def test_the_paper_s_lambert_step_starts_at_e():
    assert concentration.stage_ratio_inverse(math.e) == pytest.approx(math.e, rel=1e-6)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: concentration.phi(0.5), "x"),
        (lambda: concentration.maximal(0.0), "delta"),
        (lambda: concentration.maximal(math.nan), "delta"),
        (lambda: concentration.maximal(0.1, 0.5), "horizon"),
        (lambda: concentration.maximal(0.1, form="exact"), "form"),
        (lambda: concentration.maximal_radius(11, 10, 0.1), "t"),
        (lambda: concentration.block_radius(11, 1, 10, 0.1), "t"),
        (lambda: concentration.block_radius(5, 1, 10, 0.1, sd=0.0), "sd"),
        (lambda: concentration.binary_tail(10, 1.1, 0.1), "p"),
        (lambda: concentration.binary_tail(10, 0.5, -0.1), "deviation"),
        (lambda: concentration.binary_tail(0, 0.5, 0.1), "n"),
        (lambda: concentration.binary_tail_variance(10, 0.6, 0.1), "p"),
        (lambda: concentration.chung_lu_tail(1.0, -1.0, [1.0]), "variance"),
        (lambda: concentration.chung_lu_tail(1.0, 1.0, []), "excesses"),
        (lambda: concentration.chung_lu_tail(1.0, 1.0, [1.0], u=2), "u"),
        (lambda: concentration.seen_floor(-1.0, 2), "expected"),
        (lambda: concentration.seen_floor(1.0, 0), "stage"),
        (lambda: concentration.lambert_bounds(2.0), "x"),
        (lambda: concentration.lambert_lower_branch_bounds(0.0), "u"),
        (lambda: concentration.log_ratio_inverse(0.0), "a"),
        (lambda: concentration.stage_ratio_inverse(2.0), "a"),
    ],
)
def test_errors_name_the_argument(call, name):
    with pytest.raises(ValueError, match=f"^{name} must be"):
        call()


@pytest.mark.parametrize("shares", [[0.5, 0.5], [0.2, 0.3, 0.5]])
def test_sample_ratio_evidence_is_a_martingale(shares):
    """Check that the mean of the evidence E after one more visitor is E, for all small counts."""

    def compute_evidence(counts):
        n, k = sum(counts), len(counts)
        product = math.prod(math.factorial(c) / p**c for c, p in zip(counts, shares, strict=True))
        return math.factorial(k - 1) * product / math.factorial(k - 1 + n)

    assert compute_evidence([0] * len(shares)) == 1
    for counts in itertools.product(range(5), repeat=len(shares)):
        p_value = concentration.sample_ratio_p_value(counts, shares)
        assert p_value == pytest.approx(min(1.0, 1 / compute_evidence(counts)), rel=1e-12)
        mean_after_visitor = 0.0
        for arm, share in enumerate(shares):
            mean_after_visitor += share * compute_evidence(
                [c + (k == arm) for k, c in enumerate(counts)]
            )
        assert mean_after_visitor == pytest.approx(compute_evidence(counts), rel=1e-12)


def test_sample_ratio_p_value_is_rarely_small_at_any_visitor():
    """Check that p falls to 0.05 in at most 5 % of even splits, if it is checked at each visitor.

    At most 20 of the 400 runs have an alarm on average. With a random seed, more than 40 runs have
    an alarm with probability below 10⁻⁵. Most runs detect a split of 55 to 45.
    """
    rng = np.random.default_rng(1)

    def count_alarms(share):
        first_counts = (rng.random((400, 2_000)) < share).cumsum(axis=1)
        n = np.arange(1, 2_001)
        log_evidence = (
            gammaln(1 + first_counts)
            + gammaln(1 + n - first_counts)
            - gammaln(2 + n)
            + n * math.log(2)
        )
        final_p_value = concentration.sample_ratio_p_value(
            [first_counts[0, -1], 2_000 - first_counts[0, -1]]
        )
        assert final_p_value == pytest.approx(min(1.0, math.exp(-log_evidence[0, -1])))
        return int((log_evidence.max(axis=1) >= math.log(20)).sum())

    assert count_alarms(0.5) <= 40
    assert count_alarms(0.55) > 300


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([5],), "counts must be a list of at least 2 numbers"),
        (([5, -1],), "counts must be finite and ≥ 0"),
        (([5, 6], [0.5, 0.6]), "shares must be a list of 2 numbers that sum to 1"),
        (([5, 6], [0.0, 1.0]), "shares must be positive"),
    ],
)
def test_sample_ratio_rejects_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        concentration.sample_ratio_p_value(*arguments)
