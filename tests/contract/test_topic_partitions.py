"""Topics whose messages go by whole partitions (docs/topics.md). The embedded backend has none, and refuses them."""

from __future__ import annotations

import time

import pytest
from servers import NS, SERVER, Gate, Sql, wait_until

_DAY = 86400 * NS
_OLD = 8 * _DAY  # beyond seven days by less than two intervals: what a partition that stays keeps
_FIRST = ["p10000", "p20000", "p30000", "p40000"]
_WHOLE = "WITH (retain = '30d', partition = '1d')"

pytestmark = [pytest.mark.usefixtures("with_partitions"), pytest.mark.no_proxy_accounts, pytest.mark.on_mysql]


@pytest.fixture
def gate(shared_gate):
    """Looks at its topics ten times as often as by default."""
    return shared_gate(retention_period="500ms")


@pytest.fixture
def with_partitions(place, request):
    if SERVER == "galera":
        pytest.skip("topics have no partitions on a cluster: tests/galera has the refusal")
    if place == "embedded" and "refused" not in request.node.originalname:
        pytest.skip("the embedded backend has no partitions")
    if place == "proxy_accounts":
        pytest.skip("what is tested is done by the engine's account, wherever the clients' accounts are")


@pytest.fixture
def topic(topic):
    return lambda options=_WHOLE, **groups: topic("body VARCHAR(100)", options=options, **groups)


def numbers_of(count: int) -> str:
    """A table for FROM with so many rows, on MariaDB and MySQL alike."""
    return f"JSON_TABLE(CONCAT('[0', REPEAT(',0', {count - 1}), ']'), '$[*]' COLUMNS (n FOR ORDINALITY)) AS numbers"


def fill(sql: Sql, t: str, count: int, age_ns: int = _OLD) -> None:
    """Messages that were written so long ago."""
    at = time.time_ns() - age_ns
    sql(f"INSERT INTO {t} (body, time_created, time_scheduled) SELECT 'x', {at}, {at} FROM {numbers_of(count)}")


def partitions(sql: Sql, t: str) -> list[str]:
    asked = "SELECT PARTITION_NAME FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME"
    return sql.column(f"{asked} = %s ORDER BY PARTITION_ORDINAL_POSITION", t)


def groups(sql: Sql, t: str) -> dict[str, dict[str, object]]:
    return {group["group"]: group for group in sql.named(f"SHOW GROUPS ON {t}")}


def first_id(sql: Sql, t: str) -> int:
    return int(sql.value(f"SELECT MIN(id) FROM {t}"))


def problem(sql: Sql, t: str) -> str:
    return sql.named(f"SHOW TOPICS LIKE '{t}'")[0]["problem"] or ""


def go(sql: Sql, t: str, retain: str = "7d") -> None:
    """Let what is old be out of retention."""
    sql(f"ALTER TOPIC {t} SET (retain = '{retain}')")


def test_a_topic_is_made_with_partitions_and_they_are_made_ahead(sql, topic):
    t = topic("WITH (retain = '7d', partition = '1d')")
    assert partitions(sql, t)[:4] == _FIRST and partitions(sql, t)[-1] == "pmax"
    shown = sql.named(f"SHOW TOPICS LIKE '{t}'")[0]
    assert (shown["options"], shown["problem"]) == ("retain = 604800s, partition = 86400s", None)
    fill(sql, t, 35_000, age_ns=0)
    wait_until(lambda: "p80000" not in partitions(sql, t), what="partitions as wide as what the last day took")
    assert partitions(sql, t)[:4] == _FIRST
    assert sql.value(f"SELECT COUNT(*) FROM {t}") == 35_000
    sql(f"INSERT INTO {t} (body) VALUES ('next')")
    assert sql.value(f"SELECT MAX(id) FROM {t}") == 35_001


