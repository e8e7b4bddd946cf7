"""Tests of the lower bounds against direct formulas, brute force, linprog and mpmath.

The tests named `test_d1_…`, `test_d2_…` belong to the entries D1, D2, … of docs/errata/.
"""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import assume, example, given, settings, strategies as st
from scipy.optimize import linprog

from kibitz.bounds import Bound, complexity, lower
from kibitz.bounds.lower._constraint import find_best_stage, make_constraint

FOUR_GAPS = [0.0, 0.2, 1.5, 1.8]  # the gaps of the paper's two problems
FIVE_GAPS = [0.0, 0.2, 0.5, 1.0, 1.5]
UCB1_CONSTANTS = (8.0, 1 + math.pi**2 / 3)
SMALL_CONSTANTS = {"C": 2.0, "C_0": 1.0}

gap_lists = st.lists(
    st.one_of(st.just(0.0), st.floats(1e-6, 100), st.sampled_from([0.2, 0.2, 0.5, 1.0])),
    min_size=1,
    max_size=6,
).map(lambda gaps: [0.0, *gaps])
rates = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(1e-12, 1))
horizons = st.one_of(st.sampled_from([1, 2, 3, 4, 7, 8, 10**12, 10**15]), st.integers(1, 10**6))
constants = st.fixed_dictionaries({"C": st.floats(0.05, 50), "C_0": st.floats(0, 10)})
few_examples = settings(max_examples=40, deadline=None)

PASSIVE_BOUNDS = [
    lower.passive_fixed_stage,
    lower.passive_theorem,
    lower.passive_maximum,
    lower.passive_sharp,
]
ACTIVE_BOUNDS = [
    lower.active_fixed_stage,
    lower.active_theorem,
    lower.active_chain,
    lower.active_maximum,
    lower.active_alternative,
]


def evaluate_bound(bound, gaps, rate, horizon, **options):
    """Return the value of a bound, with uniform weights if the observer is passive."""
    weights = (None,) if bound in PASSIVE_BOUNDS else ()
    return bound(gaps, rate, *weights, horizon, **options)


# The formulas in plain Python, one number at a time


def compute_allowed_regret(gaps, t, C, C_0):
    """Return the regret that Definition 1 of the paper allows up to stage t."""
    return C * math.log(t) * sum(1 / d for d in gaps if d > 0) + C_0 * sum(gaps)


def raise_arm(gaps, i, x):
    """Return the gaps of the problem in which arm i has a mean of x above the best mean."""
    return [0.0 if j == i else x + d for j, d in enumerate(gaps)]


def compute_pq(gaps, i, t, x, C, C_0, divisor):
    """Return P and Q of the constraint of arm i at stage t; arm i is raised to x above the best."""
    P = 1 - compute_allowed_regret(gaps, t, C, C_0) / (t * divisor)
    Q = compute_allowed_regret(raise_arm(gaps, i, x), t, C, C_0) / (t * x)
    return P, Q


def compute_h_plainly(gaps, i, t, C, C_0, x=None, divisor=None):
    """Return the constraint h_i(t) = (P log(1/Q) − log 2)_+."""
    x = gaps[i] if x is None else x
    smallest_gap = min(d for d in gaps if d > 0)
    P, Q = compute_pq(gaps, i, t, x, C, C_0, divisor or smallest_gap)
    return max(0.0, max(P, 0.0) * max(math.log(1 / Q), 0.0) - math.log(2)) if t >= 3 else 0.0


def kl(p, q):
    """Return the Kullback–Leibler divergence of two Bernoulli distributions."""
    first_term = p * math.log(p / q) if p > 0 else 0.0
    return first_term + ((1 - p) * math.log((1 - p) / (1 - q)) if p < 1 else 0.0)


def draw_gaps(rng, n=None):
    n = n or rng.integers(2, 7)
    return [0.0, *rng.uniform(0.1, 1, n - 1).tolist()]


# The constraint


@pytest.mark.parametrize("seed", range(30))
def test_the_constraint_equals_its_formula_in_plain_python(seed):
    """Compare each variant of the constraint with its formula in plain Python."""
    rng = np.random.default_rng(seed)
    gaps, t = draw_gaps(rng), float(rng.integers(3, 10**6))
    C, C_0 = rng.uniform(0.1, 10, 2)
    x = rng.uniform(0.05, 2)
    clipped_h = lower.observation_constraint(gaps, t, x=x, C=C, C_0=C_0)
    sharp_h = lower.observation_constraint(gaps, t, x=x, variant="sharp", C=C, C_0=C_0)
    exact_h = lower.observation_constraint(gaps, t, x=x, variant="kl", C=C, C_0=C_0)
    required_counts = lower.required_observations(gaps, t, x=x, C=C, C_0=C_0)
    for i in range(1, len(gaps)):
        assert clipped_h[i] == pytest.approx(
            compute_h_plainly(gaps, i, t, C, C_0, x), rel=1e-12, abs=1e-12
        )
        assert sharp_h[i] == pytest.approx(
            compute_h_plainly(gaps, i, t, C, C_0, x, gaps[i]), abs=1e-12
        )
        P, Q = compute_pq(gaps, i, t, x, C, C_0, min(gaps[1:]))
        assert exact_h[i] == pytest.approx(kl(P, Q) if max(Q, 0) < P else 0.0, rel=1e-9, abs=1e-12)
        assert required_counts[i] == pytest.approx(2 * clipped_h[i] / (x + gaps[i]) ** 2)
    assert clipped_h[0] == sharp_h[0] == exact_h[0] == required_counts[0] == 0


@given(gap_lists, st.floats(3, 1e15), constants)
@few_examples
def test_the_variants_are_never_below_the_clipped_constraint(gaps, t, constants):
    clipped_h = lower.observation_constraint(gaps, t, **constants)
    for variant in ("sharp", "kl"):
        variant_h = lower.observation_constraint(gaps, t, variant=variant, **constants)
        assert (variant_h >= clipped_h * (1 - 1e-9) - 1e-9).all()


@given(gap_lists, st.floats(1.01, 1e15), constants, st.sampled_from(["clip", "sharp", "printed"]))
@few_examples
def test_eta_is_h_minus_the_leading_term(gaps, t, constants, variant):
    eta = lower.eta(gaps, t, variant=variant, **constants)
    C, C_0 = constants["C"], constants["C_0"]
    for i, gap in enumerate(gaps):
        if gap == 0:
            continue
        S = sum(1 / (gap + other_gap) for j, other_gap in enumerate(gaps) if j != i)
        leading_term = math.log(t * gap / (2 * C * math.log(t) * S))
        smallest_gap = min(d for d in gaps if d > 0)
        divisor = {"clip": smallest_gap, "sharp": gap, "printed": 1.0}[variant]
        P = 1 - compute_allowed_regret(gaps, t, C, C_0) / (t * divisor)
        C_K = C_0 * (sum(gaps) if variant == "printed" else sum(raise_arm(gaps, i, gap)))
        literal_h = P * math.log(t * gap / (C_K + C * S * math.log(t))) - math.log(2)
        assert leading_term + eta[i] == pytest.approx(literal_h, rel=1e-8, abs=1e-8)


def test_eta_vanishes_like_one_over_log():
    t = np.array([1e30, 1e60, 1e120, 1e240])
    scaled_eta = lower.eta(FIVE_GAPS, t)[:, 1:] * np.log(t)[:, None]
    S = [sum(1 / (a + b) for b in FIVE_GAPS) - 1 / (2 * a) for a in FIVE_GAPS[1:]]
    limit = [
        -UCB1_CONSTANTS[1] * sum(raise_arm(FIVE_GAPS, i + 1, FIVE_GAPS[i + 1])) / (8 * s)
        for i, s in enumerate(S)
    ]
    assert scaled_eta[-1] == pytest.approx(limit, rel=0.03)
    assert (np.abs(scaled_eta - limit)[1:] < np.abs(scaled_eta - limit)[:-1]).all()


