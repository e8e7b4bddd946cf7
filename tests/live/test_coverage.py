"""A small version of `benchmarks/intervals.py`: intervals and verdicts of agents under attack."""

import importlib.util
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

FILE = Path(__file__).parents[2] / "benchmarks" / "intervals.py"
SPEC = importlib.util.spec_from_file_location("intervals_under_attack", FILE)
intervals = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(intervals)

N_RUNS, HORIZON = 6, 100


@pytest.mark.parametrize("name", intervals.ATTACKS)
def test_intervals_and_verdicts_hold_under_attack(name):
    """Intervals fail in at most 10 % of the runs, and so do verdicts.

    If exactly 10 % fail, 5 or more of 6 runs fail with probability 5.5e-5. There are 7 attacks, each
    with 2 limits, so the probability of a false alarm is below 0.0008.
    """
    attack = intervals.ATTACKS[name]
    failures = [intervals.play(attack, seed, HORIZON) for seed in range(N_RUNS)]
    assert sum(is_excluded for is_excluded, _, _ in failures) < 5
    assert sum(is_wrong for _, is_wrong, _ in failures) < 5


def test_the_count_of_failures_finds_a_broken_assumption():
    """If clicks are reported at once and missing clicks late, nearly every interval fails."""
    attack = intervals.BROKEN_ATTACKS["(broken) clicks at once, no clicks late"]
    failures = [intervals.play(attack, seed, HORIZON) for seed in range(N_RUNS)]
    assert sum(is_excluded for is_excluded, _, _ in failures) >= 5
