"""The sources of messages: a queue, or the topic of broadcasts. Each is a connection that an event loop watches.

A queue is polled with `SELECT ... LIMIT capacity WAIT '30s'`, repeatedly, instead of with one endless stream. An answer
comes as soon as anything is due, so the latency is the same; and
- each poll contains the free prefetch of that moment. The window of a stream is fixed while it is open, but Celery
  changes its prefetch count (autoscale, `pool_grow`, after a reconnect). Reopening the stream would give back the
  messages that its worker is handling;
- a proxy that has vanished is detected, because an answer is due after half a minute.
With `lease = 'connection'` the engine gives back unacked messages as soon as the connection ends, as with a stream. So
a connection that does not poll, because its worker has enough messages, is kept awake: a server closes silent ones.

Broadcasts need no prefetch and no leases. They are one endless stream; its reader in the proxy also handles ids that
become visible late.
"""

from __future__ import annotations

import logging
import os
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import pymysql
from amqp.exceptions import ChannelError, RecoverableConnectionError
from pymysql.constants.COMMAND import COM_QUERY

from queuegate_celery.connection import KEEPALIVE, SqlConnection, connect
from queuegate_celery.errors import KILLED, LOCK_WAIT, NO_TABLE, RETRY_SECONDS, Unavailable, to_amqp_error
from queuegate_celery.messages import COLUMNS
from queuegate_celery.mysql_client.answers import AnswerReader
from queuegate_celery.mysql_client.driver import close_socket, escaped, quoted, socket_of
from queuegate_celery.mysql_client.packets import HEADER_BYTES, MalformedAnswer, Row, parse_error
from queuegate_celery.settings import Address, Settings

logger = logging.getLogger(__name__)

POLL_LIMIT_MAX = 1000
"""Limit of one poll if Kombu sets no prefetch count: more than a proxy delivers at once, and a bound for memory."""

BROADCASTS = "queuegate_celery_broadcasts"
_WAIT_SECONDS = 30
_OVERDUE_SECONDS = 20.0  # more than the delay of a busy proxy
_STOP_SECONDS = 5.0
_KILL_AGAIN_SECONDS = 0.5
_READ_BYTES, _TURN_BYTES = 65_536, 4_194_304  # of one recv, and of one turn: the loop has other sockets, too
_PREFETCH_MAX = 1_000_000  # the proxy's maximum; the real limit is LIMIT
_BRINGS_NOTHING = frozenset({KILLED, LOCK_WAIT})  # errors after which the poll is repeated at once
_FIELDS = ", ".join(("id", "epoch", *COLUMNS))
_TOPIC_FIELDS = ", ".join(("id", *COLUMNS))


def _fields(has_tokens: bool) -> str:
    return f"{_FIELDS}, lease_token" if has_tokens else _FIELDS


def receiver() -> str:
    """This process's name in SHOW SUBSCRIPTIONS."""
    return f"{socket.gethostname()[:40]} {os.getpid()}"


def readable(sources: Iterable[Any], seconds: float | None) -> list[Any]:
    """The sources that become readable, or end, within that time. None: no timeout."""
    with selectors.DefaultSelector() as selector:
        for source in sources:
            selector.register(source, selectors.EVENT_READ)
        return [key.fileobj for key, _ in selector.select(seconds)]


