"""MySQL and MariaDB through PyMySQL: the engine's blocking connections and their pool.

Engine connections run in READ COMMITTED, with autocommit and a short lock wait (engine.backend.sessions has what else
they pin); statements use `?` placeholders, bound as literals that PyMySQL escapes. Errors become BackendError with the
server's own number, SQLSTATE and text.

Statements travel together where the server allows it, but not those of a transaction on a Galera node. There another
node's commit may end the transaction between two statements of one packet, and MariaDB reports nothing: it runs the
next one, if it writes, as a transaction of its own, and a COMMIT succeeds. Between packets it reports the conflict.
"""

from __future__ import annotations

import contextlib
import enum
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pymysql
from pymysql.constants import CLIENT
from pymysql.converters import encoders, escape_item

from engine.backend.base import Answer, Settings, SqlValue, Statement
from engine.backend.environment import SERVER_VARIABLES, Environment, StatementPins
from engine.backend.exchange import Exchange
from engine.backend.mysql_connection import AnswerConnection
from engine.backend.pool import PooledConnection, ThreadPool
from engine.backend.servers import SHARDS, answer_max_of, is_without_primary, keyspaces_of, unfit_database
from engine.backend.sessions import ROW_BINLOG, UNLIMITED, Pin, pins
from engine.backend.url import BackendUrl, SslMode
from engine.model.errors import AnswerTooLarge, BackendError, BackendUnavailable, LockWaitTimeout
from engine.model.keyspaces import NO_KEYSPACES, Keyspaces
from engine.model.queue import ColumnMeta, QueueName, TextValue, quoted
from mysql_client.driver import CONNECTION_LOST, error_number, is_encrypted, set_read_timeout, socket_of

_CONNECT_TIMEOUT_SECONDS = 5  # a database that takes longer is as good as down, and trying again is cheap
_ANSWER_SECONDS, _ANSWER_SECONDS_MAX = 4.5, 72.0
"""How long to wait for an answer: above every lock wait, and above any statement of the engine on a healthy database. A
server that vanished silently stops a queue for no longer; for a server that is only slow it doubles."""

_SLOW_SECONDS = 600.0  # for how long a slow server gets more time
_GONE = CONNECTION_LOST | {1180}
"""Errors after which the connection is unusable. 1180: a COMMIT of unknown outcome, of a Galera node that lost the
others meanwhile."""

_NO_SUCH_COMMAND, _UNKNOWN = 1047, 1105
_EXCHANGE_MAX = 16 * 1024  # characters that are sent without waiting: an idle socket takes as much at once

_CLIENT_ERRORS = range(2000, 3000)  # raised by the driver: it lost the connection or the order of packets
_LOCK_WAIT_TIMEOUT = 1205
_PLACEHOLDER = re.compile(r"`[^`]*`|'[^']*'|(\?)")


class _Transaction(enum.Enum):
    NONE = "none is open"
    DUE = "begins with the next statement, in the same round trip"
    OPEN = "open"


_SELF = "SELECT HOST FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()"
_LIVES = "SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = ? AND HOST = ?"
"""By connection id and client address: a server that was restarted counts from 1 again."""


class Patience:
    """How long all connections to one server wait for answers. Many threads use it; a lost update does no harm."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._seconds = _ANSWER_SECONDS
        self._until = float("-inf")

    @property
    def seconds(self) -> float:
        return self._seconds if self._monotonic() < self._until else _ANSWER_SECONDS

    def ran_out(self) -> None:
        """An answer did not come in time."""
        self._seconds = min(self.seconds * 2, _ANSWER_SECONDS_MAX)
        self._until = self._monotonic() + _SLOW_SECONDS


class MySQLPool(ThreadPool):
    """The engine's pool for a MySQL backend; opens its first connection with the first work. `at`: the shard of a
    Vitess that it is for (engine.model.keyspaces.at_shard)."""

    def __init__(self, url: BackendUrl, *, size: int, at: str | None = None) -> None:
        assert not url.embedded
        patience = Patience()
        self._environment = Environment({})

        def connect() -> MySQLStoreConnection:
            connection = MySQLStoreConnection(url, patience, at)
            self._environment = connection.environment
            return connection

        super().__init__(connect, size=size)

    @property
    def replicates(self) -> bool:
        return self._environment.replicates

    @property
    def without_waiting(self) -> str:
        return self._environment.without_waiting

    def statement_pins(self) -> StatementPins:
        """How queuegate's statements are written in sessions of clients, on the server as of the last connection."""
        return self._environment.statement_pins


