"""Tests of `kibitz.compare`: against SciPy, against brute force and by simulation."""

import math

import numpy as np
import pytest
import xarray
from scipy import stats

import kibitz
from kibitz.evaluation import compare as module
from kibitz.evaluation.compare import bootstrap_t, holm, sign_test, t_test
from kibitz.simulation.results.summary import mean_and_error


def make_data(regret, dims=("policy", "run"), **coordinates):
    labels = [f"p{n}" for n in range(len(regret))]
    return xarray.Dataset(
        {"final_regret": (dims, np.asarray(regret, float))}, {"policy": labels, **coordinates}
    )


@pytest.fixture(scope="module")
def regret():
    rng = np.random.default_rng(1)
    noise = rng.gamma(2.0, 5.0, size=40)
    return noise + rng.normal([[0.0], [1.0], [4.0]], 2.0, (3, 40)) + 20


def test_differences_and_tests_of_one_problem_agree_with_scipy(regret):
    table = kibitz.compare(make_data(regret), baseline="p1")
    assert table.attrs == {"baseline": "p1", "unit": "run", "n_units": 40, "level": 0.95}
    for n in (0, 2):
        row, difference = table.sel(policy=f"p{n}"), regret[n] - regret[1]
        assert float(row["difference"]) == pytest.approx(difference.mean())
        assert float(row["error"]) == pytest.approx(stats.sem(difference))
        assert float(row["run_error"]) == pytest.approx(stats.sem(difference))
        assert float(row["regret_error"]) == pytest.approx(stats.sem(regret[n]))
        assert float(row["p_mean"]) == pytest.approx(stats.ttest_rel(regret[n], regret[1]).pvalue)
        n_worse = int((difference > 0).sum())
        assert (int(row["n_worse"]), int(row["n_better"])) == (n_worse, 40 - n_worse)
        assert float(row["p_sign"]) == pytest.approx(stats.binomtest(n_worse, 40).pvalue)
        assert float(row["low"]) < float(row["difference"]) < float(row["high"])
    baseline = table.sel(policy="p1")
    assert float(baseline["difference"]) == float(baseline["low"]) == float(baseline["high"]) == 0
    assert math.isnan(baseline["p_mean_holm"])
    assert table.to_dataframe().shape == (3, 15)


def test_the_baseline_is_the_first_policy_by_default(regret):
    assert kibitz.compare(make_data(regret)).attrs["baseline"] == "p0"


def test_the_ratio_of_means_has_the_error_of_the_delta_method(regret):
    table = kibitz.compare(make_data(regret))
    ratio = regret[2].mean() / regret[0].mean()
    assert float(table["ratio"][2]) == pytest.approx(ratio)
    influence = (regret[2] - ratio * regret[0]) / regret[0].mean()
    assert float(table["ratio_error"][2]) == pytest.approx(stats.sem(influence))


def test_problems_are_the_units_of_random_problems():
    rng = np.random.default_rng(2)
    regret = rng.gamma(3.0, 4.0, (2, 12, 5, 3))  # policy, draw, run, rate
    regret[1] += 2
    data = make_data(regret, ("policy", "draw", "run", "rate"), draw=range(12), rate=[0.1, 0.2, 0.3])
    table = kibitz.compare(data)
    per_problem = (regret[1] - regret[0]).mean(axis=(1, 2))
    row = table.sel(policy="p1")
    assert (table.attrs["unit"], table.attrs["n_units"]) == ("draw", 12)
    assert float(row["error"]) == pytest.approx(stats.sem(per_problem))
    assert float(row["p_mean"]) == pytest.approx(stats.ttest_1samp(per_problem, 0).pvalue)
    assert int(row["n_worse"]) == (per_problem > 0).sum()
    per_run = (regret[1] - regret[0]).mean(axis=(0, 2))
    assert float(row["run_error"]) == pytest.approx(stats.sem(per_run))
    log_ratios = np.log(regret[1].mean(axis=1) / regret[0].mean(axis=1)).mean(axis=1)
    assert float(row["ratio"]) == pytest.approx(np.exp(log_ratios.mean()))
    by_run = kibitz.compare(data, over="run").sel(policy="p1")
    assert float(by_run["error"]) == pytest.approx(stats.sem(per_run))
    assert float(by_run["difference"]) == pytest.approx(float(row["difference"]))
    by_rate = kibitz.compare(data, over="rate")
    assert (by_rate.attrs["unit"], by_rate.attrs["n_units"]) == ("rate", 3)


