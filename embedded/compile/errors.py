"""What the SQLite dialect refuses, with MySQL's numbers and texts."""

from __future__ import annotations

from rewriter.errors import RewriteError, UnsupportedSql


class SqlError(RewriteError):
    """A statement or value refused with the given MySQL number."""

    def __init__(self, errno: int, message: str) -> None:
        super().__init__(message, errno)


class ValueRefused(SqlError):
    """A value does not fit its column. The text ends in 'at row N'; the row is known when the statement runs."""

    def __init__(self, errno: int, text: str) -> None:
        super().__init__(errno, f"{text} at row 1")
        self.text = text

    def at_row(self, row: int) -> ValueRefused:
        self.message = f"{self.text} at row {row}"
        self.args = (self.message,)
        return self


def unknown_column(name: str, clause: str) -> SqlError:
    return SqlError(1054, f"Unknown column '{name}' in '{clause}'")


def unsupported(what: str, instead: str = "") -> UnsupportedSql:
    """1235 with what to do instead."""
    hint = f"; {instead}" if instead else ""
    return UnsupportedSql(f"The embedded backend does not support {what}{hint}")
