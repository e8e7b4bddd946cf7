"""The regret of UCB as a function of ε, with uniform weights.

Source: Section 5, Figure 1.

Measured: whether the regret at ε = 1/T equals the regret without looks, whether the regret is linear
in log(1/ε) from the threshold ε* on (R²), and whether a·f(ε), with a fitted by least squares, is
close to the regret at every ε. Here f is the paper's curve (`kibitz.bounds.lower.reference_curve`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kibitz.bounds import complexity, lower
from kibitz.model.feedback import bandit, passive
from kibitz.model.problem import gaussian
from kibitz.plotting.picture import Curve, Mark, Panel, Picture, typeset
from kibitz.policies.ucb import ucb
from kibitz.reproduction import Data, Files
from kibitz.reproduction.verdict import (
    Claim,
    Estimate,
    Parameter,
    Statement,
    Verdict,
    all_hold,
    format_percent,
    is_below,
    is_within,
    judge,
    mean,
    r_squared,
    ratio,
    saving,
)
from kibitz.simulation.simulate import simulate
from kibitz.simulation.sweep import sweep

TITLE = "Influence of ε, uniform weights"
SOURCE = "Section 5, Figure 1"
CLAIM = (
    "With looks at uniformly drawn arms, the regret of UCB scales with f(ε) = Σ (1/Δ_i) log(1/(ε "
    "Δ_i²)). If only about one look arrives in T stages, the regret is that of UCB without looks."
)
#: Mean reward of each arm.
MEANS = (2.0, 1.8, 0.5, 0.2)
#: The distribution of the arm of a look.
WEIGHTS = "uniform"
#: Number of stages, T.
HORIZON = 10_000
#: Values of ε: 25 from 1/T to 1.
RATES = tuple(float(f"{rate:.3g}") for rate in np.geomspace(1 / HORIZON, 1, 25))
#: Number of runs for each ε.
RUNS = 500
PAPER_RUNS = 300
MAX_DEVIATION = 0.15  #: Largest relative distance between a·f(ε) and the mean regret.
MAX_DIFFERENCE = 0.05  #: Largest relative difference between regrets that count as equal.
MIN_R_SQUARED = 0.95  #: Smallest R² of a straight line.


def claims(figure: int, looks: str) -> Sequence[Claim]:
    """Return the claims that Figure 1 or Figure 2 of the paper illustrates."""
    place = f"Section 5, “Influence of ε”, Figure {figure}"
    return (
        Claim(
            "If looks are so rare that ε ≈ 1/T, regret is about that of UCB without looks "
            f"({looks}).",
            place,
            "Regret at ε = 1/T against regret without looks: equal within "
            f"{format_percent(MAX_DIFFERENCE)}.",
        ),
        Claim(
            f"Regret is linear in log(1/ε) ({looks}).",
            place,
            f"R² of a straight line from ε* on: at least {MIN_R_SQUARED:g}.",
        ),
        Claim(
            f"Regret is proportional to f(ε) = Σ (1/Δ_i) log(1/(ε Δ_i²)), which also describes rare "
            f"looks ({looks}).",
            place,
            "Distance between a·f(ε), with a fitted, and the mean: at most "
            f"{format_percent(MAX_DEVIATION)} at every ε.",
        ),
    )


CLAIMS = claims(1, "uniform weights")


def parameters(paper_weights: str, weights: str) -> Sequence[Parameter]:
    """Return the parameters of Figure 1 or Figure 2 of the paper, except the number of runs."""
    return (
        Parameter("rewards", "Gaussian, variance 1", "Gaussian, variance 1"),
        Parameter("means", "2, 1.8, 0.5, 0.2", ", ".join(f"{arm_mean:g}" for arm_mean in MEANS)),
        Parameter("policy", "UCB, constant 6 (Algorithm 1)", "UCB, constant 6 (Algorithm 1)"),
        Parameter("weights of the looks", paper_weights, weights),
        Parameter("horizon T", "not stated for this figure", typeset(HORIZON)),
        Parameter("ε", "not stated", f"{len(RATES)} values from 1/T to 1"),
        Parameter(
            "f",
            "named, but not defined for small ε",
            "Σ (1/Δ_i) log₊ min(T, 1/(ε Δ_i²)) (errata, D45)",
        ),
        Parameter("scale of f", "not stated", "fitted by least squares"),
        Parameter("error bars", "10 % and 90 % quantiles", "10 % and 90 % quantiles"),
    )


PARAMETERS = parameters("uniform", "uniform")


def run(file: Files, **options: Any) -> Data:
    """Simulate UCB at each ε, and without looks."""
    return run_with(WEIGHTS, file, **options)


def run_with(weights: str, file: Files, **options: Any) -> Data:
    """Simulate UCB at each ε with looks drawn by `weights`, and without looks."""
    problem = gaussian(MEANS)
    data_with_looks = sweep(
        problem, passive, ucb(), rate=RATES, weights=weights,
        horizon=HORIZON, stages=[HORIZON], file=file("rates"), **options,
    )  # fmt: skip
    data_without_looks = simulate(
        problem, bandit(), ucb(),
        horizon=HORIZON, stages=[HORIZON], file=file("no-looks"), **options,
    )  # fmt: skip
    return {"rates": data_with_looks, "no-looks": data_without_looks}


def reference(rates: Any) -> Any:
    """Return the paper's f(ε) for an array of rates."""
    return lower.reference_curve(complexity.gaps(MEANS), rates, HORIZON)


def fit_scale(rates: Any, regrets: Any) -> float:
    """Return the constant a that minimises the squared distance between a·f(ε) and the regrets."""
    reference_values = reference(np.asarray(rates))
    return float(reference_values @ np.asarray(regrets) / (reference_values @ reference_values))


