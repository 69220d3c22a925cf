"""A queue in a keyspace of a Vitess: that of queuegate, and Vitess's own, both by the MySQL protocol.

Vitess's own: a table of messages, `STREAM * FROM` by the vtgate, and the UPDATE that its documentation has for an ack.
https://vitess.io/docs/reference/features/messaging/
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import pymysql
from pymysql.cursors import SSCursor

from benchmarks.queues.base import FILL, PAYLOAD
from benchmarks.queues.queuegate import GateQueue, next_ids
from benchmarks.queues.targets import ON_VITESS, VITESS_OWN
from benchmarks.topics.logs import Lone
from tests.servers import Gate, Sql, wait_until
from tests.vitess_server import SHARDED, Vitess

_TABLE = "rival_messages_"  # and a number
_COMMENT = (
    "vitess_message,vt_ack_wait={seconds},vt_purge_after=86400,vt_batch_size=1000,vt_cache_size=50000,"
    "vt_poller_interval=1,vt_min_backoff={seconds},vt_max_backoff=6000"
)
_CREATE = (
    "CREATE TABLE {table} (id BIGINT NOT NULL PRIMARY KEY, priority BIGINT NOT NULL DEFAULT 0,"
    " epoch BIGINT NOT NULL DEFAULT 0, time_next BIGINT DEFAULT 0, time_acked BIGINT, payload VARCHAR(300),"
    " KEY next_idx (priority, time_next DESC), KEY ack_idx (time_acked)) COMMENT '" + _COMMENT + "'"
)
_DRAIN_SECONDS, _LONE_SECONDS = 600, 5
_LONE_FROM = 1_000_000_000  # ids of messages that come behind a backlog


@dataclass(frozen=True, slots=True, kw_only=True)
class OurQueue(GateQueue):
    """In a keyspace of several shards it has a sharding key."""

    keyspace: str

    def connect(self, **options: Any) -> pymysql.Connection[Any]:
        return GateQueue.connect(self, **{"database": self.keyspace, **options})

    def fill(self, messages: int) -> None:
        key = ", k BIGINT NOT NULL) SHARDING KEY (k)" if self._sharded else ")"
        self.run(
            f"DROP QUEUE IF EXISTS {self.table}",
            f"CREATE QUEUE {self.table} (payload VARCHAR(300){key} WITH (ack_wait = '10m')",
        )
        # One statement's rows go to one shard.
        starts = range(0, messages, FILL)
        self.run(*(self._insert(min(FILL, messages - start), start) for start in starts))

    def _insert(self, rows: int, key: int) -> str:
        if not self._sharded:
            return f"INSERT INTO {self.table} (payload) VALUES " + ", ".join([f"('{PAYLOAD}')"] * rows)
        return f"INSERT INTO {self.table} (payload, k) VALUES " + ", ".join([f"('{PAYLOAD}', {key})"] * rows)

    def sender(self, messages: int = 1) -> Callable[[], object]:
        cursor, keys = self.connect().cursor(), itertools.count()
        return lambda: cursor.execute(self._insert(messages, next(keys)))

    def statements(self) -> int | None:
        return None  # a vtgate does not tell

    @property
    def _sharded(self) -> bool:
        return self.keyspace == SHARDED


@dataclass(frozen=True, slots=True, kw_only=True)
class VitessMessages:
    """Its port leads to the vtgate, and its process is that of the vtgate and the tablets."""

    name: str
    port: int
    pid: int
    keyspace: str
    proxy_pid: None = None

    def connect(self, **options: Any) -> pymysql.Connection[Any]:
        return pymysql.connect(
            **{"host": "127.0.0.1", "port": self.port, "user": "root", "database": self.keyspace, "autocommit": True,
               **options}
        )  # fmt: skip

    def fill(self, messages: int) -> None:
        # A table of another name each time. The vtgate notices that a receiver is gone when it cannot send to it any
        # more; until then its stream goes on, also in a table of that name that is made anew, and takes messages that
        # nobody gets before they are sent again.
        client = Sql(self.connect())
        for table in _tables(client):
            client(f"DROP TABLE {table}")
        table = f"{_TABLE}{time.time_ns()}"
        # Some lone messages are sent only after the wait for an ack of the first time.
        client(_CREATE.format(table=table, seconds=_DRAIN_SECONDS if messages else _LONE_SECONDS))
        if self.keyspace == SHARDED:
            client(f"ALTER VSCHEMA ON {SHARDED}.{table} ADD VINDEX binary_md5 (id) USING binary_md5")
        wait_until(lambda: _is_known(client, table), what="the vtgate to know the table")
        for start in range(0, messages, FILL):
            client(_inserted(table, range(start, min(start + FILL, messages))))
        client.close()

    def sender(self, messages: int) -> Callable[[], object]:
        cursor, ids = self.connect().cursor(), itertools.count(_LONE_FROM)
        table = self._table()
        return lambda: cursor.execute(_inserted(table, [next(ids) for _ in range(messages)]))

    def receiver(self, acked: int, taken: int | None = None) -> Iterator[int]:
        rows, acks = self.connect(cursorclass=SSCursor).cursor(), self.connect().cursor()
        table = self._table()
        yield 0
        come: SimpleQueue[int] = SimpleQueue()
        threading.Thread(target=_receive, args=(rows, table, come), daemon=True).start()
        while True:
            yield acks.execute(_ack(table, next_ids(come, acked)))

    def lone(self, group: str) -> Lone:
        rows, acks = self.connect(cursorclass=SSCursor).cursor(), self.connect().cursor()
        table = self._table()
        _begin(rows, table)
        return Lone(
            lambda: None, self.sender(1), lambda: rows.fetchone()[0], lambda id_: acks.execute(_ack(table, [id_]))
        )

    def _table(self) -> str:
        client = Sql(self.connect())
        (table,) = _tables(client)
        client.close()
        return table

    def statements(self) -> int | None:
        return None  # a vtgate does not tell


def ours(keyspace: str, gate: Gate, server: Vitess) -> OurQueue:
    """Through this proxy."""
    assert gate.process is not None
    return OurQueue(
        name=ON_VITESS, port=gate.port, pid=server.process_ids[0], proxy_pid=gate.process.pid,
        database_port=server.port, keyspace=keyspace,
    )  # fmt: skip


def theirs(keyspace: str, server: Vitess) -> VitessMessages:
    """By the vtgate itself."""
    return VitessMessages(name=VITESS_OWN, port=server.port, pid=server.process_ids[0], keyspace=keyspace)


def _tables(client: Sql) -> list[str]:
    return [str(name) for name in client.column(f"SHOW TABLES LIKE '{_TABLE}%'")]


def _receive(rows: Any, table: str, come: SimpleQueue[int]) -> None:
    _begin(rows, table)
    while row := rows.fetchone():
        come.put(row[0])


def _begin(rows: Any, table: str) -> None:
    rows.execute("SET workload = 'olap'")
    rows.execute(f"STREAM * FROM {table}")


def _ack(table: str, ids: list[int]) -> str:
    return (
        f"UPDATE {table} SET time_acked = {time.time_ns()}, time_next = NULL"
        f" WHERE id IN ({', '.join(map(str, ids))}) AND time_acked IS NULL"
    )


def _inserted(table: str, ids: list[int] | range) -> str:
    now = time.time_ns()
    return f"INSERT INTO {table} (id, time_next, payload) VALUES " + ", ".join(
        f"({id_}, {now}, '{PAYLOAD}')" for id_ in ids
    )


def _is_known(client: Sql, table: str) -> bool:
    try:
        client(f"DELETE FROM {table} WHERE id = 0")
    except pymysql.MySQLError:
        return False
    return True
