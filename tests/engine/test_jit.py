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


BASE_FORMULA = """
    FACTOR = 2.0

    def helper(x):
        return x + 1.0

    def formula(x, scale=3.0):
        return FACTOR * helper(x) * scale
"""


@pytest.mark.parametrize(
    ("old_code", "new_code"),
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
def test_the_hash_depends_on_formula_constants_helpers_and_defaults(old_code, new_code):
    assert BASE_FORMULA.count(old_code) == 1
    assert content_hash(define(BASE_FORMULA)) != content_hash(
        define(BASE_FORMULA.replace(old_code, new_code))
    )


@pytest.mark.parametrize(
    ("old_code", "new_code"),
    [
        ("FACTOR = 2.0", "# a comment\n\n\n    FACTOR = 2.0  # another"),
        ("def helper", "UNUSED = 5\n\n    def unused(x):\n        return 0\n\n    def helper"),
        ("return x + 1.0", "return (\n            x\n            + 1.0\n        )"),
    ],
)
def test_the_hash_ignores_comments_lines_and_unused_names(old_code, new_code):
    assert BASE_FORMULA.count(old_code) == 1
    assert content_hash(define(BASE_FORMULA)) == content_hash(
        define(BASE_FORMULA.replace(old_code, new_code))
    )


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
    edited_text = text.replace("x * 2", "x * 3")
    assert content_hash(define(text)) != content_hash(define(edited_text))


def test_the_hash_depends_on_compiled_helpers():
    text = """
        @jit
        def helper(x):
            return x * 2
        @jit
        def formula(x):
            return helper(x)
    """
    edited_text = text.replace("x * 2", "x * 3")
    assert content_hash(define(text, jit=jit)) == content_hash(define(text, jit=jit))
    assert content_hash(define(text, jit=jit)) != content_hash(define(edited_text, jit=jit))


@needs_jit
def test_the_hash_depends_on_compiler_options():
    jit_fastmath, jit_default = numba.njit(fastmath=True), numba.njit
    text = "@jit\ndef formula(x):\n    return x"
    assert content_hash(define(text, jit=jit_fastmath)) != content_hash(define(text, jit=jit_default))


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
    params_ab, params_ba = namedtuple("Params", "a b"), namedtuple("Params", "b a")
    assert content_hash(make_closure(params_ab)) != content_hash(make_closure(params_ba))


def test_the_hash_of_an_array_depends_on_values_shape_and_type():
    base_array = np.array([1, 2, 3, 4])
    different_arrays = [
        base_array + 1,
        base_array.reshape(2, 2),
        base_array.astype(float),
        base_array.view(np.uint64),
    ]
    hashes = {content_hash(array) for array in [base_array, *different_arrays]}
    assert len(hashes) == 5
    assert content_hash(base_array[::-1].copy()) == content_hash(base_array[::-1])


def test_mutually_recursive_functions_can_be_hashed():
    text = """
        def even(n):
            return n == 0 or formula(n - 1)
        def formula(n):
            return n != 0 and even(n - 1)
    """
    assert content_hash(define(text)) == content_hash(define(text))
    edited_text = text.replace("n == 0 or", "n == 2 or")
    assert content_hash(define(text)) != content_hash(define(edited_text))


def test_the_hash_depends_on_functions_of_a_module():
    class Module(type(os)):
        pass

    def make_formula(value):
        module = Module("constants")
        module.FACTOR = value
        return define("def formula(x):\n    return constants.FACTOR * x", constants=module)

    assert content_hash(make_formula(1.0)) != content_hash(make_formula(2.0))


def test_the_hash_depends_on_nested_modules():
    def make_formula(value):
        inner_module, outer_module = type(os)("outer.inner"), type(os)("outer")
        inner_module.FACTOR, inner_module.outer, outer_module.inner = (
            value,
            outer_module,
            inner_module,
        )
        return define("def formula(x):\n    return outer.inner.FACTOR * x", outer=outer_module)

    assert content_hash(make_formula(1.0)) == content_hash(make_formula(1.0))
    assert content_hash(make_formula(1.0)) != content_hash(make_formula(2.0))


def test_the_hash_depends_on_the_values_of_an_enum():
    def make_formula(value):
        return define(
            "def formula(x):\n    return x + Kind.ONE", Kind=IntEnum("Kind", {"ONE": value})
        )

    assert content_hash(make_formula(1)) == content_hash(make_formula(1))
    assert content_hash(make_formula(1)) != content_hash(make_formula(2))


def test_the_hash_depends_on_vectorised_functions():
    def make_vectorised(text):
        helper = numba.vectorize(define(text))
        return define("def formula(x):\n    return helper(x)", helper=helper)

    text_plus_1, text_plus_2 = (
        "def formula(x):\n    return x + 1",
        "def formula(x):\n    return x + 2",
    )
    assert content_hash(make_vectorised(text_plus_1)) == content_hash(make_vectorised(text_plus_1))
    assert content_hash(make_vectorised(text_plus_1)) != content_hash(make_vectorised(text_plus_2))


def test_a_profiler_does_not_change_the_hash():
    function = define("def formula(x):\n    return x + 1")
    hash_before, jitted_function = content_hash(function), numba.njit(function)
    with cProfile.Profile():
        jitted_function(1)
    assert content_hash(function) == hash_before


# ------------------------------------------------------------------------------ later processes

LOOP_SCRIPT = """
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
HELPERS_MODULE = """
    import numba

    @numba.njit
    def helper(i):
        return i + 1.0
"""
OWN_POLICY_SCRIPT = """
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
        self.write("helpers.py", HELPERS_MODULE)

    def write(self, name, text):
        (self.path / name).write_text(dedent(text))

    def edit(self, name, old_text, new_text):
        text = (self.path / name).read_text()
        assert text.count(old_text) == 1
        (self.path / name).write_text(text.replace(old_text, new_text))

    def run(self):
        """Run the script; return whether it compiled a kernel, and the last line of its output."""
        environment = {
            **os.environ,
            "XDG_CACHE_HOME": str(self.cache),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        environment.pop("NUMBA_CACHE_DIR", None)
        process = subprocess.run(
            [sys.executable, "-W", "error", "script.py"],
            cwd=self.path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert process.returncode == 0, process.stderr
        assert process.stderr == ""
        lines = process.stdout.splitlines()
        return lines[:-1] == ["compiling"], lines[-1]

    def cached_files(self):
        return sorted(self.cache.rglob("*.kernel"))


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path, LOOP_SCRIPT)


FIRST_RESULT = str(sum((i + 1) * 0.5 for i in range(100)))


@needs_jit
def test_a_kernel_is_compiled_once_and_then_loaded(folder):
    assert folder.run() == (True, FIRST_RESULT)
    assert len(folder.cached_files()) == 1
    assert folder.run() == (False, FIRST_RESULT)
    assert len(folder.cached_files()) == 1


@needs_jit
def test_an_edited_kernel_or_helper_is_compiled_again(folder):
    assert folder.run() == (True, FIRST_RESULT)
    folder.edit("helpers.py", "i + 1.0", "i + 2.0")
    assert folder.run() == (True, str(sum((i + 2) * 0.5 for i in range(100))))
    folder.edit("script.py", "0.5", "0.25")
    assert folder.run() == (True, str(sum((i + 2) * 0.25 for i in range(100))))
    folder.edit("script.py", "0.25", "0.5")
    folder.edit("helpers.py", "i + 2.0", "i + 1.0")
    assert folder.run() == (False, FIRST_RESULT)


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
    assert folder.run() == (True, FIRST_RESULT)
    if damage != "folder":
        assert folder.run() == (False, FIRST_RESULT)


@needs_jit
def test_a_read_only_cache_folder_means_compiling_each_time(folder):
    folder.cache.write_text("a file where the folder should be")
    assert folder.run() == (True, FIRST_RESULT)
    assert folder.run() == (True, FIRST_RESULT)


@needs_jit
def test_two_processes_can_compile_at_once(folder):
    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(folder.run) for _ in range(3)]
    assert {future.result()[1] for future in futures} == {FIRST_RESULT}
    assert len(folder.cached_files()) == 1
    assert not list(folder.cache.rglob(".*"))  # no temporary files remain
    assert folder.run() == (False, FIRST_RESULT)


@needs_jit
@pytest.mark.parametrize("kernel", ["specialised", "generic"])
def test_a_users_policy_is_never_loaded_from_a_stale_file(tmp_path, kernel):
    """After an edit, the specialised kernel is compiled again, but the generic kernel is reused."""
    folder = Folder(tmp_path, OWN_POLICY_SCRIPT.replace('"specialised"', f'"{kernel}"'))
    has_compiled, first_result = folder.run()
    assert has_compiled
    assert folder.run() == (False, first_result)
    folder.edit("script.py", "math.sqrt(2.0 *", "math.sqrt(9.0 *")  # in a helper of the formula
    has_compiled, second_result = folder.run()
    assert has_compiled == (kernel == "specialised")
    assert second_result != first_result
    folder.edit("script.py", "width=1.0", "width=3.0")  # a parameter is not part of the formula
    has_compiled, third_result = folder.run()
    assert not has_compiled
    assert third_result not in {first_result, second_result}


TWO_POLICIES_SCRIPT = """
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
    """Cached code of one policy and new code of another policy give the right results together.

    numba numbers functions from 1 in each process and links machine code by these numbers. Two
    processes can therefore give the same number to different functions.
    """
    script = tmp_path / "script.py"
    script.write_text(dedent(TWO_POLICIES_SCRIPT))

    def run_script(cache, *names):
        process = subprocess.run(
            [sys.executable, str(script), *names],
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / cache)},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return process.stdout.splitlines()

    (bold_result,) = run_script("one", "bold")
    (shy_result,) = run_script("other", "shy")
    assert bold_result.split()[1:] != shy_result.split()[1:]
    # The new code runs first, then the cached code.
    assert run_script("one", "shy", "bold") == [shy_result, bold_result]


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
    reported_errors, original_hook = [], sys.unraisablehook
    sys.unraisablehook = lambda error: reported_errors.append(error.exc_type)
    try:
        with deferred_interrupts():
            ctypes.CFUNCTYPE(None)(lambda: 1 / 0)()
        assert reported_errors == [ZeroDivisionError]
        ctypes.CFUNCTYPE(None)(lambda: [][0])()
        assert reported_errors == [ZeroDivisionError, IndexError]
    finally:
        sys.unraisablehook = original_hook


def test_threads_that_compile_at_once_restore_the_hook():
    """The second thread ends last. It must not restore the hook that the first thread set."""
    original_hook = sys.unraisablehook
    second_has_entered, first_has_left = threading.Event(), threading.Event()

    def run_first_thread():
        with deferred_interrupts():
            assert second_has_entered.wait(30)
        first_has_left.set()

    def run_second_thread():
        with deferred_interrupts():
            second_has_entered.set()
            assert first_has_left.wait(30)

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(run_first_thread), pool.submit(run_second_thread)]:
            future.result()
    assert sys.unraisablehook is original_hook


def test_garbage_collection_is_enabled_again():
    with pytest.raises(ZeroDivisionError), gc_disabled():
        1 / gc.isenabled()  # False, so this raises
    assert gc.isenabled()


RECURSION = """
import sys

import numba

import kibitz
from kibitz._jit import Mark
from kibitz.engine.cache import cached_dispatcher
from kibitz.engine.kernel import make_generic_kernel

decorate = {"njit": numba.njit, "jit": kibitz.jit}[sys.argv[1]]

@decorate
def factorial(n):
    return 1.0 if n <= 1 else n * factorial(n - 1)

def formula(n):
    return factorial(n) + 1

def constant_index(params, stage, counts, arm, mean):
    return mean + factorial(3)  # numba compiles factorial once for 3 and once for integers

dispatcher = cached_dispatcher(formula, [(factorial, Mark())])
print([dispatcher(n) for n in range(6)], sum(dispatcher.stats.cache_hits.values()))
policy = kibitz.index_policy("constant", constant_index)
try:
    kernel = make_generic_kernel(policy, kibitz.bandit(), False)
    kernel._make_arguments(())
except Exception as error:
    print(error.__class__.__name__, "a recursive call cannot be resolved" in str(error))
"""


@needs_jit
@pytest.mark.parametrize("decorator", ["njit", "jit"])
def test_recursive_functions_are_cached_safely_or_rejected(tmp_path, decorator):
    """The second process loads the code of the first process, which crashed earlier versions."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    for n_cache_hits in (0, 1):
        process = subprocess.run(
            [sys.executable, "-c", RECURSION, decorator],
            capture_output=True,
            text=True,
            env=environment,
            timeout=300,
        )
        expected_values = [2.0, 2.0, 3.0, 7.0, 25.0, 121.0]
        assert process.stdout.splitlines() == [
            f"{expected_values} {n_cache_hits}",
            "NumbaError True",
        ], process.stderr
