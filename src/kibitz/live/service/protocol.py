"""Build requests, parse answers, and decide when to retry, without any input or output.

`Client` and `AsyncClient` send these requests. They differ only in how they send and wait.
"""

import contextlib
import json
import math
import random
import secrets
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from kibitz._errors import Conflict, StoreUnavailable, UnknownAgent, UnknownDecision
from kibitz._validation import flag, invalid, number, text, whole
from kibitz.live.agent.history import check_one_name, parse_observation
from kibitz.live.events import Decision, Event
from kibitz.live.store.postgresql import hide_password

RESPONSE_SECONDS = 10.0  # how long to wait for a response before retrying
SLOW_RESPONSE_SECONDS = 600.0  # timeout of requests that rewrite or read the whole store
MAX_BATCH = 1_000  # decisions in one request
ERROR_TYPES: dict[int, type[Exception]] = {401: PermissionError, 403: PermissionError, 409: Conflict}
# The exception for status 404, by the first word of the message. Any other first word means that the
# agent is unknown.
UNKNOWN_ERRORS: dict[str, type[Exception]] = {"decision": UnknownDecision, "arm": ValueError}


class Request(NamedTuple):
    """An HTTP request, and the function that converts the content of its response."""

    method: str
    path: str
    body: Any = None
    parse: Callable[[bytes], Any] = bytes
    is_slow: bool = False  # whether it rewrites or reads the whole store

    def choose_timeout(self, patience: float) -> float:
        """Return how long to wait for the response, in seconds."""
        return SLOW_RESPONSE_SECONDS if self.is_slow else min(patience, RESPONSE_SECONDS)

    def encode(self) -> tuple[bytes | None, dict[str, str]]:
        """Return the content and the headers to send."""
        if self.body is None:
            return None, {}
        content = json.dumps(self.body, default=_to_plain).encode()
        return content, {"Content-Type": "application/json"}


class Page(NamedTuple):
    """Events of the log, the number of the last event, and whether there are more."""

    events: list[Event]
    last: int
    has_more: bool


def parse_address(url: str) -> tuple[str, str]:
    """Return the scheme and the host, with its port, of the address of a service."""
    if not isinstance(url, str):
        raise invalid("url", "a text", url)
    with contextlib.suppress(ValueError):  # the message of urlsplit shows the address
        parts = urlsplit(url)
        is_host = parts.hostname and url.isprintable() and not parts.path.strip("/")
        has_port = parts.port is None or parts.port > 0  # an invalid port raises ValueError
        if is_host and has_port and "@" not in url and parts.scheme in ("http", "https"):
            return parts.scheme, parts.netloc
    raise invalid("url", "http://host:port or https://host:port", hide_password(url))


def make_token_header(token: str | None) -> dict[str, str]:
    """Return the header with the token; an empty dict if there is no token."""
    return {} if token is None else {"Authorization": f"Bearer {text(token, 'token')}"}


def find_agent() -> Request:
    """Return the request for the name of the only agent that the token gives access to."""

    def parse(content: bytes) -> str:
        names: list[str] = json.loads(content)["agents"]
        if not names:
            raise ValueError("the service has no agents for this token")
        if len(names) > 1:
            raise ValueError(f"agent is required; use one of {', '.join(map(repr, names))}")
        return names[0]

    return Request("GET", "/v1/agents", parse=parse)


