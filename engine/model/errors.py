"""Every error the engine raises, each with the MySQL error number a client shall see.

The docstring of a class describes what happened; `errno` is MySQL's own; its SQLSTATE is in engine.model.sqlstates.
"""

from __future__ import annotations

import re
from types import TracebackType

from engine.model.sqlstates import sqlstate_of

READ_ONLY = frozenset((1290, 1836, 3100))
"""The server is read-only: for a moment, or because another one is the primary by now (failover)."""

ROLLED_BACK = frozenset((1020, 1213, 3101))
"""A transaction was rolled back because of another one (deadlock, changed row, a conflict with another member of a
Group Replication group): a retry may well succeed."""

NO_SUCH_TABLE = 1146

_LOCK_WAIT = 1205

LOCKED = frozenset((_LOCK_WAIT, 1467, 3572))
"""Another transaction has locked a row, or an INSERT ... SELECT the table's ids, and the statement did not wait, or no
longer."""

INTERRUPTED = frozenset((1317, 1969, 3024))
"""A statement was ended by an administrator or a time limit; earlier statements of the same packet stay in effect."""

STALE_CATALOG = frozenset((1054, 1146, 1176))
"""Unknown column, table, index: the queue changed around the proxy."""

_RIGHTS = frozenset((1044, 1045, 1142, 1143, 1227, 1370, 1698))
"""A right is missing."""

_STATEMENT = frozenset((1046, 1049, 1051, 1064, 1109, 1149))
"""A name or the syntax of the statement itself. Not 1305: a trigger may call a missing function for some rows only."""

_RESOURCES = frozenset((1021, 1030, 1037, 1038, 1041, 1047, 1053, 1114, 1135, 1203, 1206, 1226, 1637, 1878))
"""The disk, a table or the memory is full, or too much is in use: of the server, or of the account."""

_TABLE_STATE = frozenset((1036, 1099, 1100, 1180, 1192, 1194, 1195, 1223, 1412, 1615, 1792, 1874))
"""The table or the transaction allows no writes, the table has just been changed, or is damaged."""

_SERVER = frozenset((1016, 1026, 1034, 1296, 1598, 1665, 1712, 1814, 1815, 1932, 3098))
"""A file, an index, a tablespace or a table's definition is damaged or gone, or the binary log cannot be written."""

_SERVER_MAX = 999
"""Numbers up to it are of files and memory, not of statements."""

_OF_NO_ROW = _SERVER | STALE_CATALOG | INTERRUPTED | LOCKED | _RIGHTS | _STATEMENT | _RESOURCES | _TABLE_STATE

_TRANSIENT = READ_ONLY | ROLLED_BACK | {_LOCK_WAIT}


_SERVER_NAMES_ONLY = (
    "1005 1008 1036 1040 1044 1045 1048 1049 1050 1051 1053 1054 1059 1072 1091 1103 1129 1130 1142 1143 1146 1193 1203"
    " 1205 1213 1226 1227 1231 1235 1264 1267 1290 1305 1347 1364 1370 1406 1451 1452 1698 1836 3024 3100 3819 4025"
)
_NAMES_ONLY = frozenset((*map(int, _SERVER_NAMES_ONLY.split()), *range(2000, 3000)))
"""Errors whose texts quote names of tables, columns and accounts; most others quote values."""

_SIGNAL = 1644  # its text comes from a trigger, and may contain values of the row
_QUOTED = re.compile(r"(?!(?<=n)'t )'.*'", re.DOTALL)  # not from the apostrophe of "Can't"
_AFTER_VALUE = re.compile(r"' (for (?:key|column) [`'\w.$-]+(?: at row \d+)?)\Z")


def _without_values(message: str, errno: int) -> str:
    """A database's text without what may be a value of a row. A value may contain quotes, too."""
    if errno in _NAMES_ONLY:
        return message
    if errno == _SIGNAL:
        return "a trigger refused it (its text is left out)"
    tail = _AFTER_VALUE.search(message)
    if tail is None:
        return _QUOTED.sub("'...'", message)
    return " ".join((_QUOTED.sub("'...'", message[: tail.start() + 1]), tail[1]))


