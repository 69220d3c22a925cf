"""`auth: proxy` before MariaDB: who logs in, who has a line to the database and who none, what is told of a loss."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import mysql.connector
import pymysql
import pytest
from pymysql.cursors import SSCursor
from servers import SERVER, Gate, MariaDb, Sql, Stream, wait_until
from slowness import scaled

pytestmark = pytest.mark.long

DATABASE = "lazy"
USERS = [
    {"name": "root", "password": ""},
    {"name": "plain", "password": "pässword"},
    {"name": "native", "password_hash": "*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19"},
    {"name": "other", "password": "pw"},
]
FIRST_OWN_ID = 1 << 30


@pytest.fixture(scope="module")
def gate(mariadb: MariaDb, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """A gate on a database of its own, so that its lines can be counted."""
    running = Gate(
        mariadb.fresh_database(DATABASE), tmp_path_factory.mktemp("lazy"), database=DATABASE, auth="proxy", users=USERS
    )
    running.start()
    client = Sql(running.connect())
    client("CREATE QUEUE q (payload VARCHAR(40))")
    client("CREATE TABLE t (n INT)")
    client.close()
    yield running
    running.stop()


@pytest.fixture
def direct(mariadb: MariaDb) -> Iterator[Sql]:
    """A connection around the proxy."""
    client = Sql(mariadb.connect(database=DATABASE))
    yield client
    client.close()


@pytest.fixture
def client(gate: Gate) -> Iterator[Sql]:
    opened = Sql(gate.connect())
    yield opened
    opened.connection._force_close()


def lines(direct: Sql, database: str = DATABASE) -> list[int]:
    """The ids of all connections to the database but the observer's own. The engine has some of them."""
    own = direct.value("SELECT CONNECTION_ID()")
    listed = direct.rows("SELECT id FROM information_schema.processlist WHERE db = %s", database)
    return sorted(row[0] for row in listed if row[0] != own)


def line_of(client: Sql) -> int:
    return int(client.value("SELECT CONNECTION_ID()"))


def pinned(client: Sql) -> int:
    """A client with something on its line; returns the line's id."""
    client("SET @state = 1")
    return line_of(client)


def cut(direct: Sql, line: int) -> None:
    """The server closes a line; returns once it is gone."""
    direct(f"KILL {line}")
    wait_until(lambda: line not in lines(direct), what="the line to be gone")


# --- logging in


def test_the_greeting_is_the_servers(gate, mariadb, client):
    with mariadb.connect() as straight:
        for name in ("server_version", "protocol_version", "server_language", "server_status"):
            assert getattr(client.connection, name) == getattr(straight, name), name
        carried = straight.server_capabilities & ~(0x800 | 0x20 | 0x40000000)  # TLS and compression are each line's own
        assert client.connection.server_capabilities & carried == carried & client.connection.server_capabilities
        assert client.connection.server_capabilities & (1 << 24 | 1 << 23) == straight.server_capabilities & (
            1 << 24 | 1 << 23
        )  # DEPRECATE_EOF and SESSION_TRACK
    assert client.connection.thread_id() > FIRST_OWN_ID
    # MySQL Connector/J takes a version that begins so for one that knows no caching_sha2_password.
    offered = "mysql_native_password" if straight.server_version.startswith("5.5.5-") else "caching_sha2_password"
    assert client.connection._auth_plugin_name == offered


@pytest.mark.parametrize(("user", "password"), [("plain", "pässword"), ("native", "password"), ("root", "")])
@pytest.mark.parametrize("driver", ["pymysql", "pure", "c"])
def test_each_kind_of_account_logs_in(gate, user, password, driver):
    options: dict[str, Any] = {"host": "127.0.0.1", "port": gate.port, "user": user, "database": DATABASE}
    if driver == "pymysql":
        for wrong in ("x", password + "x"):
            with pytest.raises(pymysql.err.OperationalError) as refused:
                pymysql.connect(password=wrong, **options)
            assert refused.value.args[0] == 1045
        connection: Any = pymysql.connect(password=password.encode(), **options)
    else:
        with pytest.raises(mysql.connector.Error) as denied:
            mysql.connector.connect(password=password + "x", use_pure=driver == "pure", **options)
        assert denied.value.errno == 1045
        connection = mysql.connector.connect(password=password, use_pure=driver == "pure", **options)
    cursor = connection.cursor()
    cursor.execute("SELECT CURRENT_USER(), DATABASE()")
    ((current, database),) = cursor.fetchall()
    assert (current.partition("@")[0], database) == ("root", DATABASE)  # the URL's account
    connection.close()


