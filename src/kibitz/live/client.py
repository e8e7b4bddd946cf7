"""The agent of a service, with the verbs of an agent, from anywhere."""

import http.client
import json
import os
import random
import secrets
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload
from urllib.parse import quote, urlsplit

from kibitz._errors import Conflict
from kibitz._files import write_whole
from kibitz._validation import number, positive, refused, text, whole
from kibitz.live.export import checked_export
from kibitz.live.projection import Event
from kibitz.live.store import Unavailable
from kibitz.live.turn import Decision

if TYPE_CHECKING:
    import xarray

SLOWEST = 10.0  # seconds after which an answer is no longer waited for
ERRORS: dict[int, type[Exception]] = {
    401: PermissionError,
    403: PermissionError,
    404: KeyError,
    409: Conflict,
}


class Client:
    """The agent of a service that `kibitz serve` runs, with the verbs of `kibitz.agent`.

    What gets no answer, or is refused because the service is busy or being stopped, is sent again
    with the same key, so that it counts once: without a key of yours, with a random one.

    Parameters
    ----------
    url
        Where the service is: `http://127.0.0.1:8765`, or https behind a proxy.
    token
        As `kibitz token create` has printed it; none if the service needs none.
    agent
        The agent's name. It may be left out where the token can see one only.
    patience
        For how many seconds to try again, before `Unavailable` (an OSError) is raised.
    """

    def __init__(
        self, url: str, token: str | None = None, agent: str | None = None, patience: float = 30.0
    ) -> None:
        parts = urlsplit(text(url, "url"))
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
            raise refused("url", "http://host:port or https://host:port", url)
        self._connects = getattr(http.client, f"{parts.scheme.upper()}Connection")
        self._host = parts.netloc
        self._headers = {} if token is None else {"Authorization": f"Bearer {text(token, 'token')}"}
        self._idle: list[http.client.HTTPConnection] = []  # connections that nobody uses
        self.patience = positive(patience, "patience")
        self.name = self._only() if agent is None else text(agent, "agent")
        self._path = f"/v1/agents/{quote(self.name, safe='')}"

    def __repr__(self) -> str:
        return f"Client({self._host!r}, agent={self.name!r})"

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; they are opened again when they are needed."""
        while self._idle:
            self._idle.pop().close()

    # ------------------------------------------------------------------------------- deciding

    @overload
    def ask(self, key: str | None = None, among: Sequence[str] | None = None) -> Decision: ...

    @overload
    def ask(
        self, key: Sequence[str] | None = None, among: Sequence[str] | None = None, *, n: int
    ) -> list[Decision]: ...

    def ask(self, key: Any = None, among: Sequence[str] | None = None, n: int | None = None) -> Any:
        """Return the `Decision` which arm to pull; a list of `n` of them if that is given."""
        if key is None:
            many = None if n is None else range(whole(n, "n", 1, 1000))
            key = made_up() if many is None else [made_up() for _ in many]
        found = self._post("ask", {"key": key, "among": among, "n": n})
        return Decision(**found) if n is None else [Decision(**one) for one in found]

    def look(self, key: str | None = None) -> Decision:
        """Return the `Decision` where the next free look should go."""
        return Decision(**self._post("look", {"key": made_up() if key is None else key}))

    @overload
    def tell(self, id: int, reward: float) -> str: ...

    @overload
    def tell(self, id: Sequence[tuple[int, float]]) -> list[str]: ...

    def tell(self, id: Any, reward: Any = None) -> Any:
        """Report what came of a decision, or of many as a list of (id, reward)."""
        if isinstance(id, list | tuple) and reward is None:
            found = self._post("tell", [{"id": one, "reward": paid} for one, paid in id])
            return [one["result"] for one in found]
        return self._post("tell", {"id": id, "reward": reward})["result"]

    def saw(self, arm: str, reward: float, key: str | None = None) -> str:
        """Report an observation that nobody asked for; return "counted" or "again", by the key."""
        key = made_up() if key is None else key
        return str(self._post("saw", {"arm": arm, "reward": reward, "key": key})["result"])

    def forget(self, id: int) -> str:
        """Give up on a decision; return "forgotten" or "again"."""
        return str(self._post("forget", {"id": id})["result"])

    def correct(self, id: int, reward: float) -> str:
        """Change the reward of a decision that was told; return "corrected" or "again"."""
        return str(self._post("correct", {"id": id, "reward": reward})["result"])

    # ----------------------------------------------------------------------------------- arms

    def add(self, arm: str) -> None:
        """Add an arm."""
        self._post("arms", {"arm": arm})

    def pause(self, arm: str) -> None:
        """Pull an arm no more, until it is resumed."""
        self._set(arm, "paused")

    def resume(self, arm: str) -> None:
        """Pull a paused arm again."""
        self._set(arm, "active")

    def retire(self, arm: str) -> None:
        """Pull an arm no more, for ever; reports on it still count."""
        self._set(arm, "retired")

    def _set(self, arm: str, state: str) -> None:
        path = f"{self._path}/arms/{quote(text(arm, 'arm'), safe='')}"
        try:
            self._sent("PATCH", path, {"state": state})
        except KeyError as error:  # as an agent says it
            raise ValueError(error.args[0]) from None

    # --------------------------------------------------------------------------------- seeing

    def report(self, delta: float = 0.05) -> "xarray.Dataset":
        """Return what a person wants to see of each arm; see `kibitz.live.report`."""
        from kibitz.live.report import from_plain

        delta = number(delta, "delta", "in (0, 1)")
        return from_plain(json.loads(self._sent("GET", f"{self._path}?delta={delta}")))

    def events(self, after: int = 0) -> Iterator[Event]:
        """Yield the log, from the event that follows number `after` on."""
        seq, more = whole(after, "after"), True
        while more:
            found = json.loads(self._sent("GET", f"{self._path}/events?after={seq}"))
            yield from (Event(**event) for event in found["events"])
            seq, more = found["last"], found["more"]

    def export(self, file: str | os.PathLike[str]) -> None:
        """Write the log to a file: .csv, .jsonl (JSON lines) or .nc (netCDF)."""
        target = checked_export(file)
        write_whole(target, self._sent("GET", f"{self._path}/export?format={Path(file).suffix[1:]}"))

    # -------------------------------------------------------------------------------- sending

    def _only(self) -> str:
        try:
            names: list[str] = json.loads(self._sent("GET", "/v1/agents"))["agents"]
            if len(names) != 1:
                raise ValueError(f"agent must be one of {', '.join(map(repr, names))}, got None")
        except BaseException:
            self.close()
            raise
        return names[0]

    def _post(self, verb: str, body: Any) -> Any:
        return json.loads(self._sent("POST", f"{self._path}/{verb}", body))

    def _sent(self, method: str, path: str, body: Any = None) -> bytes:
        """Send a request until it is answered; return the answer, or raise what it says."""
        content = None if body is None else json.dumps(body, default=_plain).encode()
        kind = {} if body is None else {"Content-Type": "application/json"}
        headers = self._headers | kind
        deadline, pause = time.monotonic() + self.patience, 0.05
        while True:
            wait = 0.0
            try:
                status, answered, wait = self._once(method, path, content, headers)
            except (OSError, http.client.HTTPException) as error:
                status, answered = 503, str(error).encode()
            if status < 300:
                return answered
            if status != 503:
                raise _error(status, answered)
            if time.monotonic() + max(wait, pause) > deadline:
                raise Unavailable(
                    f"service must answer within {self.patience:g} s, got {_message(answered)!r}"
                )
            time.sleep(max(wait, pause) * random.uniform(0.5, 1.0))
            pause = min(2 * pause, 2.0)

    def _once(
        self, method: str, path: str, content: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes, float]:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connects(self._host, timeout=min(self.patience, SLOWEST))
        try:
            connection.request(method, path, content, headers)
            answer = connection.getresponse()
            answered = answer.read()
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        wait = answer.getheader("Retry-After") or ""
        return answer.status, answered, float(wait) if wait.isdecimal() else 0.0


def made_up() -> str:
    """Return a key that nobody else has."""
    return f"client-{secrets.token_hex(12)}"


def _plain(value: Any) -> Any:
    """Return a number of NumPy's as a plain one."""
    if hasattr(value, "item"):
        return value.item()
    raise refused("value", "a number, a text or a list of these", value)


def _error(status: int, answered: bytes) -> Exception:
    kind: type[Exception] = ERRORS.get(status, ValueError if 400 <= status < 500 else OSError)
    return kind(_message(answered))


def _message(answered: bytes) -> str:
    try:
        return str(json.loads(answered)["error"]["message"])
    except (ValueError, TypeError, KeyError):
        return answered[:200].decode("utf-8", "replace")