class ClientError(Exception):
    """An error that a client gets as an ERR packet: a number, its SQLSTATE and a text."""

    errno = 1105

    def __init__(self, message: str, errno: int | None = None, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if errno is not None:
            self.errno = errno
        self.sqlstate = sqlstate or sqlstate_of(self.errno)


class EngineError(ClientError):
    """Something the engine refuses or cannot do."""


class QueueNotFound(EngineError):
    """The name is neither a queue nor a table."""

    errno = NO_SUCH_TABLE


class NotAQueue(EngineError):
    """The name is an ordinary table."""

    errno = 1347


class InvalidOption(EngineError):
    """A queue option is unknown or its value is absurd. The message lists what is allowed."""

    errno = 1231


class InvalidQueueTable(EngineError):
    """A table is marked as a queue but lacks a column or key that a queue needs."""

    errno = 1231


class GroupNotNew(EngineError):
    """A consumer group whose beginning is to be written reads already: another session has made it."""

    errno = 1050


class UnknownColumn(EngineError):
    """A stream names a column that the queue does not have."""

    errno = 1054


class TooManyFilters(EngineError):
    """The queue has streams with as many different conditions as it may have."""

    errno = 1226


class StreamKilled(EngineError):
    """KILL QUERY ended the stream."""

    errno = 1317


class ShuttingDown(EngineError):
    """The proxy is stopping; unacked messages go back uncounted."""

    errno = 1053


class BackendError(EngineError):
    """The database refused a statement. Carries the database's own number, SQLSTATE and text.

    `message` is for the client whose statement it was. As a string, as in logs, it contains no values of rows.
    `committed`: how many statements of the same round trip were answered before, each a transaction of its own.
    `of_rows`: a change of rows that were locked before has waited in vain, so their triggers need what others have
    locked.
    """

    def __init__(self, message: str, errno: int = 1105, sqlstate: str | None = None) -> None:
        super().__init__(message, errno, sqlstate)
        self.committed, self.of_rows = 0, False
        self.args = (_without_values(message, errno),)

    @property
    def number_only(self) -> str:
        """For everybody who may see that there is a problem: the text may be a trigger's, and quote a message."""
        return f"error {self.errno}, which the log explains"


class BackendUnavailable(BackendError):
    """The database cannot be reached, or the connection broke: the outcome of the last statement is unknown."""

    def __init__(self, message: str, errno: int = 1105, sqlstate: str = "08S01") -> None:
        super().__init__(message, errno, sqlstate)


TOO_LARGE = 2020
"""The number of AnswerTooLarge: the client library's own for a packet that is too large."""


class AnswerTooLarge(BackendUnavailable):
    """The answer to statements that may be sent again for fewer rows was too large: for the connection, which was
    closed then, or for the programs of a Vitess among each other. A transaction that was not committed before its rows
    is rolled back."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__(f"the rows of one statement have more than {bytes_max >> 20} MiB", TOO_LARGE)


class PartlyRefused(BackendError):
    """A shard refuses its part of a statement for now; `changed`: how many messages the others have changed."""

    def __init__(self, error: BackendError, changed: int) -> None:
        super().__init__(error.message, error.errno, error.sqlstate)
        self.changed, self.of_rows = changed, error.of_rows


class CommitUnknown(BackendUnavailable):
    """The connection broke in a COMMIT; `result` is the transaction's result, if it was committed."""

    def __init__(self, error: BackendUnavailable, result: object) -> None:
        super().__init__(error.message, error.errno, error.sqlstate)
        self.result = result


class LockWaitTimeout(BackendError):
    """The bounded wait for a lock timed out; nothing was changed."""

    def __init__(self, message: str = "Lock wait timeout exceeded; try restarting transaction") -> None:
        super().__init__(message, _LOCK_WAIT)


class MissingTableAllowed:
    """For `with`: the statements inside end without an error where a table does not exist."""

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        return isinstance(error, BackendError) and error.errno == NO_SUCH_TABLE


def is_refusal(error: BackendError) -> bool:
    """Whether a statement about several rows may have failed because of one of them. The SQLSTATE does not say it: a
    trigger may give any, and MySQL has 42000 for a SELECT INTO that finds two rows."""
    return not is_transient(error) and error.errno > _SERVER_MAX and error.errno not in _OF_NO_ROW


def fails_as_whole(error: BackendError) -> bool:
    """Whether work on several rows may have failed because of how they are, and may succeed with fewer of them."""
    return error.errno == TOO_LARGE or error.of_rows or is_refusal(error)


def is_transient(error: BackendError) -> bool:
    """Whether a retry may succeed later: the database is unreachable, read-only for a moment, or another transaction
    conflicted."""
    return isinstance(error, BackendUnavailable) or error.errno in _TRANSIENT
