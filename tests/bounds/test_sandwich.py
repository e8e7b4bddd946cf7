"""Tests that the simulated regret of a policy is between its lower and its upper bounds.

If a bound holds, the mean regret violates it by more than five standard errors with probability
about 3·10⁻⁷. There are about 60 comparisons, so with a random seed a test would fail with probability
about 10⁻⁵. The seed is fixed.
"""

import math

import numpy as np
import pytest

from kibitz import active, bandit, ftl_robin, gaussian, graph, passive, scout, simulate, ucb
from kibitz.bounds import complexity, lower, upper
from kibitz.model.graphs import load_graph

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


def simulate_mean_and_error(problem, feedback, policy, horizon, runs=40):
    """Return the mean final regret and its standard error."""
    data = simulate(problem, feedback, policy, horizon=horizon, runs=runs, seed=11, stages=[horizon])
    final_regrets = data["final_regret"].to_numpy()[0]
    return final_regrets.mean(), final_regrets.std(ddof=1) / math.sqrt(runs)


@pytest.mark.parametrize(("means", "rate", "weights", "horizon"), SETTINGS)
def test_ucb_is_between_its_bounds(means, rate, weights, horizon):
    gaps = complexity.gaps(means)
    feedback = passive(rate, weights) if rate > 0 else bandit()
    mean, error = simulate_mean_and_error(gaussian(means), feedback, ucb(), horizon)
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
    mean, error = simulate_mean_and_error(gaussian(means), active(rate), ftl_robin(), horizon)
    assert mean <= upper.ftl_robin(complexity.gaps(means), rate) + MAX_STANDARD_ERRORS * error


def test_d22_the_example_has_about_twice_the_regret_that_the_printed_period_gives():
    problem = gaussian([0.5, 0.0], sd=[1.0, 0.0])
    mean, error = simulate_mean_and_error(problem, active(0.1), ftl_robin(), 5000, runs=3000)
    correct_bound = 2 * 0.5 / 0.1 * sum(math.erfc(0.5 * math.sqrt(s / 2)) / 2 for s in range(1, 400))
    assert correct_bound == pytest.approx(17.9, abs=0.05)
    assert mean <= correct_bound + MAX_STANDARD_ERRORS * error
    assert mean >= 1.4 * correct_bound / 2 - MAX_STANDARD_ERRORS * error
    assert mean == pytest.approx(15.1, abs=0.5 + MAX_STANDARD_ERRORS * error)


MEANS_ON_GRAPH = [2, 1.8, 1.5, 1, 0.5]


@pytest.mark.parametrize("name", ["star:0", "star:4", "ring", "cliques:2", "complete", "erdos:0.01"])
@pytest.mark.parametrize("rate", [0.0, 0.01])
def test_ucb_on_a_graph_is_between_its_bounds(name, rate):
    problem, horizon = gaussian(MEANS_ON_GRAPH), 10**5
    feedback = graph(load_graph(name, 5), looks=passive(rate) if rate else None)
    mean, error = simulate_mean_and_error(problem, feedback, ucb(), horizon)
    bound = lower.graph_multi_period(problem, feedback, horizon, **PROVED_CONSTANTS)
    assert mean >= bound - MAX_STANDARD_ERRORS * error
    bounds = upper.ucb_graph(problem, feedback, [horizon]), upper.ucb_graph(problem, feedback)
    assert mean <= float(bounds[0][0]) + MAX_STANDARD_ERRORS * error
    assert mean <= bounds[1] + MAX_STANDARD_ERRORS * error


def test_a_lower_bound_on_a_graph_is_positive():
    """The default bound holds for algorithms with C = 8.

    UCB has C = 24, so the bound is not proved for UCB. The regret of UCB is still above the bound.
    """
    problem, feedback = gaussian(MEANS_ON_GRAPH), graph(load_graph("star:4", 5))
    assert lower.graph_multi_period(problem, feedback, 10**5) > 1
    mean, error = simulate_mean_and_error(problem, feedback, ucb(), 10**5)
    assert mean >= lower.graph_multi_period(problem, feedback, 10**5) - MAX_STANDARD_ERRORS * error


def test_regret_of_scout_on_a_hidden_star_is_above_the_worst_case():
    """Two leaves hide their rewards. The bound holds for the order of the leaves with more regret."""
    shows, horizon = np.zeros((3, 3)), 10**4
    shows[2] = 1
    bound = lower.graph_worst_case(shows, horizon)
    difference = (4 * math.sqrt(math.e) / horizon) ** (1 / 3)
    regrets = [
        simulate_mean_and_error(gaussian([*leaves, -1]), graph(shows), scout(), horizon)
        for leaves in ([0, -difference], [-difference, 0])
    ]
    worst_mean, error = max(regrets)
    assert worst_mean >= bound - MAX_STANDARD_ERRORS * error
    assert worst_mean <= 20 * bound
