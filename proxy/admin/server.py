"""The admin port: /metrics for Prometheus, /counters for the console, /healthz and /readyz for supervisors.

Every worker listens on it, and any of them answers for all: so it works while a worker is down, and reports that.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence

from engine.engine import Engine
from engine.model.errors import ShuttingDown
from proxy.admin.counters_page import counters_page
from proxy.admin.http import AdminConnection, Response, bounded_connections
from proxy.admin.metrics_page import CONTENT_TYPE, Facts, ProxyFacts, page
from proxy.cluster.peers import Peers
from proxy.listen.admission import Admission
from proxy.listen.shared_counts import Count
from proxy.login.client_tls import ClientTls

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
            return Response(200, counters_page(*await self._peers.counts()), CONTENT_TYPE)
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
        except ShuttingDown as error:
            return Response(503, f"{error.message}\n".encode())
        finally:
            trouble.cancel()
        facts = Facts(reports, surveys, catalog, self._version, missing, gauges, histories, proxy)
        return Response(200, page(facts), CONTENT_TYPE)

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
