"""A comparison of the active algorithms, in two readings of the paper.

Source: Section 5, Figure 4.

Measured: whether UCB1-Double reaches its final regret in the first half of the stages; and, in each
reading, whether ETC-OCUCB and ETC-OCUCB-2 have similar regret for every p, and whether the regret is
lower for a small p than for the largest p.
"""

from typing import Any

from kibitz.model.feedback import active
from kibitz.model.problem import gaussian
from kibitz.plotting.picture import Panel, Picture, band, error_bars, typeset
from kibitz.policies.etc_ocucb import etc_ocucb
from kibitz.policies.ucb import ucb_double
from kibitz.reproduction import Data, Files
from kibitz.reproduction.verdict import (
    Claim,
    Parameter,
    Statement,
    Verdict,
    all_hold,
    first_stage_at,
    format_percent,
    is_above,
    is_within,
    judge,
    mean,
    saving,
)
from kibitz.simulation.schedule import log_spaced
from kibitz.simulation.simulate import simulate

TITLE = "The active algorithms compared"
SOURCE = "Section 5, Figure 4"
CLAIM = (
    "UCB1-Double soon reaches its final regret and then pulls hardly any sub-optimal arm. ETC-OCUCB "
    "and ETC-OCUCB-2 have similar regret, which is slightly lower for smaller p."
)
#: Mean reward of each arm.
MEANS = (2.0, 1.8, 1.5, 1.0, 0.5)
#: Probability of a look at a stage, ε.
RATE = 0.1
#: Number of stages, T.
HORIZON = 10_000
#: Values of p of ETC-OCUCB.
GROWTHS = (1.1, 1.2, 1.5, 2.0, 3.0)
#: The values of p that are compared with the largest p.
SMALL_GROWTHS = (1.1, 1.2)
#: The other parameters of ETC-OCUCB.
ETC_OCUCB: Any = {"alpha": 1.0, "rho": 0.5, "eta": 2.0, "C": 10.0}
#: The title of each reading, and whether each epoch starts without observations, exactly as in
#: Algorithm 2.
READINGS = {"kept": ("Statistics kept", False), "restart": ("Restart in each epoch", True)}
#: When ETC compares the arms: after whole rounds of looks, or at stages 2^k.
VARIANTS = {"ETC-OCUCB": "rounds", "ETC-OCUCB-2": "doubling"}
#: Number of runs.
RUNS = 400
PAPER_RUNS = 100
MAX_DIFFERENCE = 0.10  #: Largest relative difference between regrets that count as similar.
EARLY_SHARE = 0.5  #: Share of the stages in which the final regret must be reached.
FINAL_SHARE = 0.95  #: Share of the final regret from which the final regret counts as reached.
ITEMS = "Section 5, “Active observer: comparison of algorithms”, Figure 4"
CLAIMS = (
    Claim(
        "UCB1-Double soon reaches its final regret and then pulls hardly any sub-optimal arm.",
        f"{ITEMS}, first item",
        "Regret added by the second half of the stages: less than "
        f"{format_percent(1 - FINAL_SHARE)}.",
    ),
    Claim(
        "ETC-OCUCB and ETC-OCUCB-2 have similar regret.",
        f"{ITEMS}, second item",
        f"Relative difference in final regret: at most {format_percent(MAX_DIFFERENCE)} for every "
        "p, in each of two readings.",
    ),
    Claim(
        "Regret is slightly lower for smaller p.",
        f"{ITEMS}, second item",
        f"Final regret with p = {SMALL_GROWTHS[0]:g} and {SMALL_GROWTHS[1]:g} against "
        f"p = {GROWTHS[-1]:g}: lower for both variants, in each of two readings.",
    ),
    Claim(
        "ETC-OCUCB-2 eliminates arms less aggressively than ETC-OCUCB, and p controls how often the "
        "set of active arms is updated.",
        "Section 5, “Active observer: comparison of algorithms”",
        "Not measured: both follow from the definitions of the algorithms.",
    ),
)
PARAMETERS = (
    Parameter("rewards", "Gaussian, variance 1", "Gaussian, variance 1"),
    Parameter("means", "2, 1.8, 1.5, 1, 0.5", ", ".join(f"{arm_mean:g}" for arm_mean in MEANS)),
    Parameter("ε", "0.1", f"{RATE:g}"),
    Parameter("horizon T", "10⁴", typeset(HORIZON)),
    Parameter(
        "α, ρ, η, C", "1, 1/2, 2, 10", "1, 1/2, 2, 10"
    ),
    Parameter("p", "not stated", ", ".join(f"{p:g}" for p in GROWTHS)),
    Parameter("epoch length", "p^(p^m)", "p^(p^m), rounded up to whole stages"),
    Parameter(
        "horizon of ETC in epoch m",
        "d^(3/2) log d with d the length of epoch m + 1 (Algorithm 2, p = 2)",
        "d^(1 + 1/p) log d, the same for p = 2 (errata, D34)",
    ),
    Parameter(
        "statistics at the start of an epoch",
        "reset (Algorithm 2)",
        "two readings: reset, or kept from epoch to epoch",
    ),
    Parameter("elimination test of ETC-OCUCB", "every C|S| pulls", "every C|S| looks"),
    Parameter("constant of UCB1-Double", "not stated", "6, as in Algorithm 1"),
    Parameter("band", "25 % and 75 % quantiles", "25 % and 75 % quantiles"),
)  # fmt: skip


