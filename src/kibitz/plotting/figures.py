"""Draw curves, panels and pictures with matplotlib, and save figures.

`draw_panel` draws every curve of kibitz: the functions of `kibitz.plot` call it with one panel, and
`draw_figure` calls it for each panel of the `Picture` of an experiment.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import matplotlib
import numpy as np

from kibitz._files import check_target, write_atomic
from kibitz._validation import invalid
from kibitz.plotting.picture import (
    COLOURS,
    DARK_COLOURS,
    Curve,
    Mark,
    Panel,
    Picture,
    choose_dashes,
    typeset,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = "os^DvPX*o<s>"
FIGURE_SIZE = (6.4, 4.2)  # inches

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
    "text.parse_math": False,  # print a $ in a label as it is
}


def draw_figure(picture: Picture) -> "Figure":
    """Draw all panels of a picture with a common legend."""
    from matplotlib.figure import Figure

    columns = min(picture.columns, len(picture.panels))
    rows = -(-len(picture.panels) // columns)
    labels = picture.labels()
    longest_label = max(len(label) for label in labels)
    has_marks = any(panel.marks for panel in picture.panels)
    note_lines = max(panel.note.count("\n") + bool(panel.note) for panel in picture.panels)
    width = 6.6 if columns == 1 else 4.5 * columns
    legend_columns = max(1, min(len(labels), int(width * 12 // (longest_label + 8))))
    legend_rows = -(-len(labels) // legend_columns)
    positions = {label: position for position, label in enumerate(labels)}
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, (3.3 + 0.16 * note_lines) * rows + 0.22 * legend_rows + 0.1))
        grid = figure.subplots(rows, columns, squeeze=False)
        handles: dict[str, Any] = {}
        for axes, panel in zip(grid.flat, picture.panels, strict=False):
            handles = draw_panel(axes, panel, positions) | handles
            axes.set_title(panel.title, pad=16 if has_marks else 6)
        for axes in grid.flat[len(picture.panels) :]:
            axes.set_axis_off()
        figure.legend(
            [handles[label] for label in labels],
            labels,
            loc="outside lower center",
            ncols=legend_columns,
        )
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # the layout was computed once, for all file formats
    return figure


def draw_chart(
    draw: "Callable[[Axes], Any]", title: str = "", existing_figure: "Figure | None" = None
) -> "Figure":
    """Create a figure with one pair of axes, call `draw` with the axes, and return the figure.

    If `existing_figure` is given, its content is replaced.
    """
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=FIGURE_SIZE) if existing_figure is None else existing_figure
        figure.clear()
        axes = figure.subplots()
        draw(axes)
        axes.set_title(title)
    return figure


@contextmanager
def open_axes(ax: "Axes | None") -> "Iterator[Axes]":
    """Yield `ax` or, if it is None, the axes of a new pyplot figure in the style of kibitz.

    Later drawings into the new figure also use this style.
    """
    from matplotlib import pyplot
    from matplotlib.axes import Axes

    if ax is not None and not isinstance(ax, Axes):
        raise invalid("ax", "matplotlib axes, such as pyplot.gca()", ax)
    if ax is not None and ax.figure not in _styled_figures:
        yield ax
        return
    with matplotlib.rc_context(STYLE):
        if ax is None:
            figure = pyplot.figure(figsize=FIGURE_SIZE)
            _styled_figures.add(figure)
            ax = figure.subplots()
        yield ax


_styled_figures: "WeakSet[Any]" = WeakSet()  # the figures that `open_axes` made


def draw_panel(axes: "Axes", panel: Panel, positions: Mapping[str, int]) -> dict[str, Any]:
    """Draw a panel into `axes`; return the legend handle of each label.

    The position of a label sets the colour, dashes and marker of its curves.
    """
    handles: dict[str, Any] = {}
    for curve in panel.curves:
        handles.setdefault(curve.label, draw_curve(axes, curve, positions[curve.label]))
    scale_axis(axes.xaxis, axes.set_xscale, panel.x_log)
    scale_axis(axes.yaxis, axes.set_yscale, panel.y_log)
    if not panel.y_log:
        axes.set_ylim(bottom=min(0, axes.get_ylim()[0]) if _has_negative(panel) else 0)
    ink = axes.xaxis.label.get_color()
    for mark in panel.marks:
        axes.axvline(mark.x, color=ink, alpha=0.7, linewidth=0.9, linestyle=(0, (1, 2)), zorder=2)
        axes.annotate(
            mark.label, (mark.x, 1.0), (0, 2), xycoords=("data", "axes fraction"),
            textcoords="offset points", ha="center", va="bottom", fontsize=8, color=ink,
        )  # fmt: skip
    axes.set_xlabel(f"{panel.x}\n{panel.note}" if panel.note else panel.x)
    axes.set_ylabel(panel.y)
    return handles


def draw_curve(axes: "Axes", curve: Curve, position: int) -> Any:
    """Draw a curve in the colour, dashes and marker at `position`; return its legend handle."""
    colour, marker = choose_colour(axes, position), MARKERS[position % len(MARKERS)]
    dashes = choose_dashes(position) or (1, 0)
    x, y = np.asarray(curve.x, float), np.asarray(curve.y, float)
    errors: Any = None
    if curve.low is not None and curve.high is not None:
        low, high = np.asarray(curve.low, float), np.asarray(curve.high, float)
        if curve.kind in {"points", "dots"}:
            errors = np.maximum(np.stack([y - low, high - y]), 0)
        else:
            axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0, zorder=1)
    if curve.kind in {"points", "dots"}:
        is_joined = curve.kind == "points"
        line: Any = {"dashes": dashes} if is_joined else {"linestyle": "none"}
        return axes.errorbar(
            x, y, errors, color=colour, marker=marker, markersize=4 if is_joined else 6,
            linewidth=1.0, elinewidth=0.8, capsize=2, zorder=4 if is_joined else 5,
            label=curve.label, **line,
        )  # fmt: skip
    if curve.kind == "reference":
        width, dashes, order = 1.3, (5, 3), 3
    else:
        width, order = 1.8, 4
    return axes.plot(
        x, y, color=colour, linewidth=width, dashes=dashes, zorder=order, label=curve.label
    )[0]


def choose_colour(axes: "Axes", position: int) -> str:
    """Return the colour at a position of the palette, which depends on the background of the axes."""
    from matplotlib.colors import to_rgba

    background = to_rgba(axes.get_facecolor())
    if background[3] == 0 and axes.figure is not None:  # the figure shows through transparent axes
        background = to_rgba(axes.figure.get_facecolor())
    luminance = 0.3 * background[0] + 0.59 * background[1] + 0.11 * background[2]
    is_dark = background[3] > 0 and luminance < 0.5
    colours = DARK_COLOURS if is_dark else COLOURS
    return colours[position % len(colours)]


def scale_axis(axis: Any, set_scale: Any, is_log: bool) -> None:
    """Make an axis logarithmic with few ticks in the usual notation, or linear."""
    from matplotlib.ticker import LogLocator, NullLocator

    set_scale("log" if is_log else "linear")
    if is_log:
        low, high = axis.get_view_interval()
        is_wide = high / low > 100  # a narrow axis might not contain two powers of ten
        axis.set_major_locator(LogLocator(subs=(1.0,) if is_wide else (1.0, 2.0, 5.0), numticks=8))
        axis.set_major_formatter(lambda x, _: typeset(x))
        axis.set_minor_locator(NullLocator())


def _has_negative(panel: Panel) -> bool:
    return any(np.nanmin(np.asarray(curve.y, float)) < 0 for curve in panel.curves)


def save_figure(figure: "Figure", file: Path, name: str = "plot") -> None:
    """Write a figure atomically, in the format of the file's extension.

    `name` is the option that an error message names.
    """
    target, file_format = check_target(file, name), file.suffix.removeprefix(".")
    metadata = {"Date": None} if file_format == "svg" else None
    with matplotlib.rc_context(STYLE):
        write_atomic(
            target,
            lambda open_file: figure.savefig(open_file, format=file_format, metadata=metadata),
            name,
        )


PLANNED_POLICIES = {
    "kibitzer": "kibitzer",
    "thompson": "Thompson sampling",
    "active": "UCB1-Double",
    "uniform": "UCB, uniform",
    "optimal": "UCB, best weights",
}


def make_plan_panel(
    plan: Mapping[str, Any], observers: Sequence[str], is_early: bool = False
) -> Panel:
    """Return the panel of the regret that `kibitz.plan` predicts against the rate of looks.

    `plan` is the result of `Plan.to_dict`. If looks have a cost, the panel also shows the regret plus
    this cost for the recommended policy, and marks the recommended rate. Simulated points are shown
    if the plan has one problem only. `is_early` selects the predictions for early looks.
    """
    rates, details = np.array(plan["rates"][1:]), plan["details"]
    has_several_problems = len(plan["problems"]) > 1
    is_clicks = plan["rewards"] == "bernoulli"
    simulated_points = [] if has_several_problems else (plan["simulation"] or {}).get("points", [])
    predicted_regret = details["early"]["curves"] if is_early else plan["curves"]
    curves, marks = [], []
    for observer in observers:
        name, mean_regret = (
            PLANNED_POLICIES[observer],
            np.array(predicted_regret[observer]["mean"][1:]),
        )
        band: tuple[Any, Any] = (None, None)  # the lower and the upper end
        if has_several_problems:
            band = (mean_regret, np.array(predicted_regret[observer]["worst"][1:]))
        curves.append(Curve(name, rates, mean_regret, *band))
        points = [p for p in simulated_points if (p["policy"], p["early"]) == (observer, is_early)]
        if points:
            x, y, error = (np.array([p[key] for p in points]) for key in ("rate", "mean", "sem"))
            curves.append(Curve(name, x, y, y - 2 * error, y + 2 * error, "dots"))
    recommended = {"ucb_double": "active"}.get(plan["policy"], plan["policy"])
    if plan["cost"] and not is_early and recommended in observers:
        regret = np.array(predicted_regret[recommended]["mean"][1:])
        total = regret + plan["cost"] * plan["horizon"] * rates
        curves.append(Curve(f"{PLANNED_POLICIES[recommended]}, plus the cost of looks", rates, total))
        if plan["rate"] > 0:
            marks.append(Mark(plan["rate"], f"{plan['n_looks']:,.0f} looks"))
    baselines = {"kibitzer, no looks": "kibitzer"}
    if not is_clicks:
        baselines = {"UCB, no looks": "uniform", **baselines}
        marks.append(Mark(details["rate_star"]["mean"], "ε*"))
    for label, observer in baselines.items():
        constant_regret = np.full(rates.shape, predicted_regret[observer]["mean"][0])
        curves.append(Curve(label, rates, constant_regret, kind="reference"))
    title = "The same number of looks, early" if is_early else "Looks at a constant rate"
    y_label = f"{'clicks lost' if is_clicks else 'regret'} after {plan['horizon']:,} stages"
    note = "line: mean over the problems; band: up to the worst" if has_several_problems else ""
    return Panel(title, "bucket size ε (looks per stage)", y_label, curves, marks, note=note)


def draw_plan(plan: Mapping[str, Any], observers: Sequence[str] = ("kibitzer", "active")) -> "Figure":
    """Draw the regret that `kibitz.plan` predicts against the bucket size, with simulated points.

    `plan` is the result of `Plan.to_dict`.
    """
    is_clicks = plan["rewards"] == "bernoulli"
    panels = [
        make_plan_panel(plan, observers, early) for early in (False, *([] if is_clicks else [True]))
    ]
    figure = draw_figure(
        Picture("Predicted regret of several policies against the bucket size.", panels)
    )
    max_regret = max(axes.get_ylim()[1] for axes in figure.axes)
    for axes in figure.axes:
        axes.set_ylim(0, max_regret)
    return figure
