"""Accounts that are limited to their queues: what they may, and that nothing else gets past, however it is said."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import mysql.connector
import pymysql
import pytest
from pymysql.constants import CLIENT, COMMAND
from servers import Gate, Sql, Stream, wait_until

USERS: list[dict[str, Any]] = [
    {"name": "root", "password": ""},
    {"name": "shop", "password": "pw", "queues": {"orders": ["enqueue", "receive", "settle"], "in*": ["enqueue"]}},
    {"name": "reader", "password": "pw", "queues": {"orders": ["receive"]}},
    {"name": "writer", "password": "pw", "queues": {"orders": "enqueue"}},
    {"name": "settler", "password": "pw", "queues": {"orders": ["settle"]}},
    {"name": "grouper", "password": "pw", "queues": {"grouped": ["enqueue", "settle"], "follow*": ["enqueue"]}},
    {"name": "ender", "password": "pw", "queues": {"grouped": ["settle"]}},
    {"name": "boss", "password": "pw", "queues": {"orders": ["receive"]}, "admin": True},
]


@pytest.fixture(scope="module", params=["embedded", "proxy_accounts"])
def place(request: pytest.FixtureRequest) -> str:
    """Where accounts are the proxy's."""
    return str(request.param)


@pytest.fixture(scope="module")
def limited(gate_of: Callable[..., Gate]) -> Gate:
    """A gate with accounts of several rights, a queue for them, one that is not, and a table that is nobody's."""
    gate = gate_of("limited", USERS)
    owner = Sql(gate.connect())
    for name in ("orders", "incoming", "hidden"):
        owner(f"CREATE QUEUE {name} (payload VARCHAR(100), n INT)")
    owner("CREATE TABLE secret (id INT PRIMARY KEY, word VARCHAR(20))")
    owner("INSERT INTO secret VALUES (1, 'sesame')")
    owner.close()
    return gate


@pytest.fixture
def root(limited: Gate) -> Iterator[Sql]:
    client = Sql(limited.connect())
    yield client
    client("DELETE FROM orders")
    client.close()


def login(gate: Gate, user: str, **options: Any) -> Sql:
    return Sql(gate.connect(user=user, password="pw", **options))


@pytest.fixture
def shop(limited: Gate) -> Iterator[Sql]:
    client = login(limited, "shop")
    yield client
    client.connection._force_close()


def test_all_that_is_granted(limited, root, shop):
    assert shop("INSERT INTO orders (payload, n) VALUES ('a', 1), (%s, NULL)", 'it\'s \\ "b"') == 2
    assert shop("INSERT INTO incoming SET payload = 'x'") == 1
    with Stream(limited, "SELECT id, payload FROM STREAM orders", user="shop", password="pw") as receiver:
        first, second = receiver.wait(2)
        assert (first[1], second[1]) == ("a", 'it\'s \\ "b"')
        shop("BEGIN")
        assert shop(f"ACK orders {first[0]}") == 1
        shop("SAVEPOINT s")
        assert shop(f"ACK orders WHERE n IS NULL AND id = {second[0]}") == 1
        shop("ROLLBACK TO SAVEPOINT s")
        shop("COMMIT")
        assert root.column("SELECT id FROM orders WHERE time_acked IS NULL") == [second[0]]
        assert shop(f"UPDATE orders SET state = 'acked' WHERE id = {second[0]}") == 1
        assert shop(f"DELETE FROM orders WHERE orders.id = {first[0]}") == 1
    shop(
        "INSERT INTO orders (payload, time_scheduled) VALUES"
        " ('later', UNIX_TIMESTAMP(NOW() + INTERVAL 2 HOUR) * 1000000000)"
    )
    assert shop("UPDATE orders SET time_next = 0 WHERE payload = 'later'") == 1
    assert shop.rows("SELECT payload FROM STREAM orders LIMIT 1 WAIT 10") == [("later",)]
    assert [row[0] for row in shop.rows("SHOW QUEUES")] == ["incoming", "orders"]
    assert "payload" in shop.row("SHOW CREATE QUEUE orders")[1]


def test_what_drivers_and_pools_say(shop):
    for sql in (
        "SET NAMES utf8mb4",
        "SET autocommit = 1",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET sql_mode = 'STRICT_TRANS_TABLES'",
        "SELECT @@version_comment LIMIT 1",
        "SELECT @@session.auto_increment_increment AS a, @@character_set_client AS b, @@time_zone",
        "/* ping */ SELECT 1",
        "SELECT DATABASE(), USER(), VERSION(), CONNECTION_ID(), NOW(), LAST_INSERT_ID()",
        "SHOW VARIABLES LIKE 'max_allowed_packet'",
        "SHOW WARNINGS",
        "ROLLBACK",
        "START TRANSACTION READ ONLY",
        "COMMIT",
    ):
        shop(sql)
    shop(f"USE {shop.value('SELECT DATABASE()')}")
    shop.connection.ping(reconnect=False)


