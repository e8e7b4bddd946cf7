"""Print tables and text for people, JSON for programs, and a progress bar on standard error."""

import json
import math
import os
import sys
import textwrap
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kibitz.cli.terminal import to_encodable


class Printer:
    """A printer of text and tables to standard output.

    The lines are as wide as the terminal or as the environment variable COLUMNS says. In a pipe
    without COLUMNS, they are `width` characters wide.
    """

    def __init__(self, width: int = 80) -> None:
        from rich.console import Console

        has_known_width = sys.stdout.isatty() or "COLUMNS" in os.environ
        self.console = Console(
            width=None if has_known_width else width, highlight=False, markup=False
        )

    def text(self, text: str = "") -> None:
        """Print a paragraph, wrapped at spaces."""
        self.console.print(to_encodable(text, sys.stdout))

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
        """Print a table; split a table that is too wide into several tables.

        Each of these tables begins with the first `lead` columns. The first column and the columns in
        `left` are aligned to the left. Cells are never truncated; cells of the columns in `folded`
        may be wrapped at spaces.
        """
        from rich.console import Console
        from rich.table import Table

        headings = [to_encodable(column, sys.stdout) for column in columns]
        cells = [[to_encodable(cell, sys.stdout) for cell in row] for row in rows]
        min_widths, full_widths = [], []
        for k, heading in enumerate(headings):
            column_cells = [row[k] for row in cells]
            cell_words = [word for cell in column_cells for word in cell.split()]
            unbroken_texts = [
                *heading.split(),
                *(cell_words if columns[k] in folded else column_cells),
                "",
            ]
            min_widths.append(max(map(len, unbroken_texts)))
            full_widths.append(max(map(len, [heading, *column_cells])))
        max_width = self.console.width
        groups = [list(range(len(columns)))]
        if _table_width(full_widths) > max_width:
            headings = [
                "\n".join(textwrap.wrap(h, w)) for h, w in zip(headings, min_widths, strict=True)
            ]
            groups = _split_columns(min_widths, lead, max_width)
        for group_index, group in enumerate(groups):
            table = Table(
                title=None if group_index else to_encodable(title, sys.stdout), title_justify="left"
            )
            for k in group:
                is_left_aligned = k == 0 or columns[k] in left
                table.add_column(
                    headings[k],
                    justify="left" if is_left_aligned else "right",
                    min_width=min_widths[k],
                    no_wrap=columns[k] not in folded,
                )
            for row in cells:
                table.add_row(*(row[k] for k in group))
            min_width = _table_width([min_widths[k] for k in group])
            if min_width > max_width:  # the terminal is too narrow even for one column
                Console(width=min_width, highlight=False, markup=False).print(table)
            else:
                self.console.print(table)


def _table_width(widths: Sequence[int]) -> int:
    return sum(widths) + 3 * len(widths) + 1


def _split_columns(widths: Sequence[int], lead: int, max_width: int) -> list[list[int]]:
    """Split columns into groups that are not wider than `max_width`.

    Each group begins with the first `lead` columns. Return the numbers of the columns in each group.
    """
    groups: list[list[int]] = []
    for k in range(lead, len(widths)):
        if not groups or _table_width([widths[j] for j in [*groups[-1], k]]) > max_width:
            groups.append(list(range(lead)))
        groups[-1].append(k)
    return groups


def format_number(value: float, digits: int = 4) -> str:
    """Format a number with `digits` significant digits, such as 1,630 or 0.00038.

    Only numbers below 1e-5 and numbers of at least 1e15 get an exponent.
    """
    rounded_value = float(f"{value:.{digits}g}")
    if not math.isfinite(rounded_value):
        return {math.inf: "∞", -math.inf: "-∞"}.get(rounded_value, "nan")
    if rounded_value and not 1e-5 <= abs(rounded_value) < 1e15:
        mantissa, _, exponent = f"{rounded_value:.{digits}g}".partition("e")
        return f"{mantissa}e{int(exponent)}"
    decimals = digits - 1 - (math.floor(math.log10(abs(rounded_value))) if rounded_value else 0)
    text = f"{rounded_value:,.{max(decimals, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_mean(mean: float, error: float) -> str:
    """Format a mean with its standard error."""
    return f"{format_number(mean)} ± {format_number(error, 2)}"


def shorten(text: str, max_length: int = 70) -> str:
    """Return a text; cut a text of more than `max_length` characters after a word and add "…"."""
    return text if len(text) <= max_length else text[: text.rindex(" ", 0, max_length)] + " …"


def print_json(data: Any) -> None:
    """Print plain data as one JSON object."""
    print(json.dumps(to_json(data), allow_nan=False))


def to_json(data: Any) -> Any:
    """Convert plain data for JSON: infinities become "inf" and "-inf", and NaN becomes None."""
    if isinstance(data, dict):
        return {key: to_json(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [to_json(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return None if math.isnan(data) else str(data)
    return data


@contextmanager
def progress_bar() -> Iterator[Callable[[str, float], None]]:
    """Yield a function that shows progress: `show(activity, share)`, with the share of work done.

    If standard error is a terminal, the bar appears there as soon as code is being compiled or the
    work has taken more than a second.
    """
    if not sys.stderr.isatty():
        yield lambda activity, share: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    start_time = time.monotonic()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=1.0)

    def show_progress(activity: str, share: float) -> None:
        if not bar.live.is_started and (time.monotonic() - start_time > 1 or "compiling" in activity):
            bar.start()
        bar.update(task, description=activity, completed=share)

    try:
        yield show_progress
    finally:
        if bar.live.is_started:
            bar.stop()
