"""The option `filter` of groups, and WHERE of a broadcast: what a reader gets of its topic (docs/topics.md)."""

from __future__ import annotations

import pytest
from servers import wait_until

pytestmark = pytest.mark.no_proxy_accounts


@pytest.fixture
def topic(topic):
    """Makes topics of (n INT, body VARCHAR(100)), with groups of these filters."""

    def make(**filters):
        texts = {group: condition.replace("'", "''") for group, condition in filters.items()}
        clauses = {group: f"WITH (filter = '{text}')" for group, text in texts.items()}
        return topic("n INT, body VARCHAR(100)", **clauses)

    return make


def drained(sql, t, group):
    return [row[0] for row in sql.rows(f"SELECT n FROM STREAM {t} WITH (group = '{group}') NOWAIT")]


def test_each_group_gets_what_its_filter_is_true_for(sql, topic):
    t = topic(large="n > 5", quoted="body = 'it''s'", none_of_null="body <> 'x'")
    sql(f"INSERT INTO {t} (n, body) VALUES (1, 'x'), (9, 'it''s'), (7, NULL), (NULL, 'y')")
    assert drained(sql, t, "large") == [9, 7]
    assert drained(sql, t, "quoted") == [9]
    assert drained(sql, t, "none_of_null") == [9, None]
    sql(f"ACK {t} WHERE n > 0 GROUP large")
    (group,) = [row for row in sql.rows(f"SHOW GROUPS ON {t}") if row[2] == "large"]
    assert group[6:8] == (4, 0), "what does not fit is read, and done"
    assert sql.value(f"SELECT COUNT(*) FROM {t}_group_large") == 0


def test_a_message_that_fits_is_pushed_past_many_that_do_not(sql, topic, stream):
    t = topic(rare="body = 'this'")
    receiver = stream(f"SELECT n FROM STREAM {t} WITH (group = 'rare')")
    for start in range(0, 3000, 500):
        sql(f"INSERT INTO {t} (n, body) VALUES {', '.join(f'({n}, 0)' for n in range(start, start + 500))}")
    sql(f"INSERT INTO {t} (n, body) VALUES (-1, 'this')")
    assert receiver.wait(1) == [(-1,)]


def test_a_filter_is_changed_and_ended(sql, topic):
    t = topic(billing="n = 1")
    sql(f"INSERT INTO {t} (n) VALUES (1), (2)")
    assert drained(sql, t, "billing") == [1]
    sql(f"ALTER GROUP billing ON {t} SET (filter = 'n = 2')")
    sql(f"INSERT INTO {t} (n) VALUES (1), (2)")
    assert drained(sql, t, "billing") == [2]
    sql(f"ALTER GROUP billing ON {t} SET (filter = DEFAULT)")
    sql(f"INSERT INTO {t} (n) VALUES (3), (4)")
    assert drained(sql, t, "billing") == [3, 4]
    sql(f"ALTER GROUP billing ON {t} SET (filter = 'n < 3', order_key = 'n')")
    sql(f"ALTER GROUP billing ON {t} SEEK TO EARLIEST")
    assert sorted(drained(sql, t, "billing")) == [1, 2], "one of a key at a time"


@pytest.mark.parametrize(
    ("condition", "errno", "hint"),
    [
        ("nothing = 1", 1054, "nothing"),
        ("n > ?", 1235, "write the value"),
        ("n IN (SELECT id FROM other)", 1235, "subquer"),
        ("SLEEP(10) = n", 1235, "SLEEP"),
        ("n = 1) OR (1 = 1", 1064, ")"),
        ("n = 1; DROP TABLE x", 1235, ";"),
        ("n = ", 1064, ""),
        ("1 = 0", 1231, "names no column"),
        ("", 1231, "is not a condition"),
        ("n = " + "1" * 1500, 1231, "is not a condition"),
    ],
)
def test_what_is_no_condition_is_refused(sql, topic, condition, errno, hint):
    t = topic(billing="n = 1")
    for statement in (
        f"CREATE GROUP refused ON {t} WITH (filter = %s)",
        f"ALTER GROUP billing ON {t} SET (filter = %s)",
        f"ALTER QUEUE {t}_group_billing SET (filter = %s)",
    ):
        number, text = sql.error(statement, condition)
        assert (number, hint.lower() in text.lower()) == (errno, True), text
    assert [row[2] for row in sql.rows(f"SHOW GROUPS ON {t}")] == ["billing"]


