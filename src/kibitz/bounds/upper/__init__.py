r"""Upper bounds: guarantees on the regret of the paper's algorithms and of kibitzer.

UCB, passive observer
    pulls the arm with the largest :math:`\bar X_i+\sqrt{c\log t/O_i}`, where O_i counts pulls and
    looks (the argument is in `_ucb.py`). Its bounds hold for each arm separately, so the smallest
    one can be taken per arm.
FTL-robin
    pulls the arm with the largest average of all observations and looks at the arms in turn.
OCUCB-n, and ETC-OCUCB, which the paper proposes for an active observer
    have bounds with a constant C_η whose value is unknown. It is an argument without default. No
    number from these two bounds is certified (the theory is Lattimore 2016, which we did not
    verify).
kibitzer
    is our own policy, as an active and as a passive observer (docs/kibitzer.md).

With a horizon, no proved bound exceeds the largest possible regret (:func:`trivial`).

Rewards are σ²-sub-Gaussian (`sd` is σ, 1 in the paper), and every look is an independent draw.
`rate` (ε) and `horizon` (T) can be arrays. `form="printed"` is the paper's formula to the letter,
for comparison only (see the errata). A vacuous bound is infinite.
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
