"""The verdicts, on data for which the right one is known; and that all experiments run."""

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
from kibitz.reproduction.experiments import (
    EXPERIMENTS,
    NUMBERED,
    active,
    all_info,
    arrivals,
    for_ever,
    ftl_or_ucb,
    league,
    limit,
    paid,
    rate_optimal,
    rate_uniform,
    sandwich,
    threshold,
    weights,
)
from kibitz.reproduction.verdict import (
    Estimate,
    Statement,
    above,
    all_of,
    below,
    judge,
    mean,
    ratio,
    reached,
    saving,
    slope,
    within,
)

pytestmark = pytest.mark.slow

RUNS = 200
NOISE = np.random.default_rng(5).normal(0, 0.01, RUNS)


def swept(name, values, regrets, noise=NOISE, policy="ucb"):
    """Return a sweep whose final regrets are as given, but for a little noise from run to run."""
    final = np.array([[regret * (1 + noise) for regret in regrets]])
    return xarray.Dataset(
        {"final_regret": (("policy", name, "run"), final)},
        coords={"policy": [policy], name: list(values)},
    )


def curves(stages, table, name="policy", noise=NOISE):
    """Return regret curves as given by label (or swept value), with a little noise."""
    regret = np.array([np.multiply.outer(1 + noise, np.asarray(curve)) for curve in table.values()])
    data = xarray.Dataset(
        {
            "regret": ((name, "run", "stage"), regret),
            "final_regret": ((name, "run"), regret[..., -1]),
        },
        coords={name: list(table), "stage": stages},
    )
    return data if name == "policy" else data.expand_dims(policy=["ucb"])


def played(regret):
    """Return a simulation of one policy with a final regret."""
    return xarray.Dataset(
        {"final_regret": (("policy", "run"), [regret * (1 + NOISE)])}, coords={"policy": ["ucb"]}
    )


# ------------------------------------------------------------------------------- how it is judged


def test_a_statement_is_decided_only_by_three_standard_errors():
    assert below(Estimate(1.0, 0.1), 1.31) is True
    assert below(Estimate(1.0, 0.1), 1.29) is None
    assert below(Estimate(1.0, 0.1), 0.69) is False
    assert above(Estimate(1.0, 0.1), 0.69) is True
    assert above(Estimate(1.0, 0.1), 1.31) is False
    assert within(Estimate(0.0, 0.1), 0.31) is True
    assert within(Estimate(0.0, 0.1), 0.29) is None
    assert within(Estimate(-1.0, 0.1), 0.5) is False


@pytest.mark.parametrize(
    ("holds", "word"),
    [
        ([True, True], "confirmed"),
        ([True, False], "depends"),
        ([True, None], "depends"),
        ([False, False], "not confirmed"),
        ([None, False], "not confirmed"),
        ([None], "not confirmed"),
    ],
)
def test_the_word_follows_from_the_statements(holds, word):
    assert judge([Statement("", one) for one in holds], "", "").word == word


def test_no_statements_are_no_verdict():
    with pytest.raises(ValueError, match="statements must be at least one statement, got none"):
        judge([], "", "")


def test_all_of_is_open_if_nothing_fails_and_something_is_open():
    assert all_of([True, True]) is True
    assert all_of([True, None]) is None
    assert all_of([None, False, True]) is False


def test_standard_errors_are_those_of_the_textbook():
    sample = np.random.default_rng(1).normal(3, 2, 4000)
    assert mean(sample).error == pytest.approx(sample.std(ddof=1) / math.sqrt(4000))
    assert mean([1.0]).error == math.inf


def test_the_error_of_a_ratio_covers_it():
    """The share of 500 ratios that are within two standard errors, for paired samples."""
    rng = np.random.default_rng(2)
    inside = 0
    for _ in range(500):
        common = rng.normal(0, 1, 300)
        found = ratio(6 + common + rng.normal(0, 1, 300), 3 + common)
        inside += abs(found.value - 2) < 2 * found.error
    assert 460 <= inside <= 493  # 95.4 % of 500 are 477, give or take 3.6 standard deviations


def test_a_common_factor_in_both_samples_leaves_no_error_in_their_ratio():
    sample = np.random.default_rng(3).normal(5, 1, 100)
    assert ratio(2 * sample, sample) == (2.0, pytest.approx(0, abs=1e-12))
    assert saving(sample / 4, sample).value == pytest.approx(0.75)


