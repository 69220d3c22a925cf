"""An order by the sharding key: claims for different parts of the ring, by two proxies, do not wait for each other."""

from __future__ import annotations

import hashlib
import itertools

import pytest
from servers import Gate, Sql, Stream, wait_until

from engine.store.statements.limits import part_row

_numbers = itertools.count(1)
KEYS = range(40)
UNACKED = "SELECT COUNT(*) FROM q WHERE epoch = 1 AND time_acked IS NULL"


def low(key):
    return hashlib.md5(str(key).encode(), usedforsecurity=False).digest()[0] < 0x80


@pytest.fixture
def gates(mariadb, tmp_path):
    database = f"parts_{next(_numbers)}"
    url, gates = mariadb.fresh_database(database), []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        gates.append(Gate(url, tmp_path / name, database=database).start())
    wait_until(lambda: all("linked to another proxy" in gate.log for gate in gates), what="the links")
    yield gates
    for gate in gates:
        gate.stop()


@pytest.fixture
def ordered(gates, mariadb):
    """A client of a queue whose locks exist, receivers of both halves, each at a proxy of its own, and a session around
    the proxies."""
    sql, other = [Sql(gate.connect()) for gate in gates]
    sql("CREATE QUEUE q (k INT NOT NULL, n INT) SHARDING KEY (k) WITH (order_key = 'k', poll_interval = '1s')")
    wait_until(lambda: other.rows("SHOW QUEUES"), what="the queue at the other proxy")
    read = "SELECT id, k, n FROM STREAM q WITH (key_range = '%s')"
    halves = [Stream(gate, read % half) for gate, half in zip(gates, ("-80", "80-"), strict=True)]
    enqueue(sql, 0)
    wait_for(halves)
    sql("ACK q WHERE n = 0")
    around = Sql(mariadb.connect(database=gates[0].database))
    yield sql, halves, around
    for closing in (*halves, sql, other, around):
        closing.close()


def enqueue(sql, n):
    sql(f"INSERT INTO q (k, n) VALUES {', '.join(f'({key}, {n})' for key in KEYS)}")


def wait_for(halves, rounds=1):
    """Until each half has its messages."""
    for half, wanted in zip(halves, (low, lambda key: not low(key)), strict=True):
        half.wait(rounds * sum(map(wanted, KEYS)))


def lock(around, *rows):
    around("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")  # as the proxies do
    around("BEGIN")
    wanted = ", ".join(["%s"] * len(rows))
    locked = around.rows(
        f"SELECT arrival_ns FROM queuegate_limits FORCE INDEX (PRIMARY) WHERE queue_name IN ({wanted}) FOR UPDATE",
        *rows,
    )
    assert len(locked) == len(rows)


def test_a_claim_of_one_half_does_not_wait_for_one_of_the_other(ordered):
    sql, (first, second), around = ordered
    before = len(first.rows)
    lock(around, *(part_row("q", part) for part in range(128)))
    enqueue(sql, 1)
    second.wait(2 * sum(not low(key) for key in KEYS))
    assert len(first.rows) == before
    around("COMMIT")
    wait_for((first, second), 2)


def test_a_claim_for_the_whole_ring_waits_for_those_of_parts_and_they_for_it(ordered):
    sql, halves, around = ordered
    before = [len(half.rows) for half in halves]
    lock(around, "q")  # as a proxy does that knows no parts
    enqueue(sql, 1)
    assert sql.error("SELECT id FROM STREAM q LIMIT 1 WAIT 0.5")[0] == 1205
    assert [len(half.rows) for half in halves] == before
    around("COMMIT")
    wait_until(lambda: sql.value(UNACKED) == len(KEYS), what="all")


@pytest.mark.parametrize("rows", ["q", "q:%"])
def test_locks_that_were_deleted_are_made_again(ordered, rows):
    sql, halves, around = ordered
    around("DELETE FROM queuegate_limits WHERE queue_name LIKE %s", rows)
    around("COMMIT")
    enqueue(sql, 1)
    wait_for(halves, 2)
