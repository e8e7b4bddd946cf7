"""Tests of the planner.

Predictions are compared with simulations, and optima with brute force. Invalid input must raise.
"""

import json
import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from workers import InlineExecutor

import kibitz
from kibitz import active, bandit, gaussian, kibitzer, passive, simulate, ucb, ucb_double
from kibitz.cli import main
from kibitz.planning.kibitzer import solve_count, water_fill
from kibitz.planning.prediction import ACCURACY, OBSERVERS, early_scale, predict
from kibitz.planning.size import find_leading_order_size

pytestmark = pytest.mark.slow

FIVE_GAPS = [0.0, 0.2, 0.5, 1.0, 1.5]
ONE_OF_MESSAGE = "give exactly one of --baseline, --rates, --log, --gap, --gap-range and --gaps, got"


def simulate_regret(gaps, rate, observer, horizon, runs=150):
    """Return the mean final regret of the policy for an observer, and its standard error."""
    if observer == "active":
        feedback, policy = active(rate), ucb_double()
    elif observer == "kibitzer":
        feedback, policy = active(rate), kibitzer()
    else:
        feedback = bandit() if np.ndim(rate) == 0 and rate == 0 else passive(rate, observer)
        policy = ucb()
    problem = gaussian([-gap for gap in gaps])
    data = simulate(problem, feedback, policy, horizon=horizon, runs=runs, seed=5, stages=[horizon])
    final_regrets = data["final_regret"].to_numpy()[0]
    return final_regrets.mean(), final_regrets.std(ddof=1) / math.sqrt(runs)


# Predictions. The tests allow the stated accuracy plus four standard errors. If the stated accuracy
# holds, each setting would fail by chance with probability below 10⁻⁴. The seed is fixed.


@pytest.mark.parametrize("gaps", [[0.0, 0.5], [0.0] + [0.3] * 9, FIVE_GAPS])
@pytest.mark.parametrize("observer", OBSERVERS)
def test_predictions_are_as_accurate_as_stated(gaps, observer):
    needed_looks = sum(gap**-2 for gap in gaps if gap > 0)
    rates = [0.0] + [x * needed_looks / 10_000 for x in (3, 30)]
    for rate, predicted_regret in zip(rates, predict(gaps, rates, 10_000, observer), strict=True):
        mean, error = simulate_regret(gaps, rate, observer, 10_000)
        accuracy_name = observer if rate > 0 or observer == "kibitzer" else "no looks"
        allowed_error = ACCURACY[accuracy_name]["worst"]
        assert abs(predicted_regret - mean) <= allowed_error * mean + 4 * error


def test_predicted_savings_match_simulation():
    # a prediction that ignored the looks or the noise would exceed the tolerances below
    for observer in OBSERVERS:
        predicted_regrets = predict([0.0, 0.5], [0.0, 0.02], 10_000, observer)
        regret_without_looks, regret_with_looks = (
            simulate_regret([0.0, 0.5], rate, observer, 10_000)[0] for rate in (0.0, 0.02)
        )
        close = 0.3 if observer == "kibitzer" else 0.12
        assert predicted_regrets[1] / predicted_regrets[0] == pytest.approx(
            regret_with_looks / regret_without_looks, rel=close
        )
        assert regret_with_looks < 0.7 * regret_without_looks


@pytest.mark.parametrize("observer", OBSERVERS)
def test_few_early_looks_are_predicted_accurately(observer):
    horizon, rate = 20_000, 0.005
    rates = np.minimum(1, early_scale(rate, horizon) / np.arange(1, horizon + 1))
    mean, error = simulate_regret([0.0, 0.5], rates, observer, horizon)
    predicted_regret = predict([0.0, 0.5], [rate], horizon, observer, early=True)[0]
    regret_without_looks = predict([0.0, 0.5], [0.0], horizon, observer)[0]
    accuracy_name = "kibitzer, early" if observer == "kibitzer" else "early"
    assert (
        abs(predicted_regret - mean)
        <= ACCURACY[accuracy_name]["worst"] * regret_without_looks + 4 * error
    )
    steady_regret = predict([0.0, 0.5], [rate], horizon, observer)[0]
    assert mean + 2 * error < steady_regret  # early looks save more than looks at a constant rate


