"""Kernels: compiled loops that play the runs of one policy with one kind of feedback.

A policy that `index_policy` made has two kernels, which give the same numbers bit for bit. The
*generic* one calls the index through a function pointer: it is compiled once for all formulas, and a
new formula is compiled on its own, in a tenth of a second. The *specialised* one is compiled around
the functions of the policy, which takes seconds; a stage then costs half as much or less, and an
index with two factors is looked up in tables. Other policies have only a specialised kernel.
"""

import math
import re
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from threading import get_ident
from typing import Any

import numba
import numpy as np

from kibitz._errors import CompileError
from kibitz._hashing import content_hash, is_ours
from kibitz._jit import Mark, jit
from kibitz.engine import numba_compat
from kibitz.engine.cache import cached_dispatcher, is_compiled
from kibitz.engine.environment import law_of, looks_of
from kibitz.engine.jit import deferred_interrupts, gc_disabled
from kibitz.engine.loop import Game, Record, build_loop
from kibitz.engine.rng import seed_words, streams
from kibitz.model.feedback import Feedback, bandit
from kibitz.model.problem import gaussian
from kibitz.policies.index_policy import choices_by, index_policy
from kibitz.policies.policy import Array, Policy, StandardRule, params_type

LOOK_AGAIN_SECONDS = 0.5  # after which a kernel that was missing is looked for on disk again
MAX_TABLE_SIZE = 2**17  # numbers, a megabyte
MAX_TABLES = 16


