"""Tests of `summary` and of `onset`, which says where the lower bounds become positive."""

import json
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kibitz import passive
from kibitz.bounds import lower, onset, summary, upper
from kibitz.bounds._checks import check_weights
from kibitz.cli import main

pytestmark = pytest.mark.slow

FOUR, FIVE = [2, 1.8, 0.5, 0.2], [2, 1.8, 1.5, 1, 0.5]
PROBLEMS = pytest.mark.parametrize("means", [FOUR, FIVE])
NUMBERS = {
    "lower.passive": ["fixed_stage", "theorem", "maximum", "sharp"],
    "lower.active": ["fixed_stage", "theorem", "maximum", "alternative"],
    "upper": ["ucb_log", "ucb_rate", "ucb_periodic", "ucb_sharp", "ftl_robin", "kibitzer"],
    "printed.lower.passive": ["theorem"],
    "printed.lower.active": ["theorem"],
    "printed.upper": ["ucb_rate"],
}


def at(tree, path):
    for key in path.split("."):
        tree = tree[key]
    return tree


def leaves(tree):
    if isinstance(tree, dict):
        for value in tree.values():
            yield from leaves(value)
    else:
        yield from tree if isinstance(tree, list) else [tree]


@PROBLEMS
def test_summary_has_all_documented_keys(means):
    found = summary(means, 0.1, "uniform", 10_000)
    assert all(len(found[key]) == len(means) for key in ("gaps", "optimal_weights"))
    assert all(isinstance(found[key], float) for key in ("c_delta", "rate_star"))
    for path, names in NUMBERS.items():
        assert all(isinstance(at(found, path)[name], float) for name in names)
    assert json.loads(json.dumps(found)) == found


def test_summary_agrees_with_the_functions():
    means, gaps = [0.5, 2, 0.2, 1.8], np.array([1.5, 0, 1.8, 0.2])
    weights = [0.1, 0.2, 0.3, 0.4]
    found = summary(means, 1e-4, weights, 10**6, C=4, C_0=2)
    assert found["gaps"] == pytest.approx(gaps)
    assert found["c_delta"] == pytest.approx(1 / 1.5 + 1 / 1.8 + 1 / 0.2)
    assert found["optimal_weights"] == pytest.approx([0.1071, 0, 0.0893, 0.8036], abs=5e-5)
    gaps = found["gaps"]
    for name in ("fixed_stage", "theorem", "maximum", "sharp"):
        bound = getattr(lower, f"passive_{name}")
        value = bound(gaps, 1e-4, weights, 10**6, C=4, C_0=2)
        assert 0 < found["lower"]["passive"][name] == value
    for name in ("fixed_stage", "theorem", "chain", "maximum", "alternative"):
        bound = getattr(lower, f"active_{name}")
        assert found["lower"]["active"][name] == bound(gaps, 1e-4, 10**6, C=4, C_0=2)
    for name in ("fixed_stage", "theorem"):
        passive, active = getattr(lower, f"passive_{name}"), getattr(lower, f"active_{name}")
        printed = found["printed"]["lower"]
        assert printed["passive"][name] == passive(
            gaps, 1e-4, weights, 10**6, C=4, C_0=2, form="printed"
        )
        assert printed["active"][name] == active(gaps, 1e-4, 10**6, C=4, C_0=2, form="printed")
    assert found["upper"]["ucb_log"] == upper.ucb_log(gaps, 10**6)
    assert found["upper"]["ucb_rate"] == upper.ucb_rate(gaps, 1e-4, weights)
    assert found["upper"]["ucb_periodic"] == upper.ucb_periodic(gaps, 1e-4, weights)
    assert found["upper"]["ucb_sharp"] == upper.ucb_sharp(gaps, 1e-4, weights, 10**6)
    assert found["upper"]["ftl_robin"] == upper.ftl_robin(gaps, 1e-4, horizon=10**6)
    assert found["upper"]["kibitzer"] == upper.kibitzer(gaps, 1e-4, 10**6)
    periodic = upper.kibitzer(gaps, 1e-4, 10**6, looks="periodic")
    assert found["upper"]["kibitzer_periodic"] == periodic
    assert found["printed"]["upper"]["ucb_rate"] == upper.ucb_rate(
        gaps, 1e-4, weights, form="printed"
    )
    assert "etc_ocucb" not in found["upper"]
    assert summary(means, 1e-4, "uniform", 10**6, c_eta=2)["upper"]["etc_ocucb"] > 0