def test_slope_finds_the_exponent_of_a_power_law():
    x = np.array([0.01, 0.1, 1.0])
    runs = np.multiply.outer(1 + NOISE, 3 * x**-0.7)
    assert slope(np.log(x), runs, log=True).value == pytest.approx(-0.7)
    assert slope(np.log(x), np.multiply.outer(1 + NOISE, 5 - 2 * np.log(x))).value == pytest.approx(
        -2, rel=0.01
    )


def test_reached_is_the_first_stage_at_a_share_of_the_end():
    assert reached([1, 10, 100, 1000], [1, 5, 9.6, 10], 0.95) == 100


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.0, "0"), (0.05, "0.05"), (1000.0, "1000"), (1e4, "10⁴"), (3e-5, "3·10⁻⁵"), (1e12, "10¹²")],
)
def test_numbers_are_written_as_people_do(number, text):
    assert typeset(number) == text


def test_estimates_are_written_with_two_digits_of_their_error():
    assert str(Estimate(123.456, 1.26)) == "123.5 ± 1.3"
    assert str(Estimate(0.98765, 0.0123)) == "0.988 ± 0.012"


# ------------------------------------------------------------------------ experiment by experiment


def rate_data(regrets, without):
    return {"rates": swept("rate", rate_uniform.RATES, regrets), "no-looks": played(without)}


def test_regret_proportional_to_f_is_confirmed():
    f = rate_uniform.reference(np.array(rate_uniform.RATES))
    data = rate_data(4 * f, 4 * f[0])
    assert rate_uniform.verdict(data).word == "confirmed"
    assert rate_optimal.verdict(data).word == "confirmed"


def test_regret_that_ignores_looks_is_not_proportional_to_f():
    found = rate_uniform.verdict(rate_data(np.full(len(rate_uniform.RATES), 200.0), 200.0))
    assert [statement.holds for statement in found.statements] == [True, False, False]
    assert found.word == "depends"


def test_regret_that_grows_with_looks_is_not_confirmed():
    rates = np.array(rate_uniform.RATES)
    assert rate_uniform.verdict(rate_data(300 + 100 * np.sqrt(rates), 200.0)).word == "not confirmed"


def weights_data(uniform, optimal, suboptimal):
    regrets = {weights.UNIFORM: uniform, weights.OPTIMAL: optimal, weights.SUBOPTIMAL: suboptimal}
    noise = np.random.default_rng(6).normal(0, 0.02, (3, RUNS))
    return {
        label: swept("rate", weights.RATES, np.broadcast_to(regret, len(weights.RATES)), noise[n])
        for n, (label, regret) in enumerate(regrets.items())
    }


def test_weights_that_are_best_everywhere_are_confirmed():
    assert weights.verdict(weights_data(100, 90, 110)).word == "confirmed"


def test_weights_that_lose_everywhere_are_not():
    found = weights.verdict(weights_data(100, 120, 110))
    assert found.word == "not confirmed"
    assert "nowhere" in found.sentence


def test_weights_that_win_only_for_large_rates_depend_and_the_page_says_where():
    optimal = np.where(np.array(weights.RATES) >= 0.1, 80.0, 100.0)
    found = weights.verdict(weights_data(100, optimal, 100))
    assert found.word == "depends"
    assert "at ε = 0.1, 0.2, 0.5 and 1 (most" in found.sentence
    assert [statement.holds for statement in found.statements].count(True) == 4
    assert [statement.holds for statement in found.statements].count(False) == 0


STAGES = np.array([10, 100, 1000, 5000, 10_000])


def active_data(double, by_p, second=1.0):
    flat = np.array([0.5, 0.9, 1.0, 1.0, 1.0])
    table = {"UCB1-Double": double}
    table |= {f"ETC-OCUCB, p = {p:g}": by_p(p) * flat for p in active.GROWTHS}
    table |= {f"ETC-OCUCB-2, p = {p:g}": second * by_p(p) * flat for p in active.GROWTHS}
    noise = np.random.default_rng(7).normal(0, 0.01, RUNS)
    return curves(STAGES, table, noise=noise)


SOON = np.array([50.0, 120, 148, 150, 150])
LATE = np.array([10.0, 20, 40, 90, 150])


def test_the_remarks_on_active_algorithms_are_confirmed_where_true():
    data = dict.fromkeys(active.READINGS, active_data(SOON, lambda p: 100 + p))
    assert active.verdict(data).word == "confirmed"


