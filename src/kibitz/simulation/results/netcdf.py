"""Results in memory and in one netCDF file.

Any netCDF reader opens the file. The netCDF data are followed by one line with the format and a
SHA-256 checksum, which netCDF readers ignore. kibitz verifies the checksum before HDF5 reads the
data, because HDF5 hangs, crashes or returns wrong numbers on damaged files. A file of kibitz 0.1.0
has no checksum; a child process reads it, because HDF5 may crash.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kibitz._files import write_atomic
from kibitz._netcdf import append_checksum, from_netcdf, read_verified, to_netcdf
from kibitz.simulation.jobs import Outcome
from kibitz.simulation.results import dataset
from kibitz.simulation.results.dataset import RECORDED, Axes, Cell, Fingerprint, Key, Sweep
from kibitz.simulation.results.summary import STATISTICS

if TYPE_CHECKING:
    import xarray


class NetcdfResults:
    """Results in memory, which are saved to a netCDF file if `path` is not None."""

    block = None  # any number of runs can be written

    def __init__(
        self, path: Path | None, sweep: Sweep, keep: str, stages: NDArray[np.int64], n_arms: int
    ) -> None:
        self.path, self.sweep, self.keep, self.stages = path, sweep, keep, stages
        self.n_arms = n_arms
        self.cells: dict[Key, Cell] = {}
        self.is_unsaved = path is not None and not path.exists()
        if path is not None and path.exists():
            self.cells, stored_stages = load(path, sweep, keep)
            dataset.check_stages(path, stored_stages, stages)

    def prepare(self, fingerprints: dict[Key, Fingerprint], runs: int) -> None:
        rows = runs if self.keep == "runs" else len(STATISTICS)
        n_rows = max([rows, *(len(cell.runs.regret) for cell in self.cells.values())])
        for key, fingerprint in fingerprints.items():
            cell = self.cells.get(key)
            if cell is None:
                empty_rows = dataset.empty_rows(self.keep, n_rows, self.stages.size, self.n_arms)
                self.cells[key] = Cell(fingerprint, empty_rows)
                continue
            dataset.check_fingerprint(self.path, key, cell.fingerprint, fingerprint)
            if self.keep == "summary" and np.isfinite(count := cell.runs.error[0]):
                dataset.check_run_count(self.path, count, runs)
            self.cells[key] = Cell(fingerprint, cell.extend(rows).runs)

    def missing_runs(self, key: Key, runs: int) -> NDArray[np.int64]:
        stored_errors = self.cells[key].runs.error
        if self.keep == "runs":
            return np.flatnonzero(np.isnan(stored_errors[:runs]))
        return np.arange(runs if np.isnan(stored_errors[0]) else 0)

    def write(self, key: Key, first: int, rows: Outcome) -> None:
        for array, new_rows in zip(self.cells[key].runs, rows, strict=True):
            position = (slice(first, first + len(new_rows)), *map(slice, new_rows.shape[1:]))
            array[position] = new_rows
        self.is_unsaved = self.path is not None

    def save(self) -> None:
        if self.is_unsaved and self.path is not None:
            n_rows = max(len(cell.runs.regret) for cell in self.cells.values())
            extended_cells = {key: cell.extend(n_rows) for key, cell in self.cells.items()}
            save(
                dataset.to_dataset(extended_cells, self.stages, n_rows, self.sweep, self.keep),
                self.path,
            )
            self.is_unsaved = False

    def result(self, keys: list[Key], runs: int) -> "xarray.Dataset":
        rows = runs if self.keep == "runs" else len(STATISTICS)
        requested_cells = {key: self.cells[key] for key in keys}
        return dataset.to_dataset(requested_cells, self.stages, rows, self.sweep, self.keep)


def save(data: "xarray.Dataset", file: Path) -> None:
    """Write a dataset to a netCDF file atomically."""
    write_atomic(file, append_checksum(to_netcdf(data)))


def load(file: Path, sweep: Sweep, keep: str = "runs") -> tuple[dict[Key, Cell], NDArray[np.int64]]:
    """Read the cells and the stages of a file that `save` wrote."""
    data = from_netcdf(read_verified(file))
    if "n_free" in data:  # formats before 3
        data = data.rename(n_free="n_looks")
    try:
        stored_sweep, stored_keep = (
            _read_sweep(data),
            "summary" if "statistic" in data.dims else "runs",
        )
        if set(stored_sweep.names) == set(sweep.names):
            stored_sweep = stored_sweep._replace(
                names=sweep.names
            )  # the order of the names does not matter
        cells = _read_cells(data, sweep, keep) if (stored_sweep, stored_keep) == (sweep, keep) else {}
        stages = data["stage"].to_numpy().astype(np.int64)
    except (KeyError, IndexError, TypeError, ValueError) as error:  # not written by kibitz
        raise dataset.make_unreadable_error(file, f"{type(error).__name__}: {error}") from None
    dataset.check_sweep(file, (stored_sweep, stored_keep), (sweep, keep))
    return cells, stages


def _read_sweep(data: "xarray.Dataset") -> Sweep:
    """Return the swept parameters of a dataset."""
    usual_dims = {"policy", "run", "statistic", "stage"}
    dims = tuple(str(dim) for dim in data["regret"].dims if dim not in usual_dims)
    if dims != (dataset.POINT,) or dataset.POINT in data.coords:
        return Sweep(dims)
    return Sweep(
        tuple(str(name) for name, coordinate in data.coords.items() if coordinate.dims == dims), False
    )


def _read_cells(data: "xarray.Dataset", sweep: Sweep, keep: str) -> dict[Key, Cell]:
    """Return the cells of a dataset, by key."""
    cells = json.loads(data.attrs["cells"])
    keys = [(sweep.from_plain(cell["value"]), cell["policy"]) for cell in cells]
    axes = Axes(sweep, keys)
    arrays = {
        name: data[name].transpose(*axes.dims, dataset.row_dimension(keep), *dims).to_numpy()
        for name, (dims, _) in RECORDED.items()
    }
    return {
        key: Cell(
            cell.get("fingerprint") or cell["setting"],
            Outcome(*(arrays[name][axes.position(key)] for name in Outcome._fields)),
        )
        for key, cell in zip(keys, cells, strict=True)
    }
