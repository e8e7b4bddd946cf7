"""How the regret of UCB depends on ε, with uniform weights.

Of the paper: Section 5, first figure.

Concluded: whether the regret at ε = 1/T is that without looks, whether it falls along a line in
log(1/ε) from ε* on (R²), and whether a f(ε), a fitted by least squares, stays close to it at every ε.
"""

from typing import Any

import numpy as np

from kibitz.bounds import complexity, lower
from kibitz.model.feedback import bandit, passive
from kibitz.model.problem import gaussian
from kibitz.plotting.picture import Curve, Mark, Panel, Picture, typeset
from kibitz.policies.ucb import ucb
from kibitz.reproduction import Data, Files
from kibitz.reproduction.verdict import (
    Estimate,
    Statement,
    Verdict,
    all_of,
    below,
    judge,
    mean,
    percent,
    r_squared,
    ratio,
    saving,
    within,
)
from kibitz.simulation.simulate import simulate
from kibitz.simulation.sweep import sweep

TITLE = "Influence of ε, uniform weights"
PAPER = "Section 5, first figure"
CLAIM = (
    "With looks at arms drawn uniformly, the regret of UCB scales with "
    "f(ε) = Σ (1/Δ_i) log(1/(ε Δ_i²)); when looks are so scarce that about one comes in T stages, "
    "it is the regret of UCB without looks."
)
#: Mean reward of each arm.
MEANS = (2.0, 1.8, 0.5, 0.2)
#: The weights of the looks.
WEIGHTS = "uniform"
#: Stages, T.
HORIZON = 10_000
#: ε, 25 of them from 1/T to 1.
RATES = tuple(float(f"{rate:.3g}") for rate in np.geomspace(1 / HORIZON, 1, 25))
#: Runs of each setting.
RUNS = 500
CLOSE = 0.15  #: How far, relative to the data, a curve may be that "scales with" it.
SAME = 0.05  #: How far two regrets may be apart that are "the same".


def run(file: Files, **options: Any) -> Data:
    """Play UCB at each rate, and without looks."""
    return run_with(WEIGHTS, file, **options)


def run_with(weights: str, file: Files, **options: Any) -> Data:
    """Do so with the given weights."""
    problem = gaussian(MEANS)
    swept = sweep(
        problem, passive, ucb(), rate=RATES, weights=weights,
        horizon=HORIZON, stages=[HORIZON], file=file("rates"), **options,
    )  # fmt: skip
    without = simulate(
        problem, bandit(), ucb(),
        horizon=HORIZON, stages=[HORIZON], file=file("no-looks"), **options,
    )  # fmt: skip
    return {"rates": swept, "no-looks": without}


def reference(rates: Any) -> Any:
    """Return the paper's f at some rates."""
    return lower.reference_curve(complexity.gaps(MEANS), rates, HORIZON)


def fitted_scale(rates: Any, regrets: Any) -> float:
    """Return the constant a for which a f(ε) is closest to the regrets, by least squares."""
    shape = reference(np.asarray(rates))
    return float(shape @ np.asarray(regrets) / (shape @ shape))


