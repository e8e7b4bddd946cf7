"""Tests of the upper bounds against brute force, slow loops and simulations."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kibitz.bounds import complexity, concentration, upper
from kibitz.bounds.upper._active import _sum_errors
from kibitz.bounds.upper._ucb import _count_failures

steady = settings(deadline=None)  # an example may take long on a busy machine

FOUR = (0.0, 0.2, 1.5, 1.8)  # the gaps of the paper's first experiment
UNIFORM = np.full(4, 0.25)
PI2 = math.pi**2

positive = st.one_of(st.floats(1e-6, 100.0), st.sampled_from([1e-6, 0.1, 1.0, 1.0, 100.0]))
some_gaps = st.lists(positive, min_size=1, max_size=6).flatmap(
    lambda gaps: st.permutations([0.0, *gaps])
)
rates = st.one_of(st.sampled_from([0.0, 1e-12, 0.01, 1.0]), st.floats(0.0, 1.0))
horizons = st.one_of(st.sampled_from([1, 2, 3, 10**12, 10**15]), st.integers(1, 10**6))


def some_weights(n_arms, seed):
    """Return random weights, some of them zero."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(n_arms)) * (rng.random(n_arms) < 0.8)
    return weights / max(1.0, weights.sum())


# Simulations that share no code with kibitz. Arrays have one row per run. A look is an independent
# draw of the reward, not a copy of a pull. The seeds are fixed. With a random seed, each comparison
# "mean + 3 standard errors ≤ bound" would fail with probability below 1e-6, because the bounds are
# several times the means.


def play(gaps, horizon, n_runs, seed, index, looks):
    """Return the regret of each run.

    Each arm is pulled once, then the arm with the largest `index(sums, counts, t)`. The function
    `looks(t, rng, n_runs)` returns the number of looks at each arm in each run.
    """
    rng, gaps = np.random.default_rng(seed), np.asarray(gaps)
    arms = np.arange(gaps.size)
    sums, counts = np.zeros((n_runs, gaps.size)), np.zeros((n_runs, gaps.size))
    regret = np.zeros(n_runs)
    for t in range(1, horizon + 1):
        first = np.full(n_runs, t - 1)
        pulls = first if t <= gaps.size else index(sums, counts, t).argmax(axis=1)
        for seen in (arms == pulls[:, None], looks(t, rng, n_runs)):
            sums += seen * (rng.standard_normal(sums.shape) - gaps)
            counts += seen
        regret += gaps[pulls]
    return regret


def ucb_index(sums, counts, t):
    """Return the index of UCB with exploration 6."""
    return sums / counts + np.sqrt(6 * math.log(t) / counts)


def leader(sums, counts, t):
    """Return the index of FTL, the average reward."""
    return sums / counts


def at_random(rate, weights):
    """Return the function `looks` of random arrivals: arm i gets a look with probability εp_i."""
    edges = np.cumsum(rate * np.asarray(weights))
    return lambda t, rng, n_runs: (
        np.searchsorted(edges, rng.random(n_runs), side="right")[:, None] == np.arange(edges.size)
    )


def periodic(rate, weights):
    """Return the function `looks` of periodic arrivals: arm i has had ⌊εp_i t⌋ looks by stage t."""
    rates = rate * np.asarray(weights)
    return lambda t, rng, n_runs: np.floor(rates * t + 1e-9) - np.floor(rates * (t - 1) + 1e-9)


def in_turn(rate, n_arms, n_runs, random):
    """Return a function `looks` that looks at the arms in turn; arrivals are random or periodic."""
    looked = np.zeros(n_runs)

    def looks(t, rng, n_runs):
        if random:
            come = rng.random(n_runs) < rate
        else:
            come = math.floor(rate * t + 1e-9) > math.floor(rate * (t - 1) + 1e-9)
        seen = (looked[:, None] % n_arms == np.arange(n_arms)) & np.reshape(come, (-1, 1))
        looked[:] += come
        return seen

    return looks


def most(gaps, horizon):
    """Return the largest regret of any policy that starts with one pull of each arm.

    `test_trivial.py` checks this formula.
    """
    first = sorted(gaps, reverse=True)[:horizon]
    return sum(first) + (horizon - len(first)) * max(gaps)


def at_most(regret, bound):
    """Return whether the mean regret plus three standard errors is at most the bound."""
    return regret.mean() + 3 * regret.std() / math.sqrt(regret.size) <= bound


# UCB: closed forms


def test_ucb_log_is_the_corrected_formula():
    gaps = np.array(FOUR[1:])
    for horizon in (1, 2, 10**4, 10**12):
        expected = (24 * math.log(horizon) / gaps + (1 + 2 * PI2 / 3) * gaps).sum()
        expected = min(expected, most(FOUR, horizon))
        assert upper.ucb_log(FOUR, horizon) == pytest.approx(expected, rel=1e-12)
        assert upper.ucb_log(FOUR, horizon, form="printed") == pytest.approx(
            (24 * math.log(horizon) / gaps).sum(), rel=1e-12
        )


@pytest.mark.parametrize("rate", [1e-9, 0.01, 0.1, 1.0])
def test_ucb_rate_is_the_corrected_formula(rate):
    weights = complexity.optimal_weights(FOUR)
    printed = proved = 0.0
    for gap, weight in zip(FOUR[1:], weights[1:], strict=True):
        q = rate * weight
        bracket = max(math.log(1 / (math.e * gap**2)), math.log(math.log(20 / q)))
        printed += 24 / gap * (math.log(50 / q) + bracket)
        proved += 24 / gap * (math.log(50 / q) + bracket) + (2 + 5 * PI2 / 6) * gap
    assert upper.ucb_rate(FOUR, rate, weights) == pytest.approx(proved, rel=1e-12)
    assert upper.ucb_rate(FOUR, rate, weights, form="printed") == pytest.approx(printed, rel=1e-12)


@pytest.mark.parametrize("rate", [1e-9, 0.01, 0.1, 1.0])
def test_ucb_periodic_is_the_corrected_formula(rate):
    printed = proved = 0.0
    for gap in FOUR[1:]:
        q = rate / 4
        log = math.log(24 / (math.e * q * gap**2))
        printed += 24 / gap * log + 2 * PI2 / 3 * gap
        proved += gap * (2 + q + max(0.0, 24 / gap**2 * log) + 2 * PI2 / 3)
    assert upper.ucb_periodic(FOUR, rate) == pytest.approx(proved, rel=1e-12)
    assert upper.ucb_periodic(FOUR, rate, form="printed") == pytest.approx(printed, rel=1e-12)


