"""`kibitz serve`: serve the agents of a store over HTTP."""

import contextlib
from typing import Annotated, Any, Literal, get_args

from kibitz.cli import option

EXAMPLES = """\
kibitz serve --store shop.db --port 8765
KIBITZ_STORE=shop.db KIBITZ_LOG_FORMAT=json kibitz serve
"""

LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error", "critical"]


def setting(typer_option: Any) -> Any:
    """Return an option that the environment variable KIBITZ_<OPTION> can also set."""
    name = typer_option.default.removeprefix("--")  # typer keeps the first flag there
    typer_option.envvar = f"KIBITZ_{name.replace('-', '_').upper()}"
    return typer_option


def serve(
    store: Annotated[
        str,
        setting(
            option.text(
                "--store",
                "PATH|URL",
                "A SQLite file, or the URL postgresql://... of a database; required here, in "
                "KIBITZ_STORE, or in the file KIBITZ_STORE_FILE",
            )
        ),
    ] = "",
    port: Annotated[
        int, setting(option.integer("--port", "Port to listen on; 0 for any free port", minimum=0))
    ] = 8765,
    host: Annotated[
        str,
        setting(
            option.text("--host", "ADDRESS", "Bind address; any address but 127.0.0.1 needs tokens")
        ),
    ] = "127.0.0.1",
    log_format: Annotated[
        LogFormat,
        setting(
            option.choice(
                "--log-format", "Log lines on standard error: text or json", get_args(LogFormat)
            )
        ),
    ] = "text",
    log_level: Annotated[
        LogLevel,
        setting(
            option.choice(
                "--log-level",
                "Lowest level to log: debug, info (also each request), warning, error or critical",
                get_args(LogLevel),
            )
        ),
    ] = "warning",
    allow_origin: Annotated[
        list[str] | None,
        setting(
            option.text(
                "--allow-origin",
                "ORIGIN",
                "Let pages of this origin, such as https://shop.example, ask and tell (CORS); can "
                "be repeated",
            )
        ),
    ] = None,
    metrics_token: Annotated[
        str,
        setting(
            option.text(
                "--metrics-token",
                "TOKEN",
                "A token for /metrics only; better in the file KIBITZ_METRICS_TOKEN_FILE",
            )
        ),
    ] = "",
) -> None:
    """Serve the agents of a store and the dashboard over HTTP, until Ctrl-C or SIGTERM."""
    try:
        import msgspec  # noqa: F401
        import prometheus_client  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ValueError(
            f"kibitz serve needs {error.name}, which is not installed; run: pip install '.[serve]'"
        ) from None
    from kibitz._validation import whole
    from kibitz.live.dashboard.routes import ROUTES
    from kibitz.live.service import logs, read_setting
    from kibitz.live.service.app import create_app
    from kibitz.live.service.auth import list_tokens
    from kibitz.live.service.server import create_server, is_local, listen
    from kibitz.live.store.opening import OpeningStore

    whole(port, "--port", 0, 65535)
    store = store or read_setting("STORE") or ""
    if not store:
        raise option.OptionError("--store is required; give --store, or set KIBITZ_STORE")
    with contextlib.ExitStack() as stack:  # close both if the service cannot start
        connection = OpeningStore(store)
        stack.callback(connection.close)
        if connection.is_open and not is_local(host) and not list_tokens(connection):
            raise option.OptionError(
                f"--host {host} lets other machines in, but the store has no tokens; create a "
                "token with `kibitz token create`, or use --host 127.0.0.1"
            )
        listening_socket = stack.enter_context(listen(host, port))
        app = create_app(
            connection,
            ROUTES,
            allow_open=is_local(host),
            metrics_token=metrics_token or read_setting("METRICS_TOKEN"),
            allowed_origins=allow_origin or (),
        )
        stack.pop_all()
    logs.configure(log_format, log_level)
    url_host = f"[{host}]" if ":" in host else host
    port = listening_socket.getsockname()[1]
    print(f"serving {connection.display_url} on http://{url_host}:{port}", flush=True)
    create_server(app).run(sockets=[listening_socket])
