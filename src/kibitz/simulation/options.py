"""The options of `simulate`, each declared once, in `Options`.

`simulate`, `race` and `sweep`, the command line, jobs, and the fingerprint of a result take them from
here. A new option is an entry of `Options`, and the code that acts on it. This module imports neither
NumPy nor numba: the command line reads it for `kibitz --help`.
"""

import inspect
import os
import textwrap
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor
from importlib.util import find_spec
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ForwardRef,
    NamedTuple,
    Required,
    TypedDict,
    TypeVar,
)

if TYPE_CHECKING:
    import xarray
    from numpy.typing import ArrayLike

F = TypeVar("F", bound=Callable[..., Any])
Executors = Executor | Callable[[], Executor]
Progress = Callable[[str, float], Any]
Watch = Callable[["xarray.Dataset"], Any]

REQUIRED = inspect.Parameter.empty  # instead of a default
MAX_RUNS = 2**32 - 1  # a run is one word of its seed
ZARR = ".zarr"  # how the name of a file ends that is a folder of chunks


class Whole(NamedTuple):
    """Whole numbers from `least` to `most`."""

    least: int = 0
    most: int = 2**62 - 1


class Number(NamedTuple):
    """Numbers from `low` to `high`."""

    low: float
    high: float


class Word(NamedTuple):
    """One of some words."""

    words: tuple[str, ...]


class Option(NamedTuple):
    """What an option means, which values it takes, and who needs it."""

    text: str  # its paragraph in the docstring of `simulate`
    takes: Whole | Number | Word | Callable[[Any, str], Any]  # or a function that checks a value
    default: Any = REQUIRED
    help: str = ""  # on the command line; "" if it has no flag there
    flag: str = ""  # and its metavar, where they are not those of its name and type
    fingerprint: bool = False  # whether numbers depend on it
    annotation: Any = None  # filled in from `Options`


def _function(value: Any, name: str) -> Any:
    from kibitz._validation import refused

    if not callable(value):
        raise refused(name, "a function", value)
    return value


def _file(value: Any, name: str) -> Path:
    from kibitz._files import checked_folder, checked_target
    from kibitz._validation import refused

    if not (isinstance(value, str | os.PathLike) and str(value).endswith(ZARR)):
        return checked_target(value, name)
    if find_spec("zarr") is None:
        raise ValueError("zarr must be installed (pip install 'kibitz[zarr]'), got nothing")
    path = checked_folder(value, name)
    if not path.parent.is_dir():
        raise refused(name, "in a folder that exists", str(value))
    return path


def _checked_later(value: Any, name: str) -> Any:
    return value


class Options(TypedDict, total=False):
    """The options of `simulate`: the type, and in an `Option` all else that is known of each."""

    horizon: Required[
        Annotated[
            int,
            Option(
                "The number of stages, T.",
                Whole(1),
                help="Number of stages, T",
                fingerprint=True,
            ),
        ]
    ]
    runs: Required[
        Annotated[
            int,
            Option(
                "How often each policy is played. Run r depends on (seed, r) alone.",
                Whole(1, MAX_RUNS),
                help="Number of runs",
            ),
        ]
    ]
    seed: Required[
        Annotated[
            int,
            Option(
                "A whole number; the same seed gives the same numbers.",
                Whole(),
                help="Seed of all random numbers",
                fingerprint=True,
            ),
        ]
    ]
    stages: Annotated[
        "ArrayLike | None",
        Option(
            "The stages at which the regret is recorded: about 200, log-spaced, by default. The "
            "horizon is always among them.",
            _checked_later,  # with the horizons of a sweep
            None,
        ),
    ]
    threads: Annotated[
        int | None,
        Option(
            "How many runs to play at a time; all cores, or all workers of the executor, by "
            "default. Results do not depend on it.",
            Whole(1, 2**16),
            None,
            help="Runs at a time (default: all cores)",
        ),
    ]
    file: Annotated[
        str | os.PathLike[str] | None,
        Option(
            'A netCDF file to save to, or a folder whose name ends in ".zarr" for results larger '
            "than memory, which are then read lazily. Runs that it already holds of the same "
            "setting are not played again; an interrupted simulation can be resumed from it.",
            _file,
            None,
            help="Save to this netCDF file, or folder NAME.zarr, or resume from it",
            flag="--out FILE",
        ),
    ]
    progress: Annotated[
        Progress | None,
        Option(
            "Called as `progress(what, share)` now and then, with the share of the work that is "
            "done.",
            _function,
            None,
        ),
    ]
    engine: Annotated[
        str,
        Option(
            '"step" plays stage by stage; "leap" skips ahead where that is sound (`engine.leap`) '
            'and else plays stage by stage; "auto" leaps where it also pays. The attribute '
            "`engine` says which.",
            Word(("auto", "step", "leap")),
            "auto",
            help="Stage by stage, or leaping over stages",
            fingerprint=True,
        ),
    ]
    error: Annotated[
        float,
        Option(
            "How much the law of a run may differ from that of stage-by-stage play, in total "
            "variation, when leaping.",
            Number(1e-12, 1e-3),
            1e-9,
            help="Leaping: error of a run, in total variation",
            fingerprint=True,
        ),
    ]
    executor: Annotated[
        Executors | None,
        Option(
            "Who plays: an Executor of concurrent.futures, such as Dask's "
            "`Client.get_executor()`, or a function that makes one, which is called again if "
            "workers are lost; its executor is shut down at the end. Threads by default. Results "
            "do not depend on it.",
            _checked_later,  # when it is opened
            None,
            help="Let the workers of this Dask scheduler play, or of a local one: local",
            flag="--dask ADDRESS",
        ),
    ]
    keep: Annotated[
        str,
        Option(
            '"runs", or "summary": statistics of the runs of each policy instead of the runs, '
            'along a dimension `statistic` ("count", "mean", "variance" and the quantiles "q1", '
            '"q10", "q25", "q50", "q75", "q90" and "q99").',
            Word(("runs", "summary")),
            "runs",
        ),
    ]
    loop: Annotated[
        str,
        Option(
            '"final" compiles each policy into a loop of its own, which takes some seconds unless '
            'it is cached; "draft" plays a new index at once, at two to three times the price of a '
            "stage (policies that have no draft are compiled all the same). "
            '"auto" drafts what is not compiled yet and, where there is work for many seconds, '
            'compiles in the background. Results do not depend on it; `encoding["loop"]` says '
            "which were used this time.",
            Word(("auto", "draft", "final")),
            "auto",
        ),
    ]
    watch: Annotated[
        Watch | None,
        Option(
            "Called as `watch(data)` when there are more runs, at most twice a second, with the "
            "result of the first n runs, where n is how many all policies have; and once more, if "
            "there are more, after Ctrl-C. The policies are then played in turn. An error in it "
            "ends the simulation. `kibitz.race` draws what it is given.",
            _function,
            None,
        ),
    ]


