"""Which kernels the jobs of a simulation need, and when they are compiled.

Short work of a policy with a generic kernel is played by that kernel. While it plays long work, the
specialised kernel is compiled in the background, and jobs that begin later use it. Several missing
kernels are compiled in several processes at once.
"""

from collections import Counter
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
    specialised_kernel,
)

Progress = Callable[[str, float], None]

SPECIALISE_SECONDS = 20.0  # of work from which on a specialised kernel is worth its compilation
SPECIALISE_AHEAD_SECONDS = 10.0  # the same where it is compiled before anybody waits for it


def prepare(jobs: list[Job], tell: Progress) -> dict[Hashable, Job]:
    """Load or compile the kernels of jobs; return a job for each generic one among them."""
    first = first_jobs(jobs)
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


def first_jobs(jobs: list[Job]) -> dict[Hashable, Job]:
    """Return the first job of each specialised kernel."""
    return {key: some[0] for key, some in _by_kernel(jobs).items()}


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


def worth_specialising(
    generic: dict[Hashable, Job], jobs: list[Job], n_compilers: int
) -> dict[Hashable, Job]:
    """Return those generic kernels with enough work left to pay for a specialised one."""
    seconds: Counter[Hashable] = Counter()
    for key, some in _by_kernel(jobs).items() if generic else ():
        seconds[key] += sum(map(expected_seconds, some))  # type: ignore[assignment]
    enough = SPECIALISE_SECONDS * n_compilers
    return {k: job for k, job in generic.items() if job.loop == "auto" and seconds[k] >= enough}


@contextmanager
def specialise_in_background(jobs: list[Job]) -> Iterator[None]:
    """Compile the specialised kernels of jobs in one other process while the block runs."""
    with compile_in_background([specialised_kernel(job) for job in jobs], 1):
        yield


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


def kernels_used(
    jobs: list[Job], generic: dict[Hashable, Job], specialised: dict[Hashable, Job]
) -> dict[str, str]:
    """Return which kernels played each policy: "final" (specialised), "draft" (generic), or both."""
    used = dict.fromkeys(generic, "draft")
    for key, job in specialised.items():
        if specialised_kernel(job).is_ready():
            used[key] = "draft and final"
    return {
        job.label[1]: used.get(key, "final") for key, some in _by_kernel(jobs).items() for job in some
    }