@given(gap_lists, st.floats(math.e, 1e15), st.floats(1, 10), constants)
@few_examples
def test_d7_the_clipped_constraint_never_falls_after_stage_e(gaps, t, factor, constants):
    h_now = lower.observation_constraint(gaps, t, **constants)
    h_later = lower.observation_constraint(gaps, t * factor, **constants)
    assert (h_later >= h_now - 1e-9).all()


def test_d7_the_literal_constraint_falls():
    literal_h = lower.observation_constraint(FOUR_GAPS, np.arange(3.0, 100.0), variant="printed")[
        :, 1
    ]
    assert (np.diff(literal_h) < 0).all()


@given(gap_lists, st.floats(8, 1e12), constants)
@few_examples
def test_d7_the_slope_is_at_least_p_over_t_less_a_little(gaps, t, constants):
    c = make_constraint(np.array(gaps), variant="clip", **constants)
    step = 1e-4 * t
    h = lower.observation_constraint(gaps, [t, t + step], **constants)
    for i, gap in enumerate(gaps):
        if gap == 0 or h[0, i] == 0:
            continue
        P = 1 - compute_allowed_regret(gaps, t, **constants) / (t * min(d for d in gaps if d > 0))
        rank = int(np.flatnonzero(np.flatnonzero(c.suboptimal) == i)[0])
        shift = c.v[0][rank] / c.v[1][rank]
        smallest_slope = P / (t + step) * (1 - 1 / (math.log(t) + shift))
        assert (h[1, i] - h[0, i]) / step >= smallest_slope * (1 - 1e-6) - 1e-9 / step


def test_the_constraint_is_concave_wherever_it_is_positive():
    """Check the inequality behind the bisection in `find_best_stages` on a fine grid."""
    r, s, L, b = np.meshgrid(
        np.linspace(0, 1, 101)[:-1],
        np.linspace(0, 0.5, 26),
        np.geomspace(math.log(2), 100, 200),
        [0, 0.5],
    )
    second_derivative = (3 * b * r - 2 * r) * L + 2 * (r - b * r) * (1 - s) - (1 - r) * (1 - s - s**2)
    assert second_derivative[(1 - r) * L >= math.log(2)].max() < 0


# Passive observer


def search_passive_maximum(gaps, q, horizon, **constants):
    """Return Σ_i Δ_i max_t (a_i(t) − q_i t)_+, where a_i(t) is the required count of arm i."""
    total_bound, t = 0.0, np.arange(3.0, horizon + 1)
    required_counts = lower.required_observations(gaps, t, **constants)
    for i, gap in enumerate(gaps):
        total_bound += gap * max(0.0, float((required_counts[:, i] - q[i] * t).max(initial=0.0)))
    return total_bound


@pytest.mark.parametrize("seed", range(8))
def test_the_passive_maximum_is_the_largest_over_a_million_stages(seed):
    rng = np.random.default_rng(seed)
    gaps, horizon = draw_gaps(rng, 4), 10**6
    weights = rng.dirichlet(np.ones(4))
    rate = 10 ** rng.uniform(-7, -2)
    value = lower.passive_maximum(gaps, rate, weights, horizon, **SMALL_CONSTANTS)
    brute_force_value = search_passive_maximum(gaps, rate * weights, horizon, **SMALL_CONSTANTS)
    assert brute_force_value > 0
    assert value == pytest.approx(brute_force_value, rel=1e-12)


@given(gap_lists, rates, st.integers(1, 3000), constants)
@example([0.0, 20.0], 1e-3, 3000, {"C": 0.5, "C_0": 0.1})
@settings(max_examples=150, deadline=None)
def test_the_passive_maximum_is_the_largest_over_all_stages(gaps, rate, horizon, constants):
    weights = np.full(len(gaps), 1 / len(gaps))
    value = lower.passive_maximum(gaps, rate, None, horizon, **constants)
    brute_force_value = search_passive_maximum(gaps, rate * weights, horizon, **constants)
    assert value == pytest.approx(brute_force_value, rel=1e-9, abs=1e-9)


def test_best_stage_finds_a_peak_at_the_largest_stages():
    for peak in (2**53 - 1000, 2**52 + 12345, 10**15 + 7):
        assert find_best_stage(lambda t, peak=peak: -abs(t - peak), float(2**53)) == peak


def test_each_arm_has_its_own_best_stage():
    bound_details = lower.passive_maximum(FIVE_GAPS, 1e-6, None, 10**9, details=True)
    assert isinstance(bound_details, Bound)
    for i, (gap, stage) in enumerate(zip(FIVE_GAPS, bound_details.stages, strict=True)):
        if gap > 0:
            required_counts = lower.required_observations(FIVE_GAPS, stage)[i]
            assert bound_details.terms[i] == pytest.approx(gap * (required_counts - 1e-6 / 5 * stage))
            for other_stage in (stage - 1, stage + 1, stage / 2, stage * 2):
                value_at_other_stage = (
                    lower.required_observations(FIVE_GAPS, other_stage)[i] - 1e-6 / 5 * other_stage
                )
                assert bound_details.terms[i] >= gap * value_at_other_stage
    assert bound_details.stages[0] == bound_details.terms[0] == 0
    assert len(set(bound_details.stages)) == 5


@given(gap_lists, rates, horizons, constants, st.sampled_from(["main", "appendix"]))
@few_examples
def test_the_theorem_never_exceeds_the_maximum(gaps, rate, horizon, constants, text):
    theorem = lower.passive_theorem(gaps, rate, None, horizon, text=text, **constants)
    fixed_stage_bound = lower.passive_fixed_stage(gaps, rate, None, horizon, **constants)
    assert (
        max(theorem, fixed_stage_bound)
        <= lower.passive_maximum(gaps, rate, None, horizon, **constants) + 1e-9
    )


def test_the_theorem_is_the_corrected_formula_up_to_one_stage():
    for rate in (1e-3, 1e-5, 1e-7):
        theorem = lower.passive_theorem(
            FIVE_GAPS, rate, None, 10**15, **SMALL_CONSTANTS, details=True
        )
        for i in range(1, 5):
            gap, best_stage = FIVE_GAPS[i], 1 / (2 * rate / 5 * FIVE_GAPS[i] ** 2)
            expected_pulls = max(
                0.0, (compute_h_plainly(FIVE_GAPS, i, best_stage, 2, 1) - 1) / (2 * gap)
            )
            assert (
                expected_pulls - gap * rate / 5 - 1e-12
                <= theorem.terms[i]
                <= expected_pulls + gap * rate / 5
            )
            assert theorem.stages[i] in (math.ceil(best_stage), 0)


def test_theorem_uses_the_horizon_if_it_is_short():
    rate, horizon = 1e-9, 10**4
    fixed_stage_bound = lower.passive_fixed_stage(FIVE_GAPS, rate, None, horizon, **SMALL_CONSTANTS)
    assert (
        0
        < lower.passive_theorem(FIVE_GAPS, rate, None, horizon, **SMALL_CONSTANTS)
        == pytest.approx(fixed_stage_bound)
    )


def test_the_closed_form_is_almost_as_good_as_the_maximum():
    rng, ratios = np.random.default_rng(3), []
    while len(ratios) < 100:
        gaps, rate = draw_gaps(rng), 10 ** rng.uniform(-6, -2)
        maximum = lower.passive_maximum(gaps, rate, None, 10**12, **SMALL_CONSTANTS)
        if maximum > 1:
            ratios.append(
                lower.passive_theorem(gaps, rate, None, 10**12, **SMALL_CONSTANTS) / maximum
            )
    assert np.median(ratios) > 0.999
    assert min(ratios) > 0.9


def test_fixed_stage_bound_is_0_for_long_horizons():
    values = lower.passive_fixed_stage(
        FIVE_GAPS, 1e-3, None, [10**4, 10**5, 10**9], **SMALL_CONSTANTS
    )
    assert values[0] > 0
    assert values[2] == 0 < lower.passive_maximum(FIVE_GAPS, 1e-3, None, 10**9, **SMALL_CONSTANTS)


