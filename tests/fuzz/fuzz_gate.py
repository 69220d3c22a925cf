"""A whole gate on a loop of its own: sockets, threads, clock and chance are ours, all the rest is what production runs.

`EmbeddedWorld` has SQLite behind it, `RelayWorld` a server that is not there. A world serves many inputs one after the
other, is asked after each whether it is at rest, and is thrown away before what they left in it matters.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import sqlite3
import tempfile
import zlib
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack, closing
from dataclasses import replace
from functools import cache
from hashlib import sha1
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import fuzz_paths  # noqa: F401
import fuzz_wire as w
import memory_store
from fuzz_corpus import PRELUDE, Conversation
from fuzz_loop import FuzzLoop, FuzzTransport
from fuzz_results import Answers, recorded
from fuzz_server import GREETING, Spoiler, StandIn
from login_clients import certificate
from memory_store import COLUMNS, MemoryStore, Row, make_spec
from memory_topics import LogRow, make_group, make_topic

import embedded.database.sqlite as sqlite_module
import proxy.login.own_accounts
import proxy.login.plugins
from embedded.database.connection import SqliteConnection
from embedded.session.session import EmbeddedSession
from embedded.session.shared_database import ParserThreads
from engine.backend.environment import StatementPins
from engine.background import alarm_watch, watchdog
from engine.engine import Engine, EngineOptions
from engine.model.errors import BackendError
from engine.model.groups import GroupKey, GroupPage, GroupPlace
from engine.model.queue import Condition, Layout, QueueName
from engine.model.topics import group_table
from proxy.cluster.peers import LinkedNeighbours, Peers
from proxy.cluster.registry import ConnectionRegistry
from proxy.config import Config
from proxy.listen.listener import WorkerSlot
from proxy.listen.shared_counts import Count, SharedCounts
from proxy.server import ProxyServer
from proxy.statements.dead_letters import DeadLetterTables
from proxy.transport.client_timers import ClientTimers
from queuegate import app

MAX_PACKET = 17 << 20  # one more than a physical packet holds, so that both edges are near
LEFT_OUT = w.CONNECT_WITH_DB | w.CONNECT_ATTRS | w.SSL | w.COMPRESS | w.QUERY_ATTRIBUTES
WATCH_SECONDS = (
    5.0  # between two looks of the engine at itself: each second, it is most of what a wait of minutes costs
)
LIMITS = {"max_packet_size": MAX_PACKET, "login_failures": 0}  # addresses are made up, one for each client
USERS = (
    {"name": "root", "password": ""},
    {"name": "app", "password": "secret"},
    {"name": "old", "password_hash": "*" + sha1(sha1(b"geheim").digest()).hexdigest().upper()},
)


class LoopClock:
    """The engine's clock on the fuzzer's loop."""

    def now_ns(self) -> int:
        return 1_770_000_000_000_000_000 + round(self.monotonic() * 1e9)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def boottime(self) -> float:
        return self.monotonic()


class InlineWorker:
    """A SqliteWorker without a thread: its work is done on a turn of the loop. Once begun it is never given up."""

    def __init__(self, path: str, name: str) -> None:
        self._path = path
        self._connection: SqliteConnection | None = None

    @property
    def is_heavy(self) -> bool:
        return self._connection is not None and self._connection.is_heavy

    @property
    def in_transaction(self) -> bool:
        return self._connection is not None and self._connection.in_transaction

    def submit(self, work: Callable[[SqliteConnection], Any]) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        loop.call_soon(self._do, work, future)
        return future

    async def run(self, work: Callable[[SqliteConnection], Any]) -> Any:
        future = self.submit(work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait([future])
            future.exception()
            raise

    def _do(self, work: Callable[[SqliteConnection], Any], future: asyncio.Future[Any]) -> None:
        try:
            if self._connection is None:
                self._connection = SqliteConnection.open(self._path)
            result = work(self._connection)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    def interrupt(self) -> None:
        """Nothing runs while another callback does."""

    def successor(self) -> InlineWorker:
        self.stop()
        return InlineWorker(self._path, "")

    def stop(self) -> None:
        asyncio.get_running_loop().call_soon(self._close)

    async def close(self) -> None:
        self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


async def _read_inline(readers: ParserThreads, work: Callable[[], Any]) -> Any:
    """A long statement is read on a turn of the loop, where production has threads."""
    return await asyncio.get_running_loop().run_in_executor(None, work)


_SET_ASIDE = re.compile(r"cannot move rejected messages|cannot be moved to \S+ and stays? set aside")


class ErrorLog(logging.Handler):
    """Whatever is logged at ERROR: nothing a client sends may cause that. But for dead letters that cannot be moved:
    who may write to a dead-letter queue may make one of the same id, or drop the queue."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or not _SET_ASIDE.search(record.getMessage()):
            self.lines.append(f"logged: {logging.Formatter().format(record)}")


