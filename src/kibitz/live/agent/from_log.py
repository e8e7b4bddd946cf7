"""A log as a problem, so that the next plan starts from data."""

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
from kibitz.live.agent.confidence import check_delta, gap_intervals, intervals
from kibitz.live.events import Event, project
from kibitz.model.problem import Problem, empirical

Columns = Mapping[str, Any]

RENAMED = {"saw": "observe"}  # event kinds in logs that were exported before 0.2.0


@dataclass(frozen=True, eq=False)
class Logged(Problem):
    """A problem of tabulated rewards, with how much is known of it; made by `from_log`.

    Attributes
    ----------
    arms
        The names of the arms.
    n_observed
        The number of observations of each arm.
    low, high
        Anytime-valid intervals for the true means, all together of probability 1 - delta
        (`kibitz.live.agent.confidence`, with half the range of what was seen for the scale).
    """

    arms: tuple[str, ...] = ()
    n_observed: Any = None
    low: Any = None
    high: Any = None
    delta: float = 0.05

    def __repr__(self) -> str:
        counts = zip(self.arms, self.n_observed, strict=True)
        return f"from_log({', '.join(f'{arm}: {n}' for arm, n in counts)})"

    @property
    def gap_intervals(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The smallest and the largest gap of each arm that the intervals allow."""
        return gap_intervals(self.low, self.high)


def from_log(
    source: Any, *, arm: str = "arm", reward: str = "reward", kind: str = "kind", delta: float = 0.05
) -> Logged:
    """Return a log as a problem that draws each arm's reward from those that were seen.

    Parameters
    ----------
    source
        A file: what `Agent.export` wrote, or any CSV or JSON lines; or a data frame, a dataset or a
        dict of columns.
    arm, reward
        The names of the columns.
    kind
        The column that tells apart the events of kibitz's own log, by which corrections count; in
        any other log it is not needed.
    delta
        With which probability an interval may fail.
    """
    delta = check_delta(delta)
    columns = _columns(source)
    if not isinstance(kind, str):
        raise invalid("kind", "the name of a column", kind)
    for name, column in {"arm": arm, "reward": reward}.items():
        if not isinstance(column, str) or column not in columns:
            known = ", ".join(map(str, columns)) or "none"
            raise invalid(name, f"a column of the log ({known})", column)
    ours = {"seq", "at", "id", "key", kind} <= set(columns)
    rewards = _of_ours(columns, kind) if ours else _of_others(columns, arm, reward)
    if len(rewards) < 2:
        raise invalid("log", "one with rewards of at least 2 arms", list(rewards))
    problem = empirical(list(rewards.values()))
    counts = np.array([len(values) for values in rewards.values()])
    low, high = intervals(counts, problem.means, delta, problem.scale or 1e-12)
    made = {field.name: getattr(problem, field.name) for field in fields(Problem)}
    return Logged(**made, arms=tuple(rewards), n_observed=counts, low=low, high=high, delta=delta)


def size_interval(
    problem: Logged, horizon: int, cost: float, exploration: float = 6.0
) -> tuple[float, float]:
    """Return the smallest and largest best size ε of UCB1-Double's bucket that the log allows.

    Of the gaps between the ends of their intervals, all moved together in nine steps; 0 where an arm
    may be as good as the best, so that looks may be worth nothing. Cost is in units of reward. The
    means of a log overstate gaps: the largest of several means is large by chance, too.
    """
    from kibitz.planning.planner import plan

    scale = problem.scale or 1.0
    least, most = (ends / scale for ends in problem.gap_intervals)
    worse = np.arange(problem.n_arms) != int(np.argmax(problem.means))
    least, most = least[worse], most[worse]
    sizes = [] if least.min() > 0 else [0.0]
    for share in np.linspace(0.0, 1.0, 9):
        gaps = least + share * (most - least)
        if gaps.min() > 0:
            planned = plan(horizon, gaps=gaps.tolist(), cost=cost / scale, exploration=exploration)
            sizes.append(float(planned["best"]["active"]["rate"]))
    return min(sizes), max(sizes)


def _of_ours(columns: Columns, kind: str) -> dict[str, list[float]]:
    """Return the rewards that count in a log of kibitz's, by arm."""
    rows = _rows(columns, "seq", "at", kind, "id", "arm", "reward", "key")
    try:
        events = [
            Event(
                int(seq),
                float(at),
                RENAMED.get(what, str(what)),
                _whole(id),
                str(arm),
                _number(reward),
                key or None,
            )
            for seq, at, what, id, arm, reward, key in rows
        ]
        made = project(events)
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(f"log must be one that kibitz wrote, got another ({error})") from None
    found: dict[str, list[float]] = {arm.name: [] for arm in made.arms}
    for record in made.decisions:
        if record.reward is not None:
            found[made.arms[record.arm].name].append(record.reward)
    return {name: values for name, values in found.items() if values}


def _of_others(columns: Columns, arm: str, reward: str) -> dict[str, list[float]]:
    """Return the rewards of any log, by arm; lines without a reward are left out."""
    found: dict[str, list[float]] = {}
    for n, (name, value) in enumerate(_rows(columns, arm, reward)):
        x = _number(value, f"{reward} of line {n + 1}")
        if x is not None:
            found.setdefault(str(name), []).append(x)
    return found


def _rows(columns: Columns, *names: str) -> list[tuple[Any, ...]]:
    """Return the lines of some columns."""
    try:
        return list(zip(*(columns[name] for name in names), strict=True))
    except (TypeError, ValueError):  # no lists, or of different lengths
        some = {name: columns[name] for name in names}
        raise invalid("log", "one whose columns are equally long", some) from None


def _number(value: Any, name: str = "reward") -> float | None:
    try:
        x = math.nan if value is None or value == "" else float(value)
    except (TypeError, ValueError, OverflowError):
        raise invalid(name, "a number", value) from None
    if math.isinf(x):
        raise invalid(name, "finite", value)
    return None if math.isnan(x) else x


def _whole(value: Any) -> int | None:
    x = _number(value, "id")
    return int(x) if x else None


def _columns(source: Any) -> Columns:
    """Return the columns of a file, a frame, a dataset or a dict."""
    if isinstance(source, str | os.PathLike):
        return _file_columns(Path(source))
    if isinstance(source, Mapping) and not hasattr(source, "coords"):
        return source
    if hasattr(source, "coords"):  # a dataset
        return {str(name): source[name].to_numpy() for name in (*source.coords, *source.data_vars)}
    if hasattr(source, "columns"):  # a data frame
        return {str(name): list(source[name]) for name in source.columns}
    raise invalid("log", "a file, a data frame or a dict of columns", source)


def _file_columns(file: Path) -> Columns:
    if not os.path.isfile(file):
        raise invalid("log", "a file that exists", str(file))
    if file.suffix == ".nc":
        try:
            return _columns(from_netcdf(read_verified(file)))
        except ValueError:
            raise invalid("log", "a netCDF file that is whole", str(file)) from None
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            if file.suffix == ".jsonl":
                rows = [json.loads(line) for line in lines if line.strip()]
            else:
                rows = list(csv.DictReader(lines))
    except (UnicodeDecodeError, json.JSONDecodeError, csv.Error) as error:
        raise ValueError(
            f"log must be CSV or JSON lines, got {short_repr(str(file))} ({error})"
        ) from None
    if not rows:
        raise invalid("log", "a file with some lines", str(file))
    return {name: [row.get(name) for row in rows] for name in rows[0] if name is not None}
