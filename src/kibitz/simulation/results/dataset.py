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

MAX_DESCRIBED = 30  # a longer list is described by its length
POINT = "point"  # the dimension of a list of points; it has no coordinate
FINAL_REGRET_NAME = "cumulative regret at the horizon"
# for each recorded quantity: its dimensions after policy, swept parameters and run; its long name
RECORDED = {
    "regret": (("stage",), "cumulative regret Σ Δ_i N_i at the end of the stage"),
    "n_pulls": (("arm",), "total pulls of each arm"),
    "n_looks": (("arm",), "total looks at each arm"),
    "error": ((), "distance from the stage-by-stage distribution, in total variation"),
}


UNITS = {
    "regret": "reward",
    "final_regret": "reward",
    "n_pulls": "pulls",
    "n_looks": "looks",
    "error": "1",
}
COORDINATE_ATTRIBUTES = {
    "policy": {"long_name": "label of the policy"},
    "run": {"long_name": "number of the run", "units": "1"},
    "statistic": {"long_name": "statistic of the runs"},
    "stage": {"long_name": "stage", "units": "stages"},
    "arm": {"long_name": "number of the arm", "units": "1"},
    "nth": {"long_name": "number of the look at the stage", "units": "1"},
    "rate": {"long_name": "rate of looks", "units": "looks per stage"},
    "horizon": {"long_name": "number of stages", "units": "stages"},
    "draw": {"long_name": "number of the random problem", "units": "1"},
}


class Results(Protocol):
    """Storage for the runs of a simulation: memory, a netCDF file or a Zarr folder."""

    @property
    def keep(self) -> str:
        """Whether every run is stored ("runs") or only statistics of the runs ("summary")."""

    @property
    def block(self) -> int | None:
        """The number of runs that must be written together; None if any number is possible."""

    def prepare(self, fingerprints: dict[Key, Fingerprint], runs: int) -> None:
        """Prepare for `runs` runs of each cell; raise ValueError if a stored fingerprint differs."""

    def missing_runs(self, key: Key, runs: int) -> NDArray[np.int64]:
        """Return the runs that must be played to complete the first `runs` runs of a cell."""

    def write(self, key: Key, first: int, rows: Outcome) -> None:
        """Store rows of a cell, starting at row `first`."""

    def save(self) -> None:
        """Write to disk everything that is not written yet."""

    def result(self, keys: list[Key], runs: int) -> "xarray.Dataset":
        """Return a dataset with the first `runs` runs of the cells with these keys."""


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
        points_text = "" if self.grid else "points of "
        return f"with a sweep over {points_text}{' and '.join(self.names)}"

    def to_plain(self, value: tuple[Any, ...]) -> Any:
        """Return the values at one point as plain data: None, one value, or a dict by name."""
        if len(self.names) < 2:
            return value[0] if value else None
        return dict(zip(self.names, value, strict=True))

    def from_plain(self, plain: Any) -> tuple[Any, ...]:
        """Return the values at one point as a tuple; `plain` is the result of `to_plain`."""
        if len(self.names) < 2:
            return (plain,) if self.names else ()
        return tuple(plain[name] for name in self.names)


class Axes:
    """The labels on each axis, in the order in which they were added; a label never moves."""

    def __init__(self, sweep: Sweep, keys: Iterable[Key] = ()) -> None:
        self.sweep = sweep
        self.dims = ("policy", *sweep.dims)
        self.positions: list[dict[Any, int]] = [{} for _ in self.dims]
        for key in keys:
            self.add(key)

    def _labels(self, key: Key) -> tuple[Any, ...]:
        value, label = key
        return (label, *value) if self.sweep.grid else (label, value)

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
        labels, *swept_labels = (list(axis) for axis in self.positions)
        if self.sweep.grid:
            swept_by_name = dict(zip(self.sweep.names, swept_labels, strict=True))
            return {
                name: (name, values) for name, values in {"policy": labels, **swept_by_name}.items()
            }
        columns = zip(self.sweep.names, zip(*swept_labels[0], strict=True), strict=True)
        return {
            "policy": ("policy", labels),
            **{name: (POINT, list(values)) for name, values in columns},
        }


# ------------------------------------------------------------------------------ datasets


def row_dimension(keep: str) -> str:
    """Return the name of the dimension along the rows of a cell: "run" or "statistic"."""
    return "run" if keep == "runs" else "statistic"


