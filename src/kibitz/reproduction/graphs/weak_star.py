"""A graph without self-loops in which only the hub shows rewards; the hub is not the best arm.

Source: Alon et al. (2015) prove the rate T^(2/3) for such graphs.

Measured: whether the largest regret of scout over several gaps grows like T^(2/3) and is above the
lower bound; and whether the regret of scout at a fixed gap grows much more slowly.
"""

from typing import Any

import numpy as np

from kibitz.bounds import complexity, lower
from kibitz.model.feedback import graph
from kibitz.model.problem import Problem, gaussian
from kibitz.plotting.picture import Curve, Panel, Picture, error_bars, typeset
from kibitz.policies.scout import scout
from kibitz.reproduction import Data, Files
from kibitz.reproduction.verdict import (
    Estimate,
    Statement,
    Verdict,
    all_hold,
    is_above,
    is_below,
    judge,
    mean,
    slope,
)
from kibitz.simulation.sweep import sweep

TITLE = "A star without self-loops"
SOURCE = "Alon et al. (2015) prove the rate T^(2/3) for such graphs"
CLAIM = (
    "If the only arm that shows rewards is not the best arm, the regret on the hardest problem grows "
    "like T^(2/3), although the regret on each fixed problem grows like log T."
)
HUB_GAP = 1.0  #: The gap of the hub.
#: Numbers of stages, T.
HORIZONS = (1_000, 10_000, 100_000)
#: Gaps between the two leaves, in units of T^(-1/3).
RELATIVE_GAPS = (0.35, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)
FIXED_GAP = 0.5  #: The gap of the problem that does not change with T.
#: Number of runs for each gap and each T.
RUNS = 300
EXPONENT, MAX_DISTANCE = 2 / 3, 0.07  #: The exponent of T, and the largest distance from it.
MAX_FIXED_EXPONENT = 0.4  #: Largest exponent of T with a fixed gap.
#: A pull of the hub (arm 0) shows all arms; a pull of a leaf shows nothing.
SHOWS = ((1, 1, 1), (0, 0, 0), (0, 0, 0))


def make_problem(gap: float) -> Problem:
    """Return the problem with two leaves whose means differ by `gap`; the last arm is the best."""
    return gaussian([-HUB_GAP, -gap, 0.0])


def compute_gap(relative: float, horizon: int) -> float:
    """Return the gap `relative` · T^(-1/3), or the fixed gap if `relative` is 0."""
    return relative * horizon ** (-1 / 3) if relative > 0 else FIXED_GAP


def run(file: Files, **options: Any) -> Data:
    """Simulate scout for each T, at gaps that shrink with T and at a fixed gap."""
    data = {}
    for horizon in HORIZONS:
        data[str(horizon)] = sweep(
            lambda relative, horizon=horizon: make_problem(compute_gap(relative, horizon)),
            graph(SHOWS), scout(), relative=[0.0, *RELATIVE_GAPS], horizon=horizon,
            stages=[horizon], file=file(str(horizon)), **options,
        )  # fmt: skip
    return data


def find_worst(part_data: Any) -> Any:
    """Return the final regret of all runs at the gap with the largest mean regret."""
    final_regret = part_data["final_regret"].isel(policy=0).sel(relative=list(RELATIVE_GAPS))
    return final_regret.isel(relative=int(final_regret.mean("run").argmax("relative")))


def measure_exponents(data: Data) -> tuple[Estimate, Estimate]:
    """Return the exponents of T of the largest regret and of the regret with the fixed gap."""
    log_horizons = np.log([int(label) for label in data])
    worst_regrets = np.stack([find_worst(part).to_numpy() for part in data.values()], axis=1)
    fixed_gap_regrets = np.stack(
        [part["final_regret"].isel(policy=0).sel(relative=0.0).to_numpy() for part in data.values()],
        axis=1,
    )
    return slope(log_horizons, worst_regrets, log=True), slope(
        log_horizons, fixed_gap_regrets, log=True
    )


