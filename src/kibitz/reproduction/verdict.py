"""Verdicts: estimates with standard errors, statements about the estimates, and the outcome.

A statement compares an estimate with a limit. The statement *holds* or *fails* if the estimate is
more than `MIN_STANDARD_ERRORS` standard errors away from the limit; otherwise the statement is
*undecided*. An experiment is "confirmed" if all its statements hold, "undecided" if all are
undecided, "not confirmed" if no statement holds and some fail, and otherwise "partly confirmed", with
the number of statements that hold: "partly confirmed (3 of 11)".
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

MIN_STANDARD_ERRORS = 3.0  # a statement is undecided if its estimate is closer to the limit
#: The sign for a statement that holds, fails or is undecided.
SIGNS = {True: "✓", False: "✗", None: "?"}


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
    """A sentence about the data, and whether it holds (None: too few runs to decide)."""

    text: str
    holds: bool | None
    claim: int | None = None  # index in the experiment's `CLAIMS` of the claim that is tested

    def __str__(self) -> str:
        return f"{SIGNS[self.holds]} {self.text}"


class Claim(NamedTuple):
    """A claim of the paper in our words, its place in the paper, and how we test it."""

    text: str
    place: str
    measure: str


class Parameter(NamedTuple):
    """A parameter of an experiment, with its value in the paper and its value here."""

    name: str
    paper: str
    here: str

    @property
    def comparison(self) -> str:
        """The comparison of the two values: "same", "differs" or "not stated"."""
        if self.paper.startswith("not stated"):
            return "not stated"
        return "same" if self.paper == self.here else "differs"


class Table(NamedTuple):
    """A table of the report."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


class Verdict(NamedTuple):
    """The statements of an experiment, its main numbers in a phrase, and its finding in sentences."""

    statements: list[Statement]
    summary: str
    finding: str
    tables: Sequence[Table] = ()

    @property
    def outcome(self) -> str:
        """One of "confirmed", "partly confirmed", "undecided" and "not confirmed"."""
        return outcome(self.statements)

    def __str__(self) -> str:
        return format_outcome(self.statements)


def outcome(statements: Sequence[Statement]) -> str:
    """Return "confirmed", "partly confirmed" or "not confirmed" (all, some or no statements hold).

    If all statements are undecided, the outcome is "undecided".
    """
    results = {statement.holds for statement in statements}
    if results == {True}:
        return "confirmed"
    if True in results:
        return "partly confirmed"
    return "not confirmed" if False in results else "undecided"


def format_outcome(statements: Sequence[Statement]) -> str:
    """Return the outcome, with the number of statements that hold if only some statements hold."""
    outcome_text = outcome(statements)
    if outcome_text != "partly confirmed":
        return outcome_text
    return (
        f"{outcome_text} ({sum(statement.holds is True for statement in statements)} of "
        f"{len(statements)})"
    )


def judge(
    statements: Iterable[Statement], summary: str, finding: str, tables: Sequence[Table] = ()
) -> Verdict:
    """Return the verdict on an experiment with one or more statements."""
    statement_list = list(statements)
    if not statement_list:
        raise ValueError("no statements to judge; pass at least one statement")
    return Verdict(statement_list, summary, finding, tables)


def is_below(estimate: Estimate, limit: float) -> bool | None:
    """Return whether an estimate is below a limit; None if it is too close to the limit to decide."""
    error_margin = MIN_STANDARD_ERRORS * estimate.error
    if estimate.value + error_margin < limit:
        return True
    return False if estimate.value - error_margin > limit else None


def is_above(estimate: Estimate, limit: float) -> bool | None:
    """Return whether an estimate is above a limit; None if it is too close to the limit to decide."""
    return is_below(Estimate(-estimate.value, estimate.error), -limit)


def is_within(estimate: Estimate, limit: float) -> bool | None:
    """Return whether an estimate is between -limit and limit; None if it is too close to decide."""
    return all_hold([is_below(estimate, limit), is_above(estimate, -limit)])


def all_hold(results: Iterable[bool | None]) -> bool | None:
    """Return True if all results are True, False if any result is False, and None in other cases."""
    result_list = list(results)
    return False if False in result_list else None if None in result_list else True


def mean(values: Any) -> Estimate:
    """Return the mean of the finite values, one value per run, with its standard error."""
    sample = np.asarray(values, dtype=float).ravel()
    sample = sample[np.isfinite(sample)]
    if sample.size < 2:
        return Estimate(float(sample.mean()) if sample.size else math.nan, math.inf)
    return Estimate(float(sample.mean()), float(sample.std(ddof=1)) / math.sqrt(sample.size))


def ratio(numerator: Any, denominator: Any) -> Estimate:
    """Return the ratio of two means over the same runs, with its standard error (delta method)."""
    numerators, denominators = (
        np.asarray(values, dtype=float).ravel() for values in (numerator, denominator)
    )
    if not denominators.mean() > 0:
        return Estimate(math.nan, math.inf)
    value = numerators.mean() / denominators.mean()
    return Estimate(
        float(value), mean((numerators - value * denominators) / denominators.mean()).error
    )


def saving(values: Any, reference: Any) -> Estimate:
    """Return the relative reduction from the mean of `reference` to the mean of `values`."""
    remaining_share = ratio(values, reference)
    return Estimate(1 - remaining_share.value, remaining_share.error)


def slope(x: Any, runs: Any, log: bool = False) -> Estimate:
    """Return the slope of a least-squares line through the means at x, with its standard error.

    `runs` has a column for each x. With `log`, the line is fitted to the logarithms of the means.
    """
    x_values, run_values = np.asarray(x, dtype=float), np.asarray(runs, dtype=float)
    means = run_values.mean(axis=0)
    weights = (x_values - x_values.mean()) / ((x_values - x_values.mean()) ** 2).sum()
    if log:
        return Estimate(float(weights @ np.log(means)), mean(run_values / means @ weights).error)
    growth = run_values - run_values[:, :1]  # if nothing grows, the slope is exactly 0
    return Estimate(float(weights @ growth.mean(axis=0)), mean(growth @ weights).error)


def r_squared(x: Any, y: Any) -> float:
    """Return R² of the least-squares line through (x, y); 0 if y is constant."""
    x_values, y_values = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if np.ptp(y_values) <= 1e-12 * abs(y_values).max():
        return 0.0
    return float(np.corrcoef(x_values, y_values)[0, 1] ** 2)


def first_stage_at(share: float, stages: Any, curve: Any) -> float:
    """Return the first stage at which a curve has reached a share of its last value."""
    values = np.asarray(curve, dtype=float)
    return float(np.asarray(stages)[np.argmax(values >= share * values[-1])])


def format_percent(share: Estimate | float) -> str:
    """Format a share as a percentage, with its standard error if the share is an estimate."""
    if isinstance(share, Estimate):
        return f"{Estimate(100 * share.value, 100 * share.error)} %"
    return f"{100 * share:.3g} %"
