"""Tests of `summary`, and of `onset`, which finds where the lower bounds become positive."""

import json
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kibitz import active, full, gaussian, graph, passive
from kibitz.bounds import complexity, lower, onset, summary, upper
from kibitz.bounds._checks import check_weights
from kibitz.cli import main

pytestmark = pytest.mark.slow

FOUR_MEANS, FIVE_MEANS = [2, 1.8, 0.5, 0.2], [2, 1.8, 1.5, 1, 0.5]
PROBLEMS = pytest.mark.parametrize("means", [FOUR_MEANS, FIVE_MEANS])
SUMMARY_KEYS = {
    "lower.passive": ["fixed_stage", "theorem", "maximum", "sharp"],
    "lower.active": ["fixed_stage", "theorem", "maximum", "alternative"],
    "upper": ["ucb_log", "ucb_rate", "ucb_periodic", "ucb_sharp", "ftl_robin", "kibitzer"],
    "printed.lower.passive": ["theorem"],
    "printed.lower.active": ["theorem"],
    "printed.upper": ["ucb_rate"],
}


def get_entry(summary_tree, path):
    for key in path.split("."):
        summary_tree = summary_tree[key]
    return summary_tree


def list_numbers(summary_tree):
    if isinstance(summary_tree, dict):
        for value in summary_tree.values():
            yield from list_numbers(value)
    else:
        yield from summary_tree if isinstance(summary_tree, list) else [summary_tree]


@PROBLEMS
def test_summary_has_all_documented_keys(means):
    summary_of_problem = summary(means, 0.1, "uniform", 10_000)
    assert all(len(summary_of_problem[key]) == len(means) for key in ("gaps", "optimal_weights"))
    assert all(isinstance(summary_of_problem[key], float) for key in ("c_delta", "rate_star"))
    for path, names in SUMMARY_KEYS.items():
        assert all(isinstance(get_entry(summary_of_problem, path)[name], float) for name in names)
    assert json.loads(json.dumps(summary_of_problem)) == summary_of_problem


def test_summary_agrees_with_the_functions():
    means, gaps = [0.5, 2, 0.2, 1.8], np.array([1.5, 0, 1.8, 0.2])
    weights = [0.1, 0.2, 0.3, 0.4]
    summary_of_problem = summary(means, 1e-4, weights, 10**6, C=4, C_0=2)
    assert summary_of_problem["gaps"] == pytest.approx(gaps)
    assert summary_of_problem["c_delta"] == pytest.approx(1 / 1.5 + 1 / 1.8 + 1 / 0.2)
    assert summary_of_problem["optimal_weights"] == pytest.approx(
        [0.1071, 0, 0.0893, 0.8036], abs=5e-5
    )
    gaps = summary_of_problem["gaps"]
    for name in ("fixed_stage", "theorem", "maximum", "sharp"):
        bound = getattr(lower, f"passive_{name}")
        value = bound(gaps, 1e-4, weights, 10**6, C=4, C_0=2)
        assert 0 < summary_of_problem["lower"]["passive"][name] == value
    for name in ("fixed_stage", "theorem", "chain", "maximum", "alternative"):
        bound = getattr(lower, f"active_{name}")
        assert summary_of_problem["lower"]["active"][name] == bound(gaps, 1e-4, 10**6, C=4, C_0=2)
    for name in ("fixed_stage", "theorem"):
        passive_bound, active_bound = (
            getattr(lower, f"passive_{name}"),
            getattr(lower, f"active_{name}"),
        )
        printed_bounds = summary_of_problem["printed"]["lower"]
        assert printed_bounds["passive"][name] == passive_bound(
            gaps, 1e-4, weights, 10**6, C=4, C_0=2, form="printed"
        )
        assert printed_bounds["active"][name] == active_bound(
            gaps, 1e-4, 10**6, C=4, C_0=2, form="printed"
        )
    assert summary_of_problem["upper"]["ucb_log"] == upper.ucb_log(gaps, 10**6)
    assert summary_of_problem["upper"]["ucb_rate"] == upper.ucb_rate(gaps, 1e-4, weights)
    assert summary_of_problem["upper"]["ucb_periodic"] == upper.ucb_periodic(gaps, 1e-4, weights)
    assert summary_of_problem["upper"]["ucb_sharp"] == upper.ucb_sharp(gaps, 1e-4, weights, 10**6)
    assert summary_of_problem["upper"]["ftl_robin"] == upper.ftl_robin(gaps, 1e-4, horizon=10**6)
    assert summary_of_problem["upper"]["kibitzer"] == upper.kibitzer(gaps, 1e-4, 10**6)
    passive = upper.kibitzer(gaps, 1e-4, 10**6, looks="passive", weights=weights)
    assert summary_of_problem["upper"]["kibitzer_passive"] == passive
    periodic = upper.kibitzer(gaps, 1e-4, 10**6, looks="periodic")
    assert summary_of_problem["upper"]["kibitzer_periodic"] == periodic
    assert summary_of_problem["printed"]["upper"]["ucb_rate"] == upper.ucb_rate(
        gaps, 1e-4, weights, form="printed"
    )
    assert "etc_ocucb" not in summary_of_problem["upper"]
    assert summary(means, 1e-4, "uniform", 10**6, c_eta=2)["upper"]["etc_ocucb"] > 0


