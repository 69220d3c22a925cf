"""Compaction: of a topic's messages with the same value of a column only the newest stays (docs/topics.md)."""

from __future__ import annotations

import pytest
from servers import NS, NUMBERED, Sql, topic_options, wait_until

pytestmark = pytest.mark.no_proxy_accounts

SECONDS = 90
"""By when: on a server each id is settled only once all transactions that were open beside it have ended."""


@pytest.fixture
def gate(shared_gate):
    """Looks at its topics ten times as often as by default, for most of these tests wait for it to have done so."""
    return shared_gate(retention_period="500ms")


@pytest.fixture
def topic(topic):
    """Makes topics with options, and groups."""

    def make(options, columns="k VARCHAR(20), body VARCHAR(20)", **groups):
        return topic(columns, options=options, **groups)

    return make


def shown(sql, statement):
    """The one row of a SHOW, by lower-case names."""
    (row,) = sql.named(statement)
    return row


def ids(sql, t):
    return sql.column(f"SELECT id FROM {t} ORDER BY id")


def fill(sql, t, *keys):
    for key in keys:
        sql(f"INSERT INTO {t} (k) VALUES (%s)", key)


def read(sql, t, group):
    return [row[0] for row in sql.rows(f"SELECT id FROM STREAM {t} WITH (group = '{group}') NOWAIT")]


def passes(sql, topic):
    """Return once all topics were looked at: another one was compacted, which is looked at after them."""
    t = topic("WITH (compact = 'k', compact_after = 0)", name="zz_beside")
    fill(sql, t, "x", "x")
    wait_until(lambda: ids(sql, t) == [2], SECONDS)


def test_only_the_newest_message_of_a_value_stays(sql, topic):
    t = topic("WITH (compact = 'K', compact_after = 0)", late="START AT EARLIEST", quick="START AT EARLIEST")
    fill(sql, t, "a", "b")
    assert read(sql, t, "quick") == [1, 2]
    fill(sql, t, "a", None, "c", None, "A", "b", "a")  # 'a' and 'A' are equal in the column's collation
    wait_until(lambda: ids(sql, t) == [4, 5, 6, 8, 9], SECONDS)
    assert read(sql, t, "late") == [4, 5, 6, 8, 9]
    sql(f"ACK {t} 1, 2 GROUP quick")  # what it had read it still has
    assert read(sql, t, "quick") == [4, 5, 6, 8, 9]
    for group in ("late", "quick"):
        assert shown(sql, f"SHOW GROUPS ON {t} LIKE '{group}'")["lost"] == 0
    fill(sql, t, "c", "a")
    wait_until(lambda: ids(sql, t) == [4, 6, 8, 10, 11], SECONDS)
    assert shown(sql, f"SHOW TOPICS LIKE '{t}'")["options"] == topic_options("compact = K, compact_after = 0s")


def test_more_than_one_batch_is_compacted(sql, topic):
    t = topic("WITH (compact = 'k', compact_after = 0)", columns="k INT", late="START AT EARLIEST")
    for _ in range(3):
        sql(f"INSERT INTO {t} (k) VALUES {', '.join(f'({number % 7})' for number in range(700))}")
    wait_until(lambda: ids(sql, t) == list(range(2094, 2101)), SECONDS)
    assert read(sql, t, "late") == list(range(2094, 2101))


def test_what_a_group_has_not_done_is_not_compacted(sql, topic):
    t = topic("WITH (compact = 'k', compact_after = 0)", safe="START AT EARLIEST WITH (retain = 'until_consumed')")
    fill(sql, t, "a", "b", "a", "a", "b")
    passes(sql, topic)
    assert ids(sql, t) == [1, 2, 3, 4, 5]
    assert read(sql, t, "safe") == [1, 2, 3, 4, 5]
    sql(f"ACK {t} 1, 2, 3, 5 GROUP safe")
    wait_until(lambda: ids(sql, t) == [2, 3, 4, 5], SECONDS)  # 4 is not done: what it supersedes stays with it
    sql(f"ACK {t} 4 GROUP safe")
    wait_until(lambda: ids(sql, t) == [4, 5], SECONDS)


def test_what_is_young_or_scheduled_neither_goes_nor_supersedes(sql, topic):
    young, later = topic("WITH (compact = 'k', compact_after = '1h')"), topic("WITH (compact = 'k', compact_after = 0)")
    now_ns = sql.value("SELECT CAST(UNIX_TIMESTAMP() * 1000000000 AS SIGNED)")
    for _ in range(3):
        sql(f"INSERT INTO {young} (k, time_created) VALUES ('a', {now_ns - 7200 * NS})")
    fill(sql, young, "a", "a")
    sql(f"INSERT INTO {later} (k, time_scheduled) VALUES ('a', {now_ns + 3600 * NS})")
    fill(sql, later, "a", "a", "b")
    sql(f"INSERT INTO {later} (k, time_scheduled) VALUES ('b', {now_ns + 3600 * NS})")
    wait_until(lambda: ids(sql, young) == [3, 4, 5], SECONDS)
    wait_until(lambda: ids(sql, later) == [1, 3, 4, 5], SECONDS)
    sql(f"ALTER TOPIC {young} SET (compact_after = DEFAULT)")  # a minute
    assert shown(sql, f"SHOW TOPICS LIKE '{young}'")["options"] == topic_options("compact = k")
    passes(sql, topic)
    assert (ids(sql, young), ids(sql, later)) == ([3, 4, 5], [1, 3, 4, 5])
    sql(f"ALTER TOPIC {young} SET (compact_after = '0s')")
    wait_until(lambda: ids(sql, young) == [5], SECONDS)