def test_without_looks_only_the_bandit_term_remains():
    for T in (10**4, 10**12):
        h = lower.observation_constraint(FIVE_GAPS, T)[1:]
        expected = (h / (2 * np.array(FIVE_GAPS[1:]))).sum()
        for bound in (*PASSIVE_BOUNDS[:3], lower.active_fixed_stage, lower.active_maximum):
            assert evaluate_bound(bound, FIVE_GAPS, 0, T) == pytest.approx(expected)
        bound_without_looks = lower.passive_theorem(FIVE_GAPS, 0.5, [1, 0, 0, 0, 0], T)
        assert bound_without_looks == pytest.approx(expected)


# The fixed point


def solve_with_mpmath(t, n_looks, information, Q):
    """Return n with (n + n_looks) · information = kl(1 - n/t, Q), with thirty digits."""
    with mpmath.workdps(30):

        def compute_excess(n):
            y = n / mpmath.mpf(t)
            first_term = (1 - y) * mpmath.log((1 - y) / Q)
            return first_term + y * mpmath.log(y / (1 - Q)) - (n + n_looks) * information

        low, high = mpmath.mpf(10) ** -20, t * (1 - Q)
        return float(mpmath.findroot(compute_excess, (low, high), solver="anderson", tol=1e-20))


@pytest.mark.parametrize("reward_law", ["gaussian", "bernoulli"])
@pytest.mark.parametrize("seed", range(10))
def test_the_sharp_bound_is_the_root_of_its_equation(reward_law, seed):
    from kibitz.bounds.lower._passive import _find_root, make_fixed_point

    rng = np.random.default_rng(seed)
    gap, best_mean = float(rng.uniform(0.05, 0.4)), 0.6
    gaps = [0.0, gap, gap / 2]
    rate, t, x = (
        10 ** rng.uniform(-9, -5),
        float(10 ** rng.integers(4, 8)),
        gap * rng.uniform(0.3, 1),
    )
    sd = 1.0 if reward_law == "bernoulli" else float(rng.uniform(0.5, 2))
    d = make_fixed_point(np.array(gaps), reward_law, sd, best_mean, 2.0, 1.0)
    root = _find_root(d, np.full(2, t), np.full(2, x), np.full(2, rate * t), 60)[0]
    Q = compute_allowed_regret(raise_arm(gaps, 1, x), t, 2.0, 1.0) / (t * x)
    gaussian = (x + gap) ** 2 / (2 * sd**2)
    information = kl(best_mean - gap, best_mean + x) if reward_law == "bernoulli" else gaussian
    assert Q < 1
    assert root == pytest.approx(solve_with_mpmath(t, rate * t, information, Q), rel=1e-9)


@pytest.mark.parametrize("reward_law", ["gaussian", "bernoulli"])
def test_no_point_of_a_fine_grid_beats_the_sharp_bound(reward_law):
    from kibitz.bounds.lower._passive import _find_root, make_fixed_point

    gaps, rate, horizon = np.array([0.0, 0.1, 0.4]), 1e-6, 10**8
    bernoulli = {"rewards": "bernoulli", "best_mean": 0.5} if reward_law == "bernoulli" else {}
    sharp_bound = lower.passive_sharp(gaps, rate, [0, 0.5, 0.5], horizon, details=True, **bernoulli)
    d = make_fixed_point(gaps, reward_law, 1.0, 0.5, *UCB1_CONSTANTS)
    t = np.rint(np.geomspace(3, horizon, 150))[:, None, None]
    for share in np.geomspace(1e-3, 1, 150):
        n = _find_root(d, t, share * d.max_x * np.ones((1, 1, 1)), rate * t / 2 * np.ones(2), 40)
        assert (gaps[1:] * n[:, 0] <= sharp_bound.terms[1:] * (1 + 1e-6)).all()


@given(gap_lists, rates, horizons)
@few_examples
def test_the_sharp_bound_is_never_below_the_maximum(gaps, rate, horizon):
    maximum = lower.passive_maximum(gaps, rate, None, horizon, variant="sharp")
    assert lower.passive_sharp(gaps, rate, None, horizon) >= maximum * (1 - 1e-6)
    assert maximum >= lower.passive_maximum(gaps, rate, None, horizon) * (1 - 1e-12)


def test_the_sharp_bound_is_about_twice_the_maximum():
    rng, ratios = np.random.default_rng(0), []
    while len(ratios) < 25:
        gaps, rate = draw_gaps(rng), 10 ** rng.uniform(-6, -2)
        maximum = lower.passive_maximum(gaps, rate, None, 10**9, **SMALL_CONSTANTS)
        if maximum > 1:
            ratios.append(lower.passive_sharp(gaps, rate, None, 10**9, **SMALL_CONSTANTS) / maximum)
    assert min(ratios) > 1.5
    assert 1.8 < np.median(ratios) < 2.4


def test_the_sharp_bound_grows_towards_two_over_the_gap():
    """Check the bound divided by log(1/ε) for a gap of 1.

    The ratio is 0.306 at log(1/ε) = 8 and 1.215 at log(1/ε) = 32. Its limit is the constant 2 of Lai
    and Robbins.
    """
    shares = [
        lower.passive_sharp([0, 1], math.exp(-y), [0, 1], 2**53, **SMALL_CONSTANTS) / y
        for y in (8, 32)
    ]
    assert shares == pytest.approx([0.306, 1.215], abs=0.001)


def test_noisier_rewards_only_change_the_units():
    for sd in (0.5, 3.0):
        scaled_bound = lower.passive_sharp(
            np.array(FIVE_GAPS) / sd, 1e-4, None, 10**6, C=2 / sd**2, C_0=1.0
        )
        assert lower.passive_sharp(
            FIVE_GAPS, 1e-4, None, 10**6, sd=sd, **SMALL_CONSTANTS
        ) == pytest.approx(sd * scaled_bound)


def test_bernoulli_rewards_of_half_are_gaussian_rewards_of_sd_half_for_small_gaps():
    gaps = [0.0, 1e-3, 2e-3]
    bernoulli = lower.passive_sharp(gaps, 1e-10, None, 10**12, rewards="bernoulli", best_mean=0.5)
    gaussian = lower.passive_sharp(gaps, 1e-10, None, 10**12, sd=0.5)
    assert 0 < bernoulli == pytest.approx(gaussian, rel=0.01)


def test_bernoulli_bound_is_0_if_the_best_mean_is_1():
    assert lower.passive_sharp([0, 0.5], 0, None, 10**9, rewards="bernoulli", best_mean=1.0) == 0
    assert lower.passive_sharp([0, 0.5], 0, None, 10**9, rewards="bernoulli", best_mean=0.5) > 0
    with pytest.raises(ValueError, match="best_mean must be"):
        lower.passive_sharp([0, 0.5], 0, None, 10**9, rewards="bernoulli", best_mean=0.4)
    with pytest.raises(ValueError, match="best_mean must be"):
        lower.passive_sharp([0, 0.5], 0, None, 10**9, rewards="bernoulli")


# Active observer


@pytest.mark.parametrize("block", range(8))
def test_the_linear_program_is_solved(block):
    rng = np.random.default_rng(block)
    for _ in range(50):
        n = int(rng.integers(1, 8))
        gaps = np.round(rng.uniform(0, 2, n), int(rng.integers(0, 3)))
        required_counts = rng.exponential(10.0, n) * (rng.random(n) < 0.8)
        budget = float(
            rng.choice([0.0, rng.uniform(0, 1.2) * required_counts.sum(), required_counts.sum()])
        )
        solution = lower.linear_program(gaps, required_counts, budget)
        constraint_matrix = np.hstack((-np.eye(n), -np.eye(n)))
        looks = np.concatenate((np.zeros(n), np.ones(n)))
        linprog_solution = linprog(
            np.concatenate((gaps, np.zeros(n))),
            np.vstack((constraint_matrix, looks)),
            np.concatenate((-required_counts, [budget])),
        )
        assert solution.value == pytest.approx(linprog_solution.fun, rel=1e-9, abs=1e-9)
        assert (solution.n_pulls >= 0).all()
        assert (solution.n_looks >= 0).all()
        assert solution.n_looks.sum() <= budget * (1 + 1e-12)
        assert solution.n_pulls + solution.n_looks == pytest.approx(required_counts)


