"""The database `queuegate` as tools see it: as the current one, listed, described, reflected."""

from __future__ import annotations

import pymysql
import pytest
import sqlalchemy
from pymysql.converters import decoders, through
from servers import Gate, Sql

TABLES = [
    "consumers",
    "group_in_flight",
    "groups",
    "in_flight",
    "log",
    "queues",
    "schedules",
    "settings",
    "subscriptions",
    "topics",
    "traces",
]
ROOT = {"name": "root", "password": ""}
COM_RESET_CONNECTION = 0x1F
READ_BY_MODE = 'SHOW QUEUES LIKE "nothing"'
"""What sql_mode says decides what the double quotes are: where it may have changed, the proxy asks, and for the current
database with it."""


@pytest.fixture
def inside(gate):
    """A client that logged in to it."""
    connection = gate.connect(database="queuegate")
    yield Sql(connection)
    connection.close()


def test_a_login_may_name_it(inside, gate, queue):
    q = queue()
    assert inside.value("SELECT DATABASE()") == "queuegate"
    assert inside.value(f"SELECT ready FROM queues WHERE queue = '{q}'") == 0
    assert inside.rows(f"SELECT queues.ready FROM queues, subscriptions s WHERE queues.queue = '{q}'") == []
    assert inside.column("SHOW TABLES") == TABLES
    assert "queuegate" in inside.column("SHOW DATABASES")
    assert inside.column("SHOW SCHEMAS LIKE 'queuegat_'") == ["queuegate"]
    assert inside.rows("DESCRIBE queues") == inside.rows("DESCRIBE queuegate.queues")
    assert inside.value(f"SELECT COUNT(*) FROM `{gate.database}`.`{q}`") == 0


def test_no_name_without_qualifier_means_a_table_of_another_database(inside, sql, queue, gate):
    q = queue()
    inside.connection.select_db(gate.database)
    assert inside.value("SELECT DATABASE()") == gate.database
    assert inside.value(f"SELECT COUNT(*) FROM {q}") == 0
    inside("USE queuegate")
    assert inside.error(f"SELECT COUNT(*) FROM {q}")[0] in (1109, 1146)
    assert inside.error(f"INSERT INTO {q} (payload) VALUES ('x')")[0] in (1044, 1109, 1146, 1235)
    inside.connection.select_db("queuegate")
    assert inside.value(f"SELECT COUNT(*) FROM queues WHERE queue = '{q}'") == 1
    inside(f"USE `{gate.database}`")
    assert inside.error("SELECT * FROM queues")[0] == 1146
    assert "queuegate" not in inside.column("SHOW DATABASES")
    assert sql.value(f"SELECT COUNT(*) FROM {q}") == 0


def test_another_user_may_begin_in_it(gate):
    connector = pytest.importorskip("mysql.connector")
    client = connector.connect(host="127.0.0.1", port=gate.port, user="root", database=gate.database, use_pure=True)
    client.cmd_change_user("root", "", "queuegate")
    cursor = client.cursor()
    cursor.execute("SELECT COUNT(*) >= 0 FROM queues")
    assert cursor.fetchall() == [(1,)]
    client.close()


def test_a_database_that_is_not_there_is_refused_as_before(gate):
    with pytest.raises(pymysql.err.OperationalError) as caught:
        gate.connect(database="queuegate2")
    assert caught.value.args[0] == 1049


def test_what_tools_ask(sql):
    (status,) = sql.rows("SHOW TABLE STATUS FROM queuegate LIKE 'queues'")
    assert (status[0], len(status)) == ("queues", 18)
    assert sql.rows("SHOW INDEX FROM queuegate.queues") == sql.rows("SHOW KEYS FROM queues FROM queuegate") == []
    name, definition = sql.row("SHOW CREATE TABLE `queuegate`.`in_flight`")
    assert name == "in_flight" and definition.startswith("CREATE TABLE `in_flight` (\n  `queue` varchar(64)")
    assert sql.row("SHOW CREATE DATABASE queuegate")[0] == "queuegate"
    assert len(sql.rows("SHOW FULL COLUMNS FROM queuegate.queues")[0]) == 9
    assert sql.column("SHOW COLUMNS FROM queuegate.queues LIKE 'oldest%%'") == ["oldest_ready_age"]
    assert sql.error("SHOW CREATE TABLE queuegate.nothing")[0] in (1049, 1146)


