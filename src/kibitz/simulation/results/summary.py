"""Summaries of runs: their number, mean, variance and quantiles.

A summary has the same arrays as the runs, with one row per statistic instead of one row per run. All
runs of a cell are summarised together and in order. Quantiles are therefore exact, and results do not
depend on which worker played which run.
"""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

QUANTILES = (1, 10, 25, 50, 75, 90, 99)  # in percent
STATISTICS = ("count", "mean", "variance", *(f"q{q}" for q in QUANTILES))


R = TypeVar("R", bound=tuple[Any, ...])


def summarise(runs: R) -> R:
    """Return the statistics of all recorded quantities, as a record of the same type."""
    return type(runs)(*map(_statistics, runs))


def _statistics(values: NDArray[Any]) -> Any:
    rows = np.empty((len(STATISTICS), *values.shape[1:]))
    rows[0] = len(values)
    rows[1] = values.mean(axis=0)
    rows[2] = values.var(axis=0, ddof=1) if len(values) > 1 else np.nan
    rows[3:] = np.quantile(values, np.array(QUANTILES) / 100, axis=0)
    return rows
