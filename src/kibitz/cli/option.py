"""Options of the commands, and the parsing of their values.

`number`, `numbers`, `integer`, `integers`, `choice`, `policy`, `weights`, `text` and `flag` each
return a typer option. A value that cannot be parsed raises an `OptionError` that names the flag; the
library checks the parsed values. `kibitz._validation` imports NumPy, so the functions here import
that module only when they parse a value. The help therefore does not wait for NumPy.
"""

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import typer

from kibitz.simulation.options import OPTIONS, Limits, add_parameters

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., None])

SEED = 1  # the default seed, printed with each result

# Titles of the panels in the help.
PROBLEM, LOOKS, RUN, OUTPUT = "Problem", "Looks", "Run", "Output"


class Numbers(list[float]):
    """A comma-separated list of numbers. Typer would treat `list[float]` as a repeatable option."""


class Integers(list[int]):
    """A comma-separated list of integers."""


class OptionError(typer.BadParameter):
    """An invalid option, with a message that is printed unchanged."""

    def format_message(self) -> str:
        """Return the message without the prefix that typer adds."""
        return str(self.message)


# -------------------------------------------------------------------------------------- options


def number(flag: str, help: str, panel: str | None = None, *, alias: str = "") -> Any:
    """Return an option that takes a number."""
    flags = [flag, alias] if alias else [flag]
    return _option(flags, lambda word: parse_number(word, flag), "NUMBER", help, panel)


def numbers(flag: str, help: str, panel: str | None = None) -> Any:
    """Return an option that takes a comma-separated list of numbers."""
    return _option([flag], lambda word: Numbers(parse_numbers(word, flag)), "NUMBER,...", help, panel)


def integer(
    flag: str, help: str, panel: str | None = None, *, minimum: int = 1, alias: str = ""
) -> Any:
    """Return an option that takes an integer of at least `minimum`."""
    flags = [flag, alias] if alias else [flag]
    return _option(flags, lambda word: parse_integer(word, flag, minimum), "INTEGER", help, panel)


def integers(flag: str, help: str, panel: str | None = None) -> Any:
    """Return an option that takes a comma-separated list of positive integers."""

    def parse(word: str) -> Integers:
        return Integers(parse_integer(item, flag) for item in word.split(","))

    return _option([flag], parse, "INTEGER,...", help, panel)


def choice(flag: str, help: str, choices: Sequence[str], panel: str | None = None) -> Any:
    """Return an option that takes one of `choices`, which `help` should list."""

    def parse(word: str) -> str:
        from kibitz._validation import one_of

        try:
            return one_of(word, flag, choices)
        except ValueError as error:
            raise OptionError(f"{error}{suggest(word, choices)}") from None

    return _option(
        [flag], parse, "NAME", help, panel, autocompletion=_make_completer(lambda: choices)
    )


def policy(help: str, panel: str | None = PROBLEM) -> Any:
    """Return the option --policy, with shell completion of the names of policies."""

    def names() -> Sequence[str]:
        from kibitz.policies import POLICIES

        return list(POLICIES)

    return typer.Option(
        "--policy",
        help=help,
        metavar="POLICY",
        rich_help_panel=panel,
        autocompletion=_make_completer(names),
    )


def graph() -> Any:
    """Return the option --graph, which takes a name or a file."""
    help_text = (
        "What a pull shows of other arms: star:3, ring, cliques:3, complete, erdos:0.1, or a file: "
        ".npz, or CSV with a matrix or with edges i,j or i,j,probability"
    )
    return text("--graph", "NAME|FILE", help_text, LOOKS)


def change() -> Any:
    """Return the repeatable option --change, which `simulate.read_problem` parses."""
    help_text = "New means from a stage on, as in 3001:2,0.5,0.2; repeatable"
    return text("--change", "STAGE:NUMBER,...", help_text, PROBLEM)


