"""The receiver: one connection that polls for as many messages as slots are free, and owns their leases meanwhile.

A poll waits in the proxy and is answered when a message is committed, so there is no busy polling. It is bounded by
LIMIT. Where handlers are short, it asks for a few more messages, which wait here for their slot (`Pace`); if no slot
becomes free within a quarter of a second, they are given back, so no message waits behind a long one.

With `lease = 'connection'` the proxy gives back unacked messages as soon as the worker's process is gone. That is why
the connection stays open until the last handler has ended, why it is kept awake while no slot is free (a server closes
a silent one), and why a poll is ended by KILL QUERY, after which the connection is still usable.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

import pymysql

from queuegate_worker.backoff import Backoff
from queuegate_worker.connection import Connection, Row, Unreadable
from queuegate_worker.errors import WorkerError, connection_lost, permanent
from queuegate_worker.hooks import Hooks, notify
from queuegate_worker.message import Lease, Message
from queuegate_worker.shared import Pause, Shared

logger = logging.getLogger("queuegate_worker")

WAIT_SECONDS = 30.0
"""How long one poll waits. Longer saves little; a connection that died silently is detected after it."""

_REASON_CHARACTERS = 1000  # the limit of the queue
_AHEAD_WAITS_SECONDS = 0.25  # a message that was received ahead, for a slot
_AWAKE_SECONDS = 20.0  # the longest silence of the connection; less where the server waits less than three times that
_FIRST_AWAKE_SECONDS = 0.5  # until the server has said how long it waits
_KEEPALIVE = "SHOW SESSION VARIABLES LIKE 'wait_timeout'"
_EARLY_PAUSE_SECONDS = 0.1  # after a poll that ended early without messages, to avoid a busy loop

Batch = Sequence[Message]


class Receiver:
    """`dispatch` gives a batch to a slot. `on_reconnect`: the proxy was unreachable and answers again."""

    def __init__(
        self,
        connection: Connection,
        shared: Shared,
        columns: Sequence[str],
        *,
        batch: int,
        drain: bool,
        dispatch: Callable[[Batch], None],
        on_reconnect: Callable[[], None],
    ) -> None:
        self._connection, self._shared, self._columns = connection, shared, columns
        self._batch, self._drain, self._dispatch = batch, drain, dispatch
        self._on_reconnect = on_reconnect
        self._backoff = Backoff(drain=drain)
        self._failing = False
        statements = shared.statements
        self._system_columns = ("id", "epoch", "lease_token") if statements.has_tokens else ("id", "epoch")
        some = Message(statements.queue, 0, 0, lease_token=int(statements.has_tokens))
        self._ack_sql = next(statements.ack([some]))[0]
        self._stopping = False
        self.awake_seconds = _FIRST_AWAKE_SECONDS
        self.polling_id: int | None = None

    def run(self) -> None:
        """Receive until `stop`; draining, until nothing is due and nothing is being handled. Raises WorkerError."""
        while (free := self._free_slots()) and not self._stopping:
            idle = self._shared.free_slots.idle
            messages = self._received(free * self._batch + self._shared.pace.ahead)
            if messages is None:
                continue
            if self._stopping:
                self._release(messages)
            elif messages:
                self._begin(messages)
            elif self._drain:
                if idle:
                    return
                if not self._shared.free_slots.wait_progress(free, self.awake_seconds):
                    self.keep_awake()

    def _free_slots(self) -> int:
        """The free slots, as soon as there is one; 0 after `stop`."""
        while not (free := self._shared.free_slots.wait(self._silent_seconds)) and not self._stopping:
            self.keep_awake()
        return free

    @property
    def _silent_seconds(self) -> float:
        """How long to wait for a slot: after a failure no longer than its pause."""
        return 0.0 if self._failing else self.awake_seconds

    def keep_awake(self) -> None:
        """Say something on the connection, and learn how long it may be silent: `awake_seconds`. One that is lost is
        replaced: handlers may be long, and their leases are to be looked at."""
        try:
            if self._failing and not self._stopping:
                self._recover()
            if self._connection.open and (rows := self._connection.rows(_KEEPALIVE)):
                self.awake_seconds = min(float(rows[0]["Value"]) / 3, _AWAKE_SECONDS)
        except (pymysql.MySQLError, OSError) as error:
            self._failed(error)

    def stop(self) -> None:
        """Start nothing more. A waiting poll has to be killed in addition: its connection's id is `polling_id`."""
        self._stopping = True
        self._shared.free_slots.close()

    def _received(self, limit: int) -> list[Message] | None:
        """The messages of one poll; None if it failed for now, or none of them can be handled."""
        began = self._shared.clock()
        wait = 0.0 if self._drain else WAIT_SECONDS
        try:
            self.polling_id = self._connection.id
            if self._stopping:
                return None
            if self._failing:
                self._recover()
            rows, error = self._connection.read(*self._shared.statements.poll(self._columns, limit, wait))
        except (pymysql.MySQLError, OSError) as failure:
            rows, error = [], failure
        finally:
            self.polling_id = None
        if error is not None and (connection_lost(error) or not rows):
            self._failed(error)
            return None
        self._backoff.succeeded()
        if not rows and not self._drain and self._shared.clock() - began < wait / 2:
            self._shared.pause_receiving(_EARLY_PAUSE_SECONDS)
        messages = [self._message(row, began) for row in rows]
        for message in (message for message in messages if unreadable(message)):
            self._reject_unreadable(message)
        readable = [message for message in messages if not unreadable(message)]
        return readable if readable or not rows else None  # there may be more

    def _failed(self, error: Exception) -> None:
        """Wait before the next attempt. Messages that a lost connection had received are redelivered."""
        if self._stopping:
            return
        if (end := permanent(error, self._shared.statements.queue)) is not None:
            raise end from error
        self._failing = True
        seconds = self._backoff.next_seconds()
        if self._backoff.over:
            raise _lasting(self._shared.statements.queue, error) from error
        logger.warning("receiving failed, again in %.1f s: %s", seconds, error)
        notify(lambda: self._shared.hooks.reconnecting(error, seconds))
        self._shared.pause_receiving(seconds)

    def _recover(self) -> None:
        """A poll is answered only when something is due, so a statement before it tells whether it would be."""
        self._connection.columns(*self._shared.statements.columns)
        self._failing = False
        logger.info("receiving again")
        notify(self._shared.hooks.receiving)
        self._on_reconnect()

    def _message(self, row: Row, began: float) -> Message:
        user_columns = {name: value for name, value in row.items() if name not in self._system_columns}
        token = row["lease_token"] if self._shared.statements.has_tokens else 0
        return Message(
            self._shared.statements.queue, row["id"], row["epoch"], user_columns, Lease(began), self._ack_sql, token
        )

    def _reject_unreadable(self, message: Message) -> None:
        """Reject one unreadable message; the other messages are not affected."""
        reason = unreadable(message)
        logger.error("message %r of %s is set aside: %s", message.id, message.queue, reason)
        if isinstance(message.id, Unreadable):
            return  # no statement can name it; it is redelivered when its lease ends
        try:
            for statement in self._shared.statements.reject([message], reason):
                self._connection.execute(*statement)
        except (pymysql.MySQLError, OSError) as error:
            logger.warning("message %r could not be set aside, and comes again: %s", message.id, error)
            return
        notify(lambda: self._shared.hooks.rejected(message, reason, 0.0))

    def _begin(self, messages: Sequence[Message]) -> None:
        """Hand them to slots, as these become free."""
        self._shared.pace.received(_size(messages[0]))
        self._shared.in_flight.add(messages)
        notify(lambda: self._shared.hooks.received(messages))
        until = self._shared.clock() + _AHEAD_WAITS_SECONDS
        for start in range(0, len(messages), self._batch):
            if not self._shared.free_slots.wait(max(until - self._shared.clock(), 0.0)):
                self._release(messages[start:])
                return
            batch = messages[start : start + self._batch]
            self._shared.free_slots.acquire(batch)
            self._dispatch(batch)

    def _release(self, messages: Sequence[Message]) -> None:
        """Give back messages that no slot takes: the worker stops, or its handlers are long."""
        self._shared.in_flight.remove(messages)
        try:
            for statement in self._shared.statements.release(messages):
                self._connection.execute(*statement)
        except (pymysql.MySQLError, OSError) as error:
            logger.warning("%d messages could not be given back, and come again: %s", len(messages), error)
            return
        for message in messages:
            notify(lambda message=message: self._shared.hooks.released(message))  # type: ignore[misc]


