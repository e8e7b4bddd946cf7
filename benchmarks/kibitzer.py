"""What kibitzer is worth, on the paper's problem and on random ones: run by hand.

    python benchmarks/kibitzer.py [--runs N] [--settings N] [--only paper|search|tail|verdict]

Four parts. `paper`: problems such as the paper's, with standard errors. `search`: an ensemble of
random problems on which variants of kibitzer are compared, up to T = 10⁴. `tail`: how much the worst
of many runs of 10⁶ stages lose, for kibitzer and for variants that look in another way. `verdict`:
another ensemble, of another seed, that no choice was made on: kibitzer against the paper's policies
and against others, as geometric means of ratios of mean regret. Settings have 2 to 30 arms, rates
from 1 to 0, active looks, horizons 10⁴ to 10⁶, and are drawn from a seed, so that the same numbers
come out everywhere.
"""

import argparse
import math
from dataclasses import replace
from typing import Any

import numpy as np

import kibitz as kb
from kibitz.engine.jit import jit
from kibitz.policies.kibitzer import LONG, RARE, TENTH, holds, leader_of, unseen

PAPER = {  # name: means, rate, horizon, what the search measured
    "five arms, 1": ([2, 1.8, 1.5, 1, 0.5], 1.0, 10**4, 8.1),
    "five arms, .1": ([2, 1.8, 1.5, 1, 0.5], 0.1, 10**4, 25.7),
    "five arms, .01": ([2, 1.8, 1.5, 1, 0.5], 0.01, 10**4, 49.4),
    "five arms, .001": ([2, 1.8, 1.5, 1, 0.5], 0.001, 10**4, 63.6),
    "five arms, no looks": ([2, 1.8, 1.5, 1, 0.5], 0.0, 10**4, 69.8),
    "ten arms 0.3 apart, .03": ([0.3] + [0.0] * 9, 0.03, 10**4, 131.0),
}
OF_THE_PAPER = {
    "ucb_double": kb.ucb_double,
    "etc_ocucb": kb.etc_ocucb,
    "etc_ocucb-2": lambda: kb.etc_ocucb(check="doubling"),
    "etc_ocucb all": lambda: kb.etc_ocucb(all_info=True),
    "etc_ocucb-2 all": lambda: kb.etc_ocucb(check="doubling", all_info=True),
}
OTHERS = {
    "moss_anytime 2": lambda: kb.moss_anytime(2.0),
    "ucb 2": lambda: kb.ucb_double(2.0),
    "thompson": kb.thompson,
}
WEAK = {  # ten arms, a look in a hundred stages, T = 10⁶
    "ten arms, all 0.15 below the best": [0.15] + [0.0] * 9,
    "ten arms, each 0.15 below the one before": [round(-0.15 * i, 2) for i in range(10)],
}
SEEDS = {"search": 1, "verdict": 2}
RATES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.001, 0.0)
HORIZONS = (10**4, 10**5, 10**6)


