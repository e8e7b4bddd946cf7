"""Tests of results larger than memory: a Zarr store is written job by job and can be resumed."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from textwrap import dedent

import numpy as np
import pytest
import xarray
import zarr
from workers import InlineExecutor

import kibitz as kb
from kibitz import _files as files
from kibitz.simulation import executors, kernels, options, schedule, simulate as playing
from kibitz.simulation.jobs import Job
from kibitz.simulation.results.dataset import Sweep
from kibitz.simulation.results.zarr import INDEX_FILE, ZarrResults

pytestmark = pytest.mark.slow

PROBLEM = kb.gaussian([0.5, 0.0, 0.2])
SHORT = {"horizon": 200, "runs": 10, "seed": 1}


def run_sweep(rates=(0.1, 0.4), policies=None, **options):
    return kb.sweep(
        PROBLEM, kb.active, policies or kb.ucb(), rate=list(rates), **{**SHORT, **options}
    )


def assert_same(data, other):
    """Assert that two results are equal bit for bit; only the type of text may differ in a store."""
    assert data.data_vars.keys() == other.data_vars.keys()
    for name in other.data_vars:
        assert data[name].dtype == other[name].dtype
        np.testing.assert_array_equal(data[name], other[name])
    for name in other.coords:
        assert data[name].values.tolist() == other[name].values.tolist()


def read_files(store):
    return {path.relative_to(store): path.read_bytes() for path in store.rglob("*") if path.is_file()}


@pytest.fixture
def store(tmp_path):
    return tmp_path / "sweep.zarr"


def test_a_store_equals_the_result_and_is_read_lazily(store):
    data = run_sweep(file=store)
    assert_same(data, run_sweep())
    opened = xarray.open_zarr(store)
    assert "dask" in type(opened.regret.data).__module__  # nothing is read yet
    assert_same(opened, run_sweep())
    assert opened.regret.attrs == run_sweep().regret.attrs
    common = run_sweep().attrs
    assert opened.attrs == {name: common[name] for name in opened.attrs}
    assert set(common) - set(opened.attrs) == {"cells"}


def test_chunks_are_by_policy_value_and_block_of_runs(store, monkeypatch):
    monkeypatch.setattr(schedule, "chunk_size", lambda *_: 4)
    data = run_sweep(file=store, policies=[kb.ucb(), kb.ftl()])
    assert data.regret.encoding["chunks"] == (1, 1, 4, data.sizes["stage"])
    names = {path.name for path in (store / "regret").iterdir()} - {"zarr.json"}
    assert names == {f"c.{p}.{v}.{b}.0" for p in range(2) for v in range(2) for b in range(3)}
    assert zarr.open_array(store, path="regret", mode="r").shape == data.regret.shape


def test_at_most_one_chunk_is_in_memory(store, monkeypatch):
    """One chunk is written at a time and is not kept in memory."""
    write = ZarrResults.write
    sizes = []

    def write_and_measure(self, key, first, rows):
        write(self, key, first, rows)
        held = [a.nbytes for a in vars(self).values() if isinstance(a, np.ndarray)]
        sizes.append((rows.regret.nbytes, sum(held)))

    monkeypatch.setattr(ZarrResults, "write", write_and_measure)
    monkeypatch.setattr(schedule, "chunk_size", lambda *_: 2)
    # A store need not fit in memory, so the size of the result must not be checked.
    monkeypatch.setattr(schedule, "check_memory", lambda *_: 1 / 0)
    run_sweep(file=store)
    stages = schedule.resolve_stages(None, [200])
    assert len(sizes) == 10
    assert set(sizes) == {(2 * stages.nbytes, stages.nbytes)}


@pytest.mark.parametrize("block", [1, 3, 4, 10, 99])
def test_more_runs_values_and_policies_are_added(store, monkeypatch, block):
    monkeypatch.setattr(schedule, "chunk_size", lambda *_: block)
    run_sweep([0.4], runs=5, file=store)
    assert_same(run_sweep([0.4], runs=5, file=store), run_sweep([0.4], runs=5))
    inline = InlineExecutor()
    more = {"rates": (0.1, 0.4), "runs": 10, "policies": [kb.ftl(), kb.ucb()]}
    assert_same(run_sweep(**more, file=store, executor=inline), run_sweep(**more))
    again = run_sweep(**more, file=store, executor=lambda: 1 / 0)  # nothing is missing
    assert_same(again, run_sweep(**more))
    assert_same(
        run_sweep([0.1], runs=3, file=store, executor=lambda: 1 / 0), run_sweep([0.1], runs=3)
    )


def test_a_complete_store_is_not_written(store, monkeypatch):
    run_sweep(file=store)
    monkeypatch.setattr(files.os, "replace", lambda *_: 1 / 0)
    assert_same(run_sweep(file=store), run_sweep())


def test_only_missing_blocks_are_played(store, monkeypatch):
    monkeypatch.setattr(schedule, "chunk_size", lambda *_: 4)
    run_sweep(file=store)
    (store / "n_looks" / "c.0.1.2.0").unlink()
    (store / "regret" / "c.0.0.1.0").write_bytes(b"")  # an empty file, as after a power failure
    seen = []
    original = playing.play_all

    def spy(jobs, *rest):
        seen.extend((job.label[0], job.first, job.last) for job in jobs)
        return original(jobs, *rest)

    monkeypatch.setattr(playing, "play_all", spy)
    again = run_sweep(file=store)
    assert sorted(seen) == [((0.1,), 4, 8), ((0.4,), 8, 10)]
    assert_same(again, run_sweep())


def test_a_store_has_the_same_bytes_for_all_executors(store, tmp_path, monkeypatch):
    monkeypatch.setattr(schedule, "chunk_size", lambda *_: 3)
    other = tmp_path / "other.zarr"
    run_sweep(file=store)
    run_sweep(file=other, executor=InlineExecutor(), threads=2)
    assert read_files(store) == read_files(other)


class KilledError(BaseException):
    pass


def test_a_store_can_be_resumed_after_a_kill_between_any_two_files(store, monkeypatch):
    """Simulate kills at random points, also while runs and cells are being added."""
    monkeypatch.setattr(schedule, "chunk_size", lambda *_: 2)
    rng = np.random.default_rng(5)
    replace = os.replace
    left = [0]

    def replace_or_kill(part, target):
        left[0] -= 1
        if left[0] < 0:
            raise KilledError
        replace(part, target)

    monkeypatch.setattr(files.os, "replace", replace_or_kill)
    growing = [([0.4], 3), ([0.4, 0.1], 3), ([0.4, 0.1], 9), ([0.4, 0.1, 0.7], 9)]
    deaths = 0
    for rates, runs in growing:
        while True:
            left[0] = int(rng.integers(1, 25))
            try:
                data = run_sweep(rates, runs=runs, file=store, threads=1)
                break
            except KilledError:
                deaths += 1
        left[0] = 10**9
        assert_same(data, run_sweep(rates, runs=runs))
    assert deaths > 10


SCRIPT = """
    import sys
    import kibitz as kb
    from kibitz.simulation import schedule
    schedule.chunk_size = lambda *_: 5
    print("begins", flush=True)
    kb.sweep(kb.gaussian([0.5, 0.0, 0.2]), kb.active, kb.ucb(), rate=[0.1, 0.4],
             horizon=20_000, runs=300, seed=1, file=sys.argv[1], threads=2)
