"""The gate, on real servers: no operation of the store works on what was put in a table's place."""

from __future__ import annotations

import ast
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pymysql
import pytest
from over import over
from servers import SERVER
from store_benches import INDEX, SYSTEM, MySQLBench

from engine.model.errors import BackendError, GroupNotNew
from engine.model.groups import GroupKey, group_key
from engine.model.option_values import NS_PER_SECOND as SECOND
from engine.model.options import QueueOptions, to_comment
from engine.model.queue import Condition, IndexInfo, QueueCatalog, QueueName, QueueSpec, Start, StartAt, TopicSpec
from engine.model.states import REJECTED_NS, lease_end
from engine.model.trace_event import TraceEvent
from engine.store.base import ForeseenLease, Page, PartitionPurge, Release
from engine.store.gate import NOT_THE_TABLE, Gate
from engine.store.named_dead_letters import NamedDeadLetters
from engine.store.proxy_directory import ProxyDirectory, ProxyEntry
from engine.store.statements.mysql import MYSQL

DELAYS = {0: 10 * SECOND}
LEASE_END = lease_end(1_000_000_000_000_000_000)
ALL = Condition("1 = 1")
NUMBERS = range(1, 9)


@dataclass
class Bench:
    """Queue `q` with its dead letters, topic `log` with its group, and what the vault holds, in another database."""

    sql: MySQLBench
    q: QueueSpec
    dead: QueueSpec
    log: TopicSpec
    group: QueueSpec

    @property
    def store(self) -> Any:
        return self.sql.store

    async def swap(self, table: str, rows: str) -> None:
        """Put a view of the vault in a table's place, through which it can be read and written; `rows` fill it."""
        vault = f"`{self.sql.url.database}_vault`.`{table}`"
        await self.sql.run(f"CREATE TABLE {vault} LIKE `{table}`")
        await self.sql.run(f"RENAME TABLE `{table}` TO `{table}_old`")
        await self.sql.run(f"INSERT INTO {vault} {rows}")
        await self.sql.run(f"CREATE SQL SECURITY INVOKER VIEW `{table}` AS SELECT * FROM {vault}")

    async def vault(self, table: str) -> list[tuple[Any, ...]]:
        return await self.sql.run(f"SELECT * FROM `{self.sql.url.database}_vault`.`{table}`")


@pytest.fixture(params=["mariadb", "mysql"] if SERVER == "mariadb" else [SERVER])
async def bench(request: pytest.FixtureRequest, name: str) -> AsyncIterator[Bench]:
    server = request.getfixturevalue("engine_mariadb" if request.param == SERVER else str(request.param))
    sql = await MySQLBench.open(server.fresh_database(name))
    vault = f"{sql.url.database}_vault"
    await sql.run(f"DROP DATABASE IF EXISTS {vault}")
    await sql.run(f"CREATE DATABASE {vault}")
    times = "time_scheduled BIGINT NOT NULL DEFAULT 1, time_created BIGINT NOT NULL DEFAULT 1"
    key = "k INT, KEY queuegate_compact (k)"
    await sql.run(f"CREATE TABLE log (id BIGINT AUTO_INCREMENT PRIMARY KEY, {times}, {key}) COMMENT='queuegate_topic'")
    tables = {
        "q": QueueOptions(max_attempts=3, group_key="g"),
        "q_dead": QueueOptions(dead_letter_of="q"),
        "log_group_g": QueueOptions(topic="log", consumer_group="g", retain="until_consumed", paused=True),
    }
    await sql.run("DROP TABLE IF EXISTS q")
    for table, options in tables.items():
        columns = f"id BIGINT PRIMARY KEY, {SYSTEM}, g INT, k INT, queuegate_sought TINYINT NOT NULL DEFAULT 0, {INDEX}"
        await sql.run(f"CREATE TABLE {table} ({columns}, KEY queuegate_group (g)) COMMENT='{to_comment(options)}'")
    catalog = await sql.store.load_catalog(QueueCatalog())
    here = sql.url.database
    q, dead, group = (catalog.queues[QueueName(here, table)] for table in tables)
    yield Bench(sql, q, dead, catalog.topics[QueueName(here, "log")], group)
    await sql.run(f"DROP DATABASE {vault}")
    await sql.close()


