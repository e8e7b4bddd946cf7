"""Looks that cost as much as a pull.

Source: Section 6, without a figure.

Measured: at each horizon, whether the regret varies with ε by less than a constant factor; from
horizon to horizon, whether the regret grows no faster than Σ log(TΔ²)/Δ, summed over the suboptimal
arms with gaps Δ.
"""

from itertools import pairwise
from typing import Any

import numpy as np

from kibitz.model.feedback import active, bandit
from kibitz.model.problem import gaussian
from kibitz.plotting.picture import Curve, Panel, Picture, error_bars, typeset
from kibitz.policies.etc_ocucb import etc_ocucb
from kibitz.policies.ocucb import ocucb
from kibitz.reproduction import Data, Files
from kibitz.reproduction.verdict import Statement, Verdict, is_above, is_below, judge, mean, ratio
from kibitz.simulation.simulate import simulate
from kibitz.simulation.sweep import sweep

TITLE = "Paid looks"
SOURCE = "Section 6, without a figure"
CLAIM = (
    "If each look costs as much as a pull, the regret of the active algorithm is that of a bandit "
    "algorithm up to constants, and does not depend on ε."
)
#: Mean reward of each arm.
MEANS = (2.0, 1.8, 1.5, 1.0, 0.5)
#: Numbers of stages, T.
HORIZONS = (10**4, 10**6, 10**9, 10**12)
#: Values of ε.
RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
#: Number of runs for each ε and T.
RUNS = 12
MAX_SPREAD = 2.0  #: Largest ratio of two regrets that "do not depend on ε".


def run(file: Files, **options: Any) -> Data:
    """Simulate ETC-OCUCB with paid looks at each rate and horizon, and OCUCB-n without looks."""
    problem, data = gaussian(MEANS), {}
    for horizon in HORIZONS:
        here = {"horizon": horizon, "stages": [horizon], **options}
        data[f"paid, {horizon}"] = sweep(
            problem, active, etc_ocucb(), rate=RATES, paid=True,
            file=file(f"paid-{horizon}"), **here,
        )  # fmt: skip
        data[f"alone, {horizon}"] = simulate(
            problem, bandit(), ocucb(), file=file(f"alone-{horizon}"), **here
        )
    return data


def etc_order(horizon: int) -> float:
    """Return Σ log(TΔ²)/Δ over the suboptimal arms, the order of the regret of ETC."""
    gaps = gaussian(MEANS).gaps
    gaps = gaps[gaps > 0]
    return float((np.log(horizon * gaps**2) / gaps).sum())


def verdict(data: Data) -> Verdict:
    """Return the verdict on how the regret varies with ε, and how it grows with T."""
    statements, spreads, factors = [], [], []
    worst: dict[int, Any] = {}
    for horizon in HORIZONS:
        final = data[f"paid, {horizon}"]["final_regret"].isel(policy=0)
        alone = data[f"alone, {horizon}"]["final_regret"].isel(policy=0)
        means = final.mean("run").to_numpy()
        rates = final["rate"].to_numpy()
        least, most = rates[np.argmin(means)], rates[np.argmax(means)]
        spread = ratio(final.sel(rate=most), final.sel(rate=least))
        spreads.append(spread)
        statements.append(
            Statement(
                f"T = {typeset(horizon)}: the regret does not depend on ε. It is between "
                f"{mean(final.sel(rate=least))} (ε = {typeset(least)}) and "
                f"{mean(final.sel(rate=most))} (ε = {typeset(most)}), a factor of {spread} "
                f"(does not depend: below {MAX_SPREAD:g}).",
                is_below(spread, MAX_SPREAD),
            )
        )
        worst[horizon] = final.sel(rate=most)
        factors.append(ratio(worst[horizon], alone))
    for before, after in pairwise(HORIZONS):
        growth = ratio(worst[after], worst[before])
        allowed = etc_order(after) / etc_order(before)
        statements.append(
            Statement(
                f"From T = {typeset(before)} to {typeset(after)}, the largest regret over ε grows no "
                f"faster than Σ log(TΔ²)/Δ: by a factor of {growth}, against {allowed:.2f}.",
                is_below(growth, allowed),
            )
        )
    depends = any(is_above(one, MAX_SPREAD) for one in spreads)
    finding = (
        f"For ε from {typeset(RATES[0])} to {typeset(RATES[-1])}, the regret varies by a factor of "
        + ", ".join(f"{one} (T = {typeset(h)})" for one, h in zip(spreads, HORIZONS, strict=True))
        + (". It depends on ε at these horizons." if depends else ".")
        + " With paid looks, the largest regret is "
        + ", ".join(f"{one.value:.1f}" for one in factors)
        + " times that of OCUCB-n without looks at these horizons."
    )
    summary = "over ε, regret varies by a factor of " + ", ".join(
        f"{one.value:.1f} (T = {typeset(h)})" for one, h in zip(spreads, HORIZONS, strict=True)
    )
    return judge(statements, summary, finding)


def draw(data: Data) -> Picture:
    """Return a figure of regret with paid looks against ε, for each horizon.

    The figure also shows the regret of OCUCB-n without looks.
    """
    panels = []
    for horizon in HORIZONS:
        final = data[f"paid, {horizon}"]["final_regret"].isel(policy=0)
        alone = data[f"alone, {horizon}"]["final_regret"].isel(policy=0)
        level, ends = float(alone.mean()), [RATES[0], RATES[-1]]
        panels.append(
            Panel(
                f"T = {typeset(horizon)}",
                "ε, paid looks per stage",
                f"regret at T, cost of looks included\n(mean of {final.sizes['run']} runs, bars ± 2 "
                "s.e.)",
                [
                    error_bars(
                        "ETC-OCUCB, paid looks", RATES, [final.sel(rate=rate) for rate in RATES]
                    ),
                    Curve("OCUCB-n, no looks", ends, [level, level], kind="reference"),
                ],
            )
        )
    alt = (
        f"Regret of ETC-OCUCB with paid looks against ε for {len(HORIZONS)} horizons. "
        + verdict(data).finding
    )
    return Picture(alt, panels, 2)
