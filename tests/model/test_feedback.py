"""Tests of the feedback models: arrivals of looks, arms of looks, and invalid input.

The seeds are fixed. With a random seed, each statistical test would fail by chance with probability
at most 10^-6. There are fewer than 40 statistical tests.
"""

import math
import re
from functools import cache

import numpy as np
import pytest
from histories import make_policy, play_runs
from hypothesis import given, strategies as st
from scipy import stats

from kibitz.engine.environment import make_look_functions, make_looks
from kibitz.model.feedback import active, bandit, every, full, passive
from kibitz.model.problem import gaussian
from kibitz.policies.policy import NEVER

GAPS = np.array([0.0, 0.2, 1.5, 1.8])
PROBLEM = gaussian([2.0, 1.8, 0.5, 0.2])


def list_arrivals(next_arrival, looks, horizon, rng, out):
    stage, n = 0, 0
    while True:
        stage = next_arrival(looks, stage, horizon, rng, np.zeros(1))
        if stage > horizon:
            return n
        out[n] = stage
        n += 1


def find_next(next_arrival, looks, stage, horizon, rng):
    return next_arrival(looks, stage, horizon, rng, np.zeros(1))


def draw_arms(draw_look_arm, looks, stage, rng, out):
    for n in range(out.size):
        out[n] = draw_look_arm(looks, stage, rng)


@cache
def get_functions(feedback):
    """Return the compiled functions that draw the next arrival and the arm of a look."""
    return make_look_functions(feedback)


def find_arrivals(feedback, horizon, seed=0):
    """Return the stages at which looks arrive."""
    out = np.zeros(horizon + 1, np.int64)
    next_arrival, _ = get_functions(feedback)
    looks = make_looks(feedback, GAPS, horizon)
    n = list_arrivals(next_arrival, looks, horizon, np.random.default_rng(seed), out)
    return out[:n]


def count_arms(feedback, n, seed=0, stage=1, horizon=100):
    """Return how many of n looks of a passive observer go to each arm."""
    out = np.zeros(n, np.int64)
    _, draw_look_arm = get_functions(feedback)
    draw_arms(
        draw_look_arm, make_looks(feedback, GAPS, horizon), stage, np.random.default_rng(seed), out
    )
    return np.bincount(out, minlength=GAPS.size)


def fits_weights(counts, weights):
    """Return whether the counts pass a chi-squared test for the weights.

    An arm with weight 0 must have count 0.
    """
    weights = np.asarray(weights)
    if np.any(counts[weights == 0]):
        return False
    expected = weights[weights > 0] * counts.sum()
    return len(expected) == 1 or stats.chisquare(counts[weights > 0], expected).pvalue > 1e-6


# --------------------------------------------------------------------------------------- arrivals


@pytest.mark.parametrize("rate", [1e-3, 0.1, 0.5, 0.99])
def test_random_arrivals_have_the_given_rate(rate):
    n = len(find_arrivals(active(rate), 20_000, seed=1))
    assert stats.binomtest(n, 20_000, rate).pvalue > 1e-6


@pytest.mark.parametrize("rate", [0.1, 0.6])
def test_waiting_times_of_random_arrivals_are_geometric(rate):
    gaps = np.diff(find_arrivals(active(rate), 20_000, seed=2), prepend=0)
    longest_wait = int(gaps.max())
    last_bin = int(stats.geom.ppf(0.99, rate))
    counts = np.bincount(np.minimum(gaps, last_bin), minlength=longest_wait)[1 : last_bin + 1]
    chances = stats.geom.pmf(np.arange(1, last_bin + 1), rate)
    chances[-1] = stats.geom.sf(last_bin - 1, rate)
    assert stats.chisquare(counts, chances * gaps.size).pvalue > 1e-6


def test_arrivals_are_as_likely_at_the_first_stage_as_later():
    n_first = sum(1 in find_arrivals(active(0.3), 1, seed) for seed in range(2000))
    assert stats.binomtest(n_first, 2000, 0.3).pvalue > 1e-6


def test_rate_1_gives_a_look_at_every_stage():
    assert find_arrivals(active(1.0), 50).tolist() == list(range(1, 51))


