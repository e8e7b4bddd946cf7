"""Tests of faults: killed processes, locked, full and damaged stores, and a server that restarts."""

import contextlib
import itertools
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import kibitz
from kibitz import StoreUnavailable
from kibitz.live.agent.agent import check_store
from kibitz.live.store import schema, sqlite

pytestmark = pytest.mark.slow

WORKER = Path(__file__).with_name("worker.py")
FILES = Path(__file__).with_name("files")


def create_agent(url, name="fleet", **arguments):
    return kibitz.agent(
        url, name, **{"arms": ["a", "b", "c"], "policy": kibitz.ucb(2.0), "seed": 1, **arguments}
    )


def run_fleet(url, folder, n_kills, n_operations):
    """Run processes that are killed at random moments; return the acknowledged operations."""
    create_agent(url).close()
    command = [sys.executable, WORKER, url, folder, str(n_kills), str(n_operations), "7"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=540)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == n_kills
    assert [file.read_text() for file in folder.glob("error-*")] == []
    whole = [file.read_text() for file in folder.iterdir()]
    return [line.split() for text in whole for line in text.splitlines() if line]


def check_fleet(url, acknowledged):
    """Check that every acknowledged operation is in the log exactly once."""
    with kibitz.agent(url, "fleet") as agent:
        assert agent.check() == []
        events = list(agent.events())
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    made_ids = [event.id for event in events if event.kind in {"pull", "look", "observe"}]
    assert made_ids == list(range(1, len(made_ids) + 1))
    asked = {event.id: (event.arm, event.key) for event in events if event.kind == "pull"}
    told = [(event.id, event.reward) for event in events if event.kind == "told"]
    observed = [event.key for event in events if event.kind == "observe"]
    assert len(told) == len(dict(told))
    assert len(observed) == len(set(observed))
    for word, *parts in acknowledged:
        if word == "ask" and len(parts) == 3:
            assert asked[int(parts[0])] == (parts[1], parts[2])
        elif word == "tell" and len(parts) == 3:
            assert dict(told)[int(parts[0])] == float(parts[1])
        elif word == "observe" and len(parts) == 2:
            assert f"observe-{parts[0]}" in observed


def test_killed_processes_lose_nothing(memory):
    url = str(memory / "shop.db")
    (memory / "said").mkdir()
    acknowledged = run_fleet(url, memory / "said", 40, 150)
    assert len(acknowledged) > 1200
    check_fleet(url, acknowledged)


@pytest.mark.slow
def test_two_hundred_kills_and_ten_thousand_operations(tmp_path):
    url = str(tmp_path / "shop.db")
    (tmp_path / "said").mkdir()
    acknowledged = run_fleet(url, tmp_path / "said", 200, 1300)
    assert len(acknowledged) >= 10_000
    check_fleet(url, acknowledged)


@pytest.mark.slow
def test_killed_processes_lose_nothing_on_postgresql(database, tmp_path):
    (tmp_path / "said").mkdir()
    acknowledged = run_fleet(database, tmp_path / "said", 20, 50)
    check_fleet(database, acknowledged)


def dies_before(statement):
    """Make this process exit just before it executes SQL statement number `statement`."""
    count = itertools.count()

    def dying(do):
        return lambda *values: os._exit(9) if next(count) == statement else do(*values)

    sqlite.SQLiteDatabase.rows = dying(sqlite.SQLiteDatabase.rows)
    sqlite.SQLiteDatabase.many = dying(sqlite.SQLiteDatabase.many)


@pytest.mark.parametrize(
    ("operation", "kind", "again"),
    [
        (lambda agent: agent.tell(1, 1.0), "told", "duplicate"),
        (lambda agent: agent.observe("a", 1.0, key="k"), "observe", "duplicate"),
        (lambda agent: agent.ask(key="k").id, "pull", 2),
        (lambda agent: agent.forget(1), "forgotten", "duplicate"),
    ],
)
def test_a_kill_between_statements_leaves_all_or_nothing(memory, operation, kind, again):
    with create_agent(memory / "shop.db") as agent:
        agent.ask()
        before = sum(event.kind == kind for event in agent.events())
        for statement in itertools.count():
            child = os.fork()
            if child == 0:
                dies_before(statement)
                with contextlib.suppress(BaseException):
                    operation(agent)
                    os._exit(0)
                os._exit(1)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert agent.check() == []
            done = sum(event.kind == kind for event in agent.events()) - before
            if code == 0:
                break
            assert (code, done) == (9, 0)
        assert statement > 4
        assert done == 1  # the last child committed, then exited without an answer
        assert operation(agent) == again
        assert sum(event.kind == kind for event in agent.events()) == before + 1


