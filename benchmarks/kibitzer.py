"""Compare kibitzer with other policies and with variants of itself.

    python benchmarks/kibitzer.py [--only paper|search|tail|verdict] [--runs N] [--settings N]
        [--passive N] [--variant NAME]

The script has four parts. `paper` measures kibitzer on problems like the paper's. `search` compares
variants of kibitzer on random problems at T = 10⁴. `tail` measures the worst of many runs of 10⁶
stages, for kibitzer and for variants with other rules for looks. `verdict` compares kibitzer with the
paper's policies and others on random problems that were not used to choose any rule. It prints
geometric means of ratios of mean regret.

A setting is a random problem with 2 to 30 arms, a horizon from 10⁴ to 10⁶ and one of three kinds of
looks: active looks at rates from 1 to 0, passive looks with equal weights, and passive looks with
unfair weights (`kibitz.evaluation.league.unfair_weights`), which show the best arm rarely or never.
Settings are drawn from a seed, so the numbers are reproducible.
"""

import argparse
import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import kibitz as kb
from kibitz.evaluation.league import UNFAIR, unfair_weights
from kibitz.policies.kibitzer import (
    HOLD_DIVISOR,
    MIN_HOLD_COUNT,
    RARE_PERIOD,
    find_leader,
    find_unseen,
    is_holding,
    make_pull,
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
PASSIVE_RATES = (0.5, 0.1, 0.01)
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

    One in `every` looks is for the next arm in turn. This look goes to the next arm if that arm has
    too few observations or if `always` is true. If `least_observed` is true, this look goes to the
    least observed arm instead. All other looks go to the arm with the smallest w O d + log O. Here O
    is the number of observations of the arm, and d is the divergence of its mean from the leader's
    mean. The weight w is `weight` divided by 1 + log(1 + t / rF) and by 1 + log(t / F) / c, where t
    is the stage, F is one more than the number of looks, r = `rare` and c = `clock`.
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

    def looks_due(params: Any, state: Any, arm: int, n: int) -> int:
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
        return replace(policy, look=kb.jit(look), looks_due=kb.jit(looks_due), update=kb.jit(update))
    return replace(policy, look=kb.jit(look), hold=None, looks_due=None)


def make_former() -> Any:
    """Return kibitzer with its former index, whose logarithm uses the total number of looks."""

    def index(params: Any, stage: int, stats: Any, arm: int, mean: float) -> float:
        n = stats.n_observed[arm]
        x = 1 + params.b * stage / (stats.sums.size * n + params.b * stats.totals[LOOKS])
        log = math.log(x)
        return mean + math.sqrt(2 * abs(log - params.beta * math.log(1 + log)) / n)

    compiled = kb.jit(index)
    return replace(kb.kibitzer(), index=compiled, pull=make_pull(compiled))


@kb.jit
def find_least_observed(counts: Any) -> int:
    """Return the least observed arm among the arms with at least one observation."""
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
    for other_arm in range(arm):
        if counts[other_arm] <= low:
            left -= 1
    extra = 1 if counts[arm] <= low and left > 0 else 0
    return max(0, low - counts[arm]) + extra


VARIANTS = {
    "kibitzer": kb.kibitzer,
    "former index": make_former,
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
    "former index": make_former,
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


class Setting(NamedTuple):
    """A random problem with active looks, or with passive looks of uniform or unfair weights."""

    looks: str
    rate: float
    means: Any
    feedback: Any
    horizon: int


def make_active(rate: float) -> Any:
    """Return a feedback model in which active looks arrive at the given rate."""
    return kb.active(rate) if rate > 0 else kb.bandit()


def simulate_regret(
    means: Any, feedback: Any, horizon: int, policies: Any, runs: int, seed: int, engine: str = "auto"
) -> Any:
    """Return the final regrets as an array (policy, run); the policies share their random numbers."""
    instances = {name: make() for name, make in policies.items()}
    data = kb.simulate(
        kb.gaussian(means),
        feedback,
        instances,
        horizon=horizon,
        runs=runs,
        seed=seed,
        stages=[horizon],
        engine=engine,
    )
    return data.final_regret.values


def report_paper(runs: int) -> None:
    """Print the regret of kibitzer on the problems in `PAPER`."""
    print("setting, T = 10^4 | kibitzer ± s.e. (q90/q99) | in the search")
    for name, (means, rate, horizon, earlier) in PAPER.items():
        policies = {"kibitzer": kb.kibitzer}
        regret = simulate_regret(means, make_active(rate), horizon, policies, runs, 1)[0]
        sem = regret.std(ddof=1) / math.sqrt(runs)
        tail = "/".join(f"{q:.0f}" for q in np.quantile(regret, [0.9, 0.99]))
        print(f"{name} | {regret.mean():.2f} ± {sem:.2f} ({tail}) | {earlier}", flush=True)


def draw_means(rng: np.random.Generator) -> Any:
    """Return the means of 2 to 30 arms, drawn from a normal distribution of random spread."""
    n_arms = round(2 * 15 ** rng.random())
    spread = 10 ** rng.uniform(-0.7, 0.3)
    return np.round(spread * rng.normal(size=n_arms), 3)


def draw_settings(ensemble: str, n_active: int, n_passive: int) -> list[Setting]:
    """Return random settings: `n_active` with active looks and 2 `n_passive` with passive looks.

    The first half of the passive looks has uniform weights, the second half unfair weights.
    """
    rng = np.random.default_rng(SEEDS[ensemble])
    settings = []
    for nth in range(n_active):
        rate, horizon = RATES[nth % len(RATES)], HORIZONS[nth // len(RATES) % len(HORIZONS)]
        settings.append(Setting("active", rate, draw_means(rng), make_active(rate), horizon))
    for number, looks in enumerate(("uniform", "unfair"), 1):
        rng = np.random.default_rng([SEEDS[ensemble], number])
        for nth in range(n_passive):
            rate = PASSIVE_RATES[nth % len(PASSIVE_RATES)]
            means = draw_means(rng)
            kind = UNFAIR[nth % len(UNFAIR)]
            weights = "uniform" if looks == "uniform" else unfair_weights(kind, means.max() - means)
            horizon = HORIZONS[nth // len(UNFAIR) % len(HORIZONS)]
            settings.append(Setting(looks, rate, means, kb.passive(rate, weights), horizon))
    return settings


def report_search(settings: list[Setting], variants: dict[str, Any], runs: int) -> None:
    """Print the mean regret and the 99 % quantile of each variant, relative to kibitzer."""
    logs, errors, tails = [], [], []
    settings = [setting for setting in settings if setting.rate > 0]
    for setting in settings:
        regret = simulate_regret(setting.means, setting.feedback, 10**4, variants, runs, 3, "step")
        mean = regret.mean(axis=1, keepdims=True)
        logs.append(np.log(mean[:, 0] / mean[0]))
        errors.append((regret / mean - regret[0] / mean[0]).std(axis=1) / math.sqrt(runs))
        q99 = np.quantile(regret, 0.99, axis=1)
        tails.append(np.log(q99 / q99[0]))
        where = f"{setting.looks}, {len(setting.means)}, {setting.rate:g}"
        print(f"{where} |", *mean[:, 0].round(2), flush=True)
    groups = {
        **{f"active, rate {rate:g}": ("active", rate) for rate in RATES if rate > 0},
        **{looks: (looks, None) for looks in ("active", "uniform", "unfair")},
    }
    for group, (looks, rate) in groups.items():
        selected = np.array([s.looks == looks and rate in (None, s.rate) for s in settings])
        if not selected.any():
            continue
        factor = np.exp(np.mean(np.array(logs)[selected], axis=0))
        largest = np.exp(np.max(np.array(logs)[selected], axis=0))
        error = np.sqrt((np.array(errors)[selected] ** 2).sum(axis=0)) / selected.sum()
        tail = np.exp(np.mean(np.array(tails)[selected], axis=0))
        print(f"{group} ({selected.sum()} settings)")
        for n, name in enumerate(variants):
            print(
                f"    {name}: {factor[n]:.4f} ± {factor[n] * error[n]:.4f}, largest "
                f"{largest[n]:.2f}, q99 {tail[n]:.2f}"
            )


def report_tail(variants: dict[str, Any], runs: int) -> None:
    """Print the mean and the largest regret of many runs on the hard problems."""
    for problem, means in HARD_PROBLEMS.items():
        print(f"{problem}, {runs} runs:")
        print("    mean ± s.e., difference to kibitzer, q99 q99.9 worst, runs above twenty means")
        first = None
        for name, make in variants.items():
            regret = simulate_regret(means, kb.active(0.01), 10**6, {name: make}, runs, 1)[0]
            first = regret if first is None else first
            sem, difference = regret.std(ddof=1) / math.sqrt(runs), regret - first
            high = " ".join(f"{q:.0f}" for q in np.quantile(regret, [0.99, 0.999, 1]))
            n_extreme = int((regret > 20 * regret.mean()).sum())
            print(
                f"    {name}: {regret.mean():.1f} ± {sem:.1f}, {difference.mean():+.1f} ± "
                f"{difference.std() / math.sqrt(runs):.1f}, {high}, {n_extreme}",
                flush=True,
            )


def report_verdict(settings: list[Setting], runs: int) -> None:
    """Print the regret of all policies in each setting, and the geometric means of their ratios."""
    policies = {"kibitzer": kb.kibitzer, **PAPER_POLICIES, **OTHER_POLICIES}
    rows = []
    print("looks, K, rate, T |", ", ".join(policies))
    for setting in settings:
        horizon = setting.horizon
        n_runs = {10**4: runs, 10**5: max(20, runs // 2), 10**6: max(20, runs // 5)}[horizon]
        runnable = dict(policies)
        if horizon == 10**6:
            del runnable["thompson"]  # Thompson sampling cannot leap
        regret = simulate_regret(setting.means, setting.feedback, horizon, runnable, n_runs, 3)
        row = dict(zip(runnable, regret.mean(axis=1), strict=True))
        rows.append(row)
        values = " ".join(f"{row.get(name, math.nan):.4g}" for name in policies)
        where = f"{setting.looks}, {len(setting.means)}, {setting.rate:g}, {horizon:.0e}"
        print(f"{where} | {values}", flush=True)
    for looks in dict.fromkeys(setting.looks for setting in settings):
        for horizon in (*HORIZONS, None):
            selected = [
                row
                for setting, row in zip(settings, rows, strict=True)
                if setting.looks == looks and horizon in (None, setting.horizon)
            ]
            if selected:
                label = f"{looks}, " + ("all horizons" if horizon is None else f"T = {horizon:.0e}")
                print_verdict(label, selected)


def print_verdict(label: str, rows: list[dict[str, float]]) -> None:
    """Print the geometric means of ratios of mean regret; a row has the mean regrets of a setting."""

    def geometric_mean(ratios: list[float]) -> float:
        return math.exp(np.mean(np.log(ratios)))

    rivals = (*PAPER_POLICIES, *OTHER_POLICIES)
    to_double = [row["ucb_double"] / row["kibitzer"] for row in rows]
    to_paper = [min(row[name] for name in PAPER_POLICIES) / row["kibitzer"] for row in rows]
    to_best = [row["kibitzer"] / min(row[name] for name in rivals if name in row) for row in rows]
    to_moss = [row["moss_anytime 2"] / row["kibitzer"] for row in rows]
    print(f"{label}: {len(rows)} settings, geometric means of ratios of mean regret")
    print(f"    UCB1-Double / kibitzer {geometric_mean(to_double):.2f}")
    print(f"    best of the paper / kibitzer {geometric_mean(to_paper):.2f}")
    print(f"    MOSS-anytime(2) / kibitzer {geometric_mean(to_moss):.3f}")
    print(f"    kibitzer / best of all others {geometric_mean(to_best):.3f}", end="")
    print(f", worst {max(to_best):.2f}")


def select_variants(variants: dict[str, Any], names: list[str] | None) -> dict[str, Any]:
    """Return kibitzer and the variants with the given names; all variants if there are no names."""
    return {n: make for n, make in variants.items() if not names or n in ("kibitzer", *names)}


def main() -> None:
    """Run the parts that the command line requests."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--runs", type=int, default=1000, help="number of runs of a setting of 10^4 stages"
    )
    parser.add_argument(
        "--settings", type=int, default=63, help="number of settings with active looks"
    )
    parser.add_argument(
        "--passive", type=int, default=24, help="settings of each kind of passive looks"
    )
    parser.add_argument("--only", choices=("paper", "search", "tail", "verdict"))
    parser.add_argument(
        "--variant", action="append", help="a variant for search and tail; repeatable (default: all)"
    )
    arguments = parser.parse_args()
    runs, n_settings = arguments.runs, (arguments.settings, arguments.passive)
    if arguments.only in (None, "paper"):
        report_paper(20 * runs)
    if arguments.only in (None, "search"):
        variants = select_variants(VARIANTS, arguments.variant)
        report_search(draw_settings("search", *n_settings), variants, runs)
    if arguments.only in (None, "tail"):
        report_tail(select_variants(TAIL_VARIANTS, arguments.variant), 10 * runs)
    if arguments.only in (None, "verdict"):
        report_verdict(draw_settings("verdict", *n_settings), runs)


if __name__ == "__main__":
    main()
