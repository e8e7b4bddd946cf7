"""Tests of `kibitz agent` and `kibitz rehearse`: output, files and errors."""

import json
import re

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def agent(kibitz, tmp_path):
    """Return a function that calls `kibitz agent` on a store with an agent named checkout."""

    def call(command, *words):
        return kibitz("agent", command, "--store", tmp_path / "shop.db", *words)

    code, out, _ = call(
        "create", "checkout", "--arms", "blue,green", "--policy", "ucb:exploration=2",
        "--scale", "0.5", "--seed", "1",
    )  # fmt: skip
    assert code == 0
    assert out.startswith("created agent checkout in ")
    return call


def test_ask_tell_look_and_observe(agent):
    assert agent("ask", "checkout", "--key", "visit-1") == (0, "1 blue\n", "")
    assert agent("ask", "checkout", "--key", "visit-1") == (0, "1 blue\n", "")
    assert agent("tell", "checkout", "1", "1") == (0, "counted\n", "")
    assert agent("tell", "checkout", "1", "1.0") == (0, "duplicate\n", "")
    code, out, _ = agent("look", "checkout", "--json")
    assert code == 0
    assert {key: json.loads(out)[key] for key in ("id", "kind", "arm", "key")} == {
        "id": 2, "kind": "look", "arm": "blue", "key": None,
    }  # fmt: skip
    assert agent("observe", "checkout", "green", "1/2", "--key", "p") == (0, "counted\n", "")
    code, out, _ = agent("ask", "checkout", "--among", "green", "--json")
    assert json.loads(out)["arm"] == "green"
    code, out, _ = agent("tell", "checkout", "4", "0", "--json")
    assert json.loads(out) == {"result": "counted"}


def test_report_events_export_check_and_list(agent, tmp_path):
    agent("ask", "checkout")
    agent("tell", "checkout", "1", "1")
    code, out, _ = agent("report", "checkout")
    assert code == 0
    assert "blue" in out
    assert "Regret after 1 pull: 0 to inf" in out
    code, out, _ = agent("report", "checkout", "--json")
    data = json.loads(out)
    assert data["arms"][0]["n_pulls"] == 1
    assert data["arms"][0]["arm"] == "blue"
    assert data["warnings"] == []
    code, out, _ = agent("events", "checkout", "--after", "2", "--json")
    assert [json.loads(line)["kind"] for line in out.splitlines()] == ["pull", "told"]
    code, out, _ = agent("events", "checkout")
    assert len(out.splitlines()) == 4
    code, out, _ = agent("export", "checkout", tmp_path / "log.csv")
    assert code == 0
    assert len((tmp_path / "log.csv").read_text().splitlines()) == 5
    assert agent("check", "checkout") == (0, "checkout: no problems found\n", "")
    assert agent("check", "--json") == (0, '{"checkout": []}\n', "")
    assert agent("list") == (0, "checkout\n", "")
    assert agent("list", "--json") == (0, '{"agents": ["checkout"]}\n', "")


def test_check_finds_a_contradiction_and_sets_the_exit_code(agent, tmp_path):
    import sqlite3

    agent("ask", "checkout")
    connection = sqlite3.connect(tmp_path / "shop.db")
    connection.execute("update arms set n_asked = 7")
    connection.commit()
    connection.close()
    code, out, _ = agent("check", "checkout")
    assert code == 1
    assert "checkout: arm 'blue': n_asked is 7; the log gives 1" in out


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("tell", "checkout", "9", "1"), ["decision", "'checkout'", "9"]),
        (("tell", "checkout", "1", "nan"), ["REWARD", "finite", "nan"]),
        (("tell", "checkout", "1", "much"), ["REWARD", "a number", "'much'"]),
        (("ask", "basket"), ["'checkout'", "'basket'"]),
        (("observe", "checkout", "pink", "1"), ["ARM", "'blue', 'green'", "'pink'"]),
        (("export", "checkout", "log.txt"), ["FILE", ".csv, .jsonl or .nc", "log.txt"]),
        (("check", "basket"), ["'checkout'", "'basket'"]),
        (("report", "checkout", "--delta", "2"), ["--delta", "(0, 1)", "2.0"]),
        (
            ("create", "checkout", "--arms", "a,b", "--policy", "ucb"),
            ["NAME must be new", "'checkout'", "choose another name"],
        ),
        (("create", "two", "--arms", "a", "--policy", "ucb"), ["--arms", "at least 2", "'a'"]),
        (("create", "two", "--arms", "a,b", "--policy", "none"), ["unknown policy 'none'"]),
        (
            ("create", "two", "--arms", "a,b", "--policy", "ucb", "--silence", "x"),
            ["--silence", "a number", "'x'"],
        ),
    ],
)
def test_error_names_the_argument_and_the_value(agent, words, parts):
    code, out, err = agent(*words)
    assert (code, out) == (2, "")
    assert err.startswith("kibitz: ")
    assert len(err.splitlines()) == 1
    for part in parts:
        assert part in err