def empty_rows(keep: str, rows: int, n_stages: int, n_arms: int) -> Outcome:
    """Return an outcome without data: all values are NaN, but counts are -1 if `keep` is "runs"."""
    outcome: Any = empty_outcome(rows, n_stages, n_arms)
    if keep == "summary":
        outcome = Outcome(*(np.full(array.shape, np.nan) for array in outcome))
    return outcome


@dataclass(eq=False)
class Cell:
    """The fingerprint and the stored rows of one policy at one point."""

    fingerprint: Fingerprint
    runs: Outcome

    def extend(self, rows: int) -> "Cell":
        """Return a copy with at least `rows` rows; new rows have no data."""
        n_new_rows = max(0, rows - len(self.runs.regret))
        new_rows = empty_outcome(n_new_rows, self.runs.regret.shape[1], self.runs.n_pulls.shape[1])
        columns: Any = map(np.concatenate, zip(self.runs, new_rows, strict=True))
        return Cell(self.fingerprint, Outcome(*columns))


def to_dataset(
    table: dict[Key, Cell], stages: NDArray[np.int64], rows: int, sweep: Sweep, keep: str
) -> "xarray.Dataset":
    """Return the first `rows` rows of all cells as a dataset."""
    import xarray

    axes = Axes(sweep, table)
    first_rows = next(iter(table.values())).runs
    n_arms = first_rows.n_pulls.shape[1]
    empty_cell = empty_rows(keep, 1, stages.size, n_arms)
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
        empty_row = getattr(empty_cell, name)
        array = np.empty((*axes.shape, rows, *empty_row.shape[1:]), empty_row.dtype)
        array[:] = empty_row[0]
        for key, cell in table.items():
            array[axes.position(key)] = getattr(cell.runs, name)[:rows]
        data[name] = ((*leading_dims, *dims), array)
        data[name].attrs = variable_attributes(name, long_name)
    final_regret = np.full((*axes.shape, rows), np.nan)
    for key, cell in table.items():
        last_index = np.searchsorted(stages, cell.fingerprint["horizon"])
        final_regret[axes.position(key)] = cell.runs.regret[:rows, last_index]
    data["final_regret"] = (leading_dims, final_regret)
    data["final_regret"].attrs = variable_attributes("final_regret", FINAL_REGRET_NAME)
    for coordinate_name, coordinate in data.coords.items():
        coordinate.attrs = dict(COORDINATE_ATTRIBUTES.get(str(coordinate_name), {}))
    fingerprints = {key: cell.fingerprint for key, cell in table.items()}
    data.attrs = attributes(fingerprints)
    data.attrs["cells"] = json.dumps(list_cells(sweep, fingerprints), ensure_ascii=False)
    return data


def variable_attributes(name: str, long_name: str) -> dict[str, str]:
    """Return the attributes of a variable."""
    return {"long_name": long_name, "units": UNITS[name]}


def list_cells(sweep: Sweep, fingerprints: dict[Key, Fingerprint]) -> list[dict[str, Any]]:
    """Return the cells of a result as plain data."""
    return [
        {"value": sweep.to_plain(value), "policy": label, "fingerprint": fingerprint}
        for (value, label), fingerprint in fingerprints.items()
    ]


def attributes(fingerprints: dict[Key, Fingerprint]) -> dict[str, Any]:
    """Return the attributes of a result.

    Most attributes are texts and numbers for people, which describe what all cells have in common.
    The attribute `fingerprint` contains the same data as JSON, for programs. netCDF and Zarr can
    store all attributes.
    """
    common_fields = find_common_fields(fingerprints)
    descriptions: dict[str, Any] = {
        name: describe(common_fields[name])
        for name in ("problem", "feedback", "horizon", "seed")
        if name in common_fields
    }
    policies = {label: describe(policy) for label, policy in common_fields["policies"].items()}
    engines = common_fields["engines"]
    return {
        "format": FORMAT,
        **descriptions,
        "policies": "; ".join(
            text if text.partition(" ")[0] == label else f"{label} = {text}"
            for label, text in policies.items()
        ),
        "engine": next(iter(engines.values()))
        if len(set(engines.values())) == 1
        else ", ".join(f"{label}: {engine}" for label, engine in engines.items()),
        "versions": ", ".join(f"{name} {number}" for name, number in versions().items()),
        "fingerprint": json.dumps(common_fields, ensure_ascii=False),
    }


