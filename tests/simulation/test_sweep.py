"""Tests of sweeps over several dimensions, points and random problems, and of summaries of runs."""

import json

import numpy as np
import pytest
import xarray
from workers import InlineExecutor

import kibitz as kb
from kibitz.simulation import executors, schedule, simulate as playing
from kibitz.simulation.results.summary import QUANTILES, STATISTICS

PROBLEM = kb.gaussian([0.5, 0.0, 0.2])
SETTING = {"horizon": 200, "runs": 4, "seed": 1}
GRID = {"rate": [0.0, 0.5], "exploration": [1.0, 3.0, 6.0]}


def simulate_point(rate, exploration, **options):
    policies = {"ucb": kb.ucb(exploration)}
    return kb.simulate(PROBLEM, kb.active(rate), policies, **{**SETTING, **options})


@pytest.fixture(scope="module")
def grid():
    return kb.sweep(PROBLEM, kb.active, kb.ucb, **GRID, **SETTING)


def test_a_grid_has_a_dimension_for_each_name(grid):
    assert grid.regret.dims == ("policy", "rate", "exploration", "run", "stage")
    assert grid.policy.values.tolist() == ["ucb"]
    for rate in GRID["rate"]:
        for exploration in GRID["exploration"]:
            cell = grid.sel(rate=rate, exploration=exploration)
            for name in grid.data_vars:
                np.testing.assert_array_equal(cell[name], simulate_point(rate, exploration)[name])


def test_points_have_the_same_labels_along_one_dimension(grid):
    points = [{"exploration": 3.0, "rate": 0.5}, {"exploration": 1.0, "rate": 0.0}]
    data = kb.sweep(PROBLEM, kb.active, kb.ucb, points=points, **SETTING)
    assert data.regret.dims == ("policy", "point", "run", "stage")
    assert data.rate.dims == data.exploration.dims == ("point",)
    for n, point in enumerate(points):
        np.testing.assert_array_equal(data.regret.isel(point=n), grid.regret.sel(point))
    selected_point = data.set_index(point=["rate", "exploration"]).sel(rate=0.0, exploration=1.0)
    np.testing.assert_array_equal(selected_point.final_regret, grid.final_regret.sel(points[1]))


@pytest.mark.parametrize("rates", [(0.1, 0.4), np.array([0.1, 0.4]), iter([0.1, 0.4])])
def test_any_iterable_is_swept(rates):
    sweep_of_list = kb.sweep(PROBLEM, kb.active, kb.ucb(), rate=[0.1, 0.4], **SETTING)
    data = kb.sweep(PROBLEM, kb.active, kb.ucb(), rate=rates, **SETTING)
    xarray.testing.assert_identical(data, sweep_of_list)


def test_a_single_value_is_passed_on_and_adds_no_dimension():
    options = {**SETTING, "exploration": [1.0, 3.0]}
    expected_sweep = kb.sweep(PROBLEM, kb.active(kb.every(3), paid=True), kb.ucb, **options)
    for period in (kb.every(3), kb.every(3, first=3)):
        data = kb.sweep(PROBLEM, kb.active, kb.ucb, rate=period, paid=True, **options)
        xarray.testing.assert_identical(data, expected_sweep)


def test_an_unknown_keyword_is_rejected():
    for unknown_keyword in ({"exploraton": [1.0, 3.0]}, {"kep": "summary"}):
        with pytest.raises(
            TypeError, match=f"unexpected keyword argument '{next(iter(unknown_keyword))}'"
        ):
            kb.sweep(PROBLEM, kb.active, kb.ucb(), rate=[0.1], **unknown_keyword, **SETTING)
    with pytest.raises(TypeError, match="unexpected keyword argument 'watch'"):
        kb.sweep(PROBLEM, kb.active, kb.ucb(), rate=[0.1], watch=print, **SETTING)
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'seed'"):
        kb.sweep(PROBLEM, kb.active, kb.ucb(), rate=[0.1], horizon=9, runs=1)


