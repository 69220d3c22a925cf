"""What each real client is made to say while it is recorded. A tour gets the port of the recorder.

Between them they use every part of the protocol that some client uses: text, prepared statements with parameters of all
types, cursors, long data, several results, LOCAL INFILE, errors, changed users, logins that fail, and queues.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import fuzz_paths  # noqa: F401
import mysql.connector
import pymysql
from servers import find_binary

CLIENTS = Path(__file__).parent / "clients"
ALL_TYPES = (7, -1, 1.5, "text ü", b"\x00\xff", None, Decimal("1.50"), True, date(2026, 1, 2),
             datetime(2026, 1, 2, 3, 4, 5, 678), timedelta(hours=26, minutes=3))  # fmt: skip


class Missing(Exception):
    """The client, or what it takes to run it, is not on this machine."""


def pymysql_tour(port: int) -> None:
    """Text protocol, a transaction, the queue's life, several results, a file."""
    options: dict[str, Any] = {"host": "127.0.0.1", "port": port, "user": "root", "database": "main"}
    connection = pymysql.connect(**options, autocommit=True, local_infile=True, client_flag=1 << 16)
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1, 'two', NULL, 4.5")
        cursor.executemany("INSERT INTO ft (name, n) VALUES (%s, %s)", [("x", 1), ("y", 2)])
        connection.begin()
        cursor.execute("INSERT INTO fq (payload) VALUES ('f')")
        cursor.execute("SAVEPOINT s")
        cursor.execute("ROLLBACK TO SAVEPOINT s")
        connection.commit()
        cursor.execute("SELECT * FROM STREAM fq LIMIT 2 NOWAIT")
        for statement in ("ACK fq 1, 2", "UPDATE fq SET state = 'acked' WHERE id = 3", "DELETE FROM fq WHERE id = 4",
                          "SHOW QUEUES", "SHOW CREATE QUEUE fq", "SHOW PROCESSLIST", "USE main",
                          "SHOW WARNINGS"):  # fmt: skip
            cursor.execute(statement)
        cursor.execute("SELECT 1; INSERT INTO fq (payload) VALUES ('g'); ACK fq 5; SELECT 2")
        while cursor.nextset():
            pass
        for wrong in ("SELECT * FROM nowhere", "ACK nowhere 1", "no SQL at all", "KILL 4294967295"):
            refused(cursor.execute, wrong)
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            file.write("90\tfrom a file\n91\tand more\n")
            file.flush()
            refused(cursor.execute, f"LOAD DATA LOCAL INFILE '{file.name}' INTO TABLE ft (id, name)")
        cursor.execute("CREATE QUEUE fq2 (payload TEXT) WITH (ack_wait = 5)")
        cursor.execute("DROP QUEUE fq2")
        connection.select_db("main")
        connection.ping()
    refused(pymysql.connect, **{**options, "user": "app", "password": "wrong"})
    pymysql.connect(**{**options, "user": "app", "password": "secret"}).close()


def refused(call: Callable[..., Any], *args: Any, **options: Any) -> None:
    """A call whose error is what is to be recorded, if it is one on this backend."""
    try:
        call(*args, **options)
    except (pymysql.err.MySQLError, mysql.connector.Error):
        pass


def connector_tour(port: int, *, pure: bool) -> None:
    """Prepared statements, cursors, long data, COM_CHANGE_USER and COM_RESET_CONNECTION."""
    options: dict[str, Any] = {"host": "127.0.0.1", "port": port, "user": "root", "database": "main", "use_pure": pure,
                               "ssl_disabled": True}  # fmt: skip
    connection = mysql.connector.connect(**options)
    cursor = connection.cursor()
    cursor.execute("SELECT 1; SELECT 2" if not pure else "SELECT 1")
    cursor.fetchall()
    while cursor.nextset():
        cursor.fetchall()
    prepared = connection.cursor(prepared=True)
    # The C extension sends a time that it has not filled in.
    prepared.execute("SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?", ALL_TYPES if pure else (*ALL_TYPES[:-1], None))
    prepared.fetchall()
    prepared.execute("SELECT id, name, n, d, b FROM ft WHERE id > ?", (0,))
    prepared.fetchall()
    prepared.execute("INSERT INTO fq (payload) VALUES (?)", ("prepared",))
    prepared.execute("ACK fq ?", (1,))
    connection.commit()
    prepared.execute("SELECT id, payload FROM STREAM fq LIMIT ? NOWAIT", (1,))
    prepared.fetchall()
    prepared.close()
    connection.commit()
    refused(cursor.execute, "SELECT * FROM nowhere")
    connection.cmd_reset_connection()
    connection.cmd_change_user("app", "secret", "main")
    connection.ping()
    connection.cmd_init_db("main")
    if pure:
        connection.cmd_statistics()
    refused(connection.cmd_change_user, "app", "wrong", "main")
    connection.close()
    refused(mysql.connector.connect, **{**options, "user": "nobody", "password": "wrong"})