def test_and_depend_on_the_reading_where_the_readings_differ():
    kept = active_data(SOON, lambda p: 100 + p)
    restart = active_data(SOON, lambda p: 500 / p)
    found = active.verdict({"kept": kept, "restart": restart})
    assert found.word == "depends"
    failed = [one.text for one in found.statements if one.holds is False]
    assert len(failed) == len(active.SMALL) * len(active.VARIANTS)
    assert all(text.startswith(active.READINGS["restart"][0]) for text in failed)


def test_and_are_not_confirmed_where_all_are_wrong():
    data = dict.fromkeys(active.READINGS, active_data(LATE, lambda p: 500 / p, second=1.5))
    assert active.verdict(data).word == "not confirmed"


def all_info_data(without, having):
    table = {}
    for name, better in all_info.ALL.items():
        table[name], table[better] = without, having
    return dict.fromkeys(active.READINGS, curves(STAGES, table))


@pytest.mark.parametrize(
    ("without", "having", "word"),
    [(LATE, 0.5 * SOON, "confirmed"), (LATE, SOON, "depends"), (SOON, LATE, "not confirmed")],
)
def test_all_information(without, having, word):
    assert all_info.verdict(all_info_data(without, having)).word == word


def for_ever_data(height, grows=True):
    stages = np.unique(np.geomspace(1, 1e6, 61).round())
    log = np.log10(stages)
    table = {0.0: 100 * log if grows else np.minimum(100 * log, 300)}
    table |= {rate: np.minimum(100 * log, height(rate)) for rate in for_ever.RATES if rate}
    others = {name: np.minimum(100 * log, 200) for name in for_ever.ACTIVE}
    return {"passive": curves(stages, table, "rate"), "active": curves(stages, others)}


def test_bounded_for_ever_is_confirmed_for_plateaus_linear_in_log_rate():
    assert for_ever.verdict(for_ever_data(lambda rate: 50 - 45 * math.log(rate))).word == "confirmed"


def test_bounded_for_ever_depends_if_small_rates_still_grow():
    found = for_ever.verdict(for_ever_data(lambda rate: 200 if rate > 0.005 else 1e9))
    assert found.word == "depends"
    assert "at 3 of 7 rates" in found.sentence


def test_bounded_for_ever_is_not_confirmed_if_all_grow_and_the_bandit_does_not():
    data = for_ever_data(lambda rate: 1e9, grows=False)
    data["active"] = curves(
        data["passive"]["stage"].to_numpy(),
        {name: 100 * np.log10(data["passive"]["stage"].to_numpy()) for name in for_ever.ACTIVE},
    )
    assert for_ever.verdict(data).word == "not confirmed"


def test_the_plateau_is_predicted_where_the_theory_says():
    """1/(2 ε p Δ²) with p = 1/4 and Δ = 0.2."""
    assert for_ever.plateau_stage(0.1) == pytest.approx(500)


def test_one_over_rate_against_log():
    rates = np.array(ftl_or_ucb.RATES)

    def verdict(ftl, ucb):
        data = {"FTL-robin": swept("rate", rates, ftl), "UCB": swept("rate", rates, ucb)}
        return ftl_or_ucb.verdict(data)

    line = 40 - 10 * np.log(rates)
    found = verdict(5 / rates, line)
    assert found.word == "confirmed"
    assert verdict(line / 2, line).word == "depends"
    assert verdict(line / 20 + 10, 5 / rates).word == "not confirmed"


def test_the_crossing_of_two_regrets_is_found():
    rates = np.array([0.01, 0.1, 1.0])
    assert ftl_or_ucb.cross(rates, np.array([1.0, 0.0, -1.0])) == pytest.approx(0.1)
    assert ftl_or_ucb.cross(rates, np.array([1.0, 2.0, 3.0])) is None


@pytest.mark.parametrize(
    ("share", "word"),
    [
        (lambda x: 1 / (1 + x / 3), "confirmed"),
        (lambda x: 1 / (1 + x / 300), "not confirmed"),
        (lambda x: 1 / (1 + 30 * x), "not confirmed"),
        (lambda x: 1 / (1 + 0.8 * x), "depends"),
    ],
)
def test_the_threshold(share, word):
    data = {
        label: swept("relative", threshold.RELATIVE, [200 * share(x) for x in threshold.RELATIVE])
        for label in threshold.SETTINGS
    }
    assert threshold.verdict(data).word == word


