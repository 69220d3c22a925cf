"""The composition root: configuration in, a running proxy out, and its orderly end.

Order of the end (SIGTERM, SIGINT): stop accepting; the engine stops leasing, ends the streams with 1053 and takes back
uncounted what no client has read; running statements get the grace time; then everything is closed. Exit code 0.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from console.process import POLL_SECONDS, ConsoleProcess
from engine.backend.mysql import MySQLPool, MySQLStoreConnection
from engine.background.dead_letter_names import DeadLetterNames
from engine.clock import Clock, SystemClock, system_jitter
from engine.engine import Engine, EngineOptions
from engine.model.filter_limits import FilterLimits
from engine.store.named_dead_letters import NamedDeadLetters
from engine.store.proxy_directory import ProxyDirectory
from engine.store.sharded_store import ShardedStore
from engine.store.sql_store import SqlMessageStore
from proxy.cluster.mesh import MeshAddress
from proxy.cluster.peers import LinkedNeighbours, Peers
from proxy.cluster.registry import ConnectionRegistry, own_ids
from proxy.config import Auth, Config
from proxy.config_shown import settings_of
from proxy.gateways.database_accounts import Gateway, RelayGateway
from proxy.gateways.proxy_accounts import ProxyAccountsGateway
from proxy.gateways.server_wait import wait_for_server
from proxy.listen.admission import Admission
from proxy.listen.listener import WorkerSlot, bind
from proxy.listen.shared_counts import SharedCounts
from proxy.login.client_tls import ClientTls
from proxy.os_process import ENDING, on_signals
from proxy.release import release
from proxy.server import ProxyServer
from proxy.statements.dead_letters import DeadLetterTables
from proxy.statements.planning import Planning
from proxy.statements.schedules import server_insert
from proxy.statements.stream_condition import server_group_conditions
from proxy.systemd import ADMIN, MYSQL, NONE_HANDED, Handed
from proxy.transport.addresses import Address
from proxy.transport.tcp import own_address

log = logging.getLogger(__name__)

_UPGRADE_SECONDS = 10.0  # by then the other proxies and their leader are known


@dataclass(frozen=True, slots=True)
class RunningProxy:
    """A proxy that accepts clients. `stop` asks it to end, as SIGTERM does."""

    address: Address
    engine: Engine
    registry: ConnectionRegistry
    stop: Callable[[], None]


def tallies(config: Config) -> SharedCounts:
    """Where the workers count their clients."""
    limits = config.limits
    return SharedCounts(config.workers, limits.max_connections if limits.max_user_connections else 0)


def address_of(sockets: Sequence[socket.socket], configured: Address) -> Address:
    """Where clients connect, once the port is known."""
    return Address(configured.host, sockets[0].getsockname()[1])


def listening(config: Config, handed: Handed = NONE_HANDED) -> tuple[Sequence[socket.socket], Sequence[socket.socket]]:
    """The sockets of the clients' port and of the admin port (empty: there is none): those handed over, else bound
    here. The configuration has the addresses of those handed over, too (`queuegate.process`): it is judged by them.

    Raises:
        OSError: an address cannot be listened on.
    """
    sockets = handed.get(MYSQL) or bind(config.listen)
    if config.admin.listen is None:
        return sockets, ()
    try:
        admin = handed.get(ADMIN) or bind(config.admin.listen, "admin.listen")
    except OSError:
        for one in sockets:
            one.close()
        raise
    log.info("metrics and health on http://%s", address_of(admin, config.admin.listen))
    return sockets, admin


async def serve(
    config: Config,
    place: WorkerSlot | None = None,
    *,
    ready: Callable[[RunningProxy], None] | None = None,
    ending: Callable[[], None] | None = None,
    handed: Handed = NONE_HANDED,
    console: ConsoleProcess | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT, `RunningProxy.stop` or the end of the supervisor; without a `place`, alone.
    `ending` is called when the end begins. `handed`: sockets in place of those of the configuration. `console`: of a
    process that is alone, to be restarted.

    Raises:
        EngineError: the backend cannot be opened.
        OSError: the address cannot be listened on.
    """
    stopping = asyncio.Event()

    def stop() -> None:
        if ending is not None and not stopping.is_set():
            ending()
        stopping.set()

    on_signals(ENDING, stop)
    tls = config.tls.load()
    on_signals((signal.SIGHUP,), tls.reload)
    ids = None if config.backend.embedded else own_ids(0 if place is None else place.worker, config.workers)
    # The place first: where its address is taken, the start ends before the database's file is made.
    async with _worker_slot(config, place, handed, console) as place, _console_polled(console):

        def announce(running: RunningProxy) -> None:
            if ready is not None:
                ready(running)
            if console is not None:
                console.serve(running.address)

        if await _wait_for_backend(config, place, stopping):
            await _serve_slot(place, config, ConnectionRegistry(ids), tls, stopping, stop, announce)
    log.info("stopped")


