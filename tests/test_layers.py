"""Who may import whom: a lower layer never looks up."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "kibitz"
LIBRARIES = {"numba", "scipy", "xarray", "matplotlib", "rich", "typer", "platformdirs"}

ALLOWED = {  # module: what it may import of kibitz, then of the libraries
    "compiled": ([], ["numba", "platformdirs"]),
    "streams": (["compiled"], ["numba"]),
    "problem": (["compiled", "streams"], []),
    "feedback": (["compiled"], []),
    "bounds": (["bounds"], ["scipy"]),
    "policies": (["compiled", "feedback", "policies"], ["numba"]),
    "leap": (["compiled", "problem", "feedback", "policies"], []),
    "engine": (["compiled", "streams", "problem", "feedback", "policies", "leap"], []),
}


def imports(path, top_level=False):
    """Return the names of all modules that a file imports: `from a import b` is a or a.b."""
    tree = ast.parse(path.read_text())
    for node in tree.body if top_level else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} has a relative import"
            if node.module == "kibitz":
                yield from (f"kibitz.{alias.name}" for alias in node.names)
            else:
                yield node.module


def files(layer):
    return [SOURCE / f"{layer}.py"] if (SOURCE / f"{layer}.py").exists() else layer_folder(layer)


def layer_folder(layer):
    return sorted((SOURCE / layer).glob("*.py"))


@pytest.mark.parametrize("layer", ALLOWED)
def test_imports_only_what_is_below(layer):
    ours, libraries = ALLOWED[layer]
    assert files(layer)
    for path in files(layer):
        for name in imports(path):
            top, _, rest = name.partition(".")
            if top == "kibitz":
                assert rest.partition(".")[0] in ours, f"{path.name} imports {name}"
            elif top in LIBRARIES:
                assert top in libraries, f"{path.name} imports {name}"


def test_only_plots_and_experiments_know_matplotlib():
    for path in SOURCE.rglob("*.py"):
        if path.stem != "plots" and path.parent.name != "experiments":
            tops = {name.partition(".")[0] for name in imports(path)}
            assert "matplotlib" not in tops, path.name


def test_the_command_line_imports_inside_of_each_command():
    path = SOURCE / "cli.py"
    heavy = {"numba", "numpy", "scipy", "xarray", "matplotlib"}
    if path.exists():
        for name in imports(path, top_level=True):
            assert name.partition(".")[0] not in heavy, name
            assert not name.startswith("kibitz."), name
