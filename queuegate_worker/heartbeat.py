"""The heartbeat: renews the leases of messages whose handlers run long, and detects lost leases.

A lease is renewed after a third of its length, and checked twice as often. So a handler that is quicker causes no
RENEW, and one failed attempt to renew still leaves half of the lease.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence

import pymysql

from queuegate_worker.connection import Connection
from queuegate_worker.errors import error_number
from queuegate_worker.message import Message
from queuegate_worker.statements import Statements

logger = logging.getLogger("queuegate_worker")

_BEATS_PER_LEASE = 6
_RENEWED_AT = 1 / 3


class Heartbeat:
    """`lease_seconds`: how long a lease is, and is renewed for. `clock`: monotonic seconds."""

    def __init__(
        self,
        connection: Connection,
        statements: Statements,
        in_flight: InFlight,
        lease_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self._connection, self._statements, self._in_flight = connection, statements, in_flight
        self._lease_seconds, self._clock = lease_seconds, clock
        self._wake = threading.Event()
        self._ended = False

    def run(self) -> None:
        """Beat until `end`."""
        while not self._ended:
            self._wake.wait(self._lease_seconds / _BEATS_PER_LEASE)
            at_once = self._wake.is_set()
            self._wake.clear()
            if not self._ended:
                self.beat(at_once=at_once)
        self._connection.close()

    def at_once(self) -> None:
        """Renew everything now: the proxy was unreachable, and messages may have been delivered to others."""
        self._wake.set()

    def end(self) -> None:
        """Have `run` return."""
        self._ended = True
        self._wake.set()

    def beat(self, *, at_once: bool = False) -> None:
        """Renew what is due. What cannot be renewed for now is tried at the next beat."""
        now = self._clock()
        due = self._in_flight.due(now if at_once else now - self._lease_seconds * _RENEWED_AT)
        by_delivery: dict[tuple[str, int], list[Message]] = {}
        for message in due:
            by_delivery.setdefault(message.delivery, []).append(message)
        try:
            for messages in by_delivery.values():
                self._renew(messages, now)
        except (pymysql.MySQLError, OSError) as error:
            logger.warning("leases could not be renewed, and are tried again: %s (%d)", error, error_number(error))

    def _renew(self, messages: Sequence[Message], now: float) -> None:
        """All at once; if some are gone, one by one, to find out which."""
        renewed = sum(self._connection.execute(*each) for each in self._statements.renew(messages, self._lease_seconds))
        if renewed == len(messages):
            for message in messages:
                message.lease.since = now
        elif len(messages) > 1:
            for message in messages:
                self._renew([message], now)
        elif messages[0] in self._in_flight and messages[0].lease.mark_lost():  # otherwise its ack came first
            logger.warning("the lease of message %r of %s is lost", messages[0].id, messages[0].queue)


# The messages in flight: received and not settled. The heartbeat renews their leases. Used by all threads.


class InFlight:
    """Messages from their receipt until they are settled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._messages: dict[int, Message] = {}

    def add(self, messages: Iterable[Message]) -> None:
        """Add received messages."""
        with self._lock:
            self._messages.update((id(message), message) for message in messages)

    def remove(self, messages: Iterable[Message]) -> None:
        """Remove messages that are settled or lost."""
        with self._lock:
            for message in messages:
                self._messages.pop(id(message), None)

    def __contains__(self, message: Message) -> bool:
        with self._lock:
            return id(message) in self._messages

    def __len__(self) -> int:
        with self._lock:
            return len(self._messages)

    def due(self, before: float) -> list[Message]:
        """Those whose lease was last confirmed before that time, without those that are lost or being settled."""
        with self._lock:
            return [m for m in self._messages.values() if m.lease.since < before and not (m.lost or m.lease.settling)]
