"""Where messages come from: a queue, or the topic of broadcasts. Each is a connection that an event loop watches.

A queue is asked by `SELECT ... LIMIT room WAIT '30s'`, again and again, and not by one stream without an end. An answer
comes as soon as anything is due, so a message is as fast here as there; and
- each question says how much room there is now. The window of a stream is fixed while it is open, and Celery moves its
  prefetch count (autoscale, `pool_grow`, after a reconnect). To open the stream anew would give back what its worker
  is working on;
- a proxy that has vanished is noticed, because an answer is due after half a minute.
`lease = 'connection'` has the engine give back what is not acked as soon as the connection ends, as with a stream.

Broadcasts need no room and no leases. They are one stream without an end, whose reader in the proxy also sees to ids
that become visible late.
"""

from __future__ import annotations

import os
import selectors
import socket
import ssl
import time
from collections.abc import Callable, Iterable
from typing import Any

import pymysql
from amqp.exceptions import ChannelError, RecoverableConnectionError
from pymysql.constants.COMMAND import COM_QUERY

from queuegate_celery.answers import Answer, Malformed, Row
from queuegate_celery.errors import KILLED, LOCK_WAIT, told
from queuegate_celery.line import Line, abandon, connect
from queuegate_celery.messages import COLUMNS
from queuegate_celery.settings import Address, Settings
from queuegate_celery.sql import placed, quoted

ROOM_MAX = 1000
"""Of one question, where Kombu sets no prefetch count: more than a proxy hands out at once, and a bound for memory."""

BROADCASTS = "queuegate_celery_broadcasts"
_WAIT_SECONDS = 30
_OVERDUE_SECONDS = 20.0  # after that an answer is late by more than a busy proxy makes it
_STOP_SECONDS = 5.0
_KILL_AGAIN_SECONDS = 0.5
_READ_BYTES, _TURN_BYTES = 65_536, 4_194_304  # of one recv, and of one turn: other sockets of the loop want theirs, too
_PREFETCH_MAX = 1_000_000  # what the proxy takes; the room is counted here, by LIMIT
_BRINGS_NOTHING = frozenset({KILLED, LOCK_WAIT})  # errors of an answer after which one may ask again
_FIELDS = ", ".join(("id", "epoch", *COLUMNS))
_TOPIC_FIELDS = ", ".join(("id", *COLUMNS))


def _fields(has_tokens: bool) -> str:
    return f"{_FIELDS}, lease_token" if has_tokens else _FIELDS


def receiver() -> str:
    """The name under which the proxy shows us."""
    return f"{socket.gethostname()[:40]} {os.getpid()}"


def readable(sources: Iterable[Any], seconds: float | None) -> list[Any]:
    """Those that can be read, or have ended, within that time. None waits for as long as it takes."""
    with selectors.DefaultSelector() as selector:
        for source in sources:
            selector.register(source, selectors.EVENT_READ)
        return [key.fileobj for key, _ in selector.select(seconds)]


