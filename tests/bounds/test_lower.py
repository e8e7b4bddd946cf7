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

FOUR = [0.0, 0.2, 1.5, 1.8]  # the gaps of the paper's two problems
FIVE = [0.0, 0.2, 0.5, 1.0, 1.5]
UCB1 = (8.0, 1 + math.pi**2 / 3)
SMALL = {"C": 2.0, "C_0": 1.0}

gap_lists = st.lists(
    st.one_of(st.just(0.0), st.floats(1e-6, 100), st.sampled_from([0.2, 0.2, 0.5, 1.0])),
    min_size=1,
    max_size=6,
).map(lambda gaps: [0.0, *gaps])
rates = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(1e-12, 1))
horizons = st.one_of(st.sampled_from([1, 2, 3, 4, 7, 8, 10**12, 10**15]), st.integers(1, 10**6))
constants = st.fixed_dictionaries({"C": st.floats(0.05, 50), "C_0": st.floats(0, 10)})
few = settings(max_examples=40, deadline=None)

PASSIVE = [
    lower.passive_fixed_stage,
    lower.passive_theorem,
    lower.passive_maximum,
    lower.passive_sharp,
]
ACTIVE = [
    lower.active_fixed_stage,
    lower.active_theorem,
    lower.active_chain,
    lower.active_maximum,
    lower.active_alternative,
]


def call(bound, gaps, rate, horizon, **options):
    """Return the value of a bound; a bound for a passive observer gets uniform weights."""
    weights = (None,) if bound in PASSIVE else ()
    return bound(gaps, rate, *weights, horizon, **options)


# The formulas in plain Python, one number at a time


def regret_allowed(gaps, t, C, C_0):
    """Return the regret that Definition 1 of the paper allows up to stage t."""
    return C * math.log(t) * sum(1 / d for d in gaps if d > 0) + C_0 * sum(gaps)


def raised(gaps, i, x):
    """Return the gaps after the mean of arm i is raised to x above the best mean."""
    return [0.0 if j == i else x + d for j, d in enumerate(gaps)]


def plain_pq(gaps, i, t, x, C, C_0, divisor):
    """Return P and Q of the constraint of arm i at stage t, with arm i raised to x above the best."""
    P = 1 - regret_allowed(gaps, t, C, C_0) / (t * divisor)
    Q = regret_allowed(raised(gaps, i, x), t, C, C_0) / (t * x)
    return P, Q


def plain_h(gaps, i, t, C, C_0, x=None, divisor=None):
    """Return the constraint h_i(t) = (P log(1/Q) − log 2)_+."""
    x = gaps[i] if x is None else x
    smallest = min(d for d in gaps if d > 0)
    P, Q = plain_pq(gaps, i, t, x, C, C_0, divisor or smallest)
    return max(0.0, max(P, 0.0) * max(math.log(1 / Q), 0.0) - math.log(2)) if t >= 3 else 0.0


def kl(p, q):
    """Return the Kullback–Leibler divergence of two Bernoulli distributions."""
    first = p * math.log(p / q) if p > 0 else 0.0
    return first + ((1 - p) * math.log((1 - p) / (1 - q)) if p < 1 else 0.0)


def random_gaps(rng, n=None):
    n = n or rng.integers(2, 7)
    return [0.0, *rng.uniform(0.1, 1, n - 1).tolist()]


# The constraint


@pytest.mark.parametrize("seed", range(30))
def test_the_constraint_is_the_one_written_out_in_plain_python(seed):
    rng = np.random.default_rng(seed)
    gaps, t = random_gaps(rng), float(rng.integers(3, 10**6))
    C, C_0 = rng.uniform(0.1, 10, 2)
    x = rng.uniform(0.05, 2)
    clip = lower.observation_constraint(gaps, t, x=x, C=C, C_0=C_0)
    sharp = lower.observation_constraint(gaps, t, x=x, variant="sharp", C=C, C_0=C_0)
    exact = lower.observation_constraint(gaps, t, x=x, variant="kl", C=C, C_0=C_0)
    needs = lower.required_observations(gaps, t, x=x, C=C, C_0=C_0)
    for i in range(1, len(gaps)):
        assert clip[i] == pytest.approx(plain_h(gaps, i, t, C, C_0, x), rel=1e-12, abs=1e-12)
        assert sharp[i] == pytest.approx(plain_h(gaps, i, t, C, C_0, x, gaps[i]), abs=1e-12)
        P, Q = plain_pq(gaps, i, t, x, C, C_0, min(gaps[1:]))
        assert exact[i] == pytest.approx(kl(P, Q) if max(Q, 0) < P else 0.0, rel=1e-9, abs=1e-12)
        assert needs[i] == pytest.approx(2 * clip[i] / (x + gaps[i]) ** 2)
    assert clip[0] == sharp[0] == exact[0] == needs[0] == 0


@given(gap_lists, st.floats(3, 1e15), constants)
@few
def test_the_variants_only_improve_on_the_papers_argument(gaps, t, constants):
    clip = lower.observation_constraint(gaps, t, **constants)
    for variant in ("sharp", "kl"):
        better = lower.observation_constraint(gaps, t, variant=variant, **constants)
        assert (better >= clip * (1 - 1e-9) - 1e-9).all()


@given(gap_lists, st.floats(1.01, 1e15), constants, st.sampled_from(["clip", "sharp", "printed"]))
@few
def test_eta_is_h_minus_the_leading_term(gaps, t, constants, variant):
    eta = lower.eta(gaps, t, variant=variant, **constants)
    C, C_0 = constants["C"], constants["C_0"]
    for i, gap in enumerate(gaps):
        if gap == 0:
            continue
        S = sum(1 / (gap + other) for j, other in enumerate(gaps) if j != i)
        leading = math.log(t * gap / (2 * C * math.log(t) * S))
        smallest = min(d for d in gaps if d > 0)
        divisor = {"clip": smallest, "sharp": gap, "printed": 1.0}[variant]
        P = 1 - regret_allowed(gaps, t, C, C_0) / (t * divisor)
        C_K = C_0 * (sum(gaps) if variant == "printed" else sum(raised(gaps, i, gap)))
        literal = P * math.log(t * gap / (C_K + C * S * math.log(t))) - math.log(2)
        assert leading + eta[i] == pytest.approx(literal, rel=1e-8, abs=1e-8)


def test_eta_vanishes_like_one_over_log():
    t = np.array([1e30, 1e60, 1e120, 1e240])
    scaled = lower.eta(FIVE, t)[:, 1:] * np.log(t)[:, None]
    S = [sum(1 / (a + b) for b in FIVE) - 1 / (2 * a) for a in FIVE[1:]]
    limit = [-UCB1[1] * sum(raised(FIVE, i + 1, FIVE[i + 1])) / (8 * s) for i, s in enumerate(S)]
    assert scaled[-1] == pytest.approx(limit, rel=0.03)
    assert (np.abs(scaled - limit)[1:] < np.abs(scaled - limit)[:-1]).all()


