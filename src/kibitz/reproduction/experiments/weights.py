"""Which weights serve a passive observer best, and at which ε.

Of the paper: Section 5, third figure.

Concluded: at each ε, whether the optimal weights beat both the uniform and the suboptimal ones, run
by run, by more than three standard errors.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from kibitz.model.feedback import passive
from kibitz.model.problem import gaussian
from kibitz.plotting.picture import Curve, Panel, Picture, band, typeset
from kibitz.policies.ucb import ucb
from kibitz.reproduction import Data, Files
from kibitz.reproduction.verdict import (
    Estimate,
    Statement,
    Verdict,
    above,
    all_of,
    judge,
    mean,
    saving,
)
from kibitz.simulation.schedule import log_spaced
from kibitz.simulation.sweep import sweep

TITLE = "Which weights are best"
PAPER = "Section 5, third figure"
CLAIM = (
    "Looks drawn with weights proportional to 1/Δ_i, the minimiser of the lower bound, give a lower "
    "regret than uniform weights and than weights proportional to 1/Δ_i²."
)
#: Mean reward of each arm.
MEANS = (2.0, 1.8, 0.5, 0.2)
#: The weights of the looks, by the label of their curve.
WEIGHTS = {"uniform": "uniform", "optimal, ∝ 1/Δ": "optimal", "suboptimal, ∝ 1/Δ²": "suboptimal"}
#: Stages, T.
HORIZON = 10_000
#: ε.
RATES = (0.0001, 0.0003, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
#: The ε for which regret is drawn against time.
SHOWN = (0.001, 0.005, 0.02, 0.1, 1.0)
#: Runs of each setting.
RUNS = 600
OPTIMAL, UNIFORM, SUBOPTIMAL = "optimal, ∝ 1/Δ", "uniform", "suboptimal, ∝ 1/Δ²"


def run(file: Files, **options: Any) -> Data:
    """Play UCB with each of the weights at each rate."""
    return {
        label: sweep(
            gaussian(MEANS), passive, ucb(), rate=RATES, weights=name,
            horizon=HORIZON, stages=log_spaced(HORIZON, 50), file=file(name), **options,
        )
        for label, name in WEIGHTS.items()
    }  # fmt: skip


def verdict(data: Data) -> Verdict:
    """Compare the optimal weights with the two others at each rate, run by run."""
    final = {label: part["final_regret"].isel(policy=0) for label, part in data.items()}
    rates = final[OPTIMAL]["rate"].to_numpy()
    gain: dict[str, list[Estimate]] = {
        other: [saving(final[OPTIMAL].sel(rate=rate), final[other].sel(rate=rate)) for rate in rates]
        for other in (UNIFORM, SUBOPTIMAL)
    }
    statements = []
    for n, rate in enumerate(rates):
        both = [above(gain[other][n], 0) for other in gain]
        means = ", ".join(
            f"{label.split(',')[0]} {mean(final[label].sel(rate=rate))}" for label in final
        )
        statements.append(
            Statement(f"ε = {typeset(rate)}: the optimal weights are best: {means}.", all_of(both))
        )
    sentence = " ".join(
        f"The optimal weights beat the {other.split(',')[0]} ones {ranges(rates, gain[other])}."
        for other in gain
    )
    order = [
        above(saving(final[SUBOPTIMAL].sel(rate=r), final[UNIFORM].sel(rate=r)), 0) for r in rates
    ]
    better = [typeset(r) for r, one in zip(rates, order, strict=True) if one]
    worse = [typeset(r) for r, one in zip(rates, order, strict=True) if one is False]
    sentence += (
        f" Between the two others the order depends on ε: the suboptimal weights are better than "
        f"uniform at {listed(better)}, worse at {listed(worse)}."
    )
    best = [statement.holds for statement in statements].count(True)
    lost = [statement.holds for statement in statements].count(False)
    short = f"1/Δ is best at {best} of {len(rates)} rates, beaten at {lost}, undecided at the others"
    return judge(statements, short, sentence)


def ranges(rates: Any, gains: list[Estimate]) -> str:
    """Say at which rates a gain is positive, negative or within the noise."""
    words: dict[bool | None, list[float]] = {True: [], False: [], None: []}
    for rate, gain in zip(rates, gains, strict=True):
        words[above(gain, 0)].append(float(rate))
    said = []
    if words[True]:
        at = max(range(len(gains)), key=lambda n: gains[n].value)
        most = Estimate(100 * gains[at].value, 100 * gains[at].error)
        said.append(
            f"at {listed(map(typeset, words[True]))} (most: {most} % at ε = {typeset(rates[at])})"
        )
    if words[False]:
        said.append(f"lose at {listed(map(typeset, words[False]))}")
    if words[None]:
        said.append(f"are no different within the noise at {listed(map(typeset, words[None]))}")
    return ", ".join(said) if words[True] else "nowhere: they " + " and ".join(said)


def listed(names: Iterable[str]) -> str:
    """Write "ε = a, b and c", or "no ε"."""
    words = list(names)
    if not words:
        return "no ε"
    return "ε = " + (", ".join(words[:-1]) + " and " if words[:-1] else "") + words[-1]


def draw(data: Data) -> Picture:
    """Draw regret against time for some ε, and the final regret relative to uniform weights."""
    runs = next(iter(data.values())).sizes["run"]
    panels = []
    for rate in SHOWN:
        curves = [
            band(label, part["regret"].isel(policy=0).sel(rate=rate)) for label, part in data.items()
        ]
        panels.append(
            Panel(f"ε = {typeset(rate)}", "stage t", f"regret (mean of {runs}, band 25–75 %)", curves)
        )
    final = {label: part["final_regret"].isel(policy=0) for label, part in data.items()}
    relative = []
    for label in data:
        less = [saving(final[label].sel(rate=r), final[UNIFORM].sel(rate=r)) for r in RATES]
        middle = np.array([100 * (1 - one.value) for one in less])
        error = np.array([200 * one.error for one in less])
        relative.append(Curve(label, RATES, middle, middle - error, middle + error, "points"))
    panels.append(
        Panel("All ε", "ε, looks per stage", "regret at T, % of uniform (bars ± 2 s.e.)", relative)
    )
    alt = (
        "Regret of UCB against time for uniform, optimal and suboptimal weights at several ε, and "
        "their final regret relative to uniform weights against ε. " + verdict(data).sentence
    )
    return Picture(alt, panels, 3)