def test_ucb_as_printed_is_refuted_by_its_first_pulls():
    """D19: with two arms, two stages and a large gap Δ, the regret exceeds the printed bound.

    Each arm is pulled once, so the regret is Δ in every run.
    """
    regret = play([0.0, 10.0], 2, 1, 0, ucb_index, at_random(0.5, [0.5, 0.5]))
    assert regret == 10.0
    printed = upper.ucb_log([0.0, 10.0], 2, form="printed")
    assert printed == pytest.approx(1.66, abs=0.01)
    assert printed < 10 <= upper.ucb_log([0.0, 10.0], 2)
    printed = upper.ucb_rate([0.0, 30.0], 0.5, form="printed")
    assert printed == pytest.approx(5.4, abs=0.05)
    assert printed < 30 <= upper.ucb_rate([0.0, 30.0], 0.5)


def test_the_constants_of_ucb_are_those_of_definition_1():
    """D5: with exploration c = 6 and σ = 1, UCB has C = 24 and C_0 = 1 + 2π²/3.

    The paper states the constants of UCB1, C = 8 and C_0 = 1 + π²/3. UCB1 has c = 2, and rewards in
    [0, 1] have σ = 1/2, so a = c/(2σ²) = 4. The library gives the same C = 4c = 8 for these values.
    """
    gaps = np.array([0.0, 0.5, 0.5])
    for horizon in (10**4, 10**6):
        definition = 24 * complexity.c_delta(gaps) * math.log(horizon)
        definition += (1 + 2 * PI2 / 3) * gaps.sum()
        assert upper.ucb_log(gaps, horizon) == pytest.approx(definition)
    slope = upper.ucb_log(gaps, 10**6, exploration=2, sd=0.5) - upper.ucb_log(
        gaps, 10**4, exploration=2, sd=0.5
    )
    assert slope == pytest.approx(8 * complexity.c_delta(gaps) * math.log(100))


def printed_g(t, gap, q):
    """Return g(t) as printed in the proof of Theorem 3."""
    return 24 * np.log(t) / gap**2 - q * t + np.sqrt(5 * q * t * np.log(t))


def test_the_paper_s_case_distinction_fails_for_early_stages():
    """D20: g(t) ≤ (24/Δ²) log t is false for t/log t < 5/q, and sup g exceeds the final bound.

    Here g(t) = (24/Δ²) log t − qt + √(5qt log t).
    """
    gap, q = 10.0, 0.01
    t = np.arange(2.0, 10**5)
    early = t / np.log(t) < 5 / q
    assert early.any()
    assert (printed_g(t, gap, q)[early] > 24 * np.log(t[early]) / gap**2).all()
    final = upper.ucb_rate([0.0, gap], q, [0, 1], form="printed") / gap
    assert printed_g(t, gap, q).max() > final
    # with [qt − √(5qt log t)]_+ in g the bound holds; checked on random gaps and rates
    rng = np.random.default_rng(0)
    t = np.unique(np.geomspace(1, 1e9, 4000).round())
    for gap, q in zip(np.exp(rng.uniform(-4, 4, 200)), np.exp(rng.uniform(-12, 0, 200)), strict=True):
        repaired = 24 * np.log(t) / gap**2 - concentration.seen_floor(q * t, t)
        assert repaired.max() <= upper.ucb_rate([0.0, gap], q, [0, 1], form="printed") / gap


def test_a_count_of_nothing_is_not_negative():
    """D21: the printed inequality Σ_t I{N_i(t) ≤ g(t)} ≤ sup g is false for g < 0.

    The printed bound also leaves out the first pull of the arm.
    """
    gaps, rate = [0.0, 100.0], 1.0
    printed = upper.ucb_periodic(gaps, rate, [0, 1], form="printed")
    proved = upper.ucb_periodic(gaps, rate, [0, 1])
    assert proved - printed > 3 * 100  # 2 + q = 3 more pulls; the negative sup g is replaced by 0
    assert proved == pytest.approx(100 * (3 + 2 * PI2 / 3))


@given(some_gaps, rates, horizons, st.integers(0, 99))
@steady
def test_ucb_passive_takes_the_smallest_bound_of_each_arm(gaps, rate, horizon, seed):
    weights = some_weights(len(gaps), seed)
    log = upper.ucb_log(gaps, horizon, details=True).terms
    bounded = upper.ucb_rate(gaps, rate, weights, details=True).terms
    best = upper.ucb_passive(gaps, rate, weights, horizon, details=True)
    np.testing.assert_allclose(
        best.terms,
        np.minimum(np.minimum(log, bounded), max(1, horizon - len(gaps) + 1) * np.array(gaps)),
    )
    assert best.total == pytest.approx(min(best.terms.sum(), most(gaps, horizon)))
    assert best.total < math.inf


def test_without_looks_at_an_arm_only_the_horizon_bounds_its_regret():
    weights = [0.0, 0.5, 0.5, 0.0]
    assert upper.ucb_rate(FOUR, 0.1, weights) == math.inf
    assert upper.ucb_periodic(FOUR, 0.1, weights) == math.inf
    assert upper.ucb_rate(FOUR, 0.0) == math.inf
    terms = upper.ucb_rate(FOUR, 0.1, weights, details=True).terms
    assert np.isinf(terms).tolist() == [False, False, False, True]


# UCB: the sharp bound


def needed(t, gap, q, exploration=6.0):
    """Return 4c log t/Δ² minus a high-probability lower bound on the looks before stage t."""
    mean = q * (t - 1)
    return 4 * exploration * np.log(t) / gap**2 - np.maximum(mean - np.sqrt(5 * mean * np.log(t)), 0)


@pytest.mark.parametrize("gap", [1e-3, 0.05, 0.2, 1.0, 3.0, 100.0])
@pytest.mark.parametrize("q", [0.0, 1e-6, 1e-4, 0.01, 0.3, 1.0])
def test_ucb_sharp_finds_the_largest_of_a_million_stages(gap, q):
    t = np.arange(1.0, 10**6 + 1)
    values = needed(t, gap, q)
    for horizon in (1, 2, 3, 57, 1000, 10**6):
        bad = sum(4 / s**2 + s**-2.5 for s in range(3, min(horizon, 2000) + 1))
        bound = upper.ucb_sharp([0.0, gap], q, [0, 1], horizon, details=True)
        largest = values[:horizon].max()
        assert bound.stages[1] <= horizon
        assert needed(bound.stages[1], gap, q) == pytest.approx(largest, rel=1e-13, abs=1e-12)
        if horizon <= 2000:
            expected = gap * min(max(horizon - 1, 1), 1 + largest + bad)
            assert bound.total == pytest.approx(expected, rel=1e-12)


