"""writeMode=staged over a real gate: nothing before the commit, all of it then, and nothing twice."""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import replace

import pyarrow as pa
import pytest
from cutter import Cutter, Moment
from servers import Gate, Sql, in_threads, wait_until
from write_calls import QUERY, append, batch, messages, micro_batch, options, stage_micro_batch, streaming, task

from spark_connector.client.reconnecting import ReconnectingClient
from spark_connector.errors import ConnectionFailed, WriteError
from spark_connector.writing import stage
from spark_connector.writing.batch_write import BatchWrite
from spark_connector.writing.publish_log import LOG

pytestmark = pytest.mark.long

COLUMNS = "n BIGINT, payload VARCHAR(20)"
KEYED = "n BIGINT UNIQUE, payload VARCHAR(20)"
DAY_NS = 86_400 * 10**9


def numbers(sql: Sql, queue: str) -> list[int]:
    return sql.column(f"SELECT n FROM {queue} ORDER BY id")


def stage_tables(sql: Sql) -> list[str]:
    return sql.column(
        "SELECT TABLE_NAME FROM information_schema.TABLES "
        "WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME LIKE 'queuegate\\_spark\\_stage\\_%%'"
    )


def staged_rows(sql: Sql) -> int:
    """In all stage tables."""
    return sum(sql.value(f"SELECT COUNT(*) FROM {table}") for table in stage_tables(sql))


def test_nothing_is_seen_before_the_commit_and_all_at_it(gate, sql, queue, stream):
    name = queue(COLUMNS)
    receiver = stream(f"SELECT n FROM STREAM {name}")
    before = staged_rows(sql)
    core = batch(gate, name, messages(0, 0))
    staged = [task(core, messages(first, 500)) for first in (0, 500)]
    assert sql.value(f"SELECT COUNT(*) FROM {name}") == 0
    assert receiver.rows == []
    core.commit(staged)
    assert sorted(receiver.wait(1000)) == [(number,) for number in range(1000)]
    assert staged_rows(sql) == before


def test_ids_follow_the_order_of_partitions_and_of_rows_in_them(gate, sql, queue, monkeypatch):
    monkeypatch.setattr(stage, "COPIED", 7)
    name = queue(COLUMNS)
    core = batch(gate, name, messages(0, 0), batchsize=10)
    later = task(core, messages(40, 40))  # the second partition is done first
    core.commit([task(core, messages(0, 40)), later])
    assert numbers(sql, name) == list(range(80))


def test_what_an_attempt_at_a_task_left_is_not_published(gate, sql, queue):
    name = queue(COLUMNS)
    core = batch(gate, name, messages(0, 0))
    task(core, messages(0, 30))  # speculative, or its executor was lost behind it
    core.commit([task(core, messages(0, 30)), task(core, messages(30, 0))])
    assert numbers(sql, name) == list(range(30))


def test_a_task_that_fails_takes_its_rows_back(gate, sql, queue):
    name = queue(COLUMNS)
    core = batch(gate, name, messages(0, 0))
    before = staged_rows(sql)

    def breaks():
        yield from messages(0, 100).to_batches()
        assert staged_rows(sql) == before + 100
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        core.write(breaks())
    assert staged_rows(sql) == before


def test_an_aborted_write_leaves_nothing(gate, sql, queue):
    name = queue(COLUMNS)
    core = batch(gate, name, messages(0, 0))
    before = staged_rows(sql)
    staged = [task(core, messages(0, 50))]
    core.abort(staged)
    assert (sql.value(f"SELECT COUNT(*) FROM {name}"), staged_rows(sql)) == (0, before)


def test_a_write_of_no_rows_is_recorded_where_it_has_a_name(gate, sql, queue):
    name = queue(COLUMNS)
    append(gate, name, messages(0, 0))
    assert sql.rows(f"SELECT * FROM {LOG} WHERE queue = %s", name) == []
    append(gate, name, messages(0, 0), txnAppId="empty", txnVersion=1)
    assert sql.rows(f"SELECT version, messages FROM {LOG} WHERE queue = %s", name) == [(1, 0)]
    append(gate, name, messages(0, 0), txnAppId="empty", txnVersion=1)
    with pytest.raises(WriteError, match="it was published before with 0: this is another write"):
        append(gate, name, messages(0, 5), txnAppId="empty", txnVersion=1)
    assert numbers(sql, name) == []
    append(gate, name, messages(0, 5), txnAppId="empty", txnVersion=2)
    assert numbers(sql, name) == list(range(5))


