"""Stochastic bandits with side observations.

- Problems: `gaussian`, `bernoulli`, `empirical`, `from_scipy`, `random_problems`; `changing` and
  `drifting` for problems that change with time.
- Feedback: `bandit`, `passive`, `active`, `full`, `graph`.
- Policies: `kibitzer`, `ucb` and others (`kibitz.policies`); `index_policy` for a new index,
  `python_policy` for any Python object.
- Simulation: `simulate`, `sweep`, `race`, which draws the regret while it simulates, and `trace`,
  which returns one run stage by stage.
- Evaluation: `compare` (paired differences and tests), `league`, and figures (`kibitz.plot`).
- Theory: `kibitz.bounds`, `plan` (how much looks are worth), `bayes_optimal`.
- Live traffic: `agent`, `Client` and `AsyncClient` for agents behind an HTTP service, `rehearse`,
  which tests an agent on simulated traffic, and `evaluate`, which estimates what another policy would
  have earned.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from kibitz._progress import show_progress

if TYPE_CHECKING:  # for type checkers and editors; Python itself uses `_NAMES` below
    from kibitz import bounds as bounds, plot as plot
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
    from kibitz.evaluation.compare import compare as compare
    from kibitz.evaluation.league import league as league
    from kibitz.live.agent.agent import Agent as Agent, agent as agent
    from kibitz.live.agent.evaluate import evaluate as evaluate
    from kibitz.live.agent.from_log import from_log as from_log
    from kibitz.live.agent.rehearse import rehearse as rehearse
    from kibitz.live.agent.report import format_report as format_report
    from kibitz.live.events import Decision as Decision, Event as Event
    from kibitz.live.service.async_client import AsyncClient as AsyncClient
    from kibitz.live.service.client import Client as Client
    from kibitz.model.feedback import (
        Feedback as Feedback,
        active as active,
        bandit as bandit,
        every as every,
        full as full,
        graph as graph,
        passive as passive,
    )
    from kibitz.model.problem import (
        Problem as Problem,
        bernoulli as bernoulli,
        changing as changing,
        drifting as drifting,
        empirical as empirical,
        gaussian as gaussian,
        random_problems as random_problems,
    )
    from kibitz.model.scipy_problem import from_scipy as from_scipy
    from kibitz.planning.changes import plan_changes as plan_changes
    from kibitz.planning.planner import plan as plan
    from kibitz.plotting.race import race as race
    from kibitz.policies.bayes_ucb import bayes_ucb as bayes_ucb
    from kibitz.policies.epsilon_greedy import epsilon_greedy as epsilon_greedy
    from kibitz.policies.etc import etc as etc
    from kibitz.policies.etc_ocucb import etc_ocucb as etc_ocucb
    from kibitz.policies.forgetting_ucb import d_ucb as d_ucb, sw_ucb as sw_ucb
    from kibitz.policies.ftl import ftl as ftl, ftl_robin as ftl_robin
    from kibitz.policies.glr_ucb import glr_ucb as glr_ucb
    from kibitz.policies.imed import imed as imed
    from kibitz.policies.improved_ucb import improved_ucb as improved_ucb
    from kibitz.policies.index_policy import index_policy as index_policy
    from kibitz.policies.kibitzer import kibitzer as kibitzer
    from kibitz.policies.kl_ucb import kl_ucb as kl_ucb
    from kibitz.policies.lookout import lookout as lookout
    from kibitz.policies.max_n import max_n as max_n
    from kibitz.policies.moss import moss as moss, moss_anytime as moss_anytime
    from kibitz.policies.ocucb import ocucb as ocucb
    from kibitz.policies.policy import Policy as Policy
    from kibitz.policies.python_policy import python_policy as python_policy
    from kibitz.policies.scout import scout as scout
    from kibitz.policies.thompson import thompson as thompson
    from kibitz.policies.top_two_thompson import top_two_thompson as top_two_thompson
    from kibitz.policies.ucb import ucb as ucb, ucb_double as ucb_double, ucb_second as ucb_second
    from kibitz.policies.ucb2 import ucb2 as ucb2
    from kibitz.simulation.check import check as check
    from kibitz.simulation.gym_env import gym_env as gym_env
    from kibitz.simulation.results.export import to_pandas as to_pandas, to_parquet as to_parquet
    from kibitz.simulation.simulate import simulate as simulate
    from kibitz.simulation.sweep import sweep as sweep
    from kibitz.simulation.trace import trace as trace

__version__: str

_NAMES = {
    "kibitz": "bounds plot",
    "kibitz._errors": "Error CompileError Conflict UnknownAgent UnknownDecision "
    "StoreDamaged StoreUnavailable",
    "kibitz.model.problem": "Problem gaussian bernoulli empirical changing drifting random_problems",
    "kibitz.model.feedback": "Feedback bandit passive active full graph every",
    "kibitz.model.scipy_problem": "from_scipy",
    "kibitz._jit": "jit",
    "kibitz.policies.policy": "Policy",
    "kibitz.policies.index_policy": "index_policy",
    "kibitz.policies.python_policy": "python_policy",
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
    "kibitz.policies.epsilon_greedy": "epsilon_greedy",
    "kibitz.policies.imed": "imed",
    "kibitz.policies.bayes_ucb": "bayes_ucb",
    "kibitz.policies.top_two_thompson": "top_two_thompson",
    "kibitz.policies.kibitzer": "kibitzer",
    "kibitz.policies.scout": "scout",
    "kibitz.policies.lookout": "lookout",
    "kibitz.policies.forgetting_ucb": "sw_ucb d_ucb",
    "kibitz.policies.glr_ucb": "glr_ucb",
    "kibitz.policies.max_n": "max_n",
    "kibitz.simulation.results.export": "to_pandas to_parquet",
    "kibitz.simulation.simulate": "simulate",
    "kibitz.simulation.sweep": "sweep",
    "kibitz.simulation.trace": "trace",
    "kibitz.simulation.gym_env": "gym_env",
    "kibitz.plotting.race": "race",
    "kibitz.planning.planner": "plan",
    "kibitz.planning.changes": "plan_changes",
    "kibitz.evaluation.bayes_optimal": "bayes_optimal",
    "kibitz.evaluation.compare": "compare",
    "kibitz.evaluation.league": "league",
    "kibitz.simulation.check": "check",
    "kibitz.live.agent.agent": "Agent agent",
    "kibitz.live.agent.evaluate": "evaluate",
    "kibitz.live.agent.from_log": "from_log",
    "kibitz.live.agent.rehearse": "rehearse",
    "kibitz.live.agent.report": "format_report",
    "kibitz.live.events": "Decision Event",
    "kibitz.live.service.client": "Client",
    "kibitz.live.service.async_client": "AsyncClient",
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
        with show_progress(None, f"importing kibitz.{name}"):  # numba takes a second or more
            return getattr(import_module(_MODULES[name]), name)