def problem_file() -> Any:
    """Return the option --problem, a file that `simulate.read_problem` reads."""
    help_text = "A CSV file instead of --means: in each line a stage and the means from that stage on"
    return text("--problem", "FILE", help_text, PROBLEM)


def loops() -> Any:
    """Return the flag --loops, which adds self-loops to the graph of a file."""
    help_text = "Let every pull show its own reward, even if the graph has no self-loops"
    return flag("--loops", help_text, LOOKS)


def load_shows(source: str | None, n_arms: int, loops: bool) -> Any:
    """Return the matrix of the graph that --graph describes; --loops adds self-loops.

    Without --graph, return None.
    """
    from kibitz.model.graphs import load_graph

    if source is None:
        if loops:
            raise OptionError(
                "--loops needs --graph; without a graph, every pull shows its own reward"
            )
        return None
    try:
        return load_graph(source, n_arms, loops)
    except ValueError as error:
        raise OptionError(f"--graph {source}: {error}") from None


def weights(help: str, panel: str | None = LOOKS) -> Any:
    """Return the option --weights, which takes a list of numbers or a name such as "uniform"."""

    def parse(word: str) -> str | list[float]:
        try:
            return parse_numbers(word, "--weights")
        except OptionError:
            return word

    return _option(["--weights"], parse, "NAME|NUMBER,...", help, panel)


def text(flag: str, metavar: str, help: str, panel: str | None = None) -> Any:
    """Return an option that takes any text, such as the name of a file."""
    return typer.Option(flag, help=help, metavar=metavar, rich_help_panel=panel)


def flag(flag: str, help: str, panel: str | None = None, *, alias: str = "", **options: Any) -> Any:
    """Return an option that takes no value and is True if given."""
    flags = [flag, alias] if alias else [flag]
    return typer.Option(*flags, help=help, metavar="", rich_help_panel=panel, **options)


def parse_silence(word: str) -> str | float:
    """Return the value of --silence: "forget" or a number."""
    return word if word == "forget" else parse_number(word, "--silence")


def as_json() -> Any:
    """Return the flag --json."""
    return flag("--json", "Print one JSON object", OUTPUT)


def plot(help: str) -> Any:
    """Return the option --plot, which takes the name of a file."""
    return text("--plot", "FILE", f"{help} as PNG, SVG or PDF", OUTPUT)


def simulation_options(*names: str, **defaults: Any) -> Callable[[F], F]:
    """Return a decorator that adds options of `kibitz.simulate` to a command, as `**options`.

    `names` are the options to add; without `names`, all options that have a help text are added.
    `defaults` replace the default values of `kibitz.simulate`. The added options come before the
    keyword-only parameters of the command.
    """

    def add_options(command: F) -> F:
        added_options = {}
        for name in names or [name for name, option in OPTIONS.items() if option.help]:
            parameter: Any = OPTIONS[name].parameter
            value_type: Any = parameter.annotation
            if name == "seed":
                value_type = int  # a SeedSequence cannot be typed
            elif callable(OPTIONS[name].allowed_values):
                value_type = str | None
            annotation: Any = Annotated[value_type, simulation_option(name)]
            default = defaults.get(name, parameter.default)
            if isinstance(default, float):
                default = repr(default).replace("e-0", "e-")  # the help shows 1e-9, not 1e-09
            added_options[name] = parameter.replace(default=default, annotation=annotation)
            command.__annotations__[name] = (
                annotation  # typer reads the signature and the annotations
            )
        add_parameters(command, added_options, first=True)
        return command

    return add_options


def simulation_option(name: str) -> Any:
    """Return the command-line option that sets the parameter `name` of `kibitz.simulate`."""
    option: Any = OPTIONS[name]
    allowed_values, (flag, _, metavar) = (
        option.allowed_values,
        (option.flag or f"--{name}").partition(" "),
    )
    panel = OUTPUT if name == "file" else RUN
    if isinstance(allowed_values, Limits):
        if allowed_values.is_whole:
            return integer(flag, option.help, panel, minimum=int(allowed_values.low))
        return number(flag, option.help, panel)
    if isinstance(allowed_values, tuple):
        return choice(flag, option.help, allowed_values, panel)
    return text(flag, metavar, option.help, panel)


