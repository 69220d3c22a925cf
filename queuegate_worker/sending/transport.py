"""Where messages go: to the database, or into a list of a test."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import pymysql

from queuegate_worker.address import address_of
from queuegate_worker.connection import Connection, connection_factory
from queuegate_worker.errors import WorkerError, connection_lost
from queuegate_worker.sending.connections import Id, run, run_async
from queuegate_worker.sending.rows import Due, Row, inserts
from queuegate_worker.statements import Statement

_PROGRAM = "queuegate-send"
_ANSWER_SECONDS = 60.0
_IDLE_SECONDS = 5.0  # after which a connection may have been ended by a restart of the proxy


class Transport(Protocol):
    """Sends rows to a queue. `connection`: the application's, or None."""

    def send(self, queue: str, rows: Sequence[Row], due: Due, connection: Any) -> list[Id | None]:
        """The ids as far as they are known: that of a single row."""

    async def send_async(self, queue: str, rows: Sequence[Row], due: Due, connection: Any) -> list[Id | None]:
        """The same on a connection of asyncio."""


class Database:
    """By INSERT: on the application's connection, or on one of its own for each thread, at QUEUEGATE_URL."""

    def __init__(self) -> None:
        self._own = threading.local()

    def send(self, queue: str, rows: Sequence[Row], due: Due, connection: Any) -> list[Id | None]:
        """Raises WorkerError, and the errors of the connection's driver."""
        statements = inserts(queue, rows, due)
        if connection is None:
            return self._on_own_connection(statements)
        return [run(connection, *statement) for statement in statements]

    async def send_async(self, queue: str, rows: Sequence[Row], due: Due, connection: Any) -> list[Id | None]:
        """Raises as `send`."""
        statements = inserts(queue, rows, due)
        check_async(connection)
        return [await run_async(connection, *statement) for statement in statements]

    def _on_own_connection(self, statements: Sequence[Statement]) -> list[Id | None]:
        """All are committed together. Raises WorkerError, PyMySQL's errors."""
        connection = self._own_connection()
        idle, self._own.used = time.monotonic() - self._own.used > _IDLE_SECONDS, time.monotonic()
        alone = len(statements) == 1 and connection.open and not idle
        try:
            if not alone:
                connection.begin()
            ids = [run(connection.driver_connection, *statement) for statement in statements]
            if not alone:
                connection.commit()
        except BaseException as error:
            # A statement that the database refused, such as a duplicate, leaves the connection as it was.
            if not (alone and isinstance(error, pymysql.MySQLError)) or connection_lost(error):
                connection.close()
            raise
        return ids

    def _own_connection(self) -> Connection:
        url = os.environ.get("QUEUEGATE_URL")
        if not url:
            raise WorkerError("give a connection (connection=...), or the address of the proxy in QUEUEGATE_URL")
        # A forked process has its parent's connection, too. It is forgotten, which closes this process's socket and
        # does not end the session: the parent goes on in it.
        key = (url, os.getpid())
        if getattr(self._own, "key", None) != key:
            connect = connection_factory(address_of(url, os.environ), _PROGRAM)
            self._own.key, self._own.connection, self._own.used = key, Connection(connect, _ANSWER_SECONDS), 0.0
        connection: Connection = self._own.connection
        return connection


def check_async(connection: Any) -> None:
    """Refuse a send of asyncio without a connection. Raises WorkerError."""
    if connection is None:
        raise WorkerError("give a connection: connection=..., such as an AsyncSession")


_current: Transport = Database()


def current() -> Transport:
    """The transport of this process."""
    return _current


@contextmanager
def replaced_by(transport: Transport) -> Iterator[None]:
    """Send through another transport meanwhile, in all threads: for tests."""
    global _current
    before, _current = _current, transport
    try:
        yield
    finally:
        _current = before
