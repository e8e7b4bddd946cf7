"""Fit the planner's predictions for kibitzer to simulations.

`python benchmarks/kibitzer_fit.py gaussian results.json` simulates kibitzer with Gaussian rewards in
random settings and saves the mean regrets in the given file. Settings have 2 to 30 arms, equal or
unequal gaps and T from 10³ to 10⁶. They have no, few, enough or plenty of looks, which arrive at a
steady rate or early in the run. The script then prints the coefficients for
`kibitz.planning.kibitzer.COEFFICIENTS`, fitted by weighted least squares. It takes about ten minutes.
benchmarks/fluid.py measures the accuracy of the coefficients on other settings.

`python benchmarks/kibitzer_fit.py clicks results.json [tests.csv]` does the same for rewards 0 or 1.
It simulates Thompson sampling with active looks, and kibitzer with active looks and with passive
uniform looks. Settings have 2 to 20 arms, rates from 0.6 % to 50 %, T from 10³ to 10⁵, and no looks
or looks at rates from 0.001 to 1. The script prints `kibitz.planning.bernoulli.CONSTANTS`. It then
measures the accuracy of these constants on fresh settings (T up to 2·10⁵) and, if a file is given, on
real A/B tests. The results are the numbers in `kibitz.planning.bernoulli.ACCURACY`. The file must
have the columns test, arm, impressions and clicks; one such file is the Upworthy Research Archive
(Matias et al. 2021). No constant is fitted to this file. The script takes about twenty minutes on two
cores.
"""

import csv
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

N_SETTINGS = 400
STAGES_PER_SETTING = 6_000_000  # the total number of stages of all runs of a setting
SEED = 11

N_CLICK_SETTINGS, N_FRESH, N_TESTS = 200, 40, 40
CLICK_STAGES = 600_000  # the total number of stages of all runs of a setting with clicks
CLICK_SEED, FRESH_SEED = 21, 22
TEST_HORIZON, TEST_RUNS, TEST_RATES = 20_000, 24, (0.0, 0.01, 0.1)
MIN_CLICKS = 20  # real tests with fewer clicks are left out
NOISE = 0.1  # relative error of the formula; the weights of the fit assume this value

# ------------------------------------------------------------------------------- Gaussian rewards


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


def fit_gaussian(file: Path) -> None:
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
    """Fit the coefficients; print them, the ranges of the predictors and the errors of the fit."""
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


# ---------------------------------------------------------------------------------------- clicks


def random_clicks(rng: np.random.Generator, max_log_horizon: float) -> dict[str, Any]:
    """Return a random setting of clicks: rates of the arms, horizon and rate of looks."""
    while True:
        n_arms = int(2 * 10.5 ** rng.random())
        horizon = int(10 ** rng.uniform(3, max_log_horizon))
        best = 0.006 * 83 ** rng.random()
        gap = np.sqrt(best * (1 - best) * n_arms / horizon * 10 ** rng.uniform(-0.5, 2.5))
        if rng.random() < 0.5:
            gaps = np.full(n_arms - 1, gap)
        else:
            gaps = gap * np.abs(rng.standard_normal(n_arms - 1))
        at = 0.0 if rng.random() < 0.35 else float(10 ** rng.uniform(-3, 0))
        if gaps.max() < 0.9 * best:
            rates = [best, *(best - np.sort(gaps)).round(7).tolist()]
            return {"rates": rates, "horizon": horizon, "at": at}


