"""Results as labelled arrays: the axes, the variables, and what every format of files has in common.

A result has the dimensions `policy`, one for each name that was swept (or `point`), `run` (or
`statistic`), `stage` and `arm`. Runs that are not played yet (of an interrupted simulation) are NaN
in `regret` and -1 in the counts.

A cell is one policy at one point. Its key is the values of what was swept, in the order of their
names, and the label of the policy.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kibitz._netcdf import FORMAT
from kibitz._validation import short_repr
from kibitz.simulation.fingerprint import difference
from kibitz.simulation.jobs import Played, no_runs
from kibitz.simulation.results.summary import STATISTICS

if TYPE_CHECKING:
    import xarray

Key = tuple[tuple[Any, ...], str]
Fingerprint = dict[str, Any]  # the fingerprint of a cell: all that its numbers depend on

POINT = "point"  # the dimension of a list of points; it has no coordinate of its own
FINAL = "cumulative regret at the horizon"
# of each recorded quantity: its dimensions beside those of the sweep, and its long name
RECORDED = {
    "regret": (("stage",), "cumulative regret Σ Δ_i N_i at the end of the stage"),
    "n_pulls": (("arm",), "pulls of each arm in all"),
    "n_looks": (("arm",), "looks at each arm in all"),
    "error": ((), "distance from the stage-by-stage law, in total variation"),
}


class Results(Protocol):
    """Where the runs of a simulation are stored: in memory, a netCDF file or a Zarr folder."""

    @property
    def keep(self) -> str:
        """What is stored of a cell: its "runs", or a "summary" of them."""

    @property
    def block(self) -> int | None:
        """How many runs must be put together; None for any number."""

    def ask(self, fingerprints: dict[Key, Fingerprint], runs: int) -> None:
        """Make room for the runs of some cells; reject cells stored with another fingerprint."""

    def missing(self, key: Key, runs: int) -> NDArray[np.int64]:
        """Return which runs must be played to have the first `runs` of a cell."""

    def put(self, key: Key, first: int, rows: Played) -> None:
        """Store rows of a cell, from the row `first` on."""

    def save(self) -> None:
        """Write to disk what is not written yet."""

    def result(self, keys: list[Key], runs: int) -> "xarray.Dataset":
        """Return the first `runs` runs of some cells."""


# -------------------------------------------------------------------------------------------- axes


class Swept(NamedTuple):
    """What was swept: nothing, values of which all combinations were played, or a list of points."""

    names: tuple[str, ...] = ()
    grid: bool = True

    @property
    def dims(self) -> tuple[str, ...]:
        """The dimensions that this adds to a result."""
        return self.names if self.grid else (POINT,)

    def __str__(self) -> str:
        if not self.names:
            return "without a sweep"
        points = "" if self.grid else "points of "
        return f"with a sweep over {points}{' and '.join(self.names)}"

    def plain(self, value: tuple[Any, ...]) -> Any:
        """Return the values of a key as plain data: null, one value, or values by name."""
        if len(self.names) < 2:
            return value[0] if value else None
        return dict(zip(self.names, value, strict=True))

    def value(self, plain: Any) -> tuple[Any, ...]:
        """Return the values of a key from plain data."""
        if len(self.names) < 2:
            return (plain,) if self.names else ()
        return tuple(plain[name] for name in self.names)


class Axes:
    """The labels on each axis, in the order in which they came; more can be added, none is moved."""

    def __init__(self, swept: Swept, keys: Iterable[Key] = ()) -> None:
        self.swept = swept
        self.dims = ("policy", *swept.dims)
        self.places: list[dict[Any, int]] = [{} for _ in self.dims]
        for key in keys:
            self.add(key)

    def _labels(self, key: Key) -> tuple[Any, ...]:
        value, label = key
        return (label, *value) if self.swept.grid else (label, value)

    def add(self, key: Key) -> None:
        """Make sure that a key has a place."""
        for axis, label in zip(self.places, self._labels(key), strict=True):
            axis.setdefault(label, len(axis))

    def place(self, key: Key) -> tuple[int, ...]:
        """Return where a cell stands."""
        return tuple(axis[label] for axis, label in zip(self.places, self._labels(key), strict=True))

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of labels on each axis."""
        return tuple(map(len, self.places))

    @property
    def coordinates(self) -> dict[str, tuple[str, list[Any]]]:
        """The coordinates of the axes, by name: the dimension and the labels."""
        labels, *swept = (list(axis) for axis in self.places)
        if self.swept.grid:
            own = dict(zip(self.swept.names, swept, strict=True))
            return {name: (name, values) for name, values in {"policy": labels, **own}.items()}
        columns = zip(self.swept.names, zip(*swept[0], strict=True), strict=True)
        return {
            "policy": ("policy", labels),
            **{name: (POINT, list(values)) for name, values in columns},
        }