def test_a_database_that_is_not_there(gate, mariadb):
    with pytest.raises(pymysql.err.OperationalError) as refused:
        gate.connect(database="nowhere")
    assert refused.value.args[0] == 1049
    mariadb.fresh_database("elsewhere")
    other = Sql(gate.connect(database="elsewhere"))
    assert other.value("SELECT DATABASE()") == "elsewhere"
    other.close()
    none = Sql(gate.connect(database=None))
    assert none.value("SELECT DATABASE()") is None
    none.close()


# --- lines at first need


def test_three_hundred_receivers_need_no_line(gate, direct):
    """As drivers connect by themselves: what they send then needs no line either."""
    before = lines(direct)
    receivers: list[Any] = []
    try:
        for _ in range(100):
            options: dict[str, Any] = {"host": "127.0.0.1", "port": gate.port, "user": "root", "database": DATABASE}
            receivers.append(pymysql.connect(cursorclass=SSCursor, **options))
            receivers += [mysql.connector.connect(use_pure=pure, **options) for pure in (True, False)]
        cursors = [receiver.cursor() for receiver in receivers]
        for cursor in cursors:
            cursor.execute("SELECT payload FROM STREAM q WITH (prefetch = 1)")
        assert len(receivers) == 300
        assert set(lines(direct)) <= set(before) | _engines_own(gate, direct)
        sender = Sql(gate.connect())
        sender("INSERT INTO q (payload) VALUES " + ", ".join("('m')" for _ in range(300)))
        # One each, as their windows are. Connector/Python looks one row ahead, so it cannot be asked for the first.
        wait_until(lambda: direct.value("SELECT COUNT(*) FROM q WHERE epoch = 1") == 300, what="all to be delivered")
        for cursor in cursors[::3]:
            assert cursor.fetchone() == ("m",)
        assert len(lines(direct)) <= 9  # the engine's eight at most, and the sender's
        sender("DELETE FROM q")
        sender.close()
    finally:
        killer = Sql(gate.connect())
        for receiver in receivers:  # by itself a driver reads an endless result to its end
            own = receiver.thread_id() if isinstance(receiver, pymysql.Connection) else receiver.connection_id
            killer(f"KILL {own}")
            if isinstance(receiver, pymysql.Connection):
                if receiver._result is not None:
                    receiver._result.unbuffered_active = False
                receiver._force_close()
        killer.close()


def _engines_own(gate: Gate, direct: Sql) -> set[int]:
    """Lines that no client has: the process list through the proxy names those that one has."""
    client = Sql(gate.connect())
    shown = {row[0] for row in client.rows("SHOW PROCESSLIST")}
    client.connection._force_close()
    return set(lines(direct)) & shown


@pytest.mark.parametrize(
    "sql",
    [
        "SET NAMES latin1",
        "SET NAMES 'utf8mb4' COLLATE utf8mb4_bin",
        "SET autocommit = 0",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET character_set_results = NULL",
        "COMMIT",
        "ROLLBACK",
        f"USE {DATABASE}",
        "SELECT payload FROM STREAM q LIMIT 1 NOWAIT",
        "SHOW QUEUES",
    ],
)
def test_what_needs_no_line(client, direct, sql):
    before = lines(direct)
    client(sql)
    client.connection.ping(reconnect=False)
    assert set(lines(direct)) <= set(before)