@given(gap_lists, st.floats(math.e, 1e15), st.floats(1, 10), constants)
@few
def test_d7_the_clipped_constraint_never_falls_after_stage_e(gaps, t, factor, constants):
    now = lower.observation_constraint(gaps, t, **constants)
    later = lower.observation_constraint(gaps, t * factor, **constants)
    assert (later >= now - 1e-9).all()


def test_d7_the_literal_constraint_falls():
    literal = lower.observation_constraint(FOUR, np.arange(3.0, 100.0), variant="printed")[:, 1]
    assert (np.diff(literal) < 0).all()


@given(gap_lists, st.floats(8, 1e12), constants)
@few
def test_d7_the_slope_is_at_least_p_over_t_less_a_little(gaps, t, constants):
    c = make_constraint(np.array(gaps), variant="clip", **constants)
    step = 1e-4 * t
    h = lower.observation_constraint(gaps, [t, t + step], **constants)
    for i, gap in enumerate(gaps):
        if gap == 0 or h[0, i] == 0:
            continue
        P = 1 - regret_allowed(gaps, t, **constants) / (t * min(d for d in gaps if d > 0))
        rank = int(np.flatnonzero(np.flatnonzero(c.suboptimal) == i)[0])
        shift = c.v[0][rank] / c.v[1][rank]
        least = P / (t + step) * (1 - 1 / (math.log(t) + shift))
        assert (h[1, i] - h[0, i]) / step >= least * (1 - 1e-6) - 1e-9 / step


def test_the_constraint_is_concave_wherever_it_is_positive():
    """Check the inequality behind the bisection in `find_best_stages` on a fine grid."""
    r, s, L, b = np.meshgrid(
        np.linspace(0, 1, 101)[:-1],
        np.linspace(0, 0.5, 26),
        np.geomspace(math.log(2), 100, 200),
        [0, 0.5],
    )
    second = (3 * b * r - 2 * r) * L + 2 * (r - b * r) * (1 - s) - (1 - r) * (1 - s - s**2)
    assert second[(1 - r) * L >= math.log(2)].max() < 0


# Passive observer


def brute_passive(gaps, q, horizon, **constants):
    """Return Σ_i Δ_i max_t (a_i(t) − q_i t)_+, where a_i(t) are the required observations."""
    total, t = 0.0, np.arange(3.0, horizon + 1)
    needs = lower.required_observations(gaps, t, **constants)
    for i, gap in enumerate(gaps):
        total += gap * max(0.0, float((needs[:, i] - q[i] * t).max(initial=0.0)))
    return total


@pytest.mark.parametrize("seed", range(8))
def test_the_passive_maximum_is_the_largest_over_a_million_stages(seed):
    rng = np.random.default_rng(seed)
    gaps, horizon = random_gaps(rng, 4), 10**6
    weights = rng.dirichlet(np.ones(4))
    rate = 10 ** rng.uniform(-7, -2)
    value = lower.passive_maximum(gaps, rate, weights, horizon, **SMALL)
    brute = brute_passive(gaps, rate * weights, horizon, **SMALL)
    assert brute > 0
    assert value == pytest.approx(brute, rel=1e-12)


@given(gap_lists, rates, st.integers(1, 3000), constants)
@example([0.0, 20.0], 1e-3, 3000, {"C": 0.5, "C_0": 0.1})
@settings(max_examples=150, deadline=None)
def test_the_passive_maximum_is_the_largest_over_all_stages(gaps, rate, horizon, constants):
    weights = np.full(len(gaps), 1 / len(gaps))
    value = lower.passive_maximum(gaps, rate, None, horizon, **constants)
    brute = brute_passive(gaps, rate * weights, horizon, **constants)
    assert value == pytest.approx(brute, rel=1e-9, abs=1e-9)


def test_best_stage_finds_a_peak_at_the_largest_stages():
    for peak in (2**53 - 1000, 2**52 + 12345, 10**15 + 7):
        assert find_best_stage(lambda t, peak=peak: -abs(t - peak), float(2**53)) == peak


def test_each_arm_has_its_own_best_stage():
    found = lower.passive_maximum(FIVE, 1e-6, None, 10**9, details=True)
    assert isinstance(found, Bound)
    for i, (gap, stage) in enumerate(zip(FIVE, found.stages, strict=True)):
        if gap > 0:
            needs = lower.required_observations(FIVE, stage)[i]
            assert found.terms[i] == pytest.approx(gap * (needs - 1e-6 / 5 * stage))
            for other in (stage - 1, stage + 1, stage / 2, stage * 2):
                less = lower.required_observations(FIVE, other)[i] - 1e-6 / 5 * other
                assert found.terms[i] >= gap * less
    assert found.stages[0] == found.terms[0] == 0
    assert len(set(found.stages)) == 5


@given(gap_lists, rates, horizons, constants, st.sampled_from(["main", "appendix"]))
@few
def test_the_theorem_never_exceeds_the_maximum(gaps, rate, horizon, constants, text):
    theorem = lower.passive_theorem(gaps, rate, None, horizon, text=text, **constants)
    fixed = lower.passive_fixed_stage(gaps, rate, None, horizon, **constants)
    assert max(theorem, fixed) <= lower.passive_maximum(gaps, rate, None, horizon, **constants) + 1e-9


def test_the_theorem_is_the_corrected_formula_up_to_one_stage():
    for rate in (1e-3, 1e-5, 1e-7):
        found = lower.passive_theorem(FIVE, rate, None, 10**15, **SMALL, details=True)
        for i in range(1, 5):
            gap, turn = FIVE[i], 1 / (2 * rate / 5 * FIVE[i] ** 2)
            closed = max(0.0, (plain_h(FIVE, i, turn, 2, 1) - 1) / (2 * gap))
            assert closed - gap * rate / 5 - 1e-12 <= found.terms[i] <= closed + gap * rate / 5
            assert found.stages[i] in (math.ceil(turn), 0)


def test_theorem_uses_the_horizon_if_it_is_short():
    rate, horizon = 1e-9, 10**4
    fixed = lower.passive_fixed_stage(FIVE, rate, None, horizon, **SMALL)
    assert 0 < lower.passive_theorem(FIVE, rate, None, horizon, **SMALL) == pytest.approx(fixed)


def test_the_closed_form_is_almost_as_good_as_the_maximum():
    rng, ratios = np.random.default_rng(3), []
    while len(ratios) < 100:
        gaps, rate = random_gaps(rng), 10 ** rng.uniform(-6, -2)
        best = lower.passive_maximum(gaps, rate, None, 10**12, **SMALL)
        if best > 1:
            ratios.append(lower.passive_theorem(gaps, rate, None, 10**12, **SMALL) / best)
    assert np.median(ratios) > 0.999
    assert min(ratios) > 0.9


def test_fixed_stage_bound_is_0_for_long_horizons():
    values = lower.passive_fixed_stage(FIVE, 1e-3, None, [10**4, 10**5, 10**9], **SMALL)
    assert values[0] > 0
    assert values[2] == 0 < lower.passive_maximum(FIVE, 1e-3, None, 10**9, **SMALL)