def verdict(data: Data) -> Verdict:
    """Compare the means with a f(ε), and the scarcest looks with none."""
    final = data["rates"]["final_regret"].isel(policy=0)
    without = data["no-looks"]["final_regret"].isel(policy=0)
    rates = data["rates"]["rate"].to_numpy()
    means = final.mean("run").to_numpy()
    scale = fitted_scale(rates, means)
    away = [_deviation(final.sel(rate=rate), scale * reference(rate)) for rate in rates]
    close = [within(one, CLOSE) for one in away]
    worst = max(range(len(rates)), key=lambda n: abs(away[n].value))
    star = complexity.rate_star(complexity.gaps(MEANS), HORIZON)
    past = rates >= star
    straight = r_squared(np.log(rates[past]), means[past])
    first, last = final.sel(rate=rates[0]), final.sel(rate=rates[-1])
    change = saving(first, without)
    statements = [
        Statement(
            f"At ε = 1/T the regret is that without looks: {mean(first)} against {mean(without)}, "
            f"a saving of {percent(change)} (the same: within {SAME:.0%}).",
            within(change, SAME),
        ),
        Statement(
            f"From ε* = {typeset(float(star))} on, regret falls along a straight line in log(1/ε): "
            f"R² = {straight:.3f} (at least 0.95).",
            straight >= 0.95 and below(ratio(last, without), 1) is True,
        ),
        Statement(
            f"The fitted curve {scale:.2f}·f(ε) is within {CLOSE:.0%} of the mean at every ε: it is "
            f"at {close.count(True)} of {len(rates)}{where(rates, close)}; farthest off at "
            f"ε = {typeset(rates[worst])}, where simulation gives "
            f"{mean(final.sel(rate=rates[worst]))} and the curve "
            f"{scale * reference(rates[worst]):.1f}.",
            all_of(close),
        ),
    ]
    sentence = (
        f"From {mean(without)} without looks to {mean(last)} at ε = 1. The regret is "
        f"{'' if straight >= 0.95 else 'not '}linear in log(1/ε) above ε*, but "
        f"{'proportional' if all(close) else 'not proportional'} to f over the whole range."
    )
    if all(close):
        sentence = sentence.replace(", but ", ", and ")
    short = (
        f"{mean(without)} without looks, {mean(last)} at ε = 1; fitted f is close at "
        f"{close.count(True)} of {len(rates)} rates"
    )
    return judge(statements, short, sentence)


def _deviation(values: Any, curve: float) -> Estimate:
    estimate = mean(values)
    return Estimate(curve / estimate.value - 1, curve * estimate.error / estimate.value**2)


def where(rates: Any, holds: list[bool | None]) -> str:
    """Say between which rates something holds."""
    held = [rate for rate, one in zip(rates, holds, strict=True) if one]
    return f" (between ε = {typeset(min(held))} and {typeset(max(held))})" if held else ""


def draw(data: Data) -> Picture:
    """Draw final regret against ε, with f, the regret without looks, and ε*."""
    return picture(data, WEIGHTS)


def picture(data: Data, weights: str) -> Picture:
    """Draw the figure for the given weights."""
    final = data["rates"]["final_regret"].isel(policy=0)
    rates = data["rates"]["rate"].to_numpy()
    means = final.mean("run").to_numpy()
    low, high = final.quantile([0.1, 0.9], "run").to_numpy()
    none = float(data["no-looks"]["final_regret"].mean())
    scale = fitted_scale(rates, means)
    star = complexity.rate_star(complexity.gaps(MEANS), HORIZON)
    runs = final.sizes["run"]
    fine = np.geomspace(rates[0], rates[-1], 60)
    panel = Panel(
        f"UCB, passive, {weights} weights, T = {typeset(HORIZON)}",
        "ε, looks per stage",
        f"regret at T (mean of {runs} runs, bars 10–90 %)",
        [
            Curve("UCB with looks, simulated", rates, means, low, high, "points"),
            Curve(f"{scale:.2f}·f(ε), fitted", fine, scale * reference(fine), kind="reference"),
            Curve("UCB without looks, simulated", rates[[0, -1]], [none, none], kind="reference"),
        ],
        [Mark(float(star), "ε*")],
        note=f"dotted: the threshold ε* = {typeset(float(star))}",
    )
    alt = (
        f"Final regret of UCB against ε on a logarithmic axis: {none:.0f} without looks, "
        f"{means[0]:.0f} at ε = {typeset(rates[0])}, falling to {means[-1]:.0f} at ε = 1, with the "
        f"fitted reference curve and the threshold ε* = {typeset(float(star))}."
    )
    return Picture(alt, [panel], 1)
