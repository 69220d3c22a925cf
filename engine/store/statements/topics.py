"""Every statement that the store runs for topics and their consumer groups. Values are bound, never spliced."""

from __future__ import annotations

from collections.abc import Mapping

from engine.model.lease_token import TOKEN_COLUMN
from engine.model.queue import (
    SEQUENCE_COLUMN,
    SOUGHT_COLUMN,
    UNFED_COLUMNS,
    Condition,
    QueueName,
    QueueSpec,
    TopicSpec,
    quoted,
)
from engine.model.states import REJECTED_NS
from engine.model.topics import FED_PRIORITY, POSITIONS_TABLE
from engine.store.statements.dialect import Dialect, placeholders
from engine.store.statements.scan import is_true

LATE_MAX = 1000
"""Ids out of holes that are read at once."""

MESSAGES_COUNTED_MAX = 10_000
"""Messages of a topic that are counted: some milliseconds."""

UNREAD_COUNTED_MAX = 1_000_000
"""Unread messages of a group that are counted: a quarter of a second in MariaDB."""

_FILTER_SECONDS_MAX = 10

_SIZED = 1000  # messages whose size stands for that of all

_TRANSACTION_ID_MAX = (1 << 48) - 1  # beyond it InnoDB shows transactions that have written nothing

OPEN_TRANSACTIONS = (
    "SELECT MIN(CAST(trx_id AS UNSIGNED)), MAX(CAST(trx_id AS UNSIGNED)),"
    " SUM(trx_mysql_thread_id = CONNECTION_ID() AND LOCATE(?, trx_query) > 0)"
    f" FROM information_schema.INNODB_TRX WHERE CAST(trx_id AS UNSIGNED) BETWEEN 1 AND {_TRANSACTION_ID_MAX}"
)
"""The smallest and the largest number of the open transactions that have written something, and whether this session's
is one of them. Parameter: a number that no other statement has. Needs the PROCESS privilege.

The server caches the list while it is queried more often than ten times a second: so the list may be old, and is only
valid if this session's transaction is in it, with exactly this statement. An earlier transaction of the same connection
may be in an old list, too."""


UNNUMBERED_COUNTED_MAX = 10_000
"""Messages without a number that are counted."""

_LAST_ID = "SELECT seq FROM sqlite_sequence WHERE name = ?"

_AROUND = 100_000  # offsets before a message that are looked through for those of messages that are younger


def offset_column(topic: TopicSpec) -> str:
    """The column that a topic is read by."""
    return SEQUENCE_COLUMN if topic.sequenced else "id"


def numbers_of(dialect: Dialect, topic: TopicSpec) -> str:
    """The table, after FROM, with its index on the numbers forced. By statistics of a time when many messages had none
    a server would read all of the table to find one that has none."""
    key = _numbers_index(topic)
    if not key or not dialect.force_index:
        return str(dialect.gate.of(topic))
    forced = dialect.force_index.format(table=quoted(topic.name.table), index=quoted(key))
    return dialect.gate.of(topic).forced(forced)


def _numbers_index(topic: TopicSpec) -> str:
    """The name of the index on the numbers of a topic that has some; empty where there is none."""
    return next((index.name for index in topic.indexes if index.unique and index.columns == (SEQUENCE_COLUMN,)), "")


def create_positions(database: str) -> str:
    """The definition of that table, in MySQL's syntax."""
    return (
        f"CREATE TABLE IF NOT EXISTS {QueueName(database, POSITIONS_TABLE).sql} ("
        "group_table VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY, "
        "position BIGINT NOT NULL, highest BIGINT NOT NULL, holes MEDIUMTEXT NOT NULL, lost BIGINT NOT NULL DEFAULT 0"
        ") ENGINE=InnoDB COMMENT='queuegate: how far each consumer group has read its topic'"
    )


