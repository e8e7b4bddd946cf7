"""Lower bounds for a passive observer, for which the environment draws the arm of each look.

The argument is explained in `kibitz.bounds.lower`. The tightest bound is `passive_sharp`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from kibitz.bounds._bound import Result, bound, to_scalar
from kibitz.bounds._checks import (
    FloatArray,
    Rate,
    Schedule,
    Setting,
    Weights,
    check_best_mean,
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
    setting = check_setting(gaps, rate, weights, horizon)
    constraint = make_constraint(setting.gaps, C, C_0, "printed" if form == "printed" else "clip")
    n_looks = (
        count_looks(setting.rate, setting.horizon)[..., np.newaxis]
        * setting.weights[constraint.suboptimal]
    )
    n_pulls = np.maximum(compute_needs(constraint, setting.horizon) - n_looks, 0)
    return sum_regret(constraint, n_pulls, setting.horizon[..., np.newaxis], setting.shape, details)


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
    setting = check_setting(gaps, rate, weights, horizon, reject_schedule=True)
    constraint = make_constraint(setting.gaps, C, C_0, "printed" if form == "printed" else "clip")
    look_rates = check_rate(rate)[..., np.newaxis] * setting.weights[constraint.suboptimal]
    factor = 2.0 if text == "main" else 4.0
    return evaluate_single_stage(
        constraint, look_rates, setting.horizon[..., np.newaxis], factor, form, setting.shape, details
    )


def evaluate_single_stage(
    constraint: Constraint,
    look_rates: FloatArray,
    horizon: FloatArray,
    factor: float,
    form: str,
    shape: tuple[int, ...],
    details: bool,
) -> Result:
    """Return the bound that uses the constraint of arm i at stage min(T, 1/(factor q_i Δ_i²)).

    `look_rates` holds q_i = ε p_i, the rate of looks at arm i.
    """
    turning_stage = 1 / np.maximum(
        factor * look_rates * constraint.gaps**2, 1e-300
    )  # beyond every horizon if q = 0
    if form == "proved":
        t = np.minimum(horizon, np.maximum(np.ceil(turning_stage), FIRST_STAGE))
        n_pulls = np.maximum(compute_h(constraint, t) / constraint.information - look_rates * t, 0)
    elif form == "printed":
        t = np.minimum(horizon, np.where(turning_stage > 1, turning_stage, 2.0))
        n_pulls = np.where(
            turning_stage > 1, compute_h(constraint, t) / constraint.information - look_rates * t, 0.0
        )
    else:
        t = np.minimum(horizon, turning_stage)
        n_pulls = (
            np.log(np.maximum(t * constraint.x / (2 * constraint.v[1]), 1)) / constraint.information
        )
    return sum_regret(constraint, n_pulls, t, shape, details)


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
    grid of stages. This bound is valid, and rarely smaller than the bound with the exact maximum.
    """
    check_choice("variant", variant, "clip", "sharp")
    setting = check_setting(gaps, rate, weights, horizon)
    constraint = make_constraint(setting.gaps, C, C_0, variant)
    return evaluate_best_stages(setting, constraint, setting.weights[constraint.suboptimal], details)


def evaluate_best_stages(
    setting: Setting, constraint: Constraint, arm_weights: FloatArray, details: bool
) -> Result:
    """Return the bound of `passive_maximum`; `arm_weights` holds the weights of sub-optimal arms."""
    if callable(setting.rate):
        t = find_best_stages_scheduled(setting.rate, constraint, arm_weights, setting.horizon)
        n_looks = count_looks(setting.rate, t) * arm_weights
    else:
        look_rates = setting.rate[..., np.newaxis] * arm_weights
        t = find_best_stages(constraint, look_rates, setting.horizon[..., np.newaxis])
        n_looks = look_rates * t
    return sum_regret(
        constraint,
        np.maximum(compute_h(constraint, t) / constraint.information - n_looks, 0),
        t,
        setting.shape,
        details,
    )


