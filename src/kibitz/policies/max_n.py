r"""max_n: pull the best neighbour of the arm that another policy chooses.

A policy such as UCB chooses an arm i. On a graph, any arm that shows arm i would also provide the
observation that the policy asks for. `max_n` therefore pulls the arm with the largest mean among

.. math:: \{j : Q_{ji} > 0, \; Q_{ji} \ge Q_{ii}\},

the arms that show arm i at least as often as arm i shows itself; arm i belongs to this set. With UCB
this is UCB-MaxN (Caron, Kveton, Lelarge and Bhagat, 2012), and with Thompson sampling it is TS-MaxN
(Tossou, Dimitrakakis and Dubhashi, 2017). Both papers define the set for graphs, where Q is 0 or 1.
The policy must know the graph. In a tie, arm i comes first, then the lowest arm.
"""

from functools import cache
from typing import Any

import numpy as np

from kibitz._jit import jit
from kibitz._validation import invalid
from kibitz.policies.policy import NO_GRAPH, Graph, Policy, check_policy


def max_n(policy: Policy) -> Policy:
    """Return the policy that pulls the best arm among the arms that show the choice of `policy`.

    Parameters
    ----------
    policy
        A policy that learns from what a pull shows: an index policy such as `ucb()`, or `thompson()`.
    """
    functions: Any = check_policy(policy).on_graph
    choose: Any = policy.pull
    if functions is None or not functions.needs_loops or policy.inner is not None:
        raise invalid("policy", "an index policy such as ucb(), or thompson()", policy)
    return Policy(
        f"max_n({policy.name})",
        {**policy.constants, "graph": NO_GRAPH},
        policy.init,
        make_pull(choose),
        policy.look,
        policy.update,
        on_graph=functions._replace(pull=make_pull(functions.pull), view=None),
        rewards=policy.rewards,
        scale=policy.scale,
        parameters=policy.parameters,
        inner=policy,
    )


@jit
def probability(graph: Graph, pulled: int, arm: int) -> Any:
    """Return the probability that a pull of `pulled` shows `arm`, found by bisection of the row."""
    if pulled == arm:
        return graph.own[arm]
    low, end = graph.offsets[pulled], graph.offsets[pulled + 1]
    high = end
    while low < high:
        middle = (low + high) // 2
        if graph.arms[middle] < arm:
            low = middle + 1
        else:
            high = middle
    return graph.probabilities[low] if low < end and graph.arms[low] == arm else 0.0


@cache
def make_pull(choose: Any) -> Any:
    """Return the `pull` of `max_n`; `choose` is the `pull` of the original policy."""

    def pull(params: Any, state: Any, stage: int, rng: Any) -> Any:
        """Return the arm with the largest mean among the arms that show the chosen arm."""
        graph, stats = params.graph, state.statistics
        best_arm = chosen_arm = choose(params, state, stage, rng)
        n = stats.n_observed[chosen_arm]
        largest_mean = stats.sums[chosen_arm] / n if n > 0 else -np.inf
        for arm in range(graph.own.size):
            n = stats.n_observed[arm]
            if n > 0 and stats.sums[arm] / n > largest_mean:
                shown = probability(graph, arm, chosen_arm)
                if shown > 0 and shown >= graph.own[chosen_arm]:
                    best_arm, largest_mean = arm, stats.sums[arm] / n
        return best_arm

    return jit(pull)