def test_free_looks_go_to_the_worst_arms():
    solution = lower.linear_program([0.0, 1.0, 0.5, 2.0], [0, 10, 10, 10], [0, 12, 25, 100])
    assert solution.n_looks.tolist() == [[0] * 4, [0, 2, 0, 10], [0, 10, 5, 10], [0, 10, 10, 10]]
    assert solution.value.tolist() == [35, 13, 2.5, 0]


def compute_program_values(gaps, rate, horizon, **constants):
    """Return V(t), the value of the linear program, at every stage from 3 to the horizon."""
    t = np.arange(3.0, horizon + 1)
    required_counts = lower.required_observations(gaps, t, **constants)
    return np.asarray(lower.linear_program(gaps, required_counts, rate * t).value)


def search_active_maximum(gaps, rate, horizon, **constants):
    return float(compute_program_values(gaps, rate, horizon, **constants).max(initial=0.0))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_the_active_maximum_is_the_largest_over_a_million_stages(seed):
    rng = np.random.default_rng(seed)
    gaps, rate = draw_gaps(rng, 5), 10 ** rng.uniform(-6, -3.5)
    value = lower.active_maximum(gaps, rate, 10**6, **SMALL_CONSTANTS)
    brute_force_value = search_active_maximum(gaps, rate, 10**6, **SMALL_CONSTANTS)
    assert brute_force_value > 0
    assert value == pytest.approx(brute_force_value, rel=1e-12)


@given(gap_lists, rates, st.integers(1, 2000), constants)
@settings(max_examples=100, deadline=None)
def test_the_active_maximum_is_the_largest_over_all_stages(gaps, rate, horizon, constants):
    value = lower.active_maximum(gaps, rate, horizon, **constants)
    assert value == pytest.approx(search_active_maximum(gaps, rate, horizon, **constants), rel=1e-9)


def test_the_larger_of_two_local_maxima_is_found():
    """The bound is the larger of two local maxima of V(t), the value of the linear program.

    V(t) has a maximum at stage 281 due to the large gap, and rises again later due to the small gap.
    """
    gaps, rate = [0.0, 0.005, 1.0], 0.003
    options = {"C": 0.05, "C_0": 0.05, "variant": "sharp"}
    values = compute_program_values(gaps, rate, 70_000, **options)
    assert int(np.argmax(values[:60_000])) + 3 == 281
    for horizon in (60_000, 70_000):
        maximum = lower.active_maximum(gaps, rate, horizon, **options, details=True)
        assert maximum.total == pytest.approx(values[: horizon - 2].max(), rel=1e-12)
        assert maximum.stages == (281 if horizon == 60_000 else 70_000)


@given(gap_lists, rates, horizons, constants)
@few_examples
def test_active_bounds_come_in_order(gaps, rate, horizon, constants):
    theorem = lower.active_theorem(gaps, rate, horizon, **constants)
    chain = lower.active_chain(gaps, rate, horizon, **constants)
    fixed_stage_bound = lower.active_fixed_stage(gaps, rate, horizon, **constants)
    maximum = lower.active_maximum(gaps, rate, horizon, **constants)
    tolerance = 1 + 1e-6
    assert theorem <= chain * tolerance
    assert max(chain, fixed_stage_bound) <= maximum * tolerance
    weights = np.random.default_rng(0).dirichlet(np.ones(len(gaps)))
    assert maximum <= lower.passive_maximum(gaps, rate, weights, horizon, **constants) * tolerance
    alternative = lower.active_alternative(gaps, rate, horizon, **constants)
    exact_alternative = lower.active_alternative(gaps, rate, horizon, exact=True, **constants)
    assert alternative <= exact_alternative * tolerance
    assert (
        exact_alternative
        <= lower.passive_maximum(gaps, rate, weights, horizon, **constants) * tolerance
    )


@pytest.mark.parametrize("seed", range(10))
def test_the_chain_stops_at_the_last_stage_that_looks_do_not_cover(seed):
    rng = np.random.default_rng(seed)
    gaps, rate, horizon = sorted(draw_gaps(rng, 5)), 10 ** rng.uniform(-5, -2.5), 10**5
    t = np.arange(3.0, horizon + 1)
    required_counts = lower.required_observations(gaps, t, **SMALL_CONSTANTS)
    best_value = 0.0
    for k in range(1, 4):
        uncovered_stages = np.flatnonzero(required_counts[:, k + 1 :].sum(axis=1) > rate * t)
        if len(uncovered_stages):
            last_required_counts = required_counts[uncovered_stages[-1]]
            best_value = max(
                best_value, sum(gaps[i] * last_required_counts[i] for i in range(1, k + 1))
            )
    assert lower.active_chain(gaps, rate, horizon, **SMALL_CONSTANTS) == pytest.approx(
        best_value, rel=1e-12
    )


def test_active_theorem_equals_its_formula():
    gaps, rate, horizon = FIVE_GAPS, 1e-5, 10**12
    best_value = 0.0
    for k in range(2, 5):
        stage = math.floor(sum(1 / (2 * d**2) for d in gaps[k:]) / rate)
        h = lower.observation_constraint(gaps, stage)
        mean = sum(h[j] / gaps[j] ** 2 for j in range(k, 5)) / sum(1 / d**2 for d in gaps[k:])
        if mean >= 1:
            best_value = max(best_value, sum(h[i] / (2 * gaps[i]) for i in range(1, k)))
    assert 0 < lower.active_theorem(gaps, rate, horizon) == pytest.approx(best_value)


def test_active_theorem_is_0_for_two_arms_and_for_short_horizons():
    assert lower.active_theorem([0, 0.5], 1e-6, 10**12) == 0
    assert lower.active_theorem(FIVE_GAPS, 1e-5, 10**4) == 0
    assert lower.active_theorem(FIVE_GAPS, 0, 10**12) == 0


@pytest.mark.parametrize(
    ("n_arms", "gap", "rate", "C", "C_0", "program_bound", "theorem"),
    [(5, 0.5, 1e-4, *UCB1_CONSTANTS, 10.71, 6.88), (20, 0.2, 1e-5, 2.0, 1.0, 296, 219)],
)
def test_equal_gaps_give_more_than_the_theorem(n_arms, gap, rate, C, C_0, program_bound, theorem):
    gaps, constants = [0.0] + [gap] * (n_arms - 1), {"C": C, "C_0": C_0}
    equal_gaps_bound = lower.active_equal_gaps(n_arms, gap, rate, 2**53, **constants)
    assert equal_gaps_bound == pytest.approx(program_bound, abs=0.5 if program_bound > 100 else 0.005)
    theorem_bound = lower.active_theorem(gaps, rate, 2**53, **constants)
    assert theorem_bound == pytest.approx(theorem, abs=0.5 if theorem > 100 else 0.005)
    maximum = lower.active_maximum(gaps, rate, 2**53, **constants)
    assert equal_gaps_bound <= maximum <= equal_gaps_bound * 1.001
    uniform_weights = [0.0] + [1 / (n_arms - 1)] * (n_arms - 1)
    passive = lower.passive_maximum(gaps, rate, uniform_weights, 2**53, **constants)
    assert maximum == pytest.approx(passive, rel=1e-12)


def test_equal_gaps_are_the_linear_program_at_a_short_horizon():
    for rate in (0.0, 1e-6, 1e-4):
        equal_gaps_bound = lower.active_equal_gaps(6, 0.4, rate, 3000, **SMALL_CONSTANTS)
        fixed_stage_bound = lower.active_fixed_stage([0.0] + [0.4] * 5, rate, 3000, **SMALL_CONSTANTS)
        assert 0 < equal_gaps_bound == pytest.approx(fixed_stage_bound)


@pytest.mark.parametrize("seed", range(6))
def test_many_periods_dominate_one(seed):
    """The bound over several periods is never below the bound over one period."""
    rng = np.random.default_rng(seed)
    gaps = [0.0, *(10 ** rng.uniform(-1, 0.3, 4)).tolist()]
    rate, horizon = 10 ** rng.uniform(-6, -4), 10**9
    multi_period_bound = lower.active_multi_period(gaps, rate, horizon, **SMALL_CONSTANTS)
    maximum = lower.active_maximum(gaps, rate, horizon, **SMALL_CONSTANTS)
    exact_alternative = lower.active_alternative(gaps, rate, horizon, exact=True, **SMALL_CONSTANTS)
    assert multi_period_bound >= max(maximum, exact_alternative, 1e-3) * (1 - 1e-6)
    weights = rng.dirichlet(np.ones(5))
    assert multi_period_bound <= lower.passive_maximum(
        gaps, rate, weights, horizon, **SMALL_CONSTANTS
    ) * (1 + 1e-6)


