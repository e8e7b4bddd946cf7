"""Compare policies on an ensemble of random problems whose means change.

Usage: python benchmarks/changes.py (still | development | held-out) [horizon problems runs]

Each kind of problem comes with 2, 5 and 20 arms and with Gaussian and Bernoulli rewards, and looks
arrive at a rate of 0.1 or 1. `problems` is the number of random problems for each of these settings.
The rules of lookout were chosen on the development part, at horizons of 10,000 and 100,000. The
held-out part has other kinds of problems and was simulated once, after the last change of lookout.
Every rival plays with several settings. In the output, "one setting" is the setting of a rival that
is best over all problems. "Hindsight" is the best rival and setting for each problem. The script
prints geometric means of the regret divided by lookout's. docs/reference/lookout.md quotes the
results.
"""

import itertools
import math
import sys
from typing import Any

import numpy as np

import kibitz

Array = np.ndarray[Any, Any]
Generator = np.random.Generator

DEVELOPMENT = ("global", "swing", "launch", "crossing", "single")
HELD_OUT = ("novelty", "walk", "falls", "outage")
MEMORIES = (1000, 3000, 10_000, 30_000)
MIN_REGRET = 0.5  # smaller regrets count as 0.5, because ratios of tiny regrets mean nothing
N_PIECES = 200  # number of pieces of a problem whose means drift


def draw_means(rng: Generator, n_arms: int, is_bernoulli: bool) -> Array:
    """Return random means of the arms."""
    if is_bernoulli:
        rate = math.exp(rng.uniform(math.log(0.03), math.log(0.4)))
        return np.clip(rate * np.exp(rng.normal(0, 0.35, n_arms)), 0.002, 0.95)
    return rng.normal(0, 0.5, n_arms)


def shift(means: Array, amount: Any, is_bernoulli: bool) -> Array:
    """Return means raised by `amount`; Bernoulli means grow by the factor exp(0.7 `amount`)."""
    if is_bernoulli:
        return np.clip(means * np.exp(0.7 * amount), 0.001, 0.98)
    return means + amount


