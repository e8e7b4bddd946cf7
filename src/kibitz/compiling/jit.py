"""Compiled functions, kept between starts under the content of all that they call.

numba's own `cache=True` watches one source file. A simulation loop is compiled around the functions
of a policy, which live elsewhere: numba would either never find the loop again, or return the old
policy's numbers after the policy was edited. Here a compiled loop is stored in a file named by a
hash of everything it was made from (`content_hash`): bytecode and constants of the loop and,
recursively, of each function, class and constant that it names, together with the signature, the
processor and the versions. Another formula is another file, so a stale one cannot be found, a file
is never rewritten, and several processes cannot disturb each other. Whatever goes wrong with the
folder means compiling again, never failing.
"""

import contextlib
import hashlib
import itertools
import os
import pickle
import sys
import tempfile
from collections.abc import Callable
from enum import EnumType
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Protocol, TypeVar

import llvmlite
import llvmlite.binding
import numba
import numpy as np
import platformdirs
from numba.core import serialize
from numba.core.bytecode import FunctionIdentity
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.np.ufunc.dufunc import DUFunc

KEPT_FILES = 500  # of about 200 kB each
KNOWN_BY_VERSION = ("builtins", "math", "numpy", "numba")
LAYOUT = 3  # of what is kept; another number, and all is compiled anew
VERSIONS = (LAYOUT, sys.version, numba.__version__, llvmlite.__version__, np.__version__)

# numba tells functions of one name apart, in machine code, by a number that it counts from 1 in each
# process. Code that another process has kept would clash with that of this one, and the linker would
# silently take the wrong function: let each process count from a place of its own.
FunctionIdentity._unique_ids = itertools.count(int.from_bytes(os.urandom(7), "little"))

F = TypeVar("F", bound=Callable[..., Any])


class Decorator(Protocol):
    """What compiles a function and, to whoever calls it, leaves it as it is."""

    def __call__(self, function: F, /) -> F: ...


#: Compile a function of a policy or of the engine. It becomes a part of each function that calls it:
#: its arguments are tuples of arrays, dozens of words, which cost more to hand over than it takes.
#: Division is as in NumPy, so that loops vectorise. References to arrays are not counted, which would
#: cost more than all the rest, so that such a function cannot make arrays.
jit: Decorator = numba.njit(error_model="numpy", _nrt=False, forceinline=True)

#: The same for functions that only compiled code calls, which saves half of the time to compile.
jit_inner: Decorator = numba.njit(
    error_model="numpy",
    _nrt=False,
    no_cpython_wrapper=True,
    no_cfunc_wrapper=True,
    forceinline=True,
)

#: The same for those that are called too rarely to be worth more code.
jit_rare: Decorator = numba.njit(
    error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True
)

#: Compile a function that makes arrays, as the `init` of a policy does.
jit_init: Decorator = numba.njit(error_model="numpy")


def folder() -> Path:
    """Return the folder that compiled loops are kept in."""
    return Path(platformdirs.user_cache_dir("kibitz", appauthor=False)) / "compiled"


def compiled(function: Any, announce: Callable[[], None] | None = None) -> Any:
    """Compile a top-level loop without the interpreter's lock, or find it among the kept ones.

    `announce` is called when it was not found and compilation begins.
    """
    if numba.config.DISABLE_JIT:
        return function
    content = content_hash(function)
    if content not in _loaded:
        # The name enters that of the machine code: two policies must never share one.
        function.__qualname__ = f"{function.__name__}_{content[:24]}"
        _loaded[content] = numba.njit(error_model="numpy", nogil=True)(function)
    _loaded[content]._cache = _Kept(content, announce)
    return _loaded[content]


_loaded: dict[str, Any] = {}  # by content: loading takes a while, too


def content_hash(function: Any) -> str:
    """Hash a function's bytecode and constants and all that it names, and so on recursively."""
    digest = hashlib.sha256()
    _feed(function, digest.update, {})
    return digest.hexdigest()