def test_multi_period_bound_can_beat_all_others():
    gaps, rate, horizon = [0.0, 0.1, 0.3, 1.0, 2.0], 1e-5, 10**9
    multi_period_bound = lower.active_multi_period(
        gaps, rate, horizon, **SMALL_CONSTANTS, details=True
    )
    maximum = lower.active_maximum(gaps, rate, horizon, **SMALL_CONSTANTS, details=True)
    exact_alternative = lower.active_alternative(gaps, rate, horizon, exact=True, **SMALL_CONSTANTS)
    assert multi_period_bound.total > 1.01 * max(maximum.total, exact_alternative)
    single_period_bound = lower.active_multi_period(
        gaps, rate, horizon, stages=[maximum.stages], **SMALL_CONSTANTS
    )
    assert single_period_bound == pytest.approx(maximum.total, rel=1e-6)
    assert multi_period_bound.total == pytest.approx(multi_period_bound.terms.sum())


# Schedules


def test_constant_schedule_equals_a_rate():
    constant_schedule = lower.schedule([1e-5])
    for bound in (*PASSIVE_BOUNDS, *ACTIVE_BOUNDS, lower.active_multi_period):
        if bound in (lower.passive_theorem, lower.active_theorem, lower.active_alternative):
            continue
        for T in (2, 5000, 10**7):
            assert evaluate_bound(
                bound, FIVE_GAPS, constant_schedule, T, **SMALL_CONSTANTS
            ) == pytest.approx(evaluate_bound(bound, FIVE_GAPS, 1e-5, T, **SMALL_CONSTANTS), rel=1e-6)
    exact_alternative = lower.active_alternative(
        FIVE_GAPS, constant_schedule, 10**7, exact=True, **SMALL_CONSTANTS
    )
    assert exact_alternative == pytest.approx(
        lower.active_alternative(FIVE_GAPS, 1e-5, 10**7, exact=True, **SMALL_CONSTANTS), rel=1e-9
    )


def test_a_schedule_is_summed_stage_by_stage():
    rates = np.random.default_rng(0).random(50)
    look_schedule = lower.schedule(rates)
    for t in (1, 7, 50):
        assert look_schedule(np.array([float(t)]))[0] == pytest.approx(rates[:t].sum())
    assert look_schedule(np.array([60.0]))[0] == pytest.approx(rates.sum() + 10 * rates[-1])
    with pytest.raises(ValueError, match="rates must be a list"):
        lower.schedule([])


def test_late_looks_give_a_larger_bound_than_early_looks():
    """The same number of looks gives a larger lower bound if the looks arrive late."""
    horizon, n = 10_000, 50
    early_schedule = lower.schedule([1.0] * n + [0.0])
    late_schedule = lower.schedule([0.0] * (horizon - n) + [1.0] * n + [0.0])
    early_bound, late_bound = (
        lower.passive_maximum([0, 0.5], s, [0, 1], horizon, **SMALL_CONSTANTS)
        for s in (early_schedule, late_schedule)
    )
    bound_without_looks = lower.passive_maximum([0, 0.5], 0, None, horizon, **SMALL_CONSTANTS)
    assert early_bound < late_bound <= bound_without_looks
    t = np.arange(3.0, horizon + 1)
    required_counts = lower.required_observations([0, 0.5], t, **SMALL_CONSTANTS)[:, 1]
    assert late_bound == pytest.approx(0.5 * (required_counts - late_schedule(t)).max())


def test_schedule_with_more_than_one_look_per_stage_raises():
    with pytest.raises(ValueError, match="rate must return a number"):
        lower.passive_maximum(FIVE_GAPS, lambda t: 2 * t, None, 100)


@pytest.mark.parametrize(
    "closed_form", [lower.passive_theorem, lower.active_theorem, lower.active_alternative]
)
def test_closed_forms_reject_schedules(closed_form):
    with pytest.raises(ValueError, match="rate must be one or more numbers in"):
        evaluate_bound(closed_form, FIVE_GAPS, lower.schedule([0.1]), 100)


# Properties of all lower bounds


@pytest.mark.slow
@given(gap_lists, rates, horizons, constants)
@settings(max_examples=120, deadline=None)
def test_all_bounds_are_finite_everywhere(gaps, rate, horizon, constants):
    for bound in (*PASSIVE_BOUNDS, *ACTIVE_BOUNDS):
        value = evaluate_bound(bound, gaps, rate, horizon, **constants)
        assert isinstance(value, float)
        assert 0 <= value < math.inf
    for bound in (lower.passive_theorem, lower.active_theorem, lower.active_alternative):
        for form in ("printed", "leading"):
            assert math.isfinite(evaluate_bound(bound, gaps, rate, horizon, form=form, **constants))
    for bound in (lower.passive_fixed_stage, lower.active_fixed_stage):
        assert math.isfinite(evaluate_bound(bound, gaps, rate, horizon, form="printed", **constants))
    assert math.isfinite(lower.reference_curve(gaps, rate, horizon))


@given(st.floats(1e-6, 100), st.integers(2, 200), rates, horizons)
@few_examples
def test_equal_gaps_bound_is_finite_everywhere(gap, n_arms, rate, horizon):
    for form in ("proved", "leading", "printed"):
        value = lower.active_equal_gaps(n_arms, gap, rate, horizon, form=form)
        assert 0 <= value <= math.inf
        assert math.isfinite(value) or (rate == 0 and form != "proved")


@pytest.mark.parametrize("bound", [*PASSIVE_BOUNDS, *ACTIVE_BOUNDS])
def test_bounds_work_for_200_arms(bound):
    gaps = np.concatenate(([0.0], np.geomspace(1e-6, 100, 199)))
    for rate, horizon in ((0.0, 10**15), (1e-9, 10**12), (1.0, 10)):
        assert 0 <= evaluate_bound(bound, gaps, rate, horizon) < math.inf


@pytest.mark.parametrize("bound", [*PASSIVE_BOUNDS, *ACTIVE_BOUNDS, lower.active_multi_period])
def test_bounds_are_0_if_all_arms_are_optimal(bound):
    for gaps in ([0.0], [0.0, 0.0, 0.0]):
        assert evaluate_bound(bound, gaps, 0.1, 10**6) == 0


@given(gap_lists, rates, horizons, constants, st.floats(0.1, 10))
@few_examples
def test_bounds_do_not_depend_on_the_unit_of_reward(gaps, rate, horizon, constants, unit):
    """Check the effect of measuring rewards in other units.

    If the gaps are multiplied by u, C by u², and ε is divided by u², then all numbers of pulls are
    divided by u² and all regrets by u.
    """
    scaled_gaps = [unit * gap for gap in gaps]
    assume(rate / unit**2 <= 1)
    scaled_constants = {"C": constants["C"] * unit**2, "C_0": constants["C_0"]}
    for bound in (
        lower.passive_fixed_stage,
        lower.passive_maximum,
        lower.active_fixed_stage,
        lower.active_maximum,
        lower.active_chain,
    ):
        bound_in_units = evaluate_bound(bound, gaps, rate, horizon, **constants)
        bound_in_other_units = evaluate_bound(
            bound, scaled_gaps, rate / unit**2, horizon, **scaled_constants
        )
        magnitude = lower.passive_fixed_stage(gaps, 0, None, horizon, **constants)
        assert unit * bound_in_other_units == pytest.approx(
            bound_in_units, rel=1e-6, abs=1e-9 * (1 + magnitude)
        )


