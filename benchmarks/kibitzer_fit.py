"""Fit the correction of kibitzer's fluid model: `python benchmarks/kibitzer_fit.py results.json`.

The script simulates kibitzer in random settings and saves the mean regrets in the given file.
Settings have 2 to 30 arms, equal or unequal gaps, T from 10³ to 10⁶, and no, few, enough or plenty
of looks, steady or early. The script then prints the coefficients for
`kibitz.planning.kibitzer.COEFFICIENTS`, fitted by weighted least squares. It takes about ten
minutes. benchmarks/fluid.py measures the accuracy of the coefficients on other settings.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

N_SETTINGS = 400
STAGES_PER_SETTING = 6_000_000  # the total number of stages of all runs of a setting
SEED = 11


def random_setting(rng: np.random.Generator) -> dict[str, Any]:
    """Return a random setting: gaps, horizon, rate, and whether looks are early."""
    n_arms = int(2 * 15.5 ** rng.random())
    if rng.random() < 0.5:
        gaps = np.full(n_arms - 1, 0.05 * 40 ** rng.random())
    else:
        gaps = 0.05 * 40 ** rng.random(n_arms - 1)
    horizon = int(10 ** rng.uniform(3, 6))
    needed = (gaps**-2).sum() / horizon
    rate = 0.0 if rng.random() < 0.2 else min(1.0, needed * 10 ** rng.uniform(-1, 3))
    early = bool(rate > 0 and horizon < 10**5 and rng.random() < 0.35)
    return {
        "gaps": [0.0, *np.sort(gaps.round(4)).tolist()],
        "horizon": horizon,
        "rate": rate,
        "early": early,
    }


def simulate_setting(setting: dict[str, Any], seed: int) -> dict[str, Any]:
    """Return the setting with its mean regret and standard error."""
    from kibitz import active, gaussian, kibitzer, simulate
    from kibitz.planning.prediction import early_scale

    gaps, horizon, rate = setting["gaps"], setting["horizon"], setting["rate"]
    arrivals: Any = rate
    if setting["early"]:
        arrivals = np.minimum(1, early_scale(rate, horizon) / np.arange(1, horizon + 1))
    runs = int(np.clip(STAGES_PER_SETTING // horizon, 12, 600))
    data = simulate(
        gaussian([-gap for gap in gaps]), active(arrivals), kibitzer(),
        horizon=horizon, runs=runs, seed=seed, stages=[horizon], engine="step",
    )  # fmt: skip
    final = data["final_regret"].to_numpy()[0]
    return {**setting, "mean": final.mean(), "sem": final.std(ddof=1) / runs**0.5}


def main(file: Path) -> None:
    """Simulate the settings that are not in the file yet, then print the fitted coefficients."""
    results = json.loads(file.read_text()) if file.exists() else []
    rng = np.random.default_rng(SEED)
    for n, setting in enumerate([random_setting(rng) for _ in range(N_SETTINGS)]):
        if n >= len(results):
            results.append(simulate_setting(setting, n))
            if n % 10 == 9:
                file.write_text(json.dumps(results))
    file.write_text(json.dumps(results))
    fit(results)


def fit(results: list[dict[str, Any]]) -> None:
    """Print the coefficients, their ranges and the quality of the fit."""
    from kibitz.planning import kibitzer
    from kibitz.planning.prediction import _early_looks, early_scale

    rows = []
    for result in results:
        gaps, counts = np.unique(result["gaps"], return_counts=True)
        stages = kibitzer.stage_grid(result["horizon"], len(result["gaps"]))
        looks = result["rate"] * stages[np.newaxis]
        if result["early"]:
            looks = _early_looks(np.array([[early_scale(result["rate"], result["horizon"])]]), stages)
        rows.append(kibitzer.summarize_fluid(gaps[np.newaxis], counts.astype(float), looks, stages))
    base, noise, n_arms, inverse = (np.concatenate(column) for column in zip(*rows, strict=True))
    logs = np.log(base)
    raw = (np.log(noise) - logs, np.log(n_arms), np.log(inverse) - logs)
    ranges = tuple((float(x.min().round(2)), float(x.max().round(2))) for x in raw)
    kibitzer.RANGES = ranges
    terms = kibitzer.polynomial_terms(base, noise, n_arms, inverse)
    mean, sem = (np.array([result[name] for result in results]) for name in ("mean", "sem"))
    weights = 1 / np.sqrt((sem / mean) ** 2 + 0.05**2)
    target, weighted = np.log(mean / base), terms * weights[:, np.newaxis]
    ridge = np.diag([0.0] + [0.3] * (terms.shape[1] - 1))
    coefficients = np.linalg.solve(weighted.T @ weighted + ridge, weighted.T @ (target * weights))
    residuals = np.abs(terms @ coefficients - target)
    print("RANGES =", ranges)
    print("COEFFICIENTS =", tuple(float(c.round(4)) for c in coefficients))
    median, high = np.median(residuals), np.quantile(residuals, 0.9)
    print(f"{len(results)} settings: median {median:.3f}, nine of ten within {high:.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
