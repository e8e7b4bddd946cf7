"""All bounds for one setting (`summary`), and the settings with positive lower bounds (`onset`)."""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kibitz.bounds import complexity, lower, upper
from kibitz.bounds._bound import bound
from kibitz.bounds._checks import (
    MAX_HORIZON,
    FloatArray,
    Weights,
    check_alpha,
    check_choice,
    check_gaps,
    check_horizon,
    check_nonnegative,
    check_one,
    check_rate,
    check_rho,
    check_scale,
    check_weights,
)
from kibitz.bounds._graph import check_shows
from kibitz.bounds.lower._constraint import (
    C_0_UCB1,
    C_UCB1,
    FIRST_STAGE,
    find_best_stage,
    make_log_stages,
)
from kibitz.bounds.lower._passive import find_vacuous_rate

__all__ = ["onset", "summary"]


Arguments: TypeAlias = tuple[FloatArray, float, FloatArray, float]  # gaps, rate, weights, horizon
BoolArray: TypeAlias = NDArray[np.bool_]


def __dir__() -> list[str]:
    return __all__


@bound()
def summary(
    means: ArrayLike,
    rate: float,
    weights: Weights,
    horizon: int,
    *,
    shows: Any = None,
    observer: str = "passive",
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    rho: float = 0.5,
    alpha: float = 1.0,
    c_eta: float | None = None,
) -> dict[str, Any]:
    """Return all bounds for one setting as nested plain data, which `kibitz bounds --json` prints.

    If a problem is passed, all numbers are in units of its scale. With a graph, the result contains
    the bounds that hold on the graph: the entries `graph` (`complexity.graph`), `lower` and `upper`.

    Parameters
    ----------
    means
        The means, one per arm, for Gaussian rewards with variance 1; or a problem.
    rate, horizon
        The rate ε and the horizon T, each a single number.
    shows
        The matrix Q of a graph: a pull of arm i shows arm j with probability shows[i, j]. None means
        that there is no graph.
    observer
        "passive" or "active"; used only with a graph.
    rho, alpha
        The parameters ρ of OCUCB-n and α of ETC, which `hardness` and `last_epoch` depend on.
    c_eta
        OCUCB-n's constant, which the paper does not give. If it is not None, the result includes
        `upper.etc_ocucb`, the upper bound of the paper's active algorithm.

    Returns
    -------
    dict
        Numbers, or lists in the order of the arms. All bounds except the bounds under `printed` are
        in their proved form. A lower bound of 0 and an upper bound of infinity are vacuous. No upper
        bound exceeds `upper.trivial`. `onset` contains the result of :func:`onset` and, for each
        bound, `horizon_without_looks`, the smallest T at which the bound is positive for ε = 0.
    """
    gaps = complexity.gaps(means)
    p = check_weights(weights, gaps)
    eps, horizon_value = (
        check_one("rate", check_rate(rate)),
        check_one("horizon", check_horizon(horizon)),
    )
    constants: dict[str, Any] = {"C": check_scale("C", C), "C_0": check_nonnegative("C_0", C_0)}
    check_choice("observer", observer, "passive", "active")
    if shows is not None:
        return _summarize_graph(means, eps, p, horizon_value, shows, observer, constants)
    rho, (alpha, variance) = check_rho(rho), check_alpha(alpha, 1.0)
    etc_constant = complexity.etc_constant(alpha, variance)
    setting = (gaps, eps, p, horizon_value)
    return {
        "setting": {
            "means": np.asarray(means, dtype=np.float64).tolist(),
            "rate": eps,
            "horizon": int(horizon_value),
            "weights": p.tolist(),
            **constants,
            "rho": rho,
            "alpha": alpha,
        },
        "gaps": gaps.tolist(),
        "c_delta": complexity.c_delta(gaps),
        "optimal_weights": complexity.optimal_weights(gaps).tolist(),
        "rate_star": complexity.rate_star(gaps, horizon_value),
        "hardness": complexity.hardness(gaps, rho).tolist(),
        "last_epoch": complexity.last_epoch(gaps, eps, horizon_value, etc_constant).tolist(),
        "lower": _collect_lower(setting, **constants),
        "upper": _collect_upper(*setting, c_eta, rho=rho, alpha=alpha),
        "printed": _collect_printed(setting, **constants),
        "onset": _collect_onset(gaps, eps, p, int(horizon_value), **constants),
    }


