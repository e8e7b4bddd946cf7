"""Results as labelled arrays: axes, variables, and the code that both file formats share.

A result has the dimensions `policy`, one dimension for each swept parameter (or `point`), `run` (or
`statistic`), `stage` and `arm`. After an interruption, runs that are not played yet are NaN in
`regret` and -1 in the counts.

A cell holds the runs of one policy at one point. Its key holds the values of the swept parameters, in
the order of their names, and the label of the policy.
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
from kibitz.simulation.jobs import Outcome, empty_outcome
from kibitz.simulation.results.summary import STATISTICS

if TYPE_CHECKING:
    import xarray

Key = tuple[tuple[Any, ...], str]
Fingerprint = dict[str, Any]  # everything that the numbers of a cell depend on

POINT = "point"  # the dimension of a list of points; it has no coordinate
FINAL = "cumulative regret at the horizon"
# for each recorded quantity: its dimensions after policy, swept parameters and run; its long name
RECORDED = {
    "regret": (("stage",), "cumulative regret Σ Δ_i N_i at the end of the stage"),
    "n_pulls": (("arm",), "total pulls of each arm"),
    "n_looks": (("arm",), "total looks at each arm"),
    "error": ((), "distance from the stage-by-stage distribution, in total variation"),
}


class Results(Protocol):
    """Storage for the runs of a simulation: memory, a netCDF file or a Zarr folder."""

    @property
    def keep(self) -> str:
        """What is stored: every run ("runs") or statistics of the runs ("summary")."""

    @property
    def block(self) -> int | None:
        """The number of runs that must be written together; None if any number is possible."""

    def prepare(self, fingerprints: dict[Key, Fingerprint], runs: int) -> None:
        """Prepare for `runs` runs of each cell; raise ValueError if a stored fingerprint differs."""

    def missing(self, key: Key, runs: int) -> NDArray[np.int64]:
        """Return the runs that must be played to complete the first `runs` runs of a cell."""

    def write(self, key: Key, first: int, rows: Outcome) -> None:
        """Store rows of a cell, starting at row `first`."""

    def save(self) -> None:
        """Write to disk everything that is not written yet."""

    def result(self, keys: list[Key], runs: int) -> "xarray.Dataset":
        """Return the first `runs` runs of the given cells."""


# -------------------------------------------------------------------------------------------- axes


class Sweep(NamedTuple):
    """The swept parameters: none, a grid of all combinations, or a list of points."""

    names: tuple[str, ...] = ()
    grid: bool = True

    @property
    def dims(self) -> tuple[str, ...]:
        """The dimensions that the sweep adds to a result."""
        return self.names if self.grid else (POINT,)

    def __str__(self) -> str:
        if not self.names:
            return "without a sweep"
        points = "" if self.grid else "points of "
        return f"with a sweep over {points}{' and '.join(self.names)}"

    def plain(self, value: tuple[Any, ...]) -> Any:
        """Return the values of a key as plain data: None, one value, or values by name."""
        if len(self.names) < 2:
            return value[0] if value else None
        return dict(zip(self.names, value, strict=True))

    def value(self, plain: Any) -> tuple[Any, ...]:
        """Return the values of a key from plain data."""
        if len(self.names) < 2:
            return (plain,) if self.names else ()
        return tuple(plain[name] for name in self.names)


class Axes:
    """The labels on each axis, in the order in which they were added; positions never change."""

    def __init__(self, swept: Sweep, keys: Iterable[Key] = ()) -> None:
        self.swept = swept
        self.dims = ("policy", *swept.dims)
        self.positions: list[dict[Any, int]] = [{} for _ in self.dims]
        for key in keys:
            self.add(key)

    def _labels(self, key: Key) -> tuple[Any, ...]:
        value, label = key
        return (label, *value) if self.swept.grid else (label, value)

    def add(self, key: Key) -> None:
        """Add the labels of a key; a label that is already on its axis keeps its position."""
        for axis, label in zip(self.positions, self._labels(key), strict=True):
            axis.setdefault(label, len(axis))

    def position(self, key: Key) -> tuple[int, ...]:
        """Return the index of a cell along each axis."""
        return tuple(
            axis[label] for axis, label in zip(self.positions, self._labels(key), strict=True)
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of labels on each axis."""
        return tuple(map(len, self.positions))

    @property
    def coordinates(self) -> dict[str, tuple[str, list[Any]]]:
        """The dimension and the labels of each coordinate, by the coordinate's name."""
        labels, *swept = (list(axis) for axis in self.positions)
        if self.swept.grid:
            own = dict(zip(self.swept.names, swept, strict=True))
            return {name: (name, values) for name, values in {"policy": labels, **own}.items()}
        columns = zip(self.swept.names, zip(*swept[0], strict=True), strict=True)
        return {
            "policy": ("policy", labels),
            **{name: (POINT, list(values)) for name, values in columns},
        }


# ------------------------------------------------------------------------------ datasets


def row_dimension(keep: str) -> str:
    """Return the name of the dimension along the rows of a cell: "run" or "statistic"."""
    return "run" if keep == "runs" else "statistic"


def empty_rows(keep: str, rows: int, n_stages: int, n_arms: int) -> Outcome:
    """Return rows without data: NaN everywhere, except -1 in counts if `keep` is "runs"."""
    blank: Any = empty_outcome(rows, n_stages, n_arms)
    if keep == "summary":
        blank = Outcome(*(np.full(part.shape, np.nan) for part in blank))
    return blank


