"""Tests of the labels, files, resuming and errors of `simulate` and `sweep`."""

import json
import math
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray

import kibitz
from kibitz.simulation.schedule import label_policies, log_spaced

PROBLEM = kibitz.gaussian([0.5, 0.0, 0.2])
SETTING = {"horizon": 300, "runs": 6, "seed": 1}


def play(policies=None, feedback=None, problem=PROBLEM, **options):
    policies = kibitz.ucb() if policies is None else policies
    return kibitz.simulate(
        problem, feedback or kibitz.active(0.2), policies, **{**SETTING, **options}
    )


def test_a_result_has_named_dimensions_and_its_fingerprint():
    data = play([kibitz.ucb(), kibitz.ucb(exploration=2)])
    assert data["regret"].dims == ("policy", "run", "stage")
    assert data["n_pulls"].dims == data["n_looks"].dims == ("policy", "run", "arm")
    assert data["policy"].to_numpy().tolist() == ["ucb", "ucb:exploration=2"]
    assert data["stage"].to_numpy()[[0, -1]].tolist() == [1, 300]
    setting = json.loads(data.attrs["fingerprint"])
    assert setting["problem"] == {"kind": "gaussian", "means": [0.5, 0.0, 0.2], "sd": 1.0}
    assert (setting["horizon"], setting["seed"]) == (300, 1)
    assert setting["policies"]["ucb:exploration=2"]["parameters"]["exploration"] == 2
    assert setting["engines"] == {"ucb": "step", "ucb:exploration=2": "step"}


def test_attributes_are_readable_and_coordinates_have_units():
    attributes = play([kibitz.ucb(), kibitz.ucb(exploration=2)]).attrs
    assert attributes["problem"] == "gaussian (means 0.5, 0, 0.2; sd 1)"
    assert attributes["feedback"] == "active (rate 0.2; looks 1; paid no)"
    assert attributes["policies"] == (
        "ucb (scale 1; exploration 6; ignore_looks no); "
        "ucb:exploration=2 = ucb (scale 1; exploration 2; ignore_looks no)"
    )
    assert (attributes["horizon"], attributes["seed"], attributes["engine"]) == (300, 1, "step")
    assert re.fullmatch(r"kibitz [\w.]+, numpy .*numba [\w.]+, .*", attributes["versions"])
    data = play()
    assert data["stage"].attrs["units"] == "stages"
    assert data["regret"].attrs["units"] == "reward"
    swept = kibitz.sweep(PROBLEM, kibitz.active, kibitz.ucb(), rate=[0.1, 0.2], **SETTING)
    assert swept["rate"].attrs == {"long_name": "rate of looks", "units": "looks per stage"}
    assert "feedback" not in swept.attrs  # it differs between the points
    assert swept.attrs["problem"] == attributes["problem"]


def test_a_seed_sequence_is_a_seed():
    expected = play()["final_regret"]
    xarray.testing.assert_identical(play(seed=np.random.SeedSequence(1))["final_regret"], expected)
    children = np.random.SeedSequence(1).spawn(2)
    results = [play(seed=child)["final_regret"].to_numpy() for child in children]
    assert not np.array_equal(*results)
    assert not np.array_equal(results[0], expected)
    repeated_regret = play(seed=np.random.SeedSequence(1, spawn_key=(0,)))["final_regret"]
    assert np.array_equal(repeated_regret, results[0])
    assert children[0].n_children_spawned == 0
    large_seed = np.random.SeedSequence([1, 2, 3])
    assert play(seed=large_seed).attrs["seed"] == play(seed=large_seed).attrs["seed"] < 2**62
    problems = [
        kibitz.random_problems(lambda rng: kibitz.gaussian(rng.normal(size=3)), seed)(0).means
        for seed in (1, np.random.SeedSequence(1))
    ]
    assert np.array_equal(*problems)


def test_the_regret_is_the_gaps_times_the_pulls():
    data = play()
    expected = data["n_pulls"].to_numpy() @ PROBLEM.gaps
    np.testing.assert_allclose(data["final_regret"].to_numpy(), expected, rtol=1e-12)
    np.testing.assert_array_equal(data["final_regret"], data["regret"].isel(stage=-1))
    assert (data["n_pulls"].sum("arm") == 300).all()


