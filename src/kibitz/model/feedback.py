r"""Who sees what, when.

At each stage the player sees the reward of the arm that it pulls. At some stages it also gets a look
at an arm that it did not pay for (paper, section 2.1): never (`bandit`), at an arm drawn by the
environment (`passive`), at an arm of its own choice (`active`), or at all arms always (`full`).

Looks arrive at random, Z_t ~ Ber(ε) or Ber(ε_t), or periodically (`every`).
A look is a fresh draw, also when it falls on the pulled arm (errata, D6). With several looks to an
arrival, each is chosen when the ones before it are known.
With `paid=True` a look costs the gap of the arm that is looked at, as in the paper's conclusion, and
that cost is part of the regret.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kibitz._hashing import source_hash
from kibitz._validation import flag, invalid, one_of, short_repr, whole

WEIGHTS = ("uniform", "optimal", "suboptimal")  # that have a name


class Every(NamedTuple):
    """Arrivals at stages `first`, `first + n`, `first + 2n`, ..."""

    n: int
    first: int


Rate = float | Every | ArrayLike | Callable[[int], float]
Weights = str | ArrayLike | Callable[[int, int], float]


@dataclass(frozen=True, eq=False)
class Feedback:
    """A feedback; made by `bandit`, `passive`, `active` or `full`."""

    observer: str
    rate: Any = 0.0
    weights: Any = None
    looks: int = 1
    paid: bool = False

    @property
    def spec(self) -> dict[str, Any]:
        """What made the feedback, as plain data for saved results."""
        spec: dict[str, Any] = {"observer": self.observer}
        if self.observer in {"passive", "active"}:
            spec["rate"] = _plain(self.rate)
            if self.observer == "passive":
                spec["weights"] = _plain(self.weights)
            spec["looks"] = self.looks
            spec["paid"] = self.paid
        return spec

    def __repr__(self) -> str:
        arguments = ", ".join(f"{k}={v!r}" for k, v in self.spec.items() if k != "observer")
        return f"{self.observer}({arguments})"

    def static_weights(self, gaps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weights p of a passive observer, one for each arm or a row for each stage."""
        if isinstance(self.weights, str):
            return named_weights(self.weights, gaps)
        return np.asarray(self.weights, dtype=float)


def named_weights(name: str, gaps: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Return the weights p that a name stands for, in the order of the arms.

    "uniform"; "optimal", p_i proportional to 1/\Delta_i over sub-optimal arms, none on optimal
    ones; "suboptimal", to 1/\Delta_i^2 likewise (paper, sections 3.1 and 5; errata, D31).
    """
    one_of(name, "weights", WEIGHTS)
    if name == "uniform":
        return np.full(gaps.size, 1 / gaps.size)
    if not np.any(gaps > 0):
        raise invalid("weights", "'uniform' or given where no arm is sub-optimal", name)
    share = np.zeros(gaps.size)
    share[gaps > 0] = gaps[gaps > 0].min() / gaps[gaps > 0]
    if name == "suboptimal":
        share *= share
    weights: NDArray[np.float64] = share / share.sum()
    return weights


def bandit() -> Feedback:
    """Return the plain bandit's feedback: no looks at all."""
    return Feedback("bandit")


def passive(
    rate: Rate, weights: Weights = "uniform", *, looks: int = 1, paid: bool = False
) -> Feedback:
    r"""Return a feedback in which the environment draws the arm of each look.

    Parameters
    ----------
    rate
        How often looks arrive: a number ε, an array or a function of the stage
        (ε_t; numba must be able to compile it), or `every(n)`.
    weights
        The law p of the arm: "uniform", "optimal" (proportional to 1/\Delta_i), "suboptimal"
        (to 1/\Delta_i^2), a list of one weight for each arm, an array with a row for each stage, or
        a function of stage and arm (numba must be able to compile it).
    looks
        How many arms are looked at when looks arrive.
    paid
        Whether a look costs its gap.
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
    return Feedback("passive", _check_rate(rate), weights, _looks(looks), flag(paid, "paid"))


def active(rate: Rate, *, looks: int = 1, paid: bool = False) -> Feedback:
    """Return a feedback in which the player chooses the arm of each look; see `passive`."""
    return Feedback("active", _check_rate(rate), None, _looks(looks), flag(paid, "paid"))


def full() -> Feedback:
    """Return full information: each stage shows one reward of every arm."""
    return Feedback("full")


def every(n: int, first: int | None = None) -> Every:
    """Return periodic arrivals: every `n` stages, for the first time at stage `first` (default n)."""
    n = whole(n, "n", 1)
    return Every(n, n if first is None else whole(first, "first", 1))


def check_feedback(feedback: object) -> Feedback:
    """Return a feedback, or refuse what is none."""
    if not isinstance(feedback, Feedback):
        raise ValueError(f"feedback must be one such as passive(0.1), got {short_repr(feedback)}")
    return feedback


def check_weights(row: NDArray[np.float64], name: str) -> None:
    """Refuse what is no law on the arms."""
    if not np.all((row >= 0) & np.isfinite(row)):
        raise invalid(name, "non-negative and finite", row)
    if not abs(row.sum() - 1) <= 1e-9:
        raise ValueError(f"{name} must sum to 1, got {short_repr(row)} with sum {float(row.sum())!r}")


def _check_rate(rate: Rate) -> Any:
    if isinstance(rate, Every) or callable(rate):
        return rate
    try:
        values = np.array(rate, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise invalid("rate", "a number", rate) from None
    if values.ndim > 1 or isinstance(rate, str | bytes | bool):
        raise invalid("rate", "a number or one for each stage", rate)
    if not np.all((values >= 0) & (values <= 1)):
        bad = values if values.ndim == 0 else values[~((values >= 0) & (values <= 1))][0]
        raise invalid("rate", "in [0, 1]", float(bad))
    return float(values) if values.ndim == 0 else values


def _looks(looks: int) -> int:
    return whole(looks, "looks", 1)


def _plain(value: Any) -> Any:
    """Return a rate or weights as plain data."""
    if isinstance(value, Every):
        return {"every": value.n, "first": value.first}
    if callable(value):
        return {"function": getattr(value, "__name__", "?"), "source": source_hash(value)[:16]}
    if isinstance(value, np.ndarray):
        if value.size <= 1000:
            return value.tolist()
        return {"array": list(value.shape), "content": source_hash(value)[:16]}
    return value
