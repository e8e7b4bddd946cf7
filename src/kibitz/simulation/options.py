"""The options of `simulate`. Each option is declared once, in `Options`.

`simulate`, `race`, `sweep`, the command line, jobs and fingerprints read the options from here. To
add an option, add an entry to `Options` and the code that uses the option. This module imports
neither NumPy nor numba, because `kibitz --help` imports it.
"""

import inspect
import os
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Required, TypedDict, TypeVar

from kibitz._progress import Progress

if TYPE_CHECKING:
    import numpy
    import xarray
    from numpy.typing import ArrayLike

F = TypeVar("F", bound=Callable[..., Any])
Executors = Executor | Callable[[], Executor]
Watch = Callable[["xarray.Dataset"], Any]

KEYWORD = inspect.Parameter.KEYWORD_ONLY
REQUIRED = inspect.Parameter.empty  # the default of an option that the caller must pass
MAX_INT = 2**62 - 1
MAX_THREADS = 2**16
MAX_RUNS = 2**32 - 1  # the number of a run is a 32-bit word of its seed
ZARR_SUFFIX = ".zarr"  # suffix of a folder of chunks
DASK_HELP = "Simulate on the Dask cluster at this address; local starts a local cluster"


class Limits(NamedTuple):
    """A range of numbers; by default, of whole numbers."""

    low: float
    high: float
    is_whole: bool = True


class Option(NamedTuple):
    """The values that an option accepts, its default and its flag on the command line."""

    allowed_values: (
        Limits | tuple[str, ...] | Callable[[Any, str], Any]
    )  # or a function that checks a value
    default: Any = REQUIRED
    help: str = ""  # the text on the command line; "" if there is no flag
    flag: str = ""  # flag and metavar, unless they follow from the option's name and type
    fingerprint: bool = False  # whether results depend on the option
    parameter: inspect.Parameter | None = None  # filled in from `Options`


def _check_function(value: Any, name: str) -> Any:
    from kibitz._validation import invalid

    if not callable(value):
        raise invalid(name, "a function", value)
    return value


def _check_progress(value: Any, name: str) -> Any:
    from kibitz._validation import invalid

    if not (callable(value) or value is False):
        raise invalid(name, "a function, False or None", value)
    return value


def _check_file(value: Any, name: str) -> Path:
    from kibitz._files import check_folder, check_target
    from kibitz._validation import invalid

    if not (isinstance(value, str | os.PathLike) and str(value).endswith(ZARR_SUFFIX)):
        return check_target(value, name)
    if find_spec("zarr") is None:
        raise ValueError("zarr is not installed; run: pip install 'kibitz[zarr]'")
    path = check_folder(value, name)
    if not path.parent.is_dir():
        raise invalid(name, "in a folder that exists", str(value))
    return path


def _accept_any(value: Any, name: str) -> Any:
    return value


class Options(TypedDict, total=False):
    """The options of `simulate`.

    horizon
        The number of stages, T.
    runs
        The number of runs of each policy. Run r depends on (seed, r) only.
    seed
        A whole number or a `numpy.random.SeedSequence`; the same seed gives the same numbers.
    stages
        The stages at which to record the regret; the horizon is always included. Default: about 200
        log-spaced stages.
    threads
        The number of parallel threads, or of workers of the executor. Default: all cores, or all
        workers. Results do not depend on this number.
    file
        A netCDF file to save to; or a folder whose name ends in ".zarr", for results larger than
        memory, which are read lazily. Saved runs with the same fingerprint are not played again, so
        an interrupted simulation can be resumed.
    progress
        A function that is called as `progress(activity, share)` from time to time, with the share of
        the work done so far. Default: a line on the terminal or in the notebook, and nothing in a
        pipe. False shows nothing.
    engine
        "step" plays stage by stage. "leap" plays blocks of stages at once if the policy and the
        feedback allow leaps (`engine.leap`); if they do not, it plays stage by stage. "auto" leaps
        only where leaping is also faster. The attribute `engine` of the result says which engine was
        used.
    error
        The largest distance, in total variation, by which leaps may change the distribution of a run.
    executor
        A concurrent.futures Executor, such as Dask's `Client.get_executor()`, which plays the runs;
        or a function that returns an executor and is called again if the executor breaks. kibitz
        shuts down executors that this function created. Default: threads of this process. Results do
        not depend on the executor.
    keep
        "runs" keeps every run. "summary" keeps statistics of the runs of each policy, along a
        dimension `statistic` ("count", "mean", "variance" and the quantiles "q1", "q10", "q25",
        "q50", "q75", "q90" and "q99").
    kernel
        "specialised" compiles a kernel for each policy, which takes some seconds unless the kernel is
        cached. "generic" starts at once even with a new index, but a stage costs two to three times
        as much (for a policy without a generic kernel, the specialised kernel is compiled). "auto"
        starts with the generic kernel and, if the simulation takes many seconds, compiles the
        specialised kernel in the background. Results do not depend on the kernel;
        `encoding["kernel"]` says which kernels were used.
    watch
        A function that is called as `watch(data)` at most twice a second, and after Ctrl-C, with the
        result of the first n runs, where n is the number of runs that all policies have completed.
        The policies are then played in turn. An error in `watch` ends the simulation. `kibitz.race`
        draws with this option.
    """

    horizon: Required[
        Annotated[int, Option(Limits(1, MAX_INT), help="Number of stages, T", fingerprint=True)]
    ]
    runs: Required[Annotated[int, Option(Limits(1, MAX_RUNS), help="Number of runs")]]
    seed: Required[
        Annotated[
            "int | numpy.random.SeedSequence",
            Option(Limits(0, MAX_INT), help="Seed of all random numbers", fingerprint=True),
        ]
    ]
    stages: Annotated["ArrayLike | None", Option(_accept_any, None)]  # validated with the horizons
    threads: Annotated[
        int | None, Option(Limits(1, MAX_THREADS), None, "Runs in parallel (default: all cores)")
    ]
    engine: Annotated[
        str,
        Option(
            ("auto", "step", "leap"),
            "auto",
            "Simulate stage by stage (step), leap over stages (leap), or choose (auto)",
            fingerprint=True,
        ),
    ]
    error: Annotated[
        float,
        Option(
            Limits(1e-12, 1e-3, is_whole=False),
            1e-9,
            "Largest error of a run when leaping, in total variation",
            fingerprint=True,
        ),
    ]
    executor: Annotated[Executors | None, Option(_accept_any, None, DASK_HELP, "--dask ADDRESS")]
    file: Annotated[
        str | os.PathLike[str] | None,
        Option(
            _check_file,
            None,
            "Save to this netCDF file or folder NAME.zarr, and resume from it",
            "--out FILE",
        ),
    ]
    keep: Annotated[str, Option(("runs", "summary"), "runs")]
    kernel: Annotated[str, Option(("auto", "generic", "specialised"), "auto")]
    progress: Annotated[Progress | bool | None, Option(_check_progress, None)]
    watch: Annotated[Watch | None, Option(_check_function, None)]