def verdict(data: Data) -> Verdict:
    """Return the verdict on the regret as a function of ε, and on the regret at the smallest ε."""
    final_regret = data["rates"]["final_regret"].isel(policy=0)
    regret_without_looks = data["no-looks"]["final_regret"].isel(policy=0)
    rates = data["rates"]["rate"].to_numpy()
    means = final_regret.mean("run").to_numpy()
    scale = fit_scale(rates, means)
    deviations = [
        _compute_deviation(final_regret.sel(rate=rate), scale * reference(rate)) for rate in rates
    ]
    is_close = [is_within(deviation, MAX_DEVIATION) for deviation in deviations]
    worst_index = max(range(len(rates)), key=lambda n: abs(deviations[n].value))
    rate_star = complexity.rate_star(complexity.gaps(MEANS), HORIZON)
    is_above_star = rates >= rate_star
    linearity = r_squared(np.log(rates[is_above_star]), means[is_above_star])
    first_regret, last_regret = final_regret.sel(rate=rates[0]), final_regret.sel(rate=rates[-1])
    relative_change = saving(first_regret, regret_without_looks)
    statements = [
        Statement(
            f"The regret at ε = 1/T ({mean(first_regret)}) equals the regret without looks "
            f"({mean(regret_without_looks)}): the relative difference is "
            f"{format_percent(relative_change)} "
            "(equal: within "
            f"{format_percent(MAX_DIFFERENCE)}).",
            is_within(relative_change, MAX_DIFFERENCE),
            claim=0,
        ),
        Statement(
            f"From ε* = {typeset(float(rate_star))} on, regret is linear in log(1/ε): R² = "
            f"{linearity:.3f} (at least {MIN_R_SQUARED:g}).",
            linearity >= MIN_R_SQUARED
            and is_below(ratio(last_regret, regret_without_looks), 1) is True,
            claim=1,
        ),
        Statement(
            f"The fitted curve {scale:.2f}·f(ε) is within {format_percent(MAX_DEVIATION)} of the "
            f"mean at every ε. This holds at {is_close.count(True)} of {len(rates)} "
            f"values{format_range(rates, is_close)}. The largest distance is at ε = "
            f"{typeset(rates[worst_index])}: simulated "
            f"{mean(final_regret.sel(rate=rates[worst_index]))}, fitted "
            f"{scale * reference(rates[worst_index]):.1f}.",
            all_hold(is_close),
            claim=2,
        ),
    ]
    is_linear, is_proportional = linearity >= MIN_R_SQUARED, all(is_close)
    finding = (
        f"Regret falls from {mean(regret_without_looks)} without looks to {mean(last_regret)} at ε = "
        "1. "
        "Above ε* it is "
        f"{'' if is_linear else 'not '}linear in log(1/ε)"
        f"{', and' if is_linear == is_proportional else ', but'} over the whole range it is "
        f"{'' if is_proportional else 'not '}proportional to f."
    )
    summary = (
        f"{mean(regret_without_looks)} without looks, {mean(last_regret)} at ε = 1; fitted f is "
        "close at "
        f"{is_close.count(True)} of {len(rates)} values of ε"
    )
    return judge(statements, summary, finding)


def _compute_deviation(values: Any, curve_value: float) -> Estimate:
    estimate = mean(values)
    return Estimate(
        curve_value / estimate.value - 1, curve_value * estimate.error / estimate.value**2
    )


def format_range(rates: Any, results: list[bool | None]) -> str:
    """Format the smallest and the largest rate at which a statement holds, in brackets."""
    holding_rates = [rate for rate, holds in zip(rates, results, strict=True) if holds]
    return (
        f" (between ε = {typeset(min(holding_rates))} and {typeset(max(holding_rates))})"
        if holding_rates
        else ""
    )


def draw(data: Data) -> Picture:
    """Return a figure of final regret against ε, with a·f(ε), the regret without looks, and ε*."""
    return draw_with(WEIGHTS, data)


def draw_with(weights: str, data: Data) -> Picture:
    """Return a figure of final regret against ε for looks with these weights."""
    final_regret = data["rates"]["final_regret"].isel(policy=0)
    rates = data["rates"]["rate"].to_numpy()
    means = final_regret.mean("run").to_numpy()
    low, high = final_regret.quantile([0.1, 0.9], "run").to_numpy()
    regret_without_looks = float(data["no-looks"]["final_regret"].mean())
    scale = fit_scale(rates, means)
    rate_star = complexity.rate_star(complexity.gaps(MEANS), HORIZON)
    runs = final_regret.sizes["run"]
    fine_rates = np.geomspace(rates[0], rates[-1], 60)
    panel = Panel(
        f"UCB, passive, {weights} weights, T = {typeset(HORIZON)}",
        "ε, looks per stage",
        f"regret at T (mean of {runs} runs, bars 10–90 %)",
        [
            Curve("UCB with looks, simulated", rates, means, low, high, "points"),
            Curve(
                f"{scale:.2f}·f(ε), fitted",
                fine_rates,
                scale * reference(fine_rates),
                kind="reference",
            ),
            Curve(
                "UCB without looks, simulated",
                rates[[0, -1]],
                [regret_without_looks, regret_without_looks],
                kind="reference",
            ),
        ],
        [Mark(float(rate_star), "ε*")],
        note=f"dotted: the threshold ε* = {typeset(float(rate_star))}",
    )
    alt = (
        f"Final regret of UCB against ε on a logarithmic axis: {regret_without_looks:.0f} without "
        "looks, "
        f"{means[0]:.0f} at ε = {typeset(rates[0])}, falling to {means[-1]:.0f} at ε = 1, with the "
        f"fitted reference curve and the threshold ε* = {typeset(float(rate_star))}."
    )
    return Picture(alt, [panel], 1)
