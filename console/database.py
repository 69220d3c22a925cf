"""The SQL of the console: connections to the proxy, each logged in as the account of a web session.

Every statement goes through `AccountConnections`. Its text is composed by the functions that quote names; every value
is a parameter, `%s`, and any other `%` is doubled, also in a name (`name_sql`, `queue_sql`). PyMySQL blocks, so each
statement runs in a thread; a session has SESSION_CONNECTIONS_MAX connections at a time and waits for a turn beyond
them. A statement has STATEMENT_SECONDS. Only the proxy checks rights.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import pymysql
from pymysql.constants import FLAG

from console.settings import ProxyPlace
from engine.model.queue import SYSTEM_COLUMNS, QueueName, quoted
from mysql_client.driver import CONNECTION_LOST, OWN_SESSION, column_definitions, error_number
from mysql_wire.errors import UNREACHABLE
from proxy.errors import LOST
from rewriter.text.literals import plain_literal

SESSION_CONNECTIONS_MAX = 2  # connections of one session: a page and its refresh
IDLE_CONNECTIONS_MAX = 64  # unused connections that stay open, of all sessions: the proxy has other clients, too
IDLE_SECONDS = 30.0  # an unused connection is closed after this time
THREADS = 32  # statements at a time, of all sessions
CONNECT_SECONDS = 5.0
STATEMENT_SECONDS = 8.0  # no page may hold the database for longer
TURN_SECONDS = 10.0  # how long a statement waits for one of the session's connections
ROWS_MAX = 20_000  # of one answer: SHOW QUEUES of 10,000 queues, twice

_REFUSED = frozenset((1044, 1045, 1698, 1862, 3118, 4151))  # wrong password, account gone, locked or expired
_TOO_SLOW = frozenset((1969, 3024))
_LOST = CONNECTION_LOST - {UNREACHABLE}  # after which the session continues
_LIMITS = (  # MariaDB has the first, MySQL and the embedded backend the second; one of them is refused
    f"SET SESSION max_statement_time = {STATEMENT_SECONDS:g}",
    f"SET SESSION max_execution_time = {STATEMENT_SECONDS * 1000:.0f}",
)
_SESSION = f"{OWN_SESSION}, time_zone = '+00:00'"  # so that a form means the same at every server
_BINARY = 63  # the character set of bytes
_LIMIT_ERRORS = frozenset((1142, 1193, 1227, 1231, 1232, 1235, 1238, 1064))
_PROGRAM = "queuegate console"


class DatabaseError(Exception):
    """A statement was not carried out."""

    def __init__(self, message: str, number: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.number = number

    @property
    def full_message(self) -> str:
        """As clients print it, with MySQL's number, where there is one."""
        return f"ERROR {self.number}: {self.message}" if self.number else self.message


class StatementError(DatabaseError):
    """The proxy or the database has refused it, with this number and text."""


class AccountRefused(DatabaseError):
    """The account cannot log in any more, or never could."""


class ProxyUnavailable(DatabaseError):
    """The proxy does not answer, or has no room. After a change: it is not known whether it was done."""


class DatabaseUnavailable(DatabaseError):
    """The proxy answers that its database does not answer. After a change: it is not known whether it was done."""


class TooSlow(DatabaseError):
    """It took longer than a page may."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of an answer. `type`: the protocol's code; `binary`: it has bytes, or a number; `numbered`: the
    database gives its values."""

    name: str
    type: int
    binary: bool = False
    numbered: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a statement. `sql`: its whole text, as it was sent. `insert_id`: the id that the database has given
    to a row; 0: it has given none. The queue's own columns are in small letters, however its table has them."""

    sql: str
    columns: tuple[Column, ...]
    rows: tuple[dict[str, Any], ...]
    affected: int
    insert_id: int = 0

    @property
    def lowered(self) -> list[dict[str, Any]]:
        """The rows with their names in lower case: of a SHOW statement, whose titles begin with a capital."""
        return [{name.lower(): value for name, value in row.items()} for row in self.rows]


T = TypeVar("T")
Connect = Callable[..., "pymysql.Connection[Any]"]


