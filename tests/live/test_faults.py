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
import warnings
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
        url,
        name,
        **{
            "arms": ["a", "b", "c"],
            "policy": kibitz.ucb(2.0),
            "rewards": "gaussian",
            "scale": 1.0,
            "seed": 1,
            **arguments,
        },
    )


def run_fleet(url, folder, n_kills, n_operations, **arguments):
    """Run processes that are killed at random moments; return the acknowledged operations."""
    create_agent(url, **arguments).close()
    command = [sys.executable, WORKER, url, folder, str(n_kills), str(n_operations), "7"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=540)
    assert process.returncode == 0, process.stderr
    assert int(process.stdout) == n_kills
    assert [file.read_text() for file in folder.glob("error-*")] == []
    texts = [file.read_text() for file in folder.iterdir()]
    return [line.split() for text in texts for line in text.splitlines() if line]


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
    (memory / "acknowledged").mkdir()
    acknowledged = run_fleet(url, memory / "acknowledged", 40, 150)
    assert len(acknowledged) > 1200
    check_fleet(url, acknowledged)


def test_killed_processes_lose_nothing_while_means_seem_to_change(url, tmp_path):
    """Each reward depends on the id of its decision, so the monitor and lookout raise alarms."""
    (tmp_path / "acknowledged").mkdir()
    arguments = {"policy": kibitz.lookout(), "scale": 0.2, "patience": 0.05, "alarms": 0.1}
    acknowledged = run_fleet(url, tmp_path / "acknowledged", 20, 60, **arguments)
    check_fleet(url, acknowledged)
    with kibitz.agent(url, "fleet") as agent:
        assert agent.alarms()


@pytest.mark.slow
def test_two_hundred_kills_lose_none_of_ten_thousand_operations(tmp_path):
    url = str(tmp_path / "shop.db")
    (tmp_path / "acknowledged").mkdir()
    acknowledged = run_fleet(url, tmp_path / "acknowledged", 200, 1300)
    assert len(acknowledged) >= 10_000
    check_fleet(url, acknowledged)


@pytest.mark.slow
def test_killed_processes_lose_nothing_on_postgresql(database, tmp_path):
    (tmp_path / "acknowledged").mkdir()
    acknowledged = run_fleet(database, tmp_path / "acknowledged", 20, 50)
    check_fleet(database, acknowledged)


def exit_before(statement):
    """Make this process exit just before it executes SQL statement number `statement`."""
    count = itertools.count()

    def exit_at_statement(execute):
        return lambda *values: os._exit(9) if next(count) == statement else execute(*values)

    sqlite.SQLiteDatabase.execute = exit_at_statement(sqlite.SQLiteDatabase.execute)
    sqlite.SQLiteDatabase.execute_many = exit_at_statement(sqlite.SQLiteDatabase.execute_many)


@pytest.mark.parametrize(
    ("operation", "kind", "repeat"),
    [
        (lambda agent: agent.tell(1, 1.0), "told", "duplicate"),
        (lambda agent: agent.observe("a", 1.0, key="k"), "observe", "duplicate"),
        (lambda agent: agent.ask(key="k").id, "pull", 2),
        (lambda agent: agent.forget(1), "forgotten", "duplicate"),
    ],
)
def test_a_kill_between_statements_leaves_all_or_nothing(memory, operation, kind, repeat):
    with create_agent(memory / "shop.db") as agent:
        agent.ask()
        n_before = sum(event.kind == kind for event in agent.events())
        for statement in itertools.count():
            child = os.fork()
            if child == 0:
                exit_before(statement)
                with contextlib.suppress(BaseException):
                    operation(agent)
                    os._exit(0)
                os._exit(1)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert agent.check() == []
            n_new_events = sum(event.kind == kind for event in agent.events()) - n_before
            if code == 0:
                break
            assert (code, n_new_events) == (9, 0)
        assert statement > 4
        assert n_new_events == 1  # the last child committed, then exited without an answer
        assert operation(agent) == repeat
        assert sum(event.kind == kind for event in agent.events()) == n_before + 1


