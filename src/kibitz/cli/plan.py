"""`kibitz plan`: recommend how many looks to buy."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from kibitz.cli import option
from kibitz.cli.option import OUTPUT, PROBLEM, RUN, SEED, Numbers, OptionError

if TYPE_CHECKING:
    from kibitz.cli.output import Printer

EXAMPLES = """\
kibitz plan --horizon 100000 --arms 5 --gap 0.2 --cost 0.05
kibitz plan --horizon 1e6 --arms 5 --gap-range 0.1,1
"""
LABELS = {
    "none": "UCB, no looks",
    "uniform": "UCB, uniform",
    "optimal": "UCB, optimal",
    "active": "UCB1-Double",
    "kibitzer": "kibitzer",
}
#: The policies that a plan can show, and the observers for which each policy is planned.
OBSERVERS = {"kibitzer": ["kibitzer"], "ucb_double": ["active"], "ucb": ["uniform", "optimal"]}
DEFAULT_POLICIES = ["kibitzer", "ucb_double"]


def plan(
    horizon: Annotated[int, option.integer("--horizon", "Number of stages, T", PROBLEM)],
    n_arms: Annotated[
        int | None,
        option.integer(
            "--arms",
            "Number of arms; required with --gap and --gap-range",
            PROBLEM,
            least=2,
            alias="--n-arms",
        ),
    ] = None,
    gap: Annotated[
        float | None, option.number("--gap", "Gap of every arm but the best, such as 0.5", PROBLEM)
    ] = None,
    gap_range: Annotated[
        Numbers | None,
        option.numbers("--gap-range", "Smallest and largest plausible gap, such as 0.1,1", PROBLEM),
    ] = None,
    gaps: Annotated[
        Numbers | None,
        option.numbers("--gaps", "Gap of each arm but the best, such as 0.2,0.5,1", PROBLEM),
    ] = None,
    log: Annotated[
        str,
        option.text(
            "--log",
            "FILE",
            "Estimate the gaps from a log: an agent's export, or a CSV file of arm and reward",
            PROBLEM,
        ),
    ] = "",
    cost: Annotated[
        float | None, option.number("--cost", "Cost of a look, in units of regret", PROBLEM)
    ] = None,
    exploration: Annotated[
        float, option.number("--exploration", "The constant c of UCB's index", PROBLEM)
    ] = 6.0,
    simulate: Annotated[
        bool, option.flag("--simulate", "Compare the predictions with a simulation", RUN)
    ] = False,
    runs: Annotated[int, option.integer("--runs", "Runs of each simulated setting", RUN)] = 200,
    seed: Annotated[int, option.simulation_option("seed")] = SEED,
    dask: Annotated[str | None, option.simulation_option("executor")] = None,
    policy: Annotated[
        list[str] | None,
        option.choice(
            "--policy",
            "Policy to include: kibitzer, ucb_double or ucb; repeatable (default: the first two)",
            tuple(OBSERVERS),
            OUTPUT,
        ),
    ] = None,
    plot: Annotated[str, option.plot("Plot the predicted regret")] = "",
    as_json: Annotated[bool, option.as_json()] = False,
) -> None:
    """Recommend how many looks to buy, and predict the regret that they save."""
    if plot:
        option.check_plot(plot)
    from kibitz.cli.cluster import open_cluster
    from kibitz.cli.output import print_json, progress_bar

    if dask and not simulate:
        raise OptionError(f"--dask {dask} needs --simulate; without it, nothing is simulated")
    sources = {"--gap": gap, "--gap-range": gap_range, "--gaps": gaps, "--log": log or None}
    used = [flag for flag, value in sources.items() if value is not None]
    if len(used) != 1:
        raise OptionError(
            "give exactly one of --gap, --gap-range, --gaps and --log, got "
            + (" and ".join(used) or "none of them")
        )
    if n_arms is None and used[0] in {"--gap", "--gap-range"}:
        raise OptionError(f"{used[0]} needs --arms, the number of arms")
    if log and n_arms is not None:
        raise OptionError(
            f"--arms {n_arms} cannot be used with --log, because the log already determines the arms"
        )
    names = policy or DEFAULT_POLICIES
    observers = [observer for name in OBSERVERS if name in names for observer in OBSERVERS[name]]
    from kibitz.planning.planner import plan as make_plan

    logged = None
    if log:
        from kibitz.live.agent.from_log import from_log

        logged = from_log(log)
        gaps = Numbers(gap / (logged.scale or 1.0) for gap in sorted(logged.gaps)[1:])
        cost_of_look, cost = cost, None if cost is None else cost / (logged.scale or 1.0)
    with open_cluster(dask) as executor, progress_bar() as progress:
        planned = make_plan(
            horizon,
            n_arms=n_arms,
            gap=gap,
            gap_range=gap_range,
            gaps=gaps,
            cost=cost,
            exploration=exploration,
            simulate=simulate,
            runs=runs,
            seed=seed,
            progress=progress,
            executor=executor,
        )
    if logged is not None:
        planned["log"] = summarize_log(logged)
        if cost_of_look is not None:
            from kibitz.live.agent.from_log import size_interval

            sizes = size_interval(logged, horizon, cost_of_look, exploration)
            planned["log"]["best_size"] = sizes
    if plot:
        from kibitz.plotting.figures import draw_plan, save_figure

        save_figure(draw_plan(planned, observers), Path(plot))
    if as_json:
        print_json(planned)
    else:
        print_plan(planned, observers)
        if logged is not None:
            print_log(planned["log"])
        if plot:
            print(f"written to {plot}")


def summarize_log(logged: Any) -> dict[str, Any]:
    """Return the arms of a log, with confidence sequences for means and gaps, as plain data."""
    gap_low, gap_high = logged.gap_intervals
    columns = {
        "n_observed": logged.n_observed, "mean": logged.means, "low": logged.low,
        "high": logged.high, "gap": logged.gaps, "gap_low": gap_low, "gap_high": gap_high,
    }  # fmt: skip
    arms = [
        {"arm": arm, **{name: values[k].item() for name, values in columns.items()}}
        for k, arm in enumerate(logged.arms)
    ]
    return {"scale": logged.scale, "delta": logged.delta, "arms": arms}


def print_log(log: dict[str, Any]) -> None:
    """Print the gaps of the arms in a log, with their confidence sequences."""
    from kibitz.cli.output import Printer, format_number

    printer = Printer(140)
    rows = [
        [
            arm["arm"],
            f"{arm['n_observed']:,}",
            format_number(arm["mean"]),
            format_number(arm["gap"], 3),
            f"{format_number(arm['gap_low'], 3)} to {format_number(arm['gap_high'], 3)}",
        ]
        for arm in log["arms"]
    ]
    printer.table("gaps in the log", ("arm", "observed", "mean", "gap", "confidence sequence"), rows)
    printer.text(
        f"Regret and gaps above the table are in units of {format_number(log['scale'], 3)}, half the "
        f"range of the rewards. All confidence sequences hold with probability {1 - log['delta']:g}. "
        "A log tends to overstate gaps."
    )
    if "best_size" in log:
        low, high = (format_number(rate, 2) for rate in log["best_size"])
        printer.text(
            f"For all gaps in these confidence sequences, the recommended size is between ε = {low} "
            f"and {high}."
        )


def print_plan(planned: dict[str, Any], observers: list[str]) -> None:
    """Print a plan, with the predicted regret for each of the `observers`."""
    from kibitz.cli.output import Printer, format_number, shorten

    setting = planned["setting"]
    is_range = len(setting["problems"]) > 1
    labels = [LABELS[observer] for observer in observers]
    printer = Printer(140)
    first, last = setting["problems"][0], setting["problems"][-1]
    gaps = f"{first[-1]:g} to {last[-1]:g}" if is_range else " ".join(f"{g:g}" for g in first[1:])
    printer.text(
        f"{setting['n_arms']:,} arms, gaps {shorten(gaps)}, Gaussian rewards of standard deviation 1"
    )
    printer.text()
    print_recommendation(planned, printer)
    printer.text()
    printer.table(
        f"predicted regret after {setting['horizon']:,} stages",
        ["ε", "looks", *labels, *(f"{label}, early" for label in labels)],
        make_rows(planned, observers),
        lead=2,
    )
    if is_range:
        printer.text("Each cell is the mean over the gaps, with the worst in brackets.")
    if "optimal" in observers:
        printer.text("UCB is a passive observer, with uniform or with optimal weights.")
    printer.text("early: the same number of looks at rates min(1, A/t)")
    print_accuracy(planned["accuracy"], observers, printer)
    star = planned["rate_star"]
    worst = f", at the smallest gap {format_number(star['worst'], 2)}" if is_range else ""
    printer.text(
        f"The paper's threshold for UCB is about ε* = {format_number(star['mean'], 2)}{worst}; "
        "kibitzer gains from fewer looks."
    )
    if "best" in planned:
        print_alternatives(planned, observers, printer)
    if "simulation" in planned:
        print_points(planned["simulation"], printer)


def print_recommendation(planned: dict[str, Any], printer: "Printer") -> None:
    """Print the recommended policy and number of looks, and when and where to look."""
    from kibitz.cli.output import format_number, shorten

    advice = planned["advice"]
    name, other = LABELS[advice["policy"]], LABELS[advice["other_policy"]]
    regret, other_regret = (format_number(advice[key], 3) for key in ("regret", "other_regret"))
    if advice["rate"] == 0:
        printer.text(
            f"Recommendation: use {name} without looks; no look is worth its cost. Predicted regret: "
            f"{regret} ({other}: {other_regret})."
        )
        return
    cost = f", {format_number(advice['net'], 3)} after their cost" if "net" in advice else ""
    printer.text(
        f"Recommendation: use {name} with {format_number(round(advice['looks']))} looks "
        f"(ε = {format_number(advice['rate'], 2)}). Predicted regret: {regret} instead of "
        f"{format_number(advice['regret_without_looks'], 3)} without looks. The looks save "
        f"{format_number(advice['saving'], 3)}{cost}. ({other} with the same looks: {other_regret}.)"
    )
    early = advice["early"]
    if advice["regret"] - early["regret"] > early["error"]:
        printer.text(
            f"When: early, if possible. At rates min(1, A/t) with A = "
            f"{format_number(early['scale'], 3)}, as many looks reduce the regret to "
            f"{format_number(early['regret'], 3)}, give or take {format_number(early['error'], 2)}."
        )
    else:
        printer.text("When: at any time. Early looks are not predicted to be significantly better.")
    weights = planned["weights"]
    best = " ".join(format_number(weight, 3) for weight in weights["optimal"][0])
    is_range = len(weights["optimal"]) > 1
    where = "equal weights on all arms but the best" if is_range else f"weights {shorten(best)}"
    printer.text(
        f"Where: let the policy choose. A passive observer should use {where}; uniform weights cost "
        f"UCB about {format_number(weights['uniform_costs']['mean'], 3)} more regret."
    )
    stage = plateau_stage(planned)
    after = "" if stage <= planned["setting"]["horizon"] else ", which is beyond the horizon"
    printer.text(f"At this rate, regret hardly grows after stage {format_number(stage, 2)}{after}.")


def plateau_stage(planned: dict[str, Any]) -> float:
    """Return the stage from which regret hardly grows at the recommended rate."""
    import numpy as np

    advice, rates = planned["advice"], planned["rates"][1:]
    stages = planned["plateau"][advice["policy"]]["worst"][1:]
    return float(np.exp(np.interp(np.log(advice["rate"]), np.log(rates), np.log(stages))))


def make_rows(planned: dict[str, Any], observers: list[str]) -> list[list[str]]:
    """Return the rows of the table of predictions: no looks first, then every sixth rate."""
    from kibitz.cli.output import format_number

    is_range = len(planned["setting"]["problems"]) > 1

    def cell(summary: dict[str, Any], k: int) -> str:
        mean, worst = summary["mean"][k], summary["worst"][k]
        if is_range:
            return f"{format_number(mean, 3)} ({format_number(worst, 3)})"
        return format_number(mean)

    return [
        [
            format_number(planned["rates"][k], 2),
            format_number(round(planned["looks"][k])),
            *(cell(planned["regret"][observer], k) for observer in observers),
            *(cell(planned["early"]["regret"][observer], k) for observer in observers),
        ]
        for k in [0, *range(1, len(planned["rates"]), 6)]
    ]


def print_accuracy(accuracy: dict[str, Any], observers: list[str], printer: "Printer") -> None:
    """Print the accuracy of the predictions, as measured in our tests."""

    def percent(kind: str) -> str:
        return f"{100 * accuracy[kind]['nine_of_ten']:.0f} %"

    steady = [f"{percent(observer)} ({LABELS[observer]})" for observer in observers]
    early = [percent(f"{o}, early" if f"{o}, early" in accuracy else "early") for o in observers]
    printer.text(
        f"Accuracy: in our tests, 90 % of predictions were within {' or '.join(steady)} of the "
        f"simulated regret; for early looks, within {' and '.join(early)} of the regret without "
        "looks."
    )


def print_alternatives(planned: dict[str, Any], observers: list[str], printer: "Printer") -> None:
    """Print the best number of looks, and its regret plus cost, for each policy not recommended."""
    from kibitz.cli.output import format_number

    def total(observer: str) -> str:
        alone = planned["regret"][observer]["mean"][0]
        return format_number(alone - planned["best"][observer]["net"], 3)

    recommended = planned["advice"]["policy"]
    for observer in observers:
        if observer == recommended:
            continue
        best, size = planned["best"][observer], "without looks"
        if best["rate"] > 0:
            looks, rate = format_number(round(best["looks"])), format_number(best["rate"], 2)
            size = f"with {looks} looks (ε = {rate})"
        printer.text(
            f"Alternative: {LABELS[observer]} {size}. Its regret plus cost is {total(observer)}, "
            f"against {total(recommended)} for {LABELS[recommended]}."
        )


def print_points(simulation: dict[str, Any], printer: "Printer") -> None:
    """Print a table of the predicted and the simulated regret."""
    from kibitz.cli.output import format_mean, format_number

    rows = [
        [
            format_number(point["gaps"][1], 3),
            format_number(point["rate"], 2),
            LABELS[point["observer"]] + (", early" if point["early"] else ""),
            format_number(point["predicted"]),
            format_mean(point["mean"], point["sem"]),
            f"{point['predicted'] / point['mean']:.2f}" if point["mean"] > 0 else "–",
        ]
        for point in simulation["points"]
    ]
    printer.table(
        f"predicted and simulated regret, {simulation['runs']:,} runs, seed {simulation['seed']}",
        ["gap", "ε", "policy", "predicted", "simulated ± s.e.", "ratio"],
        rows,
        lead=3,
        left=("policy",),
    )