def _feed(thing: Any, update: Callable[[bytes], None], seen: dict[int, tuple[int, Any]]) -> None:
    def text(*parts: object) -> None:
        update(("\x1f".join(map(str, parts)) + "\x1e").encode())

    if thing is None or isinstance(thing, int | float | complex | str | bytes | np.generic):
        return text(type(thing).__name__, repr(thing))
    if id(thing) in seen:  # also keeps `thing` alive, so that an id is not given twice
        return text("seen", seen[id(thing)][0])
    seen[id(thing)] = (len(seen), thing)
    if isinstance(thing, Dispatcher):
        options = {name: how for name, how in thing.targetoptions.items() if name != "forceinline"}
        text("compiled", sorted(options.items(), key=str))  # all that numbers may depend on
        _feed(thing.py_func, update, seen)
    elif isinstance(thing, FunctionType):
        text("function", thing.__name__)
        for part in (thing.__defaults__, thing.__kwdefaults__):
            _feed(part, update, seen)
        for cell in thing.__closure__ or ():
            _feed(cell.cell_contents, update, seen)
        _feed(thing.__code__, update, seen)
        names = _names(thing.__code__)
        for name in names:
            value = thing.__globals__.get(name)
            text("name", name)
            _feed(value, update, seen)
            _feed_attributes(value, names, update, seen)
    elif isinstance(thing, CodeType):
        flags = thing.co_flags | CO_OPTIMIZED  # numba drops this one when it runs under a profiler
        text("code", thing.co_argcount, flags, thing.co_names, thing.co_varnames)
        text(thing.co_freevars, thing.co_cellvars)
        update(thing.co_code)
        _feed(thing.co_consts, update, seen)
    elif isinstance(thing, tuple | list | frozenset | set):
        parts = thing if isinstance(thing, tuple | list) else sorted(thing, key=repr)
        text(type(thing).__name__, len(thing))
        for part in parts:
            _feed(part, update, seen)
    elif isinstance(thing, dict):
        _feed(list(thing.items()), update, seen)
    elif isinstance(thing, np.ndarray):
        text("array", thing.dtype, thing.shape)
        update(np.ascontiguousarray(thing).tobytes())
    elif isinstance(thing, DUFunc):
        text("vectorised")
        _feed(thing._dispatcher.py_func, update, seen)
    elif isinstance(thing, EnumType):
        text("enumeration", thing.__module__, thing.__name__)
        members: dict[str, Any] = dict(thing.__members__)
        _feed([(name, member.value) for name, member in members.items()], update, seen)
    elif isinstance(thing, type):
        text("class", thing.__module__, thing.__name__, getattr(thing, "_fields", ""))
    elif isinstance(thing, ModuleType):
        text("module", thing.__name__, getattr(thing, "__version__", ""))
    elif getattr(thing, "__module__", None) in KNOWN_BY_VERSION:
        text("known", thing.__module__, getattr(thing, "__name__", type(thing).__name__))
    else:  # an unknown kind of thing: at worst it is compiled at each start
        text(type(thing).__name__, repr(thing))


def _feed_attributes(
    thing: Any, names: list[str], update: Callable[[bytes], None], seen: dict[int, tuple[int, Any]]
) -> None:
    """Feed what a function may find in a module, and in modules inside of it."""
    known = not isinstance(thing, ModuleType) or thing.__name__.split(".")[0] in KNOWN_BY_VERSION
    if not known and -id(thing) not in seen:
        seen[-id(thing)] = (len(seen), thing)
        for name in names:
            if hasattr(thing, name):
                update(f"attribute {thing.__name__} {name}\x1e".encode())
                _feed(getattr(thing, name), update, seen)
                _feed_attributes(getattr(thing, name), names, update, seen)


def _names(code: CodeType) -> list[str]:
    inner = [name for part in code.co_consts if isinstance(part, CodeType) for name in _names(part)]
    return sorted({*code.co_names, *inner})


class _Kept:
    """What numba asks of a cache, with one file for each content and signature."""

    def __init__(self, content: str, announce: Callable[[], None] | None) -> None:
        self.content = content
        self.announce = announce
        self.cache_path = str(folder())

    def _path(self, signature: Any, codegen: Any) -> Path:
        key = repr((self.content, str(signature), codegen.magic_tuple(), VERSIONS))
        return folder() / f"{hashlib.sha256(key.encode()).hexdigest()}.kept"

    def load_overload(self, signature: Any, target: Any) -> Any:
        target.refresh()
        try:
            data = self._path(signature, target.codegen()).read_bytes()
            if hashlib.sha256(data[32:]).digest() == data[:32]:
                return CompileResult._rebuild(target, *pickle.loads(data[32:]))
        except Exception:  # missing, unreadable or of another make
            pass
        if self.announce is not None:
            self.announce()
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        if result.library.has_dynamic_globals or result.lifted:
            return
        path = self._path(signature, result.codegen)
        with contextlib.suppress(Exception):  # a full or unwritable folder, Ctrl-C inside of LLVM
            (name, kind, (machine_code, _)), *rest = result._reduce()
            library = (name, kind, (machine_code, _outline(result.fndesc)))
            data = serialize.dumps((library, *rest))
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, hashlib.sha256(data).digest() + data)
            for old in sorted(path.parent.glob("*.kept"), key=os.path.getmtime)[:-KEPT_FILES]:
                old.unlink()

    def flush(self) -> None:
        """numba's wish to forget: there is nothing that could be out of date."""


def _outline(function: Any) -> bytes:
    """Return LLVM's bitcode of functions that do nothing, under the names that numba looks up.

    numba would keep all of the code, some megabytes in memory, for others to link with; nobody does.
    """
    names = (function.llvm_func_name, function.llvm_cpython_wrapper_name)
    text = "".join(f'define void @"{name}"() {{ ret void }}\n' for name in names)
    bitcode: bytes = llvmlite.binding.parse_assembly(text).as_bitcode()
    return bitcode


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that nobody ever sees half of it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
