r"""Bandit problems: the reward distribution of each arm.

The rewards of arm i are independent with mean μ_i. The gap of arm i is :math:`\Delta_i = \max_j
\mu_j - \mu_i`. If each arm i is pulled n_i times, the regret is :math:`\sum_i \Delta_i n_i` (paper,
section 2.1). A problem has a sub-Gaussian scale σ: the rewards X of every arm i satisfy, for all
real λ,

.. math:: \log E e^{\lambda (X - \mu_i)} \le \sigma^2 \lambda^2 / 2 .

Policies assume scale 1 and observe rewards in units of σ.

The problem may change with time (`changing`, `drifting`). It then consists of pieces. Each piece is a
problem that is played from its start stage until the next piece starts. The regret is dynamic: a pull
costs the gap that the pulled arm has at the stage of the pull.
"""

import json
import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kibitz._hashing import source_hash
from kibitz._validation import array, invalid, numbers, one_of, seed_number, whole

MAX_REWARD = 1e100  # limits rewards and means, so that sums and squares do not overflow
MAX_PIECES = 10**6
MAX_SPEC_PIECES = 1000  # more pieces are described by a hash
MAX_LISTED_PIECES = 5  # pieces that a repr lists
N_DRIFT_PIECES = 1000  # pieces of a drift by default


@dataclass(frozen=True, eq=False)
class Problem:
    """A bandit problem; create it with `gaussian`, `bernoulli`, `empirical` or `from_scipy`.

    `changing` and `drifting` create a problem that changes with time. Its `means`, `sds`, `gaps` and
    `optimal` have one row per piece.

    Attributes
    ----------
    kind
        "gaussian", "bernoulli", "empirical" or "scipy".
    means
        The mean reward of each arm, \\mu.
    sds
        The standard deviation of each arm's rewards.
    scale
        The sub-Gaussian scale \\sigma, valid for all arms.
    support
        The smallest and the largest possible reward.
    spec
        The problem as plain data, for saved results.
    values
        The equally likely rewards of each arm of an empirical problem; the quantiles of each arm of a
        problem with SciPy distributions; empty for other problems.
    levels
        The levels of the quantiles in `values`, for SciPy distributions; empty for other problems.
    starts
        The stage at which each piece begins; (1,) if the problem does not change.
    pieces
        The problem of each piece; empty if the problem does not change.
    """

    kind: str
    means: NDArray[np.float64]
    sds: NDArray[np.float64]
    scale: float
    support: tuple[float, float]
    spec: dict[str, Any]
    values: tuple[NDArray[np.float64], ...] = ()
    levels: tuple[NDArray[np.float64], ...] = ()
    starts: tuple[int, ...] = (1,)
    pieces: "tuple[Problem, ...]" = ()

    @property
    def n_arms(self) -> int:
        """The number of arms, K."""
        return int(self.means.shape[-1])

    @property
    def gaps(self) -> NDArray[np.float64]:
        """The gap of each arm to the best arm, \\Delta_i."""
        gaps: NDArray[np.float64] = self.means.max(axis=-1, keepdims=True) - self.means
        return gaps

    @property
    def is_binary(self) -> bool:
        """Whether every reward is 0 or 1."""
        if self.pieces:
            return all(piece.is_binary for piece in self.pieces)
        if self.values:
            return all(bool(np.isin(arm, (0, 1)).all()) for arm in self.values)
        return self.kind == "bernoulli"

    @property
    def optimal(self) -> NDArray[np.bool_]:
        """Whether each arm is optimal: one boolean per arm. Several arms can be optimal."""
        optimal: NDArray[np.bool_] = self.gaps == 0
        return optimal

    def at(self, stage: int) -> "Problem":
        """Return the piece that is played at a stage, or this problem if it does not change."""
        if not self.pieces:
            return self
        return self.pieces[bisect_right(self.starts, whole(stage, "stage", 1)) - 1]

    def quantile(self, arm: int, u: float) -> float:
        """Return the quantile of an arm's SciPy distribution at a level `u` in [0, 1).

        The quantile is interpolated in a table. `engine.environment.draw` draws rewards from the same
        table.
        """
        levels, values = self.levels[arm], self.values[arm]
        k = int(np.searchsorted(levels, u, side="right")) - 1
        share = (u - levels[k]) / (levels[k + 1] - levels[k])
        return float(values[k] + share * (values[k + 1] - values[k]))

    def __repr__(self) -> str:
        if self.pieces:
            pairs = list(zip(self.starts, self.pieces, strict=True))
            pieces = ", ".join(map(repr, pairs[:MAX_LISTED_PIECES]))
            return f"changing([{pieces}{', ...' if len(pairs) > MAX_LISTED_PIECES else ''}])"
        arguments = ", ".join(f"{k}={v!r}" for k, v in self.spec.items() if k != "kind")
        return f"{self.kind}({arguments})"


