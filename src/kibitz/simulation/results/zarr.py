"""Results larger than memory: a folder of Zarr chunks (version 3), written job by job.

Each recorded quantity is an array. A chunk of the array holds a block of runs of one cell, or the
summary of one cell. Each chunk is a file that is written atomically; a missing file means that the
runs of its chunk must still be played. The position of a label never changes, so no chunk moves when
policies, values or runs are added. Any Zarr reader opens the folder. kibitz also reads the file
`kibitz.json.gz` in the folder, which holds the request so far and the fingerprint of each cell.
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
from kibitz.simulation.jobs import Outcome
from kibitz.simulation.results import dataset
from kibitz.simulation.results.dataset import RECORDED, Axes, Fingerprint, Key, Sweep
from kibitz.simulation.results.summary import STATISTICS

if TYPE_CHECKING:
    import xarray

INDEX_FILE = "kibitz.json.gz"
KINDS = {"int64": "<i8", "float64": "<f8", "bool": "?"}
Array = NDArray[Any]


class ZarrResults:
    """A result in a folder; at most one chunk at a time is in memory."""

    def __init__(
        self,
        path: Path,
        swept: Sweep,
        keep: str,
        stages: NDArray[np.int64],
        n_arms: int,
        block: Callable[[], int],
    ) -> None:
        """Open a folder, or prepare a new folder with `block()` runs per chunk."""
        self.path, self.swept, self.keep, self.stages = path, swept, keep, stages
        self.n_arms = n_arms
        self.axes = Axes(swept)
        self.fingerprints: dict[Key, Fingerprint] = {}
        self.runs = 0  # the largest number of runs requested so far
        self.labels_outdated = False  # whether the labels on disk must be written again
        self.partial_chunks: set[str] = set()  # names of stored chunks that will hold more runs
        self.stored_chunks: set[str] = set()  # names of stored chunks, made from cell and block
        blank = dataset.empty_rows(keep, 1, stages.size, n_arms)._asdict()
        self.arrays: dict[str, tuple[tuple[str, ...], Array, str]] = {
            **{name: (dims, blank[name], long_name) for name, (dims, long_name) in RECORDED.items()},
            "final_regret": ((), blank["error"], dataset.FINAL),
        }  # by name: further dimensions, an empty row and the long name
        self.block = len(STATISTICS)
        if path.exists() and any(path.iterdir()):
            self._open()
        elif keep == "runs":
            self.block = block()

    # --------------------------------------------------------------------------------- requests

    def prepare(self, fingerprints: dict[Key, Fingerprint], runs: int) -> None:
        for key, fingerprint in fingerprints.items():
            if key in self.fingerprints:
                dataset.check_same(self.path, key, self.fingerprints[key], fingerprint)
        if self.keep == "summary" and self.runs:
            dataset.check_count(self.path, self.runs, runs)
        before, self.runs = self.runs, max(runs, self.runs)
        if self.runs > before and before % self.block:  # the last chunk of each cell gets more runs
            positions = product(*map(range, self.axes.shape))
            self.partial_chunks = {_name(position, before // self.block) for position in positions}
            self.stored_chunks -= self.partial_chunks
        new = fingerprints.keys() - self.fingerprints.keys()
        self.labels_outdated = self.labels_outdated or bool(new) or self.runs > before
        for key, fingerprint in fingerprints.items():
            self.fingerprints[key] = fingerprint
            self.axes.add(key)

    def missing(self, key: Key, runs: int) -> NDArray[np.int64]:
        """Return the runs that must be played to complete the first `runs` runs, in whole chunks."""
        position = self.axes.position(key)
        if self.keep == "summary":
            return np.arange(0 if _name(position, 0) in self.stored_chunks else runs)
        firsts = [
            n * self.block
            for n in range(math.ceil(runs / self.block))
            if _name(position, n) not in self.stored_chunks
        ]
        blocks = [np.arange(first, min(first + self.block, self.runs)) for first in firsts]
        return np.concatenate([np.zeros(0, np.int64), *blocks])

    def result(self, keys: list[Key], runs: int) -> "xarray.Dataset":
        """Return the requested cells, read lazily."""
        import xarray

        data = xarray.open_zarr(self.path)
        requested = Axes(self.swept, keys)
        positions: dict[str, Any] = {
            dim: [position_of[label] for label in labels]
            for dim, labels, position_of in zip(
                requested.dims, requested.positions, self.axes.positions, strict=True
            )
            if list(labels) != list(position_of)
        }
        if self.keep == "runs" and runs < self.runs:
            positions["run"] = slice(runs)
        return data.isel(positions) if positions else data

    # ----------------------------------------------------------------------------------- reading

    def _open(self) -> None:
        """Read the index and find the stored chunks."""
        try:
            index = json.loads(gzip.decompress((self.path / INDEX_FILE).read_bytes()))
            if index["format"] > FORMAT:
                raise dataset.unreadable(
                    self.path, f"format {index['format']} needs a later version of kibitz"
                )
            if index["format"] < 3:
                raise dataset.unreadable(self.path, "an unreleased version of kibitz wrote it")
            dataset.check_sweep(
                self.path,
                (Sweep(tuple(index["swept"]), index["grid"]), index["keep"]),
                (self.swept, self.keep),
            )
            dataset.check_stages(self.path, np.array(index["stages"], np.int64), self.stages)
            self.runs, self.block = index["runs"], index["block"]
            for cell in index["cells"]:
                key = (self.swept.value(cell["value"]), cell["policy"])
                self.fingerprints[key] = cell["fingerprint"]
                self.axes.add(key)
        except (OSError, EOFError, KeyError, TypeError, json.JSONDecodeError, zlib.error) as error:
            raise dataset.unreadable(self.path, f"{type(error).__name__}: {error}") from None
        self._find_chunks()
        root, index_file = self.path / "zarr.json", self.path / INDEX_FILE
        is_current = root.exists() and root.stat().st_mtime_ns >= index_file.stat().st_mtime_ns
        self.labels_outdated = not is_current  # a process was killed while it wrote the labels

    def _find_chunks(self) -> None:
        """Find the chunks that are stored in all arrays.

        Empty files do not count, because a power failure may leave empty files.
        """
        found: list[set[str]] = []
        for name, (_, empty, _) in self.arrays.items():
            folder = self._folder(name)
            remove_stale_temp_files(folder)
            files = [f for f in folder.iterdir() if f.name.startswith("c.") and f.stat().st_size]
            ends = len(".0") * (empty.ndim - 1)
            found.append({file.name[2 : len(file.name) - ends] for file in files})
        self.stored_chunks = set.intersection(*found)

    # ----------------------------------------------------------------------------------- writing

    def write(self, key: Key, first: int, rows: Outcome) -> None:
        """Write the chunk of a cell that begins with row `first`."""
        self.save()
        position, block = self.axes.position(key), first // self.block
        end = np.searchsorted(self.stages, self.fingerprints[key]["horizon"])
        new = {**rows._asdict(), "final_regret": rows.regret[:, end]}
        for name, (_, empty, _) in self.arrays.items():
            chunk = np.broadcast_to(empty, (self.block, *empty.shape[1:])).copy()
            chunk[tuple(map(slice, new[name].shape))] = new[name]
            write_atomic(
                self._file(name, _name(position, block)), encode_chunk(chunk), best_effort=True
            )
        self.stored_chunks.add(_name(position, block))

    def save(self) -> None:
        """Write the labels if they changed; `write` has written the chunks."""
        if self.labels_outdated:
            for name in self.partial_chunks:
                self._file("final_regret", name).unlink(missing_ok=True)
            self._write_labels()
            self.labels_outdated = False

    def _file(self, array: str, name: str) -> Path:
        further = ".0" * (self.arrays[array][1].ndim - 1)
        return self.path / array / f"c.{name}{further}"

    def _folder(self, name: str) -> Path:
        folder = self.path / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _write_labels(self) -> None:
        """Write everything except the chunks: first the index, last the metadata."""
        self.path.mkdir(exist_ok=True)
        write_atomic(
            self.path / INDEX_FILE, gzip.compress(json.dumps(self._index()).encode(), 1, mtime=0)
        )
        rows = np.arange(self.runs) if self.keep == "runs" else np.array(STATISTICS)
        small: dict[str, tuple[tuple[str, ...], Array]] = {
            **{name: ((dim,), np.array(v)) for name, (dim, v) in self.axes.coordinates.items()},
            dataset.row_dimension(self.keep): ((dataset.row_dimension(self.keep),), rows),
            "stage": (("stage",), self.stages),
            "arm": (("arm",), np.arange(self.n_arms)),
        }
        described = {}
        for name, (dims, values) in small.items():
            described[name] = array_metadata(dims, values.shape, values.shape, values.dtype)
            write_atomic(self._folder(name) / "c.0", encode_chunk(values))
        leading_dims, ones = (
            (*self.axes.dims, dataset.row_dimension(self.keep)),
            (1,) * len(self.axes.dims),
        )
        for name, (dims, empty, long_name) in self.arrays.items():
            shape = (*self.axes.shape, len(rows), *empty.shape[1:])
            chunk = (*ones, self.block, *empty.shape[1:])
            one = array_metadata((*leading_dims, *dims), shape, chunk, empty.dtype, empty.flat[0])
            described[name] = {**one, "attributes": {"long_name": long_name}}
        for name, one in described.items():
            write_atomic(self._folder(name) / "zarr.json", json.dumps(one).encode())
        group = {
            "zarr_format": 3,
            "node_type": "group",
            "attributes": dataset.attributes(self.fingerprints),
            "consolidated_metadata": {
                "kind": "inline", "must_understand": False, "metadata": described,
            },
        }  # fmt: skip
        write_atomic(self.path / "zarr.json", json.dumps(group).encode())

    def _index(self) -> dict[str, Any]:
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


def _name(position: tuple[int, ...], block: int) -> str:
    return ".".join(map(str, (*position, block)))


def array_metadata(
    dims: tuple[str, ...], shape: Any, chunk: Any, kind: np.dtype[Any], blank: Any = None
) -> dict[str, Any]:
    """Return the Zarr metadata of an array; `blank` is the value in missing chunks."""
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


def encode_chunk(values: Array) -> bytes:
    """Return the bytes of a chunk; equal arrays give equal bytes."""
    if values.dtype.kind in "UO":
        texts = [str(text).encode() for text in values.flat]
        sizes = [struct.pack("<I", len(text)) for text in texts]
        parts = [size + text for size, text in zip(sizes, texts, strict=True)]
        content = struct.pack("<I", len(texts)) + b"".join(parts)
    else:
        content = np.ascontiguousarray(values, KINDS[values.dtype.name]).tobytes()
    return gzip.compress(content, 1, mtime=0)
