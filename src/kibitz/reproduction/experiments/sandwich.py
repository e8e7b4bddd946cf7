"""The simulated regret of UCB between what is proved about it, and kibitzer's below its own bound.

Of the paper: Theorems 1 and 3 (claimed, not drawn).

kibitzer and its bound are ours.

Concluded: of each bound and horizon, whether the simulated regret is on its right side at every rate;
where a bound is vacuous it confirms nothing.
"""

import math
from functools import cache
from typing import Any

import numpy as np

from kibitz.bounds import complexity, lower, upper
from kibitz.model.feedback import passive
from kibitz.model.problem import gaussian
from kibitz.plotting.picture import Curve, Panel, Picture, bars, typeset
from kibitz.policies.kibitzer import kibitzer
from kibitz.policies.ucb import ucb
from kibitz.reproduction import Data, Files
from kibitz.reproduction.verdict import Statement, Verdict, above, all_of, below, judge, mean
from kibitz.simulation.sweep import sweep

TITLE = "Between the bounds"
PAPER = "Theorems 1 and 3 (claimed, not drawn)"
CLAIM = (
    "The regret of UCB as a passive observer lies between the lower bound that no good algorithm can "
    "avoid and the upper bound proved for it, both of order log(1/ε). That of kibitzer, our own "
    "policy, lies below its own bound."
)
#: Stages, T.
HORIZONS = (10**4, 10**6, 10**12)
#: Mean reward of each arm.
MEANS = (2.0, 1.8, 0.5, 0.2)
#: ε.
RATES = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
C = 24.0  #: C of Definition 1, as proved for UCB (errata, D5).
C_0 = 1 + 2 * math.pi**2 / 3  #: C_0 of it.
#: Runs of each setting.
RUNS = 16
POLICIES: dict[str, Any] = {"UCB": ucb, "kibitzer": kibitzer}
BOUNDS: dict[str, tuple[str, Any]] = {  # of which policy, and how it is computed
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
    """Play both policies at each rate and horizon."""
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
    """Return each bound at each rate."""
    gaps = complexity.gaps(MEANS)
    return {name: bound(gaps, np.array(RATES), horizon) for name, (_, bound) in BOUNDS.items()}


def verdict(data: Data) -> Verdict:
    """Hold the means against all bounds; a lower bound of 0 is vacuous and confirms nothing."""
    statements, vacuous, violated = [], dict.fromkeys(BOUNDS, 0), False
    for horizon in map(int, data):
        final = data[str(horizon)]["final_regret"]
        for name, values in bounds(horizon).items():
            of_policy, upwards = final.sel(policy=BOUNDS[name][0]), name.startswith("upper")
            means = {rate: mean(of_policy.sel(rate=rate)) for rate in RATES}
            said = {
                rate: float(value) for rate, value in zip(RATES, values, strict=True) if value > 0
            }
            silent = [rate for rate in RATES if rate not in said]
            vacuous[name] += len(silent)
            sides = [(below if upwards else above)(means[rate], said[rate]) for rate in said]
            violated |= False in sides
            where = f"T = {typeset(horizon)}, {name}"
            if said:
                factors = [said[rate] / means[rate].value for rate in said]
                loose = factors if upwards else [1 / factor for factor in factors]
                text = (
                    f"{where}: simulation is on its right side at {sides.count(True)} of {len(said)} "
                    f"rates, by factors from {min(loose):.3g} to {max(loose):.3g}."
                )
                statements.append(Statement(text, all_of(sides)))
            if silent:
                listing = ", ".join(map(typeset, silent))
                text = f"{where}: says something at every rate; it is vacuous at ε = {listing}."
                statements.append(Statement(text, False))
    cells = len(RATES) * len(data)
    sentence = "A bound is violated." if violated else "No bound is violated, but all are far away."
    for name, count in vacuous.items():
        if count:
            sentence += f" The bound “{name}” is vacuous in {count} of {cells} settings."
    lowest = list(BOUNDS)[-1]
    short = (
        f"{'violated' if violated else 'never violated'}; Theorem 1 says something in "
        f"{cells - vacuous[lowest]} of {cells} settings"
    )
    return judge(statements, short, sentence)


def draw(data: Data) -> Picture:
    """Draw the simulated regret between its bounds; a vacuous bound is not drawn but named."""
    panels = []
    for horizon in map(int, data):
        final = data[str(horizon)]["final_regret"]
        curves = [
            bars(f"{name}, simulated", RATES, [final.sel(policy=name, rate=rate) for rate in RATES])
            for name in POLICIES
        ]
        notes = []
        for name, values in bounds(horizon).items():
            says = np.asarray(values) > 0
            if says.any():
                curves.append(Curve(name, np.array(RATES)[says], values[says]))
            if not says.all():
                first = RATES[int(np.argmin(says))]
                notes.append(
                    f"{name}: vacuous from ε = {typeset(first)}" if says.any() else f"{name}: vacuous"
                )
        y = f"regret at T (mean of {final.sizes['run']}, bars ± 2 s.e.)"
        title = f"passive, T = {typeset(horizon)}"
        panels.append(
            Panel(title, "ε, looks per stage", y, curves, y_log=True, note="\n".join(notes))
        )
    alt = (
        "Simulated regret of UCB and of kibitzer against ε on double logarithmic axes, between upper "
        "and lower bounds. " + verdict(data).sentence
    )
    return Picture(alt, panels, 3)
