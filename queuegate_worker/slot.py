"""A slot: one thread with one line, which handles one message or one batch at a time and settles it.

With a transaction: BEGIN, the handler, ACK, COMMIT. The ACK names the delivery, so it changes nothing where another
receiver has the message meanwhile; then all is rolled back. A message is therefore handled by one committed
transaction, or by none so far. Where the answer to COMMIT is lost, the table is asked what became of it.

Without: the handler, then the ACK. A failure is settled after the roll back, each message by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar, assert_never

import pymysql

from queuegate_worker.backoff import Backoff
from queuegate_worker.errors import LeaseLost, WorkerError, line_is_lost, permanent, reason_of
from queuegate_worker.handlers import Caller
from queuegate_worker.held import Held
from queuegate_worker.hooks import Hooks, told
from queuegate_worker.line import Line
from queuegate_worker.message import Message
from queuegate_worker.outcomes import Failed, Lost, Outcome, Rejected, Released, Succeeded, outcome_of
from queuegate_worker.statements import Statement, Statements
from queuegate_worker.transaction import Transaction

logger = logging.getLogger("queuegate_worker")
T = TypeVar("T")

_ATTEMPTS = 9  # with the pauses of Backoff half a minute in all: a restart of proxy or database is shorter


class Unsettled(Exception):
    """The proxy could not be reached for long. The message comes again when its lease ends."""


class Slot:
    """See the module. `pause` waits for seconds, `fail` ends the worker with an error."""

    def __init__(
        self,
        line: Line,
        statements: Statements,
        call: Caller,
        held: Held,
        hooks: Hooks,
        *,
        transactional: bool,
        clock: Callable[[], float],
        pause: Callable[[float], object],
        fail: Callable[[WorkerError], None],
    ) -> None:
        self._line, self._statements, self._call, self._held, self._hooks = line, statements, call, held, hooks
        self._transactional, self._clock, self._pause, self._fail = transactional, clock, pause, fail

    def work(self, messages: Sequence[Message]) -> None:
        """Handle messages to their end."""
        began = self._clock()
        try:
            outcomes = self._in_transaction(messages) if self._transactional else self._alone(messages)
        except Unsettled as error:
            logger.error("%d messages are left to their leases: %s", len(messages), error)
            outcomes = []
        except WorkerError as error:
            logger.error("%d messages are left to their leases: %s", len(messages), error)
            self._fail(error)
            outcomes = []
        finally:
            self._held.remove(messages)
        seconds = self._clock() - began
        for message, outcome in zip(messages, outcomes, strict=False):
            self._tell(message, outcome, seconds)

    def close(self) -> None:
        """The slot has no more work."""
        self._line.close()

    def _in_transaction(self, messages: Sequence[Message]) -> list[Outcome]:
        self._patiently(self._line.begin)
        transaction = Transaction(self._line, self._statements)
        try:
            self._call(messages, transaction)
            transaction.ack(messages)
        except BaseException as error:
            self._line.roll_back()
            return self._after(messages, error)
        try:
            self._line.commit()
        except (pymysql.MySQLError, OSError) as error:
            self._line.roll_back()
            if line_is_lost(error):
                return [self._after_unknown_commit(message, error) for message in messages]
            return self._after(messages, error)
        return [transaction.settled(message) or Succeeded() for message in messages]

    def _alone(self, messages: Sequence[Message]) -> list[Outcome]:
        try:
            self._call(messages, None)
        except BaseException as error:
            return self._after(messages, error)
        left = [message for message in messages if not message.lease.acked_by_handler]
        if len(left) > 1 and self._patiently(lambda: self._all_acked(left)):
            return [Succeeded()] * len(messages)
        return [Succeeded() if m.lease.acked_by_handler else self._acked(m) for m in messages]

    def _all_acked(self, messages: Sequence[Message]) -> bool:
        """Ack them together; none, where some are lost."""
        self._line.begin()
        if sum(self._line.execute(*each) for each in self._statements.ack(messages)) == len(messages):
            self._line.commit()
            return True
        self._line.roll_back()
        return False

    def _acked(self, message: Message) -> Outcome:
        """Ack one. An attempt before may have done it without an answer."""
        changed = self._patiently(lambda: self._change(self._statements.ack([message])))
        return Succeeded() if changed or self._patiently(lambda: self._is_acked(message)) else Lost()

    def _after(self, messages: Sequence[Message], error: BaseException) -> list[Outcome]:
        """Settle what was not done. Of a batch of which one is lost, the others are given back."""
        outcome = outcome_of(error)
        if isinstance(outcome, Lost):
            outcome = Released()
        elif isinstance(outcome, Failed) and not isinstance(error, LeaseLost):
            logger.warning("the handler failed for %s", _named(messages), exc_info=error)
        return [self._settled(message, outcome) for message in messages]

    def _after_unknown_commit(self, message: Message, error: Exception) -> Outcome:
        """The line was lost in COMMIT: it took effect, or did not and never will."""
        outcome = self._settled(message, Failed(error))
        if isinstance(outcome, Lost) and self._patiently(lambda: self._is_acked(message)):
            return Succeeded()
        return outcome

    def _settled(self, message: Message, outcome: Outcome) -> Outcome:
        """Send what the outcome says; Lost where that changed nothing."""
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
        return outcome if self._patiently(lambda: self._change(statements)) else Lost()

    def _change(self, statements: Iterable[Statement]) -> int:
        return sum(self._line.execute(*each) for each in statements)

    def _is_acked(self, message: Message) -> bool:
        """Whether this delivery was acked. An account that may not read the table does not hear of it."""
        try:
            return bool(self._line.rows(*self._statements.acked(message)))
        except pymysql.MySQLError as error:
            if line_is_lost(error):
                raise
            return False

    def _patiently(self, do: Callable[[], T]) -> T:
        """The result, also where proxy or database are away for a while. Raises Unsettled, WorkerError."""
        backoff = Backoff()
        for attempt in range(_ATTEMPTS):
            try:
                return do()
            except (pymysql.MySQLError, OSError) as error:
                if (end := permanent(error, self._statements.queue)) is not None:
                    raise end from error
                if attempt == _ATTEMPTS - 1:
                    raise Unsettled(str(error)) from error
                self._line.roll_back()
                self._pause(backoff.next_seconds())
        raise AssertionError("the last attempt returns or raises")

    def _tell(self, message: Message, outcome: Outcome, seconds: float) -> None:
        hooks = self._hooks
        match outcome:
            case Succeeded():
                told(lambda: hooks.succeeded(message, seconds))
            case Failed(error=error):
                told(lambda: hooks.failed(message, error, seconds))
            case Rejected(reason=reason):
                logger.warning("message %r of %s is rejected: %s", message.id, message.queue, reason)
                told(lambda: hooks.rejected(message, reason, seconds))
            case Released():
                told(lambda: hooks.released(message))
            case Lost():
                logger.warning("message %r of %s was lost: its lease ran out first", message.id, message.queue)
                told(lambda: hooks.lost(message))
            case _:
                assert_never(outcome)


def _named(messages: Sequence[Message]) -> str:
    first = messages[0]
    more = f" and {len(messages) - 1} more" if len(messages) > 1 else ""
    return f"message {first.id!r} of {first.queue}, attempt {first.epoch}{more}"
