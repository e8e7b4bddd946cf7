"""`kibitz serve`: serve the agents of a store over HTTP."""

from typing import Annotated

from kibitz.cli import option
from kibitz.cli.agent import Store

EXAMPLES = """\
kibitz serve --store shop.db --port 8765
"""


def serve(
    store: Store,
    port: Annotated[
        int, option.integer("--port", "Port to listen on; 0 for any free port", minimum=0)
    ] = 8765,
    host: Annotated[
        str, option.text("--host", "ADDRESS", "Bind address; other than 127.0.0.1, it needs tokens")
    ] = "127.0.0.1",
) -> None:
    """Serve the agents of a store and the dashboard over HTTP, until Ctrl-C or SIGTERM."""
    try:
        import msgspec  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ValueError(
            f"kibitz serve needs {error.name}, which is not installed; run: pip install '.[serve]'"
        ) from None
    from kibitz._validation import whole
    from kibitz.live.dashboard.routes import ROUTES
    from kibitz.live.service.app import create_app
    from kibitz.live.service.auth import list_tokens
    from kibitz.live.service.server import create_server, is_local, listen
    from kibitz.live.store import connect

    whole(port, "--port", 0, 65535)
    connection = connect(store, create=False)
    try:
        if not is_local(host) and not list_tokens(connection):
            raise option.OptionError(
                f"--host {host} lets other machines in, but the store has no tokens; create a "
                "token with `kibitz token create`, or use --host 127.0.0.1"
            )
        listening_socket = listen(host, port)
    except BaseException:
        connection.close()
        raise
    url_host = f"[{host}]" if ":" in host else host
    port = listening_socket.getsockname()[1]
    print(f"serving {connection.display_url} on http://{url_host}:{port}", flush=True)
    create_server(create_app(connection, ROUTES)).run(sockets=[listening_socket])
