"""Tests of generic kernels, specialised kernels and background compilation.

Generic and specialised kernels give the same numbers. tests/policies/test_contract.py tests this for
runs stage by stage, and test_leap.py for runs with leaps.
"""

import math
import pickle
import subprocess
import time
from contextlib import nullcontext
from dataclasses import replace
from io import BytesIO
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from numba.core import event

import kibitz as kb
from kibitz.engine import background
from kibitz.engine.cache import cache_folder
from kibitz.engine.kernel import Kernel, make_generic_kernel
from kibitz.policies import POLICIES
from kibitz.simulation import kernels
from kibitz.simulation.simulate import rehearsal

needs_jit = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
pytestmark = [needs_jit, pytest.mark.slow]

ARMS = kb.gaussian([1.0, 0.6, 0.2])
SETTING = {"horizon": 400, "runs": 3, "seed": 5}


def kernels_used(data):
    return data.encoding["kernel"]


def width(params, stage, counts, arm, mean):
    """Return an index that uses a parameter of each type."""
    exploration = params.c * math.log(stage) if params.wide else params.c
    return mean + math.sqrt(exploration / counts[arm]) + params.power // 3


def make_generic(policy, feedback=None, leap=False):
    return make_generic_kernel(policy, feedback or kb.bandit(), leap)


def test_which_policies_have_a_generic_kernel():
    found = {name for name, make in POLICIES.items() if make_generic(make()) is not None}
    assert found == {
        "ftl", "ftl_robin", "ucb", "ucb_double", "moss", "moss_anytime", "kl_ucb"
    }  # fmt: skip


def test_formulas_of_all_kinds_share_one_generic_kernel():
    own = kb.index_policy("own", width, c=1.5, power=5, wide=True)
    assert make_generic(own).key == make_generic(kb.ucb_double()).key == make_generic(kb.moss()).key
    assert make_generic(own)._loop() is make_generic(kb.moss())._loop()
    assert make_generic(own).key != make_generic(kb.ucb(ignore_looks=True)).key
    assert make_generic(own).key != make_generic(kb.ftl_robin()).key


def test_a_policy_with_a_function_replaced_has_no_generic_kernel():
    """A generic kernel would use the original policy's function and ignore the replacement."""
    changed = replace(kb.ucb(), look=kb.ucb_second().look)
    assert make_generic(kb.ucb()) is not None
    assert make_generic(changed) is None
    assert changed != kb.ucb()


@pytest.mark.parametrize("numbers", [(1.5, 5, True), (2.0, -1, False), (0.1, 2**40, True)])
def test_a_formula_gets_its_parameters(numbers):
    """Python and the generic kernel see the same parameters, with the same types."""
    own = kb.index_policy("own", width, **dict(zip(("c", "power", "wide"), numbers, strict=True)))
    pointer, values = make_generic(own)._arguments(tuple(own.params))
    call = _caller()
    counts = np.array([4, 9], np.int64)
    for stage in (1, 2, 70):
        for arm in (0, 1):
            expected = width(own.params, stage, counts, arm, 0.25)
            assert call(pointer, values, stage, counts, arm, 0.25) == pytest.approx(
                expected, rel=1e-15
            )


def _caller():
    from kibitz.engine.numba_compat import call_pointer

    @numba.njit
    def call(pointer, values, stage, counts, arm, mean):
        return call_pointer(pointer, values, stage, counts, arm, mean)

    return call


@pytest.mark.parametrize("engine", ["step", "leap"])
def test_generic_and_specialised_kernels_give_the_same_numbers(engine):
    own = kb.index_policy("own", width, c=1.5, power=5, wide=True)
    generic, specialised = (
        kb.simulate(ARMS, kb.active(0.2), own, engine=engine, kernel=kernel, **SETTING)
        for kernel in ("generic", "specialised")
    )
    assert (kernels_used(generic), kernels_used(specialised)) == (
        {"own": "generic"},
        {"own": "specialised"},
    )
    for name in generic.data_vars:
        np.testing.assert_array_equal(generic[name], specialised[name], err_msg=name)


def test_an_edited_formula_is_compiled_again():
    names = {"sqrt": math.sqrt, "__name__": "edited"}
    text = "def index(p, t, n, arm, mean):\n    return mean + {} * sqrt(t / n[arm])"
    regrets = []
    for factor in (0.0, 5.0, 0.0):
        exec(text.format(factor), names)
        data = kb.simulate(ARMS, kb.bandit(), kb.index_policy("mine", names["index"]), **SETTING)
        assert kernels_used(data) == {"mine": "generic"}
        regrets.append(float(data.final_regret.mean()))
    assert regrets[0] == regrets[2] != regrets[1]


