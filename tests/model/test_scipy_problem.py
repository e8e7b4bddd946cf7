"""Tests that problems with SciPy distributions draw from them, up to the stated error."""

import json
import math

import numpy as np
import pytest
from histories import numpy_streams, play_runs
from scipy import stats

import kibitz as kb
from kibitz.engine.environment import draw, make_arms
from kibitz.engine.rng import new_stream
from kibitz.live.agent.rehearse import draw as draw_live
from kibitz.model.scipy_problem import MAX_ERROR, MIN_TAIL
from kibitz.simulation.jobs import Job
from kibitz.simulation.payload import check_answer, pack, play_payload
from kibitz.simulation.results.dataset import describe

CONTINUOUS = [
    stats.norm(1, 2), stats.expon(), stats.beta(2, 5), stats.beta(0.3, 0.3), stats.t(3),
    stats.uniform(-1, 3), stats.gamma(0.2), stats.lognorm(0.5), stats.truncnorm(-1, 2),
    stats.laplace(scale=0.01), stats.triang(0.2), stats.arcsine(),
]  # fmt: skip
DISCRETE = [
    stats.poisson(3), stats.binom(10, 0.3), stats.geom(0.2), stats.bernoulli(0.3, loc=2),
    stats.randint(-3, 4), stats.poisson(1e-3), stats.nbinom(5, 0.01), stats.skellam(2, 3),
]  # fmt: skip
UNBOUNDED = kb.from_scipy([stats.poisson(3), stats.expon(), stats.norm(1, 2)], scale=2)


def make_problem(distribution):
    return kb.from_scipy([distribution, distribution], scale=1)


@pytest.mark.parametrize("distribution", CONTINUOUS, ids=lambda d: d.dist.name)
def test_the_distribution_function_is_within_the_stated_error(distribution):
    """Compare distribution functions at points in all cells of the table and in the far tails."""
    problem = make_problem(distribution)
    u = np.concatenate(
        [np.arange(0.5, 2**16) / 2**16, list_tail_probabilities(), 1 - list_tail_probabilities()]
    )
    quantiles = np.array([problem.quantile(0, level) for level in u])
    errors = np.abs(distribution.cdf(quantiles) - u)
    assert errors.max() <= MAX_ERROR
    if distribution.dist.name in {"norm", "expon", "uniform", "laplace"}:  # smooth densities
        assert errors.max() <= 5e-7


def list_tail_probabilities():
    """Return small probabilities down to the smallest probability in a table."""
    return np.geomspace(2 * MIN_TAIL, 1e-3, 200)


@pytest.mark.parametrize("distribution", [stats.norm(), stats.expon(), stats.t(5)])
def test_tails_have_the_right_probability(distribution):
    """The relative error of small tail probabilities is below 0.001."""
    problem = make_problem(distribution)
    quantiles = np.array([problem.quantile(0, 1 - tail) for tail in list_tail_probabilities()])
    np.testing.assert_allclose(distribution.sf(quantiles), list_tail_probabilities(), rtol=1e-3)


@pytest.mark.parametrize("distribution", DISCRETE, ids=lambda d: d.dist.name)
def test_a_discrete_distribution_is_exact(distribution):
    problem = make_problem(distribution)
    levels, values = problem.levels[0], problem.values[0]
    widths, jumps = np.diff(levels), np.diff(values)
    assert np.all((widths > 0) != (jumps > 0))  # each cell is either a constant piece or a jump
    probabilities = widths[widths > 0]
    np.testing.assert_allclose(
        probabilities, distribution.pmf(values[:-1][widths > 0]), rtol=1e-6, atol=1e-12
    )
    assert probabilities.sum() == pytest.approx(1, abs=1e-14)


def test_a_list_of_values_may_have_fractions_and_an_offset():
    values, probabilities = [0.7, -2.5, 100], [0.2, 0.5, 0.3]
    distribution = stats.rv_discrete(values=(values, probabilities))(loc=1)
    problem = make_problem(distribution)
    quantiles = [problem.quantile(0, u) for u in (0, 0.499, 0.501, 0.699, 0.701, 0.999)]
    np.testing.assert_allclose(quantiles, [-1.5, -1.5, 1.7, 1.7, 101, 101])
    assert problem.means[0] == pytest.approx(np.dot(values, probabilities) + 1)


