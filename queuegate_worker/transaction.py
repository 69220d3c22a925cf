"""The transaction in which a handler's own SQL runs, committed together with the ack."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import pymysql

from queuegate_worker.errors import LeaseLost, Retry, TransactionEnded
from queuegate_worker.line import Line, Row
from queuegate_worker.message import Message
from queuegate_worker.outcomes import Failed, Outcome, Rejected
from queuegate_worker.statements import Statement, Statements

T = TypeVar("T")


class Transaction:
    """Open while the handler runs. The worker commits it with the ack, or rolls it back where the handler raises.

    Values are bound with `%s`. SQL that ends the transaction makes the delivery fail.
    """

    def __init__(self, line: Line, statements: Statements) -> None:
        self._line, self._statements = line, statements
        self._settled: dict[int, Outcome] = {}
        self._doubtful = False  # a failed statement may have ended it, and an error's packet does not tell

    def execute(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Run a statement; the rows that it changed."""
        return self._noticing(lambda: self._line.execute(sql, values))

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run a query; its rows, by their columns' names."""
        return self._noticing(lambda: self._line.rows(sql, values))

    @property
    def connection(self) -> pymysql.Connection[Any]:
        """The connection, for a library that wants one. Neither commit nor close it."""
        self._doubtful = True
        return self._line.connection

    def nack(self, message: Message, reason: str, *, delay: float | None = None) -> None:
        """This message of a batch failed; the others are acked all the same. Raises LeaseLost."""
        self._settle(
            message, self._statements.nack([message], reason, delay), Failed(Retry(reason, delay=delay), delay)
        )

    def reject(self, message: Message, reason: str) -> None:
        """This message of a batch can never be handled: it goes to the dead letters. Raises LeaseLost."""
        self._settle(message, self._statements.reject([message], reason), Rejected(reason))

    def settled(self, message: Message) -> Outcome | None:
        """What the handler said of this message; None: it is to be acked."""
        return self._settled.get(id(message))

    def ack(self, messages: Sequence[Message]) -> None:
        """Ack what is left of a batch, without committing. Raises LeaseLost, TransactionEnded."""
        self._check()
        for message in messages:
            message.lease.settling = True
        left = [m for m in messages if self.settled(m) is None and not m.lease.acked_by_handler]
        self._change(self._statements.ack(left), len(left))

    def _settle(self, message: Message, statements: Iterator[Statement], outcome: Outcome) -> None:
        self._check()
        message.lease.settling = True
        self._change(statements, 1)
        self._settled[id(message)] = outcome

    def _check(self) -> None:
        """A statement outside a transaction would be committed by itself: the ack without the work."""
        if self._doubtful and self._line.open:
            self._line.execute("DO 0")
        if not self._line.in_transaction:
            raise TransactionEnded

    def _noticing(self, do: Callable[[], T]) -> T:
        try:
            return do()
        except (pymysql.MySQLError, OSError):
            self._doubtful = True
            raise

    def _change(self, statements: Iterator[Statement], expected: int) -> None:
        if sum(self._line.execute(*statement) for statement in statements) != expected:
            raise LeaseLost("a message of this transaction is no longer held by this worker")


class Elsewhere(Protocol):
    """Runs a function in the thread that the line belongs to, and brings its result into the event loop."""

    def __call__(self, function: Callable[[], T]) -> Awaitable[T]:
        """The result, or what it raised."""


class AsyncTransaction:
    """The same for a coroutine."""

    def __init__(self, transaction: Transaction, elsewhere: Elsewhere) -> None:
        self._transaction, self._elsewhere = transaction, elsewhere

    async def execute(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Run a statement; the rows that it changed."""
        return await self._elsewhere(lambda: self._transaction.execute(sql, values))

    async def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run a query; its rows, by their columns' names."""
        return await self._elsewhere(lambda: self._transaction.rows(sql, values))

    async def nack(self, message: Message, reason: str, *, delay: float | None = None) -> None:
        """This message of a batch failed; the others are acked all the same. Raises LeaseLost."""
        await self._elsewhere(lambda: self._transaction.nack(message, reason, delay=delay))

    async def reject(self, message: Message, reason: str) -> None:
        """This message of a batch can never be handled: it goes to the dead letters. Raises LeaseLost."""
        await self._elsewhere(lambda: self._transaction.reject(message, reason))
