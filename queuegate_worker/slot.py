"""A slot: one thread with one connection, which handles one message or one batch at a time and settles it.

With a transaction: BEGIN, the handler, ACK, COMMIT. The ACK names the delivery, so it changes nothing where another
receiver has the message meanwhile; then all is rolled back. A message is therefore handled by one committed
transaction, or by none so far. If the answer to COMMIT is lost, a query on the table finds the outcome.

Without: the handler, then the ACK. A failure is settled after the rollback, each message separately.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar, assert_never

import pymysql

from queuegate_worker.backoff import Backoff
from queuegate_worker.connection import Connection
from queuegate_worker.errors import LeaseLost, WorkerError, connection_lost, permanent, reason_of
from queuegate_worker.handlers import Caller
from queuegate_worker.hooks import Hooks, notify
from queuegate_worker.in_flight import InFlight
from queuegate_worker.message import Message
from queuegate_worker.outcomes import Failed, Lost, Outcome, Rejected, Released, Succeeded, outcome_of
from queuegate_worker.statements import Statement, Statements
from queuegate_worker.transaction import Transaction

logger = logging.getLogger("queuegate_worker")
T = TypeVar("T")

_ATTEMPTS = 9  # with the pauses of Backoff half a minute in all: a restart of proxy or database is shorter


class Unsettled(Exception):
    """The proxy could not be reached for a long time. The message is redelivered when its lease ends."""


class Slot:
    """See the module. `pause` waits for seconds; `fail` ends the worker with an error."""

    def __init__(
        self,
        connection: Connection,
        statements: Statements,
        call: Caller,
        in_flight: InFlight,
        hooks: Hooks,
        *,
        transactional: bool,
        clock: Callable[[], float],
        pause: Callable[[float], object],
        fail: Callable[[WorkerError], None],
    ) -> None:
        self._connection, self._statements, self._call, self._in_flight, self._hooks = (
            connection,
            statements,
            call,
            in_flight,
            hooks,
        )
        self._transactional, self._clock, self._pause, self._fail = transactional, clock, pause, fail

    def work(self, messages: Sequence[Message]) -> None:
        """Handle messages and settle them."""
        began = self._clock()
        try:
            outcomes = self._in_transaction(messages) if self._transactional else self._without_transaction(messages)
        except Unsettled as error:
            logger.error("%d messages are left to their leases: %s", len(messages), error)
            outcomes = []
        except WorkerError as error:
            logger.error("%d messages are left to their leases: %s", len(messages), error)
            self._fail(error)
            outcomes = []
        finally:
            self._in_flight.remove(messages)
        seconds = self._clock() - began
        for message, outcome in zip(messages, outcomes, strict=False):
            self._notify(message, outcome, seconds)

    def close(self) -> None:
        """The slot has no more work."""
        self._connection.close()

    def _in_transaction(self, messages: Sequence[Message]) -> list[Outcome]:
        self._with_retries(self._connection.begin)
        transaction = Transaction(self._connection, self._statements)
        try:
            self._call(messages, transaction)
            transaction.ack(messages)
        except BaseException as error:
            self._connection.roll_back()
            return self._settle_after_error(messages, error)
        try:
            self._connection.commit()
        except (pymysql.MySQLError, OSError) as error:
            self._connection.roll_back()
            if connection_lost(error):
                return [self._settle_after_unknown_commit(message, error) for message in messages]
            return self._settle_after_error(messages, error)
        return [transaction.settled(message) or Succeeded() for message in messages]

    def _without_transaction(self, messages: Sequence[Message]) -> list[Outcome]:
        try:
            self._call(messages, None)
        except BaseException as error:
            return self._settle_after_error(messages, error)
        left = [message for message in messages if not message.lease.acked_by_handler]
        if len(left) > 1 and self._with_retries(lambda: self._ack_all(left)):
            return [Succeeded()] * len(messages)
        return [Succeeded() if m.lease.acked_by_handler else self._ack_one(m) for m in messages]

    def _ack_all(self, messages: Sequence[Message]) -> bool:
        """Ack them together; if some are lost, ack none."""
        self._connection.begin()
        if sum(self._connection.execute(*each) for each in self._statements.ack(messages)) == len(messages):
            self._connection.commit()
            return True
        self._connection.roll_back()
        return False

    def _ack_one(self, message: Message) -> Outcome:
        """Ack one. An earlier attempt may have succeeded without an answer."""
        changed = self._with_retries(lambda: self._change(self._statements.ack([message])))
        return Succeeded() if changed or self._with_retries(lambda: self._is_acked(message)) else Lost()

    def _settle_after_error(self, messages: Sequence[Message], error: BaseException) -> list[Outcome]:
        """Settle messages that were not handled. If one of a batch is lost, the others are given back."""
        outcome = outcome_of(error)
        if isinstance(outcome, Lost):
            outcome = Released()
        elif isinstance(outcome, Failed) and not isinstance(error, LeaseLost):
            logger.warning("the handler failed for %s", _describe(messages), exc_info=error)
        return [self._settle(message, outcome) for message in messages]

    def _settle_after_unknown_commit(self, message: Message, error: Exception) -> Outcome:
        """The connection was lost in COMMIT: it took effect, or it did not and never will."""
        outcome = self._settle(message, Failed(error))
        if isinstance(outcome, Lost) and self._with_retries(lambda: self._is_acked(message)):
            return Succeeded()
        return outcome

    def _settle(self, message: Message, outcome: Outcome) -> Outcome:
        """Send the statement for the outcome; Lost if it changed nothing."""
        match outcome:
            case Failed(error=error, delay=delay):
                statements = [*self._statements.nack([message], reason_of(error), delay)]
            case Rejected(reason=reason):
                statements = [*self._statements.reject([message], reason)]
            case Released():
                statements = [*self._statements.release([message])]
            case Succeeded() | Lost():
                return outcome
            case _:
                assert_never(outcome)
        return outcome if self._with_retries(lambda: self._change(statements)) else Lost()

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

    def _with_retries(self, do: Callable[[], T]) -> T:
        """The result, retried while proxy or database are unreachable. Raises Unsettled, WorkerError."""
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

    def _notify(self, message: Message, outcome: Outcome, seconds: float) -> None:
        hooks = self._hooks
        match outcome:
            case Succeeded():
                notify(lambda: hooks.succeeded(message, seconds))
            case Failed(error=error):
                notify(lambda: hooks.failed(message, error, seconds))
            case Rejected(reason=reason):
                logger.warning("message %r of %s is rejected: %s", message.id, message.queue, reason)
                notify(lambda: hooks.rejected(message, reason, seconds))
            case Released():
                notify(lambda: hooks.released(message))
            case Lost():
                logger.warning("message %r of %s was lost: its lease ran out first", message.id, message.queue)
                notify(lambda: hooks.lost(message))
            case _:
                assert_never(outcome)


def _describe(messages: Sequence[Message]) -> str:
    first = messages[0]
    more = f" and {len(messages) - 1} more" if len(messages) > 1 else ""
    return f"message {first.id!r} of {first.queue}, attempt {first.epoch}{more}"
