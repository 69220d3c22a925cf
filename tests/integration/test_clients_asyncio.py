"""aiomysql and asyncmy: ordinary SQL compared with the server itself, pools, and queues with an endless stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import aiomysql
import asyncmy
import asyncmy.cursors
import pytest
from dbapi_program import COLUMNS, MISTAKES, TEXT, describe, row
from slowness import scaled
from transcripts import DONE, QUEUE_STORY, Address, address_of

# Aiomysql hands on the server's warnings.
pytestmark = [pytest.mark.filterwarnings("ignore:Unknown (table|queue)"), pytest.mark.long]

DRIVERS = {"aiomysql": aiomysql, "asyncmy": asyncmy}
STREAMING = {"aiomysql": aiomysql.SSCursor, "asyncmy": asyncmy.cursors.SSCursor}
TIMEOUT = 100  # of a whole story; below the test's own


@pytest.fixture(params=DRIVERS)
def driver(request) -> str:
    return str(request.param)


class Client:
    """A connection with its answers as lines."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._hex = isinstance(connection, aiomysql.Connection)  # which cannot send bytes with PyMySQL 1.2

    async def insert(self, table: str, columns: str, values: Sequence[object]) -> int:
        """Add a row; returns the affected rows."""
        hexed = [self._hex and isinstance(value, bytes) for value in values]
        marks = ["UNHEX(%s)" if one else "%s" for one in hexed]
        given = [value.hex() if one else value for one, value in zip(hexed, values, strict=True)]
        return await self(f"INSERT INTO {table} ({columns}) VALUES ({', '.join(marks)})", *given)

    async def __call__(self, sql: str, *params: object) -> int:
        async with self.connection.cursor() as cursor:
            return int(await cursor.execute(sql, params or None))

    async def values(self, sql: str, *params: object) -> list[tuple[Any, ...]]:
        async with self.connection.cursor() as cursor:
            await cursor.execute(sql, params or None)
            return list(await cursor.fetchall())

    async def rows(self, sql: str, *params: object) -> list[str]:
        return [row(values) for values in await self.values(sql, *params)]


@pytest.fixture
async def connect(driver: str) -> AsyncIterator[Callable[..., Any]]:
    """Makes clients at an address; they hang up at the end."""
    made = []

    async def make(address: Address, **options: Any) -> Client:
        given = {"host": address.host, "port": address.port, "user": address.user, "db": address.database}
        made.append(await DRIVERS[driver].connect(**given, autocommit=True, charset="utf8mb4", **options))
        return Client(made[-1])

    yield make
    for connection in made:
        connection.close()


async def ordinary(connect: Callable[..., Any], address: Address) -> list[str]:
    """Types, errors, transactions, many rows, unbuffered rows, a connection that was killed."""
    one, two = await connect(address), await connect(address)
    lines = await _types(one)
    await one("DROP TABLE IF EXISTS async_rows")
    await one("CREATE TABLE async_rows (id INT PRIMARY KEY, s VARCHAR(300) NOT NULL) ENGINE=InnoDB")
    for end in ("rollback", "commit"):
        await one.connection.begin()
        async with one.connection.cursor() as cursor:
            await cursor.executemany(
                "INSERT INTO async_rows VALUES (%s, %s)", [(n, "é" * (n % 300)) for n in range(2000)]
            )
            lines.append(f"inserted {cursor.rowcount}")
        lines += await two.rows("SELECT COUNT(*) FROM async_rows")
        await getattr(one.connection, end)()
        lines += await two.rows("SELECT COUNT(*) FROM async_rows")
    for statement in (statement.replace("py_errors", "async_rows") for statement in MISTAKES):
        try:
            await one(statement)
            lines.append(f"{statement}: not refused")
        except Exception as error:
            lines.append(f"{statement}: {type(error).__name__} {error.args[0]}")
    await one("DROP TABLE async_rows")
    return lines


async def _types(client: Client) -> list[str]:
    await client("DROP TABLE IF EXISTS async_types")
    await client(f"CREATE TABLE async_types (id INT AUTO_INCREMENT PRIMARY KEY, {', '.join(COLUMNS)})")
    names = [column.split()[0] for column in COLUMNS]
    lines = []
    for values in (tuple(COLUMNS.values()), (None,) * len(names)):
        lines.append(f"inserted {await client.insert('async_types', ', '.join(names), values)}")
    lines += await client.rows("SELECT * FROM async_types WHERE id >= %s ORDER BY id", 1)
    lines += await client.rows("SELECT id FROM async_types WHERE h = %s", TEXT)
    async with client.connection.cursor() as cursor:
        await cursor.execute("SELECT * FROM async_types")
        lines += describe(cursor)
    await client("DROP TABLE async_types")
    return lines


async def test_ordinary_sql_is_as_without_the_proxy(connect, mariadb, gate):
    async with asyncio.timeout(scaled(TIMEOUT)):
        direct = await ordinary(connect, address_of(mariadb))
        assert len(direct) > 20
        assert await ordinary(connect, address_of(gate)) == direct


