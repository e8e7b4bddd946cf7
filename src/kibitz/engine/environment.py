r"""The world as compiled loops see it: what arms pay, in units of a policy's scale, and who looks.

`law_of` and `looks_of` turn a problem and a feedback into records of arrays; `draw`, `next_arrival`
and `drawn_arm` draw from them. A new law of rewards has a constructor in `model.problem` and its line
here in `law_of` and `draw` (and in `leap`, if it is to leap).
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kibitz._jit import jit
from kibitz._validation import invalid
from kibitz.engine.rng import Stream, normal, uniform
from kibitz.model.feedback import Every, Feedback, check_weights
from kibitz.model.problem import Problem
from kibitz.policies.policy import NEVER as NO_STAGE

Floats = NDArray[np.float64]

# ------------------------------------------------------------------------------------- what arms pay

GAUSSIAN, BERNOULLI, EMPIRICAL = 0, 1, 2


class Law(NamedTuple):
    """What arms pay, in units of the scale."""

    kind: int
    means: Floats
    sds: Floats  # GAUSSIAN
    chances: Floats  # BERNOULLI: of a success
    success: float  # BERNOULLI: what it pays
    values: Floats  # EMPIRICAL: of all arms, one after another
    offsets: NDArray[
        np.int64
    ]  # EMPIRICAL: where each arm's values begin, and where the last one's end


def law_of(problem: Problem, scale: float) -> Law:
    """Return what the arms of a problem pay, in units of `scale`."""
    kind = {"gaussian": GAUSSIAN, "bernoulli": BERNOULLI, "empirical": EMPIRICAL}[problem.kind]
    values = np.concatenate([np.zeros(0), *problem.values]) / scale
    offsets = np.cumsum([0, *(arm.size for arm in problem.values)]).astype(np.int64)
    chances = problem.means.copy() if kind == BERNOULLI else np.zeros(0)
    return Law(kind, problem.means / scale, problem.sds / scale, chances, 1 / scale, values, offsets)


@jit
def draw(law: Law, arm: int, stream: Stream) -> float:
    """Draw a reward of `arm`; what is taken from the stream does not depend on the arm."""
    if law.kind == GAUSSIAN:
        return law.means[arm] + law.sds[arm] * normal(stream)
    u = uniform(stream)
    if law.kind == BERNOULLI:
        return law.success if u < law.chances[arm] else 0.0
    first = law.offsets[arm]
    return law.values[first + int(u * (law.offsets[arm + 1] - first))]


# -------------------------------------------------------------------------------------- who looks

NOBODY, PASSIVE, ACTIVE, FULL = 0, 1, 2, 3  # observers
NEVER, RANDOM, PERIODIC, LISTED, VARYING = 0, 1, 2, 3, 4  # arrivals


class Looks(NamedTuple):
    """When looks arrive, and where they go."""

    observer: int
    arrivals: int
    per_arrival: int
    rate: float  # RANDOM
    expected_wait: float  # RANDOM: -1 / log(1 - rate), of an exponential waiting time
    period: int  # PERIODIC
    first: int
    rates: Floats  # LISTED: the rate at each stage
    shares: Floats  # the weights of each arm (of the first stage, if they vary)
    weights: Floats  # cumulative; one row, or one for each stage
    varying_weights: bool  # by the function of the stage


def looks_of(feedback: Feedback, gaps: Floats, horizon: int) -> Looks:
    """Return who looks when, checked against the arms and the horizon."""
    observer = {"bandit": NOBODY, "passive": PASSIVE, "active": ACTIVE, "full": FULL}
    arrivals, rate, expected_wait, period, first, rates = NEVER, 0.0, 0.0, 1, 1, np.zeros(0)
    if isinstance(feedback.rate, Every):
        arrivals, period, first = PERIODIC, feedback.rate.n, feedback.rate.first
    elif callable(feedback.rate):
        arrivals = VARYING
        for stage in _some_stages(horizon):
            here = float(feedback.rate(stage))
            if not 0 <= here <= 1:
                raise ValueError(f"rate must be in [0, 1] at each stage, got {here!r} at {stage}")
    elif np.ndim(feedback.rate) == 1:
        arrivals, rates = LISTED, np.asarray(feedback.rate, dtype=float)
        if rates.size < horizon:
            raise ValueError(
                f"rate must have an entry for each of {horizon} stages, got {rates.size}"
            )
    elif feedback.rate > 0:
        arrivals, rate = RANDOM, feedback.rate
        expected_wait = -1 / math.log1p(-rate) if rate < 1 else 0.0
    if feedback.looks * horizon >= NO_STAGE:
        raise invalid("looks", f"below 2^62 in all of {horizon} stages", feedback.looks)
    weights = np.zeros((1, gaps.size))
    if feedback.observer == "passive":
        weights = _weights_table(feedback, gaps, horizon)
    return Looks(
        observer[feedback.observer],
        arrivals,
        feedback.looks,
        rate,
        expected_wait,
        period,
        first,
        rates,
        weights[0].copy(),
        np.cumsum(weights, axis=1),
        callable(feedback.weights),
    )


def _weights_table(feedback: Feedback, gaps: Floats, horizon: int) -> Floats:
    if callable(feedback.weights):
        for stage in _some_stages(horizon):
            row = [float(feedback.weights(stage, arm)) for arm in range(gaps.size)]
            check_weights(np.array(row), f"weights at stage {stage}")
        return np.zeros((1, gaps.size))
    weights = np.atleast_2d(feedback.static_weights(gaps))
    if weights.shape[1] != gaps.size:
        raise ValueError(
            f"weights must have one entry for each of {gaps.size} arms, got {weights.shape[1]}"
        )
    if 1 < weights.shape[0] < horizon:
        raise ValueError(
            f"weights must have a row for each of {horizon} stages, got {weights.shape[0]}"
        )
    return weights


def _some_stages(horizon: int) -> Sequence[int]:
    """Return some stages up to the horizon, to try a user's function at."""
    return [int(stage) for stage in np.unique(np.geomspace(1, horizon, 50).astype(np.int64))]


