"""Lower bounds for a passive observer, whose looks fall on arms drawn by the environment.

What is proved, and for whom, is told in `kibitz.bounds.lower`; the tightest bound is in
`kibitz.bounds.sharp`.
"""

import numpy as np
from numpy.typing import ArrayLike

from kibitz.bounds.bound import (
    Answer,
    FloatArray,
    Weights,
    check_choice,
    check_gaps,
    check_horizon,
    check_rate,
    check_shapes,
    plain,
)
from kibitz.bounds.constraint import (
    C_0_UCB1,
    C_UCB1,
    FIRST_STAGE,
    Constraint,
    h_at,
    make_constraint,
    needs_at,
)
from kibitz.bounds.stages import (
    Schedule,
    Setting,
    best_stages,
    best_stages_of,
    check_setting,
    free_looks,
    regret_of,
)


def passive_fixed_stage(
    gaps: ArrayLike,
    rate: ArrayLike | Schedule,
    horizon: ArrayLike,
    weights: Weights = None,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    form: str = "proved",
    details: bool = False,
) -> Answer:
    r"""Lemma 2: the constraint at the horizon alone.

    .. math:: E R_T \ge \sum_i \max\{0, \frac{h_i(T)}{2\Delta_i} - \epsilon p_i T \Delta_i\}

    It falls back to 0 for large T. Forms: "proved", "printed" (with the printed h_i).

    Parameters
    ----------
    gaps
        One per arm, 0 for optimal arms, in any order.
    rate
        ε in [0, 1], one or many, or a schedule.
    horizon
        T, whole numbers from 1 on, one or many.
    weights
        p, one per arm, of sum at most 1; uniform over all arms if not given.
    C, C_0
        Of the sub-logarithmic algorithm; those of UCB1 if not given.
    form, details
        See `kibitz.bounds`.
    """
    check_choice("form", form, "proved", "printed")
    s = check_setting(gaps, rate, horizon, weights)
    c = make_constraint(s.gaps, C, C_0, "printed" if form == "printed" else "clip")
    free = free_looks(s.rate, s.horizon)[..., np.newaxis] * s.weights[c.suboptimal]
    n_pulls = np.maximum(needs_at(c, s.horizon) - free, 0)
    return regret_of(c, n_pulls, s.horizon[..., np.newaxis], s.shape, details)


def passive_theorem(
    gaps: ArrayLike,
    rate: ArrayLike,
    horizon: ArrayLike,
    weights: Weights = None,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    text: str = "main",
    form: str = "proved",
    details: bool = False,
) -> Answer:
    r"""Theorem 1: the constraint of arm i at stage t*_i = 1/(2 ε p_i Δ_i²) or T.

    .. math:: E R_T \ge \sum_i \frac{(h_i(t) - 2 \epsilon p_i \Delta_i^2 t)_+}{2 \Delta_i},
              \qquad t = \min(T, \lceil t^*_i \rceil)

    so that about h_i(t*_i) - 1 remains for T ≥ t*_i. Stages are whole numbers: the printed
    theorem takes t*_i as it is, which is more than is proved by at most Δ_i ε p_i (errata D43).

    Forms: "proved"; "printed" (literal h_i, no clip; an arm with t*_i ≤ 1, for which the printed
    formula is undefined, counts 0); "leading" (only log(t Δ_i/(2 C S_i)), clipped: no bound).

    Parameters
    ----------
    gaps
        One per arm, 0 for optimal arms, in any order; from 1e-50 to 1e50 where not 0.
    rate
        ε in [0, 1], one or many.
    horizon
        T, whole numbers from 1 to 2⁵³, one or many.
    weights
        p, one per arm, of sum at most 1, or "uniform" (if not given), "optimal", "suboptimal".
    C, C_0
        Of the sub-logarithmic algorithm; those of UCB1 if not given.
    text
        "main", or "appendix" with t*_i = 1/(4 ε p_i Δ_i²) and -1/2 in place of -1. Both are
        valid (errata D8); "main" is the better one for large t*_i.
    form
        Which formula, see above and `kibitz.bounds`.
    details
        Whether to return a `Bound`: total, terms per arm, and stages.
    """
    check_choice("form", form, "proved", "printed", "leading")
    check_choice("text", text, "main", "appendix")
    s = check_setting(gaps, rate, horizon, weights, steady=True)
    c = make_constraint(s.gaps, C, C_0, "printed" if form == "printed" else "clip")
    q = check_rate(rate)[..., np.newaxis] * s.weights[c.suboptimal]
    factor = 2.0 if text == "main" else 4.0
    return single_stage(c, q, s.horizon[..., np.newaxis], factor, form, s.shape, details)


