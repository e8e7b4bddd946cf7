"""Options, and how the words after them are read: numbers, lists of them, names.

Each of `number`, `numbers`, `whole`, `wholes`, `word`, `weights`, `flag` and `text` returns a typed
option. What cannot be read is refused with `<name> must be <condition>, got <value>`; what can is
checked further by the library. `kibitz._validation` imports NumPy, so it is imported only when there
is something to read.
"""

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import typer

from kibitz.simulation.options import OPTIONS, Limits, add_parameters

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., None])

SEED = 1  # the default, printed with each result


class Numbers(list[float]):
    """A list of numbers that is one word; typer takes `list[float]` for an option given often."""


class Wholes(list[int]):
    """A list of whole numbers that is one word."""


class Refused(typer.BadParameter):
    """A value that cannot be read; typer would say more, and a ValueError it would reword."""

    def format_message(self) -> str:
        """Return the sentence as it is."""
        return str(self.message)


# -------------------------------------------------------------------------------------- options


def number(name: str, help: str, *flags: str, **more: Any) -> Any:
    """Return an option that takes a number."""
    return _option(lambda word: read_number(word, name), "NUMBER", help, flags, more)


def numbers(name: str, help: str, *flags: str, **more: Any) -> Any:
    """Return an option that takes a list of numbers."""
    return _option(lambda word: Numbers(read_numbers(word, name)), "NUMBER,...", help, flags, more)


def whole(name: str, help: str, *flags: str, least: int = 1, **more: Any) -> Any:
    """Return an option that takes a whole number."""
    return _option(lambda word: read_whole(word, name, least), "INTEGER", help, flags, more)


def wholes(name: str, help: str, *flags: str, **more: Any) -> Any:
    """Return an option that takes a list of whole numbers of at least 1."""

    def read(word: str) -> Wholes:
        return Wholes(read_whole(part, name) for part in word.split(","))

    return _option(read, "INTEGER,...", help, flags, more)


def word(name: str, help: str, words: Sequence[str]) -> Any:
    """Return an option that takes one of some words."""

    def read(given: str) -> str:
        from kibitz._validation import one_of

        return _sentence(one_of, given, name, words)

    return _option(read, "|".join(words), help, (), {})


def weights(help: str) -> Any:
    """Return an option that takes a list of numbers, or a name that the library knows."""

    def read(given: str) -> str | list[float]:
        try:
            return read_numbers(given, "weights")
        except Refused:
            return given

    return _option(read, "NAME|NUMBER,...", help, (), {})


def flag(name: str, help: str, **more: Any) -> Any:
    """Return an option that takes nothing."""
    return typer.Option(name, help=help, metavar="", **more)


def text(metavar: str, help: str, *flags: str) -> Any:
    """Return an option that takes any text, such as the name of a file."""
    return typer.Option(*flags, help=help, metavar=metavar)


def simulation_options(*names: str, **defaults: Any) -> Callable[[F], F]:
    """Give a command the options of `simulate` that have a flag, or those named, as `**options`.

    They stand between its positional and its keyword-only parameters.
    """

    def add(command: F) -> F:
        added = {}
        for name in names or [name for name, option in OPTIONS.items() if option.help]:
            parameter: Any = OPTIONS[name].parameter
            kind = str | None if callable(OPTIONS[name].takes) else parameter.annotation
            typed: Any = Annotated[kind, simulation_option(name)]
            default = defaults.get(name, parameter.default)
            added[name] = parameter.replace(default=default, annotation=typed)
            command.__annotations__[name] = typed  # typer reads both
        add_parameters(command, added, first=True)
        return command

    return add


def simulation_option(name: str) -> Any:
    """Return an option of `simulate` as an option of a command."""
    option: Any = OPTIONS[name]
    takes, help, (flag, _, metavar) = option.takes, option.help, option.flag.partition(" ")
    if isinstance(takes, Limits):
        low, _, is_whole = takes
        return whole(name, help, least=int(low)) if is_whole else number(name, help)
    if isinstance(takes, tuple):
        return word(name, help, takes)
    return text(metavar, help, flag)


