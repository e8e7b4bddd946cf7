"""Hashes of functions and of everything that they refer to, recursively.

- `content_hash` identifies compiled code. It covers bytecode, constants and compiler options, and may
  change with the version of Python.
- `source_hash` identifies results. It covers the source without comments, docstrings and layout, and
  does not depend on the machine or the version of Python. If the source is not available (for a
  lambda, executed text or a file edited after its import), it covers the bytecode and the version of
  Python instead.
"""

import dis
import hashlib
import inspect
import io
import platform
import textwrap
import token
import tokenize
from enum import EnumType
from functools import cache, lru_cache
from types import CodeType, FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from kibitz._jit import get_mark

VERSIONED_LIBRARIES = ("builtins", "math", "numpy", "numba")  # their functions are hashed by name
GLOBAL_LOOKUPS = {"LOAD_GLOBAL", "LOAD_NAME"}  # bytecode instructions that read a global variable


def content_hash(value: Any) -> str:
    """Return a hash of the bytecode and constants of a function and of everything it refers to."""
    return _Hasher(by_source=False).digest(value)


def source_hash(value: Any) -> str:
    """Return a hash of the source of a function and of everything it refers to."""
    return _Hasher(by_source=True).digest(value)


def is_from_kibitz(function: Any) -> bool:
    """Return whether a function and all functions that it refers to are part of kibitz.

    Functions of kibitz do not change within a process, so the answer is cached.
    """
    is_kibitz = _is_kibitz_by_function.get(function)
    if is_kibitz is None:
        is_kibitz = all(
            str(used_function.__module__).startswith("kibitz.")
            for used_function in collect_functions(function)
        )
        _is_kibitz_by_function[function] = is_kibitz
    return is_kibitz


_is_kibitz_by_function: "WeakKeyDictionary[Any, bool]" = WeakKeyDictionary()


class _Hasher:
    """Computes the SHA-256 hash of a value and of everything that it refers to."""

    def __init__(self, by_source: bool) -> None:
        self.by_source = by_source
        self.hash = hashlib.sha256()
        self.visited: dict[int, tuple[int, Any]] = {}  # position and value, by the value's id

    def digest(self, value: Any) -> str:
        self.feed(value)
        return self.hash.hexdigest()

    def feed_text(self, *parts: object) -> None:
        self.hash.update(("\x1f".join(map(str, parts)) + "\x1e").encode())

    def feed(self, value: Any) -> None:
        if isinstance(value, np.generic):
            return self.feed_text(type(value).__name__, repr(value.item()))
        if value is None or isinstance(value, int | float | complex | str | bytes):
            return self.feed_text(type(value).__name__, repr(value))
        if id(value) in self.visited:
            return self.feed_text("seen", self.visited[id(value)][0])
        self.visited[id(value)] = (len(self.visited), value)
        if hasattr(value, "py_func"):
            options = _format_options(value, self.by_source)
            if options:
                self.feed_text("compiled", options)
            self.feed(value.py_func)
        elif isinstance(value, FunctionType):
            self.feed_function(value)
        elif isinstance(value, CodeType):
            self.feed_code(value)
        elif isinstance(value, tuple | list | frozenset | set):
            items = value if isinstance(value, tuple | list) else sorted(value, key=repr)
            self.feed_text(type(value).__name__, len(value))
            for item in items:
                self.feed(item)
        elif isinstance(value, dict):
            self.feed(list(value.items()))
        elif isinstance(value, np.ndarray):
            self.feed_text("array", value.dtype, value.shape)
            self.hash.update(np.ascontiguousarray(value).tobytes())
        elif hasattr(getattr(value, "_dispatcher", None), "py_func"):  # made by numba.vectorize
            self.feed_text("vectorised")
            self.feed(value._dispatcher.py_func)
        elif isinstance(value, EnumType):
            self.feed_text("enumeration", value.__name__)
            members: dict[str, Any] = dict(value.__members__)
            self.feed([(name, member.value) for name, member in members.items()])
        elif isinstance(value, type):
            module = "" if self.by_source else value.__module__
            self.feed_text("class", module, value.__name__, getattr(value, "_fields", ""))
        elif isinstance(value, ModuleType):
            version = "" if self.by_source else getattr(value, "__version__", "")
            self.feed_text("module", value.__name__.split(".")[-1], version)
        elif str(getattr(value, "__module__", None)).split(".")[0] in VERSIONED_LIBRARIES:
            self.feed_text("known", getattr(value, "__name__", type(value).__name__))
        elif isinstance(value, np.dtype):
            self.feed_text("dtype", value.descr)
        else:  # an unknown type; a change of its repr only causes another compilation
            self.feed_text(type(value).__name__, repr(value))

    def feed_function(self, function: FunctionType) -> None:
        self.feed_text("function", function.__name__)
        mark = get_mark(function)
        if mark is not None and not self.by_source:
            self.feed_text("mark", mark.allocates, mark.inline)
            self.feed(mark.substitute)
        for defaults in (function.__defaults__, function.__kwdefaults__):
            self.feed(defaults)
        for cell in function.__closure__ or ():
            self.feed(cell.cell_contents)
        source = _read_tokens(function) if self.by_source else None
        if source is None:
            self.feed(function.__code__)
        else:
            self.feed_text("source", source)
        names = _list_names(function.__code__)
        for name in names if self.by_source else list_global_names(function.__code__):
            if name in function.__globals__:
                self.feed_text("name", name)
                value = function.__globals__[name]
                self.feed(value)
                self.feed_attributes(value, names)

    def feed_code(self, code: CodeType) -> None:
        if self.by_source:
            self.feed_text("bytecode of Python", platform.python_version_tuple()[:2])
        flags = code.co_flags | inspect.CO_OPTIMIZED  # numba clears this flag under a profiler
        self.feed_text("code", code.co_argcount, flags, code.co_names, code.co_varnames)
        self.feed_text(code.co_freevars, code.co_cellvars)
        self.hash.update(code.co_code)
        self.feed(code.co_consts)

    def feed_attributes(self, value: Any, names: list[str]) -> None:
        """Hash the attributes of a module, and of its nested modules, whose names are in `names`.

        Do nothing if `value` is not a module or belongs to one of `VERSIONED_LIBRARIES`.
        """
        has_version = (
            not isinstance(value, ModuleType) or value.__name__.split(".")[0] in VERSIONED_LIBRARIES
        )
        if not has_version and -id(value) not in self.visited:
            self.visited[-id(value)] = (len(self.visited), value)
            for name in names:
                if hasattr(value, name):
                    self.feed_text("attribute", name)
                    self.feed(getattr(value, name))
                    self.feed_attributes(getattr(value, name), names)


