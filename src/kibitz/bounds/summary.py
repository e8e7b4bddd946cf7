"""Every bound that applies to one setting, and where the lower bounds begin to say something."""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kibitz.bounds import complexity, lower, upper
from kibitz.bounds.bound import (
    LARGEST_HORIZON,
    FloatArray,
    check_choice,
    check_gaps,
    check_horizon,
    check_rate,
    check_weights,
)
from kibitz.bounds.constraint import C_0_UCB1, C_UCB1, FIRST_STAGE
from kibitz.bounds.sharp import silencing_rate
from kibitz.bounds.stages import best_stage, log_stages

Weights: TypeAlias = str | Sequence[float] | FloatArray
BoolArray: TypeAlias = NDArray[np.bool_]


def summary(
    means: ArrayLike,
    rate: float,
    horizon: int,
    *,
    weights: Weights = "uniform",
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    rho: float = 0.5,
    alpha: float = 1.0,
    c_eta: float | None = None,
) -> dict[str, Any]:
    """All bounds for one setting as nested plain data: what `kibitz bounds --json` prints.

    The command adds `onset`, with `horizon_without_looks` for each bound: `horizon` at ε = 0.

    Parameters
    ----------
    means
        One per arm; rewards are Gaussian with variance 1.
    rate, horizon
        ε and T, one of each.
    weights
        p of the passive observer: "uniform", "optimal", "suboptimal", or one number per arm.
    C, C_0
        Of the sub-logarithmic algorithms to which the lower bounds apply; UCB1's if not given.
    rho, alpha
        Of OCUCB-n and of ETC, for `hardness` and `last_epoch`.
    c_eta
        OCUCB-n's constant, which the paper does not give: without it there is no upper bound
        for the active algorithm, with it `upper.etc_ocucb`.

    Returns
    -------
    dict
        Numbers, or lists in the order of the arms. Everything but `printed` is the proved form;
        a lower bound of 0 and an upper bound of infinity are vacuous.
    """
    gaps = complexity.gaps(means)
    p = named_weights(weights, gaps)
    eps, last = _one("rate", check_rate(rate)), _one("horizon", check_horizon(horizon))
    constants: dict[str, Any] = {"C": C, "C_0": C_0}
    printed = constants | {"form": "printed"}
    constant = complexity.etc_constant(alpha)
    return {
        "setting": {
            "means": np.asarray(means, dtype=np.float64).tolist(),
            "rate": eps,
            "horizon": int(last),
            "weights": p.tolist(),
            "C": float(C),
            "C_0": float(C_0),
            "rho": float(rho),
            "alpha": float(alpha),
        },
        "gaps": gaps.tolist(),
        "c_delta": complexity.c_delta(gaps),
        "optimal_weights": complexity.optimal_weights(gaps).tolist(),
        "rate_star": complexity.rate_star(gaps, last),
        "hardness": complexity.hardness(gaps, rho).tolist(),
        "last_epoch": complexity.last_epoch(gaps, eps, last, constant).tolist(),
        "lower": {
            "passive": {
                "fixed_stage": lower.passive_fixed_stage(gaps, eps, last, p, **constants),
                "theorem": lower.passive_theorem(gaps, eps, last, p, **constants),
                "maximum": lower.passive_maximum(gaps, eps, last, p, **constants),
                "sharp": lower.passive_sharp(gaps, eps, last, p, **constants),
            },
            "active": {
                "fixed_stage": lower.active_fixed_stage(gaps, eps, last, **constants),
                "theorem": lower.active_theorem(gaps, eps, last, **constants),
                "chain": lower.active_chain(gaps, eps, last, **constants),
                "maximum": lower.active_maximum(gaps, eps, last, **constants),
                "alternative": lower.active_alternative(gaps, eps, last, **constants),
            },
        },
        "upper": _upper(gaps, eps, last, p, rho, alpha, c_eta),
        "printed": {
            "lower": {
                "passive": {
                    "fixed_stage": lower.passive_fixed_stage(gaps, eps, last, p, **printed),
                    "theorem": lower.passive_theorem(gaps, eps, last, p, **printed),
                },
                "active": {
                    "fixed_stage": lower.active_fixed_stage(gaps, eps, last, **printed),
                    "theorem": lower.active_theorem(gaps, eps, last, **printed),
                    "alternative": lower.active_alternative(gaps, eps, last, **printed),
                },
            },
            "upper": {
                "ucb_log": upper.ucb_log(gaps, last, form="printed"),
                "ucb_rate": upper.ucb_rate(gaps, eps, p, form="printed"),
                "ucb_periodic": upper.ucb_periodic(gaps, eps, p, form="printed"),
            },
        },
    }


def _upper(
    gaps: FloatArray,
    rate: float,
    horizon: float,
    weights: FloatArray,
    rho: float,
    alpha: float,
    c_eta: float | None,
) -> dict[str, Any]:
    bounds = {
        "ucb_log": upper.ucb_log(gaps, horizon),
        "ucb_rate": upper.ucb_rate(gaps, rate, weights),
        "ucb_periodic": upper.ucb_periodic(gaps, rate, weights),
        "ucb_sharp": upper.ucb_sharp(gaps, rate, weights, horizon),
        "ftl_robin": upper.ftl_robin(gaps, rate),
    }
    if c_eta is not None:
        bounds["etc_ocucb"] = upper.etc_ocucb(gaps, rate, c_eta, horizon, rho=rho, alpha=alpha)
    return bounds


def named_weights(weights: Weights, gaps: ArrayLike) -> FloatArray:
    """The weights p: "uniform", "optimal" (∝ 1/Δ), "suboptimal" (∝ 1/Δ²), or as given."""
    delta = check_gaps(gaps)
    if not isinstance(weights, str):
        return check_weights(weights, len(delta))
    check_choice("weights", weights, "uniform", "optimal", "suboptimal")
    if weights == "uniform":
        return check_weights(None, len(delta))
    return complexity.optimal_weights(delta, power=1.0 if weights == "optimal" else 2.0)


def _one(name: str, array: FloatArray) -> float:
    if array.ndim:
        raise ValueError(f"{name} must be one number, got {array.tolist()!r}")
    return float(array)


# Where the lower bounds begin ------------------------------------------------------------------


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
    rate, horizon
        One of each; T is varied at this rate, ε at this horizon.

    The others as for `summary`.
    """
    delta = check_gaps(gaps)
    p = named_weights(weights, delta)
    eps, last = _one("rate", check_rate(rate)), _one("horizon", check_horizon(horizon))
    constants: dict[str, Any] = {"C": C, "C_0": C_0}

    def passive(t: FloatArray) -> FloatArray:
        needs = lower.required_observations(delta, t, **constants)
        return np.asarray(_over(needs, p * t[..., np.newaxis]).max(axis=-1))

    def sharp(t: FloatArray) -> FloatArray:
        return silencing_rate(delta, t, p, **constants)

    def active(t: FloatArray) -> FloatArray:
        return np.asarray(lower.required_observations(delta, t, **constants).sum(axis=-1) / t)

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
            "chain": theorem(lower.active_chain),
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
    stages = log_stages(FIRST_STAGE, float(LARGEST_HORIZON), 80)
    return {
        "rate": _last_rate(lambda e: positive(e, np.asarray(horizon))),
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