RIGHTS = {
    "INSERT INTO orders (payload) VALUES ('x')": "writer",
    "SELECT payload FROM STREAM orders LIMIT 1 NOWAIT": "reader",
    "ACK orders 1": "settler",
    "UPDATE orders SET time_next = 0 WHERE id = 1": "settler",
    "DELETE FROM orders WHERE id = 1": "settler",
    "NACK orders 1 DELAY '1m' REASON 'it''s \\\\ late'": "settler",
    "NACK orders WHERE priority = 50": "settler",
    "INSERT INTO orders (n) VALUES (1) DELAY '1h'": "writer",
    "INSERT INTO orders (n) VALUES (1) AT '2030-01-01 10:00:00'": "writer",
    "RELEASE orders 1, 2": "settler",
    "RENEW orders 1 FOR '5m'": "settler",
    "REJECT orders 1 REASON 'bad'": "settler",
    "RETRY orders NOW WHERE time_created > 5": "settler",
    "SELECT queue_ack('orders', 1)": "settler",
    "SELECT queue_nack('orders', 1, 5, 'x')": "settler",
    "CALL queue_release('orders', 1)": "settler",
    "CALL queue_renew('orders', 1, '1m')": "settler",
}


def test_one_statement_does_not_take_a_whole_backlog_for_hours(limited, root, shop):
    """A result has a bound, and so has a stream's window, in the text and prepared; an unlimited account has none."""
    root("INSERT INTO orders (payload) VALUES ('a'), ('b')")
    for text in ("LIMIT 100001 NOWAIT", "LIMIT 1000000 WAIT 1", "LIMIT 100001 NOWAIT WITH (prefetch = 1000000)"):
        errno, told = shop.error(f"SELECT id FROM STREAM orders {text}")
        assert errno == 1231 and "at most 100000 messages" in told
    assert shop.error("SELECT id FROM STREAM orders LIMIT 1 NOWAIT WITH (ack_wait = '3650d')")[0] == 1231
    link = mysql.connector.connect(
        host="127.0.0.1", port=limited.port, user="shop", password="pw", database=limited.database, use_pure=True
    )
    with pytest.raises(mysql.connector.Error) as refused:
        link.cursor(prepared=True).execute("SELECT id FROM STREAM orders LIMIT ? NOWAIT", (100_001,))
    assert refused.value.errno == 1231
    link.close()
    with Stream(limited, "SELECT id FROM STREAM orders WITH (prefetch = 1000000)", user="shop", password="pw") as own:
        own.wait(2)
        assert {row["prefetch"] for row in root.named("SHOW SUBSCRIPTIONS")} == {100_000}
    root("RELEASE orders WHERE id > 0")
    assert len(shop.rows("SELECT id FROM STREAM orders LIMIT 100000 NOWAIT WITH (ack_wait = '12h')")) == 2
    root("RELEASE orders WHERE id > 0")
    assert len(root.rows("SELECT id FROM STREAM orders LIMIT 100001 NOWAIT")) == 2


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("sql", RIGHTS)
def test_each_right_is_a_right_of_its_own(limited, root, sql, prepared):
    """Nobody may do it but who has the right, and who has it may."""
    for user in ("reader", "writer", "settler"):
        if prepared:
            connection = mysql.connector.connect(
                host="127.0.0.1", port=limited.port, user=user, password="pw", database=limited.database, use_pure=True
            )
            cursor = connection.cursor(prepared=True)
            if RIGHTS[sql] == user:
                cursor.execute(sql)
                if cursor.description:
                    cursor.fetchall()
            else:
                with pytest.raises(mysql.connector.Error) as refused:
                    cursor.execute(sql)
                assert refused.value.errno == 1142
            cursor.close()
            connection.close()
            continue
        client = login(limited, user)
        if RIGHTS[sql] == user:
            client(sql)
        else:
            errno, message = client.error(sql)
            assert errno == 1142
            assert f"has not the right '{_right(sql)}' on queue '{limited.database}.orders'" in message
        client.close()


def _right(sql: str) -> str:
    return "receive" if " STREAM " in sql else {"INSERT": "enqueue"}.get(sql.split()[0], "settle")


