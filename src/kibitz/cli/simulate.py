"""`kibitz simulate`: play policies against a problem."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from kibitz.cli import parse
from kibitz.cli.parse import SEED, Numbers

if TYPE_CHECKING:
    import xarray

Rewards = Literal["gaussian", "bernoulli", "bounded"]
Observer = Literal["bandit", "passive", "active", "full"]


@parse.simulation_options(horizon=10_000, runs=1000, seed=SEED)
def simulate(
    policy: Annotated[
        list[str],
        parse.text(
            "NAME[:PARAM=VALUE,...]",
            "A policy and its parameters (see `kibitz policies`); repeatable",
        ),
    ],
    means: Annotated[Numbers | None, parse.numbers("means", "Mean of each arm: 2,1.8,0.5")] = None,
    log: Annotated[
        str,
        parse.text("FILE", "Draw rewards from this log instead: an agent's export, or a CSV file"),
    ] = "",
    rewards: Annotated[
        Rewards, parse.word("rewards", "Distribution of the rewards", get_args(Rewards))
    ] = "gaussian",
    sd: Annotated[
        Numbers | None,
        parse.numbers("sd", "Standard deviation, common (default: 1) or one for each arm"),
    ] = None,
    observer: Annotated[
        Observer, parse.word("observer", "Who chooses the arm of a look", get_args(Observer))
    ] = "bandit",
    rate: Annotated[float | None, parse.number("rate", "How often looks arrive, ε in [0, 1]")] = None,
    every: Annotated[
        int | None, parse.whole("every", "Looks arrive every so many stages instead")
    ] = None,
    weights: Annotated[
        Any,
        parse.weights(
            "Passive: uniform (default), optimal, suboptimal or a list such as 0.1,0.2,0.7"
        ),
    ] = None,
    looks: Annotated[int, parse.whole("looks", "Arms looked at when looks arrive")] = 1,
    paid: Annotated[bool, parse.flag("--paid", "A look costs its gap")] = False,
    *,
    plot: Annotated[str, parse.text("FILE", "Draw regret against time to this PNG, SVG or PDF")] = "",
    watch: Annotated[
        bool,
        parse.flag(
            "--watch",
            "Look on as runs come in, in a window or a terminal; Ctrl-C prints those so far",
        ),
    ] = False,
    as_json: Annotated[bool, parse.flag("--json", "Print one JSON object")] = False,
    **options: Any,
) -> None:
    """Play policies against a problem and print their regret."""
    from kibitz._files import check_target
    from kibitz.cli.cluster import executor_at
    from kibitz.cli.policies import policies_from
    from kibitz.cli.tables import print_json, progress_bar

    if plot:
        parse.check_plot(plot)
    out, runs = options["file"], options["runs"]
    if out and out.endswith(".zarr"):
        parse.check_installed("zarr", "zarr")
    elif out:
        check_target(out, "out")
    named = policies_from(policy)
    problem = problem_of_log(log, means, sd) if log else problem_from(rewards, means, sd)
    feedback = feedback_from(observer, rate, every, weights, looks, paid)
    window = None
    with executor_at(options["executor"]) as options["executor"]:
        game: Any = (problem, feedback, named)
        if watch:
            from kibitz.cli.watch import screen
            from kibitz.plotting.race import open_window, watch_simulation

            window = open_window()
            with screen(window) as shown:
                data = watch_simulation(shown, *game, **options)
        else:
            from kibitz.simulation.simulate import simulate as play

            with progress_bar() as progress:
                data = play(*game, progress=progress, **options)
    if plot:
        from kibitz.plotting.figures import draw_regret_curves, save_figure

        save_figure(draw_regret_curves(data, f"{problem.kind}, {observer}"), Path(plot))
    if as_json:
        print_json(as_object(data))
    else:
        print_regret(data)
        for file in filter(None, (out, plot)):
            print(f"written to {file}")
    if (complete := data.sizes["run"]) < runs:
        if not as_json:
            print(f"stopped after {complete} of {runs} runs")
        raise KeyboardInterrupt  # `main` has a sentence for it
    if window is not None:
        window.wait_until_closed()


def problem_of_log(log: str, means: list[float] | None, sd: list[float] | None) -> Any:
    """Return the problem of a log."""
    from kibitz._validation import invalid
    from kibitz.live.agent.from_log import from_log

    for name, value in {"means": means, "sd": sd}.items():
        if value is not None:
            raise invalid(name, "left out for a log", value)
    return from_log(log)


def problem_from(rewards: Rewards, means: list[float] | None, sd: list[float] | None) -> Any:
    """Return the problem that the options describe."""
    if means is None:
        raise parse.Refused("means must be given, or a log, got none")
    from kibitz._validation import invalid
    from kibitz.model.problem import bernoulli, gaussian

    if rewards == "gaussian":
        spread = sd or [1.0]
        return gaussian(means, spread[0] if len(spread) == 1 else spread)
    if rewards == "bounded":
        raise parse.Refused("--rewards bounded needs --log, a file with rewards in [0, 1]")
    if sd:
        raise invalid("sd", "left out for bernoulli rewards", sd)
    return bernoulli(means)


def feedback_from(
    observer: Observer,
    rate: float | None,
    every: int | None,
    weights: str | list[float] | None,
    looks: int,
    paid: bool,
) -> Any:
    """Return the feedback that the options describe."""
    from kibitz._validation import invalid
    from kibitz.model import feedback

    if observer != "passive" and weights is not None:
        raise invalid("weights", "left out unless the observer is passive", weights)
    if observer in {"bandit", "full"}:
        given = {"rate": rate, "every": every, "looks": looks, "paid": paid}
        ordinary = {"rate": None, "every": None, "looks": 1, "paid": False}
        for name, value in given.items():
            if value != ordinary[name]:
                raise invalid(name, f"left out for the observer {observer}", value)
        return feedback.full() if observer == "full" else feedback.bandit()
    if (rate is None) == (every is None):
        got = "none" if rate is None else "both"
        raise ValueError(f"rate or every must be given for {observer}, got {got}")
    arrivals: Any = rate if every is None else feedback.every(every)
    if observer == "active":
        return feedback.active(arrivals, looks=looks, paid=paid)
    return feedback.passive(
        arrivals, "uniform" if weights is None else weights, looks=looks, paid=paid
    )


def as_object(data: "xarray.Dataset") -> dict[str, Any]:
    """Return a result as plain data, for --json."""
    policies = {}
    for label in data["policy"].to_numpy():
        one = data.sel(policy=label).compute()  # of a folder, it is read here
        final, curve = one["final_regret"], one["regret"]
        quantiles = final.quantile([0.1, 0.25, 0.5, 0.75, 0.9]).to_numpy().tolist()
        low, high = curve.quantile([0.25, 0.75], "run").to_numpy().tolist()
        policies[str(label)] = {
            "regret": {
                "mean": float(final.mean()),
                "sem": standard_error(final),
                **dict(zip(("q10", "q25", "median", "q75", "q90"), quantiles, strict=True)),
            },
            "curve": {
                "stages": one["stage"].to_numpy().tolist(),
                "mean": curve.mean("run").to_numpy().tolist(),
                "q25": low,
                "q75": high,
            },
            "n_pulls": one["n_pulls"].mean("run").to_numpy().tolist(),
            "n_looks": one["n_looks"].mean("run").to_numpy().tolist(),
        }
    fingerprint = json.loads(data.attrs["fingerprint"])
    fingerprint |= {"runs": data.sizes["run"], "engine": json.loads(data.attrs["engine"])}
    fingerprint["versions"] = json.loads(data.attrs["versions"])
    return {"fingerprint": fingerprint, "policies": policies}


def standard_error(final: "xarray.DataArray") -> float:
    """Return the standard error of a mean over runs; 0 for a single run."""
    runs = final.sizes["run"]
    return float(final.std(ddof=1)) / math.sqrt(runs) if runs > 1 else 0.0


def mean_and_error(final: "xarray.DataArray") -> str:
    """Return a mean over runs with its standard error, in words."""
    return f"{float(final.mean()):.4g} ± {standard_error(final):.2g}"


def print_regret(data: "xarray.Dataset") -> None:
    """Print a result for people."""
    from kibitz.cli.tables import Page

    setting = json.loads(data.attrs["fingerprint"])
    rows = []
    for label in data["policy"].to_numpy():
        one = data.sel(policy=label).compute()  # of a folder, it is read here
        final = one["final_regret"]
        quartiles = final.quantile([0.25, 0.5, 0.75]).to_numpy()
        shares = []
        for name in ("n_pulls", "n_looks"):
            counts = one[name].mean("run").to_numpy()
            share = 100 * counts / max(counts.sum(), 1)
            shares.append(" ".join(f"{s:.3g}" for s in share) if counts.sum() else "–")
        rows.append([str(label), mean_and_error(final), *(f"{q:.4g}" for q in quartiles), *shares])
    page = Page(120)
    page.table(
        f"regret after {setting['horizon']} stages, {data.sizes['run']} runs",
        ["policy", "mean ± s.e.", "q25", "median", "q75", "pulls %", "looks %"],
        rows,
        folded=("pulls %", "looks %"),
    )
    engines = " and ".join(sorted(set(json.loads(data.attrs["engine"]).values())))
    page.text(f"seed {setting['seed']}, engine {engines}")
