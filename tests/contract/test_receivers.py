"""Several receivers of one queue: each message to one of them, nobody held up by another."""

from __future__ import annotations

import random
import socket
import threading
import time

from pymysql.cursors import SSCursor
from servers import Sql, Stream, hang_up, in_threads, wait_until
from slowness import scaled


def test_each_message_goes_to_exactly_one(sql, queue, stream):
    q = queue("n INT", batch_size=5)
    receivers = [stream(f"SELECT n FROM STREAM {q}") for _ in range(3)]
    for start in range(0, 120, 10):
        sql(f"INSERT INTO {q} (n) VALUES " + ", ".join(f"({n})" for n in range(start, start + 10)))
    got = lambda: [n for receiver in receivers for n in receiver.ids()]  # noqa: E731
    wait_until(lambda: len(got()) >= 120, what="120 messages")
    assert sorted(got()) == list(range(120))


def test_receivers_take_turns(sql, queue, stream):
    q = queue("n INT", batch_size=1)
    receivers = [stream(f"SELECT n FROM STREAM {q}") for _ in range(2)]
    sql(f"INSERT INTO {q} (n) VALUES (1), (2)")
    for receiver in receivers:
        receiver.wait(1)
    assert sorted(receivers[0].ids() + receivers[1].ids()) == [1, 2]


def test_a_backlog_is_shared(sql, queue, stream):
    q = queue("n INT", batch_size=10)
    receivers = [stream(f"SELECT n FROM STREAM {q} WITH (prefetch = 50)") for _ in range(3)]
    sql(f"INSERT INTO {q} (n) VALUES " + ", ".join(f"({n})" for n in range(150)))
    for receiver in receivers:
        receiver.wait(50)
    assert sorted(n for receiver in receivers for n in receiver.ids()) == list(range(150))


def test_a_receiver_that_left_is_out_of_the_rotation(sql, queue, stream):
    q = queue("n INT", batch_size=1)
    first, second = (stream(f"SELECT n FROM STREAM {q}") for _ in range(2))
    second.close()
    wait_until(lambda: len([row for row in sql.rows("SHOW SUBSCRIPTIONS") if row[0] == q]) == 1, what="it to be missed")
    for n in range(5):
        sql(f"INSERT INTO {q} (n) VALUES (%s)", n)
    assert [row[0] for row in first.wait(5)] == [0, 1, 2, 3, 4]


def test_a_full_window_passes_the_turn(sql, queue, stream):
    q = queue("n INT")
    narrow = stream(f"SELECT n FROM STREAM {q} WITH (prefetch = 1)")
    wide = stream(f"SELECT n FROM STREAM {q} WITH (prefetch = 1000)")
    for n in range(30):
        sql(f"INSERT INTO {q} (n) VALUES (%s)", n)
    wide.wait(29)
    assert len(narrow.rows) == 1


def test_ten_thousand_messages_each_exactly_once(gate, queue):
    """Eight producers, three receivers that ack at once, a scan ten times a second: nothing twice, nothing missing."""
    producers, receivers, total = 8, 3, 10_000
    q = queue("producer INT, n INT", ack_wait="'60s'", max_backoff="'2h'", poll_interval="'100ms'")
    lock, seen, done = threading.Lock(), [], threading.Event()

    def produce(producer: int) -> None:
        client = Sql(gate.connect())
        chance, n = random.Random(producer), 0
        while n < total // producers:
            size = min(chance.choice((1, 5, 20, 50)), total // producers - n)
            values = ", ".join(f"({producer}, {k})" for k in range(n, n + size))
            assert client(f"INSERT INTO {q} (producer, n) VALUES {values}") == size
            n += size
        client.close()

    def receive(number: int) -> int:
        acks, taken = Sql(gate.connect()), 0
        with Stream(gate, f"SELECT id, producer, n FROM STREAM {q} WITH (prefetch = 500)") as receiver:
            while not done.is_set():
                rows = receiver.rows[taken:]
                if not rows:
                    if receiver.ended.wait(0.002):
                        raise AssertionError(f"stream {number} ended: {receiver.error!r}")
                    continue
                taken += len(rows)
                assert acks(f"ACK {q} " + ", ".join(str(row[0]) for row in rows)) == len(rows)
                with lock:
                    seen.extend((row[1], row[2]) for row in rows)
                    if len(seen) >= total:
                        done.set()
        acks.close()
        return taken

    work = [(produce, n) for n in range(producers)] + [(receive, n) for n in range(receivers)]
    results = in_threads(lambda action, number: action(number), work)
    assert len(seen) == total
    assert set(seen) == {(p, n) for p in range(producers) for n in range(total // producers)}
    assert all(taken > 0 for taken in results[producers:])
    check = Sql(gate.connect())
    assert check.rows(f"SELECT state, epoch, COUNT(*) FROM {q} GROUP BY state, epoch") == [("acked", 1, total)]
    assert check.rows(f"SELECT id FROM STREAM {q} LIMIT 1 NOWAIT") == []
    check.close()


def test_a_receiver_that_stops_reading_delays_no_one(gate, sql, queue, stream):
    """Its socket buffers fill with large messages; other receivers and every INSERT go on at full speed."""
    q = queue("n INT, filler LONGTEXT", batch_size=2)
    stuck = gate.connect(cursorclass=SSCursor)
    cursor = stuck.cursor()
    cursor.execute(f"SELECT n, filler FROM STREAM {q} WITH (prefetch = 40)")  # and never reads a row
    filler = "x" * 500_000
    slowest = 0.0
    receiver = stream(f"SELECT n, filler FROM STREAM {q}")
    for n in range(80):
        started = time.monotonic()
        sql(f"INSERT INTO {q} (n, filler) VALUES (%s, %s)", n, filler)
        slowest = max(slowest, time.monotonic() - started)
    receiver.wait(40)
    assert slowest < scaled(5)
    started = time.monotonic()
    for n in range(100, 120):
        sql(f"INSERT INTO {q} (n, filler) VALUES (%s, '')", n)
    wait_until(lambda: len([n for n in receiver.ids() if n >= 100]) >= 10, 15, "the reading receiver to go on")
    assert sql.value("SELECT 1") == 1
    hang_up(stuck)
    cursor._result.unbuffered_active = False
    stuck._force_close()
    wait_until(lambda: set(receiver.ids()) == set(range(80)) | set(range(100, 120)), 20, "the stuck one's messages")


def test_a_receiver_that_stops_reading_and_then_says_goodbye_hands_its_messages_over(stuck, stream):
    stuck.connection._sock.shutdown(socket.SHUT_WR)  # a FIN alone: what is unread stays unread
    receiver = stream(f"SELECT id FROM STREAM {stuck.queue}")
    assert sorted(row[0] for row in receiver.wait(4, 5)) == [1, 2, 3, 4]