def test_what_was_set_without_a_line_holds_on_it(client):
    client("SET NAMES latin1")
    client("SET autocommit = 0")
    client("SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE")
    isolation = "transaction_isolation" if SERVER == "mysql" else "tx_isolation"  # MariaDB knows the new name from 11.1
    asked = f"SELECT @@character_set_results, @@character_set_client, @@autocommit, @@{isolation}"
    assert client.row(asked) == ("latin1", "latin1", 0, "SERIALIZABLE")
    client("INSERT INTO t VALUES (1)")
    client("ROLLBACK")
    assert client.value("SELECT COUNT(*) FROM t") == 0


def test_a_wrong_setting_is_refused_at_once(client):
    assert client.error("SET NAMES nothing")[0] == 1115
    assert client.error("SET NAMES latin1 COLLATE utf8mb4_bin")[0] == 1253
    assert client.error("SET autocommit = 7")[0] == 1231
    assert client.value("SELECT @@character_set_client") == "utf8mb4"


def test_a_receivers_charset_is_known_without_a_line(gate, direct, mariadb):
    mariadb.fresh_database("elsewhere")  # the engine has no line there, which it may open at any time in its own
    sender = Sql(gate.connect())
    sender("INSERT INTO q (payload) VALUES ('grün'), ('grün')")
    for names, expected in {"latin1": b"gr\xfcn", "utf8mb4": "grün".encode()}.items():
        receiver = gate.connect(charset="utf8mb4", use_unicode=False, database="elsewhere")
        receiver.query(f"SET NAMES {names}")
        receiver.query(f"SELECT payload FROM STREAM {DATABASE}.q LIMIT 1 WAIT 10")
        assert receiver._result.rows == ((expected,),)
        assert lines(direct, "elsewhere") == []
        receiver.query("SELECT 1")
        assert len(lines(direct, "elsewhere")) == 1
        receiver.close()
    sender("DELETE FROM q")
    sender.close()


@pytest.mark.parametrize(
    "sql", ["SELECT @@version_comment LIMIT 1", "SET sql_mode = 'ANSI'", "ACK q 1", "SHOW WARNINGS"]
)
def test_a_line_on_which_nothing_is_left_is_given_back(client, direct, sql):
    before = set(lines(direct))
    client(sql)
    mode = client.value("SELECT @@sql_mode")
    used = set(lines(direct)) - before  # the engine may open one of its own at any later moment
    wait_until(lambda: used.isdisjoint(lines(direct)), what="the line to be given back")
    assert client.value("SELECT @@sql_mode") == mode


def test_a_line_on_which_something_is_left_is_kept(gate, direct):
    """Later than one that is given back, it is still there."""
    keeper, other = Sql(gate.connect()), Sql(gate.connect())
    keeper("CREATE TEMPORARY TABLE mine (n INT)")
    line = line_of(keeper)
    before = set(lines(direct))
    other.value("SELECT @@version")
    used = set(lines(direct)) - before
    wait_until(lambda: used.isdisjoint(lines(direct)), what="the other's line to be given back")
    assert line in lines(direct)
    assert keeper.value("SELECT COUNT(*) FROM mine") == 0
    keeper.connection._force_close()
    other.close()


def test_a_reset_session_is_fresh_and_gives_its_line_back(gate, direct):
    connection = mysql.connector.connect(
        host="127.0.0.1", port=gate.port, user="root", database=DATABASE, use_pure=True
    )
    cursor = connection.cursor()
    before = lines(direct)
    connection.cmd_reset_connection()  # without a line
    assert set(lines(direct)) <= set(before)
    cursor.execute("CREATE TEMPORARY TABLE mine (n INT)")
    cursor.execute("SET @a = 1, sql_mode = ''")
    connection.cmd_reset_connection()
    cursor.execute("SELECT @a, @@sql_mode = @@global.sql_mode, DATABASE()")
    assert cursor.fetchall() == [(None, 1, DATABASE)]
    with pytest.raises(mysql.connector.Error):
        cursor.execute("SELECT * FROM mine")
    used = set(lines(direct)) - set(before)
    connection.cmd_reset_connection()
    wait_until(lambda: used.isdisjoint(lines(direct)), what="the line to be given back")
    connection.close()


