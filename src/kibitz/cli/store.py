"""`kibitz store`: back up, restore and migrate a store."""

from typing import Annotated

import typer

from kibitz.cli import option
from kibitz.cli.agent import AsJson, Store, print_values
from kibitz.cli.command import add_command, format_examples

BACKUP_EXAMPLE = "kibitz store backup shop-backup.db --store shop.db"

app = typer.Typer(
    no_args_is_help=True,
    help="Back up, restore and migrate a store.",
    epilog=format_examples(BACKUP_EXAMPLE),
)
File = Annotated[str, typer.Argument(metavar="FILE", help="The file of the backup")]


@add_command(app, BACKUP_EXAMPLE)
def backup(file: File, store: Store, as_json: AsJson = False) -> None:
    """Copy a SQLite store to a file while it is in use; check the copy before it is kept.

    An existing file is replaced. Use pg_dump for a PostgreSQL store.
    """
    from kibitz.live.agent.backup import back_up

    n_agents = back_up(store, file)
    if as_json:
        print_values({"file": file, "n_agents": n_agents}, as_json)
    else:
        print(f"written to {file}; agents checked: {n_agents}")


@add_command(app, "kibitz store restore shop-backup.db --store shop-copy.db")
def restore(
    file: File,
    store: Store,
    replace: Annotated[
        bool, option.flag("--replace", "Replace a store that already exists; its data is lost")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Restore a SQLite store from a backup, which is checked before anything is replaced.

    Stop all programs that use the store first.
    """
    from kibitz.live.agent.backup import restore as run

    n_agents = run(file, store, replace)
    if as_json:
        print_values({"store": store, "n_agents": n_agents}, as_json)
    else:
        print(f"restored {store}; agents checked: {n_agents}")


@add_command(app, "kibitz store migrate --store shop.db")
def migrate(store: Store, as_json: AsJson = False) -> None:
    """Migrate a store to the schema of this version of kibitz; back it up first.

    Every other command and the service also migrate the store when they open it. No earlier version
    of kibitz can open the store afterwards.
    """
    from kibitz.live.store import connect
    from kibitz.live.store.schema import VERSION

    opened_store = connect(store, create=False)
    opened_store.close()
    found = opened_store.found_version
    if as_json:
        print_values({"from": found, "to": VERSION}, as_json)
    elif found == VERSION:
        print(f"the store already has schema {VERSION}")
    else:
        print(f"migrated the store from schema {found} to schema {VERSION}")