@pytest.mark.parametrize("version", range(1, 7))
def test_a_kill_during_a_migration_loses_nothing(memory, version):
    for statement in itertools.count(step=11):
        file = str(memory / f"{statement}.db")
        shutil.copy(FILES / f"schema-{version}.db", file)
        child = os.fork()
        if child == 0:
            exit_before(statement)
            with contextlib.suppress(BaseException):
                check_store(file)
                os._exit(0)
            os._exit(1)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert not any(check_store(file).values())
        if code == 0:
            break
        assert code == 9
    assert statement > 11


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


def test_a_forked_process_records_its_own_commits(database):
    """A parent that lost its connection must not confuse its own commits with those of a child."""
    with create_agent(database) as agent:
        agent.ask()
        child = fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                agent.ask()
                os._exit(0)
            os._exit(1)
        assert wait_for_exit(child) == 0
        [(n_writers,)] = agent.store.read(lambda db: db.execute("select count(*) from writers"))
        assert n_writers == 2


def fork():
    """Fork, and suppress the warning of newer Python versions about threads in the parent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def wait_for_exit(child, seconds=30.0):
    """Return the exit code of a child; kill the child and return None if it does not end."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def test_a_child_forked_while_threads_write_and_read_does_not_hang(url):
    """The child uses the agent while the threads of its parent continue to use it."""
    n_children = 8
    with create_agent(url) as agent:
        is_done = threading.Event()

        def use(operation):
            while not is_done.is_set():
                operation()

        threads = [threading.Thread(target=use, args=(f,)) for f in (agent.ask, agent.arms)]
        for thread in threads:
            thread.start()
        codes = []
        try:
            for number in range(n_children):
                child = fork()
                if child == 0:
                    with contextlib.suppress(BaseException):
                        agent.observe("a", 1.0, key=f"child-{number}")
                        agent.arms()
                        os._exit(0)
                    os._exit(1)
                codes.append(wait_for_exit(child))
        finally:
            is_done.set()
            for thread in threads:
                thread.join()
        assert codes == [0] * n_children
        assert sum(event.kind == "observe" for event in agent.events()) == n_children
        assert agent.check() == []


def test_a_fork_inside_a_long_transaction_does_not_wait_for_its_end(memory, monkeypatch):
    """A fork waits only a limited time for the transaction; the child can then use the store."""
    monkeypatch.setattr(schema, "FORK_SECONDS", 0.1)
    with create_agent(memory / "shop.db") as agent:
        in_transaction, is_done = threading.Event(), threading.Event()

        def work(database):
            in_transaction.set()
            is_done.wait()

        thread = threading.Thread(target=agent.store.read, args=(work,))
        thread.start()
        in_transaction.wait()
        child = fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                agent.arms()
                os._exit(0)
            os._exit(1)
        code = wait_for_exit(child)
        is_done.set()
        thread.join()
        assert code == 0
        assert agent.check() == []


def test_a_child_does_not_keep_the_lock_of_a_parent_that_is_killed(memory):
    """A process forks in a transaction and dies; its child still runs, and others can write."""
    file = memory / "shop.db"
    create_agent(file).close()
    reading_end, writing_end = os.pipe()
    parent = os.fork()
    if parent == 0:
        agent = kibitz.agent(file, "fleet")

        def work(database):
            child = os.fork()
            if child == 0:
                os.read(reading_end, 1)  # until the test ends
            os._exit(0)

        agent.store.write(work)
    assert wait_for_exit(parent) == 0
    writer = os.fork()
    if writer == 0:
        with contextlib.suppress(BaseException):
            kibitz.agent(file, "fleet").ask()
            os._exit(0)
        os._exit(1)
    code = wait_for_exit(writer, 20.0)
    os.write(writing_end, b"x")
    os.close(reading_end)
    os.close(writing_end)
    assert code == 0


def replace_file(file, backup):
    shutil.copy(backup, file.with_name("copy.db"))
    os.replace(file.with_name("copy.db"), file)


