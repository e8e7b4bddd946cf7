"""Tests of the verdicts on data with a known answer, and a short run of each experiment."""

import json
import math
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import xarray

from kibitz.bounds import complexity
from kibitz.plotting.figures import draw_figure
from kibitz.plotting.picture import typeset
from kibitz.reproduction import experiments
from kibitz.reproduction.changes import bucket, delays, false_alarms, four_changes, kinds
from kibitz.reproduction.experiments import (
    EXPERIMENTS,
    PAPER_EXPERIMENTS,
    active,
    all_info,
    arrivals,
    bayes_optimum,
    between_bounds,
    bounded_regret,
    ftl_or_ucb,
    league,
    paid,
    rate_optimal,
    rate_uniform,
    threshold,
    weights,
)
from kibitz.reproduction.graphs import league as graph_league
from kibitz.reproduction.parts import PARTS
from kibitz.reproduction.report import OUTCOME_SIGNS
from kibitz.reproduction.verdict import (
    Estimate,
    Parameter,
    Statement,
    all_hold,
    first_stage_at,
    format_percent,
    is_above,
    is_below,
    is_within,
    judge,
    mean,
    ratio,
    saving,
    slope,
)

pytestmark = pytest.mark.slow

RUNS = 200
NOISE = np.random.default_rng(5).normal(0, 0.01, RUNS)


def make_sweep(name, values, regrets, noise=NOISE, policy="ucb"):
    """Return a sweep with the given final regrets and a little noise between runs."""
    final_regrets = np.array([[regret * (1 + noise) for regret in regrets]])
    return xarray.Dataset(
        {"final_regret": (("policy", name, "run"), final_regrets)},
        coords={"policy": [policy], name: list(values)},
    )


def make_curves(stages, table, name="policy", noise=NOISE):
    """Return a dataset with the given regret curves and a little noise between runs.

    `table` maps each label (or swept value) to its curve.
    """
    regret = np.array([np.multiply.outer(1 + noise, np.asarray(curve)) for curve in table.values()])
    data = xarray.Dataset(
        {
            "regret": ((name, "run", "stage"), regret),
            "final_regret": ((name, "run"), regret[..., -1]),
        },
        coords={name: list(table), "stage": stages},
    )
    return data if name == "policy" else data.expand_dims(policy=["ucb"])


def make_simulation(regret):
    """Return the results of one policy with the given final regret."""
    return xarray.Dataset(
        {"final_regret": (("policy", "run"), [regret * (1 + NOISE)])}, coords={"policy": ["ucb"]}
    )


# --------------------------------------------------------------------------------------- verdicts


def test_a_statement_is_decided_at_three_standard_errors():
    assert is_below(Estimate(1.0, 0.1), 1.31) is True
    assert is_below(Estimate(1.0, 0.1), 1.29) is None
    assert is_below(Estimate(1.0, 0.1), 0.69) is False
    assert is_above(Estimate(1.0, 0.1), 0.69) is True
    assert is_above(Estimate(1.0, 0.1), 1.31) is False
    assert is_within(Estimate(0.0, 0.1), 0.31) is True
    assert is_within(Estimate(0.0, 0.1), 0.29) is None
    assert is_within(Estimate(-1.0, 0.1), 0.5) is False


@pytest.mark.parametrize(
    ("holds", "outcome"),
    [
        ([True, True], "confirmed"),
        ([True, False], "partly confirmed"),
        ([True, None], "partly confirmed"),
        ([False, False], "not confirmed"),
        ([None, False], "not confirmed"),
        ([None, None], "undecided"),
    ],
)
def test_outcome_follows_from_the_statements(holds, outcome):
    assert judge([Statement("", result) for result in holds], "", "").outcome == outcome


def test_a_partly_confirmed_verdict_counts_the_statements_that_hold():
    def text(*holds):
        return str(judge([Statement("", result) for result in holds], "", ""))

    assert text(True, False, True, None) == "partly confirmed (2 of 4)"
    assert text(True, True) == "confirmed"
    assert text(False, None) == "not confirmed"


def test_a_printed_statement_has_a_sign():
    signs = [str(Statement("regret is lower", holds)) for holds in (True, False, None)]
    assert signs == ["✓ regret is lower", "✗ regret is lower", "? regret is lower"]


def test_a_verdict_needs_a_statement():
    with pytest.raises(ValueError, match="no statements"):
        judge([], "", "")


def test_all_hold_is_undecided_if_nothing_fails_and_something_is_undecided():
    assert all_hold([True, True]) is True
    assert all_hold([True, None]) is None
    assert all_hold([None, False, True]) is False


def test_standard_error_of_a_mean():
    sample = np.random.default_rng(1).normal(3, 2, 4000)
    assert mean(sample).error == pytest.approx(sample.std(ddof=1) / math.sqrt(4000))
    assert mean([1.0]).error == math.inf


