"""Count how often the intervals and verdicts of real agents are wrong under attack.

Each run is one agent with delta = 0.1. Its reports are delayed, lost, repeated and corrected, and its
arms are added, paused and retired at moments that an adversary chooses from the data. After each
event, the script computes the intervals of all arms. After every tenth decision, it computes the
verdict. The script counts two kinds of failed runs:

- an interval ever excludes the true mean of its arm;
- the verdict ever rules out the best arm, or its bound on the loss is ever too small.

At most 10 % of the runs may fail in each way. The last three attacks break the assumption that the
loss or the delay of a report does not depend on its reward; they show that the script detects
failures. If reports are lost, the report of an agent warns and gives wider intervals. The script also
counts how often these wider intervals fail.

Run `python benchmarks/intervals.py [RUNS]`; 60 runs of each attack take about five minutes.
"""

import heapq
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import kibitz
from kibitz.live.agent.confidence import intervals, lost_intervals, split_delta
from kibitz.live.events import Arm

DELTA, HORIZON, PATIENCE, RUNS = 0.1, 240, 40.0, 60
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
BEST, OTHER = 0.35, 0.25  # the means of the best founding arm and of all other arms

Rng = np.random.Generator
Adversary = Callable[[Any, int], None]


@dataclass
class Attack:
    """A rule that delays, loses, corrects or repeats reports, and that may change the arms."""

    delay: Callable[[Rng, float, int], float | None]  # (rng, reward, arm) -> seconds; None if lost
    silence: float | str = "forget"
    rewards: str = "bernoulli"
    change: Adversary | None = None
    corrected_share: float = 0.0
    repeated_share: float = 0.0


def change_arms(agent: Any, stage: int) -> None:
    """Add, pause, resume and retire arms when the data are most misleading.

    Every 12 decisions, the adversary adds an arm. Every 60 decisions, it retires the arm with the
    highest observed mean, but never the best arm. It pauses the best arm while another arm has a
    higher observed mean.
    """
    if stage % 12 == 0:
        agent.add(f"new-{stage}")
    arms = {arm.name: arm for arm in agent.arms() if arm.status != "retired"}
    best = arms["arm-0"]
    rivals = [arm for arm in arms.values() if arm is not best and arm.n_settled > 5]
    if rivals and best.n_settled:
        leader = max(rivals, key=lambda arm: arm.settled_mean)
        looks_bad = best.settled_mean < leader.settled_mean
        if looks_bad != (best.status == "paused"):
            (agent.pause if looks_bad else agent.resume)("arm-0")
        if stage % 60 == 0:
            agent.retire(leader.name)


ATTACKS = {
    "clicks at once, no clicks by silence": Attack(lambda rng, x, k: 0.0 if x else None, silence=0.0),
    "clicks late, no clicks at once": Attack(
        lambda rng, x, k: min(rng.exponential(15.0), PATIENCE - 2) if x else 0.0, silence=0.0
    ),
    "reports lost by arm": Attack(lambda rng, x, k: None if rng.random() < 0.15 * (k % 3) else 2.0),
    "arms added, paused and retired": Attack(lambda rng, x, k: 1.0, change=change_arms),
    "the same, with silence": Attack(
        lambda rng, x, k: rng.uniform(0, 30) if x else None, silence=0.0, change=change_arms
    ),
    "the same, Gaussian rewards": Attack(
        lambda rng, x, k: rng.exponential(5.0), rewards="gaussian", change=change_arms
    ),
    "corrections and repeats": Attack(
        lambda rng, x, k: rng.exponential(5.0), corrected_share=0.3, repeated_share=0.3
    ),
}
BROKEN_ATTACKS = {
    "(broken) clicks at once, no clicks late": Attack(lambda rng, x, k: 0.0 if x else 150.0),
    "(broken) half of the clicks lost": Attack(
        lambda rng, x, k: None if x and rng.random() < 0.5 else 0.0
    ),
    "(broken) clicks after the patience": Attack(
        lambda rng, x, k: PATIENCE + 5 if x else None, silence=0.0
    ),
}


def true_mean(name: str) -> float:
    """Return the true mean of an arm."""
    return BEST if name == "arm-0" else OTHER


