"""For the suites of logins: a server with certificates and further plugins, and clients that tell how they fared."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mysql.connector
import pymysql
import pytest
from certificates import Authority
from servers import MariaDb, Sql, find_binary

DATABASE = "logins"
WHO = "SELECT USER(), CURRENT_USER(), DATABASE(), CURRENT_ROLE()"
HINT = "; through the proxy nobody can log in by the operating system's user (unix_socket, auth_socket)"
REQUIRES_TLS = (
    "Connections using insecure transport are prohibited: the account requires TLS (REQUIRE SSL, X509 and the like),"
    " and this connection is not encrypted"
)


@dataclass(frozen=True)
class Server:
    """A MariaDB with certificates, and the authority that made them."""

    mariadb: MariaDb
    authority: Authority
    certificate: str
    key: str

    def url(self, options: str = "", host: str = "127.0.0.1") -> str:
        return f"mysql://engine:secret@{host}:{self.mariadb.port}/{DATABASE}?{options}".rstrip("?")


def cli(port: int, user: str, password: str, *options: str, sql: str = WHO) -> str:
    """What the command-line client prints: the rows, or the error with its numbers."""
    program = find_binary("mariadb") or find_binary("mysql")
    assert program is not None
    done = subprocess.run(
        [program, "--no-defaults", "-h127.0.0.1", f"-P{port}", f"-u{user}", f"--password={password}", "--skip-ssl",
         "--batch", "--skip-column-names", "-e", sql, *options],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.stdout + re.sub(r" at line \d+:|connection \d+", ":", done.stderr)


def told_by(work: Callable[[], Any]) -> Any:
    """A value, or what the client says of an error."""
    try:
        return work()
    except mysql.connector.Error as error:
        return error.errno, error.sqlstate, re.sub(r"^\d+ \(\w+\): ", "", str(error.msg))


def fetched(connection: Any, sql: str) -> Any:
    cursor = connection.cursor()
    cursor.execute(sql)
    row = cursor.fetchone()
    cursor.close()
    return row


def assert_gone(connection: Any) -> None:
    with pytest.raises((mysql.connector.Error, OSError)):
        fetched(connection, "SELECT 1")


def tls_of(server: Server) -> dict[str, Any]:
    return {"ssl_ca": str(server.authority.ca), "ssl_verify_cert": True, "ssl_verify_identity": True}


def enter(port: int, user: str, tls: dict[str, Any], **options: Any) -> Any:
    """Whether the server's line is encrypted; or the error."""
    try:
        with pymysql.connect(host="127.0.0.1", port=port, user=user, password="right", **tls, **options) as connection:
            return bool(Sql(connection).row("SHOW STATUS LIKE 'Ssl_cipher'")[1])
    except pymysql.MySQLError as error:
        return error.args
