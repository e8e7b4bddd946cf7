"""Tests of the arguments of bounds: public names, order of arguments, and both calling forms.

A bound takes either gaps and rates, or a problem and a feedback model.
"""

import inspect
import math
from importlib import import_module
from pkgutil import iter_modules

import numpy as np
import pytest

import kibitz
from kibitz import active, bandit, bernoulli, every, full, gaussian, passive
from kibitz.bounds import Bound, complexity, lower, onset, summary, upper

PROBLEM = gaussian([2.0, 1.8, 0.5, 0.2])
GAPS = PROBLEM.gaps
RATE, T = 1e-4, 10**6
WEIGHTS = [0.1, 0.2, 0.3, 0.4]

ARGUMENT_ORDER = [
    ("problem", "gaps", "means", "n_arms"),
    ("gap", "shows"),
    ("rate", "schedule"),
    ("weights",),
    ("horizon", "log_horizon", "stage", "epoch"),
]
MODULES = ["kibitz.bounds"] + [
    module.name
    for module in iter_modules(kibitz.bounds.__path__, "kibitz.bounds.")
    if not module.name.rpartition(".")[2].startswith("_")
]
BOUNDS = {
    f"{bounds_module.__name__}.{name}": getattr(bounds_module, name)
    for bounds_module in (lower, upper, complexity, kibitz.bounds)
    for name in bounds_module.__all__
    if inspect.isfunction(getattr(bounds_module, name))
}


def test_the_public_modules_are_listed():
    names = ["", ".complexity", ".concentration", ".lower", ".summary", ".upper"]
    assert [f"kibitz.bounds{name}" for name in names] == MODULES


@pytest.mark.parametrize("name", MODULES)
def test_dir_lists_only_public_names(name):
    module = import_module(name)
    assert dir(module) == sorted(module.__all__)
    assert not any(listed_name.startswith("_") for listed_name in module.__all__)
    for listed_name in module.__all__:
        assert getattr(module, listed_name) is not None


@pytest.mark.parametrize("name", BOUNDS)
def test_all_bounds_have_the_same_order_of_arguments(name):
    """Check the order of the arguments that are not keyword-only."""
    positions = {name: position for position, names in enumerate(ARGUMENT_ORDER) for name in names}
    parameters = inspect.signature(BOUNDS[name]).parameters.values()
    positional_names = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    parameter_positions = [positions[p] for p in positional_names if p in positions]
    assert parameter_positions == sorted(parameter_positions)


PASSIVE_BOUNDS = [
    lower.passive_fixed_stage,
    lower.passive_theorem,
    lower.passive_maximum,
    lower.passive_sharp,
    upper.ucb_rate,
    upper.ucb_passive,
    upper.ucb_sharp,
    upper.ftl_robin,
]
ACTIVE_BOUNDS = [
    lower.active_fixed_stage,
    lower.active_theorem,
    lower.active_chain,
    lower.active_maximum,
    lower.active_alternative,
    lower.active_multi_period,
    lower.reference_curve,
    upper.kibitzer,
    upper.paid_looks,
]


@pytest.mark.parametrize("bound", PASSIVE_BOUNDS, ids=lambda bound: bound.__name__)
def test_passive_feedback_sets_rate_and_weights(bound):
    expected = bound(GAPS, RATE, WEIGHTS, T)
    assert 0 < expected < math.inf
    assert bound(PROBLEM, passive(RATE, WEIGHTS), T) == expected
    assert bound(problem=PROBLEM, feedback=passive(RATE, WEIGHTS), horizon=T) == expected
    details = bound(PROBLEM, passive(RATE, WEIGHTS), T, details=True)
    assert isinstance(details, Bound)
    assert details.total == expected


@pytest.mark.parametrize("bound", ACTIVE_BOUNDS, ids=lambda bound: bound.__name__)
def test_active_feedback_sets_the_rate(bound):
    assert bound(PROBLEM, active(1e-6), T) == bound(GAPS, 1e-6, T) > 0


def test_bounds_accept_a_feedback_or_a_horizon_that_they_ignore():
    for bound in (upper.ucb_log, upper.trivial):
        expected = bound(GAPS, T)
        assert bound(PROBLEM, active(RATE), T) == bound(PROBLEM, horizon=T) == expected
    assert upper.ucb_rate(PROBLEM, passive(RATE)) == upper.ucb_rate(GAPS, RATE)
    options = {"c_eta": 2.0, "rho": 1.0}
    two_arms = gaussian([1.0, 0.8])
    bound_with_looks = upper.etc_ocucb(two_arms, active(RATE), **options)
    assert bound_with_looks == upper.etc_ocucb(two_arms.gaps, RATE, **options)
    assert upper.ocucb(two_arms, None, 100, c_eta=2.0) == upper.ocucb(two_arms.gaps, 100, c_eta=2.0)


