"""HTTP client with the methods of an agent."""

import http.client
import os
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, overload

from kibitz._files import write_atomic
from kibitz._validation import positive
from kibitz.live.agent.export import check_export
from kibitz.live.events import Decision, Event
from kibitz.live.service import protocol

if TYPE_CHECKING:
    import xarray

    from kibitz.live.agent.stopping import Verdict


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
        How long to retry a request, in seconds, before raising `kibitz.StoreUnavailable`. Erasures,
        compactions and exports of a large store can take long, so the client waits up to ten minutes
        for their responses.
    """

    def __init__(
        self, url: str, token: str | None = None, agent: str | None = None, patience: float = 30.0
    ) -> None:
        scheme, self._host = protocol.parse_address(url)
        self._connect = getattr(http.client, f"{scheme.upper()}Connection")
        self._headers = protocol.make_token_header(token)
        self._idle_connections: list[http.client.HTTPConnection] = []
        self.patience = positive(patience, "patience")
        self._requests = protocol.Requests(self._find_agent() if agent is None else agent)

    def __repr__(self) -> str:
        return f"Client({self._host!r}, agent={self.name!r})"

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """The agent's name."""
        return self._requests.name

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
        return self._send(self._requests.ask(key, among, n))

    def look(self, key: str | None = None) -> Decision:
        """Choose the arm of the next look (free observation); return a `Decision`."""
        decision: Decision = self._send(self._requests.look(key))
        return decision

    @overload
    def tell(self, id: int, reward: float, *, force: bool = False) -> str: ...

    @overload
    def tell(self, *, key: str, reward: float, force: bool = False) -> str: ...

    @overload
    def tell(self, id: Sequence[tuple[int, float]], *, force: bool = False) -> list[str]: ...

    def tell(
        self, id: Any = None, reward: Any = None, *, key: str | None = None, force: bool = False
    ) -> Any:
        """Report the reward of a decision; return "counted", or "duplicate" for a repeated report.

        Name the decision by its id, or by the key with which you asked for it. To report several
        rewards in one transaction, pass a list of (id, reward) pairs. `force` accepts Gaussian
        rewards beyond 10,000 times the agent's scale.
        """
        return self._send(self._requests.tell(id, reward, key, force))

    @overload
    def observe(
        self,
        arm: str,
        reward: float,
        key: str | None = None,
        *,
        force: bool = False,
        shown_by: int | None = None,
    ) -> str: ...

    @overload
    def observe(self, arm: Sequence[tuple[str, float, str]], *, force: bool = False) -> list[str]: ...

    @overload
    def observe(
        self, arm: Sequence[tuple[str, float]], *, force: bool = False, shown_by: int
    ) -> list[str]: ...

    def observe(
        self,
        arm: Any,
        reward: Any = None,
        key: str | None = None,
        *,
        force: bool = False,
        shown_by: int | None = None,
    ) -> Any:
        """Report an observation that was not asked for.

        Return "counted", or "duplicate" if the same observation was already reported with this key.
        Another arm or another reward with the same key raises `Conflict`. `force` works as in `tell`.
        To report several observations in one transaction, pass a list of (arm, reward, key).

        If a pull showed this reward of another arm, `shown_by` is the id of the pull, and no key is
        needed. To report all that a pull showed, pass a list of (arm, reward) and `shown_by`.
        """
        return self._send(self._requests.observe(arm, reward, key, force, shown_by))

    def forget(self, id: int) -> str:
        """Stop waiting for the report of a decision.

        Return "forgotten", or "duplicate" if the decision was already forgotten. A late report still
        counts.
        """
        return str(self._send(self._requests.forget(id)))

    def correct(self, id: int, reward: float, *, force: bool = False) -> str:
        """Replace the reward of a decision.

        Return "corrected", or "duplicate" if the decision already has this reward. `force` works as
        in `tell`.
        """
        return str(self._send(self._requests.correct(id, reward, force)))

    def add(self, arm: str) -> None:
        """Add an arm."""
        self._send(self._requests.add(arm))

    def pause(self, arm: str) -> None:
        """Stop pulling an arm until it is resumed."""
        self._send(self._requests.set_state(arm, "paused"))

    def resume(self, arm: str) -> None:
        """Pull a paused arm again."""
        self._send(self._requests.set_state(arm, "active"))

    def retire(self, arm: str) -> None:
        """Stop pulling an arm permanently; late reports of its rewards still count."""
        self._send(self._requests.set_state(arm, "retired"))

    def declare_rewards(self, rewards: str) -> str:
        """Declare that all rewards are "bernoulli" (0 or 1) or "bounded" (in [0, 1]).

        Return "declared" or "duplicate"; see `Agent.declare_rewards`.
        """
        return str(self._send(self._requests.declare_rewards(rewards)))

    def report(self, delta: float = 0.05) -> "xarray.Dataset":
        """Return means, confidence sequences, regret and warnings; see `Agent.report`."""
        report: xarray.Dataset = self._send(self._requests.report(delta))
        return report

    def erase(self, key: str | Sequence[str]) -> list[str]:
        """Remove a visitor's keys from the store; return "erased" or "unknown" for each key.

        A request that is repeated after a lost connection may return "unknown" for an erased key.
        This needs a token with the role `admin`. See `Agent.erase`.
        """
        results: list[str] = self._send(self._requests.erase(key))
        return results

    def compact(self, before: float | str | datetime) -> int:
        """Replace the events before a time by a checkpoint; return the number of these events.

        This needs a token with the role `admin`. See `Agent.compact`.
        """
        return int(self._send(self._requests.compact(before)))

    def verdict(self, delta: float = 0.05, tolerance: float = 0.0) -> "Verdict":
        """Return the winner, if there is one, and a bound on the loss; see `Agent.verdict`."""
        verdict: Verdict = self._send(self._requests.verdict(delta, tolerance))
        return verdict

    def events(self, after: int = 0) -> Iterator[Event]:
        """Yield the events of the log with numbers greater than `after`."""
        has_more = True
        while has_more:
            events, after, has_more = self._send(self._requests.page(after))
            yield from events

    def export(self, file: str | os.PathLike[str]) -> None:
        """Write the log to a file: .csv, .jsonl (JSON lines) or .nc (netCDF)."""
        target = check_export(file)
        write_atomic(target, self._send(self._requests.export(file)))

    def _find_agent(self) -> str:
        try:
            return str(self._send(protocol.find_agent()))
        except BaseException:
            self.close()
            raise

    def _send(self, request: protocol.Request) -> Any:
        """Send a request, with retries; return its answer, or raise the error in the response."""
        content, content_headers = request.encode()
        headers = self._headers | content_headers
        attempts = protocol.Attempts(self.patience)
        while True:
            retry_after = None
            try:
                status, response, retry_after = self._send_once(request, content, headers)
            except (OSError, http.client.HTTPException) as error:
                status, response = 503, str(error).encode()
            seconds = attempts.check(status, response, retry_after)
            if seconds is None:
                return request.parse(response)
            time.sleep(seconds)

    def _send_once(
        self, request: protocol.Request, content: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes, str | None]:
        try:
            connection = self._idle_connections.pop()
        except IndexError:
            seconds = min(self.patience, protocol.RESPONSE_SECONDS)
            connection = self._connect(self._host, timeout=seconds)
        try:
            if connection.sock is None:
                connection.connect()
            connection.sock.settimeout(request.choose_timeout(self.patience))
            connection.request(request.method, request.path, content, headers)
            response = connection.getresponse()
            body = response.read()
        except BaseException:
            connection.close()
            raise
        self._idle_connections.append(connection)
        return response.status, body, response.getheader("Retry-After")
