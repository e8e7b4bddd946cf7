"""HTTP client for asyncio, with the methods of an agent as coroutines."""

import asyncio
import importlib.util
import os
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, overload

from kibitz._files import write_atomic
from kibitz._validation import positive
from kibitz.live.agent.export import check_export
from kibitz.live.events import Decision, Event
from kibitz.live.service import protocol

if TYPE_CHECKING:
    import httpx
    import xarray

    from kibitz.live.agent.stopping import Verdict

MAX_CONNECTIONS = 100  # further requests wait for a connection


class AsyncClient:
    """Client with the methods of `kibitz.Client` as coroutines, for programs that use asyncio.

    Use it in `async with`, and await its methods; `events` is an asynchronous iterator. Any number of
    tasks can share a client, which reuses its connections. It needs httpx: `pip install
    'kibitz[async]'`.

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
        self._url = f"{scheme}://{self._host}"
        self._headers = protocol.make_token_header(token)
        self.patience = positive(patience, "patience")
        self._requests = None if agent is None else protocol.Requests(agent)
        self._http: httpx.AsyncClient | None = None
        if importlib.util.find_spec("httpx") is None:
            raise ValueError(
                "AsyncClient needs httpx, which is not installed; run: pip install 'kibitz[async]'"
            )

    def __repr__(self) -> str:
        return f"AsyncClient({self._host!r}, agent={self.name!r})"

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    @property
    def name(self) -> str | None:
        """The agent's name; None if it was omitted and no request has been sent yet."""
        return None if self._requests is None else self._requests.name

    async def close(self) -> None:
        """Close the connections; the client reopens them on the next request."""
        connections, self._http = self._http, None
        if connections is not None:
            await connections.aclose()

    @overload
    async def ask(self, key: str | None = None, among: Sequence[str] | None = None) -> Decision: ...

    @overload
    async def ask(
        self, key: Sequence[str] | None = None, among: Sequence[str] | None = None, *, n: int
    ) -> list[Decision]: ...

    async def ask(
        self, key: Any = None, among: Sequence[str] | None = None, n: int | None = None
    ) -> Any:
        """Choose an arm to pull; return a `Decision`, or a list of `n` decisions."""
        return await self._call("ask", key, among, n)

    async def look(self, key: str | None = None) -> Decision:
        """Choose the arm of the next look (free observation); return a `Decision`."""
        decision: Decision = await self._call("look", key)
        return decision

    @overload
    async def tell(self, id: int, reward: float, *, force: bool = False) -> str: ...

    @overload
    async def tell(self, *, key: str, reward: float, force: bool = False) -> str: ...

    @overload
    async def tell(self, id: Sequence[tuple[int, float]], *, force: bool = False) -> list[str]: ...

    async def tell(
        self, id: Any = None, reward: Any = None, *, key: str | None = None, force: bool = False
    ) -> Any:
        """Report the reward of a decision; return "counted", or "duplicate" for a repeated report.

        Name the decision by its id, or by the key with which you asked for it. To report several
        rewards in one transaction, pass a list of (id, reward) pairs. `force` accepts Gaussian
        rewards beyond 10,000 times the agent's scale.
        """
        return await self._call("tell", id, reward, key, force)

    @overload
    async def observe(
        self,
        arm: str,
        reward: float,
        key: str | None = None,
        *,
        force: bool = False,
        shown_by: int | None = None,
    ) -> str: ...

    @overload
    async def observe(
        self, arm: Sequence[tuple[str, float, str]], *, force: bool = False
    ) -> list[str]: ...

    @overload
    async def observe(
        self, arm: Sequence[tuple[str, float]], *, force: bool = False, shown_by: int
    ) -> list[str]: ...

    async def observe(
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
        return await self._call("observe", arm, reward, key, force, shown_by)

    async def forget(self, id: int) -> str:
        """Stop waiting for the report of a decision.

        Return "forgotten", or "duplicate" if the decision was already forgotten. A late report still
        counts.
        """
        return str(await self._call("forget", id))

    async def correct(self, id: int, reward: float, *, force: bool = False) -> str:
        """Replace the reward of a decision.

        Return "corrected", or "duplicate" if the decision already has this reward. `force` works as
        in `tell`.
        """
        return str(await self._call("correct", id, reward, force))

    async def add(self, arm: str) -> None:
        """Add an arm."""
        await self._call("add", arm)

    async def pause(self, arm: str) -> None:
        """Stop pulling an arm until it is resumed."""
        await self._call("set_state", arm, "paused")

    async def resume(self, arm: str) -> None:
        """Pull a paused arm again."""
        await self._call("set_state", arm, "active")

    async def retire(self, arm: str) -> None:
        """Stop pulling an arm permanently; late reports of its rewards still count."""
        await self._call("set_state", arm, "retired")

    async def declare_rewards(self, rewards: str) -> str:
        """Declare that all rewards are "bernoulli" (0 or 1) or "bounded" (in [0, 1]).

        Return "declared" or "duplicate"; see `Agent.declare_rewards`.
        """
        return str(await self._call("declare_rewards", rewards))

    async def erase(self, key: str | Sequence[str]) -> list[str]:
        """Remove a visitor's keys from the store; return "erased" or "unknown" for each key.

        A request that is repeated after a lost connection may return "unknown" for an erased key.
        This needs a token with the role `admin`. See `Agent.erase`.
        """
        results: list[str] = await self._call("erase", key)
        return results

    async def compact(self, before: float | str | datetime) -> int:
        """Replace the events before a time by a checkpoint; return the number of these events.

        This needs a token with the role `admin`. See `Agent.compact`.
        """
        return int(await self._call("compact", before))

    async def report(self, delta: float = 0.05) -> "xarray.Dataset":
        """Return means, confidence sequences, regret and warnings; see `Agent.report`."""
        report: xarray.Dataset = await self._call("report", delta)
        return report

    async def verdict(self, delta: float = 0.05, tolerance: float = 0.0) -> "Verdict":
        """Return the winner, if there is one, and a bound on the loss; see `Agent.verdict`."""
        verdict: Verdict = await self._call("verdict", delta, tolerance)
        return verdict

    async def events(self, after: int = 0) -> AsyncIterator[Event]:
        """Yield the events of the log with numbers greater than `after`."""
        has_more = True
        while has_more:
            events, after, has_more = await self._call("page", after)
            for event in events:
                yield event

    async def export(self, file: str | os.PathLike[str]) -> None:
        """Write the log to a file: .csv, .jsonl (JSON lines) or .nc (netCDF)."""
        target = check_export(file)
        write_atomic(target, await self._call("export", file))

    async def _call(self, name: str, *values: Any) -> Any:
        """Send a request of `protocol.Requests`; return its answer."""
        if self._requests is None:
            self._requests = protocol.Requests(await self._send(protocol.find_agent()))
        return await self._send(getattr(self._requests, name)(*values))

    async def _send(self, request: protocol.Request) -> Any:
        """Send a request, with retries; return its answer, or raise the error in the response."""
        import httpx

        content, headers = request.encode()
        attempts = protocol.Attempts(self.patience)
        while True:
            retry_after = None
            try:
                response = await self._connections().request(
                    request.method,
                    self._url + request.path,
                    content=content,
                    headers=headers,
                    timeout=httpx.Timeout(
                        request.choose_timeout(self.patience),
                        connect=min(self.patience, protocol.RESPONSE_SECONDS),
                        pool=None,
                    ),
                )
                status, answer = response.status_code, response.content
                retry_after = response.headers.get("Retry-After")
            except httpx.HTTPError as error:
                status, answer = 503, f"{type(error).__name__}: {error}".encode()
            seconds = attempts.check(status, answer, retry_after)
            if seconds is None:
                return request.parse(answer)
            await asyncio.sleep(seconds)

    def _connections(self) -> "httpx.AsyncClient":
        import httpx

        if self._http is None:
            self._http = httpx.AsyncClient(
                headers=self._headers,
                limits=httpx.Limits(
                    max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS
                ),
                trust_env=False,  # kibitz reads no environment variables
            )
        return self._http