@pytest.mark.parametrize(
    ("change", "word"), [(replace_file, "replaced"), (lambda file, _: file.unlink(), "deleted")]
)
def test_a_replaced_or_deleted_file_is_noticed(tmp_path, change, word):
    """After the file is replaced, no operation is acknowledged, even if it began earlier."""
    file, backup = tmp_path / "shop.db", tmp_path / "backup.db"
    create_agent(backup).close()
    sentence = rf"the file of store .*shop\.db' was {word} while it was in use; stop all programs"
    for is_under_way in (False, True):
        shutil.copy(backup, file)
        with kibitz.agent(file, "fleet") as agent:
            agent.tell(agent.ask().id, 1.0)
            agent.arms()
            if is_under_way:

                def work(database):
                    database.execute("update agents set n_asks = 7")
                    change(file, backup)

                with pytest.raises(StoreUnavailable, match=sentence):
                    agent.store.write(work)
            else:
                change(file, backup)
            log = Path(f"{file}-wal").read_bytes()
            for operation in (agent.ask, lambda: agent.observe("a", 1.0), agent.arms, agent.check):
                with pytest.raises(StoreUnavailable, match=sentence):
                    operation()
            assert Path(f"{file}-wal").read_bytes() == log  # a restored file would read it
        for leftover in tmp_path.glob("shop.db-*"):
            leftover.unlink()
        if word == "deleted":
            shutil.copy(backup, file)
        with kibitz.agent(file, "fleet") as agent:  # the restored store works
            assert agent.ask().id == 1
            assert agent.check() == []
        for leftover in tmp_path.glob("shop.db*"):
            leftover.unlink()


def test_a_file_replaced_during_the_commit_is_noticed(tmp_path, monkeypatch):
    """The last check comes after the commit, so a lost operation is not acknowledged."""
    file, backup = tmp_path / "shop.db", tmp_path / "backup.db"
    create_agent(backup).close()
    shutil.copy(backup, file)
    execute = sqlite.SQLiteDatabase.execute

    def replace_before_commit(self, statement, *values):
        if statement == "commit":
            replace_file(file, backup)
        return execute(self, statement, *values)

    with kibitz.agent(file, "fleet") as agent:
        monkeypatch.setattr(sqlite.SQLiteDatabase, "execute", replace_before_commit)
        with pytest.raises(StoreUnavailable, match="was replaced while it was in use"):
            agent.ask()


def lose_log(file, n_lost=3):
    """Kill a process after `n_lost` acknowledged observations, and delete its write-ahead log."""
    create_agent(file).close()
    child = os.fork()
    if child == 0:
        agent = kibitz.agent(file, "fleet")
        for _ in range(n_lost):
            agent.observe("a", 1.0)
        os._exit(0)
    assert wait_for_exit(child) == 0
    Path(f"{file}-wal").unlink()
    Path(f"{file}-shm").unlink()


def test_a_deleted_write_ahead_log_is_noticed(tmp_path):
    """Opening the store warns; the check lists the loss until the user deletes the lock file."""
    file = tmp_path / "shop.db"
    lose_log(file)
    sentence = r"3 acknowledged events of store .* are missing: its write-ahead log was deleted"
    with pytest.warns(RuntimeWarning, match=sentence), kibitz.agent(file, "fleet") as agent:
        assert agent.observe("a", 1.0) == "counted"  # the agent works
    problem = "2 acknowledged events are missing: the write-ahead log was deleted or an older copy"
    with pytest.warns(RuntimeWarning, match="2 acknowledged events"):
        discrepancies = check_store(str(file))
    assert discrepancies["fleet"] == []
    assert discrepancies["file"][0].startswith(problem)
    Path(f"{file}-lock").unlink()
    assert check_store(str(file)) == {"fleet": []}


def test_the_loss_of_a_store_that_was_only_in_its_write_ahead_log_is_noticed(tmp_path):
    file = tmp_path / "shop.db"
    child = os.fork()
    if child == 0:
        create_agent(file)
        os._exit(0)
    assert wait_for_exit(child) == 0
    Path(f"{file}-wal").unlink()
    Path(f"{file}-shm").unlink()
    with pytest.raises(kibitz.StoreDamaged, match="is empty, but 3 events were acknowledged"):
        check_store(str(file))