def variant(
    every: int = 4,
    always: bool = False,
    least_seen: bool = False,
    weight: float = 1.0,
    rare: float = RARE,
    clock: float = math.inf,
    held: bool = False,
    **parameters: Any,
) -> Any:
    """Return kibitzer with another way to look, stage by stage unless arms are `held`.

    One look of `every` is for the arms in turn, whether they need it or not if `always`, or for the
    arm that was seen least often. The others go to the arm of least w O d + log O, where w is
    `weight`, and smaller where looks are rare: by 1 + log(1 + t / rF), r being `rare`, and by
    1 + log(t / F) / c, c being `clock`.
    """

    def observe(params: Any, state: Any, stage: int, rng: Any) -> int:
        n_arms = state.sums.size
        n_looks = state.counts[n_arms]
        turn = n_looks // every
        if n_looks % every == every - 1:
            if least_seen:
                return fewest(state)
            if always or state.counts[turn % n_arms] < 2 + turn // n_arms:
                return turn % n_arms
        never = unseen(state, stage)
        if never >= 0:
            return never
        leader = leader_of(state)
        if held and holds(state, leader):
            return state.hold[0]["arm"]
        best = state.sums[leader] / state.counts[leader]
        wait = stage / (1 + n_looks)
        factor = weight / (1 + math.log(1 + wait / rare))
        factor /= 1 + math.log(max(1.0, wait)) / clock
        look, least = -1, np.inf
        for arm in range(n_arms):
            count = state.counts[arm]
            if arm != leader and count > 0:
                gap = best - state.sums[arm] / count
                value = factor * count * gap**2 / 2 + math.log(count)
                if value < least:
                    look, least = arm, value
        return look if look >= 0 else (1 if leader == 0 else 0)

    def due(params: Any, state: Any, arm: int, n: int) -> int:
        n_arms = state.sums.size
        n_looks = state.counts[n_arms]
        if least_seen:
            return filled(state, arm, (n_looks + n) // every - n_looks // every)
        before = (n_looks // every - arm + n_arms - 1) // n_arms
        after = ((n_looks + n) // every - arm + n_arms - 1) // n_arms
        return max(0, after - max(before, state.counts[arm] - 1))

    def update(
        params: Any, state: Any, stage: int, arm: int, n: int, total: float, free: bool
    ) -> Any:
        n_arms = state.sums.size
        if free:
            if n == 1 and state.counts[n_arms] % every != every - 1:
                leader = leader_of(state)
                if arm != leader and not holds(state, leader):
                    count = state.counts[arm]
                    state.hold[0]["arm"] = arm
                    state.hold[0]["until"] = count + (count // TENTH if count >= LONG else 1)
                    state.hold[0]["leader"] = leader
            state.counts[n_arms] += n
        else:
            state.n_pulls[arm] += n
        state.counts[arm] += n
        state.sums[arm] += total
        return state

    policy = kb.kibitzer(**parameters)
    if held:
        return replace(policy, observe=jit(observe), due=jit(due), update=jit(update))
    return replace(policy, observe=jit(observe), hold=None, due=None)


@jit
def fewest(state: Any) -> int:
    """Return the arm that was seen least often, but at least once."""
    found = -1
    for arm in range(state.sums.size):
        if state.counts[arm] > 0 and (found < 0 or state.counts[arm] < state.counts[found]):
            found = arm
    return found


@jit
def to_fill(state: Any, level: int) -> int:
    """Return how many looks it takes until no arm was seen less often than `level`."""
    n = 0
    for arm in range(state.sums.size):
        n += max(0, level - state.counts[arm])
    return n


@jit
def filled(state: Any, arm: int, n: int) -> int:
    """Return how many of n looks an arm gets if each goes to the arm seen least often."""
    low, high = 0, state.counts[fewest(state)] + n + 1  # no arm is filled up to `high`
    while high - low > 1:
        level = (low + high) // 2
        if to_fill(state, level) <= n:
            low = level
        else:
            high = level
    left = n - to_fill(state, low)  # the lowest arms of those get one more
    for other in range(arm):
        if state.counts[other] <= low:
            left -= 1
    more = 1 if state.counts[arm] <= low and left > 0 else 0
    return max(0, low - state.counts[arm]) + more


VARIANTS = {
    "kibitzer": kb.kibitzer,
    "never held": variant,
    "turns whether needed or not": lambda: variant(always=True),
    "no turns": lambda: variant(every=10**9),
    "every second look for turns": lambda: variant(every=2),
    "all looks for turns": lambda: variant(every=1),
    "weight 1": lambda: variant(rare=math.inf),
    "weight 0.7": lambda: variant(rare=math.inf, weight=0.7),
    "weight 0.5": lambda: variant(rare=math.inf, weight=0.5),
    "weight 5 / (5 + log(t/F))": lambda: variant(rare=math.inf, clock=5.0),
    "to the least seen, every fourth": lambda: variant(least_seen=True),
    "b = 4": lambda: kb.kibitzer(b=4),
    "b = 16": lambda: kb.kibitzer(b=16),
    "beta = 0": lambda: kb.kibitzer(beta=0),
}


TAILS = {
    "kibitzer": kb.kibitzer,
    "to the least seen, every fourth": lambda: variant(least_seen=True, held=True),
    "every second look for turns": lambda: variant(every=2, held=True),
    "weight 1": lambda: variant(rare=math.inf, held=True),
    "weight 0.7": lambda: variant(rare=math.inf, weight=0.7, held=True),
    "weight 0.5": lambda: variant(rare=math.inf, weight=0.5, held=True),
    "weight 0.25": lambda: variant(rare=math.inf, weight=0.25, held=True),
    "weight 0.7, every second": lambda: variant(every=2, rare=math.inf, weight=0.7, held=True),
    "weight 5 / (5 + log(t/F))": lambda: variant(rare=math.inf, clock=5.0, held=True),
    "b = 16": lambda: kb.kibitzer(b=16),
}


def looks(rate: float) -> Any:
    """Return active looks at a rate."""
    return kb.active(rate) if rate > 0 else kb.bandit()


def measured(
    means: Any, rate: float, horizon: int, players: Any, runs: int, seed: int, engine: str = "auto"
) -> Any:
    """Return the final regret of some players, all in the same world: (player, run)."""
    made = {name: make() for name, make in players.items()}
    data = kb.simulate(
        kb.gaussian(means),
        looks(rate),
        made,
        horizon=horizon,
        runs=runs,
        seed=seed,
        stages=[horizon],
        engine=engine,
    )
    return data.final_regret.values


def paper(runs: int) -> None:
    """Print the regret of kibitzer on the problems of the table."""
    print("setting, T = 10^4 | kibitzer ± s.e. (q90/q99) | the search's")
    for name, (means, rate, horizon, then) in PAPER.items():
        regret = measured(means, rate, horizon, {"kibitzer": kb.kibitzer}, runs, 1)[0]
        sem = regret.std(ddof=1) / math.sqrt(runs)
        tail = "/".join(f"{q:.0f}" for q in np.quantile(regret, [0.9, 0.99]))
        print(f"{name} | {regret.mean():.2f} ± {sem:.2f} ({tail}) | {then}", flush=True)


def settings(ensemble: str, n_settings: int) -> list[tuple[Any, float, int]]:
    """Draw problems, rates and horizons: (means, rate, horizon)."""
    rng = np.random.default_rng(SEEDS[ensemble])
    drawn = []
    for nth in range(n_settings):
        n_arms = round(2 * 15 ** rng.random())
        spread = 10 ** rng.uniform(-0.7, 0.3)
        means = np.round(spread * rng.normal(size=n_arms), 3)
        drawn.append((means, RATES[nth % len(RATES)], HORIZONS[nth // len(RATES) % len(HORIZONS)]))
    return drawn


def search(n_settings: int, runs: int) -> None:
    """Print by what factor each variant loses more than kibitzer, and its q99 is larger."""
    logs, errors, tails, rates = [], [], [], []
    for means, rate, _ in settings("search", n_settings):
        if rate == 0:
            continue
        regret = measured(means, rate, 10**4, VARIANTS, runs, 3, "step")
        mean = regret.mean(axis=1, keepdims=True)
        logs.append(np.log(mean[:, 0] / mean[0]))
        errors.append((regret / mean - regret[0] / mean[0]).std(axis=1) / math.sqrt(runs))
        q99 = np.quantile(regret, 0.99, axis=1)
        tails.append(np.log(q99 / q99[0]))
        rates.append(rate)
        print(f"{len(means)}, {rate:g} |", *mean[:, 0].round(2), flush=True)
    for rate in (*dict.fromkeys(rates), None):
        some = np.array([rate in (None, other) for other in rates])
        factor = np.exp(np.mean(np.array(logs)[some], axis=0))
        error = np.sqrt((np.array(errors)[some] ** 2).sum(axis=0)) / some.sum()
        tail = np.exp(np.mean(np.array(tails)[some], axis=0))
        print("all rates" if rate is None else f"rate {rate:g}", f"({some.sum()} settings)")
        for n, name in enumerate(VARIANTS):
            print(f"    {name}: {factor[n]:.3f} ± {error[n]:.3f}, q99 {tail[n]:.2f}")


def tail(runs: int) -> None:
    """Print the mean of many runs on the weak spots, and how much the worst of them lose."""
    for problem, means in WEAK.items():
        print(f"{problem}, {runs} runs:")
        print("    mean ± s.e., less kibitzer's, q99 q99.9 worst, runs above twenty means")
        first = None
        for name, make in TAILS.items():
            regret = measured(means, 0.01, 10**6, {name: make}, runs, 1)[0]
            first = regret if first is None else first
            sem, more = regret.std(ddof=1) / math.sqrt(runs), regret - first
            high = " ".join(f"{q:.0f}" for q in np.quantile(regret, [0.99, 0.999, 1]))
            lost = int((regret > 20 * regret.mean()).sum())
            print(
                f"    {name}: {regret.mean():.1f} ± {sem:.1f}, {more.mean():+.1f} ± "
                f"{more.std() / math.sqrt(runs):.1f}, {high}, {lost}",
                flush=True,
            )


def verdict(n_settings: int, runs: int) -> None:
    """Print the regret of all players in each setting, and what follows from it."""
    players = {"kibitzer": kb.kibitzer, **OF_THE_PAPER, **OTHERS}
    names = list(players)
    rows = []
    print("K, rate, T |", ", ".join(names))
    for means, rate, horizon in settings("verdict", n_settings):
        some = {10**4: runs, 10**5: max(20, runs // 2), 10**6: max(20, runs // 5)}[horizon]
        playing = dict(players)
        if horizon == 10**6:
            del playing["thompson"]  # which cannot leap
        regret = measured(means, rate, horizon, playing, some, 3).mean(axis=1)
        regret = dict(zip(playing, regret, strict=True))
        rows.append(regret)
        shown = " ".join(f"{regret.get(name, math.nan):.4g}" for name in names)
        print(f"{len(means)}, {rate:g}, {horizon:.0e} | {shown}", flush=True)

    def mean_of(ratios: list[float]) -> float:
        return math.exp(np.mean(np.log(ratios)))

    double = [row["ucb_double"] / row["kibitzer"] for row in rows]
    best = [min(row[other] for other in OF_THE_PAPER) / row["kibitzer"] for row in rows]
    every = (*OF_THE_PAPER, *OTHERS)
    rest = [row["kibitzer"] / min(row[o] for o in every if o in row) for row in rows]
    print(
        f"{len(rows)} settings: UCB1-Double / kibitzer {mean_of(double):.2f}, best of the paper / it "
        f"{mean_of(best):.2f}, it / best of all others {mean_of(rest):.3f}, worst {max(rest):.2f}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000, help="of a setting of 10^4 stages")
    parser.add_argument("--settings", type=int, default=63, help="of an ensemble")
    parser.add_argument("--only", choices=("paper", "search", "tail", "verdict"))
    given = parser.parse_args()
    if given.only in (None, "paper"):
        paper(20 * given.runs)
    if given.only in (None, "search"):
        search(given.settings, given.runs)
    if given.only in (None, "tail"):
        tail(10 * given.runs)
    if given.only in (None, "verdict"):
        verdict(given.settings, given.runs)


if __name__ == "__main__":
    main()
