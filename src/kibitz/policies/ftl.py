r"""Follow the leader: pull the arm with the largest mean of its observations.

With full information, the regret of follow the leader is bounded (paper, section 2.1.1); with pulls
alone, it is linear. As an active observer, `ftl` looks at the arm with the second largest mean, and
`ftl_robin` looks at each arm in turn (section 2.2, "FTL-robin"). The regret of `ftl_robin` is
bounded, but of order 1/\epsilon, where \epsilon is the rate of looks (Lemma 1, as corrected in
docs/errata/, D22).
"""

from typing import Any

from kibitz._jit import jit
from kibitz.policies.index_policy import index_policy
from kibitz.policies.policy import Array, Policy


def ftl(scale: float | None = None) -> Policy:
    """Return Follow The Leader (section 2.1.1)."""
    return index_policy("ftl", index, scale=scale)


def ftl_robin(scale: float | None = None) -> Policy:
    """Return FTL-robin: follow the leader and look at each arm in turn (section 2.2)."""
    return index_policy("ftl_robin", index, look="robin", scale=scale)


@jit
def index(params: Any, stage: int, counts: Array, arm: int, mean: float) -> float:
    """Return the mean reward of the arm."""
    return mean
