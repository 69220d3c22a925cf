"""The outcome of an answer, and a small answer as a whole. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Protocol

from engine.model.errors import BackendError
from engine.model.queue import ColumnMeta, TextValue

_NUMBER = re.compile(rb"-?0*[0-9]{1,20}")  # ZEROFILL has zeros before it


_NUMBER_MIN, _NUMBER_MAX = -(1 << 63), (1 << 64) - 1  # of BIGINT, with a sign and without


def unexpected_answer(what: str = "") -> BackendError:
    """The error for an answer that is none to the question. `what` it has in place of what was due."""
    return BackendError("the database does not answer what it was asked" + (what and f": {what}"), 1105, "HY000")


def number(value: TextValue) -> int:
    """A whole number of an answer.

    Raises:
        BackendError: it is none, or out of the range of a column.
    """
    if value is not None and _NUMBER.fullmatch(value) and _NUMBER_MIN <= (parsed := int(value)) <= _NUMBER_MAX:
        return parsed
    raise unexpected_answer("NULL is no number" if value is None else f"{value[:32]!r} is no number")


def unhex(value: TextValue) -> str:
    """The text of an answer's HEX(column), as the column holds it in UTF-8.

    Raises:
        BackendError: it is none.
    """
    try:
        return bytes.fromhex((value or b"").decode("ascii")).decode()
    except ValueError as error:
        raise unexpected_answer(f"{(value or b'')[:32]!r} is no text in hexadecimal") from error


class Refusal(Protocol):
    """An error, and what a client is sent of it."""

    errno: int
    message: str
    sqlstate: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an answer, from its end. `errno` 0 means success; `status` are the server's status flags.

    The last two are filled by `collect` alone, and `last_insert_id` on the fast path only where the end is reported.
    """

    errno: int = 0
    message: str = ""
    sqlstate: str = "00000"
    status: int = 0
    affected_rows: int = 0
    statement_id: int = 0
    last_insert_id: int = field(default=0, compare=False)
    warnings: int = 0
    info: str = ""

    @classmethod
    def of(cls, error: Refusal, status: int = 0) -> Outcome:
        """The outcome of an error of the proxy."""
        return cls(error.errno, error.message, error.sqlstate, status)

    @property
    def ok(self) -> bool:
        return self.errno == 0

    def failure(self) -> BackendError:
        """The error that this is, where it is one."""
        return BackendError(self.message, self.errno, self.sqlstate)


@dataclass(frozen=True, slots=True)
class Collected:
    """A whole small result in memory, its text in UTF-8: for SHOW statements that the proxy edits."""

    columns: tuple[ColumnMeta, ...]
    rows: tuple[tuple[TextValue, ...], ...]

    def row(self, columns: int) -> tuple[TextValue, ...]:
        """The first so many values of the answer to a question that has one row.

        Raises:
            BackendError: the database answers otherwise.
        """
        if not self.rows:
            raise unexpected_answer("no row")
        return self.each(columns)[0]

    def each(self, columns: int) -> list[tuple[TextValue, ...]]:
        """The first so many values of every row.

        Raises:
            BackendError: there are fewer.
        """
        if any(len(row) < columns for row in self.rows):
            raise unexpected_answer(f"fewer than {columns} columns")
        return [row[:columns] for row in self.rows]
