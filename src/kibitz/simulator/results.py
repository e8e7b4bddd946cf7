"""From arrays to a labelled `xarray.Dataset`, and to one netCDF file and back.

A result has the dimensions `policy`, whatever was swept, `run`, `stage` and `arm`. Runs that are not
there yet (of an interrupted simulation) are NaN in `regret` and -1 in the counts.

A file is netCDF, which any reader of netCDF opens, and after its end one line with the format and a
SHA-256 of all that comes before, which readers of netCDF do not look at. kibitz verifies it before it
lets HDF5 read anything: damaged files make that library hang, crash, or return other numbers. A file
of kibitz 0.1.0 has no such line and is read by another process, which may crash.
"""

import hashlib
import io
import json
import re
import subprocess
import sys
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kibitz.files import write_whole
from kibitz.simulator.jobs import Played, no_runs
from kibitz.validate import quoted

if TYPE_CHECKING:
    import xarray

FORMAT = 2  # of a saved file; 1 is that of kibitz 0.1.0
LAST_LINE = re.compile(rb"\nkibitz format (\d+) sha256 ([0-9a-f]{64})\n\Z")
READING_SECONDS = 60  # that a file without a checksum may take to read

Key = tuple[Hashable, str]  # the swept value (None without a sweep), and the policy's label

# of each recorded quantity: its dimensions beside those of the sweep, and what it is
RECORDED = {
    "regret": (("stage",), "cumulative regret Σ Δ_i N_i at the end of the stage"),
    "n_pulls": (("arm",), "pulls of each arm in all"),
    "n_free": (("arm",), "looks at each arm in all"),
    "error": ((), "distance from the stage-by-stage law, in total variation"),
}


@dataclass(eq=False)
class Cell:
    """The runs of one policy in one setting."""

    setting: dict[str, Any]
    runs: Played

    def extended(self, runs: int) -> "Cell":
        """Return the same with room for at least so many runs."""
        more = max(0, runs - len(self.runs.regret))
        extra = no_runs(more, self.runs.regret.shape[1], self.runs.n_pulls.shape[1])
        both: Any = map(np.concatenate, zip(self.runs, extra, strict=True))
        return Cell(self.setting, Played(*both))

    def missing(self, runs: int) -> NDArray[np.int64]:
        """Return which of the first `runs` runs are not there yet."""
        return np.flatnonzero(self.runs.n_pulls[:runs, 0] < 0)


def dataset(
    table: dict[Key, Cell], stages: NDArray[np.int64], runs: int, swept: str | None
) -> "xarray.Dataset":
    """Return the first `runs` runs of a table as a labelled dataset."""
    import xarray

    labels = list(dict.fromkeys(label for _, label in table))
    values = list(dict.fromkeys(value for value, _ in table))
    n_arms = next(iter(table.values())).runs.n_pulls.shape[1]
    blank = Cell({"horizon": int(stages[-1])}, no_runs(runs, stages.size, n_arms))
    grid = [[table.get((value, label), blank) for value in values] for label in labels]

    def stacked(parts: list[list[NDArray[Any]]]) -> NDArray[Any]:
        array = np.array([[part[:runs] for part in row] for row in parts])
        return array if swept else array[:, 0]

    lead = ("policy", *((swept,) if swept else ()), "run")
    data = xarray.Dataset(
        {
            name: ((*lead, *dims), stacked([[getattr(c.runs, name) for c in row] for row in grid]))
            for name, (dims, _) in RECORDED.items()
        },
        coords={
            "policy": labels,
            "run": np.arange(runs),
            "stage": stages,
            "arm": np.arange(n_arms),
            **({swept: values} if swept else {}),
        },
    )
    ends = [
        [c.runs.regret[:, np.searchsorted(stages, c.setting["horizon"])] for c in row] for row in grid
    ]
    data["final_regret"] = (lead, stacked(ends))
    data["final_regret"].attrs["long_name"] = "cumulative regret at the horizon"
    for name, (_, words) in RECORDED.items():
        data[name].attrs["long_name"] = words
    cells = [
        {"value": value, "policy": label, "setting": cell.setting}
        for (value, label), cell in table.items()
    ]
    engines = {label: cell.setting["engine"] for (_, label), cell in table.items()}
    data.attrs = {
        "format": FORMAT,
        "setting": json.dumps(common_setting(table), ensure_ascii=False),
        "cells": json.dumps(cells, ensure_ascii=False),
        "engine": json.dumps(engines, ensure_ascii=False),
        "versions": json.dumps(versions()),
    }
    return data


