"""Tests that the simulated regret of a policy is between its lower and its upper bounds.

If a bound holds, the mean regret violates it by more than five standard errors with probability
about 3·10⁻⁷. There are some 40 comparisons, so with a random seed a test would fail with probability
about 10⁻⁵. The seed is fixed.
"""

import math

import pytest

from kibitz import active, bandit, ftl_robin, gaussian, passive, simulate, ucb
from kibitz.bounds import complexity, lower, upper

pytestmark = pytest.mark.slow

PROVED_CONSTANTS = {"C": 24.0, "C_0": 1 + 2 * math.pi**2 / 3}  # the constants proved for UCB (D5)
MAX_STANDARD_ERRORS = 5
SETTINGS = [  # means, rate, weights, horizon
    ([2, 1.8, 0.5, 0.2], 0.1, "uniform", 10**4),
    ([2, 1.8, 0.5, 0.2], 0.1, "optimal", 10**4),
    ([2, 1.8, 1.5, 1, 0.5], 0.01, "uniform", 10**4),
    ([0.5, 0], 0.0, "uniform", 10**6),
    ([0.5, 0], 1e-5, "uniform", 10**6),
    ([0.2, 0], 0.3, "optimal", 10**4),
    ([1, 0], 1e-6, "uniform", 10**8),
    ([3, 0], 0.5, "uniform", 10**3),
    ([1, 0, 0, 0, 0, 0, 0, 0, 0, 0], 1e-3, "uniform", 10**5),
    ([1, 1, 0], 0.01, "suboptimal", 10**4),
    ([10, 0], 0.0, "uniform", 2),
    ([0.1, 0], 1.0, "uniform", 10**4),
    ([2, 1, 0], 1e-4, "optimal", 10**6),
]


def mean_and_error(problem, feedback, policy, horizon, runs=40):
    """Return the mean final regret and its standard error."""
    data = simulate(problem, feedback, policy, horizon=horizon, runs=runs, seed=11, stages=[horizon])
    final_regrets = data["final_regret"].to_numpy()[0]
    return final_regrets.mean(), final_regrets.std(ddof=1) / math.sqrt(runs)


@pytest.mark.parametrize(("means", "rate", "weights", "horizon"), SETTINGS)
def test_ucb_is_between_its_bounds(means, rate, weights, horizon):
    gaps = complexity.gaps(means)
    feedback = passive(rate, weights) if rate > 0 else bandit()
    mean, error = mean_and_error(gaussian(means), feedback, ucb(), horizon)
    p = feedback.static_weights(gaps) if rate > 0 else None
    for bound in (
        lower.passive_maximum(gaps, rate, p, horizon, **PROVED_CONSTANTS),
        lower.passive_sharp(gaps, rate, p, horizon, **PROVED_CONSTANTS),
    ):
        assert mean >= bound - MAX_STANDARD_ERRORS * error
    for bound in (
        upper.ucb_log(gaps, horizon),
        upper.ucb_rate(gaps, rate, p),
        upper.ucb_sharp(gaps, rate, p, horizon),
    ):
        assert mean <= bound + MAX_STANDARD_ERRORS * error


def test_some_lower_bounds_are_positive():
    lower_bounds = [
        lower.passive_sharp(complexity.gaps(means), rate, None, horizon, **PROVED_CONSTANTS) > 1
        for means, rate, weights, horizon in SETTINGS
        if weights == "uniform"
    ]
    assert sum(lower_bounds) >= 3


@pytest.mark.parametrize(
    ("means", "rate", "horizon"),
    [
        ([2, 1.8, 0.5, 0.2], 0.1, 10**4),
        ([1, 0], 0.05, 10**5),
        ([0.5, 0, 0, 0, 0], 0.3, 10**4),
        ([30, 0], 1.0, 100),
    ],
)
def test_ftl_robin_is_below_its_bound(means, rate, horizon):
    mean, error = mean_and_error(gaussian(means), active(rate), ftl_robin(), horizon)
    assert mean <= upper.ftl_robin(complexity.gaps(means), rate) + MAX_STANDARD_ERRORS * error


def test_d22_the_example_has_about_twice_the_regret_that_the_printed_period_gives():
    problem = gaussian([0.5, 0.0], sd=[1.0, 0.0])
    mean, error = mean_and_error(problem, active(0.1), ftl_robin(), 5000, runs=3000)
    correct_bound = 2 * 0.5 / 0.1 * sum(math.erfc(0.5 * math.sqrt(s / 2)) / 2 for s in range(1, 400))
    assert correct_bound == pytest.approx(17.9, abs=0.05)
    assert mean <= correct_bound + MAX_STANDARD_ERRORS * error
    assert mean >= 1.4 * correct_bound / 2 - MAX_STANDARD_ERRORS * error
    assert mean == pytest.approx(15.1, abs=0.5 + MAX_STANDARD_ERRORS * error)
