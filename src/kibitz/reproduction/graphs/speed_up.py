"""Bandits on a social network, in which a pull of an arm also shows the neighbours of the arm.

Source: Caron et al. (2012) measure the speed-up on Flixster and Facebook.

Measured: whether every policy on the graph has at most half of the regret of the same policy without
the graph; whether UCB-MaxN has a lower regret than UCB-N; and whether the regret falls as the graph
becomes denser. The graph is a stand-in for the networks of the source, which we do not have: groups
of arms with similar means, with many edges inside a group and few between groups.
"""

from itertools import pairwise
from typing import Any

import numpy as np

from kibitz.model.feedback import Feedback, bandit, graph
from kibitz.model.problem import Problem, bernoulli
from kibitz.plotting.picture import Panel, Picture, band, error_bars, typeset
from kibitz.policies.kibitzer import kibitzer
from kibitz.policies.max_n import max_n
from kibitz.policies.policy import Policy
from kibitz.policies.thompson import thompson
from kibitz.policies.ucb import ucb
from kibitz.reproduction import Data, Files
from kibitz.reproduction.verdict import (
    Statement,
    Table,
    Verdict,
    all_hold,
    is_above,
    is_below,
    judge,
    mean,
    ratio,
)
from kibitz.simulation.simulate import simulate
from kibitz.simulation.sweep import sweep

TITLE = "Speed-up by a social network"
SOURCE = "Caron et al. (2012) measure the speed-up on Flixster and Facebook"
CLAIM = (
    "If a pull also shows the neighbours of the arm in a social network, policies learn several "
    "times faster, UCB-MaxN faster than UCB-N, and the faster the denser the network is."
)
#: Number of groups, and number of arms in each group.
N_GROUPS, GROUP_SIZE = 6, 10
#: Probability of an edge between two arms of a group, and between arms of different groups.
INSIDE, ACROSS = 0.8, 0.03
#: Values of the probability of an edge inside a group, from sparse to dense networks.
DENSITIES = (0.1, 0.2, 0.4, 0.8)
#: Seed of the network and of the means.
NETWORK_SEED = 12
#: Number of stages, T.
HORIZON = 30_000
#: Number of runs of each policy.
RUNS = 100
UCB1 = 8.0  #: The constant of UCB1 for rewards in [0, 1], in units of their scale.
MIN_FACTOR = 2.0  #: Smallest factor between the regret without and with the graph.


def make_policies() -> dict[str, Policy]:
    """Return the policies that do not use the graph to choose an arm, by label."""
    return {"UCB": ucb(UCB1), "TS": thompson(rewards="bernoulli"), "kibitzer": make_kibitzer()}


def make_kibitzer() -> Policy:
    """Return kibitzer for Bernoulli rewards."""
    return kibitzer(rewards="bernoulli")


def make_graph_policies() -> dict[str, Policy]:
    """Return the policies on the graph, by label."""
    return {
        **{f"{label}-N": policy for label, policy in make_policies().items()},
        "UCB-MaxN": max_n(ucb(UCB1)),
    }


def make_problem() -> Problem:
    """Return Bernoulli arms whose means are similar within a group."""
    rng = np.random.default_rng(NETWORK_SEED)
    group_means = np.repeat(rng.random(N_GROUPS), GROUP_SIZE)
    return bernoulli(
        (0.1 + 0.25 * group_means + 0.25 * rng.random(N_GROUPS * GROUP_SIZE)).round(4)
    )  # fmt: skip


def make_feedback(inside: float) -> Feedback:
    """Return the feedback of an undirected network, given the probability of an edge in a group.

    A denser network contains the edges of each sparser network.
    """
    n_arms = N_GROUPS * GROUP_SIZE
    uniform = np.random.default_rng([NETWORK_SEED, 1]).random((n_arms, n_arms))
    group = np.arange(n_arms) // GROUP_SIZE
    edges = np.triu(uniform < np.where(group[:, None] == group, inside, ACROSS), 1)
    return graph(edges | edges.T, loops=True)


def run(file: Files, **options: Any) -> Data:
    """Simulate policies without and with the network, and on networks of other densities."""
    problem = make_problem()
    return {
        "without": simulate(
            problem, bandit(), make_policies(), horizon=HORIZON, file=file("without"), **options
        ),
        "network": simulate(
            problem, make_feedback(INSIDE), make_graph_policies(), horizon=HORIZON,
            file=file("network"), **options,
        ),
        "densities": sweep(
            problem, make_feedback, {label: make_graph_policies()[label] for label in
            ("UCB-N", "UCB-MaxN", "kibitzer-N")}, inside=DENSITIES, horizon=HORIZON,
            stages=[HORIZON], file=file("densities"), **options,
        ),
    }  # fmt: skip


