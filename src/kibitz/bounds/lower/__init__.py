r"""Lower bounds on the regret of every sub-logarithmic algorithm, however it uses its looks.

An algorithm is *sub-logarithmic* with constants C, C_0 (Definition 1 of the paper) if on every
problem and at every stage T

.. math:: E R_T \le U(T) = C \sum_{\Delta_i>0} \frac{\log T}{\Delta_i} + C_0 \sum_i \Delta_i .

Compare the problem with a second problem, in which the mean of arm i is raised to x above the best
mean. An algorithm that satisfies this inequality on both problems must distinguish the two problems.
The algorithm must therefore observe arm i often enough. Let O_i(t) be the number of observations of
arm i up to stage t. Then

.. math:: E O_i(t) \ge a_i(t) = \frac{2 h_i(t)}{(x + \Delta_i)^2}, \qquad
          h_i = \max\{0, P_+ \log_+(1/Q_i) - \log 2\},

.. math:: P = 1 - \frac{U(t)}{t \Delta_{min}}, \qquad
          Q_i = \frac{C_0 \sum_{j \ne i}(x + \Delta_j) + C \log t \sum_{j \ne i} 1/(x + \Delta_j)}
                {t x} .

Here the subscript + denotes the positive part. Observations that looks do not provide must be pulls.
The number of pulls never decreases over time, so every stage t ≤ T gives a bound on the regret at T.
Unless stated otherwise, the bounds are for Gaussian rewards of variance 1 and x = Δ_i, and hold for
every sub-logarithmic algorithm. For standard deviation s, divide the gaps by s and C by s², and
multiply the regret by s (`passive_sharp` has a parameter `sd` instead).

The printed formulas differ from these formulas (docs/errata/, D1–D3, D9–D12). `form="printed"`
computes the printed formulas to the letter, for comparison only.

`rate` is ε, a number or an array. Where a function accepts a schedule, `rate` can also be a function
that maps an array of stages t to the expected numbers of looks Σ_{s ≤ t} ε_s.
"""

from kibitz.bounds._bound import schedule
from kibitz.bounds.lower._active import (
    active_alternative,
    active_equal_gaps,
    active_fixed_stage,
    active_maximum,
    active_multi_period,
    linear_program,
)
from kibitz.bounds.lower._changes import hidden_rise
from kibitz.bounds.lower._constraint import eta, observation_constraint, required_observations
from kibitz.bounds.lower._graph import graph_fixed_stage, graph_multi_period, graph_worst_case
from kibitz.bounds.lower._passive import (
    passive_fixed_stage,
    passive_maximum,
    passive_sharp,
    passive_theorem,
    reference_curve,
)
from kibitz.bounds.lower._split import active_chain, active_theorem

__all__ = [
    "active_alternative", "active_chain", "active_equal_gaps", "active_fixed_stage", "active_maximum",
    "active_multi_period", "active_theorem", "eta", "graph_fixed_stage", "graph_multi_period",
    "graph_worst_case", "hidden_rise", "linear_program", "observation_constraint",
    "passive_fixed_stage", "passive_maximum", "passive_sharp", "passive_theorem", "reference_curve",
    "required_observations", "schedule",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