def test_the_settings_of_the_threshold_say_what_they_are():
    for label, (n_arms, gap, horizon) in threshold.SETTINGS.items():
        assert (
            label == f"K = {n_arms}, Δ = {gap:g}, T = {typeset(horizon) if horizon > 1000 else '10³'}"
        )
        gaps = complexity.gaps([gap] + [0.0] * (n_arms - 1))
        assert complexity.rate_star(gaps, horizon) * max(threshold.RELATIVE) <= 1


@pytest.mark.parametrize(
    ("regret", "word"),
    [
        (lambda rate, horizon: 300.0, "confirmed"),
        (lambda rate, horizon: 100 + 10 * rate * horizon**0.5, "not confirmed"),
        (lambda rate, horizon: 300 if horizon > 1e7 else 100 + 3000 * rate, "depends"),
    ],
)
def test_paid_looks(regret, word):
    data = {}
    for horizon in paid.HORIZONS:
        regrets = [regret(rate, horizon) for rate in paid.RATES]
        data[f"paid, {horizon}"] = swept("rate", paid.RATES, regrets)
        data[f"alone, {horizon}"] = played(200.0)
    assert paid.verdict(data).word == word


@pytest.mark.parametrize(
    ("factors", "word"),
    [((1.0, 1.0), "confirmed"), ((1.0, 1.2), "depends"), ((0.8, 1.2), "not confirmed")],
)
def test_arrivals(factors, word):
    data = {}
    for label, factor in zip(arrivals.PLAYERS, factors, strict=True):
        data[f"{label}, random"] = swept("period", arrivals.PERIODS, [100, 80, 60])
        data[f"{label}, periodic"] = swept(
            "period", arrivals.PERIODS, [factor * one for one in (100, 80, 60)]
        )
    assert arrivals.verdict(data).word == word


def sandwich_data(regrets, ours=lambda horizon: np.full(len(sandwich.RATES), 50.0)):
    """Return the regret of UCB, and of kibitzer, at each horizon."""
    return {
        str(horizon): xarray.concat(
            [
                swept("rate", sandwich.RATES, regrets(horizon), policy="UCB"),
                swept("rate", sandwich.RATES, ours(horizon), policy="kibitzer"),
            ],
            "policy",
        )
        for horizon in sandwich.HORIZONS
    }


def test_a_violated_bound_is_found_and_said():
    above_all = sandwich_data(lambda horizon: 10 * sandwich.bounds(horizon)["upper, Theorem 3"])
    assert sandwich.verdict(above_all).sentence.startswith("A bound is violated.")
    below_all = sandwich_data(lambda horizon: np.full(len(sandwich.RATES), 1e-9))
    found = sandwich.verdict(below_all)
    assert found.sentence.startswith("A bound is violated.")
    lower = [statement.holds for statement in found.statements if "lower" in statement.text]
    assert not any(lower)


def test_kibitzers_bound_is_held_against_kibitzer_alone():
    bound = {T: sandwich.bounds(T)["upper, kibitzer"] for T in sandwich.HORIZONS}
    between = sandwich_data(lambda horizon: np.full(len(sandwich.RATES), 150.0))
    over = sandwich_data(
        lambda horizon: np.full(len(sandwich.RATES), 150.0), lambda horizon: 2 * bound[horizon]
    )
    for data, holds in ((between, True), (over, False)):
        found = sandwich.verdict(data)
        of_kibitzer = [one.holds for one in found.statements if "kibitzer" in one.text]
        assert of_kibitzer == 3 * [holds]
        assert found.sentence.startswith("A bound is violated.") is not holds


def test_vacuous_bounds_are_called_vacuous_and_confirm_nothing():
    found = sandwich.verdict(sandwich_data(lambda horizon: np.full(len(sandwich.RATES), 150.0)))
    assert found.word == "depends"
    assert found.sentence.startswith("No bound is violated")
    silent = [one for one in found.statements if "vacuous" in one.text]
    assert silent
    assert not any(one.holds for one in silent)


def league_data(regrets, rates=(0.0, 0.1), means=((1.0, 0.5), (0.3, 0.0, 0.1))):
    """Return a league of two problems: regrets[policy](problem, rate)."""
    own = np.random.default_rng(7).normal(0, 0.01, (len(regrets), RUNS))
    data = {}
    for n, problem in enumerate(means):
        final = [
            [regret(n, rate) * (1 + NOISE + own[p]) for rate in rates]
            for p, regret in enumerate(regrets.values())
        ]
        setting = {"horizon": 100, "seed": 1, "problem": {"means": problem}}
        data[f"problem {n + 1}"] = xarray.Dataset(
            {"final_regret": (("policy", "rate", "run"), np.array(final))},
            coords={"policy": list(regrets), "rate": list(rates)},
            attrs={"cells": json.dumps([{"setting": setting}])},
        )
    return data


