"""CREATE, DROP, TRUNCATE, SHOW and DESCRIBE of queues."""

from __future__ import annotations

import time

import pytest
from servers import NS

pytestmark = [pytest.mark.no_proxy_accounts, pytest.mark.on_mysql]

SYSTEM = ["id", "priority", "time_scheduled", "time_next", "epoch", "time_created", "time_acked", "state"]
SYSTEM += ["first_error", "last_error", "failed_attempts", "lease_token"]


def test_system_columns_come_first_then_the_users(sql, queue):
    q = queue("user_id BIGINT(10), payload VARCHAR(256),")  # a trailing comma is accepted
    assert sql.column(f"DESCRIBE {q}") == [*SYSTEM, "user_id", "payload"]
    assert sql.column(f"SHOW COLUMNS FROM {q}") == [*SYSTEM, "user_id", "payload"]


def test_defaults_of_system_columns(sql, queue):
    q = queue()
    before = time.time_ns()
    sql(f"INSERT INTO {q} (payload) VALUES ('a')")
    after = time.time_ns()
    row = sql.row(f"SELECT {', '.join(SYSTEM)} FROM {q}")
    assert (row[0], row[1], row[4], row[6], row[7]) == (1, 50, 0, None, "to_be_fired")
    for moment in (row[2], row[3], row[5]):
        assert before - NS <= moment <= after + NS
    assert row[2] == row[3]


def test_a_declared_system_column_keeps_its_type(sql, queue):
    q = queue("id VARCHAR(64) NOT NULL PRIMARY KEY, priority SMALLINT NOT NULL DEFAULT 7, payload TEXT")
    assert sorted(sql.column(f"DESCRIBE {q}")) == sorted([*SYSTEM, "payload"])
    sql(f"INSERT INTO {q} (id, payload) VALUES ('order-1', 'x')")
    assert sql.row(f"SELECT id, priority FROM {q}") == ("order-1", 7)
    types = {row[0]: row[1].lower() for row in sql.rows(f"DESCRIBE {q}")}
    assert types["id"] == "varchar(64)"
    assert types["priority"].startswith("smallint")


def test_create_existing_is_1050(sql, queue):
    q = queue()
    assert sql.error(f"CREATE QUEUE {q} (x INT)")[0] == 1050
    sql(f"CREATE QUEUE IF NOT EXISTS {q} (x INT)")
    assert "x" not in sql.column(f"DESCRIBE {q}")


def test_create_over_a_table_is_1050(sql, name):
    sql(f"CREATE TABLE {name} (a INT)")
    assert sql.error(f"CREATE QUEUE {name} (x INT)")[0] == 1050
    sql(f"DROP TABLE {name}")


@pytest.mark.parametrize(
    ("options", "number", "told"),
    [
        ("colour = 'red'", 1231, "ack_wait"),  # lists what is allowed
        ("ack_wait = 'soon'", 1231, "ack_wait"),
        ("ack_wait = 0", 1231, "ack_wait"),
        ("batch_size = 0", 1231, "batch_size"),
        ("cache_size = -1", None, None),
        ("prefetch = 'many'", 1231, "prefetch"),
        ("poll_interval = '100 years'", 1231, "poll_interval"),
        ("min_backoff = '2s', max_backoff = '1s'", 1231, "max_backoff"),
        ("message_cols = 'payload|id'", 1231, "id"),
        ("max_attempts = 'often'", 1231, "max_attempts"),
        ("order_key = 'a b'", 1231, "order_key"),
        ("dead_letter = '😀'", 1231, "dead_letter"),
    ],
)
def test_bad_options_are_refused_and_make_nothing(sql, name, options, number, told):
    errno, text = sql.error(f"CREATE QUEUE {name} (payload TEXT) WITH ({options})")
    if number is not None:
        assert (errno, told in text) == (number, True), text
    assert sql.error(f"SELECT * FROM {name}")[0] == 1146


@pytest.mark.parametrize("type_", ["DOUBLE", "FLOAT(7,3)", "TIME", "TIMESTAMP(6)", "BIT(8)", "JSON"])
def test_an_id_that_cannot_identify_is_refused_and_makes_nothing(sql, name, type_):
    errno, message = sql.error(f"CREATE QUEUE {name} (id {type_} NOT NULL PRIMARY KEY, payload INT)")
    assert errno == 1235
    assert "id" in message
    assert sql.error(f"SELECT * FROM {name}")[0] == 1146


def test_unknown_message_column_is_named(sql, name):
    errno, text = sql.error(f"CREATE QUEUE {name} (payload TEXT) WITH (message_cols = 'id|nope')")
    assert errno in (1054, 1231)
    assert "nope" in text


