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

    from kibitz.plotting.figures import Window
    from kibitz.plotting.race import Screen

HEADS = ("policy", "mean ± s.e.", "regret against log t")
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
        self.task = self.words = ""
        self.rows: list[list[str]] = []

    def tell(self, what: str, share: float) -> None:
        """Show the current task and its progress."""
        self.task = what if what.startswith("compiling") else f"{what}: {100 * share:.0f} %"
        self._print()

    def show(self, data: "xarray.Dataset", words: str) -> None:
        """Show the mean regret over the completed runs; `words` is a part of the title."""
        self.words, self.rows = words, []
        curves = data["regret"].mean("run").compute()
        for label in data["policy"].to_numpy():
            final = data["final_regret"].sel(policy=label).compute()
            line = sparkline(curves.sel(policy=label), curves.max())
            row = [str(label), format_regret(final), line]
            self.rows.append([to_encodable(cell, sys.stderr) for cell in row])
        self._print()

    def _print(self) -> None:
        from rich.table import Table

        title = ", ".join(filter(None, (self.task, self.words)))
        table = Table(title=title, title_justify="left")
        for head in HEADS:
            table.add_column(to_encodable(head, sys.stderr), no_wrap=True)
        for row in self.rows:
            table.add_row(*row)
        self.live.update(table if self.rows else title, refresh=True)


def sparkline(regret: "xarray.DataArray", top: "xarray.DataArray") -> str:
    """Return a line of block characters: mean regret against the logarithm of the stage.

    The highest block stands for the regret `top`.
    """
    import numpy as np

    stages = np.log(regret["stage"].to_numpy())
    heights = np.interp(np.linspace(0, stages[-1], SPARKLINE_WIDTH), stages, regret.to_numpy())
    letters = BLOCKS if to_encodable(BLOCKS, sys.stderr) == BLOCKS else ASCII
    places = heights / max(float(top), 1e-300) * (len(letters) - 1)
    return "".join(letters[round(place)] for place in places)
