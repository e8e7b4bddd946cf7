"""Helpers for the tests of policies: cached policies, runs, and random histories of observations."""

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
    """Return a policy with valid values for its required arguments, such as a horizon of 1000."""
    if name in {"moss", "etc", "improved_ucb", "glr_ucb"}:
        arguments = {"horizon": 1000, **arguments}
    if name == "sw_ucb":
        arguments = {"window": 100, **arguments}
    if name == "d_ucb":
        arguments = {"discount": 0.99, **arguments}
    return POLICIES[name](**arguments)


@cache
def without_index(policy):
    """Return a copy of a policy without its index, so that the engine calls `pull` at every stage.

    If the policy has a generic kernel, the copy calls the formula through a function pointer. All
    such copies share one compiled kernel.
    """
    generic_kernel = make_generic_kernel(policy, bandit(), leap=False)
    if generic_kernel is not None:
        policy = replace(
            _generic_policy(policy.rule),
            constants={"pointer": generic_kernel._pointer, "values": np.array(policy.params, float)},
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
    """Play the runs of a policy with numbers from `first` on, and return their results."""
    stages = np.array([horizon] if stages is None else stages, np.int64)
    arguments = (policy, problem, feedback, horizon, stages, seed)
    return play(Job(None, *arguments, first, first + runs, leap, kernel=kernel))


class Rewards:
    """Draw random rewards of one kind, gaussian or bernoulli, for any arm."""

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

    An observation (arm, reward) is a pull, and (arm, reward, "look") is a look. Each pull begins a
    stage. A look belongs to the stage of the previous pull.
    """
    state, stage = policy.init(params, n_arms), 0
    for arm, reward, *look_mark in observations:
        stage += not look_mark
        state = policy.update(params, state, stage, arm, 1, float(reward), bool(look_mark))
    return state, stage + 1


def decide(policy, n_arms, *observations, params=None):
    """Return the arms that a policy pulls and looks at after the given observations."""
    params = policy.params if params is None else params
    state, stage = replay(policy, params, n_arms, *observations)
    rng = np.random.default_rng(0)
    return policy.pull(params, state, stage, rng), policy.look(params, state, stage, rng)


def decide_with_oracle(policy, params, state, oracle, stage, rng):
    """Return the decisions (pull, look) of a policy and of its oracle, the reference policy."""
    pull, look = (choose(params, state, stage, rng) for choose in (policy.pull, policy.look))
    return (pull, look), (oracle.pull(stage), oracle.look(stage))


def find_disagreement(
    policy, params, oracle, seed, *, n_arms, kind, follows_policy, scale=1.0, n_stages=100
):
    """Report the same history to a policy and its oracle, the reference policy.

    Return a description of the first decision that differs, or None if all decisions are equal.

    The history follows the policy's decisions if `follows_policy` is true, and random decisions
    otherwise. The policy receives rewards in units of `scale`. The oracle receives raw rewards and
    knows the scale.
    """
    rng = np.random.default_rng([seed, 1])
    rewards = Rewards(kind, n_arms, rng)
    rate = rng.choice([0.0, 0.1, 0.5, 1.0])
    max_looks = rng.integers(1, 4)
    policy_rng, oracle_rng = np.random.default_rng(seed), np.random.default_rng(seed)
    oracle.rng = oracle_rng
    state = policy.init(params, n_arms)
    for stage in range(1, n_stages + 1):
        decision, oracle_decision = decide_with_oracle(
            policy, params, state, oracle, stage, policy_rng
        )
        if decision != oracle_decision:
            return f"stage {stage}: {decision}, the reference {oracle_decision}"
        arm, look = decision if follows_policy else rng.integers(n_arms, size=2)
        reward = rewards(arm)
        state = policy.update(params, state, stage, int(arm), 1, reward / scale, False)
        oracle.update(stage, int(arm), reward, False)
        if rng.random() < rate:
            for nth in range(rng.integers(1, max_looks + 1)):
                if nth > 0:
                    decision, oracle_decision = decide_with_oracle(
                        policy, params, state, oracle, stage, policy_rng
                    )
                    if decision != oracle_decision:
                        return (
                            f"stage {stage}, look {nth}: {decision}, the reference {oracle_decision}"
                        )
                    look = decision[1] if follows_policy else rng.integers(n_arms)
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
        parameters = {name: values[rng.integers(len(values))] for name, values in grid.items()}
        n_arms = int(rng.integers(2, 9))
        kind = kinds[seed % len(kinds)]
        disagreement = find_disagreement(
            policy,
            policy.params._replace(**{k: v for k, v in parameters.items() if k != "scale"}),
            make_oracle(n_arms, **parameters),
            seed,
            n_arms=n_arms,
            kind=kind,
            follows_policy=bool(rng.random() < 0.6),
            scale=parameters.get("scale", 1.0),
            n_stages=n_stages,
        )
        assert disagreement is None, (
            f"seed {seed}, {n_arms} {kind} arms, {parameters}: {disagreement}"
        )


class FixedSeedSequence(ISeedSequence):
    """A seed sequence that returns given 64-bit words."""

    def __init__(self, words):
        self.words = words

    def generate_state(self, n_words, dtype=np.uint64):
        assert n_words == len(self.words)
        assert dtype == np.uint64
        return np.array(self.words, dtype)


def numpy_streams(seed, run):
    """Return the random streams of a run (rewards, looks, policy), created by NumPy only."""
    words = SeedSequence(seed, spawn_key=(run,)).generate_state(9, np.uint64)
    return [Generator(SFC64(FixedSeedSequence(words[n : n + 3]))) for n in (0, 3, 6)]


def numpy_show_stream(seed, run, stage, arm):
    """Return the random stream of the shows of a pull at a stage, created by NumPy only."""
    words = SeedSequence(seed, spawn_key=(run,)).generate_state(12, np.uint64)[9:]
    factors = (stage * 0x9E3779B97F4A7C15, arm * 0xBF58476D1CE4E5B9, 0)
    words = [int(word) ^ factor % 2**64 for word, factor in zip(words, factors, strict=True)]
    return Generator(SFC64(FixedSeedSequence(words)))
