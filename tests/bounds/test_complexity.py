"""Tests of the complexity measures against their definitions."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import binom

from kibitz.bounds import complexity, concentration

no_deadline = settings(deadline=None)  # a busy machine may exceed the deadline

FOUR_GAPS = (0.0, 0.2, 1.5, 1.8)  # the gaps of the paper's first experiment
HARD_GAPS = (1e-6, 1e-6, 1e-3, 0.1, 0.5, 1.0, 1.0, 3.0, 100.0)

positive_gaps = st.one_of(st.floats(1e-6, 100.0), st.sampled_from(HARD_GAPS))
gap_lists = st.lists(positive_gaps, min_size=1, max_size=8).flatmap(
    lambda gaps: st.permutations([0.0, *gaps])
)


def normalise_gaps(gaps):
    """Return the gaps, divided by the largest gap if it exceeds 1."""
    return np.asarray(gaps) / max(1.0, max(gaps))


def sort_gaps(gaps):
    """Return the gaps in increasing order, and the arm of each sorted gap."""
    return sorted(gaps), np.argsort(gaps, kind="stable")


# Gaps and weights


def test_gaps_are_relative_to_the_best_arm():
    np.testing.assert_allclose(complexity.gaps([0.5, 2.0, 1.8, 2.0]), [1.5, 0.0, 0.2, 0.0])


@pytest.mark.parametrize(
    "means", [[], [1.0, math.nan], [math.inf, 0.0], [[1.0, 2.0]], [1e308, -1e308]]
)
def test_invalid_means_raise(means):
    with pytest.raises(ValueError, match="must be"):
        complexity.gaps(means)


def test_c_delta_sums_over_sub_optimal_arms_only():
    assert complexity.c_delta(FOUR_GAPS) == pytest.approx(5 + 1 / 1.5 + 1 / 1.8, rel=1e-15)
    assert complexity.c_delta([0.0, 0.0]) == 0.0


def test_optimal_weights_of_the_paper_s_arms():
    np.testing.assert_allclose(
        complexity.optimal_weights(FOUR_GAPS), [0, 0.8036, 0.1071, 0.0893], atol=5e-5
    )
    np.testing.assert_allclose(
        complexity.optimal_weights(FOUR_GAPS, power=2), [0, 0.9708, 0.0173, 0.0120], atol=5e-5
    )


@given(gap_lists, st.floats(0.5, 3.0))
@no_deadline
def test_optimal_weights_are_normalised_over_sub_optimal_arms(gaps, power):
    """D31: the paper prints 1/Δ and 1/Δ² as probabilities, without normalising them."""
    weights = complexity.optimal_weights(gaps, power)
    gaps = np.asarray(gaps)
    assert weights.sum() == pytest.approx(1.0)
    assert (weights[gaps == 0] == 0).all()
    products = weights[gaps > 0] * gaps[gaps > 0] ** power
    np.testing.assert_allclose(products, products[0], rtol=1e-9)


def test_optimal_weights_neither_overflow_nor_divide_by_zero():
    weights = complexity.optimal_weights([0.0, 1e-300, 1e-299, 1e300], power=2)
    np.testing.assert_allclose(weights, [0, 100 / 101, 1 / 101, 0], rtol=1e-12)
    assert (complexity.optimal_weights([0.0, 0.0]) == 0).all()


@given(gap_lists, st.integers(0, 2**32 - 1))
@no_deadline
def test_no_weights_cost_less_than_the_optimal_ones(gaps, seed):
    weights = np.random.default_rng(seed).dirichlet(np.ones(len(gaps)))
    if not (weights > 0).all():
        return
    cost = complexity.weights_cost(gaps, weights)
    is_positive = np.asarray(gaps) > 0
    optimal_weights = complexity.optimal_weights(gaps)
    inverse_gaps = 1 / np.asarray(gaps)[is_positive]
    expected_cost = (
        -(inverse_gaps * np.log(weights[is_positive])).sum()
        + (inverse_gaps * np.log(optimal_weights[is_positive])).sum()
    )
    assert cost == pytest.approx(expected_cost, rel=1e-9, abs=1e-9 * inverse_gaps.sum())
    assert cost >= -1e-12 * inverse_gaps.sum()
    assert abs(complexity.weights_cost(gaps, optimal_weights)) <= 1e-12 * inverse_gaps.sum()


def test_weights_cost_is_infinite_if_a_sub_optimal_arm_has_weight_0():
    assert complexity.weights_cost(FOUR_GAPS, [0.0, 0.5, 0.5, 0.0]) == math.inf
    assert complexity.weights_cost(FOUR_GAPS, [0.0, 0.5, 0.4, 0.1]) < math.inf
    uniform_weights = [
        0,
        1 / 3,
        1 / 3,
        1 / 3,
    ]  # costs C_Δ (log(K−1) − entropy of the optimal weights)
    optimal_weights = complexity.optimal_weights(FOUR_GAPS)[1:]
    entropy = -(optimal_weights * np.log(optimal_weights)).sum()
    expected = complexity.c_delta(FOUR_GAPS) * (math.log(3) - entropy)
    assert complexity.weights_cost(FOUR_GAPS, uniform_weights) == pytest.approx(expected)


# Hardness H and effective number of arms k


@given(gap_lists, st.sampled_from([0.5, 0.7, 1.0]))
@no_deadline
def test_hardness_is_the_paper_s_sum_over_ranks(gaps, rho):
    sorted_gaps, arm_order = sort_gaps(gaps)
    hardness = complexity.hardness(gaps, rho)[arm_order]
    arms = complexity.effective_arms(gaps, rho)[arm_order]
    for i, gap in enumerate(sorted_gaps, start=1):
        if gap == 0:
            assert hardness[i - 1] == math.inf
            assert arms[i - 1] == sorted_gaps.count(0.0)
            continue
        tail = sum(
            larger_gap ** (-2 * rho) * gap ** (-2 * (1 - rho)) for larger_gap in sorted_gaps[i:]
        )
        assert hardness[i - 1] == pytest.approx(i / gap**2 + tail, rel=1e-9)
        assert hardness[i - 1] == pytest.approx(arms[i - 1] / gap**2, rel=1e-12)


@given(gap_lists, st.floats(0.5, 1.0))
@no_deadline
def test_hardness_decreases_with_gap_and_with_rho(gaps, rho):
    _, arm_order = sort_gaps(gaps)
    hardness = complexity.hardness(gaps, rho)[arm_order]
    assert (hardness[1:] <= hardness[:-1] * (1 + 1e-12)).all()
    assert (complexity.hardness(gaps) <= complexity.hardness(gaps, rho) * (1 + 1e-12)).all()
    assert (complexity.hardness(normalise_gaps(gaps)) >= len(gaps) * (1 - 1e-12)).all()


@given(gap_lists, st.integers(1, 10), st.sampled_from([0.5, 1.0]))
@no_deadline
def test_reduced_hardness_sums_the_ranks_below_i_m(gaps, n_ranks, rho):
    """D17: the printed sum includes rank i_m, which may be K + 1, an arm that does not exist."""
    sorted_gaps, arm_order = sort_gaps(gaps)
    hardness = complexity.hardness(gaps, rho, below=n_ranks)[arm_order]
    for i, gap in enumerate(sorted_gaps, start=1):
        if gap > 0:
            larger_gaps = [sorted_gaps[j - 1] for j in range(i + 1, min(n_ranks, len(gaps) + 1))]
            larger_gaps = sum(
                larger_gap ** (-2 * rho) * gap ** (-2 * (1 - rho)) for larger_gap in larger_gaps
            )
            assert hardness[i - 1] == pytest.approx(i / gap**2 + larger_gaps, rel=1e-9)


def test_hardness_scales_as_the_inverse_square_of_the_gaps():
    gaps = np.array(FOUR_GAPS)
    np.testing.assert_allclose(
        complexity.hardness(10 * gaps)[1:], complexity.hardness(gaps)[1:] / 100
    )


@given(gap_lists, st.floats(0.5, 1.0))
@no_deadline
def test_the_ratio_of_hardnesses_is_at_most_a_double_logarithm_of_the_arms(gaps, rho):
    """D32: the bound of the lemma "ratio_H" is log(1 + log K); the paper prints 1 + log K."""
    sorted_gaps = np.sort(gaps)
    ranks = np.arange(1, sorted_gaps.size + 1)[sorted_gaps > 0]
    sorted_gaps = sorted_gaps[sorted_gaps > 0]
    ratios = complexity.hardness(np.sort(gaps), rho)[-sorted_gaps.size :] * sorted_gaps**2 / ranks
    limit = complexity.c_delta(gaps) * math.log(1 + math.log(len(gaps)))
    assert (np.log(ratios) / sorted_gaps).sum() <= limit * (1 + 1e-9)


# Thresholds


def test_rate_star_is_the_paper_s_for_equal_gaps():
    assert complexity.rate_star([0.0, 0.1, 0.1, 0.1], 10**6) == pytest.approx(4 / (10**6 * 0.01))
    np.testing.assert_allclose(
        complexity.rate_star([0.5, 0.0, 0.5], [100, 10**4]), [3 / 25, 3 / 2500], rtol=1e-12
    )


def test_thresholds_are_at_most_one():
    """D33: K/(TΔ²) exceeds 1 for a short horizon, but a rate cannot exceed 1."""
    gaps = [0.0, 0.1, 0.1]
    assert 3 / (10 * 0.01) > 1
    assert complexity.rate_star(gaps, 10) == 1.0
    assert complexity.rate_star_active(gaps, 10) == 1.0
    assert (complexity.rate_star_arms(gaps, None, 10) == 1.0).all()


def test_the_theorem_changes_regime_at_about_half_of_rate_star():
    """If all gaps are equal, `rate_star_active` is (K − 1)/(2K) times `rate_star`."""
    gaps = [0.0] + [0.1] * 199
    ratio = complexity.rate_star_active(gaps, 10**12) / complexity.rate_star(gaps, 10**12)
    assert ratio == pytest.approx(199 / 400)


def test_thresholds_of_the_arms_are_where_the_horizon_is_the_best_stage():
    weights = np.array([0.25, 0.0, 0.5, 0.25])
    rates = complexity.rate_star_arms(FOUR_GAPS, weights, [100, 10**12])
    assert rates.shape == (2, 4)
    assert (rates[:, :2] == 1.0).all()  # arm 0 is optimal, and arm 1 has weight 0
    np.testing.assert_allclose(
        1 / (2 * rates[1, 2:] * weights[2:] * np.array(FOUR_GAPS[2:]) ** 2), 1e12
    )


def test_looks_never_help_if_every_arm_is_optimal():
    assert complexity.rate_star([0.0, 0.0], 10**9) == 1.0
    assert complexity.rate_star_active([0.0, 0.0], 10**9) == 1.0
    assert (complexity.rate_star_arms([0.0, 0.0], None, 10**9) == 1.0).all()


# Epochs


def test_each_epoch_of_base_two_is_the_square_of_the_previous_epoch():
    """Check that epoch 0 has 2 stages and that each length is the square of the previous length."""
    assert [complexity.epoch_length(m) for m in range(6)] == [2, 4, 16, 256, 65536, 2**32]
    assert complexity.epoch_length(9) == 2**512
    np.testing.assert_allclose(
        complexity.epoch_log_length(range(64)), [2.0**m * math.log(2) for m in range(64)], rtol=1e-14
    )


@pytest.mark.parametrize("base", [1.2, 1.5, 2, 2.5, 3])
def test_epoch_lengths_are_powers_of_powers_rounded_up(base):
    for m in range(6):
        exact_length = mpmath.power(mpmath.mpf(base), mpmath.mpf(base) ** m)
        if exact_length < 2**50:
            assert complexity.epoch_length(m, base) == int(mpmath.ceil(exact_length))
        if exact_length > mpmath.mpf(2) ** 1000:
            continue
        expected = math.log(complexity.epoch_length(m, base))
        assert complexity.epoch_log_length(m, base) == pytest.approx(expected, rel=1e-12)


def test_epoch_length_raises_if_it_overflows_a_float():
    with pytest.raises(ValueError, match=r"^epoch 10 has a length that overflows a float"):
        complexity.epoch_length(10)
    assert complexity.epoch_log_length(10) == pytest.approx(1024 * math.log(2))


@pytest.mark.parametrize("base", [2, 3, 4])
def test_etc_horizon_keeps_the_ratio_that_the_proof_needs(base):
    """D34: the proof needs d_m/(ETC's horizon) = 1/(d log d), where d = d_{m+1}.

    Here d_m is the length of epoch m. The paper's exponent 3/2 is right only for base p = 2. For
    other p, the exponent 3/2 gives the ratio d^{1/p − 3/2}/log d, which is too large for p < 2.
    """
    for m in range(4):
        log_next = complexity.epoch_log_length(m + 1, base)
        log_ratio = complexity.epoch_log_length(m, base) - complexity.etc_log_horizon(m, base)
        assert log_ratio == pytest.approx(-log_next - math.log(log_next), rel=1e-12)
    assert complexity.etc_log_horizon(0) == pytest.approx(math.log(4**1.5 * math.log(4)))


def test_the_printed_etc_horizon_breaks_the_ratio_for_a_smaller_base():
    """D34: for p = 1.5 and m = 6, the printed horizon of ETC is too short.

    With this horizon, the product of the probability that ETC errs in epoch m and the length of the
    next epoch would grow with m.
    """
    log_d, log_next = (complexity.epoch_log_length(m, 1.5) for m in (6, 7))
    printed_log_ratio = log_d - (1.5 * log_next + math.log(log_next))
    assert printed_log_ratio > -log_next - math.log(log_next) + 0.5
    log_ratio = log_d - complexity.etc_log_horizon(6, 1.5)
    assert log_ratio == pytest.approx(-log_next - math.log(log_next), abs=1e-2)  # d is rounded up


def compute_exponent(m):
    return 2**m - m


def search_last_epoch(hardness, rate, etc_constant):
    """Return the smallest m with 2^m − m ≥ log2(10 log(2) C H/ε).

    The loop raises 2 to the power of both sides and compares the results.
    """
    target = 10 * mpmath.log(2) * etc_constant * mpmath.mpf(hardness) / mpmath.mpf(rate)
    m = 0
    while mpmath.power(2, compute_exponent(m)) < target:
        m += 1
    return m


@given(gap_lists, st.sampled_from([1e-15, 1e-6, 0.01, 0.1, 1.0]), st.sampled_from([16.0, 18.0, 32.0]))
@settings(max_examples=50, deadline=None)
def test_last_epoch_and_first_eliminated_are_inverse(gaps, rate, etc_constant):
    sorted_gaps, arm_order = sort_gaps(gaps)
    epochs = complexity.last_epoch(gaps, rate, constant=etc_constant)[arm_order]
    hardness = complexity.hardness(gaps)[arm_order]
    for gap, epoch, value in zip(sorted_gaps, epochs, hardness, strict=True):
        assert epoch == (search_last_epoch(value, rate, etc_constant) if gap > 0 else math.inf)
    for m in range(9):
        eliminated_ranks = [i for i, epoch in enumerate(epochs, start=1) if epoch <= m]
        first_rank = complexity.first_eliminated(gaps, rate, m, etc_constant)
        assert first_rank == min(eliminated_ranks, default=len(gaps) + 1)


def test_arm_is_eliminated_in_the_first_sufficient_epoch():
    """Check two constants C for which an epoch is just long enough.

    With H = 2 and ε = 1, the two constants make log2(10 log(2) C H/ε) equal to 1 = 2⁰ − 0 and
    5 = 2³ − 3, so epochs 0 and 3 are just long enough.
    """
    for power, epoch in [(0, 0), (4, 3)]:
        etc_constant = 2**power / (10 * math.log(2))
        assert complexity.last_epoch([0.0, 1.0], 1.0, constant=etc_constant)[1] == epoch
        assert complexity.first_eliminated([0.0, 1.0], 1.0, epoch, etc_constant) == 2


@pytest.mark.parametrize(
    ("horizon", "final_epoch"),
    [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (16, 2), (17, 3), (65536, 4), (65537, 5)],
)
def test_the_final_epoch_reaches_the_horizon(horizon, final_epoch):
    assert complexity.final_epoch(horizon) == final_epoch
    assert sum(complexity.epoch_length(m) for m in range(final_epoch + 1)) >= horizon
    assert complexity.last_epoch(FOUR_GAPS, 0.0, horizon)[1] == final_epoch


@given(gap_lists, st.floats(1e-9, 1.0))
@no_deadline
def test_an_arm_is_eliminated_in_an_epoch_whose_predecessor_is_short(gaps, rate):
    """D27: d_{m_i−1} ≤ −A W_{−1}(−1/A) ≤ (5/2) A log A, where A = 10 C_α H_i/ε and C_α = 32.

    Here d_m is the length of epoch m, and ETC eliminates arm i in epoch m_i. The printed bound is
    larger than (5/2) A log A, so the printed bound also holds.
    """
    gaps = normalise_gaps(gaps)
    for value in complexity.hardness(gaps)[gaps > 0]:
        a = 10 * 32 * value / rate
        log_before = 2.0 ** (search_last_epoch(value, rate, 32) - 1) * math.log(2)
        exact_stage = concentration.stage_ratio_inverse(a)
        assert log_before <= math.log(exact_stage) + 1e-9
        assert exact_stage <= concentration.stage_ratio_inverse(a, form="printed")
        assert 2.5 * a * math.log(a) <= 25 * 32 / math.log(2) * value / rate * math.log(
            a / math.log(2)
        )


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5, 0.9, 1.0])
def test_a_long_epoch_rarely_has_fewer_than_half_of_its_expected_looks(rate):
    """D28: a long enough epoch rarely has fewer than half of its expected looks, for every rate ε.

    The paper assumes ε ≤ 1/2, which is not needed. The test uses exact binomial tails.
    """
    n_checked = 0
    for m in range(2, 6):
        length = complexity.epoch_length(m)
        log_next = complexity.epoch_log_length(m + 1)
        failure = log_next + math.log(log_next)  # log(d_{m+1} log d_{m+1})
        if length / failure >= 8 / rate:
            n_checked += 1
            too_few_looks = math.ceil(rate * length / 2) - 1
            assert binom.cdf(too_few_looks, length, rate) <= math.exp(-failure)
    assert n_checked >= 1


# ETC


def test_etc_constant_is_a_square_of_a_sum():
    """D13: the constant is 8(√α+√c)²; the paper prints 8(α+c)."""
    assert complexity.etc_constant(1, 1) == 32.0
    assert complexity.etc_constant(1, 1, "printed") == 16.0
    assert complexity.etc_constant(1, 0.25) == 18.0  # D14: rewards in [0, 1] have c = 1/4


def test_etc_needs_alpha_of_at_least_the_variance():
    with pytest.raises(
        ValueError, match=r"alpha must be finite and at least variance=1\.0, got 0\.9"
    ):
        complexity.etc_constant(0.9)


@pytest.mark.parametrize("gap", [1e-6, 1e-3, 0.2, 1.0, 100.0])
@pytest.mark.parametrize("log_horizon", [0.0, 1.0, 10.0, 27.6, 100.0, 709.0, 5000.0, 1e9])
def test_etc_rounds_solve_their_equation(gap, log_horizon):
    rounds = complexity.etc_rounds([0.0, gap], log_horizon, 32.0)[1]
    with mpmath.workdps(40):
        scale = 32 / mpmath.mpf(gap) ** 2
        expected = scale * mpmath.lambertw(mpmath.exp(log_horizon) / scale).real
    assert rounds == pytest.approx(float(expected), rel=1e-12)


@given(gap_lists, st.floats(0.0, 1000.0))
@no_deadline
def test_etc_keeps_worse_arms_for_fewer_rounds(gaps, log_horizon):
    rounds = complexity.etc_rounds(np.sort(gaps), log_horizon)
    assert (rounds[1:] <= rounds[:-1]).all()
    if log_horizon < 700:
        assert (rounds <= math.exp(log_horizon) * (1 + 1e-9)).all()


@given(gap_lists, st.floats(0.0, 1000.0))
@no_deadline
def test_etc_observations_are_the_sum_over_ranks(gaps, log_horizon):
    sorted_gaps, arm_order = sort_gaps(gaps)
    rounds = complexity.etc_rounds(gaps, log_horizon)[arm_order]
    observations = complexity.etc_observations(gaps, log_horizon)[arm_order]
    for i, gap in enumerate(sorted_gaps, start=1):
        if gap > 0:
            expected = len(gaps) + i * rounds[i - 1] + rounds[i:].sum()
            assert observations[i - 1] == pytest.approx(expected, rel=1e-12)


def test_the_printed_logarithm_exceeds_lambert_w_for_long_horizons():
    """D29: with x = TΔ² and the constant C of ETC, W(x/C) ≤ log x if and only if x ≥ e^{1/C}.

    The simpler condition x ≥ C/(C−1) is therefore sufficient.
    """
    etc_constant = 32.0
    threshold = math.exp(1 / etc_constant)
    assert threshold < etc_constant / (etc_constant - 1)
    for x, is_valid in [(threshold * 0.99, False), (threshold * 1.01, True), (1e9, True)]:
        rounds = complexity.etc_rounds([0.0, 1.0], math.log(x), etc_constant)[1]
        assert (rounds <= etc_constant * math.log(x)) == is_valid


def test_the_printed_logarithm_with_the_printed_constant_fails_for_long_horizons():
    """D29 and D13: the printed 16 log x exceeds the correct 32 W(x/32) only up to x ≈ 2.6e4.

    Here x = TΔ². The 16 comes from the printed constant of ETC, and 32 from the correct constant.
    """
    for x, is_valid in [(1e3, True), (2.5e4, True), (2.8e4, False), (1e8, False)]:
        rounds = complexity.etc_rounds([0.0, 1.0], math.log(x), 32.0)[1]
        assert (rounds <= 16 * math.log(x)) == is_valid


# Extreme arguments


@pytest.mark.parametrize("n_arms", [2, 200])
@pytest.mark.parametrize("gap", [1e-6, 100.0])
@pytest.mark.parametrize("rate", [0.0, 1e-300, 1.0])
@pytest.mark.parametrize("horizon", [1, 2, 3, 10**12, 10**15])
def test_bounds_are_finite_on_the_whole_range(n_arms, gap, rate, horizon):
    gaps = [0.0] + [gap] * (n_arms - 1)
    for values in (
        complexity.hardness(gaps)[1:],
        complexity.hardness(gaps, 0.5, below=[2, n_arms])[..., 1:],
        complexity.effective_arms(gaps, 0.5),
        complexity.rate_star(gaps, horizon),
        complexity.rate_star_active(gaps, horizon),
        complexity.rate_star_arms(gaps, None, horizon),
        complexity.etc_rounds(gaps, math.log(horizon)),
        complexity.etc_observations(gaps, math.log(horizon)),
        complexity.last_epoch(gaps, rate, horizon),
        complexity.first_eliminated(gaps, rate, [0, 3, 20]),
        complexity.weights_cost(gaps),
    ):
        assert np.isfinite(values).all()


def test_rates_and_horizons_may_be_arrays():
    epochs = complexity.last_epoch(FOUR_GAPS, [[0.0], [0.1], [1.0]], [10, 10**12])
    assert epochs.shape == (3, 2, 4)
    assert epochs[1, 1, 1] == complexity.last_epoch(FOUR_GAPS, 0.1, 10**12)[1]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: complexity.c_delta([1.0, 2.0]), "gaps"),
        (lambda: complexity.c_delta([0.0, math.nan]), "gaps"),
        (lambda: complexity.hardness(FOUR_GAPS, 0.4), "rho"),
        (lambda: complexity.hardness(FOUR_GAPS, math.nan), "rho"),
        (lambda: complexity.optimal_weights(FOUR_GAPS, 0.0), "power"),
        (lambda: complexity.epoch_log_length(-1), "epoch"),
        (lambda: complexity.epoch_log_length(1, 1.0), "base"),
        (lambda: complexity.etc_rounds(FOUR_GAPS, math.nan), "log_horizon"),
        (lambda: complexity.etc_constant(1, 1, "leading"), "form"),
        (lambda: complexity.rate_star(FOUR_GAPS, 1.5), "horizon"),
        (lambda: complexity.last_epoch(FOUR_GAPS, 1.1), "rate"),
        (lambda: complexity.last_epoch(FOUR_GAPS, 0.1, constant=0.0), "constant"),
    ],
)
def test_errors_name_the_argument(call, name):
    with pytest.raises(ValueError, match=f"^{name} must be"):
        call()
