"""Choice and compilation of the kernels of a simulation.

A generic kernel plays short simulations. It also plays the beginning of a long simulation, until the
specialised kernel has been compiled in the background. If several kernels are missing, parallel
processes compile them.
"""

import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import Thread

from kibitz.engine.background import CAN_COMPILE, compile_in_background, is_compiling, wait_for
from kibitz.engine.kernel import Kernel
from kibitz.simulation.executors import cores
from kibitz.simulation.jobs import (
    Job,
    choose_kernel,
    estimate_seconds,
    generic_kernel,
    play,
    specialised_kernel,
)
from kibitz.simulation.options import Progress

SPECIALISE_SECONDS = 20.0  # if a simulation takes longer, a specialised kernel saves time
SPECIALISE_AHEAD_SECONDS = 10.0  # the same limit for a kernel compiled before it is needed


def load_kernels(jobs: list[Job], report: Progress) -> dict[Hashable, Job]:
    """Load or compile the kernels of jobs; return one job for each generic kernel.

    The keys of the returned dict are the keys of the specialised kernels (`_group_by_kernel`).
    """
    first = {key: group[0] for key, group in _group_by_kernel(jobs).items()}
    for job in first.values():
        for kernel in (specialised_kernel(job), generic_kernel(job)):
            if kernel is not None and is_compiling(kernel):
                report(f"compiling {job.policy.name}", 0.0)
                wait_for(kernel)
    kernels = {key: choose_kernel(job) for key, job in first.items()}
    missing = [k for k in kernels.values() if not k.generic and not k.is_ready()]
    if len(missing) > 1 and CAN_COMPILE:
        report("compiling " + ", ".join(dict.fromkeys(k.policy.name for k in missing)), 0.0)
        with compile_in_background(missing, cores()):
            for kernel in missing:
                wait_for(kernel)
    for kernel in kernels.values():
        _compile(kernel, report)
    return {key: first[key] for key, kernel in kernels.items() if kernel.generic}


def _compile(kernel: Kernel, report: Progress) -> None:
    def announce() -> None:
        report(f"compiling {kernel.policy.name}", 0.0)
        # the results will need xarray, so import it while numba compiles
        Thread(target=import_module, args=("xarray",), daemon=True).start()

    kernel.compile(announce)


def _group_by_kernel(jobs: list[Job]) -> dict[Hashable, list[Job]]:
    """Group jobs by the key of their specialised kernel."""
    keys: dict[Hashable, Hashable] = {}
    grouped: dict[Hashable, list[Job]] = {}
    for job in jobs:
        quick_key = (id(job.policy), id(job.feedback), job.leap, job.horizon)
        if quick_key not in keys:
            keys[quick_key] = specialised_kernel(job).key
        grouped.setdefault(keys[quick_key], []).append(job)
    return grouped


@contextmanager
def prepare_kernels(
    jobs: list[Job], elsewhere: bool, workers: Callable[[], int], report: Progress
) -> Iterator[tuple[list[Job], dict[str, str]]]:
    """Load or compile the kernels of jobs; compile specialised kernels while the `with` block runs.

    `elsewhere` says whether an executor plays the jobs; its workers then compile specialised kernels
    themselves. `workers` returns the number of workers. Yield the jobs, and a dict that is filled
    after the block: for each policy, the kernels that played it ("specialised", "generic" or "generic
    and specialised").
    """
    generic, by_kernel = load_kernels(jobs, report), _group_by_kernel(jobs)
    seconds = {key: sum(map(estimate_seconds, by_kernel[key])) for key in generic}
    threshold = SPECIALISE_SECONDS * (workers() if generic and elsewhere else 1)
    long_work = {k: j for k, j in generic.items() if j.kernel == "auto" and seconds[k] >= threshold}
    if elsewhere or not CAN_COMPILE:
        chosen = {id(job) for key in long_work for job in by_kernel[key]}
        jobs = [job._replace(kernel="specialised") if id(job) in chosen else job for job in jobs]
        long_work = {}
    used: dict[str, str] = {}
    kernels = [specialised_kernel(job) for job in long_work.values()]
    with compile_in_background(kernels, 1):
        yield jobs, used
    kinds = dict.fromkeys(generic, "generic")
    kinds |= {
        key: "generic and specialised"
        for key, k in zip(long_work, kernels, strict=True)
        if k.is_ready()
    }
    for key, group in by_kernel.items():
        used.update(dict.fromkeys((job.label[1] for job in group), kinds.get(key, "specialised")))


@contextmanager
def compile_kernels_for(jobs: list[Job]) -> Iterator[None]:
    """Compile the kernels of jobs in the background while the `with` block runs."""
    kernels = []
    for group in _group_by_kernel(jobs).values():
        job, seconds = group[0], sum(map(estimate_seconds, group))
        specialised, generic = specialised_kernel(job), generic_kernel(job)
        if generic is not None and (job.leap or seconds < SPECIALISE_AHEAD_SECONDS):
            needed = generic
        else:
            needed = specialised
        if not specialised.is_ready() and not needed.is_ready():
            kernels.append(needed)
    with compile_in_background(kernels, cores()):
        yield


def time_job(job: Job) -> tuple[float, str]:
    """Return the CPU time of a job (the shortest of three), and the kind of its kernel."""
    kernel = choose_kernel(job)
    kernel.compile()
    times = []
    for _ in range(3):
        start = time.process_time()
        play(job)
        times.append(time.process_time() - start)
    return min(times), "generic" if kernel.generic else "specialised"
