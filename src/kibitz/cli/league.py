"""`kibitz league`: all policies on the same random problems."""

from pathlib import Path
from typing import Annotated, Any

from kibitz.cli import parse
from kibitz.cli.parse import SEED


@parse.simulation_options("horizon", "threads", "executor", horizon=5000)
def league(
    policy: Annotated[
        list[str] | None,
        parse.text(
            "NAME[:PARAM=VALUE,...]", "A policy that plays (default: all); repeatable, at least two"
        ),
    ] = None,
    problems: Annotated[
        int, parse.whole("problems", "Number of random problems, 2 to 30 arms each")
    ] = 12,
    runs: Annotated[int, parse.whole("runs", "Runs of each setting", least=2)] = 32,
    seed: Annotated[int, parse.whole("seed", "Seed of problems and runs", least=0)] = SEED,
    *,
    plot: Annotated[
        str, parse.text("FILE", "Draw performance profiles to this PNG, SVG or PDF")
    ] = "",
    as_json: Annotated[bool, parse.flag("--json", "Print one JSON object")] = False,
    **options: Any,
) -> None:
    """Let policies play the same random problems, with looks from never to always, and rank them."""
    if plot:
        parse.check_plot(plot)
    from kibitz._validation import invalid
    from kibitz.cli.cluster import executor_at
    from kibitz.cli.policies import policies_from
    from kibitz.cli.tables import print_json, progress_bar

    named = policies_from(policy) if policy else None
    if named is not None and len(named) < 2:
        raise invalid("policy", "two or more policies", policy)
    from kibitz.evaluation.league import play_league, stage_costs, standings

    with executor_at(options["executor"]) as options["executor"], progress_bar() as progress:
        played = play_league(
            named, problems=problems, runs=runs, seed=seed, progress=progress, **options
        )
    found = standings(played)
    for label, cost in stage_costs(named).items():
        found["policies"][label] |= cost._asdict()
    if plot:
        from kibitz.plotting.figures import draw_figure, save_figure
        from kibitz.reproduction.experiments.league import draw

        save_figure(draw_figure(draw(played)), Path(plot))
    if as_json:
        print_json(found)
    else:
        print_league(found)
        if plot:
            print(f"written to {plot}")


def print_league(found: dict[str, Any]) -> None:
    """Print a league for people."""
    from kibitz.cli.tables import Page

    setting, reference = found["setting"], found["reference"]
    n = len(setting["problems"]) * len(setting["rates"])
    page = Page(140)
    rows = []
    for label, one in found["policies"].items():
        pair, where = found["paired"].get(label), one["where"]
        number = where["problem"].removeprefix("problem ")
        rows.append(
            [
                label,
                f"{one['ratio']:.3g} ± {one['sem']:.1g}",
                *(f"{ratio:.3g}" for ratio in one["by_rate"].values()),
                f"{one['worst']:.3g} ({number}, ε={where['rate']:g})",
                f"{one['q99']:.3g}",
                str(one["best"]),
                "–" if pair is None else f"{pair['difference']:.3g} ± {pair['difference_sem']:.1g}",
                "–" if pair is None else f"{pair['better']}/{pair['worse']}",
                f"{one['nanoseconds']:.0f}{' (draft)' if one['loop'] == 'draft' else ''}",
            ]
        )
    page.table(
        f"regret after {setting['horizon']} stages over that of the best policy of each setting",
        [
            "policy", "ratio ± s.e.", *(f"ε={rate:g}" for rate in setting["rates"]),
            "worst (problem, ε)", "q99", "best in", f"above {reference} ± s.e.", "better/worse",
            "ns a stage",
        ],
        rows,
        left=("worst (problem, ε)",),
    )  # fmt: skip
    page.text(
        f"{n} settings: {len(setting['problems'])} problems with {len(setting['rates'])} rates of "
        f"looks; {setting['runs']} runs, seed {setting['seed']}"
    )
    page.text(
        "ratio: geometric mean over all settings, and at each ε; q99: 99 % of all games lose less "
        "than so many times the best policy's mean"
    )
    page.text(
        f"above {reference}: paired difference in regret, mean over all settings; better/worse: in "
        "how many settings it is surely so, by 3 standard errors; ns a stage: measured now, five "
        "arms, ε = 0.1"
    )
    print_beaten(found, page)


def print_beaten(found: dict[str, Any], page: Any) -> None:
    """Print where another policy is surely better than the one they are compared with."""
    reference = found["reference"]
    if not found["beaten"]:
        page.text(f"in no setting is another policy surely better than {reference}")
        return
    rows = [
        [
            one["problem"].removeprefix("problem "), str(one["n_arms"]), f"{one['rate']:g}",
            one["policy"], f"{one['regret']:.4g}", f"{one['reference']:.4g}",
            f"{one['difference']:.3g} ± {one['sem']:.1g}",
        ]
        for one in found["beaten"]
    ]  # fmt: skip
    page.table(
        f"where another policy is surely better than {reference}, and the best there",
        ["problem", "arms", "ε", "policy", "its regret", reference, "difference ± s.e."],
        rows,
        left=("policy",),
    )
