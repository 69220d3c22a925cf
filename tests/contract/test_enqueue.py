"""Every form of INSERT, with true counts, ids and warnings."""

from __future__ import annotations

import pytest


def received(sql, q, columns="payload", limit=50):
    return sql.rows(f"SELECT {columns} FROM STREAM {q} LIMIT {limit} NOWAIT")


def test_single_row_tells_its_id(sql, queue):
    q = queue()
    assert sql.insert_id(f"INSERT INTO {q} (payload) VALUES ('a')") == 1
    assert sql.insert_id(f"INSERT INTO {q} (payload) VALUES ('b')") == 2
    assert sql.value("SELECT LAST_INSERT_ID()") == 2
    assert received(sql, q, "id, payload") == [(1, "a"), (2, "b")]


def test_many_rows_count_and_first_id(sql, queue):
    q = queue("n INT")
    values = ", ".join(f"({n})" for n in range(100))
    with sql.connection.cursor() as cursor:
        assert cursor.execute(f"INSERT INTO {q} (n) VALUES {values}") == 100
        assert cursor.lastrowid == 1
    assert [row[0] for row in received(sql, q, "n", 200)] == list(range(100))


def test_executemany(sql, queue):
    q = queue("n INT, payload VARCHAR(20)")
    with sql.connection.cursor() as cursor:
        assert (
            cursor.executemany(f"INSERT INTO {q} (n, payload) VALUES (%s, %s)", [(n, str(n)) for n in range(10)]) == 10
        )
    assert received(sql, q, "n, payload") == [(n, str(n)) for n in range(10)]


def test_insert_set(sql, queue):
    q = queue()
    assert sql(f"INSERT INTO {q} SET payload = 'a'") == 1
    assert received(sql, q) == [("a",)]


def test_insert_without_a_column_list_is_the_tables_order(sql, queue):
    q = queue("id INT NOT NULL PRIMARY KEY, payload TEXT")
    width = len(sql.rows(f"DESCRIBE {q}"))
    assert sql.error(f"INSERT INTO {q} VALUES (1, 'a')")[0] == 1136
    assert width > 2


def test_insert_select(sql, queue, name):
    q = queue("n INT")
    sql(f"CREATE TABLE {name} (n INT)")
    sql(f"INSERT INTO {name} (n) VALUES (1), (2), (3)")
    assert sql(f"INSERT INTO {q} (n) SELECT n * 10 FROM {name} ORDER BY n") == 3
    assert received(sql, q, "n") == [(10,), (20,), (30,)]
    sql(f"DROP TABLE {name}")


def test_insert_ignore_counts_what_went_in_and_warns(sql, queue):
    q = queue("id INT NOT NULL PRIMARY KEY, payload VARCHAR(20)")
    sql(f"INSERT INTO {q} (id, payload) VALUES (1, 'a')")
    assert sql(f"INSERT IGNORE INTO {q} (id, payload) VALUES (1, 'again'), (2, 'b')") == 1
    assert received(sql, q) == [("a",), ("b",)]


def test_duplicate_key_is_1062_and_delivers_nothing(sql, queue):
    q = queue("id INT NOT NULL PRIMARY KEY, payload VARCHAR(20)")
    sql(f"INSERT INTO {q} (id, payload) VALUES (1, 'a')")
    errno, text = sql.error(f"INSERT INTO {q} (id, payload) VALUES (2, 'b'), (1, 'c')")
    assert errno == 1062
    assert "Duplicate entry '1'" in text
    assert received(sql, q) == [("a",)]


def test_on_duplicate_key_update(sql, queue):
    q = queue("id INT NOT NULL PRIMARY KEY, payload VARCHAR(20)")
    assert sql(f"INSERT INTO {q} (id, payload) VALUES (1, 'a') ON DUPLICATE KEY UPDATE payload = 'x'") == 1
    assert sql(f"INSERT INTO {q} (id, payload) VALUES (1, 'b') ON DUPLICATE KEY UPDATE payload = VALUES(payload)") == 2
    assert received(sql, q) == [("b",)]


def test_replace(sql, queue):
    q = queue("id INT NOT NULL PRIMARY KEY, payload VARCHAR(20)")
    assert sql(f"REPLACE INTO {q} (id, payload) VALUES (1, 'a')") == 1
    assert sql(f"REPLACE INTO {q} (id, payload) VALUES (1, 'b'), (2, 'c')") == 3
    assert received(sql, q) == [("b",), ("c",)]


@pytest.mark.parametrize("value", ["0", "946684800000000000", "NULL"])
def test_time_next_of_nought_past_or_null_means_now(sql, queue, value):
    q = queue()
    sql(f"INSERT INTO {q} (payload, time_next) VALUES ('a', {value})")
    assert received(sql, q) == [("a",)]


def test_an_unknown_column_is_1054(sql, queue):
    q = queue()
    assert sql.error(f"INSERT INTO {q} (nope) VALUES (1)")[0] == 1054