def test_a_killed_process_and_a_damaged_lock_file_raise_no_false_alarm(tmp_path):
    """If the write-ahead log exists, no event is missing; the lock file may have any content."""
    file = tmp_path / "shop.db"
    create_agent(file).close()
    for content in (None, b"", b"x" * 50, b"-7", b"00000000000000000003"):
        if content is not None:
            Path(f"{file}-lock").write_bytes(content)
        child = os.fork()
        if child == 0:
            kibitz.agent(file, "fleet").observe("a", 1.0)
            os._exit(0)
        assert wait_for_exit(child) == 0
        assert check_store(str(file)) == {"fleet": []}
    file.unlink()
    create_agent(file).close()  # a new store has lost nothing
    assert check_store(str(file)) == {"fleet": []}


def test_a_write_ahead_log_deleted_under_an_agent_is_noticed(tmp_path):
    """The agent does not acknowledge an operation that no other process could read."""
    file = tmp_path / "shop.db"
    with create_agent(file) as agent:
        agent.observe("a", 1.0)
        Path(f"{file}-wal").unlink()
        with pytest.raises(StoreUnavailable, match=r"write-ahead log of store .* was deleted while"):
            agent.observe("a", 1.0)


def test_a_store_stays_open_when_the_working_directory_changes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with create_agent("shop.db") as agent:
        (tmp_path / "folder").mkdir()
        monkeypatch.chdir(tmp_path / "folder")
        assert agent.ask().id == 1
        agent.store.close()
        assert agent.ask().id == 2
    assert list(tmp_path.glob("folder/*")) == []


def test_a_locked_file_raises_store_unavailable_after_a_wait(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.2)
    file = tmp_path / "shop.db"
    with create_agent(file) as agent:
        other_connection = sqlite3.connect(file, isolation_level=None)
        other_connection.execute("begin immediate")
        with pytest.raises(StoreUnavailable, match=r"store .*shop\.db' is unavailable: another proc"):
            agent.ask()
        assert len(list(agent.events())) == 3  # readers are not blocked
        other_connection.execute("rollback")
        other_connection.close()
        assert agent.ask().id == 1


def test_a_reader_does_not_block_a_writer(url):
    with create_agent(url) as agent:
        agent.ask(n=3)

        def work(database):
            before = database.execute("select count(*) from events")
            agent.ask()
            return before, database.execute("select count(*) from events")

        assert agent.store.read(work) == ([(6,)], [(6,)])
        assert len(list(agent.events())) == 7


def test_an_error_in_a_transaction_rolls_it_back(url, monkeypatch):
    with create_agent(url) as agent:
        decision = agent.ask()
        events_before = list(agent.events())
        monkeypatch.setattr("kibitz.live.store.queries.SET_ARM", "no_such_column = ?")
        for operation in (
            agent.ask, agent.look, lambda: agent.tell(decision.id, 1.0),
            lambda: agent.observe("a", 1.0),
        ):  # fmt: skip
            with pytest.raises(Exception, match=r"no_such_column|binding|placeholders"):
                operation()
        monkeypatch.undo()
        assert list(agent.events()) == events_before
        assert agent.check() == []
        assert agent.tell(decision.id, 1.0) == "counted"


