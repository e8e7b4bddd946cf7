"""Stochastic bandits with side observations.

- Problems: `gaussian`, `bernoulli`, `empirical`, `random_problems`.
- Feedback: `bandit`, `passive`, `active`, `full`.
- Policies: `kibitzer`, `ucb` and others (`kibitz.policies`); `index_policy` for a new index.
- Simulation: `simulate`, `sweep`, and `race`, which draws the regret while it simulates.
- Theory: `kibitz.bounds`, `plan` (how much looks are worth), `bayes_optimal`.
- Live traffic: `agent`, and `Client` for agents behind an HTTP service; `evaluate` says what another
  policy would have earned.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # for type checkers and editors; Python itself uses `_NAMES` below
    from kibitz import bounds as bounds
    from kibitz._errors import (
        CompileError as CompileError,
        Conflict as Conflict,
        Error as Error,
        StoreDamaged as StoreDamaged,
        StoreUnavailable as StoreUnavailable,
        UnknownAgent as UnknownAgent,
        UnknownDecision as UnknownDecision,
    )
    from kibitz._jit import jit as jit
    from kibitz.evaluation.bayes_optimal import bayes_optimal as bayes_optimal
    from kibitz.live.agent.agent import Agent as Agent, agent as agent
    from kibitz.live.agent.evaluate import evaluate as evaluate
    from kibitz.live.agent.from_log import from_log as from_log
    from kibitz.live.events import Decision as Decision, Event as Event
    from kibitz.live.service.client import Client as Client
    from kibitz.model.feedback import (
        Feedback as Feedback,
        active as active,
        bandit as bandit,
        every as every,
        full as full,
        passive as passive,
    )
    from kibitz.model.problem import (
        Problem as Problem,
        bernoulli as bernoulli,
        empirical as empirical,
        gaussian as gaussian,
        random_problems as random_problems,
    )
    from kibitz.planning.planner import plan as plan
    from kibitz.plotting.race import race as race
    from kibitz.policies.etc import etc as etc
    from kibitz.policies.etc_ocucb import etc_ocucb as etc_ocucb
    from kibitz.policies.ftl import ftl as ftl, ftl_robin as ftl_robin
    from kibitz.policies.improved_ucb import improved_ucb as improved_ucb
    from kibitz.policies.index_policy import index_policy as index_policy
    from kibitz.policies.kibitzer import kibitzer as kibitzer
    from kibitz.policies.kl_ucb import kl_ucb as kl_ucb
    from kibitz.policies.moss import moss as moss, moss_anytime as moss_anytime
    from kibitz.policies.ocucb import ocucb as ocucb
    from kibitz.policies.policy import Policy as Policy
    from kibitz.policies.thompson import thompson as thompson
    from kibitz.policies.ucb import ucb as ucb, ucb_double as ucb_double, ucb_second as ucb_second
    from kibitz.policies.ucb2 import ucb2 as ucb2
    from kibitz.simulation.check import check as check
    from kibitz.simulation.simulate import simulate as simulate
    from kibitz.simulation.sweep import sweep as sweep

__version__: str

_NAMES = {
    "kibitz": "bounds",
    "kibitz._errors": "Error CompileError Conflict UnknownAgent UnknownDecision "
    "StoreDamaged StoreUnavailable",
    "kibitz.model.problem": "Problem gaussian bernoulli empirical random_problems",
    "kibitz.model.feedback": "Feedback bandit passive active full every",
    "kibitz._jit": "jit",
    "kibitz.policies.policy": "Policy",
    "kibitz.policies.index_policy": "index_policy",
    "kibitz.policies.ftl": "ftl ftl_robin",
    "kibitz.policies.ucb": "ucb ucb_double ucb_second",
    "kibitz.policies.ocucb": "ocucb",
    "kibitz.policies.etc": "etc",
    "kibitz.policies.etc_ocucb": "etc_ocucb",
    "kibitz.policies.ucb2": "ucb2",
    "kibitz.policies.improved_ucb": "improved_ucb",
    "kibitz.policies.moss": "moss moss_anytime",
    "kibitz.policies.kl_ucb": "kl_ucb",
    "kibitz.policies.thompson": "thompson",
    "kibitz.policies.kibitzer": "kibitzer",
    "kibitz.simulation.simulate": "simulate",
    "kibitz.simulation.sweep": "sweep",
    "kibitz.plotting.race": "race",
    "kibitz.planning.planner": "plan",
    "kibitz.evaluation.bayes_optimal": "bayes_optimal",
    "kibitz.simulation.check": "check",
    "kibitz.live.agent.agent": "Agent agent",
    "kibitz.live.agent.evaluate": "evaluate",
    "kibitz.live.agent.from_log": "from_log",
    "kibitz.live.events": "Decision Event",
    "kibitz.live.service.client": "Client",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = list(_MODULES)


def __dir__() -> list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:  # with `__getattr__`, type checkers would accept any attribute

    def __getattr__(name):
        """Import a public name at its first use, so that `kibitz --help` does not import numba."""
        if name == "__version__":
            from importlib.metadata import version

            return version("kibitz")
        if name not in _MODULES:
            module = sys.modules[__name__]  # lets Python suggest a similar name
            raise AttributeError(f"module 'kibitz' has no attribute {name!r}", name=name, obj=module)
        if _MODULES[name] == "kibitz":
            return import_module(f"kibitz.{name}")
        return getattr(import_module(_MODULES[name]), name)
