"""The options of `simulate`, each declared once, in `Options`.

`simulate`, `race` and `sweep`, the command line, jobs, and the fingerprint of a result take them from
here. A new option is an entry of `Options`, and the code that acts on it. This module imports neither
NumPy nor numba: the command line reads it for `kibitz --help`.
"""

import inspect
import os
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Required, TypedDict, TypeVar

if TYPE_CHECKING:
    import xarray
    from numpy.typing import ArrayLike

F = TypeVar("F", bound=Callable[..., Any])
Executors = Executor | Callable[[], Executor]
Progress = Callable[[str, float], Any]
Watch = Callable[["xarray.Dataset"], Any]

KEYWORD = inspect.Parameter.KEYWORD_ONLY
REQUIRED = inspect.Parameter.empty  # instead of a default
MAX = 2**62 - 1  # of a whole number
MAX_THREADS = 2**16
MAX_RUNS = 2**32 - 1  # a run is one word of its seed
ZARR = ".zarr"  # how the name of a file ends that is a folder of chunks
DASK = "Let the workers of this Dask scheduler play, or of a local one: local"


class Limits(NamedTuple):
    """Numbers from `low` to `high`, whole ones unless said otherwise."""

    low: float
    high: float
    whole: bool = True


class Option(NamedTuple):
    """Which values an option takes, and who needs it."""

    takes: Limits | tuple[str, ...] | Callable[[Any, str], Any]  # or words, or a check of a value
    default: Any = REQUIRED
    help: str = ""  # on the command line; "" if it has no flag there
    flag: str = ""  # and its metavar, where they are not those of its name and type
    fingerprint: bool = False  # whether numbers depend on it
    parameter: inspect.Parameter | None = None  # in a signature; filled in from `Options`


def _function(value: Any, name: str) -> Any:
    from kibitz._validation import invalid

    if not callable(value):
        raise invalid(name, "a function", value)
    return value


def _file(value: Any, name: str) -> Path:
    from kibitz._files import check_folder, check_target
    from kibitz._validation import invalid

    if not (isinstance(value, str | os.PathLike) and str(value).endswith(ZARR)):
        return check_target(value, name)
    if find_spec("zarr") is None:
        raise ValueError("zarr must be installed (pip install 'kibitz[zarr]'), got nothing")
    path = check_folder(value, name)
    if not path.parent.is_dir():
        raise invalid(name, "in a folder that exists", str(value))
    return path


def _checked_later(value: Any, name: str) -> Any:
    return value


class Options(TypedDict, total=False):
    """The options of `simulate`.

    horizon
        The number of stages, T.
    runs
        How often each policy is played. Run r depends on (seed, r) alone.
    seed
        A whole number; the same seed gives the same numbers.
    stages
        The stages at which the regret is recorded: about 200, log-spaced, by default. The horizon is
        always among them.
    threads
        How many runs to play at a time; all cores, or all workers of the executor, by default.
        Results do not depend on it.
    file
        A netCDF file to save to, or a folder whose name ends in ".zarr" for results larger than
        memory, which are then read lazily. Runs that it already holds of the same setting are not
        played again; an interrupted simulation can be resumed from it.
    progress
        Called as `progress(what, share)` now and then, with the share of the work that is done.
    engine
        "step" plays stage by stage; "leap" skips ahead where that is sound (`engine.leap`) and else
        plays stage by stage; "auto" leaps where it also pays. The attribute `engine` says which.
    error
        How much the law of a run may differ from that of stage-by-stage play, in total variation,
        when leaping.
    executor
        Who plays: an Executor of concurrent.futures, such as Dask's `Client.get_executor()`, or a
        function that makes one, which is called again if workers are lost; its executor is shut down
        at the end. Threads by default. Results do not depend on it.
    keep
        "runs", or "summary": statistics of the runs of each policy instead of the runs, along a
        dimension `statistic` ("count", "mean", "variance" and the quantiles "q1", "q10", "q25",
        "q50", "q75", "q90" and "q99").
    kernel
        "specialised" compiles a loop for each policy, which takes some seconds unless it is cached;
        "generic" plays a new index at once, at two to three times the price of a stage (a policy
        without a generic kernel is compiled all the same). "auto" starts with the generic kernel and,
        if the work takes many seconds, compiles the specialised one in the background. Results do
        not depend on it; `encoding["kernel"]` says which kernels were used.
    watch
        Called as `watch(data)` when there are more runs, at most twice a second, with the result of
        the first n runs, where n is how many all policies have; and once more, if there are more,
        after Ctrl-C. The policies are then played in turn. An error in it ends the simulation.
        `kibitz.race` draws what it is given.
    """

    horizon: Required[
        Annotated[int, Option(Limits(1, MAX), help="Number of stages, T", fingerprint=True)]
    ]
    runs: Required[Annotated[int, Option(Limits(1, MAX_RUNS), help="Number of runs")]]
    seed: Required[
        Annotated[int, Option(Limits(0, MAX), help="Seed of all random numbers", fingerprint=True)]
    ]
    stages: Annotated["ArrayLike | None", Option(_checked_later, None)]  # with the horizons
    threads: Annotated[
        int | None, Option(Limits(1, MAX_THREADS), None, "Runs at a time (default: all cores)")
    ]
    engine: Annotated[
        str,
        Option(
            ("auto", "step", "leap"),
            "auto",
            "Stage by stage, or leaping over stages",
            fingerprint=True,
        ),
    ]
    error: Annotated[
        float,
        Option(
            Limits(1e-12, 1e-3, whole=False),
            1e-9,
            "Leaping: error of a run, in total variation",
            fingerprint=True,
        ),
    ]
    executor: Annotated[Executors | None, Option(_checked_later, None, DASK, "--dask ADDRESS")]
    file: Annotated[
        str | os.PathLike[str] | None,
        Option(
            _file,
            None,
            "Save to this netCDF file, or folder NAME.zarr, or resume from it",
            "--out FILE",
        ),
    ]
    keep: Annotated[str, Option(("runs", "summary"), "runs")]
    kernel: Annotated[str, Option(("auto", "generic", "specialised"), "auto")]
    progress: Annotated[Progress | None, Option(_function, None)]
    watch: Annotated[Watch | None, Option(_function, None)]


