"""Where the lower bounds begin to say something."""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kibitz.bounds import lower
from kibitz.bounds.bound import (
    LARGEST_HORIZON,
    FloatArray,
    Weights,
    check_gaps,
    check_horizon,
    check_one,
    check_rate,
    check_weights,
)
from kibitz.bounds.constraint import C_0_UCB1, C_UCB1, FIRST_STAGE
from kibitz.bounds.sharp import silencing_rate
from kibitz.bounds.stages import best_stage, log_stages

BoolArray: TypeAlias = NDArray[np.bool_]


def onset(
    gaps: ArrayLike,
    rate: float,
    horizon: int,
    *,
    weights: Weights = "uniform",
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
) -> dict[str, dict[str, dict[str, float]]]:
    """Where each proved lower bound begins to say something, that is, to be positive.

    For each bound of `summary` under `lower`, two numbers: `rate`, the largest ε at which it is
    positive at this horizon (0 if it is not for any ε of 10⁻¹⁵ or more), and `horizon`, the
    smallest T at which it is positive at this rate (infinity if it is not for any T up to 2⁵³).
    To about one part in 10⁵, and for T to the stage where the bound can only grow with T.

    Parameters
    ----------
    gaps
        One per arm, 0 for optimal arms, in any order; from 1e-50 to 1e50 where not 0.
    rate, horizon
        One of each; T is varied at this rate, ε at this horizon.
    weights
        p, one per arm, of sum at most 1, or "uniform" (if not given), "optimal", "suboptimal".
    C, C_0
        Of the sub-logarithmic algorithm; those of UCB1 if not given.
    """
    delta = check_gaps(gaps)
    p = check_weights(weights, delta)
    eps, last = check_one("rate", check_rate(rate)), check_one("horizon", check_horizon(horizon))
    constants: dict[str, Any] = {"C": C, "C_0": C_0}
    by_gap = np.argsort(delta, kind="stable")[(delta == 0).sum() :]

    def passive(t: FloatArray) -> FloatArray:
        needs = lower.required_observations(delta, t, **constants)
        return np.asarray(_over(needs, p * t[..., np.newaxis]).max(axis=-1))

    def sharp(t: FloatArray) -> FloatArray:
        return silencing_rate(delta, t, p, **constants)

    def active(t: FloatArray) -> FloatArray:
        return np.asarray(lower.required_observations(delta, t, **constants).sum(axis=-1) / t)

    def chain(t: FloatArray) -> FloatArray:
        needs = lower.required_observations(delta, t, **constants)[..., by_gap]
        begun = np.cumsum(needs, axis=-1)[..., :-1] > 0  # arms up to k have to be pulled at all
        later = np.cumsum(needs[..., ::-1], axis=-1)[..., ::-1][..., 1:]
        return np.asarray(np.where(begun, later, 0.0).max(axis=-1, initial=0.0) / t)

    def theorem(bound: Callable[..., Any], *args: Any) -> dict[str, float]:
        def positive(rates: FloatArray, horizons: FloatArray) -> BoolArray:
            return np.asarray(bound(delta, rates, horizons, *args, **constants) > 0)

        return _scan(positive, eps, last)

    return {
        "passive": {
            "fixed_stage": _from_ratio(passive, eps, last, fixed=True),
            "theorem": theorem(lower.passive_theorem, p),
            "maximum": _from_ratio(passive, eps, last),
            "sharp": _from_ratio(sharp, eps, last),
        },
        "active": {
            "fixed_stage": _from_ratio(active, eps, last, fixed=True),
            "theorem": theorem(lower.active_theorem),
            "chain": _from_ratio(chain, eps, last),
            "maximum": _from_ratio(active, eps, last),
            "alternative": theorem(lower.active_alternative),
        },
    }


def _over(needs: FloatArray, looks: FloatArray) -> FloatArray:
    """needs / looks, infinite where something is needed and there are no looks."""
    return np.divide(needs, looks, out=np.where(needs > 0, math.inf, 0.0), where=looks > 0)


def _from_ratio(
    ratio: Callable[[FloatArray], FloatArray], rate: float, horizon: float, fixed: bool = False
) -> dict[str, float]:
    """For bounds that are positive if and only if ε < ratio(t) at a stage t ≤ T (or t = T)."""
    if horizon < FIRST_STAGE:
        largest = 0.0
    else:
        t = horizon if fixed else best_stage(ratio, horizon)
        largest = float(ratio(np.array([t]))[0])
    stages = log_stages(FIRST_STAGE, float(LARGEST_HORIZON), 1000)
    return {"rate": min(largest, 1.0), "horizon": _first_stage(lambda t: ratio(t) > rate, stages)}


def _scan(
    positive: Callable[[FloatArray, FloatArray], BoolArray], rate: float, horizon: float
) -> dict[str, float]:
    """For bounds that have to be tried: down from ε = 1, up from T = 3."""
    stages, begun = log_stages(FIRST_STAGE, float(LARGEST_HORIZON), 80), horizon >= FIRST_STAGE
    return {
        "rate": _last_rate(lambda e: positive(e, np.asarray(horizon))) if begun else 0.0,
        "horizon": _first_stage(lambda t: positive(np.asarray(rate), t), stages),
    }


def _first_stage(holds: Callable[[FloatArray], BoolArray], stages: FloatArray) -> float:
    """The first stage from which `holds`, between two of the given ones; infinity if none."""
    true = np.flatnonzero(holds(stages))
    if not len(true):
        return math.inf
    before, after = stages[max(true[0] - 1, 0)], stages[true[0]]
    while after - before > 1:
        middle = np.floor((before + after) / 2)
        before, after = (before, middle) if holds(np.array([middle]))[0] else (middle, after)
    return float(after)


def _last_rate(holds: Callable[[FloatArray], BoolArray]) -> float:
    """The largest rate at which `holds`, to one part in a million; 0 if none."""
    rates = np.geomspace(1.0, 1e-15, 61)
    true = np.flatnonzero(holds(rates))
    if not len(true):
        return 0.0
    above, below = rates[max(true[0] - 1, 0)], rates[true[0]]
    while above > below * (1 + 1e-6):
        middle = np.sqrt(above * below)
        above, below = (above, middle) if holds(np.array([middle]))[0] else (middle, below)
    return float(below)
