"""Cached kernels of one process do not clash with new kernels of another process.

numba distinguishes functions of the same name by a number, which is part of the symbol and counts
from 1 in each process. The symbols of two processes can therefore be equal. In earlier versions, a
cached policy was then silently played with the index of a policy that had just been compiled. Now all
symbols of a kernel except its entry points are internal.
"""

import os
import subprocess
import sys

import numba
import pytest

pytestmark = pytest.mark.slow

PLAY = """
import sys
import kibitz as kb

def policy(bonus):
    if bonus == "without":
        def index(params, stage, counts, arm, mean):
            return mean
    else:
        def index(params, stage, counts, arm, mean):
            return mean + 1 / counts[arm] ** 0.5
    return kb.index_policy("mine", index)

for bonus in sys.argv[1:]:
    played = kb.simulate(
        kb.gaussian([1, 0.5]), kb.bandit(), policy(bonus),
        horizon=500, runs=20, seed=1, threads=1, engine="step",
    )
    print(bonus, float(played.final_regret.mean()))
"""


def play(folder, *policies):
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", PLAY, *policies],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return dict(line.split() for line in done.stdout.splitlines())


def test_a_cached_policy_uses_its_own_index_beside_a_new_one(tmp_path):
    alone = play(tmp_path, "without")
    both = play(tmp_path, "with", "without")
    assert both["without"] == alone["without"]
    assert both["with"] != both["without"]
    assert play(tmp_path, "without", "with") == both


CLASH = """
import math
import sys

from numba.core.bytecode import FunctionIdentity

import kibitz
from kibitz.engine import cache, jit

if sys.argv[1] == "old":  # as numba compiles: every symbol is visible to the linker
    cache.KERNEL.clear()
    jit.PART.clear()

body = "".join("    x = math.sin(x) + math.cos(3 * x) * value\\n" for _ in range(40))  # not inlined

def kernel(value):
    names = {"math": math, "value": value, "__name__": "parts"}
    exec(f"def part(x):\\n{body}    return x + 1000 * value", names)
    part = kibitz.jit(inline=False)(names["part"])

    def play(x):
        return part(x) + part(x + 1)

    return cache.cached_dispatcher(play)

for value in sys.argv[2:]:
    FunctionIdentity._unique_ids = iter(range(1000, 10**6))  # as in another process
    print(round(kernel(float(value))(1.0)))
"""


def results(folder, way, *values):
    done = subprocess.run(
        [sys.executable, "-c", CLASH, way, *values],
        env={**os.environ, "XDG_CACHE_HOME": str(folder)},
        capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.split(), done.stderr


OLD = tuple(map(int, numba.__version__.split(".")[:2])) < (0, 65)


@pytest.mark.parametrize(
    "way",
    [
        "new",
        pytest.param(
            "old",
            marks=pytest.mark.skipif(OLD, reason="an old numba: the old clash was NOT tried with it"),
        ),
    ],
)
def test_equal_symbols_clash_only_without_internal_linkage(tmp_path, way):
    """Two kernels contain a function with the same name, type and number; one kernel is cached."""
    (alone,), _ = results(tmp_path / "one", way, "1")
    (other,), _ = results(tmp_path / "other", way, "5")
    assert abs(int(other) - int(alone)) > 1000
    both, errors = results(tmp_path / "one", way, "5", "1")
    assert both[:1] == [other], errors
    assert (both == [other, alone]) == (way == "new")
