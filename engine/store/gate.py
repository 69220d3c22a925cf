"""The gate: how every statement of the engine names a table.

Clients own the tables that the engine works on, and may replace one at any moment: for example by a view of another
database, which would be read with the engine's privileges. So a name that was checked before is not trusted. A
statement names a table by the gate, which adds an index hint:

    FROM `shop`.`orders` IGNORE INDEX FOR GROUP BY (`PRIMARY`, `queuegate_due`)

A server takes such a hint for a base table that has indexes of these names, and for nothing else: for a view, a
sequence or another table the statement ends with error 1176 before it reads a row. The server checks that under the
statement's own metadata lock, which lasts until the transaction ends, so nothing can change in between, and it costs
no round trip. The hint itself has no effect: a part of a statement with a GROUP BY names its table without it, beside
one that has it.
MySQL Reference Manual, "Index Hints"; MariaDB Knowledge Base, "IGNORE INDEX".

Three kinds of statements take no hint:

- DELETE of one table: `delete` uses the multi-table form, which takes one. It joins another table, since of a single
  one a vtgate makes `DELETE FROM t` without the hint, where each column belongs to t, also those of other tables in
  its subqueries (seen in 24.0.4).
- INSERT: its target is `target`. It follows a statement of the same transaction that reads the same table by the gate,
  `proof` where there is no other.
- LOCK TABLES and ALTER TABLE: `target`, too. Reads under the lock use the gate, and ALTER TABLE refuses views.

Statements that delete or move messages also check the table's comment (`check_mark`): under the metadata lock the table
must still have the mark that the catalog read.

The embedded database has neither accounts of its own nor such hints: there the bare name is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.backend.base import StoreConnection
from engine.model.errors import BackendError, GroupNotNew, InvalidQueueTable
from engine.model.marked_name import is_copied
from engine.model.options import from_comment
from engine.model.queue import QUEUE_MARK, IndexInfo, QueueName, QueueSpec, TopicSpec, quoted
from engine.model.topic_options import TOPIC_MARK

NOT_THE_TABLE = 1176
"""The error of a statement whose table is no base table with the indexes of a queue: ER_KEY_DOES_NOT_EXITS."""

OWN_INDEXES = "queuegate_"
"""How the names begin of indexes that CREATE QUEUE and CREATE TOPIC make."""

COMMENT = (
    "SELECT TABLE_COMMENT FROM information_schema.TABLES"
    " WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND TABLE_TYPE = 'BASE TABLE'"
)
"""A table's comment, which contains its mark."""

_BESIDE = " JOIN (SELECT 1 AS queuegate_one) AS beside"


@dataclass(frozen=True, slots=True)
class GatedTable:
    """A table as statements name it. As text it is used after FROM, JOIN and UPDATE. `comment`: as the catalog read it;
    None for tables of the engine's own. `at_shard`: see Gate. `key`: the index of a queue's or topic's ids."""

    name: QueueName
    hint: str
    comment: str | None = None
    at_shard: bool = False
    key: str = ""

    def __str__(self) -> str:
        return f"{self.target}{self.hint}"

    @property
    def target(self) -> str:
        """The bare name, for statements that take no hint. See the module for what must precede it."""
        return self.name.sql if self.name.database else quoted(self.name.table)

    def as_(self, alias: str) -> str:
        """With an alias, after FROM and JOIN."""
        return f"{self.target} AS {alias}{self.hint}"

    def partition(self, names: Sequence[str]) -> str:
        """Some of its partitions, after FROM."""
        return f"{self.target} PARTITION ({', '.join(map(quoted, names))}){self.hint}"

    def forced(self, index: str, alias: str = "") -> str:
        """With a forced index, after FROM. `index`: the dialect's syntax for it; may be empty."""
        return " ".join(filter(None, (self.target, f"AS {alias}" if alias else "", index))) + self.hint

    def delete(self, where: str = "", *, index: str = "") -> str:
        """A DELETE, up to the end of its condition. `index`: the name of one that is forced. Of a small table a server
        reads, and locks, all rows to delete a few; a DELETE waits for each that is locked, also for those that its
        condition excludes (an UPDATE does not)."""
        forced = f" FORCE INDEX ({quoted(index)})" if index else ""
        gone = f"FROM gone USING {self.target} AS gone{forced}{self.hint}{_BESIDE}"
        rows = gone if self.hint else f"FROM {self.target}"
        return f"DELETE {rows} WHERE {where}" if where else f"DELETE {rows}"

    @property
    def proof(self) -> str:
        """Reads nothing; fails where this is not the table."""
        return f"SELECT 1 FROM {self} LIMIT 0"


