"""A poison message is always rejectable, whatever its reason says and whatever the database's character set is."""

from __future__ import annotations

import mysql.connector
import pytest
from servers import Sql, wait_until

pytestmark = pytest.mark.no_proxy_accounts

REASON = "漢字 🙂 größe \\ ' \" `"


@pytest.fixture
def latin1(shared_gate, place):
    """A client of a database whose tables are latin1 where nothing else is said; its queues are dropped at the end."""
    gate = shared_gate()
    client = Sql(gate.connect(charset="utf8mb4"))
    if place != "embedded":
        client(f"ALTER DATABASE {gate.database} CHARACTER SET latin1 COLLATE latin1_german1_ci")
    yield client
    for queue in client.column("SHOW QUEUES"):
        client(f"DROP QUEUE `{queue}`")
    client.close()


def literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


@pytest.mark.parametrize("verb", ["NACK", "REJECT"])
def test_a_reason_in_any_language_is_kept(latin1, verb):
    latin1("CREATE QUEUE q (body VARCHAR(20)) WITH (dead_letter = 'letters', min_backoff = 0)")
    latin1("INSERT INTO q (body) VALUES ('a')")
    for _ in range(2):
        assert latin1.column("SELECT id FROM STREAM q LIMIT 1 WAIT 10") == [1]
        assert latin1(f"NACK q 1 REASON {literal(REASON)}") == 1
    assert latin1.row("SELECT first_error, last_error FROM q") == (REASON, REASON)
    if verb == "REJECT":
        assert latin1(f"REJECT q 1 REASON {literal('x' + REASON)}") == 1
        wait_until(lambda: "letters" in latin1.column("SHOW QUEUES") and latin1.value("SELECT COUNT(*) FROM letters"))
        assert latin1.row("SELECT first_error, last_error FROM letters") == (REASON, "x" + REASON)


def kept(client):
    """What is kept of the errors, wherever the rejected message is at this moment."""
    columns = "SELECT first_error, last_error FROM"
    return client.rows(f"{columns} q") or (
        "q_dead" in client.column("SHOW QUEUES") and client.rows(f"{columns} q_dead")
    )


@pytest.mark.parametrize("kind", ["VARCHAR(1000)", "VARCHAR(7)", "TEXT"])
def test_a_table_of_old_takes_what_it_can(latin1, kind, place):
    charset = "" if place == "embedded" else " CHARACTER SET latin1 COLLATE latin1_general_ci"
    latin1(f"CREATE QUEUE q (first_error {kind}{charset}, last_error {kind}{charset}, body INT)")
    latin1("INSERT INTO q (body) VALUES (1)")
    assert latin1.column("SELECT id FROM STREAM q LIMIT 1 WAIT 10") == [1]
    assert latin1(f"NACK q 1 REASON {literal('größe 漢' * 200)}") == 1
    assert latin1(f"REJECT q 1 REASON {literal('größe 漢' * 200)}") == 1
    [found] = wait_until(lambda: kept(latin1), what="the message, here or with the dead letters")
    assert found[0] == found[1]
    assert found[0].startswith("größe 漢" if place == "embedded" else "größe ?")


def test_a_queue_named_in_another_script_in_a_latin1_database(latin1):
    latin1("CREATE QUEUE `漢字` (body VARCHAR(20))")
    latin1("INSERT INTO `漢字` (body) VALUES ('a')")
    assert latin1("REJECT `漢字` 1") == 1
    wait_until(lambda: "漢字_dead" in latin1.column("SHOW QUEUES"), what="the dead-letter queue")
    wait_until(lambda: latin1.value("SELECT COUNT(*) FROM `漢字_dead`") == 1, what="the dead letter")
    assert latin1.row("SELECT source, body FROM `漢字_dead`") == ("漢字", "a")
    assert latin1("REDRIVE `漢字_dead`") == 1


def test_a_dead_letter_queue_takes_no_value_that_it_cannot_hold(new_gate):
    gate = new_gate().start()
    client = Sql(gate.connect())
    client("CREATE QUEUE q (body VARCHAR(20), n INT, t VARCHAR(30)) WITH (dead_letter = 'd', poll_interval = '1s')")
    client("CREATE QUEUE d (body INT, n TINYINT, t VARCHAR(3))")
    client("INSERT INTO q (body, n, t) VALUES ('text', 1, 'a'), (NULL, 300, 'a'), (NULL, 3, 'abcd'), (NULL, 4, 'öbc')")
    assert client("REJECT q WHERE id > 0") == 4
    wait_until(lambda: client.value("SELECT COUNT(*) FROM d") == 1, what="the one that fits")
    assert client.rows("SELECT id, body, n, t FROM d") == [(4, None, 4, "öbc")]
    wait_until(lambda: gate.log.count("cannot be moved to") >= 3, what="the lines about the others")
    assert client.column("SELECT id FROM q ORDER BY id") == [1, 2, 3]
    client.close()


