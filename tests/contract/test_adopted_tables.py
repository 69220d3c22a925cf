"""Tables that say of themselves that they are queues: Vitess's layouts, incomplete ones, changed options."""

from __future__ import annotations

import time

import pytest
from servers import NS, wait_until

pytestmark = pytest.mark.no_proxy_accounts

KEYS = "vt_ack_wait=30,vt_purge_after=86400,vt_batch_size=10,vt_cache_size=100,vt_poller_interval=30"

CURRENT = """CREATE TABLE {name} (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, priority TINYINT NOT NULL DEFAULT 50, epoch BIGINT NOT NULL DEFAULT 0,
  time_next BIGINT DEFAULT 0, time_acked BIGINT DEFAULT NULL, tenant_id BIGINT, message JSON,
  KEY due (time_acked, priority, time_next)) COMMENT 'vitess_message,{keys}'"""

FIRST = """CREATE TABLE {name} (
  time_scheduled BIGINT NOT NULL, id BIGINT NOT NULL, time_next BIGINT, epoch BIGINT, time_created BIGINT,
  time_acked BIGINT, message VARCHAR(128), PRIMARY KEY (time_scheduled, id), UNIQUE KEY id_idx (id),
  KEY next_idx (time_next, epoch)) COMMENT 'vitess_message,{keys}'"""


def test_vitess_current_layout_is_a_queue(sql, name, stream):
    sql(CURRENT.format(name=name, keys=KEYS))
    assert name in sql.column("SHOW QUEUES")
    receiver = stream(f"SELECT * FROM STREAM {name}")
    assert receiver.columns == ["id", "tenant_id", "message"]
    assert sql(f"INSERT INTO {name} (tenant_id, message) VALUES (7, '{{\"a\": 1}}')") == 1
    ((identity, tenant, message),) = receiver.wait(1)
    assert (identity, tenant) == (1, 7)
    assert message.replace(" ", "") == '{"a":1}'
    assert sql(f"UPDATE {name} SET time_acked = %s, time_next = NULL WHERE id = 1 AND time_acked IS NULL", 123) == 1
    assert sql(f"ACK {name} 1") == 0
    sql(f"DROP QUEUE {name}")


def test_vitess_first_layout_is_a_queue(sql, name, stream):
    sql(FIRST.format(name=name, keys=KEYS))
    now = time.time_ns()
    receiver = stream(f"SELECT id, message FROM STREAM {name}")
    insert = (
        f"INSERT INTO {name} (time_scheduled, id, time_next, epoch, time_created, message)"
        " VALUES (%s, %s, %s, 0, %s, 'm')"
    )
    sql(insert, now, 5, now, now)
    assert receiver.wait(1) == [(5, "m")]
    lease = sql.value(f"SELECT time_next FROM {name}")
    assert (
        now + 30 * NS <= lease <= time.time_ns() + 30 * NS
    )  # ack_wait doubled each time: the first is ack_wait itself
    assert sql(f"ACK {name} 5") == 1
    sql(f"DROP QUEUE {name}")


def test_a_reason_that_cannot_be_kept_is_dropped_with_a_warning(sql, name):
    sql(CURRENT.format(name=name, keys=KEYS))
    sql(f"INSERT INTO {name} (id, message) VALUES (1, '1'), (2, '2')")
    assert sorted(sql.column(f"SELECT id FROM STREAM {name} LIMIT 2")) == [1, 2]
    assert sql(f"NACK {name} 1, 2 DELAY 60 REASON 'late'") == 2
    ((level, _, text),) = sql.rows("SHOW WARNINGS")
    assert level == "Warning" and "first_error" in text and "last_error" in text
    sql(text[text.index("ALTER TABLE") : text.index(" would keep it")])
    assert sql(f"NACK {name} 1 DELAY 60 REASON 'late'") == 1
    assert sql.rows("SHOW WARNINGS") == []
    assert sql.row(f"SELECT first_error, last_error FROM {name} WHERE id = 1") == ("late", "late")
    assert sql.rows(f"SELECT * FROM STREAM {name} LIMIT 1 NOWAIT") == []
    sql(f"DROP QUEUE {name}")


def test_the_verbs_know_the_first_layout(sql, name):
    sql(FIRST.format(name=name, keys=KEYS))
    now = time.time_ns()
    columns = "(time_scheduled, id, time_next, epoch, time_created, message)"
    sql(f"INSERT INTO {name} {columns} VALUES ({now}, 1, {now}, 0, {now}, 'a'), ({now}, 2, NULL, NULL, {now}, 'b')")
    assert sql(f"NACK {name} 1, 2") == 0
    assert sorted(sql.column(f"SELECT id FROM STREAM {name} LIMIT 2")) == [1, 2]
    assert sql(f"RENEW {name} 1 FOR '1h'") == 1
    assert sql(f"RELEASE {name} 2") == 1
    assert sql.rows(f"SELECT id, epoch FROM STREAM {name} LIMIT 1 WAIT 10") == [(2, 1)]
    assert sql(f"NACK {name} 2") == 1
    until = sql.value(f"SELECT time_next FROM {name} WHERE id = 2")
    assert now + 30 * NS <= until <= time.time_ns() + 30 * NS  # ack_wait, doubled with each delivery
    assert sql(f"NACK {name} 2 DELAY 0") == 1
    assert sql.rows(f"SELECT id, epoch FROM STREAM {name} LIMIT 1 WAIT 10") == [(2, 2)]
    sql(f"DROP QUEUE {name}")


