"""Tests of the cache of compiled code: later processes load kernels, but never a stale kernel."""

import cProfile
import ctypes
import gc
import os
import subprocess
import sys
import threading
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from enum import IntEnum
from textwrap import dedent

import numba
import numpy as np
import pytest

from kibitz._hashing import content_hash
from kibitz._jit import jit
from kibitz.engine.jit import deferred_interrupts, gc_disabled

pytestmark = pytest.mark.slow

needs_jit = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")

# ------------------------------------------------------------------------------------- hashes


def define(source, name="formula", **namespace):
    """Execute source text in a namespace and return the function that it defines."""
    exec(compile(dedent(source), "<text>", "exec"), namespace)
    return namespace[name]


BASE = """
    FACTOR = 2.0

    def helper(x):
        return x + 1.0

    def formula(x, scale=3.0):
        return FACTOR * helper(x) * scale
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("FACTOR * helper(x) * scale", "FACTOR + helper(x) * scale"),
        ("FACTOR * helper(x) * scale", "FACTOR * helper(x) / scale"),
        ("FACTOR * helper(x) * scale", "FACTOR * helper(x) * scale * 1.5"),
        ("return x + 1.0", "return x + 1.5"),
        ("return x + 1.0", "return x + 1"),
        ("return x + 1.0", "return x - 1.0"),
        ("FACTOR = 2.0", "FACTOR = 2.5"),
        ("FACTOR = 2.0", "FACTOR = 2"),
        ("scale=3.0", "scale=4.0"),
    ],
)
def test_the_hash_depends_on_formula_constants_helpers_and_defaults(old, new):
    assert BASE.count(old) == 1
    assert content_hash(define(BASE)) != content_hash(define(BASE.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("FACTOR = 2.0", "# a comment\n\n\n    FACTOR = 2.0  # another"),
        ("def helper", "UNUSED = 5\n\n    def unused(x):\n        return 0\n\n    def helper"),
        ("return x + 1.0", "return (\n            x\n            + 1.0\n        )"),
    ],
)
def test_the_hash_ignores_comments_lines_and_unused_names(old, new):
    assert BASE.count(old) == 1
    assert content_hash(define(BASE)) == content_hash(define(BASE.replace(old, new)))


def test_the_hash_depends_on_nested_helpers():
    text = """
        def lowest(x):
            return x * 2
        def lower(x):
            return lowest(x)
        def low(x):
            return [lower(y) for y in (x, x)][0]
        def formula(x):
            return low(x)
    """
    other = text.replace("x * 2", "x * 3")
    assert content_hash(define(text)) != content_hash(define(other))


def test_the_hash_depends_on_compiled_helpers():
    text = """
        @jit
        def helper(x):
            return x * 2
        @jit
        def formula(x):
            return helper(x)
    """
    other = text.replace("x * 2", "x * 3")
    assert content_hash(define(text, jit=jit)) == content_hash(define(text, jit=jit))
    assert content_hash(define(text, jit=jit)) != content_hash(define(other, jit=jit))


@needs_jit
def test_the_hash_depends_on_compiler_options():
    fast, plain = numba.njit(fastmath=True), numba.njit
    text = "@jit\ndef formula(x):\n    return x"
    assert content_hash(define(text, jit=fast)) != content_hash(define(text, jit=plain))


def test_the_hash_depends_on_closures():
    def make_closure(value):
        def formula(x):
            return x + value

        return formula

    assert content_hash(make_closure(1.0)) == content_hash(make_closure(1.0))
    assert content_hash(make_closure(1.0)) != content_hash(make_closure(2.0))
    assert content_hash(make_closure(np.array([1, 2]))) != content_hash(
        make_closure(np.array([1, 3]))
    )
    assert content_hash(make_closure((1.0, 2.0))) != content_hash(make_closure((2.0, 1.0)))
    assert content_hash(make_closure(make_closure(1.0))) != content_hash(
        make_closure(make_closure(2.0))
    )
    one, two = namedtuple("Params", "a b"), namedtuple("Params", "b a")
    assert content_hash(make_closure(one)) != content_hash(make_closure(two))


def test_the_hash_of_an_array_depends_on_values_shape_and_type():
    base = np.array([1, 2, 3, 4])
    others = [base + 1, base.reshape(2, 2), base.astype(float), base.view(np.uint64)]
    hashes = {content_hash(array) for array in [base, *others]}
    assert len(hashes) == 5
    assert content_hash(base[::-1].copy()) == content_hash(base[::-1])


def test_mutually_recursive_functions_can_be_hashed():
    text = """
        def even(n):
            return n == 0 or formula(n - 1)
        def formula(n):
            return n != 0 and even(n - 1)
    """
    assert content_hash(define(text)) == content_hash(define(text))
    other = text.replace("n == 0 or", "n == 2 or")
    assert content_hash(define(text)) != content_hash(define(other))


def test_the_hash_depends_on_functions_of_a_module():
    class Module(type(os)):
        pass

    def with_constant(value):
        module = Module("constants")
        module.FACTOR = value
        return define("def formula(x):\n    return constants.FACTOR * x", constants=module)

    assert content_hash(with_constant(1.0)) != content_hash(with_constant(2.0))


def test_the_hash_depends_on_nested_modules():
    def with_constant(value):
        inner, outer = type(os)("outer.inner"), type(os)("outer")
        inner.FACTOR, inner.outer, outer.inner = value, outer, inner
        return define("def formula(x):\n    return outer.inner.FACTOR * x", outer=outer)

    assert content_hash(with_constant(1.0)) == content_hash(with_constant(1.0))
    assert content_hash(with_constant(1.0)) != content_hash(with_constant(2.0))


def test_the_hash_depends_on_the_values_of_an_enum():
    def with_value(value):
        return define(
            "def formula(x):\n    return x + Kind.ONE", Kind=IntEnum("Kind", {"ONE": value})
        )

    assert content_hash(with_value(1)) == content_hash(with_value(1))
    assert content_hash(with_value(1)) != content_hash(with_value(2))


def test_the_hash_depends_on_vectorised_functions():
    def vectorised(text):
        helper = numba.vectorize(define(text))
        return define("def formula(x):\n    return helper(x)", helper=helper)

    one, two = "def formula(x):\n    return x + 1", "def formula(x):\n    return x + 2"
    assert content_hash(vectorised(one)) == content_hash(vectorised(one))
    assert content_hash(vectorised(one)) != content_hash(vectorised(two))


def test_a_profiler_does_not_change_the_hash():
    function = define("def formula(x):\n    return x + 1")
    before, jitted = content_hash(function), numba.njit(function)
    with cProfile.Profile():
        jitted(1)
    assert content_hash(function) == before


# ------------------------------------------------------------------------------ later processes

LOOP = """
    from kibitz.engine.cache import cached_dispatcher, is_compiled
    from helpers import helper

    def loop(n):
        total = 0.0
        for i in range(n):
            total += helper(i) * 0.5
        return total

    function = cached_dispatcher(loop)
    if not is_compiled(function, (100,)):
        print("compiling")
    print(function(100))
