"""Tests that packages import only what the table in this file allows."""

import ast
import re
from pathlib import Path

import pytest

SOURCE_FOLDER = Path(__file__).parents[1] / "src" / "kibitz"
LIBRARIES = {
    "IPython", "dask", "distributed", "fastapi", "gymnasium", "h5netcdf", "h5py", "httpx", "jinja2",
    "llvmlite", "matplotlib", "msgspec", "numba", "platformdirs", "prometheus_client", "psycopg",
    "rich", "scipy", "starlette", "typer", "uvicorn", "vl_convert", "xarray", "zarr",
}  # fmt: skip
ROOT_MODULES = [
    "_errors",
    "_files",
    "_hashing",
    "_jit",
    "_netcdf",
    "_progress",
    "_validation",
]  # every package may import these modules
RESULT_LIBRARIES = ["h5netcdf", "xarray"]

ALLOWED_IMPORTS = {  # package: the packages of kibitz and the libraries that it may import
    "__init__": (
        ["bounds", "evaluation", "live", "model", "planning", "plot", "policies", "simulation",
         "plotting"],
        ["xarray"],
    ),
    "__main__": (["cli"], []),
    "_errors": ([], []),
    "_hashing": ([], []),
    "_jit": ([], []),
    "_validation": ([], []),
    "_files": ([], []),
    "_netcdf": ([], RESULT_LIBRARIES),
    "_progress": ([], ["IPython"]),
    "model": ([], ["scipy"]),  # sparse matrices, imported where a graph is read
    "policies": ([], []),
    "engine": (["model", "policies"], ["llvmlite", "numba", "platformdirs"]),
    "simulation": (
        ["engine", "model", "policies"], ["gymnasium", "numba", "zarr", *RESULT_LIBRARIES]
    ),
    "bounds": (["model"], ["scipy"]),
    "evaluation": (["bounds", "engine", "model", "policies", "simulation"], ["scipy", "xarray"]),
    "planning": (["bounds", "model", "policies", "simulation"], ["scipy"]),
    "plot": (["plotting"], []),
    "plotting": (
        ["evaluation", "model", "planning", "simulation"], ["IPython", "matplotlib", "xarray"],
    ),
    "reproduction": (
        ["bounds", "evaluation", "model", "planning", "plotting", "policies", "simulation"],
        ["jinja2", "xarray"],
    ),
    "live": (
        ["bounds", "model", "planning", "policies"],
        ["httpx", "msgspec", "prometheus_client", "psycopg", "scipy", "starlette", "uvicorn",
         *RESULT_LIBRARIES],
    ),
    "cli": (
        ["bounds", "engine", "evaluation", "live", "model", "planning", "plot", "plotting",
         "policies", "reproduction", "simulation"],
        ["distributed", "msgspec", "prometheus_client", "rich", "starlette", "typer", "uvicorn",
         *RESULT_LIBRARIES],
    ),
}  # fmt: skip
# The packages of `kibitz.live` in order. Each package may import all earlier packages.
LIVE_PACKAGES = ["monitor", "events", "store", "agent", "service", "dashboard"]
# The application factory of the service imports the routes of the dashboard, as an exception.
LIVE_EXCEPTIONS = {("service/__init__.py", "kibitz.live.dashboard.routes")}


def list_imports(path, top_level=False):
    """Return all modules that a file imports; `from a import b` gives both a and a.b."""
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
    single_file = SOURCE_FOLDER / f"{package}.py"
    return [single_file] if single_file.exists() else sorted((SOURCE_FOLDER / package).rglob("*.py"))


def test_every_package_is_listed():
    packages = {path.stem for path in SOURCE_FOLDER.glob("*.py")}
    packages |= {
        path.name for path in SOURCE_FOLDER.iterdir() if path.is_dir() and path.name != "__pycache__"
    }
    assert packages == set(ALLOWED_IMPORTS)


@pytest.mark.parametrize("package", ALLOWED_IMPORTS)
def test_a_package_imports_only_allowed_packages(package):
    allowed_packages, allowed_libraries = ALLOWED_IMPORTS[package]
    assert list_files(package)
    for path in list_files(package):
        for name in list_imports(path):
            top_level_name, _, submodule = name.partition(".")
            if top_level_name == "kibitz" and submodule:
                assert submodule.partition(".")[0] in {package, *ROOT_MODULES, *allowed_packages}, (
                    f"{path} imports {name}"
                )
            elif top_level_name in LIBRARIES:
                assert top_level_name in allowed_libraries, f"{path} imports {name}"


