"""ETC-OCUCB with p = 2, with all information in both subroutines or with separate statistics.

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
        "means", "not stated for this figure", ", ".join(f"{arm_mean:g}" for arm_mean in MEANS)
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
    for reading, (_, restarts) in READINGS.items():
        policies = {}
        for name, schedule in VARIANTS.items():
            policies[name] = etc_ocucb(p=GROWTH, check=schedule, restart=restarts, **ETC_OCUCB)
            policies[ALL_INFO[name]] = etc_ocucb(
                p=GROWTH, check=schedule, restart=restarts, all_info=True, **ETC_OCUCB
            )
        data[reading] = simulate(
            gaussian(MEANS), active(RATE), policies, horizon=HORIZON,
            stages=log_spaced(HORIZON, 60), file=file(reading), **options,
        )  # fmt: skip
    return data


def verdict(data: Data) -> Verdict:
    """Return the verdict on the final regrets and on the stages at which they are reached."""
    statements, reductions = [], []
    for reading, reading_data in data.items():
        title = READINGS[reading][0]
        final_regret, stages = reading_data["final_regret"], reading_data["stage"].to_numpy()
        for name, all_info_name in ALL_INFO.items():
            reduction = saving(final_regret.sel(policy=all_info_name), final_regret.sel(policy=name))
            reductions.append(reduction)
            statements.append(
                Statement(
                    f"{title}: the final regret of {all_info_name} is "
                    f"{mean(final_regret.sel(policy=all_info_name))}, "
                    f"that of {name} is {mean(final_regret.sel(policy=name))}. The reduction is "
                    f"{format_percent(reduction)} (clearly: more than {format_percent(MIN_SAVING)}).",
                    is_above(reduction, MIN_SAVING),
                    claim=0,
                )
            )
            plain_stage, all_info_stage = (
                first_stage_at(
                    FINAL_SHARE, stages, reading_data["regret"].sel(policy=policy_name).mean("run")
                )
                for policy_name in (name, all_info_name)
            )
            statements.append(
                Statement(
                    f"{title}: {all_info_name} reaches {format_percent(FINAL_SHARE)} of its final "
                    "regret "
                    f"at stage {typeset(all_info_stage)}, {name} at stage {typeset(plain_stage)}.",
                    all_info_stage < plain_stage,
                    claim=1,
                )
            )
    smallest_reduction, largest_reduction = (
        min(reductions, key=lambda candidate: candidate.value),
        max(reductions, key=lambda candidate: candidate.value),
    )
    reduction_range = f"{format_percent(smallest_reduction)} to {format_percent(largest_reduction)}"
    return judge(
        statements,
        f"final regret is lower by {reduction_range}",
        f"With all information, the final regret is lower by {reduction_range}.",
    )


def draw(data: Data) -> Picture:
    """Return a figure of regret against time, in both readings."""
    panels = []
    for reading, reading_data in data.items():
        labels = map(str, reading_data["policy"].to_numpy())
        curves = [band(label, reading_data["regret"].sel(policy=label)) for label in labels]
        # The bands of ETC-OCUCB-2 would cover the bands of ETC-OCUCB.
        curves[2:] = [curve._replace(low=None, high=None) for curve in curves[2:]]
        y = f"regret (mean of {reading_data.sizes['run']} runs, band 25–75 %)"
        panels.append(Panel(READINGS[reading][0], "stage t", y, curves))
    alt = (
        "Regret against time of ETC-OCUCB and ETC-OCUCB-2, each with and without all information in "
        "both subroutines. " + verdict(data).finding
    )
    return Picture(alt, panels, 2)