@given(st.floats(1e-6, 100), st.floats(1e-9, 1), st.integers(1, 10**15))
@steady
def test_ucb_sharp_is_not_beaten_by_any_stage(gap, q, horizon):
    stage = upper.ucb_sharp([0.0, gap], q, [0, 1], horizon, details=True).stages[1]
    best = needed(stage, gap, q)
    near = stage + np.arange(-50.0, 51)
    others = np.concatenate([np.geomspace(1, horizon, 3000).round(), near])
    others = np.clip(others, 1, horizon)
    assert (needed(others, gap, q) <= best * (1 + 1e-12) + 1e-9).all()


def test_count_failures_equals_the_sum():
    for n_arms, horizon, c, sd in [
        (2, 1, 6, 1),
        (2, 3, 6, 1),
        (5, 4, 6, 1),
        (2, 5000, 6, 1),
        (9, 700, 5, 0.9),
    ]:
        a = c / (2 * sd**2)
        terms = [4 * t ** (1 - a) + t**-2.5 for t in range(n_arms + 1, horizon + 1)]
        found = _count_failures(n_arms, np.asarray(float(horizon)), c, sd)
        assert found == pytest.approx(math.fsum(terms), rel=1e-11, abs=1e-15)
    exact = sum(c * (mpmath.zeta(s, 3) - mpmath.zeta(s, 10**12 + 1)) for c, s in [(4, 2), (1, 2.5)])
    assert _count_failures(2, np.asarray(1e12), 6, 1) == pytest.approx(float(exact), rel=1e-11)


@given(some_gaps, rates, horizons, st.integers(0, 99))
@steady
def test_ucb_sharp_is_below_the_closed_forms(gaps, rate, horizon, seed):
    weights = some_weights(len(gaps), seed)
    sharp = upper.ucb_sharp(gaps, rate, weights, horizon, details=True).terms
    closed = upper.ucb_passive(gaps, rate, weights, horizon, details=True).terms
    assert (sharp <= closed * (1 + 1e-12)).all()


@given(some_gaps, st.floats(0, 1), st.floats(0, 1), horizons, horizons, st.integers(0, 99))
@steady
def test_ucb_bounds_grow_with_the_horizon_and_fall_with_the_rate(gaps, r1, r2, t1, t2, seed):
    weights = some_weights(len(gaps), seed)
    r1, r2, t1, t2 = min(r1, r2), max(r1, r2), min(t1, t2), max(t1, t2)
    sharp = upper.ucb_sharp(gaps, [[r1], [r2]], weights, [t1, t2])
    assert sharp[0, 0] <= sharp[0, 1] * (1 + 1e-12)
    assert sharp[1, 0] <= sharp[0, 0] * (1 + 1e-12)
    assert upper.ucb_log(gaps, t1) <= upper.ucb_log(gaps, t2)
    assert upper.ucb_rate(gaps, r2, weights) <= upper.ucb_rate(gaps, r1, weights)
    assert upper.ftl_robin(gaps, r2) <= upper.ftl_robin(gaps, r1)
    assert upper.ftl_robin(gaps, r2, weights) <= upper.ftl_robin(gaps, r1, weights)


@given(some_gaps, rates, horizons, st.sampled_from([1e-3, 0.5, 7.0]), st.integers(0, 99))
@steady
def test_regret_is_measured_in_units_of_reward(gaps, rate, horizon, unit, seed):
    """Check that multiplying the gaps, σ and √c by a unit multiplies the regret by this unit."""
    weights = some_weights(len(gaps), seed)
    scaled = [unit * gap for gap in gaps]
    index = {"exploration": 6 * unit**2, "sd": unit}
    for bound in (
        lambda gaps, **index: upper.ucb_log(gaps, horizon, **index),
        lambda gaps, **index: upper.ucb_periodic(gaps, rate, weights, **index),
        lambda gaps, **index: upper.ucb_sharp(gaps, rate, weights, horizon, **index),
    ):
        assert bound(scaled, **index) == pytest.approx(unit * bound(gaps), rel=1e-9)
    for looks in (None, weights):
        assert upper.ftl_robin(scaled, rate, looks, sd=unit) == pytest.approx(
            unit * upper.ftl_robin(gaps, rate, looks), rel=1e-6
        )


@pytest.mark.parametrize("exploration", [4.5, 6.0, 20.0, 300.0])
def test_ucb_rate_covers_the_maximum_for_other_indices(exploration):
    t = np.unique(np.geomspace(1, 1e12, 4000).round())
    a = exploration / 2
    for gap, q in itertools.product([0.01, 0.3, 1.0, 10.0], [1e-6, 0.01, 1.0]):
        bound = upper.ucb_rate([0.0, gap], q, [0, 1], exploration=exploration) / gap
        bad = float(4 * mpmath.zeta(a - 1) + mpmath.zeta(2))
        assert 1 + needed(t, gap, q, exploration).max() + bad <= bound


def test_exploration_too_small_for_the_noise_raises():
    with pytest.raises(ValueError, match=r"exploration must be greater than 4 sd² = 4\.0, got 4"):
        upper.ucb_log(FOUR, 10, exploration=4)
    with pytest.raises(ValueError, match="exploration must be greater than"):
        upper.ucb_sharp(FOUR, 0.1, None, 10, sd=2.0)


# UCB: schedules


def test_constant_schedule_equals_a_rate():
    for horizon in (1, 2, 3, 1000, 10**5):
        flat = upper.ucb_schedule(FOUR, lambda t: 0.1 * t, None, horizon, details=True)
        sharp = upper.ucb_sharp(FOUR, 0.1, None, horizon, details=True)
        assert flat.total == pytest.approx(sharp.total, rel=1e-12)
        np.testing.assert_array_equal(flat.stages, sharp.stages)


