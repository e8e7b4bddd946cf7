"""Rehearse an agent and its store in a simulated environment with delayed and lost reports.

The environment uses the same random numbers as the simulator. If every report arrives at once, the
agent reproduces the runs of `kibitz.simulate`.
"""

import contextlib
import math
import os
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.random import SFC64, Generator, SeedSequence

from kibitz._validation import between, non_negative, whole
from kibitz.live.agent.agent import Agent, agent
from kibitz.model.problem import Problem, check_problem
from kibitz.policies.policy import Policy, check_policy

if TYPE_CHECKING:
    import xarray

START = 4e9  # time of stage 0 in seconds since 1970; a stage takes one second
N_STAGES = 200  # log-spaced stages at which regret is recorded
NEVER = 2**62  # a stage beyond every horizon


class Faults(NamedTuple):
    """Delay, loss and duplication of reports."""

    delay: int = 0  # stages until a report arrives
    loss: float = 0.0  # probability that a report is lost
    duplicates: float = 0.0  # probability that a report arrives twice


def rehearse(
    problem: Problem,
    policy: Policy,
    *,
    horizon: int,
    runs: int,
    seed: int,
    delay: int = 0,
    loss: float = 0.0,
    duplicates: float = 0.0,
    rate: float = 0.0,
    patience: float | None = None,
    store: str | os.PathLike[str] | None = None,
    beside: "xarray.Dataset | None" = None,
    progress: Callable[[str, float], None] | None = None,
) -> "xarray.Dataset":
    """Run an agent, with its store, in a simulated environment.

    Parameters
    ----------
    problem, policy, horizon, runs, seed
        As in `simulate`.
    delay
        The number of stages until a report arrives.
    loss, duplicates
        The probabilities that a report is lost, or arrives twice.
    rate
        The probability of a look in each stage.
    patience
        The number of stages after which a decision without a report stops being pending. The default
        is 2 * delay + 10 if `loss` is positive. If `loss` is 0, decisions stay pending by default.
    store
        The store that holds one agent for each run (`rehearsal-0`, ...). The default is a temporary
        file.
    beside
        A result of `simulate` for the same problem, horizon, runs and seed with `active(rate)` as
        feedback. Its policies are added to the result for comparison.
    progress
        A function that is called after each run as `progress(activity, share)`, with the share of the
        runs that are complete.

    Returns
    -------
    xarray.Dataset
        `regret` (policy, run, stage) and `final_regret` (policy, run) of the policy "agent" and of
        the policies of `beside`;
        `n_duplicates` (run), the number of reports that arrived twice and were counted once.
    """
    import xarray

    check_problem(problem), check_policy(policy)
    horizon, runs = whole(horizon, "horizon", 1, 10**7), whole(runs, "runs", 1, 10_000)
    seed, rate = whole(seed, "seed"), between(non_negative(rate, "rate"), "rate", 0, 1)
    faults = Faults(
        whole(delay, "delay"), between(loss, "loss", 0, 1), between(duplicates, "duplicates", 0, 1)
    )
    if patience is None and faults.loss > 0:
        patience = 2 * faults.delay + 10
    stages = np.unique(np.geomspace(1, horizon, N_STAGES).round().astype(np.int64))
    stages[-1] = horizon
    if beside is not None:
        stages = beside["stage"].to_numpy()
    regret, n_duplicates = np.zeros((1, runs, stages.size)), np.zeros(runs, np.int64)
    with contextlib.ExitStack() as stack:
        if store is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kibitz-"))
            store = Path(folder) / "rehearsal.db"
        for run in range(runs):
            arguments: dict[str, Any] = {
                "arms": [f"arm {n}" for n in range(problem.n_arms)],
                "policy": policy,
                "scale": problem.scale or 1.0,
                "seed": seed,
                "patience": patience,
            }
            player = stack.enter_context(agent(store, f"rehearsal-{run}", **arguments))
            if any(arm.n_asked for arm in player.arms()):
                raise ValueError(
                    f"store {str(store)!r} already has agents of a rehearsal; use a new store"
                )
            cumulative, n_duplicates[run] = play(player, problem, rate, horizon, seed, run, faults)
            regret[0, run] = cumulative[stages - 1]
            if discrepancies := player.check():
                raise ValueError(f"the rehearsal left an inconsistent store: {discrepancies[0]}")
            if progress is not None:
                progress("rehearsing", (run + 1) / runs)
            player.close()
    data = xarray.Dataset(
        {"regret": (("policy", "run", "stage"), regret)},
        {"policy": ["agent"], "run": np.arange(runs), "stage": stages},
        {} if beside is None else beside.attrs,
    )
    both = data if beside is None else xarray.concat([data, beside[["regret"]]], "policy")
    both["final_regret"] = both["regret"].isel(stage=-1)
    both["n_duplicates"] = ("run", n_duplicates)
    both.attrs = {**data.attrs, "faults": str(faults._asdict())}
    return both


