"""A message that kills its receiver costs one dead letter and no other message (docs/dead-letters.md)."""

from __future__ import annotations

import itertools

from servers import wait_until

SLOW = {"ack_wait": "'1h'", "min_backoff": "0", "max_backoff": "'2h'"}


def dead_letters(sql, q, ids):
    wait_until(lambda: f"{q}_dead" in sql.column("SHOW QUEUES"), what="the dead-letter queue")
    wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {q}_dead") >= len(ids), what="the dead letters")
    assert sql.column(f"SELECT id FROM {q}_dead ORDER BY id") == ids


def test_a_stream_that_dies_of_one_row(sql, queue, stream):
    """Each reader acks what it reads, and dies of message 3."""
    q = queue("n INT", max_attempts=3, **SLOW)
    sql(f"INSERT INTO {q} (n) VALUES {', '.join(f'({n})' for n in range(1, 21))}")
    crashes = 0
    while crashes < 9 and sql.value(f"SELECT COUNT(*) FROM {q} WHERE time_acked IS NULL AND id <> 3"):
        receiver = stream(f"SELECT id, epoch FROM STREAM {q}")
        for taken in itertools.count():
            rows = receiver.more(taken)
            if rows[0][0] == 3:
                break
            sql(f"ACK {q} %s", rows[0][0])
            if not sql.value(f"SELECT COUNT(*) FROM {q} WHERE time_acked IS NULL AND id <> 3"):
                break
        receiver.close()
        crashes += 1
        wait_until(lambda: not sql.value(f"SELECT COUNT(*) FROM {q} WHERE time_next % 1000 IN (1, 3)"))
    while crashes < 9 and sql.value(f"SELECT COUNT(*) FROM {q} WHERE id = 3"):
        receiver = stream(f"SELECT id, epoch FROM STREAM {q}")
        wait_until(lambda receiver=receiver: receiver.rows or not sql.value(f"SELECT COUNT(*) FROM {q} WHERE id = 3"))
        receiver.close()
        crashes += 1
        wait_until(lambda: not sql.value(f"SELECT COUNT(*) FROM {q} WHERE time_next % 1000 IN (1, 3)"))
    dead_letters(sql, q, [3])
    assert sql.value(f"SELECT attempts FROM {q}_dead") == 3
    assert sql.value(f"SELECT COUNT(*) FROM {q} WHERE time_acked IS NULL") == 0


def test_a_reader_that_dies_after_one_row_three_times(sql, queue, stream):
    q = queue("n INT", max_attempts=3, **SLOW)  # and no more messages than the first claim takes
    sql(f"INSERT INTO {q} (n) VALUES {', '.join(f'({n})' for n in range(1, 11))}")
    for _ in range(3):
        receiver = stream(f"SELECT id FROM STREAM {q}")
        receiver.more(0)
        receiver.close()
        wait_until(lambda: not sql.value(f"SELECT COUNT(*) FROM {q} WHERE time_next % 1000 IN (1, 3)"))
    assert sql.value(f"SELECT COUNT(*) FROM {q} WHERE time_next % 1000 = 2") == 10
    assert sql.value(f"SELECT MAX(epoch) FROM {q}") <= 2
    ((state, text),) = [row[1:] for row in sql.rows(f"EXPLAIN DELIVERY FOR {q} WHERE id = 10")]
    assert state == "no_subscriber" and "alone" in text
    seen = []
    while len(seen) < 10:
        (id_,) = sql.column(f"SELECT id FROM STREAM {q} LIMIT 20 WAIT 10")
        assert sql(f"ACK {q} %s", id_) == 1
        seen.append(id_)
    assert sorted(seen) == list(range(1, 11))


def test_a_message_that_is_held_alone_is_alone(sql, queue, stream, connect):
    q = queue("n INT", max_attempts=3, **SLOW)
    sql(f"INSERT INTO {q} (n) VALUES (1), (2)")
    lost = stream(f"SELECT id FROM STREAM {q}")
    assert sorted(row[0] for row in lost.wait(2)) == [1, 2]
    lost.close()
    wait_until(lambda: sql.value(f"SELECT COUNT(*) FROM {q} WHERE time_next % 1000 = 2") == 2)
    first, second = connect(), connect()
    assert first.column(f"SELECT id FROM STREAM {q} LIMIT 5 WAIT 10") == [1]
    sql(f"INSERT INTO {q} (n) VALUES (3)")
    assert first.column(f"SELECT id FROM STREAM {q} LIMIT 5 NOWAIT") == []
    got = [*second.column(f"SELECT id FROM STREAM {q} LIMIT 5 WAIT 10")]
    assert got in ([2], [3])
    assert first(f"ACK {q} 1") == 1
    assert first.column(f"SELECT id FROM STREAM {q} LIMIT 5 WAIT 10") in ([2], [3])


def test_a_renewed_lease_keeps_its_mark(sql, queue, stream):
    q = queue("n INT", max_attempts=3, **SLOW)
    sql(f"INSERT INTO {q} (n) VALUES (1), (2)")
    receiver = stream(f"SELECT id FROM STREAM {q}")
    receiver.wait(2)
    assert sql.column(f"SELECT time_next % 1000 FROM {q}") == [3, 3]
    assert sql(f"RENEW {q} 1 FOR '2h'") == 1
    assert sql.column(f"SELECT time_next % 1000 FROM {q}") == [3, 3]
    sql(f"NACK {q} 1 DELAY 3600")
    assert sql.value(f"SELECT time_next % 1000 FROM {q} WHERE id = 1") == 0


def test_leases_that_run_out_beside_others_do_not_count(sql, queue, stream):
    q = queue("n INT", max_attempts=2, ack_wait="'1s'", min_backoff="0", max_backoff="'1s'")
    sql(f"INSERT INTO {q} (n) VALUES (1), (2), (3)")
    receiver = stream(f"SELECT id, epoch FROM STREAM {q}")
    receiver.wait(3)
    assert {row[1] for row in receiver.rows[:3]} == {1}
    fourth = receiver.wait(4)[3]
    assert fourth[1] == 1, "the lease before was held beside others"
    assert sql(f"ACK {q} 1, 2, 3") == 3
