"""Lower bounds for an active observer, who chooses the arm of each look.

What is proved, and for whom, is told in `kibitz.bounds.lower`; the linear programs are in
`kibitz.bounds.program`, the bounds that give all looks to the worst arms in `kibitz.bounds.split`.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from kibitz import _validation as validate
from kibitz.bounds.bound import (
    Answer,
    FloatArray,
    answer,
    check_choice,
    check_horizon,
    check_nonnegative,
    check_rate,
    check_scale,
    check_shapes,
    plain,
)
from kibitz.bounds.constraint import (
    C_0_UCB1,
    C_UCB1,
    FIRST_STAGE,
    Constraint,
    all_arms,
    make_constraint,
    needs_at,
)
from kibitz.bounds.passive import at_best_stages, single_stage
from kibitz.bounds.program import active_pulls, printed_pulls, solve_periods
from kibitz.bounds.stages import (
    Schedule,
    best_stage,
    best_stages,
    best_stages_of,
    check_setting,
    each_place,
    free_looks,
    log_stages,
    regret_of,
)


def active_fixed_stage(
    gaps: ArrayLike,
    rate: ArrayLike | Schedule,
    horizon: ArrayLike,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    form: str = "proved",
    details: bool = False,
) -> Answer:
    r"""Lemma 3: the linear program at the horizon alone.

    .. math:: E R_T \ge V(T) = \sum_{i \le k} \frac{h_i(T)}{2\Delta_i}
              - \Delta_k \Big(\epsilon T - \sum_{j>k} \frac{h_j(T)}{2\Delta_j^2}\Big)

    with arms in order of gap and k the first for which the bracket is ≥ 0. Forms: "proved"
    (clipped), "printed" (with the printed h_i and no clip, errata D11).

    Parameters
    ----------
    gaps
        One per arm, 0 for optimal arms, in any order; from 1e-50 to 1e50 where not 0.
    rate
        ε in [0, 1], one or many, or a schedule.
    horizon
        T, whole numbers from 1 to 2⁵³, one or many.
    C, C_0
        Of the sub-logarithmic algorithm; those of UCB1 if not given.
    form
        Which formula, see above and `kibitz.bounds`.
    details
        Whether to return a `Bound`: total, terms per arm, and stages.
    """
    check_choice("form", form, "proved", "printed")
    s = check_setting(gaps, rate, horizon)
    if form == "printed":
        c = make_constraint(s.gaps, C, C_0, "printed")
        n_pulls = printed_pulls(c, needs_at(c, s.horizon), free_looks(s.rate, s.horizon))
    else:
        c = make_constraint(s.gaps, C, C_0)
        n_pulls = active_pulls(c, s.rate, s.horizon)
    return regret_of(c, n_pulls, s.horizon[..., np.newaxis], s.shape, details)


def active_maximum(
    gaps: ArrayLike,
    rate: ArrayLike | Schedule,
    horizon: ArrayLike,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    variant: str = "clip",
    details: bool = False,
) -> Answer:
    r"""The linear program at its best stage: max over 3 ≤ t ≤ T of V(t), whole stages.

    It never exceeds the passive bound for any weights. Every stage is looked at up to
    T = 20000; above, a grid that is refined around its best stages.

    Parameters
    ----------
    gaps
        One per arm, 0 for optimal arms, in any order; from 1e-50 to 1e50 where not 0.
    rate
        ε in [0, 1], one or many, or a schedule.
    horizon
        T, whole numbers from 1 to 2⁵³, one or many.
    C, C_0
        Of the sub-logarithmic algorithm; those of UCB1 if not given.
    variant
        "clip" or "sharp", see `observation_constraint`; both are proved.
    details
        Whether to return a `Bound`: total, terms per arm, and stages.
    """
    check_choice("variant", variant, "clip", "sharp")
    s = check_setting(gaps, rate, horizon)
    c = make_constraint(s.gaps, C, C_0, variant)
    n_pulls = np.zeros((*s.shape, len(c.gaps)))
    stages = np.zeros((*s.shape, 1))
    for place, looks, last in each_place(s):
        if last >= FIRST_STAGE:
            t = _best_active_stage(c, looks, last)
            stages[place], n_pulls[place] = t, active_pulls(c, looks, np.asarray(t))
    stages = np.where((n_pulls > 0).any(axis=-1, keepdims=True), stages, 0.0)
    terms = all_arms(c, c.gaps * n_pulls)
    return answer(terms.sum(axis=-1), terms, stages[..., 0], details)


def _best_active_stage(c: Constraint, rate: FloatArray | Schedule, horizon: float) -> float:
    def value(t: FloatArray) -> FloatArray:
        v: FloatArray = (c.gaps * active_pulls(c, rate, t)).sum(axis=-1)
        return v

    return best_stage(value, horizon)


def active_alternative(
    gaps: ArrayLike,
    rate: ArrayLike | Schedule,
    horizon: ArrayLike,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    exact: bool = False,
    form: str = "proved",
    details: bool = False,
) -> Answer:
    r"""The alternative bound: as if every arm were seen at each free look (appendix A).

    The formulas of the passive observer with p_i = 1 for all i: those of `passive_theorem`, or
    with `exact` of `passive_maximum` (a schedule needs this). Better than the linear program
    when gaps are very different. Forms: "proved", "printed", "leading" ("proved" if `exact`).

    Parameters
    ----------
    gaps
        One per arm, 0 for optimal arms, in any order; from 1e-50 to 1e50 where not 0.
    rate
        ε in [0, 1], one or many, or a schedule.
    horizon
        T, whole numbers from 1 to 2⁵³, one or many.
    C, C_0
        Of the sub-logarithmic algorithm; those of UCB1 if not given.
    exact
        Whether to take every arm at its best stage.
    form
        Which formula, see above and `kibitz.bounds`.
    details
        Whether to return a `Bound`: total, terms per arm, and stages.
    """
    exact = validate.flag(exact, "exact")
    check_choice("form", form, *(("proved",) if exact else ("proved", "printed", "leading")))
    s = check_setting(gaps, rate, horizon, steady=not exact)
    c = make_constraint(s.gaps, C, C_0, "printed" if form == "printed" else "clip")
    every = np.ones(len(c.gaps))
    if exact or callable(s.rate):
        return at_best_stages(s, c, every, details)
    q = s.rate[..., np.newaxis] * every
    return single_stage(c, q, s.horizon[..., np.newaxis], 2.0, form, s.shape, details)


def active_equal_gaps(
    n_arms: int,
    gap: float,
    rate: ArrayLike,
    horizon: ArrayLike,
    *,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    form: str = "proved",
) -> float | FloatArray:
    r"""One best arm, all others worse by the same gap.

    .. math:: E R_T \ge \Big(\frac{(K-1) h(t)}{2\Delta} - \Delta \epsilon t\Big)_+, \qquad
              t = \min(T, \lceil (K-1)/(2\epsilon\Delta^2) \rceil)

    the linear program at one stage, better than Theorem 2. Forms: "proved";
    "printed", the limit (K-1)/Δ [log(1/ε) - log log(e/ε)] that the paper states (errata D12;
    infinite at ε = 0); "leading", the paper's max over k of (k-1)/Δ log((K-k)/(εK)), clipped.
    The last two are no bounds.

    Parameters
    ----------
    n_arms
        K ≥ 2, the best arm included.
    gap
        Δ > 0.
    rate
        ε in [0, 1], one or many.
    horizon
        T, whole numbers from 1 to 2⁵³, one or many.
    C, C_0
        Of the sub-logarithmic algorithm; those of UCB1 if not given.
    form
        Which formula, see above and `kibitz.bounds`.
    """
    check_choice("form", form, "proved", "printed", "leading")
    n_arms = validate.whole(n_arms, "n_arms", 2, 1_000_000)
    gap, C, C_0 = check_scale("gap", gap), check_scale("C", C), check_nonnegative("C_0", C_0)
    eps, last = check_rate(rate), check_horizon(horizon)
    shape = check_shapes(rate=eps, horizon=last)
    if form == "proved":
        c = _equal_constraint(n_arms, gap, C, C_0)
        turn = (n_arms - 1) / np.maximum(2 * eps * gap**2, 1e-300)
        t = np.minimum(last, np.maximum(np.ceil(turn), FIRST_STAGE))
        total = np.maximum(gap * ((n_arms - 1) * needs_at(c, t)[..., 0] - eps * t), 0)
    else:
        log_inverse = np.where(eps > 0, -np.log(np.maximum(eps, 1e-323)), math.inf)
        log_inverse = np.broadcast_to(log_inverse, shape)
        if form == "printed":
            total = (n_arms - 1) / gap * np.maximum(_less_loglog(log_inverse), 0)
        else:
            k = np.arange(2, n_arms)
            curve = (k - 1) / gap * (log_inverse[..., np.newaxis] + np.log((n_arms - k) / n_arms))
            total = np.max(curve, axis=-1, initial=0.0)
    return plain(total)


def _equal_constraint(n_arms: int, gap: float, C: float, C_0: float) -> Constraint:
    """The constraint of one of K - 1 arms of equal gap, without making a list of all of them."""
    one = np.array([gap])
    others = (C_0 * (2 * n_arms - 3) * one, C * (n_arms / 2) / one)  # Σ_{j≠i} of Δ + Δ_j, 1/(Δ + Δ_j)
    u = (C_0 * (n_arms - 1) * gap, C * (n_arms - 1) / gap)
    return Constraint(np.array([True]), one, one, u, one, others, 2 * one**2, "clip")


def _less_loglog(y: FloatArray) -> FloatArray:
    """log(1/ε) - log log(e/ε) as a function of log(1/ε) ≥ 0, which may be infinite."""
    finite = np.where(np.isfinite(y), y, 0.0)
    return np.where(np.isfinite(y), finite - np.log1p(finite), math.inf)


def active_multi_period(
    gaps: ArrayLike,
    rate: float | Schedule,
    horizon: int,
    *,
    stages: ArrayLike | None = None,
    C: float = C_UCB1,
    C_0: float = C_0_UCB1,
    variant: str = "clip",
    details: bool = False,
) -> Answer:
    r"""The linear program over many stages at once, which dominates the other active bounds.

    .. math:: \min \sum_i \Delta_i N_i \quad\text{with}\quad N_i \ge a_i(t_m) - F_i(t_m),\;
              F_i(t_{m+1}) \ge F_i(t_m),\; \sum_i F_i(t_m) \le \epsilon t_m

    Not in the paper. Solved by scipy's HiGHS.

    Parameters
    ----------
    gaps
        One per arm, 0 for optimal arms, in any order; from 1e-50 to 1e50 where not 0.
    rate, horizon
        One of each.
    stages
        The t_m; if not given, 40 on a logarithmic grid and those at which `active_maximum` and
        `active_alternative` are attained.
    C, C_0
        Of the sub-logarithmic algorithm; those of UCB1 if not given.
    variant
        "clip" or "sharp", see `observation_constraint`; both are proved.
    details
        Whether to return a `Bound`: total, Δ_i N_i per arm, and the stages used.
    """
    check_choice("variant", variant, "clip", "sharp")
    s = check_setting(gaps, rate, horizon)
    if s.shape:
        given = f"{validate.quoted(rate)} and {validate.quoted(horizon)}"
        raise ValueError(f"rate and horizon must be one of each, got {given}")
    c = make_constraint(s.gaps, C, C_0, variant)
    last = float(s.horizon)
    t = _periods(c, s.rate, last) if stages is None else np.unique(check_horizon(stages, "stages"))
    t = t[t <= last]
    needs = needs_at(c, t)
    n_pulls = np.zeros(len(c.gaps))
    busy = (needs > 0).any(axis=0)
    if busy.any():
        n_pulls[busy] = solve_periods(c.gaps[busy], needs[:, busy], free_looks(s.rate, t))
    terms = all_arms(c, c.gaps * n_pulls)
    return answer(terms.sum(), terms, t, details)


def _periods(c: Constraint, rate: FloatArray | Schedule, horizon: float) -> FloatArray:
    if horizon < FIRST_STAGE or not len(c.gaps):
        return np.array([horizon])
    every = np.ones(len(c.gaps))
    if callable(rate):
        alone = best_stages_of(rate, c, every, np.asarray(horizon))
    else:
        alone = best_stages(c, rate * every, np.asarray([horizon]))
    together = _best_active_stage(c, rate, horizon)
    return np.unique(np.concatenate((log_stages(FIRST_STAGE, horizon, 40), alone, [together])))
