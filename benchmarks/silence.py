"""Compare three rules for how a policy counts decisions whose rewards may still come.

Clicks are reported after a delay; a missing click is known only when the patience ends. The rules are

- silence at once: a pending decision counts as no click, and a later click corrects the count;
- pending pulls: a pending decision counts in the width of the index, not in the mean (the rule for
  agents without `silence`, see `kibitz.live.agent.pending`);
- settled only: the mean is over settled decisions, and all other decisions count as pending pulls.

Run `python benchmarks/silence.py`; it takes a few minutes.
"""

import heapq
import sys
from collections import deque

import numpy as np

import kibitz
from kibitz.live.agent import pending
from kibitz.live.events import Arm

HORIZON, RUNS = 4_000, 8
PROBLEMS = {
    "5 arms, 1 to 2 %": [0.01, 0.01, 0.012, 0.015, 0.02],
    "5 arms, 4 to 6 %": [0.04, 0.04, 0.045, 0.05, 0.06],
    "2 arms, 3 and 5 %": [0.03, 0.05],
}
RULES = ("silence at once", "pending pulls", "settled only")


def play(rule: str, rates: list[float], patience: int, share: float, seed: int) -> float:
    """Return the regret of kibitzer in one run.

    The delay of a click is exponential with mean `share * patience`; a share of 0 means no delay.
    """
    policy = kibitz.kibitzer(rewards="bernoulli")
    rng = np.random.default_rng(seed)
    arms = [Arm(str(k)) for k in range(len(rates))]
    clicks: list[tuple[float, int]] = []  # (stage, decision) of the reports in transit
    told: set[int] = set()
    pulled_arms: list[int] = []
    n_settled, regret = 0, 0.0
    unsettled: deque[int] = deque()
    for stage in range(1, HORIZON + 1):
        while clicks and clicks[0][0] < stage:
            id = heapq.heappop(clicks)[1]
            arm = arms[pulled_arms[id]]
            told.add(id)
            if rule != "settled only":
                arm.pull_sum += 1
                if rule == "pending pulls" and id >= n_settled:
                    arm.n_pulls, arm.n_pending = arm.n_pulls + 1, arm.n_pending - 1
        while unsettled and unsettled[0] + 1 + patience <= stage:
            id = unsettled.popleft()
            arm, n_settled = arms[pulled_arms[id]], id + 1
            if rule == "settled only":
                arm.n_pulls, arm.n_pending = arm.n_pulls + 1, arm.n_pending - 1
                arm.pull_sum += id in told
            elif rule == "pending pulls" and id not in told:
                arm.n_pulls, arm.n_pending = arm.n_pulls + 1, arm.n_pending - 1
        arm_index = pending.pull(policy, policy.params, arms, stage, 1.0, None)
        arm = arms[arm_index]
        arm.n_asked += 1
        if rule == "silence at once":
            arm.n_pulls += 1
        else:
            arm.n_pending += 1
        regret += max(rates) - rates[arm_index]
        if rng.random() < rates[arm_index]:
            wait = rng.exponential(share * patience) if share else 0.0
            heapq.heappush(clicks, (stage + wait, len(pulled_arms)))
        pulled_arms.append(arm_index)
        unsettled.append(len(pulled_arms) - 1)
    return regret


def main() -> None:
    """Print the mean regret of each rule, with its standard error."""
    sys.stdout.write(f"{'problem':20}{'patience':>9}{'delay':>7}")
    sys.stdout.write("".join(f"{rule:>20}" for rule in RULES) + "\n")
    for name, rates in PROBLEMS.items():
        for patience in (HORIZON // 40, HORIZON // 5):
            for share in (0.0, 0.2):
                sys.stdout.write(f"{name:20}{patience:9}{share:7}")
                for rule in RULES:
                    regret = [play(rule, rates, patience, share, seed) for seed in range(RUNS)]
                    error = np.std(regret, ddof=1) / np.sqrt(RUNS)
                    sys.stdout.write(f"{f'{np.mean(regret):.1f} ± {error:.1f}':>20}")
                    sys.stdout.flush()
                sys.stdout.write("\n")


if __name__ == "__main__":
    main()