@bound()
def reference_curve(gaps: ArrayLike, rate: ArrayLike, horizon: ArrayLike) -> float | FloatArray:
    r"""Return the curve that the paper's experiments call "the function f" without defining it.

    .. math:: \sum_{\Delta_i > 0} \frac{1}{\Delta_i} \log_+ \min\{T, 1/(\epsilon\Delta_i^2)\}

    The curve shows how the regret should depend on ε and T. The curve is not a bound (errata D45).
    """
    suboptimal_gaps, eps = check_gaps(gaps), check_rate(rate)
    horizons = check_horizon(horizon, rate=eps)
    suboptimal_gaps = suboptimal_gaps[suboptimal_gaps > 0]
    turning_stages = 1 / np.maximum(eps[..., np.newaxis] * suboptimal_gaps**2, 1e-300)
    reached_stages = np.minimum(horizons[..., np.newaxis], turning_stages)
    total = (np.log(np.maximum(reached_stages, 1)) / suboptimal_gaps).sum(axis=-1)
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
    setting = check_setting(gaps, rate, weights, horizon)
    equation = make_fixed_point(setting.gaps, rewards, sd, best_mean, C, C_0)
    arm_weights = setting.weights[setting.gaps > 0]
    n_pulls = np.zeros((*setting.shape, len(equation.own_gaps)))
    stages = np.zeros_like(n_pulls)
    for index, rate_value, horizon_value in iterate_settings(setting):
        if horizon_value >= FIRST_STAGE and (equation.max_x > 0).all():
            t, x = _find_best_point(equation, rate_value, arm_weights, horizon_value)
            n_looks = count_looks(rate_value, t) * arm_weights
            stages[index], n_pulls[index] = t, _find_root(equation, t, x, n_looks, 60)
    constraint = make_constraint(setting.gaps, C, C_0)
    return sum_regret(constraint, n_pulls, stages, setting.shape, details)


class FixedPoint(NamedTuple):
    """The coefficients of the fixed-point equation of `passive_sharp`."""

    gaps: FloatArray  # the gaps of all arms
    own_gaps: FloatArray  # the gaps Δ_i of the sub-optimal arms
    C: float
    C_0: float
    sd: float  # the standard deviation of Gaussian rewards
    best_mean: float | None  # the largest mean of Bernoulli rewards; None for Gaussian rewards
    max_x: FloatArray  # the largest x to try, for each sub-optimal arm


def make_fixed_point(
    gaps: FloatArray, rewards: str, sd: float, best_mean: float | None, C: float, C_0: float
) -> FixedPoint:
    """Check the arguments; return the coefficients of the fixed-point equation of `passive_sharp`."""
    check_choice("rewards", rewards, "gaussian", "bernoulli")
    sd, C, C_0 = check_scale("sd", sd), check_scale("C", C), check_nonnegative("C_0", C_0)
    own_gaps = gaps[gaps > 0]
    if rewards == "gaussian":
        return FixedPoint(gaps, own_gaps, C, C_0, sd, None, 30 * own_gaps)
    best_mean = check_best_mean(best_mean, gaps)
    max_raise = (1 - best_mean) * (1 - 1e-9)
    return FixedPoint(gaps, own_gaps, C, C_0, sd, best_mean, np.minimum(30 * own_gaps, max_raise))


def compute_information(equation: FixedPoint, x: FloatArray) -> FloatArray:
    """Return I(x), the divergence of one observation of arm i.

    The divergence is between the reward distributions of arm i before and after its mean is raised to
    x above the best mean.
    """
    raise_height = x + equation.own_gaps
    if equation.best_mean is None:
        return (raise_height / equation.sd) ** 2 / 2
    mean = np.maximum(equation.best_mean - equation.own_gaps, 0)
    safe_mean = np.where(mean > 0, mean, 1.0)
    success_term, failure_term = (
        mean * np.log1p(raise_height / safe_mean),
        (1 - mean) * np.log1p(-raise_height / (1 - mean)),
    )
    return np.asarray(np.maximum(-success_term - failure_term, 0))


def compute_log_inverse_q(equation: FixedPoint, t: FloatArray, x: FloatArray) -> FloatArray:
    """Return log(1/Q_i) at stage t for the raise x; `kibitz.bounds.lower` defines Q_i and x."""
    total, inverse_total = (
        sum_raised(x, equation.gaps, equation.own_gaps),
        sum_inverse_raised(x, equation.gaps, equation.own_gaps),
    )
    log_t = np.log(t)
    value: FloatArray = (
        log_t + np.log(x) - np.log(equation.C_0 * total + equation.C * inverse_total * log_t)
    )
    return value