def _format_options(dispatcher: Any, by_source: bool) -> str:
    """Return the compiler options of a dispatcher as text.

    If `by_source` is true, return only the options that affect results.
    """
    options = getattr(dispatcher, "targetoptions", {})
    if by_source:
        options = {k: v for k, v in options.items() if k == "fastmath" and v}
    return str(sorted(options.items(), key=str)) if options or not by_source else ""


def _list_names(code: CodeType) -> list[str]:
    """Return the names of all globals and attributes in code, including its nested functions."""
    inner_names = [
        name
        for constant in code.co_consts
        if isinstance(constant, CodeType)
        for name in _list_names(constant)
    ]
    return sorted({*code.co_names, *inner_names})


@cache
def list_global_names(code: CodeType) -> list[str]:
    """Return the names of the global variables that code reads, without the names of attributes.

    If a function is sent to another process, only these globals are sent with it. `content_hash`
    covers only these globals, so the hash is the same in both processes.
    """
    own_names = {
        instruction.argval
        for instruction in dis.get_instructions(code)
        if instruction.opname in GLOBAL_LOOKUPS
    }
    inner_codes = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return sorted(own_names.union(*map(list_global_names, inner_codes)))


def collect_functions(function: Any) -> list[FunctionType]:
    """Return a function and all functions that it refers to, recursively."""
    functions: dict[int, FunctionType] = {}
    pending_values = [function]
    while pending_values:
        value = pending_values.pop()
        if isinstance(value, tuple | list):
            pending_values.extend(value)
        value = getattr(value, "py_func", value)
        if isinstance(value, FunctionType) and id(value) not in functions:
            functions[id(value)] = value
            pending_values.extend(cell.cell_contents for cell in value.__closure__ or ())
            names = list_global_names(value.__code__)
            pending_values.extend(
                value.__globals__[name] for name in names if name in value.__globals__
            )
    return list(functions.values())


def _read_tokens(function: FunctionType) -> str | None:
    """Return the stripped source of a function (`_strip_source`).

    Return None if the source is not available, or was edited after the import.
    """
    if function.__name__ == "<lambda>":  # ambiguous, because a line may contain several lambdas
        return None
    try:
        lines, _ = inspect.findsource(function)
        if not any(_is_same_code(code, function.__code__) for code in _list_codes("".join(lines))):
            return None  # the file was edited after its import
        return _strip_source(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, tokenize.TokenError, ValueError):
        return None


@lru_cache(maxsize=64)
def _list_codes(text: str) -> list[CodeType]:
    """Return the code objects of all functions in a file or notebook cell.

    The whole text is compiled, because the bytecode of a function may depend on the code around it:
    `np.zeros(1)` compiles differently if the text imports `np`.
    """
    codes: list[CodeType] = []
    pending_codes = [compile(text, "<source>", "exec", dont_inherit=True)]
    while pending_codes:
        codes.append(pending_codes.pop())
        pending_codes.extend(
            constant for constant in codes[-1].co_consts if isinstance(constant, CodeType)
        )
    return codes


def _is_same_code(first_code: CodeType, other_code: CodeType) -> bool:
    """Return whether two code objects have the same name, line, bytecode and constants."""
    identities = [
        (code.co_name, code.co_firstlineno, code.co_code) for code in (first_code, other_code)
    ]
    return identities[0] == identities[1] and _list_constants(first_code) == _list_constants(
        other_code
    )


def _list_constants(code: CodeType) -> list[str]:
    return [repr(c) for c in code.co_consts if not isinstance(c, CodeType)]


def _strip_source(source: str) -> str:
    """Return source code as text without comments, docstrings, decorators and layout."""
    layout_kinds = {token.NL, tokenize.COMMENT, token.ENCODING, token.ENDMARKER}
    tokens: list[str] = []
    previous_kind = token.NEWLINE
    in_function, in_docstring = False, False
    for kind, token_text, *_ in tokenize.generate_tokens(io.StringIO(source).readline):
        in_function = in_function or token_text == "def"
        if not in_function or kind in layout_kinds:
            continue
        starts_statement = previous_kind in {token.INDENT, token.NEWLINE}
        in_docstring = (starts_statement and kind == token.STRING) or (
            in_docstring and kind == token.NEWLINE
        )
        if not in_docstring:
            tokens.append(
                token.tok_name[kind] if kind in {token.INDENT, token.DEDENT} else token_text
            )
        previous_kind = kind
    return "\x1f".join(tokens)
