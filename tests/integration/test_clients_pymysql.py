"""PyMySQL beyond what the contract suite does with it: multi-statements, many results, LOAD DATA, the raw protocol."""

from __future__ import annotations

import pymysql
import pytest
from pymysql.constants import CLIENT
from pymysql.cursors import DictCursor, SSCursor
from servers import Sql

pytestmark = pytest.mark.long


def test_multi_statements_with_a_queue_among_them(connect, queue):
    q = queue("n INT")
    client = connect(client_flag=CLIENT.MULTI_STATEMENTS)
    with client.connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {q} (n) VALUES (1); SELECT 5; SELECT n FROM STREAM {q} LIMIT 1; ACK {q} 1; SELECT ';', 'x'"
        )
        results = [(cursor.rowcount, list(cursor.fetchall()))]
        while cursor.nextset():
            results.append((cursor.rowcount, list(cursor.fetchall())))
    assert results == [(1, []), (1, [(5,)]), (1, [(1,)]), (1, []), (1, [(";", "x")])]


def test_a_failing_statement_ends_the_row_of_statements(connect, queue):
    q = queue("n INT")
    client = connect(client_flag=CLIENT.MULTI_STATEMENTS)
    with client.connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {q} (n) VALUES (1); ACK nope_{q} 1; INSERT INTO {q} (n) VALUES (2)")
        with pytest.raises(pymysql.err.MySQLError) as refused:
            while cursor.nextset():
                pass
    assert refused.value.args[0] == 1146
    assert client.column(f"SELECT n FROM {q}") == [1]


def test_several_statements_need_the_clients_consent(sql, queue):
    q = queue("n INT")
    assert sql.error(f"INSERT INTO {q} (n) VALUES (1); DELETE FROM {q}")[0] == 1064
    assert sql.column(f"SELECT n FROM {q}") == []


def test_unbuffered_results_lose_no_row(gate, sql, name):
    sql(f"CREATE TABLE {name} (n INT, filler VARCHAR(1000))")
    for start in range(0, 10_000, 1000):
        sql(
            f"INSERT INTO {name} (n, filler) VALUES "
            + ", ".join(f"({n}, REPEAT('x', 500))" for n in range(start, start + 1000))
        )
    with gate.connect(cursorclass=SSCursor) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT n FROM {name} ORDER BY n")
        assert [row[0] for row in cursor] == list(range(10_000))
    sql(f"DROP TABLE {name}")


def test_dict_cursor_and_description(gate, queue):
    q = queue("n INT, s VARCHAR(20)")
    with gate.connect(cursorclass=DictCursor) as connection, connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {q} (n, s) VALUES (1, 'a')")
        cursor.execute(f"SELECT * FROM STREAM {q} LIMIT 1")
        assert cursor.fetchall() == [{"id": 1, "n": 1, "s": "a"}]


def test_load_data_local(gate, request, tmp_path, queue, connect):
    q = queue("n INT, s VARCHAR(20)")
    file = tmp_path / "rows.tsv"
    file.write_text("".join(f"{n}\trow {n}\n" for n in range(500)))
    client = connect(local_infile=True)
    statement = f"LOAD DATA LOCAL INFILE '{file}' INTO TABLE {q} (n, s)"
    if gate.embedded:
        assert client.error(statement)[0] in (1235, 1148, 3948)
        assert client.value("SELECT 1") == 1
        return
    assert client(statement) == 500
    rows = client.rows(f"SELECT n, s FROM STREAM {q} LIMIT 500")
    assert sorted(rows) == [(n, f"row {n}") for n in range(500)]


def test_character_sets(connect, queue):
    q = queue()
    for charset, text in (("latin1", "Größe ñ"), ("utf8mb4", "日本 🎉")):
        client = connect(charset=charset)
        client(f"INSERT INTO {q} (payload) VALUES (%s)", text)
        assert client.rows(f"SELECT payload FROM STREAM {q} LIMIT 1") == [(text,)]


