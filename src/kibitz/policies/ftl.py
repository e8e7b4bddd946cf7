r"""Follow the leader: pull the arm of largest mean, \bar X_i.

With full information its regret is bounded (paper, section 2.1.1); with pulls alone it is linear.
`ftl_robin` looks at each arm in turn (section 2.2, "FTL-robin"): its regret is bounded, but of order
1/\epsilon (Lemma 1, as corrected in docs/errata/, D22). As an active observer `ftl` looks at the
arm of second largest mean.
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
