"""How an experiment is judged: numbers with their standard errors, statements, and one word.

A statement *holds*, *fails*, or stays *open* when the runs are too few to tell: it is decided if the
number is more than `SURE` standard errors away from the limit that it is held against. An
experiment is "confirmed" if all its statements hold, "not confirmed" if none does, and "depends"
if some do and some do not.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

SURE = 3.0  # standard errors


class Estimate(NamedTuple):
    """A number and its standard error."""

    value: float
    error: float

    def __str__(self) -> str:
        if not math.isfinite(self.value):
            return "–"
        if self.error <= 0 or not math.isfinite(self.error):
            return f"{self.value:.4g}".replace("-", "−")
        digits = max(0, 1 - math.floor(math.log10(self.error)))
        return f"{self.value:.{digits}f} ± {self.error:.{digits}f}".replace("-", "−")


class Statement(NamedTuple):
    """A sentence about the data and whether it holds; None if the runs are too few to tell."""

    text: str
    holds: bool | None


class Table(NamedTuple):
    """Numbers that a reader may want to look up."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


class Verdict(NamedTuple):
    """One word, why in a few words and in a few sentences, and the statements behind it."""

    word: str
    short: str
    sentence: str
    statements: list[Statement]
    tables: Sequence[Table] = ()


def judge(
    statements: Iterable[Statement], short: str, sentence: str, tables: Sequence[Table] = ()
) -> Verdict:
    """Return the verdict that statements amount to."""
    listed = list(statements)
    if not listed:
        raise ValueError("statements must be at least one statement, got none")
    held = sum(statement.holds is True for statement in listed)
    word = "confirmed" if held == len(listed) else "depends" if held else "not confirmed"
    return Verdict(word, short, sentence, listed, tables)


def below(estimate: Estimate, limit: float) -> bool | None:
    """Say whether a number is surely below a limit; None if that is open."""
    margin = SURE * estimate.error
    if estimate.value + margin < limit:
        return True
    return False if estimate.value - margin > limit else None


def above(estimate: Estimate, limit: float) -> bool | None:
    """Say whether a number is surely above a limit; None if that is open."""
    return below(Estimate(-estimate.value, estimate.error), -limit)


def within(estimate: Estimate, limit: float) -> bool | None:
    """Say whether a number is surely between -limit and limit; None if that is open."""
    return all_of([below(estimate, limit), above(estimate, -limit)])


def mean(values: Any) -> Estimate:
    """Return the mean over runs, with the standard error of independent runs."""
    sample = np.asarray(values, dtype=float).ravel()
    sample = sample[np.isfinite(sample)]
    if sample.size < 2:
        return Estimate(float(sample.mean()) if sample.size else math.nan, math.inf)
    return Estimate(float(sample.mean()), float(sample.std(ddof=1)) / math.sqrt(sample.size))


def ratio(numerator: Any, denominator: Any) -> Estimate:
    """Return the ratio of two means over the same runs, with its standard error (delta method)."""
    a, b = (np.asarray(part, dtype=float).ravel() for part in (numerator, denominator))
    if not b.mean() > 0:
        return Estimate(math.nan, math.inf)
    value = a.mean() / b.mean()
    return Estimate(float(value), mean((a - value * b) / b.mean()).error)


def saving(values: Any, reference: Any) -> Estimate:
    """Return by which share the mean of `values` is below that of `reference`."""
    kept = ratio(values, reference)
    return Estimate(1 - kept.value, kept.error)


def slope(x: Any, runs: Any, log: bool = False) -> Estimate:
    """Return the slope of a least-squares line through the means at x, with its standard error.

    `runs` has a column for each x; `log` fits the logarithms of the means.
    """
    points, sample = np.asarray(x, dtype=float), np.asarray(runs, dtype=float)
    means = sample.mean(axis=0)
    weights = (points - points.mean()) / ((points - points.mean()) ** 2).sum()
    if log:
        return Estimate(float(weights @ np.log(means)), mean(sample / means @ weights).error)
    return Estimate(float(weights @ means), mean(sample @ weights).error)


def r_squared(x: Any, y: Any) -> float:
    """Return R² of a least-squares line; 0 where there is nothing to explain."""
    points, values = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if np.ptp(values) <= 1e-12 * abs(values).max():
        return 0.0
    return float(np.corrcoef(points, values)[0, 1] ** 2)


def reached(stages: Any, curve: Any, share: float) -> float:
    """Return the first of the stages at which a curve has reached a share of its last value."""
    values = np.asarray(curve, dtype=float)
    return float(np.asarray(stages)[np.argmax(values >= share * values[-1])])


def all_of(holds: Iterable[bool | None]) -> bool | None:
    """Return whether all hold; None if none fails but some are open."""
    listed = list(holds)
    return False if False in listed else None if None in listed else True


def percent(estimate: Estimate) -> str:
    """Write a share in per cent."""
    return f"{Estimate(100 * estimate.value, 100 * estimate.error)} %"
