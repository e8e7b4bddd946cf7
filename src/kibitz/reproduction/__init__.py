"""The paper's experiments: data from the simulator, a verdict on each claim, figures and a report."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray

Data = dict[str, "xarray.Dataset"]  # of an experiment, by part
Files = Callable[[str], Path]  # where to save each part
