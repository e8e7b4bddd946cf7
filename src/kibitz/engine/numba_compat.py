"""The private parts of numba that kibitz uses: all of them, and what happens where one is missing.

- `_nrt=False` and `forceinline`, options of a function: without reference counting, and as a part of
  its caller, a stage costs half as much. Without them everything is slower, and right.
- numba's pipeline and code library: machine code is made of a whole loop only (`LOOP`, for which the
  choice of a pipeline, `Compiler.define_pipelines`, is replaced), and a loop calls a formula by its
  address (`compiled_address`, `call_address`). Without them each function of a loop becomes machine
  code by itself, which nobody calls, and there are no drafts.
- `TargetConfig.values` and `__hash__`: numba compares the options of functions a hundred thousand
  times a loop, and looks up each of them. Without `faster_options` it compiles 7 % longer.
- `Dispatcher._cache` with `CompileResult._reduce` and `_rebuild`: compiled loops are kept between
  starts. Without them every process compiles its own.
- `FunctionIdentity._unique_ids`: see `count_from_a_random_number`. Without it nothing is kept.
"""

import itertools
import os
import pickle
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import llvmlite.binding
import numba
from numba import types
from numba.extending import intrinsic

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


def _compiling_in_one_piece() -> Any:
    """Return numba's compiler for a loop: machine code is made of the whole, not of its parts.

    numba optimises each function that it compiles, its own ones for arrays and random numbers too,
    and makes machine code of it. Of what Python cannot call, a part of a loop needs neither: it is
    optimised and becomes machine code with the loop that it is linked into, and only there. It is
    then as if the loop had been found among the kept ones, where parts have no existence of their own
    either. Whoever else needs such a part links it as well.
    """
    from numba import _dynfunc
    from numba.core import codegen, typed_passes
    from numba.core.compiler import Compiler, _LowerResult
    from numba.core.compiler_machinery import register_pass

    class Part(codegen.JITCodeLibrary):  # type: ignore[misc]
        """The code of one function; that of those that it calls is linked with it where needed."""

        def finalize(self) -> None:
            self._raise_if_finalized()
            for library in self._linking_libraries:
                self._reload_init.update(library._reload_init)
            self._finalized = True

        def _get_module_for_linking(self) -> Any:
            module, found, ahead = self._final_module.clone(), {self}, [*self._linking_libraries]
            while ahead:
                library = ahead.pop()
                if library not in found:
                    found.add(library)
                    is_part = isinstance(library, Part)
                    ahead += library._linking_libraries if is_part else []
                    other = library._final_module if is_part else library._get_module_for_linking()
                    module.link_in(other, preserve=True)
            for function in module.functions:
                if not function.is_declaration and function.linkage == external:
                    function.linkage = "linkonce_odr"
            return module

    @register_pass(mutates_CFG=True, analysis_only=False)
    class PartLowering(typed_passes.NativeLowering):  # type: ignore[misc]
        _name = "kibitz_part_lowering"

        def run_pass(self, state: Any) -> bool:
            context = state.targetctx
            state.library = Part(context.codegen(), state.func_id.func_qualname)
            state.flags.no_compile = True
            state.flags.no_cfunc_wrapper = True
            super().run_pass(state)
            state.type_annotation = None
            lowered = state["cr"]
            function = lowered.fndesc
            stands_for_it = _dynfunc.make_function(
                function.lookup_module(),
                state.func_id.func_name,
                "",
                0,
                lowered.env,
                (state.library,),
            )
            context.insert_user_function(stands_for_it, function, [state.library])
            state.reload_init.extend(getattr(state.library, "_reload_init", ()))
            state["cr"] = _LowerResult(
                function, lowered.call_helper, cfunc=stands_for_it, env=lowered.env
            )
            return True

    external = llvmlite.binding.Linkage.external
    as_a_whole, here = Compiler.define_pipelines, threading.local()

    def as_a_part(compiler: Any) -> list[Any]:
        (manager,) = as_a_whole(compiler)
        manager.passes = [
            (PartLowering if step is typed_passes.NativeLowering else step, what)
            for step, what in manager.passes
        ]
        manager.finalize()
        return [manager]

    def define_pipelines(compiler: Any) -> Any:
        is_part = getattr(here, "is_in_loop", False) and compiler.state.flags.no_cpython_wrapper
        return (as_a_part if is_part else as_a_whole)(compiler)

    class LoopCompiler(Compiler):  # type: ignore[misc]
        def _compile_core(self) -> Any:
            before, here.is_in_loop = getattr(here, "is_in_loop", False), True
            try:
                return super()._compile_core()
            finally:
                here.is_in_loop = before

    used = (
        "_raise_if_finalized", "_reload_init", "_linking_libraries", "_finalized", "_final_module",
        "finalize", "_get_module_for_linking",
    )  # fmt: skip
    some = codegen.JITCodeLibrary(numba.core.registry.cpu_target.target_context.codegen(), "some")
    if not all(hasattr(some, name) for name in used):
        raise ImportError
    Compiler.define_pipelines = define_pipelines
    return LoopCompiler


