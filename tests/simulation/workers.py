"""Executors that are watched or fail on purpose, and what is done to workers in their processes."""

import importlib
import math
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor

from kibitz.simulation import payload


class Inline(Executor):
    """Plays at once, here; remembers what it was given, and fails when it is told to."""

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


class Watched(ThreadPoolExecutor):
    """Threads that count how many jobs they have at a time."""

    def __init__(self, n):
        super().__init__(n)
        self.futures, self.most = [], 0

    def submit(self, function, /, *arguments):
        self.futures.append(super().submit(function, *arguments))
        self.most = max(self.most, sum(not future.done() for future in self.futures))
        return self.futures[-1]


the_version = payload.version


def older():
    """Let this process be one of kibitz 0.0.9."""
    payload.version = lambda name: "0.0.9" if name == "kibitz" else the_version(name)
    payload.current_versions.cache_clear()


def as_it_was():
    """Undo it."""
    payload.version = the_version
    payload.current_versions.cache_clear()


def edited():
    """Let this process have another formula for UCB, under the same version."""

    def growth(params, stage):
        return 2 * math.sqrt(params.exploration * math.log(stage))

    importlib.import_module("kibitz.policies.ucb").growth.__code__ = growth.__code__
