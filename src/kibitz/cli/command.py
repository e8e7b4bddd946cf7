"""Commands whose help shows examples and whose error messages name the flags."""

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.core import TyperCommand

from kibitz.cli.option import OptionError


class Command(TyperCommand):
    """A command whose error messages name flags instead of parameters of the library."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; convert a ValueError to an OptionError that names the flags."""
        try:
            return super().invoke(ctx)
        except ValueError as error:
            raise OptionError(name_flags(str(error), self.params)) from error

    def get_help_option(self, ctx: Any) -> Any:
        """Return the --help option, listed in the last panel of options, not in a separate panel."""
        option: Any = super().get_help_option(ctx)
        if option is not None and self.params:
            option.rich_help_panel = getattr(self.params[-1], "rich_help_panel", None)
        return option


def add_command(
    app: typer.Typer, examples: str, *, name: str | None = None, panel: str | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds a function to `app` as a command with examples."""

    def add(function: Callable[..., None]) -> Callable[..., None]:
        # typer keeps the line breaks inside all paragraphs but the first
        help_text = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.getdoc(function) or "")
        register = app.command(
            name, cls=Command, help=help_text, epilog=format_examples(examples), rich_help_panel=panel
        )
        return register(function)

    return add


def format_examples(examples: str) -> str:
    """Return the text with examples that is printed below the help of a command."""
    title = "Example:" if examples.count("kibitz ") == 1 else "Examples:"
    return f"{title}\n\n{examples.strip()}"


def name_flags(message: str, params: Sequence[Any]) -> str:
    """Replace names of parameters in an error message by the flags of a command.

    Names are replaced at the start of the message and in advice that ends in "=True":
    "rate must be in [0, 1], got 2.0" becomes "--rate must be in [0, 1], got 2.0", and the advice
    "use loops=True" becomes "use --loops".
    """
    flags = {
        param.name: param.opts[0] if param.param_type_name == "option" else param.metavar
        for param in params
    }
    name_pattern = "|".join(map(re.escape, flags)) or "(?!)"
    message = re.sub(rf"\b({name_pattern})=True\b", lambda match: flags[match[1]], message)
    subject_pattern = rf"(?:one of )?(?:{name_pattern})(?:(?:, | and | or )(?:{name_pattern}))*"
    verb_pattern = r"(?==| (?:must|needs?|is|are|has|have|cannot|would)\b)"
    if (match := re.match(subject_pattern + verb_pattern, message)) is None:
        return message
    named_subject = re.sub(
        rf"\b(?:{name_pattern})\b", lambda name_match: flags[name_match[0]], match[0]
    )
    return named_subject + message[match.end() :]