def common_setting(table: dict[Key, Cell]) -> dict[str, Any]:
    """Return what all cells of a table have in common, with the policies by label."""
    settings = [cell.setting for cell in table.values()]
    common = {
        key: value
        for key, value in settings[0].items()
        if key != "policy" and all(key in other and other[key] == value for other in settings)
    }
    common["policies"] = {label: cell.setting["policy"] for (_, label), cell in table.items()}
    return common


@cache
def versions() -> dict[str, str]:
    """Return the versions of all that a number may depend on."""
    names = ("kibitz", "numpy", "numba", "scipy", "xarray")
    return {name: version(name) for name in names}


def save(data: "xarray.Dataset", file: Path) -> None:
    """Write a dataset to a netCDF file, whole or not at all."""
    content = to_netcdf(data)
    digest = hashlib.sha256(content).hexdigest()
    write_whole(file, content + f"\nkibitz format {FORMAT} sha256 {digest}\n".encode())


def to_netcdf(data: "xarray.Dataset") -> bytes:
    """Return a dataset as netCDF, made in memory: HDF5 crashes when a disk is full."""
    import h5netcdf
    from xarray.backends import H5NetCDFStore

    packed = {variable: {"zlib": True, "complevel": 1} for variable in data.data_vars}
    buffer = io.BytesIO()
    with h5netcdf.File(buffer, "w") as file:
        data.dump_to_store(H5NetCDFStore(file), encoding=packed)
    return buffer.getvalue()


def from_netcdf(content: bytes) -> "xarray.Dataset":
    """Read a dataset from the bytes of a netCDF file."""
    import xarray

    with xarray.open_dataset(io.BytesIO(content), engine="h5netcdf") as opened:
        return opened.load()


def load(file: Path, swept: str | None) -> tuple[dict[Key, Cell], NDArray[np.int64]]:
    """Read a table and its stages from a file that `save` wrote."""
    data = from_netcdf(verified(file))
    try:
        cells = json.loads(data.attrs["cells"])
        stages = data["stage"].to_numpy().astype(np.int64)
        there = next(iter(set(data["regret"].dims) - {"policy", "run", "stage"}), None)
        table: dict[Key, Cell] = {}
        if there == swept:
            for cell in cells:
                at = {"policy": cell["policy"], **({swept: cell["value"]} if swept else {})}
                part = data.sel(at)
                runs = (part[name].to_numpy() for name in Played._fields)
                table[cell["value"], cell["policy"]] = Cell(cell["setting"], Played(*runs))
    except (KeyError, IndexError, TypeError, ValueError) as error:  # netCDF of somebody else
        raise _not_ours(file, f"{type(error).__name__}: {error}") from None
    if there != swept:
        raise ValueError(
            f"file must be of the same setting, got {quoted(str(file))} "
            + (f"with a sweep over {there}" if there else "without a sweep")
        )
    return table, stages


def verified(file: Path) -> bytes:
    """Return the netCDF part of a saved file, if its checksum is right."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise _not_ours(file, error.strerror or str(error)) from None
    found = LAST_LINE.search(content)
    if found is None:
        return _of_0_1_0(file)
    if int(found[1]) > FORMAT:
        raise _not_ours(file, f"its format {int(found[1])} is that of a later version")
    netcdf = content[: found.start()]
    if hashlib.sha256(netcdf).hexdigest().encode() != found[2]:
        raise _not_ours(file, "it is damaged: its checksum is another")
    return netcdf


def _of_0_1_0(file: Path) -> bytes:
    """Return a file without a checksum, as it is read and written again by another process."""
    code = "import sys; from kibitz.simulator.results import resave; resave(sys.argv[1])"
    try:
        child = subprocess.run(
            [sys.executable, "-c", code, str(file)], capture_output=True, timeout=READING_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise _not_ours(file, f"it could not be read within {READING_SECONDS} s") from None
    if child.returncode != 0:
        raise _not_ours(file, "it is damaged, or no netCDF file")
    return child.stdout


def resave(file: str) -> None:
    """Write a file of kibitz 0.1.0 to standard output; the process that calls this may crash."""
    data = from_netcdf(Path(file).read_bytes())
    if "format" in data.attrs:  # it had a checksum, and has lost it
        sys.exit(1)
    sys.stdout.buffer.write(to_netcdf(data))


def _not_ours(file: Path, reason: str) -> ValueError:
    return ValueError(f"file must be a result that kibitz saved, got {quoted(str(file))} ({reason})")