"""


def test_a_killed_process_leaves_a_store_that_can_be_resumed(store):
    setting = {"horizon": 20_000, "runs": 300}
    rng = np.random.default_rng(3)
    for _ in range(2):
        command = [sys.executable, "-c", dedent(SCRIPT), str(store)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            deadline = time.monotonic() + 120
            there = len(list(store.glob("regret/c.*")))
            while len(list(store.glob("regret/c.*"))) < there + 3 and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 0.2))
            process.send_signal(signal.SIGKILL)
    assert 6 <= len(list(store.glob("regret/c.*"))) < 120
    assert_same(run_sweep(file=store, **setting), run_sweep(**setting))
    assert not list(store.rglob("*.part"))


def test_ctrl_c_keeps_finished_chunks(store, monkeypatch):
    monkeypatch.setattr(schedule, "chunk_size", lambda *_: 1)
    monkeypatch.setattr(executors, "PAYLOAD_SECONDS", 1e-4)

    def stop(what, share):
        if share > 0.3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sweep(file=store, executor=InlineExecutor(), threads=1, progress=stop, horizon=20_000)
    done = len(list(store.glob("final_regret/c.*")))
    assert 0 < done < 20
    opened = xarray.open_zarr(store)
    assert int(np.isfinite(opened.final_regret).sum()) == done
    assert int((opened.n_pulls < 0).all("arm").sum()) == 20 - done
    assert_same(run_sweep(file=store, horizon=20_000), run_sweep(horizon=20_000))


# ------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 2}, "seed = 1 instead of 2 for ucb"),
        ({"stages": [200]}, r"different recorded stages \(the last is 200\)"),
        ({"policies": {"ucb": kb.ucb(2)}}, "policy.parameters.exploration = 6.0 instead of 2.0"),
        ({"keep": "summary"}, "with a sweep over rate and keeps runs"),
    ],
)
def test_a_store_with_another_fingerprint_is_rejected_and_unchanged(store, change, message):
    run_sweep(file=store)
    before = read_files(store)
    with pytest.raises(ValueError, match=f"cannot be resumed: .*{message}"):
        run_sweep(**change, file=store)
    assert read_files(store) == before
    with pytest.raises(ValueError, match=r"cannot be resumed: .* a sweep over rate"):
        kb.simulate(PROBLEM, kb.active(0.1), kb.ucb(), file=store, **SHORT)


def test_a_foreign_folder_is_rejected_and_unchanged(store):
    store.mkdir()
    (store / "diary.txt").write_text("dear diary")
    with pytest.raises(ValueError, match=r"cannot read .* as a result of kibitz: .*No such"):
        run_sweep(file=store)
    assert list(read_files(store).values()) == [b"dear diary"]


@pytest.mark.parametrize(
    "damage",
    [b"", b"junk", gzip.compress(b"{}"), gzip.compress(b"junk")],
    ids=["empty", "junk", "nothing said", "junk inside"],
)
def test_a_damaged_store_is_rejected(store, damage):
    run_sweep(file=store)
    (store / INDEX_FILE).write_bytes(damage)
    with pytest.raises(ValueError, match=r"cannot read .* as a result of kibitz"):
        run_sweep(file=store)


def test_a_later_format_is_rejected(store):
    run_sweep(file=store)
    asked = json.loads(gzip.decompress((store / INDEX_FILE).read_bytes()))
    (store / INDEX_FILE).write_bytes(gzip.compress(json.dumps({**asked, "format": 99}).encode()))
    with pytest.raises(ValueError, match="format 99 needs a later version"):
        run_sweep(file=store)


def test_a_damaged_chunk_raises_when_it_is_read(store):
    run_sweep(file=store)
    chunk = next(store.glob("regret/c.*"))
    content = bytearray(chunk.read_bytes())
    content[len(content) // 2] ^= 1
    chunk.write_bytes(content)
    with pytest.raises(Exception, match=r"(?i)crc|invalid|decompress"):
        xarray.open_zarr(store).regret.load()


def test_an_impossible_path_is_rejected_before_the_work(tmp_path, monkeypatch):
    (tmp_path / "file.zarr").write_text("")
    for name in ("file.zarr", "missing/x.zarr", "file.zarr/x.zarr"):
        with pytest.raises(ValueError, match=r"^file must be "):
            run_sweep(file=tmp_path / name, executor=lambda: 1 / 0)
    monkeypatch.setattr(options, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"zarr is not installed; run: pip install 'kibitz\[zarr\]'"):
        run_sweep(file=tmp_path / "x.zarr")
    assert not (tmp_path / "x.zarr").exists()


def test_a_late_error_leaves_no_store(store, monkeypatch):
    def cannot_compile(kernel, report):
        raise ValueError("numba cannot compile mine: unsupported")

    monkeypatch.setattr(kernels, "_compile", cannot_compile)
    with pytest.raises(ValueError, match="numba cannot compile mine: "):
        run_sweep(file=store)
    assert not store.exists()


def test_text_labels_and_positions_of_cells(tmp_path):
    table = ZarrResults(tmp_path / "x.zarr", Sweep(("kind",)), "runs", np.array([5]), 2, lambda: 2)
    setting = {"horizon": 5, "policy": {}, "engine": "step"}
    table.prepare({(("größer",), "a"): setting, (("b",), "a"): setting}, 2)
    table.save()
    opened = xarray.open_zarr(tmp_path / "x.zarr")
    assert opened.kind.values.tolist() == ["größer", "b"]
    assert opened.regret.shape == (1, 2, 2, 1)
    assert (opened.n_pulls == -1).all()


def test_how_many_runs_make_a_chunk():
    def block(horizon, runs, cells=100, stages=200, workers=2):
        job = Job(None, kb.ucb(), PROBLEM, kb.bandit(), horizon, np.zeros(stages), 1, 0, runs)
        return schedule.chunk_size([job] * cells, lambda: workers)

    assert block(1000, 100) == 100  # all runs of a cell fit into one chunk
    assert block(1000, 10**6) == schedule.MAX_CHUNK_BYTES // 1600  # a chunk has at most 4 MiB
    assert block(10**7, 10**4) == 60  # a chunk takes at most 30 s, at 50 ns per stage
    assert block(1000, 100, cells=1) == 13  # enough chunks for two workers
    assert block(10**9, 10) == 1
