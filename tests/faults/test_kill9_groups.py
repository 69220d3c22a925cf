"""kill -9 while the last messages of many groups are acked: what follows each is sent once, with its last ack."""

from __future__ import annotations

import contextlib
import random
import threading

import pymysql
from servers import Sql, wait_until
from slowness import scaled

PARKED = (1 << 63) - 1
ORDERS, PARTS, WORKERS = 60, 3, 3


def acking(gate, place, left, stop):
    """Ack one part of each order in turn; after a loss go on with the one whose outcome is not known."""
    client = None
    while left[place] < ORDERS and not stop.is_set():
        try:
            if client is None:
                client = Sql(gate.connect())
                client("SET SESSION TRANSACTION ISOLATION LEVEL " + ("READ COMMITTED", "REPEATABLE READ")[place % 2])
            client(f"ACK parts {left[place] * PARTS + place + 1}")
            left[place] += 1
        except pymysql.err.MySQLError as error:
            if error.args and error.args[0] in (1213, 1205):
                continue
            with contextlib.suppress(Exception):
                client.connection._force_close()
            client = None
            stop.wait(0.01)
    if client is not None:
        client.connection._force_close()


def test_kill_9_in_the_middle_of_last_acks(new_gate):
    gate = new_gate()
    gate.start()
    client = Sql(gate.connect())
    client("CREATE QUEUE parts (order_id BIGINT) WITH (group_key = 'order_id', poll_interval = '1h')")
    client("CREATE QUEUE done (order_id BIGINT)")
    for order in range(ORDERS):
        client("BEGIN")
        client("INSERT INTO parts (order_id) VALUES " + ", ".join([f"({order})"] * PARTS))
        client(f"INSERT INTO done (order_id) VALUES ({order}) AFTER GROUP {order} OF parts")
        client("COMMIT")
    client.close()
    left, stop = [0] * WORKERS, threading.Event()
    workers = [threading.Thread(target=acking, args=(gate, place, left, stop)) for place in range(WORKERS)]
    for worker in workers:
        worker.start()
    try:
        for crash in range(3):
            goal = ORDERS * (crash + 1) // 4 + random.Random(crash).randrange(5)
            wait_until(lambda goal=goal: max(left) >= goal, 60, "progress")
            gate.kill()
            gate.start()
        for worker in workers:
            worker.join(scaled(120))
    finally:
        stop.set()
    client = Sql(gate.connect())
    assert client.value("SELECT COUNT(*) FROM parts WHERE time_acked IS NULL") == 0
    sent = client.column(f"SELECT order_id FROM done WHERE time_next < {PARKED}")
    assert sorted(sent) == list(range(ORDERS))  # at once: the scan is an hour away
    assert sorted(client.column(f"SELECT order_id FROM STREAM done LIMIT {ORDERS + 1} NOWAIT")) == list(range(ORDERS))
    assert client.value("SELECT COUNT(*) FROM queuegate_groups") == 0
    client.close()
