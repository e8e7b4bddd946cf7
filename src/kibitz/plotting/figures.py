"""Figures on paper, or in a window: the one module that knows matplotlib.

`draw_figure` draws the `Picture` of an experiment, `draw_regret_curves` and `draw_plan` what `--plot` asks
for; a `Window` shows the former while they change.
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
LINES = ("-", "--", "-.", ":")
SIZE = (6.4, 4.2)  # inches

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
    "text.parse_math": False,  # a $ in a label is a $
}


def draw_figure(picture: Picture) -> "Figure":
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
    """Draw a panel into its axes; `handles` gets what the legend shows for each label."""
    for curve in panel.curves:
        drawn = draw_curve(axes, curve, labels.index(curve.label))
        handles.setdefault(curve.label, drawn)
    scale_axis(axes.xaxis, axes.set_xscale, panel.x_log)
    scale_axis(axes.yaxis, axes.set_yscale, panel.y_log)
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


def draw_curve(axes: "Axes", curve: Curve, place: int) -> Any:
    """Draw a curve in the colour, the dashes and the marker of its place; return its handle."""
    colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
    dashes = DASHES[place % len(DASHES)] or (1, 0)
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


def scale_axis(axis: Any, set_scale: Any, log: bool) -> None:
    """Make an axis linear or logarithmic, the latter with few ticks, written as people do."""
    from matplotlib.ticker import LogLocator, NullLocator

    set_scale("log" if log else "linear")
    if log:
        first, last = axis.get_view_interval()
        wide = last / first > 100  # else powers of ten alone would leave an axis without numbers
        axis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0), numticks=8))
        axis.set_major_formatter(lambda x, _: typeset(x))
        axis.set_minor_locator(NullLocator())


def _negative(panel: Panel) -> bool:
    return any(np.nanmin(np.asarray(curve.y, float)) < 0 for curve in panel.curves)


def draw_regret_curves(
    data: "xarray.Dataset | None", title: str = "", into: "Figure | None" = None
) -> "Figure":
    """Draw mean regret against the stage, with bands from 25 to 75 %, for each policy.

    `into` is a figure that is drawn anew. As long as there is no data, the title stands alone.
    """
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=SIZE) if into is None else into
        figure.clear()
        axes = figure.subplots()
        axes.set_title(title)
        if data is None:
            axes.set_axis_off()
            return figure
        stages = data["stage"].to_numpy()
        for n, label in enumerate(data["policy"].to_numpy()):
            regret = data["regret"].sel(policy=label).compute()  # of a folder, it is read here
            colour, line = COLOURS[n % len(COLOURS)], LINES[n // len(COLOURS) % len(LINES)]
            low, high = regret.quantile([0.25, 0.75], "run").to_numpy()
            axes.fill_between(stages, low, high, color=colour, alpha=0.15, linewidth=0)
            mean = regret.mean("run").to_numpy()
            axes.plot(stages, mean, color=colour, linestyle=line, label=str(label))
        scale_axis(axes.xaxis, axes.set_xscale, log=True)
        axes.set_xlabel("stage t")
        axes.set_ylabel(f"regret (mean of {data.sizes['run']} runs, band 25–75 %)")
        axes.set_ylim(bottom=0)
        axes.legend()
    return figure


def render_png(figure: "Figure") -> bytes:
    """Return a figure as the bytes of a PNG file."""
    buffer = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(buffer, format="png")
    return buffer.getvalue()


class Window:
    """A window with a figure, until somebody closes it."""

    def __init__(self) -> None:
        """Open it; an ImportError where matplotlib cannot."""
        from matplotlib import pyplot

        self.pyplot = pyplot
        with matplotlib.rc_context(STYLE):
            self.figure = pyplot.figure(figsize=SIZE)
        if self.figure.canvas.required_interactive_framework is None:
            pyplot.close(self.figure)
            raise ImportError(f"{pyplot.get_backend()} opens no windows")
        pyplot.show(block=False)

    def draw(self, data: "xarray.Dataset | None", title: str) -> None:
        """Draw regret curves in it."""
        if self.is_open():
            draw_regret_curves(data, title, self.figure)
            self.figure.canvas.draw_idle()
            self.process_events()

    def process_events(self) -> None:
        """Let it answer: be moved, enlarged, closed."""
        if self.is_open():
            self.figure.canvas.flush_events()

    def wait_until_closed(self) -> None:
        """Wait until it is closed, or for Ctrl-C."""
        with suppress(KeyboardInterrupt):
            self.pyplot.show(block=True)

    def is_open(self) -> bool:
        """Return whether nobody has closed it."""
        return self.pyplot.fignum_exists(self.figure.number)


def save_figure(figure: "Figure", file: Path, name: str = "plot") -> None:
    """Write a figure, whole or not at all; the ending of the file's name says how.

    `name` is what the user calls the file, should it be refused.
    """
    target, kind = check_target(file, name), file.suffix.removeprefix(".")
    metadata = {"Date": None} if kind == "svg" else None
    with matplotlib.rc_context(STYLE):
        write_atomic(
            target, lambda opened: figure.savefig(opened, format=kind, metadata=metadata), name
        )


def draw_plan(plan: dict[str, Any], observers: Sequence[str] = ("kibitzer", "active")) -> "Figure":
    """Draw what `kibitz.plan` predicts, against the size of the bucket; simulated points if any."""
    setting, rates = plan["setting"], np.array(plan["rates"][1:])
    known = {
        "kibitzer": "kibitzer",
        "active": "UCB1-Double",
        "uniform": "UCB, uniform",
        "optimal": "UCB, best weights",
    }
    names = {observer: known[observer] for observer in observers}
    several = len(setting["problems"]) > 1
    points = [] if several else plan.get("simulation", {}).get("points", [])
    panels = []
    for early, title in ((False, "Looks at a steady rate"), (True, "As many looks, early")):
        predicted = plan["early"]["regret"] if early else plan["regret"]
        curves = []
        for observer, name in names.items():
            y = predicted[observer]
            high = np.array(y["worst"][1:]) if several else None
            mean = np.array(y["mean"][1:])
            curves.append(Curve(name, rates, mean, mean if several else None, high))
        for label, one in (("UCB, no looks", "uniform"), ("kibitzer, no looks", "kibitzer")):
            none = np.full(rates.shape, predicted[one]["mean"][0])
            curves.append(Curve(label, rates, none, kind="reference"))
        panels.append(
            Panel(
                title,
                "size of the bucket ε (looks per stage)",
                f"regret after {setting['horizon']:,} stages".replace(",", " "),
                curves,
                [Mark(plan["rate_star"]["mean"], "ε*")],
                note="line: mean over the gaps, band: up to the worst" if several else "",
            )
        )
    drawn = draw_figure(
        Picture("Predicted regret against the size of the bucket, for some policies.", panels)
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
