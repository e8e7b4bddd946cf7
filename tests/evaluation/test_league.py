"""Tests of the league: its problems, and the standings computed from given regrets."""

import json
import math
import re

import numpy as np
import pytest
import xarray

import kibitz
from kibitz import ftl, kl_ucb, ucb, ucb_double
from kibitz.evaluation.league import (
    EXCLUDED,
    FACTORS,
    RATES,
    REFERENCE,
    SURE,
    UNFAIR,
    UNFAIR_RATE,
    entrants,
    games,
    geometric_ratio,
    league_problems,
    play_league,
    stage_costs,
    standings,
    unfair_weights,
)
from kibitz.policies import POLICIES

pytestmark = pytest.mark.slow

RUNS = 400
NOISE = np.random.default_rng(3).normal(0, 0.05, (12, RUNS))


def make_league(table, means=(0.0, -1.0), looks=("active", "active"), common=True):
    """Return the data of a league with one problem.

    `table` maps each policy to its mean regrets in two settings, which have the rates 0 and 1 of
    looks. `means` contains the means of the arms. `looks` contains the kind of looks in each setting:
    "active" or a kind of unfair looks. If `common` is true, the runs of all policies share most of
    their noise, as with common random numbers.
    """
    regret = []
    for p, values in enumerate(table.values()):
        noise = NOISE[0] + 0.1 * NOISE[p + 1] if common else NOISE[p + 1]
        regret.append([value * (1 + noise) for value in values])
    setting = {"horizon": 100, "seed": 5, "problem": {"means": list(means)}}
    return xarray.Dataset(
        {"final_regret": (("policy", "point", "run"), np.array(regret))},
        coords={
            "policy": list(table),
            "rate": ("point", [0.0, 1.0]),
            "looks": ("point", list(looks)),
        },
        attrs={"cells": json.dumps([{"fingerprint": setting}])},
    )


TABLE = {"kibitzer": (10.0, 20.0), "a": (20.0, 20.0), "b": (40.0, 5.0), "c": (1000.0, 400.0)}


@pytest.fixture
def league_standings():
    return standings({"problem 1": make_league(TABLE)})


def test_ratios_compare_with_the_best_policy_of_each_setting(league_standings):
    expected = {"kibitzer": (1, 4), "a": (2, 4), "b": (4, 1), "c": (100, 80)}
    for label, ratios in expected.items():
        scores = league_standings["policies"][label]
        assert scores["ratio"] == pytest.approx(math.sqrt(math.prod(ratios)), rel=0.01)
        assert list(scores["by_looks"].values()) == pytest.approx(ratios, rel=0.02)
        assert scores["worst"] == pytest.approx(max(ratios), rel=0.02)
        assert scores["best"] == ratios.count(1)
        assert scores["where"]["rate"] == float(np.argmax(ratios))
    assert list(league_standings["policies"])[-1] == "c"
    assert {*list(league_standings["policies"])[:2]} == {"kibitzer", "b"}


def test_unfair_looks_are_reported_apart_from_active_looks():
    data = make_league(TABLE, looks=("active", "only the worst"))
    result = standings({"problem 1": data})
    assert result["setting"]["rates"] == [0.0]
    assert result["setting"]["settings"] == 2
    assert result["setting"]["unfair"] == {"problem 1": "only the worst"}
    assert result["policies"]["kibitzer"]["by_looks"] == pytest.approx(
        {"0": 1, "unfair": 4}, rel=0.02
    )
    assert result["policies"]["kibitzer"]["where"]["looks"] == "only the worst"
    assert [loss["looks"] for loss in result["beaten"]] == ["only the worst"]


@pytest.mark.parametrize(
    ("kind", "weights"),
    [
        ("never the best", [0, 1 / 3, 1 / 3, 0, 1 / 3]),
        ("only the worst", [0, 0, 1 / 2, 0, 1 / 2]),
        ("rarely the best", [0.0005, 0.333, 0.333, 0.0005, 0.333]),
        ("1/gap²", [0, 4 / 6, 1 / 6, 0, 1 / 6]),
    ],
)
def test_unfair_weights(kind, weights):
    """Check the weights for a problem in which two of the five arms are best and two are worst."""
    values = unfair_weights(kind, np.array([0, 0.5, 1, 0, 1]))
    assert values.tolist() == pytest.approx(weights)
    assert values.sum() == pytest.approx(1, abs=1e-15)


