"""Tests of the comparison of policies on recorded A/B tests."""

import os
from pathlib import Path

import numpy as np
import pytest

import kibitz
from kibitz.evaluation.datasets import (
    MIN_CLICKS,
    click_entrants,
    draw_problems,
    overall_rate,
    play_tests,
    read_tests,
    score_policies,
)
from kibitz.model.click_rates import pooled_variance

HEADER = "test,arm,impressions,clicks\n"
ARCHIVE = Path(os.environ.get("KIBITZ_TESTS", Path(__file__).parents[3] / "shared/data/upworthy.csv"))


def write(folder, rows):
    path = folder / "tests.csv"
    path.write_text(HEADER + "".join(",".join(map(str, row)) + "\n" for row in rows))
    return path


@pytest.fixture
def small_file(tmp_path):
    """Return a file with four tests. Test 3 has too few clicks, and test 4 has a single arm."""
    rows = [(1, 0, 900, 40), (1, 1, 950, 60), (2, "a", 800, 30), (2, "b", 800, 50), (2, "c", 700, 20)]
    return write(tmp_path, [*rows, (3, 0, 100, 3), (3, 1, 100, 5), (4, 0, 100, 50)])


def test_tests_with_a_single_arm_are_left_out(small_file):
    tests = read_tests(small_file)
    assert [test.name for test in tests] == ["1", "2", "3"]
    assert tests[1].impressions.tolist() == [800, 800, 700]
    assert tests[1].clicks.tolist() == [30, 50, 20]
    assert overall_rate(tests) == pytest.approx(208 / 4_350)


def test_problems_are_drawn_near_the_observed_rates(small_file):
    problems = draw_problems(read_tests(small_file))
    assert sorted(problems) == ["1", "2"]  # test 3 has fewer than MIN_CLICKS clicks
    assert MIN_CLICKS > 8
    assert problems["2"].n_arms == 3
    assert np.abs(problems["1"].means - [0.044, 0.063]).max() < 0.04
    repeated_problems = draw_problems(read_tests(small_file))
    assert all(
        np.array_equal(repeated_problems[name].means, problems[name].means) for name in problems
    )


def test_selection_is_a_prefix(small_file):
    """A smaller selection of tests is the beginning of a larger selection."""
    assert (
        list(draw_problems(read_tests(small_file), 1))
        == list(draw_problems(read_tests(small_file)))[:1]
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(1, 0, 10, 20)], "line 2 of tests.csv: clicks must be at most impressions"),
        ([(1, 0, 10, 2), (1, 0, 10, 3)], "line 3 of tests.csv: arm '0' of test '1' occurs twice"),
        ([(1, 0, "ten", 2)], "line 2 of tests.csv: impressions must be a whole number, got 'ten'"),
        ([(1, 0, 0, 0)], "impressions at least 1"),
        ([(1, 0, 10, -1)], "clicks must be a whole number, got '-1'"),
    ],
)
def test_invalid_rows_raise_with_their_line(tmp_path, rows, message):
    with pytest.raises(ValueError, match=message):
        read_tests(write(tmp_path, rows))


def test_missing_column_and_small_tests_raise(tmp_path):
    path = tmp_path / "tests.csv"
    path.write_text("test,arm,views,clicks\n")
    with pytest.raises(ValueError, match="no column 'impressions'"):
        read_tests(path)
    with pytest.raises(ValueError, match="no test has 20 clicks"):
        draw_problems(read_tests(write(tmp_path, [(1, 0, 10, 1), (1, 1, 10, 1)])))


@pytest.mark.slow
def test_scores_agree_with_a_recomputation_from_single_simulations(small_file):
    """Compare shares and ratios with the regrets that `simulate` returns.

    The intervals must contain the shares.
    """
    problems = draw_problems(read_tests(small_file))
    policies = {
        "kibitzer:rewards=bernoulli": kibitz.kibitzer(rewards="bernoulli"),
        "ftl": kibitz.ftl(),
    }
    data = play_tests(problems, policies, horizon=300, runs=3, seed=4)
    scores = score_policies(data, problems)
    assert scores["setting"]["horizon"] == 300
    even_split_loss = sum(300 * problem.gaps.mean() for problem in problems.values())
    for rate in (0.0, 0.01, 0.1):
        regret = dict.fromkeys(policies, 0.0)
        for name, problem in problems.items():
            seed = np.random.SeedSequence([4, *name.encode()]).generate_state(1)[0]
            data_of_test = kibitz.simulate(
                problem, kibitz.active(rate), policies, horizon=300, runs=3, seed=int(seed)
            )
            for label in policies:
                regret[label] += float(data_of_test.final_regret.sel(policy=label).mean())
        for label in policies:
            score = scores["policies"][label][f"{rate:g}"]
            assert score["share"] == pytest.approx(regret[label] / even_split_loss)
            ratio = regret[label] / regret["kibitzer:rewards=bernoulli"]
            assert score["ratio"] == pytest.approx(ratio)
            assert score["share_low"] <= score["share"] <= score["share_high"]


def test_entrants_contain_every_policy_and_the_scaled_policies():
    labels = list(click_entrants(0.013))
    assert "kibitzer:rewards=bernoulli" in labels
    assert "kibitzer:scale=0.11" in labels
    assert {"ftl", "etc_ocucb", "ucb_double", "thompson", "kibitzer"} <= set(labels)


@pytest.mark.skipif(not ARCHIVE.exists(), reason="the Upworthy archive is not here (KIBITZ_TESTS)")
def test_archive_has_the_documented_size_and_spread():
    tests = read_tests(ARCHIVE)
    assert (len(tests), sum(test.clicks.size for test in tests)) == (1_961, 9_399)
    assert overall_rate(tests) == pytest.approx(0.0129, abs=5e-5)
    spread = pooled_variance((test.impressions, test.clicks) for test in tests) ** 0.5
    assert spread == pytest.approx(0.223, abs=5e-4)
