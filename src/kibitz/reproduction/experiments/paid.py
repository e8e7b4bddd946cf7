"""The regret of the active algorithm if each look costs as much as a pull.

Source: Section 6, without a figure.

Measured: at each horizon, whether the regret varies with ε by less than a constant factor; and
whether, from one horizon to the next, the regret grows no faster than Σ log(TΔ²)/Δ, summed over the
suboptimal arms with gaps Δ.
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
        horizon_options = {"horizon": horizon, "stages": [horizon], **options}
        data[f"paid, {horizon}"] = sweep(
            problem, active, etc_ocucb(), rate=RATES, paid=True,
            file=file(f"paid-{horizon}"), **horizon_options,
        )  # fmt: skip
        data[f"alone, {horizon}"] = simulate(
            problem, bandit(), ocucb(), file=file(f"alone-{horizon}"), **horizon_options
        )
    return data


def etc_order(horizon: int) -> float:
    """Return Σ log(TΔ²)/Δ over the suboptimal arms, the order of the regret of ETC."""
    gaps = gaussian(MEANS).gaps
    gaps = gaps[gaps > 0]
    return float((np.log(horizon * gaps**2) / gaps).sum())


def verdict(data: Data) -> Verdict:
    """Return the verdict on how the regret varies with ε, and how it grows with T."""
    statements, spread_factors, regret_factors = [], [], []
    worst_regrets: dict[int, Any] = {}
    for horizon in HORIZONS:
        final_regret = data[f"paid, {horizon}"]["final_regret"].isel(policy=0)
        regret_without_looks = data[f"alone, {horizon}"]["final_regret"].isel(policy=0)
        means = final_regret.mean("run").to_numpy()
        rates = final_regret["rate"].to_numpy()
        best_rate, worst_rate = rates[np.argmin(means)], rates[np.argmax(means)]
        spread = ratio(final_regret.sel(rate=worst_rate), final_regret.sel(rate=best_rate))
        spread_factors.append(spread)
        statements.append(
            Statement(
                f"T = {typeset(horizon)}: the regret does not depend on ε. It is between "
                f"{mean(final_regret.sel(rate=best_rate))} (ε = {typeset(best_rate)}) and "
                f"{mean(final_regret.sel(rate=worst_rate))} (ε = {typeset(worst_rate)}), a factor "
                f"of {spread} "
                f"(does not depend: below {MAX_SPREAD:g}).",
                is_below(spread, MAX_SPREAD),
            )
        )
        worst_regrets[horizon] = final_regret.sel(rate=worst_rate)
        regret_factors.append(ratio(worst_regrets[horizon], regret_without_looks))
    for shorter_horizon, longer_horizon in pairwise(HORIZONS):
        growth = ratio(worst_regrets[longer_horizon], worst_regrets[shorter_horizon])
        max_growth = etc_order(longer_horizon) / etc_order(shorter_horizon)
        statements.append(
            Statement(
                f"From T = {typeset(shorter_horizon)} to {typeset(longer_horizon)}, the largest "
                "regret over ε grows "
                "no "
                f"faster than Σ log(TΔ²)/Δ: by a factor of {growth}, against {max_growth:.2f}.",
                is_below(growth, max_growth),
            )
        )
    depends_on_rate = any(is_above(factor, MAX_SPREAD) for factor in spread_factors)
    finding = (
        f"For ε from {typeset(RATES[0])} to {typeset(RATES[-1])}, the regret varies by a factor of "
        + ", ".join(
            f"{factor} (T = {typeset(n_stages)})"
            for factor, n_stages in zip(spread_factors, HORIZONS, strict=True)
        )
        + (". It depends on ε at these horizons." if depends_on_rate else ".")
        + " With paid looks, the largest regret is "
        + ", ".join(f"{factor.value:.1f}" for factor in regret_factors)
        + " times that of OCUCB-n without looks at these horizons."
    )
    summary = "over ε, regret varies by a factor of " + ", ".join(
        f"{factor.value:.1f} (T = {typeset(n_stages)})"
        for factor, n_stages in zip(spread_factors, HORIZONS, strict=True)
    )
    return judge(statements, summary, finding)


def draw(data: Data) -> Picture:
    """Return a figure of regret with paid looks against ε, for each horizon.

    The figure also shows the regret of OCUCB-n without looks.
    """
    panels = []
    for horizon in HORIZONS:
        final_regret = data[f"paid, {horizon}"]["final_regret"].isel(policy=0)
        regret_without_looks = data[f"alone, {horizon}"]["final_regret"].isel(policy=0)
        mean_without_looks, end_rates = float(regret_without_looks.mean()), [RATES[0], RATES[-1]]
        panels.append(
            Panel(
                f"T = {typeset(horizon)}",
                "ε, paid looks per stage",
                f"regret at T, cost of looks included\n(mean of {final_regret.sizes['run']} runs, "
                "bars ± 2 "
                "s.e.)",
                [
                    error_bars(
                        "ETC-OCUCB, paid looks",
                        RATES,
                        [final_regret.sel(rate=rate) for rate in RATES],
                    ),
                    Curve(
                        "OCUCB-n, no looks",
                        end_rates,
                        [mean_without_looks, mean_without_looks],
                        kind="reference",
                    ),
                ],
            )
        )
    alt = (
        f"Regret of ETC-OCUCB with paid looks against ε for {len(HORIZONS)} horizons. "
        + verdict(data).finding
    )
    return Picture(alt, panels, 2)
