"""Results in memory, and in one netCDF file.

Any netCDF reader opens the file. After the end of the netCDF data stands one line with the format
and a SHA-256 checksum of everything before it, which netCDF readers ignore. kibitz verifies the
checksum before HDF5 reads anything: HDF5 hangs, crashes or returns wrong numbers on damaged files. A
file of kibitz 0.1.0 has no checksum; another process reads it, which may crash.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kibitz._files import write_atomic
from kibitz._netcdf import append_checksum, from_netcdf, read_verified, to_netcdf
from kibitz.simulation.jobs import Played
from kibitz.simulation.results import dataset
from kibitz.simulation.results.dataset import RECORDED, Axes, Cell, Fingerprint, Key, Swept
from kibitz.simulation.results.summary import STATISTICS

if TYPE_CHECKING:
    import xarray


class NetcdfResults:
    """Results in memory, and the netCDF file that they are saved to, if there is one."""

    block = None  # any runs may be written

    def __init__(
        self, path: Path | None, swept: Swept, keep: str, stages: NDArray[np.int64], n_arms: int
    ) -> None:
        self.path, self.swept, self.keep, self.stages = path, swept, keep, stages
        self.n_arms = n_arms
        self.cells: dict[Key, Cell] = {}
        self.unsaved = path is not None and not path.exists()
        if path is not None and path.exists():
            self.cells, there = load(path, swept, keep)
            dataset.check_stages(path, there, stages)

    def ask(self, fingerprints: dict[Key, Fingerprint], runs: int) -> None:
        rows = runs if self.keep == "runs" else len(STATISTICS)
        most = max([rows, *(len(cell.runs.regret) for cell in self.cells.values())])
        for key, fingerprint in fingerprints.items():
            cell = self.cells.get(key)
            if cell is None:
                blank = dataset.nothing(self.keep, most, self.stages.size, self.n_arms)
                self.cells[key] = Cell(fingerprint, blank)
                continue
            dataset.check_same(self.path, key, cell.fingerprint, fingerprint)
            if self.keep == "summary" and np.isfinite(count := cell.runs.error[0]):
                dataset.check_count(self.path, count, runs)
            self.cells[key] = Cell(fingerprint, cell.extended(rows).runs)

    def missing(self, key: Key, runs: int) -> NDArray[np.int64]:
        there = self.cells[key].runs.error
        if self.keep == "runs":
            return np.flatnonzero(np.isnan(there[:runs]))
        return np.arange(runs if np.isnan(there[0]) else 0)

    def put(self, key: Key, first: int, rows: Played) -> None:
        for room, new in zip(self.cells[key].runs, rows, strict=True):
            place = (slice(first, first + len(new)), *map(slice, new.shape[1:]))
            room[place] = new
        self.unsaved = self.path is not None

    def save(self) -> None:
        if self.unsaved and self.path is not None:
            most = max(len(cell.runs.regret) for cell in self.cells.values())
            whole = {key: cell.extended(most) for key, cell in self.cells.items()}
            save(dataset.to_dataset(whole, self.stages, most, self.swept, self.keep), self.path)
            self.unsaved = False

    def result(self, keys: list[Key], runs: int) -> "xarray.Dataset":
        rows = runs if self.keep == "runs" else len(STATISTICS)
        asked = {key: self.cells[key] for key in keys}
        return dataset.to_dataset(asked, self.stages, rows, self.swept, self.keep)


def save(data: "xarray.Dataset", file: Path) -> None:
    """Write a dataset to a netCDF file, whole or not at all."""
    write_atomic(file, append_checksum(to_netcdf(data)))


def load(file: Path, swept: Swept, keep: str = "runs") -> tuple[dict[Key, Cell], NDArray[np.int64]]:
    """Read a table and its stages from a file that `save` wrote."""
    data = from_netcdf(read_verified(file))
    if "n_free" in data:  # formats before 3
        data = data.rename(n_free="n_looks")
    try:
        there, kept = _swept(data), "summary" if "statistic" in data.dims else "runs"
        if set(there.names) == set(swept.names):
            there = there._replace(names=swept.names)  # in whichever order
        table = _table(data, swept, keep) if (there, kept) == (swept, keep) else {}
        stages = data["stage"].to_numpy().astype(np.int64)
    except (KeyError, IndexError, TypeError, ValueError) as error:  # netCDF of somebody else
        raise dataset.not_ours(file, f"{type(error).__name__}: {error}") from None
    dataset.check_swept(file, (there, kept), (swept, keep))
    return table, stages


def _swept(data: "xarray.Dataset") -> Swept:
    """Return what was swept in a dataset."""
    usual = {"policy", "run", "statistic", "stage"}
    dims = tuple(str(dim) for dim in data["regret"].dims if dim not in usual)
    if dims != (dataset.POINT,) or dataset.POINT in data.coords:
        return Swept(dims)
    return Swept(tuple(str(name) for name, part in data.coords.items() if part.dims == dims), False)


def _table(data: "xarray.Dataset", swept: Swept, keep: str) -> dict[Key, Cell]:
    """Return the cells of a dataset."""
    cells = json.loads(data.attrs["cells"])
    keys = [(swept.value(cell["value"]), cell["policy"]) for cell in cells]
    axes = Axes(swept, keys)
    arrays = {
        name: data[name].transpose(*axes.dims, dataset.rows_of(keep), *dims).to_numpy()
        for name, (dims, _) in RECORDED.items()
    }
    return {
        key: Cell(
            cell.get("fingerprint") or cell["setting"],
            Played(*(arrays[name][axes.place(key)] for name in Played._fields)),
        )
        for key, cell in zip(keys, cells, strict=True)
    }
