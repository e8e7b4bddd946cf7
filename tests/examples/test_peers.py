"""Tests of policies of other libraries. A test is skipped if its library is not installed."""

import importlib.util
import warnings
from pathlib import Path

import numpy as np
import pytest

import kibitz as kb
from kibitz.simulation import executors

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "examples" / "peers"
PEERS = {  # the library, and the policy of kibitz with the same formula
    "SMPyBandits": kb.ucb(),
    "mabwiser": kb.ucb(),
    "river": kb.ucb(),
    "bayesianbandits": kb.thompson(),
}


def load_policy(library):
    """Return the policy of an example; skip the test if the library is not installed."""
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed; run: pip install {library}")
    path = FOLDER / f"use_{library.lower()}.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library may issue warnings
        spec.loader.exec_module(module)
    return module.policy


def test_every_example_is_tested():
    assert {path.stem for path in FOLDER.glob("*.py")} == {f"use_{name.lower()}" for name in PEERS}


@pytest.mark.parametrize("library", PEERS)
@pytest.mark.filterwarnings("ignore")
def test_a_policy_of_another_library_has_the_regret_of_ours(library, monkeypatch):
    """The mean paired difference is within six standard errors of 0.

    With a random seed, the test fails with probability 9e-5, by Student's t with 11 degrees of
    freedom. Both policies have the same formula, but order the first pulls and break ties
    differently. Other processes play the same runs.
    """
    policy, ours = load_policy(library), PEERS[library]
    problem, feedback = kb.gaussian([1.5, 1.0, 0.0]), kb.passive(0.1)
    options = {"horizon": 150, "runs": 12, "seed": 3, "threads": 1}
    data = kb.simulate(problem, feedback, {"theirs": policy, "ours": ours}, **options)
    monkeypatch.setattr(executors, "SHORT_SECONDS", 0.0)  # play short jobs in other processes too
    again = kb.simulate(problem, feedback, {"theirs": policy}, **{**options, "runs": 3, "threads": 2})
    np.testing.assert_array_equal(again["regret"][0], data["regret"][0, :3])
    regret = data["final_regret"].to_numpy()
    difference = regret[0] - regret[1]
    error = difference.std(ddof=1) / np.sqrt(difference.size)
    assert abs(difference.mean()) <= 6 * error
    uniform_regret = 150 * problem.gaps.mean()
    assert regret[0].mean() < 0.75 * uniform_regret
    assert (data["n_looks"].isel(policy=0) == data["n_looks"].isel(policy=1)).all()