READ_BY_SETTLING = {
    "UPDATE orders SET last_error = payload": "payload",
    "UPDATE orders SET last_error = 'x', first_error = CONCAT(IFNULL(n, 0), id) WHERE id = 1": "n",
    "UPDATE orders SET time_next = GREATEST(time_next, n) WHERE id = 1": "n",
    "UPDATE orders SET time_next = LENGTH(last_error) WHERE id = 1": "last_error",
    "UPDATE orders SET last_error = last_error + 0 WHERE id = 1": "last_error",
    "UPDATE orders SET failed_attempts = failed_attempts + 0 WHERE id = 1": "failed_attempts",
    "UPDATE orders SET last_error = DATE_ADD(last_error, INTERVAL 1 DAY) WHERE id = 1": "last_error",
    "UPDATE orders SET last_error = IF(LOCATE('s', last_error) = 1, CONCAT(last_error, ' '), last_error)": "last_error",
    "UPDATE orders SET first_error = COALESCE(first_error + 1, 'x')": "first_error",
    "UPDATE orders SET time_next = 0 WHERE payload LIKE 's%'": "payload",
    "UPDATE orders SET time_next = 0 ORDER BY payload LIMIT 1": "payload",
    "DELETE FROM orders WHERE id = 1 AND payload > 'm'": "payload",
    "ACK orders WHERE payload LIKE 's%'": "payload",
    "NACK orders WHERE n = 7 DELAY '1h'": "n",
    "RELEASE orders WHERE IF(payload = 'sesame', 1, 0)": "payload",
    "RENEW orders WHERE n IS NOT NULL FOR '1m'": "n",
    "REJECT orders WHERE `orders`.`payload` = 'x'": "payload",
    "RETRY orders NOW WHERE last_error = 'x'": "last_error",
}


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("sql", READ_BY_SETTLING)
def test_who_may_only_settle_reads_nothing(limited, root, sql, prepared):
    """Neither by what a statement sets nor by the rows that it finds. Who may receive as well may do it."""
    root("INSERT INTO orders (id, payload, n) VALUES (1, 'sesame', 7)")
    told = f"SELECT of column {READ_BY_SETTLING[sql]} denied to user 'settler'@"
    if prepared:
        connection = mysql.connector.connect(
            host="127.0.0.1", port=limited.port, user="settler", password="pw", database=limited.database, use_pure=True
        )
        with pytest.raises(mysql.connector.Error) as refused:
            connection.cursor(prepared=True).execute(sql)
        assert refused.value.errno == 1142 and told in refused.value.msg
        connection.close()
    else:
        settler, shop = login(limited, "settler"), login(limited, "shop")
        errno, message = settler.error(sql)
        assert errno == 1142 and told in message and "'receive' on queue" in message
        shop(sql)
        settler.close()
        shop.close()


def test_who_may_only_settle_notes_reasons(limited, root, shop):
    """The statement that a NACK is made into uses what was noted before, and reveals nothing of it."""
    root("INSERT INTO orders (payload) VALUES ('sesame')")
    settler = login(limited, "settler")
    reasons = [r'it\'s "here" \\ ?', "second", "third"]
    for verb, reason in zip(("NACK", "NACK", "REJECT"), reasons, strict=True):
        (id_,) = shop.column("SELECT id FROM STREAM orders LIMIT 1 WAIT 10")
        delay = " DELAY '1h'" if verb == "NACK" else ""
        assert settler(f"{verb} orders {id_}{delay} REASON '{reason}'") == 1
        settler(f"RETRY orders NOW WHERE id = {id_}")
    first, last, attempts = root.row("SELECT first_error, last_error, failed_attempts FROM orders")
    assert (first, last) == ('it\'s "here" \\ ?', "third")
    assert [one["error"] for one in json.loads(attempts)] == [first, "second", "third"]
    settler(f"UPDATE orders SET first_error = COALESCE(first_error, 'x'), last_error = 'x' WHERE id = {id_}")
    settler.close()


