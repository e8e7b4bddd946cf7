"""Tests of `--dask`: a cluster computes the same numbers as threads; bad addresses are errors."""

import importlib.util
import json
import re
import shlex
from pathlib import Path

import pytest

from kibitz.simulation import executors

pytestmark = pytest.mark.slow

COMMAND = [
    "simulate",
    "--means",
    "1,0.5,0",
    "--observer",
    "active",
    "--rate",
    "0.2",
    "--policy",
    "ucb",
]
SHORT_RUN = ["--horizon", 300, "--runs", 20, "--seed", 1, "--json"]


@pytest.fixture(scope="module")
def address():
    """Yield the address of a Dask scheduler that runs in this process and has one worker."""
    from distributed import LocalCluster

    cluster_options = {
        "n_workers": 1,
        "threads_per_worker": 1,
        "processes": False,
        "dashboard_address": ":0",
    }
    with LocalCluster(**cluster_options, protocol="tcp", silence_logs=60) as cluster:
        yield cluster.scheduler_address


def test_cluster_gives_the_results_of_threads(kibitz, address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result_of_threads = kibitz(*COMMAND, *SHORT_RUN)
    submitted_bundles = []
    submit = executors._Workers.submit

    def record_submit(self, bundle):
        submitted_bundles.append(bundle)
        return submit(self, bundle)

    monkeypatch.setattr(executors._Workers, "submit", record_submit)
    assert kibitz(*COMMAND, *SHORT_RUN, "--dask", address) == result_of_threads
    assert submitted_bundles
    assert kibitz(*COMMAND, *SHORT_RUN, "--dask", address, "--out", "a.zarr") == result_of_threads
    assert kibitz(*COMMAND, *SHORT_RUN, "--out", "a.zarr") == result_of_threads
    assert (tmp_path / "a.zarr" / "zarr.json").exists()


def test_plan_is_simulated_on_a_cluster(kibitz, address):
    args = ["plan", "--horizon", 300, "--arms", 2, "--gap", 0.5, "--simulate", "--runs", 2, "--json"]
    code, output, errors = kibitz(*args, "--dask", address)
    assert (code, errors) == (0, "")
    assert json.loads(output) == json.loads(kibitz(*args)[1])


def test_local_cluster_is_started_and_stopped(kibitz, monkeypatch):
    monkeypatch.setattr(executors, "count_cores", lambda: 1)
    assert kibitz(*COMMAND, *SHORT_RUN, "--dask", "local") == kibitz(*COMMAND, *SHORT_RUN)


def test_the_commands_of_the_page_work(kibitz, address, tmp_path, monkeypatch):
    """Run the commands of docs/cluster.md on a running cluster, because a new cluster is slow."""
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "cluster.md"
    (command_lines,) = re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    for command_line in command_lines.splitlines():
        assert "--dask local" in command_line
        code, output, errors = kibitz(*shlex.split(command_line.replace("local", address))[1:])
        assert (code, errors) == (0, "")
        assert "regret after 10,000 stages, 20 runs" in output
    assert (tmp_path / "result.zarr").is_dir()


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nowhere", "http://127.0.0.1:9"])
def test_address_that_does_not_answer_is_rejected(error_message, monkeypatch, address):
    monkeypatch.setattr("kibitz.cli.cluster.CONNECT_TIMEOUT", "1s")
    message = error_message(*COMMAND, "--dask", address)
    assert message.startswith(f"--dask: no scheduler answers at {address!r} (")
    assert message.endswith("use --dask local")


def test_dask_needs_a_simulation(error_message):
    args = ["plan", "--horizon", "300", "--arms", "2", "--gap", "0.5", "--dask", "local"]
    assert error_message(*args).startswith("--dask local needs --simulate")


@pytest.mark.parametrize(
    ("package", "options"), [("distributed", ["--dask", "local"]), ("zarr", ["--out", "a.zarr"])]
)
def test_missing_package_is_reported_before_the_work(error_message, monkeypatch, package, options):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == package else find_spec(name)
    )
    message = error_message(*COMMAND, *options)
    assert message.startswith(options[0])
    assert f" needs {package}, which is not installed; run: pip install '.[" in message
