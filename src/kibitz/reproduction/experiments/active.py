"""The active algorithms compared, in two readings.

Of the paper: Section 5, fourth figure.

Concluded: whether UCB1-Double soon reaches its final regret; and in each reading whether ETC-OCUCB
and ETC-OCUCB-2 are alike for every p, and whether a small p beats the largest.
"""

from typing import Any

from kibitz.model.feedback import active
from kibitz.model.problem import gaussian
from kibitz.plotting.picture import Panel, Picture, band, bars, typeset
from kibitz.policies.etc_ocucb import etc_ocucb
from kibitz.policies.ucb import ucb_double
from kibitz.reproduction import Data, Files
from kibitz.reproduction.verdict import (
    Statement,
    Verdict,
    above,
    all_of,
    judge,
    mean,
    percent,
    reached,
    saving,
    within,
)
from kibitz.simulation.schedule import log_spaced
from kibitz.simulation.simulate import simulate

TITLE = "The active algorithms compared"
PAPER = "Section 5, fourth figure"
CLAIM = (
    "UCB1-Double soon reaches its final regret and then hardly pulls a sub-optimal arm again; "
    "ETC-OCUCB and ETC-OCUCB-2 perform alike, and slightly better for smaller p."
)
#: Mean reward of each arm.
MEANS = (2.0, 1.8, 1.5, 1.0, 0.5)
#: ε.
RATE = 0.1
#: Stages, T.
HORIZON = 10_000
#: p of ETC-OCUCB.
GROWTHS = (1.1, 1.2, 1.5, 2.0, 3.0)
#: Those p that are compared with the largest.
SMALL = (1.1, 1.2)
#: The other parameters of ETC-OCUCB.
OTHERS: Any = {"alpha": 1.0, "rho": 0.5, "eta": 2.0, "C": 10.0}
#: What the page calls them, and whether an epoch starts from zero (Algorithm 2 to the letter).
READINGS = {"kept": ("Statistics kept", False), "restart": ("Restart in each epoch", True)}
#: They compare arms after whole rounds of looks, or at stages 2^k.
VARIANTS = {"ETC-OCUCB": "rounds", "ETC-OCUCB-2": "doubling"}
#: Runs of each setting.
RUNS = 400
SAME = 0.10  #: How far apart regrets may be that are "similar".
SOON = 0.5  #: The share of the horizon by which "soon" is over.
DONE = 0.95  #: The share of the final regret at which it is reached.


def run(file: Files, **options: Any) -> Data:
    """Play all variants, in both readings."""
    data = {}
    for reading, (_, restart) in READINGS.items():
        policies = {"UCB1-Double": ucb_double()} | {
            f"{name}, p = {p:g}": etc_ocucb(p=p, check=schedule, restart=restart, **OTHERS)
            for name, schedule in VARIANTS.items()
            for p in GROWTHS
        }
        data[reading] = simulate(
            gaussian(MEANS), active(RATE), policies, horizon=HORIZON,
            stages=log_spaced(HORIZON, 60), file=file(reading), **options,
        )  # fmt: skip
    return data


def verdict(data: Data) -> Verdict:
    """Judge each of the paper's remarks, in each reading."""
    some = next(iter(data.values()))
    double = some["regret"].sel(policy="UCB1-Double")
    stages = some["stage"].to_numpy()
    stage = reached(stages, double.mean("run"), DONE)
    late = saving(double.sel(stage=SOON * HORIZON, method="nearest"), double.isel(stage=-1))
    statements = [
        Statement(
            f"UCB1-Double reaches {DONE:.0%} of its final regret "
            f"({mean(double.isel(stage=-1))}) at stage {typeset(stage)} of {typeset(HORIZON)}; the "
            f"second half of the stages adds {percent(late)} (soon: less than {1 - DONE:.0%}).",
            within(late, 1 - DONE),
        )
    ]
    for reading, part in data.items():
        final = part["final_regret"]
        words = READINGS[reading][0]
        apart = [
            saving(
                final.sel(policy=f"ETC-OCUCB-2, p = {p:g}"), final.sel(policy=f"ETC-OCUCB, p = {p:g}")
            )
            for p in GROWTHS
        ]
        most = max(range(len(apart)), key=lambda n: abs(apart[n].value))
        statements.append(
            Statement(
                f"{words}: ETC-OCUCB and ETC-OCUCB-2 are within {SAME:.0%} of each other "
                f"for all p; farthest apart by {percent(apart[most])} at p = {GROWTHS[most]:g}.",
                all_of(within(one, SAME) for one in apart),
            )
        )
        for name in VARIANTS:
            regrets = {p: final.sel(policy=f"{name}, p = {p:g}") for p in GROWTHS}
            for p in SMALL:
                gain = saving(regrets[p], regrets[GROWTHS[-1]])
                statements.append(
                    Statement(
                        f"{words}: {name} is better with p = {p:g} than with p = {GROWTHS[-1]:g}: "
                        f"{mean(regrets[p])} against {mean(regrets[GROWTHS[-1]])}, a saving of "
                        f"{percent(gain)}.",
                        above(gain, 0),
                    )
                )
    said = []
    for words, _ in READINGS.values():
        better = [statement.holds for statement in statements if f"{words}: " in statement.text][1:]
        said.append(f"{better.count(True)} of {len(better)} comparisons ({words.lower()})")
    sentence = (
        f"UCB1-Double is at {DONE:.0%} of its final regret by stage {typeset(stage)}. A smaller p is "
        f"better in {' and '.join(said)}."
    )
    return judge(
        statements, f"smaller p is better in {', '.join(said)}".replace(" comparisons", ""), sentence
    )


def draw(data: Data) -> Picture:
    """Draw regret against time for each p, and final regret against p, in both readings."""
    panels = []
    for reading, part in data.items():
        labels = ["UCB1-Double", *(f"ETC-OCUCB, p = {p:g}" for p in GROWTHS)]
        curves = [band(label, part["regret"].sel(policy=label)) for label in labels]
        curves[2:-1] = [curve._replace(low=None, high=None) for curve in curves[2:-1]]
        y = f"regret (mean of {part.sizes['run']}, band 25–75 %)"
        panels.append(Panel(READINGS[reading][0], "stage t", y, curves))
    for reading, part in data.items():
        final = part["final_regret"]
        points = [
            bars(f"{name} at T", GROWTHS, [final.sel(policy=f"{name}, p = {p:g}") for p in GROWTHS])
            for name in VARIANTS
        ]
        x, y = "p, the growth of epochs p^(p^m)", "regret at T (bars ± 2 s.e.)"
        panels.append(Panel(READINGS[reading][0], x, y, points, x_log=False, y_log=True))
    alt = (
        "Regret against time of UCB1-Double and of ETC-OCUCB for several p, and final regret of "
        "ETC-OCUCB and ETC-OCUCB-2 against p, in two readings of the algorithm. "
        + verdict(data).sentence
    )
    return Picture(alt, panels, 2)
