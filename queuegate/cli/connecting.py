"""Where a command connects, by command line, option files and environment, and the connection itself.

The later value wins: [client], then [queuegate], then the command line; MYSQL_PWD only where nothing else gives a
password. With a host or a port the socket of a lower place is ignored.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import pymysql
from pymysql.cursors import Cursor, DictCursor

from engine.backend.url import NO_HOST, is_host
from mysql_client import option_files
from mysql_client.driver import error_number
from mysql_client.option_files import OPTIONS, OptionFileError, connection_values, prompt_password
from queuegate.cli.failures import ConsoleError, ServerError, hint_for
from queuegate.cli.names import QueueRef
from queuegate.cli.tables import printable

Row = dict[str, Any]

_CONNECT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Target:
    """Where to log in, and as whom. `password`: None where it has to be asked for."""

    host: str = "127.0.0.1"
    port: int = 3307
    user: str = "root"
    password: str | None = ""
    database: str | None = None
    socket: str | None = None
    ssl_ca: str | None = None
    ssl_cert: str | None = None
    ssl_key: str | None = None
    ssl_mode: str | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return printable(self.socket or f"{host}:{self.port}")


def target_of(options: argparse.Namespace, environment: Mapping[str, str], home: Path) -> Target:
    """The values of all places, together. Raises ConsoleError for an option file that cannot be used, OSError for one
    that cannot be read."""
    with _mistakes():
        values = connection_values(options, environment, home)
    target = Target(**{key.replace("-", "_"): value for key, value in values.items()})
    if not is_host(target.host):
        raise ConsoleError(f"{printable(target.host)!r} {NO_HOST}", status=2)
    return target


@contextmanager
def _mistakes() -> Iterator[None]:
    """An OptionFileError becomes a ConsoleError, a mistake in the command line."""
    try:
        yield
    except OptionFileError as error:
        raise ConsoleError(str(error), status=2) from error


def with_password(target: Target) -> Target:
    """The same, with the password asked for where that is wanted."""
    if target.password is not None:
        return target
    with _mistakes():
        return replace(target, password=prompt_password())


def encryption(target: Target) -> dict[str, Any]:
    """How PyMySQL is to encrypt. Raises ConsoleError, OSError for a file that cannot be read or used."""
    with _mistakes():
        return option_files.encryption({key: getattr(target, key.replace("-", "_")) for key in OPTIONS})


class Link:
    """A connection, on which every error is a ConsoleError. `read_seconds`: how long an answer may take."""

    def __init__(self, target: Target, program: str, read_seconds: float | None = None) -> None:
        self.target = target
        secure = encryption(target)
        try:
            self._connection = pymysql.connect(
                host=target.host,
                port=target.port,
                user=target.user,
                # As text it would be sent in latin1.
                password=(target.password or "").encode("utf-8", "surrogateescape"),
                database=target.database,
                unix_socket=target.socket,
                charset="utf8mb4",
                autocommit=True,
                connect_timeout=_CONNECT_SECONDS,
                read_timeout=read_seconds,
                program_name=f"queuegate {program}",
                cursorclass=DictCursor,
                **secure,
            )
        except pymysql.MySQLError as error:
            raise ServerError(error, hint_for(error_number(error), str(target))) from error

    def __enter__(self) -> Link:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up; a second time is nothing."""
        if self._connection.open:
            try:
                self._connection.close()
            except (OSError, pymysql.MySQLError):
                pass  # it is gone already

    def rows(self, sql: str, *values: object) -> list[Row]:
        """The rows of a statement, by their columns' names."""
        return self._run(sql, values)[0]

    def change(self, sql: str, *, of_user: bool = False) -> int:
        """The affected rows. `of_user`: part of the text is the user's own SQL, and so may the mistake in it be."""
        return self._run(sql, (), of_user=of_user)[1]

    def tuples(self, sql: str) -> Sequence[tuple[Any, ...]]:
        """The rows of a statement without names, which cost a client that receives many of them."""
        return self._run(sql, (), kind=Cursor)[0]

    def columns(self, sql: str) -> list[tuple[str, int]]:
        """Names and type codes of a result's columns."""
        return self._run(sql, ())[2]

    def _run(
        self, sql: str, values: tuple[object, ...], *, of_user: bool = False, kind: type[Cursor] = DictCursor
    ) -> tuple[list[Any], int, list[tuple[str, int]]]:
        try:
            with self._connection.cursor(kind) as cursor:
                affected = int(cursor.execute(sql, values or None))
                columns = [(column[0], int(column[1])) for column in cursor.description or ()]
                return list(cursor.fetchall()), affected, columns
        except pymysql.MySQLError as error:
            number = error_number(error)
            raise ServerError(error, "" if of_user else hint_for(number, str(self.target))) from error
        except OSError as error:  # a read that took too long, in some of PyMySQL's versions
            raise ConsoleError(f"{self.target}: {error}") from error

    def named(self, name: QueueRef) -> QueueRef:
        """The queue of a name on the command line; its database is that of the session, else the only one that
        has a queue of the name. Raises ConsoleError."""
        if name.database is not None:
            return name
        selected = self.rows("SELECT DATABASE() AS name")[0]["name"]
        if selected is not None:
            return QueueRef(name.table, str(selected))
        known = [row["Database"] for row in self.rows("SHOW QUEUES") if row["Queue"] == name.table]
        if not known:
            raise ConsoleError(f"there is no queue '{name}' that {self.target.user} may see at {self.target}")
        if len(known) > 1:
            several = " or ".join(str(QueueRef(name.table, database)) for database in known)
            raise ConsoleError(f"several databases have a queue '{name}': name {several}", status=2)
        return QueueRef(name.table, str(known[0]))
