"""Run every example of docs/live.md in order."""

import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from kibitz.cli import main

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "live.md"


def test_every_example_runs(memory, monkeypatch, capsys):
    monkeypatch.chdir(memory)
    blocks = re.findall(r"^```(python|sh)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 8
    names = {}
    for language, block in blocks:
        if language == "python":
            exec(compile(block, PAGE.name, "exec"), names)
            continue
        for line in block.splitlines():
            arguments = shlex.split(line)
            if arguments[:2] == ["pip", "install"]:
                assert arguments[2:] == ["."]
                continue
            monkeypatch.setattr(sys, "argv", arguments)
            with pytest.raises(SystemExit) as exit_info:
                main()
            captured = capsys.readouterr()
            assert not exit_info.value.code, (line, captured.err)
            assert captured.out.strip(), line


def test_printed_values_match_the_comments(memory, monkeypatch, capsys):
    monkeypatch.chdir(memory)
    block = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)[0]
    exec(compile(block, PAGE.name, "exec"), {})
    comments = re.findall(r"^print\(.*?\) +# ([^:\n]*)", block, re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == comments
    assert len(comments) == 3


def test_the_documented_extras_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra in re.findall(r"kibitz\[(\w+)\]", PAGE.read_text()):
        assert extra in extras
