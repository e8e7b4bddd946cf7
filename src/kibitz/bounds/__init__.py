"""What is proved about bandits with free observations, as functions of plain data.

`lower` has what no good algorithm can avoid, `upper` what the paper's algorithms guarantee;
`complexity` the quantities in which the bounds are written, `concentration` the inequalities behind
them. `summary` collects all that apply to one setting, and `onset` says where the lower bounds begin
to say something.

Every bound takes `(problem, feedback, horizon, ...)`, or `(gaps, rate, weights, horizon, ...)`
without those of the four that it does not depend on. The order is always the same; options are
named. A bound for a problem is computed in units of the problem's scale, in which policies see
rewards: options such as `C`, `sd` or `exploration` are in these units, and the bound itself in units
of the rewards. A problem or feedback for which a bound is not proved raises `ValueError`.

A bound takes `form="proved"` (what the argument really proves, the default), "printed" (the
paper's formula to the letter, for comparison only) or "leading" (a reference curve, no bound),
where these exist; docs/errata.md tells them apart. A vacuous lower bound is 0, a vacuous upper
bound infinite. With `details=True` a bound is a `Bound`: total, terms per arm, and stages.
"""

from kibitz.bounds import complexity, concentration, lower, upper
from kibitz.bounds._bound import Bound
from kibitz.bounds.summary import onset, summary

__all__ = ["Bound", "complexity", "concentration", "lower", "onset", "summary", "upper"]


def __dir__() -> list[str]:
    return __all__
