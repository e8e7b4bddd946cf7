"""Tests of compaction, erasure, backup and restore, with kills at any point."""

import contextlib
import itertools
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import kibitz
from kibitz.live.agent.agent import check_store
from kibitz.live.agent.backup import back_up, restore
from kibitz.live.store import schema, sqlite
from kibitz.live.store.postgresql import PostgreSQLDatabase

FILES = Path(__file__).with_name("files")


def create_agent(url, name="s", n=0, **arguments):
    """Return an agent after `n` visits, one visit per second; some reports are lost or corrected."""
    agent = kibitz.agent(
        url,
        name,
        **{"arms": ["a", "b", "c"], "rewards": "bounded", "seed": 3, "bucket": 0.3, **arguments},
    )
    agent.now = lambda: 2e9
    for visit in range(n):
        agent.now = lambda visit=visit: 2e9 + visit
        decision = agent.ask(key=f"visitor-{visit}@example.org")
        if visit % 4:
            agent.tell(decision.id, [0.1, 0.25, 1.0][visit % 3])
        if visit % 10 == 5:
            agent.tell(agent.look().id, 1.0)
            agent.correct(decision.id, 0.7)
    return agent


def read_files(file):
    """Return all bytes of a store: the database, its write-ahead log and all files beside it."""
    return b"".join(path.read_bytes() for path in file.parent.iterdir() if path.is_file())


POLICIES = [
    ("kibitzer", {}),
    ("silence", {"patience": 20.0, "silence": 0.0}),
    ("thompson", {"policy": kibitz.thompson("bounded"), "patience": 20.0}),
    ("lookout", {"policy": kibitz.lookout(rewards="bounded"), "patience": 20.0}),
    ("ucb_second", {"policy": kibitz.ucb_second()}),
    ("etc_ocucb", {"policy": kibitz.etc_ocucb(), "bucket": 0.0, "patience": 0.5}),
]


@pytest.mark.parametrize(("name", "arguments"), POLICIES, ids=[name for name, _ in POLICIES])
def test_compaction_keeps_every_number(url, name, arguments):
    with create_agent(url, name, 60, **arguments) as agent:
        arms, report, n_events = agent.arms(), agent.report(), len(list(agent.events()))
        n_removed = agent.compact(2e9 + 40)
        assert 60 < n_removed < n_events
        assert agent.arms() == arms
        assert agent.report().identical(report)
        assert agent.check() == []
        assert agent.compact(2e9 + 40) == 0
        kinds = [event.kind for event in agent.events()]
        assert kinds[:4] == ["added"] * 3 + ["checkpoint"]
        assert kinds[-1] == "compacted"
        rows = agent.store.read(lambda database: database.execute("select id, status from decisions"))
        assert 20 < len(rows) < 60
        # compact again, then change old decisions, the arms and the state
        assert agent.compact(2e9 + 50) > 0
        pending = [id for id, status in rows if status == "pending" and id < 50]
        for id in pending:
            agent.tell(id, 0.5)
            agent.correct(id, 0.25)
        if name != "etc_ocucb":
            agent.add("d")
        agent.tell(agent.ask().id, 1.0)
        assert agent.check() == []
        with pytest.raises(kibitz.UnknownDecision, match=r"decision 2 of .* removed by a compaction"):
            agent.tell(2, 0.25)


def test_an_agent_decides_the_same_after_a_compaction(memory):
    """A compacted agent makes the same decisions as an agent with a complete log."""
    for name, arguments in POLICIES:
        agents = [create_agent(memory / f"{n}.db", name, 40, **arguments) for n in range(2)]
        agents[0].compact(2e9 + 30)
        for visit in range(40, 70):
            for agent in agents:
                agent.now = lambda visit=visit: 2e9 + visit
            decisions = [agent.ask() for agent in agents]
            assert decisions[0] == decisions[1]
            looks = [agent.look() for agent in agents]
            assert looks[0] == looks[1]
            for agent in agents:
                agent.tell(decisions[0].id, visit % 2)
                agent.tell(looks[0].id, 0.5)
        assert agents[0].arms() == agents[1].arms()
        for agent in agents:
            assert agent.check() == []
            agent.close()


def test_dates_are_in_utc_and_invalid_dates_are_rejected(memory):
    with create_agent(memory / "shop.db", n=10) as agent:
        assert agent.compact("2033-05-18T03:33:23") == agent.compact("2033-05-18T05:33:23+02:00") + 8
        with pytest.raises(ValueError, match="before must be a date such as 2026-01-31, got"):
            agent.compact("yesterday")