@pytest.mark.parametrize(
    ("rate", "has_period"), [(0.0, False), (0.3, False), (1e-200, False), (0.1, True)]
)
def test_the_bound_for_periodic_looks_is_present_if_one_over_rate_is_an_integer(rate, has_period):
    upper_bounds = summary(FIVE_MEANS, rate, "uniform", 10**4)["upper"]
    assert ("kibitzer_periodic" in upper_bounds) == has_period
    assert upper_bounds["kibitzer"] > 0


@PROBLEMS
def test_d47_the_summary_says_that_the_papers_problems_are_not_covered(means):
    for weights in ("uniform", "optimal"):
        summary_of_problem = summary(means, 0.1, weights, 10_000)
        assert set(list_numbers(summary_of_problem["lower"])) == {0.0}
        assert summary_of_problem["printed"]["lower"]["active"]["theorem"] > 100


@PROBLEMS
def test_d47_the_lower_bounds_begin_at_much_smaller_rates(means):
    gaps = summary(means, 0.1, "uniform", 10_000)["gaps"]
    onsets = onset(gaps, 0.1, "uniform", 10_000)
    for bound_onsets in onsets.values():
        for bound in bound_onsets.values():
            assert 0 < bound["rate"] < 0.02
            assert bound["horizon"] == math.inf
    assert onsets["passive"]["maximum"]["rate"] == pytest.approx(
        {4: 0.002099, 5: 0.001082}[len(means)], rel=1e-3
    )


@pytest.mark.parametrize("horizon", [10**4, 10**9])
@pytest.mark.parametrize("weights", ["uniform", "optimal", [0.3, 0.3, 0.2, 0.1]])
def test_onset_is_where_bounds_become_positive(horizon, weights):
    gaps = [0.0, 0.2, 1.5, 1.8]
    rate = 1e-4
    onsets = onset(gaps, rate, weights, horizon)
    p = check_weights(weights, np.array(gaps))
    for observer, names in onsets.items():
        for name, bound_onset in names.items():
            bound = getattr(lower, f"{observer}_{name}")
            args = (p,) if observer == "passive" else ()
            margin = 0.01 if name == "sharp" else 1e-4
            assert bound(gaps, bound_onset["rate"] * (1 - margin), *args, horizon) > 0
            assert bound(gaps, bound_onset["rate"] * (1 + margin), *args, horizon) == 0
            if math.isfinite(bound_onset["horizon"]):
                first_horizon = int(bound_onset["horizon"])
                step = 1 + int(first_horizon * margin)
                assert bound(gaps, rate, *args, first_horizon + (step if name == "sharp" else 0)) > 0
                assert bound(gaps, rate, *args, first_horizon - step) == 0
    assert math.isfinite(onsets["passive"]["maximum"]["horizon"])
    assert onsets["passive"]["fixed_stage"]["horizon"] == onsets["passive"]["maximum"]["horizon"]


def test_onset_of_bounds_that_are_never_or_always_positive():
    onsets = onset([0.0, 0.0], 0.1, "uniform", 10**6)
    assert set(list_numbers(onsets)) == {0.0, math.inf}
    assert set(list_numbers(onset([0.0, 1.0], 0.1, "uniform", 2)["passive"]["maximum"])) == {
        0.0,
        math.inf,
    }
    onsets_without_looks = onset([0.0, 1.0], 0.5, [1.0, 0.0], 10**6)["passive"]
    assert onsets_without_looks["maximum"]["rate"] == onsets_without_looks["sharp"]["rate"] == 1
    assert onsets_without_looks["maximum"]["horizon"] < 1000


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ("uniform", [0.25] * 4),
        ("optimal", [0, 0.8036, 0.1071, 0.0893]),
        ("suboptimal", [0, 0.9708, 0.0173, 0.0120]),
        ([0, 0.5, 0, 0], [0, 0.5, 0, 0]),
    ],
)
def test_weights_can_be_named(weights, expected):
    assert check_weights(weights, np.array([0, 0.2, 1.5, 1.8])) == pytest.approx(expected, abs=6e-5)


