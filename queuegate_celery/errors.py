"""MySQL's errors as those of AMQP, which Kombu and Celery handle: retry on a new connection, or report what is wrong.

After a recoverable error Celery's worker reconnects, and a producer publishes again by its `task_publish_retry_policy`.
Other errors are raised where they happen, and end a worker. So only errors that waiting does not fix are of that kind.
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
from pymysql.err import OperationalError, error_map

from queuegate_celery.mysql_client.driver import CONNECTION_LOST, error_number, error_text
from queuegate_celery.settings import Address

UNKNOWN_DATABASE, NO_COLUMN, TABLE_EXISTS, LOCK_WAIT, DEADLOCK, KILLED = 1049, 1054, 1050, 1205, 1213, 1317
NO_TABLE, NOT_A_QUEUE = 1146, 1347
RETRYABLE = frozenset({LOCK_WAIT, DEADLOCK})
_LOST = CONNECTION_LOST | {0}  # 0: this side has closed it
_DENIED = frozenset({1044, 1142, 1143, 1227})
_LOGIN = frozenset({1045, 1130, 1251, 1698, 3118, 3159})
_REFUSED = frozenset(
    {1046, 1050, 1059, 1104, 1115, 1118, 1136, 1153, 1210, 1231, 1292, 1300, 1305, 1364, 1370, 1644, 1690, 3819, 4025}
)
"""What waiting does not fix, in addition to the errors that PyMySQL has classes for: a wrong value, a wrong name."""

RETRY_SECONDS = 1.0
"""The pause before a statement that the database did not execute is sent again."""

CONNECTION_ERRORS = (ConnectionError, OSError)
CHANNEL_ERRORS = (ChannelError,)
RECOVERABLE_CONNECTION_ERRORS = (RecoverableConnectionError, OSError)
RECOVERABLE_CHANNEL_ERRORS = (RecoverableChannelError,)


class Unavailable(RecoverableConnectionError):  # type: ignore[misc]
    """The database does not execute the statement now: it is read-only, a lock is held, a node has no majority. It may
    be sent again."""


def is_connection_lost(error: BaseException) -> bool:
    """Whether the connection can no longer be used."""
    return isinstance(error, OSError) or error_number(error) in _LOST


def to_amqp_error(error: BaseException, address: Address) -> Any:
    """AMQP's exception for one of PyMySQL or of the socket, with advice where possible."""
    code, message = error_number(error), f"{address.shown}: {error_text(error)}"
    if is_connection_lost(error):
        return RecoverableConnectionError(f"the connection to {message}")
    if code in _LOGIN:
        return IrrecoverableConnectionError(f"user {address.user!r} is not let in by {message}")
    if code == UNKNOWN_DATABASE:
        return IrrecoverableConnectionError(
            f"{message}. The path of broker_url names the database; the embedded backend has one alone, `main`"
        )
    if code in _DENIED:
        return AccessRefused(f"{message}. Grant user {address.user!r} what is missing: docs/celery.md lists the rights")
    if code == NO_TABLE:
        return NotFound(
            f"{message}. A queue is made when it is declared; an exclusive one gets messages by exchange alone"
        )
    if code in (NOT_A_QUEUE, NO_COLUMN):
        return PreconditionFailed(
            f"{message}. A queue of Celery's shares its name with another table: give Celery a database of its own, or "
            "set broker_transport_options['queue_prefix']"
        )
    if code in _REFUSED or error_map.get(code, OperationalError) is not OperationalError:
        return ChannelError(message)
    return Unavailable(message)
