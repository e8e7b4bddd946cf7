"""The largest possible regret, which limits every upper bound."""

import numpy as np
from numpy.typing import ArrayLike

from kibitz.bounds._bound import Result, bound, make_result, to_scalar
from kibitz.bounds._checks import FloatArray, check_gaps, check_horizon


@bound()
def trivial(gaps: ArrayLike, horizon: ArrayLike) -> float | FloatArray:
    r"""Return the largest possible regret of a policy that first pulls each arm once.

    .. math:: \sum_i\Delta_i+(T-K)\Delta_{max} \quad (T\ge K), \qquad
              \text{the sum of the } T \text{ largest gaps} \quad (T<K)

    At T = K every policy of this kind has exactly this regret. UCB, FTL-robin and OCUCB-n first pull
    each arm once. ETC-OCUCB is not of this kind, because it restarts in each epoch; its regret can be
    as large as :math:`T\Delta_{max}`.
    """
    delta, horizons = check_gaps(gaps), check_horizon(horizon)
    largest_sums = np.cumsum(np.sort(delta)[::-1])
    n_first = np.minimum(horizons, delta.size).astype(np.int64)
    return to_scalar(largest_sums[n_first - 1] + np.maximum(horizons - delta.size, 0) * delta.max())


def limit_by_trivial(
    terms: FloatArray,
    gaps: FloatArray,
    horizon: FloatArray | None,
    details: bool,
    stages: FloatArray | None = None,
) -> Result:
    """Return the result of a bound with these terms, limited by the largest possible regret.

    An arm is pulled at most T - K + 1 times (once if T < K), and the total is at most `trivial`.
    """
    if horizon is None:
        return make_result(terms.sum(axis=-1), terms, stages, details)
    max_pulls = np.maximum(horizon - gaps.size + 1, 1.0)[..., np.newaxis]
    terms = np.minimum(terms, max_pulls * gaps)
    total = np.minimum(terms.sum(axis=-1), trivial(gaps, horizon))
    return make_result(total, terms, stages, details)
