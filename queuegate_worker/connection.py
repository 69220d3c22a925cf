"""A connection to the proxy: opened when it is first needed, discarded when it is lost. For one thread at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

import pymysql
from pymysql.constants.SERVER_STATUS import SERVER_STATUS_IN_TRANS
from pymysql.cursors import SSCursor

from queuegate_worker.address import Address
from queuegate_worker.errors import connection_lost, error_number
from queuegate_worker.mysql_client.driver import result_of

DriverConnection: TypeAlias = "pymysql.Connection[Any]"
Connect = Callable[[float], DriverConnection]
"""Makes a connection. The argument: the read timeout in seconds."""

Row = dict[str, Any]
T = TypeVar("T")

_CONNECT_SECONDS = 10
_NO_SUCH_COLUMN = 1054
_SESSION = "SET completion_type = 'NO_CHAIN'"  # and nothing else: handlers use the session
_BEGIN = "START TRANSACTION"  # in sql_mode ORACLE, BEGIN opens a block of statements


def connection_factory(address: Address, consumer: str) -> Connect:
    """The function by which a worker connects to that address."""

    def connect(answer_seconds: float) -> DriverConnection:
        limits = {"connect_timeout": _CONNECT_SECONDS, "read_timeout": answer_seconds}
        arguments = {**limits, "init_command": _SESSION, **address.arguments()}
        return pymysql.connect(autocommit=True, charset="utf8mb4", program_name=consumer[:64], **arguments)

    return connect


class Connection:
    """See the module. `answer_seconds`: the read timeout in seconds, after which the connection counts as lost.

    In a statement `%` is written `%%`; as it is if `values` is None.
    """

    def __init__(self, connect: Connect, answer_seconds: float) -> None:
        self._connect = connect
        self._answer_seconds = answer_seconds
        self._driver_connection: DriverConnection | None = None

    @property
    def open(self) -> bool:
        """Whether there is a connection, which may have been lost since it was last used."""
        return self._driver_connection is not None

    @property
    def driver_connection(self) -> DriverConnection:
        """PyMySQL's connection; opened now if there is none. Raises PyMySQL's errors."""
        if self._driver_connection is None:
            self._driver_connection = self._connect(self._answer_seconds)
        return self._driver_connection

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, by the status flags of the server's last answer."""
        status: int = getattr(self._driver_connection, "server_status", 0)
        return bool(status & SERVER_STATUS_IN_TRANS)

    @property
    def id(self) -> int:
        """The connection's id, for KILL. Connects if necessary."""
        number: int = self.driver_connection.thread_id()  # type: ignore[no-untyped-call]
        return number

    def execute(self, sql: str, values: Sequence[Any] | None = ()) -> int:
        """The number of rows that a statement changed."""
        return self._guarded(lambda: self._run(sql, values)[1])

    def rows(self, sql: str, values: Sequence[Any] | None = ()) -> list[Row]:
        """The rows of a statement, by their columns' names."""
        return self._guarded(lambda: self._run(sql, values)[0])

    def columns(self, sql: str, values: Sequence[Any] = ()) -> list[str]:
        """The names of a result's columns."""
        return self._guarded(lambda: self._run(sql, values)[2])

    def has_columns(self, sql: str, values: Sequence[Any] = ()) -> bool:
        """Whether all columns that a statement names exist."""
        try:
            self.columns(sql, values)
        except pymysql.MySQLError as error:
            if error_number(error) == _NO_SUCH_COLUMN:
                return False
            raise
        return True

    def read(self, sql: str, values: Sequence[Any] = ()) -> tuple[list[Row], Exception | None]:
        """The rows of a result, up to its end or to the error that ended it early."""
        rows: list[Row] = []
        try:
            cursor = self.driver_connection.cursor(SSCursor)
            cursor.execute(sql, tuple(values))
            names = [column[0] for column in cursor.description or ()]
            _read_safely(cursor)
            while (row := cursor.fetchone()) is not None:
                rows.append(dict(zip(names, row, strict=True)))
            cursor.close()
        except (pymysql.MySQLError, OSError) as error:
            self._drop_if_lost(error)
            return rows, error
        return rows, None

    def begin(self) -> None:
        """Begin a transaction. A connection that was lost while it was idle is replaced: nothing has happened on it."""
        idle = self.open
        try:
            self.execute(_BEGIN)
        except (pymysql.MySQLError, OSError) as error:
            if not (idle and connection_lost(error)):
                raise
            self.execute(_BEGIN)

    def commit(self) -> None:
        """Commit."""
        self.execute("COMMIT")

    def roll_back(self) -> None:
        """Roll back; without a connection the server does it."""
        if self._driver_connection is not None:
            try:
                self.execute("ROLLBACK")
            except (pymysql.MySQLError, OSError):
                self.close()

    def close(self) -> None:
        """Close the connection; the next use connects again."""
        connection, self._driver_connection = self._driver_connection, None
        if connection is not None:
            try:
                connection.close()
            except (pymysql.MySQLError, OSError):
                pass  # it is closed already

    def _run(self, sql: str, values: Sequence[Any] | None) -> tuple[list[Row], int, list[str]]:
        with self.driver_connection.cursor() as cursor:
            changed = int(cursor.execute(sql, None if values is None else tuple(values)))
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()] if names else [], changed, names

    def _guarded(self, use: Callable[[], T]) -> T:
        try:
            return use()
        except (pymysql.MySQLError, OSError) as error:
            self._drop_if_lost(error)
            raise

    def _drop_if_lost(self, error: Exception) -> None:
        if connection_lost(error):
            self.close()


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Replaces a value that cannot be converted to a Python object, for example text with invalid bytes."""

    error: str


def _read_safely(cursor: Any) -> None:
    """Replace a value that cannot be converted by an Unreadable; otherwise it would end the whole result."""
    result = result_of(cursor)
    if result is not None:
        result.converters = [(None, partial(_converted, *each)) for each in result.converters]


def _converted(encoding: str | None, converter: Callable[[Any], Any] | None, value: bytes) -> Any:
    try:
        text = value if encoding is None else value.decode(encoding)
        return text if converter is None else converter(text)
    except Exception as error:  # a `conv` is the program's own code
        return Unreadable(f"{type(error).__name__}: {error}")
