r"""Feedback models: which rewards the policy observes at each stage.

The policy observes the reward of the arm that it pulls. At some stages it also gets a *look*, a free
observation of one arm (paper, section 2.1). There are four models: no looks (`bandit`), looks at arms
drawn by the environment (`passive`), looks at arms chosen by the policy (`active`), and one reward of
every arm at every stage (`full`).

Looks arrive at random, with probability ε at every stage (or ε_t at stage t), or periodically
(`every`). A look shows an independent draw of the reward, even if it shows the arm that is pulled at
the same stage (errata, D6). If several looks arrive at once, an active policy chooses their arms one
after another and sees each reward before it chooses the next arm. With `paid=True` a look costs the
gap of its arm, as in the paper's conclusion, and this cost is part of the regret.

With `graph`, a pull of arm i shows arm j with probability Q_ij. Whether arm j is shown is independent
of the other arms, of the rewards and of the past, and each shown reward is a fresh draw. Q_ii is the
probability that the pull shows its own reward. There may be looks too; they arrive after the shows.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kibitz._hashing import source_hash
from kibitz._validation import flag, invalid, one_of, short_repr, whole

WEIGHTS = ("uniform", "optimal", "suboptimal")
MAX_SPEC_EDGES = 1000  # a larger graph is described by a hash
MAX_LISTED_ARMS = 5  # arms that a repr lists


class Every(NamedTuple):
    """Periodic arrivals: looks arrive at stages `first`, `first + n`, `first + 2n`, ..."""

    n: int
    first: int


class Shows(NamedTuple):
    """The matrix Q of a graph as a sparse matrix (CSR); rows are pulled arms, columns shown arms.

    Row i has the columns `arms[offsets[i] : offsets[i + 1]]`, in increasing order, with the positive
    values `probabilities[offsets[i] : offsets[i + 1]]`. If the graph varies with the stage, the
    matrix is empty and `function(stage, i, j)` is the probability that a pull of arm i shows arm j.
    """

    offsets: NDArray[np.int64]
    arms: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    function: Callable[[int, int, int], float] | None = None

    @property
    def n_arms(self) -> int:
        """The number of arms, K."""
        return self.offsets.size - 1

    @property
    def mean_row_size(self) -> float:
        """The number of arms that a pull of a random arm shows, on average; 1 if the graph varies."""
        if self.function is not None:
            return 1.0
        return float(self.probabilities.sum()) / self.n_arms

    @property
    def pulled_arms(self) -> NDArray[np.int64]:
        """The pulled arm of each edge."""
        return np.repeat(np.arange(self.n_arms), np.diff(self.offsets))

    @property
    def own(self) -> NDArray[np.float64]:
        """The probability Q_ii that a pull shows its own reward, for each arm."""
        own = np.zeros(self.n_arms)
        is_loop = self.pulled_arms == self.arms
        own[self.arms[is_loop]] = self.probabilities[is_loop]
        return own


Rate = float | Every | ArrayLike | Callable[[int], float]
Weights = str | ArrayLike | Callable[[int, int], float]
EMPTY_MATRIX = (np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0))


@dataclass(frozen=True, eq=False)
class Feedback:
    """A feedback model; create it with `bandit`, `passive`, `active`, `full` or `graph`."""

    observer: str  # "bandit", "passive", "active" or "full"
    rate: Any = 0.0  # the probability of an arrival at each stage, or `Every`
    weights: Any = None  # the distribution of the observed arm, for a passive observer
    looks: int = 1  # the number of looks per arrival
    paid: bool = False  # whether a look costs the gap of its arm
    shows: Shows | None = None  # the arms that each pull shows; None without a graph

    @property
    def spec(self) -> dict[str, Any]:
        """The feedback model as plain data, for saved results."""
        spec: dict[str, Any] = {"observer": self.observer}
        if self.observer in {"passive", "active"}:
            spec["rate"] = _to_plain_data(self.rate)
            if self.observer == "passive":
                spec["weights"] = _to_plain_data(self.weights)
            spec["looks"] = self.looks
            spec["paid"] = self.paid
        if self.shows is not None:
            spec["graph"] = _graph_to_plain_data(self.shows)
        return spec

    def __repr__(self) -> str:
        if self.shows is not None:
            looks = replace(self, shows=None)
            looks_text = "" if self.observer == "bandit" else f", looks={looks!r}"
            return f"graph({_describe(self.shows)}{looks_text})"
        arguments = ", ".join(f"{k}={v!r}" for k, v in self.spec.items() if k != "observer")
        return f"{self.observer}({arguments})"

    @property
    def functions(self) -> tuple[Callable[..., float] | None, ...]:
        """The rate, the weights and the graph; None in place of each that is not a function."""
        shows = None if self.shows is None else self.shows.function
        return tuple(f if callable(f) else None for f in (self.rate, self.weights, shows))

    def static_weights(self, gaps: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability with which a look shows each arm.

        The weights must not be a function. The result has one probability per arm, or one row of
        probabilities per stage.
        """
        if isinstance(self.weights, str):
            return named_weights(self.weights, gaps)
        return np.asarray(self.weights, dtype=float)


