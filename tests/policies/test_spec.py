"""Tests of policies as plain data: specs, pickle, equality, `repr`, labels, users' functions."""

import importlib.util
import math
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import kibitz
from kibitz.policies import POLICIES
from kibitz.policies.spec import from_spec, hash_text, make_label, to_spec

OWN_MODULE = '''
import math
import kibitz

FACTOR = 2.0

@kibitz.jit
def bonus(stage, count):
    """Return the width."""
    return math.sqrt(FACTOR * math.log(stage) / count)

def index(params, stage, counts, arm, mean):
    return mean + params.c * bonus(stage, counts[arm])

def unrelated():
    return 1

def policy():
    return kibitz.index_policy("own", index, look="robin", c=1.0)

with open(__file__ + ".executed", "a") as executed:
    executed.write("x")
'''


def example(name, **arguments):
    horizon = {"horizon": 1000} if name in {"moss", "etc", "improved_ucb"} else {}
    return POLICIES[name](**horizon, **arguments)


@pytest.mark.parametrize("name", POLICIES)
def test_a_built_in_policy_survives_every_serialisation(name):
    for policy in (example(name), example(name, scale=3.0)):
        data = to_spec(policy)
        assert set(data) == {"name", "parameters", "scale"}
        assert from_spec(data) == policy
        assert pickle.loads(pickle.dumps(policy)) == policy
        assert eval(repr(policy), dict(vars(kibitz), **POLICIES)) == policy
        assert hash(from_spec(data)) == hash(policy)
    assert example(name) != example(name, scale=3.0)


def test_policies_with_equal_parameters_are_equal_and_different_policies_are_not():
    assert kibitz.ucb() == kibitz.ucb(6)
    assert kibitz.ucb() != kibitz.ucb(2.0)
    assert kibitz.ucb() != kibitz.ucb_double()
    assert kibitz.ucb() != replace(kibitz.ucb(), update=kibitz.ucb_second().update)
    assert len({kibitz.ucb(), kibitz.ucb(), kibitz.ucb(2.0)}) == 2


def top_level_index(params, stage, counts, arm, mean):
    return mean + math.sqrt(math.log(stage) / counts[arm])


def test_a_policy_of_a_function_of_a_module_is_pickled_by_reference():
    for policy in (
        kibitz.index_policy("own", top_level_index),
        kibitz.index_policy(
            "own", top_level_index, look="robin", ignore_looks=True, scale=2.0, parameters={"a": 1}
        ),
    ):
        restored_policy = pickle.loads(pickle.dumps(policy))
        assert restored_policy == policy
        assert restored_policy.index is top_level_index
        assert restored_policy.rule == policy.rule
        assert (
            eval(
                repr(policy),
                {
                    **vars(kibitz),
                    "index_policy": kibitz.index_policy,
                    "top_level_index": top_level_index,
                },
            )
            == policy
        )


def init(params, n_arms):
    return kibitz.ftl().init(params, n_arms)


def pull(params, state, stage, rng):
    return stage % 2


def update(params, state, stage, arm, n, total, is_look):
    return state


def test_a_policy_of_own_functions_is_pickled_by_value():
    policy = kibitz.Policy("mine", {"c": 1.0}, init, pull, pull, update)
    restored_policy = pickle.loads(pickle.dumps(policy))
    assert restored_policy == policy
    assert restored_policy.pull is pull


def test_pickling_keeps_a_replaced_function():
    policy = replace(kibitz.ucb(), look=pull)
    assert pickle.loads(pickle.dumps(replace(kibitz.thompson(), look=pull))).look is pull
    with pytest.raises(
        ValueError, match="ucb cannot be stored; use a built-in policy or a policy created by"
    ):
        to_spec(policy)


def test_labels_show_non_default_parameters():
    assert make_label(kibitz.ucb()) == "ucb"
    assert make_label(kibitz.ucb(2.0, scale=0.5)) == "ucb:exploration=2,scale=0.5"


# ------------------------------------------------------------------------- functions of the user


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "own_policy", raising=False)
    monkeypatch.delitem(sys.modules, "kibitz_policy_own_policy", raising=False)
    (tmp_path / "own_policy.py").write_text(OWN_MODULE)
    return tmp_path