def test_long_horizons_are_predicted_accurately():
    for rate in (0.0, 1e-7):
        mean, error = simulate_regret([0.0, 1.0], rate, "uniform", 10**9, runs=24)
        assert predict([0.0, 1.0], [rate], 10**9)[0] == pytest.approx(
            mean, abs=0.08 * mean + 4 * error
        )


def test_regret_hardly_grows_after_the_plateau():
    plan = kibitz.plan(10**8, gaps=FIVE_GAPS[1:])
    k = 20
    for observer in OBSERVERS:
        stage = int(plan.details["plateau"][observer]["mean"][k])
        rate = plan.rates[k]
        regret_at_plateau, later_regret = (
            predict(FIVE_GAPS, [rate], x * stage, observer)[0] for x in (2, 50)
        )
        assert later_regret < 1.03 * regret_at_plateau
        growing_regrets = [
            predict(FIVE_GAPS, [rate], int(x * stage), observer)[0] for x in (0.02, 0.5)
        ]
        assert growing_regrets[1] > (1.1 if observer == "kibitzer" else 1.2) * growing_regrets[0]
        regrets_without_looks = [predict(FIVE_GAPS, [0.0], x * stage, observer)[0] for x in (2, 50)]
        assert regrets_without_looks[1] > 1.15 * regrets_without_looks[0]


