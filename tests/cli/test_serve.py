"""Tests of `kibitz serve` and `kibitz token`: options, output and errors."""

import json
import socket

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def store_file(kibitz, tmp_path):
    """Return the path of a store with an agent named checkout."""
    file = tmp_path / "shop.db"
    options = ("--arms", "blue,green", "--rewards", "bernoulli")
    assert kibitz("agent", "create", "--store", file, "checkout", *options)[0] == 0
    return file


def test_tokens_are_created_listed_and_revoked(kibitz, store_file):
    code, out, err = kibitz("token", "create", "--store", store_file, "--role", "play")
    assert (code, err) == (0, "")
    token_id, _, secret = out.strip().partition(".")
    assert token_id == "1"
    assert len(secret) >= 43
    code, out, _ = kibitz(
        "token", "create", "--store", store_file, "--role", "read", "--agent", "checkout", "--json"
    )
    assert code == 0
    assert set(json.loads(out)) == {"token"}
    assert json.loads(out)["token"].startswith("2.")
    assert kibitz("token", "revoke", "--store", store_file, "1") == (0, "revoked\n", "")
    assert kibitz("token", "revoke", "--store", store_file, "1") == (0, "duplicate\n", "")
    code, out, err = kibitz("token", "list", "--store", store_file)
    assert (code, err) == (0, "")
    rows = [line.replace("│", " ").split() for line in out.splitlines() if "│" in line]
    assert rows == [["1", "play", "all", "revoked"], ["2", "read", "checkout", "valid"]]
    code, out, _ = kibitz("token", "list", "--store", store_file, "--json")
    listed_tokens = json.loads(out)["tokens"]
    assert [
        (listed_token["number"], listed_token["role"], listed_token["agent"])
        for listed_token in listed_tokens
    ] == [(1, "play", None), (2, "read", "checkout")]
    assert secret not in out


def test_invalid_tokens_are_rejected(error_message, store_file):
    store = ("--store", store_file)
    assert error_message("token", "create", *store, "--role", "root") == (
        "--role must be 'read', 'play' or 'admin', got 'root'"
    )
    message = error_message("token", "create", *store, "--role", "read", "--agent", "x")
    assert message == "agent 'x' does not exist; the store has 'checkout'"
    message = error_message("token", "revoke", *store, "7")
    assert message == "token 7 does not exist; see `kibitz token list`"


def test_missing_store_is_named_and_not_created(error_message, tmp_path):
    missing_store = ("--store", tmp_path / "missing.db")
    for args in (
        ("token", "create", "--role", "admin"), ("token", "list"), ("token", "revoke", "1"),
        ("serve",), ("agent", "list"), ("agent", "check"), ("agent", "report", "a"),
        ("agent", "ask", "a"), ("agent", "look", "a"), ("agent", "tell", "a", "1", "1"),
        ("agent", "observe", "a", "b", "1"), ("agent", "events", "a"),
        ("agent", "export", "a", "x.csv"),
    ):  # fmt: skip
        message = error_message(*args, *missing_store)
        assert "missing.db" in message
        assert "does not exist; create an agent first" in message
    assert list(tmp_path.iterdir()) == []


def test_serve_rejects_invalid_addresses(error_message, kibitz, store_file):
    store = ("--store", store_file)
    for host in ("0.0.0.0", "192.0.2.1", "::", "shop.example"):
        message = error_message("serve", *store, "--host", host)
        assert message == (
            f"--host {host} lets other machines in, but the store has no tokens; create a token with "
            "`kibitz token create`, or use --host 127.0.0.1"
        )
    assert "--port must be a whole number of at most 65535" in error_message(
        "serve", *store, "--port", "65536"
    )
    assert "--port must be a whole number" in error_message("serve", *store, "--port", "-1")
    with socket.create_server(("127.0.0.1", 0)) as busy_socket:
        port = busy_socket.getsockname()[1]
        message = error_message("serve", *store, "--port", str(port))
        assert message.startswith(f"cannot listen on 127.0.0.1:{port} (")
    kibitz("token", "create", *store, "--role", "read")
    assert error_message("serve", *store, "--host", "no.such.host.invalid").startswith(
        "--host must be an address, got 'no.such.host.invalid' ("
    )


def test_every_option_can_be_set_by_the_environment(kibitz, monkeypatch):
    import typer

    from kibitz.cli import app

    monkeypatch.setenv("COLUMNS", "250")
    help_text = kibitz("serve", "--help")[1]
    options = [
        option
        for option in typer.main.get_command(app).commands["serve"].params
        if option.name != "help"
    ]
    assert len(options) >= 7
    for option in options:
        variable = f"KIBITZ_{option.opts[0].removeprefix('--').replace('-', '_').upper()}"
        assert option.envvar == variable
        assert f"[env var: {variable}]" in help_text


def test_settings_are_read_from_the_environment(error_message, store_file, tmp_path, monkeypatch):
    assert error_message("serve") == "--store is required; give --store, or set KIBITZ_STORE"
    monkeypatch.setenv("KIBITZ_HOST", "192.0.2.1")
    file = tmp_path / "store-address"
    for variable, value in (("KIBITZ_STORE_FILE", file), ("KIBITZ_STORE", store_file)):
        file.write_text(f"{store_file}\n")
        monkeypatch.setenv(variable, str(value))
        assert error_message("serve").startswith("--host 192.0.2.1 lets other machines in")
    monkeypatch.setenv("KIBITZ_HOST", "127.0.0.1")
    for option, value, sentence in (
        ("PORT", "70000", "--port must be a whole number of at most 65535"),
        ("LOG_FORMAT", "xml", "--log-format must be 'text' or 'json', got 'xml'"),
        ("LOG_LEVEL", "loud", "--log-level must be 'debug'"),
        ("ALLOW_ORIGIN", "https://a.example *", "--allow-origin must be an origin such as"),
    ):
        monkeypatch.setenv(f"KIBITZ_{option}", value)
        assert error_message("serve").startswith(sentence)
        monkeypatch.delenv(f"KIBITZ_{option}")


def test_logs_go_to_standard_error_in_the_chosen_format(store_file):
    import subprocess
    import sys
    import urllib.request

    command = [sys.executable, "-m", "kibitz.cli", "serve", "--store", str(store_file), "--port", "0"]
    options = ["--log-format", "json", "--log-level", "info"]
    process = subprocess.Popen(
        command + options, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        address = process.stdout.readline().split()[-1]
        with urllib.request.urlopen(f"{address}/readyz") as answer:
            request_id = answer.headers["X-Request-ID"]
    finally:
        process.terminate()
        errors = process.communicate(timeout=30)[1]
    [line] = errors.splitlines()
    assert json.loads(line)["request_id"] == request_id
    assert process.returncode == 0


def test_missing_package_is_reported(error_message, store_file, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert error_message("serve", "--store", store_file) == (
        "kibitz serve needs uvicorn, which is not installed; run: pip install '.[serve]'"
    )


def test_only_serve_imports_the_packages_of_the_service(program):
    code = (
        "import sys, kibitz, kibitz.live.service.client, kibitz.live.service.auth\n"
        "import kibitz.cli.serve, kibitz.cli.token\n"
        "kibitz.Client, kibitz.agent\n"
        "print({'starlette', 'uvicorn', 'msgspec', 'prometheus_client'} & set(sys.modules))"
    )
    import subprocess
    import sys

    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert process.stdout == "set()\n", process.stderr
