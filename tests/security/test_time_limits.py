"""Whose time it is: statements that run long and transactions that rest end by themselves (embedded backend)."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from typing import Any

import pymysql
import pytest
from servers import Gate, Sql, wait_until
from slowness import scaled

ENDLESS = "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT MAX(n) FROM t"
HINTED = f"SELECT /*+ MAX_EXECUTION_TIME(200) */ * FROM ({ENDLESS}) x"
FEW = {"name": "few", "password": "", "queues": {"q": ["enqueue", "receive", "settle"]}}
USERS = [{"name": "root", "password": ""}, FEW]
SOON = 10.0  # seconds, on a busy machine, for what takes one


@pytest.fixture
def place() -> str:
    return "embedded"


def seconds_of(work: Callable[[], Any]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


@pytest.mark.parametrize(
    ("setting", "statement", "errno"),
    [
        ("SET max_execution_time = 200", ENDLESS, 3024),
        ("SET GLOBAL max_execution_time = 200", ENDLESS, 3024),
        ("DO 0", HINTED, 3024),
        ("SET max_execution_time = 3600000", HINTED, 3024),
        ("SET max_statement_time = 0.2", ENDLESS, 1969),
        ("SET max_statement_time = 0.2", f"INSERT INTO t (n) {ENDLESS}", 1969),
        ("SET max_execution_time = 200", "SELECT REGEXP_REPLACE(REPEAT('a', 2000000), 'a.*b|a', 'x')", 3024),
    ],
)  # fmt: skip
def test_a_clients_own_limit_interrupts(gate: Gate, name: str, setting: str, statement: str, errno: int) -> None:
    statement = statement.replace("INTO t ", f"INTO {name} ")
    lifted = re.sub(" = .*", " = 0", setting)  # for what must succeed, however slow the machine is
    with gate.connect() as other, gate.connect() as connection:
        Sql(other)(f"CREATE TABLE {name} (n BIGINT)")
        sql, setter = Sql(other if "GLOBAL" not in setting else connection), Sql(other)
        try:
            setter(setting)
            assert seconds_of(lambda: check(sql, statement, errno)) < scaled(SOON)
            setter(lifted)
            assert sql.value(f"SELECT COUNT(*) FROM {name}") == 0
            sql("BEGIN")
            sql(f"INSERT INTO {name} VALUES (2)")
            setter(setting)
            check(sql, statement, errno)
            setter(lifted)
            if "INSERT" not in statement:
                assert sql.value(f"SELECT COUNT(*) FROM {name}") == 1
                sql("COMMIT")
            else:  # SQLite has rolled the transaction back
                assert sql.error("COMMIT")[0] == 1213
                assert sql.value(f"SELECT COUNT(*) FROM {name}") == 0
        finally:
            Sql(connection)("SET GLOBAL max_execution_time = 0")
            Sql(connection)(f"DROP TABLE {name}")


def test_a_select_that_execute_runs_has_the_limit_of_one(gate: Gate) -> None:
    with gate.connect() as connection:
        sql = Sql(connection)
        sql(f"PREPARE endless FROM '{ENDLESS}'")
        sql("SET max_execution_time = 200")
        assert seconds_of(lambda: check(sql, "EXECUTE endless", 3024)) < scaled(SOON)
        assert seconds_of(lambda: check(sql, "/* again */ execute `endless`", 3024)) < scaled(SOON)


def check(sql: Sql, statement: str, errno: int) -> None:
    assert sql.error(statement)[0] == errno


def test_rows_are_in_the_same_time(new_gate: Callable[..., Gate]) -> None:
    gate = new_gate().start()
    with gate.connect() as connection:
        sql = Sql(connection)
        sql("SET max_execution_time = 500")
        endless = ENDLESS.replace("SELECT MAX(n)", "SELECT n")
        assert seconds_of(lambda: check(sql, endless, 3024)) < scaled(SOON)
        sql("SET max_execution_time = 0")
        assert sql.value("SELECT 1") == 1


def test_max_execution_time_is_for_select_alone(new_gate: Callable[..., Gate]) -> None:
    gate = new_gate().start()
    with gate.connect() as connection:
        sql = Sql(connection)
        sql("CREATE TABLE t (n BIGINT)")
        sql("SET max_execution_time = 1")
        assert sql("INSERT INTO t SELECT SLEEP(0.3)") == 1


def test_the_configurations_bound_is_not_for_administrators(new_gate: Callable[..., Gate]) -> None:
    gate = new_gate(users=USERS, limits={"statement_time": "3s"}).start()
    with gate.connect() as root, gate.connect(user="few") as few:
        owner, client = Sql(root), Sql(few)
        owner("CREATE QUEUE q (body LONGTEXT)")
        owner("INSERT INTO q (body) VALUES (REPEAT('a', 10000000))")  # what follows takes 30 s, unless it is ended
        assert owner.value("SELECT SLEEP(4)") == 0
        slow = "ACK q WHERE " + " OR ".join(f"body LIKE '%a%a%b{number}' ESCAPE '!'" for number in range(1000))
        assert seconds_of(lambda: check(client, slow, 3024)) < 3 + scaled(SOON)
        assert client("INSERT INTO q (body) VALUES ('b')") == 1


def test_kill_query_interrupts_a_function_that_takes_its_time(new_gate: Callable[..., Gate]) -> None:
    gate = new_gate().start()
    hostile, other = gate.connect(), Sql(gate.connect())
    found: list[int] = []

    def run() -> None:
        found.append(Sql(hostile).error("SELECT REGEXP_REPLACE(REPEAT('a', 2000000), 'a.*b|a', 'x')")[0])

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(
        lambda: any("REGEXP_REPLACE" in str(row) for row in other.rows("SHOW PROCESSLIST")), what="the statement"
    )
    other(f"KILL QUERY {hostile.thread_id()}")
    thread.join(scaled(SOON))
    assert found == [1317]
    hostile.close()
    other.close()


def test_a_transaction_that_rests_does_not_keep_others_from_writing(new_gate: Callable[..., Gate]) -> None:
    gate = new_gate(users=USERS, limits={"idle_transaction": "1s"}).start()
    owner = Sql(gate.connect())
    owner("CREATE QUEUE q (body VARCHAR(200))")
    few = gate.connect(user="few", autocommit=False)
    assert Sql(few)("INSERT INTO q (body) VALUES ('held')") == 1
    assert owner("INSERT INTO q (body) VALUES ('free')") == 1  # after a second or two, not 1205 after five
    with pytest.raises(pymysql.err.OperationalError) as ended:
        Sql(few)("SELECT 1")
    assert ended.value.args[0] in (4031, 2006, 2013)
    assert owner.column("SELECT body FROM STREAM q LIMIT 10 WAIT 5") == ["free"]
    owner.close()


def test_an_administrators_transaction_may_rest(new_gate: Callable[..., Gate]) -> None:
    gate = new_gate(limits={"idle_transaction": "500ms", "lock_wait_timeout": "1s"}).start()
    owner, other = Sql(gate.connect(autocommit=False)), Sql(gate.connect())
    other("CREATE QUEUE q (body VARCHAR(200))")
    owner("INSERT INTO q (body) VALUES ('held')")
    assert other.value("SELECT SLEEP(2.5)") == 0  # two looks of the sweeper
    assert other.error("INSERT INTO q (body) VALUES ('x')")[0] == 1205
    owner.connection.commit()
    assert other.column("SELECT body FROM STREAM q LIMIT 1 WAIT 5") == ["held"]
    owner.close()
    other.close()


def test_a_wait_ends_in_its_time_while_another_holds_the_writer(new_gate: Callable[..., Gate]) -> None:
    gate = new_gate().start()
    owner, other = Sql(gate.connect(autocommit=False)), Sql(gate.connect())
    other("CREATE QUEUE q (body VARCHAR(200))")
    other("INSERT INTO q (body) VALUES ('due')")
    owner("INSERT INTO q (body) VALUES ('held')")
    for seconds in (2, 7):  # shorter and longer than the wait for the writer
        began = time.monotonic()
        assert other.error(f"SELECT body FROM STREAM q LIMIT 1 WAIT {seconds}")[0] == 1205, "a message is due"
        assert seconds - 0.1 <= time.monotonic() - began < seconds + scaled(3)
    assert other.rows("SELECT body FROM STREAM q LIMIT 0 WAIT 1") == []
    owner.connection.commit()
    assert len(other.rows("SELECT body FROM STREAM q LIMIT 2 WAIT 10")) >= 1
    owner.close()
    other.close()


def test_a_consumer_without_autocommit_is_told_to_commit(new_gate: Callable[..., Gate]) -> None:
    """It holds the file's only writer, which its next delivery needs: said at once, not 1205 after seconds."""
    gate = new_gate().start()
    consumer = Sql(gate.connect(autocommit=False))
    consumer("CREATE QUEUE q (body VARCHAR(200))")
    consumer("INSERT INTO q (id, body) VALUES (1, 'a'), (2, 'b')")
    began = time.monotonic()
    assert consumer.error("SELECT id FROM STREAM q LIMIT 1 WAIT 2")[0] == 1179
    consumer.connection.commit()
    for number in (1, 2):
        assert consumer.column("SELECT id FROM STREAM q LIMIT 1 WAIT 10") == [number]
        assert consumer(f"ACK q {number}") == 1
        errno, text = consumer.error("SELECT id FROM STREAM q LIMIT 1 WAIT 2")
        assert (errno, "COMMIT" in text) == (1179, True)
        consumer.connection.commit()
    assert time.monotonic() - began < scaled(20)
    consumer.close()