def test_the_standard_error_of_a_ratio_has_the_right_coverage():
    """Compute 500 ratios of paired samples whose true ratio is 2.

    About 95.4 % of the ratios must be within two standard errors of 2.
    """
    rng = np.random.default_rng(2)
    n_inside = 0
    for _ in range(500):
        common_noise = rng.normal(0, 1, 300)
        result = ratio(6 + common_noise + rng.normal(0, 1, 300), 3 + common_noise)
        n_inside += abs(result.value - 2) < 2 * result.error
    # 95.4 % of 500 are 477; the limits are 3.5 standard deviations away.
    assert 460 <= n_inside <= 493


def test_the_ratio_of_proportional_samples_has_no_error():
    sample = np.random.default_rng(3).normal(5, 1, 100)
    assert ratio(2 * sample, sample) == (2.0, pytest.approx(0, abs=1e-12))
    assert saving(sample / 4, sample).value == pytest.approx(0.75)


def test_slope_of_a_power_law_is_its_exponent():
    x = np.array([0.01, 0.1, 1.0])
    runs = np.multiply.outer(1 + NOISE, 3 * x**-0.7)
    assert slope(np.log(x), runs, log=True).value == pytest.approx(-0.7)
    assert slope(np.log(x), np.multiply.outer(1 + NOISE, 5 - 2 * np.log(x))).value == pytest.approx(
        -2, rel=0.01
    )


def test_slope_of_a_regret_that_does_not_grow_is_exactly_zero():
    """The report must not show a rounding error such as -0.000000000000000024."""
    runs = np.repeat([[2.9], [1.7], [0.3]], 9, axis=1)
    assert slope(np.log(np.geomspace(1e5, 1e9, 9)), runs) == (0.0, 0.0)


def test_first_stage_at_a_share_of_the_final_value():
    assert first_stage_at(0.95, [1, 10, 100, 1000], [1, 5, 9.6, 10]) == 100


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.0, "0"), (0.05, "0.05"), (1000.0, "1000"), (1e4, "10⁴"), (3e-5, "3·10⁻⁵"), (1e12, "10¹²")],
)
def test_typeset_uses_the_usual_notation(number, text):
    assert typeset(number) == text


def test_estimates_have_two_digits_of_their_error():
    assert str(Estimate(123.456, 1.26)) == "123.5 ± 1.3"
    assert str(Estimate(0.98765, 0.0123)) == "0.988 ± 0.012"
    assert format_percent(Estimate(0.98765, 0.0123)) == "98.8 ± 1.2 %"
    assert format_percent(0.05) == "5 %"


# ------------------------------------------------------------------------------------ experiments


def make_rise_data(dimensions, before, after):
    """Return the regrets of a policy at two stages: before a rise, and after it in each setting."""
    after = np.asarray(after, dtype=float)[..., np.newaxis] * (1 + NOISE)
    regret = np.stack([np.full(after.shape, before), before + after], axis=-1)[np.newaxis]
    return xarray.Dataset(
        {"regret": (("policy", *dimensions, "run", "stage"), regret)},
        coords={"policy": ["lookout"], **dimensions, "stage": [1, 2]},
    )


@pytest.mark.parametrize(("factor", "word"), [(1.0, "confirmed"), (3.0, "partly confirmed")])
def test_verdict_on_delays_follows_from_the_delays(factor, word):
    data = {}
    for n_arms in delays.ARMS:
        kinds = [delays.CHOSEN, delays.RANDOM]
        table = [[delays.predict_delay(n_arms, k, r)[0] for r in delays.RATES] for k in kinds]
        regret = factor * np.array(table) * (delays.CHANGE - delays.GAP)
        data[str(n_arms)] = make_rise_data({"looks": kinds, "rate": list(delays.RATES)}, 50.0, regret)
    assert delays.verdict(data).outcome == word


@pytest.mark.parametrize(
    ("factors", "word"), [({}, "confirmed"), ({0.5: 0.1}, "partly confirmed"), (2.0, "not confirmed")]
)
def test_verdict_on_the_bucket_follows_from_the_costs(factors, word):
    rates, regret = bucket.list_rates(), []
    for rate in rates:
        factor = factors.get(rate, 1.0) if isinstance(factors, dict) else factors
        # the verdict also fails if the recommended rate is not the cheapest rate
        far = 10.0 if factor == 2.0 and rate == bucket.make_plan().rate else factor
        regret.append(far * bucket.make_plan(rate).total - bucket.COST * rate * bucket.HORIZON)
    assert bucket.verdict({"rates": make_rise_data({"rate": rates}, 70.0, regret)}).outcome == word


