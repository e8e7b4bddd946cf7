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
from kibitz.policies.max_n import max_n
from kibitz.policies.policy import Policy, StandardRule, check_policy

Spec = dict[str, Any]


def to_spec(policy: Any) -> Spec:
    """Return the spec of a policy; raise ValueError if the spec could not restore the policy."""
    policy = check_policy(policy)
    if policy.inner is not None:
        return {"name": "max_n", "policy": to_spec(policy.inner)}
    spec = named_spec(policy)
    if spec is not None:
        return spec
    if policy.is_python:
        raise ValueError(
            f"{policy.name} is a Python policy, which can be simulated but not stored in an agent; "
            "use a built-in policy or a policy created by index_policy"
        )
    if policy.rule is None or rebuild_index_policy(policy) != policy:
        raise ValueError(
            f"{policy.name} cannot be stored; use a built-in policy or a policy created by "
            "index_policy"
        )
    index: Any = policy.index
    path, module = locate_function(index, policy.name)
    return {
        "name": policy.name,
        "function": index.__name__,
        "module": module,
        "file": path,
        "text": hash_text(Path(path), index.__name__),
        "source": source_hash(index),
        **index_arguments(policy),
        "constants": policy.constants,
    }


def from_spec(spec: Spec) -> Policy:
    """Return the policy that a spec describes."""
    if "policy" in spec:
        return max_n(from_spec(spec["policy"]))
    if "function" not in spec:
        scale = {} if spec["scale"] is None else {"scale": spec["scale"]}
        return POLICIES[spec["name"]](**spec["parameters"], **scale)
    option_names = ("look", "ignore_looks", "rewards", "scale", "parameters")
    options = {name: spec[name] for name in option_names}
    return index_policy(spec["name"], import_function(spec), **options, **spec["constants"])


def named_spec(policy: Policy) -> Spec | None:
    """Return the spec of a built-in policy; None for any other policy, even with a built-in name."""
    if policy.inner is not None and policy == max_n(policy.inner):
        inner_spec = named_spec(policy.inner)
        return None if inner_spec is None else {"name": "max_n", "policy": inner_spec}
    if policy.name not in POLICIES:
        return None
    spec = {"name": policy.name, "parameters": policy.parameters, "scale": policy.scale}
    try:
        return spec if from_spec(spec) == policy else None
    except (TypeError, ValueError):  # a policy of the user that has a built-in name
        return None


def index_arguments(policy: Policy) -> dict[str, Any]:
    """Return the keyword arguments of `index_policy` that created a policy, without its constants."""
    assert policy.rule is not None
    return {
        **policy.rule._asdict(),
        "rewards": policy.rewards,
        "scale": policy.scale,
        "parameters": policy.parameters,
    }


def rebuild_index_policy(policy: Policy) -> Policy:
    """Return a new policy that `index_policy` creates from the index and options of a policy."""
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
    if policy.inner is not None and policy == max_n(policy.inner):
        return max_n, (policy.inner,)
    if policy.rule is not None and rebuild_index_policy(policy) == policy:
        arguments = {**index_arguments(policy), **policy.constants}
        return _unpickle_index, (policy.name, policy.index, arguments)
    return Policy, tuple(getattr(policy, field.name) for field in fields(policy) if field.init)


def _unpickle_index(name: str, index: Any, arguments: dict[str, Any]) -> Policy:
    return index_policy(name, index, **arguments)


def format_call(policy: Policy) -> str:
    """Return a Python expression that creates the policy."""
    if policy.inner is not None:
        return f"max_n({format_call(policy.inner)})"
    scale = {} if policy.scale is None else {"scale": policy.scale}
    if named_spec(policy) is not None:
        return _format_expression(policy.name, {**policy.parameters, **scale})
    if policy.rule is None:
        return f"<Policy {policy.name!r}>"
    index: Any = policy.index
    defaults = {**StandardRule("runner-up", False)._asdict(), "rewards": "gaussian", "scale": None}
    defaults["parameters"] = policy.constants
    options = {k: v for k, v in index_arguments(policy).items() if v != defaults[k]}
    return _format_expression(
        "index_policy", {**options, **policy.constants}, repr(policy.name), index.__name__
    )


def _format_expression(function: str, options: dict[str, Any], *positional: str) -> str:
    return f"{function}({', '.join([*positional, *(f'{k}={v!r}' for k, v in options.items())])})"


