"""`kibitz league`: compare policies on the same problems, random or from recorded A/B tests."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from kibitz.cli import option
from kibitz.cli.option import PROBLEM, RUN, SEED, OptionError

if TYPE_CHECKING:
    from kibitz.cli.output import Printer

EXAMPLES = """\
kibitz league --policy kibitzer --policy ucb_double --problems 2 \\
    --horizon 1000 --runs 8
kibitz league --tests tests.csv --policy kibitzer:rewards=bernoulli \\
    --policy thompson
kibitz league --graph ring --graph star:2 --policy scout --policy ucb
kibitz league --graph random --problems 4 --horizon 1000 --runs 8
"""


@option.simulation_options("threads", "executor")
def league(
    policy: Annotated[
        list[str] | None,
        option.policy("A policy to compare, at least two; repeatable (default: all)"),
    ] = None,
    tests: Annotated[
        str | None,
        option.text(
            "--tests",
            "FILE",
            "CSV file of A/B tests to use as problems (columns test, arm, impressions, clicks)",
            PROBLEM,
        ),
    ] = None,
    graph: Annotated[
        list[str] | None,
        option.text(
            "--graph",
            "NAME|FILE",
            "What a pull shows of other arms, as in kibitz simulate, repeatable; or random or "
            "hidden, which draw a graph for each problem",
            PROBLEM,
        ),
    ] = None,
    arms: Annotated[
        int | None,
        option.integer(
            "--arms",
            "Number of arms with --graph (default: 10; 5, 15 and 40 for random and hidden)",
            PROBLEM,
            minimum=2,
        ),
    ] = None,
    problems: Annotated[
        int | None,
        option.integer(
            "--problems",
            "Number of problems (default: 12; 300 with --tests; 30 with --graph random)",
            PROBLEM,
        ),
    ] = None,
    horizon: Annotated[
        int | None,
        option.integer(
            "--horizon",
            "Number of stages, T (default: 5,000; 20,000 with --tests; 2,000 or 20,000 with --graph "
            "random)",
            RUN,
        ),
    ] = None,
    runs: Annotated[
        int | None,
        option.integer(
            "--runs",
            "Runs of each policy in each setting (default: 32; 4 with --tests)",
            RUN,
            minimum=2,
        ),
    ] = None,
    seed: Annotated[
        int, option.integer("--seed", "Seed of the problems and the runs", RUN, minimum=0)
    ] = SEED,
    *,
    plot: Annotated[str, option.plot("Plot performance profiles")] = "",
    as_json: Annotated[bool, option.as_json()] = False,
    **options: Any,
) -> None:
    """Rank policies by their regret on random problems, graphs or recorded A/B tests."""
    if tests and graph:
        raise OptionError("--tests and --graph cannot be combined; omit one of them")
    if arms is not None and not graph:
        raise OptionError("--arms needs --graph; add --graph random, or omit --arms")
    if plot and tests:
        raise OptionError(
            "--plot draws performance profiles, which do not exist for --tests; omit --plot"
        )
    if plot:
        option.check_plot(plot)
    from kibitz.cli.cluster import open_cluster
    from kibitz.cli.output import print_json, progress_bar
    from kibitz.cli.policies import parse_policies

    policies = parse_policies(policy) if policy else None
    if policy and len(policy) < 2:
        raise OptionError(f"--policy must be given at least twice, got only {policy[0]!r}")
    overrides = {"horizon": horizon, "runs": runs}
    options |= {name: value for name, value in overrides.items() if value is not None}
    if tests is not None:
        scores = play_recorded_tests(tests, policies, problems, seed, options)
        print_json(scores) if as_json else print_scores(scores)
        return
    from kibitz.evaluation.league import (
        N_PROBLEMS,
        RUNS,
        collect,
        play_league,
        stage_costs,
        standings,
    )

    options.setdefault("runs", RUNS)
    cost_feedback = None
    if graph:
        from kibitz.evaluation.graph_league import entrants, play_graph_league
        from kibitz.model.feedback import graph as make_graph
        from kibitz.model.graphs import load_graph

        policies = entrants(graph) if policies is None else policies
        cost_feedback = make_graph(load_graph("ring", 5))
        play = partial(play_graph_league, graphs=graph, arms=arms, problems=problems)
    else:
        play = partial(play_league, problems=problems or N_PROBLEMS)
    with open_cluster(options["executor"]) as options["executor"], progress_bar() as progress:
        results = play(policies, seed=seed, progress=progress, **options)
    scores = standings(results)
    for label, cost in stage_costs(policies, feedback=cost_feedback).items():
        scores["policies"][label] |= cost._asdict()
    if plot:
        from kibitz.plot import profile
        from kibitz.plotting.figures import draw_chart, save_figure

        title = f"{scores['setting']['settings']} settings, {format_horizon(scores['setting'])}"
        save_figure(draw_chart(lambda axes: profile(collect(results), ax=axes), title), Path(plot))
    if as_json:
        print_json(scores)
    else:
        print_league(scores)
        if plot:
            print(f"written to {plot}")


def play_recorded_tests(
    file: str, policies: Any, n_tests: int | None, seed: int, options: dict[str, Any]
) -> dict[str, Any]:
    """Play the A/B tests of a CSV file; return the scores of the policies."""
    from kibitz.cli.cluster import open_cluster
    from kibitz.cli.output import progress_bar
    from kibitz.evaluation import datasets

    try:
        recorded_tests = datasets.read_tests(file)
    except OSError as error:
        raise OptionError(f"--tests: cannot read {file!r}: {error.strerror}") from None
    problems = datasets.draw_problems(recorded_tests, n_tests or datasets.N_TESTS)
    compared_policies = policies or datasets.click_entrants(datasets.overall_rate(recorded_tests))
    with open_cluster(options["executor"]) as options["executor"], progress_bar() as progress:
        results = datasets.play_tests(
            problems, compared_policies, seed=seed, progress=progress, **options
        )
    table = datasets.score_policies(results, problems)
    table["setting"] |= {
        "recorded": len(recorded_tests), "uneven": datasets.find_uneven_tests(recorded_tests)
    }  # fmt: skip
    return table


def print_scores(table: dict[str, Any]) -> None:
    """Print the scores of policies on recorded tests, as `score_policies` returns them."""
    from kibitz.cli.output import Printer

    setting, rates = table["setting"], [f"{rate:g}" for rate in table["setting"]["rates"]]
    printer = Printer(120)
    for title, key in (
        ("regret as a share of the regret of an even split", "share"),
        (f"regret divided by the regret of {table['reference']}", "ratio"),
    ):
        rows = [
            [label, *(_format_interval(scores[rate], key) for rate in rates)]
            for label, scores in table["policies"].items()
        ]
        printer.table(title, ["policy", *(f"ε={rate}" for rate in rates)], rows)
    printer.text(
        f"{setting['tests']} tests, {setting['horizon']:,} visitors and {setting['runs']} runs each; "
        f"an even split loses {setting['even_split']:,.0f} clicks per test"
    )
    if setting["uneven"]:
        printer.text(
            f"{len(setting['uneven'])} of the {setting['recorded']:,} tests in the file contradict "
            "an even split of the views (sample-ratio check, p ≤ 0.001); if the split was meant to "
            "be even, check their randomisation"
        )
    printer.text("ε: rate of looks; the policy chooses the arm of each look")
    printer.text("in brackets: 95 % interval of a bootstrap over tests, paired for ratios")


def _format_interval(score: dict[str, float], key: str) -> str:
    low, high = score[f"{key}_low"], score[f"{key}_high"]
    return f"{score[key]:.3f} ({low:.3f} to {high:.3f})"


def print_league(table: dict[str, Any]) -> None:
    """Print the standings of a league, as `standings` returns them."""
    from kibitz.cli.output import Printer, format_number

    setting, reference = table["setting"], table["reference"]
    printer, has_graphs = Printer(140), not setting["rates"]
    worst_column = "worst (problem, graph)" if has_graphs else "worst (problem, looks)"
    rows = []
    for label, result in table["policies"].items():
        comparison, worst_setting = table["paired"].get(label), result["where"]
        difference_text = better_worse_text = "–"
        if comparison is not None:
            difference_text = format_difference(
                comparison["difference"], comparison["difference_sem"]
            )
            better_worse_text = f"{comparison['better']}/{comparison['worse']}"
        rows.append(
            [
                label,
                format_difference(result["ratio"], result["sem"]),
                *(() if has_graphs else (format_number(x, 3) for x in result["by_looks"].values())),
                f"{format_number(result['worst'], 3)} "
                f"({worst_setting['problem'].removeprefix('problem ')}, "
                f"{format_looks(worst_setting)})",
                format_number(result["q99"], 3),
                str(result["best"]),
                difference_text,
                better_worse_text,
                f"{result['nanoseconds']:,.0f}"
                + (" (generic)" if result["kernel"] == "generic" else ""),
            ]
        )
    printer.table(
        f"regret, {format_horizon(setting)}, relative to the best policy of each setting",
        [
            "policy", "ratio ± s.e.",
            *(() if has_graphs else (*(f"ε={rate:g}" for rate in setting["rates"]), "unfair")),
            worst_column, "99 %", "best in", f"minus {reference} ± s.e.", "better/worse",
            "ns per stage",
        ],
        rows,
        left=(worst_column,),
    )  # fmt: skip
    if has_graphs:
        print_by_graph(table, printer)
    for sentence in (
        *describe_settings(setting, has_graphs),
        "99 %: this quantile of the regret of a run, over the best policy's mean regret",
        "best in: number of settings in which the policy has the lowest regret",
        f"minus {reference}: paired difference in regret, mean over all settings",
        f"better/worse: number of settings in which the policy is better or worse than {reference} "
        "by more than 3 standard errors",
        f"ns per stage: measured now with five arms and {'a ring' if has_graphs else 'ε = 0.1'}",
    ):
        printer.text(sentence)
    print_better(table, printer)


def describe_settings(setting: dict[str, Any], has_graphs: bool) -> list[str]:
    """Return sentences that explain the settings of a league and the ratios in its table."""
    from kibitz.evaluation.league import UNFAIR_RATE

    count, runs = len(setting["problems"]), f"{setting['runs']:,} runs, seed {setting['seed']}"
    if has_graphs:
        return [
            f"{setting['settings']} settings: {count} random problems on graphs; {runs}",
            "ratio: geometric mean over all settings, then over the settings on each graph",
        ]
    return [
        f"{setting['settings']} settings: {count} problems, each with active looks at "
        f"{len(setting['rates'])} rates ε and with unfair looks; {runs}",
        "ratio: geometric mean over all settings, then over the settings of each kind of looks",
        f"unfair: passive looks at ε = {UNFAIR_RATE:g} that show the best arm rarely or never",
    ]


def print_by_graph(table: dict[str, Any], printer: "Printer") -> None:
    """Print the ratio of each policy on each graph or kind of graph."""
    from kibitz.cli.output import format_number

    by_graph = {label: scores["by_looks"] for label, scores in table["policies"].items()}
    graphs = next(iter(by_graph.values()))
    rows = [
        [name, *(format_number(ratios[name], 3) for ratios in by_graph.values())] for name in graphs
    ]
    printer.table(
        "ratio to the best policy of each setting, by graph", ["graph", *by_graph], rows
    )  # fmt: skip


def format_horizon(setting: dict[str, Any]) -> str:
    """Format the horizon of a league, or its smallest and largest horizon if they differ."""
    horizon, min_horizon = setting["horizon"], setting["min_horizon"]
    return f"T = {horizon:,}" if horizon == min_horizon else f"T = {min_horizon:,} or {horizon:,}"


def format_looks(setting: dict[str, Any]) -> str:
    """Return the rate of active looks, or the kind of unfair looks, as text."""
    return f"ε={setting['rate']:g}" if setting["looks"] == "active" else str(setting["looks"])


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
            setting["problem"].removeprefix("problem "), str(setting["n_arms"]),
            format_looks(setting), setting["policy"], format_number(setting["regret"]),
            format_number(setting["reference"]),
            format_difference(setting["difference"], setting["sem"]),
        ]
        for setting in table["beaten"]
    ]  # fmt: skip
    looks = "looks" if table["setting"]["rates"] else "graph"
    printer.table(
        f"settings in which another policy is significantly better than {reference}",
        ["problem", "arms", looks, "policy", "its regret", reference, "difference ± s.e."],
        rows,
        left=(looks, "policy"),
    )
