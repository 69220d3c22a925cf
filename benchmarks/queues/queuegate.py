"""The queue of queuegate: a stream that is pushed to, acks by a second connection."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import Any

from pymysql.cursors import SSCursor

from benchmarks.queues.base import FILL, PAYLOAD, WINDOW
from benchmarks.steps.loads import StepQueue, inserts
from benchmarks.topics.logs import Lone


@dataclass(frozen=True, slots=True, kw_only=True)
class GateQueue(StepQueue):
    """On MariaDB or on the embedded database, where there is no server whose statements could be counted."""

    table: str = "rival_queue"

    def fill(self, messages: int) -> None:
        self.run(
            f"DROP QUEUE IF EXISTS {self.table}",
            f"CREATE QUEUE {self.table} (payload VARCHAR(300)) WITH (ack_wait = '10m')",
        )
        self.run(*(inserts(self.table, min(FILL, messages - start), PAYLOAD) for start in range(0, messages, FILL)))

    def sender(self, messages: int = 1) -> Callable[[], object]:
        cursor, sql = self.connect().cursor(), inserts(self.table, messages, PAYLOAD)
        return lambda: cursor.execute(sql)

    def receiver(self, acked: int, taken: int | None = None) -> Iterator[int]:
        rows, acks = self.connect(cursorclass=SSCursor).cursor(), self.connect().cursor()
        yield 0
        come: SimpleQueue[int] = SimpleQueue()
        threading.Thread(target=self._receive, args=(rows, come, taken or WINDOW), daemon=True).start()
        while True:
            yield acks.execute(f"ACK {self.table} {', '.join(map(str, next_ids(come, acked)))}")

    def _receive(self, rows: Any, come: SimpleQueue[int], window: int) -> None:
        rows.execute(f"SELECT id, payload FROM STREAM {self.table} WITH (prefetch = {window})")
        while row := rows.fetchone():
            come.put(row[0])

    def lone(self, group: str) -> Lone:
        return replace(StepQueue.lone(self, group), commit=self.sender())

    def statements(self) -> int | None:
        return StepQueue.statements(self) if self.database_port else None


def next_ids(come: SimpleQueue[int], most: int) -> list[int]:
    """What has come, at least one: others may have the rest of a backlog."""
    ids = [come.get()]
    with contextlib.suppress(Empty):
        while len(ids) < most:
            ids.append(come.get_nowait())
    return ids
