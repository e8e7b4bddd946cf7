"""What handing jobs to others costs: overhead per job, two workers, memory. Part of `make bench`.

Prints and keeps nothing: the figures are those of one machine, and of how busy it is, which is said
first. docs/cluster.md reckons with them. `--quick` takes a tenth of the time.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from itertools import count, islice
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import kibitz
from kibitz.simulation import executors
from kibitz.simulation.executors import cores, play_all
from kibitz.simulation.jobs import Job, play
from kibitz.simulation.schedule import log_spaced

PROBLEM, FEEDBACK = kibitz.gaussian([2, 1.8, 1.5, 1, 0.5]), kibitz.active(0.1)
MOST_MEGABYTES = 500
LEAST_GAIN = 1.8
SECONDS = executors.PAYLOAD_SECONDS  # that a payload should take


def job(horizon, runs=1, seed=1):
    """Return some runs to play."""
    stages = log_spaced(horizon)
    return Job(None, kibitz.ucb_double(), PROBLEM, FEEDBACK, horizon, stages, seed, 0, runs)


def dask(stack, n):
    """Return the executor of a Dask cluster of n worker processes on this machine."""
    from distributed import Client, LocalCluster

    each = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 60}
    cluster = stack.enter_context(LocalCluster(n_workers=n, **each))
    return stack.enter_context(Client(cluster)).get_executor()


def pool(stack, n):
    """Return a pool of n spawned processes."""
    return stack.enter_context(ProcessPoolExecutor(n, mp_context=get_context("spawn")))


def seconds(jobs, workers, executor):
    """Return the wall time that jobs take, each in a payload of its own."""
    begun = time.perf_counter()
    for _ in play_all(jobs, workers, lambda share: None, executor):
        pass
    return time.perf_counter() - begun


def watched(executor):
    """Return where the seconds are noted that workers play: on a busy machine they tell more."""
    busy, submit = [], executor.submit

    def noted(function, *arguments):
        future = submit(function, *arguments)
        future.add_done_callback(lambda done: busy.append(done.result().seconds))
        return future

    executor.submit = noted
    return busy


def overhead(n):
    """Print the time that a job takes beside its playing."""
    print(f"\nOverhead per job, ms: {n} jobs of next to nothing, one worker")
    # of different seeds, each time: Dask plays what is the same only once
    fresh = (job(10, seed=seed) for seed in count())
    with ExitStack() as stack:
        others = {"threads": None, "spawned process": pool(stack, 1), "dask": dask(stack, 1)}
        for label, executor in others.items():
            seconds(list(islice(fresh, 5)), 1, executor)  # starts, and finds the loop
            each = min(seconds(list(islice(fresh, n)), 1, executor) for _ in range(3)) / n
            print(f"{label:<28}{1000 * each:8.2f}   {each / SECONDS:8.2%} of a payload")


def gain(n):
    """Print how much sooner two workers are done than one process, with jobs of a second."""
    trial = job(10_000, 100)
    play(trial)
    begun = time.process_time()
    play(trial)
    runs = max(1, round(100 / (time.process_time() - begun)))
    print(f"\nTwo workers against one process: {n} jobs of a second of processor time")
    jobs = [job(10_000, runs, seed) for seed in range(n)]
    with ExitStack() as stack:
        others = {"two threads": None, "two spawned": pool(stack, 2), "dask, two": dask(stack, 2)}
        for executor in others.values():
            if executor is not None:
                seconds([job(10, seed=seed) for seed in range(8)], 2, executor)
        alone = seconds(jobs, 1, None)
        print(f"{'one process, one thread':<28}{alone:8.2f} s")
        for label, executor in others.items():
            busy = [] if executor is None else watched(executor)
            wall = seconds(jobs, 2, executor)
            share = f"   to be {LEAST_GAIN} or more; busy for {sum(busy) / wall / 2:.0%} of the time"
            print(f"{label:<28}{wall:8.2f} s{alone / wall:8.2f} x{share if busy else ''}")


def memory(cells):
    """Print the memory of a client that sweeps many cells into a store; this is another process."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--client", str(Path(folder) / "x.zarr"), str(cells)]
        subprocess.run(command, check=True)


def client(store, cells):
    """Sweep, and tell how much memory that took."""
    rates = np.linspace(0, 1, cells).tolist()
    setting = {"horizon": 1000, "runs": 50, "seed": 1, "file": store}
    with ExitStack() as stack:
        executor = dask(stack, 2)
        few = kibitz.sweep(
            PROBLEM, kibitz.active, kibitz.ucb_double(), rate=rates[:2],
            **{**setting, "file": f"{store}.nc"}, executor=executor,
        )  # fmt: skip
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        begun = time.perf_counter()
        kibitz.sweep(
            PROBLEM, kibitz.active, kibitz.ucb_double(), rate=rates, **setting, executor=executor
        )
        wall = time.perf_counter() - begun
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    table = few.nbytes / 2 * cells / 2**20
    files = sum(1 for _ in Path(store).rglob("c.*"))
    disk = sum(path.stat().st_size for path in Path(store).rglob("*")) / 2**20
    print(f"\nMemory of the client: a store of {cells} cells, a table of {table:.0f} MB")
    print(f"{'before':<28}{before:8.0f} MB: libraries, and a sweep of two cells")
    print(f"{'at most':<28}{most:8.0f} MB   to be {MOST_MEGABYTES} or less")
    print(f"{'wall time':<28}{wall:8.1f} s, {1000 * wall / cells:.1f} ms a cell")
    print(f"{'on disk':<28}{disk:8.0f} MB in {files} files")


def main():
    """Measure all of it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--client", nargs=2, metavar=("STORE", "CELLS"), help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.client:
        client(given.client[0], int(given.client[1]))
        return
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"{cores()} cores; load of the last 1, 5 and 15 minutes: {load}")
    share = 10 if given.quick else 1
    executors.PAYLOAD_SECONDS = 1e-9  # each job is a payload
    overhead(300 // share)
    gain(max(2, 16 // share))  # an even number, for two
    memory(10_000 // share)


if __name__ == "__main__":
    main()
