"""Statements for topics that are partitioned by RANGE of their id. MySQL, MariaDB."""

from __future__ import annotations

import re

from engine.model.queue import TopicSpec, quoted
from engine.model.topic_partitions import COPIED_MAX, Division, Partition, partition_list
from engine.store.statements.dialect import Dialect

PAGE = 10_000
"""Messages that are counted at once: some milliseconds."""

NO_SUCH_PARTITION = 1507

_NEXT_ID = re.compile(r"\n\) ENGINE=\w+ (?:[^'\n]* )?AUTO_INCREMENT=(\d+)")


def next_id(definition: str) -> int:
    """The id that the next message gets, from the output of SHOW CREATE TABLE."""
    match = _NEXT_ID.search(definition)
    return 1 if match is None else int(match[1])


class TopicPartitionStatements:
    """The texts for one topic."""

    def __init__(self, dialect: Dialect, topic: TopicSpec) -> None:
        self.table = table = dialect.gate.of(topic)
        self.definition = f"SHOW CREATE TABLE {table.target}"
        self.lock = f"LOCK TABLES {table.target} WRITE"
        self.may_drop = f"ALTER TABLE {table.target} DROP PARTITION {quoted('queuegate none')}"
        """Fails with 1507, because there is no such partition, if the account may drop partitions."""

    def divide(self, division: Division) -> str:
        """Make partitions."""
        new = partition_list(division.new)
        if not division.old:
            return f"ALTER TABLE {self.table.target} ADD PARTITION {new}"
        return f"ALTER TABLE {self.table.target} REORGANIZE PARTITION {', '.join(map(quoted, division.old))} INTO {new}"

    def drop(self, partition: Partition) -> str:
        """Delete all of it."""
        return f"ALTER TABLE {self.table.target} DROP PARTITION {quoted(partition.name)}"

    def messages(self, partition: Partition) -> str:
        """How many are in it, counted up to one more than are copied."""
        return f"SELECT COUNT(*) FROM (SELECT 1 FROM {self._of(partition)} LIMIT {COPIED_MAX + 1}) AS messages"

    def young(self, partition: Partition) -> str:
        """Whether a message in it was written at `?` or later."""
        return f"SELECT 1 FROM {self._of(partition)} WHERE time_created >= ? LIMIT 1"

    def page(self, partition: Partition) -> str:
        """Of the next messages in it beyond an id: how many, the first and the last id, and the newest time."""
        page = f"SELECT id, time_created, time_scheduled FROM {self._of(partition)} WHERE id > ? ORDER BY id LIMIT ?"
        newest = "GREATEST(MAX(time_created), MAX(time_scheduled))"
        return f"SELECT COUNT(*), MIN(id), MAX(id), {newest} FROM ({page}) AS page"

    def count(self, ranges: int) -> str:
        """How many messages there are in so many ranges of ids."""
        ranged = " OR ".join(("id BETWEEN ? AND ?",) * ranges)
        return f"SELECT COUNT(*) FROM {self.table} WHERE {ranged}"

    def _of(self, partition: Partition) -> str:
        return self.table.partition((partition.name,))
