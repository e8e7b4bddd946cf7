"""Rehearsals run a real agent with its store on a simulated problem."""

import numpy as np
import pytest

import kibitz
from kibitz.live.agent import rehearse as rehearsal

pytestmark = pytest.mark.slow

PROBLEM = kibitz.gaussian([0.9, 0.5, 0.7, 0.2], sd=2.0)
SETTING = {"horizon": 150, "runs": 2, "seed": 3}


def rehearse(problem, policy, *, horizon, runs, seed, rate=0.0, **agent_options):
    """Rehearse an agent and simulate the same runs, as `kibitz rehearse` does."""
    options = {"horizon": horizon, "runs": runs, "seed": seed}
    feedback = kibitz.active(rate) if rate else kibitz.bandit()
    simulated_data = kibitz.simulate(
        problem, feedback, {"simulator": policy}, **options, engine="step"
    )
    return rehearsal.rehearse(
        problem, policy, **options, rate=rate, beside=simulated_data, **agent_options
    )


@pytest.mark.parametrize(
    "problem",
    [PROBLEM, kibitz.bernoulli([0.3, 0.6]), kibitz.empirical([[0.0, 1.0], [3.0, -1.0, 2.0]])],
)
def test_with_immediate_reports_the_agent_reproduces_simulated_runs(problem, memory):
    data = rehearse(problem, kibitz.ucb(2.0), **SETTING, rate=0.3, store=memory / "r.db")
    assert data["policy"].to_numpy().tolist() == ["agent", "simulator"]
    agent_regret, simulated_regret = data["regret"].to_numpy()
    np.testing.assert_allclose(agent_regret, simulated_regret, rtol=1e-12)
    assert data["n_duplicates"].sum() == 0


def test_duplicates_change_nothing(memory):
    data = rehearse(PROBLEM, kibitz.ucb(2.0), **SETTING, duplicates=0.5, store=memory / "r.db")
    agent_regret, simulated_regret = data["regret"].to_numpy()
    np.testing.assert_allclose(agent_regret, simulated_regret, rtol=1e-12)
    assert 100 < data["n_duplicates"].sum() < 200


def test_delay_and_loss_change_the_decisions(memory):
    data = rehearse(
        PROBLEM, kibitz.ucb(2.0), **SETTING, delay=20, loss=0.3, rate=0.2, store=memory / "r.db"
    )
    agent_regret, simulated_regret = data["regret"].to_numpy()
    assert not np.allclose(agent_regret, simulated_regret)
    with kibitz.agent(memory / "r.db", "rehearsal-0") as agent:
        n_forgotten = sum(arm.n_forgotten for arm in agent.arms())
    assert 10 < n_forgotten < 90


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
        rehearsal.rehearse(PROBLEM, kibitz.ucb(2.0), **{**SETTING, **arguments})


def test_a_result_beside_the_agent_must_be_of_the_same_setting():
    """With another setting, the runs would have different noise and could not be compared."""
    policies, options = {"simulator": kibitz.ucb(2.0)}, {"engine": "step"}
    simulated = kibitz.simulate(PROBLEM, kibitz.active(0.3), policies, **SETTING, **options)

    def check(beside, message, problem=PROBLEM, rate=0.3, **changes):
        with pytest.raises(ValueError, match=message):
            rehearsal.rehearse(
                problem, kibitz.ucb(2.0), rate=rate, beside=beside, **{**SETTING, **changes}
            )

    check("runs.nc", "beside must be a result of simulate, got <class 'str'>")
    check(simulated["regret"], "beside must be a result of simulate, got <class 'xarray")
    check(simulated.mean("run"), "beside must be a result of simulate, not of sweep, and keep its")
    check(simulated.drop_attrs(), "with the problem of the rehearsal, .* got None")
    of_the_rehearsal = "beside must be a result of simulate with the {} of the rehearsal, {}, got {}"
    check(simulated, of_the_rehearsal.format("horizon", 20, 150), horizon=20)
    check(simulated, of_the_rehearsal.format("seed", 4, 3), seed=4)
    check(simulated, of_the_rehearsal.format("runs", 3, 2), runs=3)
    check(simulated, of_the_rehearsal.format("problem", ".*", ".*"), kibitz.gaussian([0.9, 0.5]))
    check(simulated, of_the_rehearsal.format("feedback", ".*bandit.*", ".*active.*"), rate=0)
    renamed = simulated.assign_coords(policy=["agent"])
    check(renamed, "a policy of beside has the label 'agent'; give it another label")
    without_looks = kibitz.simulate(PROBLEM, kibitz.active(0), policies, **SETTING, **options)
    data = rehearsal.rehearse(PROBLEM, kibitz.ucb(2.0), beside=without_looks, **SETTING)
    assert data["policy"].to_numpy().tolist() == ["agent", "simulator"]


def test_the_attributes_of_a_rehearsal_are_readable():
    data = rehearsal.rehearse(PROBLEM, kibitz.ucb(2.0), **SETTING, delay=3, loss=0.1)
    assert data.attrs["faults"] == "delay 3; loss 0.1; duplicates 0.0; silence forget"
    assert data.attrs["agent"] == repr(kibitz.ucb(2.0))
    assert (data.attrs["horizon"], data.attrs["seed"], data.attrs["rate"]) == (150, 3, 0.0)
    assert data["regret"].attrs["units"] == data["final_regret"].attrs["units"] == "reward"
    assert data["stage"].attrs["units"] == "stages"


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_silence_counts_at_once(memory, rate):
    """If clicks are reported at once, an agent that counts silence decides as the simulator does.

    No missing click is reported, and the patience is half of the horizon. A pending decision counts
    as no click, so the policy sees the same counts as in the simulation.
    """
    data = rehearse(
        kibitz.bernoulli([0.3, 0.1, 0.2]), kibitz.kibitzer(rewards="bernoulli"), horizon=120, runs=2,
        seed=3, rate=rate, patience=60, silence=0, store=memory / "r.db",
    )  # fmt: skip
    agent, simulator = data["regret"].to_numpy()
    np.testing.assert_allclose(agent, simulator, rtol=0, atol=1e-9)
    with kibitz.agent(memory / "r.db", "rehearsal-0") as agent:
        agent.now = lambda: 0.0  # no decision settles after the last event
        assert sum(arm.n_unsettled for arm in agent.arms()) >= 60
        assert agent.config.silence == 0.0
