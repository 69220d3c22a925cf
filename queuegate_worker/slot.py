"""A slot: one thread with one connection, which handles one message or one batch at a time.

Where the handler uses its transaction: BEGIN, its statements, ACK, COMMIT. The ACK names the delivery, so it changes
nothing where another receiver has the message meanwhile; then all is rolled back. A message is therefore handled by one
committed transaction, or by none so far. If the answer to COMMIT is lost, a query on the table finds the outcome.

Else the message goes to the acker, and the slot to its next one. A failure is settled after the rollback, each message
separately.
"""

from __future__ import annotations

from collections.abc import Sequence

import pymysql

from queuegate_worker.acker import Acker, Handled, report
from queuegate_worker.connection import Connection
from queuegate_worker.errors import connection_lost
from queuegate_worker.handlers import Caller
from queuegate_worker.message import Message
from queuegate_worker.outcomes import Outcome, Succeeded, outcome_by_handler
from queuegate_worker.settler import Settler, or_left_to_leases
from queuegate_worker.shared import Shared
from queuegate_worker.transaction import CannotContinue, Transaction


class Slot:
    """See the module."""

    def __init__(
        self, connection: Connection, shared: Shared, call: Caller, acker: Acker, *, transactional: bool
    ) -> None:
        self._connection, self._shared, self._call, self._acker = connection, shared, call, acker
        self._transactional = transactional
        self._settler = Settler(connection, shared.statements, shared.pause)

    def work(self, messages: Sequence[Message]) -> None:
        """Handle messages and settle them."""
        began, work = self._shared.clock(), self._in_transaction if self._transactional else self._without_transaction
        try:
            outcomes = or_left_to_leases(lambda: work(messages), messages, self._shared.fail)
        except BaseException:
            self._shared.in_flight.remove(messages)
            raise
        seconds = self._shared.clock() - began
        if outcomes == []:
            self._acker.put(Handled(messages, seconds))
            return
        self._shared.in_flight.remove(messages)
        for message, outcome in zip(messages, outcomes or (), strict=False):
            report(self._shared.hooks, message, outcome, seconds)

    def close(self) -> None:
        """The slot has no more work."""
        self._connection.close()

    def _in_transaction(self, messages: Sequence[Message]) -> list[Outcome]:
        """The outcomes; none: the messages are to be acked."""
        transaction = Transaction(
            self._connection, self._shared.statements, lambda: self._settler.with_retries(self._connection.begin)
        )
        try:
            self._call(messages, transaction)
            if transaction.used:
                transaction.ack(messages)
        except CannotContinue as error:
            self._connection.roll_back()
            assert error.__cause__ is not None
            raise error.__cause__ from None
        except BaseException as error:
            if transaction.used:
                self._connection.roll_back()
            return self._settler.settle_after_error(messages, error)
        if not transaction.used:
            return []
        try:
            self._connection.commit()
        except (pymysql.MySQLError, OSError) as error:
            self._connection.roll_back()
            if connection_lost(error):
                return [self._settler.settle_after_unknown_commit(message, error) for message in messages]
            return self._settler.settle_after_error(messages, error)
        return [_outcome(transaction, message) for message in messages]

    def _without_transaction(self, messages: Sequence[Message]) -> list[Outcome]:
        """As `_in_transaction`."""
        try:
            self._call(messages, None)
        except BaseException as error:
            return self._settler.settle_after_error(messages, error)
        return []


def _outcome(transaction: Transaction, message: Message) -> Outcome:
    """What became of it in a transaction that is committed."""
    by_cursor = message.lease.settled_by_handler
    return outcome_by_handler(by_cursor) if by_cursor else transaction.settled(message) or Succeeded()
