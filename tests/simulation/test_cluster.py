"""Tests that pools, loky and Dask give the same bits as threads, even if a worker is killed."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from textwrap import dedent

import pytest
import workers
import xarray

import kibitz as kb
from kibitz.simulation import executors, schedule

pytestmark = pytest.mark.slow

PROBLEM = kb.gaussian([1, 0.5, 0])
SETTING = {"horizon": 20_000, "runs": 600, "seed": 1, "engine": "step"}  # takes half a second


def simulate_runs(**options):
    return kb.simulate(PROBLEM, kb.active(0.2), kb.ucb(), **{**SETTING, **options})


@pytest.fixture(scope="module")
def by_threads():
    return simulate_runs()


@pytest.fixture
def small_payloads(monkeypatch):
    """Make payloads small, so that a killed worker loses only some payloads."""
    for module in (executors, schedule):
        monkeypatch.setattr(module, "PAYLOAD_SECONDS", 0.05)


def spawned_pool(n=2):
    return ProcessPoolExecutor(n, mp_context=get_context("spawn"))


SCRIPT = """
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context
    import numba
    import kibitz as kb
    from kibitz.engine.cache import cache_folder

    width = 2.0  # also the name of a parameter

    @numba.njit
    def bonus(width, count):
        return width / count

    def index(params, stage, counts, arm, mean):
        return mean + bonus(params.width, counts[arm])

    def rate(stage):
        return 1.0 / stage

    def play(**options):
        mine = kb.index_policy("mine", index, width=width)
        return kb.simulate(kb.gaussian([1, 0.5, 0]), kb.active(rate), mine,
                           horizon=100, runs=30, seed=1, **options)

    def compiled():
        return len(list(cache_folder().glob("*.kernel")))

    if __name__ == "__main__":
        here, before = play(), compiled()
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            there = play(executor=pool)
        print(here.identical(there), before, compiled())
"""


def test_a_policy_and_a_rate_of_main_are_sent_to_spawned_processes(tmp_path):
    """Workers compile nothing. They load the kernels that the main process cached."""
    file = tmp_path / "script.py"
    file.write_text(dedent(SCRIPT))
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, str(file)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    assert process.returncode == 0, process.stderr
    assert process.stdout == "True 2 2\n"


def test_a_worker_with_another_version_or_edited_code_is_rejected():
    setting = {"horizon": 100, "runs": 2}
    with spawned_pool(1) as pool:
        pool.submit(workers.pretend_older_version).result()
        message = "workers must have the same versions as this process, got kibitz 0.0.9 instead of"
        with pytest.raises(ValueError, match=message):
            simulate_runs(executor=pool, **setting)
        pool.submit(workers.restore_version).result()
        pool.submit(workers.edit_ucb).result()
        with pytest.raises(ValueError, match="workers run different code under the same version"):
            simulate_runs(executor=pool, **setting)


class Killer:
    """A progress function that kills a worker at a given share of the work."""

    def __init__(self, share, victim):
        self.share, self.victim, self.done = share, victim, False

    def __call__(self, message, share):
        if share > self.share and not self.done:
            self.done = True
            os.kill(self.victim(), signal.SIGKILL)


def test_a_pool_is_restarted_when_a_worker_is_killed(by_threads, small_payloads):
    pools = []

    def make():
        pools.append(spawned_pool(1))
        return pools[-1]

    killer = Killer(0.2, lambda: next(iter(pools[0]._processes)))
    data = simulate_runs(executor=make, progress=killer)
    assert killer.done
    assert len(pools) == 2
    xarray.testing.assert_identical(data, by_threads)


def test_loky_plays_the_same_bits_and_may_lose_a_worker(by_threads, small_payloads):
    from loky import get_reusable_executor

    pools = []

    def make():
        pools.append(get_reusable_executor(1))
        return pools[-1]

    killer = Killer(0.2, lambda: next(iter(pools[0]._processes)))
    data = simulate_runs(executor=make, progress=killer)
    assert killer.done
    assert len(pools) == 2
    xarray.testing.assert_identical(data, by_threads)


@pytest.fixture(scope="module")
def dask():
    """Return the client of a Dask cluster with two worker processes on this machine."""
    from distributed import Client, LocalCluster

    cluster_options = {
        "n_workers": 2,
        "threads_per_worker": 1,
        "dashboard_address": ":0",
        "silence_logs": 60,
    }
    with LocalCluster(**cluster_options) as cluster, Client(cluster) as client:
        yield client


def test_a_dask_cluster_plays_the_same_bits_and_may_lose_a_worker(
    by_threads, small_payloads, dask, tmp_path
):
    store = tmp_path / "result.zarr"
    assert executors.count_workers(dask.get_executor()) == 2
    processes = dask.run(os.getpid)
    assert os.getpid() not in processes.values()
    killer = Killer(0.2, lambda: next(iter(processes.values())))
    data = simulate_runs(executor=dask.get_executor(), progress=killer, file=store)
    assert killer.done
    for name in by_threads.data_vars:
        assert (data[name] == by_threads[name]).all()
    processes_after = dask.run(os.getpid)
    assert set(processes_after.values()) != set(processes.values())  # one worker was restarted


def test_a_sweep_on_a_dask_cluster_may_lose_a_worker(small_payloads, dask):
    def sweep(**options):
        make_policy = lambda exploration: kb.ucb(exploration=exploration)  # noqa: E731
        grid = {"exploration": [1.0, 2.0]}
        return kb.sweep(PROBLEM, kb.active(0.2), make_policy, **SETTING, **grid, **options)

    expected = sweep()
    processes = dask.run(os.getpid)
    killer = Killer(0.2, lambda: next(iter(processes.values())))
    data = sweep(executor=dask.get_executor(), progress=killer)
    assert killer.done
    xarray.testing.assert_identical(data, expected)
    assert set(dask.run(os.getpid).values()) != set(processes.values())  # one worker was restarted


def test_ctrl_c_cancels_waiting_jobs_of_a_cluster(small_payloads, dask, tmp_path):
    file = tmp_path / "result.nc"

    def stop(message, share):
        if share > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate_runs(executor=dask.get_executor(), progress=stop, file=file, runs=3000)
    assert file.exists()
    assert len(dask.futures) <= 8


def test_the_documented_ray_executor_plays_the_same_bits(by_threads):
    ray = pytest.importorskip("ray")
    page = Path(__file__).parents[2] / "docs" / "cluster.md"
    names = {}
    (lines,) = [b for b in page.read_text().split("```") if b.startswith("py\nimport ray")]
    exec(lines.removeprefix("py\n"), names)
    xarray.testing.assert_identical(simulate_runs(executor=names["Ray"](), threads=2), by_threads)
    ray.shutdown()
