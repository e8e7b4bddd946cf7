r"""scout: our own policy for graphs. It pulls the arm with the lowest price per unit of information.

scout first pulls arms that show unobserved arms, at each stage the arm that shows most of them on
average; in a tie, it prefers the larger mean. Then let L be the arm with the largest mean and t the
stage. For each other arm k, with O_k observations and mean \bar X_k, let

.. math:: s_k^2 = 1/O_k + 1/O_L, \quad z_k = (\bar X_L - \bar X_k)/s_k, \quad g_k = \varphi(z_k)/s_k,

where \varphi is the normal density. The expected loss of a stage through ignorance is about
\rho = c \sum_k s_k \varphi(z_k), where c is a parameter of scout, and one more observation of arm m
reduces it by about

.. math:: w_k = \frac{g_k}{O_k (O_k + 1)} \; (k \ne L), \qquad
   w_L = \sum_{k \ne L} \frac{g_k}{O_L (O_L + 1)} .

Let Q_jm be the probability that a pull of arm j shows arm m. The information of a pull of arm j is

.. math:: G_j = \sum_m Q_{jm} w_m + 1\{j = L\} \sum_{k \ne L} \frac{w_k}{s_k^2 \, t} ,

and scout pulls the arm with the smallest price (\rho + \bar X_L - \bar X_j) / G_j. The last sum of
G_L favours L, because the other arms can also be explored later. An arm with a low
mean is thus pulled if it shows many arms, and scout can learn about an arm that hides its own
reward through other arms. scout needs neither the horizon nor self-loops. No theorem covers scout.

By default scout learns the graph. Let N_j be the number of pulls of arm j, and S_jm the number of
these pulls that showed arm m. scout estimates Q_jm by (S_jm + 1/16) / (N_j + 1/8) for j \ne m, and by
(S_jj + 1/8) / (N_j + 1/8) for j = m. It thus expects that an arm that was never pulled shows each
other arm with probability 1/2, and gives this prior the weight of an eighth of a pull. With a larger
weight, scout pulls many arms several times for information that they do not have. With
`informed=True`, the simulation passes the graph to the policy.

With active looks, scout looks at unobserved arms first, from the last arm to the first, and then at
the arm k \ne L with the smallest IMED index O_k (\bar X_L - \bar X_k)^2 / 2 + \log O_k (Honda and
Takemura, 2015).
"""

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from kibitz._jit import jit
from kibitz._validation import flag, one_of, positive
from kibitz.policies import scout_kibitzer
from kibitz.policies.kibitzer import find_leader
from kibitz.policies.policy import (
    NO_GRAPH,
    Array,
    GraphFunctions,
    Policy,
    Statistics,
    check_scale,
    new_statistics,
)
from kibitz.policies.scout_kibitzer import (
    PRIOR_WEIGHT,
    hide,
    show as count_show,
    update as count_pull,
)

RULES = ("price", "kibitzer")
MAX_ARMS = 2000  # the estimate of the graph takes memory for the square of the number of arms
C_WITH_LOOPS, C_WITHOUT_LOOPS = 0.5, 1.0  # the default c: all pulls show their own reward, or not
NORMAL_FACTOR = 1 / math.sqrt(2 * math.pi)


def scout(
    c: float | None = None, informed: bool = False, scale: float | None = None, rule: str = "price"
) -> Policy:
    """Return scout, our own policy for graphs, which is not in the paper.

    Parameters
    ----------
    c
        The constant c of the price. A larger c makes a large regret less likely; a smaller c reduces
        the mean regret. Default: 0.5, or 1 if pulls hide their own reward.
    informed
        Whether the policy knows the graph. Default: the policy learns the graph, which needs at most
        2000 arms.
    scale
        The sub-Gaussian scale of the rewards. Default: the scale of the problem.
    rule
        "price", or "kibitzer", which explores when kibitzer does
        (`kibitz.policies.scout_kibitzer`). "kibitzer" has a lower regret if pulls show their own
        rewards; it has no constant c, and rejects graphs on which an arm never shows its own reward.
    """
    c_value = None if c is None else positive(c, "c")
    is_informed = flag(informed, "informed")
    if one_of(rule, "rule", RULES) == "kibitzer":
        if c is not None:
            raise ValueError("c is a constant of rule='price'; omit it with rule='kibitzer'")
        return _make_kibitzer_rule(is_informed, scale)
    constants: dict[str, Any] = {"c": 0.0 if c_value is None else c_value}
    if is_informed:
        constants["graph"] = NO_GRAPH
    pull = make_pull(is_informed)
    return Policy(
        "scout",
        constants,
        init_informed if is_informed else init,
        pull,
        look,
        update,
        on_graph=GraphFunctions(pull, look, None, show, hide, needs_loops=False),
        max_arms=None if is_informed else MAX_ARMS,
        scale=check_scale(scale),
        parameters={"c": c_value, "informed": is_informed, "rule": "price"},
    )


