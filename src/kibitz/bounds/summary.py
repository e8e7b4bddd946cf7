"""Every bound that applies to one setting."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kibitz.bounds import complexity, lower, upper
from kibitz.bounds.bound import (
    FloatArray,
    Weights,
    check_alpha,
    check_horizon,
    check_nonnegative,
    check_one,
    check_rate,
    check_rho,
    check_scale,
    check_weights,
)
from kibitz.bounds.constraint import C_0_UCB1, C_UCB1
from kibitz.bounds.onset import onset


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
        a lower bound of 0 and an upper bound of infinity are vacuous, and no upper bound is above
        `upper.trivial`. `onset` is what the function of that name gives, and for each bound
        `horizon_without_looks`: the smallest T at which it is positive at ε = 0.
    """
    gaps = complexity.gaps(means)
    p = check_weights(weights, gaps)
    eps, last = check_one("rate", check_rate(rate)), check_one("horizon", check_horizon(horizon))
    constants: dict[str, Any] = {"C": check_scale("C", C), "C_0": check_nonnegative("C_0", C_0)}
    rho, (alpha, variance) = check_rho(rho), check_alpha(alpha, 1.0)
    constant = complexity.etc_constant(alpha, variance)
    return {
        "setting": {
            "means": np.asarray(means, dtype=np.float64).tolist(),
            "rate": eps,
            "horizon": int(last),
            "weights": p.tolist(),
            **constants,
            "rho": rho,
            "alpha": alpha,
        },
        "gaps": gaps.tolist(),
        "c_delta": complexity.c_delta(gaps),
        "optimal_weights": complexity.optimal_weights(gaps).tolist(),
        "rate_star": complexity.rate_star(gaps, last),
        "hardness": complexity.hardness(gaps, rho).tolist(),
        "last_epoch": complexity.last_epoch(gaps, eps, last, constant).tolist(),
        "lower": _lower(gaps, eps, last, p, constants),
        "upper": _upper(gaps, eps, last, p, rho, alpha, c_eta),
        "printed": _printed(gaps, eps, last, p, constants),
        "onset": _onset(gaps, eps, last, p, constants),
    }


def _lower(
    gaps: FloatArray, rate: float, horizon: float, weights: FloatArray, constants: dict[str, Any]
) -> dict[str, Any]:
    passive, active = (gaps, rate, horizon, weights), (gaps, rate, horizon)
    return {
        "passive": {
            "fixed_stage": lower.passive_fixed_stage(*passive, **constants),
            "theorem": lower.passive_theorem(*passive, **constants),
            "maximum": lower.passive_maximum(*passive, **constants),
            "sharp": lower.passive_sharp(*passive, **constants),
        },
        "active": {
            "fixed_stage": lower.active_fixed_stage(*active, **constants),
            "theorem": lower.active_theorem(*active, **constants),
            "chain": lower.active_chain(*active, **constants),
            "maximum": lower.active_maximum(*active, **constants),
            "alternative": lower.active_alternative(*active, **constants),
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
        "ucb_rate": upper.ucb_rate(gaps, rate, weights, horizon=horizon),
        "ucb_periodic": upper.ucb_periodic(gaps, rate, weights, horizon=horizon),
        "ucb_sharp": upper.ucb_sharp(gaps, rate, weights, horizon),
        "ftl_robin": upper.ftl_robin(gaps, rate, horizon=horizon),
        "kibitzer": upper.kibitzer(gaps, rate, horizon),
    }
    if np.ptp(weights) == 0:
        bounds["kibitzer_passive"] = upper.kibitzer(gaps, rate, horizon, looks="uniform")
    if rate > 1e-100 and abs(1 / rate - round(1 / rate)) < 1e-6 / rate:
        bounds["kibitzer_periodic"] = upper.kibitzer(gaps, rate, horizon, looks="periodic")
    if c_eta is not None:
        bounds["etc_ocucb"] = upper.etc_ocucb(gaps, rate, c_eta, horizon, rho=rho, alpha=alpha)
    return bounds


def _printed(
    gaps: FloatArray, rate: float, horizon: float, weights: FloatArray, constants: dict[str, Any]
) -> dict[str, Any]:
    passive, active = (gaps, rate, horizon, weights), (gaps, rate, horizon)
    literal = constants | {"form": "printed"}
    return {
        "lower": {
            "passive": {
                "fixed_stage": lower.passive_fixed_stage(*passive, **literal),
                "theorem": lower.passive_theorem(*passive, **literal),
            },
            "active": {
                "fixed_stage": lower.active_fixed_stage(*active, **literal),
                "theorem": lower.active_theorem(*active, **literal),
                "alternative": lower.active_alternative(*active, **literal),
            },
        },
        "upper": {
            "ucb_log": upper.ucb_log(gaps, horizon, form="printed"),
            "ucb_rate": upper.ucb_rate(gaps, rate, weights, form="printed"),
            "ucb_periodic": upper.ucb_periodic(gaps, rate, weights, form="printed"),
        },
    }


def _onset(
    gaps: FloatArray, rate: float, horizon: float, weights: FloatArray, constants: dict[str, Any]
) -> dict[str, Any]:
    begins: dict[str, Any] = onset(gaps, rate, int(horizon), weights=weights, **constants)
    alone = onset(gaps, 0.0, 1, weights=weights, **constants)  # of any algorithm, before any look
    for observer, bounds in begins.items():
        for name, found in bounds.items():
            found["horizon_without_looks"] = alone[observer][name]["horizon"]
    return begins
