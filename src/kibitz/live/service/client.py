"""HTTP client with the methods of an agent."""

import http.client
import json
import math
import os
import random
import secrets
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload
from urllib.parse import quote, urlsplit

from kibitz._errors import Conflict, StoreUnavailable, UnknownAgent, UnknownDecision
from kibitz._files import write_atomic
from kibitz._validation import flag, invalid, number, positive, text, whole
from kibitz.live.agent.export import check_export
from kibitz.live.events import Decision, Event

if TYPE_CHECKING:
    import xarray

    from kibitz.live.agent.stopping import Verdict

RESPONSE_SECONDS = 10.0  # how long to wait for a response before retrying
MAX_BATCH = 1_000  # decisions in one request
ERROR_TYPES: dict[int, type[Exception]] = {401: PermissionError, 403: PermissionError, 409: Conflict}
# The exception for status 404, by the first word of the message. Any other first word means that the
# agent is unknown.
UNKNOWN_ERRORS: dict[str, type[Exception]] = {"decision": UnknownDecision, "arm": ValueError}


class Client:
    """Client of an agent served by `kibitz serve`, with the methods of `kibitz.Agent`.

    The client retries a request if there is no response, or if the service answers that it is busy or
    stopping. All attempts have the same key, so the request counts once. A request without a key gets
    a random key.

    Parameters
    ----------
    url
        The address of the service: `http://127.0.0.1:8765`, or https behind a proxy.
    token
        The token printed by `kibitz token create`; None if the service requires no token.
    agent
        The agent's name. It can be omitted if the token gives access to exactly one agent.
    patience
        How long to retry a request, in seconds, before raising `kibitz.StoreUnavailable`.
    """

    def __init__(
        self, url: str, token: str | None = None, agent: str | None = None, patience: float = 30.0
    ) -> None:
        url_parts = urlsplit(text(url, "url"))
        if (
            url_parts.scheme not in ("http", "https")
            or not url_parts.hostname
            or url_parts.path.strip("/")
        ):
            raise invalid("url", "http://host:port or https://host:port", url)
        self._connect = getattr(http.client, f"{url_parts.scheme.upper()}Connection")
        self._host = url_parts.netloc
        self._headers = {} if token is None else {"Authorization": f"Bearer {text(token, 'token')}"}
        self._idle_connections: list[http.client.HTTPConnection] = []
        self.patience = positive(patience, "patience")
        self.name = self._find_agent() if agent is None else text(agent, "agent")
        self._path = f"/v1/agents/{quote(self.name, safe='')}"

    def __repr__(self) -> str:
        return f"Client({self._host!r}, agent={self.name!r})"

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the client reopens them on the next request."""
        while self._idle_connections:
            self._idle_connections.pop().close()

    @overload
    def ask(self, key: str | None = None, among: Sequence[str] | None = None) -> Decision: ...

    @overload
    def ask(
        self, key: Sequence[str] | None = None, among: Sequence[str] | None = None, *, n: int
    ) -> list[Decision]: ...

    def ask(self, key: Any = None, among: Sequence[str] | None = None, n: int | None = None) -> Any:
        """Choose an arm to pull; return a `Decision`, or a list of `n` decisions."""
        n = None if n is None else whole(n, "n", 1, MAX_BATCH)
        if key is None:
            key = random_key() if n is None else [random_key() for _ in range(n)]
        response = self._post("ask", {"key": key, "among": among, "n": n})
        return (
            Decision(**response)
            if n is None
            else [Decision(**decision_fields) for decision_fields in response]
        )

    def look(self, key: str | None = None) -> Decision:
        """Choose the arm of the next look (free observation); return a `Decision`."""
        return Decision(**self._post("look", {"key": random_key() if key is None else key}))

    @overload
    def tell(self, id: int, reward: float, *, force: bool = False) -> str: ...

    @overload
    def tell(self, id: Sequence[tuple[int, float]], *, force: bool = False) -> list[str]: ...

    def tell(self, id: Any, reward: Any = None, *, force: bool = False) -> Any:
        """Report the reward of a decision; return "counted", or "duplicate" for a repeated report.

        To report several rewards in one transaction, pass a list of (id, reward) pairs. `force`
        accepts Gaussian rewards beyond 10,000 times the agent's scale.
        """
        if isinstance(id, list | tuple) and reward is None:
            answers = self._post(
                "tell", [_make_report(decision, value, force) for decision, value in id]
            )
            return [answer["result"] for answer in answers]
        return self._post("tell", _make_report(id, reward, force))["result"]

    def observe(self, arm: str, reward: float, key: str | None = None, *, force: bool = False) -> str:
        """Report an observation that was not asked for.

        Return "counted", or "duplicate" if the same observation was already reported with this key.
        Another arm or another reward with the same key raises `Conflict`. `force` works as in `tell`.
        """
        key = random_key() if key is None else key
        body = {
            "arm": arm,
            "reward": _to_json_reward(reward),
            "key": key,
            "force": flag(force, "force"),
        }
        return str(self._post("observe", body)["result"])

    def forget(self, id: int) -> str:
        """Stop waiting for the report of a decision.

        Return "forgotten", or "duplicate" if the decision was already forgotten. A late report still
        counts.
        """
        return str(self._post("forget", {"id": whole(id, "id", 1)})["result"])

    def correct(self, id: int, reward: float, *, force: bool = False) -> str:
        """Replace the reward of a decision.

        Return "corrected", or "duplicate" if the decision already has this reward. `force` works as
        in `tell`.
        """
        return str(self._post("correct", _make_report(id, reward, force))["result"])

    def add(self, arm: str) -> None:
        """Add an arm."""
        self._post("arms", {"arm": arm})

    def pause(self, arm: str) -> None:
        """Stop pulling an arm until it is resumed."""
        self._set(arm, "paused")

    def resume(self, arm: str) -> None:
        """Pull a paused arm again."""
        self._set(arm, "active")

    def retire(self, arm: str) -> None:
        """Stop pulling an arm permanently; late reports of its rewards still count."""
        self._set(arm, "retired")

    def declare_rewards(self, rewards: str) -> str:
        """Declare that all rewards are "bernoulli" (0 or 1) or "bounded" (in [0, 1]).

        Return "declared" or "duplicate"; see `Agent.declare_rewards`.
        """
        return str(self._post("rewards", {"rewards": rewards})["result"])

    def _set(self, arm: str, state: str) -> None:
        path = f"{self._path}/arms/{quote(text(arm, 'arm'), safe='')}"
        self._send("PATCH", path, {"state": state})

    def report(self, delta: float = 0.05) -> "xarray.Dataset":
        """Return means, confidence sequences, regret and warnings; see `Agent.report`."""
        from kibitz.live.agent.report import from_plain

        delta = number(delta, "delta", "in (0, 1)")
        return from_plain(json.loads(self._send("GET", f"{self._path}?delta={delta}")))

    def erase(self, key: str | Sequence[str]) -> list[str]:
        """Remove a visitor's keys from the store; return "erased" or "unknown" for each key.

        This needs a token with the role `admin`. See `Agent.erase`.
        """
        results: list[str] = self._post("erase", {"key": key})["results"]
        return results

    def verdict(self, delta: float = 0.05, tolerance: float = 0.0) -> "Verdict":
        """Say whether there is a winner, and what stopping now would cost; see `Agent.verdict`."""
        from kibitz.live.agent.report import verdict_from_plain

        delta = number(delta, "delta", "in (0, 1)")
        tolerance = number(tolerance, "tolerance", "non-negative and finite")
        path = f"{self._path}/verdict?delta={delta}&tolerance={tolerance}"
        return verdict_from_plain(json.loads(self._send("GET", path)))

    def events(self, after: int = 0) -> Iterator[Event]:
        """Yield the events of the log with numbers greater than `after`."""
        seq, has_more = whole(after, "after"), True
        while has_more:
            page = json.loads(self._send("GET", f"{self._path}/events?after={seq}"))
            yield from (Event(**event) for event in page["events"])
            seq, has_more = page["last"], page["more"]

    def export(self, file: str | os.PathLike[str]) -> None:
        """Write the log to a file: .csv, .jsonl (JSON lines) or .nc (netCDF)."""
        target = check_export(file)
        write_atomic(target, self._send("GET", f"{self._path}/export?format={Path(file).suffix[1:]}"))

    def _find_agent(self) -> str:
        """Return the name of the only agent that the token gives access to."""
        try:
            names: list[str] = json.loads(self._send("GET", "/v1/agents"))["agents"]
            if not names:
                raise ValueError("the service has no agents for this token")
            if len(names) > 1:
                raise ValueError(f"agent is required; use one of {', '.join(map(repr, names))}")
        except BaseException:
            self.close()
            raise
        return names[0]

    def _post(self, verb: str, body: Any) -> Any:
        return json.loads(self._send("POST", f"{self._path}/{verb}", body))

    def _send(self, method: str, path: str, body: Any = None) -> bytes:
        """Send a request, with retries; return the body of the response, or raise the error in it."""
        content = None if body is None else json.dumps(body, default=_to_plain).encode()
        content_type = {} if body is None else {"Content-Type": "application/json"}
        headers = self._headers | content_type
        deadline, pause = time.monotonic() + self.patience, 0.05
        while True:
            retry_after = 0.0
            try:
                status, response, retry_after = self._send_once(method, path, content, headers)
            except (OSError, http.client.HTTPException) as error:
                status, response = 503, str(error).encode()
            if status < 300:
                return response
            if status != 503:
                raise _make_error(status, response)
            if time.monotonic() + max(retry_after, pause) > deadline:
                raise StoreUnavailable(
                    f"the service was unavailable for {self.patience:g} s; "
                    f"last error: {_read_message(response)}"
                )
            time.sleep(max(retry_after, pause) * random.uniform(0.5, 1.0))
            pause = min(2 * pause, 2.0)

    def _send_once(
        self, method: str, path: str, content: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes, float]:
        try:
            connection = self._idle_connections.pop()
        except IndexError:
            connection = self._connect(self._host, timeout=min(self.patience, RESPONSE_SECONDS))
        try:
            connection.request(method, path, content, headers)
            response = connection.getresponse()
            body = response.read()
        except BaseException:
            connection.close()
            raise
        self._idle_connections.append(connection)
        retry_after = response.getheader("Retry-After") or ""
        return response.status, body, float(retry_after) if retry_after.isdecimal() else 0.0


def random_key() -> str:
    """Return a random idempotency key."""
    return f"client-{secrets.token_hex(12)}"


def _make_report(id: Any, reward: Any, force: Any) -> dict[str, Any]:
    return {
        "id": whole(id, "id", 1),
        "reward": _to_json_reward(reward),
        "force": flag(force, "force"),
    }


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
