"""All private parts of numba that kibitz uses.

kibitz does not patch numba: every class below is passed to, or set on, one of kibitz's own
dispatchers. If a version of numba lacks one of these parts, kibitz still works:

- `_nrt=False` and `forceinline`, options of a compiled function. Without them, a stage costs twice as
  much.
- The compiler pipeline and the code library (`PART`, `KERNEL`), which turn only whole kernels into
  machine code and make their symbols internal. Without them, kernels compile slowly and are not
  cached.
- `Dispatcher._cache`, `CompileResult._reduce` and `CompileResult._rebuild`, which store compiled
  kernels on disk. Without them, kernels are not cached.
- The calling convention, which allows a kernel to call a formula through a function pointer. Without
  it, there is no generic kernel.
"""

import pickle
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import llvmlite.binding
import numba
from numba import cloudpickle as cloudpickle, types
from numba.core.errors import NumbaError, UnsupportedBytecodeError
from numba.extending import intrinsic
from numba.np.random import _constants as ziggurat

#: The tables of NumPy's ziggurat algorithm for normal random numbers.
NORMAL_WIDTHS, NORMAL_HEIGHTS = ziggurat.wi_double, ziggurat.fi_double
NORMAL_LIMITS = ziggurat.ki_double
NORMAL_TAIL, NORMAL_TAIL_INVERSE = ziggurat.ziggurat_nor_r, ziggurat.ziggurat_nor_inv_r

COMPILE_ERRORS = (NumbaError, UnsupportedBytecodeError)

#: Options of a function that does not allocate and is inlined into its callers.
INLINE: dict[str, Any] = {}
with suppress(ImportError):
    from numba.core.cpu import CPUTargetOptions

    INLINE = {
        name: value
        for name, value in (("_nrt", False), ("forceinline", True))
        if hasattr(CPUTargetOptions, name)
    }


