"""The connections that applications have, and how a statement runs on each.

All of them take `%s` for a value: the drivers PyMySQL, mysqlclient and mysql-connector, aiomysql and asyncmy, Django's
connections, and SQLAlchemy's connections and sessions, which pass the statement to the driver as it is. A statement is
part of the transaction that is open there; nothing is committed here.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from queuegate_worker.errors import WorkerError

Id = int
_DUPLICATE = 1062

_KNOWN = (
    "give a connection of PyMySQL, mysqlclient or mysql-connector, a connection or session of SQLAlchemy, or Django's"
)

_NEW = (
    "the function gives another connection each time, which nobody would commit; "
    "it has to return the one whose transaction is open, such as lambda: session"
)
_OF_ASYNCIO = "the connection is one of asyncio: use send_async"


def run(connection: Any, sql: str, values: Sequence[Any]) -> Id | None:
    """Run an INSERT; the id that the database has given its first row, if any.

    Raises WorkerError if it is no connection, and the errors of its driver.
    """
    connection = _resolved(connection)
    if _is_session(connection):
        return _last_id(_synchronous(_synchronous(connection.connection()).exec_driver_sql(sql, tuple(values))))
    if hasattr(connection, "exec_driver_sql"):
        return _last_id(_synchronous(connection.exec_driver_sql(sql, tuple(values))))
    cursor = _synchronous(connection.cursor())
    if hasattr(cursor, "__aenter__"):
        raise WorkerError(_OF_ASYNCIO)
    with closing(cursor):
        cursor.execute(sql, tuple(values))
        return _last_id(cursor)


async def run_async(connection: Any, sql: str, values: Sequence[Any]) -> Id | None:
    """The same on a connection of asyncio: of SQLAlchemy (AsyncSession, AsyncConnection), aiomysql or asyncmy."""
    connection = _resolved(connection)
    if _is_session(connection):
        connection = await _awaited(connection.connection(), connection)
    if hasattr(connection, "exec_driver_sql"):
        result = await _awaited(connection.exec_driver_sql(sql, tuple(values)), connection)
        return _last_id(result)
    cursor = connection.cursor()
    if not hasattr(cursor, "__aenter__"):
        raise WorkerError(f"{_class_of(connection)} is no connection of asyncio: use send")
    async with cursor as opened:
        await opened.execute(sql, tuple(values))
        return _last_id(opened)


def is_duplicate(error: BaseException) -> bool:
    """Whether a driver's error is that of a unique key (1062), as the driver, SQLAlchemy or Django raises it."""
    original: Any = getattr(error, "orig", None) or error
    number = getattr(original, "errno", None) or (original.args[0] if original.args else None)
    return bool(number == _DUPLICATE)


def check(connection: Any) -> None:
    """Refuse what is neither a connection nor a function that may return one. Raises WorkerError."""
    if not _is_connection(connection) and not callable(connection):
        raise WorkerError(f"{_class_of(connection)} is no connection; {_KNOWN}")


def _resolved(connection: Any) -> Any:
    """The connection itself, where a function that returns one stands for it."""
    check(connection)
    if _is_connection(connection):
        return connection
    made = connection()
    if not _is_connection(made):
        raise WorkerError(f"{_class_of(made)} is no connection; {_KNOWN}")
    # A sessionmaker, or engine.connect: the message would be rolled back as soon as its connection is forgotten.
    if connection() is not made:
        raise WorkerError(_NEW)
    return made


def _is_connection(value: Any) -> bool:
    if isinstance(value, type):
        return False
    return _is_session(value) or hasattr(value, "exec_driver_sql") or callable(getattr(value, "cursor", None))


def _is_session(value: Any) -> bool:
    """A session of SQLAlchemy, also a scoped or asynchronous one."""
    return callable(getattr(value, "get_bind", None)) and callable(getattr(value, "connection", None))


def _last_id(result: Any) -> Id | None:
    return result.lastrowid or None


def _synchronous(result: Any) -> Any:
    """A result that is there already: of a connection of asyncio there would only be a coroutine."""
    if not hasattr(result, "__await__"):
        return result
    if inspect.iscoroutine(result):
        result.close()  # it was never to run
    raise WorkerError(_OF_ASYNCIO)


async def _awaited(result: Any, connection: Any) -> Any:
    if not hasattr(result, "__await__"):
        raise WorkerError(f"{_class_of(connection)} is not of asyncio: use send")
    return await result


def _class_of(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