def test_staging_is_shared_by_writers_of_the_same_columns(gate, sql, queue):
    name = queue(COLUMNS)
    append(gate, name, messages(0, 10))
    made = set(stage_tables(sql))
    append(gate, name, messages(10, 10))
    assert set(stage_tables(sql)) == made
    append(gate, name, messages(20, 10).select(["n"]))
    assert len(set(stage_tables(sql)) - made) == 1
    assert numbers(sql, name) == list(range(30))


def test_a_queues_column_may_have_any_name(gate, sql, queue):
    name = queue("attempt INT, seq INT, `select` VARCHAR(9), `a b``c` INT, `%s` INT")
    append(gate, name, pa.table({"attempt": [1], "SEQ": [2], "Select": ["x"], "a b`c": [4], "%s": [5]}))
    assert sql.rows(f"SELECT attempt, seq, `select`, `a b``c`, `%s` FROM {name}") == [(1, 2, "x", 4, 5)]


def test_a_micro_batch_that_is_repeated_is_published_once(gate, sql, queue):
    name = queue(COLUMNS)
    before = staged_rows(sql)
    micro_batch(gate, name, 0, messages(0, 10))
    micro_batch(gate, name, 1, messages(10, 5), messages(15, 5))
    micro_batch(gate, name, 1, messages(10, 5), messages(15, 5))  # as after a crash before Spark's commit log
    micro_batch(gate, name, 0, messages(0, 0))
    micro_batch(gate, name, 2, messages(20, 10))
    assert numbers(sql, name) == list(range(30))
    assert staged_rows(sql) == before
    assert sql.rows(f"SELECT writer, version, messages FROM {LOG} WHERE queue = %s", name) == [
        (f"query:{QUERY}".encode(), 2, 10)
    ]


def test_queries_and_queues_are_told_apart(gate, sql, queue):
    one, two = queue(COLUMNS), queue(COLUMNS)
    for name, query in itertools.product((one, two), (QUERY, "other")):
        micro_batch(gate, name, 0, messages(0, 3), query=query)
    assert numbers(sql, one) == numbers(sql, two) == [0, 1, 2, 0, 1, 2]


def test_a_version_that_is_the_applications_last_is_skipped(gate, sql, queue):
    name = queue(COLUMNS)
    for first, version in ((0, 5), (0, 5), (10, 6), (10, 6), (20, 900)):
        append(gate, name, messages(first, 10), txnAppId="etl", txnVersion=version)
    append(gate, name, messages(0, 0), txnAppId="etl", txnVersion=4)
    append(gate, name, messages(25, 5), txnAppId="etl", txnVersion=900)  # rows of it are gone from its source
    assert numbers(sql, name) == list(range(30))


@pytest.mark.parametrize("below", [1, 2])
def test_a_micro_batch_below_the_last_one_with_rows_is_a_checkpoint_that_was_rolled_back(gate, sql, queue, below):
    name = queue(COLUMNS)
    before = staged_rows(sql)
    for number in range(4):
        micro_batch(gate, name, number, messages(10 * number, 10))
    with pytest.raises(WriteError, match=r"and number 3 of it was published before.*restored.*new checkpointLocation"):
        micro_batch(gate, name, 3 - below, messages(100, 7))
    assert numbers(sql, name) == list(range(40))
    assert staged_rows(sql) >= before, "what was staged goes when Spark says that the micro-batch is over"


def test_the_last_micro_batch_with_more_rows_than_it_had_is_another_one(gate, sql, queue):
    """As of a source with offsets (Kafka's) and a checkpoint that was rolled back by one micro-batch."""
    name = queue(COLUMNS)
    micro_batch(gate, name, 0, messages(0, 10))
    with pytest.raises(WriteError, match="has 30 rows, and it was published before with 10"):
        micro_batch(gate, name, 0, messages(0, 30))
    assert numbers(sql, name) == list(range(10))


def test_a_version_below_the_applications_last_with_rows_is_refused(gate, sql, queue):
    name = queue(COLUMNS)
    append(gate, name, messages(0, 10), txnAppId="etl", txnVersion=5)
    for version in (0, 4):
        with pytest.raises(WriteError, match=f"txnVersion {version} of txnAppId 'etl'.*another txnAppId"):
            append(gate, name, messages(10, 10), txnAppId="etl", txnVersion=version)
    assert numbers(sql, name) == list(range(10))