@pytest.mark.parametrize("login", ["main", "queuegate"])
def test_sqlalchemy_reflects_it(gate, queue, login):
    q = queue("n INT")
    database = gate.database if login == "main" else "queuegate"
    engine = sqlalchemy.create_engine(f"mysql+pymysql://root@127.0.0.1:{gate.port}/{database}")
    schema = "queuegate" if login == "main" else None
    with engine.connect() as connection:
        inspector = sqlalchemy.inspect(connection)
        assert sorted(inspector.get_table_names(schema)) == TABLES
        assert inspector.has_table("queues", schema)
        assert inspector.get_indexes("queues", schema) == inspector.get_foreign_keys("queues", schema) == []
        metadata = sqlalchemy.MetaData(schema=schema)
        metadata.reflect(connection)
        tables = {table.name: table for table in metadata.tables.values()}
        assert set(tables) == set(TABLES)
        queues = tables["queues"]
        assert isinstance(queues.c.ready.type, sqlalchemy.BigInteger)
        statement = sqlalchemy.select(queues.c.queue, queues.c.ready).where(queues.c.queue == q)
        assert connection.execute(statement).all() == [(q, 0)]
    engine.dispose()


_HAS_TABLE = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = '{}' AND table_name = '{}'"


@pytest.mark.parametrize("login", ["main", "queuegate"])
def test_information_schema_lists_it_to_who_names_it(gate, queue, login):
    q = queue()
    with gate.connect(database=gate.database if login == "main" else login) as connection:
        client = Sql(connection)
        assert client.value(_HAS_TABLE.format("queuegate", "queues")) == 1  # as SQLAlchemy 1.4 asks
        assert client.value(_HAS_TABLE.format("queuegate", "nothing")) == 0
        ours = "table_schema IN ('queuegate', %s) AND table_name IN ('queues', %s) ORDER BY table_name <> 'queues'"
        found = client.rows(
            f"SELECT t.TABLE_NAME, t.TABLE_TYPE FROM INFORMATION_SCHEMA.`TABLES` AS t WHERE {ours}", gate.database, q
        )
        assert found == [("queues", "BASE TABLE"), (q, "BASE TABLE")]
        named = "information_schema.columns WHERE table_schema = 'queuegate' AND table_name = 'queues'"
        columns = client.rows(f"SELECT column_name, data_type, column_type FROM {named} ORDER BY ordinal_position")
        assert columns[0] == ("queue", "varchar", "varchar(64)")
        assert [(name, kind) for name, _, kind in columns] == [
            (name, kind) for name, kind, *_ in client.rows("DESCRIBE queuegate.queues")
        ]
        assert client.value("SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = 'queuegate'") == 1


def test_information_schema_keeps_its_columns(sql, queue):
    q = queue()
    for table, wanted in (("TABLES", "table_name"), ("COLUMNS", "column_name"), ("SCHEMATA", "schema_name")):
        with sql.connection.cursor() as cursor:
            titles = []
            for condition in ("1 = 0", "'queuegate' = 'no'"):
                cursor.execute(f"SELECT * FROM information_schema.{table} WHERE {condition}")
                titles.append([(name, decoders.get(type_code, through)) for name, type_code, *_ in cursor.description])
        assert titles[0] == titles[1] and wanted.upper() in dict(titles[0])
    asked = "SELECT table_schema, table_name, table_collation, table_comment FROM information_schema.tables"
    named = sql.row(f"{asked} WHERE table_name = '{q}' AND 'queuegate' = 'queuegate'")
    assert named == sql.row(f"{asked} WHERE table_name = '{q}'")


def test_information_schema_in_it_means_it(inside, sql):
    asked = "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY table_name"
    assert sorted(inside.column(asked)) == TABLES  # an underscore is before or after the letters
    assert "queues" not in sql.column(asked)
    assert sql.value("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema LIKE 'queuegat_'") == 0


def test_a_real_database_of_that_name_is_left_alone(mariadb, new_gate, place):
    if place == "embedded":
        pytest.skip("the embedded backend has no databases but its own")
    with mariadb.connect() as connection:
        server = Sql(connection)
        server("CREATE DATABASE queuegate")
        try:
            server("CREATE TABLE queuegate.queues (mine INT)")
            gate = new_gate().start()
            with gate.connect(database="queuegate") as inside:
                client = Sql(inside)
                assert client.column("DESCRIBE queues") == ["mine"]
                assert client.column("SHOW TABLES") == ["queues"]
                assert client.value("SELECT DATABASE()") == "queuegate"
                client("INSERT INTO queues VALUES (4)")
                assert client.value("SELECT mine FROM queues") == 4
                client(f"USE {gate.database}")
                client("USE queuegate")
                assert client.value("SELECT queues.mine FROM queues") == 4
                columns = "SELECT column_name FROM information_schema.columns WHERE table_schema = "
                assert client.column(f"{columns}'queuegate'") == client.column(f"{columns}DATABASE()") == ["mine"]
        finally:
            server("DROP DATABASE queuegate")


@pytest.fixture
def real(mariadb, place):
    """The URL of a server's own database of that name, which is empty."""
    if place != "proxy_accounts":
        pytest.skip("elsewhere the server itself says at the login whether it has one")
    yield mariadb.fresh_database("queuegate")
    with mariadb.connect() as connection:
        Sql(connection)("DROP DATABASE queuegate")