class PositionStatements:
    """The texts for the position of one group. The parameter that names it is its table."""

    def __init__(self, dialect: Dialect, database: str) -> None:
        table = dialect.gate.own(database, POSITIONS_TABLE)
        self.exists = f"SELECT 1 FROM {table} LIMIT 0"
        """Fails if the table is not there."""

        self.read = f"SELECT position, highest, holes FROM {table} WHERE group_table = ?"
        self.lock = f"{self.read} {dialect.lock}".rstrip()
        """The same, locked; concurrent feeds of this group, in any process, wait here."""

        self.write = f"UPDATE {table} SET position = ?, highest = ?, holes = ? WHERE group_table = ?"
        self.delete = table.delete("group_table = ?")
        self.insert = f"INSERT INTO {table.target} (position, highest, holes, group_table) VALUES (?, ?, ?, ?)"
        self.lost = f"SELECT lost FROM {table} WHERE group_table = ?"
        """How many messages retention deleted before the group had read them, since the group was created."""

        self.lose = f"UPDATE {table} SET lost = lost + ? WHERE group_table = ?"
        self.shared = bool(dialect.lock)
        """Whether other processes, too, may make groups."""

        self.all = f"SELECT group_table FROM {table}"
        """The groups of the database that have positions; some of them may be dropped."""


class TopicStatements:
    """The texts for one topic. An offset is an id, or the number of a message (`sequenced`). A message that has no
    number yet has no offset, and is not read; of those that have one, none becomes visible late."""

    def __init__(self, dialect: Dialect, topic: TopicSpec) -> None:
        table, offset = dialect.gate.of(topic), offset_column(topic)
        self.table, self._offset, self.sequenced = table, offset, topic.sequenced
        self.now_and_last = f"SELECT {dialect.now_ns}, COALESCE(MAX({offset}), 0) FROM {table}"
        self.bounds = f"SELECT MIN({offset}), MAX({offset}) FROM {table}"
        self.beyond = f"SELECT {offset}, time_created FROM {table} WHERE {offset} > ? ORDER BY {offset} LIMIT ?"
        """The messages beyond an offset, in order, up to so many."""

        self.in_order = topic.sequenced or not dialect.lock
        """Whether offsets become visible in their order: as numbers do, and ids where a writing transaction has the
        database to itself."""

        self.last_assigned = PositionStatements(dialect, topic.name.database).read if topic.sequenced else _LAST_ID
        """Where they do: the largest that was assigned, by the name of the topic's table."""

        self.newest = f"SELECT {offset}, time_created FROM {table} ORDER BY {offset} DESC LIMIT ?"
        """The last messages, descending."""

        since = f"SELECT {offset} FROM {table} WHERE time_created >= ? ORDER BY time_created LIMIT 1000"
        self.first_since = f"SELECT MIN({offset}) FROM ({since}) AS since"
        """The first message that was enqueued at a time or after it. Offsets and times may differ in order, also by
        many rows, so that `first_around` is asked, too."""

        before = f"SELECT {offset}, time_created FROM {table} WHERE {offset} < ? ORDER BY {offset} DESC LIMIT {_AROUND}"
        self.first_around = f"SELECT MIN({offset}) FROM ({before}) AS around WHERE time_created >= ?"
        """The first message that was enqueued at a time or after it, of those before an offset."""

        unread = f"SELECT 1 FROM {table} WHERE {offset} > ? LIMIT {UNREAD_COUNTED_MAX}"
        self.unread = f"SELECT COUNT(*) FROM ({unread}) AS unread"
        numbers = f"{numbers_of(dialect, topic)} WHERE {SEQUENCE_COLUMN} IS NULL"
        unnumbered = f"SELECT time_created FROM {numbers} LIMIT {UNNUMBERED_COUNTED_MAX}"
        self.unnumbered = f"SELECT COUNT(*), MIN(time_created) FROM ({unnumbered}) AS unnumbered"
        """How many messages have no number yet, counted up to a bound, and when the first of them was written."""

        self.messages = f"SELECT COUNT(*) FROM (SELECT 1 FROM {table} LIMIT {MESSAGES_COUNTED_MAX}) AS messages"
        self.bytes = dialect.table_bytes
        """The size of the table, by its database and name; empty where that is not known."""

    @property
    def definition(self) -> str:
        """Has the next id, from the counter itself: MySQL's information_schema may show that of a day ago."""
        return f"SHOW CREATE TABLE {self.table.target}"

    def within(self, ranges: int) -> str:
        """The first offsets in so many ranges."""
        ranged = " OR ".join((f"{self._offset} BETWEEN ? AND ?",) * ranges)
        return f"SELECT {self._offset} FROM {self.table} WHERE {ranged} ORDER BY {self._offset} LIMIT {LATE_MAX}"


