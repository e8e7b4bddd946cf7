"""How a policy is written down so that it can be found again after a restart.

A policy of the package is its name and its parameters. A user's index policy is the function `index`,
by its module or its file, with a hash of its source and of all that it calls: another source later is
another policy, and refused. What cannot be found again is refused when the agent is made.
"""

import ast
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from kibitz._validation import quoted
from kibitz.engine.content import source_hash
from kibitz.policies import POLICIES
from kibitz.policies.policy import Policy, checked_policy, index_policy, seen_update_pulls

Recipe = dict[str, Any]


def recipe_of(policy: Any) -> Recipe:
    """Return a policy as plain data; refuse what could not be found again."""
    policy = checked_policy(policy)
    if policy.numbers.get("horizon") == 0:
        raise ValueError(f"horizon of {policy.name} must be given for an agent, got None")
    if policy.name in POLICIES:
        recipe = {"name": policy.name, "parameters": policy.setting, "scale": policy.scale}
        if made(recipe).functions == policy.functions and made(recipe).numbers == policy.numbers:
            return recipe
    sentence = f"policy must be one of kibitz's or made by index_policy, got {policy.name}"
    if policy.index is None:
        raise ValueError(sentence)
    index = policy.index
    file, module = place_of(index, policy.name)
    recipe = {
        "name": policy.name,
        "function": index.__name__,
        "module": module,
        "file": file,
        "source": source_hash(index),
        "look": "runner-up" if policy.turns is None else "robin",
        "ignore_free": policy.update is seen_update_pulls,
        "unit_rewards": policy.unit_rewards,
        "setting": policy.setting,
        "parameters": policy.numbers,
        "scale": policy.scale,
    }
    again = made(recipe)
    for part in ("init", "update", "view", "turns"):  # `pull` and `observe` follow from the index
        if getattr(again, part) is not getattr(policy, part):
            raise ValueError(sentence)
    return recipe


def made(recipe: Recipe) -> Policy:
    """Return the policy of a recipe."""
    if "function" not in recipe:
        scale = {} if recipe["scale"] is None else {"scale": recipe["scale"]}
        return POLICIES[recipe["name"]](**recipe["parameters"], **scale)
    return index_policy(
        recipe["name"],
        found(recipe),
        look=recipe["look"],
        ignore_free=recipe["ignore_free"],
        unit_rewards=recipe["unit_rewards"],
        scale=recipe["scale"],
        setting=recipe["setting"],
        **recipe["parameters"],
    )


def place_of(index: Any, name: str) -> tuple[str, str | None]:
    """Return the file that defines a function at its top level, and the module if it has a name."""
    path = Path(inspect.getsourcefile(index) or "")
    where = f"index of {name} must be a function at the top level of a module or a file"
    if not path.is_file():
        raise ValueError(f"{where}, got {index.__qualname__!r} that no file holds")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tops = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    if index.__qualname__ != index.__name__ or index.__name__ not in tops:
        raise ValueError(f"{where}, got {index.__qualname__!r}")
    module = index.__module__
    try:
        spec = importlib.util.find_spec(module) if module != "__main__" else None
    except (ImportError, ValueError):
        spec = None
    known = spec is not None and spec.origin is not None and Path(spec.origin) == path
    return str(path.resolve()), module if known else None


def found(recipe: Recipe) -> Callable[..., float]:
    """Return the function of a recipe, by its module or else its file."""
    what = f"index of {recipe['name']} must be found as {recipe['function']!r}"
    module = module_of(recipe)
    if module is None:
        raise ValueError(f"{what}, got no module {recipe['module']!r} and no file {recipe['file']!r}")
    function = getattr(module, recipe["function"], None)
    function = getattr(function, "py_func", function)  # of what numba has compiled
    if not callable(function):
        raise ValueError(f"{what}, got nothing of that name in {quoted(module.__file__)}")
    if source_hash(function) != recipe["source"]:
        raise ValueError(
            f"{what} as the agent has it, got another source in {quoted(module.__file__)}"
        )
    return function


def module_of(recipe: Recipe) -> ModuleType | None:
    """Return the module of a recipe: imported by name, or run from its file."""
    path = Path(recipe["file"])
    if recipe["module"] is not None:
        try:
            return importlib.import_module(recipe["module"])
        except ImportError:
            pass
    for module in list(sys.modules.values()):  # the running script, or a file that was run before
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and Path(file).resolve() == path:
            return module
    if not path.is_file():
        return None
    name = f"kibitz_policy_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
