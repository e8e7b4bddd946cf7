"""`kibitz token`: who may do what with the agents of a store that is served."""

from typing import Annotated, Literal

import typer

from kibitz.cli import parse
from kibitz.cli.agent import AsJson, Store, show

app = typer.Typer(no_args_is_help=True, help="Make, list and revoke the tokens of a store.")


@app.command()
def create(
    store: Store,
    role: Annotated[
        Literal["read", "play", "admin"],
        parse.word("role", "What it allows, each what those before it do", ("read", "play", "admin")),
    ],
    agent: Annotated[str, parse.text("NAME", "For one agent only (default: for all)")] = "",
    as_json: AsJson = False,
) -> None:
    """Make a token and print it; it cannot be shown again."""
    from kibitz.live.store import connect
    from kibitz.live.tokens import create

    there = connect(store)
    try:
        show({"token": create(there, role, agent or None)}, as_json)
    finally:
        there.close()


@app.command("list")
def list_tokens(store: Store, as_json: AsJson = False) -> None:
    """Print the number of each token, its role, its agent and whether it was revoked."""
    from kibitz.live.store import connect
    from kibitz.live.tokens import listed

    there = connect(store, create=False)
    try:
        found = listed(there)
    finally:
        there.close()
    if as_json:
        from kibitz.cli.tables import print_json

        print_json({"tokens": [token._asdict() for token in found]})
        return
    for token in found:
        state = "valid" if token.revoked_at is None else "revoked"
        print(token.number, token.role, token.agent or "-", state, sep="\t")


@app.command()
def revoke(
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="Of the token: before the dot")],
    store: Store,
    as_json: AsJson = False,
) -> None:
    """Revoke a token; a service that runs refuses it a second later at the latest."""
    from kibitz.live.store import connect
    from kibitz.live.tokens import revoke

    there = connect(store, create=False)
    try:
        show({"result": revoke(there, number)}, as_json)
    finally:
        there.close()
