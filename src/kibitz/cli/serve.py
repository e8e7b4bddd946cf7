"""`kibitz serve`: the agents of a store over HTTP."""

from typing import Annotated

from kibitz.cli import parse
from kibitz.cli.agent import Store


def serve(
    store: Store,
    port: Annotated[int, parse.whole("port", "Where to listen; 0 for any free one", least=0)] = 8765,
    host: Annotated[
        str, parse.text("ADDRESS", "Whom to listen to; others than this machine need tokens")
    ] = "127.0.0.1",
) -> None:
    """Serve the agents of a store over HTTP, until Ctrl-C or SIGTERM."""
    try:
        import msgspec  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ValueError(f"{error.name} is not installed; run: pip install 'kibitz[serve]'") from None
    from kibitz._validation import whole
    from kibitz.live.dashboard.routes import ROUTES
    from kibitz.live.service.app import create_app
    from kibitz.live.service.auth import list_tokens
    from kibitz.live.service.server import create_server, is_local, listen
    from kibitz.live.store import connect

    whole(port, "port", 0, 65535)
    there = connect(store, create=False)
    try:
        if not is_local(host) and not list_tokens(there):
            raise parse.Refused(
                "host must be 127.0.0.1, ::1 or localhost while the store has no tokens "
                f"(kibitz token create), got {host!r}"
            )
        listening = listen(host, port)
    except BaseException:
        there.close()
        raise
    name = f"[{host}]" if ":" in host else host
    print(f"serving {store} on http://{name}:{listening.getsockname()[1]}", flush=True)
    create_server(create_app(there, ROUTES)).run(sockets=[listening])
