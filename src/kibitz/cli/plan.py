"""`kibitz plan`: how many looks are worth their cost."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from kibitz.cli import parse
from kibitz.cli.parse import SEED, Numbers

if TYPE_CHECKING:
    from kibitz.cli.tables import Page


OBSERVER_NAMES = {
    "none": "UCB, no looks",
    "uniform": "UCB, uniform",
    "optimal": "UCB, best weights",
    "active": "UCB1-Double",
    "kibitzer": "kibitzer",
}
#: The policies that a plan is made for, and how each may look.
SHOWN = {"kibitzer": ["kibitzer"], "ucb_double": ["active"], "ucb": ["uniform", "optimal"]}
DEFAULT = ["kibitzer", "ucb_double"]


def plan(
    horizon: Annotated[int, parse.simulation_option("horizon")],
    n_arms: Annotated[
        int | None,
        parse.whole(
            "n_arms", "Number of arms, for --gap and --gap-range", "--arms", "--n-arms", least=2
        ),
    ] = None,
    gap: Annotated[
        float | None, parse.number("gap", "The gap of every arm but the best: 0.5")
    ] = None,
    gap_range: Annotated[
        Numbers | None, parse.numbers("gap_range", "It is somewhere between two: 0.1,1")
    ] = None,
    gaps: Annotated[
        Numbers | None, parse.numbers("gaps", "The gap of each arm but the best: 0.2,0.5,1")
    ] = None,
    log: Annotated[
        str, parse.text("FILE", "The gaps of this log: an agent's export, or CSV of arm and reward")
    ] = "",
    cost: Annotated[float | None, parse.number("cost", "Cost of a look, in units of regret")] = None,
    exploration: Annotated[float, parse.number("exploration", "The constant c of UCB's index")] = 6.0,
    policy: Annotated[
        list[str] | None,
        parse.text(
            "|".join(SHOWN),
            "A policy to show; repeatable (default: kibitzer and ucb_double; all are in the JSON)",
        ),
    ] = None,
    simulate: Annotated[bool, parse.flag("--simulate", "Back it by a simulation")] = False,
    runs: Annotated[int, parse.whole("runs", "Runs of each simulated setting")] = 200,
    seed: Annotated[int, parse.simulation_option("seed")] = SEED,
    dask: Annotated[str | None, parse.simulation_option("executor")] = None,
    plot: Annotated[str, parse.text("FILE", "Draw the prediction to this PNG, SVG or PDF")] = "",
    as_json: Annotated[bool, parse.flag("--json", "Print one JSON object")] = False,
) -> None:
    """Plan a bucket of free looks: how large, where to look, and what it saves."""
    if plot:
        parse.check_plot(plot)
    from kibitz._validation import invalid, one_of
    from kibitz.cli.cluster import executor_at
    from kibitz.cli.tables import print_json, progress_bar

    if dask and not simulate:
        raise invalid("dask", "left out without --simulate", dask)
    named = [one_of(name, "policy", tuple(SHOWN)) for name in policy or DEFAULT]
    shown = [observer for name, own in SHOWN.items() if name in named for observer in own]
    from kibitz.planning.planner import plan as make_plan

    logged = None
    if log:
        from kibitz.live.agent.from_log import from_log

        if not (gap is None and gap_range is None and gaps is None and n_arms is None):
            raise invalid("log", "given without gaps", log)
        logged = from_log(log)
        gaps = Numbers(gap / (logged.scale or 1.0) for gap in sorted(logged.gaps)[1:])
        given, cost = cost, None if cost is None else cost / (logged.scale or 1.0)
    with executor_at(dask) as executor, progress_bar() as progress:
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
        planned["log"] = as_object(logged)
        if given is not None:
            from kibitz.live.agent.from_log import size_interval

            planned["log"]["best_size"] = size_interval(logged, horizon, given, exploration)
    if plot:
        from kibitz.plotting.figures import draw_plan, save_figure

        save_figure(draw_plan(planned, shown), Path(plot))
    if as_json:
        print_json(planned)
    else:
        print_plan(planned, shown)
        if logged is not None:
            print_log(planned["log"])
        if plot:
            print(f"written to {plot}")


def as_object(logged: Any) -> dict[str, Any]:
    """Return what a log says, and how sure it is of it, as plain data."""
    least, most = logged.gap_intervals
    columns = {
        "n_observed": logged.n_observed, "mean": logged.means, "low": logged.low, "high": logged.high,
        "gap": logged.gaps, "gap_low": least, "gap_high": most,
    }  # fmt: skip
    arms = [
        {"arm": arm, **{name: values[k].item() for name, values in columns.items()}}
        for k, arm in enumerate(logged.arms)
    ]
    return {"scale": logged.scale, "delta": logged.delta, "arms": arms}


def print_log(log: dict[str, Any]) -> None:
    """Print how sure a plan can be of the gaps that it rests on."""
    from kibitz.cli.tables import Page

    page = Page(140)
    rows = [
        (
            arm["arm"],
            str(arm["n_observed"]),
            f"{arm['mean']:.4g}",
            f"{arm['gap']:.3g}",
            f"{arm['gap_low']:.3g} to {arm['gap_high']:.3g}",
        )
        for arm in log["arms"]
    ]
    page.table("what the log says", ("arm", "seen", "mean", "gap", "interval"), rows)
    page.text(
        f"regret and gaps above are in units of the scale {log['scale']:.3g}, half the range of the "
        f"rewards; intervals hold at all times, together with probability {1 - log['delta']:g}; "
        "the means of a log overstate gaps"
    )
    if "best_size" in log:
        low, high = log["best_size"]
        page.text(f"recommended size: between ε = {low:.2g} and {high:.2g} by these intervals")


def print_plan(planned: dict[str, Any], shown: list[str]) -> None:
    """Print a plan for people: what is predicted for the observers that are to be shown."""
    from kibitz.cli.tables import Page, shorten

    setting = planned["setting"]
    several = len(setting["problems"]) > 1
    names = [OBSERVER_NAMES[observer] for observer in shown]
    page = Page(140)
    first, last = setting["problems"][0], setting["problems"][-1]
    gaps = f"{first[-1]:g} to {last[-1]:g}" if several else " ".join(f"{g:g}" for g in first[1:])
    page.text(f"{setting['n_arms']} arms, gaps {shorten(gaps)}, rewards N(μ, 1)")
    print_recommendation(planned, page)
    star = planned["rate_star"]
    page.text(
        f"the paper's threshold for UCB is about ε* = {star['mean']:.2g}"
        + (f", at the smallest gap {star['worst']:.2g}" if several else "")
        + "; kibitzer gains from fewer looks"
    )
    page.table(
        f"predicted regret after {setting['horizon']} stages",
        ["ε", "looks", *names, *(f"{name}, early" for name in names), "flat from stage"],
        predicted_rows(planned, shown),
        lead=2,
    )
    if several:
        page.text("mean over the gaps (and the worst of them)")
    page.text(f"flat from: the regret of {names[0]} hardly grows after this stage, if T is larger")
    accuracy = planned["accuracy"]
    shares = [f"{100 * accuracy[observer]['nine_of_ten']:.0f} %" for observer in shown]
    early = " and ".join(
        f"{100 * accuracy[kind]['nine_of_ten']:.0f} % ({name})"
        for kind, name in (("kibitzer, early", "kibitzer"), ("early", "UCB and UCB1-Double"))
    )
    page.text(
        f"accuracy, measured: 9 of 10 predictions within {', '.join(shares)} ({', '.join(names)}), "
        f"of early looks within {early} of the regret without looks"
    )
    print_advice(planned, shown, page)
    if "simulation" in planned:
        print_points(planned["simulation"], page)


def print_recommendation(planned: dict[str, Any], page: "Page") -> None:
    """Print which policy to use, and what a bucket of which size saves with it."""
    advice = planned["advice"]
    name, other = OBSERVER_NAMES[advice["policy"]], OBSERVER_NAMES[advice["other_policy"]]
    if advice["rate"] == 0:
        page.text(
            f"use {name}, without looks: no bucket is worth its cost; predicted regret "
            f"{advice['regret']:.3g} ({other}: {advice['other_regret']:.3g})"
        )
        return
    page.text(
        f"use {name}: a bucket of {advice['looks']:.3g} looks (ε = {advice['rate']:.2g}) saves about "
        f"{advice['saving']:.3g} of its regret of {advice['regret_without_looks']:.3g}"
        + (f", {advice['net']:.3g} after its cost" if "net" in advice else "")
        + f" ({other} with the same bucket: regret {advice['other_regret']:.3g})"
    )
    early = advice["early"]
    gains = advice["regret"] - early["regret"] > early["error"]
    page.text(
        f"when: early if you can; at rates min(1, A/t) with A = {early['scale']:.3g} as many "
        f"looks brings the regret from {advice['regret']:.3g} to {early['regret']:.3g}, "
        f"give or take {early['error']:.2g}"
        if gains
        else "when: it makes no difference whether the looks come early"
    )


def predicted_rows(planned: dict[str, Any], shown: list[str]) -> list[list[str]]:
    """Return the rows of the table of predictions: no looks, and every sixth rate."""
    several = len(planned["setting"]["problems"]) > 1

    def cell(both: dict[str, Any], k: int) -> str:
        mean, worst = both["mean"][k], both["worst"][k]
        return f"{mean:.4g} ({worst:.4g})" if several else f"{mean:.4g}"

    rows = []
    for k in [0, *range(1, len(planned["rates"]), 6)]:
        flat = planned["plateau"][shown[0]]["worst"][k]
        rows.append(
            [
                f"{planned['rates'][k]:.2g}",
                f"{planned['looks'][k]:.4g}",
                *(cell(planned["regret"][observer], k) for observer in shown),
                *(cell(planned["early"]["regret"][observer], k) for observer in shown),
                "never" if flat == math.inf else f"{flat:.3g}",
            ]
        )
    return rows


def print_advice(planned: dict[str, Any], shown: list[str], page: "Page") -> None:
    """Print where the looks should go, and the best sizes of the policies not recommended."""
    from kibitz.cli.tables import shorten

    weights = planned["weights"]
    spread = " ".join(f"{p:.3g}" for p in weights["optimal"][0])
    several = len(weights["optimal"]) > 1
    where = "evenly on all arms but the best" if several else f"with weights {shorten(spread)}"
    page.text(
        f"where: {where}, or let the policy choose; looking at all arms alike costs UCB about "
        f"{weights['uniform_costs']['mean']:.3g} of regret more, once looks matter"
    )
    others = [observer for observer in shown if observer != planned["advice"]["policy"]]
    for observer in others if "best" in planned else []:
        best = planned["best"][observer]
        text = f"{best['looks']:.3g} looks (ε = {best['rate']:.2g}), net saving {best['net']:.3g}"
        if best["rate"] == 0:
            text = "none is worth its cost"
        page.text(f"if you must use {OBSERVER_NAMES[observer]}: {text}")


def print_points(simulation: dict[str, Any], page: "Page") -> None:
    """Print predictions beside simulations."""
    rows = [
        [
            f"{point['gaps'][1]:.3g}",
            f"{point['rate']:.2g}",
            OBSERVER_NAMES[point["observer"]] + (", early" if point["early"] else ""),
            f"{point['predicted']:.4g}",
            f"{point['mean']:.4g} ± {point['sem']:.2g}",
            f"{point['predicted'] / point['mean']:.2f}" if point["mean"] > 0 else "–",
        ]
        for point in simulation["points"]
    ]
    page.table(
        f"predicted and simulated, {simulation['runs']} runs, seed {simulation['seed']}",
        ["gap", "ε", "observer", "predicted", "simulated ± s.e.", "ratio"],
        rows,
        lead=3,
        left=("observer",),
    )
