"""Tests of `--dask`: a cluster computes the same numbers as threads; bad addresses are errors."""

import importlib.util
import json
import re
import shlex
from pathlib import Path

import pytest

from kibitz.simulation import executors

pytestmark = pytest.mark.slow

GAME = ["simulate", "--means", "1,0.5,0", "--observer", "active", "--rate", "0.2", "--policy", "ucb"]
SHORT = ["--horizon", 300, "--runs", 20, "--seed", 1, "--json"]


@pytest.fixture(scope="module")
def address():
    """Return the address of a scheduler with one worker, both in this process for a quick start."""
    from distributed import LocalCluster

    one = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with LocalCluster(**one, protocol="tcp", silence_logs=60) as cluster:
        yield cluster.scheduler_address


def test_cluster_gives_the_results_of_threads(kibitz, address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    alone = kibitz(*GAME, *SHORT)
    submitted = []
    original = executors._Workers.hand_out

    def spy(self, bundle):
        submitted.append(bundle)
        return original(self, bundle)

    monkeypatch.setattr(executors._Workers, "hand_out", spy)
    assert kibitz(*GAME, *SHORT, "--dask", address) == alone
    assert submitted
    assert kibitz(*GAME, *SHORT, "--dask", address, "--out", "a.zarr") == alone
    assert kibitz(*GAME, *SHORT, "--out", "a.zarr") == alone
    assert (tmp_path / "a.zarr" / "zarr.json").exists()


def test_plan_is_simulated_on_a_cluster(kibitz, address):
    words = ["plan", "--horizon", 300, "--arms", 2, "--gap", 0.5, "--simulate", "--runs", 2, "--json"]
    code, output, errors = kibitz(*words, "--dask", address)
    assert (code, errors) == (0, "")
    assert json.loads(output) == json.loads(kibitz(*words)[1])


def test_local_cluster_is_started_and_stopped(kibitz, monkeypatch):
    monkeypatch.setattr(executors, "cores", lambda: 1)
    assert kibitz(*GAME, *SHORT, "--dask", "local") == kibitz(*GAME, *SHORT)


def test_the_commands_of_the_page_work(kibitz, address, tmp_path, monkeypatch):
    """Run the commands of the page with the address of a running cluster, which saves its start."""
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "cluster.md"
    (lines,) = re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    for line in lines.splitlines():
        assert "--dask local" in line
        code, output, errors = kibitz(*shlex.split(line.replace("local", address))[1:])
        assert (code, errors) == (0, "")
        assert "regret after 10,000 stages, 20 runs" in output
    assert (tmp_path / "result.zarr").is_dir()


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nowhere", "http://127.0.0.1:9"])
def test_address_that_does_not_answer_is_rejected(error_message, monkeypatch, address):
    monkeypatch.setattr("kibitz.cli.cluster.CONNECT_TIMEOUT", "1s")
    message = error_message(*GAME, "--dask", address)
    assert message.startswith(f"--dask: no scheduler answers at {address!r} (")
    assert message.endswith("use --dask local")


def test_dask_needs_a_simulation(error_message):
    words = ["plan", "--horizon", "300", "--arms", "2", "--gap", "0.5", "--dask", "local"]
    assert error_message(*words).startswith("--dask local needs --simulate")


@pytest.mark.parametrize(
    ("package", "options"), [("distributed", ["--dask", "local"]), ("zarr", ["--out", "a.zarr"])]
)
def test_missing_package_is_reported_before_the_work(error_message, monkeypatch, package, options):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == package else found(name)
    )
    message = error_message(*GAME, *options)
    assert message.startswith(options[0])
    assert f" needs {package}, which is not installed; run: pip install '.[" in message