def play(attack: Attack, seed: int, horizon: int = HORIZON) -> tuple[bool, bool, bool]:
    """Play one run; return whether the intervals, the verdict and the wider intervals failed."""
    rng = np.random.default_rng(seed)
    is_gaussian = attack.rewards == "gaussian"
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        agent = kibitz.agent(
            f"{folder}/shop.db", "shop", arms=["arm-0", "arm-1", "arm-2"], rewards=attack.rewards,
            scale=0.5 if is_gaussian else None, seed=seed,
            patience=PATIENCE, silence=attack.silence,
        )  # fmt: skip
        clock = [4e9]  # later than the real time, at which the agent was created
        agent.now = lambda: clock[0]
        snapshots: list[list[Arm]] = []
        reports: list[tuple[float, int, float]] = []  # (time, id, reward) in transit
        has_failed = False
        with agent:
            for stage in range(1, horizon + 1):
                clock[0] += 1.0
                while reports and reports[0][0] <= clock[0]:
                    _, id, reward = heapq.heappop(reports)
                    _report(agent, attack, rng, id, reward)
                    snapshots.append(agent.arms())
                if attack.change is not None:
                    attack.change(agent, stage)
                decision = agent.ask()
                mean = true_mean(decision.arm)
                reward = rng.normal(mean, 0.5) if is_gaussian else float(rng.random() < mean)
                delay = attack.delay(rng, reward, int(decision.arm.split("-")[1]))
                if delay is not None:
                    heapq.heappush(reports, (clock[0] + delay, decision.id, reward))
                snapshots.append(agent.arms())
                if stage % 10 == 0:
                    has_failed |= _is_wrong(agent)
            assert agent.check() == []
            scale = agent.config.scale
    has_excluded, has_excluded_wide = (
        _is_excluded(snapshots, attack, scale, is_wide) for is_wide in (False, True)
    )
    return has_excluded, has_failed, has_excluded_wide


def _report(agent: Any, attack: Attack, rng: Rng, id: int, reward: float) -> None:
    """Report a reward; sometimes report a wrong reward and correct it, or report it twice."""
    if rng.random() < attack.corrected_share:
        agent.tell(id, 1.0 - reward)
        agent.correct(id, reward)
    else:
        agent.tell(id, reward)
    if rng.random() < attack.repeated_share:
        assert agent.tell(id, reward) == "duplicate"


def _is_wrong(agent: Any) -> bool:
    """Return whether the verdict rules out the best arm or understates the loss."""
    verdict = agent.verdict(DELTA)
    arms = [arm for arm in agent.arms() if arm.status != "retired" and arm.n_settled]
    leader = max(arms, key=lambda arm: arm.settled_mean, default=None)
    loss = BEST - true_mean(leader.name) if leader is not None else 0.0
    return "arm-0" in verdict.out or verdict.loss_high < loss - 1e-12


def _is_excluded(snapshots: list[list[Arm]], attack: Attack, scale: float, is_wide: bool) -> bool:
    """Return whether an interval of any snapshot excludes the true mean of its arm.

    If `is_wide` is true, the intervals allow for any rewards in [0, 1] of the lost reports.
    """
    names = ("n_settled", "settled_sum", "settled_squares", "n_forgotten")
    rows = {
        (k, true_mean(arm.name), *(float(getattr(arm, name)) for name in names))
        for snapshot in snapshots
        for k, arm in enumerate(snapshot)
    }
    positions, means, n, sums, squares, lost = np.array(sorted(rows)).T
    deltas = split_delta(DELTA, 3, int(positions.max()) + 1)[positions.astype(int)]
    if is_wide and attack.rewards != "gaussian":
        low, high = lost_intervals(n, sums, squares, lost, deltas)
    else:
        low, high = intervals(attack.rewards, n, sums, squares, deltas, scale)
    return bool(np.any((means < low) | (means > high)))


def main() -> None:
    """Print the share of failed runs of each attack."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    sys.stdout.write(f"{runs} runs of {HORIZON} decisions; at most {DELTA:.0%} may fail\n")
    sys.stdout.write(f"{'attack':42}{'intervals':>10}{'verdict':>10}{'wider':>10}\n")
    for name, attack in {**ATTACKS, **BROKEN_ATTACKS}.items():
        failures = np.array([play(attack, seed) for seed in range(runs)]).mean(axis=0)
        sys.stdout.write(f"{name:42}" + "".join(f"{share:>10.1%}" for share in failures) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
