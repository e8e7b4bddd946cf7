"""The experiments: those of the paper, what it claims but does not draw, and which policy to use.

Each is a module with its setting as data at the top, `run` (data from the simulator, saved to
`file(part)` for each of its parts, and resumed from there), `verdict` (what the data say) and `draw`
(a picture of them). A module does not know its number: that is its place in `EXPERIMENTS`.
"""

from kibitz.reproduction.experiments import (
    active,
    all_info,
    arrivals,
    for_ever,
    ftl_or_ucb,
    league,
    limit,
    paid,
    rate_optimal,
    rate_uniform,
    sandwich,
    threshold,
    weights,
)

EXPERIMENTS = (
    rate_uniform, rate_optimal, weights, active, all_info, for_ever, ftl_or_ucb, threshold, paid,
    arrivals, sandwich, league, limit,
)  # fmt: skip

#: The experiments by number.
NUMBERED = dict(enumerate(EXPERIMENTS, start=1))