def _make_kibitzer_rule(is_informed: bool, scale: float | None) -> Policy:
    """Return scout with the rule "kibitzer"."""
    constants: dict[str, Any] = {"b": scout_kibitzer.B, "beta": scout_kibitzer.BETA}
    if is_informed:
        constants["graph"] = NO_GRAPH
    rule_pull = scout_kibitzer.make_pull(is_informed)
    return Policy(
        "scout",
        constants,
        scout_kibitzer.init_informed if is_informed else scout_kibitzer.init,
        rule_pull,
        look,
        count_pull,
        on_graph=GraphFunctions(rule_pull, look, None, count_show, hide),
        max_arms=None if is_informed else MAX_ARMS,
        scale=check_scale(scale),
        parameters={"c": None, "informed": is_informed, "rule": "kibitzer"},
    )


# The rows of `State.terms`: 1 if the arm is unobserved, w_k, g_k, s_k phi(z_k), and w_k / s_k^2.
UNOBSERVED, WEIGHT, SLOPE, LOSS, RATE = range(5)


class State(NamedTuple):
    """The statistics of all observations, the learned graph, and the terms of the price.

    `update` and `show` keep the terms up to date, so `pull` computes no exponentials. They take
    constant time, because a pull can show all arms. Only an observation that is of the leader, or
    that changes the leader, takes longer.
    """

    statistics: Statistics
    n_shown: Array  # (pulled arm, shown arm); empty if the policy knows the graph
    terms: Array  # (term, arm); all but the first are undefined for the leader and before it is known
    n_unobserved: Array  # one number
    leader: Array  # the leader for which the terms were computed; -1 before they are computed


@jit(allocates=True)
def init(params: Any, n_arms: int) -> State:
    """Return the state before any observation."""
    terms = np.zeros((5, n_arms))
    terms[UNOBSERVED] = 1.0
    n_shown, leader = np.zeros((n_arms, n_arms)), np.full(1, -1, np.int64)
    return State(new_statistics(n_arms, 0), n_shown, terms, np.full(1, n_arms), leader)


@jit(allocates=True)
def init_informed(params: Any, n_arms: int) -> State:
    """Return the state before any observation, for a policy that knows the graph."""
    terms = np.zeros((5, n_arms))
    terms[UNOBSERVED] = 1.0
    n_shown, leader = np.zeros((0, 0)), np.full(1, -1, np.int64)
    return State(new_statistics(n_arms, 0), n_shown, terms, np.full(1, n_arms), leader)


@jit
def sum_learned(
    params: Any, state: State, pulled: int, values: Array, leader: int, leader_value: float
) -> float:
    """Return the expected sum of the values of the arms that a pull shows, with the learned graph.

    This is the sum over all arms of the estimated probability that a pull of `pulled` shows the arm,
    times the value of the arm. The value of the leader is `leader_value`.
    """
    total, shown = 0.0, 0.0
    for arm in range(values.size):
        value = leader_value if arm == leader else values[arm]
        total += value
        shown += state.n_shown[pulled, arm] * value
    n_pulls = state.statistics.n_pulls[pulled]
    prior = PRIOR_WEIGHT / 2 * (total + (leader_value if pulled == leader else values[pulled]))
    return (shown + prior) / (n_pulls + PRIOR_WEIGHT)


@jit
def hides_learned(params: Any, state: State) -> bool:
    """Return whether any pull so far has hidden its own reward."""
    n_pulls = state.statistics.n_pulls
    for arm in range(n_pulls.size):  # noqa: SIM110 (numba does not support any())
        if state.n_shown[arm, arm] < n_pulls[arm]:
            return True
    return False


@jit
def sum_informed(
    params: Any, state: State, pulled: int, values: Array, leader: int, leader_value: float
) -> float:
    """Return the same sum as `sum_learned`, with the known probabilities of the graph."""
    graph = params.graph
    total = graph.own[pulled] * (leader_value if pulled == leader else values[pulled])
    for edge in range(graph.offsets[pulled], graph.offsets[pulled + 1]):
        arm = graph.arms[edge]
        total += graph.probabilities[edge] * (leader_value if arm == leader else values[arm])
    return total


@jit
def hides_informed(params: Any, state: State) -> bool:
    """Return whether a pull of any arm may hide its own reward."""
    own = params.graph.own
    for arm in range(own.size):  # noqa: SIM110 (numba does not support any())
        if own[arm] < 1:
            return True
    return False