def test_an_exception_in_a_formula_propagates():
    def index(params, stage, counts, arm, mean):
        if stage >= 50:
            raise ValueError("not from stage 50 on")
        return mean

    mine = kb.index_policy("mine", index)
    pointer, values = make_generic(mine)._arguments(())
    assert _caller()(pointer, values, 49, np.array([1, 1]), 0, 0.5) == 0.5
    with pytest.raises(ValueError, match="not from stage 50 on"):
        _caller()(pointer, values, 50, np.array([1, 1]), 0, 0.5)


def test_a_policy_without_a_generic_kernel_is_compiled():
    data = kb.simulate(ARMS, kb.bandit(), kb.ucb2(), kernel="generic", **SETTING)
    assert kernels_used(data) == {"ucb2": "specialised"}


def test_a_cached_specialised_kernel_is_used(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # an empty cache

    def index(params, stage, counts, arm, mean):
        return mean + 0.71 * math.sqrt(math.log(stage) / counts[arm])

    first = kb.simulate(ARMS, kb.bandit(), kb.index_policy("mine", index), **SETTING)
    kb.simulate(ARMS, kb.bandit(), kb.index_policy("mine", index), kernel="specialised", **SETTING)
    again = kb.simulate(ARMS, kb.bandit(), kb.index_policy("mine", index), **SETTING)
    assert [kernels_used(data)["mine"] for data in (first, again)] == ["generic", "specialised"]


def test_an_unknown_kernel_is_rejected():
    with pytest.raises(
        ValueError, match=r"^kernel must be 'auto', 'generic' or 'specialised', got 'last'$"
    ):
        kb.simulate(ARMS, kb.bandit(), kb.ucb(), kernel="last", **SETTING)


# -------------------------------------------------------------------- background compilation


def test_long_work_starts_generic_and_ends_specialised(monkeypatch, tmp_path):
    """Results are the same before and after the switch to the specialised kernel."""
    monkeypatch.setattr(kernels, "SPECIALISE_SECONDS", 0.001)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # an empty cache

    def index(params, stage, counts, arm, mean):
        return mean + 0.73 * math.sqrt(math.log(stage) / counts[arm])

    mine = kb.index_policy("mine", index)
    setting = {"horizon": 20_000, "runs": 40, "seed": 5, "stages": [20_000], "engine": "step"}
    finals = set()
    deadline = time.monotonic() + 300

    def wait_for_kernel(what, share):
        """Make the first job wait until the background compilation is finished."""
        while not finals and time.monotonic() < deadline:
            finals.update(set(cache_folder().glob("*.kernel")) - before)
            time.sleep(0.1)

    generic = kb.simulate(ARMS, kb.bandit(), mine, kernel="generic", **setting)
    before = set(cache_folder().glob("*.kernel"))
    both = kb.simulate(ARMS, kb.bandit(), mine, threads=1, progress=wait_for_kernel, **setting)
    assert kernels_used(both) == {"mine": "generic and specialised"}
    np.testing.assert_array_equal(both.regret, generic.regret)


def test_short_work_compiles_nothing_in_the_background(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", None)
    kb.simulate(ARMS, kb.bandit(), kb.index_policy("mine", lambda p, t, n, a, m: m), **SETTING)


def test_several_policies_without_generic_kernels_are_compiled_in_other_processes(
    monkeypatch, tmp_path
):
    """Other processes compile the kernels, and this process loads them.

    If the kernels cannot be pickled for the other processes, this process compiles them.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # an empty cache
    progress = []
    setting = {"progress": lambda what, share: progress.append(what), **SETTING}
    policies = [kb.ucb2(), kb.thompson()]
    elsewhere = kb.simulate(ARMS, kb.active(lambda stage: 0.3), policies, **setting)
    messages = [what for what in progress if what.startswith("compiling")]
    assert messages == ["compiling ucb2, thompson"]
    assert kernels_used(elsewhere) == {"ucb2": "specialised", "thompson": "specialised"}

    progress.clear()
    monkeypatch.setattr(background.cloudpickle, "dumps", lambda kernel: pickle.dumps(lambda: None))
    here = kb.simulate(ARMS, kb.active(lambda stage: 0.1 * 3), policies, **setting)
    messages = [what for what in progress if what.startswith("compiling")]
    assert messages == ["compiling ucb2, thompson", "compiling ucb2", "compiling thompson"]
    for name in here.data_vars:
        np.testing.assert_array_equal(here[name], elsewhere[name], err_msg=name)


def test_the_background_process_ends_with_the_work(monkeypatch):
    started = []
    popen = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda *a, **k: started.append(popen(*a, **k)) or started[-1]
    )
    monkeypatch.setattr(kernels, "SPECIALISE_SECONDS", 0.0)
    mine = kb.index_policy("mine", lambda p, t, n, a, m: m + 0.125)
    kb.simulate(ARMS, kb.bandit(), mine, **SETTING)
    assert [process.returncode is not None for process in started] == [True]


def test_collected_jobs_are_compiled_in_the_background(monkeypatch, tmp_path):
    """This process compiles nothing itself, waits for the kernels and returns the same results."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # an empty cache
    looks = kb.active(lambda stage: 0.2 + 0.1)
    mine = kb.index_policy("mine", lambda p, t, n, a, m: m + 0.375 * math.sqrt(math.log(t) / n[a]))
    progress = []

    def play(**options):
        return kb.simulate(ARMS, looks, [mine, kb.ucb2()], **{**SETTING, **options})

    with rehearsal() as jobs:
        assert not play(file=tmp_path / "never").data_vars
        with rehearsal() as others:
            pass
    assert ([job.label[1] for job in jobs], others) == (["mine", "ucb2"], [])
    assert not list(tmp_path.iterdir())
    with kernels.compile_kernels_for(jobs), event.install_recorder("numba:compile") as recorder:
        processes = list(background._compiling.values())
        data = play(progress=lambda what, share: progress.append(what))
    assert not [e for _, e in recorder.buffer if "formula" not in e.data["dispatcher"].__name__]
    assert progress[0] == "compiling mine"
    assert set(progress) <= {"compiling mine", "compiling ucb2", "simulating"}
    assert kernels_used(data) == {"mine": "generic", "ucb2": "specialised"}
    assert not background._compiling
    assert all(process.returncode is not None for process in processes)
    with kernels.compile_kernels_for(jobs):  # everything is compiled already
        assert not background._compiling
    monkeypatch.setattr(Kernel, "is_ready", lambda kernel: False)
    with kernels.compile_kernels_for(jobs):  # if the processes are killed, no job waits for them
        for process in background._compiling.values():
            process.kill()
        again = play()
    for name in data.data_vars:
        np.testing.assert_array_equal(again[name], data[name], err_msg=name)


def test_without_a_writable_cache_nothing_is_compiled_in_the_background(monkeypatch, tmp_path):
    """A background process stops if it cannot store a kernel; no job may wait for such a kernel."""
    monkeypatch.setattr(background, "cache_folder", lambda: tmp_path)
    for stored, expected in ((False, [1]), (True, [1, 2, 3])):
        compiled = []

        def unpickle(payload, stored=stored, compiled=compiled):
            def compile_and_record():
                compiled.append(payload)
                if stored:
                    (tmp_path / f"{payload}.kernel").touch()

            return SimpleNamespace(compile=compile_and_record)

        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=BytesIO(pickle.dumps([1, 2, 3]))))
        monkeypatch.setattr(background.pickle, "loads", unpickle)
        background.compile_received()
        assert compiled == expected