@pytest.mark.slow
@given(gap_lists, rates, horizons, st.floats(0, 1), st.integers(1, 1000))
@few_examples
def test_bounds_fall_with_the_rate_and_grow_with_the_horizon(gaps, rate, horizon, share, factor):
    for bound in (
        lower.passive_maximum,
        lower.passive_sharp,
        lower.active_maximum,
        lower.active_chain,
    ):
        value = evaluate_bound(bound, gaps, rate, horizon)
        assert evaluate_bound(bound, gaps, share * rate, horizon) >= value * (1 - 1e-5)
        assert evaluate_bound(bound, gaps, rate, min(horizon * factor, 2**53)) >= value * (1 - 1e-5)


@given(gap_lists, rates, horizons, st.randoms(use_true_random=False))
@few_examples
def test_the_order_of_the_arms_does_not_matter(gaps, rate, horizon, random):
    arm_order = list(range(len(gaps)))
    random.shuffle(arm_order)
    weights = np.arange(1.0, len(gaps) + 1) / sum(range(1, len(gaps) + 1))
    shuffled_gaps = [gaps[i] for i in arm_order]
    for bound in (*PASSIVE_BOUNDS, *ACTIVE_BOUNDS):
        p = (weights,) if bound in PASSIVE_BOUNDS else ()
        bound_in_order = bound(gaps, rate, *p, horizon, **SMALL_CONSTANTS, details=True)
        p = (weights[arm_order],) if bound in PASSIVE_BOUNDS else ()
        bound_of_shuffled = bound(shuffled_gaps, rate, *p, horizon, **SMALL_CONSTANTS, details=True)
        assert bound_of_shuffled.total == pytest.approx(bound_in_order.total, rel=1e-6, abs=1e-12)
        if len(set(gaps)) == len(gaps):
            assert bound_of_shuffled.terms == pytest.approx(
                bound_in_order.terms[arm_order], rel=1e-6, abs=1e-12
            )


@pytest.mark.parametrize("bound", [*PASSIVE_BOUNDS, *ACTIVE_BOUNDS])
def test_rates_and_horizons_broadcast(bound):
    rate, horizon = np.array([0.0, 1e-6, 1e-3])[:, None], np.array([2, 10**4, 10**8, 10**12])
    table = evaluate_bound(bound, FIVE_GAPS, rate, horizon, **SMALL_CONSTANTS, details=True)
    assert table.total.shape == (3, 4)
    assert table.terms.shape == (3, 4, 5)
    assert table.total == pytest.approx(table.terms.sum(axis=-1))
    for i in range(3):
        for j in range(4):
            single_bound = evaluate_bound(
                bound, FIVE_GAPS, float(rate[i, 0]), int(horizon[j]), **SMALL_CONSTANTS
            )
            assert isinstance(single_bound, float)
            assert table.total[i, j] == pytest.approx(single_bound, rel=1e-12)


def test_ties_do_not_change_other_arms():
    bound_with_tie = lower.passive_maximum([0, 0.5, 0.5], 1e-6, None, 10**8, details=True)
    assert bound_with_tie.terms[1] == bound_with_tie.terms[2] > 0
    bound_without_tie = lower.active_maximum([0, 0.5, 0.5 + 1e-9], 1e-6, 10**8)
    assert bound_without_tie == pytest.approx(
        lower.active_maximum([0, 0.5, 0.5], 1e-6, 10**8), rel=1e-6
    )
    constraint_with_two_best = lower.observation_constraint([0, 0, 0.5], 10**6)
    assert constraint_with_two_best.tolist() == [
        0,
        0,
        pytest.approx(compute_h_plainly([0, 0, 0.5], 2, 10**6, *UCB1_CONSTANTS)),
    ]


def test_invalid_arguments_raise():
    for gaps in ([0.1, 0.2], [], [0, -1], [0, math.nan], [0, math.inf], 3.0):
        with pytest.raises(ValueError, match="gaps must be"):
            lower.passive_theorem(gaps, 0.1, None, 100)
    for rate in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="rate must be"):
            lower.active_maximum(FOUR_GAPS, rate, 100)
    for horizon in (0, 2.5, math.nan, math.inf, 2**54):
        with pytest.raises(ValueError, match="horizon must be"):
            lower.passive_sharp(FOUR_GAPS, 0.1, None, horizon)
    for weights in ([0.5, 0.5], [1, 1, 0, 0], [-0.5, 0.5, 0.5, 0.5], [math.nan] * 4):
        with pytest.raises(ValueError, match="weights must be"):
            lower.passive_maximum(FOUR_GAPS, 0.1, weights, 100)
    for constants in ({"C": 0}, {"C": math.nan}, {"C_0": -1}):
        with pytest.raises(ValueError, match="must be"):
            lower.passive_maximum(FOUR_GAPS, 0.1, None, 100, **constants)
    with pytest.raises(ValueError, match="form must be one of proved, printed, got 'leading'"):
        lower.passive_fixed_stage(FOUR_GAPS, 0.1, None, 100, form="leading")
    with pytest.raises(ValueError, match="stage must be finite and > 1"):
        lower.eta(FOUR_GAPS, 1)
    with pytest.raises(ValueError, match="x must be"):
        lower.observation_constraint(FOUR_GAPS, 10, x=0)


# The printed formulas, written out in full


def compute_printed_h(gaps, i, t, C, C_0):
    """Return h_i(t) as printed in appendix A: the leading term plus η_i."""
    d = gaps[i]
    S = sum(d / (d + other_gap) for j, other_gap in enumerate(gaps) if j != i)
    C_K, C_delta = C_0 * sum(gaps), sum(1 / g for g in gaps if g > 0)
    log_t = math.log(t)
    eta = -(C_K + C * C_delta * log_t) / t * math.log(t * d**2 / (C_K * d + C * log_t * S))
    eta -= math.log(1 + C_K * d / (C * log_t * S))
    return math.log(t * d**2 / (2 * C * log_t * S)) + eta


@pytest.mark.parametrize("rate", [1e-7, 1e-4, 0.05])
@pytest.mark.parametrize("text", ["main", "appendix"])
def test_printed_form_of_the_passive_theorem_equals_the_papers_formula(rate, text):
    T, weights, expected_bound = 10**6, [0.1, 0.2, 0.3, 0.2, 0.2], 0.0
    for i in range(1, 5):
        q, factor = rate * weights[i], 2 if text == "main" else 4
        best_stage = 1 / (factor * q * FIVE_GAPS[i] ** 2)
        if best_stage >= T:
            expected_bound += (
                compute_printed_h(FIVE_GAPS, i, T, *UCB1_CONSTANTS) - 2 * q * FIVE_GAPS[i] ** 2 * T
            ) / (2 * FIVE_GAPS[i])
        elif best_stage > 1:
            expected_bound += (
                compute_printed_h(FIVE_GAPS, i, best_stage, *UCB1_CONSTANTS) - 2 / factor
            ) / (2 * FIVE_GAPS[i])
    printed_bound = lower.passive_theorem(FIVE_GAPS, rate, weights, T, text=text, form="printed")
    assert printed_bound == pytest.approx(expected_bound)


@pytest.mark.parametrize("rate", [0.0, 1e-6, 1e-5, 1e-4, 1e-3])
def test_printed_form_of_the_active_lemma_equals_the_papers_formula(rate):
    T = 10**6
    h = [0.0] + [compute_printed_h(FIVE_GAPS, i, T, *UCB1_CONSTANTS) for i in range(1, 5)]
    tails = [sum(h[j] / (2 * FIVE_GAPS[j] ** 2) for j in range(i + 1, 5)) for i in range(5)]
    k = min(i for i in range(1, 5) if tails[i] <= rate * T)
    value = sum(h[i] / (2 * FIVE_GAPS[i]) for i in range(1, k + 1)) - FIVE_GAPS[k] * (
        rate * T - tails[k]
    )
    printed_bound = lower.active_fixed_stage(FIVE_GAPS, rate, T, form="printed")
    assert printed_bound == pytest.approx(value)
    shuffled_gaps = [FIVE_GAPS[i] for i in (3, 0, 4, 2, 1)]
    assert lower.active_fixed_stage(shuffled_gaps, rate, T, form="printed") == pytest.approx(value)


