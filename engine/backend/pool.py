"""ThreadPool: a StorePool over blocking connections, for drivers without an interface of asyncio.

Rules
- Never more than `size` connections; opened when first needed, the most recently used one first.
- A broken connection is discarded, and with it all idle ones: the server that went away has closed them too.
- A server ends a session that is silent for SILENCE_SECONDS, so idle connections are pinged. Those that are unused for
  long are closed, except one.
- A connection that has been silent for longer than IDLE_SECONDS_UNTRIED is tested before use: the process, or the whole
  machine, may have been suspended.
- A read whose idle connection turns out to be closed is repeated on a new one: a server that restarted is no longer an
  outage.
- A transaction that failed because of another one (deadlock) is rolled back and repeated, a few times.
- A read-only server may have become a replica: all connections to it are discarded, so that the next ones resolve its
  name again.
- A lost connection may still exist at the server, with its locks: the next one that is opened kills it there.
- One round trip outside a transaction needs no thread (engine.backend.exchange), if a connection is idle and fit.
- Work that has begun runs to its end even if its caller is cancelled: the connection never stays in mid-statement.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

from engine.backend.base import Answer, Statement, StoreConnection
from engine.backend.exchange import Exchange, wait_for_answers
from engine.backend.sessions import SILENCE_SECONDS
from engine.clock import boottime_seconds
from engine.model.errors import READ_ONLY, ROLLED_BACK, BackendError, BackendUnavailable, CommitUnknown

R = TypeVar("R")
T = TypeVar("T")

IDLE_SECONDS_UNTRIED = 6.0
assert IDLE_SECONDS_UNTRIED < SILENCE_SECONDS  # by enough for what is sent next to arrive

PING_SECONDS = 2.0  # between two checks of the idle connections: none is silent for longer than twice that
SPARE_SECONDS = 60.0  # after a burst its connections are closed again

TRIES_MAX = 4  # of one transaction: after four deadlocks in a row it is better to wait

_LOST_MAX = 32  # connections to be killed at the server; a pool has rarely more

CUT_SECONDS = 1.0  # a connection that was closed while idle reports it immediately


class PooledConnection(StoreConnection, Protocol):
    """What the pool needs of a connection besides its use. All may raise BackendError."""

    @property
    def place(self) -> str:
        """Its name at the server: its connection id there, `@`, its client address; empty where that is not known."""
        ...

    def exchange(self, statements: Sequence[Statement]) -> Exchange | None:
        """Send statements, for the event loop to wait for; None where that cannot be done now."""
        ...

    def begin(self) -> None: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def end_lost(self, other: PooledConnection) -> None:
        """Let the server kill the connection that was `other`, which is closed here. Raises BackendUnavailable where
        this one is lost by now."""
        ...

    def ping(self) -> None:
        """Raise BackendUnavailable where the server does not answer."""
        ...

    def close(self) -> None:
        """Never raises."""
        ...


class ThreadPool:
    """See the module."""

    def __init__(
        self,
        connect: Callable[[], PooledConnection],
        *,
        size: int,
        monotonic: Callable[[], float] = boottime_seconds,
    ) -> None:
        assert size >= 1
        self._connect = connect
        self._monotonic = monotonic
        self._executor = ThreadPoolExecutor(size, thread_name_prefix="store")
        self._lock = threading.Lock()
        self._idle: list[_Idle] = []  # the most recently used one last
        self._open: set[PooledConnection] = set()
        self._ping_timer: asyncio.TimerHandle | None = None
        self._lost: deque[PooledConnection] = deque(maxlen=_LOST_MAX)
        self._closed = False
        self._opened = 0  # attempts, by all threads: a guess at whether a read had a new connection is good enough

    async def write_alone(self, statements: Sequence[Statement]) -> list[Answer]:
        if (answers := await self._exchange(statements)) is not None:
            return answers
        return await self.write(lambda connection: connection.run(statements, last=True, alone=True))

    async def ask(self, statements: Sequence[Statement]) -> list[Answer]:
        began = self._monotonic()
        try:
            answers = await self._exchange(statements)
        except BackendUnavailable:
            if self._monotonic() - began > CUT_SECONDS:
                raise  # else it was closed while it was idle
            answers = None
        if answers is None:
            answers = await self.read(lambda connection: connection.run(statements))
        return answers

    async def read(self, work: Callable[[StoreConnection], T]) -> T:
        return await self._run(lambda: self._read(work))

    async def write(self, work: Callable[[StoreConnection], T]) -> T:
        return await self._run(lambda: self._write(work))

    async def read_then_write(
        self,
        read: Callable[[StoreConnection], R],
        then: Callable[[R], Callable[[StoreConnection], T] | None],
        *,
        locking: bool = False,
    ) -> tuple[R, T | None]:
        return await self._run(lambda: self._read_then_write(read, then, locking))

    @property
    def sessions(self) -> tuple[str, ...]:
        """The open connections, by their names at the server (`PooledConnection.place`)."""
        with self._lock:
            return tuple(sorted(place for connection in self._open if (place := connection.place)))

    async def close(self) -> None:
        self._closed = True
        if self._ping_timer is not None:
            self._ping_timer.cancel()
        await asyncio.to_thread(self._executor.shutdown)
        self._discard_idle()

    async def _exchange(self, statements: Sequence[Statement]) -> list[Answer] | None:
        """On the connection that was used last, if it is fit for that; None: it is to be done in a thread."""
        idle = self._take_fresh()
        if idle is None:
            return None
        with _Use(self, idle.connection) as connection:
            exchange = connection.exchange(statements)
            return None if exchange is None else await wait_for_answers(exchange)

    async def _run(self, call: Callable[[], T]) -> T:
        if self._closed:
            raise BackendUnavailable("the connection pool is closed")
        loop = asyncio.get_running_loop()
        if self._ping_timer is None:
            self._ping_timer = loop.call_later(PING_SECONDS, self._start_ping, loop)
        return await loop.run_in_executor(self._executor, call)

    def _start_ping(self, loop: asyncio.AbstractEventLoop) -> None:
        """Ping idle connections, so that the server does not end them, as long as there are connections: those that are
        in use, or are being pinged, are idle in a moment."""
        self._ping_timer = None
        if self._closed or not self._open:
            return
        if self._idle:
            self._executor.submit(self._ping_idle).add_done_callback(_raise)
        self._ping_timer = loop.call_later(PING_SECONDS, self._start_ping, loop)

    def _read(self, work: Callable[[StoreConnection], T]) -> T:
        return self._read_then_write(work, lambda _: None, False)[0]

    def _write(self, work: Callable[[StoreConnection], T]) -> T:
        with self._connection() as connection:
            return _transaction(connection, work)

    def _read_then_write(
        self,
        read: Callable[[StoreConnection], R],
        then: Callable[[R], Callable[[StoreConnection], T] | None],
        locking: bool,
    ) -> tuple[R, T | None]:
        began, opened, answered = self._monotonic(), self._opened, False

        def both(connection: PooledConnection) -> tuple[R, T | None]:
            nonlocal answered
            if locking:
                connection.begin()
            try:
                result = read(connection)
                answered = True
                work = then(result)
            except BaseException:
                if locking:
                    connection.rollback()
                raise
            if work is None:
                if locking:
                    connection.rollback()
                return result, None
            return result, _transaction(connection, work)

        try:
            with self._connection() as connection:
                return both(connection)
        except BackendUnavailable:
            # Not once it may have written, nor after a long wait for an answer, nor where a connection was refused.
            if answered or self._opened != opened or self._monotonic() - began > CUT_SECONDS:
                raise
        with self._connection() as connection:
            return both(connection)

    def _connection(self) -> _Use:
        return _Use(self, self._take())

    def used(self, connection: PooledConnection, error: BaseException | None) -> None:
        """The connection is not needed any more; its use has ended with this error."""
        if error is None:
            self._put(connection)
        elif isinstance(error, BackendUnavailable):
            self._end(connection)
            self._lost.append(connection)
            self._discard_idle()
        elif isinstance(error, BackendError) and error.errno in READ_ONLY:
            self._end(connection)
            self._discard_idle()
        elif isinstance(error, BackendError):
            self._put(connection)  # the database refused a statement; the connection is sound
        else:
            self._end(connection)  # a defect: who knows what state it is in

    def _take(self) -> PooledConnection:
        while (idle := self._take_idle()) is not None:
            if self._monotonic() - idle.answered_at < IDLE_SECONDS_UNTRIED or self._answers(idle.connection):
                return idle.connection
        self._opened += 1
        connection = self._connect()
        with self._lock:
            self._open.add(connection)
        try:
            while self._lost:
                with contextlib.suppress(IndexError):  # another thread took the last
                    connection.end_lost(self._lost.popleft())
        except BackendUnavailable:
            self._end(connection)
            raise
        return connection

    def _answers(self, connection: PooledConnection) -> bool:
        """Whether it is of use. One that is not is closed."""
        try:
            connection.ping()
        except BackendError:
            self._end(connection)
            return False
        return True

    def _end(self, connection: PooledConnection) -> None:
        with self._lock:
            self._open.discard(connection)
        connection.close()

    def _take_idle(self) -> _Idle | None:
        """The connection that was used last."""
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _take_fresh(self) -> _Idle | None:
        """The same, unless it has to be tested before."""
        with self._lock:
            fresh = self._idle and self._monotonic() - self._idle[-1].answered_at < IDLE_SECONDS_UNTRIED
            return self._idle.pop() if fresh and not self._closed else None

    def _put(self, connection: PooledConnection, used: float | None = None) -> None:
        """The server has just answered on it; `used`: when it was last used, if not just now."""
        now = self._monotonic()
        with self._lock:
            if not self._closed:
                self._idle.append(_Idle(connection, now if used is None else used, now))
                if used is not None:
                    self._idle.sort(key=lambda one: one.used)
                return
        self._end(connection)

    def _ping_idle(self) -> None:
        """Ping connections that have been silent for a while, or close them. One after the other, so that this thread,
        too, uses one at most."""
        began = self._monotonic()
        while (idle := self._take_silent(began - PING_SECONDS)) is not None:
            if began - idle.used >= SPARE_SECONDS and len(self._open) > 1:
                self._end(idle.connection)
            elif self._answers(idle.connection):
                self._put(idle.connection, idle.used)

    def _take_silent(self, since: float) -> _Idle | None:
        """One whose server last answered before that time."""
        with self._lock:
            idle_connection = next((idle for idle in self._idle if idle.answered_at <= since), None)
            if idle_connection is not None:
                self._idle.remove(idle_connection)
            return idle_connection

    def _discard_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for one in idle:
            self._end(one.connection)


class _Use:
    """The use of a connection of a pool, and what becomes of it afterwards."""

    __slots__ = ("_connection", "_pool")

    def __init__(self, pool: ThreadPool, connection: PooledConnection) -> None:
        self._pool, self._connection = pool, connection

    def __enter__(self) -> PooledConnection:
        return self._connection

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        self._pool.used(self._connection, error)


@dataclass(frozen=True, slots=True)
class _Idle:
    """An idle connection: when it was last used, and when its server last answered."""

    connection: PooledConnection
    used: float
    answered_at: float


def _raise(done: Future[None]) -> None:
    """Its result is not awaited; a defect must not go unnoticed."""
    if not done.cancelled():
        done.result()


def _transaction(connection: PooledConnection, work: Callable[[StoreConnection], T]) -> T:
    for _ in range(TRIES_MAX - 1):
        try:
            return _once(connection, work)
        except BackendError as error:
            if error.errno not in ROLLED_BACK or error.committed or isinstance(error, BackendUnavailable):
                raise
    return _once(connection, work)


def _once(connection: PooledConnection, work: Callable[[StoreConnection], T]) -> T:
    connection.begin()
    try:
        result = work(connection)
    except BaseException:
        connection.rollback()
        raise
    try:
        connection.commit()
    except BackendUnavailable as error:
        raise CommitUnknown(error, result) from error
    except BackendError:
        connection.rollback()  # the transaction may be open still
        raise
    return result
