"""mysql-connector-python, its pure and its C implementation: text, prepared statements, cursors, streams."""

from __future__ import annotations

import datetime
import threading
from decimal import Decimal

import mysql.connector
import pytest
from servers import wait_until
from slowness import scaled

pytestmark = pytest.mark.long


@pytest.fixture(params=["pure", "c"])
def implementation(request):
    """The pure one and the one in C are two clients: they share little but their interface."""
    return request.param


@pytest.fixture
def link(gate, implementation):
    """Makes connections of one implementation."""
    if implementation == "c" and not mysql.connector.HAVE_CEXT:
        pytest.fail("mysql-connector-python comes without its C extension here")
    made = []

    def connect(**options):
        made.append(
            mysql.connector.connect(
                host="127.0.0.1",
                port=gate.port,
                user="root",
                password="",
                database=gate.database,
                use_pure=implementation == "pure",
                autocommit=True,
                **options,
            )
        )
        return made[-1]

    yield connect
    for connection in made:
        try:
            connection.close()
        except mysql.connector.Error:
            pass  # a test may have left it in mid-result


def test_text_statements(link, queue):
    q = queue("n INT")
    cursor = link().cursor()
    cursor.execute(f"INSERT INTO {q} (n) VALUES (%s), (%s)", (1, 2))
    assert (cursor.rowcount, cursor.lastrowid) == (2, 1)
    cursor.execute(f"SELECT id, n FROM STREAM {q} LIMIT 2")
    assert cursor.column_names == ("id", "n")
    assert cursor.fetchall() == [(1, 1), (2, 2)]
    cursor.execute(f"ACK {q} %s, %s", (1, 2))
    assert cursor.rowcount == 2


def test_transactions(link, queue):
    q = queue()
    one, two = link(), link()
    one.start_transaction()
    assert one.in_transaction
    cursor = one.cursor()
    cursor.execute(f"INSERT INTO {q} (payload) VALUES ('undone')")
    one.rollback()
    assert not one.in_transaction
    one.start_transaction()
    cursor.execute(f"INSERT INTO {q} (payload) VALUES ('done')")
    one.commit()
    other = two.cursor()
    other.execute(f"SELECT payload FROM STREAM {q} LIMIT 5 NOWAIT")
    assert other.fetchall() == [("done",)]


VALUES = {
    "a TINYINT": -128,
    "b SMALLINT": 32767,
    "c INT": -(2**31),
    "d BIGINT": 2**63 - 1,
    "e DOUBLE": -1.5 * 2**60,  # the C implementation sends single precision
    "f DECIMAL(30,10)": Decimal("-12345.0123456789"),
    "g VARCHAR(200)": "x' OR 1=1 -- \\ \" % ? 🎉 C:\\new a\\1b",
    "h VARBINARY(300)": bytes(range(256)),
    "i DATE": datetime.date(2026, 12, 31),
    "j DATETIME(6)": datetime.datetime(2026, 12, 31, 23, 59, 59, 123456),
    "k TIME(6)": datetime.timedelta(hours=-11, minutes=-3, seconds=-5, microseconds=-250000),
    "l LONGTEXT": "y" * 70_000,
    "m BLOB": b"\x00" * 300,
    "n VARCHAR(5)": "",
    "o INT": None,
}


def test_prepared_parameters_of_every_type(link, implementation, queue):
    q = queue(", ".join(VALUES))
    names = [column.split()[0] for column in VALUES]
    values = dict(VALUES)
    if implementation == "c":
        values["k TIME(6)"] = datetime.timedelta(0)  # it sends every timedelta as this
    cursor = link().cursor(prepared=True)
    insert = f"INSERT INTO {q} ({', '.join(names)}) VALUES ({', '.join(['?'] * len(names))})"
    for _ in range(3):  # later executions may leave the types out
        cursor.execute(insert, tuple(values.values()))
        assert cursor.rowcount == 1
    cursor.execute(f"SELECT {', '.join(names)} FROM {q} WHERE id = ?", (2,))
    got = [bytes(v) if isinstance(v, bytearray) else v for v in cursor.fetchall()[0]]
    assert dict(zip(values, got, strict=True)) == values
    cursor.execute(f"SELECT id FROM {q} WHERE g = ? AND f = ? AND j = ? AND d = ?", [got[n] for n in (6, 5, 9, 3)])
    assert cursor.fetchall() == [(1,), (2,), (3,)]


