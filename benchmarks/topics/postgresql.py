"""A log in a table of PostgreSQL, as one writes it by hand with psycopg: the place of a group is a row that it locks.

It is the cheapest that there is: a group has one reader at a time, has no retries, and passes over a row whose
transaction commits after one with a larger id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.topics.logs import FILL_BATCH, PAYLOAD, Lone

DATABASE = "postgres"
_INSERT = "INSERT INTO bench (payload) VALUES (%s)"
_PLACE = "SELECT place FROM places WHERE reader = %s FOR UPDATE"
_NEXT = "SELECT id, payload FROM bench WHERE id > %s ORDER BY id LIMIT %s"
_MOVE = "UPDATE places SET place = %s WHERE reader = %s"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresTable:
    """A table of a server of our own."""

    name: str = "PostgreSQL, a table by hand, psycopg"
    port: int
    pid: int
    proxy_pid: None = None

    def _connect(self, *, autocommit: bool = True) -> Any:
        import psycopg

        return psycopg.connect(
            host="127.0.0.1", port=self.port, user="postgres", dbname=DATABASE, autocommit=autocommit
        )

    def fill(self, messages: int) -> None:
        with self._connect() as link:
            link.execute("DROP TABLE IF EXISTS bench, places")
            link.execute(
                "CREATE TABLE bench (id BIGSERIAL PRIMARY KEY, payload VARCHAR(300), made TIMESTAMP DEFAULT now())"
            )
            link.execute("CREATE TABLE places (reader TEXT PRIMARY KEY, place BIGINT NOT NULL)")
            link.execute("INSERT INTO bench (payload) SELECT %s FROM generate_series(1, %s)", (PAYLOAD, messages))

    def join(self, group: str, messages: int) -> None:
        with self._connect() as link:
            link.execute("INSERT INTO places VALUES (%s, 0)", (group,))

    def leave(self, group: str) -> None:
        with self._connect() as link:
            link.execute("DELETE FROM places WHERE reader = %s", (group,))

    def sender(self) -> Callable[[], object]:
        link = self._connect()
        return lambda: link.execute(_INSERT, (PAYLOAD,))

    def reader(self, group: str, batch: int) -> Iterator[int]:
        link = self._connect(autocommit=False)
        yield 0
        while True:
            ((place,),) = link.execute(_PLACE, (group,)).fetchall()
            rows = link.execute(_NEXT, (place, batch)).fetchall()
            link.execute(_MOVE, (rows[-1][0], group))
            link.commit()
            yield len(rows)

    def scanner(self) -> Iterator[int]:
        link = self._connect(autocommit=False)
        yield 0
        with link.cursor("scan") as cursor:  # a cursor at the server
            cursor.execute("SELECT id, payload FROM bench ORDER BY id")
            while rows := cursor.fetchmany(FILL_BATCH):
                yield len(rows)

    def lone(self, group: str) -> Lone:
        producer, receiver = self._connect(autocommit=False), self._connect()
        receiver.execute("LISTEN bench")
        notices = receiver.notifies()
        other = self._connect(autocommit=False)

        def write() -> None:
            producer.execute(_INSERT, (PAYLOAD,))
            producer.execute("NOTIFY bench")

        def receive() -> Any:
            next(notices)
            ((place,),) = other.execute(_PLACE, (group,)).fetchall()
            return other.execute(_NEXT, (place, 1)).fetchall()[0][0]

        def ack(id_: Any) -> None:
            other.execute(_MOVE, (id_, group))
            other.commit()

        return Lone(write, producer.commit, receive, ack)

    def statements(self) -> int | None:
        return None