def test_the_regret_is_recorded_at_the_requested_stages_and_the_horizon():
    data = play(stages=[10, 100])
    assert data["stage"].to_numpy().tolist() == [10, 100, 300]
    data_of_all_stages = play(stages=np.arange(1, 301))
    np.testing.assert_array_equal(
        data["regret"], data_of_all_stages["regret"].sel(stage=[10, 100, 300])
    )


@pytest.mark.parametrize("horizon", [1, 2, 10, 10_000, 10**12])
def test_by_default_about_200_log_spaced_stages_up_to_the_horizon_are_recorded(horizon):
    stages = log_spaced(horizon)
    assert stages[0] == 1
    assert stages[-1] == horizon
    assert (np.diff(stages) > 0).all()
    assert len(stages) <= 200


def test_runs_depend_on_seed_and_run_only():
    three_runs, six_runs = play(runs=3), play(runs=6, threads=1)
    np.testing.assert_array_equal(three_runs["regret"], six_runs["regret"].isel(run=slice(3)))
    assert not np.array_equal(play(seed=2)["regret"], six_runs["regret"])


def test_a_file_can_be_resumed(tmp_path):
    file = tmp_path / "result.nc"
    first_data = play(runs=4, file=file)
    written_bytes = file.read_bytes()
    np.testing.assert_array_equal(play(runs=4, file=file)["regret"], first_data["regret"])
    assert file.read_bytes() == written_bytes  # the file is complete, so it is not written
    larger_data = play([kibitz.ucb(), kibitz.ftl()], runs=6, file=file)
    np.testing.assert_array_equal(larger_data["regret"], play([kibitz.ucb(), kibitz.ftl()])["regret"])
    with xarray.open_dataset(file, engine="h5netcdf") as opened_data:  # readable without kibitz
        np.testing.assert_array_equal(opened_data["regret"], larger_data["regret"])
    smaller_data = play(runs=2, file=file)  # the file keeps the other runs
    assert smaller_data.sizes["run"] == 2
    assert len(play([kibitz.ucb(), kibitz.ftl()], file=file)["run"]) == 6


def test_only_missing_runs_are_computed(tmp_path, monkeypatch):
    file = tmp_path / "result.nc"
    play(runs=4, file=file)
    played_jobs = []
    play_all = kibitz.simulation.simulate.play_all

    def spy(jobs, *other_arguments):
        played_jobs.extend((job.label[1], job.first_run, job.end_run) for job in jobs)
        return play_all(jobs, *other_arguments)

    monkeypatch.setattr(kibitz.simulation.simulate, "play_all", spy)
    play([kibitz.ucb(), kibitz.ftl()], runs=5, file=file, threads=1)
    runs = {(label, run) for label, first, last in played_jobs for run in range(first, last)}
    assert runs == {("ucb", 4), *(("ftl", run) for run in range(5))}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 2}, "seed = 1 instead of 2"),
        ({"horizon": 301}, r"different recorded stages \(up to 300\)"),
        ({"feedback": kibitz.active(0.3)}, "feedback.rate = 0.2 instead of 0.3"),
        ({"problem": kibitz.gaussian([0.5, 0.1, 0.2])}, "problem.means"),
        ({"policies": {"ucb": kibitz.ucb(2)}}, "policy.parameters.exploration = 6.0 instead of 2.0"),
        ({"stages": [5, 300]}, r"different recorded stages \(up to 300\)"),
    ],
)
def test_a_file_with_another_fingerprint_is_rejected_and_unchanged(tmp_path, change, message):
    file = tmp_path / "result.nc"
    play(file=file)
    written_bytes = file.read_bytes()
    with pytest.raises(ValueError, match="cannot be resumed: .*" + message):
        play(**change, file=file)
    assert file.read_bytes() == written_bytes


