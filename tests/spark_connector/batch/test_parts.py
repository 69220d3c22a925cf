"""Parts: every message in exactly one of them, about as many in each, whatever happens between plan and read."""

from __future__ import annotations

import pytest
from reading import described, options, read, reader

from spark_connector.batch import parts
from spark_connector.batch.parts import Share
from spark_connector.client.connection import Client
from spark_connector.errors import ConnectionFailed
from spark_connector.options import queue_address

pytestmark = pytest.mark.long


def plan(gate, name, count, include_acked=False):
    with Client(queue_address(options(gate, name)).address) as client:
        return parts.cut(client, described(gate, name), count, include_acked)


def sizes(gate, name, count, **more):
    core = reader(gate, name, numPartitions=count, **more)
    return [sum(batch.num_rows for batch in core.read(part)) for part in core.partitions()]


def fill(sql, name, ids):
    sql(f"INSERT INTO {name} (id) VALUES " + ", ".join(f"({number})" for number in ids))


def test_shares_are_of_rows_not_of_ids(gate, sql, queue):
    name = queue("payload INT")
    fill(sql, name, [*range(1, 11), *range(1_000_001, 1_000_031)])
    assert sizes(gate, name, 4) == [10, 10, 10, 10]
    sql(f"ACK {name} WHERE id <= 1000020")
    assert sizes(gate, name, 2) == [5, 5]
    assert sizes(gate, name, 2, includeAcked="true") == [20, 20]


def test_more_parts_than_rows(gate, sql, queue):
    name = queue("payload INT")
    assert sizes(gate, name, 3) == [0]
    fill(sql, name, [7, 9])
    assert sizes(gate, name, 5) == [1, 1]


@pytest.mark.parametrize("ids", [[*range(1, 1001)], [*range(1, 501), *range(10**12, 10**12 + 500)]])
def test_shares_are_estimated_where_counting_takes_long(gate, sql, queue, monkeypatch, ids):
    monkeypatch.setattr(parts, "EXACT_ROWS_MAX", 100)
    name = queue("payload INT")
    fill(sql, name, ids)
    found = sizes(gate, name, 4)
    assert sum(found) == 1000 and len(found) == 4 and max(found) < 500


def test_estimates_of_negative_ids(gate, sql, queue, monkeypatch):
    monkeypatch.setattr(parts, "EXACT_ROWS_MAX", 5)
    name = queue("id INT PRIMARY KEY, payload INT")
    fill(sql, name, [*range(-50, 50)])
    found = sizes(gate, name, 3)
    assert sum(found) == 100 and max(found) < 50


def test_shares_of_text_keys_are_counted_however_many(gate, sql, queue, monkeypatch):
    monkeypatch.setattr(parts, "EXACT_ROWS_MAX", 5)
    name = queue("id VARCHAR(36), payload INT")
    sql(f"INSERT INTO {name} (id) VALUES " + ", ".join(f"('{chr(97 + n)}-é''%s')" for n in range(20)))
    assert sizes(gate, name, 4) == [5, 5, 5, 5]


def test_keys_that_sort_otherwise_than_they_compare_are_one_part(gate, sql, queue):
    name = queue("id ENUM('b','a','c'), payload INT")
    sql(f"INSERT INTO {name} (id) VALUES ('a'), ('b'), ('c')")
    assert len(plan(gate, name, 4)) == 1
    assert sizes(gate, name, 4) == [3]


# --- each action reads what is there: Spark plans once, and reads the parts of that plan each time


def read_again(core, planned):
    return sorted(row["id"] for part in planned for batch in core.read(part) for row in batch.to_pylist())


def test_parts_of_one_plan_read_what_is_there_each_time(gate, sql, queue):
    counted, named = queue("payload INT"), queue("id VARCHAR(36), payload INT")
    for name, first, later in ((counted, [1, 2, 3], [4, 900_000]), (named, ["b", "k", "y"], ["a", "z"])):
        core = reader(gate, name, numPartitions=2)
        sql(f"INSERT INTO {name} (id) VALUES (%s), (%s), (%s)", *first)
        planned = core.partitions()
        assert read_again(core, planned) == first
        sql(f"INSERT INTO {name} (id) VALUES (%s), (%s)", *later)
        assert read_again(core, planned) == sorted([*first, *later])
        sql(f"ACK {name} {', '.join(map(repr, first))}")
        assert read_again(core, planned) == sorted(later)