def test_unknown_unfair_weights_raise():
    with pytest.raises(ValueError, match=r"^kind must be 'never the best', .*, got 'only the best'"):
        unfair_weights("only the best", np.array([0.0, 1.0]))


def test_profile_is_the_share_of_settings_within_a_factor(league_standings):
    profile = dict(zip(FACTORS, league_standings["policies"]["a"]["profile"], strict=True))
    assert {share for factor, share in profile.items() if factor < 1.9} == {0.0}
    assert {share for factor, share in profile.items() if 2.1 < factor < 3.9} == {0.5}
    assert {share for factor, share in profile.items() if factor > 4.2} == {1.0}


def test_q99_is_a_quantile_of_single_runs_relative_to_the_best_mean(league_standings):
    data = {"problem 1": make_league(TABLE)}
    results = games(data)
    relative = results.regret[1] / np.array([[results.means[0, 0]], [results.means[2, 1]]])
    assert league_standings["policies"]["a"]["q99"] == pytest.approx(np.quantile(relative, 0.99))


def test_differences_are_paired(league_standings):
    """Check that common noise makes the standard error of a difference several times smaller."""
    pair = league_standings["paired"]["a"]
    assert pair["ratio"] == pytest.approx(math.sqrt(2), rel=0.005)
    assert pair["difference"] == pytest.approx(5.0, rel=0.02)
    apart = standings({"problem 1": make_league(TABLE, common=False)})["paired"]["a"]
    assert pair["sem"] < 0.25 * apart["sem"]
    assert (pair["worse"], pair["better"]) == (1, 0)


def test_standard_errors_have_the_right_coverage():
    """Simulate 400 leagues of two equally good policies, whose true ratio is 1.

    In about 95 % of the leagues, the ratio must be within two standard errors of 1.
    """
    rng = np.random.default_rng(8)
    inside = 0
    for _ in range(400):
        data = make_league({"kibitzer": (10, 10), "a": (10, 10)})
        common = rng.normal(0, 0.3, 60)  # run r shares this noise across policies and rates
        data = data.isel(run=slice(60))
        data["final_regret"].values[:] = 10 + 10 * (common + rng.normal(0, 0.3, (2, 1, 60)))
        value, error = geometric_ratio(games({"problem 1": data}), 1, 0)
        inside += abs(value - 1) < 2 * error
    assert 365 <= inside <= 396  # 95 % of 400 are 380; the limits are 3.5 standard deviations away


def test_beaten_lists_settings_where_another_policy_wins(league_standings):
    assert league_standings["reference"] == REFERENCE
    (beaten,) = league_standings["beaten"]
    assert (beaten["policy"], beaten["problem"], beaten["rate"]) == ("b", "problem 1", 1.0)
    assert beaten["regret"] == pytest.approx(5, rel=0.02)
    assert beaten["difference"] / beaten["sem"] < -SURE
    two_policies = standings({"problem 1": make_league({"kibitzer": (1, 1), "a": (2, 2)})})
    assert two_policies["beaten"] == []


def test_reference_without_kibitzer_is_the_first_policy():
    result = standings({"problem 1": make_league({"x": (3, 3), "a": (2, 2)})})
    assert result["reference"] == "x"
    assert len(result["beaten"]) == 2


def test_zero_regret_counts_as_one_pull_of_the_second_best_arm():
    result = standings({"problem 1": make_league({"kibitzer": (0, 0), "a": (2, 3)}, (0.0, -0.5))})
    assert result["policies"]["a"]["ratio"] == pytest.approx(math.sqrt(4 * 6), rel=0.01)
    assert result["policies"]["kibitzer"]["ratio"] == 1


def test_problems_are_random_reproducible_and_of_three_kinds():
    problems = league_problems(60, 4)
    first_problems, other_problems = league_problems(12, 4), league_problems(60, 5)
    assert all((a.means == b.means).all() for a, b in zip(problems, first_problems, strict=False))
    assert any(a.n_arms != b.n_arms for a, b in zip(problems, other_problems, strict=True))
    sizes = [problem.n_arms for problem in problems]
    assert min(sizes) == 2
    assert 20 < max(sizes) <= 30
    for n, problem in enumerate(problems):
        positive = problem.gaps[problem.gaps > 0]
        assert positive.size
        if n % 3 == 1:
            assert np.ptp(positive) == 0
            assert 0.1 <= positive[0] <= 1
    best_arms = {int(problem.means.argmax()) for problem in problems}
    assert len(best_arms) > 5  # any arm can be the best