def test_without_looks_only_the_bandit_term_remains():
    for T in (10**4, 10**12):
        h = lower.observation_constraint(FIVE, T)[1:]
        expected = (h / (2 * np.array(FIVE[1:]))).sum()
        for bound in (*PASSIVE[:3], lower.active_fixed_stage, lower.active_maximum):
            assert call(bound, FIVE, 0, T) == pytest.approx(expected)
        none = lower.passive_theorem(FIVE, 0.5, [1, 0, 0, 0, 0], T)
        assert none == pytest.approx(expected)


# The fixed point


def mp_root(t, free, information, Q):
    """Return n with (n + free) · information = kl(1 - n/t, Q), to thirty digits."""
    with mpmath.workdps(30):

        def excess(n):
            y = n / mpmath.mpf(t)
            first = (1 - y) * mpmath.log((1 - y) / Q)
            return first + y * mpmath.log(y / (1 - Q)) - (n + free) * information

        lowest, highest = mpmath.mpf(10) ** -20, t * (1 - Q)
        return float(mpmath.findroot(excess, (lowest, highest), solver="anderson", tol=1e-20))


@pytest.mark.parametrize("law", ["gaussian", "bernoulli"])
@pytest.mark.parametrize("seed", range(10))
def test_the_sharp_bound_is_the_root_of_its_equation(law, seed):
    from kibitz.bounds.lower._passive import _find_root, make_fixed_point

    rng = np.random.default_rng(seed)
    gap, best = float(rng.uniform(0.05, 0.4)), 0.6
    gaps = [0.0, gap, gap / 2]
    rate, t, x = (
        10 ** rng.uniform(-9, -5),
        float(10 ** rng.integers(4, 8)),
        gap * rng.uniform(0.3, 1),
    )
    sd = 1.0 if law == "bernoulli" else float(rng.uniform(0.5, 2))
    d = make_fixed_point(np.array(gaps), law, sd, best, 2.0, 1.0)
    found = _find_root(d, np.full(2, t), np.full(2, x), np.full(2, rate * t), 60)[0]
    Q = regret_allowed(raised(gaps, 1, x), t, 2.0, 1.0) / (t * x)
    gaussian = (x + gap) ** 2 / (2 * sd**2)
    information = kl(best - gap, best + x) if law == "bernoulli" else gaussian
    assert Q < 1
    assert found == pytest.approx(mp_root(t, rate * t, information, Q), rel=1e-9)


@pytest.mark.parametrize("law", ["gaussian", "bernoulli"])
def test_no_point_of_a_fine_grid_beats_the_sharp_bound(law):
    from kibitz.bounds.lower._passive import _find_root, make_fixed_point

    gaps, rate, horizon = np.array([0.0, 0.1, 0.4]), 1e-6, 10**8
    bernoulli = {"rewards": "bernoulli", "best_mean": 0.5} if law == "bernoulli" else {}
    found = lower.passive_sharp(gaps, rate, [0, 0.5, 0.5], horizon, details=True, **bernoulli)
    d = make_fixed_point(gaps, law, 1.0, 0.5, *UCB1)
    t = np.rint(np.geomspace(3, horizon, 150))[:, None, None]
    for share in np.geomspace(1e-3, 1, 150):
        n = _find_root(d, t, share * d.max_x * np.ones((1, 1, 1)), rate * t / 2 * np.ones(2), 40)
        assert (gaps[1:] * n[:, 0] <= found.terms[1:] * (1 + 1e-6)).all()


@given(gap_lists, rates, horizons)
@few
def test_the_sharp_bound_is_never_below_the_maximum(gaps, rate, horizon):
    maximum = lower.passive_maximum(gaps, rate, None, horizon, variant="sharp")
    assert lower.passive_sharp(gaps, rate, None, horizon) >= maximum * (1 - 1e-6)
    assert maximum >= lower.passive_maximum(gaps, rate, None, horizon) * (1 - 1e-12)


def test_the_sharp_bound_is_about_twice_the_maximum():
    rng, ratios = np.random.default_rng(0), []
    while len(ratios) < 25:
        gaps, rate = random_gaps(rng), 10 ** rng.uniform(-6, -2)
        best = lower.passive_maximum(gaps, rate, None, 10**9, **SMALL)
        if best > 1:
            ratios.append(lower.passive_sharp(gaps, rate, None, 10**9, **SMALL) / best)
    assert min(ratios) > 1.5
    assert 1.8 < np.median(ratios) < 2.4


def test_the_sharp_bound_grows_towards_two_over_the_gap():
    """Check the bound divided by log(1/ε) for a gap of 1.

    The ratio is 0.306 at log(1/ε) = 8 and 1.215 at log(1/ε) = 32; the limit is the constant 2 of Lai
    and Robbins.
    """
    shares = [lower.passive_sharp([0, 1], math.exp(-y), [0, 1], 2**53, **SMALL) / y for y in (8, 32)]
    assert shares == pytest.approx([0.306, 1.215], abs=0.001)


def test_noisier_rewards_only_change_the_units():
    for sd in (0.5, 3.0):
        scaled = lower.passive_sharp(np.array(FIVE) / sd, 1e-4, None, 10**6, C=2 / sd**2, C_0=1.0)
        assert lower.passive_sharp(FIVE, 1e-4, None, 10**6, sd=sd, **SMALL) == pytest.approx(
            sd * scaled
        )


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
        needs = rng.exponential(10.0, n) * (rng.random(n) < 0.8)
        budget = float(rng.choice([0.0, rng.uniform(0, 1.2) * needs.sum(), needs.sum()]))
        ours = lower.linear_program(gaps, needs, budget)
        both = np.hstack((-np.eye(n), -np.eye(n)))
        looks = np.concatenate((np.zeros(n), np.ones(n)))
        theirs = linprog(
            np.concatenate((gaps, np.zeros(n))),
            np.vstack((both, looks)),
            np.concatenate((-needs, [budget])),
        )
        assert ours.value == pytest.approx(theirs.fun, rel=1e-9, abs=1e-9)
        assert (ours.n_pulls >= 0).all()
        assert (ours.n_looks >= 0).all()
        assert ours.n_looks.sum() <= budget * (1 + 1e-12)
        assert ours.n_pulls + ours.n_looks == pytest.approx(needs)


def test_free_looks_go_to_the_worst_arms():
    found = lower.linear_program([0.0, 1.0, 0.5, 2.0], [0, 10, 10, 10], [0, 12, 25, 100])
    assert found.n_looks.tolist() == [[0] * 4, [0, 2, 0, 10], [0, 10, 5, 10], [0, 10, 10, 10]]
    assert found.value.tolist() == [35, 13, 2.5, 0]


def brute_values(gaps, rate, horizon, **constants):
    """Return V(t), the value of the linear program, at every stage from 3 to the horizon."""
    t = np.arange(3.0, horizon + 1)
    needs = lower.required_observations(gaps, t, **constants)
    return np.asarray(lower.linear_program(gaps, needs, rate * t).value)


