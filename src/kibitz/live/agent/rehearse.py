"""Rehearse an agent and its store in a simulated environment with delayed and lost reports.

The environment uses the same random numbers as the simulator. If every report arrives at once, the
agent reproduces the runs of `kibitz.simulate`.
"""

import contextlib
import json
import math
import os
import tempfile
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.random import SFC64, Generator, SeedSequence

from kibitz._progress import Progress, show_progress
from kibitz._validation import between, non_negative, seed_number, short_repr, whole
from kibitz.live.agent.agent import Agent, agent
from kibitz.model.feedback import active, bandit
from kibitz.model.problem import Problem, check_problem
from kibitz.policies.policy import Policy, check_policy

if TYPE_CHECKING:
    import xarray

START = 4e9  # time of stage 0 in seconds since 1970; a stage takes one second
N_STAGES = 200  # log-spaced stages at which regret is recorded
NEVER = 2**62  # a stage beyond every horizon
AGENT = "agent"  # the label of the agent in the result
VARIABLE_ATTRIBUTES = {  # name: long name, units
    "regret": ("cumulative regret at the end of the stage", "reward"),
    "final_regret": ("cumulative regret at the horizon", "reward"),
    "n_duplicates": ("reports that arrived twice and were counted once", "reports"),
    "n_alarms": ("alarms of the monitor of the agent", "alarms"),
    "policy": ("label of the policy",),
    "run": ("number of the run", "1"),
    "stage": ("stage", "stages"),
}


class Faults(NamedTuple):
    """The faults of the reports in a rehearsal: delay, loss, duplication and silence."""

    delay: int = 0  # stages until a report arrives
    loss: float = 0.0  # probability that a report is lost
    duplicates: float = 0.0  # probability that a report arrives twice
    silence: str | float = "forget"  # rewards of this value are not reported


