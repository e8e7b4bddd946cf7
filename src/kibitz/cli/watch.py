"""`kibitz simulate --watch`: a window if there can be one, else a table that changes."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kibitz.cli.simulate import mean_and_error
from kibitz.cli.terminal import spelled

if TYPE_CHECKING:
    import xarray
    from rich.live import Live

    from kibitz.plotting.figures import Window
    from kibitz.plotting.race import Screen

HEADS = ("policy", "mean ± s.e.", "regret against log t")
WIDTH = 24  # of a curve, in letters
BLOCKS, ASCII = "▁▂▃▄▅▆▇█", "_.:-=+*#"  # what it is drawn with, from low to high


@contextmanager
def screen(window: "Window | None") -> Iterator["Screen"]:
    """Give a window, or a table on standard error if that is a terminal, or nothing to look at."""
    from kibitz.plotting.race import Curves

    if window is not None or not sys.stderr.isatty():
        yield Curves(lambda: window)
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True, highlight=False, markup=False)
    asis: Any = {"redirect_stdout": False, "redirect_stderr": False}
    with Live(console=console, auto_refresh=False, transient=True, **asis) as live:
        yield Lines(live)


class Lines:
    """A table of mean regret, with a small curve for each policy."""

    def __init__(self, live: "Live") -> None:
        self.live = live
        self.what = self.words = ""
        self.rows: list[list[str]] = []

    def tell(self, what: str, share: float) -> None:
        """Say what is being done."""
        self.what = what if what.startswith("compiling") else f"{what}: {100 * share:.0f} %"
        self._print()

    def show(self, data: "xarray.Dataset", words: str) -> None:
        """Show the runs that are there."""
        self.words, self.rows = words, []
        curves = data["regret"].mean("run").compute()
        for label in data["policy"].to_numpy():
            final = data["final_regret"].sel(policy=label).compute()
            row = [
                str(label),
                mean_and_error(final),
                curve_of(curves.sel(policy=label), curves.max()),
            ]
            self.rows.append([spelled(cell, sys.stderr) for cell in row])
        self._print()

    def _print(self) -> None:
        from rich.table import Table

        title = ", ".join(filter(None, (self.what, self.words)))
        table = Table(title=title, title_justify="left")
        for head in HEADS:
            table.add_column(spelled(head, sys.stderr), no_wrap=True)
        for row in self.rows:
            table.add_row(*row)
        self.live.update(table if self.rows else title, refresh=True)


def curve_of(regret: "xarray.DataArray", top: "xarray.DataArray") -> str:
    """Return mean regret against the logarithm of the stage as a line of letters."""
    import numpy as np

    stages = np.log(regret["stage"].to_numpy())
    heights = np.interp(np.linspace(0, stages[-1], WIDTH), stages, regret.to_numpy())
    letters = BLOCKS if spelled(BLOCKS, sys.stderr) == BLOCKS else ASCII
    places = heights / max(float(top), 1e-300) * (len(letters) - 1)
    return "".join(letters[round(place)] for place in places)
