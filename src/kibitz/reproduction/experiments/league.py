"""A comparison of all policies on the same random problems, with active and with unfair looks.

Source: Not in the paper.

Measured: whether kibitzer has a lower regret than each other policy (geometric mean over the
settings); whether kibitzer has the lowest regret at each rate of active looks and with unfair looks;
and whether the regret of another policy is lower by more than 15 % in any setting. The processor time
of a stage depends on the machine and is not part of the data. It is measured when the report is
written, and by `kibitz league`.
"""

from typing import Any

from kibitz.evaluation.league import (
    FACTORS,
    HORIZON,
    N_PROBLEMS,
    RATES,
    RUNS,
    SURE,
    UNFAIR_RATE,
    Games,
    games,
    geometric_ratio,
    play_league,
    stage_costs,
    standings,
)
from kibitz.plotting.picture import Curve, Mark, Panel, Picture, profile_curve, typeset
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
    "of active looks and with unfair looks, and in no setting is the regret of another policy much "
    "lower."
)
MAX_ADVANTAGE = 0.15  #: Largest relative advantage of another policy in a setting.
N_PLOTTED = 8  #: Number of policies in the figure: the best policies and UCB1-Double.
MAX_FACTOR = 10.0  #: Largest factor τ of the plotted profiles.
ALWAYS_PLOTTED = ("ucb_double",)
NO_LOOKS_X = 0.001  # position of ε = 0 on the logarithmic axis
UNFAIR_X = 10.0  # position of unfair looks on the same axis

__all__ = ["FACTORS", "HORIZON", "N_PROBLEMS", "RATES", "RUNS"]


def run(file: Files, **options: Any) -> Data:
    """Simulate all policies on all problems, with active and with unfair looks."""
    return play_league(problems=N_PROBLEMS, horizon=HORIZON, file=file, **options)


def verdict(data: Data) -> Verdict:
    """Return the verdict on kibitzer against all policies: overall, by looks and by setting."""
    results, ranking = games(data), standings(data)
    reference, n = ranking["reference"], len(results.rates)
    statements = []
    for label, comparison in ranking["paired"].items():
        factor = Estimate(comparison["ratio"], comparison["sem"])
        text = (
            f"{label} has a higher regret than {reference}: {factor} times (geometric mean over {n} "
            f"settings). It is significantly higher in {comparison['worse']} settings and "
            "significantly "
            f"lower in {comparison['better']}."
        )
        statements.append(Statement(text, is_above(factor, 1.0)))
    statements += [_compare_with_best(*group) for group in results.by_looks().items()]
    statements.append(_compare_worst_setting(ranking))
    first_policy = next(iter(ranking["policies"]))
    reference_scores = ranking["policies"][reference]
    second_policy = next(label for label in ranking["policies"] if label != reference)
    comparison = ranking["paired"][second_policy]
    finding = (
        f"The regret of {reference} is {typeset(reference_scores['ratio'])} times that of the best "
        "policy of "
        f"each setting (geometric mean), and at most {typeset(reference_scores['worst'])} times. The "
        "second "
        f"policy, {second_policy}, has {Estimate(comparison['ratio'], comparison['sem'])} times the "
        "regret of "
        f"{reference}. "
        if first_policy == reference
        else f"{first_policy} is ranked first, not {reference}. "
    ) + describe_losses(ranking)
    summary = (
        f"{reference} is {'' if first_policy == reference else 'not '}the first of "
        f"{len(results.policies)}; "
        f"another policy is significantly better in {len(ranking['beaten'])} of {n} settings"
    )
    tables = [_make_ranking_table(ranking), *_make_losses_table(ranking)]
    return judge(statements, summary, finding, tables)


