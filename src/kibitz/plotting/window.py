"""Regret curves that are redrawn while a simulation runs, as an image or in a window."""

import io
from contextlib import suppress
from typing import TYPE_CHECKING

import matplotlib

from kibitz.plotting.charts import regret
from kibitz.plotting.figures import FIGURE_SIZE, STYLE, draw_chart

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure


def draw_regret_curves(
    data: "xarray.Dataset | None", title: str = "", existing_figure: "Figure | None" = None
) -> "Figure":
    """Draw the mean regret of each policy; without data, the figure shows only the title.

    If `existing_figure` is None, a new figure is created.
    """
    if data is None:
        return draw_chart(lambda axes: axes.set_axis_off(), title, existing_figure)
    return draw_chart(lambda axes: regret(data, ax=axes), title, existing_figure)


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
