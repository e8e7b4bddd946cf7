"""Cached kernels of one process do not clash with new kernels of another process.

numba distinguishes functions of the same name by a number in the symbol, which counts from 1 in each
process. Two processes can therefore create equal symbols. In earlier versions, a cached policy could
then silently use the index of a policy that had just been compiled. Now all symbols of a kernel are
internal, except for its entry points.
"""

import os
import subprocess
import sys

import numba
import pytest

pytestmark = pytest.mark.slow

PLAY_SCRIPT = """
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


def play(folder, *bonuses):
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder)}
    process = subprocess.run(
        [sys.executable, "-c", PLAY_SCRIPT, *bonuses],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return dict(line.split() for line in process.stdout.splitlines())


def test_a_cached_policy_uses_its_own_index_beside_a_new_one(tmp_path):
    result_alone = play(tmp_path, "without")
    results_of_both = play(tmp_path, "with", "without")
    assert results_of_both["without"] == result_alone["without"]
    assert results_of_both["with"] != results_of_both["without"]
    assert play(tmp_path, "without", "with") == results_of_both


CLASH_SCRIPT = """
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


def run_kernels(folder, linkage, *values):
    process = subprocess.run(
        [sys.executable, "-c", CLASH_SCRIPT, linkage, *values],
        env={**os.environ, "XDG_CACHE_HOME": str(folder)},
        capture_output=True, text=True,
    )  # fmt: skip
    return process.stdout.split(), process.stderr


IS_OLD_NUMBA = tuple(map(int, numba.__version__.split(".")[:2])) < (0, 65)


@pytest.mark.parametrize(
    "linkage",
    [
        "new",
        pytest.param(
            "old",
            marks=pytest.mark.skipif(
                IS_OLD_NUMBA, reason="an old numba: the old clash was NOT tried with it"
            ),
        ),
    ],
)
def test_equal_symbols_clash_only_without_internal_linkage(tmp_path, linkage):
    """Two kernels contain a function with the same name, type and number. One kernel is cached."""
    (result_of_1,), _ = run_kernels(tmp_path / "one", linkage, "1")
    (result_of_5,), _ = run_kernels(tmp_path / "other", linkage, "5")
    assert abs(int(result_of_5) - int(result_of_1)) > 1000
    results_of_both, errors = run_kernels(tmp_path / "one", linkage, "5", "1")
    assert results_of_both[:1] == [result_of_5], errors
    assert (results_of_both == [result_of_5, result_of_1]) == (linkage == "new")
