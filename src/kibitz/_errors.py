"""The exceptions of kibitz that a caller may want to catch.

Invalid arguments raise a plain ValueError or TypeError.
"""


class Error(Exception):
    """Base class of the exceptions that kibitz defines."""


class Conflict(Error, ValueError):
    """A report contradicts an earlier report of the same observation."""


class UnknownDecision(Error, ValueError):
    """The agent never made a decision with this id."""


class UnknownAgent(Error, ValueError):
    """The store has no agent with this name."""


class StoreUnavailable(Error, OSError):
    """The store cannot be reached at the moment; the operation can be retried."""


class StoreDamaged(Error, ValueError):
    """The store's contents are inconsistent or cannot be read."""


class CompileError(Error, ValueError):
    """numba cannot compile a function of a policy or feedback."""
