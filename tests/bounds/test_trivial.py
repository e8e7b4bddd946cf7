"""Tests that no upper bound exceeds the largest possible regret."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kibitz.bounds import summary, upper

THREE_GAPS = [0.0, 0.3, 0.6]  # means 1, 0.7, 0.4
# All proved finite-horizon bounds of policies that start with one pull of each arm.
BOUNDS_BY_NAME = {
    "ucb_log": lambda gaps, horizon, **kw: upper.ucb_log(gaps, horizon, **kw),
    "ucb_rate": lambda gaps, horizon, **kw: upper.ucb_rate(gaps, 0.1, horizon=horizon, **kw),
    "ucb_periodic": lambda gaps, horizon, **kw: upper.ucb_periodic(gaps, 0.1, horizon=horizon, **kw),
    "ucb_passive": lambda gaps, horizon, **kw: upper.ucb_passive(gaps, 0.1, None, horizon, **kw),
    "ucb_sharp": lambda gaps, horizon, **kw: upper.ucb_sharp(gaps, 0.1, None, horizon, **kw),
    "ucb_schedule": lambda gaps, horizon, **kw: upper.ucb_schedule(
        gaps, lambda t: 0.1 * t, None, horizon, **kw
    ),
    "ftl_robin": lambda gaps, horizon, **kw: upper.ftl_robin(gaps, 0.1, horizon=horizon, **kw),
    "ocucb": lambda gaps, horizon, **kw: upper.ocucb(gaps, horizon, c_eta=1.0, **kw),
}


def list_regrets(gaps, horizon):
    """Yield (regret, pulls) for every sequence of pulls that starts with one pull of each arm."""
    arms = range(len(gaps))
    for pulls in itertools.product(arms, repeat=horizon):
        first_pulls = pulls[: len(gaps)]
        if len(set(first_pulls)) == len(first_pulls):
            yield math.fsum(gaps[arm] for arm in pulls), pulls


@pytest.mark.parametrize(
    "gaps", [[0.0], [0.0, 1.0], THREE_GAPS, [0.5, 0.0, 0.0, 2.0], [0.2, 0.0, 0.2]]
)
def test_trivial_bound_is_the_largest_loss_of_any_sequence_of_pulls(gaps):
    for horizon in range(1, 7):
        losses = [loss for loss, _ in list_regrets(gaps, horizon)]
        assert upper.trivial(gaps, horizon) == pytest.approx(max(losses), rel=1e-14)


def test_all_policies_have_the_same_regret_at_t_equal_k():
    losses = {round(loss, 12) for loss, _ in list_regrets(THREE_GAPS, 3)}
    assert losses == {0.9}
    for bound in BOUNDS_BY_NAME.values():
        assert bound(THREE_GAPS, 3) == pytest.approx(0.9)


@pytest.mark.parametrize("bound", BOUNDS_BY_NAME.values(), ids=BOUNDS_BY_NAME)
def test_terms_are_limited_by_the_pulls_of_an_arm(bound):
    for horizon in range(1, 7):
        bound_details = bound(THREE_GAPS, horizon, details=True)
        for arm, gap in enumerate(THREE_GAPS):
            largest_loss = max(
                pulls.count(arm) * gap for _, pulls in list_regrets(THREE_GAPS, horizon)
            )
            assert bound_details.terms[arm] <= largest_loss + 1e-12
        assert bound_details.total <= bound_details.terms.sum() + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("bound", BOUNDS_BY_NAME.values(), ids=BOUNDS_BY_NAME)
@given(
    st.lists(st.floats(1e-3, 100), min_size=1, max_size=6),
    st.lists(st.integers(1, 2**53), min_size=1, max_size=3),
)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_no_upper_bound_exceeds_the_trivial_bound(bound, gaps, horizons):
    """No upper bound exceeds `upper.trivial`, the largest possible regret."""
    gaps, horizons = [0.0, *gaps], [min(T, 10**6) for T in horizons]
    bound_values = bound(gaps, horizons)
    assert (bound_values <= np.asarray(upper.trivial(gaps, horizons)) * (1 + 1e-12)).all()


def test_etc_ocucb_is_limited_by_the_largest_gap_at_every_stage():
    for form in ("proved", "exact"):
        assert upper.etc_ocucb(THREE_GAPS, 0.1, 3, c_eta=1.0, form=form) == pytest.approx(3 * 0.6)
        assert upper.etc_ocucb([0.0, 2.0], 0.1, 7, c_eta=1.0, form=form) == pytest.approx(14)


def test_printed_forms_are_not_limited_by_trivial():
    assert upper.ucb_log(THREE_GAPS, 3, form="printed") > 100
    assert upper.ucb_rate(THREE_GAPS, 0.1, horizon=3, form="printed") > 100


@pytest.mark.parametrize("horizon", [1, 2, 3, 4, 10])
def test_summary_is_limited_by_trivial(horizon):
    summary_of_problem = summary([1, 0.7, 0.4], 0.1, "uniform", horizon, c_eta=1.0)
    largest_regret = upper.trivial(summary_of_problem["gaps"], horizon)
    for name, bound in summary_of_problem["upper"].items():
        # `trivial` does not limit bounds of policies that may start without exactly one pull of each
        # arm: ETC-OCUCB restarts in each epoch, and kibitzer may replace a first pull by a look.
        limit = horizon * 0.6 if name.startswith(("etc_ocucb", "kibitzer")) else largest_regret
        assert bound <= limit * (1 + 1e-12), name
    assert summary_of_problem["upper"]["ucb_sharp"] == pytest.approx(largest_regret)
