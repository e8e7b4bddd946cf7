"""Looks that come every 1/ε stages against looks that come at random.

Of the paper: Sections 2.1.2 and 4.1 (claimed, not drawn).

Concluded: for a passive and an active policy and at each rate, whether the two regrets are within
5 % of each other.
"""

from typing import Any

import numpy as np

from kibitz.model.feedback import active, every, passive
from kibitz.model.problem import gaussian
from kibitz.plotting.picture import Panel, Picture, bars, typeset
from kibitz.policies.ucb import ucb, ucb_double
from kibitz.reproduction import Data, Files
from kibitz.reproduction.verdict import Statement, Verdict, judge, mean, percent, saving, within
from kibitz.simulation.sweep import sweep

TITLE = "Periodic against random arrivals"
PAPER = "Sections 2.1.2 and 4.1 (claimed, not drawn)"
CLAIM = (
    "Whether looks come every 1/ε stages or at random with probability ε, the guarantee is of the "
    "same kind: chance in the arrivals costs little."
)
#: Mean reward of each arm.
MEANS = (2.0, 1.8, 0.5, 0.2)
#: Stages, T.
HORIZON = 10_000
#: Stages from look to look, 1/ε.
PERIODS = (1000, 100, 10)
PLAYERS: Any = {"UCB, passive": (ucb, passive), "UCB1-Double, active": (ucb_double, active)}
#: Runs of each setting.
RUNS = 1500
LITTLE = 0.05  #: The share of the regret by which it may differ.


def run(file: Files, **options: Any) -> Data:
    """Play each policy with both kinds of arrivals."""
    data = {}
    for n, (label, (policy, observer)) in enumerate(PLAYERS.items()):
        for kind in ("periodic", "random"):
            arrivals: Any = every if kind == "periodic" else lambda period: 1 / period
            data[f"{label}, {kind}"] = sweep(
                gaussian(MEANS), lambda period, see=observer, at=arrivals: see(at(period)), policy(),
                period=PERIODS, horizon=HORIZON, stages=[HORIZON], file=file(f"{n}-{kind}"),
                **options,
            )  # fmt: skip
    return data


def verdict(data: Data) -> Verdict:
    """Compare both at each rate."""
    statements, found = [], []
    for label in PLAYERS:
        regular, chance = (
            data[f"{label}, {kind}"]["final_regret"].isel(policy=0) for kind in ("periodic", "random")
        )
        for period in PERIODS:
            less = saving(regular.sel(period=period), chance.sel(period=period))
            found.append((label, period, less))
            statements.append(
                Statement(
                    f"{label}, every {period} stages: {mean(regular.sel(period=period))} against "
                    f"{mean(chance.sel(period=period))} at random, a saving of {percent(less)} "
                    f"(little: within {LITTLE:.0%}).",
                    within(less, LITTLE),
                )
            )
    label, period, most = max(found, key=lambda one: abs(one[2].value))
    close = [statement.holds for statement in statements].count(True)
    return judge(
        statements,
        f"surely within {LITTLE:.0%} at {close} of {len(statements)} settings",
        f"Farthest apart by {percent(most)}: {label}, every {period} stages.",
    )


def draw(data: Data) -> Picture:
    """Draw both against ε for each policy."""
    panels = []
    rates = 1 / np.array(PERIODS)
    for label in PLAYERS:
        curves = []
        for kind in ("periodic", "random"):
            final = data[f"{label}, {kind}"]["final_regret"].isel(policy=0)
            curves.append(bars(kind, rates, [final.sel(period=period) for period in PERIODS]))
        y = f"regret at T (mean of {final.sizes['run']}, bars ± 2 s.e.)"
        panels.append(Panel(f"{label}, T = {typeset(HORIZON)}", "ε, looks per stage", y, curves))
    alt = (
        "Final regret against ε with periodic and with random arrivals, for UCB as a passive and "
        "UCB1-Double as an active observer. " + verdict(data).sentence
    )
    return Picture(alt, panels, 2)
