"""The dress rehearsal: an agent with its store against a simulated world.

The world is the simulator's, draw for draw: with reports that come at once, none lost, the agent
plays the very runs of `kibitz.simulate`. Then reports come late, get lost, or come twice.
"""

import contextlib
import os
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kibitz._validation import between, non_negative, whole
from kibitz.engine.environment import draw, law_of, look_functions, looks_of
from kibitz.engine.rng import seed_stream, seed_words, streams
from kibitz.live.agent import Agent, agent
from kibitz.model.feedback import active, bandit
from kibitz.model.problem import Problem, checked_problem
from kibitz.policies.policy import Policy, checked_policy
from kibitz.simulation.schedule import log_spaced
from kibitz.simulation.simulate import simulate

if TYPE_CHECKING:
    import xarray

START = 4e9  # when a rehearsal begins, in seconds since 1970; a stage takes one


class Trouble(NamedTuple):
    """What happens to reports."""

    delay: int = 0  # each comes so many stages later
    loss: float = 0.0  # or never, with this probability
    duplicates: float = 0.0  # or once more, with this one


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
    progress: Callable[[str, float], None] | None = None,
) -> "xarray.Dataset":
    r"""Play an agent, with its store, against a simulated world, beside the simulator.

    Parameters
    ----------
    problem, policy, horizon, runs, seed
        As in `simulate`.
    delay
        After how many stages a report comes.
    loss, duplicates
        The probabilities that a report never comes, or comes twice.
    rate
        How often the agent gets a look.
    patience
        After how many stages it no longer waits for a report; unless given, for ever, or if reports
        get lost, for twice the delay and ten stages more.
    store
        Where the agents are kept, one for each run (`rehearsal-0`, ...); a file that is thrown away
        unless given.

    Returns
    -------
    xarray.Dataset
        `regret` (policy, run, stage) for the policies "agent" and "simulator"; `n_again` (run), how
        many reports came twice and were not counted.
    """
    import xarray

    checked_problem(problem), checked_policy(policy)
    horizon, runs = whole(horizon, "horizon", 1, 10**7), whole(runs, "runs", 1, 10_000)
    seed = whole(seed, "seed")
    trouble = Trouble(
        whole(delay, "delay"), between(loss, "loss", 0, 1), between(duplicates, "duplicates", 0, 1)
    )
    feedback = active(rate) if non_negative(rate, "rate") > 0 else bandit()
    if patience is None and trouble.loss > 0:
        patience = 2 * trouble.delay + 10
    stages = log_spaced(horizon)
    simulated = simulate(
        problem, feedback, {"simulator": policy}, horizon=horizon, runs=runs, seed=seed,
        stages=stages, engine="step", progress=progress,
    )  # fmt: skip
    regret, n_again = np.zeros((1, runs, stages.size)), np.zeros(runs, np.int64)
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
                raise ValueError(f"store must be new to a rehearsal, got {str(store)!r}")
            cumulative, n_again[run] = play(player, problem, feedback, horizon, seed, run, trouble)
            regret[0, run] = cumulative[stages - 1]
            wrong = player.check()
            if wrong:
                raise ValueError(f"check of the rehearsal must be clean, got: {wrong[0]}")
            if progress is not None:
                progress("rehearsing", (run + 1) / runs)
            player.close()
    data = xarray.Dataset(
        {"regret": (("policy", "run", "stage"), regret), "n_again": ("run", n_again)},
        {"policy": ["agent"], "run": np.arange(runs), "stage": stages},
    )
    both = xarray.concat([data["regret"], simulated["regret"]], "policy")
    return xarray.Dataset(
        {"regret": both, "final_regret": both.isel(stage=-1), "n_again": data["n_again"]},
        attrs={**simulated.attrs, "trouble": str(trouble._asdict())},
    )


def play(
    player: Agent,
    problem: Problem,
    feedback: Any,
    horizon: int,
    seed: int,
    run: int,
    trouble: Trouble,
) -> tuple[Any, int]:
    """Play a run; return the regret at each stage, and how many reports were repetitions."""
    law, looks = law_of(problem, 1.0), looks_of(feedback, problem.gaps, horizon)
    next_arrival, _ = look_functions(feedback)
    rngs, control = streams(), np.zeros(3, np.int64)
    words = seed_words(seed, run, run + 1)[0]
    for stream, part in zip(rngs, (words[0:3], words[3:6], words[6:9]), strict=True):
        seed_stream(stream, part)
    mishaps = np.random.default_rng([seed, run, 1])
    places = {arm.name: place for place, arm in enumerate(player.arms())}
    on_the_way: deque[tuple[int, int, float]] = deque()
    gaps, n_again = np.zeros(horizon), 0
    arrival = next_arrival(looks, 0, horizon, rngs.looks.rng, control)
    for stage in range(1, horizon + 1):
        player.now = lambda stage=stage: START + stage  # type: ignore[misc]
        decision = player.ask(key=f"stage {stage}")
        arm = places[decision.arm]
        gaps[stage - 1] = problem.gaps[arm]
        on_the_way.append((stage, decision.id, float(draw(law, arm, rngs.rewards))))
        if stage == arrival:
            for nth in range(feedback.looks):
                if nth > 0:
                    n_again += arrive(player, on_the_way, stage, trouble, mishaps)
                look = player.look()
                on_the_way.append((stage, look.id, float(draw(law, places[look.arm], rngs.looks))))
            arrival = next_arrival(looks, stage, horizon, rngs.looks.rng, control)
        n_again += arrive(player, on_the_way, stage, trouble, mishaps)
    return np.cumsum(gaps), n_again


def arrive(
    player: Agent, on_the_way: deque[tuple[int, int, float]], stage: int, trouble: Trouble, rng: Any
) -> int:
    """Let the reports arrive that are due; return how many were repetitions."""
    reports, n_again = [], 0
    while on_the_way and on_the_way[0][0] + trouble.delay <= stage:
        _, id, reward = on_the_way.popleft()
        if rng.random() >= trouble.loss:
            reports.append((id, reward))
            if rng.random() < trouble.duplicates:
                reports.append((id, reward))
    if reports:
        n_again = player.tell(reports).count("again")
    return n_again