def _make_pipelines() -> tuple[Any, Any]:
    """Return the compiler classes for the parts of a kernel and for the kernel itself.

    numba optimises each function and compiles it to machine code. For a function that only kernels
    call, both steps are unnecessary, because they happen again when the kernel is compiled.
    """
    from numba import _dynfunc
    from numba.core import codegen, typed_passes
    from numba.core.compiler import Compiler, _LowerResult
    from numba.core.compiler_machinery import register_pass

    external = llvmlite.binding.Linkage.external

    class PartLibrary(codegen.JITCodeLibrary):  # type: ignore[misc]
        """The code of one function, which is linked into kernels together with its callees."""

        def finalize(self) -> None:
            self._raise_if_finalized()
            for library in self._linking_libraries:
                self._reload_init.update(library._reload_init)
            self._finalized = True

        def _get_module_for_linking(self) -> Any:
            module, linked, pending = self._final_module.clone(), {self}, [*self._linking_libraries]
            while pending:
                library = pending.pop()
                if library not in linked:
                    linked.add(library)
                    is_part = isinstance(library, PartLibrary)
                    pending += library._linking_libraries if is_part else []
                    other_module = (
                        library._final_module if is_part else library._get_module_for_linking()
                    )
                    module.link_in(other_module, preserve=True)
            for function in module.functions:
                if not function.is_declaration and function.linkage == external:
                    function.linkage = "linkonce_odr"
            return module

    class KernelLibrary(codegen.JITCodeLibrary):  # type: ignore[misc]
        """The code of a kernel, in which only the entry points are visible to the linker.

        numba distinguishes functions of the same name by a number that is unique only within a
        process. Code from two processes may therefore use the same symbol for different functions;
        internal symbols cannot collide.
        """

        def finalize(self) -> None:
            functions = self._final_module.functions
            self._entry_points = {f.name for f in functions if not f.is_declaration}
            super().finalize()

        def _optimize_final_module(self) -> None:
            self._resolve_recursive_calls()
            for function in self._final_module.functions:
                if not function.is_declaration and function.name not in self._entry_points:
                    function.linkage = "internal"
            super()._optimize_final_module()

        def _resolve_recursive_calls(self) -> None:
            """Make recursive functions call themselves directly.

            numba calls them through variables, which it sets when it loads the code, to addresses
            that are valid only in this process. It finds neither functions with internal symbols nor
            the variables of code from the cache. Here each variable becomes a constant.
            """
            prefix = codegen.RuntimeLinker.PREFIX
            module = self._final_module
            function_names = {f.name for f in module.functions if not f.is_declaration}
            names = {
                variable.name.removeprefix(prefix)
                for variable in module.global_variables
                if variable.name.startswith(prefix)
            }
            if not names <= function_names:
                raise NumbaError("a recursive call cannot be resolved; use a loop instead")
            for name in sorted(names):
                text = f'declare void @"{name}"()\n@"{prefix}{name}" = constant ptr @"{name}"'
                module.link_in(llvmlite.binding.parse_assembly(text))
                module.get_global_variable(prefix + name).linkage = "internal"

    @register_pass(mutates_CFG=True, analysis_only=False)
    class PartLowering(typed_passes.NativeLowering):  # type: ignore[misc]
        _name = "kibitz_part_lowering"

        def run_pass(self, state: Any) -> bool:
            context = state.targetctx
            state.library = PartLibrary(context.codegen(), state.func_id.func_qualname)
            state.flags.no_compile = True
            state.flags.no_cfunc_wrapper = True
            super().run_pass(state)
            state.type_annotation = None
            lowered = state["cr"]
            function = lowered.fndesc
            placeholder = _dynfunc.make_function(  # numba looks the function up by this object
                function.lookup_module(),
                state.func_id.func_name,
                "",
                0,
                lowered.env,
                (state.library,),
            )
            context.insert_user_function(placeholder, function, [state.library])
            state.reload_init.extend(getattr(state.library, "_reload_init", ()))
            state["cr"] = _LowerResult(
                function, lowered.call_helper, cfunc=placeholder, env=lowered.env
            )
            return True

    @register_pass(mutates_CFG=True, analysis_only=False)
    class KernelLowering(typed_passes.NativeLowering):  # type: ignore[misc]
        _name = "kibitz_kernel_lowering"

        def run_pass(self, state: Any) -> bool:
            state.library = KernelLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
            return bool(super().run_pass(state))

    def make_compiler(lowering: Any) -> Any:
        class KibitzCompiler(Compiler):  # type: ignore[misc]
            def define_pipelines(self) -> list[Any]:
                (manager,) = super().define_pipelines()
                manager.passes = [
                    (lowering if step is typed_passes.NativeLowering else step, reason)
                    for step, reason in manager.passes
                ]
                manager.finalize()
                return [manager]

        return KibitzCompiler

    required_attributes = (
        "_raise_if_finalized", "_reload_init", "_linking_libraries", "_finalized", "_final_module",
        "finalize", "_get_module_for_linking", "_optimize_final_module", "enable_object_caching",
    )  # fmt: skip
    library = codegen.JITCodeLibrary(numba.core.registry.cpu_target.target_context.codegen(), "any")
    if not all(hasattr(library, name) for name in required_attributes):
        raise ImportError
    return make_compiler(PartLowering), make_compiler(KernelLowering)


#: The options of a function that is linked into kernels, and the options of a kernel.
PART: dict[str, Any] = {}
KERNEL: dict[str, Any] = {}
with suppress(ImportError, AttributeError):
    _part_compiler, _kernel_compiler = _make_pipelines()
    PART, KERNEL = {"pipeline_class": _part_compiler}, {"pipeline_class": _kernel_compiler}

#: Whether compiled kernels can be stored on disk.
CAN_CACHE = False
with suppress(ImportError):
    from numba.core import serialize
    from numba.core.compiler import CompileResult
    from numba.core.dispatcher import Dispatcher

    CAN_CACHE = (
        bool(KERNEL)
        and hasattr(Dispatcher, "enable_caching")
        and callable(getattr(CompileResult, "_reduce", None))
        and callable(getattr(CompileResult, "_rebuild", None))
        and callable(getattr(serialize, "dumps", None))
    )

