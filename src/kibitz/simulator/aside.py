"""Final loops, compiled aside: in processes of their own.

Such a process keeps what it has compiled, and jobs that begin from then on find it (`jobs.play`). It
takes neither the interpreter's lock nor memory of this one: some forty megabytes for each loop. While
drafts play, one compiles their final loops; policies without a draft are compiled several at once.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from kibitz.simulator.jobs import Job, without_runs
from kibitz.simulator.parcels import packed, play_parcel

EACH = 3  # loops that a process compiles: numba gives no memory back
COMMAND = "from kibitz.simulator.aside import compile_sent; compile_sent()"


@contextmanager
def compiled_aside(jobs: list[Job]) -> Iterator[None]:
    """Compile the final loops of some jobs, one after the other, as long as the block runs."""
    if not jobs or not sys.executable:
        yield
        return
    with _compiling(jobs):
        yield


def compile_at_once(jobs: list[Job], n_processes: int) -> None:
    """Compile the final loops of some jobs, in several processes, and wait for them."""
    for first in range(0, len(jobs), n_processes * EACH):
        some = jobs[first : first + n_processes * EACH]
        with ExitStack() as stack:
            shares = [some[nth::n_processes] for nth in range(min(n_processes, len(some)))]
            for process in [stack.enter_context(_compiling(share)) for share in shares]:
                process.wait()


@contextmanager
def _compiling(jobs: list[Job]) -> Iterator[subprocess.Popen[bytes]]:
    """Compile the final loops of some jobs in a process that ends with the block, if not before."""
    parcels = []
    for job in jobs:
        with suppress(Exception):  # what cannot be sent is compiled here, when it is needed
            parcels.append(packed([without_runs(job)._replace(loop="final")]))
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
    )
    try:
        assert process.stdin is not None
        with suppress(BrokenPipeError), process.stdin:
            process.stdin.write(pickle.dumps(parcels))
        yield process
    finally:
        process.kill()
        process.wait()


def compile_sent() -> None:
    """Compile what is read from standard input."""
    for parcel in pickle.load(sys.stdin.buffer):
        play_parcel(parcel, 1)
