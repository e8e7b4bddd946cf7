"""Plan the number of looks if rewards are Gaussian, with a known scale.

The plan rests on the predicted regret (`kibitz.planning.prediction`) of kibitzer and of the paper's
policies: UCB as a passive observer, with uniform weights or the optimal weights p* of section 3.1,
and UCB1-Double as an active observer.
"""

import math
from typing import Any

import numpy as np

from kibitz.bounds import complexity
from kibitz.model.feedback import named_weights
from kibitz.planning.fluid import FloatArray
from kibitz.planning.kibitzer import ell
from kibitz.planning.prediction import ACCURACY, OBSERVERS, early_scale, observer_weights, predict_all
from kibitz.planning.result import Plan
from kibitz.planning.size import find_best_size, interpolate
from kibitz.planning.trial import simulate_points

N_RATES = 49
POLICIES = {"kibitzer": "kibitzer", "active": "ucb_double"}  # the policies that may be recommended
SMALL_GAP, LONG_HORIZON = 0.05, 10_000  # small gaps and long horizons suggest clicks
HINT = "If these are clicks, use --baseline and --lift (in Python: baseline and lift)."


def plan_gaussian(
    problems: FloatArray,
    horizon: int,
    at: float | None,
    cost: float | None,
    scale: float,
    exploration: float,
    options: dict[str, Any] | None,
) -> Plan:
    """Return a plan for problems, given the gaps of their arms as an array (problem, arm).

    Gaps, regret and costs are in units of reward; the formulas assume scale 1. `options` are passed
    to `simulate`; None means that nothing is simulated.
    """
    gaps = problems / scale
    unit_cost = None if cost is None else cost / scale
    grid = _make_rates(gaps, horizon)
    rates = grid if at is None else np.union1d(grid, [at])
    early_scales = np.array([early_scale(float(rate), horizon) for rate in rates])
    settings = [(observer, early_regret) for early_regret in (False, True) for observer in OBSERVERS]
    predicted_regret = predict_all(gaps, rates, early_scales, horizon, exploration, settings)
    # more looks never increase the regret, but the predictions are not exactly monotone
    regret = {key: np.minimum.accumulate(values, axis=-1) for key, values in predicted_regret.items()}
    steady_regret = {observer: regret[observer, False] for observer in OBSERVERS}
    early_regret = {observer: regret[observer, True] for observer in OBSERVERS}
    best_sizes = None
    if unit_cost is not None:
        is_in_grid = np.isin(rates, grid)
        sizes = {
            observer: find_best_size(
                gaps,
                grid,
                steady_regret[observer][:, is_in_grid],
                horizon,
                unit_cost,
                exploration,
                observer,
            )
            for observer in OBSERVERS
        }
        best_sizes = {observer: _scale_net(size, scale) for observer, size in sizes.items()}
    simulation = None
    if options is not None:
        points = simulate_points(gaps, rates, early_scales, regret, horizon, exploration, **options)
        for point in points:
            point["means"] = (-scale * np.array(point.pop("gaps"))).tolist()
            for name in ("predicted", "mean", "sem"):
                point[name] *= scale
        simulation = {"runs": options["runs"], "seed": options["seed"], "points": points}
    rate_star = np.array([complexity.rate_star(p, horizon) for p in gaps])
    regret_in_units = {key: scale * values for key, values in regret.items()}
    weights = _look_weights(gaps, exploration)
    weights["uniform_costs"] = {k: scale * v for k, v in weights["uniform_costs"].items()}
    details: dict[str, Any] = {
        "exploration": exploration,
        "rate_star": mean_and_worst(rate_star),
        "early": {
            "scale": early_scales.tolist(),
            "curves": {o: mean_and_worst(regret_in_units[o, True]) for o in OBSERVERS},
            "better": {
                o: (early_regret[o].mean(axis=0) < steady_regret[o].mean(axis=0)).tolist()
                for o in OBSERVERS
            },
        },
        "plateau": {
            observer: mean_and_worst(_find_plateaus(gaps, rates, observer, exploration))
            for observer in OBSERVERS
        },
        "weights": weights,
    }
    if best_sizes is not None:
        details["best"] = best_sizes
    advice = _recommend(rates, regret_in_units, horizon, at, cost, best_sizes)
    details["early"]["recommended"] = advice.pop("early")
    other_regrets = {**advice.pop("others"), "even_split": float(horizon * problems.mean())}
    has_small_gap = (gaps[gaps > 0] < SMALL_GAP).any()
    return Plan(
        rewards="gaussian",
        horizon=horizon,
        n_arms=problems.shape[1],
        problems=problems.tolist(),
        scale=scale,
        cost=cost,
        rate_range=None,
        others=other_regrets,
        best_reward=None,
        accuracy=ACCURACY,
        rates=rates.tolist(),
        curves={observer: mean_and_worst(regret_in_units[observer, False]) for observer in OBSERVERS},
        simulation=simulation,
        details=details,
        hint=HINT if has_small_gap and scale == 1 and horizon > LONG_HORIZON else "",
        **advice,
    )