def test_message_cols_are_what_a_star_streams(sql, queue):
    q = queue("a INT, b INT, c INT", message_cols="'id|c|a'")
    sql(f"INSERT INTO {q} (a, b, c) VALUES (1, 2, 3)")
    assert sql.rows(f"SELECT * FROM STREAM {q} LIMIT 1 NOWAIT") == [(1, 3, 1)]


@pytest.mark.parametrize(
    "text",
    [
        "CREATE QUEUE",
        "CREATE QUEUE {q}",
        "CREATE QUEUE {q} (",
        "CREATE QUEUE {q} (a INT) WITH (ack_wait)",
        "CREATE QUEUE {q} (a INT) WITH ack_wait = 1",
        "DROP QUEUE",
        "STREAM * FROM",
        "SELECT * FROM STREAM {q} LIMIT x",
        "SELECT * FROM STREAM {q} WAIT",
        "ACK",
        "ACK {q}",
    ],
)
def test_syntax_errors_are_1064(sql, queue, text):
    q = queue()
    errno, message = sql.error(text.format(q=q))
    assert errno == 1064, message
    assert message


def test_drop_takes_the_table_along(sql, queue):
    q = queue()
    sql(f"DROP QUEUE {q}")
    assert sql.error(f"SELECT * FROM {q}")[0] == 1146
    assert sql.error(f"SELECT * FROM STREAM {q} NOWAIT")[0] == 1146
    assert sql.error(f"INSERT INTO {q} (payload) VALUES ('a')")[0] == 1146


def test_drop_missing(sql, name):
    assert sql.error(f"DROP QUEUE {name}")[0] in (1051, 1146)
    sql(f"DROP QUEUE IF EXISTS {name}")


