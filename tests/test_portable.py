"""Tests that kibitz works without the modules that exist on POSIX systems only."""

import subprocess
import sys

SCRIPT_WITHOUT_POSIX = """
import asyncio, concurrent.futures, os, signal, sqlite3, subprocess, sys, tempfile
import h5netcdf, numba, platformdirs, xarray

for module in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[module] = None
for name in ("fork", "geteuid", "getuid", "mkfifo", "register_at_fork", "sched_getaffinity"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGALRM", "SIGHUP", "SIGKILL", "SIGQUIT", "SIGUSR1", "pthread_sigmask"):
    if hasattr(signal, name):
        delattr(signal, name)

import kibitz
from kibitz.simulation.executors import count_cores

assert count_cores() == os.cpu_count()
setting = {"horizon": 100, "seed": 1, "file": "result.nc", "threads": 2}
for runs in (2, 3):
    data = kibitz.simulate(
        kibitz.gaussian([1, 0]), kibitz.active(0.1), kibitz.ucb(), runs=runs, **setting
    )
with kibitz.agent("shop.db", "checkout", arms=["a", "b"], rewards="bernoulli") as agent:
    agent.tell(agent.ask().id, 1.0)
    agent.export("log.nc")
print(data.sizes["run"], sorted(name for name in os.listdir() if "part" in name or "lock" in name))
"""


def test_no_module_requires_posix(tmp_path):
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT_WITHOUT_POSIX], capture_output=True, text=True, cwd=tmp_path
    )
    assert (process.stdout, process.stderr) == ("3 []\n", "")
