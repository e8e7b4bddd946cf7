"""Export a log to CSV, JSON lines or netCDF."""

import csv
import io
import json
import math
import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kibitz._files import check_target, write_atomic
from kibitz._netcdf import append_checksum, to_netcdf
from kibitz._validation import invalid
from kibitz.live.events import Event
from kibitz.live.store.queries import PAGE_SIZE

if TYPE_CHECKING:
    import xarray

SUFFIXES = (".csv", ".jsonl", ".nc")


def export(events: Iterable[Event], file: str | os.PathLike[str]) -> None:
    """Write a log to a file atomically, as CSV, JSON lines or netCDF, depending on the suffix."""
    target, suffix = check_export(file), Path(file).suffix
    if suffix == ".nc":
        write_atomic(target, as_netcdf(events))
    else:
        chunks = as_csv(events) if suffix == ".csv" else as_lines(events)
        write_atomic(target, lambda out: out.writelines(chunks))


def check_export(file: str | os.PathLike[str]) -> Path:
    """Return the path of a file to which a log can be exported.

    Raise ValueError if the file cannot be written or its suffix is not supported.
    """
    target = check_target(file, "file")
    if Path(file).suffix not in SUFFIXES:
        raise invalid("file", "a name that ends in .csv, .jsonl or .nc", str(file))
    return target


def as_csv(events: Iterable[Event]) -> Iterator[bytes]:
    """Yield a log as CSV, in chunks of up to `PAGE_SIZE` events."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Event._fields)
    for chunk in split_pages(events):
        writer.writerows(
            ["" if event_field is None else event_field for event_field in event] for event in chunk
        )
        yield text.getvalue().encode()
        text.seek(0)
        text.truncate()
    if text.tell():
        yield text.getvalue().encode()


def as_lines(events: Iterable[Event]) -> Iterator[bytes]:
    """Yield a log as JSON lines, in chunks of up to `PAGE_SIZE` events."""
    for chunk in split_pages(events):
        lines = [json.dumps(event._asdict(), ensure_ascii=False) for event in chunk]
        yield "\n".join([*lines, ""]).encode()


def as_netcdf(events: Iterable[Event]) -> bytes:
    """Return a log as the content of a netCDF file."""
    return append_checksum(to_netcdf(as_dataset(events)))


def split_pages(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Yield lists of up to `PAGE_SIZE` events."""
    event_iterator = iter(events)
    while chunk := list(islice(event_iterator, PAGE_SIZE)):
        yield chunk


def as_dataset(events: Iterable[Event]) -> "xarray.Dataset":
    """Return a log as a dataset with the dimension `seq`.

    A missing id or `shown_by` is 0, a missing reward or probability is NaN, and a missing arm, key or
    bucket is the empty string.
    """
    import xarray

    log = list(events)
    columns: dict[str, Any] = {
        "at": np.array([event.at for event in log], float),
        "kind": np.array([event.kind for event in log], str),
        "id": np.array([event.id or 0 for event in log], np.int64),
        "arm": np.array([event.arm or "" for event in log], str),
        "reward": np.array([math.nan if e.reward is None else e.reward for e in log], float),
        "key": np.array([event.key or "" for event in log], str),
        "probability": np.array(
            [math.nan if e.probability is None else e.probability for e in log], float
        ),
        "bucket": np.array([event.bucket or "" for event in log], str),
        "shown_by": np.array([event.shown_by or 0 for event in log], np.int64),
    }
    return xarray.Dataset(
        {name: ("seq", values) for name, values in columns.items()},
        {"seq": [event.seq for event in log]},
    )
