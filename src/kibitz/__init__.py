"""Bandits that sometimes get to look.

See `simulate` and `sweep`; `gaussian`, `bernoulli` and `table` for problems; `bandit`, `passive`,
`active` and `full` for who sees what; `kibitz.policies` for the players; `kibitz.bounds` for what is
proved about them; `plan` for what a bucket of looks is worth.
"""

from importlib import import_module
from typing import Any

_HOME = {
    "kibitz.model.problem": ["Problem", "gaussian", "bernoulli", "table"],
    "kibitz.model.feedback": ["Feedback", "bandit", "passive", "active", "full", "every"],
    "kibitz.policies": [
        "Policy",
        "index_policy",
        "ftl",
        "ftl_robin",
        "ucb",
        "ucb_double",
        "ucb_second",
        "ocucb",
        "etc",
        "etc_ocucb",
        "ucb2",
        "improved_ucb",
        "moss",
        "moss_anytime",
        "kl_ucb",
        "thompson",
    ],
    "kibitz.simulator.simulate": ["simulate", "sweep"],
    "kibitz.planning.planner": ["plan"],
    "kibitz.policies.contract": ["check"],
    "kibitz.live.agent": ["agent"],
    "kibitz.live.turn": ["Conflict", "Decision"],
    "kibitz.live.logged": ["from_log"],
}
_WHERE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [*(name for names in _HOME.values() for name in names), "bounds"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `kibitz --help` need not wait for numba."""
    if name == "bounds":
        return import_module("kibitz.bounds")
    if name not in _WHERE:
        raise AttributeError(f"module 'kibitz' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
