"""Kernels: compiled loops that play the runs of one policy with one kind of feedback.

A policy created by `index_policy` has two kernels, which return the same numbers bit for bit:

- The *generic* kernel calls the index through a function pointer. It is compiled once for all
  indices; a new index is compiled separately, in a tenth of a second.
- The *specialised* kernel is compiled together with the functions of the policy, which takes seconds.
  A stage then costs at most half as much. If the index has two factors (`Policy.factors`), the
  kernel looks them up in tables.

Other policies have only a specialised kernel.
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
from kibitz._hashing import content_hash, is_from_kibitz
from kibitz._jit import Mark, jit
from kibitz.engine import numba_compat
from kibitz.engine.cache import cached_dispatcher, is_compiled
from kibitz.engine.environment import make_arms, make_graph, make_looks, make_pieces
from kibitz.engine.jit import deferred_interrupts, gc_disabled
from kibitz.engine.loop import Environment, Record, make_loop
from kibitz.engine.rng import make_seeds, new_streams
from kibitz.model.feedback import Feedback, bandit
from kibitz.model.problem import changing, gaussian
from kibitz.policies.ftl import ftl
from kibitz.policies.index_policy import index_policy, make_choices
from kibitz.policies.policy import Array, Graph, Policy, StandardRule, params_type

RECHECK_SECONDS = 0.5  # shortest time between two searches of the disk for the same kernel
MAX_TABLE_SIZE = 2**17  # largest number of entries of a table, which then takes a megabyte
MAX_TABLES = 16


@dataclass(frozen=True)
class Kernel:
    """The compiled loop that plays a policy with a feedback, stage by stage or in leaps.

    A `generic` kernel calls the index through a function pointer. If `table_size` is not 0, the
    kernel looks up the factors of the index in tables with `table_size` entries.
    """

    policy: Policy
    feedback: Feedback
    leap: bool
    generic: bool = False
    table_size: int = 0
    is_changing: bool = False  # whether the kernel plays problems that change with time

    def __reduce__(self) -> Any:
        setting = (self.policy, self.feedback, self.leap)
        return Kernel, (*setting, self.generic, self.table_size, self.is_changing)

    @cached_property
    def key(self) -> Hashable:
        """A key that distinguishes kernels with different code within this process."""
        user_functions = [f for f in self.feedback.functions if f is not None]
        policy = self._compiled_policy()
        functions: Any = (*policy.functions, *user_functions)
        if not all(f is None or is_from_kibitz(f) for f in functions):
            functions = content_hash(functions)
        takes_functions = tuple(f is not None for f in self.feedback.functions)
        flags = (self.leap, self.feedback.shows is not None, self.is_changing)
        return functions, tuple(policy.constants), takes_functions, flags

    @cached_property
    def code_hash(self) -> str:
        """A hash of all code of the loop, the same in every process."""
        policy = self._compiled_policy()
        return content_hash(make_loop(policy, self.feedback, self.leap, self.is_changing))

    def is_ready(self) -> bool:
        """Return whether the kernel is compiled, in this process or on disk.

        The disk is searched at most twice a second, because a search takes as long as playing ten
        thousand stages.
        """
        key, current_time = self.key, time.monotonic()
        if _next_check.get(key, 0.0) <= current_time:
            is_ready_now = is_compiled(self._get_loop(), self._make_empty_arguments())
            _next_check[key] = math.inf if is_ready_now else current_time + RECHECK_SECONDS
        return _next_check[key] == math.inf

    def compile(self, announce: Callable[[], None] | None = None) -> None:
        """Load the kernel or compile it; call `announce` first if it must be compiled."""
        if announce is not None and not is_compiled(self._get_loop(), self._make_empty_arguments()):
            announce()
        try:
            with deferred_interrupts(), gc_disabled():
                if self.generic:
                    self._make_arguments(tuple(self.policy.params_for(1)))
                self._get_loop()(*self._make_empty_arguments())
        except numba_compat.COMPILE_ERRORS as error:
            raise CompileError(
                f"numba cannot compile {self.policy.name}: {_extract_reason(str(error))}"
                f"{_extract_place(str(error))}"
            ) from error
        _next_check[self.key] = math.inf

    def play(self, environment: Environment, error: float, seeds: Array) -> None:
        """Play one run for each row of `seeds`."""
        n_arms, graph = environment.arms.means.size, environment.graph
        params = fill_graph(self.policy, environment.horizon, graph, n_arms)
        self._get_loop()(self._make_arguments(params), environment, error, seeds)

    def _compiled_policy(self) -> Policy:
        """Return the policy whose functions are compiled into the loop."""
        policy = self.policy
        if self.generic:
            assert policy.rule is not None
            policy = _generic_policy(policy.rule)
        elif self.table_size:
            policy = _tabulated_policy(policy)
        return policy if self.feedback.shows is None else policy.for_graph()

    def _get_loop(self) -> Any:
        key = self.key
        if key not in _loops:
            policy, feedback = self._compiled_policy(), self.feedback
            functions = (*policy.functions, *feedback.functions)
            roots = [(f, Mark(allocates=f is policy.init)) for f in functions if f is not None]
            play = make_loop(policy, feedback, self.leap, self.is_changing)
            _loops[key] = cached_dispatcher(play, roots, nogil=True)
        return _loops[key]

    def _make_arguments(self, params: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the parameters of the policy in the form that the loop expects."""
        if self.generic:
            return self._pointer, np.array(params, float)
        if self.table_size:
            index: Any = self.policy.index
            return *params, *_make_tables(index, params, self.table_size, get_ident())
        return params

    @cached_property
    def _pointer(self) -> int:
        """A pointer to the compiled index."""
        names, params = tuple(self.policy.constants), self.policy.params_for(1)
        return _compile_formula(self.policy.index, names, tuple(type(value) for value in params))

    def _make_empty_arguments(self) -> tuple[Any, ...]:
        """Return arguments of the right types that make the loop play zero runs."""
        environment = make_empty_environment(self.feedback.shows is not None, self.is_changing)
        params: Any = fill_graph(self.policy, 1, None, 2)
        if self.generic:
            params = (0, np.zeros(0))
        elif self.table_size:
            params = (*params, np.zeros(1), np.zeros(1))
        return params, environment, 1e-9, make_seeds(0, 0, 0)