@pytest.mark.parametrize(
    ("kibitzer", "lookout", "word"),
    [
        ((300, 600, 900), (290, 100, 50), "confirmed"),
        ((900, 300, 300), (990, 900, 900), "not confirmed"),
    ],
)
def test_verdict_on_four_changes_follows_from_the_regrets(kibitzer, lookout, word):
    regrets = {
        four_changes.KIBITZER: kibitzer,
        four_changes.LOOKOUT: lookout,
        four_changes.SW_UCB: (200,) * 3,
    }
    n_pieces = len(four_changes.MEANS)
    rates, stages = list(four_changes.RATES), [1, 2]

    def make_data(table, **coords):
        regret = np.multiply.outer(np.asarray(table, float), np.outer(1 + NOISE, [0.5, 1.0]))
        return xarray.Dataset(
            {"regret": ((*coords, "run", "stage"), regret)}, coords={**coords, "stage": stages}
        )

    whole = make_data(list(regrets.values()), policy=list(regrets), rate=rates)
    pieces = make_data(
        np.full((1, 3, n_pieces), 4.0), policy=[four_changes.TOLD], rate=rates, piece=range(n_pieces)
    )
    # the whole problem has the stages of all pieces
    whole = whole.sel(stage=[1] * (2 * n_pieces - 1) + [2])
    whole = whole.assign_coords(stage=range(1, 2 * n_pieces + 1))
    result = four_changes.verdict({"whole": whole, "pieces": pieces})
    assert result.outcome == word
    told = four_changes.join_regret({"whole": whole, "pieces": pieces}).sel(policy=four_changes.TOLD)
    assert told.isel(stage=-1).mean() == pytest.approx(20, rel=0.01)  # five pieces with regret 4


@pytest.mark.parametrize(("factor", "word"), [(2.0, "confirmed"), (0.5, "partly confirmed")])
def test_verdict_on_kinds_of_changes_follows_from_the_regrets(factor, word):
    """With looks, rivals have `factor` times the regret of lookout; without looks, 0.3 times."""
    labels, rng, data = list(kinds.make_policies()), np.random.default_rng(8), {}
    for kind in kinds.KINDS:
        regret = np.full((len(labels), len(kinds.RATES), kinds.N_PROBLEMS, 2), 100.0)
        if kinds.N_CHANGES[kind]:
            regret[2:] *= np.where(np.array(kinds.RATES) > 0, factor, 0.3)[:, None, None]
        regret *= 1 + rng.normal(0, 1e-3, regret.shape)
        data[kind] = xarray.Dataset(
            {"final_regret": (("policy", "rate", "number", "run"), regret)},
            coords={"policy": labels, "rate": list(kinds.RATES), "number": range(kinds.N_PROBLEMS)},
        )
    result = kinds.verdict(data)
    assert result.outcome == word
    assert [s.holds for s in result.statements] == [factor > 1] * 6 + [True, True]


def make_rate_data(regrets, without):
    return {
        "rates": make_sweep("rate", rate_uniform.RATES, regrets),
        "no-looks": make_simulation(without),
    }


def test_regret_proportional_to_f_is_confirmed():
    f = rate_uniform.reference(np.array(rate_uniform.RATES))
    data = make_rate_data(4 * f, 4 * f[0])
    assert rate_uniform.verdict(data).outcome == "confirmed"
    assert rate_optimal.verdict(data).outcome == "confirmed"


def test_regret_that_ignores_looks_is_not_proportional_to_f():
    result = rate_uniform.verdict(make_rate_data(np.full(len(rate_uniform.RATES), 200.0), 200.0))
    assert [statement.holds for statement in result.statements] == [True, False, False]
    assert result.outcome == "partly confirmed"


def test_regret_that_grows_with_looks_is_not_confirmed():
    rates = np.array(rate_uniform.RATES)
    assert (
        rate_uniform.verdict(make_rate_data(300 + 100 * np.sqrt(rates), 200.0)).outcome
        == "not confirmed"
    )


def make_weights_data(uniform, optimal, suboptimal):
    regrets = {weights.UNIFORM: uniform, weights.OPTIMAL: optimal, weights.SUBOPTIMAL: suboptimal}
    noise = np.random.default_rng(6).normal(0, 0.02, (3, RUNS))
    return {
        label: make_sweep(
            "rate", weights.RATES, np.broadcast_to(regret, len(weights.RATES)), noise[n]
        )
        for n, (label, regret) in enumerate(regrets.items())
    }


def test_optimal_weights_with_the_lowest_regret_are_confirmed():
    assert weights.verdict(make_weights_data(100, 90, 110)).outcome == "confirmed"


def test_optimal_weights_with_a_higher_regret_are_not_confirmed():
    result = weights.verdict(make_weights_data(100, 120, 110))
    assert result.outcome == "not confirmed"
    assert result.finding.count("lower at no ε") == 2


def test_optimal_weights_that_are_best_at_some_rates_are_partly_confirmed():
    optimal = np.where(np.array(weights.RATES) >= 0.1, 80.0, 100.0)
    result = weights.verdict(make_weights_data(100, optimal, 100))
    assert result.outcome == "partly confirmed"
    assert result.finding.count("lower at ε = 0.1, 0.2, 0.5 and 1 (by up to") == 2
    assert [statement.holds for statement in result.statements].count(True) == 4
    assert [statement.holds for statement in result.statements].count(False) == 0


