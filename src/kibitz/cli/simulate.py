"""`kibitz simulate`: simulate policies on a problem."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from kibitz.cli import option
from kibitz.cli.option import LOOKS, OUTPUT, PROBLEM, SEED, Numbers, OptionError

if TYPE_CHECKING:
    import xarray

    from kibitz.cli.output import Printer

Rewards = Literal["gaussian", "bernoulli", "bounded"]
Observer = Literal["bandit", "passive", "active", "full"]

REWARDS_HELP = "Reward distribution: gaussian, bernoulli, or bounded (only with --log)"

EXAMPLES = """\
kibitz simulate --policy ucb --policy kibitzer --means 2,1.8,0.5 --runs 100
kibitz simulate --policy kibitzer:rewards=bernoulli --means 0.05,0.06 \\
    --rewards bernoulli --observer active --rate 0.1 --out result.nc
kibitz simulate --policy ucb --policy scout --means 2,1.8,1.5,1 \\
    --graph star:3 --look-rate 0.01 --horizon 1000 --runs 100
kibitz simulate --policy ucb --means 2,1.8,0.5 --change 3001:2,2.5,0.5 \\
    --runs 100
"""


@option.simulation_options(horizon=10_000, runs=1000, seed=SEED)
def simulate(
    policy: Annotated[
        list[str],
        option.policy(
            "A policy, such as ucb or ucb:exploration=2 (see `kibitz policies`); repeatable"
        ),
    ],
    means: Annotated[
        Numbers | None, option.numbers("--means", "Mean of each arm: 2,1.8,0.5", PROBLEM)
    ] = None,
    log: Annotated[
        str,
        option.text(
            "--log",
            "FILE",
            "Sample rewards from a log instead: an agent's export, or a CSV file",
            PROBLEM,
        ),
    ] = "",
    rewards: Annotated[
        Rewards, option.choice("--rewards", REWARDS_HELP, get_args(Rewards), PROBLEM)
    ] = "gaussian",
    sd: Annotated[
        Numbers | None,
        option.numbers(
            "--sd", "Standard deviation: one for all arms (default: 1) or one for each", PROBLEM
        ),
    ] = None,
    change: Annotated[list[str] | None, option.change()] = None,
    problem_file: Annotated[str, option.problem_file()] = "",
    observer: Annotated[
        Observer,
        option.choice(
            "--observer",
            "Which arm a look shows: bandit (no looks), passive (a random arm), active (the policy "
            "chooses) or full (all arms at every stage)",
            get_args(Observer),
            LOOKS,
        ),
    ] = "bandit",
    rate: Annotated[
        float | None,
        option.number(
            "--rate", "Probability of looks at a stage, ε from 0 to 1", LOOKS, alias="--look-rate"
        ),
    ] = None,
    every: Annotated[
        int | None,
        option.integer("--every", "Stages from one look to the next, instead of --rate", LOOKS),
    ] = None,
    weights: Annotated[
        Any,
        option.weights(
            "Where a passive observer looks: uniform (default), optimal, suboptimal or a list "
            "such as 0.1,0.2,0.7"
        ),
    ] = None,
    looks: Annotated[int, option.integer("--looks", "Number of looks per arrival", LOOKS)] = 1,
    paid: Annotated[bool, option.flag("--paid", "A look costs the gap of its arm", LOOKS)] = False,
    graph: Annotated[str | None, option.graph()] = None,
    loops: Annotated[bool, option.loops()] = False,
    *,
    plot: Annotated[str, option.plot("Plot regret against time")] = "",
    watch: Annotated[
        bool,
        option.flag(
            "--watch",
            "Show the runs as they finish, in a window or the terminal; Ctrl-C stops",
            OUTPUT,
        ),
    ] = False,
    arms: Annotated[
        bool, option.flag("--arms", "Print each arm's share of the pulls and looks", OUTPUT)
    ] = False,
    as_json: Annotated[bool, option.as_json()] = False,
    **options: Any,
) -> None:
    """Simulate policies on a problem and print their regret."""
    from kibitz._files import check_target
    from kibitz.cli.cluster import open_cluster
    from kibitz.cli.output import print_json, progress_bar
    from kibitz.cli.policies import parse_policies

    if plot:
        option.check_plot(plot)
    out_file, runs = options["file"], options["runs"]
    if out_file and out_file.endswith(".zarr"):
        option.check_installed("zarr", "zarr", f"--out {out_file}")
    elif out_file:
        check_target(out_file, "--out")
    policies = parse_policies(policy)
    problem = read_problem(log, means, sd, rewards, change, problem_file)
    feedback = read_feedback(
        problem.n_arms, graph, loops, observer, rate, every, weights, looks, paid
    )
    window = None
    with open_cluster(options["executor"]) as options["executor"]:
        setting: Any = (problem, feedback, policies)
        if watch:
            from kibitz.cli.watch import open_screen
            from kibitz.plotting.race import open_window, watch_simulation

            window = open_window()
            with open_screen(window) as screen:
                data = watch_simulation(screen, *setting, **options)
        else:
            from kibitz.simulation.simulate import simulate as run

            with progress_bar() as progress:
                data = run(*setting, progress=progress, **options)
    if plot:
        from kibitz.plot import regret
        from kibitz.plotting.figures import draw_chart, save_figure

        title = ", ".join(filter(None, (problem.kind, observer, graph and f"graph {graph}")))
        save_figure(draw_chart(lambda axes: regret(data, ax=axes), title), Path(plot))
    if as_json:
        print_json(summarize(data))
    else:
        print_regret(data, arms)
        for file in filter(None, (out_file, plot)):
            print(f"written to {file}")
    if (n_complete := data.sizes["run"]) < runs:
        if not as_json:
            print(f"stopped after {n_complete:,} of {runs:,} runs")
        raise KeyboardInterrupt  # `main` prints the message
    if window is not None:
        window.wait_until_closed()


def read_problem(
    log: str,
    means: list[float] | None,
    sd: list[float] | None,
    rewards: Rewards,
    changes: list[str] | None,
    problem_file: str,
) -> Any:
    """Return the problem that the options describe, which may change with time."""
    if log and (changes or problem_file):
        flag = "--change" if changes else "--problem"
        raise OptionError(f"{flag} cannot be used with --log, which has the rewards; omit {flag}")
    if log:
        return load_problem(log, means, sd)
    if problem_file:
        if means is not None or changes:
            flag = "--change" if means is None else "--means"
            raise OptionError(f"{flag} cannot be used with --problem, which has the means")
        rows = read_pieces(problem_file)
    else:
        first_problem = make_problem(rewards, means, sd)
        if not changes:
            return first_problem
        rows = [(1, means)]
        for text in changes:
            stage, colon, new_means = text.partition(":")
            if not colon:
                raise OptionError(f"--change must be as in 3001:2,0.5,0.2, got {text!r}")
            parsed_stage = option.parse_integer(stage, "the stage of --change")
            rows.append((parsed_stage, option.parse_numbers(new_means, "--change")))
    from kibitz.model.problem import changing

    flag = f"--problem {problem_file}" if problem_file else "--change"
    pieces: list[Any] = []
    try:
        for start, row in rows:
            place = f", from stage {start} on"
            pieces.append((start, make_problem(rewards, row, sd)))
            if pieces[-1][1].n_arms != (n_arms := pieces[0][1].n_arms):
                raise ValueError(f"one mean is needed for each of {n_arms} arms, got {row}")
        place = ""
        return changing(pieces)
    except ValueError as error:
        raise OptionError(f"{flag}{place}: {error}") from None


def read_pieces(file: str) -> list[tuple[int, list[float] | None]]:
    """Return the start and the means of each piece in a CSV file; a header line is allowed."""
    import csv

    try:
        with Path(file).open(encoding="utf-8-sig", newline="") as lines:
            rows = [row for row in csv.reader(lines) if any(word.strip() for word in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise OptionError(f"cannot read --problem {file}: {error}") from None
    if rows and not rows[0][0].strip()[:1].isdigit():
        del rows[0]  # a header
    if not rows:
        raise OptionError(f"--problem {file} has no lines; write lines such as 1,2,1.8,0.5")
    pieces: list[tuple[int, list[float] | None]] = []
    for stage, *words in rows:
        name = f"a mean from stage {stage} on in {file}"
        start = option.parse_integer(stage.strip(), f"a stage in {file}")
        pieces.append((start, [option.parse_number(word.strip(), name) for word in words]))
    return pieces


def load_problem(log: str, means: list[float] | None, sd: list[float] | None) -> Any:
    """Return the problem that draws its rewards from a log."""
    from kibitz.live.agent.from_log import from_log

    for flag, value in {"--means": means, "--sd": sd}.items():
        if value is not None:
            raise OptionError(f"{flag} cannot be used with --log, which has the rewards; omit {flag}")
    return from_log(log)


def make_problem(rewards: Rewards, means: list[float] | None, sd: list[float] | None) -> Any:
    """Return the problem that --rewards, --means and --sd describe."""
    if means is None:
        raise OptionError(
            "no problem given; use --means, as in --means 2,1.8,0.5, --problem FILE or --log FILE"
        )
    from kibitz.model.problem import bernoulli, gaussian

    if rewards == "gaussian":
        sds = sd or [1.0]
        return gaussian(means, sds[0] if len(sds) == 1 else sds)
    if rewards == "bounded":
        raise OptionError("--rewards bounded needs --log, a file with rewards in [0, 1]")
    if sd:
        raise OptionError("--sd needs --rewards gaussian; the means determine bernoulli rewards")
    return bernoulli(means)


def make_feedback(
    observer: Observer,
    rate: float | None,
    every: int | None,
    weights: str | list[float] | None,
    looks: int,
    paid: bool,
) -> Any:
    """Return the feedback that --observer and the other options of looks describe."""
    from kibitz.model import feedback

    if observer in {"bandit", "full"}:
        flags = {
            "--rate (or --look-rate)": rate,
            "--every": every,
            "--weights": weights,
            "--paid": paid or None,
        }
        flags["--looks"] = None if looks == 1 else looks
        observer_text = (
            "the default observer, bandit," if observer == "bandit" else "the observer full"
        )
        reason = (
            f"{observer_text} has no looks"
            if observer == "bandit"
            else f"{observer_text} sees every arm"
        )
        for flag, value in flags.items():
            if value is not None:
                alternative = "" if flag == "--weights" else " or --observer active"
                raise OptionError(f"{flag} needs --observer passive{alternative} ({reason})")
        return feedback.full() if observer == "full" else feedback.bandit()
    if observer == "active" and weights is not None:
        raise OptionError(
            "--weights needs --observer passive (with --observer active, the policy chooses the arm)"
        )
    if (rate is None) == (every is None):
        hint = "" if rate is None else ", not both"
        raise OptionError(f"--observer {observer} needs --rate or --every{hint}")
    arrivals: Any = rate if every is None else feedback.every(every)
    if observer == "active":
        return feedback.active(arrivals, looks=looks, paid=paid)
    return feedback.passive(
        arrivals, "uniform" if weights is None else weights, looks=looks, paid=paid
    )


def read_feedback(
    n_arms: int, graph: str | None, loops: bool, observer: Any, rate: Any, every: Any, *options: Any
) -> Any:
    """Return the feedback that the options describe, with the graph of --graph."""
    from kibitz.model.feedback import graph as make_graph

    if graph is not None and observer == "bandit" and (rate is not None or every is not None):
        observer = "passive"  # with a graph, --look-rate alone is enough
    looks = make_feedback(observer, rate, every, *options)
    if graph is not None and looks.observer == "full":
        raise OptionError("--graph cannot be used with --observer full, which shows every arm")
    shows = option.load_shows(graph, n_arms, loops)
    try:
        return looks if shows is None else make_graph(shows, looks=looks)
    except ValueError as error:
        raise ValueError(f"--graph {graph}: {error}") from None


def summarize(data: "xarray.Dataset") -> dict[str, Any]:
    """Return the result of a simulation as plain data, for --json."""
    from kibitz.simulation.results.dataset import versions

    policies = {}
    for label in data["policy"].to_numpy():
        policy_data = data.sel(
            policy=label
        ).compute()  # reads from disk if the result is a Zarr folder
        final_regret, regret_curve = policy_data["final_regret"], policy_data["regret"]
        quantiles = final_regret.quantile([0.1, 0.25, 0.5, 0.75, 0.9]).to_numpy().tolist()
        low, high = regret_curve.quantile([0.25, 0.75], "run").to_numpy().tolist()
        policies[str(label)] = {
            "regret": {
                "mean": float(final_regret.mean()),
                "sem": standard_error(final_regret),
                **dict(zip(("q10", "q25", "median", "q75", "q90"), quantiles, strict=True)),
            },
            "curve": {
                "stages": policy_data["stage"].to_numpy().tolist(),
                "mean": regret_curve.mean("run").to_numpy().tolist(),
                "q25": low,
                "q75": high,
            },
            "n_pulls": policy_data["n_pulls"].mean("run").to_numpy().tolist(),
            "n_looks": policy_data["n_looks"].mean("run").to_numpy().tolist(),
        }
    fingerprint = json.loads(data.attrs["fingerprint"])
    fingerprint |= {"runs": data.sizes["run"], "engine": fingerprint.pop("engines")}
    fingerprint["versions"] = versions()
    return {"fingerprint": fingerprint, "policies": policies}


def standard_error(final_regret: "xarray.DataArray") -> float:
    """Return the standard error of the mean final regret over runs; 0 for a single run."""
    n_runs = final_regret.sizes["run"]
    return float(final_regret.std(ddof=1)) / math.sqrt(n_runs) if n_runs > 1 else 0.0


def format_regret(final_regret: "xarray.DataArray") -> str:
    """Format the mean final regret over runs, with its standard error."""
    from kibitz.cli.output import format_mean

    return format_mean(float(final_regret.mean()), standard_error(final_regret))


def print_regret(data: "xarray.Dataset", arms: bool = False) -> None:
    """Print the regret of each policy.

    If `arms` is true, print each arm's share of the pulls and looks too.
    """
    from kibitz.cli.output import Printer, format_number

    setting = json.loads(data.attrs["fingerprint"])
    data = data[["final_regret", "n_pulls", "n_looks"]].compute()  # may read a Zarr folder
    rows = []
    for label in data["policy"].to_numpy():
        final_regret = data["final_regret"].sel(policy=label)
        quartiles = final_regret.quantile([0.25, 0.5, 0.75]).to_numpy()
        rows.append([str(label), format_regret(final_regret), *map(format_number, quartiles)])
    printer = Printer(120)
    printer.table(
        f"regret after {setting['horizon']:,} stages, {data.sizes['run']:,} runs",
        ["policy", "mean ± s.e.", "25 %", "median", "75 %"],
        rows,
    )
    if arms:
        print_shares(data, printer)
    engines = " and ".join(sorted(set(setting["engines"].values())))
    printer.text(f"seed {setting['seed']}, engine {engines}")


def print_shares(data: "xarray.Dataset", printer: "Printer") -> None:
    """Print each arm's share of the pulls and of the looks, for each policy."""
    from kibitz.cli.output import format_number

    rows = []
    for label in data["policy"].to_numpy():
        for observation in ("pulls", "looks"):
            counts = data[f"n_{observation}"].sel(policy=label).mean("run").to_numpy()
            if total := counts.sum():
                shares = [format_number(100 * count / total, 3) for count in counts]
                rows.append([str(label), observation, *shares])
    columns = ["policy", "", *(f"arm {k}" for k in range(data.sizes["arm"]))]
    printer.table("share of each arm, %", columns, rows, lead=2, left=("",))