#: Whether a kernel can call a formula through a function pointer.
CAN_CALL_POINTER = False
with suppress(ImportError):
    from numba.core.codegen import JITCodeLibrary
    from numba.core.cpu import CPUContext

    CAN_CALL_POINTER = hasattr(JITCodeLibrary, "get_pointer_to_function") and hasattr(
        CPUContext, "call_conv"
    )


# ---------------------------------------------------------------------------- compiled code on disk


class OverloadCache:
    """The cache interface that numba expects, implemented with `load` and `save` for bytes."""

    def __init__(
        self, load: Callable[[str], bytes | None], save: Callable[[str, bytes], None], folder: str
    ) -> None:
        self.load, self.save, self.cache_path = load, save, folder

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return a compiled function, or None to make numba compile it."""
        target.refresh()
        data = self.load(overload_key(signature, target.codegen()))
        try:
            return None if data is None else CompileResult._rebuild(target, *pickle.loads(data))
        except Exception:  # an incompatible version wrote the data
            return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Store a compiled function, unless its code contains addresses of this process."""
        if result.library.has_dynamic_globals or result.lifted:
            return
        (name, kind, (machine_code, _)), *other_parts = result._reduce()
        library = (name, kind, (machine_code, _stub_bitcode(result.fndesc)))
        self.save(overload_key(signature, result.codegen), serialize.dumps((library, *other_parts)))

    def flush(self) -> None:
        """Do nothing: the name of a file is a hash of the code, so no file is ever out of date."""


def overload_key(signature: Any, codegen: Any) -> str:
    """Return the part of the cache key that does not depend on the source.

    It contains the types of the arguments, the processor, and the versions of numba and llvmlite.
    """
    versions = (numba.__version__, llvmlite.__version__)
    return repr((str(signature), codegen.magic_tuple(), versions))


def set_cache(dispatcher: Any, cache: OverloadCache) -> None:
    """Make a dispatcher of kibitz load its code from a cache and store it there."""
    dispatcher._cache = cache


def get_signature(dispatcher: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the types of the arguments of a dispatcher."""
    return tuple(dispatcher.typeof_pyval(argument) for argument in arguments)


def get_codegen(dispatcher: Any) -> Any:
    """Return the code generator of a dispatcher."""
    return dispatcher.targetctx.codegen()


def _stub_bitcode(function: Any) -> bytes:
    """Return LLVM bitcode of empty functions under the names that numba looks up.

    numba would store several megabytes of bitcode, for linking the kernel into other functions. This
    is unnecessary, because no other function calls a kernel.
    """
    names = (function.llvm_func_name, function.llvm_cpython_wrapper_name)
    text = "".join(f'define void @"{name}"() {{ ret void }}\n' for name in names)
    bitcode: bytes = llvmlite.binding.parse_assembly(text).as_bitcode()
    return bitcode


# -------------------------------------------------------------------------------- function pointers

FORMULA_SIGNATURE = types.float64(
    types.float64[::1], types.int64, types.int64[::1], types.int64, types.float64
)


@intrinsic  # type: ignore[untyped-decorator]
def call_pointer(
    typing: Any, pointer: Any, values: Any, stage: Any, counts: Any, arm: Any, mean: Any
) -> Any:
    """Call the compiled formula that a pointer refers to; exceptions propagate."""

    def generate_code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        convention = context.call_conv
        function = convention.get_function_type(FORMULA_SIGNATURE.return_type, FORMULA_SIGNATURE.args)
        callee = builder.inttoptr(arguments[0], function.as_pointer())
        status, result = convention.call_function(
            builder, callee, FORMULA_SIGNATURE.return_type, FORMULA_SIGNATURE.args, arguments[1:]
        )
        with builder.if_then(status.is_error, likely=False):
            convention.return_status_propagate(builder, status)
        return result

    return FORMULA_SIGNATURE.return_type(types.int64, *FORMULA_SIGNATURE.args), generate_code


def get_pointer(dispatcher: Any) -> int:
    """Compile a formula; return a pointer to it, which is valid as long as the dispatcher lives."""
    dispatcher.compile(FORMULA_SIGNATURE.args)
    compiled = dispatcher.overloads[FORMULA_SIGNATURE.args]
    pointer: int = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    return pointer
