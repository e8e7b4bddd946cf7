"""`kibitz bayes-optimal`: compare policies with the Bayes-optimal policy on two Bernoulli arms."""

from typing import Annotated, Any

from kibitz.cli import option
from kibitz.cli.option import LOOKS, PROBLEM, RUN, SEED

EXAMPLES = """\
kibitz bayes-optimal --horizon 60 --every 10 \\
    --policy kibitzer:rewards=bernoulli --runs 200
"""


def bayes_optimal(
    horizon: Annotated[int, option.integer("--horizon", "Number of stages, T", PROBLEM)],
    every: Annotated[
        int | None,
        option.integer("--every", "Stages from one look to the next (default: no looks)", LOOKS),
    ] = None,
    policy: Annotated[
        list[str] | None,
        option.policy("A policy to compare (see `kibitz policies`); repeatable", RUN),
    ] = None,
    runs: Annotated[int, option.integer("--runs", "Runs of each policy", RUN, minimum=2)] = 2000,
    seed: Annotated[int, option.simulation_option("seed")] = SEED,
    as_json: Annotated[bool, option.as_json()] = False,
) -> None:
    """Print the smallest Bayes regret of two Bernoulli arms with uniform priors."""
    from kibitz.cli.output import print_json, progress_bar
    from kibitz.cli.policies import parse_policies

    policies = parse_policies(policy or [])
    from kibitz.evaluation.bayes_optimal import bayes_regret, solve_with_progress

    results: dict[str, Any] = {}
    with progress_bar() as progress:
        progress("optimum", 0.0)
        policy_share = 1 / (len(policies) + 1)  # of the progress bar
        optimum = solve_with_progress(
            horizon,
            every,
            1,
            ((0, 0), (0, 0)),
            lambda label, share: progress(label, share * policy_share),
        ).regret
        for n_done, (name, tested_policy) in enumerate(policies.items(), 1):
            progress(name, n_done * policy_share)
            mean, sem = bayes_regret(tested_policy, horizon, every, runs=runs, seed=seed)
            results[name] = {"mean": mean, "sem": sem, "ratio": mean / optimum}
    if as_json:
        print_json({"optimum": optimum, "policies": results})
    else:
        print_optimum(horizon, every, optimum, results, runs, seed)


def print_optimum(
    horizon: int, every: int | None, optimum: float, results: dict[str, Any], runs: int, seed: int
) -> None:
    """Print the smallest Bayes regret, and a table with the regret of each policy."""
    from kibitz.cli.output import Printer, format_mean, format_number

    printer = Printer(100)
    looks = "no looks" if every is None else f"a look every {every:,} stages at an arm of its choice"
    printer.text(
        f"Two Bernoulli arms with uniform priors, {horizon:,} stages, {looks}: "
        f"the Bayes-optimal policy has regret {format_number(optimum)}."
    )
    if results:
        rows = [
            [name, format_mean(result["mean"], result["sem"]), f"{result['ratio']:.2f}"]
            for name, result in results.items()
        ]
        columns = ["policy", "regret ± s.e.", "ratio to optimum"]
        printer.table(f"regret of policies, {runs:,} runs, seed {seed}", columns, rows)
