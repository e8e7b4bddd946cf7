"""Tests of the reference pages: they contain every public bound, with all of its parameters."""

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import kibitz
from kibitz.bounds import lower
from kibitz.bounds.lower import _active, _passive, _split

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "bounds.md", *sorted((DOCS / "bounds").glob("*.md"))]
PAGES_TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
LISTED_FUNCTIONS = re.findall(r"^\.\. autofunction:: ([\w.]+)$", PAGES_TEXT, flags=re.M)


def list_functions_on_page(path):
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def list_public_functions(module):
    names = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]
    return {f"{module.__name__}.{n}" for n in names if inspect.isfunction(getattr(module, n))}


def test_every_public_function_is_on_a_page_once():
    modules = [
        m for name in kibitz.bounds.__all__ if inspect.ismodule(m := getattr(kibitz.bounds, name))
    ]
    expected = list_public_functions(kibitz.bounds).union(*map(list_public_functions, modules))
    assert len(modules) == 4
    assert sorted(LISTED_FUNCTIONS) == sorted(expected)


def test_every_lower_bound_of_a_private_module_is_public():
    for module in (_passive, _active, _split):
        for path in list_public_functions(module):
            name = path.rpartition(".")[2]
            if name.startswith(("passive_", "active_")) and name != "solve_pulls":
                assert getattr(lower, name) is getattr(module, name)
    assert all(inspect.isfunction(getattr(lower, name)) for name in lower.__all__)


@pytest.mark.parametrize(
    "path", [*LISTED_FUNCTIONS, "kibitz.planning.planner.plan", "kibitz.planning.prediction.predict"]
)
def test_every_parameter_is_documented(path):
    function = list_functions_on_page(path)
    text = inspect.getdoc(function)
    assert text.count("Parameters\n----------") == 1
    section = text.split("Parameters\n----------\n")[1].split("\nReturns\n")[0]
    headings = re.findall(r"^(\w[\w, ]*)$(?=\n    \S)", section, flags=re.M)
    documented_names = [name for heading in headings for name in heading.split(", ")]
    assert sorted(documented_names) == sorted(inspect.signature(function).parameters)
