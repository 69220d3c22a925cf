"""In which shard of a Vitess the messages of a queue are: what is remembered, and what is asked."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from engine.model.errors import BackendError, InvalidOption
from engine.model.identity import is_integer
from engine.model.key_range import read_key_range
from engine.model.queue import ColumnMeta, Message, MessageId, QueueName, QueueSpec, TextValue, quoted
from engine.store.shard import Answers

PLACES_MAX = 50_000
"""Messages of all queues whose shard is remembered; the oldest are dropped. 20 MB."""

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
        self._most = most
        self._places: dict[tuple[QueueName, MessageId], Place] = {}

    def learn(self, queue: QueueName, shard: str, ids: Iterable[MessageId]) -> None:
        """These messages are in that shard."""
        for id_ in ids:
            known = self._places.get((queue, id_))
            if known is None or known.shard != shard:
                self._places[queue, id_] = Place(shard)
        self._forget_oldest()

    def learn_keys(self, queue: QueueSpec, shard: str, messages: Iterable[Message]) -> None:
        """These messages are in that shard, and have these values."""
        key = (queue.options.sharding_key or "").lower()
        at = next((at for at, column in enumerate(queue.columns) if column.name.lower() == key), None)
        if at is None:
            return
        for message in messages:
            literal = routing_literal(message.values[at], queue.columns[at], shard)
            self._places[queue.name, message.id] = Place(shard, literal)
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        for place in list(islice(self._places, max(0, len(self._places) - self._most))):
            del self._places[place]

    def of(self, queue: QueueSpec, ids: Iterable[MessageId]) -> dict[MessageId, Place]:
        """Those that are known, in shards that there are."""
        known = {id_: self._places.get((queue.name, id_)) for id_ in ids}
        return {id_: place for id_, place in known.items() if place is not None and place.shard in queue.shards}

    def retain(self, queues: Collection[QueueName]) -> None:
        """Forget all queues but these."""
        self._places = {at: place for at, place in self._places.items() if at[0] in queues}


class ShardPlacement:
    """Placement of a ShardedStore."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.known = Places()
        self.on_missing: Callable[[], None] = lambda: None

    def routes(self, queue: QueueSpec, ids: Collection[MessageId]) -> Mapping[str, str] | None:
        """See Placement."""
        keys: dict[str, set[str]] = {}
        places = self.known.of(queue, ids)
        for place in places.values():
            if place.key is None:
                return None
            keys.setdefault(place.shard, set()).add(place.key)
        if len(places) < len(set(ids)):
            return None
        column = quoted(queue.options.sharding_key or "")
        return {shard: f"{column} IN ({', '.join(sorted(some))})" for shard, some in keys.items()}

    async def places(self, queue: QueueSpec, ids: Collection[MessageId]) -> dict[MessageId, str]:
        """See Placement."""
        places, failed = await self.find(queue, ids)
        if failed is not None:
            raise failed
        return places

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


def routing_literal(value: TextValue, column: ColumnMeta, shard: str) -> str | None:
    """A literal of a sharding key by which a vtgate finds its shard, and by which the row is found there.

    None where that is not certain: a row may have been inserted by another spelling of its key ('07' for 7), by which
    it was placed; and a text may be stored in another encoding than it is read in.
    """
    if value is None or not is_integer(column) or not _in_shard(value, shard):
        return None
    return str(int(value))


def _in_shard(value: bytes, shard: str) -> bool:
    """Whether vtgate places a key there: the vindex binary_md5."""
    try:
        shard_range = read_key_range("shard", shard)
    except InvalidOption:
        return False  # of a length of which no part of a ring is
    slot = int.from_bytes(hashlib.md5(value, usedforsecurity=False).digest()[:2])
    return shard_range.covers(slot)
