"""Make a problem from logged rewards, to plan or simulate from data."""

import csv
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kibitz._netcdf import from_netcdf, read_verified
from kibitz._validation import invalid, short_repr
from kibitz.live.agent.confidence import check_delta, gap_intervals, gaussian_radius
from kibitz.live.events import DECISION_KINDS, Event, Projection, project
from kibitz.model.problem import Problem, empirical

Columns = Mapping[str, Any]

RENAMED_KINDS = {"saw": "observe"}  # old names of event kinds, in logs exported before 0.2.0


@dataclass(frozen=True, eq=False)
class Logged(Problem):
    """An empirical problem with confidence intervals for its means; the result of `from_log`.

    Attributes
    ----------
    arms
        The names of the arms.
    n_observed
        The number of observations of each arm.
    low, high
        The ends of confidence sequences for the true means, which are simultaneously valid with
        probability 1 - delta (see `kibitz.live.agent.confidence`). The assumed sub-Gaussian scale is
        half the range of the observed rewards, for the arm with the widest range.
    delta
        The probability that any of these intervals misses its mean is at most delta.
    n_shows
        The number of rewards that a pull of another arm showed (`Agent.observe` with `shown_by`).
    """

    arms: tuple[str, ...] = ()
    n_observed: Any = None
    low: Any = None
    high: Any = None
    delta: float = 0.05
    n_shows: int = 0

    def __repr__(self) -> str:
        counts = zip(self.arms, self.n_observed, strict=True)
        return f"from_log({', '.join(f'{arm}: {n}' for arm, n in counts)})"

    @property
    def gap_intervals(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Lower and upper bounds on the gap of each arm, from the intervals for the means."""
        return gap_intervals(self.low, self.high)


def from_log(
    source: Any, *, arm: str = "arm", reward: str = "reward", kind: str = "kind", delta: float = 0.05
) -> Logged:
    """Return a problem that draws the rewards of each arm from the rewards in a log.

    Parameters
    ----------
    source
        A file written by `Agent.export`, any other CSV or JSON lines file, a data frame, a dataset,
        or a dict of columns.
    arm, reward
        The names of the columns with the arms and the rewards.
    kind
        The name of the column with the event kinds, in a log written by kibitz. Such a log is
        replayed, so corrections are taken into account. If the agent counted silence as a
        reward, only the decisions up to the last silent decision are used; later decisions may still
        be waiting for a report. Other logs do not need this column.
    delta
        The probability that any of the intervals from `low` to `high` misses its mean is at most
        delta.
    """
    delta = check_delta(delta)
    columns = read_columns(source)
    if not isinstance(kind, str):
        raise invalid("kind", "the name of a column", kind)
    for name, column in {"arm": arm, "reward": reward}.items():
        if not isinstance(column, str) or column not in columns:
            column_names = ", ".join(map(str, columns)) or "none"
            raise invalid(name, f"a column of the log ({column_names})", column)
    if is_kibitz_log(columns, kind):
        rewards, n_shows = _replay_rewards(columns, kind)
    else:
        rewards, n_shows = _read_rewards(columns, arm, reward), 0
    if len(rewards) < 2:
        raise ValueError(f"log must contain rewards of at least 2 arms, got {list(rewards)}")
    problem = empirical(list(rewards.values()))
    counts = np.array([len(values) for values in rewards.values()])
    half_width = gaussian_radius(counts, delta / len(rewards), problem.scale or 1e-12)
    low, high = problem.means - half_width, problem.means + half_width
    values = {field.name: getattr(problem, field.name) for field in fields(Problem)}
    return Logged(
        **values,
        arms=tuple(rewards),
        n_observed=counts,
        low=low,
        high=high,
        delta=delta,
        n_shows=n_shows,
    )


def size_interval(
    problem: Logged, horizon: int, cost: float, exploration: float = 6.0
) -> tuple[float, float]:
    """Return the smallest and the largest rate of looks ε that may be optimal, given a log.

    The planner recommends a rate for each of nine sets of gaps. The first set has the lower ends of
    the intervals for the gaps, the last set has the upper ends, and the other sets are evenly spaced
    between them. The result includes 0 if the log does not rule out that a second arm is as good as
    the best arm, because looks may then be worthless. The means of a log tend to overstate gaps,
    because the largest of several means is partly large by chance.

    `cost` is the cost of a look in units of reward; `exploration` is the constant c of UCB's index.
    """
    from kibitz.planning.planner import plan

    scale = problem.scale or 1.0
    low_gaps, high_gaps = (ends / scale for ends in problem.gap_intervals)
    is_suboptimal = np.arange(problem.n_arms) != int(np.argmax(problem.means))
    low_gaps, high_gaps = low_gaps[is_suboptimal], high_gaps[is_suboptimal]
    candidate_rates = [] if low_gaps.min() > 0 else [0.0]
    for position in np.linspace(0.0, 1.0, 9):
        gaps = low_gaps + position * (high_gaps - low_gaps)
        if gaps.min() > 0:
            result = plan(horizon, gaps=gaps.tolist(), cost=cost / scale, exploration=exploration)
            candidate_rates.append(result.rate)
    return min(candidate_rates), max(candidate_rates)


def is_kibitz_log(columns: Columns, kind: str = "kind") -> bool:
    """Return whether a log has the columns of a log written by kibitz."""
    return {"seq", "at", "id", "key", kind} <= set(columns)


def replay(columns: Columns, kind: str = "kind") -> Projection:
    """Replay a log written by kibitz; return its projection.

    If the agent counted silence as a reward, the result omits the decisions after the last silent
    decision, because they may still be waiting for a report.
    """
    names = ["seq", "at", kind, "id", "arm", "reward", "key"]
    names += [name for name in ("probability", "bucket", "shown_by") if name in columns]
    rows = _select_rows(columns, *names)
    try:
        events = [
            Event(
                int(seq),
                float(at),
                RENAMED_KINDS.get(event_kind, str(event_kind)),
                _parse_id(id),
                str(arm),
                read_number(reward),
                key or None,
                read_number(choice[0], "probability") if choice else None,
                (choice[1] or None) if choice[1:] else None,
                _parse_id(choice[2]) if choice[2:] else None,
            )
            for seq, at, event_kind, id, arm, reward, key, *choice in rows
        ]
        projection = project(_skip_removed(events))
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"log has the columns of a kibitz log but cannot be replayed ({error})"
        ) from None
    silent_ids = [event.id for event in events if event.kind == "silent" and event.id is not None]
    last_id = max(silent_ids, default=math.inf)
    # a compaction changes the numbers of decisions, but not their order
    n_kept = sum(e.kind in DECISION_KINDS and (e.id or 0) <= last_id for e in events)
    projection.decisions = {i: r for i, r in projection.decisions.items() if i <= n_kept}
    return projection


def _skip_removed(events: list[Event]) -> list[Event]:
    """Return the events that can be replayed without the checkpoint of a compacted log, renumbered.

    A log that was not compacted is returned unchanged.
    """
    if all(event.kind != "checkpoint" for event in events):
        return events
    kept_events: list[Event] = []
    new_ids: dict[int | None, int | None] = {None: None}
    for event in events:
        if event.kind in DECISION_KINDS:
            new_ids[event.id] = len(new_ids)
        if event.kind != "checkpoint" and event.id in new_ids:
            seq = len(kept_events) + 1
            shown_by = new_ids.get(event.shown_by)
            kept_events.append(event._replace(seq=seq, id=new_ids[event.id], shown_by=shown_by))
    return kept_events


def _replay_rewards(columns: Columns, kind: str) -> tuple[dict[str, list[float]], int]:
    """Replay a log written by kibitz; return the rewards by arm and the number of shown rewards.

    A shown reward is an observation that came from a pull of another arm.
    """
    projection = replay(columns, kind)
    rewards: dict[str, list[float]] = {arm.name: [] for arm in projection.arms}
    for record in projection.decisions.values():
        if record.reward is not None:
            rewards[projection.arms[record.arm].name].append(record.reward)
    n_shows = sum(arm.n_shows for arm in projection.arms)
    return {name: values for name, values in rewards.items() if values}, n_shows


def _read_rewards(columns: Columns, arm: str, reward: str) -> dict[str, list[float]]:
    """Return the rewards by arm of a log not written by kibitz; skip rows without a reward."""
    rewards: dict[str, list[float]] = {}
    for n, (name, value) in enumerate(_select_rows(columns, arm, reward)):
        x = read_number(value, f"{reward} of line {n + 1}")
        if x is not None:
            rewards.setdefault(str(name), []).append(x)
    return rewards


def _select_rows(columns: Columns, *names: str) -> list[tuple[Any, ...]]:
    """Return the rows of the named columns."""
    try:
        return list(zip(*(columns[name] for name in names), strict=True))
    except (TypeError, ValueError):  # the columns are not lists, or differ in length
        values = short_repr({name: columns[name] for name in names})
        raise ValueError(f"log must have columns of equal length, got {values}") from None


def read_number(value: Any, name: str = "reward") -> float | None:
    """Return a field of a log as a float, or None if it is empty or NaN."""
    try:
        x = math.nan if value is None or value == "" else float(value)
    except (TypeError, ValueError, OverflowError):
        raise invalid(name, "a number", value) from None
    if math.isinf(x):
        raise invalid(name, "finite", value)
    return None if math.isnan(x) else x


def _parse_id(value: Any) -> int | None:
    x = read_number(value, "id")
    return int(x) if x else None


def read_columns(source: Any) -> Columns:
    """Return the columns of a file, a data frame, a dataset or a dict."""
    if isinstance(source, str | os.PathLike):
        return _read_file_columns(Path(source))
    if isinstance(source, Mapping) and not hasattr(source, "coords"):
        return source
    if hasattr(source, "coords"):  # a dataset
        return {str(name): source[name].to_numpy() for name in (*source.coords, *source.data_vars)}
    if hasattr(source, "columns"):  # a data frame
        return {str(name): list(source[name]) for name in source.columns}
    raise invalid("log", "a file, a data frame or a dict of columns", source)


def _read_file_columns(file: Path) -> Columns:
    if not os.path.isfile(file):
        raise ValueError(f"log file {short_repr(str(file))} does not exist")
    if file.suffix == ".nc":
        try:
            return read_columns(from_netcdf(read_verified(file)))
        except ValueError:
            raise ValueError(f"log file {short_repr(str(file))} is damaged or not netCDF") from None
    try:
        with file.open(encoding="utf-8", newline="") as text_file:
            if file.suffix == ".jsonl":
                rows = [json.loads(text_line) for text_line in text_file if text_line.strip()]
            else:
                rows = list(csv.DictReader(text_file))
    except (UnicodeDecodeError, json.JSONDecodeError, csv.Error) as error:
        raise ValueError(
            f"log file {short_repr(str(file))} is not CSV or JSON lines ({error})"
        ) from None
    if not rows:
        raise ValueError(f"log file {short_repr(str(file))} is empty")
    return {name: [row.get(name) for row in rows] for name in rows[0] if name is not None}