def _size(message: Message) -> int:
    """About how many bytes its texts have."""
    return 100 + sum(len(value) for value in message.columns.values() if isinstance(value, str | bytes))


def unreadable(message: Message) -> str:
    """Why the message cannot be handled: one of its values cannot be read. Empty if all can."""
    for name, value in (("id", message.id), *message.columns.items()):
        if isinstance(value, Unreadable):
            return f"column {name} cannot be read: {value.error}"[:_REASON_CHARACTERS]
    return ""


def columns_to_select(columns: Sequence[str], *, tokens: bool) -> list[str]:
    """The columns of `*`, the epoch, and the lease token if the queue has `tokens`."""
    system = ("epoch", "lease_token") if tokens else ("epoch",)
    return [*columns, *(name for name in system if name not in columns)]


def _lasting(place: str, error: Exception) -> WorkerError:
    return WorkerError(f"{place}: {error} (a worker that drains waits no longer)")


def connect_attempts(
    pause: Pause, hooks: Hooks, place: str, stopped: Callable[[], bool], *, drain: bool
) -> Iterator[Callable[[Exception], None]]:
    """Attempts at a first connection, until the caller succeeds or is stopped. Each yields the function to call on an
    error.

    Raises WorkerError for an error that waiting does not fix, and with `drain` for one that stays.
    """
    backoff = Backoff(drain=drain)

    def failed(error: Exception) -> None:
        if (end := permanent(error, place)) is not None:
            raise end from error
        if not connection_lost(error):
            raise WorkerError(f"{place}: {error}") from error
        seconds = backoff.next_seconds()
        if backoff.over:
            raise _lasting(place, error) from error
        logger.warning("cannot connect to %s, again in %.1f s: %s", place, seconds, error)
        notify(lambda: hooks.reconnecting(error, seconds))
        pause(seconds)

    while not stopped():
        yield failed
