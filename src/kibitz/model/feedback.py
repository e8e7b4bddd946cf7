r"""Feedback models: which rewards the policy observes at each stage.

The policy always observes the reward of the arm that it pulls. At some stages it also gets a
*look*, a free observation of one arm (paper, section 2.1). There are four models: no looks
(`bandit`), looks at arms drawn by the environment (`passive`), looks at arms chosen by the policy
(`active`), and one reward of every arm at every stage (`full`).

Looks arrive at random, with probability ε at every stage (or ε_t at stage t), or periodically
(`every`). A look shows an independent draw of the reward, even if it shows the arm that is pulled at
the same stage (errata, D6). If several looks arrive at once, an active policy chooses their arms one
after another and sees each reward before it chooses the next arm. With `paid=True` a look costs the
gap of its arm, as in the paper's conclusion, and this cost is part of the regret.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kibitz._hashing import source_hash
from kibitz._validation import flag, invalid, one_of, short_repr, whole

WEIGHTS = ("uniform", "optimal", "suboptimal")


class Every(NamedTuple):
    """Periodic arrivals: looks arrive at stages `first`, `first + n`, `first + 2n`, ..."""

    n: int
    first: int


Rate = float | Every | ArrayLike | Callable[[int], float]
Weights = str | ArrayLike | Callable[[int, int], float]


@dataclass(frozen=True, eq=False)
class Feedback:
    """A feedback model; create it with `bandit`, `passive`, `active` or `full`."""

    observer: str  # "bandit", "passive", "active" or "full"
    rate: Any = 0.0  # the probability of an arrival at each stage, or `Every`
    weights: Any = None  # the distribution of the observed arm, for a passive observer
    looks: int = 1  # the number of looks per arrival
    paid: bool = False  # whether a look costs the gap of its arm

    @property
    def spec(self) -> dict[str, Any]:
        """The feedback model as plain data, for saved results."""
        spec: dict[str, Any] = {"observer": self.observer}
        if self.observer in {"passive", "active"}:
            spec["rate"] = _to_plain_data(self.rate)
            if self.observer == "passive":
                spec["weights"] = _to_plain_data(self.weights)
            spec["looks"] = self.looks
            spec["paid"] = self.paid
        return spec

    def __repr__(self) -> str:
        arguments = ", ".join(f"{k}={v!r}" for k, v in self.spec.items() if k != "observer")
        return f"{self.observer}({arguments})"

    def static_weights(self, gaps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability with which a look shows each arm, for weights that are no function.

        The result has one probability per arm, or one row of probabilities per stage.
        """
        if isinstance(self.weights, str):
            return named_weights(self.weights, gaps)
        return np.asarray(self.weights, dtype=float)