_loops: dict[Hashable, Any] = {}
_next_check: dict[Hashable, float] = {}  # when to search the disk again; inf if the kernel is ready


class PythonKernel(Kernel):
    """The loop in plain Python, which plays a Python policy; nothing is compiled."""

    @cached_property
    def key(self) -> Hashable:
        """A key that distinguishes this kernel from kernels of other policies."""
        return "python", id(self.policy), id(self.feedback)

    @cached_property
    def code_hash(self) -> str:
        """A hash of the engine's loop.

        The loop is hashed with a built-in policy, because a Python object cannot be hashed.
        """
        other_policy = replace(ftl(), index=None, view=None)
        return content_hash(make_loop(other_policy, self.feedback, False, self.is_changing))

    def is_ready(self) -> bool:
        """Return True, because nothing must be compiled."""
        return True

    def compile(self, announce: Callable[[], None] | None = None) -> None:
        """Do nothing."""

    def play(self, environment: Environment, error: float, seeds: Array) -> None:
        """Play one run for each row of `seeds`."""
        play = make_loop(self.policy, self.feedback, False, self.is_changing)
        play((), environment, error, seeds)


def make_kernel(
    policy: Policy, feedback: Feedback, leap: bool, horizon: int, is_changing: bool = False
) -> Kernel:
    """Return the specialised kernel for a policy, or the loop in plain Python for a Python policy.

    The kernel uses tables if the index has factors, the kernel does not leap, and the tables are
    small enough.
    """
    if policy.is_python:
        return PythonKernel(policy, feedback, leap=False, is_changing=is_changing)
    size = table_size(horizon, feedback.looks)
    has_factors = policy.index is not None and policy.factors is not None
    uses_tables = has_factors and not leap and size <= MAX_TABLE_SIZE
    table_size_used = size if uses_tables else 0
    return Kernel(policy, feedback, leap, table_size=table_size_used, is_changing=is_changing)


def make_generic_kernel(
    policy: Policy, feedback: Feedback, leap: bool, is_changing: bool = False
) -> Kernel | None:
    """Return the generic kernel for a policy, or None if the policy has no generic kernel."""
    can_call_index = numba_compat.CAN_CALL_POINTER and not numba.config.DISABLE_JIT
    if not (can_call_index and policy.rule):
        return None
    return Kernel(policy, feedback, leap, generic=True, is_changing=is_changing)


@cache
def make_empty_environment(has_graph: bool, is_changing: bool) -> Environment:
    """Return an environment for zero runs, with the types that all environments have."""
    problem, stages = gaussian([0.0, 0.0]), np.array([1])
    no_counts = np.zeros((0, 2), np.int64)
    record = Record(stages, problem.gaps, False, np.zeros((0, 1)), no_counts, no_counts, np.zeros(0))
    control = np.zeros(3, np.int64)
    looks = make_looks(bandit(), problem.gaps, 1)
    arms, graph = make_arms(problem, 1.0), make_graph(None, 2) if has_graph else None
    pieces = None
    if is_changing:
        arms, pieces = make_pieces(changing([(1, problem), (2, problem)]), bandit(), arms)
    return Environment(arms, looks, 1, new_streams(has_graph), record, control, graph, pieces)


def fill_graph(policy: Policy, horizon: int, graph: Graph | None, n_arms: int) -> tuple[Any, ...]:
    """Return the parameters of a policy; a policy with a parameter `graph` gets the graph."""
    params = policy.params_for(horizon)
    if "graph" in policy.constants:
        params = params._replace(graph=graph or make_graph(None, n_arms))
    return tuple(params)


# ------------------------------------------------------------------------------------------- generic