@pytest.mark.parametrize("columns", [1, 30, 251, 300])
def test_prepared_statements_of_many_columns(link, columns, name):
    """`read_timeout`: what hangs fails, in seconds."""
    listed = ", ".join(f"{'c' * 56}{at} {('INT', 'DOUBLE')[at % 2]}" for at in range(columns))
    connection = link(read_timeout=20)
    plain = connection.cursor()
    plain.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, {listed})")
    plain.execute(f"INSERT INTO {name} (id, {'c' * 56}0) VALUES (1, 7), (2, NULL), (3, 9)")
    rows = [(id_, first, *[None] * (columns - 1)) for id_, first in ((1, 7), (2, None), (3, 9))]
    cursor = connection.cursor(prepared=True)
    for bound, expected in ((9, rows), (1, []), (3, rows[:2])):
        cursor.execute(f"SELECT * FROM {name} WHERE id < ?", (bound,))
        assert cursor.fetchall() == expected
    cursor.execute(f"SELECT {', '.join('?' * columns)}", tuple(None if at % 2 else at for at in range(columns)))
    assert cursor.fetchall() == [tuple(None if at % 2 else at for at in range(columns))]
    plain.execute("SELECT 41 + 1")
    assert plain.fetchall() == [(42,)]


def test_an_error_behind_the_first_rows_of_a_prepared_statement(link, implementation, name):
    """It is told. Row by row: the pure one's `fetchall` takes no notice of an error packet behind a row, and waits for
    ever; the C one calls the connection unread from then on. Both do so at any server."""
    connection = link(read_timeout=20)
    plain = connection.cursor()
    plain.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, n BIGINT)")
    plain.execute(f"INSERT INTO {name} VALUES (1, 1), (2, 2), (3, 9223372036854775807), (4, 4)")
    cursor = connection.cursor(prepared=True)
    for _ in range(2 if implementation == "pure" else 1):
        with pytest.raises(mysql.connector.Error) as caught:
            cursor.execute(f"SELECT id, n + CAST(? AS SIGNED) FROM {name} ORDER BY id", (1,))
            while cursor.fetchone() is not None:
                pass
        assert caught.value.errno == 1690
    if implementation == "pure":
        plain.execute("SELECT 41 + 1")
        assert plain.fetchall() == [(42,)]


def test_prepared_ack_and_stream(link, queue):
    q = queue("n INT")
    connection = link()
    insert = connection.cursor(prepared=True)
    insert.executemany(f"INSERT INTO {q} (n) VALUES (?)", [(n,) for n in range(20)])
    receive = connection.cursor(prepared=True)
    receive.execute(f"SELECT id, n FROM STREAM {q} LIMIT 20")
    assert receive.fetchall() == [(n + 1, n) for n in range(20)]
    ack = connection.cursor(prepared=True)
    for n, expected in ((3, 1), (3, 0), (99, 0)):
        ack.execute(f"ACK {q} ?", (n,))
        assert ack.rowcount == expected


@pytest.mark.parametrize("limit", [2, 2.0, Decimal("2.0"), "2"])
def test_the_limit_of_a_prepared_stream_in_any_type_that_drivers_send(link, queue, limit):
    """Node's mysql2 sends every number as a DOUBLE, and tells its users to send strings where that is refused."""
    q = queue("n INT")
    link().cursor().execute(f"INSERT INTO {q} (n) VALUES (1), (2), (3)")
    receive = link().cursor(prepared=True)
    receive.execute(f"SELECT n FROM STREAM {q} LIMIT ? WAIT ?", (limit, "0.5"))
    assert len(receive.fetchall()) == 2
    for wrong in (1.5, "two", "", None, -1, "NaN", "1e30"):
        with pytest.raises(mysql.connector.Error) as refused:
            receive.execute(f"SELECT n FROM STREAM {q} LIMIT ? WAIT ?", (wrong, 0))
        assert refused.value.errno == 1210


def test_prepared_statements_in_another_character_set(link, implementation, sql, name):
    if implementation == "c":
        return  # it sends UTF-8 in prepared statements whatever was agreed
    sql(f"CREATE TABLE {name} (s VARCHAR(20), t TEXT) CHARACTER SET utf8mb4")
    connection = link(charset="latin1", collation="latin1_swedish_ci")
    cursor = connection.cursor(prepared=True)
    cursor.execute(f"INSERT INTO {name} VALUES (?, ?)", ("Größe", "für"))
    cursor.execute(f"SELECT s, t FROM {name} WHERE s = ?", ("Größe",))
    assert cursor.fetchall() == [("Größe", "für")]
    assert sql.row(f"SELECT s, t FROM {name}") == ("Größe", "für")
    sql(f"DROP TABLE {name}")


def test_prepared_insert_delivers_once_committed(link, queue, stream):
    q = queue()
    receiver = stream(f"SELECT payload FROM STREAM {q}")
    connection = link()
    connection.start_transaction()
    cursor = connection.cursor(prepared=True)
    cursor.execute(f"INSERT INTO {q} (payload) VALUES (?)", ("held",))
    assert receiver.rows == []
    connection.commit()
    assert receiver.wait(1) == [("held",)]


