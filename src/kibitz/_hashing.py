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

VERSIONED_LIBRARIES = ("builtins", "math", "numpy", "numba")
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
    known = _ours.get(function)
    if known is None:
        known = all(
            str(part.__module__).startswith("kibitz.") for part in collect_functions(function)
        )
        _ours[function] = known
    return known


_ours: "WeakKeyDictionary[Any, bool]" = WeakKeyDictionary()


class _Hasher:
    """Computes the SHA-256 hash of a value and of everything that it refers to."""

    def __init__(self, by_source: bool) -> None:
        self.by_source = by_source
        self.hash = hashlib.sha256()
        self.seen: dict[int, tuple[int, Any]] = {}  # values by id, kept alive to keep ids unique

    def digest(self, value: Any) -> str:
        self.feed(value)
        return self.hash.hexdigest()

    def text(self, *parts: object) -> None:
        self.hash.update(("\x1f".join(map(str, parts)) + "\x1e").encode())

    def feed(self, value: Any) -> None:
        if isinstance(value, np.generic):
            return self.text(type(value).__name__, repr(value.item()))
        if value is None or isinstance(value, int | float | complex | str | bytes):
            return self.text(type(value).__name__, repr(value))
        if id(value) in self.seen:
            return self.text("seen", self.seen[id(value)][0])
        self.seen[id(value)] = (len(self.seen), value)
        if hasattr(value, "py_func"):
            options = _options(value, self.by_source)
            if options:
                self.text("compiled", options)
            self.feed(value.py_func)
        elif isinstance(value, FunctionType):
            self.feed_function(value)
        elif isinstance(value, CodeType):
            self.feed_code(value)
        elif isinstance(value, tuple | list | frozenset | set):
            parts = value if isinstance(value, tuple | list) else sorted(value, key=repr)
            self.text(type(value).__name__, len(value))
            for part in parts:
                self.feed(part)
        elif isinstance(value, dict):
            self.feed(list(value.items()))
        elif isinstance(value, np.ndarray):
            self.text("array", value.dtype, value.shape)
            self.hash.update(np.ascontiguousarray(value).tobytes())
        elif hasattr(getattr(value, "_dispatcher", None), "py_func"):  # made by numba.vectorize
            self.text("vectorised")
            self.feed(value._dispatcher.py_func)
        elif isinstance(value, EnumType):
            self.text("enumeration", value.__name__)
            members: dict[str, Any] = dict(value.__members__)
            self.feed([(name, member.value) for name, member in members.items()])
        elif isinstance(value, type):
            module = "" if self.by_source else value.__module__
            self.text("class", module, value.__name__, getattr(value, "_fields", ""))
        elif isinstance(value, ModuleType):
            version = "" if self.by_source else getattr(value, "__version__", "")
            self.text("module", value.__name__.split(".")[-1], version)
        elif str(getattr(value, "__module__", None)).split(".")[0] in VERSIONED_LIBRARIES:
            self.text("known", getattr(value, "__name__", type(value).__name__))
        elif isinstance(value, np.dtype):
            self.text("dtype", value.descr)
        else:  # an unknown type: if its repr changes, the code is only compiled again
            self.text(type(value).__name__, repr(value))

    def feed_function(self, function: FunctionType) -> None:
        self.text("function", function.__name__)
        mark = get_mark(function)
        if mark is not None and not self.by_source:
            self.text("mark", mark.allocates, mark.inline)
            self.feed(mark.substitute)
        for part in (function.__defaults__, function.__kwdefaults__):
            self.feed(part)
        for cell in function.__closure__ or ():
            self.feed(cell.cell_contents)
        source = _source(function) if self.by_source else None
        if source is None:
            self.feed(function.__code__)
        else:
            self.text("source", source)
        names = _all_names(function.__code__)
        for name in names if self.by_source else global_names(function.__code__):
            if name in function.__globals__:
                self.text("name", name)
                value = function.__globals__[name]
                self.feed(value)
                self.feed_attributes(value, names)

    def feed_code(self, code: CodeType) -> None:
        if self.by_source:
            self.text("bytecode of Python", platform.python_version_tuple()[:2])
        flags = code.co_flags | inspect.CO_OPTIMIZED  # numba clears this flag under a profiler
        self.text("code", code.co_argcount, flags, code.co_names, code.co_varnames)
        self.text(code.co_freevars, code.co_cellvars)
        self.hash.update(code.co_code)
        self.feed(code.co_consts)

    def feed_attributes(self, value: Any, names: list[str]) -> None:
        """Hash the attributes of a module that a function may use, also in nested modules."""
        known = (
            not isinstance(value, ModuleType) or value.__name__.split(".")[0] in VERSIONED_LIBRARIES
        )
        if not known and -id(value) not in self.seen:
            self.seen[-id(value)] = (len(self.seen), value)
            for name in names:
                if hasattr(value, name):
                    self.text("attribute", name)
                    self.feed(getattr(value, name))
                    self.feed_attributes(getattr(value, name), names)


