"""A table of PostgreSQL with SKIP LOCKED: the statements of pgmq's functions send, read and delete, sent by psycopg.

pgmq itself is an extension that Debian does not have. Its `read` moves the visibility time of the rows that it takes,
in one statement; its `delete` removes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.queues.base import BATCH, LEASE, PAYLOAD, polled
from benchmarks.topics.logs import Lone
from benchmarks.topics.postgresql import DATABASE

_CREATE = """CREATE TABLE rival (msg_id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY, read_ct INT DEFAULT 0 NOT NULL,
 enqueued_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL, vt TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
 message TEXT)"""
_SEND = "INSERT INTO rival (message) SELECT unnest(%s::text[])"
_READ = f"""WITH cte AS (SELECT msg_id FROM rival WHERE vt <= clock_timestamp() ORDER BY msg_id ASC LIMIT %s
 FOR UPDATE SKIP LOCKED) UPDATE rival m SET vt = clock_timestamp() + INTERVAL '{LEASE}', read_ct = read_ct + 1
 FROM cte WHERE m.msg_id = cte.msg_id RETURNING m.msg_id, m.message"""
_DELETE = "DELETE FROM rival WHERE msg_id = ANY(%s)"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresQueue:
    """A table of a server of our own."""

    name: str = "PostgreSQL, as pgmq does it"
    port: int
    pid: int
    proxy_pid: None = None

    def _connect(self) -> Any:
        import psycopg

        return psycopg.connect(host="127.0.0.1", port=self.port, user="postgres", dbname=DATABASE, autocommit=True)

    def fill(self, messages: int) -> None:
        with self._connect() as link:
            link.execute("DROP TABLE IF EXISTS rival")
            link.execute(_CREATE)
            link.execute("CREATE INDEX ON rival (vt ASC)")
            link.execute(_SEND, ([PAYLOAD] * messages,))
            link.execute("VACUUM ANALYZE rival")

    def sender(self, messages: int) -> Callable[[], object]:
        link, batch = self._connect(), [PAYLOAD] * messages
        return lambda: link.execute(_SEND, (batch,))

    def receiver(self, acked: int, taken: int | None = None) -> Iterator[int]:
        link = self._connect()
        yield 0
        while True:
            ids = polled(lambda: _read(link, taken or BATCH))
            for start in range(0, len(ids), acked):
                yield link.execute(_DELETE, (ids[start : start + acked],)).rowcount

    def lone(self, group: str) -> Lone:
        link = self._connect()
        return Lone(
            lambda: None,
            self.sender(1),
            lambda: polled(lambda: _read(link, 1)),
            lambda ids: link.execute(_DELETE, (ids,)),
        )

    def statements(self) -> int | None:
        return None


def _read(link: Any, most: int) -> list[int]:
    return [row[0] for row in link.execute(_READ, (most,)).fetchall()]