def brute_active(gaps, rate, horizon, **constants):
    return float(brute_values(gaps, rate, horizon, **constants).max(initial=0.0))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_the_active_maximum_is_the_largest_over_a_million_stages(seed):
    rng = np.random.default_rng(seed)
    gaps, rate = random_gaps(rng, 5), 10 ** rng.uniform(-6, -3.5)
    value = lower.active_maximum(gaps, rate, 10**6, **SMALL)
    brute = brute_active(gaps, rate, 10**6, **SMALL)
    assert brute > 0
    assert value == pytest.approx(brute, rel=1e-12)


@given(gap_lists, rates, st.integers(1, 2000), constants)
@settings(max_examples=100, deadline=None)
def test_the_active_maximum_is_the_largest_over_all_stages(gaps, rate, horizon, constants):
    value = lower.active_maximum(gaps, rate, horizon, **constants)
    assert value == pytest.approx(brute_active(gaps, rate, horizon, **constants), rel=1e-9)


def test_either_of_two_humps_may_be_the_higher():
    """Check an example in which V(t) has two local maxima.

    It peaks at stage 281, due to the large gap, and rises again later, due to the small gap.
    """
    gaps, rate = [0.0, 0.005, 1.0], 0.003
    own = {"C": 0.05, "C_0": 0.05, "variant": "sharp"}
    values = brute_values(gaps, rate, 70_000, **own)
    assert int(np.argmax(values[:60_000])) + 3 == 281
    for horizon in (60_000, 70_000):
        found = lower.active_maximum(gaps, rate, horizon, **own, details=True)
        assert found.total == pytest.approx(values[: horizon - 2].max(), rel=1e-12)
        assert found.stages == (281 if horizon == 60_000 else 70_000)


@given(gap_lists, rates, horizons, constants)
@few
def test_active_bounds_come_in_order(gaps, rate, horizon, constants):
    theorem = lower.active_theorem(gaps, rate, horizon, **constants)
    chain = lower.active_chain(gaps, rate, horizon, **constants)
    fixed = lower.active_fixed_stage(gaps, rate, horizon, **constants)
    maximum = lower.active_maximum(gaps, rate, horizon, **constants)
    slack = 1 + 1e-6
    assert theorem <= chain * slack
    assert max(chain, fixed) <= maximum * slack
    weights = np.random.default_rng(0).dirichlet(np.ones(len(gaps)))
    assert maximum <= lower.passive_maximum(gaps, rate, weights, horizon, **constants) * slack
    alternative = lower.active_alternative(gaps, rate, horizon, **constants)
    exact = lower.active_alternative(gaps, rate, horizon, exact=True, **constants)
    assert alternative <= exact * slack
    assert exact <= lower.passive_maximum(gaps, rate, weights, horizon, **constants) * slack


@pytest.mark.parametrize("seed", range(10))
def test_the_chain_stops_at_the_last_stage_that_looks_do_not_cover(seed):
    rng = np.random.default_rng(seed)
    gaps, rate, horizon = sorted(random_gaps(rng, 5)), 10 ** rng.uniform(-5, -2.5), 10**5
    t = np.arange(3.0, horizon + 1)
    needs = lower.required_observations(gaps, t, **SMALL)
    best = 0.0
    for k in range(1, 4):
        uncovered = np.flatnonzero(needs[:, k + 1 :].sum(axis=1) > rate * t)
        if len(uncovered):
            at = needs[uncovered[-1]]
            best = max(best, sum(gaps[i] * at[i] for i in range(1, k + 1)))
    assert lower.active_chain(gaps, rate, horizon, **SMALL) == pytest.approx(best, rel=1e-12)


def test_active_theorem_equals_its_formula():
    gaps, rate, horizon = FIVE, 1e-5, 10**12
    best = 0.0
    for k in range(2, 5):
        stage = math.floor(sum(1 / (2 * d**2) for d in gaps[k:]) / rate)
        h = lower.observation_constraint(gaps, stage)
        mean = sum(h[j] / gaps[j] ** 2 for j in range(k, 5)) / sum(1 / d**2 for d in gaps[k:])
        if mean >= 1:
            best = max(best, sum(h[i] / (2 * gaps[i]) for i in range(1, k)))
    assert 0 < lower.active_theorem(gaps, rate, horizon) == pytest.approx(best)


def test_active_theorem_is_0_for_two_arms_and_for_short_horizons():
    assert lower.active_theorem([0, 0.5], 1e-6, 10**12) == 0
    assert lower.active_theorem(FIVE, 1e-5, 10**4) == 0
    assert lower.active_theorem(FIVE, 0, 10**12) == 0


@pytest.mark.parametrize(
    ("n_arms", "gap", "rate", "C", "C_0", "program", "theorem"),
    [(5, 0.5, 1e-4, *UCB1, 10.71, 6.88), (20, 0.2, 1e-5, 2.0, 1.0, 296, 219)],
)
def test_equal_gaps_give_more_than_the_theorem(n_arms, gap, rate, C, C_0, program, theorem):
    gaps, both = [0.0] + [gap] * (n_arms - 1), {"C": C, "C_0": C_0}
    equal = lower.active_equal_gaps(n_arms, gap, rate, 2**53, **both)
    assert equal == pytest.approx(program, abs=0.5 if program > 100 else 0.005)
    closed = lower.active_theorem(gaps, rate, 2**53, **both)
    assert closed == pytest.approx(theorem, abs=0.5 if theorem > 100 else 0.005)
    best = lower.active_maximum(gaps, rate, 2**53, **both)
    assert equal <= best <= equal * 1.001
    spread = [0.0] + [1 / (n_arms - 1)] * (n_arms - 1)
    passive = lower.passive_maximum(gaps, rate, spread, 2**53, **both)
    assert best == pytest.approx(passive, rel=1e-12)


def test_equal_gaps_are_the_linear_program_at_a_short_horizon():
    for rate in (0.0, 1e-6, 1e-4):
        short = lower.active_equal_gaps(6, 0.4, rate, 3000, **SMALL)
        same = lower.active_fixed_stage([0.0] + [0.4] * 5, rate, 3000, **SMALL)
        assert 0 < short == pytest.approx(same)


@pytest.mark.parametrize("seed", range(6))
def test_many_periods_dominate_one(seed):
    rng = np.random.default_rng(seed)
    gaps = [0.0, *(10 ** rng.uniform(-1, 0.3, 4)).tolist()]
    rate, horizon = 10 ** rng.uniform(-6, -4), 10**9
    many = lower.active_multi_period(gaps, rate, horizon, **SMALL)
    one = lower.active_maximum(gaps, rate, horizon, **SMALL)
    every = lower.active_alternative(gaps, rate, horizon, exact=True, **SMALL)
    assert many >= max(one, every, 1e-3) * (1 - 1e-6)
    weights = rng.dirichlet(np.ones(5))
    assert many <= lower.passive_maximum(gaps, rate, weights, horizon, **SMALL) * (1 + 1e-6)


