"""Benchmark executors (`make bench`): overhead per job, speed-up of two workers, and memory.

The script prints the load of the machine, then the results. It does not save the results, because
they depend on the machine and its load. docs/cluster.md quotes them. `--quick` runs a tenth of the
work.
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
from kibitz.simulation.executors import count_cores, play_all
from kibitz.simulation.jobs import Job, play
from kibitz.simulation.schedule import log_spaced

PROBLEM, FEEDBACK = kibitz.gaussian([2, 1.8, 1.5, 1, 0.5]), kibitz.active(0.1)
MAX_MEGABYTES = 500
MIN_SPEEDUP = 1.8
PAYLOAD_SECONDS = executors.PAYLOAD_SECONDS  # the default, before `main` changes it


def make_job(horizon, runs=1, seed=1):
    """Return a job that simulates UCB1-Double."""
    stages = log_spaced(horizon)
    return Job(None, kibitz.ucb_double(), PROBLEM, FEEDBACK, horizon, stages, seed, 0, runs)


def make_dask(stack, n):
    """Return the executor of a Dask cluster with n worker processes on this machine."""
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 60}
    cluster = stack.enter_context(LocalCluster(n_workers=n, **options))
    return stack.enter_context(Client(cluster)).get_executor()


def make_pool(stack, n):
    """Return a pool of n spawned processes."""
    return stack.enter_context(ProcessPoolExecutor(n, mp_context=get_context("spawn")))


def measure(jobs, workers, executor):
    """Return the wall time of running the jobs, each in its own payload."""
    start = time.perf_counter()
    for _ in play_all(jobs, workers, lambda share: None, executor):
        pass
    return time.perf_counter() - start


def record_busy_seconds(executor):
    """Return a list that collects the seconds that workers spend on each payload."""
    busy_seconds, submit = [], executor.submit

    def submit_and_record(function, *arguments):
        future = submit(function, *arguments)
        future.add_done_callback(lambda done: busy_seconds.append(done.result().seconds))
        return future

    executor.submit = submit_and_record
    return busy_seconds


def report_overhead(n):
    """Print the overhead per job of each executor, measured with n tiny jobs."""
    print(f"\nOverhead per job, ms: {n} tiny jobs, one worker")
    # Seeds differ, because Dask runs equal calls only once.
    new_jobs = (make_job(10, seed=seed) for seed in count())
    with ExitStack() as stack:
        executors_by_label = {
            "threads": None,
            "spawned process": make_pool(stack, 1),
            "dask": make_dask(stack, 1),
        }
        for label, executor in executors_by_label.items():
            measure(list(islice(new_jobs, 5)), 1, executor)  # start the workers and load the kernel
            per_job = min(measure(list(islice(new_jobs, n)), 1, executor) for _ in range(3)) / n
            print(f"{label:<28}{1000 * per_job:8.2f}   {per_job / PAYLOAD_SECONDS:8.2%} of a payload")


def report_speedup(n):
    """Print the speed-up of two workers over one process, with n jobs of one second each."""
    trial = make_job(10_000, 100)
    play(trial)
    start = time.process_time()
    play(trial)
    runs = max(1, round(100 / (time.process_time() - start)))
    print(f"\nTwo workers against one process: {n} jobs of one CPU second")
    jobs = [make_job(10_000, runs, seed) for seed in range(n)]
    with ExitStack() as stack:
        executors_by_label = {
            "two threads": None,
            "two spawned": make_pool(stack, 2),
            "dask, two": make_dask(stack, 2),
        }
        for executor in executors_by_label.values():
            if executor is not None:
                measure([make_job(10, seed=seed) for seed in range(8)], 2, executor)
        one_thread = measure(jobs, 1, None)
        print(f"{'one process, one thread':<28}{one_thread:8.2f} s")
        for label, executor in executors_by_label.items():
            busy_seconds = [] if executor is None else record_busy_seconds(executor)
            wall = measure(jobs, 2, executor)
            busy_share = sum(busy_seconds) / wall / 2
            remark = f"   target: at least {MIN_SPEEDUP}; busy for {busy_share:.0%} of the time"
            speedup = one_thread / wall
            print(f"{label:<28}{wall:8.2f} s{speedup:8.2f} x{remark if busy_seconds else ''}")


def report_memory(cells):
    """Print the memory of a client process that sweeps many cells into a store."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--client", str(Path(folder) / "x.zarr"), str(cells)]
        subprocess.run(command, check=True)


def sweep_and_report(store, cells):
    """Sweep many cells into a store; print the memory, the wall time and the size of the store."""
    rates = np.linspace(0, 1, cells).tolist()
    setting = {"horizon": 1000, "runs": 50, "seed": 1, "file": store}
    with ExitStack() as stack:
        executor = make_dask(stack, 2)
        few_cells = kibitz.sweep(
            PROBLEM, kibitz.active, kibitz.ucb_double(), rate=rates[:2],
            **{**setting, "file": f"{store}.nc"}, executor=executor,
        )  # fmt: skip
        memory_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        start = time.perf_counter()
        kibitz.sweep(
            PROBLEM, kibitz.active, kibitz.ucb_double(), rate=rates, **setting, executor=executor
        )
        wall = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    table = few_cells.nbytes / 2 * cells / 2**20
    files = sum(1 for _ in Path(store).rglob("c.*"))
    disk = sum(path.stat().st_size for path in Path(store).rglob("*")) / 2**20
    print(f"\nMemory of the client: a store of {cells} cells, a table of {table:.0f} MB")
    print(f"{'before':<28}{memory_before:8.0f} MB: libraries, and a sweep of two cells")
    print(f"{'at most':<28}{peak:8.0f} MB   target: at most {MAX_MEGABYTES}")
    print(f"{'wall time':<28}{wall:8.1f} s, {1000 * wall / cells:.1f} ms a cell")
    print(f"{'on disk':<28}{disk:8.0f} MB in {files} files")


def main():
    """Run all benchmarks."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--client", nargs=2, metavar=("STORE", "CELLS"), help=argparse.SUPPRESS)
    arguments = options.parse_args()
    if arguments.client:
        sweep_and_report(arguments.client[0], int(arguments.client[1]))
        return
    load_averages = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    print(f"{count_cores()} cores; load of the last 1, 5 and 15 minutes: {load_averages}")
    share = 10 if arguments.quick else 1
    executors.PAYLOAD_SECONDS = 1e-9  # each job becomes a payload of its own
    report_overhead(300 // share)
    report_speedup(max(2, 16 // share))  # an even number of jobs, for two workers
    report_memory(10_000 // share)


if __name__ == "__main__":
    main()
