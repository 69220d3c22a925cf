"""The admin port: /metrics for Prometheus, /counters for the console, /healthz and /readyz for supervisors.

Every worker listens on it, and any of them answers for all: so it works while a worker is down, and reports that.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

from engine.background.surveyor import SURVEY_SECONDS
from engine.engine import Engine
from engine.model.errors import BackendError, ShuttingDown
from engine.model.queue import QueueName, QueueSpec, SubscriptionStatus
from engine.shared_future import wait_shared
from proxy.admin.http import AdminConnection, Response, bounded_connections
from proxy.admin.metrics_page import CONTENT_TYPE, Facts, ProxyFacts, counter_lines, lines
from proxy.cluster.peers import Peers
from proxy.cluster.reports import WorkerReport
from proxy.listen.admission import Admission
from proxy.listen.shared_counts import Count
from proxy.login.client_tls import ClientTls
from proxy.show.key_ranges import Receivers

PAGE_SECONDS = 2 * SURVEY_SECONDS  # for /metrics, of a database that does not answer: a scraper waits for 14 s
REACH_SECONDS = 2.0  # a database that takes longer for SELECT 1 serves no one well
SLICE_SECONDS = 0.002  # of a page that is written, before deliveries have their turn

_NOT_FOUND = Response(404, b"there are /metrics, /counters, /healthz and /readyz\n")


class AdminServer:
    """See the module. `stopping`: whether the proxy has been asked to end."""

    def __init__(
        self,
        engine: Engine,
        peers: Peers,
        admission: Admission,
        tls: ClientTls,
        version: str,
        stopping: Callable[[], bool],
    ) -> None:
        self._engine = engine
        self._peers = peers
        self._admission = admission
        self._tls = tls
        self._version = version
        self._stopping = stopping
        self._connections = bounded_connections()
        self._servers: list[asyncio.Server] = []
        self._pages: dict[str, asyncio.Task[Response]] = {}

    async def open(self, sockets: Sequence[socket.socket]) -> None:
        """Answer on these listening sockets, which it owns from now on."""
        loop = asyncio.get_running_loop()
        for listening in sockets:
            server = await loop.create_server(lambda: AdminConnection(self.answer, self._connections), sock=listening)
            self._servers.append(server)

    async def close(self) -> None:
        """Answer no more."""
        for server in self._servers:
            server.close()
        for connection in self._connections:
            connection.abort()
        self._servers.clear()
        for page in self._pages.values():
            page.cancel()

    async def answer(self, path: str) -> Response:
        """What is at a path."""
        if path == "/metrics":
            return await self._shared(path, self._metrics)
        if path == "/counters":
            return await self._shared(path, self._counters)
        if path == "/healthz":
            return await self._health()
        if path == "/readyz":
            return await self._readiness()
        return _NOT_FOUND

    async def _shared(self, path: str, make: Callable[[], Coroutine[Any, Any, Response]]) -> Response:
        """A page that is being made is for all who ask meanwhile."""
        page = self._pages.get(path)
        if page is None or page.done():
            page = self._pages[path] = asyncio.create_task(make())
        return await wait_shared(page)

    async def _counters(self) -> Response:
        counts, missing = await self._peers.counts()
        finds_others = self._peers.finds_others
        return Response(200, await written(counter_lines(counts, missing, finds_others=finds_others)), CONTENT_TYPE)

    async def _metrics(self) -> Response:
        catalog, deadline = self._engine.catalog, asyncio.get_running_loop().time() + PAGE_SECONDS
        trouble = asyncio.create_task(self._engine.surveyor.reachable(REACH_SECONDS))
        try:
            surveys = await self._engine.surveyor.survey(catalog)
            gauges = await self._engine.topics.gauges()
            reports, missing = await self._reports()
            histories = await self._peers.histories()
            proxy = self._of_the_proxy(await trouble is None)
            uncovered = await self._uncovered(deadline)
        except ShuttingDown as error:
            return Response(503, f"{error.message}\n".encode())
        finally:
            trouble.cancel()
        facts = Facts(reports, surveys, catalog, self._version, missing, gauges, histories, proxy, uncovered)
        return Response(200, await written(lines(facts)), CONTENT_TYPE)

    async def _reports(self) -> tuple[list[WorkerReport], int]:
        """Of all workers, and how many are missing: while the proxy ends, one that has ended is not."""
        reports, missing = await self._peers.reports()
        return reports, 0 if self._stopping() else missing

    async def _uncovered(self, deadline: float) -> dict[QueueName, int]:
        """Of the queues with streams that name a key range: the ready messages that are in that of no stream; of those
        that are counted by then."""
        queues = [queue for queue in self._engine.catalog if queue.has_ring]
        counts: dict[QueueName, int] = {}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                streams = await self._peers.subscriptions() if queues else []
                for queue in queues:
                    await self._count_uncovered(queue, streams, counts)
        return counts

    async def _count_uncovered(
        self, queue: QueueSpec, streams: Iterable[SubscriptionStatus], counts: dict[QueueName, int]
    ) -> None:
        of_queue = [stream for stream in streams if stream.queue == queue.name]
        if not any(stream.key_range for stream in of_queue):
            return
        if not (uncovered := Receivers.of(of_queue).uncovered).spans:
            counts[queue.name] = 0  # nothing needs to be counted
            return
        with contextlib.suppress(BackendError):
            (count,) = await self._engine.surveyor.ranges(queue, [uncovered])
            counts[queue.name] = count.ready

    def _of_the_proxy(self, database_up: bool) -> ProxyFacts:
        tally, offered = self._admission.tally, self._tls.offered
        expires = None if offered is None else offered.expires
        return ProxyFacts(
            ready=database_up and self._engine.is_open and not self._stopping(),
            database_up=database_up,
            connections_limit=self._admission.limits.max_connections,
            connections_refused=tally.total(Count.REFUSED),
            login_failures=tally.total(Count.LOGIN_FAILURES),
            worker_restarts=tally.total(Count.DEATHS),
            certificate_expires=None if expires is None else expires.timestamp(),
        )

    async def _health(self) -> Response:
        """An answer shows that this event loop runs; the others are asked."""
        reports, missing = await self._reports()
        if missing:
            return Response(503, f"{missing} of {missing + len(reports)} workers do not answer\n".encode())
        if self._engine.is_open and not self._engine.is_watched:
            return Response(503, b"the watchdog of deliveries has died\n")
        return Response(200, b"ok\n")

    async def _readiness(self) -> Response:
        reason = await self._unready()
        return Response(200, b"ready\n") if reason is None else Response(503, f"{reason}\n".encode())

    async def _unready(self) -> str | None:
        if self._stopping():
            return "shutting down"
        if not self._engine.is_open:
            return "the engine is not open"
        trouble = await self._engine.surveyor.reachable(REACH_SECONDS)
        return None if trouble is None else f"the database cannot be reached: {trouble}"


async def written(lines: Iterable[str]) -> bytes:
    """A page of these lines. After each SLICE_SECONDS the event loop does what else there is to do: deliveries."""
    page = bytearray()
    piece: list[str] = []
    ends = time.perf_counter() + SLICE_SECONDS
    for line in lines:
        piece.append(line)
        if time.perf_counter() >= ends:
            page += "".join(piece).encode("utf-8", "replace")
            piece.clear()
            await asyncio.sleep(0)
            ends = time.perf_counter() + SLICE_SECONDS
    page += "".join(piece).encode("utf-8", "replace")
    return bytes(page)