def gaussian(means: ArrayLike, sd: float | Sequence[float] = 1.0) -> Problem:
    """Return a problem with Gaussian rewards.

    Parameters
    ----------
    means
        The mean reward of each arm, for at least two arms.
    sd
        The standard deviation of the rewards: one number for all arms, or one number per arm.
    """
    mu = _check_limits(numbers(means, "means", 2), "means")
    is_scalar = not isinstance(sd, Sequence) and np.ndim(sd) == 0
    sds = numbers([sd] if is_scalar else sd, "sd")
    if not is_scalar and sds.shape != mu.shape:
        raise invalid("sd", f"one number or a list of {mu.size} numbers, one per arm", sd)
    if not np.all(sds >= 0):
        raise invalid("sd", "non-negative and finite", sd)
    if not np.all((sds == 0) | ((sds >= 1 / MAX_REWARD) & (sds <= MAX_REWARD))):
        raise invalid("sd", f"0, or between {1 / MAX_REWARD:g} and {MAX_REWARD:g}", sd)
    spec = {"kind": "gaussian", "means": mu.tolist(), "sd": sds.tolist()}
    if is_scalar:
        spec["sd"] = float(sds[0])
    sd_per_arm = np.broadcast_to(sds, mu.shape).copy()
    support = (-np.inf, np.inf)
    return Problem("gaussian", mu, sd_per_arm, float(sd_per_arm.max()), support, spec)


def bernoulli(means: ArrayLike) -> Problem:
    """Return a problem with rewards 0 or 1; `means` holds each arm's probability of reward 1."""
    mu = numbers(means, "means", 2)
    if not np.all((mu >= 0) & (mu <= 1)):
        raise invalid("means", "in [0, 1] for bernoulli rewards", mu)
    spec = {"kind": "bernoulli", "means": mu.tolist()}
    return Problem("bernoulli", mu, np.sqrt(mu * (1 - mu)), 0.5, (0.0, 1.0), spec)


def empirical(rewards: Sequence[Sequence[float]]) -> Problem:
    """Return a problem that draws each reward of arm i from the list `rewards[i]`, with replacement.

    Use this function for recorded rewards. The lists may have different lengths.
    """
    if isinstance(rewards, np.ndarray):
        rewards = np.atleast_1d(rewards).tolist()
    if not isinstance(rewards, list | tuple) or len(rewards) < 2:
        raise invalid("rewards", "a list of values for at least 2 arms", rewards)
    values_per_arm = tuple(
        _check_limits(numbers(values, f"rewards[{arm}]"), f"rewards[{arm}]")
        for arm, values in enumerate(rewards)
    )
    mu = np.array([values.mean() for values in values_per_arm])
    sds = np.array([values.std() for values in values_per_arm])
    low = float(min(values.min() for values in values_per_arm))
    high = float(max(values.max() for values in values_per_arm))
    scale = (
        float(max(values.max() - values.min() for values in values_per_arm)) / 2
    )  # Hoeffding's lemma
    spec = {"kind": "empirical", "rewards": [values.tolist() for values in values_per_arm]}
    return Problem("empirical", mu, sds, scale, (low, high), spec, values_per_arm)


def changing(pieces: Sequence[tuple[int, Problem]]) -> Problem:
    """Return a problem that changes with time: at each start stage, another problem begins.

    The regret is dynamic: a pull costs the gap that the pulled arm has at the stage of the pull. The
    last piece has no end, and a start beyond the horizon is never reached.

    Parameters
    ----------
    pieces
        Pairs of a start stage and a problem, as in `[(1, gaussian([1, 0])), (3001, gaussian([1,
        2]))]`. The first start is 1, and the starts increase. All problems must have the same number
        of arms and the same kind of rewards. The sub-Gaussian scale is the largest of all pieces.
    """
    if not isinstance(pieces, list | tuple) or not pieces:
        raise invalid("pieces", "a list of pairs (start stage, problem)", pieces)
    if len(pieces) > MAX_PIECES:
        raise invalid("pieces", f"at most {MAX_PIECES} pairs", len(pieces))
    starts: list[int] = []
    problems: list[Problem] = []
    for number, pair in enumerate(pieces):
        name = f"pieces[{number}]"
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise invalid(name, "a pair (start stage, problem)", pair)
        starts.append(whole(pair[0], f"the start of {name}", 1))
        problems.append(check_stationary(pair[1], name))
        if number == 0 and starts[0] != 1:
            raise invalid("the start of pieces[0]", "1, the first stage", starts[0])
        if number > 0 and starts[-1] <= starts[-2]:
            raise invalid(f"the start of {name}", f"after stage {starts[-2]}", starts[-1])
        for quantity in ("kind", "n_arms"):
            expected, got = getattr(problems[0], quantity), getattr(problems[-1], quantity)
            if got != expected:
                texts = {"kind": "{} rewards", "n_arms": "{} arms"}
                condition = f"a problem with {texts[quantity].format(expected)}, as pieces[0]"
                raise ValueError(f"{name} must be {condition}, got {texts[quantity].format(got)}")
    if len(problems) == 1:
        return problems[0]
    first, specs = problems[0], [problem.spec for problem in problems]
    spec: dict[str, Any] = {"kind": "changing", "starts": starts, "pieces": specs}
    if len(problems) > MAX_SPEC_PIECES:
        content = source_hash(json.dumps([starts, specs]))[:16]
        spec = {"kind": "changing", "n_pieces": len(problems), "hash": content}
    return Problem(
        first.kind,
        np.array([problem.means for problem in problems]),
        np.array([problem.sds for problem in problems]),
        max(problem.scale for problem in problems),
        (min(p.support[0] for p in problems), max(p.support[1] for p in problems)),
        spec,
        starts=tuple(starts),
        pieces=tuple(problems),
    )


