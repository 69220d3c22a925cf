"""sqlite3's exceptions as MySQL errors: number, SQLSTATE and text a MySQL client understands.

Only what SQLite itself reports is used here; a caller that knows the schema may refine the text (which key, which
value).
"""

from __future__ import annotations

import re
import sqlite3

from engine.model.errors import BackendError, BackendUnavailable, LockWaitTimeout


class SqliteFault(BackendError):
    """SQLite refused a statement. `code` is SQLite's own name of the fault, `detail` its text."""

    def __init__(self, code: str, detail: str, message: str, errno: int) -> None:
        super().__init__(message, errno)
        self.code = code
        self.detail = detail


class SqliteInterrupted(SqliteFault):
    """The running statement was interrupted (KILL QUERY, or its client went away)."""

    def __init__(self) -> None:
        super().__init__("SQLITE_INTERRUPT", "interrupted", "Query execution was interrupted", 1317)


# Pattern of SQLite's text, MySQL errno, MySQL's text with the groups of the pattern.
_TEXTS: tuple[tuple[re.Pattern[str], int, str], ...] = (
    (re.compile(r"UNIQUE constraint failed: index '(.+)'"), 1062, "Duplicate entry for key '{0}'"),
    (re.compile(r"UNIQUE constraint failed: (.+)"), 1062, "Duplicate entry for key '{0}'"),
    (re.compile(r"NOT NULL constraint failed: [^.]+\.(.+)"), 1048, "Column '{0}' cannot be null"),
    (re.compile(r"CHECK constraint failed: (.+)"), 3819, "Check constraint '{0}' is violated."),
    (
        re.compile(r"FOREIGN KEY constraint failed"),
        1452,
        "Cannot add or update a child row: a foreign key constraint fails",
    ),
    (re.compile(r"no such table: (?:main\.)?(.+)"), 1146, "Table 'main.{0}' doesn't exist"),
    (re.compile(r"no such column: (.+)"), 1054, "Unknown column '{0}' in 'field list'"),
    (re.compile(r"Expression tree is too large.*"), 1235, "The expression is nested too deeply; simplify it"),
    (re.compile(r"parser stack overflow"), 1235, "The expression is nested too deeply; simplify it"),
    (re.compile(r"misuse of aggregate.*"), 1111, "Invalid use of group function"),
    (re.compile(r"misuse of window function.*"), 3593, "You cannot use a window function in this context."),
    (re.compile(r"too many arguments on function (.+)"), 1235, "Too many arguments of {0}"),
    (re.compile(r"too many SQL variables"), 1390, "Prepared statement contains too many placeholders"),
    (re.compile(r"too many columns.*"), 1117, "Too many columns"),
    (re.compile(r"too many terms in (.+)"), 1235, "Too many terms in {0}; split the statement"),
    (re.compile(r"LIKE or GLOB pattern too complex"), 1235, "A LIKE pattern may have 1024 bytes; shorten it"),
    (re.compile(r"integer overflow"), 1690, "BIGINT value is out of range"),
    (re.compile(r"string or blob too big|too big"), 1301, "Result of the statement is larger than allowed"),
)

_CODES: dict[str, tuple[int, str]] = {
    "SQLITE_FULL": (1021, "Disk full: the statement was not carried out"),
    "SQLITE_READONLY": (1290, "The database file is read-only"),
    "SQLITE_NOMEM": (1037, "Out of memory"),
    "SQLITE_TOOBIG": (1301, "Value or statement is larger than SQLite allows"),
}

_BROKEN = ("SQLITE_IOERR", "SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_CANTOPEN")


def translate(error: sqlite3.Error) -> BackendError:
    """The MySQL error for what sqlite3 raised; the cause is left to `raise ... from`."""
    code = str(getattr(error, "sqlite_errorname", "") or "")
    detail = str(error)
    if code.startswith("SQLITE_INTERRUPT") or detail == "interrupted":
        return SqliteInterrupted()
    if code.startswith("SQLITE_BUSY_SNAPSHOT"):
        text = "Record has changed since last read in the snapshot; try restarting transaction"
        return SqliteFault(code, detail, text, 1213)
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return LockWaitTimeout()
    if code.startswith(_BROKEN):
        return BackendUnavailable(f"The database file cannot be used: {detail}", 1030)
    return _by_text(code, detail)


def _by_text(code: str, detail: str) -> SqliteFault:
    for pattern, errno, text in _TEXTS:
        match = pattern.fullmatch(detail)
        if match:
            return SqliteFault(code, detail, text.format(*match.groups()), errno)
    for prefix, (errno, text) in _CODES.items():
        if code.startswith(prefix):
            return SqliteFault(code, detail, text, errno)
    return SqliteFault(code, detail, f"SQLite: {detail}", 1105)
