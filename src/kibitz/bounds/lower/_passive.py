"""Lower bounds for a passive observer, for which the environment draws the arm of each look.

The argument is explained in `kibitz.bounds.lower`. The tightest bound is `passive_sharp`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kibitz._validation import invalid, number
from kibitz.bounds._bound import Result, bound, to_scalar
from kibitz.bounds._checks import (
    FloatArray,
    Rate,
    Schedule,
    Setting,
    Weights,
    check_choice,
    check_gaps,
    check_horizon,
    check_nonnegative,
    check_rate,
    check_scale,
    check_setting,
    check_weights,
)
from kibitz.bounds.lower._constraint import (
    C_0_UCB1,
    C_UCB1,
    FIRST_STAGE,
    Constraint,
    compute_h,
    compute_kl,
    compute_needs,
    count_looks,
    find_best_stages,
    find_best_stages_scheduled,
    iterate_settings,
    make_constraint,
    sum_inverse_raised,
    sum_raised,
    sum_regret,
)


@bound("passive")
def passive_fixed_stage(
    gaps: ArrayLike,
    rate: Rate,
    weights: Weights,
    horizon: ArrayLike,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    form: str = "proved",
    details: bool = False,
) -> Result:
    r"""Return the lower bound of Lemma 2, which uses the constraint only at the horizon.

    .. math:: E R_T \ge \sum_i \max\{0, \frac{h_i(T)}{2\Delta_i} - \epsilon p_i T \Delta_i\}

    The bound is 0 for large T. Forms: "proved" and "printed" (with the printed h_i).
    """
    check_choice("form", form, "proved", "printed")
    s = check_setting(gaps, rate, weights, horizon)
    c = make_constraint(s.gaps, C, C_0, "printed" if form == "printed" else "clip")
    n_looks = count_looks(s.rate, s.horizon)[..., np.newaxis] * s.weights[c.suboptimal]
    n_pulls = np.maximum(compute_needs(c, s.horizon) - n_looks, 0)
    return sum_regret(c, n_pulls, s.horizon[..., np.newaxis], s.shape, details)


@bound("passive")
def passive_theorem(
    gaps: ArrayLike,
    rate: ArrayLike,
    weights: Weights,
    horizon: ArrayLike,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    text: str = "main",
    form: str = "proved",
    details: bool = False,
) -> Result:
    r"""Return the lower bound of Theorem 1, which uses the constraint of arm i at one stage.

    .. math:: E R_T \ge \sum_i \frac{(h_i(t) - 2 \epsilon p_i \Delta_i^2 t)_+}{2 \Delta_i},
              \qquad t = \min(T, \lceil t^*_i \rceil), \qquad
              t^*_i = \frac{1}{2 \epsilon p_i \Delta_i^2}

    For T ≥ t*_i the numerator of arm i is about h_i(t*_i) - 1. The printed theorem does not round
    t*_i to a whole stage and exceeds the proved bound by at most Δ_i ε p_i per arm (errata D43).

    Forms: "proved"; "printed", with the printed h_i and without clipping (an arm with t*_i ≤ 1, for
    which the printed formula is undefined, contributes 0); "leading", with the numerator
    log(t Δ_i/(2 C S_i)), clipped at 0, where S_i = Σ_{j≠i} 1/(Δ_i + Δ_j). "leading" is not a bound.

    Parameters
    ----------
    text
        "main" is the theorem in the main text. "appendix" is the theorem in the appendix, with
        t*_i = 1/(4 ε p_i Δ_i²) and -1/2 in place of -1. Both are valid (errata D8); "main" is better
        for large t*_i.
    """
    check_choice("form", form, "proved", "printed", "leading")
    check_choice("text", text, "main", "appendix")
    s = check_setting(gaps, rate, weights, horizon, steady=True)
    c = make_constraint(s.gaps, C, C_0, "printed" if form == "printed" else "clip")
    q = check_rate(rate)[..., np.newaxis] * s.weights[c.suboptimal]
    factor = 2.0 if text == "main" else 4.0
    return evaluate_single_stage(c, q, s.horizon[..., np.newaxis], factor, form, s.shape, details)


def evaluate_single_stage(
    c: Constraint,
    q: FloatArray,
    horizon: FloatArray,
    factor: float,
    form: str,
    shape: tuple[int, ...],
    details: bool,
) -> Result:
    """Return the bound that uses the constraint of arm i at stage min(T, 1/(factor q_i Δ_i²)).

    `q` holds q_i = ε p_i, the rate of looks at arm i.
    """
    turn = 1 / np.maximum(factor * q * c.gaps**2, 1e-300)  # beyond every horizon if q = 0
    if form == "proved":
        t = np.minimum(horizon, np.maximum(np.ceil(turn), FIRST_STAGE))
        n_pulls = np.maximum(compute_h(c, t) / c.information - q * t, 0)
    elif form == "printed":
        t = np.minimum(horizon, np.where(turn > 1, turn, 2.0))
        n_pulls = np.where(turn > 1, compute_h(c, t) / c.information - q * t, 0.0)
    else:
        t = np.minimum(horizon, turn)
        n_pulls = np.log(np.maximum(t * c.x / (2 * c.v[1]), 1)) / c.information
    return sum_regret(c, n_pulls, t, shape, details)


@bound("passive")
def passive_maximum(
    gaps: ArrayLike,
    rate: Rate,
    weights: Weights,
    horizon: ArrayLike,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    variant: str = "clip",
    details: bool = False,
) -> Result:
    r"""Return the lower bound that uses the constraint of each arm at its best stage (appendix A).

    .. math:: E R_T \ge \sum_i \Delta_i
              \max\{0, \max_{3 \le t \le T} (a_i(t) - \epsilon p_i t)\}

    The maximum over whole stages is exact. For a schedule and T > 20000 the maximum is over a refined
    grid of stages; the bound is then valid, and rarely smaller than with the exact maximum.
    """
    check_choice("variant", variant, "clip", "sharp")
    s = check_setting(gaps, rate, weights, horizon)
    c = make_constraint(s.gaps, C, C_0, variant)
    return evaluate_best_stages(s, c, s.weights[c.suboptimal], details)


def evaluate_best_stages(s: Setting, c: Constraint, weight: FloatArray, details: bool) -> Result:
    """Return the bound of `passive_maximum`; `weight` holds the weights of the sub-optimal arms."""
    if callable(s.rate):
        t = find_best_stages_scheduled(s.rate, c, weight, s.horizon)
        n_looks = count_looks(s.rate, t) * weight
    else:
        q = s.rate[..., np.newaxis] * weight
        t = find_best_stages(c, q, s.horizon[..., np.newaxis])
        n_looks = q * t
    return sum_regret(
        c, np.maximum(compute_h(c, t) / c.information - n_looks, 0), t, s.shape, details
    )


@bound()
def reference_curve(gaps: ArrayLike, rate: ArrayLike, horizon: ArrayLike) -> float | FloatArray:
    r"""Return the curve that the paper's experiments call "the function f" without defining it.

    .. math:: \sum_{\Delta_i > 0} \frac{1}{\Delta_i} \log_+ \min\{T, 1/(\epsilon\Delta_i^2)\}

    The curve shows how the regret should depend on ε and T. The curve is not a bound (errata D45).
    """
    positive, eps = check_gaps(gaps), check_rate(rate)
    last = check_horizon(horizon, rate=eps)
    positive = positive[positive > 0]
    late = 1 / np.maximum(eps[..., np.newaxis] * positive**2, 1e-300)
    reach = np.minimum(last[..., np.newaxis], late)
    total = (np.log(np.maximum(reach, 1)) / positive).sum(axis=-1)
    return to_scalar(total)


@bound("passive")
def passive_sharp(
    gaps: ArrayLike,
    rate: Rate,
    weights: Weights,
    horizon: ArrayLike,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    rewards: str = "gaussian",
    sd: float = 1.0,
    best_mean: float | None = None,
    details: bool = False,
) -> Result:
    r"""Return the tightest lower bound that the paper's argument gives: a fixed point for each arm.

    Let n = E N_i(t) be the expected pulls of arm i, F = E F_i(t) the expected looks at arm i, and
    I(x) the divergence of one observation of arm i. Then

    .. math:: (n + F)\, I(x) \ge kl(1 - n/t,\, Q_i(t; x)) .

    The left side increases with n and the right side decreases with n. Hence n is at least the root
    n*(t, x), which is 0 if Q ≥ 1 or F I(x) ≥ log(1/Q). This argument needs neither P nor Δ_min nor
    the log 2 of the paper. Every t ≤ T and x > 0 gives a bound; the function returns the largest
    bound over a grid of (t, x) that is refined around its best point. This bound is not in the paper.

    Parameters
    ----------
    rewards
        "gaussian" or "bernoulli". The constants of UCB1 are valid for Bernoulli rewards (errata D5).
    sd
        The standard deviation of Gaussian rewards.
    best_mean
        The largest mean μ* in [0, 1], required for Bernoulli rewards. The mean of arm i is μ* - Δ_i.
    """
    s = check_setting(gaps, rate, weights, horizon)
    d = make_fixed_point(s.gaps, rewards, sd, best_mean, C, C_0)
    weight = s.weights[s.gaps > 0]
    n_pulls = np.zeros((*s.shape, len(d.own)))
    stages = np.zeros_like(n_pulls)
    for index, rate_at, last in iterate_settings(s):
        if last >= FIRST_STAGE and (d.max_x > 0).all():
            t, x = _find_best_point(d, rate_at, weight, last)
            n_looks = count_looks(rate_at, t) * weight
            stages[index], n_pulls[index] = t, _find_root(d, t, x, n_looks, 60)
    c = make_constraint(s.gaps, C, C_0)
    return sum_regret(c, n_pulls, stages, s.shape, details)


class FixedPoint(NamedTuple):
    """The coefficients of the fixed-point equation of `passive_sharp`."""

    gaps: FloatArray  # the gaps of all arms
    own: FloatArray  # the gaps Δ_i of the sub-optimal arms
    C: float
    C_0: float
    sd: float  # the standard deviation of Gaussian rewards
    best_mean: float | None  # the largest mean of Bernoulli rewards; None for Gaussian rewards
    max_x: FloatArray  # the largest x to try, for each sub-optimal arm


def make_fixed_point(
    gaps: FloatArray, rewards: str, sd: float, best_mean: float | None, C: float, C_0: float
) -> FixedPoint:
    """Check the arguments and return them as the coefficients of the fixed-point equation for n."""
    check_choice("rewards", rewards, "gaussian", "bernoulli")
    sd, C, C_0 = check_scale("sd", sd), check_scale("C", C), check_nonnegative("C_0", C_0)
    own = gaps[gaps > 0]
    if rewards == "gaussian":
        return FixedPoint(gaps, own, C, C_0, sd, None, 30 * own)
    condition = "at most 1 and at least the largest gap for Bernoulli rewards"
    best_mean = number(best_mean, "best_mean", condition)
    if not gaps.max() <= best_mean * (1 + 1e-12) <= 1 + 1e-12:
        raise invalid("best_mean", condition, best_mean)
    room = (1 - best_mean) * (1 - 1e-9)
    return FixedPoint(gaps, own, C, C_0, sd, best_mean, np.minimum(30 * own, room))


def compute_information(d: FixedPoint, x: FloatArray) -> FloatArray:
    """Return I(x), the divergence of one observation of arm i.

    The divergence is between the reward distributions of arm i before and after its mean is raised to
    x above the best mean.
    """
    step = x + d.own
    if d.best_mean is None:
        return (step / d.sd) ** 2 / 2
    mean = np.maximum(d.best_mean - d.own, 0)
    safe = np.where(mean > 0, mean, 1.0)
    own, other = mean * np.log1p(step / safe), (1 - mean) * np.log1p(-step / (1 - mean))
    return np.asarray(np.maximum(-own - other, 0))


def compute_log_inverse_q(d: FixedPoint, t: FloatArray, x: FloatArray) -> FloatArray:
    """Return log(1/Q_i(t; x)); `kibitz.bounds.lower` defines Q_i."""
    total, inverse = sum_raised(x, d.gaps, d.own), sum_inverse_raised(x, d.gaps, d.own)
    log_t = np.log(t)
    value: FloatArray = log_t + np.log(x) - np.log(d.C_0 * total + d.C * inverse * log_t)
    return value


def _find_root(
    d: FixedPoint, t: FloatArray, x: FloatArray, n_looks: FloatArray, n_steps: int
) -> FloatArray:
    """Return a lower bound on the root n*(t, x), by bisection; 0 where there is no root."""
    log_inverse_q = compute_log_inverse_q(d, t, x)
    information = compute_information(d, x)
    excess = log_inverse_q - n_looks * information
    useful = (excess > 0) & (information > 0)
    low = np.zeros(np.broadcast_shapes(excess.shape, t.shape))
    room = t * -np.expm1(-np.maximum(log_inverse_q, 0))
    high = np.where(useful, np.minimum(room, excess / np.where(useful, information, 1.0)), 0.0)
    for _ in range(n_steps):
        middle = (low + high) / 2
        holds = (middle + n_looks) * information <= compute_kl(middle / t, log_inverse_q)
        low = np.where(holds, middle, low)
        high = np.where(holds, high, middle)
    return np.where(useful, low, 0.0)


def _rate_point(d: FixedPoint, t: FloatArray, x: FloatArray, n_looks: FloatArray) -> FloatArray:
    """Return a rough value of n*(t, x) where it is positive.

    Where n*(t, x) is 0, return log(1/Q) - F I(x) ≤ 0, which leads the search to positive values.
    """
    lacking = compute_log_inverse_q(d, t, x) - n_looks * compute_information(d, x)
    return np.where(lacking > 0, _find_root(d, t, x, n_looks, 24), np.minimum(lacking, 0))


def _find_best_point(
    d: FixedPoint, rate: FloatArray | Schedule, weight: FloatArray, horizon: float
) -> tuple[FloatArray, FloatArray]:
    """Return for each arm the stage t ≤ T and the x with the largest n*(t, x)."""
    t_span = np.array([np.full_like(d.own, FIRST_STAGE), np.full_like(d.own, horizon)])
    x_span = np.array([np.minimum(d.own / 1000, d.max_x / 10), d.max_x])
    arm, neighbours = np.arange(len(d.own)), np.array([-1, 0, 1])[:, np.newaxis]
    for size in (33, *[9] * 9):
        t = np.rint(np.geomspace(t_span[0], t_span[-1], size))
        x = np.geomspace(x_span[0], x_span[-1], size)
        n_looks = count_looks(rate, t)[:, np.newaxis] * weight
        heights = _rate_point(d, t[:, np.newaxis], x[np.newaxis], n_looks)
        row, column = np.divmod(np.argmax(heights.reshape(size * size, -1), axis=0), size)
        t_span = t[np.clip(row + neighbours, 0, size - 1), arm]
        x_span = x[np.clip(column + neighbours, 0, size - 1), arm]
    return t[row, arm], x[column, arm]


def find_vacuous_rate(
    gaps: ArrayLike, weights: Weights, stage: FloatArray, *, C: float = C_UCB1, C_0: float = C_0_UCB1
) -> FloatArray:
    """Return the rate above which `passive_sharp` with Gaussian rewards is vacuous at stage t.

    This rate is the largest log(1/Q_i(t; x)) / (p_i t I(x)) over arms and over a grid of x. The rate
    is infinite if an arm with weight 0 needs observations. The result has the shape of `stage`.
    """
    delta = check_gaps(gaps)
    weight = check_weights(weights, delta)[delta > 0]
    d = make_fixed_point(delta, "gaussian", 1.0, None, C, C_0)
    rates = np.zeros(stage.shape)
    t = stage[..., np.newaxis]
    for x in np.geomspace(d.own / 20, d.own * 20, 60):
        needs = np.maximum(compute_log_inverse_q(d, t, x), 0) / compute_information(d, x)
        looks = np.broadcast_to(weight * t, needs.shape)
        none = np.where(needs > 0, np.inf, 0.0)
        ratio = np.divide(needs, looks, out=none, where=looks > 0)
        rates = np.maximum(rates, ratio.max(axis=-1, initial=0.0))
    return np.where(stage >= FIRST_STAGE, rates, 0.0)
