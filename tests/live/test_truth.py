"""With immediate reports, an agent makes the same decisions as the simulator."""

import numpy as np
import pytest
from histories import Rewards, numpy_streams, play_runs
from numpy.random import SFC64, Generator, SeedSequence

import kibitz
from kibitz.policies import POLICIES

pytestmark = pytest.mark.slow

MEANS = [0.9, 0.5, 0.7, 0.2]  # all gaps differ, so the regret identifies the arms
PLANNERS = {"moss", "etc", "improved_ucb"}
RANDOMISED = {"thompson", "epsilon_greedy", "top_two_thompson"}  # an agent has its own generator
NOT_LIVE = {"scout", "sw_ucb", "d_ucb", "glr_ucb"}  # an agent has no graph for scout
LIVE_POLICIES = [name for name in POLICIES if name not in NOT_LIVE]
PATIENCE = 1e9  # lookout needs a patience; no report is late
N_HISTORIES = 1000


def make_policy(name):
    return POLICIES[name](**({"horizon": 1000} if name in PLANNERS else {}))


def play_with_agent(agent, problem, feedback, horizon, seed, run):
    """Play a run with an agent and the simulator's random numbers; return the pulls and looks."""
    rewards, look_stream, _ = numpy_streams(seed, run)
    pulls, looked_arms, arrival = [], [], feedback.rate.first
    for stage in range(1, horizon + 1):
        decision = agent.ask()
        look = agent.look() if stage == arrival else None
        arm = int(decision.arm)
        pulls.append(arm)
        agent.tell(decision.id, problem.means[arm] + problem.sds[arm] * rewards.standard_normal())
        for look_number in range(feedback.looks if look is not None else 0):
            look = look if look_number == 0 else agent.look()
            arm = int(look.arm)
            looked_arms.append(arm)
            agent.tell(look.id, problem.means[arm] + problem.sds[arm] * look_stream.standard_normal())
        arrival += feedback.rate.n if look is not None else 0
    return pulls, looked_arms


@pytest.mark.parametrize("name", [name for name in LIVE_POLICIES if name not in RANDOMISED])
def test_the_agent_reproduces_runs_of_the_compiled_simulator(name, memory):
    problem = kibitz.gaussian(MEANS, sd=2.0)
    feedback = kibitz.active(kibitz.every(3, first=2), looks=2)
    horizon, seed, run = 120, 11, 3
    stages = np.arange(1, horizon + 1)
    simulated_runs = play_runs(
        make_policy(name), problem, feedback, horizon=horizon, seed=seed, first=run, stages=stages
    )
    arguments = {
        "arms": list("0123"),
        "policy": make_policy(name),
        "rewards": "gaussian",
        "scale": 2.0,
    }
    arguments |= {"seed": 1, "patience": PATIENCE}
    with kibitz.agent(memory / "shop.db", name, **arguments) as agent:
        pulls, looks = play_with_agent(agent, problem, feedback, horizon, seed, run)
        assert agent.check() == []
    gaps = np.diff(simulated_runs.regret[0], prepend=0.0)
    expected = [int(np.argmin(np.abs(problem.gaps - gap))) for gap in gaps]
    assert pulls == expected
    assert np.bincount(looks, minlength=4).tolist() == simulated_runs.n_looks[0].tolist()


@pytest.mark.parametrize("name", LIVE_POLICIES)
def test_a_thousand_random_histories_are_decided_as_by_the_policy(name, memory):
    """Histories include observations that nobody asked for, and occasional restarts."""
    for history in range(-(-N_HISTORIES // len(LIVE_POLICIES))):
        disagreement = find_disagreement(name, history, memory / f"{history}.db")
        assert disagreement is None, f"history {history}: {disagreement}"


def find_disagreement(name, history, file):
    rng = np.random.default_rng([history, 5])
    policy = make_policy(name)
    params = policy.params
    n_arms, scale = int(rng.integers(2, 7)), float(rng.choice([0.5, 1.0, 4.0]))
    reward_unit = policy.scale_for(scale)
    rewards = Rewards("bernoulli" if history % 2 else "gaussian", n_arms, rng)
    rate, n_stages = rng.choice([0.1, 0.5, 1.0]), int(rng.integers(5, 40))
    arms = [f"arm {n}" for n in range(n_arms)]
    reward_arguments = {"rewards": "gaussian", "scale": scale, "patience": PATIENCE}
    agent = kibitz.agent(file, "a", arms=arms, policy=policy, **reward_arguments, seed=history)
    state = policy.init(params, n_arms)
    ids = 0

    def draw_observation():
        return Generator(SFC64(SeedSequence(history, spawn_key=(ids,))))

    for stage in range(1, n_stages + 1):
        ids += 1
        arm = int(policy.pull(params, state, stage, draw_observation()))
        decision = agent.ask()
        if decision.arm != arms[arm]:
            return f"stage {stage}: {decision}, the policy {arm}"
        looks = []
        if rng.random() < rate:
            ids += 1
            look = int(policy.look(params, state, stage, draw_observation()))
            looks.append((look, agent.look()))
        if rng.random() < 0.05:
            agent.close()
            agent = kibitz.agent(file, "a")
        reward = rewards(arm)
        agent.tell(decision.id, reward)
        state = policy.update(params, state, stage, arm, 1, reward / reward_unit, False)
        while looks:
            look, answer = looks.pop()
            if answer.arm != arms[look]:
                return f"look at stage {stage}: {answer}, the policy {look}"
            reward = rewards(look)
            agent.tell(answer.id, reward)
            state = policy.update(params, state, stage, look, 1, reward / reward_unit, True)
            if rng.random() < 0.2:
                ids += 1
                look = int(policy.look(params, state, stage, draw_observation()))
                looks.append((look, agent.look()))
        if rng.random() < 0.1:
            ids += 1
            arm, reward = int(rng.integers(n_arms)), 0.5
            agent.observe(arms[arm], reward)
            state = policy.update(params, state, stage, arm, 1, reward / reward_unit, True)
    agent.close()
    return None