def test_bandit_feedback_means_rate_0():
    for bound in (lower.passive_maximum, upper.ucb_passive):
        assert bound(PROBLEM, bandit(), T) == bound(GAPS, 0.0, None, T)
    assert lower.active_maximum(PROBLEM, bandit(), T) == lower.active_maximum(GAPS, 0.0, T)


def test_summary_of_a_problem_equals_that_of_its_means():
    summary_of_problem = summary(PROBLEM, passive(RATE, "optimal"), T, C=4)
    assert summary_of_problem == summary(PROBLEM.means, RATE, "optimal", T, C=4)
    assert summary(PROBLEM, active(RATE), T) == summary(PROBLEM.means, RATE, "uniform", T)
    assert onset(PROBLEM, passive(RATE), T) == onset(GAPS, RATE, "uniform", T)
    assert summary(PROBLEM, RATE, "optimal", T, C=4) == summary_of_problem
    assert summary(PROBLEM, rate=RATE, weights="optimal", horizon=T, C=4) == summary_of_problem


@pytest.mark.parametrize("bound", PASSIVE_BOUNDS, ids=lambda bound: bound.__name__)
def test_bounds_are_proportional_to_the_scale(bound):
    unit_problem, scaled_problem = gaussian([1.0, 0.5, 0.0]), gaussian([4.0, 2.0, 0.0], sd=4)
    feedback = passive(RATE)
    unit_bound, scaled_bound = (
        bound(p, feedback, T, details=True) for p in (unit_problem, scaled_problem)
    )
    assert scaled_bound.total == pytest.approx(4 * unit_bound.total, rel=1e-12)
    assert scaled_bound.terms == pytest.approx(4 * unit_bound.terms, rel=1e-12)


def test_kibitzer_uses_the_scale_of_the_problem():
    problem = bernoulli([0.5, 0.4])
    expected = upper.kibitzer(problem.gaps, 0.1, T, scale=0.5)
    assert upper.kibitzer(problem, active(0.1), T) == pytest.approx(expected, rel=1e-12)


def test_lower_bounds_require_gaussian_rewards_with_one_exception():
    problem = bernoulli([0.7, 0.5])
    expected = lower.passive_sharp(problem.gaps, RATE, None, T, rewards="bernoulli", best_mean=0.7)
    assert lower.passive_sharp(problem, passive(RATE), T) == expected > 0
    for rejected_problem in (problem, gaussian([1, 0], sd=[1, 2])):
        with pytest.raises(ValueError, match=r"^problem must be Gaussian with equal standard"):
            lower.passive_theorem(rejected_problem, passive(RATE), T)
        assert upper.ucb_sharp(rejected_problem, passive(RATE), T) > 0


def test_equal_gaps_are_read_from_a_problem():
    bound_of_problem = lower.active_equal_gaps(gaussian([0.5, 1.0, 0.5]), active(RATE), T)
    assert bound_of_problem == lower.active_equal_gaps(3, 0.5, RATE, T)
    with pytest.raises(ValueError, match=r"^problem must be a problem with equal gaps"):
        lower.active_equal_gaps(PROBLEM, active(RATE), T)


def test_varying_rates_become_a_schedule():
    rates = np.linspace(1e-3, 0, 50)
    schedule = lower.schedule(rates)
    expected = lower.passive_maximum(GAPS, schedule, WEIGHTS, T)
    assert lower.passive_maximum(PROBLEM, passive(rates, WEIGHTS), T) == expected
    expected = upper.ucb_schedule(GAPS, schedule, WEIGHTS, 1000)
    assert upper.ucb_schedule(PROBLEM, passive(rates, WEIGHTS), 1000) == expected
    constant_rate_bound = upper.ucb_schedule(PROBLEM, passive(0.1), 1000)
    assert constant_rate_bound == upper.ucb_schedule(GAPS, lambda t: 0.1 * t, None, 1000)
    with pytest.raises(
        ValueError, match=r"^rate must be one or more numbers in \[0, 1\], not a function, got "
    ):
        upper.ucb_sharp(PROBLEM, passive(rates), 1000)
    with pytest.raises(ValueError, match=r"^feedback must be a model with a number, an array or"):
        lower.active_maximum(PROBLEM, active(lambda stage: 0.1), 1000)