def _summarize_graph(
    means: ArrayLike,
    rate: float,
    weights: FloatArray,
    horizon: float,
    shows: Any,
    observer: str,
    constants: dict[str, float],
) -> dict[str, Any]:
    """Return the bounds of `summary` for a graph."""
    gaps = complexity.gaps(means)
    matrix = check_shows(shows, gaps.size)
    looks: dict[str, Any] = {"rate": rate, "weights": weights}
    difficulty = complexity.graph(gaps, matrix, observer=observer, **looks)
    options = {"observer": observer, **looks, **constants}
    lower_bounds = {
        "fixed_stage": lower.graph_fixed_stage(gaps, matrix, horizon, **options),
        "multi_period": lower.graph_multi_period(gaps, matrix, int(horizon), **options),
    }
    if difficulty.regime in {"T^(2/3)", "linear"} and gaps.any():
        lower_bounds["worst_case"] = lower.graph_worst_case(matrix, horizon, gap=float(gaps.max()))
    upper_bounds = {}
    if observer == "passive" and (matrix.diagonal() > 0).all():
        upper_bounds["ucb_graph"] = upper.ucb_graph(gaps, matrix, horizon, **looks)
        upper_bounds["ucb_graph_all_horizons"] = upper.ucb_graph(gaps, matrix, **looks)
    return {
        "setting": {
            "means": np.asarray(means, dtype=np.float64).tolist(),
            "rate": rate,
            "horizon": int(horizon),
            "weights": weights.tolist(),
            "observer": observer,
            "edges": int(matrix.nnz - np.count_nonzero(matrix.diagonal())),
            "arms_without_loop": np.flatnonzero(matrix.diagonal() == 0).tolist(),
            **constants,
        },
        "gaps": gaps.tolist(),
        "graph": {
            "constant": difficulty.constant,
            "regime": difficulty.regime,
            "free_arms": np.flatnonzero(difficulty.is_free).tolist(),
            "pulls": difficulty.pulls.tolist(),
        },
        "lower": {"graph": lower_bounds},
        "upper": upper_bounds,
    }


def _collect_lower(setting: Arguments, **constants: Any) -> dict[str, Any]:
    gaps, rate, _, horizon = setting
    active_setting = (gaps, rate, horizon)
    return {
        "passive": {
            "fixed_stage": lower.passive_fixed_stage(*setting, **constants),
            "theorem": lower.passive_theorem(*setting, **constants),
            "maximum": lower.passive_maximum(*setting, **constants),
            "sharp": lower.passive_sharp(*setting, **constants),
        },
        "active": {
            "fixed_stage": lower.active_fixed_stage(*active_setting, **constants),
            "theorem": lower.active_theorem(*active_setting, **constants),
            "chain": lower.active_chain(*active_setting, **constants),
            "maximum": lower.active_maximum(*active_setting, **constants),
            "alternative": lower.active_alternative(*active_setting, **constants),
        },
    }


def _collect_upper(
    gaps: FloatArray,
    rate: float,
    weights: FloatArray,
    horizon: float,
    c_eta: float | None,
    **options: Any,
) -> dict[str, Any]:
    bounds = {
        "ucb_log": upper.ucb_log(gaps, horizon),
        "ucb_rate": upper.ucb_rate(gaps, rate, weights, horizon),
        "ucb_periodic": upper.ucb_periodic(gaps, rate, weights, horizon),
        "ucb_sharp": upper.ucb_sharp(gaps, rate, weights, horizon),
        "ftl_robin": upper.ftl_robin(gaps, rate, None, horizon),
        "kibitzer": upper.kibitzer(gaps, rate, horizon),
        "kibitzer_passive": upper.kibitzer(gaps, rate, horizon, looks="passive", weights=weights),
    }
    if rate > 1e-100 and abs(1 / rate - round(1 / rate)) < 1e-6 / rate:
        bounds["kibitzer_periodic"] = upper.kibitzer(gaps, rate, horizon, looks="periodic")
    if c_eta is not None:
        bounds["etc_ocucb"] = upper.etc_ocucb(gaps, rate, horizon, c_eta=c_eta, **options)
    return bounds