def run(file: Files, **options: Any) -> Data:
    """Simulate all variants in both readings."""
    data = {}
    for reading, (_, restarts) in READINGS.items():
        policies = {"UCB1-Double": ucb_double()} | {
            f"{name}, p = {p:g}": etc_ocucb(p=p, check=schedule, restart=restarts, **ETC_OCUCB)
            for name, schedule in VARIANTS.items()
            for p in GROWTHS
        }
        data[reading] = simulate(
            gaussian(MEANS), active(RATE), policies, horizon=HORIZON,
            stages=log_spaced(HORIZON, 60), file=file(reading), **options,
        )  # fmt: skip
    return data


def verdict(data: Data) -> Verdict:
    """Return the verdict on each of the paper's remarks, in each reading."""
    first_reading = next(iter(data.values()))
    double_regret = first_reading["regret"].sel(policy="UCB1-Double")
    stages = first_reading["stage"].to_numpy()
    plateau_stage = first_stage_at(FINAL_SHARE, stages, double_regret.mean("run"))
    late_share = saving(
        double_regret.sel(stage=EARLY_SHARE * HORIZON, method="nearest"), double_regret.isel(stage=-1)
    )
    statements = [
        Statement(
            f"UCB1-Double reaches {format_percent(FINAL_SHARE)} of its final regret "
            f"({mean(double_regret.isel(stage=-1))}) at stage {typeset(plateau_stage)} of "
            f"{typeset(HORIZON)}. The "
            f"second half of the stages adds {format_percent(late_share)} (soon: less than "
            f"{format_percent(1 - FINAL_SHARE)}).",
            is_within(late_share, 1 - FINAL_SHARE),
            claim=0,
        )
    ]
    comparisons = []
    for reading, reading_data in data.items():
        final_regret = reading_data["final_regret"]
        title = READINGS[reading][0]
        differences = [
            saving(
                final_regret.sel(policy=f"ETC-OCUCB-2, p = {p:g}"),
                final_regret.sel(policy=f"ETC-OCUCB, p = {p:g}"),
            )
            for p in GROWTHS
        ]
        largest_index = max(range(len(differences)), key=lambda n: abs(differences[n].value))
        statements.append(
            Statement(
                f"{title}: the regrets of ETC-OCUCB and ETC-OCUCB-2 are within "
                f"{format_percent(MAX_DIFFERENCE)} of each other for all p. The largest difference "
                f"is {format_percent(differences[largest_index])}, at p = "
                f"{GROWTHS[largest_index]:g}.",
                all_hold(is_within(difference, MAX_DIFFERENCE) for difference in differences),
                claim=1,
            )
        )
        lower_results = []
        for name in VARIANTS:
            regrets = {p: final_regret.sel(policy=f"{name}, p = {p:g}") for p in GROWTHS}
            for p in SMALL_GROWTHS:
                reduction = saving(regrets[p], regrets[GROWTHS[-1]])
                lower_results.append(is_above(reduction, 0))
                statements.append(
                    Statement(
                        f"{title}: the regret of {name} is lower with p = {p:g} "
                        f"({mean(regrets[p])}) than with p = {GROWTHS[-1]:g} "
                        f"({mean(regrets[GROWTHS[-1]])}). The reduction is "
                        f"{format_percent(reduction)}.",
                        lower_results[-1],
                        claim=2,
                    )
                )
        comparisons.append((title.lower(), lower_results.count(True), len(lower_results)))
    finding = (
        f"UCB1-Double reaches {format_percent(FINAL_SHARE)} of its final regret by stage "
        f"{typeset(plateau_stage)}. Regret is lower for the smaller p in "
        + " and ".join(f"{n} of {n_total} comparisons ({title})" for title, n, n_total in comparisons)
        + "."
    )
    summary = "regret is lower for smaller p in " + ", ".join(
        f"{n} of {n_total} comparisons ({title})" for title, n, n_total in comparisons
    )
    return judge(statements, summary, finding)


def draw(data: Data) -> Picture:
    """Return a figure of regret against time for each p, and of final regret against p.

    The figure has panels for both readings.
    """
    panels = []
    for reading, reading_data in data.items():
        labels = ["UCB1-Double", *(f"ETC-OCUCB, p = {p:g}" for p in GROWTHS)]
        curves = [band(label, reading_data["regret"].sel(policy=label)) for label in labels]
        curves[2:-1] = [curve._replace(low=None, high=None) for curve in curves[2:-1]]
        y = f"regret (mean of {reading_data.sizes['run']} runs, band 25–75 %)"
        panels.append(Panel(READINGS[reading][0], "stage t", y, curves))
    for reading, reading_data in data.items():
        final_regret = reading_data["final_regret"]
        final_curves = [
            error_bars(
                f"{name} at T",
                GROWTHS,
                [final_regret.sel(policy=f"{name}, p = {p:g}") for p in GROWTHS],
            )
            for name in VARIANTS
        ]
        x, y = "p, the growth of epochs p^(p^m)", "regret at T (bars ± 2 s.e.)"
        panels.append(Panel(READINGS[reading][0], x, y, final_curves, x_log=False, y_log=True))
    alt = (
        "Regret against time of UCB1-Double and of ETC-OCUCB for several p, and final regret of "
        "ETC-OCUCB and ETC-OCUCB-2 against p, in two readings of the algorithm. "
        + verdict(data).finding
    )
    return Picture(alt, panels, 2)