def test_multi_period_bound_can_beat_all_others():
    gaps, rate, horizon = [0.0, 0.1, 0.3, 1.0, 2.0], 1e-5, 10**9
    many = lower.active_multi_period(gaps, rate, horizon, **SMALL, details=True)
    one = lower.active_maximum(gaps, rate, horizon, **SMALL, details=True)
    every = lower.active_alternative(gaps, rate, horizon, exact=True, **SMALL)
    assert many.total > 1.01 * max(one.total, every)
    alone = lower.active_multi_period(gaps, rate, horizon, stages=[one.stages], **SMALL)
    assert alone == pytest.approx(one.total, rel=1e-6)
    assert many.total == pytest.approx(many.terms.sum())


# Schedules


def test_constant_schedule_equals_a_rate():
    steady = lower.schedule([1e-5])
    for bound in (*PASSIVE, *ACTIVE, lower.active_multi_period):
        if bound in (lower.passive_theorem, lower.active_theorem, lower.active_alternative):
            continue
        for T in (2, 5000, 10**7):
            assert call(bound, FIVE, steady, T, **SMALL) == pytest.approx(
                call(bound, FIVE, 1e-5, T, **SMALL), rel=1e-6
            )
    exact = lower.active_alternative(FIVE, steady, 10**7, exact=True, **SMALL)
    assert exact == pytest.approx(
        lower.active_alternative(FIVE, 1e-5, 10**7, exact=True, **SMALL), rel=1e-9
    )


def test_a_schedule_is_summed_stage_by_stage():
    rates = np.random.default_rng(0).random(50)
    free = lower.schedule(rates)
    for t in (1, 7, 50):
        assert free(np.array([float(t)]))[0] == pytest.approx(rates[:t].sum())
    assert free(np.array([60.0]))[0] == pytest.approx(rates.sum() + 10 * rates[-1])
    with pytest.raises(ValueError, match="rates must be a list"):
        lower.schedule([])


def test_looks_that_come_late_prove_more_than_looks_that_come_early():
    horizon, n = 10_000, 50
    early = lower.schedule([1.0] * n + [0.0])
    late = lower.schedule([0.0] * (horizon - n) + [1.0] * n + [0.0])
    few_early, few_late = (
        lower.passive_maximum([0, 0.5], s, [0, 1], horizon, **SMALL) for s in (early, late)
    )
    none = lower.passive_maximum([0, 0.5], 0, None, horizon, **SMALL)
    assert few_early < few_late <= none
    t = np.arange(3.0, horizon + 1)
    needs = lower.required_observations([0, 0.5], t, **SMALL)[:, 1]
    assert few_late == pytest.approx(0.5 * (needs - late(t)).max())


def test_schedule_with_more_than_one_look_per_stage_raises():
    with pytest.raises(ValueError, match="rate must return a number"):
        lower.passive_maximum(FIVE, lambda t: 2 * t, None, 100)


@pytest.mark.parametrize(
    "closed", [lower.passive_theorem, lower.active_theorem, lower.active_alternative]
)
def test_closed_forms_reject_schedules(closed):
    with pytest.raises(ValueError, match="rate must be one or more numbers in"):
        call(closed, FIVE, lower.schedule([0.1]), 100)


# Properties of all lower bounds


@pytest.mark.slow
@given(gap_lists, rates, horizons, constants)
@settings(max_examples=120, deadline=None)
def test_all_bounds_are_finite_everywhere(gaps, rate, horizon, constants):
    for bound in (*PASSIVE, *ACTIVE):
        value = call(bound, gaps, rate, horizon, **constants)
        assert isinstance(value, float)
        assert 0 <= value < math.inf
    for bound in (lower.passive_theorem, lower.active_theorem, lower.active_alternative):
        for form in ("printed", "leading"):
            assert math.isfinite(call(bound, gaps, rate, horizon, form=form, **constants))
    for bound in (lower.passive_fixed_stage, lower.active_fixed_stage):
        assert math.isfinite(call(bound, gaps, rate, horizon, form="printed", **constants))
    assert math.isfinite(lower.reference_curve(gaps, rate, horizon))


@given(st.floats(1e-6, 100), st.integers(2, 200), rates, horizons)
@few
def test_equal_gaps_bound_is_finite_everywhere(gap, n_arms, rate, horizon):
    for form in ("proved", "leading", "printed"):
        value = lower.active_equal_gaps(n_arms, gap, rate, horizon, form=form)
        assert 0 <= value <= math.inf
        assert math.isfinite(value) or (rate == 0 and form != "proved")


@pytest.mark.parametrize("bound", [*PASSIVE, *ACTIVE])
def test_bounds_work_for_200_arms(bound):
    gaps = np.concatenate(([0.0], np.geomspace(1e-6, 100, 199)))
    for rate, horizon in ((0.0, 10**15), (1e-9, 10**12), (1.0, 10)):
        assert 0 <= call(bound, gaps, rate, horizon) < math.inf


@pytest.mark.parametrize("bound", [*PASSIVE, *ACTIVE, lower.active_multi_period])
def test_bounds_are_0_if_all_arms_are_optimal(bound):
    for gaps in ([0.0], [0.0, 0.0, 0.0]):
        assert call(bound, gaps, 0.1, 10**6) == 0


@given(gap_lists, rates, horizons, constants, st.floats(0.1, 10))
@few
def test_units_do_not_matter(gaps, rate, horizon, constants, unit):
    """Check the effect of measuring rewards in other units.

    If the gaps are multiplied by u, C by u², and ε is divided by u², then all numbers of pulls are
    divided by u² and all regrets by u.
    """
    scaled = [unit * gap for gap in gaps]
    assume(rate / unit**2 <= 1)
    other = {"C": constants["C"] * unit**2, "C_0": constants["C_0"]}
    for bound in (
        lower.passive_fixed_stage,
        lower.passive_maximum,
        lower.active_fixed_stage,
        lower.active_maximum,
        lower.active_chain,
    ):
        here = call(bound, gaps, rate, horizon, **constants)
        there = call(bound, scaled, rate / unit**2, horizon, **other)
        size = lower.passive_fixed_stage(gaps, 0, None, horizon, **constants)
        assert unit * there == pytest.approx(here, rel=1e-6, abs=1e-9 * (1 + size))


@pytest.mark.slow
@given(gap_lists, rates, horizons, st.floats(0, 1), st.integers(1, 1000))
@few
def test_more_looks_prove_less_and_more_stages_prove_more(gaps, rate, horizon, share, factor):
    for bound in (
        lower.passive_maximum,
        lower.passive_sharp,
        lower.active_maximum,
        lower.active_chain,
    ):
        value = call(bound, gaps, rate, horizon)
        assert call(bound, gaps, share * rate, horizon) >= value * (1 - 1e-5)
        assert call(bound, gaps, rate, min(horizon * factor, 2**53)) >= value * (1 - 1e-5)


