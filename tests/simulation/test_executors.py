"""Tests that all executors give the same bits, and that lost jobs are submitted again."""

import pickle
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import numba
import numpy as np
import pytest
import xarray
from numba import cloudpickle
from workers import CountingExecutor, InlineExecutor

import kibitz as kb
from kibitz._hashing import content_hash
from kibitz.engine.cache import cached_dispatcher
from kibitz.policies import POLICIES
from kibitz.simulation import executors, schedule
from kibitz.simulation.executors import count_workers
from kibitz.simulation.jobs import Job, estimate_seconds, specialised_kernel
from kibitz.simulation.payload import current_versions, pack, play_payload

PROBLEM = kb.gaussian([1, 0.5, 0])
SETTING = {"horizon": 300, "runs": 40, "seed": 1}


def simulate_runs(**options):
    return kb.simulate(PROBLEM, kb.active(0.2), kb.ucb(), **{**SETTING, **options})


@pytest.fixture(scope="module")
def by_threads():
    return simulate_runs()


@pytest.fixture
def small_payloads(monkeypatch):
    """Make payloads so small that each simulation has many of them."""
    for module in (executors, schedule):
        monkeypatch.setattr(module, "PAYLOAD_SECONDS", 1e-4)


@pytest.mark.parametrize("threads", [None, 1, 3])
def test_an_inline_executor_plays_the_same_bits(by_threads, small_payloads, threads):
    inline = InlineExecutor()
    xarray.testing.assert_identical(simulate_runs(executor=inline, threads=threads), by_threads)
    assert len(inline.calls) > 5


def test_a_thread_pool_plays_the_same_bits_for_any_payload_size(by_threads, monkeypatch):
    for seconds in (1e-5, 1e-3, 10.0):
        monkeypatch.setattr(executors, "PAYLOAD_SECONDS", seconds)
        monkeypatch.setattr(schedule, "PAYLOAD_SECONDS", seconds / 3)  # several jobs per payload
        with ThreadPoolExecutor(2) as pool:
            xarray.testing.assert_identical(simulate_runs(executor=pool), by_threads)


def test_at_most_four_payloads_per_worker_are_in_flight(small_payloads):
    pool = CountingExecutor(2)
    simulate_runs(executor=pool, runs=400)
    assert 2 < pool.most <= 8
    pool = CountingExecutor(8)
    simulate_runs(executor=pool, runs=400, threads=1)
    assert pool.most <= 4


def test_a_payload_takes_about_its_target_duration():
    inline = InlineExecutor()
    simulate_runs(executor=inline, runs=20_000)  # 6e6 stages take at most half a second
    assert len(inline.calls) == 1
    jobs = [Job(n, kb.ucb(), PROBLEM, kb.bandit(), 10**6, np.array([10]), 1, 0, 5) for n in range(40)]
    workers = executors._Workers(inline, 1)
    bundles = list(workers.make_bundles(jobs))
    assert [len(bundle) for bundle in bundles] == [8] * 5  # 2 s, at 50 ns per stage
    workers.pace = 0.25  # this machine is four times faster
    assert [len(bundle) for bundle in workers.make_bundles(jobs)] == [32, 8]
    large_jobs = [job._replace(stages=np.zeros(10**5)) for job in jobs]  # each returns four megabytes
    assert [len(bundle) for bundle in workers.make_bundles(large_jobs)] == [2] * 20
    many_workers = executors._Workers(inline, 64)  # with 64 workers, payloads are twice as long
    assert [len(bundle) for bundle in many_workers.make_bundles(jobs)] == [16, 16, 8]


def test_jobs_of_several_cells_share_a_payload():
    inline = InlineExecutor()
    rates = np.linspace(0, 1, 30).tolist()
    setting = {"horizon": 50, "runs": 2, "seed": 1}
    data = kb.sweep(PROBLEM, kb.active, kb.ucb(), rate=rates, executor=inline, **setting)
    xarray.testing.assert_identical(
        data, kb.sweep(PROBLEM, kb.active, kb.ucb(), rate=rates, **setting)
    )
    assert len(inline.calls) == 1


def test_progress_is_by_stages_and_ends_at_one(small_payloads):
    shares = []
    options = {"progress": lambda what, share: shares.append(share)}
    simulate_runs(executor=InlineExecutor(), threads=1, runs=400, **options)
    assert shares == sorted(shares)
    assert len(set(shares)) > 5
    assert shares[-1] == 1.0


# ------------------------------------------------------------------------------------ lost jobs


def make_terminated_error():
    from loky.process_executor import TerminatedWorkerError

    return TerminatedWorkerError("a worker was terminated")


def make_killed_error():
    from distributed.scheduler import KilledWorker

    return KilledWorker("a task", None, 3)


ERRORS = {
    "pool": lambda: BrokenProcessPool("the pool broke"),
    "loky": make_terminated_error,
    "dask": make_killed_error,
    "cancelled": CancelledError,
}


