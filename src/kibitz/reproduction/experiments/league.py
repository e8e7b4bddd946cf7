"""All policies on the same random problems, with looks from never to always.

Of the paper: none of it; which policy to use.

Concluded: of each other policy, whether kibitzer has the smaller regret in the geometric mean over
the settings; at each rate, whether any policy has a smaller one; and whether in some setting another
is surely better by more than 15 %. Cost per stage is not among the data, which are the same on every
machine: it is measured when the report is written, and by `kibitz league`.
"""

from typing import Any

import numpy as np

from kibitz.evaluation.league import (
    FACTORS,
    HORIZON,
    N_PROBLEMS,
    RATES,
    RUNS,
    SURE,
    Games,
    games,
    geometric_ratio,
    play_league,
    stage_costs,
    standings,
)
from kibitz.plotting.picture import Curve, Mark, Panel, Picture, typeset
from kibitz.reproduction import Data, Files
from kibitz.reproduction.verdict import Estimate, Statement, Table, Verdict, above, below, judge

TITLE = "The league"
PAPER = "none of it; which policy to use"
CLAIM = (
    "kibitzer, which needs neither T nor ε, is the policy to use: on random problems it loses less "
    "than every other, whether looks come never, sometimes or always, and nowhere much more."
)
MUCH = 0.15  #: The share of its regret by which kibitzer may be beaten in a setting.
SHOWN = 8  #: How many policies are drawn, UCB1-Double among them and else the best ones.
ALWAYS = ("ucb_double",)
NEVER = 0.001  # where "no looks" stands on a logarithmic axis

__all__ = ["FACTORS", "HORIZON", "N_PROBLEMS", "RATES", "RUNS"]


def run(file: Files, **options: Any) -> Data:
    """Play all policies on all problems, at each rate."""
    return play_league(problems=N_PROBLEMS, horizon=HORIZON, file=file, **options)


def verdict(data: Data) -> Verdict:
    """Compare all others with kibitzer, over all settings, at each rate, and in each setting."""
    played, found = games(data), standings(data)
    reference, n = found["reference"], len(played.rates)
    statements = []
    for label, pair in found["paired"].items():
        factor = Estimate(pair["ratio"], pair["sem"])
        text = (
            f"{label} loses {factor} times as much as {reference} (geometric mean, {n} settings); "
            f"surely more in {pair['worse']} of them, surely less in {pair['better']}."
        )
        statements.append(Statement(text, above(factor, 1.0)))
    statements += [_at_rate(played.at(rate)) for rate in found["setting"]["rates"]]
    statements.append(_nowhere_much(found))
    first = next(iter(found["policies"]))
    own = found["policies"][reference]
    runner = next(label for label in found["policies"] if label != reference)
    factor = found["paired"][runner]
    sentence = (
        f"{reference} loses {own['ratio']:.3g} times as much as the best policy of each setting "
        f"(geometric mean; at worst {own['worst']:.3g}), {runner}, the next, "
        f"{Estimate(factor['ratio'], factor['sem'])} times as much as {reference}. "
        if first == reference
        else f"{first} comes first, not {reference}. "
    ) + where_beaten(found)
    n_better = len(found["beaten"])
    short = (
        f"{reference} {'first' if first == reference else 'not first'} of {len(played.policies)}; "
        f"surely beaten in {n_better} of {n} settings"
    )
    return judge(statements, short, sentence, [_table(found), *_beaten_table(found)])


def _at_rate(played: Games) -> Statement:
    """Hold kibitzer against the best of the others at one rate."""
    others = [p for p in range(len(played.policies)) if p != played.reference]
    best = min(others, key=lambda p: geometric_ratio(played, p, played.reference)[0])
    factor = Estimate(*geometric_ratio(played, best, played.reference))
    text = (
        f"ε = {typeset(played.rates[0])}: the best of the others, {played.policies[best]}, loses "
        f"{factor} times as much as {played.policies[played.reference]}."
    )
    return Statement(text, above(factor, 1.0))


def _nowhere_much(found: dict[str, Any]) -> Statement:
    """Hold the largest sure win of another against what is much."""
    shares = [
        Estimate(-one["difference"] / one["reference"], one["sem"] / one["reference"])
        for one in found["beaten"]
    ]
    most = max(shares, key=lambda one: one.value, default=Estimate(0.0, 0.0))
    text = (
        f"Nowhere is another policy better by more than {MUCH:.0%}: the largest sure win saves "
        f"{100 * most.value:.0f} % of {found['reference']}'s regret."
    )
    return Statement(text, below(most, MUCH))


def where_beaten(found: dict[str, Any]) -> str:
    """Say in which settings another policy is surely better."""
    beaten = found["beaten"]
    if not beaten:
        return "In no setting is another policy surely better."
    worst = min(beaten, key=lambda one: one["difference"] / one["reference"])
    return (
        f"Another policy is surely better in {len(beaten)} of "
        f"{len(found['setting']['rates']) * len(found['setting']['problems'])} settings, by most "
        f"{worst['policy']} ({worst['problem']}, {worst['n_arms']} arms, ε = "
        f"{typeset(worst['rate'])}): {worst['regret']:.3g} against {worst['reference']:.3g}."
    )


