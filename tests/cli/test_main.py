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


@pytest.mark.parametrize("args", [[], ["--version"], *([command] for command in COMMANDS)])
def test_help_imports_nothing_heavy(args):
    script = (
        "import sys; from kibitz.cli import main\n"
        f"sys.argv = {['kibitz', *args, *([] if '--version' in args else ['--help'])]!r}\n"
        "try: main()\n"
        "except SystemExit as stop: assert not stop.code, stop.code\n"
        "heavy = {'numba', 'numpy', 'scipy', 'xarray', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout


def test_policies_are_listed_without_numba():
    script = (
        "import sys; from kibitz.cli import app; app(['policies'], standalone_mode=False)\n"
        "sys.exit(bool({'numba', 'llvmlite', 'scipy', 'xarray'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True).returncode == 0


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version_is_printed(kibitz, flag):
    assert kibitz(flag) == (0, f"kibitz {version('kibitz')}\n", "")


def test_command_runs_as_a_program(program):
    code, output, errors = program("policies")
    assert (code, errors) == (0, "")
    assert output.startswith("ftl(")
    code, output, errors = program("simulate", "--means", "1", "--policy", "ucb")
    assert (code, output) == (2, "")
    assert errors == "kibitz: --means must be a list of at least 2 numbers, got [1.0]\n"
    process = subprocess.run([sys.executable, "-m", "kibitz", "-V"], capture_output=True, text=True)
    assert process.stdout == f"kibitz {version('kibitz')}\n"


@pytest.mark.parametrize(
    ("args", "message_start"),
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
def test_misuse_gets_one_short_line(error_message, args, message_start):
    message = error_message(*args)
    assert message.startswith(message_start)
    assert len(message) < 200


def test_a_bug_keeps_its_traceback(kibitz, monkeypatch):
    def raise_bug(*arguments, **options):
        raise KeyError("bug")

    monkeypatch.setattr("kibitz.bounds.summary", raise_bug)
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
    def raise_error(*arguments, **options):
        raise error

    monkeypatch.setattr("kibitz.bounds.summary", raise_error)
    assert error_message(*BOUNDS) == message


@pytest.fixture(scope="module")
def commands():
    """Return all commands and groups by their names, such as "", "simulate" and "agent ask"."""

    def walk_commands(command, names):
        yield " ".join(names), command
        for name, subcommand in getattr(command, "commands", {}).items():
            yield from walk_commands(subcommand, [*names, name])

    return dict(walk_commands(typer.main.get_command(app), []))


def test_help_fits_80_columns_and_cuts_no_word(commands, kibitz, monkeypatch):
    help_texts = {}
    for columns in ("80", "250"):
        monkeypatch.setenv("COLUMNS", columns)
        for command_name in commands:
            code, output, _ = kibitz(*command_name.split(), "--help")
            assert code == 0
            help_texts[command_name, columns] = output
    for command_name in commands:
        narrow_help = help_texts[command_name, "80"]
        assert max(map(len, narrow_help.splitlines())) <= 80
        help_lines = {line[1:].rstrip() for line in narrow_help.splitlines()}
        assert set(commands[command_name].epilog.splitlines()) <= help_lines  # no line is wrapped
        assert "…" not in narrow_help
        wide_words = set(re.sub("[│─╭╮╰╯]", " ", help_texts[command_name, "250"]).split())
        assert set(re.sub("[│─╭╮╰╯]", " ", narrow_help).split()) <= wide_words, command_name


def test_every_option_has_help_and_large_commands_have_panels(commands, kibitz):
    for command_name, command in commands.items():
        for param in command.params:
            assert param.help, (command_name, param.name)
    for command_name in (
        "simulate",
        "trace",
        "plan",
        "league",
        "rehearse",
        "reproduce",
        "bounds",
        "bayes-optimal",
    ):
        output = kibitz(command_name, "--help")[1]
        assert "─ Options ─" not in output
        assert "─ Output ─" in output


def find_examples(command):
    """Return the commands in the examples of a help text."""
    text = command.epilog.replace("\\\n", " ")
    return [shlex.split(line)[1:] for line in text.splitlines() if line.startswith("kibitz ")]


def test_every_example_in_the_help_runs(commands, kibitz, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kibitz.live.service.server.listen", MagicMock())
    monkeypatch.setattr("kibitz.live.service.server.create_server", MagicMock())
    (tmp_path / "tests.csv").write_text(  # for `kibitz league --tests`
        "test,arm,impressions,clicks\n1,old,900,40\n1,new,950,60\n"
    )
    (tmp_path / "log.csv").write_text(  # for `kibitz plan --log` and `kibitz evaluate`
        "arm,reward,probability\n"
        "blue,0,0.5\nblue,1,0.5\nblue,0,0.5\ngreen,1,0.5\ngreen,0,0.5\ngreen,0,0.5\n"
    )
    (tmp_path / "history.csv").write_text("arm,reward,key\ngreen,1,order-1\n")  # for `agent import`
    # These examples run first, because other examples need the agent and the token.
    first_commands = ["agent create", "agent ask", "agent tell", "token create"]
    ordered_commands = sorted(
        commands,
        key=lambda command_name: (
            first_commands.index(command_name)
            if command_name in first_commands
            else len(first_commands)
        ),
    )
    executed_commands = set()
    for command_name in ordered_commands:
        example_commands = find_examples(commands[command_name])
        assert example_commands, command_name
        assert any(
            example[: len(command_name.split())] == command_name.split()
            for example in example_commands
        ), command_name
        for example in example_commands:
            if tuple(example) not in executed_commands:
                executed_commands.add(tuple(example))
                code, output, errors = kibitz(*example)
                assert (code, errors) == (0, ""), example
                assert output


@pytest.mark.parametrize(
    ("typed_text", "completions"),
    [
        ("simul", ["simulate"]),
        ("simulate --pol", ["--policy"]),
        ("simulate --policy ucb_", ["ucb_double", "ucb_second"]),
        ("agent create --policy kl", ["kl_ucb"]),
        ("simulate --observer p", ["passive"]),
        ("plan --policy kib", ["kibitzer"]),
    ],
)
def test_shells_complete_commands_options_and_policies(program, typed_text, completions):
    command_line = f"kibitz {typed_text}"
    code, output, _ = program(
        _KIBITZ_COMPLETE="complete_bash",
        COMP_WORDS=command_line,
        COMP_CWORD=str(command_line.count(" ")),
    )
    assert code == 0
    assert output.split() == completions


def test_completion_can_be_installed(kibitz):
    output = kibitz("--help")[1]
    assert "--install-completion" in output
    assert "--show-completion" in output


@pytest.mark.skipif(os.name != "posix", reason="needs a shell of POSIX")
@pytest.mark.parametrize("args", [["policies"], ["--help"], ["simulate", "--help"], PLAN])
@pytest.mark.parametrize("is_buffered", [True, False])
def test_broken_pipe_ends_without_a_message(args, is_buffered):
    """Check the exit code if the reader closes the pipe early, as in `kibitz ... | head -1`."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, *([] if is_buffered else ["-u"]), "-m", "kibitz.cli", *args]
    process = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, timeout=300)
    os.close(write_end)
    assert (process.returncode, process.stderr) == (141, b"")


@pytest.mark.skipif(os.name != "posix", reason="needs signals of POSIX")
def test_ctrl_c_gives_one_line(tmp_path):
    command = [*SIMULATE[:5], "--horizon", "1e6", "--runs", "1e6", "--engine", "step"]

    def accept_interrupts():
        """Restore the default handler of SIGINT; background processes may inherit it as ignored."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    process = subprocess.Popen(
        [sys.executable, "-m", "kibitz.cli", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=accept_interrupts,
    )
    status = Path(f"/proc/{process.pid}/status")
    for _ in range(600):  # until the simulation runs in threads
        threads = re.search(r"Threads:\s+(\d+)", status.read_text()) if status.exists() else None
        if threads and int(threads[1]) > 1:
            break
        time.sleep(0.1)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    try:
        output, errors = process.communicate(timeout=120)
    finally:
        process.kill()
        process.communicate()
    sentence = "kibitz: interrupted; nothing was saved\n"
    # A shell reports 130 in both cases. If Ctrl-C comes during exec(), which numba uses, the signal
    # ends Python without an exit code.
    assert process.returncode in (130, -signal.SIGINT)
    assert (output, errors) == ("", sentence)


@pytest.mark.parametrize(
    "args",
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
def test_ascii_terminal_gets_ascii(program, args):
    code, output, errors = program(*args, PYTHONIOENCODING="ascii")
    assert code == (2 if "ε…" in args else 0)
    assert (output + errors).isascii()
    assert "?" not in output
    assert "Traceback" not in errors
    tables = [line for line in output.splitlines() if line.startswith(("|", "+"))]
    assert tables or args == ["policies"] or "--json" in args or code
    for line in tables:
        assert line.rstrip().endswith(("|", "+"))


def test_terminal_without_a_locale_gets_ascii(program):
    """Check that output and errors are ASCII; Python escapes other characters on standard error."""
    ascii_locale = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    code, output, errors = program(*BOUNDS, **ascii_locale)
    assert (code, errors) == (0, "")
    assert output.isascii()
    assert "eps = 0.1, T = 10,000" in output
    code, output, errors = program("bounds", "--means", "1,0", "--rate", "ε", **ascii_locale)
    assert (code, output) == (2, "")
    assert errors.isascii()


def test_columns_of_an_ascii_table_are_aligned(program):
    _, output, _ = program(*SIMULATE, PYTHONIOENCODING="ascii")
    table = [line for line in output.splitlines() if line.startswith(("|", "+"))]
    assert "mean +- s.e." in output
    assert len({len(line) for line in table}) == 1


def test_other_terminals_keep_greek_letters(program):
    assert "ε" in program(*BOUNDS, PYTHONIOENCODING="utf-8")[1]
    latin_process = subprocess.run(
        [sys.executable, "-m", "kibitz.cli", *SIMULATE],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
    )
    assert "mean ± s.e." in latin_process.stdout.decode("latin-1")