def test_bounds_accept_periodic_looks():
    arrivals = np.zeros(1000)
    arrivals[2::7] = 1
    expected = lower.active_maximum(GAPS, lower.schedule(arrivals), 1000, C=0.01, C_0=0.01)
    bound_of_problem = lower.active_maximum(
        PROBLEM, active(every(7, first=3)), 1000, C=0.01, C_0=0.01
    )
    assert bound_of_problem == expected > 0
    expected = upper.kibitzer(GAPS, 0.1, 1000, looks="periodic")
    assert upper.kibitzer(PROBLEM, active(every(10)), 1000) == expected
    assert upper.ftl_robin(PROBLEM, active(every(10))) == upper.ftl_robin(GAPS, 0.1)
    two_arms = gaussian([1.0, 0.5])
    expected = upper.ucb_periodic(two_arms.gaps, 0.1, [0, 1])
    assert upper.ucb_periodic(two_arms, passive(every(10), "optimal")) == expected < math.inf
    with pytest.raises(
        ValueError, match=r"^feedback must be a model whose looks all show the same arm"
    ):
        upper.ucb_periodic(two_arms, passive(every(10)))
    with pytest.raises(ValueError, match=r"^feedback must be a model with every\(n\) as rate"):
        upper.ucb_periodic(PROBLEM, passive(0.1))
    with pytest.raises(ValueError, match=r"^feedback must be a model with a number or every"):
        upper.ftl_robin(PROBLEM, active(every(10, first=3)))


def test_kibitzer_accepts_random_looks_of_a_passive_observer():
    expected = upper.kibitzer(GAPS, 0.1, T, looks="uniform")
    assert upper.kibitzer(PROBLEM, passive(0.1), T) == expected
    assert upper.kibitzer(PROBLEM, passive(0.1, [0.25] * 4), T) == expected
    expected = upper.kibitzer(GAPS, 0.1, T, looks="passive", weights=WEIGHTS)
    assert upper.kibitzer(PROBLEM, passive(0.1, WEIGHTS), T) == expected
    expected = upper.kibitzer(GAPS, 0.1, T, looks="passive", weights="optimal")
    assert upper.kibitzer(PROBLEM, passive(0.1, "optimal"), T) == expected
    for rejected_feedback in (passive(every(10)), passive(0.1, [WEIGHTS, WEIGHTS])):
        with pytest.raises(ValueError, match=r"^feedback must be active, or passive with random"):
            upper.kibitzer(PROBLEM, rejected_feedback, T)


@pytest.mark.parametrize(
    ("bound", "feedback", "condition"),
    [
        (lower.passive_theorem, active(0.1), "passive for this bound"),
        (upper.ucb_sharp, active(0.1), "passive for this bound"),
        (upper.paid_looks, passive(0.1), "active for this bound"),
        (lower.active_maximum, full(), "a model with one free look per arrival"),
        (lower.active_maximum, active(0.1, looks=2), "a model with one free look per arrival"),
        (upper.kibitzer, active(0.1, paid=True), "a model with one free look per arrival"),
        (lower.active_maximum, 0.1, r"a feedback model such as passive\(0.1\)"),
        (lower.active_maximum, None, r"a feedback model such as passive\(0.1\)"),
    ],
)
def test_feedback_not_covered_by_the_proof_raises(bound, feedback, condition):
    with pytest.raises(ValueError, match=f"^feedback must be {condition}.*, got "):
        bound(PROBLEM, feedback, T)


def test_paid_looks_accepts_looks_with_a_cost():
    bound_of_problem = upper.paid_looks(PROBLEM, active(0.1, paid=True), T)
    assert bound_of_problem == upper.paid_looks(GAPS, 0.1, T)


def test_shared_parameters_are_documented():
    text = inspect.getdoc(lower.passive_maximum)
    for phrase in (
        "one per arm in any order; 0 for optimal arms",
        "or a schedule.",
        "Or pass a problem, followed by a feedback",
    ):
        assert text.count(phrase) == 1
    assert "or a schedule" not in inspect.getdoc(lower.passive_theorem)
    assert "without a horizon the bound holds for all T" in inspect.getdoc(upper.ftl_robin)
    assert inspect.getdoc(lower.observation_constraint).rstrip().endswith("Optimal arms have 0.")
