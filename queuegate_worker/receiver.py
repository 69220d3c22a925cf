"""The receiver: one line that polls for as many messages as slots are free, and holds their leases meanwhile.

A poll waits in the proxy and is answered as a message is committed, so nothing is asked again and again. It is bounded
(LIMIT), so a worker never holds a message that waits behind another. `lease = 'connection'` has the proxy give back
what is unacked as soon as the worker's process is gone. That is why the line stays open until the last handler has
ended, and why a poll is ended by KILL QUERY, after which the connection goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

import pymysql

from queuegate_worker.backoff import Backoff
from queuegate_worker.errors import WorkerError, line_is_lost, permanent
from queuegate_worker.held import Held
from queuegate_worker.hooks import Hooks, told
from queuegate_worker.line import Line, Row, Unreadable
from queuegate_worker.message import Lease, Message
from queuegate_worker.room import Room
from queuegate_worker.statements import Statements

logger = logging.getLogger("queuegate_worker")

WAIT_SECONDS = 30.0
"""How long one poll waits. Longer saves little; a line that died silently is noticed after it."""

_REASON_CHARACTERS = 1000  # what a queue keeps
_EARLY_PAUSE_SECONDS = 0.1  # after a poll that ended early with nothing, so that no cause of that is a busy loop

Batch = Sequence[Message]


class Receiver:
    """`hand_over` gives a batch to a slot. `pause` waits for seconds, or less where the worker stops. `away`: the proxy
    was, and is back."""

    def __init__(
        self,
        line: Line,
        statements: Statements,
        columns: Sequence[str],
        room: Room,
        held: Held,
        hooks: Hooks,
        *,
        batch: int,
        drain: bool,
        hand_over: Callable[[Batch], None],
        clock: Callable[[], float],
        pause: Callable[[float], object],
        away: Callable[[], None],
    ) -> None:
        self._line, self._statements, self._columns = line, statements, columns
        self._room, self._held, self._hooks = room, held, hooks
        self._batch, self._drain, self._hand_over = batch, drain, hand_over
        self._clock, self._pause, self._away = clock, pause, away
        self._backoff = Backoff()
        self._failing = False
        self._own = ("id", "epoch", "lease_token") if statements.has_tokens else ("id", "epoch")
        some = Message(statements.queue, 0, 0, lease_token=int(statements.has_tokens))
        self._ack_text = next(statements.ack([some]))[0]
        self._stopping = False
        self.polling: int | None = None

    def run(self) -> None:
        """Receive until `stop`; draining, until nothing is due and nothing is being handled. Raises WorkerError."""
        while (free := self._room.wait()) and not self._stopping:
            idle = self._room.idle
            found = self._received(free * self._batch)
            if found is None:
                continue
            if self._stopping:
                self._give_back(found)
            elif found:
                self._begin(found)
            elif self._drain:
                if idle:
                    return
                self._room.wait(free + 1)

    def stop(self) -> None:
        """Begin with nothing more. A poll that waits has to be killed besides: its connection is `polling`."""
        self._stopping = True
        self._room.close()

    def _received(self, limit: int) -> list[Message] | None:
        """The messages of one poll; None where it failed for now, or brought none that can be handled."""
        began = self._clock()
        wait = 0.0 if self._drain else WAIT_SECONDS
        try:
            self.polling = self._line.id
            if self._stopping:
                return None
            rows, error = self._line.read(*self._statements.poll(self._columns, limit, wait))
        except (pymysql.MySQLError, OSError) as failure:
            rows, error = [], failure
        finally:
            self.polling = None
        if error is not None and (line_is_lost(error) or not rows):
            self._failed(error)
            return None
        if self._failing:
            self._recovered()
        if not rows and not self._drain and self._clock() - began < wait / 2:
            self._pause(_EARLY_PAUSE_SECONDS)
        messages = [self._message(row, began) for row in rows]
        for message in (message for message in messages if unreadable(message)):
            self._set_aside(message)
        readable = [message for message in messages if not unreadable(message)]
        return readable if readable or not rows else None  # there may be more

    def _failed(self, error: Exception) -> None:
        """Wait before the next attempt. What a lost line had read already comes again."""
        if self._stopping:
            return
        if (end := permanent(error, self._statements.queue)) is not None:
            raise end from error
        self._failing = True
        seconds = self._backoff.next_seconds()
        logger.warning("receiving failed, again in %.1f s: %s", seconds, error)
        told(lambda: self._hooks.reconnecting(error, seconds))
        self._pause(seconds)

    def _recovered(self) -> None:
        self._failing = False
        self._backoff.succeeded()
        logger.info("receiving again")
        self._away()

    def _message(self, row: Row, began: float) -> Message:
        shown = {name: value for name, value in row.items() if name not in self._own}
        token = row["lease_token"] if self._statements.has_tokens else 0
        return Message(self._statements.queue, row["id"], row["epoch"], shown, Lease(began), self._ack_text, token)

    def _set_aside(self, message: Message) -> None:
        """A message that no handler can be given goes to the dead letters; the others are not its business."""
        reason = unreadable(message)
        logger.error("message %r of %s is set aside: %s", message.id, message.queue, reason)
        if isinstance(message.id, Unreadable):
            return  # no statement can name it; it comes again when its lease ends
        try:
            for statement in self._statements.reject([message], reason):
                self._line.execute(*statement)
        except (pymysql.MySQLError, OSError) as error:
            logger.warning("message %r could not be set aside, and comes again: %s", message.id, error)
            return
        told(lambda: self._hooks.rejected(message, reason, 0.0))

    def _begin(self, messages: Sequence[Message]) -> None:
        self._held.add(messages)
        told(lambda: self._hooks.received(messages))
        for start in range(0, len(messages), self._batch):
            self._room.take()
            self._hand_over(messages[start : start + self._batch])

    def _give_back(self, messages: Sequence[Message]) -> None:
        """What came while the worker was being stopped."""
        try:
            for statement in self._statements.release(messages):
                self._line.execute(*statement)
        except (pymysql.MySQLError, OSError) as error:
            logger.warning("%d messages could not be given back, and come again: %s", len(messages), error)
            return
        for message in messages:
            told(lambda message=message: self._hooks.released(message))  # type: ignore[misc]


def unreadable(message: Message) -> str:
    """Why the message cannot be handled: a value of it cannot be read. Empty where all can."""
    for name, value in (("id", message.id), *message.columns.items()):
        if isinstance(value, Unreadable):
            return f"column {name} cannot be read: {value.error}"[:_REASON_CHARACTERS]
    return ""


def columns_to_ask_for(found: Sequence[str], *, tokens: bool) -> list[str]:
    """What a stream's `*` has, the epoch, and the lease token where the queue has `tokens`."""
    own = ("epoch", "lease_token") if tokens else ("epoch",)
    return [*found, *(name for name in own if name not in found)]


def attempts(
    pause: Callable[[float], object], hooks: Hooks, place: str, stopped: Callable[[], bool]
) -> Iterator[Callable[[Exception], None]]:
    """Attempts at a first connection, until the caller has it or is stopped. Each gets what to call on an error.

    Raises WorkerError for an error that waiting does not mend.
    """
    backoff = Backoff()

    def failed(error: Exception) -> None:
        if (end := permanent(error, place)) is not None:
            raise end from error
        if not line_is_lost(error):
            raise WorkerError(f"{place}: {error}") from error
        seconds = backoff.next_seconds()
        logger.warning("cannot connect to %s, again in %.1f s: %s", place, seconds, error)
        told(lambda: hooks.reconnecting(error, seconds))
        pause(seconds)

    while not stopped():
        yield failed
