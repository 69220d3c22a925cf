"""What is known to wait to be claimed. Pure; no await here.

MessageCache has the keys that looks have found, in delivery order, bounded. Rules:
- It holds keys, never bodies: memory does not grow with payloads, and a claim reads the row as it is by then.
- What it holds is a guess; the table decides at the claim. So a stale key costs a wasted claim, never a wrong delivery.
- A look is authoritative for its range: everything, or up to its last key when more was due. Keys beyond that range
  stay as they are.
- When a merge does not fit, the keys last in order are dropped, and the caller learns it, so that it looks again.
- Keys of messages that are to be handed out alone wait apart (`alone`): they may have to wait for a receiver that holds
  nothing, and must not keep others from those that are busy.

AddedIds has the ids of messages that commits of this proxy have just added, which are claimed without a look. Whoever
carried a commit knows the first id that the database gave and how many rows there are. That is a hint: an INSERT with
ids of its own, with a delay or beside a trigger makes it wrong. A claim takes what is right of it, a look follows at
once where not all was, or an id ended before it was claimed, and one a second later in any case (`CONFIRM_SECONDS`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence

from engine.model.commit_report import ADDED_MAX
from engine.model.queue import Message, MessageId, MessageKey
from engine.model.states import goes_alone

CONFIRM_SECONDS = 1.0
"""After a claim without a look, until the table is looked at for what the hint has left out."""

ALONE_MAX = 1000
"""Keys that wait to be handed out alone. Of more, those last in order are looked for again when these have gone."""

_MISSES_MAX = 4  # in a row; then only one hint in _SELDOM is followed, until one is right
_SELDOM = 32


def delivery_order(key: MessageKey | Message) -> tuple[int, int, str, MessageId]:
    """Priority, then due time, then id. The type's name keeps ids of two types (a column just altered) comparable."""
    return (key.priority, key.due_ns, type(key.id).__name__, key.id)


class MessageCache:
    """See the module."""

    def __init__(self, limit: int) -> None:
        assert limit >= 1
        self.limit = limit
        self.parted = False
        """Whether messages that a crash made due are handed out alone."""
        self._keys: deque[MessageKey] = deque()
        self._ids: set[MessageId] = set()  # of both kinds
        self._alone: deque[MessageKey] = deque()

    def __len__(self) -> int:
        return len(self._keys) + len(self._alone)

    @property
    def together(self) -> int:
        """How many keys wait that may be handed out together."""
        return len(self._keys)

    @property
    def alone(self) -> int:
        """How many wait that are to be handed out alone."""
        return len(self._alone)

    @property
    def alone_first(self) -> bool:
        """Whether one that is to be handed out alone comes first in order."""
        return bool(self._alone) and (not self._keys or delivery_order(self._alone[0]) < delivery_order(self._keys[0]))

    def __contains__(self, id_: MessageId) -> bool:
        return id_ in self._ids

    def merge(self, keys: Sequence[MessageKey], *, more: bool) -> bool:
        """Take in a look's due keys; `more` says that further ones are due. True when all of it fitted."""
        fresh = sorted(keys, key=delivery_order)
        if more and fresh:
            fresh += self._beyond(fresh)
        fits = self._part(fresh)
        self._ids = {key.id for key in (*self._keys, *self._alone)}
        assert len(self._ids) == len(self), "an id is cached twice"
        return fits

    def _part(self, ordered: Sequence[MessageKey]) -> bool:
        """Keep these, apart; whether all of them fitted."""
        alone = [key for key in ordered if goes_alone(key.due_ns)] if self.parted else []
        self._alone = deque(alone[:ALONE_MAX])
        together = [key for key in ordered if not goes_alone(key.due_ns)] if alone else ordered
        self._keys = deque(together[: self.limit])
        return len(together) <= self.limit and len(alone) <= ALONE_MAX

    @property
    def full(self) -> bool:
        """Whether there is no room for another key."""
        return len(self._keys) >= self.limit

    def drop_last(self) -> None:
        """Forget the key that would be handed out last. The cache is full."""
        self._ids.remove(self._keys.pop().id)

    def add(self, keys: Sequence[MessageKey]) -> bool:
        """Take in further keys. There must be room for them, but that it is less for those that go out alone: False
        where some of these were left out."""
        fresh = [key for key in keys if key.id not in self._ids]
        fits = self._part(sorted((*self._keys, *self._alone, *fresh), key=delivery_order))
        self._ids = {key.id for key in (*self._keys, *self._alone)}
        assert len(self._ids) == len(self) and len(self._keys) <= max(self.limit, 1), "more keys than the cache holds"
        return fits

    def _beyond(self, fresh: list[MessageKey]) -> list[MessageKey]:
        last = delivery_order(fresh[-1])
        ids = {key.id for key in fresh}
        kept = (*self._keys, *self._alone)
        return sorted((key for key in kept if key.id not in ids and delivery_order(key) > last), key=delivery_order)

    def take(self, count: int) -> list[MessageKey]:
        """Remove and return up to `count` keys, first in order first, of those that may be handed out together."""
        return self._taken(self._keys, count)

    def take_alone(self, count: int) -> list[MessageKey]:
        """The same of those that are to be handed out alone."""
        return self._taken(self._alone, count)

    def _taken(self, keys: deque[MessageKey], count: int) -> list[MessageKey]:
        taken = [keys.popleft() for _ in range(min(count, len(keys)))]
        self._ids.difference_update(key.id for key in taken)
        return taken

    def put_back(self, keys: Iterable[MessageKey]) -> None:
        """Keys that were taken and could not be claimed now; they wait again in their order."""
        back = [key for key in keys if key.id not in self._ids]
        if back:
            self.merge([*back, *self._keys, *self._alone], more=False)

    def discard(self, ids: Iterable[MessageId]) -> int:
        """Forget these ids; returns how many were waiting here."""
        gone = self._ids.intersection(ids)
        if gone:
            self._ids -= gone
            self._keys = deque(key for key in self._keys if key.id not in gone)
            self._alone = deque(key for key in self._alone if key.id not in gone)
        return len(gone)

    def clear(self) -> None:
        self._keys.clear()
        self._alone.clear()
        self._ids.clear()


class AddedIds:
    """See the module. Of one queue."""

    def __init__(self) -> None:
        self._ids: list[MessageId] = []
        self._misses = 0

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, ids: Sequence[MessageId]) -> bool:
        """Keep these; False where there would be too many, or hints have been wrong too often."""
        if len(self._ids) + len(ids) > ADDED_MAX:
            return False
        if self._misses >= _MISSES_MAX:
            self._misses += 1
            if self._misses % _SELDOM:
                return False
        self._ids += ids
        return True

    def discard(self, ids: Collection[MessageId]) -> bool:
        """These are known by other means, or have ended; whether one of them was kept. Then the hint may have been
        wrong, and what was added has another id: the table is still to be looked at."""
        if not self._ids:
            return False
        left = [id_ for id_ in self._ids if id_ not in ids]
        found, self._ids = len(left) < len(self._ids), left
        return found

    def take(self) -> Sequence[MessageId]:
        """All of them, which are forgotten here."""
        ids, self._ids = self._ids, []
        return ids

    def proved(self, *, right: bool) -> None:
        """What became of those that were taken."""
        self._misses = 0 if right else self._misses + 1
