"""Upstream: one client session's own line to the database, packet level: relayed (MySQL) or embedded (SQLite).

An upstream takes a client's command packet and sees to it that the whole answer reaches the client; it tells what the
answer's last packet said. It knows nothing of queues.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from engine.errors import BackendError
from engine.model import ColumnMeta, TextValue

if TYPE_CHECKING:
    from proxy.large_command import LargeCommand


RESULTS_CHARSET = "SELECT @@character_set_results"
"""What `collect` is asked for the character set of results. An upstream that knows it need not ask the database."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the end of an answer said. `errno` 0 means success; `status` are the server's status flags.

    The last three are told by `collect` alone.
    """

    errno: int = 0
    message: str = ""
    sqlstate: str = "00000"
    status: int = 0
    affected_rows: int = 0
    statement_id: int = 0
    last_insert_id: int = 0
    warnings: int = 0
    info: str = ""

    @property
    def ok(self) -> bool:
        return self.errno == 0


@dataclass(frozen=True, slots=True)
class Collected:
    """A whole small result, held: for SHOW statements that the proxy edits."""

    columns: tuple[ColumnMeta, ...]
    rows: tuple[tuple[TextValue, ...], ...]

    def row(self, columns: int) -> tuple[TextValue, ...]:
        """The first so many values of the answer to a question that has one row.

        Raises:
            BackendError: the database answers otherwise.
        """
        if not self.rows or len(self.rows[0]) < columns:
            raise BackendError("the database does not answer what it was asked", 1105, "HY000")
        return self.rows[0][:columns]


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

    async def pass_on(self, large: LargeCommand, *, hold: bool = False) -> Outcome:
        """As `command`, for one that the client is still sending; `large` says what was not given to the database.

        Raises:
            StreamClosed, FatalProtocolError: the client broke off; the line is cut.
        """
        ...

    def recode(self, encoding: str) -> None:
        """The client has changed its character set: `collect` is to speak that one."""
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