def test_another_formula_of_the_same_name_has_another_fingerprint(tmp_path):
    file = tmp_path / "result.nc"
    play(kibitz.index_policy("mine", lambda params, stage, counts, arm, mean: mean), file=file)
    other_policy = kibitz.index_policy("mine", lambda params, stage, counts, arm, mean: 2 * mean)
    with pytest.raises(ValueError, match=r"policy\.source"):
        play(other_policy, file=file)


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"", b"nonsense", None])
def test_a_damaged_file_is_rejected_and_unchanged(tmp_path, content):
    file = tmp_path / "result.nc"
    play(file=file)
    damaged_bytes = file.read_bytes()[: file.stat().st_size // 2] if content is None else content
    file.write_bytes(damaged_bytes)
    with pytest.raises(ValueError, match=r"cannot read .*: it is damaged or not a netCDF file"):
        play(file=file)
    assert file.read_bytes() == damaged_bytes
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("name", ["missing/result.nc", "."])
def test_an_unwritable_file_is_rejected_before_the_work(tmp_path, name):
    with pytest.raises(ValueError, match="file must be "):
        play(file=tmp_path / name)


def test_an_interruption_keeps_finished_runs(tmp_path):
    file = tmp_path / "result.nc"
    started = []

    def stop_soon(message, share):
        started.append(share)
        if share > 0.5:
            raise KeyboardInterrupt

    setting = {"horizon": 20_000, "runs": 300, "threads": 1}
    with pytest.raises(KeyboardInterrupt):
        play(**setting, file=file, progress=stop_soon)
    with xarray.open_dataset(file, engine="h5netcdf") as data:
        n_done = int(np.isfinite(data["final_regret"]).sum())
    assert 0 < n_done < 300
    np.testing.assert_array_equal(play(**setting, file=file)["regret"], play(**setting)["regret"])


@pytest.mark.slow
def test_ctrl_c_on_the_command_line_ends_cleanly(tmp_path):
    file = tmp_path / "result.nc"
    play(kibitz.ucb2(), kibitz.bandit(), kibitz.gaussian([1, 0.9]))  # compile the kernel first
    command = [sys.executable, "-m", "kibitz.cli", "simulate", "--means", "1,0.9", "--policy"]
    command += ["ucb2", "--horizon", "2000000", "--runs", "4000", "--out", str(file)]

    def listen():  # a background process may inherit SIGINT as ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=listen) as process:
        for _ in range(6):  # on a busy machine, numba may still be starting and lose a signal
            time.sleep(10)
            process.send_signal(signal.SIGINT)
            try:
                _, error = process.communicate(timeout=5)
                break
            except subprocess.TimeoutExpired:
                pass
        else:
            process.kill()
            pytest.fail("Ctrl-C did not end the command")
    assert process.returncode == 130, error
    assert error.strip().splitlines()[-1].startswith("kibitz: interrupted")
    assert "Traceback" not in error
    assert {path.name for path in tmp_path.iterdir()} <= {"result.nc"}


# ----------------------------------------------------------------------------------------- sweep


def test_a_sweep_adds_a_dimension(tmp_path):
    rates = [0.0, 0.1, 1.0]
    data = kibitz.sweep(PROBLEM, kibitz.active, kibitz.ucb(), rate=rates, **SETTING)
    assert data["regret"].dims == ("policy", "rate", "run", "stage")
    for rate in rates:
        simulated_data = play(feedback=kibitz.active(rate))
        np.testing.assert_array_equal(data["regret"].sel(rate=rate), simulated_data["regret"])


def test_a_sweep_can_be_resumed_with_more_values(tmp_path):
    file = tmp_path / "sweep.nc"
    make = {"problem": PROBLEM, "feedback": kibitz.active, "policies": kibitz.ucb(), **SETTING}
    kibitz.sweep(rate=[0.1, 0.2], **make, file=file)
    larger_sweep = kibitz.sweep(rate=[0.1, 0.3], **{**make, "runs": 8}, file=file)
    new_sweep = kibitz.sweep(rate=[0.1, 0.3], **{**make, "runs": 8})
    np.testing.assert_array_equal(larger_sweep["regret"], new_sweep["regret"])
    with pytest.raises(ValueError, match=r"cannot be resumed: .* a sweep over rate"):
        play(file=file)


def test_a_sweep_over_a_parameter_of_a_policy_labels_it_by_its_name():
    data = kibitz.sweep(PROBLEM, kibitz.active(0.2), kibitz.ucb, exploration=[1.0, 6.0], **SETTING)
    assert data["policy"].to_numpy().tolist() == ["ucb"]
    np.testing.assert_array_equal(data["regret"].sel(exploration=6.0), play()["regret"])


def test_a_sweep_over_the_horizon_has_the_regret_at_each_horizon():
    data = kibitz.sweep(PROBLEM, kibitz.active(0.2), kibitz.ucb(), horizon=[10, 300], runs=6, seed=1)
    data_of_all_stages = play(stages=np.arange(1, 301))
    short_data = data.sel(horizon=10)
    np.testing.assert_array_equal(
        short_data["final_regret"], data_of_all_stages["regret"].sel(stage=10)
    )
    assert np.isnan(short_data["regret"].sel(stage=300)).all()
    assert (short_data["n_pulls"].sum("arm") == 10).all()
    named_data = kibitz.sweep(
        PROBLEM, kibitz.active(0.2), kibitz.ucb(), T=[10, 300], horizon=lambda T: T, runs=6, seed=1
    )
    np.testing.assert_array_equal(named_data["regret"], data["regret"])


@pytest.mark.parametrize("name", ["run", "policy", "n_looks"])
def test_a_swept_parameter_cannot_have_a_name_of_the_result(name):
    with pytest.raises(ValueError, match=f"a swept parameter cannot be called '{name}'"):
        kibitz.sweep(PROBLEM, kibitz.bandit(), kibitz.ucb(), **{name: [1]}, **SETTING)


def test_a_sweep_needs_values():
    for values in ([], [1, 1]):
        with pytest.raises(ValueError, match="rate must be a non-empty list without duplicates"):
            kibitz.sweep(PROBLEM, kibitz.active, kibitz.ucb(), rate=values, **SETTING)


# ------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"horizon": 0}, "horizon must be a whole number of at least 1, got 0"),
        ({"horizon": 1.5}, "horizon must be a whole number, got 1.5"),
        ({"horizon": math.nan}, "horizon must be a whole number, got nan"),
        ({"runs": 0}, "runs must be a whole number of at least 1, got 0"),
        ({"runs": "many"}, "runs must be a whole number, got 'many'"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"threads": 0}, "threads must be a whole number of at least 1, got 0"),
        ({"engine": "warp"}, "engine must be 'auto', 'step' or 'leap', got 'warp'"),
        ({"error": 0}, "error must be in \\[1e-12, 0.001\\], got 0"),
        ({"stages": []}, "stages must be a list of whole numbers"),
        ({"stages": [5, 5]}, "stages must be increasing numbers from 1 to 300"),
        ({"stages": [0, 5]}, "stages must be increasing numbers from 1 to 300"),
        ({"stages": [5, 301]}, "stages must be increasing numbers from 1 to 300"),
        ({"policies": []}, "no policies given"),
        ({"policies": [kibitz.ucb(), kibitz.ucb()]}, "two policies have the label 'ucb'"),
        ({"policies": ["ucb"]}, "policies must be one or more policies such as ucb"),
        ({"policies": "ucb"}, r"policies must be one or more policies such as ucb\(\), got 'ucb'"),
        ({"policies": kibitz.kl_ucb("bernoulli")}, r"is for rewards in \[0, 1\], but"),
        ({"feedback": kibitz.passive(0.1, [0.5, 0.5])}, "weights must have one entry for each of 3"),
        ({"feedback": kibitz.passive([0.1, 0.2])}, "rate must have an entry for each of 300 stages"),
    ],
)
def test_invalid_arguments_are_rejected(change, message):
    with pytest.raises(ValueError, match=message):
        play(**change)