@given(
    st.integers(0, 53),
    st.floats(-6, 2),
    st.integers(2, 200),
    st.sampled_from(OBSERVERS),
    st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_predictions_are_finite_and_in_range(log_horizon, log_gap, n_arms, observer, early):
    horizon, gap = 2**log_horizon, 10**log_gap
    gaps = [0.0] + [gap] * (n_arms - 1)
    regret = predict(gaps, [0.0, 1e-12, 1e-3, 1.0], horizon, observer, early=early)
    assert np.isfinite(regret).all()
    assert (regret >= 0).all()
    assert (regret <= horizon * gap * (1 + 1e-12)).all()


def test_looks_at_optimal_arms_save_little():
    # with two best arms, UCB1-Double looks mostly at the best arm that it does not pull
    one_best_arm, two_best_arms = ([0.0] * n + [0.5] for n in (1, 2))
    saving_with_one, saving_with_two = (
        1 - np.divide(*predict(gaps, [0.01, 0.0], 100_000, "active"))
        for gaps in (one_best_arm, two_best_arms)
    )
    assert saving_with_one > 0.4
    assert saving_with_two < 0.2
    mean, error = simulate_regret(two_best_arms, 0.01, "active", 100_000, runs=40)
    assert predict(two_best_arms, [0.01], 100_000, "active")[0] == pytest.approx(
        mean, abs=0.15 * mean + 4 * error
    )


# Predictions for kibitzer


@pytest.mark.parametrize(
    ("d", "stage", "looks", "n_arms"), [(0.3, 1e4, 0.0, 5), (2.0, 50.0, 7.0, 2), (0.01, 1e8, 1e6, 30)]
)
def test_solve_count_solves_its_equation(d, stage, looks, n_arms):
    n = np.ones((1, 1))
    for _ in range(20):  # iterate to convergence
        n = solve_count(np.array([[d]]), stage, np.array([[looks]]), n_arms, n)
    x = 1 + 8 * stage / (n_arms * n + 8 * looks)
    assert n * d**2 == pytest.approx(2 * (np.log(x) - np.log(1 + np.log(x))))


def test_water_fill_raises_the_lowest_arms():
    gaps, counts = np.array([[0.0, 0.5, 1.0]]), np.array([1.0, 1.0, 2.0])
    observed_counts = np.array(
        [[100.0, 4.0, 9.0]]
    )  # the levels n Δ² of the sub-optimal arms are 1 and 9
    looks = water_fill(gaps, counts, observed_counts, np.array([[12.0]]))
    assert looks == pytest.approx(np.array([[0.0, 12.0, 0.0]]))  # arm 1 rises to level 4
    looks = water_fill(
        gaps, counts, observed_counts, np.array([[32.0 + 6.0]])
    )  # 32 looks raise the arm with gap 0.5 to level 9; each further level costs 4 + 2 looks
    assert looks == pytest.approx(np.array([[0.0, 36.0, 1.0]]))
    assert (counts * looks).sum() == pytest.approx(38)


def test_advice_agrees_with_the_table():
    plan = kibitz.plan(100_000, gaps=FIVE_GAPS[1:])
    regret = plan.curves["kibitzer"]["mean"]
    k = plan.rates.index(plan.rate)
    assert plan.policy == "kibitzer"
    assert plan.regret == pytest.approx(regret[k])
    assert plan.saving == pytest.approx(regret[0] - regret[k])
    assert plan.regret_without_looks == regret[0]
    assert regret[0] - regret[k] >= (regret[0] - regret[-1]) / 2 > regret[0] - regret[k - 1]
    assert plan.others["ucb_double"] == pytest.approx(plan.curves["active"]["mean"][k])
    assert plan.others["ucb_double"] > 2 * plan.regret
    assert plan.others["even_split"] == pytest.approx(100_000 * sum(FIVE_GAPS) / 5)
    early_plan = plan.details["early"]
    assert early_plan["recommended"]["scale"] == pytest.approx(early_plan["scale"][k])
    assert early_plan["recommended"]["regret"] == pytest.approx(
        early_plan["curves"]["kibitzer"]["mean"][k]
    )


@pytest.mark.parametrize("cost", [0.0, 0.01, 0.02, 0.1, 10.0])
def test_with_a_cost_the_advice_is_the_best_size(cost):
    plan = kibitz.plan(100_000, gaps=FIVE_GAPS[1:], cost=cost)
    best_size = plan.details["best"]["kibitzer"]
    assert plan.policy == "kibitzer"
    assert (plan.rate, plan.n_looks) == (best_size["rate"], best_size["n_looks"])
    assert plan.net == pytest.approx(best_size["net"], abs=1e-9)
    assert plan.net == pytest.approx(plan.saving - cost * plan.n_looks, abs=1e-9)


def test_at_sets_the_rate_of_looks():
    plan = kibitz.plan(100_000, gaps=FIVE_GAPS[1:], at=0.003, cost=0.1)
    assert plan.rate == 0.003
    predicted_regrets = predict(FIVE_GAPS, [0.0, 0.003], 100_000, "kibitzer")
    assert plan.regret == pytest.approx(predicted_regrets[1])
    assert plan.net == pytest.approx(predicted_regrets[0] - predicted_regrets[1] - 0.1 * 300)
    assert kibitz.plan(100_000, gaps=FIVE_GAPS[1:], at=0).regret == pytest.approx(
        predicted_regrets[0]
    )


def test_scale_changes_only_the_units():
    """If gaps, cost and scale grow by a factor of 100, regret and savings grow by this factor."""
    unscaled_plan = kibitz.plan(50_000, gaps=[0.2, 0.5], cost=0.1).to_dict()
    scaled_plan = kibitz.plan(50_000, gaps=[20.0, 50.0], cost=10.0, scale=100.0).to_dict()
    for name in ("rate", "n_looks"):
        assert scaled_plan[name] == pytest.approx(unscaled_plan[name])
    for name in ("regret", "regret_without_looks", "saving", "net", "others"):
        expected = unscaled_plan[name]
        if isinstance(expected, dict):
            expected = {key: 100 * value for key, value in expected.items()}
        else:
            expected *= 100
        assert scaled_plan[name] == pytest.approx(expected)
    for observer in OBSERVERS:
        for curves in (lambda plan: plan["curves"], lambda plan: plan["details"]["early"]["curves"]):
            scaled_regret, regret = (
                np.array(curves(plan)[observer]["mean"]) for plan in (scaled_plan, unscaled_plan)
            )
            assert scaled_regret == pytest.approx(100 * regret)
        net_savings = [
            plan["details"]["best"][observer]["net"] for plan in (scaled_plan, unscaled_plan)
        ]
        assert net_savings[0] == pytest.approx(100 * net_savings[1])


@pytest.mark.parametrize(
    ("arguments", "has_hint"),
    [
        ({"gap": 0.04, "n_arms": 2}, True),
        ({"gap": 0.06, "n_arms": 2}, False),
        ({"gaps": [1.0, 0.01]}, True),
        ({"gap": 0.04, "n_arms": 2, "scale": 0.2}, False),
    ],
)
def test_small_gaps_get_a_hint(arguments, has_hint):
    """For a small gap, the plan hints that the gap may be a difference of click rates."""
    assert ("--baseline" in kibitz.plan(20_000, **arguments).hint) == has_hint
    assert not kibitz.plan(10_000, **arguments).hint


@pytest.mark.parametrize(("horizon", "gap", "rate"), [(1000, 1.0, 0.366), (1000, 1.0, 1.0)])
def test_ucb_double_is_not_recommended_where_its_prediction_is_too_low(horizon, gap, rate):
    assert kibitz.plan(horizon, n_arms=2, gap=gap, cost=0.0).policy == "kibitzer"
    predicted_regrets = {
        name: predict([0.0, gap], [rate], horizon, name)[0] for name in ("active", "kibitzer")
    }
    assert predicted_regrets["active"] < predicted_regrets["kibitzer"]
    kibitzer_regret, error = simulate_regret([0.0, gap], rate, "kibitzer", horizon)
    ucb_regret, ucb_error = simulate_regret([0.0, gap], rate, "active", horizon)
    assert kibitzer_regret + error < ucb_regret - ucb_error


def test_looks_below_the_threshold_of_the_paper_help_kibitzer():
    plan = kibitz.plan(1000, n_arms=5, gap=0.2)
    gaps = [0.0] + [0.2] * 4
    assert plan.rate < plan.details["rate_star"]["mean"]
    regret_with_looks, error = simulate_regret(gaps, plan.rate, "kibitzer", 1000)
    regret_without_looks, error_without_looks = simulate_regret(gaps, 0.0, "kibitzer", 1000)
    assert regret_with_looks + 3 * math.hypot(error, error_without_looks) < regret_without_looks


def test_recommended_policy_is_better_in_simulation():
    plan = kibitz.plan(20_000, gaps=FIVE_GAPS[1:])
    kibitzer_regret, error = simulate_regret(FIVE_GAPS, plan.rate, "kibitzer", 20_000, runs=60)
    ucb_regret, _ = simulate_regret(FIVE_GAPS, plan.rate, "active", 20_000, runs=60)
    assert ucb_regret > 2 * (kibitzer_regret + 4 * error)
    assert plan.regret == pytest.approx(
        kibitzer_regret, abs=ACCURACY["kibitzer"]["worst"] * kibitzer_regret + 4 * error
    )


# The number of looks


def test_early_scale_keeps_the_number_of_looks():
    for horizon in (10, 1000, 10**6):
        for rate in (1e-3, 0.1, 0.9):
            scale = early_scale(rate, horizon)
            expected_looks = np.minimum(1, scale / np.arange(1, horizon + 1)).sum()
            assert expected_looks == pytest.approx(rate * horizon, rel=1e-2, abs=1)


def test_leading_order_size_for_equal_gaps_is_the_closed_form():
    gaps, horizon = np.array([[0.0, 0.5, 0.5, 0.5]]), 10**6
    threshold = 3 / (2 * 0.25 * horizon)
    for cost in (0.01, 0.1, 1.0):
        best_size = find_leading_order_size(gaps, horizon, cost, 6.0, "optimal")
        rate = 6 * 3 / (cost * 0.5 * horizon)
        assert best_size["rate"] == pytest.approx(rate)
        assert best_size["net"] == pytest.approx(6 * 3 / 0.5 * (math.log(rate / threshold) - 1))
    limit = 2 * 6 * 0.5 / math.e
    assert find_leading_order_size(gaps, horizon, 0.999 * limit, 6.0, "optimal")["rate"] > 0
    assert find_leading_order_size(gaps, horizon, 1.001 * limit, 6.0, "optimal")["rate"] == 0


@pytest.mark.parametrize("seed", range(20))
def test_leading_order_size_beats_every_other_size(seed):
    rng = np.random.default_rng(seed)
    gaps = np.sort(np.concatenate(([0.0], 10 ** rng.uniform(-1.5, 0.5, rng.integers(1, 6)))))
    horizon, cost = 10 ** int(rng.integers(3, 7)), 10 ** rng.uniform(-3, 1)
    observer = OBSERVERS[seed % 2]
    best_size = find_leading_order_size(gaps[np.newaxis], horizon, cost, 6.0, observer)
    positive_gaps = gaps[1:]
    weights = (
        (1 / positive_gaps) / (1 / positive_gaps).sum() if observer == "optimal" else 1 / len(gaps)
    )
    rates = np.concatenate((np.geomspace(1e-9, 1, 20_001), [best_size["rate"]]))
    logs = np.log(np.maximum(2 * rates[:, None] * weights * positive_gaps**2 * horizon, 1))
    net_savings = (6 / positive_gaps * logs).sum(axis=1) - cost * rates * horizon
    assert best_size["net"] == pytest.approx(max(net_savings[-1], 0), abs=1e-9)
    assert best_size["net"] >= net_savings.max() * (1 - 1e-9)


def test_best_size_beats_every_size_of_the_table():
    plan = kibitz.plan(100_000, n_arms=5, gap=0.5, cost=0.05)
    for observer in OBSERVERS:
        best_size, regret = plan.details["best"][observer], np.array(plan.curves[observer]["mean"])
        net_savings = regret[0] - regret - 0.05 * 100_000 * np.array(plan.rates)
        assert best_size["net"] >= net_savings.max() * (1 - 1e-9)
        assert best_size["net"] <= net_savings.max() * 1.05
        regrets_near_best = predict([0.0] + [0.5] * 4, [0.0, best_size["rate"]], 100_000, observer)
        assert best_size["net"] == pytest.approx(
            regrets_near_best[0] - regrets_near_best[1] - 0.05 * best_size["n_looks"], rel=0.07
        )


def test_best_size_is_0_for_expensive_looks_and_large_for_free_looks():
    paid_sizes = kibitz.plan(10_000, n_arms=3, gap=0.5, cost=1e6).details["best"]
    assert all(size["rate"] == size["net"] == 0 for size in paid_sizes.values())
    free_sizes = kibitz.plan(10_000, n_arms=3, gap=0.5, cost=0.0).details["best"]
    assert all(size["rate"] > 0.5 for size in free_sizes.values())
    assert free_sizes["optimal"]["leading"]["rate"] == 1


# `kibitz.plan`


def test_rate_star_is_the_threshold_of_the_paper_for_equal_gaps():
    plan = kibitz.plan(10**6, n_arms=7, gap=0.3)
    assert plan.details["rate_star"]["mean"] == pytest.approx(7 / (10**6 * 0.09))


def test_gap_range_is_summarized_by_mean_and_worst():
    plan = kibitz.plan(10_000, n_arms=3, gap_range=(0.2, 2.0))
    problems, rates = plan.problems, plan.rates
    assert np.array(problems)[:, 1] == pytest.approx(np.geomspace(0.2, 2.0, len(problems)))
    regrets = np.array([predict(gaps, rates, 10_000, "active") for gaps in problems])
    regrets = np.minimum.accumulate(regrets, axis=1)
    assert plan.curves["active"]["mean"] == pytest.approx(regrets.mean(axis=0))
    assert plan.curves["active"]["worst"] == pytest.approx(regrets.max(axis=0))
    low, high = plan.regret_range
    assert low < plan.regret < high


def test_more_looks_never_increase_regret():
    plan = kibitz.plan(50_000, gaps=[0.3, 0.6])
    for regret in (plan.curves, plan.details["early"]["curves"]):
        for observer in OBSERVERS:
            assert (np.diff(regret[observer]["mean"]) <= 0).all()


def test_weights_favour_small_gaps():
    weights = kibitz.plan(1000, gaps=[1.0, 0.5]).details["weights"]
    assert weights["optimal"] == [pytest.approx([0, 2 / 3, 1 / 3])]
    assert weights["active"] == [pytest.approx([0, 4 / 5, 1 / 5])]
    costs = 6 * (2 * math.log(2 / 3 * 3) + math.log(1 / 3 * 3))
    assert weights["uniform_costs"]["mean"] == pytest.approx(costs)


def test_early_looks_are_predicted_to_be_better():
    early_plan = kibitz.plan(100_000, n_arms=2, gap=0.5).details["early"]
    assert all(early_plan["better"]["optimal"][10:40])


def test_simulated_points_agree_with_their_predictions():
    plan = kibitz.plan(5_000, n_arms=2, gap=0.5, simulate=True, runs=20, seed=3)
    points = plan.simulation["points"]
    kinds = {(point["policy"], point["early"]) for point in points}
    assert kinds == {("none", False), *((o, e) for o in OBSERVERS for e in (False, True))}
    for point in points:
        if not point["early"]:
            allowed_error = ACCURACY["kibitzer"]["worst"] if point["policy"] == "kibitzer" else 0.22
            assert point["predicted"] == pytest.approx(
                point["mean"], abs=allowed_error * point["mean"] + 5 * point["sem"]
            )
    with pytest.raises(ValueError, match="simulate=True needs a seed"):
        kibitz.plan(5_000, n_arms=2, gap=0.5, simulate=True)


# `kibitz plan`


@pytest.fixture
def command(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["kibitz", "plan", *arguments])
        with pytest.raises(SystemExit) as exit_info:
            main()
        out, err = capsys.readouterr()
        return exit_info.value.code or 0, out, err

    return run


def test_json_output_is_the_plan(command):
    arguments = ("--arms", "3", "--gap", "0.5", "--horizon", "1e4", "--cost", "0.1", "--json")
    code, out, _ = command(*arguments)
    plan = kibitz.plan(10_000, n_arms=3, gap=0.5, cost=0.1).to_dict()
    for plateau in plan["details"]["plateau"].values():
        for values in plateau.values():
            values[0] = str(values[0])
    assert code == 0
    assert json.loads(out) == plan
    assert plan["details"]["plateau"]["active"]["mean"][0] == "inf"


def test_text_output_has_all_parts_of_the_plan(command, tmp_path):
    figure = tmp_path / "plan.svg"
    arguments = ("--arms", "4", "--gap-range", "0.2,1", "--horizon", "1e5", "--cost", "0.05")
    code, out, _ = command(*arguments, "--plot", str(figure))
    assert code == 0
    for text in (
        "ε*",
        "looks",
        "Recommendation: use kibitzer",
        "Where: let the policy choose",
        "When: early",
        "Alternative: UCB1-Double",
        "Accuracy: in our tests",
        "regret hardly grows after stage",
    ):
        assert text in out
    assert figure.read_text(encoding="utf-8").startswith("<?xml")


def test_text_output_shows_predictions_and_simulations(command):
    arguments = ("--gaps", "0.5,1", "--horizon", "2000", "--simulate", "--runs", "10")
    code, out, _ = command(*arguments)
    assert code == 0
    assert "predicted and simulated regret, 10 runs, seed 1" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], f"{ONE_OF_MESSAGE} none"),
        (["--gap", "1", "--gaps", "1"], f"{ONE_OF_MESSAGE} --gap and --gaps"),
        (["--gap", "1"], "--gap needs --arms, the number of arms"),
        (["--gap", "1", "--arms", "1"], "--arms must be a whole number of at least 2, got 1"),
        (["--gap", "nan", "--arms", "2"], "--gap must be positive and finite, got nan"),
        (["--gap-range", "2,1", "--arms", "2"], "--gap-range must be two increasing gaps"),
        (
            ["--gaps", "0,0,1"],
            "--gaps must be positive for every arm but the best, got [0.0, 0.0, 1.0]",
        ),
        (["--gaps", "1,x"], "--gaps must be a number, got 'x'"),
        (["--gaps", "1", "--arms", "5"], "--arms must be 2 to match gaps, or left out, got 5"),
        (["--gaps", "1", "--cost", "-1"], "--cost must be finite and ≥ 0, got -1.0"),
        (["--gaps", "1", "--exploration", "0"], "--exploration must be positive and finite, got 0.0"),
        (
            ["--gaps", "1", "--plot", "x.doc"],
            "--plot must be a name that ends in .png, .svg or .pdf, got 'x.doc'",
        ),
        (["--gaps", "1", "--horizon", "0"], "--horizon must be a whole number of at least 1, got 0"),
    ],
)
def test_invalid_input_prints_one_line_and_exits_with_2(command, arguments, message):
    code, out, err = command("--horizon", "1000", *arguments)
    assert code == 2
    assert not out
    assert err.startswith(f"kibitz: {message}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--arms", "3", "--gap", "1e300"], "--gap must be from 1e-50 to 1e50, got 1e+300"),
        (["--arms", "3", "--gap", "5e-324"], "--gap must be from 1e-50 to 1e50, got 5e-324"),
        (["--gaps", "1,1e300"], "--gaps must be 0 or from 1e-50 to 1e50, got [0.0, 1.0, 1e+300]"),
        (["--gaps", "1", "--runs", "-1"], "--runs must be a whole number of at least 1, got -1"),
    ],
)
def test_extreme_values_are_rejected(command, arguments, message):
    code, out, err = command("--horizon", "1000", *arguments, "--json")
    assert (code, out, err) == (2, "", f"kibitz: {message}\n")


