"""Results larger than memory: a folder of Zarr chunks (version 3), written job by job.

Each recorded quantity is an array in chunks by policy, by what was swept and by block of runs (for a
summary, by cell). A chunk is a file, written whole or not at all, and which files are there says what
is still to be played. Labels keep their places, so that no chunk moves when policies, values or
runs are added. Any reader of Zarr opens the folder. kibitz itself reads one further file of it,
`kibitz.json.gz`: what was asked for so far, and for each cell all that its numbers depend on.
"""

import gzip
import json
import math
import struct
import zlib
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kibitz._files import remove_stale_temp_files, write_atomic
from kibitz._netcdf import FORMAT
from kibitz.simulation.jobs import Played
from kibitz.simulation.results import dataset
from kibitz.simulation.results.dataset import RECORDED, Axes, Fingerprint, Key, Swept
from kibitz.simulation.results.summary import STATISTICS

if TYPE_CHECKING:
    import xarray

ASKED = "kibitz.json.gz"
KINDS = {"int64": "<i8", "float64": "<f8", "bool": "?"}
Array = NDArray[Any]


class ZarrResults:
    """A result in a folder, of which no more than a chunk is in memory."""

    def __init__(
        self,
        path: Path,
        swept: Swept,
        keep: str,
        stages: NDArray[np.int64],
        n_arms: int,
        block: Callable[[], int],
    ) -> None:
        """Open a folder, or plan a new one in which `block()` runs make a chunk."""
        self.path, self.swept, self.keep, self.stages = path, swept, keep, stages
        self.n_arms = n_arms
        self.axes = Axes(swept)
        self.fingerprints: dict[Key, Fingerprint] = {}
        self.runs = 0  # as many as were asked for so far
        self.unwritten = False  # whether the labels are
        self.outgrown: set[str] = set()  # chunks that are there and get more runs
        self.there: set[str] = set()  # the chunks that are, by the names of their cells and blocks
        blank = dataset.nothing(keep, 1, stages.size, n_arms)._asdict()
        self.arrays: dict[str, tuple[tuple[str, ...], Array, str]] = {
            **{name: (dims, blank[name], words) for name, (dims, words) in RECORDED.items()},
            "final_regret": ((), blank["error"], dataset.FINAL),
        }  # by name: the dimensions beside the axes, an empty row, and what it is
        self.block = len(STATISTICS)
        if path.exists() and any(path.iterdir()):
            self._open()
        elif keep == "runs":
            self.block = block()

    # ------------------------------------------------------------------------------------ asking

    def ask(self, fingerprints: dict[Key, Fingerprint], runs: int) -> None:
        for key, fingerprint in fingerprints.items():
            if key in self.fingerprints:
                dataset.check_same(self.path, key, self.fingerprints[key], fingerprint)
        if self.keep == "summary" and self.runs:
            dataset.check_count(self.path, self.runs, runs)
        before, self.runs = self.runs, max(runs, self.runs)
        if self.runs > before and before % self.block:  # the last chunks have room, and get more runs
            places = product(*map(range, self.axes.shape))
            self.outgrown = {_name(place, before // self.block) for place in places}
            self.there -= self.outgrown
        new = fingerprints.keys() - self.fingerprints.keys()
        self.unwritten = self.unwritten or bool(new) or self.runs > before
        for key, fingerprint in fingerprints.items():
            self.fingerprints[key] = fingerprint
            self.axes.add(key)

    def missing(self, key: Key, runs: int) -> NDArray[np.int64]:
        """Return which runs are to be played so that the first `runs` are there: whole chunks."""
        place = self.axes.place(key)
        if self.keep == "summary":
            return np.arange(0 if _name(place, 0) in self.there else runs)
        firsts = [
            n * self.block
            for n in range(math.ceil(runs / self.block))
            if _name(place, n) not in self.there
        ]
        blocks = [np.arange(first, min(first + self.block, self.runs)) for first in firsts]
        return np.concatenate([np.zeros(0, np.int64), *blocks])

    def result(self, keys: list[Key], runs: int) -> "xarray.Dataset":
        """Return the cells that were asked for, read when they are used."""
        import xarray

        data = xarray.open_zarr(self.path)
        asked = Axes(self.swept, keys)
        places: dict[str, Any] = {
            dim: [here[label] for label in labels]
            for dim, labels, here in zip(asked.dims, asked.places, self.axes.places, strict=True)
            if list(labels) != list(here)
        }
        if self.keep == "runs" and runs < self.runs:
            places["run"] = slice(runs)
        return data.isel(places) if places else data

    # ----------------------------------------------------------------------------------- reading

    def _open(self) -> None:
        """Read what was asked for, and find out what is there of it."""
        try:
            asked = json.loads(gzip.decompress((self.path / ASKED).read_bytes()))
            if asked["format"] > FORMAT:
                raise dataset.not_ours(
                    self.path, f"its format {asked['format']} is that of a later version"
                )
            if asked["format"] < 3:
                raise dataset.not_ours(self.path, "an unreleased version of kibitz wrote it")
            dataset.check_swept(
                self.path,
                (Swept(tuple(asked["swept"]), asked["grid"]), asked["keep"]),
                (self.swept, self.keep),
            )
            dataset.check_stages(self.path, np.array(asked["stages"], np.int64), self.stages)
            self.runs, self.block = asked["runs"], asked["block"]
            for cell in asked["cells"]:
                key = (self.swept.value(cell["value"]), cell["policy"])
                self.fingerprints[key] = cell["fingerprint"]
                self.axes.add(key)
        except (OSError, EOFError, KeyError, TypeError, json.JSONDecodeError, zlib.error) as error:
            raise dataset.not_ours(self.path, f"{type(error).__name__}: {error}") from None
        self._look_around()
        root, asked_for = self.path / "zarr.json", self.path / ASKED
        whole = root.exists() and root.stat().st_mtime_ns >= asked_for.stat().st_mtime_ns
        self.unwritten = not whole  # somebody was killed while writing them

    def _look_around(self) -> None:
        """Find out which chunks are there: in all arrays, and not empty as after a power cut."""
        found: list[set[str]] = []
        for name, (_, empty, _) in self.arrays.items():
            folder = self._folder(name)
            remove_stale_temp_files(folder)
            files = [f for f in folder.iterdir() if f.name.startswith("c.") and f.stat().st_size]
            ends = len(".0") * (empty.ndim - 1)
            found.append({file.name[2 : len(file.name) - ends] for file in files})
        self.there = set.intersection(*found)

    # ----------------------------------------------------------------------------------- writing

    def put(self, key: Key, first: int, rows: Played) -> None:
        """Write a chunk of a cell, which begins with the row `first`."""
        self.save()
        place, block = self.axes.place(key), first // self.block
        end = np.searchsorted(self.stages, self.fingerprints[key]["horizon"])
        new = {**rows._asdict(), "final_regret": rows.regret[:, end]}
        for name, (_, empty, _) in self.arrays.items():
            chunk = np.broadcast_to(empty, (self.block, *empty.shape[1:])).copy()
            chunk[tuple(map(slice, new[name].shape))] = new[name]
            write_atomic(self._file(name, _name(place, block)), packed(chunk), best_effort=True)
        self.there.add(_name(place, block))

    def save(self) -> None:
        """Write the labels, if they are not; chunks are written when they are put."""
        if self.unwritten:
            for name in self.outgrown:
                self._file("final_regret", name).unlink(missing_ok=True)
            self._write_labels()
            self.unwritten = False

    def _file(self, array: str, name: str) -> Path:
        further = ".0" * (self.arrays[array][1].ndim - 1)
        return self.path / array / f"c.{name}{further}"

    def _folder(self, name: str) -> Path:
        folder = self.path / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _write_labels(self) -> None:
        """Write all but the chunks: first what is asked for, last what describes the arrays."""
        self.path.mkdir(exist_ok=True)
        write_atomic(self.path / ASKED, gzip.compress(json.dumps(self._asked()).encode(), 1, mtime=0))
        rows = np.arange(self.runs) if self.keep == "runs" else np.array(STATISTICS)
        small: dict[str, tuple[tuple[str, ...], Array]] = {
            **{name: ((dim,), np.array(v)) for name, (dim, v) in self.axes.coordinates.items()},
            dataset.rows_of(self.keep): ((dataset.rows_of(self.keep),), rows),
            "stage": (("stage",), self.stages),
            "arm": (("arm",), np.arange(self.n_arms)),
        }
        described = {}
        for name, (dims, values) in small.items():
            described[name] = description(dims, values.shape, values.shape, values.dtype)
            write_atomic(self._folder(name) / "c.0", packed(values))
        lead, ones = (*self.axes.dims, dataset.rows_of(self.keep)), (1,) * len(self.axes.dims)
        for name, (dims, empty, words) in self.arrays.items():
            shape = (*self.axes.shape, len(rows), *empty.shape[1:])
            chunk = (*ones, self.block, *empty.shape[1:])
            one = description((*lead, *dims), shape, chunk, empty.dtype, empty.flat[0])
            described[name] = {**one, "attributes": {"long_name": words}}
        for name, one in described.items():
            write_atomic(self._folder(name) / "zarr.json", json.dumps(one).encode())
        whole = {
            "zarr_format": 3,
            "node_type": "group",
            "attributes": dataset.attributes(self.fingerprints),
            "consolidated_metadata": {
                "kind": "inline", "must_understand": False, "metadata": described,
            },
        }  # fmt: skip
        write_atomic(self.path / "zarr.json", json.dumps(whole).encode())

    def _asked(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "swept": self.swept.names,
            "grid": self.swept.grid,
            "keep": self.keep,
            "stages": self.stages.tolist(),
            "runs": self.runs,
            "block": self.block,
            "cells": dataset.list_cells(self.swept, self.fingerprints),
        }


def _name(place: tuple[int, ...], block: int) -> str:
    return ".".join(map(str, (*place, block)))


def description(
    dims: tuple[str, ...], shape: Any, chunk: Any, kind: np.dtype[Any], blank: Any = None
) -> dict[str, Any]:
    """Return what Zarr wants to know of an array: `blank` is what chunks that are missing hold."""
    text = kind.kind in "UO"
    if blank is None:
        blank = "" if text else kind.type(0).item()
    codec: dict[str, Any] = {"name": "bytes", "configuration": {"endian": "little"}}
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": "string" if text else kind.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
        "fill_value": "NaN" if blank != blank else blank if text else kind.type(blank).item(),
        "codecs": [
            {"name": "vlen-utf8"} if text else codec,
            {"name": "gzip", "configuration": {"level": 1}},
        ],
        "dimension_names": list(dims),
        "attributes": {},
        "storage_transformers": [],
    }


def packed(values: Array) -> bytes:
    """Return an array as the bytes of a chunk; the same array gives the same bytes."""
    if values.dtype.kind in "UO":
        texts = [str(text).encode() for text in values.flat]
        sizes = [struct.pack("<I", len(text)) for text in texts]
        parts = [size + text for size, text in zip(sizes, texts, strict=True)]
        content = struct.pack("<I", len(texts)) + b"".join(parts)
    else:
        content = np.ascontiguousarray(values, KINDS[values.dtype.name]).tobytes()
    return gzip.compress(content, 1, mtime=0)