def test_cells_never_lower_the_bound_of_a_long_schedule():
    """Check that grouping stages into cells raises the bound above `ucb_sharp` by at most 1 %."""
    weights = [0.4, 0.2, 0.2, 0.2]
    rates = np.array([1e-9, 1e-7, 1e-5])  # maxima far beyond the stages that are tried one by one
    for rate in rates:
        cells = upper.ucb_schedule(FOUR, lambda t, rate=rate: rate * t, weights, 10**12)
        sharp = upper.ucb_sharp(FOUR, rate, weights, 10**12)
        assert sharp <= cells * (1 + 1e-12)
        assert cells <= 1.01 * sharp


def test_early_looks_beat_the_same_number_spread_out():
    gaps, horizon = [0.0, 0.5], 10**5

    def front(t):  # about the sum of min(1, 300/s) over the stages s ≤ t
        return np.where(t <= 300, t, 300 * (1 + np.log(np.maximum(t, 300) / 300)))

    looks = float(front(np.array(float(horizon))))
    early = upper.ucb_schedule(gaps, front, [0, 1], horizon)
    assert early < upper.ucb_sharp(gaps, looks / horizon, [0, 1], horizon)


def test_schedule_with_more_than_one_look_per_stage_raises():
    with pytest.raises(ValueError, match="schedule must return sums of rates in"):
        upper.ucb_schedule(FOUR, lambda t: 2 * t, None, 100)
    with pytest.raises(ValueError, match="schedule must return sums of rates in"):
        upper.ucb_schedule(FOUR, lambda t: 1 / t, None, 100)


# UCB and FTL: simulations


@pytest.mark.parametrize(
    ("gaps", "rate", "weights", "horizon"),
    [
        ([0.0, 0.5], 0.05, [0.5, 0.5], 3000),
        ([0.0, 0.5], 0.0, [0.5, 0.5], 3000),
        ([0.0, 10.0], 1.0, [0.0, 1.0], 300),
        (FOUR, 0.1, UNIFORM, 2000),
        ([0.0, 0.0, 1.0, 1.0], 0.2, [0.0, 0.2, 0.4, 0.4], 2000),
    ],
)
def test_ucb_stays_below_its_bounds(gaps, rate, weights, horizon):
    regret = play(gaps, horizon, 100, 11, ucb_index, at_random(rate, weights))
    assert at_most(regret, upper.ucb_sharp(gaps, rate, weights, horizon))
    regret = play(gaps, horizon, 100, 12, ucb_index, periodic(rate, weights))
    assert at_most(regret, upper.ucb_periodic(gaps, rate, weights))


def test_ucb_stays_below_its_bound_for_a_schedule():
    gaps, horizon = [0.0, 0.5], 3000
    arrivals = np.minimum(1.0, 100 / np.arange(1.0, horizon + 1))
    expected = np.cumsum(arrivals)

    def looks(t, rng, n_runs):
        return (rng.random(n_runs) < arrivals[t - 1])[:, None] * np.array([0, 1])

    regret = play(gaps, horizon, 100, 13, ucb_index, looks)
    bound = upper.ucb_schedule(gaps, lambda t: expected[t.astype(int) - 1], [0, 1], horizon)
    assert at_most(regret, bound)


@pytest.mark.parametrize(
    ("gaps", "rate"), [([0.0, 1.0], 0.2), ([0.0, 0.0, 1.0, 2.0], 0.5), ([0, 9.0], 0.1)]
)
def test_ftl_robin_stays_below_its_bounds(gaps, rate):
    for random in (False, True):
        regret = play(gaps, 2000, 200, 14, leader, in_turn(rate, len(gaps), 200, random))
        assert at_most(regret, upper.ftl_robin(gaps, rate))
    weights = np.full(len(gaps), 1 / len(gaps))
    regret = play(gaps, 2000, 200, 15, leader, at_random(rate, weights))
    assert at_most(regret, upper.ftl_robin(gaps, rate, weights))


@given(some_gaps, st.floats(1e-3, 1.0))
@settings(max_examples=30, deadline=None)
def test_ftl_robin_sums_its_series(gaps, rate):
    gaps = [max(gap, 0.1) if gap > 0 else 0.0 for gap in gaps]
    weights = np.full(len(gaps), 1 / len(gaps))
    expected = passive = 0.0
    for gap in gaps:
        if gap > 0:
            n = np.arange(1, 60_000)
            errors = math.fsum(np.minimum(1, 2 * np.exp(-n * gap**2 / 8)))
            expected += gap * (1 + len(gaps) / rate * errors)
            ratio = math.exp(-(gap**2) / 8)
            passive += gap * (1 + 2 * len(gaps) / rate * ratio / (1 - ratio))
    assert upper.ftl_robin(gaps, rate) == pytest.approx(expected, rel=1e-9)
    assert upper.ftl_robin(gaps, rate, weights) == pytest.approx(passive, rel=1e-9)


def test_ftl_robin_s_constant_is_that_of_two_arms_and_small_gaps():
    """D22: for K = 2 and Δ ≤ 1 the regret is at most c̄/(εΔ) with c̄ = 27.2.

    For a large gap, the first pull alone costs more than c̄/(εΔ).
    """
    for gap, rate in itertools.product([1e-6, 1e-3, 0.1, 0.5, 0.9, 1.0], [1e-6, 0.1, 1.0]):
        assert upper.ftl_robin([0.0, gap], rate) <= 27.2 / (rate * gap)
    limit = upper.ftl_robin([0.0, 1e-6], 1e-3) * 1e-6 * 1e-3
    assert limit == pytest.approx(16 * (1 + math.log(2)), rel=1e-6)
    assert upper.ftl_robin([0.0, 100.0], 1.0) >= 100.0 > 27.2 / 100


def test_ftl_robin_sees_each_arm_once_in_k_looks_not_in_one():
    """D22: in the paper's example with Δ = 0.5 and ε = 0.1, the regret is near 17.9, not 9.

    One arm has rewards N(Δ, 1), the other always pays 0. The printed period gives 9, half of the
    correct value. The mean of 2000 runs has a standard error of about 0.4.
    """
    gap, rate, n_runs = 0.5, 0.1, 2000
    rng = np.random.default_rng(16)
    total, count = rng.standard_normal(n_runs) + gap, np.ones(n_runs)
    regret, turn = np.full(n_runs, gap), 0  # one pull of the arm that pays 0
    for t in range(3, 4000):
        leads = total / count > 0
        regret += gap * ~leads
        looked = False
        if t % round(1 / rate) == 0:
            looked, turn = turn == 0, 1 - turn
        for seen in (leads, looked):
            total = np.where(seen, total + rng.standard_normal(n_runs) + gap, total)
            count = count + seen
    tails = sum(math.erfc(gap * math.sqrt(s / 2)) / 2 for s in range(1, 2000))
    period = 2 / rate
    assert gap * period * tails == pytest.approx(17.9, abs=0.1)
    assert 0.75 * gap * period * tails < regret.mean() < gap * period * tails
    assert regret.mean() > 1.5 * gap / rate * tails  # the printed period is 1/ε
    assert regret.mean() <= upper.ftl_robin([0.0, gap], rate)