class MySQLStoreConnection:
    """StoreConnection over one PyMySQL connection. Raises BackendUnavailable where it cannot be opened. `at`: see
    MySQLPool."""

    def __init__(self, url: BackendUrl, patience: Patience | None = None, at: str | None = None) -> None:
        self._patience = patience or Patience()
        self._database, self._at_shard = url.database, at is not None
        try:
            # Its result and socket are attributes that the stubs do not know.
            self._connection: Any = _connect(replace(url, database=at or url.database))
        except (pymysql.err.Error, OSError, RuntimeError) as error:
            raise BackendUnavailable(
                f"cannot connect to {url}: {_text(error)}", error_number(error) or _UNKNOWN
            ) from error
        self._together = bool(self._connection.server_capabilities & CLIENT.MULTI_STATEMENTS)
        self.environment = Environment({})
        self._replicates = False
        self._transaction = _Transaction.NONE
        self._wanted: Settings = ()
        self._in_force: Settings | None = ()  # None: unknown, for setting them failed
        self._own: dict[str, str] = {}  # the connection's own values of the settings that were changed
        try:
            self._handshake(url)
            rows = self.query(_SELF)  # the client address as the server sees it; empty where it does not report it
            self._here = (self._connection.thread_id(), str(rows[0][0]) if rows else "")
        except BackendError:
            self.close()
            raise

    def _handshake(self, url: BackendUrl) -> None:
        """Read what kind of server this is, and set up the session. Raises BackendUnavailable where it is not
        supported."""
        self._pin((UNLIMITED,))
        environment = self.environment = Environment.of(self.query(SERVER_VARIABLES))
        if (reason := environment.refusal) is not None:
            raise BackendUnavailable(f"cannot serve {url}: {reason}")
        if not self._at_shard and (reason := unfit_database(self.keyspaces)) is not None:
            raise BackendUnavailable(f"cannot serve {url}: {reason}")
        self._replicates = environment.replicates
        self.exact_names = environment.exact_names
        self._pin(
            pins(
                environment.version,
                replicates=self._replicates,
                variables=environment.variables,
                vitess=environment.vitess,
            )
        )
        if environment.statement_binlog:
            try:
                self.execute(ROW_BINLOG)
            except BackendUnavailable:
                raise
            except BackendError as error:
                raise BackendUnavailable(f"cannot serve {url}: {environment.no_row_binlog}") from error

    def _pin(self, wanted: Sequence[Pin]) -> None:
        """Set up the session, in one round trip where the server accepts all of it."""
        try:
            self._send([pin.sql for pin in wanted])
        except BackendUnavailable:
            raise
        except BackendError:
            for pin in wanted:
                self._pin_one(pin)

    def _pin_one(self, pin: Pin) -> None:
        try:
            self.execute(pin.sql)
        except BackendError as error:
            away = isinstance(error, BackendUnavailable) or is_without_primary(error.errno, error.message)
            if pin.needed or away:
                raise

    @property
    def replicates(self) -> bool:
        return self._replicates

    @property
    def keyspaces(self) -> Keyspaces:
        if not self.environment.vitess:
            return NO_KEYSPACES
        return keyspaces_of(self.query(SHARDS), self._database)

    @property
    def without_waiting(self) -> str:
        return self.environment.without_waiting

    def query(self, sql: str, params: Sequence[SqlValue] = ()) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self._send([_bound(sql, params)], values=True)[0].rows
        return rows

    def query_text(
        self, sql: str, params: Sequence[SqlValue], columns: Sequence[ColumnMeta]
    ) -> list[tuple[TextValue, ...]]:
        return self.run((Statement(sql, params, columns),))[0].rows

    def execute(self, sql: str, params: Sequence[SqlValue] = ()) -> int:
        return self._send([_bound(sql, params)])[0].affected

    def run(self, statements: Sequence[Statement], *, last: bool = False, alone: bool = False) -> list[Answer]:
        if alone:
            assert last and self._transaction is not _Transaction.OPEN
            self._transaction = _Transaction.NONE
        most = statements[-1].bytes_max if statements else 0
        return self._send([_bound(x.sql, x.params) for x in statements], last=last, bytes_max=most)

    def exchange(self, statements: Sequence[Statement]) -> Exchange | None:
        """See PooledConnection."""
        plain = self._transaction is _Transaction.NONE and self._wanted == self._in_force == ()
        texts = [_bound(each.sql, each.params) for each in statements]
        fits = (self._together or len(texts) == 1) and sum(map(len, texts)) <= _EXCHANGE_MAX
        if not plain or not fits or is_encrypted(self._connection):
            return None
        with _Errors(self):
            reading = self._connection.send(";".join(texts), bytes_max=statements[-1].bytes_max)
            return _MySQLExchange(self, reading)

    @contextlib.contextmanager
    def reading(self, settings: Settings) -> Iterator[None]:
        # They travel with the next statement, and back with the next one after these.
        for name, _ in settings:
            if name not in self._own:
                ((value,),) = self.query(f"SELECT @@{_setting_name(name)}")
                self._own[name] = str(value)
        self._wanted = settings
        try:
            yield
        finally:
            self._wanted = ()

    def describe(self, database: str, table: str, names: Sequence[str] = ()) -> tuple[ColumnMeta, ...]:
        wanted = ", ".join(map(quoted, names)) or "*"
        sql = f"SELECT {wanted} FROM {QueueName(database, table).sql} USE INDEX ()"  # no view
        # Prepared and never run: so it does not wait for LOCK TABLES, as of a client that restores a dump.
        with _Errors(self):
            columns: tuple[ColumnMeta, ...] = self._connection.columns_of(sql)
        return columns

    def begin(self) -> None:
        if self._transaction is not _Transaction.OPEN:  # one may have begun, with locks
            self._transaction = _Transaction.DUE

    def commit(self) -> None:
        if self._transaction is _Transaction.OPEN:
            self._send(["COMMIT"])
        self._transaction = _Transaction.NONE

    def rollback(self) -> None:
        # On a lost connection there is nothing to roll back, and the first error must not be hidden.
        if self._transaction is _Transaction.OPEN and self._connection.open:
            try:
                self._send(["ROLLBACK"])
            except BackendError as error:  # a connection in a transaction is of no use to the next work
                raise BackendUnavailable(error.message, error.errno) from error
        self._transaction = _Transaction.NONE

    def end_lost(self, other: PooledConnection) -> None:
        assert isinstance(other, MySQLStoreConnection)
        try:
            if other._here[1] and self.query(_LIVES, other._here):
                self.execute(f"KILL {other._here[0]}")
        except BackendUnavailable:
            raise
        except BackendError:
            pass  # it may end in the same moment

    @property
    def place(self) -> str:
        number, host = self._here
        return f"{number}@{host}" if host else ""

    def ping(self) -> None:
        with _Errors(self):
            self._connection.ping(reconnect=False)

    def close(self) -> None:
        with contextlib.suppress(pymysql.err.Error, OSError):
            self._connection.close()

    def _send(self, texts: list[str], *, last: bool = False, values: bool = False, bytes_max: int = 0) -> list[Answer]:
        """Run the statements, with the BEGIN that is due before them and, after the `last`, the COMMIT.

        `values`: of one statement, its rows as Python values. `bytes_max`: see Statement.
        """
        before = ["BEGIN"] if self._transaction is _Transaction.DUE else []
        if before:
            self._transaction = _Transaction.OPEN
        wanted = self._wanted
        if wanted != self._in_force:
            before.append(_set({**self._own, **dict(wanted)}))
            self._in_force = None
        after = ["COMMIT"] if last and self._transaction is _Transaction.OPEN else []
        with _Errors(self, len(before)):
            packets = self._packets(before, texts, after)
            answers = [answer for packet in packets for answer in self._answers(packet, values, bytes_max)]
        self._in_force = wanted
        if after:
            self._transaction = _Transaction.NONE
        return answers[len(before) : len(before) + len(texts)]

    def _packets(self, before: list[str], texts: list[str], after: list[str]) -> list[list[str]]:
        """What travels together; in a transaction on a Galera node, only what comes before its first lock."""
        if self._replicates and self._transaction is _Transaction.OPEN:
            return [[*before, texts[0]], *([text] for text in (*texts[1:], *after))]
        return [[*before, *texts, *after]]

    def _answers(self, texts: list[str], values: bool, bytes_max: int) -> list[Answer]:
        if self._together:
            texts = [";".join(texts)]
        run = self._connection.run
        return [answer for text in texts for answer in run(text, values=values, bytes_max=bytes_max)]

    def translated(self, error: pymysql.err.Error) -> BackendError:
        """An error of its statements as ours."""
        if isinstance(error.__context__, TimeoutError):
            self._patience.ran_out()
        translated = _translated(error, self._connection.open, at_shard=self._at_shard)
        if self._transaction is _Transaction.NONE:
            translated.committed = max(0, self._connection.answered)
        return translated


