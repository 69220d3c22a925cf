"""Connections to the proxy: one that runs statements for any thread, and the opening of those that streams are read on.

A child of `fork` has copies of its parent's sockets. While it lives, the proxy would not notice that the parent was
killed, and would hold what the parent had. So each child closes its copies at once; it connects anew if it needs to.
"""

from __future__ import annotations

import os
import random
import socket
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import pymysql

from queuegate_celery.errors import AGAIN, number, told
from queuegate_celery.settings import Address, Settings

T = TypeVar("T")
Statement = tuple[str, Sequence[Any]]

_ATTEMPTS, _PAUSE_SECONDS = 5, 0.02  # after a deadlock or lock timeout, doubled each time: a third of a second in all
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""A peer that vanished without a word is noticed after a minute, also by a stream that only waits."""

_open: weakref.WeakSet[Any] = weakref.WeakSet()


def connect(address: Address, settings: Settings) -> Any:
    """A connection of PyMySQL's, in autocommit. Raises AMQP's errors, as errors.told says."""
    try:
        connection: Any = pymysql.connect(
            host=address.host,
            port=address.port,
            user=address.user,
            password=address.password,
            database=address.database,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=max(1, round(address.connect_timeout)),
            read_timeout=settings.socket_timeout,
            write_timeout=settings.socket_timeout,
            program_name="queuegate-celery",
            **({} if address.tls is None else {"ssl": address.tls}),
        )
    except (pymysql.Error, OSError) as error:
        raise told(error, address) from error
    _keep_alive(connection._sock)
    _open.add(connection)
    return connection


def abandon(connection: Any) -> None:
    """Close the socket without a word to the proxy. Never raises, and never waits."""
    sock, connection._sock, connection._rfile = connection._sock, None, None
    if sock is not None:
        with suppress(OSError):
            sock.close()


class Line:
    """Runs one statement at a time, in autocommit, from whichever thread asks. Raises AMQP's errors."""

    def __init__(self, address: Address, settings: Settings, sleep: Callable[[float], None] = time.sleep) -> None:
        self.address = address
        self._connection = connect(address, settings)
        self._lock = threading.RLock()
        self._sleep = sleep
        self.used_at = time.monotonic()

    @property
    def open(self) -> bool:
        return bool(self._connection.open)

    def execute(self, sql: str, args: Sequence[Any] | None = None) -> int:
        """How many rows the statement changed."""
        return self._run(lambda cursor: int(cursor.execute(sql, args)))

    def rows(self, sql: str, args: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """All rows of a result, which is bounded."""

        def fetched(cursor: Any) -> list[tuple[Any, ...]]:
            cursor.execute(sql, args)
            return list(cursor.fetchall())

        return self._run(fetched)

    def together(self, statements: Sequence[Statement]) -> None:
        """In one transaction, where there are several."""
        if len(statements) == 1:
            self.execute(*statements[0])
            return

        def whole(cursor: Any) -> None:
            self._connection.begin()
            try:
                for sql, args in statements:
                    cursor.execute(sql, args)
                self._connection.commit()
            except BaseException:
                with suppress(pymysql.Error, OSError):
                    self._connection.rollback()
                raise

        self._run(whole)

    def mogrify(self, sql: str, args: Sequence[Any]) -> str:
        """The statement with its values in it."""
        with self._connection.cursor() as cursor:
            return str(cursor.mogrify(sql, tuple(args)))

    def close(self) -> None:
        """In order, where the proxy still listens."""
        with self._lock:
            if self._connection.open:
                with suppress(pymysql.Error, OSError):
                    self._connection.close()

    def abandon(self) -> None:
        """See above; whoever waits for an answer gets an error."""
        abandon(self._connection)

    def _run(self, work: Callable[[Any], T]) -> T:
        for attempt in range(_ATTEMPTS):
            try:
                with self._lock, self._connection.cursor() as cursor:
                    self.used_at = time.monotonic()
                    return work(cursor)
            except (pymysql.Error, OSError) as error:
                if number(error) not in AGAIN or attempt == _ATTEMPTS - 1:
                    raise told(error, self.address) from error
                self._sleep(_PAUSE_SECONDS * 2**attempt * (0.5 + random.random()))
        raise AssertionError("unreachable")


def _keep_alive(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if (option := getattr(socket, name, None)) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def _leave_the_parents_lines() -> None:
    for connection in list(_open):
        abandon(connection)
    _open.clear()


if hasattr(os, "register_at_fork"):  # Windows has none, and no fork
    os.register_at_fork(after_in_child=_leave_the_parents_lines)