def named_weights(name: str, gaps: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Return the probability with which a look shows each arm, for weights given by name.

    "uniform" weights are equal. "optimal" weights are proportional to 1/\Delta_i, and "suboptimal"
    weights are proportional to 1/\Delta_i^2. "optimal" and "suboptimal" weights are 0 for optimal
    arms (paper, sections 3.1 and 5; errata, D31).
    """
    one_of(name, "weights", WEIGHTS)
    if name == "uniform":
        return np.full(gaps.size, 1 / gaps.size)
    if not np.any(gaps > 0):
        raise invalid("weights", "'uniform' or a list if all arms are optimal", name)
    relative_weights = np.zeros(gaps.size)
    relative_weights[gaps > 0] = gaps[gaps > 0].min() / gaps[gaps > 0]
    if name == "suboptimal":
        relative_weights *= relative_weights
    weights: NDArray[np.float64] = relative_weights / relative_weights.sum()
    return weights


def bandit() -> Feedback:
    """Return bandit feedback: there are no looks."""
    return Feedback("bandit")


def passive(
    rate: Rate, weights: Weights = "uniform", *, looks: int = 1, paid: bool = False
) -> Feedback:
    r"""Return feedback in which the environment draws the arm of each look.

    Parameters
    ----------
    rate
        The probability that a look arrives at a stage: a number ε, an array with one ε_t per stage,
        or a function of the stage that numba can compile; or `every(n)` for periodic arrivals.
    weights
        The distribution p of the observed arm: "uniform", "optimal" (proportional to 1/\Delta_i),
        "suboptimal" (proportional to 1/\Delta_i^2), a list with one weight per arm, an array with one
        row per stage, or a function of stage and arm that numba can compile.
    looks
        The number of looks per arrival.
    paid
        Whether a look costs the gap of its arm.
    """
    if isinstance(weights, str):
        one_of(weights, "weights", WEIGHTS)
    elif not callable(weights):
        try:
            weights = np.array(weights, dtype=float)
        except (TypeError, ValueError, OverflowError):
            raise invalid("weights", "numbers", weights) from None
        if weights.ndim not in {1, 2} or weights.size == 0:
            raise ValueError(f"weights must have one or two dimensions, got {short_repr(weights)}")
        for row in np.atleast_2d(weights):
            check_weights(row, "weights")
    return Feedback(
        "passive", _check_rate(rate), weights, whole(looks, "looks", 1), flag(paid, "paid")
    )


def active(rate: Rate, *, looks: int = 1, paid: bool = False) -> Feedback:
    """Return feedback in which the policy chooses the arm of each look.

    `rate`, `looks` and `paid` have the same meaning as in `passive`.
    """
    return Feedback("active", _check_rate(rate), None, whole(looks, "looks", 1), flag(paid, "paid"))


def full() -> Feedback:
    """Return full feedback: the policy observes one reward of every arm at every stage."""
    return Feedback("full")


def every(n: int, first: int | None = None) -> Every:
    """Return periodic arrivals: looks arrive every `n` stages, first at stage `first` (default n)."""
    n = whole(n, "n", 1)
    return Every(n, n if first is None else whole(first, "first", 1))


def check_feedback(feedback: object) -> Feedback:
    """Return the feedback model; raise ValueError if it is not a `Feedback`."""
    if not isinstance(feedback, Feedback):
        raise invalid("feedback", "a feedback model such as passive(0.1)", feedback)
    return feedback


def check_weights(weights: NDArray[np.float64], name: str) -> None:
    """Raise ValueError if the weights are not a probability vector.

    The error message calls the weights `name`.
    """
    if not np.all((weights >= 0) & np.isfinite(weights)):
        raise invalid(name, "non-negative and finite", weights)
    if not abs(weights.sum() - 1) <= 1e-9:
        raise ValueError(
            f"{name} must sum to 1, got {short_repr(weights)} with sum {float(weights.sum())!r}"
        )


def _check_rate(rate: Rate) -> Any:
    if isinstance(rate, Every) or callable(rate):
        return rate
    try:
        rates = np.array(rate, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise invalid("rate", "a number", rate) from None
    if rates.ndim > 1 or isinstance(rate, str | bytes | bool):
        raise invalid("rate", "a number or a list with one number per stage", rate)
    if not np.all((rates >= 0) & (rates <= 1)):
        invalid_rate = rates if rates.ndim == 0 else rates[~((rates >= 0) & (rates <= 1))][0]
        raise invalid("rate", "in [0, 1]", float(invalid_rate))
    return float(rates) if rates.ndim == 0 else rates


def _to_plain_data(value: Any) -> Any:
    """Return a rate or weights as plain data, for `Feedback.spec`."""
    if isinstance(value, Every):
        return {"every": value.n, "first": value.first}
    if callable(value):
        return {"function": getattr(value, "__name__", "?"), "source": source_hash(value)[:16]}
    if isinstance(value, np.ndarray):
        if value.size <= 1000:
            return value.tolist()
        return {"array": list(value.shape), "content": source_hash(value)[:16]}
    return value