def rehearse(
    problem: Problem,
    policy: Policy,
    *,
    horizon: int,
    runs: int,
    seed: int | SeedSequence,
    delay: int = 0,
    loss: float = 0.0,
    duplicates: float = 0.0,
    rate: float = 0.0,
    patience: float | None = None,
    silence: str | float = "forget",
    bucket: float = 0.0,
    alarms: float | None = None,
    store: str | os.PathLike[str] | None = None,
    beside: "xarray.Dataset | None" = None,
    progress: Progress | bool | None = None,
) -> "xarray.Dataset":
    """Run an agent, with its store, in a simulated environment.

    Parameters
    ----------
    problem, policy, horizon, runs, seed
        As in `simulate`.
    delay
        The number of stages until a report arrives.
    loss, duplicates
        The probability that a report is lost, and the probability that a report arrives twice.
    rate
        The probability of a look in each stage.
    patience
        The number of stages after which a decision without a report stops being pending. The default
        is 2 * delay + 10 if `loss` is positive, `silence` is a reward or the agent has a monitor.
        Otherwise, decisions stay pending by default.
    silence
        "forget", or the reward that a missing report means, such as 0 for no click. A reward of this
        value is then never reported, and the agent counts it after `patience` stages.
    bucket
        The probability with which the agent chooses an arm uniformly at random; see `kibitz.agent`.
    alarms
        The probability of a false alarm of an agent with a monitor; see `kibitz.agent`.
    store
        The store that holds one agent for each run (`rehearsal-0`, ...). The default is a temporary
        file.
    beside
        A result of `simulate` for the same problem, horizon, runs and seed with `active(rate)` as
        feedback. Its policies are added to the result for comparison.
    progress
        A function that is called after each run as `progress(activity, share)`, with the share of the
        runs that are complete. Default: a line on the terminal or in the notebook. False shows
        nothing.

    Returns
    -------
    xarray.Dataset
        `regret` (policy, run, stage) and `final_regret` (policy, run) of the policy "agent" and of
        the policies of `beside`;
        `n_duplicates` (run), the number of reports that arrived twice and were counted once;
        `n_alarms` (run), the number of alarms of the agent's monitor.
    """
    import xarray

    check_problem(problem), check_policy(policy)
    horizon, runs = whole(horizon, "horizon", 1, 10**7), whole(runs, "runs", 1, 10_000)
    seed, rate = seed_number(seed), between(non_negative(rate, "rate"), "rate", 0, 1)
    faults = Faults(
        whole(delay, "delay"),
        between(loss, "loss", 0, 1),
        between(duplicates, "duplicates", 0, 1),
        silence,
    )
    if patience is None and (faults.loss > 0 or silence != "forget" or alarms is not None):
        patience = 2 * faults.delay + 10
    stages = np.unique(np.geomspace(1, horizon, N_STAGES).round().astype(np.int64))
    stages[-1] = horizon
    setting = {"problem": problem.spec, "horizon": horizon, "seed": seed}
    setting["feedback"] = active(rate).spec if rate > 0 else bandit().spec
    attributes: dict[str, Any] = {
        "problem": short_repr(problem), "horizon": horizon, "seed": seed, "rate": rate,
        "fingerprint": json.dumps(setting),
    }  # fmt: skip
    if beside is not None:
        check_beside(beside, setting, runs)
        stages, attributes = beside["stage"].to_numpy(), beside.attrs
    rewards = "bernoulli" if problem.kind == "bernoulli" else policy.rewards
    regret, n_duplicates = np.zeros((1, runs, stages.size)), np.zeros(runs, np.int64)
    n_alarms = np.zeros(runs, np.int64)
    with contextlib.ExitStack() as stack:
        report_progress = stack.enter_context(show_progress(progress, "rehearsing"))
        if store is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kibitz-"))
            store = Path(folder) / "rehearsal.db"
        for run in range(runs):
            arguments: dict[str, Any] = {
                "arms": [f"arm {n}" for n in range(problem.n_arms)],
                "rewards": rewards,
                "policy": policy,
                "scale": (problem.scale or 1.0) if rewards == "gaussian" else None,
                "seed": seed,
                "patience": patience,
                "silence": silence,
                "bucket": bucket,
                "alarms": alarms,
            }
            live_agent = stack.enter_context(agent(store, f"rehearsal-{run}", **arguments))
            if any(arm.n_asked for arm in live_agent.arms()):
                raise ValueError(
                    f"store {str(store)!r} already has agents of a rehearsal; use a new store"
                )
            cumulative_regret, n_duplicates[run] = play(
                live_agent, problem, rate, horizon, seed, run, faults
            )
            regret[0, run] = cumulative_regret[stages - 1]
            n_alarms[run] = len(live_agent.alarms())
            if discrepancies := live_agent.check():
                raise ValueError(f"the rehearsal left an inconsistent store: {discrepancies[0]}")
            report_progress("rehearsing", (run + 1) / runs)
            live_agent.close()
    data = xarray.Dataset(
        {"regret": (("policy", "run", "stage"), regret)},
        {"policy": [AGENT], "run": np.arange(runs), "stage": stages},
    )
    if beside is not None:
        data = xarray.concat([data, beside[["regret"]]], "policy", join="exact")
    data["final_regret"] = data["regret"].isel(stage=-1, drop=True)
    data["n_duplicates"], data["n_alarms"] = ("run", n_duplicates), ("run", n_alarms)
    for name, attrs in VARIABLE_ATTRIBUTES.items():
        data[name].attrs = dict(zip(("long_name", "units"), attrs, strict=False))
    faults_text = "; ".join(f"{name} {value}" for name, value in faults._asdict().items())
    data.attrs = {**attributes, "agent": short_repr(policy), "faults": faults_text}
    return data


