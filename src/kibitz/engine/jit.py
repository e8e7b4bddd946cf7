"""Functions that are plain in Python and compiled in compiled code; loops kept between starts.

A function decorated with `jit` stays what it is: Python calls it as it stands, a debugger steps
through it, and nothing is compiled. Where compiled code calls it, numba compiles it into its caller.
Only the loop around a simulation is compiled as a whole, by `compiled_loop`.

numba's own `cache=True` watches one source file. A simulation loop is compiled around the functions
of a policy, which live elsewhere: numba would either never find the loop again, or return the old
policy's numbers after the policy was edited. Here a compiled loop is stored in a file named by a
hash of everything it was made from (`content.content_hash`), together with the signature, the
processor and the versions. Another formula is another file, so a stale one cannot be found, a file
is never rewritten, and several processes cannot disturb each other. Whatever goes wrong with the
folder means compiling again, never failing.
"""

import contextlib
import gc
import hashlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

import numba
import numpy as np
import platformdirs
from numba.extending import register_jitable

from kibitz._files import write_whole
from kibitz._validation import refused
from kibitz.engine.content import content_hash, named_by
from kibitz.engine.numba_compat import CAN_KEEP, INLINE, LOOP, KeptCode, compiled_address, keep

KEPT_FILES = 500  # of about 200 kB each
LAYOUT = 8  # of what is kept; another number, and all is compiled anew
VERSIONS = (LAYOUT, sys.version, np.__version__)

F = TypeVar("F", bound=Callable[..., Any])


class Decorator(Protocol):
    """What lets compiled code call a function and, to Python, leaves it as it is."""

    def __call__(self, function: F, /) -> F: ...


_RARE = {name: value and name != "forceinline" for name, value in INLINE.items()}
_OPTIONS: dict[str, dict[str, Any]] = {
    "jit": INLINE,
    "jit_rare": _RARE,
    "jit_init": {},
}
_KIND = "kibitz_compiles_as"  # an attribute of a function, which stays with it when it is sent


def _decorator(kind: str) -> Decorator:
    register = register_jitable(error_model="numpy", **_OPTIONS[kind])

    def decorate(function: F) -> F:
        setattr(function, _KIND, kind)
        _registered.add(function)
        known: F = register(function)
        return known

    return decorate


_registered: "WeakSet[Any]" = WeakSet()  # the functions that numba knows in this process

#: For a function of a policy or of the engine. It becomes a part of each function that calls it: its
#: arguments are tuples of arrays, dozens of words, which cost more to hand over than it takes.
#: Division is as in NumPy, so that loops vectorise. References to arrays are not counted, which would
#: cost more than all the rest, so that such a function cannot make arrays.
jit: Decorator = _decorator("jit")

#: The same for functions that are called too rarely to be worth more code, or are handed little.
jit_rare: Decorator = _decorator("jit_rare")

#: For a function that makes arrays, as the `init` of a policy does.
jit_init: Decorator = _decorator("jit_init")


def jit_again(function: Any) -> None:
    """Tell numba of a function that was sent here from another process, and of all that it names."""
    for thing in named_by(function):
        kind = getattr(thing, _KIND, None)
        if kind is not None and thing not in _registered:
            _decorator(kind)(thing)


def jit_copy(function: Any) -> Any:
    """Return a copy of a user's function that compiled code can call.

    numba compiles a function once, with the values that its global names have then. A copy for each
    policy is compiled anew, with those that they have now.
    """
    plain = getattr(function, "py_func", function)  # of what numba has compiled already
    if not isinstance(plain, FunctionType):
        raise refused("function", "one that is written in Python", function)
    copy = FunctionType(
        plain.__code__, plain.__globals__, plain.__name__, plain.__defaults__, plain.__closure__
    )
    copy.__kwdefaults__ = plain.__kwdefaults__
    copy.__qualname__, copy.__module__ = plain.__qualname__, plain.__module__
    return jit(copy)


def kept_folder() -> Path:
    """Return the folder that compiled loops are kept in."""
    return Path(platformdirs.user_cache_dir("kibitz", appauthor=False)) / "compiled"


_loaded: dict[str, Any] = {}  # by content: loading takes a while, too


@contextlib.contextmanager
def hearing_interrupts() -> Iterator[None]:
    """Raise, after the block, a KeyboardInterrupt that came where Python cannot raise it.

    LLVM calls numba back when machine code is done. A Ctrl-C of the second before is noticed there,
    and what a callback raises is ignored. Only the main thread is interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    lost, report = [], sys.unraisablehook
    sys.unraisablehook = lambda error: (
        lost.append(error.exc_type)
        if error.exc_type is not None and issubclass(error.exc_type, KeyboardInterrupt)
        else report(error)
    )
    try:
        yield
    except Exception:  # as if numba were to blame for what the callback did not do
        if not lost:
            raise
    finally:
        sys.unraisablehook = report
    if lost:
        raise KeyboardInterrupt


@contextlib.contextmanager
def collecting_nothing() -> Iterator[None]:
    """Collect no garbage in the block: to look for some takes a fifth of the time of numba."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def compiled_loop(function: Any, announce: Callable[[], None] | None = None) -> Any:
    """Return a loop that is compiled, or found among the kept ones, when it is first called."""
    if numba.config.DISABLE_JIT:
        return function
    loop = _kept(function, {"nogil": True})
    announce_by(loop, announce)
    return loop


def address_of(formula: Any) -> int:
    """Compile a function as `private.FORMULA` has it, or find it; return where it is in memory."""
    return compiled_address(_kept(formula, {"no_cfunc_wrapper": True, **_RARE}))


def _kept(function: Any, options: dict[str, Any]) -> Any:
    """Return a function that numba compiles, or finds among what is kept."""
    content = content_hash((function, options))
    if content not in _loaded:
        # The name enters that of the machine code: two policies must never share one.
        function.__qualname__ = f"{function.__name__}_{content[:24]}"
        _loaded[content] = numba.njit(error_model="numpy", **LOOP, **options)(function)
        if CAN_KEEP:
            keep(_loaded[content], _kept_code(content))
    return _loaded[content]


def announce_by(loop: Any, announce: Callable[[], None] | None) -> None:
    """Have a function called if a loop is not found among the kept ones and compilation begins."""
    if not numba.config.DISABLE_JIT:
        _announce[loop] = announce


_announce: dict[Any, Callable[[], None] | None] = {}


def _kept_code(content: str) -> KeptCode:
    def path(key: str) -> Path:
        name = hashlib.sha256(repr((content, key, VERSIONS)).encode()).hexdigest()
        return kept_folder() / f"{name}.kept"

    def has(key: str) -> bool:
        return path(key).is_file()

    def load(key: str) -> bytes | None:
        with contextlib.suppress(OSError):
            data = path(key).read_bytes()
            if hashlib.sha256(data[32:]).digest() == data[:32]:
                return data[32:]
        announce = _announce.get(_loaded[content])
        if announce is not None:
            announce()
        return None

    def save(key: str, data: bytes) -> None:
        with contextlib.suppress(Exception):  # a full or unwritable folder, Ctrl-C inside of LLVM
            kept_folder().mkdir(parents=True, exist_ok=True)
            write_whole(path(key), hashlib.sha256(data).digest() + data)
            for old in sorted(kept_folder().glob("*.kept"), key=os.path.getmtime)[:-KEPT_FILES]:
                old.unlink()

    return KeptCode(has, load, save, str(kept_folder()))
