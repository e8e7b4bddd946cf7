"""`kibitz bounds`: print every bound on the regret in a setting."""

import math
from typing import TYPE_CHECKING, Annotated, Any

from kibitz.cli import option
from kibitz.cli.option import LOOKS, PROBLEM, Numbers, OptionError

if TYPE_CHECKING:
    from kibitz.cli.output import Printer

CONSTANTS = "Constants"  # title of a panel in the help
EXAMPLES = """\
kibitz bounds --means 2,1.8,0.5,0.2 --rate 0.001 --horizon 10000
kibitz bounds --means 2,1.8,1.5,1,0.5 --graph star:2 --horizon 1000000
"""


REGIMES = {  # for each regime, a sentence on how the regret grows
    "bounded": "The regret of good policies does not grow with T (C* = 0).",
    "logarithmic": "The regret of the best policies is about {constant} log T (C* = {constant}).",
    "T^(2/3)": "On the worst problem with this graph the regret is of order T^(2/3); with these gaps "
    "the regret of the best policies is about {constant} log T (C* = {constant}).",
    "linear": "Some arm is never shown, so no policy can learn whether it is the best arm.",
}


def bounds(
    means: Annotated[Numbers, option.numbers("--means", "Mean of each arm: 2,1.8,0.5", PROBLEM)],
    rate: Annotated[
        float | None,
        option.number(
            "--rate",
            "Probability of a look at a stage, ε from 0 to 1; optional with --graph",
            LOOKS,
            alias="--look-rate",
        ),
    ] = None,
    horizon: Annotated[int, option.integer("--horizon", "Number of stages, T", PROBLEM)] = 10_000,
    weights: Annotated[
        Any,
        option.weights(
            "Where a passive observer looks: uniform, optimal, suboptimal or a list such as "
            "0.1,0.2,0.7"
        ),
    ] = "uniform",
    graph: Annotated[str | None, option.graph()] = None,
    loops: Annotated[bool, option.loops()] = False,
    C: Annotated[
        float | None, option.number("--C", "C of Definition 1 (default: UCB1's, 8)", CONSTANTS)
    ] = None,
    C_0: Annotated[
        float | None,
        option.number("--C0", "C_0 of Definition 1 (default: UCB1's, 1 + π²/3)", CONSTANTS),
    ] = None,
    rho: Annotated[
        float, option.number("--rho", "ρ of OCUCB-n, for the hardness of the arms", CONSTANTS)
    ] = 0.5,
    alpha: Annotated[
        float,
        option.number(
            "--alpha", "α of ETC; sets the epoch after which an arm is no longer pulled", CONSTANTS
        ),
    ] = 1,
    as_json: Annotated[bool, option.as_json()] = False,
) -> None:
    """Print every bound on the regret: as printed in the paper, and as proved by kibitz."""
    from kibitz.bounds import summary
    from kibitz.cli.output import print_json

    if rate is None and graph is None:
        raise OptionError("--rate is missing; use --rate 0.1, or --graph NAME")
    shows = option.load_shows(graph, len(means), loops)
    constants: dict[str, Any] = {
        name: value for name, value in {"C": C, "C_0": C_0}.items() if value is not None
    }
    try:
        data = summary(
            means, rate or 0.0, weights, horizon, shows=shows, **constants, rho=rho, alpha=alpha
        )
    except ValueError as error:
        if str(error).startswith("gaps "):  # the user gave means, from which the gaps follow
            raise OptionError(f"--means: {error}") from None
        if str(error).startswith("shows "):  # the user gave a graph, which has a matrix `shows`
            raise OptionError(f"--graph {graph}: {error}") from None
        raise
    if as_json:
        print_json(data)
    elif graph is not None:
        print_graph_bounds(data, graph)
    else:
        print_bounds(data)


def print_bounds(data: dict[str, Any]) -> None:
    """Print the setting, and the lower and upper bounds on the regret."""
    from kibitz.cli.output import Printer, format_number

    setting = data["setting"]
    printer = Printer(120)
    printer.text(
        f"ε = {format_number(setting['rate'])}, T = {setting['horizon']:,}, Gaussian rewards of "
        "standard deviation 1"
    )
    for name, values in {
        "gaps": data["gaps"],
        "weights": setting["weights"],
        "optimal weights": data["optimal_weights"],
    }.items():
        printer.text(f"{name}: {' '.join(map(format_number, values))}")
    printer.text(f"C_Δ = {format_number(data['c_delta'])}, ε* = {format_number(data['rate_star'])}\n")
    print_lower_bounds(data, printer)
    printer.text()
    print_upper_bounds(data, printer)


