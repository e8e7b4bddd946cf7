"""Figures, by matplotlib and nowhere else.

An experiment says what to draw as plain data, a `Picture`; `figure` draws it here on paper, and
`report` draws the same picture in the browser.
"""

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib
import numpy as np
from numpy.typing import ArrayLike

from kibitz.files import write_whole

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Okabe and Ito's colours, told apart by colour-blind readers too; the light ones darkened so that
#: each has a contrast of 3 or more with white.
COLOURS = (
    "#0072B2", "#D55E00", "#00875F", "#A0438B", "#A87900", "#333333", "#808080", "#1690A8",
    "#B2182B", "#5B5FC7", "#000000", "#6B7A00",
)  # fmt: skip
DASHES: tuple[tuple[float, ...], ...] = (
    (), (6, 2), (5, 1, 1, 1), (2, 1.5), (8, 2, 1, 2, 1, 2), (4, 1), (), (6, 2),
    (5, 1, 1, 1), (2, 1.5), (), (8, 2, 1, 2, 1, 2),
)  # fmt: skip
MARKERS = "os^DvPX*o<s>"
LINES = ("-", "--", "-.", ":")

STYLE: Any = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "grid.alpha": 0.25,
    "font.size": 9.5,
    "legend.frameon": False,
    "legend.handlelength": 3.0,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 160,
    "svg.hashsalt": "kibitz",
    "svg.fonttype": "path",
    "path.simplify_threshold": 0.5,
}


class Curve(NamedTuple):
    """A curve: `line` (with a band), `points` (with bars), `dots` or `reference` (dashed)."""

    label: str
    x: ArrayLike
    y: ArrayLike
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    kind: str = "line"


class Mark(NamedTuple):
    """A vertical line at x with a few letters above it."""

    x: float
    label: str


class Panel(NamedTuple):
    """One pair of axes. Words with their units; a logarithmic axis unless said otherwise."""

    title: str
    x: str
    y: str
    curves: Sequence[Curve]
    marks: Sequence[Mark] = ()
    x_log: bool = True
    y_log: bool = False
    note: str = ""  # a few words below: which bounds are vacuous, for instance


class Picture(NamedTuple):
    """Panels that share their labels, and what they show in words, for those who cannot see it."""

    alt: str
    panels: Sequence[Panel]
    columns: int = 2

    def labels(self) -> list[str]:
        """Return each label once, lines first, dots last; its place is its colour."""
        kinds = ("line", "points", "reference", "dots")
        curves = [curve for panel in self.panels for curve in panel.curves]
        curves.sort(key=lambda curve: kinds.index(curve.kind))
        return list(dict.fromkeys(curve.label for curve in curves))


def band(label: str, regret: "xarray.DataArray") -> Curve:
    """Return mean regret against the stage, from the tenth, with a band from 25 to 75 %."""
    regret = regret.sel(stage=slice(10, None))
    low, high = regret.quantile([0.25, 0.75], "run").to_numpy()
    return Curve(label, regret["stage"].to_numpy(), regret.mean("run").to_numpy(), low, high)


def bars(label: str, x: ArrayLike, samples: Sequence[Any]) -> Curve:
    """Return the mean of each sample of runs against x, with bars of ± 2 standard errors."""
    values = [np.asarray(sample, dtype=float) for sample in samples]
    y = np.array([value.mean() for value in values])
    error = np.array(
        [value.std(ddof=1) / np.sqrt(value.size) if value.size > 1 else 0.0 for value in values]
    )
    return Curve(label, x, y, y - 2 * error, y + 2 * error, "points")