def _compare_with_best(looks: str, results: Games) -> Statement:
    """Return the statement that compares kibitzer with the best other policy for some looks."""
    rivals = [p for p in range(len(results.policies)) if p != results.reference]
    best_rival = min(rivals, key=lambda p: geometric_ratio(results, p, results.reference)[0])
    factor = Estimate(*geometric_ratio(results, best_rival, results.reference))
    condition = "Unfair looks" if looks == "unfair" else f"ε = {typeset(results.rates[0])}"
    text = (
        f"{condition}: the best other policy, {results.policies[best_rival]}, has a higher regret, "
        f"{factor} times that of {results.policies[results.reference]}."
    )
    return Statement(text, is_above(factor, 1.0))


def _compare_worst_setting(ranking: dict[str, Any]) -> Statement:
    """Return the statement that no other policy is much better than kibitzer in any setting."""
    advantages = [
        Estimate(
            -beaten_setting["difference"] / beaten_setting["reference"],
            beaten_setting["sem"] / beaten_setting["reference"],
        )
        for beaten_setting in ranking["beaten"]
    ]
    largest_advantage = max(
        advantages, key=lambda beaten_setting: beaten_setting.value, default=Estimate(0.0, 0.0)
    )
    text = (
        "In no setting is the regret of another policy lower by more than "
        f"{format_percent(MAX_ADVANTAGE)}: the largest significant advantage is "
        f"{100 * largest_advantage.value:.0f} % of the regret of {ranking['reference']}."
    )
    return Statement(text, is_below(largest_advantage, MAX_ADVANTAGE))


def describe_losses(ranking: dict[str, Any]) -> str:
    """Describe the settings in which another policy is significantly better."""
    beaten_settings = ranking["beaten"]
    if not beaten_settings:
        return "In no setting is another policy significantly better."
    worst_setting = min(
        beaten_settings,
        key=lambda beaten_setting: beaten_setting["difference"] / beaten_setting["reference"],
    )
    return (
        f"Another policy is significantly better in {len(beaten_settings)} of "
        f"{ranking['setting']['settings']} settings. The largest advantage is that of "
        f"{worst_setting['policy']} "
        f"({worst_setting['problem']}, {worst_setting['n_arms']} arms, "
        f"{describe_looks(worst_setting)}): "
        f"{typeset(worst_setting['regret'])} against {typeset(worst_setting['reference'])}."
    )


def describe_looks(setting: dict[str, Any]) -> str:
    """Return the rate of active looks, or the kind of unfair looks, as text."""
    if setting["looks"] == "active":
        return f"ε = {typeset(setting['rate'])}"
    return f"unfair looks: {setting['looks']}"


def _make_ranking_rows(ranking: dict[str, Any]) -> list[list[str]]:
    rows = []
    for label, scores in ranking["policies"].items():
        comparison = ranking["paired"].get(label)
        worst_setting = scores["where"]
        rows.append(
            [
                label,
                str(Estimate(scores["ratio"], scores["sem"])),
                *(typeset(ratio) for ratio in scores["by_looks"].values()),
                typeset(scores["worst"]),
                f"{worst_setting['problem'].removeprefix('problem ')}, "
                f"{describe_looks(worst_setting)}",
                typeset(scores["q99"]),
                str(scores["best"]),
                "–"
                if comparison is None
                else str(Estimate(comparison["difference"], comparison["difference_sem"])),
                "–" if comparison is None else f"{comparison['better']} / {comparison['worse']}",
            ]
        )
    return rows


def _make_ranking_table(ranking: dict[str, Any]) -> Table:
    columns = [
        "policy", "ratio ± s.e.", *(f"ε = {rate:g}" for rate in ranking["setting"]["rates"]),
        "unfair looks", "worst", "problem, looks", "q99", "best in",
        f"regret − {ranking['reference']}'s ± s.e.", "better / worse",
    ]  # fmt: skip
    caption = (
        "Ratio: mean regret divided by that of the best policy of the setting, as a geometric mean "
        "over all settings, for active looks at each rate ε, and for unfair looks (passive looks at "
        f"ε = {UNFAIR_RATE:g} that show the best arm rarely or never). Worst: the largest ratio, and "
        "where. q99: the 99 % quantile of regret over all runs, divided by the mean of the best "
        "policy. Best in: number of settings. Last columns: paired difference in regret (mean over "
        "all settings), and the number of settings in which it is negative or positive by more than "
        f"{SURE:g} standard errors."
    )
    return Table(caption, columns, _make_ranking_rows(ranking))


