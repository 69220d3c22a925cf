"""Queues work as ever on a server whose settings are not the usual ones, for all sessions or for a client's own."""

from __future__ import annotations

import subprocess
import sys

import pymysql
import pytest
import write_calls
from servers import ROOT, SERVER, Gate, MariaDb, Sql, private, wait_until
from spark_stand_in import Checkpoint, Query, make_source, options_of

from mysql_client.driver import OWN_SESSION
from queuegate_celery.connection import SqlConnection
from queuegate_celery.exchanges import Exchanges
from queuegate_celery.settings import Address as CeleryAddress
from queuegate_celery.settings import Settings
from queuegate_worker.address import address_of
from queuegate_worker.connection import Connection, connection_factory
from queuegate_worker.tasks.layout import create_results
from spark_connector.batch.read import BatchRead
from spark_connector.client import pool
from spark_connector.client.columns import Field
from spark_connector.jobs.archive.queue import MAKE_TABLE
from spark_connector.options import batch_read

pytestmark = pytest.mark.long

_BY_STATEMENT = ["--log-bin=binary", "--server-id=7", "--binlog-format=STATEMENT"]
_MODES = [
    "ANSI", "ANSI_QUOTES", "PIPES_AS_CONCAT", "NO_BACKSLASH_ESCAPES", "PAD_CHAR_TO_FULL_LENGTH", "HIGH_NOT_PRECEDENCE",
    "IGNORE_SPACE", "REAL_AS_FLOAT", "NO_UNSIGNED_SUBTRACTION", "STRICT_ALL_TABLES",
    "NO_AUTO_VALUE_ON_ZERO", "TRADITIONAL", "ONLY_FULL_GROUP_BY", "",
]  # fmt: skip
_MODES_OF_MYSQL = ["TIME_TRUNCATE_FRACTIONAL"]
_MODES_OF_MARIADB = [
    "ORACLE",
    "TIME_ROUND_FRACTIONAL",
    "SIMULTANEOUS_ASSIGNMENT",
    "EMPTY_STRING_IS_NULL",
    "MSSQL",
    "DB2",
    "POSTGRESQL",
    "MAXDB",
]
_ISOLATION = "transaction_isolation" if SERVER == "mysql" else "tx_isolation"
_SETTINGS = {
    "as_installed": {},
    "safe_updates": {"sql_safe_updates": "1"},
    "one_row": {"sql_select_limit": "1"},
    "small_joins": {"max_join_size": "10"},
    "myisam": {"default_storage_engine": "'MyISAM'"},
    "chained": {"completion_type": "'CHAIN'"},
    "serializable": {_ISOLATION: "'SERIALIZABLE'"},
    "uncommitted": {_ISOLATION: "'READ-UNCOMMITTED'"},
    "committed": {_ISOLATION: "'READ-COMMITTED'"},
    "zone": {"time_zone": "'+05:45'"},
    "latin1": {"character_set_server": "'latin1'", "character_set_client": "'latin1'"},
    "auto_is_null": {"sql_auto_is_null": "1"},
    "steps_of_ids": {"auto_increment_increment": "10", "auto_increment_offset": "3"},
    "no_foreign_keys": {"foreign_key_checks": "0", "unique_checks": "0"},
    "british": {"lc_time_names": "'en_GB'"},
    "short_groups": {"group_concat_max_len": "4"},
    **{f"mode_{mode.lower() or 'none'}": {"sql_mode": f"'{mode}'"} for mode in _MODES},
}
_OF_MARIADB = {
    "aria": {"default_storage_engine": "'Aria'"},
    "cased_names": {"sql_quote_show_create": "0"},
    **({} if SERVER != "mariadb-next" else {"snapshots": {"innodb_snapshot_isolation": "1"}}),
    **{f"mode_{mode.lower()}": {"sql_mode": f"'{mode}'"} for mode in _MODES_OF_MARIADB},
}
_OF_MYSQL = {f"mode_{mode.lower()}": {"sql_mode": f"'{mode}'"} for mode in _MODES_OF_MYSQL}
SETTINGS = _SETTINGS | (_OF_MYSQL if SERVER == "mysql" else _OF_MARIADB)
_GLOBAL_ONLY = ("latin1",)  # the client says in what it writes


