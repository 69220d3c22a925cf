"""Every statement that moves rejected messages into a dead-letter queue. Values are bound, never spliced.

Columns are matched by name: columns of only one table are left out, or get their default. The queue's own columns are
set as those of a new message; three more record where it comes from, unless the queue has such columns itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.model.identity import integer_bounds
from engine.model.lease_token import TOKEN_COLUMN
from engine.model.queue import SOURCE_ID_COLUMN, ColumnMeta, MessageId, QueueSpec, quoted
from engine.model.states import REJECTED_NS
from engine.store.gate import GatedTable
from engine.store.statements.dialect import Dialect, placeholders

_BIGINT_MAX = (1 << 63) - 1
_TEXT_TYPES = frozenset((15, 249, 250, 251, 252, 253, 254))
_UNSIGNED = 0x20
_BINARY = 63  # the character set of bytes
_BYTES_OF_A_CHARACTER = 4  # a text's length is given in bytes of utf8mb4


def _fits(own: ColumnMeta, target: ColumnMeta) -> str | None:
    """What must be true of a value of one column so that another can store it; None: nothing, their types are alike.

    SQLite compares and measures in its own types, which are fewer.
    """
    alike = (own.type, own.flags & _UNSIGNED, own.decimals) == (target.type, target.flags & _UNSIGNED, target.decimals)
    if alike and own.length <= target.length:
        return None
    value = quoted(own.name)
    if integer_bounds(own) is not None and (bounds := integer_bounds(target)) is not None:
        return f"typeof({value}) = 'integer' AND {value} BETWEEN {bounds[0]} AND {min(bounds[1], _BIGINT_MAX)}"
    if own.type in _TEXT_TYPES and target.type in _TEXT_TYPES and own.charset == target.charset:
        return f"length({value}) <= {target.length // (1 if target.charset == _BINARY else _BYTES_OF_A_CHARACTER)}"
    return "0"


@dataclass(frozen=True, slots=True)
class _Bound:
    """A bound value; others are SQL."""

    value: MessageId


_Value = str | _Bound


def _attempts(dead: QueueSpec, epoch: str = "epoch") -> str:
    """How often a message was delivered, within the range of the column."""
    column = dead.column("attempts")
    bounds = None if column is None else integer_bounds(column)
    most = _BIGINT_MAX if bounds is None else min(bounds[1], _BIGINT_MAX)
    return f"CASE WHEN {epoch} > {most} THEN {most} WHEN {epoch} > 0 THEN {epoch} ELSE 0 END"


class DeadLetterStatements:
    """The statements for one queue. A level is a priority: each is read by the index on due messages."""

    def __init__(self, dialect: Dialect, queue: QueueSpec) -> None:
        self._dialect, self._queue = dialect, queue
        self._table = dialect.gate.of(queue)
        self._lock = f" {dialect.skip_locked}" if dialect.skip_locked else ""
        waiting = f"FROM {self._table} WHERE time_acked IS NULL"
        rejected = f"SELECT id {waiting} AND time_next = {REJECTED_NS}"
        self.first_level = f"SELECT MIN(priority) {waiting}"
        self.next_level = f"SELECT MIN(priority) {waiting} AND priority > ?"
        self.of_level = f"{rejected} AND priority = ? LIMIT ?"
        self.without_level = f"{rejected} AND priority IS NULL LIMIT ?"
        self.of_rest = f"{rejected} AND priority > ? LIMIT ?"
        self.of_all = f"{rejected} LIMIT ?"

    def tables(self, dead: QueueSpec) -> tuple[GatedTable, GatedTable]:
        """Both tables, to have their marks checked."""
        return self._table, self._dialect.gate.of(dead)

    def lock(self, count: int) -> str:
        """Those of these ids that are still rejected, locked; rows that others have locked are skipped."""
        return (
            f"SELECT id FROM {self._table} WHERE +time_acked IS NULL AND time_next = {REJECTED_NS}"
            f" AND id IN ({placeholders(count)}){self._lock}"
        )

    def forget_acked(self, dead: QueueSpec, ids: Sequence[MessageId]) -> tuple[str, Sequence[MessageId]]:
        """Delete acked dead letters with these ids: the ids are in use again. After a seek by the same message, whose
        dead letter goes, too; one that was written at another time is of another topic of that name."""
        of_ids, delete = f"id IN ({placeholders(len(ids))})", self._dialect.gate.of(dead).delete
        if self._queue.options.topic is None or dead.column("time_created") is None:
            return delete(f"+time_acked IS NOT NULL AND {of_ids}"), ids
        alike = f"(id, time_created) IN (SELECT m.id, m.time_created FROM {self._table.as_('m')} WHERE m.{of_ids})"
        return delete(f"{of_ids} AND (+time_acked IS NOT NULL OR {alike})"), (*ids, *ids)

    def taken(self, dead: QueueSpec, count: int) -> tuple[str, tuple[MessageId, ...]]:
        """Of these ids, those that dead letters have, and whether that is the same message: one that was moved before,
        where the database could not roll that back."""
        same = self._same(dead)
        return (
            f"SELECT d.id, {same} FROM {self._dialect.gate.of(dead).as_('d')}"
            f" JOIN {self._table.as_('m')} ON m.id = d.id"
            f" WHERE d.id IN ({placeholders(count)})"
        ), (self._queue.name.table,) * same.count("?")

    def _same(self, dead: QueueSpec) -> str:
        needed, own = ("time_created", "attempts", "source"), self._queue.column
        if own("attempts") or own("source") or not own("time_created") or not all(map(dead.column, needed)):
            return "0"
        return (  # one that is acked was another death of it
            "CASE WHEN d.time_acked IS NULL AND d.time_created = m.time_created AND d.source = ?"
            f" AND d.attempts = ({_attempts(dead, 'm.epoch')}) THEN 1 ELSE 0 END"
        )

    def ends_of_ids(self, dead: QueueSpec) -> str:
        """The smallest and the largest id of a dead letter."""
        return f"SELECT MIN(id), MAX(id) FROM {self._dialect.gate.of(dead)}"

    def has(self, dead: QueueSpec) -> str:
        """Whether a dead letter has that id."""
        return f"SELECT 1 FROM {self._dialect.gate.of(dead)} WHERE id = ?"

    def copy(self, dead: QueueSpec, count: int) -> tuple[str, tuple[MessageId, ...]]:
        """These messages, as dead letters, and the values that come before the ids."""
        return self._copy(dead, self._values(dead), count)

    def copy_as(self, dead: QueueSpec, id_: MessageId, own: str) -> tuple[str, tuple[MessageId, ...]]:
        """The same for one message, as a dead letter of that id, with its own id in another column."""
        return self._copy(dead, self._values(dead, id_, own), 1)

    def _copy(self, dead: QueueSpec, values: Mapping[str, _Value], count: int) -> tuple[str, tuple[MessageId, ...]]:
        columns = ", ".join(quoted(name) for name in values)
        texts = ("?" if isinstance(value, _Bound) else value for value in values.values())
        return (
            f"INSERT INTO {self._dialect.gate.of(dead).target} ({columns}) SELECT {', '.join(texts)}"
            f" FROM {self._table} WHERE id IN ({placeholders(count)})"
        ), tuple(value.value for value in values.values() if isinstance(value, _Bound))

    def unfit(self, dead: QueueSpec, count: int) -> str | None:
        """Which of these messages have values that the dead-letter queue's columns cannot store; None: the database
        checks that itself, or the columns are alike."""
        if self._dialect.checks_values:
            return None
        pairs = [(own, target) for target in dead.columns if (own := self._queue.column(target.name)) is not None]
        tests = [
            f"({quoted(own.name)} IS NOT NULL AND NOT ({fits}))"
            for own, target in pairs
            if target.name.lower() not in dead.generated and (fits := _fits(own, target)) is not None
        ]
        if not tests:
            return None
        return f"SELECT id FROM {self._table} WHERE id IN ({placeholders(count)}) AND ({' OR '.join(tests)}) LIMIT 1"

    def delete(self, count: int) -> str:
        return self._table.delete(f"id IN ({placeholders(count)})", index=self._table.key)

    def _values(self, dead: QueueSpec, id_: MessageId | None = None, own: str = "") -> Mapping[str, _Value]:
        """What goes into each column of the dead-letter queue. `id_`: not its `own` id."""
        now = self._dialect.now_ns
        fixed: dict[str, _Value] = {"time_next": now, "epoch": "0", "time_acked": "NULL"}
        if dead.has_tokens:
            fixed[TOKEN_COLUMN] = "0"
        source = _Bound(self._queue.name.table)
        added: dict[str, _Value] = {"attempts": _attempts(dead), "time_dead": now, "source": source}
        if id_ is not None:
            fixed["id"], added[SOURCE_ID_COLUMN] = _Bound(id_), _Bound(own)
        values: dict[str, _Value] = {}
        for column in dead.columns:
            name = column.name.lower()
            if name in dead.generated:
                continue
            if name in fixed:
                values[column.name] = fixed[name]
            elif (own_column := self._queue.column(name)) is not None:
                values[column.name] = quoted(own_column.name)
            elif name in added:
                values[column.name] = added[name]
        return values