def test_a_compacted_log_has_no_declaration(memory):
    with create_agent(memory / "shop.db", n=10) as agent:
        agent.compact(2e9 + 5)
        with pytest.raises(ValueError, match="cannot be declared after a compaction"):
            agent.declare_rewards("bernoulli")


def test_a_compacted_log_is_exported_and_read(memory):
    with create_agent(memory / "shop.db", n=60) as agent:
        agent.compact(2e9 + 30)
        agent.export(memory / "log.csv")
        problem = kibitz.from_log(memory / "log.csv")
        rewards = [e for e in agent.events() if e.kind in {"told", "corrected"}]
    assert sum(problem.n_observed) <= len(rewards)
    assert sum(problem.n_observed) > 20
    assert kibitz.evaluate(memory / "log.csv", "a").n_visits > 3


def test_an_erased_key_is_in_no_file_of_the_store(memory):
    file = memory / "shop.db"
    key, other = "visitor-17@example.org", "visitor-18@example.org"
    with create_agent(file, n=400) as agent:
        agent.compact(2e9 + 10)
        numbers = agent.arms(), agent.report()
        assert key.encode() in read_files(file)
        assert agent.erase([key, "nobody", key]) == ["erased", "unknown", "erased"]
        assert key.encode() not in read_files(file)
        assert other.encode() in read_files(file)
        assert agent.arms() == numbers[0]
        assert agent.report().identical(numbers[1])
        assert agent.check() == []
        assert [event.kind for event in agent.events()][-1] == "erased"
        assert agent.erase(key) == ["unknown"]
        assert agent.ask(key=key).id == agent.ask().id - 1  # the key counts as new


def test_many_keys_are_erased_with_few_scans_of_the_log(memory):
    """An erasure blocks all other commits, so one scan for each key would block them too long."""
    with create_agent(str(memory / "s.db")) as agent:
        agent.ask(n=1000, key=[f"visitor-{n}" for n in range(1000)])
        statements = []
        agent.store._writer.connection.set_trace_callback(statements.append)
        assert agent.erase([f"visitor-{n}" for n in range(0, 1000, 2)] + ["x"]) == [
            "erased"
        ] * 500 + ["unknown"]
        assert sum(statement.startswith("update events") for statement in statements) == 1
        assert {event.key for event in agent.events()} - {None} == {
            f"visitor-{n}" for n in range(1, 1000, 2)
        }
        assert agent.check() == []


def test_the_key_of_a_decision_in_a_checkpoint_is_erased(memory):
    file = memory / "shop.db"
    with create_agent(file, n=40) as agent:
        agent.compact(2e9 + 20)
        content = agent.store.read(lambda db: db.execute("select content from checkpoints"))[0][0]
        key = "visitor-8@example.org"  # the decision is pending
        assert key in content
        assert agent.erase(key) == ["erased"]
        assert key.encode() not in read_files(file)
        assert agent.check() == []


def test_keys_are_erased_on_postgresql(postgresql, database):
    """Neither the tables nor the planner's statistics nor the files of the server keep the keys."""
    keys = ["visitor-8@example.org", "visitor-25@example.org"]
    folder = Path(postgresql.psql("show data_directory").split()[2])
    in_statistics = "select 1 from pg_stats where histogram_bounds::text ~ 'visitor-25@'"

    def read_server_files():
        postgresql.psql("checkpoint")
        paths = [path for path in folder.rglob("*") if path.is_file() and "pg_wal" not in path.parts]
        return b"".join(path.read_bytes() for path in paths)

    with create_agent(database, n=30) as agent:
        agent.compact(2e9 + 10)
        agent.store.write(lambda db: db.execute("analyze decisions"))
        assert agent.store.read(lambda db: db.execute(in_statistics))
        assert all(key.encode() in read_server_files() for key in keys)
        assert agent.erase(keys) == ["erased"] * 2
        for table in ("events", "decisions", "checkpoints"):
            rows = agent.store.read(lambda db, t=table: db.execute(f"select * from {t}"))
            assert not any(key in str(rows) for key in keys)
        assert not agent.store.read(lambda db: db.execute(in_statistics))
        assert not any(key.encode() in read_server_files() for key in keys)
        assert agent.check() == []


def test_a_reader_that_keeps_old_data_in_use_is_reported(memory, monkeypatch):
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.1)
    file = memory / "shop.db"
    with create_agent(file, n=10) as agent:
        agent.store.close()
        with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as reader:
            reader.execute("begin")
            reader.execute("select * from events").fetchall()
            with pytest.raises(kibitz.StoreUnavailable, match="a reader still uses an old version"):
                agent.erase("visitor-3@example.org")
            reader.execute("rollback")
        assert agent.erase("visitor-3@example.org") == ["unknown"]
        assert b"visitor-3@example.org" not in read_files(file)


