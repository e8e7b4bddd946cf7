"""`kibitz bounds`: every bound for a setting."""

import math
from typing import Annotated, Any

from kibitz.cli import parse
from kibitz.cli.parse import Numbers


def bounds(
    means: Annotated[Numbers, parse.numbers("means", "Mean of each arm: 2,1.8,0.5")],
    rate: Annotated[float, parse.number("rate", "How often looks arrive, ε in [0, 1]")],
    horizon: Annotated[int, parse.whole("horizon", "Number of stages, T")] = 10_000,
    weights: Annotated[
        Any, parse.weights("Passive: uniform, optimal, suboptimal or a list such as 0.1,0.2,0.7")
    ] = "uniform",
    C: Annotated[
        float | None, parse.number("C", "C of Definition 1 (default: UCB1's, 8)", "--C")
    ] = None,
    C_0: Annotated[
        float | None, parse.number("C_0", "C_0 of it (default: UCB1's, 1 + π²/3)", "--C0")
    ] = None,
    rho: Annotated[float, parse.number("rho", "ρ of OCUCB-n, for the hardness of arms")] = 0.5,
    alpha: Annotated[float, parse.number("alpha", "α of ETC, for the last epoch of arms")] = 1.0,
    as_json: Annotated[bool, parse.flag("--json", "Print one JSON object")] = False,
) -> None:
    """Print every bound for a setting: what is printed in the paper, and what is really proved."""
    from kibitz.bounds import summary
    from kibitz.cli.tables import print_json

    constants = {"C": C, "C_0": C_0}
    given: dict[str, Any] = {name: value for name, value in constants.items() if value is not None}
    data = summary(means, rate, weights, horizon, **given, rho=rho, alpha=alpha)
    if as_json:
        print_json(data)
    else:
        print_bounds(data)


def print_bounds(data: dict[str, Any]) -> None:
    """Print bounds for people."""
    from kibitz.cli.tables import Page

    setting, onset, printed = data["setting"], data["onset"], data["printed"]
    page = Page(120)
    page.text(f"ε = {setting['rate']:g}, T = {setting['horizon']}, rewards N(μ, 1)")
    for words, values in {
        "gaps": data["gaps"],
        "weights": setting["weights"],
        "best weights": data["optimal_weights"],
    }.items():
        page.text(f"{words} {' '.join(f'{value:.4g}' for value in values)}")
    page.text(f"C_Δ = {data['c_delta']:.4g}, ε* = {data['rate_star']:.4g}\n")
    page.table(
        "lower bounds",
        ["", "proved", "printed", "positive for ε below", "from T =", "without looks"],
        [row for observer in ("passive", "active") for row in lower_rows(data, observer)],
    )
    page.text(
        f"for algorithms that are sub-logarithmic with C = {setting['C']:.4g}, "
        f"C_0 = {setting['C_0']:.4g}; ε at this T, T at this ε"
    )
    if not any(bound for kind in data["lower"].values() for bound in kind.values()):
        rate = max(begins["rate"] for kind in onset.values() for begins in kind.values())
        page.text(
            "No proved lower bound says anything here"
            + (f"; the first one does for ε below {rate:.2g}." if rate > 0 else " for any ε.")
        )
    page.text()
    from kibitz.bounds import upper

    most = upper.trivial(data["gaps"], setting["horizon"])
    rows = []
    for name, proved in data["upper"].items():
        says = "vacuous" if proved >= most else f"{proved:.4g}"
        label = name.replace("_", " ").replace("ucb", "UCB").replace("ftl ", "FTL-")
        rows.append([label, says, shown(printed["upper"].get(name))])
    page.table("upper bounds", ["", "proved", "printed"], rows)
    page.text("of UCB (c = 6) as a passive observer, of FTL-robin and kibitzer as active ones;")
    page.text(f"no policy that pulls each arm once first can lose more than {most:.4g}")


def lower_rows(data: dict[str, Any], observer: str) -> list[list[str]]:
    """Return the rows of an observer in the table of lower bounds."""
    rows = []
    for name, proved in data["lower"][observer].items():
        begins = data["onset"][observer][name]
        stages = (begins["horizon"], begins["horizon_without_looks"])
        rows.append(
            [
                f"{observer}, {name.replace('_', ' ')}",
                f"{proved:.4g}" if proved > 0 else "vacuous",
                shown(data["printed"]["lower"][observer].get(name)),
                "never" if begins["rate"] == 0 else f"{begins['rate']:.2g}",
                *("never" if t == math.inf else f"{t:.6g}" for t in stages),
            ]
        )
    return rows


def shown(bound: float | None) -> str:
    """Return a number for a table, a dash for none."""
    return "–" if bound is None else f"{bound:.4g}"
