"""The regret of UCB as a function of ε, with the optimal weights.

Source: Section 5, Figure 2.

Measured: the statements of the experiment with uniform weights (`rate_uniform`), with its limits.
"""

from typing import Any

from kibitz.plotting.picture import Picture
from kibitz.reproduction import Data, Files
from kibitz.reproduction.experiments import rate_uniform
from kibitz.reproduction.verdict import Verdict

TITLE = "Influence of ε, optimal weights"
SOURCE = "Section 5, Figure 2"
CLAIM = (
    "With the optimal weights, proportional to 1/Δ_i, the regret of UCB scales with the same f(ε) = "
    "Σ (1/Δ_i) log(1/(ε Δ_i²)). If looks are rare, the regret is again that of UCB without looks."
)
#: The distribution of the arm of a look, proportional to 1/Δ_i.
WEIGHTS = "optimal"
#: Number of runs for each ε.
RUNS = rate_uniform.RUNS
PAPER_RUNS = 300
#: Our reading of the printed weights: p_i = 1/Δ_i does not sum to 1 and is infinite for the best arm.
NORMALISED = "∝ 1/Δ_i on the sub-optimal arms, 0 on the best (errata, D31)"
CLAIMS = rate_uniform.claims(2, "optimal weights")
PARAMETERS = rate_uniform.parameters("1/Δ_i, not normalised", NORMALISED)


def run(file: Files, **options: Any) -> Data:
    """Simulate UCB at each ε, and without looks."""
    return rate_uniform.run_with(WEIGHTS, file, **options)


def verdict(data: Data) -> Verdict:
    """Return the verdict on the statements of `rate_uniform`, for the optimal weights."""
    return rate_uniform.verdict(data)


def draw(data: Data) -> Picture:
    """Return a figure of final regret against ε, like the figure for uniform weights."""
    return rate_uniform.draw_with(WEIGHTS, data)