def standing_rows(found: dict[str, Any]) -> list[list[str]]:
    """Return the rows of the table of standings, the best policy first."""
    rows = []
    for label, one in found["policies"].items():
        pair = found["paired"].get(label)
        where = one["where"]
        rows.append(
            [
                label,
                str(Estimate(one["ratio"], one["sem"])),
                *(f"{ratio:.3g}" for ratio in one["by_rate"].values()),
                f"{one['worst']:.3g}",
                f"{where['problem'].removeprefix('problem ')}, {typeset(where['rate'])}",
                f"{one['q99']:.3g}",
                str(one["best"]),
                "–" if pair is None else str(Estimate(pair["difference"], pair["difference_sem"])),
                "–" if pair is None else f"{pair['better']} / {pair['worse']}",
            ]
        )
    return rows


def standing_columns(found: dict[str, Any]) -> list[str]:
    """Return the heads of the table of standings."""
    rates = [f"ε = {rate:g}" for rate in found["setting"]["rates"]]
    reference = found["reference"]
    return [
        "policy", "ratio ± s.e.", *rates, "worst", "where (problem, ε)", "q99", "best in",
        f"regret above {reference}'s ± s.e.", "surely better / worse",
    ]  # fmt: skip


def _table(found: dict[str, Any]) -> Table:
    caption = (
        "Mean regret over that of the best policy of each setting: geometric mean over all settings "
        "and at each rate, and the worst. q99: 99 % of all games lose less than so many times the "
        "best policy's mean. Then the paired difference in regret (mean over all settings), and in "
        f"how many settings it is surely (by {SURE:g} standard errors) negative or positive."
    )
    return Table(caption, standing_columns(found), standing_rows(found))


def _beaten_table(found: dict[str, Any]) -> list[Table]:
    rows = [
        [
            one["problem"].removeprefix("problem "), str(one["n_arms"]), typeset(one["rate"]),
            one["policy"], f"{one['regret']:.4g}", f"{one['reference']:.4g}",
            str(Estimate(one["difference"], one["sem"])),
        ]
        for one in found["beaten"]
    ]  # fmt: skip
    caption = f"Where another policy is surely better than {found['reference']}, and the best there."
    columns = (
        "problem",
        "arms",
        "ε",
        "policy",
        "its regret",
        found["reference"],
        "difference ± s.e.",
    )
    return [Table(caption, columns, rows)] if rows else []


def measured() -> list[Table]:
    """Return what a stage costs each policy, here and now."""
    costs = sorted(stage_costs().items(), key=lambda item: item[1].nanoseconds)
    rows = [[label, f"{cost.nanoseconds:.0f}", cost.kernel] for label, cost in costs]
    caption = (
        "Processor time of a stage: five arms, ε = 0.1, T = 10⁴, stage by stage. Measured on this "
        "machine when the page was written, best of three; no other number here changes with it. "
        "A draft, a loop that was not compiled as a whole, takes two to three times as long."
    )
    return [Table(caption, ["policy", "ns", "kernel"], rows)]


def shown(found: dict[str, Any]) -> list[str]:
    """Return the policies of the figure."""
    ranked = list(found["policies"])
    must = [label for label in (found["reference"], *ALWAYS) if label in ranked]
    best = [label for label in ranked if label not in must]
    chosen = {*must, *best[: max(0, SHOWN - len(must))]}
    return [label for label in ranked if label in chosen]


def draw(data: Data) -> Picture:
    """Draw performance profiles, and the ratio to the best against ε."""
    found = standings(data)
    setting, labels = found["setting"], shown(found)
    n = len(setting["rates"]) * len(setting["problems"])
    few = np.array(FACTORS) <= 10
    profiles = [
        Curve(label, np.array(FACTORS)[few], 100 * np.array(found["policies"][label]["profile"])[few])
        for label in labels
    ]
    rates = [rate or NEVER for rate in setting["rates"]]
    by_rate = [
        Curve(label, rates, list(found["policies"][label]["by_rate"].values()), kind="points")
        for label in labels
    ]
    left_out = len(found["policies"]) - len(labels)
    note = f"{left_out} more policies are in the table" if left_out else ""
    panels = [
        Panel(
            f"Performance profiles, T = {typeset(setting['horizon'])}",
            "factor of the best policy of the setting",
            f"settings within the factor, % of {n}",
            profiles,
            note=note,
        ),
        Panel(
            "Ratio to the best",
            "ε, looks per stage",
            f"geometric mean over {len(setting['problems'])} problems",
            by_rate,
            [Mark(NEVER, "none")] if 0.0 in setting["rates"] else [],
            y_log=True,
            note="the left end is ε = 0" if 0.0 in setting["rates"] else "",
        ),
    ]
    alt = (
        "Performance profiles of policies over random settings, and the geometric mean of their "
        "regret over that of the best policy against ε. " + where_beaten(found)
    )
    return Picture(alt, panels, 2)
