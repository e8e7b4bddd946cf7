"""The stages at which regret is kept."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kibitz._validation import quoted, refused

N_STAGES = 200


def log_spaced(horizon: int, n: int = N_STAGES) -> NDArray[np.int64]:
    """Return about n stages from 1 to the horizon, log-spaced."""
    spaced = np.unique(np.geomspace(1, horizon, n).round().astype(np.int64))
    spaced[-1] = horizon
    return spaced


def checked_stages(stages: ArrayLike | None, horizons: list[int]) -> NDArray[np.int64]:
    """Return the stages at which regret is kept: those that are given, and all horizons."""
    horizon = max(horizons)
    if stages is None:
        spaced = log_spaced(horizon)
    else:
        try:
            given = np.array(stages)
            whole_numbers = given.dtype.kind in "iuf" and np.all(given == np.floor(given))
        except (TypeError, ValueError, OverflowError):
            raise refused("stages", "a list of whole numbers", stages) from None
        if given.ndim != 1 or given.size == 0 or not whole_numbers:
            raise refused("stages", "a list of whole numbers", stages)
        if not np.all((given >= 1) & (given <= horizon)) or not np.all(np.diff(given) > 0):
            raise ValueError(
                f"stages must increase from 1 to at most {horizon}, got {quoted(stages)}"
            )
        spaced = given.astype(np.int64)
    return np.union1d(spaced, np.array(horizons, np.int64))
