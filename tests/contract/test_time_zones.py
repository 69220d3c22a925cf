"""A TIMESTAMP in a stream shows what the same session reads of it in the table, however a row goes out."""

from __future__ import annotations

import mysql.connector
import pytest

pytestmark = pytest.mark.on_mysql

ZONES = ["+00:00", "+05:45", "-03:30", "SYSTEM", "Europe/Berlin", "America/St_Johns"]
_COLUMNS = "n INT, at TIMESTAMP NULL, fine TIMESTAMP(3) NULL, exact TIMESTAMP(6) NULL, plain DATETIME(3)"
_MOMENTS = [
    "2026-01-01 00:00:00.000000",
    "2026-07-01 23:59:59.999999",
    "2026-03-29 01:00:00.250000",  # in Berlin clocks have just gone from 2 to 3
    "2026-10-25 00:30:00.500000",  # 2:30 there, for the first time
    "2026-10-25 01:30:00.500000",  # 2:30 there, for the second time
    "1970-01-02 00:00:01.000000",
    "2037-12-31 12:00:00.000001",
]


def _fill(sql, table):
    sql("SET time_zone = '+00:00'")
    for n, moment in enumerate(_MOMENTS):
        cut = moment[:19], moment[:23], moment, moment[:23]
        sql(
            f"INSERT INTO {table} (n, at, fine, exact, plain)"
            f" VALUES ({n}, '{cut[0]}', '{cut[1]}', '{cut[2]}', '{cut[3]}')"
        )
    sql(f"INSERT INTO {table} (n) VALUES (99)")


def _in(sql, zone):
    try:
        sql(f"SET time_zone = '{zone}'")
        sql.rows("SELECT TABLE_NAME FROM information_schema.TABLES LIMIT 1")  # a vtgate says it then
    except Exception as error:  # the server's tables of zones are empty
        assert error.args[0] == 1298
        pytest.skip(f"the server does not know {zone}")


_SHOWN = "n, at, fine, exact, plain"


@pytest.mark.parametrize("zone", ZONES)
def test_a_stream_shows_moments_as_the_table_does(sql, queue, stream, gate, zone):
    q = queue(_COLUMNS)
    _fill(sql, q)
    _in(sql, zone)
    in_table = sql.rows(f"SELECT {_SHOWN} FROM {q} ORDER BY n")
    assert sql.rows(f"SELECT {_SHOWN} FROM STREAM {q} LIMIT 3 NOWAIT") == in_table[:3]
    with mysql.connector.connect(
        host="127.0.0.1", port=gate.port, user="root", database=gate.database, autocommit=True, time_zone=zone
    ) as link:
        cursor = link.cursor(prepared=True)
        cursor.execute(f"SELECT {_SHOWN} FROM STREAM {q} LIMIT ? NOWAIT", (2,))
        assert cursor.fetchall() == in_table[3:5]
        cursor.close()
    endless = stream(f"SELECT {_SHOWN} FROM STREAM {q}", init_command=f"SET time_zone = '{zone}'")
    assert endless.wait(3) == in_table[5:]


@pytest.mark.parametrize("zone", ["+05:45", "Europe/Berlin"])
def test_a_group_a_broadcast_and_a_replay_show_the_same(sql, topic, stream, zone):
    t = topic(_COLUMNS, billing="START AT EARLIEST")
    _fill(sql, t)
    _in(sql, zone)
    in_table = sql.rows(f"SELECT {_SHOWN} FROM {t} ORDER BY n")
    assert sql.rows(f"SELECT {_SHOWN} FROM STREAM {t} WITH (group = 'billing') LIMIT 4 WAIT 10") == in_table[:4]
    group = stream(
        f"SELECT {_SHOWN} FROM STREAM {t} WITH (group = 'billing')", init_command=f"SET time_zone = '{zone}'"
    )
    assert group.wait(4) == in_table[4:]
    assert (
        sql.rows(f"SELECT {_SHOWN} FROM STREAM {t} WITH (mode = 'broadcast', start = 'earliest') LIMIT 8 WAIT 10")
        == in_table
    )
    assert sorted(sql.rows(f"SELECT {_SHOWN} FROM STREAM {t} SINCE EARLIEST")) == sorted(in_table)


def test_where_and_row_agree(sql, queue):
    q = queue(_COLUMNS)
    _fill(sql, q)
    sql("SET time_zone = '+05:45'")
    (row,) = sql.rows(f"SELECT at FROM STREAM {q} WHERE at = '2026-01-01 05:45:00' LIMIT 5 NOWAIT")
    assert str(row[0]) == "2026-01-01 05:45:00"


def test_a_zero_date_is_one(sql, queue, place):
    if place == "embedded":
        pytest.skip("it holds no zero dates")
    q = queue(_COLUMNS)
    sql("SET sql_mode = ''")
    zero = "0000-00-00 00:00:00"
    sql(f"INSERT INTO {q} (n, at, exact) VALUES (1, '{zero}', '{zero}')")
    asked = "CAST(at AS CHAR), CAST(exact AS CHAR)"
    shown = sql.row(f"SELECT {asked} FROM {q}")
    assert shown == (zero, f"{zero}.000000")
    assert sql.row(f"SELECT at, exact FROM STREAM {q} LIMIT 1 NOWAIT") == sql.row(f"SELECT at, exact FROM {q}")
