"""A connection to the proxy: errors with advice, transactions that are retried where that is safe."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar

import pymysql

from spark_connector.client.row_blocks import Block, blocks
from spark_connector.errors import ConnectionFailed, ConnectorError, OptionError
from spark_connector.mysql_client.driver import (
    CONNECTION_LOST,
    OWN_SESSION,
    error_number,
    error_text,
    is_encrypted,
    set_read_timeout,
)
from spark_connector.options import Address

T = TypeVar("T")
Row = tuple[Any, ...]

_UNKNOWN_DATABASE = 1049
LOCK_WAIT, DEADLOCK, NO_TABLE = 1205, 1213, 1146
_RETRYABLE = frozenset({LOCK_WAIT, DEADLOCK})
LOST = CONNECTION_LOST | {0}
"""The connection can no longer be used; 0: this side has closed it."""

_DENIED = frozenset({1044, 1045, 1142, 1227})
_ATTEMPTS = 5
# Whatever the server's own settings are: texts have their escapes, results all rows, and COMMIT begins no transaction.
# TIMESTAMPs are in UTC; and a task may process rows for a long time before it reads the next ones.
_SESSION = f"{OWN_SESSION}, time_zone = '+00:00', net_write_timeout = 3600"
NOW_US = "CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)"
"""The database's clock as SQL, in unix microseconds: the resolution of all times of messages."""

_PAUSE = 0.05  # seconds before a transaction is retried; doubled each time


