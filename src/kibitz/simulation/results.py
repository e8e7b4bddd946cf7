"""From arrays to a labelled `xarray.Dataset`, and to one netCDF file and back.

A result has the dimensions `policy`, whatever was swept, `run` (or `statistic`), `stage` and `arm`.
What is not there yet (of an interrupted simulation) is NaN in `regret` and -1 in the counts.

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
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kibitz._files import write_whole
from kibitz._validation import quoted
from kibitz.simulation.axes import POINT, Axes, Key, Swept
from kibitz.simulation.identity import difference
from kibitz.simulation.jobs import Job, Played, no_runs
from kibitz.simulation.summary import STATISTICS

if TYPE_CHECKING:
    import xarray

FORMAT = 2  # of a saved file; 1 is that of kibitz 0.1.0
LAST_LINE = re.compile(rb"\nkibitz format (\d+) sha256 ([0-9a-f]{64})\n\Z")
READING_SECONDS = 60  # that a file without a checksum may take to read

FINAL = "cumulative regret at the horizon"
# of each recorded quantity: its dimensions beside those of the sweep, and what it is
RECORDED = {
    "regret": (("stage",), "cumulative regret Σ Δ_i N_i at the end of the stage"),
    "n_pulls": (("arm",), "pulls of each arm in all"),
    "n_free": (("arm",), "looks at each arm in all"),
    "error": ((), "distance from the stage-by-stage law, in total variation"),
}


def rows_of(keep: str) -> str:
    """Return the dimension of what is kept of a cell: each run, or statistics of them."""
    return "run" if keep == "runs" else "statistic"


def nothing(keep: str, rows: int, n_stages: int, n_arms: int) -> Played:
    """Return room for rows that are not there yet: NaN, and -1 where runs are counted."""
    blank: Any = no_runs(rows, n_stages, n_arms)
    if keep == "summary":
        blank = Played(*(np.full(part.shape, np.nan) for part in blank))
    return blank


@dataclass(eq=False)
class Cell:
    """What is kept of one policy in one setting: a row for each run, or for each statistic."""

    setting: dict[str, Any]
    runs: Played

    def extended(self, rows: int) -> "Cell":
        """Return the same with room for at least so many rows."""
        more = max(0, rows - len(self.runs.regret))
        extra = no_runs(more, self.runs.regret.shape[1], self.runs.n_pulls.shape[1])
        both: Any = map(np.concatenate, zip(self.runs, extra, strict=True))
        return Cell(self.setting, Played(*both))


class Gathering:
    """Cells to be summarised whose runs come in parts, until they are whole."""

    def __init__(self, runs: int) -> None:
        self.runs = runs
        self.cells: dict[Key, Played] = {}
        self.missing: dict[Key, int] = {}

    def add(self, job: Job, played: Played) -> Played | None:
        """Add some runs; return all of them when they are there."""
        key = job.label
        if key not in self.cells:
            self.cells[key] = no_runs(self.runs, job.stages.size, job.problem.n_arms)
            self.missing[key] = self.runs
        for room, new in zip(self.cells[key], played, strict=True):
            room[job.first : job.last] = new
        self.missing[key] -= job.last - job.first
        if self.missing[key]:
            return None
        del self.missing[key]
        return self.cells.pop(key)


class Table:
    """A result in memory, and the netCDF file that it is saved to, if there is one."""

    def __init__(
        self, path: Path | None, swept: Swept, keep: str, stages: NDArray[np.int64], n_arms: int
    ) -> None:
        self.path, self.swept, self.keep, self.stages = path, swept, keep, stages
        self.n_arms = n_arms
        self.cells: dict[Key, Cell] = {}
        self.unsaved = path is not None and not path.exists()
        if path is not None and path.exists():
            self.cells, there = load(path, swept, keep)
            check_stages(path, there, stages)

    def ask(self, settings: dict[Key, dict[str, Any]], runs: int) -> None:
        """Make room for cells; refuse those that are there with another setting."""
        rows = runs if self.keep == "runs" else len(STATISTICS)
        most = max([rows, *(len(cell.runs.regret) for cell in self.cells.values())])
        for key, setting in settings.items():
            cell = self.cells.get(key)
            if cell is None:
                blank = nothing(self.keep, most, self.stages.size, self.n_arms)
                self.cells[key] = Cell(setting, blank)
                continue
            check_same(self.path, key, cell.setting, setting)
            if self.keep == "summary" and np.isfinite(count := cell.runs.error[0]):
                check_count(self.path, count, runs)
            self.cells[key] = Cell(setting, cell.extended(rows).runs)

    def missing(self, key: Key, runs: int) -> NDArray[np.int64]:
        """Return which of the first `runs` runs are not there yet."""
        there = self.cells[key].runs.error
        if self.keep == "runs":
            return np.flatnonzero(np.isnan(there[:runs]))
        return np.arange(runs if np.isnan(there[0]) else 0)

    def put(self, key: Key, first: int, rows: Played) -> None:
        """Write rows of a cell."""
        for room, new in zip(self.cells[key].runs, rows, strict=True):
            place = (slice(first, first + len(new)), *map(slice, new.shape[1:]))
            room[place] = new
        self.unsaved = self.path is not None

    def save(self) -> None:
        """Write the file, if anything is new."""
        if self.unsaved and self.path is not None:
            most = max(len(cell.runs.regret) for cell in self.cells.values())
            whole = {key: cell.extended(most) for key, cell in self.cells.items()}
            save(dataset(whole, self.stages, most, self.swept, self.keep), self.path)
            self.unsaved = False

    def result(self, keys: list[Key], runs: int) -> "xarray.Dataset":
        """Return the cells that were asked for."""
        rows = runs if self.keep == "runs" else len(STATISTICS)
        asked = {key: self.cells[key] for key in keys}
        return dataset(asked, self.stages, rows, self.swept, self.keep)


def dataset(
    table: dict[Key, Cell], stages: NDArray[np.int64], rows: int, swept: Swept, keep: str
) -> "xarray.Dataset":
    """Return the first rows of a table as a labelled dataset."""
    import xarray

    axes = Axes(swept, table)
    first = next(iter(table.values())).runs
    n_arms = first.n_pulls.shape[1]
    blank = nothing(keep, 1, stages.size, n_arms)
    lead = (*axes.dims, rows_of(keep))
    data = xarray.Dataset(
        coords={
            **axes.coordinates,
            rows_of(keep): np.arange(rows) if keep == "runs" else list(STATISTICS),
            "stage": stages,
            "arm": np.arange(n_arms),
        }
    )
    for name, (dims, words) in RECORDED.items():
        empty = getattr(blank, name)
        array = np.empty((*axes.shape, rows, *empty.shape[1:]), empty.dtype)
        array[:] = empty[0]
        for key, cell in table.items():
            array[axes.place(key)] = getattr(cell.runs, name)[:rows]
        data[name] = ((*lead, *dims), array)
        data[name].attrs["long_name"] = words
    final = np.full((*axes.shape, rows), np.nan)
    for key, cell in table.items():
        end = np.searchsorted(stages, cell.setting["horizon"])
        final[axes.place(key)] = cell.runs.regret[:rows, end]
    data["final_regret"] = (lead, final)
    data["final_regret"].attrs["long_name"] = FINAL
    settings = {key: cell.setting for key, cell in table.items()}
    cells = [
        {"value": swept.plain(value), "policy": label, "setting": setting}
        for (value, label), setting in settings.items()
    ]
    data.attrs = attributes(settings)
    data.attrs["cells"] = json.dumps(cells, ensure_ascii=False)
    return data


def attributes(settings: dict[Key, dict[str, Any]]) -> dict[str, Any]:
    """Return what a result says of itself: what its cells have in common, and who made it."""
    engines = {label: setting["engine"] for (_, label), setting in settings.items()}
    return {
        "format": FORMAT,
        "setting": json.dumps(common_setting(settings), ensure_ascii=False),
        "engine": json.dumps(engines, ensure_ascii=False),
        "versions": json.dumps(versions()),
    }


def common_setting(settings: dict[Key, dict[str, Any]]) -> dict[str, Any]:
    """Return what all cells have in common, with the policies by label."""
    common = dict(next(iter(settings.values())))
    del common["policy"]
    for setting in settings.values():
        for name in [n for n in common if n not in setting or setting[n] != common[n]]:
            del common[name]
    common["policies"] = {label: setting["policy"] for (_, label), setting in settings.items()}
    return common


def check_same(path: Path | None, key: Key, old: dict[str, Any], new: dict[str, Any]) -> None:
    """Refuse to go on with a cell of another setting."""
    differs = difference(old, new)
    if differs:
        raise other_setting(path, f"{differs} for {key[1]}")


def check_swept(path: Path, there: tuple[Swept, str], asked: tuple[Swept, str]) -> None:
    """Refuse a file of another sweep, or one that keeps something else."""
    if there != asked:
        keeps = f" that keeps {'runs' if there[1] == 'runs' else 'a summary'}"
        raise ValueError(
            f"file must be of the same setting, got {quoted(str(path))} {there[0]}"
            f"{keeps if there[1] != asked[1] else ''}"
        )


def check_stages(path: Path, there: NDArray[np.int64], asked: NDArray[np.int64]) -> None:
    """Refuse a file with other stages."""
    if not np.array_equal(there, asked):
        raise other_setting(path, f"stages up to {there[-1]} that differ from those asked for")


def check_count(path: Path | None, there: float, runs: int) -> None:
    """Refuse to go on with a summary of another number of runs, which are not kept."""
    if there != runs:
        raise other_setting(path, f"a summary of {there:g} runs instead of {runs}")


def other_setting(path: Path | None, differs: str) -> ValueError:
    """Return the error that says what is different in a file."""
    return ValueError(f"file must be of the same setting, got {quoted(str(path))} with {differs}")


@cache
def versions() -> dict[str, str]:
    """Return the versions of all that a number may depend on."""
    names = ("kibitz", "numpy", "numba", "scipy", "xarray")
    return {name: version(name) for name in names}


def save(data: "xarray.Dataset", file: Path) -> None:
    """Write a dataset to a netCDF file, whole or not at all."""
    write_whole(file, sealed(to_netcdf(data)))


def sealed(netcdf: bytes) -> bytes:
    """Return what a file holds: netCDF, and the line with its checksum."""
    digest = hashlib.sha256(netcdf).hexdigest()
    return netcdf + f"\nkibitz format {FORMAT} sha256 {digest}\n".encode()


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


def load(file: Path, swept: Swept, keep: str = "runs") -> tuple[dict[Key, Cell], NDArray[np.int64]]:
    """Read a table and its stages from a file that `save` wrote."""
    data = from_netcdf(verified(file))
    try:
        there, kept = _swept(data), "summary" if "statistic" in data.dims else "runs"
        if set(there.names) == set(swept.names):
            there = there._replace(names=swept.names)  # in whichever order
        table = _table(data, swept, keep) if (there, kept) == (swept, keep) else {}
        stages = data["stage"].to_numpy().astype(np.int64)
    except (KeyError, IndexError, TypeError, ValueError) as error:  # netCDF of somebody else
        raise not_ours(file, f"{type(error).__name__}: {error}") from None
    check_swept(file, (there, kept), (swept, keep))
    return table, stages


def _swept(data: "xarray.Dataset") -> Swept:
    """Return what was swept in a dataset."""
    usual = {"policy", "run", "statistic", "stage"}
    dims = tuple(str(dim) for dim in data["regret"].dims if dim not in usual)
    if dims != (POINT,) or POINT in data.coords:
        return Swept(dims)
    return Swept(tuple(str(name) for name, part in data.coords.items() if part.dims == dims), False)


def _table(data: "xarray.Dataset", swept: Swept, keep: str) -> dict[Key, Cell]:
    """Return the cells of a dataset."""
    cells = json.loads(data.attrs["cells"])
    keys = [(swept.value(cell["value"]), cell["policy"]) for cell in cells]
    axes = Axes(swept, keys)
    arrays = {
        name: data[name].transpose(*axes.dims, rows_of(keep), *dims).to_numpy()
        for name, (dims, _) in RECORDED.items()
    }
    return {
        key: Cell(
            cell["setting"], Played(*(arrays[name][axes.place(key)] for name in Played._fields))
        )
        for key, cell in zip(keys, cells, strict=True)
    }


def verified(file: Path) -> bytes:
    """Return the netCDF part of a saved file, if its checksum is right."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise not_ours(file, error.strerror or str(error)) from None
    found = LAST_LINE.search(content)
    if found is None:
        return _of_0_1_0(file)
    if int(found[1]) > FORMAT:
        raise not_ours(file, f"its format {int(found[1])} is that of a later version")
    netcdf = content[: found.start()]
    if hashlib.sha256(netcdf).hexdigest().encode() != found[2]:
        raise not_ours(file, "it is damaged: its checksum is another")
    return netcdf


def _of_0_1_0(file: Path) -> bytes:
    """Return a file without a checksum, as it is read and written again by another process."""
    code = "import sys; from kibitz.simulation.results import resave; resave(sys.argv[1])"
    try:
        child = subprocess.run(
            [sys.executable, "-c", code, str(file)], capture_output=True, timeout=READING_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise not_ours(file, f"it could not be read within {READING_SECONDS} s") from None
    if child.returncode != 0:
        raise not_ours(file, "it is damaged, or no netCDF file")
    return child.stdout


def resave(file: str) -> None:
    """Write a file of kibitz 0.1.0 to standard output; the process that calls this may crash."""
    data = from_netcdf(Path(file).read_bytes())
    if "format" in data.attrs:  # it had a checksum, and has lost it
        sys.exit(1)
    sys.stdout.buffer.write(to_netcdf(data))


def not_ours(file: Path, reason: str) -> ValueError:
    """Return the error that says why a file is none of ours."""
    return ValueError(f"file must be a result that kibitz saved, got {quoted(str(file))} ({reason})")
