"""DROP TABLE and TRUNCATE TABLE of a queue: refused, unless the session or the configuration allows them."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.no_proxy_accounts

REFUSED = 1347
STATEMENTS = (
    "DROP TABLE {q}",
    "DROP TABLE IF EXISTS {q}",
    "DROP TABLE {t}, {q}",
    "DROP TABLE IF EXISTS `{q}` CASCADE",
    "drop /* it */ tables {q};",
    "TRUNCATE TABLE {q}",
    "TRUNCATE {q}",
    "CREATE OR REPLACE TABLE {q} (a INT)",
)


@pytest.fixture
def filled(sql, queue):
    q = queue()
    sql(f"INSERT INTO {q} (payload) VALUES ('a'), ('b')")
    return q


@pytest.fixture
def table(sql, name):
    sql(f"CREATE TABLE {name} (a INT)")
    yield name
    sql(f"DROP TABLE IF EXISTS {name}")


@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_messages_are_kept_and_the_error_says_what_to_do(sql, filled, table, statement):
    errno, text = sql.error(statement.format(q=filled, t=table))
    assert errno == REFUSED
    assert f"DROP QUEUE {filled}" in text and f"TRUNCATE QUEUE {filled}" in text
    assert "SET @queuegate_allow_drop_table = 1" in text and "queues.allow_drop_table" in text
    assert sql.value(f"SELECT COUNT(*) FROM {filled}") == 2
    assert sql.value(f"SELECT COUNT(*) FROM {table}") == 0  # it is still there


def test_a_qualified_name_means_the_same(sql, gate, filled):
    assert sql.error(f"DROP TABLE {gate.database}.{filled}")[0] == REFUSED


def test_one_of_several_statements_is_refused_and_those_behind_it_are_not_run(gate, connect, filled, table):
    from pymysql.constants import CLIENT

    client = connect(client_flag=CLIENT.MULTI_STATEMENTS)
    errno, _ = client.error(f"INSERT INTO {table} VALUES (1); DROP TABLE {filled}; INSERT INTO {table} VALUES (2)")
    assert errno == REFUSED
    assert client.column(f"SELECT a FROM {table}") == [1]
    assert client.value(f"SELECT COUNT(*) FROM {filled}") == 2


def test_behind_a_string_that_ends_with_a_backslash_it_is_refused_as_well(connect, sql, filled, name):
    """With NO_BACKSLASH_ESCAPES a backslash escapes no quote, so the statement after the string is one of its own."""
    from pymysql.constants import CLIENT

    sql(f"CREATE TABLE {name} (path VARCHAR(20))")
    client = connect(client_flag=CLIENT.MULTI_STATEMENTS)
    client("SET sql_mode = 'NO_BACKSLASH_ESCAPES'")
    assert client.error(f"INSERT INTO {name} VALUES ('C:\\'); TRUNCATE TABLE {filled}; SELECT 'x'")[0] == REFUSED
    assert client.value(f"SELECT COUNT(*) FROM {filled}") == 2
    with client.connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {name} VALUES ('C:\\'); ACK {filled} WHERE payload = 'a'")
        assert cursor.nextset() and cursor.rowcount == 1
    assert client.column(f"SELECT path FROM {name}") == ["C:\\"] * 2
    sql(f"DROP TABLE {name}")


def test_prepared_it_is_refused_as_well(gate, filled):
    from mysql.connector import connect, errors

    with connect(host="127.0.0.1", port=gate.port, user="root", database=gate.database, use_pure=True) as client:
        cursor = client.cursor(prepared=True)
        with pytest.raises(errors.Error) as caught:
            cursor.execute(f"TRUNCATE TABLE {filled}")
        assert caught.value.errno == REFUSED


def test_drop_and_truncate_queue_need_no_permission(sql, filled):
    sql(f"TRUNCATE QUEUE {filled}")
    assert sql.value(f"SELECT COUNT(*) FROM {filled}") == 0
    sql(f"DROP QUEUE {filled}")
    assert sql.error(f"SELECT 1 FROM {filled}")[0] == 1146


@pytest.mark.parametrize("value", ["1", "TRUE", "'on'"])
def test_a_session_may_allow_it_to_itself(sql, connect, filled, value):
    other = connect()
    sql(f"SET @queuegate_allow_drop_table = {value}")
    assert other.error(f"DROP TABLE {filled}")[0] == REFUSED
    sql(f"TRUNCATE TABLE {filled}")
    assert sql.value(f"SELECT COUNT(*) FROM {filled}") == 0
    sql(f"DROP TABLE {filled}")
    assert sql.error(f"SELECT * FROM STREAM {filled}")[0] == 1146


@pytest.mark.parametrize("value", ["0", "NULL", "FALSE", "''", "'off'"])
def test_any_other_value_allows_nothing(sql, filled, value):
    sql(f"SET @queuegate_allow_drop_table = {value}")
    assert sql.error(f"DROP TABLE {filled}")[0] == REFUSED


def test_a_login_may_bring_it(connect, filled):
    connect(init_command="SET @queuegate_allow_drop_table = 1")(f"DROP TABLE {filled}")


def test_a_session_begun_anew_has_it_no_more(gate, filled):
    from mysql.connector import connect, errors

    with connect(host="127.0.0.1", port=gate.port, user="root", database=gate.database, use_pure=True) as client:
        client.cursor().execute("SET @queuegate_allow_drop_table = 1")
        client.cmd_reset_connection()
        with pytest.raises(errors.Error) as caught:
            client.cursor().execute(f"DROP TABLE {filled}")
        assert caught.value.errno == REFUSED


def test_streams_end_when_an_allowed_drop_takes_their_queue(sql, stream, filled):
    receiver = stream(f"SELECT * FROM STREAM {filled}")
    receiver.wait(2)
    sql("SET @queuegate_allow_drop_table = 1")
    sql(f"DROP TABLE {filled}")
    error = receiver.wait_end()
    assert error is not None and error.args[0] == 1146


def test_a_vitess_table_is_a_queue_here_too(sql, name):
    options = ",".join(
        f"vt_{key}=30" for key in ("ack_wait", "purge_after", "batch_size", "cache_size", "poller_interval")
    )
    sql(
        f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, priority BIGINT, epoch BIGINT, time_next BIGINT,"
        f" time_acked BIGINT, message TEXT) COMMENT 'vitess_message,{options}'"
    )
    assert sql.error(f"DROP TABLE {name}")[0] == REFUSED
    sql(f"DROP QUEUE {name}")


def test_a_table_that_cannot_be_served_is_dropped_as_any_other(sql, name):
    sql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY) COMMENT 'vitess_message'")
    assert sql.error(f"SELECT * FROM STREAM {name}")[0] == 1347
    sql(f"DROP TABLE {name}")


def test_an_ordinary_table_of_a_name_that_begins_alike_is_dropped(sql, filled, name):
    sql(f"CREATE TABLE {filled}_copy (a INT)")
    sql(f"TRUNCATE TABLE {filled}_copy")
    sql(f"DROP TABLE {filled}_copy")
    assert sql.value(f"SELECT COUNT(*) FROM {filled}") == 2


def test_a_temporary_table_of_the_queues_name_goes(sql, filled):
    sql(f"CREATE TEMPORARY TABLE {filled} (a INT)")
    sql(f"DROP TEMPORARY TABLE {filled}")
    assert sql.value(f"SELECT COUNT(*) FROM {filled}") == 2


def test_a_queue_that_became_a_table_around_the_proxy_is_dropped(gate, sql, filled, request):
    if gate.embedded:
        pytest.skip("tables of the embedded database change through the proxy only")
    with request.getfixturevalue("server_here").connect(database=gate.database) as direct:
        direct.cursor().execute(f"ALTER TABLE {filled} COMMENT = ''")
    sql(f"DROP TABLE {filled}")


def test_the_configuration_may_allow_it_to_all(new_gate):
    gate = new_gate(queues={"allow_drop_table": True}).start()
    with gate.connect() as client, client.cursor() as cursor:
        cursor.execute("CREATE QUEUE q (payload INT)")
        cursor.execute("TRUNCATE TABLE q")
        cursor.execute("DROP TABLE q")
