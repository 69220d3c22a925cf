"""Connections to the proxy: one that runs statements for any thread, and a function that opens those for streams.

A child of `fork` has copies of its parent's sockets. While it runs, the proxy would not detect that the parent was
killed, and would not give back its messages. So each child closes its copies at once; it reconnects if it needs to.
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

from queuegate_celery.errors import RETRYABLE, Unavailable, to_amqp_error
from queuegate_celery.mysql_client.driver import OWN_SESSION, close_socket, error_number, socket_of
from queuegate_celery.settings import Address, Settings

T = TypeVar("T")
Statement = tuple[str, Sequence[Any]]

KEEPALIVE = "DO 0"
_ATTEMPTS, _PAUSE_SECONDS = 5, 0.02  # after a deadlock or lock timeout, doubled each time: a third of a second in all
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""A peer that vanished without closing is detected after a minute, also by a stream that only waits."""

_open: weakref.WeakSet[Any] = weakref.WeakSet()


def connect(address: Address, settings: Settings) -> Any:
    """A connection of PyMySQL's, in autocommit. Raises AMQP's errors; see errors.to_amqp_error."""
    try:
        connection: Any = pymysql.connect(
            host=address.host,
            port=address.port,
            user=address.user,
            password=address.password,
            database=address.database,
            charset="utf8mb4",
            autocommit=True,
            init_command=OWN_SESSION,
            connect_timeout=max(1, round(address.connect_timeout)),
            read_timeout=settings.socket_timeout,
            write_timeout=settings.socket_timeout,
            program_name="queuegate-celery",
            **({} if address.tls is None else {"ssl": address.tls}),
        )
    except (pymysql.Error, OSError) as error:
        raise to_amqp_error(error, address) from error
    _enable_keepalive(socket_of(connection))
    _open.add(connection)
    return connection


class SqlConnection:
    """Runs one statement at a time, in autocommit, for any thread. Raises AMQP's errors.

    After Unavailable the next statement goes over a new connection: a server that has become read-only may be the old
    one of two. Messages that were fetched over the old connection are given back.
    """

    def __init__(self, address: Address, settings: Settings, sleep: Callable[[float], None] = time.sleep) -> None:
        self.address, self._settings = address, settings
        self._is_stale = False
        self._connection = connect(address, settings)
        self._lock = threading.RLock()
        self._sleep = sleep
        self._last_used = time.monotonic()

    @property
    def open(self) -> bool:
        return bool(self._connection.open)

    def execute(self, sql: str, args: Sequence[Any] | None = None) -> int:
        """How many rows the statement changed."""
        return self._run(lambda cursor: int(cursor.execute(sql, args)))

    def rows(self, sql: str, args: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """All rows of a result; for results of bounded size."""

        def fetched(cursor: Any) -> list[tuple[Any, ...]]:
            cursor.execute(sql, args)
            return list(cursor.fetchall())

        return self._run(fetched)

    def execute_all(self, statements: Sequence[Statement]) -> None:
        """In one transaction if there are several."""
        if len(statements) == 1:
            self.execute(*statements[0])
            return

        def whole(cursor: Any) -> None:
            cursor.execute("START TRANSACTION")  # in sql_mode ORACLE, BEGIN opens a block of statements
            try:
                for sql, args in statements:
                    cursor.execute(sql, args)
                self._connection.commit()
            except BaseException:
                with suppress(pymysql.Error, OSError):
                    self._connection.rollback()
                raise

        self._run(whole)

    def keep_awake(self, idle_seconds: float) -> None:
        """Sends something if nothing was sent for so long."""
        if time.monotonic() - self._last_used >= idle_seconds:
            self.execute(KEEPALIVE)

    def mogrify(self, sql: str, args: Sequence[Any]) -> str:
        """The statement with its values in it."""
        with self._connection.cursor() as cursor:
            return str(cursor.mogrify(sql, tuple(args)))

    def close(self) -> None:
        """Close it with COM_QUIT if it is open."""
        with self._lock:
            if self._connection.open:
                with suppress(pymysql.Error, OSError):
                    self._connection.close()

    def abort(self) -> None:
        """Close it without COM_QUIT; a thread that waits for an answer gets an error."""
        close_socket(self._connection)

    def _run(self, work: Callable[[Any], T]) -> T:
        for attempt in range(_ATTEMPTS):
            try:
                with self._lock:
                    self._renew_stale()
                    with self._connection.cursor() as cursor:
                        self._last_used = time.monotonic()
                        return work(cursor)
            except (pymysql.Error, OSError) as error:
                if error_number(error) not in RETRYABLE:
                    raised = to_amqp_error(error, self.address)
                    self._is_stale = isinstance(raised, Unavailable)
                    raise raised from error
                if attempt == _ATTEMPTS - 1:
                    raise to_amqp_error(error, self.address) from error
                self._sleep(_PAUSE_SECONDS * 2**attempt * (0.5 + random.random()))
        raise AssertionError("unreachable")

    def _renew_stale(self) -> None:
        if self._is_stale:
            connection, self._is_stale = connect(self.address, self._settings), False
            self.abort()
            self._connection = connection


def _enable_keepalive(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if (option := getattr(socket, name, None)) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def _close_inherited_sockets() -> None:
    for connection in list(_open):
        close_socket(connection)
    _open.clear()


if hasattr(os, "register_at_fork"):  # Windows has none, and no fork
    os.register_at_fork(after_in_child=_close_inherited_sockets)
