"""The threshold ε* = K/(T Δ²) above which looks lower the regret.

Source: Section 4.2.1, without a figure.

Measured: in each setting, whether looks leave the regret unchanged far below ε* and clearly lower the
regret far above ε*; and whether, in all settings, the rate at which looks begin to lower the regret
is within a factor 10 of ε*.
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
    all_hold,
    format_percent,
    is_above,
    is_within,
    judge,
    saving,
)
from kibitz.simulation.sweep import sweep

if TYPE_CHECKING:
    import xarray

TITLE = "The threshold ε*"
SOURCE = "Section 4.2.1, without a figure"
CLAIM = (
    "With K arms of equal gap Δ, looks lower the regret at stage T only if their rate exceeds "
    "ε* = K/(TΔ²), for all K, Δ and T."
)
#: K, Δ and T, by the label of their curve.
SETTINGS = {
    "K = 5, Δ = 0.5, T = 10³": (5, 0.5, 1_000),
    "K = 5, Δ = 0.5, T = 10⁴": (5, 0.5, 10_000),
    "K = 5, Δ = 0.5, T = 10⁵": (5, 0.5, 100_000),
    "K = 5, Δ = 1, T = 10⁴": (5, 1.0, 10_000),
    "K = 20, Δ = 0.5, T = 10⁴": (20, 0.5, 10_000),
}
#: Values of ε/ε*; 0 means no looks.
RELATIVE_RATES = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
LOW_RELATIVE_RATE = 0.1  #: The ε/ε* at which looks must not lower the regret.
#: Number of runs for each ε.
RUNS = 200
MAX_UNCHANGED = 0.05  #: Largest relative change of an unchanged regret.
MIN_REDUCTION = 0.20  #: Smallest relative reduction of a clearly lower regret.
ONSET_REDUCTION = 0.10  #: Relative reduction at which looks begin to matter.


def run(file: Files, **options: Any) -> Data:
    """Simulate UCB as a passive observer with uniform weights at multiples of ε*."""
    data = {}
    for n, (label, (n_arms, gap, horizon)) in enumerate(SETTINGS.items(), 1):
        means = [gap] + [0.0] * (n_arms - 1)
        rate_star = complexity.rate_star(complexity.gaps(means), horizon)
        data[label] = sweep(
            gaussian(means), lambda relative, rate_star=rate_star: passive(relative * rate_star),
            ucb(), relative=RELATIVE_RATES, horizon=horizon, stages=[horizon], file=file(str(n)),
            **options,
        )  # fmt: skip
    return data


def reductions(setting_data: "xarray.Dataset") -> dict[float, Any]:
    """Return the relative reduction of regret by looks, for each multiple of ε*."""
    final_regret = setting_data["final_regret"].isel(policy=0)
    regret_without_looks = final_regret.sel(relative=0.0)
    return {
        relative_rate: saving(final_regret.sel(relative=relative_rate), regret_without_looks)
        for relative_rate in map(float, final_regret["relative"])
        if relative_rate > 0
    }


def onset(reductions_by_rate: dict[float, Any]) -> float:
    """Return the multiple of ε* at which looks lower the regret by `ONSET_REDUCTION`.

    The multiple is interpolated in log ε. It is 0 if looks at the smallest simulated rate already
    give this reduction, and infinite if looks at no simulated rate give this reduction.
    """
    relative_rates, values = (
        np.array(list(reductions_by_rate)),
        np.array([reduction.value for reduction in reductions_by_rate.values()]),
    )
    reached_indices = np.flatnonzero(values >= ONSET_REDUCTION)
    if not reached_indices.size or reached_indices[0] == 0:
        return 0.0 if reached_indices.size else math.inf
    n = int(reached_indices[0])
    share = (ONSET_REDUCTION - values[n - 1]) / (values[n] - values[n - 1])
    return float(
        np.exp((1 - share) * np.log(relative_rates[n - 1]) + share * np.log(relative_rates[n]))
    )


def verdict(data: Data) -> Verdict:
    """Return the verdict on the reduction of regret far below and far above ε*, in each setting."""
    statements, onsets = [], []
    for label, setting_data in data.items():
        reductions_by_rate = reductions(setting_data)
        reduction_at_low_rate, reduction_at_high_rate = (
            reductions_by_rate[LOW_RELATIVE_RATE],
            reductions_by_rate[max(reductions_by_rate)],
        )
        onsets.append(onset(reductions_by_rate))
        statements.append(
            Statement(
                f"{label}: looks lower the regret by {format_percent(reduction_at_low_rate)} "
                f"at {LOW_RELATIVE_RATE:g} ε* "
                f"(unchanged: within {format_percent(MAX_UNCHANGED)}) and by "
                f"{format_percent(reduction_at_high_rate)} "
                f"at {max(reductions_by_rate):g} ε* (clearly lower: more than "
                f"{format_percent(MIN_REDUCTION)}). They lower it by "
                f"{format_percent(ONSET_REDUCTION)} at {onsets[-1]:.2g} ε*.",
                all_hold(
                    [
                        is_within(reduction_at_low_rate, MAX_UNCHANGED),
                        is_above(reduction_at_high_rate, MIN_REDUCTION),
                    ]
                ),
            )
        )
    first_onset, last_onset = min(onsets), max(onsets)
    statements.append(
        Statement(
            f"The rate at which looks lower the regret by {format_percent(ONSET_REDUCTION)} is "
            f"between {first_onset:.2g} ε* and {last_onset:.2g} ε* in all settings (within a factor "
            "10 of ε*), "
            f"while ε* itself varies by a factor {_compute_spread():.3g}.",
            0.1 <= first_onset <= last_onset <= 10,
        )
    )
    finding = (
        f"Looks begin to lower the regret (by {format_percent(ONSET_REDUCTION)}) between "
        f"{first_onset:.2g} "
        f"ε* and {last_onset:.2g} ε*, in settings whose ε* differ by a factor "
        f"{_compute_spread():.3g}."
    )
    summary = (
        f"regret is lower by {format_percent(ONSET_REDUCTION)} from {first_onset:.2g} to "
        f"{last_onset:.2g} ε* on, "
        f"in {len(data)} settings"
    )
    return judge(statements, summary, finding)


def _compute_spread() -> float:
    thresholds = [n_arms / (horizon * gap**2) for n_arms, gap, horizon in SETTINGS.values()]
    return max(thresholds) / min(thresholds)


def draw(data: Data) -> Picture:
    """Return a figure of regret relative to the regret without looks, against ε and against ε/ε*."""
    absolute_curves, relative_curves = [], []
    for label, setting_data in data.items():
        n_arms, gap, horizon = SETTINGS[label]
        rate_star = n_arms / (horizon * gap**2)
        reductions_by_rate = reductions(setting_data)
        x = np.array(list(reductions_by_rate))
        y = np.array([100 * (1 - reduction.value) for reduction in reductions_by_rate.values()])
        error = np.array([100 * reduction.error for reduction in reductions_by_rate.values()])
        absolute_curves.append(Curve(label, x * rate_star, y, y - 2 * error, y + 2 * error, "points"))
        relative_curves.append(Curve(label, x, y, y - 2 * error, y + 2 * error, "points"))
    runs = next(iter(data.values())).sizes["run"]
    y_title = f"regret at T, % of that without looks\n(mean of {runs} runs, bars ± 2 s.e.)"
    panels = [
        Panel("Against ε", "ε, looks per stage", y_title, absolute_curves),
        Panel("In units of ε*", "ε/ε*", y_title, relative_curves, [Mark(1.0, "ε*")]),
    ]
    alt = (
        f"Regret of UCB relative to its regret without looks in {len(data)} settings, against ε and "
        "against ε/ε*. " + verdict(data).finding
    )
    return Picture(alt, panels, 2)
