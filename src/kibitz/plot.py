"""Functions that draw results into matplotlib axes and return the axes.

The functions need the extra `figures`. `kibitz --plot`, the report of `kibitz reproduce` and these
functions share one implementation.
"""

from importlib.util import find_spec

if find_spec("matplotlib") is None:
    raise ImportError("matplotlib is not installed; run: pip install 'kibitz[figures]'")

from kibitz.plotting.charts import paired, plan, profile, pulls, regret, report, sweep, tail, trace

__all__ = ["paired", "plan", "profile", "pulls", "regret", "report", "sweep", "tail", "trace"]


def __dir__() -> list[str]:
    return __all__
