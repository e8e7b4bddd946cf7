"""What all commands share: help, version, refusals, pipes, interruptions, letters."""

import os
import re
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

COMMANDS = ["simulate", "policies", "reproduce", "bounds", "plan"]
BOUNDS = ["bounds", "--means", "1,0", "--rate", "0.1"]
PLAN = ["plan", "--horizon", "1e4", "--arms", "3", "--gap-range", "0.1,1"]
SIMULATE = ["simulate", "--means", "1,0", "--policy", "ucb", "--horizon", "100", "--runs", "3"]


def test_help_lists_the_commands(kibitz):
    code, output, errors = kibitz("--help")
    assert (code, errors) == (0, "")
    for command in COMMANDS:
        assert re.search(rf"\b{command}  +[A-Z]", output)


@pytest.mark.parametrize("words", [[], ["--version"], *([command] for command in COMMANDS)])
def test_help_waits_for_nothing_heavy(words):
    check = (
        "import sys; from kibitz.cli import main\n"
        f"sys.argv = {['kibitz', *words, *([] if '--version' in words else ['--help'])]!r}\n"
        "try: main()\n"
        "except SystemExit as stop: assert not stop.code, stop.code\n"
        "heavy = {'numba', 'numpy', 'scipy', 'xarray', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_policies_are_listed_without_numba():
    check = (
        "import sys; from kibitz.cli import app; app(['policies'], standalone_mode=False)\n"
        "sys.exit(bool({'numba', 'llvmlite', 'scipy', 'xarray'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", check], capture_output=True).returncode == 0


def test_version(kibitz):
    assert kibitz("--version") == (0, f"kibitz {version('kibitz')}\n", "")


def test_the_command_runs_as_a_program(program):
    code, output, errors = program("policies")
    assert (code, errors) == (0, "")
    assert output.startswith("ftl(")
    code, output, errors = program("simulate", "--means", "1", "--policy", "ucb")
    assert (code, output) == (2, "")
    assert errors == "kibitz: means must be a list of at least 2 numbers, got [1.0]\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nope"], "No such command 'nope'."),
        (["simulate"], "Missing option '--policy'."),
        (["bounds", "--means"], "Option '--means' requires an argument."),
        ([*BOUNDS, "more"], "Got unexpected extra argument"),
        ([*BOUNDS, "--paid"], "No such option: --paid"),
        ([*SIMULATE, "--paid=3"], "Option '--paid' does not take a value."),
        (
            [*SIMULATE, "--rewards", "x"],
            "rewards must be 'gaussian', 'bernoulli' or 'bounded', got 'x'",
        ),
        (["9" * 5000], "No such command '99999"),
        ([*BOUNDS, f"--{'9' * 5000}"], "No such option: --99999"),
        ([*BOUNDS, "--horizon", "9" * 5000], "horizon must be a whole number, got '99"),
        ([*BOUNDS, "--horizon", "9" * 400], "horizon must be a whole number below"),
        ([*BOUNDS, "--rate", "9" * 5000], "rate must be a number, got '99"),
        ([*BOUNDS, "--rate", "x\n\ny"], r"rate must be a number, got 'x\n\ny'"),
    ],
)
def test_what_is_misused_gets_one_short_sentence(refused, words, sentence):
    said = refused(*words)
    assert said.startswith(sentence)
    assert len(said) < 200


def test_a_bug_is_no_sentence(kibitz, monkeypatch):
    """Errors that are ours keep their traceback."""

    def broken(*arguments, **options):
        raise KeyError("bug")

    monkeypatch.setattr("kibitz.bounds.summary", broken)
    with pytest.raises(KeyError):
        kibitz(*BOUNDS)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (PermissionError(13, "Permission denied", "x.nc"), "[Errno 13] Permission denied: 'x.nc'"),
        (MemoryError(), "the work must fit into memory, got no more of it"),
    ],
)
def test_what_the_system_refuses_is_a_sentence(refused, monkeypatch, error, sentence):
    def broken(*arguments, **options):
        raise error

    monkeypatch.setattr("kibitz.bounds.summary", broken)
    assert refused(*BOUNDS) == sentence


