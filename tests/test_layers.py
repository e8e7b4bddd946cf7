"""Imports between packages follow the table below; a package that is not listed fails."""

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "kibitz"
LIBRARIES = {
    "IPython", "dask", "distributed", "fastapi", "h5netcdf", "h5py", "jinja2", "llvmlite",
    "matplotlib", "msgspec", "numba", "platformdirs", "psycopg", "rich", "scipy", "starlette",
    "typer", "uvicorn", "vl_convert", "xarray", "zarr",
}  # fmt: skip
ROOT = [
    "_errors",
    "_files",
    "_hashing",
    "_jit",
    "_netcdf",
    "_validation",
]  # importable from everywhere
RESULTS = ["h5netcdf", "xarray"]

ALLOWED = {  # package: the packages of kibitz and the libraries that it may import
    "__init__": (
        ["bounds", "evaluation", "live", "model", "planning", "plotting", "policies", "simulation"],
        ["xarray"],
    ),
    "__main__": (["cli"], []),
    "_errors": ([], []),
    "_hashing": ([], []),
    "_jit": ([], []),
    "_validation": ([], []),
    "_files": ([], []),
    "_netcdf": ([], RESULTS),
    "model": ([], []),
    "policies": ([], []),
    "engine": (["model", "policies"], ["llvmlite", "numba", "platformdirs"]),
    "simulation": (["engine", "model", "policies"], ["numba", *RESULTS]),
    "bounds": (["model"], ["scipy"]),
    "evaluation": (["bounds", "engine", "model", "policies", "simulation"], ["scipy", "xarray"]),
    "planning": (["bounds", "model", "policies", "simulation"], ["scipy"]),
    "plotting": (["model", "simulation"], ["IPython", "matplotlib", "xarray"]),
    "reproduction": (
        ["bounds", "evaluation", "model", "plotting", "policies", "simulation"],
        ["jinja2", "xarray"],
    ),
    "live": (
        ["bounds", "model", "planning", "policies"],
        ["msgspec", "psycopg", "scipy", "starlette", "uvicorn", *RESULTS],
    ),
    "cli": (
        ["bounds", "engine", "evaluation", "live", "model", "planning", "plotting", "policies",
         "reproduction", "simulation"],
        ["distributed", "msgspec", "rich", "starlette", "typer", "uvicorn", *RESULTS],
    ),
}  # fmt: skip
LIVE = ["events", "store", "agent", "service", "dashboard"]  # each may import all earlier packages


def list_imports(path, top_level=False):
    """Return all modules that a file imports; `from a import b` counts as a and a.b."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body if top_level else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} has a relative import"
            if node.module == "kibitz":
                yield from (f"kibitz.{alias.name}" for alias in node.names)
            else:
                yield node.module


def list_files(package):
    single = SOURCE / f"{package}.py"
    return [single] if single.exists() else sorted((SOURCE / package).rglob("*.py"))


def test_every_package_is_listed():
    packages = {path.stem for path in SOURCE.glob("*.py")}
    packages |= {
        path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"
    }
    assert packages == set(ALLOWED)


@pytest.mark.parametrize("package", ALLOWED)
def test_a_package_imports_only_allowed_packages(package):
    ours, libraries = ALLOWED[package]
    assert list_files(package)
    for path in list_files(package):
        for name in list_imports(path):
            top, _, rest = name.partition(".")
            if top == "kibitz" and rest:
                assert rest.partition(".")[0] in {package, *ROOT, *ours}, f"{path} imports {name}"
            elif top in LIBRARIES:
                assert top in libraries, f"{path} imports {name}"


def test_evaluation_uses_one_name_of_the_engine():
    """Evaluation compiles its dynamic programs with the engine's cache but does not simulate."""
    asked = {
        name for path in list_files("evaluation") for name in list_imports(path) if ".engine" in name
    }
    assert asked == {"kibitz.engine.cache"}