class _PollConnection:
    """A connection on which one answer is read without blocking, by one thread at a time."""

    def __init__(self, address: Address, settings: Settings) -> None:
        self._address, self._settings = address, settings
        self._connection: Any = connect(address, settings)
        self.id = int(self._connection.thread_id())
        self._sock.setblocking(False)
        self._answer: AnswerReader | None = None
        self._lock = threading.RLock()
        self._used_at = time.monotonic()
        self._failing_since: float | None = None
        self.sent_at = 0.0
        self.retry_at = 0.0

    @property
    def _sock(self) -> Any:
        sock = socket_of(self._connection)
        if sock is None:
            raise RecoverableConnectionError(f"the connection to {self._address.shown} is closed")
        return sock

    @property
    def busy(self) -> bool:
        """Whether an answer is pending."""
        return self._answer is not None

    def fileno(self) -> int:
        return int(self._sock.fileno())

    def keep_awake(self, idle_seconds: float) -> None:
        """Sends something if nothing has been sent or received for so long; its answer, without rows, is read later."""
        with self._lock:
            if not self.busy and time.monotonic() - self._used_at >= idle_seconds:
                self._send(KEEPALIVE, rows_only=False)

    def send(self, sql: str) -> None:
        """Sends a query; the answer is read later."""
        with self._lock:
            self._send(sql, rows_only=True)

    def _send(self, sql: str, *, rows_only: bool) -> None:
        assert self._answer is None
        command = bytes([COM_QUERY]) + sql.encode()
        self._sock.settimeout(self._settings.socket_timeout)
        try:
            self._sock.sendall(len(command).to_bytes(3, "little") + b"\0" + command)
        except OSError as error:
            raise to_amqp_error(error, self._address) from error
        finally:
            self._sock.setblocking(False)
        self._answer, self.sent_at = AnswerReader(rows_only=rows_only), time.monotonic()

    def read(self) -> list[Row]:
        """The rows available now. Raises AMQP's errors. An answer that KILL QUERY ended, or that failed because the
        database is unavailable, counts as ended without an error."""
        with self._lock:
            return self._read()

    def _read(self) -> list[Row]:
        answer, received = self._answer, 0
        while received < _TURN_BYTES or self._pending():
            try:
                data = self._sock.recv(_READ_BYTES)
            except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                break
            except OSError as error:
                raise to_amqp_error(error, self._address) from error
            if not data:
                raise RecoverableConnectionError(f"{self._address.shown} has closed the connection")
            if answer is None:
                number, text, _ = parse_error(data[HEADER_BYTES:])
                raise RecoverableConnectionError(f"{self._address.shown} ends the connection: error {number}: {text}")
            received += len(data)
            if answer.done:
                continue  # the server ends the connection, which the next read brings
            try:
                answer.feed(data)
            except MalformedAnswer as error:
                if not answer.done:
                    raise RecoverableConnectionError(f"{self._address.shown} answers with {error}") from error
        return self._take_rows(answer)

    def _pending(self) -> bool:
        """Whether TLS has buffered data, which an event loop cannot see."""
        return isinstance(self._sock, ssl.SSLSocket) and self._sock.pending() > 0

    def _take_rows(self, answer: AnswerReader | None) -> list[Row]:
        if answer is None:
            return []
        if answer.done:
            self._answer, self._used_at = None, time.monotonic()
            if answer.error is None:
                self._failing_since = None
            else:
                self._failed(*parse_error(answer.error)[:2])
        return answer.take_rows()

    def _failed(self, number: int, text: str) -> None:
        """Returns if the statement may be sent again, at `retry_at`."""
        if number in _BRINGS_NOTHING:
            return
        error, now = to_amqp_error(pymysql.OperationalError(number, text), self._address), time.monotonic()
        if number == NO_TABLE:  # dropped: it is created again when it is declared again, by the next connection
            raise RecoverableConnectionError(str(error))
        if not isinstance(error, Unavailable):
            raise error
        if self._failing_since is None:
            logger.warning("a poll is sent again each second: %s", error)
            self._failing_since = now
        if now - self._failing_since > self._settings.lease_seconds:  # leases have ended; another server may be well
            raise RecoverableConnectionError(str(error))
        self.retry_at = now + RETRY_SECONDS

    @property
    def has_columns(self) -> bool:
        return self._answer is None or self._answer.has_columns

    def read_until(self, done: Callable[[], bool], seconds: float) -> list[Row]:
        """Reads until `done` is true, or until the timeout; blocking."""
        rows, deadline = self.read(), time.monotonic() + seconds
        while not done() and (left := deadline - time.monotonic()) > 0:
            readable([self], left)
            rows += self.read()
        return rows

    def wait(self, until: Callable[[], bool], seconds: float) -> list[Row]:
        """Reads until `until` is true; blocking. Raises TimeoutError."""
        rows = self.read_until(until, seconds)
        if not until():
            raise TimeoutError(f"{self._address.shown} has not answered within {seconds:g} s")
        return rows

    def close(self) -> None:
        """The proxy gives back the messages that this connection has leased."""
        close_socket(self._connection)


