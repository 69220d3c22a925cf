"""A queue is an InnoDB table, whatever the server's or the session's default is; others are listed, never delivered."""

from __future__ import annotations

import pytest
from servers import wait_until


@pytest.fixture(autouse=True)
def _servers_only(place):
    if place == "embedded":
        pytest.skip("the embedded database has one storage engine")


def _engine(sql, table):
    return sql.value(
        f"SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '{table}'"
    )


def test_queues_and_topics_are_made_as_innodb(connect, name):
    sql = connect()
    sql("SET SESSION default_storage_engine = MyISAM")
    sql(f"CREATE QUEUE {name} (body VARCHAR(10)) WITH (dead_letter = '{name}_dead')")
    sql(f"CREATE TOPIC {name}_t (body VARCHAR(10))")
    sql(f"CREATE GROUP g ON {name}_t START AT EARLIEST")
    sql("BEGIN")
    sql(f"INSERT INTO {name} (body) VALUES ('gone')")
    sql("ROLLBACK")
    assert sql.rows(f"SELECT id FROM STREAM {name} LIMIT 1 NOWAIT") == []
    assert {_engine(sql, table) for table in sql.column("SHOW TABLES") if table.startswith(name)} == {"InnoDB"}
    sql(f"INSERT INTO {name} (body) VALUES ('bad')")
    sql(f"REJECT {name} WHERE body = 'bad'")
    wait_until(lambda: _dead(sql, name) == 1, what="the dead letter")
    assert _engine(sql, f"{name}_dead") == "InnoDB"
    sql(f"DROP GROUP g ON {name}_t")
    sql(f"DROP TOPIC {name}_t")
    sql(f"DROP QUEUE {name}_dead")
    sql(f"DROP QUEUE {name}")


def _dead(sql, name):
    there = sql.column("SHOW TABLES")
    return sql.value(f"SELECT COUNT(*) FROM {name}_dead") if f"{name}_dead" in there else 0


def test_a_queue_that_is_altered_to_another_engine_is_a_problem(connect, queue, stream):
    sql, q = connect(), queue()
    sql(f"ALTER TABLE {q} ENGINE = MyISAM")
    problem = {row["queue"]: row["problem"] for row in sql.named("SHOW QUEUES")}[q]
    assert "storage engine MyISAM" in problem and "ENGINE=InnoDB" in problem
    errno, text = sql.error(f"SELECT id FROM STREAM {q} LIMIT 1 NOWAIT")
    assert errno == 1347 and "MyISAM" in text
    sql(f"ALTER TABLE {q} ENGINE = InnoDB")
    assert sql.insert_id(f"INSERT INTO {q} (payload) VALUES ('a')")
    assert len(stream(f"SELECT id FROM STREAM {q}").wait(1)) == 1