def _collect_printed(setting: Arguments, **constants: Any) -> dict[str, Any]:
    gaps, rate, weights, horizon = setting
    active_setting, printed_options = (gaps, rate, horizon), constants | {"form": "printed"}
    return {
        "lower": {
            "passive": {
                "fixed_stage": lower.passive_fixed_stage(*setting, **printed_options),
                "theorem": lower.passive_theorem(*setting, **printed_options),
            },
            "active": {
                "fixed_stage": lower.active_fixed_stage(*active_setting, **printed_options),
                "theorem": lower.active_theorem(*active_setting, **printed_options),
                "alternative": lower.active_alternative(*active_setting, **printed_options),
            },
        },
        "upper": {
            "ucb_log": upper.ucb_log(gaps, horizon, form="printed"),
            "ucb_rate": upper.ucb_rate(gaps, rate, weights, form="printed"),
            "ucb_periodic": upper.ucb_periodic(gaps, rate, weights, form="printed"),
        },
    }


def _collect_onset(
    gaps: FloatArray, rate: float, weights: FloatArray, horizon: int, **constants: Any
) -> dict[str, Any]:
    result: dict[str, Any] = onset(gaps, rate, weights, horizon, **constants)
    onset_without_looks = onset(gaps, 0.0, weights, 1, **constants)
    for observer, bounds in result.items():
        for name, onset_values in bounds.items():
            onset_values["horizon_without_looks"] = onset_without_looks[observer][name]["horizon"]
    return result


@bound()
def onset(
    gaps: ArrayLike,
    rate: float,
    weights: Weights,
    horizon: int,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
) -> dict[str, dict[str, dict[str, float]]]:
    """Return the rates and horizons at which each proved lower bound becomes positive.

    For each bound under `lower` in `summary` there are two numbers. `rate` is the largest ε for which
    the bound is positive at the given horizon, or 0 if no such ε ≥ 10⁻¹⁵ exists. `horizon` is the
    smallest T for which the bound is positive at the given rate, or infinity if no such T ≤ 2⁵³
    exists. Both numbers are accurate to about one part in 10⁵. The horizon is exact if the bound
    never decreases with T.

    Parameters
    ----------
    rate, horizon
        The rate ε and the horizon T, each a single number. The search for `horizon` uses this rate,
        and the search for `rate` uses this horizon.
    """
    delta = check_gaps(gaps)
    p = check_weights(weights, delta)
    eps, horizon_value = (
        check_one("rate", check_rate(rate)),
        check_one("horizon", check_horizon(horizon)),
    )
    constants: dict[str, Any] = {"C": C, "C_0": C_0}
    arms_by_gap = np.argsort(delta, kind="stable")[(delta == 0).sum() :]

    def passive_ratio(t: FloatArray) -> FloatArray:
        needs = lower.required_observations(delta, t, **constants)
        return np.asarray(_divide(needs, p * t[..., np.newaxis]).max(axis=-1))

    def sharp_ratio(t: FloatArray) -> FloatArray:
        return find_vacuous_rate(delta, p, t, **constants)

    def active_ratio(t: FloatArray) -> FloatArray:
        return np.asarray(lower.required_observations(delta, t, **constants).sum(axis=-1) / t)

    def chain_ratio(t: FloatArray) -> FloatArray:
        needs = lower.required_observations(delta, t, **constants)[..., arms_by_gap]
        has_needs = (
            np.cumsum(needs, axis=-1)[..., :-1] > 0
        )  # at least one arm up to k needs observations
        later_needs = np.cumsum(needs[..., ::-1], axis=-1)[..., ::-1][..., 1:]
        return np.asarray(np.where(has_needs, later_needs, 0.0).max(axis=-1, initial=0.0) / t)

    def search_bound(bound: Callable[..., Any], *weights: FloatArray) -> dict[str, float]:
        def is_positive(rates: FloatArray, horizons: FloatArray) -> BoolArray:
            return np.asarray(bound(delta, rates, *weights, horizons, **constants) > 0)

        return _search_onset(is_positive, eps, horizon_value)

    return {
        "passive": {
            "fixed_stage": _find_onset(passive_ratio, eps, horizon_value, at_horizon_only=True),
            "theorem": search_bound(lower.passive_theorem, p),
            "maximum": _find_onset(passive_ratio, eps, horizon_value),
            "sharp": _find_onset(sharp_ratio, eps, horizon_value),
        },
        "active": {
            "fixed_stage": _find_onset(active_ratio, eps, horizon_value, at_horizon_only=True),
            "theorem": search_bound(lower.active_theorem),
            "chain": _find_onset(chain_ratio, eps, horizon_value),
            "maximum": _find_onset(active_ratio, eps, horizon_value),
            "alternative": search_bound(lower.active_alternative),
        },
    }


