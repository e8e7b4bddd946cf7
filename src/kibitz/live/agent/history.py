"""Validate lists of reports, and parse a history of observations from CSV or JSON lines.

A row has an arm, a reward and a key. The key identifies the observation, so a history that is
imported twice counts once.
"""

import csv
import json
from collections.abc import Iterator
from typing import Any

from kibitz._validation import invalid, short_repr

COLUMNS = ("arm", "reward", "key")

Observation = tuple[str, float, str]


def check_one_name(id: Any, key: Any) -> None:
    """Raise ValueError unless a decision is named either by its id or by its key."""
    if (id is None) == (key is None):
        raise ValueError(
            "either id or key is required to name a decision, but not both, got "
            f"id={short_repr(id)} and key={short_repr(key)}"
        )


def parse_observation(row: Any) -> tuple[Any, Any, Any]:
    """Return the arm, reward and key in a row; raise ValueError if it does not have three values."""
    if not isinstance(row, list | tuple) or len(row) != 3:
        raise invalid("each observation", "a tuple or list (arm, reward, key)", row)
    return row[0], row[1], row[2]


def parse_history(content: str, file_format: str) -> list[Observation]:
    """Return the rows of a file in the format "csv" or "jsonl"; errors name the line."""
    rows = _read_csv(content) if file_format == "csv" else _read_lines(content)
    history: list[Observation] = []
    line_by_key: dict[str, int] = {}
    for line, row in rows:
        observation = _parse_row(row, line)
        first_line = line_by_key.setdefault(observation[2], line)
        if first_line != line:
            raise ValueError(f"lines {first_line} and {line} have the same key; use different keys")
        history.append(observation)
    return history


def _read_csv(content: str) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.DictReader(content.splitlines(), strict=True)
    try:
        if sorted(reader.fieldnames or ()) != sorted(COLUMNS):
            raise ValueError(
                f"the first line must name the columns {','.join(COLUMNS)}, got "
                f"{short_repr(','.join(reader.fieldnames or ()))}"
            )
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise ValueError(f"line {reader.reader.line_num} is not valid CSV: {error}") from None


def _read_lines(content: str) -> Iterator[tuple[int, Any]]:
    for line, text in enumerate(content.split("\n"), 1):
        if text.strip():
            try:
                yield line, json.loads(text)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"line {line} is not valid JSON: {error}") from None


def _parse_row(row: Any, line: int) -> Observation:
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
    return arm, number, key