def test_compaction_is_changed_and_ended(sql, topic):
    t = topic("", columns="k INT, j INT, own INT, KEY own_index (own)")

    def indexes():
        return sorted(
            {row[2] for row in sql.rows(f"SHOW INDEX FROM {t}")} - {"PRIMARY", "queuegate_time", "queuegate_seq"}
        )

    sql(f"INSERT INTO {t} (k, j, own) VALUES (1, 1, 1), (1, 2, 1), (2, 2, 2)")
    sql(f"ALTER TOPIC {t} SET (compact = 'k', compact_after = 0, retain = '30d')")
    assert indexes() == ["own_index", "queuegate_compact"]
    wait_until(lambda: ids(sql, t) == [2, 3], SECONDS)
    sql(f"ALTER TABLE {t} DROP KEY queuegate_compact")
    wait_until(lambda: "there is no index on (`k`" in (shown(sql, f"SHOW TOPICS LIKE '{t}'")["problem"] or ""), SECONDS)
    sql(f"ALTER TOPIC {t} SET (compact = 'own')")
    assert indexes() == (["own_index", "queuegate_compact"] if NUMBERED else ["own_index"])
    assert shown(sql, f"SHOW TOPICS LIKE '{t}'")["problem"] is None
    sql(f"ALTER TOPIC {t} SET (compact = 'j')")
    assert indexes() == ["own_index", "queuegate_compact"]
    wait_until(lambda: ids(sql, t) == [3], SECONDS)
    sql(f"ALTER TOPIC {t} SET (compact = DEFAULT)")
    assert indexes() == ["own_index"]
    assert shown(sql, f"SHOW TOPICS LIKE '{t}'")["options"] == topic_options("retain = 2592000s")


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ("compact = 'nothing'", "'nothing' is not a column of the topic"),
        ("compact = 'id'", "is the topic's own column"),
        ("compact = 'Time_Created'", "is the topic's own column"),
        ("compact = 'long_text'", "has no whole index"),
        ("compact = ''", "is not a name"),
        ("compact_after = '1h'", "only with compact"),
        ("compact = 'k', compact_after = 'soon'", "is not a duration"),
        ("compact = DEFAULT, compact_after = 1", "only with compact"),
    ],
)
def test_bad_options_are_refused(sql, topic, options, hint):
    columns = "k INT, long_text TEXT"
    if "DEFAULT" not in options:
        number, text = sql.error(f"CREATE TOPIC refused ({columns}) WITH ({options})")
        assert (number, hint in text) == (1231, True), text
    t = topic("", columns=columns)
    number, text = sql.error(f"ALTER TOPIC {t} SET ({options})")
    assert (number, hint in text) == (1231, True), text
    assert shown(sql, f"SHOW TOPICS LIKE '{t}'")["options"] == topic_options("")


def test_transactions_beside_it(gate, sql, topic, place):
    """What is not committed supersedes nothing, and nothing that it may write is passed over. The embedded backend has
    one writer at a time."""
    if place == "embedded":
        pytest.skip("one writer at a time")
    t = topic("WITH (compact = 'k', compact_after = 0)", late="START AT EARLIEST")
    fill(sql, t, "a", "b", "c")
    writer = Sql(gate.connect())
    writer("BEGIN")
    fill(writer, t, "a")  # 4
    fill(sql, t, "b", "a", "c")  # 5, 6, 7
    assert read(sql, t, "late") == [1, 2, 3, 5, 6, 7]
    writer("COMMIT")
    assert read(sql, t, "late") == [4], "it was not passed over"
    newest = [4, 5, 7] if NUMBERED else [5, 6, 7]
    wait_until(lambda: ids(sql, t) == newest, SECONDS)
    writer.close()


def test_an_index_on_the_first_characters_does_not_serve(sql, gate, topic):
    """Values that begin alike would not be told apart."""
    t = topic("WITH (retain = '1h')")
    sql(f"ALTER TABLE {t} ADD KEY first_two (k(2))")
    sql(f"ALTER TOPIC {t} SET (compact = 'k', compact_after = 0)")
    columns = sql.rows(f"SHOW INDEX FROM {t} WHERE Key_name = 'queuegate_compact'")
    assert bool(columns) == (not gate.embedded), "the embedded backend has no prefix indexes: it keeps the whole value"
    fill(sql, t, "abc", "abd", "abc")
    wait_until(lambda: ids(sql, t) == [2, 3], SECONDS, "the first message to go")