def test_another_user_gets_a_session_of_his_own(gate):
    connection = mysql.connector.connect(
        host="127.0.0.1", port=gate.port, user="root", database=DATABASE, use_pure=True
    )
    cursor = connection.cursor()
    cursor.execute("SET @a = 1")
    connection.cmd_change_user("other", "pw", DATABASE)
    cursor = connection.cursor()
    cursor.execute("SELECT @a")
    assert cursor.fetchall() == [(None,)]
    cursor.execute("SHOW PROCESSLIST")
    assert [row[1] for row in cursor.fetchall() if row[0] == connection.connection_id] == ["other"]
    with pytest.raises(mysql.connector.Error) as refused:
        connection.cmd_change_user("root", "wrong")
    assert refused.value.errno == 1045


# --- a line that is lost


def test_lost_at_rest_with_nothing_on_it_nobody_notices(client, direct):
    client("SET NAMES latin1")
    client.value("SELECT @@version")
    (line,) = (row[0] for row in client.rows("SHOW PROCESSLIST") if row[0] == client.connection.thread_id())
    assert line > FIRST_OWN_ID
    cut(direct, max(lines(direct)))  # the newest: not the engine's
    assert client.value("SELECT @@character_set_client") == "latin1"


def test_lost_at_rest_with_something_on_it_is_told_once(client, direct):
    client("SET SESSION sql_mode = 'NO_ENGINE_SUBSTITUTION'")
    client("SET autocommit = 0")
    cut(direct, pinned(client))
    errno, message = client.error("SELECT 1")
    assert errno == 1105
    assert message.startswith("backend connection lost: ")
    assert "variables and prepared statements of this session are gone" in message
    assert client.row("SELECT @state, @@sql_mode, @@autocommit") == (None, "NO_ENGINE_SUBSTITUTION", 0)


def test_a_ping_hears_of_the_loss_a_reset_does_not(gate, client, direct):
    cut(direct, pinned(client))
    with pytest.raises(pymysql.err.MySQLError) as told:
        client.connection.ping(reconnect=False)
    assert told.value.args[0] == 1105
    client.connection.ping(reconnect=False)
    other = mysql.connector.connect(host="127.0.0.1", port=gate.port, user="root", database=DATABASE, use_pure=True)
    cursor = other.cursor()
    cursor.execute("SET @a = 1")
    cursor.execute("SELECT CONNECTION_ID()")
    cut(direct, cursor.fetchall()[0][0])
    other.cmd_reset_connection()
    cursor.execute("SELECT 1")
    assert cursor.fetchall() == [(1,)]
    other.close()


def test_lost_in_a_transaction(client, direct):
    client("BEGIN")
    client("INSERT INTO t VALUES (5)")
    cut(direct, line_of(client))
    assert client.error("COMMIT")[0] == 1105
    client("ROLLBACK")  # of nothing: the usual reaction to an error
    assert client.value("SELECT COUNT(*) FROM t") == 0


@pytest.mark.parametrize("first", ["SET @a = 1", "SELECT 1"])
def test_lost_in_the_middle_of_a_statement_the_outcome_is_unknown(gate, direct, first):
    """On the fast path, which a pinned session takes, and off it."""
    client = gate.connect()
    client.query(first)
    client._execute_command(3, "INSERT INTO t SELECT 1 FROM (SELECT SLEEP(30)) s")
    running = "SELECT id FROM information_schema.processlist WHERE info LIKE 'INSERT INTO t SELECT 1%%'"
    (line,) = wait_until(lambda: direct.column(running), what="the statement to run")
    direct(f"KILL {line}")
    with pytest.raises(pymysql.err.MySQLError) as told:
        client._read_query_result()
    assert told.value.args[0] in (1105, 1927)  # MariaDB may say that it was killed before it hangs up
    if told.value.args[0] == 1105:
        assert "unknown" in told.value.args[1]
    wait_until(lambda: line not in lines(direct), what="the line to be gone")
    again = Sql(client)
    try:
        assert again.value("SELECT 1") == 1
    except pymysql.err.MySQLError as error:
        assert error.args[0] == 1105
        assert again.value("SELECT 1") == 1
    client._force_close()


