"""Histories of observations for the tests of policies, and policies that are created once."""

from dataclasses import replace
from functools import cache

import numpy as np
from numpy.random import SFC64, Generator, SeedSequence
from numpy.random.bit_generator import ISeedSequence

from kibitz.engine.kernel import _generic_policy, make_generic_kernel
from kibitz.model.feedback import bandit
from kibitz.policies import POLICIES
from kibitz.simulation.jobs import Job, play


@cache
def make_policy(name, **arguments):
    """Return a policy; a policy that needs a horizon gets 1000 stages."""
    if name in {"moss", "etc", "improved_ucb"}:
        arguments = {"horizon": 1000, **arguments}
    return POLICIES[name](**arguments)


@cache
def without_index(policy):
    """Return the same policy without its index, so that the engine calls `pull` at every stage.

    If the policy has a generic kernel, the result calls the formula through a function pointer. All
    such policies share one compiled kernel.
    """
    generic = make_generic_kernel(policy, bandit(), leap=False)
    if generic is not None:
        policy = replace(
            _generic_policy(policy.rule),
            constants={"pointer": generic._pointer, "values": np.array(policy.params, float)},
            rewards=policy.rewards,
            scale=policy.scale,
        )
    return replace(policy, index=None, view=None, factors=None)


def play_runs(
    policy,
    problem,
    feedback,
    *,
    horizon,
    runs=1,
    seed=0,
    first=0,
    stages=None,
    leap=False,
    kernel="specialised",
):
    """Play runs of a policy."""
    stages = np.array([horizon] if stages is None else stages, np.int64)
    setting = (policy, problem, feedback, horizon, stages, seed)
    return play(Job(None, *setting, first, first + runs, leap, kernel=kernel))


class Rewards:
    """A source of random rewards of one kind, for any arm."""

    def __init__(self, kind, n_arms, rng):
        self.kind, self.rng = kind, rng
        self.means = rng.uniform(0.1, 0.9, n_arms)
        if rng.random() < 0.3:
            self.means[-1] = self.means[0]

    def __call__(self, arm):
        if self.kind == "bernoulli":
            return float(self.rng.random() < self.means[arm])
        return 2 * self.means[arm] + self.rng.standard_normal()


def replay(policy, params, n_arms, *observations):
    """Return the state after `observations` and the next stage.

    (arm, reward) is a pull and (arm, reward, "look") is a look. Each pull is a stage; a look belongs
    to the stage of the pull before it.
    """
    state, stage = policy.init(params, n_arms), 0
    for arm, reward, *look in observations:
        stage += not look
        state = policy.update(params, state, stage, arm, 1, float(reward), bool(look))
    return state, stage + 1


def decisions(policy, n_arms, *observations, params=None):
    """Return the arms that a policy pulls and looks at after the given observations."""
    params = policy.params if params is None else params
    state, stage = replay(policy, params, n_arms, *observations)
    rng = np.random.default_rng(0)
    return policy.pull(params, state, stage, rng), policy.look(params, state, stage, rng)


def choices(policy, params, state, oracle, stage, rng):
    """Return the decisions (pull, look) of a policy and of its oracle, the reference policy."""
    pull, look = (decide(params, state, stage, rng) for decide in (policy.pull, policy.look))
    return (pull, look), (oracle.pull(stage), oracle.look(stage))


def find_disagreement(policy, params, oracle, seed, *, n_arms, kind, own, scale=1.0, n_stages=100):
    """Give a policy and its oracle the same history; return where they differ, or None.

    The history follows the policy's decisions if `own` is true, and random decisions if `own` is
    false. The policy receives rewards in units of `scale`; the oracle receives raw rewards and knows
    the scale.
    """
    rng = np.random.default_rng([seed, 1])
    rewards = Rewards(kind, n_arms, rng)
    rate = rng.choice([0.0, 0.1, 0.5, 1.0])
    max_looks = rng.integers(1, 4)
    policy_rng, oracle_rng = np.random.default_rng(seed), np.random.default_rng(seed)
    oracle.rng = oracle_rng
    state = policy.init(params, n_arms)
    for stage in range(1, n_stages + 1):
        ours, theirs = choices(policy, params, state, oracle, stage, policy_rng)
        if ours != theirs:
            return f"stage {stage}: {ours}, the reference {theirs}"
        arm, look = ours if own else rng.integers(n_arms, size=2)
        reward = rewards(arm)
        state = policy.update(params, state, stage, int(arm), 1, reward / scale, False)
        oracle.update(stage, int(arm), reward, False)
        if rng.random() < rate:
            for nth in range(rng.integers(1, max_looks + 1)):
                if nth > 0:
                    ours, theirs = choices(policy, params, state, oracle, stage, policy_rng)
                    if ours != theirs:
                        return f"stage {stage}, look {nth}: {ours}, the reference {theirs}"
                    look = ours[1] if own else rng.integers(n_arms)
                reward = rewards(look)
                state = policy.update(params, state, stage, int(look), 1, reward / scale, True)
                oracle.update(stage, int(look), reward, True)
    return None


def assert_agrees(
    policy, make_oracle, seeds, *, n_stages=100, kinds=("gaussian", "bernoulli"), **grid
):
    """Compare a policy with its reference on many histories, with parameters drawn from `grid`."""
    for seed in seeds:
        rng = np.random.default_rng([seed, 2])
        chosen = {name: values[rng.integers(len(values))] for name, values in grid.items()}
        n_arms = int(rng.integers(2, 9))
        kind = kinds[seed % len(kinds)]
        found = find_disagreement(
            policy,
            policy.params._replace(**{k: v for k, v in chosen.items() if k != "scale"}),
            make_oracle(n_arms, **chosen),
            seed,
            n_arms=n_arms,
            kind=kind,
            own=bool(rng.random() < 0.6),
            scale=chosen.get("scale", 1.0),
            n_stages=n_stages,
        )
        assert found is None, f"seed {seed}, {n_arms} {kind} arms, {chosen}: {found}"


class FixedSeedSequence(ISeedSequence):
    """A seed sequence that returns fixed words."""

    def __init__(self, words):
        self.words = words

    def generate_state(self, n_words, dtype=np.uint64):
        assert n_words == len(self.words)
        assert dtype == np.uint64
        return np.array(self.words, dtype)


def numpy_streams(seed, run):
    """Return the three streams of a run, created by NumPy only."""
    words = SeedSequence(seed, spawn_key=(run,)).generate_state(9, np.uint64)
    return [Generator(SFC64(FixedSeedSequence(words[n : n + 3]))) for n in (0, 3, 6)]