class World:
    """What all have in common. `tls`: clients are offered encryption."""

    kind = ""

    def __init__(self, *, tls: bool = False) -> None:
        self.loop = FuzzLoop()
        self.log = ErrorLog()
        self.nonces: list[bytes] = []
        self.registry = ConnectionRegistry()
        self.shown: Callable[[], int] = lambda: 0
        self._patches = ExitStack()
        self._resources = AsyncExitStack()
        self._clients = 0
        self._folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
        self._patches.callback(shutil.rmtree, self._folder, ignore_errors=True)
        self._tls = {"mode": "offered", "certificate": str(certificate(self._folder))} if tls else {}
        logging.getLogger().addHandler(self.log)
        self._patches.callback(logging.getLogger().removeHandler, self.log)
        try:
            self._patch()
            with self.loop.running():
                self.loop.complete(self._open())
        except BaseException:
            self._patches.close()  # what is patched would make the tests after this one fail, or never end
            raise

    def _patch(self) -> None:
        def nonce(size: int) -> bytes:
            return self.nonces.pop(0) if self.nonces else bytes(33 + (7 * n) % 90 for n in range(size))

        for target, name, value in (
            (proxy.login.own_accounts, "new_nonce", nonce),
            (proxy.login.plugins, "new_nonce", nonce),
            (__import__("mysql_mimic.utils").utils, "nonce", nonce),
            (watchdog, "PERIOD_SECONDS", WATCH_SECONDS),
            (alarm_watch, "PERIOD_SECONDS", WATCH_SECONDS),
        ):
            self._patches.enter_context(patch.object(target, name, value))

    async def _open(self) -> None:
        config = Config.model_validate({**self._config(), "limits": LIMITS, "tls": self._tls})
        tls = config.tls.load()
        backend = app._backend(config, LoopClock(), self.registry, tls)
        store, gateway, *_ = await self._resources.enter_async_context(backend)
        tables = DeadLetterTables(store.administer)
        self.engine = Engine(
            store, clock=LoopClock(), jitter=lambda: 1.0, options=EngineOptions(make_dead_letters=tables.make)
        )
        await self.engine.open()
        self._resources.push_async_callback(self.engine.close, grace_seconds=0)
        self.tally = SharedCounts().of(0)
        place, stopping = WorkerSlot((), self.tally), asyncio.Event()
        peers = Peers(self.registry, self.engine, place, LinkedNeighbours())
        # The composition root makes the server, as in production; it is caught as it is made.
        made: list[ProxyServer] = []
        with patch.object(
            app, "ProxyServer", lambda *args, **options: made.append(ProxyServer(*args, **options)) or made[0]
        ):
            accepting = app._accept(config, place, self.engine, gateway, None, peers, tls, stopping, stopping.set, None)
            serving = self.loop.create_task(accepting)
            while not made and not serving.done():
                await asyncio.sleep(0)
            if serving.done():
                await serving
        self.server = made[0]

        async def stop() -> None:
            stopping.set()
            await serving

        self._resources.push_async_callback(stop)

    def _config(self) -> dict[str, Any]:
        """The keys that make the world what it is."""
        raise NotImplementedError

    def enter(self, conversation: Conversation, spoil: Spoiler | None = None) -> FuzzTransport:
        """A client connects; greeting, nonces and answers will be those of the conversation."""
        self.nonces = list(nonces_of(conversation))
        transport = FuzzTransport(self.loop, self.server._new_stream())
        self._clients += 1
        transport._extra["peername"] = ("192.0.2.1", 1024 + self._clients)  # type: ignore[attr-defined]
        self.host = f"192.0.2.1:{1024 + self._clients}"
        return transport

    @property
    def busy(self) -> bool:
        """Whether a client's task still runs."""
        return bool(self.server._tasks)

    @property
    def logging_in(self) -> int:
        """How many clients have not logged in yet."""
        return self.tally.total(Count.LOGGING_IN)

    def unrest(self) -> list[str]:
        """What a client that is gone has left behind; told once."""
        found = [*self.log.lines, *self.loop.faults]
        self.log.lines, self.loop.faults = [], []
        found += [f"a task is left: {task!r}" for task in self.server._tasks]
        found += [f"still registered: {connection!r}" for connection in self.registry]
        found += [f"a stream is left: {stream}" for stream in self.engine.subscriptions()]
        for what in (Count.CONNECTIONS, Count.LOGGING_IN):
            if self.tally.total(what):
                found.append(f"still counted: {what!r} {self.tally.total(what)}")
        for timer in self.loop._scheduled:  # type: ignore[attr-defined]
            owner = getattr(timer._callback, "__self__", None)
            if not timer._cancelled and isinstance(owner, ClientTimers):
                found.append(f"a timer is left: {timer!r}")
        return found

    def close(self) -> list[str]:
        """The end of the world; what it still has to complain about."""
        with self.loop.running():
            self.loop.complete(self._resources.aclose())
            self.loop.pump()
            left = [task for task in asyncio.all_tasks(self.loop) if not task.done()]
            self.loop.close()
        self._patches.close()
        return [*self.log.lines, *self.loop.faults, *(f"a task is left at the end: {task!r}" for task in left)]


