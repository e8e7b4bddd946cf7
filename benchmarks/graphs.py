"""Compare policies on an ensemble of random graphs; takes about ten minutes.

The ensemble has ten kinds of graphs with self-loops and four kinds without, 5, 15 or 40 arms, 2000 or
20 000 stages, and Gaussian or Bernoulli rewards. Each problem has its own random graph and its own
random means. No parameter of a policy was chosen on these problems. The script prints, for each
policy, the geometric mean over the problems of its mean regret divided by that of scout, with a
standard error over the problems; the same ratio for the mean of the worst tenth of the runs; and the
problems on which the ratio is extreme. docs/policies.md quotes the results. `--quick` uses a tenth of
the runs.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from kibitz import bernoulli, gaussian, graph, kibitzer, max_n, scout, simulate, thompson, ucb

RUNS = 30
SEED = 20_290
ARMS = (5, 15, 40)
REFERENCE = "scout"
POLICIES = {
    "UCB-N": ucb(2),
    "UCB-MaxN": max_n(ucb(2)),
    "TS-N": thompson(),
    "TS-MaxN": max_n(thompson()),
    "kibitzer": kibitzer(),
    "kibitzer-MaxN": max_n(kibitzer()),
    "scout": scout(),
    "scout, informed": scout(informed=True),
}
Matrix = np.ndarray[Any, Any]
Generator = np.random.Generator


def attach(rng: Generator, n: int) -> Matrix:
    """Return a random tree by preferential attachment; both ends of an edge show each other."""
    shows = np.eye(n)
    for arm in range(1, n):
        weights = shows[:arm, :arm].sum(axis=1)
        other = rng.choice(arm, p=weights / weights.sum())
        shows[arm, other] = shows[other, arm] = 1
    return shows


def nearest(rng: Generator, n: int) -> Matrix:
    """Return the directed graph in which each of n points in the plane shows its two neighbours."""
    points = rng.random((n, 2))
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    shows = np.eye(n)
    for arm in range(n):
        shows[arm, np.argsort(distances[arm])[1:3]] = 1
    return shows


def blocks(rng: Generator, n: int) -> Matrix:
    """Return two groups that show themselves with probability 0.3 and each other with 0.02."""
    group = rng.integers(0, 2, n)
    return np.maximum(np.where(group[:, None] == group, 0.3, 0.02), np.eye(n))


def chain(rng: Generator, n: int) -> Matrix:
    """Return a one-sided chain in random order: each arm shows the next arm."""
    shows, order = np.eye(n), rng.permutation(n)
    shows[order[:-1], order[1:]] = 1
    return shows


def popular(rng: Generator, n: int) -> Matrix:
    """Return arms that every pull shows with a probability of their own, mostly small."""
    return np.maximum(np.tile(rng.random(n) ** 4, (n, 1)), np.eye(n))


def decay(rng: Generator, n: int) -> Matrix:
    """Return probabilities that halve with the distance on a line."""
    return 0.5 ** np.abs(np.subtract.outer(np.arange(n), np.arange(n)))


def digraph(rng: Generator, n: int) -> Matrix:
    """Return a random directed graph with edge probability 0.15."""
    return np.maximum(rng.random((n, n)) < 0.15, np.eye(n)).astype(float)


def redrawn(rng: Generator, n: int) -> Matrix:
    """Return a graph that is redrawn at each stage with edge probability 0.03."""
    return np.maximum(np.full((n, n), 0.03), np.eye(n))


def guide(rng: Generator, n: int) -> Matrix:
    """Return a graph in which one random arm shows all arms, and the others only themselves."""
    shows = np.eye(n)
    shows[rng.integers(n)] = 1
    return shows


def isolated(rng: Generator, n: int) -> Matrix:
    """Return the bandit."""
    return np.eye(n)


def no_loops(rng: Generator, n: int) -> Matrix:
    """Return the graph in which each arm shows all others but not itself."""
    return 1 - np.eye(n)


def two_hubs(rng: Generator, n: int) -> Matrix:
    """Return a graph without self-loops in which two random arms show all others."""
    shows = np.zeros((n, n))
    hubs = rng.choice(n, 2, replace=False)
    shows[hubs], shows[:, hubs] = 1, 0
    shows[hubs[0], hubs[1]] = shows[hubs[1], hubs[0]] = 1
    return shows


def sparse_no_loops(rng: Generator, n: int) -> Matrix:
    """Return the graph of nearest neighbours without self-loops, closed to a cycle."""
    shows = nearest(rng, n) - np.eye(n)
    order = rng.permutation(n)
    shows[order, np.roll(order, 1)] = 1
    return shows


def faint(rng: Generator, n: int) -> Matrix:
    """Return random probabilities below 0.3, also for the own reward."""
    return 0.3 * rng.random((n, n))


WITH_LOOPS = (
    attach, nearest, blocks, chain, popular, decay, digraph, redrawn, guide, isolated,
)  # fmt: skip
WITHOUT_LOOPS = (no_loops, two_hubs, sparse_no_loops, faint)


def play(kind: Callable[[Generator, int], Matrix], n_arms: int, nth: int, runs: int) -> Any:
    """Return the regret of each policy in each run, for one random problem."""
    rng = np.random.default_rng([SEED, n_arms, nth])
    shows = kind(rng, n_arms)
    scale = 10 ** rng.uniform(-0.5, 0.3)
    horizon = int(rng.choice([2000, 20_000]))
    is_gaussian = bool(rng.random() < 0.6)
    problem = gaussian(scale * rng.random(n_arms)) if is_gaussian else bernoulli(rng.random(n_arms))
    needs_loops = (np.diag(shows) == 0).any()
    policies = {
        name: policy for name, policy in POLICIES.items() if not needs_loops or "scout" in name
    }
    options: Any = {"horizon": horizon, "runs": runs, "seed": SEED + nth, "stages": [horizon]}
    data = simulate(problem, graph(shows), policies, **options)
    return {name: data.final_regret.sel(policy=name).to_numpy() for name in policies}


def worst_tenth(regret: Matrix) -> float:
    """Return the mean of the largest tenth of the regrets."""
    n = max(1, regret.size // 10)
    return float(np.sort(regret)[-n:].mean())


def print_ratios(results: dict[tuple[str, int], Any]) -> None:
    """Print the ratio of each policy to scout: mean, tail, by number of arms, and extremes."""
    for name in POLICIES:
        cases = {key: regret for key, regret in results.items() if name in regret}
        ratios, tails = {}, []
        for key, regret in cases.items():
            ratios[key] = np.log((regret[name].mean() + 1e-3) / (regret[REFERENCE].mean() + 1e-3))
            tails.append(
                np.log((worst_tenth(regret[name]) + 1e-3) / (worst_tenth(regret[REFERENCE]) + 1e-3))
            )
        if not ratios or name == REFERENCE:
            continue
        values = np.array(list(ratios.values()))
        error = values.std(ddof=1) / np.sqrt(values.size)
        by_arms = [np.exp(np.mean([r for (_, n), r in ratios.items() if n == k])) for k in ARMS]
        low, high = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
        print(
            f"{name:16} {np.exp(values.mean()):5.2f} x/÷ {np.exp(error):4.2f}  worst tenth "
            f"{np.exp(np.mean(tails)):5.2f}  {values.size} problems  by arms "
            + " / ".join(f"{ratio:.2f}" for ratio in by_arms)
            + f"  from {np.exp(ratios[low]):.2f} ({low[0]}, {low[1]}) to {np.exp(ratios[high]):.2f} "
            f"({high[0]}, {high[1]})"
        )


def main() -> None:
    """Play the ensemble and print the ratios."""
    runs = max(3, RUNS // 10) if "--quick" in sys.argv else RUNS
    for title, kinds in (("with self-loops", WITH_LOOPS), ("without self-loops", WITHOUT_LOOPS)):
        results = {}
        for nth, kind in enumerate(kinds):
            for n_arms in ARMS:
                regret = play(kind, n_arms, nth, runs)
                results[kind.__name__, n_arms] = regret
                means = "  ".join(
                    f"{r.mean():.1f}±{r.std() / np.sqrt(r.size):.1f}" for r in regret.values()
                )
                print(f"{kind.__name__:16} {n_arms:3}  {means}", flush=True)
        print(f"\n{title}, {runs} runs: regret divided by the regret of {REFERENCE}")
        print_ratios(results)
        print()


if __name__ == "__main__":
    main()
