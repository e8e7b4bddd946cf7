"""Regret that stays bounded for ever, against regret that grows with log T.

Of the paper: Sections 1 and 4 (claimed, not drawn).

Concluded: of each curve, whether the last decade of stages still added to it; of the plateaus,
whether their height is a line in log(1/ε) (R²).
"""

from typing import Any

import numpy as np

from kibitz.model.feedback import active, passive
from kibitz.model.problem import gaussian
from kibitz.plotting.picture import Curve, Panel, Picture, band, bars, typeset
from kibitz.policies.etc_ocucb import etc_ocucb
from kibitz.policies.ftl import ftl_robin
from kibitz.policies.ucb import ucb, ucb_double
from kibitz.reproduction import Data, Files
from kibitz.reproduction.verdict import (
    Estimate,
    Statement,
    Verdict,
    above,
    below,
    judge,
    mean,
    percent,
    r_squared,
    reached,
    saving,
)
from kibitz.simulation.simulate import simulate
from kibitz.simulation.sweep import sweep

TITLE = "Bounded for ever"
PAPER = "Sections 1 and 4 (claimed, not drawn)"
CLAIM = (
    "However rare, looks keep the regret bounded for ever, by a multiple of log(1/ε), for passive "
    "and for active observers; without looks it grows like log T."
)
ENGINE = "leap"  #: Stage by stage ("step") 10⁶ stages are feasible.
HORIZON = 10**12  #: Stages, T.
#: Mean reward of each arm.
MEANS = (2.0, 1.8, 0.5, 0.2)
#: ε of the passive observer with uniform weights; 0 is without looks.
RATES = (0.0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
#: The ε that are drawn.
SHOWN = (0.0, 1e-4, 1e-3, 1e-2, 1e-1)
#: ε of the active observer.
ACTIVE_RATE = 0.1
ACTIVE: Any = {"UCB1-Double": ucb_double, "ETC-OCUCB": etc_ocucb, "FTL-robin": ftl_robin}
#: Runs of each setting.
RUNS = 32
#: The share of the final regret in the last decade of stages below which it no longer grows.
FLAT = 0.01
GROWS = 0.05  #: And above which it does.
STRAIGHT = 0.95  #: The least R² of a line.


def run(file: Files, **options: Any) -> Data:
    """Play UCB at each rate as a passive observer, and the active algorithms."""
    per_decade = np.geomspace(1, HORIZON, 10 * round(np.log10(HORIZON)) + 1)
    stages = np.unique(per_decade.round().astype(np.int64))
    problem = gaussian(MEANS)
    options = {"horizon": HORIZON, "stages": stages, "engine": ENGINE, **options}
    return {
        "passive": sweep(
            problem, passive, ucb(), rate=RATES, file=file("passive"), **options
        ),
        "active": simulate(
            problem, active(ACTIVE_RATE), {name: make() for name, make in ACTIVE.items()},
            file=file("active"), **options,
        ),
    }  # fmt: skip


def plateau_stage(rate: float) -> float:
    """Return the stage by which regret should be flat, max_i 1/(2 ε p_i Δ_i²)."""
    gaps = gaussian(MEANS).gaps
    return float(1 / (2 * rate * gaps[gaps > 0].min() ** 2 / gaps.size))


def last_decade(regret: Any) -> Estimate:
    """Return the share of the final regret that the last decade of stages brought."""
    horizon = int(regret["stage"][-1])
    return saving(regret.sel(stage=horizon // 10, method="nearest"), regret.isel(stage=-1))


def verdict(data: Data) -> Verdict:
    """Ask of each curve whether the last decade of stages still added to it."""
    regret = data["passive"]["regret"].isel(policy=0)
    horizon = int(regret["stage"][-1])
    statements, flat = [], []
    for rate in map(float, regret["rate"]):
        one = regret.sel(rate=rate)
        added, final = last_decade(one), mean(one.isel(stage=-1))
        if rate == 0:
            statements.append(
                Statement(
                    f"Without looks UCB is at {final} and still grows: stages "
                    f"{typeset(horizon // 10)} to {typeset(horizon)} added {percent(added)} "
                    f"(grows: more than {GROWS:.0%}).",
                    above(added, GROWS),
                )
            )
            continue
        holds = below(added, FLAT)
        if holds:
            flat.append(rate)
        stage = reached(regret["stage"], one.mean("run"), 0.95)
        statements.append(
            Statement(
                f"UCB with ε = {typeset(rate)}: {final}, to which the last decade of stages added "
                f"{percent(added)} (flat: less than {FLAT:.0%}); 95 % was reached at stage "
                f"{typeset(stage)}, the predicted scale is {typeset(plateau_stage(rate))}.",
                holds,
            )
        )
    others = data["active"]["regret"]
    for label in map(str, others["policy"].to_numpy()):
        added = last_decade(others.sel(policy=label))
        statements.append(
            Statement(
                f"{label}, active, ε = {typeset(ACTIVE_RATE)}: "
                f"{mean(others.sel(policy=label).isel(stage=-1))}, to which the last decade of "
                f"stages added {percent(added)}.",
                below(added, FLAT),
            )
        )
    heights = [float(regret.sel(rate=rate).isel(stage=-1).mean()) for rate in flat]
    if len(flat) > 2:
        straight = r_squared(np.log(flat), heights)
        text = (
            f"The height of the plateau is a straight line in log(1/ε): R² = {straight:.3f} over the "
            f"{len(flat)} rates that are flat (at least {STRAIGHT})."
        )
        statements.append(Statement(text, straight >= STRAIGHT))
    rates = [rate for rate in RATES if rate]
    sentence = (
        f"By stage {typeset(horizon)} regret has stopped growing at {len(flat)} of {len(rates)} rates"
        + (f", down to ε = {typeset(min(flat))}" if flat else "")
        + f"; without looks it is at {mean(regret.sel(rate=0.0).isel(stage=-1))} and grows."
    )
    bounded = [str(name) for name in ACTIVE if below(last_decade(others.sel(policy=name)), FLAT)]
    short = (
        f"at T = {typeset(horizon)} flat at {len(flat)} of {len(rates)} rates; active: "
        f"{len(bounded)} of {len(ACTIVE)} policies; without looks it grows"
    )
    return judge(statements, short, sentence)


def draw(data: Data) -> Picture:
    """Draw regret against T, passive and active, and the plateau against ε."""
    regret, others = (
        data[name]["regret"].sel(stage=slice(100, None)) for name in ("passive", "active")
    )
    regret = regret.isel(policy=0)
    horizon = float(regret["stage"][-1])
    label = {rate: f"UCB, ε = {typeset(rate)}" if rate else "UCB, no looks" for rate in SHOWN}
    predicted = {rate: plateau_stage(rate) for rate in SHOWN if rate}
    there = [
        np.interp(np.log(stage), np.log(regret["stage"]), regret.sel(rate=rate).mean("run"))
        for rate, stage in predicted.items()
    ]
    dots = Curve("predicted plateau, 1/(2εpΔ²)", list(predicted.values()), there, kind="dots")
    rates = np.array([rate for rate in RATES if rate])
    heights = bars(
        "UCB at the last stage", rates, [regret.sel(rate=rate).isel(stage=-1) for rate in rates]
    )
    last = [heights]
    flat = [below(last_decade(regret.sel(rate=rate)), FLAT) is True for rate in rates]
    if sum(flat) > 2:
        line = np.polyfit(np.log(rates[flat]), np.asarray(heights.y)[flat], 1)
        through = np.polyval(line, np.log(rates))
        last.append(Curve("line through those that are flat", rates, through, kind="reference"))
    x, y = "horizon T (stages)", f"regret (mean of {regret.sizes['run']}, band 25–75 %)"
    panels = [
        Panel(
            "Passive, uniform weights",
            x,
            y,
            [*(band(label[rate], regret.sel(rate=rate)) for rate in SHOWN), dots],
        ),
        Panel(
            f"Active, ε = {typeset(ACTIVE_RATE)}",
            x,
            y,
            [
                band(label[0.0], regret.sel(rate=0.0)),
                *(band(name, others.sel(policy=name)) for name in map(str, ACTIVE)),
            ],
        ),
        Panel(
            f"Height of the plateau, T = {typeset(horizon)}",
            "ε, looks per stage",
            "regret at T (bars ± 2 s.e.)",
            last,
        ),
    ]
    alt = (
        f"Regret against the horizon from 100 to {typeset(horizon)}, without looks and with "
        "looks at several rates, passive and active, and the final regret against ε. "
        + verdict(data).sentence
    )
    return Picture(alt, panels, 3)