def play(
    player: Agent, problem: Problem, rate: float, horizon: int, seed: int, run: int, faults: Faults
) -> tuple[Any, int]:
    """Play a run; return the cumulative regret at each stage and the number of duplicate reports."""
    rewards, looks = environment_streams(seed, run)
    reports = np.random.default_rng([seed, run, 1])
    places = {arm.name: place for place, arm in enumerate(player.arms())}
    in_transit: deque[tuple[int, int, float]] = deque()  # (stage, id, reward)
    gaps, n_duplicates = np.zeros(horizon), 0
    arrival = next_look(rate, 0, looks)
    for stage in range(1, horizon + 1):
        player.now = lambda stage=stage: START + stage  # type: ignore[misc]
        decision = player.ask(key=f"stage {stage}")
        arm = places[decision.arm]
        gaps[stage - 1] = problem.gaps[arm]
        in_transit.append((stage, decision.id, draw(problem, arm, rewards)))
        if stage == arrival:
            look = player.look()
            in_transit.append((stage, look.id, draw(problem, places[look.arm], looks)))
            arrival = next_look(rate, stage, looks)
        n_duplicates += deliver_reports(player, in_transit, stage, faults, reports)
    return np.cumsum(gaps), n_duplicates


def environment_streams(seed: int, run: int) -> tuple[Generator, Generator]:
    """Return two random streams of the simulator for a run: one for pulls and one for looks.

    `engine/rng.py` seeds three SFC64 generators, each from three 64-bit words. The third generator
    belongs to the policy.
    """
    words = SeedSequence(seed, spawn_key=(run,)).generate_state(9, np.uint64)
    rewards, looks = SFC64(0), SFC64(0)
    for bits, part in ((rewards, words[0:3]), (looks, words[3:6])):
        bits.state = {**bits.state, "state": {"state": np.array([*part, 1], np.uint64)}}
        bits.random_raw(12)  # discard 12 numbers, as NumPy does after seeding
    return Generator(rewards), Generator(looks)


def draw(problem: Problem, arm: int, rng: Generator) -> float:
    """Return a random reward of an arm, drawn as the simulator draws it."""
    if problem.kind == "gaussian":
        return float(problem.means[arm] + problem.sds[arm] * rng.standard_normal())
    u = rng.random()
    if problem.kind == "bernoulli":
        return 1.0 if u < problem.means[arm] else 0.0
    values = problem.values[arm]
    return float(values[int(u * values.size)])


def next_look(rate: float, stage: int, rng: Generator) -> int:
    """Return the stage of the first look after `stage`; the waiting time is geometric."""
    if rate == 0:
        return NEVER
    expected_wait = -1 / math.log1p(-rate) if rate < 1 else 0.0
    wait = rng.standard_exponential() * expected_wait
    return stage + 1 + int(wait) if wait < 1e18 else NEVER


def deliver_reports(
    player: Agent, in_transit: deque[tuple[int, int, float]], stage: int, faults: Faults, rng: Any
) -> int:
    """Tell the agent the rewards whose delay has passed; return the number of duplicate reports."""
    reports = []
    while in_transit and in_transit[0][0] + faults.delay <= stage:
        _, id, reward = in_transit.popleft()
        if rng.random() >= faults.loss:
            reports.append((id, reward))
            if rng.random() < faults.duplicates:
                reports.append((id, reward))
    return player.tell(reports).count("duplicate") if reports else 0
