r"""A lower bound on the regret after a rise in the mean of an arm that is seldom pulled.

Rewards are Gaussian of variance 1, arm 1 is the best, and the K − 1 other arms have the gap Δ. In a
*hidden rise*, the mean of one of the other arms rises by d > Δ at the beginning of a window of m
stages, so that this arm is the best by d − Δ. Compare with the problem in which nothing changes.
Averaged over the arms and over J consecutive windows,

- an algorithm with regret at most :math:`R_0` without a change pulls an arm at most
  :math:`n=R_0/((K-1)\Delta J)` times per window, and looks at it at most
  :math:`m\epsilon/(K-1)` times. The Kullback-Leibler divergence of the observations up to the end of
  the window is therefore at most :math:`D=\frac{d^2}2\big(n+\frac{m\epsilon}{K-1}\big)` on average;
- by Markov's inequality, the arm is pulled a times or more in the window with probability at most
  :math:`p=n/a` without a change.

Let q be the average probability of a or more pulls in the problem with a rise. The divergence of two
Bernoulli distributions is jointly convex, so the data-processing inequality gives kl(p, q) ≤ D. With
fewer than a pulls of the risen arm, the algorithm loses at least (d − Δ)(m − a + 1).
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import kl_div

from kibitz._validation import invalid, whole
from kibitz.bounds._bound import document_parameters, to_scalar
from kibitz.bounds._checks import (
    FloatArray,
    check_choice,
    check_horizon,
    check_nonnegative,
    check_rate,
    check_scale,
    check_shapes,
)

N_WINDOWS = 200  # the number of window lengths m to try
N_PULLS = 40  # the number of pulls a to try for each m
N_BISECTIONS = 60


@document_parameters
def hidden_rise(
    n_arms: int,
    gap: float,
    rate: ArrayLike,
    horizon: ArrayLike,
    *,
    change: float,
    regret: float,
    form: str = "proved",
) -> float | FloatArray:
    r"""Return a lower bound on the regret that follows a rise of an arm that is seldom pulled.

    One arm is the best, the K − 1 other arms have the gap Δ, and rewards are Gaussian of variance 1.
    Consider any algorithm with regret at most :math:`R_0` over T stages without a change, with active
    or passive looks. Then there are a sub-optimal arm and a stage for which the regret is large: if
    the mean of this arm rises by d > Δ at this stage, the regret from the rise to the horizon is at
    least

    .. math:: \max_{m,a}\ (d-\Delta)(m-a+1)(1-q), \qquad
              n = \frac{R_0}{(K-1)\Delta\lfloor T/m\rfloor},

    .. math:: q = \max\Big\{q : kl\big(\tfrac na,q\big) \le
              \tfrac{d^2}2\big(n+\tfrac{m\epsilon}{K-1}\big)\Big\} .

    Here m is the length of a window after the rise, a is a number of pulls of the risen arm in this
    window, and kl(p, q) is the divergence of Bernoulli distributions. The bound also holds for the
    average over the K − 1 arms and the stages 1, m + 1, 2m + 1, … of the rise. With looks, the
    bound stays bounded for large T. Without looks, its product with :math:`R_0` is of order T: an
    algorithm with little regret while nothing changes loses much after a change. This bound is not
    in the paper.

    Parameters
    ----------
    n_arms
        The number of arms K, at least 2.
    gap
        The gap Δ of all arms but the best.
    change
        The size d of the rise, greater than the gap.
    regret
        The regret :math:`R_0` over T stages if nothing changes.
    form
        ``"proved"`` is the bound above, for the best m and a of a grid. ``"leading"`` is the
        simplest case of this bound, up to rounding,

        .. math:: \frac{d-\Delta}{(\epsilon/(K-1)+\rho)d^2}\Big(\frac1{2e}-2\rho\Big), \qquad
                  \rho = \frac{R_0}{(K-1)\Delta T} ,

        which is 0 if the window of :math:`m=2/((\epsilon/(K-1)+\rho)d^2)` stages is longer than T.
        For small ρ and ε, the proved form is up to four times as large.
    """
    check_choice("form", form, "proved", "leading")
    n_others, gap = whole(n_arms, "n_arms", 2) - 1, check_scale("gap", gap)
    rates = check_rate(rate)
    horizons = check_horizon(horizon, rate=rates)
    change, regret = check_scale("change", change), check_nonnegative("regret", regret)
    if not change > gap:
        raise invalid("change", f"greater than gap={gap!r}", change)
    shape = check_shapes(rate=rates, horizon=horizons)
    pairs = zip(*(np.broadcast_to(x, shape).flat for x in (rates, horizons)), strict=True)
    evaluate = _evaluate_proved if form == "proved" else _evaluate_leading
    pulls = regret / gap / n_others  # expected pulls of each of the other arms, without a change
    values = [evaluate(look_rate / n_others, t, change, pulls) for look_rate, t in pairs]
    return to_scalar((change - gap) * np.reshape(values, shape))


def _evaluate_leading(look_rate: float, horizon: float, change: float, pulls: float) -> float:
    """Return the leading form of `hidden_rise` divided by d − Δ.

    The result is 0 if the window of this form is longer than the horizon.
    """
    share = pulls / horizon
    information = (look_rate + share) * change**2
    if information == 0 or 2 / information > horizon:
        return 0.0
    return max(0.0, 1 / (2 * math.e) - 2 * share) / information


def _evaluate_proved(look_rate: float, horizon: float, change: float, pulls: float) -> float:
    """Return the proved form of `hidden_rise` divided by d − Δ."""
    m = np.unique(np.floor(np.geomspace(1, horizon, N_WINDOWS)))[:, None]
    a = np.maximum(1.0, np.ceil(m * np.geomspace(1e-6, 1, N_PULLS)))
    pulls_in_window = pulls / np.floor(horizon / m)
    divergence = 0.5 * change**2 * (pulls_in_window + m * look_rate)
    p = np.minimum(pulls_in_window / a, 1.0)
    low, high = p, np.ones_like(p)
    for _ in range(N_BISECTIONS):
        middle = (low + high) / 2
        is_inside = kl_div(p, middle) + kl_div(1 - p, 1 - middle) <= divergence
        low, high = np.where(is_inside, middle, low), np.where(is_inside, high, middle)
    return float(((m - a + 1) * (1 - high)).max())
