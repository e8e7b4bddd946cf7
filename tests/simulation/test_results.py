"""Saved results are written atomically, verified, and resumed by later versions."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray

import kibitz as kb
from kibitz import _netcdf
from kibitz._netcdf import from_netcdf, read_verified
from kibitz.simulation.fingerprint import difference, fingerprint
from kibitz.simulation.results.dataset import Sweep
from kibitz.simulation.results.netcdf import load, save

pytestmark = pytest.mark.slow

FILES = Path(__file__).parent / "files"
PROBLEM = kb.gaussian([1, 0.5, 0])
SETTING = {"horizon": 200, "seed": 5, "stages": [10, 100], "engine": "step"}
POLICIES = [kb.ucb(), kb.ucb2(), kb.etc_ocucb(), kb.thompson(), kb.kl_ucb()]


@pytest.fixture
def file(tmp_path):
    """Return the path of a small saved result."""
    path = tmp_path / "result.nc"
    shutil.copy(FILES / "step-0.2.0.nc", path)
    return path


# ---------------------------------------------------------------------------- files of each version

OLD_NAMES = {"n_looks": "n_free"}  # in files of formats before 3


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0"])
def test_a_file_of_each_version_can_be_resumed_with_the_same_numbers(tmp_path, version):
    path = tmp_path / "result.nc"
    shutil.copy(FILES / f"step-{version}.nc", path)
    old_data = xarray.load_dataset(path, engine="h5netcdf")
    resumed_data = kb.simulate(PROBLEM, kb.active(0.2), POLICIES, runs=4, file=path, **SETTING)
    new_data = kb.simulate(PROBLEM, kb.active(0.2), POLICIES, runs=4, **SETTING)
    for name in ("regret", "n_pulls", "n_looks", "final_regret"):
        np.testing.assert_array_equal(resumed_data[name], new_data[name])
        np.testing.assert_array_equal(
            resumed_data[name].isel(run=slice(3)), old_data[OLD_NAMES.get(name, name)]
        )
    assert json.loads(resumed_data.attrs["cells"])[0]["fingerprint"]["revision"] == 2


def test_old_runs_are_not_computed_again(tmp_path):
    """A value that no run produces must remain in an old file after a resume."""
    path = tmp_path / "result.nc"
    old_data = xarray.load_dataset(FILES / "step-0.1.0.nc", engine="h5netcdf")
    old_data["n_free"][:] = 12345
    old_data.to_netcdf(path, engine="h5netcdf")
    data = kb.simulate(PROBLEM, kb.active(0.2), POLICIES, runs=4, file=path, **SETTING)
    assert np.all(data.n_looks.isel(run=slice(3)) == 12345)
    assert np.all(data.n_looks.isel(run=3) != 12345)


@pytest.mark.parametrize(
    ("name", "problem", "change", "reason"),
    [
        ("leap", PROBLEM, {"horizon": 5000, "engine": "leap"}, "leaps of kibitz 0.1.0"),
        ("bernoulli", kb.bernoulli([0.9, 0.5, 0]), {}, "unscaled rewards, as in kibitz 0.1.0"),
        ("step", PROBLEM, {"seed": 6}, "seed = 5 instead of 6"),
        ("step", kb.gaussian([1, 0.5, 0.1]), {}, "problem.means = "),
    ],
)
def test_changed_numbers_are_rejected_with_the_reason(tmp_path, name, problem, change, reason):
    path = tmp_path / "result.nc"
    shutil.copy(FILES / f"{name}-0.1.0.nc", path)
    setting = {**SETTING, "runs": 2, "file": path, **change}
    with pytest.raises(ValueError, match=f"cannot be resumed: .*{reason}"):
        kb.simulate(problem, kb.active(0.2), kb.ucb(), **setting)


def test_bernoulli_runs_of_0_1_0_can_be_resumed_with_scale_1(tmp_path):
    path = tmp_path / "result.nc"
    shutil.copy(FILES / "bernoulli-0.1.0.nc", path)
    old_data = xarray.load_dataset(path, engine="h5netcdf")
    setting = {**SETTING, "runs": 2}
    policies = {"ucb": kb.ucb(scale=1)}
    problem = kb.bernoulli([0.9, 0.5, 0])
    new_data = kb.simulate(problem, kb.active(0.2), policies, **setting)
    np.testing.assert_array_equal(new_data.regret, old_data.regret)
    resumed_data = kb.simulate(problem, kb.active(0.2), policies, file=path, **setting)
    np.testing.assert_array_equal(resumed_data.regret, old_data.regret)


def test_functions_of_the_user_in_files_of_0_1_0_are_rejected(tmp_path):
    def own_index(params, stage, counts, arm, mean):
        return mean

    new_fingerprint = fingerprint(
        PROBLEM, kb.active(0.2), kb.index_policy("mine", own_index), 200, 5, False, 1e-9
    )
    old_fingerprint = {
        **new_fingerprint,
        "policy": {"name": "mine", "parameters": {}, "functions": "abc"},
    }
    del old_fingerprint["revision"]
    assert "by their bytecode" in difference(old_fingerprint, new_fingerprint)


# --------------------------------------------------------------------------------- fingerprints


def test_versions_and_paths_are_not_part_of_the_fingerprint():
    setting = json.dumps(fingerprint(PROBLEM, kb.active(0.2), kb.ucb(), 200, 5, False, 1e-9))
    for word in (np.__version__, sys.version.split()[0], "numba", "/"):
        assert word not in setting


def test_runs_of_an_older_revision_of_a_policy_are_rejected():
    """Runs of a kibitzer whose index did not count the looks per arm cannot be resumed."""
    new = fingerprint(PROBLEM, kb.active(0.2), kb.kibitzer(), 200, 5, False, 1e-9)
    policy = {key: value for key, value in new["policy"].items() if key != "revision"}
    assert difference({**new, "policy": policy}, new) == "policy.revision = None instead of 2"
    assert difference(new, new) is None


def test_the_fingerprint_ignores_moved_files_and_comments(tmp_path, monkeypatch):
    text = "def index(params, stage, counts, arm, mean):\n    return mean + 1 / counts[arm]\n"
    commented_text = text.replace(
        "    return", '    """A docstring."""\n    # and a comment\n    return'
    )
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "here_it_was.py").write_text(text)
    (tmp_path / "there_it_is.py").write_text(
        "# first\n\n\n@staticmethod\n".join(["", commented_text])
    )
    (tmp_path / "another.py").write_text(text.replace("1 /", "2 /"))
    import another
    import here_it_was
    import there_it_is

    fingerprints = [
        fingerprint(PROBLEM, kb.bandit(), kb.index_policy("mine", f), 10, 1, False, 1e-9)
        for f in (here_it_was.index, there_it_is.index.__func__, another.index)
    ]
    assert fingerprints[0] == fingerprints[1]
    assert fingerprints[0]["policy"]["source"] != fingerprints[2]["policy"]["source"]


def test_the_turns_of_looks_are_part_of_the_fingerprint():
    robin = kb.ftl_robin()

    def other_turns(params, state):
        return state.allowed, 0

    changed_policy = replace(robin, turns=other_turns)
    fingerprint_of_robin, fingerprint_of_changed = (
        fingerprint(PROBLEM, kb.active(0.1), policy, 10, 1, False, 1e-9)["policy"]
        for policy in (robin, changed_policy)
    )
    assert fingerprint_of_robin != fingerprint_of_changed
    assert len(robin.functions) == 7


# ------------------------------------------------------------------------------ damage and full disks


def test_any_netcdf_reader_opens_a_file(file):
    assert list(xarray.open_dataset(file).policy.values) == [p.name for p in POLICIES]


def test_any_flipped_byte_is_detected(file):
    """Flip single bits at 300 positions of the file, then overwrite 512 bytes with zeros."""
    original_bytes = file.read_bytes()
    rng = np.random.default_rng(1)
    for position in rng.integers(len(original_bytes) - 90, size=300):
        damaged_bytes = bytearray(original_bytes)
        damaged_bytes[position] ^= 1 << rng.integers(8)
        file.write_bytes(damaged_bytes)
        with pytest.raises(ValueError, match=r"cannot read .*: checksum mismatch"):
            read_verified(file)
    position = next(
        n for n in range(8000, len(original_bytes), 512) if any(original_bytes[n : n + 512])
    )
    file.write_bytes(original_bytes[:position] + bytes(512) + original_bytes[position + 512 :])
    with pytest.raises(ValueError, match="checksum mismatch"):
        kb.simulate(PROBLEM, kb.active(0.2), POLICIES, runs=3, file=file, **SETTING)


@pytest.mark.parametrize("n_cut_bytes", [1, 40, 90, 5000])
def test_a_file_without_its_last_line_is_rejected(file, n_cut_bytes):
    file.write_bytes(file.read_bytes()[:-n_cut_bytes])
    with pytest.raises(ValueError, match=r"cannot read .*: it is damaged"):
        read_verified(file)


def test_reading_an_unverified_file_times_out(file, monkeypatch):
    monkeypatch.setattr(_netcdf, "READ_TIMEOUT_SECONDS", 0.01)
    file.write_bytes((FILES / "step-0.1.0.nc").read_bytes())
    with pytest.raises(ValueError, match="reading took more than"):
        read_verified(file)


def test_a_later_format_is_rejected(file):
    file.write_bytes(file.read_bytes().replace(b"kibitz format 2", b"kibitz format 4"))
    with pytest.raises(ValueError, match="format 4 needs a later version"):
        read_verified(file)


def test_a_foreign_netcdf_file_is_rejected(file):
    xarray.Dataset({"a": ("x", [1.0])}).to_netcdf(file, engine="h5netcdf")
    with pytest.raises(ValueError, match=r"cannot read .* as a result of kibitz"):
        load(file, Sweep())


FULL_DISK_SCRIPT = """
import resource, signal, sys
import kibitz as kb
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
try:
    kb.simulate(kb.gaussian([1, 0.5, 0]), kb.active(0.2), kb.thompson(),
                horizon=200, runs=400, seed=5, file=sys.argv[1], engine="step")