def test_a_horizon_that_takes_days_is_rejected_with_an_estimate():
    with pytest.raises(
        ValueError, match=r"horizon=10+ would take thompson about .* days stage by stage; use"
    ):
        play(kibitz.thompson(), horizon=10**15)


@pytest.mark.slow
def test_an_index_that_numba_cannot_compile_is_rejected_with_the_reason():
    def index(params, stage, counts, arm, mean):
        return float(f"{mean!r}")

    with pytest.raises(ValueError, match="numba cannot compile mine: "):
        play(kibitz.index_policy("mine", index))


def test_labels_are_names_with_non_default_parameters():
    policies = [kibitz.ftl(), kibitz.etc_ocucb(p=1.5, check="doubling"), kibitz.moss(horizon=10)]
    assert list(label_policies(policies)) == [
        "ftl",
        "etc_ocucb:p=1.5,check=doubling",
        "moss:horizon=10",
    ]


def test_a_saved_file_has_default_permissions(tmp_path):
    file, other_file = tmp_path / "result.nc", tmp_path / "other"
    play(file=file)
    other_file.write_text("")
    assert Path(file).stat().st_mode == other_file.stat().st_mode


def test_a_policy_for_bernoulli_rewards_rejects_other_rewards():
    problem, policy = kibitz.empirical([[0, 0.5], [1, 0]]), kibitz.kl_ucb(rewards="bernoulli")
    with pytest.raises(ValueError, match=r"rewards of 0 and 1.*use rewards=\"bounded\""):
        kibitz.simulate(problem, kibitz.bandit(), policy, **SETTING)