@pytest.mark.parametrize(
    ("others", "word"),
    [
        ({"a": lambda n, rate: 12, "b": lambda n, rate: 30}, "confirmed"),
        ({"a": lambda n, rate: 5 if n and rate else 40, "b": lambda n, rate: 30}, "depends"),
        ({"a": lambda n, rate: 5, "b": lambda n, rate: 6}, "not confirmed"),
    ],
)
def test_the_league(others, word):
    data = league_data({"kibitzer": lambda n, rate: 10, **others})
    found = league.verdict(data)
    assert found.word == word
    standing = found.tables[0]
    assert len(standing.rows) == 3
    assert {len(row) for row in standing.rows} == {len(standing.columns)}
    assert len(league.draw(data).panels) == 2


def test_the_page_of_the_league_says_where_another_policy_wins():
    wins = {"a": lambda n, rate: 5 if n and rate else 40, "b": lambda n, rate: 30}
    found = league.verdict(league_data({"kibitzer": lambda n, rate: 10, **wins}))
    assert "Another policy is surely better in 1 of 4 settings" in found.sentence
    assert "a (problem 2, 3 arms, ε = 0.1): 4.99 against 9.98" in found.sentence  # but for noise
    (row,) = found.tables[1].rows
    assert row[:4] == ["2", "3", "0.1", "a"]
    much = [one for one in found.statements if one.text.startswith("Nowhere")]
    assert [one.holds for one in much] == [False]
    never = {"a": lambda n, rate: 40}
    found = league.verdict(league_data({"kibitzer": lambda n, rate: 10, **never}))
    assert found.sentence.endswith("In no setting is another policy surely better.")
    assert len(found.tables) == 1


def test_the_figure_of_the_league_shows_the_best_and_ucb_double():
    names = {f"p{n}": partial(lambda worse, *_: 11.0 + worse, n) for n in range(12)}
    ours = {"kibitzer": lambda n, rate: 10, "ucb_double": lambda n, rate: 99}
    labels = league.draw(league_data({**ours, **names})).labels()
    assert labels == ["kibitzer", "p0", "p1", "p2", "p3", "p4", "p5", "ucb_double"]


def limit_data(factors):
    """Return games whose regrets are so many times the optimum's."""
    own = np.random.default_rng(9).normal(0, 0.01, (len(factors), 3, RUNS))
    return {
        label: xarray.Dataset(
            {
                "final_regret": (
                    ("policy", "draw", "run"),
                    np.array(list(factors.values()))[:, None, None]
                    * limit.optimum(period)
                    * (1 + NOISE + own),
                )
            },
            coords={"policy": list(factors), "draw": [0, 1, 2]},
        )
        for label, period in limit.PERIODS.items()
    }


@pytest.mark.parametrize(
    ("factors", "word"),
    [
        ({"kibitzer": 1.1, "a": 1.4, "b": 2.0}, "confirmed"),
        ({"kibitzer": 1.2, "a": 1.1, "b": 2.0}, "depends"),
        ({"kibitzer": 1.6, "a": 1.1, "b": 2.0}, "not confirmed"),
    ],
)
def test_the_limit(factors, word):
    data = limit_data(factors)
    found = limit.verdict(data)
    assert found.word == word
    assert ("The smallest mean is another's: a" in found.sentence) == (word != "confirmed")
    for row in found.tables[0].rows:
        for cell in row[1:]:
            assert float(cell.split()[0]) == pytest.approx(factors[row[0]], rel=0.01)
    assert limit.draw(data).labels()[0] == min(factors, key=factors.get)


def test_the_draws_of_the_limit_fill_the_square_evenly():
    """The means of max, |difference| and product of two uniform numbers are 2/3, 1/3 and 1/4."""
    points = np.array([limit.problem(n).means for n in range(limit.DRAWS)])
    assert points.max(axis=1).mean() == pytest.approx(2 / 3, rel=0.001)
    assert abs(points[:, 0] - points[:, 1]).mean() == pytest.approx(1 / 3, rel=0.001)
    assert points.prod(axis=1).mean() == pytest.approx(1 / 4, rel=0.001)


