r"""The bandit problem: what each arm pays.

Arm i pays independent rewards of mean μ_i; its gap is :math:`\Delta_i = \max_j \mu_j - \mu_i`, and
the regret of n_i pulls of each arm is :math:`\sum_i \Delta_i n_i` (paper, section 2.1). A problem
also promises a sub-Gaussian scale σ, with

.. math:: \log E e^{\lambda (X - \mu)} \le \sigma^2 \lambda^2 / 2

for each arm. Policies are made for scale 1 and see rewards in units of σ.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kibitz._validation import invalid, numbers, short_repr, whole

LARGEST = 1e100  # of a mean or a reward: sums and squares of it are still numbers


@dataclass(frozen=True, eq=False)
class Problem:
    """A bandit problem; made by `gaussian`, `bernoulli` or `empirical`.

    Attributes
    ----------
    kind
        "gaussian", "bernoulli" or "empirical".
    means
        The mean reward of each arm, \\mu.
    sds
        The standard deviation of each arm's rewards.
    scale
        The sub-Gaussian scale \\sigma that all arms promise.
    support
        The smallest and the largest possible reward.
    spec
        What made the problem, as plain data for saved results.
    values
        The values of each arm, for empirical problems only.
    """

    kind: str
    means: NDArray[np.float64]
    sds: NDArray[np.float64]
    scale: float
    support: tuple[float, float]
    spec: dict[str, Any]
    values: tuple[NDArray[np.float64], ...] = ()

    @property
    def n_arms(self) -> int:
        """The number of arms, K."""
        return self.means.size

    @property
    def gaps(self) -> NDArray[np.float64]:
        """How much worse than the best each arm is, \\Delta_i."""
        gaps: NDArray[np.float64] = self.means.max() - self.means
        return gaps

    @property
    def is_binary(self) -> bool:
        """Whether every reward is 0 or 1."""
        values = [np.unique(arm) for arm in self.values]
        return self.kind == "bernoulli" or (
            bool(values) and all(np.isin(arm, (0, 1)).all() for arm in values)
        )

    @property
    def optimal(self) -> NDArray[np.bool_]:
        """Which arms are optimal; there may be several."""
        optimal: NDArray[np.bool_] = self.gaps == 0
        return optimal

    def __repr__(self) -> str:
        arguments = ", ".join(f"{k}={v!r}" for k, v in self.spec.items() if k != "kind")
        return f"{self.kind}({arguments})"


def gaussian(means: ArrayLike, sd: float | Sequence[float] = 1.0) -> Problem:
    """Return a problem with Gaussian rewards.

    Parameters
    ----------
    means
        The mean of each arm; at least two.
    sd
        The standard deviation, common to all arms or one for each.
    """
    mu = _within_limits(numbers(means, "means", 2), "means")
    single = np.ndim(sd) == 0 if not isinstance(sd, str | bytes) else False
    sds = numbers([sd] if single else sd, "sd")
    if not single and sds.shape != mu.shape:
        raise invalid("sd", f"one number or one for each of {mu.size} arms", sd)
    if not np.all(sds >= 0):
        raise invalid("sd", "non-negative and finite", sd)
    if not np.all((sds == 0) | ((sds >= 1 / LARGEST) & (sds <= LARGEST))):
        raise invalid("sd", f"0, or between {1 / LARGEST:g} and {LARGEST:g}", sd)
    spec = {"kind": "gaussian", "means": mu.tolist(), "sd": sds.tolist()}
    if single:
        spec["sd"] = float(sds[0])
    spread = np.broadcast_to(sds, mu.shape).copy()
    everything = (-np.inf, np.inf)
    return Problem("gaussian", mu, spread, float(spread.max()), everything, spec)


def bernoulli(means: ArrayLike) -> Problem:
    """Return a problem whose arms pay 1 with probability `means[arm]`, else 0."""
    mu = numbers(means, "means", 2)
    if not np.all((mu >= 0) & (mu <= 1)):
        raise invalid("means", "in [0, 1] for bernoulli rewards", mu)
    spec = {"kind": "bernoulli", "means": mu.tolist()}
    return Problem("bernoulli", mu, np.sqrt(mu * (1 - mu)), 0.5, (0.0, 1.0), spec)


def empirical(rewards: Sequence[Sequence[float]]) -> Problem:
    """Return a problem that draws each arm's reward from a list of values, all equally likely.

    This is the way to plug in real rewards: arm i pays a value drawn, with replacement, from
    `rewards[i]`. Lists may have different lengths.
    """
    if isinstance(rewards, np.ndarray):
        rewards = np.atleast_1d(rewards).tolist()
    if not isinstance(rewards, list | tuple) or len(rewards) < 2:
        raise invalid("rewards", "a list of values for at least 2 arms", rewards)
    arms = tuple(
        _within_limits(numbers(values, f"rewards[{arm}]"), f"rewards[{arm}]")
        for arm, values in enumerate(rewards)
    )
    mu = np.array([values.mean() for values in arms])
    sds = np.array([values.std() for values in arms])
    low = float(min(values.min() for values in arms))
    high = float(max(values.max() for values in arms))
    scale = float(max(values.max() - values.min() for values in arms)) / 2  # Hoeffding's lemma
    spec = {"kind": "empirical", "rewards": [values.tolist() for values in arms]}
    return Problem("empirical", mu, sds, scale, (low, high), spec, arms)


def check_problem(problem: object) -> Problem:
    """Return a problem, or refuse what is none."""
    if not isinstance(problem, Problem):
        raise ValueError(f"problem must be one such as gaussian([1, 0]), got {short_repr(problem)}")
    return problem


def _within_limits(values: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    if not np.all(np.abs(values) <= LARGEST):
        raise invalid(name, f"between -{LARGEST:g} and {LARGEST:g}", values)
    return values


def random_problems(
    make: Callable[[np.random.Generator], Problem], seed: int
) -> Callable[[int], Problem]:
    """Return a function from the number of a draw to a random problem, for `sweep`.

    It serves to judge a policy on many problems rather than on one::

        make = lambda rng: gaussian(rng.normal(size=5))
        data = sweep(random_problems(make, seed=7), active(0.1), ucb(), draw=range(100), ...)
        data.final_regret.mean("draw")

    Parameters
    ----------
    make
        A function of a NumPy generator that returns a problem, always with the same number of arms.
    seed
        The seed, a whole number. Draw n depends on (seed, n) only.
    """
    if not callable(make):
        raise invalid("make", "a function of a generator that returns a problem", make)
    seed = whole(seed, "seed")

    def problem(draw: int) -> Problem:
        rng = np.random.default_rng([seed, whole(draw, "draw")])
        return check_problem(make(rng))

    return problem