"""
HELPERS = """
    import numba

    @numba.njit
    def helper(i):
        return i + 1.0
"""
OWN_POLICY = """
    import math
    import numba
    import numpy as np
    from kibitz.simulation.jobs import Job, play
    from kibitz.model.feedback import active
    from kibitz.policies import index_policy
    from kibitz.model.problem import gaussian

    @numba.njit
    def bonus(stage, count):
        return math.sqrt(2.0 * math.log(stage) / count)

    def index(params, stage, counts, arm, mean):
        return mean + params.width * bonus(stage, counts[arm])

    policy = index_policy("own", index, width=1.0)
    feedback = active(0.1)
    problem = gaussian([1.0, 0.5, 0.0])
    job = Job(None, policy, problem, feedback, 500, np.array([500]), 1, 0, 5, kernel="specialised")
    print(play(job, announce=lambda: print("compiling")).n_pulls.tolist())
"""


class Folder:
    """A folder with a script, a module of helpers and a separate cache."""

    def __init__(self, path, script):
        self.path, self.cache = path, path / "cache"
        self.write("script.py", script)
        self.write("helpers.py", HELPERS)

    def write(self, name, text):
        (self.path / name).write_text(dedent(text))

    def edit(self, name, old, new):
        text = (self.path / name).read_text()
        assert text.count(old) == 1
        (self.path / name).write_text(text.replace(old, new))

    def run(self):
        """Run the script; return whether it compiled a kernel, and the last line of its output."""
        environment = {
            **os.environ,
            "XDG_CACHE_HOME": str(self.cache),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        environment.pop("NUMBA_CACHE_DIR", None)
        done = subprocess.run(
            [sys.executable, "-W", "error", "script.py"],
            cwd=self.path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        lines = done.stdout.splitlines()
        return lines[:-1] == ["compiling"], lines[-1]

    def cached_files(self):
        return sorted(self.cache.rglob("*.kernel"))


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path, LOOP)


FIRST = str(sum((i + 1) * 0.5 for i in range(100)))


@needs_jit
def test_a_kernel_is_compiled_once_and_then_loaded(folder):
    assert folder.run() == (True, FIRST)
    assert len(folder.cached_files()) == 1
    assert folder.run() == (False, FIRST)
    assert len(folder.cached_files()) == 1


@needs_jit
def test_an_edited_kernel_or_helper_is_compiled_again(folder):
    assert folder.run() == (True, FIRST)
    folder.edit("helpers.py", "i + 1.0", "i + 2.0")
    assert folder.run() == (True, str(sum((i + 2) * 0.5 for i in range(100))))
    folder.edit("script.py", "0.5", "0.25")
    assert folder.run() == (True, str(sum((i + 2) * 0.25 for i in range(100))))
    folder.edit("script.py", "0.25", "0.5")
    folder.edit("helpers.py", "i + 2.0", "i + 1.0")
    assert folder.run() == (False, FIRST)


@needs_jit
@pytest.mark.parametrize("damage", ["half", "flipped", "folder"])
def test_a_damaged_cache_file_is_compiled_again(folder, damage):
    folder.run()
    (path,) = folder.cached_files()
    data = path.read_bytes()
    if damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(
            {
                "half": data[: len(data) // 2],
                "flipped": data[:-100] + bytes([data[-100] ^ 1]) + data[-99:],
            }[damage]
        )
    assert folder.run() == (True, FIRST)
    if damage != "folder":
        assert folder.run() == (False, FIRST)


@needs_jit
def test_a_read_only_cache_folder_means_compiling_each_time(folder):
    folder.cache.write_text("a file where the folder should be")
    assert folder.run() == (True, FIRST)
    assert folder.run() == (True, FIRST)


@needs_jit
def test_two_processes_can_compile_at_once(folder):
    with ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(folder.run) for _ in range(3)]
    assert {run.result()[1] for run in runs} == {FIRST}
    assert len(folder.cached_files()) == 1
    assert not list(folder.cache.rglob(".*"))  # no temporary files remain
    assert folder.run() == (False, FIRST)


@needs_jit
@pytest.mark.parametrize("loop", ["specialised", "generic"])
def test_an_own_policy_is_never_loaded_from_a_stale_file(tmp_path, loop):
    """After an edit, the specialised kernel is compiled again; the generic kernel is reused."""
    folder = Folder(tmp_path, OWN_POLICY.replace('"specialised"', f'"{loop}"'))
    compiled, first = folder.run()
    assert compiled
    assert folder.run() == (False, first)
    folder.edit("script.py", "math.sqrt(2.0 *", "math.sqrt(9.0 *")  # in a helper of the formula
    compiled, second = folder.run()
    assert compiled == (loop == "specialised")
    assert second != first
    folder.edit("script.py", "width=1.0", "width=3.0")  # a parameter is not part of the formula
    compiled, third = folder.run()
    assert not compiled
    assert third not in {first, second}


TWO_POLICIES = """
    import math
    import sys
    import kibitz

    def bold(params, stage, counts, arm, mean):
        return mean + math.sqrt(0.1 * math.log(stage) / counts[arm])

    def shy(params, stage, counts, arm, mean):
        return mean + math.sqrt(20.0 * math.log(stage) / counts[arm])

    for name in sys.argv[1:]:
        policy = kibitz.index_policy("own", {"bold": bold, "shy": shy}[name])
        data = kibitz.simulate(
            kibitz.gaussian([1, 0.5, 0.2]), kibitz.bandit(), policy, horizon=500, runs=3, seed=1
        )
        print(name, data["n_pulls"].to_numpy().tolist())
