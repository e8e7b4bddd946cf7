"""The environment of compiled loops: reward distributions and looks, as records of arrays.

`make_arms` converts a problem into such a record, and `make_looks` converts a feedback. `draw`,
`next_arrival` and `draw_look_arm` sample from these records. To add a reward distribution, add a
constructor to `model.problem` and a case to `make_arms` and `draw` here (and to `leap`, if the engine
should leap with this distribution).
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
from kibitz.model.feedback import Every, Feedback, Shows, check_weights
from kibitz.model.problem import Problem
from kibitz.policies.policy import NEVER as NO_STAGE, Graph

Floats = NDArray[np.float64]

# ---------------------------------------------------------------------------------------------- arms

GAUSSIAN, BERNOULLI, EMPIRICAL, TABULATED = 0, 1, 2, 3
GUIDE_SIZE = 256  # entries per arm that say where to start the search in a table


class Arms(NamedTuple):
    """The reward distributions of all arms, in units of the policy's scale."""

    kind: int
    means: Floats
    sds: Floats  # GAUSSIAN: the standard deviations
    chances: Floats  # BERNOULLI: the probability of a success
    success: float  # BERNOULLI: the reward of a success
    values: Floats  # EMPIRICAL: the observed rewards of all arms; TABULATED: their quantiles
    offsets: NDArray[np.int64]  # EMPIRICAL: arm i has values[offsets[i] : offsets[i + 1]];
    # TABULATED: for each arm, where the levels j / GUIDE_SIZE are
    levels: Floats  # TABULATED: the levels of the quantiles


def make_arms(problem: Problem, scale: float) -> Arms:
    """Return the reward distributions of a problem, in units of `scale`."""
    kinds = {"gaussian": GAUSSIAN, "bernoulli": BERNOULLI, "empirical": EMPIRICAL}
    kind = {**kinds, "scipy": TABULATED}[problem.kind]
    values = np.concatenate([np.zeros(0), *problem.values]) / scale
    offsets = np.cumsum([0, *(arm.size for arm in problem.values)]).astype(np.int64)
    chances = problem.means.copy() if kind == BERNOULLI else np.zeros(0)
    starts = np.arange(GUIDE_SIZE) / GUIDE_SIZE
    if kind == TABULATED:
        guides = [
            offset + np.searchsorted(levels, starts, side="right") - 1
            for offset, levels in zip(offsets, problem.levels, strict=False)
        ]
        offsets = np.concatenate(guides).astype(np.int64)
    return Arms(
        kind,
        problem.means / scale,
        problem.sds / scale,
        chances,
        1 / scale,
        values,
        offsets,
        np.concatenate([np.zeros(0), *problem.levels]),
    )


@jit
def draw(arms: Arms, arm: int, stream: Stream) -> float:
    """Draw a reward of `arm`; the random numbers that a draw uses do not depend on the arm."""
    if arms.kind == GAUSSIAN:
        return arms.means[arm] + arms.sds[arm] * normal(stream)
    u = uniform(stream)
    if arms.kind == BERNOULLI:
        return arms.success if u < arms.chances[arm] else 0.0
    if arms.kind == TABULATED:
        k = arms.offsets[arm * GUIDE_SIZE + int(u * GUIDE_SIZE)]
        while arms.levels[k + 1] <= u:
            k += 1
        share = (u - arms.levels[k]) / (arms.levels[k + 1] - arms.levels[k])
        return arms.values[k] + share * (arms.values[k + 1] - arms.values[k])
    first_value = arms.offsets[arm]
    return arms.values[first_value + int(u * (arms.offsets[arm + 1] - first_value))]


# --------------------------------------------------------------------------------------------- looks

NOBODY, PASSIVE, ACTIVE, FULL = 0, 1, 2, 3  # observers
NEVER, RANDOM, PERIODIC, LISTED, VARYING = 0, 1, 2, 3, 4  # arrivals


