"""ThreadPool: a StorePool over blocking connections, for drivers that have no asynchronous interface of their own.

Rules
- Never more than `size` connections; opened when first needed, the most recently used one first.
- A connection that broke is discarded, and with it all idle ones: a server that went away took them along.
- A connection idle for long is tried before use, so that a server's or firewall's idle timeout is not noticed by work.
- A read that finds its idle connection cut is made again on a new one: a server that restarted is no outage any more.
- A transaction that another one made impossible (deadlock) is rolled back and made again, a few times.
- A server that only lets itself be read may have become a replica: all connections to it are discarded, so that the
  next ones lead to where its name leads by then.
- A connection that was lost may live on at the server, with its locks: the next one that is opened ends it there.
- Work that has begun runs to its end even if its caller is cancelled: the connection is never left in mid-statement.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from engine.backend.base import StoreConnection
from engine.model.errors import READ_ONLY, TRANSIENT, BackendError, BackendUnavailable, CommitUnknown

R = TypeVar("R")
T = TypeVar("T")

IDLE_SECONDS_UNTRIED = 30.0  # well below the shortest idle timeouts in use (MySQL 8 h, firewalls from 60 s)

TRIES_MAX = 4  # of one transaction: who loses four deadlocks in a row waits better than he repeats

_LOST_MAX = 32  # connections to be ended at the server; a pool has no more, or few

CUT_SECONDS = 1.0  # a connection that was cut while idle says so at once


class PooledConnection(StoreConnection, Protocol):
    """What the pool needs of a connection besides its use. All may raise BackendError."""

    def begin(self) -> None: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def end_lost(self, other: PooledConnection) -> None:
        """Have the server end what was `other`, closed by now, if it still has it. Never raises."""
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
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        assert size >= 1
        self._connect = connect
        self._monotonic = monotonic
        self._executor = ThreadPoolExecutor(size, thread_name_prefix="store")
        self._lock = threading.Lock()
        self._idle: list[tuple[PooledConnection, float]] = []  # with the time of last use
        self._lost: deque[PooledConnection] = deque(maxlen=_LOST_MAX)
        self._closed = False
        self._opened = 0  # attempts, by all threads: a guess at whether a read had a new connection is good enough

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

    async def close(self) -> None:
        self._closed = True
        await asyncio.to_thread(self._executor.shutdown)
        self._discard_idle()

    async def _run(self, call: Callable[[], T]) -> T:
        if self._closed:
            raise BackendUnavailable("the connection pool is closed")
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

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
                found = read(connection)
                answered = True
                work = then(found)
            except BaseException:
                if locking:
                    connection.rollback()
                raise
            if work is None:
                if locking:
                    connection.rollback()
                return found, None
            return found, _transaction(connection, work)

        try:
            with self._connection() as connection:
                return both(connection)
        except BackendUnavailable:
            # Not once it may have written, nor after a long wait for an answer, nor where a connection was refused.
            if answered or self._opened != opened or self._monotonic() - began > CUT_SECONDS:
                raise
        with self._connection() as connection:
            return both(connection)

    @contextlib.contextmanager
    def _connection(self) -> Iterator[PooledConnection]:
        connection = self._take()
        try:
            yield connection
        except BackendUnavailable:
            connection.close()
            self._lost.append(connection)
            self._discard_idle()
            raise
        except BackendError as error:
            if error.errno in READ_ONLY:
                connection.close()
                self._discard_idle()
                raise
            self._put(connection)  # the database refused a statement; the connection is sound
            raise
        except BaseException:
            connection.close()  # a defect: who knows what state it is in
            raise
        self._put(connection)

    def _take(self) -> PooledConnection:
        while (idle := self._take_idle()) is not None:
            connection, used = idle
            if self._monotonic() - used < IDLE_SECONDS_UNTRIED:
                return connection
            try:
                connection.ping()
            except BackendError:
                connection.close()
            else:
                return connection
        self._opened += 1
        connection = self._connect()
        while self._lost:
            with contextlib.suppress(IndexError):  # another thread took the last
                connection.end_lost(self._lost.popleft())
        return connection

    def _take_idle(self) -> tuple[PooledConnection, float] | None:
        """The connection that was used last, and when."""
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _put(self, connection: PooledConnection) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append((connection, self._monotonic()))
                return
        connection.close()

    def _discard_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()


def _transaction(connection: PooledConnection, work: Callable[[StoreConnection], T]) -> T:
    for _ in range(TRIES_MAX - 1):
        try:
            return _once(connection, work)
        except BackendError as error:
            if error.errno not in TRANSIENT:
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
    return result
