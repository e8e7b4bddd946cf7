r"""What UCB's regret will be, predicted without playing.

Take the noise away. UCB keeps the indices of all arms at one level, so that at stage t arm i has
been observed

.. math:: n_i(t) = \frac{c \log t}{(\Delta_i + v_t)^2}

times, where :math:`v_t` is how far the level is above the best mean; pulls add up to t. What looks
bring need not be pulled: :math:`N_i(t) = \max_{s \le t}(n_i(s) - F_i(s))`, at least 1. A passive
observer's looks are :math:`F_i = p_i \Phi(t)`, with :math:`\Phi` their expected number up to t.
UCB1-Double looks at the runner-up: while arms are pulled in turn, the look at a stage at which arm j
is pulled goes to each other arm in proportion to what it needs at that time; when only the best arm
is pulled, all looks go to the others. (So its looks fall about as :math:`1/\Delta_i^2`.)

This *fluid* is too low once looks matter, by up to 30 %: the largest of a noisy curve is larger than
that of its mean. Near its peak, :math:`n_i - F_i` moves as a Brownian motion in the number of
observations, of scale :math:`2/d`, :math:`d = \Delta_i + v`, with the fluid as its drift. (An
observation more than needed lowers the arm's margin by d/2 and shakes it by 1.) The mean of the
largest of a Brownian motion that is pulled down by D(\tau) to one side is
:math:`\kappa\sqrt{\tau_c}`, with :math:`D(\tau_c) = \sqrt{\tau_c}` and :math:`\kappa` = 0.5 for a
linear and 0.79 for a parabolic D (0.996 for :math:`\tau^2/2`; Janson, Louchard and Martin-Löf
2010); the two sides combine as :math:`(g_1^3 + g_2^3)^{1/3}`, which is exact for parabolas (1.255).
Without looks, the passage of a random walk takes :math:`-1/d^2 + 1.17/d` observations more than its
mean path (curvature and overshoot), of which the left side has :math:`2/d^2` already. So

.. math:: N_i \approx \text{fluid} + \frac{2}{d}(g_1^3 + g_2^3)^{1/3}
          - \frac{3}{d^2} + \frac{1.17}{d} .

No bound of any kind. How accurate it is was measured (benchmarks/fluid.py; `prediction.ACCURACY`).
Rewards have variance 1; for standard deviation s divide gaps by s and multiply regret by s.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

N_STAGES = 240
NEWTON_STEPS = 7
ROOM = 1_500_000  # numbers in an array: rows are taken in chunks that keep within


class Cases(NamedTuple):
    """Settings to predict, one to a row; arms of equal gap are taken together as a group."""

    gaps: FloatArray  # row, group; the first group is the best arms'
    n_arms: FloatArray  # arms of each group
    weights: FloatArray  # row, group: of one arm; not used where active
    active: NDArray[np.bool_]  # row
    looks: FloatArray  # row, stage: how many are expected up to a stage
    steady: NDArray[np.bool_]  # row: looks come at a steady rate


def stages_up_to(horizon: int, n_arms: int) -> FloatArray:
    """The stages at which the fluid is looked at, from the first pulls on."""
    if horizon <= n_arms:
        return np.array([float(horizon)])
    return np.unique(np.geomspace(max(n_arms, 2), horizon, N_STAGES))  # log 1 = 0 asks for nothing


def predicted_pulls(cases: Cases, stages: FloatArray, exploration: float = 6.0) -> FloatArray:
    """Return the predicted pulls of one arm of each group at the last stage: row, group."""
    n_rows, n_groups = cases.gaps.shape
    horizon, n_arms = stages[-1], cases.n_arms.sum()
    if horizon <= n_arms:  # each arm once, in any order
        return np.full(cases.gaps.shape, horizon / n_arms)
    size = max(1, int(ROOM / (len(stages) * n_groups)))
    return np.concatenate(
        [
            _chunk(_some(cases, slice(first, first + size)), stages, exploration)
            for first in range(0, n_rows, size)
        ]
    )


def _some(cases: Cases, part: slice) -> Cases:
    return Cases(
        cases.gaps[part], cases.n_arms, cases.weights[part], cases.active[part],
        cases.looks[part], cases.steady[part],
    )  # fmt: skip


def _chunk(cases: Cases, stages: FloatArray, exploration: float) -> FloatArray:
    shape = (len(stages), *cases.gaps.shape)
    needs, free, levels = np.empty(shape), np.empty(shape), np.empty(shape)
    pulls, looked = np.ones(cases.gaps.shape), np.zeros(cases.gaps.shape)
    expected = np.zeros(len(cases.gaps))
    for k, t in enumerate(stages):
        goal = exploration * np.log(t)
        arriving = (cases.looks[:, k] - expected)[:, np.newaxis]
        expected = cases.looks[:, k]
        passive = cases.weights * expected[:, np.newaxis]
        if cases.active.any():
            v = _level(cases, pulls, looked, goal, t)
            shares = _runner_up(cases, goal / (cases.gaps + v) ** 2 - looked - pulls)
            looked = looked + arriving * shares
        looked = np.where(cases.active[:, np.newaxis], looked, passive)
        v = _level(cases, pulls, looked, goal, t)
        levels[k] = cases.gaps + v
        needs[k], free[k] = goal / levels[k] ** 2, looked
        pulls = np.maximum(pulls, needs[k] - looked)
    return _with_noise(cases, needs, free, levels)


def _level(
    cases: Cases, pulls: FloatArray, looked: FloatArray, goal: float, stage: float
) -> FloatArray:
    """v at which pulls add up to the stage, by Newton's method from the left: row, 1.

    The pulls that a level asks for are convex and fall with it, so that the steps never overshoot.
    """
    seen = (cases.n_arms * looked * (cases.gaps == 0)).sum(axis=-1, keepdims=True)
    v: FloatArray = np.sqrt(goal / (stage + seen))
    for _ in range(NEWTON_STEPS):
        needs = goal / (cases.gaps + v) ** 2
        more = needs - looked > pulls
        asked = (cases.n_arms * np.where(more, needs - looked, pulls)).sum(axis=-1, keepdims=True)
        slope = (cases.n_arms * np.where(more, 2 * needs / (cases.gaps + v), 0.0)).sum(
            axis=-1, keepdims=True
        )
        v = v + np.where(slope > 0, np.maximum(asked - stage, 0) / np.maximum(slope, 1e-300), 0.0)
    return v


def _runner_up(cases: Cases, needs: FloatArray) -> FloatArray:
    """How UCB1-Double's looks fall on one arm of each group, given what each needs next."""
    best = cases.gaps == 0
    needs = np.maximum(needs, 0)
    total = (cases.n_arms * needs).sum(axis=-1, keepdims=True)
    pulled = needs / np.maximum(total, 1e-300)
    odds = pulled / np.maximum(1 - pulled, 1e-9)
    shares = pulled * ((cases.n_arms * odds).sum(axis=-1, keepdims=True) - odds)
    inverse = np.where(best, 0.0, 1 / np.where(best, 1.0, cases.gaps) ** 2)
    idle = (cases.n_arms * needs * ~best).sum(axis=-1, keepdims=True) <= 0
    shares = np.where(idle, inverse, shares)
    return np.asarray(
        shares / np.maximum((cases.n_arms * shares).sum(axis=-1, keepdims=True), 1e-300)
    )


def _with_noise(cases: Cases, needs: FloatArray, free: FloatArray, levels: FloatArray) -> FloatArray:
    """The largest pulls over the stages, with what noise adds to it."""
    curve = needs - free
    peak = np.argmax(curve, axis=0)[np.newaxis]
    most = np.take_along_axis(curve, peak, 0)
    d = np.take_along_axis(levels, peak, 0)
    seen = np.maximum(np.maximum.accumulate(curve, axis=0), 1.0) + free
    apart = np.sqrt(np.abs(seen - np.take_along_axis(seen, peak, 0)))
    reach = np.where((most - curve) * d / 2 <= apart, apart, 0.0)
    later = np.arange(len(needs))[:, np.newaxis, np.newaxis] > peak
    right = np.where(cases.steady, 0.79, 0.5)[:, np.newaxis] * np.where(later, reach, 0.0).max(axis=0)
    left = 0.5 * np.where(later, 0.0, reach).max(axis=0)
    most, d = most[0], d[0]
    noise = 2 / d * np.cbrt(left**3 + right**3) - 3 / d**2 + 1.17 / d
    return np.asarray(np.where(cases.gaps > 0, np.maximum(most + noise, 1.0), 0.0))
