"""Tests of results in a Zarr store, which is written job by job and can be resumed."""

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
from kibitz.cli import main
from kibitz.simulation import executors, kernels, options, schedule, simulate as playing
from kibitz.simulation.jobs import Job
from kibitz.simulation.results.dataset import Sweep
from kibitz.simulation.results.zarr import INDEX_FILE, ZarrResults

pytestmark = pytest.mark.slow

PROBLEM = kb.gaussian([0.5, 0.0, 0.2])
SETTING = {"horizon": 200, "runs": 10, "seed": 1}


def run_sweep(rates=(0.1, 0.4), policies=None, **options):
    return kb.sweep(
        PROBLEM, kb.active, policies or kb.ucb(), rate=list(rates), **{**SETTING, **options}
    )


def assert_same(data, other_data):
    """Assert that two results are equal bit for bit; labels may have another dtype."""
    assert data.data_vars.keys() == other_data.data_vars.keys()
    for name in other_data.data_vars:
        assert data[name].dtype == other_data[name].dtype
        np.testing.assert_array_equal(data[name], other_data[name])
    for name in other_data.coords:
        assert data[name].values.tolist() == other_data[name].values.tolist()


def read_files(store):
    return {path.relative_to(store): path.read_bytes() for path in store.rglob("*") if path.is_file()}


@pytest.fixture
def store(tmp_path):
    return tmp_path / "sweep.zarr"


def test_a_store_equals_the_result_and_is_read_lazily(store):
    data = run_sweep(file=store)
    assert_same(data, run_sweep())
    opened_data = xarray.open_zarr(store)
    assert "dask" in type(opened_data.regret.data).__module__  # nothing is read yet
    assert_same(opened_data, run_sweep())
    assert opened_data.regret.attrs == run_sweep().regret.attrs
    expected_attributes = run_sweep().attrs
    assert opened_data.attrs == {name: expected_attributes[name] for name in opened_data.attrs}
    assert set(expected_attributes) - set(opened_data.attrs) == {"cells"}


def test_chunks_are_by_policy_value_and_block_of_runs(store, monkeypatch):
    monkeypatch.setattr(schedule, "chunk_size", lambda *_: 4)
    data = run_sweep(file=store, policies=[kb.ucb(), kb.ftl()])
    assert data.regret.encoding["chunks"] == (1, 1, 4, data.sizes["stage"])
    names = {path.name for path in (store / "regret").iterdir()} - {"zarr.json"}
    assert names == {f"c.{p}.{v}.{b}.0" for p in range(2) for v in range(2) for b in range(3)}
    assert zarr.open_array(store, path="regret", mode="r").shape == data.regret.shape


def test_at_most_one_chunk_is_in_memory(store, monkeypatch):
    """The store writes one chunk at a time and does not keep the chunk in memory."""
    write = ZarrResults.write
    sizes = []

    def write_and_measure(self, key, first, rows):
        write(self, key, first, rows)
        array_sizes = [array.nbytes for array in vars(self).values() if isinstance(array, np.ndarray)]
        sizes.append((rows.regret.nbytes, sum(array_sizes)))

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
    larger_sweep = {"rates": (0.1, 0.4), "runs": 10, "policies": [kb.ftl(), kb.ucb()]}
    assert_same(run_sweep(**larger_sweep, file=store, executor=inline), run_sweep(**larger_sweep))
    read_again = run_sweep(**larger_sweep, file=store, executor=lambda: 1 / 0)  # no run is missing
    assert_same(read_again, run_sweep(**larger_sweep))
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
    played_jobs = []
    play_all = playing.play_all

    def spy(jobs, *rest):
        played_jobs.extend((job.label[0], job.first_run, job.end_run) for job in jobs)
        return play_all(jobs, *rest)

    monkeypatch.setattr(playing, "play_all", spy)
    resumed_data = run_sweep(file=store)
    assert sorted(played_jobs) == [((0.1,), 4, 8), ((0.4,), 8, 10)]
    assert_same(resumed_data, run_sweep())


