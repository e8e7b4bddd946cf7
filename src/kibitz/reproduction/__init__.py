"""The paper's and our own experiments: simulated data, verdicts, figures and a report."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray

Data = dict[str, "xarray.Dataset"]  # the parts of an experiment's data, by name
Files = Callable[[str], Path]  # maps the name of a part of the data to its file
