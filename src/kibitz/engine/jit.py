"""Build numba dispatchers from marked Python functions (`kibitz._jit`).

`link` copies the function of a kernel. In the copy, it replaces every marked function that the kernel
refers to, directly or indirectly, with a dispatcher of a copy of that function. The originals are not
changed, and nothing is registered with numba.
"""

import contextlib
import gc
import sys
import threading
from collections.abc import Iterator, Sequence
from types import CellType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import numba

from kibitz._hashing import is_from_kibitz, list_global_names
from kibitz._jit import Mark, get_mark
from kibitz.engine.numba_compat import INLINE, PART

_own_dispatchers: "WeakKeyDictionary[Any, Any]" = (
    WeakKeyDictionary()
)  # dispatchers of kibitz's own functions


def link(function: Any, roots: Sequence[tuple[Any, Mark]] = ()) -> FunctionType:
    """Return a copy of a function in which numba dispatchers replace the marked functions.

    numba can compile this copy. `roots` lists functions of the user that have no decorator; each
    comes with the mark that says how to compile it.
    """
    linker = _Linker(roots)
    copy = _copy(function)
    linker.fill(copy, function)
    return copy


class _Linker:
    """Links the functions of one kernel.

    Kernels share the dispatchers of kibitz's own functions. Functions of the user are linked again
    for each kernel, because the values of their globals may have changed.
    """

    def __init__(self, roots: Sequence[tuple[Any, Mark]]) -> None:
        self.roots = {id(root): mark for root, mark in roots}
        self.dispatchers: dict[
            int, tuple[Any, Any]
        ] = {}  # function and dispatcher, by the function's id

    def resolve(self, value: Any) -> Any:
        """Return the dispatcher of a marked function; return any other value unchanged."""
        if not isinstance(value, FunctionType):
            return value
        mark = get_mark(value) or self.roots.get(id(value))
        return value if mark is None else self.make_dispatcher(value, mark)

    def make_dispatcher(self, function: FunctionType, mark: Mark) -> Any:
        if id(function) in self.dispatchers:
            return self.dispatchers[id(function)][1]
        if function in _own_dispatchers:
            return _own_dispatchers[function]
        original: Any = mark.substitute or function
        copy = _copy(original)
        dispatcher = numba.njit(**_options(mark))(copy)
        self.dispatchers[id(function)] = (
            function,
            dispatcher,
        )  # set before `fill`, because the function may be recursive
        self.fill(copy, original)
        if is_from_kibitz(function):
            _own_dispatchers[function] = dispatcher
        return dispatcher

    def fill(self, copy: Any, function: Any) -> None:
        """Give a copy the globals and the closure of its original, with marked functions replaced."""
        for name in list_global_names(function.__code__):
            if name in function.__globals__:
                copy.__globals__[name] = self.resolve(function.__globals__[name])
        for empty_cell, cell in zip(copy.__closure__ or (), function.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # the variable was never assigned
                empty_cell.cell_contents = self.resolve(cell.cell_contents)


def _copy(function: Any) -> FunctionType:
    """Return a copy of a function with empty globals and an empty closure."""
    namespace = {"__name__": function.__module__, "__builtins__": __builtins__}
    cells = tuple(CellType() for _ in function.__closure__ or ())
    copy = FunctionType(function.__code__, namespace, function.__name__, function.__defaults__, cells)
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
    return copy


def _options(mark: Mark) -> dict[str, Any]:
    """Return numba's options for a marked function."""
    inline = {} if mark.allocates else dict(INLINE)
    if not mark.inline:
        inline.pop("forceinline", None)
    return {"error_model": "numpy", "no_cpython_wrapper": True, **PART, **inline}


@contextlib.contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt after the `with` block if Python ignored it inside the block.

    LLVM calls numba back when machine code is ready, and Python ignores exceptions in such callbacks.
    Only the main thread receives interrupts.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupts, original_hook = [], sys.unraisablehook
    sys.unraisablehook = lambda error: (
        interrupts.append(error.exc_type)
        if error.exc_type is not None and issubclass(error.exc_type, KeyboardInterrupt)
        else original_hook(error)
    )
    try:
        yield
    except Exception:  # an interrupted callback makes numba fail later
        if not interrupts:
            raise
    finally:
        sys.unraisablehook = original_hook
    if interrupts:
        raise KeyboardInterrupt


@contextlib.contextmanager
def gc_disabled() -> Iterator[None]:
    """Disable the garbage collector in a `with` block, which saves a fifth of the compile time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
