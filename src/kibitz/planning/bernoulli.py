r"""Predict the regret of kibitzer and Thompson sampling if rewards are 0 or 1, such as clicks.

Let :math:`p_1` be the rate of the best arm, :math:`p_i` the rate of arm i, :math:`d_i^2 =
2\,\mathrm{kl}(p_i, p_1)`, K the number of arms, T the horizon and :math:`\epsilon` the rate of looks.
The predicted number of pulls of a sub-optimal arm i is

.. math:: n_i = \frac{T}{K} \cdot \frac{1}{x_i}
          \log\Bigl(1 + \frac{x_i}{1 + b \epsilon x_i}\Bigr), \qquad
          x_i = \frac{T d_i^2}{2 c K^{1 + \gamma}},

and the predicted regret is :math:`\sum_i (p_1 - p_i) n_i`. The number x_i measures how clearly T/K
pulls distinguish arm i from the best arm. If x_i is small, the formula gives n_i = T/K, as an even
split does. Without looks, n_i grows like :math:`\log T`. With looks, n_i is bounded in T. If b ≤ 1
and all gaps are equal, visitors who get a random arm in order to learn never lower the predicted
regret: each of these visitors saves at most one pull of a sub-optimal arm.

The form is heuristic. The constants c, γ and b were fitted to simulations of random settings, and
the accuracy was measured on other settings (benchmarks/kibitzer_fit.py). The prediction is an
approximation, not a bound.
"""

from typing import NamedTuple

import numpy as np

from kibitz.planning.fluid import FloatArray

SMALL_GAP = 1e-5  # relative to p(1 - p); smaller gaps use the leading term of the divergence
MIN_X = 1e-290  # keeps quotients finite


class Constants(NamedTuple):
    """The constants of the formula in the docstring of this module."""

    c: float
    gamma: float
    b: float


#: Fitted by benchmarks/kibitzer_fit.py. "kibitzer" and "thompson" choose the arms to look at. In
#: "uniform", kibitzer gets passive looks with uniform weights.
CONSTANTS = {
    "kibitzer": Constants(c=0.702, gamma=0.095, b=1.396),
    "uniform": Constants(c=0.702, gamma=0.095, b=0.988),
    "thompson": Constants(c=0.729, gamma=0.353, b=0.572),
}

#: The measured relative error of the predicted regret (benchmarks/kibitzer_fit.py): median, 90 %
#: quantile and maximum of the absolute error. "real tests" are 40 tests of the Upworthy archive, with
#: T = 20,000 and looks at rates 0, 0.01 and 0.1. "fresh" are 40 random settings with T up to 2·10⁵
#: and rates of looks up to 1. No constant was fitted to these tests and settings. The errors include
#: the standard error of the simulated means, 6 to 12 %.
ACCURACY = {
    "kibitzer, real tests": {"median": 0.08, "nine_of_ten": 0.20, "worst": 0.80},
    "uniform, real tests": {"median": 0.11, "nine_of_ten": 0.30, "worst": 0.56},
    "thompson, real tests": {"median": 0.06, "nine_of_ten": 0.19, "worst": 0.38},
    "kibitzer, fresh": {"median": 0.11, "nine_of_ten": 0.34, "worst": 0.55},
    "uniform, fresh": {"median": 0.10, "nine_of_ten": 0.34, "worst": 0.47},
    "thompson, fresh": {"median": 0.07, "nine_of_ten": 0.22, "worst": 0.33},
}


def predict_regret(
    problems: FloatArray, look_rates: FloatArray, horizon: int, constants: Constants
) -> FloatArray:
    """Return the predicted regret at each rate of looks, as an array (problem, rate).

    Parameters
    ----------
    problems
        The rates of the arms of each problem, as an array (problem, arm).
    look_rates
        The rates of looks, each in [0, 1].
    horizon
        The number of stages T.
    constants
        The constants of the formula, one of `CONSTANTS`.
    """
    n_arms = problems.shape[1]
    gaps = problems.max(axis=1, keepdims=True) - problems
    c = constants.c * n_arms**constants.gamma
    x = (horizon * distance(problems) / (2 * c * n_arms))[:, np.newaxis]
    look_effect = constants.b * look_rates[:, np.newaxis]
    positive_x = np.maximum(x, MIN_X)
    pulls = (
        horizon
        / n_arms
        * np.where(x > MIN_X, np.log1p(positive_x / (1 + look_effect * positive_x)) / positive_x, 1)
    )
    return np.asarray((gaps[:, np.newaxis] * pulls).sum(axis=-1))


def distance(problems: FloatArray) -> FloatArray:
    """Return the squared distance d_i² = 2 kl(p_i, p_1) of each arm from the best arm."""
    best_rates = problems.max(axis=1, keepdims=True)
    variance = best_rates * (1 - best_rates)
    gaps = best_rates - problems
    exact_divergence = problems * np.log(problems / best_rates) + (1 - problems) * np.log(
        (1 - problems) / (1 - best_rates)
    )
    leading_term = gaps**2 / (2 * variance)
    return np.asarray(2 * np.where(gaps < SMALL_GAP * variance, leading_term, exact_divergence))


def even_split(problems: FloatArray, horizon: int) -> FloatArray:
    """Return the regret of a policy that pulls all arms equally often, one number per problem."""
    gaps = problems.max(axis=1, keepdims=True) - problems
    return np.asarray(horizon * gaps.mean(axis=1))
