"""Final loops, compiled aside: in a process of its own, while drafts play.

That process keeps what it has compiled, and the jobs that begin from then on find it (`jobs.play`).
It takes neither the interpreter's lock nor memory of this one, and is ended with the work.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from kibitz.simulator.jobs import Job, without_runs
from kibitz.simulator.parcels import packed, play_parcel

PAYS_SECONDS = 20.0  # of work: from here on a final loop is worth its compilation
COMMAND = "from kibitz.simulator.aside import compile_sent; compile_sent()"


@contextmanager
def compiled_aside(jobs: list[Job]) -> Iterator[None]:
    """Compile the final loops of some jobs, one after the other, as long as the block runs."""
    if not jobs or not sys.executable:
        yield
        return
    finals = [without_runs(job)._replace(loop="final") for job in jobs]
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
    )
    assert process.stdin is not None
    try:
        process.stdin.write(pickle.dumps([packed([job]) for job in finals]))
        process.stdin.close()
        yield
    finally:
        process.kill()
        process.wait()


def compile_sent() -> None:
    """Compile what is read from standard input."""
    for parcel in pickle.load(sys.stdin.buffer):
        play_parcel(parcel, 1)