def test_a_forked_process_can_use_its_parents_agent(url, tmp_path):
    with create_agent(url) as agent:
        agent.ask()
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                (tmp_path / "child").write_text(str(agent.ask().id))
                agent.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert (tmp_path / "child").read_text() == "2"
        assert agent.ask().id == 3
        assert agent.check() == []


def test_a_locked_file_raises_store_unavailable_after_a_wait(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.2)
    file = tmp_path / "shop.db"
    with create_agent(file) as agent:
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("begin immediate")
        with pytest.raises(StoreUnavailable, match=r"store .*shop\.db' is unavailable: another proc"):
            agent.ask()
        assert len(list(agent.events())) == 3  # readers are not blocked
        other.execute("rollback")
        other.close()
        assert agent.ask().id == 1


def test_a_reader_does_not_block_a_writer(url):
    with create_agent(url) as agent:
        agent.ask(n=3)

        def work(database):
            before = database.rows("select count(*) from events")
            agent.ask()
            return before, database.rows("select count(*) from events")

        assert agent.store.read(work) == ([(6,)], [(6,)])
        assert len(list(agent.events())) == 7


def test_an_error_in_a_transaction_rolls_it_back(url, monkeypatch):
    with create_agent(url) as agent:
        decision = agent.ask()
        before = list(agent.events())
        monkeypatch.setattr("kibitz.live.store.queries.SET_ARM", "no_such_column = ?")
        for operation in (
            agent.ask, agent.look, lambda: agent.tell(decision.id, 1.0),
            lambda: agent.observe("a", 1.0),
        ):  # fmt: skip
            with pytest.raises(Exception, match=r"no_such_column|binding|placeholders"):
                operation()
        monkeypatch.undo()
        assert list(agent.events()) == before
        assert agent.check() == []
        assert agent.tell(decision.id, 1.0) == "counted"