def test_entrants_include_all_policies():
    labels = entrants()
    assert {policy.name for policy in labels.values()} == set(POLICIES) - EXCLUDED
    assert {"moss_anytime:exploration=2", "etc_ocucb:all_info=True"} <= set(labels)


def test_ucb_and_ucb_double_have_the_same_regret():
    data = play_league([ucb(), ucb_double()], problems=1, horizon=300, runs=3, seed=1)
    final = next(iter(data.values()))["final_regret"]
    assert (final.sel(policy="ucb") == final.sel(policy="ucb_double")).all()


def test_league_is_simulated_saved_and_resumed(tmp_path):
    def file(name):
        return tmp_path / f"{name}.nc"

    progress = []
    options = {"problems": 2, "horizon": 50, "runs": 3, "seed": 2, "file": file}
    data = play_league([ftl(), kl_ucb()], progress=lambda *step: progress.append(step), **options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["problem-1.nc", "problem-2.nc"]
    for part, kind in zip(data.values(), UNFAIR, strict=False):
        assert part["rate"].to_numpy().tolist() == [*RATES, UNFAIR_RATE]
        assert part["looks"].to_numpy().tolist() == ["active"] * len(RATES) + [kind]
        fingerprint = json.loads(part.attrs["cells"])[-1]["fingerprint"]
        gaps = max(fingerprint["problem"]["means"]) - np.array(fingerprint["problem"]["means"])
        assert fingerprint["feedback"]["weights"] == unfair_weights(kind, gaps).tolist()
    assert progress[-1][1] == pytest.approx(1.0)
    assert [share for _, share in progress] == sorted(share for _, share in progress)
    repeated_data = play_league([ftl(), kl_ucb()], **options)
    for name, part in data.items():
        xarray.testing.assert_identical(part, repeated_data[name])
    result = standings(data)
    assert result["setting"]["seed"] == 2
    assert result["setting"]["horizon"] == 50
    means = [problem.means.tolist() for problem in league_problems(2, 2)]
    assert list(result["setting"]["problems"].values()) == means
    json.dumps(result, allow_nan=False)


def test_stage_costs_are_plausible():
    costs = stage_costs([ftl(), kl_ucb()], stages=2000)
    assert set(costs) == {"ftl", "kl_ucb"}
    assert all(5 < cost.nanoseconds < 1e6 for cost in costs.values())
    assert {cost.kernel for cost in costs.values()} <= {"generic", "specialised"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"problems": 0}, "problems must be a whole number of at least 1, got 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"horizon": 0}, "horizon must be a whole number of at least 1, got 0"),
        ({"policies": []}, "no policies given; pass at least one policy, such as ucb()"),
        ({"file": "runs.nc"}, "file must be a function that maps the name of a problem to a file"),
    ],
)
def test_invalid_arguments_raise(options, message):
    arguments = {"policies": [ftl()], "problems": 1, "horizon": 10, "runs": 2, "seed": 1, **options}
    with pytest.raises(ValueError, match=re.escape(message)):
        play_league(arguments.pop("policies"), **arguments)


@pytest.mark.parametrize("option", [{"keep": "summary"}, {"stages": [3]}, {"n_arms": 4}])
def test_other_options_raise_type_error(option):
    """`league` rejects `keep="summary"`, because it would count the statistics as runs."""
    (name,) = option
    with pytest.raises(TypeError, match=f"got an unexpected keyword argument '{name}'"):
        kibitz.league([ftl()], problems=1, horizon=10, runs=2, seed=1, **option)


def test_the_attributes_of_a_league_are_readable():
    data = kibitz.league([ftl(), ucb()], problems=2, horizon=20, runs=2, seed=5)
    assert (data.attrs["horizon"], data.attrs["seed"], data.attrs["engine"]) == (20, 5, "step")
    assert data.attrs["policies"].startswith("ftl")
    assert "numpy" in data.attrs["versions"]
    assert all("long_name" in data[name].attrs for name in data.variables)
