"""Executors that record or lose jobs, and functions that change a worker process."""

import importlib
import math
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor

from kibitz.simulation import payload


class InlineExecutor(Executor):
    """An executor that runs calls in this process, records them, and can let calls fail."""

    def __init__(self, fails=lambda n: None, answers=lambda answer: answer):
        self.calls, self.fails, self.answers = [], fails, answers

    def submit(self, function, /, *arguments):
        self.calls.append((function, *arguments))
        future = Future()
        error = self.fails(len(self.calls))
        if isinstance(error, CancelledError):
            future.cancel()
            future.set_running_or_notify_cancel()
        elif error is not None:
            future.set_exception(error)
        else:
            future.set_result(self.answers(function(*arguments)))
        return future


class CountingExecutor(ThreadPoolExecutor):
    """A thread pool that records the largest number of concurrent jobs in `most`."""

    def __init__(self, n):
        super().__init__(n)
        self.futures, self.most = [], 0

    def submit(self, function, /, *arguments):
        self.futures.append(super().submit(function, *arguments))
        self.most = max(self.most, sum(not future.done() for future in self.futures))
        return self.futures[-1]


original_version = payload.version


def pretend_older_version():
    """Make this process report kibitz 0.0.9."""
    payload.version = lambda name: "0.0.9" if name == "kibitz" else original_version(name)
    payload.current_versions.cache_clear()


def restore_version():
    """Undo `pretend_older_version`."""
    payload.version = original_version
    payload.current_versions.cache_clear()


def edit_ucb():
    """Change the formula of UCB in this process, but not the version."""

    def growth(params, stage):
        return 2 * math.sqrt(params.exploration * math.log(stage))

    importlib.import_module("kibitz.policies.ucb").growth.__code__ = growth.__code__