def test_ftl_robin_is_infinite_if_an_arm_gets_no_looks():
    assert upper.ftl_robin(FOUR, 0.1, [0.0, 0.5, 0.25, 0.25]) == math.inf
    assert upper.ftl_robin(FOUR, 0.1, [0.5, 0.5, 0.0, 0.0]) == math.inf
    assert upper.ftl_robin(FOUR, 0.0) == math.inf
    # one optimal arm with looks is enough
    assert upper.ftl_robin([0.0, 0.0, 1.0], 0.1, [0.5, 0.0, 0.5]) < math.inf


# OCUCB-n


def slow_ocucb(gaps, log_d, rho, clip):
    """Return the bound of OCUCB-n for C_η = 1; `clip` replaces a negative log log d by 0."""
    total, gaps = 0.0, list(gaps)
    loglog = math.log(log_d)
    for gap in gaps:
        if gap > 0:
            k = sum(1.0 if other <= gap else (gap / other) ** (2 * rho) for other in gaps)
            log = max(log_d + math.log(gap**2 / k), 0.0)
            total += (log + (max(loglog, 0.0) if clip else loglog)) / gap + gap
    return total


@given(some_gaps, st.integers(2, 10**15), st.sampled_from([0.5, 0.8, 1.0]))
@steady
def test_ocucb_is_the_lemma_s_formula(gaps, horizon, rho):
    for form, clip in [("lemma", True), ("printed", False)]:
        expected = slow_ocucb(gaps, math.log(horizon), rho, clip)
        found = upper.ocucb(gaps, horizon, c_eta=3.0, rho=rho, form=form)
        assert found == pytest.approx(3 * expected, rel=1e-9, abs=1e-9)
    lemma = upper.ocucb(gaps, horizon, c_eta=3.0, rho=rho, form="lemma", details=True)
    proved = upper.ocucb(gaps, horizon, c_eta=3.0, rho=rho)
    terms = np.minimum(lemma.terms, max(1, horizon - len(gaps) + 1) * np.array(gaps))
    assert proved == pytest.approx(min(terms.sum(), most(gaps, horizon)))


@pytest.mark.slow
def test_a_larger_set_of_arms_has_a_larger_bound_only_if_the_double_logarithm_is_clipped():
    """D41: in the first epoch (d = 2), another arm may lower the printed bound.

    With a clipped double logarithm, no violation is found in any of the first five epochs.
    """
    rng = np.random.default_rng(17)
    violations = dict.fromkeys([("printed", 0), *(("lemma", m) for m in range(5))], 0)
    for _ in range(1000):
        gaps = np.concatenate([[0.0], np.exp(rng.uniform(-4, 0, rng.integers(2, 12)))])
        fewer = np.delete(gaps, rng.integers(1, gaps.size))
        for form, m in violations:
            length = complexity.epoch_length(m)
            more, less = (upper.ocucb(some, length, c_eta=1.0, form=form) for some in (gaps, fewer))
            violations[form, m] += more < less * (1 - 1e-12)
    assert violations.pop(("printed", 0)) > 100
    assert not any(violations.values())


def test_the_smallest_counterexamples_to_the_growth_of_the_bound():
    """D41: for d = 2, a second arm with gap 0.2 lowers the printed bound but not the clipped one.

    Clipping is not sufficient for gaps above 1.
    """
    two, three = ([0.0] + [0.2] * n for n in (1, 2))
    assert upper.ocucb(three, 2, c_eta=1.0, form="printed") < upper.ocucb(
        two, 2, c_eta=1.0, form="printed"
    )
    assert upper.ocucb(three, 2, c_eta=1.0, form="lemma") > upper.ocucb(
        two, 2, c_eta=1.0, form="lemma"
    )
    more, fewer = (
        upper.ocucb(some, 2, c_eta=1.0, form="lemma") for some in ([0.0, 0.1, 2.0], [0.0, 2.0])
    )
    assert more < fewer


# ETC


def eliminations(averages, log_horizon, alpha):
    """Return the round in which ETC eliminates each arm, or inf for an arm that it keeps.

    The average reward of an arm after s rounds is averages[s − 1, arm].
    """
    n_rounds, n_arms = averages.shape
    eliminated = np.full(n_arms, math.inf)
    for s in range(1, n_rounds + 1):
        if math.log(s) >= log_horizon:
            break
        width = math.sqrt(2 * alpha / s * (log_horizon - math.log(s)))
        left = np.isinf(eliminated)
        drop = left & (averages[s - 1] + 2 * width < averages[s - 1][left].max())
        eliminated[drop] = s
    return eliminated


def test_an_adversary_within_the_radii_keeps_an_arm_twice_as_long_as_printed():
    """D13: with α = c = 1, ETC may keep an arm for more than 1.7 times the printed number of rounds.

    The averages are the least favourable averages that the concentration event allows.
    """
    gap, horizon = 0.5, 10**5
    s = np.arange(1, 3000)
    radius = np.sqrt(2 / s * np.log(horizon / s))
    averages = np.stack([-radius, radius - gap], axis=1)
    eliminated = eliminations(averages, math.log(horizon), 1.0)
    right = upper.etc_elimination([0.0, gap], math.log(horizon))
    printed = upper.etc_elimination([0.0, gap], math.log(horizon), form="printed")
    assert eliminated[0] == math.inf  # D14: α = c suffices for the best arm
    assert eliminated[1] == right.last[1] > 1.7 * printed.last[1]