@pytest.mark.parametrize("gap", [1e-50, 1e-20, 1e20, 1e50])
@pytest.mark.parametrize("exploration", [1e-50, 6.0, 1e50])
def test_largest_and_smallest_gaps_can_be_planned(gap, exploration):
    plan = kibitz.plan(2**53, n_arms=3, gap=gap, exploration=exploration, cost=1e-50)
    data = plan.to_dict()
    plateau = data["details"].pop("plateau")
    json.dumps(data, allow_nan=False)
    for observer in OBSERVERS:
        assert max(plan.curves[observer]["worst"]) <= 2**53 * gap
        assert not np.isnan(plateau[observer]["mean"]).any()


def test_plan_validates_unused_arguments():
    for name, value in {"runs": 0, "seed": -1, "simulate": 1, "progress": 3}.items():
        with pytest.raises(ValueError, match=f"^{name} must be"):
            kibitz.plan(1000, n_arms=2, gap=0.5, **{name: value})


def test_plan_takes_an_executor():
    setting = {"n_arms": 2, "gap": 0.5, "simulate": True, "runs": 2, "seed": 1}
    inline = InlineExecutor()
    plan_with_executor = kibitz.plan(300, **setting, executor=inline)
    assert plan_with_executor.to_dict() == kibitz.plan(300, **setting).to_dict()
    assert inline.calls
