"""Tests of the plan for changes against simulations, and of its edge cases."""

import pytest

import kibitz


@pytest.mark.slow
@pytest.mark.parametrize(("n_arms", "cost"), [(2, 0.2), (10, 0.05)])
def test_the_predicted_cost_agrees_with_a_simulation(n_arms, cost):
    """With a random seed, the test fails with probability below 1e-4.

    The expected ratios of simulated and predicted costs are 1.00 and 0.98, by 2000 other runs. The
    standard errors of the ratios are below 0.03.
    """
    length, size, gap = 5000, 0.8, 0.4
    plan = kibitz.plan_changes(length, size, n_arms=n_arms, gap=gap, cost=cost)
    others = [0.0] * (n_arms - 2)
    before, after = ([gap, *others, last] for last in (0.0, size))
    problem = kibitz.changing([(1, kibitz.gaussian(before)), (length + 1, kibitz.gaussian(after))])
    data = kibitz.simulate(
        problem, kibitz.active(plan.rate), kibitz.lookout(), horizon=2 * length,
        stages=[length, 2 * length], runs=100, seed=2,
    )  # fmt: skip
    loss = (data.regret.isel(stage=1) - data.regret.isel(stage=0)).mean().item()
    assert loss + plan.look_cost == pytest.approx(plan.total, rel=0.16)


def test_the_recommended_rate_has_the_smallest_cost():
    plan = kibitz.plan_changes(10_000, 0.8, n_arms=10, gap=0.4, cost=0.05)
    assert plan.pays
    assert plan.total == min(plan.totals)
    assert plan.total == pytest.approx(plan.loss + plan.look_cost)
    assert plan.n_looks == pytest.approx(plan.rate * 10_000)
    at_half = kibitz.plan_changes(10_000, 0.8, n_arms=10, gap=0.4, cost=0.05, at=0.5)
    assert at_half.rate == 0.5
    assert plan.total < at_half.total


def test_looks_that_cannot_pay_are_not_recommended():
    plan = kibitz.plan_changes(300, 0.8, n_arms=10, gap=0.4)
    assert not plan.pays
    assert (plan.rate, plan.n_looks, plan.look_cost) == (0, 0, 0)
    assert plan.total == plan.loss_without_looks == pytest.approx(120)
    assert kibitz.plan_changes(300, 0.8, n_arms=10, gap=0.4, cost=0.0).rate == 1  # free looks pay


def test_a_plan_for_clicks_needs_more_looks_at_a_lower_baseline_with_the_same_relative_change():
    plans = [
        kibitz.plan_changes(100_000, 0.8 * p, gap=0.4 * p, baseline=p, cost=0.001)
        for p in (0.05, 0.2)
    ]
    assert plans[0].n_observed > 2 * plans[1].n_observed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"change_size": 0.4}, "change_size must be greater than the gap 0.4"),
        ({"changes_every": 0}, "changes_every must be a whole number of at least 1"),
        ({"n_arms": 1}, "n_arms must be a whole number of at least 2"),
        ({"at": 1.5}, r"at must be in \[0, 1\]"),
        ({"cost": -1}, "cost must be"),
        ({"baseline": 0.5}, "baseline must be positive, and below 1 when change_size"),
        ({"baseline": 0.1, "scale": 2.0}, "scale must be left out with baseline"),
    ],
)
def test_bad_arguments_are_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        kibitz.plan_changes(**{"changes_every": 1000, "change_size": 0.8, "gap": 0.4, **arguments})
