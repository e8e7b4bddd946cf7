"""Graphs that are redrawn at each stage: each edge is present with probability r.

Source: Alon et al. (2017) and Kocák, Neu and Valko (2016) study such graphs.

Measured: whether the regret at the smallest r equals the regret without a graph; whether the regret
is linear in log(1/r) above the threshold r* = 1/(T Δ²), where Δ is the smallest gap; and whether the
regret at r = 1 stops growing with T.
"""

from typing import Any

import numpy as np

from kibitz.bounds import complexity
from kibitz.model.feedback import Feedback, graph
from kibitz.model.problem import gaussian
from kibitz.plotting.picture import Curve, Mark, Panel, Picture, typeset
from kibitz.policies.ucb import ucb
from kibitz.reproduction import Data, Files
from kibitz.reproduction.verdict import (
    Statement,
    Verdict,
    format_percent,
    is_within,
    judge,
    mean,
    r_squared,
    saving,
)
from kibitz.simulation.sweep import sweep

TITLE = "Graphs that are redrawn at each stage"
SOURCE = "Alon et al. (2017) and Kocák, Neu and Valko (2016) study such graphs"
CLAIM = (
    "If a pull shows each other arm with probability r, the regret of UCB is linear in log(1/r), as "
    "with looks at rate ε. If r is about 1/T, the regret is that of the bandit."
)
#: Mean reward of each arm, as in the paper's Figure 1.
MEANS = (2.0, 1.8, 0.5, 0.2)
#: Number of stages, T.
HORIZON = 50_000
#: Values of r; 0 is the bandit and 1 shows all arms at every stage.
PROBABILITIES = (
    0.0, 2e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0,
)  # fmt: skip
#: Number of runs for each r.
RUNS = 400
MAX_DIFFERENCE = 0.05  #: Largest relative difference between regrets that count as equal.
MIN_R_SQUARED = 0.95  #: Smallest R² of a straight line.
EARLY_STAGE_SHARE = 0.1  #: The regret at r = 1 is compared with the regret at this share of T.


def make_feedback(probability: float) -> Feedback:
    """Return the feedback in which a pull shows each other arm with the given probability."""
    return graph(np.full((len(MEANS), len(MEANS)), probability), loops=True)


def run(file: Files, **options: Any) -> Data:
    """Simulate UCB at each r."""
    stages = [int(EARLY_STAGE_SHARE * HORIZON), HORIZON]
    data = sweep(
        gaussian(MEANS), make_feedback, ucb(), probability=PROBABILITIES, horizon=HORIZON,
        stages=stages, file=file("probabilities"), **options,
    )  # fmt: skip
    return {"probabilities": data}


def verdict(data: Data) -> Verdict:
    """Return the verdict on the regret as a function of r."""
    part_data = data["probabilities"].isel(policy=0)
    final_regret = part_data["final_regret"]
    bandit_regret = final_regret.sel(probability=0.0)
    smallest, *_, largest = PROBABILITIES[1:]
    threshold = compute_threshold()
    values = [r for r in PROBABILITIES if r >= threshold]
    linearity = r_squared(np.log(values), [final_regret.sel(probability=r).mean() for r in values])
    change = saving(final_regret.sel(probability=smallest), bandit_regret)
    early_regret, late_regret = (
        part_data["regret"].sel(probability=largest).isel(stage=n) for n in (0, -1)
    )
    growth = saving(early_regret, late_regret)
    statements = [
        Statement(
            f"The regret at r = 1/T ({mean(final_regret.sel(probability=smallest))}) equals the "
            f"regret of the bandit ({mean(bandit_regret)}): the relative difference is "
            f"{format_percent(change)} (equal: within {format_percent(MAX_DIFFERENCE)}).",
            is_within(change, MAX_DIFFERENCE),
        ),
        Statement(
            f"From r* = {typeset(threshold)} on, regret is linear in log(1/r): R² = {linearity:.3f} "
            f"(at least {MIN_R_SQUARED:g}).",
            linearity >= MIN_R_SQUARED,
        ),
        Statement(
            f"At r = 1 the regret does not grow from stage {typeset(EARLY_STAGE_SHARE * HORIZON)} to "
            f"stage {typeset(HORIZON)}: by {format_percent(growth)} (at most "
            f"{format_percent(MAX_DIFFERENCE)}).",
            is_within(growth, MAX_DIFFERENCE),
        ),
    ]
    last_regret = mean(final_regret.sel(probability=largest))
    finding = (
        f"Regret falls from {mean(bandit_regret)} in the bandit to {last_regret} if a pull shows all "
        f"arms. From r* on it is {'' if linearity >= MIN_R_SQUARED else 'not '}linear in log(1/r)."
    )
    summary = f"{mean(bandit_regret)} at r = 0, {last_regret} at r = 1; R² = {linearity:.3f}"
    return judge(statements, summary, finding)


def compute_threshold() -> float:
    """Return r* = 1/(T Δ²), where Δ is the smallest positive gap."""
    gaps = complexity.gaps(MEANS)
    return 1 / (HORIZON * float(min(gap for gap in gaps if gap > 0)) ** 2)


def draw(data: Data) -> Picture:
    """Return a figure of final regret against r."""
    final_regret = data["probabilities"]["final_regret"].isel(policy=0)
    probabilities = np.array(PROBABILITIES[1:])
    positive = final_regret.sel(probability=probabilities)
    low, high = positive.quantile([0.1, 0.9], "run").to_numpy()
    bandit_regret = float(final_regret.sel(probability=0.0).mean())
    panel = Panel(
        f"UCB on redrawn graphs, T = {typeset(HORIZON)}",
        "r, probability that a pull shows another arm",
        f"regret at T (mean of {final_regret.sizes['run']} runs, bars 10–90 %)",
        [
            Curve(
                "UCB on the graph",
                probabilities,
                positive.mean("run").to_numpy(),
                low,
                high,
                "points",
            ),
            Curve(
                "UCB without a graph",
                probabilities[[0, -1]],
                [bandit_regret, bandit_regret],
                kind="reference",
            ),
        ],
        [Mark(compute_threshold(), "r*")],
        note=f"dotted: the threshold r* = {typeset(compute_threshold())}",
    )
    alt = "Regret of UCB on graphs that are redrawn at each stage. " + verdict(data).finding
    return Picture(alt, [panel], 1)
