"""Regret bounds for bandits with free observations, as functions of plain data.

`lower` holds lower bounds for every good algorithm, and `upper` holds upper bounds for the paper's
algorithms and for kibitzer. `complexity` holds the quantities that appear in the bounds, and
`concentration` the inequalities behind them. `summary` returns all bounds for one setting. `onset`
returns the rates and horizons at which the lower bounds become positive.

Every bound takes `(problem, feedback, horizon, ...)`, or plain numbers in the order `(gaps, rate,
weights, horizon, ...)`, without the arguments that it does not depend on. Options are keyword-only.
Bounds for a problem are computed in units of the problem's scale, in which policies observe rewards.
Options such as `C`, `sd` and `exploration` are in these units; the bound itself is in units of the
rewards. A bound raises `ValueError` for a problem or feedback that its proof does not cover.

Many bounds have several forms. `form="proved"`, the default, is what the argument proves. "printed"
is the paper's formula to the letter, for comparison only. "leading" is the leading-order term; it
is not a bound. The differences are explained in docs/errata/. A vacuous lower bound is 0, a
vacuous upper bound infinite. With `details=True` the result is a `Bound`: total, terms per arm, and
stages.
"""

from kibitz.bounds import complexity, concentration, lower, upper
from kibitz.bounds._bound import Bound
from kibitz.bounds.summary import onset, summary

__all__ = ["Bound", "complexity", "concentration", "lower", "onset", "summary", "upper"]


def __dir__() -> list[str]:
    return __all__
