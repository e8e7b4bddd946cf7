"""The HTTP service. `create_app` is its factory for ASGI servers; for example, run uvicorn with:

KIBITZ_STORE=shop.db uvicorn --factory kibitz.live.service:create_app --workers 2
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.applications import Starlette


def create_app() -> "Starlette":
    """Return the application that the environment variables of `kibitz serve` describe.

    `KIBITZ_HOST` and `KIBITZ_PORT` have no effect: the server that runs the application binds its
    address. The application cannot know this address, so it always requires tokens.
    """
    from kibitz._validation import one_of
    from kibitz.live.dashboard.routes import ROUTES
    from kibitz.live.service import app, logs
    from kibitz.live.store.opening import OpeningStore

    store = read_setting("STORE")
    if store is None:
        raise ValueError("KIBITZ_STORE is not set; set it to a SQLite file or postgresql://...")
    log_format, log_level = read_setting("LOG_FORMAT"), read_setting("LOG_LEVEL")
    if log_format or log_level:  # otherwise the server configures the logs
        logs.configure(
            one_of(log_format or "text", "KIBITZ_LOG_FORMAT", logs.LOG_FORMATS),
            one_of(log_level or "warning", "KIBITZ_LOG_LEVEL", logs.LOG_LEVELS),
        )
    return app.create_app(
        OpeningStore(store),
        ROUTES,
        allow_open=False,
        metrics_token=read_setting("METRICS_TOKEN"),
        allowed_origins=(read_setting("ALLOW_ORIGIN") or "").split(),
    )


def read_setting(name: str) -> str | None:
    """Return the value of `KIBITZ_<name>`, or the content of the file `KIBITZ_<name>_FILE`.

    Return None if neither variable is set, or if both are empty.
    """
    variable = f"KIBITZ_{name}"
    if value := os.environ.get(variable):
        return value
    if file := os.environ.get(f"{variable}_FILE"):
        try:
            return Path(file).read_text(encoding="utf-8").strip() or None
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(
                f"{variable}_FILE names a file that cannot be read ({error}); name a text file"
            ) from None
    return None
