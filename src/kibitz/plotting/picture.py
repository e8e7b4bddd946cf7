"""Figures as plain data: panels, curves and marks.

An experiment returns a `Picture`. The module `figures` draws the picture with matplotlib, and `vega`
draws it in the browser.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    import xarray

#: The colour-blind safe palette of Okabe and Ito, extended to 12 colours. The light colours are
#: darkened to a contrast of at least 3 with white.
COLOURS = (
    "#0072B2", "#D55E00", "#00875F", "#A0438B", "#A87900", "#333333", "#808080", "#1690A8",
    "#B2182B", "#5B5FC7", "#000000", "#6B7A00",
)  # fmt: skip
#: `COLOURS` for a dark background.
DARK_COLOURS = (
    "#56B4E9", "#FF8B3D", "#2FCF9B", "#E88FCB", "#F0C24B", "#F2F2F2", "#9A9DA3", "#4FD8E8",
    "#FF8A8A", "#A9ABFF", "#FFFFFF", "#C9D64A",
)  # fmt: skip
DASHES: tuple[tuple[float, ...], ...] = (
    (), (6, 2), (5, 1, 1, 1), (2, 1.5), (8, 2, 1, 2, 1, 2), (4, 1), (), (6, 2),
    (5, 1, 1, 1), (2, 1.5), (), (8, 2, 1, 2, 1, 2),
)  # fmt: skip


def choose_dashes(position: int) -> tuple[float, ...]:
    """Return the dashes at a position, or () for a solid line.

    Positions with the same colour have different dashes.
    """
    return DASHES[(position + position // len(COLOURS)) % len(DASHES)]


class Curve(NamedTuple):
    """A curve with an optional range from `low` to `high`.

    The kind is "line" (the range is a band), "points" (joined, the range is error bars), "dots" (not
    joined, the range is error bars) or "reference" (a dashed line).
    """

    label: str
    x: ArrayLike
    y: ArrayLike
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    kind: str = "line"


class Mark(NamedTuple):
    """A vertical line at x with a label above it."""

    x: float
    label: str


class Panel(NamedTuple):
    """One pair of axes, with the titles of the axes (units included) and their scales."""

    title: str
    x: str
    y: str
    curves: Sequence[Curve]
    marks: Sequence[Mark] = ()
    x_log: bool = True
    y_log: bool = False
    note: str = ""  # text below the panel


class Picture(NamedTuple):
    """Panels with a common legend, and a description for readers who cannot see them."""

    alt: str
    panels: Sequence[Panel]
    columns: int = 2

    def labels(self) -> list[str]:
        """Return the labels of all curves, lines first, dots last; the position sets the colour."""
        kinds = ("line", "points", "reference", "dots")
        curves = [curve for panel in self.panels for curve in panel.curves]
        curves.sort(key=lambda curve: kinds.index(curve.kind))
        return list(dict.fromkeys(curve.label for curve in curves))


def band(label: str, regret: "xarray.DataArray") -> Curve:
    """Return the curve of the mean regret from stage 10 on, with a band of the 25–75 % quantiles."""
    regret = regret.sel(stage=slice(10, None))
    low, high = regret.quantile([0.25, 0.75], "run").to_numpy()
    return Curve(label, regret["stage"].to_numpy(), regret.mean("run").to_numpy(), low, high)


def error_bars(label: str, x: ArrayLike, samples: Sequence[Any]) -> Curve:
    """Return the curve of sample means against x, with error bars of ± 2 standard errors.

    Each sample holds the values of all runs at one x.
    """
    run_values = [np.asarray(sample, dtype=float) for sample in samples]
    y = np.array([run_value.mean() for run_value in run_values])
    standard_errors = np.array(
        [
            run_value.std(ddof=1) / np.sqrt(run_value.size) if run_value.size > 1 else 0.0
            for run_value in run_values
        ]
    )
    return Curve(label, x, y, y - 2 * standard_errors, y + 2 * standard_errors, "points")


def profile_curve(label: str, ratios: ArrayLike, end: float) -> Curve:
    """Return a performance profile: the percentage of the ratios that are at most x, from 1 to `end`.

    Each ratio is the regret of a policy divided by the regret of the best policy in one setting.
    """
    ratio_values = np.sort(np.asarray(ratios, float))
    steps = ratio_values[ratio_values <= end]
    x = np.concatenate([[1.0], np.repeat(steps, 2), [end]])
    percentages = 100 * np.arange(steps.size + 1) / ratio_values.size
    return Curve(label, x, np.repeat(percentages, 2))


def typeset(x: float) -> str:
    """Return a number in the usual notation: 0.05, 2, 1000, 10⁴, 3·10⁻⁵."""
    if x == 0 or 0.001 <= abs(x) < 10_000:
        return f"{x:.4g}" if abs(x) >= 1000 else f"{x:.3g}"
    exponent = math.floor(math.log10(abs(x)) + 1e-9)
    mantissa = f"{x / 10**exponent:.2g}"
    superscript = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{superscript}" if mantissa == "1" else f"{mantissa}·10{superscript}"
