"""Loops that are compiled aside: in processes of their own.

Such a process keeps what it has compiled, and jobs that begin from then on find it (`jobs.play`). It
takes neither the interpreter's lock nor memory of this one: some twenty megabytes for each loop.
While drafts play, one compiles their final loops; policies without a draft are compiled several at
once. Where it is known what will be simulated (`task.rehearsal`), all is compiled ahead.
"""

import os
import pickle
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import product
from typing import NamedTuple

from kibitz.engine.jit import kept_folder
from kibitz.engine.numba_compat import CAN_KEEP
from kibitz.simulation.executors import cores
from kibitz.simulation.jobs import (
    Job,
    draft_loop_of,
    expected_seconds,
    is_compiled,
    is_drafted,
    loop_of,
    without_runs,
)
from kibitz.simulation.parcels import packed, play_parcel

EACH = 3  # loops that a process compiles: numba gives no memory back
PAYS_SECONDS = 10.0  # of work, stage by stage: from here on a final loop is worth more than a draft
LOOK_AGAIN = 0.05  # seconds after which a loop may be there that was not
COMMAND = "from kibitz.engine.aside import compile_sent; compile_sent()"


@contextmanager
def compiled_aside(jobs: list[Job]) -> Iterator[None]:
    """Compile the final loops of some jobs, one after the other, as long as the block runs."""
    if not jobs or not sys.executable:
        yield
        return
    with _compiling([job._replace(loop="final") for job in jobs]):
        yield


def compile_at_once(jobs: list[Job], n_processes: int) -> None:
    """Compile the final loops of some jobs, in several processes, and wait for them."""
    finals = [job._replace(loop="final") for job in jobs]
    for first in range(0, len(finals), n_processes * EACH):
        some = finals[first : first + n_processes * EACH]
        with ExitStack() as stack:
            shares = [some[nth::n_processes] for nth in range(min(n_processes, len(some)))]
            for process in [stack.enter_context(_compiling(share)) for share in shares]:
                process.wait()


# ------------------------------------------------------------------------------------------- ahead


class Coming(NamedTuple):
    """A loop that another process compiles sooner or later."""

    draft: bool
    process: "subprocess.Popen[bytes]"


_coming: dict[Hashable, Coming] = {}  # by the final loops of the jobs that wait for them


@contextmanager
def compiled_ahead(jobs: list[Job]) -> Iterator[None]:
    """Compile the loops that some jobs will need, while the block runs, in the order of the jobs.

    A job without a draft, or with much work to play stage by stage, needs its final loop.
    """
    seconds: Counter[Hashable] = Counter()
    first: dict[Hashable, Job] = {}
    for job in jobs:
        seconds[loop_of(job)] += expected_seconds(job)  # type: ignore[assignment]
        first.setdefault(loop_of(job), job)
    groups: dict[Hashable, list[Job]] = {}  # of jobs that share what is compiled
    for loop, job in first.items():
        draft = is_drafted(job.policy) and (job.leap or seconds[loop] < PAYS_SECONDS)
        if not is_compiled(job) and not (draft and is_compiled(job, draft)):
            group = groups.setdefault((draft, draft_loop_of(job) if draft else loop), [])
            group.append(job._replace(loop="draft" if draft else "final"))
    if not groups or not CAN_KEEP or not sys.executable:
        yield
        return
    n = max(1, cores() // 2)  # processes for loops that leap, and as many for others
    with ExitStack() as stack:
        stack.callback(_coming.clear)
        for leap, nth in product((False, True), range(n)):
            alike = [group for group in groups.values() if group[0].leap == leap]  # they share parts
            share = [job for group in alike[nth::n] for job in group]
            if not share:
                continue
            process = stack.enter_context(_compiling(share))
            _coming.update({loop_of(job): Coming(job.loop == "draft", process) for job in share})
        yield


def is_coming(job: Job) -> bool:
    """Return whether another process has yet to compile the loop of a job."""
    coming = _coming.get(loop_of(job))
    if coming is None or coming.process.poll() is not None:
        return False
    return not is_compiled(job, coming.draft)


def wait_for(job: Job) -> None:
    """Wait until another process has compiled the loop of a job, if one does so."""
    while is_coming(job):
        time.sleep(LOOK_AGAIN)


@contextmanager
def _compiling(jobs: list[Job]) -> Iterator[subprocess.Popen[bytes]]:
    """Compile the loops of some jobs in a process that ends with the block, if not before."""
    parcels = []
    for job in jobs:
        with suppress(Exception):  # what cannot be sent is compiled here, when it is needed
            parcels.append(packed([without_runs(job)]))
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
    )
    try:
        assert process.stdin is not None
        with suppress(OSError), process.stdin:  # it is gone already
            process.stdin.write(pickle.dumps(parcels))
        yield process
    finally:
        process.kill()
        process.wait()


def compile_sent() -> None:
    """Compile what is read from standard input; give up if the first of it could not be kept."""
    before = set(kept_folder().glob("*.kept"))
    for parcel in pickle.load(sys.stdin.buffer):
        play_parcel(parcel, 1)
        if before.issuperset(kept_folder().glob("*.kept")):
            return
