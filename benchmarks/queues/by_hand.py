"""A table of the same server with SKIP LOCKED, without queuegate, as one writes it by hand when one is in earnest.

A receiver claims rows in a short transaction and marks them as taken for some time; it works; it marks them as done. So
whoever dies gives his rows back, and nobody holds a transaction open for as long as he works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pymysql

from benchmarks.queues.base import BATCH, FILL, LEASE, PAYLOAD, polled
from benchmarks.steps.loads import inserts
from benchmarks.topics.logs import Lone
from tests.servers import DATABASE

TABLE = "rival_table"
_DONE = 2  # 0: waiting, 1: taken


@dataclass(frozen=True, slots=True, kw_only=True)
class TableByHand:
    """Its port leads to the database directly."""

    name: str
    port: int
    pid: int
    proxy_pid: None = None

    def _cursor(self) -> Any:
        return pymysql.connect(
            host="127.0.0.1", port=self.port, user="root", database=DATABASE, autocommit=True, ssl_disabled=True
        ).cursor()

    def fill(self, messages: int) -> None:
        cursor = self._cursor()
        cursor.execute(f"DROP TABLE IF EXISTS {TABLE}")
        cursor.execute(
            f"CREATE TABLE {TABLE} (id BIGINT AUTO_INCREMENT PRIMARY KEY, payload VARCHAR(300),"
            " taken INT NOT NULL DEFAULT 0, until DATETIME, KEY waiting (taken, id))"
        )
        for start in range(0, messages, FILL):
            cursor.execute(inserts(TABLE, min(FILL, messages - start), PAYLOAD))

    def sender(self, messages: int) -> Callable[[], object]:
        cursor = self._cursor()
        sql = inserts(TABLE, messages, PAYLOAD)
        return lambda: cursor.execute(sql)

    def receiver(self, acked: int, taken: int | None = None) -> Iterator[int]:
        cursor = self._cursor()
        yield 0
        while True:
            ids = polled(lambda: _claimed(cursor, taken or BATCH))
            for start in range(0, len(ids), acked):
                yield _done(cursor, ids[start : start + acked])

    def lone(self, group: str) -> Lone:
        cursor = self._cursor()
        return Lone(
            lambda: None, self.sender(1), lambda: polled(lambda: _claimed(cursor, 1)), lambda ids: _done(cursor, ids)
        )

    def statements(self) -> int | None:
        cursor = self._cursor()
        cursor.execute("SHOW GLOBAL STATUS LIKE 'Questions'")
        ((_, count),) = cursor.fetchall()
        return int(count)


def _claimed(cursor: Any, most: int) -> list[int]:
    cursor.execute("BEGIN")
    cursor.execute(f"SELECT id, payload FROM {TABLE} WHERE taken = 0 ORDER BY id LIMIT {most} FOR UPDATE SKIP LOCKED")
    ids = [row[0] for row in cursor.fetchall()]
    if ids:
        cursor.execute(f"UPDATE {TABLE} SET taken = 1, until = NOW() + INTERVAL {LEASE} WHERE id IN ({_list(ids)})")
    cursor.execute("COMMIT")
    return ids


def _done(cursor: Any, ids: list[int]) -> int:
    return int(cursor.execute(f"UPDATE {TABLE} SET taken = {_DONE} WHERE id IN ({_list(ids)})"))


def _list(ids: list[int]) -> str:
    return ", ".join(map(str, ids))
