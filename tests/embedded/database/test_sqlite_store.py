"""What only the embedded database can get wrong: the plans of statements that name ids, and who is a queue."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from store_benches import SqliteBench

from embedded.database.text_form import moment_text
from engine.model.queue import QueueCatalog, QueueName
from engine.store.statements.queue import QueueStatements
from engine.store.statements.sqlite import SQLITE


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[SqliteBench]:
    bench = await SqliteBench.open(str(tmp_path / "queue.db"))
    yield bench
    await bench.close()


async def plan(bench, sql, params):
    return [row[3] for row in await bench.run("EXPLAIN QUERY PLAN " + sql, params)]


async def test_statements_on_ids_never_read_all_that_is_unacked(bench):
    texts, ids = QueueStatements(SQLITE, bench.spec), (1, 2, 3)
    statements = [
        (texts.claimable(3), ids),
        (texts.lease(1, 3), (0, 5, 7, 7, *ids)),
        (texts.rows(3), ids),
        (texts.unsettled(3), ids),
        (texts.releasable(3), ids),
        (texts.release(3), (1, 5, 2, 5, 3, 5, 0, *ids)),
        (texts.purge(3), ids),
    ]
    for sql, params in statements:
        steps = await plan(bench, sql, params)
        assert all("INTEGER PRIMARY KEY" in step for step in steps), (sql, steps)


async def test_the_look_reads_only_what_it_returns(bench):
    texts = QueueStatements(SQLITE, bench.spec)
    statements = [
        (texts.poll.start, (50,)),
        (texts.poll.peek, (50, 16)),
        (texts.poll.priority, (50, 9, 50, 5, 9, 50, 50, 5)),
    ]
    for sql, params in statements:
        steps = [step for step in await plan(bench, sql, params) if "q" in step.split()[1:2] or "main.q" in step]
        assert steps and all("USING COVERING INDEX q_by_due" in step for step in steps), steps
        assert not any("TEMP B-TREE" in step for step in await plan(bench, sql, params))
    due = [step for step in await plan(bench, texts.poll.priority, (50, 9, 50, 5, 9, 50, 50, 5)) if "time_next" in step]
    assert len(due) == 3, "each branch seeks by time_next, so postponed rows cost nothing"


async def test_a_file_without_comments_has_no_queues(bench):
    await bench.run("DROP TABLE queuegate_meta_tables")
    assert (await bench.store.load_catalog(QueueCatalog())).queues == {}


async def test_a_dropped_table_is_no_queue_though_its_comment_is_left(bench):
    await bench.run("DROP TABLE q")
    assert (await bench.store.load_catalog(QueueCatalog())).queues == {}


async def test_a_table_without_a_key_of_its_own_is_rejected(bench):
    await bench.create("keyless")
    await bench.run("ALTER TABLE keyless RENAME TO gone")
    await bench.run(
        "CREATE TABLE keyless (id INTEGER, priority INTEGER, epoch INTEGER, time_next INTEGER,"
        " time_acked INTEGER, payload TEXT)"
    )
    name = QueueName("main", "keyless")
    catalog = await bench.store.load_catalog(QueueCatalog())
    assert catalog.rejected == {name: "id of message table keyless needs a PRIMARY KEY or UNIQUE key of its own"}
    await bench.run("CREATE UNIQUE INDEX half ON keyless (id) WHERE priority > 5")
    assert name in (await bench.store.load_catalog(QueueCatalog())).rejected
    await bench.run("CREATE UNIQUE INDEX whole ON keyless (id)")
    catalog = await bench.store.load_catalog(QueueCatalog())
    assert name in catalog.queues


@pytest.mark.parametrize("stored", ["9999-12-31 23:59:59", "0001-01-01 00:00:00", "2038-01-19 03:14:08"])
def test_a_timestamp_of_before_it_had_a_range_reaches_a_receiver_in_utc(stored):
    assert moment_text(stored, 0) == stored.encode()
    assert moment_text("2038-01-19 03:14:07", 0) == b"2147483647"
