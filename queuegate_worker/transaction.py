"""The transaction in which a handler's own SQL runs, committed together with the ack."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import pymysql

from queuegate_worker.connection import Connection, Row
from queuegate_worker.errors import LeaseLost, Retry, TransactionEnded, permanent
from queuegate_worker.message import Message
from queuegate_worker.outcomes import Failed, Outcome, Rejected
from queuegate_worker.statements import Statement, Statements

T = TypeVar("T")


class CannotContinue(Exception):
    """The transaction could not be begun, or its message not be settled, whatever the handler does; the cause has the
    reason."""


class Transaction:
    """Begins with the handler's first statement. The worker commits it with the ack, or rolls it back if the handler
    raises.

    Values are bound with `%s`. SQL that ends the transaction makes the delivery fail.
    """

    def __init__(self, connection: Connection, statements: Statements, begin: Callable[[], object]) -> None:
        self._connection, self._statements, self._begin = connection, statements, begin
        self._begun = False
        self._settled: dict[int, Outcome] = {}
        self._may_have_ended = False  # a failed statement may have ended it; an error packet has no status flags

    @property
    def used(self) -> bool:
        """Whether the handler has done something in it, or has tried to."""
        return self._begun or self._may_have_ended

    def _open(self) -> None:
        if not self._begun:
            try:
                self._begin()
            except BaseException as error:
                self._may_have_ended = True  # also where the handler goes on
                raise CannotContinue from error
            self._begun = True

    def execute(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Run a statement; the number of rows that it changed."""
        self._open()
        return self._watch_errors(lambda: self._connection.execute(sql, values))

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run a query; its rows, by their columns' names."""
        self._open()
        return self._watch_errors(lambda: self._connection.rows(sql, values))

    @property
    def connection(self) -> pymysql.Connection[Any]:
        """PyMySQL's connection, for libraries that need one. Do not commit or close it."""
        self._open()
        self._may_have_ended = True
        return self._connection.driver_connection

    @property
    def connection_id(self) -> int | None:
        """The id of its connection, for KILL by another one; None if the transaction has not begun."""
        return self._connection.id if self._begun and self._connection.open else None

    def nack(self, message: Message, reason: str, *, delay: float | None = None) -> None:
        """This message of a batch failed; the others are acked anyway. Raises LeaseLost."""
        self._settle(
            message, self._statements.nack([message], reason, delay), Failed(Retry(reason, delay=delay), delay)
        )

    def reject(self, message: Message, reason: str) -> None:
        """This message of a batch can never be handled: it goes to the dead letters. Raises LeaseLost."""
        self._settle(message, self._statements.reject([message], reason), Rejected(reason))

    def settled(self, message: Message) -> Outcome | None:
        """The outcome that the handler chose for this message; None: it is to be acked."""
        return self._settled.get(id(message))

    def ack(self, messages: Sequence[Message]) -> None:
        """Ack the remaining messages of a batch, without committing. Raises LeaseLost, TransactionEnded."""
        self._check()
        for message in messages:
            message.lease.settling = True
        left = [m for m in messages if self.settled(m) is None and m.lease.settled_by_handler is None]
        self._change(self._statements.ack(left), len(left))

    def _settle(self, message: Message, statements: Iterator[Statement], outcome: Outcome) -> None:
        self._open()
        self._check()
        message.lease.settling = True
        self._change(statements, 1)
        self._settled[id(message)] = outcome

    def _check(self) -> None:
        """Outside a transaction the ack would be committed alone, without the work."""
        if self._may_have_ended and self._connection.open:
            self._connection.execute("DO 0")
        if not self._connection.in_transaction:
            raise TransactionEnded

    def _watch_errors(self, do: Callable[[], T]) -> T:
        try:
            return do()
        except (pymysql.MySQLError, OSError):
            self._may_have_ended = True
            raise

    def _change(self, statements: Iterator[Statement], expected: int) -> None:
        try:
            changed = sum(self._connection.execute(*statement) for statement in statements)
        except pymysql.MySQLError as error:
            if (end := permanent(error, self._statements.queue)) is not None:
                raise CannotContinue from end
            raise
        if changed != expected:
            raise LeaseLost("a message of this transaction is no longer held by this worker")


class RunInSlotThread(Protocol):
    """Runs a function in the thread that owns the connection, and returns its result to the event loop."""

    def __call__(self, function: Callable[[], T]) -> Awaitable[T]:
        """The result, or what it raised."""


class AsyncTransaction:
    """The same for a coroutine."""

    def __init__(self, transaction: Transaction, run_in_slot_thread: RunInSlotThread) -> None:
        self._transaction, self._run_in_slot_thread = transaction, run_in_slot_thread

    async def execute(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Run a statement; the number of rows that it changed."""
        return await self._run_in_slot_thread(lambda: self._transaction.execute(sql, values))

    async def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run a query; its rows, by their columns' names."""
        return await self._run_in_slot_thread(lambda: self._transaction.rows(sql, values))

    async def nack(self, message: Message, reason: str, *, delay: float | None = None) -> None:
        """This message of a batch failed; the others are acked anyway. Raises LeaseLost."""
        await self._run_in_slot_thread(lambda: self._transaction.nack(message, reason, delay=delay))

    async def reject(self, message: Message, reason: str) -> None:
        """This message of a batch can never be handled: it goes to the dead letters. Raises LeaseLost."""
        await self._run_in_slot_thread(lambda: self._transaction.reject(message, reason))