@pytest.mark.parametrize("operation", ["compact", "erase"])
def test_a_kill_between_statements_leaves_all_or_nothing(memory, operation):
    """A process is killed before each SQL statement in turn; opening the store finishes the work."""
    original, file = memory / "original" / "shop.db", memory / "copy" / "shop.db"
    original.parent.mkdir(), file.parent.mkdir()
    with create_agent(original, n=40) as agent:
        arms = agent.arms()
    key = "visitor-9@example.org"
    for statement in itertools.count():
        for path in file.parent.iterdir():
            path.unlink()
        shutil.copy(original, file)
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                agent = create_agent(file)
                kill_before(statement)
                agent.compact(2e9 + 30) if operation == "compact" else agent.erase(key)
                os._exit(0)
            os._exit(1)
        status = os.waitpid(child, 0)[1]
        with create_agent(file) as agent:
            assert agent.check() == []
            assert agent.arms() == arms
            kinds = [event.kind for event in agent.events()]
            is_done = ("compacted" if operation == "compact" else "erased") in kinds
            assert (key.encode() not in read_files(file)) == is_done
        if not os.WIFSIGNALED(status):
            assert os.waitstatus_to_exitcode(status) == 0
            assert is_done
            break
    assert statement > 15


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["compact", "erase"])
def test_a_kill_on_postgresql_leaves_all_or_nothing(database, operation):
    """A process is killed before each SQL statement in turn; each statement gets a new agent."""
    key = "visitor-9@example.org"
    for statement in itertools.count():
        name = f"agent-{statement}"
        with create_agent(database, name, n=16) as agent:
            arms = agent.arms()
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                agent = create_agent(database, name)
                kill_before(statement)
                agent.compact(2e9 + 12) if operation == "compact" else agent.erase(key)
                os._exit(0)
            os._exit(1)
        status = os.waitpid(child, 0)[1]
        with create_agent(database, name) as agent:
            assert agent.check() == []
            assert agent.arms() == arms
            kinds = [event.kind for event in agent.events()]
            is_done = ("compacted" if operation == "compact" else "erased") in kinds
            assert (key not in {event.key for event in agent.events()}) == is_done
            assert agent.store.read(lambda db: db.execute("select needs_purge from kibitz")) == [(0,)]
        if not os.WIFSIGNALED(status):
            assert os.waitstatus_to_exitcode(status) == 0
            assert is_done
            break
    assert statement > 15


def kill_before(statement):
    """Make this process kill itself just before it executes SQL statement number `statement`."""
    count = itertools.count()

    def kill_at_statement(execute):
        def execute_or_kill(*values):
            if next(count) == statement:
                os.kill(os.getpid(), signal.SIGKILL)
            return execute(*values)

        return execute_or_kill

    for database in (sqlite.SQLiteDatabase, PostgreSQLDatabase):
        database.execute = kill_at_statement(database.execute)
        database.execute_many = kill_at_statement(database.execute_many)


WORKER = """
import sys, kibitz
file, first = sys.argv[1], int(sys.argv[2])
agent = kibitz.agent(file, "s")
for n in range(first, first + 1000):
    key = f"visitor-{n}@example.org"
    decision = agent.ask(key=key)
    agent.tell(decision.id, 1.0)
    print("told", n, flush=True)
    if n % 2 == 0:
        agent.erase(key)
        print("erased", n, flush=True)
    if n % 7 == 0:
        agent.compact(agent.now() - 0.2)
"""


@pytest.mark.slow
def test_killed_processes_lose_nothing_and_acknowledged_erasures_are_complete(memory):
    """A process that asks, erases and compacts is killed (kill -9) at 12 random moments."""
    file, rng, acknowledged = memory / "store" / "shop.db", random.Random(1), []
    file.parent.mkdir()
    kibitz.agent(file, "s", arms=["a", "b"], rewards="bernoulli", bucket=0.5, seed=1).close()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for start in range(12):
        command = [sys.executable, "-c", WORKER, str(file), str(1000 * start)]
        with open(memory / "acknowledged", "w+b") as output:
            process = subprocess.Popen(command, stdout=output, env=environment)
            while not output.tell() and process.poll() is None:
                time.sleep(0.02)
                output.seek(0, os.SEEK_END)
            time.sleep(rng.uniform(0.0, 0.3))
            process.kill()
            process.wait()
            output.seek(0)
            acknowledged += [line.split() for line in output.read().decode().splitlines()]
        with kibitz.agent(file, "s") as agent:
            assert agent.check() == []
            n_told = sum(arm.n_pulls for arm in agent.arms())
            assert n_told >= sum(word == "told" for word, _ in acknowledged)
        content = read_files(file)
        for word, n in acknowledged:
            if word == "erased":
                assert f"visitor-{n}@example.org".encode() not in content
    assert sum(word == "erased" for word, _ in acknowledged) >= 5