class _Errors:
    """What is within waits for answers as long as the connection is patient, and raises our errors. `before`: how many
    statements precede those of the caller. A class, since a generator costs three times as much for each statement."""

    __slots__ = ("_before", "_owner")

    def __init__(self, owner: MySQLStoreConnection, before: int = 0) -> None:
        self._owner, self._before = owner, before

    def __enter__(self) -> None:
        owner = self._owner
        set_read_timeout(owner._connection, owner._patience.seconds)
        owner._connection.answered = -self._before

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, pymysql.err.Error):
            raise self._owner.translated(error) from error


class _MySQLExchange:
    """Exchange on a connection that has sent its statements; `read` is what AnswerConnection.send returned."""

    def __init__(self, owner: MySQLStoreConnection, read: Callable[[], list[Answer] | None]) -> None:
        self._owner, self._read = owner, read
        self.socket = socket_of(owner._connection).fileno()
        self.seconds = owner._patience.seconds

    def receive(self) -> list[Answer] | None:
        with _Errors(self._owner):
            return self._read()

    def expired(self) -> BackendUnavailable:
        self._owner._patience.ran_out()
        return BackendUnavailable("Lost connection to MySQL server during query (timed out)", 2013, "08S01")


def _bound(sql: str, params: Sequence[SqlValue]) -> str:
    pieces = _pieces(sql)
    assert len(pieces) == len(params) + 1, f"{len(params)} parameters for: {sql}"
    text = [""] * (len(pieces) + len(params))
    text[::2] = pieces
    text[1::2] = [str(value) if type(value) is int else _literal(value) for value in params]
    return "".join(text)


