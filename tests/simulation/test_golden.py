"""The numbers of fixed simulations equal the recorded numbers.

The counts must be equal. An intended change needs a new revision of the engine or of the policy
(`kibitz.simulation.fingerprint`) and a new `files/golden.json`, written by `golden.py`.
"""

import json
from pathlib import Path

import golden
import pytest

pytestmark = pytest.mark.slow

RECORDED = json.loads((Path(__file__).parent / "files/golden.json").read_text())


def test_every_case_is_recorded():
    assert RECORDED.keys() == golden.CASES.keys()


@pytest.mark.parametrize("case", golden.CASES)
def test_numbers_equal_the_recorded_numbers(case):
    result = golden.play(case)
    assert result.keys() == RECORDED[case].keys()
    for policy, (pulls, looks, regret) in result.items():
        assert [pulls, looks] == RECORDED[case][policy][:2], policy
        assert regret == pytest.approx(RECORDED[case][policy][2], rel=1e-12), policy