STAGES = np.array([10, 100, 1000, 5000, 10_000])


def make_active_data(double_curve, by_p, second_factor=1.0):
    flat_curve = np.array([0.5, 0.9, 1.0, 1.0, 1.0])
    table = {"UCB1-Double": double_curve}
    table |= {f"ETC-OCUCB, p = {p:g}": by_p(p) * flat_curve for p in active.GROWTHS}
    table |= {f"ETC-OCUCB-2, p = {p:g}": second_factor * by_p(p) * flat_curve for p in active.GROWTHS}
    noise = np.random.default_rng(7).normal(0, 0.01, RUNS)
    return make_curves(STAGES, table, noise=noise)


EARLY_CURVE = np.array([50.0, 120, 148, 150, 150])
LATE_CURVE = np.array([10.0, 20, 40, 90, 150])


def test_active_algorithms_are_confirmed():
    data = dict.fromkeys(active.READINGS, make_active_data(EARLY_CURVE, lambda p: 100 + p))
    assert active.verdict(data).outcome == "confirmed"


def test_active_algorithms_are_partly_confirmed_if_the_readings_differ():
    data_without_restart = make_active_data(EARLY_CURVE, lambda p: 100 + p)
    data_with_restart = make_active_data(EARLY_CURVE, lambda p: 500 / p)
    result = active.verdict({"kept": data_without_restart, "restart": data_with_restart})
    assert result.outcome == "partly confirmed"
    failed_texts = [statement.text for statement in result.statements if statement.holds is False]
    assert len(failed_texts) == len(active.SMALL_GROWTHS) * len(active.VARIANTS)
    assert all(text.startswith(active.READINGS["restart"][0]) for text in failed_texts)


def test_active_algorithms_are_not_confirmed():
    data = dict.fromkeys(
        active.READINGS, make_active_data(LATE_CURVE, lambda p: 500 / p, second_factor=1.5)
    )
    assert active.verdict(data).outcome == "not confirmed"


def make_all_info_data(without, having):
    table = {}
    for name, better in all_info.ALL_INFO.items():
        table[name], table[better] = without, having
    return dict.fromkeys(active.READINGS, make_curves(STAGES, table))


@pytest.mark.parametrize(
    ("without", "having", "word"),
    [
        (LATE_CURVE, 0.5 * EARLY_CURVE, "confirmed"),
        (LATE_CURVE, EARLY_CURVE, "partly confirmed"),
        (EARLY_CURVE, LATE_CURVE, "not confirmed"),
    ],
)
def test_verdict_on_all_info_follows_from_the_curves(without, having, word):
    assert all_info.verdict(make_all_info_data(without, having)).outcome == word


def make_bounded_regret_data(height, grows=True):
    stages = np.unique(np.geomspace(1, 1e6, 61).round())
    log = np.log10(stages)
    table = {0.0: 100 * log if grows else np.minimum(100 * log, 300)}
    table |= {rate: np.minimum(100 * log, height(rate)) for rate in bounded_regret.RATES if rate}
    other_curves = {name: np.minimum(100 * log, 200) for name in bounded_regret.ACTIVE}
    return {
        "passive": make_curves(stages, table, "rate"),
        "active": make_curves(stages, other_curves),
    }


def test_plateaus_linear_in_log_rate_are_confirmed():
    assert (
        bounded_regret.verdict(
            make_bounded_regret_data(lambda rate: 50 - 45 * math.log(rate))
        ).outcome
        == "confirmed"
    )


def test_bounded_regret_is_partly_confirmed_if_small_rates_still_grow():
    result = bounded_regret.verdict(
        make_bounded_regret_data(lambda rate: 200 if rate > 0.005 else 1e9)
    )
    assert result.outcome == "partly confirmed"
    assert "at 3 of 7 rates" in result.finding


def test_bounded_regret_is_not_confirmed_if_only_the_bandit_is_flat():
    data = make_bounded_regret_data(lambda rate: 1e9, grows=False)
    data["active"] = make_curves(
        data["passive"]["stage"].to_numpy(),
        {name: 100 * np.log10(data["passive"]["stage"].to_numpy()) for name in bounded_regret.ACTIVE},
    )
    assert bounded_regret.verdict(data).outcome == "not confirmed"


def test_the_predicted_stage_of_the_plateau():
    """Compare with 1/(2 ε p Δ²) for the rate ε = 0.1, the weight p = 1/4 and the gap Δ = 0.2."""
    assert bounded_regret.plateau_stage(0.1) == pytest.approx(500)


def test_verdict_on_the_order_in_the_rate_follows_from_the_regrets():
    rates = np.array(ftl_or_ucb.RATES)

    def verdict(ftl, ucb):
        data = {"FTL-robin": make_sweep("rate", rates, ftl), "UCB": make_sweep("rate", rates, ucb)}
        return ftl_or_ucb.verdict(data)

    line = 40 - 10 * np.log(rates)
    result = verdict(5 / rates, line)
    assert result.outcome == "confirmed"
    assert verdict(line / 2, line).outcome == "partly confirmed"
    assert verdict(line / 20 + 10, 5 / rates).outcome == "not confirmed"


