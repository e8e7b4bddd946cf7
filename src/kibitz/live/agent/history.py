"""Validate lists of reports, and parse a history of observations from CSV or JSON lines.

A row has an arm, a reward and a key. The key identifies the observation, so a history that is
imported twice counts once.
"""

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from kibitz._progress import show_progress
from kibitz._validation import invalid, short_repr

COLUMNS = ("arm", "reward", "key")
BATCH_SIZE = 1_000  # rows in one transaction

Batch = Callable[[list[tuple[str, tuple[Any, ...]]]], list[Any]]  # `Agent.batch`
Row = tuple[int, str, float, str]  # the line, and the arm, reward and key of an observation


def check_one_name(id: Any, key: Any) -> None:
    """Raise ValueError unless exactly one of `id` and `key` is given."""
    if (id is None) == (key is None):
        raise ValueError(
            "either id or key is required to name a decision, but not both, got "
            f"id={short_repr(id)} and key={short_repr(key)}"
        )


def parse_observation(row: Any, has_key: bool = True) -> tuple[Any, Any, Any]:
    """Return the arm, reward and key in a row; raise ValueError if it does not have three values.

    If `has_key` is False, the row has an arm and a reward only, and the key is None.
    """
    if not has_key:
        if not isinstance(row, list | tuple) or len(row) != 2:
            raise invalid("each observation", "a tuple or list (arm, reward) with shown_by", row)
        return row[0], row[1], None
    if not isinstance(row, list | tuple) or len(row) != 3:
        raise invalid("each observation", "a tuple or list (arm, reward, key)", row)
    return row[0], row[1], row[2]


def read_history(lines: Iterable[str], file_format: str) -> Iterator[Row]:
    """Yield the rows of a file in the format "csv" or "jsonl"; an error names the line."""
    rows = _read_csv(lines) if file_format == "csv" else _read_lines(lines)
    line_by_key: dict[str, int] = {}
    for line, values in rows:
        row = _parse_row(values, line)
        first_line = line_by_key.setdefault(row[3], line)
        if first_line != line:
            raise ValueError(f"lines {first_line} and {line} have the same key; use different keys")
        yield row


def count_rows(
    batch: Batch, rows: Iterable[Row], force: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Report the observations of a history to an agent, in transactions of `BATCH_SIZE` rows.

    `batch` is the agent's method `batch`. After each commit, yield the line of the last row and a
    list with "counted" or "duplicate" for each row. An invalid row raises ValueError, which names the
    line; no row of its transaction is counted.
    """
    row_iterator = iter(rows)
    while group := list(islice(row_iterator, BATCH_SIZE)):
        yield group[-1][0], batch([("observe_line", (*row, force)) for row in group])


def import_file(batch: Batch, file: str, force: bool = False) -> tuple[int, int]:
    """Import a history from a .csv or .jsonl file; return the numbers of counted rows and duplicates.

    The whole file is read and checked before the first row is counted. A row whose key is known is
    not counted again, so an interrupted import is resumed by importing the file again.
    """
    file_format = Path(file).suffix[1:]
    if file_format not in ("csv", "jsonl"):
        raise invalid("file", "a name that ends in .csv or .jsonl", file)
    with show_progress(None, "importing") as report:
        with open_history(file, file_format) as lines:
            n_rows = sum(1 for _ in read_history(lines, file_format))
        results: Counter[str] = Counter()
        last_line = 0
        try:
            with open_history(file, file_format) as lines:
                for line, answers in count_rows(batch, read_history(lines, file_format), force):
                    last_line = line
                    results.update(answers)
                    report("importing", results.total() / n_rows)
        except ValueError as error:
            if not last_line:
                raise
            raise type(error)(
                f"{error}; the rows up to line {last_line} are imported: correct the line and import "
                "the file again"
            ) from None
    return results["counted"], results["duplicate"]


def open_history(file: str, file_format: str) -> TextIO:
    """Open a file for `read_history`.

    Bytes that are not UTF-8 become surrogates, which `_parse_row` rejects.
    """
    newline = "" if file_format == "csv" else "\n"
    return open(file, encoding="utf-8-sig", errors="surrogateescape", newline=newline)


def _read_csv(lines: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.DictReader(lines, strict=True)
    line = 1  # the first line of the row, which may contain line breaks
    try:
        if sorted(reader.fieldnames or ()) != sorted(COLUMNS):
            raise ValueError(
                f"the first line must name the columns {','.join(COLUMNS)}, got "
                f"{short_repr(','.join(reader.fieldnames or ()))}"
            )
        line = reader.line_num + 1
        for row in reader:
            yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"line {line} is not valid CSV: {error}") from None


def _read_lines(lines: Iterable[str]) -> Iterator[tuple[int, Any]]:
    for line, text in enumerate(lines, 1):
        if text.strip():
            try:
                yield line, json.loads(text)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"line {line} is not valid JSON: {error}") from None


def _parse_row(row: Any, line: int) -> Row:
    if not isinstance(row, dict) or set(row) != set(COLUMNS) or None in row.values():
        raise ValueError(f"line {line} must have the fields {', '.join(COLUMNS)} and no others")
    arm, reward, key = (row[name] for name in COLUMNS)
    try:
        number = float(reward)
    except (TypeError, ValueError):
        number = None
    if number is None or isinstance(reward, bool):
        raise ValueError(f"line {line}: reward must be a number, got {short_repr(reward)}")
    if not isinstance(arm, str) or not isinstance(key, str) or not key:
        raise ValueError(f"line {line}: arm and key must be texts, got {short_repr((arm, key))}")
    if re.search("[\udc80-\udcff]", arm + key):
        raise ValueError(f"line {line} is not UTF-8; convert the file to UTF-8")
    return line, arm, number, key
