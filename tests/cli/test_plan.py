"""Tests of `kibitz plan`: numbers, tables, recommendation and errors."""

import json
import re
from dataclasses import replace

import pytest

import kibitz as library
from kibitz.cli.output import format_number
from kibitz.cli.plan_output import print_plan

pytestmark = pytest.mark.slow

ONE_GAP_ARGS = ("plan", "--horizon", "1e4", "--arms", "3", "--gap", "0.5")
GAP_RANGE_ARGS = ("plan", "--horizon", "1e6", "--arms", "5", "--gap-range", "0.1,1", "--cost", "0.1")


def test_json_holds_the_numbers_of_the_library(kibitz):
    code, output, errors = kibitz(*ONE_GAP_ARGS, "--cost", "1/10", "--json")
    assert (code, errors) == (0, "")
    plan_data = library.plan(10_000, n_arms=3, gap=0.5, cost=0.1).to_dict()
    data = json.loads(output)
    assert data.keys() == plan_data.keys()
    for name in ("regret", "curves", "problems", "others"):
        assert data[name] == plan_data[name]


def test_gaps_can_be_given_in_several_ways(kibitz):
    data = json.loads(kibitz("plan", "--horizon", "1000", "--gaps", "0.2,1", "--json")[1])
    assert data["problems"] == [[0.0, 0.2, 1.0]]
    data = json.loads(kibitz(*GAP_RANGE_ARGS, "--json")[1])
    assert len(data["problems"]) == 9
    assert data["cost"] == 0.1


@pytest.fixture(scope="module")
def million_stage_plan():
    return library.plan(10**6, n_arms=5, gap_range=[0.1, 1], cost=0.1)


