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

SNAPSHOT = """
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
PLAIN_USE = """
    import numba, numpy as np

    @numba.njit
    def draw(rng, n):
        drawn = rng.standard_normal() + rng.binomial(5, 0.5) + rng.beta(1.0, 2.0) + rng.random()
        return np.zeros(n).sum() + drawn

    draw(np.random.default_rng(1), 3)  # makes numba import its lazy modules
    numba.njit(lambda n: np.ones((n, 2), np.bool_).sum() + np.array([1, n]).sum())(2)
"""
USE_KIBITZ = """
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
EVERYTHING = """
    def play_all():
        play(
            ([kb.ucb2(), kb.kibitzer()], {"horizon": 300}),
            ([kb.ucb()], {"horizon": 300, "kernel": "specialised"}),
            ([kb.ucb()], {"horizon": 200_000, "engine": "leap"}),
        )
"""


def run(script, tmp_path, *arguments):
    done = subprocess.run(
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
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_using_kibitz_changes_no_attribute_of_numba(tmp_path):
    script = "".join(map(dedent, (SNAPSHOT, PLAIN_USE)))
    script += "before = snapshot()\n" + dedent(USE_KIBITZ) + dedent(EVERYTHING)
    script += "print(differences(before, snapshot()))\n"
    script += "play_all()\nother = threading.Thread(target=play)\nother.start()\nother.join()\n"
    script += "print(differences(before, snapshot()))\n"
    assert run(script, tmp_path) == "[]\n[]\n"


def test_the_walk_detects_replaced_attributes(tmp_path):
    """The snapshots detect the three patches of earlier versions, and a patch of a module."""
    script = "".join(map(dedent, (SNAPSHOT, PLAIN_USE)))
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
    assert run(script, tmp_path) == "True\n" * 4


USERS = """
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
    (tmp_path / "users.py").write_text(dedent(USERS))
    alone = "import users\nprint(users.use())\n"
    beside = {
        "before": "import users\nprint(users.use())\n" + dedent(USE_KIBITZ) + "play()\n",
        "after": dedent(USE_KIBITZ) + "play()\nimport users\nprint(users.use())\n",
        "during": dedent(USE_KIBITZ)
        + "import users\nother = threading.Thread(target=play)\nother.start()\n"
        + "print(users.use())\nother.join()\n",
    }
    results = {}
    for when, script in {"alone": alone, **beside}.items():
        folder = tmp_path / when
        folder.mkdir()
        script = "import sys; sys.path.append('..')\n" + script
        results[when] = [run(script, folder) for _ in range(2)]
        assert results[when] == results["alone"], when
    first, second = results["alone"]
    assert first != second  # the second process loads the cached code of the first
