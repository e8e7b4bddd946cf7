"""`kibitz agent` and `kibitz rehearse`."""

import json

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def agent(kibitz, tmp_path):
    """Call `kibitz agent` on a store with an agent named checkout."""

    def call(command, *words):
        return kibitz("agent", command, "--store", tmp_path / "shop.db", *words)

    code, out, _ = call(
        "create", "checkout", "--arms", "blue,green", "--policy", "ucb:exploration=2",
        "--scale", "0.5", "--seed", "1",
    )  # fmt: skip
    assert code == 0
    assert out.startswith("made checkout in ")
    return call


def test_ask_tell_look_and_saw(agent):
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
    assert agent("check", "checkout") == (0, "checkout: clean\n", "")
    assert agent("check", "--json") == (0, '{"checkout": []}\n', "")
    assert agent("list") == (0, "checkout\n", "")
    assert agent("list", "--json") == (0, '{"agents": ["checkout"]}\n', "")


def test_a_contradiction_is_found_and_told_by_the_exit_code(agent, tmp_path):
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
    ("words", "sentence"),
    [
        (("tell", "checkout", "9", "1"), "decision 9 of agent 'checkout' does not exist"),
        (("tell", "checkout", "1", "nan"), "reward must be a finite number, got nan"),
        (("tell", "checkout", "1", "much"), "reward must be a number, got 'much'"),
        (("ask", "basket"), "agent 'basket' does not exist; the store has 'checkout'"),
        (("observe", "checkout", "pink", "1"), "arm must be one of 'blue', 'green', got 'pink'"),
        (("export", "checkout", "log.txt"), "file must be a name that ends in .csv, .jsonl or .nc"),
        (("check", "basket"), "agent 'basket' does not exist; the store has 'checkout'"),
        (("report", "checkout", "--delta", "2"), "delta must be in (0, 1), got 2.0"),
        (
            ("create", "checkout", "--arms", "a,b", "--policy", "ucb"),
            "name must be new to the store, got 'checkout'",
        ),
        (("create", "two", "--arms", "a", "--policy", "ucb"), "arms must be a list of at least 2"),
        (("create", "two", "--arms", "a,b", "--policy", "none"), "policy must be one of"),
    ],
)
def test_bad_input_gets_one_sentence(agent, words, sentence):
    code, out, err = agent(*words)
    assert (code, out) == (2, "")
    assert err.startswith("kibitz: ")
    assert sentence in err
    assert len(err.splitlines()) == 1


def test_a_store_that_is_not_there_is_not_made(kibitz, tmp_path):
    for command in ("ask", "report", "check"):
        code, _, err = kibitz("agent", command, "--store", tmp_path / "no.db", "checkout")
        assert code == 2
        assert "does not exist; create an agent first" in err
    assert not (tmp_path / "no.db").exists()


def test_a_rehearsal_prints_and_draws(kibitz, tmp_path):
    words = ("--means", "0.9,0.1", "--policy", "ucb", "--horizon", "30", "--runs", "2")
    plot = tmp_path / "regret.png"
    code, out, err = kibitz("rehearse", *words, "--delay", "5", "--duplicates", "0.5", "--plot", plot)
    assert code == 0, err
    assert "agent" in out
    assert "simulator" in out
    assert "reports came twice and were counted once" in out
    assert plot.stat().st_size > 1000
    code, out, _ = kibitz("rehearse", *words, "--json")
    data = json.loads(out)
    assert data["regret"]["agent"] == pytest.approx(data["regret"]["simulator"])
    code, _, err = kibitz("rehearse", *words, "--loss", "2")
    assert code == 2
    assert "loss must be in [0, 1], got 2.0" in err


@pytest.fixture
def log(tmp_path):
    """Return a log of few clicks."""
    file = tmp_path / "clicks.csv"
    lines = [f"{'xy'[n % 2]},{int(n % 10 < (6 if n % 2 else 3))}" for n in range(400)]
    file.write_text("\n".join(["arm,reward", *lines]))
    return file


def test_a_plan_starts_from_a_log_and_says_how_unsure_it_is(kibitz, log):
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
    assert "what the log says" in out
    assert "recommended size: between" in out
    code, _, err = kibitz("plan", "--horizon", "10000", "--log", log, "--gaps", "1")
    assert (code, "log must be given without gaps" in err) == (2, True)


def test_a_simulation_draws_from_a_log(kibitz, log):
    words = ("simulate", "--policy", "ucb", "--horizon", "50", "--runs", "2", "--json")
    code, out, err = kibitz(*words, "--log", log)
    assert code == 0, err
    assert json.loads(out)["fingerprint"]["problem"]["kind"] == "empirical"
    code, _, err = kibitz(*words, "--log", log, "--means", "1,2")
    assert (code, "means must be left out for a log" in err) == (2, True)
    code, _, err = kibitz(*words)
    assert (code, "means must be given, or a log, got none" in err) == (2, True)
