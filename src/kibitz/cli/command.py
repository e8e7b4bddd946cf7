"""Commands with examples in their help, and with errors that name the flags."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.core import TyperCommand

from kibitz.cli.option import OptionError


class Command(TyperCommand):
    """A command that names the flag where an error of the library names a parameter."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except ValueError as error:
            raise OptionError(name_flags(str(error), self.params)) from error

    def get_help_option(self, ctx: Any) -> Any:
        """Return the option --help; it joins the last panel instead of one of its own."""
        option: Any = super().get_help_option(ctx)
        if option is not None and self.params:
            option.rich_help_panel = getattr(self.params[-1], "rich_help_panel", None)
        return option


def add_command(
    app: typer.Typer, examples: str, *, name: str | None = None, panel: str | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds a function to `app` as a command with examples."""
    epilog = format_examples(examples)
    return app.command(name, cls=Command, epilog=epilog, rich_help_panel=panel)


def format_examples(examples: str) -> str:
    """Return the text below the help that shows examples, one command on each line."""
    title = "Example:" if examples.count("kibitz ") == 1 else "Examples:"
    return f"{title}\n\n{examples.strip()}"


def name_flags(message: str, params: Sequence[Any]) -> str:
    """Return an error message with flags instead of the parameter names that are its subject.

    "rate must be in [0, 1], got 2.0" becomes "--rate must be in [0, 1], got 2.0".
    """
    flags = {
        param.name: param.opts[0] if param.param_type_name == "option" else param.metavar
        for param in params
    }
    name = "|".join(map(re.escape, flags)) or "(?!)"
    subject = rf"(?:one of )?(?:{name})(?:(?:, | and | or )(?:{name}))*"
    verb = r"(?==| (?:must|needs?|is|are|has|have|cannot|would)\b)"
    if (match := re.match(subject + verb, message)) is None:
        return message
    named = re.sub(rf"\b(?:{name})\b", lambda found: flags[found[0]], match[0])
    return named + message[match.end() :]
