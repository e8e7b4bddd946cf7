"""Tests of the help, version, errors, completion, pipes, interrupts and encodings of all commands."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import typer

from kibitz.cli import app

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
def test_help_imports_nothing_heavy(words):
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


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version(kibitz, flag):
    assert kibitz(flag) == (0, f"kibitz {version('kibitz')}\n", "")


def test_command_runs_as_a_program(program):
    code, output, errors = program("policies")
    assert (code, errors) == (0, "")
    assert output.startswith("ftl(")
    code, output, errors = program("simulate", "--means", "1", "--policy", "ucb")
    assert (code, output) == (2, "")
    assert errors == "kibitz: --means must be a list of at least 2 numbers, got [1.0]\n"
    done = subprocess.run([sys.executable, "-m", "kibitz", "-V"], capture_output=True, text=True)
    assert done.stdout == f"kibitz {version('kibitz')}\n"


@pytest.mark.parametrize(
    ("words", "start"),
    [
        (["nope"], "No such command 'nope'. See: kibitz --help"),
        (["simulat"], "No such command 'simulat'. Did you mean 'simulate'?"),
        (["agent", "aks"], "No such command 'aks'. Did you mean 'ask'?"),
        (["simulate"], "Missing option '--policy'. See: kibitz simulate --help"),
        (["bounds", "--means"], "Option '--means' requires an argument."),
        ([*BOUNDS, "more"], "Got unexpected extra argument"),
        ([*BOUNDS, "--paid"], "No such option: --paid. See: kibitz bounds --help"),
        ([*BOUNDS, "--horizn", "9"], "No such option: --horizn. Did you mean --horizon?"),
        ([*SIMULATE, "--paid=3"], "Option '--paid' does not take a value."),
        (["9" * 5000], "No such command '99999"),
        ([*BOUNDS, f"--{'9' * 5000}"], "No such option: --99999"),
        ([*BOUNDS, "--horizon", "9" * 5000], "--horizon must be a whole number, got '99"),
        ([*BOUNDS, "--horizon", "9" * 400], "--horizon must be a whole number below"),
        ([*BOUNDS, "--rate", "9" * 5000], "--rate must be a number, got '99"),
        ([*BOUNDS, "--rate", "x\n\ny"], r"--rate must be a number, got 'x\n\ny'"),
    ],
)
def test_misuse_gets_one_short_line(error_message, words, start):
    message = error_message(*words)
    assert message.startswith(start)
    assert len(message) < 200


def test_a_bug_keeps_its_traceback(kibitz, monkeypatch):
    def broken(*arguments, **options):
        raise KeyError("bug")

    monkeypatch.setattr("kibitz.bounds.summary", broken)
    with pytest.raises(KeyError):
        kibitz(*BOUNDS)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(13, "Permission denied", "x.nc"), "x.nc: Permission denied"),
        (MemoryError(), "not enough memory; reduce the size of the problem or the number of runs"),
        (ValueError("rate must be smaller"), "--rate must be smaller"),
        (ValueError("C_0 and rho must agree"), "--C0 and --rho must agree"),
        (ValueError("horizon=9 is too small"), "--horizon=9 is too small"),
        (ValueError("means of 3 arms"), "means of 3 arms"),  # a word, not a parameter
        (ValueError("the rate must be smaller"), "the rate must be smaller"),
    ],
)
def test_errors_of_the_library_name_the_flag(error_message, monkeypatch, error, message):
    def broken(*arguments, **options):
        raise error

    monkeypatch.setattr("kibitz.bounds.summary", broken)
    assert error_message(*BOUNDS) == message


@pytest.fixture(scope="module")
def commands():
    """Return all commands and groups by their names, such as "", "simulate" and "agent ask"."""

    def walk(command, words):
        yield " ".join(words), command
        for name, one in getattr(command, "commands", {}).items():
            yield from walk(one, [*words, name])

    return dict(walk(typer.main.get_command(app), []))


def test_help_fits_80_columns_and_cuts_no_word(commands, kibitz, monkeypatch):
    shown = {}
    for columns in ("80", "250"):
        monkeypatch.setenv("COLUMNS", columns)
        for words in commands:
            code, output, _ = kibitz(*words.split(), "--help")
            assert code == 0
            shown[words, columns] = output
    for words in commands:
        narrow = shown[words, "80"]
        assert max(map(len, narrow.splitlines())) <= 80
        assert "…" not in narrow
        wide = set(re.sub("[│─╭╮╰╯]", " ", shown[words, "250"]).split())
        assert set(re.sub("[│─╭╮╰╯]", " ", narrow).split()) <= wide, words


def test_every_option_has_help_and_large_commands_have_panels(commands, kibitz):
    for words, command in commands.items():
        for param in command.params:
            assert param.help, (words, param.name)
    for words in ("simulate", "plan", "league", "rehearse", "reproduce", "bounds", "bayes-optimal"):
        output = kibitz(words, "--help")[1]
        assert "─ Options ─" not in output
        assert "─ Output ─" in output


def examples(command):
    """Return the commands in the examples of a help text."""
    text = command.epilog.replace("\\\n", " ")
    return [shlex.split(line)[1:] for line in text.splitlines() if line.startswith("kibitz ")]


def test_every_example_in_the_help_runs(commands, kibitz, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kibitz.live.service.server.listen", MagicMock())
    monkeypatch.setattr("kibitz.live.service.server.create_server", MagicMock())
    # These examples run first, because other examples need the agent and the token.
    store = ["agent create", "agent ask", "agent tell", "token create"]
    order = sorted(commands, key=lambda words: store.index(words) if words in store else len(store))
    run = set()
    for words in order:
        found = examples(commands[words])
        assert found, words
        assert any(one[: len(words.split())] == words.split() for one in found), words
        for one in found:
            if tuple(one) not in run:
                run.add(tuple(one))
                code, output, errors = kibitz(*one)
                assert (code, errors) == (0, ""), one
                assert output


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("simul", ["simulate"]),
        ("simulate --pol", ["--policy"]),
        ("simulate --policy ucb_", ["ucb_double", "ucb_second"]),
        ("agent create --policy kl", ["kl_ucb"]),
        ("simulate --observer p", ["passive"]),
        ("plan --policy kib", ["kibitzer"]),
    ],
)
def test_shells_complete_commands_options_and_policies(program, words, completed):
    line = f"kibitz {words}"
    code, output, _ = program(
        _KIBITZ_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(line.count(" "))
    )
    assert code == 0
    assert output.split() == completed


def test_completion_can_be_installed(kibitz):
    output = kibitz("--help")[1]
    assert "--install-completion" in output
    assert "--show-completion" in output


@pytest.mark.skipif(os.name != "posix", reason="a shell of POSIX")
@pytest.mark.parametrize("words", [["policies"], ["--help"], ["simulate", "--help"], PLAN])
@pytest.mark.parametrize("buffered", [True, False])
def test_broken_pipe_ends_without_a_message(words, buffered):
    """Check a reader that closes the pipe early, as in `kibitz ... | head -1`."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, *([] if buffered else ["-u"]), "-m", "kibitz.cli", *words]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, timeout=300)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_gives_one_line(tmp_path):
    command = [*SIMULATE[:5], "--horizon", "1e6", "--runs", "1e6", "--engine", "step"]

    def accept_interrupts():
        """Restore the default handler of SIGINT; background processes may inherit it as ignored."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    begun = subprocess.Popen(
        [sys.executable, "-m", "kibitz.cli", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=accept_interrupts,
    )
    status = Path(f"/proc/{begun.pid}/status")
    for _ in range(600):  # until the simulation runs in threads
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
    sentence = "kibitz: interrupted; nothing was saved\n"
    # A shell reports 130 in both cases. If Ctrl-C comes during exec(), which numba uses, the signal
    # ends Python without an exit code.
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
def test_ascii_terminal_gets_ascii(program, words):
    code, output, errors = program(*words, PYTHONIOENCODING="ascii")
    assert code == (2 if "ε…" in words else 0)
    assert (output + errors).isascii()
    assert "?" not in output
    assert "Traceback" not in errors
    tables = [line for line in output.splitlines() if line.startswith(("|", "+"))]
    assert tables or words == ["policies"] or "--json" in words or code
    for line in tables:
        assert line.rstrip().endswith(("|", "+"))


def test_terminal_without_a_locale_gets_ascii(program):
    """Check that output and errors are ASCII; Python escapes other characters on standard error."""
    plain = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    code, output, errors = program(*BOUNDS, **plain)
    assert (code, errors) == (0, "")
    assert output.isascii()
    assert "eps = 0.1, T = 10,000" in output
    code, output, errors = program("bounds", "--means", "1,0", "--rate", "ε", **plain)
    assert (code, output) == (2, "")
    assert errors.isascii()


def test_columns_of_an_ascii_table_are_aligned(program):
    _, output, _ = program(*SIMULATE, PYTHONIOENCODING="ascii")
    table = [line for line in output.splitlines() if line.startswith(("|", "+"))]
    assert "mean +- s.e." in output
    assert len({len(line) for line in table}) == 1


def test_other_terminals_keep_greek_letters(program):
    assert "ε" in program(*BOUNDS, PYTHONIOENCODING="utf-8")[1]
    latin = subprocess.run(
        [sys.executable, "-m", "kibitz.cli", *SIMULATE],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
    )
    assert "mean ± s.e." in latin.stdout.decode("latin-1")
