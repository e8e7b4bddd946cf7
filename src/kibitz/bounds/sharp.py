"""The tightest lower bound that the paper's argument gives a passive observer."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kibitz import _validation as validate
from kibitz.bounds.bound import (
    Answer,
    FloatArray,
    Weights,
    check_choice,
    check_gaps,
    check_nonnegative,
    check_scale,
    check_weights,
)
from kibitz.bounds.constraint import (
    C_0_UCB1,
    C_UCB1,
    FIRST_STAGE,
    kl_at,
    make_constraint,
    sum_inverse_raised,
    sum_raised,
)
from kibitz.bounds.stages import Schedule, check_setting, each_place, free_looks, regret_of


def passive_sharp(
    gaps: ArrayLike,
    rate: ArrayLike | Schedule,
    horizon: ArrayLike,
    weights: Weights = None,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    law: str = "gaussian",
    sd: float = 1.0,
    best_mean: float | None = None,
    details: bool = False,
) -> Answer:
    r"""The tightest bound that the paper's argument gives, by a fixed point per arm.

    With n = E N_i(t), F = E F_i(t) and I(x) the divergence of one observation of arm i,

    .. math:: (n + F)\, I(x) \ge kl(1 - n/t,\, Q_i(t; x)) ,

    whose left side grows and whose right side falls with n: n is at least the root n*(t, x),
    which is 0 if Q ≥ 1 or F I(x) ≥ log(1/Q). Neither P, Δ_min nor the log 2 of the paper is
    needed, and every t ≤ T and x > 0 gives a bound: the largest over a grid of (t, x), refined
    around its best point, is returned.

    Parameters
    ----------
    gaps
        One per arm, 0 for optimal arms, in any order; from 1e-50 to 1e50 where not 0.
    rate
        ε in [0, 1], one or many, or a schedule.
    horizon
        T, whole numbers from 1 to 2⁵³, one or many.
    weights
        p, one per arm, of sum at most 1, or "uniform" (if not given), "optimal", "suboptimal".
    C, C_0
        Of the sub-logarithmic algorithm; those of UCB1 if not given.
    law
        "gaussian", or "bernoulli", for which the constants of UCB1 are legitimate (errata D5).
    sd
        Standard deviation of Gaussian rewards.
    best_mean
        μ* in [0, 1], needed for Bernoulli rewards; the other means are μ* - Δ_i.
    details
        Whether to return a `Bound`: total, terms per arm, and stages.
    """
    s = check_setting(gaps, rate, horizon, weights)
    d = make_divergence(s.gaps, law, sd, best_mean, C, C_0)
    weight = s.weights[s.gaps > 0]
    n_pulls = np.zeros((*s.shape, len(d.own)))
    stages = np.zeros_like(n_pulls)
    for place, looks, last in each_place(s):
        if last >= FIRST_STAGE and (d.most > 0).all():
            t, x = _best_point(d, looks, weight, last)
            stages[place], n_pulls[place] = t, _root(d, t, x, free_looks(looks, t) * weight, 60)
    c = make_constraint(s.gaps, C, C_0)
    return regret_of(c, n_pulls, stages, s.shape, details)


class Divergence(NamedTuple):
    """What the fixed point needs to know of each sub-optimal arm."""

    gaps: FloatArray  # of all arms
    own: FloatArray  # of the sub-optimal arms
    C: float
    C_0: float
    sd: float  # Gaussian
    best_mean: float | None  # Bernoulli, if not None
    most: FloatArray  # x is below this


def make_divergence(
    gaps: FloatArray, law: str, sd: float, best_mean: float | None, C: float, C_0: float
) -> Divergence:
    """What the fixed point needs to know of each sub-optimal arm, made sure of."""
    check_choice("law", law, "gaussian", "bernoulli")
    sd, C, C_0 = check_scale("sd", sd), check_scale("C", C), check_nonnegative("C_0", C_0)
    own = gaps[gaps > 0]
    if law == "gaussian":
        return Divergence(gaps, own, C, C_0, sd, None, 30 * own)
    condition = "at most 1 and at least the largest gap for Bernoulli rewards"
    best_mean = validate.number(best_mean, "best_mean", condition)
    if not gaps.max() <= best_mean * (1 + 1e-12) <= 1 + 1e-12:
        raise validate.refused("best_mean", condition, best_mean)
    room = (1 - best_mean) * (1 - 1e-9)
    return Divergence(gaps, own, C, C_0, sd, best_mean, np.minimum(30 * own, room))


def information_at(d: Divergence, x: FloatArray) -> FloatArray:
    """I(x): the divergence between arm i as it is and raised to x above the best."""
    step = x + d.own
    if d.best_mean is None:
        return (step / d.sd) ** 2 / 2
    mean = np.maximum(d.best_mean - d.own, 0)
    safe = np.where(mean > 0, mean, 1.0)
    own, other = mean * np.log1p(step / safe), (1 - mean) * np.log1p(-step / (1 - mean))
    return np.asarray(np.maximum(-own - other, 0))


def log_inverse_q_at(d: Divergence, t: FloatArray, x: FloatArray) -> FloatArray:
    far, near = sum_raised(x, d.gaps, d.own), sum_inverse_raised(x, d.gaps, d.own)
    log_t = np.log(t)
    value: FloatArray = log_t + np.log(x) - np.log(d.C_0 * far + d.C * near * log_t)
    return value


def _root(d: Divergence, t: FloatArray, x: FloatArray, free: FloatArray, n_steps: int) -> FloatArray:
    """n*(t, x) from below, by bisection; 0 where there is none."""
    log_inverse_q = log_inverse_q_at(d, t, x)
    information = information_at(d, x)
    excess = log_inverse_q - free * information
    useful = (excess > 0) & (information > 0)
    low = np.zeros(np.broadcast_shapes(excess.shape, t.shape))
    room = t * -np.expm1(-np.maximum(log_inverse_q, 0))
    high = np.where(useful, np.minimum(room, excess / np.where(useful, information, 1.0)), 0.0)
    for _ in range(n_steps):
        middle = (low + high) / 2
        holds = (middle + free) * information <= kl_at(middle / t, log_inverse_q)
        low = np.where(holds, middle, low)
        high = np.where(holds, high, middle)
    return np.where(useful, low, 0.0)


def _height(d: Divergence, t: FloatArray, x: FloatArray, free: FloatArray) -> FloatArray:
    """n*(t, x) roughly, and where it is 0 how far from positive: something to climb."""
    lacking = log_inverse_q_at(d, t, x) - free * information_at(d, x)
    return np.where(lacking > 0, _root(d, t, x, free, 24), np.minimum(lacking, 0))


def _best_point(
    d: Divergence, looks: FloatArray | Schedule, weight: FloatArray, horizon: float
) -> tuple[FloatArray, FloatArray]:
    """For each arm the stage t ≤ T and the raise x of the largest n*(t, x)."""
    t_span = np.array([np.full_like(d.own, FIRST_STAGE), np.full_like(d.own, horizon)])
    x_span = np.array([np.minimum(d.own / 1000, d.most / 10), d.most])
    arm, near = np.arange(len(d.own)), np.array([-1, 0, 1])[:, np.newaxis]
    for size in (33, *[9] * 9):
        t = np.rint(np.geomspace(t_span[0], t_span[-1], size))
        x = np.geomspace(x_span[0], x_span[-1], size)
        free = free_looks(looks, t)[:, np.newaxis] * weight
        heights = _height(d, t[:, np.newaxis], x[np.newaxis], free)
        row, column = np.divmod(np.argmax(heights.reshape(size * size, -1), axis=0), size)
        t_span = t[np.clip(row + near, 0, size - 1), arm]
        x_span = x[np.clip(column + near, 0, size - 1), arm]
    return t[row, arm], x[column, arm]


def silencing_rate(
    gaps: ArrayLike,
    stage: FloatArray,
    weights: Weights = None,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
) -> FloatArray:
    """The rate from which on `passive_sharp` with Gaussian rewards has nothing to say at t.

    The largest log(1/Q_i(t; x)) / (p_i t I(x)) over arms and a grid of x; infinite if an arm
    without free observations has to be pulled. Shape of `stage`.
    """
    delta = check_gaps(gaps)
    weight = check_weights(weights, delta)[delta > 0]
    d = make_divergence(delta, "gaussian", 1.0, None, C, C_0)
    rates = np.zeros(stage.shape)
    t = stage[..., np.newaxis]
    for x in np.geomspace(d.own / 20, d.own * 20, 60):
        needs = np.maximum(log_inverse_q_at(d, t, x), 0) / information_at(d, x)
        looks = np.broadcast_to(weight * t, needs.shape)
        none = np.where(needs > 0, np.inf, 0.0)
        ratio = np.divide(needs, looks, out=none, where=looks > 0)
        rates = np.maximum(rates, ratio.max(axis=-1, initial=0.0))
    return np.where(stage >= FIRST_STAGE, rates, 0.0)
