r"""Predict the regret of UCB without simulation, by a fluid approximation.

**Fluid.** First ignore the noise. UCB with exploration constant c keeps the indices of all arms at a
common level. By stage t, arm i needs

.. math:: n_i(t) = \frac{c \log t}{(\Delta_i + v_t)^2}

observations, where :math:`v_t` is the distance of the level from the best mean. The level is such
that the pulls of all arms add up to t. Looks replace pulls. With :math:`F_i(t)` looks at arm i up to
stage t, the number of pulls of arm i is :math:`N_i(t) = \max_{s \le t}(n_i(s) - F_i(s))`, and at
least 1. A passive observer has :math:`F_i(t) = p_i \Phi(t)`, where :math:`\Phi(t)` is the expected
number of looks up to stage t. UCB1-Double looks at the runner-up. While several arms are pulled, the
look at a stage that pulls arm j goes to another arm with probability proportional to the observations
that this other arm still needs. Once only the best arm is pulled, all looks go to the other arms.
(The looks are then roughly proportional to :math:`1/\Delta_i^2`.)

**Noise.** The fluid approximation is up to 30 % too low once looks matter, because the maximum of a
noisy curve exceeds the maximum of its mean. Near its peak, :math:`n_i - F_i` behaves like a Brownian
motion in the number of observations, with scale :math:`2/d`, where :math:`d = \Delta_i + v_t`, and
with the fluid as its drift. (Each observation beyond the required number lowers the arm's margin by
d/2 and adds noise of scale 1.) Let :math:`\tau` be the distance from the peak, in observations. On
one side of the peak, a Brownian motion with drift :math:`-D(\tau)` has an expected maximum of
:math:`g = \kappa\sqrt{\tau_c}`, where :math:`\tau_c` solves :math:`D(\tau_c) = \sqrt{\tau_c}`. Here
:math:`\kappa` = 0.5 for a linear D and 0.79 for a parabolic D (the expected maximum is 0.996 for
:math:`D = \tau^2/2`; Janson, Louchard and Martin-Löf 2010). The maxima :math:`g_1` and :math:`g_2` of
the two sides combine as :math:`(g_1^3 + g_2^3)^{1/3}`, which is exact for parabolas (1.255). Without
looks, the passage of a random walk takes :math:`-1/d^2 + 1.17/d` observations more than its mean path
(curvature and overshoot). The term of the left side already contains :math:`2/d^2` of these
observations. Hence

.. math:: N_i \approx \text{fluid} + \frac{2}{d}(g_1^3 + g_2^3)^{1/3}
          - \frac{3}{d^2} + \frac{1.17}{d} .

This formula is an approximation, not a bound. Its accuracy was measured by simulation
(benchmarks/fluid.py; `prediction.ACCURACY`). Rewards have variance 1. For standard deviation s,
divide the gaps by s and multiply the regret by s.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

N_STAGES = 240
NEWTON_STEPS = 7
MAX_CHUNK_SIZE = 1_500_000  # the largest size of an array, which limits the memory


class Cases(NamedTuple):
    """The settings to predict, one per row. Arms of equal gap form a group.

    The comments name the axes of each array.
    """

    gaps: FloatArray  # row, group; the first group holds the best arms
    n_arms: FloatArray  # group: the number of arms in the group
    weights: FloatArray  # row, group: the weight of one arm; unused for an active observer
    active: NDArray[np.bool_]  # row: whether the observer is active
    looks: FloatArray  # row, stage: the expected number of looks up to the stage
    steady: NDArray[np.bool_]  # row: whether looks arrive at a constant rate


def stage_grid(horizon: int, n_arms: int) -> FloatArray:
    """Return the stages at which the fluid is evaluated: log-spaced, from stage K to the horizon."""
    if horizon <= n_arms:
        return np.array([float(horizon)])
    return np.unique(np.geomspace(max(n_arms, 2), horizon, N_STAGES))  # at stage 1, log t = 0


def predict_pulls(cases: Cases, stages: FloatArray, exploration: float = 6.0) -> FloatArray:
    """Return the predicted pulls of one arm of each group up to the last stage.

    The result is an array (row, group).
    """
    n_rows, n_groups = cases.gaps.shape
    horizon, n_arms = stages[-1], cases.n_arms.sum()
    if horizon <= n_arms:  # each arm is pulled at most once, in any order
        return np.full(cases.gaps.shape, horizon / n_arms)
    n_rows_per_chunk = max(1, int(MAX_CHUNK_SIZE / (len(stages) * n_groups)))
    return np.concatenate(
        [
            _predict_chunk(
                _select_rows(cases, slice(first_row, first_row + n_rows_per_chunk)),
                stages,
                exploration,
            )
            for first_row in range(0, n_rows, n_rows_per_chunk)
        ]
    )


def _select_rows(cases: Cases, row_slice: slice) -> Cases:
    return Cases(
        cases.gaps[row_slice], cases.n_arms, cases.weights[row_slice], cases.active[row_slice],
        cases.looks[row_slice], cases.steady[row_slice],
    )  # fmt: skip


def _predict_chunk(cases: Cases, stages: FloatArray, exploration: float) -> FloatArray:
    shape = (len(stages), *cases.gaps.shape)
    needs, looks_by_stage, levels = np.empty(shape), np.empty(shape), np.empty(shape)
    pulls, looks = np.ones(cases.gaps.shape), np.zeros(cases.gaps.shape)
    n_arrived = np.zeros(len(cases.gaps))
    for k, t in enumerate(stages):
        goal = exploration * np.log(t)
        n_new_looks = (cases.looks[:, k] - n_arrived)[:, np.newaxis]
        n_arrived = cases.looks[:, k]
        passive_looks = cases.weights * n_arrived[:, np.newaxis]
        if cases.active.any():
            v = _solve_level(cases, pulls, looks, goal, t)
            shares = _runner_up_shares(cases, goal / (cases.gaps + v) ** 2 - looks - pulls)
            looks = looks + n_new_looks * shares
        looks = np.where(cases.active[:, np.newaxis], looks, passive_looks)
        v = _solve_level(cases, pulls, looks, goal, t)
        levels[k] = cases.gaps + v
        needs[k], looks_by_stage[k] = goal / levels[k] ** 2, looks
        pulls = np.maximum(pulls, needs[k] - looks)
    return _add_noise(cases, needs, looks_by_stage, levels)


def _solve_level(
    cases: Cases, pulls: FloatArray, looks: FloatArray, goal: float, stage: float
) -> FloatArray:
    """Return the level v at which the pulls of all arms add up to the stage, as an array (row, 1).

    The total number of pulls is a convex, decreasing function of v. Newton's method that starts at a
    smaller v therefore never overshoots.
    """
    best_looks = (cases.n_arms * looks * (cases.gaps == 0)).sum(axis=-1, keepdims=True)
    v: FloatArray = np.sqrt(goal / (stage + best_looks))
    for _ in range(NEWTON_STEPS):
        needs = goal / (cases.gaps + v) ** 2
        is_pulled = needs - looks > pulls
        total = (cases.n_arms * np.where(is_pulled, needs - looks, pulls)).sum(axis=-1, keepdims=True)
        slope = (cases.n_arms * np.where(is_pulled, 2 * needs / (cases.gaps + v), 0.0)).sum(
            axis=-1, keepdims=True
        )
        v = v + np.where(slope > 0, np.maximum(total - stage, 0) / np.maximum(slope, 1e-300), 0.0)
    return v


def _runner_up_shares(cases: Cases, needs: FloatArray) -> FloatArray:
    """Return the share of UCB1-Double's looks that one arm of each group gets.

    The result is an array (row, group). `needs` holds the number of observations that one arm of each
    group still needs.
    """
    is_best = cases.gaps == 0
    needs = np.maximum(needs, 0)
    total = (cases.n_arms * needs).sum(axis=-1, keepdims=True)
    pull_shares = needs / np.maximum(total, 1e-300)
    odds = pull_shares / np.maximum(1 - pull_shares, 1e-9)
    shares = pull_shares * ((cases.n_arms * odds).sum(axis=-1, keepdims=True) - odds)
    inverse_squares = np.where(is_best, 0.0, 1 / np.where(is_best, 1.0, cases.gaps) ** 2)
    is_idle = (cases.n_arms * needs * ~is_best).sum(axis=-1, keepdims=True) <= 0
    shares = np.where(is_idle, inverse_squares, shares)
    return np.asarray(
        shares / np.maximum((cases.n_arms * shares).sum(axis=-1, keepdims=True), 1e-300)
    )


def _add_noise(cases: Cases, needs: FloatArray, looks: FloatArray, levels: FloatArray) -> FloatArray:
    """Return the maximum over stages of needs minus looks, corrected for noise."""
    curve = needs - looks
    peak_index = np.argmax(curve, axis=0)[np.newaxis]
    peak_height = np.take_along_axis(curve, peak_index, 0)
    d = np.take_along_axis(levels, peak_index, 0)
    n_observed = np.maximum(np.maximum.accumulate(curve, axis=0), 1.0) + looks
    distance = np.sqrt(np.abs(n_observed - np.take_along_axis(n_observed, peak_index, 0)))
    reach = np.where((peak_height - curve) * d / 2 <= distance, distance, 0.0)
    is_later = np.arange(len(needs))[:, np.newaxis, np.newaxis] > peak_index
    right_maximum = np.where(cases.steady, 0.79, 0.5)[:, np.newaxis] * np.where(
        is_later, reach, 0.0
    ).max(axis=0)
    left_maximum = 0.5 * np.where(is_later, 0.0, reach).max(axis=0)
    peak_height, d = peak_height[0], d[0]
    noise = 2 / d * np.cbrt(left_maximum**3 + right_maximum**3) - 3 / d**2 + 1.17 / d
    return np.asarray(np.where(cases.gaps > 0, np.maximum(peak_height + noise, 1.0), 0.0))