def _topic_of(setting):
    """Where ids tell no order, messages have numbers."""
    return "WITH (sequence = 'on')" if setting == "steps_of_ids" else ""


def _made(options=()):
    if SERVER == "mysql":
        from mysql_server import MySql

        return MySql(options)
    if SERVER == "mariadb-next":
        from mariadb_next import MariaDbNext

        return MariaDbNext(options)
    return MariaDb(options)


@pytest.fixture(scope="module")
def server():
    with private(_made()) as made:
        yield made


@pytest.fixture
def place():
    return "mariadb"


def _set(server, settings, scope):
    connection = server.connect()
    with connection, connection.cursor() as cursor:
        for name, value in settings.items():
            cursor.execute(f"SET {scope} {name} = {value}")


@pytest.fixture(params=SETTINGS, ids=str)
def gate_under(request, server, tmp_path):
    """A gate on a server with these settings, which are taken back."""
    settings = SETTINGS[request.param]
    connection = server.connect()
    with connection, connection.cursor() as cursor:
        before = {}
        for name in settings:
            cursor.execute(f"SELECT @@GLOBAL.{name}")
            ((before[name],),) = cursor.fetchall()
    url = server.fresh_database("settings")
    _set(server, settings, "GLOBAL")
    gate = Gate(url, tmp_path, database="settings")
    try:
        yield gate.start()
        gate.stop()
    finally:
        _set(server, {name: repr(value) for name, value in before.items()}, "GLOBAL")


@pytest.fixture(scope="module")
def gate_as_installed(server, tmp_path_factory):
    """One on a server as it is installed, for sessions with settings of their own."""
    gate = Gate(server.fresh_database("sessions"), tmp_path_factory.mktemp("sessions"), database="sessions").start()
    yield gate
    gate.stop()


def _work(sql, topic=""):
    """Each verb once. `topic`: the options of one."""
    sql("CREATE QUEUE orders (payload VARCHAR(20)) WITH (max_attempts = 5, dead_letter = 'orders_dead')")
    sql("INSERT INTO orders (payload) VALUES ('a'), ('b'), ('c'), ('d'), ('e')")
    got = sql.column("SELECT id FROM STREAM orders LIMIT 5 WAIT 10")
    assert len(got) == 5
    assert sql(f"ACK orders {got[0]}") == 1
    assert sql(f"NACK orders {got[1]} DELAY '1h' REASON 'later'") == 1
    assert sql("RETRY orders NOW WHERE payload = 'b'") + sql("RETRY orders NOW") == 1
    assert sql(f"RENEW orders {got[2]} FOR '1m'") == 1
    assert sql(f"RELEASE orders {got[2]}") == 1
    assert sql(f"REJECT orders {got[3]} REASON 'bad'") == 1
    assert sql(f"ACK orders WHERE payload = 'e' AND id = {got[4]}") == 1
    again = sql.column("SELECT payload FROM STREAM orders LIMIT 2 WAIT 10")
    assert sorted(again) == ["b", "c"]
    wait_until(lambda: _dead(sql) == 1, what="the dead letter")
    assert sql("REDRIVE orders_dead") == 1
    assert sql.column("SELECT payload FROM STREAM orders LIMIT 1 WAIT 10") == ["d"]
    sql("CREATE QUEUE parts (k INT) WITH (group_key = 'k')")
    sql("INSERT INTO parts (k) VALUES (1), (2)")
    for k in (1, 2):
        sql(f"INSERT INTO orders (payload) VALUES ('after {k}') AFTER GROUP {k} OF parts")
    parts = sql.column("SELECT id FROM STREAM parts LIMIT 2 WAIT 10")
    assert sql(f"ACK parts {parts[0]}, {parts[1]}") == 2
    done = sql.column("SELECT payload FROM STREAM orders LIMIT 2 WAIT 10")
    assert sorted(
        done + (sql.column("SELECT payload FROM STREAM orders LIMIT 1 WAIT 10") if len(done) < 2 else [])
    ) == [
        "after 1",
        "after 2",
    ]
    sql(f"CREATE TOPIC news (payload VARCHAR(20)) {topic}")
    sql("CREATE GROUP readers ON news START AT EARLIEST")
    sql("INSERT INTO news (payload) VALUES ('x')")
    ((offset, payload),) = sql.rows("SELECT id, payload FROM STREAM news WITH (group = 'readers') LIMIT 1 WAIT 10")
    assert payload == "x" and sql(f"ACK news {offset} GROUP readers") == 1
    sql("ALTER GROUP readers ON news SEEK TO EARLIEST")
    assert sql.column("SELECT payload FROM STREAM news WITH (group = 'readers') LIMIT 1 WAIT 10") == ["x"]
    sql("CREATE SCHEDULE ticks ON orders EVERY '1h' (payload) VALUES ('tick')")
    sql("RUN SCHEDULE ticks")
    assert sql.column("SELECT payload FROM STREAM orders LIMIT 1 WAIT 10") == ["tick"]
    sql("DROP SCHEDULE ticks")
    sql("ALTER QUEUE orders SET (batch_size = 10)")
    sql("TRUNCATE QUEUE orders")
    sql("DROP GROUP readers ON news")
    sql("DROP TOPIC news")
    for queue in ("parts", "orders", "orders_dead"):
        sql(f"DROP QUEUE {queue}")