@dataclass(frozen=True)
class Kernel:
    """The compiled loop that plays a policy with a feedback, stage by stage or in leaps.

    It may call the index through a pointer (`generic`) or look it up in tables of `table_size`.
    """

    policy: Policy
    feedback: Feedback
    leap: bool
    generic: bool = False
    table_size: int = 0

    def __reduce__(self) -> Any:
        return Kernel, (self.policy, self.feedback, self.leap, self.generic, self.table_size)

    @cached_property
    def key(self) -> Hashable:
        """What tells kernels with different code apart, in this process."""
        varying = [f for f in (self.feedback.rate, self.feedback.weights) if callable(f)]
        policy = self._compiled_policy()
        functions: Any = (*policy.functions, *varying)
        if not all(f is None or is_ours(f) for f in functions):
            functions = content_hash(functions)
        callables = (callable(self.feedback.rate), callable(self.feedback.weights))
        return functions, tuple(policy.constants), callables, self.leap

    @cached_property
    def content(self) -> str:
        """A hash of all code that plays the policy, the same in each process that has it."""
        return content_hash(build_loop(self._compiled_policy(), self.feedback, self.leap))

    def is_ready(self) -> bool:
        """Return whether the kernel is compiled, in this process or on disk.

        A missing kernel is looked for at most twice a second: that takes as long as ten thousand
        stages.
        """
        key, now = self.key, time.monotonic()
        if _next_look.get(key, 0.0) <= now:
            ready = is_compiled(self._loop(), self._sample_arguments())
            _next_look[key] = math.inf if ready else now + LOOK_AGAIN_SECONDS
        return _next_look[key] == math.inf

    def compile(self, announce: Callable[[], None] | None = None) -> None:
        """Load the kernel or compile it; call `announce` first if it must be compiled."""
        if announce is not None and not is_compiled(self._loop(), self._sample_arguments()):
            announce()
        try:
            with deferred_interrupts(), gc_disabled():
                if self.generic:
                    self._arguments(tuple(self.policy.params_for(1)))
                self._loop()(*self._sample_arguments())
        except numba_compat.COMPILE_ERRORS as error:
            raise CompileError(
                f"{self.policy.name} must be made of functions that numba can compile, got: "
                f"{_reason(str(error))}{_place(str(error))}"
            ) from error
        _next_look[self.key] = math.inf

    def play(self, game: Game, error: float, words: Array) -> None:
        """Play one run for each row of `words`, from which its streams are seeded."""
        params = tuple(self.policy.params_for(game.horizon))
        self._loop()(self._arguments(params), game, error, words)

    def _compiled_policy(self) -> Policy:
        """Return the policy that the loop is compiled around."""
        if self.generic:
            assert self.policy.rule is not None
            return _generic_policy(self.policy.rule)
        return _tabulated_policy(self.policy) if self.table_size else self.policy

    def _loop(self) -> Any:
        key = self.key
        if key not in _loops:
            policy, feedback = self._compiled_policy(), self.feedback
            functions = (*policy.functions, feedback.rate, feedback.weights)
            roots = [(f, Mark(allocates=f is policy.init)) for f in functions if callable(f)]
            play = build_loop(policy, feedback, self.leap)
            _loops[key] = cached_dispatcher(play, roots, nogil=True)
        return _loops[key]

    def _arguments(self, params: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the parameters in the form that the loop takes."""
        if self.generic:
            return self._pointer, np.array(params, float)
        if self.table_size:
            index: Any = self.policy.index
            return *params, *_tables(index, params, self.table_size, get_ident())
        return params

    @cached_property
    def _pointer(self) -> int:
        """The pointer to the compiled formula."""
        names, params = tuple(self.policy.constants), self.policy.params_for(1)
        return _compile_formula(self.policy.index, names, tuple(type(value) for value in params))

    def _sample_arguments(self) -> tuple[Any, ...]:
        """Return arguments of the right types for no runs at all."""
        params: Any = tuple(self.policy.params_for(1))
        if self.generic:
            params = (0, np.zeros(0))
        elif self.table_size:
            params = (*params, np.zeros(1), np.zeros(1))
        return params, sample_game(), 1e-9, seed_words(0, 0, 0)


_loops: dict[Hashable, Any] = {}
_next_look: dict[Hashable, float] = {}  # when to look for a kernel again; never, if it is ready


def make_kernel(policy: Policy, feedback: Feedback, leap: bool, horizon: int) -> Kernel:
    """Return the specialised kernel for a policy, with tables where they fit."""
    size = table_size(horizon, feedback.looks)
    has_factors = policy.index is not None and policy.factors is not None
    tabulated = has_factors and not leap and size <= MAX_TABLE_SIZE
    return Kernel(policy, feedback, leap, table_size=size if tabulated else 0)


def make_generic_kernel(policy: Policy, feedback: Feedback, leap: bool) -> Kernel | None:
    """Return the generic kernel for a policy, or None if it has none."""
    usable = numba_compat.CAN_CALL_POINTER and not numba.config.DISABLE_JIT
    return Kernel(policy, feedback, leap, generic=True) if usable and policy.rule else None


@cache
def sample_game() -> Game:
    """Return a game of the types that every game has."""
    problem, stages = gaussian([0.0, 0.0]), np.array([1])
    empty = np.zeros((0, 2), np.int64)
    record = Record(stages, problem.gaps, False, np.zeros((0, 1)), empty, empty, np.zeros(0))
    control = np.zeros(3, np.int64)
    looks = looks_of(bandit(), problem.gaps, 1)
    return Game(law_of(problem, 1.0), looks, 1, streams(), record, control)


# ------------------------------------------------------------------------------------------- generic


@jit
def index_at_pointer(params: Any, stage: int, counts: Array, arm: int, mean: float) -> float:
    """Return the index that the formula behind a function pointer gives."""
    value: float = numba_call_pointer(params.pointer, params.values, stage, counts, arm, mean)
    return value


numba_call_pointer = numba_compat.call_pointer


@cache
def _generic_policy(rule: StandardRule) -> Policy:
    policy = index_policy("generic", index_at_pointer, **rule._asdict())
    return replace(policy, constants={"pointer": 0, "values": 0})


def _compile_formula(index: Any, names: tuple[str, ...], kinds: tuple[type, ...]) -> int:
    """Compile a formula that takes its parameters from an array; return a pointer to it."""
    params_of: Any = params_type(names)
    number = {float: "values[{}]", int: "int(values[{}])", bool: "values[{}] != 0"}
    parts = [number[kind].format(n) for n, kind in enumerate(kinds)]
    unpack = jit(eval(f"lambda values: ({''.join(part + ', ' for part in parts)})"))

    def formula(values: Array, stage: int, counts: Array, arm: int, mean: float) -> Any:
        return float(index(params_of(*unpack(values)), stage, counts, arm, mean))

    options = {k: v for k, v in numba_compat.INLINE.items() if k != "forceinline"}
    dispatcher = cached_dispatcher(formula, [(index, Mark())], no_cfunc_wrapper=True, **options)
    if dispatcher not in _pointers:
        _pointers[dispatcher] = numba_compat.pointer_to(dispatcher)
    return _pointers[dispatcher]


_pointers: dict[Any, int] = {}


# -------------------------------------------------------------------------------------------- tables


def table_size(horizon: int, looks: int) -> int:
    """Return how long tables must be for the counts of a run, as a power of 2."""
    return int(2 ** (horizon * (1 + looks) + 1).bit_length())


def _tabulated_policy(policy: Policy) -> Policy:
    """Return the policy that looks up both factors of its index in tables."""
    assert policy.factors is not None
    plain_init: Any = policy.init
    view: Any = policy.view
    index, init = _tabulated_index(*policy.factors, plain_init)
    pull, runner_up = choices_by(index, view)
    follows = policy.rule is not None and policy.rule.look == "runner-up"
    return replace(
        policy,
        constants={**policy.constants, "growths": np.zeros(0), "widths": np.zeros(0)},
        init=init,
        pull=pull if policy.rule is not None else policy.pull,
        look=runner_up if follows else policy.look,
        index=index,
    )


@cache
def _tabulated_index(growth: Any, width: Any, plain_init: Any) -> tuple[Any, Any]:
    """Return an index that is looked up, and the `init` that fills the tables at the first run."""

    def index(params: Any, stage: int, counts: Array, arm: int, mean: float) -> Any:
        # A bound may be asked for beyond the horizon, where it need not grow any more.
        grown = params.growths[min(stage, params.growths.size - 1)]
        return mean + grown * params.widths[counts[arm]]

    def fill(params: Any) -> None:
        growths, widths = params.growths, params.widths
        for stage in range(1, growths.size):
            growths[stage] = growth(params, stage)
        for count in range(1, widths.size):
            widths[count] = width(params, count)
        growths[0] = 1.0

    fill = jit(fill)

    def init(params: Any, n_arms: int) -> Any:
        if params.growths[0] == 0:  # not filled yet
            fill(params)
        return plain_init(params, n_arms)

    return jit(index), jit(allocates=True)(init)


@lru_cache(MAX_TABLES)
def _tables(index: Any, params: Any, size: int, thread: int) -> tuple[Array, Array]:
    """Return the tables of one thread, which the first run fills."""
    return np.zeros(size), np.zeros(size)


# -------------------------------------------------------------------------------------------- errors


def _reason(message: str) -> str:
    """Return the line of numba's message that says what is wrong."""
    where = (
        "Failed in", "No implementation", ">>>", "There are", "- Of which", "Overload in",
        "With argument", "Rejected as", "During", "File ", "raised from", "TypingError: Failed",
    )  # fmt: skip
    plain = re.search(r"name '(\w+)'.* Numba type of <class 'function'>", message)
    if plain is not None:
        return f"{plain[1]}, a plain function; decorate it with @kibitz.jit"
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith(where)), lines[0] if lines else "")


def _place(message: str) -> str:
    """Return the line of the user's own file that numba's message names last, in parentheses."""
    ours = Path(__file__).resolve().parents[1]
    for file, line in reversed(re.findall(r'File "([^"]+)", line (\d+)', message)):
        path = Path(file).resolve()
        if ours not in path.parents and "numba" not in path.parts:
            return f" ({file}, line {line})"
    return ""