def test_who_logs_in_at_the_proxy_enters_a_real_one_that_is_the_backends(real, tmp_path):
    gate = Gate(real, tmp_path, database="queuegate", auth="proxy", users=[ROOT])
    try:
        with gate.start().connect() as connection:
            client = Sql(connection)
            client("CREATE TABLE mine (n INT)")
            assert client.column("DESCRIBE mine") == ["n"]
            assert client.value("SELECT DATABASE()") == "queuegate"
    finally:
        gate.stop()


def test_a_limited_account_enters_a_real_one(real, new_gate):
    few = {"name": "few", "password": "", "queues": {"queuegate.q": ["enqueue", "receive", "settle"]}}
    gate = new_gate(users=[ROOT, few]).start()
    with gate.connect() as root:
        Sql(root)("CREATE QUEUE queuegate.q (n INT)")
    with gate.connect(user="few", database="queuegate") as connection:
        client = Sql(connection)
        assert client("INSERT INTO q (n) VALUES (7)") == 1
        assert client.column("SELECT n FROM STREAM q LIMIT 1 WAIT 10") == [7]


def test_each_login_finds_out_for_itself_whether_there_is_a_real_one(real, mariadb, new_gate):
    gate = new_gate().start()
    with mariadb.connect() as connection:
        server = Sql(connection)
        for there in (True, False, True):
            server("DROP DATABASE IF EXISTS queuegate")
            if there:
                server("CREATE DATABASE queuegate")
                server("CREATE TABLE queuegate.mine (n INT)")
            with gate.connect(database="queuegate") as inside:
                tables = Sql(inside).column("SHOW TABLES")
                assert tables == (["mine"] if there else TABLES)


def change_by_command(client: Sql, database: str) -> None:
    client.connection.select_db(database)


def change_by_statement(client: Sql, database: str) -> None:
    client(f"USE `{database}`")


def change_in_another_form(client: Sql, database: str) -> None:
    client(f"USE /*! {database} */")


@pytest.mark.parametrize("change", [change_by_command, change_by_statement, change_in_another_form])
@pytest.mark.parametrize("unsettled_by", ["SET sql_mode = @@sql_mode", "COM_RESET_CONNECTION"])
def test_who_goes_on_to_information_schema_is_there(inside, place, change, unsettled_by):
    if place == "embedded" and change is change_in_another_form:
        pytest.skip("the embedded backend has no comments that are run")
    for _ in range(2):
        change(inside, "information_schema")
        unsettle(inside, unsettled_by)
        assert inside.rows(READ_BY_MODE) == []
        assert "queues" not in inside.column("SHOW TABLES")
        assert inside.error("SELECT * FROM queues")[0] in (1109, 1146)
        change_by_statement(inside, "queuegate")
        unsettle(inside, unsettled_by)
        assert inside.rows(READ_BY_MODE) == []
        assert inside.column("SHOW TABLES") == TABLES


def unsettle(client: Sql, how: str) -> None:
    """Something that may have changed how the statements to come are read."""
    if how != "COM_RESET_CONNECTION":
        client(how)
        return
    client.connection._execute_command(COM_RESET_CONNECTION, b"")
    client.connection._read_ok_packet()


def test_who_goes_on_by_a_prepared_use_is_there(gate, on_mysql):
    if on_mysql or gate.embedded:
        pytest.skip("only MariaDB prepares USE")
    connector = pytest.importorskip("mysql.connector")
    client = connector.connect(host="127.0.0.1", port=gate.port, user="root", database="queuegate", use_pure=True)
    prepared = client.cursor(prepared=True)
    prepared.execute("USE information_schema")
    cursor = client.cursor()
    for statement in ("SET sql_mode = @@sql_mode", READ_BY_MODE, "SHOW TABLES"):
        cursor.execute(statement)
        rows = cursor.fetchall() if cursor.with_rows else []
    assert rows and ("queues",) not in rows
    client.close()


def test_another_user_does_not_inherit_it(gate):
    connector = pytest.importorskip("mysql.connector")
    client = connector.connect(host="127.0.0.1", port=gate.port, user="root", database="queuegate", use_pure=True)
    client.cmd_change_user("root", "", gate.database)
    cursor = client.cursor()
    for statement in ("USE information_schema", "SET sql_mode = @@sql_mode", READ_BY_MODE, "SHOW TABLES"):
        cursor.execute(statement)
        rows = cursor.fetchall() if cursor.with_rows else []
    assert rows and ("queues",) not in rows
    client.close()


def test_the_port_is_the_one_that_clients_use(gate, sql):
    if not gate.embedded:
        pytest.skip("a server tells its own")
    assert sql.value("SELECT @@port") == gate.port
