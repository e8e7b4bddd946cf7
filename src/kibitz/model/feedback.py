r"""Who sees what, when.

At each stage the player sees the reward of the arm that it pulls. At some stages it also gets a look
at an arm that it did not pay for (paper, section 2.1): never (`bandit`), at an arm drawn by the
environment (`passive`), at an arm of its own choice (`active`), or at all arms always (`full`).

Looks arrive at random, Z_t ~ Ber(\epsilon) or Ber(\epsilon_t), or periodically (`every`).
A look is a fresh draw, also when it falls on the pulled arm (errata, D6). With several looks to an
arrival, each is chosen when the ones before it are known.
With `paid=True` a look costs the gap of the arm that is looked at, as in the paper's conclusion, and
that cost is part of the regret.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kibitz.compiling.jit import content_hash, jit_inner

NOBODY, PASSIVE, ACTIVE, FULL = 0, 1, 2, 3  # observers
NEVER, RANDOM, PERIODIC, LISTED, VARYING = 0, 1, 2, 3, 4  # arrivals
FAR = 2**62  # a stage that no run reaches


class Every(NamedTuple):
    """Arrivals at stages `first`, `first + n`, `first + 2n`, ..."""

    n: int
    first: int


Rate = float | Every | ArrayLike | Callable[[int], float]
Weights = str | ArrayLike | Callable[[int, int], float]


class Looks(NamedTuple):
    """A feedback as the compiled loops see it."""

    observer: int
    arrivals: int
    per_arrival: int
    rate: float  # RANDOM
    mean_gap: float  # RANDOM: -1 / log(1 - rate)
    period: int  # PERIODIC
    first: int
    rates: NDArray[np.float64]  # LISTED: the rate at each stage
    shares: NDArray[np.float64]  # the weights of each arm (of the first stage, if they vary)
    weights: NDArray[np.float64]  # cumulative; one row, or one for each stage
    varying_weights: bool  # by the function of the stage


@dataclass(frozen=True, eq=False)
class Feedback:
    """A feedback; made by `bandit`, `passive`, `active` or `full`."""

    observer: str
    rate: Any = 0.0
    weights: Any = None
    looks: int = 1
    paid: bool = False

    @property
    def setting(self) -> dict[str, Any]:
        """What made the feedback, as plain data for saved results."""
        setting: dict[str, Any] = {"observer": self.observer}
        if self.observer in {"passive", "active"}:
            setting["rate"] = _plain(self.rate)
            if self.observer == "passive":
                setting["weights"] = _plain(self.weights)
            setting["looks"] = self.looks
            setting["paid"] = self.paid
        return setting

    def __repr__(self) -> str:
        arguments = ", ".join(f"{k}={v!r}" for k, v in self.setting.items() if k != "observer")
        return f"{self.observer}({arguments})"

    def functions(self) -> tuple[Any, Any]:
        """Return the compiled functions `next_arrival` and `drawn_arm` of this kind of feedback."""
        arrivals, arms = constant_arrivals, constant_arms
        if callable(self.rate):
            arrivals = arrivals_at(jit_inner(getattr(self.rate, "py_func", self.rate)))
        if callable(self.weights):
            arms = arms_by(jit_inner(getattr(self.weights, "py_func", self.weights)))
        return arrivals, arms

    def static_weights(self, gaps: NDArray[np.float64]) -> NDArray[np.float64]:
        r"""Return the weights p of a passive observer, in the order of the arms.

        "uniform"; "optimal", p_i proportional to 1/\Delta_i over sub-optimal arms, none on optimal
        ones; "suboptimal", to 1/\Delta_i^2 likewise (paper, sections 3.1 and 5; errata, D31).
        """
        if isinstance(self.weights, str):
            if self.weights == "uniform":
                return np.full(gaps.size, 1 / gaps.size)
            if not np.any(gaps > 0):
                raise ValueError(
                    f"weights must be 'uniform' or given where no arm is sub-optimal, "
                    f"got {self.weights!r}"
                )
            share = np.zeros(gaps.size)
            share[gaps > 0] = gaps[gaps > 0].min() / gaps[gaps > 0]
            if self.weights == "suboptimal":
                share *= share
            weights: NDArray[np.float64] = share / share.sum()
            return weights
        return np.asarray(self.weights, dtype=float)

    def compiled(self, gaps: NDArray[np.float64], horizon: int) -> Looks:
        """Return what the compiled loops need, checked against the arms and the horizon."""
        observer = {"bandit": NOBODY, "passive": PASSIVE, "active": ACTIVE, "full": FULL}
        arrivals, rate, mean_gap, period, first, rates = NEVER, 0.0, 0.0, 1, 1, np.zeros(0)
        if isinstance(self.rate, Every):
            arrivals, period, first = PERIODIC, self.rate.n, self.rate.first
        elif callable(self.rate):
            arrivals = VARYING
            for stage in _probes(horizon):
                here = float(self.rate(stage))
                if not 0 <= here <= 1:
                    raise ValueError(f"rate must be in [0, 1] at each stage, got {here!r} at {stage}")
        elif np.ndim(self.rate) == 1:
            arrivals, rates = LISTED, np.asarray(self.rate, dtype=float)
            if rates.size < horizon:
                raise ValueError(
                    f"rate must have an entry for each of {horizon} stages, got {rates.size}"
                )
        elif self.rate > 0:
            arrivals, rate = RANDOM, self.rate
            mean_gap = -1 / math.log1p(-self.rate) if self.rate < 1 else 0.0
        weights = np.zeros((1, gaps.size))
        if self.observer == "passive":
            weights = self._weights_table(gaps, horizon)
        return Looks(
            observer[self.observer],
            arrivals,
            self.looks,
            rate,
            mean_gap,
            period,
            first,
            rates,
            weights[0].copy(),
            np.cumsum(weights, axis=1),
            callable(self.weights),
        )

    def _weights_table(self, gaps: NDArray[np.float64], horizon: int) -> NDArray[np.float64]:
        if callable(self.weights):
            for stage in _probes(horizon):
                row = [float(self.weights(stage, arm)) for arm in range(gaps.size)]
                _check_weights(np.array(row), f"weights at stage {stage}")
            return np.zeros((1, gaps.size))
        weights = np.atleast_2d(self.static_weights(gaps))
        if weights.shape[1] != gaps.size:
            raise ValueError(
                f"weights must have one entry for each of {gaps.size} arms, got {weights.shape[1]}"
            )
        if 1 < weights.shape[0] < horizon:
            raise ValueError(
                f"weights must have a row for each of {horizon} stages, got {weights.shape[0]}"
            )
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
        How often looks arrive: a number \epsilon, an array or a function of the stage
        (\epsilon_t; numba must be able to compile it), or `every(n)`.
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
        if weights not in {"uniform", "optimal", "suboptimal"}:
            raise ValueError(
                "weights must be 'uniform', 'optimal', 'suboptimal', a list or a function, "
                f"got {weights!r}"
            )
    elif not callable(weights):
        try:
            weights = np.array(weights, dtype=float)
        except (TypeError, ValueError):
            raise ValueError(f"weights must be numbers, got {weights!r}") from None
        if weights.ndim not in {1, 2} or weights.size == 0:
            raise ValueError(f"weights must have one or two dimensions, got {weights.tolist()!r}")
        for row in np.atleast_2d(weights):
            _check_weights(row, "weights")
    return Feedback("passive", _checked_rate(rate), weights, _checked_looks(looks), bool(paid))


def active(rate: Rate, *, looks: int = 1, paid: bool = False) -> Feedback:
    """Return a feedback in which the player chooses the arm of each look; see `passive`."""
    return Feedback("active", _checked_rate(rate), None, _checked_looks(looks), bool(paid))


def full() -> Feedback:
    """Return full information: each stage shows one reward of every arm."""
    return Feedback("full")


def every(n: int, first: int | None = None) -> Every:
    """Return periodic arrivals: every `n` stages, for the first time at stage `first` (default n)."""
    if not (isinstance(n, int | np.integer) and n >= 1):
        raise ValueError(f"n must be a positive whole number, got {n!r}")
    if first is None:
        first = n
    if not (isinstance(first, int | np.integer) and first >= 1):
        raise ValueError(f"first must be a positive whole number, got {first!r}")
    return Every(int(n), int(first))


def _checked_rate(rate: Rate) -> Any:
    if isinstance(rate, Every) or callable(rate):
        return rate
    try:
        values = np.array(rate, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"rate must be a number, got {rate!r}") from None
    if values.ndim > 1:
        raise ValueError(f"rate must be a number or one for each stage, got {rate!r}")
    if not np.all((values >= 0) & (values <= 1)):
        bad = values if values.ndim == 0 else values[~((values >= 0) & (values <= 1))][0]
        raise ValueError(f"rate must be in [0, 1], got {float(bad)!r}")
    return float(values) if values.ndim == 0 else values


def _checked_looks(looks: int) -> int:
    if not (isinstance(looks, int | np.integer) and looks >= 1):
        raise ValueError(f"looks must be a positive whole number, got {looks!r}")
    return int(looks)


def _check_weights(row: NDArray[np.float64], name: str) -> None:
    if not np.all((row >= 0) & np.isfinite(row)):
        raise ValueError(f"{name} must be non-negative and finite, got {row.tolist()!r}")
    if not abs(row.sum() - 1) <= 1e-9:
        raise ValueError(f"{name} must sum to 1, got {row.tolist()!r} with sum {float(row.sum())!r}")


def _plain(value: Any) -> Any:
    if isinstance(value, Every):
        return {"every": value.n, "first": value.first}
    if callable(value):
        return {"function": getattr(value, "__name__", "?"), "content": content_hash(value)[:16]}
    if isinstance(value, np.ndarray):
        if value.size <= 1000:
            return value.tolist()
        return {"array": list(value.shape), "content": content_hash(value)[:16]}
    return value


def _probes(horizon: int) -> Sequence[int]:
    """Return some stages up to the horizon, to try a user's function at."""
    return [int(stage) for stage in np.unique(np.geomspace(1, horizon, 50).astype(np.int64))]


