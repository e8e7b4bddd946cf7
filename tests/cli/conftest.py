"""The command line, called in this process (quick) or as a program (as a user does)."""

import os
import subprocess
import sys

import pytest

from kibitz.cli import main


@pytest.fixture
def kibitz(monkeypatch, capsys):
    """Call `kibitz` with these words; exit code, output, errors."""

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["kibitz", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            main()
        return stopped.value.code or 0, *capsys.readouterr()

    return call


@pytest.fixture
def program():
    """Run it as a program, with further variables of the environment."""

    def run(*words, **environment):
        done = subprocess.run(
            [sys.executable, "-m", "kibitz.cli", *map(str, words)],
            capture_output=True,
            timeout=300,
            env={**os.environ, **environment},
        )
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    return run


@pytest.fixture
def refused(kibitz, tmp_path, monkeypatch):
    """Call it with what must be refused: one sentence, which is returned, and nothing written."""
    monkeypatch.chdir(tmp_path)

    def call(*words):
        before = sorted(path.name for path in tmp_path.iterdir())
        code, output, errors = kibitz(*words)
        assert (code, output) == (2, "")
        assert errors.startswith("kibitz: ")
        assert errors.endswith("\n")
        assert errors.count("\n") == 1
        assert sorted(path.name for path in tmp_path.iterdir()) == before
        return errors.removeprefix("kibitz: ").removesuffix("\n")

    return call