def test_a_prepared_statement_with_a_mistake(link, name):
    cursor = link().cursor(prepared=True)
    with pytest.raises(mysql.connector.Error) as refused:
        cursor.execute(f"INSERT INTO {name} (x) VALUES (?)", (1,))
    assert refused.value.errno == 1146
    cursor = link().cursor()
    cursor.execute("SELECT 1")
    assert cursor.fetchall() == [(1,)]


def test_unbuffered_rows_none_lost(link, sql, name):
    sql(f"CREATE TABLE {name} (n INT)")
    for start in range(0, 5000, 1000):
        sql(f"INSERT INTO {name} (n) VALUES " + ", ".join(f"({n})" for n in range(start, start + 1000)))
    for prepared in (False, True):
        cursor = link().cursor(prepared=prepared)
        cursor.execute(f"SELECT n FROM {name} ORDER BY n")
        got = []
        while rows := cursor.fetchmany(7):
            got += [row[0] for row in rows]
        assert got == list(range(5000))
    sql(f"DROP TABLE {name}")


def test_an_endless_stream_delivers_row_by_row(link, queue, sql):
    """By the connection, as docs/protocol.md shows: each row is there before the next is sent."""
    q = queue("n INT")
    connection = link(read_timeout=60)
    connection.cmd_query(f"SELECT id, n FROM STREAM {q}")
    for n in range(5):
        sql(f"INSERT INTO {q} (n) VALUES (%s)", n)
        (id_, got), _ = connection.get_row()
        assert (id_, got, sql(f"ACK {q} %s", id_)) == (n + 1, n, 1)
    sql(f"KILL QUERY {connection.connection_id}")
    with pytest.raises(mysql.connector.Error) as ended:
        connection.get_row()
    assert ended.value.errno == 1317
    cursor = connection.cursor()
    cursor.execute("SELECT 1")
    assert cursor.fetchall() == [(1,)]


def test_a_cursor_holds_a_row_back_until_the_next_is_there(link, queue, sql):
    """What docs/protocol.md warns of; where a release of the driver no longer does it, the page can say so."""
    q = queue("n INT")
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    cursor = link(read_timeout=60).cursor()
    cursor.execute(f"SELECT n FROM STREAM {q}")
    reading = threading.Thread(target=lambda: rows.append(cursor.fetchone()), daemon=True)
    rows: list[object] = []
    reading.start()
    wait_until(lambda: sql.value(f"SELECT state FROM {q} WHERE n = 1") == "fired", what="the message to be sent")
    reading.join(0.3)
    assert rows == []
    sql(f"INSERT INTO {q} (n) VALUES (2)")
    reading.join(scaled(20))
    assert rows == [(1,)]


def test_polls_give_each_message_at_once(link, queue, sql):
    """The other way of the page: a result that ends."""
    q = queue("n INT")
    cursor = link(read_timeout=60).cursor()
    for n in range(3):
        sql(f"INSERT INTO {q} (n) VALUES (%s)", n)
        cursor.execute(f"SELECT id, n FROM STREAM {q} LIMIT 1 WAIT 30")
        assert cursor.fetchall() == [(n + 1, n)]
        cursor.execute(f"ACK {q} %s", (n + 1,))


def test_dictionary_and_warnings(link, sql, name):
    sql(f"CREATE TABLE {name} (n INT, s VARCHAR(10))")
    sql(f"INSERT INTO {name} (n, s) VALUES (1, 'a')")
    connection = link()
    cursor = connection.cursor(dictionary=True)
    cursor.execute(f"SELECT n, s FROM {name}")
    assert cursor.fetchall() == [{"n": 1, "s": "a"}]
    cursor.execute(f"DROP TABLE IF EXISTS {name}, {name}_missing")
    assert cursor.warning_count == 1
    cursor.execute("SHOW WARNINGS")
    assert [warning["Code"] for warning in cursor.fetchall()] == [1051]


def test_ping_reset_change_user_and_database(link, gate):
    connection = link()
    cursor = connection.cursor()
    cursor.execute("SET @x = 1")
    connection.ping()
    connection.cmd_reset_connection()
    cursor = connection.cursor()
    cursor.execute("SELECT @x")
    assert cursor.fetchall() == [(None,)]
    connection.cmd_init_db(gate.database)
    connection.cmd_change_user("root", "", gate.database)
    cursor = connection.cursor()
    cursor.execute("SELECT DATABASE()")
    assert cursor.fetchall() == [(gate.database,)]


def test_server_facts(link):
    connection = link()
    assert connection.server_info if hasattr(connection, "server_info") else connection.get_server_info()
    cursor = connection.cursor()
    cursor.execute("SELECT CONNECTION_ID(), VERSION()")
    number, _ = cursor.fetchone()
    assert number == connection.connection_id