class Looks(NamedTuple):
    """The arrivals of looks, and the distribution of the arms that looks show."""

    observer: int
    arrivals: int
    per_arrival: int  # the number of looks at each arrival
    rate: float  # RANDOM: the probability of an arrival at each stage
    expected_wait: float  # RANDOM: -1 / log(1 - rate), the mean of an exponential waiting time
    period: int  # PERIODIC: the number of stages between arrivals
    first: int  # PERIODIC: the stage of the first arrival
    rates: Floats  # LISTED: the rate at each stage
    shares: Floats  # the weight of each arm (at the first stage, if weights vary)
    weights: Floats  # cumulative weights; one row for all stages, or one row for each stage
    varying_weights: bool  # whether weights are a function of the stage


def make_looks(feedback: Feedback, gaps: Floats, horizon: int) -> Looks:
    """Return a feedback as `Looks`; raise ValueError if it does not fit the arms or the horizon."""
    observers = {"bandit": NOBODY, "passive": PASSIVE, "active": ACTIVE, "full": FULL}
    arrivals, rate, expected_wait, period, first, rates = NEVER, 0.0, 0.0, 1, 1, np.zeros(0)
    if isinstance(feedback.rate, Every):
        arrivals, period, first = PERIODIC, feedback.rate.n, feedback.rate.first
    elif callable(feedback.rate):
        arrivals = VARYING
        for stage in _sample_stages(horizon):
            rate_value = float(feedback.rate(stage))
            if not 0 <= rate_value <= 1:
                raise ValueError(f"rate must be in [0, 1], got {rate_value!r} at stage {stage}")
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
        raise invalid("looks", f"fewer than 2^62 over {horizon} stages", feedback.looks)
    weights = np.zeros((1, gaps.size))
    if feedback.observer == "passive":
        weights = _weights_table(feedback, gaps, horizon)
    return Looks(
        observers[feedback.observer],
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
        for stage in _sample_stages(horizon):
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


def _sample_stages(horizon: int) -> Sequence[int]:
    """Return log-spaced stages up to the horizon, for testing a function of the user."""
    return [int(stage) for stage in np.unique(np.geomspace(1, horizon, 50).astype(np.int64))]


def make_look_functions(feedback: Feedback) -> tuple[Any, Any]:
    """Return the functions `next_arrival` and `draw_look_arm` of a feedback."""
    rate = feedback.rate if callable(feedback.rate) else _no_rate
    weight = feedback.weights if callable(feedback.weights) else _no_weight
    return make_next_arrival(rate), make_draw_look_arm(weight)


@jit
def _no_rate(stage: int) -> float:
    return 0.0


@jit
def _no_weight(stage: int, arm: int) -> float:
    return 0.0


@cache
def make_next_arrival(rate_at: Any) -> Any:
    """Return `next_arrival`, which calls `rate_at(stage)` if arrivals are VARYING."""

    def next_arrival(looks: Looks, stage: int, horizon: int, rng: Any, control: Any) -> int:
        """Return the first stage after `stage` at which looks arrive; NO_STAGE if there is none."""
        if looks.arrivals == RANDOM:  # geometric waits: 1 + floor(exponential * expected_wait)
            wait = rng.standard_exponential() * looks.expected_wait
            return stage + 1 + int(wait) if wait < 1e18 else NO_STAGE
        if looks.arrivals == PERIODIC:
            if stage < looks.first:
                return looks.first
            return stage + looks.period - (stage - looks.first) % looks.period
        if looks.arrivals == LISTED or looks.arrivals == VARYING:
            for later_stage in range(stage + 1, horizon + 1):
                rate = (
                    looks.rates[later_stage - 1] if looks.arrivals == LISTED else rate_at(later_stage)
                )
                if rng.random() < rate:
                    return later_stage
                if control[0] != 0:  # the user stopped the run
                    return NO_STAGE
        return NO_STAGE

    return jit(next_arrival)


@cache
def make_draw_look_arm(weight_at: Any) -> Any:
    """Return `draw_look_arm`, which calls `weight_at(stage, arm)` if weights vary."""

    def draw_look_arm(looks: Looks, stage: int, rng: Any) -> int:
        """Draw the arm that a look shows to a passive observer."""
        u = rng.random()
        n_arms = looks.weights.shape[1]
        if looks.varying_weights:
            cumulative_weight = 0.0
            for arm in range(n_arms - 1):
                cumulative_weight += weight_at(stage, arm)
                if u < cumulative_weight:
                    return arm
            return n_arms - 1
        cumulative = looks.weights[stage - 1 if looks.weights.shape[0] > 1 else 0]
        u *= cumulative[-1]
        arm = 0
        while cumulative[arm] <= u and arm < n_arms - 1:
            arm += 1
        return arm

    return jit(draw_look_arm)


# -------------------------------------------------------------------------------------------- graphs

MIN_SKIP_EDGES = 8  # edges; in a shorter row, each edge gets its own random number
MAX_SKIP_PROBABILITY = 0.25  # with larger probabilities, skipping saves nothing
MAX_CHECKED_ARMS = 20  # arms at which the function of a graph that varies is checked


def make_graph(shows: Shows | None, n_arms: int) -> Graph:
    """Return the graph for the engine; if `shows` is None, a pull shows only its own reward.

    A graph that varies with the stage is not stored: the engine calls its function.
    """
    if shows is None or shows.function is not None:
        no_edges = np.zeros(0, np.int64)
        offsets, loops = np.zeros(n_arms + 1, np.int64), np.ones(n_arms)
        return Graph(offsets, no_edges, np.zeros(0), loops, np.zeros(n_arms))
    if shows.n_arms != n_arms:
        raise ValueError(
            f"shows must have one row and one column for each of {n_arms} arms, got {shows.n_arms}"
        )
    pulled_arms = shows.pulled_arms
    is_edge = pulled_arms != shows.arms
    arms, probabilities = shows.arms[is_edge], shows.probabilities[is_edge]
    row_sizes = np.bincount(pulled_arms[is_edge], minlength=n_arms)
    offsets = np.concatenate([[0], np.cumsum(row_sizes)]).astype(np.int64)
    skip = np.zeros(n_arms)
    for arm in np.flatnonzero(row_sizes >= MIN_SKIP_EDGES):
        row = probabilities[offsets[arm] : offsets[arm + 1]]
        if row[0] <= MAX_SKIP_PROBABILITY and np.all(row == row[0]):
            skip[arm] = 1 / math.log1p(-row[0])
    return Graph(offsets, arms, probabilities, shows.own, skip)


def average_own(shows: Shows, n_arms: int, horizon: int) -> Floats:
    """Return the probability that a pull shows its own reward, for each arm.

    For a graph that varies, check the function and return the average over some stages.
    """
    function = shows.function
    if function is None:
        return shows.own
    stages = _sample_stages(horizon)
    arms = np.unique(np.linspace(0, n_arms - 1, MAX_CHECKED_ARMS).astype(np.int64)).tolist()
    matrices = np.array(
        [[[float(function(stage, i, j)) for j in arms] for i in arms] for stage in stages]
    )
    is_valid = (matrices >= 0) & (matrices <= 1)
    if not is_valid.all():
        n, i, j = np.argwhere(~is_valid)[0]
        raise ValueError(
            f"shows must be in [0, 1], got {float(matrices[n, i, j])!r} at stage {stages[n]} for a "
            f"pull of arm {arms[i]} and arm {arms[j]}"
        )
    if len(arms) == n_arms and (hidden := matrices.max(axis=(0, 1)) == 0).any():
        raise ValueError(
            f"no pull shows arm {int(np.argmax(hidden))} at the stages that were checked, so no "
            "policy can learn whether it is the best arm"
        )
    own = np.ones(n_arms)
    own[arms] = matrices.diagonal(axis1=1, axis2=2).mean(axis=0)
    return own


@jit
def show_nothing(stage: int, pulled: int, arm: int) -> float:
    return 0.0


@jit
def next_shown(graph: Graph, pulled: int, edge: int, stream: Stream) -> Any:
    """Return the first edge that a pull shows among `edge` and the later edges of its row.

    Return the end of the row if the pull shows none of these edges.
    In a row with equal small probabilities, the number of edges before the next shown edge is
    geometric, so one random number is enough for many edges.
    """
    end = graph.offsets[pulled + 1]
    if edge < end and graph.skip[pulled] < 0:
        n_skipped = math.log1p(-uniform(stream)) * graph.skip[pulled]
        return edge + int(n_skipped) if n_skipped < end - edge else end
    while edge < end:
        probability = graph.probabilities[edge]
        if probability >= 1 or uniform(stream) < probability:
            return edge
        edge += 1
    return end


# -------------------------------------------------------------------------------------------- pieces


class Pieces(NamedTuple):
    """The data in which the pieces of a changing problem differ, with one row per piece.

    `start_piece` copies a row into the arrays of `Arms`, `Looks` and the gaps, from which the engine
    plays. Stationary problems have no `Pieces`.
    """

    starts: NDArray[np.int64]
    gaps: Floats
    means: Floats
    sds: Floats
    chances: Floats
    offsets: NDArray[np.int64]
    shares: Floats  # no rows if the weights of looks do not depend on the gaps
    weights: Floats
    counts: NDArray[np.int64]  # the pulls and the looks of each arm in earlier pieces of the run
    carried: Floats  # one number: the regret of the earlier pieces of the run


def make_pieces(problem: Problem, feedback: Feedback, arms: Arms) -> tuple[Arms, Pieces]:
    """Return `arms` with the tables of all pieces, and the pieces of a changing problem.

    `arms` are the arms of the first piece.
    """
    scale = 1 / arms.success
    rows = [make_arms(piece, scale) for piece in problem.pieces]
    first_values = np.cumsum([0, *(row.values.size for row in rows[:-1])])
    shares = [
        _name_piece_weights(feedback, piece.gaps, start)
        for piece, start in zip(problem.pieces, problem.starts, strict=True)
        if feedback.observer == "passive" and isinstance(feedback.weights, str)
    ]
    share_rows = np.array(shares).reshape(-1, problem.n_arms)
    pieces = Pieces(
        np.array(problem.starts, np.int64),
        problem.gaps,
        np.array([row.means for row in rows]),
        np.array([row.sds for row in rows]),
        np.array([row.chances for row in rows]),
        np.array([row.offsets + n for row, n in zip(rows, first_values, strict=True)]),
        share_rows,
        np.cumsum(share_rows, axis=1),
        np.zeros((2, problem.n_arms), np.int64),
        np.zeros(1),
    )
    values, levels = (np.concatenate([getattr(row, k) for row in rows]) for k in ("values", "levels"))
    return arms._replace(values=values, levels=levels), pieces


def _name_piece_weights(feedback: Feedback, gaps: Floats, start: int) -> Floats:
    try:
        return feedback.static_weights(gaps)
    except ValueError as error:
        raise ValueError(f"{error}, in the piece that starts at stage {start}") from None


@jit
def copy_row(rows: Any, row: int, target: Any) -> None:
    """Copy a row of a matrix; a slice assignment would allocate memory."""
    for k in range(target.size):
        target[k] = rows[row, k]


@jit
def start_piece(pieces: Pieces, piece: int, arms: Arms, looks: Looks, gaps: Floats) -> None:
    """Copy the rewards, weights of looks and gaps of a piece into the arrays that the loop reads."""
    copy_row(pieces.gaps, piece, gaps)
    copy_row(pieces.means, piece, arms.means)
    copy_row(pieces.sds, piece, arms.sds)
    copy_row(pieces.chances, piece, arms.chances)
    copy_row(pieces.offsets, piece, arms.offsets)
    if pieces.shares.shape[0] > 0:
        copy_row(pieces.shares, piece, looks.shares)
        copy_row(pieces.weights, piece, looks.weights[0])