def describe(spec: Any) -> Any:
    """Return a spec as text, as in "gaussian (means 2, 1.8; sd 1)"; numbers stay numbers."""
    if not isinstance(spec, dict):
        return spec
    name_keys = [key for key in ("kind", "observer", "name") if key in spec]
    entries = {key: value for key, value in spec.items() if key not in name_keys}
    entries |= entries.pop("parameters", {})
    text = "; ".join(
        f"{key} {_describe_value(value)}"
        for key, value in entries.items()
        if key not in {"source", "revision"}
    )
    name = spec[name_keys[0]] if name_keys else ""
    return f"{name} ({text})" if text else name


def _describe_value(value: Any) -> str:
    if isinstance(value, list):
        if len(value) > MAX_DESCRIBED or any(isinstance(item, list) for item in value):
            return f"of {len(value)} values"
        return ", ".join(map(_describe_value, value))
    if isinstance(value, dict):
        if "kind" in value:  # a piece of a changing problem
            return str(describe(value))
        if "kwds" in value:  # a distribution of SciPy
            keywords = [f"{key}={_describe_value(item)}" for key, item in value["kwds"].items()]
            return f"{value['name']}({', '.join([*map(_describe_value, value['args']), *keywords])})"
        return ", ".join(f"{key} {_describe_value(item)}" for key, item in value.items())
    if isinstance(value, bool | None):
        return {True: "yes", False: "no", None: "none"}[value]
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def find_common_fields(fingerprints: dict[Key, Fingerprint]) -> dict[str, Any]:
    """Return the fields that all fingerprints share, and the policies and engines by label."""
    common_fields = dict(next(iter(fingerprints.values())))
    del common_fields["policy"]
    for fingerprint in fingerprints.values():
        for name in [
            key
            for key in common_fields
            if key not in fingerprint or fingerprint[key] != common_fields[key]
        ]:
            del common_fields[name]
    common_fields["policies"] = {
        label: fingerprint["policy"] for (_, label), fingerprint in fingerprints.items()
    }
    common_fields["engines"] = {
        label: fingerprint["engine"] for (_, label), fingerprint in fingerprints.items()
    }
    return common_fields


@cache
def versions() -> dict[str, str]:
    """Return the versions of kibitz and the libraries it computes with."""
    names = ("kibitz", "numpy", "numba", "scipy", "xarray")
    return {name: version(name) for name in names}


# ---------------------------------------------------------------------------------- checks


def check_fingerprint(
    path: Path | None, key: Key, stored_fingerprint: Fingerprint, new_fingerprint: Fingerprint
) -> None:
    """Raise ValueError if the stored fingerprint of a cell differs from the requested fingerprint."""
    found_difference = difference(stored_fingerprint, new_fingerprint)
    if found_difference:
        raise make_mismatch_error(path, f"{found_difference} for {key[1]}")


def check_sweep(path: Path, stored: tuple[Sweep, str], requested: tuple[Sweep, str]) -> None:
    """Raise ValueError if a stored result has another sweep or another `keep` than requested.

    `stored` and `requested` are pairs of a sweep and its `keep`, which is "runs" or "summary".
    """
    if stored != requested:
        keep_text = f" and keeps {'runs' if stored[1] == 'runs' else 'a summary'}"
        raise ValueError(
            f"{short_repr(str(path))} cannot be resumed: it was saved {stored[0]}"
            f"{keep_text if stored[1] != requested[1] else ''}; use another file"
        )


def check_stages(
    path: Path, stored_stages: NDArray[np.int64], requested_stages: NDArray[np.int64]
) -> None:
    """Raise ValueError if the recorded stages of a file differ from the requested stages."""
    if not np.array_equal(stored_stages, requested_stages):
        raise make_mismatch_error(
            path, f"a different horizon or different recorded stages (up to {stored_stages[-1]})"
        )


def check_run_count(path: Path | None, stored_runs: float, runs: int) -> None:
    """Raise ValueError if a stored summary does not have the requested number of runs."""
    if stored_runs != runs:
        raise make_mismatch_error(path, f"a summary of {stored_runs:g} runs instead of {runs}")


def make_mismatch_error(path: Path | None, difference_text: str) -> ValueError:
    """Return (not raise) the error for a file with a different fingerprint."""
    return ValueError(
        f"{short_repr(str(path))} cannot be resumed: it has {difference_text}; use another file"
    )


def make_unreadable_error(file: Path, reason: str) -> ValueError:
    """Return (not raise) the error for a file that is not a result of kibitz."""
    return ValueError(
        f"cannot read {short_repr(str(file))} as a result of kibitz: {reason}; use another file"
    )
