"""Hashes of functions, including everything that they refer to, recursively.

- `content_hash` identifies compiled code. It covers bytecode, constants and compiler options, and may
  change with the version of Python.
- `source_hash` identifies numbers. It covers the source without comments, docstrings and layout, and
  is the same on another machine and with the next Python. Where there is no source (a lambda,
  executed text, a file edited after its import) the bytecode and the version of Python replace it.
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

KNOWN_BY_VERSION = ("builtins", "math", "numpy", "numba")
LOOKS_UP = {"LOAD_GLOBAL", "LOAD_NAME"}  # instructions of Python


def content_hash(thing: Any) -> str:
    """Hash a function's bytecode and constants and all that it names, and so on recursively."""
    return _Walk(by_source=False).digest(thing)


def source_hash(thing: Any) -> str:
    """Hash a function's source and all that it names, and so on recursively."""
    return _Walk(by_source=True).digest(thing)


def is_from_kibitz(function: Any) -> bool:
    """Return whether a function and all functions that it names are part of kibitz.

    Such a function does not change while a process runs.
    """
    known = _ours.get(function)
    if known is None:
        known = all(str(part.__module__).startswith("kibitz.") for part in named_by(function))
        _ours[function] = known
    return known


_ours: "WeakKeyDictionary[Any, bool]" = WeakKeyDictionary()


class _Walk:
    """One walk through all that a thing is made of."""

    def __init__(self, by_source: bool) -> None:
        self.by_source = by_source
        self.hash = hashlib.sha256()
        self.seen: dict[int, tuple[int, Any]] = {}  # by id; keeps things alive, so ids are not reused

    def digest(self, thing: Any) -> str:
        self.feed(thing)
        return self.hash.hexdigest()

    def text(self, *parts: object) -> None:
        self.hash.update(("\x1f".join(map(str, parts)) + "\x1e").encode())

    def feed(self, thing: Any) -> None:
        if isinstance(thing, np.generic):
            return self.text(type(thing).__name__, repr(thing.item()))
        if thing is None or isinstance(thing, int | float | complex | str | bytes):
            return self.text(type(thing).__name__, repr(thing))
        if id(thing) in self.seen:
            return self.text("seen", self.seen[id(thing)][0])
        self.seen[id(thing)] = (len(self.seen), thing)
        if hasattr(thing, "py_func"):
            options = _options(thing, self.by_source)
            if options:
                self.text("compiled", options)
            self.feed(thing.py_func)
        elif isinstance(thing, FunctionType):
            self.feed_function(thing)
        elif isinstance(thing, CodeType):
            self.feed_code(thing)
        elif isinstance(thing, tuple | list | frozenset | set):
            parts = thing if isinstance(thing, tuple | list) else sorted(thing, key=repr)
            self.text(type(thing).__name__, len(thing))
            for part in parts:
                self.feed(part)
        elif isinstance(thing, dict):
            self.feed(list(thing.items()))
        elif isinstance(thing, np.ndarray):
            self.text("array", thing.dtype, thing.shape)
            self.hash.update(np.ascontiguousarray(thing).tobytes())
        elif hasattr(getattr(thing, "_dispatcher", None), "py_func"):  # of numba.vectorize
            self.text("vectorised")
            self.feed(thing._dispatcher.py_func)
        elif isinstance(thing, EnumType):
            self.text("enumeration", thing.__name__)
            members: dict[str, Any] = dict(thing.__members__)
            self.feed([(name, member.value) for name, member in members.items()])
        elif isinstance(thing, type):
            module = "" if self.by_source else thing.__module__
            self.text("class", module, thing.__name__, getattr(thing, "_fields", ""))
        elif isinstance(thing, ModuleType):
            version = "" if self.by_source else getattr(thing, "__version__", "")
            self.text("module", thing.__name__.split(".")[-1], version)
        elif str(getattr(thing, "__module__", None)).split(".")[0] in KNOWN_BY_VERSION:
            self.text("known", getattr(thing, "__name__", type(thing).__name__))
        elif isinstance(thing, np.dtype):
            self.text("dtype", thing.descr)
        else:  # an unknown kind of thing: at worst it is compiled at each start
            self.text(type(thing).__name__, repr(thing))

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
        names = _names(function.__code__)
        for name in names if self.by_source else global_names(function.__code__):
            if name in function.__globals__:
                self.text("name", name)
                value = function.__globals__[name]
                self.feed(value)
                self.feed_attributes(value, names)

    def feed_code(self, code: CodeType) -> None:
        if self.by_source:
            self.text("bytecode of Python", platform.python_version_tuple()[:2])
        flags = code.co_flags | inspect.CO_OPTIMIZED  # numba drops it when it runs under a profiler
        self.text("code", code.co_argcount, flags, code.co_names, code.co_varnames)
        self.text(code.co_freevars, code.co_cellvars)
        self.hash.update(code.co_code)
        self.feed(code.co_consts)

    def feed_attributes(self, thing: Any, names: list[str]) -> None:
        """Feed what a function may find in a module, and in modules inside of it."""
        known = not isinstance(thing, ModuleType) or thing.__name__.split(".")[0] in KNOWN_BY_VERSION
        if not known and -id(thing) not in self.seen:
            self.seen[-id(thing)] = (len(self.seen), thing)
            for name in names:
                if hasattr(thing, name):
                    self.text("attribute", name)
                    self.feed(getattr(thing, name))
                    self.feed_attributes(getattr(thing, name), names)


