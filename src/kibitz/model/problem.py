r"""Bandit problems: the reward distribution of each arm.

The rewards of arm i are independent with mean μ_i. The gap of arm i is :math:`\Delta_i = \max_j
\mu_j - \mu_i`. If each arm i is pulled n_i times, the regret is :math:`\sum_i \Delta_i n_i` (paper,
section 2.1). A problem has a sub-Gaussian scale σ: the rewards X of every arm i satisfy, for all
real λ,

.. math:: \log E e^{\lambda (X - \mu_i)} \le \sigma^2 \lambda^2 / 2 .

Policies assume scale 1 and observe rewards in units of σ.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kibitz._validation import invalid, numbers, seed_number, whole

MAX_REWARD = 1e100  # limits rewards and means, so that sums and squares do not overflow


@dataclass(frozen=True, eq=False)
class Problem:
    """A bandit problem; create it with `gaussian`, `bernoulli`, `empirical` or `from_scipy`.

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
        The levels of these quantiles, for SciPy distributions; empty for other problems.
    """

    kind: str
    means: NDArray[np.float64]
    sds: NDArray[np.float64]
    scale: float
    support: tuple[float, float]
    spec: dict[str, Any]
    values: tuple[NDArray[np.float64], ...] = ()
    levels: tuple[NDArray[np.float64], ...] = ()

    @property
    def n_arms(self) -> int:
        """The number of arms, K."""
        return self.means.size

    @property
    def gaps(self) -> NDArray[np.float64]:
        """The gap of each arm to the best arm, \\Delta_i."""
        gaps: NDArray[np.float64] = self.means.max() - self.means
        return gaps

    @property
    def is_binary(self) -> bool:
        """Whether every reward is 0 or 1."""
        if self.values:
            return all(bool(np.isin(arm, (0, 1)).all()) for arm in self.values)
        return self.kind == "bernoulli"

    @property
    def optimal(self) -> NDArray[np.bool_]:
        """Whether each arm is optimal: one boolean per arm. Several arms can be optimal."""
        optimal: NDArray[np.bool_] = self.gaps == 0
        return optimal

    def quantile(self, arm: int, u: float) -> float:
        """Return the quantile of an arm at level `u`, in [0, 1), from the table of the arm.

        The engine draws rewards of SciPy distributions in the same way (`engine.environment.draw`).
        """
        levels, values = self.levels[arm], self.values[arm]
        k = int(np.searchsorted(levels, u, side="right")) - 1
        share = (u - levels[k]) / (levels[k + 1] - levels[k])
        return float(values[k] + share * (values[k + 1] - values[k]))

    def __repr__(self) -> str:
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


def check_problem(problem: object) -> Problem:
    """Return the problem; raise ValueError if it is not a `Problem`."""
    if not isinstance(problem, Problem):
        raise invalid("problem", "a problem such as gaussian([1, 0])", problem)
    return problem


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
