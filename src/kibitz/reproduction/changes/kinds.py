"""Six kinds of random problems at four rates of looks: the regret of each policy relative to lookout.

Source: Our own experiment.

Measured: whether SW-UCB, D-UCB and GLR-UCB, each with the setting that is the best over all
problems, have a higher regret than lookout if there are looks; whether lookout is within 5 % of
kibitzer if nothing changes; and whether SW-UCB is better than lookout if a hidden arm rises and there
are no looks. The table also shows the best setting for each problem in hindsight.
"""

from typing import Any

import numpy as np

from kibitz.model.feedback import active
from kibitz.model.problem import Problem, changing, drifting, gaussian
from kibitz.plotting.picture import Curve, Panel, Picture, typeset
from kibitz.policies.forgetting_ucb import d_ucb, sw_ucb
from kibitz.policies.glr_ucb import glr_ucb
from kibitz.policies.kibitzer import kibitzer
from kibitz.policies.lookout import lookout
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
)
from kibitz.simulation.sweep import sweep

TITLE = "Kinds of changes"
SOURCE = "Our own experiment"
CLAIM = (
    "With looks, lookout has a lower regret than the policies of the literature with one setting for "
    "all problems. If nothing changes, its regret is hardly higher than that of kibitzer. Without "
    "looks, it does not detect that an arm that it does not pull has risen."
)
#: Kinds of problems, with a description of the changes.
KINDS = {
    "global": "All means are redrawn",
    "single": "One mean is redrawn",
    "swap": "The best arm swaps with another",
    "up": "An arm rises above the best",
    "season": "Means are sines",
    "still": "Nothing changes",
}
#: Number of arms, and the standard deviation of their means.
N_ARMS, SPREAD = 5, 0.5
#: Number of changes in each problem of a kind; for "season", the number of periods.
N_CHANGES = {"global": 20, "single": 50, "swap": 10, "up": 4, "season": 3, "still": 0}
#: Number of stages, T.
HORIZON = 50_000
#: Rates of looks, ε.
RATES = (0.0, 0.01, 0.1, 1.0)
#: Number of runs of each policy in each problem.
RUNS = 12
#: Windows of SW-UCB, and mean memories 1/(1 - γ) of D-UCB, in stages.
WINDOWS = (500, 1500, 5000)
#: Constants a of GLR-UCB.
GLR_CONSTANTS = (0.05, 0.3)
MIN_LOOKS = 0.1  #: Smallest rate of looks at which lookout is claimed to be the best.
MAX_FACTOR = 1.05  #: Largest regret of lookout relative to kibitzer if nothing changes.
N_PROBLEMS = 4  #: Number of problems of each kind.
STEP = 500  #: Number of stages for which the means of the season are constant.
PROBLEM_SEED = 30  #: The seed of the problems.
LOOKOUT, KIBITZER = "lookout", "kibitzer"
SW_UCB, D_UCB, GLR_UCB = NAMES = ("SW-UCB", "D-UCB", "GLR-UCB")


def make_policies() -> dict[str, Policy]:
    """Return all policies by label; a label with a setting has the form "name, setting"."""
    policies = {LOOKOUT: lookout(), KIBITZER: kibitzer()}
    policies |= {f"{SW_UCB}, {window}": sw_ucb(window=window) for window in WINDOWS}
    policies |= {f"{D_UCB}, {window}": d_ucb(discount=1 - 1 / window) for window in WINDOWS}
    return policies | {f"{GLR_UCB}, {a:g}": glr_ucb(a) for a in GLR_CONSTANTS}


def make_problem(kind: str, number: int) -> Problem:
    """Return a random problem of the given kind; `number` selects one of the problems."""
    rng = np.random.default_rng([PROBLEM_SEED, list(KINDS).index(kind), number])
    means = rng.normal(0, SPREAD, N_ARMS)
    if kind == "season":
        phases = rng.uniform(0, 2 * np.pi, N_ARMS)
        speed = 2 * np.pi * N_CHANGES[kind] / HORIZON
        return drifting(lambda t: means + SPREAD * np.sin(speed * t + phases), HORIZON, step=STEP)
    starts = np.sort(rng.choice(np.arange(2, HORIZON + 1), N_CHANGES[kind], replace=False))
    pieces = [(1, gaussian(means))]
    for start in starts:
        means = means.copy()
        best, arm = int(means.argmax()), int(rng.integers(N_ARMS))
        if kind == "global":
            means = rng.normal(0, SPREAD, N_ARMS)
        elif kind == "single":
            means[arm] = rng.normal(0, SPREAD)
        elif kind == "swap":
            means[[best, arm]] = means[[arm, best]]
        else:
            means[arm] = means[best] + rng.uniform(0.3, 0.8)
        pieces.append((int(start), gaussian(means)))
    return changing(pieces)


def run(file: Files, **options: Any) -> Data:
    """Simulate all policies in all problems."""
    return {
        kind: sweep(
            lambda number, kind=kind: make_problem(kind, number), active, make_policies(), rate=RATES,
            number=range(N_PROBLEMS), horizon=HORIZON, stages=[HORIZON], file=file(kind), **options,
        )
        for kind in KINDS
    }  # fmt: skip


def compute_log_ratios(data: Data) -> dict[str, Any]:
    """Return the logarithm of the regret relative to lookout, for each policy, rate and problem."""
    ratios = {}
    for kind, part in data.items():
        regret = part["final_regret"].mean("run").transpose("policy", "rate", "number")
        ratios[kind] = np.log(regret / regret.sel(policy=LOOKOUT))
    return ratios