def test_find_crossing_returns_the_rate_at_which_the_sign_changes():
    rates = np.array([0.01, 0.1, 1.0])
    assert ftl_or_ucb.find_crossing(rates, np.array([1.0, 0.0, -1.0])) == pytest.approx(0.1)
    assert ftl_or_ucb.find_crossing(rates, np.array([1.0, 2.0, 3.0])) is None


@pytest.mark.parametrize(
    ("share", "word"),
    [
        (lambda x: 1 / (1 + x / 3), "confirmed"),
        (lambda x: 1 / (1 + x / 300), "not confirmed"),
        (lambda x: 1 / (1 + 30 * x), "not confirmed"),
        (lambda x: 1 / (1 + 0.8 * x), "partly confirmed"),
    ],
)
def test_verdict_on_the_threshold_follows_from_the_regrets(share, word):
    data = {
        label: make_sweep(
            "relative", threshold.RELATIVE_RATES, [200 * share(x) for x in threshold.RELATIVE_RATES]
        )
        for label in threshold.SETTINGS
    }
    assert threshold.verdict(data).outcome == word


def test_labels_of_the_threshold_settings():
    for label, (n_arms, gap, horizon) in threshold.SETTINGS.items():
        assert (
            label == f"K = {n_arms}, Δ = {gap:g}, T = {typeset(horizon) if horizon > 1000 else '10³'}"
        )
        gaps = complexity.gaps([gap] + [0.0] * (n_arms - 1))
        assert complexity.rate_star(gaps, horizon) * max(threshold.RELATIVE_RATES) <= 1


@pytest.mark.parametrize(
    ("regret", "word"),
    [
        (lambda rate, horizon: 300.0, "confirmed"),
        (lambda rate, horizon: 100 + 10 * rate * horizon**0.5, "not confirmed"),
        (lambda rate, horizon: 300 if horizon > 1e7 else 100 + 3000 * rate, "partly confirmed"),
    ],
)
def test_verdict_on_paid_looks_follows_from_the_regrets(regret, word):
    data = {}
    for horizon in paid.HORIZONS:
        regrets = [regret(rate, horizon) for rate in paid.RATES]
        data[f"paid, {horizon}"] = make_sweep("rate", paid.RATES, regrets)
        data[f"alone, {horizon}"] = make_simulation(200.0)
    assert paid.verdict(data).outcome == word


@pytest.mark.parametrize(
    ("factors", "word"),
    [((1.0, 1.0), "confirmed"), ((1.0, 1.2), "partly confirmed"), ((0.8, 1.2), "not confirmed")],
)
def test_verdict_on_arrivals_follows_from_the_regrets(factors, word):
    data = {}
    for label, factor in zip(arrivals.POLICIES, factors, strict=True):
        data[f"{label}, random"] = make_sweep("period", arrivals.PERIODS, [100, 80, 60])
        data[f"{label}, periodic"] = make_sweep(
            "period", arrivals.PERIODS, [factor * base_regret for base_regret in (100, 80, 60)]
        )
    assert arrivals.verdict(data).outcome == word


def make_between_bounds_data(regrets, ours=lambda horizon: np.full(len(between_bounds.RATES), 50.0)):
    """Return data with the regrets of UCB, `regrets`, and of kibitzer, `ours`, at each horizon."""
    return {
        str(horizon): xarray.concat(
            [
                make_sweep("rate", between_bounds.RATES, regrets(horizon), policy="UCB"),
                make_sweep("rate", between_bounds.RATES, ours(horizon), policy="kibitzer"),
            ],
            "policy",
        )
        for horizon in between_bounds.HORIZONS
    }


def test_a_violated_bound_is_reported():
    data_above_bounds = make_between_bounds_data(
        lambda horizon: 10 * between_bounds.bounds(horizon)["upper, Theorem 3"]
    )
    assert between_bounds.verdict(data_above_bounds).finding.startswith("A bound is violated.")
    data_below_bounds = make_between_bounds_data(
        lambda horizon: np.full(len(between_bounds.RATES), 1e-9)
    )
    result = between_bounds.verdict(data_below_bounds)
    assert result.finding.startswith("A bound is violated.")
    lower_results = [statement.holds for statement in result.statements if "lower" in statement.text]
    assert not any(lower_results)


def test_the_bound_of_kibitzer_applies_to_kibitzer_only():
    bound = {T: between_bounds.bounds(T)["upper, kibitzer"] for T in between_bounds.HORIZONS}
    data_between_bounds = make_between_bounds_data(
        lambda horizon: np.full(len(between_bounds.RATES), 150.0)
    )
    data_above_bound = make_between_bounds_data(
        lambda horizon: np.full(len(between_bounds.RATES), 150.0), lambda horizon: 2 * bound[horizon]
    )
    for data, holds in ((data_between_bounds, True), (data_above_bound, False)):
        result = between_bounds.verdict(data)
        kibitzer_results = [
            statement.holds for statement in result.statements if "kibitzer" in statement.text
        ]
        assert kibitzer_results == 3 * [holds]
        assert result.finding.startswith("A bound is violated.") is not holds