def verdict(data: Data) -> Verdict:
    """Return the verdict on the exponents, and on the lower bound."""
    worst_exponent, fixed_exponent = measure_exponents(data)
    worst = {int(label): mean(find_worst(part)) for label, part in data.items()}
    bounds = {t: float(lower.graph_worst_case(SHOWS, t, gap=HUB_GAP)) for t in worst}
    distance = Estimate(worst_exponent.value - EXPONENT, worst_exponent.error)
    last = max(worst)
    statements = [
        Statement(
            f"The largest regret over {len(RELATIVE_GAPS)} gaps grows like T to the power "
            f"{worst_exponent} (within {MAX_DISTANCE:g} of 2/3).",
            all_hold([is_below(distance, MAX_DISTANCE), is_above(distance, -MAX_DISTANCE)]),
        ),
        Statement(
            "The largest regret is above the lower bound at every T: at T = "
            f"{typeset(last)} it is {worst[last]}, and the bound is {bounds[last]:.4g}.",
            all_hold([is_above(worst[t], bounds[t]) for t in worst]),
        ),
        Statement(
            f"With the fixed gap {FIXED_GAP:g}, the regret grows like T to the power "
            f"{fixed_exponent} (at most {MAX_FIXED_EXPONENT:g}).",
            is_below(fixed_exponent, MAX_FIXED_EXPONENT),
        ),
    ]
    constant = complexity.graph([HUB_GAP, FIXED_GAP, 0.0], SHOWS).constant
    finding = (
        f"The largest regret of scout grows like T to the power {worst_exponent}, and is "
        f"{worst[last].value / bounds[last]:.1f} times the lower bound at T = {typeset(last)}. With "
        f"a fixed gap the power is {fixed_exponent}; asymptotically, the regret is at least C* log T "
        f"with C* = {constant:.3g}."
    )
    summary = (
        f"power {worst_exponent} in the worst case, {fixed_exponent} with a fixed gap; "
        f"{worst[last].value / bounds[last]:.1f} times the lower bound"
    )
    return judge(statements, summary, finding)


def draw(data: Data) -> Picture:
    """Return a figure of the largest regret against T, and of the regret against the gap."""
    horizons = np.array([int(label) for label in data])
    runs = next(iter(data.values())).sizes["run"]
    parts = list(data.values())
    fixed = [part["final_regret"].isel(policy=0).sel(relative=0.0) for part in parts]
    fine_horizons = np.geomspace(horizons[0], horizons[-1], 30).round()
    bound = np.asarray(lower.graph_worst_case(SHOWS, fine_horizons, gap=HUB_GAP))
    first_worst = float(find_worst(parts[0]).mean())
    growth = Panel(
        "Growth with T",
        "T",
        f"regret at T (mean of {runs} runs, bars ± 2 s.e.)",
        [
            error_bars("scout, hardest gap", horizons, [find_worst(part) for part in parts]),
            error_bars(f"scout, gap {FIXED_GAP:g}", horizons, fixed),
            Curve(
                "T^(2/3)",
                fine_horizons,
                first_worst * (fine_horizons / horizons[0]) ** EXPONENT,
                kind="reference",
            ),
            Curve("lower bound, hardest gap", fine_horizons, bound, kind="reference"),
        ],
        y_log=True,
    )
    by_gap = Panel(
        "Regret by gap",
        "gap between the leaves, in units of T^(−1/3)",
        "regret at T / T^(2/3)\n(bars ± 2 s.e.)",
        [
            error_bars(
                f"T = {typeset(horizon)}",
                RELATIVE_GAPS,
                [
                    part["final_regret"].isel(policy=0).sel(relative=gap) / horizon**EXPONENT
                    for gap in RELATIVE_GAPS
                ],
            )
            for horizon, part in zip(horizons, parts, strict=True)
        ],
    )
    alt = (
        "Regret of scout on a star without self-loops: the largest regret over several gaps and the "
        "regret of a fixed gap against T, and the regret against the gap. " + verdict(data).finding
    )
    return Picture(alt, [growth, by_gap], 2)