def test_a_friend_within_the_radii_drops_an_arm_sooner_than_printed():
    """D13: with α = 4 and c = 1, ETC may eliminate an arm before the printed first round.

    The averages are the most favourable averages that the concentration event allows.
    """
    gap, horizon = 0.5, 10**5
    s = np.arange(1, 6000)
    radius = np.sqrt(2 / s * np.log(horizon / s))
    averages = np.stack([radius, -radius - gap], axis=1)
    eliminated = eliminations(averages, math.log(horizon), 4.0)
    right = upper.etc_elimination([0.0, gap], math.log(horizon), alpha=4.0)
    printed = upper.etc_elimination([0.0, gap], math.log(horizon), alpha=4.0, form="printed")
    assert right.first[1] <= eliminated[1] <= right.first[1] + 1
    assert eliminated[1] < printed.first[1]


@pytest.mark.slow
def test_etc_drops_arms_when_it_should_on_simulated_averages():
    """Check each run in which the concentration event holds, and the probability of the event.

    By the bound, the event fails with probability at most 2.9 %; in simulations it fails in about
    1.1 % of the runs. If 1.1 % is the true probability, the event fails in more than 2.9 % of 2000
    runs with probability below 1e-6.
    """
    gaps, log_horizon = np.array([0.0, 0.3, 0.6, 1.0]), math.log(1e6)
    bound = upper.etc_elimination(gaps, log_horizon)
    s = np.arange(1, bound.last[1] + 1)[:, None]
    radius = np.sqrt(2 / s * (log_horizon - np.log(s)))
    rng = np.random.default_rng(18)
    held, rounds = 0, []
    for run in range(2000):
        averages = rng.standard_normal((s.size, 4)).cumsum(axis=0) / s
        if (np.abs(averages) > radius).any():
            continue
        held += 1
        if run < 150:
            eliminated = eliminations(averages - gaps, log_horizon, 1.0)
            assert eliminated[0] == math.inf
            assert (eliminated[1:] <= bound.last[1:]).all()
            for i in range(1, 4):  # observations of all arms until arms i, …, 3 are eliminated
                assert np.minimum(eliminated, eliminated[i:].max()).sum() <= bound.observations[i]
            rounds.append(eliminated[1:])
    assert held / 2000 >= bound.probability[1]
    # without noise, an arm is eliminated in the round that belongs to the constant 8α
    typical = complexity.etc_rounds(gaps, log_horizon, 8.0)[1:]
    np.testing.assert_allclose(np.median(rounds, axis=0), typical, rtol=0.15)


def test_the_printed_probability_of_etc_is_weaker_but_right():
    right = upper.etc_elimination(FOUR, math.log(1e7))
    tau, horizon = right.last[1:], 1e7
    expected = 1 - 8 * concentration.maximal(tau / horizon, tau)
    np.testing.assert_allclose(right.probability[1:], expected)
    printed = upper.etc_elimination(FOUR, math.log(1e7), form="printed")
    tau = printed.last[1:]
    np.testing.assert_allclose(
        printed.probability[1:], 1 - 48 * tau / horizon * np.sqrt(np.log(horizon / tau))
    )
    # for a short horizon, the lower bound on the probability is 0
    assert (upper.etc_elimination(FOUR, math.log(100)).probability == 0).all()


# ETC-OCUCB, the paper's active algorithm


def slow_exact(gaps, rate, horizon, rho, constant):
    """Return the sum over epochs of OCUCB-n's bound for the arms that are left, for C_η = 1.

    The sum includes the regret after errors of ETC. The function loops over ranks.
    """
    gaps = sorted(gaps)
    n_arms = len(gaps)
    hardness = [
        math.inf
        if gap == 0
        else sum(min(1, (gap / other) ** 2 if other else 1) for other in gaps) / gap**2
        for gap in gaps
    ]

    def eliminated(i, m):  # rank i counts from 0
        return (
            2.0**m - m >= math.log2(10 * math.log(2) * constant * hardness[i] / rate)
            if rate
            else False
        )

    final = 0
    while 2**2**final < horizon:
        final += 1
    total, left = 0.0, n_arms
    for m in range(final + 1):
        log_d = 2**m * math.log(2)
        total += slow_ocucb(gaps[:left], log_d, rho, clip=True)
        total += (m > 0) and (1 + 12 * n_arms * math.sqrt(log_d + math.log(log_d))) / log_d
        left = next((i for i in range(n_arms) if gaps[i] > 0 and eliminated(i, m)), n_arms)
    return total


@given(
    st.lists(st.floats(1e-4, 1.0), min_size=1, max_size=6),
    st.sampled_from([0.0, 1e-6, 0.01, 0.1, 0.5, 1.0]),
    st.sampled_from([1, 2, 3, 16, 17, 10**4, 10**12]),
    st.sampled_from([0.5, 1.0]),
)
def test_etc_ocucb_sums_the_epochs(gaps, rate, horizon, rho):
    gaps = [0.0, *gaps]
    expected = slow_exact(gaps, rate, horizon, rho, 32.0)
    found = upper.etc_ocucb(gaps, rate, horizon, c_eta=1.0, rho=rho, form="exact")
    assert found == pytest.approx(min(expected, horizon * max(gaps)), rel=1e-9)


@given(
    st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=8),
    rates,
    st.one_of(st.none(), horizons),
    st.sampled_from([0.5, 0.75, 1.0]),
    st.floats(0.01, 100),
)
def test_the_explicit_bound_of_etc_ocucb_covers_the_exact_one(gaps, rate, horizon, rho, c_eta):
    gaps = [*gaps, 0.0]
    exact = upper.etc_ocucb(gaps, rate, horizon, c_eta=c_eta, rho=rho, form="exact")
    explicit = upper.etc_ocucb(gaps, rate, horizon, c_eta=c_eta, rho=rho)
    assert exact <= explicit * (1 + 1e-12)
    assert (explicit == math.inf) == (rate == 0 and horizon is None)


def test_the_explicit_bound_of_etc_ocucb_is_the_corrected_one():
    gaps, rate, rho = np.array([0.0, 0.1, 0.5, 0.9]), 0.1, 0.5
    epochs = complexity.last_epoch(gaps, rate)[1:]
    total = 38.563239 * 4 + 1.442695
    for i, gap, m in zip([2, 3, 4], gaps[1:], epochs, strict=True):
        full = i / gap**2 + sum(1 / (gap * other) for other in gaps[i:])
        reduced = i / gap**2
        largest = max(math.sqrt(2) ** 2**m / reduced, full / math.sqrt(reduced))
        total += 2.5 / gap * (5 * math.log(largest) + math.log(2) / 2 * m * (m + 1))
        total += 2.5 * (m + 1) * gap
    assert upper.etc_ocucb(gaps, rate, c_eta=2.5, rho=rho) == pytest.approx(total, rel=1e-7)


