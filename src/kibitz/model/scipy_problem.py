"""Problems whose rewards have any distribution of SciPy.

A reward is Q(u), where u is uniform on [0, 1) and Q is a table of the quantile function: a list of
levels, the quantiles at these levels, and linear interpolation in between. A jump of Q, as in a
discrete distribution, is a level that occurs twice.

For a continuous distribution, the levels are k / 2^14 and, from the median towards both ends, 16
levels per factor of two down to 2^-44. The distribution functions of SciPy and of the rewards agree
at all levels and are monotone, so they differ by at most `MAX_ERROR` = 2^-14 anywhere (Kolmogorov
distance). For a smooth density, they differ by less than 10^-6. Rewards beyond the quantiles at 2^-44
and 1 - 2^-44 do not occur. SciPy's `cdf` is computed at all quantiles: if it differs from the level
by more than 10^-6 beyond the rounding of the quantile, the distribution is rejected.
For a discrete distribution, the table has all values with their exact probabilities, except for
values in tails of probability at most 2^-44.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kibitz._hashing import source_hash
from kibitz._progress import show_progress
from kibitz._validation import invalid, positive
from kibitz.model.problem import MAX_REWARD, Problem

Floats = NDArray[np.float64]

MAX_ERROR = 2.0**-14  # the largest difference between distribution functions
MIN_TAIL = 2.0**-44
MAX_VALUES = 2**16  # the largest number of values of a discrete distribution
MAX_ROUNDING = 4  # the largest error of a quantile, in units of the last place of the number
MAX_LEVEL_ERROR = 1e-6  # the largest difference between SciPy's `cdf` of a quantile and its level
MAX_MEAN_ERROR = 1e-4  # the largest error of a mean, in standard deviations


def from_scipy(distributions: Sequence[Any], *, scale: float | None = None) -> Problem:
    """Return a problem whose rewards have the given SciPy distributions, one per arm.

    Rewards are drawn from a table of the quantile function. Their distribution function differs from
    SciPy's by at most 2^-14, about 6e-5. For discrete distributions it is exact, except for tails of
    probability 2^-44.

    Parameters
    ----------
    distributions
        Frozen distributions, such as `scipy.stats.poisson(3)` or `scipy.stats.beta(2, 5)`, for at
        least two arms. Their means and standard deviations must be finite.
    scale
        The sub-Gaussian scale of the rewards. It is required if it cannot be derived: for all
        unbounded distributions except the normal distribution. By default, it is the largest standard
        deviation of normal arms, or half of the largest range of other arms.
    """
    if not isinstance(distributions, list | tuple) or len(distributions) < 2:
        raise invalid("distributions", "a list of at least 2 frozen distributions", distributions)
    for arm, frozen in enumerate(distributions):
        methods = [getattr(frozen, name, None) for name in ("ppf", "isf", "cdf", "mean", "std")]
        if not (hasattr(frozen, "dist") and all(map(callable, methods))):
            condition = "a frozen distribution such as scipy.stats.poisson(3)"
            raise invalid(f"distributions[{arm}]", condition, frozen)
        if np.ndim(frozen.mean()):
            raise invalid(f"distributions[{arm}]", "one distribution, not an array of them", frozen)
    arms = []
    for arm, frozen in enumerate(distributions):
        with show_progress(None, f"tabulating {frozen.dist.name}"):  # some take SciPy minutes
            arms.append(_tabulate(frozen, arm))
    if scale is not None:
        problem_scale = positive(scale, "scale")
    else:
        problem_scale = max(_derive_scale(arm, number) for number, arm in enumerate(arms))
    spec = {"kind": "scipy", "distributions": [arm.spec for arm in arms], "scale": problem_scale}
    return Problem(
        "scipy",
        np.array([arm.mean for arm in arms]),
        np.array([arm.sd for arm in arms]),
        problem_scale,
        (min(arm.low for arm in arms), max(arm.high for arm in arms)),
        spec,
        tuple(arm.values for arm in arms),
        tuple(arm.levels for arm in arms),
    )


class Arm(NamedTuple):
    """The distribution of one arm, and the table of its quantile function."""

    spec: dict[str, Any]
    mean: float
    sd: float
    low: float  # the smallest possible reward
    high: float  # the largest possible reward
    levels: Floats
    values: Floats


def _tabulate(frozen: Any, number: int) -> Arm:
    """Return the distribution of an arm; raise ValueError if its table would be imprecise."""
    argument, name = f"distributions[{number}]", frozen.dist.name
    mean, sd = float(frozen.mean()), float(frozen.std())
    if not (np.isfinite(mean) and np.isfinite(sd)):
        raise ValueError(
            f"{argument} must have a finite mean and standard deviation, got {name} with mean "
            f"{mean:g} and standard deviation {sd:g}"
        )
    make_table = _tabulate_discrete if hasattr(frozen.dist, "pmf") else _tabulate_continuous
    levels, values = make_table(frozen, argument)
    table_mean = float(np.sum(np.diff(levels) * (values[1:] + values[:-1]) / 2))
    if not abs(table_mean - mean) <= MAX_MEAN_ERROR * sd + 1e-12 * abs(mean):
        raise ValueError(
            f"{argument}, {name}, cannot be tabulated: the mean of the table is {table_mean:g} "
            f"instead of {mean:g}; use a distribution with lighter tails"
        )
    low, high = map(float, frozen.support())
    return Arm(_make_spec(frozen, levels, values), mean, sd, low, high, levels, values)


def _tabulate_continuous(frozen: Any, argument: str) -> tuple[Floats, Floats]:
    """Return the levels and the quantiles of a continuous distribution."""
    tails = 2.0 ** -np.arange(1, 44, 1 / 16)
    tails = np.unique(np.concatenate([tails, np.arange(1, 2**13) / 2**14, [MIN_TAIL]]))
    with np.errstate(all="ignore"):
        lower, upper = frozen.ppf(tails), frozen.isf(tails)  # `isf` is precise near level 1
    levels = np.concatenate([tails, 1 - tails[-2::-1]])  # the largest tail is 1/2, the median
    values = np.maximum.accumulate(np.concatenate([lower, upper[-2::-1]]).astype(float))
    if not np.all(np.abs(values) <= MAX_REWARD):
        raise invalid(argument, "a distribution with finite quantiles", frozen.dist.name)
    _check_table(frozen, levels, values, argument)
    levels[0], levels[-1] = 0.0, 1.0
    return levels, values


def _check_table(frozen: Any, levels: Floats, values: Floats, argument: str) -> None:
    """Raise ValueError if SciPy's `cdf` of a quantile differs from the level of the quantile."""
    rounding = MAX_ROUNDING * np.maximum(np.spacing(np.abs(values)), np.finfo(float).tiny)
    lowest, highest = frozen.cdf(values - rounding), frozen.cdf(values + rounding)
    error = np.maximum(lowest - levels, levels - highest)
    worst = int(np.argmax(np.where(np.isnan(error), np.inf, error)))
    if not error[worst] <= MAX_LEVEL_ERROR:
        raise ValueError(
            f"{argument}, {frozen.dist.name}, cannot be tabulated: its ppf({levels[worst]:.6g}) is "
            f"{values[worst]:.6g}, but its cdf there is {frozen.cdf(values[worst]):.6g}; use another "
            "distribution, or correct its ppf"
        )