def measure_speed_up(data: Data, label: str) -> float:
    """Return the factor by which a policy on the network learns faster than UCB without the network.

    The goal is the mean regret per stage that UCB without the network reaches at stage T. The factor
    is T divided by the number of stages in which the policy reaches this goal.
    """
    goal = float(data["without"]["regret"].sel(policy="UCB").isel(stage=-1).mean("run")) / HORIZON
    regret = data["network"]["regret"].sel(policy=label).mean("run")
    stages = regret["stage"].to_numpy()
    is_reached = regret.to_numpy() / stages <= goal
    last_above = int(np.flatnonzero(~is_reached)[-1]) if not is_reached.all() else -1
    return HORIZON / float(stages[min(last_above + 1, stages.size - 1)])


def verdict(data: Data) -> Verdict:
    """Return the verdict on the regret with and without the network, and on denser networks."""
    without, network = (data[part]["final_regret"] for part in ("without", "network"))
    statements, rows = [], []
    speed_ups = {label: measure_speed_up(data, label) for label in make_graph_policies()}
    for label in make_policies():
        factor = ratio(without.sel(policy=label), network.sel(policy=f"{label}-N"))
        statements.append(
            Statement(
                f"The regret of {label} without the network is {factor} times that of {label}-N (at "
                f"least {MIN_FACTOR:g}).",
                is_above(factor, MIN_FACTOR),
            )
        )
    share = ratio(network.sel(policy="UCB-MaxN"), network.sel(policy="UCB-N"))
    statements.append(
        Statement(f"The regret of UCB-MaxN is {share} times that of UCB-N.", is_below(share, 1.0))
    )
    by_density = data["densities"]["final_regret"].sel(policy="UCB-N")
    steps = [
        ratio(by_density.sel(inside=dense), by_density.sel(inside=sparse))
        for sparse, dense in pairwise(DENSITIES)
    ]
    statements.append(
        Statement(
            "The regret of UCB-N falls with each step to a denser network: by the factors "
            f"{', '.join(map(str, steps))}.",
            all_hold([is_below(step, 1.0) for step in steps]),
        )
    )
    rows = [
        [label, str(mean(part.sel(policy=label))), place,
         f"{speed_ups[label]:.1f}" if label in speed_ups else "1" if label == "UCB" else "–"]
        for place, part in (("without", without), ("with", network))
        for label in map(str, part["policy"].to_numpy())
    ]  # fmt: skip
    caption = (
        "Speed-up: the factor by which the policy needs fewer stages than UCB without the network, "
        f"until its mean regret per stage is that of UCB at stage {typeset(HORIZON)}."
    )
    finding = (
        f"At stage {typeset(HORIZON)}, UCB has regret {mean(without.sel(policy='UCB'))} without the "
        f"network, UCB-N has {mean(network.sel(policy='UCB-N'))}, UCB-MaxN has "
        f"{mean(network.sel(policy='UCB-MaxN'))} and kibitzer has "
        f"{mean(network.sel(policy='kibitzer-N'))}. UCB-N learns {speed_ups['UCB-N']:.1f} times "
        f"faster than UCB without the network, and UCB-MaxN {speed_ups['UCB-MaxN']:.1f} times."
    )
    summary = (
        f"UCB-N {speed_ups['UCB-N']:.1f} times and UCB-MaxN {speed_ups['UCB-MaxN']:.1f} times faster "
        "than UCB without the network"
    )
    columns = ("policy", f"regret at {typeset(HORIZON)}", "network", "speed-up")
    return judge(statements, summary, finding, [Table(caption, columns, rows)])


def draw(data: Data) -> Picture:
    """Return a figure of the regret against the stage, and of the final regret by density."""
    without, network = (data[part]["regret"] for part in ("without", "network"))
    runs = network.sizes["run"]
    curves = [
        *(band(f"{label}, no network", without.sel(policy=label)) for label in make_policies()),
        *(band(label, network.sel(policy=label)) for label in make_graph_policies()),
    ]
    final_regret = data["densities"]["final_regret"]
    panels = [
        Panel(
            f"{N_GROUPS * GROUP_SIZE} arms, {N_GROUPS} groups",
            "stage",
            f"regret (mean of {runs} runs, band 25–75 %)",
            curves,
        ),
        Panel(
            f"Denser networks, T = {typeset(HORIZON)}",
            "probability of an edge inside a group",
            f"regret at T (mean of {runs} runs, bars ± 2 s.e.)",
            [
                error_bars(
                    str(label),
                    DENSITIES,
                    [final_regret.sel(policy=label, inside=inside) for inside in DENSITIES],
                )
                for label in final_regret["policy"].to_numpy()
            ],
        ),
    ]
    alt = (
        "Regret of policies with and without a social network against the stage, and their final "
        "regret on networks of several densities. " + verdict(data).finding
    )
    return Picture(alt, panels, 2)
