"""`kibitz token`: manage the tokens that give access to a store's agents over HTTP."""

from typing import Annotated, Literal

import typer

from kibitz.cli import option
from kibitz.cli.agent import AsJson, Store, open_store, print_values
from kibitz.cli.command import add_command, format_examples

CREATE_EXAMPLE = "kibitz token create --store shop.db --role play --agent checkout"

app = typer.Typer(
    no_args_is_help=True,
    help="Create, list and revoke the access tokens of a store.",
    epilog=format_examples(CREATE_EXAMPLE),
)


@add_command(app, CREATE_EXAMPLE)
def create(
    store: Store,
    role: Annotated[
        Literal["read", "play", "admin"],
        option.choice(
            "--role",
            "Role: read, play or admin; each includes the roles before it",
            ("read", "play", "admin"),
        ),
    ],
    agent: Annotated[
        str, option.text("--agent", "NAME", "Give access to one agent only (default: all)")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Create a token and print it; the store keeps only a hash of it."""
    from kibitz.live.service.auth import create_token

    with open_store(store) as connection:
        print_values({"token": create_token(connection, role, agent or None)}, as_json)


@add_command(app, "kibitz token list --store shop.db", name="list")
def list_tokens(store: Store, as_json: AsJson = False) -> None:
    """List the tokens with their number, role, agent and state."""
    from kibitz.cli.output import Printer, print_json
    from kibitz.live.service import auth

    with open_store(store) as connection:
        tokens, url = auth.list_tokens(connection), connection.display_url
    if as_json:
        print_json({"tokens": [token._asdict() for token in tokens]})
        return
    rows = [
        [
            str(token.number),
            token.role,
            token.agent or "all",
            "valid" if token.revoked_at is None else "revoked",
        ]
        for token in tokens
    ]
    columns = ("number", "role", "agent", "state")
    Printer().table(f"tokens of {url}", columns, rows, left=columns)


@add_command(app, "kibitz token revoke 1 --store shop.db")
def revoke(
    number: Annotated[
        int, typer.Argument(metavar="NUMBER", help="The token's number, before its dot")
    ],
    store: Store,
    as_json: AsJson = False,
) -> None:
    """Revoke a token; a running service rejects it within a second."""
    from kibitz.live.service.auth import revoke_token

    with open_store(store) as connection:
        print_values({"result": revoke_token(connection, number)}, as_json)
