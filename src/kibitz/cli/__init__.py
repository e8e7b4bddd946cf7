"""The command line. A command imports its dependencies when it runs, so its help appears at once."""

import os
import sys
from difflib import get_close_matches
from typing import Annotated, Any

import typer

from kibitz.cli import (
    agent,
    bayes_optimal,
    bounds,
    evaluate,
    league,
    option,
    plan,
    policies,
    rehearse,
    reproduce,
    serve,
    simulate,
    store,
    token,
    trace,
)
from kibitz.cli.command import add_command, format_examples
from kibitz.cli.terminal import set_error_handler

INTERRUPTED_CODE = 130  # exit code after Ctrl-C
BROKEN_PIPE_CODE = 141  # exit code if the reader closes the pipe, as in `kibitz ... | head -1`
RESUMABLE = (["import"], ["compact"], ["erase"])  # commands of `kibitz agent`
MAX_WORD_LENGTH = 100  # longest word in an error message, in characters; longer words are cut

SIMULATION, THEORY, LIVE = "Simulation", "Theory and planning", "Live agents"
EXAMPLES = """\
kibitz simulate --policy kibitzer --means 0.5,0.3 --horizon 1000 --runs 100
kibitz policies
"""

app = typer.Typer(
    name="kibitz",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=format_examples(EXAMPLES),
)
for panel, function, examples in (
    (SIMULATION, simulate.simulate, simulate.EXAMPLES),
    (SIMULATION, trace.trace, trace.EXAMPLES),
    (SIMULATION, policies.policies, policies.EXAMPLES),
    (SIMULATION, league.league, league.EXAMPLES),
    (SIMULATION, reproduce.reproduce, reproduce.EXAMPLES),
    (THEORY, plan.plan, plan.EXAMPLES),
    (THEORY, bounds.bounds, bounds.EXAMPLES),
    (THEORY, bayes_optimal.bayes_optimal, bayes_optimal.EXAMPLES),
    (LIVE, rehearse.rehearse, rehearse.EXAMPLES),
    (LIVE, evaluate.evaluate, evaluate.EXAMPLES),
    (LIVE, serve.serve, serve.EXAMPLES),
):
    add_command(app, examples, panel=panel)(function)
app.add_typer(agent.app, name="agent", rich_help_panel=LIVE)
app.add_typer(store.app, name="store", rich_help_panel=LIVE)
app.add_typer(token.app, name="token", rich_help_panel=LIVE)


def print_version(is_requested: bool) -> None:
    """Print the version and exit, if the flag --version is given."""
    if is_requested:
        from importlib.metadata import version

        print(f"kibitz {version('kibitz')}")
        raise typer.Exit()


@app.callback()
def kibitz(
    version: Annotated[
        bool,
        option.flag(
            "--version", "Print the version", alias="-V", callback=print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Simulate, plan and run multi-armed bandits with side observations."""


def main() -> None:
    """Run the command line; invalid input ends with an error message and exit code 2."""
    set_error_handler(sys.stdout, sys.stderr)
    try:
        exit_code = app(standalone_mode=False, prog_name="kibitz")
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        exit_code = INTERRUPTED_CODE
    except BrokenPipeError:
        exit_code = BROKEN_PIPE_CODE
    except SystemExit as stop:  # typer and rich raise SystemExit if the pipe is closed
        exit_code = BROKEN_PIPE_CODE if isinstance(stop.__context__, BrokenPipeError) else stop.code
    except Exception as error:
        if (message := describe(error)) is None:
            raise
        if message:
            print(f"kibitz: {message}", file=sys.stderr)
        exit_code = 2
    if exit_code == INTERRUPTED_CODE:  # some versions of typer catch Ctrl-C themselves
        is_saved = (
            sys.argv[1:2] == ["reproduce"]
            or (sys.argv[1:2] == ["agent"] and sys.argv[2:3] in RESUMABLE)
            or any(w.startswith("--out") for w in sys.argv)
        )
        advice = "run the same command again to resume" if is_saved else "nothing was saved"
        print(f"kibitz: interrupted; {advice}", file=sys.stderr)
    if exit_code == BROKEN_PIPE_CODE:
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, 1)  # without this, Python fails to flush standard output at exit
    sys.exit(exit_code)


def describe(error: Exception) -> str | None:
    """Return the message for an error that the user can fix; return None for a bug in kibitz."""
    if isinstance(error, option.OptionError):
        text = error.format_message()
    elif hasattr(error, "format_message"):
        text = describe_misuse(error)
    elif isinstance(error, MemoryError):
        details = f" ({error})" if str(error) else ""
        text = f"not enough memory{details}; reduce the size of the problem or the number of runs"
    elif isinstance(error, OSError) and error.strerror and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    elif isinstance(error, ValueError | OSError):
        text = str(error)
    else:
        return None
    words = (
        word if len(word) <= MAX_WORD_LENGTH else f"{word[:40]}...{word[-20:]}"
        for word in text.split()
    )
    return " ".join(words)


def describe_misuse(error: Any) -> str:
    """Return the message for an error raised by typer, such as an unknown command or option."""
    if getattr(error, "possibilities", None):
        matches = get_close_matches(error.option_name, error.possibilities, n=1, cutoff=0.7)
        if matches:
            return f"{error.message}. Did you mean {matches[0]}?"
        error.possibilities = None
    text = str(error.format_message())  # empty if typer has only printed the help
    if not text or text.endswith("?"):
        return text
    path = error.ctx.command_path if error.ctx else "kibitz"
    return f"{text.rstrip('.')}. See: {path} --help"