def load_index(folder):
    location = importlib.util.spec_from_file_location("own_policy", folder / "own_policy.py")
    module = importlib.util.module_from_spec(location)
    sys.modules["own_policy"] = module
    location.loader.exec_module(module)
    return module.policy()


def unload_module():
    for name in ("own_policy", "kibitz_policy_own_policy"):
        sys.modules.pop(name, None)


def count_executions(folder):
    return len((folder / "own_policy.py.executed").read_text())


def test_a_function_is_found_by_its_file(folder):
    policy = load_index(folder)
    data = to_spec(policy)
    unload_module()
    restored_policy = from_spec(data)
    assert (restored_policy.name, restored_policy.constants, restored_policy.rule) == (
        "own",
        {"c": 1.0},
        policy.rule,
    )
    counts = np.array([3, 4])
    assert restored_policy.index(restored_policy.params, 9, counts, 0, 0.5) == policy.index(
        policy.params, 9, counts, 0, 0.5
    )
    unload_module()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("mean + params.c", "2 * mean + params.c"),
        ("FACTOR = 2.0", "FACTOR = 3.0"),
        ("math.log(stage) / count", "math.log(stage) / count / 2"),
    ],
)
def test_an_edited_function_is_rejected_before_its_file_is_executed(folder, old, new):
    data = to_spec(load_index(folder))
    unload_module()
    n_executions = count_executions(folder)
    (folder / "own_policy.py").write_text(OWN_MODULE.replace(old, new))
    with pytest.raises(ValueError, match="the index of own, 'index', has changed in"):
        from_spec(data)
    assert count_executions(folder) == n_executions


def test_comments_docstrings_and_other_functions_may_be_edited(folder):
    data = to_spec(load_index(folder))
    unload_module()
    text = OWN_MODULE.replace("Return the width.", "Return it.").replace(
        "return 1\n", "return 2  # two\n"
    )
    (folder / "own_policy.py").write_text("# a comment\n" + text)
    assert from_spec(data).name == "own"
    unload_module()


def test_a_missing_function_is_named_in_the_error(folder):
    data = to_spec(load_index(folder))
    unload_module()
    (folder / "own_policy.py").write_text("# nothing\n")
    with pytest.raises(ValueError, match="is not defined in"):
        from_spec(data)
    (folder / "own_policy.py").unlink()
    with pytest.raises(ValueError, match=r"cannot be found: no module .* and no file"):
        from_spec(data)


def test_a_spec_without_a_hash_of_the_text_is_checked_after_the_import(folder):
    """Specs in older stores have no hash of the text. Their source is compared after the import."""
    data = to_spec(load_index(folder))
    del data["text"]
    unload_module()
    assert from_spec(data).name == "own"
    unload_module()
    (folder / "own_policy.py").write_text(OWN_MODULE.replace("FACTOR = 2.0", "FACTOR = 3.0"))
    with pytest.raises(ValueError, match=r"has changed in .*; restore the version"):
        from_spec(data)
    unload_module()


def test_a_function_that_cannot_be_located_is_rejected():
    def local(params, stage, counts, arm, mean):
        return mean

    names = {}
    exec("import math\ndef typed(params, stage, counts, arm, mean):\n    return mean\n", names)
    for index in (local, names["typed"], lambda params, stage, counts, arm, mean: mean):
        with pytest.raises(ValueError, match="the index of own must be a top-level function of a"):
            to_spec(kibitz.index_policy("own", index))


def test_a_file_that_cannot_be_parsed_has_no_text_hash(tmp_path):
    broken_file = tmp_path / "broken.py"
    broken_file.write_text("def index(:\n")
    assert hash_text(broken_file, "index") is None
    assert hash_text(tmp_path / "missing.py", "index") is None


def test_policies_are_imported_called_and_pickled_without_numba():
    script = """
import pickle, sys
import kibitz
from kibitz.policies import POLICIES
from kibitz.policies.spec import to_spec

for make in POLICIES.values():
    policy = make()
    assert pickle.loads(pickle.dumps(policy)) == policy
    to_spec(policy)
    state = policy.init(policy.params_for(100), 3)
    policy.pull(policy.params_for(100), state, 1, None)
kibitz.index_policy("mine", lambda params, stage, counts, arm, mean: mean)
print("numba" in sys.modules, "llvmlite" in sys.modules)
"""
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (process.stdout, process.stderr) == ("False False\n", "")
