r"""The bandit problem: what each arm pays.

Arm i pays independent rewards of mean \mu_i; its gap is \Delta_i = \max_j \mu_j - \mu_i, and the
regret of n_i pulls of each arm is \sum_i \Delta_i n_i (paper, section 2.1). A problem also promises a
sub-Gaussian scale \sigma: \log E e^{\lambda (X - \mu)} \le \sigma^2 \lambda^2 / 2 for each arm.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kibitz.compiling.jit import jit_inner
from kibitz.simulator.streams import Stream, normal, uniform

GAUSSIAN, BERNOULLI, TABLE = 0, 1, 2


class Law(NamedTuple):
    """A problem as the compiled loops see it."""

    kind: int
    means: NDArray[np.float64]
    sds: NDArray[np.float64]
    values: NDArray[np.float64]  # of all arms, one after another (TABLE)
    offsets: NDArray[np.int64]  # where each arm's values begin, and where the last one's end


@dataclass(frozen=True, eq=False)
class Problem:
    """A bandit problem; made by `gaussian`, `bernoulli` or `table`.

    Attributes
    ----------
    law
        "gaussian", "bernoulli" or "table".
    means
        The mean reward of each arm, \\mu.
    scale
        The sub-Gaussian scale \\sigma that all arms promise.
    support
        The smallest and the largest possible reward.
    setting
        What made the problem, as plain data for saved results.
    compiled
        The problem as the compiled loops see it.
    """

    law: str
    means: NDArray[np.float64]
    scale: float
    support: tuple[float, float]
    setting: dict[str, Any]
    compiled: Law

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
        return self.gaps == 0

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
    mu = _means(means)
    sds = np.asarray(sd, dtype=float)
    if sds.shape not in {(), mu.shape}:
        raise ValueError(f"sd must be one number or one for each of {mu.size} arms, got {sd!r}")
    if not np.all((sds >= 0) & np.isfinite(sds)):
        raise ValueError(f"sd must be non-negative and finite, got {sd!r}")
    spread = np.broadcast_to(sds, mu.shape).copy()
    setting = {"law": "gaussian", "means": mu.tolist(), "sd": sds.tolist()}
    law = Law(GAUSSIAN, mu, spread, np.zeros(0), np.zeros(1, np.int64))
    everything = (-np.inf, np.inf)
    return Problem("gaussian", mu, float(spread.max()), everything, setting, law)


def bernoulli(means: ArrayLike) -> Problem:
    """Return a problem whose arms pay 1 with probability `means[arm]`, else 0."""
    mu = _means(means)
    if not np.all((mu >= 0) & (mu <= 1)):
        raise ValueError(f"means must be in [0, 1] for bernoulli rewards, got {mu.tolist()!r}")
    law = Law(BERNOULLI, mu, np.sqrt(mu * (1 - mu)), np.zeros(0), np.zeros(1, np.int64))
    setting = {"law": "bernoulli", "means": mu.tolist()}
    return Problem("bernoulli", mu, 0.5, (0.0, 1.0), setting, law)


def table(rewards: Sequence[Sequence[float]]) -> Problem:
    """Return a problem that draws each arm's reward from a list of values, all equally likely.

    This is the way to plug in real rewards: arm i pays a value drawn, with replacement, from
    `rewards[i]`. Lists may have different lengths.
    """
    arms = [np.asarray(values, dtype=float) for values in rewards]
    if len(arms) < 2:
        raise ValueError(f"rewards must be a list of values for at least 2 arms, got {len(arms)}")
    for arm, values in enumerate(arms):
        if values.ndim != 1 or values.size == 0 or not np.all(np.isfinite(values)):
            raise ValueError(
                f"rewards[{arm}] must be a non-empty list of finite numbers, got {rewards[arm]!r}"
            )
    offsets = np.concatenate([[0], np.cumsum([values.size for values in arms])]).astype(np.int64)
    mu = np.array([values.mean() for values in arms])
    sds = np.array([values.std() for values in arms])
    low = float(min(values.min() for values in arms))
    high = float(max(values.max() for values in arms))
    scale = float(max(values.max() - values.min() for values in arms)) / 2  # Hoeffding's lemma
    setting = {"law": "table", "rewards": [values.tolist() for values in arms]}
    law = Law(TABLE, mu, sds, np.concatenate(arms), offsets)
    return Problem("table", mu, scale, (low, high), setting, law)


def _means(means: ArrayLike) -> NDArray[np.float64]:
    try:
        mu = np.array(means, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"means must be a list of numbers, got {means!r}") from None
    if mu.ndim != 1 or mu.size < 2:
        raise ValueError(f"means must be a list of at least 2 numbers, got {means!r}")
    if not np.all(np.isfinite(mu)):
        raise ValueError(f"means must be finite, got {means!r}")
    return mu


@jit_inner
def draw(law: Law, arm: int, stream: Stream) -> float:
    """Draw a reward of `arm`; what is taken from the stream does not depend on the arm."""
    if law.kind == GAUSSIAN:
        return law.means[arm] + law.sds[arm] * normal(stream)
    u = uniform(stream)
    if law.kind == BERNOULLI:
        return 1.0 if u < law.means[arm] else 0.0
    first = law.offsets[arm]
    return law.values[first + int(u * (law.offsets[arm + 1] - first))]