class QueueSource:
    """One queue's messages, as many as the prefetch allows."""

    def __init__(
        self, db: SqlConnection, address: Address, settings: Settings, table: str, *, has_tokens: bool
    ) -> None:
        self.table = table
        self._connection = _PollConnection(address, settings)
        self._head = f"SELECT {_fields(has_tokens)} FROM STREAM {quoted(table)} LIMIT "
        self._tail = db.mogrify(
            f" WAIT {_WAIT_SECONDS} WITH (lease = 'connection', prefetch = {_PREFETCH_MAX}, "
            f"ack_wait = {settings.lease_seconds}, consumer = %s)",
            (receiver(),),
        )
        self.stopped = False

    @staticmethod
    def fetch(db: SqlConnection, settings: Settings, table: str, *, has_tokens: bool) -> Row | None:
        """One message that is due now, over the connection for statements; its lease ends with that connection."""
        rows = db.rows(
            f"SELECT {_fields(has_tokens)} FROM STREAM {escaped(table)} LIMIT 1 NOWAIT WITH (lease = 'connection', "
            f"prefetch = {_PREFETCH_MAX}, ack_wait = {settings.lease_seconds}, consumer = %s)",
            (receiver(),),
        )
        return (
            tuple(value if value is None or isinstance(value, bytes) else str(value).encode() for value in rows[0])
            if rows
            else None
        )

    def fileno(self) -> int:
        return self._connection.fileno()

    def poll(self, capacity: int) -> None:
        """Polls, if no poll is pending and `capacity` is not 0. Raises AMQP's errors."""
        if self._connection.busy:
            if time.monotonic() > self._connection.sent_at + _WAIT_SECONDS + _OVERDUE_SECONDS:
                raise RecoverableConnectionError(f"no answer about queue {self.table!r}: its proxy is gone")
        elif capacity > 0 and not self.stopped and time.monotonic() >= self._connection.retry_at:
            self._connection.send(f"{self._head}{min(capacity, POLL_LIMIT_MAX)}{self._tail}")

    def read(self) -> list[Row]:
        """The rows received, without waiting."""
        return self._connection.read()

    def keep_awake(self, idle_seconds: float) -> None:
        """Keeps the connection, which owns leases, from being closed as idle. Raises AMQP's errors."""
        self._connection.keep_awake(idle_seconds)

    def stop(self, db: SqlConnection) -> list[Row]:
        """Polls no more; returns the rows received meanwhile. Leases stay until `close`."""
        self.stopped = True
        if not self._connection.busy:
            return []
        rows: list[Row] = []
        deadline = time.monotonic() + _STOP_SECONDS
        try:
            while self._connection.busy:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"queue {self.table!r} has not answered within {_STOP_SECONDS:g} s")
                # Repeatedly: a KILL that overtakes its statement, on the other connection, has no effect.
                db.execute(f"KILL QUERY {self._connection.id}")
                rows += self._connection.read_until(lambda: not self._connection.busy, min(_KILL_AGAIN_SECONDS, left))
        except (ChannelError, RecoverableConnectionError):
            pass  # it has ended already, for example because its queue was dropped
        return rows

    def close(self) -> None:
        self._connection.close()


class BroadcastSource:
    """What is published to one exchange from now on."""

    def __init__(self, db: SqlConnection, address: Address, settings: Settings, exchange: str) -> None:
        self._connection = _PollConnection(address, settings)
        self._connection.send(
            db.mogrify(
                f"SELECT {_TOPIC_FIELDS} FROM STREAM {quoted(BROADCASTS)} WHERE exchange = %s "
                "WITH (mode = 'broadcast', start = 'latest', consumer = %s)",
                (exchange, receiver()),
            )
        )
        # The columns come when the start position is fixed: what is published after this has returned is not missed.
        self._early = self._connection.wait(lambda: self._connection.has_columns, settings.socket_timeout)

    def fileno(self) -> int:
        return self._connection.fileno()

    def read(self) -> list[Row]:
        rows, self._early = self._early + self._connection.read(), []
        if not self._connection.busy:
            raise RecoverableConnectionError("the stream of broadcasts has ended")
        return [(row[0], b"1", *row[1:]) for row in rows]  # attempt 1: rows of queues have an attempt there

    def close(self) -> None:
        self._connection.close()
