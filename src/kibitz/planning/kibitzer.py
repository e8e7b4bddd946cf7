r"""Predict the regret of kibitzer without simulation: a fluid approximation and a fitted correction.

First ignore the noise, as `kibitz.planning.fluid` does for UCB. Consider stage t, with F looks so
far. An arm i that is pulled at this stage has been observed n_i times, where

.. math:: n_i (\Delta_i + v)^2 = 2\ell\Bigl(1 + \frac{bt}{Kn_i + bF}\Bigr), \qquad
          \ell(x) = \log x - \log(1 + \log x), \quad b = 8,

and v is the exploration bonus in the index of the best arm. Let O_i be the number of observations
(pulls and looks) of arm i. A quarter of the looks is spread evenly over the arms. The other looks go
to the arms with the smallest :math:`O_i\Delta_i^2` (the IMED rule without its logarithm) and keep
these values equal. Looks replace pulls. Let B be the regret of this fluid approximation. B is too
small: by a tenth where looks are scarce, and by a factor of several where looks are plentiful. Where
looks are plentiful, the regret comes from the stages at which a worse arm happens to have the largest
average. Let arm 1 be the best arm, and :math:`\Phi` the standard normal distribution function. With
the observations O_i of the fluid, such stages cost

.. math:: M = \int \sum_i \Delta_i \Phi\bigl(-\Delta_i / \sqrt{1/O_i + 1/O_1}\bigr)\,dt .

M is too large, because the errors of different stages are not independent. The predicted regret R is

.. math:: \log R \approx \log B + \sum_k c_k \phi_k,

where the :math:`\phi_k` are the monomials up to degree 2 in three variables: :math:`\log(M/B)`,
:math:`\log K` and :math:`\log(\sum 1/\Delta_i / B)`. The coefficients c_k were fitted to simulations
of random settings (benchmarks/kibitzer_fit.py), and each variable is clipped to its range in these
settings. The accuracy was measured on other settings (benchmarks/fluid.py; `prediction.ACCURACY`).
The prediction is an approximation, not a bound.
"""

import numpy as np
from scipy.special import ndtr

from kibitz.planning.fluid import FloatArray

B = 8.0  # the default of the parameter b of `kibitz.kibitzer()`
N_STAGES = 96
SHARE_IN_TURN = 0.25  # the share of looks that go to the arms in turn
NEWTON_STEPS = 4  # each stage starts from the solution of the previous stage
MAX_CHUNK_SIZE = 1_000_000  # the largest size of an array, which limits the memory
MIN_LOG_ARGUMENT = 1e-280  # keeps logarithms finite

#: Coefficients of the polynomial, in the order of `polynomial_terms`.
COEFFICIENTS = (0.6374, 0.299, -0.19, 0.2848, -0.0098, -0.0075, 0.0431, 0.0103, 0.0014, 0.0362)
#: The range of each of the three variables in the settings to which the polynomial was fitted.
RANGES = ((-1.86, 7.41), (0.69, 3.4), (-2.91, 6.65))


def stage_grid(horizon: int, n_arms: int) -> FloatArray:
    """Return the stages at which the fluid is evaluated: log-spaced, from stage K to the horizon."""
    if horizon <= n_arms:
        return np.array([float(horizon)])
    return np.unique(np.geomspace(max(n_arms, 2), horizon, N_STAGES))


def predict_regret(
    gaps: FloatArray, counts: FloatArray, looks: FloatArray, stages: FloatArray
) -> FloatArray:
    """Return the predicted regret of kibitzer as an active observer, one number per row.

    Parameters
    ----------
    gaps
        The gap of each group of arms, as an array (row, group). The best arm's group comes first.
    counts
        The number of arms of each group.
    looks
        The expected number of looks up to each stage, as an array (row, stage).
    stages
        The stages at which the fluid is evaluated. The last stage is the horizon.
    """
    n_rows_per_chunk = max(1, int(MAX_CHUNK_SIZE / gaps.shape[1]))
    chunks = [
        _predict_chunk(
            gaps[k : k + n_rows_per_chunk], counts, looks[k : k + n_rows_per_chunk], stages
        )
        for k in range(0, len(gaps), n_rows_per_chunk)
    ]
    return np.concatenate(chunks)