def test_what_receivers_noted_is_for_who_may_receive(limited, root):
    """And who holds a message is told to who may know of that connection."""
    root("INSERT INTO orders (payload) VALUES ('sesame')")
    clients = {user: login(limited, user) for user in ("settler", "writer", "reader", "shop", "boss")}

    def told(user: str) -> list[str]:
        client = clients[user]
        return [str(client.rows(sql)) for sql in (f"TRACE MESSAGE {id_} ON orders", explain)]

    with Stream(limited, "SELECT id FROM STREAM orders WITH (ack_wait = '1h')", user="shop", password="pw") as own:
        ((id_, *_),) = own.wait(1)
        explain = f"EXPLAIN DELIVERY FOR orders WHERE id = {id_}"
        for user in clients:
            knows = user in ("shop", "boss")
            for text in told(user):
                assert "leased until" in text, text
                assert (f"held by connection {own.id} (shop@" in text) == ("shop@" in text) == knows, (user, text)
                assert ("of which this account may not know" in text) != knows, (user, text)
        assert clients["shop"](f"NACK orders {id_} DELAY '1h' REASON 'cannot read sesame'") == 1
    root(f"UPDATE orders SET failed_attempts = NULL WHERE id = {id_}")
    for user in clients:
        reads = user in ("shop", "boss", "reader")
        for text in told(user):
            assert "waits for a retry" in text
            assert ("sesame" in text) == reads, (user, text)
    for client in clients.values():
        client.close()


def test_why_a_message_cannot_be_leased_is_for_who_may_receive(place, limited, root):
    """The database's error may name tables behind the queue's, or quote the message."""
    if place == "embedded":
        pytest.skip("has no triggers")
    root("INSERT INTO orders (payload) VALUES ('sesame')")
    root("CREATE TABLE payroll (n INT PRIMARY KEY)")
    root("CREATE TABLE audits (n INT, FOREIGN KEY (n) REFERENCES payroll (n))")
    root("CREATE TRIGGER no_lease BEFORE UPDATE ON orders FOR EACH ROW INSERT INTO audits VALUES (1)")
    explain = f"EXPLAIN DELIVERY FOR orders WHERE id = {root.value('SELECT id FROM orders')}"
    shop, writer = login(limited, "shop"), login(limited, "writer")
    with Stream(limited, "SELECT id FROM STREAM orders", user="shop", password="pw"):
        wait_until(lambda: "payroll" in str(shop.rows(explain)), what="the refusal")
        assert "refused" in str(writer.rows(explain)) and "payroll" not in str(writer.rows(explain))
    root("DROP TRIGGER no_lease")
    root("DROP TABLE audits, payroll")
    for client in (shop, writer):
        client.close()