def test_settings_of_a_problem_are_averaged_and_small_means_raised():
    regret = np.array([[[1.0, 3.0], [2.0, 2.0], [0.0, 0.0]], [[2.0, 4.0], [5.0, 7.0], [8.0, 4.0]]])
    data = make_data(regret, ("policy", "setting", "run"))
    data = data.assign_coords(
        problem=("setting", ["a", "a", "b"]), smallest_gap=("setting", [0.5, 0.5, 0.5])
    )
    row = kibitz.compare(data).sel(policy="p1")
    assert float(row["difference"]) == pytest.approx(((1 + 4) / 2 + 6) / 2)
    expected_log = ((math.log(3 / 2) + math.log(6 / 2)) / 2 + math.log(6 / 0.5)) / 2
    assert float(row["ratio"]) == pytest.approx(math.exp(expected_log))
    assert module.ratios_to_best(data).tolist() == [[1, 1, 1], [1.5, 3, 12]]


def test_holm_agrees_with_its_definition():
    rng = np.random.default_rng(3)
    for p_values in rng.random((50, 6)) ** 3:
        p_values[2] = math.nan
        adjusted_p_values = holm(p_values)
        assert math.isnan(adjusted_p_values[2])
        compared_rows = [n for n in range(6) if n != 2]
        for alpha in np.linspace(0.001, 0.999, 97):
            rejected_rows = set()  # step down until the first p-value above its limit
            for step, n in enumerate(sorted(compared_rows, key=lambda n: p_values[n])):
                if p_values[n] > alpha / (len(compared_rows) - step):
                    break
                rejected_rows.add(n)
            assert rejected_rows == {n for n in compared_rows if adjusted_p_values[n] <= alpha}


def test_the_bootstrap_agrees_with_a_loop():
    rng = np.random.default_rng(4)
    sample = rng.exponential(size=(1, 9))
    low, high = bootstrap_t(sample, 0.9, 400)
    rng, quotients = np.random.default_rng(module.RESAMPLE_SEED), []
    for _ in range(400):
        new_sample = sample[0][rng.integers(9, size=9)]
        quotients.append((new_sample.mean() - sample.mean()) / stats.sem(new_sample))
    quotients.sort()
    error = stats.sem(sample[0])
    assert low[0] == pytest.approx(sample.mean() - quotients[400 - 1 - 20] * error)
    assert high[0] == pytest.approx(sample.mean() - quotients[20] * error)


def test_intervals_contain_a_skewed_mean_with_about_their_probability():
    """The coverage of 2000 intervals at level 95 % has a standard error of 0.5 %.

    The probability of a false alarm is below 1e-6.
    """
    rng = np.random.default_rng(5)
    samples = rng.exponential(size=(2000, 20)) - 1
    low, high = bootstrap_t(samples, 0.95, 999)
    coverage = ((low <= 0) & (high >= 0)).mean()
    assert 0.925 < coverage < 0.975
    normal_coverage = (np.abs(samples.mean(axis=1)) < 1.96 * stats.sem(samples, axis=1)).mean()
    assert normal_coverage < coverage  # the normal interval is too short for skewed samples


def test_equal_policies_are_rarely_called_different():
    """Under the null hypothesis, any of 5 comparisons is rejected with probability at most 5 %.

    The share of rejections in 400 trials has a standard error of 1.1 %. The probability of a false
    alarm is below 1e-4.
    """
    rng = np.random.default_rng(6)
    n_rejected = {"p_mean": 0, "p_mean_holm": 0, "p_sign_holm": 0}
    for _ in range(400):
        noise = rng.normal(size=60) + 10
        data = make_data(noise + rng.normal(size=(6, 60)))
        table = kibitz.compare(data, resamples=100)
        for name in n_rejected:
            n_rejected[name] += bool((table[name] <= 0.05).any())
    assert n_rejected["p_mean_holm"] <= 38
    assert n_rejected["p_sign_holm"] <= 38
    assert n_rejected["p_mean"] > 50  # without the correction, errors are frequent