def test_a_store_has_the_same_bytes_for_all_executors(store, tmp_path, monkeypatch):
    monkeypatch.setattr(schedule, "chunk_size", lambda *_: 3)
    other_store = tmp_path / "other.zarr"
    run_sweep(file=store)
    run_sweep(file=other_store, executor=InlineExecutor(), threads=2)
    assert read_files(store) == read_files(other_store)


class KilledError(BaseException):
    pass


def test_a_store_can_be_resumed_after_a_kill_between_any_two_files(store, monkeypatch):
    """Simulate kills at random points, including points at which runs and cells are being added."""
    monkeypatch.setattr(schedule, "chunk_size", lambda *_: 2)
    rng = np.random.default_rng(5)
    replace = os.replace
    n_files_left = [0]

    def replace_or_kill(temporary_file, target):
        n_files_left[0] -= 1
        if n_files_left[0] < 0:
            raise KilledError
        replace(temporary_file, target)

    monkeypatch.setattr(files.os, "replace", replace_or_kill)
    growing_sweeps = [([0.4], 3), ([0.4, 0.1], 3), ([0.4, 0.1], 9), ([0.4, 0.1, 0.7], 9)]
    n_kills = 0
    for rates, runs in growing_sweeps:
        while True:
            n_files_left[0] = int(rng.integers(1, 25))
            try:
                data = run_sweep(rates, runs=runs, file=store, threads=1)
                break
            except KilledError:
                n_kills += 1
        n_files_left[0] = 10**9
        assert_same(data, run_sweep(rates, runs=runs))
    assert n_kills > 10


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
            n_chunks = len(list(store.glob("regret/c.*")))
            while len(list(store.glob("regret/c.*"))) < n_chunks + 3 and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 0.2))
            process.send_signal(signal.SIGKILL)
    assert 6 <= len(list(store.glob("regret/c.*"))) < 120
    assert_same(run_sweep(file=store, **setting), run_sweep(**setting))
    assert not list(store.rglob("*.part"))


def test_ctrl_c_keeps_finished_chunks(store, monkeypatch):
    monkeypatch.setattr(schedule, "chunk_size", lambda *_: 1)
    monkeypatch.setattr(executors, "PAYLOAD_SECONDS", 1e-4)

    def stop(message, share):
        if share > 0.3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sweep(file=store, executor=InlineExecutor(), threads=1, progress=stop, horizon=20_000)
    n_chunks = len(list(store.glob("final_regret/c.*")))
    assert 0 < n_chunks < 20
    opened_data = xarray.open_zarr(store)
    assert int(np.isfinite(opened_data.final_regret).sum()) == n_chunks
    assert int((opened_data.n_pulls < 0).all("arm").sum()) == 20 - n_chunks
    assert_same(run_sweep(file=store, horizon=20_000), run_sweep(horizon=20_000))


# ------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 2}, "seed = 1 instead of 2 for ucb"),
        ({"stages": [200]}, r"different recorded stages \(up to 200\)"),
        ({"policies": {"ucb": kb.ucb(2)}}, "policy.parameters.exploration = 6.0 instead of 2.0"),
        ({"keep": "summary"}, "with a sweep over rate and keeps runs"),
    ],
)
def test_a_store_with_another_fingerprint_is_rejected_and_unchanged(store, change, message):
    run_sweep(file=store)
    files_before = read_files(store)
    with pytest.raises(ValueError, match=f"cannot be resumed: .*{message}"):
        run_sweep(**change, file=store)
    assert read_files(store) == files_before
    with pytest.raises(ValueError, match=r"cannot be resumed: .* a sweep over rate"):
        kb.simulate(PROBLEM, kb.active(0.1), kb.ucb(), file=store, **SETTING)


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
    stored_index = json.loads(gzip.decompress((store / INDEX_FILE).read_bytes()))
    (store / INDEX_FILE).write_bytes(
        gzip.compress(json.dumps({**stored_index, "format": 99}).encode())
    )
    with pytest.raises(ValueError, match="format 99 needs a later version"):
        run_sweep(file=store)


