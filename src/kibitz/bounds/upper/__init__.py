r"""Upper bounds: what the paper's algorithms are sure to keep below.

UCB, passive observer
    pulls the largest :math:`\bar X_i+\sqrt{c\log t/O_i}` where O_i counts pulls and free
    observations (the argument is in `_ucb.py`). Its bounds hold arm by arm, so that the
    smallest may be taken per arm.
FTL-robin
    pulls the leader of all observations and looks at the arms in turn.
OCUCB-n, and ETC-OCUCB which the paper proposes for an active observer
    have bounds with a constant C_η that nobody has computed. It is an argument without default:
    no number for these two is certified (theory: Lattimore 2016, taken on trust).
kibitzer
    our own policy, as an active and as a passive observer (docs/kibitzer.md).

Up to a horizon, no proved bound is above what can be lost at all (:func:`trivial`).

Rewards are σ²-sub-Gaussian (`sd` is σ, 1 in the paper) and every free observation is a fresh
draw. `rate` (ε) and `horizon` (T) may be arrays. `form="printed"` is the paper's formula to the
letter, for comparison only (see the errata); a bound that says nothing is infinite.
"""

from kibitz.bounds.upper._active import (
    Elimination,
    etc_elimination,
    etc_ocucb,
    ftl_robin,
    ocucb,
    paid_looks,
)
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
    "trivial", "ucb_log", "ucb_passive", "ucb_periodic", "ucb_rate", "ucb_schedule", "ucb_sharp",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