@jit_inner
def _no_rate(stage: int) -> float:
    return 0.0


@jit_inner
def _no_weight(stage: int, arm: int) -> float:
    return 0.0


def arrivals_at(rate_at: Any) -> Any:
    """Return the function that draws arrivals, with `rate_at(stage)` where the rate is VARYING."""

    def next_arrival(looks: Looks, stage: int, horizon: int, rng: Any) -> int:
        """Return the first stage after `stage` at which looks arrive; FAR away if none is known."""
        if looks.arrivals == RANDOM:  # gaps are geometric: 1 + floor(exponential * mean_gap)
            gap = rng.standard_exponential() * looks.mean_gap
            return stage + 1 + int(gap) if gap < 1e18 else FAR
        if looks.arrivals == PERIODIC:
            if stage < looks.first:
                return looks.first
            return stage + looks.period - (stage - looks.first) % looks.period
        if looks.arrivals == LISTED or looks.arrivals == VARYING:
            for later in range(stage + 1, horizon + 1):
                rate = looks.rates[later - 1] if looks.arrivals == LISTED else rate_at(later)
                if rng.random() < rate:
                    return later
        return FAR

    return jit_inner(next_arrival)


def arms_by(weight_at: Any) -> Any:
    """Return the function that draws a look's arm, by `weight_at(stage, arm)` where it varies."""

    def drawn_arm(looks: Looks, stage: int, rng: Any) -> int:
        """Draw the arm that a passive observer gets to see."""
        u = rng.random()
        n_arms = looks.weights.shape[1]
        if looks.varying_weights:
            total = 0.0
            for arm in range(n_arms - 1):
                total += weight_at(stage, arm)
                if u < total:
                    return arm
            return n_arms - 1
        cumulative = looks.weights[stage - 1 if looks.weights.shape[0] > 1 else 0]
        u *= cumulative[-1]
        arm = 0
        while cumulative[arm] <= u and arm < n_arms - 1:
            arm += 1
        return arm

    return jit_inner(drawn_arm)


constant_arrivals = arrivals_at(_no_rate)
constant_arms = arms_by(_no_weight)