@pytest.mark.skipif(os.name != "posix", reason="a shell of POSIX")
@pytest.mark.parametrize("words", [["policies"], ["--help"], ["simulate", "--help"], PLAN])
@pytest.mark.parametrize("buffered", [True, False])
def test_nobody_reads_on(words, buffered):
    """Like `kibitz ... | head -1`: no message, and the exit code of a broken pipe."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, *([] if buffered else ["-u"]), "-m", "kibitz.cli", *words]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, timeout=300)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_gives_one_sentence(tmp_path):
    command = [*SIMULATE[:5], "--horizon", "1e6", "--runs", "1e6", "--engine", "step"]

    def listen():
        """A shell that runs the tests in the background lets them ignore Ctrl-C."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    begun = subprocess.Popen(
        [sys.executable, "-m", "kibitz.cli", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=listen,
    )
    status = Path(f"/proc/{begun.pid}/status")
    for _ in range(600):  # until the library has come up and plays in threads
        threads = re.search(r"Threads:\s+(\d+)", status.read_text()) if status.exists() else None
        if threads and int(threads[1]) > 1:
            break
        time.sleep(0.1)
    time.sleep(1)
    begun.send_signal(signal.SIGINT)
    try:
        output, errors = begun.communicate(timeout=120)
    finally:
        begun.kill()
        begun.communicate()
    sentence = "kibitz: interrupted; with --out, the same command goes on from here\n"
    # A shell calls both 130. Python dies by the signal, whatever it was told to exit with, if Ctrl-C
    # came while text was executed, as numba does.
    assert begun.returncode in (130, -signal.SIGINT)
    assert (output, errors) == ("", sentence)


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        *([command, "--help"] for command in COMMANDS),
        ["policies"],
        BOUNDS,
        [*PLAN, "--cost", "0.1"],
        [*PLAN[:-2], "--gap", "0.5", "--json"],
        SIMULATE,
        [*BOUNDS, "--weights", "ε…"],
    ],
)
def test_a_terminal_that_speaks_ascii_gets_ascii(program, words):
    code, output, errors = program(*words, PYTHONIOENCODING="ascii")
    assert code == (2 if "ε…" in words else 0)
    assert (output + errors).isascii()
    assert "?" not in output
    assert "Traceback" not in errors
    tables = [line for line in output.splitlines() if line.startswith(("|", "+"))]
    assert tables or words == ["policies"] or "--json" in words or code
    for line in tables:
        assert line.rstrip().endswith(("|", "+"))


def test_so_does_one_without_a_language(program):
    """Standard error is ASCII too; Python itself escapes there what it cannot say."""
    plain = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    code, output, errors = program(*BOUNDS, **plain)
    assert (code, errors) == (0, "")
    assert output.isascii()
    assert "eps = 0.1, T = 10000" in output
    code, output, errors = program("bounds", "--means", "1,0", "--rate", "ε", **plain)
    assert (code, output) == (2, "")
    assert errors.isascii()


def test_the_columns_of_an_ascii_table_stay_in_line(program):
    _, output, _ = program(*SIMULATE, PYTHONIOENCODING="ascii")
    table = [line for line in output.splitlines() if line.startswith(("|", "+"))]
    assert "mean +- s.e." in output
    assert len({len(line) for line in table}) == 1


def test_other_terminals_keep_the_letters(program):
    assert "ε" in program(*BOUNDS, PYTHONIOENCODING="utf-8")[1]
    latin = subprocess.run(
        [sys.executable, "-m", "kibitz.cli", *SIMULATE],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
    )
    assert "mean ± s.e." in latin.stdout.decode("latin-1")
