"""Regret of order 1/ε (FTL-robin), compared with regret of order log(1/ε) (UCB).

Source: Section 2.2, Lemma 1, and Theorem 3, without a figure.

Measured: the exponent of FTL-robin's regret as a power of ε, R² of UCB's regret as a linear function
of log(1/ε), and which of the two regrets is lower at the smallest and at the largest ε.
"""

from typing import Any

import numpy as np

from kibitz.bounds import complexity, upper
from kibitz.model.feedback import active, passive
from kibitz.model.problem import gaussian
from kibitz.plotting.picture import Curve, Panel, Picture, error_bars, typeset
from kibitz.policies.ftl import ftl_robin
from kibitz.policies.ucb import ucb
from kibitz.reproduction import Data, Files
from kibitz.reproduction.verdict import (
    Estimate,
    Statement,
    Verdict,
    is_above,
    is_below,
    is_within,
    judge,
    mean,
    r_squared,
    ratio,
    slope,
)
from kibitz.simulation.sweep import sweep

TITLE = "1/ε against log(1/ε)"
SOURCE = "Section 2.2, Lemma 1, and Theorem 3, without a figure"
CLAIM = (
    "FTL-robin, which pulls the leader and looks at the arms in turn, has bounded regret. As ε "
    "decreases, it grows like 1/ε, while the regret of UCB grows only like log(1/ε). For small ε, "
    "the regret of FTL-robin is higher."
)
#: Mean reward of each arm.
MEANS = (0.5, 0.0)
#: Number of stages, T.
HORIZON = 10**8
#: Values of ε.
RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
#: Number of runs for each ε.
RUNS = 400
MAX_RARE_RATE = 0.1  #: Largest ε in the fit of the exponent.
MAX_EXPONENT_ERROR = 0.15  #: Largest distance of the exponent from -1.
MIN_R_SQUARED = 0.95  #: Smallest R² of a straight line.


def run(file: Files, **options: Any) -> Data:
    """Simulate both policies at each rate.

    FTL-robin looks at the arms in turn; UCB looks at uniformly drawn arms.
    """
    options = {"horizon": HORIZON, "stages": [HORIZON], **options}
    problem = gaussian(MEANS)
    policies: Any = {"FTL-robin": (active, ftl_robin), "UCB": (passive, ucb)}
    return {
        label: sweep(problem, observer, policy(), rate=RATES, file=file(label), **options)
        for label, (observer, policy) in policies.items()
    }


def verdict(data: Data) -> Verdict:
    """Return the verdict on how both regrets depend on ε, and where the two curves cross."""
    ftl_regret = data["FTL-robin"]["final_regret"].isel(policy=0).transpose("run", "rate")
    ucb_regret = data["UCB"]["final_regret"].isel(policy=0).transpose("run", "rate")
    rates = ftl_regret["rate"].to_numpy()
    is_rare = rates <= MAX_RARE_RATE
    exponent = slope(np.log(rates[is_rare]), ftl_regret.isel(rate=is_rare), log=True)
    means = ucb_regret.mean("run").to_numpy()
    linear_fit = r_squared(np.log(rates), means)
    power_fit = r_squared(np.log(rates), np.log(means))
    smallest_rate, largest_rate = rates[0], rates[-1]
    factor = ratio(ftl_regret.sel(rate=smallest_rate), ucb_regret.sel(rate=smallest_rate))
    crossing = find_crossing(rates, ftl_regret.mean("run").to_numpy() - means)
    statements = [
        Statement(
            f"For ε up to {MAX_RARE_RATE:g}, the regret of FTL-robin is a power of ε with exponent "
            f"{exponent} (−1 within {MAX_EXPONENT_ERROR}).",
            is_within(Estimate(exponent.value + 1, exponent.error), MAX_EXPONENT_ERROR),
        ),
        Statement(
            f"The regret of UCB is linear in log(1/ε): R² = {linear_fit:.3f} (at least "
            f"{MIN_R_SQUARED}). A power of ε fits worse: R² = {power_fit:.3f}.",
            linear_fit >= max(MIN_R_SQUARED, power_fit),
        ),
        Statement(
            f"At ε = {typeset(smallest_rate)} the regret of FTL-robin "
            f"({mean(ftl_regret.sel(rate=smallest_rate))}) is "
            f"higher than that of UCB ({mean(ucb_regret.sel(rate=smallest_rate))}): their ratio is "
            f"{factor}.",
            is_above(factor, 1),
        ),
        Statement(
            f"At ε = {typeset(largest_rate)} the regret of FTL-robin "
            f"({mean(ftl_regret.sel(rate=largest_rate))}) is lower "
            f"than that of UCB ({mean(ucb_regret.sel(rate=largest_rate))}).",
            is_below(ratio(ftl_regret.sel(rate=largest_rate), ucb_regret.sel(rate=largest_rate)), 1),
        ),
    ]
    finding = (
        f"The regret of FTL-robin is of order ε^({exponent}). The regret of UCB is "
        f"{'' if linear_fit >= MIN_R_SQUARED else 'not '}linear in log(1/ε). The two "
        + (f"cross near ε = {typeset(crossing)}." if crossing else "do not cross.")
    )
    summary = f"FTL-robin ~ ε^({exponent}); UCB linear in log(1/ε) with R² = {linear_fit:.3f}"
    return judge(statements, summary, finding)


def find_crossing(rates: Any, difference: Any) -> float | None:
    """Return the largest rate at which a difference changes sign; None if its sign is constant.

    The rate is interpolated in log ε.
    """
    changes = np.flatnonzero(np.diff(np.sign(difference)))
    if not changes.size:
        return None
    index = int(changes[-1])
    share = difference[index] / (difference[index] - difference[index + 1])
    log_rate = (1 - share) * np.log(rates[index]) + share * np.log(rates[index + 1])
    return float(f"{np.exp(log_rate):.2g}")


def draw(data: Data) -> Picture:
    """Return a figure of both regrets against ε with fitted curves, and of UCB on a linear axis."""
    rates = np.array(RATES)
    final_regret = {label: part["final_regret"].isel(policy=0) for label, part in data.items()}
    ftl_curve, ucb_curve = (
        error_bars(label, rates, [policy_regret.sel(rate=rate) for rate in RATES])
        for label, policy_regret in final_regret.items()
    )
    scale = float(np.exp(np.mean(np.log(np.asarray(ftl_curve.y) * rates))))
    bound_values: Any = upper.ftl_robin(complexity.gaps(MEANS), rates)
    fit = np.polyval(np.polyfit(np.log(rates), np.asarray(ucb_curve.y), 1), np.log(rates))
    y = f"regret at T (mean of {final_regret['UCB'].sizes['run']} runs, bars ± 2 s.e.)"
    both_curves = [
        ftl_curve,
        ucb_curve,
        Curve(f"{scale:.2g}/ε, fitted", rates, scale / rates, kind="reference"),
        Curve("proved bound of FTL-robin", rates, bound_values, kind="reference"),
    ]
    title = f"Two arms, Δ = {MEANS[0] - MEANS[1]:g}, T = {typeset(HORIZON)}"
    fitted_line = Curve("line in log(1/ε), fitted", rates, fit, kind="reference")
    panels = [
        Panel(title, "ε, looks per stage", y, both_curves, y_log=True),
        Panel("UCB alone, linear axis", "ε, looks per stage", y, [ucb_curve, fitted_line]),
    ]
    alt = (
        "Final regret of FTL-robin and of UCB against ε on double logarithmic axes, and of UCB on a "
        "linear axis. " + verdict(data).finding
    )
    return Picture(alt, panels, 2)