def test_rate_0_gives_no_looks():
    for feedback in (active(0.0), active(0), bandit(), active([0.0] * 50), active(1e-300)):
        assert find_arrivals(feedback, 50).size == 0


@given(st.integers(1, 40), st.integers(1, 90), st.integers(1, 100))
def test_periodic_arrivals_are_exact(n, first, horizon):
    stages = find_arrivals(active(every(n, first=first)), horizon)
    assert stages.tolist() == list(range(first, horizon + 1, n))


@given(st.integers(1, 40))
def test_periodic_arrivals_begin_after_one_period(n):
    assert find_arrivals(active(every(n)), 100).tolist() == list(range(n, 101, n))


def test_a_list_of_rates_has_one_rate_per_stage():
    rates = np.array([0.0, 1.0, 0.3, 0.8, 0.0, 1.0])
    counts = np.zeros(6, int)
    for seed in range(1000):
        counts[find_arrivals(active(rates), 6, seed) - 1] += 1
    assert counts[[0, 4]].tolist() == [0, 0]
    assert counts[[1, 5]].tolist() == [1000, 1000]
    assert stats.binomtest(int(counts[2]), 1000, 0.3).pvalue > 1e-6
    assert stats.binomtest(int(counts[3]), 1000, 0.8).pvalue > 1e-6


def falling(stage):
    return 1.0 if stage <= 3 else 3 / stage


FALLING_FEEDBACK = active(falling)


def test_rate_can_be_a_function_of_the_stage():
    counts = np.zeros(12, int)
    for seed in range(1000):
        counts[find_arrivals(FALLING_FEEDBACK, 12, seed) - 1] += 1
    assert counts[:3].tolist() == [1000] * 3
    for stage in range(4, 13):
        assert stats.binomtest(int(counts[stage - 1]), 1000, 3 / stage).pvalue > 1e-6


def test_list_and_function_with_the_same_rates_give_the_same_arrivals():
    rates = [falling(stage) for stage in range(1, 201)]
    np.testing.assert_array_equal(
        find_arrivals(active(rates), 200, 3), find_arrivals(FALLING_FEEDBACK, 200, 3)
    )


def test_arrival_stages_do_not_overflow():
    looks = make_looks(active(1e-18), GAPS, 10)
    next_arrival, _ = get_functions(active(1e-18))
    for seed in range(20):
        assert 10 < find_next(next_arrival, looks, 0, 10, np.random.default_rng(seed)) <= NEVER


# ------------------------------------------------------------------------------------------- arms


@pytest.mark.parametrize(
    "weights",
    [
        [0.25, 0.25, 0.25, 0.25],
        [0.0, 0.5, 0.5, 0.0],
        [0.7, 0.0, 0.0, 0.3],
        [0.0, 0.0, 0.0, 1.0],
        [1.0, 0.0, 0.0, 0.0],
        [0.1, 0.2, 0.3, 0.4],
    ],
)
def test_arms_are_drawn_by_their_weights(weights):
    assert fits_weights(count_arms(passive(0.1, weights), 20_000, seed=4), weights)


def test_uniform_optimal_and_suboptimal_weights():
    optimal = np.array([0, 1 / 0.2, 1 / 1.5, 1 / 1.8])
    suboptimal = optimal**2
    for name, weights in [
        ("uniform", np.full(4, 0.25)),
        ("optimal", optimal / optimal.sum()),
        ("suboptimal", suboptimal / suboptimal.sum()),
    ]:
        np.testing.assert_allclose(passive(0.1, name).static_weights(GAPS), weights, rtol=1e-14)
        assert fits_weights(count_arms(passive(0.1, name), 20_000, seed=5), weights), name


def test_weights_can_have_one_row_per_stage():
    rows = np.array([[1.0, 0, 0, 0], [0, 0.5, 0.5, 0], [0.1, 0.2, 0.3, 0.4]])
    for stage, row in enumerate(rows, start=1):
        feedback = passive(0.1, rows)
        assert fits_weights(count_arms(feedback, 5000, seed=6, stage=stage, horizon=3), row)


def moving_weights(stage, arm):
    return 1.0 if arm == stage % 2 else 0.0


def tilted_weights(stage, arm):
    return (0.1, 0.2, 0.3, 0.4)[arm] if stage > 1 else (0.4, 0.3, 0.2, 0.1)[arm]