try:
    #: Options of a loop, which is compiled as a whole.
    LOOP: dict[str, Any] = {"pipeline_class": _compiling_in_one_piece()}
except (ImportError, AttributeError):
    LOOP = {}

try:
    from numba.core.codegen import JITCodeLibrary
    from numba.core.cpu import CPUContext

    #: Whether a loop can call a formula by its address.
    CAN_DRAFT = hasattr(JITCodeLibrary, "get_pointer_to_function") and hasattr(
        CPUContext, "call_conv"
    )
except ImportError:
    CAN_DRAFT = False


def faster_options() -> None:
    """Let numba know the names and defaults of its options by heart."""
    from numba.core.targetconfig import TargetConfig

    @cache
    def defaults(kind: Any) -> dict[str, Any]:
        return {name: option.default for name, option in kind.options.items()}

    @cache
    def hash_of(kind: Any) -> int:
        return hash(tuple(sorted(defaults(kind))))  # as numba has it: of the names only

    used = (TargetConfig(), "_values"), (TargetConfig, "options"), (TargetConfig, "values")
    if all(hasattr(thing, name) for thing, name in used):
        TargetConfig.values = lambda self: {**defaults(self.__class__), **self._values}
        TargetConfig.__hash__ = lambda self: hash_of(self.__class__)


with suppress(ImportError):
    faster_options()


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
    """What numba asks of a cache: `load(key)` returns bytes or None, `save(key, data)` keeps them.

    `has(key)` says whether there are any.
    """

    def __init__(
        self,
        has: Callable[[str], bool],
        load: Callable[[str], bytes | None],
        save: Callable[[str, bytes], None],
        place: str,
    ) -> None:
        self.has, self.load, self.save = has, load, save
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


def is_there(dispatcher: Any, *arguments: Any) -> bool:
    """Return whether a function is compiled for some arguments, here or among what is kept."""
    if not hasattr(dispatcher, "overloads"):  # plain, and to stay so
        return True
    signature = tuple(dispatcher.typeof_pyval(argument) for argument in arguments)
    if signature in dispatcher.overloads:
        return True
    cache = dispatcher._cache
    return isinstance(cache, KeptCode) and cache.has(_key(signature, dispatcher.targetctx.codegen()))


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


# ------------------------------------------------------------------------------------- by address

FORMULA = types.float64(types.float64[::1], types.int64, types.int64[::1], types.int64, types.float64)


@intrinsic  # type: ignore[untyped-decorator]
def call_address(
    typing: Any, address: Any, numbers: Any, stage: Any, counts: Any, arm: Any, mean: Any
) -> Any:
    """Call the compiled formula at an address. What it raises is raised here."""

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        convention = context.call_conv
        function = convention.get_function_type(FORMULA.return_type, FORMULA.args)
        pointer = builder.inttoptr(values[0], function.as_pointer())
        status, result = convention.call_function(
            builder, pointer, FORMULA.return_type, FORMULA.args, values[1:]
        )
        with builder.if_then(status.is_error, likely=False):
            convention.return_status_propagate(builder, status)
        return result

    return FORMULA.return_type(types.int64, *FORMULA.args), code


def compiled_address(dispatcher: Any) -> int:
    """Compile a formula; return its address, which is valid as long as the dispatcher lives."""
    dispatcher.compile(FORMULA.args)
    compiled = dispatcher.overloads[FORMULA.args]
    address: int = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    return address
