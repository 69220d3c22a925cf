"""What a handler raises to decide what happens to its message, and the errors that end a worker."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import pymysql

from queuegate_worker.mysql_client import driver
from queuegate_worker.mysql_client.driver import CONNECTION_LOST


class Reject(Exception):
    """Raised by a handler: the message can never be handled. It goes to the dead-letter queue now."""


class Retry(Exception):
    """Raised by a handler: it failed, and comes again after `delay` seconds; None: after the queue's backoff."""

    delay: float | None = None  # also of a subclass whose constructor does not call this one

    def __init__(self, reason: str = "", *, delay: float | None = None) -> None:
        super().__init__(reason)
        self.delay = delay
        check_delay(self)


class Release(Exception):
    """Raised by a handler: nothing was done. The message is given back, due at once or after `delay` seconds; the
    delivery does not count."""

    delay: float = 0.0

    def __init__(self, reason: str = "", *, delay: float = 0.0) -> None:
        super().__init__(reason)
        self.delay = delay
        check_delay(self)


def check_delay(error: Retry | Release) -> None:
    """Raises ValueError for a delay that the server does not take."""
    delay: Any = error.delay
    try:
        possible = (isinstance(error, Retry) and delay is None) or 0 <= delay <= _DELAY_SECONDS_MAX
    except TypeError:  # it is no number
        possible = False
    if not possible:
        raise ValueError(f"the delay of {type(error).__name__} is {delay!r}; it is 0 to 315360000 seconds (ten years)")


class LeaseLost(Exception):
    """The delivery is over: its lease ran out, and the message was delivered to another receiver, acked, or deleted."""


class TransactionEnded(Exception):
    """The handler's transaction ended before the ack: by a deadlock, a lost connection, or SQL of the handler's such as
    COMMIT or CREATE TABLE."""

    def __init__(self) -> None:
        super().__init__("the worker's transaction has ended (a deadlock, a lost connection, COMMIT, ROLLBACK or DDL)")


class WorkerError(Exception):
    """The worker cannot start or continue. The text contains the reason and no password."""


_DELAY_SECONDS_MAX = 315_360_000  # the server's own bound of a delay

LOST = CONNECTION_LOST | {0, 1105, 1153, 1835}
"""After which a new connection is needed, or could not be had for now. 0: this side has closed it. With the others a
proxy ends a session, or has lost its state: docs/protocol.md."""

BACKEND_LOST = "backend connection lost: "
"""So begins the text of 1105 where the proxy has lost its connection to the database. Other errors have 1105 too."""

PERMANENT = {
    1044: "the account may not use that database",
    1045: "the account or its password is wrong",
    1046: "the URL names no database, and the queue is given without one",
    1049: "there is no such database",
    1054: "a column that was asked for is not there",
    1064: "the server does not understand the worker; does queuegate answer there?",
    1142: "the account lacks a right; a worker needs to receive and to settle",
    1143: "the account lacks a right on a column",
    1146: "there is no such queue",
    1231: "an option has a value that is not allowed",
    1235: "the server refuses what the worker asks for",
    1251: "this PyMySQL cannot log in with the account's plugin",
    1347: "the table is no queue",
    1698: "the account cannot be used through a proxy",
    3118: "the account is locked",
    3159: "the account needs an encrypted connection: give ssl_ca",
}
"""Errors that waiting does not fix, with their meaning for the user who starts a worker."""


def error_number(error: BaseException) -> int:
    """MySQL's number of an error; -1 where it has none, as a handler's own error."""
    return driver.error_number(error, -1) if isinstance(error, pymysql.MySQLError) else -1


def connection_lost(error: BaseException) -> bool:
    """Whether the connection that raised it can no longer be used."""
    return isinstance(error, OSError | pymysql.err.InterfaceError) or error_number(error) in LOST


def permanent(error: BaseException, place: Any) -> WorkerError | None:
    """The error that ends the worker, if waiting would not fix this one."""
    number = error_number(error)
    if number not in PERMANENT:
        return None
    return WorkerError(f"{place}: ERROR {number}: {error.args[-1]} ({PERMANENT[number]})")


def reason_of(error: BaseException) -> str:
    """An error as text for REASON: its class and text, at most the 1000 characters that the server stores."""
    try:
        text = str(error)
    except Exception as failure:  # its __str__ is the handler's code too
        text = f"its text cannot be read: {type(failure).__name__}"
    explicit = isinstance(error, Reject | Retry | Release)
    whole = text if explicit else f"{type(error).__name__}: {text}" if text else type(error).__name__
    return whole[:1000].encode("utf-8", "backslashreplace").decode()[:1000]


_AROUND = ("queuegate_worker", "asyncio", "concurrent", "contextlib")
_TRANSACTION = "queuegate_worker.transaction"


def for_log(error: BaseException) -> tuple[type[BaseException], BaseException, TracebackType | None]:
    """An error with the part of its traceback that is the handler's: from its first line to its call of the worker's
    transaction. The whole one where the handler has no part in it."""
    part, step = list[TracebackType](), error.__traceback__
    while step is not None and (part or _module(step) != _TRANSACTION):
        if part or _module(step).partition(".")[0] not in _AROUND:
            part.append(step)
        if part and _module(step) == _TRANSACTION:
            break
        step = step.tb_next
    traceback = None
    for each in reversed(part):
        traceback = TracebackType(traceback, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return type(error), error, traceback or error.__traceback__


def _module(step: TracebackType) -> str:
    return str(step.tb_frame.f_globals.get("__name__", ""))
