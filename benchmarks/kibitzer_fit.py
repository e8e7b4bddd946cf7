"""Fit what the fluid of kibitzer leaves out: `python benchmarks/kibitzer_fit.py played.json`.

Plays kibitzer in random settings (2 to 30 arms, equal and unequal gaps, T from 10³ to 10⁶, active
looks that are none, few, enough and plenty, steady and early), keeps the means in the file named, and
prints the coefficients that `kibitz.planning.kibitzer_fluid.COEFFICIENTS` holds, by weighted least
squares. How accurate they are is measured on other settings: benchmarks/fluid.py. About ten minutes.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

SETTINGS = 400
STAGES = 6_000_000  # of a setting, all runs together
SEED = 11


def random_setting(rng: np.random.Generator) -> dict[str, Any]:
    """Return gaps, horizon, rate and whether looks come early."""
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


def played(setting: dict[str, Any], seed: int) -> dict[str, Any]:
    """Return the setting with its mean regret and standard error."""
    from kibitz import active, gaussian, kibitzer, simulate
    from kibitz.planning.prediction import early_scale

    gaps, horizon, rate = setting["gaps"], setting["horizon"], setting["rate"]
    arrivals: Any = rate
    if setting["early"]:
        arrivals = np.minimum(1, early_scale(rate, horizon) / np.arange(1, horizon + 1))
    runs = int(np.clip(STAGES // horizon, 12, 600))
    data = simulate(
        gaussian([-gap for gap in gaps]), active(arrivals), kibitzer(),
        horizon=horizon, runs=runs, seed=seed, stages=[horizon], engine="step",
    )  # fmt: skip
    final = data["final_regret"].to_numpy()[0]
    return {**setting, "mean": final.mean(), "sem": final.std(ddof=1) / runs**0.5}


def main(file: Path) -> None:
    """Play what the file does not hold yet, then fit."""
    done = json.loads(file.read_text()) if file.exists() else []
    rng = np.random.default_rng(SEED)
    for n, setting in enumerate([random_setting(rng) for _ in range(SETTINGS)]):
        if n >= len(done):
            done.append(played(setting, n))
            if n % 10 == 9:
                file.write_text(json.dumps(done))
    file.write_text(json.dumps(done))
    fit(done)


def fit(done: list[dict[str, Any]]) -> None:
    """Print ranges and coefficients, and how well they fit."""
    from kibitz.planning import kibitzer
    from kibitz.planning.prediction import _early_looks, early_scale

    rows = []
    for one in done:
        gaps, counts = np.unique(one["gaps"], return_counts=True)
        stages = kibitzer.stages_up_to(one["horizon"], len(one["gaps"]))
        looks = one["rate"] * stages[np.newaxis]
        if one["early"]:
            looks = _early_looks(np.array([[early_scale(one["rate"], one["horizon"])]]), stages)
        rows.append(kibitzer.parts(gaps[np.newaxis], counts.astype(float), looks, stages))
    base, noise, n_arms, inverse = (np.concatenate(column) for column in zip(*rows, strict=True))
    logs = np.log(base)
    raw = (np.log(noise) - logs, np.log(n_arms), np.log(inverse) - logs)
    ranges = tuple((float(x.min().round(2)), float(x.max().round(2))) for x in raw)
    kibitzer.RANGES = ranges
    terms = kibitzer.features(base, noise, n_arms, inverse)
    mean, sem = (np.array([one[name] for one in done]) for name in ("mean", "sem"))
    weights = 1 / np.sqrt((sem / mean) ** 2 + 0.05**2)
    target, weighted = np.log(mean / base), terms * weights[:, np.newaxis]
    ridge = np.diag([0.0] + [0.3] * (terms.shape[1] - 1))
    solved = np.linalg.solve(weighted.T @ weighted + ridge, weighted.T @ (target * weights))
    off = np.abs(terms @ solved - target)
    print("RANGES =", ranges)
    print("COEFFICIENTS =", tuple(float(c.round(4)) for c in solved))
    print(f"of {len(done)}: median {np.median(off):.3f}, nine of ten {np.quantile(off, 0.9):.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
