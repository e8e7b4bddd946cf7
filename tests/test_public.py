"""Tests that public names have types and are imported at their first use."""

import ast
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import kibitz

ROOT = Path(__file__).parents[1]


def run_python(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=ROOT)


def test_all_public_names_can_be_imported():
    for name in kibitz.__all__:
        assert getattr(kibitz, name) is not None
    assert dir(kibitz) == sorted(kibitz.__all__)


def test_the_version_is_the_same_everywhere():
    assert kibitz.__version__ == version("kibitz")
    assert run_python("-m", "kibitz.cli", "--version").stdout == f"kibitz {kibitz.__version__}\n"


def test_an_unknown_name_raises_attribute_error():
    with pytest.raises(AttributeError, match="module 'kibitz' has no attribute 'nonsense'"):
        _ = kibitz.nonsense


def test_type_checkers_and_python_see_the_same_names():
    tree = ast.parse(Path(kibitz.__file__).read_text())
    typed_names = {
        alias.asname: (node.module, alias.name)
        for branch in tree.body
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
        for node in branch.body
        for alias in node.names
    }
    assert typed_names == {name: (module, name) for name, module in kibitz._MODULES.items()}


def test_a_user_of_kibitz_gets_types():
    typed_file = ROOT / "tests" / "typed_user.py"
    pytest.importorskip("mypy")
    process = run_python("-m", "mypy", "--strict", "--config-file", "pyproject.toml", str(typed_file))
    reported_errors = re.findall(
        r"typed_user\.py:(\d+): error: .*\[([\w-]+)\]$", process.stdout, re.MULTILINE
    )
    lines = typed_file.read_text().splitlines()
    expected_errors = [
        (str(line_number), line.partition("# error: ")[2])
        for line_number, line in enumerate(lines, 1)
        if "# error: " in line
    ]
    assert expected_errors
    assert reported_errors == expected_errors, process.stdout


def test_import_and_help_do_not_load_numba():
    heavy_libraries = "{'numba', 'numpy', 'scipy', 'xarray', 'matplotlib'}"
    script = f"import sys, kibitz; print(*sorted({heavy_libraries} & set(sys.modules)))"
    process = run_python("-c", script)
    assert (process.stdout, process.stderr) == ("\n", "")
    script = f"""
import atexit, sys
from kibitz.cli import main
atexit.register(lambda: print("loaded:", *sorted({heavy_libraries} & set(sys.modules))))
sys.argv = ["kibitz", "--help"]
main()
"""
    process = run_python("-c", script)
    assert process.returncode == 0, process.stderr
    assert "simulate" in process.stdout
    assert process.stdout.splitlines()[-1] == "loaded:"
