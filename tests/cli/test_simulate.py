"""The command line, as a user calls it."""

import inspect
import json
import subprocess
import sys

import numpy as np
import pytest

import kibitz
from kibitz import cli
from kibitz.policies import POLICIES

SHORT = ["--means", "0.5,0,0.2", "--horizon", "300", "--runs", "6"]
ACTIVE = [*SHORT, "--observer", "active", "--rate", "0.2", "--policy", "ucb"]


def run(*arguments):
    """Return exit code, output and errors of `kibitz` with these arguments."""
    command = [sys.executable, "-m", "kibitz.cli", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


def call(capsys, *arguments):
    """Do the same in this process, which is quicker."""
    sys_argv, sys.argv = sys.argv, ["kibitz", *arguments]
    try:
        cli.main()
    except SystemExit as exit:
        code = exit.code or 0
    finally:
        sys.argv = sys_argv
    return code, *capsys.readouterr()


def test_simulate_prints_a_table(capsys):
    code, output, errors = call(capsys, "simulate", *ACTIVE)
    assert (code, errors) == (0, "")
    assert "regret after 300 stages, 6 runs" in output
    assert "seed 1, engine step" in output


def test_json_is_one_object_with_the_numbers_of_the_library(capsys):
    code, output, errors = call(capsys, "simulate", *ACTIVE, "--policy", "etc_ocucb:p=1.5", "--json")
    assert (code, errors) == (0, "")
    result = json.loads(output)
    assert list(result) == ["setting", "policies"]
    assert list(result["policies"]) == ["ucb", "etc_ocucb:p=1.5"]  # as given
    data = kibitz.simulate(
        kibitz.gaussian([0.5, 0, 0.2]),
        kibitz.active(0.2),
        {"ucb": kibitz.ucb(), "etc_ocucb:p=1.5": kibitz.etc_ocucb(p=1.5)},
        horizon=300,
        runs=6,
        seed=1,
    )
    for label, numbers in result["policies"].items():
        one = data.sel(policy=label)
        regret = one["final_regret"].to_numpy()
        got = numbers["regret"]
        assert got["mean"] == pytest.approx(regret.mean())
        assert got["sem"] == pytest.approx(regret.std(ddof=1) / np.sqrt(6))
        names = ("q10", "q25", "median", "q75", "q90")
        expected = np.quantile(regret, [0.1, 0.25, 0.5, 0.75, 0.9])
        np.testing.assert_allclose([got[name] for name in names], expected)
        curve = numbers["curve"]
        assert curve["stages"] == data["stage"].to_numpy().tolist()
        np.testing.assert_allclose(curve["mean"], one["regret"].mean("run"))
        np.testing.assert_allclose(curve["q25"], np.quantile(one["regret"], 0.25, axis=0))
        np.testing.assert_allclose(curve["q75"], np.quantile(one["regret"], 0.75, axis=0))
        np.testing.assert_allclose(numbers["n_pulls"], one["n_pulls"].mean("run"))
        np.testing.assert_allclose(numbers["n_free"], one["n_free"].mean("run"))
    assert result["setting"]["seed"] == 1
    assert result["setting"]["feedback"]["rate"] == 0.2


@pytest.mark.parametrize(
    "options",
    [
        ["--observer", "bandit"],
        ["--observer", "full"],
        ["--observer", "passive", "--rate", "1/5", "--weights", "optimal"],
        ["--observer", "passive", "--every", "10", "--weights", "0.2,0.3,0.5"],
        ["--observer", "active", "--every", "5", "--looks", "2", "--paid"],
        ["--law", "bernoulli"],
        ["--sd", "1,2,0.5", "--threads", "1", "--engine", "step"],
    ],
)
def test_each_option_is_understood(capsys, options):
    code, output, _ = call(capsys, "simulate", *SHORT, "--policy", "ucb", *options, "--json")
    assert code == 0
    feedback = json.loads(output)["setting"]["feedback"]
    if "--every" in options:
        assert feedback["rate"]["every"] == int(options[3])
    if "--paid" in options:
        assert feedback["paid"]
        assert feedback["looks"] == 2


def test_out_and_plot_write_files(capsys, tmp_path):
    out, plot = tmp_path / "result.nc", tmp_path / "figure.png"
    code, _, _ = call(capsys, "simulate", *ACTIVE, "--out", str(out), "--plot", str(plot))
    assert code == 0
    assert out.stat().st_size > 1000
    assert plot.read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--means", ""], "means must be a list such as 1,0.5, got ''"),
        (["--means", "1"], "means must be a list of at least 2 numbers, got [1.0]"),
        (["--means", "1,nan"], "means must be finite, got [1.0, nan]"),
        (["--means", "1,x"], "means must be a number, got 'x'"),
        (["--law", "cauchy"], "law must be 'gaussian' or 'bernoulli', got 'cauchy'"),
        (["--law", "bernoulli", "--means", "1,2"], "means must be in [0, 1] for bernoulli rewards"),
        (["--sd", "-1"], "sd must be non-negative and finite, got -1.0"),
        (
            ["--observer", "spy"],
            "observer must be 'bandit', 'passive'",
        ),
        (["--rate", "0.1"], "rate must be left out"),
        (["--observer", "active"], "rate or every must be given"),
        (["--observer", "active", "--rate", "0.1", "--every", "3"], "rate or every must be given"),
        (["--observer", "active", "--rate", "-0.1"], "rate must be in [0, 1], got -0.1"),
        (["--observer", "active", "--rate", "1.1"], "rate must be in [0, 1], got 1.1"),
        (["--observer", "active", "--rate", "nan"], "rate must be in [0, 1], got nan"),
        (["--observer", "active", "--every", "0"], "n must be a positive whole number, got 0"),
        (
            ["--observer", "active", "--rate", "0.1", "--weights", "uniform"],
            "weights must be left out",
        ),
        (
            ["--observer", "passive", "--rate", "0.1", "--weights", "0.5,0.6,0.1"],
            "weights must sum to 1, got [0.5, 0.6, 0.1]",
        ),
        (
            ["--observer", "passive", "--rate", "0.1", "--weights", "0.5,0.5"],
            "weights must have one entry for each of 3 arms, got 2",
        ),
        (["--policy", "nope"], "policy must be one of ftl, "),
        (
            ["--policy", "ucb:x=1"],
            "parameter of ucb must be one of exploration, ignore_free",
        ),
        (["--policy", "ucb:exploration"], "policy must be NAME:param=value,..., got"),
        (["--policy", "ucb:exploration=-1"], "exploration must be positive and finite, got -1.0"),
        (["--policy", "etc_ocucb:restart=maybe"], "restart must be true or false, got 'maybe'"),
        (["--policy", "ucb"], "policy must be given once each, got 'ucb' twice"),
        (["--horizon", "0"], "horizon must be a whole number of at least 1, got 0"),
        (["--horizon", "ten"], "horizon must be a number, got 'ten'"),
        (["--runs", "0"], "runs must be a whole number of at least 1, got 0"),
        (["--runs", "1.5"], "runs must be a whole number, got '1.5'"),
        (["--seed", "-1"], "seed must be a whole number of at least 0, got -1"),
        (["--engine", "warp"], "engine must be 'auto', 'step' or 'leap', got 'warp'"),
        (["--plot", "figure.txt"], "plot must end in .png, .svg or .pdf, got 'figure.txt'"),
        (["--plot", "missing/figure.png"], "plot must be in a folder that exists"),
        (["--out", "missing/result.nc"], "file must be in a folder that can be written to"),
        (["--nonsense"], "No such option"),
    ],
)
def test_bad_input_gets_one_sentence_and_exit_code_2(
    capsys, tmp_path, monkeypatch, options, sentence
):
    monkeypatch.chdir(tmp_path)
    code, output, errors = call(capsys, "simulate", *SHORT, "--policy", "ucb", *options)
    assert (code, output) == (2, "")
    assert errors.startswith("kibitz: ")
    assert sentence in errors
    assert len(errors.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []  # nothing half-written


def test_a_truncated_file_is_refused(capsys, tmp_path):
    out = tmp_path / "result.nc"
    call(capsys, "simulate", *ACTIVE, "--out", str(out))
    out.write_bytes(out.read_bytes()[:1000])
    code, _, errors = call(capsys, "simulate", *ACTIVE, "--out", str(out))
    assert code == 2
    assert "file must be a result that kibitz saved" in errors


def test_policies_lists_all_of_them_with_parameters_and_place():
    listed = cli.listed_policies()
    assert [name for name, _, _ in listed] == list(POLICIES)
    for name, parameters, sentence in listed:
        signature = inspect.signature(POLICIES[name])
        expected = ", ".join(f"{p.name}={p.default!r}" for p in signature.parameters.values())
        assert parameters.replace('"', "'") == expected
        assert sentence.endswith(".")
        assert "section" in sentence or "Algorithm" in sentence or "not in the paper" in sentence


def test_help_and_policies_do_not_wait_for_numba():
    check = (
        "import sys; from kibitz import cli; cli.listed_policies(); sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0


def test_the_command_runs_as_a_program():
    code, output, errors = run("policies")
    assert (code, errors) == (0, "")
    assert output.startswith("ftl()")
    code, _, errors = run("simulate", "--means", "1")
    assert code == 2
    assert "Traceback" not in errors