def test_weights_can_be_a_function_of_stage_and_arm():
    feedback = passive(0.1, moving_weights)
    assert count_arms(feedback, 50, stage=1).tolist() == [0, 50, 0, 0]
    assert count_arms(feedback, 50, stage=2).tolist() == [50, 0, 0, 0]
    feedback = passive(0.1, tilted_weights)
    assert fits_weights(count_arms(feedback, 20_000, seed=7, stage=1), [0.4, 0.3, 0.2, 0.1])
    assert fits_weights(count_arms(feedback, 20_000, seed=7, stage=9), [0.1, 0.2, 0.3, 0.4])


random_gaps = st.lists(st.floats(0, 1e3), min_size=2, max_size=8).map(
    lambda means: max(means) - np.array(means)
)


@given(random_gaps, st.sampled_from(["uniform", "optimal", "suboptimal"]))
def test_named_weights_are_probabilities_and_0_for_optimal_arms(gaps, name):
    if name != "uniform" and not np.any(gaps > 0):
        return
    weights = passive(0.1, name).static_weights(gaps)
    assert np.all(weights >= 0)
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    if name != "uniform":
        assert np.all(weights[gaps == 0] == 0)
        smallest_gap = gaps[gaps > 0].min()
        assert np.all(weights <= weights[gaps == smallest_gap].max())


# --------------------------------------------------------------------------------- in the engine


@pytest.mark.slow
def test_each_arrival_brings_several_looks():
    for feedback in (passive(0.2, looks=3), active(0.2, looks=3)):
        n_looks = play_runs(make_policy("ftl"), PROBLEM, feedback, horizon=500, runs=20).n_looks.sum(
            axis=1
        )
        assert np.all(n_looks % 3 == 0)
        assert stats.binomtest(int(n_looks.sum()) // 3, 500 * 20, 0.2).pvalue > 1e-6


@pytest.mark.slow
def test_engine_counts_periodic_looks():
    for n, first, expected in [(7, 7, 14), (7, 1, 15), (7, 99, 1), (1, 1, 100), (200, 150, 0)]:
        feedback = active(every(n, first=first))
        result = play_runs(make_policy("ftl"), PROBLEM, feedback, horizon=100, runs=2)
        assert result.n_looks.sum(axis=1).tolist() == [expected] * 2


def test_engine_draws_arms_by_their_weights():
    weights = [0.1, 0.0, 0.6, 0.3]
    result = play_runs(make_policy("ftl"), PROBLEM, passive(0.5, weights), horizon=500, runs=20)
    assert fits_weights(result.n_looks.sum(axis=0), weights)


def test_engine_uses_the_row_of_weights_of_each_stage():
    rows = np.zeros((100, 4))
    rows[:60, 1] = 1.0
    rows[60:, 3] = 1.0
    result = play_runs(make_policy("ftl"), PROBLEM, passive(1.0, rows), horizon=100)
    assert result.n_looks[0].tolist() == [0, 60, 0, 40]


def test_bandit_feedback_has_no_looks():
    assert not play_runs(make_policy("ftl"), PROBLEM, bandit(), horizon=100, runs=2).n_looks.any()


# -------------------------------------------------------------------------------------- invalid input


def raises(message):
    return pytest.raises(ValueError, match=f"^{re.escape(message)}$")


@pytest.mark.parametrize("make", [passive, active])
@pytest.mark.parametrize(
    ("rate", "message"),
    [
        (-0.1, "rate must be in [0, 1], got -0.1"),
        (1.1, "rate must be in [0, 1], got 1.1"),
        (math.nan, "rate must be in [0, 1], got nan"),
        (math.inf, "rate must be in [0, 1], got inf"),
        ([0.5, 2.0], "rate must be in [0, 1], got 2.0"),
        ([0.5, math.nan], "rate must be in [0, 1], got nan"),
        ("often", "rate must be a number, got 'often'"),
        ([[0.1]], "rate must be a number or a list with one number per stage, got [[0.1]]"),
        (None, "rate must be in [0, 1], got nan"),
    ],
)
def test_invalid_rate_raises(make, rate, message):
    with raises(message):
        make(rate)


@pytest.mark.parametrize("make", [passive, active])
@pytest.mark.parametrize("looks", [0, -1, 1.5, "two"])
def test_invalid_number_of_looks_raises(make, looks):
    condition = " of at least 1" if isinstance(looks, int) else ""
    with raises(f"looks must be a whole number{condition}, got {looks!r}"):
        make(0.1, looks=looks)


@pytest.mark.parametrize("n", [0, -1, 2.5, "two"])
def test_invalid_period_raises(n):
    condition = " of at least 1" if isinstance(n, int) else ""
    with raises(f"n must be a whole number{condition}, got {n!r}"):
        every(n)
    with raises(f"first must be a whole number{condition}, got {n!r}"):
        every(3, first=n)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("best", "weights must be 'uniform', 'optimal' or 'suboptimal', got 'best'"),
        ([0.5, 0.6], "weights must sum to 1, got [0.5, 0.6] with sum 1.1"),
        ([0.5, 0.4], "weights must sum to 1, got [0.5, 0.4] with sum 0.9"),
        ([1.5, -0.5], "weights must be non-negative and finite, got [1.5, -0.5]"),
        ([1.0, math.nan], "weights must be non-negative and finite, got [1.0, nan]"),
        ([[0.5, 0.5], [0.9, 0.0]], "weights must sum to 1, got [0.9, 0.0] with sum 0.9"),
        ([], "weights must have one or two dimensions, got []"),
        (1.0, "weights must have one or two dimensions, got 1.0"),
        (["a", "b"], "weights must be a name, a function, or "
            "numbers in rows of equal length, got ['a', 'b']"),
        ([[1.0], [0.5, 0.5]], "weights must be a name, a function, or "
            "numbers in rows of equal length, got [[1.0], [0.5, 0.5]]"),
    ],
)  # fmt: skip
def test_invalid_weights_raise(weights, message):
    with raises(message):
        passive(0.1, weights)


