"""Typed code that uses kibitz; `test_public.py` checks it with `mypy --strict` and never runs it."""

from collections.abc import Callable
from types import ModuleType
from typing import Any, assert_type

import numpy as np
import xarray
from numpy.typing import NDArray

import kibitz
from kibitz.bounds import lower

problem = kibitz.gaussian([1.0, 0.5], sd=2.0)
feedback = kibitz.active(kibitz.every(10), looks=2)
players = [kibitz.ucb(), kibitz.etc_ocucb(p=1.5), kibitz.thompson()]
data = kibitz.simulate(problem, feedback, players, horizon=100, runs=5, seed=1)
swept = kibitz.sweep(problem, kibitz.passive, players, rate=[0.1], horizon=9, runs=5, seed=1)

grid: dict[str, Any] = {"rate": [0.1, 0.2], "exploration": [2.0]}
swept_grid = kibitz.sweep(
    problem, kibitz.active, kibitz.ucb, horizon=[9, 10], runs=5, seed=1, keep="summary", **grid
)
assert_type(swept_grid, xarray.Dataset)
assert_type(
    kibitz.random_problems(lambda rng: kibitz.gaussian(rng.normal(size=2)), seed=1)(0), kibitz.Problem
)
assert_type(problem, kibitz.Problem)
assert_type(feedback, kibitz.Feedback)
assert_type(players, list[kibitz.Policy])
assert_type(data, xarray.Dataset)
assert_type(swept, xarray.Dataset)
assert_type(kibitz.race(problem, feedback, players, horizon=9, runs=5, seed=1), xarray.Dataset)
assert_type(kibitz.plan(100, n_arms=2, gap=0.5).regret, float)
assert_type(kibitz.bounds, ModuleType)
assert_type(lower.reference_curve(problem, feedback, 100), float | NDArray[np.float64])
assert_type(lower.reference_curve([0, 1], 0.1, horizon=100), float | NDArray[np.float64])
agent = kibitz.agent(
    "shop.db", "checkout", arms=["blue", "green"], policy=kibitz.ucb(), rewards="bernoulli"
)
for interface in (agent, kibitz.Client("http://127.0.0.1:8765", agent="checkout")):
    assert_type(interface.ask(), kibitz.Decision)
    assert_type(interface.ask(n=2), list[kibitz.Decision])
    assert_type(interface.tell(1, 0.5), str)
    assert_type(interface.tell([(1, 0.5), (2, 1.0)]), list[str])
check: Callable[[kibitz.Policy], None] = kibitz.check

kibitz.simulate(problem, feedback, "ucb", horizon=100, runs=5, seed=1)  # error: arg-type
kibitz.simulate(problem, feedback, players, horizon=100, runs=5)  # error: call-arg
kibitz.simulate(problem, feedback, players, horizon=9, runs=5, seed=1, threads="2")  # error: arg-type
kibitz.race(problem, feedback, players, horizon=9, runs=5, seed=1, thread=2)  # error: call-arg
kibitz.sweep(problem, kibitz.active, players, rate=[0.1], horizon=9, runs=5)  # error: call-arg
kibitz.ucb(explore=2.0)  # error: call-arg
lower.passive_theorem([0, 1], 0.1, "uniform")  # error: call-overload
print(kibitz.nonsense)  # error: attr-defined