PLAIN = "no file C:\\temp\\ in it's \\' \ue000 \0 \\"


@pytest.mark.parametrize("verb", ["NACK", "REJECT"])
def test_a_backslash_that_escapes_nothing_is_kept(sql, queue, verb):
    """As drivers write it that know the mode, of the status flags."""
    sql("SET sql_mode = 'NO_BACKSLASH_ESCAPES'")
    written = "'" + PLAIN.replace("'", "''") + "'"
    function = f"queue_{verb.lower()}('{{q}}', {{id}}{', NULL' if verb == 'NACK' else ''}, {written})"
    call = [] if verb == "REJECT" else [f"CALL {function}"]
    for text in (f"{verb} {{q}} {{id}} REASON {written}", f"SELECT {function}", *call):
        q = queue("body INT", min_backoff="'1h'", max_backoff="'1h'", dead_letter="'letters'", max_attempts="2")
        sql(f"INSERT INTO {q} (body) VALUES (1)")
        assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 1 WAIT 10") == [1]
        sql(text.format(q=q, id=1))
        table = q if verb == "NACK" else "letters"
        wait_until(
            lambda table=table: sql.column("SHOW QUEUES").count(table) and sql.value(f"SELECT COUNT(*) FROM {table}")
        )
        assert sql.value(f"SELECT last_error FROM {table}") == PLAIN
        if verb == "REJECT":
            sql("DROP QUEUE letters")


def test_a_backslash_is_refused_where_the_database_would_read_it(sql, queue):
    q = queue("id VARCHAR(20), body VARCHAR(20)")
    sql("SET sql_mode = 'NO_BACKSLASH_ESCAPES'")
    for text in ("NACK {q} 'a\\b'", "REJECT {q} WHERE body = 'a\\b' REASON 'x'", "SELECT queue_nack('{q}', 'a\\b')"):
        assert sql.error(text.format(q=q))[0] == 1235


@pytest.mark.parametrize("verb", ["NACK", "REJECT"])
@pytest.mark.parametrize(
    ("literal", "kept"),
    [
        ("X'636166e9'", "caf�"),
        ("_binary'caf\\''", "caf'"),
        ("x'4772c3bcc39f65'", "Grüße"),
        ("_binary X'4772c3'", "Gr�"),
        ("0x61", "a"),
        ("X''", ""),
    ],
)
def test_a_reason_that_a_driver_sends_as_bytes_is_a_text(sql, queue, verb, literal, kept):
    """PDO sends a text that is none of the connection's character set as bytes, mysql2 a Buffer."""
    q = queue("body INT", min_backoff="'1h'", max_backoff="'1h'", dead_letter="'letters'")
    function = f"queue_{verb.lower()}('{q}', 2{', NULL' if verb == 'NACK' else ''}, {literal})"
    sql(f"INSERT INTO {q} (body) VALUES (1), (2), (3)")
    assert sql.column(f"SELECT id FROM STREAM {q} LIMIT 3 WAIT 10") == [1, 2, 3]
    sql(f"{verb} {q} 1 REASON {literal}")
    sql(f"SELECT {function}")
    sql(f"{verb} {q} WHERE id = 3 REASON {literal}")
    table = q if verb == "NACK" else "letters"
    wait_until(lambda: table in sql.column("SHOW QUEUES") and sql.value(f"SELECT COUNT(*) FROM {table}") == 3)
    assert sql.column(f"SELECT last_error FROM {table}") == [kept] * 3
    if verb == "REJECT":
        sql("DROP QUEUE letters")


@pytest.mark.parametrize("value", [b"caf\xe9", b"Gr\xc3", b"plain", "plain"])
def test_a_reason_and_a_delay_that_are_bound_as_bytes(gate, queue, value):
    q = queue("body INT")
    connection = mysql.connector.connect(
        host="127.0.0.1", port=gate.port, user="root", database=gate.database, autocommit=True, use_pure=True
    )
    for number, prepared in enumerate((False, True), 1):
        cursor = connection.cursor(prepared=prepared)
        cursor.execute(f"INSERT INTO {q} (body) VALUES (%s)", (number,))
        cursor.execute(f"SELECT id FROM STREAM {q} LIMIT 1 WAIT 10")
        assert cursor.fetchall() == [(number,)]
        cursor.execute(f"NACK {q} %s DELAY %s REASON %s", (number, b"1h", value))
        assert cursor.rowcount == 1
    cursor.execute(f"SELECT last_error FROM {q}")
    text = value if isinstance(value, str) else value.decode("utf-8", "replace")
    assert cursor.fetchall() == [(text,), (text,)]
    connection.close()


def test_a_reason_of_no_digits_is_refused(sql, queue):
    q = queue("body INT")
    assert sql.error(f"NACK {q} 1 REASON X'6_1'") == (1235, "X'6_1' is no number of hexadecimal digits")