def log_sum(hardness, reduced, m_i):
    """Return Σ_{m ≤ m_i} log_+(d_m/H^(m)), where H^(m) = H for m < m_i and H^(m_i) = H'.

    H is `hardness`, H' is `reduced`, and d_m is the length of epoch m.
    """
    return sum(
        max(0.0, 2**m * math.log(2) - math.log(reduced if m == m_i else hardness))
        for m in range(m_i + 1)
    )


def test_four_does_not_cover_the_sum_over_epochs_and_five_does():
    """D25: `log_sum` is at most 5 log max{d_{m_i−1}/H', H/√H'}; the factor 4 is too small.

    For H = H' = 16^(2/3) and m_i = 3, the sum is 4.62, and 4 times the logarithm is 3.70. The
    factor 5 is attained in this case, and it is sufficient for random H' ≤ H.
    """
    hardness = 16 ** (2 / 3)
    largest = math.log(max(16 / hardness, math.sqrt(hardness)))
    exact = log_sum(hardness, hardness, 3)
    assert exact == pytest.approx(4.62, abs=0.005)
    assert 4 * largest == pytest.approx(3.70, abs=0.005)
    assert 4 * largest < exact <= 5 * largest * (1 + 1e-12)
    rng = np.random.default_rng(19)
    for _ in range(3000):
        m_i = int(rng.integers(0, 7))
        hardness = math.exp(rng.uniform(0, 2.0**m_i))
        reduced = math.exp(rng.uniform(0, 1) * math.log(hardness))
        log_d = 2.0 ** (m_i - 1) * math.log(2)
        largest = max(log_d - math.log(reduced), math.log(hardness) - math.log(reduced) / 2)
        # the sum is largest if every H^(m) equals H'
        assert log_sum(reduced, reduced, m_i) <= 5 * largest + 1e-9
        assert log_sum(hardness, reduced, m_i) <= 5 * largest + 1e-9


def test_the_regret_of_an_erring_etc():
    """D26: Σ_{m≥1} d_m δ_m = 38.56K + 1.44 bounds a regret, not a probability.

    The paper prints the bound 51K.
    """

    def total(n_arms):
        def term(m):
            log_d = mpmath.mpf(2) ** (m + 1) * mpmath.log(2)
            return (1 + 12 * n_arms * mpmath.sqrt(log_d + mpmath.log(log_d))) / log_d

        return float(mpmath.fsum(term(m) for m in range(200)))

    for n_arms in (1, 2, 200):
        assert _sum_errors(n_arms) == pytest.approx(total(n_arms), rel=1e-12)
        assert total(n_arms) == pytest.approx(38.56 * n_arms + 1.44, rel=2e-4)
        assert total(n_arms) < 51 * n_arms
    assert _sum_errors(3, np.array([0.0, 1.0]))[0] == 0.0  # with one epoch, no epoch follows an error


@pytest.mark.parametrize(
    ("gaps", "rate", "i_m"), [([0.0, 0.1, 0.5, 0.9], 0.01, 5), ([0.0, 0.001, 0.9, 0.95], 1.0, 3)]
)
def test_the_printed_bound_of_etc_ocucb(gaps, rate, i_m):
    """D36: compare with the last explicit formula of the appendix.

    This formula has C_α = 16, and its sums include rank i_m. At T = 10⁴ the last epoch m_i of every
    arm is the final epoch 4, which has 256² stages; epoch 3 has 256 stages.
    """
    targets = [math.log2(10 * math.log(2) * 16 * h / rate) for h in complexity.hardness(gaps)[1:]]
    eliminated = [i for i, target in enumerate(targets, start=2) if target <= 2**4 - 4]
    assert min(eliminated, default=5) == i_m
    assert min(targets) > 2**3 - 3
    total = 51.0 * 4
    for i, gap in enumerate(gaps[1:], start=2):
        full = i / gap**2 + sum(1 / (gap * other) for other in gaps[i:])
        reduced = i / gap**2 + sum(1 / (gap * other) for other in gaps[i:i_m])
        largest = max(256 / reduced, full / math.sqrt(reduced))
        total += (4 * math.log(largest) + 4 + 4**2) / gap + gap
    found = upper.etc_ocucb(gaps, rate, 10**4, c_eta=1.0, form="printed")
    assert found == pytest.approx(total, rel=1e-12)


def test_etc_ocucb_is_finite_without_a_horizon_if_gaps_are_small():
    gaps = [0.0, 0.1, 0.5]
    for form in ("proved", "exact"):
        for_ever = upper.etc_ocucb(gaps, 0.1, c_eta=1.0, form=form)
        assert upper.etc_ocucb(gaps, 0.1, 10**15, c_eta=1.0, form=form) <= for_ever < math.inf
        assert upper.etc_ocucb(gaps, 0.0, c_eta=1.0, form=form) == math.inf
        assert upper.etc_ocucb([0.0, 0.1, 1.1], 0.1, c_eta=1.0, form=form) == math.inf
    leading = upper.etc_ocucb(gaps, 0.1, c_eta=2.0, form="leading")
    h = complexity.hardness(gaps, 0.5)[1:]
    sizes = np.maximum(math.log(10), np.log(h) / 2)
    assert leading == pytest.approx((10 * sizes / np.array(gaps[1:])).sum())


def test_smaller_variance_helps_etc_ocucb():
    """D14: rewards in [0, 1] have variance c = 1/4, which gives C_α = 18 instead of 32."""
    gaps = [0.0, 0.1, 0.5]
    bounds = [
        upper.etc_ocucb(gaps, rate, c_eta=1.0, variance=0.25) - upper.etc_ocucb(gaps, rate, c_eta=1.0)
        for rate in np.geomspace(1e-6, 1, 40)
    ]
    assert max(bounds) <= 0
    assert min(bounds) < 0


# Paid looks


