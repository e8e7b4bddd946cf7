"""Tests of the Bayes-optimal policy against brute force, published values and simulation."""

import itertools
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

import kibitz
from kibitz.evaluation.bayes_optimal import (
    Regret,
    _compute_mean_of_larger,
    bayes_optimal,
    bayes_regret,
    solve_with_progress,
)

pytestmark = pytest.mark.slow


def compute_by_brute_force(horizon, every=None, mutant=None):
    """Return the largest expected reward as an exact fraction, by its recursive definition.

    The mutant "never" is a wrong version without looks.
    """

    @cache
    def value(stage, a, b, c, d):
        if stage > horizon:
            return Fraction(0)
        looks = every is not None and stage % every == 0 and mutant != "never"
        return max(
            expected(stage, (a, b, c, d), pull, look)
            for pull in (0, 1)
            for look in ((0, 1) if looks else (None,))
        )

    def expected(stage, counts, pull, look):
        total_reward = Fraction(0)
        for pull_reward in (0, 1):
            chance, counts_after_pull = observe(counts, pull, pull_reward)
            if look is None:
                total_reward += chance * (pull_reward + value(stage + 1, *counts_after_pull))
                continue
            for look_reward in (0, 1):
                look_chance, counts_after_look = observe(counts_after_pull, look, look_reward)
                total_reward += (
                    chance * look_chance * (pull_reward + value(stage + 1, *counts_after_look))
                )
        return total_reward

    def observe(counts, arm, outcome):
        wins, losses = counts[2 * arm], counts[2 * arm + 1]
        new_counts = list(counts)
        new_counts[2 * arm + (1 - outcome)] += 1
        return Fraction(wins if outcome else losses, wins + losses), tuple(new_counts)

    return value(1, 1, 1, 1, 1)


@pytest.mark.parametrize(
    ("horizon", "every"), list(itertools.product([1, 2, 3, 5, 8], [None, 1, 2, 3]))
)
def test_value_equals_brute_force(horizon, every):
    exact_value = compute_by_brute_force(horizon, every)
    result = bayes_optimal(horizon, every)
    assert result.reward == pytest.approx(float(exact_value), rel=1e-13)
    assert result.regret == pytest.approx(float(Fraction(2, 3) * horizon - exact_value), abs=1e-12)
    if every == 1 and horizon > 2:  # with at most two stages, a look comes too late to help
        assert compute_by_brute_force(horizon, every, "never") < exact_value


def test_value_without_looks_is_the_published_value():
    """Compare with the published value for 60 pulls and uniform priors (P. Jacko, BinaryBandit)."""
    assert bayes_optimal(60).reward == pytest.approx(38.562343246635564, rel=1e-14)


@pytest.mark.parametrize(("every", "regret"), [(None, 1.748), (10, 1.468), (1, 0.840)])
def test_regret_at_100_stages(every, regret):
    """Compare the Bayes regret with values from an independent program."""
    assert bayes_optimal(100, every).regret == pytest.approx(regret, abs=6e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("every", "regret"), [(None, 3.024), (10, 2.129)])
def test_regret_at_500_stages(every, regret):
    assert bayes_optimal(500, every).regret == pytest.approx(regret, abs=6e-4)


def test_more_looks_help_and_a_look_at_the_last_stage_does_not():
    regrets = [bayes_optimal(30, every).regret for every in (1, 2, 5, 10, 29)]
    assert regrets == sorted(regrets)
    assert bayes_optimal(30, 30).regret == pytest.approx(bayes_optimal(30).regret)
    assert bayes_optimal(30, 29).regret < bayes_optimal(30).regret


@pytest.mark.parametrize("every", [None, 1, 2])
def test_decisions_attain_the_optimal_reward(every):
    """Compare the expected reward of the decisions, over all outcomes, with the optimal reward."""
    horizon = 4

    def expected_reward(stage, counts):
        if stage > horizon:
            return 0.0
        successes_and_failures = tuple((a - 1, b - 1) for a, b in counts)
        choice = bayes_optimal(horizon, every, stage=stage, seen=successes_and_failures)
        assert (choice.look is not None) == (every is not None and stage % every == 0)
        total_reward = 0.0
        for pull_reward, chance, counts_after_pull in outcomes(counts, choice.pull):
            if choice.look is None:
                total_reward += chance * (pull_reward + expected_reward(stage + 1, counts_after_pull))
                continue
            for _, look_chance, counts_after_look in outcomes(counts_after_pull, choice.look):
                total_reward += (
                    chance
                    * look_chance
                    * (pull_reward + expected_reward(stage + 1, counts_after_look))
                )
        assert total_reward == pytest.approx(choice.reward, rel=1e-12)
        return total_reward

    def outcomes(counts, arm):
        for reward in (0, 1):
            new_counts = [list(pair) for pair in counts]
            new_counts[arm][1 - reward] += 1
            yield (reward, counts[arm][1 - reward] / sum(counts[arm]), tuple(map(tuple, new_counts)))

    assert expected_reward(1, ((1, 1), (1, 1))) == pytest.approx(bayes_optimal(horizon, every).reward)


