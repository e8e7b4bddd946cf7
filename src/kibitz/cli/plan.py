"""`kibitz plan`: recommend how many looks to buy, and predict the regret."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from kibitz.cli import option
from kibitz.cli.option import PROBLEM, RUN, SEED, Numbers, OptionError

if TYPE_CHECKING:
    from kibitz.live.agent.from_log import Logged

EXAMPLES = """\
kibitz plan --horizon 100000 --baseline 5% --lift 1% --arms 5
kibitz plan --horizon 100000 --log log.csv --cost 0.01
kibitz plan --horizon 1e6 --arms 5 --gap-range 0.1,1
kibitz plan --changes-every 1e4 --change-size 0.8 --arms 10 --gap 0.4 \\
    --cost 0.05
"""
#: The policies that a plan for Gaussian rewards can show, and the observers of each policy.
OBSERVERS = {"kibitzer": ["kibitzer"], "ucb_double": ["active"], "ucb": ["uniform", "optimal"]}
DEFAULT_POLICIES = ["kibitzer", "ucb_double"]
CLICKS = "Clicks"  # the title of a panel in the help
GAUSSIAN = "Gaussian rewards"
CHANGES = "Changes"


def plan(
    horizon: Annotated[
        int | None,
        option.integer(
            "--horizon",
            "Number of stages, T, such as visitors; required without --changes-every",
            PROBLEM,
        ),
    ] = None,
    n_arms: Annotated[
        int | None,
        option.integer(
            "--arms",
            "Number of arms; required with --gap and --gap-range (default with --baseline: 2)",
            PROBLEM,
            minimum=2,
            alias="--n-arms",
        ),
    ] = None,
    log: Annotated[
        str,
        option.text(
            "--log",
            "FILE",
            "Plan from a log: an agent's export, or a CSV file of arm and reward",
            PROBLEM,
        ),
    ] = "",
    at: Annotated[
        str,
        option.text(
            "--at", "RATE", "Rate of looks per stage to predict for, such as 10% or 1/10", PROBLEM
        ),
    ] = "",
    cost: Annotated[
        float | None, option.number("--cost", "Cost of a look, in units of reward or clicks", PROBLEM)
    ] = None,
    baseline: Annotated[
        str, option.text("--baseline", "RATE", "Rate of every arm but the best, such as 5%", CLICKS)
    ] = "",
    lift: Annotated[
        str,
        option.text(
            "--lift", "RATE", "Lift of the best arm in percentage points: 5% and 1% give 6%", CLICKS
        ),
    ] = "",
    relative_lift: Annotated[
        str,
        option.text(
            "--relative-lift",
            "SHARE",
            "Lift of the best arm relative to the baseline: 5% and 20% give 6%",
            CLICKS,
        ),
    ] = "",
    rates: Annotated[
        str, option.text("--rates", "RATE,...", "Rate of each arm, such as 1.3%,1.8%", CLICKS)
    ] = "",
    randomized: Annotated[
        str,
        option.text(
            "--randomized",
            "SHARE",
            "Share of visitors that get a random arm, such as 5%; predict their cost and saving",
            CLICKS,
        ),
    ] = "",
    gap: Annotated[
        float | None, option.number("--gap", "Gap of every arm but the best, such as 0.5", GAUSSIAN)
    ] = None,
    gap_range: Annotated[
        Numbers | None,
        option.numbers("--gap-range", "Smallest and largest plausible gap, such as 0.1,1", GAUSSIAN),
    ] = None,
    gaps: Annotated[
        Numbers | None,
        option.numbers("--gaps", "Gap of each arm but the best, such as 0.2,0.5,1", GAUSSIAN),
    ] = None,
    scale: Annotated[
        float | None,
        option.number("--scale", "Standard deviation of the rewards (default: 1)", GAUSSIAN),
    ] = None,
    exploration: Annotated[
        float, option.number("--exploration", "The constant c of UCB's index", GAUSSIAN)
    ] = 6,
    policy: Annotated[
        list[str] | None,
        option.choice(
            "--policy",
            "Policy to include: kibitzer, ucb_double or ucb; repeatable (default: the first two)",
            tuple(OBSERVERS),
            GAUSSIAN,
        ),
    ] = None,
    changes_every: Annotated[
        int | None,
        option.integer(
            "--changes-every",
            "Plan looks that detect changes; number of stages between two changes",
            CHANGES,
        ),
    ] = None,
    change_size: Annotated[
        str,
        option.text(
            "--change-size",
            "NUMBER",
            "How much an arm rises in a change, such as 0.8, or 2% for clicks",
            CHANGES,
        ),
    ] = "",
    simulate: Annotated[
        bool, option.flag("--simulate", "Compare the predictions with a simulation", RUN)
    ] = False,
    runs: Annotated[int, option.integer("--runs", "Runs of each simulated setting", RUN)] = 200,
    seed: Annotated[int, option.simulation_option("seed")] = SEED,
    dask: Annotated[str | None, option.simulation_option("executor")] = None,
    plot: Annotated[str, option.plot("Plot the predicted regret")] = "",
    as_json: Annotated[bool, option.as_json()] = False,
) -> None:
    """Recommend how many looks to buy, and predict the regret (the clicks lost)."""
    if plot:
        option.check_plot(plot)
    from kibitz.cli.cluster import open_cluster
    from kibitz.cli.output import print_json, progress_bar

    if bool(change_size) != (changes_every is not None):
        raise OptionError("--changes-every and --change-size need each other; give both or neither")
    if dask and not simulate:
        raise OptionError(f"--dask {dask} needs --simulate; without it, nothing is simulated")
    sources = {
        "--baseline": baseline or None, "--rates": rates or None, "--log": log or None,
        "--gap": gap, "--gap-range": gap_range, "--gaps": gaps,
    }  # fmt: skip
    source_flag = check_source(sources, n_arms, {"--lift": lift, "--relative-lift": relative_lift})
    arguments: dict[str, Any] = {
        "n_arms": n_arms, "gap": gap, "gap_range": gap_range, "gaps": gaps, "cost": cost,
        "exploration": exploration, "simulate": simulate, "runs": runs, "seed": seed,
        "at": parse_share(at, "--at") if at else None,
        "randomized": parse_share(randomized, "--randomized") if randomized else None,
    }  # fmt: skip
    if scale is not None:
        arguments["scale"] = scale
    if baseline:
        arguments["baseline"] = parse_share(baseline, "--baseline")
        arguments["lift"] = parse_lift(lift, relative_lift, arguments["baseline"])
    if rates:
        arguments["rates"] = [parse_share(word, "--rates") for word in rates.split(",")]
    logged_problem = None
    if log:
        if scale is not None:
            raise OptionError("--scale cannot be used with --log, which determines the scale")
        from kibitz.live.agent.from_log import from_log

        logged_problem = from_log(log)
        arguments |= describe_log(logged_problem)
    is_clicks = source_flag in {"--baseline", "--rates"} or (
        logged_problem is not None and logged_problem.is_binary
    )
    if is_clicks and policy:
        raise OptionError("--policy is for Gaussian rewards; a plan for clicks shows all policies")
    names = policy or DEFAULT_POLICIES
    observers = [observer for name in OBSERVERS if name in names for observer in OBSERVERS[name]]
    from kibitz.cli import plan_output

    if changes_every is not None:
        unused = {
            "--horizon": horizon, "--log": log, "--rates": rates, "--gap-range": gap_range,
            "--gaps": gaps, "--randomized": randomized, "--policy": policy, "--simulate": simulate,
            "--plot": plot,
        }  # fmt: skip
        for flag, value in unused.items():
            if value:
                raise OptionError(
                    f"{flag} cannot be used with --changes-every; describe the arms by --gap and "
                    "--arms, or by --baseline, --lift and --arms"
                )
        from kibitz.planning.changes import plan_changes

        parse = parse_share if baseline else option.parse_number
        change_plan = plan_changes(
            changes_every,
            parse(change_size, "--change-size"),
            gap=arguments["lift" if baseline else "gap"],
            **{
                name: arguments[name]
                for name in ("n_arms", "baseline", "scale", "cost", "at")
                if arguments.get(name) is not None
            },
        )
        if as_json:
            print_json(change_plan.to_dict())
        else:
            plan_output.print_change_plan(change_plan, is_recommended=not at)
        return
    if horizon is None:
        raise OptionError("--horizon is missing; give the number of stages, such as --horizon 1e5")
    from kibitz.planning.planner import plan as make_plan

    with open_cluster(dask) as executor, progress_bar() as progress:
        recommended_plan = make_plan(horizon, progress=progress, executor=executor, **arguments)
    summary = None
    if logged_problem is not None:
        summary = summarize_log(logged_problem)
        if cost is not None and not is_clicks:
            from kibitz.live.agent.from_log import size_interval

            summary["best_size"] = size_interval(logged_problem, horizon, cost, exploration)
    if plot:
        from kibitz.plotting.figures import draw_plan, save_figure

        curve_names = ["kibitzer", "thompson"] if is_clicks else observers
        save_figure(draw_plan(recommended_plan.to_dict(), curve_names), Path(plot))
    if as_json:
        print_json(recommended_plan.to_dict() | ({"log": summary} if summary else {}))
        return
    if is_clicks:
        plan_output.print_clicks(recommended_plan, summary, is_recommended=not at)
    else:
        plan_output.print_plan(recommended_plan, observers)
        if summary is not None:
            plan_output.print_log(summary)
    if summary is not None and summary["n_shows"]:
        plan_output.print_shows(summary["n_shows"])
    if plot:
        print(f"written to {plot}")


def check_source(sources: dict[str, Any], n_arms: int | None, lifts: dict[str, str]) -> str:
    """Return the flag that describes the arms; raise OptionError unless there is exactly one."""
    used_flags = [flag for flag, value in sources.items() if value is not None]
    if len(used_flags) != 1:
        *first_flags, last_flag = sources
        raise OptionError(
            f"give exactly one of {', '.join(first_flags)} and {last_flag}, got "
            + (" and ".join(used_flags) or "none of them")
        )
    flag, lift_flags = used_flags[0], [name for name, value in lifts.items() if value]
    if flag == "--baseline" and len(lift_flags) != 1:
        given_flags = " and ".join(lift_flags) or "none of them"
        raise OptionError(
            f"--baseline needs exactly one of --lift and --relative-lift, got {given_flags}"
        )
    if flag != "--baseline" and lift_flags:
        raise OptionError(f"{lift_flags[0]} needs --baseline, and cannot be used with {flag}")
    if n_arms is None and flag in {"--gap", "--gap-range"}:
        raise OptionError(f"{flag} needs --arms, the number of arms")
    if flag == "--log" and n_arms is not None:
        raise OptionError(
            f"--arms {n_arms} cannot be used with --log, because the log already determines the arms"
        )
    return flag


def parse_share(word: str, flag: str) -> float:
    """Parse a share: 5%, 0.05 and 1/20 are the same."""
    text = word.strip()
    value = option.parse_number(text.removesuffix("%").strip(), flag)
    if text.endswith("%"):
        return value / 100
    if value > 1:
        raise OptionError(f"{flag} must be between 0 and 1, or a percentage such as 5%, got {word!r}")
    return value


def parse_lift(lift: str, relative_lift: str, baseline: float) -> float:
    """Return the absolute lift of the best arm, from --lift or --relative-lift."""
    flag, word = ("--lift", lift) if lift else ("--relative-lift", relative_lift)
    value = parse_share(word, flag) if lift or word.strip().endswith("%") else None
    if value is None:
        value = option.parse_number(word.strip(), flag)
    value = value if lift else value * baseline
    if not value > 0:
        raise OptionError(f"{flag} must be positive, got {word!r}")
    if 0 < baseline < 1 <= baseline + value:
        raise OptionError(
            f"{flag} must keep the rate of the best arm below 100 %, got {word!r} with --baseline "
            f"{100 * baseline:g}%"
        )
    return value


def describe_log(logged_problem: "Logged") -> dict[str, Any]:
    """Return the arguments of `kibitz.plan` that describe the arms of a log."""
    if logged_problem.is_binary:
        clicks = [int(values.sum()) for values in logged_problem.values]
        return {"clicks": clicks, "views": logged_problem.n_observed.tolist()}
    return {"gaps": sorted(logged_problem.gaps.tolist())[1:], "scale": logged_problem.scale or 1.0}


def summarize_log(logged_problem: "Logged") -> dict[str, Any]:
    """Return the arms of a log as plain data.

    The arms of a log of clicks have a likely rate (the posterior mean). Other arms have confidence
    sequences for means and gaps.
    """
    columns: dict[str, Any] = {"n_observed": logged_problem.n_observed, "mean": logged_problem.means}
    if logged_problem.is_binary:
        import numpy as np

        from kibitz.model.click_rates import shrink_rates

        clicks = np.array([int(values.sum()) for values in logged_problem.values])
        columns |= {"clicks": clicks, "likely": shrink_rates(logged_problem.n_observed, clicks)}
    else:
        gap_low, gap_high = logged_problem.gap_intervals
        columns |= {
            "low": logged_problem.low, "high": logged_problem.high,
            "gap": logged_problem.gaps, "gap_low": gap_low, "gap_high": gap_high,
        }  # fmt: skip
    arms = [
        {"arm": arm, **{name: values[k].item() for name, values in columns.items()}}
        for k, arm in enumerate(logged_problem.arms)
    ]
    kind = "bernoulli" if logged_problem.is_binary else "gaussian"
    return {
        "rewards": kind,
        "scale": logged_problem.scale,
        "delta": logged_problem.delta,
        "n_shows": logged_problem.n_shows,
        "arms": arms,
    }