def test_a_full_disk_raises_store_unavailable_and_leaves_no_partial_data(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("only root can mount a small disk")
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


def fill_store(file, n=400):
    with create_agent(file) as agent:
        agent.tell([(decision.id, 0.5) for decision in agent.ask(n=n)])
    return file.stat().st_size


@pytest.mark.parametrize("damage", ["torn", "overwritten", "no database"])
def test_a_damaged_file_is_rejected_and_check_lists_readable_events(tmp_path, damage):
    file = tmp_path / "shop.db"
    size = fill_store(file)
    assert check_store(str(file)) == {"fleet": []}
    content = bytearray(file.read_bytes())
    if damage == "torn":
        content = content[: size // 2 // 4096 * 4096]
    elif damage == "overwritten":
        with contextlib.closing(sqlite3.connect(file)) as connection:
            last_root = connection.execute("select max(rootpage) from sqlite_schema").fetchone()[0]
        n_pages = last_root + 1  # the last page of the schema follows the roots; it stays readable
        content[n_pages * 4096 :] = b"\xff" * (size - n_pages * 4096)
    else:
        content = bytearray(b"blue,green\n" * 1000)
    file.write_bytes(content)

    def use():
        with create_agent(file) as agent:
            agent.ask()
            list(agent.events())

    with pytest.raises(ValueError, match=r"store .* is damaged or not a SQLite file .*agent check"):
        use()
    if damage == "no database":
        with pytest.raises(ValueError, match=r"store .* is damaged or not a SQLite file"):
            check_store(str(file))
        return
    discrepancies = check_store(str(file))
    discrepancy_text = json.dumps(discrepancies)
    assert "damaged" in discrepancy_text
    assert "can be read" in discrepancy_text


def test_check_lists_discrepancies_with_the_log(tmp_path):
    file = tmp_path / "shop.db"
    fill_store(file, 20)
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
    with pytest.raises(ValueError, match=r"store .* has schema 7, but .* up to 0; upgrade kibitz"):
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


def test_a_store_of_schema_3_is_migrated(tmp_path):
    """Old agents get the kind of rewards of their policy, and settled counts from the log."""
    file = tmp_path / "shop.db"
    shutil.copy(FILES / "schema-3.db", file)
    names = ("n_observed", "n_settled", "settled_sum", "settled_squares", "n_unsettled", "n_late")
    for name, rewards, scale, counts in [
        # At the last event, decisions 1 to 8 are older than the patience of 10 s. The click on
        # decision 3 came late; the click on decision 2 was corrected.
        ("clicks", "bernoulli", None, [(3, 3, 1.0, 1.0, 2, 1), (7, 5, 0.0, 0.0, 4, 0)]),
        ("checkout", "gaussian", 0.5, None),
        ("rates", "gaussian", 0.5, None),
    ]:
        with kibitz.agent(file, name) as agent:
            agent.now = lambda: 0.0  # no decision settles after the last event
            assert agent.check() == []
            assert (agent.config.rewards, agent.config.data["scale"]) == (rewards, scale)
            arms = agent.arms()
            if counts is not None:
                assert [tuple(getattr(arm, n) for n in names) for arm in arms] == counts
            if name == "checkout":  # the agent forgets, so every reported reward is settled
                for arm in arms:
                    assert (arm.n_settled, arm.n_unsettled) == (arm.n_observed, 0)
                    assert arm.settled_sum == pytest.approx(arm.pull_sum + arm.look_sum)


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ("update kibitz set version = 'four'", "'four'"),
        ("update kibitz set version = 4.5", r"4\.5"),
        ("delete from kibitz", r"\[\]"),
        ("insert into kibitz (version) values (4)", r"\[7, 4\]"),
    ],
)
def test_a_schema_version_that_is_not_a_number_is_rejected(tmp_path, change, shown):
    file = tmp_path / "shop.db"
    create_agent(file).close()
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute(change)
        connection.commit()
    sentence = rf"is damaged: its schema version must be one whole number, got {shown}; restore"
    with pytest.raises(kibitz.StoreDamaged, match=sentence):
        kibitz.agent(file, "checkout")


@pytest.mark.parametrize("stored", ["", "x", "null", "[]", "{}", '{"arms": ["a", "b"]}', 5])
def test_a_damaged_configuration_is_rejected(tmp_path, service, stored):
    file = tmp_path / "shop.db"
    create_agent(file).close()
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("update agents set config = ?", (stored,))
        connection.commit()
    with pytest.raises(kibitz.StoreDamaged, match="the configuration of agent 'fleet' is damaged"):
        kibitz.agent(file, "fleet")
    discrepancies = check_store(str(file))
    assert "configuration of agent 'fleet' is damaged" in discrepancies["file"][0]
    assert discrepancies["fleet"] == ["events 1 to 3 of the log can be read"]
    assert service(str(file)).send("POST", "/v1/agents/fleet/ask")[0] == 500


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