def test_exchanged_arms_give_exchanged_decisions():
    decision = bayes_optimal(20, 3, stage=5, seen=((2, 1), (1, 1)))
    mirrored_decision = bayes_optimal(20, 3, stage=5, seen=((1, 1), (2, 1)))
    assert decision.reward == pytest.approx(mirrored_decision.reward, rel=1e-13)
    assert decision.pull == 1 - mirrored_decision.pull


def test_the_mean_of_the_larger_of_two_rates_agrees_with_samples():
    assert _compute_mean_of_larger(np.array([[1, 1], [1, 1]])) == pytest.approx(2 / 3)
    rng = np.random.default_rng(0)
    samples = np.maximum(rng.beta(3, 5, 200_000), rng.beta(2, 2, 200_000))
    assert _compute_mean_of_larger(np.array([[3, 5], [2, 2]])) == pytest.approx(
        samples.mean(), abs=4e-3
    )


def make_constant_policy():
    """Return a policy that pulls each arm once and then always pulls arm 0.

    A pull of a fixed arm costs E(max(μ_1, μ_2) − μ_1) = 1/6 on average.
    """
    return kibitz.index_policy("constant", lambda params, stage, counts, i, mean: 0.0 * i)


def test_bayes_regret_of_a_constant_policy():
    """Compare with the exact Bayes regret T/6.

    The test allows four standard errors, so it would fail by chance with probability below 1e-4.
    """
    estimate = bayes_regret(make_constant_policy(), 50, runs=1500, seed=1)
    assert isinstance(estimate, Regret)
    assert abs(estimate.mean - 50 / 6) < 4 * estimate.sem
    assert estimate.sem < 0.4


@pytest.mark.parametrize("every", [None, 10])
def test_no_policy_beats_the_optimum(every):
    optimum = bayes_optimal(60, every).regret
    for policy in (kibitz.thompson("bernoulli"), kibitz.ucb_double()):
        estimate = bayes_regret(policy, 60, every, runs=400, seed=2)
        assert estimate.mean - 2 * estimate.sem > optimum
        assert estimate.mean < 6 * optimum
    assert bayes_regret(policy, 60, every, runs=20, seed=3) == bayes_regret(
        policy, 60, every, runs=20, seed=3
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bayes_optimal(0), "horizon must be a whole number of at least 1, got 0"),
        (lambda: bayes_optimal(10, 0), "every must be a whole number of at least 1, got 0"),
        (lambda: bayes_optimal(10, 2.5), "every must be a whole number, got 2.5"),
        (lambda: bayes_optimal(10, stage=11), "stage must be a whole number of at most 10, got 11"),
        (lambda: bayes_optimal(10, seen=(1, 2)), "seen must be successes and failures of two arms"),
        (lambda: bayes_optimal(10, seen=((1, -2), (0, 0))), "seen must be successes and failures"),
        (lambda: bayes_optimal(10**4), "horizon=10000 would take .* use a shorter horizon"),
        (lambda: bayes_regret("ucb", 10, runs=9, seed=1), "policy must be"),
        (lambda: bayes_regret(kibitz.ucb(), 10, runs=1, seed=1), "runs must be a whole number"),
    ],
)
def test_invalid_input_raises(call, message):
    with pytest.raises(ValueError, match=message):
        call()


NOTHING_SEEN = ((0, 0), (0, 0))


def test_optimum_is_computed_stage_by_stage():
    """Python gets control back after each stage, so Ctrl-C interrupts the computation."""
    shares = []
    solve_with_progress(30, None, 1, NOTHING_SEEN, lambda label, share: shares.append(share))
    assert len(shares) == 29
    assert shares == sorted(shares)

    def interrupt(label, share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve_with_progress(30, None, 1, NOTHING_SEEN, interrupt)


def test_a_long_stage_is_computed_in_parts(monkeypatch):
    """Ctrl-C has no effect during a compiled call, so each call computes a part of a long stage."""
    n_rows = []

    def count_rows(function, **options):
        def solve(*values):
            n_rows.append(values[5] - values[4])
            function(*values)

        return solve

    expected = bayes_optimal(40, 10)
    monkeypatch.setattr("kibitz.evaluation.bayes_optimal.cached_dispatcher", count_rows)
    assert bayes_optimal(40, 10) == expected
    assert max(n_rows) == 32
    assert len(n_rows) > 39
