r"""Plan a bucket of free looks: its size, the arms to look at, and the regret that the looks save.

A *bucket* is the total number of looks εT. The plan rests on the predicted regret
(`kibitz.planning.prediction`) of kibitzer and of the paper's policies: UCB as a passive observer,
with uniform weights or the optimal weights p* of section 3.1, and UCB1-Double as an active observer.
No number in a plan is a bound; for bounds see `kibitz.bounds`.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kibitz._validation import EXECUTOR, flag, invalid, numbers, whole
from kibitz.bounds import complexity
from kibitz.bounds._checks import (
    MAX_VALUE,
    MIN_VALUE,
    check_array,
    check_gaps,
    check_nonnegative,
    check_scale,
)
from kibitz.model.feedback import named_weights
from kibitz.planning.fluid import FloatArray
from kibitz.planning.kibitzer import ell
from kibitz.planning.prediction import (
    ACCURACY,
    OBSERVERS,
    check_single_horizon,
    early_scale,
    observer_weights,
    predict_all,
)
from kibitz.planning.size import find_best_size, interpolate
from kibitz.planning.trial import simulate_points

if TYPE_CHECKING:
    from kibitz.simulation.options import Executors

N_GAPS = 9  # the number of problems for a gap range
N_RATES = 49


def plan(
    horizon: int,
    *,
    n_arms: int | None = None,
    gap: float | None = None,
    gap_range: Sequence[float] | None = None,
    gaps: Sequence[float] | None = None,
    cost: float | None = None,
    exploration: float = 6.0,
    simulate: bool = False,
    runs: int = 200,
    seed: int | None = None,
    progress: Callable[[str, float], None] | None = None,
    executor: "Executors | None" = None,
) -> dict[str, Any]:
    r"""Return a plan for a bucket of free looks: its size, the policy to use, and the saving.

    Give exactly one of `gap`, `gap_range` and `gaps`.

    Parameters
    ----------
    horizon
        The number of stages T, from 1 to 2⁵³.
    n_arms
        The number of arms K, from 2 to a million, including the best arm. Required with `gap` and
        `gap_range`.
    gap
        The gap of every sub-optimal arm, from 1e-50 to 1e50.
    gap_range
        The smallest and the largest plausible gap of the sub-optimal arms, if all of them have the
        same gap. The plan averages over nine log-spaced gaps in this range.
    gaps
        The gap of each sub-optimal arm. The list may include a 0 for the best arm.
    cost
        The cost of one look, in units of regret.
    exploration
        The constant c of UCB's index.
    simulate
        Whether to simulate some of the settings and compare with the predictions; needs a `seed`.
    runs, seed
        The number of runs of each simulated setting, and the seed of the runs.
    progress, executor
        As in `simulate`.

    Returns
    -------
    dict
        The plan as plain data, which `kibitz plan --json` prints (with "inf" for infinity). A
        *summary* is a dict with the `mean` and the `worst` value over the gaps of a range; for a
        single gap both values are the same. Lists have one element per rate in `rates` unless
        stated otherwise.

        - `advice`: the recommendation. `policy` is "kibitzer", or "active" (UCB1-Double) if the
          predicted regret of UCB1-Double is clearly lower. `rate` and `looks` are the recommended
          size of the bucket: the size with the largest net saving if looks have a cost. If looks have
          no cost, the size is the smallest of `rates` that saves at least half as much as a look at
          every stage would save. `regret`, `regret_without_looks` and `saving` are means over the
          gaps; `net` is the saving minus the cost of the looks (only if looks have a cost).
          `other_policy` and `other_regret` are the policy that was not chosen and its regret with the
          same bucket. `early` describes the same looks if they arrive early, at rate min(1, A/t) at
          stage t: `scale` is A, `regret` is the predicted regret, and `error` is the accuracy of this
          prediction. A gain smaller than `error` is not significant.
        - `setting`: `horizon`, `n_arms`, `problems` (the list of gaps of each problem), `cost` (null
          if looks have no cost) and `exploration`.
        - `rate_star`: a summary of the paper's threshold ε*, an order of magnitude for UCB. Kibitzer
          gains from looks at lower rates, too.
        - `accuracy`: the measured error of the predictions, see
          `kibitz.planning.prediction.ACCURACY`. With early looks, the prediction can be several times
          too small if there are so many looks that little regret remains.
        - `rates`, `looks`: the sizes ε, starting with 0, and the expected numbers of looks ε T.
        - `regret`, `saving`: for each observer, a summary of lists. The observers are "uniform" and
          "optimal" (UCB with these weights), "active" (UCB1-Double) and "kibitzer".
        - `early`: predictions for the same numbers of looks if they arrive early, at rate min(1, A/t)
          at stage t: `scale` (A), `regret` as above, and `better`, for each observer a list that says
          whether early looks lower the mean regret.
        - `plateau`: for each observer, a summary of lists: the stage after which the regret hardly
          grows. It is the largest c/(ε p_i Δ_i²) over the sub-optimal arms (passive),
          Σ c/(ε Δ_i²) (active), or Σ (6 + 2ℓ(1 + 1/ε))/(ε Δ_i²) with the ℓ of
          `kibitz.planning.kibitzer` (kibitzer). The plateau can lie beyond T.
        - `weights`: `optimal` (the optimal weights p*) and `active` (the shares of UCB1-Double's
          looks), each with one list per problem; and `uniform_costs`, a summary of the additional
          regret with uniform weights, compared with the optimal weights, at leading order.
        - `best`, if looks have a cost: for each observer, the size with the largest net saving:
          `rate`, `looks` and `net`, all 0 if no look is worth its cost. For "uniform" and "optimal",
          `leading` holds the same three numbers from the leading-order formula.
        - `simulation`, if `simulate` is true: `runs`, `seed`, and `points`, a list of dicts with
          `gaps`, `rate`, `observer`, `early`, `predicted`, `mean` and `sem` (standard error).
    """
    horizon, exploration = check_single_horizon(horizon), check_scale("exploration", exploration)
    problems = _make_problems(n_arms, gap, gap_range, gaps)
    cost = None if cost is None else check_nonnegative("cost", cost)
    simulate, runs = flag(simulate, "simulate"), whole(runs, "runs", 1)
    seed = None if seed is None else whole(seed, "seed")
    if not (executor is None or isinstance(executor, Executor) or callable(executor)):
        raise invalid("executor", EXECUTOR, executor)
    if not (progress is None or callable(progress)):
        raise invalid("progress", "a function", progress)
    if simulate and seed is None:
        raise ValueError("simulate=True needs a seed; pass any whole number, such as seed=1")
    rates = _make_rates(problems, horizon)
    scales = np.array([early_scale(float(rate), horizon) for rate in rates])
    settings = [(observer, early) for early in (False, True) for observer in OBSERVERS]
    predicted = predict_all(problems, rates, scales, horizon, exploration, settings)
    # more looks never increase the regret, but the predictions are not exactly monotone
    regret = {key: np.minimum.accumulate(values, axis=-1) for key, values in predicted.items()}
    steady = {observer: regret[observer, False] for observer in OBSERVERS}
    early = {observer: regret[observer, True] for observer in OBSERVERS}
    data: dict[str, Any] = {
        "setting": {
            "horizon": horizon,
            "n_arms": problems.shape[1],
            "problems": problems.tolist(),
            "cost": cost,
            "exploration": exploration,
        },
        "rate_star": mean_and_worst(np.array([complexity.rate_star(p, horizon) for p in problems])),
        "accuracy": ACCURACY,
        "rates": rates.tolist(),
        "looks": (rates * horizon).tolist(),
        "regret": {observer: mean_and_worst(steady[observer]) for observer in OBSERVERS},
        "saving": {
            observer: mean_and_worst(steady[observer][:, :1] - steady[observer], worst=np.min)
            for observer in OBSERVERS
        },
        "early": _compare_early(scales, steady, early),
        "plateau": {
            observer: mean_and_worst(_find_plateaus(problems, rates, observer, exploration))
            for observer in OBSERVERS
        },
        "weights": _look_weights(problems, exploration),
    }
    if cost is not None:
        data["best"] = {
            observer: find_best_size(
                problems, rates, steady[observer], horizon, cost, exploration, observer
            )
            for observer in OBSERVERS
        }
    means = {key: values.mean(axis=0) for key, values in regret.items()}
    data["advice"] = _recommend(rates, means, horizon, cost, data.get("best"))
    if simulate and seed is not None:
        from kibitz.simulation.executors import open_executor

        with open_executor(executor) as pool:
            options = {"runs": runs, "seed": seed, "progress": progress, "executor": pool}
            points = simulate_points(problems, rates, scales, regret, horizon, exploration, **options)
        data["simulation"] = {"runs": runs, "seed": seed, "points": points}
    return data


def _make_problems(
    n_arms: int | None,
    gap: float | None,
    gap_range: Sequence[float] | None,
    gaps: Sequence[float] | None,
) -> FloatArray:
    """Return the gaps as an array (problem, arm), with the best arm first."""
    options: dict[str, Any] = {"gap": gap, "gap_range": gap_range, "gaps": gaps}
    names = [name for name, value in options.items() if value is not None]
    if len(names) != 1:
        got = " and ".join(names) or "none"
        raise ValueError(f"give exactly one of gap, gap_range and gaps, got {got}")
    if gaps is not None:
        return np.array([_check_gap_list(gaps, n_arms)])
    if n_arms is None:
        raise ValueError(f"{names[0]} needs n_arms, the number of arms")
    n_arms = whole(n_arms, "n_arms", 2, 1_000_000)
    if gap is not None:
        values = [check_scale("gap", gap)]
    else:
        condition = "two increasing gaps between 1e-50 and 1e50"
        ends = check_array("gap_range", options["gap_range"], condition, _is_allowed)
        if ends.shape != (2,) or not ends[0] < ends[1]:
            raise invalid("gap_range", condition, gap_range)
        values = np.geomspace(ends[0], ends[1], N_GAPS).tolist()
    return np.array([[0.0] + [value] * (n_arms - 1) for value in values])


def _check_gap_list(gaps: Sequence[float], n_arms: int | None) -> list[float]:
    """Return the gaps of all arms in increasing order; raise ValueError if they are invalid."""
    values: list[float] = numbers(gaps, "gaps").tolist()
    ordered = sorted(values if 0.0 in values else [0.0, *values])
    if len(ordered) < 2 or ordered[1] == 0:
        raise invalid("gaps", "positive for every arm but the best", values)
    if n_arms is not None and whole(n_arms, "n_arms", 2) != len(ordered):
        raise invalid("n_arms", f"{len(ordered)} to match gaps, or left out", n_arms)
    check_gaps(ordered)
    return ordered


def _is_allowed(gaps: FloatArray) -> NDArray[np.bool_]:
    return (gaps >= MIN_VALUE) & (gaps <= MAX_VALUE)


def _make_rates(problems: FloatArray, horizon: int) -> FloatArray:
    """Return the rates ε to predict: 0, and log-spaced rates up to a look per stage.

    The smallest positive rate is ε*/10, but at least 1/T and at most 0.01.
    """
    first = min(float(complexity.rate_star(p, horizon)) for p in problems) / 10
    first = min(max(first, 1 / horizon), 0.01)
    return np.concatenate(([0.0], np.geomspace(first, 1.0, N_RATES)))


def _compare_early(
    scales: FloatArray, steady: dict[str, FloatArray], early: dict[str, FloatArray]
) -> dict[str, Any]:
    return {
        "scale": scales.tolist(),
        "regret": {observer: mean_and_worst(early[observer]) for observer in OBSERVERS},
        "better": {
            observer: (early[observer].mean(axis=0) < steady[observer].mean(axis=0)).tolist()
            for observer in OBSERVERS
        },
    }


def _recommend(
    rates: FloatArray,
    regret: dict[tuple[str, bool], FloatArray],
    horizon: int,
    cost: float | None,
    best: dict[str, Any] | None,
) -> dict[str, Any]:
    """Return the recommended policy and bucket, with the predicted regret.

    `regret` holds the mean regret of each (observer, early) at the rates, and `best` holds the best
    size of each observer. UCB1-Double is recommended only if it is better by more than the error of
    the prediction, because with many looks its predicted regret is too low (1.0 instead of 2.9 for
    T = 1000, gap 1 and ε = 0.37).
    """

    def value(observer: str, early: bool = False) -> float:
        values = regret[observer, early]
        return float(interpolate(rates, values, np.asarray(rate)) if rate else values[0])

    steady = regret["kibitzer", False]
    rate = float(rates[np.argmax(steady[0] - steady >= (steady[0] - steady[-1]) / 2)])
    totals = {name: value(name) for name in ("kibitzer", "active")}
    if best is not None:
        totals = {name: regret[name, False][0] - best[name]["net"] for name in totals}
    error = ACCURACY["kibitzer"]["nine_of_ten"] * steady[0]
    policy, other = "kibitzer", "active"
    if totals["active"] < totals["kibitzer"] - error:
        policy, other = other, policy
    if best is not None:
        rate = best[policy]["rate"]
    alone = float(regret[policy, False][0])
    accuracy = ACCURACY["kibitzer, early" if policy == "kibitzer" else "early"]
    advice: dict[str, Any] = {
        "policy": policy,
        "rate": rate,
        "looks": rate * horizon,
        "regret": value(policy),
        "regret_without_looks": alone,
        "saving": alone - value(policy),
        "other_policy": other,
        "other_regret": value(other),
        "early": {
            "scale": early_scale(rate, horizon),
            "regret": value(policy, early=True),
            "error": accuracy["nine_of_ten"] * alone,
        },
    }
    if cost is not None:
        advice["net"] = advice["saving"] - cost * advice["looks"]
    return advice


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
        needed = exploration / gaps[gaps > 0] ** 2
        if observer == "kibitzer":
            n_looks = (6 + 2 * ell(1 + 1 / rates[rates > 0])) * (1 / gaps[gaps > 0] ** 2).sum()
        elif observer == "active":
            n_looks = needed.sum()
        else:
            n_looks = (needed / observer_weights(observer, gaps)[gaps > 0]).max()
        stages[n, rates > 0] = n_looks / rates[rates > 0]
    return stages


def mean_and_worst(values: FloatArray, worst: Any = np.max) -> dict[str, Any]:
    """Return the mean and the worst value over the problems, which are on the first axis."""
    return {"mean": values.mean(axis=0).tolist(), "worst": worst(values, axis=0).tolist()}
