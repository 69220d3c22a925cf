"""Micro-batches with a bound in bytes, and where a tail begins by time."""

from __future__ import annotations

import pytest
from spark_stand_in import Checkpoint

from spark_connector.errors import OptionError, QueueError
from spark_connector.options import stream_read
from spark_connector.streaming import sizes

MODES = [{"mode": "queue"}, {"mode": "tail", "startingOffsets": "earliest"}]
DAY_NS = 86_400_000_000_000
AT = {"user": "root", "database": "d", "queue": "q"}


def fill(sql, name: str, *lengths: int) -> None:
    sql(
        f"INSERT INTO {name} (payload) VALUES {', '.join(f'(REPEAT(%s, {n}))' for n in lengths)}", *["é"] * len(lengths)
    )


@pytest.mark.parametrize("options", MODES, ids=lambda options: options["mode"])
@pytest.mark.parametrize("at_once", [200, 2])
def test_a_micro_batch_has_no_more_bytes_than_that(begin, sql, queue, options, at_once, monkeypatch):
    """Each "é" is two bytes, each id counts as eight. A message that is too large for any is one by itself."""
    monkeypatch.setattr(sizes, "_AT_ONCE", at_once)
    name = queue("payload MEDIUMTEXT")
    fill(sql, name, 100, 100, 100, 5000, 1, 1, 100, 400)
    sql(f"INSERT INTO {name} (payload) VALUES (NULL)")
    query = begin(name, maxBytesPerTrigger=630, **options)
    assert [len(rows) for rows in batches(query)] == [3, 1, 3, 1, 1]


def batches(query) -> list:
    found = []
    while rows := query.batch():
        found.append(rows)
    return found


@pytest.mark.parametrize("options", MODES, ids=lambda options: options["mode"])
def test_all_there_is_has_no_bound(begin, sql, queue, options):
    """trigger(once=True), as with every source."""
    name = queue("payload MEDIUMTEXT")
    fill(sql, name, 100, 100, 100)
    query = begin(name, limit=None, maxBytesPerTrigger="100", **options)
    assert len(query.batch()) == 3


def test_a_bound_in_bytes_reaches_over_several_claims(begin, sql, queue, monkeypatch):
    monkeypatch.setattr("spark_connector.streaming.consumer.CLAIM_MAX", 2)
    name = queue("payload MEDIUMTEXT")
    fill(sql, name, *[46] * 12)
    query = begin(name, maxBytesPerTrigger="500b")  # five messages of 100 bytes
    assert [len(rows) for rows in batches(query)] == [5, 5, 2]
    assert sql.value(f"SELECT COUNT(*) FROM {name} WHERE time_acked IS NULL") == 0


def test_what_the_proxys_own_delivery_leases_beyond_the_bound_is_given_back_uncounted(begin, sql, queue):
    name = queue("k INT, payload MEDIUMTEXT", order_key="'k'")
    sql(f"INSERT INTO {name} (k, payload) VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    query = begin(name, maxBytesPerTrigger=18)
    assert [len(rows) for rows in batches(query)] == [2, 2]
    assert sql.column(f"SELECT DISTINCT epoch FROM {name}") == [1]


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("500000", 500_000), ("64k", 65536), ("10m", 10 << 20), ("1G", 1 << 30), ("2mb", 2 << 20)],
)
def test_sizes(text, size):
    assert stream_read({**AT, "maxBytesPerTrigger": text}).max_bytes == size
    assert stream_read(AT).max_bytes is None


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5m", "m", "10 apples", "1kk"])
def test_what_is_no_size(text):
    with pytest.raises(OptionError, match="maxBytesPerTrigger"):
        stream_read({**AT, "maxBytesPerTrigger": text})


# --- where a tail begins


def test_a_tail_begins_at_a_time(begin, sql, queue):
    name = queue()
    sql(f"INSERT INTO {name} (payload) VALUES ('old'), ('new'), ('newer')")
    now = int(sql.value(f"SELECT MAX(time_created) FROM {name}"))
    sql(f"UPDATE {name} SET time_created = {now - 2 * DAY_NS} WHERE payload = 'old'")
    at = (now - DAY_NS) // 1_000_000
    checkpoint = Checkpoint()
    query = begin(name, checkpoint, mode="tail", startingTimestamp=at)
    assert [payload for _, payload in query.batch()] == ["new", "newer"]
    later = begin(name, mode="tail", startingTimestamp=(now + DAY_NS) // 1_000_000)
    assert later.batch() == []
    sql(f"INSERT INTO {name} (payload) VALUES ('next')")
    assert [payload for _, payload in later.batch()] == ["next"], "nothing is that new: it begins behind what there is"
    assert [payload for _, payload in query.batch()] == ["next"]


def test_a_tail_of_a_table_that_does_not_tell_times_refuses_one(begin, sql, name):
    sql(
        f"CREATE TABLE {name} (id BIGINT AUTO_INCREMENT PRIMARY KEY, priority TINYINT, epoch BIGINT, time_next BIGINT,"
        " time_acked BIGINT, message VARCHAR(20), KEY due (time_acked, priority, time_next))"
        " COMMENT 'vitess_message,vt_ack_wait=30,vt_purge_after=86400,"
        "vt_batch_size=10,vt_cache_size=10000,vt_poller_interval=30'"
    )
    with pytest.raises(QueueError, match="startingTimestamp"):
        begin(name, columns="id, message", mode="tail", startingTimestamp=1_700_000_000_000).plan()
    sql(f"DROP QUEUE {name}")


def test_a_time_in_seconds_is_refused():
    with pytest.raises(OptionError, match="milliseconds"):
        stream_read({**AT, "mode": "tail", "startingTimestamp": "1700000000"})
    with pytest.raises(OptionError, match="startingOffsets and startingTimestamp"):
        stream_read({**AT, "mode": "tail", "startingTimestamp": "1700000000000", "startingOffsets": "latest"})
    with pytest.raises(OptionError, match="no meaning"):
        stream_read({**AT, "startingTimestamp": "1700000000000"})
