"""MySQL's errors as those of AMQP, which Kombu and Celery know: try again on a new connection, or say what is wrong.

What is recoverable Celery's worker answers with a new connection, and a producer by publishing again, as
`task_publish_retry_policy` says. The rest is raised where it happens.
"""

from __future__ import annotations

from typing import Any

from amqp.exceptions import (
    AccessRefused,
    ChannelError,
    ConnectionError,
    IrrecoverableConnectionError,
    NotFound,
    PreconditionFailed,
    RecoverableChannelError,
    RecoverableConnectionError,
)

from queuegate_celery.settings import Address

UNKNOWN_DATABASE, NO_COLUMN, TABLE_EXISTS, LOCK_WAIT, DEADLOCK, KILLED = 1049, 1054, 1050, 1205, 1213, 1317
NO_TABLE, NOT_A_QUEUE = 1146, 1347
AGAIN = frozenset({LOCK_WAIT, DEADLOCK})
# Of the client library, of a proxy or server that ends or is full, and of one that cut an idle line.
_LOST = frozenset(
    {2000, 2002, 2003, 2006, 2013, 2014, 2055, 1040, 1042, 1053, 1158, 1159, 1160, 1161, 1203, 1218, 1927, 3169, 4031}
)
_DENIED = frozenset({1044, 1142, 1143, 1227})
_LOGIN = frozenset({1045, 1698})

CONNECTION_ERRORS = (ConnectionError, OSError)
CHANNEL_ERRORS = (ChannelError,)
RECOVERABLE_CONNECTION_ERRORS = (RecoverableConnectionError, OSError)
RECOVERABLE_CHANNEL_ERRORS = (RecoverableChannelError,)


def number(error: BaseException) -> int:
    """MySQL's number of an error, 0 where it has none."""
    found = error.args[0] if error.args else 0
    return found if isinstance(found, int) else 0


def text(error: BaseException) -> str:
    """The number and the words."""
    return f"error {number(error)}: {error.args[1]}" if len(error.args) > 1 else str(error) or type(error).__name__


def lost(error: BaseException) -> bool:
    """Whether the connection is of no more use."""
    return isinstance(error, OSError) or number(error) in _LOST or number(error) == 0


def told(error: BaseException, address: Address) -> Any:
    """An exception: AMQP's for one of PyMySQL's or of the socket, with a word on what to do where there is one."""
    code, said = number(error), f"{address.shown}: {text(error)}"
    if lost(error):
        return RecoverableConnectionError(f"the connection to {said}")
    if code in _LOGIN:
        return IrrecoverableConnectionError(f"user {address.user!r} is not let in by {said}")
    if code == UNKNOWN_DATABASE:
        return IrrecoverableConnectionError(
            f"{said}. The path of broker_url names the database; the embedded backend has one alone, `main`"
        )
    if code in _DENIED:
        return AccessRefused(f"{said}. Grant user {address.user!r} what is missing: docs/celery.md lists the rights")
    if code == NO_TABLE:
        return NotFound(
            f"{said}. A queue is made when it is declared; an exclusive one gets messages by exchange alone"
        )
    if code in (NOT_A_QUEUE, NO_COLUMN):
        return PreconditionFailed(
            f"{said}. A queue of Celery's shares its name with another table: give Celery a database of its own, or "
            "set broker_transport_options['queue_prefix']"
        )
    if code in AGAIN:
        return RecoverableChannelError(said)
    return ChannelError(said)