def test_a_full_disk_raises_store_unavailable_and_leaves_no_partial_data(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("a small disk can only be mounted by root")
    try:
        with create_agent(folder / "shop.db") as agent:
            n_asked = 0
            with pytest.raises(StoreUnavailable, match=r"store .* is unavailable: .*full"):  # noqa: PT012
                while n_asked < 100_000:
                    agent.ask(n=50)
                    n_asked += 50
            assert n_asked > 0
            subprocess.run(["mount", "-o", "remount,size=8m", folder], check=True)
            assert agent.ask().id == n_asked + 1
            assert agent.check() == []
    finally:
        subprocess.run(["umount", folder], check=True)


def filled(file, n=400):
    with create_agent(file) as agent:
        agent.tell([(decision.id, 0.5) for decision in agent.ask(n=n)])
    return file.stat().st_size


@pytest.mark.parametrize("what", ["torn", "overwritten", "no database"])
def test_a_damaged_file_is_rejected_and_check_lists_what_is_readable(tmp_path, what):
    file = tmp_path / "shop.db"
    size = filled(file)
    assert check_store(str(file)) == {"fleet": []}
    content = bytearray(file.read_bytes())
    if what == "torn":
        content = content[: size // 2 // 4096 * 4096]
    elif what == "overwritten":
        content[6 * 4096 :] = b"\xff" * (size - 6 * 4096)
    else:
        content = bytearray(b"blue,green\n" * 1000)
    file.write_bytes(content)

    def use():
        with create_agent(file) as agent:
            agent.ask()
            list(agent.events())

    with pytest.raises(ValueError, match=r"store .* is damaged or not a SQLite file .*agent check"):
        use()
    if what == "no database":
        with pytest.raises(ValueError, match=r"store .* is damaged or not a SQLite file"):
            check_store(str(file))
        return
    found = check_store(str(file))
    said = json.dumps(found)
    assert "damaged" in said
    assert "can be read" in said


def test_check_lists_discrepancies_with_the_log(tmp_path):
    file = tmp_path / "shop.db"
    filled(file, 20)
    for change, sentence in [
        ("update arms set pull_sum = pull_sum + 1 where arm = 1", "arm 'b': pull_sum is"),
        (
            "update decisions set reward = 0.25 where id = 7",
            "decision 7: reward is 0.25; the log giv",
        ),
        ("update agents set n_asks = 21", "number of asks is 21; the log gives 20"),
        ("delete from events where seq = 12", "event 12 is missing; the next one is 13"),
        ("delete from decisions where id = 3", "decision 3 is missing; the next one is 4"),
    ]:
        copy = tmp_path / "copy.db"
        shutil.copy(file, copy)
        other = sqlite3.connect(copy)
        other.execute(change)
        other.commit()
        other.close()
        assert sentence in " ".join(check_store(str(copy))["fleet"])


def test_a_database_of_another_program_is_rejected(tmp_path):
    file = tmp_path / "other.db"
    other = sqlite3.connect(file)
    other.execute("create table customers (name text)")
    other.commit()
    other.close()
    with pytest.raises(ValueError, match=r"store .*other\.db' is not a kibitz store"):
        create_agent(file)


def test_a_newer_schema_is_rejected(url, monkeypatch):
    create_agent(url).close()
    monkeypatch.setattr(schema, "VERSION", 0)
    with pytest.raises(ValueError, match=r"store .* has schema 3, but .* up to 0; upgrade kibitz"):
        create_agent(url)


def test_a_store_of_schema_1_is_migrated(tmp_path):
    file = tmp_path / "shop.db"
    shutil.copy(FILES / "schema-1.db", file)
    with kibitz.agent(file, "checkout") as agent:
        assert agent.check() == []
        assert [arm.n_pulls for arm in agent.arms()] == [1, 2]
        assert agent.ask(key="visit-1").id == 1
        assert agent.ask(key="new").id == 8


def test_a_store_of_schema_2_is_migrated(tmp_path):
    file = tmp_path / "shop.db"
    shutil.copy(FILES / "schema-2.db", file)
    with kibitz.agent(file, "checkout") as agent:
        assert agent.check() == []
        assert repr(agent.policy) == "kibitzer(b=8.0, beta=1.0, rewards='bounded')"
        assert [(arm.n_pulls, arm.n_looks) for arm in agent.arms()] == [(5, 0), (1, 3)]
        assert [e.key for e in agent.events() if e.kind == "observe"] == ["panel-1", None]
        assert agent.observe("green", 1.0, key="panel-1") == "duplicate"
        assert agent.tell(agent.ask().id, 0.5) == "counted"
    with kibitz.agent(file, "shop") as agent:
        assert agent.policy == kibitz.ucb(ignore_looks=True)
        assert agent.check() == []


def copy_store(file, url):
    """Copy the tables of a SQLite file to an empty PostgreSQL database."""
    import psycopg

    with contextlib.closing(sqlite3.connect(file)) as source, psycopg.connect(url) as target:
        target.execute("create schema kibitz")
        target.execute("set search_path to kibitz")
        for name, kind, sql in source.execute("select name, type, sql from sqlite_master").fetchall():
            if sql is not None:  # the indexes of primary keys have no SQL
                target.execute(sql)
            if kind == "table":
                rows = source.execute(f"select * from {name}").fetchall()
                for row in rows:
                    values = ", ".join(["%s"] * len(row))
                    target.execute(f"insert into {name} values ({values})", row)


@pytest.mark.parametrize(("version", "names"), [(1, ["checkout"]), (2, ["checkout", "shop"])])
def test_a_migrated_store_replays_without_discrepancies(url, version, names):
    """A replay of the log gives the stored state after the migration and after further decisions."""
    file = FILES / f"schema-{version}.db"
    copy_store(file, url) if url.startswith("postgresql:") else shutil.copy(file, url)
    for name in names:
        with kibitz.agent(url, name) as agent:
            assert agent.check() == []
            before = list(agent.events())
            agent.tell(agent.ask().id, 1.0)
            agent.tell(agent.look().id, 0.0)
            agent.observe(agent.arms()[0].name, 1.0, key="after the migration")
            assert agent.check() == []
            assert list(agent.events())[: len(before)] == before
            assert agent.store.read(lambda database: database.rows("select version from kibitz")) == [
                (schema.VERSION,)
            ]


def test_an_older_schema_is_migrated_and_an_unknown_one_is_rejected(tmp_path, monkeypatch):
    file = tmp_path / "shop.db"
    shutil.copy(FILES / "schema-1.db", file)
    with monkeypatch.context() as later:
        later.setattr(schema, "VERSION", schema.VERSION + 1)
        with pytest.raises(ValueError, match=r"store .* has unknown schema 3"):
            kibitz.agent(file, "checkout")
    with kibitz.agent(file, "checkout") as agent:
        assert agent.store.read(lambda database: database.rows("select version from kibitz")) == [
            (3,)
        ]
        assert agent.store.read(lambda database: database.rows("select * from tokens")) == []
        assert agent.check() == []


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("", "store must be a path, sqlite:///path or postgresql://"),
        (7, "store must be a path, sqlite:///path or postgresql://"),
        ("mysql://localhost/shop", "store must be a path, sqlite:///path or postgresql://"),
        ("no/such/folder/shop.db", "the folder of store 'no/such/folder/shop.db' does not exist"),
        (".", "store must be a file, got"),
    ],
)
def test_an_invalid_store_raises_value_error(url, sentence):
    with pytest.raises(ValueError, match=sentence):
        create_agent(url)