def test_a_plan_of_an_empty_queue_reads_what_comes(gate, sql, queue):
    name = queue("payload INT")
    core = reader(gate, name)
    planned = core.partitions()
    assert read_again(core, planned) == []
    fill(sql, name, [-5, 1, 70_000])
    assert read_again(core, planned) == [-5, 1, 70_000]


@pytest.mark.parametrize("count", [1, 2, 7])
def test_every_id_above_the_plan_is_in_one_block(count):
    """And the parts have about as many of them each, however many there are."""
    for above, highest in ((0, 1), (0, 123_456), (5_000, 5_001), (-3, 40_000), (7, 10**6)):
        found = [one for at in range(count) for one in Share(above, at, count).ranges(highest)]
        found.sort(key=lambda one: one.after)
        assert [one.after for one in found] == [above, *(one.to for one in found[:-1])]
        assert found[-1].to == highest
    mine = [sum(one.to - one.after for one in Share(0, at, count).ranges(10**7)) for at in range(count)]
    assert max(mine) < 4 * sum(mine) / count
    assert len(list(Share(0, 0, count).ranges(2**63 - 1))) < 60


def test_tasks_that_see_other_highest_ids_reckon_the_same_blocks():
    for at in range(4):
        small, large = (list(Share(10, at, 4).ranges(highest)) for highest in (90_000, 10**9))
        assert [one.after for one in small] == [one.after for one in large][: len(small)]


def test_messages_deleted_meanwhile_are_gone(gate, sql, queue):
    name = queue("payload INT")
    fill(sql, name, range(1, 5))
    core = reader(gate, name, numPartitions=1)
    (part,) = core.partitions()
    sql(f"DELETE FROM {name} WHERE id = 2")
    assert [row["id"] for batch in core.read(part) for row in batch.to_pylist()] == [1, 3, 4]


def test_nothing_is_leased_or_acked(gate, sql, queue):
    name = queue("payload INT")
    fill(sql, name, [1, 2])
    before = sql.rows(f"SELECT * FROM {name}")
    read(reader(gate, name))
    assert sql.rows(f"SELECT * FROM {name}") == before
    assert len(sql.rows(f"SELECT id FROM STREAM {name} NOWAIT")) == 2


# --- memory and ends


def test_batches_have_fetchsize_rows(gate, sql, queue):
    name = queue("payload INT")
    fill(sql, name, range(1, 26))
    core = reader(gate, name, numPartitions=1, fetchsize=10)
    assert [batch.num_rows for part in core.partitions() for batch in core.read(part)] == [10, 10, 5]


def test_who_stops_early_lets_go_of_the_line(gate, sql, queue):
    name = queue("payload VARCHAR(4000)")
    sql(f"INSERT INTO {name} (payload) VALUES (REPEAT('x', 4000))")
    for _ in range(11):
        sql(f"INSERT INTO {name} (payload) SELECT payload FROM {name}")
    core = reader(gate, name, numPartitions=1, fetchsize=1)
    (part,) = core.partitions()
    reading = core.read(part)
    next(reading)
    reading.close()
    from servers import wait_until

    def others():
        return [row for row in sql.rows("SHOW PROCESSLIST") if name in str(row) and "PROCESSLIST" not in str(row)]

    wait_until(lambda: not others(), what="the query to end")


def test_a_proxy_that_dies_ends_the_task_with_one_line(new_gate):
    gate = new_gate().start()
    with gate.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE QUEUE q (payload LONGTEXT)")
        for _ in range(10):
            cursor.execute("INSERT INTO q (payload) VALUES (REPEAT('x', 4000000))")
    core = reader(gate, "q", numPartitions=1, fetchsize=1)
    (part,) = core.partitions()
    reading = core.read(part)
    next(reading)
    gate.kill()
    with pytest.raises(ConnectionFailed, match=r"the connection to 127.0.0.1:\d+/\w+ was lost: error 2013") as caught:
        list(reading)
    assert "\n" not in str(caught.value)
    with pytest.raises(ConnectionFailed, match="Is queuegate listening there"):
        list(core.read(part))


def test_large_messages(gate, sql, queue):
    name = queue("payload LONGTEXT")
    for size in (1, 5_000_000, 17_000_000):
        sql(f"INSERT INTO {name} (payload) VALUES (%s)", "é" * (size // 2))
    sizes_read = [len(v.encode()) for v in read(reader(gate, name, numPartitions=1)).column("payload").to_pylist()]
    assert sorted(sizes_read) == [0, 5_000_000, 17_000_000]
