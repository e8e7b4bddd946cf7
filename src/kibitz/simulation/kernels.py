"""Which kernels the jobs of a simulation need, and when they are compiled.

A generic kernel plays short work, and long work until its specialised kernel is compiled in the
background. Several missing kernels are compiled in several processes at once.
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
    expected_seconds,
    generic_kernel,
    kernel_of,
    play,
    specialised_kernel,
)
from kibitz.simulation.options import Progress

SPECIALISE_SECONDS = 20.0  # of work from which on a specialised kernel is worth its compilation
SPECIALISE_AHEAD_SECONDS = 10.0  # the same where it is compiled before anybody waits for it


def prepare(jobs: list[Job], tell: Progress) -> dict[Hashable, Job]:
    """Load or compile the kernels of jobs; return a job for each generic one among them."""
    first = {key: some[0] for key, some in _by_kernel(jobs).items()}
    for job in first.values():
        for kernel in (specialised_kernel(job), generic_kernel(job)):
            if kernel is not None and is_compiling(kernel):
                tell(f"compiling {job.policy.name}", 0.0)
                wait_for(kernel)
    kernels = {key: kernel_of(job) for key, job in first.items()}
    missing = [k for k in kernels.values() if not k.generic and not k.is_ready()]
    if len(missing) > 1 and CAN_COMPILE:
        tell("compiling " + ", ".join(dict.fromkeys(k.policy.name for k in missing)), 0.0)
        with compile_in_background(missing, cores()):
            for kernel in missing:
                wait_for(kernel)
    for kernel in kernels.values():
        _compile(kernel, tell)
    return {key: first[key] for key, kernel in kernels.items() if kernel.generic}


def _compile(kernel: Kernel, tell: Progress) -> None:
    def announce() -> None:
        tell(f"compiling {kernel.policy.name}", 0.0)
        # results need xarray, which can be imported while numba compiles
        Thread(target=import_module, args=("xarray",), daemon=True).start()

    kernel.compile(announce)


def _by_kernel(jobs: list[Job]) -> dict[Hashable, list[Job]]:
    """Return jobs by the key of their specialised kernel."""
    keys: dict[Hashable, Hashable] = {}
    grouped: dict[Hashable, list[Job]] = {}
    for job in jobs:
        same = (id(job.policy), id(job.feedback), job.leap, job.horizon)
        if same not in keys:
            keys[same] = specialised_kernel(job).key
        grouped.setdefault(keys[same], []).append(job)
    return grouped


@contextmanager
def compiled(
    jobs: list[Job], elsewhere: bool, workers: Callable[[], int], tell: Progress
) -> Iterator[tuple[list[Job], dict[str, str]]]:
    """Load or compile the kernels of jobs; compile specialised ones while the block runs.

    `elsewhere` says whether the workers of an executor play, each of which compiles for itself;
    `workers` says how many there are.
    Yield the jobs, and a dict that says, when the block is left, which kernels played each policy:
    "specialised", "generic" or "generic and specialised".
    """
    generic, by_kernel = prepare(jobs, tell), _by_kernel(jobs)
    seconds = {key: sum(map(expected_seconds, by_kernel[key])) for key in generic}
    enough = SPECIALISE_SECONDS * (workers() if generic and elsewhere else 1)
    worth = {k: j for k, j in generic.items() if j.kernel == "auto" and seconds[k] >= enough}
    if elsewhere or not CAN_COMPILE:
        chosen = {id(job) for key in worth for job in by_kernel[key]}
        jobs = [job._replace(kernel="specialised") if id(job) in chosen else job for job in jobs]
        worth = {}
    used: dict[str, str] = {}
    kernels = [specialised_kernel(job) for job in worth.values()]
    with compile_in_background(kernels, 1):
        yield jobs, used
    kinds = dict.fromkeys(generic, "generic")
    kinds |= {
        key: "generic and specialised" for key, k in zip(worth, kernels, strict=True) if k.is_ready()
    }
    for key, some in by_kernel.items():
        used.update(dict.fromkeys((job.label[1] for job in some), kinds.get(key, "specialised")))


@contextmanager
def compile_ahead(jobs: list[Job]) -> Iterator[None]:
    """Compile the kernels that jobs will need in the background while the block runs."""
    kernels = []
    for some in _by_kernel(jobs).values():
        job, seconds = some[0], sum(map(expected_seconds, some))
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
    """Return the processor time of a job, the best of three tries, and the kind of its kernel."""
    kernel = kernel_of(job)
    kernel.compile()
    tries = []
    for _ in range(3):
        begun = time.process_time()
        play(job)
        tries.append(time.process_time() - begun)
    return min(tries), "generic" if kernel.generic else "specialised"