def named_weights(name: str, gaps: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Return the probability with which a look shows each arm, for weights given by name.

    "uniform" weights are equal. "optimal" weights are proportional to 1/\Delta_i, and "suboptimal"
    weights are proportional to 1/\Delta_i^2. "optimal" and "suboptimal" weights are 0 for optimal
    arms (paper, sections 3.1 and 5; errata, D31).
    """
    one_of(name, "weights", WEIGHTS)
    if name == "uniform":
        return np.full(gaps.size, 1 / gaps.size)
    if not np.any(gaps > 0):
        raise invalid("weights", "'uniform' or a list if all arms are optimal", name)
    relative_weights = np.zeros(gaps.size)
    relative_weights[gaps > 0] = gaps[gaps > 0].min() / gaps[gaps > 0]
    if name == "suboptimal":
        relative_weights *= relative_weights
    weights: NDArray[np.float64] = relative_weights / relative_weights.sum()
    return weights


def bandit() -> Feedback:
    """Return bandit feedback: there are no looks."""
    return Feedback("bandit")


def passive(
    rate: Rate, weights: Weights = "uniform", *, looks: int = 1, paid: bool = False
) -> Feedback:
    r"""Return feedback in which the environment draws the arm of each look.

    Parameters
    ----------
    rate
        The probability that a look arrives at a stage: a number ε, an array with one ε_t per stage,
        or a function of the stage that numba can compile; or `every(n)` for periodic arrivals.
    weights
        The distribution p of the observed arm: "uniform", "optimal" (proportional to 1/\Delta_i),
        "suboptimal" (proportional to 1/\Delta_i^2), a list with one weight per arm, an array with one
        row per stage, or a function of stage and arm that numba can compile.
    looks
        The number of looks per arrival.
    paid
        Whether a look costs the gap of its arm.
    """
    if isinstance(weights, str):
        one_of(weights, "weights", WEIGHTS)
    elif not callable(weights):
        try:
            weights = np.array(weights, dtype=float)
        except (TypeError, ValueError, OverflowError):
            condition = "a name, a function, or numbers in rows of equal length"
            raise invalid("weights", condition, weights) from None
        if weights.ndim not in {1, 2} or weights.size == 0:
            raise ValueError(f"weights must have one or two dimensions, got {short_repr(weights)}")
        for row in np.atleast_2d(weights):
            check_weights(row, "weights")
    return Feedback(
        "passive", _check_rate(rate), weights, whole(looks, "looks", 1), flag(paid, "paid")
    )


def active(rate: Rate, *, looks: int = 1, paid: bool = False) -> Feedback:
    """Return feedback in which the policy chooses the arm of each look.

    Parameters
    ----------
    rate
        The probability that a look arrives at a stage, in each form that `passive` accepts.
    looks
        The number of looks per arrival.
    paid
        Whether a look costs the gap of its arm.
    """
    return Feedback("active", _check_rate(rate), None, whole(looks, "looks", 1), flag(paid, "paid"))


def full() -> Feedback:
    """Return full feedback: the policy observes one reward of every arm at every stage."""
    return Feedback("full")


def graph(shows: Any, *, looks: Feedback | None = None, loops: bool = False) -> Feedback:
    r"""Return feedback in which a pull also shows other arms, each with its own probability.

    Parameters
    ----------
    shows
        A square matrix with one row and one column per arm: `shows[i, j]` is the probability that a
        pull of arm i shows arm j. Booleans and the numbers 0 and 1 describe a directed graph. The
        matrix may be a nested list, a NumPy array or a SciPy sparse matrix, which is never converted
        to a dense matrix. Entries on the diagonal are the probabilities that a pull shows its own
        reward. Every arm must be shown by some arm. For a graph that varies, pass a function of the
        stage, the pulled arm and the shown arm that numba can compile.
    looks
        Looks on top of the graph: `passive(...)` or `active(...)`. Default: no looks.
    loops
        Whether to set the diagonal of a matrix to 1, so that every pull shows its own reward.
    """
    if looks is not None:
        if not isinstance(looks, Feedback):
            raise invalid("looks", "passive(...), active(...) or None", looks)
        if looks.shows is not None:
            raise invalid("looks", "passive(...) or active(...), not another graph", looks)
        if looks.observer == "full":
            raise invalid("looks", "passive(...) or active(...), because full() has no looks", looks)
    if callable(shows):
        if flag(loops, "loops"):
            raise ValueError("loops=True needs a matrix; let the function return 1 for equal arms")
        return replace(looks or bandit(), shows=Shows(*EMPTY_MATRIX, shows))
    pulled_arms, shown_arms, probabilities, n_arms = _read_matrix(shows)
    if flag(loops, "loops"):
        is_edge = pulled_arms != shown_arms
        arms = np.arange(n_arms)
        pulled_arms = np.concatenate([pulled_arms[is_edge], arms])
        shown_arms = np.concatenate([shown_arms[is_edge], arms])
        probabilities = np.concatenate([probabilities[is_edge], np.ones(n_arms)])
    is_shown = np.zeros(n_arms, bool)
    is_shown[shown_arms] = True
    if not is_shown.all():
        arm = int(np.argmin(is_shown))
        raise ValueError(
            f"no pull shows arm {arm}, so no policy can learn whether it is the best arm; give "
            f"column {arm} of the matrix a positive entry, or use loops=True"
        )
    order = np.lexsort((shown_arms, pulled_arms))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(pulled_arms, minlength=n_arms))])
    record = Shows(offsets.astype(np.int64), shown_arms[order], probabilities[order])
    return replace(looks or bandit(), shows=record)


Edges = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], int]


def _read_matrix(shows: Any) -> Edges:
    """Return the rows, columns and values of the positive entries of a matrix, and its size."""
    is_sparse = hasattr(shows, "tocoo") and not isinstance(shows, np.ndarray)
    if is_sparse:
        matrix = copy_sparse(shows).tocoo()
        shape, entries = matrix.shape, np.asarray(matrix.data)
    else:
        try:
            matrix = np.asarray(shows)
        except (TypeError, ValueError, OverflowError):
            raise invalid("shows", "a square matrix of numbers", shows) from None
        shape, entries = matrix.shape, matrix
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] < 2 or isinstance(shows, str | bytes):
        raise invalid("shows", "a square matrix with one row per arm, for at least 2 arms", shows)
    if entries.dtype.kind not in "biuf" or isinstance(shows, np.ma.MaskedArray):
        raise invalid("shows", "a matrix of probabilities, numbers or booleans", shows)
    if is_sparse:
        n_arms = shape[0]
        keys = matrix.row.astype(np.int64) * n_arms + matrix.col
        unique_keys, positions = np.unique(keys, return_inverse=True)
        values = np.zeros(unique_keys.size)
        np.add.at(values, positions, entries.astype(float))  # sum duplicates
        _check_probabilities(entries.astype(float))
        _check_probabilities(values)
        is_edge = values > 0
        keys, values = unique_keys[is_edge], values[is_edge]
        return keys // n_arms, keys % n_arms, values, n_arms
    _check_probabilities(entries)
    rows, columns = np.nonzero(entries)
    values = entries[rows, columns].astype(float)
    return rows.astype(np.int64), columns.astype(np.int64), values, shape[0]


def copy_sparse(matrix: Any) -> Any:
    """Return a copy of a sparse matrix; raise ValueError if its index arrays are inconsistent.

    SciPy checks some of these arrays only on request. An index out of range, as in a damaged file,
    makes SciPy's compiled code read and write beyond its arrays.
    """
    try:
        copy = matrix.copy()  # SciPy checks the indices of the format COO here
        if hasattr(copy, "check_format"):  # the compressed formats: CSR, CSC and BSR
            copy.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(
            f"shows must be a sparse matrix with valid indices ({error}); build it again"
        ) from None
    return copy


def _check_probabilities(values: NDArray[Any]) -> None:
    is_valid = (values >= 0) & (values <= 1)
    if not np.all(is_valid):
        raise invalid("shows", "a matrix of probabilities in [0, 1]", values[~is_valid].flat[0])


def _graph_to_plain_data(shows: Shows) -> dict[str, Any]:
    """Return a graph as plain data, for `Feedback.spec`."""
    if shows.function is not None:
        return dict(_to_plain_data(shows.function))
    n_edges = shows.arms.size
    if n_edges <= MAX_SPEC_EDGES:
        columns = (shows.pulled_arms, shows.arms, shows.probabilities)
        edges = [list(edge) for edge in zip(*(c.tolist() for c in columns), strict=True)]
        return {"arms": shows.n_arms, "edges": edges}
    return {"arms": shows.n_arms, "edges": n_edges, "content": source_hash(tuple(shows[:3]))[:16]}


def _describe(shows: Shows) -> str:
    """Describe a graph in a few words, and list the arms whose own reward may be hidden."""
    if shows.function is not None:
        return f"<function {getattr(shows.function, '__name__', '?')}>"
    own = shows.own
    n_edges = shows.arms.size - np.count_nonzero(own)
    text = f"<{shows.n_arms} arms, {n_edges} edges"
    for condition, arms in (
        ("no self-loop at", np.flatnonzero(own == 0)),
        ("self-loop below 1 at", np.flatnonzero((own > 0) & (own < 1))),
    ):
        if arms.size:
            listed_arms = ", ".join(map(str, arms[:MAX_LISTED_ARMS]))
            rest = f" and {arms.size - MAX_LISTED_ARMS} more" if arms.size > MAX_LISTED_ARMS else ""
            text += f", {condition} arm{'s' if arms.size > 1 else ''} {listed_arms}{rest}"
    return text + ">"


def every(n: int, first: int | None = None) -> Every:
    """Return periodic arrivals: looks arrive every `n` stages, first at stage `first` (default n)."""
    n = whole(n, "n", 1)
    return Every(n, n if first is None else whole(first, "first", 1))


def check_feedback(feedback: object) -> Feedback:
    """Return the feedback model; raise ValueError if it is not a `Feedback`."""
    if not isinstance(feedback, Feedback):
        raise invalid("feedback", "a feedback model such as passive(0.1)", feedback)
    return feedback


def check_weights(weights: NDArray[np.float64], name: str) -> None:
    """Raise ValueError if the weights are not a probability vector.

    The error message calls the weights `name`.
    """
    if not np.all((weights >= 0) & np.isfinite(weights)):
        raise invalid(name, "non-negative and finite", weights)
    if not abs(weights.sum() - 1) <= 1e-9:
        raise ValueError(
            f"{name} must sum to 1, got {short_repr(weights)} with sum {float(weights.sum())!r}"
        )


def _check_rate(rate: Rate) -> Any:
    if isinstance(rate, Every) or callable(rate):
        return rate
    try:
        rates = np.array(rate, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise invalid("rate", "a number", rate) from None
    if rates.ndim > 1 or isinstance(rate, str | bytes | bool):
        raise invalid("rate", "a number or a list with one number per stage", rate)
    if not np.all((rates >= 0) & (rates <= 1)):
        invalid_rate = rates if rates.ndim == 0 else rates[~((rates >= 0) & (rates <= 1))][0]
        raise invalid("rate", "in [0, 1]", float(invalid_rate))
    return float(rates) if rates.ndim == 0 else rates


def _to_plain_data(value: Any) -> Any:
    """Return a rate or weights as plain data, for `Feedback.spec`."""
    if isinstance(value, Every):
        return {"every": value.n, "first": value.first}
    if callable(value):
        return {"function": getattr(value, "__name__", "?"), "source": source_hash(value)[:16]}
    if isinstance(value, np.ndarray):
        if value.size <= 1000:
            return value.tolist()
        return {"array": list(value.shape), "content": source_hash(value)[:16]}
    return value