class Requests:
    """The requests to one agent. Each method has the name and the arguments of a client's method."""

    def __init__(self, name: str) -> None:
        self.name = text(name, "agent")
        self.path = f"/v1/agents/{quote(self.name, safe='')}"

    def ask(self, key: Any, among: Sequence[str] | None, n: int | None) -> Request:
        n = None if n is None else whole(n, "n", 1, MAX_BATCH)
        if key is None:
            key = random_key() if n is None else [random_key() for _ in range(n)]
        parse = _parse_decision if n is None else _parse_decisions
        return self._post("ask", {"key": key, "among": among, "n": n}, parse)

    def look(self, key: str | None) -> Request:
        return self._post("look", {"key": random_key() if key is None else key}, _parse_decision)

    def tell(self, id: Any, reward: Any, key: str | None, force: bool) -> Request:
        if isinstance(id, list | tuple) and reward is None:
            reports = [_make_report(decision, value, force) for decision, value in id]
            return self._post("tell", reports, _parse_results)
        check_one_name(id, key)
        if key is None:
            return self._post("tell", _make_report(id, reward, force))
        body = {"key": key, "reward": _to_json_reward(reward), "force": flag(force, "force")}
        return self._post("tell", body)

    def observe(
        self, arm: Any, reward: Any, key: str | None, force: bool, shown_by: int | None
    ) -> Request:
        if isinstance(arm, list | tuple) and reward is None:
            parsed_rows = [parse_observation(row, shown_by is None) for row in arm]
            rows = [_make_observation(*row, force, shown_by) for row in parsed_rows]
            return self._post("observe", rows, _parse_results)
        if key is None and shown_by is None:  # what a pull shows needs no key
            key = random_key()
        return self._post("observe", _make_observation(arm, reward, key, force, shown_by))

    def forget(self, id: int) -> Request:
        return self._post("forget", {"id": whole(id, "id", 1)})

    def correct(self, id: int, reward: float, force: bool) -> Request:
        return self._post("correct", _make_report(id, reward, force))

    def add(self, arm: str) -> Request:
        return self._post("arms", {"arm": arm}, _ignore)

    def set_state(self, arm: str, state: str) -> Request:
        path = f"{self.path}/arms/{quote(text(arm, 'arm'), safe='')}"
        return Request("PATCH", path, {"state": state}, _ignore)

    def declare_rewards(self, rewards: str) -> Request:
        return self._post("rewards", {"rewards": rewards})

    def erase(self, key: str | Sequence[str]) -> Request:
        return self._post("erase", {"key": key}, _parse_erased)._replace(is_slow=True)

    def compact(self, before: float | str | datetime) -> Request:
        date = before.isoformat() if isinstance(before, datetime) else before
        return self._post("compact", {"before": date}, _parse_n_events)._replace(is_slow=True)

    def report(self, delta: float) -> Request:
        def parse(content: bytes) -> Any:
            from kibitz.live.agent.report import from_plain

            return from_plain(json.loads(content))

        delta = number(delta, "delta", "in (0, 1)")
        return Request("GET", f"{self.path}?delta={delta}", parse=parse)

    def verdict(self, delta: float, tolerance: float) -> Request:
        def parse(content: bytes) -> Any:
            from kibitz.live.agent.report import verdict_from_plain

            return verdict_from_plain(json.loads(content))

        delta = number(delta, "delta", "in (0, 1)")
        tolerance = number(tolerance, "tolerance", "non-negative and finite")
        path = f"{self.path}/verdict?delta={delta}&tolerance={tolerance}"
        return Request("GET", path, parse=parse)

    def page(self, after: int) -> Request:
        def parse(content: bytes) -> Page:
            page = json.loads(content)
            return Page([Event(**event) for event in page["events"]], page["last"], page["more"])

        return Request("GET", f"{self.path}/events?after={whole(after, 'after')}", parse=parse)

    def export(self, file: Any) -> Request:
        return Request("GET", f"{self.path}/export?format={Path(file).suffix[1:]}", is_slow=True)

    def _post(self, verb: str, body: Any, parse: Callable[[bytes], Any] | None = None) -> Request:
        return Request("POST", f"{self.path}/{verb}", body, parse or _parse_result)


class Attempts:
    """The retry policy of one request: how long to wait, and when to give up."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._deadline = time.monotonic() + patience
        self._pause = 0.05

    def check(self, status: int, content: bytes, retry_after: str | None) -> float | None:
        """Return None if a request succeeded, or how many seconds to wait before the next attempt.

        Raise the error in the response, or StoreUnavailable if the next attempt would come after the
        deadline. For a request without a response, pass status 503.
        """
        if status < 300:
            return None
        if status != 503:
            raise _make_error(status, content)
        seconds = float(retry_after) if retry_after and retry_after.isdecimal() else 0.0
        seconds = max(seconds, self._pause)
        if time.monotonic() + seconds > self._deadline:
            raise StoreUnavailable(
                f"the service was unavailable for {self._patience:g} s; "
                f"last error: {_read_message(content)}"
            )
        self._pause = min(2 * self._pause, 2.0)
        return seconds * random.uniform(0.5, 1.0)


def random_key() -> str:
    """Return a random idempotency key."""
    return f"client-{secrets.token_hex(12)}"


def _parse_decision(content: bytes) -> Decision:
    return Decision(**json.loads(content))


def _parse_decisions(content: bytes) -> list[Decision]:
    return [Decision(**fields) for fields in json.loads(content)]


def _parse_result(content: bytes) -> str:
    return str(json.loads(content)["result"])


def _parse_results(content: bytes) -> list[str]:
    return [str(answer["result"]) for answer in json.loads(content)]


def _parse_erased(content: bytes) -> list[str]:
    results: list[str] = json.loads(content)["results"]
    return results


def _parse_n_events(content: bytes) -> int:
    return int(json.loads(content)["n_events"])


def _ignore(content: bytes) -> None:
    return None


def _make_report(id: Any, reward: Any, force: Any) -> dict[str, Any]:
    return {
        "id": whole(id, "id", 1),
        "reward": _to_json_reward(reward),
        "force": flag(force, "force"),
    }


def _make_observation(arm: Any, reward: Any, key: Any, force: Any, shown_by: Any) -> dict[str, Any]:
    body = {"arm": arm, "reward": _to_json_reward(reward), "key": key, "force": flag(force, "force")}
    return body if shown_by is None else {**body, "shown_by": whole(shown_by, "shown_by", 1)}


def _to_json_reward(value: Any) -> Any:
    """Convert a reward to a JSON number; True becomes 1 and False becomes 0."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and not math.isfinite(value):
        raise invalid("reward", "a finite number", value)
    return float(value) if isinstance(value, bool) else value


def _to_plain(value: Any) -> Any:
    """Convert a NumPy number to a Python number."""
    if hasattr(value, "item"):
        return value.item()
    raise invalid("value", "a number, a text or a list of these", value)


def _make_error(status: int, response: bytes) -> Exception:
    message = _read_message(response)
    if status == 404:
        return UNKNOWN_ERRORS.get(message.partition(" ")[0], UnknownAgent)(message)
    error_type: type[Exception] = ERROR_TYPES.get(
        status, ValueError if 400 <= status < 500 else OSError
    )
    return error_type(message)


def _read_message(response: bytes) -> str:
    try:
        return str(json.loads(response)["error"]["message"])
    except (ValueError, TypeError, KeyError):
        return response[:200].decode("utf-8", "replace")