@cache
def nonces_of(conversation: Conversation) -> tuple[bytes, ...]:
    """The nonces that its server used, in order, so that its client's proofs are right again."""
    found = [w.nonce_of(conversation.greeting)]
    for client, data in conversation.segments[1:]:
        for packet in [] if client else w.packets_of(data)[0]:
            if packet.payload[:1] == b"\xfe" and len(packet.payload) > 30:
                found.append(packet.payload[1:].partition(b"\0")[2][:20])
    return tuple(found)


FURTHER = (
    "CREATE QUEUE fo (payload VARCHAR(100)) WITH (order_key = 'payload', max_concurrency = 2, max_attempts = 2)",
    "CREATE TABLE fl (time_scheduled BIGINT NOT NULL, id BIGINT NOT NULL, time_next BIGINT, epoch BIGINT,"
    " time_created BIGINT, time_acked BIGINT, payload VARCHAR(100), PRIMARY KEY (time_scheduled, id), UNIQUE KEY (id))"
    " COMMENT='vitess_message,vt_ack_wait=30,vt_purge_after=86400,vt_batch_size=10,vt_cache_size=100,"
    "vt_poller_interval=30'",
    "INSERT INTO fo (payload) VALUES ('a'), ('a'), ('b')",
    "INSERT INTO fl (id, payload) VALUES (1, 'a'), (2, 'b')",
    "CREATE TOPIC fe (payload VARCHAR(100))",
    "CREATE GROUP g ON fe",
    "INSERT INTO fe (payload) VALUES ('a'), ('b'), ('c')",
    "CREATE TOPIC fe2 (payload VARCHAR(100))",
    "INSERT INTO fe2 (payload) VALUES ('a'), ('a'), ('b')",
    "CREATE GROUP g ON fe2 START AT EARLIEST",
    "CREATE GROUP h ON fe2 START AT OFFSET 2 WITH (order_key = 'payload', max_attempts = 1)",
)
"""What no recorded conversation knows: queues with an order and limits, and in Vitess's first layout; a topic with one
consumer group, and one with two."""


@cache
def filled_database() -> bytes:
    """What clients find. A world of its own makes it, once for a process: that takes as long as a hundred inputs."""
    world = EmbeddedWorld(database=b"")
    try:
        with world.loop.running():
            made: bytes = world.loop.complete(world.fill())
    finally:
        world.close()
    return made