def test_set_names_holds_for_what_comes_and_what_goes(connect, queue, name):
    client, q = connect(charset="utf8mb4"), queue("payload VARCHAR(256), `größe` INT")
    client(f"CREATE TABLE {name} (s VARCHAR(20), n INT) CHARACTER SET utf8mb4")
    client.connection.set_character_set("latin1")
    client(f"INSERT INTO {name} VALUES ('Größe €', 1)")
    client(f"INSERT INTO {q} (payload) VALUES ('für ñ')")
    assert client.rows(f"SELECT s, HEX(s), s = 'Größe €', 'ä' FROM {name}") == [
        ("Größe €", "4772C3B6C39F6520E282AC", 1, "ä")
    ]
    for statement in (f"SELECT * FROM STREAM {q} LIMIT 1", f"SELECT id, payload, größe FROM {q}"):
        with client.connection.cursor() as cursor:
            cursor.execute(statement)
            assert cursor.fetchall() == ((1, "für ñ", None),)
            assert [column[0] for column in cursor.description] == ["id", "payload", "größe"]
    with client.connection.cursor() as cursor:
        cursor.execute(f"SELECT s, n FROM {name}")
        assert [field.charsetnr for field in cursor._result.fields] == [8, 63]
    client("SET character_set_results = utf8mb4")
    client.connection.encoding = "utf8"
    assert client.value(f"SELECT s FROM {name}") == "Größe €"
    client("SET NAMES ascii")
    assert client.value(f"SELECT s FROM {name}") == "Gr??e ?"
    client(f"DROP TABLE {name}")


def test_the_charset_of_the_login_is_that_of_the_session(connect, on_mysql):
    """MySQL itself sets a session back to its own character set, whatever the client logged in with."""
    client = connect(charset="latin1")
    client.connection.set_character_set("utf8mb4")
    names = "SELECT @@character_set_client, @@character_set_results"
    assert client.row(names) == ("utf8mb4", "utf8mb4")
    client.connection._execute_command(0x1F, b"")  # COM_RESET_CONNECTION
    client.connection._read_ok_packet()
    assert client.row(names) == (("utf8mb4", "utf8mb4") if on_mysql else ("latin1", "latin1"))
    client("SET NAMES latin1")
    client.connection.encoding = "cp1252"
    assert client.row("SELECT 'ä', HEX(CONVERT('ä' USING utf8mb4))") == ("ä", "C3A4")


def test_commands_of_the_protocol(sql, gate):
    connection = sql.connection
    connection.ping(reconnect=False)
    connection.select_db(gate.database)
    assert sql.value("SELECT DATABASE()") == gate.database
    with pytest.raises(pymysql.err.MySQLError) as refused:
        connection.select_db("no_such_database")
    assert refused.value.args[0] == 1049
    assert sql.value("SELECT DATABASE()") == gate.database
    assert sql.value("SELECT CONNECTION_ID()") == connection.thread_id()


def test_an_unknown_database_at_login_is_1049(gate):
    with pytest.raises(pymysql.err.OperationalError) as refused:
        gate.connect(database="no_such_database")
    assert refused.value.args[0] == 1049


def test_status_flags_tell_of_the_transaction(sql, queue):
    q = queue()
    in_transaction, autocommit = 1, 2
    status = lambda: sql.connection.server_status  # noqa: E731
    sql("SELECT 1")
    assert status() & autocommit
    assert not status() & in_transaction
    sql("BEGIN")
    assert status() & in_transaction
    sql(f"INSERT INTO {q} (payload) VALUES ('a')")
    assert status() & in_transaction
    sql(f"ACK {q} 1")
    assert status() & in_transaction
    sql("COMMIT")
    assert not status() & in_transaction
    sql("SET autocommit = 0")
    assert not status() & autocommit


def test_kill_through_the_protocol_command(gate, sql):
    victim = Sql(gate.connect())
    sql.connection.kill(victim.connection.thread_id())
    with pytest.raises(pymysql.err.MySQLError):
        victim("SELECT 1")
    victim.connection._force_close()


def test_an_empty_statement_is_1065(sql):
    with pytest.raises(pymysql.err.MySQLError) as refused:
        sql.connection.query("")
    assert refused.value.args[0] == 1065
