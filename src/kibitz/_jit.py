"""The decorator that marks functions for compilation. This module does not import numba.

A marked function stays plain Python: it can be called, debugged and pickled. To build a kernel, the
engine compiles copies of all marked functions that the kernel uses (`kibitz.engine.jit`).
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, overload

F = TypeVar("F", bound=Callable[..., Any])

_MARK_ATTRIBUTE = "_kibitz_mark"


class Mark(NamedTuple):
    """The options with which the engine compiles a function (see `jit`)."""

    allocates: bool = False
    inline: bool = True
    substitute: Callable[..., Any] | None = None


@overload
def jit(function: F, /) -> F: ...
@overload
def jit(
    *, allocates: bool = False, inline: bool = True, substitute: Callable[..., Any] | None = None
) -> Callable[[F], F]: ...
def jit(
    function: Callable[..., Any] | None = None,
    /,
    *,
    allocates: bool = False,
    inline: bool = True,
    substitute: Callable[..., Any] | None = None,
) -> Any:
    """Mark a function for compilation and return it unchanged.

    Use `@kibitz.jit` on the functions of a policy and on every function that they call.

    Parameters
    ----------
    allocates
        Whether the function creates arrays, as the `init` of a policy does. Other functions are
        compiled without reference counting, which makes a stage about twice as fast.
    inline
        Whether the function is inlined into its callers. Use False for long functions that are
        called rarely; kernels then compile faster.
    substitute
        A function that compiled code calls in place of the marked function. Both functions must
        return the same numbers.
    """

    def mark(marked: F) -> F:
        setattr(marked, _MARK_ATTRIBUTE, Mark(allocates, inline, substitute))
        return marked

    return mark if function is None else mark(function)


def get_mark(function: Any) -> Mark | None:
    """Return the mark of a function, or None if the function is not marked."""
    mark: Mark | None = getattr(function, _MARK_ATTRIBUTE, None)
    return mark
