"""The simulated regret of UCB between its bounds, and of kibitzer below its upper bound.

Source: Theorems 1 and 3, without a figure.

Measured: for each bound and horizon, whether the simulated regret respects the bound at every rate. A
vacuous bound confirms nothing. kibitzer and its bound are not from the paper.
"""

import math
from functools import cache
from typing import Any

import numpy as np

from kibitz.bounds import complexity, lower, upper
from kibitz.model.feedback import passive
from kibitz.model.problem import gaussian
from kibitz.plotting.picture import Curve, Panel, Picture, error_bars, typeset
from kibitz.policies.kibitzer import kibitzer
from kibitz.policies.ucb import ucb
from kibitz.reproduction import Data, Files
from kibitz.reproduction.verdict import Statement, Verdict, all_hold, is_above, is_below, judge, mean
from kibitz.simulation.sweep import sweep

TITLE = "Between the bounds"
SOURCE = "Theorems 1 and 3, without a figure"
CLAIM = (
    "The regret of UCB as a passive observer lies between the lower bound for all good algorithms "
    "and the upper bound proved for UCB, both of order log(1/ε). The regret of kibitzer, our own "
    "policy, lies below its own bound."
)
#: Numbers of stages, T.
HORIZONS = (10**4, 10**6, 10**12)
#: Mean reward of each arm.
MEANS = (2.0, 1.8, 0.5, 0.2)
#: Values of ε.
RATES = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
C = 24.0  #: C of Definition 1, as proved for UCB (errata, D5).
C_0 = 1 + 2 * math.pi**2 / 3  #: C_0 of Definition 1, for the same C.
#: Number of runs for each ε and T.
RUNS = 16
POLICIES: dict[str, Any] = {"UCB": ucb, "kibitzer": kibitzer}
BOUNDS: dict[str, tuple[str, Any]] = {  # the policy, and the bound as a function of gaps, ε and T
    "upper, Theorem 3": ("UCB", lambda gaps, rate, T: upper.ucb_passive(gaps, rate, None, T)),
    "upper, computed": ("UCB", lambda gaps, rate, T: upper.ucb_sharp(gaps, rate, None, T)),
    "upper, kibitzer": (
        "kibitzer",
        lambda gaps, rate, T: upper.kibitzer(gaps, rate, T, looks="uniform"),
    ),
    "lower, computed": (
        "UCB",
        lambda gaps, rate, T: lower.passive_sharp(gaps, rate, None, T, C=C, C_0=C_0),
    ),
    "lower, Theorem 1": (
        "UCB",
        lambda gaps, rate, T: lower.passive_theorem(gaps, rate, None, T, C=C, C_0=C_0),
    ),
}


def run(file: Files, **options: Any) -> Data:
    """Simulate both policies at each rate and horizon."""
    policies = {name: policy() for name, policy in POLICIES.items()}
    return {
        str(horizon): sweep(
            gaussian(MEANS), passive, policies, rate=RATES,
            horizon=horizon, stages=[horizon], file=file(str(horizon)), **options,
        )
        for horizon in HORIZONS
    }  # fmt: skip


@cache
def bounds(horizon: int) -> dict[str, Any]:
    """Return a dict from the name of each bound to its values at all rates."""
    gaps = complexity.gaps(MEANS)
    return {name: bound(gaps, np.array(RATES), horizon) for name, (_, bound) in BOUNDS.items()}


def verdict(data: Data) -> Verdict:
    """Return the verdict on all bounds; a lower bound of 0 is vacuous and confirms nothing."""
    statements, n_vacuous, is_violated = [], dict.fromkeys(BOUNDS, 0), False
    looseness_factors: list[float] = []
    for horizon in map(int, data):
        final_regret = data[str(horizon)]["final_regret"]
        for name, values in bounds(horizon).items():
            regret, is_upper = final_regret.sel(policy=BOUNDS[name][0]), name.startswith("upper")
            means = {rate: mean(regret.sel(rate=rate)) for rate in RATES}
            bound_by_rate = {
                rate: float(value) for rate, value in zip(RATES, values, strict=True) if value > 0
            }
            vacuous_rates = [rate for rate in RATES if rate not in bound_by_rate]
            n_vacuous[name] += len(vacuous_rates)
            is_respected = [
                (is_below if is_upper else is_above)(means[rate], bound_by_rate[rate])
                for rate in bound_by_rate
            ]
            is_violated |= False in is_respected
            prefix = f"T = {typeset(horizon)}, {name}"
            if bound_by_rate:
                ratios = [bound_by_rate[rate] / means[rate].value for rate in bound_by_rate]
                looseness = ratios if is_upper else [1 / bound_ratio for bound_ratio in ratios]
                looseness_factors += looseness
                text = (
                    f"{prefix}: the simulated regret is {'below' if is_upper else 'above'} the bound "
                    f"at {is_respected.count(True)} of {len(bound_by_rate)} rates, by factors from "
                    f"{typeset(min(looseness))} to {typeset(max(looseness))}."
                )
                statements.append(Statement(text, all_hold(is_respected)))
            if vacuous_rates:
                vacuous_text = ", ".join(map(typeset, vacuous_rates))
                text = (
                    f"{prefix}: the bound is positive at every rate. "
                    f"It is vacuous at ε = {vacuous_text}."
                )
                statements.append(Statement(text, False))
    n_settings = len(RATES) * len(data)
    finding = (
        "A bound is violated."
        if is_violated
        else f"No bound is violated. The tightest is a factor of {min(looseness_factors):.2g} away."
    )
    for name, count in n_vacuous.items():
        if count:
            finding += f" The bound “{name}” is vacuous in {count} of {n_settings} settings."
    lowest_bound = list(BOUNDS)[-1]
    summary = (
        f"{'violated' if is_violated else 'never violated'}; Theorem 1 is vacuous in "
        f"{n_vacuous[lowest_bound]} of {n_settings} settings"
    )
    return judge(statements, summary, finding)


def draw(data: Data) -> Picture:
    """Return a figure of the simulated regret and its bounds; a note names the vacuous bounds."""
    panels = []
    for horizon in map(int, data):
        final_regret = data[str(horizon)]["final_regret"]
        curves = [
            error_bars(
                f"{name}, simulated",
                RATES,
                [final_regret.sel(policy=name, rate=rate) for rate in RATES],
            )
            for name in POLICIES
        ]
        notes = []
        for name, values in bounds(horizon).items():
            is_positive = np.asarray(values) > 0
            if is_positive.any():
                curves.append(Curve(name, np.array(RATES)[is_positive], values[is_positive]))
            if not is_positive.all():
                onset_text = f" from ε = {typeset(RATES[int(np.argmin(is_positive))])} on"
                notes.append(f"{name}: vacuous{onset_text if is_positive.any() else ''}")
        y = f"regret at T (mean of {final_regret.sizes['run']} runs, bars ± 2 s.e.)"
        title = f"passive, T = {typeset(horizon)}"
        panels.append(
            Panel(title, "ε, looks per stage", y, curves, y_log=True, note="\n".join(notes))
        )
    alt = (
        "Simulated regret of UCB and of kibitzer against ε on double logarithmic axes, between upper "
        "and lower bounds. " + verdict(data).finding
    )
    return Picture(alt, panels, 3)
