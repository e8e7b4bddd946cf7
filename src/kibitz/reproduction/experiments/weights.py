"""The regret of UCB with uniform, optimal and suboptimal weights.

Source: Section 5, Figure 3.

Measured: at each ε, whether the regret with the optimal weights is lower than with the uniform and
with the suboptimal weights, by more than three standard errors of the paired difference.
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
    Claim,
    Estimate,
    Parameter,
    Statement,
    Verdict,
    all_hold,
    is_above,
    judge,
    mean,
    saving,
)
from kibitz.simulation.schedule import log_spaced
from kibitz.simulation.sweep import sweep

TITLE = "Which weights are best"
SOURCE = "Section 5, Figure 3"
CLAIM = (
    "Looks drawn with weights proportional to 1/Δ_i, which minimise the lower bound, give a lower "
    "regret than uniform weights and than weights proportional to 1/Δ_i²."
)
#: Mean reward of each arm.
MEANS = (2.0, 1.8, 0.5, 0.2)
#: The weights of the looks, by the label of their curve.
WEIGHTS = {"uniform": "uniform", "optimal, ∝ 1/Δ": "optimal", "suboptimal, ∝ 1/Δ²": "suboptimal"}
#: Number of stages, T.
HORIZON = 10_000
#: Values of ε.
RATES = (0.0001, 0.0003, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
#: Values of ε for which regret is drawn against time.
PLOTTED_RATES = (0.001, 0.005, 0.02, 0.1, 1.0)
#: Number of runs for each ε.
RUNS = 600
PAPER_RUNS = 300
UNIFORM, OPTIMAL, SUBOPTIMAL = WEIGHTS
CLAIMS = (
    Claim(
        "The weights 1/Δ_i, which give the lowest lower bound, also give a lower regret than uniform "
        "weights and than 1/Δ_i².",
        "Section 5, “Passive observer: optimal sampling distribution”, Figure 3",
        "Paired differences in final regret: both in favour of 1/Δ_i by more than three standard "
        f"errors, at each of {len(RATES)} values of ε.",
    ),
    Claim(
        "An active policy should look mostly at the arm with the smallest gap.",
        "Section 5, “Passive observer: optimal sampling distribution”",
        "Not measured here: the paper suggests it and gives no numbers. UCB1-Double follows the "
        "suggestion.",
    ),
)
PARAMETERS = (
    Parameter("rewards", "Gaussian, variance 1", "Gaussian, variance 1"),
    Parameter("means", "2, 1.8, 0.5, 0.2", ", ".join(f"{one:g}" for one in MEANS)),
    Parameter("policy", "UCB, constant 6 (Algorithm 1)", "UCB, constant 6 (Algorithm 1)"),
    Parameter(
        "weights of the looks",
        "uniform, 1/Δ_i and 1/Δ_i², not normalised",
        "uniform, ∝ 1/Δ_i and ∝ 1/Δ_i² on the sub-optimal arms, 0 on the best (errata, D31)",
    ),
    Parameter("horizon T", "not stated for this figure", typeset(HORIZON)),
    Parameter("ε", "not stated", f"{len(RATES)} values from {typeset(RATES[0])} to 1"),
    Parameter("band", "25 % and 75 % quantiles", "25 % and 75 % quantiles"),
)


def run(file: Files, **options: Any) -> Data:
    """Simulate UCB with each choice of weights at each ε."""
    return {
        label: sweep(
            gaussian(MEANS), passive, ucb(), rate=RATES, weights=name,
            horizon=HORIZON, stages=log_spaced(HORIZON, 50), file=file(name), **options,
        )
        for label, name in WEIGHTS.items()
    }  # fmt: skip


def verdict(data: Data) -> Verdict:
    """Return the verdict on the optimal weights against the other two weights, at each ε."""
    final = {label: part["final_regret"].isel(policy=0) for label, part in data.items()}
    rates = final[OPTIMAL]["rate"].to_numpy()
    gains: dict[str, list[Estimate]] = {
        label: [saving(final[OPTIMAL].sel(rate=rate), final[label].sel(rate=rate)) for rate in rates]
        for label in (UNIFORM, SUBOPTIMAL)
    }
    statements = []
    for n, rate in enumerate(rates):
        means = ", ".join(
            f"{label.split(',')[0]} {mean(final[label].sel(rate=rate))}" for label in final
        )
        statements.append(
            Statement(
                f"ε = {typeset(rate)}: the optimal weights have the lowest regret ({means}).",
                all_hold(is_above(gains[label][n], 0) for label in gains),
                claim=0,
            )
        )
    order = [
        is_above(saving(final[SUBOPTIMAL].sel(rate=r), final[UNIFORM].sel(rate=r)), 0) for r in rates
    ]
    better = [typeset(r) for r, one in zip(rates, order, strict=True) if one]
    worse = [typeset(r) for r, one in zip(rates, order, strict=True) if one is False]
    finding = " ".join(
        f"Compared with the {label.split(',')[0]} weights, the regret of the optimal ones is "
        f"{describe_gains(rates, gains[label])}."
        for label in gains
    ) + (
        " The suboptimal weights have a lower regret than the uniform ones at "
        f"{format_rates(better)} and a higher one at {format_rates(worse)}."
    )
    results = [statement.holds for statement in statements]
    summary = (
        f"of {len(rates)} values of ε, 1/Δ has the lowest regret at {results.count(True)}, not the "
        f"lowest at {results.count(False)}, undecided at {results.count(None)}"
    )
    return judge(statements, summary, finding)


def describe_gains(rates: Any, gains: list[Estimate]) -> str:
    """Describe the rates at which a gain is positive, negative or undecided."""
    groups: dict[bool | None, list[float]] = {True: [], False: [], None: []}
    for rate, gain in zip(rates, gains, strict=True):
        groups[is_above(gain, 0)].append(float(rate))
    phrases = []
    if groups[True]:
        best = max(range(len(gains)), key=lambda n: gains[n].value)
        most = Estimate(100 * gains[best].value, 100 * gains[best].error)
        phrases.append(
            f"lower at {format_rates(map(typeset, groups[True]))} (by up to {most} %, at "
            f"ε = {typeset(rates[best])})"
        )
    else:
        phrases.append("lower at no ε")
    if groups[False]:
        phrases.append(f"higher at {format_rates(map(typeset, groups[False]))}")
    if groups[None]:
        phrases.append(f"undecided at {format_rates(map(typeset, groups[None]))}")
    return ", ".join(phrases)


def format_rates(rates: Iterable[str]) -> str:
    """Format rates as "ε = a, b and c", or "no ε" if there are none."""
    words = list(rates)
    if not words:
        return "no ε"
    return "ε = " + (", ".join(words[:-1]) + " and " if words[:-1] else "") + words[-1]


def draw(data: Data) -> Picture:
    """Return a figure of regret against time for some ε, and of final regret against ε.

    The final regret is relative to the final regret with uniform weights.
    """
    runs = next(iter(data.values())).sizes["run"]
    panels = []
    for rate in PLOTTED_RATES:
        curves = [
            band(label, part["regret"].isel(policy=0).sel(rate=rate)) for label, part in data.items()
        ]
        y = f"regret (mean of {runs} runs, band 25–75 %)"
        panels.append(Panel(f"ε = {typeset(rate)}", "stage t", y, curves))
    final = {label: part["final_regret"].isel(policy=0) for label, part in data.items()}
    relative = []
    for label in data:
        savings = [saving(final[label].sel(rate=r), final[UNIFORM].sel(rate=r)) for r in RATES]
        middle = np.array([100 * (1 - one.value) for one in savings])
        error = np.array([200 * one.error for one in savings])
        relative.append(Curve(label, RATES, middle, middle - error, middle + error, "points"))
    panels.append(
        Panel("All ε", "ε, looks per stage", "regret at T, % of uniform (bars ± 2 s.e.)", relative)
    )
    alt = (
        "Regret of UCB against time for uniform, optimal and suboptimal weights at several ε, and "
        "final regret relative to uniform weights against ε. " + verdict(data).finding
    )
    return Picture(alt, panels, 3)
