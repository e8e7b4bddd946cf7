"""The cost of a change against the rate of looks, if looks have a cost.

Source: Our own plan for changes.

Measured: whether the cost at the rate that `kibitz.plan_changes` recommends is at most 10 % above the
smallest measured cost, and whether the predicted cost is within 15 % of the measured cost at every
rate at which the plan is not rough.
"""

from typing import Any

from kibitz.model.feedback import active
from kibitz.planning.changes import ChangePlan, plan_changes
from kibitz.plotting.picture import Curve, Mark, Panel, Picture, error_bars, typeset
from kibitz.policies.lookout import lookout
from kibitz.reproduction import Data, Files
from kibitz.reproduction.changes.delays import CHANGE, GAP, make_problem
from kibitz.reproduction.verdict import (
    Estimate,
    Statement,
    Table,
    Verdict,
    format_percent,
    is_below,
    is_within,
    judge,
    mean,
    ratio,
)
from kibitz.simulation.sweep import sweep

TITLE = "The best size of the bucket"
SOURCE = "Our own plan for changes"
CLAIM = (
    "The cost of a change, looks included, is smallest at a rate of looks that the plan predicts. "
    "Fewer looks detect the change too late, and more looks cost more than they save."
)
#: Number of arms, K.
N_ARMS = 10
#: The cost of a look, q.
COST = 0.05
#: Number of stages between two changes, L.
HORIZON = 10_000
#: Rates of looks, ε; the recommended rate is added.
RATES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.5, 1.0)
#: Number of runs for each rate.
RUNS = 200
MAX_LOSS = 0.1  #: Largest excess of the cost at the recommended rate over the lowest cost, relative.
MAX_ERROR = 0.15  #: Largest relative error of the predicted cost.


def make_plan(rate: float | None = None) -> ChangePlan:
    """Return the plan for the recommended rate, or for another rate."""
    return plan_changes(HORIZON, CHANGE, n_arms=N_ARMS, gap=GAP, cost=COST, at=rate)


def list_rates() -> list[float]:
    """Return all simulated rates: `RATES` and the recommended rate."""
    return sorted({*RATES, make_plan().rate})


def run(file: Files, **options: Any) -> Data:
    """Simulate lookout on a problem in which an arm rises, for each rate."""
    data = sweep(
        make_problem(N_ARMS, HORIZON), active, lookout(), rate=list_rates(), horizon=2 * HORIZON,
        stages=[HORIZON, 2 * HORIZON], file=file("rates"), **options,
    )  # fmt: skip
    return {"rates": data}


def measure_totals(data: Data, rate: float) -> Any:
    """Return the regret after the rise plus the cost of looks until the next change, for each run."""
    regret = data["rates"]["regret"].isel(policy=0).sel(rate=rate)
    return regret.isel(stage=1) - regret.isel(stage=0) + COST * rate * HORIZON


def verdict(data: Data) -> Verdict:
    """Return the verdict on the recommended rate, and on the predicted costs."""
    rates, recommended = list_rates(), make_plan()
    costs = {rate: mean(measure_totals(data, rate)) for rate in rates}
    best = min(rates, key=lambda rate: costs[rate].value)
    own = costs[recommended.rate]
    share = ratio(measure_totals(data, recommended.rate), measure_totals(data, best))
    excess = Estimate(share.value - 1, share.error)
    statements = [
        Statement(
            f"At the recommended rate {recommended.rate:.2g}, a change costs {own}, "
            f"{format_percent(excess)} more than at the best simulated rate, {best:.2g} (at most "
            f"{format_percent(MAX_LOSS)}).",
            is_below(excess, MAX_LOSS),
        )
    ]
    rows = []
    for rate in rates:
        planned = make_plan(rate)
        rows.append(
            [
                f"{rate:.2g}",
                str(costs[rate]),
                f"{planned.total:.4g}",
                "yes" if planned.is_rough else "",
            ]
        )
        if not planned.is_rough:
            error = Estimate(costs[rate].value / planned.total - 1, costs[rate].error / planned.total)
            statements.append(
                Statement(
                    f"At rate {rate:.2g}, a change costs {costs[rate]}, {format_percent(error)} from "
                    f"the predicted {planned.total:.4g} (within {format_percent(MAX_ERROR)}).",
                    is_within(error, MAX_ERROR),
                )
            )
    finding = (
        f"The plan recommends looks at rate {recommended.rate:.2g}, where a change costs {own}; the "
        f"prediction is {recommended.total:.4g}. The smallest measured cost is {costs[best]}, at "
        f"rate {best:.2g}."
    )
    summary = f"rate {recommended.rate:.2g}: {own}, predicted {recommended.total:.4g}"
    caption = (
        f"Cost of a change: regret in the {typeset(HORIZON)} stages after the rise, and the cost of "
        "looks over the same number of stages. Rough: few observations before the rise."
    )
    columns = ("rate", "measured", "predicted", "rough")
    return judge(statements, summary, finding, [Table(caption, columns, rows)])


def draw(data: Data) -> Picture:
    """Return a figure of the cost of a change against the rate of looks, with the prediction."""
    rates, planned = list_rates(), make_plan()
    samples = [measure_totals(data, rate) for rate in rates]
    points = [
        (rate, total)
        for rate, total in zip(planned.rates, planned.totals, strict=True)
        if rate >= rates[0]
    ]
    x, y = zip(*points, strict=True)
    panel = Panel(
        f"{N_ARMS} arms, a rise every {typeset(HORIZON)} stages, a look costs {COST:g}",
        "rate of looks ε",
        f"cost of a change\n(mean of {data['rates'].sizes['run']} runs, bars ± 2 s.e.)",
        [
            error_bars("measured", rates, samples)._replace(kind="dots"),
            Curve("predicted", x, y, kind="reference"),
        ],
        [Mark(planned.rate, "recommended")],
    )
    alt = "Cost of a change against the rate of looks. " + verdict(data).finding
    return Picture(alt, [panel], 1)