def test_old_messages_go_by_partitions_and_each_group_loses_what_it_had_not_read(sql, topic):
    t = topic(slow="START AT EARLIEST", quick="START AT EARLIEST", idle="")
    fill(sql, t, 25_000)
    fill(sql, t, 10, age_ns=0)
    assert len(sql.rows(f"SELECT id FROM STREAM {t} LIMIT 100 WITH (group = 'quick')")) == 100
    sql(f"CREATE GROUP new ON {t}")
    read = {name: int(str(group["offset"])) for name, group in groups(sql, t).items()}
    assert read["slow"] == read["idle"] == 0 and 100 <= read["quick"] < 10_000
    go(sql, t)
    wait_until(lambda: first_id(sql, t) == 20_000, what="two partitions to go")
    lost = {name: group["lost"] for name, group in groups(sql, t).items()}
    assert lost == {"slow": 19_999, "quick": 19_999 - read["quick"], "idle": 19_999, "new": 0}
    assert partitions(sql, t)[0] == "p30000", "what is young is kept, and so is all of its partition"
    for group in ("slow", "idle"):
        assert sql.rows(f"SELECT id FROM STREAM {t} LIMIT 1 WITH (group = '{group}')") == [(20_000,)]
    taken = sql.column(f"SELECT id FROM STREAM {t} LIMIT 3 WITH (group = 'quick')")
    assert all(id_ > 100 for id_ in taken), "it keeps what it has read"


def test_a_group_that_is_to_have_everything_keeps_its_partition(sql, topic):
    t = topic(safe="START AT EARLIEST WITH (retain = 'until_consumed')", other="START AT EARLIEST")
    beside = topic()
    for each in (t, beside):
        fill(sql, each, 10_000)
        fill(sql, each, 1, age_ns=0)
        go(sql, each)
    wait_until(lambda: first_id(sql, beside) == 10_000)
    assert first_id(sql, t) == 1
    sql(f"ALTER GROUP safe ON {t} SEEK TO OFFSET 9999")
    assert sql.rows(f"SELECT id FROM STREAM {t} LIMIT 1 WITH (group = 'safe')") == [(9_999,)]
    sql(f"INSERT INTO {beside} (body) VALUES (1)")
    assert first_id(sql, t) == 1, "it has that message, and has not done it"
    sql(f"ACK {t} 9999 GROUP safe")
    wait_until(lambda: first_id(sql, t) == 10_000)
    assert {name: group["lost"] for name, group in groups(sql, t).items()} == {"safe": 0, "other": 9_999}


def grow_old(sql: Sql, t: str, id_: int) -> None:
    """Let a message be out of retention."""
    at = time.time_ns() - _OLD
    sql(f"UPDATE {t} SET time_created = {at}, time_scheduled = {at} WHERE id = {id_}")


def test_a_transaction_that_is_open_is_waited_for_and_what_it_commits_is_counted(sql, connect, topic):
    t = topic("WITH (retain = '7d', partition = '1d')", g="START AT EARLIEST", done="START AT EARLIEST")
    writer = connect()
    at = time.time_ns() - _OLD
    late = f"INSERT INTO {t} (body, time_created, time_scheduled) VALUES ('late', {at}, {at})"
    writer("BEGIN")
    writer(late)
    sql(f"INSERT INTO {t} (body) VALUES ('young, so that the partition stays at first')")
    fill(sql, t, 5_000)
    writer(late)
    failing = connect()
    failing("BEGIN")
    failing(late)
    failing("ROLLBACK")
    fill(sql, t, 10_000)
    sql(f"ALTER GROUP done ON {t} SEEK TO OFFSET 3001")
    found = sql.value(f"SELECT COUNT(*) FROM {t} WHERE id < 10000") + 2
    grow_old(sql, t, 2)
    began = time.monotonic()
    while time.monotonic() - began < 2:  # the table is asked for, and let go; writers go on meanwhile
        sql(f"INSERT INTO {t} (body) VALUES ('meanwhile')")
    assert first_id(sql, t) == 2 and "p10000" in partitions(sql, t)
    writer("COMMIT")
    wait_until(lambda: first_id(sql, t) >= 10_000, 40, "the partition to go")
    assert {name: group["lost"] for name, group in groups(sql, t).items()} == {"g": found, "done": found - 3_000}


