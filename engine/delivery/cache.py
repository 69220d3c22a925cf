"""The messages that wait to be claimed, so far as is known. No await here.

MessageCache has the keys that polls have returned, in delivery order, bounded. Rules:
- It has keys, never bodies: memory does not grow with payloads, and a claim reads the row as it is by then.
- Its content is a guess; the table decides at the claim. So a stale key costs a wasted claim, never a wrong delivery.
- A poll is authoritative for its range: everything, or up to its last key when more was due. Keys beyond that range
  stay as they are.
- When a merge does not fit, the keys last in order are dropped, and the result reports it, so that the caller polls
  again.
- Keys of messages that are to be handed out alone are separate (`alone`): they may have to wait for a receiver that has
  no messages, and must not delay others that can go to a busy one.

AddedIds has the ids of messages that commits of this proxy have just added, which are claimed without a poll. The
session that relayed a commit knows the first id that the database generated and the number of rows. That is a hint: an
INSERT with ids of its own, with a delay or with a trigger makes it wrong. A claim takes the ids that are right. A poll
follows at once if not all were, or if an id ended before it was claimed, and a second later in any case
(`CONFIRM_SECONDS`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence

from engine.model.commit_report import ADDED_MAX
from engine.model.queue import Message, MessageId, MessageKey
from engine.model.states import goes_alone

CONFIRM_SECONDS = 1.0
"""After a claim without a poll, until the table is polled for messages that the hint did not contain."""

ALONE_MAX = 1000
"""Keys that wait to be handed out alone. If there are more, those last in order are polled for again when these are
gone."""

_MISSES_MAX = 4  # in a row; then only one hint in _ONE_HINT_IN is followed, until one is right
_ONE_HINT_IN = 32


def delivery_order(key: MessageKey | Message) -> tuple[int, int, str, MessageId]:
    """Priority, then due time, then id. The type's name keeps ids of two types (a column just altered) comparable."""
    return (key.priority, key.due_ns, type(key.id).__name__, key.id)


class MessageCache:
    """See the module."""

    def __init__(self, limit: int) -> None:
        assert limit >= 1
        self.limit = limit
        self.separate_alone = False
        """Whether messages that became due by a crash are handed out alone."""
        self._keys: deque[MessageKey] = deque()
        self._ids: set[MessageId] = set()  # of both kinds
        self._alone: deque[MessageKey] = deque()

    def __len__(self) -> int:
        return len(self._keys) + len(self._alone)

    @property
    def together(self) -> int:
        """How many keys wait that may be handed out with others."""
        return len(self._keys)

    @property
    def keys(self) -> Sequence[MessageKey]:
        """The keys that may be handed out with others, in order."""
        return tuple(self._keys)

    @property
    def alone(self) -> int:
        """How many keys wait that are to be handed out alone."""
        return len(self._alone)

    @property
    def alone_first(self) -> bool:
        """Whether one that is to be handed out alone comes first in order."""
        return bool(self._alone) and (not self._keys or delivery_order(self._alone[0]) < delivery_order(self._keys[0]))

    def __contains__(self, id_: MessageId) -> bool:
        return id_ in self._ids

    def merge(self, keys: Sequence[MessageKey], *, more: bool) -> bool:
        """Add the due keys of a poll; `more`: further ones are due. Returns whether all of them fit."""
        fresh = sorted(keys, key=delivery_order)
        if more and fresh:
            fresh += self._beyond(fresh)
        fits = self._split(fresh)
        self._ids = {key.id for key in (*self._keys, *self._alone)}
        assert len(self._ids) == len(self), "an id is cached twice"
        return fits

    def _split(self, ordered: Sequence[MessageKey]) -> bool:
        """Replace the present keys by these, those to be handed out alone separately; whether all of them fit."""
        alone = [key for key in ordered if goes_alone(key.due_ns)] if self.separate_alone else []
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
        """Add further keys. There must be room for them, except for those that go out alone: False if some of these did
        not fit."""
        fresh = [key for key in keys if key.id not in self._ids]
        fits = self._split(sorted((*self._keys, *self._alone, *fresh), key=delivery_order))
        self._ids = {key.id for key in (*self._keys, *self._alone)}
        assert len(self._ids) == len(self) and len(self._keys) <= max(self.limit, 1), "more keys than the cache holds"
        return fits

    def fill(self, keys: Sequence[MessageKey]) -> None:
        """Add keys in delivery order to the cache, which is empty. They had room, and none of them goes out alone."""
        assert not self._ids, "there are others"
        self._keys, self._ids = deque(keys), {key.id for key in keys}

    def _beyond(self, fresh: list[MessageKey]) -> list[MessageKey]:
        last = delivery_order(fresh[-1])
        ids = {key.id for key in fresh}
        cached = (*self._keys, *self._alone)
        return sorted((key for key in cached if key.id not in ids and delivery_order(key) > last), key=delivery_order)

    def take(self, count: int) -> list[MessageKey]:
        """Remove and return the first keys in order, up to `count`, of those that may be handed out with others."""
        return self._pop(self._keys, count)

    def take_alone(self, count: int) -> list[MessageKey]:
        """The same of those that are to be handed out alone."""
        return self._pop(self._alone, count)

    def _pop(self, keys: deque[MessageKey], count: int) -> list[MessageKey]:
        taken = [keys.popleft() for _ in range(min(count, len(keys)))]
        self._ids.difference_update(key.id for key in taken)
        return taken

    def put_back(self, keys: Iterable[MessageKey]) -> None:
        """Put back keys that were taken and could not be claimed now, in their order."""
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


