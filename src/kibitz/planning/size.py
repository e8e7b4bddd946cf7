"""Find the best number of looks to buy (the size of the bucket) if each look has a cost."""

import math
from typing import Any

import numpy as np

from kibitz.bounds._checks import check_choice, check_gaps, check_nonnegative, check_scale
from kibitz.planning.fluid import FloatArray
from kibitz.planning.prediction import check_single_horizon, observer_weights


def find_best_size(
    problems: FloatArray,
    rates: FloatArray,
    regret: FloatArray,
    horizon: int,
    cost: float,
    exploration: float,
    observer: str,
) -> dict[str, Any]:
    """Return the size of the bucket with the largest net saving (predicted saving minus cost).

    The size is 0 if no size has a positive net saving.
    """
    candidate_rates = np.geomspace(rates[1], 1.0, 2000)
    saving = (regret[:, :1] - regret).mean(axis=0)
    net_savings = interpolate(rates, saving, candidate_rates) - cost * candidate_rates * horizon
    k = int(np.argmax(net_savings))
    best_rate = float(candidate_rates[k]) if net_savings[k] > 0 else 0.0
    best_size: dict[str, Any] = {
        "rate": best_rate,
        "n_looks": best_rate * horizon,
        "net": float(max(net_savings[k], 0.0)),
    }
    if observer in {"uniform", "optimal"}:
        best_size["leading"] = find_leading_order_size(problems, horizon, cost, exploration, observer)
    return best_size


def interpolate(rates: FloatArray, values: FloatArray, at: FloatArray) -> FloatArray:
    """Interpolate values between the positive rates, by monotone cubics in the log of the rate."""
    from scipy.interpolate import PchipInterpolator

    return np.asarray(PchipInterpolator(np.log(rates[1:]), values[1:])(np.log(at)))


def find_leading_order_size(
    problems: FloatArray, horizon: int, cost: float, exploration: float, observer: str
) -> dict[str, float]:
    r"""Return the size ε with the largest net saving at leading order, in closed form.

    For one problem, the saving is :math:`S(\epsilon) = c\sum_i
    \log_+(\epsilon/\epsilon^*_i)/\Delta_i` with the thresholds :math:`\epsilon^*_i =
    1/(2p_i\Delta_i^2T)`. For several problems, S is the average. Between two adjacent thresholds the
    net saving :math:`S - \kappa\epsilon T` is largest at :math:`\epsilon =
    c\sum(1/\Delta_i)/(\kappa T)`, where the sum is over the arms with :math:`\epsilon >
    \epsilon^*_i`. The function returns the best of these sizes, or 0 if no size has a positive net
    saving.

    Parameters
    ----------
    problems
        The gaps of each problem, as an array (problem, arm); 0 for the best arm.
    horizon
        The number of stages T, from 1 to 2⁵³.
    cost
        The cost κ of one look, in units of regret.
    exploration
        The constant c of UCB's index.
    observer
        "uniform" or "optimal".
    """
    horizon, cost = check_single_horizon(horizon), check_nonnegative("cost", cost)
    exploration = check_scale("exploration", exploration)
    check_choice("observer", observer, "uniform", "optimal")
    gains, thresholds = [], []
    for gaps in map(check_gaps, problems):
        is_suboptimal = gaps > 0
        gains.append(exploration / gaps[is_suboptimal] / len(problems))
        thresholds.append(
            1
            / (
                2
                * observer_weights(observer, gaps)[is_suboptimal]
                * gaps[is_suboptimal] ** 2
                * horizon
            )
        )
    arm_gains, arm_thresholds = np.concatenate(gains), np.concatenate(thresholds)
    order = np.argsort(arm_thresholds, kind="stable")
    arm_gains, arm_thresholds = arm_gains[order], arm_thresholds[order]
    cumulative_gains = np.cumsum(arm_gains)
    next_thresholds = np.append(arm_thresholds[1:], math.inf)
    total_cost = max(cost * horizon, 1e-300)
    with np.errstate(over="ignore"):  # the cost of a look may be near 0
        candidate_rates = np.minimum(
            np.clip(cumulative_gains / total_cost, arm_thresholds, next_thresholds), 1.0
        )
    saving = (arm_gains * np.maximum(np.log(candidate_rates[:, np.newaxis] / arm_thresholds), 0)).sum(
        axis=-1
    )
    net_savings = saving - cost * candidate_rates * horizon
    k = int(np.argmax(net_savings))
    if not net_savings[k] > 0:
        return {"rate": 0.0, "n_looks": 0.0, "net": 0.0}
    return {
        "rate": float(candidate_rates[k]),
        "n_looks": float(candidate_rates[k] * horizon),
        "net": float(net_savings[k]),
    }