def test_what_is_committed_late_and_is_young_keeps_its_partition(sql, connect, topic):
    t, beside = (topic("WITH (retain = '7d', partition = '1d')", g="START AT EARLIEST") for _ in range(2))
    writer = connect()
    writer("BEGIN")
    writer(f"INSERT INTO {t} (body) VALUES ('late and young')")
    fill(sql, t, 11_000)
    writer("COMMIT")
    fill(sql, beside, 11_000)
    wait_until(lambda: first_id(sql, beside) == 10_000)
    assert (first_id(sql, t), groups(sql, t)["g"]["lost"]) == (1, 0)
    grow_old(sql, t, 1)
    wait_until(lambda: first_id(sql, t) == 10_000, 60)
    assert groups(sql, t)["g"]["lost"] == 9_999


def test_rows_beyond_retain_rows_go_by_partitions(sql, topic):
    t = topic("WITH (retain_rows = 5000, partition = '1h')", g="START AT EARLIEST")
    fill(sql, t, 14_000, age_ns=0)
    sql.rows(f"SELECT id FROM STREAM {t} LIMIT 1 WITH (group = 'g')")
    read = int(str(groups(sql, t)["g"]["offset"]))
    fill(sql, t, 2_000, age_ns=0)
    wait_until(lambda: first_id(sql, t) == 10_000)
    assert groups(sql, t)["g"]["lost"] == 9_999 - read


def test_what_stays_too_long_in_a_partition_goes_row_by_row(sql, topic):
    t = topic(g="START AT EARLIEST")
    fill(sql, t, 500, age_ns=10 * _DAY)
    fill(sql, t, 500)
    go(sql, t)
    wait_until(lambda: first_id(sql, t) == 501)
    assert partitions(sql, t)[0] == "p10000"
    assert groups(sql, t)["g"]["lost"] == 500


def test_a_table_that_its_user_has_partitioned(sql, topic):
    t = topic("WITH (retain = '30d')", g="START AT EARLIEST")
    fill(sql, t, 50, age_ns=10 * _DAY)
    errno, text = sql.error(f"ALTER TOPIC {t} SET (partition = '1d')")
    assert errno == 1235
    statement = text[text.index("ALTER TABLE") :]
    assert statement.endswith("(10050), PARTITION `pmax` VALUES LESS THAN (MAXVALUE))"), statement
    theirs = "PARTITION a VALUES LESS THAN (40), PARTITION P10070 VALUES LESS THAN (70)"
    sql(f"ALTER TABLE {t} PARTITION BY RANGE (id) ({theirs})")
    sql(f"ALTER TOPIC {t} SET (partition = '1d', retain = '7d')")
    wait_until(lambda: partitions(sql, t)[0] == "P10070")
    wait_until(lambda: partitions(sql, t)[-1] == "pmax", what="the proxy to go on where its user ended")
    assert partitions(sql, t)[:3] == ["P10070", "p10070_", "p20070"]
    wait_until(lambda: not sql.value(f"SELECT COUNT(*) FROM {t}"), what="the others to go row by row")
    sql(f"ALTER TOPIC {t} SET (partition = NULL)")
    assert partitions(sql, t)[0] == "P10070" and groups(sql, t)["g"]["lost"] == 50