ATTACKS = [
    "REDRIVE orders_dead",
    "UPDATE orders SET epoch = (SELECT 1 FROM secret)",
    "NACK orders WHERE id IN (SELECT id FROM secret)",
    "SELECT queue_ack('hidden', 1)",
    "CALL queue_ack('hidden', 1)",
    # reading
    "SELECT * FROM secret",
    "SELECT * FROM orders",
    "SELECT word FROM secret UNION SELECT 1",
    "SELECT (SELECT word FROM secret)",
    "TABLE secret",
    "(SELECT * FROM secret)",
    "WITH s AS (SELECT * FROM secret) SELECT * FROM s",
    "SELECT 1 x FROM`secret`",
    "SELECT 1 x\xa0FROM\xa0secret",
    "SELECT 1 INTO OUTFILE '/tmp/queuegate_attack'",
    "SELECT LOAD_FILE('/etc/passwd')",
    "SELECT SLEEP(20)",
    "SELECT BENCHMARK(1000000000, MD5('x'))",
    "SELECT GET_LOCK('x', 1)",
    "SELECT @@datadir, @@secure_file_priv",
    "DO SLEEP(20)",
    "EXPLAIN SELECT * FROM secret",
    "DESCRIBE secret",
    "SHOW TABLES",
    "SHOW DATABASES",
    "SHOW GRANTS",
    "SHOW CREATE TABLE secret",
    "SHOW COLUMNS FROM secret",
    "SHOW TABLE STATUS",
    "SHOW ENGINE INNODB STATUS",
    "SHOW VARIABLES WHERE (SELECT word FROM secret) = 'sesame'",
    "SELECT table_name FROM information_schema.tables",
    "SELECT user, host FROM mysql.user",
    "HANDLER secret OPEN",
    # writing
    "INSERT INTO secret VALUES (2, 'x')",
    "INSERT INTO hidden (payload) VALUES ('x')",
    "INSERT INTO Orders (payload) VALUES ('x')",
    "INSERT INTO `orders ` (payload) VALUES ('x')",
    "INSERT INTO mysql.orders (payload) VALUES ('x')",
    "INSERT INTO orders (payload) SELECT word FROM secret",
    "INSERT INTO orders (payload) VALUES ((SELECT word FROM secret))",
    "INSERT INTO orders (payload) VALUES (1 /*! , (SELECT word FROM secret) */)",
    "INSERT INTO orders (payload) VALUES ('a' /*!50000 ) , ((SELECT word FROM secret) */ )",
    "INSERT INTO orders (payload) VALUES ('a') ON DUPLICATE KEY UPDATE payload = (SELECT word FROM secret)",
    "INSERT INTO orders (payload) VALUES (@@datadir)",
    "INSERT INTO orders (id, payload) VALUES (1, (TABLE secret))",
    "INSERT INTO orders SET payload = (SELECT word FROM secret)",
    "INSERT /*+ SET_VAR(sql_mode = 'ANSI_QUOTES') */ INTO orders (payload) VALUES ('x')",
    "INSERT INTO orders (payload) VALUES ('x') RETURNING (SELECT word FROM secret)",
    "INSERT INTO orders (payload) TABLE secret",
    "REPLACE INTO orders (id, payload) VALUES (1, 'x')",
    "LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE orders",
    "LOAD DATA INFILE '/etc/passwd' INTO TABLE orders",
    # settling
    "ACK hidden 1",
    "ACK secret 1",
    "ACK orders WHERE id IN (SELECT id FROM secret)",
    "ACK orders WHERE (SELECT word FROM secret) = 'sesame'",
    "ACK orders WHERE id = 1 OR SLEEP(20)",
    "ACK orders WHERE id = 1 /*! OR 1 = (SELECT 1 FROM secret) */",
    "ACK orders WHERE @a := 1",
    "UPDATE orders SET time_acked = 1 WHERE EXISTS (SELECT 1 FROM secret)",
    "UPDATE orders SET payload = 'x'",
    "UPDATE orders SET time_acked = (SELECT 1 FROM secret)",
    "UPDATE orders SET state = 'acked', payload = 'x' WHERE id = 1",
    "UPDATE orders, secret SET word = 'x'",
    "UPDATE orders JOIN secret SET word = 'x'",
    "UPDATE secret SET word = 'x'",
    "DELETE FROM orders WHERE id IN (SELECT id FROM secret)",
    "DELETE FROM orders WHERE id = 1 RETURNING payload",
    "DELETE FROM secret",
    "DELETE orders, secret FROM orders JOIN secret",
    "TRUNCATE QUEUE orders",
    "TRUNCATE TABLE secret",
    # receiving
    "SELECT * FROM STREAM hidden LIMIT 1 NOWAIT",
    "SELECT nothing FROM STREAM hidden LIMIT 1 NOWAIT",
    "SELECT * FROM STREAM secret LIMIT 1 NOWAIT",
    "SELECT * FROM STREAM nowhere LIMIT 1 NOWAIT",
    "STREAM * FROM hidden",
    "SHOW CREATE QUEUE hidden",
    "SHOW CREATE QUEUE nowhere",
    "SHOW QUEUE hidden OPTIONS",
    "SHOW QUEUE nowhere OPTIONS",
    # defining
    "CREATE QUEUE mine (a INT)",
    "CREATE QUEUE IF NOT EXISTS orders (a INT)",
    "CREATE QUEUE mine (a INT) WITH (max_rate = 5)",
    "CREATE TABLE mine (a INT)",
    "CREATE TEMPORARY TABLE mine (a INT)",
    "CREATE TABLE mine AS SELECT * FROM secret",
    "DROP QUEUE orders",
    "DROP QUEUE IF EXISTS nowhere",
    "DROP TABLE secret",
    "ALTER TABLE orders ADD x INT",
    "ALTER QUEUE orders PAUSE",
    "ALTER QUEUE orders SET (max_rate = 5)",
    "ALTER QUEUE hidden PAUSE",
    "RENAME TABLE secret TO orders2",
    "CREATE TRIGGER x BEFORE INSERT ON orders FOR EACH ROW SET @a = 1",
    "CREATE PROCEDURE p() SELECT * FROM secret",
    # the session and the server
    "SET @a = (SELECT word FROM secret)",
    "SET @a = 1",
    "SET GLOBAL max_connections = 1",
    "SET @@global.max_connections = 1",
    "SET sql_mode = 'ANSI_QUOTES'",
    "SET sql_mode = 'NO_BACKSLASH_ESCAPES'",
    "SET sql_mode = 'ANSI'",
    "SET sql_mode = DEFAULT",
    "SET sql_mode = 4",
    "SET sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES')",
    "SET sql_mode = CONCAT('ANSI', '_QUOTES')",
    "SET sql_mode = @@global.sql_mode",
    "SET character_set_client = CONCAT('g', 'bk')",
    "SET NAMES gbk",
    "SET NAMES sjis",
    "SET NAMES DEFAULT",
    "SET CHARACTER SET big5",
    "SET character_set_client = gbk",
    "SET foreign_key_checks = 0",
    "SET PASSWORD = 'x'",
    "SET ROLE NONE",
    "SET STATEMENT max_statement_time = 1 FOR SELECT * FROM secret",
    "USE mysql",
    "USE information_schema",
    "LOCK TABLES orders WRITE",
    "FLUSH TABLES WITH READ LOCK",
    "PREPARE s FROM 'SELECT * FROM secret'",
    "EXECUTE IMMEDIATE 'SELECT * FROM secret'",
    "CALL p()",
    "BEGIN NOT ATOMIC DELETE FROM secret; END",
    "IF 1 THEN DELETE FROM secret; END IF",
    "XA START 'x'",
    "COMMIT RELEASE",
    "GRANT ALL ON *.* TO x",
    "KILL CONNECTION_ID()",
    "KILL USER root",
    "SHUTDOWN",
    "INSTALL SONAME 'x'",
    "CHANGE MASTER TO MASTER_HOST = 'x'",
    "BINLOG 'x'",
    "/*!50000 SELECT * FROM secret */",
    "/*M! SELECT * FROM secret */",
    "SELECT 1 /*!, word FROM secret */",
    "SELECT 1 /*!99999 */ , word FROM secret",
]
# Made by the proxy itself, whoever is logged in.
OURS = {"queuegate_groups", "queuegate_proxies", "queuegate_dead_letters", "orders_dead"}
KINDLY_REFUSED = (1045, 1049, 1054, 1064, 1094, 1095, 1142, 1146, 1235, 1295)