class Client:
    """One connection, autocommit. Not thread-safe; never pickled: each process opens its own."""

    def __init__(
        self,
        address: Address,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.address = address
        self._sleep, self._clock = sleep, clock
        self._clock_offset: int | None = None  # nanoseconds that the database's clock is ahead of this process's clock
        self._connection = _connect(address)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the server rolls back what is not committed."""
        try:
            self._connection.close()
        except pymysql.Error:
            pass  # it was lost before

    def rows(self, sql: str, args: Sequence[Any] = ()) -> list[Row]:
        """All rows of a result. Raises pymysql's errors."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql, args or None)
            return list(cursor.fetchall())

    def dict_rows(self, sql: str, args: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """All rows of a result as dicts, by column names in lower case. Raises pymysql's errors."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql, args or None)
            names = [str(column[0]).lower() for column in cursor.description]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

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

    def blocks(self, sql: str, args: Sequence[Any], size: int) -> Iterator[Block]:
        """The rows of a SELECT, unbuffered, at most `size` at a time: memory is bounded.

        In the text `%` is written `%%`, even if there are no values; `escaped` does so. If the caller stops before the
        end, the connection is closed. Raises pymysql's errors.
        """
        with self._connection.cursor() as cursor:
            text = cursor.mogrify(sql, tuple(args))
        return blocks(self._connection, text, size)

    def now_ns(self) -> int:
        """The database's clock, in unix nanoseconds."""
        return int(self.value(f"SELECT {NOW_US}")) * 1000

    def approximate_now_ns(self) -> int:
        """The same, accurate to about a second: the database is queried once per connection."""
        if self._clock_offset is None:
            self._clock_offset = self.now_ns() - int(self._clock() * 1e9)
        return self._clock_offset + int(self._clock() * 1e9)

    def statement(self, sql: str) -> int:
        """Runs a statement as a transaction; how many rows it changed. Retried after a deadlock or lock timeout."""
        return self._retry(lambda: self.execute(sql))

    def transaction(self, work: Callable[[], T]) -> T:
        """Runs `work` in a transaction and commits it. Retried as a whole after a deadlock or a lock timeout.

        If the connection is lost during COMMIT, the outcome is unknown: ConnectionFailed. The caller must be able to
        start again in both cases.
        """

        def whole() -> T:
            with self._transaction():
                return work()

        return self._retry(whole)

    def _retry(self, work: Callable[[], T]) -> T:
        for attempt in range(_ATTEMPTS):
            try:
                return work()
            except pymysql.Error as error:
                if error_number(error) not in _RETRYABLE or attempt == _ATTEMPTS - 1:
                    raise to_connector_error(error, self.address) from error
                self._sleep(_PAUSE * 2**attempt)
        raise AssertionError("unreachable")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self.execute("START TRANSACTION")  # in sql_mode ORACLE, BEGIN opens a block of statements
        try:
            yield
            self._connection.commit()
        except BaseException:
            try:
                self._connection.rollback()
            except pymysql.Error:
                pass  # the connection is lost, and the transaction with it
            raise


def to_connector_error(error: pymysql.Error, address: Address) -> Exception:
    """The error as one of the connector, with advice where possible."""
    if error_number(error) in LOST:
        return ConnectionFailed(f"the connection to {_endpoint(address)} was lost: {error_text(error)}")
    if error_number(error) in _DENIED:
        return ConnectionFailed(
            f"{_endpoint(address)} refuses user {address.user!r}: {error_text(error)}. Grant it what is missing"
        )
    return ConnectorError(f"{_endpoint(address)}: {error_text(error)}")


def _connect(address: Address) -> pymysql.Connection[Any]:
    encryption = _encryption(address)
    try:
        connection: pymysql.Connection[Any] = pymysql.connect(
            host=address.host,
            port=address.port,
            user=address.user,
            password=address.password,
            database=address.database,
            charset="utf8mb4",
            autocommit=True,
            init_command=_SESSION,
            connect_timeout=max(1, round(address.connect_timeout)),
            read_timeout=address.connect_timeout,  # of the handshake: a peer may accept and never answer
            write_timeout=address.query_timeout,
            **encryption,
        )
    except Exception as error:  # with a peer that is no MySQL server PyMySQL raises many kinds of errors
        raise ConnectionFailed(_refusal(address, error)) from error
    set_read_timeout(connection, address.query_timeout)
    return _require_tls(connection, address)


def _refusal(address: Address, error: Exception) -> str:
    at = _endpoint(address)
    if isinstance(error, pymysql.Error) and error_number(error) in _DENIED:
        return f"user {address.user!r} is not let in by {at}: {error_text(error)}"
    if isinstance(error, pymysql.Error) and error_number(error) == _UNKNOWN_DATABASE:
        return f"{at}: {error_text(error)}; option database names the database that the queue is in"
    why = error_text(error) if isinstance(error, pymysql.Error) else f"{type(error).__name__}: {error}"
    return f"user {address.user!r} cannot connect to {at}: {why}. Is queuegate listening there?"


def _encryption(address: Address) -> dict[str, Any]:
    """PyMySQL's options for an address. Raises OptionError."""
    if address.ssl == "disabled":
        return {"ssl_disabled": True}
    try:
        context = ssl.create_default_context(cafile=address.ssl_ca)
    except OSError as error:  # ssl.SSLError is one
        raise OptionError(f"option sslCa names {address.ssl_ca!r}, which holds no certificate: {error}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # some distributions leave it to the system
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # MySQL's self-generated CAs do not follow all rules
    if address.ssl == "required":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return {"ssl": context}


def _require_tls(connection: pymysql.Connection[Any], address: Address) -> pymysql.Connection[Any]:
    """Older versions of PyMySQL continue unencrypted if the server has no TLS."""
    if address.ssl == "disabled" or is_encrypted(connection):
        return connection
    connection.close()
    raise ConnectionFailed(f"{_endpoint(address)} offers no TLS, and option ssl is {address.ssl}")


def _endpoint(address: Address) -> str:
    return f"{address.host}:{address.port}/{address.database}"


# Galera clusters: what one node has committed is visible at another one a moment later, and a query may use several
# nodes: its driver and its tasks have separate connections, and a reconnect may lead to another node.

FRESH = "SET SESSION wsrep_sync_wait = 1"
"""A SELECT outside of a transaction, and START TRANSACTION, wait until their node has applied what all nodes had
committed before. So a task finds every message that the driver has planned for it, and a committer all rows of it."""

NO_VARIABLE = 1193
"""The error for FRESH of a server that can be no node of a cluster."""

_CLUSTER = "SHOW VARIABLES LIKE 'wsrep_on'"


def is_cluster(client: Client) -> bool:
    """Whether the database is a node of a Galera cluster."""
    return any(str(value).upper() in ("ON", "1") for _, value in client.rows(_CLUSTER))


def settings(client: Client) -> tuple[str, ...]:
    """The initial statements of each connection of a query, for this database."""
    return (FRESH,) if is_cluster(client) else ()