_SETTING_NAME = re.compile(r"[a-z_]+", re.ASCII)
_SETTING_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_SETTING_VALUE = re.compile(r"[\w ,:/+.-]*", re.ASCII)


def _setting_name(name: str) -> str:
    assert _SETTING_NAME.fullmatch(name), name
    return name


def _literal(value: SqlValue) -> str:
    """The value as SQL that means the same under all settings, in every character set."""
    match value:
        case str():
            return f"_utf8mb4 X'{value.encode().hex()}'"
        case bytes():
            return f"_binary X'{value.hex()}'"
    return str(escape_item(value, "utf8mb4", encoders))  # a number, a time, NULL: nothing to escape


def _set(settings: Mapping[str, str]) -> str:
    return "SET " + ", ".join(f"SESSION {_setting_name(n)} = {_setting_value(v)}" for n, v in settings.items())


def _setting_value(value: str) -> str:
    if not _SETTING_VALUE.fullmatch(value):
        raise BackendError(f"a setting cannot be '{value}'", 1231, "42000")
    return value if _SETTING_NUMBER.fullmatch(value) else f"'{value}'"


def _connect(url: BackendUrl) -> Any:
    connection: Any = AnswerConnection(
        host=url.host,
        port=url.port,
        unix_socket=url.socket,
        user=url.user,
        password=url.password,
        database=url.database,
        client_flag=CLIENT.MULTI_STATEMENTS,
        charset="utf8mb4",
        autocommit=True,
        binary_prefix=True,
        connect_timeout=_CONNECT_TIMEOUT_SECONDS,
        read_timeout=_ANSWER_SECONDS,
        write_timeout=_ANSWER_SECONDS,
        program_name="queuegate",
        **_ssl_arguments(url),
    )
    required = url.ssl not in (SslMode.DISABLED, SslMode.PREFERRED) and url.socket is None
    if required and not is_encrypted(connection):
        connection.close()
        raise RuntimeError(f"the server offers no TLS, and ssl={url.ssl.value} asks for it")
    return connection


