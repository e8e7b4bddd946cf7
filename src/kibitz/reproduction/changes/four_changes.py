"""One problem with four changes, without looks, with few looks and with a look at each stage.

Source: Our own experiment.

Measured: whether looks increase the regret of kibitzer, which assumes constant means; and whether
lookout with looks has less than half of the regret of kibitzer, and less regret than SW-UCB. The
window of SW-UCB is tuned to the true number of changes. For comparison, a second kibitzer is told of
each change.
"""

from typing import Any

import numpy as np
import xarray

from kibitz.model.feedback import active
from kibitz.model.problem import Problem, changing, gaussian
from kibitz.plotting.picture import Curve, Mark, Panel, Picture, band, typeset
from kibitz.policies.forgetting_ucb import sw_ucb
from kibitz.policies.kibitzer import kibitzer
from kibitz.policies.lookout import lookout
from kibitz.policies.policy import Policy
from kibitz.reproduction import Data, Files
from kibitz.reproduction.verdict import (
    Statement,
    Table,
    Verdict,
    is_above,
    is_below,
    judge,
    mean,
    ratio,
)
from kibitz.simulation.sweep import sweep

TITLE = "Four changes"
SOURCE = "Our own experiment"
CLAIM = (
    "If means change, looks increase the regret of kibitzer, because it settles sooner. With looks, "
    "lookout has a much lower regret than kibitzer and a lower regret than SW-UCB, although it does "
    "not know how many changes there are."
)
#: Means in each piece: the best arm falls, a bad arm rises, two arms swap, the worst arm rises.
MEANS = (
    (1.0, 0.5, 0.2, 0.0, -0.5),
    (0.0, 0.5, 0.2, 0.0, -0.5),
    (0.0, 0.5, 0.2, 1.2, -0.5),
    (1.2, 0.5, 0.2, 0.0, -0.5),
    (1.2, 0.5, 0.2, 0.0, 2.0),
)
#: Number of stages, T; the pieces have equal lengths.
HORIZON = 10_000
#: Rates of looks, ε.
RATES = (0.0, 0.1, 1.0)
#: Number of runs of each policy for each rate.
RUNS = 500
MAX_SHARE = 0.5  #: Largest regret of lookout as a share of the regret of kibitzer, with looks.
N_POINTS = 200  # stages at which the regret is recorded
KIBITZER, LOOKOUT, SW_UCB, TOLD = "kibitzer", "lookout", "SW-UCB", "kibitzer, told of changes"


def make_problem() -> Problem:
    """Return the problem with a change at the start of each piece."""
    length = HORIZON // len(MEANS)
    return changing([(1 + length * n, gaussian(row)) for n, row in enumerate(MEANS)])


def make_policies() -> dict[str, Policy]:
    """Return the compared policies by label."""
    n_changes = len(MEANS) - 1
    window = round(2 * np.sqrt(HORIZON * np.log(HORIZON) / n_changes))
    return {KIBITZER: kibitzer(), LOOKOUT: lookout(), SW_UCB: sw_ucb(window=window)}


def run(file: Files, **options: Any) -> Data:
    """Simulate the policies on the whole problem, and kibitzer on each piece alone."""
    length, step = HORIZON // len(MEANS), HORIZON // N_POINTS
    whole = sweep(
        make_problem(), active, make_policies(), rate=RATES, horizon=HORIZON,
        stages=range(step, HORIZON + 1, step), file=file("whole"), **options,
    )  # fmt: skip
    pieces = sweep(
        lambda piece: gaussian(MEANS[piece]), active, {TOLD: kibitzer()}, rate=RATES,
        piece=range(len(MEANS)), horizon=length, stages=range(step, length + 1, step),
        file=file("pieces"), **options,
    )  # fmt: skip
    return {"whole": whole, "pieces": pieces}


def join_regret(data: Data) -> Any:
    """Return the regret of all policies.

    The regret of the kibitzer that is told of changes is summed over the pieces.
    """
    regret, pieces = data["whole"]["regret"], data["pieces"]["regret"]
    parts: list[Any] = []
    carried: Any = 0.0
    for piece in pieces["piece"].to_numpy():
        part = pieces.sel(piece=piece, drop=True) + carried
        carried = part.isel(stage=-1, drop=True)
        parts.append(part)
    told = xarray.concat(parts, "stage").assign_coords(stage=regret["stage"])
    return xarray.concat([regret, told], "policy")


def verdict(data: Data) -> Verdict:
    """Return the verdict on lookout against both other policies, and on kibitzer with looks."""
    final_regret = join_regret(data).isel(stage=-1)

    def select(label: str, rate: float) -> Any:
        return final_regret.sel(policy=label, rate=rate)

    statements = []
    for rate in RATES[1:]:
        more = ratio(select(KIBITZER, rate), select(KIBITZER, RATES[0]))
        share = ratio(select(LOOKOUT, rate), select(KIBITZER, rate))
        rival = ratio(select(LOOKOUT, rate), select(SW_UCB, rate))
        statements += [
            Statement(
                f"With looks at rate {rate:g}, kibitzer has {more} times its regret without looks "
                "(above 1).",
                is_above(more, 1.0),
            ),
            Statement(
                f"With looks at rate {rate:g}, lookout has {share} times the regret of kibitzer (at "
                f"most {MAX_SHARE:g}).",
                is_below(share, MAX_SHARE),
            ),
            Statement(
                f"With looks at rate {rate:g}, lookout has {rival} times the regret of SW-UCB (below "
                "1).",
                is_below(rival, 1.0),
            ),
        ]
    last = RATES[-1]
    without = ratio(select(LOOKOUT, RATES[0]), select(SW_UCB, RATES[0]))
    finding = (
        f"With a look at each stage, kibitzer has regret {mean(select(KIBITZER, last))}, SW-UCB "
        f"{mean(select(SW_UCB, last))}, lookout {mean(select(LOOKOUT, last))}, and kibitzer that is "
        f"told of each change {mean(select(TOLD, last))}. Without looks, lookout has {without} times "
        "the regret of SW-UCB."
    )
    summary = (
        f"ε = {last:g}: kibitzer {mean(select(KIBITZER, last))}, SW-UCB "
        f"{mean(select(SW_UCB, last))}, lookout {mean(select(LOOKOUT, last))}"
    )
    labels = [str(label) for label in final_regret["policy"].to_numpy()]
    rows = [[label, *(str(mean(select(label, rate))) for rate in RATES)] for label in labels]
    caption = f"Regret at stage {typeset(HORIZON)}, for each rate of looks."
    columns = ("policy", *(f"ε = {rate:g}" for rate in RATES))
    return judge(statements, summary, finding, [Table(caption, columns, rows)])


def draw(data: Data) -> Picture:
    """Return a figure of the regret of each policy against the stage, for each rate."""
    regret = join_regret(data)
    starts = make_problem().starts[1:]
    panels = []
    for rate in RATES:
        curves: list[Curve] = [
            band(str(label), regret.sel(policy=label, rate=rate))
            for label in regret["policy"].to_numpy()
        ]
        panels.append(
            Panel(
                f"Looks at rate {rate:g}" if rate else "No looks",
                "stage",
                f"regret (mean of {regret.sizes['run']} runs, band 25–75 %)",
                curves,
                [Mark(start, "change") for start in starts],
                x_log=False,
            )
        )
    alt = (
        f"Regret of four policies against the stage, with {len(starts)} changes, at "
        f"{len(RATES)} rates of looks. " + verdict(data).finding
    )
    return Picture(alt, panels, len(RATES))