def check_beside(beside: Any, setting: dict[str, Any], runs: int) -> None:
    """Raise ValueError if `beside` is not a result of `simulate` for the setting of the rehearsal."""
    import xarray

    if not isinstance(beside, xarray.Dataset) or "regret" not in beside:
        raise ValueError(f"beside must be a result of simulate, got {type(beside)}")
    if set(beside["regret"].dims) != {"policy", "run", "stage"}:
        raise ValueError("beside must be a result of simulate, not of sweep, and keep its runs")
    simulated = json.loads(beside.attrs.get("fingerprint", "{}"))
    expected: dict[str, Any] = json.loads(json.dumps(setting))
    if setting["feedback"] == bandit().spec and simulated.get("feedback") == active(0).spec:
        simulated["feedback"] = expected["feedback"]
    for name, value in {**expected, "runs": runs}.items():
        found = beside.sizes["run"] if name == "runs" else simulated.get(name)
        if found != value:
            raise ValueError(
                f"beside must be a result of simulate with the {name} of the rehearsal, "
                f"{short_repr(value)}, got {short_repr(found)}"
            )
    if AGENT in beside["policy"]:
        raise ValueError(f"a policy of beside has the label {AGENT!r}; give it another label")


def play(
    live_agent: Agent,
    problem: Problem,
    rate: float,
    horizon: int,
    seed: int,
    run: int,
    faults: Faults,
) -> tuple[Any, int]:
    """Play a run; return the cumulative regret at each stage and the number of duplicate reports."""
    pull_rng, look_rng = environment_streams(seed, run)
    report_rng = np.random.default_rng([seed, run, 1])
    arm_indices = {arm.name: arm_index for arm_index, arm in enumerate(live_agent.arms())}
    in_transit: deque[tuple[int, int, float]] = deque()  # (stage, id, reward)
    gaps, n_duplicates = np.zeros(horizon), 0
    next_look_stage = next_look(rate, 0, look_rng)
    for stage in range(1, horizon + 1):
        live_agent.now = lambda stage=stage: START + stage  # type: ignore[misc]
        decision = live_agent.ask(key=f"stage {stage}")
        arm = arm_indices[decision.arm]
        piece = problem.at(stage)
        gaps[stage - 1] = piece.gaps[arm]
        in_transit.append((stage, decision.id, draw(piece, arm, pull_rng)))
        if stage == next_look_stage:
            look = live_agent.look()
            in_transit.append((stage, look.id, draw(piece, arm_indices[look.arm], look_rng)))
            next_look_stage = next_look(rate, stage, look_rng)
        n_duplicates += deliver_reports(live_agent, in_transit, stage, faults, report_rng)
    return np.cumsum(gaps), n_duplicates


def environment_streams(seed: int, run: int) -> tuple[Generator, Generator]:
    """Return two random streams of the simulator for a run: one for pulls and one for looks.

    `engine/rng.py` seeds three SFC64 generators, each from three 64-bit words. The third generator
    belongs to the policy.
    """
    seed_words = SeedSequence(seed, spawn_key=(run,)).generate_state(9, np.uint64)
    pull_bits, look_bits = SFC64(0), SFC64(0)
    for bit_generator, stream_words in ((pull_bits, seed_words[0:3]), (look_bits, seed_words[3:6])):
        bit_generator.state = {
            **bit_generator.state,
            "state": {"state": np.array([*stream_words, 1], np.uint64)},
        }
        bit_generator.random_raw(12)  # discard 12 numbers, as NumPy does after seeding
    return Generator(pull_bits), Generator(look_bits)


def draw(problem: Problem, arm: int, rng: Generator) -> float:
    """Return a random reward of an arm, drawn as the simulator draws it."""
    if problem.kind == "gaussian":
        return float(problem.means[arm] + problem.sds[arm] * rng.standard_normal())
    u = rng.random()
    if problem.kind == "bernoulli":
        return 1.0 if u < problem.means[arm] else 0.0
    if problem.kind == "scipy":
        return problem.quantile(arm, u)
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
    live_agent: Agent, in_transit: deque[tuple[int, int, float]], stage: int, faults: Faults, rng: Any
) -> int:
    """Tell the agent the rewards whose delay has passed; return the number of duplicate reports."""
    reports = []
    while in_transit and in_transit[0][0] + faults.delay <= stage:
        _, id, reward = in_transit.popleft()
        if rng.random() >= faults.loss and reward != faults.silence:
            reports.append((id, reward))
            if rng.random() < faults.duplicates:
                reports.append((id, reward))
    return live_agent.tell(reports).count("duplicate") if reports else 0
