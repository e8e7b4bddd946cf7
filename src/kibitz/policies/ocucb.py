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
from kibitz.validate import between, flag, number, refused


def ocucb(
    eta: float = 2.0, rho: float = 0.5, ignore_free: bool = False, scale: float | None = None
) -> Policy:
    """Return OCUCB-n (section 4.2).

    Parameters
    ----------
    eta
        \\eta > 1; 2 in the experiments.
    rho
        \\rho in [1/2, 1]; 1/2 in the experiments.
    ignore_free
        Whether to learn from pulls only.
    scale
        The sub-Gaussian scale of the rewards; that of the problem unless given.
    """
    numbers = ocucb_numbers(eta, rho)
    setting = {**numbers, "ignore_free": flag(ignore_free, "ignore_free")}
    return index_policy(
        "ocucb", index, ignore_free=ignore_free, scale=scale, setting=setting, **numbers
    )


def ocucb_numbers(eta: float, rho: float) -> dict[str, Any]:
    """Return the parameters of OCUCB-n, or refuse those that it is not defined for."""
    if not 1 < number(eta, "eta") < math.inf:
        raise refused("eta", "above 1 and finite", eta)
    return {"eta": float(eta), "rho": between(rho, "rho", 0.5, 1)}


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
