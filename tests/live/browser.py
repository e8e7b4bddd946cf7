"""Helpers for the tests of the dashboard: a service on the loopback interface and a real browser."""

import contextlib
import http.client
import json
import shutil
import socket
import subprocess
import sys
import threading
import time

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_browser():
    """Return the path of the system's Chromium, or None if it is not installed."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def find_free_port():
    with socket.socket() as free_socket:
        free_socket.bind(("127.0.0.1", 0))
        return free_socket.getsockname()[1]


def fetch(port, method, path, body=None, headers=()):
    """Send a request; return the status, the headers and the body.

    The returned headers are a list of pairs, because a name may occur more than once.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        content = None if body is None else json.dumps(body)
        default_headers = {"content-type": "application/json"}
        connection.request(method, path, content, {**default_headers, **dict(headers)})
        answer = connection.getresponse()
        return answer.status, answer.getheaders(), answer.read()
    finally:
        connection.close()


def wait_until_up(port, seconds=30):
    deadline = time.monotonic() + seconds
    while True:
        try:
            return fetch(port, "GET", "/healthz")
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


@contextlib.contextmanager
def run_service(store, **options):
    """Serve a store from a thread and yield the port; `create_app` gets the `options`."""
    import uvicorn

    from kibitz.live.dashboard.routes import ROUTES
    from kibitz.live.service.app import create_app

    port = find_free_port()
    config = uvicorn.Config(
        create_app(store, ROUTES, **options),
        host="127.0.0.1",
        port=port,
        log_level="error",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until_up(port)
        yield port
    finally:
        server.should_exit = True
        thread.join()


class Process:
    """A service in its own process, which can be killed and restarted on the same port."""

    def __init__(self, store):
        self.store, self.port, self.process = store, find_free_port(), None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        self.kill()

    def start(self):
        command = [sys.executable, "-m", "kibitz.cli", "serve", "--store", self.store, "--port"]
        self.process = subprocess.Popen([*command, str(self.port)], stdout=subprocess.DEVNULL)
        wait_until_up(self.port)

    def stop(self):
        """Stop the service gracefully; open streams must not delay the shutdown."""
        self.process.terminate()
        self.process.wait(timeout=10)

    def kill(self):
        self.process.kill()
        self.process.wait()


class Watcher:
    """A browser tab that records its requests, log messages and errors."""

    def __init__(self, browser, port, **options):
        self.base = f"http://127.0.0.1:{port}"
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        self.context.set_default_timeout(30_000)
        self.page = self.context.new_page()
        self.requests, self.messages = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.messages.append("dialog"), dialog.dismiss()))

    def find_foreign_requests(self):
        """Return the requests that went to other servers."""
        allowed_prefixes = (f"{self.base}/", "data:image/svg+xml")
        return [url for url in self.requests if not url.startswith(allowed_prefixes)]