def print_graph_bounds(data: dict[str, Any], graph: str) -> None:
    """Print the regime of a graph, and the lower and upper bounds on the regret."""
    from kibitz.cli.output import Printer, format_number

    setting, complexity = data["setting"], data["graph"]
    constant = format_number(complexity["constant"])
    printer = Printer(120)
    printer.text(
        f"{graph}: {len(data['gaps'])} arms, {setting['edges']} edges; ε = "
        f"{format_number(setting['rate'])}, T = {setting['horizon']:,}, Gaussian rewards of standard "
        "deviation 1"
    )
    printer.text(f"gaps: {' '.join(map(format_number, data['gaps']))}")
    free_arms = " ".join(map(str, complexity["free_arms"])) or "none"
    printer.text(f"free arms, which an optimal arm shows: {free_arms}")
    printer.text(
        f"regime: {complexity['regime']}. "
        + REGIMES[complexity["regime"]].format(constant=constant)
        + "\n"
    )
    lower_bounds = data["lower"]["graph"]
    printer.table(
        "lower bounds on the regret",
        ["", "proved"],
        [[name.replace("_", " "), format_graph_bound(b)] for name, b in lower_bounds.items()],
    )
    printer.text(
        "Fixed stage and multi period hold for algorithms that are sub-logarithmic with "
        f"C = {format_number(setting['C'])}, C_0 = {format_number(setting['C_0'])} on this graph."
        + (
            " On a graph with regret of order T^(2/3), no algorithm is sub-logarithmic. Worst case "
            "holds for all algorithms, for the worst problem with gaps of this size."
            if "worst_case" in lower_bounds
            else ""
        )
    )
    printer.text()
    if not data["upper"]:
        arms = " ".join(map(str, setting["arms_without_loop"]))
        printer.text(
            "There is no upper bound: UCB cannot play if pulls never show their own reward, as pulls "
            f"of these arms: {arms}."
        )
        return
    rows = []
    for label, name in (("UCB", "ucb_graph"), ("UCB, all horizons", "ucb_graph_all_horizons")):
        bound = data["upper"][name]
        largest_regret = setting["horizon"] * max(data["gaps"])
        is_vacuous = bound == math.inf or (name == "ucb_graph" and bound >= largest_regret)
        rows.append([label, "vacuous" if is_vacuous else format_number(bound)])
    printer.table("upper bounds on the regret", ["", "proved"], rows)
    printer.text("UCB has c = 6 and counts what its pulls show (UCB-N).")


def format_graph_bound(bound: float) -> str:
    """Format a lower bound on a graph as text.

    The bound is for algorithms with a certain property. It is infinite if no algorithm has it.
    """
    from kibitz.cli.output import format_number

    if bound == math.inf:
        return "no such algorithm"
    return format_number(bound) if bound > 0 else "vacuous"


def print_lower_bounds(data: dict[str, Any], printer: "Printer") -> None:
    """Print the table of lower bounds on the regret, with an explanation."""
    from kibitz.cli.output import format_number

    setting = data["setting"]
    printer.table(
        "lower bounds on the regret",
        ["", "proved", "printed", "positive for ε <", "positive for T ≥", "for T ≥ at ε = 0"],
        [row for observer in ("passive", "active") for row in make_rows(data, observer)],
    )
    printer.text(
        "They hold for algorithms that are sub-logarithmic with "
        f"C = {format_number(setting['C'])}, C_0 = {format_number(setting['C_0'])}. A vacuous bound "
        "says only that regret is not negative; the last three columns say where each proved bound "
        "is positive."
    )
    if not any(bound for group in data["lower"].values() for bound in group.values()):
        rate = max(onset["rate"] for group in data["onset"].values() for onset in group.values())
        onset_text = (
            f"; the first is positive for ε below {format_number(rate, 2)}" if rate > 0 else ""
        )
        printer.text(f"All proved lower bounds are vacuous here{onset_text}.")


def print_upper_bounds(data: dict[str, Any], printer: "Printer") -> None:
    """Print the table of upper bounds on the regret, with an explanation."""
    from kibitz.bounds import upper
    from kibitz.cli.output import format_number

    largest_regret = float(upper.trivial(data["gaps"], data["setting"]["horizon"]))
    rows = []
    for name, proved_bound in data["upper"].items():
        label = name.replace("_", " ").replace("ucb", "UCB").replace("ftl ", "FTL-")
        proved_text = "vacuous" if proved_bound >= largest_regret else format_number(proved_bound)
        rows.append([label, proved_text, format_bound(data["printed"]["upper"].get(name))])
    printer.table("upper bounds on the regret", ["", "proved", "printed"], rows)
    printer.text(
        "FTL-robin, kibitzer and kibitzer periodic choose where to look. UCB (c = 6) and kibitzer "
        "passive are passive observers. A bound is vacuous if it is above "
        f"{format_number(largest_regret)}, which no policy that starts with one pull of each arm "
        "can exceed."
    )


def make_rows(data: dict[str, Any], observer: str) -> list[list[str]]:
    """Return the rows of the table of lower bounds for an observer, "passive" or "active"."""
    from kibitz.cli.output import format_number

    rows = []
    for name, proved_bound in data["lower"][observer].items():
        onset = data["onset"][observer][name]
        horizons = (onset["horizon"], onset["horizon_without_looks"])
        rows.append(
            [
                f"{observer}, {name.replace('_', ' ')}",
                format_number(proved_bound) if proved_bound > 0 else "vacuous",
                format_bound(data["printed"]["lower"][observer].get(name)),
                "never" if onset["rate"] == 0 else format_number(onset["rate"], 2),
                *("never" if t == math.inf else format_number(t, 6) for t in horizons),
            ]
        )
    return rows


def format_bound(bound: float | None) -> str:
    """Format a bound for a table; a bound that does not exist (None) becomes a dash."""
    from kibitz.cli.output import format_number

    return "–" if bound is None else format_number(bound)