def nothing_happened(root: Sql) -> None:
    """Whatever was tried: the tables are there and as they were."""
    assert root.rows("SELECT id, word FROM secret") == [(1, "sesame")]
    tables = root.column("SHOW TABLES")
    assert set(tables) - OURS == {"hidden", "incoming", "orders", "secret"}
    assert root.value("SELECT COUNT(*) FROM hidden") == 0
    assert root.rows("SELECT payload, n FROM orders") == [("kept", 7)]
    assert root.value("SELECT time_acked FROM orders") is None


@pytest.fixture
def kept(root: Sql) -> Sql:
    root("INSERT INTO orders (id, payload, n) VALUES (1, 'kept', 7)")
    return root


def test_nothing_else_gets_past(limited, kept):
    """As a statement, in one text with a harmless one before or behind it, and prepared."""
    client = limited.connect(
        user="shop", password="pw", client_flag=CLIENT.MULTI_STATEMENTS, local_infile=True, charset="latin1"
    )
    for sql in ATTACKS:
        data = sql.encode("latin-1")
        for text in (data, b"SELECT 1; " + data, data + b"; SELECT 1"):
            assert _refused(client, text), text
        client._execute_command(COMMAND.COM_STMT_PREPARE, data)
        with pytest.raises(pymysql.err.MySQLError) as refused:
            client._read_packet()
        assert refused.value.args[0] in KINDLY_REFUSED, sql
        client.query("SELECT 2")
        assert client._result is not None
        assert client._result.rows == ((2,),), sql
        nothing_happened(kept)
    client.close()


def _refused(client: pymysql.Connection[Any], text: bytes) -> bool:
    """Whether one of the statements of a text was refused; results of the harmless ones before it are read."""
    client._execute_command(COMMAND.COM_QUERY, text)
    try:
        client._read_query_result()
        while client._result is not None and client._result.has_next:
            assert client._result.rows == ((1,),)
            client._read_query_result()
    except pymysql.err.MySQLError as error:
        assert error.args[0] in KINDLY_REFUSED, error
        return True
    return False


COMMANDS = [
    COMMAND.COM_INIT_DB, COMMAND.COM_FIELD_LIST, COMMAND.COM_CREATE_DB, COMMAND.COM_DROP_DB, COMMAND.COM_REFRESH,
    COMMAND.COM_SHUTDOWN, COMMAND.COM_STATISTICS, COMMAND.COM_DEBUG, COMMAND.COM_BINLOG_DUMP, COMMAND.COM_TABLE_DUMP,
    COMMAND.COM_REGISTER_SLAVE, COMMAND.COM_SET_OPTION, 0x1E, 0xFA, 0xFE, 0x7F,
]  # fmt: skip


def test_no_other_command_gets_past(limited, kept):
    for command in COMMANDS:
        client = limited.connect(user="shop", password="pw")
        client._execute_command(command, b"mysql\x00\x00" if command != COMMAND.COM_SET_OPTION else b"\x00\x00")
        with pytest.raises(pymysql.err.MySQLError) as refused:
            client._read_packet()
        assert refused.value.args[0] in (1044, 1047, 1142, 1235, 1243), command
        client._force_close()
    nothing_happened(kept)