def real_tests(file: Path) -> list[dict[str, Any]]:
    """Return settings whose rates are drawn from the posterior distributions of real tests.

    The function uses a random half of the tests in the file. In the prior, the rates of the arms of a
    test have the relative standard deviation τ, which is estimated from all tests of this half.
    """
    tests: dict[int, list[tuple[int, int]]] = {}
    with file.open(newline="") as lines:
        for row in csv.DictReader(lines):
            counts = int(row["impressions"]), int(row["clicks"])
            tests.setdefault(int(row["test"]), []).append(counts)
    enough = sorted(name for name, arms in tests.items() if sum(s for _, s in arms) >= MIN_CLICKS)
    names = np.random.default_rng(2026).permutation(enough)[len(enough) // 2 :]
    excess = spread = 0.0
    for name in names:
        n, s = np.array(tests[name], float).T
        pooled = s.sum() / n.sum()
        excess += (n * (s / n - pooled) ** 2).sum() / (pooled * (1 - pooled)) - (n.size - 1)
        spread += pooled / (1 - pooled) * (n.sum() - (n**2).sum() / n.sum())
    settings = []
    for name in names[:N_TESTS]:
        n, s = np.array(tests[name], float).T
        pooled = s.sum() / n.sum()
        strength = (1 - pooled) / (pooled * excess / spread) - 1
        a, b = pooled * strength + s, (1 - pooled) * strength + n - s
        rates = np.random.default_rng([7, name]).beta(a, b).tolist()
        for at in TEST_RATES:
            settings.append({"rates": rates, "horizon": TEST_HORIZON, "at": at, "test": int(name)})
    print(f"{len(names)} real tests with τ = {np.sqrt(excess / spread):.3f}; {N_TESTS} are simulated")
    return settings


def simulate_clicks(setting: dict[str, Any], seed: int, runs: int) -> dict[str, Any]:
    """Return the setting with the mean regret and its standard error for each policy."""
    from kibitz import active, bernoulli, kibitzer, passive, simulate, thompson

    horizon, at = setting["horizon"], setting["at"]
    policies = {
        "kibitzer": (active(at), kibitzer(rewards="bernoulli")),
        "thompson": (active(at), thompson(rewards="bernoulli")),
    }
    if at > 0:
        policies["uniform"] = (passive(at), kibitzer(rewards="bernoulli"))
    result = dict(setting)
    for name, (feedback, policy) in policies.items():
        data = simulate(
            bernoulli(setting["rates"]), feedback, policy,
            horizon=horizon, runs=runs, seed=seed, stages=[horizon], engine="step",
        )  # fmt: skip
        final = data["final_regret"].to_numpy()[0]
        result[name] = {"mean": float(final.mean()), "sem": float(final.std(ddof=1) / runs**0.5)}
    return result


def fit_clicks(file: Path, tests: Path | None) -> None:
    """Simulate the settings that are not in the file yet; print the fitted constants and accuracy."""
    results = json.loads(file.read_text()) if file.exists() else {}
    rng, fresh = np.random.default_rng(CLICK_SEED), np.random.default_rng(FRESH_SEED)
    settings = {
        "fit": [random_clicks(rng, 5.0) for _ in range(N_CLICK_SETTINGS)],
        "tests": real_tests(tests) if tests else [],
        "fresh": [random_clicks(fresh, 5.3) for _ in range(N_FRESH)],
    }
    for part, items in settings.items():
        part_results = results.setdefault(part, [])
        for n, setting in enumerate(items[len(part_results) :], len(part_results)):
            runs = int(np.clip(CLICK_STAGES // setting["horizon"], 16, 200))
            seed = {"fit": n, "tests": setting.get("test", 0), "fresh": 1000 + n}[part]
            runs = TEST_RUNS if part == "tests" else runs
            part_results.append(simulate_clicks(setting, seed, runs))
            file.write_text(json.dumps(results))
    constants = find_constants(results["fit"])
    for part in settings:
        print_accuracy(part, results[part], constants)


def find_constants(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the constants of the formula for each policy, fitted by weighted least squares."""
    from scipy.optimize import least_squares

    from kibitz.planning.bernoulli import Constants

    def residuals(x: Any, policy: str, known: tuple[float, ...]) -> list[float]:
        values = [*known, *x]
        constants = Constants(np.exp(values[0]), values[1], np.exp(values[2]))
        return [
            np.log(predict(result, constants) / result[policy]["mean"])
            / np.hypot(NOISE, result[policy]["sem"] / result[policy]["mean"])
            for result in results
            if policy in result
        ]

    fitted = {}
    for policy, n_free in (("kibitzer", 3), ("uniform", 1), ("thompson", 3)):
        # without looks, "uniform" is the same policy as "kibitzer", so it has the same c and γ
        known = tuple(fitted["kibitzer"][:2]) if policy == "uniform" else ()
        first = [-0.3, 0.1, 0.0][-n_free:]
        x = least_squares(residuals, first, args=(policy, known), loss="soft_l1").x
        fitted[policy] = [*known, *x.tolist()]
    print("CONSTANTS = {")
    summaries = {}
    for policy, x in fitted.items():
        values = [np.exp(x[0]), x[1], np.exp(x[2])]
        summaries[policy] = Constants(*(float(np.round(value, 3)) for value in values))
        print(f'    "{policy}": {summaries[policy]},')
    print("}")
    return summaries


def predict(result: dict[str, Any], constants: Any) -> float:
    """Return the predicted regret of a setting."""
    from kibitz.planning.bernoulli import predict_regret

    problem, at = np.array([result["rates"]]), np.array([result["at"]])
    return float(predict_regret(problem, at, result["horizon"], constants)[0, 0])


def print_accuracy(part: str, results: list[dict[str, Any]], constants: dict[str, Any]) -> None:
    """Print the relative errors of the predictions, and the noise of the simulated means."""
    for policy, values in constants.items():
        for kind in ("all", "no looks", "looks"):
            used_results = [r for r in results if policy in r and kind in {"all", _kind(r)}]
            if not used_results:
                continue
            errors = np.array([predict(r, values) / r[policy]["mean"] - 1 for r in used_results])
            noise = np.median([r[policy]["sem"] / r[policy]["mean"] for r in used_results])
            total = sum(predict(r, values) for r in used_results) / sum(
                r[policy]["mean"] for r in used_results
            )
            absolute_errors = np.abs(errors)
            print(
                f"{part}, {policy}, {kind}: {len(used_results)} settings, total {total:.2f}, "
                f"median {np.median(absolute_errors):.3f}, "
                f"nine of ten {np.quantile(absolute_errors, 0.9):.3f}, "
                f"worst {absolute_errors.max():.2f} (standard error of the simulation {noise:.3f})"
            )


def _kind(result: dict[str, Any]) -> str:
    return "looks" if result["at"] > 0 else "no looks"


if __name__ == "__main__":
    kind, file, *more = sys.argv[1:]
    if kind == "clicks":
        fit_clicks(Path(file), Path(more[0]) if more else None)
    else:
        fit_gaussian(Path(file))
