"""A comparison of all policies for graphs on the same random graphs and problems.

Source: Our own experiment.

Measured: whether every published policy has a higher regret than kibitzer (geometric mean over the
settings); whether kibitzer and scout are within 15 % of each other; and, on the graphs with one arm
that shows all others, whether scout has a lower regret than kibitzer. The command `kibitz league
--graph random` uses the same graphs and problems. No parameter of a policy was chosen on these
graphs.
"""

from math import exp, log
from typing import Any

from kibitz.evaluation.graph_league import KINDS, RANDOM, play_graph_league
from kibitz.evaluation.league import SURE, Games, games, geometric_ratio, standings
from kibitz.plotting.picture import Curve, Panel, Picture, profile_curve, typeset
from kibitz.reproduction import Data, Files
from kibitz.reproduction.verdict import (
    Estimate,
    Statement,
    Table,
    Verdict,
    all_hold,
    format_percent,
    is_above,
    is_below,
    judge,
)

TITLE = "The league of graphs"
SOURCE = "Our own experiment"
CLAIM = (
    "On random graphs on which every pull shows its own reward, kibitzer has a lower regret than the "
    "published policies and is about as good as scout; scout is better where one arm shows many."
)
#: Number of problems: one of each kind of graph and number of arms.
N_PROBLEMS = 30
#: Number of stages, T; None draws 2000 or 20,000 for each problem.
HORIZON: int | None = None
#: Number of runs of each policy in each setting.
RUNS = 32
MAX_DIFFERENCE = 0.15  #: Largest relative difference between policies that count as equally good.
MAX_FACTOR = 5.0  #: Largest factor τ of the plotted profiles.
#: The published policies.
PUBLISHED = ("UCB-N", "UCB-MaxN", "TS-N", "TS-MaxN")
HUB_KIND = "guide"  #: The kind of graph in which one arm shows all others.
SCOUT = "scout"

__all__ = ["KINDS"]


def run(file: Files, **options: Any) -> Data:
    """Simulate all policies on all problems."""
    settings: Any = {"graphs": [RANDOM], "problems": N_PROBLEMS, "horizon": HORIZON}
    return play_graph_league(**settings, file=file, **options)


def compare(results: Games, label: str) -> Estimate:
    """Return the regret of a policy relative to kibitzer, as a geometric mean over the settings."""
    return Estimate(*geometric_ratio(results, results.policies.index(label), results.reference))


def verdict(data: Data) -> Verdict:
    """Return the verdict on kibitzer against the published policies and against scout."""
    results, ranking = games(data), standings(data)
    n = len(results.looks)
    statements = []
    for label in PUBLISHED:
        comparison, factor = ranking["paired"][label], compare(results, label)
        statements.append(
            Statement(
                f"{label} has a higher regret than kibitzer: {factor} times (geometric mean over {n} "
                f"settings). It is significantly higher in {comparison['worse']} settings and "
                f"significantly lower in {comparison['better']}.",
                is_above(factor, 1.0),
            )
        )
    factor, hub_factor = compare(results, SCOUT), None
    statements.append(
        Statement(
            f"scout has {factor} times the regret of kibitzer (equally good: within "
            f"{format_percent(MAX_DIFFERENCE)}).",
            all_hold([is_below(factor, 1 + MAX_DIFFERENCE), is_above(factor, 1 - MAX_DIFFERENCE)]),
        )
    )
    groups = results.by_looks()
    if HUB_KIND in groups:
        hub_factor = compare(groups[HUB_KIND], SCOUT)
        statements.append(
            Statement(
                f"If one arm shows all others, scout has {hub_factor} times the regret of kibitzer.",
                is_below(hub_factor, 1.0),
            )
        )
    best_label = next(iter(ranking["policies"]))
    best_published = min(PUBLISHED, key=lambda label: compare(results, label).value)
    finding = (
        f"{best_label} is ranked first. The best published policy, {best_published}, has "
        f"{compare(results, best_published)} times the regret of kibitzer, and scout has {factor} "
        "times" + (f"; if one arm shows all others, {hub_factor} times." if hub_factor else ".")
    )
    summary = (
        f"relative to kibitzer: {best_published} {compare(results, best_published)}, scout {factor}"
    )
    return judge(
        statements, summary, finding, [_make_ranking_table(ranking), _make_kind_table(ranking)]
    )


def _make_ranking_table(ranking: dict[str, Any]) -> Table:
    rows = []
    for label, scores in ranking["policies"].items():
        comparison, where = ranking["paired"].get(label), scores["where"]
        rows.append(
            [
                label,
                str(Estimate(scores["ratio"], scores["sem"])),
                typeset(scores["worst"]),
                f"{where['looks']}, {where['n_arms']} arms",
                typeset(scores["q99"]),
                str(scores["best"]),
                "–" if comparison is None else str(Estimate(comparison["ratio"], comparison["sem"])),
                "–" if comparison is None else f"{comparison['better']} / {comparison['worse']}",
            ]
        )
    reference = ranking["reference"]
    caption = (
        "Ratio: mean regret divided by that of the best policy of the setting, as a geometric mean "
        "over all settings. Worst: the largest ratio, and where. q99: the 99 % quantile of regret "
        "over all runs, divided by the mean of the best policy. Best in: number of settings. Last "
        f"columns: ratio to {reference}, and the number of settings in which the policy is better or "
        f"worse than {reference} by more than {SURE:g} standard errors."
    )
    columns = (
        "policy", "ratio ± s.e.", "worst", "where", "q99", "best in", f"ratio to {reference}",
        "better / worse",
    )  # fmt: skip
    return Table(caption, columns, rows)


def _make_kind_table(ranking: dict[str, Any]) -> Table:
    labels = list(ranking["policies"])
    kinds = ranking["policies"][labels[0]]["by_looks"]
    rows = [
        [kind, *(typeset(ranking["policies"][label]["by_looks"][kind]) for label in labels)]
        for kind in kinds
    ]
    caption = "Ratio to the best policy of the setting, by kind of graph."
    return Table(caption, ["graph", *labels], rows)


def draw(data: Data) -> Picture:
    """Return a figure of performance profiles, and of the ratio to the best policy by graph size."""
    ranking, results = standings(data), games(data)
    labels = list(ranking["policies"])
    sizes = sorted(set(results.n_arms))
    ratios = results.means / results.best
    profiles = [
        profile_curve(label, ratios[results.policies.index(label)], MAX_FACTOR) for label in labels
    ]
    by_size = [
        Curve(label, sizes, [_average(results, ratios, label, size) for size in sizes], kind="points")
        for label in labels
    ]
    panels = [
        Panel(
            "Performance profiles",
            "regret / regret of the best policy",
            f"settings within this ratio, % of {len(results.looks)}",
            profiles,
        ),
        Panel(
            "Ratio by number of arms",
            "arms",
            "regret / regret of the best policy\n(geometric mean)",
            by_size,
            y_log=True,
        ),
    ]
    alt = (
        "Performance profiles of policies over random graphs, and the ratio of their regret to that "
        "of the best policy by the number of arms. " + verdict(data).finding
    )
    return Picture(alt, panels, 2)


def _average(results: Games, ratios: Any, label: str, size: int) -> float:
    own = ratios[results.policies.index(label)]
    values = [log(r) for r, n in zip(own, results.n_arms, strict=True) if n == size]
    return exp(sum(values) / len(values))
