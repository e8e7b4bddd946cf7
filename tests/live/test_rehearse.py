"""Rehearsals run a real agent with its store on a simulated problem."""

import numpy as np
import pytest

import kibitz
from kibitz.live.agent import rehearse as rehearsal

pytestmark = pytest.mark.slow

PROBLEM = kibitz.gaussian([0.9, 0.5, 0.7, 0.2], sd=2.0)
SHORT = {"horizon": 150, "runs": 2, "seed": 3}


def rehearse(problem, policy, *, horizon, runs, seed, rate=0.0, **more):
    """Rehearse an agent and simulate the same runs, as `kibitz rehearse` does."""
    play = {"horizon": horizon, "runs": runs, "seed": seed}
    feedback = kibitz.active(rate) if rate else kibitz.bandit()
    beside = kibitz.simulate(problem, feedback, {"simulator": policy}, **play, engine="step")
    return rehearsal.rehearse(problem, policy, **play, rate=rate, beside=beside, **more)


@pytest.mark.parametrize(
    "problem",
    [PROBLEM, kibitz.bernoulli([0.3, 0.6]), kibitz.empirical([[0.0, 1.0], [3.0, -1.0, 2.0]])],
)
def test_with_immediate_reports_the_agent_reproduces_simulated_runs(problem, memory):
    data = rehearse(problem, kibitz.ucb(2.0), **SHORT, rate=0.3, store=memory / "r.db")
    assert data["policy"].to_numpy().tolist() == ["agent", "simulator"]
    ours, theirs = data["regret"].to_numpy()
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert data["n_duplicates"].sum() == 0


def test_duplicates_change_nothing(memory):
    data = rehearse(PROBLEM, kibitz.ucb(2.0), **SHORT, duplicates=0.5, store=memory / "r.db")
    ours, theirs = data["regret"].to_numpy()
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert 100 < data["n_duplicates"].sum() < 200


def test_delay_and_loss_change_the_decisions(memory):
    data = rehearse(
        PROBLEM, kibitz.ucb(2.0), **SHORT, delay=20, loss=0.3, rate=0.2, store=memory / "r.db"
    )
    ours, theirs = data["regret"].to_numpy()
    assert not np.allclose(ours, theirs)
    with kibitz.agent(memory / "r.db", "rehearsal-0") as agent:
        forgotten = sum(arm.n_forgotten for arm in agent.arms())
    assert 10 < forgotten < 90


def test_a_rehearsal_needs_a_new_store(memory):
    rehearse(PROBLEM, kibitz.ucb(2.0), horizon=5, runs=1, seed=3, store=memory / "r.db")
    with pytest.raises(ValueError, match=r"store '.*' already has agents of a rehearsal"):
        rehearse(PROBLEM, kibitz.ucb(2.0), horizon=5, runs=1, seed=3, store=memory / "r.db")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"delay": -1}, "delay must be a whole number of at least 0, got -1"),
        ({"loss": 1.5}, r"loss must be in \[0, 1\], got 1\.5"),
        ({"duplicates": "x"}, r"duplicates must be in \[0, 1\], got 'x'"),
        ({"rate": -0.1}, r"rate must be non-negative and finite, got -0\.1"),
        ({"runs": 0}, "runs must be a whole number of at least 1, got 0"),
    ],
)
def test_invalid_arguments_raise_value_error(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        rehearsal.rehearse(PROBLEM, kibitz.ucb(2.0), **{**SHORT, **arguments})