def _declared() -> dict[str, Option]:
    declared = {}
    for name, annotation in Options.__annotations__.items():
        if not hasattr(annotation, "__metadata__"):  # Required[...]
            (annotation,) = annotation.__args__
        kind = annotation.__origin__
        kind = kind.__forward_arg__ if isinstance(kind, ForwardRef) else kind
        declared[name] = annotation.__metadata__[0]._replace(annotation=kind)
    return declared


OPTIONS: dict[str, Option] = _declared()


def check_option(name: str, value: Any) -> Any:
    """Return the value of an option; raise a ValueError if it takes no such value."""
    from kibitz._validation import between, one_of, whole

    takes, default = OPTIONS[name].takes, OPTIONS[name].default
    if value is None and default is None:
        return None
    if isinstance(takes, Whole):
        return whole(value, name, *takes)
    if isinstance(takes, Number):
        return between(value, name, *takes)
    if isinstance(takes, Word):
        return one_of(value, name, takes.words)
    return takes(value, name)


def check_options(given: Mapping[str, Any], caller: str, without: Collection[str] = ()) -> Options:
    """Return all options but those `without`, checked, with the defaults of those not given."""
    taken = {name: option for name, option in OPTIONS.items() if name not in without}
    for name in given.keys() - taken.keys():
        raise TypeError(f"{caller}() got an unexpected keyword argument {name!r}")
    for name, option in taken.items():
        if option.default is REQUIRED and name not in given:
            raise TypeError(f"{caller}() missing 1 required keyword-only argument: {name!r}")
    checked: Any = {
        name: check_option(name, given.get(name, option.default)) for name, option in taken.items()
    }
    return checked


def show_options(without: Collection[str] = (), described: bool = False) -> Callable[[F], F]:
    """Show the options in the signature of a function, and at `{options}` in its docstring.

    `described` describes each in a paragraph of its own instead of referring to `simulate`.
    """

    def show(function: F) -> F:
        signature = inspect.signature(function)
        own = {name: p for name, p in signature.parameters.items() if name != "options"}
        rest = [p for p in own.values() if p.kind is p.VAR_KEYWORD]
        names = [name for name in OPTIONS if name not in without]
        added = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=OPTIONS[name].default,
                annotation=OPTIONS[name].annotation,
            )
            for name in names
            if name not in own
        ]
        first = [p for p in own.values() if p.kind is not p.VAR_KEYWORD]
        shown: Any = function
        shown.__signature__ = signature.replace(parameters=[*first, *added, *rest])
        if described:
            entries = [f"{name}\n{_paragraph(OPTIONS[name].text)}" for name in names]
        else:
            entries = [f"{', '.join(names)}\n{_paragraph('As in `simulate`.')}"]
        if function.__doc__:  # none with python -OO
            function.__doc__ = function.__doc__.replace("{options}", "\n    ".join(entries))
        return function

    return show


def _paragraph(text: str) -> str:
    return textwrap.indent(textwrap.fill(text, 92, break_on_hyphens=False), " " * 8)
