"""The 1/ε of FTL-robin against the log(1/ε) of UCB.

Of the paper: Section 2.2, Lemma 1, and Theorem 3 (claimed, not drawn).

Concluded: the exponent of FTL-robin's regret as a power of ε, the R² of UCB's as a line in log(1/ε),
and which of the two is better at the smallest and at the largest ε.
"""

from typing import Any

import numpy as np

from kibitz.bounds import complexity, upper
from kibitz.model.feedback import active, passive
from kibitz.model.problem import gaussian
from kibitz.plotting.picture import Curve, Panel, Picture, bars, typeset
from kibitz.policies.ftl import ftl_robin
from kibitz.policies.ucb import ucb
from kibitz.reproduction import Data, Files
from kibitz.reproduction.verdict import (
    Estimate,
    Statement,
    Verdict,
    above,
    below,
    judge,
    mean,
    r_squared,
    ratio,
    slope,
    within,
)
from kibitz.simulation.sweep import sweep

TITLE = "1/ε against log(1/ε)"
PAPER = "Section 2.2, Lemma 1, and Theorem 3 (claimed, not drawn)"
CLAIM = (
    "Following the leader and looking in turn keeps the regret bounded, but it grows like 1/ε as "
    "looks get rare; that of UCB grows only like log(1/ε). Once ε is small, the naive policy is "
    "the worse one."
)
#: Mean reward of each arm.
MEANS = (0.5, 0.0)
#: Stages, T.
HORIZON = 10**8
#: ε.
RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
#: Runs of each setting.
RUNS = 400
RARE = 0.1  #: Looks are rare up to this ε.
NEAR = 0.15  #: How far from -1 the exponent of 1/ε may be.
STRAIGHT = 0.95  #: The least R² of a line.


def run(file: Files, **options: Any) -> Data:
    """Play both at each rate: FTL-robin looks in turn, UCB at an arm drawn uniformly."""
    options = {"horizon": HORIZON, "stages": [HORIZON], **options}
    problem = gaussian(MEANS)
    players: Any = {"FTL-robin": (active, ftl_robin), "UCB": (passive, ucb)}
    return {
        label: sweep(problem, observer, policy(), rate=RATES, file=file(label), **options)
        for label, (observer, policy) in players.items()
    }


def verdict(data: Data) -> Verdict:
    """Measure both dependencies on ε, and where the two regrets cross."""
    ftl = data["FTL-robin"]["final_regret"].isel(policy=0).transpose("run", "rate")
    other = data["UCB"]["final_regret"].isel(policy=0).transpose("run", "rate")
    rates = ftl["rate"].to_numpy()
    rare = rates <= RARE
    steep = slope(np.log(rates[rare]), ftl.isel(rate=rare), log=True)
    means = other.mean("run").to_numpy()
    straight = r_squared(np.log(rates), means)
    bent = r_squared(np.log(rates), np.log(means))
    small, large = rates[0], rates[-1]
    order = ratio(ftl.sel(rate=small), other.sel(rate=small))
    crossing = cross(rates, ftl.mean("run").to_numpy() - other.mean("run").to_numpy())
    statements = [
        Statement(
            f"For ε up to {RARE:g}, FTL-robin goes like a power of ε with exponent {steep} "
            f"(−1 within {NEAR}).",
            within(Estimate(steep.value + 1, steep.error), NEAR),
        ),
        Statement(
            f"UCB is a straight line in log(1/ε): R² = {straight:.3f} (at least {STRAIGHT}), and a "
            f"better one than a power of ε would be: R² = {bent:.3f}.",
            straight >= max(STRAIGHT, bent),
        ),
        Statement(
            f"At ε = {typeset(small)} FTL-robin has {mean(ftl.sel(rate=small))} and UCB "
            f"{mean(other.sel(rate=small))}: {order} times as much.",
            above(order, 1),
        ),
        Statement(
            f"At ε = {typeset(large)} FTL-robin is the better one: {mean(ftl.sel(rate=large))} "
            f"against {mean(other.sel(rate=large))}.",
            below(ratio(ftl.sel(rate=large), other.sel(rate=large)), 1),
        ),
    ]
    where = f"They cross near ε = {typeset(crossing)}." if crossing else "They do not cross."
    sentence = (
        f"FTL-robin's regret goes like ε to the power {steep}, UCB's is "
        f"{'' if straight >= STRAIGHT else 'not '}linear in log(1/ε). {where}"
    )
    short = f"FTL-robin ~ ε^({steep}), UCB linear in log(1/ε) with R² = {straight:.3f}"
    return judge(statements, short, sentence)


def cross(rates: Any, difference: Any) -> float | None:
    """Return the largest rate at which a difference changes sign, by interpolation in log ε."""
    signs = np.flatnonzero(np.diff(np.sign(difference)))
    if not signs.size:
        return None
    n = int(signs[-1])
    share = difference[n] / (difference[n] - difference[n + 1])
    log = (1 - share) * np.log(rates[n]) + share * np.log(rates[n + 1])
    return float(f"{np.exp(log):.2g}")


def draw(data: Data) -> Picture:
    """Draw both regrets against ε, with power laws to compare, and UCB on a linear axis."""
    rates = np.array(RATES)
    final = {label: part["final_regret"].isel(policy=0) for label, part in data.items()}
    ftl, other = (
        bars(label, rates, [one.sel(rate=rate) for rate in RATES]) for label, one in final.items()
    )
    scale = float(np.exp(np.mean(np.log(np.asarray(ftl.y) * rates))))
    bound: Any = upper.ftl_robin(complexity.gaps(MEANS), rates)
    fit = np.polyval(np.polyfit(np.log(rates), np.asarray(other.y), 1), np.log(rates))
    y = f"regret at T (mean of {final['UCB'].sizes['run']}, bars ± 2 s.e.)"
    both = [
        ftl,
        other,
        Curve(f"{scale:.2g}/ε, fitted", rates, scale / rates, kind="reference"),
        Curve("proved bound of FTL-robin", rates, bound, kind="reference"),
    ]
    title = f"Two arms, Δ = {MEANS[0] - MEANS[1]:g}, T = {typeset(HORIZON)}"
    line = Curve("line in log(1/ε), fitted", rates, fit, kind="reference")
    panels = [
        Panel(title, "ε, looks per stage", y, both, y_log=True),
        Panel("UCB alone, linear axis", "ε, looks per stage", y, [other, line]),
    ]
    alt = (
        "Final regret of FTL-robin and of UCB against ε on double logarithmic axes, and of UCB on a "
        "linear axis. " + verdict(data).sentence
    )
    return Picture(alt, panels, 2)
