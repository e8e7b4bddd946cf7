"""Tests that the engine plays changing problems like plain Python, with the means of each piece."""

import numpy as np
import pytest
import reference
from histories import make_policy, numpy_streams, play_runs
from scipy import stats

import kibitz as kb

pytestmark = pytest.mark.slow

STARTS = [1, 8, 9, 40]  # the second piece is a single stage, and the last piece has no end
ROWS = [[0.9, 0.5, 0.7, 0.2], [0.0, 1.5, 0.2, 0.1], [2.0, 0.0, 0.0, 3.0], [0.3, 0.9, 0.1, 0.8]]
CHANGING = kb.changing(list(zip(STARTS, map(kb.gaussian, ROWS), strict=True)))
REFERENCES = {"ucb": reference.UCB, "thompson": reference.Thompson, "kibitzer": reference.Kibitzer}
KERNELS = {"ucb": "generic"}  # all index policies share the generic kernel
# the options of the reference, and the feedback
FEEDBACKS = [
    ({}, kb.bandit()),
    ({"observer": "passive", "rate": 0.3}, kb.passive(0.3, "optimal")),
    (
        {"observer": "active", "rate": 0.4, "looks": 2, "paid": True},
        kb.active(0.4, looks=2, paid=True),
    ),
]


def means_at(stage):
    return ROWS[max(piece for piece, start in enumerate(STARTS) if start <= stage)]


@pytest.mark.parametrize("name", REFERENCES)
def test_runs_equal_the_reference(name):
    horizon, stages = 90, np.arange(1, 91)
    for options, feedback in FEEDBACKS:
        result = play_runs(
            make_policy(name), CHANGING, feedback, horizon=horizon, runs=3, seed=21, stages=stages,
            kernel=KERNELS.get(name, "specialised"),
        )  # fmt: skip
        for run in range(3):
            reward_rng, look_rng, policy_rng = numpy_streams(21, run)
            policy = REFERENCES[name](4)
            policy.rng = policy_rng
            regret, n_pulls, n_looks = reference.play_changing(
                policy, means_at, horizon, (reward_rng, look_rng), **options
            )
            assert result.n_pulls[run].tolist() == n_pulls, feedback
            assert result.n_looks[run].tolist() == n_looks, feedback
            np.testing.assert_allclose(result.regret[run], regret, rtol=1e-12, atol=1e-12)


STATIONARY = {
    "bernoulli": kb.bernoulli([0.9, 0.5, 0.7]),
    "empirical": kb.empirical([[0.0, 1.0, 0.5], [0.25], [0.5, 0.25]]),
    "scipy": kb.from_scipy([stats.beta(2, k) for k in (2, 3, 5)]),
}
SETTINGS = {
    "full": kb.full(),
    "graph": kb.graph([[1, 0.5, 0], [0, 1, 0.2], [0.1, 0, 1]], looks=kb.passive(0.2, "suboptimal")),
    "paid": kb.active(kb.every(3), paid=True),
}


@pytest.mark.parametrize("kind", STATIONARY)
def test_equal_pieces_change_no_number(kind):
    problem = STATIONARY[kind]
    pieces = kb.changing([(1, problem), (7, problem), (8, problem), (1000, problem)])
    for feedback in SETTINGS.values():
        expected, result = (
            play_runs(
                make_policy("ucb"), p, feedback, horizon=200, runs=4, seed=3, stages=[5, 7, 200],
                kernel="generic",
            )
            for p in (problem, pieces)
        )  # fmt: skip
        assert np.array_equal(result.n_pulls, expected.n_pulls)
        assert np.array_equal(result.n_looks, expected.n_looks)
        np.testing.assert_allclose(result.regret, expected.regret, rtol=1e-12)


@pytest.mark.parametrize("kind", STATIONARY)
def test_rewards_come_from_the_piece_of_their_stage(kind):
    problem = STATIONARY[kind]
    others = {
        "bernoulli": kb.bernoulli([0.0, 1.0, 0.0]),
        "empirical": kb.empirical([[0.0], [1.0], [0.0, 0.0]]),
        "scipy": kb.from_scipy([stats.uniform(k, 0.5) for k in (0, 0.5, 0)]),
    }
    changing = kb.changing([(1, problem), (101, others[kind])])
    feedback = kb.active(0.5, looks=2)
    data = kb.trace(changing, feedback, make_policy("ucb"), horizon=200, seed=5)
    before = kb.trace(problem, feedback, make_policy("ucb"), horizon=200, seed=5)
    for variable in ("pull", "reward", "look", "look_reward"):
        np.testing.assert_array_equal(data[variable][:100], before[variable][:100])
    for arm, reward in ((data["pull"], data["reward"]), (data["look"], data["look_reward"])):
        late_arms, late_rewards = arm.to_numpy()[100:], reward.to_numpy()[100:]
        for arm_number in range(3):
            late = late_rewards[late_arms == arm_number]
            low, high = (0.5, 1.0) if arm_number == 1 else (0.0, 0.5 if kind == "scipy" else 0.0)
            if kind != "scipy" and arm_number == 1:
                low = 1.0
            assert ((late >= low) & (late <= high)).all()
    result = play_runs(
        make_policy("ucb"), changing, feedback, horizon=200, seed=5, stages=np.arange(1, 201),
        kernel="generic",
    )  # fmt: skip
    gaps = [changing.at(stage).gaps[pull] for stage, pull in enumerate(data["pull"].to_numpy(), 1)]
    np.testing.assert_allclose(result.regret[0], np.cumsum(gaps), atol=1e-9)