def test_applications_are_told_apart_to_the_character(gate, sql, queue):
    name = queue(COLUMNS)
    apps = ["etl", "ETL", "etl ", "été", "job:x", "🎉" * 128]
    for place, app in enumerate(apps):
        append(gate, name, messages(place, 1), txnAppId=app, txnVersion=1)
    assert numbers(sql, name) == list(range(len(apps)))


def test_writes_without_a_transaction_of_their_own_are_all_published(gate, sql, queue):
    name = queue(COLUMNS)
    append(gate, name, messages(0, 10))
    append(gate, name, messages(0, 10))
    assert numbers(sql, name) == [*range(10), *range(10)]


def test_two_that_publish_the_same_at_once_publish_it_once(gate, sql, queue):
    name = queue(COLUMNS)
    cores = [batch(gate, name, messages(0, 0), txnAppId="a", txnVersion=1) for _ in range(4)]
    staged = [[task(core, messages(0, 200))] for core in cores]
    in_threads(lambda core, rows: core.commit(rows), list(zip(cores, staged, strict=True)))
    assert numbers(sql, name) == list(range(200))


def test_tasks_that_stage_beside_each_other_and_beside_a_commit_are_in_nobodys_way(gate, sql, queue):
    name = queue(COLUMNS)

    def job(first: int) -> None:
        core = batch(gate, name, messages(0, 0), batchsize=50)
        parts = [messages(first + place * 400, 400) for place in range(3)]
        core.commit(in_threads(lambda part: task(core, part), [(part,) for part in parts]))

    in_threads(job, [(first,) for first in range(0, 4800, 1200)])
    assert sorted(numbers(sql, name)) == list(range(4800))


def test_a_job_that_fails_at_publishing_shows_nothing(gate, sql, queue):
    name = queue(KEYED)
    sql(f"INSERT INTO {name} (n) VALUES (70)")
    with pytest.raises(WriteError, match=r"Duplicate entry .*nothing of this write is published"):
        append(gate, name, messages(0, 50), messages(50, 50), txnAppId="a", txnVersion=1)
    assert numbers(sql, name) == [70]
    sql(f"DELETE FROM {name}")
    append(gate, name, messages(0, 50), messages(50, 50), txnAppId="a", txnVersion=1)  # it was not logged
    assert numbers(sql, name) == list(range(100))


def test_messages_that_are_there_by_their_key_are_passed_over(gate, sql, queue):
    name = queue(KEYED)
    append(gate, name, messages(5, 5), keyColumn="N")
    table = pa.table({"n": pa.array([*range(10), 3]), "payload": [f"again{n}" for n in [*range(10), 3]]})
    append(gate, name, table, keyColumn="n")
    assert sorted(sql.rows(f"SELECT n, payload FROM {name}")) == [
        *((n, f"again{n}") for n in range(5)), *((n, f"m{n}") for n in range(5, 10)),
    ]  # fmt: skip


def test_a_key_of_two_columns(gate, sql, queue):
    name = queue("a INT, b VARCHAR(5), payload VARCHAR(5), UNIQUE KEY both_of_them (b, a)")
    for payload in ("one", "two"):
        table = pa.table({"a": pa.array([1, 1, 2]), "b": ["x", "y", "x"], "payload": [payload] * 3})
        append(gate, name, table, keyColumn="a, b")
    assert sql.rows(f"SELECT a, b, payload FROM {name} ORDER BY id") == [
        (1, "x", "one"), (1, "y", "one"), (2, "x", "one"),
    ]  # fmt: skip


def test_a_key_that_is_null_fails_the_write(gate, sql, queue):
    name = queue(KEYED)
    with pytest.raises(WriteError, match=r"column n .* a key that tells one message from another cannot be"):
        append(gate, name, pa.table({"n": pa.array([1, None], pa.int64())}), keyColumn="n")
    assert numbers(sql, name) == []


@pytest.mark.parametrize("keyed", [False, True])
def test_rows_that_are_gone_from_the_stage_are_missed(gate, sql, queue, keyed):
    name = queue(KEYED)
    before = set(stage_tables(sql))
    core = batch(gate, name, messages(0, 0), **({"keyColumn": "n"} if keyed else {}))
    staged = [task(core, messages(0, 10))]
    (table,) = set(stage_tables(sql)) - before
    sql(f"DELETE FROM {table} WHERE n = 5")
    with pytest.raises(WriteError, match="staged are gone"):
        core.commit(staged)
    assert numbers(sql, name) == []


