"""A database that goes: drivers, and the pools above them, take the error for the loss of their connection."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mysql.connector
import pymysql
import pytest
import sqlalchemy
from servers import Gate, MariaDb, wait_until
from sqlalchemy.exc import DBAPIError, OperationalError

LOST, CANNOT_CONNECT = 2013, 2003


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


def killed_while(own_mariadb: MariaDb, run: Callable[[], object]) -> BaseException:
    """The error of a statement in whose middle the server dies."""
    raised: list[BaseException] = []

    def work() -> None:
        try:
            run()
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    with own_mariadb.connect() as watching, watching.cursor() as cursor:
        running = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP%'"
        wait_until(lambda: cursor.execute(running) and cursor.fetchone() == (1,), what="the statement to run")
    own_mariadb.kill()
    thread.join(20)
    assert raised
    return raised[0]


def test_pymysql(own_mariadb: MariaDb, gate: Gate) -> None:
    with gate.connect() as connection:
        error = killed_while(own_mariadb, lambda: connection.query("SELECT SLEEP(30)"))
        assert isinstance(error, pymysql.err.OperationalError)
        assert error.args[0] == LOST and error.args[1].startswith("Lost connection to MySQL server during query (")
        with pytest.raises(pymysql.err.OperationalError):
            connection.ping(reconnect=False)
        connection._force_close()
    with pytest.raises(pymysql.err.OperationalError) as refused:
        gate.connect()
    assert refused.value.args[0] == CANNOT_CONNECT
    assert refused.value.args[1].startswith(f"Can't connect to MySQL server on '127.0.0.1:{own_mariadb.port}' (")


@pytest.mark.parametrize("pure", [True, False], ids=["pure", "c"])
def test_connector(own_mariadb: MariaDb, gate: Gate, pure: bool) -> None:
    connection = connector(gate, pure=pure)
    error = killed_while(own_mariadb, lambda: connection.cursor().execute("SELECT SLEEP(30)"))
    assert isinstance(error, mysql.connector.errors.OperationalError) and error.errno == LOST
    assert error.sqlstate == "08S01"
    assert not connection.is_connected()
    connection.close()
    with pytest.raises(mysql.connector.Error) as refused:
        connector(gate, pure=pure)
    assert refused.value.errno == CANNOT_CONNECT


@pytest.mark.parametrize("dialect", ["mysql+pymysql", "mysql+mysqlconnector"])
def test_pool_of_sqlalchemy(own_mariadb: MariaDb, gate: Gate, dialect: str) -> None:
    arguments = {"ssl_disabled": True} if "connector" in dialect else {}
    url = f"{dialect}://root@127.0.0.1:{gate.port}/main"
    engine = sqlalchemy.create_engine(url, pool_pre_ping=True, pool_size=1, max_overflow=0, connect_args=arguments)
    with engine.connect() as connection:
        error = killed_while(own_mariadb, lambda: connection.exec_driver_sql("SELECT SLEEP(30)"))
        assert isinstance(error, OperationalError) and error.connection_invalidated
    with pytest.raises(DBAPIError):
        engine.connect()
    own_mariadb.start()
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT 1").scalar() == 1
    # Restarted while the connection lay in the pool: nobody sees it.
    own_mariadb.kill()
    own_mariadb.start()
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT 2").scalar() == 2
    engine.dispose()