def test_prepared_statements_of_a_lost_line_are_unknown_and_never_another(gate, direct):
    connection = mysql.connector.connect(
        host="127.0.0.1", port=gate.port, user="root", database=DATABASE, use_pure=True, autocommit=True
    )
    plain = connection.cursor()
    old = connection.cursor(prepared=True)
    old.execute("SELECT ?", (1,))
    assert old.fetchall() == [(1,)]
    plain.execute("SELECT CONNECTION_ID()")
    cut(direct, plain.fetchall()[0][0])
    with pytest.raises(mysql.connector.Error) as told:
        plain.execute("SELECT 1")
    assert told.value.errno == 1105
    new = connection.cursor(prepared=True)
    new.execute("SELECT ? + 100", (1,))  # the server counts anew and gives it the old one's id
    assert new.fetchall() == [(101,)]
    with pytest.raises(mysql.connector.Error) as unknown:
        old.execute("SELECT ?", (2,))
    assert unknown.value.errno == 1243
    new.execute("SELECT ? + 100", (2,))
    assert new.fetchall() == [(102,)]
    another = connection.cursor(prepared=True)
    another.execute("INSERT INTO t VALUES (?)", (9,))
    plain.execute("DELETE FROM t WHERE n = 9")
    assert plain.rowcount == 1
    new.close()
    another.close()
    connection.close()


def test_streams_stay_open(gate, direct):
    receiver = Stream(gate, "SELECT id, payload FROM STREAM q")
    sender = Sql(gate.connect())
    sender("INSERT INTO q (payload) VALUES ('one')")
    receiver.wait(1)
    cut(direct, line_of(sender))
    sender.error("SELECT 1")
    sender("INSERT INTO q (payload) VALUES ('two')")
    assert [row[1] for row in receiver.wait(2)] == ["one", "two"]
    sender("DELETE FROM q")
    receiver.close()
    sender.close()


# --- the database is away


@pytest.fixture
def fragile(own_mariadb: MariaDb, tmp_path: Any) -> Iterator[tuple[Gate, MariaDb]]:
    """A gate before a server of this test's own."""
    gate = Gate(own_mariadb.url(), tmp_path, auth="proxy", users=USERS)
    gate.start()
    yield gate, own_mariadb
    gate.stop()


def test_the_database_goes_and_comes_back(fragile):
    gate, server = fragile
    old, pooled = Sql(gate.connect()), Sql(gate.connect())
    old("CREATE QUEUE q (payload VARCHAR(40))")
    pooled.value("SELECT @@version")
    receiver = Stream(gate, "SELECT id, payload FROM STREAM q")
    server.kill()

    new = Sql(gate.connect())  # logging in is the proxy's own affair
    began = time.monotonic()
    for client in (new, pooled):
        with pytest.raises(pymysql.err.OperationalError) as refused:
            client("SELECT 1")
        assert refused.value.args[0] == 1218
        assert "nothing was executed" in refused.value.args[1]
    assert time.monotonic() - began < scaled(5)
    assert old.error("INSERT INTO q (payload) VALUES ('lost')")[0] == 1105
    assert old.error("INSERT INTO q (payload) VALUES ('lost')")[0] == 1218
    new.connection.ping(reconnect=False)
    assert not receiver.ended.is_set()

    server.start()
    for client in (old, new, pooled):
        assert client.value("SELECT 1") == 1
    old("INSERT INTO q (payload) VALUES ('back')")
    assert [row[1] for row in receiver.wait(1)] == ["back"]
    receiver.close()
    for client in (old, new, pooled):
        client.close()


def test_a_server_that_takes_no_more_connections_says_so_and_the_session_goes_on(gate, mariadb, client):
    with mariadb.connect() as admin, admin.cursor() as cursor:
        cursor.execute("SELECT @@global.max_user_connections")
        cursor.execute("SET GLOBAL max_connections = 10")
        hoard: list[Any] = []
        try:
            with pytest.raises(pymysql.err.OperationalError):
                while True:
                    hoard.append(mariadb.connect())
            errno, message = client.error("SELECT 1")
            assert errno == 1040
            assert message.startswith("the database refused a connection of the proxy's own account: ")
        finally:
            cursor.execute("SET GLOBAL max_connections = 2000")
            for connection in hoard:
                connection.close()
    assert client.value("SELECT 1") == 1


