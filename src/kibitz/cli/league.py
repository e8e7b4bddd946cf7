"""`kibitz league`: compare policies on the same random problems."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from kibitz.cli import option
from kibitz.cli.option import PROBLEM, RUN, SEED, OptionError

if TYPE_CHECKING:
    from kibitz.cli.output import Printer

EXAMPLES = """\
kibitz league --policy kibitzer --policy ucb_double --problems 2 \\
    --horizon 1000 --runs 8
"""


@option.simulation_options("horizon", "threads", "executor", horizon=5000)
def league(
    policy: Annotated[
        list[str] | None,
        option.policy("A policy to compare, at least two; repeatable (default: all)"),
    ] = None,
    problems: Annotated[
        int, option.integer("--problems", "Number of random problems, 2 to 30 arms each", PROBLEM)
    ] = 12,
    runs: Annotated[
        int, option.integer("--runs", "Runs of each policy in each setting", RUN, least=2)
    ] = 32,
    seed: Annotated[
        int, option.integer("--seed", "Seed of the problems and the runs", RUN, least=0)
    ] = SEED,
    *,
    plot: Annotated[str, option.plot("Plot performance profiles")] = "",
    as_json: Annotated[bool, option.as_json()] = False,
    **options: Any,
) -> None:
    """Rank policies by their regret on random problems with few to many looks."""
    if plot:
        option.check_plot(plot)
    from kibitz.cli.cluster import open_cluster
    from kibitz.cli.output import print_json, progress_bar
    from kibitz.cli.policies import parse_policies

    policies = parse_policies(policy) if policy else None
    if policy and len(policy) < 2:
        raise OptionError(f"--policy must be given at least twice, got only {policy[0]!r}")
    from kibitz.evaluation.league import play_league, stage_costs, standings

    with open_cluster(options["executor"]) as options["executor"], progress_bar() as progress:
        results = play_league(
            policies, problems=problems, runs=runs, seed=seed, progress=progress, **options
        )
    table = standings(results)
    for label, cost in stage_costs(policies).items():
        table["policies"][label] |= cost._asdict()
    if plot:
        from kibitz.plotting.figures import draw_figure, save_figure
        from kibitz.reproduction.experiments.league import draw

        save_figure(draw_figure(draw(results)), Path(plot))
    if as_json:
        print_json(table)
    else:
        print_league(table)
        if plot:
            print(f"written to {plot}")


def print_league(table: dict[str, Any]) -> None:
    """Print the standings of a league, as `standings` returns them."""
    from kibitz.cli.output import Printer, format_number

    setting, reference = table["setting"], table["reference"]
    n = len(setting["problems"]) * len(setting["rates"])
    printer = Printer(140)
    rows = []
    for label, one in table["policies"].items():
        pair, where = table["paired"].get(label), one["where"]
        difference = better = "–"
        if pair is not None:
            difference = format_difference(pair["difference"], pair["difference_sem"])
            better = f"{pair['better']}/{pair['worse']}"
        rows.append(
            [
                label,
                format_difference(one["ratio"], one["sem"]),
                *(format_number(ratio, 3) for ratio in one["by_rate"].values()),
                f"{format_number(one['worst'], 3)} ({where['problem'].removeprefix('problem ')}, "
                f"ε={where['rate']:g})",
                format_number(one["q99"], 3),
                str(one["best"]),
                difference,
                better,
                f"{one['nanoseconds']:,.0f}" + (" (generic)" if one["kernel"] == "generic" else ""),
            ]
        )
    printer.table(
        f"regret after {setting['horizon']:,} stages, relative to the best policy of each setting",
        [
            "policy", "ratio ± s.e.", *(f"ε={rate:g}" for rate in setting["rates"]),
            "worst (problem, ε)", "99 %", "best in", f"minus {reference} ± s.e.", "better/worse",
            "ns per stage",
        ],
        rows,
        left=("worst (problem, ε)",),
    )  # fmt: skip
    for sentence in (
        f"{n} settings: {len(setting['problems'])} problems with {len(setting['rates'])} rates of "
        f"looks; {setting['runs']:,} runs, seed {setting['seed']}",
        "ratio: geometric mean over all settings, then over the settings of each ε",
        "99 %: this quantile of the regret of a run, over the best policy's mean regret",
        "best in: number of settings in which the policy has the lowest regret",
        f"minus {reference}: paired difference in regret, mean over all settings",
        f"better/worse: number of settings in which the policy is better or worse than {reference} "
        "by more than 3 standard errors",
        "ns per stage: measured now with five arms and ε = 0.1",
    ):
        printer.text(sentence)
    print_better(table, printer)


def format_difference(value: float, error: float) -> str:
    """Format a value to three significant digits, with its standard error to one digit."""
    from kibitz.cli.output import format_number

    return f"{format_number(value, 3)} ± {format_number(error, 1)}"


def print_better(table: dict[str, Any], printer: "Printer") -> None:
    """Print the settings in which another policy is significantly better than the reference."""
    from kibitz.cli.output import format_number

    reference = table["reference"]
    if not table["beaten"]:
        printer.text(f"In no setting is another policy significantly better than {reference}.")
        return
    rows = [
        [
            one["problem"].removeprefix("problem "), str(one["n_arms"]), f"{one['rate']:g}",
            one["policy"], format_number(one["regret"]), format_number(one["reference"]),
            format_difference(one["difference"], one["sem"]),
        ]
        for one in table["beaten"]
    ]  # fmt: skip
    printer.table(
        f"settings in which another policy is significantly better than {reference}",
        ["problem", "arms", "ε", "policy", "its regret", reference, "difference ± s.e."],
        rows,
        left=("policy",),
    )
