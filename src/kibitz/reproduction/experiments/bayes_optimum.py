"""The regret of each policy relative to the Bayes optimum, for two Bernoulli arms.

Source: Not in the paper.

Measured: whether the regret of kibitzer is close to the optimum, and whether the regret of every
other policy is higher: without looks, with one look every 10 stages, and with one look at each stage.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from kibitz.evaluation.bayes_optimal import bayes_optimal
from kibitz.evaluation.league import REFERENCE, entrants
from kibitz.model.feedback import active, bandit, every
from kibitz.model.problem import Problem, bernoulli
from kibitz.plotting.picture import Curve, Mark, Panel, Picture, typeset
from kibitz.policies import POLICIES
from kibitz.policies.policy import Policy
from kibitz.reproduction import Data, Files
from kibitz.reproduction.verdict import (
    Estimate,
    Statement,
    Table,
    Verdict,
    is_above,
    is_below,
    judge,
    mean,
    ratio,
)
from kibitz.simulation.schedule import label_policies
from kibitz.simulation.sweep import sweep

if TYPE_CHECKING:
    import xarray

TITLE = "Distance to the Bayes optimum"
SOURCE = "Not in the paper"
CLAIM = (
    "For two Bernoulli arms with uniform priors, for which the Bayes optimum can be computed, the "
    "mean regret of kibitzer is close to the optimum and lower than that of every other policy."
)
#: Number of stages, T.
STAGES = 100
#: Stages between two looks; None means no looks.
PERIODS: dict[str, int | None] = {"no looks": None, "every 10": 10, "every stage": 1}
#: Number of pairs of means, which form a lattice in the unit square, and the step of the lattice in
#: the second mean.
DRAWS, STEP = 89, 11
#: Number of runs for each pair of means.
RUNS = 100
MAX_RATIO = 1.35  #: Largest ratio to the optimal regret that counts as close to the optimum.
N_PLOTTED = 8  #: Number of policies in the figure: the best policies and UCB1-Double.
NO_LOOKS_X = 0.01  # position of "no looks" on the logarithmic axis
BERNOULLI_POLICIES = ("kibitzer", "kl_ucb", "thompson")  # policies with a form for Bernoulli rewards


def make_policies() -> dict[str, Policy]:
    """Return the policies of the league, each in its form for Bernoulli rewards if it has one."""
    general_policies = [
        policy for name, policy in entrants().items() if name not in BERNOULLI_POLICIES
    ]
    bernoulli_policies = [
        POLICIES[name](rewards="bernoulli") for name in BERNOULLI_POLICIES if name in POLICIES
    ]
    return {
        **{policy.name: policy for policy in bernoulli_policies},
        **label_policies(general_policies),
    }


def problem(draw: int) -> Problem:
    """Return the problem whose two means are point `draw` of a lattice in the unit square."""
    return bernoulli([(draw + 0.5) / DRAWS, (draw * STEP % DRAWS + 0.5) / DRAWS])


def run(file: Files, **options: Any) -> Data:
    """Simulate all policies on all draws, for each period of looks."""
    return {
        label: sweep(
            problem, bandit() if n is None else active(every(n)), make_policies(), draw=range(DRAWS),
            horizon=STAGES, stages=[STAGES], file=file(label.replace(" ", "-")), **options,
        )
        for label, n in PERIODS.items()
    }  # fmt: skip


@cache
def optimal_regret(period: int | None) -> float:
    """Return the regret of the Bayes-optimal policy with one look every `period` stages."""
    return bayes_optimal(STAGES, period).regret


def average_draws(period_data: "xarray.Dataset") -> dict[str, Any]:
    """Return the mean regret over the draws in each run, by policy."""
    final_regret = period_data["final_regret"].mean("draw")
    return {
        str(label): final_regret.sel(policy=label).to_numpy()
        for label in period_data["policy"].to_numpy()
    }


def ratios(data: Data) -> dict[str, dict[str, Estimate]]:
    """Return the ratio of regret to the optimal regret, by period of looks and policy."""
    ratios_by_period: dict[str, dict[str, Estimate]] = {}
    for label, period_data in data.items():
        optimum = optimal_regret(PERIODS[label])
        means = {name: mean(runs) for name, runs in average_draws(period_data).items()}
        ratios_by_period[label] = {
            name: Estimate(estimate.value / optimum, estimate.error / optimum)
            for name, estimate in means.items()
        }
    return ratios_by_period


def rank_policies(ratios_by_period: dict[str, dict[str, Estimate]]) -> list[str]:
    """Return the policies, sorted by the geometric mean of their ratios, lowest first."""
    names = next(iter(ratios_by_period.values()))
    products = {
        name: np.prod([period_ratios[name].value for period_ratios in ratios_by_period.values()])
        for name in names
    }
    return sorted(products, key=lambda name: float(products[name]))


def verdict(data: Data) -> Verdict:
    """Return the verdict on kibitzer against the optimum and against the best other policy."""
    statements, ratios_by_period = [], ratios(data)
    for label, period_data in data.items():
        kibitzer_ratio, runs = ratios_by_period[label][REFERENCE], average_draws(period_data)
        rivals = {name: value for name, value in ratios_by_period[label].items() if name != REFERENCE}
        best_rival = min(rivals, key=lambda name: rivals[name].value)
        factor = ratio(runs[best_rival], runs[REFERENCE])
        optimum = optimal_regret(PERIODS[label])
        statements += [
            Statement(
                f"{_capitalise(label)}: the regret of {REFERENCE} is {kibitzer_ratio} times the "
                "optimum, "
                f"{optimum:.4g} (close: below {MAX_RATIO:g}).",
                is_below(kibitzer_ratio, MAX_RATIO),
            ),
            Statement(
                f"{_capitalise(label)}: the best other policy, {best_rival}, has a higher regret, "
                f"{factor} "
                f"times that of {REFERENCE}.",
                is_above(factor, 1.0),
            ),
        ]
    ratio_text = ", ".join(f"{ratios_by_period[label][REFERENCE]} ({label})" for label in data)
    leaders = {
        label: min(period_ratios, key=lambda name: period_ratios[name].value)
        for label, period_ratios in ratios_by_period.items()
    }
    rivals_ahead = [f"{name} ({label})" for label, name in leaders.items() if name != REFERENCE]
    finding = f"The regret of {REFERENCE} is {ratio_text} times the Bayes optimum. " + (
        f"Another policy has the lowest mean: {', '.join(rivals_ahead)}."
        if rivals_ahead
        else "Its mean is the lowest in each case."
    )
    rows = [
        [name, *(str(ratios_by_period[label][name]) for label in data)]
        for name in rank_policies(ratios_by_period)
    ]
    caption = (
        f"Ratio of regret to the Bayes optimum, T = {STAGES}, mean over {DRAWS} pairs of means. The "
        "standard errors are over the rewards of these pairs."
    )
    table = Table(caption, ["policy", *data], rows)
    summary = "; ".join(f"{ratios_by_period[label][REFERENCE]} × optimum, {label}" for label in data)
    return judge(statements, summary, finding, [table])


def _capitalise(label: str) -> str:
    return label[0].upper() + label[1:]


def draw(data: Data) -> Picture:
    """Return a figure of the ratio of regret to the optimal regret, against the rate of looks."""
    ratios_by_period = ratios(data)
    ranking = rank_policies(ratios_by_period)
    plotted_names = [
        name for name in ranking if name in {*ranking[: N_PLOTTED - 1], REFERENCE, "ucb_double"}
    ]
    rates = [NO_LOOKS_X if PERIODS[label] is None else 1 / (PERIODS[label] or 1) for label in data]
    curves = []
    for name in plotted_names:
        estimates = [ratios_by_period[label][name] for label in data]
        y, error = (np.array([estimate[field] for estimate in estimates]) for field in (0, 1))
        curves.append(Curve(name, rates, y, y - 2 * error, y + 2 * error, "points"))
    n_runs = next(iter(data.values())).sizes["run"]
    panel = Panel(
        f"Two Bernoulli arms, T = {typeset(STAGES)}",
        "looks per stage",
        "regret / optimum (bars ± 2 s.e.)",
        curves,
        [Mark(NO_LOOKS_X, "none")],
        y_log=True,
        note=f"mean of {DRAWS * n_runs:,} runs; leftmost points: no looks\n"
        f"the table has {len(ranking) - len(plotted_names)} more policies",
    )
    alt = (
        "Ratio of regret to the Bayes optimum against the rate of looks, for the best policies and "
        "UCB1-Double. " + verdict(data).finding
    )
    return Picture(alt, [panel], 1)