def _option(
    read: Callable[[str], Any], metavar: str, help: str, flags: Sequence[str], more: dict[str, Any]
) -> Any:
    def parser(given: Any) -> Any:  # a default comes along here too, as what it is
        return read(given if isinstance(given, str) else str(given))

    return typer.Option(*flags, parser=parser, metavar=metavar, help=help, **more)


# -------------------------------------------------------------------------------------- reading


def read_number(word: str, name: str) -> float:
    """Read a number; 1e-3 and 1/3 are fine."""
    from kibitz._validation import number

    return _sentence(number, _plain(word), name)


def read_numbers(word: str, name: str) -> list[float]:
    """Read a list of numbers, separated by commas."""
    from kibitz._validation import invalid

    if not word.strip():
        raise Refused(str(invalid(name, "a list such as 1,0.5", word)))
    return [read_number(part, name) for part in word.split(",")]


def read_whole(word: str, name: str, least: int = 1) -> int:
    """Read a whole number; 1e6 is fine."""
    from kibitz._validation import whole

    return _sentence(whole, _plain(word), name, least)


def read_flag(word: str, name: str) -> bool:
    """Read true or false."""
    from kibitz._validation import invalid

    if word.lower() not in {"true", "false", "1", "0"}:
        raise Refused(str(invalid(name, "true or false", word)))
    return word.lower() in {"true", "1"}


def _plain(word: str) -> int | float | str:
    """Return the number that a word means, exactly if it is whole; the word itself if none."""
    try:
        return int(word)
    except ValueError:
        pass
    try:
        above, slash, below = word.partition("/")
        value = float(above) / float(below) if slash else float(above)
    except (ValueError, ZeroDivisionError):
        return word
    beyond = math.isinf(value) and any(letter.isdigit() for letter in word)  # 1e400
    return word if beyond else value


def _sentence(read: Callable[..., T], *arguments: Any) -> T:
    try:
        return read(*arguments)
    except ValueError as error:
        raise Refused(str(error)) from None


# ------------------------------------------------------------------------------------- policies


def read_policy(spec: str, names: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Split NAME:param=value,... into its parts; refuse an unknown name."""
    from kibitz._validation import invalid

    name, _, rest = spec.partition(":")
    if name not in names:
        raise invalid("policy", f"one of {', '.join(names)}", name)
    parameters: dict[str, str] = {}
    for part in filter(None, rest.split(",")):
        parameter, equals, value = part.partition("=")
        if not equals or not value:
            raise invalid("policy", "NAME:param=value,...", spec)
        if parameter in parameters:
            raise invalid(parameter, "given once", spec)
        parameters[parameter] = value
    return name, parameters


def read_parameter(word: str, annotation: Any, name: str) -> Any:
    """Read a parameter of a policy as what its annotation says: bool, str, float or int."""
    kinds = getattr(annotation, "__args__", (annotation,))  # of `int | None`
    if bool in kinds:
        return read_flag(word, name)
    if float in kinds:
        return read_number(word, name)
    return read_whole(word, name) if int in kinds else word


# ---------------------------------------------------------------------- what is needed at the end


def check_plot(plot: str) -> None:
    """Refuse a figure that could not be written when all is computed."""
    from kibitz._files import check_target
    from kibitz._validation import invalid

    if not plot.endswith((".png", ".svg", ".pdf")):
        raise invalid("plot", "a name that ends in .png, .svg or .pdf", plot)
    check_target(plot, "plot")
    check_installed("matplotlib", "figures")


def check_installed(package: str, extra: str) -> None:
    """Refuse to begin without a package that is needed in the end."""
    import importlib.util

    if importlib.util.find_spec(package) is None:
        raise ValueError(f"{package} must be installed (pip install 'kibitz[{extra}]'), got nothing")
