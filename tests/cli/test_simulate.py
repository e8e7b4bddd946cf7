"""`kibitz simulate`: its numbers, its files, its refusals."""

import json
import os

import numpy as np
import pytest

import kibitz as library

pytestmark = pytest.mark.slow

SHORT = ["--means", "0.5,0,0.2", "--horizon", "300", "--runs", "6"]
ACTIVE = [*SHORT, "--observer", "active", "--rate", "0.2", "--policy", "ucb"]


def test_simulate_prints_a_table(kibitz):
    code, output, errors = kibitz("simulate", *ACTIVE)
    assert (code, errors) == (0, "")
    assert "regret after 300 stages, 6 runs" in output
    assert "seed 1, engine step" in output


def test_json_is_one_object_with_the_numbers_of_the_library(kibitz):
    code, output, errors = kibitz("simulate", *ACTIVE, "--policy", "etc_ocucb:p=1.5", "--json")
    assert (code, errors) == (0, "")
    result = json.loads(output)
    assert list(result) == ["setting", "policies"]
    assert list(result["policies"]) == ["ucb", "etc_ocucb:p=1.5"]  # as given
    data = library.simulate(
        library.gaussian([0.5, 0, 0.2]),
        library.active(0.2),
        {"ucb": library.ucb(), "etc_ocucb:p=1.5": library.etc_ocucb(p=1.5)},
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
        np.testing.assert_allclose(numbers["n_looks"], one["n_looks"].mean("run"))
    assert result["fingerprint"]["seed"] == 1
    assert result["fingerprint"]["feedback"]["rate"] == 0.2


@pytest.mark.parametrize(
    "options",
    [
        ["--observer", "bandit"],
        ["--observer", "full"],
        ["--observer", "passive", "--rate", "1/5", "--weights", "optimal"],
        ["--observer", "passive", "--every", "10", "--weights", "0.2,0.3,0.5"],
        ["--observer", "active", "--every", "5", "--looks", "2", "--paid"],
        ["--rewards", "bernoulli"],
        ["--sd", "1,2,0.5", "--threads", "1", "--engine", "step"],
    ],
)
def test_each_option_is_understood(kibitz, options):
    code, output, _ = kibitz("simulate", *SHORT, "--policy", "ucb", *options, "--json")
    assert code == 0
    feedback = json.loads(output)["fingerprint"]["feedback"]
    if "--every" in options:
        assert feedback["rate"]["every"] == int(options[3])
    if "--paid" in options:
        assert feedback["paid"]
        assert feedback["looks"] == 2


def test_out_and_plot_write_files(kibitz, tmp_path):
    out, plot = tmp_path / "result.nc", tmp_path / "figure.png"
    code, _, _ = kibitz("simulate", *ACTIVE, "--out", str(out), "--plot", str(plot))
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
        (
            ["--rewards", "cauchy"],
            "rewards must be 'gaussian', 'bernoulli' or 'bounded', got 'cauchy'",
        ),
        (
            ["--rewards", "bernoulli", "--means", "1,2"],
            "means must be in [0, 1] for bernoulli rewards",
        ),
        (["--sd", "-1"], "sd must be non-negative and finite, got -1.0"),
        (["--observer", "spy"], "observer must be 'bandit', 'passive'"),
        (["--rate", "0.1"], "rate must be left out"),
        (["--observer", "active"], "rate or every must be given"),
        (["--observer", "active", "--rate", "0.1", "--every", "3"], "rate or every must be given"),
        (["--observer", "active", "--rate", "-0.1"], "rate must be in [0, 1], got -0.1"),
        (["--observer", "active", "--rate", "1.1"], "rate must be in [0, 1], got 1.1"),
        (["--observer", "active", "--rate", "nan"], "rate must be in [0, 1], got nan"),
        (
            ["--observer", "active", "--every", "0"],
            "every must be a whole number of at least 1, got 0",
        ),
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
        (["--policy", "ucb:x=1"], "parameter of ucb must be one of exploration, ignore_looks"),
        (["--policy", "ucb:exploration"], "policy must be NAME:param=value,..., got"),
        (["--policy", "ucb:exploration=-1"], "exploration must be positive and finite, got -1.0"),
        (["--policy", "etc_ocucb:restart=maybe"], "restart must be true or false, got 'maybe'"),
        (["--policy", "ucb"], "policy must be given once each, got 'ucb' twice"),
        (["--horizon", "0"], "horizon must be a whole number of at least 1, got 0"),
        (["--horizon", "ten"], "horizon must be a whole number, got 'ten'"),
        (["--runs", "0"], "runs must be a whole number of at least 1, got 0"),
        (["--runs", "1.5"], "runs must be a whole number, got 1.5"),
        (["--seed", "-1"], "seed must be a whole number of at least 0, got -1"),
        (["--engine", "warp"], "engine must be 'auto', 'step' or 'leap', got 'warp'"),
        (["--plot", "figure.txt"], "plot must be a name that ends in .png, .svg or .pdf"),
        (["--plot", "missing/figure.png"], "plot must be in a folder that exists"),
        (
            ["--out", "missing/result.nc"],
            "out must be in a folder that exists, got 'missing/result.nc'",
        ),
        (["--looks", "9223372036854775808"], "looks must be a whole number below 2^62"),
        (["--looks", "1e19"], "looks must be a whole number below 2^62, got 1e+19"),
        (["--threads", "0"], "threads must be a whole number of at least 1, got 0"),
        (["--looks", "2"], "looks must be left out for the observer bandit, got 2"),
        (["--paid"], "paid must be left out for the observer bandit, got True"),
        (
            ["--rewards", "bernoulli", "--sd", "1"],
            "sd must be left out for bernoulli rewards, got [1.0]",
        ),
        (["--observer", "passive", "--rate", "1", "--weights", "x"], "weights must be 'uniform', "),
        (["--observer", "passive", "--rate", "1", "--weights", "1,x"], "weights must be 'uniform', "),
        (["--policy", "etc:horizon=0.5"], "horizon must be a whole number, got 0.5"),
        (["--policy", "etc:scale=x"], "scale must be a number, got 'x'"),
        (["--runs", "4e9"], "runs=4000000000 would take"),
        (["--runs", "1e10"], "runs must be a whole number of at most 4294967295, got 10000000000"),
        (["--means", "1e308,-1e308"], "means must be "),
        (["--error", "x"], "error must be a number, got 'x'"),
        (["--nonsense"], "No such option"),
    ],
)
def test_bad_input_gets_one_sentence_and_exit_code_2(refused, options, sentence):
    assert sentence in refused("simulate", *SHORT, "--policy", "ucb", *options)