def draw_pieces(
    kind: str, n_arms: int, horizon: int, is_bernoulli: bool, rng: Generator
) -> list[tuple[int, Array]]:
    """Return the pieces of a random problem: the first stage and the means of each piece."""
    means = draw_means(rng, n_arms, is_bernoulli)
    starts = [1 + horizon * n // N_PIECES for n in range(N_PIECES)]
    times = np.array(starts) / horizon

    def drift(amounts: Any) -> list[tuple[int, Array]]:
        return [(s, shift(means, a, is_bernoulli)) for s, a in zip(starts, amounts, strict=True)]

    def draw_stages(n: int) -> list[int]:
        return sorted(int(s) for s in rng.choice(np.arange(horizon // 20, horizon), n, False))

    if kind == "still":
        return [(1, means)]
    if kind == "global":  # all means change
        stages = [1, *draw_stages(int(rng.integers(2, 9)))]
        return [(s, draw_means(rng, n_arms, is_bernoulli)) for s in stages]
    if kind == "swing":  # all means swing together
        n_periods, phase = int(rng.integers(2, 13)), rng.random()
        return drift(rng.uniform(0.2, 0.8) * np.sin(2 * np.pi * (n_periods * times + phase)))
    if kind == "crossing":
        other_means, first = draw_means(rng, n_arms, is_bernoulli), rng.uniform(0.1, 0.5)
        weights = np.clip((times - first) / rng.uniform(0.1, 0.5), 0, 1)
        return [(s, (1 - w) * means + w * other_means) for s, w in zip(starts, weights, strict=True)]
    if kind == "single":  # one late change of one arm
        new_means = means.copy()
        arm = int(means.argmax()) if rng.random() < 0.5 else int(rng.integers(n_arms))
        new_means[arm] = draw_means(rng, n_arms, is_bernoulli)[arm]
        return [(1, means), (int(horizon * rng.uniform(0.5, 0.95)), new_means)]
    if kind == "novelty":  # each arm begins above its later mean
        heights, lengths = rng.uniform(0, 1, n_arms), rng.uniform(0.05, 0.3, n_arms)
        return drift([heights * np.exp(-time / lengths) for time in times])
    if kind == "walk":
        steps = rng.normal(0, rng.uniform(0.02, 0.08), (N_PIECES, n_arms))
        return drift(np.cumsum(steps, axis=0))
    pieces = [(1, means)]
    if kind == "outage":  # all means are low for a short time
        for stage in draw_stages(int(rng.integers(1, 4))):
            end = stage + int(rng.integers(horizon // 1000, horizon // 50))
            if stage > pieces[-1][0]:
                low_means = np.full(n_arms, 0.001) if is_bernoulli else means - 2
                pieces += [(stage, low_means), (end, means)]
        return pieces
    for stage in draw_stages(int(rng.integers(1, 4))):
        new_means = pieces[-1][1].copy()
        size = rng.uniform(0.2, 0.8)
        if kind == "launch":  # an arm rises above the best arm
            arm, best = int(rng.integers(n_arms)), new_means.max()
            new_means[arm] = min(0.95, best * math.exp(size)) if is_bernoulli else best + size
        else:  # the best arm falls
            arm = int(new_means.argmax())
            fallen_mean = new_means[arm] - 1.5 * size
            new_means[arm] = new_means[arm] * math.exp(-size) if is_bernoulli else fallen_mean
        pieces.append((stage, new_means))
    return pieces


def make_problem(pieces: list[tuple[int, Array]], is_bernoulli: bool) -> Any:
    """Return the problem that consists of the given pieces."""
    make = kibitz.bernoulli if is_bernoulli else kibitz.gaussian
    problems = [(start, make(means)) for start, means in pieces]
    return problems[0][1] if len(problems) == 1 else kibitz.changing(problems)


def make_policies(is_bernoulli: bool, with_rivals: bool) -> dict[str, Any]:
    """Return lookout, kibitzer and the rivals with all their settings."""
    rewards: Any = "bernoulli" if is_bernoulli else "gaussian"
    policies = {
        "lookout": kibitz.lookout(rewards=rewards),
        "kibitzer": kibitz.kibitzer(rewards=rewards),
    }
    if with_rivals:
        for memory in MEMORIES:
            policies[f"sw_ucb {memory}"] = kibitz.sw_ucb(memory, rewards=rewards)
            policies[f"d_ucb {memory}"] = kibitz.d_ucb(1 - 1 / memory, rewards=rewards)
        for a in (0.02, 0.05, 0.2):
            policies[f"glr_ucb {a}"] = kibitz.glr_ucb(a, rewards=rewards)
    return policies


def average(ratios: Any) -> float:
    """Return the geometric mean of the ratios."""
    return float(np.exp(np.mean(np.log(ratios))))


def main(part: str, horizon: int, n_problems: int, runs: int) -> None:
    """Play one part of the ensemble, and print the results."""
    kinds = {"still": ("still",), "development": DEVELOPMENT, "held-out": HELD_OUT}[part]
    settings = [*itertools.product(kinds, (2, 5, 20), (0, 1), range(n_problems))]
    for rate in (0.1, 1.0):
        regrets: dict[str, list[float]] = {}
        for number, (kind, n_arms, is_bernoulli, nth) in enumerate(settings):
            rng = np.random.default_rng([horizon, n_arms, is_bernoulli, nth, *kind.encode()])
            pieces = draw_pieces(kind, n_arms, horizon, bool(is_bernoulli), rng)
            problem = make_problem(pieces, bool(is_bernoulli))
            policies = make_policies(bool(is_bernoulli), part != "still")
            data = kibitz.simulate(
                problem, kibitz.active(rate), policies, horizon=horizon, runs=runs, seed=number,
            )  # fmt: skip
            for name, regret in zip(policies, data.final_regret.mean("run").values, strict=True):
                regrets.setdefault(name, []).append(max(MIN_REGRET, float(regret)))
        print_results(rate, settings, {name: np.array(values) for name, values in regrets.items()})


def print_results(rate: float, settings: list[Any], regrets: dict[str, Array]) -> None:
    """Print the regret of all policies divided by that of lookout."""
    own = regrets.pop("lookout")
    ratio = regrets.pop("kibitzer") / own
    error = np.log(ratio).std(ddof=1) / math.sqrt(ratio.size)
    print(f"rate {rate}: kibitzer {average(ratio):.2f}, standard error of the logarithm {error:.2f}")
    families = dict.fromkeys(name.split()[0] for name in regrets)
    for family in families:
        members = {name: values for name, values in regrets.items() if name.split()[0] == family}
        name = min(members, key=lambda name: average(members[name]))
        print(f"  one setting, {name}: {average(members[name] / own):.2f}")
    if families:
        best = np.min(list(regrets.values()), axis=0)
        print(f"  hindsight: {average(best / own):.2f}")
        for kind in dict.fromkeys(kind for kind, *_ in settings):
            chosen = np.array([kind == k for k, *_ in settings])
            kibitzer_ratio = average(ratio[chosen])
            print(f"    {kind}: {average((best / own)[chosen]):.2f} (kibitzer {kibitzer_ratio:.2f})")
    sys.stdout.flush()


if __name__ == "__main__":
    part, horizon, n_problems, runs = (
        sys.argv[1:] if len(sys.argv) == 5 else (*sys.argv[1:], "1e5", "1", "1")
    )
    main(part, int(float(horizon)), int(n_problems), int(runs))