@pytest.mark.parametrize(
    ("rate", "has_period"), [(0.0, False), (0.3, False), (1e-200, False), (0.1, True)]
)
def test_looks_are_periodic_if_they_come_every_whole_number_of_stages(rate, has_period):
    found = summary(FIVE, rate, "uniform", 10**4)["upper"]
    assert ("kibitzer_periodic" in found) == has_period
    assert found["kibitzer"] > 0


@PROBLEMS
def test_d47_the_summary_says_that_the_papers_problems_are_not_covered(means):
    for weights in ("uniform", "optimal"):
        found = summary(means, 0.1, weights, 10_000)
        assert set(leaves(found["lower"])) == {0.0}
        assert found["printed"]["lower"]["active"]["theorem"] > 100


@PROBLEMS
def test_d47_the_lower_bounds_begin_at_much_smaller_rates(means):
    gaps = summary(means, 0.1, "uniform", 10_000)["gaps"]
    begins = onset(gaps, 0.1, "uniform", 10_000)
    for group in begins.values():
        for bound in group.values():
            assert 0 < bound["rate"] < 0.02
            assert bound["horizon"] == math.inf
    assert begins["passive"]["maximum"]["rate"] == pytest.approx(
        {4: 0.002099, 5: 0.001082}[len(means)], rel=1e-3
    )


@pytest.mark.parametrize("horizon", [10**4, 10**9])
@pytest.mark.parametrize("weights", ["uniform", "optimal", [0.3, 0.3, 0.2, 0.1]])
def test_onset_is_where_bounds_become_positive(horizon, weights):
    gaps = [0.0, 0.2, 1.5, 1.8]
    rate = 1e-4
    begins = onset(gaps, rate, weights, horizon)
    p = check_weights(weights, np.array(gaps))
    for observer, names in begins.items():
        for name, found in names.items():
            bound = getattr(lower, f"{observer}_{name}")
            args = (p,) if observer == "passive" else ()
            margin = 0.01 if name == "sharp" else 1e-4
            assert bound(gaps, found["rate"] * (1 - margin), *args, horizon) > 0
            assert bound(gaps, found["rate"] * (1 + margin), *args, horizon) == 0
            if math.isfinite(found["horizon"]):
                first = int(found["horizon"])
                step = 1 + int(first * margin)
                assert bound(gaps, rate, *args, first + (step if name == "sharp" else 0)) > 0
                assert bound(gaps, rate, *args, first - step) == 0
    assert math.isfinite(begins["passive"]["maximum"]["horizon"])
    assert begins["passive"]["fixed_stage"]["horizon"] == begins["passive"]["maximum"]["horizon"]


def test_onset_of_bounds_that_are_never_or_always_positive():
    begins = onset([0.0, 0.0], 0.1, "uniform", 10**6)
    assert set(leaves(begins)) == {0.0, math.inf}
    assert set(leaves(onset([0.0, 1.0], 0.1, "uniform", 2)["passive"]["maximum"])) == {0.0, math.inf}
    unseen = onset([0.0, 1.0], 0.5, [1.0, 0.0], 10**6)["passive"]
    assert unseen["maximum"]["rate"] == unseen["sharp"]["rate"] == 1
    assert unseen["maximum"]["horizon"] < 1000


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
        summary(FOUR, 0.1, "best", 100)
    with pytest.raises(ValueError, match="weights must be 4 numbers"):
        summary(FOUR, 0.1, [0.5, 0.5], 100)
    with pytest.raises(ValueError, match="rate must be one number"):
        summary(FOUR, [0.1, 0.2], "uniform", 100)
    with pytest.raises(ValueError, match="horizon must be one number"):
        onset([0, 1], 0.1, "uniform", [10, 20])


@PROBLEMS
def test_summary_is_fast_for_long_horizons(means):
    gaps = summary(means, 0.1, "uniform", 10)["gaps"]
    for horizon in (10_000, 10**12):
        assert quickest(lambda T=horizon: summary(means, 0.1, "uniform", T)) < 0.6
        assert quickest(lambda T=horizon: onset(gaps, 0.1, "uniform", T)) < 1