def test_vacuous_bounds_confirm_nothing():
    result = between_bounds.verdict(
        make_between_bounds_data(lambda horizon: np.full(len(between_bounds.RATES), 150.0))
    )
    assert result.outcome == "partly confirmed"
    assert result.finding.startswith("No bound is violated")
    vacuous_statements = [statement for statement in result.statements if "vacuous" in statement.text]
    assert vacuous_statements
    assert not any(statement.holds for statement in vacuous_statements)


def make_league_data(regrets, looks=("0", "0.1", "unfair"), means=((1.0, 0.5), (0.3, 0.0, 0.1))):
    """Return the data of a league of two problems.

    The mean regret of a policy is `regrets[policy](problem, looks)`.
    """
    own = np.random.default_rng(7).normal(0, 0.01, (len(regrets), RUNS))
    data = {}
    for n, problem in enumerate(means):
        final = [
            [regret(n, kind) * (1 + NOISE + own[p]) for kind in looks]
            for p, regret in enumerate(regrets.values())
        ]
        setting = {"horizon": 100, "seed": 1, "problem": {"means": problem}}
        coords = {
            "policy": list(regrets),
            "rate": ("point", [0.1 if kind == "unfair" else float(kind) for kind in looks]),
            "looks": (
                "point",
                ["only the worst" if kind == "unfair" else "active" for kind in looks],
            ),
        }
        data[f"problem {n + 1}"] = xarray.Dataset(
            {"final_regret": (("policy", "point", "run"), np.array(final))},
            coords=coords,
            attrs={"cells": json.dumps([{"fingerprint": setting}])},
        )
    return data


def win_once(n, looks):
    """Return the regret of a policy that is best only on problem 2 with looks at rate 0.1."""
    return 5 if n == 1 and looks == "0.1" else 40


@pytest.mark.parametrize(
    ("others", "word"),
    [
        ({"a": lambda n, looks: 12, "b": lambda n, looks: 30}, "confirmed"),
        ({"a": win_once, "b": lambda n, looks: 30}, "partly confirmed"),
        ({"a": lambda n, looks: 5, "b": lambda n, looks: 6}, "not confirmed"),
    ],
)
def test_the_verdict_on_the_league_follows_from_the_regrets(others, word):
    data = make_league_data({"kibitzer": lambda n, looks: 10, **others})
    result = league.verdict(data)
    assert result.outcome == word
    standings = result.tables[0]
    assert len(standings.rows) == 3
    assert {len(row) for row in standings.rows} == {len(standings.columns)}
    assert len(league.draw(data).panels) == 2


def test_the_league_reports_where_another_policy_is_better():
    wins = {"a": win_once, "b": lambda n, looks: 30}
    result = league.verdict(make_league_data({"kibitzer": lambda n, looks: 10, **wins}))
    assert "Another policy is significantly better in 1 of 6 settings" in result.finding
    assert (
        "a (problem 2, 3 arms, ε = 0.1): 4.99 against 9.98" in result.finding
    )  # the regrets 5 and 10 with noise
    (row,) = result.tables[1].rows
    assert row[:4] == ["2", "3", "ε = 0.1", "a"]
    statements = [
        statement for statement in result.statements if statement.text.startswith("In no setting")
    ]
    assert [statement.holds for statement in statements] == [False]
    never = {"a": lambda n, looks: 40}
    result = league.verdict(make_league_data({"kibitzer": lambda n, looks: 10, **never}))
    assert result.finding.endswith("In no setting is another policy significantly better.")
    assert len(result.tables) == 1


def test_the_league_judges_unfair_looks_apart():
    fails = {"a": lambda n, looks: 5 if looks == "unfair" else 40}
    result = league.verdict(make_league_data({"kibitzer": lambda n, looks: 10, **fails}))
    (unfair,) = [
        statement for statement in result.statements if statement.text.startswith("Unfair looks")
    ]
    assert not unfair.holds
    assert "a, has a higher regret, 0.5" in unfair.text
    assert "(problem 1, 2 arms, unfair looks: only the worst)" in result.finding


def test_the_figure_of_the_league_has_the_best_policies_and_ucb_double():
    other_regrets = {f"p{n}": partial(lambda worse, *_: 11.0 + worse, n) for n in range(12)}
    shown_regrets = {"kibitzer": lambda n, looks: 10, "ucb_double": lambda n, looks: 99}
    labels = league.draw(make_league_data({**shown_regrets, **other_regrets})).labels()
    assert labels == ["kibitzer", "p0", "p1", "p2", "p3", "p4", "p5", "ucb_double"]


