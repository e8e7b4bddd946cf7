r"""What a bucket of free looks is worth, how large it should be, and where the looks should go.

Regret is predicted (`kibitz.planning.prediction`) for kibitzer, and for the paper's policies: UCB as
a passive observer (uniform weights, and the best weights p* of its section 3.1) and UCB1-Double as an
active one. Nothing here is a bound: those are in `kibitz.bounds`.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kibitz._validation import EXECUTOR, flag, invalid, numbers, whole
from kibitz.bounds import complexity
from kibitz.bounds._checks import LEAST, MOST, check_array, check_gaps, check_nonnegative, check_scale
from kibitz.model.feedback import named_weights
from kibitz.planning.fluid import FloatArray
from kibitz.planning.kibitzer import level
from kibitz.planning.prediction import (
    ACCURACY,
    OBSERVERS,
    early_scale,
    one_horizon,
    predict_all,
    weights_of,
)
from kibitz.planning.size import best_size
from kibitz.planning.trial import played_points

if TYPE_CHECKING:
    from kibitz.simulation.options import Executors

N_GAPS = 9  # of a range
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
    r"""Plan a bucket of free looks.

    Give one of `gap` (of all sub-optimal arms; needs `n_arms`), `gap_range` (that gap is somewhere
    between two numbers: nine gaps, log-spaced, are looked at; needs `n_arms`) and `gaps` (of each
    sub-optimal arm; a 0 may be among them for the best one).

    Parameters
    ----------
    horizon
        T, from 1 to 2⁵³.
    n_arms
        K, from 2 to a million, the best arm included.
    gap, gap_range, gaps
        One of the three, see above; gaps are from 1e-50 to 1e50.
    cost
        Of one look, in units of regret.
    exploration
        The constant c of UCB's index.
    simulate
        Whether to play some of the settings too (`runs` times each, with this `seed`).
    runs, seed
        Of the simulation; a seed must be given for one.
    progress, executor
        As in `simulate`.

    Returns
    -------
    dict
        Plain data, as `kibitz plan --json` prints it (there with "inf" for infinity). Where it says
        *both*, an object with `mean` and `worst` over the gaps of a range; these agree for one gap.

        - `setting`: `horizon`, `n_arms`, `problems` (a list of gaps for each gap of the range),
          `cost` (or null), `exploration`.
        - `rate_star`: both; the threshold ε* at which looks begin to matter.
        - `accuracy`: as measured by simulation; see `kibitz.planning.prediction.ACCURACY`. Early
          looks that are more than enough leave a small regret, of which the prediction may be a
          fraction.
        - `rates`, `looks`: the sizes ε, 0 first, and the looks ε T expected of each.
        - `regret`, `saving`: for each of "uniform", "optimal" (UCB), "active" (UCB1-Double) and
          "kibitzer" both, a list over the rates.
        - `advice`: which `policy` to use, "kibitzer" or, should it be predicted to lose less,
          "active"; the `rate` and `looks` of a bucket (the best size if there is a cost, else the
          smallest of `rates` that brings half of what a look at each stage saves); its `regret`
          with it, `alone` without looks (means over the gaps) and the `saving`; and the regret of
          the other policy with the same bucket, `instead`.
        - `early`: what the same looks bring if they come early, at rates min(1, A/t): `scale` (A for
          each rate), `regret` as above, and `better`, for each observer and rate (mean regret).
        - `plateau`: for each observer both, a list over the rates: the stage from which regret
          hardly grows, c/(ε p Δ²) for the slowest arm (passive), Σ c/(ε Δ²) (active), and
          Σ (6 + 2ℓ(1 + 1/ε))/(ε Δ²) (kibitzer); may exceed T.
        - `weights`: `optimal` and `active` (where looks should go, and where UCB1-Double's go), one
          list for each problem, and `uniform_costs`: both; what uniform weights cost at leading
          order, in regret.
        - `best`, if there is a cost: for each observer `rate`, `looks`, `net` (mean saving less cost)
          of the best size by the prediction, 0 if none is worth it; for "uniform" and "optimal" also
          `leading`, the same by leading-order theory in closed form.
        - `simulation`, if asked for: `runs`, `seed`, and `points`, a list of objects with `gaps`,
          `rate`, `observer`, `early`, `predicted`, `mean` and `sem` (standard error).
    """
    horizon, exploration = one_horizon(horizon), check_scale("exploration", exploration)
    problems = _problems(n_arms, gap, gap_range, gaps)
    cost = None if cost is None else check_nonnegative("cost", cost)
    simulate, runs = flag(simulate, "simulate"), whole(runs, "runs", 1)
    seed = None if seed is None else whole(seed, "seed")
    if not (executor is None or isinstance(executor, Executor) or callable(executor)):
        raise invalid("executor", EXECUTOR, executor)
    if not (progress is None or callable(progress)):
        raise invalid("progress", "a function", progress)
    if simulate and seed is None:
        raise ValueError("seed must be given for a simulation, got None")
    rates = _bucket_sizes(problems, horizon)
    scales = np.array([early_scale(float(rate), horizon) for rate in rates])
    settings = [(observer, early) for early in (False, True) for observer in OBSERVERS]
    predicted = predict_all(problems, rates, scales, horizon, exploration, settings)
    # more looks do no harm: keep the roughness of the prediction from saying so
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
        "early": _early_looks(scales, steady, early),
        "plateau": {
            observer: mean_and_worst(_plateaus(problems, rates, observer, exploration))
            for observer in OBSERVERS
        },
        "weights": _where_to_look(problems, exploration),
    }
    if cost is not None:
        data["best"] = {
            observer: best_size(
                problems, rates, steady[observer], horizon, cost, exploration, observer
            )
            for observer in OBSERVERS
        }
    data["advice"] = _advice(data)
    if simulate and seed is not None:
        from kibitz.simulation.executors import open_executor

        with open_executor(executor) as crew:
            options = {"runs": runs, "seed": seed, "progress": progress, "executor": crew}
            points = played_points(problems, rates, scales, regret, horizon, exploration, **options)
        data["simulation"] = {"runs": runs, "seed": seed, "points": points}
    return data


def _problems(
    n_arms: int | None,
    gap: float | None,
    gap_range: Sequence[float] | None,
    gaps: Sequence[float] | None,
) -> FloatArray:
    """The gaps of each problem to look at, the best arm first: problem, arm."""
    given: dict[str, Any] = {"gap": gap, "gap_range": gap_range, "gaps": gaps}
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        raise ValueError(f"one of gap, gap_range and gaps must be given, got {names or 'none'}")
    if gaps is not None:
        return np.array([_listed_gaps(gaps, n_arms)])
    condition = "a whole number from 2 to a million"
    try:
        n_arms = whole(n_arms, "n_arms", 2, 1_000_000)
    except ValueError:
        raise invalid("n_arms", condition, n_arms) from None
    if gap is not None:
        equal = [check_scale("gap", gap)]
    else:
        condition = "a smaller and a larger gap, from 1e-50 to 1e50"
        ends = check_array("gap_range", given["gap_range"], condition, _allowed)
        if ends.shape != (2,) or not ends[0] < ends[1]:
            raise invalid("gap_range", condition, gap_range)
        equal = np.geomspace(ends[0], ends[1], N_GAPS).tolist()
    return np.array([[0.0] + [value] * (n_arms - 1) for value in equal])


def _listed_gaps(gaps: Sequence[float], n_arms: int | None) -> list[float]:
    """The gaps of all arms, the best one first."""
    own: list[float] = numbers(gaps, "gaps").tolist()
    listed = sorted(own if 0.0 in own else [0.0, *own])
    if len(listed) < 2 or listed[1] == 0:
        raise invalid("gaps", "positive for every arm but the best", own)
    if n_arms is not None and whole(n_arms, "n_arms", 2) != len(listed):
        raise invalid("n_arms", "left out or fit gaps", n_arms)
    check_gaps(listed)
    return listed


def _allowed(gaps: FloatArray) -> NDArray[np.bool_]:
    return (gaps >= LEAST) & (gaps <= MOST)


def _bucket_sizes(problems: FloatArray, horizon: int) -> FloatArray:
    """Sizes of the bucket: none, then from a few looks, or a tenth of ε*, up to a look a stage."""
    least = min(float(complexity.rate_star(p, horizon)) for p in problems) / 10
    least = min(max(least, 1 / horizon), 0.01)
    return np.concatenate(([0.0], np.geomspace(least, 1.0, N_RATES)))


def _early_looks(
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


def _advice(data: dict[str, Any]) -> dict[str, Any]:
    """Which policy, and what a bucket of which size saves with it."""
    own, other = (np.array(data["regret"][name]["mean"]) for name in ("kibitzer", "active"))
    policy = "kibitzer"
    if "best" in data:
        k = int(np.argmin(np.abs(np.array(data["rates"]) - data["best"][policy]["rate"])))
    else:
        k = int(np.argmax(own[0] - own >= (own[0] - own[-1]) / 2))
    if other[k] < own[k]:
        policy, own, other = "active", other, own
    return {
        "policy": policy,
        "rate": data["rates"][k],
        "looks": data["looks"][k],
        "regret": float(own[k]),
        "alone": float(own[0]),
        "saving": float(own[0] - own[k]),
        "instead": float(other[k]),
    }


def _where_to_look(problems: FloatArray, exploration: float) -> dict[str, Any]:
    costs = np.array([exploration * complexity.weights_cost(gaps) for gaps in problems])
    return {
        "optimal": [named_weights("optimal", gaps).tolist() for gaps in problems],
        "active": [named_weights("suboptimal", gaps).tolist() for gaps in problems],
        "uniform_costs": mean_and_worst(costs),
    }


def _plateaus(
    problems: FloatArray, rates: FloatArray, observer: str, exploration: float
) -> FloatArray:
    """The stage from which the regret of each problem hardly grows at each rate."""
    stages = np.full((len(problems), len(rates)), math.inf)
    for place, gaps in enumerate(problems):
        needed = exploration / gaps[gaps > 0] ** 2
        if observer == "kibitzer":
            n_looks = (6 + 2 * level(1 + 1 / rates[rates > 0])) * (1 / gaps[gaps > 0] ** 2).sum()
        elif observer == "active":
            n_looks = needed.sum()
        else:
            n_looks = (needed / weights_of(observer, gaps)[gaps > 0]).max()
        stages[place, rates > 0] = n_looks / rates[rates > 0]
    return stages


def mean_and_worst(values: FloatArray, worst: Any = np.max) -> dict[str, Any]:
    """Mean and worst over the problems, which are on the first axis."""
    return {"mean": values.mean(axis=0).tolist(), "worst": worst(values, axis=0).tolist()}
