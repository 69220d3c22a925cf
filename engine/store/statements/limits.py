"""The SQL of limits: the rows that are locked for a claim, and what is in flight."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from engine.model.key_range import PARTS
from engine.model.queue import QueueSpec, quoted
from engine.model.states import in_flight
from engine.store.statements.dialect import Dialect, placeholders

_ROW_NAME_MAX = 64  # characters of `queue_name`


def part_row(table: str, part: int) -> str:
    """The name of the row that stands for a part of the ring of that queue. Another queue that has the same name would
    only wait for its claims."""
    suffix = f":{part:02x}"
    if len(table) + len(suffix) > _ROW_NAME_MAX:
        table = hashlib.md5(table.encode(), usedforsecurity=False).hexdigest()
    return table + suffix


class LimitStatements:
    """The texts for one queue."""

    def __init__(self, dialect: Dialect, queue: QueueSpec) -> None:
        database, table = quoted(queue.name.database), dialect.gate.of(queue)
        limits = dialect.gate.own(queue.name.database, "queuegate_limits")
        condition = in_flight(dialect.now_ns, dialect.mark)
        self.make = dialect.make_limits.format(database=database)
        """Creates the table of limits, if there is none."""

        self.proof = limits.proof
        """Sent before `add`."""

        self.add = dialect.add_limits.format(database=database)
        """Creates the queue's row in it, if there is none."""

        self.add_parts = self.add + ", (?)" * (PARTS - 1)
        """Creates the rows of the parts of its ring, those of them that there are none of."""

        self.lock = f"SELECT arrival_ns FROM {limits} WHERE queue_name = ? {dialect.lock}".rstrip()
        """The queue's row, locked: concurrent claims of this queue, in any process, wait here."""

        self.locks_parts = bool(dialect.share)
        """Whether parts are locked apart: not where a writing transaction is alone."""

        self.share = f"SELECT arrival_ns FROM {limits} WHERE queue_name = ? {dialect.share}".rstrip()
        """The same row, locked so that others may lock it in this way too."""

        forced = limits.forced(dialect.force_index.format(table="queuegate_limits", index="PRIMARY"))
        self._parts = f"SELECT arrival_ns FROM {forced} WHERE queue_name IN"
        self._lock, self._name = dialect.lock, queue.name.table

        self.charge = f"UPDATE {limits} SET arrival_ns = ? WHERE queue_name = ?"
        """Store the state of the rate limit."""

        self.in_flight = f"SELECT COUNT(*) FROM (SELECT 1 FROM {table} WHERE {condition} LIMIT ?) AS held"
        """How many messages are in flight, counted up to `?`."""

        self.first_end = f"SELECT MIN(time_next) FROM {table} WHERE {condition}"
        """When the first of their leases ends."""

    def part_rows(self, parts: Sequence[int]) -> list[str]:
        """The names of the rows of these parts."""
        return [part_row(self._name, part) for part in parts]

    def lock_parts(self, count: int) -> str:
        """So many rows of parts, locked in their order. By their primary key: a scan would wait for those of others.
        MySQL scans the index where it has all columns that are selected, also where it is forced."""
        return f"{self._parts} ({placeholders(count)}) ORDER BY queue_name {self._lock}"