def test_a_truncated_file_is_refused(kibitz, tmp_path):
    out = tmp_path / "result.nc"
    kibitz("simulate", *ACTIVE, "--out", str(out))
    out.write_bytes(out.read_bytes()[:1000])
    code, _, errors = kibitz("simulate", *ACTIVE, "--out", str(out))
    assert code == 2
    assert "cannot read" in errors


def loop(folder):
    (folder / "a").symlink_to("b.png")
    (folder / "b.png").symlink_to("a")
    return folder / "b.png"


def pipe(folder):
    os.mkfifo(folder / "pipe.png")
    return folder / "pipe.png"


def folder_in(folder):
    (folder / "folder.png").mkdir()
    return folder / "folder.png"


def child_of_a_file(folder):
    (folder / "file").touch()
    return folder / "file" / "child.png"


TARGETS = [loop, pipe, folder_in, child_of_a_file, lambda folder: folder / f"{'x' * 300}.png",
           lambda folder: "/proc/x.png"]  # fmt: skip


@pytest.mark.skipif(os.name != "posix", reason="pipes and links of POSIX")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("option", ["--out", "--plot"])
def test_what_cannot_be_written_is_refused_before_the_work(
    refused, tmp_path, monkeypatch, option, target
):
    def work(*arguments, **options):
        raise AssertionError("it was computed")

    monkeypatch.setattr("kibitz.simulation.simulate.simulate", work)
    path = target(tmp_path)
    assert refused("simulate", *ACTIVE, option, str(path)).startswith(f"{option[2:]} must be ")


@pytest.mark.skipif(os.name != "posix", reason="devices of POSIX")
@pytest.mark.parametrize("device", ["/dev/full", "/dev/null"])
def test_devices_are_refused(refused, device):
    sentence = f"out must be an ordinary file, no pipe or device, got {device!r}"
    assert refused("simulate", *ACTIVE, "--out", device) == sentence
    assert not os.path.isfile(device)


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
def test_a_figure_follows_a_link(kibitz, tmp_path):
    """The ending of the link says how to draw, not that of the file behind it."""
    file, link = tmp_path / "file", tmp_path / "link.png"
    link.symlink_to(file)
    code, _, errors = kibitz("simulate", *ACTIVE, "--plot", link)
    assert (code, errors) == (0, "")
    assert link.is_symlink()
    assert file.read_bytes()[:4] == b"\x89PNG"


def test_tables_at_60_columns_show_whole_numbers(kibitz, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    words = ["simulate", *ACTIVE, "--policy", "etc_ocucb:p=1.5"]
    code, output, _ = kibitz(*words)
    assert code == 0
    assert "…" not in output
    assert max(map(len, output.splitlines())) <= 60
    for one in json.loads(kibitz(*words, "--json")[1])["policies"].values():
        regret = one["regret"]
        assert f"{regret['mean']:.4g} ± {regret['sem']:.2g}" in output
        for name in ("q25", "median", "q75"):
            assert f" {regret[name]:.4g} " in output