@pytest.fixture
def name() -> str:
    return "gated"


def rows(time_next: object = "1", time_acked: object = "NULL", epoch: object = "0") -> str:
    values = ", ".join(f"({n}, 50, {epoch}, {time_next}, {time_acked}, 1, 7, 7)" for n in NUMBERS)
    return f"(id, priority, epoch, time_next, time_acked, time_scheduled, g, k) VALUES {values}"


LEASES = [Release(number, 1, LEASE_END, 1) for number in NUMBERS]
FAR = (1 << 63) - 1
FOUND = PartitionPurge(0, ("p0",), FAR)

ON_QUEUES: dict[str, tuple[str, Callable[[Bench], Awaitable[Any]]]] = {
    "poll": (rows(), lambda b: b.store.poll(b.q, 10)),
    "poll and claim": (rows(), lambda b: b.store.poll_and_claim(b.q, 10, 10, (), DELAYS)),
    "claim": (rows(), lambda b: b.store.claim(b.q, [1, 2], DELAYS)),
    "claim of a filter": (rows(), lambda b: b.store.claim(b.q, [1, 2], DELAYS, ALL)),
    "claim of added": (rows(), lambda b: b.store.claim_added(b.q, [1, 2], ForeseenLease(LEASE_END, 0, FAR))),
    "scan": (rows(), lambda b: b.store.scan(b.q, ALL, Page(10, 10))),
    "fitting": (rows(), lambda b: b.store.fitting(b.q, ALL, [1, 2])),
    "unsettled": (rows(), lambda b: b.store.unsettled(b.q, [1, 2])),
    "release": (rows(LEASE_END, epoch=1), lambda b: b.store.release(b.q, LEASES, counted=True)),
    "release uncounted": (rows(LEASE_END, epoch=1), lambda b: b.store.release(b.q, LEASES, counted=False)),
    "rejected": (rows(REJECTED_NS), lambda b: b.store.rejected(b.q, 10)),
    "move_to_dead_letters": (rows(REJECTED_NS), lambda b: b.store.move_to_dead_letters(b.q, b.dead, [1, 2])),
    "purge": (rows("NULL", 1), lambda b: b.store.purge(replaced(b.q, purge_after_ns=0), 10)),
    "purge of partitions": (rows("NULL", 1), lambda b: b.store.purge(b.q, 10, FOUND)),
    "census": (rows(), lambda b: b.store.counts.census(b.q)),
    "leased_messages": (rows(LEASE_END, epoch=1), lambda b: b.store.counts.leased_messages(b.q, 10)),
    "limited poll": (rows(), lambda b: b.store.poll(replaced(b.q, order_key="g"), 10)),
    "limited claim": (rows(), lambda b: b.store.claim(replaced(b.q, order_key="g"), [1, 2], DELAYS)),
    "claim of a few places": (rows(), lambda b: b.store.claim(replaced(b.q, max_concurrency=2), [1, 2], DELAYS)),
}


def replaced(queue: QueueSpec, **options: Any) -> QueueSpec:
    return replace(queue, options=replace(queue.options, **options))


@pytest.mark.parametrize("operation", ON_QUEUES)
async def test_a_view_in_the_place_of_a_queue(bench: Bench, operation: str) -> None:
    content, work = ON_QUEUES[operation]
    await bench.swap("q", content)
    await refused(bench, "q", work)


async def test_a_view_in_the_place_of_a_dead_letter_queue(bench: Bench) -> None:
    await bench.sql.run(f"INSERT INTO q {rows(REJECTED_NS)}")
    await bench.swap("q_dead", rows("NULL", 1))
    await refused(bench, "q_dead", lambda b: b.store.move_to_dead_letters(b.q, b.dead, [1, 2]))
    assert len(await bench.sql.run("SELECT 1 FROM q")) == len(NUMBERS)


START = StartAt(Start.EARLIEST)
LOG = "(id, k) VALUES " + ", ".join(f"({number}, 7)" for number in NUMBERS)

