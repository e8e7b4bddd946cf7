"""The threshold ε* = K/(T Δ²), from which on looks matter.

Of the paper: Section 4.2.1 (claimed, not drawn).

Concluded: in each setting, whether looks save nothing far below ε* and much far above; and whether
the rates at which they begin to are within a factor 10 of ε* in all settings.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from kibitz.bounds import complexity
from kibitz.model.feedback import passive
from kibitz.model.problem import gaussian
from kibitz.plotting.picture import Curve, Mark, Panel, Picture
from kibitz.policies.ucb import ucb
from kibitz.reproduction import Data, Files
from kibitz.reproduction.verdict import (
    Statement,
    Verdict,
    above,
    all_of,
    judge,
    percent,
    saving,
    within,
)
from kibitz.simulation.sweep import sweep

if TYPE_CHECKING:
    import xarray

TITLE = "The threshold ε*"
PAPER = "Section 4.2.1 (claimed, not drawn)"
CLAIM = (
    "With K arms of equal gap Δ, looks begin to matter by stage T when their rate passes "
    "ε* = K/(TΔ²): much rarer ones do not help, more frequent ones do, whatever K, Δ and T are."
)
#: K, Δ and T by the label of their curve.
SETTINGS = {
    "K = 5, Δ = 0.5, T = 10³": (5, 0.5, 1_000),
    "K = 5, Δ = 0.5, T = 10⁴": (5, 0.5, 10_000),
    "K = 5, Δ = 0.5, T = 10⁵": (5, 0.5, 100_000),
    "K = 5, Δ = 1, T = 10⁴": (5, 1.0, 10_000),
    "K = 20, Δ = 0.5, T = 10⁴": (20, 0.5, 10_000),
}
#: ε/ε*; 0 is without looks.
RELATIVE = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
BELOW = 0.1  #: The ε/ε* of looks that are much rarer.
#: Runs of each setting.
RUNS = 200
NOTHING = 0.05  #: Looks that save a smaller share of the regret do not matter.
MUCH = 0.20  #: Looks that save a larger one do.
MATTERS = 0.10  #: The share, in between, from which on they begin to.


def run(file: Files, **options: Any) -> Data:
    """Play UCB as a passive observer, uniform weights, at multiples of ε*."""
    data = {}
    for n, (label, (n_arms, gap, horizon)) in enumerate(SETTINGS.items(), 1):
        means = [gap] + [0.0] * (n_arms - 1)
        star = complexity.rate_star(complexity.gaps(means), horizon)
        data[label] = sweep(
            gaussian(means), lambda relative, star=star: passive(relative * star), ucb(),
            relative=RELATIVE, horizon=horizon, stages=[horizon], file=file(str(n)), **options,
        )  # fmt: skip
    return data


def savings(part: "xarray.Dataset") -> dict[float, Any]:
    """Return the share of the regret that looks save, for each multiple of ε*."""
    final = part["final_regret"].isel(policy=0)
    without = final.sel(relative=0.0)
    return {x: saving(final.sel(relative=x), without) for x in map(float, final["relative"]) if x > 0}


def onset(saved: dict[float, Any]) -> float:
    """Return the multiple of ε* at which looks save `MATTERS`, by interpolation in log ε.

    0 if they do at the first, infinite if they do at none.
    """
    x, y = np.array(list(saved)), np.array([one.value for one in saved.values()])
    after = np.flatnonzero(y >= MATTERS)
    if not after.size or after[0] == 0:
        return 0.0 if after.size else math.inf
    n = int(after[0])
    share = (MATTERS - y[n - 1]) / (y[n] - y[n - 1])
    return float(np.exp((1 - share) * np.log(x[n - 1]) + share * np.log(x[n])))


def verdict(data: Data) -> Verdict:
    """Judge the saving far below and far above ε* in each setting."""
    statements, onsets = [], []
    for label, part in data.items():
        saved = savings(part)
        few, many = BELOW, max(saved)
        onsets.append(onset(saved))
        statements.append(
            Statement(
                f"{label}: at {few:g} ε* looks save {percent(saved[few])} (nothing: less than "
                f"{NOTHING:.0%}), at {many:g} ε* {percent(saved[many])} (much: more than "
                f"{MUCH:.0%}); they save {MATTERS:.0%} at {onsets[-1]:.2g} ε*.",
                all_of([within(saved[few], NOTHING), above(saved[many], MUCH)]),
            )
        )
    low, high = min(onsets), max(onsets)
    statements.append(
        Statement(
            f"Looks save {MATTERS:.0%} between {low:.2g} ε* and {high:.2g} ε* in all settings "
            f"(within a factor 10 of ε*), while ε* itself varies by a factor {_spread():.3g}.",
            0.1 <= low <= high <= 10,
        )
    )
    sentence = (
        f"Looks begin to matter (save {MATTERS:.0%}) between {low:.2g} ε* and {high:.2g} ε*, over "
        f"settings whose ε* differ by a factor {_spread():.3g}."
    )
    short = f"looks save {MATTERS:.0%} from {low:.2g} to {high:.2g} ε*, in {len(data)} settings"
    return judge(statements, short, sentence)


def _spread() -> float:
    stars = [n_arms / (horizon * gap**2) for n_arms, gap, horizon in SETTINGS.values()]
    return max(stars) / min(stars)


def draw(data: Data) -> Picture:
    """Draw the regret as a share of that without looks, against ε and against ε/ε*."""
    absolute, relative = [], []
    for label, part in data.items():
        n_arms, gap, horizon = SETTINGS[label]
        star = n_arms / (horizon * gap**2)
        saved = savings(part)
        x = np.array(list(saved))
        y = np.array([100 * (1 - one.value) for one in saved.values()])
        error = np.array([100 * one.error for one in saved.values()])
        absolute.append(Curve(label, x * star, y, y - 2 * error, y + 2 * error, "points"))
        relative.append(Curve(label, x, y, y - 2 * error, y + 2 * error, "points"))
    runs = next(iter(data.values())).sizes["run"]
    words = f"regret at T, % of that without looks\n(mean of {runs} runs, bars ± 2 s.e.)"
    panels = [
        Panel("Against ε", "ε, looks per stage", words, absolute),
        Panel("In units of ε*", "ε/ε*", words, relative, [Mark(1.0, "ε*")]),
    ]
    alt = (
        f"Regret of UCB relative to that without looks in {len(data)} settings, against ε and "
        "against ε/ε*. " + verdict(data).sentence
    )
    return Picture(alt, panels, 2)