@jit
def compute_terms(state: State, leader: int, arm: int) -> None:
    """Compute the terms of the price for an arm that is not the leader."""
    stats, terms = state.statistics, state.terms
    n, n_leader = float(stats.n_observed[arm]), float(stats.n_observed[leader])
    variance = 1 / n + 1 / n_leader
    gap = stats.sums[leader] / n_leader - stats.sums[arm] / n
    density = NORMAL_FACTOR * math.exp(-gap * gap / (2 * variance))
    terms[SLOPE, arm] = density / math.sqrt(variance)
    terms[LOSS, arm] = math.sqrt(variance) * density
    terms[WEIGHT, arm] = terms[SLOPE, arm] / (n * (n + 1))
    terms[RATE, arm] = terms[WEIGHT, arm] / variance


@jit
def refresh(state: State, observed_arm: int) -> None:
    """Update the terms of the price after observations of an arm."""
    stats, terms = state.statistics, state.terms
    if terms[UNOBSERVED, observed_arm] > 0:
        terms[UNOBSERVED, observed_arm] = 0.0
        state.n_unobserved[0] -= 1
    if state.n_unobserved[0] > 0:
        return
    leader = state.leader[0]
    if leader >= 0 and leader != observed_arm:
        mean = stats.sums[observed_arm] / stats.n_observed[observed_arm]
        best_mean = stats.sums[leader] / stats.n_observed[leader]
        if mean < best_mean or (mean == best_mean and observed_arm > leader):
            compute_terms(state, leader, observed_arm)
            return
    leader = state.leader[0] = find_leader(stats)
    for arm in range(stats.sums.size):
        if arm != leader:
            compute_terms(state, leader, arm)


@cache
def make_pull(informed: bool) -> Any:
    """Return the function `pull` of a policy that knows the graph (`informed`) or learns it."""
    sum_shown = sum_informed if informed else sum_learned
    hides = hides_informed if informed else hides_learned

    def pull(params: Any, state: State, stage: int, rng: Any) -> Any:
        """Return the arm that shows the most unobserved arms, else the arm with the lowest price."""
        stats = state.statistics
        n_arms = stats.sums.size
        if state.leader[0] < 0:  # some arms are unobserved
            best_arm, best_value, best_mean = 0, -1.0, -np.inf
            for arm in range(n_arms):
                value = sum_shown(params, state, arm, state.terms[UNOBSERVED], -1, 0.0)
                n = stats.n_observed[arm]
                mean = stats.sums[arm] / n if n > 0 else -np.inf
                if value > best_value or (value == best_value and mean > best_mean):
                    best_arm, best_value, best_mean = arm, value, mean
            return best_arm
        c = params.c
        if c == 0:
            c = C_WITHOUT_LOOPS if hides(params, state) else C_WITH_LOOPS
        best_arm = leader = state.leader[0]
        slope, loss, rate = 0.0, 0.0, 0.0
        for arm in range(n_arms):
            if arm != leader:
                slope += state.terms[SLOPE, arm]
                loss += state.terms[LOSS, arm]
                rate += state.terms[RATE, arm]
        n_leader = float(stats.n_observed[leader])
        leader_weight = slope / (n_leader * (n_leader + 1))
        best_mean, lowest_price = stats.sums[leader] / n_leader, np.inf
        rho, later = c * loss, rate / stage
        for arm in range(n_arms):
            information = sum_shown(params, state, arm, state.terms[WEIGHT], leader, leader_weight)
            if arm == leader:
                information += later
            if information > 0:
                gap = best_mean - stats.sums[arm] / stats.n_observed[arm]
                price = (rho + gap) / information
                if price < lowest_price:
                    best_arm, lowest_price = arm, price
        return best_arm

    return jit(pull)


@jit
def look(params: Any, state: State, stage: int, rng: Any) -> int:
    """Return the last unobserved arm, or else the arm with the smallest IMED index."""
    stats = state.statistics
    leader = find_leader(stats)
    for arm in range(stats.sums.size - 1, -1, -1):
        if stats.n_observed[arm] == 0:
            return arm
    best_mean = stats.sums[leader] / stats.n_observed[leader]
    best_arm, smallest = 0 if leader > 0 else 1, np.inf
    for arm in range(stats.sums.size):
        if arm != leader:
            n = stats.n_observed[arm]
            value = n * (best_mean - stats.sums[arm] / n) ** 2 / 2 + math.log(n)
            if value < smallest:
                best_arm, smallest = arm, value
    return best_arm


@jit
def update(
    params: Any, state: State, stage: int, arm: int, n: int, total: float, is_look: bool
) -> State:
    """Count observations; a pull whose reward is reported here has shown its own arm."""
    count_pull(params, state, stage, arm, n, total, is_look)
    refresh(state, arm)
    return state


@jit
def show(params: Any, state: State, stage: int, pulled: int, arm: int, n: int, total: float) -> State:
    """Learn from what a pull showed, about the shown arm and about the graph."""
    count_show(params, state, stage, pulled, arm, n, total)
    refresh(state, arm)
    return state