def drifting(
    means: Callable[[int], ArrayLike],
    horizon: int,
    *,
    step: int | None = None,
    rewards: str = "gaussian",
    sd: float | Sequence[float] = 1.0,
) -> Problem:
    """Return a problem whose means are a function of the stage, updated every `step` stages.

    The means are computed at stages 1, 1 + step, 1 + 2 step, ..., and are constant in between. Assume
    that no mean changes by more than d in `step` stages. The regret of a fixed sequence of pulls then
    differs by at most 2 d per stage from its regret with means that are updated at every stage. After
    the horizon, the last means remain valid.

    Parameters
    ----------
    means
        A function that takes a stage and returns the mean of each arm. It is called in Python, once
        for each piece.
    horizon
        The number of stages to cover.
    step
        The length of a piece; by default about a thousandth of the horizon.
    rewards, sd
        "gaussian", with standard deviation `sd` as in `gaussian`, or "bernoulli".
    """
    if not callable(means):
        raise invalid("means", "a function that takes a stage and returns a list of means", means)
    horizon = whole(horizon, "horizon", 1)
    step = math.ceil(horizon / N_DRIFT_PIECES) if step is None else whole(step, "step", 1)
    one_of(rewards, "rewards", ("gaussian", "bernoulli"))
    if math.ceil(horizon / step) > MAX_PIECES:
        raise ValueError(
            f"step={step} would make {math.ceil(horizon / step)} pieces, more than {MAX_PIECES}; "
            f"use step={math.ceil(horizon / MAX_PIECES)} or more"
        )
    pieces = []
    for stage in range(1, horizon + 1, step):
        row = array(means(stage), f"means({stage})", "a list of at least 2 numbers")
        if row.ndim != 1 or row.size < 2:
            raise invalid(f"means({stage})", "a list of at least 2 numbers", row)
        is_valid = np.isfinite(row) if rewards == "gaussian" else (row >= 0) & (row <= 1)
        if not np.all(is_valid):
            arm = int(np.argmin(is_valid))
            condition = "finite" if rewards == "gaussian" else "in [0, 1] for bernoulli rewards"
            raise ValueError(
                f"the mean of arm {arm} at stage {stage} must be {condition}, got {row[arm]:g}"
            )
        pieces.append((stage, gaussian(row, sd) if rewards == "gaussian" else bernoulli(row)))
    return changing(pieces)


def check_problem(problem: object, name: str = "problem") -> Problem:
    """Return the problem; raise ValueError if it is not a `Problem`."""
    if not isinstance(problem, Problem):
        raise invalid(name, "a problem such as gaussian([1, 0])", problem)
    return problem


def check_stationary(problem: object, name: str = "problem") -> Problem:
    """Return the problem; raise ValueError if it changes with time."""
    if check_problem(problem, name).pieces:
        raise ValueError(
            f"{name} must not change with time, got {len(problem.pieces)} pieces; "  # type: ignore[attr-defined]
            "use one piece, such as problem.at(1)"
        )
    return check_problem(problem, name)


def _check_limits(values: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    if not np.all(np.abs(values) <= MAX_REWARD):
        raise invalid(name, f"between -{MAX_REWARD:g} and {MAX_REWARD:g}", values)
    return values


def random_problems(
    make: Callable[[np.random.Generator], Problem], seed: "int | np.random.SeedSequence"
) -> Callable[[int], Problem]:
    """Return a function that maps a draw number to a random problem, for `sweep`.

    Use this function to evaluate a policy on many problems instead of a single problem::

        make = lambda rng: gaussian(rng.normal(size=5))
        data = sweep(random_problems(make, seed=7), active(0.1), ucb(), draw=range(100), ...)
        data.final_regret.mean("draw")

    Parameters
    ----------
    make
        A function that takes a NumPy generator and returns a problem. All problems must have the same
        number of arms.
    seed
        A whole number or a `numpy.random.SeedSequence`. The problem of draw n depends only on (seed,
        n).
    """
    if not callable(make):
        raise invalid("make", "a function that takes a generator and returns a problem", make)
    seed_value = seed_number(seed)

    def make_problem(draw: int) -> Problem:
        rng = np.random.default_rng([seed_value, whole(draw, "draw")])
        return check_problem(make(rng))

    return make_problem