def _read_options() -> dict[str, Option]:
    options = {}
    for name, annotation in Options.__annotations__.items():
        if not hasattr(annotation, "__metadata__"):  # Required[...]
            (annotation,) = annotation.__args__
        (option,), value_type = annotation.__metadata__, annotation.__origin__
        # the annotation as it is written
        value_type = getattr(value_type, "__forward_arg__", value_type)
        parameter = inspect.Parameter(name, KEYWORD, default=option.default, annotation=value_type)
        options[name] = option._replace(parameter=parameter)
    return options


OPTIONS: dict[str, Option] = _read_options()


def check_option(name: str, value: Any) -> Any:
    """Validate the value of an option and return it; raise ValueError if it is invalid."""
    from kibitz._validation import between, one_of, seed_number, whole

    allowed_values: Any = OPTIONS[name].allowed_values
    if value is None and OPTIONS[name].default is None:
        return None
    if name == "seed":
        return seed_number(value)
    if isinstance(allowed_values, Limits):
        check: Callable[..., Any] = whole if allowed_values.is_whole else between
        return check(value, name, allowed_values.low, allowed_values.high)
    return (
        one_of(value, name, allowed_values)
        if isinstance(allowed_values, tuple)
        else allowed_values(value, name)
    )


def check_options(arguments: Mapping[str, Any], without: Collection[str] = ()) -> Options:
    """Return checked options, with defaults for missing options.

    Raise TypeError for an unknown name or a name in `without`.
    """
    from kibitz._validation import suggest

    parameters: Any = {k: option.parameter for k, option in OPTIONS.items() if k not in without}
    if unknown_names := [name for name in arguments if name not in parameters]:
        hint = suggest(unknown_names[0], parameters)
        raise TypeError(f"got an unexpected keyword argument {unknown_names[0]!r}{hint}")
    bound_arguments = inspect.Signature(parameters.values()).bind(
        **arguments
    )  # TypeError if an option is missing
    bound_arguments.apply_defaults()
    checked_options: Any = {
        name: check_option(name, value) for name, value in bound_arguments.arguments.items()
    }
    return checked_options


def show_options(without: Collection[str] = ()) -> Callable[[F], F]:
    """Return a decorator that shows the options in a function's signature instead of `**options`.

    The decorator omits the options in `without`. In the docstring, it replaces `{options}` by the
    descriptions of the options, and `{names}` by a list of their names.
    """
    added_parameters = {
        name: option.parameter for name, option in OPTIONS.items() if name not in without
    }

    def show_in_signature(function: F) -> F:
        add_parameters(function, added_parameters)
        if function.__doc__ and Options.__doc__:  # not with python -OO
            text = function.__doc__.replace("{names}", ", ".join(added_parameters))
            function.__doc__ = text.replace("{options}", Options.__doc__.partition("\n\n")[2].strip())
        return function

    return show_in_signature


def add_parameters(function: Any, added: Mapping[str, Any], first: bool = False) -> None:
    """Show the parameters `added` in the signature of a function instead of `**options`.

    The added parameters come after the function's own keyword-only parameters, or before them if
    `first` is true.
    """
    signature = inspect.signature(function)
    own_parameters = {name: p for name, p in signature.parameters.items() if name != "options"}
    kinds = [inspect.Parameter.POSITIONAL_OR_KEYWORD, KEYWORD, inspect.Parameter.VAR_KEYWORD]
    positional_parameters, own_keyword_parameters, variadic_parameters = (
        [p for p in own_parameters.values() if p.kind is kind] for kind in kinds
    )
    new_parameters = [parameter for name, parameter in added.items() if name not in own_parameters]
    keyword_parameters = (
        [*new_parameters, *own_keyword_parameters]
        if first
        else [*own_keyword_parameters, *new_parameters]
    )
    function.__signature__ = signature.replace(
        parameters=[*positional_parameters, *keyword_parameters, *variadic_parameters]
    )
