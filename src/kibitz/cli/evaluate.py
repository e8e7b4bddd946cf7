"""`kibitz evaluate`: estimate from a log what another policy would have earned."""

from dataclasses import asdict
from typing import Annotated

import typer

from kibitz.cli import option
from kibitz.cli.option import SEED

COLUMNS = "Columns of a log that kibitz did not write"  # title of a panel in the help
EXAMPLES = """\
kibitz evaluate log.csv --arm green
kibitz evaluate log.csv --policy thompson:rewards=bernoulli --precision 0.05
"""


def evaluate(
    log: Annotated[
        str, typer.Argument(metavar="LOG", help="A log with rewards in [0, 1]: .csv, .jsonl or .nc")
    ],
    policy: Annotated[
        str, option.policy("The policy to evaluate, such as kl_ucb:rewards=bernoulli", None)
    ] = "",
    arm: Annotated[
        str, option.text("--arm", "NAME", "Evaluate always pulling this arm, instead of --policy")
    ] = "",
    delta: Annotated[
        float, option.number("--delta", "Probability that the interval ever fails")
    ] = 0.05,
    baseline: Annotated[
        float,
        option.number("--baseline", "A guess of the mean reward, made without looking at the log"),
    ] = 0,
    precision: Annotated[
        float,
        option.number("--precision", "Half-width of an interval; print how many visits it needs"),
    ] = 0.01,
    seed: Annotated[
        int, option.integer("--seed", "Seed of a policy that draws random numbers", minimum=0)
    ] = SEED,
    arm_column: Annotated[
        str, option.text("--arm-column", "NAME", "Column of the arms", COLUMNS)
    ] = "arm",
    reward_column: Annotated[
        str, option.text("--reward-column", "NAME", "Column of the rewards", COLUMNS)
    ] = "reward",
    probability_column: Annotated[
        str,
        option.text(
            "--probability-column", "NAME", "Column of the probabilities of the arms", COLUMNS
        ),
    ] = "probability",
    as_json: Annotated[bool, option.flag("--json", "Print one JSON object")] = False,
) -> None:
    """Estimate from a log what another policy would have earned.

    Only visits whose arm was chosen at random can be used: the bucket of an agent, or rows of another
    log with a probability below 1. The interval holds at all times.
    """
    from kibitz.cli.policies import parse_policies
    from kibitz.live.agent.evaluate import evaluate as run

    if bool(policy) == bool(arm):
        raise option.OptionError("pass one of --policy and --arm")
    result = run(
        log,
        arm or parse_policies([policy])[policy],
        delta=delta,
        baseline=baseline,
        precision=precision,
        seed=seed,
        arm=arm_column,
        reward=reward_column,
        probability=probability_column,
    )
    from kibitz.cli.output import Printer, print_json

    if as_json:
        print_json(asdict(result))
        return
    printer = Printer(100)
    for sentence in str(result).splitlines():
        printer.text(sentence)