def _tabulate_discrete(frozen: Any, argument: str) -> tuple[Floats, Floats]:
    """Return the levels and the quantiles of a discrete distribution.

    Each level at which the quantile function jumps from one value to the next occurs twice.
    """
    low, high = float(frozen.ppf(MIN_TAIL)), float(frozen.isf(MIN_TAIL))
    has_list = hasattr(frozen.dist, "xk")  # made from a list of values, which need not be integers
    if not has_list and not high - low < MAX_VALUES:
        raise ValueError(
            f"{argument} must have at most {MAX_VALUES} values, got {frozen.dist.name} with values "
            f"from {low:g} to {high:g}; use a continuous distribution"
        )
    if has_list:
        order = np.argsort(frozen.dist.xk)
        values = frozen.support()[0] + (frozen.dist.xk - np.min(frozen.dist.xk))[order]
        levels = np.cumsum(frozen.dist.pk[order])
    else:
        values = np.arange(low, high + 1)
        levels = np.asarray(frozen.cdf(values), float)
    is_possible = np.diff(levels, prepend=0.0) > 0
    values, levels = values[is_possible], levels[is_possible]
    levels[-1] = 1.0
    return np.concatenate([[0.0], np.repeat(levels, 2)[:-1]]), np.repeat(values, 2)


def _derive_scale(arm: Arm, number: int) -> float:
    """Return the sub-Gaussian scale of an arm; raise ValueError if it cannot be derived."""
    if arm.spec["name"] == "norm":
        return arm.sd
    if arm.sd == 0:
        return 0.0  # a constant
    if np.isfinite(arm.high - arm.low):
        return (arm.high - arm.low) / 2  # Hoeffding's lemma
    raise ValueError(
        f"scale is required: the rewards of arm {number} ({arm.spec['name']}) are unbounded and not "
        "normal, so their sub-Gaussian scale cannot be derived; pass scale=, for example their "
        f"standard deviation {arm.sd:.3g}"
    )


def _make_spec(frozen: Any, levels: Floats, values: Floats) -> dict[str, Any]:
    """Return a distribution as plain data: its name and parameters.

    A distribution that is not part of SciPy also has a hash of its table.
    """
    parameters = [np.asarray(value).tolist() for value in frozen.args]
    keywords = {name: np.asarray(value).tolist() for name, value in frozen.kwds.items()}
    spec = {"name": frozen.dist.name, "args": parameters, "kwds": keywords}
    family = type(frozen.dist)
    if not (family.__module__.startswith("scipy.stats") and family.__name__.endswith("_gen")):
        spec["table"] = source_hash((levels, values))[:16]
    return spec
