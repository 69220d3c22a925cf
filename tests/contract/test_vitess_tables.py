"""Vitess's own statements, word for word: both tables of its documentation, and what it says to do with them."""

from __future__ import annotations

import time

import mysql.connector
import pytest
from servers import NS, Sql

pytestmark = [pytest.mark.no_proxy_accounts, pytest.mark.on_mysql]

FIRST = """create table my_message(
  time_scheduled bigint,
  id bigint,
  time_next bigint,
  epoch bigint,
  time_created bigint,
  time_acked bigint,
  message varchar(128),
  primary key(time_scheduled, id),
  unique index id_idx(id),
  index next_idx(time_next, epoch)
) comment 'vitess_message,vt_ack_wait=30,vt_purge_after=86400,vt_batch_size=10,\
vt_cache_size=10000,vt_poller_interval=30'
"""

NEWEST = """create table my_message(
  id bigint NOT NULL COMMENT 'often an event id, can also be auto-increment or a sequence',
  priority tinyint NOT NULL DEFAULT '50' COMMENT 'lower number priorities process first',
  epoch bigint NOT NULL DEFAULT '0' COMMENT 'Vitess increments this each time it sends a message',
  time_next bigint DEFAULT 0 COMMENT 'the earliest time the message will be sent in epoch nanoseconds',
  time_acked bigint DEFAULT NULL COMMENT 'the time the message was acked in epoch nanoseconds',

  # add as many custom fields here as required
  # optional - these are suggestions
  tenant_id bigint,
  message json,

  # required indexes
  primary key(id),
  index poller_idx(time_acked, priority, time_next desc)

  # add any secondary indexes or foreign keys - no restrictions
) comment 'vitess_message,vt_min_backoff=30,vt_max_backoff=3600,vt_ack_wait=30,vt_purge_after=86400,vt_batch_size=10,\
vt_cache_size=10000,vt_poller_interval=30,vt_message_cols=id|message'
"""

KEYS = "vt_ack_wait=30,vt_purge_after=86400,vt_batch_size=10,vt_cache_size=10000,vt_poller_interval=30"


@pytest.fixture
def first(sql):
    """Vitess's first table, as `my_message`."""
    sql("DROP QUEUE IF EXISTS my_message")
    sql(FIRST)
    yield "my_message"
    sql("DROP QUEUE my_message")


@pytest.fixture
def newest(sql):
    """Vitess's newest table, as `my_message`."""
    sql("DROP QUEUE IF EXISTS my_message")
    sql(NEWEST)
    yield "my_message"
    sql("DROP QUEUE my_message")


def row(sql, identity):
    columns = "time_scheduled, time_next, epoch, time_created, time_acked, message"
    return sql.row(f"SELECT {columns} FROM my_message WHERE id = {identity}")


def test_the_first_layouts_insert_as_documented(sql, first, stream):
    receiver = stream("stream * from my_message")
    assert receiver.columns == ["id", "message"]
    before = time.time_ns()
    assert sql("insert into my_message(id, message) values(1, 'hello world')") == 1
    after = time.time_ns()
    assert receiver.wait(1) == [(1, "hello world")]
    scheduled, lease, epoch, created, acked, message = row(sql, 1)
    assert before - NS // 100 <= scheduled <= after + NS // 100
    assert created == scheduled
    assert (epoch, acked, message) == (1, None, "hello world")
    assert before + 30 * NS <= lease + NS // 100 <= time.time_ns() + 30 * NS + NS // 50  # ack_wait, not yet doubled


def test_the_first_layouts_message_of_the_future(sql, first, stream):
    receiver = stream("stream * from my_message")
    due = time.time_ns() // 1000 * 1000 + NS
    sql("insert into my_message(id, message, time_scheduled) values(1, 'hello world', %s)", due)
    assert row(sql, 1)[:3] == (due, due, 0)
    sql("insert into my_message(id, message) values(2, 'now')")
    assert receiver.wait(2) == [(2, "now"), (1, "hello world")]
    assert receiver.times[1] >= due / NS - 0.002