def test_a_queue_has_no_such_option(sql):
    assert "consumer groups" in sql.error("CREATE QUEUE refused (n INT) WITH (filter = 'n = 1')")[1]


def test_a_group_whose_filter_no_longer_fits_its_topic_says_so(sql, topic, queue):
    t = topic(billing="n = 1")
    sql(f"ALTER TABLE {t} RENAME COLUMN n TO m")

    def problem():
        return sql.rows(f"SHOW GROUPS ON {t}")[0][-1]

    wait_until(lambda: "unknown column" in (problem() or "").lower())
    sql(f"ALTER TABLE {t} RENAME COLUMN m TO n")
    sql(f"INSERT INTO {t} (n) VALUES (1)")
    wait_until(lambda: drained(sql, t, "billing") == [1])


def test_a_broadcast_leaves_out_what_its_condition_is_not_true_for(sql, topic, stream):
    t = topic()
    reader = stream(f"SELECT n FROM STREAM {t} WHERE body = 'this' OR n = 0 WITH (mode = 'broadcast')")
    whole = stream(f"SELECT n FROM STREAM {t} WHERE n >= 3100 WITH (mode = 'broadcast', start = 'earliest') LIMIT 2")
    for start in range(0, 4000, 500):
        sql(f"INSERT INTO {t} (n, body) VALUES {', '.join(f'({n}, NULL)' for n in range(start, start + 500))}")
    sql(f"INSERT INTO {t} (n, body) VALUES (-1, 'this'), (-2, 'that'), (-3, 'this')")
    assert reader.wait(3) == [(0,), (-1,), (-3,)]
    assert whole.wait(2) == [(3100,), (3101,)]
    assert whole.wait_end() is None
    found = f"SELECT n FROM STREAM {t} WHERE n > %s LIMIT 3 WITH (mode = 'broadcast', start = 'earliest') NOWAIT"
    assert sql.rows(found, 3997) == [(3998,), (3999,)]
    assert sql.rows(found, 4000) == []


def test_a_message_that_stops_a_filter_is_told_of(sql, topic, place):
    condition, body = "n + 9223372036854775807 > 0", "x"
    if place == "embedded":  # which computes on
        condition, body = "JSON_EXTRACT(body, '$.a') = 1", "no JSON"
    t = topic(billing=condition)
    sql(f"INSERT INTO {t} (n, body) VALUES (1, '{body}')")

    def problem():
        return sql.rows(f"SHOW GROUPS ON {t}")[0][-1]

    assert "cannot be told of a message after offset 0" in problem()
    assert sql.error(f"SELECT n FROM STREAM {t} NOWAIT")[0] == (3141 if place == "embedded" else 1690)
    sql(f"ALTER GROUP billing ON {t} SET (filter = 'n = 1')")
    assert drained(sql, t, "billing") == [1]
    assert problem() is None


def test_a_column_of_a_group_that_its_topic_cannot_fill_is_told_of(sql, topic):
    t = topic(billing="n > 0")
    sql(f"ALTER TABLE {t}_group_billing ADD COLUMN seen_by INT NOT NULL")
    assert "without a default that its topic does not have: seen_by" in sql.rows(f"SHOW GROUPS ON {t}")[0][-1]
    sql(f"ALTER TABLE {t}_group_billing ALTER COLUMN seen_by SET DEFAULT 0")
    sql(f"INSERT INTO {t} (n) VALUES (1)")
    assert drained(sql, t, "billing") == [1]
    assert sql.rows(f"SHOW GROUPS ON {t}")[0][-1] is None