@pytest.mark.parametrize("distribution", [stats.gamma(1e-3), stats.beta(0.01, 0.01)])
def test_quantiles_beyond_floating_point_numbers_are_rounded(distribution):
    """Check probabilities of values from 1e-300 on. Nearly half of the rewards are rounded to 0."""
    problem = make_problem(distribution)
    levels, values = problem.levels[0], problem.values[0]
    points = np.geomspace(1e-300, 0.5, 1000)
    expected = np.interp(points, values[values > 0], levels[values > 0])
    assert np.abs(distribution.cdf(points) - expected).max() <= MAX_ERROR


def test_a_wrong_quantile_function_is_rejected():
    class Wrong(stats.rv_continuous):
        def _cdf(self, x):
            return x

        def _ppf(self, q):  # the mean is right
            return q + 1e-3 * np.sin(2 * np.pi * q)

    with pytest.raises(
        ValueError, match=r"its ppf\(.*but its cdf there is .*; use another distribution"
    ):
        make_problem(Wrong(a=0, b=1, name="wrong")())


def test_the_engine_draws_quantiles():
    arms, stream = make_arms(UNBOUNDED, 2.0), new_stream(3)
    rng = np.random.Generator(np.random.SFC64(3))
    for k in range(600):
        u = rng.random()
        assert draw(arms, k % 3, stream) * 2 == pytest.approx(UNBOUNDED.quantile(k % 3, u), rel=1e-12)


@pytest.mark.slow
def test_runs_draw_from_the_distribution():
    """Rewards of a compiled run equal the quantiles of the run's uniform numbers."""
    data = kb.trace(UNBOUNDED, kb.bandit(), kb.ucb(), horizon=400, seed=5, run=1)
    u = numpy_streams(5, 1)[0].random(400)
    expected = [
        UNBOUNDED.quantile(arm, level) for arm, level in zip(data["pull"].to_numpy(), u, strict=True)
    ]
    np.testing.assert_allclose(data["reward"], expected, rtol=1e-12)
    outcome = play_runs(
        kb.ucb(), UNBOUNDED, kb.bandit(), horizon=400, seed=5, first=1, stages=range(1, 401)
    )
    np.testing.assert_array_equal(outcome.n_pulls[0], np.bincount(data["pull"], minlength=3))
    np.testing.assert_allclose(outcome.regret[0], np.cumsum(UNBOUNDED.gaps[data["pull"]]))


def test_rehearsals_draw_the_same_rewards():
    rng, other_rng = np.random.default_rng(1), np.random.default_rng(1)
    rewards = [draw_live(UNBOUNDED, 0, rng) for _ in range(200)]
    assert rewards == [UNBOUNDED.quantile(0, other_rng.random()) for _ in range(200)]
    assert set(rewards) <= set(range(20))


def test_means_and_standard_deviations_are_those_of_scipy():
    np.testing.assert_array_equal(UNBOUNDED.means, [3, 1, 1])
    np.testing.assert_allclose(UNBOUNDED.sds, [math.sqrt(3), 1, 2])
    assert UNBOUNDED.support == (-math.inf, math.inf)


def test_the_scale_is_derived_if_possible():
    assert kb.from_scipy([stats.norm(0, 2), stats.norm(1, 3)]).scale == 3
    assert kb.from_scipy([stats.uniform(0, 4), stats.binom(3, 0.5)]).scale == 2
    assert kb.from_scipy([stats.uniform(0, 4), stats.norm(0, 3)], scale=1).scale == 1
    message = r"scale is required: the rewards of arm 1 \(poisson\) are unbounded.*deviation 1.73"
    with pytest.raises(ValueError, match=message):
        kb.from_scipy([stats.norm(), stats.poisson(3)])
    assert kb.from_scipy([stats.norm(), stats.poisson(0)]).scale == 1  # poisson(0) is constant


def test_policies_for_rewards_in_the_unit_interval_accept_them():
    problem = kb.from_scipy([stats.bernoulli(0.3), stats.bernoulli(0.5)])
    assert problem.is_binary
    assert not kb.from_scipy([stats.beta(1, 2), stats.beta(2, 1)]).is_binary
    policy = kb.thompson(rewards="bernoulli")
    kb.trace(problem, kb.bandit(), policy, horizon=5, seed=1)
    with pytest.raises(ValueError, match=r"is for rewards in \[0, 1\].*scipy problem"):
        kb.trace(UNBOUNDED, kb.bandit(), policy, horizon=5, seed=1)