class Gate:
    """For one dialect. `hint` is a format of `indexes`; empty where names are trusted. `at_shard`: for sessions
    of a vtgate that use one shard."""

    def __init__(self, hint: str, *, at_shard: bool = False) -> None:
        self._hint, self._at_shard = hint, at_shard

    def of(self, spec: QueueSpec | TopicSpec) -> GatedTable:
        """The table of a queue or topic."""
        indexes = _known_by(spec.indexes)
        return GatedTable(spec.name, self._hinted(indexes), spec.comment, self._at_shard, indexes[0])

    def own(self, database: str, table: str) -> GatedTable:
        """A table of the engine's own. `database` empty: that of the connection."""
        return GatedTable(QueueName(database, table), self._hinted(("PRIMARY",)), at_shard=self._at_shard)

    def known_by(self, name: QueueName, indexes: Sequence[IndexInfo]) -> GatedTable:
        """A queue's table of which no more is known; without `indexes`, one with a primary key."""
        return GatedTable(name, self._hinted(_known_by(indexes)), at_shard=self._at_shard)

    @property
    def trusts_names(self) -> bool:
        """Whether a name cannot have come to mean another table since it was read."""
        return not self._hint

    def _hinted(self, indexes: Sequence[str]) -> str:
        return " " + self._hint.format(indexes=", ".join(map(quoted, indexes))) if self._hint else ""


def _known_by(indexes: Sequence[IndexInfo]) -> tuple[str, ...]:
    """The names of the indexes that identify a queue's or topic's table: the key of its ids, and queuegate's own."""
    key = next((index.name for index in indexes if index.unique and index.columns == ("id",)), "") or "PRIMARY"
    return (key, *sorted({index.name for index in indexes if index.name.startswith(OWN_INDEXES)} - {key}))


def check_mark(connection: StoreConnection, *tables: GatedTable) -> None:
    """Check that these tables, which this transaction has read by the gate, still have the marks that the catalog read.
    Raises BackendError, NOT_THE_TABLE."""
    for table in tables:
        if not table.hint or table.comment is None:
            continue
        rows = _comment(connection, table)
        if not rows or _role(str(rows[0][0]), table.name) != _role(table.comment, table.name):
            raise BackendError(f"{table.name} is being dropped, made again or altered: try again", NOT_THE_TABLE)


def _comment(connection: StoreConnection, table: GatedTable) -> list[tuple[Any, ...]]:
    if table.at_shard:  # a shard's database has another name than the keyspace
        return connection.query(COMMENT.replace("= ?", "= DATABASE()", 1), (table.name.table,))
    return connection.query(COMMENT, (table.name.database, table.name.table))


def check_new(connection: StoreConnection, group: QueueName) -> None:
    """Check that a consumer group is paused, as a new one is until its position is written. A proxy that stood still
    may come here after another one has made a group of the same name, which reads already: a new position would skip
    messages. Raises GroupNotNew."""
    rows = connection.query(COMMENT, (group.database, group.table))
    try:
        paused = bool(rows) and from_comment(str(rows[0][0]), group.table).paused
    except InvalidQueueTable:
        paused = False
    if not paused:
        raise GroupNotNew(f"Table '{group}' already exists: another session has made it meanwhile")


def _role(comment: str, name: QueueName) -> tuple[str | None, ...]:
    """The kind of table by its comment, and the tables it belongs to; its other options may change at any time."""
    if is_copied(comment, name.table):
        return ()
    if comment.startswith(TOPIC_MARK):
        return ("topic",)
    if QUEUE_MARK not in comment:
        return ()
    try:
        options = from_comment(comment, name.table)
    except InvalidQueueTable:
        return ()
    return ("queue", options.dead_letter, options.dead_letter_of, options.topic, options.consumer_group)
