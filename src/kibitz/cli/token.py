"""`kibitz token`: who may do what with the agents of a store that is served."""

from typing import Annotated, Literal

import typer

from kibitz.cli import parse
from kibitz.cli.agent import AsJson, Store, connected, show

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
    """Create a token and print it; it cannot be shown again."""
    from kibitz.live.service.auth import create_token

    with connected(store) as there:
        show({"token": create_token(there, role, agent or None)}, as_json)


@app.command("list")
def list_tokens(store: Store, as_json: AsJson = False) -> None:
    """Print the number of each token, its role, its agent and whether it was revoked."""
    from kibitz.live.service import auth

    with connected(store) as there:
        found = auth.list_tokens(there)
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
    """Revoke a token; a running service rejects it within a second."""
    from kibitz.live.service.auth import revoke_token

    with connected(store) as there:
        show({"result": revoke_token(there, number)}, as_json)
