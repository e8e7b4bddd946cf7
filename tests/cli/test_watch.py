"""Tests of `kibitz simulate --watch`: in a terminal, in a window, interrupted, without a display."""

import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
import xarray

from kibitz.cli.watch import ASCII, BLOCKS, SPARKLINE_WIDTH, sparkline
from kibitz.plotting import race
from kibitz.simulation import simulate as playing

pytestmark = pytest.mark.slow

GAME = ["simulate", "--means", "0.5,0,0.2", "--observer", "active", "--rate", "0.2"]
GAME += ["--policy", "ucb", "--policy", "ftl", "--horizon", "20000", "--threads", "1"]
SAVED = "kibitz: interrupted; run the same command again to resume"
NOT_SAVED = "kibitz: interrupted; nothing was saved"


def accept_interrupts():
    """Restore the default handler of SIGINT; background processes may inherit it as ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def terminal(tmp_path):
    """Return a function that runs `kibitz` with a terminal as standard error.

    It interrupts the program when the output on the terminal matches `stop`.
    """
    pty = pytest.importorskip("pty")

    def run(*words, stop=None, **environment):
        ours, theirs = pty.openpty()
        seen = b""
        output = tmp_path / "output"
        with (
            output.open("wb") as opened,
            subprocess.Popen(
                [sys.executable, "-m", "kibitz.cli", *words],
                stdout=opened,
                stderr=theirs,
                env={**os.environ, "MPLBACKEND": "agg", "TERM": "xterm", "COLUMNS": "90"}
                | environment,
                start_new_session=True,
                preexec_fn=accept_interrupts,
            ) as program,
        ):
            os.close(theirs)
            while True:
                try:
                    new = os.read(ours, 65536)
                except OSError:  # the other side is closed
                    new = b""
                if not new:
                    break
                seen += new
                if stop is not None and re.search(stop, seen):
                    program.send_signal(signal.SIGINT)
                    stop = None
        os.close(ours)
        return program.returncode, output.read_text(), seen.decode()

    return run


def test_terminal_shows_a_live_table(terminal, program):
    code, output, seen = terminal(*GAME, "--runs", "300", "--watch")
    assert (code, output) == program(*GAME, "--runs", "300", COLUMNS="90")[:2]
    assert re.search(r"simulating: \d+ %, \d+ of 300 runs", seen)
    assert "%, 300 runs" in seen
    assert "mean ± s.e." in seen
    assert "ucb" in seen
    assert BLOCKS[0] * 3 in seen


def test_ascii_terminal_gets_ascii_and_the_same_json(terminal, kibitz):
    words = [*GAME, "--runs", "60", "--json"]
    code, output, seen = terminal(*words, "--watch", PYTHONIOENCODING="ascii")
    assert (code, output) == kibitz(*words)[:2]
    assert seen.isascii()
    assert "mean +- s.e." in seen
    assert ASCII[0] * 3 in seen


def test_ctrl_c_prints_and_saves_the_complete_runs(terminal, kibitz, tmp_path):
    out = tmp_path / "result.nc"
    words = [*GAME, "--runs", "20000", "--out", str(out)]
    code, output, seen = terminal(*words, "--watch", stop=rb"\d+ of 20000 runs")
    assert code == 130
    assert seen.rstrip().endswith(SAVED)
    assert "Traceback" not in seen
    n = int(re.search(r"stopped after (\d+) of 20,000 runs\n$", output)[1])
    assert 0 < n < 20000
    code, fewer, _ = kibitz(*GAME, "--runs", n)
    ours, theirs = (re.findall(r"[\d,]+\.?\d* ± \d+\.?\d*", text) for text in (output, fewer))
    assert len(ours) == 2
    assert ours == theirs
    with xarray.open_dataset(out, engine="h5netcdf") as opened:
        assert np.isfinite(opened["final_regret"][:, :n]).all()


def test_output_is_the_same_without_a_display(kibitz, monkeypatch):
    monkeypatch.setattr(race, "open_window", lambda: None)
    for more in ([], ["--json"]):
        watched = kibitz(*GAME, "--runs", "6", *more, "--watch")
        assert watched == kibitz(*GAME, "--runs", "6", *more)
        assert watched[2] == ""


class Window:
    """A window that records calls; if `stopped`, it raises KeyboardInterrupt after the first runs."""

    def __init__(self, stopped):
        self.done, self.stopped = [], stopped

    def draw(self, data, title):
        self.done.append(title)

    def process_events(self):
        if self.stopped and self.done and self.done[-1].endswith(" of 300 runs"):
            raise KeyboardInterrupt

    def wait_until_closed(self):
        self.done.append("held")


@pytest.mark.parametrize("stopped", [False, True])
def test_window_stays_open_unless_interrupted(kibitz, monkeypatch, stopped):
    for module, name in ((playing, "WATCH_SECONDS"), (race, "MIN_TITLE_SECONDS")):
        monkeypatch.setattr(module, name, 0.0)
    window = Window(stopped)
    monkeypatch.setattr(race, "open_window", lambda: window)
    code, output, errors = kibitz(*GAME, "--runs", "300", "--watch")
    if not stopped:
        assert (code, errors) == (0, "")
        assert window.done[-2:] == ["300 runs", "held"]
        assert "regret after 20,000 stages, 300 runs" in output
    else:
        n = int(re.search(r"stopped after (\d+) of 300 runs\n$", output)[1])
        assert (code, errors) == (130, f"{NOT_SAVED}\n")
        assert window.done[-1] == f"stopped after {n} of 300 runs"


def test_sparkline_is_regret_against_the_logarithm_of_the_stage():
    def curve(values, top):
        stages = np.array([1, 10, 100, 1000, 10_000])
        return sparkline(xarray.DataArray(values, [("stage", stages)]), xarray.DataArray(top))

    assert curve([0.0] * 5, 0.0) == BLOCKS[0] * SPARKLINE_WIDTH
    assert curve([7.0] * 5, 7.0) == BLOCKS[-1] * SPARKLINE_WIDTH
    line = curve([0.0, 1.0, 2.0, 3.0, 4.0], 4.0)  # a straight line on the logarithmic axis of stages
    assert line == "".join(
        BLOCKS[round(7 * k / (SPARKLINE_WIDTH - 1))] for k in range(SPARKLINE_WIDTH)
    )
