"""A database that goes: drivers, and the pools above them, take that for the loss of their connection."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import mysql.connector
import pymysql
import pytest
import sqlalchemy
import toolchains
from servers import Gate, MariaDb, find_binary, wait_until
from slowness import scaled
from sqlalchemy.exc import DBAPIError, OperationalError
from wire_client import Hangup, WireClient

LOST, UNREACHABLE = 2013, 1218
"""What client libraries say of a connection that was closed, and the proxy of a database that it cannot reach."""


@pytest.fixture
def gate(own_mariadb: MariaDb, tmp_path: Path) -> Iterator[Gate]:
    running = Gate(own_mariadb.url(), tmp_path)
    running.start()
    yield running
    running.stop()


def connector(gate: Gate, *, pure: bool) -> Any:
    return mysql.connector.connect(
        host="127.0.0.1", port=gate.port, user="root", database="main", use_pure=pure, ssl_disabled=True
    )


def mysqlclient(gate: Gate) -> Any:
    return toolchains.mysqlclient().connect(
        host="127.0.0.1", port=gate.port, user="root", database="main", autocommit=True
    )


def running_on(own_mariadb: MariaDb) -> int:
    """The server's id of the connection whose SELECT SLEEP runs."""
    with own_mariadb.connect() as watching, watching.cursor() as cursor:
        running = "SELECT id FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP%'"
        wait_until(lambda: cursor.execute(running), what="the statement to run")
        number: int = cursor.fetchone()[0]
        return number


def raised_while(run: Callable[[], object], then: Callable[[], object]) -> BaseException:
    """The error of a statement that `then` ends."""
    raised: list[BaseException] = []

    def work() -> None:
        try:
            run()
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    then()
    thread.join(scaled(20))
    assert raised
    return raised[0]


def killed_while(own_mariadb: MariaDb, run: Callable[[], object]) -> BaseException:
    """The error of a statement in whose middle the server dies."""

    def die() -> None:
        running_on(own_mariadb)
        own_mariadb.kill()

    return raised_while(run, die)


def kill_connection(own_mariadb: MariaDb) -> None:
    number = running_on(own_mariadb)
    with own_mariadb.connect() as admin, admin.cursor() as cursor:
        cursor.execute(f"KILL {number}")


def test_nothing_is_sent_but_the_end(own_mariadb: MariaDb, gate: Gate) -> None:
    """As at the server itself."""
    for port in (own_mariadb.port, gate.port):
        with WireClient(port, database="main") as client:
            error = raised_while(lambda c=client: c.query("SELECT SLEEP(30)"), lambda: kill_connection(own_mariadb))
            assert isinstance(error, Hangup), error


def test_pymysql(own_mariadb: MariaDb, gate: Gate) -> None:
    with gate.connect() as connection:
        error = killed_while(own_mariadb, lambda: connection.query("SELECT SLEEP(30)"))
        assert isinstance(error, pymysql.err.OperationalError) and error.args[0] == LOST
        with pytest.raises(pymysql.err.MySQLError):
            connection.ping(reconnect=False)
        connection._force_close()
    with pytest.raises(pymysql.err.OperationalError) as refused:
        gate.connect()
    assert refused.value.args[0] == UNREACHABLE
    assert refused.value.args[1].startswith(f"Can't connect to MySQL server on '127.0.0.1:{own_mariadb.port}' (")


def test_mysqlclient(own_mariadb: MariaDb, gate: Gate) -> None:
    """On libmariadb, to which an error with a client's own number is a malformed packet."""
    failed = toolchains.mysqlclient().OperationalError
    with closing(mysqlclient(gate)) as connection:
        error = killed_while(own_mariadb, lambda: connection.query("SELECT SLEEP(30)"))
        assert isinstance(error, failed) and error.args[0] == LOST
    with pytest.raises(failed) as refused:
        mysqlclient(gate)
    assert refused.value.args[0] == UNREACHABLE and "Can't connect to MySQL server on" in refused.value.args[1]


def test_command_line(own_mariadb: MariaDb, gate: Gate) -> None:
    binary = find_binary("mariadb")
    assert binary is not None
    command = [binary, "--no-defaults", "-h127.0.0.1", f"-P{gate.port}", "-uroot", "main"]
    with subprocess.Popen([*command, "-eSELECT SLEEP(30)"], stderr=subprocess.PIPE, text=True) as client:
        kill_connection(own_mariadb)
        assert "ERROR 2013 (HY000)" in client.communicate(timeout=20)[1]
    own_mariadb.kill()
    done = subprocess.run([*command, "-eSELECT 1"], capture_output=True, text=True, timeout=20, check=False)
    # Newer clients, which want TLS, put words of their own before an error in place of the greeting.
    assert str(UNREACHABLE) in done.stderr and "Can't connect to MySQL server on" in done.stderr


@pytest.mark.parametrize("pure", [True, False], ids=["pure", "c"])
def test_connector(own_mariadb: MariaDb, gate: Gate, pure: bool) -> None:
    connection = connector(gate, pure=pure)
    error = killed_while(own_mariadb, lambda: connection.cursor().execute("SELECT SLEEP(30)"))
    assert isinstance(error, mysql.connector.errors.Error) and error.errno == LOST
    assert not connection.is_connected()
    connection.close()
    with pytest.raises(mysql.connector.Error) as refused:
        connector(gate, pure=pure)
    assert refused.value.errno == UNREACHABLE


@pytest.mark.parametrize("dialect", ["mysql+pymysql", "mysql+mysqlconnector", "mysql+mysqldb"])
@pytest.mark.parametrize("how", ["server", "connection"])
def test_pool_of_sqlalchemy(own_mariadb: MariaDb, gate: Gate, dialect: str, how: str) -> None:
    if "mysqldb" in dialect:
        toolchains.mysqlclient()
    arguments = {"ssl_disabled": True} if "connector" in dialect else {}
    url = f"{dialect}://root@127.0.0.1:{gate.port}/main"
    engine = sqlalchemy.create_engine(
        url, pool_pre_ping=how == "server", pool_size=1, max_overflow=0, connect_args=arguments
    )

    def end() -> None:
        if how == "server":
            running_on(own_mariadb)
            own_mariadb.kill()
        else:
            kill_connection(own_mariadb)

    with engine.connect() as connection:
        error = raised_while(lambda: connection.exec_driver_sql("SELECT SLEEP(30)"), end)
        assert isinstance(error, DBAPIError) and error.connection_invalidated
        assert isinstance(error, OperationalError) or "connector" in dialect
    if how == "server":
        with pytest.raises(DBAPIError):
            engine.connect()
        own_mariadb.start()
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT 1").scalar() == 1
    if how == "server":
        # Restarted while the connection lay in the pool: nobody sees it.
        own_mariadb.kill()
        own_mariadb.start()
        with engine.connect() as connection:
            assert connection.exec_driver_sql("SELECT 2").scalar() == 2
    engine.dispose()
