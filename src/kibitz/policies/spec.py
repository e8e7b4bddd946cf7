"""Policies as plain data: the serialiser for files, workers, agents, pickle and the command line.

The spec of a built-in policy holds its name and parameters. The spec of a policy that `index_policy`
created from your own function refers to that function by module or file, and holds hashes of the
function's text and source. Loading such a spec imports the code: the text hash is compared before the
module is executed, the source hash afterwards.
"""

import ast
import hashlib
import importlib
import importlib.util
import inspect
import sys
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

from kibitz._hashing import source_hash
from kibitz._validation import short_repr
from kibitz.policies import POLICIES
from kibitz.policies.index_policy import index_policy
from kibitz.policies.policy import Policy, StandardRule, check_policy

Spec = dict[str, Any]


def to_spec(policy: Any) -> Spec:
    """Return the spec of a policy; raise ValueError if the spec could not restore the policy."""
    policy = check_policy(policy)
    spec = named_spec(policy)
    if spec is not None:
        return spec
    if policy.rule is None or rebuild_index_policy(policy) != policy:
        raise ValueError(
            f"{policy.name} cannot be stored; use a policy of kibitz or one made by index_policy"
        )
    index: Any = policy.index
    file, module = locate(index, policy.name)
    return {
        "name": policy.name,
        "function": index.__name__,
        "module": module,
        "file": file,
        "text": hash_text(Path(file), index.__name__),
        "source": source_hash(index),
        **index_arguments(policy),
        "constants": policy.constants,
    }


def from_spec(spec: Spec) -> Policy:
    """Return the policy that a spec describes."""
    if "function" not in spec:
        scale = {} if spec["scale"] is None else {"scale": spec["scale"]}
        return POLICIES[spec["name"]](**spec["parameters"], **scale)
    names = ("look", "ignore_looks", "rewards", "scale", "parameters")
    options = {name: spec[name] for name in names}
    return index_policy(spec["name"], import_function(spec), **options, **spec["constants"])


def named_spec(policy: Policy) -> Spec | None:
    """Return the spec of a built-in policy; None for any other policy, even with a built-in name."""
    if policy.name not in POLICIES:
        return None
    spec = {"name": policy.name, "parameters": policy.parameters, "scale": policy.scale}
    try:
        return spec if from_spec(spec) == policy else None
    except (TypeError, ValueError):  # a policy of the user that has a built-in name
        return None


def index_arguments(policy: Policy) -> dict[str, Any]:
    """Return the options with which `index_policy` was called, except name, index and params."""
    assert policy.rule is not None
    return {
        **policy.rule._asdict(),
        "rewards": policy.rewards,
        "scale": policy.scale,
        "parameters": policy.parameters,
    }


def rebuild_index_policy(policy: Policy) -> Policy:
    """Return the policy that `index_policy` creates from the same index and options."""
    index: Any = policy.index
    return index_policy(policy.name, index, **index_arguments(policy), **policy.constants)


# ------------------------------------------------------------------------------- pickle, repr, labels


def reduce_policy(policy: Policy) -> tuple[Any, tuple[Any, ...]]:
    """Return a function and arguments from which pickle restores a policy.

    The arguments are the spec of a built-in policy, the arguments of `index_policy`, or all fields.
    Functions of the user are pickled by reference, or by value with cloudpickle.
    """
    spec = named_spec(policy)
    if spec is not None:
        return from_spec, (spec,)
    if policy.rule is not None and rebuild_index_policy(policy) == policy:
        arguments = {**index_arguments(policy), **policy.constants}
        return _unpickle_index, (policy.name, policy.index, arguments)
    return Policy, tuple(getattr(policy, part.name) for part in fields(policy) if part.init)


def _unpickle_index(name: str, index: Any, arguments: dict[str, Any]) -> Policy:
    return index_policy(name, index, **arguments)


def format_call(policy: Policy) -> str:
    """Return a Python expression that creates the policy."""
    scale = {} if policy.scale is None else {"scale": policy.scale}
    if named_spec(policy) is not None:
        return _call(policy.name, {**policy.parameters, **scale})
    if policy.rule is None:
        return f"<Policy {policy.name!r}>"
    index: Any = policy.index
    defaults = {**StandardRule("runner-up", False)._asdict(), "rewards": "gaussian", "scale": None}
    defaults["parameters"] = policy.constants
    options = {k: v for k, v in index_arguments(policy).items() if v != defaults[k]}
    return _call("index_policy", {**options, **policy.constants}, repr(policy.name), index.__name__)


