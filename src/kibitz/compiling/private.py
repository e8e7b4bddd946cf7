"""The private parts of numba that kibitz uses: all of them, and what happens where one is missing.

- `_nrt=False` and `forceinline`, options of a function: without reference counting, and as a part of
  its caller, a stage costs half as much. Without them everything is slower, and right.
- `Dispatcher._cache` with `CompileResult._reduce` and `_rebuild`: compiled loops are kept between
  starts. Without them every process compiles its own.
- `FunctionIdentity._unique_ids`: see `count_from_a_random_number`. Without it nothing is kept.
"""

import itertools
import os
import pickle
from collections.abc import Callable
from typing import Any

import llvmlite.binding
import numba

try:
    from numba.core import serialize
    from numba.core.bytecode import FunctionIdentity
    from numba.core.compiler import CompileResult
    from numba.core.cpu import CPUTargetOptions
    from numba.core.dispatcher import Dispatcher

    #: Options of a function that makes no arrays and becomes a part of whoever calls it.
    INLINE: dict[str, Any] = {
        name: value
        for name, value in (("_nrt", False), ("forceinline", True))
        if hasattr(CPUTargetOptions, name)
    }
    #: Whether compiled code can be kept between starts.
    CAN_KEEP = (
        isinstance(getattr(FunctionIdentity, "_unique_ids", None), itertools.count)
        and hasattr(Dispatcher, "enable_caching")
        and callable(getattr(CompileResult, "_reduce", None))
        and callable(getattr(CompileResult, "_rebuild", None))
        and callable(getattr(serialize, "dumps", None))
    )
except ImportError:
    INLINE = {}
    CAN_KEEP = False


def count_from_a_random_number() -> None:
    """Let numba number the functions of this process from a place of its own.

    numba tells functions of one name apart, in machine code, by a number that it counts from 1 in
    each process. Code that another process has kept would clash with that of this one, and the
    linker would silently take the wrong function.
    """
    FunctionIdentity._unique_ids = itertools.count(int.from_bytes(os.urandom(7), "little"))


if CAN_KEEP:
    count_from_a_random_number()
    if hasattr(os, "register_at_fork"):  # a forked child would go on counting where its parent is
        os.register_at_fork(after_in_child=count_from_a_random_number)


class KeptCode:
    """What numba asks of a cache: `load(key)` returns bytes or None, `save(key, data)` keeps them."""

    def __init__(
        self, load: Callable[[str], bytes | None], save: Callable[[str, bytes], None], place: str
    ) -> None:
        self.load, self.save = load, save
        self.cache_path = place

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return a compiled function, or None to have it compiled."""
        target.refresh()
        data = self.load(_key(signature, target.codegen()))
        try:
            return None if data is None else CompileResult._rebuild(target, *pickle.loads(data))
        except Exception:  # of another make
            return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep a compiled function, but for one whose code depends on this very process."""
        if result.library.has_dynamic_globals or result.lifted:
            return
        (name, kind, (machine_code, _)), *rest = result._reduce()
        library = (name, kind, (machine_code, _outline(result.fndesc)))
        self.save(_key(signature, result.codegen), serialize.dumps((library, *rest)))

    def flush(self) -> None:
        """numba's wish to forget: nothing that is kept can be out of date."""


def keep(dispatcher: Any, cache: KeptCode) -> None:
    """Let a compiled function be found again between starts."""
    dispatcher._cache = cache


def _key(signature: Any, codegen: Any) -> str:
    """Return what machine code depends on beside its content: types, processor and versions."""
    versions = (numba.__version__, llvmlite.__version__)
    return repr((str(signature), codegen.magic_tuple(), versions))


def _outline(function: Any) -> bytes:
    """Return LLVM's bitcode of functions that do nothing, under the names that numba looks up.

    numba would keep all of the code, some megabytes in memory, for others to link with; nobody does.
    """
    names = (function.llvm_func_name, function.llvm_cpython_wrapper_name)
    text = "".join(f'define void @"{name}"() {{ ret void }}\n' for name in names)
    bitcode: bytes = llvmlite.binding.parse_assembly(text).as_bitcode()
    return bitcode
