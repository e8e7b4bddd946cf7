"""Tests that functions run in plain Python, in workers and without numba's private parts."""

import os
import subprocess
import sys
from textwrap import dedent

import numba
import numpy as np
import pytest
from numba.core.serialize import cloudpickle

import kibitz as kb
from kibitz import jit
from kibitz.engine import environment as environment, leap
from kibitz.engine.cache import cached_dispatcher
from kibitz.engine.rng import new_stream
from kibitz.policies import POLICIES
from kibitz.simulation.jobs import Job, play

pytestmark = pytest.mark.slow

needs_jit = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")


def run_script(script, *arguments, **environment_variables):
    process = subprocess.run(
        [sys.executable, "-c", dedent(script), *arguments],
        capture_output=True, text=True, env={**os.environ, **environment_variables},
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_policy_functions_run_in_plain_python_without_compiling():
    """The functions run in another process, because a wrong call could crash the interpreter."""
    output = run_script(
        """
        import numba, numpy as np
        from numba.core import event
        from kibitz.policies import POLICIES

        with event.install_recorder("numba:compile") as recorder:
            for name, make in POLICIES.items():
                policy = make()
                params, rng = policy.params_for(100), np.random.default_rng(1)
                state = policy.init(params, 3)
                for stage in range(1, 60):
                    arm = int(policy.pull(params, state, stage, rng))
                    look = int(policy.look(params, state, stage, rng))
                    state = policy.update(params, state, stage, arm, 1, 0.5, False)
                    state = policy.update(params, state, stage, look, 1, 1.0, True)
                if policy.view is not None:
                    seen = policy.view(params, state, 60)
                    known = seen.statistics
                    read = known if policy.index_reads == "statistics" else known.n_observed
                    policy.index(params, 60, read, 0, 0.5)
                if policy.turns is not None:
                    policy.turns(params, state)
                if policy.hold is not None:
                    policy.hold(params, state)
                    policy.looks_due(params, state, 0, 9)
        print(len(recorder.buffer))
        """
    )
    assert output == "0\n"


def test_an_environment_can_be_sampled_in_plain_python():
    for problem in (kb.gaussian([1, 0]), kb.bernoulli([0.5, 1]), kb.empirical([[1.0], [2.0, 3.0]])):
        arms = environment.make_arms(problem, problem.scale or 1.0)
        stream = new_stream(1)
        rewards = [environment.draw(arms, arm, stream) for arm in (0, 1, 0, 1)]
        assert np.all(np.isfinite(rewards))
        if problem.kind != "empirical":
            assert np.isfinite(leap.draw_sum(arms, 0, 1000, stream.rng))
    feedback = kb.passive(lambda stage: 1 / stage, lambda stage, arm: 0.5)
    next_arrival, draw_look_arm = environment.make_look_functions(feedback)
    looks = environment.make_looks(feedback, np.zeros(2), 50)
    rng = np.random.default_rng(1)
    assert next_arrival(looks, 0, 50, rng, np.zeros(1)) == 1
    assert draw_look_arm(looks, 1, rng) in (0, 1)


@pytest.mark.parametrize("name", POLICIES)
def test_jobs_of_every_policy_can_be_serialised(name):
    policy = POLICIES[name]()
    stages = np.array([50])
    job = Job(None, policy, kb.gaussian([1, 0.5, 0]), kb.active(0.3), 50, stages, 3, 0, 2)
    unpickled_job = cloudpickle.loads(cloudpickle.dumps(job))
    assert unpickled_job.policy.params_for(50) == policy.params_for(50)
    rng = np.random.default_rng(2)
    for tested_policy in (policy, unpickled_job.policy):
        params = tested_policy.params_for(50)
        state = tested_policy.init(params, 2)
        for stage in (1, 2, 3):
            arm = int(tested_policy.pull(params, state, stage, rng))
            state = tested_policy.update(params, state, stage, arm, 1, 0.5, False)


@needs_jit
def test_a_policy_of_main_gives_the_same_numbers_in_a_worker():
    def index(params, stage, counts, arm, mean):
        return mean + params.width / counts[arm]

    own_policy = kb.index_policy("mine", index, width=2.0)
    stages = np.array([50])
    job = Job(None, own_policy, kb.gaussian([1, 0.5, 0]), kb.active(0.3), 50, stages, 3, 0, 2)
    unpickled_job = cloudpickle.loads(cloudpickle.dumps(job))
    for our_values, worker_values in zip(play(job), play(unpickled_job), strict=True):
        np.testing.assert_array_equal(our_values, worker_values)


@needs_jit
def test_a_policy_uses_the_current_values_of_its_globals():
    namespace = {"__name__": "mine", "WIDTH": 0.0}
    exec(
        "def index(p, stage, counts, arm, mean):\n    return mean + WIDTH / counts[arm]\n", namespace
    )
    own_policy = kb.index_policy("mine", namespace["index"])
    setting = {"horizon": 300, "runs": 3, "seed": 1}
    for kernel in ("generic", "specialised"):
        regrets = []
        for width in (0.0, 5.0, 0.0):
            namespace["WIDTH"] = width
            data = kb.simulate(kb.gaussian([1, 0]), kb.bandit(), own_policy, kernel=kernel, **setting)
            regrets.append(float(data.final_regret.sum()))
        assert regrets[0] == regrets[2] != regrets[1]


SCRIPT_WITHOUT_PRIVATE_PARTS = """
    from numba.core import compiler_machinery, cpu
    del compiler_machinery.register_pass
    for owner in cpu.CPUTargetOptions.__mro__:
        for name in ("_nrt", "forceinline"):
            if name in vars(owner):
                delattr(owner, name)
    import kibitz as kb
    from kibitz.engine import numba_compat
    numba_compat.CAN_CALL_POINTER = False
    data = kb.simulate(
        kb.gaussian([1, 0.5, 0]), kb.active(0.3), kb.ucb(), horizon=300, runs=3, seed=1, engine="step"
    )
    print(numba_compat.INLINE, numba_compat.KERNEL, numba_compat.CAN_CACHE, data.encoding["kernel"])
    print(data.n_pulls.values.tolist())
"""


@needs_jit
def test_numbers_do_not_depend_on_private_parts_of_numba(tmp_path):
    output = run_script(SCRIPT_WITHOUT_PRIVATE_PARTS, XDG_CACHE_HOME=str(tmp_path))
    data = kb.simulate(
        kb.gaussian([1, 0.5, 0]), kb.active(0.3), kb.ucb(), horizon=300, runs=3, seed=1, engine="step"
    )
    kernel = {"ucb": "specialised"}
    assert output == f"{{}} {{}} False {kernel}\n{data.n_pulls.values.tolist()}\n"
    assert not list(tmp_path.rglob("*.kernel"))


@needs_jit
def test_functions_that_share_parts_with_a_kernel_still_compile(tmp_path):
    """Functions that a kernel contains can be linked into other compiled functions, too.

    The script compiles `arrays` in another thread while the kernel is compiled, and again afterwards.
    The index calls `half`, a compiled function of the user.
    """
    output = run_script(
        """
        import threading
        import numba, numpy as np
        import kibitz as kb

        @numba.njit
        def half(x):
            return max(x, 0.0) / 2

        def index(params, stage, counts, arm, mean):
            return mean + half(np.sqrt(np.log(stage) / counts[arm]))

        def arrays(n, rng):
            some = np.zeros(n)
            some[0] = max(n, 3) + rng.standard_exponential()
            return np.ones(n).sum() + some.sum() + np.full(n, 2.0)[0] + half(float(n))

        results = []
        def compile_some(times):
            for _ in range(times):
                results.append(numba.njit(arrays)(2, np.random.default_rng(1)))

        other = threading.Thread(target=compile_some, args=(5,))
        other.start()
        policy = kb.index_policy("mine", index)
        data = kb.simulate(
            kb.gaussian([1, 0]), kb.active(0.5), policy,
            horizon=50, runs=2, seed=1, kernel="specialised",
        )
        other.join()
        compile_some(1)
        assert len(results) == 6 and set(results) == {arrays(2, np.random.default_rng(1))}
        print(half(3.0), float(data.final_regret.sum()) > 0)
        """,
        XDG_CACHE_HOME=str(tmp_path),
    )
    assert output == "1.5 True\n"


@needs_jit
def test_the_same_loop_is_compiled_once():
    @jit
    def half(x):
        return x / 2

    def loop(n):
        return half(n)

    assert cached_dispatcher(loop)(3) == 1.5
    assert half(3) == 1.5
    assert cached_dispatcher(loop) is cached_dispatcher(loop)