def single_stage(
    c: Constraint,
    q: FloatArray,
    horizon: FloatArray,
    factor: float,
    form: str,
    shape: tuple[int, ...],
    details: bool,
) -> Answer:
    """The passive constraints with q_i = ε p_i at stage min(T, 1/(factor q_i Δ_i²))."""
    turn = 1 / np.maximum(factor * q * c.gaps**2, 1e-300)  # q = 0: after every horizon
    if form == "proved":
        t = np.minimum(horizon, np.maximum(np.ceil(turn), FIRST_STAGE))
        n_pulls = np.maximum(h_at(c, t) / c.information - q * t, 0)
    elif form == "printed":
        t = np.minimum(horizon, np.where(turn > 1, turn, 2.0))
        n_pulls = np.where(turn > 1, h_at(c, t) / c.information - q * t, 0.0)
    else:
        t = np.minimum(horizon, turn)
        n_pulls = np.log(np.maximum(t * c.x / (2 * c.v[1]), 1)) / c.information
    return regret_of(c, n_pulls, t, shape, details)


def passive_maximum(
    gaps: ArrayLike,
    rate: ArrayLike | Schedule,
    horizon: ArrayLike,
    weights: Weights = None,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    variant: str = "clip",
    details: bool = False,
) -> Answer:
    r"""The best that the constraint gives: each arm at its own best stage (appendix A).

    .. math:: E R_T \ge \sum_i \Delta_i
              \max\{0, \max_{3 \le t \le T} (a_i(t) - \epsilon p_i t)\}

    over whole stages, exactly; for a schedule above 20000 stages, on a grid that is refined
    around its best stages (a valid bound, rarely a smaller one).

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
    variant
        "clip" or "sharp", see `observation_constraint`; both are proved.
    details
        Whether to return a `Bound`: total, terms per arm, and stages.
    """
    check_choice("variant", variant, "clip", "sharp")
    s = check_setting(gaps, rate, horizon, weights)
    c = make_constraint(s.gaps, C, C_0, variant)
    return at_best_stages(s, c, s.weights[c.suboptimal], details)


def at_best_stages(s: Setting, c: Constraint, weight: FloatArray, details: bool) -> Answer:
    """The passive constraints, each arm at its own best stage."""
    if callable(s.rate):
        t = best_stages_of(s.rate, c, weight, s.horizon)
        free = free_looks(s.rate, t) * weight
    else:
        q = s.rate[..., np.newaxis] * weight
        t = best_stages(c, q, s.horizon[..., np.newaxis])
        free = q * t
    return regret_of(c, np.maximum(h_at(c, t) / c.information - free, 0), t, s.shape, details)


def reference_curve(gaps: ArrayLike, rate: ArrayLike, horizon: ArrayLike) -> float | FloatArray:
    r"""The curve that the paper's experiments call "the function f" and do not define.

    .. math:: \sum_{\Delta_i > 0} \frac{1}{\Delta_i} \log_+ \min\{T, 1/(\epsilon\Delta_i^2)\}

    No bound of any kind: the shape that the regret should have in ε and T (errata D45).

    Parameters
    ----------
    gaps
        One per arm, 0 for optimal arms, in any order; from 1e-50 to 1e50 where not 0.
    rate
        ε in [0, 1], one or many.
    horizon
        T, whole numbers from 1 to 2⁵³, one or many.
    """
    positive, eps, last = check_gaps(gaps), check_rate(rate), check_horizon(horizon)
    check_shapes(rate=eps, horizon=last)
    positive = positive[positive > 0]
    late = 1 / np.maximum(eps[..., np.newaxis] * positive**2, 1e-300)
    reach = np.minimum(last[..., np.newaxis], late)
    total = (np.log(np.maximum(reach, 1)) / positive).sum(axis=-1)
    return plain(total)
