"""Ids of every type at its ends: each message is delivered and settled by its own id, or CREATE QUEUE refuses."""

from __future__ import annotations

import pytest
from servers import wait_until

pytestmark = [pytest.mark.no_proxy_accounts, pytest.mark.on_mysql]

NINES = "9" * 65
IDS = {
    "TINYINT": ["-128", "127"],
    "INT UNSIGNED": ["0", "4294967295"],
    "INT(5) ZEROFILL": ["1", "4294967295"],
    "BIGINT": ["-9223372036854775808", "9223372036854775806", "9223372036854775807"],
    "BIGINT UNSIGNED": ["0", "9223372036854775807"],
    "YEAR": ["0", "1901", "2155"],
    "DECIMAL(15,0)": ["999999999999999", "999999999999998", "-999999999999999"],
    "DECIMAL(15,0) UNSIGNED": ["999999999999999", "0"],
    "DECIMAL(10,2)": ["1.50", "-0.01", "99999999.99"],
    "DECIMAL(15,10)": ["1.5000000001", "12345.0000000003", "99999.9999999999"],
    "DATE": ["'2026-01-01'", "'9999-12-31'"],
    "DATETIME(6)": ["'2026-01-01 00:00:00.000001'", "'9999-12-31 23:59:59.999999'"],
    "CHAR(10)": ["''", "'a'", "'1e1'"],
    "VARCHAR(10)": ["''", "'a'", "'1e1'", "'0x10'"],
    "ENUM('a','b')": ["'a'", "'b'"],
    "BINARY(4)": ["X'00000000'", "X'ff0000ff'"],
    "VARBINARY(4)": ["X''", "X'ff0000ff'", "X'27'"],
}
ON_SERVERS = {
    "BIGINT UNSIGNED": ["9223372036854775808", "18446744073709551614", "18446744073709551615"],
    "DECIMAL(16,0)": ["9999999999999999", "9999999999999998", "1"],
    "DECIMAL(20,0)": ["12345678901234567890", "12345678901234567891", "-12345678901234567892"],
    "DECIMAL(65,0)": [NINES, f"{NINES[1:]}8", f"-{NINES}"],
    "DECIMAL(65,30)": [f"1.{'0' * 29}1", f"1.{'0' * 29}2", f"-1.{'0' * 29}1"],
    "SET('a','b')": ["'a'", "'a,b'"],
}
WIDE = ["DECIMAL(16,0)", "DECIMAL(65,0)", "DECIMAL(16,16)", "DECIMAL(65,30) UNSIGNED", "NUMERIC(40)"]


def every_message_is_settled_by_its_id(sql, q, ids):
    for one in ids:
        sql(f"INSERT INTO {q} (id, body) VALUES ({one}, 'x')")
    assert len(sql.rows(f"SELECT id FROM STREAM {q} LIMIT {len(ids)} WAIT 10")) == len(ids)
    assert sql.rows(f"SELECT id FROM STREAM {q} LIMIT 1 NOWAIT") == []
    for one in ids:
        assert sql(f"NACK {q} WHERE id = {one} DELAY 0") == 1
    assert len(sql.rows(f"SELECT id FROM STREAM {q} LIMIT {len(ids)} WAIT 10")) == len(ids)
    rejected, *others = ids
    assert sql(f"REJECT {q} WHERE id = {rejected} REASON 'bad'") == 1
    for one in others:
        assert sql(f"ACK {q} WHERE id = {one}") == 1
        assert sql(f"ACK {q} WHERE id = {one}") == 0
    assert sql.column(f"SELECT COUNT(*) FROM {q} WHERE time_acked IS NOT NULL") == [len(others)]
    wait_until(lambda: f"{q}_dead" in sql.column("SHOW QUEUES"))
    wait_until(lambda: sql.column(f"SELECT id = {rejected} FROM {q}_dead") == [1])


@pytest.mark.parametrize("kind", IDS)
def test_ids_at_the_ends_of_their_type(sql, queue, kind):
    every_message_is_settled_by_its_id(sql, queue(f"id {kind} PRIMARY KEY, body TEXT"), IDS[kind])


@pytest.mark.parametrize("kind", ON_SERVERS)
def test_ids_of_types_that_a_server_has(sql, queue, kind, place):
    if place == "embedded":
        pytest.skip("refused at CREATE QUEUE, or at INSERT with 1264")
    every_message_is_settled_by_its_id(sql, queue(f"id {kind} PRIMARY KEY, body TEXT"), ON_SERVERS[kind])


def test_an_unsigned_id_beyond_what_the_embedded_backend_has(sql, queue, place):
    if place != "embedded":
        pytest.skip("servers have it")
    q = queue("id BIGINT UNSIGNED PRIMARY KEY, body TEXT")
    assert sql.error(f"INSERT INTO {q} (id, body) VALUES (9223372036854775808, 'x')")[0] == 1264


@pytest.mark.parametrize("kind", WIDE)
def test_a_decimal_that_the_embedded_backend_cannot_name_is_refused(sql, name, place, kind):
    """In every way in which a table becomes a queue."""
    if place != "embedded":
        pytest.skip("servers have it")
    mark = "vitess_message,vt_ack_wait=30,vt_purge_after=86400,vt_batch_size=10,vt_cache_size=100,vt_poller_interval=30"
    columns = f"id {kind} NOT NULL PRIMARY KEY, priority TINYINT NOT NULL DEFAULT 50, epoch BIGINT NOT NULL DEFAULT 0,"
    columns += " time_next BIGINT DEFAULT 0, time_acked BIGINT, body TEXT"
    made = [
        f"CREATE QUEUE {name} (id {kind} PRIMARY KEY, body TEXT)",
        f"CREATE QUEUE {name} (body TEXT, id {kind}, PRIMARY KEY (id))",
        f"CREATE TABLE {name} ({columns}) COMMENT '{mark}'",
    ]
    for text in made:
        errno, told = sql.error(text)
        assert errno == 1235 and "more than 15 digits" in told and "BIGINT" in told
    sql(f"CREATE TABLE {name} ({columns})")
    assert sql.error(f"ALTER TABLE {name} COMMENT '{mark}'")[0] == 1235
    assert sql(f"INSERT INTO {name} (id, body) VALUES (0.1, 'an ordinary table')") == 1
    sql(f"DROP TABLE {name}")
    sql(f"CREATE QUEUE {name} (id DECIMAL(15,0) PRIMARY KEY, body TEXT)")
    assert sql.error(f"ALTER TABLE {name} MODIFY id {kind} NOT NULL")[0] == 1235
    sql(f"DROP QUEUE {name}")
