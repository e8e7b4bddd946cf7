r"""MOSS and its anytime version, which learn from pulls and looks.

Both pull the arm with the largest index

.. math:: \bar X_i + \sqrt{c \log_+\!\big(h / (K O_i)\big) / O_i}

where O_i counts pulls and looks of arm i, \bar X_i averages both, K is the number of arms and
\log_+ x = \log \max(1, x). For MOSS (Audibert and Bubeck, 2009), h is the horizon T; for MOSS-anytime
(Degenne and Perchet, 2016), h is the stage t. The original policies are for rewards in [0, 1], with
c = 1 and c = (1 + \alpha)/2 where \alpha = 1.35. The defaults here are four times as large, because
they are for rewards of sub-Gaussian scale 1 instead of 1/2. The paper mentions both policies among
the variants of UCB with regret of order \log(T \Delta_i^2)/\Delta_i (section 4.1), but states no
theorem for them with looks.
"""

import math
from typing import Any

from kibitz._jit import jit
from kibitz._validation import positive
from kibitz.policies.index_policy import index_policy
from kibitz.policies.policy import Array, Policy, check_horizon


def moss(exploration: float = 4.0, horizon: int | None = None, scale: float | None = None) -> Policy:
    """Return MOSS (section 4.1).

    Parameters
    ----------
    exploration
        The constant c of the index; 4 for rewards of sub-Gaussian scale 1.
    horizon
        The horizon that the policy is tuned for. Default: the horizon of the simulation.
    scale
        The sub-Gaussian scale of the rewards. Default: the scale of the problem.
    """
    constants: dict[str, Any] = {
        "exploration": positive(exploration, "exploration"),
        "horizon": check_horizon(horizon),
    }
    parameters = {**constants, "horizon": horizon}
    return index_policy("moss", index, scale=scale, parameters=parameters, **constants)


def moss_anytime(exploration: float = 4.7, scale: float | None = None) -> Policy:
    """Return MOSS-anytime: MOSS with the stage in place of the horizon (section 4.1)."""
    c = positive(exploration, "exploration")
    return index_policy("moss_anytime", anytime_index, scale=scale, exploration=c)


@jit
def index(params: Any, stage: int, counts: Array, arm: int, mean: float) -> float:
    """Return the index of MOSS."""
    n = counts[arm]
    log_term = math.log(max(1.0, params.horizon / (counts.size * n)))
    return mean + math.sqrt(params.exploration * log_term / n)


@jit
def anytime_index(params: Any, stage: int, counts: Array, arm: int, mean: float) -> float:
    """Return the index of MOSS-anytime."""
    n = counts[arm]
    log_term = math.log(max(1.0, stage / (counts.size * n)))
    return mean + math.sqrt(params.exploration * log_term / n)
