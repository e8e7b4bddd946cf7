"""Tables: an index that is mean + growth(stage) * width(count) is looked up, not computed.

Logarithm, division and root of an index cost more than drawing a reward. Where a policy says that its
index has two factors (`policies.policy.separable`), they are computed once, by the very functions
that the index is made of, for all runs that a thread plays. So the numbers are the same, bit for bit.
"""

from dataclasses import replace
from functools import cache, lru_cache
from threading import get_ident
from typing import Any

import numpy as np

from kibitz.engine.jit import jit, jit_init
from kibitz.policies.policy import Array, Policy, choices_by

LONGEST = 2**17  # numbers, a megabyte
REMEMBERED = 16  # pairs of tables


def tabled(policy: Policy, horizon: int, looks: int) -> Policy | None:
    """Return the policy that looks up its index; None if it has no factors, or too much to look up.

    `looks` come at a stage at most.
    """
    factors = getattr(policy.index, "factors", None)
    if factors is None or table_size(horizon, looks) > LONGEST:
        return None
    index, init = _by_tables(*factors, policy.init)
    by_formula, by_tables = choices_by(policy.index, policy.view), choices_by(index, policy.view)
    looked_up = dict(zip(by_formula, by_tables, strict=True))
    return replace(
        policy,
        numbers={**policy.numbers, "growths": 0, "widths": 0},
        init=init,
        pull=looked_up.get(policy.pull, policy.pull),
        observe=looked_up.get(policy.observe, policy.observe),
        index=index,
    )


@cache
def _by_tables(growth: Any, width: Any, plain_init: Any) -> tuple[Any, Any]:
    def index(params: Any, stage: int, counts: Array, arm: int, mean: float) -> Any:
        # A bound may be asked for beyond the horizon, where no stage is: it need not grow there.
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

    return jit(index), jit_init(init)


def table_size(horizon: int, looks: int) -> int:
    """Return how long tables must be for the counts of a game, as a power of 2."""
    return int(2 ** (horizon * (1 + looks) + 1).bit_length())


def table_numbers(policy: Policy, params: Any, horizon: int, looks: int) -> tuple[Any, ...]:
    """Return the numbers of a policy that looks up its index: its parameters, and the tables."""
    return *params, *_tables(policy.index, params, table_size(horizon, looks), get_ident())


@lru_cache(REMEMBERED)
def _tables(index: Any, params: Any, size: int, thread: int) -> tuple[Array, Array]:
    """Return tables for stages and counts, of one thread, to be filled where they are used."""
    return np.zeros(size), np.zeros(size)
