"""UnitOfWork: several statements on a client's own connection that are applied as a whole or not at all.

The client wrote them as one statement.

A transaction of its own where none is open and each statement is one, else from a savepoint on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from engine.model.errors import BackendError
from engine.model.pins import Pins
from engine.model.queue import TextValue
from mysql_wire.outcome import Collected, Outcome
from proxy.session.session import ClientSession
from proxy.upstream.base import collected
from proxy.upstream.repeats import stands_alone

_UNREADABLE = frozenset((1064, 1105))  # Vitess's number for any error that it has none for


_ON_ROWS = ("SELECT ", "INSERT ", "REPLACE ", "UPDATE ", "DELETE ")


class UnitOfWork:
    """See the module. For one session."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session

    @asynccontextmanager
    async def unit(self) -> AsyncIterator[None]:
        """All that is done within is applied, or nothing of it."""
        session = self._session
        # Without autocommit there always is one. The flags show it from its first statement on, and a savepoint of
        # the client's may come before that: a new transaction would drop it.
        inside = not stands_alone(session.upstream.status)
        await self.do("SAVEPOINT queuegate_unit" if inside else "START TRANSACTION")
        backend_id = self._backend_id
        try:
            yield
            if inside:
                await self.do("RELEASE SAVEPOINT queuegate_unit")
            else:
                await self._commit()
        except Exception:
            await self._undo(inside, backend_id)
            raise

    @property
    def _backend_id(self) -> int | None:
        """Which connection to the database the session is on, where it can outlive one; None without a connection."""
        return None if self._session.backend.backend_id is None else self._session.backend.backend_id()

    async def _commit(self) -> None:
        """Independent of completion_type. Vitess has neither the syntax nor the variable; a statement that it cannot
        read has done nothing, so the transaction is still open."""
        try:
            await self.do("COMMIT AND NO CHAIN NO RELEASE")
        except BackendError as error:
            if error.errno not in _UNREADABLE or "syntax error" not in error.message.lower():
                raise
            await self.do("COMMIT")

    async def _undo(self, inside: bool, backend_id: int | None) -> None:
        """Where the transaction is lost already (a deadlock), or the connection, there is nothing to undo.

        On a session that outlives its connections a statement opens a new connection. An error of that would hide the
        first one.
        """
        ends = ("ROLLBACK TO SAVEPOINT queuegate_unit", "RELEASE SAVEPOINT queuegate_unit") if inside else ("ROLLBACK",)
        for sql in ends:
            if self._session.upstream.alive and self._backend_id == backend_id:
                await self._session.upstream.collect(sql)

    async def do(self, sql: str, pins: Pins = Pins.UNIT) -> Outcome:
        """Run a statement; returns its outcome. Raises BackendError."""
        result = await self._session.upstream.collect(self._pinned(sql, pins))
        if isinstance(result, Collected):
            return Outcome(status=self._session.upstream.status)
        if not result.ok:
            raise result.failure()
        return result

    async def rows(self, sql: str, columns: int) -> Sequence[tuple[TextValue, ...]]:
        """Run a question; so many values of each row. Raises BackendError."""
        return (await collected(self._session.upstream, self._pinned(sql, Pins.UNIT))).each(columns)

    def _pinned(self, sql: str, pins: Pins) -> str:
        return self._session.pinned(sql, pins) if sql.startswith(_ON_ROWS) else sql

    def now(self, outcome: Outcome) -> Outcome:
        """An outcome with the status flags of the end of the unit."""
        return replace(outcome, status=self._session.upstream.status)