@pytest.mark.parametrize("width", [40, 60, 80, 140])
def test_numbers_are_not_cut_at_any_width(million_stage_plan, capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    curve_names = ["kibitzer", "active", "uniform", "optimal"]
    print_plan(million_stage_plan, curve_names)
    output = capsys.readouterr().out
    assert "…" not in output
    for observer in curve_names:
        for regret in (million_stage_plan.curves, million_stage_plan.details["early"]["curves"]):
            for k in (0, 1, 7, 13):
                mean, worst = (regret[observer][statistic][k] for statistic in ("mean", "worst"))
                assert f"{format_number(mean, 3)} ({format_number(worst, 3)})" in output
    assert max(map(len, output.splitlines())) <= width
    tables = len(re.findall("┏", output))
    assert tables > 1
    print_plan(million_stage_plan, ["kibitzer", "active"])
    tables = len(re.findall("┏", capsys.readouterr().out))
    assert tables == 1 if width == 140 else tables > 1


def test_command_prints_the_plan_of_the_library(million_stage_plan, kibitz, capsys):
    print_plan(million_stage_plan, ["kibitzer", "active"])
    expected = capsys.readouterr().out
    assert kibitz(*GAP_RANGE_ARGS) == (0, expected, "")


def test_policies_of_the_paper_are_an_option(kibitz):
    default_output = kibitz(*ONE_GAP_ARGS)[1]
    assert "UCB1-Double" in default_output
    assert "UCB," not in default_output
    paper_output = kibitz(*ONE_GAP_ARGS, "--policy", "ucb", "--policy", "ucb_double")[1]
    assert "│ UCB1-Double │" in " ".join(paper_output.split()).replace("┃", "│")
    assert all(text in paper_output for text in ("UCB,", "uniform", "optimal"))
    assert "with uniform or with optimal weights" in paper_output
    assert "kibitzer, early" not in paper_output


def test_recommendation_has_a_policy_a_size_and_a_saving(kibitz, million_stage_plan, capsys):
    text = " ".join(kibitz(*ONE_GAP_ARGS)[1].split())
    plan = library.plan(10_000, n_arms=3, gap=0.5)
    assert plan.policy == "kibitzer"
    looks, rate = format_number(round(plan.n_looks)), format_number(plan.rate, 2)
    assert f"Recommendation: use kibitzer with {looks} looks (ε = {rate})" in text
    assert f"The looks save {format_number(plan.saving, 3)}." in text
    expensive_output = " ".join(kibitz(*ONE_GAP_ARGS, "--cost", "1e6")[1].split())
    assert (
        "use kibitzer without looks; no look is worth its cost. Predicted regret:" in expensive_output
    )
    other_regrets = {"kibitzer": 1.0, "even_split": 2.0}
    print_plan(replace(million_stage_plan, policy="ucb_double", others=other_regrets), ["active"])
    assert "use UCB1-Double with" in " ".join(capsys.readouterr().out.split())


def test_there_is_one_recommendation(million_stage_plan, capsys):
    print_plan(million_stage_plan, ["kibitzer", "active", "uniform", "optimal"])
    text = " ".join(capsys.readouterr().out.split())
    assert text.count("Recommendation") == 1
    alternatives = re.findall(r"Alternative: (.+?) with(?:out)? ", text)
    assert alternatives == ["UCB1-Double", "UCB, uniform", "UCB, optimal"]
    total_cost = (
        million_stage_plan.curves["kibitzer"]["mean"][0]
        - million_stage_plan.details["best"]["kibitzer"]["net"]
    )
    assert text.count(f"against {format_number(total_cost, 3)} for kibitzer") == 3


def test_accuracy_is_one_sentence(million_stage_plan, capsys):
    print_plan(million_stage_plan, ["kibitzer", "active"])
    shares = [
        f"{100 * million_stage_plan.accuracy[label]['nine_of_ten']:.0f} %"
        for label in ("kibitzer", "active", "kibitzer, early", "early")
    ]
    assert (
        f"Accuracy: in our tests, 90 % of predictions were within {shares[0]} (kibitzer) or "
        f"{shares[1]} (UCB1-Double) of the simulated regret; "
        f"for early looks, within {shares[2]} and {shares[3]} of the regret without looks."
    ) in " ".join(capsys.readouterr().out.split())


def test_a_figure_is_written(kibitz, tmp_path):
    plot = tmp_path / "figure.svg"
    code, output, errors = kibitz(*ONE_GAP_ARGS, "--plot", plot)
    assert (code, errors) == (0, "")
    assert output.endswith(f"written to {plot}\n")
    assert b"<svg" in plot.read_bytes()


@pytest.mark.parametrize(
    ("args", "message_parts"),
    [
        (["--runs", "-1"], ["--runs", "at least 1", "-1"]),
        (["--runs", "0"], ["--runs", "at least 1", "0"]),
        (["--seed", "-1"], ["--seed", "at least 0", "-1"]),
        (["--horizon", "0"], ["--horizon", "at least 1", "0"]),
        (["--horizon", "1e19"], ["--horizon", "below 2^62", "1e+19"]),
        (["--arms", "1"], ["--arms", "at least 2", "1"]),
        (["--policy", "ftl"], ["--policy", "'kibitzer', 'ucb_double' or 'ucb'", "'ftl'"]),
        (["--policy", "ucbdouble"], ["--policy", "did you mean 'ucb_double'?"]),
        (["--gap", "x"], ["--gap", "a number", "'x'"]),
        (["--gap", "-1"], ["--gap", "-1.0"]),
        (["--cost", "nan"], ["--cost", "nan"]),
        (["--exploration", "0"], ["--exploration", "0.0"]),
        (["--gaps", "1,x"], ["--gaps", "a number", "'x'"]),
        (["--gaps", "1"], ["exactly one of --baseline, --rates, --log, --gap", "--gap and --gaps"]),
        (["--plot", "a.txt"], ["--plot", ".png, .svg or .pdf", "'a.txt'"]),
        (["--plot", "no/a.png"], ["--plot", "folder that exists", "'no/a.png'"]),
    ],
)
def test_error_names_the_flag_and_the_value(error_message, args, message_parts):
    message = error_message(*ONE_GAP_ARGS, *args)
    for message_part in message_parts:
        assert message_part in message


def test_gaps_are_required(error_message):
    assert error_message("plan", "--horizon", "99").endswith(
        "--gap-range and --gaps, got none of them"
    )
    assert "--gap needs --arms" in error_message("plan", "--horizon", "99", "--gap", "1")


# Clicks

CLICKS = ("plan", "--horizon", "1e5", "--baseline", "5%", "--lift", "1%", "--arms", "5")


def test_clicks_have_one_recommendation_in_clicks(kibitz):
    code, output, errors = kibitz(*CLICKS, "--cost", "0.005")
    assert (code, errors) == (0, "")
    text = " ".join(output.split())
    plan = library.plan(100_000, baseline=0.05, lift=0.01, n_arms=5, cost=0.005)
    assert text.count("Recommendation") == 1
    assert f"use kibitzer with {format_number(round(plan.n_looks))} looks" in text
    assert f"kibitzer loses about {format_number(plan.regret, 2)} of 6,000 clicks" in text
    assert "an even split loses 800" in text
    assert f"with the same looks {format_number(plan.others['thompson'], 2)}" in text
    assert f"the net saving is {format_number(plan.net, 2)}" in text
    assert "the best has rate 6 %, the others 5 % (lift: 1 percentage point, 20 % relative)" in text
    accuracy = plan.accuracy["kibitzer, real tests"]
    for quantile in ("median", "nine_of_ten"):
        assert f"within {100 * accuracy[quantile]:.0f} %" in text


@pytest.mark.parametrize("width", [60, 80])
def test_clicks_fit_the_width(kibitz, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    output = kibitz(*CLICKS, "--randomized", "5%")[1]
    assert max(map(len, output.splitlines())) <= width
    assert "…" not in output


def test_lifts_and_rates_can_be_given_in_several_ways(kibitz):
    arg_lists = [
        ("--baseline", "5%", "--lift", "1%"),
        ("--baseline", "0.05", "--lift", "0.01"),
        ("--baseline", "1/20", "--lift", "1/100"),
        ("--baseline", "5%", "--relative-lift", "20%"),
        ("--baseline", "5%", "--relative-lift", "0.2"),
        ("--rates", "6%,5%"),
        ("--rates", "0.06,0.05"),
    ]
    expected = library.plan(10_000, rates=[0.06, 0.05], at=0.1).regret
    for args in arg_lists:
        output = kibitz("plan", "--horizon", "1e4", *args, "--at", "10%", "--json")[1]
        assert json.loads(output)["regret"] == pytest.approx(expected)


def test_json_of_clicks_is_the_plan(kibitz):
    output = kibitz(*CLICKS, "--randomized", "5%", "--json")[1]
    plan = library.plan(100_000, baseline=0.05, lift=0.01, n_arms=5, randomized=0.05)
    data = json.loads(output)
    assert data["problems"] == [pytest.approx(plan.problems[0])]
    assert data["regret"] == pytest.approx(plan.regret)
    assert data["bucket"] == pytest.approx(plan.bucket)
    assert data.keys() == plan.to_dict().keys()


def test_output_has_the_cost_of_visitors_with_a_random_arm(kibitz):
    text = " ".join(kibitz(*CLICKS, "--randomized", "5%")[1].split())
    bucket = library.plan(100_000, baseline=0.05, lift=0.01, n_arms=5, randomized=0.05).bucket
    assert "If 5 % of the visitors (5,000) get a random arm" in text
    assert "They lose 40 clicks" in text
    assert f"save about {format_number(bucket['saving'], 2)} clicks" in text
    assert f"about {format_number(bucket['total'], 2)} clicks in total" in text


def test_chosen_rate_is_not_called_a_recommendation(kibitz):
    text = kibitz(*CLICKS, "--at", "1/20")[1]
    assert "Prediction for kibitzer with 5,000 looks, one per 20 visitors" in text
    assert "Recommendation" not in text


def test_small_gaps_give_a_hint(kibitz):
    text = kibitz("plan", "--horizon", "1e5", "--arms", "2", "--gap", "0.01")[1]
    assert "If these are clicks, use --baseline" in text
    assert "If these are clicks" not in kibitz(*ONE_GAP_ARGS)[1]


@pytest.fixture
def write_log(tmp_path):
    def write(rewards):
        lines = [f"{arm},{reward}" for arm, values in rewards.items() for reward in values]
        file = tmp_path / "log.csv"
        file.write_text("\n".join(["arm,reward", *lines]) + "\n")
        return file

    return write


def test_log_of_clicks_is_planned_in_clicks(kibitz, write_log):
    log_file = write_log({"blue": [1] * 50 + [0] * 950, "green": [1] * 80 + [0] * 920})
    plan = library.plan(100_000, clicks=[50, 80], views=[1000, 1000], cost=0.005)
    args = ("plan", "--log", log_file, "--horizon", "1e5", "--cost", "0.005")
    data = json.loads(kibitz(*args, "--json")[1])
    assert data["regret"] == pytest.approx(plan.regret)
    assert data["regret_range"] == pytest.approx(plan.regret_range)
    assert [arm["clicks"] for arm in data["log"]["arms"]] == [50, 80]
    text = " ".join(kibitz(*args)[1].split())
    low, high = (format_number(value, 2) for value in plan.regret_range)
    assert f"({low} to {high} for 80 % of the plausible rates)" in text
    assert "5 %" in text
    assert "scale" not in text
    assert 0.05 < data["log"]["arms"][0]["likely"] < data["log"]["arms"][1]["likely"] < 0.08


def test_log_without_clicks_has_no_plan(error_message, write_log):
    log_file = write_log({"blue": [0] * 9, "green": [0] * 9})
    assert "a plan needs at least one click;" in error_message(
        "plan", "--log", log_file, "--horizon", "1e4"
    )


@pytest.mark.parametrize(("unit", "rewards"), [(1, {}), (2, {"rewards": "gaussian", "scale": 1})])
def test_a_plan_from_a_log_with_shows_says_that_it_does_not_cover_graphs(
    kibitz, tmp_path, unit, rewards
):
    """The plan ignores the graph, so it predicts more regret than the agent of the log would have."""
    setting = {"arms": ["a", "b"], "rewards": "bernoulli", "shows": [[1, 1], [1, 1]], **rewards}
    with library.agent(tmp_path / "s.db", "a", **setting) as opened:
        for n in range(12):
            pull = opened.ask(among=["b"])
            opened.tell(pull.id, unit * float(n % 3 > 0))
            opened.observe("a", unit * float(n % 2), shown_by=pull.id)
        opened.export(tmp_path / "log.csv")
    code, output, _ = kibitz("plan", "--horizon", "1000", "--log", tmp_path / "log.csv")
    assert code == 0
    output = " ".join(output.split())
    assert "pulls showed 12 rewards of other arms" in output
    assert "a plan does not cover graphs" in output


def test_log_of_other_rewards_is_planned_in_its_own_units(kibitz, write_log):
    """A log in cents gives a hundred times the regret of the same log in euros."""
    euros = {"blue": [1.0, 3.0, 2.5] * 20, "green": [2.0, 5.0, 4.0] * 20}
    plans = []
    for factor in (1, 100):
        log_file = write_log({arm: [factor * x for x in values] for arm, values in euros.items()})
        args = ("plan", "--log", log_file, "--horizon", "1e4", "--cost", factor / 100)
        plans.append(json.loads(kibitz(*args, "--json")[1]))
    assert plans[1]["regret"] == pytest.approx(100 * plans[0]["regret"])
    assert plans[1]["net"] == pytest.approx(100 * plans[0]["net"])
    assert plans[1]["n_looks"] == pytest.approx(plans[0]["n_looks"])
    assert plans[1]["log"]["best_size"] == pytest.approx(plans[0]["log"]["best_size"])


def test_figure_of_clicks_is_written(kibitz, tmp_path):
    plot = tmp_path / "figure.svg"
    code, output, errors = kibitz(*CLICKS, "--plot", plot)
    assert (code, errors) == (0, "")
    assert output.endswith(f"written to {plot}\n")
    assert b"<svg" in plot.read_bytes()


@pytest.mark.parametrize(
    ("args", "message_parts"),
    [
        (["--baseline", "5", "--lift", "1%"], ["--baseline", "percentage such as 5%", "'5'"]),
        (["--baseline", "x", "--lift", "1%"], ["--baseline", "a number", "'x'"]),
        (["--baseline", "0%", "--lift", "1%"], ["--baseline", "between 0 and 1"]),
        (["--baseline", "100%", "--lift", "1%"], ["--baseline", "between 0 and 1"]),
        (["--baseline", "5%"], ["--baseline needs exactly one of --lift and --relative-lift"]),
        (["--baseline", "5%", "--lift", "0%"], ["--lift must be positive", "'0%'"]),
        (["--baseline", "5%", "--lift", "-1%"], ["--lift must be positive", "'-1%'"]),
        (["--baseline", "5%", "--lift", "nan"], ["--lift must be positive", "'nan'"]),
        (["--baseline", "95%", "--lift", "5%"], ["--lift", "below 100 %", "'5%'", "95%"]),
        (["--baseline", "60%", "--relative-lift", "80%"], ["--relative-lift", "below 100 %"]),
        (
            ["--baseline", "5%", "--lift", "1%", "--relative-lift", "1%"],
            ["--lift and --relative-lift"],
        ),
        (["--gap", "1", "--arms", "2", "--lift", "1%"], ["--lift needs --baseline"]),
        (["--rates", "5%"], ["--rates", "at least 2 numbers"]),
        (["--rates", "5%,"], ["--rates", "a number"]),
        (["--rates", "5%,100%"], ["--rates", "between 0 and 1"]),
        (["--rates", "5%,6%", "--at", "200%"], ["--at", "2.0"]),
        (["--rates", "5%,6%", "--at", "-1%"], ["--at", "-0.01"]),
        (["--rates", "5%,6%", "--randomized", "60%"], ["--randomized", "at most 0.5", "0.6"]),
        (["--rates", "5%,6%", "--arms", "3"], ["--arms", "2 to match", "3"]),
        (["--rates", "5%,6%", "--scale", "2"], ["--scale", "left out", "2.0"]),
        (["--rates", "5%,6%", "--exploration", "2"], ["--exploration", "left out", "2.0"]),
        (["--rates", "5%,6%", "--policy", "ucb"], ["--policy is for Gaussian rewards"]),
        (["--gap", "1", "--arms", "2", "--randomized", "5%"], ["--randomized", "0.05"]),
        (["--log", "none.csv", "--scale", "2"], ["--scale cannot be used with --log"]),
    ],
)
def test_errors_of_clicks_name_the_flag_and_the_value(error_message, args, message_parts):
    message = error_message("plan", "--horizon", "1e4", *args)
    for message_part in message_parts:
        assert message_part in message


CHANGES_ARGS = ("plan", "--changes-every", "1e4", "--change-size", "0.8", "--gap", "0.4")


def test_a_plan_for_changes_names_the_rate_the_delay_and_its_accuracy(kibitz):
    code, output, errors = kibitz(*CHANGES_ARGS, "--arms", "10", "--cost", "0.05")
    text = " ".join(output.split())
    assert (code, errors) == (0, "")
    plan = library.plan_changes(10_000, 0.8, n_arms=10, gap=0.4, cost=0.05)
    assert f"looks at rate ε = {format_number(plan.rate, 2)}" in text
    assert f"after about {format_number(round(plan.delay), 2)} stages" in text
    assert "within 12 % of the plan in nine settings of ten, and the delay within 23 %" in text
    text = " ".join(kibitz(*CHANGES_ARGS, "--arms", "20", "--cost", "0.05")[1].split())
    assert "within 25 % of the plan in nine settings of ten" in text
    data = json.loads(kibitz(*CHANGES_ARGS, "--arms", "10", "--cost", "0.05", "--json")[1])
    assert data == plan.to_dict()


def test_a_plan_for_changes_says_when_looks_cannot_pay(kibitz):
    output = kibitz(*CHANGES_ARGS, "--changes-every", "300", "--arms", "10")[1]
    assert "do not buy looks to detect changes, because they cannot pay" in " ".join(output.split())
    code, _, errors = kibitz("plan", "--change-size", "0.8", "--gap", "0.4")
    assert code != 0
    assert "--changes-every and --change-size need each other" in errors
    code, _, errors = kibitz(*CHANGES_ARGS, "--arms", "2", "--horizon", "100")
    assert code != 0
    assert "--horizon cannot be used with --changes-every" in errors
