"""Every error the engine raises, each with the MySQL error number a client shall see.

The docstring of a class says what happened; `errno` and `sqlstate` are MySQL's own, so the proxy can pass
them on without a second table.
"""

from __future__ import annotations

READ_ONLY = frozenset((1290, 1836, 3100))
"""A server that lets itself be read only: for a moment, or because another one writes by now (failover)."""

TRANSIENT = frozenset((1020, 1213))
"""A transaction was rolled back because of another one (deadlock, changed row): the same again may well succeed."""


class EngineError(Exception):
    """Something the engine refuses or cannot do."""

    errno = 1105
    sqlstate = "HY000"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class QueueNotFound(EngineError):
    """The name is neither a queue nor a table."""

    errno = 1146
    sqlstate = "42S02"


class NotAQueue(EngineError):
    """The name is an ordinary table."""

    errno = 1347
    sqlstate = "HY000"


class InvalidOption(EngineError):
    """A queue option is unknown or its value is absurd. The message lists what is allowed."""

    errno = 1231
    sqlstate = "42000"


class InvalidQueueTable(EngineError):
    """A table says it is a queue but lacks a column or key that a queue needs."""

    errno = 1231
    sqlstate = "42000"


class UnknownColumn(EngineError):
    """A stream names a column that the queue does not have."""

    errno = 1054
    sqlstate = "42S22"


class TooManyFilters(EngineError):
    """The queue has streams with as many different conditions as it may have."""

    errno = 1226
    sqlstate = "42000"


class StreamKilled(EngineError):
    """KILL QUERY ended the stream."""

    errno = 1317
    sqlstate = "70100"


class ShuttingDown(EngineError):
    """The proxy is stopping; unacked messages go back uncounted."""

    errno = 1053
    sqlstate = "08S01"


class BackendError(EngineError):
    """The database refused a statement. Carries the database's own number, SQLSTATE and text."""

    def __init__(self, message: str, errno: int = 1105, sqlstate: str = "HY000") -> None:
        super().__init__(message)
        self.errno = errno
        self.sqlstate = sqlstate


class BackendUnavailable(BackendError):
    """The database cannot be reached, or the connection broke: the outcome of the last statement is unknown."""

    def __init__(self, message: str, errno: int = 1105, sqlstate: str = "08S01") -> None:
        super().__init__(message, errno, sqlstate)


class CommitUnknown(BackendUnavailable):
    """The connection broke in a COMMIT; `result` is what the transaction came to, if it was committed."""

    def __init__(self, error: BackendUnavailable, result: object) -> None:
        super().__init__(error.message, error.errno, error.sqlstate)
        self.result = result


class LockWaitTimeout(BackendError):
    """The bounded wait for a lock ran out; nothing was changed."""

    def __init__(self, message: str = "Lock wait timeout exceeded; try restarting transaction") -> None:
        super().__init__(message, 1205, "HY000")