def test_the_first_layouts_rows_together_and_in_a_transaction(sql, connect, first):
    client = connect(autocommit=False)
    assert client("insert into my_message(id, message) values (1, 'a, (b)'), (2, concat('c', 'd')), (3, null)") == 3
    assert sql.rows("SELECT * FROM STREAM my_message LIMIT 5 NOWAIT") == []
    client("COMMIT")
    assert sorted(sql.rows("SELECT * FROM STREAM my_message LIMIT 3 WAIT 10")) == [
        (1, "a, (b)"),
        (2, "cd"),
        (3, None),
    ]


INSERTS = [
    "INSERT my_message SET id = 1, message = 'm'",
    "INSERT IGNORE INTO my_message (id, message) VALUES (1, 'm')",
    "REPLACE INTO my_message (message, id) VALUES ('m', 1)",
    "INSERT INTO my_message (id, message) VALUES (1, 'm') ON DUPLICATE KEY UPDATE message = 'again'",
    "INSERT INTO my_message (id, message, epoch) VALUES (1, 'm', 0)",
    "INSERT INTO my_message (id, message, time_next) VALUES (1, 'm', 0)",
    "INSERT INTO my_message (time_scheduled, id, time_next, epoch, time_created, message) VALUES (1, 1, 1, 0, 1, 'm')",
    "INSERT INTO my_message VALUES (1, 1, 1, 0, 1, NULL, 'm')",
    "INSERT INTO my_message SELECT 1, 1, 1, 0, 1, NULL, 'm'",
]


@pytest.mark.parametrize("insert", INSERTS)
def test_every_form_of_insert_into_the_first_layout(sql, first, insert):
    assert sql(insert) == 1
    assert sql.rows("SELECT id, message, epoch FROM STREAM my_message LIMIT 1 WAIT 10") == [(1, "m", 1)]
    assert sql("ACK my_message 1") == 1


def test_an_upsert_of_the_first_layout_changes_the_row_that_is_there(sql, first):
    sql("insert into my_message(id, message) values(1, 'a')")
    # the unique key on id finds it, though the primary key has another time
    assert sql("insert into my_message(id, message) values(1, 'b') on duplicate key update message = 'b'") == 2
    assert sql.rows("SELECT id, message FROM my_message") == [(1, "b")]


def test_what_the_first_layout_cannot_do_without_is_named(sql, first):
    assert sql.error("insert into my_message(message) values('m')") == (1364, "Field 'id' doesn't have a default value")
    assert sql.error("insert into my_message(id, message) select 1, 'm'")[0] == 1364  # time_scheduled
    assert sql.error("insert into my_message(id, message) values(1)")[0] == 1136
    assert sql.error("insert into my_message(id, nope) values(1, 2)")[0] == 1054
    sql("insert into my_message(id, message) values(1, 'm')")
    assert sql.error("insert into my_message(id, message) values(1, 'm')")[0] == 1062
    assert sql.value("SELECT COUNT(*) FROM my_message") == 1


def test_a_prepared_insert_into_the_first_layout(gate, sql, first):
    options = {"host": "127.0.0.1", "port": gate.port, "user": "root", "password": "", "database": gate.database}
    with mysql.connector.connect(**options, use_pure=True) as connection:
        cursor = connection.cursor(prepared=True)
        for number in (1, 2):
            cursor.execute("insert into my_message(id, message) values(%s, %s)", (number, f"m{number}"))
            assert cursor.rowcount == 1
        connection.commit()
    assert sorted(sql.rows("SELECT * FROM STREAM my_message LIMIT 2 WAIT 10")) == [(1, "m1"), (2, "m2")]


@pytest.mark.parametrize("layout", ["first", "newest"])
def test_the_documented_ack_and_reschedule(sql, request, stream, layout):
    request.getfixturevalue(layout)
    receiver = stream("stream * from my_message")
    for number in (1, 2, 3):
        sql(f"""insert into my_message(id, message) values({number}, '{{"message": "hello world"}}')""")
    receiver.wait(3)
    now = time.time_ns()
    ack = "update my_message set time_acked = %s, time_next = null where id in %s and time_acked is null"
    assert sql(ack, now, (1, 2)) == 2
    assert sql(ack, now, (1, 2)) == 0
    again = "update my_message set time_next = %s, epoch = %s where id in %s and time_acked is null"
    assert sql(again, now, 0, (1, 2, 3)) == 1
    rows = receiver.wait(4)
    assert [one[0] for one in rows[3:]] == [3]
    assert sql.rows("SELECT id, epoch FROM my_message ORDER BY id") == [(1, 1), (2, 1), (3, 1)]


