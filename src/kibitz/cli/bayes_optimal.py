"""`kibitz bayes-optimal`: the Bayes-optimal regret of two Bernoulli arms, and that of policies."""

from typing import Annotated, Any

from kibitz.cli import parse
from kibitz.cli.parse import SEED


def bayes_optimal(
    horizon: Annotated[int, parse.simulation_option("horizon")],
    every: Annotated[
        int | None, parse.whole("every", "A look arrives every so many stages (default: never)")
    ] = None,
    policy: Annotated[
        list[str] | None,
        parse.text(
            "NAME[:PARAM=VALUE,...]",
            "A policy to hold against it (see `kibitz policies`); repeatable",
        ),
    ] = None,
    runs: Annotated[int, parse.whole("runs", "Games of each policy", least=2)] = 2000,
    seed: Annotated[int, parse.simulation_option("seed")] = SEED,
    as_json: Annotated[bool, parse.flag("--json", "Print one JSON object")] = False,
) -> None:
    """Print the Bayes-optimal regret of two Bernoulli arms with uniform priors, and of policies."""
    from kibitz.cli.policies import policies_from
    from kibitz.cli.tables import print_json, progress_bar

    named = policies_from(policy or [])
    from kibitz.evaluation.bayes_optimal import bayes_optimal as solve, bayes_regret

    found: dict[str, Any] = {}
    with progress_bar() as progress:
        progress("optimum", 0.0)
        limit = solve(horizon, every).regret
        for done, (name, player) in enumerate(named.items(), 1):
            progress(name, done / (len(named) + 1))
            mean, sem = bayes_regret(player, horizon, every, runs=runs, seed=seed)
            found[name] = {"mean": mean, "sem": sem, "ratio": mean / limit}
    if as_json:
        print_json({"optimum": limit, "policies": found})
    else:
        print_optimal(horizon, every, limit, found, runs, seed)


def print_optimal(
    horizon: int, every: int | None, limit: float, found: dict[str, Any], runs: int, seed: int
) -> None:
    """Print the regrets for people."""
    from kibitz.cli.tables import Page

    page = Page(100)
    looks = "no looks" if every is None else f"a look every {every} stages, at an arm of one's choice"
    page.text(f"two Bernoulli arms, means drawn uniformly, T = {horizon}, {looks}")
    page.text(f"regret of the Bayes optimum: {limit:.4g}")
    if found:
        rows = [
            [name, f"{one['mean']:.4g} ± {one['sem']:.2g}", f"{one['ratio']:.3g}"]
            for name, one in found.items()
        ]
        page.table(f"policies, {runs} games, seed {seed}", ["", "regret ± s.e.", "ratio"], rows)