class Connector:
    """Opens connections to one proxy, and has the threads in which they are used."""

    def __init__(self, place: ProxyPlace, clock: Callable[[], float], connect: Connect = pymysql.connect) -> None:
        self.place = place
        self.clock = clock
        self._connect = connect
        self.threads = ThreadPoolExecutor(THREADS, thread_name_prefix="sql")
        self._lock = threading.Lock()
        self._idle = 0

    def open(self, account: str, password: bytes) -> pymysql.Connection[Any]:
        """A new connection, whose statements have a limit of time. Blocks.

        Raises:
            AccountRefused, DatabaseUnavailable, ProxyUnavailable
        """
        place = self.place
        try:
            connection = self._connect(
                host=place.host,
                port=place.port,
                unix_socket=place.socket,
                user=account,
                password=password,
                charset="utf8mb4",
                autocommit=True,
                init_command=_SESSION,
                connect_timeout=CONNECT_SECONDS,
                read_timeout=STATEMENT_SECONDS + 2,
                write_timeout=STATEMENT_SECONDS + 2,
                program_name=_PROGRAM,
                **place.encryption,
            )
            _limit(connection)
            return connection
        except (pymysql.MySQLError, OSError) as error:
            number = error_number(error)
            if number in _REFUSED:
                raise AccountRefused(text_of(error), number) from error
            if _is_of_database(error):
                raise DatabaseUnavailable(text_of(error), number) from error
            raise ProxyUnavailable(text_of(error), number) from error

    def reserve_idle(self) -> bool:
        """Whether one more unused connection may stay open."""
        with self._lock:
            if self._idle >= IDLE_CONNECTIONS_MAX:
                return False
            self._idle += 1
            return True

    def release_idle(self, count: int = 1) -> None:
        """So many unused connections are used again, or closed."""
        with self._lock:
            self._idle -= count

    def close(self) -> None:
        """Start no statement any more."""
        self.threads.shutdown(wait=False, cancel_futures=True)


class AccountConnections:
    """The connections of one session. See the module."""

    def __init__(self, connector: Connector, account: str, password: bytes) -> None:
        self.account = account
        self._connector = connector
        self._password = password
        self.login = hashlib.sha256(account.encode() + b"\0" + password).digest()
        """The same for sessions with the same name and password, and for no others."""
        self._turns = asyncio.Semaphore(SESSION_CONNECTIONS_MAX)
        self._lock = threading.Lock()
        self._idle: list[tuple[float, pymysql.Connection[Any]]] = []
        self._closed = False

    @property
    def place(self) -> str:
        """Where the proxy is reached."""
        return str(self._connector.place)

    async def log_in(self) -> None:
        """Open the first connection. Raises AccountRefused, DatabaseUnavailable, ProxyUnavailable."""
        await self._in_thread(lambda: self._give_back(self._connector.open(self.account, self._password)))

    async def read(self, sql: str, *values: object) -> Answer:
        """Run a statement that changes nothing; it is sent a second time where a connection turns out to be lost.

        Raises:
            StatementError, AccountRefused, DatabaseUnavailable, ProxyUnavailable, TooSlow
        """
        return await self._in_thread(lambda: self._run(sql, values, again=True))

    async def change(self, sql: str, *values: object) -> Answer:
        """Run a statement that changes something, once. Raises as `read` does."""
        return await self._in_thread(lambda: self._run(sql, values, again=False))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await self._turns.acquire()
        except TimeoutError:
            raise TooSlow("the session's other statements are still running") from None
        try:
            return await asyncio.get_running_loop().run_in_executor(self._connector.threads, work)
        finally:
            self._turns.release()

    def _run(self, sql: str, values: Sequence[object], *, again: bool) -> Answer:
        connection, used = self._take(alive=not again)
        began = self._connector.clock()
        try:
            try:
                answer = _execute(connection, sql, values)
            except (pymysql.MySQLError, OSError) as error:
                if not (used and again and _is_lost(error) and self._connector.clock() - began < STATEMENT_SECONDS):
                    raise
                _close(connection)  # the proxy was started again meanwhile
                connection = self._connector.open(self.account, self._password)
                answer = _execute(connection, sql, values)
        except (pymysql.MySQLError, OSError) as error:
            raise self._to_error(connection, error, self._connector.clock() - began) from error
        self._give_back(connection)
        return answer

    def _to_error(self, connection: pymysql.Connection[Any], error: Exception, seconds: float) -> DatabaseError:
        number, text = error_number(error), text_of(error)
        if number in _TOO_SLOW:
            self._give_back(connection)
            return TooSlow(f"the statement took longer than {STATEMENT_SECONDS:g} s", number)
        if _is_lost(error):
            _close(connection)
            if seconds >= STATEMENT_SECONDS:
                return TooSlow(f"the statement took longer than {STATEMENT_SECONDS:g} s")
            return self._cause_of_loss(ProxyUnavailable(text, number))
        self._give_back(connection)
        if _is_of_database(error):
            return DatabaseUnavailable(text, number)
        return StatementError(text, number)

    def _cause_of_loss(self, lost: ProxyUnavailable) -> DatabaseError:
        """Why a connection broke: a proxy that has lost its database closes it, and reports that to the next
        connection."""
        try:
            self._give_back(self._connector.open(self.account, self._password))
        except DatabaseError as error:
            return error if isinstance(error, DatabaseUnavailable) else lost
        return lost

    def _take(self, *, alive: bool) -> tuple[pymysql.Connection[Any], bool]:
        """A connection, and whether it was used before. `alive`: one that has just answered."""
        while True:
            with self._lock:
                connection = self._idle.pop()[1] if self._idle else None
            if connection is None:
                return self._connector.open(self.account, self._password), False
            self._connector.release_idle()
            if not alive:
                return connection, True
            try:
                connection.ping(reconnect=False)
                return connection, True
            except (pymysql.MySQLError, OSError):
                _close(connection)

    def _give_back(self, connection: pymysql.Connection[Any]) -> None:
        with self._lock:
            if connection.open and not self._closed and self._connector.reserve_idle():
                self._idle.append((self._connector.clock(), connection))
                return
        _close(connection)

    def close_idle(self, before: float) -> None:
        """Close what has not been used since that time. Blocks for a moment."""
        with self._lock:
            old = [connection for at, connection in self._idle if at < before]
            self._idle = [(at, connection) for at, connection in self._idle if at >= before]
        self._connector.release_idle(len(old))
        for connection in old:
            _close(connection)

    def close(self) -> None:
        """Close all, now or when they come back. Blocks for a moment."""
        self._closed = True
        self.close_idle(float("inf"))