@given(gap_lists, rates, horizons, st.randoms(use_true_random=False))
@few
def test_the_order_of_the_arms_does_not_matter(gaps, rate, horizon, random):
    order = list(range(len(gaps)))
    random.shuffle(order)
    weights = np.arange(1.0, len(gaps) + 1) / sum(range(1, len(gaps) + 1))
    shuffled = [gaps[i] for i in order]
    for bound in (*PASSIVE, *ACTIVE):
        p = (weights,) if bound in PASSIVE else ()
        here = bound(gaps, rate, *p, horizon, **SMALL, details=True)
        p = (weights[order],) if bound in PASSIVE else ()
        there = bound(shuffled, rate, *p, horizon, **SMALL, details=True)
        assert there.total == pytest.approx(here.total, rel=1e-6, abs=1e-12)
        if len(set(gaps)) == len(gaps):
            assert there.terms == pytest.approx(here.terms[order], rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("bound", [*PASSIVE, *ACTIVE])
def test_rates_and_horizons_broadcast(bound):
    rate, horizon = np.array([0.0, 1e-6, 1e-3])[:, None], np.array([2, 10**4, 10**8, 10**12])
    table = call(bound, FIVE, rate, horizon, **SMALL, details=True)
    assert table.total.shape == (3, 4)
    assert table.terms.shape == (3, 4, 5)
    assert table.total == pytest.approx(table.terms.sum(axis=-1))
    for i in range(3):
        for j in range(4):
            single = call(bound, FIVE, float(rate[i, 0]), int(horizon[j]), **SMALL)
            assert isinstance(single, float)
            assert table.total[i, j] == pytest.approx(single, rel=1e-12)


def test_ties_do_not_change_other_arms():
    once = lower.passive_maximum([0, 0.5, 0.5], 1e-6, None, 10**8, details=True)
    assert once.terms[1] == once.terms[2] > 0
    nearly = lower.active_maximum([0, 0.5, 0.5 + 1e-9], 1e-6, 10**8)
    assert nearly == pytest.approx(lower.active_maximum([0, 0.5, 0.5], 1e-6, 10**8), rel=1e-6)
    two_best = lower.observation_constraint([0, 0, 0.5], 10**6)
    assert two_best.tolist() == [0, 0, pytest.approx(plain_h([0, 0, 0.5], 2, 10**6, *UCB1))]


def test_invalid_arguments_raise():
    for gaps in ([0.1, 0.2], [], [0, -1], [0, math.nan], [0, math.inf], 3.0):
        with pytest.raises(ValueError, match="gaps must be"):
            lower.passive_theorem(gaps, 0.1, None, 100)
    for rate in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="rate must be"):
            lower.active_maximum(FOUR, rate, 100)
    for horizon in (0, 2.5, math.nan, math.inf, 2**54):
        with pytest.raises(ValueError, match="horizon must be"):
            lower.passive_sharp(FOUR, 0.1, None, horizon)
    for weights in ([0.5, 0.5], [1, 1, 0, 0], [-0.5, 0.5, 0.5, 0.5], [math.nan] * 4):
        with pytest.raises(ValueError, match="weights must be"):
            lower.passive_maximum(FOUR, 0.1, weights, 100)
    for constants in ({"C": 0}, {"C": math.nan}, {"C_0": -1}):
        with pytest.raises(ValueError, match="must be"):
            lower.passive_maximum(FOUR, 0.1, None, 100, **constants)
    with pytest.raises(ValueError, match="form must be one of proved, printed, got 'leading'"):
        lower.passive_fixed_stage(FOUR, 0.1, None, 100, form="leading")
    with pytest.raises(ValueError, match="stage must be finite and > 1"):
        lower.eta(FOUR, 1)
    with pytest.raises(ValueError, match="x must be"):
        lower.observation_constraint(FOUR, 10, x=0)


# The printed formulas, written out in full


def printed_h(gaps, i, t, C, C_0):
    """Return h_i(t) as printed in appendix A: the leading term plus η_i."""
    d = gaps[i]
    S = sum(d / (d + other) for j, other in enumerate(gaps) if j != i)
    C_K, C_delta = C_0 * sum(gaps), sum(1 / g for g in gaps if g > 0)
    log_t = math.log(t)
    eta = -(C_K + C * C_delta * log_t) / t * math.log(t * d**2 / (C_K * d + C * log_t * S))
    eta -= math.log(1 + C_K * d / (C * log_t * S))
    return math.log(t * d**2 / (2 * C * log_t * S)) + eta


@pytest.mark.parametrize("rate", [1e-7, 1e-4, 0.05])
@pytest.mark.parametrize("text", ["main", "appendix"])
def test_the_printed_passive_theorem_is_the_printed_one(rate, text):
    T, weights, total = 10**6, [0.1, 0.2, 0.3, 0.2, 0.2], 0.0
    for i in range(1, 5):
        q, factor = rate * weights[i], 2 if text == "main" else 4
        turn = 1 / (factor * q * FIVE[i] ** 2)
        if turn >= T:
            total += (printed_h(FIVE, i, T, *UCB1) - 2 * q * FIVE[i] ** 2 * T) / (2 * FIVE[i])
        elif turn > 1:
            total += (printed_h(FIVE, i, turn, *UCB1) - 2 / factor) / (2 * FIVE[i])
    found = lower.passive_theorem(FIVE, rate, weights, T, text=text, form="printed")
    assert found == pytest.approx(total)


@pytest.mark.parametrize("rate", [0.0, 1e-6, 1e-5, 1e-4, 1e-3])
def test_the_printed_active_lemma_is_the_printed_one(rate):
    T = 10**6
    h = [0.0] + [printed_h(FIVE, i, T, *UCB1) for i in range(1, 5)]
    tails = [sum(h[j] / (2 * FIVE[j] ** 2) for j in range(i + 1, 5)) for i in range(5)]
    k = min(i for i in range(1, 5) if tails[i] <= rate * T)
    value = sum(h[i] / (2 * FIVE[i]) for i in range(1, k + 1)) - FIVE[k] * (rate * T - tails[k])
    found = lower.active_fixed_stage(FIVE, rate, T, form="printed")
    assert found == pytest.approx(value)
    shuffled = [FIVE[i] for i in (3, 0, 4, 2, 1)]
    assert lower.active_fixed_stage(shuffled, rate, T, form="printed") == pytest.approx(value)


@pytest.mark.parametrize("rate", [1e-6, 1e-4, 1e-2])
def test_the_printed_active_theorem_is_the_printed_one(rate):
    values = []
    for k in range(2, 5):
        stage = sum(1 / (2 * d**2) for d in FIVE[k:]) / rate
        values.append(sum(printed_h(FIVE, i, stage, *UCB1) / FIVE[i] for i in range(1, k)))
    found = lower.active_theorem(FIVE, rate, 10**12, form="printed")
    assert found == pytest.approx(max(values))


