"""Times are nanoseconds: a time in another unit is refused, because it would lie in the past and go out at once."""

from __future__ import annotations

import time
from datetime import datetime

import pytest

pytestmark = pytest.mark.no_proxy_accounts

REFUSED = (3819, 4025)  # MySQL's and MariaDB's number of a failed constraint

IN_AN_HOUR = {
    "seconds": "UNIX_TIMESTAMP() + 3600",
    "milliseconds": "UNIX_TIMESTAMP() * 1000 + 3600000",
    "microseconds": "UNIX_TIMESTAMP() * 1000000 + 3600000000",
    "a DATETIME as a number": "CAST(NOW() + INTERVAL 1 HOUR AS SIGNED)",
}


@pytest.mark.parametrize("expression", IN_AN_HOUR.values(), ids=IN_AN_HOUR.keys())
@pytest.mark.parametrize("column", ["time_scheduled", "time_next"])
def test_another_unit_is_refused_and_named(sql, queue, column, expression):
    q = queue()
    code, text = sql.error(f"INSERT INTO {q} (payload, {column}) VALUES ('later', {expression})")
    assert code in REFUSED and "_times_ns" in text
    sql(f"INSERT INTO {q} (payload) VALUES ('now')")
    assert sql.error(f"UPDATE {q} SET {column} = {expression}")[0] in REFUSED
    code, _ = sql.error(f"INSERT INTO {q} (payload, {column}) SELECT 'later', {expression} FROM {q}")
    assert code in REFUSED
    assert sql.column(f"SELECT payload FROM STREAM {q} LIMIT 10 NOWAIT") == ["now"]


def test_a_datetime_is_refused_or_no_number(sql, queue):
    """MariaDB makes 20261224180000 of it; MySQL and the embedded backend say that it is no number, or do the same."""
    q = queue()
    code, _ = sql.error(f"INSERT INTO {q} (payload, time_scheduled) VALUES ('later', NOW() + INTERVAL 1 HOUR)")
    assert code in (*REFUSED, 1265, 1366)
    assert sql.value(f"SELECT COUNT(*) FROM {q}") == 0


def test_nanoseconds_zero_and_null_are_times(sql, queue):
    q = queue()
    later = time.time_ns() + 3600 * 10**9
    sql(
        f"INSERT INTO {q} (payload, time_scheduled) VALUES ('zero', 0), ('later', %s), ('2000', 946684800000000000)",
        later,
    )
    sql(f"INSERT INTO {q} (payload, time_next) VALUES ('null', NULL), ('below', -1)")
    due = sql.column(f"SELECT payload FROM STREAM {q} LIMIT 10 NOWAIT")
    assert sorted(due) == ["2000", "below", "null", "zero"]
    assert sql(f"UPDATE {q} SET time_next = 0 WHERE payload = 'later'") == 1
    assert sql.column(f"SELECT payload FROM STREAM {q} LIMIT 1 WAIT 10") == ["later"]


def test_the_rule_is_none_of_the_queues_text_and_a_copy_has_it(sql, queue, name):
    q = queue("n INT, CONSTRAINT positive CHECK (n > 0)")
    text = sql.row(f"SHOW CREATE QUEUE {q}")[1]
    assert "nanoseconds" not in text and "positive" in text
    sql(text.replace(q, name, 1).replace("positive", "above_zero"))  # in MySQL it is one name in a database
    assert sql.error(f"INSERT INTO {name} (n, time_next) VALUES (1, 5)")[0] in REFUSED
    sql(f"DROP QUEUE {name}")


def test_a_long_name_has_the_rule(sql, name):
    long = f"{name}_".ljust(64, "x")
    sql(f"CREATE QUEUE {long} (n INT)")
    code, text = sql.error(f"INSERT INTO {long} (n, time_next) VALUES (1, 5)")
    assert code in REFUSED and "_times_ns" in text
    sql(f"DROP QUEUE {long}")


def test_times_as_dates(sql, queue):
    """As docs/sql.md has it."""
    q = queue("n INT")
    sql("SET time_zone = '+00:00'")
    sql(f"INSERT INTO {q} (n, time_scheduled, time_created) VALUES (1, 1764097200123456000, 1764097200000000000)")
    assert sql.row(
        "SELECT FROM_UNIXTIME(time_created * 0.000000001) AS created,"
        f" FROM_UNIXTIME(NULLIF(time_next, 0) * 0.000000001) AS due FROM {q}"
    ) == (datetime(2025, 11, 25, 19, 0), datetime(2025, 11, 25, 19, 0, 0, 123456))
    sql(f"UPDATE {q} SET time_next = 9223372036854775807")
    sql("SET time_zone = '+02:00'")
    created, never = sql.row(
        f"SELECT FROM_UNIXTIME(time_created * 0.000000001), FROM_UNIXTIME(NULLIF(time_next, 0) * 0.000000001) FROM {q}"
    )
    assert created == datetime(2025, 11, 25, 21, 0)
    assert never is None or never.year == 2262