async def _wait_for_backend(config: Config, place: WorkerSlot, stopping: asyncio.Event) -> bool:
    """Whether to go on: a server that is waited for is there, and no stop was requested. Raises BackendUnavailable."""
    if config.backend.embedded or not config.wait_for_backend:
        return True

    def try_once() -> None:
        MySQLStoreConnection(config.backend).close()

    return await wait_for_server(try_once, config.wait_for_backend, stopping, verbose=place.worker == 0)


async def _serve_slot(
    place: WorkerSlot,
    config: Config,
    registry: ConnectionRegistry,
    tls: ClientTls,
    stopping: asyncio.Event,
    stop: Callable[[], None],
    ready: Callable[[RunningProxy], None] | None,
) -> None:
    clock, neighbours = SystemClock(), LinkedNeighbours()
    async with _backend(config, clock, registry, tls) as (store, gateway, directory, named):
        engine = Engine(
            store,
            clock=clock,
            jitter=system_jitter,
            options=EngineOptions(
                config.limits.database_work,
                FilterLimits(config.limits.filters, config.limits.filters_per_account),
                purges=place.worker == 0,  # acked messages need no more than one to delete them
                make_dead_letters=DeadLetterTables(store.administer).make,
                dead_letter_names=DeadLetterNames(named),
                sole_account=registry.alone,
                retention_seconds=config.retention_period,
                upgrade_after_seconds=0.0 if directory is None else _UPGRADE_SECONDS,
            ),
            neighbours=neighbours,
        )
        await engine.open()
        peers = Peers(registry, engine, place, neighbours, settings_of(config), alone=config.backend.embedded)
        try:
            await _accept(config, place, engine, gateway, directory, peers, tls, stopping, stop, ready)
        finally:
            await engine.close(grace_seconds=0)
            await peers.close()


@contextlib.asynccontextmanager
async def _console_polled(console: ConsoleProcess | None) -> AsyncIterator[None]:
    """The console, restarted when it dies, until the end."""
    if console is None:
        yield
        return

    async def poll_console() -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            console.poll()

    task = asyncio.create_task(poll_console())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.to_thread(console.end)


@contextlib.asynccontextmanager
async def _worker_slot(
    config: Config, place: WorkerSlot | None, handed: Handed, console: ConsoleProcess | None
) -> AsyncIterator[WorkerSlot]:
    """Where this process serves: the place that a supervisor gave it, or one of its own.

    Raises:
        OSError: the address cannot be listened on.
    """
    if place is not None:
        yield place
        return
    with contextlib.ExitStack() as sockets:
        mysql, admin = listening(config, handed)
        for one in (*mysql, *admin):
            sockets.enter_context(one)
        private = [] if console is None else [console.counters]
        yield WorkerSlot(mysql, tallies(config).of(0), admin=[*admin, *private])


async def _accept(
    config: Config,
    place: WorkerSlot,
    engine: Engine,
    gateway: Gateway,
    directory: ProxyDirectory | None,
    peers: Peers,
    tls: ClientTls,
    stopping: asyncio.Event,
    stop: Callable[[], None],
    ready: Callable[[RunningProxy], None] | None,
) -> None:
    """Clients, until `stopping`, which `stop` sets; then their orderly end."""
    admission = Admission(config.limits, place.tally, asyncio.get_running_loop().time, peers.login)
    await peers.join(admission, stop)
    if directory is not None:
        await peers.find_others(directory, await asyncio.to_thread(_mesh_address, config, place))
    server = ProxyServer(gateway, engine, Planning(engine, config.queue_defaults), peers, admission, config)
    server.accept_from(place.sockets)
    async with _admin(place, engine, peers, admission, tls, stopping):
        peers.ready()
        if ready is not None:
            ready(RunningProxy(address_of(place.sockets, config.listen), engine, peers.registry, stop))
        await stopping.wait()
        log.info("stopping", extra={"connections": len(peers.registry)})
        await _end(config, place, engine, server)


