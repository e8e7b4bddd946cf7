"""Predict the regret of UCB and kibitzer as a function of the rate of looks.

The predictions are fluid approximations, not bounds.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from kibitz._validation import between, flag, invalid
from kibitz.bounds._checks import (
    check_array,
    check_choice,
    check_gaps,
    check_horizon,
    check_one,
    check_scale,
)
from kibitz.model.feedback import named_weights
from kibitz.planning import kibitzer
from kibitz.planning.fluid import Cases, FloatArray, predict_pulls, stage_grid

OBSERVERS = ("uniform", "optimal", "active", "kibitzer")
#: The measured error of the predictions (benchmarks/fluid.py): median, 90 % quantile and maximum of
#: the absolute error. For steady looks the error is relative to the simulated regret; for early looks
#: the error is relative to the regret without looks. The benchmark has 345 settings with steady looks
#: and 144 settings with early looks (139 and 48 for kibitzer), from 12 problems with T from 10⁴ to
#: 10⁶.
ACCURACY = {
    "no looks": {"median": 0.01, "nine_of_ten": 0.03, "worst": 0.05},
    "uniform": {"median": 0.01, "nine_of_ten": 0.06, "worst": 0.09},
    "optimal": {"median": 0.01, "nine_of_ten": 0.07, "worst": 0.22},
    "active": {"median": 0.01, "nine_of_ten": 0.07, "worst": 0.13},
    "kibitzer": {"median": 0.03, "nine_of_ten": 0.19, "worst": 0.35},
    "kibitzer, early": {"median": 0.02, "nine_of_ten": 0.21, "worst": 0.35},
    "early": {"median": 0.01, "nine_of_ten": 0.07, "worst": 0.11},
}


def predict(
    gaps: Sequence[float],
    rates: Sequence[float],
    horizon: int,
    observer: str = "uniform",
    *,
    early: bool = False,
    exploration: float = 6.0,
) -> FloatArray:
    """Return the predicted regret at each rate ε of looks.

    Parameters
    ----------
    gaps
        The gap of each arm, 0 for the best arm.
    rates
        The rates ε of looks, each in [0, 1].
    horizon
        The number of stages T, from 1 to 2⁵³.
    observer
        "uniform" or "optimal" (UCB as a passive observer with these weights), "active"
        (UCB1-Double), or "kibitzer" (kibitzer as an active observer).
    early
        Whether the εT looks arrive early, at rate min(1, A/t) at stage t; see `early_scale`.
    exploration
        The constant c of UCB's index.
    """
    check_choice("observer", observer, *OBSERVERS)
    horizon_value, rate_values = check_single_horizon(horizon), _check_rates(rates)
    scales = np.array([early_scale(float(rate), horizon_value) for rate in rate_values])
    setting = (observer, flag(early, "early"))
    problems, exploration = (
        np.sort(check_gaps(gaps))[np.newaxis],
        check_scale("exploration", exploration),
    )
    return np.asarray(
        predict_all(problems, rate_values, scales, horizon_value, exploration, [setting])[setting][0]
    )


def predict_all(
    problems: FloatArray,
    rates: FloatArray,
    scales: FloatArray,
    horizon: int,
    exploration: float,
    settings: list[tuple[str, bool]],
) -> dict[tuple[str, bool], FloatArray]:
    """Return the predicted regret of each setting (observer, early), as an array (problem, rate)."""
    regret = {}
    ucb_settings = [setting for setting in settings if setting[0] != "kibitzer"]
    if ucb_settings:
        regret = _predict_ucb(problems, rates, scales, horizon, exploration, ucb_settings)
    for setting in settings:
        if setting not in regret:
            regret[setting] = _predict_kibitzer(problems, rates, scales, horizon, setting[1])
    return regret


def _predict_kibitzer(
    problems: FloatArray, rates: FloatArray, scales: FloatArray, horizon: int, is_early: bool
) -> FloatArray:
    stages = kibitzer.stage_grid(horizon, problems.shape[1])
    looks = _early_looks(scales[:, np.newaxis], stages) if is_early else rates[:, np.newaxis] * stages
    groups = [np.unique(gaps, return_counts=True) for gaps in problems]
    counts = groups[0][1].astype(np.float64)  # all problems of a range have the same groups
    gaps = np.concatenate([np.tile(group, (len(rates), 1)) for group, _ in groups])
    if not gaps.any():
        return np.zeros((len(problems), len(rates)))
    regret = kibitzer.predict_regret(gaps, counts, np.tile(looks, (len(problems), 1)), stages)
    return regret.reshape(len(problems), len(rates))


def _predict_ucb(
    problems: FloatArray,
    rates: FloatArray,
    scales: FloatArray,
    horizon: int,
    exploration: float,
    settings: list[tuple[str, bool]],
) -> dict[tuple[str, bool], FloatArray]:
    stages = stage_grid(horizon, problems.shape[1])
    steady_looks, early_looks = (
        rates[:, np.newaxis] * stages,
        _early_looks(scales[:, np.newaxis], stages),
    )
    groups = [np.unique(gaps, return_index=True, return_counts=True) for gaps in problems]
    counts = groups[0][2].astype(np.float64)  # all problems of a range have the same groups
    group_gaps, weights, is_active, looks, is_steady = [], [], [], [], []
    for observer, is_early in settings:
        for gaps, (gap_values, first_indices, _) in zip(problems, groups, strict=True):
            group_gaps.append(np.tile(gap_values, (len(rates), 1)))
            weights.append(np.tile(observer_weights(observer, gaps)[first_indices], (len(rates), 1)))
            is_active.append(np.full(len(rates), observer == "active"))
            looks.append(early_looks if is_early else steady_looks)
            is_steady.append(np.full(len(rates), not is_early))
    join = np.concatenate
    cases = Cases(
        join(group_gaps), counts, join(weights), join(is_active), join(looks), join(is_steady)
    )
    regret = (counts * cases.gaps * predict_pulls(cases, stages, exploration)).sum(axis=-1)
    regret = np.minimum(regret, cases.gaps.max(axis=-1) * horizon)
    regret = regret.reshape(len(settings), len(problems), len(rates))
    return dict(zip(settings, regret, strict=True))


def observer_weights(observer: str, gaps: FloatArray) -> FloatArray:
    """Return the weights of a passive observer; callers ignore the result for an active observer."""
    name = "optimal" if observer != "uniform" and gaps.any() else "uniform"
    return named_weights(name, gaps)


def early_scale(rate: float, horizon: int) -> float:
    """Return the A ≤ T for which looks at rate min(1, A/t) at stage t add up to εT.

    A solves A (1 + log(T/A)) = εT.

    Parameters
    ----------
    rate
        The rate ε at which the same number of looks would arrive steadily, in [0, 1].
    horizon
        The number of stages T, from 1 to 2⁵³.
    """
    rate, horizon = between(rate, "rate", 0, 1), check_single_horizon(horizon)
    low, high = 0.0, float(horizon)
    for _ in range(200):
        middle = (low + high) / 2
        if middle > 0 and middle * (1 + math.log(horizon / middle)) < rate * horizon:
            low = middle
        else:
            high = middle
    return high if rate > 0 else 0.0


def _early_looks(scale: FloatArray, stages: FloatArray) -> FloatArray:
    """Return the expected number of looks up to each stage at rate min(1, A/t); `scale` is A."""
    positive_scale = np.where(scale > 0, scale, 1.0)
    looks = positive_scale * (1 + np.log(np.maximum(stages / positive_scale, 1.0)))
    return np.asarray(np.where(scale > 0, np.minimum(stages, looks), 0.0))


def check_single_horizon(horizon: int) -> int:
    """Return the horizon T; raise ValueError unless it is a single whole number from 1 to 2⁵³."""
    return int(check_one("horizon", check_horizon(horizon)))


def _check_rates(rates: ArrayLike) -> FloatArray:
    condition = "a list of numbers in [0, 1]"
    array = check_array("rates", rates, condition, lambda x: (x >= 0) & (x <= 1))
    if array.ndim != 1:
        raise invalid("rates", condition, rates)
    return array