def test_what_the_dead_left_is_cleaned_by_whoever_writes_next(gate, sql, queue):
    one = queue(COLUMNS)
    before = set(stage_tables(sql))
    dead = batch(gate, one, messages(0, 0))
    (table,) = set(stage_tables(sql)) - before
    for days in (1, 3):
        sql(
            f"INSERT INTO {table} (queuegate_attempt, queuegate_seq, n) VALUES (%s, 0, 1), (%s, 1, 2)",
            *[stage.attempt(time.time_ns() - days * DAY_NS)] * 2,
        )
    now = time.time_ns()
    for writer, expires in (("query:gone", now - 1), ("query:here", now + DAY_NS)):
        sql(f"INSERT INTO {LOG} VALUES (%s, %s, 7, 1, 1, %s)", one, writer, expires)
    append(gate, one, messages(0, 5))
    assert sql.value(f"SELECT COUNT(*) FROM {table}") == 2  # of a day ago
    left = sql.column(f"SELECT writer FROM {LOG} WHERE queue = %s AND writer LIKE 'query:%%'", one)
    assert left == [b"query:here"]
    dead.abort([])


def test_a_log_row_is_kept_as_long_as_its_writer_may_come_back(gate, sql, queue):
    name = queue(COLUMNS)
    append(gate, name, messages(0, 1))
    micro_batch(gate, name, 0, messages(1, 1))
    kept = sql.rows(f"SELECT writer, time_expires - time_published FROM {LOG} WHERE queue = %s ORDER BY writer", name)
    assert [(writer[:4], age) for writer, age in kept] == [(b"job:", 2 * DAY_NS), (b"quer", 90 * DAY_NS)]


@pytest.fixture
def cutter(gate):
    """Between the connector and the gate."""
    between = Cutter(gate.port)
    yield between
    between.close()


def through(core: BatchWrite, port: int) -> BatchWrite:
    """The same write, committed over another port."""
    inner = core._sink
    inner._address = replace(inner._address, port=port)  # type: ignore[attr-defined]
    return core


LOST_AT = [
    (Moment.CUT_BEFORE, b"COMMIT", {}),
    (Moment.CUT_AFTER, b"COMMIT", {}),
    (Moment.CUT_BEFORE, b"COMMIT", {"txnAppId": "a", "txnVersion": 1}),
    (Moment.CUT_AFTER, b"COMMIT", {"txnAppId": "a", "txnVersion": 1}),
    (Moment.CUT_AFTER, b"INSERT INTO `queuegate_spark_log`", {}),
    (Moment.CUT_AFTER, b"SELECT `n`", {}),
    (Moment.CUT_BEFORE, b"UPDATE `queuegate_spark_log`", {}),
]


@pytest.mark.parametrize(
    ("moment", "text", "given"), LOST_AT, ids=[f"{m.name}-{t.decode()}-{len(given)}" for m, t, given in LOST_AT]
)
def test_a_connection_lost_while_publishing_loses_and_doubles_nothing(gate, sql, queue, cutter, moment, text, given):
    name = queue(COLUMNS)
    core = batch(gate, name, messages(0, 0), **given)
    staged = [task(core, messages(0, 100)), task(core, messages(100, 100))]
    cutter.arm(moment, text, without=b"nothing")
    through(core, cutter.port).commit(staged)
    assert cutter.fell.is_set()
    assert numbers(sql, name) == list(range(200))


def test_who_cannot_publish_in_time_says_where_to_look(gate, sql, queue, cutter, monkeypatch):
    monkeypatch.setattr("spark_connector.writing.sinks.PATIENCE_SECONDS", 0.3)
    name = queue(COLUMNS)
    core = batch(gate, name, messages(0, 0))
    staged = [task(core, messages(0, 10))]
    cutter.arm(Moment.CUT_BEFORE, b"COMMIT", without=b"nothing", times=1000)
    with pytest.raises(ConnectionFailed, match=rf"{LOG} tells: it has the row \({name}, job:"):
        through(core, cutter.port).commit(staged)
    assert numbers(sql, name) == []