ON_TOPICS: dict[str, Callable[[Bench], Awaitable[Any]]] = {
    "feed": lambda b: b.store.topics.feed(b.group, b.log, 10),
    "take": lambda b: b.store.poll_and_claim(b.group, 10, 10, (), DELAYS),
    "poll": lambda b: b.store.poll(b.group, 10),
    "begin": lambda b: b.store.topics.begin(b.group.name, b.log, StartAt(Start.LATEST)),
    "position": lambda b: b.store.topics.position_at(b.log, StartAt(Start.LATEST)),
    "seek": lambda b: b.store.topics.seek(b.group, b.log, StartAt(Start.LATEST)),
    "retain": lambda b: b.store.topics.retain(topic(b.log, retain_rows=1), (), 10),
    "compact": lambda b: b.store.topics.compact(topic(b.log, compact="k"), (), 0, 100),
    "lag": lambda b: b.store.topics.lag(b.group, b.log),
    "extent": lambda b: b.store.topics.extent(b.log),
    "rows": lambda b: b.store.topics.rows(b.log, [1, 2]),
    "read": lambda b: read_all(b),
    "divide": lambda b: b.store.topics.partitions.divide(b.log),
    "drop": lambda b: b.store.topics.partitions.drop_first(b.log, ()),
}


async def read_all(bench: Bench) -> Any:
    position = await bench.store.topics.position_at(bench.log, START)
    return await bench.store.topics.read(bench.log, position, 100)


def topic(spec: TopicSpec, **options: Any) -> TopicSpec:
    return replace(spec, options=replace(spec.options, **options))


@pytest.mark.parametrize("operation", ON_TOPICS)
async def test_a_view_in_the_place_of_a_topic(bench: Bench, operation: str) -> None:
    await bench.store.topics.begin(bench.group.name, bench.log, START)
    await bench.sql.run("INSERT INTO log (k) VALUES (1)")
    await bench.swap("log", LOG)
    await refused(bench, "log", ON_TOPICS[operation])


@pytest.mark.parametrize("operation", ["feed", "take", "poll", "seek"])
async def test_a_view_in_the_place_of_a_groups_queue(bench: Bench, operation: str) -> None:
    await bench.store.topics.begin(bench.group.name, bench.log, START)
    await bench.sql.run(f"INSERT INTO log {LOG}")
    await bench.swap("log_group_g", "SELECT * FROM log_group_g_old")
    await refused(bench, "log_group_g", ON_TOPICS[operation])


async def test_the_beginning_of_a_group_that_reads_already_is_not_written(bench: Bench) -> None:
    """A proxy stands still within CREATE CONSUMER GROUP; meanwhile another one drops that group and makes it anew."""
    await bench.store.topics.begin(bench.group.name, bench.log, START)
    await bench.sql.run(f"INSERT INTO log {LOG}")
    await bench.sql.run(f"ALTER TABLE log_group_g COMMENT='{to_comment(replace(bench.group.options, paused=False))}'")
    with pytest.raises(GroupNotNew):
        await bench.store.topics.begin(bench.group.name, bench.log, StartAt(Start.LATEST))
    assert (await bench.store.topics.position(bench.group, bench.log)).offset == 0
    await bench.sql.run("DROP TABLE log_group_g")
    with pytest.raises(GroupNotNew):
        await bench.store.topics.begin(bench.group.name, bench.log, StartAt(Start.LATEST))


async def refused(bench: Bench, table: str, work: Callable[[Bench], Awaitable[Any]]) -> None:
    """That the work ends with the gate's error, or as one that finds nothing to do, and changes nothing."""
    before = await bench.vault(table)
    try:
        done = await work(bench)
    except BackendError as error:
        assert error.errno == NOT_THE_TABLE, error
    else:
        assert not done or "partition" in str(done) or "DropResult(" in str(done), done
    assert await bench.vault(table) == before
    for other in ("q_dead", "log_group_g", "q_old"):
        found = () if other == table else await there(bench, other)
        assert not found, (other, found)