@pytest.mark.parametrize("error", ERRORS)
def test_an_executor_that_loses_every_third_job_plays_the_same_bits(
    by_threads, small_payloads, error
):
    inline = InlineExecutor(lambda n: ERRORS[error]() if n % 3 == 0 else None)
    xarray.testing.assert_identical(simulate_runs(executor=inline), by_threads)
    attempts = [attempt for _, _, attempt in inline.calls]
    assert {1, 2} <= set(attempts) <= {1, 2, 3, 4}


@pytest.mark.parametrize("error", ["pool", "cancelled"])
def test_a_job_that_is_always_lost_is_tried_four_times(small_payloads, error):
    inline = InlineExecutor(lambda n: ERRORS[error]())
    with pytest.raises(ValueError, match="a job was lost 4 times because its worker died"):
        simulate_runs(executor=inline, threads=1)
    assert max(attempt for _, _, attempt in inline.calls) == 4


def test_an_error_in_a_job_is_not_retried(small_payloads):
    inline = InlineExecutor(lambda n: ZeroDivisionError("of a policy"))
    with pytest.raises(ZeroDivisionError):
        simulate_runs(executor=inline)
    assert {attempt for _, _, attempt in inline.calls} == {1}


class BreakingExecutor(InlineExecutor):
    """A pool that breaks at its third job and accepts no jobs afterwards."""

    def submit(self, function, /, *arguments):
        if len(self.calls) > 3:
            raise BrokenProcessPool("it is broken")
        return super().submit(function, *arguments)


def make_breaking_pool():
    return BreakingExecutor(lambda n: BrokenProcessPool("it breaks") if n == 3 else None)


def test_a_broken_executor_is_replaced_by_its_function(by_threads, small_payloads):
    executors_made = []

    def make():
        executors_made.append(make_breaking_pool())
        return executors_made[-1]

    xarray.testing.assert_identical(simulate_runs(executor=make), by_threads)
    assert len(executors_made) > 2


def test_a_broken_executor_raises_and_the_file_keeps_finished_runs(tmp_path, small_payloads):
    file = tmp_path / "result.nc"
    with pytest.raises(
        ValueError, match=r"the executor .* does not accept jobs .*; pass a working executor"
    ):
        simulate_runs(executor=make_breaking_pool(), threads=1, file=file)
    with xarray.open_dataset(file) as data:
        assert 0 < int(np.isfinite(data.final_regret).sum()) < SETTING["runs"]
    xarray.testing.assert_identical(simulate_runs(file=file), simulate_runs())


def test_only_executors_that_kibitz_created_are_shut_down():
    given_executor, made_executors = CountingExecutor(1), []

    def make():
        made_executors.append(CountingExecutor(1))
        return made_executors[0]

    simulate_runs(executor=given_executor)
    simulate_runs(executor=make)
    with pytest.raises(RuntimeError, match="after shutdown"):
        made_executors[0].submit(int)
    assert given_executor.submit(int).result() == 0
    given_executor.shutdown()
    with pytest.raises(ValueError, match=r"the executor .* does not accept jobs .*after shutdown"):
        simulate_runs(executor=given_executor)


@pytest.mark.parametrize("junk", [3, "dask", [], object()])
def test_anything_but_an_executor_is_rejected(junk):
    message = (
        "executor must be a concurrent.futures Executor or a function that returns an Executor, got"
    )
    with pytest.raises(ValueError, match=message):
        simulate_runs(executor=junk)


def test_a_function_that_does_not_return_an_executor_is_rejected():
    message = "the function given as executor must return a concurrent.futures Executor, got 3$"
    with pytest.raises(ValueError, match=message):
        simulate_runs(executor=lambda: 3)


def test_ctrl_c_cancels_waiting_jobs_and_leaves_a_file_to_resume(tmp_path, small_payloads):
    file = tmp_path / "result.nc"
    gate = threading.Event()

    class GatedExecutor(CountingExecutor):
        """An executor that runs the first payload at once, and the others when the gate opens."""

        def submit(self, function, /, *arguments):
            wait = gate.wait if self.futures else bool
            return super().submit(lambda: wait() is not None and function(*arguments))

    pool = GatedExecutor(1)

    def stop(message, share):
        if share > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate_runs(executor=pool, file=file, progress=stop, runs=400)
    gate.set()
    pool.shutdown()
    assert any(future.cancelled() for future in pool.futures)
    with xarray.open_dataset(file) as data:
        assert 0 < int(np.isfinite(data.final_regret).sum()) < 400
    xarray.testing.assert_identical(simulate_runs(file=file, runs=400), simulate_runs(runs=400))


def test_the_number_of_workers_is_read_from_the_executor():
    class Mpi(InlineExecutor):
        num_workers = 7

    class Dask(InlineExecutor):
        class _client:
            nthreads = staticmethod(lambda: {"tcp://1": 2, "tcp://2": 3})

    assert count_workers(ThreadPoolExecutor(3)) == 3
    assert count_workers(Mpi()) == 7
    assert count_workers(Dask()) == 5
    assert count_workers(InlineExecutor()) == executors.count_cores()
    assert count_workers(executors.RestartingExecutor(Mpi)) == 7


# ----------------------------------------------------------------------------------- payloads


