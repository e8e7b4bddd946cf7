"""Bounded regret with looks, and regret that grows like log T without looks.

Source: Sections 1 and 4, without a figure.

Measured: whether each curve still grows in the last decade of stages (T/10 to T), and whether the
height of the plateaus is linear in log(1/ε) (R²).
"""

from typing import Any

import numpy as np

from kibitz.model.feedback import active, passive
from kibitz.model.problem import gaussian
from kibitz.plotting.picture import Curve, Panel, Picture, band, error_bars, typeset
from kibitz.policies.etc_ocucb import etc_ocucb
from kibitz.policies.ftl import ftl_robin
from kibitz.policies.ucb import ucb, ucb_double
from kibitz.reproduction import Data, Files
from kibitz.reproduction.verdict import (
    Estimate,
    Statement,
    Verdict,
    first_stage_at,
    format_percent,
    is_above,
    is_below,
    judge,
    mean,
    r_squared,
    saving,
)
from kibitz.simulation.simulate import simulate
from kibitz.simulation.sweep import sweep

TITLE = "Bounded regret"
SOURCE = "Sections 1 and 4, without a figure"
CLAIM = (
    "With looks, however rare, the regret of passive and active observers is bounded at all "
    "horizons, by a multiple of log(1/ε). Without looks it grows like log T."
)
ENGINE = "leap"  #: The engine "step" (stage by stage) can simulate only about 10⁶ stages.
HORIZON = 10**12  #: Number of stages, T.
#: Mean reward of each arm.
MEANS = (2.0, 1.8, 0.5, 0.2)
#: Values of ε of the passive observer with uniform weights; 0 means no looks.
RATES = (0.0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
#: Values of ε whose curves are drawn.
PLOTTED_RATES = (0.0, 1e-4, 1e-3, 1e-2, 1e-1)
#: ε of the active observer.
ACTIVE_RATE = 0.1
ACTIVE: Any = {"UCB1-Double": ucb_double, "ETC-OCUCB": etc_ocucb, "FTL-robin": ftl_robin}
#: Number of runs for each ε.
RUNS = 32
MAX_FLAT_GROWTH = 0.01  #: Largest share of the regret added in the last decade by a flat curve.
MIN_GROWTH = 0.05  #: Smallest share of the regret added in the last decade by a growing curve.
MIN_R_SQUARED = 0.95  #: Smallest R² of a straight line.


def run(file: Files, **options: Any) -> Data:
    """Simulate UCB as a passive observer at each rate, and the active algorithms."""
    unrounded_stages = np.geomspace(1, HORIZON, 10 * round(np.log10(HORIZON)) + 1)
    stages = np.unique(unrounded_stages.round().astype(np.int64))
    problem = gaussian(MEANS)
    options = {"horizon": HORIZON, "stages": stages, "engine": ENGINE, **options}
    return {
        "passive": sweep(
            problem, passive, ucb(), rate=RATES, file=file("passive"), **options
        ),
        "active": simulate(
            problem, active(ACTIVE_RATE),
            {name: make_policy() for name, make_policy in ACTIVE.items()},
            file=file("active"), **options,
        ),
    }  # fmt: skip


def plateau_stage(rate: float) -> float:
    """Return the stage from which the regret should be flat, for looks at this rate ε.

    This stage is the largest 1/(2 ε p_i Δ_i²) over the suboptimal arms i, with weights p_i = 1/K.
    """
    gaps = gaussian(MEANS).gaps
    return float(1 / (2 * rate * gaps[gaps > 0].min() ** 2 / gaps.size))


def last_decade_growth(regret: Any) -> Estimate:
    """Return the share of the final regret that the last decade of stages added."""
    horizon = int(regret["stage"][-1])
    return saving(regret.sel(stage=horizon // 10, method="nearest"), regret.isel(stage=-1))


def verdict(data: Data) -> Verdict:
    """Return the verdict on whether each curve still grows in the last decade of stages."""
    regret = data["passive"]["regret"].isel(policy=0)
    horizon = int(regret["stage"][-1])
    statements, flat_rates = [], []
    for rate in map(float, regret["rate"]):
        curve_regret = regret.sel(rate=rate)
        added_share, final_estimate = (
            last_decade_growth(curve_regret),
            mean(curve_regret.isel(stage=-1)),
        )
        if rate == 0:
            statements.append(
                Statement(
                    f"Without looks, the regret of UCB is {final_estimate} and still grows: stages "
                    f"{typeset(horizon // 10)} to {typeset(horizon)} add "
                    f"{format_percent(added_share)} "
                    f"(grows: more than {format_percent(MIN_GROWTH)}).",
                    is_above(added_share, MIN_GROWTH),
                )
            )
            continue
        is_flat = is_below(added_share, MAX_FLAT_GROWTH)
        if is_flat:
            flat_rates.append(rate)
        reached_stage = first_stage_at(0.95, regret["stage"], curve_regret.mean("run"))
        statements.append(
            Statement(
                f"UCB with ε = {typeset(rate)}: regret is {final_estimate}, and the last decade of "
                "stages "
                f"adds {format_percent(added_share)} (flat: less than "
                f"{format_percent(MAX_FLAT_GROWTH)}). "
                f"It reaches 95 % at stage {typeset(reached_stage)}; the predicted order is "
                f"{typeset(plateau_stage(rate))}.",
                is_flat,
            )
        )
    active_regret = data["active"]["regret"]
    for label in map(str, active_regret["policy"].to_numpy()):
        curve_regret = active_regret.sel(policy=label)
        added_share = last_decade_growth(curve_regret)
        statements.append(
            Statement(
                f"{label}, active, ε = {typeset(ACTIVE_RATE)}: regret is "
                f"{mean(curve_regret.isel(stage=-1))}, and the last decade of stages adds "
                f"{format_percent(added_share)}.",
                is_below(added_share, MAX_FLAT_GROWTH),
            )
        )
    heights = [float(regret.sel(rate=rate).isel(stage=-1).mean()) for rate in flat_rates]
    if len(flat_rates) > 2:
        linearity = r_squared(np.log(flat_rates), heights)
        text = (
            f"The height of the plateau is linear in log(1/ε): R² = {linearity:.3f} over the "
            f"{len(flat_rates)} rates with a flat curve (at least {MIN_R_SQUARED})."
        )
        statements.append(Statement(text, linearity >= MIN_R_SQUARED))
    rates = [rate for rate in RATES if rate]
    finding = (
        f"By stage {typeset(horizon)}, regret has stopped growing at {len(flat_rates)} of "
        f"{len(rates)} "
        "rates"
        + (f", down to ε = {typeset(min(flat_rates))}" if flat_rates else "")
        + f". Without looks it is {mean(regret.sel(rate=0.0).isel(stage=-1))}."
    )
    n_bounded = sum(
        is_below(last_decade_growth(active_regret.sel(policy=name)), MAX_FLAT_GROWTH) is True
        for name in ACTIVE
    )
    summary = (
        f"at T = {typeset(horizon)}, regret is flat at {len(flat_rates)} of {len(rates)} rates "
        "(passive) "
        f"and for {n_bounded} of {len(ACTIVE)} policies (active)"
    )
    return judge(statements, summary, finding)


def draw(data: Data) -> Picture:
    """Return a figure of regret against T, and of the height of the plateau against ε."""
    regret, active_regret = (
        data[name]["regret"].sel(stage=slice(100, None)) for name in ("passive", "active")
    )
    regret = regret.isel(policy=0)
    horizon = float(regret["stage"][-1])
    labels = {
        rate: f"UCB, ε = {typeset(rate)}" if rate else "UCB, no looks" for rate in PLOTTED_RATES
    }
    predicted_stages = {rate: plateau_stage(rate) for rate in PLOTTED_RATES if rate}
    heights_at_predicted = [
        np.interp(np.log(stage), np.log(regret["stage"]), regret.sel(rate=rate).mean("run"))
        for rate, stage in predicted_stages.items()
    ]
    plateau_dots = Curve(
        "predicted plateau, 1/(2εpΔ²)",
        list(predicted_stages.values()),
        heights_at_predicted,
        kind="dots",
    )
    rates = np.array([rate for rate in RATES if rate])
    height_curve = error_bars(
        "UCB at the last stage", rates, [regret.sel(rate=rate).isel(stage=-1) for rate in rates]
    )
    plateau_curves = [height_curve]
    is_flat = [
        is_below(last_decade_growth(regret.sel(rate=rate)), MAX_FLAT_GROWTH) is True for rate in rates
    ]
    if sum(is_flat) > 2:
        coefficients = np.polyfit(np.log(rates[is_flat]), np.asarray(height_curve.y)[is_flat], 1)
        fitted_heights = np.polyval(coefficients, np.log(rates))
        plateau_curves.append(
            Curve("line through the flat curves", rates, fitted_heights, kind="reference")
        )
    x, y = "horizon T (stages)", f"regret (mean of {regret.sizes['run']} runs, band 25–75 %)"
    panels = [
        Panel(
            "Passive, uniform weights",
            x,
            y,
            [*(band(labels[rate], regret.sel(rate=rate)) for rate in PLOTTED_RATES), plateau_dots],
        ),
        Panel(
            f"Active, ε = {typeset(ACTIVE_RATE)}",
            x,
            y,
            [
                band(labels[0.0], regret.sel(rate=0.0)),
                *(band(name, active_regret.sel(policy=name)) for name in map(str, ACTIVE)),
            ],
        ),
        Panel(
            f"Height of the plateau, T = {typeset(horizon)}",
            "ε, looks per stage",
            "regret at T (bars ± 2 s.e.)",
            plateau_curves,
        ),
    ]
    alt = (
        f"Regret against the horizon from 100 to {typeset(horizon)}, without looks and with "
        "looks at several rates, passive and active, and final regret against ε. "
        + verdict(data).finding
    )
    return Picture(alt, panels, 3)