except ValueError as error:
    print(error)
"""


def test_a_full_disk_raises_and_keeps_the_old_file(tmp_path):
    """The test limits the file size, which makes the system call fail as on a full disk."""
    path = tmp_path / "result.nc"
    setting = {"horizon": 200, "seed": 5, "engine": "step"}
    kb.simulate(PROBLEM, kb.active(0.2), kb.thompson(), runs=2, file=path, **setting)
    old_bytes = path.read_bytes()
    process = subprocess.run(
        [sys.executable, "-c", FULL_DISK_SCRIPT, str(path), str(len(old_bytes) + 500)],
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("file must be a file that can be written, got ")
    assert path.read_bytes() == old_bytes
    assert os.listdir(tmp_path) == ["result.nc"]


def test_stages_of_a_policy_that_leaps_and_one_that_does_not_are_saved_together(tmp_path):
    path = tmp_path / "mix.nc"
    policies = [kb.ucb(), kb.thompson()]
    data = kb.simulate(
        PROBLEM, kb.active(0.1), policies, horizon=1000, runs=2, seed=1, engine="leap", file=path
    )
    assert data.attrs["engine"] == "ucb: leap, thompson: step"
    assert json.loads(data.attrs["fingerprint"])["engines"] == {"ucb": "leap", "thompson": "step"}
    assert "error" not in json.loads(data.attrs["fingerprint"])
    table, _ = load(path, Sweep())
    assert [cell.fingerprint["engine"] for cell in table.values()] == ["leap", "step"]


def test_a_sweep_to_smaller_horizons_that_do_not_leap_is_saved(tmp_path):
    data = kb.sweep(
        PROBLEM, kb.passive(0.1), kb.ucb(),
        horizon=[200_000, 300], runs=2, seed=1, file=tmp_path / "sweep.nc",
    )  # fmt: skip
    assert np.all(np.isfinite(data.final_regret))


def test_a_saved_result_is_loaded_unchanged(file, tmp_path):
    data = from_netcdf(read_verified(file))
    save(data, tmp_path / "again.nc")
    xarray.testing.assert_identical(from_netcdf(read_verified(tmp_path / "again.nc")), data)