def _declared() -> dict[str, Option]:
    declared = {}
    for name, annotation in Options.__annotations__.items():
        if not hasattr(annotation, "__metadata__"):  # Required[...]
            (annotation,) = annotation.__args__
        (option,), kind = annotation.__metadata__, annotation.__origin__
        kind = getattr(kind, "__forward_arg__", kind)  # as it is written
        parameter = inspect.Parameter(name, KEYWORD, default=option.default, annotation=kind)
        declared[name] = option._replace(parameter=parameter)
    return declared


OPTIONS: dict[str, Option] = _declared()


def check_option(name: str, value: Any) -> Any:
    """Return the value of an option; raise a ValueError if it takes no such value."""
    from kibitz._validation import between, one_of, whole

    takes: Any = OPTIONS[name].takes
    if value is None and OPTIONS[name].default is None:
        return None
    if isinstance(takes, Limits):
        check: Callable[..., Any] = whole if takes.whole else between
        return check(value, name, takes.low, takes.high)
    return one_of(value, name, takes) if isinstance(takes, tuple) else takes(value, name)


def check_options(given: Mapping[str, Any], without: Collection[str] = ()) -> Options:
    """Return all options but those `without`, checked, with the defaults of those not given."""
    taken: Any = [option.parameter for name, option in OPTIONS.items() if name not in without]
    bound = inspect.Signature(taken).bind(**given)  # a TypeError if one is missing or unknown
    bound.apply_defaults()
    checked: Any = {name: check_option(name, value) for name, value in bound.arguments.items()}
    return checked


def show_options(without: Collection[str] = ()) -> Callable[[F], F]:
    """Show the options, but for some, in the signature of a function, instead of `**options`.

    `{options}` in its docstring becomes a paragraph for each, `{names}` a list of their names.
    """
    shown = {name: option.parameter for name, option in OPTIONS.items() if name not in without}

    def show(function: F) -> F:
        add_parameters(function, shown)
        if function.__doc__ and Options.__doc__:  # not with python -OO
            text = function.__doc__.replace("{names}", ", ".join(shown))
            function.__doc__ = text.replace("{options}", Options.__doc__.partition("\n\n")[2].strip())
        return function

    return show


def add_parameters(function: Any, added: Mapping[str, Any], first: bool = False) -> None:
    """Show parameters instead of `**options`, after the other keyword-only ones or `first`."""
    signature = inspect.signature(function)
    own = {name: p for name, p in signature.parameters.items() if name != "options"}
    kinds = [inspect.Parameter.POSITIONAL_OR_KEYWORD, KEYWORD, inspect.Parameter.VAR_KEYWORD]
    ordinary, keyword, rest = ([p for p in own.values() if p.kind is kind] for kind in kinds)
    new = [parameter for name, parameter in added.items() if name not in own]
    both = [*new, *keyword] if first else [*keyword, *new]
    function.__signature__ = signature.replace(parameters=[*ordinary, *both, *rest])
