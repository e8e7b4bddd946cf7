"""The false alarms that the block scan for changes raises if nothing changes.

Source: Our own bound on false alarms.

Measured: whether the share of runs with an alarm stays below the bound
(`kibitz.bounds.concentration.scan_false_alarms`) for Gaussian rewards, and how far below. For clicks,
the scan uses the statistic of Bernoulli rewards, for which the bound is not proved. The share of runs
with an alarm is compared with the same bound.
"""

from typing import Any, NamedTuple

import numpy as np

from kibitz._jit import jit
from kibitz.bounds.concentration import scan_false_alarms
from kibitz.model.feedback import bandit
from kibitz.model.problem import Problem, bernoulli, gaussian
from kibitz.plotting.picture import Curve, Panel, Picture, typeset
from kibitz.policies.change_scan import Scan, add_reward, new_scan
from kibitz.policies.policy import Array, Policy, Rewards
from kibitz.reproduction import Data, Files
from kibitz.reproduction.verdict import Estimate, Statement, Verdict, is_below, judge
from kibitz.simulation.simulate import simulate

TITLE = "False alarms if nothing changes"
SOURCE = "Our own bound on false alarms"
CLAIM = (
    "With threshold c, the scan of an arm whose mean does not change raises an alarm within n "
    "observations with a probability that is at most the sum over its tests."
)
#: Numbers of observations, n.
OBSERVATIONS = (100, 300, 1000, 3000, 10_000, 30_000)
#: Thresholds, c.
THRESHOLDS = (6.0, 8.0)
#: The mean of the click rates.
CLICK_RATE = 0.05
#: Number of runs for each threshold.
RUNS = 4000
GAUSSIAN, CLICKS = "Gaussian rewards", "clicks"


class State(NamedTuple):
    """The scan of arm 0, and whether it has raised an alarm."""

    scan: Scan
    is_alarmed: Array


def scan_one_arm(threshold: float, rewards: Rewards) -> Policy:
    """Return a policy that pulls arm 0 until the scan of arm 0 raises an alarm, then arm 1."""
    constants = {"threshold": threshold, "in_unit_interval": rewards == "bernoulli"}
    return Policy("scan", constants, init, pull, pull, update, rewards=rewards)


@jit(allocates=True)
def init(params: Any, n_arms: int) -> State:
    """Return the state before any observation."""
    return State(new_scan(1), np.zeros(1, np.int64))


@jit
def pull(params: Any, state: State, stage: int, rng: Any) -> int:
    """Return arm 1 after an alarm, and arm 0 before."""
    return int(state.is_alarmed[0])


@jit
def update(
    params: Any, state: State, stage: int, arm: int, n: int, total: float, is_look: bool
) -> State:
    """Add the reward to the scan, unless the scan has already raised an alarm."""
    if state.is_alarmed[0] == 0:
        change = add_reward(state.scan, 0, total, params.threshold, params.in_unit_interval)
        if change.origin >= 0:
            state.is_alarmed[0] = 1
    return state


def run(file: Files, **options: Any) -> Data:
    """Simulate the scan of one arm, for Gaussian rewards and for clicks."""
    # the regret is positive from the first stage after the alarm on
    stages = [n + 1 for n in OBSERVATIONS]
    problems: dict[str, tuple[Problem, Rewards]] = {
        GAUSSIAN: (gaussian([0.0, -1.0]), "gaussian"),
        CLICKS: (bernoulli([CLICK_RATE, 0.0]), "bernoulli"),
    }
    return {
        label: simulate(
            problem, bandit(), {f"c = {c:g}": scan_one_arm(c, rewards) for c in THRESHOLDS},
            horizon=stages[-1], stages=stages, file=file(label.replace(" ", "-")), **options,
        )
        for label, (problem, rewards) in problems.items()
    }  # fmt: skip


def share_of_alarms(data: Data, label: str, threshold: float) -> list[Estimate]:
    """Return the share of runs with an alarm within n observations, for each of `OBSERVATIONS`."""
    regret = data[label]["regret"].sel(policy=f"c = {threshold:g}")
    estimates = []
    for n in OBSERVATIONS:
        alarms = regret.sel(stage=n + 1).to_numpy() > 0
        share, n_runs = alarms.mean(), alarms.size
        # add two runs with and two without an alarm; a share of 0 then has a positive error
        padded = (alarms.sum() + 2) / (n_runs + 4)
        estimates.append(Estimate(float(share), float(np.sqrt(padded * (1 - padded) / n_runs))))
    return estimates


def verdict(data: Data) -> Verdict:
    """Return the verdict on the share of runs with a false alarm."""
    statements, shares = [], {}
    for threshold in THRESHOLDS:
        bound = scan_false_alarms(OBSERVATIONS[-1], threshold)
        for label, note in ((GAUSSIAN, ""), (CLICKS, ", which is not proved for clicks")):
            share = share_of_alarms(data, label, threshold)[-1]
            shares[label, threshold] = share
            statements.append(
                Statement(
                    f"{label[0].upper()}{label[1:]}, c = {threshold:g}: the share of runs with an "
                    f"alarm within {typeset(OBSERVATIONS[-1])} observations is {share}, below the "
                    f"bound for Gaussian rewards, {bound:.3g}{note}.",
                    is_below(share, float(bound)),
                )
            )
    last = THRESHOLDS[-1]
    gaussian_bound = scan_false_alarms(OBSERVATIONS[-1], last)
    finding = (
        f"With c = {last:g}, {shares[GAUSSIAN, last]} of the runs have a false alarm within "
        f"{typeset(OBSERVATIONS[-1])} observations of Gaussian rewards; the bound is "
        f"{gaussian_bound:.3g}. For clicks at rate {CLICK_RATE:g} the share is "
        f"{shares[CLICKS, last]}."
    )
    summary = f"c = {last:g}: {shares[GAUSSIAN, last]}, bound {gaussian_bound:.3g}"
    return judge(statements, summary, finding)


def draw(data: Data) -> Picture:
    """Return a figure of the share of runs with an alarm against the number of observations."""
    panels = []
    for threshold in THRESHOLDS:
        curves = []
        for label in (GAUSSIAN, CLICKS):
            shares = share_of_alarms(data, label, threshold)
            values = np.array([share.value for share in shares])
            errors = np.array([share.error for share in shares])
            low = np.maximum(values - 2 * errors, 0)
            curves.append(
                Curve(f"{label}, measured", OBSERVATIONS, values, low, values + 2 * errors, "points")
            )
        bound = scan_false_alarms(np.array(OBSERVATIONS), threshold)
        curves.append(Curve("bound for Gaussian rewards", OBSERVATIONS, bound, kind="reference"))
        panels.append(
            Panel(
                f"Threshold c = {threshold:g}",
                "n, observations of the arm",
                f"share of runs with a false alarm\n({data[GAUSSIAN].sizes['run']} runs, bars "
                "± 2 s.e.)",
                curves,
            )
        )
    alt = "Share of runs with a false alarm against observations. " + verdict(data).finding
    return Picture(alt, panels, 2)
