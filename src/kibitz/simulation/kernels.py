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

from kibitz._progress import Progress
from kibitz.engine.background import CAN_COMPILE, compile_in_background, is_compiling, wait_for
from kibitz.engine.kernel import Kernel
from kibitz.simulation.executors import count_cores
from kibitz.simulation.jobs import (
    Job,
    choose_kernel,
    estimate_seconds,
    generic_kernel,
    play,
    specialised_kernel,
)

SPECIALISE_SECONDS = 20.0  # if a simulation takes longer, a specialised kernel saves time
SPECIALISE_AHEAD_SECONDS = 10.0  # the same limit for a kernel compiled before it is needed


def load_kernels(jobs: list[Job], report: Progress) -> dict[Hashable, Job]:
    """Load or compile the kernel that plays each job, and find the jobs with a generic kernel.

    Return a dict with one job for each generic kernel. The key of a job is the key of its specialised
    kernel.
    """
    first_jobs = {key: group[0] for key, group in _group_by_kernel(jobs).items()}
    for job in first_jobs.values():
        for kernel in (specialised_kernel(job), generic_kernel(job)):
            if kernel is not None and is_compiling(kernel):
                report(f"compiling {job.policy.name}", 0.0)
                wait_for(kernel)
    kernels = {key: choose_kernel(job) for key, job in first_jobs.items()}
    missing_kernels = [k for k in kernels.values() if not k.generic and not k.is_ready()]
    if len(missing_kernels) > 1 and CAN_COMPILE:
        report("compiling " + ", ".join(dict.fromkeys(k.policy.name for k in missing_kernels)), 0.0)
        with compile_in_background(missing_kernels, count_cores()):
            for kernel in missing_kernels:
                wait_for(kernel)
    for kernel in kernels.values():
        _compile(kernel, report)
    return {key: first_jobs[key] for key, kernel in kernels.items() if kernel.generic}


def _compile(kernel: Kernel, report: Progress) -> None:
    def announce() -> None:
        report(f"compiling {kernel.policy.name}", 0.0)
        # the results will need xarray, so import it while numba compiles
        Thread(target=import_module, args=("xarray",), daemon=True).start()

    kernel.compile(announce)


def _group_by_kernel(jobs: list[Job]) -> dict[Hashable, list[Job]]:
    """Group jobs by the key of their specialised kernel."""
    keys: dict[Hashable, Hashable] = {}
    groups: dict[Hashable, list[Job]] = {}
    for job in jobs:
        quick_key = (
            id(job.policy), id(job.feedback), job.leap, job.horizon, bool(job.problem.pieces)
        )  # fmt: skip
        if quick_key not in keys:
            keys[quick_key] = specialised_kernel(job).key
        groups.setdefault(keys[quick_key], []).append(job)
    return groups


@contextmanager
def prepare_kernels(
    jobs: list[Job], on_executor: bool, count_workers: Callable[[], int], report: Progress
) -> Iterator[tuple[list[Job], dict[str, str]]]:
    """Load or compile the kernels of jobs; compile specialised kernels while the `with` block runs.

    `on_executor` says whether an executor plays the jobs; its workers then compile specialised
    kernels themselves. `count_workers` returns the number of workers. Yield the jobs, and a dict that
    is filled after the block: for each policy, the kernels that played it ("specialised", "generic"
    or "generic and specialised").
    """
    generic_jobs, jobs_by_kernel = load_kernels(jobs, report), _group_by_kernel(jobs)
    seconds_by_key = {key: sum(map(estimate_seconds, jobs_by_kernel[key])) for key in generic_jobs}
    threshold = SPECIALISE_SECONDS * (count_workers() if generic_jobs and on_executor else 1)
    long_jobs = {
        k: j for k, j in generic_jobs.items() if j.kernel == "auto" and seconds_by_key[k] >= threshold
    }
    if on_executor or not CAN_COMPILE:
        specialised_ids = {id(job) for key in long_jobs for job in jobs_by_kernel[key]}
        jobs = [
            job._replace(kernel="specialised") if id(job) in specialised_ids else job for job in jobs
        ]
        long_jobs = {}
    kernel_names: dict[str, str] = {}
    kernels = [specialised_kernel(job) for job in long_jobs.values()]
    with compile_in_background(kernels, 1):
        yield jobs, kernel_names
    names_by_key = dict.fromkeys(generic_jobs, "generic")
    names_by_key |= {
        key: "generic and specialised"
        for key, k in zip(long_jobs, kernels, strict=True)
        if k.is_ready()
    }
    names_by_key |= {k: "python" for k, group in jobs_by_kernel.items() if group[0].policy.is_python}
    for key, group in jobs_by_kernel.items():
        kernel_names.update(
            dict.fromkeys((job.label[1] for job in group), names_by_key.get(key, "specialised"))
        )


@contextmanager
def compile_kernels_for(jobs: list[Job]) -> Iterator[None]:
    """Compile the kernels of jobs in the background while the `with` block runs."""
    kernels = []
    for group in _group_by_kernel(jobs).values():
        job, seconds = group[0], sum(map(estimate_seconds, group))
        specialised_candidate, generic_candidate = specialised_kernel(job), generic_kernel(job)
        if generic_candidate is not None and (job.leap or seconds < SPECIALISE_AHEAD_SECONDS):
            needed_kernel = generic_candidate
        else:
            needed_kernel = specialised_candidate
        if not specialised_candidate.is_ready() and not needed_kernel.is_ready():
            kernels.append(needed_kernel)
    with compile_in_background(kernels, count_cores()):
        yield


def time_job(job: Job) -> tuple[float, str]:
    """Return the CPU time of a job, the shortest of three repetitions, and the kind of its kernel."""
    kernel = choose_kernel(job)
    kernel.compile()
    times = []
    for _ in range(3):
        start_time = time.process_time()
        play(job)
        times.append(time.process_time() - start_time)
    return min(times), "generic" if kernel.generic else "specialised"
