"""Tests of `kibitz agent` and `kibitz rehearse`: output, files and errors."""

import contextlib
import json
import re
import shutil
import sqlite3

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def agent(kibitz, tmp_path):
    """Return a function that calls `kibitz agent` on a store with an agent named checkout."""

    def call(command, *args):
        return kibitz("agent", command, "--store", tmp_path / "shop.db", *args)

    code, out, _ = call(
        "create", "checkout", "--arms", "blue,green", "--policy", "ucb:exploration=2",
        "--rewards", "gaussian", "--scale", "0.5", "--seed", "1",
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


def test_the_verdict_is_printed(agent):
    agent("observe", "checkout", "blue", "1")
    code, out, _ = agent("verdict", "checkout")
    assert code == 0
    assert "No verdict yet: green not seen." in out
    code, out, _ = agent("verdict", "checkout", "--tolerance", "0.1", "--delta", "0.2", "--json")
    data = json.loads(out)
    assert (data["winner"], data["may_stop"], data["out"]) == (None, False, [])
    assert (data["delta"], data["tolerance"]) == (0.2, 0.1)


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
    ("args", "message_parts"),
    [
        (("tell", "checkout", "9", "1"), ["decision", "'checkout'", "9"]),
        (("tell", "checkout", "1", "nan"), ["REWARD", "finite", "nan"]),
        (("tell", "checkout", "1", "much"), ["REWARD", "a number", "'much'"]),
        (("ask", "basket"), ["'checkout'", "'basket'"]),
        (("observe", "checkout", "pink", "1"), ["ARM", "'blue', 'green'", "'pink'"]),
        (("export", "checkout", "log.txt"), ["FILE", ".csv, .jsonl or .nc", "log.txt"]),
        (("check", "basket"), ["'checkout'", "'basket'"]),
        (("report", "checkout", "--delta", "2"), ["--delta", "(0, 1)", "2.0"]),
        (("verdict", "checkout", "--tolerance", "-1"), ["--tolerance", "non-negative", "-1.0"]),
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
def test_error_names_the_argument_and_the_value(agent, args, message_parts):
    code, out, err = agent(*args)
    assert (code, out) == (2, "")
    assert err.startswith("kibitz: ")
    assert len(err.splitlines()) == 1
    for message_part in message_parts:
        assert message_part in err


def test_create_declares_the_rewards(agent):
    """The default policy is kibitzer for the declared rewards; invalid declarations are errors."""
    assert agent("create", "clicks", "--arms", "a,b", "--rewards", "bernoulli")[0] == 0
    code, out, _ = agent("report", "clicks", "--json")
    data = json.loads(out)
    assert (data["rewards"], data["policy"][:9]) == ("bernoulli", "kibitzer(")
    agent("ask", "clicks")
    assert agent("tell", "clicks", "1", "0.5") == (
        2, "", "kibitz: REWARD must be 0 or 1 for an agent with bernoulli rewards, got 0.5\n",
    )  # fmt: skip
    for args, message_parts in [
        (("--policy", "ucb"), ["--rewards is required to create an agent"]),
        (("--rewards", "gaussian"), ["--scale is required for gaussian rewards"]),
        (("--rewards", "bounded", "--scale", "2"), ["bounded rewards take no scale"]),
        (("--rewards", "clicks"), ["--rewards must be", "'clicks'"]),
    ]:
        code, out, err = agent("create", "other", "--arms", "a,b", *args)
        assert (code, out) == (2, "")
        assert all(message_part in err for message_part in message_parts), err


def test_declare_rewards(agent):
    assert agent("declare-rewards", "checkout", "bernoulli") == (0, "declared\n", "")
    code, out, _ = agent("declare-rewards", "checkout", "bernoulli", "--json")
    assert (code, json.loads(out)) == (0, {"result": "duplicate"})
    code, out, _ = agent("events", "checkout", "--after", "2")
    assert out.split("\t")[2:] == ["declared_bernoulli", *["-"] * 6, "-\n"]
    code, _, err = agent("declare-rewards", "checkout", "gaussian")
    assert code == 2
    assert "'bernoulli' or 'bounded'" in err
    assert agent("check") == (0, "checkout: no problems found\n", "")


def test_missing_store_is_not_created(kibitz, tmp_path):
    for command in ("ask", "report", "check"):
        code, _, err = kibitz("agent", command, "--store", tmp_path / "no.db", "checkout")
        assert code == 2
        assert "no.db" in err
        assert "does not exist; create an agent first" in err
    assert not (tmp_path / "no.db").exists()


def test_rehearsal_prints_and_plots(kibitz, tmp_path):
    args = ("--means", "0.9,0.1", "--policy", "ucb", "--horizon", "30", "--runs", "2")
    silent_args = (*args[:2], "--rewards", "bernoulli", *args[4:], "--silence", "0", "--json")
    code, out, err = kibitz("rehearse", *silent_args)
    assert code == 0, err
    assert set(json.loads(out)["regret"]) == {"agent", "simulator"}
    plot = tmp_path / "regret.png"
    code, out, err = kibitz("rehearse", *args, "--delay", "5", "--duplicates", "0.5", "--plot", plot)
    assert code == 0, err
    assert "agent" in out
    assert "simulator" in out
    assert re.search(r"the agent ignored [1-9]\d* duplicate reports", out)
    assert plot.stat().st_size > 1000
    code, out, _ = kibitz("rehearse", *args, "--json")
    data = json.loads(out)
    assert data["regret"]["agent"] == pytest.approx(data["regret"]["simulator"])
    code, _, err = kibitz("rehearse", *args, "--loss", "2")
    assert code == 2
    assert "--loss must be in [0, 1], got 2.0" in err


@pytest.fixture
def log_file(tmp_path):
    """Return the path of a log with 400 rewards of 0 or 1."""
    file = tmp_path / "clicks.csv"
    lines = [f"{'xy'[n % 2]},{int(n % 10 < (6 if n % 2 else 3))}" for n in range(400)]
    file.write_text("\n".join(["arm,reward", *lines]))
    return file


def test_plan_from_a_log_of_clicks_averages_over_plausible_rates(kibitz, log_file):
    code, out, err = kibitz("plan", "--horizon", "10000", "--log", log_file, "--json")
    assert code == 0, err
    plan = json.loads(out)
    x, y = plan["log"]["arms"]
    assert (x["arm"], x["n_observed"], x["clicks"]) == ("x", 200, 80)
    assert (y["arm"], y["n_observed"], y["clicks"]) == ("y", 200, 120)
    assert 0.4 < x["likely"] < y["likely"] < 0.6  # the observed rates are 40 % and 60 %
    low, high = plan["regret_range"]
    assert 0 < low < plan["regret"] < high
    code, out, _ = kibitz("plan", "--horizon", "10000", "--log", log_file)
    assert "The largest observed rate is partly luck." in " ".join(out.split())
    code, _, err = kibitz("plan", "--horizon", "10000", "--log", log_file, "--gaps", "1")
    assert (code, "exactly one of" in err, "--log and --gaps" in err) == (2, True, True)


def test_plan_from_a_log_of_other_rewards_has_confidence_sequences(kibitz, log_file):
    """Rewards of 0 and 2 are not clicks, so the plan gives regret in the unit of the rewards."""
    log_file.write_text(log_file.read_text().replace(",1", ",2"))
    code, out, err = kibitz(
        "plan", "--horizon", "10000", "--log", log_file, "--cost", "0.01", "--json"
    )
    assert code == 0, err
    plan = json.loads(out)
    x, y = plan["log"]["arms"]
    assert (x["arm"], x["n_observed"], y["n_observed"]) == ("x", 200, 200)
    gap = abs(x["mean"] - y["mean"])
    assert max(plan["problems"][0]) == pytest.approx(gap)
    worse_arm = min(x, y, key=lambda arm: arm["mean"])
    assert worse_arm["gap_low"] < gap < worse_arm["gap_high"]
    smallest_size, largest_size = plan["log"]["best_size"]
    assert smallest_size <= plan["rate"] <= largest_size
    assert smallest_size < largest_size
    code, out, _ = kibitz("plan", "--horizon", "10000", "--log", log_file, "--cost", "0.01")
    assert "gaps in the log" in out
    assert "the recommended size is between ε = " in " ".join(out.split())


def test_simulation_samples_from_a_log(kibitz, log_file):
    args = ("simulate", "--policy", "ucb", "--horizon", "50", "--runs", "2", "--json")
    code, out, err = kibitz(*args, "--log", log_file)
    assert code == 0, err
    assert json.loads(out)["fingerprint"]["problem"]["kind"] == "empirical"
    code, _, err = kibitz(*args, "--log", log_file, "--means", "1,2")
    assert (code, "--means cannot be used with --log" in err) == (2, True)
    code, _, err = kibitz(*args)
    assert (code, "use --means" in err, "--log FILE" in err) == (2, True, True)


def test_bucket_compact_erase_and_evaluate(kibitz, tmp_path):
    store, log = tmp_path / "shop.db", tmp_path / "log.csv"
    options = ("--arms", "blue,green", "--rewards", "bernoulli", "--seed", "1", "--bucket", "1")
    assert kibitz("agent", "create", "checkout", "--store", store, *options)[0] == 0
    for n in range(1, 5):
        code, out, _ = kibitz(
            "agent", "ask", "checkout", "--store", store, "--key", f"k{n}", "--json"
        )
        decision = json.loads(out)
        assert (code, decision["probability"], decision["bucket"]) == (0, 0.5, True)
        kibitz("agent", "tell", "checkout", n, 1, "--store", store)
    kibitz("agent", "export", "checkout", log, "--store", store)
    code, out, err = kibitz("evaluate", log, "--arm", "blue", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["n_visits"] == 4
    code, out, err = kibitz("evaluate", log, "--policy", "thompson:rewards=bernoulli")
    assert (code, err) == (0, "")
    assert "randomised visits" in " ".join(out.split())
    assert "pass one of --policy and --arm" in kibitz("evaluate", log)[2]
    assert (
        "--delta must be in (0, 1), got 2"
        in kibitz("evaluate", log, "--arm", "blue", "--delta", 2)[2]
    )
    erase = ("agent", "erase", "checkout", "--store", store, "--key", "k2", "--key", "nobody")
    assert kibitz(*erase) == (0, "erased\nunknown\n", "")
    assert json.loads(kibitz(*erase, "--json")[1]) == {"results": ["unknown", "unknown"]}
    compact = ("agent", "compact", "checkout", "--store", store, "--before")
    assert "--before must be a date such as 2026-01-31, got 'soon'" in kibitz(*compact, "soon")[2]
    assert kibitz(*compact, "2100-01-01") == (0, "replaced 10 events by a checkpoint\n", "")
    assert kibitz("agent", "check", "--store", store) == (0, "checkout: no problems found\n", "")
    kibitz("agent", "ask", "checkout", "--store", store)
    kibitz("agent", "export", "checkout", log, "--store", store)
    message = kibitz("evaluate", log, "--arm", "blue")[2]
    assert "LOG cannot evaluate this policy: no reward of its randomised visits (1 so far)" in message


def test_store_backup_restore_and_migrate(agent, kibitz, tmp_path):
    store, backup, copy = (tmp_path / name for name in ("shop.db", "backup.db", "copy.db"))
    assert kibitz("store", "backup", backup, "--store", store)[:2] == (
        0, f"written to {backup}; agents checked: 1\n",
    )  # fmt: skip
    assert kibitz("store", "restore", backup, "--store", copy)[:2] == (
        0, f"restored {copy}; agents checked: 1\n",
    )  # fmt: skip
    code, _, err = kibitz("store", "restore", backup, "--store", copy)
    assert (code, "already exists; use --replace to replace its data" in err) == (2, True)
    code, out, _ = kibitz("store", "restore", backup, "--store", copy, "--replace", "--json")
    assert (code, json.loads(out)["n_agents"]) == (0, 1)
    out = kibitz("store", "migrate", "--store", copy)[1]
    assert re.fullmatch(r"the store already has schema \d+\n", out)
    code, _, err = kibitz("store", "backup", backup, "--store", "postgresql://localhost/shop")
    assert (code, "use pg_dump" in err) == (2, True)


def test_rehearse_with_a_bucket(kibitz, tmp_path):
    store = tmp_path / "rehearsal.db"
    code, _, err = kibitz(
        "rehearse", "--means", "0.1,0.3", "--rewards", "bernoulli", "--horizon", "100", "--runs", "1",
        "--bucket", "0.5", "--store", store,
    )  # fmt: skip
    assert (code, err) == (0, "")
    out = kibitz("agent", "events", "rehearsal-0", "--store", store, "--json")[1]
    events = [json.loads(line) for line in out.splitlines()]
    assert 25 < sum(event["bucket"] == "0 1" for event in events) < 75


def write_history(path, n, **bad_rows):
    """Write a CSV file with n rows; an argument such as row7="text" replaces row 7."""
    rows = [f"{('blue', 'green')[k % 2]},{k % 3},visitor-{k}" for k in range(n)]
    for name, text in bad_rows.items():
        rows[int(name.removeprefix("row"))] = text
    path.write_text("\n".join(["arm,reward,key", *rows, ""]))


def count_looks(store):
    with contextlib.closing(sqlite3.connect(store)) as connection:
        return connection.execute("select sum(n_looks) from arms").fetchone()[0]


def test_import_counts_each_row_once_and_resumes(agent, tmp_path):
    """An invalid row rolls back its transaction; a repeated import resumes at this transaction."""
    store, file = tmp_path / "shop.db", tmp_path / "history.csv"
    write_history(file, 2500, row1700="pink,1,visitor-x")
    code, out, error = agent("import", "checkout", file)
    assert (code, out) == (2, "")
    assert error == (
        "kibitz: line 1702: arm must be one of 'blue', 'green', got 'pink'; the rows up to line 1001 "
        "are imported: correct the line and import the file again\n"
    )
    assert count_looks(store) == 1000
    write_history(file, 2500)
    sentence = "imported 1,500 rows; 1,000 were known before\n"
    assert agent("import", "checkout", file) == (0, sentence, "")
    lines = tmp_path / "history.jsonl"
    lines.write_text(
        '{"arm": "blue", "reward": 1, "key": "a"}\n\n{"arm": "blue", "reward": 0, "key": "visitor-0"}'
    )
    code, out, _ = agent("import", "checkout", lines, "--json")
    assert (code, json.loads(out)) == (0, {"counted": 1, "duplicates": 1})
    assert count_looks(store) == 2501
    assert agent("check") == (0, "checkout: no problems found\n", "")


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (b"green,x,visitor-x", "line 1802: reward must be a number, got 'x'"),
        (b"green,1,visitor-0", "lines 2 and 1802 have the same key"),
        (b"green,1,caf\xe9", "line 1802 is not UTF-8"),
        (b"green,1", "line 1802 must have the fields arm, reward, key"),
        (b'green,1,"visitor', "line 1802 is not valid CSV"),
    ],
)
def test_import_checks_the_whole_file_first(agent, tmp_path, row, sentence):
    file = tmp_path / "history.csv"
    write_history(file, 2000, row1800="ROW")
    file.write_bytes(file.read_bytes().replace(b"ROW", row))
    code, out, error = agent("import", "checkout", file)
    assert (code, out) == (2, "")
    assert error.startswith(f"kibitz: {sentence}")
    assert count_looks(tmp_path / "shop.db") == 0


def test_import_rejects_other_files_and_large_rewards(agent, tmp_path):
    code, _, error = agent("import", "checkout", tmp_path / "history.txt")
    assert code == 2
    assert "FILE must be a name that ends in .csv or .jsonl" in error
    assert agent("import", "checkout", tmp_path / "absent.csv")[0] == 2
    file = tmp_path / "history.csv"
    write_history(file, 1, row0="blue,1e6,visitor-0")
    assert (
        "line 2: reward 1000000.0 is more than 10,000 times" in agent("import", "checkout", file)[2]
    )
    assert agent("import", "checkout", file, "--force")[0] == 0


def interrupt_call(monkeypatch, place, name, n=1, *, after=False):
    """Raise KeyboardInterrupt before the n-th call of a function, or after it if `after` is true."""
    function, n_calls = getattr(place, name), 0

    def call(*args, **kwargs):
        nonlocal n_calls
        n_calls += 1
        result = function(*args, **kwargs) if n_calls < n or after else None
        if n_calls == n:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(place, name, call)


RESUME = "kibitz: interrupted; run the same command again to resume\n"
NOTHING = "kibitz: interrupted; nothing was saved\n"


def test_ctrl_c_during_an_import_keeps_whole_transactions(agent, tmp_path, monkeypatch):
    from kibitz.live.agent.transaction import Transaction

    store, file = tmp_path / "shop.db", tmp_path / "history.csv"
    write_history(file, 2500)
    with monkeypatch.context() as patch:
        interrupt_call(patch, Transaction, "observe", 1234)
        assert agent("import", "checkout", file) == (130, "", RESUME)
    assert count_looks(store) == 1000
    assert agent("check")[0] == 0
    assert agent("import", "checkout", file)[0] == 0
    assert count_looks(store) == 2500


@pytest.mark.parametrize("moment", ["before the commit", "after the commit"])
def test_ctrl_c_during_a_compaction_leaves_all_or_nothing(agent, tmp_path, monkeypatch, moment):
    from kibitz.live.store import queries
    from kibitz.live.store.sqlite import SQLite

    for k in range(5):
        agent("observe", "checkout", "green", "1", "--key", f"visitor-{k}")
    compact = "compact", "checkout", "--before", "2100-01-01"
    with monkeypatch.context() as patch:
        if moment == "before the commit":
            interrupt_call(patch, queries, "replace_events", after=True)
        else:
            interrupt_call(patch, SQLite, "purge")
        assert agent(*compact) == (130, "", RESUME)
    assert agent("check") == (0, "checkout: no problems found\n", "")
    n_events = 7 if moment == "before the commit" else 4
    assert len(agent("events", "checkout")[1].splitlines()) == n_events
    assert agent(*compact)[0] == 0
    assert b"visitor-3" not in (tmp_path / "shop.db").read_bytes()
    assert count_looks(tmp_path / "shop.db") == 5


def test_ctrl_c_during_a_backup_keeps_the_old_backup(agent, kibitz, tmp_path, monkeypatch):
    store, file = tmp_path / "shop.db", tmp_path / "backup.db"
    backup = "store", "backup", file, "--store", store
    assert kibitz(*backup)[0] == 0
    content, names = file.read_bytes(), sorted(path.name for path in tmp_path.iterdir())
    agent("observe", "checkout", "green", "1")
    with monkeypatch.context() as patch:
        interrupt_call(patch, shutil, "copy", after=True)
        assert kibitz(*backup) == (130, "", NOTHING)
    assert file.read_bytes() == content
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert kibitz(*backup)[0] == 0
    assert count_looks(file) == 1


def test_ctrl_c_during_an_evaluation_gives_one_line(kibitz, tmp_path, monkeypatch):
    from kibitz.live.agent import evaluate

    log = tmp_path / "log.csv"
    log.write_text("arm,reward,probability\nblue,1,0.5\ngreen,0,0.5\n")
    assert kibitz("evaluate", log, "--arm", "blue")[0] == 0
    interrupt_call(monkeypatch, evaluate, "_read_visits", after=True)
    assert kibitz("evaluate", log, "--arm", "blue") == (130, "", NOTHING)
