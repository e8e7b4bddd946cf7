"""Importing and using kibitz changes nothing in numba that affects a user's code."""

import os
import subprocess
import sys
from textwrap import dedent

import numba
import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled"),
]

SNAPSHOT_SCRIPT = """
    import gc, sys, types

    LIBRARIES = ("numba", "llvmlite")

    def snapshot():
        # every attribute of the modules and classes of both libraries
        found = {}
        for name, module in list(sys.modules.items()):
            if name.split(".")[0] not in LIBRARIES:
                continue
            for attribute, value in list(vars(module).items()):
                found[name, attribute] = value
                if isinstance(value, type) and value.__module__.split(".")[0] in LIBRARIES:
                    for inner, part in list(vars(value).items()):
                        if inner == "__slotnames__":  # which pickle leaves on every class
                            continue
                        found[value.__module__, value.__qualname__, inner] = part
        found["hooks"] = (sys.unraisablehook, sys.excepthook, gc.isenabled())
        return found

    def differences(before, after):
        # what was replaced, removed or added; modules that are imported later do not count
        hooks = [] if before["hooks"] == after["hooks"] else ["hooks"]
        changed = [
            key for key, value in before.items() if key != "hooks" and after.get(key) is not value
        ]
        known = {key[0] for key in before}
        added = [
            key for key in after.keys() - before.keys()
            if key[0] in known and not isinstance(after[key], types.ModuleType)
        ]
        return sorted(map(str, changed + added)) + hooks
"""
NUMBA_SCRIPT = """
    import numba, numpy as np

    @numba.njit
    def draw(rng, n):
        drawn = rng.standard_normal() + rng.binomial(5, 0.5) + rng.beta(1.0, 2.0) + rng.random()
        return np.zeros(n).sum() + drawn

    draw(np.random.default_rng(1), 3)  # makes numba import its lazy modules
    numba.njit(lambda n: np.ones((n, 2), np.bool_).sum() + np.array([1, n]).sum())(2)
"""
KIBITZ_SCRIPT = """
    import threading
    import kibitz as kb

    def mine(params, stage, counts, arm, mean):
        return mean + params.c / counts[arm]

    def play(*others):
        for policies, options in (
            ([kb.index_policy("mine", mine, c=2.0)], {"horizon": 300}),
            *others,
        ):
            kb.simulate(kb.gaussian([1, 0]), kb.active(0.1), policies, runs=2, seed=1, **options)
"""
ALL_KERNELS_SCRIPT = """
    def play_all():
        play(
            ([kb.ucb2(), kb.kibitzer()], {"horizon": 300}),
            ([kb.ucb()], {"horizon": 300, "kernel": "specialised"}),
            ([kb.ucb()], {"horizon": 200_000, "engine": "leap"}),
        )
"""


def run_script(script, tmp_path, *arguments):
    process = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={
            **os.environ,
            "XDG_CACHE_HOME": str(tmp_path / "kibitz"),
            "NUMBA_CACHE_DIR": str(tmp_path / "numba"),
        },
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_using_kibitz_changes_no_attribute_of_numba(tmp_path):
    script = "".join(map(dedent, (SNAPSHOT_SCRIPT, NUMBA_SCRIPT)))
    script += "before = snapshot()\n" + dedent(KIBITZ_SCRIPT) + dedent(ALL_KERNELS_SCRIPT)
    script += "print(differences(before, snapshot()))\n"
    script += "play_all()\nother = threading.Thread(target=play)\nother.start()\nother.join()\n"
    script += "print(differences(before, snapshot()))\n"
    assert run_script(script, tmp_path) == "[]\n[]\n"


def test_the_snapshots_detect_replaced_attributes(tmp_path):
    """The snapshots detect the three attributes that earlier versions replaced, and a module name."""
    script = "".join(map(dedent, (SNAPSHOT_SCRIPT, NUMBA_SCRIPT)))
    script += dedent(
        """
        import itertools
        from numba.core import bytecode, compiler, errors, targetconfig
        before = snapshot()
        for owner, name in (
            (compiler.Compiler, "define_pipelines"),
            (targetconfig.TargetConfig, "values"),
            (bytecode.FunctionIdentity, "_unique_ids"),
            (errors, "NumbaError"),
        ):
            old = getattr(owner, name)
            setattr(owner, name, itertools.count())
            print(any(name in found for found in differences(before, snapshot())))
            setattr(owner, name, old)
        """
    )
    assert run_script(script, tmp_path) == "True\n" * 4


USERS_MODULE = """
    import numba
    import numpy as np
    from numba.typed import Dict, List

    @numba.njit(cache=True)
    def cached(x):
        return np.sqrt(x) + np.zeros(3).sum()

    @numba.njit(parallel=True, cache=True)
    def parallel(n):
        total = 0.0
        for i in numba.prange(n):
            total += np.log(1.0 + i)
        return round(total, 9)

    @numba.njit(cache=True)
    def recursive(n):
        return 1 if n < 2 else n * recursive(n - 1)

    @numba.njit
    def containers(n):
        some, named = List(), Dict.empty(numba.types.int64, numba.types.float64)
        for i in range(n):
            some.append(float(i))
            named[i] = some[i] / 2
        return sum(some) + named[n - 1]

    @numba.njit
    def random(rng):
        return rng.standard_exponential() + rng.binomial(9, 0.3) + rng.standard_normal()

    def use():
        results = cached(2.0), parallel(1000), recursive(10), containers(20)
        results += (random(np.random.default_rng(4)),)
        return results, [sum(f.stats.cache_hits.values()) for f in (cached, parallel, recursive)]
"""


def test_a_users_compiled_functions_are_unaffected(tmp_path):
    """A user's functions have the same results and cache hits with and without kibitz.

    The cache is empty in the first process and full in the second process.
    """
    (tmp_path / "users.py").write_text(dedent(USERS_MODULE))
    script_without_kibitz = "import users\nprint(users.use())\n"
    scripts_with_kibitz = {
        "before": "import users\nprint(users.use())\n" + dedent(KIBITZ_SCRIPT) + "play()\n",
        "after": dedent(KIBITZ_SCRIPT) + "play()\nimport users\nprint(users.use())\n",
        "during": dedent(KIBITZ_SCRIPT)
        + "import users\nother = threading.Thread(target=play)\nother.start()\n"
        + "print(users.use())\nother.join()\n",
    }
    results = {}
    for label, script in {"alone": script_without_kibitz, **scripts_with_kibitz}.items():
        folder = tmp_path / label
        folder.mkdir()
        script = "import sys; sys.path.append('..')\n" + script
        results[label] = [run_script(script, folder) for _ in range(2)]
        assert results[label] == results["alone"], label
    first_output, second_output = results["alone"]
    assert first_output != second_output  # the second process loads the cached code of the first