def test_evaluation_uses_one_name_of_the_engine():
    """Evaluation compiles its dynamic programs with the engine's cache but does not simulate."""
    imported_names = {
        name for path in list_files("evaluation") for name in list_imports(path) if ".engine" in name
    }
    assert imported_names == {"kibitz.engine.cache"}


def test_planning_imports_simulation_only_on_request():
    for path in list_files("planning"):
        assert not any("simulation" in name for name in list_imports(path, top_level=True)), path


def test_simulation_compiles_in_one_file():
    compiler_modules = {"kibitz.engine.background"}
    importing_files = {
        path.name for path in list_files("simulation") if compiler_modules & set(list_imports(path))
    }
    assert importing_files == {"kernels.py"}


def test_parts_of_live_import_only_earlier_parts():
    packages = {
        path.stem for path in (SOURCE_FOLDER / "live").iterdir() if path.name != "__pycache__"
    }
    assert packages == {*LIVE_PACKAGES, "__init__"}
    for position, package in enumerate(LIVE_PACKAGES):
        allowed_packages = {
            f"kibitz.live.{allowed_package}" for allowed_package in LIVE_PACKAGES[: position + 1]
        }
        for path in list_files(f"live/{package}"):
            for name in list_imports(path):
                is_exception = (f"{path.parent.name}/{path.name}", name) in LIVE_EXCEPTIONS
                if name.startswith("kibitz.live") and not is_exception:
                    assert ".".join(name.split(".")[:3]) in allowed_packages, f"{path} imports {name}"


def test_sql_is_only_in_the_store():
    sql_pattern = re.compile(
        r"\b(select|insert into|update \w+ set|create table)\b .*", re.IGNORECASE
    )
    for package in LIVE_PACKAGES:
        for path in list_files(f"live/{package}"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    is_sql = sql_pattern.match(node.value.strip()) is not None
                    assert package == "store" or not is_sql, f"{path}: {node.value}"


def test_live_has_no_circular_imports():
    modules = {get_module_name(path): path for path in (SOURCE_FOLDER / "live").rglob("*.py")}
    import_graph = {
        name: set(list_imported_modules(path, modules)) - {name} for name, path in modules.items()
    }
    while independent_modules := {
        name
        for name, imported_modules in import_graph.items()
        if not imported_modules & import_graph.keys()
    }:
        for name in independent_modules:
            del import_graph[name]
    assert not import_graph, f"circular imports among {sorted(import_graph)}"


def get_module_name(path):
    name = ".".join(["kibitz", *path.relative_to(SOURCE_FOLDER).with_suffix("").parts])
    return name.removesuffix(".__init__")


def list_imported_modules(path, modules):
    """Yield the modules of kibitz that a file imports, including imports inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                yield submodule if submodule in modules else node.module


def test_bounds_and_models_do_not_import_numba():
    for package in ("model", "bounds"):
        for path in list_files(package):
            assert "numba" not in {name.partition(".")[0] for name in list_imports(path)}


PUBLIC_NUMBA_NAMES = {"njit", "config"}  # names that files other than numba_compat.py may use


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
    for path in SOURCE_FOLDER.rglob("*.py"):
        if path.name != "numba_compat.py":
            used_names = {name.removeprefix("numba.") for name in list_numba_names(path)}
            assert used_names <= PUBLIC_NUMBA_NAMES, f"{path} uses {used_names - PUBLIC_NUMBA_NAMES}"
    assert (
        len(set(list_numba_names(SOURCE_FOLDER / "engine" / "numba_compat.py"))) > 10
    )  # list_numba_names does find names


def test_only_plotting_imports_matplotlib():
    for path in SOURCE_FOLDER.rglob("*.py"):
        if path.parts[-2] not in {"reproduction", "plotting"}:
            assert "matplotlib" not in {name.partition(".")[0] for name in list_imports(path)}, path


def test_the_command_line_imports_inside_each_command():
    heavy_libraries = {"numba", "numpy", "scipy", "xarray", "matplotlib"}
    for path in list_files("cli"):
        for name in list_imports(path, top_level=True):
            assert name.partition(".")[0] not in heavy_libraries, f"{path} imports {name}"
            if name == "kibitz.simulation.options":  # defines the flags of `simulate`, without NumPy
                continue
            package = name.removeprefix("kibitz.").partition(".")[0]
            assert not name.startswith("kibitz.") or package in {"cli", *ROOT_MODULES}, (
                f"{path} imports {name}"
            )
