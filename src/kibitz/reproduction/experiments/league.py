"""All policies on the same random problems, with rates of looks from 0 to 1.

Source: Not in the paper.

Measured: for each other policy, whether kibitzer has the lower regret (geometric mean over the
settings); at each rate, whether kibitzer has the lowest regret; and whether in any setting the regret
of another policy is lower by more than 15 %. The processor time of a stage depends on the machine. It
is not part of the data; it is measured when the report is written, and by `kibitz league`.
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
from kibitz.reproduction.verdict import (
    Estimate,
    Statement,
    Table,
    Verdict,
    format_percent,
    is_above,
    is_below,
    judge,
)

TITLE = "The league"
SOURCE = "Not in the paper"
CLAIM = (
    "kibitzer, which needs neither T nor ε, has the lowest regret on random problems at every rate "
    "of looks, and in no setting is the regret of another policy much lower."
)
MAX_ADVANTAGE = 0.15  #: Largest relative advantage of another policy in a setting.
N_PLOTTED = 8  #: Number of policies in the figure: the best policies and UCB1-Double.
ALWAYS_PLOTTED = ("ucb_double",)
NO_LOOKS_X = 0.001  # position of ε = 0 on the logarithmic axis

__all__ = ["FACTORS", "HORIZON", "N_PROBLEMS", "RATES", "RUNS"]


def run(file: Files, **options: Any) -> Data:
    """Simulate all policies on all problems, at each rate."""
    return play_league(problems=N_PROBLEMS, horizon=HORIZON, file=file, **options)


def verdict(data: Data) -> Verdict:
    """Return the verdict on kibitzer against all policies: overall, at each rate and by setting."""
    results, ranking = games(data), standings(data)
    reference, n = ranking["reference"], len(results.rates)
    statements = []
    for label, pair in ranking["paired"].items():
        factor = Estimate(pair["ratio"], pair["sem"])
        text = (
            f"{label} has a higher regret than {reference}: {factor} times (geometric mean over {n} "
            f"settings). It is significantly higher in {pair['worse']} settings and significantly "
            f"lower in {pair['better']}."
        )
        statements.append(Statement(text, is_above(factor, 1.0)))
    statements += [_compare_at_rate(results.at(rate)) for rate in ranking["setting"]["rates"]]
    statements.append(_compare_worst_setting(ranking))
    first = next(iter(ranking["policies"]))
    own = ranking["policies"][reference]
    second = next(label for label in ranking["policies"] if label != reference)
    pair = ranking["paired"][second]
    finding = (
        f"The regret of {reference} is {typeset(own['ratio'])} times that of the best policy of each "
        f"setting (geometric mean), and at most {typeset(own['worst'])} times. The second policy, "
        f"{second}, has {Estimate(pair['ratio'], pair['sem'])} times the regret of {reference}. "
        if first == reference
        else f"{first} is ranked first, not {reference}. "
    ) + describe_losses(ranking)
    summary = (
        f"{reference} is {'' if first == reference else 'not '}the first of {len(results.policies)}; "
        f"another policy is significantly better in {len(ranking['beaten'])} of {n} settings"
    )
    tables = [_ranking_table(ranking), *_losses_table(ranking)]
    return judge(statements, summary, finding, tables)


def _compare_at_rate(results: Games) -> Statement:
    """Return the statement that compares kibitzer with the best other policy at one rate."""
    rivals = [p for p in range(len(results.policies)) if p != results.reference]
    best = min(rivals, key=lambda p: geometric_ratio(results, p, results.reference)[0])
    factor = Estimate(*geometric_ratio(results, best, results.reference))
    text = (
        f"ε = {typeset(results.rates[0])}: the best other policy, {results.policies[best]}, has a "
        f"higher regret, {factor} times that of {results.policies[results.reference]}."
    )
    return Statement(text, is_above(factor, 1.0))


def _compare_worst_setting(ranking: dict[str, Any]) -> Statement:
    """Return the statement that compares the largest advantage of another policy with the limit."""
    advantages = [
        Estimate(-one["difference"] / one["reference"], one["sem"] / one["reference"])
        for one in ranking["beaten"]
    ]
    largest = max(advantages, key=lambda one: one.value, default=Estimate(0.0, 0.0))
    text = (
        "In no setting is the regret of another policy lower by more than "
        f"{format_percent(MAX_ADVANTAGE)}: the largest significant advantage is "
        f"{100 * largest.value:.0f} % of the regret of {ranking['reference']}."
    )
    return Statement(text, is_below(largest, MAX_ADVANTAGE))


def describe_losses(ranking: dict[str, Any]) -> str:
    """Describe the settings in which another policy is significantly better."""
    beaten = ranking["beaten"]
    if not beaten:
        return "In no setting is another policy significantly better."
    worst = min(beaten, key=lambda one: one["difference"] / one["reference"])
    return (
        f"Another policy is significantly better in {len(beaten)} of "
        f"{len(ranking['setting']['rates']) * len(ranking['setting']['problems'])} settings. The "
        f"largest advantage has {worst['policy']} ({worst['problem']}, {worst['n_arms']} arms, ε = "
        f"{typeset(worst['rate'])}): {typeset(worst['regret'])} against "
        f"{typeset(worst['reference'])}."
    )


def _ranking_rows(ranking: dict[str, Any]) -> list[list[str]]:
    rows = []
    for label, one in ranking["policies"].items():
        pair = ranking["paired"].get(label)
        where = one["where"]
        rows.append(
            [
                label,
                str(Estimate(one["ratio"], one["sem"])),
                *(typeset(ratio) for ratio in one["by_rate"].values()),
                typeset(one["worst"]),
                f"{where['problem'].removeprefix('problem ')}, {typeset(where['rate'])}",
                typeset(one["q99"]),
                str(one["best"]),
                "–" if pair is None else str(Estimate(pair["difference"], pair["difference_sem"])),
                "–" if pair is None else f"{pair['better']} / {pair['worse']}",
            ]
        )
    return rows


def _ranking_table(ranking: dict[str, Any]) -> Table:
    columns = [
        "policy", "ratio ± s.e.", *(f"ε = {rate:g}" for rate in ranking["setting"]["rates"]),
        "worst", "problem, ε", "q99", "best in", f"regret − {ranking['reference']}'s ± s.e.",
        "better / worse",
    ]  # fmt: skip
    caption = (
        "Ratio: mean regret divided by that of the best policy of the setting, as a geometric mean "
        "over all settings and at each ε. Worst: the largest ratio, and where. q99: the 99 % "
        "quantile of regret over all runs, divided by the mean of the best policy. Best in: number "
        "of settings. Last columns: paired difference in regret (mean over all settings), and the "
        f"number of settings in which it is negative or positive by more than {SURE:g} standard "
        "errors."
    )
    return Table(caption, columns, _ranking_rows(ranking))


def _losses_table(ranking: dict[str, Any]) -> list[Table]:
    rows = [
        [
            one["problem"].removeprefix("problem "), str(one["n_arms"]), typeset(one["rate"]),
            one["policy"], f"{one['regret']:.4g}", f"{one['reference']:.4g}",
            str(Estimate(one["difference"], one["sem"])),
        ]
        for one in ranking["beaten"]
    ]  # fmt: skip
    reference = ranking["reference"]
    caption = f"Settings in which another policy is significantly better than {reference}."
    columns = (
        "problem", "arms", "ε", "best policy", "its regret", f"regret of {reference}",
        "difference ± s.e.",
    )  # fmt: skip
    return [Table(caption, columns, rows)] if rows else []


def measure_costs() -> list[Table]:
    """Return a table of the processor time of a stage for each policy, measured on this machine."""
    costs = sorted(stage_costs().items(), key=lambda item: item[1].nanoseconds)
    rows = [[label, f"{cost.nanoseconds:.0f}", cost.kernel] for label, cost in costs]
    caption = (
        "Processor time per stage in nanoseconds: five arms, ε = 0.1, T = 10⁴, stage by stage, best "
        "of three. These numbers were measured on this machine when the report was written; all "
        "others are the same on every machine. A generic kernel takes two to three times as long as "
        "a specialised one."
    )
    return [Table(caption, ["policy", "ns", "kernel"], rows)]


def select_plotted(ranking: dict[str, Any]) -> list[str]:
    """Return the policies that the figure shows, best first."""
    ranked = list(ranking["policies"])
    required = [label for label in (ranking["reference"], *ALWAYS_PLOTTED) if label in ranked]
    optional = [label for label in ranked if label not in required]
    plotted = {*required, *optional[: max(0, N_PLOTTED - len(required))]}
    return [label for label in ranked if label in plotted]


def draw(data: Data) -> Picture:
    """Return a figure of performance profiles, and of the ratio to the best policy against ε."""
    ranking = standings(data)
    setting, labels = ranking["setting"], select_plotted(ranking)
    n = len(setting["rates"]) * len(setting["problems"])
    few = np.array(FACTORS) <= 10
    profiles = [
        Curve(
            label, np.array(FACTORS)[few], 100 * np.array(ranking["policies"][label]["profile"])[few]
        )
        for label in labels
    ]
    rates = [rate or NO_LOOKS_X for rate in setting["rates"]]
    by_rate = [
        Curve(label, rates, list(ranking["policies"][label]["by_rate"].values()), kind="points")
        for label in labels
    ]
    n_more = len(ranking["policies"]) - len(labels)
    note = f"the table has {n_more} more policies" if n_more else ""
    panels = [
        Panel(
            f"Performance profiles, T = {typeset(setting['horizon'])}",
            "regret / regret of the best policy",
            f"settings within this ratio, % of {n}",
            profiles,
            note=note,
        ),
        Panel(
            "Ratio to the best policy",
            "ε, looks per stage",
            f"regret / regret of the best policy\n(geometric mean over {len(setting['problems'])} "
            "problems)",
            by_rate,
            [Mark(NO_LOOKS_X, "none")] if 0.0 in setting["rates"] else [],
            y_log=True,
            note="leftmost points: ε = 0" if 0.0 in setting["rates"] else "",
        ),
    ]
    alt = (
        "Performance profiles of policies over random settings, and the geometric mean of the ratio "
        "of "
        "their regret to that of the best policy against ε. " + describe_losses(ranking)
    )
    return Picture(alt, panels, 2)