def make_label(policy: Policy) -> str:
    """Return a short text for tables: the policy's name and the parameters that are not defaults.

    For example, "ucb" or "ucb:exploration=2".
    """
    if policy.inner is not None:
        return f"max_n:{make_label(policy.inner)}"
    if policy.is_python:
        return policy.name
    default_parameters = (
        POLICIES[policy.name]().parameters if policy.name in POLICIES else policy.parameters
    )
    options = {k: v for k, v in policy.parameters.items() if default_parameters.get(k) != v}
    if policy.scale is not None:
        options["scale"] = policy.scale
    words = [f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in options.items()]
    return f"{policy.name}:{','.join(words)}" if words else policy.name


# --------------------------------------------------------------------------- functions of the user


def locate_function(index: Any, name: str) -> tuple[str, str | None]:
    """Return the file that defines a top-level function, and its module if it is importable."""
    path = Path(inspect.getsourcefile(index) or "")
    condition = f"the index of {name} must be a top-level function of a module or file"
    if not path.is_file():
        raise ValueError(f"{condition}, but {index.__qualname__!r} is not in a file")
    if index.__qualname__ != index.__name__ or hash_text(path, index.__name__) is None:
        raise ValueError(f"{condition}, got {index.__qualname__!r}")
    module = index.__module__
    try:
        module_spec = importlib.util.find_spec(module) if module != "__main__" else None
    except (ImportError, ValueError):
        module_spec = None
    is_importable = (
        module_spec is not None
        and module_spec.origin is not None
        and Path(module_spec.origin) == path
    )
    return str(path.resolve()), module if is_importable else None


def import_function(spec: Spec) -> Any:
    """Return the function that a spec refers to; raise ValueError if it is missing or changed."""
    subject = f"the index of {spec['name']}, {spec['function']!r},"
    path = find_source_path(spec)
    if path is None:
        raise ValueError(
            f"{subject} cannot be found: no module {spec['module']!r} and no file {spec['file']!r}; "
            "restore the module or the file"
        )
    text_hash = hash_text(path, spec["function"])
    if text_hash is None:
        raise ValueError(f"{subject} is not defined in {short_repr(str(path))}; restore it")
    changed_message = (
        f"{subject} has changed in {short_repr(str(path))}; restore the version that was stored"
    )
    if (
        spec.get("text", text_hash) != text_hash
    ):  # specs stored by kibitz 0.2 or older have no text hash
        raise ValueError(changed_message)
    function = getattr(load_module(spec, path), spec["function"], None)
    function = getattr(function, "py_func", function)
    if not callable(function) or source_hash(function) != spec["source"]:
        raise ValueError(changed_message)
    return function


def find_source_path(spec: Spec) -> Path | None:
    """Return the file that defines the function of a spec, without executing the file."""
    if spec["module"] is not None:
        try:
            module_spec = importlib.util.find_spec(spec["module"])
        except (ImportError, ValueError):
            module_spec = None
        if (
            module_spec is not None
            and module_spec.origin is not None
            and Path(module_spec.origin).is_file()
        ):
            return Path(module_spec.origin)
    path = Path(spec["file"])
    return path if path.is_file() else None


def load_module(spec: Spec, path: Path) -> ModuleType:
    """Return the module that `path` defines; import it, or run the file, if it is not loaded yet."""
    if spec["module"] is not None:
        module_spec = importlib.util.find_spec(spec["module"])
        if module_spec is not None and module_spec.origin == str(path):
            return importlib.import_module(spec["module"])
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and Path(file).resolve() == path.resolve():
            return module
    name = f"kibitz_policy_{path.stem}"
    file_spec = importlib.util.spec_from_file_location(name, path)
    assert file_spec is not None
    assert file_spec.loader is not None
    module = importlib.util.module_from_spec(file_spec)
    sys.modules[name] = module
    try:
        file_spec.loader.exec_module(module)
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
    definitions: dict[str, ast.stmt] = {}
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        names += [node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
        definitions.update(dict.fromkeys(names, node))
    if not isinstance(definitions.get(name), ast.FunctionDef):
        return None
    dumps, pending = dict[str, str](), [name]
    while pending:
        current_name = pending.pop()
        if current_name in definitions and current_name not in dumps:
            node = definitions[current_name]
            for child in ast.walk(node):
                if isinstance(child, ast.FunctionDef) and ast.get_docstring(child) is not None:
                    child.body = child.body[1:]
            dumps[current_name] = ast.dump(node)
            pending += [child.id for child in ast.walk(node) if isinstance(child, ast.Name)]
    return hashlib.sha256(repr(sorted(dumps.items())).encode()).hexdigest()