def make_job(policy, **change):
    job = Job(None, policy, PROBLEM, kb.active(0.2), 100, np.array([50, 100]), 1, 0, 3)
    return job._replace(**change)


@pytest.mark.parametrize("name", POLICIES)
def test_a_built_in_policy_is_sent_by_name(name):
    payload = pack([make_job(POLICIES[name]())])
    assert len(payload.content) < 2000
    (data,) = pickle.loads(payload.content)
    assert pickle.loads(pickle.loads(data).policy) == POLICIES[name]()


@pytest.mark.parametrize("numbers", [{"exploration": 6.0, "ignore_looks": False}, {"width": 2.0}])
def test_an_own_policy_with_a_built_in_name_is_sent_with_its_functions(numbers):
    def index(params, stage, counts, arm, mean):
        return mean

    own_policy = kb.index_policy("ucb", index, **numbers)
    (data,) = pickle.loads(pack([make_job(own_policy)]).content)
    assert cloudpickle.loads(pickle.loads(data).policy).index.__code__ == index.__code__


def test_a_worker_with_another_version_does_not_play():
    other_versions = {**current_versions(), "numba": "0.1"}
    payload = pack([make_job(kb.ucb())])
    answer = play_payload(payload._replace(versions=other_versions), 1)
    assert answer.outcomes == ()
    inline = InlineExecutor(answers=lambda answer: answer._replace(versions=other_versions))
    with pytest.raises(ValueError, match=r"^workers must have .*, got numba 0.1 instead of \d"):
        simulate_runs(executor=inline)


def test_answers_from_other_code_are_rejected():
    def change(answer):
        return answer._replace(fingerprints=("0" * 64,) * len(answer.fingerprints))

    with pytest.raises(ValueError, match="workers run different code under the same version"):
        simulate_runs(executor=InlineExecutor(answers=change))


def test_an_import_error_in_a_worker_is_explained():
    inline = InlineExecutor(lambda n: ModuleNotFoundError("No module named 'mine'"))
    with pytest.raises(
        ValueError, match=r"a worker cannot import kibitz or the policy; .*named 'mine'"
    ):
        simulate_runs(executor=inline)


def test_the_fingerprint_of_a_job_covers_its_code_and_data():
    jobs = {
        "same": make_job(kb.ucb()),
        "other": make_job(kb.ftl()),
        "feedback": make_job(kb.ucb(), feedback=kb.passive(0.2)),
        "seed": make_job(kb.ucb(), seed=2),
        "runs": make_job(kb.ucb(), end_run=4),
        "leap": make_job(kb.ucb(), leap=True),
    }
    fingerprints = [pack([job]).fingerprints[0] for job in jobs.values()]
    assert len(set(fingerprints)) == len(jobs)
    assert pack([make_job(kb.ucb())]).fingerprints == (fingerprints[0],)
    leap, step = (specialised_kernel(jobs[name]).code_hash for name in ("leap", "same"))
    assert leap != step


WIDTH = size = 2.0  # the formula uses `size` only as an attribute name, so it must not be sent


@kb.jit
def bonus(counts, arm):
    return WIDTH / counts[arm]


def formula(params, stage, counts, arm, mean):
    return mean + bonus(counts, arm) * counts.size


def test_functions_have_the_same_hash_in_a_worker():
    unpickled_formula = pickle.loads(cloudpickle.dumps(formula))
    worker_globals = {"__name__": "elsewhere", "WIDTH": 2.0}
    exec("def bonus(counts, arm):\n    return WIDTH / counts[arm]\n", worker_globals)
    bare_globals = dict(worker_globals)
    exec("def formula(params, counts):\n    return bonus(counts, 0) * counts.size\n", bare_globals)
    extended_globals = {**worker_globals, "size": 5.0}
    exec(
        "def formula(params, counts):\n    return bonus(counts, 0) * counts.size\n", extended_globals
    )
    hash_before = content_hash(bare_globals["formula"])
    assert content_hash(extended_globals["formula"]) == hash_before
    worker_globals["WIDTH"] = 3.0
    assert content_hash(bare_globals["formula"]) != hash_before
    assert content_hash(unpickled_formula) == content_hash(formula)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_an_unpickled_function_can_be_compiled():
    """Pickling keeps the attribute by which `kb.jit` marks a function."""
    unpickled_formula = cloudpickle.loads(cloudpickle.dumps(_by_value(formula)))

    def call(counts):
        return unpickled_formula(0.0, 1, counts, 0, 0.0)

    assert cached_dispatcher(call)(np.ones(2)) == 4.0


def _by_value(function):
    """Return a copy of a function that cloudpickle pickles by value."""
    names = {"__name__": "__main__", "WIDTH": WIDTH}
    names["bonus"] = kb.jit(type(bonus)(bonus.__code__, names, "bonus"))
    return kb.jit(type(function)(function.__code__, names, function.__name__))


def test_the_estimated_time_follows_from_the_stages():
    step = make_job(kb.ucb(), feedback=kb.bandit(), horizon=10**6, end_run=20)
    assert estimate_seconds(step) == pytest.approx(1.0)
    assert estimate_seconds(step._replace(leap=True)) == pytest.approx(0.1)
