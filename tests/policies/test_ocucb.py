"""OCUCB-n, against small examples, the formula and the reference."""

import math

import numpy as np
import pytest
import reference
from stories import agree, decisions, made

from kibitz.policies import ocucb

ETAS = [2.0, 1.0000001, 1.5, 30.0]
RHOS = [0.5, 0.75, 1.0, 0.5 + 1e-9, 0.9]


def test_with_rho_one_the_sum_is_over_the_smaller_counts():
    # n = 4 beside 1 and 9: min(4, 4) + min(4, 1) + min(4, 9) = 9
    policy = made("ocucb")
    params = policy.params._replace(eta=3.0, rho=1.0)
    index = policy.index(params, 100, np.array([4, 1, 9]), 0, 0.5)
    expected = 0.5 + math.sqrt(2 * 3 * math.log(100 * math.log(100) / 9) / 4)
    assert index == pytest.approx(expected, rel=1e-14)


def test_with_rho_half_the_sum_is_over_geometric_means():
    # n = 4 beside 1 and 9: 4 + sqrt(4) + min(4, 6) = 10
    policy = made("ocucb")
    index = policy.index(policy.params, 100, np.array([4, 1, 9]), 0, 0.5)
    expected = 0.5 + math.sqrt(2 * 2 * math.log(100 * math.log(100) / 10) / 4)
    assert index == pytest.approx(expected, rel=1e-14)


def test_the_logarithm_is_at_least_one():
    policy = made("ocucb")
    index = policy.index(policy.params, 3, np.array([40, 40]), 0, 0.0)
    assert index == pytest.approx(math.sqrt(2 * 2 / 40), rel=1e-14)


def test_the_logarithm_is_at_least_log_log_t():
    policy = made("ocucb")
    index = policy.index(policy.params, 10**9, np.array([10**9] * 60), 0, 0.0)
    expected = math.sqrt(4 * math.log(math.log(1e9)) / 1e9)
    assert index == pytest.approx(expected, rel=1e-12)


def test_a_tie_goes_to_the_lowest_arm():
    assert decisions(made("ocucb"), 3, (0, 1.0), (1, 1.0), (2, 1.0)) == (0, 1)


def test_agrees_with_the_reference():
    agree(made("ocucb"), reference.OCUCB, range(80), eta=ETAS, rho=RHOS)
    agree(
        made("ocucb", ignore_free=True),
        lambda n_arms, **grid: reference.OCUCB(n_arms, ignore_free=True, **grid),
        range(40),
        eta=ETAS,
        rho=RHOS,
    )


def test_hands_on_its_parameters():
    assert ocucb(3, 0.7).params._asdict() == {"eta": 3.0, "rho": 0.7}
    assert ocucb().params._asdict() == {"eta": 2.0, "rho": 0.5}


@pytest.mark.parametrize("bad", [1, 0.0, -1.0, math.inf, math.nan])
def test_refuses_a_bad_eta(bad):
    with pytest.raises(ValueError, match=f"^eta must be above 1 and finite, got {bad!r}$"):
        ocucb(eta=bad)


@pytest.mark.parametrize("bad", [0.49, 1.01, -1.0, math.inf, math.nan])
def test_refuses_a_bad_rho(bad):
    with pytest.raises(ValueError, match=rf"^rho must be in \[0.5, 1\], got {bad!r}$"):
        ocucb(rho=bad)
