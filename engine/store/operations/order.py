"""The look and the choice in order of a key, in SQL. Blocking; runs in a thread.

A look has two ways, and remembers which served it last. By due times: as any queue is looked at, and what may not go by
its key is left out; right where most of what is due may go (many keys). By keys: from key to key along the index, one
head each; right where few keys have many messages, of which one each may go. It is the way out, too, where the first
messages due all come after others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from engine.backend.base import Statement, StoreConnection
from engine.model.identity import from_text, id_kind
from engine.model.queue import Layout, MessageId, MessageKey, QueueSpec
from engine.model.states import REJECTED_NS
from engine.store.base import Look
from engine.store.operations import due_messages
from engine.store.operations.due_messages import INTEGER, PRIORITY_LEVELS_MAX, LevelGuess, id_column, not_null
from engine.store.statements.order import OrderStatements
from engine.store.statements.queue import QueueStatements

FEW_STEPS = 32
"""Steps from key to key, about 0.3 ms each, up to which going by keys is tried first."""

_STEP_MIN, _STEP_MAX = 16, 1024  # messages read in a step: more, the more keys a step has met
_CHUNK = 500  # messages in one question, of about 5 us each
_RESTS = 100  # looks by due times after going by keys has proved long


@dataclass(slots=True)
class OrderMemory:
    """Which way served a queue's last look. A wrong guess costs time; it never changes what is found."""

    by_keys: bool = False
    rests: int = 0

    def behind(self, found: int, free: int) -> None:
        """Of so many that a look by due times found, so many may go."""
        self.rests = max(0, self.rests - 1)
        self.by_keys = free * 4 < found and not self.rests

    def too_long(self) -> None:
        """There are many keys."""
        self.by_keys, self.rests = False, _RESTS


@dataclass(frozen=True, slots=True)
class KeyPosition:
    """Where a message stands in its key. `head` and `latest_ns` are None where it has no key."""

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
        asked = (ids[start : start + _CHUNK] for start in range(0, len(ids), _CHUNK))
        return [standing for chunk in asked for standing in self._free(chunk)]

    def _free(self, ids: Sequence[MessageId]) -> list[KeyPosition]:
        first = [s for s in self._standings(ids) if s.due and (s.keyless or s.head == s.id)]
        doubtful = [s for s in first if not s.keyless and s.latest_ns is not None and s.latest_ns > self.now_ns]
        held = self._held(doubtful)
        return [standing for standing in first if standing.id not in held]

    def _standings(self, ids: Sequence[MessageId]) -> list[KeyPosition]:
        columns = (INTEGER, self._id, INTEGER, INTEGER, INTEGER, INTEGER, self._id, INTEGER)
        rows = self._connection.query_text(self._statements.standing(len(ids)), ids, columns)
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

    def _held(self, doubtful: Iterable[KeyPosition]) -> set[MessageId]:
        """Those whose key has a message in flight."""
        ids = [standing.id for standing in doubtful]
        if not ids:
            return set()
        asked = [Statement(self._statements.held, () if self._statements.whole else (id_,), (INTEGER,)) for id_ in ids]
        answers = self._connection.run(asked)
        return {id_ for id_, answer in zip(ids, answers, strict=True) if answer.rows[0][0] == b"1"}

    def heads(self, steps_max: int | None) -> list[MessageId] | None:
        """Every key's head, in the order of the keys; None if that takes more steps than allowed."""
        if self._statements.whole:
            return self._step(self._statements.first_keys, (1,))[1]
        heads: dict[MessageId, None] = {}
        size, steps = _STEP_MIN, 1
        ids, found = self._step(self._statements.first_keys, (size,))
        while ids:
            heads.update(dict.fromkeys(found))
            if steps == steps_max:
                return None
            steps += 1
            size = min(size * 2, _STEP_MAX) if len(found) * 2 > size else max(size // 2, _STEP_MIN)
            ids, found = self._step(self._statements.next_keys, (ids[-1], size))
        return list(heads)

    def _step(self, sql: str, params: Sequence[MessageId]) -> tuple[list[MessageId], list[MessageId]]:
        """Messages in the order of their keys, and the heads of these keys."""
        rows = self._connection.query_text(sql, params, (self._id, self._id))
        heads = dict.fromkeys(head for _, head in rows if head is not None)
        return [from_text(self._kind, not_null(row[0])) for row in rows], [from_text(self._kind, x) for x in heads]

    def keyless(self, limit: int) -> list[MessageId]:
        """Due messages without a key."""
        if self._statements.whole:
            return []
        rows = self._connection.query_text(self._statements.keyless, (limit,), (self._id,))
        return [from_text(self._kind, not_null(row[0])) for row in rows]

    def next_due_ns(self) -> int | None:
        """When the next message falls due, of whatever key."""
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


def look(
    connection: StoreConnection,
    statements: QueueStatements,
    ordered: OrderStatements,
    queue: QueueSpec,
    limit: int,
    guess: LevelGuess,
    memory: OrderMemory,
) -> Look:
    """MessageStore.look of a queue with an order_key; see the module."""
    order = KeyOrder(connection, ordered, queue)
    if memory.by_keys or ordered.whole:
        found = _by_keys(connection, statements, order, limit, FEW_STEPS)
        if found is not None:
            return found
        memory.too_long()
    seen = due_messages.look(connection, statements, queue, limit, guess)
    free = in_order(connection, ordered, queue, seen)
    memory.behind(len(seen.keys), len(free.keys))
    if free.keys or not seen.more:
        return free
    found = _by_keys(connection, statements, order, limit, None)
    assert found is not None
    return found


def in_order(connection: StoreConnection, statements: OrderStatements, queue: QueueSpec, seen: Look) -> Look:
    """Of what was found due, what may go by its key."""
    if not seen.keys:
        return seen
    free = {position.id for position in KeyOrder(connection, statements, queue).free([key.id for key in seen.keys])}
    return replace(seen, keys=tuple(key for key in seen.keys if key.id in free))


def _by_keys(
    connection: StoreConnection, statements: QueueStatements, order: KeyOrder, limit: int, steps_max: int | None
) -> Look | None:
    now_ns = int(connection.query(statements.now)[0][0])
    next_due_ns = order.next_due_ns()
    heads = order.heads(steps_max)
    if heads is None:
        return None
    standings = order.free([*heads, *order.keyless(limit + 1)])
    keys = sorted(
        (MessageKey(standing.priority, standing.due_ns, standing.id) for standing in standings),
        key=lambda key: (key.priority, key.due_ns),
    )
    return Look(now_ns, tuple(keys[:limit]), next_due_ns, len(keys) > limit)


def _least(times: Iterable[int | None]) -> int | None:
    return min((int(time) for time in times if time is not None and int(time) < REJECTED_NS), default=None)
