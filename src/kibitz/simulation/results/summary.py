"""Summaries of runs: their number, mean, variance and quantiles.

A summary has the same arrays as the runs, with one row per statistic instead of one row per run. All
runs of a cell are summarised together and in order. Quantiles are therefore exact, and results do not
depend on which worker played which run.
"""

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import xarray

QUANTILES = (1, 10, 25, 50, 75, 90, 99)  # in percent
STATISTICS = ("count", "mean", "variance", *(f"q{q}" for q in QUANTILES))


R = TypeVar("R", bound=tuple[Any, ...])


def summarise(runs: R) -> R:
    """Return the statistics of all recorded quantities, as a record of the same type as `runs`."""
    return type(runs)(*map(_statistics, runs))


def _statistics(values: NDArray[Any]) -> Any:
    rows = np.empty((len(STATISTICS), *values.shape[1:]))
    rows[0] = len(values)
    rows[1] = values.mean(axis=0)
    rows[2] = values.var(axis=0, ddof=1) if len(values) > 1 else np.nan
    rows[3:] = np.quantile(values, np.array(QUANTILES) / 100, axis=0)
    return rows


def mean_and_error(values: "xarray.DataArray") -> "tuple[xarray.DataArray, xarray.DataArray]":
    """Return the mean over the runs that are complete, and its standard error.

    `values` has a dimension `run` or, if the result keeps a summary, a dimension `statistic`. The
    standard error of fewer than two runs is NaN.
    """
    if "statistic" in values.dims:
        count, mean, variance = (
            values.sel(statistic=name, drop=True) for name in ("count", "mean", "variance")
        )
        return mean, (variance / count) ** 0.5
    count = values.notnull().sum("run")
    mean = values.sum("run") / count.where(count > 0)
    variance = ((values - mean) ** 2).sum("run") / (count - 1).where(count > 1)
    return mean, (variance / count) ** 0.5
