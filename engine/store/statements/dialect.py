"""What one database's SQL differs in, as far as the engine's store is concerned."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.backend.base import StoreConnection
from engine.model.queue import TIMESTAMP_TYPE, ColumnMeta, QueueName, quoted
from engine.model.states import MARK
from engine.store.catalog import TableInfo
from engine.store.gate import Gate


class ListTables(Protocol):
    """Reads every table that carries the queue mark. `known`: what was read before; a table whose definition is the
    same as then is not read again. `named`: of the others not even the definition is read, where they are known and
    have the same comment; None: that of all."""

    def __call__(
        self,
        connection: StoreConnection,
        known: Mapping[QueueName, TableInfo],
        named: Collection[QueueName] | None = None,
    ) -> list[TableInfo]: ...


def placeholders(count: int) -> str:
    """`?` times count, for an IN list."""
    assert count > 0, "an empty IN list is not SQL"
    return ", ".join("?" * count)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The difference between databases.

    `gate`: how tables are named.

    `now_ns`: the database's time as an SQL expression, nanoseconds since the epoch. `skip_locked`: what makes a SELECT
    lock the rows it can get at once and pass over the others; empty where a writing transaction is alone anyway.
    `lock`: the same, waiting for them. `lock_at_once`: the same, failing where one cannot be had at once; empty where a
    writing transaction is alone. `force_index`: what goes after a table's name, made of `table` and `index`, to
    have a statement use that index; empty where the planner is to be trusted. `make_limits`: makes the table
    queuegate_limits of a `database` if there is none; `add_limits` the row of a queue in it, if there is none.
    `partitions`: whether tables can have them. `checks_values`: whether it refuses a value that a column cannot hold.
    `table_bytes`: asks for the size of a table, by its database and name; empty where that is not known.
    `adds_columns`: adds a column of that definition to a table without holding anybody up, or raises; None where
    MySQL's own words do. `mark`: see engine.model.states. `moment`: a TIMESTAMP column, by its name, as seconds since
    the epoch. `zone_offsets`: by how many seconds the clocks of a time zone are ahead of UTC at such moments.
    """

    name: str
    gate: Gate
    now_ns: str
    skip_locked: str
    lock: str
    lock_at_once: str
    force_index: str
    make_limits: str
    add_limits: str
    list_tables: ListTables
    moment: str
    zone_offsets: Callable[[StoreConnection, str, Sequence[int]], Sequence[int]]
    partitions: bool = False
    checks_values: bool = True
    table_bytes: str = ""
    mark: str = MARK
    adds_columns: Callable[[StoreConnection, QueueName, str], None] | None = None

    @property
    def share(self) -> str:
        """What makes a SELECT lock rows so that others may lock them in this way, too, and in no other; empty where a
        writing transaction is alone."""
        return "LOCK IN SHARE MODE" if self.lock == "FOR UPDATE" else ""

    @property
    def sorts_members(self) -> bool:
        """Whether the values of an ENUM or a SET have another order in an index than by `>`."""
        return self.name != "sqlite"

    def exact(self, column: str) -> str:
        """A text column, as compared with a text byte by byte."""
        if self.name == "sqlite":
            return f"{column} COLLATE BINARY"
        return f"CONVERT({column} USING utf8mb4) COLLATE utf8mb4_bin"

    def selected(self, columns: Iterable[ColumnMeta]) -> str:
        """A select list of whole rows for receivers, in whose time zones a TIMESTAMP is shown."""
        return ", ".join(
            self.moment.format(quoted(column.name)) if column.type == TIMESTAMP_TYPE else quoted(column.name)
            for column in columns
        )
