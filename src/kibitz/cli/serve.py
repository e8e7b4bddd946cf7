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
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise ValueError(
            "kibitz serve must have FastAPI and uvicorn (pip install 'kibitz[serve]'), got neither"
        ) from None
    from kibitz._validation import whole
    from kibitz.live.running import bound, is_local, server
    from kibitz.live.service import app
    from kibitz.live.store import connect
    from kibitz.live.tokens import listed

    whole(port, "port", 0, 65535)
    there = connect(store, create=False)
    try:
        if not is_local(host) and not listed(there):
            raise parse.Refused(
                "host must be 127.0.0.1, ::1 or localhost while the store has no tokens "
                f"(kibitz token create), got {host!r}"
            )
        listening = bound(host, port)
    except BaseException:
        there.close()
        raise
    name = f"[{host}]" if ":" in host else host
    print(f"serving {store} on http://{name}:{listening.getsockname()[1]}", flush=True)
    server(app(there)).run(sockets=[listening])
