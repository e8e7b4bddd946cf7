r"""What a bucket of free looks is worth, how large it should be, and where the looks should go.

Regret is predicted by the fluid of `kibitz.planning.fluid`, for UCB as a passive observer (uniform
weights, and the best weights p* of the paper's section 3.1) and for UCB1-Double as an active one.
Nothing here is a bound: those are in `kibitz.bounds`.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kibitz.bounds import complexity
from kibitz.bounds.bound import (
    LARGEST_HORIZON,
    check_choice,
    check_gaps,
    check_nonnegative,
    check_positive,
    check_rate,
)
from kibitz.planning.fluid import FloatArray, Rows, predicted_pulls, stages_up_to

OBSERVERS = ("uniform", "optimal", "active")
#: How far predictions are from simulated regret, as measured by benchmarks/fluid.py on 345 settings
#: with steady looks and 144 with early ones (12 problems, T from 10⁴ to 10⁶): the size of the median
#: error, and within what 9 of 10 and all of them are. Relative to the regret; for early looks, to the
#: regret without looks.
ACCURACY = {
    "no looks": {"median": 0.01, "nine_of_ten": 0.03, "worst": 0.05},
    "uniform": {"median": 0.01, "nine_of_ten": 0.06, "worst": 0.09},
    "optimal": {"median": 0.01, "nine_of_ten": 0.07, "worst": 0.22},
    "active": {"median": 0.01, "nine_of_ten": 0.07, "worst": 0.13},
    "early": {"median": 0.01, "nine_of_ten": 0.07, "worst": 0.11},
}
N_GAPS = 9  # of a range
N_RATES = 49
MOST_STEPS = 1_000_000  # the horizon up to which front-loaded looks are simulated, stage by stage


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
) -> dict[str, Any]:
    r"""Plan a bucket of free looks.

    Give one of `gap` (of all sub-optimal arms; needs `n_arms`), `gap_range` (that gap is somewhere
    between two numbers: nine gaps, log-spaced, are looked at; needs `n_arms`) and `gaps` (of each
    sub-optimal arm; a 0 may be among them for the best one).

    Parameters
    ----------
    horizon
        T, from 1 to 2⁵³.
    cost
        Of one look, in units of regret.
    exploration
        The constant c of UCB's index.
    simulate
        Whether to play some of the settings too (`runs` times each, with this `seed`).

    Returns
    -------
    dict
        Plain data, as `kibitz plan --json` prints it (there with "inf" for infinity). Where it says
        *both*, an object with `mean` and `worst` over the gaps of a range; these agree for one gap.

        - `setting`: `horizon`, `n_arms`, `problems` (a list of gaps for each gap of the range),
          `cost` (or null), `exploration`.
        - `rate_star`: both; the threshold ε* at which looks begin to matter.
        - `accuracy`: as measured by simulation; see `ACCURACY`. Early looks that are more than enough
          leave a small regret, of which the prediction may be a fraction.
        - `rates`, `looks`: the sizes ε, 0 first, and the looks ε T expected of each.
        - `regret`, `saving`: for each of "uniform", "optimal", "active" both, a list over the rates.
        - `early`: what the same looks bring if they come early, at rates min(1, A/t): `scale` (A for
          each rate), `regret` as above, and `better`, for each observer and rate (mean regret).
        - `plateau`: for each observer both, a list over the rates: the stage from which regret
          hardly grows, c/(ε p Δ²) for the slowest arm (passive), Σ c/(ε Δ²) (active); may exceed T.
        - `weights`: `optimal` and `active` (where looks should go, and where UCB1-Double's go), one
          list for each problem, and `uniform_costs`: both; what uniform weights cost at leading
          order, in regret.
        - `best`, if there is a cost: for each observer `rate`, `looks`, `net` (mean saving less cost)
          of the best size by the prediction, 0 if none is worth it; for "uniform" and "optimal" also
          `leading`, the same by leading-order theory in closed form.
        - `simulation`, if asked for: `runs`, `seed`, and `points`, a list of objects with `gaps`,
          `rate`, `observer`, `early`, `predicted`, `mean` and `sem` (standard error).
    """
    horizon = _check_horizon(horizon)
    check_positive("exploration", exploration)
    problems = _problems(n_arms, gap, gap_range, gaps)
    if cost is not None:
        check_nonnegative("cost", cost)
    rates = _sizes(problems, horizon)
    scales = np.array([early_scale(rate, horizon) for rate in rates])
    settings = [(observer, early) for early in (False, True) for observer in OBSERVERS]
    rough = _predict(problems, rates, scales, horizon, exploration, settings)
    # more looks do no harm: keep the roughness of the prediction from saying so
    regret = {key: np.minimum.accumulate(values, axis=-1) for key, values in rough.items()}
    steady = {observer: regret[observer, False] for observer in OBSERVERS}
    early = {observer: regret[observer, True] for observer in OBSERVERS}
    planned: dict[str, Any] = {
        "setting": {
            "horizon": horizon,
            "n_arms": problems.shape[1],
            "problems": problems.tolist(),
            "cost": cost,
            "exploration": float(exploration),
        },
        "rate_star": _both(np.array([complexity.rate_star(p, horizon) for p in problems])),
        "accuracy": ACCURACY,
        "rates": rates.tolist(),
        "looks": (rates * horizon).tolist(),
        "regret": {observer: _both(steady[observer]) for observer in OBSERVERS},
        "saving": {
            observer: _both(steady[observer][:, :1] - steady[observer], worst=np.min)
            for observer in OBSERVERS
        },
        "early": {
            "scale": scales.tolist(),
            "regret": {observer: _both(early[observer]) for observer in OBSERVERS},
            "better": {
                observer: (early[observer].mean(axis=0) < steady[observer].mean(axis=0)).tolist()
                for observer in OBSERVERS
            },
        },
        "plateau": {
            observer: _both(np.array([_plateau(p, rates, observer, exploration) for p in problems]))
            for observer in OBSERVERS
        },
        "weights": {
            "optimal": [complexity.optimal_weights(p).tolist() for p in problems],
            "active": [complexity.optimal_weights(p, power=2.0).tolist() for p in problems],
            "uniform_costs": _both(
                np.array([exploration * complexity.weights_cost(p) for p in problems])
            ),
        },
    }
    if cost is not None:
        planned["best"] = {
            observer: _best(problems, rates, steady[observer], horizon, cost, exploration, observer)
            for observer in OBSERVERS
        }
    if simulate:
        if seed is None:
            raise ValueError("seed must be given for a simulation, got None")
        planned["simulation"] = {
            "runs": runs,
            "seed": seed,
            "points": _simulated(
                problems, rates, scales, regret, horizon, exploration, runs, seed, progress
            ),
        }
    return planned


def _check_horizon(horizon: int) -> int:
    if not (1 <= horizon <= LARGEST_HORIZON and horizon == int(horizon)):
        raise ValueError(f"horizon must be a whole number from 1 to 2**53, got {horizon!r}")
    return int(horizon)


def _problems(
    n_arms: int | None,
    gap: float | None,
    gap_range: Sequence[float] | None,
    gaps: Sequence[float] | None,
) -> FloatArray:
    """The gaps of each problem to look at, the best arm first: problem, arm."""
    given = {"gap": gap, "gap_range": gap_range, "gaps": gaps}
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        raise ValueError(f"one of gap, gap_range and gaps must be given, got {names or 'none'}")
    if gaps is not None:
        own = [check_nonnegative("gaps", value) for value in gaps]
        listed = sorted(own if 0.0 in own else [0.0, *own])
        if len(listed) < 2 or listed[1] == 0:
            raise ValueError(f"gaps must be positive for every arm but the best, got {list(gaps)!r}")
        if n_arms is not None and n_arms != len(listed):
            raise ValueError(f"n_arms must be left out or fit gaps, got {n_arms!r}")
        return np.array([listed])
    if n_arms is None or not 2 <= n_arms <= 1_000_000 or n_arms != int(n_arms):
        raise ValueError(f"n_arms must be a whole number from 2 to a million, got {n_arms!r}")
    if gap is not None:
        equal = [check_positive("gap", gap)]
    else:
        ends = [check_positive("gap_range", value) for value in gap_range or ()]
        if len(ends) != 2 or not ends[0] < ends[1]:
            raise ValueError(f"gap_range must be a smaller and a larger gap, got {gap_range!r}")
        equal = np.geomspace(ends[0], ends[1], N_GAPS).tolist()
    return np.array([[0.0] + [value] * (int(n_arms) - 1) for value in equal])


def _sizes(problems: FloatArray, horizon: int) -> FloatArray:
    """Sizes of the bucket: none, then from a few looks, or a tenth of ε*, up to a look a stage."""
    least = min(float(complexity.rate_star(p, horizon)) for p in problems) / 10
    least = min(max(least, 1 / horizon), 0.01)
    return np.concatenate(([0.0], np.geomspace(least, 1.0, N_RATES)))


def early_scale(rate: float, horizon: int) -> float:
    """A for which looks at rates min(1, A/t) come to εT: A (1 + log(T/A)) = εT, A ≤ T."""
    low, high = 0.0, float(horizon)
    for _ in range(200):
        middle = (low + high) / 2
        if middle > 0 and middle * (1 + math.log(horizon / middle)) < rate * horizon:
            low = middle
        else:
            high = middle
    return high if rate > 0 else 0.0


def _early_looks(scale: FloatArray, stages: FloatArray) -> FloatArray:
    """Looks expected up to each stage at rates min(1, A/t)."""
    safe = np.where(scale > 0, scale, 1.0)
    looks = safe * (1 + np.log(np.maximum(stages / safe, 1.0)))
    return np.asarray(np.where(scale > 0, np.minimum(stages, looks), 0.0))


def _predict(
    problems: FloatArray,
    rates: FloatArray,
    scales: FloatArray,
    horizon: int,
    exploration: float,
    settings: list[tuple[str, bool]],
) -> dict[tuple[str, bool], FloatArray]:
    """Predicted regret of each observer, with steady and early looks: problem, rate."""
    stages = stages_up_to(horizon, problems.shape[1])
    steady, early = rates[:, np.newaxis] * stages, _early_looks(scales[:, np.newaxis], stages)
    groups = [np.unique(gaps, return_index=True, return_counts=True) for gaps in problems]
    counts = groups[0][2].astype(np.float64)  # the problems of a range have the same groups
    own, weights, active, looks, is_steady = [], [], [], [], []
    for observer, comes_early in settings:
        for gaps, (group, first, _) in zip(problems, groups, strict=True):
            own.append(np.tile(group, (len(rates), 1)))
            weights.append(np.tile(_weights(gaps, observer)[first], (len(rates), 1)))
            active.append(np.full(len(rates), observer == "active"))
            looks.append(early if comes_early else steady)
            is_steady.append(np.full(len(rates), not comes_early))
    each = np.concatenate
    rows = Rows(each(own), counts, each(weights), each(active), each(looks), each(is_steady))
    regret = (counts * rows.gaps * predicted_pulls(rows, stages, exploration)).sum(axis=-1)
    regret = np.minimum(regret, rows.gaps.max(axis=-1) * horizon)
    regret = regret.reshape(len(settings), len(problems), len(rates))
    return dict(zip(settings, regret, strict=True))


def predict(
    gaps: Sequence[float],
    rates: Sequence[float],
    horizon: int,
    observer: str = "uniform",
    *,
    early: bool = False,
    exploration: float = 6.0,
) -> FloatArray:
    """Return the predicted regret for each rate ε of looks.

    Parameters
    ----------
    gaps
        One per arm, 0 for the best.
    observer
        "uniform" or "optimal" (UCB, passive), or "active" (UCB1-Double).
    early
        Whether the εT looks come early, at rates min(1, A/t).
    """
    check_choice("observer", observer, *OBSERVERS)
    last, sizes = _check_horizon(horizon), check_rate(rates)
    scales = np.array([early_scale(rate, last) for rate in sizes])
    settings = [(observer, early)]
    problems = np.sort(check_gaps(gaps))[np.newaxis]
    regret = _predict(problems, sizes, scales, last, exploration, settings)[observer, early]
    return np.asarray(regret[0])


def _weights(gaps: FloatArray, observer: str) -> FloatArray:
    if observer == "uniform":
        return np.full(gaps.shape, 1 / len(gaps))
    return complexity.optimal_weights(gaps)


def _plateau(gaps: FloatArray, rates: FloatArray, observer: str, exploration: float) -> FloatArray:
    bad = gaps[gaps > 0]
    if observer == "active":
        needed = (exploration / bad**2).sum()
    else:
        needed = (exploration / bad**2 / _weights(gaps, observer)[gaps > 0]).max()
    stages = np.full(rates.shape, math.inf)
    stages[rates > 0] = needed / rates[rates > 0]
    return stages


def _both(values: FloatArray, worst: Any = np.max) -> dict[str, Any]:
    """Mean and worst over the problems, which are on the first axis."""
    return {"mean": values.mean(axis=0).tolist(), "worst": worst(values, axis=0).tolist()}


def _best(
    problems: FloatArray,
    rates: FloatArray,
    regret: FloatArray,
    horizon: int,
    cost: float,
    exploration: float,
    observer: str,
) -> dict[str, Any]:
    from scipy.interpolate import PchipInterpolator

    sizes = np.geomspace(rates[1], 1.0, 2000)
    saving = (regret[:, :1] - regret).mean(axis=0)
    net = PchipInterpolator(np.log(rates[1:]), saving[1:])(np.log(sizes)) - cost * sizes * horizon
    k = int(np.argmax(net))
    size = float(sizes[k]) if net[k] > 0 else 0.0
    best: dict[str, Any] = {
        "rate": size,
        "looks": size * horizon,
        "net": float(max(net[k], 0.0)),
    }
    if observer != "active":
        best["leading"] = leading_best(problems, horizon, cost, exploration, observer)
    return best


def leading_best(
    problems: FloatArray, horizon: int, cost: float, exploration: float, observer: str
) -> dict[str, float]:
    r"""Return the best size at leading order, in closed form.

    The saving is :math:`S(\epsilon) = c\sum_i \log_+(\epsilon/\epsilon^*_i)/\Delta_i` with
    :math:`\epsilon^*_i = 1/(2p_i\Delta_i^2T)`, in the mean over the problems. Between two of these
    thresholds :math:`S - \kappa\epsilon T` is largest at
    :math:`c\sum_{active}(1/\Delta_i)/(\kappa T)`; the best of these is taken, if it pays at all.
    """
    gains, thresholds = [], []
    for gaps in problems:
        bad = gaps > 0
        gains.append(exploration / gaps[bad] / len(problems))
        with np.errstate(divide="ignore"):
            thresholds.append(1 / (2 * _weights(gaps, observer)[bad] * gaps[bad] ** 2 * horizon))
    gain, threshold = np.concatenate(gains), np.concatenate(thresholds)
    order = np.argsort(threshold, kind="stable")
    gain, threshold = gain[order], threshold[order]
    steepness = np.cumsum(gain)
    ends = np.append(threshold[1:], math.inf)
    price = max(cost * horizon, 1e-300)
    sizes = np.minimum(np.clip(steepness / price, threshold, ends), 1.0)
    with np.errstate(divide="ignore"):
        saving = (gain * np.maximum(np.log(sizes[:, np.newaxis] / threshold), 0)).sum(axis=-1)
    net = saving - cost * sizes * horizon
    k = int(np.argmax(net))
    if not net[k] > 0:
        return {"rate": 0.0, "looks": 0.0, "net": 0.0}
    return {"rate": float(sizes[k]), "looks": float(sizes[k] * horizon), "net": float(net[k])}


def _simulated(
    problems: FloatArray,
    rates: FloatArray,
    scales: FloatArray,
    regret: dict[tuple[str, bool], FloatArray],
    horizon: int,
    exploration: float,
    runs: int,
    seed: int,
    progress: Callable[[str, float], None] | None,
) -> list[dict[str, Any]]:
    """Play a few settings: without looks, at ε* and at ten and a hundred times ε*."""
    from kibitz.model.feedback import active, bandit, passive
    from kibitz.model.problem import gaussian
    from kibitz.policies.ucb import ucb, ucb_double
    from kibitz.simulator.simulate import simulate

    points = []
    for place in sorted({0, len(problems) // 2, len(problems) - 1}):
        gaps = problems[place]
        star = float(complexity.rate_star(gaps, horizon))
        chosen = {int(np.argmin(np.abs(np.log(rates[1:] / (star * x))))) + 1 for x in (1, 10, 100)}
        settings = [("uniform", False, 0)]
        settings += [(observer, False, k) for observer in OBSERVERS for k in sorted(chosen)]
        if horizon <= MOST_STEPS:
            settings += [(observer, True, max(chosen)) for observer in OBSERVERS]
        for observer, early, k in settings:
            rate: Any = float(rates[k])
            if early:
                rate = np.minimum(1.0, scales[k] / np.arange(1, horizon + 1))
            if k == 0:
                feedback = bandit()
            else:
                feedback = active(rate) if observer == "active" else passive(rate, observer)
            policy = ucb_double if observer == "active" else ucb
            data = simulate(
                gaussian((-gaps).tolist()), feedback, policy(exploration), horizon=horizon,
                runs=runs, seed=seed, stages=[horizon], progress=progress,
            )  # fmt: skip
            final = data["final_regret"].to_numpy()[0]
            error = float(final.std(ddof=1) / math.sqrt(runs)) if runs > 1 else 0.0
            points.append(
                {
                    "gaps": gaps.tolist(),
                    "rate": float(rates[k]),
                    "observer": observer if k else "none",
                    "early": early,
                    "predicted": float(regret[observer, early][place, k]),
                    "mean": float(final.mean()),
                    "sem": error,
                }
            )
    return points
