"""Policies on a graph in which the worst arm shows all arms, and every other arm only itself.

Source: Buccapatnam, Eryilmaz and Shroff (2014) pull arms in order to observe other arms.

Measured: whether scout, which pulls an arm in order to observe other arms, has less than half of the
regret of every index policy; and whether the slope of the regret of scout per log T is near the
smallest possible slope C*.
"""

from typing import Any

import numpy as np

from kibitz.bounds import complexity
from kibitz.model.feedback import graph
from kibitz.model.problem import gaussian
from kibitz.plotting.picture import Curve, Panel, Picture, band, typeset
from kibitz.policies.imed import imed
from kibitz.policies.kibitzer import kibitzer
from kibitz.policies.policy import Policy
from kibitz.policies.scout import scout
from kibitz.policies.thompson import thompson
from kibitz.policies.ucb import ucb
from kibitz.reproduction import Data, Files
from kibitz.reproduction.verdict import (
    Estimate,
    Statement,
    Table,
    Verdict,
    is_below,
    judge,
    mean,
    ratio,
    slope,
)
from kibitz.simulation.simulate import simulate

TITLE = "A bad arm that shows all arms"
SOURCE = "Buccapatnam, Eryilmaz and Shroff (2014) pull arms in order to observe other arms"
CLAIM = (
    "If only the worst arm shows the other arms, a policy that pulls it in order to observe them has "
    "a much lower regret than index policies, which do not, and its regret grows almost as slowly as "
    "C* log T."
)
#: Mean reward of the best arm, of each of the other arms, and of the hub.
BEST_MEAN, OTHER_MEAN, HUB_MEAN = 0.5, 0.3, 0.0
N_OTHERS = 18  #: Number of arms that are neither the best arm nor the hub.
#: Number of stages, T.
HORIZON = 300_000
#: Number of runs of each policy.
RUNS = 100
SLOPE_STAGES = 10  #: The slope is measured from T divided by this number to T.
MAX_SHARE = 0.5  #: Largest regret of scout as a share of the regret of an index policy.
MAX_SLOPE = 2.0  #: Largest slope of scout as a multiple of C*.
SCOUT = "scout"


def make_policies() -> dict[str, Policy]:
    """Return the compared policies, labelled as in the literature."""
    return {
        "UCB-N": ucb(2.0),
        "TS-N": thompson(),
        "IMED-N": imed(),
        "kibitzer": kibitzer(),
        SCOUT: scout(),
        "scout, informed": scout(informed=True),
    }


def list_means() -> list[float]:
    """Return the means of all arms; the hub is the last arm."""
    return [BEST_MEAN, *[OTHER_MEAN] * N_OTHERS, HUB_MEAN]


def make_shows() -> Any:
    """Return the matrix of the graph in which the last arm shows all arms."""
    shows = np.eye(N_OTHERS + 2)
    shows[-1] = 1
    return shows


def run(file: Files, **options: Any) -> Data:
    """Simulate all policies on the graph."""
    data = simulate(
        gaussian(list_means()), graph(make_shows()), make_policies(), horizon=HORIZON,
        file=file("hub"), **options,
    )  # fmt: skip
    return {"hub": data}


def compute_constants() -> tuple[float, float]:
    """Return C* with the hub, and C* of the same arms without a graph."""
    gaps = complexity.gaps(list_means())
    return (
        complexity.graph(gaps, make_shows()).constant,
        complexity.graph(gaps, np.eye(gaps.size)).constant,
    )


def measure_slope(regret: Any) -> Estimate:
    """Return the slope of the regret per log T over the last stages."""
    late_regret = regret.sel(stage=slice(HORIZON / SLOPE_STAGES, None)).transpose("run", "stage")
    return slope(np.log(late_regret["stage"].to_numpy()), late_regret.to_numpy())


def verdict(data: Data) -> Verdict:
    """Return the verdict on the regret of scout against the index policies, and on the slopes."""
    regret = data["hub"]["regret"]
    constant, bandit_constant = compute_constants()
    labels = [str(label) for label in regret["policy"].to_numpy()]
    final_regret = {label: regret.sel(policy=label).isel(stage=-1) for label in labels}
    slopes = {label: measure_slope(regret.sel(policy=label)) for label in labels}
    statements = []
    for label in labels:
        if label.startswith(SCOUT):
            continue
        share = ratio(final_regret[SCOUT], final_regret[label])
        statements.append(
            Statement(
                f"The regret of scout is {share} times that of {label} (at most {MAX_SHARE:g}).",
                is_below(share, MAX_SHARE),
            )
        )
    multiple = Estimate(slopes[SCOUT].value / constant, slopes[SCOUT].error / constant)
    statements.append(
        Statement(
            f"The slope of scout per log T is {multiple} times C* = {constant:.3g} (at most "
            f"{MAX_SLOPE:g}).",
            is_below(multiple, MAX_SLOPE),
        )
    )
    rivals = [label for label in labels if not label.startswith(SCOUT)]
    best_rival = min(rivals, key=lambda label: float(final_regret[label].mean()))
    finding = (
        f"At stage {typeset(HORIZON)}, scout has regret {mean(final_regret[SCOUT])}, and the best "
        f"index policy, {best_rival}, has {mean(final_regret[best_rival])}. The slope of scout is "
        f"{multiple} times C* = {constant:.3g}. Without pulls of the hub, the smallest slope would "
        f"be {bandit_constant:.3g}."
    )
    summary = (
        f"scout {mean(final_regret[SCOUT])}, {best_rival} {mean(final_regret[best_rival])}; slope of "
        f"scout {multiple} times C*"
    )
    rows = [
        [label, str(mean(final_regret[label])), str(slopes[label]),
         f"{slopes[label].value / constant:.2f}", _format_tail(final_regret[label])]
        for label in labels
    ]  # fmt: skip
    caption = (
        f"C* = {constant:.3g} with the hub, and {bandit_constant:.3g} without it. The slope per log "
        f"T is measured from stage {typeset(HORIZON / SLOPE_STAGES)} on. Worst tenth: mean regret of "
        "the tenth of the runs with the largest regret."
    )
    columns = ("policy", f"regret at {typeset(HORIZON)}", "slope", "slope / C*", "worst tenth")
    return judge(statements, summary, finding, [Table(caption, columns, rows)])


def _format_tail(final_regret: Any) -> str:
    worst = np.sort(final_regret.to_numpy())[-max(1, final_regret.size // 10) :]
    return f"{worst.mean():.4g}"


def draw(data: Data) -> Picture:
    """Return a figure of the regret of each policy, with a line of slope C*."""
    regret = data["hub"]["regret"]
    constant, _ = compute_constants()
    curves = [
        band(str(label), regret.sel(policy=label)) for label in regret["policy"].to_numpy()
    ]  # fmt: skip
    scout_regret = regret.sel(policy=SCOUT).mean("run")
    stages = np.array([HORIZON / 100, HORIZON])
    end = float(scout_regret.isel(stage=-1))
    line = Curve("slope C*", stages, end + constant * np.log(stages / HORIZON), kind="reference")
    panel = Panel(
        f"{N_OTHERS + 2} arms; the worst arm shows all arms",
        "stage",
        f"regret (mean of {regret.sizes['run']} runs, band 25–75 %)",
        [*curves, line],
    )
    alt = (
        "Regret of policies against the stage on a graph whose worst arm shows all arms. "
        + verdict(data).finding
    )
    return Picture(alt, [panel], 1)