def _call(function: str, options: dict[str, Any], *first: str) -> str:
    return f"{function}({', '.join([*first, *(f'{k}={v!r}' for k, v in options.items())])})"


def make_label(policy: Policy) -> str:
    """Return `name`, or `name:parameter=value,...` if parameters differ from their defaults."""
    default = POLICIES[policy.name]().parameters if policy.name in POLICIES else policy.parameters
    options = {k: v for k, v in policy.parameters.items() if default.get(k) != v}
    if policy.scale is not None:
        options["scale"] = policy.scale
    values = [f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in options.items()]
    return f"{policy.name}:{','.join(values)}" if values else policy.name


# --------------------------------------------------------------------------- functions of the user


def locate(index: Any, name: str) -> tuple[str, str | None]:
    """Return the file that defines a top-level function, and its module if it is importable."""
    path = Path(inspect.getsourcefile(index) or "")
    condition = f"the index of {name} must be a top-level function of a module or file"
    if not path.is_file():
        raise ValueError(f"{condition}, but {index.__qualname__!r} is not in a file")
    if index.__qualname__ != index.__name__ or hash_text(path, index.__name__) is None:
        raise ValueError(f"{condition}, got {index.__qualname__!r}")
    module = index.__module__
    try:
        found = importlib.util.find_spec(module) if module != "__main__" else None
    except (ImportError, ValueError):
        found = None
    importable = found is not None and found.origin is not None and Path(found.origin) == path
    return str(path.resolve()), module if importable else None


def import_function(spec: Spec) -> Any:
    """Return the function that a spec refers to; raise ValueError if it is missing or changed."""
    index = f"the index of {spec['name']}, {spec['function']!r},"
    path = source_path(spec)
    if path is None:
        raise ValueError(
            f"{index} cannot be found: no module {spec['module']!r} and no file {spec['file']!r}"
        )
    text = hash_text(path, spec["function"])
    if text is None:
        raise ValueError(f"{index} is not defined in {short_repr(str(path))}")
    changed = f"{index} has changed in {short_repr(str(path))}; restore the version that was stored"
    if spec.get("text", text) != text:  # specs stored by kibitz 0.2 or older have no text hash
        raise ValueError(changed)
    function = getattr(load_module(spec, path), spec["function"], None)
    function = getattr(function, "py_func", function)
    if not callable(function) or source_hash(function) != spec["source"]:
        raise ValueError(changed)
    return function


def source_path(spec: Spec) -> Path | None:
    """Return the file that defines the function of a spec, without executing the file."""
    if spec["module"] is not None:
        try:
            found = importlib.util.find_spec(spec["module"])
        except (ImportError, ValueError):
            found = None
        if found is not None and found.origin is not None and Path(found.origin).is_file():
            return Path(found.origin)
    path = Path(spec["file"])
    return path if path.is_file() else None


def load_module(spec: Spec, path: Path) -> ModuleType:
    """Return the module of a file: import it by name, reuse the loaded module, or run the file."""
    if spec["module"] is not None:
        found = importlib.util.find_spec(spec["module"])
        if found is not None and found.origin == str(path):
            return importlib.import_module(spec["module"])
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and Path(file).resolve() == path.resolve():
            return module
    name = f"kibitz_policy_{path.stem}"
    location = importlib.util.spec_from_file_location(name, path)
    assert location is not None
    assert location.loader is not None
    module = importlib.util.module_from_spec(location)
    sys.modules[name] = module
    try:
        location.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def hash_text(path: Path, name: str) -> str | None:
    """Return a hash of a top-level function and everything it refers to in its file.

    The file is not executed. Comments, docstrings and layout are ignored. Return None if the file
    does not define the function.
    """
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None
    defined: dict[str, ast.stmt] = {}
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        names += [node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
        defined.update(dict.fromkeys(names, node))
    if not isinstance(defined.get(name), ast.FunctionDef):
        return None
    reached, pending = dict[str, str](), [name]
    while pending:
        current = pending.pop()
        if current in defined and current not in reached:
            node = defined[current]
            for part in ast.walk(node):
                if isinstance(part, ast.FunctionDef) and ast.get_docstring(part) is not None:
                    part.body = part.body[1:]
            reached[current] = ast.dump(node)
            pending += [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
    return hashlib.sha256(repr(sorted(reached.items())).encode()).hexdigest()
