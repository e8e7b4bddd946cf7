"""Fixtures that run `kibitz` commands, in this process (fast) or as a program (like a user)."""

import os
import subprocess
import sys

import pytest

from kibitz.cli import main


@pytest.fixture
def kibitz(monkeypatch, capsys):
    """Return a function that runs `kibitz` and returns exit code, output and errors."""

    def call(*args):
        monkeypatch.setattr(sys, "argv", ["kibitz", *map(str, args)])
        with pytest.raises(SystemExit) as exit_info:
            main()
        return exit_info.value.code or 0, *capsys.readouterr()

    return call


@pytest.fixture
def program():
    """Return a function that runs `kibitz` in a new process, with extra environment variables."""

    def run(*args, **environment):
        process = subprocess.run(
            [sys.executable, "-m", "kibitz.cli", *map(str, args)],
            capture_output=True,
            timeout=300,
            env={**os.environ, **environment},
        )
        return process.returncode, process.stdout.decode(), process.stderr.decode()

    return run


@pytest.fixture
def error_message(kibitz, tmp_path, monkeypatch):
    """Return a function that runs an invalid command and returns its one-line error message.

    The function checks the exit code, and that the command writes no file.
    """
    monkeypatch.chdir(tmp_path)

    def call(*args):
        files_before = sorted(path.name for path in tmp_path.iterdir())
        code, output, errors = kibitz(*args)
        assert (code, output) == (2, "")
        assert errors.startswith("kibitz: ")
        assert errors.endswith("\n")
        assert errors.count("\n") == 1
        assert sorted(path.name for path in tmp_path.iterdir()) == files_before
        return errors.removeprefix("kibitz: ").removesuffix("\n")

    return call
