"""Every statement that the store runs for topics and their consumer groups. Values are bound, never spliced."""

from __future__ import annotations

from engine.model.queue import SOUGHT_COLUMN, QueueName, QueueSpec, TopicSpec, quoted
from engine.model.topics import FED_PRIORITY, POSITIONS_TABLE
from engine.store.statements.dialect import Dialect
from engine.store.statements.queue import placeholders

LATE_MAX = 1000
"""Ids out of holes that are read at once."""

UNREAD_COUNTED_MAX = 1_000_000
"""Unread messages of a group that are counted: a quarter of a second in MariaDB."""

_TRANSACTION_ID_MAX = (1 << 48) - 1  # beyond it InnoDB shows transactions that have written nothing

OPEN_TRANSACTIONS = (
    "SELECT MIN(CAST(trx_id AS UNSIGNED)), MAX(CAST(trx_id AS UNSIGNED)), SUM(trx_mysql_thread_id = CONNECTION_ID())"
    f" FROM information_schema.INNODB_TRX WHERE CAST(trx_id AS UNSIGNED) BETWEEN 1 AND {_TRANSACTION_ID_MAX}"
)
"""The smallest and the largest number of the open transactions that have written something, and whether our own is one
of them. Needs the PROCESS privilege.

The server shows what it has collected before, as long as somebody asks more often than ten times a second: so the list
may be old, and counts only where our own transaction is in it."""


def positions_of(database: str) -> str:
    """The database's table of positions."""
    return f"{quoted(database)}.{POSITIONS_TABLE}"


def create_positions(database: str) -> str:
    """The definition of that table, in MySQL's words."""
    return (
        f"CREATE TABLE IF NOT EXISTS {positions_of(database)} ("
        "group_table VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY, "
        "position BIGINT NOT NULL, highest BIGINT NOT NULL, holes MEDIUMTEXT NOT NULL"
        ") COMMENT='queuegate: how far each consumer group has read its topic'"
    )


class PositionStatements:
    """The texts for the position of one group. The parameter that names it is its table."""

    def __init__(self, dialect: Dialect, database: str) -> None:
        table = positions_of(database)
        self.exists = f"SELECT 1 FROM {table} LIMIT 0"
        """Fails if the table is not there."""

        self.read = f"SELECT position, highest, holes FROM {table} WHERE group_table = ?"
        self.lock = f"{self.read} {dialect.lock}".rstrip()
        """The same; whoever feeds this group, in whatever process, waits here for the other."""

        self.write = f"UPDATE {table} SET position = ?, highest = ?, holes = ? WHERE group_table = ?"
        self.delete = f"DELETE FROM {table} WHERE group_table = ?"
        self.insert = f"INSERT INTO {table} (position, highest, holes, group_table) VALUES (?, ?, ?, ?)"


class TopicStatements:
    """The texts for one topic."""

    def __init__(self, dialect: Dialect, topic: QueueName) -> None:
        table = topic.sql
        self._table = table
        self.now = f"SELECT {dialect.now_ns}"
        self.now_and_last = f"SELECT {dialect.now_ns}, COALESCE(MAX(id), 0) FROM {table}"
        self.bounds = f"SELECT MIN(id), MAX(id) FROM {table}"
        self.beyond = f"SELECT id, time_created FROM {table} WHERE id > ? ORDER BY id LIMIT ?"
        """The messages beyond an offset, in order, up to so many."""

        self.in_order = not dialect.lock
        """Whether ids become visible in their order: where a writing transaction has the database to itself."""

        self.newest = f"SELECT id FROM {table} ORDER BY id DESC LIMIT ?"
        """The last ids, descending."""

        since = f"SELECT id FROM {table} WHERE time_created >= ? ORDER BY time_created LIMIT 1000"
        self.first_since = f"SELECT MIN(id) FROM ({since}) AS since"
        """The first message that was enqueued at a time or after it. Ids and times may differ in order by some rows."""

        self.unread = f"SELECT COUNT(*) FROM (SELECT 1 FROM {table} WHERE id > ? LIMIT {UNREAD_COUNTED_MAX}) AS unread"

    def within(self, ranges: int) -> str:
        """The first ids in so many ranges."""
        ranged = " OR ".join(("id BETWEEN ? AND ?",) * ranges)
        return f"SELECT id FROM {self._table} WHERE {ranged} ORDER BY id LIMIT {LATE_MAX}"


class FeedStatements:
    """The texts for feeding one group."""

    def __init__(self, dialect: Dialect, group: QueueSpec, topic: TopicSpec) -> None:
        self.position = PositionStatements(dialect, group.name.database)
        self.topic = TopicStatements(dialect, topic.name)
        self._topic, self._group, self._now = topic.name.sql, group.name.sql, dialect.now_ns
        self.due = (
            f"SELECT COUNT(*) FROM (SELECT 1 FROM {self._group} WHERE time_acked IS NULL AND priority = {FED_PRIORITY}"
            f" AND time_next <= {dialect.now_ns} LIMIT ?) AS due"
        )
        """How many messages of the group are due, counted up to `?`. Feeding gives all of them one priority."""

        of_group = f"FROM {positions_of(group.name.database)} WHERE group_table = ?"
        self.waits = (
            f"SELECT CASE WHEN holes <> '[]' OR position < (SELECT COALESCE(MAX(id), 0) FROM {self._topic})"
            f" THEN 1 ELSE 0 END {of_group}"
        )
        """Whether there may be something to feed; no row where the group has no position."""

        self.beyond = (
            f"SELECT id, time_created FROM {self._topic} WHERE id > (SELECT position {of_group}) ORDER BY id LIMIT ?"
        )
        """The messages beyond the group's position, in order, up to so many."""

        self.empty = f"DELETE FROM {self._group}"
        names = [c.name for c in topic.columns if c.name.lower() not in topic.generated and group.column(c.name)]
        self._columns = [name for name in names if name.lower() not in group.generated]

    def copy(self, count: int) -> str:
        """Put messages into the group's queue. Parameters: the group's highest offset, the ids."""
        columns = [*map(quoted, self._columns), "priority", "time_next", SOUGHT_COLUMN]
        # Due by when they are fed, so that they come in the order of the offsets; what is scheduled comes at its time.
        due = f"CASE WHEN t.time_scheduled > {self._now} THEN t.time_scheduled ELSE {self._now} END"
        sought = "CASE WHEN t.id <= ? THEN 1 ELSE 0 END"
        values = [*(f"t.{quoted(name)}" for name in self._columns), str(FED_PRIORITY), due, sought]
        absent = f"NOT EXISTS (SELECT 1 FROM {self._group} AS g WHERE g.id = t.id)"
        return (
            f"INSERT INTO {self._group} ({', '.join(columns)}) SELECT {', '.join(values)} FROM {self._topic} AS t"
            f" WHERE t.id IN ({placeholders(count)}) AND {absent}"
        )
