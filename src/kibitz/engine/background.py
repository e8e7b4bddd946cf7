"""Background compilation: other processes compile kernels and store them in the cache.

A job that starts after its kernel was stored loads the kernel from the cache. Compiling in separate
processes neither blocks this process through the interpreter lock nor uses its memory.
"""

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Hashable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from kibitz.engine.cache import SUFFIX, cache_folder
from kibitz.engine.kernel import Kernel
from kibitz.engine.numba_compat import CAN_CACHE, cloudpickle

POLL_SECONDS = 0.05
COMMAND = "from kibitz.engine.background import compile_received; compile_received()"

CAN_COMPILE = CAN_CACHE and bool(sys.executable)

_compiling: dict[Hashable, "subprocess.Popen[bytes]"] = {}  # by the key of the kernel


@contextmanager
def compile_in_background(kernels: list[Kernel], n_processes: int) -> Iterator[None]:
    """Compile kernels in other processes, in the given order, while the `with` block runs."""
    batches = assign_kernels(kernels, n_processes) if CAN_COMPILE else []
    with ExitStack() as stack:
        for batch in batches:
            process = stack.enter_context(_run_process(batch))
            for kernel in batch:
                _compiling[kernel.key] = process
                stack.callback(_compiling.pop, kernel.key, None)
        yield


def assign_kernels(kernels: list[Kernel], n_processes: int) -> list[list[Kernel]]:
    """Return one list of kernels for each process.

    Kernels with the same key go to the same process. Kernels that leap and kernels that do not leap
    go to different processes.
    """
    groups = [group for leap in (False, True) if (group := [k for k in kernels if k.leap == leap])]
    batches: list[list[Kernel]] = []
    for group in groups:
        n, keys = max(1, n_processes // len(groups)), list(dict.fromkeys(k.key for k in group))
        for batch_index in range(n):
            batches.append([k for key in keys[batch_index::n] for k in group if k.key == key])
    return [batch for batch in batches if batch]


def is_compiling(kernel: Kernel) -> bool:
    """Return whether a background process is compiling a kernel or will compile it."""
    process = _compiling.get(kernel.key)
    return process is not None and process.poll() is None and not kernel.is_ready()


def wait_for(kernel: Kernel) -> None:
    """Wait until a kernel is compiled, or until its background process has ended."""
    while is_compiling(kernel):
        time.sleep(POLL_SECONDS)


@contextmanager
def _run_process(kernels: list[Kernel]) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a process that compiles kernels; kill the process at the end of the `with` block."""
    payloads = []
    for kernel in kernels:
        with suppress(Exception):  # a kernel that cannot be pickled is compiled by the main process
            payloads.append(cloudpickle.dumps(kernel))
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
    )
    try:
        assert process.stdin is not None
        with suppress(OSError), process.stdin:  # the process may have ended already
            process.stdin.write(pickle.dumps(payloads))
        yield process
    finally:
        process.kill()
        process.wait()


def compile_received() -> None:
    """Compile the kernels read from standard input; stop if a kernel cannot be stored."""
    stored_files = set(cache_folder().glob(f"*{SUFFIX}"))
    for payload in pickle.load(sys.stdin.buffer):
        with suppress(Exception):  # the main process will raise the error
            pickle.loads(payload).compile()
        if stored_files.issuperset(cache_folder().glob(f"*{SUFFIX}")):
            return
