"""Simulate some settings of a plan, to compare the results with the predictions."""

import math
from typing import Any

import numpy as np

from kibitz.bounds import complexity
from kibitz.planning.fluid import FloatArray
from kibitz.planning.prediction import OBSERVERS

MAX_STEPWISE_HORIZON = 1_000_000  # early looks are simulated stage by stage


def simulate_points(
    problems: FloatArray,
    rates: FloatArray,
    scales: FloatArray,
    regret: dict[tuple[str, bool], FloatArray],
    horizon: int,
    exploration: float,
    **options: Any,
) -> list[dict[str, Any]]:
    """Simulate settings without looks, and with looks at rates near ε*, 10 ε* and 100 ε*.

    Return one dict per setting, with the predicted regret, the mean simulated regret and its standard
    error. If there are several problems, only the first, the middle and the last problem are
    simulated. `options` are passed to `simulate`.
    """
    points = []
    for n in sorted({0, len(problems) // 2, len(problems) - 1}):
        gaps = problems[n]
        for observer, is_early, k in _list_settings(gaps, rates, horizon):
            rate: Any = float(rates[k])
            if is_early:
                rate = np.minimum(1.0, scales[k] / np.arange(1, horizon + 1))
            rate = rate if k else None
            final_regret = _simulate_final_regret(
                gaps, observer, rate, exploration, horizon=horizon, **options
            )
            points.append(
                {
                    "gaps": gaps.tolist(),
                    "rate": float(rates[k]),
                    "policy": observer if k or observer == "kibitzer" else "none",
                    "early": is_early,
                    "predicted": float(regret[observer, is_early][n, k]),
                    "mean": float(final_regret.mean()),
                    "sem": float(final_regret.std(ddof=1) / math.sqrt(final_regret.size))
                    if final_regret.size > 1
                    else 0.0,
                }
            )
    return points


def _list_settings(gaps: FloatArray, rates: FloatArray, horizon: int) -> list[tuple[str, bool, int]]:
    """Return the settings to simulate, as tuples (observer, is_early, rate index)."""
    rate_star = float(complexity.rate_star(gaps, horizon))
    rate_indices = {
        int(np.argmin(np.abs(np.log(rates[1:] / (rate_star * x))))) + 1 for x in (1, 10, 100)
    }
    observers = [name for name in OBSERVERS if name != "kibitzer" or _is_feasible(gaps, horizon)]
    simulated_settings: list[tuple[str, bool, int]]
    simulated_settings = [(name, False, 0) for name in ("uniform", "kibitzer") if name in observers]
    simulated_settings += [
        (observer, False, k) for observer in observers for k in sorted(rate_indices)
    ]
    if horizon <= MAX_STEPWISE_HORIZON:
        simulated_settings += [(observer, True, max(rate_indices)) for observer in OBSERVERS]
    return simulated_settings


def _is_feasible(gaps: FloatArray, horizon: int) -> bool:
    """Return whether kibitzer can be simulated up to this horizon in reasonable time."""
    from kibitz.model.feedback import active
    from kibitz.model.problem import gaussian
    from kibitz.policies.kibitzer import kibitzer
    from kibitz.simulation.schedule import uses_leaps

    problem = gaussian((-gaps).tolist())
    return horizon <= MAX_STEPWISE_HORIZON or uses_leaps(kibitzer(), problem, active(0.5), horizon)


def _simulate_final_regret(
    gaps: FloatArray, observer: str, rate: Any, exploration: float, **options: Any
) -> FloatArray:
    """Simulate a policy; return the regret of each run at the horizon. Rate None means no looks."""
    from kibitz.model.feedback import active, bandit, passive
    from kibitz.model.problem import gaussian
    from kibitz.policies.kibitzer import kibitzer
    from kibitz.policies.ucb import ucb, ucb_double
    from kibitz.simulation.simulate import simulate

    is_active = observer in {"active", "kibitzer"}
    policies = {"kibitzer": kibitzer, "active": lambda: ucb_double(exploration)}
    policy = policies.get(observer, lambda: ucb(exploration))()
    make_feedback = active if is_active else lambda rate: passive(rate, observer)
    feedback = bandit() if rate is None else make_feedback(rate)
    problem = gaussian((-gaps).tolist())
    data = simulate(problem, feedback, policy, stages=[options["horizon"]], **options)
    return np.asarray(data["final_regret"].to_numpy()[0])
