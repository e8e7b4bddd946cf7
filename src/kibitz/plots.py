"""Figures, by matplotlib and nowhere else."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

#: Okabe and Ito's colours, told apart by colour-blind readers too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
LINES = ("-", "--", "-.", ":")

STYLE: Any = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "font.size": 10,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 160,
    "svg.hashsalt": "kibitz",
}


def regret_curves(data: "xarray.Dataset", title: str = "") -> "Figure":
    """Draw mean regret against the stage, with bands from 25 to 75 %, for each policy."""
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 4.2))
        axes = figure.subplots()
        for n, label in enumerate(data["policy"].to_numpy()):
            regret = data["regret"].sel(policy=label)
            colour, line = COLOURS[n % len(COLOURS)], LINES[n // len(COLOURS) % len(LINES)]
            stages = data["stage"].to_numpy()
            low, high = regret.quantile([0.25, 0.75], "run").to_numpy()
            axes.fill_between(stages, low, high, color=colour, alpha=0.15, linewidth=0)
            mean = regret.mean("run").to_numpy()
            axes.plot(stages, mean, color=colour, linestyle=line, label=str(label))
        axes.set_xscale("log")
        axes.set_xlabel("stage t")
        axes.set_ylabel(f"regret (mean of {data.sizes['run']} runs, band 25–75 %)")
        axes.set_ylim(bottom=0)
        axes.set_title(title)
        axes.legend()
    return figure


def save_figure(figure: "Figure", file: Path) -> None:
    """Write a figure; the ending of the file's name says how."""
    with matplotlib.rc_context(STYLE):
        figure.savefig(file)
