"""The league on graphs: policies on random problems, where a pull also shows other arms.

The graphs are named graphs, files (as for the option --graph of the command line) or an ensemble:

- "random" draws a graph for each problem. The kinds of graphs (`KINDS`) take turns, and so do 5, 15
  and 40 arms, 2000 and 20,000 stages, and Gaussian and Bernoulli rewards. Every pull shows its own
  reward.
- "hidden" draws settings in the same way, from kinds of graphs in which a pull may not show its own
  reward (`HIDDEN_KINDS`).

No parameter of a policy of kibitz was chosen on these kinds of graphs.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kibitz._progress import Progress, show_progress
from kibitz._validation import invalid, seed_number, whole
from kibitz.model.feedback import Feedback, graph
from kibitz.model.graphs import load_graph
from kibitz.model.problem import Problem, bernoulli, gaussian
from kibitz.policies.kibitzer import kibitzer
from kibitz.policies.max_n import max_n
from kibitz.policies.policy import Policy
from kibitz.policies.scout import scout
from kibitz.policies.thompson import thompson
from kibitz.policies.ucb import ucb
from kibitz.simulation.schedule import Policies, label_policies
from kibitz.simulation.sweep import sweep

if TYPE_CHECKING:
    import xarray

Matrix = NDArray[np.float64]
Generator = np.random.Generator
Seed = int | np.random.SeedSequence

RANDOM, HIDDEN = "random", "hidden"  # the names of the ensembles
N_ARMS = 10  #: The number of arms with named graphs, by default.
ENSEMBLE_ARMS = (5, 15, 40)
ENSEMBLE_HORIZONS = (2_000, 20_000)
HORIZON = 5_000  #: The number of stages with named graphs, by default.
N_PROBLEMS = 12  #: The number of problems with named graphs, by default.
GAUSSIAN_SHARE = 0.6  # the probability that a problem of an ensemble has Gaussian rewards


# ---------------------------------------------------------------------------------- the ensembles


def draw_tree(rng: Generator, n: int) -> Matrix:
    """Return a random tree by preferential attachment; both ends of an edge show each other."""
    shows = np.eye(n)
    for arm in range(1, n):
        weights = shows[:arm, :arm].sum(axis=1)
        other = rng.choice(arm, p=weights / weights.sum())
        shows[arm, other] = shows[other, arm] = 1
    return shows


def draw_nearest(rng: Generator, n: int) -> Matrix:
    """Return a graph in which each of n random points in the plane shows its two nearest points."""
    points = rng.random((n, 2))
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    shows = np.eye(n)
    for arm in range(n):
        shows[arm, np.argsort(distances[arm])[1:3]] = 1
    return shows


def draw_blocks(rng: Generator, n: int) -> Matrix:
    """Return a graph with edge probability 0.3 within each of two groups, and 0.02 between groups."""
    group = rng.integers(0, 2, n)
    return np.maximum(np.where(group[:, None] == group, 0.3, 0.02), np.eye(n))


def draw_chain(rng: Generator, n: int) -> Matrix:
    """Return a one-sided chain in random order: each arm shows the next arm."""
    shows, order = np.eye(n), rng.permutation(n)
    shows[order[:-1], order[1:]] = 1
    return shows


def draw_popular(rng: Generator, n: int) -> Matrix:
    """Return a graph in which every pull shows arm j with probability p_j, which is mostly small."""
    return np.maximum(np.tile(rng.random(n) ** 4, (n, 1)), np.eye(n))


def draw_decay(rng: Generator, n: int) -> Matrix:
    """Return the probabilities 0.5^distance for arms in random order on a line."""
    place = rng.permutation(n)
    return np.asarray(0.5 ** np.abs(np.subtract.outer(place, place)))


def draw_digraph(rng: Generator, n: int) -> Matrix:
    """Return a random directed graph with edge probability 0.15."""
    return np.where(rng.random((n, n)) < 0.15, 1.0, np.eye(n))


def draw_redrawn(rng: Generator, n: int) -> Matrix:
    """Return a graph that is redrawn at each stage with edge probability 0.03."""
    return np.where(np.eye(n) == 1, 1.0, 0.03)


def draw_guide(rng: Generator, n: int) -> Matrix:
    """Return a graph in which one random arm shows all arms, and each other arm only itself."""
    shows = np.eye(n)
    shows[rng.integers(n)] = 1
    return shows


def draw_bandit(rng: Generator, n: int) -> Matrix:
    """Return the graph without edges."""
    return np.eye(n)


def draw_no_loops(rng: Generator, n: int) -> Matrix:
    """Return the graph in which each arm shows all other arms but not itself."""
    return 1 - np.eye(n)


def draw_two_hubs(rng: Generator, n: int) -> Matrix:
    """Return a graph without self-loops in which only two random arms show the other arms."""
    shows = np.zeros((n, n))
    hubs = rng.choice(n, 2, replace=False)
    shows[hubs] = 1
    shows[hubs, hubs] = 0
    return shows


def draw_cycle(rng: Generator, n: int) -> Matrix:
    """Return the graph of nearest neighbours without self-loops, with a cycle through all arms."""
    shows = draw_nearest(rng, n) - np.eye(n)
    order = rng.permutation(n)
    shows[order, np.roll(order, 1)] = 1
    return shows


def draw_faint(rng: Generator, n: int) -> Matrix:
    """Return a matrix of random probabilities below 0.3, self-loops included."""
    return 0.3 * rng.random((n, n))


#: The kinds of graphs of the ensemble "random": every pull shows its own reward.
KINDS: dict[str, Callable[[Generator, int], Matrix]] = {
    "tree": draw_tree,
    "nearest": draw_nearest,
    "blocks": draw_blocks,
    "chain": draw_chain,
    "popular": draw_popular,
    "decay": draw_decay,
    "digraph": draw_digraph,
    "redrawn": draw_redrawn,
    "guide": draw_guide,
    "bandit": draw_bandit,
}
#: The kinds of graphs of the ensemble "hidden": a pull may not show its own reward.
HIDDEN_KINDS: dict[str, Callable[[Generator, int], Matrix]] = {
    "no loops": draw_no_loops,
    "two hubs": draw_two_hubs,
    "cycle": draw_cycle,
    "faint": draw_faint,
}


def draw_setting(
    ensemble: str, position: int, seed: Seed, arms: int | None, horizon: int | None
) -> tuple[str, Problem, Feedback, int]:
    """Return the kind of the graph, the problem, the feedback and the horizon of one setting."""
    kinds = KINDS if ensemble == RANDOM else HIDDEN_KINDS
    kind = list(kinds)[position % len(kinds)]
    sizes = ENSEMBLE_ARMS if arms is None else (arms,)
    n_arms = sizes[position // len(kinds) % len(sizes)]
    rng = np.random.default_rng([seed_number(seed), position, len(kinds)])
    shows = kinds[kind](rng, n_arms)
    scale = 10 ** rng.uniform(-0.5, 0.3)
    n_stages = int(rng.choice(ENSEMBLE_HORIZONS)) if horizon is None else horizon
    is_gaussian = rng.random() < GAUSSIAN_SHARE
    means = rng.random(n_arms)
    problem = gaussian((scale * means).round(4)) if is_gaussian else bernoulli(means.round(4))
    return kind, problem, graph(shows), n_stages


# -------------------------------------------------------------------------------------- the league


def entrants(graphs: Sequence[str] = (RANDOM,)) -> dict[str, Policy]:
    """Return the policies of the league on graphs; "hidden" graphs exclude index policies."""
    scouts = {"scout": scout(), "scout, informed": scout(informed=True)}
    if HIDDEN in graphs:
        return {**scouts, "scout, c = 0.5": scout(0.5)}
    return {
        "kibitzer": kibitzer(),
        "kibitzer-MaxN": max_n(kibitzer()),
        **scouts,
        "scout, kibitzer's rule": scout(rule="kibitzer"),
        "UCB-N": ucb(2.0),
        "UCB-MaxN": max_n(ucb(2.0)),
        "TS-N": thompson(),
        "TS-MaxN": max_n(thompson()),
    }


def play_graph_league(
    policies: Policies | None = None,
    *,
    graphs: Sequence[str],
    problems: int | None = None,
    arms: int | None = None,
    horizon: int | None = None,
    seed: Seed,
    file: Callable[[str], str | os.PathLike[str]] | None = None,
    progress: Progress | bool | None = None,
    **options: Any,
) -> "dict[str, xarray.Dataset]":
    """Simulate all settings; return a dict from the name of each problem to its sweep over graphs.

    Parameters
    ----------
    policies
        The policies to compare; the default is `entrants(graphs)`.
    graphs
        ["random"], ["hidden"], or a list of names or files as for the option --graph.
    problems
        The number of problems. Default: one of each kind and number of arms with "random" or
        "hidden"; otherwise 12.
    arms
        The number of arms. Default: 5, 15 and 40 in turn, or 10 with named graphs.
    horizon
        The number of stages. Default: 2000 or 20,000 at random, or 5000 with named graphs.
    seed
        The seed of the graphs, of the problems and of the runs.
    file, progress, options
        As in `kibitz.evaluation.league.play_league`.
    """
    sources = check_graphs(graphs)
    labelled_policies = entrants(sources) if policies is None else label_policies(policies)
    n_arms = None if arms is None else whole(arms, "arms", 2)
    n_kinds = {RANDOM: len(KINDS), HIDDEN: len(HIDDEN_KINDS)}.get(sources[0])
    if n_kinds is not None:
        sizes = len(ENSEMBLE_ARMS) if n_arms is None else 1
        n_problems = n_kinds * sizes if problems is None else whole(problems, "problems", 1)
        settings = [
            draw_setting(sources[0], n, seed, n_arms, horizon) for n in range(n_problems)
        ]  # fmt: skip
    else:
        n_problems = N_PROBLEMS if problems is None else whole(problems, "problems", 1)
        settings = _make_named_settings(
            sources, n_problems, seed, n_arms or N_ARMS, horizon or HORIZON
        )  # fmt: skip
    data: dict[str, xarray.Dataset] = {}
    with show_progress(progress) as report_progress:
        for n in range(n_problems):

            def report_problem(label: str, share: float, n: int = n) -> None:
                report_progress(label, (n + share) / n_problems)

            n_graphs = len(settings) // n_problems
            own_settings = settings[n * n_graphs : (n + 1) * n_graphs]
            feedbacks = {kind: feedback for kind, _, feedback, _ in own_settings}
            _, problem, _, n_stages = own_settings[0]
            name = f"problem {n + 1}"
            data[name] = sweep(
                problem,
                lambda rate, looks, feedbacks=feedbacks: feedbacks[looks],
                labelled_policies,
                points=[{"rate": 0.0, "looks": kind} for kind in feedbacks],
                horizon=n_stages,
                stages=[n_stages],
                seed=seed,
                file=None if file is None else Path(file(name.replace(" ", "-"))),
                progress=report_problem,
                **options,
            )
    return data


def check_graphs(graphs: Sequence[str]) -> list[str]:
    """Return the graphs without duplicates; raise ValueError if they cannot be combined."""
    if isinstance(graphs, str) or not all(isinstance(source, str) for source in graphs):
        raise invalid("graphs", "a list of names or files", graphs)
    sources = list(dict.fromkeys(graphs))
    if not sources or (len(sources) > 1 and {RANDOM, HIDDEN} & set(sources)):
        raise invalid("graphs", "names or files, or only 'random', or only 'hidden'", graphs)
    return sources


def _make_named_settings(
    sources: Sequence[str], n_problems: int, seed: Seed, n_arms: int, horizon: int
) -> list[tuple[str, Problem, Feedback, int]]:
    """Return the settings of all problems on all graphs, problem by problem."""
    feedbacks = {source: graph(load_graph(source, n_arms)) for source in sources}
    settings = []
    for position in range(n_problems):
        rng = np.random.default_rng([seed_number(seed), position])
        means = rng.random(n_arms) if position % 2 else rng.normal(0.0, 1.0, n_arms)
        problem = gaussian(means.round(3))
        settings += [(source, problem, feedbacks[source], horizon) for source in sources]
    return settings
