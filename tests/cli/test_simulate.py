"""Tests of `kibitz simulate`: results, files and errors."""

import json
import os

import numpy as np
import pytest

import kibitz as library
from kibitz.cli.output import format_mean, format_number

pytestmark = pytest.mark.slow

SHORT_RUN = ["--means", "0.5,0,0.2", "--horizon", "300", "--runs", "6"]
ACTIVE_LOOKS = [*SHORT_RUN, "--observer", "active", "--rate", "0.2", "--policy", "ucb"]


def test_table_has_the_setting(kibitz):
    code, output, errors = kibitz("simulate", *ACTIVE_LOOKS)
    assert (code, errors) == (0, "")
    assert "regret after 300 stages, 6 runs" in output
    assert "seed 1, engine step" in output


def test_json_is_one_object_with_the_numbers_of_the_library(kibitz):
    code, output, errors = kibitz("simulate", *ACTIVE_LOOKS, "--policy", "etc_ocucb:p=1.5", "--json")
    assert (code, errors) == (0, "")
    result = json.loads(output)
    assert list(result) == ["fingerprint", "policies"]
    assert list(result["policies"]) == ["ucb", "etc_ocucb:p=1.5"]  # in the order of the command line
    data = library.simulate(
        library.gaussian([0.5, 0, 0.2]),
        library.active(0.2),
        {"ucb": library.ucb(), "etc_ocucb:p=1.5": library.etc_ocucb(p=1.5)},
        horizon=300,
        runs=6,
        seed=1,
    )
    for label, policy_summary in result["policies"].items():
        policy_data = data.sel(policy=label)
        regret = policy_data["final_regret"].to_numpy()
        printed_regret = policy_summary["regret"]
        assert printed_regret["mean"] == pytest.approx(regret.mean())
        assert printed_regret["sem"] == pytest.approx(regret.std(ddof=1) / np.sqrt(6))
        names = ("q10", "q25", "median", "q75", "q90")
        expected = np.quantile(regret, [0.1, 0.25, 0.5, 0.75, 0.9])
        np.testing.assert_allclose([printed_regret[name] for name in names], expected)
        curve = policy_summary["curve"]
        assert curve["stages"] == data["stage"].to_numpy().tolist()
        np.testing.assert_allclose(curve["mean"], policy_data["regret"].mean("run"))
        np.testing.assert_allclose(curve["q25"], np.quantile(policy_data["regret"], 0.25, axis=0))
        np.testing.assert_allclose(curve["q75"], np.quantile(policy_data["regret"], 0.75, axis=0))
        np.testing.assert_allclose(policy_summary["n_pulls"], policy_data["n_pulls"].mean("run"))
        np.testing.assert_allclose(policy_summary["n_looks"], policy_data["n_looks"].mean("run"))
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
        ["--graph", "star:2"],
        ["--graph", "ring", "--look-rate", "0.25"],
        ["--graph", "erdos:0.1", "--observer", "active", "--every", "5", "--paid", "--looks", "2"],
    ],
)
def test_options_reach_the_library(kibitz, options):
    code, output, _ = kibitz("simulate", *SHORT_RUN, "--policy", "ucb", *options, "--json")
    assert code == 0
    feedback = json.loads(output)["fingerprint"]["feedback"]
    if "--every" in options:
        assert feedback["rate"]["every"] == int(options[options.index("--every") + 1])
    if "--look-rate" in options:
        assert (feedback["observer"], feedback["rate"]) == ("passive", 0.25)
    assert ("graph" in feedback) == ("--graph" in options)
    if "--paid" in options:
        assert feedback["paid"]
        assert feedback["looks"] == 2


