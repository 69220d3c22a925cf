"""One way to set up and inspect a queue's table on each kind of store, for the contract suite."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pymysql
from memory_store import COLUMNS, NAME, MemoryStore, Row, make_spec

from embedded.database.sqlite import SqliteDatabase
from embedded.database.store_pool import SqliteStorePool
from engine.backend.mysql import MySQLPool
from engine.backend.url import BackendUrl
from engine.clock import SystemClock
from engine.model.keyspaces import at_shard
from engine.model.options import QueueOptions, to_comment
from engine.model.queue import MessageId, QueueCatalog, QueueName, QueueSpec
from engine.store.base import MessageStore
from engine.store.sharded_store import ShardedStore
from engine.store.sql_store import SqlMessageStore

_SEQUENCE = re.compile(r"\bseq_(\d+)_to_(\d+)\b")  # MariaDB has such tables
_NUMBERS = (
    r"(WITH RECURSIVE n (seq) AS (SELECT \1 UNION ALL SELECT seq + 1 FROM n WHERE seq < \2) SELECT seq FROM n) AS x"
)
COMMENT = to_comment(QueueOptions())
SYSTEM = (
    "priority TINYINT DEFAULT 50, epoch BIGINT DEFAULT 0, time_next BIGINT DEFAULT 0, time_acked BIGINT,"
    " time_scheduled BIGINT, lease_token BIGINT NOT NULL DEFAULT 0"
)
INDEX = "INDEX by_due (time_acked, priority, time_next)"


class StoreBench(Protocol):
    """A store and, beside it, the table behind its queue `spec`."""

    store: MessageStore
    spec: QueueSpec
    locks: bool

    async def now_ns(self) -> int: ...

    async def add(self, *rows: Row) -> None: ...

    async def row(self, id_: MessageId) -> Row | None: ...

    async def ack(self, *ids: MessageId, at_ns: int | None = None) -> None: ...

    async def delete(self, id_: MessageId) -> None: ...

    async def lock(self, id_: MessageId) -> None: ...

    async def sibling(self, table: str) -> QueueSpec: ...

    async def close(self) -> None: ...


@dataclass
class MemoryBench:
    """The fake."""

    store: MemoryStore = field(default_factory=lambda: MemoryStore(SystemClock()))
    spec: QueueSpec = field(default_factory=make_spec)
    locks: bool = True

    def __post_init__(self) -> None:
        self.store.serve(self.spec)

    async def now_ns(self) -> int:
        return self.store.clock.now_ns()

    async def add(self, *rows: Row) -> None:
        self.store.add(*rows)

    async def row(self, id_: MessageId) -> Row | None:
        return self.store.tables[NAME].get(id_)

    async def ack(self, *ids: MessageId, at_ns: int | None = None) -> None:
        self.store.ack(*ids)
        for id_ in ids:
            self.store.tables[NAME][id_].time_acked = at_ns or self.store.clock.now_ns()

    async def delete(self, id_: MessageId) -> None:
        del self.store.tables[NAME][id_]

    async def lock(self, id_: MessageId) -> None:
        self.store.locked.add(id_)

    async def sibling(self, table: str) -> QueueSpec:
        """Another queue, empty, of the same columns."""
        other = make_spec(QueueName(NAME.database, table))
        self.store.serve(self.spec, other)
        return other

    async def close(self) -> None:
        await self.store.close()


class SqlBench:
    """What the stores in SQL share: the table is written with statements that both dialects read."""

    spec: QueueSpec
    locks = False
    table = "q"

    async def run(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    async def add(self, *rows: Row) -> None:
        columns = [column.name for column in COLUMNS]
        marks = ", ".join("?" * len(columns))
        for row in rows:
            values = [getattr(row, name) for name in columns]
            await self.run(f"INSERT INTO {self.table} ({', '.join(columns)}) VALUES ({marks})", values)

    async def row(self, id_: MessageId) -> Row | None:
        columns = ", ".join(column.name for column in COLUMNS)
        rows = await self.run(f"SELECT {columns} FROM {self.table} WHERE id = ?", (id_,))
        return Row(*rows[0]) if rows else None

    async def ack(self, *ids: MessageId, at_ns: int | None = None) -> None:
        marks = ", ".join("?" * len(ids))
        sql = f"UPDATE {self.table} SET time_acked = ?, time_next = NULL WHERE id IN ({marks})"
        await self.run(sql, (at_ns or await self.now_ns(), *ids))

    async def delete(self, id_: MessageId) -> None:
        await self.run(f"DELETE FROM {self.table} WHERE id = ?", (id_,))

    async def now_ns(self) -> int:
        return SystemClock().now_ns()

    async def lock(self, id_: MessageId) -> None:
        raise NotImplementedError("rows cannot be locked here")

    async def create(self, table: str) -> None:
        raise NotImplementedError

    async def sibling(self, table: str) -> QueueSpec:
        """Another queue, empty, of the same columns."""
        await self.create(table)
        return (await self.store.load_catalog(QueueCatalog())).queues[QueueName(self.spec.name.database, table)]


class SqliteBench(SqlBench):
    """The embedded database on a file of its own."""

    def __init__(self, database: SqliteDatabase) -> None:
        self.database = database
        self.store = SqlMessageStore.for_sqlite(SqliteStorePool(database))

    @classmethod
    async def open(cls, path: str, id_type: str = "INTEGER") -> SqliteBench:
        bench = cls(await SqliteDatabase.open(path))
        await bench.create("q", id_type)
        bench.spec = (await bench.store.load_catalog(QueueCatalog())).queues[QueueName("main", "q")]
        return bench

    async def create(self, table: str, id_type: str = "INTEGER", comment: str = COMMENT) -> None:
        """What CREATE QUEUE leaves in the file: the table, its comment, and its columns' MySQL types."""
        system = SYSTEM.replace("TINYINT", "INTEGER").replace("BIGINT", "INTEGER")
        await self.run(f"CREATE TABLE {table} (id {id_type} PRIMARY KEY, {system}, payload TEXT)")
        await self.run(f"CREATE INDEX {table}_by_due ON {table} (time_acked, priority, time_next)")
        await self.run("INSERT INTO queuegate_meta_tables VALUES (?, ?, 'table', '')", (table, comment))
        code, charset = {"INTEGER": (8, 63), "TEXT": (253, 45), "BLOB": (253, 63)}[id_type]
        types = [("id", code, charset)] + [(c.name, c.type, 63 if c.type < 9 else 45) for c in COLUMNS[1:]]
        order = ["id", "priority", "epoch", "time_next", "time_acked", "time_scheduled", "lease_token", "payload"]
        for ordinal, name in enumerate(order):
            _, code, charset = next(entry for entry in types if entry[0] == name)
            flags = next((column.flags for column in COLUMNS if column.name == name), 0)
            values = (table, ordinal, name, code, charset, 1024, flags, 0)
            await self.run("INSERT INTO queuegate_meta_columns VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)

    async def run(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return await self.database.write(lambda connection: connection.fetch_all(sql, params))

    async def close(self) -> None:
        await self.store.close()
        await self.database.close()


SHARDS = ("-80", "80-")


class _Whole(SqlMessageStore):
    """A store whose queues are over several shards."""

    async def load_catalog(self, previous: QueueCatalog, named: Collection[QueueName] | None = None) -> QueueCatalog:
        catalog = await super().load_catalog(previous, named)
        if catalog is previous:
            return previous
        queues = {name: replace(queue, shards=SHARDS) for name, queue in catalog.queues.items()}
        self._catalog.catalog = replace(catalog, queues=queues, sharded=frozenset(queues))
        return self._catalog.catalog


class ShardedBench(SqlBench):
    """A queue over two shards, each of which is an embedded database with a file of its own."""

    def __init__(self, parts: Sequence[SqliteBench]) -> None:
        self._parts = parts
        self.shards = {at_shard("main", name): part.store for name, part in zip(SHARDS, parts, strict=True)}
        whole = _Whole.for_sqlite(SqliteStorePool(parts[0].database))
        self.store: Any = ShardedStore(whole, self.shards.__getitem__)

    @classmethod
    async def open(cls, path: str) -> ShardedBench:
        parts = [await SqliteBench.open(f"{path}.{number}") for number in range(len(SHARDS))]
        for part in parts:  # whether a shard has a message is asked with its slot
            await part.run("ALTER TABLE q ADD COLUMN queuegate_slot INTEGER NOT NULL DEFAULT 0")
        bench = cls(parts)
        bench.spec = (await bench.store.load_catalog(QueueCatalog())).queues[QueueName("main", "q")]
        return bench

    async def create(self, table: str) -> None:
        for part in self._parts:
            await part.create(table)

    async def add(self, *rows: Row) -> None:
        for row in rows:
            await self._parts[int(str(row.id)) % len(SHARDS)].add(row)

    async def run(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return [row for part in self._parts for row in await part.run(sql, params)]

    async def close(self) -> None:
        await self.store.close()
        for part in self._parts:
            await part.close()


class MySQLBench(SqlBench):
    """A MySQL or MariaDB server; each bench has a database of its own."""

    locks = True

    def __init__(self, url: str) -> None:
        self.url = BackendUrl.parse(url)
        self.store = SqlMessageStore.for_mysql(MySQLPool(self.url, size=4))
        self.connection = self.connect(autocommit=True)
        self.mysql = "MariaDB" not in self.connection.get_server_info()
        if self.mysql:
            self.connection.cursor().execute("SET cte_max_recursion_depth = 1000000")
        self.lock_connection = threading.Lock()
        self.holder = self.connect(autocommit=False)

    def connect(self, **options: Any) -> Any:
        return pymysql.connect(
            host=self.url.host, port=self.url.port, user=self.url.user, database=self.url.database, **options
        )

    @classmethod
    async def open(cls, url: str, id_type: str = "BIGINT", columns: str = "payload VARCHAR(256)") -> MySQLBench:
        bench = cls(url)
        await bench.create("q", id_type, columns)
        assert bench.url.database is not None
        bench.spec = (await bench.store.load_catalog(QueueCatalog())).queues[QueueName(bench.url.database, "q")]
        return bench

    async def create(
        self, table: str, id_type: str = "BIGINT", columns: str = "payload VARCHAR(256)", comment: str = COMMENT
    ) -> None:
        await self.run(
            f"CREATE TABLE {table} (id {id_type} PRIMARY KEY, {SYSTEM}, {columns}, {INDEX}) COMMENT '{comment}'"
        )

    async def run(self, sql: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return await asyncio.to_thread(self._run, sql, params)

    def _run(self, sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        if self.mysql:
            sql = _SEQUENCE.sub(_NUMBERS, sql)
        with self.lock_connection, self.connection.cursor() as cursor:
            cursor.execute(sql.replace("?", "%s"), tuple(params) or None)
            return list(cursor.fetchall())

    async def lock(self, id_: MessageId) -> None:
        with self.holder.cursor() as cursor:
            cursor.execute(f"SELECT id FROM {self.table} WHERE id = %s FOR UPDATE", (id_,))

    async def close(self) -> None:
        self.holder.close()
        self.connection.close()
        await self.store.close()