def test_rates_and_weights_of_the_wrong_length_raise():
    with raises("weights must have one entry for each of 4 arms, got 2"):
        make_looks(passive(0.1, [0.5, 0.5]), GAPS, 10)
    with raises("weights must have a row for each of 10 stages, got 2"):
        make_looks(passive(0.1, [[1, 0, 0, 0], [1, 0, 0, 0]]), GAPS, 10)
    with raises("rate must have an entry for each of 10 stages, got 9"):
        make_looks(active([0.1] * 9), GAPS, 10)
    with raises("weights must be 'uniform' or a list if all arms are optimal, got 'optimal'"):
        make_looks(passive(0.1, "optimal"), np.zeros(3), 10)


def test_functions_with_invalid_values_raise():
    with raises("rate must be in [0, 1], got 2.0 at stage 1"):
        make_looks(active(lambda stage: 2.0 / stage), GAPS, 10)
    with raises("rate must be in [0, 1], got nan at stage 1"):
        make_looks(passive(lambda stage: math.nan), GAPS, 10)
    with raises("weights at stage 1 must sum to 1, got [0.5, 0.5, 0.5, 0.5] with sum 2.0"):
        make_looks(passive(0.1, lambda stage, arm: 0.5), GAPS, 10)


def test_spec_and_repr_show_the_parameters():
    assert bandit().spec == {"observer": "bandit"}
    assert full().spec == {"observer": "full"}
    assert active(every(3)).spec["rate"] == {"every": 3, "first": 3}
    assert passive(0.1, [0.5, 0.5], looks=2, paid=True).spec == {
        "observer": "passive",
        "rate": 0.1,
        "weights": [0.5, 0.5],
        "looks": 2,
        "paid": True,
    }
    assert repr(active(0.1)) == "active(rate=0.1, looks=1, paid=False)"


def test_spec_distinguishes_functions_and_long_arrays():
    spec_of_falling, spec_of_constant = (
        active(falling).spec["rate"],
        active(lambda stage: 0.5).spec["rate"],
    )
    assert spec_of_falling["function"] == "falling"
    assert spec_of_falling["source"] != spec_of_constant["source"]
    rates = np.full(2000, 0.5)
    spec_of_array = active(rates).spec["rate"]
    rates[1000] = 0.25
    assert active(rates).spec["rate"] != spec_of_array
