"""Drafts: a loop that calls the index of a policy by its address.

To compile a formula into the whole loop takes many seconds. A draft is the loop of a policy whose
index is "what stands at this address": one loop for all formulas, compiled once and kept. Then a new
formula is compiled by itself, in a tenth of a second, and played at once. The decisions are the same
ones, bit for bit, at two to three times the price of a stage.

A policy that was made by `index_policy`, or as that would, has a draft. One that keeps a state of its
own, or draws at random, is compiled as a whole: kibitzer, OCUCB-n (sums that it keeps), UCB2,
ETC-OCUCB, Improved UCB, Thompson.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import numba
import numpy as np

from kibitz.engine import numba_compat as private
from kibitz.engine.content import content_hash
from kibitz.engine.jit import address_of, jit
from kibitz.engine.numba_compat import call_address
from kibitz.policies.policy import (
    Array,
    Policy,
    choices_by,
    index_policy,
    observe_in_turn,
    params_type,
    seen_init,
    seen_turns,
    seen_update,
    seen_update_pulls,
    seen_view,
    seen_view_pulls,
)

IGNORES_FREE: dict[Any, bool] = {
    (seen_init, seen_view, seen_update): False,
    (seen_init, seen_view_pulls, seen_update_pulls): True,
}


@jit
def index_at(params: Any, stage: int, counts: Array, arm: int, mean: float) -> float:
    """Return the index that the formula at an address gives."""
    value: float = call_address(params.address, params.values, stage, counts, arm, mean)
    return value


def draft_of(policy: Policy) -> Policy | None:
    """Return the policy whose loop plays this one, given its formula; None if there is none."""
    if not private.CAN_DRAFT or numba.config.DISABLE_JIT:
        return None
    how = _drafted_how(policy.functions)
    return None if how is None else _draft(*how)


@cache
def _drafted_how(functions: tuple[Any, ...]) -> tuple[str, bool] | None:
    """Return where a policy of these functions looks and whether it ignores looks, if it has a draft.

    A policy that was sent here has functions of its own, with the content of ours.
    """
    init, pull, observe, update, index, view, turns, *more = functions
    ignores = IGNORES_FREE.get((init, view, update))
    if more or index is None or ignores is None:
        return None
    largest, runner_up = choices_by(index, view)
    if content_hash(pull) != content_hash(largest):
        return None
    if turns is None and content_hash(observe) == content_hash(runner_up):
        return "runner-up", ignores
    if turns is seen_turns and observe is observe_in_turn:
        return "robin", ignores
    return None


@cache
def _draft(look: str, ignore_free: bool) -> Policy:
    policy = index_policy("draft", index_at, look=look, ignore_free=ignore_free)
    return replace(policy, numbers={"address": 0, "values": 0})


def formula_numbers(policy: Policy, params: Any) -> tuple[int, Array]:
    """Return the numbers of a draft: the address of the formula, and what it finds in its params."""
    kinds = tuple(type(value) for value in params)
    return _address(policy.index, tuple(policy.numbers), kinds), np.array(params, float)


@cache
def _address(index: Any, names: tuple[str, ...], kinds: tuple[type, ...]) -> int:
    """Compile a formula that takes its parameters from an array."""
    params_of: Any = params_type(names)
    number = {float: "values[{}]", int: "int(values[{}])", bool: "values[{}] != 0"}
    parts = [number[kind].format(n) for n, kind in enumerate(kinds)]
    unpacked = jit(eval(f"lambda values: ({''.join(part + ', ' for part in parts)})"))

    def formula(values: Array, stage: int, counts: Array, arm: int, mean: float) -> Any:
        return float(index(params_of(*unpacked(values)), stage, counts, arm, mean))

    return address_of(formula)