def test_functions_get_the_keywords_that_they_accept():
    received_keywords = []

    def problem(**values):
        received_keywords.append(values)
        return PROBLEM

    data = kb.sweep(
        problem, lambda rate, looks=2: kb.active(rate), {"mine": kb.ucb()},
        T=[10, 20], rate=np.array([0.1]), horizon=lambda T: T, runs=1, seed=1,
    )  # fmt: skip
    assert received_keywords == [{"T": 10, "rate": 0.1}, {"T": 20, "rate": 0.1}]
    assert data.n_pulls.sum("arm").values.ravel().tolist() == [10, 20]


@pytest.mark.parametrize("suffix", ["nc", "zarr"])
def test_a_grid_can_be_resumed_with_more_values(tmp_path, suffix, grid):
    file = tmp_path / f"grid.{suffix}"
    part_of_grid = {"rate": [0.5], "exploration": [6.0, 1.0]}
    kb.sweep(PROBLEM, kb.active, kb.ucb, file=file, **part_of_grid, **{**SETTING, "runs": 3})
    inline = InlineExecutor()
    data = kb.sweep(PROBLEM, kb.active, kb.ucb, file=file, executor=inline, **GRID, **SETTING)
    for name in grid.data_vars:
        xarray.testing.assert_equal(data[name].drop_vars("policy"), grid[name].drop_vars("policy"))
    resumed_grid = kb.sweep(
        PROBLEM, kb.active, kb.ucb, file=file, executor=lambda: 1 / 0, **GRID, **SETTING
    )
    np.testing.assert_array_equal(resumed_grid.regret, grid.regret)


def test_the_order_of_a_grid_does_not_matter_for_its_file(tmp_path, grid):
    file = tmp_path / "grid.nc"
    kb.sweep(PROBLEM, kb.active, kb.ucb, file=file, **GRID, **SETTING)
    reversed_grid = {name: GRID[name] for name in reversed(GRID)}
    data = kb.sweep(
        PROBLEM, kb.active, kb.ucb, file=file, executor=lambda: 1 / 0, **reversed_grid, **SETTING
    )
    assert data.regret.dims[1:3] == ("exploration", "rate")
    np.testing.assert_array_equal(data.regret.transpose(*grid.regret.dims), grid.regret)


@pytest.mark.parametrize("suffix", ["nc", "zarr"])
def test_points_can_be_resumed_and_are_not_a_grid(tmp_path, suffix, grid):
    file = tmp_path / f"points.{suffix}"
    points = [{"rate": 0.5, "exploration": 3.0}, {"rate": 0.0, "exploration": 1.0}]
    kb.sweep(PROBLEM, kb.active, kb.ucb, points=points[:1], file=file, **SETTING)
    data = kb.sweep(PROBLEM, kb.active, kb.ucb, points=points[::-1], file=file, **SETTING)
    assert data.rate.values.tolist() == [0.0, 0.5]
    for n, point in enumerate(points[::-1]):
        np.testing.assert_array_equal(data.regret.isel(point=n), grid.regret.sel(point))
    with pytest.raises(ValueError, match=r"cannot be resumed: .* sweep over points of .*rate"):
        kb.sweep(PROBLEM, kb.active, kb.ucb, file=file, **GRID, **SETTING)


