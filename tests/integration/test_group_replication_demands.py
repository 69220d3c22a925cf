"""A MySQL that demands what a member of a Group Replication group does: a primary key of each table, InnoDB, GTIDs.

There is no group here: the MySQL of the tests comes without the plugin.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from mysql_server import MySql
from servers import Gate, MariaDb, Sql, Stream, private, wait_until
from vitess_server import BINLOG

DEMANDS = (
    *BINLOG, "--sql-require-primary-key=ON", "--disabled-storage-engines=MyISAM,BLACKHOLE,FEDERATED,ARCHIVE,MEMORY",
)  # fmt: skip

pytestmark = pytest.mark.long

_WITHOUT_KEY = """
SELECT TABLE_NAME FROM information_schema.TABLES AS t WHERE TABLE_SCHEMA = 'shop' AND TABLE_TYPE = 'BASE TABLE'
AND (ENGINE <> 'InnoDB' OR NOT EXISTS (SELECT 1 FROM information_schema.TABLE_CONSTRAINTS AS c WHERE
c.TABLE_SCHEMA = t.TABLE_SCHEMA AND c.TABLE_NAME = t.TABLE_NAME AND c.CONSTRAINT_TYPE = 'PRIMARY KEY'))
"""


@pytest.fixture(scope="module")
def demanding() -> Iterator[MariaDb]:
    with private(MySql(DEMANDS)) as server:
        server.fresh_database("shop")
        yield server


@pytest.fixture
def gate(demanding: MariaDb, tmp_path) -> Iterator[Gate]:
    made = Gate(demanding.engine_url("shop"), tmp_path, database="shop").start()
    yield made
    made.stop()


def test_the_server_demands_it(demanding):
    with demanding.connect(database="shop") as connection:
        assert Sql(connection).error("CREATE TABLE t (n INT)")[0] == 3750
        assert Sql(connection).error("CREATE TABLE t (n INT PRIMARY KEY) ENGINE=MyISAM")[0] == 3161


def test_queues_topics_and_schedules_live_on_it(gate, demanding):
    sql = Sql(gate.connect())
    sql("CREATE QUEUE orders (n INT) WITH (max_attempts = 1, order_key = 'n', max_concurrency = 5)")
    sql("CREATE TABLE paid (n INT PRIMARY KEY)")
    sql("INSERT INTO orders (n) VALUES (1), (2)")
    with Stream(gate, "SELECT id, n FROM STREAM orders") as receiver:
        (first, _), (second, _) = receiver.wait(2)
        sql("BEGIN")
        sql("INSERT INTO paid VALUES (1)")
        assert sql(f"ACK orders {first}") == 1
        sql("COMMIT")
        assert sql(f"NACK orders {second}") == 1
        wait_until(lambda: "orders_dead" in sql.column("SHOW TABLES"), what="the queue of dead letters")
        wait_until(lambda: sql.column("SELECT n FROM orders_dead") == [2], what="the dead letter")
        sql("CREATE SCHEDULE often ON orders EVERY '1s' (n) VALUES (9)")
        assert receiver.wait(3, 30)[2][1] == 9
    sql("DROP SCHEDULE often")
    sql("CREATE TOPIC log (n INT) WITH (sequence = 'on', trace_keep = '1d')")
    sql("CREATE TOPIC parts (n INT) WITH (retain = '1d', partition = '1h')")
    sql("CREATE GROUP readers ON log START AT EARLIEST")
    sql("INSERT INTO log (n) VALUES (7)")
    ((id_, n),) = sql.rows("SELECT id, n FROM STREAM log LIMIT 1 WAIT 20 WITH (group = 'readers')")
    assert n == 7 and sql(f"ACK log GROUP readers {id_}") == 1
    sql("INSERT INTO parts (n) VALUES (8)")
    assert sql.rows("SELECT n FROM STREAM parts LIMIT 1 WAIT 20 WITH (mode = 'broadcast', start = 'earliest')") == [
        (8,)
    ]
    with demanding.connect(database="shop") as connection:
        tables = Sql(connection)
        assert len(tables.column("SHOW TABLES")) > 9, "queues, topics, and the proxy's own"
        assert tables.column(_WITHOUT_KEY) == []


def test_what_is_waited_for_is_delivered_when_a_primary_takes_over(gate, demanding):
    """A member that is no primary is super_read_only, and is written to once it is one."""
    sql = Sql(gate.connect())
    sql("CREATE QUEUE jobs (n INT) WITH (poll_interval = '300ms')")
    with Stream(gate, "SELECT n FROM STREAM jobs") as receiver, demanding.connect(database="shop") as connection:
        Sql(connection)("SET GLOBAL super_read_only = ON")
        try:
            assert sql.error("INSERT INTO jobs (n) VALUES (1)")[0] == 1290
        finally:
            Sql(connection)("SET GLOBAL read_only = OFF")
        sql("INSERT INTO jobs (n) VALUES (2)")
        assert receiver.wait(1, 30) == [(2,)]
