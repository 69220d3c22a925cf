"""The admin port: /metrics for Prometheus, /counters for the console, /healthz and /readyz for supervisors.

Every worker listens on it, and any of them answers for all: so it works while a worker is down, and reports that.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

from engine.delivery.metrics import DELAY_BUCKETS
from engine.engine import Engine
from engine.model.errors import BackendError, ShuttingDown
from engine.model.queue import QueueName
from proxy.admin.http import AdminConnection, Response, bounded_connections
from proxy.admin.metrics_page import CONTENT_TYPE, Facts, ProxyFacts, page
from proxy.cluster.peers import Peers
from proxy.cluster.reports import ProcessCounts
from proxy.listen.admission import Admission
from proxy.listen.shared_counts import Count
from proxy.login.client_tls import ClientTls
from proxy.show.key_ranges import Receivers

REACH_SECONDS = 2.0  # a database that takes longer for SELECT 1 serves no one well

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

    async def answer(self, path: str) -> Response:
        """What is at a path."""
        if path == "/metrics":
            return await self._metrics()
        if path == "/counters":
            finds_others = self._peers.finds_others
            return Response(200, counters_page(*await self._peers.counts(), finds_others=finds_others), CONTENT_TYPE)
        if path == "/healthz":
            return await self._health()
        if path == "/readyz":
            return await self._readiness()
        return _NOT_FOUND

    async def _metrics(self) -> Response:
        catalog = self._engine.catalog
        trouble = asyncio.create_task(self._engine.surveyor.reachable(REACH_SECONDS))
        try:
            surveys = await self._engine.surveyor.survey(catalog)
            gauges = await self._engine.topics.gauges()
            reports, missing = await self._peers.reports()
            histories = await self._peers.histories()
            proxy = self._of_the_proxy(await trouble is None)
            uncovered = await self._uncovered()
        except ShuttingDown as error:
            return Response(503, f"{error.message}\n".encode())
        finally:
            trouble.cancel()
        facts = Facts(reports, surveys, catalog, self._version, missing, gauges, histories, proxy, uncovered)
        return Response(200, page(facts), CONTENT_TYPE)

    async def _uncovered(self) -> dict[QueueName, int]:
        """Of the queues with streams that name a key range: the ready messages that are in that of no stream."""
        queues = [queue for queue in self._engine.catalog if queue.has_ring]
        streams = await self._peers.subscriptions() if queues else []
        counts: dict[QueueName, int] = {}
        for queue in queues:
            of_queue = [stream for stream in streams if stream.queue == queue.name]
            if not any(stream.key_range for stream in of_queue):
                continue
            if not (uncovered := Receivers.of(of_queue).uncovered).spans:
                counts[queue.name] = 0  # nothing needs to be counted
                continue
            with contextlib.suppress(BackendError):
                (count,) = await self._engine.surveyor.ranges(queue, [uncovered])
                counts[queue.name] = count.ready
        return counts

    def _of_the_proxy(self, database_up: bool) -> ProxyFacts:
        tally, offered = self._admission.tally, self._tls.offered
        expires = None if offered is None else offered.expires
        return ProxyFacts(
            ready=database_up and self._engine.is_open and not self._stopping(),
            database_up=database_up,
            connections_limit=self._admission.limits.connections,
            connections_refused=tally.total(Count.REFUSED),
            login_failures=tally.total(Count.LOGIN_FAILURES),
            worker_restarts=tally.total(Count.DEATHS),
            certificate_expires=None if expires is None else expires.timestamp(),
        )

    async def _health(self) -> Response:
        """An answer shows that this event loop runs; the others are asked."""
        reports, missing = await self._peers.reports()
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


# The page at /counters: the queues' counters, from memory alone, for clients that poll every few seconds. Pure.
#
# It has the format of the page at /metrics, and covers all processes that serve this database: the workers of this
# proxy, and the other proxies. Each process counts for itself, from its start on, so each line names its process. No
# table is read, and a queue that has counted nothing has no line, so 10,000 queues idle cost nothing. Of the delays
# of deliveries a bucket that holds no more than the one before it has none either.

COUNTERS = ("enqueued", "sent", "acked", "redelivered", "expired")


def counters_page(counts: Iterable[ProcessCounts], missing: int = 0, *, finds_others: bool = True) -> bytes:
    """The whole page. `missing`: processes whose counts are not known. `finds_others`: whether other proxies of the
    database would be known at all."""
    lines = [f"queuegate_processes_missing {missing}", f"queuegate_finds_other_proxies {int(finds_others)}"]
    for each in counts:
        lines.append(f'queuegate_process_seconds{{process="{_escaped(each.process)}"}} {each.seconds:.3f}')
        for status in each.queues:
            labels = _labels(status.name, each.process)
            counted = [(name, status.counters.get(name, 0)) for name in COUNTERS]
            if any(value for _, value in counted):
                lines += [f"queuegate_queue_{name}_total{{{labels}}} {value}" for name, value in counted]
            lines += _buckets(labels, status.delays)
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _labels(queue: QueueName, process: str) -> str:
    names = f'database="{_escaped(queue.database)}",queue="{_escaped(queue.table)}"'
    return f'{names},process="{_escaped(process)}"'


def _buckets(labels: str, counts: Sequence[int]) -> Iterator[str]:
    for bound, count, upto in zip(DELAY_BUCKETS, counts, accumulate(counts), strict=False):
        if count:
            yield f'queuegate_queue_delivery_delay_seconds_bucket{{{labels},le="{bound}"}} {upto}'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