def asyncmy_tour(port: int) -> None:
    """The text protocol of a client written in Cython."""
    try:
        import asyncmy
    except ImportError as error:
        raise Missing("pip install asyncmy") from error

    async def work() -> None:
        connection = await asyncmy.connect(host="127.0.0.1", port=port, user="app", password="secret", db="main")
        async with connection.cursor() as cursor:
            for statement in ("SELECT 1", "SELECT id, name FROM ft", "INSERT INTO fq (payload) VALUES ('asyncmy')",
                              "COMMIT", "SELECT payload FROM STREAM fq LIMIT 1 NOWAIT", "SHOW TABLES"):  # fmt: skip
                await cursor.execute(statement)
        await connection.commit()
        await connection.ensure_closed()

    asyncio.run(work())


def cli_tour(port: int) -> None:
    """The command-line client: COM_FIELD_LIST, comments, a result taken row by row."""
    program = find_binary("mariadb") or find_binary("mysql")
    if program is None:
        raise Missing("apt-get install mariadb-client")
    text = (
        "SELECT 1; SELECT * FROM ft; /* note */ SHOW TABLES; SELECT nothing; INSERT INTO fq (payload) VALUES ('cli');"
    )
    text += " SELECT payload FROM STREAM fq LIMIT 1 NOWAIT; STATUS; HELP 'x';"
    options = ["--no-defaults", "-h127.0.0.1", f"-P{port}", "-uroot", "--force", "--auto-rehash", "--quick"]
    _run([program, *options, "main"], input=text)


def node_tour(port: int) -> None:
    """mysql2 of Node.js."""
    with tempfile.TemporaryDirectory() as folder:
        _tool(["npm", "install", "--silent", "--prefix", folder, "mysql2"])
        shutil.copy(CLIENTS / "tour.js", folder)
        _tool(["node", f"{folder}/tour.js", str(port)])


def go_tour(port: int) -> None:
    """go-sql-driver."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(CLIENTS / "tour.go", folder)
        _tool(["go", "mod", "init", "tour"], cwd=folder)
        _tool(["go", "get", "github.com/go-sql-driver/mysql@latest"], cwd=folder)
        _tool(["go", "run", "tour.go", str(port)], cwd=folder)


def java_tour(port: int, *, artifact: str, scheme: str, ssl: str) -> None:
    """A JDBC driver."""
    with tempfile.TemporaryDirectory() as folder:
        _tool(["mvn", "-q", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"])
        _tool(["java", "-cp", f"{folder}/*", str(CLIENTS / "Tour.java"), str(port), scheme, ssl])


def _tool(command: list[str], **options: Any) -> None:
    if shutil.which(command[0]) is None:
        raise Missing(command[0])
    _run(command, **options)


def _run(command: list[str], **options: Any) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=300, check=False, **options
    )
    sys.stderr.write(done.stderr[-2000:])


TOURS: dict[str, Callable[[int], None]] = {
    "pymysql": pymysql_tour,
    "connector-pure": lambda port: connector_tour(port, pure=True),
    "connector-c": lambda port: connector_tour(port, pure=False),
    "asyncmy": asyncmy_tour,
    "cli": cli_tour,
    "mysql2": node_tour,
    "go": go_tour,
    "connector-j": lambda p: java_tour(p, artifact="com.mysql:mysql-connector-j:9.1.0", scheme="mysql", ssl="DISABLED"),
    "mariadb-j": lambda p: java_tour(
        p, artifact="org.mariadb.jdbc:mariadb-java-client:3.5.1", scheme="mariadb", ssl="disable"
    ),
}
"""Every client by the name that its conversations bear."""
