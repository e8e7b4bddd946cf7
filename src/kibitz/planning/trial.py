"""Some settings of a plan, played, to stand beside their predictions."""

import math
from typing import Any

import numpy as np

from kibitz.bounds import complexity
from kibitz.planning.fluid import FloatArray
from kibitz.planning.prediction import OBSERVERS

MOST_STEPS = 1_000_000  # the horizon up to which front-loaded looks are simulated, stage by stage


def played_points(
    problems: FloatArray,
    rates: FloatArray,
    scales: FloatArray,
    regret: dict[tuple[str, bool], FloatArray],
    horizon: int,
    exploration: float,
    **options: Any,
) -> list[dict[str, Any]]:
    """Play a few settings: without looks, at ε* and at ten and a hundred times ε*.

    `options` are those of `simulate`.
    """
    points = []
    for place in sorted({0, len(problems) // 2, len(problems) - 1}):
        gaps = problems[place]
        for observer, early, k in _settings(gaps, rates, horizon):
            rate: Any = float(rates[k])
            if early:
                rate = np.minimum(1.0, scales[k] / np.arange(1, horizon + 1))
            rate = rate if k else None
            final = _final_regret(gaps, observer, rate, exploration, horizon=horizon, **options)
            points.append(
                {
                    "gaps": gaps.tolist(),
                    "rate": float(rates[k]),
                    "observer": observer if k or observer == "kibitzer" else "none",
                    "early": early,
                    "predicted": float(regret[observer, early][place, k]),
                    "mean": float(final.mean()),
                    "sem": float(final.std(ddof=1) / math.sqrt(final.size))
                    if final.size > 1
                    else 0.0,
                }
            )
    return points


def _settings(gaps: FloatArray, rates: FloatArray, horizon: int) -> list[tuple[str, bool, int]]:
    """What is played of a problem: observer, whether looks come early, place among the rates."""
    star = float(complexity.rate_star(gaps, horizon))
    chosen = {int(np.argmin(np.abs(np.log(rates[1:] / (star * x))))) + 1 for x in (1, 10, 100)}
    observers = [one for one in OBSERVERS if one != "kibitzer" or _playable(gaps, horizon)]
    settings: list[tuple[str, bool, int]]
    settings = [(one, False, 0) for one in ("uniform", "kibitzer") if one in observers]
    settings += [(observer, False, k) for observer in observers for k in sorted(chosen)]
    if horizon <= MOST_STEPS:
        settings += [(observer, True, max(chosen)) for observer in OBSERVERS]
    return settings


def _playable(gaps: FloatArray, horizon: int) -> bool:
    """Whether kibitzer can be played that long."""
    from kibitz.model.feedback import active
    from kibitz.model.problem import gaussian
    from kibitz.policies.kibitzer import kibitzer
    from kibitz.simulation.schedule import uses_leaps

    problem = gaussian((-gaps).tolist())
    return horizon <= MOST_STEPS or uses_leaps(kibitzer(), problem, active(0.5), horizon)


def _final_regret(
    gaps: FloatArray, observer: str, rate: Any, exploration: float, **options: Any
) -> FloatArray:
    """The regret of each run at the horizon; without looks if there is no rate."""
    from kibitz.model.feedback import active, bandit, passive
    from kibitz.model.problem import gaussian
    from kibitz.policies.kibitzer import kibitzer
    from kibitz.policies.ucb import ucb, ucb_double
    from kibitz.simulation.simulate import simulate

    chooses = observer in {"active", "kibitzer"}
    policies = {"kibitzer": kibitzer, "active": lambda: ucb_double(exploration)}
    policy = policies.get(observer, lambda: ucb(exploration))()
    looks = active if chooses else lambda rate: passive(rate, observer)
    feedback = bandit() if rate is None else looks(rate)
    problem = gaussian((-gaps).tolist())
    data = simulate(problem, feedback, policy, stages=[options["horizon"]], **options)
    return np.asarray(data["final_regret"].to_numpy()[0])