def test_sqlite_addresses(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    create_agent("sqlite:///shop.db").close()
    create_agent(f"sqlite:///{tmp_path}/shop.db").close()
    assert (tmp_path / "shop.db").exists()


def test_an_unreachable_postgresql_fails_at_once(tmp_path):
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match=r"store .* is unavailable") as raised:
        create_agent(f"postgresql://nobody:secret@/shop?host={tmp_path}")
    assert time.monotonic() - began < 5
    assert "secret" not in str(raised.value)


def test_without_psycopg_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ValueError, match=r"pip install 'kibitz\[postgresql\]'"):
        create_agent("postgresql://localhost/shop")


def stop_and_start(server, mode):
    """Stop a PostgreSQL server and start it again."""
    os.kill(server.get_pid(), {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}[mode])
    time.sleep(0.3)
    deadline = time.monotonic() + 30
    while True:
        try:
            server.ensure_postgres_running()
            return
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def test_a_restart_of_postgresql_under_load_loses_nothing(postgresql, database):
    """No acknowledged report is lost or counted twice, and the work continues."""
    said, errors, stop = [], [], threading.Event()
    create_agent(database).close()

    def work():
        with kibitz.agent(database, "fleet") as agent:
            while not stop.is_set():
                try:
                    decision = agent.ask()
                    said.append(("ask", decision.id))
                    said.append((agent.tell(decision.id, 1.0), decision.id))
                except StoreUnavailable as error:
                    errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for mode in ("fast", "immediate"):
        time.sleep(0.5)
        stop_and_start(postgresql, mode)
        before = len(said)
        deadline = time.monotonic() + 30
        while len(said) < before + 30 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(said) >= before + 30, "the work must go on"
    stop.set()
    for thread in threads:
        thread.join()
    with kibitz.agent(database, "fleet") as agent:
        assert agent.check() == []
        events = list(agent.events())
    asked = [event.id for event in events if event.kind == "pull"]
    told = [event.id for event in events if event.kind == "told"]
    assert asked == list(range(1, len(asked) + 1))
    assert {id for word, id in said if word == "ask"} == set(asked)  # no answer to an ask was lost
    assert {id for word, id in said if word == "counted"} == set(told)
    assert not [word for word, _ in said if word == "duplicate"]  # no answer was lost