def test_the_leading_terms_are_those_of_the_paper():
    rate, T = 1e-6, 2**53
    S = [sum(d / (d + other) for other in FIVE) - 0.5 for d in FIVE[1:]]
    passive = sum(
        math.log(1 / (32 * rate * 0.2 * s)) / (2 * d) for d, s in zip(FIVE[1:], S, strict=True)
    )
    assert lower.passive_theorem(FIVE, rate, None, T, form="leading") == pytest.approx(passive)
    active = max(
        sum(
            math.log(sum(FIVE[i] ** 2 / d**2 for d in FIVE[k:]) / (32 * rate * S[i - 1]))
            / (2 * FIVE[i])
            for i in range(1, k)
        )
        for k in range(2, 5)
    )
    assert lower.active_theorem(FIVE, rate, T, form="leading") == pytest.approx(active)


# The errata, one by one


def test_d1_the_literal_constraint_explodes_at_small_stages():
    t = np.arange(3.0, 10_001)
    literal = lower.observation_constraint(FOUR, t, variant="printed")
    assert literal[0, 1] == pytest.approx(104.65, abs=0.005)
    pulls = (literal[:, 1:] / (2 * np.array(FOUR[1:]) ** 2) - 0.01 / 4 * t[:, None]).max(axis=0)
    assert pulls[0] == pytest.approx(1308, abs=0.5)
    assert pulls[0] > 3  # the printed constraint claims more pulls than its 3 stages have
    assert (np.array(FOUR[1:]) * pulls).sum() == pytest.approx(284.8, abs=0.05)
    assert lower.observation_constraint(FOUR, 3.0).tolist() == [0] * 4


def test_d2_a_small_regret_does_not_mean_few_bad_pulls():
    gaps, T = [0.0, 0.1], 1000
    allowed = regret_allowed(gaps, T, *UCB1)
    assert gaps[1] * T <= allowed  # Definition 1 allows a policy that always pulls the bad arm
    printed, right = 1 - allowed / T, 1 - allowed / (T * gaps[1])
    share_of_best_arm = 0.0
    assert printed > 0.4 > share_of_best_arm >= right


def test_d3_the_raised_problem_has_larger_gaps():
    gaps, i = [0.0, 0.1, 1.0], 1
    problem = raised(gaps, i, gaps[i])
    assert problem == pytest.approx([0.1, 0.0, 1.1])
    assert sum(problem) > sum(gaps)
    t = 10.0**4
    P, Q = plain_pq(gaps, i, t, gaps[i], *UCB1, 0.1)
    assert lower.observation_constraint(gaps, t)[i] == pytest.approx(
        max(0, P * math.log(1 / Q) - math.log(2))
    )


def test_d4_the_sum_over_arms_leaves_out_the_best():
    assert complexity.c_delta(FOUR) == pytest.approx(1 / 0.2 + 1 / 1.5 + 1 / 1.8)


def test_d6_a_copy_of_the_reward_tells_nothing_new():
    a, b = 0.3, 0.7
    fresh = sum(
        (a if x else 1 - a)
        * (a if y else 1 - a)
        * math.log((a if x else 1 - a) * (a if y else 1 - a))
        - (a if x else 1 - a)
        * (a if y else 1 - a)
        * math.log((b if x else 1 - b) * (b if y else 1 - b))
        for x in (0, 1)
        for y in (0, 1)
    )
    copied = kl(a, b)  # the pair (X, X) has only the values (0, 0) and (1, 1)
    assert fresh == pytest.approx(2 * kl(a, b))
    assert copied < fresh


def test_d8_both_closed_forms_are_valid_and_neither_always_wins():
    def both(gap, rate, C, C_0):
        forms = (
            lower.passive_theorem([0, gap], rate, [0, 1], 10**15, C=C, C_0=C_0, text=text)
            for text in ("main", "appendix")
        )
        return (*forms, lower.passive_maximum([0, gap], rate, [0, 1], 10**15, C=C, C_0=C_0))

    main, appendix, best = both(0.2, 1e-5, 2.0, 1.0)  # the best stage is late
    assert 0 < appendix < main <= best
    main, appendix, best = both(3.0, 0.01, 1.0, 0.1)  # the best stage is early
    assert 0 < main < appendix <= best
    u = 3.2530  # for P = 1, the stage of the main text is better if log t + c exceeds u
    assert math.log(2) - math.log((u + math.log(2)) / u) == pytest.approx(0.5, abs=1e-4)


def test_d9_the_printed_active_theorem_exceeds_the_program_it_comes_from():
    """D9: the printed theorem, and twice the corrected theorem, exceed the linear program."""
    gaps, rate, T = [0.0] + [0.5] * 4, 1e-4, 10**9
    program = lower.active_maximum(gaps, rate, T)
    assert program == pytest.approx(10.71, abs=0.005)
    assert 2 * lower.active_theorem(gaps, rate, T) == pytest.approx(13.76, abs=0.005)
    assert lower.active_theorem(gaps, rate, T, form="printed") == pytest.approx(14.47, abs=0.005)


def test_d10_looks_may_cover_the_needs_before_the_printed_stage():
    gaps, rate = [0.0, 0.5, 0.5], 0.1
    t = np.arange(1.0, 10**5)
    needs = lower.required_observations(gaps, t)[:, 2]
    assert (needs <= rate * t).all()  # there is no stage t_2, but the paper claims t_2 ≥ 20
    assert 1 / (2 * 0.5**2) / rate == 20
    assert lower.active_theorem(gaps, rate, 10**5) == 0
    assert lower.active_theorem(gaps, rate, 10**5, form="printed") > 10


def test_d10_without_its_condition_nothing_is_claimed():
    gaps, seen = [0.0, 0.5, 0.5], []
    for rate in np.geomspace(1e-5, 0.1, 60):
        h = lower.observation_constraint(gaps, math.floor(2 / rate))[1]
        claimed = lower.active_theorem(gaps, rate, 10**9)
        stage_cannot_be_reached = h * 2 < rate * math.floor(2 / rate)
        assert claimed == (0 if stage_cannot_be_reached else pytest.approx(h))
        assert claimed <= lower.active_maximum(gaps, rate, 10**9)
        seen.append((h > 0, stage_cannot_be_reached))
    assert {(True, True), (True, False), (False, True)} == set(seen)


def test_d10_with_its_condition_the_printed_stage_is_reached():
    rng, met, missed = np.random.default_rng(0), 0, 0
    t = np.arange(3.0, 10**5)
    for _ in range(20):
        gaps, rate = np.sort(random_gaps(rng, 5)), 10 ** rng.uniform(-3.5, -0.5)
        needs = lower.required_observations(gaps, t, **SMALL)
        for k in range(2, 5):
            stage = (1 / (2 * gaps[k:] ** 2)).sum() / rate
            if not 3 <= stage <= t[-1]:
                continue
            uncovered = t[needs[:, k:].sum(axis=1) > rate * t]
            reached = len(uncovered) > 0 and uncovered[-1] >= math.floor(stage)
            h = lower.observation_constraint(gaps, stage, **SMALL)[k:]
            if (h / gaps[k:] ** 2).sum() >= (1 / gaps[k:] ** 2).sum():
                met += 1
                assert reached
            elif not reached:
                missed += 1
    assert met > 5
    assert missed > 5


