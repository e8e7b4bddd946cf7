"""Kept machine code of one process does not mix with that of another.

numba numbers functions of one name from 1 in each process. When those numbers met, a policy that came
from the folder of kept code was silently played with the index of one compiled a moment before.
"""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

PLAY = """
import sys
import kibitz as kb

def policy(bonus):
    if bonus == "without":
        def index(params, stage, counts, arm, mean):
            return mean
    else:
        def index(params, stage, counts, arm, mean):
            return mean + 1 / counts[arm] ** 0.5
    return kb.index_policy("mine", index)

for bonus in sys.argv[1:]:
    played = kb.simulate(
        kb.gaussian([1, 0.5]), kb.bandit(), policy(bonus),
        horizon=500, runs=20, seed=1, threads=1, engine="step",
    )
    print(bonus, float(played.final_regret.mean()))
"""


def play(folder, *policies):
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", PLAY, *policies],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return dict(line.split() for line in done.stdout.splitlines())


def test_a_kept_policy_is_played_by_its_own_index_beside_a_new_one(tmp_path):
    alone = play(tmp_path, "without")
    both = play(tmp_path, "with", "without")
    assert both["without"] == alone["without"]
    assert both["with"] != both["without"]
    assert play(tmp_path, "without", "with") == both
