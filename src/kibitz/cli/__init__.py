"""The command line. Each command imports what it needs, so that `kibitz --help` answers at once."""

import ast
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

SEED = 1  # the default, printed with each result
INTERRUPTED = 130  # exit code after Ctrl-C

app = typer.Typer(
    name="kibitz",
    help="Bandits that sometimes get to look.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line; bad input gets one sentence and exit code 2."""
    try:
        code = app(standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:  # `kibitz ... | head`
        sys.stderr.close()
        sys.exit(141)
    except Exception as error:
        usage = getattr(error, "format_message", None)  # of a misused command or option
        if usage is None and not isinstance(error, ValueError):
            raise
        text = usage() if usage else str(error)
        if text:
            print(f"kibitz: {text}", file=sys.stderr)
        sys.exit(2)
    if code == INTERRUPTED:  # some versions of typer catch Ctrl-C themselves
        print("kibitz: interrupted; with --out, the same command goes on from here", file=sys.stderr)
    sys.exit(code)


# ------------------------------------------------------------------------------------ simulate


@app.command()
def simulate(
    means: Annotated[str, typer.Option(help="Mean of each arm: 2,1.8,0.5")],
    policy: Annotated[
        list[str],
        typer.Option(help="NAME or NAME:param=value,... (see `kibitz policies`); repeatable"),
    ],
    horizon: Annotated[str, typer.Option(help="Number of stages, T")] = "10000",
    runs: Annotated[str, typer.Option(help="Number of runs")] = "1000",
    seed: Annotated[str, typer.Option(help="Seed of all random numbers")] = str(SEED),
    law: Annotated[str, typer.Option(help="gaussian or bernoulli")] = "gaussian",
    sd: Annotated[str, typer.Option(help="Standard deviation, common or one for each arm")] = "",
    observer: Annotated[str, typer.Option(help="bandit, passive, active or full")] = "bandit",
    rate: Annotated[str, typer.Option(help="How often looks arrive, ε in [0, 1]")] = "",
    every: Annotated[str, typer.Option(help="Looks arrive every so many stages instead")] = "",
    weights: Annotated[
        str, typer.Option(help="Passive: uniform, optimal, suboptimal or a list such as 0.1,0.2,0.7")
    ] = "",
    looks: Annotated[str, typer.Option(help="Arms looked at when looks arrive")] = "1",
    paid: Annotated[bool, typer.Option("--paid", help="A look costs its gap")] = False,
    threads: Annotated[str, typer.Option(help="Runs at a time (default: all cores)")] = "",
    engine: Annotated[str, typer.Option(help="auto, step or leap")] = "auto",
    error: Annotated[str, typer.Option(help="Leaping: error of a run, in total variation")] = "1e-9",
    out: Annotated[str, typer.Option(help="Save to this netCDF file, or go on from it")] = "",
    plot: Annotated[str, typer.Option(help="Draw regret against time to this PNG, SVG or PDF")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Play policies against a problem and print their regret."""
    if plot:
        check_plot(plot)
    policy_specs = [parse_policy_spec(spec) for spec in policy]
    from kibitz.model import feedback as feedbacks
    from kibitz.model import problem as problems
    from kibitz.simulator.simulate import simulate as play

    mu = parse_numbers(means, "means")
    if law == "gaussian":
        spread = parse_numbers(sd or "1", "sd")
        problem = problems.gaussian(mu, spread[0] if len(spread) == 1 else spread)
    elif law == "bernoulli":
        if sd:
            raise ValueError(f"sd must be left out for bernoulli rewards, got {sd!r}")
        problem = problems.bernoulli(mu)
    else:
        raise ValueError(f"law must be 'gaussian' or 'bernoulli', got {law!r}")
    feedback = parse_feedback(feedbacks, observer, rate, every, weights, looks, paid)
    named = {}
    for spec, (name, parameters) in zip(policy, policy_specs, strict=True):
        if spec in named:
            raise ValueError(f"policy must be given once each, got {spec!r} twice")
        named[spec] = make_policy(name, parameters)
    with progress_bar() as progress:
        data = play(
            problem,
            feedback,
            named,
            horizon=parse_whole(horizon, "horizon"),
            runs=parse_whole(runs, "runs"),
            seed=parse_whole(seed, "seed"),
            threads=parse_whole(threads, "threads") if threads else None,
            file=out or None,
            progress=progress,
            engine=engine,
            error=parse_number(error, "error"),
        )
    if plot:
        from kibitz.reproduction.plots import regret_curves, save_figure

        save_figure(regret_curves(data, f"{problem.law}, {observer}"), Path(plot))
    if as_json:
        print(json.dumps(as_object(data), ensure_ascii=False, allow_nan=False))
    else:
        print_table(data)
        for file in filter(None, (out, plot)):
            print(f"written to {file}")


def parse_feedback(
    feedbacks: Any, observer: str, rate: str, every: str, weights: str, looks: str, paid: bool
) -> Any:
    """Return the feedback that the options describe."""
    if observer not in {"bandit", "passive", "active", "full"}:
        raise ValueError(
            f"observer must be 'bandit', 'passive', 'active' or 'full', got {observer!r}"
        )
    if observer != "passive" and weights:
        raise ValueError(f"weights must be left out unless the observer is passive, got {weights!r}")
    if observer in {"bandit", "full"}:
        given = {"rate": rate, "every": every, "looks": "" if looks == "1" else looks}
        for name, value in given.items():
            if value:
                raise ValueError(
                    f"{name} must be left out for the observer {observer}, got {value!r}"
                )
        if paid:
            raise ValueError(f"paid must be left out for the observer {observer}, got True")
        return feedbacks.full() if observer == "full" else feedbacks.bandit()
    if bool(rate) == bool(every):
        raise ValueError(
            f"rate or every must be given for {observer}, got {'both' if rate else 'none'}"
        )
    arrivals = feedbacks.every(parse_whole(every, "every")) if every else parse_number(rate, "rate")
    options = {"looks": parse_whole(looks, "looks"), "paid": paid}
    if observer == "active":
        return feedbacks.active(arrivals, **options)
    names = {"", "uniform", "optimal", "suboptimal"}
    p = (weights or "uniform") if weights in names else parse_numbers(weights, "weights")
    return feedbacks.passive(arrivals, p, **options)


def as_object(data: Any) -> dict[str, Any]:
    """Return a result as plain data, for --json."""
    policies = {}
    for label in data["policy"].to_numpy():
        one = data.sel(policy=label)
        final, curve = one["final_regret"], one["regret"]
        q10, q25, median, q75, q90 = final.quantile([0.1, 0.25, 0.5, 0.75, 0.9]).to_numpy().tolist()
        low, high = curve.quantile([0.25, 0.75], "run").to_numpy().tolist()
        policies[str(label)] = {
            "regret": {
                "mean": float(final.mean()),
                "sem": standard_error(final),
                "q10": q10,
                "q25": q25,
                "median": median,
                "q75": q75,
                "q90": q90,
            },
            "curve": {
                "stages": one["stage"].to_numpy().tolist(),
                "mean": curve.mean("run").to_numpy().tolist(),
                "q25": low,
                "q75": high,
            },
            "n_pulls": one["n_pulls"].mean("run").to_numpy().tolist(),
            "n_free": one["n_free"].mean("run").to_numpy().tolist(),
        }
    setting = json.loads(data.attrs["setting"])
    setting |= {"runs": data.sizes["run"], "engine": json.loads(data.attrs["engine"])}
    setting["versions"] = json.loads(data.attrs["versions"])
    return {"setting": setting, "policies": policies}


def standard_error(final: Any) -> float:
    """Return the standard error of a mean over runs; 0 for a single run."""
    runs = final.sizes["run"]
    return float(final.std(ddof=1)) / math.sqrt(runs) if runs > 1 else 0.0


def print_table(data: Any) -> None:
    """Print a result for people."""
    from rich.console import Console
    from rich.table import Table

    setting = json.loads(data.attrs["setting"])
    table = Table(title=f"regret after {setting['horizon']} stages, {data.sizes['run']} runs")
    table.add_column("policy", overflow="fold")
    for column in ("mean ± s.e.", "q25", "median", "q75", "pulls %", "looks %"):
        table.add_column(column, justify="right")
    for label in data["policy"].to_numpy():
        one = data.sel(policy=label)
        final = one["final_regret"]
        quartiles = final.quantile([0.25, 0.5, 0.75]).to_numpy()
        shares = []
        for name in ("n_pulls", "n_free"):
            counts = one[name].mean("run").to_numpy()
            share = 100 * counts / max(counts.sum(), 1)
            shares.append(" ".join(f"{s:.3g}" for s in share) if counts.sum() else "–")
        table.add_row(
            str(label),
            f"{float(final.mean()):.4g} ± {standard_error(final):.2g}",
            *(f"{q:.4g}" for q in quartiles),
            *shares,
        )
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table)
    engines = " and ".join(sorted(set(json.loads(data.attrs["engine"]).values())))
    console.print(f"seed {setting['seed']}, engine {engines}", highlight=False)


@contextmanager
def progress_bar() -> Iterator[Callable[[str, float], None]]:
    """Show progress on standard error, for work that takes longer than a second, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda what, share: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    started = time.monotonic()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=1.0)

    def show(what: str, share: float) -> None:
        if not bar.live.is_started and (time.monotonic() - started > 1 or "compiling" in what):
            bar.start()
        bar.update(task, description=what, completed=share)

    try:
        yield show
    finally:
        if bar.live.is_started:
            bar.stop()


# ------------------------------------------------------------------------------------- policies


@app.command()
def policies() -> None:
    """List the policies, their parameters and defaults, and where in the paper each is."""
    for name, parameters, sentence in listed_policies():
        print(f"{name}({parameters})\n    {sentence}")


def listed_policies() -> list[tuple[str, str, str]]:
    """Return name, parameters and first sentence of each policy, read from the source.

    Importing the policies would mean to wait for numba.
    """
    folder = Path(__file__).parents[1] / "policies"
    made: dict[str, tuple[str, str, str]] = {}
    for file in folder.glob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and ast.unparse(node.returns or node) == "Policy":
                names = [argument.arg for argument in node.args.args]
                defaults = map(ast.unparse, node.args.defaults)
                parameters = ", ".join(map("=".join, zip(names, defaults, strict=False)))
                sentence = (ast.get_docstring(node) or "").splitlines()[0]
                made[node.name] = (node.name, parameters, sentence)
    listing = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
    order = next(
        node.value.generators[0].iter
        for node in listing.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.DictComp)
    )
    assert isinstance(order, ast.Tuple)
    return [made[ast.unparse(element)] for element in order.elts]


def make_policy(name: str, parameters: dict[str, str]) -> Any:
    """Return the policy that a specification describes."""
    import inspect

    from kibitz.policies import POLICIES

    known = inspect.signature(POLICIES[name]).parameters
    values: dict[str, Any] = {}
    for parameter, text in parameters.items():
        if parameter not in known:
            raise ValueError(
                f"parameter of {name} must be one of {', '.join(known) or 'none'}, got {parameter!r}"
            )
        values[parameter] = parse_value(text, known[parameter].default, parameter)
    return POLICIES[name](**values)


def parse_policy_spec(spec: str) -> tuple[str, dict[str, str]]:
    """Split NAME:param=value,... into its parts; refuse an unknown name."""
    name, _, rest = spec.partition(":")
    names = [listed[0] for listed in listed_policies()]
    if name not in names:
        raise ValueError(f"policy must be one of {', '.join(names)}, got {name!r}")
    parameters: dict[str, str] = {}
    for part in filter(None, rest.split(",")):
        parameter, equals, value = part.partition("=")
        if not equals or not value:
            raise ValueError(f"policy must be NAME:param=value,..., got {spec!r}")
        if parameter in parameters:
            raise ValueError(f"{parameter} must be given once, got {spec!r}")
        parameters[parameter] = value
    return name, parameters


def parse_value(text: str, default: Any, name: str) -> Any:
    """Read a parameter as what its default is."""
    if isinstance(default, bool):
        if text.lower() not in {"true", "false", "1", "0"}:
            raise ValueError(f"{name} must be true or false, got {text!r}")
        return text.lower() in {"true", "1"}
    if isinstance(default, str):
        return text
    if isinstance(default, float):
        return parse_number(text, name)
    return parse_whole(text, name)


# ------------------------------------------------------------------------------------ reproduce


@app.command()
def reproduce(
    only: Annotated[str, typer.Option(help="Numbers of the experiments: 4 or 1,3")] = "",
    runs: Annotated[str, typer.Option(help="Runs (default: each experiment's own number)")] = "",
    seed: Annotated[str, typer.Option(help="Seed of all random numbers")] = str(SEED),
    out: Annotated[str, typer.Option(help="Folder for data, figures and page")] = "reproduction",
    quick: Annotated[bool, typer.Option("--quick", help="A rough version, in seconds")] = False,
    threads: Annotated[str, typer.Option(help="Runs at a time (default: all cores)")] = "",
) -> None:
    """Reproduce the paper's experiments: data, figures and a page; go on where it was interrupted."""
    numbers = [parse_whole(number, "only") for number in only.split(",")] if only else []
    whole = {"runs": runs, "threads": threads}
    given = {name: parse_whole(text, name) if text else None for name, text in whole.items()}
    for name, number in given.items():
        if number is not None and number < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, got {number!r}")
    for package in ("matplotlib", "vl_convert"):
        check_installed(package)
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"out must be a folder, got {out!r}")
    from kibitz.reproduction.report import reproduce as do

    with progress_bar() as progress:
        done = do(
            folder,
            seed=parse_whole(seed, "seed"),
            only=numbers,
            runs=given["runs"],
            quick=quick,
            threads=given["threads"],
            progress=progress,
        )
    from rich.console import Console
    from rich.table import Table

    table = Table("", "experiment", "verdict", "in numbers", title=f"seed {seed}")
    for section in done:
        verdict = section.verdict
        table.add_row(str(section.number), section.title, verdict.word, verdict.short)
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    print(f"written to {folder / 'report.html'}")


def check_installed(package: str) -> None:
    """Refuse to begin without a package that is needed at the end."""
    import importlib.util

    if importlib.util.find_spec(package) is None:
        raise ValueError(
            f"{package} must be installed (pip install 'kibitz[reproduce]'), got nothing"
        )


# --------------------------------------------------------------------------------------- bounds


@app.command()
def bounds(
    means: Annotated[str, typer.Option(help="Mean of each arm: 2,1.8,0.5")],
    rate: Annotated[str, typer.Option(help="How often looks arrive, ε in [0, 1]")],
    horizon: Annotated[str, typer.Option(help="Number of stages, T")] = "10000",
    weights: Annotated[
        str, typer.Option(help="Passive: uniform, optimal, suboptimal or a list such as 0.1,0.2,0.7")
    ] = "uniform",
    C: Annotated[str, typer.Option("--C", help="C of Definition 1 (default: UCB1's, 8)")] = "",
    C_0: Annotated[str, typer.Option("--C0", help="C_0 of it (default: UCB1's, 1 + π²/3)")] = "",
    rho: Annotated[str, typer.Option(help="ρ of OCUCB-n, for the hardness of arms")] = "0.5",
    alpha: Annotated[str, typer.Option(help="α of ETC, for the last epoch of arms")] = "1",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Print every bound for a setting: what is printed in the paper, and what is really proved."""
    from kibitz.bounds import summary

    constants = {"C": C, "C_0": C_0}
    given: dict[str, Any] = {
        name: parse_number(text, name) for name, text in constants.items() if text
    }
    given["weights"] = parse_weights(weights)
    setting: Any = (parse_number(rate, "rate"), parse_whole(horizon, "horizon"))
    data = summary(
        parse_numbers(means, "means"),
        *setting,
        **given,
        rho=parse_number(rho, "rho"),
        alpha=parse_number(alpha, "alpha"),
    )
    if as_json:
        print(json.dumps(without_infinity(data), ensure_ascii=False, allow_nan=False))
    else:
        print_bounds(data)


def print_bounds(data: dict[str, Any]) -> None:
    """Print bounds for people."""
    from rich.console import Console
    from rich.table import Table

    setting, onset, printed = data["setting"], data["onset"], data["printed"]
    lower = Table(title="lower bounds", title_justify="left")
    columns = ("", "proved", "printed", "positive for ε below", "from T =", "without looks")
    for column in columns:
        lower.add_column(column, justify="right" if column else "left")
    for observer in ("passive", "active"):
        for name, proved in data["lower"][observer].items():
            begins = onset[observer][name]
            stages = (begins["horizon"], begins["horizon_without_looks"])
            lower.add_row(
                f"{observer}, {name.replace('_', ' ')}",
                f"{proved:.4g}" if proved > 0 else "vacuous",
                shown(printed["lower"][observer].get(name)),
                "never" if begins["rate"] == 0 else f"{begins['rate']:.2g}",
                *("never" if t == math.inf else f"{t:.6g}" for t in stages),
                end_section=name == "sharp",
            )
    upper = Table(title="upper bounds", title_justify="left")
    for column in ("", "proved", "printed"):
        upper.add_column(column, justify="right" if column else "left")
    for name, proved in data["upper"].items():
        says = "vacuous" if proved == math.inf else f"{proved:.4g}"
        label = name.replace("_", " ").replace("ucb", "UCB").replace("ftl ", "FTL-")
        upper.add_row(label, says, shown(printed["upper"].get(name)))
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    console.print(f"ε = {setting['rate']:g}, T = {setting['horizon']}, rewards N(μ, 1)")
    for words, values in {
        "gaps": data["gaps"],
        "weights": setting["weights"],
        "best weights": data["optimal_weights"],
    }.items():
        console.print(f"{words} {' '.join(f'{value:.4g}' for value in values)}")
    console.print(f"C_Δ = {data['c_delta']:.4g}, ε* = {data['rate_star']:.4g}\n")
    console.print(lower)
    console.print(
        f"for algorithms that are sub-logarithmic with C = {setting['C']:.4g}, "
        f"C_0 = {setting['C_0']:.4g}; ε at this T, T at this ε"
    )
    if not any(bound for kind in data["lower"].values() for bound in kind.values()):
        rate = max(begins["rate"] for kind in onset.values() for begins in kind.values())
        console.print(
            "No proved lower bound says anything here"
            + (f"; the first one does for ε below {rate:.2g}." if rate > 0 else " for any ε.")
        )
    console.print()
    console.print(upper)
    console.print("of UCB (c = 6) as a passive observer, and of FTL-robin as an active one;")
    most = setting["horizon"] * max(data["gaps"])
    console.print(f"no policy can do worse than T Δ_max = {most:.4g}")


def shown(bound: float | None) -> str:
    """Return a number for a table, a dash for none."""
    return "–" if bound is None else f"{bound:.4g}"


def without_infinity(data: Any) -> Any:
    """Return plain data with infinite numbers as the strings "inf" and "-inf", for JSON."""
    if isinstance(data, dict):
        return {key: without_infinity(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [without_infinity(value) for value in data]
    return str(data) if isinstance(data, float) and math.isinf(data) else data


# ----------------------------------------------------------------------------------------- plan


@app.command()
def plan(
    horizon: Annotated[str, typer.Option(help="Number of stages, T")],
    n_arms: Annotated[
        str, typer.Option("--arms", "--n-arms", help="Number of arms, for --gap and --gap-range")
    ] = "",
    gap: Annotated[str, typer.Option(help="The gap of every arm but the best: 0.5")] = "",
    gap_range: Annotated[str, typer.Option(help="It is somewhere between two: 0.1,1")] = "",
    gaps: Annotated[str, typer.Option(help="The gap of each arm but the best: 0.2,0.5,1")] = "",
    cost: Annotated[str, typer.Option(help="Cost of a look, in units of regret")] = "",
    exploration: Annotated[str, typer.Option(help="The constant c of UCB's index")] = "6",
    simulate: Annotated[bool, typer.Option("--simulate", help="Back it by a simulation")] = False,
    runs: Annotated[str, typer.Option(help="Runs of each simulated setting")] = "200",
    seed: Annotated[str, typer.Option(help="Seed of all random numbers")] = str(SEED),
    plot: Annotated[str, typer.Option(help="Draw the prediction to this PNG, SVG or PDF")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Plan a bucket of free looks: how large, where to look, and what it saves."""
    if plot:
        check_plot(plot)
    from kibitz.planning.planner import plan as make_plan

    with progress_bar() as progress:
        planned = make_plan(
            parse_whole(horizon, "horizon"),
            n_arms=parse_whole(n_arms, "n_arms") if n_arms else None,
            gap=parse_number(gap, "gap") if gap else None,
            gap_range=parse_numbers(gap_range, "gap_range") if gap_range else None,
            gaps=parse_numbers(gaps, "gaps") if gaps else None,
            cost=parse_number(cost, "cost") if cost else None,
            exploration=parse_number(exploration, "exploration"),
            simulate=simulate,
            runs=parse_whole(runs, "runs"),
            seed=parse_whole(seed, "seed"),
            progress=progress,
        )
    if plot:
        from kibitz.reproduction.plots import plan_curves, save_figure

        save_figure(plan_curves(planned), Path(plot))
    if as_json:
        print(json.dumps(without_infinity(planned), ensure_ascii=False, allow_nan=False))
    else:
        print_plan(planned)
        if plot:
            print(f"written to {plot}")


OBSERVER_NAMES = {
    "none": "no looks",
    "uniform": "uniform",
    "optimal": "best weights",
    "active": "UCB1-Double",
}


def print_plan(planned: dict[str, Any]) -> None:
    """Print a plan for people."""
    from rich.console import Console
    from rich.table import Table

    setting, regret = planned["setting"], planned["regret"]
    several = len(setting["problems"]) > 1
    observers = tuple(regret)

    def cell(both: dict[str, Any], k: int) -> str:
        mean, worst = both["mean"][k], both["worst"][k]
        return f"{mean:.4g} ({worst:.4g})" if several else f"{mean:.4g}"

    table = Table(title=f"predicted regret after {setting['horizon']} stages", title_justify="left")
    table.add_column("ε")
    names = [OBSERVER_NAMES[observer] for observer in observers]
    for column in ("looks", *names, *(f"{name}, early" for name in names), "flat from stage"):
        table.add_column(column, justify="right")
    for k in [0, *range(1, len(planned["rates"]), 6)]:
        flat = planned["plateau"]["active"]["worst"][k]
        table.add_row(
            f"{planned['rates'][k]:.2g}",
            f"{planned['looks'][k]:.4g}",
            *(cell(regret[observer], k) for observer in observers),
            *(cell(planned["early"]["regret"][observer], k) for observer in observers),
            "never" if flat == math.inf else f"{flat:.3g}",
        )
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    first, last = setting["problems"][0], setting["problems"][-1]
    shown_gaps = (
        f"{first[-1]:g} to {last[-1]:g}" if several else " ".join(f"{g:g}" for g in first[1:])
    )
    console.print(f"{setting['n_arms']} arms, gaps {shorten(shown_gaps)}, rewards N(μ, 1)")
    star = planned["rate_star"]
    console.print(
        f"looks begin to matter at about ε* = {star['mean']:.2g}"
        + (f", at the smallest gap {star['worst']:.2g}" if several else "")
    )
    console.print(table)
    if several:
        console.print("mean over the gaps (and the worst of them)")
    console.print("flat from: UCB1-Double's regret hardly grows after this stage, if T is larger")
    accuracy = planned["accuracy"]
    console.print(
        "accuracy, measured: 9 of 10 predictions within "
        + ", ".join(f"{100 * accuracy[observer]['nine_of_ten']:.0f} %" for observer in observers)
        + f" ({', '.join(names)}), of early looks within "
        + f"{100 * accuracy['early']['nine_of_ten']:.0f} % of the regret without looks"
    )
    print_advice(planned, console)
    if "simulation" in planned:
        print_points(planned["simulation"], console)


def print_advice(planned: dict[str, Any], console: Any) -> None:
    """Print where the looks should go, when, and how many of them."""
    weights = planned["weights"]
    spread = " ".join(f"{p:.3g}" for p in weights["optimal"][0])
    several = len(weights["optimal"]) > 1
    where = "evenly on all arms but the best" if several else f"with weights {shorten(spread)}"
    console.print(
        f"where: {where}, or let UCB1-Double choose; looking at all arms alike costs about "
        f"{weights['uniform_costs']['mean']:.3g} of regret more, once looks matter"
    )
    steady, early = (
        kind["active"]["mean"] for kind in (planned["regret"], planned["early"]["regret"])
    )
    k = max(range(len(steady)), key=lambda place: steady[place] - early[place])
    off = planned["accuracy"]["early"]["nine_of_ten"] * steady[0]
    gains = steady[k] - early[k] > off
    console.print(
        "when: early, at rates min(1, A/t); "
        f"{planned['looks'][k]:.3g} looks with A = {planned['early']['scale'][k]:.3g} would bring "
        f"UCB1-Double's regret from {steady[k]:.3g} to {early[k]:.3g}, give or take {off:.2g}"
        if gains
        else "when: it makes no difference whether the looks come early"
    )
    for observer, best in planned.get("best", {}).items():
        text = f"ε = {best['rate']:.2g} ({best['looks']:.3g} looks), net saving {best['net']:.3g}"
        if best["rate"] == 0:
            text = "none is worth its cost"
        if "leading" in best:
            leading = best["leading"]
            text += f"; by leading-order theory ε = {leading['rate']:.2g}, net {leading['net']:.3g}"
        console.print(f"best size, {OBSERVER_NAMES[observer]}: {text}")


def print_points(simulation: dict[str, Any], console: Any) -> None:
    """Print predictions beside simulations."""
    from rich.table import Table

    title = f"predicted and simulated, {simulation['runs']} runs, seed {simulation['seed']}"
    table = Table(title=title, title_justify="left")
    for column in ("gap", "ε", "observer", "predicted", "simulated ± s.e.", "ratio"):
        table.add_column(column, justify="left" if column == "observer" else "right")
    for point in simulation["points"]:
        name = OBSERVER_NAMES[point["observer"]] + (", early" if point["early"] else "")
        table.add_row(
            f"{point['gaps'][1]:.3g}",
            f"{point['rate']:.2g}",
            name,
            f"{point['predicted']:.4g}",
            f"{point['mean']:.4g} ± {point['sem']:.2g}",
            f"{point['predicted'] / point['mean']:.2f}" if point["mean"] > 0 else "–",
        )
    console.print(table)


def shorten(text: str, most: int = 70) -> str:
    """Return the beginning of a long list."""
    return text if len(text) <= most else text[: text.rindex(" ", 0, most)] + " …"


# -------------------------------------------------------------------------------------- parsing


def parse_number(text: str, name: str) -> float:
    """Read a number; 1e-3 and 1/3 are fine."""
    try:
        above, slash, below = text.partition("/")
        return float(above) / float(below) if slash else float(above)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{name} must be a number, got {text!r}") from None


def parse_numbers(text: str, name: str) -> list[float]:
    """Read a list of numbers, separated by commas."""
    if not text.strip():
        raise ValueError(f"{name} must be a list such as 1,0.5, got {text!r}")
    return [parse_number(part, name) for part in text.split(",")]


def parse_weights(text: str) -> str | list[float]:
    """Read the weights of a passive observer: a word or a list of numbers."""
    if text in {"uniform", "optimal", "suboptimal"}:
        return text
    try:
        return parse_numbers(text, "weights")
    except ValueError:
        raise ValueError(
            f"weights must be uniform, optimal, suboptimal or a list of numbers, got {text!r}"
        ) from None


def parse_whole(text: str, name: str) -> int:
    """Read a whole number; 1e6 is fine."""
    number = parse_number(text, name)
    if not (math.isfinite(number) and number == int(number)):
        raise ValueError(f"{name} must be a whole number, got {text!r}")
    return int(text) if text.strip().lstrip("-").isdigit() else int(number)


def check_plot(plot: str) -> None:
    """Refuse a figure that could not be written when all is computed."""
    path = Path(plot)
    if path.suffix not in {".png", ".svg", ".pdf"}:
        raise ValueError(f"plot must end in .png, .svg or .pdf, got {plot!r}")
    if not path.parent.is_dir():
        raise ValueError(f"plot must be in a folder that exists, got {plot!r}")
    import importlib.util

    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError("plot must be left out without matplotlib (pip install 'kibitz[figures]')")