def _make_rates(problems: FloatArray, horizon: int) -> FloatArray:
    """Return the rates ε for which to predict the regret: 0, and log-spaced rates up to 1.

    The smallest positive rate is ε*/10, but at least 1/T and at most 0.01.
    """
    first_rate = min(float(complexity.rate_star(p, horizon)) for p in problems) / 10
    first_rate = min(max(first_rate, 1 / horizon), 0.01)
    return np.concatenate(([0.0], np.geomspace(first_rate, 1.0, N_RATES)))


def _recommend(
    rates: FloatArray,
    regret: dict[tuple[str, bool], FloatArray],
    horizon: int,
    at: float | None,
    cost: float | None,
    best_sizes: dict[str, Any] | None,
) -> dict[str, Any]:
    """Return the recommended policy and rate, with the predicted regret, as attributes of a `Plan`.

    `regret` holds the regret of each (observer, early) at the rates, and `best_sizes` holds the best
    size of each observer. UCB1-Double is recommended only if it is better than kibitzer by more than
    the error of the prediction, because its predicted regret is too low with many looks (1.0 instead
    of 2.9 for T = 1000, gap 1 and ε = 0.37).
    """
    means = {key: values.mean(axis=0) for key, values in regret.items()}

    def value_at(values: FloatArray) -> FloatArray:
        if rate in rates:
            return np.asarray(values[..., np.searchsorted(rates, rate)])
        return interpolate(rates, values.T, np.asarray(rate)).T

    steady_regret = means["kibitzer", False]
    rate = float(
        rates[
            np.argmax(steady_regret[0] - steady_regret >= (steady_regret[0] - steady_regret[-1]) / 2)
        ]
    )
    rate = rate if at is None else at
    total_by_policy = {name: float(value_at(means[name, False])) for name in POLICIES}
    if best_sizes is not None and at is None:
        total_by_policy = {
            name: means[name, False][0] - best_sizes[name]["net"] for name in total_by_policy
        }
    error = ACCURACY["kibitzer"]["nine_of_ten"] * steady_regret[0]
    policy, other_policy = "kibitzer", "active"
    if total_by_policy["active"] < total_by_policy["kibitzer"] - error:
        policy, other_policy = other_policy, policy
    if best_sizes is not None and at is None:
        rate = best_sizes[policy]["rate"]
    regrets = value_at(regret[policy, False])
    regret_without_looks, mean_regret = float(means[policy, False][0]), float(regrets.mean())
    accuracy = ACCURACY["kibitzer, early" if policy == "kibitzer" else "early"]
    return {
        "policy": POLICIES[policy],
        "rate": rate,
        "n_looks": rate * horizon,
        "regret": mean_regret,
        "regret_range": [float(regrets.min()), float(regrets.max())] if regrets.size > 1 else None,
        "regret_without_looks": regret_without_looks,
        "saving": regret_without_looks - mean_regret,
        "net": None if cost is None else regret_without_looks - mean_regret - cost * rate * horizon,
        "others": {POLICIES[other_policy]: float(value_at(means[other_policy, False]))},
        "early": {
            "scale": early_scale(rate, horizon),
            "regret": float(value_at(means[policy, True])),
            "error": accuracy["nine_of_ten"] * regret_without_looks,
        },
    }


def _scale_net(size: dict[str, Any], scale: float) -> dict[str, Any]:
    """Return the best size of a bucket with its net saving in units of reward."""
    scaled_size = {**size, "net": scale * size["net"]}
    if "leading" in size:
        scaled_size["leading"] = _scale_net(size["leading"], scale)
    return scaled_size


def _look_weights(problems: FloatArray, exploration: float) -> dict[str, Any]:
    costs = np.array([exploration * complexity.weights_cost(gaps) for gaps in problems])
    return {
        "optimal": [named_weights("optimal", gaps).tolist() for gaps in problems],
        "active": [named_weights("suboptimal", gaps).tolist() for gaps in problems],
        "uniform_costs": mean_and_worst(costs),
    }


def _find_plateaus(
    problems: FloatArray, rates: FloatArray, observer: str, exploration: float
) -> FloatArray:
    """Return the stage after which the regret hardly grows, as an array (problem, rate)."""
    stages = np.full((len(problems), len(rates)), math.inf)
    for n, gaps in enumerate(problems):
        required_observations = exploration / gaps[gaps > 0] ** 2
        if observer == "kibitzer":
            n_looks = (6 + 2 * ell(1 + 1 / rates[rates > 0])) * (1 / gaps[gaps > 0] ** 2).sum()
        elif observer == "active":
            n_looks = required_observations.sum()
        else:
            n_looks = (required_observations / observer_weights(observer, gaps)[gaps > 0]).max()
        stages[n, rates > 0] = n_looks / rates[rates > 0]
    return stages


def mean_and_worst(values: FloatArray, find_worst: Any = np.max) -> dict[str, Any]:
    """Return the mean and the worst value over the problems, which are on the first axis."""
    return {"mean": values.mean(axis=0).tolist(), "worst": find_worst(values, axis=0).tolist()}
