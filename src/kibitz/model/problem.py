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

from kibitz._validation import numbers, quoted, refused, whole

LARGEST = 1e100  # of a mean or a reward: sums and squares of it are still numbers


@dataclass(frozen=True, eq=False)
class Problem:
    """A bandit problem; made by `gaussian`, `bernoulli` or `table`.

    Attributes
    ----------
    law
        "gaussian", "bernoulli" or "table".
    means
        The mean reward of each arm, \\mu.
    sds
        The standard deviation of each arm's rewards.
    scale
        The sub-Gaussian scale \\sigma that all arms promise.
    support
        The smallest and the largest possible reward.
    setting
        What made the problem, as plain data for saved results.
    rewards
        The values of each arm, for tables only.
    """

    law: str
    means: NDArray[np.float64]
    sds: NDArray[np.float64]
    scale: float
    support: tuple[float, float]
    setting: dict[str, Any]
    rewards: tuple[NDArray[np.float64], ...] = ()

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
    def optimal(self) -> NDArray[np.bool_]:
        """Which arms are optimal; there may be several."""
        optimal: NDArray[np.bool_] = self.gaps == 0
        return optimal

    def __repr__(self) -> str:
        arguments = ", ".join(f"{k}={v!r}" for k, v in self.setting.items() if k != "law")
        return f"{self.law}({arguments})"


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
        raise refused("sd", f"one number or one for each of {mu.size} arms", sd)
    if not np.all(sds >= 0):
        raise refused("sd", "non-negative and finite", sd)
    if not np.all((sds == 0) | ((sds >= 1 / LARGEST) & (sds <= LARGEST))):
        raise refused("sd", f"0, or between {1 / LARGEST:g} and {LARGEST:g}", sd)
    setting = {"law": "gaussian", "means": mu.tolist(), "sd": sds.tolist()}
    if single:
        setting["sd"] = float(sds[0])
    spread = np.broadcast_to(sds, mu.shape).copy()
    everything = (-np.inf, np.inf)
    return Problem("gaussian", mu, spread, float(spread.max()), everything, setting)


def bernoulli(means: ArrayLike) -> Problem:
    """Return a problem whose arms pay 1 with probability `means[arm]`, else 0."""
    mu = numbers(means, "means", 2)
    if not np.all((mu >= 0) & (mu <= 1)):
        raise refused("means", "in [0, 1] for bernoulli rewards", mu)
    setting = {"law": "bernoulli", "means": mu.tolist()}
    return Problem("bernoulli", mu, np.sqrt(mu * (1 - mu)), 0.5, (0.0, 1.0), setting)


def table(rewards: Sequence[Sequence[float]]) -> Problem:
    """Return a problem that draws each arm's reward from a list of values, all equally likely.

    This is the way to plug in real rewards: arm i pays a value drawn, with replacement, from
    `rewards[i]`. Lists may have different lengths.
    """
    if isinstance(rewards, np.ndarray):
        rewards = np.atleast_1d(rewards).tolist()
    if not isinstance(rewards, list | tuple) or len(rewards) < 2:
        raise refused("rewards", "a list of values for at least 2 arms", rewards)
    arms = tuple(
        _within_limits(numbers(values, f"rewards[{arm}]"), f"rewards[{arm}]")
        for arm, values in enumerate(rewards)
    )
    mu = np.array([values.mean() for values in arms])
    sds = np.array([values.std() for values in arms])
    low = float(min(values.min() for values in arms))
    high = float(max(values.max() for values in arms))
    scale = float(max(values.max() - values.min() for values in arms)) / 2  # Hoeffding's lemma
    setting = {"law": "table", "rewards": [values.tolist() for values in arms]}
    return Problem("table", mu, sds, scale, (low, high), setting, arms)


def checked_problem(problem: object) -> Problem:
    """Return a problem, or refuse what is none."""
    if not isinstance(problem, Problem):
        raise ValueError(f"problem must be one such as gaussian([1, 0]), got {quoted(problem)}")
    return problem


def _within_limits(values: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    if not np.all(np.abs(values) <= LARGEST):
        raise refused(name, f"between -{LARGEST:g} and {LARGEST:g}", values)
    return values


def drawn(law: Callable[[np.random.Generator], Problem], seed: int) -> Callable[[int], Problem]:
    """Return problems drawn from a law: a function of the number of the draw, for `sweep`.

    A policy is judged on many problems rather than on one::

        law = lambda rng: gaussian(rng.normal(size=5))
        data = sweep(drawn(law, seed=7), active(0.1), ucb(), draw=range(100), ...)
        data.final_regret.mean("draw")

    Parameters
    ----------
    law
        A function of a NumPy generator that returns a problem; always with as many arms.
    seed
        Of the draws, a whole number. Draw n depends on (seed, n) alone.
    """
    if not callable(law):
        raise refused("law", "a function of a generator that returns a problem", law)
    seed = whole(seed, "seed")

    def problem(draw: int) -> Problem:
        rng = np.random.default_rng([seed, whole(draw, "draw")])
        return checked_problem(law(rng))

    return problem
