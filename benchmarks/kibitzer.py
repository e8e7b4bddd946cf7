"""Compare kibitzer with other policies and with variants of itself.

    python benchmarks/kibitzer.py [--runs N] [--settings N] [--only paper|search|tail|verdict]

The script has four parts. `paper` measures kibitzer on problems like the paper's. `search` compares
variants of kibitzer on random problems up to T = 10⁴. `tail` measures the worst of many runs of 10⁶
stages, for kibitzer and for variants with other rules for looks. `verdict` compares kibitzer with the
paper's policies and others, as geometric means of ratios of mean regret, on random problems that were
not used for any choice. Settings have 2 to 30 arms, active looks at rates from 1 to 0 and horizons
from 10⁴ to 10⁶. They are drawn from a seed, so the numbers are reproducible.
"""

import argparse
import math
from dataclasses import replace
from typing import Any

import numpy as np

import kibitz as kb
from kibitz.policies.kibitzer import (
    HOLD_DIVISOR,
    MIN_HOLD_COUNT,
    RARE_PERIOD,
    find_leader,
    find_unseen,
    is_holding,
)
from kibitz.policies.policy import LOOKS, count

PAPER = {  # name: means, rate, horizon, mean regret measured in the search
    "five arms, 1": ([2, 1.8, 1.5, 1, 0.5], 1.0, 10**4, 8.1),
    "five arms, .1": ([2, 1.8, 1.5, 1, 0.5], 0.1, 10**4, 25.7),
    "five arms, .01": ([2, 1.8, 1.5, 1, 0.5], 0.01, 10**4, 49.4),
    "five arms, .001": ([2, 1.8, 1.5, 1, 0.5], 0.001, 10**4, 63.6),
    "five arms, no looks": ([2, 1.8, 1.5, 1, 0.5], 0.0, 10**4, 69.8),
    "ten arms 0.3 apart, .03": ([0.3] + [0.0] * 9, 0.03, 10**4, 131.0),
}
PAPER_POLICIES = {
    "ucb_double": kb.ucb_double,
    "etc_ocucb": kb.etc_ocucb,
    "etc_ocucb-2": lambda: kb.etc_ocucb(check="doubling"),
    "etc_ocucb all": lambda: kb.etc_ocucb(all_info=True),
    "etc_ocucb-2 all": lambda: kb.etc_ocucb(check="doubling", all_info=True),
}
OTHER_POLICIES = {
    "moss_anytime 2": lambda: kb.moss_anytime(2.0),
    "ucb 2": lambda: kb.ucb_double(2.0),
    "thompson": kb.thompson,
}
HARD_PROBLEMS = {  # ten arms, one look per hundred stages, T = 10⁶
    "ten arms, all 0.15 below the best": [0.15] + [0.0] * 9,
    "ten arms, each 0.15 below the one before": [round(-0.15 * i, 2) for i in range(10)],
}
SEEDS = {"search": 1, "verdict": 2}
RATES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.001, 0.0)
HORIZONS = (10**4, 10**5, 10**6)