@pytest.mark.parametrize("rate", [1e-6, 1e-4, 1e-2])
def test_printed_form_of_the_active_theorem_equals_the_papers_formula(rate):
    values = []
    for k in range(2, 5):
        stage = sum(1 / (2 * d**2) for d in FIVE_GAPS[k:]) / rate
        values.append(
            sum(
                compute_printed_h(FIVE_GAPS, i, stage, *UCB1_CONSTANTS) / FIVE_GAPS[i]
                for i in range(1, k)
            )
        )
    printed_bound = lower.active_theorem(FIVE_GAPS, rate, 10**12, form="printed")
    assert printed_bound == pytest.approx(max(values))


def test_the_leading_terms_are_those_of_the_paper():
    rate, T = 1e-6, 2**53
    S = [sum(d / (d + other_gap) for other_gap in FIVE_GAPS) - 0.5 for d in FIVE_GAPS[1:]]
    passive = sum(
        math.log(1 / (32 * rate * 0.2 * s)) / (2 * d) for d, s in zip(FIVE_GAPS[1:], S, strict=True)
    )
    assert lower.passive_theorem(FIVE_GAPS, rate, None, T, form="leading") == pytest.approx(passive)
    active_leading_term = max(
        sum(
            math.log(sum(FIVE_GAPS[i] ** 2 / d**2 for d in FIVE_GAPS[k:]) / (32 * rate * S[i - 1]))
            / (2 * FIVE_GAPS[i])
            for i in range(1, k)
        )
        for k in range(2, 5)
    )
    assert lower.active_theorem(FIVE_GAPS, rate, T, form="leading") == pytest.approx(
        active_leading_term
    )


# The errata, one by one


def test_d1_the_literal_constraint_explodes_at_small_stages():
    t = np.arange(3.0, 10_001)
    literal_h = lower.observation_constraint(FOUR_GAPS, t, variant="printed")
    assert literal_h[0, 1] == pytest.approx(104.65, abs=0.005)
    pulls = (literal_h[:, 1:] / (2 * np.array(FOUR_GAPS[1:]) ** 2) - 0.01 / 4 * t[:, None]).max(
        axis=0
    )
    assert pulls[0] == pytest.approx(1308, abs=0.5)
    assert pulls[0] > 3  # the printed constraint claims more pulls than its 3 stages have
    assert (np.array(FOUR_GAPS[1:]) * pulls).sum() == pytest.approx(284.8, abs=0.05)
    assert lower.observation_constraint(FOUR_GAPS, 3.0).tolist() == [0] * 4


def test_d2_a_small_regret_does_not_mean_few_bad_pulls():
    gaps, T = [0.0, 0.1], 1000
    allowed_regret = compute_allowed_regret(gaps, T, *UCB1_CONSTANTS)
    assert gaps[1] * T <= allowed_regret  # Definition 1 allows a policy that always pulls the bad arm
    printed_share, correct_share = 1 - allowed_regret / T, 1 - allowed_regret / (T * gaps[1])
    share_of_best_arm = 0.0
    assert printed_share > 0.4 > share_of_best_arm >= correct_share


def test_d3_the_raised_problem_has_larger_gaps():
    gaps, i = [0.0, 0.1, 1.0], 1
    problem = raise_arm(gaps, i, gaps[i])
    assert problem == pytest.approx([0.1, 0.0, 1.1])
    assert sum(problem) > sum(gaps)
    t = 10.0**4
    P, Q = compute_pq(gaps, i, t, gaps[i], *UCB1_CONSTANTS, 0.1)
    assert lower.observation_constraint(gaps, t)[i] == pytest.approx(
        max(0, P * math.log(1 / Q) - math.log(2))
    )


def test_d4_the_sum_over_arms_leaves_out_the_best():
    assert complexity.c_delta(FOUR_GAPS) == pytest.approx(1 / 0.2 + 1 / 1.5 + 1 / 1.8)


def test_d6_a_copy_of_the_reward_adds_no_information():
    a, b = 0.3, 0.7
    divergence_of_fresh = sum(
        (a if x else 1 - a)
        * (a if y else 1 - a)
        * math.log((a if x else 1 - a) * (a if y else 1 - a))
        - (a if x else 1 - a)
        * (a if y else 1 - a)
        * math.log((b if x else 1 - b) * (b if y else 1 - b))
        for x in (0, 1)
        for y in (0, 1)
    )
    divergence_of_copy = kl(a, b)  # the pair (X, X) has only the values (0, 0) and (1, 1)
    assert divergence_of_fresh == pytest.approx(2 * kl(a, b))
    assert divergence_of_copy < divergence_of_fresh


def test_d8_both_closed_forms_are_valid_and_neither_always_wins():
    def closed_forms_and_maximum(gap, rate, C, C_0):
        closed_forms = (
            lower.passive_theorem([0, gap], rate, [0, 1], 10**15, C=C, C_0=C_0, text=text)
            for text in ("main", "appendix")
        )
        return (*closed_forms, lower.passive_maximum([0, gap], rate, [0, 1], 10**15, C=C, C_0=C_0))

    main_text_bound, appendix_bound, maximum = closed_forms_and_maximum(
        0.2, 1e-5, 2.0, 1.0
    )  # the best stage is late
    assert 0 < appendix_bound < main_text_bound <= maximum
    main_text_bound, appendix_bound, maximum = closed_forms_and_maximum(
        3.0, 0.01, 1.0, 0.1
    )  # the best stage is early
    assert 0 < main_text_bound < appendix_bound <= maximum
    threshold = 3.2530  # for P = 1, the stage of the main text is better if log t + c exceeds u
    assert math.log(2) - math.log((threshold + math.log(2)) / threshold) == pytest.approx(
        0.5, abs=1e-4
    )


def test_d9_the_printed_active_theorem_exceeds_the_program_it_comes_from():
    """D9: the printed theorem, and twice the corrected theorem, exceed the linear program."""
    gaps, rate, T = [0.0] + [0.5] * 4, 1e-4, 10**9
    program_bound = lower.active_maximum(gaps, rate, T)
    assert program_bound == pytest.approx(10.71, abs=0.005)
    assert 2 * lower.active_theorem(gaps, rate, T) == pytest.approx(13.76, abs=0.005)
    assert lower.active_theorem(gaps, rate, T, form="printed") == pytest.approx(14.47, abs=0.005)


def test_d10_looks_may_cover_the_needs_before_the_printed_stage():
    gaps, rate = [0.0, 0.5, 0.5], 0.1
    t = np.arange(1.0, 10**5)
    required_counts = lower.required_observations(gaps, t)[:, 2]
    assert (required_counts <= rate * t).all()  # there is no stage t_2, but the paper claims t_2 ≥ 20
    assert 1 / (2 * 0.5**2) / rate == 20
    assert lower.active_theorem(gaps, rate, 10**5) == 0
    assert lower.active_theorem(gaps, rate, 10**5, form="printed") > 10


def test_d10_without_its_condition_nothing_is_claimed():
    gaps, outcomes = [0.0, 0.5, 0.5], []
    for rate in np.geomspace(1e-5, 0.1, 60):
        h = lower.observation_constraint(gaps, math.floor(2 / rate))[1]
        claimed_bound = lower.active_theorem(gaps, rate, 10**9)
        stage_cannot_be_reached = h * 2 < rate * math.floor(2 / rate)
        assert claimed_bound == (0 if stage_cannot_be_reached else pytest.approx(h))
        assert claimed_bound <= lower.active_maximum(gaps, rate, 10**9)
        outcomes.append((h > 0, stage_cannot_be_reached))
    assert {(True, True), (True, False), (False, True)} == set(outcomes)