def test_an_ordinary_table_is_not_a_queue(sql, name):
    sql(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
    for statement in (
        f"SELECT * FROM STREAM {name}",
        f"STREAM * FROM {name}",
        f"DROP QUEUE {name}",
        f"TRUNCATE QUEUE {name}",
        f"SHOW CREATE QUEUE {name}",
        f"ACK {name} 1",
    ):
        errno, text = sql.error(statement)
        assert (errno, "is not a queue" in text) == (1347, True), (statement, errno, text)
    sql(f"DROP TABLE {name}")


def test_an_unknown_queue_is_1146(sql, name):
    for statement in (
        f"SELECT * FROM STREAM {name}",
        f"STREAM * FROM {name}",
        f"TRUNCATE QUEUE {name}",
        f"SHOW CREATE QUEUE {name}",
        f"ACK {name} 1",
    ):
        errno, text = sql.error(statement)
        assert (errno, name in text) == (1146, True), (statement, errno, text)


def test_truncate_empties_and_delivers_nothing_old(sql, queue):
    q = queue()
    sql(f"INSERT INTO {q} (payload) VALUES ('old'), ('older')")
    sql(f"TRUNCATE QUEUE {q}")
    assert sql.value(f"SELECT COUNT(*) FROM {q}") == 0
    sql(f"INSERT INTO {q} (payload) VALUES ('new')")
    rows = sql.rows(f"SELECT payload FROM STREAM {q} LIMIT 3 NOWAIT")
    assert rows == [("new",)]


def test_show_queues(sql, queue, name):
    one, two = queue(), queue()
    sql(f"CREATE TABLE {name} (a INT)")
    listed = sql.column("SHOW QUEUES")
    assert {one, two} <= set(listed)
    assert name not in listed
    assert sql.column(f"SHOW QUEUES LIKE '{one}'") == [one]
    assert sql.column("SHOW QUEUES LIKE 'no such%%'") == []
    sql(f"DROP TABLE {name}")
    sql(f"DROP QUEUE {one}")
    assert one not in sql.column("SHOW QUEUES")


def test_show_create_queue_can_be_run_again(sql, queue):
    q = queue("user_id BIGINT, payload VARCHAR(256) NOT NULL", ack_wait="'45s'", batch_size=7, purge_after="'2h'")
    named, text = sql.row(f"SHOW CREATE QUEUE {q}")
    assert named == q
    assert "CREATE QUEUE" in text
    described = sql.rows(f"DESCRIBE {q}")
    sql(f"DROP QUEUE {q}")
    sql(text.replace("%", "%%"))
    assert sql.row(f"SHOW CREATE QUEUE {q}") == (q, text)
    assert sql.rows(f"DESCRIBE {q}") == described
    for setting in ("ack_wait", "45", "batch_size", "7", "purge_after"):
        assert setting in text


def test_a_queue_is_an_ordinary_table_to_a_reader(sql, queue):
    q = queue("user_id BIGINT, payload VARCHAR(256)")
    sql(f"INSERT INTO {q} (user_id, payload) VALUES (1, 'a'), (2, 'b'), (2, 'c')")
    assert q in sql.column("SHOW TABLES")
    grouped = sql.rows(
        f"SELECT user_id, COUNT(*) FROM {q} WHERE state = 'to_be_fired' GROUP BY user_id ORDER BY user_id"
    )
    assert grouped == [(1, 1), (2, 2)]
    joined = sql.column(f"SELECT a.id FROM {q} a JOIN {q} b ON a.id = b.id WHERE b.payload = 'c'")
    assert joined == [3]


def test_names_may_be_quoted_qualified_and_in_any_case(sql, name, gate):
    sql(f"create queue `{name}` (payload varchar(20))")
    sql(f"insert into `{gate.database}`.`{name}` (payload) values ('a')")
    assert sql.rows(f"select payload from stream {gate.database}.{name} limit 1 nowait") == [("a",)]
    assert sql(f"ack `{gate.database}`.{name} 1") == 1
    sql(f"drop queue {gate.database}.`{name}`")


def test_a_bare_name_that_begins_as_bits_do_is_whole(sql, name):
    """`0ba...` is a name, for what follows 0b are no bits; its neighbour's is what is left without its ends."""
    bare = f"0ba{name}x"
    neighbour = bare[1:-1]
    for each in (f"`{neighbour}`", bare):
        sql(f"CREATE QUEUE {each} (payload VARCHAR(20))")
        sql(f"INSERT INTO {each} (payload) VALUES ('a'), ('b')")
    assert sql(f"ACK {bare} 1") == 1
    assert sql.rows(f"SELECT id FROM STREAM {bare} LIMIT 1 NOWAIT") == [(2,)]
    assert sql.rows(f"SELECT state, epoch FROM `{neighbour}`") == [("to_be_fired", 0)] * 2
    sql(f"DROP QUEUE {bare}")
    assert bare not in sql.column("SHOW TABLES")
    sql(f"DROP QUEUE {neighbour}")


def test_comments_do_not_hide_a_statement(sql, queue):
    q = queue()
    sql(f"/* app:1 */ INSERT INTO {q} (payload) VALUES ('a') -- tail")
    rows = sql.rows(f"-- first line\n/* then */ SELECT id, payload /* in */ FROM /* the */ STREAM {q} LIMIT 1 NOWAIT;")
    assert rows == [(1, "a")]
    assert sql(f"# hash\nACK /* it */ {q} 1;") == 1
    for tail in ("-- tail", "# (tail)", "; -- tail\n", "/* a */ -- b", "\v"):
        assert sql(f"INSERT INTO {q} (payload) VALUES ('a') DELAY -- for\n '1h' {tail}") == 1
    assert sql.value(f"SELECT COUNT(*) FROM {q} WHERE time_next > time_created") == 5
    sql(f"CALL /* it */ `queue_ack` -- of\n ('{q}', 2) # tail")
    assert sql.value(f"SELECT state FROM {q} WHERE id = 2") == "acked"


def test_words_of_ours_stay_usable_as_names(sql, name):
    """QUEUE, STREAM, ACK are no reserved words for ordinary SQL."""
    sql(f"CREATE TABLE {name} (queue INT, stream INT, ack INT)")
    sql(f"INSERT INTO {name} (queue, stream, ack) VALUES (1, 2, 3)")
    assert sql.row(f"SELECT queue, stream, ack FROM {name}") == (1, 2, 3)
    assert sql.value("SELECT 'SELECT * FROM STREAM x'") == "SELECT * FROM STREAM x"
    sql(f"DROP TABLE {name}")


def test_if_exists_leaves_a_note(sql, name):
    sql(f"DROP QUEUE IF EXISTS {name}")
    warnings = sql.rows("SHOW WARNINGS")
    assert len(warnings) == 1
    assert warnings[0][0] == "Note"
    assert name in warnings[0][2]


def test_an_error_of_the_proxy_is_shown_until_the_next_statement(sql, queue):
    q = queue("n INT")
    for refused in (f"UPDATE {q} SET state = 'x'", f"SELECT * FROM STREAM {q} WITH (nope = 1)"):
        errno, text = sql.error(refused)
        assert sql.rows("SHOW ERRORS") == sql.rows("SHOW WARNINGS") == [("Error", errno, text)]
        assert sql.rows("/* by a tool */ SHOW/**/WARNINGS LIMIT 10 -- all") == [("Error", errno, text)]
        assert sql.rows("SHOW WARNINGS LIMIT 1, 5") == sql.rows("show errors limit 0") == []
    sql(f"DROP QUEUE IF EXISTS {q}_no")
    assert sql.rows("SHOW ERRORS") == []
    sql("SELECT 1")
    assert sql.rows("SHOW WARNINGS") == []


def test_options_are_shown_as_given(sql, queue):
    q = queue("a INT", max_attempts=5, order_key="'a'", on_failure="'skip'")
    text = sql.row(f"SHOW CREATE QUEUE {q}")[1]
    for part in ("max_attempts = 5", "order_key = 'a'", "on_failure = 'skip'"):
        assert part in text
