"""Figures drawn with matplotlib. No other module imports matplotlib.

`draw_figure` draws the `Picture` of an experiment; `draw_regret_curves` and `draw_plan` draw the
figures of `--plot`. A `Window` shows regret curves while they change.
"""

import io
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np

from kibitz._files import check_target, write_atomic
from kibitz.plotting.picture import COLOURS, DASHES, Curve, Mark, Panel, Picture, typeset

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = "os^DvPX*o<s>"
LINE_STYLES = ("-", "--", "-.", ":")
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
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, (3.3 + 0.16 * note_lines) * rows + 0.22 * legend_rows + 0.1))
        grid = figure.subplots(rows, columns, squeeze=False)
        handles: dict[str, Any] = {}
        for axes, panel in zip(grid.flat, picture.panels, strict=False):
            draw_panel(axes, panel, labels, handles)
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


def draw_panel(axes: "Axes", panel: Panel, labels: list[str], handles: dict[str, Any]) -> None:
    """Draw a panel into `axes`, and add the legend handles of its curves to `handles`."""
    for curve in panel.curves:
        handle = draw_curve(axes, curve, labels.index(curve.label))
        handles.setdefault(curve.label, handle)
    scale_axis(axes.xaxis, axes.set_xscale, panel.x_log)
    scale_axis(axes.yaxis, axes.set_yscale, panel.y_log)
    if not panel.y_log:
        axes.set_ylim(bottom=min(0, axes.get_ylim()[0]) if _has_negative(panel) else 0)
    for mark in panel.marks:
        axes.axvline(mark.x, color="#555555", linewidth=0.9, linestyle=(0, (1, 2)), zorder=2)
        axes.annotate(
            mark.label, (mark.x, 1.0), (0, 2), xycoords=("data", "axes fraction"),
            textcoords="offset points", ha="center", va="bottom", fontsize=8, color="#333333",
        )  # fmt: skip
    axes.set_xlabel(f"{panel.x}\n{panel.note}" if panel.note else panel.x)
    axes.set_ylabel(panel.y)


def draw_curve(axes: "Axes", curve: Curve, index: int) -> Any:
    """Draw a curve in the colour, dashes and marker number `index`; return its legend handle."""
    colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
    dashes = DASHES[index % len(DASHES)] or (1, 0)
    x, y = np.asarray(curve.x, float), np.asarray(curve.y, float)
    errors: Any = None
    if curve.low is not None and curve.high is not None:
        low, high = np.asarray(curve.low, float), np.asarray(curve.high, float)
        if curve.kind == "points":
            errors = np.maximum(np.stack([y - low, high - y]), 0)
        else:
            axes.fill_between(x, low, high, color=colour, alpha=0.10, linewidth=0, zorder=1)
    if curve.kind == "points":
        return axes.errorbar(
            x, y, errors, color=colour, marker=marker, markersize=4, linewidth=1.0,
            elinewidth=0.8, capsize=2, zorder=4, dashes=dashes,
        )  # fmt: skip
    if curve.kind == "dots":
        return axes.plot(x, y, color=colour, marker=marker, linestyle="none", zorder=5)[0]
    if curve.kind == "reference":
        return axes.plot(x, y, color=colour, linewidth=1.3, dashes=(5, 3), zorder=3)[0]
    return axes.plot(x, y, color=colour, linewidth=1.8, dashes=dashes, zorder=4)[0]


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


