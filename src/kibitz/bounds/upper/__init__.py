r"""Upper bounds: guarantees on the regret of the paper's algorithms and of kibitzer.

UCB, passive observer
    UCB pulls the arm with the largest :math:`\bar X_i+\sqrt{c\log t/O_i}`, where :math:`\bar X_i` is
    the average of the O_i pulls and looks of arm i (the argument is in `_ucb.py`). UCB's bounds hold
    for each arm separately, so the smallest bound can be taken for each arm.
UCB on a graph, where a pull shows other arms
    :func:`ucb_graph` bounds the regret of the same index (the argument is in `_graph.py`).
FTL-robin
    FTL-robin pulls the arm with the largest average of all observations and looks at the arms in
    turn.
OCUCB-n, and ETC-OCUCB, which the paper proposes for an active observer
    The bounds have a constant C_η whose value is unknown. C_η is an argument without a default. No
    number from these two bounds is certified (the theory is from Lattimore 2016; we did not verify
    it).
kibitzer
    kibitzer is our own policy, for active and passive observers (docs/kibitzer.md).

With a horizon, no proved bound exceeds the largest possible regret. The largest possible regret is
:func:`trivial`, or :math:`T\Delta_{max}` on a graph, because UCB on a graph skips the first pull of
an arm that it has already seen.

Rewards are σ²-sub-Gaussian (`sd` is σ, which is 1 in the paper), and every look is an independent
draw. `rate` (ε) and `horizon` (T) can be arrays. `form="printed"` is the paper's formula to the
letter, for comparison only (see the errata). A vacuous bound is infinite.
"""

from kibitz.bounds.upper._active import (
    Elimination,
    etc_elimination,
    etc_ocucb,
    ftl_robin,
    ocucb,
    paid_looks,
)
from kibitz.bounds.upper._graph import ucb_graph
from kibitz.bounds.upper._kibitzer import kibitzer
from kibitz.bounds.upper._trivial import trivial
from kibitz.bounds.upper._ucb import (
    ucb_log,
    ucb_passive,
    ucb_periodic,
    ucb_rate,
    ucb_schedule,
    ucb_sharp,
)

__all__ = [
    "Elimination", "etc_elimination", "etc_ocucb", "ftl_robin", "kibitzer", "ocucb", "paid_looks",
    "trivial", "ucb_graph", "ucb_log", "ucb_passive", "ucb_periodic", "ucb_rate", "ucb_schedule",
    "ucb_sharp",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
