"""How far each policy is from the Bayes optimum: two Bernoulli arms, means uniform.

Of the paper: none of it; how well one can play at all.

Concluded: with no looks, some and one at each stage, whether kibitzer's regret is near the optimum's,
and whether that of every other policy is larger than kibitzer's.
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
    above,
    below,
    judge,
    mean as mean_of,
    ratio,
)
from kibitz.simulation.schedule import label_policies
from kibitz.simulation.sweep import sweep

if TYPE_CHECKING:
    import xarray

TITLE = "The limit"
PAPER = "none of it; how well one can play at all"
CLAIM = (
    "On average over two Bernoulli arms with uniform priors, for which the Bayes optimum can be "
    "computed, kibitzer loses little more than the optimum, and less than every other policy."
)
#: Stages, T.
STAGES = 100
#: Stages from look to look; None for no looks.
PERIODS: dict[str, int | None] = {"no looks": None, "every 10": 10, "every stage": 1}
#: Pairs of means, a lattice that fills the unit square, and its second step.
DRAWS, STEP = 89, 11
#: Runs of each setting.
RUNS = 100
NEAR = 1.35  #: The factor within which a regret is near the optimum's.
SHOWN = 8  #: How many policies are drawn, UCB1-Double among them and else the best ones.
NEVER = 0.01  # where "no looks" stands on a logarithmic axis
KNOWS_LAW = ("kibitzer", "kl_ucb", "thompson")  # they have a form of their own for Bernoulli rewards


def players() -> dict[str, Policy]:
    """Return the policies of the league, in their forms for Bernoulli rewards."""
    others = [policy for name, policy in entrants().items() if name not in KNOWS_LAW]
    own = [POLICIES[name](rewards="bernoulli") for name in KNOWS_LAW if name in POLICIES]
    short = {policy.name: policy for policy in own}
    return {**short, **label_policies(others)}


def problem(draw: int) -> Problem:
    """Return the problem of a draw: a point of a lattice that fills the square evenly."""
    return bernoulli([(draw + 0.5) / DRAWS, (draw * STEP % DRAWS + 0.5) / DRAWS])


def run(file: Files, **options: Any) -> Data:
    """Play all policies on all draws, with each kind of looks."""
    return {
        label: sweep(
            problem, bandit() if n is None else active(every(n)), players(), draw=range(DRAWS),
            horizon=STAGES, stages=[STAGES], file=file(label.replace(" ", "-")), **options,
        )
        for label, n in PERIODS.items()
    }  # fmt: skip


@cache
def optimum(period: int | None) -> float:
    """Return the regret of the Bayes optimum."""
    return bayes_optimal(STAGES, period).regret


def samples(part: "xarray.Dataset") -> dict[str, Any]:
    """Return, for each policy, the mean over the draws in each run."""
    final = part["final_regret"].mean("draw")
    return {str(label): final.sel(policy=label).to_numpy() for label in part["policy"].to_numpy()}


def ratios(data: Data) -> dict[str, dict[str, Estimate]]:
    """Return regret over the optimum's, for each kind of looks and policy."""
    found: dict[str, dict[str, Estimate]] = {}
    for label, part in data.items():
        limit = optimum(PERIODS[label])
        found[label] = {
            policy: Estimate(one.value / limit, one.error / limit)
            for policy, one in ((name, mean_of(runs)) for name, runs in samples(part).items())
        }
    return found


def ranked(found: dict[str, dict[str, Estimate]]) -> list[str]:
    """Return the policies, the one of smallest geometric mean first."""
    names = next(iter(found.values()))
    product = {name: np.prod([one[name].value for one in found.values()]) for name in names}
    return sorted(product, key=lambda name: float(product[name]))


def verdict(data: Data) -> Verdict:
    """Hold kibitzer against the optimum, and the best of the others against kibitzer."""
    statements, found = [], ratios(data)
    for label, part in data.items():
        own, runs = found[label][REFERENCE], samples(part)
        others = {name: value for name, value in found[label].items() if name != REFERENCE}
        best = min(others, key=lambda name: others[name].value)
        factor = ratio(runs[best], runs[REFERENCE])
        limit = optimum(PERIODS[label])
        statements += [
            Statement(
                f"{label}: {REFERENCE} loses {own} times as much as the optimum, {limit:.4g} "
                f"(near: below {NEAR:g}).",
                below(own, NEAR),
            ),
            Statement(
                f"{label}: the best of the others, {best}, loses {factor} times as much as "
                f"{REFERENCE}.",
                above(factor, 1.0),
            ),
        ]
    listing = ", ".join(f"{found[label][REFERENCE]} ({label})" for label in data)
    leaders = {label: min(one, key=lambda name: one[name].value) for label, one in found.items()}
    elsewhere = [f"{name} ({label})" for label, name in leaders.items() if name != REFERENCE]
    sentence = f"{REFERENCE} loses {listing} times as much as the Bayes optimum. " + (
        f"The smallest mean is another's: {', '.join(elsewhere)}."
        if elsewhere
        else "Its mean is the smallest in each case."
    )
    order = ranked(found)
    rows = [[name, *(str(found[label][name]) for label in data)] for name in order]
    caption = (
        f"Regret over that of the Bayes optimum, T = {STAGES}; {DRAWS} pairs of means. The error is "
        "that of the rewards; that of the means, which are spread evenly, is not in it."
    )
    table = Table(caption, ["policy", *data], rows)
    short = "; ".join(f"{found[label][REFERENCE]} × optimum, {label}" for label in data)
    return judge(statements, short, sentence, [table])


def draw(data: Data) -> Picture:
    """Draw the ratio to the optimum against how often looks come."""
    found = ratios(data)
    order = ranked(found)
    shown = [name for name in order if name in {*order[: SHOWN - 1], REFERENCE, "ucb_double"}]
    rates = [NEVER if PERIODS[label] is None else 1 / (PERIODS[label] or 1) for label in data]
    curves = []
    for name in shown:
        values = [found[label][name] for label in data]
        y, error = (np.array([one[k] for one in values]) for k in (0, 1))
        curves.append(Curve(name, rates, y, y - 2 * error, y + 2 * error, "points"))
    n_runs = next(iter(data.values())).sizes["run"]
    panel = Panel(
        f"Two Bernoulli arms, T = {typeset(STAGES)}",
        "looks per stage",
        "regret over the optimum's (bars ± 2 s.e.)",
        curves,
        [Mark(NEVER, "none")],
        y_log=True,
        note=f"mean of {DRAWS * n_runs} games; the left end is no looks\n"
        f"{len(order) - len(shown)} more policies are in the table",
    )
    alt = (
        "Regret over that of the Bayes optimum against how often looks come, for the best policies "
        "and UCB1-Double. " + verdict(data).sentence
    )
    return Picture(alt, [panel], 1)
