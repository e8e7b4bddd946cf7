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
from kibitz.simulation.simulate import collect_jobs

needs_jit = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
pytestmark = [needs_jit, pytest.mark.slow]

PROBLEM = kb.gaussian([1.0, 0.6, 0.2])
SETTING = {"horizon": 400, "runs": 3, "seed": 5}


def get_kernels_used(data):
    return data.encoding["kernel"]


def width_index(params, stage, counts, arm, mean):
    """Return an index that uses a parameter of each type."""
    exploration = params.c * math.log(stage) if params.wide else params.c
    return mean + math.sqrt(exploration / counts[arm]) + params.power // 3


def make_generic(policy, feedback=None, leap=False):
    return make_generic_kernel(policy, feedback or kb.bandit(), leap)


def test_the_listed_policies_have_a_generic_kernel():
    generic_policies = {
        name for name, make_policy in POLICIES.items() if make_generic(make_policy()) is not None
    }
    assert generic_policies == {
        "ftl", "ftl_robin", "ucb", "ucb_double", "moss", "moss_anytime", "kl_ucb", "bayes_ucb"
    }  # fmt: skip


def test_formulas_of_all_kinds_share_one_generic_kernel():
    own_policy = kb.index_policy("own", width_index, c=1.5, power=5, wide=True)
    assert (
        make_generic(own_policy).key
        == make_generic(kb.ucb_double()).key
        == make_generic(kb.moss()).key
    )
    assert make_generic(own_policy)._get_loop() is make_generic(kb.moss())._get_loop()
    assert make_generic(own_policy).key != make_generic(kb.ucb(ignore_looks=True)).key
    assert make_generic(own_policy).key != make_generic(kb.ftl_robin()).key


def test_a_policy_with_a_replaced_function_has_no_generic_kernel():
    """A generic kernel would use the original policy's function and ignore the replacement."""
    changed_policy = replace(kb.ucb(), look=kb.ucb_second().look)
    assert make_generic(kb.ucb()) is not None
    assert make_generic(changed_policy) is None
    assert changed_policy != kb.ucb()


@pytest.mark.parametrize("parameters", [(1.5, 5, True), (2.0, -1, False), (0.1, 2**40, True)])
def test_a_formula_gets_its_parameters(parameters):
    """The formula gets parameters of the same types in Python and in the generic kernel."""
    own_policy = kb.index_policy(
        "own", width_index, **dict(zip(("c", "power", "wide"), parameters, strict=True))
    )
    pointer, values = make_generic(own_policy)._make_arguments(tuple(own_policy.params))
    call = compile_caller()
    counts = np.array([4, 9], np.int64)
    for stage in (1, 2, 70):
        for arm in (0, 1):
            expected = width_index(own_policy.params, stage, counts, arm, 0.25)
            assert call(pointer, values, stage, counts, arm, 0.25) == pytest.approx(
                expected, rel=1e-15
            )


def compile_caller():
    from kibitz.engine.numba_compat import call_pointer

    @numba.njit
    def call(pointer, values, stage, counts, arm, mean):
        return call_pointer(pointer, values, stage, counts, arm, mean)

    return call


@pytest.mark.parametrize("engine", ["step", "leap"])
def test_generic_and_specialised_kernels_give_the_same_numbers(engine):
    own_policy = kb.index_policy("own", width_index, c=1.5, power=5, wide=True)
    generic_data, specialised_data = (
        kb.simulate(PROBLEM, kb.active(0.2), own_policy, engine=engine, kernel=kernel, **SETTING)
        for kernel in ("generic", "specialised")
    )
    assert (get_kernels_used(generic_data), get_kernels_used(specialised_data)) == (
        {"own": "generic"},
        {"own": "specialised"},
    )
    for name in generic_data.data_vars:
        np.testing.assert_array_equal(generic_data[name], specialised_data[name], err_msg=name)


def test_an_edited_formula_is_compiled_again():
    namespace = {"sqrt": math.sqrt, "__name__": "edited"}
    text = "def index(p, t, n, arm, mean):\n    return mean + {} * sqrt(t / n[arm])"
    regrets = []
    for factor in (0.0, 5.0, 0.0):
        exec(text.format(factor), namespace)
        data = kb.simulate(
            PROBLEM, kb.bandit(), kb.index_policy("mine", namespace["index"]), **SETTING
        )
        assert get_kernels_used(data) == {"mine": "generic"}
        regrets.append(float(data.final_regret.mean()))
    assert regrets[0] == regrets[2] != regrets[1]


def test_an_exception_in_a_formula_propagates():
    def index(params, stage, counts, arm, mean):
        if stage >= 50:
            raise ValueError("not from stage 50 on")
        return mean

    own_policy = kb.index_policy("mine", index)
    pointer, values = make_generic(own_policy)._make_arguments(())
    assert compile_caller()(pointer, values, 49, np.array([1, 1]), 0, 0.5) == 0.5
    with pytest.raises(ValueError, match="not from stage 50 on"):
        compile_caller()(pointer, values, 50, np.array([1, 1]), 0, 0.5)