def test_out_and_plot_write_files(kibitz, tmp_path):
    out, plot = tmp_path / "result.nc", tmp_path / "figure.png"
    code, _, _ = kibitz("simulate", *ACTIVE_LOOKS, "--out", str(out), "--plot", str(plot))
    assert code == 0
    assert out.stat().st_size > 1000
    assert plot.read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("options", "message_parts"),
    [
        (["--means", ""], ["--means", "''"]),
        (["--means", "1"], ["--means", "at least 2 numbers", "[1.0]"]),
        (["--means", "1,nan"], ["--means", "finite", "[1.0, nan]"]),
        (["--means", "1,x"], ["--means", "a number", "'x'"]),
        (["--means", "1e308,-1e308"], ["--means"]),
        (["--rewards", "cauchy"], ["--rewards", "'gaussian', 'bernoulli' or 'bounded'", "'cauchy'"]),
        (["--rewards", "gausian"], ["--rewards", "did you mean 'gaussian'?"]),
        (["--rewards", "bernoulli", "--means", "1,2"], ["--means", "[0, 1]", "2.0"]),
        (["--rewards", "bernoulli", "--sd", "1"], ["--sd needs --rewards gaussian"]),
        (["--rewards", "bounded"], ["--rewards bounded needs --log"]),
        (["--sd", "-1"], ["--sd", "non-negative", "-1.0"]),
        (["--observer", "spy"], ["--observer", "'bandit', 'passive'", "'spy'"]),
        (
            ["--rate", "0.1"],
            [
                "--rate (or --look-rate) needs --observer passive or --observer active",
                "bandit, has no looks",
            ],
        ),
        (["--every", "3", "--observer", "full"], ["--every needs --observer", "full sees every arm"]),
        (["--looks", "2"], ["--looks needs --observer passive or --observer active"]),
        (["--paid"], ["--paid needs --observer passive or --observer active"]),
        (["--weights", "uniform"], ["--weights needs --observer passive (the default observer"]),
        (["--observer", "active"], ["--observer active needs --rate or --every"]),
        (["--observer", "active", "--rate", "0.1", "--every", "3"], ["--rate or --every, not both"]),
        (["--observer", "active", "--rate", "-0.1"], ["--rate", "[0, 1]", "-0.1"]),
        (["--observer", "active", "--rate", "1.1"], ["--rate", "[0, 1]", "1.1"]),
        (["--observer", "active", "--rate", "nan"], ["--rate", "[0, 1]", "nan"]),
        (["--observer", "active", "--every", "0"], ["--every", "at least 1", "0"]),
        (
            ["--observer", "active", "--rate", "0.1", "--weights", "uniform"],
            ["--weights needs --observer passive", "the policy chooses"],
        ),
        (
            ["--observer", "passive", "--rate", "0.1", "--weights", "0.5,0.6,0.1"],
            ["--weights", "sum", "[0.5, 0.6, 0.1]"],
        ),
        (
            ["--observer", "passive", "--rate", "0.1", "--weights", "0.5,0.5"],
            ["--weights", "3 arms", "2"],
        ),
        (["--observer", "passive", "--rate", "1", "--weights", "x"], ["--weights", "'uniform'"]),
        (["--observer", "passive", "--rate", "1", "--weights", "1,x"], ["--weights", "'uniform'"]),
        (["--graph", "cliqes:2"], ["--graph cliqes:2: there is no file", "did you mean 'cliques'"]),
        (["--graph", ""], ["--graph : there is no file or named graph ''"]),
        (["--graph", "star:3"], ["--graph star:3: star takes a whole number from 0 to 2"]),
        (["--graph", "ring", "--observer", "full"], ["--graph cannot be used with --observer full"]),
        (["--policy", "max_n:scout"], ["--policy max_n:scout: policy must be an index policy"]),
        (["--policy", "max_n:usb"], ["unknown policy 'usb'; did you mean 'ucb'?"]),
        (["--policy", "nope"], ["--policy", "unknown policy 'nope'", "one of ftl, "]),
        (["--policy", "usb"], ["unknown policy 'usb'; did you mean 'ucb'?"]),
        (["--policy", "ucb:x=1"], ["--policy ucb has no parameter 'x'", "exploration, ignore_looks"]),
        (["--policy", "ucb:explore=1"], ["no parameter 'explore'; did you mean 'exploration'?"]),
        (["--policy", "ucb:exploration"], ["--policy", "NAME:PARAMETER=VALUE", "'ucb:exploration'"]),
        (["--policy", "ucb:exploration=-1"], ["--policy ucb: exploration", "positive", "-1.0"]),
        (["--policy", "etc_ocucb:restart=maybe"], ["--policy etc_ocucb: restart", "'maybe'"]),
        (["--policy", "etc:horizon=0.5"], ["--policy etc: horizon", "whole number", "0.5"]),
        (["--policy", "etc:scale=x"], ["--policy etc: scale", "a number", "'x'"]),
        (["--policy", "ucb"], ["--policy ucb is given twice"]),
        (["--horizon", "0"], ["--horizon", "at least 1", "0"]),
        (["--horizon", "ten"], ["--horizon", "whole number", "'ten'"]),
        (["--runs", "0"], ["--runs", "at least 1", "0"]),
        (["--runs", "1.5"], ["--runs", "whole number", "1.5"]),
        (["--runs", "4e9"], ["--runs=4000000000 would take", "memory"]),
        (["--runs", "1e10"], ["--runs", "4294967295", "10000000000"]),
        (["--seed", "-1"], ["--seed", "at least 0", "-1"]),
        (["--engine", "warp"], ["--engine", "'auto', 'step' or 'leap'", "'warp'"]),
        (["--error", "x"], ["--error", "a number", "'x'"]),
        (["--looks", "9223372036854775808"], ["--looks", "below 2^62"]),
        (["--looks", "1e19"], ["--looks", "below 2^62", "1e+19"]),
        (["--threads", "0"], ["--threads", "at least 1", "0"]),
        (["--plot", "figure.txt"], ["--plot", ".png, .svg or .pdf", "'figure.txt'"]),
        (["--plot", "missing/figure.png"], ["--plot", "folder that exists", "'missing/figure.png'"]),
        (["--out", "missing/result.nc"], ["--out", "folder that exists", "'missing/result.nc'"]),
        (["--nonsense"], ["No such option: --nonsense", "kibitz simulate --help"]),
        (["--polcy", "ftl"], ["No such option: --polcy. Did you mean --policy?"]),
    ],
)
def test_error_names_the_flag_and_the_value(error_message, options, message_parts):
    message = error_message("simulate", *SHORT_RUN, "--policy", "ucb", *options)
    for message_part in message_parts:
        assert message_part in message


