"""Deciding while reports are outstanding: delays, losses and dead arms, through the real store.

UCB with 2 log t on five arms. The figures without the rules are those of the policy itself, told of
what has arrived (`naive`). Regret of a run varies by some 30 around its mean, more with losses; the
limits below are at least four such deviations of a mean of the runs away from what was measured
(T = 3000, 20 runs; false alarm below 10^-3 for another seed).
"""

import numpy as np
import pytest

import kibitz
from kibitz.live import delay
from kibitz.live.projection import Arm

MEANS = [0.5, 1.0, 1.5, 1.8, 2.0]
GAPS = [max(MEANS) - mean for mean in MEANS]
HORIZON = 3000


def play(folder, *, late=0, loss=(0.0,) * 5, patience=None, seed=0, policy=None, horizon=HORIZON):
    """Play an agent with its store; return the regret and the agent's arms."""
    file = folder / f"{late}-{seed}-{sum(loss)}.db"
    arguments = {"arms": [str(n) for n in range(5)], "policy": policy or kibitz.ucb(2.0)}
    agent = kibitz.agent(file, "a", **arguments, seed=seed, patience=patience)
    rng = np.random.default_rng(seed)
    regret, now, way = 0.0, 0, []
    agent.now = lambda: 4e9 + now
    step = max(1, late // 20)  # asked in small groups, which is quicker and changes little
    while now < horizon:
        decisions = agent.ask(n=step)
        now += step
        for decision in decisions:
            arm = int(decision.arm)
            regret += GAPS[arm]
            if rng.random() >= loss[arm]:
                way.append((now + late, decision.id, MEANS[arm] + rng.standard_normal()))
        due = [(id, reward) for at, id, reward in way if at <= now]
        way = [report for report in way if report[0] > now]
        if due:
            agent.tell(due)
    assert agent.check() == []
    arms = agent.arms()
    agent.close()
    return regret, arms


def naive(late, seed, horizon=HORIZON):
    """Return the regret of the policy alone, told of what has arrived."""
    policy = kibitz.ucb(2.0)
    state, params = policy.init(policy.params, 5), policy.params
    rng, regret, way = np.random.default_rng(seed), 0.0, []
    for stage in range(1, horizon + 1):
        arm = int(policy.pull(params, state, stage, None))
        regret += GAPS[arm]
        way.append((arm, MEANS[arm] + rng.standard_normal()))
        if stage > late:
            told, reward = way[stage - late - 1]
            state = policy.update(params, state, stage, told, 1, reward, False)
    return regret


def test_pending_pulls_in_the_width_keep_delays_cheap(memory):
    """Measured: 105 at once, 116 with a delay of 100 (naive 409), 380 with 500 (naive 1860)."""
    at_once = np.mean([naive(0, seed) for seed in range(5)])
    assert at_once < 160
    for late, limit in ((100, 230), (500, 560)):
        regret = np.mean([play(memory, late=late, seed=seed)[0] for seed in range(2)])
        assert regret < limit
        assert np.mean([naive(late, seed) for seed in range(2)]) > 1.5 * limit


def test_lost_reports_do_not_make_an_arm_look_known(memory):
    """Nine of ten reports of the best arm are lost; it is still found."""
    regret, arms = play(memory, late=10, loss=(0, 0, 0, 0, 0.9), patience=50.0)
    assert regret < 500
    assert arms[4].n_asked > HORIZON / 2
    assert arms[4].n_forgotten > 0.5 * arms[4].n_asked


def test_an_arm_that_never_reports_is_asked_at_most_the_root_of_all_times(memory):
    """Without the rule it would be asked for ever: a regret of 4500."""
    regret, arms = play(memory, loss=(1.0, 0, 0, 0, 0))
    assert arms[0].n_asked <= np.sqrt(HORIZON) + 1
    assert regret < 300


def arm(n_asked=0, n_pulls=0, total=0.0, n_pending=0, n_looks=0, look_sum=0.0, looks_pending=0):
    return Arm(
        "x", n_asked=n_asked, n_pulls=n_pulls, pull_sum=total, n_pending=n_pending,
        n_looks=n_looks, look_sum=look_sum, looks_pending=looks_pending,
    )  # fmt: skip


def indices(arms, stage, pending):
    """Return the indices of UCB by hand: the mean of what was told, the count with the pending."""
    found = []
    for one, p in zip(arms, pending, strict=True):
        n = one.n_seen
        count = min(n + p, 2 * n)
        found.append(one.mean + np.sqrt(2.0 * np.log(stage) / count))
    return found


def test_the_count_of_an_index_is_what_was_told_and_at_most_twice_that():
    rng = np.random.default_rng(0)
    policy = kibitz.ucb(2.0)
    for _ in range(200):
        arms = [
            arm(int(n + p), int(n), float(rng.normal(n, np.sqrt(n))), int(p), int(m), float(m))
            for n, p, m in zip(
                rng.integers(4, 9, 4), rng.integers(0, 30, 4), rng.integers(0, 3, 4), strict=True
            )
        ]
        stage = 1 + sum(one.n_asked for one in arms)
        expected = int(np.argmax(indices(arms, stage, [one.n_pending for one in arms])))
        assert delay.pull(policy, policy.params, arms, stage, 1.0, None) == expected


def test_strangers_are_asked_fewest_first_and_only_so_often():
    policy = kibitz.ucb(2.0)
    known = arm(10, 10, 5.0)

    def chosen(*arms, stage=100):
        return delay.pull(policy, policy.params, list(arms), stage, 1.0, None)

    assert chosen(known, arm(3), arm(2), arm(2)) == 2
    assert chosen(known, arm(9)) == 1
    assert chosen(known, arm(10)) == 0
    assert chosen(arm(50), arm(49)) == 1  # nobody is known: somebody has to be asked
    assert chosen(arm(20, n_looks=5, look_sum=9.0), known) == 0  # looks have told of it
    assert chosen(arm(20, n_looks=5, look_sum=-9.0), known) == 1


def test_pending_looks_count_for_looks_but_not_for_pulls():
    policy = kibitz.ucb_double(2.0)
    arms = [arm(50, 50, 50.0), arm(5, 5, 2.0), arm(5, 5, 1.9)]
    looks = []
    for _ in range(6):
        place = delay.look(policy, policy.params, arms, 61, 1.0, None, None)
        arms[place].looks_pending += 1
        looks.append(place)
        assert delay.pull(policy, policy.params, arms, 61, 1.0, None) == delay.pull(
            policy, policy.params, [arm(50, 50, 50.0), arm(5, 5, 2.0), arm(5, 5, 1.9)], 61, 1.0, None
        )
    assert looks[:2] == [2, 2]  # the runner-up, until pending looks have narrowed its width
    assert looks[-1] == 0


def test_thompson_ignores_what_is_pending():
    policy = kibitz.thompson()
    for seed in range(20):
        draws = [
            delay.pull(policy, policy.params, arms, 31, 1.0, np.random.default_rng(seed))
            for arms in (
                [arm(10, 10, 5.0), arm(10, 10, 6.0)],
                [arm(10, 10, 5.0), arm(20, 10, 6.0, n_pending=10)],
            )
        ]
        assert draws[0] == draws[1]


@pytest.mark.parametrize(
    "policy",
    [kibitz.etc(horizon=100), kibitz.etc_ocucb(), kibitz.ucb2(), kibitz.improved_ucb(horizon=100)],
    ids=lambda policy: policy.name,
)
def test_policies_in_phases_play_strictly_in_turn(policy, memory):
    with kibitz.agent(memory / "a.db", "a", arms=["x", "y"], policy=policy, seed=1) as agent:
        decision, look = agent.ask(key="k"), agent.look()
        assert agent.ask(key="k") == decision
        sentence = f"each ask must be told or forgotten before the next, since {policy.name} plays"
        with pytest.raises(ValueError, match=sentence):
            agent.ask()
        with pytest.raises(ValueError, match="each look must be told or forgotten before the next"):
            agent.look()
        for refused in (
            lambda: agent.add("z"),
            lambda: agent.pause("x"),
            lambda: agent.ask(among=["x"]),
            lambda: agent.ask(n=2),
        ):
            with pytest.raises(ValueError, match="must"):
                refused()
        agent.tell(decision.id, 1.0)
        agent.tell(look.id, 0.0)
        agent.forget(agent.ask().id)
        agent.tell(agent.ask().id, 0.5)
        agent.correct(decision.id, 0.0)
        agent.tell(3, 0.25)  # late, but it counts
        assert agent.check() == []


def test_delay_knows_the_phases_without_their_names():
    phased = {
        name
        for name, make in kibitz.policies.POLICIES.items()
        if delay.in_turn(made := make(), made.params_for(100))
    }
    assert phased == {"etc", "etc_ocucb", "ucb2", "improved_ucb"}


def test_draws_come_from_the_seed_and_the_id(memory):
    """The same story gets the same decisions, whether restarted or not; another seed, others."""
    stories = []
    for name, seed, restarts in (("a", 1, False), ("b", 1, True), ("c", 2, False)):
        agent = kibitz.agent(
            memory / "a.db", name, arms=["x", "y", "z"], policy=kibitz.thompson(), seed=seed
        )
        story = []
        for n in range(40):
            decision = agent.ask()
            agent.tell(decision.id, 0.1)
            story.append(decision.arm)
            if restarts and n % 7 == 0:
                agent.close()
                agent = kibitz.agent(memory / "a.db", name)
        agent.close()
        stories.append(story)
    assert stories[0] == stories[1] != stories[2]
