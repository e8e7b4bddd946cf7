"""Writes docs/commands/: a page for each command, from the command's own help. A test compares.

python docs/commands.py
"""

from pathlib import Path
from textwrap import wrap

import typer

from kibitz.cli import app
from kibitz.cli.policies import LISTED

FOLDER = Path(__file__).parent / "commands"
WIDTH, INDENT = 78, " " * 4


def pages() -> dict[str, str]:
    """Return the text of each page by the name of its command."""
    found = {}
    for name, command in typer.main.get_command(app).commands.items():
        for inner, one in getattr(command, "commands", {"": command}).items():
            full = f"{name}-{inner}" if inner else name
            found[full] = page(full, one)
    return found


def page(name: str, command) -> str:
    """Return the page of a command."""
    lines = [f"# kibitz {name.replace('-', ' ')}", "", command.help.strip(), ""]
    options = [option for option in command.params if option.name != "help"]
    if options:
        lines += ["| option | takes | meaning | default |", "|---|---|---|---|"]
        lines += [row(option) for option in options]
    if name == "policies":
        lines += [
            "```text",
            *map(listing, LISTED),
            "```",
        ]
    return "\n".join(lines) + "\n"


def listing(listed) -> str:
    """Return how a policy is called and what it is, on lines that fit on the page."""
    call, under = (
        f"{listed.name}({listed.parameters})",
        " " * (len(listed.name) + 1),
    )
    lines = wrap(call, WIDTH, subsequent_indent=under)
    lines += wrap(
        listed.sentence, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT
    )
    return "\n".join(lines)


def row(option) -> str:
    """Return the row of an option."""
    default = "required" if option.required else option.default
    is_flag = getattr(option, "is_flag", False)  # an argument is none
    if is_flag or default is None or default == "":
        default = ""
    takes = "" if is_flag else option.metavar
    cells = (
        ", ".join(f"`{word}`" for word in option.opts),
        takes and f"`{takes}`",
        option.help,
        default if option.required or default == "" else f"`{default}`",
    )
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / f"{name}.md").write_text(text, encoding="utf-8")