def test_a_policy_without_a_generic_kernel_is_compiled():
    data = kb.simulate(PROBLEM, kb.bandit(), kb.ucb2(), kernel="generic", **SETTING)
    assert get_kernels_used(data) == {"ucb2": "specialised"}


def test_a_cached_specialised_kernel_is_used(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # an empty cache

    def index(params, stage, counts, arm, mean):
        return mean + 0.71 * math.sqrt(math.log(stage) / counts[arm])

    first_data = kb.simulate(PROBLEM, kb.bandit(), kb.index_policy("mine", index), **SETTING)
    kb.simulate(PROBLEM, kb.bandit(), kb.index_policy("mine", index), kernel="specialised", **SETTING)
    second_data = kb.simulate(PROBLEM, kb.bandit(), kb.index_policy("mine", index), **SETTING)
    assert [get_kernels_used(data)["mine"] for data in (first_data, second_data)] == [
        "generic",
        "specialised",
    ]


def test_an_unknown_kernel_is_rejected():
    with pytest.raises(
        ValueError, match=r"^kernel must be 'auto', 'generic' or 'specialised', got 'last'$"
    ):
        kb.simulate(PROBLEM, kb.bandit(), kb.ucb(), kernel="last", **SETTING)


# -------------------------------------------------------------------- background compilation


def test_long_work_starts_generic_and_ends_specialised(monkeypatch, tmp_path):
    """Results are the same before and after the switch to the specialised kernel."""
    monkeypatch.setattr(kernels, "SPECIALISE_SECONDS", 0.001)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # an empty cache

    def index(params, stage, counts, arm, mean):
        return mean + 0.73 * math.sqrt(math.log(stage) / counts[arm])

    own_policy = kb.index_policy("mine", index)
    setting = {"horizon": 20_000, "runs": 40, "seed": 5, "stages": [20_000], "engine": "step"}
    new_kernels = set()
    deadline = time.monotonic() + 300

    def wait_for_kernel(message, share):
        """Make the first job wait until the background compilation is finished."""
        while not new_kernels and time.monotonic() < deadline:
            new_kernels.update(set(cache_folder().glob("*.kernel")) - files_before)
            time.sleep(0.1)

    generic_data = kb.simulate(PROBLEM, kb.bandit(), own_policy, kernel="generic", **setting)
    files_before = set(cache_folder().glob("*.kernel"))
    data_of_both_kernels = kb.simulate(
        PROBLEM, kb.bandit(), own_policy, threads=1, progress=wait_for_kernel, **setting
    )
    assert get_kernels_used(data_of_both_kernels) == {"mine": "generic and specialised"}
    np.testing.assert_array_equal(data_of_both_kernels.regret, generic_data.regret)


def test_short_work_compiles_nothing_in_the_background(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", None)
    kb.simulate(PROBLEM, kb.bandit(), kb.index_policy("mine", lambda p, t, n, a, m: m), **SETTING)


def test_several_policies_without_generic_kernels_are_compiled_in_other_processes(
    monkeypatch, tmp_path
):
    """Other processes compile the kernels, and this process loads them.

    If the kernels cannot be pickled for the other processes, this process compiles them.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # an empty cache
    progress_messages = []
    setting = {"progress": lambda message, share: progress_messages.append(message), **SETTING}
    policies = [kb.ucb2(), kb.thompson()]
    data_of_other_processes = kb.simulate(PROBLEM, kb.active(lambda stage: 0.3), policies, **setting)
    messages = [message for message in progress_messages if message.startswith("compiling")]
    assert messages == ["compiling ucb2, thompson"]
    assert get_kernels_used(data_of_other_processes) == {
        "ucb2": "specialised",
        "thompson": "specialised",
    }

    progress_messages.clear()
    monkeypatch.setattr(background.cloudpickle, "dumps", lambda kernel: pickle.dumps(lambda: None))
    data_of_this_process = kb.simulate(PROBLEM, kb.active(lambda stage: 0.1 * 3), policies, **setting)
    messages = [message for message in progress_messages if message.startswith("compiling")]
    assert messages == ["compiling ucb2, thompson", "compiling ucb2", "compiling thompson"]
    for name in data_of_this_process.data_vars:
        np.testing.assert_array_equal(
            data_of_this_process[name], data_of_other_processes[name], err_msg=name
        )


def test_the_background_process_ends_with_the_work(monkeypatch):
    started_processes = []
    popen = subprocess.Popen
    monkeypatch.setattr(
        subprocess,
        "Popen",
        lambda *a, **k: started_processes.append(popen(*a, **k)) or started_processes[-1],
    )
    monkeypatch.setattr(kernels, "SPECIALISE_SECONDS", 0.0)
    own_policy = kb.index_policy("mine", lambda p, t, n, a, m: m + 0.125)
    kb.simulate(PROBLEM, kb.bandit(), own_policy, **SETTING)
    assert [process.returncode is not None for process in started_processes] == [True]


def test_collected_jobs_are_compiled_in_the_background(monkeypatch, tmp_path):
    """This process compiles no kernel. It waits for the kernels and returns the same results."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # an empty cache
    feedback = kb.active(lambda stage: 0.2 + 0.1)
    own_policy = kb.index_policy(
        "mine", lambda p, t, n, a, m: m + 0.375 * math.sqrt(math.log(t) / n[a])
    )
    progress_messages = []

    def play(**options):
        return kb.simulate(PROBLEM, feedback, [own_policy, kb.ucb2()], **{**SETTING, **options})

    with collect_jobs() as jobs:
        assert not play(file=tmp_path / "never").data_vars
        with collect_jobs() as inner_jobs:
            pass
    assert ([job.label[1] for job in jobs], inner_jobs) == (["mine", "ucb2"], [])
    assert not list(tmp_path.iterdir())
    with kernels.compile_kernels_for(jobs), event.install_recorder("numba:compile") as recorder:
        processes = list(background._compiling.values())
        data = play(progress=lambda message, share: progress_messages.append(message))
    assert not [e for _, e in recorder.buffer if "formula" not in e.data["dispatcher"].__name__]
    assert progress_messages[0] == "compiling mine"
    assert set(progress_messages) <= {"compiling mine", "compiling ucb2", "simulating"}
    assert get_kernels_used(data) == {"mine": "generic", "ucb2": "specialised"}
    assert not background._compiling
    assert all(process.returncode is not None for process in processes)
    with kernels.compile_kernels_for(jobs):  # everything is compiled already
        assert not background._compiling
    monkeypatch.setattr(Kernel, "is_ready", lambda kernel: False)
    with kernels.compile_kernels_for(jobs):  # jobs do not wait for killed processes
        for process in background._compiling.values():
            process.kill()
        repeated_data = play()
    for name in data.data_vars:
        np.testing.assert_array_equal(repeated_data[name], data[name], err_msg=name)


def test_without_a_writable_cache_nothing_is_compiled_in_the_background(monkeypatch, tmp_path):
    """A background process stops if it cannot store a kernel, which no job could load."""
    monkeypatch.setattr(background, "cache_folder", lambda: tmp_path)
    for is_stored, expected_payloads in ((False, [1]), (True, [1, 2, 3])):
        compiled_payloads = []

        def unpickle(payload, is_stored=is_stored, compiled_payloads=compiled_payloads):
            def compile_and_record():
                compiled_payloads.append(payload)
                if is_stored:
                    (tmp_path / f"{payload}.kernel").touch()

            return SimpleNamespace(compile=compile_and_record)

        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=BytesIO(pickle.dumps([1, 2, 3]))))
        monkeypatch.setattr(background.pickle, "loads", unpickle)
        background.compile_received()
        assert compiled_payloads == expected_payloads