def test_a_problem_is_required(error_message):
    message = error_message("simulate", "--policy", "ucb")
    assert "--means" in message
    assert "--log" in message


def test_truncated_file_is_rejected(kibitz, tmp_path):
    out = tmp_path / "result.nc"
    kibitz("simulate", *ACTIVE_LOOKS, "--out", str(out))
    out.write_bytes(out.read_bytes()[:1000])
    code, _, errors = kibitz("simulate", *ACTIVE_LOOKS, "--out", str(out))
    assert code == 2
    assert "cannot read" in errors
    assert "result.nc" in errors


def make_link_loop(folder):
    (folder / "a").symlink_to("b.png")
    (folder / "b.png").symlink_to("a")
    return folder / "b.png"


def make_pipe(folder):
    os.mkfifo(folder / "pipe.png")
    return folder / "pipe.png"


def make_subfolder(folder):
    (folder / "folder.png").mkdir()
    return folder / "folder.png"


def name_child_of_a_file(folder):
    (folder / "file").touch()
    return folder / "file" / "child.png"


INVALID_TARGETS = [
    make_link_loop,
    make_pipe,
    make_subfolder,
    name_child_of_a_file,
    lambda folder: folder / f"{'x' * 300}.png",
    lambda folder: "/proc/x.png",
]


@pytest.mark.skipif(os.name != "posix", reason="needs pipes and links of POSIX")
@pytest.mark.parametrize("target", INVALID_TARGETS)
@pytest.mark.parametrize("option", ["--out", "--plot"])
def test_unwritable_target_is_rejected_before_the_work(
    error_message, tmp_path, monkeypatch, option, target
):
    def work(*arguments, **options):
        raise AssertionError("the simulation ran")

    monkeypatch.setattr("kibitz.simulation.simulate.simulate", work)
    path = target(tmp_path)
    assert error_message("simulate", *ACTIVE_LOOKS, option, str(path)).startswith(
        f"{option} must be "
    )


@pytest.mark.skipif(os.name != "posix", reason="needs devices of POSIX")
@pytest.mark.parametrize("device", ["/dev/full", "/dev/null"])
def test_devices_are_rejected(error_message, device):
    sentence = f"--out must be an ordinary file, not a pipe or device, got {device!r}"
    assert error_message("simulate", *ACTIVE_LOOKS, "--out", device) == sentence
    assert not os.path.isfile(device)


