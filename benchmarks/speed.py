"""How fast: nanoseconds per stage against the floor, and what leaping costs. `make bench`.

The floor is a compiled loop that only draws one standard normal per stage with the same generator.
All is measured in one process on one core, in CPU time, repetitions of all cases interleaved; ratios
are to the floor of the same run, and the smallest time of each counts: machines are noisy.
"""

import math
import platform
import time

import numba
import numpy as np

import kibitz
from kibitz.engine import Piece, loop, play_piece
from kibitz.policies import POLICIES
from kibitz.simulation import log_spaced

FIVE, FOUR = [2, 1.8, 1.5, 1, 0.5], [2, 1.8, 0.5, 0.2]
HORIZON, RUNS, REPETITIONS = 10_000, 40, 7


def own_index(params, stage, counts, arm, mean):
    """UCB, as a user would write it."""
    return mean + math.sqrt(6 * math.log(stage) / counts[arm])


@numba.njit(nogil=True)
def floor_loop(rng, n):
    """Draw n standard normals."""
    total = 0.0
    for _ in range(n):
        total += rng.standard_normal()
    return total


def numpy_ucb(runs, rng):
    """Play UCB in NumPy, vectorised over runs."""
    means = np.array(FIVE)
    counts, sums = np.ones((runs, 5)), means + rng.standard_normal((runs, 5))
    rows = np.arange(runs)
    for stage in range(6, HORIZON + 1):
        arms = np.argmax(sums / counts + np.sqrt(6 * np.log(stage) / counts), axis=1)
        counts[rows, arms] += 1
        sums[rows, arms] += means[arms] + rng.standard_normal(runs)


def python_ucb(rng):
    """Play UCB in plain Python."""
    counts, sums = [1] * 5, [mean + rng.gauss(0, 1) for mean in FIVE]
    for stage in range(6, HORIZON + 1):
        log = 6 * math.log(stage)
        arm = max(range(5), key=lambda i: sums[i] / counts[i] + math.sqrt(log / counts[i]))
        counts[arm] += 1
        sums[arm] += FIVE[arm] + rng.gauss(0, 1)


def piece_of(policy, feedback, means, horizon=HORIZON, runs=RUNS, leap=False):
    """Return some runs to play, compiled."""
    play = loop(policy, feedback, leap=leap)
    problem = kibitz.gaussian(means)
    what = (None, play, policy, problem, feedback)
    play_piece(Piece(*what, 10, np.array([10]), 1, 0, 1), np.zeros(2, np.int64))
    return Piece(*what, horizon, log_spaced(horizon), 1, 0, runs)


def seconds(function):
    """Return the CPU time that a call takes."""
    start = time.process_time()
    function()
    return time.process_time() - start


def main():
    """Measure and print."""
    print(f"{platform.machine()}, Python {platform.python_version()}, numba {numba.__version__}")
    active = kibitz.active(0.1)
    pieces = {}
    for name, make in POLICIES.items():
        feedback = kibitz.bandit() if name in {"ucb", "ocucb", "kl_ucb"} else active
        pieces[f"{name}, {feedback.observer}"] = piece_of(make(), feedback, FIVE)
    own = kibitz.index_policy("own", own_index)
    pieces["own formula of UCB, bandit"] = piece_of(own, kibitz.bandit(), FIVE)
    for n_arms in (2, 50, 500):
        means = np.linspace(1, 0, n_arms)
        pieces[f"ucb, bandit, K = {n_arms}"] = piece_of(kibitz.ucb(), kibitz.bandit(), means, runs=4)
    cases = {
        label: (lambda piece=piece: play_piece(piece, np.zeros(2, np.int64)), piece.last)
        for label, piece in pieces.items()
    }
    cases["ucb, NumPy over 100 runs"] = (lambda: numpy_ucb(100, np.random.default_rng(1)), 100)
    import random

    cases["ucb, plain Python"] = (lambda: python_ucb(random.Random(1)), 1)
    rng = np.random.Generator(np.random.SFC64(1))
    floor_loop(rng, 10)
    floors, times = [], {label: [] for label in cases}
    for _ in range(REPETITIONS):
        floors.append(seconds(lambda: floor_loop(rng, 10**6)) * 1e3)
        for label, (function, runs) in cases.items():
            times[label].append(seconds(function) / (runs * HORIZON) * 1e9)
    floor = min(floors)
    print(
        f"\n{'five arms, T = 10^4, active: rate 0.1':36} {'ns/stage':>9} {'median':>9} {'x floor':>9}"
    )
    print(f"{'floor: one normal':36} {floor:9.1f} {np.median(floors):9.1f} {1:9.1f}")
    for label, all_times in times.items():
        best = min(all_times)
        print(f"{label:36} {best:9.1f} {np.median(all_times):9.1f} {best / floor:9.1f}")

    print(f"\n{'leaping: ms per run':36}" + "".join(f"{f'T = 10^{e}':>10}" for e in (4, 6, 9, 12)))
    for label, policy, feedback, means in (
        ("ucb, passive 0.1", kibitz.ucb(), kibitz.passive(0.1), FOUR),
        ("ucb, no looks", kibitz.ucb(), kibitz.bandit(), FOUR),
        ("ucb_double, active 0.1", kibitz.ucb_double(), active, FIVE),
        ("etc_ocucb, active 0.1", kibitz.etc_ocucb(), active, FIVE),
        ("ftl_robin, active 0.1", kibitz.ftl_robin(), active, FOUR),
    ):
        row = []
        for exponent in (4, 6, 9, 12):
            piece = piece_of(policy, feedback, means, 10**exponent, 10, leap=True)
            row.append(seconds(lambda piece=piece: play_piece(piece, np.zeros(2, np.int64))) * 100)
        print(f"{label:36}" + "".join(f"{ms:10.2f}" for ms in row))


if __name__ == "__main__":
    main()
