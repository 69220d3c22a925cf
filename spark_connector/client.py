"""A connection to the proxy: errors that say what to do, transactions that are tried again where that is safe."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar

import pymysql
from pymysql.cursors import SSCursor

from spark_connector.errors import ConnectionFailed, ConnectorError
from spark_connector.options import Address

T = TypeVar("T")
Row = tuple[Any, ...]

LOCK_WAIT, DEADLOCK, NO_TABLE, NO_SUCH_COLUMN, DUPLICATE = 1205, 1213, 1146, 1054, 1062
_AGAIN = frozenset({LOCK_WAIT, DEADLOCK})
_LOST = frozenset({2006, 2013, 2014, 1053, 1927})  # of the client library, and of a server that ends
_DENIED = frozenset({1044, 1045, 1142, 1227})
_ATTEMPTS = 5
_PAUSE = 0.05  # seconds before a transaction is tried again; doubled each time


class Client:
    """One connection, autocommit. Not for several threads at once; never pickled: each process opens its own."""

    def __init__(self, address: Address, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self.address = address
        self._sleep = sleep
        self._connection = _connect(address)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Hang up; what is not committed is rolled back by the server."""
        try:
            self._connection.close()
        except pymysql.Error:
            pass  # it was lost before

    def rows(self, sql: str, args: Sequence[Any] = ()) -> list[Row]:
        """All rows of a result. Raises pymysql's errors."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql, args or None)
            return list(cursor.fetchall())

    def row(self, sql: str, args: Sequence[Any] = ()) -> Row | None:
        """The first row, or None."""
        return next(iter(self.rows(sql, args)), None)

    def value(self, sql: str, args: Sequence[Any] = ()) -> Any:
        """The only value of a result that has exactly one row."""
        return self.rows(sql, args)[0][0]

    def execute(self, sql: str, args: Sequence[Any] = ()) -> int:
        """How many rows the statement changed."""
        with self._connection.cursor() as cursor:
            return int(cursor.execute(sql, args or None))

    def chunks(self, sql: str, args: Sequence[Any], size: int) -> Iterator[tuple[Row, ...]]:
        """The rows of a result as they come, `size` at a time: memory stays bounded however many there are."""
        with self._connection.cursor(SSCursor) as cursor:
            cursor.execute(sql, args or None)
            while chunk := cursor.fetchmany(size):
                yield tuple(chunk)

    def now_ns(self) -> int:
        """The database's clock, in unix nanoseconds: whole microseconds, as every time of a message."""
        microseconds = self.value("SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)")
        return int(microseconds) * 1000

    def transaction(self, work: Callable[[], T]) -> T:
        """Runs `work` in a transaction and commits it; again, from its beginning, after a deadlock or a lock timeout.

        Where the connection is lost during COMMIT nobody knows whether it was done: ConnectionFailed, and the caller
        must be able to begin anew either way.
        """
        for attempt in range(_ATTEMPTS):
            try:
                with self._transaction():
                    return work()
            except pymysql.Error as error:
                if number(error) not in _AGAIN or attempt == _ATTEMPTS - 1:
                    raise told(error, self.address) from error
                self._sleep(_PAUSE * 2**attempt)
        raise AssertionError("unreachable")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.begin()
        try:
            yield
            self._connection.commit()
        except BaseException:
            try:
                self._connection.rollback()
            except pymysql.Error:
                pass  # the connection is gone, and the transaction with it
            raise


def number(error: BaseException) -> int:
    """MySQL's number of an error, 0 where it has none."""
    found = error.args[0] if error.args else 0
    return found if isinstance(found, int) else 0


def told(error: pymysql.Error, address: Address) -> Exception:
    """The same error in words that say what to do, where there is something to say; else as it is."""
    if number(error) in _LOST:
        return ConnectionFailed(f"the connection to {_at(address)} was lost: {_text(error)}")
    if number(error) in _DENIED:
        return ConnectionFailed(
            f"{_at(address)} refuses user {address.user!r}: {_text(error)}. Grant it what is missing"
        )
    return ConnectorError(f"{_at(address)}: {_text(error)}")


def quoted(*names: str) -> str:
    """A name, or a name of names, as SQL writes it."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)


def _connect(address: Address) -> pymysql.Connection[Any]:
    try:
        return pymysql.connect(
            host=address.host,
            port=address.port,
            user=address.user,
            password=address.password,
            database=address.database,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=max(1, round(address.connect_timeout)),
            read_timeout=address.query_timeout,
            write_timeout=address.query_timeout,
            **_tls(address),
        )
    except pymysql.Error as error:
        what = "cannot connect to" if number(error) not in _DENIED else "is not let in by"
        raise ConnectionFailed(f"user {address.user!r} {what} {_at(address)}: {_text(error)}") from error


def _tls(address: Address) -> dict[str, Any]:
    if address.ssl == "disabled":
        return {"ssl_disabled": True}
    if address.ssl == "required":
        return {"ssl": {"check_hostname": False, "verify_mode": "none"}}
    return {"ssl_ca": address.ssl_ca, "ssl_verify_cert": True, "ssl_verify_identity": True}


def _at(address: Address) -> str:
    return f"{address.host}:{address.port}/{address.database}"


def _text(error: pymysql.Error) -> str:
    return f"error {number(error)}: {error.args[1]}" if len(error.args) > 1 else str(error)
