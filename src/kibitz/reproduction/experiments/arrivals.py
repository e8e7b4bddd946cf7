"""Experiment 10: looks that come every 1/ε stages against looks that come at random."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kibitz.model.feedback import active, every, passive
from kibitz.model.problem import gaussian
from kibitz.policies.ucb import ucb, ucb_double
from kibitz.reproduction.plots import Panel, Picture, bars
from kibitz.reproduction.verdict import Check, Verdict, judge, mean, percent, power, saving, within
from kibitz.simulator.simulate import sweep

if TYPE_CHECKING:
    import xarray

TITLE = "Periodic against random arrivals"
PAPER = "Sections 2.1.2 and 4.1 (claimed, not drawn)"
CLAIM = (
    "Whether looks come every 1/ε stages or at random with probability ε, the guarantee is of the "
    "same kind: chance in the arrivals costs little."
)
MEANS = (2.0, 1.8, 0.5, 0.2)
HORIZON = 10_000
PERIODS = (1000, 100, 10)
PLAYERS: Any = {"UCB, passive": (ucb, passive), "UCB1-Double, active": (ucb_double, active)}
RUNS = 1500
LITTLE = 0.05  # of the regret


def run(folder: Path, **options: Any) -> "dict[str, xarray.Dataset]":
    """Play each policy with both kinds of arrivals."""
    data = {}
    for n, (label, (policy, observer)) in enumerate(PLAYERS.items()):
        for kind in ("periodic", "random"):
            arrivals: Any = every if kind == "periodic" else lambda period: 1 / period
            feedback = {period: observer(arrivals(period)) for period in PERIODS}
            data[f"{label}, {kind}"] = sweep(
                "period", PERIODS, gaussian(MEANS), feedback.__getitem__, policy(),
                horizon=HORIZON, stages=[HORIZON], file=folder / f"10-{n}-{kind}.nc", **options,
            )  # fmt: skip
    return data


def verdict(data: "dict[str, xarray.Dataset]") -> Verdict:
    """Compare both at each rate."""
    checks, found = [], []
    for label in PLAYERS:
        regular, chance = (
            data[f"{label}, {kind}"]["final_regret"].isel(policy=0) for kind in ("periodic", "random")
        )
        for period in PERIODS:
            less = saving(regular.sel(period=period), chance.sel(period=period))
            found.append((label, period, less))
            checks.append(
                Check(
                    f"{label}, every {period} stages: {mean(regular.sel(period=period))} against "
                    f"{mean(chance.sel(period=period))} at random, a saving of {percent(less)} "
                    f"(little: within {LITTLE:.0%}).",
                    within(less, LITTLE),
                )
            )
    label, period, most = max(found, key=lambda one: abs(one[2].value))
    close = [check.holds for check in checks].count(True)
    return judge(
        checks,
        f"surely within {LITTLE:.0%} at {close} of {len(checks)} settings",
        f"Farthest apart by {percent(most)}: {label}, every {period} stages.",
    )


def draw(data: "dict[str, xarray.Dataset]") -> Picture:
    """Draw both against ε for each policy."""
    panels = []
    rates = 1 / np.array(PERIODS)
    for label in PLAYERS:
        curves = []
        for kind in ("periodic", "random"):
            final = data[f"{label}, {kind}"]["final_regret"].isel(policy=0)
            curves.append(bars(kind, rates, [final.sel(period=period) for period in PERIODS]))
        y = f"regret at T (mean of {final.sizes['run']}, bars ± 2 s.e.)"
        panels.append(Panel(f"{label}, T = {power(HORIZON)}", "ε, looks per stage", y, curves))
    alt = (
        "Final regret against ε with periodic and with random arrivals, for UCB as a passive and "
        "UCB1-Double as an active observer. " + verdict(data).sentence
    )
    return Picture(alt, panels, 2)