def test_invalid_arguments_raise():
    with pytest.raises(ValueError, match="weights must be one of uniform, optimal, suboptimal"):
        summary(FOUR_MEANS, 0.1, "best", 100)
    with pytest.raises(ValueError, match="weights must be 4 numbers"):
        summary(FOUR_MEANS, 0.1, [0.5, 0.5], 100)
    with pytest.raises(ValueError, match="rate must be one number"):
        summary(FOUR_MEANS, [0.1, 0.2], "uniform", 100)
    with pytest.raises(ValueError, match="horizon must be one number"):
        onset([0, 1], 0.1, "uniform", [10, 20])


@PROBLEMS
def test_summary_is_fast_for_long_horizons(means):
    gaps = summary(means, 0.1, "uniform", 10)["gaps"]
    for horizon in (10_000, 10**12):
        assert measure_cpu_time(lambda T=horizon: summary(means, 0.1, "uniform", T)) < 0.6
        assert measure_cpu_time(lambda T=horizon: onset(gaps, 0.1, "uniform", T)) < 1


def measure_cpu_time(call):
    """Return the shortest CPU time of three calls."""
    times = []
    for _ in range(3):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


@given(
    st.lists(st.floats(-50, 50), min_size=1, max_size=5),
    st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1)),
    st.sampled_from([1, 2, 3, 100, 10**6, 10**12, 10**15]),
    st.sampled_from(["uniform", "optimal", "suboptimal"]),
)
@settings(max_examples=40, deadline=None)
def test_summary_is_finite_everywhere(means, rate, horizon, weights):
    means = np.round(means, 6)
    summary_of_problem = summary(means, rate, weights, horizon)
    assert not any(math.isnan(value) for value in list_numbers(summary_of_problem))
    assert all(0 <= value < math.inf for value in list_numbers(summary_of_problem["lower"]))
    largest_lower_bound = max(list_numbers(summary_of_problem["lower"]["passive"]))
    assert largest_lower_bound <= max(summary_of_problem["gaps"]) * horizon
    if largest_lower_bound > 0:
        # The constants proved for UCB are larger than the defaults.
        summary_with_proved_constants = summary(
            means, rate, weights, horizon, C=24, C_0=1 + 2 * math.pi**2 / 3
        )
        assert (
            summary_with_proved_constants["lower"]["passive"]["sharp"]
            <= summary_with_proved_constants["upper"]["ucb_sharp"]
        )


@pytest.mark.parametrize(
    ("means", "horizon", "expected"),
    [
        (FOUR_MEANS, 10**4, [0.0021, 0.0021, 0.0194, 0.000058, 0.00064, 0.00052]),
        (FOUR_MEANS, 2**53, [0.0028, 0.0028, 0.0194, 0.000058, 0.00079, 0.00071]),
        (FIVE_MEANS, 10**4, [0.0011, 0.0011, 0.0168, 0.00012, 0.00051, 0.00021]),
        (FIVE_MEANS, 2**53, [0.0026, 0.0026, 0.0168, 0.00031, 0.00082, 0.00053]),
    ],
)
def test_d47_the_table_of_the_errata(means, horizon, expected):
    gaps = summary(means, 0.1, "uniform", 10)["gaps"]
    onsets = onset(gaps, 0.1, "uniform", horizon)
    passive_rates = [onsets["passive"][name]["rate"] for name in ("theorem", "maximum", "sharp")]
    active_rates = [onsets["active"][name]["rate"] for name in ("theorem", "maximum", "alternative")]
    assert passive_rates + active_rates == pytest.approx(expected, rel=0.05)
    for rate, theorem_horizons, sharp_horizons in (
        (0.0, (2495, 3646), (14, 18)),
        (1e-3, (7593, 8390), (19, 24)),
    ):
        passive_onsets = onset(gaps, rate, "uniform", 10)["passive"]
        assert passive_onsets["theorem"]["horizon"] == theorem_horizons[len(means) - 4]
        assert passive_onsets["sharp"]["horizon"] == sharp_horizons[len(means) - 4]


