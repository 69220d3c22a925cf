"""What a look at an ordered queue reads: a few entries of its indexes, however many messages or keys wait."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from store_benches import INDEX, SYSTEM, MySQLBench, SqliteBench

from engine.model.option_values import NS_PER_SECOND as SECOND
from engine.model.options import QueueOptions, to_comment
from engine.model.queue import QueueCatalog, QueueName
from engine.store.operations.due_messages import LevelGuess
from engine.store.operations.order import KeyOrder, OrderMemory, poll
from engine.store.statements.mysql import MYSQL
from engine.store.statements.order import OrderStatements
from engine.store.statements.queue import QueueStatements
from engine.store.statements.sqlite import SQLITE

pytestmark = pytest.mark.long

DELAYS = {0: 3600 * SECOND}
MANY = 100_000
NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) SELECT i FROM n"


async def ordered(bench: Any, key: str, on_failure: str = "block", kind: str = "VARCHAR(100)") -> Any:
    """A queue `o` with order_key and its indexes, empty."""
    options = QueueOptions(order_key=key, on_failure=on_failure)
    if isinstance(bench, MySQLBench):
        keys = ", ".join(f"KEY {name} ({', '.join(columns)})" for name, columns in options.needed_indexes)
        await bench.run(
            f"CREATE TABLE o (id BIGINT PRIMARY KEY, {SYSTEM}, payload {kind}, {INDEX}, {keys})"
            f" COMMENT '{to_comment(options)}'"
        )
        database = bench.url.database
    else:
        await bench.create("o", comment=to_comment(options))
        for name, columns in options.needed_indexes:
            await bench.run(f"CREATE INDEX `o:{name}` ON o ({', '.join(columns)})")
        database = "main"
    return (await bench.store.load_catalog(QueueCatalog())).queues[QueueName(database, "o")]


async def fill(bench: Any, count: int, payload: str) -> None:
    """Messages 1 to count, due in their order; `payload` an expression of their number i."""
    if isinstance(bench, MySQLBench):
        await bench.run(f"INSERT INTO o (id, time_next, payload) SELECT seq, seq, {payload} FROM (SELECT seq, seq AS i"
                        f" FROM seq_1_to_{count}) AS n")  # fmt: skip
        await bench.run("ANALYZE TABLE o")
        return
    await bench.run(
        f"INSERT INTO o (id, time_next, payload) SELECT i, i, {payload} FROM ({NUMBERS.format(count=count)})"
    )


@pytest.fixture(params=["sqlite", "mariadb", "mysql"])
async def sql_bench(
    request: pytest.FixtureRequest, tmp_path: Path, fresh_url_if: Callable[[str], str]
) -> AsyncIterator[Any]:
    if request.param == "sqlite":
        made: Any = await SqliteBench.open(str(tmp_path / "queue.db"))
    else:
        made = await MySQLBench.open(fresh_url_if(str(request.param)))
    yield made
    await made.close()


@pytest.fixture
def fresh_url_if(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """An empty database of a server, asked for only where that server is needed."""
    return lambda server: str(request.getfixturevalue(server).fresh_database(f"ordered_{os.urandom(4).hex()}"))


async def reads(bench: Any, work: Callable[[Any], Any]) -> tuple[Any, int]:
    """What the work comes to on one connection, and how many rows and index entries the server read for it."""

    def counted(connection: Any) -> tuple[Any, int]:
        connection.execute("FLUSH STATUS")
        found = work(connection)
        status = dict(connection.query("SHOW SESSION STATUS LIKE 'Handler_read%'"))
        return found, sum(int(value) for value in status.values())

    if isinstance(bench, MySQLBench):
        return await bench.store._pool.read(counted)
    return await bench.store._pool.read(work), 0


@pytest.mark.parametrize("on_failure", ["block", "skip"])
@pytest.mark.parametrize(
    ("key", "payload", "found", "most"),
    [
        ("payload", "'one'", [1], 8_000),
        ("*", "'any'", [1], 100),
        ("payload", "CONCAT('k', i)", list(range(1, 101)), 2_000),
        ("payload", "CONCAT('k', i % 5)", [1, 2, 3, 4, 5], 8_000),
    ],
    ids=["one key", "the whole queue", "as many keys", "five keys"],
)
async def test_a_long_backlog_is_not_read(sql_bench, key, payload, found, most, on_failure):
    queue = await ordered(sql_bench, key, on_failure)
    if isinstance(sql_bench, SqliteBench):
        payload = payload.replace("CONCAT('k', i % 5)", "'k' || (i % 5)").replace("CONCAT('k', i)", "'k' || i")
    await fill(sql_bench, MANY, payload)
    dialect = MYSQL if isinstance(sql_bench, MySQLBench) else SQLITE
    texts = QueueStatements(dialect, queue), OrderStatements(dialect, queue)
    memory, guess = OrderMemory(), LevelGuess()
    for _ in range(3):  # by due times first, then by what was learnt
        seen, count = await reads(sql_bench, lambda c: poll(c, *texts, queue, 100, guess, memory))
        assert [key.id for key in seen.keys] == found
        assert count <= most
    leased = (await sql_bench.store.claim(queue, found, DELAYS)).messages
    assert sorted(message.id for message in leased) == found
    seen, count = await reads(sql_bench, lambda c: poll(c, *texts, queue, 100, guess, memory))
    assert not {key.id for key in seen.keys}.intersection(found)
    assert bool(seen.keys) is (payload in ("CONCAT('k', i)", "'k' || i")) and count <= 10_000
    free, count = await reads(sql_bench, lambda c: KeyOrder(c, texts[1], queue).free(list(range(2, 102))))
    assert count <= 2_500 and all(position.head == position.id for position in free)


@pytest.mark.parametrize("on_failure", ["block", "skip"])
@pytest.mark.parametrize("kind", ["ENUM('z', 'm', 'a')", "SET('z', 'm', 'a')"])
async def test_a_server_goes_from_member_to_member(sql_bench, kind, on_failure):
    """By their numbers, in which order the index has them, not by their names."""
    if isinstance(sql_bench, SqliteBench):
        pytest.skip("it sorts by names")
    queue = await ordered(sql_bench, "payload", on_failure, kind)
    await fill(sql_bench, MANY, "ELT(1 + (i > 99000) + (i > 99500), 'z', 'm', 'a')")
    texts = OrderStatements(MYSQL, queue)
    for most in (1, 8, None):
        heads, count = await reads(sql_bench, lambda c, most=most: KeyOrder(c, texts, queue).heads(most))
        assert sorted(heads) == [1, 99_001, 99_501] and count <= 100
    texts.first_of_each = ""
    heads, _ = await reads(sql_bench, lambda c: KeyOrder(c, texts, queue).heads(None))
    assert sorted(heads) == [1], "the names say the same on this server now: the statement is not needed"


async def test_messages_without_a_key_are_not_all_read(sql_bench):
    queue = await ordered(sql_bench, "payload")
    await fill(sql_bench, MANY, "CASE WHEN i <= 2000 THEN 'one' END")
    dialect = MYSQL if isinstance(sql_bench, MySQLBench) else SQLITE
    texts = QueueStatements(dialect, queue), OrderStatements(dialect, queue)
    await sql_bench.store.claim(queue, [1], DELAYS)
    memory = OrderMemory()
    for _ in range(3):
        seen, count = await reads(sql_bench, lambda c: poll(c, *texts, queue, 100, LevelGuess(), memory))
        assert [key.id for key in seen.keys] == list(range(2001, 2101)) and seen.more
        assert count <= 5_000


async def test_messages_without_a_key_come_in_delivery_order(sql_bench):
    """By either method, also where they are more than one poll returns."""
    queue = await ordered(sql_bench, "payload")
    await fill(sql_bench, 300, "CASE WHEN i <= 10 THEN 'one' END")
    await sql_bench.run("UPDATE o SET priority = 50")
    await sql_bench.run("UPDATE o SET time_next = 2 WHERE id = 299")
    await sql_bench.run("UPDATE o SET priority = 1 WHERE id = 300")
    dialect = MYSQL if isinstance(sql_bench, MySQLBench) else SQLITE
    texts = QueueStatements(dialect, queue), OrderStatements(dialect, queue)
    expected = [300, 1, 299, *range(11, 98)]
    for by_keys in (True, False):
        memory = OrderMemory(by_keys)
        seen, _ = await reads(sql_bench, lambda c, memory=memory: poll(c, *texts, queue, 100, LevelGuess(), memory))
        assert [key.id for key in seen.keys][:90] == expected
        assert seen.more and not memory.by_keys


def query(connection, sql, params):
    return connection.query(sql, params)


async def test_every_statement_finds_its_index(sql_bench):
    """The plans, in the database's own words."""
    queue = await ordered(sql_bench, "payload")
    await fill(sql_bench, 2000, "'one'")
    dialect = MYSQL if isinstance(sql_bench, MySQLBench) else SQLITE
    texts = OrderStatements(dialect, queue)
    asked = [
        (texts.key_positions(2), (1, 2)),
        (texts.next_keys, (1, 16)),
        (texts.first_keys, (16,)),
        (texts.key_in_flight, (1,)),
    ]
    word = "EXPLAIN" if isinstance(sql_bench, MySQLBench) else "EXPLAIN QUERY PLAN"
    for sql, params in asked:
        plan = await sql_bench.store._pool.read(partial(query, sql=f"{word} {sql}", params=params))
        text = str(plan)
        assert "queuegate_order" in text, text
        assert "filesort" not in text and "TEMP B-TREE" not in text, text
        assert "'ALL'" not in text.replace("('<", "(<") or "tvc" in text, text
        assert "SCAN o" not in text, text