def test_backslashes_are_read_as_the_database_reads_them(limited, kept, shop):
    """A text that is harmless only if a backslash is none, and one that is only if it is one."""
    assert shop.error("INSERT INTO orders (payload) VALUES ('\\'), ((SELECT word FROM secret), '')")[0] == 1142
    assert shop("INSERT INTO orders (payload) VALUES ('\\'), ((SELECT word FROM secret), \\'')") == 1
    assert kept.value("SELECT payload FROM orders WHERE id <> 1") == "'), ((SELECT word FROM secret), '"
    kept("DELETE FROM orders WHERE id <> 1")
    nothing_happened(kept)


@pytest.mark.parametrize("mode", ["ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "ANSI"])
def test_a_servers_own_sql_mode_does_not_help(limited, kept, place, mode):
    if place == "embedded":
        assert kept.error(f"SET GLOBAL sql_mode = '{mode}'")[0] == 1235
        return
    before = kept.value("SELECT @@global.sql_mode")
    kept(f"SET GLOBAL sql_mode = '{mode}'")
    try:
        connection = mysql.connector.connect(
            host="127.0.0.1", port=limited.port, user="shop", password="pw", database=limited.database, use_pure=True
        )
        cursor = connection.cursor()
        for reset in (False, True):
            if reset:
                connection.cmd_reset_connection()
            with pytest.raises(mysql.connector.Error) as refused:
                cursor.execute("INSERT INTO orders (payload) VALUES ('\\'), ((SELECT word FROM secret), '')")
            assert refused.value.errno == 1142
            cursor.execute("INSERT INTO orders (payload) VALUES (\"it's\"), ('\\'')")
            connection.commit()
            assert sorted(kept.column("SELECT payload FROM orders WHERE id <> 1")) == ["'", "it's"]
            kept("DELETE FROM orders WHERE id <> 1")
        connection.close()
    finally:
        kept(f"SET GLOBAL sql_mode = '{before}'")
    nothing_happened(kept)


def test_a_limited_account_filters_its_stream(limited, kept, shop):
    kept("INSERT INTO orders (id, payload, n) VALUES (901, 'one', 1), (902, 'two', 2)")
    assert shop.column("SELECT id FROM STREAM orders WHERE n = 2 AND payload LIKE 't%' LIMIT 1 WAIT 10") == [902]
    assert shop.error("SELECT id FROM STREAM orders WHERE no_column = 2 LIMIT 1 WAIT 1")[0] == 1054
    assert shop.value("SELECT 1") == 1
    kept("DELETE FROM orders WHERE id IN (901, 902)")


def test_character_sets_that_hide_quotes_cannot_log_in(limited):
    for charset in ("gbk", "sjis", "big5", "cp932"):
        with pytest.raises(pymysql.err.MySQLError) as refused:
            login(limited, "shop", charset=charset)
        assert refused.value.args[0] == 1115
    Sql(limited.connect(charset="latin1")).close()


def test_other_databases_are_closed(limited, place):
    with pytest.raises(pymysql.err.MySQLError) as refused:
        login(limited, "shop", database="mysql")
    assert refused.value.args[0] in (1044, 1049)


def test_a_prepared_statement_is_judged_again_when_its_queue_is_gone(limited, root):
    owner_made = "INSERT INTO incoming2 (payload) VALUES (?)"
    root("CREATE QUEUE incoming2 (payload VARCHAR(20))")
    connection = mysql.connector.connect(
        host="127.0.0.1", port=limited.port, user="shop", password="pw", database=limited.database, use_pure=True,
        autocommit=True,
    )  # fmt: skip
    cursor = connection.cursor(prepared=True)
    cursor.execute(owner_made, ("a",))
    root("DROP QUEUE incoming2")
    root("CREATE TABLE incoming2 (payload VARCHAR(20))")
    with pytest.raises(mysql.connector.Error):
        cursor.execute(owner_made, ("b",))
    assert root.value("SELECT COUNT(*) FROM incoming2") == 0
    root("DROP TABLE incoming2")
    connection.close()


def test_a_queue_made_just_now_can_be_used(limited, root, shop):
    root("CREATE QUEUE inbox (payload VARCHAR(20))")
    assert shop("INSERT INTO inbox (payload) VALUES ('a')") == 1
    root("DROP QUEUE inbox")
    assert shop.error("INSERT INTO inbox (payload) VALUES ('a')")[0] in (1146, 1347)


def test_processes_and_kill_are_ones_own(limited, shop, root):
    boss = login(limited, "boss")
    other = login(limited, "shop")
    assert {row[1] for row in shop.rows("SHOW PROCESSLIST")} == {"shop"}
    assert {"root", "shop", "boss"} <= {row[1] for row in boss.rows("SHOW FULL PROCESSLIST")}
    assert shop.error(f"KILL {root.connection.thread_id()}")[0] == 1095
    shop(f"KILL {other.connection.thread_id()}")
    with pytest.raises(pymysql.err.MySQLError):
        other("SELECT 1")
    another = login(limited, "writer")
    boss(f"KILL {another.connection.thread_id()}")
    with pytest.raises(pymysql.err.MySQLError):
        another("SELECT 1")
    boss.close()


def test_another_user_on_the_same_connection_has_his_own_rights(limited):
    connection = mysql.connector.connect(
        host="127.0.0.1", port=limited.port, user="root", password="", database=limited.database, use_pure=True
    )
    connection.cmd_query("SELECT * FROM secret")
    connection.get_rows()
    connection.cmd_change_user("reader", "pw", limited.database)
    for sql in ("SELECT * FROM secret", "INSERT INTO orders (payload) VALUES ('x')"):
        with pytest.raises(mysql.connector.Error) as refused:
            connection.cmd_query(sql)
        assert refused.value.errno == 1142
    connection.cmd_change_user("root", "", limited.database)
    connection.cmd_query("SELECT * FROM secret")
    connection.get_rows()
    connection.close()


def test_several_statements_at_once_are_judged_one_by_one(limited, kept):
    client = limited.connect(user="shop", password="pw", client_flag=CLIENT.MULTI_STATEMENTS, autocommit=True)
    with client.cursor() as cursor:
        cursor.execute("SELECT 1; INSERT INTO orders (payload) VALUES ('a;b'); SELECT 2")
        results = [cursor.fetchall()]
        while cursor.nextset():
            results.append(cursor.fetchall())
        assert results[0] == ((1,),)
        assert results[-1] == ((2,),)
    assert kept.column("SELECT payload FROM orders WHERE id <> 1") == ["a;b"]
    kept("DELETE FROM orders WHERE id <> 1")
    client.close()
    nothing_happened(kept)


def test_groups_of_an_account_with_limits(limited, root):
    """Who may settle sends what follows, whatever he may do there; who may not enqueue registers nothing."""
    root("CREATE QUEUE grouped (n INT) WITH (group_key = 'n')")
    root("CREATE QUEUE follow_up (n INT)")
    grouper, ender = login(limited, "grouper"), login(limited, "ender")
    try:
        assert grouper("INSERT INTO grouped (n) VALUES (1), (1), (2)") == 3
        assert grouper("INSERT INTO follow_up (n) VALUES (1) AFTER GROUP 1 OF grouped") == 1
        assert ender.error("INSERT INTO follow_up (n) VALUES (2) AFTER GROUP 2 OF grouped")[0] in (1142, 1146)
        assert grouper.error("INSERT INTO follow_up (n) VALUES (1) AFTER GROUP 1 OF orders")[0] in (1142, 1146)
        hidden = "(SELECT id FROM secret)"
        assert grouper.error(f"INSERT INTO follow_up (n) VALUES ({hidden}) AFTER GROUP 1 OF grouped")[0] == 1142
        assert ender.error(f"ACK grouped WHERE id = {hidden}")[0] == 1142
        assert ender.error(f"DELETE FROM grouped WHERE id = {hidden}")[0] == 1142
        assert ender("ACK grouped 1") == 1
        assert ender.error("SELECT * FROM queuegate_groups")[0] == 1142
        assert ender("UPDATE grouped SET state = 'acked' WHERE id = 2") == 1
        assert root.column("SELECT n FROM STREAM follow_up LIMIT 2 NOWAIT") == [1]
    finally:
        grouper.close()
        ender.close()
        root("DROP QUEUE grouped")
        root("DROP QUEUE follow_up")


@pytest.mark.parametrize("body", [b"", b"\x01", b"\x01\x00\x00\x00\x00", b"\xff" * 5], ids=repr)
def test_a_piece_of_a_value_has_no_answer_not_even_an_error(shop, body):
    """An error would be taken for the answer to the next command, and so on for every later one.

    https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_stmt_send_long_data.html
    """
    shop.connection._execute_command(COMMAND.COM_STMT_SEND_LONG_DATA, body)
    assert shop.value("SELECT 42") == 42
    assert shop.value("SELECT 43") == 43