def _ssl_arguments(url: BackendUrl) -> dict[str, Any]:
    own = {name: path for name, path in (("cert", url.ssl_cert), ("key", url.ssl_key)) if path is not None}
    match url.ssl:
        case SslMode.DISABLED:
            return {"ssl_disabled": True}
        case SslMode.PREFERRED:
            return {}
        case SslMode.REQUIRED:
            return {"ssl": {"check_hostname": False, "verify_mode": "none", **own}}
        case SslMode.VERIFY_CA | SslMode.VERIFY_IDENTITY:
            return {"ssl": {"ca": url.ssl_ca, "check_hostname": url.ssl is SslMode.VERIFY_IDENTITY, **own}}


@lru_cache(maxsize=512)  # texts differ by the length of their IN lists only; a thousand ids make 3 kB of text
def _pieces(sql: str) -> tuple[str, ...]:
    """The text between the placeholders; a `?` inside quotes or back-quotes is none."""
    marks = [match.start() for match in _PLACEHOLDER.finditer(sql) if match[1]]
    starts, ends = [0, *(mark + 1 for mark in marks)], [*marks, len(sql)]
    return tuple(sql[start:end] for start, end in zip(starts, ends, strict=True))


def _translated(error: pymysql.err.Error, connected: bool, *, at_shard: bool = False) -> BackendError:
    number, text = error_number(error) or _UNKNOWN, _text(error)
    sqlstate = getattr(error, "sqlstate", None)
    lost = number in _GONE or number in _CLIENT_ERRORS or isinstance(error, pymysql.err.InterfaceError)
    apart = number == _NO_SUCH_COMMAND and "WSREP" in text  # a Galera node that is not in the majority
    # On a connection to the vtgate as a whole this says nothing of the other shards.
    without_primary = at_shard and is_without_primary(number, text)
    if lost or apart or without_primary or not connected:
        return BackendUnavailable(text, number, sqlstate or "08S01")
    if (most := answer_max_of(number, text)) is not None:
        return AnswerTooLarge(most)
    if number == _LOCK_WAIT_TIMEOUT:
        return LockWaitTimeout(text)
    return BackendError(text, number, sqlstate or "HY000")


def _text(error: Exception) -> str:
    return str(error.args[1]) if len(error.args) > 1 else str(error)