def flip_a_bit(content):
    position = len(content) // 2
    return content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :]


DAMAGES = {
    "flipped bit": flip_a_bit,
    "truncated": lambda content: content[: len(content) // 2],
    "junk": lambda content: b"junk",
    "too short": lambda content: gzip.compress(gzip.decompress(content)[:-8]),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_chunk_is_named_and_can_be_played_again(store, damage):
    run_sweep(file=store)
    chunk = store / "regret" / "c.0.1.0.0"
    chunk.write_bytes(damage(chunk.read_bytes()))
    data = run_sweep(file=store)
    with pytest.raises(ValueError, match=r"^chunk regret/c\.0\.1\.0\.0 of .* is damaged .*; delete"):
        data.regret.load()
    np.testing.assert_array_equal(data.n_pulls, run_sweep().n_pulls)  # its chunks are intact
    chunk.unlink()
    assert_same(run_sweep(file=store), run_sweep())


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_the_command_line_names_a_damaged_chunk(store, damage, monkeypatch, capsys):
    """The command reports damage, although typer would treat an EOFError of zlib like Ctrl-C."""
    words = "simulate --means 0.5,0 --policy ucb --horizon 50 --runs 5 --out"
    monkeypatch.setattr(sys, "argv", ["kibitz", *words.split(), str(store)])

    def run_command():
        with pytest.raises(SystemExit) as exit_info:
            main()
        return exit_info.value.code or 0, *capsys.readouterr()

    code, table, _ = run_command()
    assert code == 0
    chunk = store / "final_regret" / "c.0.0"
    chunk.write_bytes(damage(chunk.read_bytes()))
    code, output, errors = run_command()
    assert (code, output) == (2, "")
    assert errors.startswith("kibitz: chunk final_regret/c.0.0 of ")
    assert errors.count("\n") == 1
    chunk.unlink()
    assert run_command()[:2] == (0, table)


@pytest.mark.parametrize("name", ["stage/c.0", "policy/c.0", "regret/zarr.json", "zarr.json"])
@pytest.mark.parametrize("damage", [flip_a_bit, lambda content: b"junk", None])
def test_damaged_or_deleted_labels_are_written_again(store, name, damage):
    """The labels are restored from the index, so no run is played again."""
    run_sweep(file=store)
    file = store / name
    content = file.read_bytes()
    file.unlink()
    if damage is not None:
        file.write_bytes(damage(content))
    assert_same(run_sweep(file=store, executor=lambda: 1 / 0), run_sweep())
    assert file.read_bytes() == content


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
    opened_data = xarray.open_zarr(tmp_path / "x.zarr")
    assert opened_data.kind.values.tolist() == ["größer", "b"]
    assert opened_data.regret.shape == (1, 2, 2, 1)
    assert (opened_data.n_pulls == -1).all()


def test_the_runs_of_a_chunk_are_limited_by_size_and_time():
    def block(horizon, runs, cells=100, stages=200, workers=2):
        job = Job(None, kb.ucb(), PROBLEM, kb.bandit(), horizon, np.zeros(stages), 1, 0, runs)
        return schedule.chunk_size([job] * cells, lambda: workers)

    assert block(1000, 100) == 100  # all runs of a cell fit into one chunk
    assert block(1000, 10**6) == schedule.MAX_CHUNK_BYTES // 1600  # a chunk has at most 4 MiB
    assert block(10**7, 10**4) == 60  # a chunk takes at most 30 s, at 50 ns per stage
    assert block(1000, 100, cells=1) == 13  # runs are split into enough chunks for two workers
    assert block(10**9, 10) == 1
