"""Tests of the calls of `watch`: their times and their results, with and without interruptions."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import xarray

import kibitz
from kibitz.simulation import executors, schedule, simulate as playing
from kibitz.simulation.simulate import Watcher

pytestmark = pytest.mark.slow

PROBLEM = kibitz.gaussian([0.5, 0.0, 0.2])
POLICIES = [kibitz.ucb(), kibitz.ftl()]
SETTING = {"horizon": 20_000, "runs": 60, "seed": 1, "threads": 1}


def play(policies=POLICIES, **options):
    return kibitz.simulate(PROBLEM, kibitz.active(0.2), policies, **{**SETTING, **options})


@pytest.fixture
def watch_every_job(monkeypatch):
    """Make the simulator call `watch` after each job."""
    monkeypatch.setattr(playing, "WATCH_SECONDS", 0.0)
    monkeypatch.setattr(playing, "WATCH_SHARE", 1.0)


@pytest.mark.usefixtures("watch_every_job")
def test_watch_gets_results_of_fewer_runs_and_does_not_change_the_result():
    shown_results = []
    data = play(watch=shown_results.append)
    xarray.testing.assert_identical(data, play())
    sizes = [result.sizes["run"] for result in shown_results]
    assert len(sizes) > 3
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == SETTING["runs"]
    for result in shown_results:
        xarray.testing.assert_identical(result, play(runs=result.sizes["run"]))


@pytest.mark.usefixtures("watch_every_job")
def test_watch_gets_the_results_of_an_executor(monkeypatch):
    for module in (schedule, executors):  # by default, jobs for an executor are longer
        monkeypatch.setattr(module, "PAYLOAD_SECONDS", 0.01)
    shown_results = []
    with ThreadPoolExecutor(2) as pool:
        data = play(executor=pool, watch=shown_results.append)
    xarray.testing.assert_identical(data, play())
    assert len(shown_results) > 1
    for result in shown_results:
        xarray.testing.assert_identical(result, play(runs=result.sizes["run"]))


@pytest.mark.usefixtures("watch_every_job")
def test_runs_of_a_file_are_shown_as_soon_as_all_policies_have_them(tmp_path):
    shown_results = []
    file = tmp_path / "result.nc"
    play(POLICIES[0], file=file)
    xarray.testing.assert_identical(play(file=file, watch=shown_results.append), play())
    assert [result.sizes["run"] for result in shown_results] == [15, 30, 45, 60]
    for result in shown_results:
        xarray.testing.assert_identical(result, play(runs=result.sizes["run"]))


@pytest.mark.usefixtures("watch_every_job")
def test_a_folder_is_watched_chunk_by_chunk(tmp_path):
    shown_results = []
    file = tmp_path / "result.zarr"
    play(file=file, threads=8, watch=lambda data: shown_results.append(data.compute()))
    assert len(shown_results) > 1  # there are 16 chunks
    for result in shown_results:
        xarray.testing.assert_equal(result, play(runs=result.sizes["run"]))


@pytest.mark.usefixtures("watch_every_job")
def test_policies_advance_together_and_an_error_in_watch_ends_the_simulation(tmp_path):
    file = tmp_path / "result.nc"

    def fail(data):
        raise ZeroDivisionError("a bug of the user's")

    with pytest.raises(ZeroDivisionError, match="a bug of the user's"):
        play(file=file, runs=200, watch=fail)
    with xarray.open_dataset(file, engine="h5netcdf") as saved_data:
        n_done = np.isfinite(saved_data["final_regret"]).sum("run").to_numpy()
    assert (n_done > 0).all()
    assert (n_done <= 100).all()  # if policies ran one by one, the first would be complete
    xarray.testing.assert_identical(play(file=file, runs=200), play(runs=200))


def test_an_interruption_shows_all_finished_runs_once_more(tmp_path, monkeypatch):
    monkeypatch.setattr(playing, "WATCH_SECONDS", 1e9)
    file, shown_results = tmp_path / "result.nc", []

    def stop_soon(message, share):
        if share > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(runs=200, file=file, progress=stop_soon, watch=shown_results.append)
    n_first, n_last = (result.sizes["run"] for result in shown_results)
    with xarray.open_dataset(file, engine="h5netcdf") as data:
        is_complete = np.isfinite(data["final_regret"]).all("policy").to_numpy()
    assert 0 < n_first < n_last < 200
    assert n_last == np.argmin(is_complete)  # all runs before the first missing run
    xarray.testing.assert_identical(shown_results[-1], play(runs=n_last))


def test_an_interruption_in_watch_does_not_show_the_same_runs_again(monkeypatch):
    monkeypatch.setattr(playing, "WATCH_SECONDS", 0.0)
    shown_results = []

    def stop(data):
        shown_results.append(data.sizes["run"])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(watch=stop)
    assert len(shown_results) == 1


class Clock:
    """A fake clock that is also a fake result with two cells, `a` and `b`."""

    def __init__(self):
        self.now = 100.0
        self.complete = {"a": 0, "b": 0}

    def monotonic(self):
        return self.now

    def missing_runs(self, key, runs):
        return np.arange(self.complete[key], runs)

    def result(self, keys, runs):
        return runs


def test_watch_is_called_at_most_twice_a_second_and_rarely_if_slow(monkeypatch):
    clock, shown_runs, cost = Clock(), [], 0.0
    monkeypatch.setattr(playing, "time", clock)

    def look(runs):
        shown_runs.append(runs)
        clock.now += cost

    watching = Watcher(look, clock, ["a", "b"], 10)
    watching.show()
    assert shown_runs == []  # no run is complete yet
    clock.complete = {"a": 3, "b": 2}
    watching.show()
    assert shown_runs == [2]  # the runs that both cells have
    clock.complete = {"a": 3, "b": 4}
    clock.now += 0.4
    watching.show()
    assert shown_runs == [2]  # the last call was too recent
    clock.now += 0.2
    cost = 3.0
    watching.show()
    assert shown_runs == [2, 3]
    clock.complete = {"a": 10, "b": 10}
    clock.now += 6.9  # a call of 3 s is allowed once in 10 s
    watching.show()
    assert shown_runs == [2, 3]
    clock.now += 0.2
    watching.show()
    assert shown_runs == [2, 3, 10]
    watching.show(immediately=True)
    assert shown_runs == [2, 3, 10]  # there are no new runs
    Watcher(None, clock, ["a"], 10).show(
        immediately=True
    )  # a watcher without a function does nothing


def test_jobs_with_many_arms_have_fewer_stages(monkeypatch):
    collected_jobs = []

    def collect_jobs(jobs, *other_arguments):
        collected_jobs.extend(jobs)
        yield from ()

    monkeypatch.setattr(playing, "play_all", collect_jobs)
    for n_arms, n_runs in ((5, 50), (500, 2)):  # jobs of 5 * 10^5 and 2 * 10^4 stages
        collected_jobs.clear()
        problem = kibitz.gaussian(np.linspace(0, 1, n_arms))
        setting = {"horizon": 10_000, "runs": 200, "seed": 1, "threads": 1}
        kibitz.simulate(problem, kibitz.active(0.2), POLICIES, **setting)
        assert {job.end_run - job.first_run for job in collected_jobs} == {n_runs}
        assert sum(job.end_run - job.first_run for job in collected_jobs) == 400


def test_watch_must_be_a_function_and_needs_runs():
    with pytest.raises(ValueError, match=r"^watch must be a function, got 3$"):
        play(watch=3)
    message = r"^keep must be 'runs' if watch is given, got 'summary'$"
    with pytest.raises(ValueError, match=message):
        play(keep="summary", watch=print)
