"""The fingerprint of a result: everything its numbers depend on, as plain data.

The fingerprint holds the problem, the feedback, the policy (name, parameters, scale, and a hash of
the source of your own functions or the revision of a built-in policy), the horizon, the seed, the
engine, the engine's revision and, for leaps, the allowed error. It leaves out library versions and
file locations, so a saved result can be resumed after an upgrade. Versions are part of the key of the
compiled-code cache instead (`engine.cache`).
"""

import json
from typing import Any

from kibitz._hashing import source_hash
from kibitz.model.feedback import Feedback
from kibitz.model.problem import Problem
from kibitz.policies import POLICIES
from kibitz.policies.policy import Policy
from kibitz.policies.spec import named_spec

#: The revision of each engine. Increase it when the numbers of that engine change.
REVISION = {"step": 2, "leap": 3, "python": 1}
#: The revision of each built-in policy. Increase it when the numbers of only that policy change.
POLICY_REVISION = {"kibitzer": 2}


def fingerprint(
    problem: Problem,
    feedback: Feedback,
    policy: Policy,
    horizon: int,
    seed: int,
    leap: bool,
    error: float,
) -> dict[str, Any]:
    """Return everything that the numbers of a run depend on, as plain data."""
    engine = "python" if policy.is_python else "leap" if leap else "step"
    policy_data = {
        "name": policy.name,
        "parameters": policy.parameters,
        "scale": policy.scale_for(problem.scale),
    }
    if policy.is_python:  # its label and version, in `parameters`, stand for its code
        pass
    elif named_spec(policy) is None:
        policy_data["source"] = source_hash(policy.functions)[:16]
    elif policy.name in POLICY_REVISION:
        policy_data["revision"] = POLICY_REVISION[policy.name]
    fields = {
        "problem": problem.spec,
        "feedback": feedback.spec,
        "policy": policy_data,
        "horizon": horizon,
        "seed": seed,
        "revision": REVISION[engine],
        "engine": engine,
        **({"error": error} if leap else {}),
    }
    plain_data: dict[str, Any] = json.loads(json.dumps(fields))
    return plain_data


def difference(old: dict[str, Any], new: dict[str, Any]) -> str | None:
    """Return a description of the first difference between two fingerprints, or None if they agree.

    `old` is the fingerprint of saved runs, and `new` is the fingerprint of the requested runs.
    """
    if new["engine"] == "python" and new["policy"]["parameters"]["label"] is None:
        return "runs of a Python policy without an explicit label (pass label= to python_policy)"
    old = _translate(old, new)
    if "revision" not in old:
        return _difference_from_0_1_0(old, new)
    if "source" not in new["policy"]:  # builds before 0.2.0 stored "source" for every policy
        old = {**old, "policy": {k: v for k, v in old["policy"].items() if k != "source"}}
    return _first_difference(old, new)


def _translate(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return the fingerprint `old` with the names of format 3; formats 1 and 2 used other names."""
    if "law" not in old["problem"]:
        return old
    problem = dict(old["problem"])
    old_kind = problem.pop("law")
    new_names = {"law": "rewards", "ignore_free": "ignore_looks"}
    parameters = {new_names.get(k, k): v for k, v in old["policy"]["parameters"].items()}
    if parameters.get("rewards") == "bernoulli":  # "bernoulli" also stood for "bounded"
        parameters["rewards"] = new["policy"]["parameters"].get("rewards")
    return {
        **old,
        "problem": {"kind": "empirical" if old_kind == "table" else old_kind, **problem},
        "policy": {**old["policy"], "parameters": parameters},
    }


def _first_difference(old: Any, new: Any, path: str = "") -> str | None:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**new, **old}:
            key_path = f"{path}.{key}" if path else str(key)
            found_difference = _first_difference(old.get(key), new.get(key), key_path)
            if found_difference:
                return found_difference
        return None
    return None if old == new else f"{path} = {old!r} instead of {new!r}"


def _difference_from_0_1_0(old: dict[str, Any], new: dict[str, Any]) -> str | None:
    """Return the reason why runs of kibitz 0.1.0 cannot be resumed, or None if they can be resumed.

    kibitz 0.1.0 identified functions by their bytecode, and its policies ignored the scale.
    """
    policy = new["policy"]
    parameters = dict(old["policy"]["parameters"])
    scale = float(parameters.pop("sd", parameters.pop("scale", 1.0)))
    function_data = [
        field_value for field_value in old["feedback"].values() if isinstance(field_value, dict)
    ]
    if policy["name"] not in POLICIES or any(
        "content" in field_value for field_value in function_data
    ):
        return "your own functions, which kibitz 0.1.0 identified by their bytecode"
    if "leap" in (old["engine"], new["engine"]):
        return "leaps of kibitz 0.1.0, which drew different random numbers"
    if policy["scale"] != 1 or scale != 1:
        return (
            f"unscaled rewards, as in kibitz 0.1.0, instead of rewards in units of their scale "
            f"{policy['scale']:g} (policies with scale=1 give the old numbers)"
        )
    old_data = {**old, "policy": {"name": old["policy"]["name"], "parameters": parameters}}
    new_data = {key: value for key, value in new.items() if key != "revision"}
    new_data["policy"] = {"name": policy["name"], "parameters": policy["parameters"]}
    return _first_difference(old_data, new_data)
