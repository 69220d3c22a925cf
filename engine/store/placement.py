"""In which shard of a Vitess the messages of a queue are: what is remembered, and what is asked."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from engine.model.errors import BackendError, InvalidOption
from engine.model.identity import is_integer
from engine.model.key_range import Span, read_key_range
from engine.model.queue import ColumnMeta, Message, MessageId, QueueName, QueueSpec, TextValue, quoted
from engine.store.shard import Answers

PLACES_MAX = 50_000
"""Messages of all queues whose shard is remembered; then the oldest of the queue with the most are dropped. 20 MB."""

Ask = Callable[[QueueSpec, Sequence[MessageId]], Awaitable[Answers[Collection[MessageId]]]]
"""Asks each shard of a queue which of these messages it has."""


class Place(NamedTuple):
    """The shard of a message; and a literal of its sharding key by which a vtgate finds that shard, None where it is
    not known to."""

    shard: str
    key: str | None = None


class Places:
    """Where messages are, as far as it is known: the last PLACES_MAX of all queues."""

    def __init__(self, most: int = PLACES_MAX) -> None:
        self._most, self._count = most, 0
        self._queues: dict[QueueName, dict[MessageId, Place]] = {}

    def learn(self, queue: QueueName, shard: str, ids: Iterable[MessageId]) -> None:
        """These messages are in that shard."""
        known, place = self._queues.get(queue, {}), Place(shard)
        self._add(queue, [(id_, place) for id_ in ids if (at := known.get(id_)) is None or at.shard != shard])

    def learn_keys(self, queue: QueueSpec, shard: str, messages: Iterable[Message]) -> None:
        """These messages are in that shard, and have these values."""
        key = (queue.options.sharding_key or "").lower()
        at = next((at for at, column in enumerate(queue.columns) if column.name.lower() == key), None)
        if at is not None:
            places = _PlacesByKey(queue.columns[at], shard)
            self._add(queue.name, [(message.id, places[message.values[at]]) for message in messages])

    def _add(self, queue: QueueName, places: Sequence[tuple[MessageId, Place]]) -> None:
        known = self._queues.setdefault(queue, {})
        self._count -= len(known)
        known.update(places)
        self._count += len(known)
        while self._count > self._most:
            most = max(self._queues.values(), key=len)
            for oldest in list(islice(most, self._count - self._most)):
                del most[oldest]
                self._count -= 1

    def of(self, queue: QueueSpec, ids: Iterable[MessageId]) -> dict[MessageId, Place]:
        """Those that are known, in shards that there are."""
        known, shards = self._queues.get(queue.name, {}), queue.shards
        return {id_: at for id_ in ids if (at := known.get(id_)) is not None and at.shard in shards}

    def retain(self, queues: Collection[QueueName]) -> None:
        """Forget all queues but these."""
        self._queues = {name: places for name, places in self._queues.items() if name in queues}
        self._count = sum(map(len, self._queues.values()))


class _PlacesByKey(dict[TextValue, Place]):
    """Of messages in one shard, by the values of their sharding key."""

    def __init__(self, column: ColumnMeta, shard: str) -> None:
        super().__init__()
        self._literal, self._shard = RoutingLiterals(column, shard), shard

    def __missing__(self, value: TextValue) -> Place:
        place = self[value] = Place(self._shard, self._literal.of(value))
        return place


class ShardPlacement:
    """Placement of a ShardedStore."""

    def __init__(self, ask: Ask, is_lost: Callable[[QueueSpec, str], bool]) -> None:
        self._ask, self._is_lost = ask, is_lost
        self.known = Places()
        self.on_missing: Callable[[], None] = lambda: None
        self.on_refused: Callable[[QueueName], None] = lambda queue: None

    def routes(self, queue: QueueSpec, ids: Collection[MessageId]) -> Mapping[str, str] | None:
        places, keys = self.known.of(queue, ids), dict[str, list[str]]()
        if len(places) < len(set(ids)):
            return None
        for shard, key in set(places.values()):
            if key is None:
                return None
            keys.setdefault(shard, []).append(key)
        column = quoted(queue.options.sharding_key or "")
        return {shard: f"{column} IN ({', '.join(sorted(some))})" for shard, some in keys.items()}

    async def places(self, queue: QueueSpec, ids: Collection[MessageId]) -> dict[MessageId, str]:
        places, failed = await self.find(queue, ids)
        if failed is not None:
            raise failed
        return places

    def answering(self, queue: QueueSpec) -> str:
        return next((shard for shard in queue.shards if not self._is_lost(queue, shard)), queue.shards[0])

    async def find(
        self, queue: QueueSpec, ids: Collection[MessageId]
    ) -> tuple[dict[MessageId, str], BackendError | None]:
        """The shards of those of `ids` that exist; and an error where some are not there, and a shard has not
        answered."""
        places = {id_: place.shard for id_, place in self.known.of(queue, ids).items()}
        if not (missing := [id_ for id_ in ids if id_ not in places]):
            return places, None
        answers = await self._ask(queue, missing)
        for shard, some in answers.results.items():
            self.known.learn(queue.name, shard, some)
            places.update(dict.fromkeys(some, shard))
        return places, answers.failed if len(places) < len(set(ids)) else None


class RoutingLiterals:
    """Literals of a sharding key by which a vtgate finds one shard, and by which the row is found there."""

    def __init__(self, column: ColumnMeta, shard: str) -> None:
        self._spans: Sequence[Span] = ()
        with contextlib.suppress(InvalidOption):  # of a length of which no part of a ring is
            self._spans = read_key_range("shard", shard).spans if is_integer(column) else ()

    def of(self, value: TextValue) -> str | None:
        """None where that is not certain: a row may have been inserted by another spelling of its key ('07' for 7), by
        which it was placed; and a text may be stored in another encoding than it is read in."""
        if value is None:
            return None
        # Where vtgate places a key: the vindex binary_md5.
        slot = int.from_bytes(hashlib.md5(value, usedforsecurity=False).digest()[:2])
        for span in self._spans:
            if span.first <= slot <= span.last:
                return str(int(value))
        return None
