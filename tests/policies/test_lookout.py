"""The lookout policy agrees with the reference and reacts to changes."""

import numpy as np
import pytest
import reference
from histories import find_disagreement, make_policy, replay

import kibitz
from kibitz.policies import lookout

KINDS = ["gaussian", "bernoulli"]


@pytest.mark.parametrize("kind", KINDS)
def test_lookout_agrees_with_the_reference(kind):
    """In half of the histories, delta is close to 1, which causes some false alarms."""
    for seed in range(12):
        delta, explore = [0.1, 0.999999][seed % 2], [0.0, 0.2][seed // 2 % 2]
        scale = [1.0, 0.25][seed // 4 % 2] if kind == "gaussian" else 1.0
        n_arms = 2 + seed % 4
        policy = make_policy("lookout", rewards=kind)
        disagreement = find_disagreement(
            policy,
            policy.params._replace(delta=delta, explore=explore),
            reference.Lookout(n_arms, delta, explore, kind, scale),
            seed,
            n_arms=n_arms,
            kind=kind,
            follows_policy=True,
            scale=scale,
            n_stages=80,
        )
        assert disagreement is None, f"seed {seed}: {disagreement}"


@pytest.mark.parametrize("kind", KINDS)
def test_lookout_agrees_with_the_reference_when_means_change(kind):
    n_alarms = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        policy = make_policy("lookout", rewards=kind)
        params, oracle = policy.params, reference.Lookout(3, rewards=kind)
        state = policy.init(params, 3)
        for stage in range(1, 200):
            means = [0.95, 0.5, 0.05] if stage % 120 < 60 else [0.05, 0.6, 0.95]
            if kind == "gaussian":
                means = [3 * mean for mean in means]

            def draw(arm, means=means, rng=rng):
                if kind == "gaussian":
                    return means[arm] + rng.standard_normal()
                return float(rng.random() < means[arm])

            arm, look = (choose(params, state, stage, rng) for choose in (policy.pull, policy.look))
            assert (arm, look) == (oracle.pull(stage), oracle.look(stage)), (seed, stage)
            for observed_arm, is_look in ((arm, False), (look, True))[: 1 + (stage % 3 > 0)]:
                reward = draw(observed_arm)
                state = policy.update(params, state, stage, observed_arm, 1, reward, is_look)
                oracle.update(stage, observed_arm, reward, is_look)
            assert state.alarms[0] == pytest.approx(oracle.k, rel=1e-12)
        n_alarms += oracle.k > 0
    assert n_alarms == 3


def test_an_alarm_forgets_what_the_arm_showed_before_the_change():
    policy = lookout()
    before, after = [(0, 5.0), (1, 4.0)] * 20, [(0, 0.0)] * 5
    state, stage = replay(policy, policy.params, 2, *before, *after)
    assert state.alarms[0] > 0
    assert state.statistics.sums[0] == pytest.approx(0.0, abs=1e-9)
    assert policy.pull(policy.params, state, stage, None) == 1


def test_delta_close_to_zero_gives_no_alarm():
    policy = lookout(delta=1e-300)
    state, _ = replay(policy, policy.params, 2, *[(0, 5.0), (1, 4.0)] * 20, *[(0, 0.0)] * 9)
    assert state.alarms[0] == 0


def play(means_at, horizon, n_looks, sd=1.0, seed=1):
    """Play lookout in plain Python; return its regret and k after each stage.

    There are `n_looks` looks at each stage. If `n_looks` is None, each stage shows all arms.
    """
    policy, rng, regret, ks = lookout(), np.random.default_rng(seed), 0.0, []
    state = policy.init(policy.params, len(means_at(1)))
    for stage in range(1, horizon + 1):
        means = means_at(stage)
        arm = policy.pull(policy.params, state, stage, rng)
        regret += max(means) - means[arm]
        if n_looks is None:
            looks = [other for other in range(len(means)) if other != arm]
        else:
            looks = [policy.look(policy.params, state, stage, rng) for _ in range(n_looks)]
        for shown, is_look in ((arm, False), *((look, True) for look in looks)):
            reward = means[shown] + sd * rng.standard_normal()
            state = policy.update(policy.params, state, stage, shown, 1, reward, is_look)
        ks.append(float(state.alarms[0]))
    return regret, ks


@pytest.mark.parametrize("n_looks", [1, 3, None])
def test_a_rise_is_found_with_one_look_several_looks_and_full_information(n_looks):
    """Arm 2 rises by 2. A policy that misses the rise has a regret of 1000 after the rise."""
    regret, ks = play(lambda t: [1, 0.5, 0] if t <= 500 else [1, 0.5, 2], 1500, n_looks)
    assert ks[499] < max(ks)
    assert regret < 100


def test_equal_arms_give_no_regret_and_no_alarm():
    assert play(lambda t: [1, 1, 1], 300, 1) == (0, [0] * 300)


def test_rewards_without_noise_change_at_a_jump_of_the_scale():
    _, ks = play(lambda t: [9, 0] if t <= 100 else [0, 9], 110, 1, sd=0.0)
    assert max(ks[:100]) == 0 < ks[100]


def test_two_changes_within_the_delay_give_one_alarm():
    _, ks = play(lambda t: [1, 0] if t <= 1000 else [-1, 0] if t <= 1003 else [3, 0], 1100, 1)
    assert (np.diff(ks) > 0).sum() == 1


def test_the_weight_of_alarms_is_large_in_a_drift_and_decays_after_a_bad_day():
    """Check that the number k of alarms stays large during a drift, and decays after two changes."""
    _, ks = play(lambda t: [np.sin(t / 100), 0], 3000, 1, sd=0.3)
    assert ks[-1] > 5
    _, ks = play(lambda t: [-2, 0] if 500 < t <= 550 else [1, 0], 4000, 1)
    assert 1 < max(ks) < 3
    assert ks[-1] < max(ks) / 5


@pytest.mark.parametrize("patience", [None, 60.0])
def test_an_agent_with_lookout_needs_a_patience(patience, tmp_path):
    arguments = {"arms": ["x", "y"], "rewards": "bernoulli", "patience": patience}
    policy = lookout(rewards="bernoulli")
    if patience is None:
        with pytest.raises(ValueError, match="patience is required for lookout: the policy learns"):
            kibitz.agent(tmp_path / "a.db", "a", policy=policy, **arguments)
        return
    kibitz.agent(tmp_path / "a.db", "a", **arguments).close()
    with pytest.raises(ValueError, match=r"created with policy=.*kibitzer.* cannot be opened"):
        kibitz.agent(tmp_path / "a.db", "a", policy=policy)


@pytest.mark.parametrize("policy", [kibitz.sw_ucb(100), kibitz.d_ucb(0.9), kibitz.glr_ucb()])
def test_an_agent_rejects_policies_for_simulations(policy, tmp_path):
    message = f"^{policy.name} is for simulations only; use a policy such as kibitzer"
    with pytest.raises(ValueError, match=message):
        kibitz.agent(tmp_path / "a.db", "a", arms=["x", "y"], policy=policy, rewards="bernoulli")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"delta": 0}, "delta must be above 0 and below 1, got 0"),
        ({"delta": 1}, "delta must be above 0 and below 1, got 1"),
        ({"explore": 1}, "explore must be below 1, got 1"),
        ({"explore": -0.1}, r"explore must be in \[0, 1\], got -0.1"),
    ],
)
def test_invalid_parameters_are_rejected(parameters, message):
    with pytest.raises(ValueError, match=message):
        lookout(**parameters)