async def _end(config: Config, place: WorkerSlot, engine: Engine, server: ProxyServer) -> None:
    deadline = asyncio.get_running_loop().time() + config.shutdown_grace
    server.close()
    for each in place.sockets:
        each.close()
    await engine.close(grace_seconds=config.shutdown_grace)
    await server.drain(max(0.0, deadline - asyncio.get_running_loop().time()))


@contextlib.asynccontextmanager
async def _admin(
    place: WorkerSlot, engine: Engine, peers: Peers, admission: Admission, tls: ClientTls, stopping: asyncio.Event
) -> AsyncIterator[None]:
    """The admin port, until the very end: clients then learn that the proxy is stopping."""
    if not place.admin:
        yield
        return
    # Loaded only where it serves: no worker loads its libraries in vain.
    from proxy.admin.server import AdminServer

    admin = AdminServer(engine, peers, admission, tls, release(), stopping.is_set)
    await admin.open(place.admin)
    try:
        yield
    finally:
        await admin.close()


@contextlib.asynccontextmanager
async def _backend(
    config: Config, clock: Clock, registry: ConnectionRegistry, tls: ClientTls
) -> AsyncIterator[tuple[SqlMessageStore | ShardedStore, Gateway, ProxyDirectory | None, NamedDeadLetters | None]]:
    """The database: the engine's store on it, the way of clients to it, where other proxies are, and which dead-letter
    queues were named."""
    url, limits = config.backend, config.limits
    if not url.embedded:
        # One more: dropping a partition is one piece of work on two connections, of which one waits for the other.
        pool = MySQLPool(url, size=limits.database_work + 1)
        whole = SqlMessageStore.for_mysql(pool, server_group_conditions(pool), server_insert)

        def open_shard(at: str) -> SqlMessageStore:
            return SqlMessageStore.at_shard(MySQLPool(url, size=limits.database_work, at=at), whole.last_receivers)

        store = ShardedStore(whole, open_shard)
        named = NamedDeadLetters(pool) if url.database else None
        directory = ProxyDirectory(pool, lambda: pool.sessions) if config.peers.enabled and url.database else None
        try:
            if config.auth_mode is Auth.PROXY:
                yield store, await ProxyAccountsGateway.open(config, pool, clock, registry, tls), directory, named
            else:
                yield store, RelayGateway(url, clock, limits.login_timeout, tls, pool.statement_pins), directory, named
        finally:
            await store.close()
        return
    # Loaded only where it serves: its SQL compiler is a third of the program.
    from proxy.gateways.embedded import embedded_backend

    async with embedded_backend(config, clock, registry, tls) as opened:
        yield *opened, None, None


def _mesh_address(config: Config, place: WorkerSlot) -> MeshAddress:
    """Where other proxies reach this process: each worker has a port of its own. May take time: names are looked up."""
    options, secret = config.peers, config.peers.secret
    listen = options.listen or Address(own_address(config.backend), 0)
    advertise = options.advertise
    if advertise is None and listen.host in ("0.0.0.0", "::"):
        advertise = Address(own_address(config.backend), listen.port)
        if listen.host == "0.0.0.0" and ":" in advertise.host:
            log.error(
                "other proxies cannot connect: peers.listen is of IPv4, and the database is reached by IPv6; say"
                " peers.listen: \"[::]:%d\", or give peers.advertise", listen.port, extra={"own": advertise.host}
            )  # fmt: skip
    return MeshAddress(
        _port_of(listen, place.worker),
        advertise and _port_of(advertise, place.worker),
        place.proxy,
        place.worker,
        "" if secret is None else secret.get_secret_value(),
    )


def _port_of(address: Address, worker: int) -> Address:
    return Address(address.host, address.port + worker) if address.port else address