@dataclass(eq=False)
class Cell:
    """The fingerprint and the stored rows of one policy at one point."""

    fingerprint: Fingerprint
    runs: Outcome

    def extend(self, rows: int) -> "Cell":
        """Return a copy with at least `rows` rows; new rows have no data."""
        more = max(0, rows - len(self.runs.regret))
        extra = empty_outcome(more, self.runs.regret.shape[1], self.runs.n_pulls.shape[1])
        both: Any = map(np.concatenate, zip(self.runs, extra, strict=True))
        return Cell(self.fingerprint, Outcome(*both))


def to_dataset(
    table: dict[Key, Cell], stages: NDArray[np.int64], rows: int, swept: Sweep, keep: str
) -> "xarray.Dataset":
    """Return the first `rows` rows of all cells as a dataset."""
    import xarray

    axes = Axes(swept, table)
    first = next(iter(table.values())).runs
    n_arms = first.n_pulls.shape[1]
    blank = empty_rows(keep, 1, stages.size, n_arms)
    leading_dims = (*axes.dims, row_dimension(keep))
    data = xarray.Dataset(
        coords={
            **axes.coordinates,
            row_dimension(keep): np.arange(rows) if keep == "runs" else list(STATISTICS),
            "stage": stages,
            "arm": np.arange(n_arms),
        }
    )
    for name, (dims, long_name) in RECORDED.items():
        empty = getattr(blank, name)
        array = np.empty((*axes.shape, rows, *empty.shape[1:]), empty.dtype)
        array[:] = empty[0]
        for key, cell in table.items():
            array[axes.position(key)] = getattr(cell.runs, name)[:rows]
        data[name] = ((*leading_dims, *dims), array)
        data[name].attrs["long_name"] = long_name
    final = np.full((*axes.shape, rows), np.nan)
    for key, cell in table.items():
        end = np.searchsorted(stages, cell.fingerprint["horizon"])
        final[axes.position(key)] = cell.runs.regret[:rows, end]
    data["final_regret"] = (leading_dims, final)
    data["final_regret"].attrs["long_name"] = FINAL
    fingerprints = {key: cell.fingerprint for key, cell in table.items()}
    data.attrs = attributes(fingerprints)
    data.attrs["cells"] = json.dumps(list_cells(swept, fingerprints), ensure_ascii=False)
    return data


def list_cells(swept: Sweep, fingerprints: dict[Key, Fingerprint]) -> list[dict[str, Any]]:
    """Return the cells of a result as plain data."""
    return [
        {"value": swept.plain(value), "policy": label, "fingerprint": fingerprint}
        for (value, label), fingerprint in fingerprints.items()
    ]


def attributes(fingerprints: dict[Key, Fingerprint]) -> dict[str, Any]:
    """Return the attributes of a result: the common fingerprint, the engines and the versions."""
    engines = {label: fingerprint["engine"] for (_, label), fingerprint in fingerprints.items()}
    return {
        "format": FORMAT,
        "fingerprint": json.dumps(find_common(fingerprints), ensure_ascii=False),
        "engine": json.dumps(engines, ensure_ascii=False),
        "versions": json.dumps(versions()),
    }


def find_common(fingerprints: dict[Key, Fingerprint]) -> dict[str, Any]:
    """Return the parts of the fingerprints that all cells share, and the policies by label."""
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
    """Return the versions of kibitz and the libraries it computes with."""
    names = ("kibitz", "numpy", "numba", "scipy", "xarray")
    return {name: version(name) for name in names}


# ---------------------------------------------------------------------------------- checks


def check_same(path: Path | None, key: Key, old: Fingerprint, new: Fingerprint) -> None:
    """Raise ValueError if a cell was stored with a different fingerprint."""
    differs = difference(old, new)
    if differs:
        raise fingerprint_mismatch(path, f"{differs} for {key[1]}")


def check_sweep(path: Path, stored: tuple[Sweep, str], requested: tuple[Sweep, str]) -> None:
    """Raise ValueError if a file holds another sweep, or runs instead of a summary or vice versa."""
    if stored != requested:
        keeps = f" and keeps {'runs' if stored[1] == 'runs' else 'a summary'}"
        raise ValueError(
            f"{short_repr(str(path))} cannot be resumed: it was saved {stored[0]}"
            f"{keeps if stored[1] != requested[1] else ''}"
        )


def check_stages(path: Path, stored: NDArray[np.int64], requested: NDArray[np.int64]) -> None:
    """Raise ValueError if a file has different stages."""
    if not np.array_equal(stored, requested):
        raise fingerprint_mismatch(
            path, f"a different horizon or different recorded stages (the last is {stored[-1]})"
        )


def check_count(path: Path | None, stored: float, runs: int) -> None:
    """Raise ValueError if a summary has a different number of runs; no runs can be added to it."""
    if stored != runs:
        raise fingerprint_mismatch(path, f"a summary of {stored:g} runs instead of {runs}")


def fingerprint_mismatch(path: Path | None, differs: str) -> ValueError:
    """Return (not raise) the error for a file with a different fingerprint."""
    return ValueError(f"{short_repr(str(path))} cannot be resumed: it has {differs}")


def unreadable(file: Path, reason: str) -> ValueError:
    """Return (not raise) the error for a file that is not a result of kibitz."""
    return ValueError(f"cannot read {short_repr(str(file))} as a result of kibitz: {reason}")
