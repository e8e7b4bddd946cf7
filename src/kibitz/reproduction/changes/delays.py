"""The number of stages until looks show that an arm that is not pulled has become the best.

Source: Our own approximation of the delay.

Measured: whether the delay of lookout is within 35 % of `kibitz.bounds.complexity.rise_delay`, both
if lookout chooses its looks and if looks are random; and how much sooner lookout detects the rise if
it chooses its looks. The delay is the regret after the rise, divided by the loss per stage.
"""

import math
from typing import Any

import numpy as np

from kibitz.bounds.complexity import rise_delay
from kibitz.bounds.concentration import scan_delay
from kibitz.model.feedback import Feedback, active, passive
from kibitz.model.problem import Problem, changing, gaussian
from kibitz.plotting.picture import Curve, Panel, Picture, error_bars
from kibitz.policies.lookout import lookout
from kibitz.reproduction import Data, Files
from kibitz.reproduction.verdict import (
    Estimate,
    Statement,
    Table,
    Verdict,
    format_percent,
    is_above,
    is_within,
    judge,
    mean,
    ratio,
)
from kibitz.simulation.sweep import sweep

TITLE = "How soon a hidden rise is detected"
SOURCE = "Our own approximation of the delay"
CLAIM = (
    "The delay is inversely proportional to the rate of looks. If looks are random, it is also "
    "proportional to the number of arms; looks that lookout chooses, which stay with a suspicious "
    "arm, detect the rise of one of many arms several times sooner."
)
#: The gap of all arms but the best before the rise, and the rise of one of them.
GAP, CHANGE = 0.4, 0.8
#: Numbers of arms, K.
ARMS = (5, 20)
#: Rates of looks, ε.
RATES = (0.1, 0.2, 0.5, 1.0)
#: Number of stages before the rise, and after it.
HORIZON = 10_000
#: Number of runs for each rate.
RUNS = 200
MAX_ERROR = 0.35  #: Largest relative error of the approximation.
MIN_FACTOR = 3.0  #: Smallest ratio of the delay with random looks to the delay with chosen looks.
#: The approximation is tested only if the arm has many observations before the rise: at least this
#: multiple of the number that detection takes.
MIN_BEFORE = 2.0
CHOSEN, RANDOM = "looks of lookout", "random looks"


def make_problem(n_arms: int, length: int) -> Problem:
    """Return a problem in which the last arm rises after `length` stages and is then the best."""
    others = [0.0] * (n_arms - 2)
    before, after = gaussian([GAP, *others, 0.0]), gaussian([GAP, *others, CHANGE])
    return changing([(1, before), (length + 1, after)])


def make_feedback(looks: str, rate: float) -> Feedback:
    """Return feedback with active looks for `CHOSEN`, and with passive looks for `RANDOM`."""
    return active(rate) if looks == CHOSEN else passive(rate)


def run(file: Files, **options: Any) -> Data:
    """Simulate lookout on problems in which an arm rises, for each number of arms and each rate."""
    return {
        str(n_arms): sweep(
            make_problem(n_arms, HORIZON), make_feedback, lookout(), looks=[CHOSEN, RANDOM],
            rate=RATES, horizon=2 * HORIZON, stages=[HORIZON, 2 * HORIZON], file=file(str(n_arms)),
            **options,
        )
        for n_arms in ARMS
    }  # fmt: skip


def measure_delays(part_data: Any, looks: str, rate: float) -> Any:
    """Return the regret after the rise divided by the loss per stage, for each run."""
    regret = part_data["regret"].isel(policy=0).sel(looks=looks, rate=rate)
    return (regret.isel(stage=1) - regret.isel(stage=0)) / (CHANGE - GAP)


def predict_delay(n_arms: int, looks: str, rate: float) -> tuple[float, bool]:
    """Return the approximate delay, and whether the arm has enough observations before the rise."""
    n_before = rate * HORIZON / (n_arms - 1 if looks == CHOSEN else n_arms)
    threshold = math.log(100 * n_arms / lookout().parameters["delta"])
    n_observed = scan_delay(n_before, CHANGE, threshold, form="leading")
    delay = rise_delay(
        n_arms, rate, n_before=n_before, change=CHANGE, threshold=threshold,
        looks="watch" if looks == CHOSEN else "passive",
    )  # fmt: skip
    return float(delay), n_before >= MIN_BEFORE * n_observed


def verdict(data: Data) -> Verdict:
    """Return the verdict on the approximation, and on the advantage of chosen looks."""
    statements, rows = [], []
    for n_arms in ARMS:
        for looks in (CHOSEN, RANDOM):
            for rate in RATES:
                predicted, is_accurate = predict_delay(n_arms, looks, rate)
                delay = mean(measure_delays(data[str(n_arms)], looks, rate))
                rows.append(
                    [str(n_arms), looks, f"{rate:g}", str(delay),
                     f"{predicted:.4g}" if is_accurate else "too few observations"]
                )  # fmt: skip
                if not is_accurate:
                    continue
                error = Estimate(delay.value / predicted - 1, delay.error / predicted)
                statements.append(
                    Statement(
                        f"{n_arms} arms, {looks} at rate {rate:g}: the delay is {delay} stages, "
                        f"{format_percent(error)} from the approximation {predicted:.4g} (within "
                        f"{format_percent(MAX_ERROR)}).",
                        is_within(error, MAX_ERROR),
                    )
                )
    n_arms, rate = ARMS[-1], RATES[-1]
    chosen, random = (measure_delays(data[str(n_arms)], looks, rate) for looks in (CHOSEN, RANDOM))
    factor = ratio(random, chosen)
    statements.append(
        Statement(
            f"With {n_arms} arms and a look at each stage, random looks take {factor} times as long "
            f"as the looks of lookout (at least {MIN_FACTOR:g}).",
            is_above(factor, MIN_FACTOR),
        )
    )
    finding = (
        f"With {n_arms} arms and a look at each stage, lookout detects a rise of {CHANGE:g} standard "
        f"deviations after {mean(chosen)} stages, and after {mean(random)} stages if looks are "
        "random."
    )
    summary = f"K = {n_arms}, ε = {rate:g}: {mean(chosen)} stages, random looks {mean(random)}"
    caption = (
        f"Mean delay in stages. The approximation needs at least {MIN_BEFORE:g} times as many "
        "observations before the rise as after it."
    )
    columns = ("arms", "looks", "rate", "delay", "approximation")
    return judge(statements, summary, finding, [Table(caption, columns, rows)])


def draw(data: Data) -> Picture:
    """Return a figure of the delay against the rate of looks, for each number of arms."""
    panels = []
    for n_arms in ARMS:
        part_data = data[str(n_arms)]
        curves = [
            error_bars(
                looks, RATES, [measure_delays(part_data, looks, rate) for rate in RATES]
            )._replace(kind="dots")
            for looks in (CHOSEN, RANDOM)
        ]
        for looks in (CHOSEN, RANDOM):
            rates = np.geomspace(RATES[0], RATES[-1], 30)
            predictions = [predict_delay(n_arms, looks, rate) for rate in rates]
            delays = [delay if is_accurate else math.nan for delay, is_accurate in predictions]
            curves.append(Curve(f"approximation, {looks}", rates, delays, kind="reference"))
        panels.append(
            Panel(
                f"{n_arms} arms",
                "rate of looks ε",
                f"delay in stages\n(mean of {part_data.sizes['run']} runs, bars ± 2 s.e.)",
                curves,
                y_log=True,
            )
        )
    alt = "Stages until a hidden rise is detected against the rate of looks. " + verdict(data).finding
    return Picture(alt, panels, len(ARMS))