def test_columns_are_described_as_an_ordinary_select_describes_them(sql, newest):
    sql("ALTER TABLE my_message COMMENT = 'vitess_message," + KEYS + "'")
    described = []
    for text in ("STREAM * FROM my_message NOWAIT", "SELECT id, tenant_id, message FROM my_message"):
        with sql.connection.cursor() as cursor:
            cursor.execute(text)
            described.append([(column[0], column[1]) for column in cursor.description])
    assert described[0] == described[1]
    assert [name for name, _ in described[0]] == ["id", "tenant_id", "message"]


def test_the_newest_layout_as_documented(sql, newest, stream):
    receiver = stream("stream * from my_message")
    assert receiver.columns == ["id", "message"]
    hello = '{"message": "hello world"}'
    sql(f"insert into my_message(id, message) values(1, '{hello}')")
    assert [(one[0], one[1].replace(" ", "")) for one in receiver.wait(1)] == [(1, hello.replace(" ", ""))]
    due = time.time_ns() + NS // 2
    sql("insert into my_message(id, priority, time_next, message) values(2, 10, %s, %s)", due, hello)
    receiver.wait(2)
    assert receiver.times[1] >= due / NS - 0.002
    assert sql("update my_message set priority = 1, time_next = 0 where id = 2 and time_acked is null") == 1
    assert receiver.wait(3)[2][0] == 2


@pytest.mark.parametrize("layout", ["first", "newest"])
def test_ids_may_count_themselves(sql, name, stream, layout):
    """Vitess's old test: NULL, NULL, 5, NULL become 1, 2, 5 and 6."""
    text = {"first": FIRST, "newest": NEWEST}[layout].replace("my_message", name)
    text = text.replace("  id bigint,", "  id bigint auto_increment,").replace(
        "id bigint NOT NULL", "id bigint auto_increment"
    )
    sql(text)
    receiver = stream(f"STREAM id FROM {name}")
    sql(f"INSERT INTO {name} (id, message) VALUES (NULL, '1'), (NULL, '2'), (5, '3'), (NULL, '4')")
    assert sorted(receiver.wait(4)) == [(1,), (2,), (5,), (6,)]
    sql(f"INSERT INTO {name} (message) VALUES ('5')")
    assert sql.value("SELECT LAST_INSERT_ID()") == 7
    assert receiver.wait(5)[4] == (7,)
    sql(f"DROP QUEUE {name}")


def test_a_first_layout_with_columns_of_the_users_own(sql, name, stream):
    """What came between the two: several columns, none of them called message."""
    sql(FIRST.replace("my_message", name).replace("message varchar(128)", "tenant int, body text"))
    receiver = stream(f"STREAM * FROM {name}")
    assert receiver.columns == ["id", "tenant", "body"]
    sql(f"INSERT INTO {name} (id, tenant, body) VALUES (1, 2, 'b')")
    assert receiver.wait(1) == [(1, 2, "b")]
    sql(f"DROP QUEUE {name}")


FIRST_COLUMNS = ["id", "time_next", "epoch", "time_created", "time_acked"]


@pytest.mark.parametrize("column", FIRST_COLUMNS)
def test_a_missing_column_of_the_first_layout_is_named(sql, name, column):
    columns = ", ".join(f"{one} BIGINT" for one in ["time_scheduled", *FIRST_COLUMNS] if one != column)
    unique = "" if column == "id" else ", UNIQUE (id)"
    sql(f"CREATE TABLE {name} ({columns}, message TEXT{unique}) COMMENT 'vitess_message,{KEYS}'")
    errno, text = sql.error(f"STREAM * FROM {name}")
    assert errno == 1347
    assert f"{column} missing from message table: {name}" in text
    sql(f"DROP TABLE {name}")


def test_a_first_layout_without_its_time_is_taken_for_the_newest(sql, name):
    columns = ", ".join(f"{one} BIGINT" for one in FIRST_COLUMNS)
    sql(f"CREATE TABLE {name} ({columns}, message TEXT, UNIQUE (id)) COMMENT 'vitess_message,{KEYS}'")
    assert f"priority missing from message table: {name}" in sql.error(f"STREAM * FROM {name}")[1]
    sql(f"DROP TABLE {name}")


