"""The cache of compiled code on disk.

numba's own `cache=True` watches one source file, but a kernel contains functions from several files.
Here the name of a cache file is a hash of all functions of the kernel (`content_hash`), the
signature, the processor and the library versions, so a stale file is never loaded. If a cache file is
damaged or missing, the kernel is compiled again.
"""

import contextlib
import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numba
import numpy as np
import platformdirs

from kibitz._files import write_atomic
from kibitz._hashing import content_hash
from kibitz._jit import Mark
from kibitz.engine.jit import link
from kibitz.engine.numba_compat import (
    CAN_CACHE,
    KERNEL,
    OverloadCache,
    get_codegen,
    get_signature,
    overload_key,
    set_cache,
)

MAX_FILES = 500  # largest number of files in the cache, of about 200 kB each
LAYOUT = 10  # version of the file format; increasing it invalidates all cached files
VERSIONS = (LAYOUT, sys.version, np.__version__)
SUFFIX = ".kernel"


def cache_folder() -> Path:
    """Return the folder that holds compiled code."""
    return Path(platformdirs.user_cache_dir("kibitz", appauthor=False)) / "compiled"


def cached_dispatcher(function: Any, roots: Sequence[tuple[Any, Mark]] = (), **options: Any) -> Any:
    """Return a dispatcher that loads its code from the cache, or compiles it, at the first call.

    `roots` are the functions of the user that `function` refers to, with their marks (see `link`).
    """
    if numba.config.DISABLE_JIT:
        return function
    code_hash = content_hash((function, roots, options))
    if code_hash not in _dispatchers:
        copy = link(function, roots)
        copy.__qualname__ = f"{function.__name__}_{code_hash[:24]}"  # makes the symbol unique
        dispatcher = numba.njit(error_model="numpy", **KERNEL, **options)(copy)
        if CAN_CACHE:
            set_cache(dispatcher, _overload_cache(code_hash))
        _dispatchers[code_hash] = dispatcher
        _contents[dispatcher] = code_hash
    return _dispatchers[code_hash]


_dispatchers: dict[str, Any] = {}
_contents: dict[Any, str] = {}


def is_compiled(dispatcher: Any, arguments: tuple[Any, ...]) -> bool:
    """Return whether compiled code for these arguments exists, in this process or on disk."""
    if numba.config.DISABLE_JIT:
        return True
    signature = get_signature(dispatcher, arguments)
    if signature in dispatcher.overloads:
        return True
    key = overload_key(signature, get_codegen(dispatcher))
    return CAN_CACHE and _load(_cache_path(_contents[dispatcher], key)) is not None


def _overload_cache(code_hash: str) -> OverloadCache:
    return OverloadCache(
        lambda key: _load(_cache_path(code_hash, key)),
        lambda key, data: _save(_cache_path(code_hash, key), data),
        str(cache_folder()),
    )


def _cache_path(code_hash: str, key: str) -> Path:
    name = hashlib.sha256(repr((code_hash, key, VERSIONS)).encode()).hexdigest()
    return cache_folder() / f"{name}{SUFFIX}"


def _load(path: Path) -> bytes | None:
    """Return the compiled code in a cache file, or None if the file is missing or damaged."""
    with contextlib.suppress(OSError):
        data = path.read_bytes()
        if hashlib.sha256(data[32:]).digest() == data[:32]:
            return data[32:]
    return None


def _save(path: Path, data: bytes) -> None:
    with contextlib.suppress(Exception):  # a full or read-only disk, or Ctrl-C inside LLVM
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, hashlib.sha256(data).digest() + data)
        for old_file in sorted(path.parent.glob(f"*{SUFFIX}"), key=os.path.getmtime)[:-MAX_FILES]:
            old_file.unlink()