def test_paid_looks_telescope_unless_some_are_too_few():
    """D35: ε cancels, and the total is Σ log(TΔ²)/Δ, if εTΔ² ≥ 1 for all arms.

    If εTΔ² < 1 for some arm, the total is larger than the printed formula, in which ε always cancels.
    """
    gaps = np.array(FOUR[1:])
    whole = (np.log(1e4 * gaps**2) / gaps).sum()
    assert upper.paid_looks(FOUR, 0.01, 10**4) == pytest.approx(whole)
    assert upper.paid_looks(FOUR, 1.0, 10**4) == pytest.approx(whole)
    few = upper.paid_looks(FOUR, 1e-4, 10**4)
    assert few > whole * 1.1
    clipped = (np.maximum(np.log(1e-4 * 1e4 * gaps**2), 0) + math.log(1e4)) / gaps
    assert few == pytest.approx(clipped.sum())
    with pytest.raises(ValueError, match="form must be one of leading, got 'proved'"):
        upper.paid_looks(FOUR, 0.1, 10, form="proved")


# Properties of all upper bounds


BOUNDS = {
    "ucb_log": lambda gaps, rate, weights, horizon, **kw: upper.ucb_log(gaps, horizon, **kw),
    "ucb_rate": lambda gaps, rate, weights, horizon, **kw: upper.ucb_rate(gaps, rate, weights, **kw),
    "ucb_periodic": lambda gaps, rate, weights, horizon, **kw: upper.ucb_periodic(
        gaps, rate, weights, **kw
    ),
    "ucb_passive": upper.ucb_passive,
    "ucb_sharp": upper.ucb_sharp,
    "ftl_robin": lambda gaps, rate, weights, horizon, **kw: upper.ftl_robin(gaps, rate, **kw),
    "ftl_passive": lambda gaps, rate, weights, horizon, **kw: upper.ftl_robin(
        gaps, rate, weights, **kw
    ),
    "ocucb": lambda gaps, rate, weights, horizon, **kw: upper.ocucb(gaps, horizon, c_eta=1.0, **kw),
    "etc_ocucb": lambda gaps, rate, weights, horizon, **kw: upper.etc_ocucb(
        gaps, rate, horizon, c_eta=1.0, **kw
    ),
    "etc_ocucb exact": lambda gaps, rate, weights, horizon, **kw: upper.etc_ocucb(
        gaps, rate, horizon, c_eta=1.0, form="exact", **kw
    ),
    "paid_looks": lambda gaps, rate, weights, horizon, **kw: upper.paid_looks(
        gaps, rate, horizon, **kw
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("bound", BOUNDS.values(), ids=BOUNDS.keys())
@given(gaps=some_gaps, rate=rates, horizon=horizons, seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_every_bound_is_a_sum_over_arms_in_the_caller_s_order(bound, gaps, rate, horizon, seed):
    weights = some_weights(len(gaps), seed)
    found = bound(gaps, rate, weights, horizon, details=True)
    assert isinstance(found.total, float)
    assert found.total == bound(gaps, rate, weights, horizon)
    assert (found.terms >= 0).all()  # also fails for NaN
    assert (found.terms[np.array(gaps) == 0] == 0).all()
    assert min(found.terms.sum(), most(gaps, horizon)) <= found.total * (1 + 1e-12)
    order = np.random.default_rng(seed).permutation(len(gaps))
    shuffled = bound(np.array(gaps)[order], rate, weights[order], horizon, details=True)
    assert shuffled.total == pytest.approx(found.total, rel=1e-9)
    if len(set(gaps)) == len(gaps):
        np.testing.assert_allclose(shuffled.terms, found.terms[order], rtol=1e-9)


@pytest.mark.parametrize("bound", BOUNDS.values(), ids=BOUNDS.keys())
@pytest.mark.parametrize("n_arms", [2, 200])
@pytest.mark.parametrize("gap", [1e-6, 1.0, 100.0])
def test_every_bound_takes_arrays_of_rates_and_horizons(bound, n_arms, gap):
    gaps, weights = [0.0] + [gap] * (n_arms - 1), np.full(n_arms, 1 / n_arms)
    some, times = np.array([[0.0], [1e-300], [0.3], [1.0]]), np.array([1, 2, 3, 10**12, 10**15])
    totals = np.broadcast_to(bound(gaps, some, weights, times), (4, 5))
    assert not np.isnan(totals).any()
    assert (totals >= 0).all()
    for i, j in itertools.product(range(4), range(5)):
        single = bound(gaps, some[i, 0], weights, int(times[j]))
        assert totals[i, j] == pytest.approx(single, rel=1e-12)


@pytest.mark.parametrize("bound", BOUNDS.values(), ids=BOUNDS.keys())
def test_bounds_are_0_if_every_arm_is_optimal(bound):
    for rate in (0.0, 0.5):
        assert bound([0.0, 0.0, 0.0], rate, [0.0, 0.0, 0.5], 10**6) == 0.0
    assert upper.ucb_schedule([0.0, 0.0], lambda t: 0.1 * t, None, 10**3) == 0.0


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: upper.ucb_log([0.1, 0.2], 10), "gaps"),
        (lambda: upper.ucb_log(FOUR, 0), "horizon"),
        (lambda: upper.ucb_log(FOUR, 10, form="leading"), "form"),
        (lambda: upper.ucb_log(FOUR, 10, form="printed", sd=0.5), "form"),
        (lambda: upper.ucb_log(FOUR, 10, sd=math.nan), "sd"),
        (lambda: upper.ucb_rate(FOUR, -0.1), "rate"),
        (lambda: upper.ucb_rate(FOUR, 0.1, [1, 1, 1, 1]), "weights"),
        (lambda: upper.ucb_periodic(FOUR, math.nan), "rate"),
        (lambda: upper.ucb_sharp(FOUR, 0.1, None, 2.5), "horizon"),
        (lambda: upper.ftl_robin(FOUR, 0.1, sd=0), "sd"),
        (lambda: upper.ocucb(FOUR, 10, c_eta=0.0), "c_eta"),
        (lambda: upper.ocucb(FOUR, 10, c_eta=1.0, rho=0.3), "rho"),
        (lambda: upper.etc_ocucb(FOUR, 0.1, c_eta=math.inf), "c_eta"),
        (lambda: upper.etc_ocucb(FOUR, 0.1, c_eta=1.0, form="other"), "form"),
        (lambda: upper.etc_ocucb(FOUR, 0.1, c_eta=1.0, alpha=0.5), "alpha"),
        (lambda: upper.etc_elimination(FOUR, -1.0), "log_horizon"),
        (lambda: upper.etc_elimination(FOUR, 10.0, form="leading"), "form"),
    ],
)
def test_errors_name_the_argument(call, name):
    with pytest.raises(ValueError, match=f"^{name} must be"):
        call()