def test_a_python_policy_plays_a_changing_problem():
    class Constant:
        def pull(self, stage, rng):
            return 1

        def update(self, arm, reward, is_look):
            pass

    data = kb.simulate(
        CHANGING, kb.bandit(), kb.python_policy(lambda n_arms: Constant(), label="constant"),
        horizon=50, runs=2, seed=1, stages=[7, 8, 39, 50], progress=False,
    )  # fmt: skip
    expected = [7 * 0.4, 7 * 0.4, 7 * 0.4 + 31 * 3.0, 7 * 0.4 + 31 * 3.0]
    np.testing.assert_allclose(data["regret"][0, 0], expected)


def test_leaps_have_the_distribution_of_single_stages():
    """Leaps end at the starts of pieces. With a random seed, the test fails with probability 4e-6."""
    rows = [[3.0, 0.0, 1.0], [0.0, 3.0, 1.0], [2.0, 0.0, 5.0]]
    problem = kb.changing(list(zip([1, 6001, 10_001], map(kb.gaussian, rows), strict=True)))
    stages = [5000, 8000, 20_000]
    arguments = {"horizon": 20_000, "runs": 400, "stages": stages, "kernel": "generic"}
    for feedback in (kb.bandit(), kb.passive(0.05, "optimal", paid=True)):
        step = play_runs(make_policy("ucb"), problem, feedback, seed=1, **arguments)
        leap = play_runs(make_policy("ucb"), problem, feedback, seed=2, leap=True, **arguments)
        assert (leap.error > 0).all()
        assert (leap.error < 1e-9).all()
        assert (leap.n_pulls.sum(axis=1) == 20_000).all()
        for k in (1, 2):
            pair = np.round(step.regret[:, k], 9), np.round(leap.regret[:, k], 9)
            assert stats.ks_2samp(*pair, method="asymp").pvalue > 1e-6


def test_leaps_play_long_pieces():
    rows = [[1.0, 0.0], [1.0, 3.0]]
    problem = kb.changing([(1, kb.gaussian(rows[0])), (10**8 + 1, kb.gaussian(rows[1]))])
    result = play_runs(
        make_policy("ucb"), problem, kb.bandit(), horizon=10**8 + 10, runs=2, seed=1, leap=True,
        stages=[10**8, 10**8 + 10], kernel="generic",
    )  # fmt: skip
    assert (result.n_pulls.sum(axis=1) == 10**8 + 10).all()
    np.testing.assert_allclose(np.diff(result.regret), 20.0)  # arm 0 leads for much longer


# Besson, "Multi-players bandit algorithms for Internet of Things networks", chapter 6: mean and
# standard deviation of the regret of kl-UCB after 5000 stages, with a change every 1000 stages.
PUBLISHED = {
    1: (270, 76, ([.9, .5, .3], [.9, .2, .3], [.1, .2, .3], [.1, .7, .3], [.1, .7, .5])),
    2: (162, 59, ([.9, .5, .4], [.7, .4, .5], [.5, .3, .6], [.3, .2, .7], [.1, .1, .8])),
}  # fmt: skip


@pytest.mark.parametrize("number", PUBLISHED)
def test_kl_ucb_has_its_published_regret(number):
    """The mean of 1000 runs is within 4.5 standard errors of the published mean.

    The number of published runs is unknown. The standard error assumes 1000 runs. Under this
    assumption, if both simulations play the same policy, each case fails with probability 7e-6 with a
    random seed.
    """
    mean, sd, rows = PUBLISHED[number]
    problem = kb.changing([(1 + 1000 * k, kb.bernoulli(row)) for k, row in enumerate(rows)])
    policy = make_policy("kl_ucb", rewards="bernoulli")
    result = play_runs(
        policy, problem, kb.bandit(), horizon=5000, runs=1000, seed=6, kernel="generic"
    )
    final_regret = result.regret[:, -1]
    error = np.hypot(sd, final_regret.std()) / np.sqrt(1000)
    assert abs(final_regret.mean() - mean) < 4.5 * error + 0.5
    assert final_regret.std() == pytest.approx(sd, rel=0.2)