@pytest.mark.parametrize("n_cores", [1, 2, 4])
def test_long_work_compiles_specialised_kernels_in_the_background(monkeypatch, n_cores):
    monkeypatch.setattr(Kernel, "is_ready", lambda kernel: False)
    kernel_batches = []
    monkeypatch.setattr(
        background,
        "_run_process",
        lambda batch: kernel_batches.append(batch) or nullcontext(SimpleNamespace()),
    )
    monkeypatch.setattr(kernels, "count_cores", lambda: n_cores)
    with collect_jobs() as jobs:
        long_setting = {**SETTING, "horizon": 10**5, "runs": 5000}
        kb.simulate(PROBLEM, kb.bandit(), kb.moss(), **long_setting, engine="step")
        kb.simulate(PROBLEM, kb.bandit(), [kb.moss(), kb.kibitzer()], **long_setting, engine="leap")
        kb.simulate(PROBLEM, kb.bandit(), kb.moss_anytime(), **SETTING)
        kb.simulate(PROBLEM, kb.bandit(), [kb.ftl(), kb.ucb2(), kb.moss()], **SETTING)
    with kernels.compile_kernels_for(jobs):
        batch_summaries = [
            [(k.policy.name, k.generic, k.leap) for k in batch] for batch in kernel_batches
        ]
    # Kernels with the same key stay together; kernels that leap are compiled in other processes.
    first_batch, second_batch = [("moss", False, False), ("ucb2", False, False)], [
        ("moss_anytime", True, False), ("ftl", True, False)
    ]  # fmt: skip
    leap_batches = [("moss", True, True)], [("kibitzer", False, True)]
    if n_cores == 4:
        assert batch_summaries == [first_batch, second_batch, *leap_batches]
    else:
        assert batch_summaries == [
            [first_batch[0], *second_batch, first_batch[1]],
            [*leap_batches[0], *leap_batches[1]],
        ]
