"""The upper bound for FTL-robin, which pulls the leader of all observations and looks in turn."""

import math

import numpy as np
from numpy.typing import ArrayLike

from kibitz.bounds.bound import (
    Answer,
    FloatArray,
    Weights,
    check_gaps,
    check_horizon,
    check_rate,
    check_scale,
    check_shapes,
    check_weights,
)
from kibitz.bounds.trivial import at_most_trivial


def ftl_robin(
    gaps: ArrayLike,
    rate: ArrayLike,
    weights: Weights = None,
    *,
    horizon: ArrayLike | None = None,
    sd: float = 1.0,
    details: bool = False,
) -> Answer:
    r"""FTL-robin's bound, for all T at once (Lemma 1, whose proof the paper omits).

    It errs while an average is off by Δ_i/2, and an average of n or more observations ever is
    with probability at most :math:`e^{-ny_i}`, :math:`y_i=\Delta_i^2/(8\sigma^2)`. In a period of
    K/ε stages every arm is seen once more (printed 1/ε, D22):

    .. math:: \sum_{\Delta_i>0}\Delta_i\Big[1+\frac K\epsilon\sum_{n\ge1}\min(1,2e^{-ny_i})\Big]

    for looks in turn (`weights=None`), whether arrivals are periodic or random; for two arms
    and Δ ≤ 1 that is at most 27.2/(εΔ). With `weights`, the leader sees what comes by:

    .. math:: \sum_{\Delta_i>0}\Delta_i\Big[1+\Big(\frac1{\epsilon p_1}+\frac1{\epsilon p_i}\Big)
              \frac{1}{e^{y_i}-1}\Big]

    with p_1 the largest weight of an optimal arm. Infinite if either is never seen.

    Parameters
    ----------
    gaps
        One per arm, 0 for optimal arms, in any order; from 1e-50 to 1e50 where not 0.
    rate
        ε in [0, 1], one or many.
    weights
        p, one per arm, of sum at most 1, or a name; looks in turn if not given.
    horizon
        T, one or many, up to which no more can be lost than :func:`~kibitz.bounds.upper.trivial`;
        None holds for ever.
    sd
        σ, the sub-Gaussian scale of the rewards.
    details
        Whether to return a `Bound`: total, terms per arm, and stages.
    """
    gaps, rate = check_gaps(gaps), check_rate(rate)
    last = None if horizon is None else check_horizon(horizon)
    if last is not None:
        check_shapes(rate=rate, horizon=last)
    rate = rate[..., None]
    positive = gaps > 0
    y = np.where(positive, (gaps / check_scale("sd", sd)) ** 2 / 8, math.inf)
    with np.errstate(over="ignore"):  # at rates near the smallest float all of it may overflow
        if weights is None:
            certain = np.floor(math.log(2) / y)  # terms of the sum that are 1
            errors = certain + 2 * np.exp(-(certain + 1) * y) / -np.expm1(-y)
            stages = _per(errors, rate / gaps.size)
        else:
            weights = check_weights(weights, gaps)
            errors = np.exp(-y) / -np.expm1(-y)
            stages = _per(errors, rate * weights[~positive].max()) + _per(errors, rate * weights)
        terms = np.where(positive, gaps * (1 + np.where(positive, stages, 0.0)), 0.0)
        return at_most_trivial(terms, gaps, last, details)


def _per(errors: FloatArray, rate: FloatArray) -> FloatArray:
    """The stages that errors last, each until a look comes; for ever if none does."""
    return np.asarray(np.where(rate > 0, errors / np.where(rate > 0, rate, 1.0), math.inf))