class RetentionStatements:
    """The statements for messages beyond a topic's retention, by offsets: messages without one are retained."""

    def __init__(self, dialect: Dialect, topic: TopicSpec) -> None:
        self._gate, self._offset, self._sequenced = dialect.gate, offset_column(topic), topic.sequenced
        self.table = dialect.gate.of(topic)
        self._index = _numbers_index(topic) if topic.sequenced else self.table.key
        by_time = f"SELECT {self._offset} FROM {self.table} WHERE time_created < ? AND time_scheduled < ?"
        numbered = f" AND {self._offset} IS NOT NULL" if topic.sequenced else ""
        self.older = f"{by_time}{numbered} ORDER BY time_created LIMIT ?"
        """The first messages that were written and due before a time."""

        offset = self._offset
        self.up_to = f"SELECT {offset} FROM {self.table} WHERE {offset} <= ? ORDER BY {offset} LIMIT ?"
        """The first messages up to an offset."""

        size = " + ".join(f"COALESCE(LENGTH({quoted(column.name)}), 0)" for column in topic.columns)
        newest = f"SELECT {size} AS size FROM {self.table} ORDER BY {self._offset} DESC LIMIT {_SIZED}"
        self.size = f"SELECT AVG(size) FROM ({newest}) AS newest"
        """Bytes of a message, on average of the last ones."""

        self._skip_locked = dialect.skip_locked

    def locked(self, count: int) -> str:
        """Those of so many messages, by their offsets, that can be locked at once, locked."""
        rows = f"{self.table} WHERE {self._offset} IN ({placeholders(count)})"
        return f"SELECT {self._offset} FROM {rows} {self._skip_locked}".rstrip()

    def delete(self, count: int) -> str:
        """Delete so many messages by their offsets."""
        return self.table.delete(f"{self._offset} IN ({placeholders(count)})", index=self._index)

    def first_undone(self, group: QueueSpec) -> str:
        """The smallest offset that a group has in its queue; NULL where it has none."""
        if not self._sequenced:
            return f"SELECT MIN(id) FROM {self._gate.of(group)}"
        joined = f"{self._gate.of(group).as_('g')} JOIN {self.table.as_('t')} ON t.id = g.id"
        return f"SELECT MIN(t.{self._offset}) FROM {joined}"