def make_variant(
    every: int = 4,
    always: bool = False,
    least_observed: bool = False,
    weight: float = 1.0,
    rare: float = RARE_PERIOD,
    clock: float = math.inf,
    hold: bool = False,
    **parameters: Any,
) -> Any:
    """Return kibitzer with another rule for looks; without `hold`, the policy cannot leap.

    One in `every` looks goes to the arms in turn: also to arms with enough observations if `always`
    is true, or to the least observed arm if `least_observed` is true. The other looks go to the arm
    with the smallest w O d + log O. Here O is the number of observations of the arm, d is the
    divergence of its mean from the leader's mean, and w is `weight` divided by 1 + log(1 + t / rF)
    and by 1 + log(t / F) / c, where t is the stage, F is one more than the number of looks,
    r = `rare` and c = `clock`.
    """

    def look(params: Any, state: Any, stage: int, rng: Any) -> int:
        stats = state.statistics
        counts, sums = stats.n_observed, stats.sums
        n_arms, n_looks = counts.size, stats.totals[LOOKS]
        turn = n_looks // every
        if n_looks % every == every - 1:
            if least_observed:
                return find_least_observed(counts)
            if always or counts[turn % n_arms] < 2 + turn // n_arms:
                return turn % n_arms
        unseen = find_unseen(state, stage)
        if unseen >= 0:
            return unseen
        leader = find_leader(stats)
        if hold and is_holding(state, leader):
            return state.hold[0]["arm"]
        best = sums[leader] / counts[leader]
        wait = stage / (1 + n_looks)
        factor = weight / (1 + math.log(1 + wait / rare))
        factor /= 1 + math.log(max(1.0, wait)) / clock
        look, smallest = -1, np.inf
        for arm in range(n_arms):
            n = counts[arm]
            if arm != leader and n > 0:
                gap = best - sums[arm] / n
                value = factor * n * gap**2 / 2 + math.log(n)
                if value < smallest:
                    look, smallest = arm, value
        return look if look >= 0 else (1 if leader == 0 else 0)

    def due(params: Any, state: Any, arm: int, n: int) -> int:
        counts = state.statistics.n_observed
        n_arms, n_looks = counts.size, state.statistics.totals[LOOKS]
        if least_observed:
            return count_filled(counts, arm, (n_looks + n) // every - n_looks // every)
        before = (n_looks // every - arm + n_arms - 1) // n_arms
        after = ((n_looks + n) // every - arm + n_arms - 1) // n_arms
        return max(0, after - max(before, counts[arm] - 1))

    def update(
        params: Any, state: Any, stage: int, arm: int, n: int, total: float, is_look: bool
    ) -> Any:
        stats = state.statistics
        if is_look and n == 1 and stats.totals[LOOKS] % every != every - 1:
            leader = find_leader(stats)
            if arm != leader and not is_holding(state, leader):
                count_before = stats.n_observed[arm]
                is_long = count_before >= MIN_HOLD_COUNT
                state.hold[0]["arm"] = arm
                state.hold[0]["until"] = count_before + (
                    count_before // HOLD_DIVISOR if is_long else 1
                )
                state.hold[0]["leader"] = leader
        count(stats, arm, n, total, is_look)
        return state

    policy = kb.kibitzer(**parameters)
    if hold:
        return replace(policy, look=kb.jit(look), due=kb.jit(due), update=kb.jit(update))
    return replace(policy, look=kb.jit(look), hold=None, due=None)


@kb.jit
def find_least_observed(counts: Any) -> int:
    """Return the arm with the fewest observations, among the arms that have any."""
    found = -1
    for arm in range(counts.size):
        if counts[arm] > 0 and (found < 0 or counts[arm] < counts[found]):
            found = arm
    return found


@kb.jit
def count_looks_to_fill(counts: Any, level: int) -> int:
    """Return the number of looks that raise all counts to at least `level`."""
    n = 0
    for arm in range(counts.size):
        n += max(0, level - counts[arm])
    return n


@kb.jit
def count_filled(counts: Any, arm: int, n: int) -> int:
    """Return how many of n looks an arm gets if each look goes to the least observed arm."""
    low, high = 0, counts[find_least_observed(counts)] + n + 1  # n looks cannot reach `high`
    while high - low > 1:
        level = (low + high) // 2
        if count_looks_to_fill(counts, level) <= n:
            low = level
        else:
            high = level
    left = n - count_looks_to_fill(counts, low)  # the first arms at the level get one more look
    for other in range(arm):
        if counts[other] <= low:
            left -= 1
    extra = 1 if counts[arm] <= low and left > 0 else 0
    return max(0, low - counts[arm]) + extra


VARIANTS = {
    "kibitzer": kb.kibitzer,
    "never held": make_variant,
    "turns whether needed or not": lambda: make_variant(always=True),
    "no turns": lambda: make_variant(every=10**9),
    "every second look for turns": lambda: make_variant(every=2),
    "all looks for turns": lambda: make_variant(every=1),
    "weight 1": lambda: make_variant(rare=math.inf),
    "weight 0.7": lambda: make_variant(rare=math.inf, weight=0.7),
    "weight 0.5": lambda: make_variant(rare=math.inf, weight=0.5),
    "weight 5 / (5 + log(t/F))": lambda: make_variant(rare=math.inf, clock=5.0),
    "to the least observed, every fourth": lambda: make_variant(least_observed=True),
    "b = 4": lambda: kb.kibitzer(b=4),
    "b = 16": lambda: kb.kibitzer(b=16),
    "beta = 0": lambda: kb.kibitzer(beta=0),
}


TAIL_VARIANTS = {
    "kibitzer": kb.kibitzer,
    "to the least observed, every fourth": lambda: make_variant(least_observed=True, hold=True),
    "every second look for turns": lambda: make_variant(every=2, hold=True),
    "weight 1": lambda: make_variant(rare=math.inf, hold=True),
    "weight 0.7": lambda: make_variant(rare=math.inf, weight=0.7, hold=True),
    "weight 0.5": lambda: make_variant(rare=math.inf, weight=0.5, hold=True),
    "weight 0.25": lambda: make_variant(rare=math.inf, weight=0.25, hold=True),
    "weight 0.7, every second": lambda: make_variant(every=2, rare=math.inf, weight=0.7, hold=True),
    "weight 5 / (5 + log(t/F))": lambda: make_variant(rare=math.inf, clock=5.0, hold=True),
    "b = 16": lambda: kb.kibitzer(b=16),
}


def make_feedback(rate: float) -> Any:
    """Return a feedback model in which active looks arrive at the given rate."""
    return kb.active(rate) if rate > 0 else kb.bandit()


def simulate_regret(
    means: Any, rate: float, horizon: int, policies: Any, runs: int, seed: int, engine: str = "auto"
) -> Any:
    """Return the final regrets as an array (policy, run); the policies share their random numbers."""
    instances = {name: make() for name, make in policies.items()}
    data = kb.simulate(
        kb.gaussian(means),
        make_feedback(rate),
        instances,
        horizon=horizon,
        runs=runs,
        seed=seed,
        stages=[horizon],
        engine=engine,
    )
    return data.final_regret.values


def paper(runs: int) -> None:
    """Print the regret of kibitzer on the problems in `PAPER`."""
    print("setting, T = 10^4 | kibitzer ± s.e. (q90/q99) | in the search")
    for name, (means, rate, horizon, earlier) in PAPER.items():
        regret = simulate_regret(means, rate, horizon, {"kibitzer": kb.kibitzer}, runs, 1)[0]
        sem = regret.std(ddof=1) / math.sqrt(runs)
        tail = "/".join(f"{q:.0f}" for q in np.quantile(regret, [0.9, 0.99]))
        print(f"{name} | {regret.mean():.2f} ± {sem:.2f} ({tail}) | {earlier}", flush=True)


def draw_settings(ensemble: str, n_settings: int) -> list[tuple[Any, float, int]]:
    """Return random settings as tuples (means, rate, horizon)."""
    rng = np.random.default_rng(SEEDS[ensemble])
    result = []
    for nth in range(n_settings):
        n_arms = round(2 * 15 ** rng.random())
        spread = 10 ** rng.uniform(-0.7, 0.3)
        means = np.round(spread * rng.normal(size=n_arms), 3)
        result.append((means, RATES[nth % len(RATES)], HORIZONS[nth // len(RATES) % len(HORIZONS)]))
    return result


def search(n_settings: int, runs: int) -> None:
    """Print the mean regret and the 99 % quantile of each variant, relative to kibitzer."""
    logs, errors, tails, rates = [], [], [], []
    for means, rate, _ in draw_settings("search", n_settings):
        if rate == 0:
            continue
        regret = simulate_regret(means, rate, 10**4, VARIANTS, runs, 3, "step")
        mean = regret.mean(axis=1, keepdims=True)
        logs.append(np.log(mean[:, 0] / mean[0]))
        errors.append((regret / mean - regret[0] / mean[0]).std(axis=1) / math.sqrt(runs))
        q99 = np.quantile(regret, 0.99, axis=1)
        tails.append(np.log(q99 / q99[0]))
        rates.append(rate)
        print(f"{len(means)}, {rate:g} |", *mean[:, 0].round(2), flush=True)
    for rate in (*dict.fromkeys(rates), None):
        selected = np.array([rate in (None, other) for other in rates])
        factor = np.exp(np.mean(np.array(logs)[selected], axis=0))
        error = np.sqrt((np.array(errors)[selected] ** 2).sum(axis=0)) / selected.sum()
        tail = np.exp(np.mean(np.array(tails)[selected], axis=0))
        print("all rates" if rate is None else f"rate {rate:g}", f"({selected.sum()} settings)")
        for n, name in enumerate(VARIANTS):
            print(f"    {name}: {factor[n]:.3f} ± {error[n]:.3f}, q99 {tail[n]:.2f}")


def tail(runs: int) -> None:
    """Print the mean and the largest regret of many runs on the hard problems."""
    for problem, means in HARD_PROBLEMS.items():
        print(f"{problem}, {runs} runs:")
        print("    mean ± s.e., difference to kibitzer, q99 q99.9 worst, runs above twenty means")
        first = None
        for name, make in TAIL_VARIANTS.items():
            regret = simulate_regret(means, 0.01, 10**6, {name: make}, runs, 1)[0]
            first = regret if first is None else first
            sem, difference = regret.std(ddof=1) / math.sqrt(runs), regret - first
            high = " ".join(f"{q:.0f}" for q in np.quantile(regret, [0.99, 0.999, 1]))
            n_extreme = int((regret > 20 * regret.mean()).sum())
            print(
                f"    {name}: {regret.mean():.1f} ± {sem:.1f}, {difference.mean():+.1f} ± "
                f"{difference.std() / math.sqrt(runs):.1f}, {high}, {n_extreme}",
                flush=True,
            )


def verdict(n_settings: int, runs: int) -> None:
    """Print the regret of all policies in each setting, and the geometric means of their ratios."""
    policies = {"kibitzer": kb.kibitzer, **PAPER_POLICIES, **OTHER_POLICIES}
    names = list(policies)
    rows = []
    print("K, rate, T |", ", ".join(names))
    for means, rate, horizon in draw_settings("verdict", n_settings):
        n_runs = {10**4: runs, 10**5: max(20, runs // 2), 10**6: max(20, runs // 5)}[horizon]
        runnable = dict(policies)
        if horizon == 10**6:
            del runnable["thompson"]  # Thompson sampling cannot leap
        regret = simulate_regret(means, rate, horizon, runnable, n_runs, 3).mean(axis=1)
        regret = dict(zip(runnable, regret, strict=True))
        rows.append(regret)
        values = " ".join(f"{regret.get(name, math.nan):.4g}" for name in names)
        print(f"{len(means)}, {rate:g}, {horizon:.0e} | {values}", flush=True)

    def geometric_mean(ratios: list[float]) -> float:
        return math.exp(np.mean(np.log(ratios)))

    ratios_to_double = [row["ucb_double"] / row["kibitzer"] for row in rows]
    best = [min(row[other] for other in PAPER_POLICIES) / row["kibitzer"] for row in rows]
    every = (*PAPER_POLICIES, *OTHER_POLICIES)
    ratios_to_best = [row["kibitzer"] / min(row[o] for o in every if o in row) for row in rows]
    print(f"{len(rows)} settings, geometric means of ratios of mean regret:")
    print(f"    UCB1-Double / kibitzer {geometric_mean(ratios_to_double):.2f}")
    print(f"    best of the paper / kibitzer {geometric_mean(best):.2f}")
    print(f"    kibitzer / best of all others {geometric_mean(ratios_to_best):.3f}", end="")
    print(f", worst {max(ratios_to_best):.2f}")


def main() -> None:
    """Run the parts that the command line requests."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000, help="runs of a setting of 10^4 stages")
    parser.add_argument("--settings", type=int, default=63, help="number of random settings")
    parser.add_argument("--only", choices=("paper", "search", "tail", "verdict"))
    arguments = parser.parse_args()
    if arguments.only in (None, "paper"):
        paper(20 * arguments.runs)
    if arguments.only in (None, "search"):
        search(arguments.settings, arguments.runs)
    if arguments.only in (None, "tail"):
        tail(10 * arguments.runs)
    if arguments.only in (None, "verdict"):
        verdict(arguments.settings, arguments.runs)


if __name__ == "__main__":
    main()
