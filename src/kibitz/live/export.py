"""The log as a file: CSV, JSON lines or netCDF."""

import csv
import io
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from kibitz.files import checked_target, write_whole
from kibitz.live.projection import Event
from kibitz.validate import refused

if TYPE_CHECKING:
    import xarray

SUFFIXES = (".csv", ".jsonl", ".nc")


def export(events: Iterable[Event], file: Path) -> None:
    """Write a log to a file, whole or not at all; its name says how."""
    if file.suffix not in SUFFIXES:
        raise refused("file", "one that ends in .csv, .jsonl or .nc", str(file))
    target = checked_target(file, "file")
    if file.suffix == ".nc":
        from kibitz.simulator.results import to_netcdf

        write_whole(target, to_netcdf(as_dataset(events)))
    elif file.suffix == ".csv":
        write_whole(target, lambda out: _csv(events, out))
    else:
        write_whole(target, lambda out: _lines(events, out))


def _csv(events: Iterable[Event], out: BinaryIO) -> None:
    text = io.TextIOWrapper(out, encoding="utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Event._fields)
    for event in events:
        writer.writerow(["" if part is None else part for part in event])
    text.flush()
    text.detach()


def _lines(events: Iterable[Event], out: BinaryIO) -> None:
    for event in events:
        out.write(json.dumps(event._asdict(), ensure_ascii=False).encode() + b"\n")


def as_dataset(events: Iterable[Event]) -> "xarray.Dataset":
    """Return a log as a dataset with one dimension, `seq`; id 0 and NaN where there is none."""
    import xarray

    log = list(events)
    columns: dict[str, Any] = {
        "at": np.array([event.at for event in log], float),
        "kind": np.array([event.kind for event in log], object),
        "id": np.array([event.id or 0 for event in log], np.int64),
        "arm": np.array([event.arm for event in log], object),
        "reward": np.array([math.nan if e.reward is None else e.reward for e in log], float),
        "key": np.array([event.key or "" for event in log], object),
    }
    return xarray.Dataset(
        {name: ("seq", values) for name, values in columns.items()},
        {"seq": [event.seq for event in log]},
    )