def test_dropping_the_table_ends_its_streams(sql, name, stream):
    sql(CURRENT.format(name=name, keys=KEYS))
    receiver = stream(f"SELECT * FROM STREAM {name}")
    sql(f"DROP QUEUE {name}")
    error = receiver.wait_end()
    assert error is not None
    assert error.args[0] == 1146
    assert name not in sql.column("SHOW QUEUES")


@pytest.mark.parametrize(
    "missing", ["vt_ack_wait", "vt_purge_after", "vt_batch_size", "vt_cache_size", "vt_poller_interval"]
)
def test_a_missing_key_is_named(sql, name, missing):
    keys = ",".join(part for part in KEYS.split(",") if not part.startswith(missing))
    sql(CURRENT.format(name=name, keys=keys))
    errno, text = sql.error(f"SELECT * FROM STREAM {name} LIMIT 1 NOWAIT")
    assert errno in (1231, 1347)
    assert missing in text
    listed = {row[0]: row for row in sql.rows("SHOW QUEUES")}
    assert missing in str(listed[name][-1])
    sql(f"DROP TABLE {name}")


@pytest.mark.parametrize("column", ["priority TINYINT NOT NULL DEFAULT 50", "epoch BIGINT NOT NULL DEFAULT 0"])
def test_a_missing_column_is_named(sql, name, column):
    text = (
        CURRENT.replace(f"{column}, ", "")
        .replace(f" {column},", "")
        .replace("(time_acked, priority, time_next)", "(time_next)")
    )
    assert column not in text
    sql(text.format(name=name, keys=KEYS))
    errno, message = sql.error(f"SELECT * FROM STREAM {name} LIMIT 1 NOWAIT")
    assert errno in (1231, 1347)
    assert column.split()[0] in message
    assert sql(f"INSERT INTO {name} (tenant_id) VALUES (1)") == 1  # it is still a table
    sql(f"DROP TABLE {name}")


def test_a_changed_comment_takes_effect_while_streams_go_on(sql, queue, stream):
    q = queue(ack_wait="'50s'", min_backoff="'ack_wait'", max_backoff="'2h'")
    receiver = stream(f"SELECT id, time_next FROM STREAM {q}")
    sql(f"INSERT INTO {q} (payload) VALUES ('a')")
    first = receiver.wait(1)[0][1] - time.time_ns()
    assert 95 * NS < first <= 50 * NS + 50 * NS * 4 // 3
    comment = sql.value(
        f"SELECT table_comment FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = '{q}'"
    )
    assert "vt_ack_wait=50" in comment
    changed = comment.replace("vt_ack_wait=50", "vt_ack_wait=500")
    sql(f"ALTER TABLE {q} COMMENT = '{changed}'")
    sql(f"INSERT INTO {q} (payload) VALUES ('b')")
    rows = wait_until(lambda: receiver.rows[1:], what="the next message on the same stream")
    assert rows[0][0] == 2
    assert rows[0][1] - time.time_ns() > 900 * NS


def test_a_queue_made_into_a_table_is_none_any_more(sql, queue, stream):
    q = queue()
    receiver = stream(f"SELECT * FROM STREAM {q}")
    sql(f"ALTER TABLE {q} COMMENT = ''")
    assert receiver.wait_end() is not None
    assert sql.error(f"SELECT * FROM STREAM {q} LIMIT 1 NOWAIT")[0] == 1347
    assert q not in sql.column("SHOW QUEUES")
    sql(f"DROP TABLE {q}")


def test_a_renamed_queue_is_served_under_its_new_name(sql, queue):
    q = queue()
    sql(f"INSERT INTO {q} (payload) VALUES ('a')")
    sql(f"ALTER TABLE {q} RENAME TO {q}_r")
    assert sql.error(f"SELECT * FROM STREAM {q} LIMIT 1 NOWAIT")[0] == 1146
    assert sql.rows(f"SELECT id, payload FROM STREAM {q}_r LIMIT 1 NOWAIT") == [(1, "a")]
    sql(f"DROP QUEUE {q}_r")


def test_a_column_added_later_is_streamed(sql, queue):
    q = queue("a INT")
    sql(f"ALTER TABLE {q} ADD COLUMN b VARCHAR(10) DEFAULT 'new'")
    sql(f"INSERT INTO {q} (a) VALUES (1)")
    assert sql.rows(f"SELECT * FROM STREAM {q} LIMIT 1 NOWAIT") == [(1, 1, "new")]


def test_a_table_called_stream(sql, queue):
    sql("DROP TABLE IF EXISTS stream")
    sql("CREATE TABLE stream (id INT)")
    sql("INSERT INTO stream (id) VALUES (3)")
    assert sql.rows("SELECT * FROM stream") == [(3,)]
    assert sql.rows("SELECT s.id FROM stream s WHERE s.id = 3") == [(3,)]
    assert sql.rows("SELECT s.id FROM stream AS s") == [(3,)]
    sql("DROP TABLE stream")
