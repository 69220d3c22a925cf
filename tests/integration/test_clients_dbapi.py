"""PyMySQL and mysql-connector-python, pure and in C: the same program at the server itself and through the proxy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dbapi_program
import mysql.connector
import pymysql
import pytest
from dbapi_program import Connect
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


@drivers
@pytest.mark.parametrize("section", dbapi_program.ORDINARY, ids=lambda section: section.__name__)
def test_ordinary_sql_is_as_without_the_proxy(mariadb, gate, driver, section):
    direct = run(driver, address_of(mariadb), section)
    assert direct
    assert run(driver, address_of(gate), section) == direct


@plain
@pytest.mark.filterwarnings("ignore:Call to deprecated function stored_results")
@pytest.mark.parametrize("section", dbapi_program.SERVER, ids=lambda section: section.__name__)
def test_what_a_server_can_do_is_as_without_the_proxy(mariadb, mariadb_gate, driver, section):
    direct = run(driver, address_of(mariadb), section)
    assert direct
    assert run(driver, address_of(mariadb_gate), section) == direct


@plain
def test_load_data_is_as_without_the_proxy(mariadb, mariadb_gate, tmp_path, driver):
    file = tmp_path / "rows.tsv"
    direct, proxied = (
        run(driver, address_of(server), dbapi_program.load_data, file) for server in (mariadb, mariadb_gate)
    )
    assert direct[0] == "loaded 20000"
    assert proxied == direct
