"""What can be lost at all: the bound that every upper bound is cut down to."""

import numpy as np
from numpy.typing import ArrayLike

from kibitz.bounds._bound import Result, bound, make_result, to_scalar
from kibitz.bounds._checks import FloatArray, check_gaps, check_horizon


@bound()
def trivial(gaps: ArrayLike, horizon: ArrayLike) -> float | FloatArray:
    r"""The most that a policy can lose that pulls each arm once before it pulls any arm again.

    .. math:: \sum_i\Delta_i+(T-K)\Delta_{max} \quad (T\ge K), \qquad
              \text{the sum of the } T \text{ largest gaps} \quad (T<K)

    At T = K it is what each of them does lose. UCB, FTL-robin and OCUCB-n are such policies;
    ETC-OCUCB, which starts anew in each epoch, is not: it can lose :math:`T\Delta_{max}`.
    """
    delta, last = check_gaps(gaps), check_horizon(horizon)
    worst_first = np.cumsum(np.sort(delta)[::-1])
    first = np.minimum(last, delta.size).astype(np.int64)
    return to_scalar(worst_first[first - 1] + np.maximum(last - delta.size, 0) * delta.max())


def at_most_trivial(
    terms: FloatArray,
    gaps: FloatArray,
    horizon: FloatArray | None,
    details: bool,
    stages: FloatArray | None = None,
) -> Result:
    """The answer for terms per arm, cut down to what can be lost at all up to the horizon, if any.

    An arm is pulled at most T - K + 1 times, once if T < K; the total is at most `trivial`.
    """
    if horizon is None:
        return make_result(terms.sum(axis=-1), terms, stages, details)
    most = np.maximum(horizon - gaps.size + 1, 1.0)[..., np.newaxis]
    terms = np.minimum(terms, most * gaps)
    total = np.minimum(terms.sum(axis=-1), trivial(gaps, horizon))
    return make_result(total, terms, stages, details)