def _options(dispatcher: Any, by_source: bool) -> str:
    """Return the options of numba's compiler that machine code, or numbers, may depend on."""
    options = getattr(dispatcher, "targetoptions", {})
    if by_source:
        options = {name: how for name, how in options.items() if name == "fastmath" and how}
    return str(sorted(options.items(), key=str)) if options or not by_source else ""


def _names(code: CodeType) -> list[str]:
    inner = [name for part in code.co_consts if isinstance(part, CodeType) for name in _names(part)]
    return sorted({*code.co_names, *inner})


@cache
def global_names(code: CodeType) -> list[str]:
    """Return the names that code looks up outside of itself; `_names` has those of attributes too.

    Only these go along when a function is sent to another process, and its content is the same there.
    """
    own = {step.argval for step in dis.get_instructions(code) if step.opname in LOOKS_UP}
    inner = [part for part in code.co_consts if isinstance(part, CodeType)]
    return sorted(own.union(*map(global_names, inner)))


def named_by(function: Any) -> list[FunctionType]:
    """Return the functions that a function is made of: itself and all that it names, recursively."""
    found: dict[int, FunctionType] = {}
    waiting = [function]
    while waiting:
        thing = waiting.pop()
        if isinstance(thing, tuple | list):
            waiting.extend(thing)
        thing = getattr(thing, "py_func", thing)
        if isinstance(thing, FunctionType) and id(thing) not in found:
            found[id(thing)] = thing
            waiting.extend(cell.cell_contents for cell in thing.__closure__ or ())
            names = global_names(thing.__code__)
            waiting.extend(thing.__globals__[name] for name in names if name in thing.__globals__)
    return list(found.values())


def _source(function: FunctionType) -> str | None:
    """Return a function's source as its tokens, or None if it is not known for sure."""
    if function.__name__ == "<lambda>":  # a line may hold several
        return None
    try:
        lines, _ = inspect.findsource(function)
        if not any(_same(code, function.__code__) for code in _codes("".join(lines))):
            return None  # the file was edited since
        return _tokens(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, tokenize.TokenError, ValueError):
        return None


@lru_cache(maxsize=64)
def _codes(text: str) -> list[CodeType]:
    """Return the code of all functions in a file, or in a cell of a notebook.

    Bytecode depends on the whole of it: `np.zeros(1)` on whether `np` is imported there.
    """
    found: list[CodeType] = []
    waiting = [compile(text, "<source>", "exec", dont_inherit=True)]
    while waiting:
        found.append(waiting.pop())
        waiting.extend(part for part in found[-1].co_consts if isinstance(part, CodeType))
    return found


def _same(one: CodeType, other: CodeType) -> bool:
    """Return whether code is that of the same lines."""
    places = [(code.co_name, code.co_firstlineno, code.co_code) for code in (one, other)]
    return places[0] == places[1] and _plain(one) == _plain(other)


def _plain(code: CodeType) -> list[str]:
    return [repr(c) for c in code.co_consts if not isinstance(c, CodeType)]


def _tokens(source: str) -> str:
    """Return the tokens of source without comments, docstrings, decorators and layout."""
    layout = {token.NL, tokenize.COMMENT, token.ENCODING, token.ENDMARKER}
    words: list[str] = []
    before = token.NEWLINE
    begun, docstring = False, False
    for kind, word, *_ in tokenize.generate_tokens(io.StringIO(source).readline):
        begun = begun or word == "def"
        if not begun or kind in layout:
            continue
        starts = before in {token.INDENT, token.NEWLINE}
        docstring = (starts and kind == token.STRING) or (docstring and kind == token.NEWLINE)
        if not docstring:
            words.append(token.tok_name[kind] if kind in {token.INDENT, token.DEDENT} else word)
        before = kind
    return "\x1f".join(words)
