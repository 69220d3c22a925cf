"""Upstream: one client session's own line to the database, packet level: relayed (MySQL) or embedded (SQLite).

An upstream takes a client's command packet and sees to it that the whole answer reaches the client; it tells what the
answer's last packet said. It knows nothing of queues.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from engine.model import ColumnMeta, TextValue


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the end of an answer said. `errno` 0 means success; `status` are the server's status flags."""

    errno: int = 0
    message: str = ""
    sqlstate: str = "00000"
    status: int = 0
    affected_rows: int = 0
    statement_id: int = 0

    @property
    def ok(self) -> bool:
        return self.errno == 0


@dataclass(frozen=True, slots=True)
class Collected:
    """A whole small result, held: for SHOW statements that the proxy edits."""

    columns: tuple[ColumnMeta, ...]
    rows: tuple[tuple[TextValue, ...], ...]


class Upstream(Protocol):
    """See the module."""

    @property
    def status(self) -> int:
        """The status flags as last heard (in transaction, autocommit)."""
        ...

    @property
    def alive(self) -> bool:
        """False once the line is lost; the client connection ends with it unless it is streaming."""
        ...

    async def command(self, payload: bytes, *, more: bool = False, hold: bool = False) -> Outcome:
        """Have a command (its packet payload) answered to the client.

        `more`: further results of the same client command follow, so the last packet must say so. `hold`: keep the
        answer back until `deliver`, for statements after which the catalog must be read again first.
        """
        ...

    async def deliver(self) -> None:
        """Write the answer that `hold` kept back."""
        ...

    async def collect(self, sql: str) -> Collected | Outcome:
        """Run a statement for the proxy itself; nothing reaches the client. Outcome where it failed or had no rows."""
        ...

    async def close(self) -> None:
        """Close the line; an open transaction is rolled back. May be called twice."""
        ...
