"""Results larger than memory: a folder of Zarr chunks (version 3), written job by job.

Each recorded quantity is an array. A chunk of the array holds a block of runs of one cell, or the
summary of one cell. Each chunk is a file that is written atomically; a missing file means that the
runs of its chunk must still be played. The position of a label never changes, so no chunk moves when
policies, values or runs are added. Any Zarr reader opens the folder. kibitz also reads the file
`kibitz.json.gz` in the folder, which holds the request so far and the fingerprint of each cell.
"""

import asyncio
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
from zarr.storage import LocalStore

from kibitz._files import remove_stale_temp_files, write_atomic
from kibitz._netcdf import FORMAT
from kibitz._validation import short_repr
from kibitz.simulation.jobs import Outcome
from kibitz.simulation.results import dataset
from kibitz.simulation.results.dataset import RECORDED, Axes, Fingerprint, Key, Sweep
from kibitz.simulation.results.summary import STATISTICS

if TYPE_CHECKING:
    import xarray

INDEX_FILE = "kibitz.json.gz"
BYTE_CODES = {"int64": "<i8", "float64": "<f8", "bool": "?"}
Array = NDArray[Any]


class ZarrResults:
    """A result in a folder; at most one chunk at a time is in memory."""

    def __init__(
        self,
        path: Path,
        sweep: Sweep,
        keep: str,
        stages: NDArray[np.int64],
        n_arms: int,
        make_block_size: Callable[[], int],
    ) -> None:
        """Open a folder, or prepare a new folder with `make_block_size()` runs per chunk."""
        self.path, self.sweep, self.keep, self.stages = path, sweep, keep, stages
        self.n_arms = n_arms
        self.axes = Axes(sweep)
        self.fingerprints: dict[Key, Fingerprint] = {}
        self.runs = 0  # the largest number of runs requested so far
        self.labels_outdated = False  # whether the labels on disk must be written again
        self.partial_chunks: set[str] = set()  # names of stored chunks that will hold more runs
        self.stored_chunks: set[str] = set()  # names of stored chunks, made from cell and block
        empty_row = dataset.empty_rows(keep, 1, stages.size, n_arms)._asdict()
        self.arrays: dict[str, tuple[tuple[str, ...], Array, str]] = {
            **{
                name: (dims, empty_row[name], long_name)
                for name, (dims, long_name) in RECORDED.items()
            },
            "final_regret": ((), empty_row["error"], dataset.FINAL_REGRET_NAME),
        }  # by name: further dimensions, an empty row and the long name
        self.block = len(STATISTICS)
        if path.exists() and any(path.iterdir()):
            self._open()
        elif keep == "runs":
            self.block = make_block_size()

    # --------------------------------------------------------------------------------- requests

    def prepare(self, fingerprints: dict[Key, Fingerprint], runs: int) -> None:
        for key, fingerprint in fingerprints.items():
            if key in self.fingerprints:
                dataset.check_fingerprint(self.path, key, self.fingerprints[key], fingerprint)
        if self.keep == "summary" and self.runs:
            dataset.check_run_count(self.path, self.runs, runs)
        previous_runs, self.runs = self.runs, max(runs, self.runs)
        if (
            self.runs > previous_runs and previous_runs % self.block
        ):  # the last chunk of each cell gets more runs
            positions = product(*map(range, self.axes.shape))
            self.partial_chunks = {
                _chunk_name(position, previous_runs // self.block) for position in positions
            }
            self.stored_chunks -= self.partial_chunks
        new_keys = fingerprints.keys() - self.fingerprints.keys()
        self.labels_outdated = self.labels_outdated or bool(new_keys) or self.runs > previous_runs
        for key, fingerprint in fingerprints.items():
            self.fingerprints[key] = fingerprint
            self.axes.add(key)

    def missing_runs(self, key: Key, runs: int) -> NDArray[np.int64]:
        """Return the runs that must be played to complete the first `runs` runs, in whole chunks."""
        position = self.axes.position(key)
        if self.keep == "summary":
            return np.arange(0 if _chunk_name(position, 0) in self.stored_chunks else runs)
        first_runs = [
            n * self.block
            for n in range(math.ceil(runs / self.block))
            if _chunk_name(position, n) not in self.stored_chunks
        ]
        blocks = [np.arange(first, min(first + self.block, self.runs)) for first in first_runs]
        return np.concatenate([np.zeros(0, np.int64), *blocks])

    def result(self, keys: list[Key], runs: int) -> "xarray.Dataset":
        """Return the requested cells, read lazily."""
        import xarray

        store = CheckedStore(self.path, read_only=True, chunk_sizes=self._chunk_sizes())
        data = xarray.open_zarr(store)
        requested_axes = Axes(self.sweep, keys)
        positions: dict[str, Any] = {
            dim: [position_of[label] for label in labels]
            for dim, labels, position_of in zip(
                requested_axes.dims, requested_axes.positions, self.axes.positions, strict=True
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
                raise dataset.make_unreadable_error(
                    self.path, f"format {index['format']} needs a later version of kibitz"
                )
            if index["format"] < 3:
                raise dataset.make_unreadable_error(
                    self.path, "an unreleased version of kibitz wrote it"
                )
            dataset.check_sweep(
                self.path,
                (Sweep(tuple(index["swept"]), index["grid"]), index["keep"]),
                (self.sweep, self.keep),
            )
            dataset.check_stages(self.path, np.array(index["stages"], np.int64), self.stages)
            self.runs, self.block = index["runs"], index["block"]
            for cell in index["cells"]:
                key = (self.sweep.from_plain(cell["value"]), cell["policy"])
                self.fingerprints[key] = cell["fingerprint"]
                self.axes.add(key)
        except (OSError, EOFError, KeyError, TypeError, json.JSONDecodeError, zlib.error) as error:
            raise dataset.make_unreadable_error(
                self.path, f"{type(error).__name__}: {error}"
            ) from None
        self._find_chunks()
        self.labels_outdated = not self._labels_are_intact()

    def _labels_are_intact(self) -> bool:
        """Return whether the coordinates and the metadata on disk agree with the index.

        They disagree if a process was killed while it wrote them, or if one of the files is damaged
        or deleted. The index holds everything that is needed to write these files again.
        """
        *files, (root, expected_content) = self._make_label_files().items()
        try:
            stored_group = json.loads(root.read_bytes())
            expected_group = json.loads(expected_content)
            for group in (stored_group, expected_group):
                del group["attributes"]["versions"]  # another version may have written the labels
            index_time = (self.path / INDEX_FILE).stat().st_mtime_ns
            return (
                root.stat().st_mtime_ns >= index_time
                and stored_group == expected_group
                and all(file.read_bytes() == content for file, content in files)
            )
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def _find_chunks(self) -> None:
        """Find the chunks that are stored in all arrays.

        Empty files do not count, because a power failure may leave empty files.
        """
        names_by_array: list[set[str]] = []
        for name, (_, empty_row, _) in self.arrays.items():
            folder = self._make_folder(name)
            remove_stale_temp_files(folder)
            files = [f for f in folder.iterdir() if f.name.startswith("c.") and f.stat().st_size]
            suffix_length = len(".0") * (empty_row.ndim - 1)
            names_by_array.append({file.name[2 : len(file.name) - suffix_length] for file in files})
        self.stored_chunks = set.intersection(*names_by_array)

    # ----------------------------------------------------------------------------------- writing

    def write(self, key: Key, first: int, rows: Outcome) -> None:
        """Write the chunk of a cell that begins with row `first`."""
        self.save()
        position, block = self.axes.position(key), first // self.block
        last_index = np.searchsorted(self.stages, self.fingerprints[key]["horizon"])
        values = {**rows._asdict(), "final_regret": rows.regret[:, last_index]}
        for name, (_, empty_row, _) in self.arrays.items():
            chunk = np.broadcast_to(empty_row, (self.block, *empty_row.shape[1:])).copy()
            chunk[tuple(map(slice, values[name].shape))] = values[name]
            write_atomic(
                self._chunk_file(name, _chunk_name(position, block)),
                encode_chunk(chunk),
                best_effort=True,
            )
        self.stored_chunks.add(_chunk_name(position, block))

    def save(self) -> None:
        """Write the labels if they changed; `write` has written the chunks."""
        if self.labels_outdated:
            for name in self.partial_chunks:
                self._chunk_file("final_regret", name).unlink(missing_ok=True)
            self._write_labels()
            self.labels_outdated = False

    def _chunk_file(self, array: str, name: str) -> Path:
        suffix = ".0" * (self.arrays[array][1].ndim - 1)
        return self.path / array / f"c.{name}{suffix}"

    def _make_folder(self, name: str) -> Path:
        folder = self.path / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _write_labels(self) -> None:
        """Write everything except the chunks: first the index, last the metadata."""
        self.path.mkdir(exist_ok=True)
        write_atomic(
            self.path / INDEX_FILE, gzip.compress(json.dumps(self._index()).encode(), 1, mtime=0)
        )
        for file, content in self._make_label_files().items():
            file.parent.mkdir(exist_ok=True)
            write_atomic(file, content)

    def _make_label_files(self) -> dict[Path, bytes]:
        """Return the content of the files with coordinates and metadata, by path.

        The last file has the metadata of the whole folder.
        """
        rows = np.arange(self.runs) if self.keep == "runs" else np.array(STATISTICS)
        coordinates: dict[str, tuple[tuple[str, ...], Array]] = {
            **{name: ((dim,), np.array(v)) for name, (dim, v) in self.axes.coordinates.items()},
            dataset.row_dimension(self.keep): ((dataset.row_dimension(self.keep),), rows),
            "stage": (("stage",), self.stages),
            "arm": (("arm",), np.arange(self.n_arms)),
        }
        files, metadata = {}, {}
        for name, (dims, values) in coordinates.items():
            array_info = array_metadata(dims, values.shape, values.shape, values.dtype)
            metadata[name] = {
                **array_info, "attributes": dataset.COORDINATE_ATTRIBUTES.get(name, {})
            }  # fmt: skip
            files[self.path / name / "c.0"] = encode_chunk(values)
        leading_dims, ones = (
            (*self.axes.dims, dataset.row_dimension(self.keep)),
            (1,) * len(self.axes.dims),
        )
        for name, (dims, empty_row, long_name) in self.arrays.items():
            shape = (*self.axes.shape, len(rows), *empty_row.shape[1:])
            chunk = (*ones, self.block, *empty_row.shape[1:])
            array_info = array_metadata(
                (*leading_dims, *dims), shape, chunk, empty_row.dtype, empty_row.flat[0]
            )
            metadata[name] = {
                **array_info,
                "attributes": dataset.variable_attributes(name, long_name),
            }
        for name, array_info in metadata.items():
            files[self.path / name / "zarr.json"] = json.dumps(array_info).encode()
        group = {
            "zarr_format": 3,
            "node_type": "group",
            "attributes": dataset.attributes(self.fingerprints),
            "consolidated_metadata": {
                "kind": "inline", "must_understand": False, "metadata": metadata,
            },
        }  # fmt: skip
        files[self.path / "zarr.json"] = json.dumps(group).encode()
        return files

    def _chunk_sizes(self) -> dict[str, int]:
        """Return the number of bytes in a chunk of each recorded quantity, before compression."""
        return {name: self.block * row.nbytes for name, (_, row, _) in self.arrays.items()}

    def _index(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "swept": self.sweep.names,
            "grid": self.sweep.grid,
            "keep": self.keep,
            "stages": self.stages.tolist(),
            "runs": self.runs,
            "block": self.block,
            "cells": dataset.list_cells(self.sweep, self.fingerprints),
        }


class CheckedStore(LocalStore):
    """A folder of Zarr chunks whose damaged chunks raise a ValueError that names the file.

    Without this check, the error depends on the damage: a truncated chunk, for example, raises
    EOFError, which the command line takes for an interruption.
    """

    def __init__(
        self, root: Path | str, *, read_only: bool = False, chunk_sizes: dict[str, int] | None = None
    ) -> None:
        """Open a folder; `chunk_sizes` holds the size of a decompressed chunk for some arrays."""
        super().__init__(root, read_only=read_only)
        self.chunk_sizes = chunk_sizes or {}

    async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
        """Return the content of a file, or None if the file does not exist."""
        content = await super().get(key, prototype, byte_range)
        array, _, name = key.rpartition("/")
        if content is not None and byte_range is None and name.startswith("c."):
            damage = await asyncio.to_thread(
                find_damage, content.to_bytes(), self.chunk_sizes.get(array)
            )
            if damage:
                raise ValueError(
                    f"chunk {key} of {short_repr(str(self.root))} is damaged ({damage}); delete this "
                    "file and run the same simulation again, which plays the runs of the chunk again"
                )
        return content


def find_damage(content: bytes, size: int | None) -> str:
    """Return a description of the damage to a compressed chunk, or "" if the chunk is intact.

    `size` is the expected number of bytes after decompression, or None if it is unknown.
    """
    try:
        n_bytes = len(gzip.decompress(content))
    except (OSError, EOFError, zlib.error) as error:
        return str(error)
    return "" if size in {None, n_bytes} else f"it has {n_bytes} bytes instead of {size}"


def _chunk_name(position: tuple[int, ...], block: int) -> str:
    return ".".join(map(str, (*position, block)))


def array_metadata(
    dims: tuple[str, ...], shape: Any, chunk: Any, kind: np.dtype[Any], fill_value: Any = None
) -> dict[str, Any]:
    """Return the Zarr metadata of an array; `fill_value` is the value in missing chunks."""
    is_text = kind.kind in "UO"
    if fill_value is None:
        fill_value = "" if is_text else kind.type(0).item()
    codec: dict[str, Any] = {"name": "bytes", "configuration": {"endian": "little"}}
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": "string" if is_text else kind.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
        "fill_value": "NaN"
        if fill_value != fill_value
        else fill_value
        if is_text
        else kind.type(fill_value).item(),
        "codecs": [
            {"name": "vlen-utf8"} if is_text else codec,
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
        content = np.ascontiguousarray(values, BYTE_CODES[values.dtype.name]).tobytes()
    return gzip.compress(content, 1, mtime=0)
