"""Compare the planner's predictions with simulated regret.

The problems have two, three, five or twenty arms, equal or unequal gaps, and horizons from 10⁴ to
10⁶. The rate of looks is 0 or a multiple of (Σ 1/Δ²)/T, where Δ are the positive gaps and T is the
horizon; the multiples give few, enough or plenty of looks. Looks arrive at a steady rate or, in the
settings with T = 50,000, early in the run. None of these settings was used to fit kibitzer's
prediction (benchmarks/kibitzer_fit.py). With the argument `kibitzer`, the script measures only that
policy. The script prints each setting and then the numbers in `kibitz.planning.prediction.ACCURACY`.
The simulated means have standard errors of 1 to 5 %. The script takes about half an hour.
"""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from kibitz import active, bandit, gaussian, kibitzer, passive, simulate, ucb, ucb_double
from kibitz.planning.prediction import OBSERVERS, early_scale, predict

PROBLEMS = [
    *([0.0] + [gap] * (n - 1) for n, gap in ((2, 0.1), (2, 0.5), (2, 1.0), (3, 2.0))),
    *([0.0] + [gap] * (n - 1) for n, gap in ((5, 0.2), (5, 0.5), (20, 0.3), (20, 1.0))),
    [0.0, 0.2, 1.5, 1.8],
    [0.0, 0.2, 0.5, 1.0, 1.5],
    [0.0, 0.1, 0.2, 0.4, 0.8],
    [0.0, 0.05, 1.0],
]
HORIZONS = {10**4: 200, 10**5: 60, 10**6: 24}  # horizon: number of runs
MULTIPLES = (1.0, 10.0, 100.0)
EARLY_LOOKS = {"horizon": 50_000, "runs": 60, "looks": (2.0, 7.0, 20.0, 60.0)}


def simulate_regret(gaps: list[float], rate: Any, observer: str, horizon: int, runs: int) -> float:
    """Return the mean final regret of the observer's policy over simulated runs."""
    if observer == "kibitzer":
        feedback, policy, runs = active(rate), kibitzer(), 2 * runs  # the regret has a long tail
    elif observer == "active":
        feedback, policy = active(rate), ucb_double()
    else:
        feedback = bandit() if np.ndim(rate) == 0 and rate == 0 else passive(rate, observer)
        policy = ucb()
    means = [-gap for gap in gaps]
    data = simulate(
        gaussian(means), feedback, policy, horizon=horizon, runs=runs, seed=7, stages=[horizon]
    )
    return float(data["final_regret"].mean())


def main(observers: Sequence[str]) -> None:
    """Simulate all settings and print the errors of the predictions."""
    errors: dict[str, list[float]] = {}
    for gaps in PROBLEMS:
        needed = sum(gap**-2 for gap in gaps if gap > 0)
        for horizon, runs in HORIZONS.items():
            rates = [0.0, *(x * needed / horizon for x in MULTIPLES if x * needed < horizon / 2)]
            for observer in observers:
                predicted = predict(gaps, rates, horizon, observer)
                for rate, prediction in zip(rates, predicted, strict=True):
                    kind = observer if rate > 0 or observer == "kibitzer" else "no looks"
                    if kind == "no looks" and observer != "uniform":
                        continue
                    mean = simulate_regret(gaps, rate, observer, horizon, runs)
                    errors.setdefault(kind, []).append(prediction / mean - 1)
                    ratio = f"{mean:.4g} {prediction / mean:.3f}"
                    print(f"{gaps[:5]} T={horizon} ε={rate:.2g} {kind} {ratio}")
        horizon, runs = EARLY_LOOKS["horizon"], EARLY_LOOKS["runs"]
        for x in EARLY_LOOKS["looks"]:
            rate = x * needed / horizon
            if rate < 0.5:
                rates = np.minimum(1, early_scale(rate, horizon) / np.arange(1, horizon + 1))
                for observer in observers:
                    without_looks = predict(gaps, [0.0], horizon, observer)[0]
                    kind = "kibitzer, early" if observer == "kibitzer" else "early"
                    prediction = predict(gaps, [rate], horizon, observer, early=True)[0]
                    mean = simulate_regret(gaps, rates, observer, horizon, runs)
                    errors.setdefault(kind, []).append((prediction - mean) / without_looks)
                    print(f"{gaps[:5]} early, ε={rate:.2g}, {observer} {mean:.4g} {prediction:.4g}")
    for kind, values in errors.items():
        absolute_errors = np.abs(values)
        print(
            f"{kind}: {len(values)} settings, median {np.median(values):+.3f}, "
            f"nine of ten within {np.quantile(absolute_errors, 0.9):.3f}, "
            f"worst {absolute_errors.max():.3f}"
        )


if __name__ == "__main__":
    main(sys.argv[1:] or OBSERVERS)