def test_d11_the_printed_program_pays_back():
    """D11: the printed formula is negative if there are many looks; the correct bound is 0."""
    for T in (10**6, 10**8):
        assert lower.active_fixed_stage(FOUR, 0.1, T, form="printed") < 0
        assert lower.active_fixed_stage(FOUR, 0.1, T) == 0


@pytest.mark.parametrize("log_inverse", [5.0, 50.0, 500.0])
def test_d12_the_limit_for_equal_gaps_lacks_a_minus_one(log_inverse):
    with mpmath.workdps(30):
        y = mpmath.lambertw(mpmath.exp(1 + log_inverse)).real
        share = 1 - 1 / y
        value = y - 2 + 1 / y
        assert mpmath.almosteq(share * (mpmath.log(1 - share) + log_inverse), value, 1e-20)
        for other in (share * 0.999, share + (1 - share) / 1000):
            assert other * (mpmath.log(1 - other) + log_inverse) < value
        corrected = log_inverse - mpmath.log(1 + log_inverse) - 1
        assert abs(value - corrected) < 2 * mpmath.log(1 + log_inverse) / log_inverse
    if log_inverse < 300:
        rate, n_arms = math.exp(-log_inverse), 10**5
        leading = lower.active_equal_gaps(n_arms, 1.0, rate, 2**53, form="leading")
        assert leading / n_arms == pytest.approx(float(value), rel=1e-3)
        printed = lower.active_equal_gaps(n_arms, 1.0, rate, 2**53, form="printed")
        assert (printed - leading) / n_arms == pytest.approx(1, abs=0.6)
        assert printed / leading > 1.01


def test_d12_the_factor_two_is_also_missing_for_equal_gaps():
    """D12: the leading term is more than twice the value of the linear program."""
    n_arms, gap, rate = 20, 0.2, 1e-5
    leading = lower.active_equal_gaps(n_arms, gap, rate, 2**53, form="leading")
    assert leading > 2 * lower.active_maximum([0.0] + [gap] * 19, rate, 2**53, **SMALL)


def test_d16_d42_an_observation_is_worth_half_the_squared_distance():
    t = 10.0**6
    h, needs = lower.observation_constraint(FOUR, t), lower.required_observations(FOUR, t)
    assert needs[1:] == pytest.approx(h[1:] / (2 * np.array(FOUR[1:]) ** 2))
    direct = mpmath.quad(
        lambda z: mpmath.npdf(z) * (mpmath.log(mpmath.npdf(z)) - mpmath.log(mpmath.npdf(z - 0.4))),
        [-20, 0, 20],
    )
    assert float(direct) == pytest.approx(0.4**2 / 2)  # x + Δ = 2Δ = 0.4, so 1/(2Δ²) = 12.5


def test_d31_weights_have_to_be_normalised():
    with pytest.raises(ValueError, match="weights must be"):
        lower.passive_theorem(FOUR, 0.1, [0, 1 / 0.2, 1 / 1.5, 1 / 1.8], 100)
    best = complexity.optimal_weights(FOUR)
    assert best == pytest.approx([0, 0.8036, 0.1071, 0.0893], abs=5e-5)
    assert complexity.optimal_weights(FOUR, power=2) == pytest.approx(
        [0, 0.9708, 0.0173, 0.0120], abs=6e-5
    )
    at_best = lower.passive_theorem(FOUR, 1e-9, best, 2**53, form="leading")
    for weights in np.random.default_rng(0).dirichlet(np.ones(4), 200):
        assert lower.passive_theorem(FOUR, 1e-9, weights, 2**53, form="leading") >= at_best


def test_d40_the_lowest_lower_bound_is_a_leading_term():
    best = complexity.optimal_weights(FOUR)
    rate = 5e-3
    leading = lower.passive_theorem(FOUR, rate, best, 2**53, form="leading")
    assert leading > 3
    assert lower.passive_maximum(FOUR, rate, best, 2**53) == 0
    simplest = sum(1 / (2 * d) * math.log(1 / (32 * rate)) for d in FOUR[1:])
    assert leading >= simplest > 0


def test_d43_a_real_stage_proves_more_than_any_whole_one():
    gaps, rate, small = [0.0, 5.38], 0.004, {"C": 2.0, "C_0": 0.5}
    turn = 1 / (2 * rate * gaps[1] ** 2)
    assert turn == pytest.approx(4.3186, abs=1e-4)
    real = (lower.observation_constraint(gaps, turn, **small)[1] - 1) / (2 * gaps[1])
    whole = brute_passive(gaps, [0, rate], 10**5, **small)
    assert 0 < whole < 0.3 * real
    assert lower.passive_maximum(gaps, rate, [0, 1], 10**5, **small) == pytest.approx(whole)
    assert lower.passive_theorem(gaps, rate, [0, 1], 10**5, **small) <= whole
    assert real - gaps[1] * rate <= whole


def test_d44_an_arm_cannot_be_pulled_less_than_never():
    gaps, rate = [0.0, 0.01, 5.0], 1e-4
    printed = lower.passive_theorem(gaps, rate, None, 10**9, form="printed", details=True, **SMALL)
    assert printed.terms.min() < 0
    assert lower.passive_theorem(gaps, rate, None, 10**9, **SMALL, details=True).terms.min() == 0
    undefined = lower.passive_theorem([0, 2.0], 1.0, None, 10**9, form="printed", details=True)
    assert undefined.terms.tolist() == [0, 0]  # the stage 1/(2 ε p Δ²) = 1/4 has no log log


def test_d45_the_reference_curve_bends_at_one_over_rate_gap_squared():
    assert lower.reference_curve([0, 0.5], 0.01, 100) == pytest.approx(2 * math.log(100))
    assert lower.reference_curve([0, 0.5], 0.01, 10**9) == pytest.approx(2 * math.log(400))
    assert lower.reference_curve([0, 0.5], 0, 10**9) == pytest.approx(2 * math.log(10**9))
    assert lower.reference_curve([0, 5], 1, 10**9) == 0


@pytest.mark.parametrize("gaps", [FOUR, FIVE])
@pytest.mark.parametrize("T", [10**4, 10**8])
def test_d47_on_the_papers_problems_nothing_is_proved(gaps, T):
    for rate in (0.1, 0.01):
        for weights in (None, complexity.optimal_weights(gaps)):
            assert lower.passive_maximum(gaps, rate, weights, T) == 0
        assert lower.active_maximum(gaps, rate, T) == 0
        assert lower.active_alternative(gaps, rate, T, exact=True) == 0
        assert lower.passive_theorem(gaps, rate, None, T, form="leading") > 0 or rate == 0.1
    assert lower.passive_sharp(gaps, 0.1, None, T) == 0