class EmbeddedWorld(World):
    """SQLite behind. `executed` are (statement, bytes that the client had been shown by then)."""

    kind = "embedded"

    def __init__(self, *, tls: bool = False, database: bytes | None = None) -> None:
        self._database = filled_database() if database is None else database
        super().__init__(tls=tls)

    def _patch(self) -> None:
        super()._patch()
        self.executed: list[tuple[str, int]] = []
        self._patches.enter_context(patch.object(sqlite_module, "SqliteWorker", InlineWorker))
        self._patches.enter_context(patch.object(ParserThreads, "run", _read_inline))
        for name in ("execute", "prepare", "use"):
            self._patches.enter_context(patch.object(EmbeddedSession, name, self._witnessed(name)))

    def _witnessed(self, name: str) -> Callable[..., Any]:
        original = getattr(EmbeddedSession, name)

        async def call(session: EmbeddedSession, sql: str, *args: Any) -> Any:
            if session._state.identity.connection_id:  # else it is the engine's own, for its dead-letter queues
                self.executed.append((sql, self.shown()))
            return await original(session, sql, *args)

        return call

    def _config(self) -> dict[str, Any]:
        path = self._folder / "queue.db"
        path.write_bytes(self._database)
        return {"backend": f"sqlite:///{path}", "users": USERS}

    async def fill(self) -> bytes:
        """The file of a database that holds what clients find."""
        owner = SimpleClient(self)
        for statement in (*PRELUDE, *FURTHER):
            await owner.ask(statement)
        owner.leave()
        with closing(sqlite3.connect(self._folder / "queue.db")) as database:
            return database.serialize()

    def enter(self, conversation: Conversation, spoil: Spoiler | None = None) -> FuzzTransport:
        transport = super().enter(conversation)
        self.executed = []
        self.shown = lambda: len(transport.output)
        return transport

    def unrest(self) -> list[str]:
        found = super().unrest()
        for connection in self.server._gateway._database._busy:
            found.append(f"a database connection was not given back: {connection!r}")
        return found


FE, FE2 = QueueName("main", "fe"), QueueName("main", "fe2")
GROUPS = ((FE, "g"), (FE2, "g"), (FE2, "h"))


class RelayWorld(World):
    """A server behind that is not there, which judges logins itself. `servers` are the client's lines to it."""

    kind = "relay"

    def __init__(self, conversations: list[Conversation], *, tls: bool = False) -> None:
        self.known = recorded(conversations)
        super().__init__(tls=tls)

    def _patch(self) -> None:
        super()._patch()
        self.servers: list[StandIn] = []
        self.greeting, self.switches = GREETING, list[bytes]()
        self.spoil: Spoiler | None = None
        self._patches.enter_context(patch.object(self.loop, "create_connection", self._connect))
        self.store = FakeStore(LoopClock())
        self.store.serve(
            make_spec(QueueName("main", "fq")),
            make_spec(QueueName("main", "fq_dead"), dead_letter_of="fq"),
            make_spec(QueueName("main", "fg"), group_key="payload"),
            make_spec(QueueName("main", "fo"), order_key="payload", max_concurrency=2),
            replace(make_spec(QueueName("main", "fl")), layout=Layout.LEGACY),
            *(make_group(topic, group, COLUMNS) for topic, group in GROUPS),
            topics=[make_topic(topic) for topic in {topic for topic, _ in GROUPS}],
        )
        self._patches.enter_context(patch.object(memory_store, "_fits", _fits))
        self._patches.enter_context(patch.object(app, "MySQLPool", FakePool))
        made = SimpleNamespace(for_mysql=lambda pool, conditions, insert: self.store)
        self._patches.enter_context(patch.object(app, "SqlMessageStore", made))

    async def _connect(self, factory: Callable[[], asyncio.Protocol], *args: Any, **options: Any) -> tuple[Any, Any]:
        protocol = factory()
        transport = FuzzTransport(self.loop, protocol)
        answers = Answers(self.known)
        stand_in = StandIn(self.loop, transport, answers, self.greeting, self.switches, self.spoil, self.shown)
        self.servers.append(stand_in)
        await asyncio.sleep(0)
        return transport, protocol

    def _config(self) -> dict[str, Any]:
        return {"backend": "mysql://root@127.0.0.1:1/main"}

    def enter(self, conversation: Conversation, spoil: Spoiler | None = None) -> FuzzTransport:
        transport = super().enter(conversation)
        for queue in (QueueName("main", "fq"), group_table(FE, "g"), group_table(FE2, "h")):
            self.store.add(*(Row(number, time_next=number) for number in range(1, 6)), queue=queue)
        self.store.topics.add(*map(LogRow, range(1, 6)), topic=FE)
        self.servers, self.spoil = [], spoil
        self.greeting, self.switches = conversation.greeting, list(nonces_of(conversation)[1:])
        self.shown = lambda: len(transport.output)
        return transport

    @property
    def lost_line(self) -> bool:
        """Whether the client's line to the database is gone, and nothing is on its way that needs none."""
        return bool(self.servers) and self.servers[-1].gone and not self.engine.subscriptions()


