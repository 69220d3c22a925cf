"""ShardedStore: MessageStore on a Vitess, where the messages of a queue may be in several shards.

Each shard is used by sessions of its own, in which a vtgate passes every statement on as it is. So a shard's part of a
queue is served by a SqlMessageStore, as a queue of any other server is, and here the parts are put together. Ids are
unique in a keyspace, for they come from a sequence.

Rules
- What concerns no sharded queue is done by the store of the vtgate itself, `whole`.
- Where a message is, is remembered from the polls; what is not known is asked of all shards.
- A shard that does not answer is left out, so that it holds up no other: its messages are neither polled nor claimed
  until it answers a ping. Only where no shard answers does an operation fail.
- Leases of a claim whose outcome is unknown at one shard are released before that shard is used again, since the
  messages of the other shards are delivered meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeVar

from engine.model.backoff import DoublingDelay
from engine.model.errors import BackendError, BackendUnavailable
from engine.model.key_range import KeyRange
from engine.model.keyspaces import at_shard
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import Condition, MessageId, QueueCatalog, QueueName, QueueSpec, SubscribeRequest
from engine.store.base import (
    Claim,
    CountStore,
    ForeseenLease,
    LeasedMessage,
    LeaseState,
    LeaseUnknown,
    Page,
    PartitionPurge,
    PollAndClaim,
    PollResult,
    Position,
    Release,
    ScanResult,
    first_free,
)
from engine.store.census import Census, RangeCount
from engine.store.sharing import UNMARKED, Sharing
from engine.store.sql_store import SqlMessageStore

PLACES_MAX = 50_000
"""Messages of a queue whose shard is remembered; the oldest are dropped. 5 MB."""

_RETRY_NS = NS_PER_SECOND  # until the next poll while a shard is left out
_FIRST_PING, _PINGS_SECONDS = 0.5, 10.0  # the pauses between pings of a shard that does not answer

OpenShard = Callable[[str], SqlMessageStore]
"""Opens the store of a shard, by the name of engine.model.keyspaces.at_shard."""

T = TypeVar("T")


class Places:
    """In which shard messages are, as far as it is known: of each queue the last PLACES_MAX."""

    def __init__(self, most: int = PLACES_MAX) -> None:
        self._most = most
        self._places: dict[QueueName, dict[MessageId, str]] = {}

    def learn(self, queue: QueueName, shard: str, ids: Iterable[MessageId]) -> None:
        """These messages are in that shard."""
        known = self._places.setdefault(queue, {})
        known.update(dict.fromkeys(ids, shard))
        for id_ in list(islice(known, max(0, len(known) - self._most))):
            del known[id_]

    def of(self, queue: QueueSpec, ids: Iterable[MessageId]) -> dict[MessageId, str]:
        """Those that are known, in shards that there are."""
        known = self._places.get(queue.name, {})
        return {id_: shard for id_ in ids if (shard := known.get(id_)) in queue.shards}

    def retain(self, queues: Collection[QueueName]) -> None:
        """Forget all queues but these."""
        self._places = {name: places for name, places in self._places.items() if name in queues}


class ShardedStore:
    """See the module."""

    def __init__(self, whole: SqlMessageStore, open_shard: OpenShard, logger: logging.Logger | None = None) -> None:
        self._whole, self._open = whole, open_shard
        self._logger = logger or logging.getLogger("queuegate.store")
        self._shards: dict[str, Shard] = {}
        self._known = Places()
        self.topics, self.traces, self.zones = whole.topics, whole.traces, whole.zones
        self.last_receivers, self.schedules = whole.last_receivers, whole.schedules
        self.births, self.groups = whole.births, whole.groups
        self.counts = ShardedCounts(self, whole.counts)

    # --- what concerns no queue

    async def load_catalog(self, previous: QueueCatalog) -> QueueCatalog:
        """See MessageStore."""
        catalog = await self._whole.load_catalog(previous)
        if catalog is not previous:
            sharded = [queue for queue in catalog if queue.shards]
            wanted = {at_shard(queue.name.database, shard) for queue in sharded for shard in queue.shards}
            self._known.retain({queue.name for queue in sharded})
            for gone in self._shards.keys() - wanted:
                await self._shards.pop(gone).close()
            for shard in self._shards.values():
                shard.store.retain(catalog.queues)
        return catalog

    def administer(self, sql: str) -> Awaitable[Sequence[tuple[Any, ...]]]:
        """See SqlMessageStore."""
        return self._whole.administer(sql)

    def ping(self) -> Coroutine[Any, Any, None]:
        """See MessageStore."""
        return self._whole.ping()

    async def close(self) -> None:
        """See MessageStore."""
        for shard in self._shards.values():
            await shard.close()
        await self._whole.close()

    # --- the messages of a queue

    async def places(self, queue: QueueSpec, ids: Collection[MessageId]) -> dict[MessageId, str]:
        """See MessageStore."""
        found = self._known.of(queue, ids)
        if missing := [id_ for id_ in ids if id_ not in found]:
            answers = await self.each(queue, lambda store, _: store.slots(queue, missing))
            for shard, slots in answers.results.items():
                self._known.learn(queue.name, shard, slots)
                found.update(dict.fromkeys(slots, shard))
            if answers.failed is not None and len(found) < len(set(ids)):
                raise answers.failed
        return found

    def poll(self, queue: QueueSpec, limit: int) -> Coroutine[Any, Any, PollResult]:
        """See MessageStore."""
        return self._poll(queue, limit) if queue.shards else self._whole.poll(queue, limit)

    async def _poll(self, queue: QueueSpec, limit: int) -> PollResult:
        polls = (await self.each(queue, lambda store, _: store.poll(queue, limit))).some()
        for shard, poll in polls.results.items():
            self._known.learn(queue.name, shard, (key.id for key in poll.keys))
        return merged_polls(list(polls.results.values()), limit, incomplete=polls.failed is not None)

    async def scan(self, queue: QueueSpec, condition: Condition, page: Page) -> ScanResult:
        """See MessageStore."""
        if not queue.shards:
            return await self._whole.scan(queue, condition, page)
        scans = (await self.each(queue, lambda store, _: store.scan(queue, condition, page))).some()
        for shard, scanned in scans.results.items():
            self._known.learn(queue.name, shard, (key.id for key in scanned.poll.keys))
        return merged_scans(list(scans.results.values()), page.limit, incomplete=scans.failed is not None)

    async def slots(self, queue: QueueSpec, ids: Sequence[MessageId]) -> dict[MessageId, int]:
        """See MessageStore."""
        if not queue.shards:
            return await self._whole.slots(queue, ids)
        answers = (await self.each(queue, lambda store, _: store.slots(queue, ids))).some()
        for shard, slots in answers.results.items():
            self._known.learn(queue.name, shard, slots)
        return {id_: slot for slots in answers.results.values() for id_, slot in slots.items()}

    async def fitting(self, queue: QueueSpec, condition: Condition, ids: Sequence[MessageId]) -> set[MessageId]:
        """See MessageStore."""
        if not queue.shards:
            return await self._whole.fitting(queue, condition, ids)
        answers = await self._at_places(queue, ids, lambda store, some: store.fitting(queue, condition, some))
        return set().union(*answers.some().results.values())

    async def claim(
        self,
        queue: QueueSpec,
        ids: Sequence[MessageId],
        delays_ns: Mapping[int, int],
        condition: Condition | None = None,
        sharing: Sharing = UNMARKED,
    ) -> Claim:
        """See MessageStore."""
        if not queue.shards:
            return await self._whole.claim(queue, ids, delays_ns, condition, sharing)
        # A part of the messages may be few enough for one receiver each, where all of them are not.
        part = sharing if len(ids) <= sharing.receivers else replace(sharing, receivers=0)
        claims = await self._at_places(
            queue, ids, lambda store, some: store.claim(queue, some, delays_ns, condition, part)
        )
        self._retain_unknown(queue, claims)
        return merged_claims(ids, list(claims.some().results.values()))

    async def poll_and_claim(
        self,
        queue: QueueSpec,
        limit: int,
        count: int,
        blocked: Collection[MessageId],
        delays_ns: Mapping[int, int],
        sharing: Sharing = UNMARKED,
    ) -> PollAndClaim:
        """See MessageStore."""
        if not queue.shards:
            return await self._whole.poll_and_claim(queue, limit, count, blocked, delays_ns, sharing)
        poll = await self._poll(queue, limit)
        ids = first_free(poll, count, blocked, sharing)
        claim = await self.claim(queue, ids, delays_ns, None, sharing) if ids else None
        return PollAndClaim(poll, ids, claim)

    def claim_added(
        self, queue: QueueSpec, ids: Sequence[MessageId], foreseen: ForeseenLease
    ) -> Coroutine[Any, Any, Claim | None]:
        """See MessageStore; a queue of several shards takes none so."""
        return self._whole.claim_added(queue, ids, foreseen)

    async def unsettled(self, queue: QueueSpec, ids: Sequence[MessageId]) -> dict[MessageId, LeaseState]:
        """See MessageStore."""
        if not queue.shards:
            return await self._whole.unsettled(queue, ids)
        answers = (await self._at_places(queue, ids, lambda store, some: store.unsettled(queue, some))).all()
        return {id_: state for states in answers.values() for id_, state in states.items()}

    async def release(
        self,
        queue: QueueSpec,
        leases: Sequence[Release],
        *,
        counted: bool,
        alone: bool = False,
        gone: SubscribeRequest | None = None,
    ) -> int:
        """See MessageStore. What is released at some of the shards stays so where another fails."""
        if not queue.shards:
            return await self._whole.release(queue, leases, counted=counted, alone=alone, gone=gone)
        by_id: dict[MessageId, list[Release]] = {}
        for lease in leases:
            by_id.setdefault(lease.id, []).append(lease)

        def release(store: SqlMessageStore, ids: Sequence[MessageId]) -> Awaitable[int]:
            some = [lease for id_ in ids for lease in by_id[id_]]
            return store.release(queue, some, counted=counted, alone=alone, gone=gone)

        return sum((await self._at_places(queue, list(by_id), release)).all().values())

    async def rejected(self, queue: QueueSpec, limit: int) -> list[MessageId]:
        """See MessageStore."""
        if not queue.shards:
            return await self._whole.rejected(queue, limit)
        answers = (await self.each(queue, lambda store, _: store.rejected(queue, limit))).some()
        for shard, ids in answers.results.items():
            self._known.learn(queue.name, shard, ids)
        return [id_ for ids in answers.results.values() for id_ in ids][:limit]

    async def move_to_dead_letters(self, queue: QueueSpec, dead: QueueSpec, ids: Sequence[MessageId]) -> int:
        """See MessageStore."""
        if not queue.shards:
            return await self._whole.move_to_dead_letters(queue, dead, ids)
        keys = [(each.options.sharding_key or "").lower() for each in (queue, dead)]
        if keys[0] != keys[1]:
            raise BackendError(
                f"the dead-letter queue '{dead.name.table}' has another sharding key than '{queue.name.table}', so its"
                " messages would be in the wrong shard",
                1235,
            )
        moved = await self._at_places(queue, ids, lambda store, some: store.move_to_dead_letters(queue, dead, some))
        return sum(moved.some().results.values())

    async def purge(self, queue: QueueSpec, limit: int, purged: PartitionPurge | None = None) -> int:
        """See MessageStore."""
        if not queue.shards:
            return await self._whole.purge(queue, limit, purged)
        deleted, failed = 0, None
        for shard in queue.shards:
            if (left := limit - deleted) > 0:
                answer = await self.each(queue, lambda store, _, left=left: store.purge(queue, left), (shard,))
                deleted += sum(answer.results.values())
                failed = answer.failed or failed
        if failed is not None and not deleted:
            raise failed
        return deleted

    async def purge_partitions(self, queue: QueueSpec) -> PartitionPurge | None:
        """See MessageStore. The tables of shards are purged row by row."""
        return None if queue.shards else await self._whole.purge_partitions(queue)

    def add_tokens(self, queue: QueueSpec) -> Coroutine[Any, Any, None]:
        """See MessageStore."""
        return self._whole.add_tokens(queue)

    # --- shards

    async def each(
        self, queue: QueueSpec, work: Callable[[SqlMessageStore, str], Awaitable[T]], at: Iterable[str] | None = None
    ) -> Answers[T]:
        """Do work at each shard of a queue that can be used, or at those named."""
        names = queue.shards if at is None else tuple(at)

        def run(name: str) -> Awaitable[T]:
            return self._shard(queue.name.database, name).run(lambda store: work(store, name))

        return Answers.of(names, await asyncio.gather(*map(run, names), return_exceptions=True))

    async def _at_places(
        self,
        queue: QueueSpec,
        ids: Collection[MessageId],
        work: Callable[[SqlMessageStore, list[MessageId]], Awaitable[T]],
    ) -> Answers[T]:
        """Do work on these messages at the shards that have them. Those that no shard has are looked for in vain at the
        first, so that there always is an answer."""
        by_shard: dict[str, list[MessageId]] = {}
        places = await self.places(queue, ids)
        for id_ in ids:
            by_shard.setdefault(places.get(id_, queue.shards[0]), []).append(id_)
        return await self.each(queue, lambda store, shard: work(store, by_shard[shard]), by_shard)

    def _shard(self, keyspace: str, name: str) -> Shard:
        target = at_shard(keyspace, name)
        shard = self._shards.get(target)
        if shard is None:
            shard = self._shards[target] = Shard(target, self._open(target), self._logger)
        return shard

    def _retain_unknown(self, queue: QueueSpec, claims: Answers[Claim]) -> None:
        """Where a part of a claim is known to be made, and another is not, the latter's leases are released later.

        Raises LeaseUnknown where no part is known to be made.
        """
        unknown = {name: error for name, error in claims.errors.items() if isinstance(error, LeaseUnknown)}
        if unknown and not claims.results:
            leases = [lease for error in unknown.values() for lease in error.leases]
            raise LeaseUnknown(next(iter(unknown.values())), leases)
        for name, error in unknown.items():
            shard = self._shard(queue.name.database, name)
            shard.before_use(partial(_release_unknown, queue=queue, leases=error.leases))


async def _release_unknown(store: SqlMessageStore, queue: QueueSpec, leases: Sequence[Release]) -> None:
    await store.release(queue, leases, counted=False)


class Shard:
    """One shard: its store, and whether it answers."""

    def __init__(self, target: str, store: SqlMessageStore, logger: logging.Logger) -> None:
        self.store = store
        self._target, self._logger = target, logger
        self._lost: BackendUnavailable | None = None
        self._due: list[Callable[[SqlMessageStore], Awaitable[object]]] = []
        self._pinging: asyncio.Task[None] | None = None

    async def run(self, work: Callable[[SqlMessageStore], Awaitable[T]]) -> T:
        """Do work there. Raises BackendUnavailable at once where it does not answer, and what the work raises."""
        if self._lost is not None:
            raise BackendUnavailable(self._lost.message, self._lost.errno, self._lost.sqlstate)
        try:
            return await work(self.store)
        except BackendUnavailable as error:
            self._lose(error)
            raise

    def before_use(self, work: Callable[[SqlMessageStore], Awaitable[object]]) -> None:
        """Have this done there before anything else; after a failure that has lost it."""
        self._due.append(work)

    def _lose(self, error: BackendUnavailable) -> None:
        if self._lost is None:
            self._lost = error
            self._logger.warning("the shard %s does not answer, and is left out: %s", self._target, error.message)
            self._pinging = asyncio.create_task(self._until_it_answers())

    async def _until_it_answers(self) -> None:
        pauses = DoublingDelay(_FIRST_PING, _PINGS_SECONDS)
        while True:
            await asyncio.sleep(pauses.take())
            try:
                await self.store.ping()
                while self._due:
                    await self._due[0](self.store)
                    del self._due[0]
            except BackendError as error:
                self._logger.debug("the shard %s: %s", self._target, error.message)
                continue
            self._lost = None
            self._logger.warning("the shard %s answers again", self._target)
            return

    async def close(self) -> None:
        """Give up waiting for it, and close its connections."""
        if self._pinging is not None:
            self._pinging.cancel()
        await self.store.close()


@dataclass(frozen=True, slots=True)
class Answers(Generic[T]):
    """What each shard has answered: results and errors by its name."""

    results: Mapping[str, T]
    errors: Mapping[str, BackendError]

    @classmethod
    def of(cls, shards: Iterable[str], done: Iterable[T | BaseException]) -> Answers[T]:
        """From what was returned or raised. Raises what is no error of a database."""
        results: dict[str, T] = {}
        errors: dict[str, BackendError] = {}
        for shard, one in zip(shards, done, strict=True):
            if isinstance(one, BackendError):
                errors[shard] = one
            elif isinstance(one, BaseException):
                raise one
            else:
                results[shard] = one
        return cls(results, errors)

    @property
    def failed(self) -> BackendError | None:
        """The first error."""
        return next(iter(self.errors.values()), None)

    def some(self) -> Answers[T]:
        """The same. Raises the first error where no shard has done it."""
        if self.failed is not None and not self.results:
            raise self.failed
        return self

    def all(self) -> Mapping[str, T]:
        """The results. Raises the first error where not every shard has done it."""
        if self.failed is not None:
            raise self.failed
        return self.results


class ShardedCounts:
    """CountStore of a ShardedStore."""

    def __init__(self, store: ShardedStore, whole: CountStore) -> None:
        self._store, self._whole = store, whole

    async def census(self, queue: QueueSpec) -> Census:
        """See CountStore."""
        if not queue.shards:
            return await self._whole.census(queue)
        answers = await self._store.each(queue, lambda store, _: store.counts.census(queue))
        return merged_census(list(answers.some().results.values()), incomplete=answers.failed is not None)

    async def leased_messages(self, queue: QueueSpec, limit: int) -> list[LeasedMessage]:
        """See CountStore."""
        if not queue.shards:
            return await self._whole.leased_messages(queue, limit)
        answers = await self._store.each(queue, lambda store, _: store.counts.leased_messages(queue, limit))
        leased = [one for some in answers.some().results.values() for one in some]
        return sorted(leased, key=lambda one: one.until_ns)[:limit]

    async def ranges(self, queue: QueueSpec, ranges: Sequence[KeyRange]) -> list[RangeCount]:
        """See CountStore."""
        if not queue.shards:
            return await self._whole.ranges(queue, ranges)
        answers = await self._store.each(queue, lambda store, _: store.counts.ranges(queue, ranges))
        incomplete = answers.failed is not None
        return [
            merged_range(some, incomplete=incomplete) for some in zip(*answers.some().results.values(), strict=True)
        ]


# --- the parts put together; pure


def merged_polls(polls: Sequence[PollResult], limit: int, *, incomplete: bool) -> PollResult:
    """The poll of a queue from those of its shards; at least one. `incomplete`: some shards did not answer."""
    keys = tuple(sorted(key for poll in polls for key in poll.keys))
    now_ns = max(poll.now_ns for poll in polls)
    next_due = [poll.next_due_ns for poll in polls if poll.next_due_ns is not None]
    if incomplete:
        next_due.append(now_ns + _RETRY_NS)
    more = len(keys) > limit or any(poll.more for poll in polls)
    return PollResult(now_ns, keys[:limit], min(next_due, default=None), more)


def merged_scans(scans: Sequence[ScanResult], limit: int, *, incomplete: bool) -> ScanResult:
    """One step of a scan from those of its shards, all from the same position on. It ends where the first of them does;
    what others have found beyond that is found again by the next step."""
    poll = merged_polls([scanned.poll for scanned in scans], sum(len(one.poll.keys) for one in scans) + 1,
                        incomplete=incomplete)  # fmt: skip
    end = min((scanned.position for scanned in scans if scanned.position is not None), key=_place, default=None)
    keys = poll.keys if end is None else tuple(key for key in poll.keys if tuple(key) <= _place_of_key(end))
    if len(keys) > limit:
        keys = keys[:limit]
        last = keys[-1]
        end = Position(last.priority, last.due_ns, last.id)
    return ScanResult(replace(poll, keys=keys, more=end is not None), end)


def _place(position: Position) -> tuple[tuple[bool, int], tuple[bool, int], tuple[bool, Any]]:
    """For comparing: what has no value comes first."""
    priority, due_ns, id_ = position.priority, position.due_ns, position.id
    return (priority is not None, priority or 0), (due_ns is not None, due_ns or 0), (id_ is not None, id_ or 0)


def _place_of_key(position: Position) -> tuple[int, int, Any]:
    """The last key that is before or at it. Where a value of 0 cannot be told from none, a key is found twice rather
    than not at all."""
    return position.priority or 0, position.due_ns or 0, 0 if position.id is None else position.id


def merged_claims(ids: Sequence[MessageId], claims: Sequence[Claim]) -> Claim:
    """One claim of these messages from those of its shards; at least one."""
    order = {id_: place for place, id_ in enumerate(ids)}
    messages = sorted((message for claim in claims for message in claim.messages), key=lambda one: order[one.id])
    rejected = tuple(id_ for claim in claims for id_ in claim.rejected)
    return Claim(max(claim.now_ns for claim in claims), tuple(messages), rejected=rejected)


def merged_census(parts: Sequence[Census], *, incomplete: bool) -> Census:
    """The census of a queue from those of its shards; at least one. `incomplete`: there are at least so many."""
    return Census(
        ready=sum(part.ready for part in parts),
        scheduled=sum(part.scheduled for part in parts),
        retrying=sum(part.retrying for part in parts),
        in_flight=sum(part.in_flight for part in parts),
        parked=sum(part.parked for part in parts),
        acked=sum(part.acked for part in parts),
        oldest_ready_age=max((age for part in parts if (age := part.oldest_ready_age) is not None), default=None),
        bounded=incomplete or any(part.bounded for part in parts),
    )


def merged_range(parts: Sequence[RangeCount], *, incomplete: bool) -> RangeCount:
    """As merged_census, of one range."""
    return RangeCount(
        parts[0].key_range,
        ready=sum(part.ready for part in parts),
        later=sum(part.later for part in parts),
        in_flight=sum(part.in_flight for part in parts),
        oldest_ready_age=max((age for part in parts if (age := part.oldest_ready_age) is not None), default=None),
        bounded=incomplete or any(part.bounded for part in parts),
    )
