"""Policies are found again after a restart, or refused when the agent is made."""

import math
import subprocess
import sys

import pytest

import kibitz
from kibitz.policies import POLICIES, recipe

pytestmark = pytest.mark.slow

OWN = """
import math
import kibitz

FACTOR = 2.0

def index(params, stage, counts, arm, mean):
    return mean + math.sqrt(FACTOR * params.c * math.log(stage) / counts[arm])

def policy():
    return kibitz.index_policy("own", index, look="robin", c=1.0)
"""


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_of_the_package_comes_back_as_it_was(name):
    arguments = {"horizon": 1000} if name in {"moss", "etc", "improved_ucb"} else {}
    for policy in (POLICIES[name](**arguments), POLICIES[name](**arguments, scale=3.0)):
        again = recipe.made(recipe.recipe_of(policy))
        assert again.functions == policy.functions
        assert again.numbers == policy.numbers
        assert (again.scale, again.setting) == (policy.scale, policy.setting)


def own(folder, source=OWN):
    """Return the policy of a file, as a script has it that runs from there."""
    (folder / "own_policy.py").write_text(source)
    sys.modules.pop("own_policy", None)
    spec = recipe.importlib.util.spec_from_file_location("own_policy", folder / "own_policy.py")
    module = recipe.importlib.util.module_from_spec(spec)
    sys.modules["own_policy"] = module
    spec.loader.exec_module(module)
    return module.policy()


@pytest.fixture
def forget_module():
    yield
    for name in ("own_policy", "kibitz_policy_own_policy"):
        sys.modules.pop(name, None)


def test_a_policy_of_ones_own_is_found_by_its_file(memory, forget_module):
    policy = own(memory)
    arguments = {"arms": ["a", "b"], "policy": policy, "seed": 1}
    with kibitz.agent(memory / "shop.db", "own", **arguments) as agent:
        arms = [agent.ask().arm for _ in range(2)]
        agent.tell([(1, 1.0), (2, 0.0)])
    forget()
    with kibitz.agent(memory / "shop.db", "own") as agent:
        assert agent.policy.name == "own"
        assert agent.policy.numbers == {"c": 1.0}
        assert agent.policy.turns is not None
        arms += [agent.ask().arm, agent.look().arm]
    assert arms == ["a", "b", "a", "a"]
    script = "import kibitz, sys; print(kibitz.agent(sys.argv[1], 'own').ask().id)"
    done = subprocess.run(
        [sys.executable, "-c", script, memory / "shop.db"], capture_output=True, text=True
    )
    assert done.stdout == "5\n", done.stderr


def test_a_policy_of_ones_own_is_found_by_its_module(memory, monkeypatch):
    """The module may move, as with another version of a package: its name is what counts."""
    package = memory / "old" / "own_package"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "rules.py").write_text(OWN)
    monkeypatch.syspath_prepend(memory / "old")
    policy = recipe.importlib.import_module("own_package.rules").policy()
    for name in ("own_package", "own_package.rules"):
        monkeypatch.delitem(sys.modules, name)
    with kibitz.agent(memory / "shop.db", "own", arms=["a", "b"], policy=policy) as agent:
        assert agent.config.setting["policy"]["module"] == "own_package.rules"
        agent.ask()
    for name in ("own_package", "own_package.rules"):
        monkeypatch.delitem(sys.modules, name)
    (memory / "old").rename(memory / "new")

    def asked(path):
        script = "import kibitz, sys; sys.path.append(sys.argv[2])\n"
        script += "print(kibitz.agent(sys.argv[1], 'own').ask().id)"
        command = [sys.executable, "-c", script, memory / "shop.db", path]
        return subprocess.run(command, capture_output=True, text=True)

    refusal = "index of own must be found as 'index', got no module 'own_package.rules' and no file"
    assert refusal in asked(memory / "old").stderr
    done = asked(memory / "new")
    assert done.stdout == "2\n", done.stderr


def forget():
    for name in ("own_policy", "kibitz_policy_own_policy"):
        sys.modules.pop(name, None)


def test_another_source_later_is_refused(memory, forget_module):
    arguments = {"arms": ["a", "b"], "policy": own(memory)}
    kibitz.agent(memory / "shop.db", "own", **arguments).close()
    for changed in (OWN.replace("mean + math", "2 * mean + math"), OWN.replace("2.0", "3.0")):
        forget()
        (memory / "own_policy.py").write_text(changed)
        with pytest.raises(ValueError, match="index of own must be found as 'index' as the agent"):
            kibitz.agent(memory / "shop.db", "own")
    forget()
    (memory / "own_policy.py").write_text("# nothing\n")
    with pytest.raises(ValueError, match="got nothing of that name in"):
        kibitz.agent(memory / "shop.db", "own")
    forget()
    (memory / "own_policy.py").unlink()
    with pytest.raises(ValueError, match=r"got no module .* and no file"):
        kibitz.agent(memory / "shop.db", "own")


def test_a_policy_that_cannot_be_found_again_is_refused_when_the_agent_is_made(memory):
    def local(params, stage, counts, arm, mean):
        return mean

    names = {}
    exec("import math\ndef typed(params, stage, counts, arm, mean):\n    return mean\n", names)
    for index in (local, names["typed"], lambda params, stage, counts, arm, mean: mean):
        policy = kibitz.index_policy("own", index)
        with pytest.raises(ValueError, match="index of own must be a function at the top level of a"):
            kibitz.agent(memory / "shop.db", "own", arms=["a", "b"], policy=policy)
    assert not (memory / "shop.db").exists()


def top(params, stage, counts, arm, mean):
    return mean + math.sqrt(math.log(stage) / counts[arm])


def test_a_policy_put_together_by_hand_is_refused():
    from dataclasses import replace

    policy = kibitz.index_policy("own", top)
    recipe.recipe_of(policy)
    for changed in (
        replace(policy, index=None, view=None),
        replace(policy, update=kibitz.ucb_second().update),
    ):
        with pytest.raises(ValueError, match="policy must be one of kibitz's or made by"):
            recipe.recipe_of(changed)
