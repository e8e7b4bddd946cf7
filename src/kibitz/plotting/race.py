"""Look on while policies are played, and stop when enough is seen.

`race` draws curves in the cell of a notebook, or in a window. Whatever else can show them, such as
the table of `kibitz simulate --watch`, is a `Screen` too.
"""

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from kibitz.model.feedback import Feedback
from kibitz.model.problem import Problem
from kibitz.simulation.options import Options, check_options, show_options
from kibitz.simulation.schedule import Policies
from kibitz.simulation.simulate import simulate

if TYPE_CHECKING:
    import xarray

    from kibitz.plotting.figures import Window

WIDTH = 640  # of a figure in a notebook, in its pixels
NOT_OPTIONS = ("progress", "keep", "watch")  # of `simulate`, which a race sets itself
SECONDS = 0.5  # between two titles, as long as there is nothing to draw


class Screen(Protocol):
    """Where people look."""

    def tell(self, what: str, share: float) -> None:
        """Say what is being done, and the share of the work that is."""

    def show(self, data: "xarray.Dataset", words: str) -> None:
        """Show the runs that are there."""


@show_options(without=NOT_OPTIONS)
def race(
    problem: Problem, feedback: Feedback, policies: Policies, **options: Unpack[Options]
) -> "xarray.Dataset":
    """Do the same as `simulate`, and draw regret curves that change as runs come in.

    They are drawn below the cell of a notebook, else in a window of matplotlib's, and where there can
    be none, nowhere. All policies get on together, run by run.

    Ctrl-C, or the button of a notebook that stops a cell, stops it. Then the title says so, and the
    result is that of `simulate` for as many runs as all policies have; if they have none yet, a
    KeyboardInterrupt is raised. With a `file`, the same call resumes from there.

    The numbers are those of `simulate`, bit for bit.

    Parameters
    ----------
    problem, feedback, policies, {names}
        As in `simulate`.
    """
    check_options(options, NOT_OPTIONS)
    if is_notebook() and find_spec("matplotlib") is None:
        raise ValueError("matplotlib must be installed (pip install 'kibitz[figures]'), got nothing")
    screen = Curves(Notebook if is_notebook() else open_window)
    return watch_simulation(screen, problem, feedback, policies, **options)


def watch_simulation(
    screen: Screen, problem: Problem, feedback: Feedback, policies: Policies, **setting: Any
) -> "xarray.Dataset":
    """Play on a screen until all is played, or until Ctrl-C, and return the runs that are there."""
    seen: xarray.Dataset | None = None

    def so_far(data: "xarray.Dataset") -> str:
        return f"{data.sizes['run']} of {int(setting['runs'])} runs"

    def watch(data: "xarray.Dataset") -> None:
        nonlocal seen
        seen = data
        screen.show(data, so_far(data))

    try:
        data = simulate(problem, feedback, policies, **setting, progress=screen.tell, watch=watch)
        words = f"{data.sizes['run']} runs"
    except KeyboardInterrupt:
        if seen is None:
            raise
        data, words = seen, f"stopped after {so_far(seen)}"
    with suppress(KeyboardInterrupt):  # too late to lose anything
        screen.show(data, words)
    return data


# ---------------------------------------------------------------------------------------- screens


class Curves:
    """Regret curves in a notebook or in a window, or nowhere, drawn anew each time."""

    def __init__(self, open_place: "Callable[[], Notebook | Window | None]") -> None:
        self.place = cache(open_place)  # opened when there is first something to draw
        self.data: xarray.Dataset | None = None
        self.words, self.drawn = "", 0.0

    def tell(self, what: str, share: float) -> None:
        """Say in the title what is being compiled, or, before the first run, how far it is."""
        compiling = what.startswith("compiling")
        late = self.data is None and time.monotonic() - self.drawn > SECONDS
        words = what if compiling else f"{what}: {100 * share:.0f} %"
        if words != self.words and (compiling or late):
            self._draw(words)
        if (place := self.place()) is not None:
            place.process_events()

    def show(self, data: "xarray.Dataset", words: str) -> None:
        """Draw the runs that are there."""
        self.data = data
        self._draw(words)

    def _draw(self, words: str) -> None:
        if (place := self.place()) is not None:
            place.draw(self.data, words)
        self.words, self.drawn = words, time.monotonic()


class Notebook:
    """The output of a cell: one figure, replaced by the next."""

    def __init__(self) -> None:
        self.handle: Any = None

    def draw(self, data: "xarray.Dataset | None", title: str) -> None:
        """Draw regret curves."""
        from IPython.display import Image, display

        from kibitz.plotting.figures import draw_regret_curves, render_png

        image = Image(data=render_png(draw_regret_curves(data, title)), width=WIDTH)
        if self.handle is None:
            self.handle = display(image, display_id=True)
        else:
            self.handle.update(image)

    def process_events(self) -> None:
        """Do nothing: a notebook moves by itself."""


def is_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


def open_window() -> "Window | None":
    """Return a window; none without matplotlib, or a display, or what it takes to open one."""
    silent = sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()
    if silent or find_spec("matplotlib") is None:
        return None
    from kibitz.plotting.figures import Window

    try:
        return Window()
    except ImportError:
        return None