@pytest.mark.skipif(os.name != "posix", reason="needs links of POSIX")
def test_a_figure_follows_a_link(kibitz, tmp_path):
    """Check that the suffix of the link, not the suffix of its target, determines the format."""
    file, link = tmp_path / "file", tmp_path / "link.png"
    link.symlink_to(file)
    code, _, errors = kibitz("simulate", *ACTIVE_LOOKS, "--plot", link)
    assert (code, errors) == (0, "")
    assert link.is_symlink()
    assert file.read_bytes()[:4] == b"\x89PNG"


def test_numbers_are_not_cut_at_60_columns(kibitz, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    args = ["simulate", *ACTIVE_LOOKS, "--policy", "etc_ocucb:p=1.5"]
    code, output, _ = kibitz(*args)
    assert code == 0
    assert "…" not in output
    assert max(map(len, output.splitlines())) <= 60
    for entry in json.loads(kibitz(*args, "--json")[1])["policies"].values():
        regret = entry["regret"]
        assert format_mean(regret["mean"], regret["sem"]) in output
        for name in ("q25", "median", "q75"):
            assert f" {format_number(regret[name])} " in output


def test_default_table_fits_80_columns(kibitz, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, output, _ = kibitz("simulate", *ACTIVE_LOOKS, "--policy", "kibitzer")
    assert max(map(len, output.splitlines())) <= 80
    assert output.count("┏") == 1  # one table
    assert "arm 1" not in output


def test_arms_prints_shares(kibitz):
    code, output, _ = kibitz("simulate", *ACTIVE_LOOKS, "--arms")
    assert code == 0
    rows = [line.replace("│", " ").split() for line in output.splitlines() if "│" in line][1:]
    shares = {row[1]: [float(cell) for cell in row[2:]] for row in rows}
    policies = json.loads(kibitz("simulate", *ACTIVE_LOOKS, "--json")[1])["policies"]
    for kind in ("pulls", "looks"):
        counts = np.array(policies["ucb"][f"n_{kind}"])
        np.testing.assert_allclose(shares[kind], 100 * counts / counts.sum(), rtol=0.01)
    bandit = kibitz("simulate", *SHORT_RUN, "--policy", "ucb", "--arms")[1]
    assert "pulls" in bandit
    assert "looks" not in bandit  # a bandit has no looks


def test_a_graph_in_a_file_is_simulated(kibitz, tmp_path):
    (tmp_path / "edges.csv").write_text("i,j,probability\n0,0,1\n1,1\n2,2,1\n2,0,0.5\n2,1\n")
    policies = ["--policy", "ucb", "--policy", "max_n:ucb"]
    code, output, _ = kibitz(
        "simulate", *SHORT_RUN, *policies, "--graph", tmp_path / "edges.csv", "--json"
    )
    assert code == 0
    result = json.loads(output)
    assert list(result["policies"]) == ["ucb", "max_n:ucb"]
    edges = [[0, 0, 1.0], [1, 1, 1.0], [2, 0, 0.5], [2, 1, 1.0], [2, 2, 1.0]]
    assert result["fingerprint"]["feedback"]["graph"] == {"arms": 3, "edges": edges}


def test_loops_without_a_graph_are_rejected(error_message, tmp_path):
    """Without a graph, every pull shows its own reward, so --loops would have no effect."""
    store = ("--store", str(tmp_path / "shop.db"), "--arms", "a,b", "--rewards", "bernoulli")
    for args in (
        ("simulate", *SHORT_RUN, "--policy", "ucb"),
        ("bounds", "--means", "2,1", "--horizon", "100", "--rate", "0.1"),
        ("agent", "create", "shop", *store),
    ):
        assert "--loops needs --graph" in error_message(*args, "--loops")


def test_an_index_policy_is_rejected_on_a_graph_without_self_loops(error_message, tmp_path):
    (tmp_path / "edges.csv").write_text("0,1\n1,0,1\n1,2\n2,2\n")
    graph = ["--graph", str(tmp_path / "edges.csv")]
    message = error_message("simulate", *SHORT_RUN, "--policy", "ucb", *graph)
    assert "a pull of arm 0 never shows its own reward" in message
    assert "use scout(), or --loops" in message