def _limit(connection: pymysql.Connection[Any]) -> None:
    for sql in _LIMITS:
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql)
        except pymysql.MySQLError as error:
            if error_number(error) not in _LIMIT_ERRORS:
                _close(connection)
                raise


def _execute(connection: pymysql.Connection[Any], sql: str, values: Sequence[object]) -> Answer:
    with connection.cursor() as cursor:
        text = sql % tuple(_literal(connection, value) for value in values)
        affected = int(cursor.execute(text))
        definitions = column_definitions(cursor)
        columns = tuple(
            Column(
                _name_of(each), int(each.type_code), each.charsetnr == _BINARY, bool(each.flags & FLAG.AUTO_INCREMENT)
            )
            for each in definitions
        )
        names = [column.name for column in columns]
        rows = tuple(dict(zip(names, row, strict=True)) for row in cursor.fetchmany(ROWS_MAX))
    return Answer(text, columns, rows, affected, int(cursor.lastrowid or 0))


def _name_of(definition: Any) -> str:
    name = str(definition.name)
    return name.lower() if name.lower() in SYSTEM_COLUMNS else name


def _literal(connection: pymysql.Connection[Any], value: object) -> str:
    """As the connection's SQL mode reads it; bytes as X'...', which the queue statements read, too."""
    return plain_literal(value) if isinstance(value, bytes) else str(connection.literal(value))


def _is_lost(error: Exception) -> bool:
    return isinstance(error, OSError | pymysql.InterfaceError) or error_number(error) in _LOST


def _is_of_database(error: Exception) -> bool:
    """Whether the proxy reports that it has lost its database, or cannot reach it."""
    return error_number(error) == UNREACHABLE or text_of(error).startswith(LOST)


def _close(connection: pymysql.Connection[Any]) -> None:
    try:
        if connection.open:
            connection.close()
    except (pymysql.MySQLError, OSError):
        pass  # it is gone already


def text_of(error: Exception) -> str:
    """The text of an error, on one line."""
    return re.sub(r"\s+", " ", str(error.args[-1] if error.args else type(error).__name__))


def name_sql(name: str) -> str:
    """A name as the text of a statement with parameters has it."""
    return quoted(name).replace("%", "%%")


def queue_sql(queue: QueueName) -> str:
    """The same of a queue's, with its database."""
    return queue.sql.replace("%", "%%")


def with_values(sql: str, values: Sequence[object]) -> str:
    """The text of a statement with parameters, to be read: as most SQL modes would have it."""
    return sql % tuple(plain_literal(value) for value in values)


def without_values(sql: str) -> str:
    """The text of a statement with parameters, each as `?`: for the log."""
    return sql.replace("%%", "\0").replace("%s", "?").replace("\0", "%")


def pattern_of(text: str) -> str:
    """A LIKE pattern that matches only this text."""
    return re.sub(r"([\\%_])", r"\\\1", text)
