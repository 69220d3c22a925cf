"""alarm_after: messages that are leased for too long; and topics ranked by rate, size and lag."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from servers import wait_until

pytestmark = pytest.mark.no_proxy_accounts

HELD_LONG = "ack_wait = '1h', max_backoff = '2h', alarm_after = '1s'"
OPERATIONS = Path(__file__).resolve().parent.parent.parent / "docs" / "operations.md"


def test_a_message_held_too_long(sql, gate, queue, stream):
    q = queue("n INT", ack_wait="'1h'", max_backoff="'2h'", alarm_after="'1s'")
    assert "alarm_after = '1s'" in sql.row(f"SHOW CREATE QUEUE {q}")[1]
    asked = f"SELECT alarms FROM queuegate.queues WHERE queue = '{q}'"
    sql(f"INSERT INTO {q} (n) VALUES (1), (2)")
    receiver = stream(f"SELECT id FROM STREAM {q} WITH (consumer = 'slow one')")
    first, second = (row[0] for row in receiver.wait(2))
    wait_until(lambda: sql.value(asked) == 2, what="two alarms")
    told = re.findall(rf"{q}: leased for longer than alarm_after \(1 s\).*", gate.log)
    assert told and f"to connection {receiver.id} 'slow one'" in told[0]
    sql(f"ACK {q} {first}")
    wait_until(lambda: sql.value(asked) == 1, what="one alarm")
    sql(f"NACK {q} {second} DELAY '1h'")
    wait_until(lambda: sql.value(asked) == 0, what="no alarm")


def test_a_bounded_result_counts_and_the_option_may_be_changed(sql, queue):
    q = queue("n INT", ack_wait="'1h'", max_backoff="'2h'", alarm_after="'1s'")
    asked = f"SELECT alarms FROM queuegate.queues WHERE queue = '{q}'"
    sql(f"INSERT INTO {q} (n) VALUES (1)")
    assert len(sql.rows(f"SELECT id FROM STREAM {q} LIMIT 1 WAIT 20")) == 1
    wait_until(lambda: sql.value(asked) == 1, what="an alarm")
    sql(f"ALTER QUEUE {q} SET (alarm_after = 0)")
    wait_until(lambda: sql.value(asked) == 0, what="no alarm")
    assert sql.error(f"ALTER QUEUE {q} SET (alarm_after = 'soon')")[0] == 1231


def test_a_group_has_alarms_of_its_own(sql, topic, stream):
    t = topic(slow=f"START AT EARLIEST WITH ({HELD_LONG})", other="START AT EARLIEST")
    sql(f"INSERT INTO {t} (body) VALUES ('a')")
    stream(f"SELECT id FROM STREAM {t} WITH (group = 'slow')").wait(1)
    asked = f"SELECT group_name, alarms FROM queuegate.groups WHERE topic = '{t}' ORDER BY group_name"
    wait_until(lambda: sql.rows(asked) == [("other", 0), ("slow", 1)], what="an alarm")


def test_topics_are_ranked(sql, topic):
    """By the SELECT in docs/operations.md."""
    (ranking,) = re.findall(r"```sql\n(SELECT t\.db.*?);", OPERATIONS.read_text(), re.S)
    few, many = topic(g="START AT EARLIEST"), topic(g="START AT EARLIEST", h="")
    sql(f"INSERT INTO {few} (body) VALUES ('a')")
    sql(f"INSERT INTO {many} (body) VALUES ('a'), ('b'), ('c')")
    found = [(row[1], int(row[3]), int(row[5])) for row in sql.rows(ranking) if row[1] in (few, many)]
    assert found == [(many, 3, 3), (few, 1, 1)]
    by_lag = ranking.replace("ORDER BY t.last_minute DESC", "ORDER BY most_unread")
    assert [row[1] for row in sql.rows(by_lag) if row[1] in (few, many)] == [few, many]