def test_values_arrive_as_they_were_sent(sql, queue):
    q = queue("a BIGINT, b DOUBLE, c DECIMAL(20,6), d DATETIME(6), e DATE, f BLOB, g JSON, h TEXT, i TINYINT(1)")
    text = "naïve 日本 🎉 'quotes' \"double\" \\ back\nline\t%s ? :x --"
    sql(
        f"INSERT INTO {q} (a, b, c, d, e, f, g, h, i) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
        -(2**63), 0.1, "123456789.123456", "2026-01-02 03:04:05.678901", "2026-01-02", b"\x00\xff\x27\\",
        '{"k": [1, null]}', text, True,
    )  # fmt: skip
    from_table = sql.row(f"SELECT id, a, b, c, d, e, f, g, h, i FROM {q}")
    streamed = sql.row(f"SELECT * FROM STREAM {q} LIMIT 1 NOWAIT")
    assert streamed == from_table
    assert streamed[1:3] == (-(2**63), 0.1)
    assert str(streamed[3]) == "123456789.123456"
    assert streamed[4].isoformat() == "2026-01-02T03:04:05.678901"
    assert streamed[5].isoformat() == "2026-01-02"
    assert streamed[6] == b"\x00\xff\x27\\"
    assert streamed[8:] == (text, 1)


def test_null_columns_arrive_as_null(sql, queue):
    q = queue("a INT, b TEXT")
    sql(f"INSERT INTO {q} (a, b) VALUES (NULL, NULL), (0, '')")
    assert received(sql, q, "a, b") == [(None, None), (0, "")]


def test_a_large_message(sql, queue):
    q = queue("payload LONGTEXT")
    large = "x" * 20_000_000  # more than one protocol packet of 16 MiB holds
    sql(f"INSERT INTO {q} (payload) VALUES (%s)", large)
    assert received(sql, q) == [(large,)]


def test_mixed_given_and_generated_ids(sql, queue):
    q = queue()
    sql(f"INSERT INTO {q} (id, payload) VALUES (NULL, 'a'), (NULL, 'b'), (50, 'c'), (NULL, 'd')")
    rows = received(sql, q, "id, payload")
    assert dict(rows)[50] == "c"
    assert sorted(payload for _, payload in rows) == ["a", "b", "c", "d"]
    assert len({row[0] for row in rows}) == 4


@pytest.mark.parametrize("kind", ["VARCHAR(40)", "VARBINARY(40)", "BINARY(4)", "INT UNSIGNED", "CHAR(10)"])
def test_ids_of_any_key_type(sql, queue, kind):
    q = queue(f"id {kind} NOT NULL PRIMARY KEY, payload TEXT")
    ids = [7, 8] if "INT" in kind else [b"k\x00'1", b"\xff\xfe\\2"] if "BINARY" in kind else ["it's", "Größe"]
    for value in ids:
        sql(f"INSERT INTO {q} (id, payload) VALUES (%s, 'p')", value)
    assert sorted(row[0] for row in received(sql, q, "id")) == sorted(ids)
    assert sql(f"ACK {q} %s", ids[0]) == 1
    assert sql(f"ACK {q} %s, %s", *ids) == 1
    assert sql.value(f"SELECT COUNT(*) FROM {q} WHERE state = 'acked'") == 2


def test_who_names_every_column_leaves_the_queues_own_to_their_defaults(sql, queue, stream):
    """Spark's JDBC catalog writes NULL for each column that a DataFrame does not have."""
    q = queue("user_id INT, payload VARCHAR(100)")
    receiver = stream(f"SELECT user_id, payload, priority FROM STREAM {q}")
    columns = sql.column(f"SHOW COLUMNS FROM {q}")
    given = {"user_id": "7", "payload": "'all'"}
    row = ", ".join(given.get(column, "NULL") for column in columns)
    names = ", ".join(f"`{column}`" for column in columns)
    assert sql(f"INSERT INTO {q} ({names}) VALUES ({row}), ({row})") == 2
    assert receiver.wait(2) == [(7, "all", 50)] * 2
    given["time_scheduled"] = str(2 * 10**18)  # then time_next is that time, not now
    row = ", ".join(given.get(column, "NULL") for column in columns)
    sql(f"INSERT INTO {q} ({names}) VALUES ({row})")
    assert sql.row(f"SELECT id, time_next, state FROM {q} WHERE epoch = 0") == (3, 2 * 10**18, "to_be_fired")
    assert sql.error(f"INSERT INTO {q} ({names}) VALUES ({row.replace('NULL', '1')})")[0] != 0


def test_a_null_that_does_not_come_with_every_column_is_the_databases_business(sql, queue):
    q = queue("payload VARCHAR(100)")
    assert sql.error(f"INSERT INTO {q} (priority, payload) VALUES (NULL, 'a')")[0] == 1048


def test_a_default_that_is_another_column_follows_it_where_it_is_spelled_out(sql, name):
    sql(f"CREATE TABLE {name} (a INT DEFAULT 1, b INT DEFAULT (a + 1), c INT NOT NULL DEFAULT 7)")
    sql(f"INSERT INTO {name} (a, b, c) VALUES (5, DEFAULT, DEFAULT), (DEFAULT, DEFAULT, 8)")
    assert sql.rows(f"SELECT a, b, c FROM {name} ORDER BY c") == [(5, 6, 7), (1, 2, 8)]
    assert sql.error(f"INSERT INTO {name} (c, b) VALUES (NULL, DEFAULT)")[0] == 1048
    sql(f"DROP TABLE {name}")
