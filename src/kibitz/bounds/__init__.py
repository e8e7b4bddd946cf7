"""Regret bounds for bandits with side observations, as functions of plain data.

`lower` contains lower bounds for every sub-logarithmic algorithm, and `upper` contains upper bounds
for the paper's algorithms and for kibitzer. `complexity` computes the quantities that appear in the
bounds, and `concentration` evaluates the inequalities behind the upper bounds. `summary` returns all
bounds for one setting. `onset` returns the rates and horizons at which the lower bounds become
positive.

Every bound can be called in two ways: with `(problem, feedback, horizon, ...)`, or with plain numbers
in the order `(gaps, rate, weights, horizon, ...)`. A bound omits the arguments on which it does not
depend. Options are keyword-only. A bound for a problem is computed in units of the problem's scale,
the units in which policies observe rewards. Options such as `C`, `sd` and `exploration` are in these
units; the returned bound is in units of the rewards. A bound raises `ValueError` for a problem or
feedback that its proof does not cover.

Many bounds have several forms. `form="proved"`, the default, is the bound that the argument proves.
"printed" is the paper's formula to the letter, for comparison only. "leading" is the leading-order
term, which is not a bound. The differences are explained in docs/errata/. A vacuous lower bound is 0;
a vacuous upper bound is infinite. With `details=True` the result is a `Bound`: the total, the terms
per arm, and the stages at which the bound is attained.
"""

from kibitz.bounds import complexity, concentration, lower, upper
from kibitz.bounds._bound import Bound
from kibitz.bounds.summary import onset, summary

__all__ = ["Bound", "complexity", "concentration", "lower", "onset", "summary", "upper"]


def __dir__() -> list[str]:
    return __all__