def _option(
    flags: Sequence[str],
    parse: Callable[[str], Any],
    metavar: str,
    help: str,
    panel: str | None,
    **options: Any,
) -> Any:
    def parser(value: Any) -> Any:  # typer also passes default values, which may not be strings
        return parse(value if isinstance(value, str) else str(value))

    return typer.Option(
        *flags, parser=parser, metavar=metavar, help=help, rich_help_panel=panel, **options
    )


def _make_completer(choices: Callable[[], Sequence[str]]) -> Callable[[str], list[str]]:
    def complete_word(incomplete: str) -> list[str]:
        return [choice_name for choice_name in choices() if choice_name.startswith(incomplete)]

    return complete_word


# -------------------------------------------------------------------------------------- parsing


def parse_number(word: str, name: str) -> float:
    """Parse a number; 1e-3 and 1/3 are accepted."""
    from kibitz._validation import number

    return _parse(number, _to_number(word), name)


def parse_numbers(word: str, name: str) -> list[float]:
    """Parse a comma-separated list of numbers."""
    from kibitz._validation import invalid

    if not word.strip():
        raise OptionError(str(invalid(name, "a list such as 1,0.5", word)))
    return [parse_number(item, name) for item in word.split(",")]


def parse_integer(word: str, name: str, minimum: int = 1) -> int:
    """Parse an integer; 1e6 is accepted."""
    from kibitz._validation import whole

    return _parse(whole, _to_number(word), name, minimum)


def parse_bool(word: str, name: str) -> bool:
    """Parse true, false, 1 or 0."""
    from kibitz._validation import invalid

    if word.lower() not in {"true", "false", "1", "0"}:
        raise OptionError(str(invalid(name, "true or false", word)))
    return word.lower() in {"true", "1"}


def _to_number(word: str) -> int | float | str:
    """Convert a word to a number, an exact int if possible; return any other word unchanged."""
    try:
        return int(word)
    except ValueError:
        pass
    try:
        numerator, slash, denominator = word.partition("/")
        value = float(numerator) / float(denominator) if slash else float(numerator)
    except (ValueError, ZeroDivisionError):
        return word
    is_overflow = math.isinf(value) and any(letter.isdigit() for letter in word)  # such as 1e400
    return word if is_overflow else value


def _parse(check: Callable[..., T], *arguments: Any) -> T:
    try:
        return check(*arguments)
    except ValueError as error:  # typer would replace the message of a ValueError
        raise OptionError(str(error)) from None


def suggest(word: str, choices: Sequence[str]) -> str:
    """Return "; did you mean 'x'?" for the choice x closest to `word`, or "" if none is close."""
    from difflib import get_close_matches

    matches = get_close_matches(word, choices, n=1)
    return f"; did you mean {matches[0]!r}?" if matches else ""


# --------------------------------------------------------------------------- checks before the work


def check_plot(plot: str) -> None:
    """Raise ValueError if a figure cannot be written to the file `plot`.

    Commands call this function before a long computation.
    """
    from kibitz._files import check_target
    from kibitz._validation import invalid

    if not plot.endswith((".png", ".svg", ".pdf")):
        raise invalid("--plot", "a name that ends in .png, .svg or .pdf", plot)
    check_target(plot, "--plot")
    check_installed("matplotlib", "figures", "--plot")


def check_installed(package: str, extra: str, user: str) -> None:
    """Raise ValueError if a package is not installed; `user` is the flag or command that needs it."""
    import importlib.util

    if importlib.util.find_spec(package) is None:
        raise ValueError(
            f"{user} needs {package}, which is not installed; run: pip install '.[{extra}]'"
        )