async def test_rows_one_by_one(connect, driver, gate, sql, name):
    sql(f"CREATE TABLE {name} (n INT, s VARCHAR(1000))")
    for start in range(0, 6000, 1000):
        sql(f"INSERT INTO {name} VALUES " + ", ".join(f"({n}, REPEAT('x', 300))" for n in range(start, start + 1000)))
    client = await connect(address_of(gate))
    async with asyncio.timeout(scaled(TIMEOUT)), client.connection.cursor(STREAMING[driver]) as cursor:
        await cursor.execute(f"SELECT n FROM {name} ORDER BY n")
        got = []
        while (values := await cursor.fetchone()) is not None:
            got.append(values[0])
    assert got == list(range(6000))
    sql(f"DROP TABLE {name}")


async def test_a_pool_puts_away_what_was_killed(driver, gate, sql):
    options = {"host": "127.0.0.1", "port": gate.port, "user": "root", "db": gate.database, "autocommit": True}
    async with asyncio.timeout(scaled(TIMEOUT)):
        pool = await DRIVERS[driver].create_pool(minsize=1, maxsize=3, pool_recycle=100, **options)

        async def work(n: int) -> int:
            async with pool.acquire() as connection, connection.cursor() as cursor:
                await cursor.execute("SELECT %s + 1", (n,))
                return int((await cursor.fetchone())[0])

        assert await asyncio.gather(*(work(n) for n in range(40))) == list(range(1, 41))
        async with pool.acquire() as connection:
            sql(f"KILL {connection.thread_id()}")
            with pytest.raises(Exception, match=r"(?i)lost connection|gone away|not connected|killed|closed"):
                async with connection.cursor() as cursor:
                    await cursor.execute("SELECT 1")
            await connection.ping(reconnect=True)
            async with connection.cursor() as cursor:
                await cursor.execute("SELECT 2")
                assert await cursor.fetchone() == (2,)
        assert await work(7) == 8
        pool.close()
        await pool.wait_closed()


async def test_a_queue_in_plain_sql(connect, driver, gate):
    async with asyncio.timeout(scaled(TIMEOUT)):
        one, two = await connect(address_of(gate)), await connect(address_of(gate))
        queue = f"{driver}_queue"
        await one(f"DROP QUEUE IF EXISTS {queue}")
        await one(f"CREATE QUEUE {queue} (n INT, payload VARCHAR(100), body BLOB) WITH (ack_wait = '5m')")
        told = [f"enqueued {await _enqueue(one, queue)}"]
        told += await _receive(one, queue)
        told += await _settle(one, queue)
        told += await _stream(two, one, queue, STREAMING[driver])
        told += await _states(one, queue)
        await one(f"DROP QUEUE {queue}")
    assert [*told, DONE] == QUEUE_STORY


async def _enqueue(client: Client, queue: str) -> int:
    await client.connection.begin()
    await client.insert(queue, "n, payload, body", (0, "undone", None))
    await client.connection.rollback()
    await client.connection.begin()
    messages = [(10, "Größe 🎉 日本", b"\x00\xff"), (11, 'it\'s \\ "quoted" %s ?', None), (None, None, b"")]
    count = sum([await client.insert(queue, "n, payload, body", message) for message in messages])
    await client.connection.commit()
    return count


async def _receive(client: Client, queue: str) -> list[str]:
    columns = f"SELECT n, payload, body FROM STREAM {queue}"
    found = await client.values(f"{columns} LIMIT 2") + await client.values(f"{columns} LIMIT %s WAIT %s", 1, 10)
    lines = [
        " | ".join(
            ("row", *("NULL" if v is None else f"0x{v.hex()}" if isinstance(v, bytes) else str(v) for v in message))
        )
        for message in found
    ]
    for nothing in ("LIMIT 5 NOWAIT", "LIMIT 5 WAIT 0.1"):
        lines.append("due: " + ("something" if await client.values(f"{columns} {nothing}") else "nothing"))
    return lines


async def _settle(client: Client, queue: str) -> list[str]:
    lines = []
    for n in (10, 10, 11):
        ((id,),) = await client.values(f"SELECT id FROM {queue} WHERE n = %s", n)
        lines.append(f"acked {await client(f'ACK {queue} %s', id)}")
    await client.connection.begin()
    lines.append(f"acked {await client(f'ACK {queue} WHERE payload IS NULL')}")
    await client.connection.rollback()
    lines += await _states(client, queue)
    try:
        await client(f"ACK {queue}_missing 1")
    except Exception as error:
        lines.append(f"error {error.args[0]} 42S02")  # neither driver tells the state
    return lines


async def _stream(receiver: Client, other: Client, queue: str, streaming: Any) -> list[str]:
    """Row by row, each acked on the other connection before the next is sent; ended by KILL QUERY."""
    lines = []
    cursor = await receiver.connection.cursor(streaming).__aenter__()
    await cursor.execute(f"SELECT id, n FROM STREAM {queue}")
    for n in range(100, 105):
        await other(f"INSERT INTO {queue} (n) VALUES (%s)", n)
        id, got = await cursor.fetchone()
        lines.append(f"streamed {got}, acked {await other(f'ACK {queue} %s', id)}")
    await other(f"KILL QUERY {receiver.connection.thread_id()}")
    try:
        await cursor.fetchone()
    except Exception as error:
        lines.append(f"ended {error.args[0]} 70100")
    ((one,),) = await receiver.values("SELECT 1")
    return [*lines, f"goes on {one}"]


async def _states(client: Client, queue: str) -> list[str]:
    return [
        f"{state} {n}" for state, n in await client.values(f"SELECT state, COUNT(*) FROM {queue} GROUP BY 1 ORDER BY 1")
    ]
