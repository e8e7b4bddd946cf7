"""Tests of the progress line: on a terminal, in a notebook, and not in a pipe."""

import os
import subprocess
import sys
import time
import types

import pytest

from kibitz import _progress
from kibitz._progress import show_progress

SCRIPT = """
import time, kibitz
from kibitz._progress import show_progress
with show_progress({progress}) as report:
    report("compiling ucb", 0.0)
    time.sleep(1.2)
    report("simulating", 0.5)
    time.sleep(0.6)
print("done")
"""


def run_on_terminal(script):
    """Run a script with standard error on a terminal; return both outputs."""
    pty = pytest.importorskip("pty")
    controller, terminal = pty.openpty()
    command = [sys.executable, "-c", script]
    process = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal, text=True)
    os.close(terminal)
    shown = b""
    while True:
        try:
            chunk = os.read(controller, 4096)
        except OSError:  # the terminal was closed
            break
        if not chunk:
            break
        shown += chunk
    os.close(controller)
    return process.stdout, shown.decode()


def test_a_terminal_shows_a_line_within_a_second_and_erases_it():
    output, shown = run_on_terminal(SCRIPT.format(progress=None))
    assert output == "done\n"
    lines = shown.split("\r")
    assert lines[1].startswith("compiling ucb: ")
    assert any(line.startswith("simulating: 50 %, ") for line in lines)
    assert lines[-1] == lines[-2].strip() == ""  # the last line is blank
    assert "\n" not in shown


def test_false_shows_nothing():
    assert run_on_terminal(SCRIPT.format(progress=False)) == ("done\n", "")


def test_a_pipe_shows_nothing():
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(progress=None)], capture_output=True, text=True
    )
    assert (process.stdout, process.stderr) == ("done\n", "")


def test_short_work_shows_nothing(monkeypatch):
    written = []
    monkeypatch.setattr(_progress, "_find_screen", lambda: written.append)
    with show_progress(None) as report:
        report("simulating", 0.5)
    assert written == []


def test_a_nested_progress_line_is_not_shown(monkeypatch):
    written = []
    monkeypatch.setattr(_progress, "_find_screen", lambda: written.append)
    monkeypatch.setattr(_progress, "DELAY_SECONDS", 0.01)
    with show_progress(None, "outer"), show_progress(None, "inner") as report:
        report("inner", 0.5)
        time.sleep(0.3)
    assert written[0].startswith("outer")
    assert not any("inner" in text for text in written)
    assert written[-1] == ""


def test_a_broken_display_does_not_disturb_the_work(monkeypatch):
    def fail(text):
        raise OSError("closed")

    monkeypatch.setattr(_progress, "_find_screen", lambda: fail)
    monkeypatch.setattr(_progress, "DELAY_SECONDS", 0.01)
    with show_progress(None) as report:
        time.sleep(0.2)
        report("simulating", 0.5)


def test_a_function_gets_the_reports():
    reports = []
    with show_progress(lambda *report: reports.append(report)) as report:
        report("simulating", 0.5)
    assert reports == [("simulating", 0.5)]


def test_a_notebook_shows_one_line_that_is_replaced(monkeypatch):
    contents = []

    def display(content, *, raw, display_id):
        assert (raw, display_id) == (True, True)
        contents.append(content["text/plain"])
        return types.SimpleNamespace(
            update=lambda content, raw: contents.append(content["text/plain"])
        )

    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    ipython.display = types.ModuleType("IPython.display")
    ipython.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    monkeypatch.setattr(_progress, "DELAY_SECONDS", 0.01)
    with show_progress(None) as report:
        report("compiling ucb", 0.0)
        time.sleep(0.4)
    assert contents[0].startswith("compiling ucb: ")
    assert contents[-1] == ""