def _predict_chunk(
    gaps: FloatArray, counts: FloatArray, looks: FloatArray, stages: FloatArray
) -> FloatArray:
    uniform_regret = stages[-1] * (counts * gaps).sum(axis=-1) / counts.sum()
    if len(stages) == 1:  # fewer stages than arms
        return np.asarray(uniform_regret)
    fluid_regret, mistake_regret, n_arms, inverse_gap_sum = summarize_fluid(
        gaps, counts, looks, stages
    )
    exponent = polynomial_terms(fluid_regret, mistake_regret, n_arms, inverse_gap_sum) @ np.array(
        COEFFICIENTS
    )
    return np.asarray(np.minimum(fluid_regret * np.exp(exponent), uniform_regret))


def summarize_fluid(
    gaps: FloatArray, counts: FloatArray, looks: FloatArray, stages: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return B, M, K and Σ 1/Δ_i for each row; the module docstring defines B and M."""
    fluid_pulls, mistaken_pulls = run_fluid(gaps, counts, looks, stages)
    is_suboptimal = gaps > 0
    inverse_gap_sum = (
        counts * np.where(is_suboptimal, 1 / np.where(is_suboptimal, gaps, 1.0), 0.0)
    ).sum(axis=-1)
    fluid_regret, mistake_regret = (
        (counts * gaps * pulls).sum(axis=-1) for pulls in (fluid_pulls, mistaken_pulls)
    )
    n_arms = np.full(len(gaps), counts.sum())
    return (
        np.maximum(fluid_regret, MIN_LOG_ARGUMENT),
        np.maximum(mistake_regret, MIN_LOG_ARGUMENT),
        n_arms,
        np.maximum(inverse_gap_sum, MIN_LOG_ARGUMENT),
    )


def polynomial_terms(
    fluid_regret: FloatArray,
    mistake_regret: FloatArray,
    n_arms: FloatArray,
    inverse_gap_sum: FloatArray,
) -> FloatArray:
    """Return the monomials φ_k of the polynomial, as an array (row, term)."""
    log_fluid_regret = np.log(fluid_regret)
    unclipped_variables = (
        np.log(mistake_regret) - log_fluid_regret,
        np.log(n_arms),
        np.log(inverse_gap_sum) - log_fluid_regret,
    )
    x = [np.clip(values, *limits) for values, limits in zip(unclipped_variables, RANGES, strict=True)]
    quadratic_terms = [x[i] * x[j] for i in range(3) for j in range(i, 3)]
    return np.stack([np.ones_like(x[0]), *x, *quadratic_terms], axis=-1)


def ell(x: FloatArray) -> FloatArray:
    """Return ℓ(x) = log x − log(1 + log x)."""
    log_x = np.log(x)
    return np.asarray(log_x - np.log1p(log_x))


def solve_count(
    d: FloatArray, stage: float, looks: FloatArray, n_arms: float, initial_n: FloatArray
) -> FloatArray:
    """Return the n that solves n d² = 2ℓ(1 + bt/(Kn + bF)), by Newton's method in log n.

    The module docstring defines the symbols; d is Δ_i + v.
    """
    u = np.log(initial_n)
    for _ in range(NEWTON_STEPS):
        n = np.exp(u)
        denominator = n_arms * n + B * looks
        x = 1 + B * stage / denominator
        log_x = np.log(x)
        goal = np.maximum(2 * (log_x - np.log1p(log_x)), 1e-300)
        # slope = −d log ℓ / d log n, with ℓ'(x) = log x / (1 + log x) / x
        slope = (
            2
            * log_x
            / (1 + log_x)
            / x
            * (B * stage / denominator)
            * (n_arms * n / denominator)
            / goal
        )
        u = u + (np.log(goal) - 2 * np.log(d) - u) / (1 + slope)
    return np.asarray(np.exp(u))


def run_fluid(
    gaps: FloatArray, counts: FloatArray, looks: FloatArray, stages: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return, for one arm of each group, the pulls without noise and the pulls by mistake.

    The pulls without noise come from the fluid approximation. A pull by mistake occurs if a worse arm
    happens to have the largest average.

    Parameters
    ----------
    gaps, counts, looks, stages
        As in `predict_regret`.
    """
    n_arms, is_best = counts.sum(), gaps == 0
    first_looks = looks[:, :1]
    n = np.ones(gaps.shape)
    pulls = np.broadcast_to(stages[0] / n_arms / (1 + first_looks / stages[0]), gaps.shape)
    n_looks, mistaken_pulls = np.zeros(gaps.shape), np.zeros(gaps.shape)
    last_arrived, last_stage, last_p_wrong = (
        np.zeros(first_looks.shape),
        stages[0],
        np.zeros(gaps.shape),
    )
    for k, t in enumerate(stages):
        n_arrived = looks[:, k : k + 1]
        n_new, last_arrived = n_arrived - last_arrived, n_arrived
        n_looks = n_looks + SHARE_IN_TURN * n_new / n_arms
        n_looks = n_looks + water_fill(gaps, counts, n_looks + pulls, (1 - SHARE_IN_TURN) * n_new)
        n_suboptimal = (counts * pulls * ~is_best).sum(axis=-1, keepdims=True)
        n_best = np.maximum((t - n_suboptimal) / counts[0], t / n_arms) + n_looks[:, :1]
        v = np.sqrt(2 * ell(1 + B * t / (n_arms * n_best + B * n_arrived)) / n_best)
        n = solve_count(gaps + v, t, n_arrived, n_arms, n)
        pulls = np.maximum(pulls, np.minimum(n - n_looks, t / n_arms))
        mean_noise = np.sqrt(1 / (n_looks + pulls) + 1 / n_best)
        p_wrong = np.where(is_best, 0.0, ndtr(-gaps / mean_noise))
        p_wrong = p_wrong / np.maximum((counts * p_wrong).sum(axis=-1, keepdims=True), 1.0)
        mistaken_pulls = mistaken_pulls + (t - last_stage) * (last_p_wrong + p_wrong) / 2
        last_p_wrong, last_stage = p_wrong, t
    return np.where(is_best, 0.0, pulls), mistaken_pulls


def water_fill(
    gaps: FloatArray, counts: FloatArray, n_observed: FloatArray, looks: FloatArray
) -> FloatArray:
    """Divide `looks` among the sub-optimal arms to raise the smallest O_iΔ_i² to a common level.

    Return the number of looks at one arm of each group.
    """
    is_suboptimal = gaps > 0
    value = np.where(is_suboptimal, n_observed * gaps**2, np.inf)
    capacity = np.where(is_suboptimal, counts / np.where(is_suboptimal, gaps, 1.0) ** 2, 0.0)
    order = np.argsort(value, axis=-1, kind="stable")
    heights = np.take_along_axis(value, order, -1)
    widths = np.cumsum(np.take_along_axis(capacity, order, -1), axis=-1)
    volumes = np.cumsum(
        np.take_along_axis(capacity * np.where(is_suboptimal, value, 0.0), order, -1), axis=-1
    )
    # if the looks go to the first j groups, the common level is
    # (looks + Σ capacity·value) / Σ capacity
    levels = (looks + volumes) / widths
    next_heights = np.concatenate([heights[:, 1:], np.full((len(heights), 1), np.inf)], axis=-1)
    j = np.argmax(levels <= next_heights, axis=-1)[:, np.newaxis]
    level = np.take_along_axis(levels, j, -1)
    rise = np.where(is_suboptimal, np.maximum(level - np.where(is_suboptimal, value, 0.0), 0.0), 0.0)
    return np.asarray(rise / np.where(is_suboptimal, gaps, 1.0) ** 2)
