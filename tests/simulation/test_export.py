"""Tests of `to_pandas` and `to_parquet`."""

import numpy as np
import pytest

import kibitz

pandas = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def data():
    return kibitz.sweep(
        kibitz.gaussian([0.5, 0.0, 0.2]), kibitz.active, kibitz.ucb(), rate=[0.1, 0.2],
        horizon=300, runs=3, seed=1,
    )  # fmt: skip


def test_rows_are_policies_swept_values_and_runs(data):
    frame = kibitz.to_pandas(data)
    assert list(frame.columns[:3]) == ["policy", "rate", "run"]
    assert {"final_regret", "error", "n_pulls_0", "n_pulls_2", "n_looks_1"} < set(frame.columns)
    assert len(frame) == 1 * 2 * 3
    row = frame[(frame.rate == 0.2) & (frame.run == 1)].iloc[0]
    selected = data.sel(policy="ucb", rate=0.2, run=1)
    assert row.final_regret == float(selected.final_regret)
    assert row.n_pulls_2 == int(selected.n_pulls.sel(arm=2))
    assert frame.attrs["horizon"] == 300


def test_a_variable_has_a_row_for_each_of_its_values(data):
    frame = kibitz.to_pandas(data, "regret")
    assert list(frame.columns) == ["policy", "rate", "run", "stage", "regret"]
    assert np.array_equal(frame.regret, data.regret.to_numpy().ravel())
    with pytest.raises(ValueError, match=r"variable must be .* got 'regrets'; did you mean 'regret'"):
        kibitz.to_pandas(data, "regrets")
    with pytest.raises(ValueError, match="data must be a result of kibitz"):
        kibitz.to_pandas([1])


def test_comparisons_and_leagues_are_exported():
    league = kibitz.league(
        [kibitz.ftl(), kibitz.ucb_double()], problems=1, horizon=50, runs=3, seed=1
    )
    assert len(kibitz.to_pandas(league)) == 2 * 5 * 3
    assert len(kibitz.to_pandas(kibitz.compare(league, over="run"))) == 2


def test_the_rows_of_a_trace_are_its_stages(tmp_path):
    run = kibitz.trace(
        kibitz.gaussian([0.5, 0.0]), kibitz.active(0.5, looks=3), kibitz.ucb(), horizon=20, seed=1
    )
    frame = kibitz.to_pandas(run)
    assert frame["stage"].tolist() == list(range(1, 21))
    for name in ("pull", "reward", "look", "look_reward"):
        assert np.array_equal(frame[name], run[name], equal_nan=True)
    assert np.array_equal(frame["index_1"], run["index"].sel(arm=1))
    assert np.array_equal(frame["later_look_3"], run["later_look"].sel(nth=3))
    assert frame.attrs["seed"] == 1
    assert kibitz.to_pandas(run, "pull")["pull"].tolist() == run["pull"].to_numpy().tolist()
    pytest.importorskip("pyarrow")
    kibitz.to_parquet(run, tmp_path / "run.parquet")
    pandas.testing.assert_frame_equal(pandas.read_parquet(tmp_path / "run.parquet"), frame)


def test_parquet_files_hold_the_same_table(data, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "result.parquet"
    for variable in (None, "regret"):
        kibitz.to_parquet(data, file, variable)
        pandas.testing.assert_frame_equal(pandas.read_parquet(file), kibitz.to_pandas(data, variable))
    assert b"gaussian (means 0.5, 0, 0.2; sd 1)" in parquet.read_metadata(file).metadata[b"pandas"]
    with pytest.raises(ValueError, match="file must be"):
        kibitz.to_parquet(data, tmp_path / "no" / "result.parquet")


def test_a_missing_pyarrow_is_named(data, tmp_path, monkeypatch):
    monkeypatch.setattr("kibitz.simulation.results.export.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'kibitz\[parquet\]'"):
        kibitz.to_parquet(data, tmp_path / "result.parquet")
