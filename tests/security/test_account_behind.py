"""What an account that is limited to its queues learns of the account behind it and of the server's files: nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mysql.connector
import pymysql
import pytest
from pymysql.constants import CLIENT
from servers import Gate, MariaDb, Sql

BACKSTAGE, DEFINER = "backstage", "stagehand"
QUEUES = {"orders": ["enqueue", "receive", "settle"], "wired": "enqueue", "locked.*": "enqueue"}
USERS: list[dict[str, Any]] = [
    {"name": "root", "password": ""},
    {"name": "shop", "password": "pw", "queues": QUEUES},
    {"name": "o'shop \\ 漢", "password": "pw", "queues": QUEUES},
]


@pytest.fixture(scope="module")
def watched(mariadb: MariaDb, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """A gate whose account at the server has a name of its own, and a queue whose trigger runs as yet another."""
    url = mariadb.fresh_database("seen")
    server = Sql(mariadb.connect(database="seen"))
    for user in (BACKSTAGE, DEFINER):
        server(f"DROP USER IF EXISTS {user}@'127.0.0.1'")
        server(f"CREATE USER {user}@'127.0.0.1' IDENTIFIED BY 'pw'")
    rights = "SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX, LOCK TABLES"
    server(f"GRANT {rights} ON seen.* TO {BACKSTAGE}@'127.0.0.1'")
    server(f"GRANT TRIGGER ON seen.* TO {DEFINER}@'127.0.0.1'")
    server(f"SET GLOBAL init_connect = 'SET @{DEFINER} = 1'")
    url = url.replace("root@", f"{BACKSTAGE}:pw@")
    gate = Gate(url, tmp_path_factory.mktemp("seen"), database="seen", auth="proxy", users=USERS).start()
    root = Sql(gate.connect())
    for name in ("orders", "wired"):
        root(f"CREATE QUEUE {name} (payload VARCHAR(100), n INT)")
    root("CREATE TABLE secret (n INT)")
    root.close()
    server(
        f"CREATE DEFINER = {DEFINER}@'127.0.0.1' TRIGGER wires BEFORE INSERT ON wired FOR EACH ROW"
        " INSERT INTO secret VALUES (1)"
    )
    yield gate
    server("SET GLOBAL init_connect = ''")
    server("DROP TABLE wired")
    server.close()
    gate.stop()


def hidden(server: MariaDb) -> list[str]:
    return [BACKSTAGE, DEFINER, str(server.directory), "/usr/", "/var/", "/tmp"]


def login(gate: Gate, user: str = "shop", **options: Any) -> Sql:
    return Sql(gate.connect(user=user, password="pw", **options))


def said(client: Sql, sql: str) -> str:
    """All that the client hears: names of columns and rows, or the error."""
    with client.connection.cursor() as cursor:
        try:
            cursor.execute(sql)
        except pymysql.err.MySQLError as error:
            return str(error.args)
        return str((cursor.description, cursor.fetchall()))


def said_prepared(connection: Any, sql: str) -> str:
    cursor = connection.cursor(prepared=True)
    try:
        cursor.execute(sql)
        return str((cursor.description, cursor.fetchall() if cursor.description else ()))
    except mysql.connector.Error as error:
        return str((error.errno, error.msg))
    finally:
        cursor.close()


ACCOUNT = ("USER()", "CURRENT_USER()", "SESSION_USER()", "SYSTEM_USER()", "user()", "Current_User( )")
PATHS = (
    "datadir", "basedir", "tmpdir", "slave_load_tmpdir", "log_error", "general_log_file", "slow_query_log_file",
    "plugin_dir", "secure_file_priv", "socket", "pid_file", "character_sets_dir", "lc_messages_dir", "log_bin_basename",
    "innodb_data_home_dir", "innodb_log_group_home_dir", "ssl_key", "ssl_ca", "relay_log", "init_file", "init_connect",
    "proxy_user", "external_user", "report_host", "report_user", "version_ssl_library", "admin_address",
)  # fmt: skip
QUESTIONS = [
    *(f"SELECT {function}" for function in ACCOUNT),
    "SELECT CURRENT_USER",
    "SELECT current_user AS me, 1",
    "SELECT 1, CURRENT_ROLE",
    "SELECT CURRENT_ROLE()",
    "SELECT USER ()",
    "SELECT USER/**/()",
    "SELECT `USER`()",
    "SELECT CONCAT('a', USER(), 'b') AS x, UPPER(CURRENT_USER()), USER() = 'x' LIMIT 1",
    "SELECT /* who */ user() -- am I",
    "SELECT user(/**/) # am I",
    "SELECT USER(), 'USER()' `USER()`, HEX(SYSTEM_USER()), MD5(USER())",
    *(f"SELECT @@{name}" for name in PATHS),
    *(f"SELECT @@global.{name} AS x, 1" for name in PATHS),
    *(f"SHOW VARIABLES LIKE '{name}'" for name in PATHS),
    "SELECT CONCAT(@@init_connect, 'x'), @@global.init_connect",
    "SHOW VARIABLES",
    "SHOW GLOBAL VARIABLES",
    "SHOW SESSION VARIABLES LIKE '%'",
    "SHOW VARIABLES LIKE '%dir%'",
    "SHOW VARIABLES WHERE `Value` LIKE '/%'",
    "SHOW VARIABLES WHERE Variable_name = 'datadir' OR 1 = 1",
    "SHOW VARIABLES WHERE 1 = 1) OR (1 = 1",
    "SHOW VARIABLES WHERE (1 = 1)) OR ((1 = 1)",
    "SHOW VARIABLES WHERE Variable_name = CURRENT_USER",
    "SHOW VARIABLES WHERE `Value` = 'x' -- ) OR (1 = 1",
    "SHOW VARIABLES -- x",
    "SHOW VARIABLES # x",
    "SHOW VARIABLES LIKE '%' OR 1 = 1",
    "SHOW STATUS",
    "SHOW GRANTS",
    "SHOW GRANTS FOR CURRENT_USER",
    "SHOW PROCESSLIST",
    "SHOW FULL PROCESSLIST",
    "SHOW CREATE USER",
    "SHOW CREATE TABLE wired",
    "SHOW CREATE QUEUE wired",
    "SHOW CREATE TRIGGER wires",
    "SHOW TRIGGERS",
    "SHOW PLUGINS",
    "SHOW QUEUES",
    "SHOW QUEUE STATUS",
    "SHOW SUBSCRIPTIONS",
    "SELECT * FROM information_schema.global_variables",
    "SELECT * FROM information_schema.processlist",
    "SELECT * FROM information_schema.user_privileges",
    "SELECT * FROM information_schema.triggers",
    "SELECT * FROM performance_schema.global_variables",
    "SELECT * FROM performance_schema.variables_info",
    "SELECT * FROM performance_schema.threads",
    "SELECT * FROM mysql.user",
    "SELECT * FROM queuegate.sessions",
    "PREPARE s FROM 'SELECT USER()'",
    "EXECUTE IMMEDIATE 'SELECT USER()'",
    "EXECUTE s",
    "DO USER()",
    "SET @me = USER()",
    # what a value is worth comes back in the text of an error, or later
    "SET time_zone = CURRENT_USER",
    "SET time_zone = CURRENT_USER()",
    "SET time_zone = @@datadir",
    "SET time_zone = CONCAT(@@datadir, 'x')",
    "SET lc_time_names = @@global.plugin_dir",
    "SET lc_time_names = @@init_connect",
    "SET sql_select_limit = LENGTH(@@datadir)",
    "SET NAMES CURRENT_USER",
    # conditions, by which one could ask letter by letter
    "ACK orders WHERE USER() LIKE 'b%'",
    "ACK orders WHERE CURRENT_USER LIKE 'b%'",
    "DELETE FROM orders WHERE CURRENT_USER LIKE 'b%'",
    "UPDATE orders SET time_acked = 1 WHERE @@datadir LIKE '/%'",
    "SELECT * FROM STREAM orders WHERE USER() LIKE 'b%' LIMIT 1 NOWAIT",
    "SELECT * FROM STREAM orders WHERE CURRENT_USER LIKE 'b%' LIMIT 1 NOWAIT",
    "SELECT * FROM STREAM orders WHERE payload = @@datadir LIMIT 1 NOWAIT",
    "EXPLAIN DELIVERY FOR orders WHERE CURRENT_USER LIKE 'b%'",
    # messages
    "INSERT INTO orders (payload) VALUES (USER())",
    "INSERT INTO orders (payload) VALUES (CURRENT_USER)",
    "INSERT INTO orders (payload) VALUES (@@datadir)",
    "INSERT INTO orders (payload) VALUES ('x') RETURNING CURRENT_USER",
    # errors
    "INSERT INTO wired (payload) VALUES ('x')",
    "USE locked",
    "INSERT INTO locked.q VALUES (1)",
    "KILL 1",
    "SELECT 'the connection is still of use'",
]


def test_nothing_is_told_of_the_account_behind_or_of_files(watched, mariadb):
    """As a statement, behind another one, and prepared."""
    client = login(watched)
    several = login(watched, client_flag=CLIENT.MULTI_STATEMENTS)
    prepares = mysql.connector.connect(
        host="127.0.0.1", port=watched.port, user="shop", password="pw", database=watched.database, use_pure=True
    )
    for sql in QUESTIONS:
        for heard in (said(client, sql), said(client, "SHOW WARNINGS"), said_prepared(prepares, sql)):
            assert not [word for word in hidden(mariadb) if word in heard], (sql, heard)
        with several.connection.cursor() as cursor:
            cursor.execute("SELECT 1; " + sql)
            try:
                while cursor.nextset():
                    heard = str((cursor.description, cursor.fetchall()))
                    assert not [word for word in hidden(mariadb) if word in heard], (sql, heard)
            except pymysql.err.MySQLError as error:
                assert not [word for word in hidden(mariadb) if word in str(error)], (sql, error)
    client.close()
    several.close()
    prepares.close()


@pytest.mark.parametrize("user", ["shop", "o'shop \\ 漢"])
def test_an_account_sees_its_own_name(watched, user):
    client = login(watched, user)
    me = f"{user}@127.0.0.1"
    for function in ACCOUNT:
        with client.connection.cursor() as cursor:
            cursor.execute(f"SELECT {function}, 1 AS one")
            assert cursor.description[0][0] == function
            assert cursor.fetchall() == ((me, 1),)
    assert client.row("SELECT USER() AS me, UPPER(USER()) LIMIT 1") == (me, me.upper())
    assert client.row("SELECT CONCAT(CURRENT_USER(), '!', DATABASE()), 1 + 1") == (f"{me}!seen", 2)
    assert client.value("SELECT HEX(USER())") == me.encode().hex().upper()
    assert client.value("SELECT 'USER()' AS `USER()`") == "USER()"
    client.close()


def test_it_compares_under_every_collation(watched):
    client = login(watched)
    for names in ("latin1", "utf8mb4 COLLATE utf8mb4_unicode_ci", "utf8mb4 COLLATE utf8mb4_bin"):
        client(f"SET NAMES {names}")
        assert client.value("SELECT USER() = 'shop@127.0.0.1'") == 1, names
    client.close()


def test_show_variables_shows_what_select_may_ask(watched):
    client = login(watched)
    shown = dict(client.rows("SHOW VARIABLES"))
    assert {"max_allowed_packet", "sql_mode", "time_zone", "autocommit", "lower_case_table_names"} <= set(shown)
    assert not {"datadir", "socket", "init_connect"} & set(shown)
    assert dict(client.rows("SHOW GLOBAL VARIABLES LIKE 'character\\_set\\_%'")).keys() >= {"character_set_server"}
    assert client.rows("SHOW VARIABLES WHERE Variable_name IN ('port', 'datadir') OR `Value` = 'no such value'") == [
        ("port", shown["port"])
    ]
    for name in shown:
        assert said(client, f"SELECT @@{name}").startswith("((("), name
    assert client.value("SELECT @@init_connect") == ""
    client.close()


def test_an_error_says_what_is_wrong_without_saying_who(watched):
    client = login(watched)
    errno, message = client.error("INSERT INTO wired (payload) VALUES ('x')")
    assert errno == 1142
    assert message.upper().startswith("INSERT COMMAND DENIED TO USER '...'@'...' FOR TABLE"), message
    assert [(row[1], "'...'@'...'" in row[2]) for row in client.rows("SHOW ERRORS")] == [(1142, True)]
    assert client.error("USE locked")[1] == "Access denied for user '...'@'...' to database 'locked'"
    errno, message = client.error("INSERT INTO orders (id, payload) VALUES (1, 'a'), (1, '''b''@''c''')")
    assert errno == 1062, message
    client.close()


def test_an_account_without_limits_sees_what_the_database_says(watched):
    """It may do all that the account behind may do."""
    root = Sql(watched.connect())
    assert root.value("SELECT USER()").startswith(BACKSTAGE)
    assert root.value("SELECT CURRENT_USER").startswith(BACKSTAGE)
    assert root.rows("SHOW VARIABLES LIKE 'datadir'")
    assert DEFINER in root.error("INSERT INTO wired (payload) VALUES ('x')")[1]
    root.close()
