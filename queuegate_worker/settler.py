"""The statements that settle deliveries, repeated while proxy or database are unreachable. For one thread at a time.

Each names its delivery, so a statement whose answer was lost is simply sent again; if the second one changes nothing, a
query on the table finds out what the first one did.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar, assert_never

import pymysql

from queuegate_worker.backoff import Backoff
from queuegate_worker.connection import Connection
from queuegate_worker.errors import LeaseLost, Retry, WorkerError, connection_lost, for_log, permanent, reason_of
from queuegate_worker.message import Message
from queuegate_worker.outcomes import Failed, Lost, Outcome, Rejected, Released, Succeeded, outcome_of
from queuegate_worker.statements import Statement, Statements

logger = logging.getLogger("queuegate_worker")
T = TypeVar("T")

_ATTEMPTS = 9  # with the pauses of Backoff half a minute in all: a restart of proxy or database is shorter


class Unsettled(Exception):
    """The proxy could not be reached for a long time. The message is redelivered when its lease ends."""


def or_left_to_leases(
    settle: Callable[[], T], messages: Sequence[Message], fail: Callable[[WorkerError], None]
) -> T | None:
    """What `settle` returns; None where these messages are left to their leases, as the log says. `fail` gets an error
    that ends the worker."""
    try:
        return settle()
    except (Unsettled, WorkerError) as error:
        logger.error("%d messages are left to their leases: %s", len(messages), error)
        if isinstance(error, WorkerError):
            fail(error)
        return None


class Settler:
    """See the module. `pause` waits for seconds. All methods raise Unsettled, and WorkerError for an error that waiting
    does not fix."""

    def __init__(self, connection: Connection, statements: Statements, pause: Callable[[float], object]) -> None:
        self._connection, self._statements, self._pause = connection, statements, pause

    def close(self) -> None:
        """Nothing more is to be settled."""
        self._connection.close()

    def ack_all(self, messages: Sequence[Message]) -> list[Outcome]:
        """Ack them at once; where some are lost, one by one, to find out which."""
        if len(messages) > 1 and self.with_retries(lambda: self._ack_together(messages)):
            return [Succeeded()] * len(messages)
        return [self._ack_one(message) for message in messages]

    def _ack_together(self, messages: Sequence[Message]) -> bool:
        """Ack them together; if some are lost, ack none."""
        statements = [*self._statements.ack(messages)]
        self._connection.begin()
        if sum(self._connection.execute(*each) for each in statements) == len(messages):
            self._connection.commit()
            return True
        self._connection.roll_back()
        return False

    def _ack_one(self, message: Message) -> Outcome:
        """Ack one. An earlier attempt may have succeeded without an answer."""
        changed = self.with_retries(lambda: self._change(self._statements.ack([message])))
        return Succeeded() if changed or self.with_retries(lambda: self._is_acked(message)) else Lost()

    def settle_after_error(self, messages: Sequence[Message], error: BaseException) -> list[Outcome]:
        """Settle messages that were not handled. If one of a batch is lost, the others are given back."""
        outcome = outcome_of(error)
        if isinstance(outcome, Lost):
            outcome = Released()
        elif isinstance(outcome, Failed) and not isinstance(error, LeaseLost):
            traceback = None if isinstance(error, Retry) else for_log(error)
            logger.warning("the handler failed for %s: %s", _describe(messages), reason_of(error), exc_info=traceback)
        return [self._settle(message, outcome) for message in messages]

    def settle_after_unknown_commit(self, message: Message, error: Exception) -> Outcome:
        """The connection was lost in COMMIT: it took effect, or it did not and never will."""
        outcome = self._settle(message, Failed(error))
        if isinstance(outcome, Lost) and self.with_retries(lambda: self._is_acked(message)):
            return Succeeded()
        return outcome

    def _settle(self, message: Message, outcome: Outcome) -> Outcome:
        """Send the statement for the outcome; Lost if it changed nothing."""
        match outcome:
            case Failed(error=error, delay=delay):
                statements = [*self._statements.nack([message], reason_of(error), delay)]
            case Rejected(reason=reason):
                statements = [*self._statements.reject([message], reason)]
            case Released(delay=delay):
                release = self._statements.release([message])
                statements = [self._statements.release_later(message, delay)] if delay else [*release]
            case Succeeded() | Lost():
                return outcome
            case _:
                assert_never(outcome)
        return outcome if self.with_retries(lambda: self._change(statements)) else Lost()

    def _change(self, statements: Iterable[Statement]) -> int:
        return sum(self._connection.execute(*each) for each in statements)

    def _is_acked(self, message: Message) -> bool:
        """Whether this delivery was acked. False if the account may not read the table."""
        try:
            return bool(self._connection.rows(*self._statements.acked(message)))
        except pymysql.MySQLError as error:
            if connection_lost(error):
                raise
            return False

    def with_retries(self, do: Callable[[], T]) -> T:
        """The result, retried while proxy or database are unreachable."""
        backoff = Backoff()
        for attempt in range(_ATTEMPTS):
            try:
                return do()
            except (pymysql.MySQLError, OSError) as error:
                if (end := permanent(error, self._statements.queue)) is not None:
                    raise end from error
                if attempt == _ATTEMPTS - 1:
                    raise Unsettled(str(error)) from error
                self._connection.roll_back()
                self._pause(backoff.next_seconds())
        raise AssertionError("the last attempt returns or raises")


def _describe(messages: Sequence[Message]) -> str:
    first = messages[0]
    more = f" and {len(messages) - 1} more" if len(messages) > 1 else ""
    return f"message {first.id!r} of {first.queue}, attempt {first.epoch}{more}"
