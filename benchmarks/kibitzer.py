"""What kibitzer is worth, on the paper's problem and on random ones: run by hand.

    python benchmarks/kibitzer.py [--runs N] [--settings N] [--only paper|search|verdict]

Three parts. `paper`: problems such as the paper's, with standard errors. `search`: an ensemble of
random problems on which parameters of kibitzer may be compared. `verdict`: another one, of another
seed, that no choice was made on: kibitzer against the paper's policies and against others, as
geometric means of ratios of mean regret. Settings have 2 to 30 arms, rates from 1 to 0, active looks,
horizons 10⁴ to 10⁶, and are drawn from a seed, so that the same numbers come out everywhere.
"""

import argparse
import math
from typing import Any

import numpy as np

import kibitz as kb

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
SEEDS = {"search": 1, "verdict": 2}
RATES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.001, 0.0)
HORIZONS = (10**4, 10**5, 10**6)


def looks(rate: float) -> Any:
    """Return active looks at a rate."""
    return kb.active(rate) if rate > 0 else kb.bandit()


def measured(means: Any, rate: float, horizon: int, players: Any, runs: int, seed: int) -> Any:
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


def verdict(ensemble: str, n_settings: int, runs: int, players: Any) -> None:
    """Print the regret of all players in each setting, and what follows from it."""
    ours = list(players)
    players = {**players, **OF_THE_PAPER, **OTHERS}
    names = list(players)
    rows = []
    print("K, rate, T |", ", ".join(names))
    for means, rate, horizon in settings(ensemble, n_settings):
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

    for name in ours:
        double = [row["ucb_double"] / row[name] for row in rows]
        best = [min(row[other] for other in OF_THE_PAPER) / row[name] for row in rows]
        every = (*OF_THE_PAPER, *OTHERS)
        rest = [row[name] / min(row[o] for o in every if o in row) for row in rows]
        print(
            f"{ensemble}, {len(rows)} settings, {name}: UCB1-Double / it {mean_of(double):.2f}, "
            f"best of the paper / it {mean_of(best):.2f}, it / best of all others "
            f"{mean_of(rest):.3f}, worst {max(rest):.2f}"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200, help="of a setting of 10^4 stages")
    parser.add_argument("--settings", type=int, default=63, help="of an ensemble")
    parser.add_argument("--only", choices=("paper", "search", "verdict"))
    given = parser.parse_args()
    if given.only in (None, "paper"):
        paper(10 * given.runs)
    if given.only in (None, "search"):
        tried = {
            "kibitzer": kb.kibitzer,
            "kibitzer b=4": lambda: kb.kibitzer(b=4),
            "kibitzer b=16": lambda: kb.kibitzer(b=16),
            "kibitzer beta=0": lambda: kb.kibitzer(beta=0),
        }
        verdict("search", given.settings, given.runs, tried)
    if given.only in (None, "verdict"):
        verdict("verdict", given.settings, given.runs, {"kibitzer": kb.kibitzer})


if __name__ == "__main__":
    main()