def _dead(sql):
    try:
        return sql.value("SELECT COUNT(*) FROM orders_dead")
    except pymysql.err.ProgrammingError:
        return 0  # it is not made yet


def test_every_verb_under_a_setting(gate_under, request):
    sql = Sql(gate_under.connect())
    _work(sql, _topic_of(request.node.callspec.params["gate_under"]))
    sql.close()


@pytest.mark.parametrize("setting", [name for name in SETTINGS if name not in _GLOBAL_ONLY])
def test_every_verb_in_a_session_with_a_setting(gate_as_installed, setting):
    settings = ", ".join(f"{name} = {value}" for name, value in SETTINGS[setting].items())
    database = f"session_{setting}"
    sql = Sql(gate_as_installed.connect(init_command=f"SET SESSION {settings}" if settings else None))
    sql(f"CREATE DATABASE {database}")
    sql(f"USE {database}")
    try:
        _work(sql, _topic_of(setting))
    finally:
        sql(f"DROP DATABASE {database}")
        sql.close()


def test_a_binary_log_of_statements(tmp_path):
    with private(MariaDb(_BY_STATEMENT)) as server:
        gate = Gate(server.url(), tmp_path).start()
        sql = Sql(gate.connect())
        _work(sql)
        sql.close()
        gate.stop()
        connection = server.connect()
        with connection, connection.cursor() as cursor:
            cursor.execute("CREATE USER weak@'127.0.0.1' IDENTIFIED BY 'pw'")
            cursor.execute(
                "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX ON main.* TO weak@'127.0.0.1'"
            )
        url = f"mysql://weak:pw@127.0.0.1:{server.port}/main"
        (tmp_path / "weak.yaml").write_text(f"backend: {url}\nlisten: 127.0.0.1:0\nworkers: 1\n")
        done = subprocess.run(
            [sys.executable, "-m", "queuegate", "serve", "--config", str(tmp_path / "weak.yaml")], cwd=ROOT,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    (line,) = [x for x in done.stderr.splitlines() if x.startswith("queuegate: ")]
    assert "binlog_format = STATEMENT" in line and "BINLOG ADMIN" in line


# --- our own programs: their connections set what their statements need


def _streamed(gate, queue, **options):
    """What a streaming query receives and acks. Each of its tasks has some of the messages."""
    query = Query(make_source(gate, queue, numPartitions=2, **options), Checkpoint())
    try:
        return len(query.drain())
    finally:
        query.kill()


def _spark(gate, sql, setting):
    """Each way of the connector once."""
    sql("CREATE QUEUE plain (payload VARCHAR(20))")
    sql("INSERT INTO plain (payload) VALUES ('a'), ('b'), ('c')")
    plan = BatchRead(batch_read(options_of(gate, "plain", numPartitions=2)), (Field("id", "bigint"),))
    assert sum(batch.num_rows for part in plan.partitions() for batch in plan.read(part)) == 3
    if setting != "steps_of_ids":
        assert _streamed(gate, "plain", mode="tail", startingOffsets="earliest", pollTimeoutMs=1500) == 3
    assert _streamed(gate, "plain") == 3
    assert sql.value("SELECT COUNT(*) FROM plain WHERE time_acked IS NULL") == 0
    assert sql.column("SELECT done_upto FROM queuegate_spark_checkpoints_plain") == [1]
    ids = ["plain", "O'Hara", "a\\b", "', (SELECT 7), 8, 9, 10)-- "]
    sql("CREATE QUEUE named (id VARCHAR(40) NOT NULL PRIMARY KEY, payload VARCHAR(20))")
    for id_ in ids:
        sql("INSERT INTO named (id, payload) VALUES (%s, 'x')", (id_,))
    assert _streamed(gate, "named") == len(ids)
    assert sql.value("SELECT COUNT(*) FROM named WHERE time_acked IS NULL") == 0
    sql("CREATE QUEUE written (n BIGINT, payload VARCHAR(20))")
    write_calls.append(gate, "written", write_calls.messages(0, 3), txnAppId="a", txnVersion=0)
    write_calls.append(gate, "written", write_calls.messages(3, 3), writeMode="direct")
    assert sql.value("SELECT COUNT(*) FROM written") == 6
    sql(f"CREATE TOPIC events (payload VARCHAR(20)) {_topic_of(setting)}")
    sql("CREATE GROUP my_group ON events START AT EARLIEST")
    sql("INSERT INTO events (payload) VALUES ('a'), ('b')")
    assert _streamed(gate, "events", group="my_group") == 2


def _work_of_workers(gate, sql):
    """Messages that are acked together, by a worker; one that a process sends; Celery's bindings."""
    sql("CREATE QUEUE jobs (payload VARCHAR(20))")
    connection = Connection(connection_factory(_address(gate), "settings"), 30)
    connection.begin()
    connection.execute("INSERT INTO jobs (payload) VALUES ('a'), ('b')")
    connection.commit()
    assert sql.value("SELECT COUNT(*) FROM jobs") == 2
    connection.execute("DELETE FROM jobs WHERE id > 0")
    assert sql.value("SELECT COUNT(*) FROM jobs") == 0, "it is committed by itself"
    connection.execute(*create_results("jobs"))
    connection.close()
    celery = SqlConnection(CeleryAddress("127.0.0.1", gate.port, "root", "", gate.database), Settings())
    exchanges = Exchanges(celery)
    exchanges.declare("news", "fanout", False)
    for queue in ("one", "two"):
        exchanges.bind("news", "", queue)
    assert sorted(exchanges.routes("news", "").queues) == ["one", "two"]
    exchanges.forget_queue("one")
    celery.execute_all([("INSERT INTO jobs (payload) VALUES (%s)", (text,)) for text in ("c", "d")])
    assert sql.value("SELECT COUNT(*) FROM jobs") == 2
    celery.execute("DELETE FROM jobs WHERE payload = 'c'")
    assert sql.value("SELECT COUNT(*) FROM jobs") == 1
    celery.close()


def _address(gate):
    return address_of(f"mysql://root@127.0.0.1:{gate.port}/{gate.database}", {})


def test_our_own_programs_under_a_setting(gate_under, request):
    sql = Sql(gate_under.connect(init_command=OWN_SESSION))
    try:
        _spark(gate_under, sql, request.node.callspec.params["gate_under"])
        _work_of_workers(gate_under, sql)
        sql(MAKE_TABLE)
        engines = "SELECT DISTINCT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()"
        assert sql.column(engines) == ["InnoDB"], "what is not transactional would be half done"
    finally:
        sql.close()
        pool.close_all()
