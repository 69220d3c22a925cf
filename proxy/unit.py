"""Unit: several statements on a client's own line that hold as a whole or not at all, for what the client wrote as one.

A transaction of its own where none is open, else from a savepoint on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from engine.model import TextValue
from proxy.session import ClientSession
from proxy.upstream import Collected, Outcome, collected

_AUTOCOMMIT = 0x2


class Unit:
    """See the module. For one session."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session

    @asynccontextmanager
    async def unit(self) -> AsyncIterator[None]:
        """What is done within holds, or else nothing of it."""
        session = self._session
        inside = session.in_transaction
        autocommit = bool(session.upstream.status & _AUTOCOMMIT)
        await self.do("SAVEPOINT queuegate_unit" if inside else "START TRANSACTION")
        try:
            yield
            if inside:
                await self.do("RELEASE SAVEPOINT queuegate_unit")
            elif autocommit:
                await self.do("COMMIT AND NO CHAIN NO RELEASE")
        except Exception:
            await self._undo(inside)
            raise

    async def _undo(self, inside: bool) -> None:
        """Where the transaction is lost already (a deadlock), or the line, there is nothing to undo."""
        ends = ("ROLLBACK TO SAVEPOINT queuegate_unit", "RELEASE SAVEPOINT queuegate_unit") if inside else ("ROLLBACK",)
        for sql in ends:
            if self._session.upstream.alive:
                await self._session.upstream.collect(sql)

    async def do(self, sql: str) -> Outcome:
        """Run a statement; what it came to. Raises BackendError."""
        result = await self._session.upstream.collect(sql)
        if isinstance(result, Collected):
            return Outcome(status=self._session.upstream.status)
        if not result.ok:
            raise result.failure()
        return result

    async def rows(self, sql: str, columns: int) -> Sequence[tuple[TextValue, ...]]:
        """Run a question; so many values of each row. Raises BackendError."""
        return (await collected(self._session.upstream, sql)).each(columns)

    def now(self, outcome: Outcome) -> Outcome:
        """An outcome with the status flags of the end of the unit."""
        return replace(outcome, status=self._session.upstream.status)
