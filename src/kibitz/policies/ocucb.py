r"""OCUCB-n (Lattimore, 2016): the index of the paper's active algorithm.

.. math::

    \bar X_i + \sqrt{2 \eta \log(B_i) / O_i}, \qquad
    B_i = \max\Big\{e, \log t, \frac{t \log t}{\sum_j \min\{O_i, O_j^\rho O_i^{1-\rho}\}}\Big\}

with the sum over j (paper, section 4.2; docs/errata.md, D23). The paper states it for pulls; here it
counts looks too unless `ignore_free`. As an active observer it looks at the runner-up; no theorem
covers that.
"""

import math
from typing import Any

from kibitz.compiling.jit import jit
from kibitz.policies.policy import Array, Policy, index_policy


def ocucb(eta: float = 2.0, rho: float = 0.5, ignore_free: bool = False) -> Policy:
    """Return OCUCB-n (section 4.2).

    Parameters
    ----------
    eta
        \\eta > 1; 2 in the experiments.
    rho
        \\rho in [1/2, 1]; 1/2 in the experiments.
    ignore_free
        Whether to learn from pulls only.
    """
    check(eta, rho)
    setting = {"eta": float(eta), "rho": float(rho), "ignore_free": bool(ignore_free)}
    return index_policy(
        "ocucb",
        index,
        ignore_free=bool(ignore_free),
        setting=setting,
        eta=float(eta),
        rho=float(rho),
    )


def check(eta: float, rho: float) -> None:
    """Refuse parameters that OCUCB-n is not defined for."""
    if not 1 < eta < math.inf:
        raise ValueError(f"eta must be above 1 and finite, got {eta!r}")
    if not 0.5 <= rho <= 1:
        raise ValueError(f"rho must be in [0.5, 1], got {rho!r}")


@jit
def index(params: Any, stage: int, counts: Array, arm: int, mean: float) -> float:
    """Return the index of OCUCB-n; an arm with no observations adds nothing to the sum."""
    n = float(counts[arm])
    total = 0.0
    if params.rho == 0.5:
        root = math.sqrt(n)
        for count in counts:
            total += min(root, math.sqrt(count))
        total *= root
    else:
        rest = n ** (1 - params.rho)
        for count in counts:
            total += min(n, count**params.rho * rest)
    log = math.log(stage)
    return mean + math.sqrt(2 * params.eta * math.log(max(math.e, log, stage * log / total)) / n)
