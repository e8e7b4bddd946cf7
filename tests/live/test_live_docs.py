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
            words = shlex.split(line)
            if words[:2] == ["pip", "install"]:
                assert words[2:] == ["."]
                continue
            monkeypatch.setattr(sys, "argv", words)
            with pytest.raises(SystemExit) as stopped:
                main()
            shown = capsys.readouterr()
            assert not stopped.value.code, (line, shown.err)
            assert shown.out.strip(), line


def test_printed_values_match_the_comments(memory, monkeypatch, capsys):
    monkeypatch.chdir(memory)
    block = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)[0]
    exec(compile(block, PAGE.name, "exec"), {})
    said = re.findall(r"^print\(.*?\) +# ([^:\n]*)", block, re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == said
    assert len(said) == 3


def test_the_documented_extras_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra in re.findall(r"kibitz\[(\w+)\]", PAGE.read_text()):
        assert extra in extras