@pytest.mark.slow
def test_results_are_saved_resumed_swept_and_played_by_workers(tmp_path):
    options = {"horizon": 100, "seed": 1, "file": tmp_path / "result.nc"}
    data = kb.simulate(UNBOUNDED, kb.active(0.2), kb.ucb(), runs=2, **options)
    fingerprint = json.loads(data.attrs["fingerprint"])["problem"]
    assert fingerprint["distributions"][0] == {"name": "poisson", "args": [3], "kwds": {}}
    distributions = "poisson(3), expon(), norm(1, 2)"
    assert data.attrs["problem"] == f"scipy (distributions {distributions}; scale 2)"
    spec = kb.from_scipy([stats.gamma(2, scale=0.5), stats.poisson(2)], scale=1).spec
    assert describe(spec) == "scipy (distributions gamma(2, scale=0.5), poisson(2); scale 1)"
    more_data = kb.simulate(UNBOUNDED, kb.active(0.2), kb.ucb(), runs=4, **options)
    np.testing.assert_array_equal(data["regret"], more_data["regret"][:, :2])
    other_problem = kb.from_scipy([stats.poisson(4), stats.expon(), stats.norm(1, 2)], scale=2)
    with pytest.raises(ValueError, match=r"cannot be resumed: it has problem.distributions"):
        kb.simulate(other_problem, kb.active(0.2), kb.ucb(), runs=2, **options)

    def make(mu):
        return kb.from_scipy([stats.poisson(mu), stats.poisson(2)], scale=2)

    swept = kb.sweep(make, kb.bandit(), kb.ucb(), mu=[2, 3], horizon=50, runs=2, seed=1)
    np.testing.assert_array_equal(swept["final_regret"].sel(mu=2), 0)
    stages = np.array([100])
    job = Job(None, kb.ucb(), UNBOUNDED, kb.active(0.2), 100, stages, 1, 0, 4)
    payload = pack([job])
    (outcome,) = check_answer(payload, play_payload(payload, 1))
    np.testing.assert_array_equal(outcome.n_pulls, more_data["n_pulls"][0])


def test_a_distribution_of_the_user_is_identified_by_its_table():
    def make(power):
        class Ramp(stats.rv_continuous):
            def _cdf(self, x):
                return x**power

            def _ppf(self, q):
                return q ** (1 / power)

        distributions = [Ramp(a=0, b=1, name="ramp")(), stats.uniform()]
        return kb.from_scipy(distributions).spec["distributions"][0]

    assert make(2) == make(2)
    assert make(2)["name"] == make(3)["name"] == "ramp"
    assert make(2) != make(3)


@pytest.mark.parametrize(
    ("distributions", "message"),
    [
        ([stats.norm()], "distributions must be a list of at least 2 frozen distributions"),
        (stats.norm(), "distributions must be a list of at least 2 frozen distributions"),
        ([stats.norm(), stats.norm], r"distributions\[1\] must be a frozen distribution such as"),
        ([stats.norm(), 3], r"distributions\[1\] must be a frozen distribution such as"),
        ([stats.norm(), stats.cauchy()], r"distributions\[1\] must have a finite mean"),
        ([stats.norm(), stats.pareto(1.5)], r"distributions\[1\] must have a finite mean"),
        ([stats.norm(), stats.poisson(1e12)], r"distributions\[1\] must have at most 65536 values"),
        ([stats.norm(), stats.norm(0, -1)], r"distributions\[1\]"),
        ([stats.norm(), stats.norm([0, 1])], r"distributions\[1\] must be one distribution"),
    ],
)
def test_unsuitable_distributions_are_rejected(distributions, message):
    with pytest.raises(ValueError, match=message):
        kb.from_scipy(distributions, scale=1)


def test_a_wrong_scale_is_rejected():
    with pytest.raises(ValueError, match="scale must be positive and finite, got 0"):
        kb.from_scipy([stats.norm(), stats.norm()], scale=0)
