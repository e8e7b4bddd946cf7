"""The axes of a result: policies, and what was swept, over a grid of values or a list of points.

A cell of a result is known by its key: the values of what was swept, in the order of their names, and
the label of the policy. Its place is where its labels stand on the axes.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

Key = tuple[tuple[Any, ...], str]

POINT = "point"  # the dimension of a list of points; it has no coordinate of its own


class Swept(NamedTuple):
    """What was swept: nothing, values of which all combinations were played, or a list of points."""

    names: tuple[str, ...] = ()
    grid: bool = True

    @property
    def dims(self) -> tuple[str, ...]:
        """The dimensions that this adds to a result."""
        return self.names if self.grid else (POINT,)

    def __str__(self) -> str:
        if not self.names:
            return "without a sweep"
        points = "" if self.grid else "points of "
        return f"with a sweep over {points}{' and '.join(self.names)}"

    def plain(self, value: tuple[Any, ...]) -> Any:
        """Return the values of a key as plain data: null, one value, or values by name."""
        if len(self.names) < 2:
            return value[0] if value else None
        return dict(zip(self.names, value, strict=True))

    def value(self, plain: Any) -> tuple[Any, ...]:
        """Return the values of a key from plain data."""
        if len(self.names) < 2:
            return (plain,) if self.names else ()
        return tuple(plain[name] for name in self.names)


class Axes:
    """The labels on each axis, in the order in which they came; more can be added, none is moved."""

    def __init__(self, swept: Swept, keys: Iterable[Key] = ()) -> None:
        self.swept = swept
        self.dims = ("policy", *swept.dims)
        self.places: list[dict[Any, int]] = [{} for _ in self.dims]
        for key in keys:
            self.add(key)

    def _labels(self, key: Key) -> tuple[Any, ...]:
        value, label = key
        return (label, *value) if self.swept.grid else (label, value)

    def add(self, key: Key) -> None:
        """Make sure that a key has a place."""
        for axis, label in zip(self.places, self._labels(key), strict=True):
            axis.setdefault(label, len(axis))

    def place(self, key: Key) -> tuple[int, ...]:
        """Return where a cell stands."""
        return tuple(axis[label] for axis, label in zip(self.places, self._labels(key), strict=True))

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of labels on each axis."""
        return tuple(map(len, self.places))

    @property
    def coordinates(self) -> dict[str, tuple[str, list[Any]]]:
        """The coordinates of the axes, by name: the dimension and the labels."""
        labels, *swept = (list(axis) for axis in self.places)
        if self.swept.grid:
            own = dict(zip(self.swept.names, swept, strict=True))
            return {name: (name, values) for name, values in {"policy": labels, **own}.items()}
        columns = zip(self.swept.names, zip(*swept[0], strict=True), strict=True)
        return {
            "policy": ("policy", labels),
            **{name: (POINT, list(values)) for name, values in columns},
        }
