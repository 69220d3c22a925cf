"""Polling and claiming in order of a key, in SQL. Blocking; runs in a thread.

A poll has two methods, and starts with the one that suited the queue last. By due times: poll as for any queue, and
leave out the messages that their key blocks; good where most due messages may go (many keys). By keys: from key to key
along the index, one head for each; good where few keys have many messages, of which one for each key may go. This is
also the fallback where all of the first due messages are blocked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from engine.backend.base import Statement, StoreConnection
from engine.model.identity import from_text, id_kind
from engine.model.queue import Layout, MessageId, MessageKey, QueueSpec
from engine.model.states import REJECTED_NS
from engine.store.base import PollResult
from engine.store.operations import due_messages
from engine.store.operations.due_messages import INTEGER, PRIORITY_LEVELS_MAX, LevelGuess, id_column, not_null
from engine.store.statements.order import OrderStatements
from engine.store.statements.queue import QueueStatements

STEPS_MAX = 32
"""Steps from key to key, about 0.3 ms each, up to which polling by keys is tried first."""

_KEYS_MAX = 1 << 20  # of an ENUM or a SET: an ENUM has at most 65,535 members
_STEP_MIN, _STEP_MAX = 16, 1024  # messages read in a step: more, the more keys a step has met
_CHUNK = 500  # messages in one query, of about 5 us each
_COOLDOWN = 100  # polls by due times after polling by keys took too many steps


@dataclass(slots=True)
class OrderMemory:
    """The method that suited a queue's last poll. A wrong guess costs time; it never changes the result."""

    by_keys: bool = False
    cooldown: int = 0

    def observe(self, due: int, free: int) -> None:
        """Of the `due` messages of a poll by due times, `free` may go."""
        self.cooldown = max(0, self.cooldown - 1)
        self.by_keys = free * 4 < due and not self.cooldown

    def prefer_times(self) -> None:
        """There are many keys."""
        self.by_keys, self.cooldown = False, _COOLDOWN


@dataclass(frozen=True, slots=True)
class KeyPosition:
    """A message, and the state of its key. `head` and `latest_ns` are None where it has no key."""

    id: MessageId
    priority: int
    due_ns: int
    due: bool
    keyless: bool
    head: MessageId | None
    latest_ns: int | None


