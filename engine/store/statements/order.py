"""The SQL of order_key: which message of a key may go next.

A key's head is its unacked message with the smallest id; with on_failure=skip, of those that have not failed or are due
again. A message may go if it is due, its key's head, and nothing of its key is in flight. The statements are made for
indexes on (time_acked, key, id) and (time_acked, key, time_next): each correlated subquery reads one entry of one of
them. Databases are made to use them, for by their own estimates some read the whole backlog for each message.
"""

from __future__ import annotations

from engine.model.queue import Layout, QueueSpec, has_index, quoted
from engine.model.states import in_flight
from engine.store.gate import GatedTable
from engine.store.statements.dialect import Dialect, placeholders


class OrderStatements:
    """The texts for one queue that has an order_key."""

    def __init__(self, dialect: Dialect, queue: QueueSpec) -> None:
        key = queue.options.order_key
        assert key is not None
        self.whole = key == "*"
        """The whole queue is one key."""

        self._table = table = dialect.gate.of(queue)
        self._now = now = dialect.now_ns
        priority = "COALESCE(m.priority, 0)" if queue.layout is Layout.CURRENT else "0"
        column = queue.column(key)
        k = "" if column is None else quoted(column.name)
        by_id, by_time = _forced(dialect, queue, "id"), _forced(dialect, queue, "time_next")
        of_head, of_latest = ("", "") if self.whole else (f" AND h.{k} = m.{k}", f" AND f.{k} = m.{k}")
        # The key is one value there; MySQL sees that it need not sort only where the order names the index's columns.
        by_head, by_latest = ("", "") if self.whole else (f"h.{k}, ", f"f.{k} DESC, ")
        of_key = "" if self.whole else f" AND {k} = (SELECT {k} FROM {table} WHERE id = ?)"
        skips = queue.options.on_failure == "skip"
        fresh = f" AND (COALESCE(h.epoch, 0) = 0 OR {_due('h', now)})" if skips else ""
        head = f"(SELECT h.id FROM {table.forced(by_id, 'h')} WHERE h.time_acked IS NULL{of_head}{fresh}"
        head += f" ORDER BY {by_head}h.id LIMIT 1)"
        latest = f"(SELECT f.time_next FROM {table.forced(by_time, 'f')} WHERE f.time_acked IS NULL{of_latest}"
        latest += f" ORDER BY {by_latest}f.time_next DESC LIMIT 1)"
        keyless = "0" if self.whole else f"m.{k} IS NULL"
        self._key_position = (
            f"SELECT {now}, m.id, {priority}, COALESCE(m.time_next, 0), {_due('m', now)}, {keyless}, {head}, {latest}"
            f" FROM {table.as_('m')} WHERE +m.time_acked IS NULL AND m.id IN"
        )
        self.key_in_flight = (
            f"SELECT EXISTS (SELECT 1 FROM {table.forced(by_time)} WHERE {in_flight(now, dialect.mark)}{of_key})"
        )
        """Whether anything of the key of message `?` is in flight."""

        in_order = "" if self.whole else f"m.{k}, "
        keyed = "" if self.whole else f" AND m.{k} IS NOT NULL"
        beyond = f" AND m.{k} > (SELECT p.{k} FROM {table.as_('p')} WHERE p.id = ?)"
        walk = f"SELECT m.id, {head} FROM {table.forced(by_id, 'm')} WHERE m.time_acked IS NULL"
        self.first_keys = f"{walk}{keyed} ORDER BY {in_order}m.id LIMIT ?"
        """The first `?` messages in the order of their keys, each with its key's head."""

        self.next_keys = f"{walk}{beyond} ORDER BY {in_order}m.id LIMIT ?"
        """The same of the keys beyond that of message `?`."""

        self.first_of_each = ""
        """The same of the first message of each key, up to `?`, where one key is beyond another by other rules than
        those of the index. Empty for other keys."""

        if column is not None and column.has_members and dialect.sorts_members:
            each = _first_ids(table, by_id, k)
            self.first_of_each = f"SELECT m.id, {head} FROM ({each}) AS g JOIN {table.as_('m')} ON m.id = g.id"

        due = f"SELECT m.id FROM {table.forced(by_time, 'm')} WHERE m.time_acked IS NULL AND {keyless}"
        due += f" AND {_due('m', now)} ORDER BY"
        self.keyless = f"{due} m.time_next, m.id LIMIT ?"
        """Due messages without a key, in delivery order where all have one priority."""

        self.keyless_by_priority = f"{due} {priority}, COALESCE(m.time_next, 0), m.id LIMIT ?"
        """The same with several priorities. No index has that order, so all of them are read."""

        waiting = f"FROM {table} WHERE time_acked IS NULL"
        level = "" if queue.layout is Layout.LEGACY else " AND priority = ?"
        self.next_due = f"SELECT MIN(time_next) {waiting}{level} AND time_next > {now}"
        """When the next message of a priority falls due."""

        self.next_due_without = f"SELECT MIN(time_next) {waiting} AND priority IS NULL AND time_next > {now}"
        self.first_level = f"SELECT MIN(priority) {waiting}"
        extremes = f"(SELECT MIN(priority) {waiting}) = (SELECT MAX(priority) {waiting})"
        self.one_level = f"SELECT {extremes} AND NOT EXISTS (SELECT 1 {waiting} AND priority IS NULL)"
        """Whether all messages have one priority."""

        self.next_level = f"SELECT MIN(priority) {waiting} AND priority > ?"

    def key_positions(self, count: int) -> str:
        """Of these unacked messages: the time, id, priority, due time, whether due, whether without a key, the key's
        head, and the latest time_next of the key."""
        return f"{self._key_position} ({placeholders(count)})"


def _due(alias: str, now: str) -> str:
    return f"({alias}.time_next IS NULL OR {alias}.time_next <= {now})"


def _first_ids(table: GatedTable, by_id: str, k: str) -> str:
    # Not by the gate, whose hint forbids the index for this. The same name is gated beside it. Without time_acked, a
    # server reads the whole index.
    return (
        f"SELECT MIN(g.id) AS id FROM {table.target} AS g {by_id} WHERE g.time_acked IS NULL"
        f" AND g.{k} IS NOT NULL GROUP BY g.time_acked, g.{k} LIMIT ?"
    )


def _forced(dialect: Dialect, queue: QueueSpec, last: str) -> str:
    """The hint for the index on a key's messages by that column; empty where there is no such index."""
    key = queue.options.order_key or ""
    columns = ("time_acked", last) if key == "*" else ("time_acked", key.lower(), last)
    for index in queue.indexes:
        if has_index((index,), columns):
            return dialect.force_index.format(table=quoted(queue.name.table), index=quoted(index.name))
    return ""