@pytest.mark.parametrize(
    ("grid_arguments", "message"),
    [
        ({}, "nothing to sweep: pass a list of numbers or strings for at least one parameter$"),
        ({"points": []}, "points must be a non-empty list of non-empty dicts"),
        ({"points": [{}]}, "points must be a non-empty list of non-empty dicts"),
        ({"points": [1, 2]}, "points must be a non-empty list of non-empty dicts"),
        ({"rate": 0.5}, "nothing to sweep: pass a list .*, got rate=0.5"),
        ({"rate": [0.5, 0.5]}, "rate must be a non-empty list without duplicates"),
        ({"rate": [None]}, "rate must be a list of numbers or strings"),
        ({"run": [1]}, "a swept parameter cannot be called 'run'"),
        ({"points": [{"rate": 0.1}, {"p": 2}]}, "points must be .* the same keys"),
        ({"points": [{"rate": 0.1}, {"rate": 0.1}]}, "points must be a list without duplicates"),
        ({"points": [{"rate": [0.1]}]}, "rate must be a list of numbers or strings"),
        ({"points": [{"point": 1}]}, "a swept parameter cannot be called 'point'"),
        ({"points": [{"horizon": 1}]}, "'horizon' is an option and cannot vary in points"),
        ({"points": [{1: 1}]}, "points must be dicts whose keys are Python names, got 1"),
        ({"points": [{"rate": 0.1}], "rate": 0.2}, "rate is given both in points and as a keyword"),
        ({"points": [{"rate": 0.1}], "looks": [1, 2]}, "points=.* cannot be combined with"),
        ({"other": [1]}, "feedback must be a function with parameters other, got <function active"),
        ({"rate": [7]}, r"rate must be in \[0, 1\], got 7"),
        ({"rate": [0.1], "seed": [1, 2]}, "seed must be a whole number"),
    ],
)  # fmt: skip
def test_an_invalid_grid_is_rejected(grid_arguments, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        kb.sweep(PROBLEM, kb.active, kb.ucb(), **{**SETTING, **grid_arguments})


# --------------------------------------------------------------------------------- random problems


def five_random_arms(rng):
    return kb.gaussian(rng.normal(size=5))


def test_random_problems_depend_on_seed_and_draw_only():
    problem = kb.random_problems(five_random_arms, seed=7)
    np.testing.assert_array_equal(
        problem(3).means, kb.random_problems(five_random_arms, seed=7)(3).means
    )
    assert not np.array_equal(problem(3).means, problem(4).means)
    assert not np.array_equal(problem(3).means, kb.random_problems(five_random_arms, seed=8)(3).means)
    means = np.concatenate([problem(n).means for n in range(400)])
    assert abs(means.mean()) < 4 / np.sqrt(2000)  # probability of a false alarm: 6e-5
    assert abs(means.std() - 1) < 4 / np.sqrt(4000)


def test_a_sweep_over_random_problems_and_rates():
    problem = kb.random_problems(five_random_arms, seed=7)
    swept_values = {"draw": range(3), "rate": [0.1, 0.9]}
    data = kb.sweep(problem, kb.active, kb.ucb(), **swept_values, **SETTING)
    assert data.regret.dims == ("policy", "draw", "rate", "run", "stage")
    simulated_data = kb.simulate(problem(2), kb.active(0.9), kb.ucb(), **SETTING)
    np.testing.assert_array_equal(data.regret.sel(draw=2, rate=0.9), simulated_data.regret)
    sweep_of_draws = kb.sweep(problem, kb.active(0.9), kb.ucb(), draw=range(3), **SETTING)
    np.testing.assert_array_equal(sweep_of_draws.regret, data.regret.sel(rate=0.9))
    cells = json.loads(data.attrs["cells"])
    assert cells[5]["value"] == {"draw": 2, "rate": 0.9}
    assert cells[5]["fingerprint"]["problem"]["means"] == problem(2).means.tolist()


def test_a_function_that_returns_no_problem_is_rejected():
    with pytest.raises(ValueError, match="problem must be a problem such as gaussian"):
        kb.sweep(kb.random_problems(lambda rng: 3, 1), kb.bandit(), kb.ucb(), draw=[0], **SETTING)
    with pytest.raises(ValueError, match="make must be a function that takes a generator"):
        kb.random_problems(3, seed=1)


# ---------------------------------------------------------------------------------------- summaries


def simulate_summary(rates=(0.1, 0.9), **options):
    return kb.sweep(
        PROBLEM, kb.active, kb.ucb(), rate=list(rates),
        **{**SETTING, "runs": 30, "keep": "summary", **options},
    )  # fmt: skip


@pytest.mark.parametrize("suffix", [None, "nc", "zarr"])
def test_a_summary_equals_the_statistics_of_the_runs_for_all_executors(tmp_path, monkeypatch, suffix):
    for module in (executors, schedule):
        monkeypatch.setattr(module, "PAYLOAD_SECONDS", 1e-4)
    file = None if suffix is None else tmp_path / f"summary.{suffix}"
    data = simulate_summary(file=file, executor=InlineExecutor())
    runs = kb.sweep(PROBLEM, kb.active, kb.ucb(), rate=[0.1, 0.9], **{**SETTING, "runs": 30})
    assert data.statistic.values.tolist() == list(STATISTICS)
    for name in runs.data_vars:
        summary_of_name, values_of_runs = data[name].load(), runs[name]
        assert summary_of_name.dims == tuple(
            "statistic" if dim == "run" else dim for dim in values_of_runs.dims
        )
        assert (summary_of_name.sel(statistic="count") == 30).all()
        tolerance = {"rtol": 1e-13}  # sums are added in another order
        np.testing.assert_allclose(
            summary_of_name.sel(statistic="mean"), values_of_runs.mean("run"), **tolerance
        )
        np.testing.assert_allclose(
            summary_of_name.sel(statistic="variance"), values_of_runs.var("run", ddof=1), **tolerance
        )
        for q in QUANTILES:
            np.testing.assert_array_equal(
                summary_of_name.sel(statistic=f"q{q}"), values_of_runs.quantile(q / 100, "run")
            )
    np.testing.assert_array_equal(data.regret, simulate_summary().regret)
    if file is not None:
        read_again = simulate_summary(file=file, executor=lambda: 1 / 0)
        np.testing.assert_array_equal(read_again.regret, data.regret)
        with pytest.raises(ValueError, match="a summary of 30 runs instead of 31"):
            simulate_summary(file=file, runs=31)
        with pytest.raises(ValueError, match=r"cannot be resumed: .*rate and keeps a summary"):
            simulate_summary(file=file, keep="runs")


def test_a_summary_of_one_run_has_no_variance():
    data = simulate_summary(runs=1)
    assert np.isnan(data.final_regret.sel(statistic="variance")).all()
    assert np.isfinite(data.final_regret.sel(statistic="q50")).all()


def test_cells_are_summarised_where_they_are_played_if_there_are_enough(monkeypatch):
    summary_flags = []
    play_all = playing.play_all

    def spy(jobs, *other_arguments):
        summary_flags.append({job.summary for job in jobs})
        return play_all(jobs, *other_arguments)

    monkeypatch.setattr(playing, "play_all", spy)
    # the runs of two cells are split among four workers
    summary_of_two_cells = simulate_summary(threads=4)
    summary_of_16_cells = simulate_summary(
        threads=4, rates=[0.1, 0.9, *np.linspace(0.2, 0.8, 14).tolist()]
    )
    assert summary_flags == [{False}, {True}]
    for name in summary_of_two_cells.data_vars:
        np.testing.assert_array_equal(
            summary_of_16_cells[name].sel(rate=summary_of_two_cells.rate), summary_of_two_cells[name]
        )


def test_an_interrupted_summary_keeps_complete_cells(tmp_path, monkeypatch):
    for module in (executors, schedule):
        monkeypatch.setattr(module, "PAYLOAD_SECONDS", 1e-4)
    file = tmp_path / "summary.nc"

    def stop(message, share):
        if share > 0.6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate_summary(file=file, executor=InlineExecutor(), threads=1, progress=stop)
    with xarray.open_dataset(file) as data:
        is_complete = np.isfinite(data.final_regret.sel(statistic="mean")).values.ravel().tolist()
    assert is_complete == [True, False]
    inline = InlineExecutor()
    xarray.testing.assert_identical(simulate_summary(file=file, executor=inline), simulate_summary())


def test_an_invalid_keep_is_rejected():
    with pytest.raises(ValueError, match="keep must be 'runs' or 'summary', got 'some'"):
        simulate_summary(keep="some")
    with pytest.raises(ValueError, match="a swept parameter cannot be called 'statistic'"):
        kb.sweep(PROBLEM, kb.bandit(), kb.ucb(), statistic=[1], keep="summary", **SETTING)