def test_d10_with_its_condition_the_printed_stage_is_reached():
    rng, n_condition_met, n_stage_missed = np.random.default_rng(0), 0, 0
    t = np.arange(3.0, 10**5)
    for _ in range(20):
        gaps, rate = np.sort(draw_gaps(rng, 5)), 10 ** rng.uniform(-3.5, -0.5)
        required_counts = lower.required_observations(gaps, t, **SMALL_CONSTANTS)
        for k in range(2, 5):
            stage = (1 / (2 * gaps[k:] ** 2)).sum() / rate
            if not 3 <= stage <= t[-1]:
                continue
            uncovered_stages = t[required_counts[:, k:].sum(axis=1) > rate * t]
            is_reached = len(uncovered_stages) > 0 and uncovered_stages[-1] >= math.floor(stage)
            h = lower.observation_constraint(gaps, stage, **SMALL_CONSTANTS)[k:]
            if (h / gaps[k:] ** 2).sum() >= (1 / gaps[k:] ** 2).sum():
                n_condition_met += 1
                assert is_reached
            elif not is_reached:
                n_stage_missed += 1
    assert n_condition_met > 5
    assert n_stage_missed > 5


def test_d11_the_printed_program_has_a_negative_value():
    """D11: the printed formula is negative if there are many looks; the correct bound is 0."""
    for T in (10**6, 10**8):
        assert lower.active_fixed_stage(FOUR_GAPS, 0.1, T, form="printed") < 0
        assert lower.active_fixed_stage(FOUR_GAPS, 0.1, T) == 0


@pytest.mark.parametrize("log_inverse", [5.0, 50.0, 500.0])
def test_d12_the_limit_for_equal_gaps_lacks_a_minus_one(log_inverse):
    with mpmath.workdps(30):
        y = mpmath.lambertw(mpmath.exp(1 + log_inverse)).real
        share = 1 - 1 / y
        value = y - 2 + 1 / y
        assert mpmath.almosteq(share * (mpmath.log(1 - share) + log_inverse), value, 1e-20)
        for other_share in (share * 0.999, share + (1 - share) / 1000):
            assert other_share * (mpmath.log(1 - other_share) + log_inverse) < value
        corrected_limit = log_inverse - mpmath.log(1 + log_inverse) - 1
        assert abs(value - corrected_limit) < 2 * mpmath.log(1 + log_inverse) / log_inverse
    if log_inverse < 300:
        rate, n_arms = math.exp(-log_inverse), 10**5
        leading_term = lower.active_equal_gaps(n_arms, 1.0, rate, 2**53, form="leading")
        assert leading_term / n_arms == pytest.approx(float(value), rel=1e-3)
        printed_limit = lower.active_equal_gaps(n_arms, 1.0, rate, 2**53, form="printed")
        assert (printed_limit - leading_term) / n_arms == pytest.approx(1, abs=0.6)
        assert printed_limit / leading_term > 1.01


def test_d12_the_factor_two_is_also_missing_for_equal_gaps():
    """D12: the leading term is more than twice the value of the linear program."""
    n_arms, gap, rate = 20, 0.2, 1e-5
    leading_term = lower.active_equal_gaps(n_arms, gap, rate, 2**53, form="leading")
    assert leading_term > 2 * lower.active_maximum([0.0] + [gap] * 19, rate, 2**53, **SMALL_CONSTANTS)


def test_d16_d42_an_observation_is_worth_half_the_squared_distance():
    t = 10.0**6
    h, required_counts = (
        lower.observation_constraint(FOUR_GAPS, t),
        lower.required_observations(FOUR_GAPS, t),
    )
    assert required_counts[1:] == pytest.approx(h[1:] / (2 * np.array(FOUR_GAPS[1:]) ** 2))
    divergence = mpmath.quad(
        lambda z: mpmath.npdf(z) * (mpmath.log(mpmath.npdf(z)) - mpmath.log(mpmath.npdf(z - 0.4))),
        [-20, 0, 20],
    )
    assert float(divergence) == pytest.approx(0.4**2 / 2)  # x + Δ = 2Δ = 0.4, so 1/(2Δ²) = 12.5


def test_d31_weights_have_to_be_normalised():
    with pytest.raises(ValueError, match="weights must be"):
        lower.passive_theorem(FOUR_GAPS, 0.1, [0, 1 / 0.2, 1 / 1.5, 1 / 1.8], 100)
    optimal_weights = complexity.optimal_weights(FOUR_GAPS)
    assert optimal_weights == pytest.approx([0, 0.8036, 0.1071, 0.0893], abs=5e-5)
    assert complexity.optimal_weights(FOUR_GAPS, power=2) == pytest.approx(
        [0, 0.9708, 0.0173, 0.0120], abs=6e-5
    )
    bound_at_optimal_weights = lower.passive_theorem(
        FOUR_GAPS, 1e-9, optimal_weights, 2**53, form="leading"
    )
    for weights in np.random.default_rng(0).dirichlet(np.ones(4), 200):
        assert (
            lower.passive_theorem(FOUR_GAPS, 1e-9, weights, 2**53, form="leading")
            >= bound_at_optimal_weights
        )


def test_d40_the_lowest_lower_bound_is_a_leading_term():
    optimal_weights = complexity.optimal_weights(FOUR_GAPS)
    rate = 5e-3
    leading_term = lower.passive_theorem(FOUR_GAPS, rate, optimal_weights, 2**53, form="leading")
    assert leading_term > 3
    assert lower.passive_maximum(FOUR_GAPS, rate, optimal_weights, 2**53) == 0
    simplest_formula = sum(1 / (2 * d) * math.log(1 / (32 * rate)) for d in FOUR_GAPS[1:])
    assert leading_term >= simplest_formula > 0


def test_d43_a_fractional_stage_gives_a_larger_bound_than_whole_stages():
    gaps, rate, constants = [0.0, 5.38], 0.004, {"C": 2.0, "C_0": 0.5}
    best_stage = 1 / (2 * rate * gaps[1] ** 2)
    assert best_stage == pytest.approx(4.3186, abs=1e-4)
    bound_at_real_stage = (lower.observation_constraint(gaps, best_stage, **constants)[1] - 1) / (
        2 * gaps[1]
    )
    bound_at_whole_stages = search_passive_maximum(gaps, [0, rate], 10**5, **constants)
    assert 0 < bound_at_whole_stages < 0.3 * bound_at_real_stage
    assert lower.passive_maximum(gaps, rate, [0, 1], 10**5, **constants) == pytest.approx(
        bound_at_whole_stages
    )
    assert lower.passive_theorem(gaps, rate, [0, 1], 10**5, **constants) <= bound_at_whole_stages
    assert bound_at_real_stage - gaps[1] * rate <= bound_at_whole_stages


def test_d44_the_printed_bound_on_an_arm_can_be_negative():
    gaps, rate = [0.0, 0.01, 5.0], 1e-4
    printed_bound = lower.passive_theorem(
        gaps, rate, None, 10**9, form="printed", details=True, **SMALL_CONSTANTS
    )
    assert printed_bound.terms.min() < 0
    assert (
        lower.passive_theorem(gaps, rate, None, 10**9, **SMALL_CONSTANTS, details=True).terms.min()
        == 0
    )
    undefined_bound = lower.passive_theorem([0, 2.0], 1.0, None, 10**9, form="printed", details=True)
    assert undefined_bound.terms.tolist() == [0, 0]  # no log log at stage 1/(2 ε p Δ²) = 1/4


def test_d45_the_reference_curve_bends_at_one_over_rate_gap_squared():
    assert lower.reference_curve([0, 0.5], 0.01, 100) == pytest.approx(2 * math.log(100))
    assert lower.reference_curve([0, 0.5], 0.01, 10**9) == pytest.approx(2 * math.log(400))
    assert lower.reference_curve([0, 0.5], 0, 10**9) == pytest.approx(2 * math.log(10**9))
    assert lower.reference_curve([0, 5], 1, 10**9) == 0


@pytest.mark.parametrize("gaps", [FOUR_GAPS, FIVE_GAPS])
@pytest.mark.parametrize("T", [10**4, 10**8])
def test_d47_on_the_papers_problems_nothing_is_proved(gaps, T):
    for rate in (0.1, 0.01):
        for weights in (None, complexity.optimal_weights(gaps)):
            assert lower.passive_maximum(gaps, rate, weights, T) == 0
        assert lower.active_maximum(gaps, rate, T) == 0
        assert lower.active_alternative(gaps, rate, T, exact=True) == 0
        assert lower.passive_theorem(gaps, rate, None, T, form="leading") > 0 or rate == 0.1
    assert lower.passive_sharp(gaps, 0.1, None, T) == 0