def draw_regret_curves(
    data: "xarray.Dataset | None", title: str = "", existing_figure: "Figure | None" = None
) -> "Figure":
    """Draw the mean regret of each policy against the stage.

    A band shows the range from the 25 % to the 75 % quantile of the runs. If `existing_figure`
    is None, a new figure is created. Without data, the figure shows only the title.
    """
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=FIGURE_SIZE) if existing_figure is None else existing_figure
        figure.clear()
        axes = figure.subplots()
        axes.set_title(title)
        if data is None:
            axes.set_axis_off()
            return figure
        stages = data["stage"].to_numpy()
        for index, label in enumerate(data["policy"].to_numpy()):
            regret = data["regret"].sel(policy=label).compute()  # reads Zarr data from disk
            colour, line_style = (
                COLOURS[index % len(COLOURS)],
                LINE_STYLES[index // len(COLOURS) % len(LINE_STYLES)],
            )
            low, high = regret.quantile([0.25, 0.75], "run").to_numpy()
            axes.fill_between(stages, low, high, color=colour, alpha=0.15, linewidth=0)
            mean_regret = regret.mean("run").to_numpy()
            axes.plot(stages, mean_regret, color=colour, linestyle=line_style, label=str(label))
        scale_axis(axes.xaxis, axes.set_xscale, is_log=True)
        axes.set_xlabel("stage t")
        axes.set_ylabel(f"regret (mean of {data.sizes['run']} runs, band 25–75 %)")
        axes.set_ylim(bottom=0)
        axes.legend()
    return figure


def render_png(figure: "Figure") -> bytes:
    """Return a figure as PNG."""
    buffer = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(buffer, format="png")
    return buffer.getvalue()


class Window:
    """A window that shows a figure until the user closes it."""

    def __init__(self) -> None:
        """Open the window; raise ImportError if the backend cannot open windows."""
        from matplotlib import pyplot

        self.pyplot = pyplot
        with matplotlib.rc_context(STYLE):
            self.figure = pyplot.figure(figsize=FIGURE_SIZE)
        if self.figure.canvas.required_interactive_framework is None:
            pyplot.close(self.figure)
            raise ImportError(f"the matplotlib backend {pyplot.get_backend()} cannot open windows")
        pyplot.show(block=False)

    def draw(self, data: "xarray.Dataset | None", title: str) -> None:
        """Redraw the regret curves."""
        if self.is_open():
            draw_regret_curves(data, title, self.figure)
            self.figure.canvas.draw_idle()
            self.process_events()

    def process_events(self) -> None:
        """Process pending user events, so the window stays responsive."""
        if self.is_open():
            self.figure.canvas.flush_events()

    def wait_until_closed(self) -> None:
        """Wait until the user closes the window or presses Ctrl-C."""
        with suppress(KeyboardInterrupt):
            self.pyplot.show(block=True)

    def is_open(self) -> bool:
        """Return whether the window is still open."""
        return self.pyplot.fignum_exists(self.figure.number)


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


def draw_plan(plan: dict[str, Any], observers: Sequence[str] = ("kibitzer", "active")) -> "Figure":
    """Draw the regret that `kibitz.plan` predicts against the bucket size, with simulated points.

    `plan` is the result of `Plan.to_dict`.
    """
    rates, details = np.array(plan["rates"][1:]), plan["details"]
    label_by_observer = {
        "kibitzer": "kibitzer",
        "thompson": "Thompson sampling",
        "active": "UCB1-Double",
        "uniform": "UCB, uniform",
        "optimal": "UCB, best weights",
    }
    policy_names = {observer: label_by_observer[observer] for observer in observers}
    has_several_problems = len(plan["problems"]) > 1
    simulated_points = [] if has_several_problems else (plan["simulation"] or {}).get("points", [])
    is_clicks = plan["rewards"] == "bernoulli"
    titles = {False: "Looks at a constant rate", True: "The same number of looks, early"}
    if is_clicks:
        del titles[True]
    panels = []
    for is_early, title in titles.items():
        predicted_regret = details["early"]["curves"] if is_early else plan["curves"]
        curves = []
        for observer, name in policy_names.items():
            mean_regret = np.array(predicted_regret[observer]["mean"][1:])
            band: tuple[Any, Any] = (None, None)  # the lower and the upper end
            if has_several_problems:
                band = (mean_regret, np.array(predicted_regret[observer]["worst"][1:]))
            curves.append(Curve(name, rates, mean_regret, *band))
        baselines = {"kibitzer, no looks": "kibitzer"}
        if not is_clicks:
            baselines = {"UCB, no looks": "uniform", **baselines}
        for label, observer in baselines.items():
            constant_regret = np.full(rates.shape, predicted_regret[observer]["mean"][0])
            curves.append(Curve(label, rates, constant_regret, kind="reference"))
        regret_unit = "clicks lost" if is_clicks else "regret"
        panels.append(
            Panel(
                title,
                "bucket size ε (looks per stage)",
                f"{regret_unit} after {plan['horizon']:,} stages",
                curves,
                [] if is_clicks else [Mark(details["rate_star"]["mean"], "ε*")],
                note="line: mean over the problems; band: up to the worst"
                if has_several_problems
                else "",
            )
        )
    figure = draw_figure(
        Picture("Predicted regret of several policies against the bucket size.", panels)
    )
    max_regret = max(axes.get_ylim()[1] for axes in figure.axes)
    for axes, is_early in zip(figure.axes, titles, strict=True):
        axes.set_ylim(0, max_regret)
        for index, observer in enumerate(policy_names):
            observer_points = [
                p for p in simulated_points if (p["policy"], p["early"]) == (observer, is_early)
            ]
            if observer_points:
                axes.errorbar(
                    [p["rate"] for p in observer_points],
                    [p["mean"] for p in observer_points],
                    [2 * p["sem"] for p in observer_points],
                    color=COLOURS[index], marker=MARKERS[index], markersize=5, linestyle="none",
                    markerfacecolor="white", capsize=2, zorder=5,
                )  # fmt: skip
    return figure