class Misses:
    """Whether it is worth while to claim without a look: only now and then where such claims have been in vain."""

    def __init__(self) -> None:
        self._misses = 0

    def worth_a_claim(self) -> bool:
        """Whether to try now."""
        if self._misses < _MISSES_MAX:
            return True
        self._misses += 1
        return not self._misses % _ONE_HINT_IN

    def record_outcome(self, *, correct: bool) -> None:
        """Whether all that were tried last were claimed."""
        self._misses = 0 if correct else self._misses + 1


class ClaimsAtOnce(Misses):
    """Of the keys of the cache. `possible`: whether the queue may have such claims."""

    possible = False

    def take(self, cache: MessageCache, count: int) -> Sequence[MessageKey]:
        """The next keys, up to `count`, to be claimed without a look at them; none where that has been in vain, or they
        are many."""
        count = min(count, cache.together)
        fits = self.possible and not cache.alone and 0 < count <= ADDED_MAX
        return cache.take(count) if fits and self.worth_a_claim() else ()


class AddedIds(Misses):
    """See the module. Of one queue."""

    def __init__(self) -> None:
        super().__init__()
        self._ids: list[MessageId] = []
        self.claimed = True
        """Whether all that were taken are claimed, or known not to be."""

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, ids: Sequence[MessageId]) -> bool:
        """Store these; False where there would be too many, or hints have been wrong too often."""
        if len(self._ids) + len(ids) > ADDED_MAX or not self.worth_a_claim():
            return False
        self._ids += ids
        return True

    def discard(self, ids: Collection[MessageId]) -> bool:
        """These are known by other means, or have ended; whether one of them was stored. Then the hint may have been
        wrong, and the added messages have other ids: the table is still to be polled."""
        if not self._ids:
            return False
        left = [id_ for id_ in self._ids if id_ not in ids]
        removed, self._ids = len(left) < len(self._ids), left
        return removed

    def take(self) -> Sequence[MessageId]:
        """Remove and return all of them."""
        ids, self._ids = self._ids, []
        return ids

    @contextlib.contextmanager
    def claiming(self) -> Iterator[Sequence[MessageId]]:
        """Remove all of them, which are claimed meanwhile."""
        self.claimed = False
        try:
            yield self.take()
        finally:
            self.claimed = True


class SetAside:
    """Keys of a poll that no receiver has got, for the next receiver: for CONFIRM_SECONDS after the poll, until another
    message falls due (`due_at`), or until `forget`. Times are in seconds of the engine's monotonic clock."""

    def __init__(self) -> None:
        self._keys: Sequence[MessageKey] = ()
        self._polled_at = 0.0
        self._due_at: float | None = None
        self._expiry: asyncio.TimerHandle | None = None

    def put(self, keys: Sequence[MessageKey], polled_at: float, due_at: float | None) -> None:
        """Set these aside, in place of others."""
        self.forget()
        self._keys, self._polled_at, self._due_at = keys, polled_at, due_at
        self._expiry = asyncio.get_running_loop().call_later(CONFIRM_SECONDS, self.forget)

    def forget(self) -> None:
        """They are not to be used."""
        self._keys = ()
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def discard(self, ids: Collection[MessageId]) -> None:
        """These ended."""
        if self._keys:
            self._keys = [key for key in self._keys if key.id not in ids]

    def take(self, count: int, now: float) -> tuple[Sequence[MessageKey], float, float | None] | None:
        """Remove and return the keys, when they were polled, and when another message falls due; None where they are
        less than `count`, or too old."""
        keys, until = self._keys, self._polled_at + CONFIRM_SECONDS
        self.forget()
        if len(keys) < count or now >= until or (self._due_at is not None and now >= self._due_at):
            return None
        return keys, self._polled_at, self._due_at