"""


def test_cached_code_of_one_policy_does_not_clash_with_new_code_of_another(tmp_path):
    """numba numbers functions from 1 in each process and links machine code by these numbers.

    Two processes can therefore give the same number to different functions.
    """
    script = tmp_path / "script.py"
    script.write_text(dedent(TWO_POLICIES))

    def lines(cache, *names):
        done = subprocess.run(
            [sys.executable, str(script), *names],
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / cache)},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout.splitlines()

    (bold,) = lines("one", "bold")
    (shy,) = lines("other", "shy")
    assert bold.split()[1:] != shy.split()[1:]
    assert lines("one", "shy", "bold") == [shy, bold]  # new code first, then cached code


def test_ctrl_c_inside_a_callback_is_raised(capsys):
    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), deferred_interrupts():
        ctypes.CFUNCTYPE(None)(stop)()
    assert capsys.readouterr().err == ""


def test_errors_of_numba_after_ctrl_c_are_suppressed():
    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), deferred_interrupts():
        raise RuntimeError(ctypes.CFUNCTYPE(None)(stop)())
    with pytest.raises(RuntimeError, match="by itself"), deferred_interrupts():
        raise RuntimeError("by itself")


def test_other_errors_in_a_callback_are_reported():
    seen, report = [], sys.unraisablehook
    sys.unraisablehook = lambda error: seen.append(error.exc_type)
    try:
        with deferred_interrupts():
            ctypes.CFUNCTYPE(None)(lambda: 1 / 0)()
        assert seen == [ZeroDivisionError]
        ctypes.CFUNCTYPE(None)(lambda: [][0])()
        assert seen == [ZeroDivisionError, IndexError]
    finally:
        sys.unraisablehook = report


def test_threads_that_compile_at_once_restore_the_hook():
    """The second thread ends last, and must not restore the hook that the first thread had set."""
    before = sys.unraisablehook
    entered, left = threading.Event(), threading.Event()

    def first():
        with deferred_interrupts():
            assert entered.wait(30)
        left.set()

    def second():
        with deferred_interrupts():
            entered.set()
            assert left.wait(30)

    with ThreadPoolExecutor(2) as pool:
        for thread in [pool.submit(first), pool.submit(second)]:
            thread.result()
    assert sys.unraisablehook is before


def test_garbage_collection_is_enabled_again():
    with pytest.raises(ZeroDivisionError), gc_disabled():
        1 / gc.isenabled()  # False, so this raises
    assert gc.isenabled()