def test_command_prints_the_summary(monkeypatch, capsys):
    command_line = (
        "kibitz bounds --means 2,1.8,0.5,0.2 --rate 1e-4 --horizon 1e6 --weights optimal --json"
    )
    monkeypatch.setattr("sys.argv", command_line.split())
    with pytest.raises(SystemExit):
        main()
    summary_of_problem = summary(FOUR_MEANS, 1e-4, "optimal", 10**6)
    assert json.loads(capsys.readouterr().out) == remove_infinity(summary_of_problem)


def remove_infinity(summary_tree):
    if isinstance(summary_tree, dict):
        return {key: remove_infinity(value) for key, value in summary_tree.items()}
    if isinstance(summary_tree, list):
        return [remove_infinity(value) for value in summary_tree]
    return (
        str(summary_tree)
        if isinstance(summary_tree, float) and math.isinf(summary_tree)
        else summary_tree
    )


def test_summary_has_onsets_with_and_without_looks():
    gaps = [0.0, 0.2, 1.5, 1.8]
    summary_of_problem = summary(FOUR_MEANS, 1e-3, "uniform", 10**6)
    assert summary_of_problem["gaps"] == pytest.approx(gaps)
    onsets_with_looks, onsets_without_looks = (
        onset(summary_of_problem["gaps"], 1e-3, "uniform", 10**6),
        onset(summary_of_problem["gaps"], 0.0, "uniform", 1),
    )
    for observer, bounds in onsets_with_looks.items():
        for name, bound_onset in bounds.items():
            bound_onset = bound_onset | {
                "horizon_without_looks": onsets_without_looks[observer][name]["horizon"]
            }
            assert summary_of_problem["onset"][observer][name] == bound_onset
    assert summary_of_problem["onset"]["passive"]["theorem"]["horizon_without_looks"] == 2495


@pytest.mark.parametrize("rate", [1e-6, 1e-4])
def test_onset_of_the_chain_agrees_with_a_search(rate):
    """Compare the onset, which `onset` computes from a ratio, with a search over all horizons."""
    gaps = [0.0, 0.2, 1.5, 1.8]
    onset_horizon = onset(gaps, rate, "uniform", 10)["active"]["chain"]["horizon"]
    first_positive_horizon = next(T for T in range(3, 10**5) if lower.active_chain(gaps, rate, T) > 0)
    assert onset_horizon == first_positive_horizon


@pytest.mark.parametrize("name", ["uniform", "optimal", "suboptimal"])
def test_every_bound_takes_weights_by_name(name):
    gaps = np.array([0.0, 0.2, 1.5, 1.8])
    p = check_weights(name, gaps)
    assert lower.passive_maximum(gaps, 1e-5, name, 10**6) == lower.passive_maximum(
        gaps, 1e-5, p, 10**6
    )
    assert upper.ucb_sharp(gaps, 0.1, name, 10**4) == upper.ucb_sharp(gaps, 0.1, p, 10**4)
    assert p == pytest.approx(passive(0.1, name).static_weights(gaps))


def test_summary_of_a_graph_holds_the_bounds_on_the_graph():
    problem = gaussian(FIVE_MEANS)
    shows = np.eye(5)
    shows[4] = 1
    data = summary(problem, graph(shows, looks=passive(1e-6)), 10**6)
    assert data == summary(FIVE_MEANS, 1e-6, "uniform", 10**6, shows=shows)
    assert not any(isinstance(x, float) and math.isnan(x) for x in list_numbers(data))
    json.dumps(data)
    feedback = graph(shows)
    data = summary(problem, feedback, 10**6)
    assert data["graph"]["constant"] == complexity.graph(problem, feedback).constant
    assert data["graph"]["free_arms"] == [0]
    lower_bounds = data["lower"]["graph"]
    assert lower_bounds["fixed_stage"] == lower.graph_fixed_stage(problem, feedback, 10**6) > 0
    assert lower_bounds["multi_period"] == lower.graph_multi_period(problem, feedback, 10**6)
    assert "worst_case" not in lower_bounds
    assert data["upper"]["ucb_graph"] == upper.ucb_graph(problem, feedback, 10**6)
    assert data["upper"]["ucb_graph_all_horizons"] == math.inf
    assert summary(problem, graph(shows, looks=active(0.1)), 10**6)["upper"] == {}


def test_summary_of_full_feedback_raises():
    with pytest.raises(ValueError, match=r"^feedback must be a model with one free look per arrival"):
        summary(gaussian(FIVE_MEANS), full(), 100)