def choose_setting(ratios: dict[str, Any], name: str, rate: float) -> str:
    """Return the label of the setting with the smallest regret over all problems with changes."""
    labels = [str(p) for p in ratios["global"]["policy"].to_numpy() if str(p).startswith(name)]
    kinds = [kind for kind in ratios if N_CHANGES[kind]]
    return min(
        labels,
        key=lambda label: sum(float(ratios[k].sel(policy=label, rate=rate).mean()) for k in kinds),
    )


def compare(ratios: dict[str, Any], label: str, rate: float, kinds: Any) -> Estimate:
    """Return the geometric mean of the regret relative to lookout over problems of the given kinds.

    The standard error is computed over problems, so it includes the noise of the runs.
    """
    logs = mean(np.concatenate([ratios[k].sel(policy=label, rate=rate).to_numpy() for k in kinds]))
    return Estimate(float(np.exp(logs.value)), float(np.exp(logs.value) * logs.error))


def verdict(data: Data) -> Verdict:
    """Return the verdict on lookout with looks, without looks, and if nothing changes."""
    ratios = compute_log_ratios(data)
    changing_kinds = [kind for kind in ratios if N_CHANGES[kind]]
    statements, factors = [], {}
    for rate in RATES:
        for name in NAMES:
            label = choose_setting(ratios, name, rate)
            factors[name, rate] = compare(ratios, label, rate, changing_kinds)
            if rate >= MIN_LOOKS:
                statements.append(
                    Statement(
                        f"With looks at rate {rate:g}, {label} has {factors[name, rate]} times the "
                        "regret of lookout (above 1).",
                        is_above(factors[name, rate], 1.0),
                    )
                )
    logs = mean(np.concatenate([-ratios["still"].sel(policy=KIBITZER, rate=r) for r in RATES]))
    own = Estimate(float(np.exp(logs.value)), float(np.exp(logs.value) * logs.error))
    hidden = compare(ratios, choose_setting(ratios, SW_UCB, RATES[0]), RATES[0], ["up"])
    statements += [
        Statement(
            f"If nothing changes, lookout has {own} times the regret of kibitzer (at most "
            f"{MAX_FACTOR:g}).",
            is_below(own, MAX_FACTOR),
        ),
        Statement(
            f"Without looks, if hidden arms rise, SW-UCB has {hidden} times the regret of lookout "
            "(below 1).",
            is_below(hidden, 1.0),
        ),
    ]
    last = RATES[-1]
    rivals = ", ".join(f"{name} {factors[name, last]}" for name in NAMES)
    finding = (
        f"With a look at each stage and one setting for all problems, the regret relative to lookout "
        f"is: {rivals}. If nothing changes, lookout has {own} times the regret of kibitzer. Without "
        f"looks, SW-UCB has {factors[SW_UCB, RATES[0]]} times the regret of lookout."
    )
    summary = f"relative to lookout at ε = {last:g}: {rivals}"
    rows = []
    for kind in ratios:
        for rate in RATES:
            one = [compare(ratios, choose_setting(ratios, n, rate), rate, [kind]) for n in NAMES]
            rows.append(
                [kind, f"{rate:g}", str(compare(ratios, KIBITZER, rate, [kind])), *map(str, one),
                 f"{compute_hindsight(ratios[kind], rate):.2f}"]
            )  # fmt: skip
    caption = (
        f"Regret at stage {typeset(HORIZON)} relative to lookout, as a geometric mean over "
        f"{N_PROBLEMS} problems; below 1, the policy is better than lookout. Each policy has one "
        "setting for all problems at a rate. In hindsight: the policy and setting with the smallest "
        "regret in each problem, which nobody can know in advance."
    )
    columns = ("kind", "rate", KIBITZER, *NAMES, "best in hindsight")
    return judge(statements, summary, finding, [Table(caption, columns, rows)])


def compute_hindsight(log_ratios: Any, rate: float) -> float:
    """Return the smallest regret of SW-UCB, D-UCB and GLR-UCB in any setting, relative to lookout.

    The result is a geometric mean over problems; `log_ratios` holds the logarithms
    of relative regrets.
    """
    labels = [p for p in log_ratios["policy"].to_numpy() if str(p).startswith(NAMES)]
    return float(np.exp(log_ratios.sel(policy=labels, rate=rate).min("policy").mean()))


def draw(data: Data) -> Picture:
    """Return a figure of the regret relative to lookout against the rate, for each kind."""
    ratios = compute_log_ratios(data)
    positions = np.array([max(rate, min(RATES[1:]) / 10) for rate in RATES])
    panels = []
    for kind in ratios:
        curves = []
        for name in (KIBITZER, *NAMES):
            values = [
                compare(ratios, choose_setting(ratios, name, rate), rate, [kind]) for rate in RATES
            ]
            y, errors = np.array([v.value for v in values]), np.array([v.error for v in values])
            low, high = y / (1 + 2 * errors / y), y * (1 + 2 * errors / y)
            curves.append(Curve(name, positions, y, low, high, "points"))
        curves.append(Curve(LOOKOUT, positions, np.ones(len(RATES)), kind="reference"))
        panels.append(
            Panel(
                KINDS[kind],
                f"rate of looks ε (no looks at {typeset(positions[0])})",
                "regret / regret of lookout\n(bars ± 2 s.e.)",
                curves,
                y_log=True,
            )
        )
    alt = (
        "Regret of four policies relative to lookout against the rate of looks, for "
        f"{len(panels)} kinds of problems. " + verdict(data).finding
    )
    return Picture(alt, panels, 3)
