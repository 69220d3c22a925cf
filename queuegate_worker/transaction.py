"""The transaction in which a handler's own SQL runs, committed together with the ack."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import pymysql

from queuegate_worker.connection import Connection, Row
from queuegate_worker.errors import LeaseLost, Retry, TransactionEnded, permanent
from queuegate_worker.message import Message
from queuegate_worker.outcomes import Failed, Outcome, Rejected
from queuegate_worker.statements import Statement, Statements

T = TypeVar("T")

_SPACE = r"(?:\s|/\*(?:[^*]|\*(?!/))*\*/|(?:\#|--(?=\s))[^\n]*)"  # or a comment
_ENDS = re.compile(
    rf"(?>{_SPACE}*)(?:BEGIN\b(?!\s+NOT\b)|START(?>{_SPACE}+)TRANSACTION\b|COMMIT\b"
    rf"|ROLLBACK\b(?!(?>{_SPACE}+)(?:WORK(?>{_SPACE}+))?TO\b)|SET\b.*?(?<![^@]@)\bautocommit\b[`\s]*:?=)",
    re.IGNORECASE | re.DOTALL,
)
"""Statements that end the transaction, or begin another one. One to a savepoint does not."""


class CannotContinue(Exception):
    """The transaction could not be begun, or its message not be settled, whatever the handler does; the cause has the
    reason."""


class Transaction:
    """Begins with the handler's first statement. The worker commits it with the ack, or rolls it back if the handler
    raises.

    Values are bound with `%s`; `%` is then written `%%`, and without values as it is.

    Once it has ended, by a deadlock, a lost connection or SQL of the handler's, each method
    raises TransactionEnded, and the delivery fails: whatever followed would be committed alone.
    """

    def __init__(self, connection: Connection, statements: Statements, begin: Callable[[], object]) -> None:
        self._connection, self._statements, self._begin = connection, statements, begin
        self._begun = False
        self._settled: dict[int, Outcome] = {}
        self._may_have_ended = False  # a failed statement may have ended it; an error packet has no status flags
        self._handed_out = False  # its connection: what happens there is not seen
        self._ended = False

    @property
    def used(self) -> bool:
        """Whether the handler has done something in it, or has tried to."""
        return self._begun or self._may_have_ended

    def _open(self) -> None:
        """Begin, or check that it has not ended since. Raises TransactionEnded."""
        if self._begun:
            self._check()
        else:
            try:
                self._begin()
            except BaseException as error:
                self._may_have_ended = True  # also where the handler goes on
                raise CannotContinue from error
            self._begun, self._may_have_ended = True, False

    def execute(self, sql: str, values: Sequence[Any] | None = None) -> int:
        """Run a statement; the number of rows that it changed. Raises TransactionEnded."""
        return self._run(sql, lambda: self._connection.execute(sql, values))

    def rows(self, sql: str, values: Sequence[Any] | None = None) -> list[Row]:
        """Run a query; its rows, by their columns' names. Raises TransactionEnded."""
        return self._run(sql, lambda: self._connection.rows(sql, values))

    @property
    def connection(self) -> pymysql.Connection[Any]:
        """PyMySQL's connection, for libraries that need one. Do not commit or close it. Raises TransactionEnded."""
        self._open()
        self._handed_out = True
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
        message.lease.settling = True
        self._change(statements, 1)
        self._settled[id(message)] = outcome

    def _check(self) -> None:
        """Raise TransactionEnded outside a transaction. A lost connection is not replaced."""
        if not self._ended and self._connection.open and (self._may_have_ended or self._handed_out):
            try:
                self._connection.execute("DO 0")
            except (pymysql.MySQLError, OSError) as error:
                self._ended = True
                raise TransactionEnded from error
            self._may_have_ended = False
        self._check_flag()

    def _check_flag(self) -> None:
        self._ended = self._ended or not self._connection.in_transaction
        if self._ended:
            raise TransactionEnded

    def _run(self, sql: str, do: Callable[[], T]) -> T:
        self._open()
        if _ENDS.match(sql):
            self._ended = True
            raise TransactionEnded
        return self._watched(do)

    def _watched(self, do: Callable[[], T]) -> T:
        """Its result, if the transaction has not ended by it."""
        try:
            result = do()
        except (pymysql.MySQLError, OSError):
            self._may_have_ended = True
            raise
        self._check_flag()
        return result

    def _change(self, statements: Iterator[Statement], expected: int) -> None:
        try:
            changed = self._watched(lambda: sum(self._connection.execute(*statement) for statement in statements))
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

    async def execute(self, sql: str, values: Sequence[Any] | None = None) -> int:
        """Run a statement; the number of rows that it changed."""
        return await self._run_in_slot_thread(lambda: self._transaction.execute(sql, values))

    async def rows(self, sql: str, values: Sequence[Any] | None = None) -> list[Row]:
        """Run a query; its rows, by their columns' names."""
        return await self._run_in_slot_thread(lambda: self._transaction.rows(sql, values))

    async def nack(self, message: Message, reason: str, *, delay: float | None = None) -> None:
        """This message of a batch failed; the others are acked anyway. Raises LeaseLost."""
        await self._run_in_slot_thread(lambda: self._transaction.nack(message, reason, delay=delay))

    async def reject(self, message: Message, reason: str) -> None:
        """This message of a batch can never be handled: it goes to the dead letters. Raises LeaseLost."""
        await self._run_in_slot_thread(lambda: self._transaction.reject(message, reason))