class KeyOrder:
    """What may go by its key, on one connection."""

    def __init__(self, connection: StoreConnection, statements: OrderStatements, queue: QueueSpec) -> None:
        self._connection, self._statements, self._queue = connection, statements, queue
        self._id = id_column(queue)
        self._kind = id_kind(self._id)
        self.now_ns = 0

    def free(self, ids: Sequence[MessageId]) -> list[KeyPosition]:
        """Those of the messages that may go now."""
        chunks = (ids[start : start + _CHUNK] for start in range(0, len(ids), _CHUNK))
        return [position for chunk in chunks for position in self._free(chunk)]

    def _free(self, ids: Sequence[MessageId]) -> list[KeyPosition]:
        first = [s for s in self._positions(ids) if s.due and (s.keyless or s.head == s.id)]
        doubtful = [s for s in first if not s.keyless and s.latest_ns is not None and s.latest_ns > self.now_ns]
        blocked = self._blocked(doubtful)
        return [position for position in first if position.id not in blocked]

    def _positions(self, ids: Sequence[MessageId]) -> list[KeyPosition]:
        columns = (INTEGER, self._id, INTEGER, INTEGER, INTEGER, INTEGER, self._id, INTEGER)
        rows = self._connection.query_text(self._statements.key_positions(len(ids)), ids, columns)
        if rows:
            self.now_ns = int(not_null(rows[0][0]))
        return [
            KeyPosition(
                from_text(self._kind, not_null(id_)),
                int(not_null(priority)),
                int(not_null(due_ns)),
                due == b"1",
                keyless == b"1",
                None if head is None else from_text(self._kind, head),
                None if latest is None else int(latest),
            )
            for _, id_, priority, due_ns, due, keyless, head, latest in rows
        ]

    def _blocked(self, doubtful: Iterable[KeyPosition]) -> set[MessageId]:
        """Those whose key has a message in flight."""
        ids = [position.id for position in doubtful]
        if not ids:
            return set()
        batch = [
            Statement(self._statements.key_in_flight, () if self._statements.whole else (id_,), (INTEGER,))
            for id_ in ids
        ]
        answers = self._connection.run(batch)
        return {id_ for id_, answer in zip(ids, answers, strict=True) if answer.rows[0][0] == b"1"}

    def heads(self, steps_max: int | None) -> list[MessageId] | None:
        """Every key's head, in the order of the keys; None if that takes more steps than allowed."""
        if self._statements.whole:
            return self._step(self._statements.first_keys, (1,))[1]
        if self._statements.first_of_each:
            limit = _KEYS_MAX if steps_max is None else steps_max * _STEP_MIN
            batch = self._step(self._statements.first_of_each, (limit + 1,))[1]
            return batch if len(batch) <= limit else None
        heads: dict[MessageId, None] = {}
        size, steps = _STEP_MIN, 1
        ids, batch = self._step(self._statements.first_keys, (size,))
        while ids:
            heads.update(dict.fromkeys(batch))
            if steps == steps_max:
                return None
            steps += 1
            size = min(size * 2, _STEP_MAX) if len(batch) * 2 > size else max(size // 2, _STEP_MIN)
            ids, batch = self._step(self._statements.next_keys, (ids[-1], size))
        return list(heads)

    def _step(self, sql: str, params: Sequence[MessageId]) -> tuple[list[MessageId], list[MessageId]]:
        """Messages in the order of their keys, and the heads of these keys."""
        rows = self._connection.query_text(sql, params, (self._id, self._id))
        heads = dict.fromkeys(head for _, head in rows if head is not None)
        return [from_text(self._kind, not_null(row[0])) for row in rows], [from_text(self._kind, x) for x in heads]

    def keyless(self, limit: int) -> list[MessageId]:
        """The first due messages without a key, in delivery order."""
        if self._statements.whole:
            return []
        rows = self._connection.query_text(self._statements.keyless, (limit,), (self._id,))
        if len(rows) == limit and not self._has_one_level():
            rows = self._connection.query_text(self._statements.keyless_by_priority, (limit,), (self._id,))
        return [from_text(self._kind, not_null(row[0])) for row in rows]

    def _has_one_level(self) -> bool:
        return self._queue.layout is Layout.LEGACY or self._connection.query(self._statements.one_level)[0][0] == 1

    def next_due_ns(self) -> int | None:
        """When the next message becomes due, of any key."""
        statements, connection = self._statements, self._connection
        if self._queue.layout is Layout.LEGACY:
            return _least(connection.query(statements.next_due)[0])  # there are no priorities
        times = [connection.query(statements.next_due_without)[0][0]]
        level = connection.query(statements.first_level)[0][0]
        for _ in range(PRIORITY_LEVELS_MAX):
            if level is None:
                break
            times.append(connection.query(statements.next_due, (level,))[0][0])
            level = connection.query(statements.next_level, (level,))[0][0]
        return _least(times)


def poll(
    connection: StoreConnection,
    statements: QueueStatements,
    ordered: OrderStatements,
    queue: QueueSpec,
    limit: int,
    guess: LevelGuess,
    memory: OrderMemory,
) -> PollResult:
    """MessageStore.poll of a queue with an order_key; see the module."""
    order = KeyOrder(connection, ordered, queue)
    if memory.by_keys or ordered.whole:
        result = _by_keys(connection, statements, order, limit, memory, STEPS_MAX)
        if result is not None:
            return result
        memory.prefer_times()
    seen = due_messages.poll(connection, statements, queue, limit, guess)
    free = in_order(connection, ordered, queue, seen)
    memory.observe(len(seen.keys), len(free.keys))
    if free.keys or not seen.more:
        return free
    result = _by_keys(connection, statements, order, limit, memory, None)
    assert result is not None
    return result


def in_order(
    connection: StoreConnection, statements: OrderStatements, queue: QueueSpec, seen: PollResult
) -> PollResult:
    """Of the due messages, those that their key allows."""
    if not seen.keys:
        return seen
    free = {position.id for position in KeyOrder(connection, statements, queue).free([key.id for key in seen.keys])}
    return replace(seen, keys=tuple(key for key in seen.keys if key.id in free))


def _by_keys(
    connection: StoreConnection,
    statements: QueueStatements,
    order: KeyOrder,
    limit: int,
    memory: OrderMemory,
    steps_max: int | None,
) -> PollResult | None:
    now_ns = int(connection.query(statements.now)[0][0])
    next_due_ns = order.next_due_ns()
    heads = order.heads(steps_max)
    if heads is None:
        return None
    keyless = order.keyless(limit + 1)
    if len(keyless) > limit:  # all of them may be read for that; by due times only the first
        memory.by_keys = False
    positions = order.free([*heads, *keyless])
    keys = sorted(
        (MessageKey(position.priority, position.due_ns, position.id) for position in positions),
        key=lambda key: (key.priority, key.due_ns),
    )
    return PollResult(now_ns, tuple(keys[:limit]), next_due_ns, len(keys) > limit)


def _least(times: Iterable[int | None]) -> int | None:
    return min((int(time) for time in times if time is not None and int(time) < REJECTED_NS), default=None)
