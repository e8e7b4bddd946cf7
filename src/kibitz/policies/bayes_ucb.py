r"""Bayes-UCB (Kaufmann, Cappé and Garivier, 2012), which learns from pulls and looks.

Pull each arm once, then the arm with the largest quantile of its posterior at level 1 - 1/t. With a
flat prior the posterior of the mean of Gaussian rewards (in units of their scale) is
N(\bar X_i, 1/O_i), and the index of arm i at stage t is

.. math:: \bar X_i + \Phi^{-1}(1 - 1/t) / \sqrt{O_i}

where O_i counts pulls and looks of arm i, \bar X_i averages both, and \Phi is the standard normal
distribution function. The authors divide 1/t by a power of log T for their proof, and advise to leave
it out in practice, as we do. They prove asymptotic optimality for Bernoulli rewards with a Beta
prior. `bayes_ucb` has only the Gaussian posterior; for rewards in [0, 1], it uses the scale 1/2. An
active observer looks at the arm with the second largest index. No theorem covers Bayes-UCB with
looks.
"""

import math
from typing import Any

from kibitz._jit import jit
from kibitz.policies.index_policy import (
    index_policy,
    inverse_root,
    make_separable_index,
    with_factors,
)
from kibitz.policies.policy import Policy


def bayes_ucb(scale: float | None = None) -> Policy:
    """Return Bayes-UCB with a Gaussian posterior, which is not in the paper.

    Parameters
    ----------
    scale
        The sub-Gaussian scale of the rewards. Default: the scale of the problem.
    """
    return with_factors(index_policy("bayes_ucb", index, scale=scale), growth, inverse_root)


@jit
def growth(params: Any, stage: int) -> float:
    """Return the normal quantile at level 1 - 1/t; 0 at the first stage.

    The starting point is below the quantile (Abramowitz and Stegun, 26.2.23, has an error of at most
    4.5e-4). Newton's method on the logarithm of the tail, which is concave, converges in five steps.
    """
    tail = 1.0 / stage
    if tail >= 0.5:
        return 0.0
    log_tail = math.log(tail)
    t = math.sqrt(-2 * log_tail)
    x = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (
        1 + t * (1.432788 + t * (0.189269 + t * 0.001308))
    )
    for _ in range(5):
        upper = 0.5 * math.erfc(x / math.sqrt(2))
        density = math.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
        x += (math.log(upper) - log_tail) * upper / density
    return x


index = make_separable_index(growth, inverse_root)
