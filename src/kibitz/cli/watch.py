"""`kibitz simulate --watch`: show the results so far, in a window or in a live table."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kibitz.cli.simulate import format_regret
from kibitz.cli.terminal import to_encodable

if TYPE_CHECKING:
    import xarray
    from rich.live import Live

    from kibitz.plotting.race import Screen
    from kibitz.plotting.window import Window

HEADINGS = ("policy", "mean ± s.e.", "regret against log t")
SPARKLINE_WIDTH = 24
BLOCKS, ASCII = "▁▂▃▄▅▆▇█", "_.:-=+*#"  # characters of a sparkline, from low to high


@contextmanager
def open_screen(window: "Window | None") -> Iterator["Screen"]:
    """Yield a screen that draws in `window` or, if `window` is None, a live table on standard error.

    If there is no window and standard error is not a terminal, the screen shows nothing.
    """
    from kibitz.plotting.race import Curves

    if window is not None or not sys.stderr.isatty():
        yield Curves(lambda: window)
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True, highlight=False, markup=False)
    options: Any = {"redirect_stdout": False, "redirect_stderr": False}
    with Live(console=console, auto_refresh=False, transient=True, **options) as live:
        yield LiveTable(live)


class LiveTable:
    """A table in the terminal with the mean regret and a sparkline of each policy."""

    def __init__(self, live: "Live") -> None:
        self.live = live
        self.task = self.title_end = ""
        self.rows: list[list[str]] = []

    def tell(self, activity: str, share: float) -> None:
        """Show the current task and its progress."""
        self.task = (
            activity if activity.startswith("compiling") else f"{activity}: {100 * share:.0f} %"
        )
        self._print()

    def show(self, data: "xarray.Dataset", title_end: str) -> None:
        """Show the mean regret over the completed runs; `title_end` is the end of the title."""
        self.title_end, self.rows = title_end, []
        curves = data["regret"].mean("run").compute()
        for label in data["policy"].to_numpy():
            final_regret = data["final_regret"].sel(policy=label).compute()
            curve_text = sparkline(curves.sel(policy=label), curves.max())
            row = [str(label), format_regret(final_regret), curve_text]
            self.rows.append([to_encodable(cell, sys.stderr) for cell in row])
        self._print()

    def _print(self) -> None:
        from rich.table import Table

        title = ", ".join(filter(None, (self.task, self.title_end)))
        table = Table(title=title, title_justify="left")
        for heading in HEADINGS:
            table.add_column(to_encodable(heading, sys.stderr), no_wrap=True)
        for row in self.rows:
            table.add_row(*row)
        self.live.update(table if self.rows else title, refresh=True)


def sparkline(regret: "xarray.DataArray", max_regret: "xarray.DataArray") -> str:
    """Return a line of block characters: mean regret against the logarithm of the stage.

    The highest block stands for the regret `max_regret`.
    """
    import numpy as np

    stages = np.log(regret["stage"].to_numpy())
    heights = np.interp(np.linspace(0, stages[-1], SPARKLINE_WIDTH), stages, regret.to_numpy())
    characters = BLOCKS if to_encodable(BLOCKS, sys.stderr) == BLOCKS else ASCII
    levels = heights / max(float(max_regret), 1e-300) * (len(characters) - 1)
    return "".join(characters[round(level)] for level in levels)