async def there(bench: Bench, table: str) -> list[tuple[Any, ...]]:
    try:
        return await bench.sql.run(f"SELECT * FROM {table}")
    except (BackendError, pymysql.err.MySQLError):
        return []


OWN: dict[str, Callable[[Bench], Awaitable[Any]]] = {
    "queuegate_positions": lambda b: b.store.topics.feed(b.group, b.log, 10),
    "queuegate_limits": lambda b: b.store.claim(replaced(b.q, max_concurrency=2), [1], DELAYS),
    "queuegate_groups": lambda b: complete(b),
    "queuegate_traces": lambda b: b.store.traces.write(b.q.name.database, [event(b)]),
    "queuegate_schedules": lambda b: b.store.schedules.waiting(b.q.name.database),
    "queuegate_archive": lambda b: b.store.purge(replaced(b.q, archive=True, purge_after_ns=0), 10),
    "queuegate_proxies": lambda b: ProxyDirectory(b.store._pool).join(ENTRY),
    "queuegate_dead_letters": lambda b: NamedDeadLetters(b.store._pool).add(b.q.name, b.dead.name),
}
ENTRY = ProxyEntry("p" * 32, 0, "127.0.0.1:1", "s" * 64)


def event(bench: Bench) -> TraceEvent:
    return TraceEvent(bench.q.name, 1, 1, "sent", 1, None, True, "", "here:1", "a" * 16, 1)


async def complete(bench: Bench) -> Any:
    key = keyed(bench, QueueCatalog())
    await bench.store.groups.read(key, None)
    return await bench.store.groups.complete(key, "7", lambda name: bench.q)


def keyed(bench: Bench, catalog: QueueCatalog) -> GroupKey:
    key = group_key(bench.q, catalog)
    assert key is not None
    return key


@pytest.mark.parametrize("table", OWN)
async def test_a_view_in_the_place_of_a_table_of_our_own(bench: Bench, table: str) -> None:
    work = OWN[table]
    await bench.sql.run(f"INSERT INTO q {rows()}")
    await bench.store.topics.begin(bench.group.name, bench.log, START)
    await bench.store.groups.make(keyed(bench, QueueCatalog()))
    await bench.store.schedules.make(bench.q.name.database)
    await work(bench)  # makes it
    await bench.swap(table, f"SELECT * FROM {table}_old")
    before = await bench.vault(table)
    with pytest.raises(BackendError) as refused:
        await work(bench)
    assert refused.value.errno == NOT_THE_TABLE
    assert await bench.vault(table) == before


async def test_a_table_that_is_no_queue_any_more_keeps_its_rows(bench: Bench) -> None:
    """It has the indexes of a queue and another mark, or none."""
    await bench.sql.run(f"INSERT INTO q {rows(REJECTED_NS, 1)}")
    for comment in ("", "queuegate_topic", to_comment(QueueOptions(dead_letter="other", group_key="g"))):
        await bench.sql.run(f"ALTER TABLE q COMMENT='{comment}'")
        with pytest.raises(BackendError) as refused:
            await bench.store.purge(replaced(bench.q, purge_after_ns=0), 10)
        assert (refused.value.errno, "try again" in refused.value.message) == (NOT_THE_TABLE, True)
    await bench.sql.run(f"UPDATE q SET time_acked = NULL, time_next = {REJECTED_NS}")
    with pytest.raises(BackendError) as refused:
        await bench.store.move_to_dead_letters(bench.q, bench.dead, [1, 2])
    assert refused.value.errno == NOT_THE_TABLE
    await bench.sql.run(f"ALTER TABLE q COMMENT='{to_comment(replace(bench.q.options, paused=True, prefetch=7))}'")
    await bench.sql.run("ALTER TABLE q_dead COMMENT='" + to_comment(QueueOptions(dead_letter_of="another")) + "'")
    with pytest.raises(BackendError) as refused:
        await bench.store.move_to_dead_letters(bench.q, bench.dead, [1, 2])
    assert refused.value.errno == NOT_THE_TABLE
    assert await bench.sql.run("SELECT COUNT(*) FROM q") == [(len(NUMBERS),)]
    await bench.sql.run(f"ALTER TABLE q_dead COMMENT='{bench.dead.comment}'")
    assert await bench.store.move_to_dead_letters(bench.q, bench.dead, [1, 2]) == 2  # other options change nothing