class FeedStatements:
    """The texts for feeding one group."""

    def __init__(
        self, dialect: Dialect, group: QueueSpec, topic: TopicSpec, condition: Condition | None = None
    ) -> None:
        self.group, self.topic_spec, self.condition = group, topic, condition
        self.position = PositionStatements(dialect, group.name.database)
        self.topic = TopicStatements(dialect, topic)
        self.topic_table, self.group_table, self._now = dialect.gate.of(topic), dialect.gate.of(group), dialect.now_ns
        self._offset = offset = offset_column(topic)
        self.due = (
            f"SELECT COUNT(*) FROM (SELECT 1 FROM {self.group_table} WHERE time_acked IS NULL"
            f" AND priority = {FED_PRIORITY} AND time_next <= {dialect.now_ns} LIMIT ?) AS due"
        )
        """How many messages of the group are due, counted up to `?`. Feeding gives all of them one priority."""

        of_group = f"FROM {dialect.gate.own(group.name.database, POSITIONS_TABLE)} WHERE group_table = ?"
        self.waits = (
            f"SELECT CASE WHEN holes <> '[]' OR position < (SELECT COALESCE(MAX({offset}), 0) FROM {self.topic_table})"
            f" THEN 1 ELSE 0 END {of_group}"
        )
        """Whether there may be something to feed; no row where the group has no position."""

        self.beyond = (
            f"SELECT {offset}, time_created FROM {self.topic_table} WHERE {offset} > (SELECT position {of_group})"
            f" ORDER BY {offset} LIMIT ?"
        )
        """The messages beyond the group's position, in order, up to so many."""

        waiting = f"FROM {self.group_table} WHERE time_acked IS NULL"
        self.queue_state = (
            f"SELECT (SELECT MIN(priority) {waiting}), (SELECT MAX(priority) {waiting}), (SELECT time_next {waiting}"
            f" AND priority = {FED_PRIORITY} ORDER BY time_next LIMIT 1), (SELECT MAX(id) FROM {self.group_table})"
        )
        """Of what the group has in its queue: the smallest and the largest priority, the first time at which a message
        of the usual one falls due, and the largest id. Each is one seek in an index."""

        self.empty = self.group_table.delete(f"time_acked IS NOT NULL OR COALESCE(time_next, 0) <> {REJECTED_NS}")
        """Delete what the group has in its queue, but for rejected messages, which are moved to its dead letters."""

        own = (*topic.generated, *UNFED_COLUMNS)
        names = [c.name for c in topic.columns if c.name.lower() not in own and group.column(c.name)]
        self._columns = [name for name in names if name.lower() not in group.generated]

    def fitting(self, condition: Condition, count: int) -> str:
        """Of so many messages, by their offsets, those for which the group's filter is true. A server ends it after
        some seconds."""
        limited = f"/*M! SET STATEMENT max_statement_time={_FILTER_SECONDS_MAX} FOR */ SELECT"
        hint = f"/*+ MAX_EXECUTION_TIME({_FILTER_SECONDS_MAX * 1000}) */"
        fed = f"{self._offset} IN ({placeholders(count)})"
        return f"{limited} {hint} {self._offset} FROM {self.topic_table} WHERE {fed} AND {is_true(condition)}"

    def copy(self, count: int) -> str:
        """Put messages into the group's queue. Parameters: the group's highest offset, their
        offsets."""
        # Due from the time of the feed, so delivered in order of offsets; scheduled ones at their time.
        due = f"CASE WHEN t.time_scheduled > {self._now} THEN t.time_scheduled ELSE {self._now} END"
        absent = f" AND NOT EXISTS (SELECT 1 FROM {self.group_table.as_('g')} WHERE g.id = t.id)"
        return self._insert({"time_next": due}, count) + absent

    def copy_leased(self, count: int) -> str:
        """Put messages into the group's queue that are not there, and lease those that are due. Parameters: the time,
        the end of the leases, the time; where the group has tokens, the time and their token; its highest offset, the
        ids."""
        until = "CASE WHEN t.time_scheduled > ? THEN t.time_scheduled ELSE ? END"
        epoch = "CASE WHEN t.time_scheduled > ? THEN 0 ELSE 1 END"
        token = {TOKEN_COLUMN: "CASE WHEN t.time_scheduled > ? THEN 0 ELSE ? END"} if self.group.has_tokens else {}
        return self._insert({"time_next": until, "epoch": epoch, **token}, count)

    def _insert(self, values: Mapping[str, str], count: int) -> str:
        """INSERT of so many messages with these values besides their own."""
        sought = f"CASE WHEN t.{self._offset} <= ? THEN 1 ELSE 0 END"
        named = {"priority": str(FED_PRIORITY), **values, SOUGHT_COLUMN: sought}
        columns = [*map(quoted, self._columns), *named]
        selected = [*(f"t.{quoted(name)}" for name in self._columns), *named.values()]
        return (
            f"INSERT INTO {self.group_table.target} ({', '.join(columns)}) SELECT {', '.join(selected)}"
            f" FROM {self.topic_table.as_('t')}"
            f" WHERE t.{self._offset} IN ({placeholders(count)})"
        )
