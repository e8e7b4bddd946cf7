"""From arrays to a labelled `xarray.Dataset`, and to one netCDF file and back.

A result has the dimensions `policy`, whatever was swept, `run`, `stage` and `arm`. Runs that are not
there yet (of an interrupted simulation) are NaN in `regret` and -1 in the counts.
"""

import json
import os
import tempfile
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import xarray

Key = tuple[Hashable, str]  # the swept value (None without a sweep), and the policy's label


@dataclass(eq=False)
class Rows:
    """The runs of one policy in one setting."""

    setting: dict[str, Any]
    regret: NDArray[np.float64]  # run, stage
    n_pulls: NDArray[np.int64]  # run, arm
    n_free: NDArray[np.int64]
    error: NDArray[np.float64]  # run

    @classmethod
    def empty(cls, setting: dict[str, Any], runs: int, n_stages: int, n_arms: int) -> "Rows":
        """Return room for runs that are not there yet."""
        counts = np.full((runs, n_arms), -1, np.int64)
        regret = np.full((runs, n_stages), np.nan)
        return cls(setting, regret, counts, counts.copy(), np.full(runs, np.nan))

    def extended(self, runs: int) -> "Rows":
        """Return the same with room for at least so many runs."""
        more = max(0, runs - len(self.regret))
        extra = Rows.empty(self.setting, more, self.regret.shape[1], self.n_pulls.shape[1])
        return Rows(
            self.setting,
            np.concatenate([self.regret, extra.regret]),
            np.concatenate([self.n_pulls, extra.n_pulls]),
            np.concatenate([self.n_free, extra.n_free]),
            np.concatenate([self.error, extra.error]),
        )

    def missing(self, runs: int) -> NDArray[np.int64]:
        """Return which of the first `runs` runs are not there yet."""
        return np.flatnonzero(self.n_pulls[:runs, 0] < 0)


def dataset(
    table: dict[Key, Rows], stages: NDArray[np.int64], runs: int, swept: str | None
) -> "xarray.Dataset":
    """Return the first `runs` runs of a table as a labelled dataset."""
    import xarray

    labels = list(dict.fromkeys(label for _, label in table))
    values = list(dict.fromkeys(value for value, _ in table))
    some = next(iter(table.values()))
    blank = Rows.empty({"horizon": stages[-1]}, runs, stages.size, some.n_pulls.shape[1])

    def stack(part: Callable[[Rows], NDArray[Any]]) -> NDArray[Any]:
        grid = [
            [part(table.get((value, label), blank))[:runs] for value in values] for label in labels
        ]
        array = np.array(grid)
        return array if swept else array[:, 0]

    def final_regret(rows: Rows) -> NDArray[np.float64]:
        return rows.regret[:, np.searchsorted(stages, rows.setting["horizon"])]

    swept_dims = (swept,) if swept else ()
    lead = ("policy", *swept_dims, "run")
    data = xarray.Dataset(
        {
            "regret": ((*lead, "stage"), stack(lambda rows: rows.regret)),
            "final_regret": (lead, stack(final_regret)),
            "n_pulls": ((*lead, "arm"), stack(lambda rows: rows.n_pulls)),
            "n_free": ((*lead, "arm"), stack(lambda rows: rows.n_free)),
            "error": (lead, stack(lambda rows: rows.error)),
        },
        coords={
            "policy": labels,
            "run": np.arange(runs),
            "stage": stages,
            "arm": np.arange(some.n_pulls.shape[1]),
            **({swept: values} if swept else {}),
        },
    )
    data["regret"].attrs["long_name"] = "cumulative regret Σ Δ_i N_i at the end of the stage"
    data["final_regret"].attrs["long_name"] = "cumulative regret at the horizon"
    data["n_pulls"].attrs["long_name"] = "pulls of each arm in all"
    data["n_free"].attrs["long_name"] = "looks at each arm in all"
    data["error"].attrs["long_name"] = "distance from the stage-by-stage law, in total variation"
    data.attrs["setting"] = json.dumps(common_setting(table), ensure_ascii=False)
    data.attrs["cells"] = json.dumps(
        [
            {"value": value, "policy": label, "setting": rows.setting}
            for (value, label), rows in table.items()
        ],
        ensure_ascii=False,
    )
    engines = {label: rows.setting["engine"] for (_, label), rows in table.items()}
    data.attrs["engine"] = json.dumps(engines, ensure_ascii=False)
    data.attrs["versions"] = json.dumps(versions())
    return data


def common_setting(table: dict[Key, Rows]) -> dict[str, Any]:
    """Return what all cells of a table have in common, with the policies by label."""
    settings = [rows.setting for rows in table.values()]
    common = {
        key: value
        for key, value in settings[0].items()
        if key != "policy" and all(setting[key] == value for setting in settings)
    }
    common["policies"] = {label: rows.setting["policy"] for (_, label), rows in table.items()}
    return common


@cache
def versions() -> dict[str, str]:
    """Return the versions of all that a number may depend on."""
    names = ("kibitz", "numpy", "numba", "scipy", "xarray")
    return {name: version(name) for name in names}


def save(data: "xarray.Dataset", file: Path) -> None:
    """Write a dataset to a netCDF file, whole or not at all."""
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        packed = {variable: {"zlib": True, "complevel": 1} for variable in data.data_vars}
        data.to_netcdf(part, engine="h5netcdf", encoding=packed)
        os.replace(part, file)
    finally:
        part.unlink(missing_ok=True)


def load(file: Path, swept: str | None) -> tuple[dict[Key, Rows], NDArray[np.int64]]:
    """Read a table and its stages from a file that `save` wrote."""
    import xarray

    try:
        with xarray.open_dataset(file, engine="h5netcdf") as opened:
            data = opened.load()
        cells = json.loads(data.attrs["cells"])
        stages = data["stage"].to_numpy().astype(np.int64)
        dims = set(data["regret"].dims) - {"policy", "run", "stage"}
        there = next(iter(dims), None)
        if there != swept:
            raise ValueError(
                f"file must be of the same setting, got {str(file)!r} "
                + (f"with a sweep over {there}" if there else "without a sweep")
            )
        table: dict[Key, Rows] = {}
        for cell in cells:
            at = {"policy": cell["policy"], **({swept: cell["value"]} if swept else {})}
            part = data.sel(at)
            table[cell["value"], cell["policy"]] = Rows(
                cell["setting"],
                part["regret"].to_numpy(),
                part["n_pulls"].to_numpy().astype(np.int64),
                part["n_free"].to_numpy().astype(np.int64),
                part["error"].to_numpy(),
            )
    except (OSError, KeyError, IndexError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(
            f"file must be a result that kibitz saved, got {str(file)!r} "
            f"({type(error).__name__}: {error})"
        ) from None
    return table, stages


def check_writable(file: Path) -> None:
    """Refuse a file that could not be written when all is computed."""
    if file.is_dir():
        raise ValueError(f"file must be a file, got the folder {str(file)!r}")
    try:
        with tempfile.TemporaryFile(dir=file.parent):
            pass
    except OSError as error:
        raise ValueError(
            f"file must be in a folder that can be written to, got {str(file)!r} ({error.strerror})"
        ) from None


def difference(old: Any, new: Any, path: str = "") -> str | None:
    """Say where two settings differ, or None if they do not."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**new, **old}:
            found = difference(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
            if found:
                return found
        return None
    if old == new or (old is None and new is None):
        return None
    return f"{path} = {old!r} instead of {new!r}"
