"""The listening socket, and what every client passes on its way in and out. Counts and bounds connections.

mysql-mimic's MysqlServer is the base (start, close, sockets); its stream-based accept is replaced by a protocol of
callbacks, which is what lets ordinary statements be relayed without a task switch.
"""

from __future__ import annotations

import asyncio
import logging

from mysql_mimic.server import MysqlServer

from engine.engine import Engine
from engine.errors import BackendUnavailable
from proxy import wire
from proxy.capabilities import PROTOCOL_41
from proxy.connection import ClientConnection
from proxy.errors import LoginFailed, ProxyError, StreamClosed
from proxy.executor import Executor
from proxy.gateway import Gateway, Opened
from proxy.planning import Planning
from proxy.registry import ConnectionRegistry
from proxy.stream import PacketStream

log = logging.getLogger(__name__)

LOGIN_SLACK_SECONDS = 1.0  # a gateway keeps the login's time itself and tells the client; this is for one that hangs
LOGIN_PACKET_MAX_BYTES = 64 << 10  # a handshake response is a few hundred bytes; attributes may add to it


class GateServer(MysqlServer):  # type: ignore[misc]  # mysql-mimic is untyped here
    """Accepts clients, logs them in, and serves each in a task of its own."""

    def __init__(
        self,
        gateway: Gateway,
        engine: Engine,
        planning: Planning,
        registry: ConnectionRegistry,
        *,
        max_connections: int,
        unauthenticated_connections: int,
        login_timeout: float,
        max_packet_bytes: int,
    ) -> None:
        super().__init__(control=registry)
        self._gateway = gateway
        self._engine = engine
        self._planning = planning
        self._registry = registry
        self._max_connections = max_connections
        self._unauthenticated_max = unauthenticated_connections
        self._login_timeout = login_timeout
        self._max_packet_bytes = max_packet_bytes
        self._logging_in = 0
        self._tasks: dict[asyncio.Task[None], PacketStream] = {}

    async def start_server(self, *, host: str, port: int) -> None:
        """Listen. The backlog is the kernel's affair; connections beyond our bounds are told so and closed."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._new_stream, host, port, backlog=1024)

    def _new_stream(self) -> PacketStream:
        return PacketStream(self._accepted, max_packet_bytes=LOGIN_PACKET_MAX_BYTES)

    def _accepted(self, stream: PacketStream) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(stream))
        self._tasks[task] = stream
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        stream = self._tasks.pop(task)
        stream.close()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("connection failed", exc_info=error, extra={"peer": stream.peername})

    async def _serve(self, stream: PacketStream) -> None:
        opened = await self._log_in(stream)
        if opened is None:
            return
        session = opened.session
        stream.set_limits(self._max_packet_bytes)
        executor = Executor(session, self._engine, self._planning, self._registry, self._gateway.traits)
        connection = ClientConnection(stream, executor, opened.change_user, opened.interrupt)
        opened.attach(connection)
        await self._registry.add(connection)
        try:
            await connection.serve()
        finally:
            self._registry.forget(connection)
            await session.upstream.close()

    async def _log_in(self, stream: PacketStream) -> Opened | None:
        """A session, or None once the client has been told why not."""
        if len(self._tasks) > self._max_connections or self._logging_in >= self._unauthenticated_max:
            await self._refuse(stream, ProxyError(1040, "Too many connections"))
            return None
        self._logging_in += 1
        try:
            async with asyncio.timeout(self._login_timeout + LOGIN_SLACK_SECONDS):
                return await self._gateway.login(stream)
        except TimeoutError:
            log.info("login took too long", extra={"peer": stream.peername})
        except (LoginFailed, StreamClosed, ConnectionError):
            pass  # it has been told, or went away before it had logged in: port scanners and health checks do
        except (ProxyError, BackendUnavailable) as error:
            await self._refuse(stream, error)
        finally:
            self._logging_in -= 1
        return None

    async def _refuse(self, stream: PacketStream, error: ProxyError | BackendUnavailable) -> None:
        try:
            await stream.write(wire.err_packet(PROTOCOL_41, error.errno, error.sqlstate, error.message))
        except (StreamClosed, ConnectionError):
            pass  # nobody left to tell

    async def drain(self, grace_seconds: float) -> None:
        """End all connections, those in mid-statement after it; cut what is left after the grace time."""
        for connection in self._registry:
            connection.finish()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=grace_seconds)
        for task, stream in list(self._tasks.items()):
            stream.abort()
            task.cancel()
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
