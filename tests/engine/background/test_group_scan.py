"""GroupScan on a server: groups that became done unseen are found, and what waits for them is sent once."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from engine_parts import Host, engine_context
from store_benches import COMMENT, MySQLBench
from virtual_time import VirtualClock

from engine.background.group_scan import GroupScan
from engine.model.commit_report import CommitReport
from engine.model.groups import GroupKey, group_key
from engine.model.queue import QueueCatalog, QueueName
from engine.model.states import PARKED_NS
from engine.store.group_table import GROUPS_PAGE

GROUPS = 2 * GROUPS_PAGE + 7


@pytest.fixture
async def bench(fresh_url) -> AsyncIterator[MySQLBench]:
    bench = await MySQLBench.open(fresh_url())
    await bench.create("parts", columns="job VARCHAR(40)", comment=f"{COMMENT},group_key=job")
    yield bench
    await bench.close()


@pytest.fixture
async def scan(bench) -> GroupScan:
    catalog = await bench.store.load_catalog(QueueCatalog())
    spec = catalog.queues[QueueName(bench.url.database, "parts")]
    key = group_key(spec, catalog)
    assert key == GroupKey(spec.name, "job", integer=False, dead=spec.name._replace(table="parts_dead"))
    host = Host(catalog)
    bench.reports = host.reports
    context = engine_context(bench.store, VirtualClock(), host, work=4)
    scan = GroupScan(spec, key, context)
    await bench.store.groups.make(key)
    await bench.store.groups.make(key)  # it is there already
    return scan


async def hold(bench, number: int, value: str) -> None:
    """A message of q that waits for a group of parts."""
    await bench.run("INSERT INTO q (id, time_next) VALUES (?, ?)", (number, PARKED_NS))
    row = (bench.url.database, "q", str(number), "parts", value)
    await bench.run("INSERT INTO queuegate_groups VALUES (?, ?, ?, ?, ?)", row)


async def sent(bench) -> list[int]:
    return [row[0] for row in await bench.run(f"SELECT id FROM q WHERE time_next < {PARKED_NS} ORDER BY id")]


async def test_all_pages_are_looked_at(bench, scan):
    await bench.run("INSERT INTO parts (id, job) VALUES (1, 'job 11'), (2, 'JOB 12'), (3, 'job 13')")
    await bench.run("UPDATE parts SET time_acked = 1 WHERE id = 3")
    for number in range(1, GROUPS + 1):
        await hold(bench, number, f"job {number}")
    assert await scan.run_once() == GROUPS - 2
    assert await sent(bench) == [n for n in range(1, GROUPS + 1) if n not in (11, 12)]  # the column's own collation
    assert await scan.run_once() == 0
    assert bench.reports == [CommitReport(touched=frozenset((bench.spec.name,)))] * (GROUPS - 2)
    await bench.run("DELETE FROM parts")
    assert await scan.run_once() == 2
    assert await bench.run("SELECT COUNT(*) FROM queuegate_groups") == [(0,)]


async def test_values_are_equal_only_where_the_column_says_so(bench, scan):
    """The table of groups takes all of these for one, and the first is open."""
    await bench.run("ALTER TABLE parts MODIFY job VARCHAR(40) COLLATE utf8mb4_bin")
    await bench.run("INSERT INTO parts (id, job) VALUES (1, 'A'), (2, 'á'), (3, '\U0001f600')")
    for number, value in enumerate(("A", "a", "á", "\U0001f600", "\U0001f389", ""), 1):
        await hold(bench, number, value)
    await scan.run_once()
    assert await sent(bench) == [2, 5, 6]
    await bench.run("DELETE FROM parts WHERE id = 2")
    await scan.run_once()
    assert await sent(bench) == [2, 3, 5, 6]


async def test_a_page_may_end_within_a_group(bench, scan):
    await bench.run("INSERT INTO parts (id, job) VALUES (1, 'c')")
    for number in range(1, GROUPS + 1):
        await hold(bench, number, "aAbc"[number % 4])
    await scan.run_once()
    assert await sent(bench) == [n for n in range(1, GROUPS + 1) if n % 4 != 3]


async def test_what_was_sent_by_hand_or_deleted_is_left_alone(bench, scan):
    for number in (1, 2, 3):
        await hold(bench, number, "done")
    await bench.run("UPDATE q SET time_next = 5 WHERE id = 1")
    await bench.run("UPDATE q SET time_acked = 5, time_next = NULL WHERE id = 2")
    await bench.run("DELETE FROM q WHERE id = 3")
    await scan.run_once()
    assert await bench.run("SELECT id, time_next, time_acked FROM q ORDER BY id") == [(1, 5, None), (2, None, 5)]
    assert await bench.run("SELECT COUNT(*) FROM queuegate_groups") == [(0,)]


async def test_a_group_that_a_client_is_ending_is_left_to_it(bench, scan):
    await hold(bench, 1, "done")
    with bench.holder.cursor() as cursor:
        cursor.execute("SELECT * FROM queuegate_groups FOR UPDATE")
    assert await scan.run_once() == 0
    bench.holder.rollback()
    assert await scan.run_once() == 1


async def test_a_dead_letter_of_a_group_is_not_done(bench, scan):
    await bench.create("parts_dead", columns="job VARCHAR(40)")
    await bench.run("INSERT INTO parts_dead (id, job) VALUES (1, 'done')")
    await hold(bench, 1, "done")
    assert await scan.run_once() == 0  # though the catalog was read before there was such a table
    catalog = await bench.store.load_catalog(QueueCatalog())
    scan.group = group_key(scan.queue, catalog)
    assert scan.group.dead_known
    assert await scan.run_once() == 0
    await bench.run("UPDATE parts_dead SET time_acked = 1")
    assert await scan.run_once() == 1
    assert await sent(bench) == [1]