def _options(dispatcher: Any, by_source: bool) -> str:
    """Return, as text, all compiler options, or if `by_source` those that affect the results."""
    options = getattr(dispatcher, "targetoptions", {})
    if by_source:
        options = {k: v for k, v in options.items() if k == "fastmath" and v}
    return str(sorted(options.items(), key=str)) if options or not by_source else ""


def _all_names(code: CodeType) -> list[str]:
    inner = [
        name for part in code.co_consts if isinstance(part, CodeType) for name in _all_names(part)
    ]
    return sorted({*code.co_names, *inner})


@cache
def global_names(code: CodeType) -> list[str]:
    """Return the global names that code uses; `_all_names` also returns names of attributes.

    If a function is sent to another process, only these globals are sent with it. `content_hash`
    covers only these globals, so the hash is the same in both processes.
    """
    own = {step.argval for step in dis.get_instructions(code) if step.opname in GLOBAL_LOOKUPS}
    inner = [part for part in code.co_consts if isinstance(part, CodeType)]
    return sorted(own.union(*map(global_names, inner)))


def collect_functions(function: Any) -> list[FunctionType]:
    """Return a function and all functions that it refers to, recursively."""
    found: dict[int, FunctionType] = {}
    pending = [function]
    while pending:
        value = pending.pop()
        if isinstance(value, tuple | list):
            pending.extend(value)
        value = getattr(value, "py_func", value)
        if isinstance(value, FunctionType) and id(value) not in found:
            found[id(value)] = value
            pending.extend(cell.cell_contents for cell in value.__closure__ or ())
            names = global_names(value.__code__)
            pending.extend(value.__globals__[name] for name in names if name in value.__globals__)
    return list(found.values())


def _source(function: FunctionType) -> str | None:
    """Return the tokens of a function's source, or None if the source is unavailable or stale."""
    if function.__name__ == "<lambda>":  # ambiguous, because a line may contain several lambdas
        return None
    try:
        lines, _ = inspect.findsource(function)
        if not any(_is_same_code(code, function.__code__) for code in _list_codes("".join(lines))):
            return None  # the file was edited after its import
        return _tokens(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, tokenize.TokenError, ValueError):
        return None


@lru_cache(maxsize=64)
def _list_codes(text: str) -> list[CodeType]:
    """Return the code objects of all functions in a file or notebook cell.

    The whole text is compiled, because the bytecode of a function may depend on it: `np.zeros(1)`
    compiles differently if the text imports `np`.
    """
    found: list[CodeType] = []
    pending = [compile(text, "<source>", "exec", dont_inherit=True)]
    while pending:
        found.append(pending.pop())
        pending.extend(part for part in found[-1].co_consts if isinstance(part, CodeType))
    return found


def _is_same_code(one: CodeType, other: CodeType) -> bool:
    """Return whether two code objects have the same name, line, bytecode and constants."""
    places = [(code.co_name, code.co_firstlineno, code.co_code) for code in (one, other)]
    return places[0] == places[1] and _plain_constants(one) == _plain_constants(other)


def _plain_constants(code: CodeType) -> list[str]:
    return [repr(c) for c in code.co_consts if not isinstance(c, CodeType)]


def _tokens(source: str) -> str:
    """Return the tokens of source code without comments, docstrings, decorators and layout."""
    layout = {token.NL, tokenize.COMMENT, token.ENCODING, token.ENDMARKER}
    tokens: list[str] = []
    before = token.NEWLINE
    started, docstring = False, False
    for kind, word, *_ in tokenize.generate_tokens(io.StringIO(source).readline):
        started = started or word == "def"
        if not started or kind in layout:
            continue
        starts = before in {token.INDENT, token.NEWLINE}
        docstring = (starts and kind == token.STRING) or (docstring and kind == token.NEWLINE)
        if not docstring:
            tokens.append(token.tok_name[kind] if kind in {token.INDENT, token.DEDENT} else word)
        before = kind
    return "\x1f".join(tokens)