@jit
def index_at_pointer(params: Any, stage: int, counts: Array, arm: int, mean: float) -> float:
    """Return the index, computed by the function that the pointer in `params` refers to."""
    value: float = numba_call_pointer(params.pointer, params.values, stage, counts, arm, mean)
    return value


numba_call_pointer = numba_compat.call_pointer


@cache
def _generic_policy(rule: StandardRule) -> Policy:
    policy = index_policy("generic", index_at_pointer, **rule._asdict())
    return replace(policy, constants={"pointer": 0, "values": 0})


def _compile_formula(index: Any, names: tuple[str, ...], types: tuple[type, ...]) -> int:
    """Compile an index as a function that takes its parameters as an array; return its pointer."""
    make_params: Any = params_type(names)
    templates = {float: "values[{}]", int: "int(values[{}])", bool: "values[{}] != 0"}
    expressions = [templates[kind].format(n) for n, kind in enumerate(types)]
    unpack = jit(eval(f"lambda values: ({''.join(expression + ', ' for expression in expressions)})"))

    def formula(values: Array, stage: int, counts: Array, arm: int, mean: float) -> Any:
        return float(index(make_params(*unpack(values)), stage, counts, arm, mean))

    options = {k: v for k, v in numba_compat.INLINE.items() if k != "forceinline"}
    dispatcher = cached_dispatcher(formula, [(index, Mark())], no_cfunc_wrapper=True, **options)
    if dispatcher not in _pointers:
        _pointers[dispatcher] = numba_compat.get_pointer(dispatcher)
    return _pointers[dispatcher]


_pointers: dict[Any, int] = {}


# -------------------------------------------------------------------------------------------- tables


def table_size(horizon: int, looks: int) -> int:
    """Return a power of 2 that exceeds all counts and stages of a run."""
    return int(2 ** (horizon * (1 + looks) + 1).bit_length())


def _tabulated_policy(policy: Policy) -> Policy:
    """Return a policy that looks up both factors of its index in tables."""
    assert policy.factors is not None
    plain_init: Any = policy.init
    view: Any = policy.view
    index, init = _tabulated_index(*policy.factors, plain_init)
    pull, runner_up = make_choices(index, view)
    looks_at_runner_up = policy.rule is not None and policy.rule.look == "runner-up"
    return replace(
        policy,
        constants={**policy.constants, "growths": np.zeros(0), "widths": np.zeros(0)},
        init=init,
        pull=pull if policy.rule is not None else policy.pull,
        look=runner_up if looks_at_runner_up else policy.look,
        index=index,
    )


@cache
def _tabulated_index(growth: Any, width: Any, plain_init: Any) -> tuple[Any, Any]:
    """Return an index that uses tables, and an `init` that fills the tables in the first run."""

    def index(params: Any, stage: int, counts: Array, arm: int, mean: float) -> Any:
        # the lazy index also computes bounds for stages beyond the horizon, which no run reaches
        growth_factor = params.growths[min(stage, params.growths.size - 1)]
        return mean + growth_factor * params.widths[counts[arm]]

    def fill_tables(params: Any) -> None:
        growths, widths = params.growths, params.widths
        for stage in range(1, growths.size):
            growths[stage] = growth(params, stage)
        for count in range(1, widths.size):
            widths[count] = width(params, count)
        growths[0] = 1.0

    fill_tables = jit(fill_tables)

    def init(params: Any, n_arms: int) -> Any:
        if params.growths[0] == 0:  # the tables are still empty
            fill_tables(params)
        return plain_init(params, n_arms)

    return jit(index), jit(allocates=True)(init)


@lru_cache(MAX_TABLES)
def _make_tables(index: Any, params: Any, size: int, thread: int) -> tuple[Array, Array]:
    """Return empty tables for one thread; the first run of the thread fills the tables."""
    return np.zeros(size), np.zeros(size)


# -------------------------------------------------------------------------------------------- errors


def _extract_reason(message: str) -> str:
    """Return the line of numba's message that states the error."""
    context_prefixes = (
        "Failed in", "No implementation", ">>>", "There are", "- Of which", "Overload in",
        "With argument", "Rejected as", "During", "File ", "raised from", "TypingError: Failed",
    )  # fmt: skip
    plain_function = re.search(r"name '(\w+)'.* Numba type of <class 'function'>", message)
    if plain_function is not None:
        return f"{plain_function[1]} is a plain function; decorate it with @kibitz.jit"
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return next(
        (line for line in lines if not line.startswith(context_prefixes)), lines[0] if lines else ""
    )


def _extract_place(message: str) -> str:
    """Return the last line of the user's code that numba's message mentions, as " (file, line n)"."""
    package_folder = Path(__file__).resolve().parents[1]
    for file, line in reversed(re.findall(r'File "([^"]+)", line (\d+)', message)):
        path = Path(file).resolve()
        if package_folder not in path.parents and "numba" not in path.parts:
            return f" ({file}, line {line})"
    return ""