def test_the_last_partition_is_divided_with_a_copy_or_not_at_all(sql, topic):
    whole = "PARTITION BY RANGE (id) (PARTITION mine VALUES LESS THAN MAXVALUE)"
    few, many = topic("WITH (retain = '30d')"), topic("WITH (retain = '30d')", g="START AT EARLIEST")
    fill(sql, few, 100)
    fill(sql, many, 10_001)
    for t in (few, many):
        sql(f"ALTER TABLE {t} {whole}")
        sql(f"ALTER TOPIC {t} SET (partition = '1d')")
    wait_until(lambda: len(partitions(sql, few)) > 1)
    assert sql.value(f"SELECT COUNT(*) FROM {few} PARTITION ({partitions(sql, few)[0]})") == 100
    assert partitions(sql, few)[-1] == "mine"
    wait_until(lambda: "no room ahead" in problem(sql, many))
    text = problem(sql, many)
    assert partitions(sql, many) == ["mine"]
    go(sql, many)
    wait_until(lambda: len(partitions(sql, many)) > 1 and not problem(sql, many), what="few of them to be left")
    wait_until(lambda: 0 < groups(sql, many)["g"]["lost"] == 10_001 - sql.value(f"SELECT COUNT(*) FROM {many}"))
    assert "REORGANIZE PARTITION `mine` INTO" in text


def test_a_right_that_is_missing_is_told_and_messages_go_row_by_row(server_here, place, request, tmp_path):
    database = f"rights_{place}"
    server_here.fresh_database(database)
    with server_here.connect() as connection, connection.cursor() as cursor:
        cursor.execute("DROP USER IF EXISTS partly@'127.0.0.1'")
        cursor.execute("CREATE USER partly@'127.0.0.1' IDENTIFIED BY 'x'")
        cursor.execute(
            f"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, LOCK TABLES ON {database}.* TO partly@'127.0.0.1'"
        )
        cursor.execute("GRANT PROCESS ON *.* TO partly@'127.0.0.1'")
    url = server_here.url(database).replace("root@", "partly:x@")
    gate = Gate(url, tmp_path, database=database, retention_period="500ms").start()
    request.addfinalizer(gate.stop)
    sql = Sql(gate.connect())
    sql(f"CREATE TOPIC t (body VARCHAR(9)) {_WHOLE}")
    sql("CREATE GROUP g ON t START AT EARLIEST")
    fill(sql, "t", 10_100)
    go(sql, "t")
    wait_until(lambda: groups(sql, "t")["g"]["lost"] == 10_100, 60, "messages to go row by row")
    assert "error 1142, which the log explains" in problem(sql, "t")
    with server_here.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"GRANT DROP ON {database}.t TO partly@'127.0.0.1'")
    sql("INSERT INTO t (body) VALUES (1)")
    wait_until(lambda: partitions(sql, "t")[0] == "p20000" and not problem(sql, "t"), 40, "the partition to go")
    sql.close()


@pytest.mark.parametrize(
    ("columns", "options", "hint"),
    [
        ("", "partition = '59s', retain = '7d'", "at least 1m"),
        ("", "partition = '10m', retain = '7d'", "more than 1000"),
        ("", "partition = '1d'", "only with retain"),
        ("", "partition = '1d', retain = '7d', compact = 'body'", "a topic with compact has none"),
        (", FOREIGN KEY (body) REFERENCES other (id)", "partition = '1d', retain = '7d'", "no foreign keys"),
        (", x INT REFERENCES other (id)", "partition = '1d', retain = '7d'", "no foreign keys"),
        (", UNIQUE KEY (body)", "partition = '1d', retain = '7d'", "UNIQUE INDEX must include"),
    ],
)
def test_what_cannot_have_partitions_is_refused(sql, place, columns, options, hint):
    errno, text = sql.error(f"CREATE TOPIC refused (body INT{columns}) WITH ({options})")
    if place == "embedded" and errno == 1235 and "foreign" not in hint:
        hint = "the embedded database has no partitions"
    assert errno in (1231, 1235, 1503), text
    assert hint in text
    assert "refused" not in sql.column("SHOW TOPICS")


def test_on_the_embedded_backend_it_is_refused(sql, place, topic):
    t = topic("WITH (retain = '7d')")
    if place == "embedded":
        for statement in (
            f"CREATE TOPIC refused (body INT) {_WHOLE}",
            f"ALTER TOPIC {t} SET (partition = '1d')",
        ):
            assert sql.error(statement)[0] == 1235
    assert sql.named(f"SHOW TOPICS LIKE '{t}'")[0]["options"] == "retain = 604800s"
