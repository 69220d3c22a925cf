"""Pools of clients, each of one connection: who asks sees by its number whether it is still the same."""

from __future__ import annotations

import contextlib
import os
import pty
import queue
import re
import subprocess
import threading
import tty
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol, cast

import mysql.connector
import sqlalchemy
import toolchains
from mysql.connector.pooling import MySQLConnectionPool
from servers import Gate, find_binary
from sqlalchemy.exc import DBAPIError
from toolchains import Program

ANSWER_SECONDS = 60
OWN = range(2000, 3000)
"""Errors of client libraries: the connection is lost."""


class Pool(Protocol):
    """Answers a statement with `= value`, the first one of its rows, or `error NUMBER STATE`."""

    def run(self, sql: str) -> str: ...


class Talk:
    """A program that answers a line of input with a line of output."""

    def __init__(self, process: subprocess.Popen[bytes], to: BinaryIO, answers: BinaryIO) -> None:
        self._process, self._to, self._answers = process, to, answers
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # a terminal whose program has ended
            for line in self._answers:
                text = line.decode(errors="backslashreplace").strip("\r\n\a")
                if text.startswith(("= ", "error ", "ERROR ", "-- failed")):
                    self._lines.put(text)
        self._lines.put("ended")

    def run(self, sql: str) -> str:
        self._to.write(f"{sql}\n".encode())
        self._to.flush()
        return self.next()

    def next(self) -> str:
        """Another line of its answer."""
        return self._lines.get(timeout=ANSWER_SECONDS)

    def end(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.wait(20)
        self._reader.join(20)
        for stream in (self._to, self._answers):
            with contextlib.suppress(OSError):
                stream.close()


@dataclass(frozen=True)
class InLanguage:
    """A client program of this folder, in its section."""

    build: Callable[[], Program]
    section: str
    arguments: Sequence[str] = ()
    keeps_class_08: bool = True
    tries_first = True  # sees that a connection was closed before it gives it away

    @contextlib.contextmanager
    def opened(self, gate: Gate) -> Iterator[Pool]:
        program = self.build()
        where = ["127.0.0.1", str(gate.port), "root", gate.database]
        process = subprocess.Popen(
            [*program.command, *self.arguments, *where, self.section], env={**os.environ, **program.environment},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert process.stdin is not None and process.stdout is not None
        with ended(Talk(process, cast(BinaryIO, process.stdin), cast(BinaryIO, process.stdout))) as talk:
            yield talk


class CommandLine:
    """`mariadb`. It is no pool, but at a terminal it connects anew by itself once it has lost its connection."""

    tries_first, keeps_class_08 = False, True

    @contextlib.contextmanager
    def opened(self, gate: Gate) -> Iterator[Pool]:
        binary = find_binary("mariadb")
        if binary is None:
            toolchains.missing("there is no program mariadb (Debian: mariadb-client)")
        options = ["--no-defaults", "-h127.0.0.1", f"-P{gate.port}", "-uroot", "-sN", "--no-auto-rehash", "--prompt="]
        ours, its = pty.openpty()
        tty.setraw(its)  # a line of a terminal has 4096 bytes at most, otherwise
        process = subprocess.Popen(
            [binary, *options, gate.database], env={**os.environ, "TERM": "dumb"}, stdin=its, stdout=its, stderr=its
        )
        os.close(its)
        with ended(Talk(process, os.fdopen(os.dup(ours), "wb"), os.fdopen(ours, "rb"))) as talk:
            yield Shell(talk)


@dataclass(frozen=True)
class Shell:
    """Its words for an error made those of the others."""

    talk: Talk

    def run(self, sql: str) -> str:
        line = self.talk.run(f"{_VALUE.sub(_MARKED, sql)};")
        while line.startswith("ERROR 2006"):  # it says so, and connects anew
            line = self.talk.next()
        return line if line.startswith("=") else "error {1} {2}".format(*line.replace("(", "").replace(")", "").split())


_VALUE, _MARKED = re.compile(r"SELECT (\d+|CONNECTION_ID\(\))$"), r"SELECT CONCAT('= ', \1)"


@dataclass(frozen=True)
class OfSqlalchemy:
    """SQLAlchemy's pool over a driver; it tries a connection before it gives it away."""

    dialect: str
    tries_first, keeps_class_08 = True, True

    @contextlib.contextmanager
    def opened(self, gate: Gate) -> Iterator[Pool]:
        if "mysqldb" in self.dialect:
            toolchains.mysqlclient()
        arguments = {"ssl_disabled": True} if "connector" in self.dialect else {}
        url = f"{self.dialect}://root@127.0.0.1:{gate.port}/{gate.database}"
        engine = sqlalchemy.create_engine(
            url, pool_size=1, max_overflow=0, pool_pre_ping=True, connect_args=arguments, isolation_level="AUTOCOMMIT"
        )
        yield AlchemyPool(engine)
        engine.dispose()


@dataclass(frozen=True)
class AlchemyPool:
    engine: sqlalchemy.Engine

    def run(self, sql: str) -> str:
        try:
            connection = self.engine.connect()
            try:
                result = connection.exec_driver_sql(sql)
                return f"= {result.scalar() if result.returns_rows else 'nothing'}"
            finally:
                with contextlib.suppress(Exception):  # Connector's errors of a ROLLBACK on a lost line are its own
                    connection.close()
        except DBAPIError as error:
            assert error.orig is not None
            return f"error {error.orig.args[0]}"


@dataclass(frozen=True)
class OfConnector:
    """mysql-connector-python's own pool."""

    pure: bool
    tries_first, keeps_class_08 = True, True

    @contextlib.contextmanager
    def opened(self, gate: Gate) -> Iterator[Pool]:
        yield ConnectorPool(
            {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database, "use_pure": self.pure,
             "ssl_disabled": True, "autocommit": True}
        )  # fmt: skip


class ConnectorPool:
    """Made with its first statement, for it connects at once."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._pool: Any = None

    def run(self, sql: str) -> str:
        try:
            if self._pool is None:
                self._pool = MySQLConnectionPool(pool_size=1, **self._options)
            connection = self._pool.get_connection()
            try:
                with contextlib.closing(connection.cursor()) as cursor:
                    cursor.execute(sql)
                    rows = cursor.fetchall() if cursor.with_rows else []
                    return f"= {rows[0][0] if rows else 'nothing'}"
            finally:
                with contextlib.suppress(mysql.connector.Error):
                    connection.close()  # gives it back
        except mysql.connector.Error as error:
            return f"error {error.errno} {error.sqlstate}"


@contextlib.contextmanager
def ended(talk: Talk) -> Iterator[Talk]:
    try:
        yield talk
    finally:
        talk.end()
