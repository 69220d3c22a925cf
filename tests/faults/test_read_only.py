"""A database that becomes read-only (a failover, a full disk): nothing is sent, streams wait, and go on after it."""

from __future__ import annotations

import pytest
from servers import Gate, Sql, Stream, wait_until


@pytest.fixture
def gate(own_mariadb, tmp_path):
    """A gate whose own account is subject to read_only, as one of production would be."""
    with own_mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE shop")
        cursor.execute("CREATE USER engine@'%' IDENTIFIED BY 'pw'")
        cursor.execute("GRANT ALL ON shop.* TO engine@'%'")
    gate = Gate(f"mysql://engine:pw@127.0.0.1:{own_mariadb.port}/shop", tmp_path, database="shop").start()
    yield gate
    gate.stop()


def set_read_only(mariadb, on: int) -> None:
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SET GLOBAL read_only = {on}")


def test_a_read_only_database_sends_nothing_and_loses_nothing(gate, own_mariadb):
    client = Sql(gate.connect(user="engine", password="pw"))
    client("CREATE QUEUE q (payload TEXT) WITH (poll_interval = '300ms')")
    receiver = Stream(gate, "SELECT payload FROM STREAM q", user="engine", password="pw")
    set_read_only(own_mariadb, 1)
    assert client.error("INSERT INTO q (payload) VALUES ('refused')")[0] == 1290
    assert client.error("ACK q 1")[0] == 1290
    with own_mariadb.connect(database="shop") as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO q (payload) VALUES ('written by the administrator')")
    wait_until(lambda: "read-only" in gate.log or "read_only" in gate.log, what="the engine to be refused")
    assert receiver.rows == []
    assert not receiver.ended.is_set()
    set_read_only(own_mariadb, 0)
    assert receiver.wait(1, 20) == [("written by the administrator",)]
    assert client("INSERT INTO q (payload) VALUES ('after')") == 1
    assert receiver.wait(2, 20) == [("written by the administrator",), ("after",)]
    receiver.close()
    client.close()
