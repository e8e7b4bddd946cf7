"""Call internal functions of `kibitz.bounds` with junk in one process, for a limited time.

The arguments include arrays of wrong types and shapes, views that are not contiguous, arrays of
objects, huge arrays without memory of their own, and results of earlier calls. An exception is
allowed. Only a crash is a failure; the parent process then prints the last call and the stack.

    python benchmarks/junk.py [--seconds 300] [--seed 1]
"""

import argparse
import faulthandler
import inspect
import math
import multiprocessing
import random
import resource
import signal
import sys
import time
import warnings
from collections import Counter
from importlib import import_module
from pkgutil import walk_packages

import numpy as np

import kibitz.bounds

MAX_MEMORY = 3 * 1024**3  # bytes of address space of the process that calls the functions
MAX_CALL_SECONDS = 0.5
FORK = multiprocessing.get_context("fork")


class CallTimeoutError(Exception):
    """Raised in a call that takes longer than MAX_CALL_SECONDS."""


def list_functions():
    """Return all functions of the modules of `kibitz.bounds`, including private functions."""
    functions = {}
    for module in walk_packages(kibitz.bounds.__path__, "kibitz.bounds."):
        for name, value in vars(import_module(module.name)).items():
            owner = getattr(value, "__module__", None)
            if inspect.isfunction(value) and owner.startswith("kibitz."):
                functions[f"{owner}.{name}"] = value
    return functions


def make_junk():
    """Return a list of functions; each function creates a junk argument."""
    from scipy.sparse import coo_array, csc_array, csr_array, eye_array

    objects = np.array([None, "a", 1.0, [1]], dtype=object)
    base = np.arange(24.0)
    constants = [
        None, "", "junk", b"1", math.nan, math.inf, -math.inf, -1, 0, 1, 2, 3, 5, 100, 1.5, -0.5,
        0.1, 0.5, 1e-300, 5e-324, 1e300, 2**31, 2**53, 2**62, 2**64, 10**400, True, False, 1j,
        {}, (), [], [[]], [0.0, 0.5, 1.0], [0.0, 0.3], [0.1, 0.2, 0.7], [1, 2, 3], [math.nan, 0.0],
        [0.0, math.inf], [0.0, 1e300], "uniform", "active", "passive", "gaussian", "bernoulli",
        "clip", "proved", "main", np.ma.masked, range(3), np.float32(0.5), np.int8(3),
        np.datetime64("2020"), object(), lambda t: 0.1 * t, lambda *values: values,
        lambda t: np.full(np.shape(t), math.nan),
    ]  # fmt: skip
    makers = [lambda value=value: value for value in constants]
    makers += [
        lambda: base.copy(),
        lambda: base[::-3],
        lambda: base.reshape(4, 6).T,
        lambda: base.reshape(2, 3, 4)[:, ::-1],
        lambda: np.arange(9.0).reshape(3, 3) / 9,
        lambda: np.eye(3),
        lambda: np.zeros((0, 3)),
        lambda: np.zeros(0),
        lambda: np.array([0.0, 0.5, 1.0]),
        lambda: np.array([0.0, 0.5, 1.0], dtype=">f8"),
        lambda: np.array([0, 1, 2], dtype=np.uint8),
        lambda: np.array([5, -7, 10**9]),
        lambda: np.array([2**63 - 1, -(2**63)]),
        lambda: np.array([True, False, True]),
        lambda: np.array(["a", "b"]),
        lambda: np.array([1j, 2]),
        lambda: np.array([math.nan, math.inf, -math.inf]),
        lambda: np.random.default_rng().standard_normal(3) * 10.0 ** random.randint(-300, 300),
        lambda: np.random.default_rng().random((3, 3)),
        lambda: objects.copy(),
        lambda: np.array([0.0, 0.5, 1.0], dtype=object),
        lambda: np.broadcast_to(0.5, (10**6,)),
        lambda: np.broadcast_to(0.5, (3, 10**6)),
        lambda: np.lib.stride_tricks.as_strided(base, (5, 5), (8, 8)),
        lambda: np.frombuffer(b"\x01" * 25, dtype=np.float64, count=3, offset=1),
        lambda: np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        lambda: np.ma.masked_array([0.0, 1.0, 2.0], [False, True, False]),
        lambda: eye_array(3, format="csr"),
        lambda: csr_array(np.random.default_rng().random((3, 3))),
        lambda: csc_array(np.eye(3)),
        lambda: coo_array(([1.0, 1.0], ([0, 0], [1, 1])), shape=(3, 3)),
        lambda: csr_array((3, 3)),
        lambda: csr_array((0, 3)),
        lambda: kibitz.gaussian([0.0, 0.5, 1.0]),
        lambda: kibitz.active(0.1),
    ]
    return makers


def call_until(seconds, seed, pipe, log):
    """Call functions with junk; write the last call to `log`, and send counts through the pipe."""
    faulthandler.enable(log, all_threads=True)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")

    def stop(number, frame):
        raise CallTimeoutError

    signal.signal(signal.SIGALRM, stop)
    rng, functions, makers = random.Random(seed), list_functions(), make_junk()
    names, counts, results = sorted(functions), Counter(), []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        name = rng.choice(names)
        parameters = inspect.signature(functions[name]).parameters.values()
        n_values = sum(p.default is p.empty and p.kind != p.VAR_KEYWORD for p in parameters)
        n_values += rng.choice([0, 0, 1, 2]) * (n_values < len(parameters))
        indices = [rng.randrange(len(makers) + 5) for _ in range(min(n_values, len(parameters)))]
        values = [
            makers[index]() if index < len(makers) else (rng.choice(results) if results else None)
            for index in indices
        ]
        log.seek(0)
        log.truncate()
        log.write(f"{name} with arguments {indices}\n")
        log.flush()
        try:
            signal.setitimer(signal.ITIMER_REAL, MAX_CALL_SECONDS)
            result = functions[name](*values)
            signal.setitimer(signal.ITIMER_REAL, 0)
            counts["answers"] += 1
            results = [*results[-200:], result]
        except Exception as error:
            signal.setitimer(signal.ITIMER_REAL, 0)
            counts[type(error).__name__] += 1
        counts["calls"] += 1
        if counts["calls"] % 500 == 0:
            pipe.send(dict(counts))
    pipe.send(dict(counts))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", default="junk.log", help="file with the last call and the stack")
    arguments = parser.parse_args()
    print(f"{len(list_functions())} functions", flush=True)
    with open(arguments.log, "w+") as log:
        reader, writer = FORK.Pipe()
        values = arguments.seconds, arguments.seed, writer, log
        process = FORK.Process(target=call_until, args=values)
        process.start()
        counts = {}
        while process.is_alive() or reader.poll():
            if reader.poll(1.0):
                counts = reader.recv()
        process.join()
        print(f"exit code {process.exitcode}; {counts}")
        if process.exitcode:
            log.seek(0)
            print(log.read())
    sys.exit(process.exitcode != 0)


if __name__ == "__main__":
    main()