class _Pull:
    """A connection on which one answer is read as it comes."""

    def __init__(self, address: Address, settings: Settings) -> None:
        self._address, self._settings = address, settings
        self._connection: Any = connect(address, settings)
        self.id = int(self._connection.thread_id())
        self._sock.setblocking(False)
        self._answer: Answer | None = None
        self.asked_at = 0.0

    @property
    def _sock(self) -> Any:
        if self._connection._sock is None:
            raise RecoverableConnectionError(f"the connection to {self._address.shown} is closed")
        return self._connection._sock

    @property
    def busy(self) -> bool:
        """Whether an answer is awaited."""
        return self._answer is not None

    def fileno(self) -> int:
        return int(self._sock.fileno())

    def ask(self, sql: str) -> None:
        """Sends a statement; the answer is read by and by."""
        assert self._answer is None
        command = bytes([COM_QUERY]) + sql.encode()
        self._sock.settimeout(self._settings.socket_timeout)
        try:
            self._sock.sendall(len(command).to_bytes(3, "little") + b"\0" + command)
        except OSError as error:
            raise told(error, self._address) from error
        finally:
            self._sock.setblocking(False)
        self._answer, self.asked_at = Answer(), time.monotonic()

    def read(self) -> list[Row]:
        """The rows that are there. Raises AMQP's errors; an answer that KILL QUERY ended, or that met a table which
        another session holds locked, has just ended."""
        answer, taken = self._answer, 0
        while taken < _TURN_BYTES or self._pending():
            try:
                data = self._sock.recv(_READ_BYTES)
            except (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                break
            except OSError as error:
                raise told(error, self._address) from error
            if not data:
                raise RecoverableConnectionError(f"{self._address.shown} has closed the connection")
            if answer is None:
                raise RecoverableConnectionError(f"{self._address.shown} ends the connection: {data[4:]!r}")
            taken += len(data)
            try:
                answer.feed(data)
            except Malformed as error:
                raise RecoverableConnectionError(f"{self._address.shown} answers with {error}") from error
        return self._taken(answer)

    def _pending(self) -> bool:
        """Whether TLS has more than the kernel tells an event loop of."""
        return isinstance(self._sock, ssl.SSLSocket) and self._sock.pending() > 0

    def _taken(self, answer: Answer | None) -> list[Row]:
        if answer is None:
            return []
        if answer.done:
            self._answer = None
            if answer.error is not None and answer.error[0] not in _BRINGS_NOTHING:
                raise told(pymysql.OperationalError(*answer.error), self._address)
        return answer.take()

    @property
    def described(self) -> bool:
        return self._answer is None or self._answer.described

    def read_until(self, so: Callable[[], bool], seconds: float) -> list[Row]:
        """Reads until that is so, or until that time is over, blocking."""
        rows, deadline = self.read(), time.monotonic() + seconds
        while not so() and (left := deadline - time.monotonic()) > 0:
            readable([self], left)
            rows += self.read()
        return rows

    def wait(self, until: Callable[[], bool], seconds: float) -> list[Row]:
        """Reads until that is so, blocking. Raises TimeoutError."""
        rows = self.read_until(until, seconds)
        if not until():
            raise TimeoutError(f"{self._address.shown} has not answered within {seconds:g} s")
        return rows

    def close(self) -> None:
        """The proxy gives back what this connection held."""
        abandon(self._connection)


class QueueSource:
    """One queue's messages, as many as there is room for."""

    def __init__(self, line: Line, address: Address, settings: Settings, table: str, *, has_tokens: bool) -> None:
        self.table = table
        self._pull = _Pull(address, settings)
        self._head = f"SELECT {_fields(has_tokens)} FROM STREAM {quoted(table)} LIMIT "
        self._tail = line.mogrify(
            f" WAIT {_WAIT_SECONDS} WITH (lease = 'connection', prefetch = {_PREFETCH_MAX}, "
            f"ack_wait = {settings.lease_seconds}, consumer = %s)",
            (receiver(),),
        )
        self.stopped = False

    @staticmethod
    def fetch(line: Line, settings: Settings, table: str, *, has_tokens: bool) -> Row | None:
        """One message that is due now, over the line that statements take; it is held until that line ends."""
        rows = line.rows(
            f"SELECT {_fields(has_tokens)} FROM STREAM {placed(table)} LIMIT 1 NOWAIT WITH (lease = 'connection', "
            f"prefetch = {_PREFETCH_MAX}, ack_wait = {settings.lease_seconds}, consumer = %s)",
            (receiver(),),
        )
        return (
            [None if value is None else value if isinstance(value, bytes) else str(value).encode() for value in rows[0]]
            if rows
            else None
        )

    def fileno(self) -> int:
        return self._pull.fileno()

    def ask(self, room: int) -> None:
        """Asks, where nothing is asked yet and there is room. Raises AMQP's errors."""
        if self._pull.busy:
            if time.monotonic() > self._pull.asked_at + _WAIT_SECONDS + _OVERDUE_SECONDS:
                raise RecoverableConnectionError(f"no answer about queue {self.table!r}: its proxy is gone")
        elif room > 0 and not self.stopped:
            self._pull.ask(f"{self._head}{min(room, ROOM_MAX)}{self._tail}")

    def read(self) -> list[Row]:
        """What has come, without waiting."""
        return self._pull.read()

    def stop(self, line: Line) -> list[Row]:
        """Asks no more; what came in the meantime. What is held stays held until `close`."""
        self.stopped = True
        if not self._pull.busy:
            return []
        rows: list[Row] = []
        deadline = time.monotonic() + _STOP_SECONDS
        try:
            while self._pull.busy:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"queue {self.table!r} has not answered within {_STOP_SECONDS:g} s")
                # Again and again: a KILL that overtakes its statement, on the other connection, ends nothing.
                line.execute(f"KILL QUERY {self._pull.id}")
                rows += self._pull.read_until(lambda: not self._pull.busy, min(_KILL_AGAIN_SECONDS, left))
        except ChannelError:
            pass  # it has ended by itself: its queue is gone
        return rows

    def close(self) -> None:
        self._pull.close()


class BroadcastSource:
    """What is published to one exchange from now on."""

    def __init__(self, line: Line, address: Address, settings: Settings, exchange: str) -> None:
        self._pull = _Pull(address, settings)
        self._pull.ask(
            line.mogrify(
                f"SELECT {_TOPIC_FIELDS} FROM STREAM {quoted(BROADCASTS)} WHERE exchange = %s "
                "WITH (mode = 'broadcast', start = 'latest', consumer = %s)",
                (exchange, receiver()),
            )
        )
        # The columns come when the place is fixed: what is published after this has returned is not missed.
        self._early = self._pull.wait(lambda: self._pull.described, settings.socket_timeout)

    def fileno(self) -> int:
        return self._pull.fileno()

    def read(self) -> list[Row]:
        rows, self._early = self._early + self._pull.read(), []
        if not self._pull.busy:
            raise RecoverableConnectionError("the stream of broadcasts has ended")
        return [[row[0], b"1", *row[1:]] for row in rows]  # an attempt, as rows of queues have it

    def close(self) -> None:
        self._pull.close()