def test_planning_imports_simulation_only_on_request():
    for path in list_files("planning"):
        assert not any("simulation" in name for name in list_imports(path, top_level=True)), path


def test_simulation_compiles_in_one_file():
    machinery = {"kibitz.engine.background"}
    users = {path.name for path in list_files("simulation") if machinery & set(list_imports(path))}
    assert users == {"kernels.py"}


def test_parts_of_live_import_only_earlier_parts():
    parts = {path.stem for path in (SOURCE / "live").iterdir() if path.name != "__pycache__"}
    assert parts == {*LIVE, "__init__"}
    for place, part in enumerate(LIVE):
        known = {f"kibitz.live.{one}" for one in LIVE[: place + 1]}
        for path in list_files(f"live/{part}"):
            for name in list_imports(path):
                if name.startswith("kibitz.live"):
                    assert ".".join(name.split(".")[:3]) in known, f"{path} imports {name}"


def test_sql_is_only_in_the_store():
    statement = re.compile(r"\b(select|insert into|update \w+ set|create table)\b .*", re.IGNORECASE)
    for part in LIVE:
        for path in list_files(f"live/{part}"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    is_sql = statement.match(node.value.strip()) is not None
                    assert part == "store" or not is_sql, f"{path}: {node.value}"


def test_live_has_no_circular_imports():
    modules = {module_name(path): path for path in (SOURCE / "live").rglob("*.py")}
    graph = {
        name: set(list_imported_modules(path, modules)) - {name} for name, path in modules.items()
    }
    while free := {name for name, needed in graph.items() if not needed & graph.keys()}:
        for name in free:
            del graph[name]
    assert not graph, f"a circle among {sorted(graph)}"


def module_name(path):
    name = ".".join(["kibitz", *path.relative_to(SOURCE).with_suffix("").parts])
    return name.removesuffix(".__init__")


def list_imported_modules(path, modules):
    """Yield the modules of kibitz that a file imports, including imports inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else node.module


def test_bounds_and_models_do_not_import_numba():
    for package in ("model", "bounds"):
        for path in list_files(package):
            assert "numba" not in {name.partition(".")[0] for name in list_imports(path)}


PUBLIC_NUMBA = {"njit", "config"}  # names that files other than numba_compat.py may use


def list_numba_names(path):
    """Yield the names of numba and llvmlite that a file uses."""
    for name in list_imports(path):
        if name.partition(".")[0] in {"numba", "llvmlite"} and name != "numba":
            yield name
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "numba":
            yield from (f"numba.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "numba":
            yield f"numba.{node.attr}"


def test_private_parts_of_numba_are_used_in_one_file():
    for path in SOURCE.rglob("*.py"):
        if path.name != "numba_compat.py":
            used = {name.removeprefix("numba.") for name in list_numba_names(path)}
            assert used <= PUBLIC_NUMBA, f"{path} uses {used - PUBLIC_NUMBA}"
    assert (
        len(set(list_numba_names(SOURCE / "engine" / "numba_compat.py"))) > 10
    )  # list_numba_names does find names


def test_only_plotting_imports_matplotlib():
    for path in SOURCE.rglob("*.py"):
        if path.parts[-2] not in {"reproduction", "plotting"}:
            assert "matplotlib" not in {name.partition(".")[0] for name in list_imports(path)}, path


def test_the_command_line_imports_inside_each_command():
    heavy = {"numba", "numpy", "scipy", "xarray", "matplotlib"}
    for path in list_files("cli"):
        for name in list_imports(path, top_level=True):
            assert name.partition(".")[0] not in heavy, f"{path} imports {name}"
            if name == "kibitz.simulation.options":  # defines the flags of `simulate`, without NumPy
                continue
            package = name.removeprefix("kibitz.").partition(".")[0]
            assert not name.startswith("kibitz.") or package in {"cli", *ROOT}, (
                f"{path} imports {name}"
            )
