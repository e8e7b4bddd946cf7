"""`kibitz trace`: print one run of a policy, stage by stage."""

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from kibitz.cli import option, simulate as simulate_command
from kibitz.cli.option import OUTPUT, RUN, SEED, OptionError
from kibitz.simulation.options import add_parameters

if TYPE_CHECKING:
    import xarray

EXAMPLES = """\
kibitz trace --policy ucb --means 2,1.8,0.5 --horizon 12
kibitz trace --policy kibitzer --means 0.5,0.3 --observer active --rate 0.1 \\
    --horizon 1000 --first 990 --run 3
kibitz trace --policy ucb --means 2,1.8,0.5 --graph star:2
"""

# the options of `kibitz simulate` that describe the problem and the feedback
_SETTING = (
    "means", "log", "rewards", "sd", "change", "problem_file",
    "observer", "rate", "every", "weights", "looks", "paid", "graph", "loops",
)  # fmt: skip


def trace(
    policy: Annotated[
        str, option.policy("A policy, such as ucb or ucb:exploration=2 (see `kibitz policies`)")
    ],
    *,
    horizon: Annotated[int, option.integer("--horizon", "Number of stages, T", RUN)] = 20,
    seed: Annotated[
        int, option.integer("--seed", "Seed of all random numbers", RUN, minimum=0)
    ] = SEED,
    run: Annotated[int, option.integer("--run", "Number of the run, from 0 on", RUN, minimum=0)] = 0,
    first: Annotated[int, option.integer("--first", "First stage to print", OUTPUT)] = 1,
    plot: Annotated[str, option.plot("Plot the pulls, looks and indices")] = "",
    **options: Any,
) -> None:
    """Print one run stage by stage: the arms, their rewards and the indices that were compared."""
    from kibitz.cli.policies import parse_policies
    from kibitz.simulation.trace import trace as make_trace

    if plot:
        option.check_plot(plot)
    if first > horizon:
        raise OptionError(f"--first must be at most --horizon {horizon}, got {first}")
    setting = dict(options)
    names = ("log", "means", "sd", "rewards", "change", "problem_file")
    problem = simulate_command.read_problem(*(setting.pop(name) for name in names))
    feedback = simulate_command.read_feedback(
        problem.n_arms, *(setting.pop(name) for name in ("graph", "loops")), *setting.values()
    )
    (chosen_policy,) = parse_policies([policy]).values()
    data = make_trace(problem, feedback, chosen_policy, horizon=horizon, seed=seed, run=run)
    if plot:
        from kibitz.plot import trace as plot_trace
        from kibitz.plotting.figures import draw_chart, save_figure

        variable = "index" if data["index"].notnull().any() else "mean"
        chart = draw_chart(
            lambda axes: plot_trace(data, variable=variable, ax=axes), f"{policy}, run {run}"
        )
        save_figure(chart, Path(plot))
    print_trace(data, first)


def _add_setting(command: Any) -> None:
    """Add the options of `_SETTING`, which `kibitz simulate` also has, to a command."""
    parameters = inspect.signature(simulate_command.simulate).parameters
    added = {name: parameters[name].replace(kind=inspect.Parameter.KEYWORD_ONLY) for name in _SETTING}
    command.__annotations__ |= {name: parameter.annotation for name, parameter in added.items()}
    add_parameters(command, added, first=True)


_add_setting(trace)


def print_trace(data: "xarray.Dataset", first: int = 1) -> None:
    """Print the stages of a trace from `first` on."""
    import json

    import numpy as np

    from kibitz.cli.output import Printer, format_number

    def format_value(value: float, digits: int = 3) -> str:
        return "" if value != value else format_number(value, digits)

    fingerprint = json.loads(data.attrs["fingerprint"])
    is_full = fingerprint["feedback"]["observer"] == "full"
    has_looks = bool((data["look"] >= 0).any())
    name = "index" if data["index"].notnull().any() else "mean"
    columns = ["stage", "pull", "reward"]
    if has_looks and not is_full:
        columns += ["looks"] if "later_look" in data else ["look", "its reward"]
    if "shown_reward" in data:
        columns.insert(3, "shows")
    values = {variable: data[variable].to_numpy() for variable in data.data_vars}
    rows = []
    for position in range(first - 1, data.sizes["stage"]):
        stage = {variable: array[position] for variable, array in values.items()}
        row = [str(position + 1), str(stage["pull"]), format_value(stage["reward"])]
        if "shows" in columns:
            row.append(" ".join(map(str, np.flatnonzero(np.isfinite(stage["shown_reward"])))))
        if "looks" in columns:
            looks = [stage["look"], *stage["later_look"]]
            row.append(" ".join(str(arm) for arm in looks if arm >= 0))
        elif "look" in columns:
            row.append(str(stage["look"]) if stage["look"] >= 0 else "")
            row.append(format_value(stage["look_reward"]))
        rows.append([*row, *(format_value(value, 4) for value in stage[name])])
    columns += [f"{name} of {arm}" for arm in range(data.sizes["arm"])]
    printer = Printer()
    title = f"run {data['run'].item()} of {data['policy'].item()}"
    printer.table(title, columns, rows, lead=2)
    full_text = "every other arm is observed at every stage; " if is_full else ""
    if "shows" in columns:
        full_text = "shows: the arms whose reward the pull showed; "
    printer.text(f"arms count from 0; {full_text}{name} before the pull; seed {fingerprint['seed']}")
