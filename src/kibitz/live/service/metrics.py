"""Metrics in the format of Prometheus.

Metrics of requests and commits are counted by each process. If several processes serve one address,
set `PROMETHEUS_MULTIPROC_DIR` to an empty folder: the processes then share their counts in this
folder, and each process reports the sums. Metrics of agents and of the store are read from the store
at each scrape, so they are the same in all processes and survive restarts.

Labels are names of routes, statuses and agents. No label contains a token, a key or a reward.
"""

import asyncio
import functools
import hmac
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.responses import Response

from kibitz._errors import StoreUnavailable
from kibitz.live.service.auth import RequestError, find_token
from kibitz.live.service.http import Call, operation
from kibitz.live.service.schemas import Example
from kibitz.live.store import queries
from kibitz.live.store.schema import Store

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
COMMIT_SIZES = (1, 2, 5, 10, 25, 50, 100, 250, 500)
METRICS = Example(
    None,
    None,
    {"text/plain": '# TYPE kibitz_asks_total counter\nkibitz_asks_total{agent="checkout"} 1.0\n'},
)


class Metrics:
    """The metrics of one application."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "kibitz_requests", "Answered requests.", ("method", "route", "status"), registry=registry
        )
        self.seconds = Histogram(
            "kibitz_request_seconds",
            "Time from a request to the start of its response.",
            ("method", "route"),
            buckets=SECONDS,
            registry=registry,
        )
        self.results = Counter(
            "kibitz_results",
            "Results of tell, observe, import, correct and forget: counted, duplicate, conflict, ...",
            ("agent", "result"),
            registry=registry,
        )
        self.queue = Gauge(
            "kibitz_queue_length",
            "Requests that wait for their commit.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.commit_requests = Histogram(
            "kibitz_commit_requests", "Requests in a commit.", buckets=COMMIT_SIZES, registry=registry
        )
        self.commit_seconds = Histogram(
            "kibitz_commit_seconds", "Duration of a commit.", buckets=SECONDS, registry=registry
        )
        self.store_retries = Counter(
            "kibitz_store_retries",
            "Transactions that were run again after the connection to the store was lost.",
            registry=registry,
        )
        # Finding the series of some labels takes longer than counting, so the series are cached.
        self._get_requests = functools.cache(self.requests.labels)
        self._get_seconds = functools.cache(self.seconds.labels)
        self._get_results = functools.cache(self.results.labels)
        self._n_retries = 0
        self._lock = threading.Lock()

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._get_requests(method, route, status).inc()
        self._get_seconds(method, route).observe(seconds)

    def count_commit(self, n_requests: int, seconds: float) -> None:
        """Count a commit."""
        self.commit_requests.observe(n_requests)
        self.commit_seconds.observe(seconds)
        self._count_retries()

    def count_results(self, agent: str, answer: Any) -> None:
        """Count the results in the answer to a request: an object, or a list of objects."""
        for single_answer in answer if isinstance(answer, list) else (answer,):
            if (result := getattr(single_answer, "result", None)) is not None:
                self.count_result(agent, result)

    def count_result(self, agent: str, result: str) -> None:
        """Count a result, such as "counted", or "conflict" if a request contradicts another one."""
        self._get_results(agent, result).inc()

    def _count_retries(self) -> None:
        with self._lock:
            n_retries = self._store.n_retries
            self.store_retries.inc(n_retries - self._n_retries)
            self._n_retries = n_retries

    def render(self) -> bytes:
        """Return all metrics as text."""
        self._count_retries()
        registry = self._registry
        if folder := os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
            remove_dead_gauges(Path(folder))
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        content: bytes = generate_latest(registry)
        store_registry = CollectorRegistry()
        store_registry.register(StoreCollector(self._store))
        return content + generate_latest(store_registry)


def remove_dead_gauges(folder: Path) -> None:
    """Remove the gauges of processes that were killed, such as the queue of a killed worker.

    The counters and histograms of these processes remain part of the sums.
    """
    for file in folder.glob("gauge_live*.db") if os.name != "nt" else ():
        try:
            os.kill(int(file.stem.rpartition("_")[2]), 0)  # sends no signal
        except ProcessLookupError:
            file.unlink(missing_ok=True)
        except PermissionError:  # a process of another user is alive
            continue


class StoreCollector:
    """The metrics of the agents and of the store, read from the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def describe(self) -> list[Metric]:
        """Return no metrics, so registering this collector does not read the store."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; if the store does not answer, yield only `kibitz_store_up`."""
        up = GaugeMetricFamily("kibitz_store_up", "1 if the store answers, 0 if not.")
        try:
            rows, size = self._store.read(queries.read_totals), self._store.measure_size()
        except StoreUnavailable:
            up.add_metric([], 0)
            yield up
            return
        up.add_metric([], 1)
        yield up
        yield GaugeMetricFamily("kibitz_store_bytes", "Size of the store.", size)
        families: list[Any] = [
            family(name, text, labels=["agent"])
            for family, name, text in (
                (CounterMetricFamily, "kibitz_asks", "Decisions to pull an arm."),
                (CounterMetricFamily, "kibitz_tells", "Pulls with a reward."),
                (CounterMetricFamily, "kibitz_looks", "Looks and observations with a reward."),
                (CounterMetricFamily, "kibitz_shows", "Rewards of other arms that pulls showed."),
                (GaugeMetricFamily, "kibitz_pending", "Decisions that wait for their report."),
                (GaugeMetricFamily, "kibitz_forgotten", "Decisions without a report for too long."),
                (CounterMetricFamily, "kibitz_events", "Events of the log."),
                (CounterMetricFamily, "kibitz_alarms", "Detected changes of a mean."),
            )
        ]
        for name, *values in rows:
            for family, value in zip(families, values, strict=True):
                family.add_metric([name], float(value))
        yield from families


@operation("GET", "/metrics", None, METRICS, errors=(401,))
async def metrics(call: Call) -> Response:
    """Return metrics in the format of Prometheus.

    Send a token with role `read` for all agents, or the token of `--metrics-token`.
    """
    token, expected_token = find_token(call.headers) or "", call.state.metrics_token
    if not (
        expected_token and hmac.compare_digest(token.encode(), expected_token.encode())
    ):  # otherwise, it must be a token of the store
        access = await call.state.tokens.authorize("GET", call.headers, "read", None)
        if access.agent is not None:
            raise RequestError(
                403, f"metrics need a token for all agents; this token is for {access.agent!r} only"
            )
    content = await asyncio.to_thread(call.state.metrics.render)
    return Response(content, 200, media_type=CONTENT_TYPE_LATEST)