# --- ids


@pytest.mark.parametrize("which", ["greeting", "line"])
@pytest.mark.parametrize("fast", [True, False])
def test_kill_query_by_either_id(gate, client, direct, which, fast):
    target = gate.connect()
    if fast:
        target.query("SET @a = 1")
    target.query("SELECT CONNECTION_ID()")
    number = target.thread_id() if which == "greeting" else int(target._result.rows[0][0])
    target._execute_command(3, "SELECT SLEEP(60) AS here")
    wait_until(
        lambda: direct.rows("SELECT 1 FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP(60) AS h%%'"),
        what="the statement to run",
    )
    client(f"KILL QUERY {number}")
    try:
        target._read_query_result()
        assert target._result.rows == ((1,),)  # how SLEEP takes it
    except pymysql.err.MySQLError as error:
        assert error.args[0] == 1317
    target.query("SELECT 1")
    target.close()


def test_kill_ends_the_connection_and_its_line(gate, client, direct):
    target = gate.connect()
    line = pinned(Sql(target))
    client(f"KILL {target.thread_id()}")
    with pytest.raises(pymysql.err.MySQLError):
        target.query("SELECT 1")
    wait_until(lambda: line not in lines(direct), what="the line to be gone")
    target._force_close()


def test_who_may_kill(gate, client, direct):
    others = Sql(gate.connect(user="other", password="pw")), Sql(gate.connect(user="other", password="pw"))
    root = Sql(gate.connect())
    assert others[0].error(f"KILL QUERY {root.connection.thread_id()}")[0] == 1095
    assert others[0].error(f"KILL QUERY {pinned(root)}")[0] == 1095
    foreign = direct.value("SELECT CONNECTION_ID()")
    assert others[0].error(f"KILL QUERY {foreign}")[0] == 1094
    assert others[0].error("KILL 4294967295")[0] == 1094
    others[0](f"KILL {others[1].connection.thread_id()}")
    client(f"KILL QUERY {foreign}")  # root may end what is not the proxy's
    client(f"KILL {others[0].connection.thread_id()}")
    root.close()


def test_the_process_list_names_our_clients(gate, client, direct):
    receiver = Stream(gate, "SELECT * FROM STREAM q", user="other", password="pw")
    idle = Sql(gate.connect(user="plain", password="pässword".encode()))
    worker = Sql(gate.connect(user="other", password="pw"))
    line = pinned(worker)
    own = worker.connection.thread_id()
    # The server says "Query" for a moment longer than the answer takes.
    wait_until(
        lambda: (own, "Sleep") in [(row[0], row[4]) for row in client.rows("SHOW PROCESSLIST")], what="it to rest"
    )
    rows = {row[0]: row for row in client.rows("SHOW FULL PROCESSLIST")}
    assert line not in rows
    for connection, user, command in (
        (receiver.connection, "other", "Query"),
        (idle.connection, "plain", "Sleep"),
        (worker.connection, "other", "Sleep"),
    ):
        shown = rows[connection.thread_id()]
        host, port = connection._sock.getsockname()
        assert shown[1:5] == (user, f"{host}:{port}", DATABASE, command)
    assert rows[receiver.id][6] == f"Streaming messages of {DATABASE}.q"
    receiver.close()
    idle.close()
    worker.close()


def test_the_users_are_named_at_start(gate):
    assert "may do everything that the account of the backend's URL may" in gate.log
    assert "root, plain, native, other" in gate.log


def test_a_session_with_much_to_repeat_is_only_pinned(client: Sql, direct: Sql) -> None:
    """More settings than are kept: then the line itself is."""
    before = lines(direct)
    for number in range(100):
        client(f"SET SESSION wait_timeout = {1000 + number}")
    assert client.value("SELECT @@wait_timeout") == 1099
    assert set(lines(direct)) - set(before)
