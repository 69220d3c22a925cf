"""A server whose machine has summer time: SYSTEM is its zone, and hours that clocks show twice are told apart. It knows
a zone by its name besides."""

from __future__ import annotations

import subprocess

import pytest
from pymysql.constants import CLIENT
from servers import Gate, MariaDb, Sql, find_binary, private

_MOMENTS = ["2026-01-01 12:00:00.250", "2026-07-01 12:00:00.000", "2026-10-25 00:30:00.500", "2026-10-25 01:30:00.500"]
_SHOWN = ["2026-01-01 13:00:00.250", "2026-07-01 14:00:00.000", "2026-10-25 02:30:00.500", "2026-10-25 02:30:00.500"]


@pytest.fixture(scope="module")
def server():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        with private(MariaDb()) as made:
            _tell(made, "Europe/Paris")
            yield made


def _tell(server, zone):
    program = find_binary("mariadb-tzinfo-to-sql")
    told = subprocess.run([program, f"/usr/share/zoneinfo/{zone}", zone], check=True, capture_output=True, text=True)
    connection = server.connect(database="mysql", client_flag=CLIENT.MULTI_STATEMENTS)
    with connection, connection.cursor() as cursor:
        cursor.execute(told.stdout)
        while cursor.nextset():
            pass


@pytest.mark.parametrize("zone", ["SYSTEM", "Europe/Paris", "+00:00"])
def test_moments_in_the_servers_own_zone(server, tmp_path, zone):
    gate = Gate(server.fresh_database("zones"), tmp_path, database="zones").start()
    sql = Sql(gate.connect(init_command=f"SET time_zone = '{zone}'"))
    sql("CREATE QUEUE q (at TIMESTAMP(3), body VARCHAR(20))")
    sql("SET time_zone = '+00:00'")
    for moment in _MOMENTS:
        sql(f"INSERT INTO q (at) VALUES ('{moment}')")
    sql(f"SET time_zone = '{zone}'")
    streamed = [text for (text,) in sql.rows("SELECT at FROM STREAM q LIMIT 10 NOWAIT")]
    expected = _MOMENTS if zone == "+00:00" else _SHOWN
    assert [text.isoformat(" ", "milliseconds") for text in streamed] == expected
    assert sql.column("SELECT at FROM q ORDER BY id") == streamed
    sql.close()
    gate.stop()