def make_bayes_optimum_data(factors):
    """Return data in which the regret of each policy is the given factor times the optimal regret."""
    noise_of_runs = np.random.default_rng(9).normal(0, 0.01, (len(factors), 3, RUNS))
    return {
        label: xarray.Dataset(
            {
                "final_regret": (
                    ("policy", "draw", "run"),
                    np.array(list(factors.values()))[:, None, None]
                    * bayes_optimum.optimal_regret(period)
                    * (1 + NOISE + noise_of_runs),
                )
            },
            coords={"policy": list(factors), "draw": [0, 1, 2]},
        )
        for label, period in bayes_optimum.PERIODS.items()
    }


@pytest.mark.parametrize(
    ("factors", "word"),
    [
        ({"kibitzer": 1.1, "a": 1.4, "b": 2.0}, "confirmed"),
        ({"kibitzer": 1.2, "a": 1.1, "b": 2.0}, "partly confirmed"),
        ({"kibitzer": 1.6, "a": 1.1, "b": 2.0}, "not confirmed"),
    ],
)
def test_verdict_on_the_bayes_optimum_follows_from_the_regrets(factors, word):
    data = make_bayes_optimum_data(factors)
    result = bayes_optimum.verdict(data)
    assert result.outcome == word
    assert ("Another policy has the lowest mean: a" in result.finding) == (word != "confirmed")
    for row in result.tables[0].rows:
        for cell in row[1:]:
            assert float(cell.split()[0]) == pytest.approx(factors[row[0]], rel=0.01)
    assert bayes_optimum.draw(data).labels()[0] == min(factors, key=factors.get)


def test_the_pairs_of_means_fill_the_square_evenly():
    """Compare averages over the pairs with their expectations for two uniform numbers.

    The maximum, the absolute difference and the product have expectations 2/3, 1/3 and 1/4.
    """
    points = np.array([bayes_optimum.problem(n).means for n in range(bayes_optimum.DRAWS)])
    assert points.max(axis=1).mean() == pytest.approx(2 / 3, rel=0.001)
    assert abs(points[:, 0] - points[:, 1]).mean() == pytest.approx(1 / 3, rel=0.001)
    assert points.prod(axis=1).mean() == pytest.approx(1 / 4, rel=0.001)


def test_the_bayes_optimum_has_the_published_values():
    """Compare the optimal regret at T = 100 with values from an independent program."""
    assert [
        bayes_optimum.optimal_regret(period) for period in bayes_optimum.PERIODS.values()
    ] == pytest.approx([1.748, 1.468, 0.840], abs=6e-4)


def test_policies_that_have_a_form_for_bernoulli_rewards_use_it():
    assert {
        name
        for name, policy in bayes_optimum.make_policies().items()
        if policy.rewards == "bernoulli"
    } == set(bayes_optimum.BERNOULLI_POLICIES)


# -------------------------------------------------------------------------------- all experiments

ALL_EXPERIMENTS = [module for part in PARTS.values() for module in part.numbered.values()]


def test_the_paper_experiments_come_first_and_in_its_order():
    paper = (rate_uniform, rate_optimal, weights, active, all_info)
    assert EXPERIMENTS[:5] == PAPER_EXPERIMENTS == paper
    assert all(module.RUNS >= 300 and module.RUNS >= module.PAPER_RUNS for module in paper)
    assert [module.PAPER_RUNS for module in paper] == [300, 300, 300, 100, 300]
    assert [module.SOURCE for module in paper] == [f"Section 5, Figure {n}" for n in range(1, 6)]


@pytest.mark.parametrize("module", PAPER_EXPERIMENTS, ids=lambda module: module.__name__)
def test_each_claim_of_section_5_has_statements_or_is_not_measured(module):
    data = {
        rate_uniform: lambda: make_rate_data(np.full(len(rate_uniform.RATES), 200.0), 200.0),
        rate_optimal: lambda: make_rate_data(np.full(len(rate_uniform.RATES), 200.0), 200.0),
        weights: lambda: make_weights_data(100, 90, 110),
        active: lambda: dict.fromkeys(
            active.READINGS, make_active_data(EARLY_CURVE, lambda p: 100 + p)
        ),
        all_info: lambda: make_all_info_data(LATE_CURVE, EARLY_CURVE),
    }[module]()
    tested_claims = {statement.claim for statement in module.verdict(data).statements}
    measured_claims = {
        n
        for n, claim_entry in enumerate(module.CLAIMS)
        if not claim_entry.measure.startswith("Not measured")
    }
    assert tested_claims == measured_claims
    assert all(claim.place.startswith("Section 5, ") for claim in module.CLAIMS)


def test_parameters_are_compared_with_those_of_the_paper():
    assert Parameter("ε", "0.1", "0.1").comparison == "same"
    assert Parameter("runs", "100", "400").comparison == "differs"
    assert Parameter("p", "not stated", "2").comparison == "not stated"
    assert Parameter("T", "not stated for this figure", "10⁴").comparison == "not stated"
    values = {parameter.name: parameter for parameter in active.PARAMETERS}
    assert values["means"].here == "2, 1.8, 1.5, 1, 0.5"
    assert [values[name].comparison for name in ("means", "ε", "horizon T")] == ["same"] * 3