# ------------------------------------------------------------------------------ datasets


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
    """What is kept of one policy in one fingerprint: a row for each run, or for each statistic."""

    fingerprint: Fingerprint
    runs: Played

    def extended(self, rows: int) -> "Cell":
        """Return the same with room for at least so many rows."""
        more = max(0, rows - len(self.runs.regret))
        extra = no_runs(more, self.runs.regret.shape[1], self.runs.n_pulls.shape[1])
        both: Any = map(np.concatenate, zip(self.runs, extra, strict=True))
        return Cell(self.fingerprint, Played(*both))


def to_dataset(
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
        end = np.searchsorted(stages, cell.fingerprint["horizon"])
        final[axes.place(key)] = cell.runs.regret[:rows, end]
    data["final_regret"] = (lead, final)
    data["final_regret"].attrs["long_name"] = FINAL
    fingerprints = {key: cell.fingerprint for key, cell in table.items()}
    data.attrs = attributes(fingerprints)
    data.attrs["cells"] = json.dumps(list_cells(swept, fingerprints), ensure_ascii=False)
    return data


def list_cells(swept: Swept, fingerprints: dict[Key, Fingerprint]) -> list[dict[str, Any]]:
    """Return the cells of a result as plain data."""
    return [
        {"value": swept.plain(value), "policy": label, "fingerprint": fingerprint}
        for (value, label), fingerprint in fingerprints.items()
    ]


def attributes(fingerprints: dict[Key, Fingerprint]) -> dict[str, Any]:
    """Return what a result says of itself: what its cells have in common, and who made it."""
    engines = {label: fingerprint["engine"] for (_, label), fingerprint in fingerprints.items()}
    return {
        "format": FORMAT,
        "fingerprint": json.dumps(common_parts(fingerprints), ensure_ascii=False),
        "engine": json.dumps(engines, ensure_ascii=False),
        "versions": json.dumps(versions()),
    }


def common_parts(fingerprints: dict[Key, Fingerprint]) -> dict[str, Any]:
    """Return what all cells have in common, with the policies by label."""
    common = dict(next(iter(fingerprints.values())))
    del common["policy"]
    for fingerprint in fingerprints.values():
        for name in [n for n in common if n not in fingerprint or fingerprint[n] != common[n]]:
            del common[name]
    common["policies"] = {
        label: fingerprint["policy"] for (_, label), fingerprint in fingerprints.items()
    }
    return common


@cache
def versions() -> dict[str, str]:
    """Return the versions of all that a number may depend on."""
    names = ("kibitz", "numpy", "numba", "scipy", "xarray")
    return {name: version(name) for name in names}


# ---------------------------------------------------------------------------------- checks


def check_same(path: Path | None, key: Key, old: Fingerprint, new: Fingerprint) -> None:
    """Refuse to go on with a cell of another fingerprint."""
    differs = difference(old, new)
    if differs:
        raise wrong_fingerprint(path, f"{differs} for {key[1]}")


def check_swept(path: Path, there: tuple[Swept, str], asked: tuple[Swept, str]) -> None:
    """Refuse a file of another sweep, or one that keeps something else."""
    if there != asked:
        keeps = f" that keeps {'runs' if there[1] == 'runs' else 'a summary'}"
        raise ValueError(
            f"file must be of the same setting, got {short_repr(str(path))} {there[0]}"
            f"{keeps if there[1] != asked[1] else ''}"
        )


def check_stages(path: Path, there: NDArray[np.int64], asked: NDArray[np.int64]) -> None:
    """Refuse a file with other stages."""
    if not np.array_equal(there, asked):
        raise wrong_fingerprint(path, f"stages up to {there[-1]} that differ from those asked for")


def check_count(path: Path | None, there: float, runs: int) -> None:
    """Refuse to go on with a summary of another number of runs, which are not kept."""
    if there != runs:
        raise wrong_fingerprint(path, f"a summary of {there:g} runs instead of {runs}")


def wrong_fingerprint(path: Path | None, differs: str) -> ValueError:
    """Return the error that says what is different in a file."""
    return ValueError(f"file must be of the same setting, got {short_repr(str(path))} with {differs}")


def not_ours(file: Path, reason: str) -> ValueError:
    """Return the error that says why a file is none of ours."""
    return ValueError(
        f"file must be a result that kibitz saved, got {short_repr(str(file))} ({reason})"
    )
