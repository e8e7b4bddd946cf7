"""The command line. Each command imports what it needs, so that `kibitz --help` answers at once."""

import os
import sys
from typing import Annotated, Any

import typer

from kibitz.cli import (
    agent,
    bayes_optimal,
    bounds,
    league,
    parse,
    plan,
    policies,
    rehearse,
    reproduce,
    serve,
    simulate,
    token,
)
from kibitz.cli.terminal import speak_its_language

INTERRUPTED = 130  # exit code after Ctrl-C
BROKEN_PIPE = 141  # and if nobody reads on, as in `kibitz ... | head -1`
LONGEST = 100  # letters of a word that is quoted

app = typer.Typer(
    name="kibitz",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    simulate.simulate,
    policies.policies,
    reproduce.reproduce,
    bounds.bounds,
    plan.plan,
    league.league,
    bayes_optimal.bayes_optimal,
    rehearse.rehearse,
    serve.serve,
):
    app.command()(command)
app.add_typer(agent.app, name="agent")
app.add_typer(token.app, name="token")


def print_version(wanted: bool) -> None:
    """Print the version and leave."""
    if wanted:
        from importlib.metadata import version

        print(f"kibitz {version('kibitz')}")
        raise typer.Exit()


@app.callback()
def kibitz(
    version: Annotated[
        bool, parse.flag("--version", "Print the version", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    """Bandits that sometimes get to look."""


def main() -> None:
    """Run the command line; bad input gets one sentence and exit code 2."""
    speak_its_language(sys.stdout, sys.stderr)
    try:
        code = app(standalone_mode=False, prog_name="kibitz")
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        code = BROKEN_PIPE
    except SystemExit as stop:  # typer and rich leave like this if nobody reads on
        code = BROKEN_PIPE if isinstance(stop.__context__, BrokenPipeError) else stop.code
    except Exception as error:
        if (sentence := explained(error)) is None:
            raise
        if sentence:
            print(f"kibitz: {sentence}", file=sys.stderr)
        code = 2
    if code == INTERRUPTED:  # some versions of typer catch Ctrl-C themselves
        print("kibitz: interrupted; with --out, the same command goes on from here", file=sys.stderr)
    if code == BROKEN_PIPE:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)  # or Python would try to write the rest when it leaves
    sys.exit(code)


def explained(error: Exception) -> str | None:
    """Return one sentence for what the user can mend, None for a bug."""
    misused: Any = getattr(error, "format_message", None)  # a command or an option, says typer
    if misused is not None:
        text = misused()
    elif isinstance(error, MemoryError):
        text = f"the work must fit into memory, got {str(error) or 'no more of it'}"
    elif isinstance(error, ValueError | OSError):
        text = str(error)
    else:
        return None
    words = (w if len(w) <= LONGEST else f"{w[:40]}...{w[-20:]}" for w in text.split())
    return " ".join(words)