@pytest.mark.parametrize("part", PARTS)
def test_every_experiment_of_a_part_is_listed_and_numbered_in_order(part):
    numbered = PARTS[part].numbered
    folder = Path(numbered[1].__file__).parent
    names = sorted(file.stem for file in folder.glob("*.py") if file.stem != "__init__")
    assert sorted(module.__name__.rpartition(".")[2] for module in numbered.values()) == names
    assert list(numbered) == list(range(1, len(names) + 1))


def test_the_paper_part_has_the_papers_and_our_experiments():
    assert list(PARTS["paper"].numbered.items()) == [
        (n + 1, module) for n, module in enumerate(EXPERIMENTS)
    ]


@pytest.mark.parametrize("module", ALL_EXPERIMENTS, ids=lambda module: module.__name__)
def test_no_experiment_contains_its_number(module):
    """Check that no text or file name in the module contains the number of the experiment.

    The position in the list of experiments determines the number.
    """
    source = Path(module.__file__).read_text()
    assert not re.search(r"[Ee]xperiments? \d", source)
    assert not re.search(r"[\"/]\d+-|\.nc", source)


@pytest.mark.parametrize("module", ALL_EXPERIMENTS, ids=lambda module: module.__name__)
def test_the_docstring_names_the_source_and_what_is_measured(module):
    assert f"\nSource: {module.SOURCE}.\n" in module.__doc__
    assert "\nMeasured: " in module.__doc__


@pytest.mark.parametrize("part", PARTS)
def test_the_documentation_has_a_heading_for_each_experiment_with_its_number(part):
    name = "experiments.md" if part == "paper" else f"experiments_{part}.md"
    page = (Path(__file__).parents[2] / "docs" / name).read_text()
    headings = re.findall(r"^## (.*)\n\n```{eval-rst}\n\.\. automodule:: (.*)$", page, re.MULTILINE)
    assert headings == [
        (f"{n}. {module.TITLE}", module.__name__) for n, module in PARTS[part].numbered.items()
    ]


BLOCKED = """
import sys
sys.modules["matplotlib"] = None  # importing it raises ImportError
from kibitz.plotting import vega
from kibitz.reproduction import experiments, verdict
percent = verdict.format_percent(verdict.Estimate(0.5, 0.01))
print(percent, len(experiments.EXPERIMENTS), vega.__name__)
try:
    import kibitz.plotting.figures
except ImportError:
    print("only figures needs it")
"""


def test_verdicts_experiments_and_charts_need_no_matplotlib():
    result = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "50.0 ± 1.0 % 13 kibitz.plotting.vega\nonly figures needs it\n"


def test_only_plotting_imports_matplotlib():
    package = Path(experiments.__file__).parents[2]
    importing_files = {
        file.name
        for file in package.rglob("*.py")
        if re.search(r"^\s*(import|from) matplotlib", file.read_text(), re.MULTILINE)
    }
    assert importing_files == {"charts.py", "figures.py", "window.py"}


@pytest.mark.slow
@pytest.mark.parametrize("module", ALL_EXPERIMENTS, ids=lambda module: module.__name__)
def test_every_experiment_runs_and_resumes(module, tmp_path, monkeypatch):
    """Run each experiment with two runs and short horizons.

    The second call reads the files and simulates nothing.
    """
    for name, short_value in {"HORIZON": 1000, "HORIZONS": (200, 1000)}.items():
        if hasattr(module, name):
            monkeypatch.setattr(module, name, short_value)
    if module is kinds:
        monkeypatch.setattr(module, "N_PROBLEMS", 2)
        monkeypatch.setattr(module, "RATES", (0.0, 0.1))
    if module is false_alarms:
        monkeypatch.setattr(module, "OBSERVATIONS", (100, 1000))
    if module is graph_league:
        monkeypatch.setattr(module, "N_PROBLEMS", len(graph_league.KINDS))
    if module is threshold:
        few_settings = {
            label: (k, gap, 1000) for label, (k, gap, _) in list(module.SETTINGS.items())[:1]
        }
        monkeypatch.setattr(module, "SETTINGS", few_settings)

    def file(part):
        return tmp_path / f"{part}.nc"

    data = module.run(file, runs=2, seed=3)
    assert module.verdict(data).outcome in OUTCOME_SIGNS
    picture = module.draw(data)
    assert len(picture.alt) > 40
    assert len(draw_figure(picture).axes) >= len(picture.panels)
    messages = []
    resumed_data = module.run(
        file, runs=2, seed=3, progress=lambda message, share: messages.append(message)
    )
    for label, part in data.items():
        assert json.loads(part.attrs["fingerprint"])["seed"] == 3
        xarray.testing.assert_identical(part, resumed_data[label])
    assert "simulating" not in messages