def _divide(needs: FloatArray, looks: FloatArray) -> FloatArray:
    """Return needs / looks; the ratio is infinite where needs are positive and looks are 0."""
    return np.divide(needs, looks, out=np.where(needs > 0, math.inf, 0.0), where=looks > 0)


def _find_onset(
    ratio: Callable[[FloatArray], FloatArray],
    rate: float,
    horizon: float,
    at_horizon_only: bool = False,
) -> dict[str, float]:
    """Return the onset of a bound that is positive iff ε < ratio(t) for some t ≤ T.

    If `at_horizon_only` is true, the bound is positive iff ε < ratio(T).
    """
    if horizon < FIRST_STAGE:
        largest_rate = 0.0
    else:
        t = horizon if at_horizon_only else find_best_stage(ratio, horizon)
        largest_rate = float(ratio(np.array([t]))[0])
    stages = make_log_stages(FIRST_STAGE, float(MAX_HORIZON), 1000)
    return {
        "rate": min(largest_rate, 1.0),
        "horizon": _find_first_stage(lambda t: ratio(t) > rate, stages),
    }


def _search_onset(
    is_positive: Callable[[FloatArray, FloatArray], BoolArray], rate: float, horizon: float
) -> dict[str, float]:
    """Search for the onset of a bound: over rates from 1 down, and over horizons from 3 up."""
    stages, can_be_positive = (
        make_log_stages(FIRST_STAGE, float(MAX_HORIZON), 80),
        horizon >= FIRST_STAGE,
    )
    return {
        "rate": _find_last_rate(lambda e: is_positive(e, np.asarray(horizon)))
        if can_be_positive
        else 0.0,
        "horizon": _find_first_stage(lambda t: is_positive(np.asarray(rate), t), stages),
    }


def _find_first_stage(is_true: Callable[[FloatArray], BoolArray], stages: FloatArray) -> float:
    """Return the first stage at which `is_true` returns true; infinity if there is no such stage.

    The search finds the first such stage of the grid, and refines it by bisection.
    """
    indices = np.flatnonzero(is_true(stages))
    if not len(indices):
        return math.inf
    low, high = stages[max(indices[0] - 1, 0)], stages[indices[0]]
    while high - low > 1:
        middle = np.floor((low + high) / 2)
        low, high = (low, middle) if is_true(np.array([middle]))[0] else (middle, high)
    return float(high)


def _find_last_rate(is_true: Callable[[FloatArray], BoolArray]) -> float:
    """Return the largest rate at which `is_true` returns true, or 0 if there is no such rate.

    The rate is accurate to one part in a million.
    """
    rates = np.geomspace(1.0, 1e-15, 61)
    indices = np.flatnonzero(is_true(rates))
    if not len(indices):
        return 0.0
    high, low = rates[max(indices[0] - 1, 0)], rates[indices[0]]
    while high > low * (1 + 1e-6):
        middle = np.sqrt(high * low)
        high, low = (high, middle) if is_true(np.array([middle]))[0] else (middle, low)
    return float(low)