def figure(picture: Picture) -> "Figure":
    """Draw a picture."""
    from matplotlib.figure import Figure

    columns = min(picture.columns, len(picture.panels))
    rows = -(-len(picture.panels) // columns)
    labels = picture.labels()
    longest = max(len(label) for label in labels)
    marked = any(panel.marks for panel in picture.panels)
    noted = max(panel.note.count("\n") + bool(panel.note) for panel in picture.panels)
    width = 6.6 if columns == 1 else 4.5 * columns
    across = max(1, min(len(labels), int(width * 12 // (longest + 8))))
    lines = -(-len(labels) // across)
    with matplotlib.rc_context(STYLE):
        drawn = Figure(figsize=(width, (3.3 + 0.16 * noted) * rows + 0.22 * lines + 0.1))
        grid = drawn.subplots(rows, columns, squeeze=False)
        handles: dict[str, Any] = {}
        for axes, panel in zip(grid.flat, picture.panels, strict=False):
            draw_panel(axes, panel, labels, handles)
            axes.set_title(panel.title, pad=16 if marked else 6)
        for axes in grid.flat[len(picture.panels) :]:
            axes.set_axis_off()
        drawn.legend(
            [handles[label] for label in labels], labels, loc="outside lower center", ncols=across
        )
        drawn.draw_without_rendering()
        drawn.set_layout_engine("none")  # the layout is found once, not again for each file
    return drawn


def draw_panel(axes: "Axes", panel: Panel, labels: list[str], handles: dict[str, Any]) -> None:
    """Draw a panel into its axes."""
    from matplotlib.ticker import LogLocator, NullLocator

    for curve in panel.curves:
        place = labels.index(curve.label)
        colour = COLOURS[place % len(COLOURS)]
        x, y = np.asarray(curve.x, float), np.asarray(curve.y, float)
        bar: Any = None
        drawn: Any
        if curve.low is not None and curve.high is not None:
            low, high = np.asarray(curve.low, float), np.asarray(curve.high, float)
            if curve.kind == "points":
                bar = np.maximum(np.stack([y - low, high - y]), 0)
            else:
                axes.fill_between(x, low, high, color=colour, alpha=0.10, linewidth=0, zorder=1)
        dash = DASHES[place % len(DASHES)]
        if curve.kind == "points":
            drawn = axes.errorbar(
                x, y, bar, color=colour, marker=MARKERS[place % len(MARKERS)], markersize=4,
                linewidth=1.0, elinewidth=0.8, capsize=2, zorder=4, dashes=dash or (1, 0),
            )  # fmt: skip
        elif curve.kind == "dots":
            (drawn,) = axes.plot(
                x, y, color=colour, marker=MARKERS[place % len(MARKERS)], linestyle="none", zorder=5
            )
        elif curve.kind == "reference":
            (drawn,) = axes.plot(x, y, color=colour, linewidth=1.3, dashes=(5, 3), zorder=3)
        else:
            (drawn,) = axes.plot(x, y, color=colour, linewidth=1.8, dashes=dash or (1, 0), zorder=4)
        handles.setdefault(curve.label, drawn)
    for axis, scale, log in (
        (axes.xaxis, axes.set_xscale, panel.x_log),
        (axes.yaxis, axes.set_yscale, panel.y_log),
    ):
        scale("log" if log else "linear")
        if log:
            first, last = axis.get_view_interval()
            wide = last / first > 100  # else powers of ten alone would leave an axis without numbers
            axis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=8))
            axis.set_major_formatter(lambda x, _: power(x))
            axis.set_minor_locator(NullLocator())
    if not panel.y_log:
        axes.set_ylim(bottom=min(0, axes.get_ylim()[0]) if _negative(panel) else 0)
    for mark in panel.marks:
        axes.axvline(mark.x, color="#555555", linewidth=0.9, linestyle=(0, (1, 2)), zorder=2)
        axes.annotate(
            mark.label, (mark.x, 1.0), (0, 2), xycoords=("data", "axes fraction"),
            textcoords="offset points", ha="center", va="bottom", fontsize=8, color="#333333",
        )  # fmt: skip
    axes.set_xlabel(f"{panel.x}\n{panel.note}" if panel.note else panel.x)
    axes.set_ylabel(panel.y)


def _negative(panel: Panel) -> bool:
    return any(np.nanmin(np.asarray(curve.y, float)) < 0 for curve in panel.curves)


def power(x: float) -> str:
    """Write a number as people do: 0.05, 2, 1000, 10⁴, 3·10⁻⁵."""
    if x == 0 or 0.001 <= abs(x) < 10_000:
        return f"{x:.4g}" if abs(x) >= 1000 else f"{x:.3g}"
    exponent = math.floor(math.log10(abs(x)) + 1e-9)
    front = f"{x / 10**exponent:.2g}"
    raised = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}" if front == "1" else f"{front}·10{raised}"


def regret_curves(data: "xarray.Dataset", title: str = "") -> "Figure":
    """Draw mean regret against the stage, with bands from 25 to 75 %, for each policy."""
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 4.2))
        axes = figure.subplots()
        for n, label in enumerate(data["policy"].to_numpy()):
            regret = data["regret"].sel(policy=label)
            colour, line = COLOURS[n % len(COLOURS)], LINES[n // len(COLOURS) % len(LINES)]
            stages = data["stage"].to_numpy()
            low, high = regret.quantile([0.25, 0.75], "run").to_numpy()
            axes.fill_between(stages, low, high, color=colour, alpha=0.15, linewidth=0)
            mean = regret.mean("run").to_numpy()
            axes.plot(stages, mean, color=colour, linestyle=line, label=str(label))
        axes.set_xscale("log")
        axes.set_xlabel("stage t")
        axes.set_ylabel(f"regret (mean of {data.sizes['run']} runs, band 25–75 %)")
        axes.set_ylim(bottom=0)
        axes.set_title(title)
        axes.legend()
    return figure


def save_figure(figure: "Figure", file: Path) -> None:
    """Write a figure, whole or not at all; the ending of the file's name says how."""
    drawn = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        undated: Any = {"Date": None} if file.suffix == ".svg" else None
        figure.savefig(drawn, format=file.suffix[1:], metadata=undated)
    write_whole(file, drawn.getvalue(), "plot")


def plan_curves(planned: dict[str, Any]) -> "Figure":
    """Draw what `kibitz.plan` predicts, against the size of the bucket; simulated points if any."""
    setting, rates = planned["setting"], np.array(planned["rates"][1:])
    names = {"uniform": "UCB, uniform", "optimal": "UCB, best weights", "active": "UCB1-Double"}
    several = len(setting["problems"]) > 1
    points = [] if several else planned.get("simulation", {}).get("points", [])
    panels = []
    for early, title in ((False, "Looks at a steady rate"), (True, "As many looks, early")):
        predicted = planned["early"]["regret"] if early else planned["regret"]
        curves = []
        for observer, name in names.items():
            y = predicted[observer]
            high = np.array(y["worst"][1:]) if several else None
            mean = np.array(y["mean"][1:])
            curves.append(Curve(name, rates, mean, mean if several else None, high))
        none = np.full(rates.shape, predicted["uniform"]["mean"][0])
        curves.append(Curve("no looks", rates, none, kind="reference"))
        panels.append(
            Panel(
                title,
                "size of the bucket ε (looks per stage)",
                f"regret after {setting['horizon']:,} stages".replace(",", " "),
                curves,
                [Mark(planned["rate_star"]["mean"], "ε*")],
                note="line: mean over the gaps, band: up to the worst" if several else "",
            )
        )
    drawn = figure(
        Picture("Predicted regret against the size of the bucket, for three observers.", panels)
    )
    top = max(axes.get_ylim()[1] for axes in drawn.axes)
    for axes, early in zip(drawn.axes, (False, True), strict=True):
        axes.set_ylim(0, top)
        for place, observer in enumerate(names):
            own = [p for p in points if (p["observer"], p["early"]) == (observer, early)]
            if own:
                axes.errorbar(
                    [p["rate"] for p in own], [p["mean"] for p in own], [2 * p["sem"] for p in own],
                    color=COLOURS[place], marker=MARKERS[place], markersize=5, linestyle="none",
                    markerfacecolor="white", capsize=2, zorder=5,
                )  # fmt: skip
    return drawn