def test_constant_differences_and_ties():
    table = kibitz.compare(make_data([[1, 2, 3], [1, 2, 3], [2, 3, 4]]))
    assert table["p_mean"].to_numpy()[1:] == pytest.approx([1.0, 0.0])
    assert table["p_sign"].to_numpy()[1:] == pytest.approx([1.0, 0.25])
    assert table["low"].to_numpy() == pytest.approx([0, 0, 1])
    assert table["high"].to_numpy() == pytest.approx([0, 0, 1])
    assert t_test(np.array([[1.0, -1.0]])) == pytest.approx(1.0)
    assert sign_test(np.array([0]), np.array([0])) == pytest.approx(1.0)


def test_incomplete_runs_are_left_out():
    table = kibitz.compare(make_data([[1, 2, 5, 7], [2, 4, np.nan, 9]]))
    assert (table.attrs["n_units"], float(table["difference"][1])) == (3, pytest.approx(5 / 3))
    assert float(table["regret"][0]) == pytest.approx(10 / 3)


@pytest.mark.parametrize(
    ("data", "arguments", "message"),
    [
        (None, {}, "data must be a result of simulate, sweep or league"),
        (xarray.Dataset({"x": 1}), {}, "got x"),
        (make_data([[1, 2], [3, 4]]), {"baseline": "ucb"}, "baseline must be 'p0' or 'p1'"),
        (make_data([[1, 2], [3, 4]]), {"baseline": 1}, "baseline must be 'p0' or 'p1', got 1"),
        (make_data([[1, 2], [3, 4]]), {"baseline": 0}, "baseline must be 'p0' or 'p1', got 0"),
        (make_data([[1, 2], [3, 4]]), {"over": "rate"}, "over must be 'run', got 'rate'"),
        (make_data([[1, 2], [3, 4]]), {"level": 95}, "level must be"),
        (make_data([[1], [3]]), {}, "simulate at least 2 runs"),
        (make_data([[1, 2], [3, 4]], ("policy", "statistic")), {}, "simulate with keep='runs'"),
    ],
)
def test_bad_arguments_raise(data, arguments, message):
    with pytest.raises(ValueError, match=message):
        kibitz.compare(data, **arguments)


def test_mean_and_error_skip_missing_runs():
    values = xarray.DataArray([[1.0, 2.0, 6.0], [3.0, np.nan, 5.0], [4.0, np.nan, np.nan]])
    values = values.rename(dim_0="policy", dim_1="run")
    mean, error = mean_and_error(values)
    assert mean.to_numpy() == pytest.approx([3, 4, 4])
    assert error.to_numpy()[:2] == pytest.approx([stats.sem([1, 2, 6]), stats.sem([3, 5])])
    assert math.isnan(error[2])


def test_a_league_can_be_compared():
    policies = [kibitz.ftl(), kibitz.ucb_double()]
    league = kibitz.league(policies, problems=3, horizon=50, runs=4, seed=1)
    assert league["final_regret"].dims == ("policy", "setting", "run")
    assert league.sizes == {"policy": 2, "setting": 15, "run": 4}
    assert (league["ratio"].diff("policy") >= 0).all()  # the best policy comes first
    table = kibitz.compare(league, baseline="ftl")
    assert (table.attrs["unit"], table.attrs["n_units"]) == ("problem", 3)
    by_problem = league["final_regret"].mean("run").groupby("problem").mean()
    difference = by_problem.sel(policy="ucb_double") - by_problem.sel(policy="ftl")
    row = table.sel(policy="ucb_double")
    assert float(row["difference"]) == pytest.approx(float(difference.mean()))
    assert float(row["error"]) == pytest.approx(stats.sem(difference))