def test_a_publication_that_takes_longer_than_patience_is_tried_again_all_the_same(gate, cutter):
    seconds = itertools.count(0, 1000)
    address = options(gate, "q", port=cutter.port).address
    line = ReconnectingClient(address, patience=1100, clock=lambda: next(seconds), sleep=lambda _: None)
    cutter.arm(Moment.CUT_AFTER, b"SELECT 17", without=b"nothing")
    assert line.run(lambda client: client.value("SELECT 17")) == 17
    cutter.arm(Moment.CUT_AFTER, b"SELECT 17", without=b"nothing", times=9)
    with pytest.raises(ConnectionFailed):
        line.run(lambda client: client.value("SELECT 17"))
    line.close()


def test_a_gate_killed_between_staging_and_publishing(new_gate):
    gate = new_gate().start()
    sql = Sql(gate.connect())
    sql(f"CREATE QUEUE q ({COLUMNS})")
    core = batch(gate, "q", messages(0, 0))
    staged = [task(core, messages(0, 100))]
    gate.kill()
    committing = threading.Thread(target=core.commit, args=(staged,), daemon=True)
    committing.start()
    gate.start()
    committing.join(30)
    assert numbers(Sql(gate.connect()), "q") == list(range(100))


def test_a_gate_killed_while_publishing(new_gate):
    gate: Gate = new_gate().start()
    sql = Sql(gate.connect())
    sql(f"CREATE QUEUE q ({KEYED})")
    core = batch(gate, "q", messages(0, 0))
    staged = [task(core, messages(0, 100))]
    sql("BEGIN")
    sql("INSERT INTO q (n) VALUES (99)")  # what the publication waits for
    committing = threading.Thread(target=core.commit, args=(staged,), daemon=True)
    committing.start()
    watch = Sql(gate.connect())
    wait_until(lambda: any("INSERT" in str(row[7]) for row in watch.rows("SHOW FULL PROCESSLIST")), 20, "it to wait")
    gate.kill()
    gate.start()
    committing.join(60)
    assert not committing.is_alive()
    again = Sql(gate.connect())
    assert numbers(again, "q") == list(range(100))
    assert again.value("SELECT COUNT(*) FROM queuegate_spark_log") == 1


def test_writers_wait_for_others_longer_than_the_embedded_backend_would(new_gate):
    gate: Gate = new_gate(limits={"lock_wait_timeout": 0.05}).start()
    holder, other = Sql(gate.connect()), Sql(gate.connect())
    holder(f"CREATE QUEUE q ({COLUMNS})")
    core = batch(gate, "q", messages(0, 0))
    holder("BEGIN")
    holder("INSERT INTO q (n) VALUES (-1)")
    writing = threading.Thread(target=lambda: core.commit([task(core, messages(0, 10))]), daemon=True)
    writing.start()
    if gate.embedded:
        for _ in range(30):
            assert other.error("INSERT INTO q (n) VALUES (-2)")[0] == 1205
    holder("COMMIT")
    writing.join(30)
    assert numbers(other, "q") == [-1, *range(10)]


def test_a_stream_is_committed_by_another_process_than_its_tasks(gate, sql, queue):
    name = queue(COLUMNS)
    before = staged_rows(sql)
    parts = [messages(0, 4), messages(4, 0), messages(4, 4)]
    staged = stage_micro_batch(gate, name, parts)
    streaming(gate, name, parts[0]).commit(staged, 0)
    streaming(gate, name, parts[0]).commit([], 1)  # a micro-batch without tasks
    assert numbers(sql, name) == list(range(8))
    aborted = stage_micro_batch(gate, name, parts)
    assert staged_rows(sql) == before + 8
    streaming(gate, name, parts[0]).abort(aborted, 2)
    assert staged_rows(sql) == before


def test_an_account_needs_no_right_to_make_tables_that_are_there(mariadb, gate, sql, queue):
    if gate.embedded:
        return  # its accounts are the proxy's
    name = queue(COLUMNS)
    append(gate, name, messages(0, 1))
    user = f"w_{name[-12:]}"
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE USER {user}@'%' IDENTIFIED BY ''")
        cursor.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {gate.database}.* TO {user}@'%'")
        append(gate, name, messages(1, 1), user=user)
        cursor.execute(f"DROP USER {user}@'%'")
    assert options(gate, name).address.user == "root"
    assert numbers(sql, name) == [0, 1]
