"""What is proved about bandits with free observations, as functions of plain data.

`complexity` has the quantities in which the bounds are written, `lower` what no good algorithm
can avoid (its functions live in `passive`, `sharp`, `active`, `split` and `program`), `upper` what
the paper's algorithms guarantee (in `ucb`, `robin` and `etc_ocucb`), `concentration` the
inequalities behind them; `summary` collects all that apply to one setting, and `onset` says where
the lower bounds begin to say something.

A bound takes `form="proved"` (what the argument really proves, the default), "printed" (the
paper's formula to the letter, for comparison only) or "leading" (a reference curve, no bound),
where these exist; docs/errata.md tells them apart. A vacuous lower bound is 0, a vacuous upper
bound infinite. With `details=True` a bound is a `Bound`: total, terms per arm, and stages.
"""

from kibitz.bounds import complexity, concentration, lower, upper
from kibitz.bounds.bound import Bound
from kibitz.bounds.onset import onset
from kibitz.bounds.summary import summary

__all__ = ["Bound", "complexity", "concentration", "lower", "onset", "summary", "upper"]
