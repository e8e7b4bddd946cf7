"""Watch a simulation while it runs, and stop it early.

`race` draws regret curves in a notebook cell or in a window. Other displays, such as the table of
`kibitz simulate --watch`, implement `Screen`.
"""

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from kibitz._progress import is_notebook
from kibitz.model.feedback import Feedback
from kibitz.model.problem import Problem
from kibitz.simulation.options import Options, check_options, show_options
from kibitz.simulation.schedule import Policies
from kibitz.simulation.simulate import simulate

if TYPE_CHECKING:
    import xarray

    from kibitz.plotting.window import Window

NOTEBOOK_WIDTH = 640  # width of a figure, in CSS pixels
RESERVED_OPTIONS = ("progress", "keep", "watch")  # options of `simulate` that `race` sets itself
MIN_TITLE_SECONDS = 0.5  # shortest time between two titles before the first runs are complete


class Screen(Protocol):
    """A display that shows progress and partial results."""

    def tell(self, activity: str, share: float, /) -> None:
        """Show the current activity, and the share of the work that is complete."""

    def show(self, data: "xarray.Dataset", title: str, /) -> None:
        """Show the completed runs under a title."""


@show_options(without=RESERVED_OPTIONS)
def race(
    problem: Problem, feedback: Feedback, policies: Policies, **options: Unpack[Options]
) -> "xarray.Dataset":
    """Simulate like `simulate`, and draw regret curves that are updated as runs complete.

    The curves appear below the cell in a notebook, and otherwise in a matplotlib window. If no window
    can be opened, nothing is drawn. All policies are simulated in parallel, so their curves grow
    together.

    Ctrl-C, or the stop button of a notebook, stops the simulation. The title then says that it was
    stopped, and the result contains the runs that all policies have completed; if there are no such
    runs, KeyboardInterrupt is raised. With a `file`, the same call later resumes the simulation.

    The result is bit for bit the same as the result of `simulate`.

    Parameters
    ----------
    problem, feedback, policies, {names}
        As in `simulate`.
    """
    check_options(options, RESERVED_OPTIONS)
    if is_notebook() and find_spec("matplotlib") is None:
        raise ValueError("matplotlib is not installed; run: pip install 'kibitz[figures]'")
    screen = Curves(Notebook if is_notebook() else open_window)
    return watch_simulation(screen, problem, feedback, policies, **options)


def watch_simulation(
    screen: Screen, problem: Problem, feedback: Feedback, policies: Policies, **options: Any
) -> "xarray.Dataset":
    """Simulate, show progress on `screen`, and return the runs completed before the end or Ctrl-C."""
    latest_data: xarray.Dataset | None = None

    def format_progress(data: "xarray.Dataset") -> str:
        return f"{data.sizes['run']} of {int(options['runs'])} runs"

    def watch(data: "xarray.Dataset") -> None:
        nonlocal latest_data
        latest_data = data
        screen.show(data, format_progress(data))

    try:
        data = simulate(problem, feedback, policies, **options, progress=screen.tell, watch=watch)
        title = f"{data.sizes['run']} runs"
    except KeyboardInterrupt:
        if latest_data is None:
            raise
        data, title = latest_data, f"stopped after {format_progress(latest_data)}"
    with suppress(KeyboardInterrupt):  # all runs are complete, so return them in spite of Ctrl-C
        screen.show(data, title)
    return data


# ---------------------------------------------------------------------------------------- screens


class Curves:
    """A screen that draws regret curves in a notebook or a window.

    If there is neither a notebook nor a window, nothing is drawn.
    """

    def __init__(self, open_canvas: "Callable[[], Notebook | Window | None]") -> None:
        self.canvas = cache(open_canvas)  # opened at the first use
        self.data: xarray.Dataset | None = None
        self.title, self.drawn_at = "", 0.0

    def tell(self, activity: str, share: float) -> None:
        """Show a compilation in the title.

        Until the first runs are complete, the title shows the progress of all other activities too.
        """
        is_compiling = activity.startswith("compiling")
        is_due = self.data is None and time.monotonic() - self.drawn_at > MIN_TITLE_SECONDS
        title = activity if is_compiling else f"{activity}: {100 * share:.0f} %"
        if title != self.title and (is_compiling or is_due):
            self._draw(title)
        if (canvas := self.canvas()) is not None:
            canvas.process_events()

    def show(self, data: "xarray.Dataset", title: str) -> None:
        """Draw the completed runs."""
        self.data = data
        self._draw(title)

    def _draw(self, title: str) -> None:
        if (canvas := self.canvas()) is not None:
            canvas.draw(self.data, title)
        self.title, self.drawn_at = title, time.monotonic()


class Notebook:
    """The output of a notebook cell: one figure that is replaced at each update."""

    def __init__(self) -> None:
        self.handle: Any = None

    def draw(self, data: "xarray.Dataset | None", title: str) -> None:
        """Draw regret curves, or only the title if there is no data."""
        from IPython.display import Image, display

        from kibitz.plotting.window import draw_regret_curves, render_png

        image = Image(data=render_png(draw_regret_curves(data, title)), width=NOTEBOOK_WIDTH)
        if self.handle is None:
            self.handle = display(image, display_id=True)
        else:
            self.handle.update(image)

    def process_events(self) -> None:
        """Do nothing: the browser handles the events of a notebook."""


def open_window() -> "Window | None":
    """Return a window, or None if matplotlib, a display or a backend with windows is missing."""
    has_no_display = (
        sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()
    )
    if has_no_display or find_spec("matplotlib") is None:
        return None
    from kibitz.plotting.window import Window

    try:
        return Window()
    except ImportError:
        return None
