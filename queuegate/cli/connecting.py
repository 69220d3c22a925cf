"""Where a command connects, by command line, option files and environment, and the connection itself.

The later value wins: [client], then [queuegate], then the command line; MYSQL_PWD only where nothing else gives a
password. With a host or a port the socket of a lower place is ignored.
"""

from __future__ import annotations

import argparse
import getpass
import ssl
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import pymysql
from pymysql.cursors import Cursor, DictCursor

from engine.backend.url import NO_HOST, is_host
from mysql_client.option_files import FileOption, OptionFileError, is_world_writable, read_groups
from queuegate.cli.arguments import SSL_MODES, is_port
from queuegate.cli.failures import ConsoleError, ServerError, hint_for, number_of
from queuegate.cli.names import QueueRef
from queuegate.cli.tables import printable

Row = dict[str, Any]

_CONNECT_SECONDS = 10
_KEYS = ("host", "port", "user", "password", "database", "socket", "ssl_ca", "ssl_cert", "ssl_key", "ssl_mode")


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
    file = options.defaults_file
    path = Path(file) if file is not None else home / ".my.cnf"
    target = replace(Target(), password=environment.get("MYSQL_PWD", ""))
    if file is None and is_world_writable(path):
        sys.stderr.write(f"{path}: anybody may write this file: it is ignored\n")
    else:
        try:
            groups = read_groups(path, must_exist=file is not None)
        except OptionFileError as error:
            raise ConsoleError(str(error), status=2) from None
        for group in groups:
            target = _override(target, {key.replace("-", "_"): _read(option) for key, option in group.items()})
    explicit = {key: getattr(options, key) for key in _KEYS if getattr(options, key) is not None}
    if options.ask_password:
        explicit["password"] = None
    target = _override(target, explicit)
    if not is_host(target.host):
        raise ConsoleError(f"{printable(target.host)!r} {NO_HOST}", status=2)
    return target


def _override(target: Target, explicit: Mapping[str, Any]) -> Target:
    elsewhere = ("host" in explicit or "port" in explicit) and "socket" not in explicit
    return replace(target, **({"socket": None, **explicit} if elsewhere else explicit))


def _read(option: FileOption) -> Any:
    value = option.value
    if option.key == "password":
        return value
    if not value:
        raise ConsoleError(f"{option.location}: the option '{option.key}' has no value", status=2)
    if option.key == "ssl-mode":
        if value.lower() not in SSL_MODES:
            known = ", ".join(SSL_MODES)
            raise ConsoleError(f"{option.location}: {printable(value)!r} is no ssl-mode; known are {known}", status=2)
        return value.lower()
    if option.key != "port":
        return value
    if not is_port(value):
        raise ConsoleError(f"{option.location}: {printable(value)!r} is no port", status=2)
    return int(value)


def with_password(target: Target) -> Target:
    """The same, with the password asked for where that is wanted."""
    if target.password is not None:
        return target
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)  # a warning that it would be shown as it is typed
            return replace(target, password=getpass.getpass("Enter password: "))
    except (EOFError, getpass.GetPassWarning):
        raise ConsoleError("there is no terminal to ask for the password at, and none was given", status=2) from None


def encryption(target: Target) -> dict[str, Any]:
    """How PyMySQL is to encrypt: the modes of the mysql client. Raises ConsoleError, OSError for a file that cannot be
    read or used."""
    by_default = (
        "verify_identity" if target.ssl_ca else "required" if target.ssl_cert or target.ssl_key else "preferred"
    )
    mode = target.ssl_mode or by_default
    if mode == "disabled":
        return {"ssl_disabled": True}
    if mode == "preferred" and by_default == "preferred":
        return {}  # where the proxy offers it, unverified
    if target.ssl_key and not target.ssl_cert:
        raise ConsoleError("--ssl-key is the key of a certificate: give --ssl-cert too", status=2)
    for name in (target.ssl_ca, target.ssl_cert, target.ssl_key):
        if name is not None:
            with Path(name).open("rb"):
                pass  # OpenSSL does not name the file that cannot be read
    try:
        context = ssl.create_default_context(cafile=target.ssl_ca)
        context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)  # the certificates of servers are often simple
        if target.ssl_cert is not None:
            context.load_cert_chain(target.ssl_cert, target.ssl_key)
    except ssl.SSLError as error:
        raise ConsoleError(f"the certificate or its key cannot be used: {error}", status=2) from error
    context.check_hostname = mode == "verify_identity"
    context.verify_mode = ssl.CERT_REQUIRED if mode.startswith("verify") else ssl.CERT_NONE
    return {"ssl": context}


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
                password=(target.password or "").encode(),  # as text it would be sent in latin1
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
            raise ServerError(error, hint_for(number_of(error), str(target))) from error

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
            number = number_of(error)
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
