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
from kibitz.simulation import simulate as simulate_module

pytestmark = pytest.mark.slow

SIMULATE = ["simulate", "--means", "0.5,0,0.2", "--observer", "active", "--rate", "0.2"]
SIMULATE += ["--policy", "ucb", "--policy", "ftl", "--horizon", "20000", "--threads", "1"]
SAVED_MESSAGE = "kibitz: interrupted; run the same command again to resume"
NOT_SAVED_MESSAGE = "kibitz: interrupted; nothing was saved"


def accept_interrupts():
    """Restore the default handler of SIGINT; background processes may inherit it as ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture
def terminal(tmp_path):
    """Return a function that runs `kibitz` with a terminal as standard error.

    The function interrupts the program when the output on the terminal matches `interrupt_pattern`.
    """
    pty = pytest.importorskip("pty")

    def run(*args, interrupt_pattern=None, **environment):
        terminal_end, program_end = pty.openpty()
        screen = b""
        output = tmp_path / "output"
        with (
            output.open("wb") as output_file,
            subprocess.Popen(
                [sys.executable, "-m", "kibitz.cli", *args],
                stdout=output_file,
                stderr=program_end,
                env={**os.environ, "MPLBACKEND": "agg", "TERM": "xterm", "COLUMNS": "90"}
                | environment,
                start_new_session=True,
                preexec_fn=accept_interrupts,
            ) as program,
        ):
            os.close(program_end)
            while True:
                try:
                    new_bytes = os.read(terminal_end, 65536)
                except OSError:  # the program has closed its end
                    new_bytes = b""
                if not new_bytes:
                    break
                screen += new_bytes
                if interrupt_pattern is not None and re.search(interrupt_pattern, screen):
                    program.send_signal(signal.SIGINT)
                    interrupt_pattern = None
        os.close(terminal_end)
        return program.returncode, output.read_text(), screen.decode()

    return run


def test_terminal_shows_a_live_table(terminal, program):
    code, output, screen = terminal(*SIMULATE, "--runs", "300", "--watch")
    assert (code, output) == program(*SIMULATE, "--runs", "300", COLUMNS="90")[:2]
    assert re.search(r"simulating: \d+ %, \d+ of 300 runs", screen)
    assert "%, 300 runs" in screen
    assert "mean ± s.e." in screen
    assert "ucb" in screen
    assert BLOCKS[0] * 3 in screen


def test_ascii_terminal_gets_ascii_and_the_same_json(terminal, kibitz):
    args = [*SIMULATE, "--runs", "60", "--json"]
    code, output, screen = terminal(*args, "--watch", PYTHONIOENCODING="ascii")
    assert (code, output) == kibitz(*args)[:2]
    assert screen.isascii()
    assert "mean +- s.e." in screen
    assert ASCII[0] * 3 in screen


def test_ctrl_c_prints_and_saves_the_complete_runs(terminal, kibitz, tmp_path):
    out = tmp_path / "result.nc"
    args = [*SIMULATE, "--runs", "20000", "--out", str(out)]
    code, output, screen = terminal(*args, "--watch", interrupt_pattern=rb"\d+ of 20000 runs")
    assert code == 130
    assert screen.rstrip().endswith(SAVED_MESSAGE)
    assert "Traceback" not in screen
    n = int(re.search(r"stopped after (\d+) of 20,000 runs\n$", output)[1])
    assert 0 < n < 20000
    code, expected_output, _ = kibitz(*SIMULATE, "--runs", n)
    printed_numbers, expected_numbers = (
        re.findall(r"[\d,]+\.?\d* ± \d+\.?\d*", text) for text in (output, expected_output)
    )
    assert len(printed_numbers) == 2
    assert printed_numbers == expected_numbers
    with xarray.open_dataset(out, engine="h5netcdf") as data:
        assert np.isfinite(data["final_regret"][:, :n]).all()


def test_output_is_the_same_without_a_display(kibitz, monkeypatch):
    monkeypatch.setattr(race, "open_window", lambda: None)
    for options in ([], ["--json"]):
        watched_result = kibitz(*SIMULATE, "--runs", "6", *options, "--watch")
        assert watched_result == kibitz(*SIMULATE, "--runs", "6", *options)
        assert watched_result[2] == ""


class Window:
    """A window that records its titles; if `is_stopped`, the user interrupts after the first runs."""

    def __init__(self, is_stopped):
        self.calls, self.is_stopped = [], is_stopped

    def draw(self, data, title):
        self.calls.append(title)

    def process_events(self):
        if self.is_stopped and self.calls and self.calls[-1].endswith(" of 300 runs"):
            raise KeyboardInterrupt

    def wait_until_closed(self):
        self.calls.append("held")


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_window_stays_open_unless_interrupted(kibitz, monkeypatch, is_interrupted):
    for module, name in ((simulate_module, "WATCH_SECONDS"), (race, "MIN_TITLE_SECONDS")):
        monkeypatch.setattr(module, name, 0.0)
    window = Window(is_interrupted)
    monkeypatch.setattr(race, "open_window", lambda: window)
    code, output, errors = kibitz(*SIMULATE, "--runs", "300", "--watch")
    if not is_interrupted:
        assert (code, errors) == (0, "")
        assert window.calls[-2:] == ["300 runs", "held"]
        assert "regret after 20,000 stages, 300 runs" in output
    else:
        n = int(re.search(r"stopped after (\d+) of 300 runs\n$", output)[1])
        assert (code, errors) == (130, f"{NOT_SAVED_MESSAGE}\n")
        assert window.calls[-1] == f"stopped after {n} of 300 runs"


def test_sparkline_is_regret_against_the_logarithm_of_the_stage():
    def draw_curve(values, largest_value):
        stages = np.array([1, 10, 100, 1000, 10_000])
        return sparkline(
            xarray.DataArray(values, [("stage", stages)]), xarray.DataArray(largest_value)
        )

    assert draw_curve([0.0] * 5, 0.0) == BLOCKS[0] * SPARKLINE_WIDTH
    assert draw_curve([7.0] * 5, 7.0) == BLOCKS[-1] * SPARKLINE_WIDTH
    # a straight line on the logarithmic axis of stages
    line = draw_curve([0.0, 1.0, 2.0, 3.0, 4.0], 4.0)
    assert line == "".join(
        BLOCKS[round(7 * k / (SPARKLINE_WIDTH - 1))] for k in range(SPARKLINE_WIDTH)
    )
