"""The composition root: configuration in, a running gate out, and its orderly end.

Order of the end (SIGTERM, SIGINT): stop accepting; the engine stops leasing, ends the streams with 1053 and takes back
unacked leases uncounted; running statements get the grace time; then everything is closed. Exit code 0.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from engine.backend.mysql import MySQLPool
from engine.clock import Clock, SystemClock, system_jitter
from engine.engine import Engine
from engine.sql_store import SqlMessageStore
from proxy.config import Address, Config
from proxy.gateway import Gateway, RelayGateway
from proxy.planning import Planning
from proxy.registry import ConnectionRegistry
from proxy.server import GateServer

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Serving:
    """A gate that accepts clients. `stop` asks it to end, as SIGTERM does."""

    address: Address
    engine: Engine
    registry: ConnectionRegistry
    stop: Callable[[], None]


async def serve(config: Config, *, ready: Callable[[Serving], None] | None = None) -> None:
    """Serve until SIGTERM, SIGINT or `Serving.stop`.

    Raises:
        EngineError: the backend cannot be opened.
        OSError: the address cannot be listened on.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    clock, registry = SystemClock(), ConnectionRegistry()
    async with _backend(config, clock, registry) as (store, gateway):
        engine = Engine(store, clock=clock, jitter=system_jitter, database_work_limit=config.limits.database_work)
        await engine.open()
        try:
            server = _server(config, engine, gateway, registry)
            await server.start_server(host=config.listen.host, port=config.listen.port)
            port = server.sockets()[0].getsockname()[1]
            if ready is not None:
                ready(Serving(Address(config.listen.host, port), engine, registry, stopping.set))
            await stopping.wait()
            log.info("stopping", extra={"connections": len(registry)})
            server.close()
            await engine.close(grace_seconds=config.shutdown_grace)
            await server.drain(config.shutdown_grace)
        finally:
            await engine.close(grace_seconds=0)
    log.info("stopped")


def _server(config: Config, engine: Engine, gateway: Gateway, registry: ConnectionRegistry) -> GateServer:
    limits = config.limits
    return GateServer(
        gateway,
        engine,
        Planning(engine, config.queue_defaults),
        registry,
        max_connections=limits.max_connections,
        unauthenticated_connections=limits.unauthenticated_connections,
        login_timeout=limits.login_timeout,
        max_packet_bytes=limits.max_packet_size,
    )


@contextlib.asynccontextmanager
async def _backend(
    config: Config, clock: Clock, registry: ConnectionRegistry
) -> AsyncIterator[tuple[SqlMessageStore, Gateway]]:
    """The database behind the gate: the engine's store on it, and the way clients get to it."""
    url, limits = config.backend, config.limits
    if not url.embedded:
        store = SqlMessageStore.for_mysql(MySQLPool(url, size=limits.database_work))
        try:
            yield store, RelayGateway(url, clock, limits.login_timeout)
        finally:
            await store.close()
        return
    # Loaded only where it serves: its SQL compiler is a third of the program.
    from proxy.embedded_gateway import embedded_backend

    async with embedded_backend(config, clock, registry) as opened:
        yield opened
