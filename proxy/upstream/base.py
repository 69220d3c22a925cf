"""Upstream: one client session's own line to the database, packet level: relayed (MySQL) or embedded (SQLite).

An upstream takes a client's command packet and sees to it that the whole answer reaches the client; it tells what the
answer's last packet said. It knows nothing of queues.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from engine.model.errors import BackendError
from engine.model.queue import ColumnMeta, TextValue

if TYPE_CHECKING:
    from proxy.upstream.large_command import LargeCommand


RESULTS_CHARSET = "SELECT @@character_set_results"
"""What `collect` is asked for the character set of results. An upstream that knows it need not ask the database."""

_NUMBER = re.compile(rb"-?0*[0-9]{1,20}")  # ZEROFILL has zeros before it
_NUMBER_MIN, _NUMBER_MAX = -(1 << 63), (1 << 64) - 1  # of BIGINT, with a sign and without


def otherwise(what: str = "") -> BackendError:
    """The error for an answer that is none to the question. `what` it has in place of what was due."""
    return BackendError("the database does not answer what it was asked" + (what and f": {what}"), 1105, "HY000")


def number(value: TextValue) -> int:
    """A whole number of an answer.

    Raises:
        BackendError: it is none, or none that a column can hold.
    """
    if value is not None and _NUMBER.fullmatch(value) and _NUMBER_MIN <= (found := int(value)) <= _NUMBER_MAX:
        return found
    raise otherwise("NULL is no number" if value is None else f"{value[:32]!r} is no number")


def unhex(value: TextValue) -> str:
    """The text of an answer's HEX(column), as the column holds it in UTF-8.

    Raises:
        BackendError: it is none.
    """
    try:
        return bytes.fromhex((value or b"").decode("ascii")).decode()
    except ValueError as error:
        raise otherwise(f"{(value or b'')[:32]!r} is no text in hexadecimal") from error


class Refusal(Protocol):
    """An error with what a client is told of it."""

    errno: int
    message: str
    sqlstate: str


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

    @classmethod
    def of(cls, error: Refusal, status: int = 0) -> Outcome:
        """What an error of ours comes to."""
        return cls(error.errno, error.message, error.sqlstate, status)

    @property
    def ok(self) -> bool:
        return self.errno == 0

    def failure(self) -> BackendError:
        """The error that this is, where it is one."""
        return BackendError(self.message, self.errno, self.sqlstate)


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
        if not self.rows:
            raise otherwise("no row")
        return self.each(columns)[0]

    def each(self, columns: int) -> list[tuple[TextValue, ...]]:
        """The first so many values of every row.

        Raises:
            BackendError: there are fewer.
        """
        if any(len(row) < columns for row in self.rows):
            raise otherwise(f"fewer than {columns} columns")
        return [row[:columns] for row in self.rows]


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


def encoded(sql: str, codec: str) -> bytes:
    """A statement as the client's line takes it.

    Raises:
        BackendError: it names a queue or a column in characters that the client's character set lacks.
    """
    try:
        return sql.encode(codec, "surrogateescape")
    except UnicodeEncodeError as error:
        raise BackendError(
            "a name in this statement has characters that the connection's character set lacks: SET NAMES utf8mb4", 1300
        ) from error


async def collected(upstream: Upstream, sql: str) -> Collected:
    """The rows of a question of the proxy's own.

    Raises:
        BackendError: the database refuses it, or answers without rows.
    """
    result = await upstream.collect(sql)
    if isinstance(result, Collected):
        return result
    if result.ok:
        raise otherwise("no result")
    raise result.failure()
