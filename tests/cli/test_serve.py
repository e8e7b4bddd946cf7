"""`kibitz serve` and `kibitz token`."""

import json
import socket

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def shop(kibitz, tmp_path):
    """Return a store with an agent named checkout."""
    file = tmp_path / "shop.db"
    made = ("--arms", "blue,green", "--policy", "ucb")
    assert kibitz("agent", "create", "--store", file, "checkout", *made)[0] == 0
    return file


def test_a_token_is_made_listed_and_revoked(kibitz, shop):
    code, out, err = kibitz("token", "create", "--store", shop, "--role", "play")
    assert (code, err) == (0, "")
    number, _, secret = out.strip().partition(".")
    assert number == "1"
    assert len(secret) >= 43
    code, out, _ = kibitz(
        "token", "create", "--store", shop, "--role", "read", "--agent", "checkout", "--json"
    )
    assert code == 0
    assert set(json.loads(out)) == {"token"}
    assert json.loads(out)["token"].startswith("2.")
    assert kibitz("token", "revoke", "--store", shop, "1") == (0, "revoked\n", "")
    assert kibitz("token", "revoke", "--store", shop, "1") == (0, "duplicate\n", "")
    shown = "1\tplay\t-\trevoked\n2\tread\tcheckout\tvalid\n"
    assert kibitz("token", "list", "--store", shop) == (0, shown, "")
    code, out, _ = kibitz("token", "list", "--store", shop, "--json")
    listed = json.loads(out)["tokens"]
    assert [(one["number"], one["role"], one["agent"]) for one in listed] == [
        (1, "play", None),
        (2, "read", "checkout"),
    ]
    assert secret not in out


def test_tokens_that_make_no_sense_are_refused(refused, shop):
    store = ("--store", shop)
    assert refused("token", "create", *store, "--role", "root").startswith("role must be 'read', ")
    assert refused("token", "create", *store, "--role", "read", "--agent", "x") == (
        "agent 'x' does not exist; the store has 'checkout'"
    )
    assert (
        refused("token", "revoke", *store, "7") == "token 7 does not exist; see `kibitz token list`"
    )


def test_a_store_that_does_not_exist_is_named_and_not_created(refused, tmp_path):
    missing = ("--store", tmp_path / "missing.db")
    for words in (
        ("token", "create", "--role", "admin"), ("token", "list"), ("token", "revoke", "1"),
        ("serve",), ("agent", "list"), ("agent", "check"), ("agent", "report", "a"),
        ("agent", "ask", "a"), ("agent", "look", "a"), ("agent", "tell", "a", "1", "1"),
        ("agent", "observe", "a", "b", "1"), ("agent", "events", "a"),
        ("agent", "export", "a", "x.csv"),
    ):  # fmt: skip
        assert "does not exist; create an agent first" in refused(*words, *missing)
    assert list(tmp_path.iterdir()) == []


def test_serving_what_cannot_be_served_is_refused(refused, kibitz, shop):
    store = ("--store", shop)
    for host in ("0.0.0.0", "192.0.2.1", "::", "shop.example"):
        said = refused("serve", *store, "--host", host)
        assert said == (
            "host must be 127.0.0.1, ::1 or localhost while the store has no tokens "
            f"(kibitz token create), got {host!r}"
        )
    assert "does not exist; create an agent first" in refused(
        "serve", "--store", shop.parent / "none.db"
    )
    assert "port must be a whole number of at most 65535" in refused(
        "serve", *store, "--port", "65536"
    )
    assert "port must be a whole number" in refused("serve", *store, "--port", "-1")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused("serve", *store, "--port", str(port))
        assert said.startswith(f"cannot listen on 127.0.0.1:{port} (")
    kibitz("token", "create", *store, "--role", "read")
    assert refused("serve", *store, "--host", "no.such.host.invalid").startswith(
        "host must be an address, got 'no.such.host.invalid' ("
    )


def test_without_the_extra_there_is_a_sentence(refused, shop, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert refused("serve", "--store", shop) == (
        "uvicorn is not installed; run: pip install 'kibitz[serve]'"
    )


def test_nothing_else_needs_what_the_service_needs(program):
    code = (
        "import sys, kibitz, kibitz.live.service.client, kibitz.live.service.auth\n"
        "import kibitz.cli.serve, kibitz.cli.token\n"
        "kibitz.Client, kibitz.agent\n"
        "print({'starlette', 'uvicorn', 'msgspec'} & set(sys.modules))"
    )
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr
