"""Tests that no message, repr or log contains the password of a store."""

import sys

import pytest

import kibitz
from kibitz.cli import main
from kibitz.live.store import connect, hide_password

SECRETS = ("s3cret", "hunter2")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("shop@home:1.db", "shop@home:1.db"),
        ("sqlite:///data/shop.db", "sqlite:///data/shop.db"),
        ("postgresql://host/shop", "postgresql://host/shop"),
        ("postgresql://user@host:5432/shop", "postgresql://user@host:5432/shop"),
        ("postgresql://user:s3cret@host/shop", "postgresql://user@host/shop"),
        ("postgresql://user:s3cret@hunter2@host/shop", "postgresql://user@host/shop"),
        ("postgresql://user:s3cret/hunter2@host/shop", "postgresql://user@host/shop"),
        ("postgresql://user:s3cret?hunter2@host/shop", "postgresql://user..."),
        ("postgresql://host/shop?user=me&password=hunter2", "postgresql://host/shop"),
        ("postgresql://host/shop?password=s3cret@hunter2", "postgresql://host..."),
        ("postgresql://me@host/shop?password=s3cret@hunter2", "postgresql://me@host..."),
        ("postgresql://host?password=s3cret@hunter2", "postgresql://host..."),
        ("host=localhost password=hunter2", "..."),
        ("host=localhost password=hunter2://s3cret", "..."),
        ("postgresql:/user:s3cret@host/shop", "..."),
    ],
)
def test_an_address_is_shown_without_its_password(url, shown):
    assert hide_password(url) == shown


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("postgresql://user:s3cret@localhost:1/shop?password=hunter2", kibitz.StoreUnavailable),
        ("postgresql://user:s3cret@localhost:port/shop", kibitz.StoreUnavailable),
        ("postgresql://user:s3cret%zz@localhost/shop", ValueError),
        ("postgresql://user:s3cret@hunter2@localhost:1/shop", ValueError),
        ("postgresql://user:s3cret/hunter2@localhost:1/shop", ValueError),
        ("postgresql://user:s3cret?hunter2@localhost:1/shop", kibitz.StoreUnavailable),
        ("postgresql://localhost:1/shop?pasword=hunter2", ValueError),
        ("postgres+psycopg://user:s3cret@localhost/shop", ValueError),
        ("mysql://user:s3cret@localhost/shop", ValueError),
        ("postgresql://user:s3cret@localhost/shop\0", ValueError),
        ("postgresql://localhost:1/shop?password=s3cret@hunter2", kibitz.StoreUnavailable),
        ("host=localhost user=me password=s3cret", ValueError),
        ("host=localhost password = 'hunter2' dbname=/shop", ValueError),
        ("PGPASSWORD=hunter2", ValueError),
        ("host=localhost password=hunter2://s3cret", ValueError),
        ("postgresql:/user:s3cret@localhost/shop", ValueError),
        (" Postgres:user:s3cret@localhost", ValueError),
    ],
)
@pytest.mark.parametrize("open_url", [connect, kibitz.Client])
def test_no_error_shows_the_password(url, error, open_url):
    with pytest.raises(error if open_url is connect else ValueError) as raised:
        open_url(url)
    shown: BaseException | None = raised.value
    while shown is not None:  # an uncaught error also prints the errors that caused it
        assert not any(secret in f"{shown} {shown!r}" for secret in SECRETS)
        shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)


def test_no_repr_and_no_output_shows_the_password(database, monkeypatch, capsys):
    url = f"{database}&password=hunter2"
    with kibitz.agent(url, "checkout", arms=["a", "b"], rewards="bernoulli") as agent:
        assert repr(agent) == "agent('postgresql://postgres@/postgres', 'checkout')"
        assert "hunter2" not in repr(agent.store)
    for line in [
        ["agent", "create", "checkout", "--store", url, "--arms", "a,b", "--rewards", "bernoulli"],
        ["agent", "create", "basket", "--store", url, "--arms", "a,b", "--rewards", "bernoulli"],
        ["token", "create", "--store", url, "--role", "play"],
        ["token", "list", "--store", url],
        ["agent", "ask", "missing", "--store", url],
        ["agent", "check", "--store", url],
        ["serve", "--store", url, "--host", "0.0.0.0", "--port", "70000"],
    ]:
        monkeypatch.setattr(sys, "argv", ["kibitz", *line])
        with pytest.raises(SystemExit):
            main()
        output = capsys.readouterr()
        assert output.out + output.err
        assert "hunter2" not in output.out + output.err