# ------------------------------------------------------------------------------ backup and restore


def test_a_backup_is_taken_while_the_store_is_in_use(memory):
    file, copy = memory / "shop.db", memory / "backup.db"
    with create_agent(file, n=30) as agent:
        events = list(agent.events())
        assert back_up(str(file), copy) == 1
        agent.ask()
        assert [p.name for p in memory.iterdir() if p.name.startswith(("backup", "."))] == [
            "backup.db"
        ]
        with pytest.raises(kibitz.StoreUnavailable, match="is in use"):
            restore(copy, str(file), replace=True)
        assert agent.ask().id == len([e for e in events if e.kind in {"pull", "look"}]) + 2
    with pytest.raises(ValueError, match="already exists; use --replace"):
        restore(copy, str(file))
    assert restore(copy, str(file), replace=True) == 1
    with kibitz.agent(file, "s") as agent:
        assert list(agent.events()) == events
        assert agent.check() == []
    assert restore(copy, str(memory / "new.db")) == 1
    assert check_store(str(memory / "new.db")) == {"s": []}


def test_a_damaged_backup_replaces_nothing(memory):
    file, copy = memory / "shop.db", memory / "backup.db"
    create_agent(file, n=200).close()
    back_up(str(file), copy)
    intact_content = file.read_bytes()
    content = bytearray(copy.read_bytes())
    for start in range(len(content) // 2, len(content), 1000):
        content[start : start + 500] = os.urandom(500)
    copy.write_bytes(content)
    with pytest.raises((kibitz.StoreDamaged, ValueError)):
        restore(copy, str(file), replace=True)
    changed_file = memory / "changed.db"  # intact as a file, but its counts contradict its log
    changed_file.write_bytes(intact_content)
    with contextlib.closing(sqlite3.connect(changed_file)) as connection:
        connection.execute("update arms set pull_sum = pull_sum + 1")
        connection.commit()
    with pytest.raises(kibitz.StoreDamaged, match="pull_sum"):
        restore(changed_file, str(file), replace=True)
    with pytest.raises(kibitz.StoreDamaged, match="pull_sum"):
        back_up(str(changed_file), copy)
    (memory / "text.db").write_text("no store " * 1000)
    with pytest.raises(kibitz.StoreDamaged, match="damaged or not a SQLite file"):
        restore(memory / "text.db", str(file), replace=True)
    assert file.read_bytes() == intact_content
    assert copy.read_bytes() == content
    assert not [path for path in memory.iterdir() if path.name.startswith(".")]


def test_a_damaged_store_is_restored(memory):
    file, copy = memory / "shop.db", memory / "backup.db"
    create_agent(file, n=20).close()
    back_up(str(file), copy)
    file.write_bytes(b"garbage" * 1000)
    Path(f"{file}-wal").write_bytes(b"garbage" * 1000)
    assert restore(copy, str(file), replace=True) == 1
    assert check_store(str(file)) == {"s": []}


def test_a_backup_of_an_older_schema_is_not_migrated(memory):
    file, copy = memory / "shop.db", memory / "backup.db"
    shutil.copy(FILES / "schema-2.db", file)
    assert back_up(str(file), copy) == 2
    for path in (file, copy):
        with contextlib.closing(sqlite3.connect(path)) as connection:
            assert connection.execute("select version from kibitz").fetchall() == [(2,)]
    assert restore(copy, str(memory / "new.db")) == 2
    assert check_store(str(memory / "new.db")) == {"checkout": [], "shop": []}


def test_a_postgresql_store_is_backed_up_by_other_means(tmp_path):
    with pytest.raises(ValueError, match="use pg_dump"):
        back_up("postgresql://localhost/shop", tmp_path / "backup.db")


def test_a_store_of_schema_4_gets_no_probabilities(tmp_path):
    """Decisions of older versions have no probability; new decisions have a probability."""
    file = tmp_path / "shop.db"
    shutil.copy(FILES / "schema-4.db", file)
    for name in ("checkout", "banner", "price"):
        with kibitz.agent(file, name) as agent:
            agent.now = lambda: 2e9
            assert agent.store.found_version == (4 if name == "checkout" else schema.VERSION)
            assert agent.check() == []
            assert {event.probability for event in agent.events()} == {None}
            decision = agent.ask()
            assert decision.probability == (None if name == "banner" else 1.0)
            agent.compact(2e9)
            assert agent.check() == []
            assert np.isfinite([arm.squares for arm in agent.arms()]).all()
