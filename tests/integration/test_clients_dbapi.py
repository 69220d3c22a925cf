"""PyMySQL and mysql-connector-python, pure and in C: the same program at the server itself and through the proxy."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import dbapi_program
import mysql.connector
import pymysql
import pytest
import toolchains
from dbapi_program import Connect
from servers import Gate, MariaDb, Sql
from transcripts import Address, address_of

pytestmark = pytest.mark.long


def _pymysql(address: Address) -> Connect:
    def connect(autocommit: bool = True, local_infile: bool = False) -> Any:
        return pymysql.connect(
            host=address.host, port=address.port, user=address.user, database=address.database, autocommit=autocommit,
            local_infile=local_infile, max_allowed_packet=64 << 20, read_timeout=60,
        )  # fmt: skip

    return connect


def _connector(pure: bool, compress: bool = False) -> Callable[[Address], Connect]:
    def at(address: Address) -> Connect:
        def connect(autocommit: bool = True, local_infile: bool = False) -> Any:
            return mysql.connector.connect(
                host=address.host, port=address.port, user=address.user, database=address.database,
                autocommit=autocommit, allow_local_infile=local_infile, use_pure=pure, connection_timeout=60,
                compress=compress,
            )  # fmt: skip

        return connect

    return at


DRIVERS: dict[str, tuple[Callable[[Address], Connect], dict[str, Any]]] = {
    "pymysql": (_pymysql, {}),
    "connector-pure": (_connector(True), {}),
    "connector-pure-compressed": (_connector(True, compress=True), {}),
    "connector-c": (_connector(False), {}),
    "connector-c-compressed": (_connector(False, compress=True), {"buffered": True}),
}
drivers = pytest.mark.parametrize("driver", DRIVERS)
plain = pytest.mark.parametrize("driver", ["pymysql", "connector-pure", "connector-c"])


def run(driver: str, address: Address, section: Callable[..., list[str]], *arguments: Any) -> list[str]:
    at, cursor_options = DRIVERS[driver]
    return section(at(address), cursor_options, *arguments)


def assert_same_at(server: MariaDb, gate: Gate, driver: str, sections: Sequence[Callable[..., list[str]]]) -> None:
    """What each section prints at the server and through the gate; names all that differ."""
    differing = []
    for section in sections:
        direct = run(driver, address_of(server), section)
        assert direct, section.__name__
        proxied = run(driver, address_of(gate), section)
        if proxied != direct:
            differing.append((section.__name__, direct, proxied))
    assert not differing


@drivers
def test_ordinary_sql_is_as_without_the_proxy(mariadb, gate, driver):
    assert_same_at(mariadb, gate, driver, dbapi_program.ORDINARY)


@plain
@pytest.mark.filterwarnings("ignore:Call to deprecated function stored_results")
def test_what_a_server_can_do_is_as_without_the_proxy(mariadb, mariadb_gate, driver):
    assert_same_at(mariadb, mariadb_gate, driver, dbapi_program.SERVER)


@plain
def test_load_data_is_as_without_the_proxy(mariadb, mariadb_gate, tmp_path, driver):
    file = tmp_path / "rows.tsv"
    direct, proxied = (
        run(driver, address_of(server), dbapi_program.load_data, file) for server in (mariadb, mariadb_gate)
    )
    assert direct[0] == "loaded 20000"
    assert proxied == direct


@pytest.mark.parametrize("driver", ["pymysql", "mysqlclient"])
def test_an_endless_stream_delivers_row_by_row(gate: Gate, sql: Sql, queue: Callable[..., str], driver: str) -> None:
    """Each row is there before the next message is sent; the connector's cursors have a test of their own."""
    q = queue("n INT")
    client = pymysql if driver == "pymysql" else toolchains.mysqlclient()
    at = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": gate.database, "read_timeout": 60}
    receiver = client.connect(**at)
    messages = receiver.cursor(importlib.import_module(f"{client.__name__}.cursors").SSCursor)
    messages.execute(f"SELECT id, n FROM STREAM {q}")
    for n in range(5):
        sql(f"INSERT INTO {q} (n) VALUES (%s)", n)
        id_, got = messages.fetchone()
        assert (got, sql(f"ACK {q} %s", id_)) == (n, 1)
    sql(f"KILL QUERY {receiver.thread_id()}")
    with pytest.raises(client.Error) as ended:
        messages.fetchone()
    assert ended.value.args[0] == 1317
    receiver.close()
