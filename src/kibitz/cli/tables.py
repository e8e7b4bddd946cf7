"""Printing: tables and sentences for people, JSON for programs, progress on standard error."""

import json
import math
import os
import sys
import textwrap
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kibitz.cli.terminal import spelled


class Page:
    """Standard output, as wide as the terminal, or as COLUMNS, or as said."""

    def __init__(self, width: int) -> None:
        from rich.console import Console

        asked = sys.stdout.isatty() or "COLUMNS" in os.environ
        self.console = Console(width=None if asked else width, highlight=False, markup=False)

    def text(self, text: str = "") -> None:
        """Print a sentence, wrapped at the end of a line."""
        self.console.print(spelled(text, sys.stdout))

    def table(
        self,
        title: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        lead: int = 1,
        left: Collection[str] = (),
        folded: Collection[str] = (),
    ) -> None:
        """Print a table; if it is too wide, several with the same `lead` columns in front.

        Cells are never cut. Those of `folded` columns may be wrapped at spaces.
        """
        from rich.console import Console
        from rich.table import Table

        heads = [spelled(column, sys.stdout) for column in columns]
        cells = [[spelled(cell, sys.stdout) for cell in row] for row in rows]
        widths = []  # the least of each column
        for k, head in enumerate(heads):
            shown = [row[k] for row in cells]
            words = [word for cell in shown for word in cell.split()]
            pieces = [*head.split(), *(words if columns[k] in folded else shown), ""]
            widths.append(max(map(len, pieces)))
        natural = [max([len(head), *(len(row[k]) for row in cells)]) for k, head in enumerate(heads)]
        room = self.console.width
        groups = [list(range(len(columns)))]
        if _full_width(natural) > room:
            heads = ["\n".join(textwrap.wrap(h, w)) for h, w in zip(heads, widths, strict=True)]
            groups = _grouped(widths, lead, room)
        for n, group in enumerate(groups):
            table = Table(title=None if n else spelled(title, sys.stdout), title_justify="left")
            for k in group:
                is_left = k == 0 or columns[k] in left
                table.add_column(
                    heads[k],
                    justify="left" if is_left else "right",
                    min_width=widths[k],
                    no_wrap=columns[k] not in folded,
                )
            for row in cells:
                table.add_row(*(row[k] for k in group))
            least = _full_width([widths[k] for k in group])
            if least > room:  # a terminal too narrow for one column
                Console(width=least, highlight=False, markup=False).print(table)
            else:
                self.console.print(table)


def _full_width(widths: Sequence[int]) -> int:
    return sum(widths) + 3 * len(widths) + 1


def _grouped(widths: Sequence[int], lead: int, room: int) -> list[list[int]]:
    """Split columns into groups that fit, each with the first `lead` columns and some more."""
    groups: list[list[int]] = []
    for k in range(lead, len(widths)):
        if not groups or _full_width([widths[j] for j in [*groups[-1], k]]) > room:
            groups.append(list(range(lead)))
        groups[-1].append(k)
    return groups


def shorten(text: str, most: int = 70) -> str:
    """Return the beginning of a long list."""
    return text if len(text) <= most else text[: text.rindex(" ", 0, most)] + " …"


def print_json(data: Any) -> None:
    """Print plain data as one JSON object, whatever its numbers are."""
    print(json.dumps(for_json(data), allow_nan=False))


def for_json(data: Any) -> Any:
    """Return plain data with infinite numbers as the strings "inf" and "-inf", NaN as none."""
    if isinstance(data, dict):
        return {key: for_json(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [for_json(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return None if math.isnan(data) else str(data)
    return data


@contextmanager
def progress_bar() -> Iterator[Callable[[str, float], None]]:
    """Show progress on standard error, for work that takes longer than a second, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda what, share: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    started = time.monotonic()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=1.0)

    def show(what: str, share: float) -> None:
        if not bar.live.is_started and (time.monotonic() - started > 1 or "compiling" in what):
            bar.start()
        bar.update(task, description=what, completed=share)

    try:
        yield show
    finally:
        if bar.live.is_started:
            bar.stop()