def test_missing_store_is_not_created(kibitz, tmp_path):
    for command in ("ask", "report", "check"):
        code, _, err = kibitz("agent", command, "--store", tmp_path / "no.db", "checkout")
        assert code == 2
        assert "no.db" in err
        assert "does not exist; create an agent first" in err
    assert not (tmp_path / "no.db").exists()


def test_rehearsal_prints_and_plots(kibitz, tmp_path):
    words = ("--means", "0.9,0.1", "--policy", "ucb", "--horizon", "30", "--runs", "2")
    plot = tmp_path / "regret.png"
    code, out, err = kibitz("rehearse", *words, "--delay", "5", "--duplicates", "0.5", "--plot", plot)
    assert code == 0, err
    assert "agent" in out
    assert "simulator" in out
    assert re.search(r"the agent ignored [1-9]\d* duplicate reports", out)
    assert plot.stat().st_size > 1000
    code, out, _ = kibitz("rehearse", *words, "--json")
    data = json.loads(out)
    assert data["regret"]["agent"] == pytest.approx(data["regret"]["simulator"])
    code, _, err = kibitz("rehearse", *words, "--loss", "2")
    assert code == 2
    assert "--loss must be in [0, 1], got 2.0" in err


@pytest.fixture
def log(tmp_path):
    """Return the name of a file with a log of 400 clicks."""
    file = tmp_path / "clicks.csv"
    lines = [f"{'xy'[n % 2]},{int(n % 10 < (6 if n % 2 else 3))}" for n in range(400)]
    file.write_text("\n".join(["arm,reward", *lines]))
    return file


def test_plan_from_a_log_has_confidence_sequences(kibitz, log):
    code, out, err = kibitz("plan", "--horizon", "10000", "--log", log, "--cost", "0.01", "--json")
    assert code == 0, err
    planned = json.loads(out)
    x, y = planned["log"]["arms"]
    assert (x["arm"], x["n_observed"], y["n_observed"]) == ("x", 200, 200)
    gap = abs(x["mean"] - y["mean"])
    assert planned["setting"]["problems"][0][1] == pytest.approx(gap / 0.5)
    worse = min(x, y, key=lambda arm: arm["mean"])
    assert worse["gap_low"] < gap < worse["gap_high"]
    low, high = planned["log"]["best_size"]
    assert low <= planned["advice"]["rate"] <= high
    assert low < high
    code, out, _ = kibitz("plan", "--horizon", "10000", "--log", log, "--cost", "0.01")
    assert "gaps in the log" in out
    assert "the recommended size is between ε = " in " ".join(out.split())
    code, _, err = kibitz("plan", "--horizon", "10000", "--log", log, "--gaps", "1")
    assert (code, "exactly one of" in err, "--gaps and --log" in err) == (2, True, True)


def test_simulation_samples_from_a_log(kibitz, log):
    words = ("simulate", "--policy", "ucb", "--horizon", "50", "--runs", "2", "--json")
    code, out, err = kibitz(*words, "--log", log)
    assert code == 0, err
    assert json.loads(out)["fingerprint"]["problem"]["kind"] == "empirical"
    code, _, err = kibitz(*words, "--log", log, "--means", "1,2")
    assert (code, "--means cannot be used with --log" in err) == (2, True)
    code, _, err = kibitz(*words)
    assert (code, "use --means" in err, "--log FILE" in err) == (2, True, True)
