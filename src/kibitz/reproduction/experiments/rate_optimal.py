"""How the regret of UCB depends on ε, with the optimal weights.

Of the paper: Section 5, second figure.

Concluded: the same as with uniform weights, by the same limits and from the same setting.
"""

from typing import Any

from kibitz.plotting.picture import Picture
from kibitz.reproduction import Data, Files
from kibitz.reproduction.experiments import rate_uniform
from kibitz.reproduction.verdict import Verdict

TITLE = "Influence of ε, optimal weights"
PAPER = "Section 5, second figure"
CLAIM = (
    "The same scaling with f(ε) = Σ (1/Δ_i) log(1/(ε Δ_i²)) when the looks are drawn with the "
    "optimal weights, proportional to 1/Δ_i; and the same limit when looks are scarce."
)
#: The weights of the looks, proportional to 1/Δ_i.
WEIGHTS = "optimal"
#: Runs of each setting.
RUNS = rate_uniform.RUNS


def run(file: Files, **options: Any) -> Data:
    """Play UCB at each rate, and without looks."""
    return rate_uniform.run_with(WEIGHTS, file, **options)


def verdict(data: Data) -> Verdict:
    """Judge as with uniform weights."""
    return rate_uniform.verdict(data)


def draw(data: Data) -> Picture:
    """Draw as with uniform weights."""
    return rate_uniform.picture(data, WEIGHTS)