LIMITED = {
    "fq": ["enqueue", "receive", "settle"],
    "fe": ["enqueue", "receive"],
    "fe_group_g": ["receive", "settle"],
}


class ProxyWorld(RelayWorld):
    """The same server, but the gate has accounts of its own and opens lines as they are needed. `app` is limited."""

    kind = "proxy"

    def enter(self, conversation: Conversation, spoil: Spoiler | None = None) -> FuzzTransport:
        """The conversations are those with the embedded backend, whose logins are the same."""
        transport = super().enter(conversation, spoil)
        self.greeting, self.switches = GREETING, []
        return transport

    def _config(self) -> dict[str, Any]:
        users = [{**user, **({"queues": LIMITED} if user["name"] == "app" else {})} for user in USERS]
        return {**super()._config(), "auth": "proxy", "users": users}


COLLATIONS = (
    (45, "utf8mb4_general_ci", "utf8mb4"),
    (255, "utf8mb4_0900_ai_ci", "utf8mb4"),
    (33, "utf8mb3_general_ci", "utf8mb3"),
    (8, "latin1_swedish_ci", "latin1"),
    (28, "gbk_chinese_ci", "gbk"),
    (63, "binary", "binary"),
    (54, "utf16_general_ci", "utf16"),
)


def _fits(condition: Condition, row: Row) -> bool:
    """Whether a message fits a condition, which no database is there to tell: as a number made of both says."""
    return bool(zlib.crc32(f"{condition.sql} {row.id}".encode()) & 1)


class FakeGroups:
    """A table of groups that is there and empty."""

    async def make(self, group: GroupKey) -> None: ...

    async def read(self, group: GroupKey, after: GroupPlace | None) -> GroupPage:
        return GroupPage()


class FakeStore(MemoryStore):
    """A store with such a table, and in which no table is made."""

    groups = FakeGroups()

    async def administer(self, sql: str) -> list[tuple[Any, ...]]:
        raise BackendError("tables are not made here")


class FakePool:
    """The engine's pool for what gateways ask of it: which collations there are, and whether there is a database."""

    def __init__(self, *args: Any, **options: Any) -> None: ...

    def statement_pins(self) -> StatementPins:
        return StatementPins()

    async def read(self, work: Callable[[Any], Any]) -> Any:
        return work(self)

    def query(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        if "schemata" in sql:
            return [(1,)] if values == ("main",) else []
        return list(COLLATIONS)

    def execute(self, sql: str) -> int:
        return 0


class SimpleClient:
    """Logs in as root without a password and asks; for setting up, and to show that others are served."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.transport = FuzzTransport(world.loop, world.server._new_stream())

    async def _answer(self, done: Callable[[list[w.Packet]], bool]) -> list[w.Packet]:
        for _ in range(2000):
            packets, rest = w.packets_of(bytes(self.transport.written))
            if packets and not rest and done(packets):
                self.transport.written.clear()
                return packets
            await asyncio.sleep(0)
        raise AssertionError(f"no answer: {bytes(self.transport.written)!r}")

    async def log_in(self) -> None:
        greeting = (await self._answer(bool))[0]
        flags = w.offered_by(greeting.payload) & ~LEFT_OUT & 0xFFFFFFFF | w.LONG_PASSWORD
        response = flags.to_bytes(4, "little") + bytes(4) + b"\x2d" + bytes(23) + b"root\0\0mysql_native_password\0"
        self.transport.deliver(w.Packet(1, response).encode())
        packet = (await self._answer(bool))[0]
        while packet.payload[:1] == b"\xfe":
            self.transport.deliver(w.Packet(packet.seq + 1, b"").encode())
            packet = (await self._answer(bool))[0]
        assert packet.payload[:1] == b"\0", packet
        self.transport.deliver(w.framed(b"\x02main"))
        await self._answer(bool)

    async def ask(self, sql: str) -> list[w.Packet]:
        """The answer of one statement."""
        if not self.transport._connected:
            await self.log_in()
        self.transport.deliver(w.framed(b"\x03" + sql.encode()))
        packets = await self._answer(lambda got: got[-1].payload[:1] in (b"\0", b"\xff", b"\xfe"))
        assert packets[0].payload[:1] != b"\xff", packets[0]
        return packets

    def leave(self) -> None:
        self.transport.hang_up()