async def test_a_table_without_the_queues_own_index_is_another(bench: Bench) -> None:
    await bench.sql.run(f"INSERT INTO q {rows()}")
    await bench.sql.run("ALTER TABLE q DROP KEY queuegate_group")
    with pytest.raises(BackendError) as refused:
        await bench.store.poll(bench.q, 10)
    assert refused.value.errno == NOT_THE_TABLE
    catalog = await bench.store.load_catalog(QueueCatalog())
    assert len((await bench.store.poll(catalog.queues[bench.q.name], 10)).keys) == len(NUMBERS)


ROOT = Path(__file__).resolve().parents[3]
STORE = sorted((ROOT / "engine").rglob("*.py"))
NAMED = re.compile(r"\b(?:FROM|JOIN|UPDATE|INTO|LOCK TABLES|ALTER TABLE|USING) (?!\()([^ ]+)", re.ASCII)
SERVERS = ("information_schema.", "sqlite_master", "pragma_", "queuegate_meta_")


@over(STORE)
def test_no_statement_of_the_engine_goes_round_the_gate(path: Path) -> None:
    """Each table in an SQL text is a value that the gate has made, and no written name or `QueueName.sql`."""
    text = path.read_text()
    module = path.relative_to(ROOT).as_posix()
    tree = ast.parse(text)
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "sql" and not NAMES.get(module, 0):
            inner = ast.unparse(node.value)
            assert not inner.endswith((".name", "QueueName", "queue", "topic", "group")), f"{module}: {inner}.sql"
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            for named in NAMED.findall(node.value):
                assert named.startswith(SERVERS) or not re.match(r"[`\w]*queuegate_\w+$", named), f"{module}: {named}"


NAMES = {
    "engine/store/gate.py": "it is the gate",
    "engine/backend/mysql.py": "describe, with a hint of its own",
    "engine/store/statements/mysql.py": "SHOW CREATE TABLE runs nothing",
    "engine/model/topic_partitions.py": "a statement that is shown to people",
    "engine/background/table_upgrader.py": "a statement that is shown to people",
    "engine/store/catalog.py": "a statement that is shown to people",
}


def test_no_statement_of_the_engine_groups_what_the_gate_names() -> None:
    """Or the hint would have an effect."""
    bare, words = "{table.target} AS g {by_id}", ("FOR GROUP BY", "with a GROUP BY", "GROUP BY g.time_acked")
    assert (ROOT / "engine" / "store" / "statements" / "order.py").read_text().count(bare) == 1
    for path in [path for path in STORE if path.is_relative_to(ROOT / "engine" / "store") and path.name != "sqlite.py"]:
        text = path.read_text()
        for word in words:
            text = text.replace(word, "")
        assert "GROUP BY" not in text, path


def test_how_a_table_is_named() -> None:
    indexes = (IndexInfo(("a", "id"), False, "queuegate_due"), IndexInfo(("id",), True, "by`id"))
    hint = "IGNORE INDEX FOR GROUP BY (`by``id`, `queuegate_due`)"
    table = MYSQL.gate.known_by(QueueName("d", "q"), indexes)
    assert str(table) == f"`d`.`q` {hint}"
    assert table.as_("m") == f"`d`.`q` AS m {hint}"
    assert table.forced("FORCE INDEX (`x`)", "m") == f"`d`.`q` AS m FORCE INDEX (`x`) {hint}"
    assert table.partition(("p0", "p1")) == f"`d`.`q` PARTITION (`p0`, `p1`) {hint}"
    beside = "JOIN (SELECT 1 AS queuegate_one) AS beside"
    assert table.delete("id = ?") == f"DELETE FROM gone USING `d`.`q` AS gone {hint} {beside} WHERE id = ?"
    assert table.target == "`d`.`q`"
    bare = Gate("").known_by(QueueName("d", "q"), indexes)
    assert (str(bare), bare.delete()) == ("`d`.`q`", "DELETE FROM `d`.`q`")
