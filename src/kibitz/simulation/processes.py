"""An executor for Python policies: processes of this machine that play payloads.

Threads cannot play Python policies in parallel, because of the interpreter lock. `multiprocessing`
would import the user's script again in each process, which fails for scripts without
`if __name__ == "__main__"`. The processes here import only kibitz. Functions and classes of the
user's script arrive with the payload, because cloudpickle serialises them by value.
"""

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

COMMAND = "from kibitz.simulation.processes import serve_calls; serve_calls()"


class LocalProcesses(Executor):
    """An executor with `n` processes; a process starts when a call needs it."""

    def __init__(self, n: int) -> None:
        self._max_workers = n
        self.threads = ThreadPoolExecutor(n)  # one thread waits for each process
        self.idle: list[subprocess.Popen[bytes]] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        self.is_shut_down = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a call of a function of kibitz with arguments that can be pickled."""
        return self.threads.submit(self._call, pickle.dumps((fn, args, kwargs)))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Kill the processes."""
        self.is_shut_down = True
        for process in self.processes:
            process.kill()
        self.threads.shutdown(wait=wait, cancel_futures=cancel_futures)
        for process in self.processes:
            with suppress(OSError):
                process.communicate()  # closes the pipes and waits for the end

    def _call(self, message: bytes) -> Any:
        if self.is_shut_down:
            raise BrokenExecutor("the executor is shut down")
        process = self.idle.pop() if self.idle else self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(message)
            process.stdin.flush()
            result, error = pickle.load(process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError) as failure:
            raise BrokenExecutor("a process that played a Python policy died") from failure
        self.idle.append(process)
        if error is not None:
            raise error
        return result

    def _start(self) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
        )
        self.processes.append(process)
        return process


def serve_calls() -> None:
    """Run the calls read from standard input; write their results to standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # after Ctrl-C, the main process kills this process
    with os.fdopen(os.dup(1), "wb") as output:
        os.dup2(2, 1)  # text that the user's code prints goes to standard error
        while True:
            try:
                function, args, kwargs = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            result, error = None, None
            try:
                result = function(*args, **kwargs)
            except Exception as exception:
                error = exception
            output.write(pickle.dumps((result, error)))
            output.flush()
