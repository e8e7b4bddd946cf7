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
    Parameter("means", "2, 1.8, 0.5, 0.2", ", ".join(f"{arm_mean:g}" for arm_mean in MEANS)),
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
    """Return the verdict on the optimal against the uniform and suboptimal weights, at each ε."""
    final_regret = {
        label: weights_data["final_regret"].isel(policy=0) for label, weights_data in data.items()
    }
    rates = final_regret[OPTIMAL]["rate"].to_numpy()
    reductions: dict[str, list[Estimate]] = {
        label: [
            saving(final_regret[OPTIMAL].sel(rate=rate), final_regret[label].sel(rate=rate))
            for rate in rates
        ]
        for label in (UNIFORM, SUBOPTIMAL)
    }
    statements = []
    for n, rate in enumerate(rates):
        means = ", ".join(
            f"{label.split(',')[0]} {mean(final_regret[label].sel(rate=rate))}"
            for label in final_regret
        )
        statements.append(
            Statement(
                f"ε = {typeset(rate)}: the optimal weights have the lowest regret ({means}).",
                all_hold(is_above(reductions[label][n], 0) for label in reductions),
                claim=0,
            )
        )
    is_suboptimal_lower = [
        is_above(
            saving(
                final_regret[SUBOPTIMAL].sel(rate=rate_value),
                final_regret[UNIFORM].sel(rate=rate_value),
            ),
            0,
        )
        for rate_value in rates
    ]
    better_rates = [
        typeset(rate_value)
        for rate_value, is_lower in zip(rates, is_suboptimal_lower, strict=True)
        if is_lower
    ]
    worse_rates = [
        typeset(rate_value)
        for rate_value, is_lower in zip(rates, is_suboptimal_lower, strict=True)
        if is_lower is False
    ]
    finding = " ".join(
        f"Compared with the {label.split(',')[0]} weights, the regret of the optimal weights is "
        f"{describe_reductions(rates, reductions[label])}."
        for label in reductions
    ) + (
        " The suboptimal weights have a lower regret than the uniform weights at "
        f"{format_rates(better_rates)} and a higher regret at {format_rates(worse_rates)}."
    )
    results = [statement.holds for statement in statements]
    summary = (
        f"1/Δ has the lowest regret at {results.count(True)} of {len(rates)} values of ε; it does "
        f"not at {results.count(False)}, and {results.count(None)} are undecided"
    )
    return judge(statements, summary, finding)


def describe_reductions(rates: Any, reductions: list[Estimate]) -> str:
    """Describe the rates at which the regret is lower, higher or not significantly different."""
    rates_by_result: dict[bool | None, list[float]] = {True: [], False: [], None: []}
    for rate, reduction in zip(rates, reductions, strict=True):
        rates_by_result[is_above(reduction, 0)].append(float(rate))
    phrases = []
    if rates_by_result[True]:
        best_index = max(range(len(reductions)), key=lambda n: reductions[n].value)
        largest_gain = Estimate(
            100 * reductions[best_index].value, 100 * reductions[best_index].error
        )
        phrases.append(
            f"lower at {format_rates(map(typeset, rates_by_result[True]))} (by up to {largest_gain} "
            "%, at "
            f"ε = {typeset(rates[best_index])})"
        )
    else:
        phrases.append("lower at no ε")
    if rates_by_result[False]:
        phrases.append(f"higher at {format_rates(map(typeset, rates_by_result[False]))}")
    if rates_by_result[None]:
        phrases.append(f"undecided at {format_rates(map(typeset, rates_by_result[None]))}")
    return ", ".join(phrases)


def format_rates(rates: Iterable[str]) -> str:
    """Format rates as "ε = a, b and c", or "no ε" if there are none."""
    texts = list(rates)
    if not texts:
        return "no ε"
    return "ε = " + (", ".join(texts[:-1]) + " and " if texts[:-1] else "") + texts[-1]


def draw(data: Data) -> Picture:
    """Return a figure of regret against time for some ε, and of final regret against ε.

    The final regret is relative to the final regret with uniform weights.
    """
    runs = next(iter(data.values())).sizes["run"]
    panels = []
    for rate in PLOTTED_RATES:
        curves = [
            band(label, weights_data["regret"].isel(policy=0).sel(rate=rate))
            for label, weights_data in data.items()
        ]
        y = f"regret (mean of {runs} runs, band 25–75 %)"
        panels.append(Panel(f"ε = {typeset(rate)}", "stage t", y, curves))
    final_regret = {
        label: weights_data["final_regret"].isel(policy=0) for label, weights_data in data.items()
    }
    relative_curves = []
    for label in data:
        reductions = [
            saving(
                final_regret[label].sel(rate=rate_value), final_regret[UNIFORM].sel(rate=rate_value)
            )
            for rate_value in RATES
        ]
        percentages = np.array([100 * (1 - reduction.value) for reduction in reductions])
        error = np.array([200 * reduction.error for reduction in reductions])
        relative_curves.append(
            Curve(label, RATES, percentages, percentages - error, percentages + error, "points")
        )
    panels.append(
        Panel(
            "All ε",
            "ε, looks per stage",
            "regret at T, % of uniform (bars ± 2 s.e.)",
            relative_curves,
        )
    )
    alt = (
        "Regret of UCB against time for uniform, optimal and suboptimal weights at several ε, and "
        "final regret relative to uniform weights against ε. " + verdict(data).finding
    )
    return Picture(alt, panels, 3)