def test_the_limit_is_that_of_the_published_game():
    """Values of the Bayes optimum at T = 100 that were computed elsewhere."""
    assert [limit.optimum(period) for period in limit.PERIODS.values()] == pytest.approx(
        [1.748, 1.468, 0.840], abs=6e-4
    )


def test_policies_know_the_law_of_the_limit():
    assert {name for name, one in limit.players().items() if one.rewards == "bernoulli"} == set(
        limit.KNOWS_LAW
    )


# ------------------------------------------------------------------------------------ all of them


def test_the_experiments_come_in_the_order_of_the_paper():
    assert EXPERIMENTS[:5] == (rate_uniform, rate_optimal, weights, active, all_info)
    assert [module.RUNS >= 300 for module in EXPERIMENTS[:5]] == [True] * 5


def test_the_list_holds_every_module_of_the_folder_and_numbers_it_by_its_place():
    folder = Path(experiments.__file__).parent
    names = sorted(file.stem for file in folder.glob("*.py") if file.stem != "__init__")
    assert sorted(module.__name__.rpartition(".")[2] for module in EXPERIMENTS) == names
    assert list(NUMBERED.items()) == [(n + 1, module) for n, module in enumerate(EXPERIMENTS)]


@pytest.mark.parametrize("module", EXPERIMENTS, ids=lambda module: module.__name__)
def test_no_experiment_knows_its_number(module):
    """Neither in words, nor in the name of a file: else the list would not be the only place."""
    source = Path(module.__file__).read_text()
    assert not re.search(r"[Ee]xperiments? \d", source)
    assert not re.search(r"[\"/]\d+-|\.nc", source)


@pytest.mark.parametrize("module", EXPERIMENTS, ids=lambda module: module.__name__)
def test_the_docstring_says_what_of_the_paper_and_what_is_concluded(module):
    assert f"\nOf the paper: {module.PAPER}.\n" in module.__doc__
    assert "\nConcluded: " in module.__doc__


def test_the_documentation_has_a_heading_for_each_experiment_with_its_number():
    page = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text()
    headings = re.findall(r"^## (.*)\n\n```{eval-rst}\n\.\. automodule:: (.*)$", page, re.MULTILINE)
    assert headings == [(f"{n}. {module.TITLE}", module.__name__) for n, module in NUMBERED.items()]


BLOCKED = """
import sys
sys.modules["matplotlib"] = None  # importing it raises ImportError
from kibitz.plotting import vega
from kibitz.reproduction import experiments, verdict
print(verdict.percent(verdict.Estimate(0.5, 0.01)), len(experiments.EXPERIMENTS), vega.__name__)
try:
    import kibitz.plotting.figures
except ImportError:
    print("only plots needs it")
"""


def test_verdicts_experiments_and_charts_need_no_matplotlib():
    found = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert found.stdout == "50.0 ± 1.0 % 13 kibitz.plotting.vega\nonly plots needs it\n"


def test_only_plots_imports_matplotlib():
    room = Path(experiments.__file__).parents[2]
    importing = {
        file.name
        for file in room.rglob("*.py")
        if re.search(r"^\s*(import|from) matplotlib", file.read_text(), re.MULTILINE)
    }
    assert importing == {"figures.py"}


@pytest.mark.slow
@pytest.mark.parametrize("number", NUMBERED)
def test_every_experiment_runs_is_judged_and_drawn_and_resumes(number, tmp_path, monkeypatch):
    """With two runs and short horizons; the second time nothing is computed."""
    module = NUMBERED[number]
    for name, short in {"HORIZON": 1000, "HORIZONS": (200, 1000)}.items():
        if hasattr(module, name):
            monkeypatch.setattr(module, name, short)
    if module is threshold:
        few = {label: (k, gap, 1000) for label, (k, gap, _) in list(module.SETTINGS.items())[:1]}
        monkeypatch.setattr(module, "SETTINGS", few)

    def file(part):
        return tmp_path / f"{part}.nc"

    data = module.run(file, runs=2, seed=3)
    assert module.verdict(data).word in {"confirmed", "not confirmed", "depends"}
    picture = module.draw(data)
    assert len(picture.alt) > 40
    assert len(draw_figure(picture).axes) >= len(picture.panels)
    said = []
    again = module.run(file, runs=2, seed=3, progress=lambda what, share: said.append(what))
    for label, part in data.items():
        assert json.loads(part.attrs["fingerprint"])["seed"] == 3
        xarray.testing.assert_identical(part, again[label])
    assert "simulating" not in said