def _find_root(
    equation: FixedPoint, t: FloatArray, x: FloatArray, n_looks: FloatArray, n_steps: int
) -> FloatArray:
    """Return a lower bound on the root n*(t, x) of `passive_sharp`; 0 where there is no root.

    Bisection with `n_steps` steps finds the root.
    """
    log_inverse_q = compute_log_inverse_q(equation, t, x)
    information = compute_information(equation, x)
    excess = log_inverse_q - n_looks * information
    has_root = (excess > 0) & (information > 0)
    low = np.zeros(np.broadcast_shapes(excess.shape, t.shape))
    max_root = t * -np.expm1(-np.maximum(log_inverse_q, 0))
    high = np.where(
        has_root, np.minimum(max_root, excess / np.where(has_root, information, 1.0)), 0.0
    )
    for _ in range(n_steps):
        middle = (low + high) / 2
        is_below_root = (middle + n_looks) * information <= compute_kl(middle / t, log_inverse_q)
        low = np.where(is_below_root, middle, low)
        high = np.where(is_below_root, high, middle)
    return np.where(has_root, low, 0.0)


def _score_point(
    equation: FixedPoint, t: FloatArray, x: FloatArray, n_looks: FloatArray
) -> FloatArray:
    """Return a rough value of n*(t, x) where it is positive.

    Where n*(t, x) is 0, return log(1/Q) - F I(x) ≤ 0, which leads the search to positive values.
    """
    missing_divergence = compute_log_inverse_q(equation, t, x) - n_looks * compute_information(
        equation, x
    )
    return np.where(
        missing_divergence > 0,
        _find_root(equation, t, x, n_looks, 24),
        np.minimum(missing_divergence, 0),
    )


def _find_best_point(
    equation: FixedPoint, rate: FloatArray | Schedule, arm_weights: FloatArray, horizon: float
) -> tuple[FloatArray, FloatArray]:
    """Return for each arm the stage t ≤ T and the raise x with the largest root n*(t, x)."""
    t_span = np.array(
        [np.full_like(equation.own_gaps, FIRST_STAGE), np.full_like(equation.own_gaps, horizon)]
    )
    x_span = np.array([np.minimum(equation.own_gaps / 1000, equation.max_x / 10), equation.max_x])
    arms, neighbour_offsets = np.arange(len(equation.own_gaps)), np.array([-1, 0, 1])[:, np.newaxis]
    for size in (33, *[9] * 9):
        t = np.rint(np.geomspace(t_span[0], t_span[-1], size))
        x = np.geomspace(x_span[0], x_span[-1], size)
        n_looks = count_looks(rate, t)[:, np.newaxis] * arm_weights
        scores = _score_point(equation, t[:, np.newaxis], x[np.newaxis], n_looks)
        row, column = np.divmod(np.argmax(scores.reshape(size * size, -1), axis=0), size)
        t_span = t[np.clip(row + neighbour_offsets, 0, size - 1), arms]
        x_span = x[np.clip(column + neighbour_offsets, 0, size - 1), arms]
    return t[row, arms], x[column, arms]


def find_vacuous_rate(
    gaps: ArrayLike, weights: Weights, stage: FloatArray, *, C: float = C_UCB1, C_0: float = C_0_UCB1
) -> FloatArray:
    """Return the rate above which `passive_sharp` with Gaussian rewards is vacuous at stage t.

    This rate is the largest log(1/Q_i(t; x)) / (p_i t I(x)) over arms and over a grid of x. The rate
    is infinite if an arm with weight 0 needs observations. The result has the shape of `stage`.
    """
    delta = check_gaps(gaps)
    arm_weights = check_weights(weights, delta)[delta > 0]
    equation = make_fixed_point(delta, "gaussian", 1.0, None, C, C_0)
    rates = np.zeros(stage.shape)
    t = stage[..., np.newaxis]
    for x in np.geomspace(equation.own_gaps / 20, equation.own_gaps * 20, 60):
        required = np.maximum(compute_log_inverse_q(equation, t, x), 0) / compute_information(
            equation, x
        )
        looks = np.broadcast_to(arm_weights * t, required.shape)
        ratio_without_looks = np.where(required > 0, np.inf, 0.0)
        ratio = np.divide(required, looks, out=ratio_without_looks, where=looks > 0)
        rates = np.maximum(rates, ratio.max(axis=-1, initial=0.0))
    return np.where(stage >= FIRST_STAGE, rates, 0.0)
