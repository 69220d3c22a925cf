"""Every statement that moves rejected messages into a dead-letter queue. Values are bound, never spliced.

Columns are matched by name: what only one of the two tables has is left out, or left to its default. The queue's own
columns are set as those of a new message; three more say where it comes from, unless the queue has such columns itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.model.queue import ColumnMeta, QueueSpec, quoted
from engine.model.states import REJECTED_NS
from engine.store.statements.dialect import Dialect
from engine.store.statements.queue import placeholders

_INTEGER_BITS = {1: 8, 2: 16, 9: 24, 3: 32, 8: 64}
_TEXT_TYPES = frozenset((15, 249, 250, 251, 252, 253, 254))
_UNSIGNED = 0x20
_BINARY = 63  # the character set of bytes
_BYTES_OF_A_CHARACTER = 4  # a text's length is given in bytes of utf8mb4


def _fits(own: ColumnMeta, kept: ColumnMeta) -> str | None:
    """What must be true of a value of one column for another to hold it; None: nothing, they are of one kind.

    SQLite compares and measures in its own types, which are fewer.
    """
    alike = (own.type, own.flags & _UNSIGNED, own.decimals) == (kept.type, kept.flags & _UNSIGNED, kept.decimals)
    if alike and own.length <= kept.length:
        return None
    value = quoted(own.name)
    if own.type in _INTEGER_BITS and (bits := _INTEGER_BITS.get(kept.type)) is not None:
        unsigned = kept.flags & _UNSIGNED
        low, high = (0, 2 ** min(bits, 63) - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        return f"typeof({value}) = 'integer' AND {value} BETWEEN {low} AND {high}"
    if own.type in _TEXT_TYPES and kept.type in _TEXT_TYPES and own.charset == kept.charset:
        return f"length({value}) <= {kept.length // (1 if kept.charset == _BINARY else _BYTES_OF_A_CHARACTER)}"
    return "0"


class DeadLetterStatements:
    """The texts for one queue. A level is a priority: each is found by the index on due messages."""

    def __init__(self, dialect: Dialect, queue: QueueSpec) -> None:
        self._dialect, self._queue = dialect, queue
        self._table = queue.name.sql
        self._lock = f" {dialect.skip_locked}" if dialect.skip_locked else ""
        waiting = f"FROM {self._table} WHERE time_acked IS NULL"
        rejected = f"SELECT id {waiting} AND time_next = {REJECTED_NS}"
        self.first_level = f"SELECT MIN(priority) {waiting}"
        self.next_level = f"SELECT MIN(priority) {waiting} AND priority > ?"
        self.of_level = f"{rejected} AND priority = ? LIMIT ?"
        self.without_level = f"{rejected} AND priority IS NULL LIMIT ?"
        self.of_rest = f"{rejected} AND priority > ? LIMIT ?"
        self.of_all = f"{rejected} LIMIT ?"

    def lock(self, count: int) -> str:
        """Those of these ids that are rejected still, locked; what others hold is passed over."""
        return (
            f"SELECT id FROM {self._table} WHERE +time_acked IS NULL AND time_next = {REJECTED_NS}"
            f" AND id IN ({placeholders(count)}){self._lock}"
        )

    def forget_acked(self, dead: QueueSpec, count: int) -> str:
        """Dead letters of these ids that are done with: the ids have come back. After a seek the message itself has."""
        done = "" if self._queue.options.topic is not None else "+time_acked IS NOT NULL AND "
        return f"DELETE FROM {dead.name.sql} WHERE {done}id IN ({placeholders(count)})"

    def copy(self, dead: QueueSpec, count: int) -> tuple[str, tuple[str, ...]]:
        """These messages, as dead letters, and the values that come before the ids."""
        values = self._values(dead)
        bound = (self._queue.name.table,) * list(values.values()).count("?")
        columns = ", ".join(quoted(name) for name in values)
        return (
            f"INSERT INTO {dead.name.sql} ({columns}) SELECT {', '.join(values.values())}"
            f" FROM {self._table} WHERE id IN ({placeholders(count)})"
        ), bound

    def unfit(self, dead: QueueSpec, count: int) -> str | None:
        """Which of these messages have values that the dead-letter queue's columns cannot hold; None: the database
        looks to that itself, or the columns are alike."""
        if self._dialect.checks_values:
            return None
        pairs = [(own, kept) for kept in dead.columns if (own := self._queue.column(kept.name)) is not None]
        tests = [
            f"({quoted(own.name)} IS NOT NULL AND NOT ({fits}))"
            for own, kept in pairs
            if kept.name.lower() not in dead.generated and (fits := _fits(own, kept)) is not None
        ]
        if not tests:
            return None
        return f"SELECT id FROM {self._table} WHERE id IN ({placeholders(count)}) AND ({' OR '.join(tests)}) LIMIT 1"

    def delete(self, count: int) -> str:
        return f"DELETE FROM {self._table} WHERE id IN ({placeholders(count)})"

    def _values(self, dead: QueueSpec) -> Mapping[str, str]:
        """What goes into each column of the dead-letter queue."""
        now = self._dialect.now_ns
        fixed = {"time_next": now, "epoch": "0", "time_acked": "NULL"}
        added = {"attempts": "COALESCE(epoch, 0)", "time_dead": now, "source": "?"}
        values: dict[str, str] = {}
        for column in dead.columns:
            name = column.name.lower()
            if name in dead.generated:
                continue
            if name in fixed:
                values[column.name] = fixed[name]
            elif (own := self._queue.column(name)) is not None:
                values[column.name] = quoted(own.name)
            elif name in added:
                values[column.name] = added[name]
        return values
