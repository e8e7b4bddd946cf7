"""ETC-OCUCB with p = 2: all information in both subroutines, against separate statistics.

Source: Section 5, Figure 5.

Measured: in both readings of the paper (statistics kept or reset at the start of an epoch), whether
the use of all information clearly lowers the final regret, and whether 95 % of the final regret is
reached earlier.
"""

from typing import Any

from kibitz.model.feedback import active
from kibitz.model.problem import gaussian
from kibitz.plotting.picture import Panel, Picture, band, typeset
from kibitz.policies.etc_ocucb import etc_ocucb
from kibitz.reproduction import Data, Files
from kibitz.reproduction.experiments.active import ETC_OCUCB, HORIZON, MEANS, RATE, READINGS, VARIANTS
from kibitz.reproduction.verdict import (
    Claim,
    Parameter,
    Statement,
    Verdict,
    first_stage_at,
    format_percent,
    is_above,
    judge,
    mean,
    saving,
)
from kibitz.simulation.schedule import log_spaced
from kibitz.simulation.simulate import simulate

TITLE = "All information in both subroutines"
SOURCE = "Section 5, Figure 5"
CLAIM = (
    "If OCUCB-n and ETC both learn from pulls and from looks, the final regret is clearly lower and "
    "is reached earlier."
)
GROWTH = 2.0  #: p of ETC-OCUCB.
#: Each variant and its counterpart with all information.
ALL_INFO = {"ETC-OCUCB": "ETC-OCUCB-all-info", "ETC-OCUCB-2": "ETC-OCUCB-all-info-2"}
#: Number of runs.
RUNS = 600
PAPER_RUNS = 300
MIN_SAVING = 0.10  #: Smallest share of the regret that counts as a clear improvement.
FINAL_SHARE = 0.95  #: Share of the final regret from which the final regret counts as reached.
PLACE = "Section 5, last paragraph, Figure 5"
CLAIMS = (
    Claim(
        "With all information in both subroutines, the final regret is clearly lower.",
        PLACE,
        f"Relative difference in final regret: more than {format_percent(MIN_SAVING)}, for both "
        "variants in each of two readings.",
    ),
    Claim(
        "The final regret is also reached earlier.",
        PLACE,
        f"The stage at which the mean has reached {format_percent(FINAL_SHARE)} of its final value: "
        "earlier, for both variants in each of two readings.",
    ),
)
PARAMETERS = (
    Parameter("rewards", "Gaussian, variance 1", "Gaussian, variance 1"),
    Parameter("p", "2", f"{GROWTH:g}"),
    Parameter("ε", "0.1", f"{RATE:g}"),
    Parameter(
        "means", "not stated for this figure", ", ".join(f"{one:g}" for one in MEANS)
    ),
    Parameter("horizon T", "not stated for this figure", typeset(HORIZON)),
    Parameter("α, ρ, η, C", "not stated for this figure", "1, 1/2, 2, 10"),
    Parameter(
        "statistics at the start of an epoch",
        "reset (Algorithm 2)",
        "two readings: reset, or kept from epoch to epoch",
    ),
    Parameter("number of observations in the radius of ETC", "not stated", "each arm's own number"),
)  # fmt: skip


def run(file: Files, **options: Any) -> Data:
    """Simulate the variants with and without all information, in both readings."""
    data = {}
    for reading, (_, restart) in READINGS.items():
        policies = {}
        for name, schedule in VARIANTS.items():
            policies[name] = etc_ocucb(p=GROWTH, check=schedule, restart=restart, **ETC_OCUCB)
            policies[ALL_INFO[name]] = etc_ocucb(
                p=GROWTH, check=schedule, restart=restart, all_info=True, **ETC_OCUCB
            )
        data[reading] = simulate(
            gaussian(MEANS), active(RATE), policies, horizon=HORIZON,
            stages=log_spaced(HORIZON, 60), file=file(reading), **options,
        )  # fmt: skip
    return data


def verdict(data: Data) -> Verdict:
    """Return the verdict on the final regrets and on the stages at which they are reached."""
    statements, gains = [], []
    for reading, part in data.items():
        title = READINGS[reading][0]
        final, stages = part["final_regret"], part["stage"].to_numpy()
        for name, improved in ALL_INFO.items():
            gain = saving(final.sel(policy=improved), final.sel(policy=name))
            gains.append(gain)
            statements.append(
                Statement(
                    f"{title}: the final regret of {improved} is {mean(final.sel(policy=improved))}, "
                    f"that of {name} is {mean(final.sel(policy=name))}. The reduction is "
                    f"{format_percent(gain)} (clearly: more than {format_percent(MIN_SAVING)}).",
                    is_above(gain, MIN_SAVING),
                    claim=0,
                )
            )
            before, after = (
                first_stage_at(FINAL_SHARE, stages, part["regret"].sel(policy=one).mean("run"))
                for one in (name, improved)
            )
            statements.append(
                Statement(
                    f"{title}: {improved} reaches {format_percent(FINAL_SHARE)} of its final regret "
                    f"at stage {typeset(after)}, {name} at stage {typeset(before)}.",
                    after < before,
                    claim=1,
                )
            )
    low, high = min(gains, key=lambda g: g.value), max(gains, key=lambda g: g.value)
    span = f"{format_percent(low)} to {format_percent(high)}"
    return judge(
        statements,
        f"final regret is lower by {span}",
        f"With all information, the final regret is lower by {span}.",
    )


def draw(data: Data) -> Picture:
    """Return a figure of regret against time, in both readings."""
    panels = []
    for reading, part in data.items():
        labels = map(str, part["policy"].to_numpy())
        curves = [band(label, part["regret"].sel(policy=label)) for label in labels]
        # The bands of ETC-OCUCB-2 would cover the bands of ETC-OCUCB.
        curves[2:] = [curve._replace(low=None, high=None) for curve in curves[2:]]
        y = f"regret (mean of {part.sizes['run']} runs, band 25–75 %)"
        panels.append(Panel(READINGS[reading][0], "stage t", y, curves))
    alt = (
        "Regret against time of ETC-OCUCB and ETC-OCUCB-2, each with and without all information in "
        "both subroutines. " + verdict(data).finding
    )
    return Picture(alt, panels, 2)
