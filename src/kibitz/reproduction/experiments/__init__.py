"""The experiments that `kibitz reproduce` runs: the paper's five figures, then our own experiments.

Each experiment is a module. Its parameters are constants at the top. `run` simulates the data and
saves each part to `file(part)`, or resumes an interrupted simulation from these files; `verdict`
compares the data with the claims; `draw` returns the figure. The number of an experiment is its
position in `EXPERIMENTS`.
"""

from kibitz.reproduction.experiments import (
    active,
    all_info,
    arrivals,
    bayes_optimum,
    between_bounds,
    bounded_regret,
    ftl_or_ucb,
    league,
    paid,
    rate_optimal,
    rate_uniform,
    threshold,
    weights,
)

#: The experiments of the paper's section 5, one for each of its figures.
PAPER_EXPERIMENTS = (rate_uniform, rate_optimal, weights, active, all_info)
#: Our own experiments, on claims for which the paper has no figure, and on policies.
OUR_EXPERIMENTS = (
    bounded_regret, ftl_or_ucb, threshold, paid, arrivals, between_bounds, league, bayes_optimum,
)  # fmt: skip
EXPERIMENTS = (*PAPER_EXPERIMENTS, *OUR_EXPERIMENTS)
