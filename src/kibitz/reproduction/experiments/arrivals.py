"""Periodic looks (one every 1/ε stages) against random looks (probability ε at each stage).

Source: Sections 2.1.2 and 4.1, without a figure.

Measured: for one policy with passive looks and one with active looks, and at each rate, whether the
regrets with periodic and with random arrivals are within 5 % of each other.
"""

from typing import Any

import numpy as np

from kibitz.model.feedback import active, every, passive
from kibitz.model.problem import gaussian
from kibitz.plotting.picture import Panel, Picture, error_bars, typeset
from kibitz.policies.ucb import ucb, ucb_double
from kibitz.reproduction import Data, Files
from kibitz.reproduction.verdict import (
    Statement,
    Verdict,
    format_percent,
    is_within,
    judge,
    mean,
    saving,
)
from kibitz.simulation.sweep import sweep

TITLE = "Periodic against random arrivals"
SOURCE = "Sections 2.1.2 and 4.1, without a figure"
CLAIM = (
    "The guarantees are of the same kind whether looks arrive every 1/ε stages or at random with "
    "probability ε. The randomness of the arrivals costs little."
)
#: Mean reward of each arm.
MEANS = (2.0, 1.8, 0.5, 0.2)
#: Number of stages, T.
HORIZON = 10_000
#: Stages between two looks, 1/ε.
PERIODS = (1000, 100, 10)
#: The policies, each with its kind of observer.
POLICIES: Any = {"UCB, passive": (ucb, passive), "UCB1-Double, active": (ucb_double, active)}
#: Number of runs for each period.
RUNS = 1500
MAX_DIFFERENCE = 0.05  #: Largest relative difference between the two regrets.


def run(file: Files, **options: Any) -> Data:
    """Simulate each policy with both kinds of arrivals."""
    data = {}
    for n, (label, (policy, observer)) in enumerate(POLICIES.items()):
        for kind in ("periodic", "random"):
            arrivals: Any = every if kind == "periodic" else lambda period: 1 / period
            data[f"{label}, {kind}"] = sweep(
                gaussian(MEANS),
                lambda period, feedback=observer, rate=arrivals: feedback(rate(period)), policy(),
                period=PERIODS, horizon=HORIZON, stages=[HORIZON], file=file(f"{n}-{kind}"),
                **options,
            )  # fmt: skip
    return data


def verdict(data: Data) -> Verdict:
    """Return the verdict on the difference between both kinds of arrivals, at each rate."""
    statements, differences = [], []
    for label in POLICIES:
        periodic_regret, random_regret = (
            data[f"{label}, {kind}"]["final_regret"].isel(policy=0) for kind in ("periodic", "random")
        )
        for period in PERIODS:
            difference = saving(periodic_regret.sel(period=period), random_regret.sel(period=period))
            differences.append((label, period, difference))
            statements.append(
                Statement(
                    f"{label}, ε = 1/{period}: regret with periodic looks "
                    f"({mean(periodic_regret.sel(period=period))}) is close to regret with random "
                    "looks "
                    f"({mean(random_regret.sel(period=period))}): the relative difference is "
                    f"{format_percent(difference)} (close: within {format_percent(MAX_DIFFERENCE)}).",
                    is_within(difference, MAX_DIFFERENCE),
                )
            )
    label, period, largest_difference = max(differences, key=lambda entry: abs(entry[2].value))
    n_close = [statement.holds for statement in statements].count(True)
    return judge(
        statements,
        f"regrets are shown to be within {format_percent(MAX_DIFFERENCE)} in {n_close} of "
        f"{len(statements)} settings",
        f"The largest difference is {format_percent(largest_difference)} ({label}, ε = 1/{period}).",
    )


def draw(data: Data) -> Picture:
    """Return a figure of regret against ε with both kinds of arrivals, for each policy."""
    panels = []
    rates = 1 / np.array(PERIODS)
    for label in POLICIES:
        curves = []
        for kind in ("periodic", "random"):
            final_regret = data[f"{label}, {kind}"]["final_regret"].isel(policy=0)
            curves.append(
                error_bars(kind, rates, [final_regret.sel(period=period) for period in PERIODS])
            )
        y = f"regret at T (mean of {final_regret.sizes['run']} runs, bars ± 2 s.e.)"
        panels.append(Panel(f"{label}, T = {typeset(HORIZON)}", "ε, looks per stage", y, curves))
    alt = (
        "Final regret against ε with periodic and with random arrivals, for UCB as a passive and "
        "UCB1-Double as an active observer. " + verdict(data).finding
    )
    return Picture(alt, panels, 2)