def quickest(call):
    """Return the shortest CPU time of three calls."""
    times = []
    for _ in range(3):
        before = time.process_time()
        call()
        times.append(time.process_time() - before)
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
    found = summary(means, rate, weights, horizon)
    assert not any(math.isnan(value) for value in leaves(found))
    assert all(0 <= value < math.inf for value in leaves(found["lower"]))
    sure = max(leaves(found["lower"]["passive"]))
    assert sure <= max(found["gaps"]) * horizon
    if sure > 0:  # compare with the constants proved for UCB, which are larger than the defaults
        proved = summary(means, rate, weights, horizon, C=24, C_0=1 + 2 * math.pi**2 / 3)
        assert proved["lower"]["passive"]["sharp"] <= proved["upper"]["ucb_sharp"]


@pytest.mark.parametrize(
    ("means", "horizon", "expected"),
    [
        (FOUR, 10**4, [0.0021, 0.0021, 0.0194, 0.000058, 0.00064, 0.00052]),
        (FOUR, 2**53, [0.0028, 0.0028, 0.0194, 0.000058, 0.00079, 0.00071]),
        (FIVE, 10**4, [0.0011, 0.0011, 0.0168, 0.00012, 0.00051, 0.00021]),
        (FIVE, 2**53, [0.0026, 0.0026, 0.0168, 0.00031, 0.00082, 0.00053]),
    ],
)
def test_d47_the_table_of_the_errata(means, horizon, expected):
    gaps = summary(means, 0.1, "uniform", 10)["gaps"]
    found = onset(gaps, 0.1, "uniform", horizon)
    passive = [found["passive"][name]["rate"] for name in ("theorem", "maximum", "sharp")]
    active = [found["active"][name]["rate"] for name in ("theorem", "maximum", "alternative")]
    assert passive + active == pytest.approx(expected, rel=0.05)
    for rate, theorem, sharp in ((0.0, (2495, 3646), (14, 18)), (1e-3, (7593, 8390), (19, 24))):
        begins = onset(gaps, rate, "uniform", 10)["passive"]
        assert begins["theorem"]["horizon"] == theorem[len(means) - 4]
        assert begins["sharp"]["horizon"] == sharp[len(means) - 4]


def test_command_prints_the_summary(monkeypatch, capsys):
    words = "kibitz bounds --means 2,1.8,0.5,0.2 --rate 1e-4 --horizon 1e6 --weights optimal --json"
    monkeypatch.setattr("sys.argv", words.split())
    with pytest.raises(SystemExit):
        main()
    found = summary(FOUR, 1e-4, "optimal", 10**6)
    assert json.loads(capsys.readouterr().out) == without_infinity(found)


def without_infinity(tree):
    if isinstance(tree, dict):
        return {key: without_infinity(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [without_infinity(value) for value in tree]
    return str(tree) if isinstance(tree, float) and math.isinf(tree) else tree


def test_summary_has_onsets_with_and_without_looks():
    gaps = [0.0, 0.2, 1.5, 1.8]
    found = summary(FOUR, 1e-3, "uniform", 10**6)
    assert found["gaps"] == pytest.approx(gaps)
    begins, alone = (
        onset(found["gaps"], 1e-3, "uniform", 10**6),
        onset(found["gaps"], 0.0, "uniform", 1),
    )
    for observer, bounds in begins.items():
        for name, numbers in bounds.items():
            numbers = numbers | {"horizon_without_looks": alone[observer][name]["horizon"]}
            assert found["onset"][observer][name] == numbers
    assert found["onset"]["passive"]["theorem"]["horizon_without_looks"] == 2495


@pytest.mark.parametrize("rate", [1e-6, 1e-4])
def test_onset_of_the_chain_agrees_with_a_search(rate):
    """Compare the onset, which is computed from a ratio, with a search over all horizons."""
    gaps = [0.0, 0.2, 1.5, 1.8]
    first = onset(gaps, rate, "uniform", 10)["active"]["chain"]["horizon"]
    tried = next(T for T in range(3, 10**5) if lower.active_chain(gaps, rate, T) > 0)
    assert first == tried


@pytest.mark.parametrize("name", ["uniform", "optimal", "suboptimal"])
def test_every_bound_takes_weights_by_name(name):
    gaps = np.array([0.0, 0.2, 1.5, 1.8])
    p = check_weights(name, gaps)
    assert lower.passive_maximum(gaps, 1e-5, name, 10**6) == lower.passive_maximum(
        gaps, 1e-5, p, 10**6
    )
    assert upper.ucb_sharp(gaps, 0.1, name, 10**4) == upper.ucb_sharp(gaps, 0.1, p, 10**4)
    assert p == pytest.approx(passive(0.1, name).static_weights(gaps))