@pytest.mark.parametrize(
    ("columns", "fault"), [("message", "must begin with id"), ("id|nope", "'nope' is not a column of the queue")]
)
def test_an_allow_list_that_cannot_hold_is_named(sql, name, columns, fault):
    sql(NEWEST.replace("my_message", name).replace("vt_message_cols=id|message", f"vt_message_cols={columns}"))
    errno, text = sql.error(f"STREAM * FROM {name}")
    assert errno == 1347
    assert fault in text
    assert name in text
    sql(f"DROP {'QUEUE' if 'nope' in columns else 'TABLE'} {name}")


def test_the_first_layouts_delay_doubles_from_ack_wait(sql, name):
    sql(FIRST.replace("my_message", name).replace("vt_ack_wait=30", "vt_ack_wait=10"))
    sql(f"INSERT INTO {name} (id, message) VALUES (1, 'm')")
    for epoch in range(5):
        before = time.time_ns()
        assert sql.row(f"SELECT epoch FROM STREAM {name} LIMIT 1 WAIT 10") == (epoch + 1,)
        after = time.time_ns()
        lease = sql.value(f"SELECT time_next FROM {name}")
        slack = NS // 500  # the embedded database counts milliseconds
        assert before + 10 * 2**epoch * NS - slack <= lease <= after + 10 * 2**epoch * NS + slack
        sql(f"UPDATE {name} SET time_next = 0 WHERE id = 1")
    sql(f"DROP QUEUE {name}")


def test_the_queues_designs_create_queue(sql):
    sql("DROP QUEUE IF EXISTS my_queue")
    sql("CREATE QUEUE my_queue(\n  user_id BIGINT(10),\n  payload VARCHAR(256),\n)")
    sql("INSERT INTO my_queue (user_id, payload) VALUES (10, 'I want to say hi to you')")
    assert sql.rows("STREAM * FROM my_queue LIMIT 1") == [(1, 10, "I want to say hi to you")]
    assert sql("UPDATE my_queue SET state = 'acked' WHERE id = 1") == 1
    sql("DROP QUEUE my_queue")


def around(gate, request, statement):
    """Run a statement at the database itself; the embedded one has nothing but the proxy that could change tables."""
    with request.getfixturevalue("server_here").connect(database=gate.database) as connection:
        connection.cursor().execute(statement)


def test_a_table_made_changed_and_dropped_around_the_proxy(gate, sql, name, place, request, stream):
    if place == "embedded":
        pytest.skip("tables of the embedded database change through the proxy only")
    around(gate, request, FIRST.replace("my_message", name))
    around(gate, request, f"INSERT INTO {name} VALUES (1, 1, 1, 0, 1, NULL, 'm')")
    receiver = stream(f"STREAM * FROM {name}")  # it was never heard of before
    assert receiver.wait(1) == [(1, "m")]
    around(gate, request, f"ALTER TABLE {name} ADD COLUMN more INT DEFAULT 7")
    sql(f"INSERT INTO {name} (id, message) VALUES (2, 'n')")
    assert receiver.wait(2) == [(1, "m"), (2, "n")]
    around(gate, request, f"DROP TABLE {name}")
    sql(f"CREATE TABLE {name} (id INT)")  # no queue any more
    assert receiver.wait_end(20) is not None
    assert sql.error(f"STREAM * FROM {name}")[0] == 1347
    sql(f"DROP TABLE {name}")


def test_tables_are_found_at_start(new_gate):
    gate = new_gate()
    gate.start()
    client = Sql(gate.connect())
    client(FIRST.replace("my_message", "oldest"))
    client(NEWEST.replace("my_message", "newest"))
    client("INSERT INTO oldest (id, message) VALUES (1, 'a')")
    client("INSERT INTO newest (id, message) VALUES (2, '{}')")
    client.close()
    assert gate.terminate() == 0
    gate.start()
    client = Sql(gate.connect())
    assert {"oldest", "newest"} <= set(client.column("SHOW QUEUES"))
    assert client.rows("STREAM * FROM oldest LIMIT 1") == [(1, "a")]
    assert client.rows("STREAM * FROM newest LIMIT 1") == [(2, "{}")]
    assert client("INSERT INTO oldest (id, message) VALUES (3, 'b')") == 1
    client.close()