@pytest.mark.parametrize("n_cores", [1, 2, 4])
def test_long_work_is_compiled_ahead_into_a_specialised_kernel(monkeypatch, n_cores):
    monkeypatch.setattr(Kernel, "is_ready", lambda kernel: False)
    sent = []
    monkeypatch.setattr(
        background, "_process", lambda share: sent.append(share) or nullcontext(SimpleNamespace())
    )
    monkeypatch.setattr(kernels, "cores", lambda: n_cores)
    with rehearsal() as jobs:
        much = {**SETTING, "horizon": 10**5, "runs": 5000}
        kb.simulate(ARMS, kb.bandit(), kb.moss(), **much, engine="step")
        kb.simulate(ARMS, kb.bandit(), [kb.moss(), kb.kibitzer()], **much, engine="leap")
        kb.simulate(ARMS, kb.bandit(), kb.moss_anytime(), **SETTING)
        kb.simulate(ARMS, kb.bandit(), [kb.ftl(), kb.ucb2(), kb.moss()], **SETTING)
    with kernels.compile_kernels_for(jobs):
        kinds = [[(k.policy.name, k.generic, k.leap) for k in share] for share in sent]
    # Kernels with the same key stay together; kernels that leap are compiled in other processes.
    first, second = [("moss", False, False), ("ucb2", False, False)], [
        ("moss_anytime", True, False), ("ftl", True, False)
    ]  # fmt: skip
    leaps = [("moss", True, True)], [("kibitzer", False, True)]
    if n_cores == 4:
        assert kinds == [first, second, *leaps]
    else:
        assert kinds == [[first[0], *second, first[1]], [*leaps[0], *leaps[1]]]
