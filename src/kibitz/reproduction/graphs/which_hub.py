"""UCB on graphs in which one arm, the hub, shows all arms, and every other arm only itself.

Source: Wu, György and Szepesvári (2015) for the constant C*.

Measured: whether the regret of UCB stops growing if the hub is the best arm; and whether, for any
other hub, the regret is linear in log T with a slope of at least the smallest possible slope C*.
"""

import math
from typing import Any

import numpy as np

from kibitz.bounds import complexity
from kibitz.model.feedback import Feedback, graph
from kibitz.model.problem import gaussian
from kibitz.plotting.picture import Panel, Picture, band, typeset
from kibitz.policies.ucb import ucb
from kibitz.reproduction import Data, Files
from kibitz.reproduction.verdict import (
    Estimate,
    Statement,
    Table,
    Verdict,
    all_hold,
    format_percent,
    is_above,
    is_below,
    judge,
    mean,
    r_squared,
    saving,
    slope,
)
from kibitz.simulation.sweep import sweep

TITLE = "Which arm is the hub"
SOURCE = "Wu, György and Szepesvári (2015) for the constant C*"
CLAIM = (
    "If the best arm shows all arms, the regret is bounded. If another arm does, the regret grows "
    "like log T, at least as fast as C* log T."
)
#: Mean reward of each arm.
MEANS = (2.0, 1.8, 1.5, 1.0, 0.5)
#: Number of stages, T.
HORIZON = 10**9
#: Number of runs for each hub.
RUNS = 100
SLOPE_DECADES = 4  #: The slope is measured over this number of decades before T.
MAX_GROWTH = 0.05  #: Largest relative growth of a bounded regret over these decades.
MIN_R_SQUARED = 0.95  #: Smallest R² of a straight line.


def make_shows(hub: int) -> Any:
    """Return the matrix of the graph in which the hub shows all arms."""
    shows = np.eye(len(MEANS))
    shows[hub] = 1
    return shows


def make_feedback(hub: int) -> Feedback:
    """Return the feedback of the graph in which the hub shows all arms."""
    return graph(make_shows(hub))


def run(file: Files, **options: Any) -> Data:
    """Simulate UCB for each hub."""
    data = sweep(
        gaussian(MEANS), make_feedback, ucb(), hub=range(len(MEANS)), horizon=HORIZON,
        file=file("hubs"), **options,
    )  # fmt: skip
    return {"hubs": data}


def measure_slope(regret: Any) -> tuple[Estimate, float]:
    """Return the slope of the regret per log T over the last decades, and R² of the line."""
    late_regret = regret.sel(stage=slice(HORIZON / 10**SLOPE_DECADES, None))
    log_stages = np.log(late_regret["stage"].to_numpy())
    runs = late_regret.transpose("run", "stage").to_numpy()
    return slope(log_stages, runs), r_squared(log_stages, runs.mean(axis=0))


def verdict(data: Data) -> Verdict:
    """Return the verdict on the growth of the regret for each hub."""
    regret = data["hubs"]["regret"].isel(policy=0)
    early_stage = HORIZON / 10**SLOPE_DECADES
    statements, rows, slopes = [], [], []
    for hub, hub_mean in enumerate(MEANS):
        hub_regret = regret.sel(hub=hub)
        final_regret = mean(hub_regret.isel(stage=-1))
        constant = complexity.graph(complexity.gaps(MEANS), make_shows(hub)).constant
        slope_estimate, linearity = measure_slope(hub_regret)
        rows.append(
            [f"{hub_mean:g}", f"{constant:.3g}", str(slope_estimate), str(final_regret)]
        )  # fmt: skip
        if constant == 0:
            early_regret = hub_regret.sel(stage=early_stage, method="nearest")
            growth = saving(early_regret, hub_regret.isel(stage=-1))
            bounded_regret = final_regret
            statements.append(
                Statement(
                    f"With the best arm as hub, the regret stops growing: from stage "
                    f"{typeset(early_stage)} to stage {typeset(HORIZON)} it grows by "
                    f"{format_percent(growth)} (at most {format_percent(MAX_GROWTH)}), to "
                    f"{final_regret}.",
                    is_below(growth, MAX_GROWTH),
                )
            )
            continue
        slopes.append(slope_estimate.value / constant)
        statements.append(
            Statement(
                f"With the hub of mean {hub_mean:g}, the regret grows like log T: R² = "
                f"{linearity:.3f} (at least {MIN_R_SQUARED:g}). Its slope per log T is "
                f"{slope_estimate}, above C* = {constant:.3g}.",
                all_hold([linearity >= MIN_R_SQUARED, is_above(slope_estimate, constant)]),
            )
        )
    last_regret = mean(regret.sel(hub=len(MEANS) - 1).isel(stage=-1))
    finding = (
        f"The regret of UCB stays at {bounded_regret} if the hub is the best arm, and reaches "
        f"{last_regret} at stage {typeset(HORIZON)} if it is the worst. With the other hubs, the "
        f"slope is {min(slopes):.1f} to {max(slopes):.1f} times C*; UCB never pulls an arm for what "
        "it shows, and its constant 6 is three times the asymptotically optimal 2."
    )
    summary = (
        f"regret {bounded_regret} with the best arm as hub; slope {min(slopes):.1f} to "
        f"{max(slopes):.1f} times C* with the others"
    )
    caption = (
        "C*: the smallest slope of the regret per log T that a consistent policy can have. Slope: of "
        f"the regret of UCB over the last {SLOPE_DECADES} decades."
    )
    columns = ("mean of the hub", "C*", "slope of UCB", f"regret at {typeset(HORIZON)}")
    return judge(statements, summary, finding, [Table(caption, columns, rows)])


def draw(data: Data) -> Picture:
    """Return a figure of the regret of UCB for each hub."""
    regret = data["hubs"]["regret"].isel(policy=0)
    panel = Panel(
        f"UCB, one arm shows all, T = {typeset(HORIZON)}",
        "stage",
        f"regret (mean of {regret.sizes['run']} runs, band 25–75 %)",
        [
            band(f"hub of mean {hub_mean:g}", regret.sel(hub=hub))
            for hub, hub_mean in enumerate(MEANS)
        ],
        note=f"arms: {', '.join(f'{arm_mean:g}' for arm_mean in MEANS)}; simulated by leaps",
    )
    alt = (
        f"Regret of UCB against the stage, up to 10 to the power {math.log10(HORIZON):.0f}, for each "
        "arm as the hub. " + verdict(data).finding
    )
    return Picture(alt, [panel], 1)
