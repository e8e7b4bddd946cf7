"""The all-info variants against those that keep pulls and looks apart, p = 2.

Of the paper: Section 5, fifth figure.

Concluded: in both readings, whether all information clearly lowers the final regret, and whether the
regret is at 95 % of its final value sooner.
"""

from typing import Any

from kibitz.model.feedback import active
from kibitz.model.problem import gaussian
from kibitz.plotting.picture import Panel, Picture, band, typeset
from kibitz.policies.etc_ocucb import etc_ocucb
from kibitz.reproduction import Data, Files
from kibitz.reproduction.experiments.active import HORIZON, MEANS, OTHERS, RATE, READINGS, VARIANTS
from kibitz.reproduction.verdict import (
    Statement,
    Verdict,
    above,
    judge,
    mean,
    percent,
    reached,
    saving,
)
from kibitz.simulation.schedule import log_spaced
from kibitz.simulation.simulate import simulate

TITLE = "All information in both subroutines"
PAPER = "Section 5, fifth figure"
CLAIM = (
    "Letting OCUCB and ETC both learn from pulls and from looks clearly lowers the final regret, and "
    "it is reached sooner."
)
GROWTH = 2.0  #: p of ETC-OCUCB.
#: Each variant and its counterpart with all information.
ALL = {"ETC-OCUCB": "ETC-OCUCB-all-info", "ETC-OCUCB-2": "ETC-OCUCB-all-info-2"}
#: Runs of each setting.
RUNS = 600
CLEAR = 0.10  #: The share of the regret that is a clear improvement.
DONE = 0.95  #: The share of the final regret at which it is reached.


def run(file: Files, **options: Any) -> Data:
    """Play the variants with and without all information, in both readings."""
    data = {}
    for reading, (_, restart) in READINGS.items():
        policies = {}
        for name, schedule in VARIANTS.items():
            policies[name] = etc_ocucb(p=GROWTH, check=schedule, restart=restart, **OTHERS)
            policies[ALL[name]] = etc_ocucb(
                p=GROWTH, check=schedule, restart=restart, all_info=True, **OTHERS
            )
        data[reading] = simulate(
            gaussian(MEANS), active(RATE), policies, horizon=HORIZON,
            stages=log_spaced(HORIZON, 60), file=file(reading), **options,
        )  # fmt: skip
    return data


def verdict(data: Data) -> Verdict:
    """Compare final regrets and the stages at which they are reached."""
    statements, gains = [], []
    for reading, part in data.items():
        words = READINGS[reading][0]
        final, stages = part["final_regret"], part["stage"].to_numpy()
        for name, better in ALL.items():
            gain = saving(final.sel(policy=better), final.sel(policy=name))
            gains.append(gain)
            statements.append(
                Statement(
                    f"{words}: {better} ends at {mean(final.sel(policy=better))} against "
                    f"{mean(final.sel(policy=name))} of {name}, {percent(gain)} less (clear: more "
                    f"than {CLEAR:.0%}).",
                    above(gain, CLEAR),
                )
            )
            before, after = (
                reached(stages, part["regret"].sel(policy=one).mean("run"), DONE)
                for one in (name, better)
            )
            statements.append(
                Statement(
                    f"{words}: {better} is at {DONE:.0%} of its final regret at stage "
                    f"{typeset(after)}, {name} at stage {typeset(before)}.",
                    after < before,
                )
            )
    low, high = min(gains, key=lambda g: g.value), max(gains, key=lambda g: g.value)
    span = f"{percent(low)} to {percent(high)}"
    return judge(statements, f"final regret lower by {span}", f"All information lowers it by {span}.")


def draw(data: Data) -> Picture:
    """Draw regret against time, in both readings."""
    panels = []
    for reading, part in data.items():
        labels = map(str, part["policy"].to_numpy())
        curves = [band(label, part["regret"].sel(policy=label)) for label in labels]
        curves[2:] = [curve._replace(low=None, high=None) for curve in curves[2:]]  # nearly the same
        y = f"regret (mean of {part.sizes['run']}, band 25–75 %)"
        panels.append(Panel(READINGS[reading][0], "stage t", y, curves))
    alt = (
        "Regret against time of ETC-OCUCB and ETC-OCUCB-2, each with and without all information in "
        "both subroutines. " + verdict(data).sentence
    )
    return Picture(alt, panels, 2)