@pytest.mark.parametrize(
    ("version", "names"),
    [
        (1, ["checkout"]),
        (2, ["checkout", "shop"]),
        (3, ["clicks", "checkout", "rates"]),
        (4, ["checkout", "banner", "price"]),
        (5, ["clicks", "price", "phases"]),
        (6, ["checkout"]),
    ],
)
def test_a_migrated_store_replays_without_discrepancies(url, version, names):
    """A replay of the log gives the stored state after the migration and after further decisions."""
    file = FILES / f"schema-{version}.db"
    copy_store(file, url) if url.startswith("postgresql:") else shutil.copy(file, url)
    for name in names:
        with kibitz.agent(url, name) as agent:
            assert agent.check() == []
            before = list(agent.events())
            agent.now = lambda last=before[-1].at: last + 1.0  # the file has times in the future
            agent.tell(agent.ask().id, 1.0)
            agent.tell(agent.look().id, 0.0)
            agent.observe(agent.arms()[0].name, 1.0, key="after the migration")
            assert agent.check() == []
            assert list(agent.events())[: len(before)] == before
            assert agent.store.read(
                lambda database: database.execute("select version from kibitz")
            ) == [(schema.VERSION,)]


def test_an_older_schema_is_migrated_and_an_unknown_schema_is_rejected(tmp_path, monkeypatch):
    file = tmp_path / "shop.db"
    shutil.copy(FILES / "schema-1.db", file)
    with monkeypatch.context() as later:
        later.setattr(schema, "VERSION", schema.VERSION + 1)
        with pytest.raises(ValueError, match=rf"store .* has unknown schema {schema.VERSION - 1}"):
            kibitz.agent(file, "checkout")
    with kibitz.agent(file, "checkout") as agent:
        assert agent.store.read(lambda database: database.execute("select version from kibitz")) == [
            (schema.VERSION,)
        ]
        assert agent.store.read(lambda database: database.execute("select * from tokens")) == []
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


def test_sqlite_addresses_are_accepted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    create_agent("sqlite:///shop.db").close()
    create_agent(f"sqlite:///{tmp_path}/shop.db").close()
    assert (tmp_path / "shop.db").exists()


def test_an_unreachable_postgresql_fails_at_once(tmp_path):
    start = time.monotonic()
    with pytest.raises(StoreUnavailable, match=r"store .* is unavailable") as error:
        create_agent(f"postgresql://nobody:secret@/shop?host={tmp_path}")
    assert time.monotonic() - start < 5
    assert "secret" not in str(error.value)


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
    answers, errors, stop = [], [], threading.Event()
    create_agent(database).close()

    def work():
        with kibitz.agent(database, "fleet") as agent:
            while not stop.is_set():
                try:
                    decision = agent.ask()
                    answers.append(("ask", decision.id))
                    answers.append((agent.tell(decision.id, 1.0), decision.id))
                except StoreUnavailable as error:
                    errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for mode in ("fast", "immediate"):
        time.sleep(0.5)
        stop_and_start(postgresql, mode)
        n_before = len(answers)
        deadline = time.monotonic() + 30
        while len(answers) < n_before + 30 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(answers) >= n_before + 30, "the work must continue"
    stop.set()
    for thread in threads:
        thread.join()
    with kibitz.agent(database, "fleet") as agent:
        assert agent.check() == []
        events = list(agent.events())
    asked_ids = [event.id for event in events if event.kind == "pull"]
    told_ids = [event.id for event in events if event.kind == "told"]
    assert asked_ids == list(range(1, len(asked_ids) + 1))
    # No answer to an ask or a tell was lost.
    assert {id for word, id in answers if word == "ask"} == set(asked_ids)
    assert {id for word, id in answers if word == "counted"} == set(told_ids)
    assert not [word for word, _ in answers if word == "duplicate"]