def look_functions(feedback: Feedback) -> tuple[Any, Any]:
    """Return `next_arrival` and `drawn_arm` of this kind of feedback."""
    rate = feedback.rate if callable(feedback.rate) else _no_rate
    weight = feedback.weights if callable(feedback.weights) else _no_weight
    return arrivals_at(rate), arms_by(weight)


@jit
def _no_rate(stage: int) -> float:
    return 0.0


@jit
def _no_weight(stage: int, arm: int) -> float:
    return 0.0


@cache
def arrivals_at(rate_at: Any) -> Any:
    """Return the function that draws arrivals, with `rate_at(stage)` where the rate is VARYING."""

    def next_arrival(looks: Looks, stage: int, horizon: int, rng: Any, control: Any) -> int:
        """Return the first stage after `stage` at which looks arrive; NO_STAGE if none is."""
        if looks.arrivals == RANDOM:  # waits are geometric: 1 + floor(exponential * expected_wait)
            wait = rng.standard_exponential() * looks.expected_wait
            return stage + 1 + int(wait) if wait < 1e18 else NO_STAGE
        if looks.arrivals == PERIODIC:
            if stage < looks.first:
                return looks.first
            return stage + looks.period - (stage - looks.first) % looks.period
        if looks.arrivals == LISTED or looks.arrivals == VARYING:
            for later in range(stage + 1, horizon + 1):
                rate = looks.rates[later - 1] if looks.arrivals == LISTED else rate_at(later)
                if rng.random() < rate:
                    return later
                if control[0] != 0:  # stopped: the loop sees it, too
                    return NO_STAGE
        return NO_STAGE

    return jit(next_arrival)


@cache
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

    return jit(drawn_arm)