def _make_losses_table(ranking: dict[str, Any]) -> list[Table]:
    rows = [
        [
            setting["problem"].removeprefix("problem "), str(setting["n_arms"]),
            describe_looks(setting),
            setting["policy"], f"{setting['regret']:.4g}", f"{setting['reference']:.4g}",
            str(Estimate(setting["difference"], setting["sem"])),
        ]
        for setting in ranking["beaten"]
    ]  # fmt: skip
    reference = ranking["reference"]
    caption = f"Settings in which another policy is significantly better than {reference}."
    columns = (
        "problem", "arms", "looks", "best policy", "its regret", f"regret of {reference}",
        "difference ± s.e.",
    )  # fmt: skip
    return [Table(caption, columns, rows)] if rows else []


def measure_costs() -> list[Table]:
    """Return a table of the processor time of a stage for each policy, measured on this machine."""
    costs = sorted(stage_costs().items(), key=lambda label_and_cost: label_and_cost[1].nanoseconds)
    rows = [[label, f"{cost.nanoseconds:.0f}", cost.kernel] for label, cost in costs]
    caption = (
        "Processor time per stage in nanoseconds: five arms, ε = 0.1, T = 10⁴, stage by stage, best "
        "of three. These numbers were measured on this machine when the report was written; all "
        "others are the same on every machine. A generic kernel takes two to three times as long as "
        "a specialised kernel."
    )
    return [Table(caption, ["policy", "ns", "kernel"], rows)]


def select_plotted(ranking: dict[str, Any]) -> list[str]:
    """Return the policies that the figure shows, best first."""
    ranked_labels = list(ranking["policies"])
    required_labels = [
        label for label in (ranking["reference"], *ALWAYS_PLOTTED) if label in ranked_labels
    ]
    optional_labels = [label for label in ranked_labels if label not in required_labels]
    plotted_labels = {*required_labels, *optional_labels[: max(0, N_PLOTTED - len(required_labels))]}
    return [label for label in ranked_labels if label in plotted_labels]


def draw(data: Data) -> Picture:
    """Return a figure of performance profiles, and of the ratio to the best policy against ε."""
    ranking = standings(data)
    setting, labels = ranking["setting"], select_plotted(ranking)
    results = games(data)
    profiles = [
        profile_curve(label, results.means[results.policies.index(label)] / results.best, MAX_FACTOR)
        for label in labels
    ]
    rates = [rate or NO_LOOKS_X for rate in setting["rates"]]
    ratio_curves = []
    for label in labels:
        *ratios, unfair_ratio = ranking["policies"][label]["by_looks"].values()
        ratio_curves += [
            Curve(label, rates, ratios, kind="points"),
            Curve(label, [UNFAIR_X], [unfair_ratio], kind="dots"),
        ]
    n_unplotted = len(ranking["policies"]) - len(labels)
    note = f"the table has {n_unplotted} more policies" if n_unplotted else ""
    panels = [
        Panel(
            f"Performance profiles, T = {typeset(setting['horizon'])}",
            "regret / regret of the best policy",
            f"settings within this ratio, % of {setting['settings']}",
            profiles,
            note=note,
        ),
        Panel(
            "Ratio to the best policy",
            "ε, looks per stage",
            f"regret / regret of the best policy\n(geometric mean over {len(setting['problems'])} "
            "problems)",
            ratio_curves,
            [Mark(NO_LOOKS_X, "no looks"), Mark(UNFAIR_X, "unfair")],
            y_log=True,
            note=f"left: ε = 0; right: unfair looks, ε = {UNFAIR_RATE:g}",
        ),
    ]
    alt = (
        "Performance profiles of policies over random settings, and the geometric mean of the ratio "
        "of their regret to that of the best policy, against ε and for unfair looks. "
        + describe_losses(ranking)
    )
    return Picture(alt, panels, 2)
