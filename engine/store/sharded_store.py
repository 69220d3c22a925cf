"""ShardedStore: MessageStore on a Vitess, where the messages of a queue may be in several shards.

Each shard is used by sessions of its own, in which a vtgate passes every statement on as it is. So a shard's part of a
queue is served by a SqlMessageStore, as a queue of any other server is, and here the parts are put together. Ids are
unique in a keyspace, for they come from a sequence.

Rules
- What concerns no sharded queue is done by the store of the vtgate itself, `whole`.
- Where a message is, is remembered from the polls; what is not known is asked of all shards.
- A shard that does not answer is left out, so that it holds up no other: its messages are neither polled nor claimed
  until it answers a ping. Only where no shard answers does an operation fail.
- A shard that does not answer may be none any more: whoever has the catalog is told, and reads it again. So it is where
  a shard refuses what others do, which the log tells and `backend_errors` counts.
- A shard that answers and leases nothing, as while it is read-only, is not polled for a while.
- A shard whose part of a claim fails as a whole (Claim.failed) is not lost: the others' parts are delivered.
- Leases of a claim whose outcome is unknown at a shard are released before that shard is used again, since the messages
  of the other shards are delivered meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

from engine.model.errors import TOO_LARGE, BackendError, BackendUnavailable, PartlyRefused, fails_as_whole
from engine.model.key_range import KeyRange
from engine.model.keyspaces import at_shard
from engine.model.queue import (
    Condition,
    MessageId,
    QueueCatalog,
    QueueName,
    QueueSpec,
    ReceiverIdentity,
)
from engine.store.base import (
    NOTHING_AHEAD,
    UNKNOWN_STATE,
    Claim,
    CountStore,
    ForeseenLease,
    LeasedMessage,
    LeaseState,
    LeaseUnknown,
    Page,
    PartitionPurge,
    Placement,
    PollAndClaim,
    PollResult,
    Release,
    ScanResult,
    Stuck,
    first_free,
)
from engine.store.census import Census, RangeCount
from engine.store.merged import merged_census, merged_claims, merged_polls, merged_range, merged_scans, read_ahead
from engine.store.placement import ShardPlacement
from engine.store.shard import Answers, Shard, is_of_shard
from engine.store.sharing import UNMARKED, Sharing
from engine.store.sql_store import SqlMessageStore

OpenShard = Callable[[str], SqlMessageStore]
"""Opens the store of a shard, by the name of engine.model.keyspaces.at_shard."""

T = TypeVar("T")


class ShardedStore:
    """See the module."""

    def __init__(self, whole: SqlMessageStore, open_shard: OpenShard, logger: logging.Logger | None = None) -> None:
        self._whole, self._open = whole, open_shard
        self._logger = logger or logging.getLogger("queuegate.store")
        self._shards: dict[str, Shard] = {}
        placement = ShardPlacement(
            lambda queue, ids: self.each(queue, lambda store, _: store.slots(queue, ids)), self._is_lost
        )
        self.placement: Placement = placement
        self._placement, self._known = placement, placement.known
        self.topics, self.traces, self.zones = whole.topics, whole.traces, whole.zones
        self.last_receivers, self.schedules = whole.last_receivers, whole.schedules
        self.births, self.groups = whole.births, whole.groups
        self.counts = ShardedCounts(self, whole.counts)

    # --- what concerns no queue

    async def load_catalog(self, previous: QueueCatalog, named: Collection[QueueName] | None = None) -> QueueCatalog:
        catalog = await self._whole.load_catalog(previous, named)
        # Work that has begun with the shards of before may have opened one of them again.
        if catalog is not previous or any(shard.is_lost for shard in self._shards.values()):
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
        return self._whole.ping()

    async def close(self) -> None:
        for shard in self._shards.values():
            await shard.close()
        await self._whole.close()

    # --- the messages of a queue

    async def poll(self, queue: QueueSpec, limit: int, ahead: Mapping[str, PollResult] = NOTHING_AHEAD) -> PollResult:
        """See MessageStore. What a shard has returned in vain is used once, so that each is asked every other time."""
        if not queue.shards:
            return await self._whole.poll(queue, limit)
        shards = self._leasing(queue)
        ahead = {shard: poll for shard, poll in ahead.items() if shard in shards}
        further = [shard for shard in shards if shard not in ahead]
        polls = await self.each(queue, lambda store, _: store.poll(queue, limit), further)
        if ahead and not polls.results:
            return await self.poll(queue, limit)
        polls.some()
        before = [ahead[shard] for shard in shards if shard in ahead]
        incomplete = polls.failed is not None or len(shards) < len(queue.shards)
        merged = merged_polls(list(polls.results.values()), limit, incomplete=incomplete, ahead=before)
        ids = {key.id for key in merged.keys}
        for shard, poll in {**ahead, **polls.results}.items():
            self._known.learn(queue.name, shard, (key.id for key in poll.keys if key.id in ids))
        return replace(merged, ahead=read_ahead(polls.results, ids, len(before) + len(polls.results)))

    async def scan(self, queue: QueueSpec, condition: Condition, page: Page) -> ScanResult:
        if not queue.shards:
            return await self._whole.scan(queue, condition, page)
        shards = self._leasing(queue)
        scans = (await self.each(queue, lambda store, _: store.scan(queue, condition, page), shards)).some()
        for shard, scanned in scans.results.items():
            self._known.learn(queue.name, shard, (key.id for key in scanned.poll.keys))
        incomplete = scans.failed is not None or len(shards) < len(queue.shards)
        return merged_scans(list(scans.results.values()), page.limit, incomplete=incomplete)

    async def slots(self, queue: QueueSpec, ids: Sequence[MessageId]) -> dict[MessageId, int]:
        if not queue.shards:
            return await self._whole.slots(queue, ids)
        answers = (await self.each(queue, lambda store, _: store.slots(queue, ids))).some()
        for shard, slots in answers.results.items():
            self._known.learn(queue.name, shard, slots)
        return {id_: slot for slots in answers.results.values() for id_, slot in slots.items()}

    async def fitting(self, queue: QueueSpec, condition: Condition, ids: Sequence[MessageId]) -> set[MessageId]:
        if not queue.shards:
            return await self._whole.fitting(queue, condition, ids)
        at = await self._at_places(queue, ids, lambda store, some: store.fitting(queue, condition, some))
        return set().union(*at.answers.some().results.values())

    async def claim(
        self,
        queue: QueueSpec,
        ids: Sequence[MessageId],
        delays_ns: Mapping[int, int],
        condition: Condition | None = None,
        sharing: Sharing = UNMARKED,
    ) -> Claim:
        if not queue.shards:
            return await self._whole.claim(queue, ids, delays_ns, condition, sharing)
        # A part of the messages may be few enough for one receiver each, where all of them are not.
        part = sharing if len(ids) <= sharing.receivers else replace(sharing, receivers=0)

        def claiming(store: SqlMessageStore, some: Sequence[MessageId]) -> Awaitable[Claim]:
            return store.claim(queue, some, delays_ns, condition, part)

        at = await self._at_places(queue, ids, claiming)
        _check_known(at.answers)
        errors = at.answers.errors
        failed = [(error, at.by_shard[shard]) for shard, error in errors.items() if fails_as_whole(error)]
        resting = [shard for shard, error in errors.items() if is_of_shard(error) and not fails_as_whole(error)]
        for shard in resting:
            self._shard(queue.name.database, shard).rest(queue.name, errors[shard])
        if not at.answers.results and at.error is not None:
            if len(resting) < max(1, len(errors)) or len(self._leasing(queue)) == len(queue.shards):
                raise at.error
            self._placement.on_refused(queue.name)
            return Claim((await self.poll(queue, 1)).now_ns, ())  # the next poll is for the messages of the others
        for shard, claim in at.answers.results.items():
            self._known.learn_keys(queue, shard, claim.messages)
        return merged_claims(list(at.answers.results.values()), failed)

    async def poll_and_claim(
        self,
        queue: QueueSpec,
        limit: int,
        count: int,
        blocked: Collection[MessageId],
        delays_ns: Mapping[int, int],
        sharing: Sharing = UNMARKED,
    ) -> PollAndClaim:
        if not queue.shards:
            return await self._whole.poll_and_claim(queue, limit, count, blocked, delays_ns, sharing)
        poll = await self.poll(queue, limit)
        ids = first_free(poll, count, blocked, sharing)
        claim = await self.claim(queue, ids, delays_ns, None, sharing) if ids else None
        return PollAndClaim(poll, ids, claim)

    async def claim_added(self, queue: QueueSpec, ids: Sequence[MessageId], foreseen: ForeseenLease) -> Claim | None:
        """See MessageStore. What a commit has just added is tried at every shard, which takes no longer than to ask."""
        if not queue.shards:
            return await self._whole.claim_added(queue, ids, foreseen)
        claims = await self.each(queue, lambda store, _: store.claim_added(queue, ids, foreseen))
        made = Answers({shard: one for shard, one in claims.results.items() if one is not None}, claims.errors)
        _check_known(made)
        if not made.results:
            claims.some()
            return None
        for shard, claim in made.results.items():
            self._known.learn_keys(queue, shard, claim.messages)
        unread = [(error, ids) for error in made.errors.values() if error.errno == TOO_LARGE]
        return replace(merged_claims(list(made.results.values()), unread), deferred=())  # a poll follows

    async def unsettled(self, queue: QueueSpec, ids: Sequence[MessageId]) -> dict[MessageId, LeaseState]:
        if not queue.shards:
            return await self._whole.unsettled(queue, ids)
        at = await self._at_places(queue, ids, lambda store, some: store.unsettled(queue, some))
        self._check(queue, at)
        known = {id_: state for states in at.answers.results.values() for id_, state in states.items()}
        return {**dict.fromkeys(at.unsure, UNKNOWN_STATE), **known}

    async def release(
        self,
        queue: QueueSpec,
        leases: Sequence[Release],
        *,
        counted: bool,
        alone: bool = False,
        gone: ReceiverIdentity | None = None,
    ) -> int:
        """See MessageStore. Leases in a shard that does not answer are left, and counted as not released.

        Raises:
            PartlyRefused: a shard answers and releases none, as while it is read-only.
        """
        if not queue.shards:
            return await self._whole.release(queue, leases, counted=counted, alone=alone, gone=gone)
        by_id: dict[MessageId, list[Release]] = {}
        for lease in leases:
            by_id.setdefault(lease.id, []).append(lease)

        def release(store: SqlMessageStore, ids: Sequence[MessageId]) -> Awaitable[int]:
            some = [lease for id_ in ids for lease in by_id[id_]]
            return store.release(queue, some, counted=counted, alone=alone, gone=gone)

        at = await self._at_places(queue, list(by_id), release)
        self._check(queue, at)
        released = sum(at.answers.results.values())
        for error in at.answers.errors.values():
            if not isinstance(error, BackendUnavailable):
                raise PartlyRefused(error, released)
        return released

    async def rejected(self, queue: QueueSpec, limit: int) -> list[MessageId]:
        if not queue.shards:
            return await self._whole.rejected(queue, limit)
        answers = (await self.each(queue, lambda store, _: store.rejected(queue, limit))).some()
        for shard, ids in answers.results.items():
            self._known.learn(queue.name, shard, ids)
        return [id_ for ids in answers.results.values() for id_ in ids][:limit]

    async def move_to_dead_letters(self, queue: QueueSpec, dead: QueueSpec, ids: Sequence[MessageId]) -> int:
        if not queue.shards:
            return await self._whole.move_to_dead_letters(queue, dead, ids)
        keys = [(each.options.sharding_key or "").lower() for each in (queue, dead)]
        if keys[0] != keys[1]:
            raise BackendError(
                f"the dead-letter queue '{dead.name.table}' has another sharding key than '{queue.name.table}', so its"
                " messages would be in the wrong shard",
                1235,
            )
        at = await self._at_places(queue, ids, lambda store, some: store.move_to_dead_letters(queue, dead, some))
        return sum(at.answers.some().results.values())

    async def purge(
        self, queue: QueueSpec, limit: int, purged: PartitionPurge | None = None, stuck: Stuck | None = None
    ) -> int:
        if not queue.shards:
            return await self._whole.purge(queue, limit, purged, stuck)
        deleted, failed = 0, None
        for shard in queue.shards:
            if deleted >= limit:
                break
            answer = await self.each(queue, partial(_purge, queue=queue, limit=limit - deleted, stuck=stuck), (shard,))
            deleted += sum(answer.results.values())
            failed = answer.failed or failed
            if answer.failed is not None and is_of_shard(answer.failed):
                self._shard(queue.name.database, shard).refused(queue.name, answer.failed)
        if failed is not None and not deleted:
            raise failed
        if failed is not None and is_of_shard(failed):
            raise PartlyRefused(failed, deleted)
        return deleted

    async def purge_partitions(self, queue: QueueSpec) -> PartitionPurge | None:
        """See MessageStore. The tables of shards are purged row by row."""
        return None if queue.shards else await self._whole.purge_partitions(queue)

    def add_tokens(self, queue: QueueSpec) -> Coroutine[Any, Any, None]:
        return self._whole.add_tokens(queue)

    # --- shards

    async def each(
        self, queue: QueueSpec, work: Callable[[SqlMessageStore, str], Awaitable[T]], at: Iterable[str] | None = None
    ) -> Answers[T]:
        """Do work at each shard of a queue that can be used, or at those named."""
        shards = {name: self._shard(queue.name.database, name) for name in (queue.shards if at is None else at)}

        async def run(name: str, shard: Shard) -> T:
            try:
                return await shard.run(lambda store: work(store, name))
            except LeaseUnknown as error:
                if error.errno != TOO_LARGE:  # it has lost the shard, which may answer while other shards still work
                    shard.before_use(partial(_release_unknown, queue=queue, leases=error.leases))
                raise

        done = await asyncio.gather(*(run(*shard) for shard in shards.items()), return_exceptions=True)
        answers = Answers.of(shards, done)
        for name, error in answers.refusals.items():
            shards[name].refused(queue.name, error)
            self._placement.on_refused(queue.name)
        return answers

    async def _at_places(
        self,
        queue: QueueSpec,
        ids: Collection[MessageId],
        work: Callable[[SqlMessageStore, list[MessageId]], Awaitable[T]],
    ) -> AtPlaces[T]:
        """Do work on these messages at the shards that have them. Those that no shard has are looked for in vain at the
        first, so that there always is an answer."""
        by_shard: dict[str, list[MessageId]] = {}
        unsure: list[MessageId] = []
        places, failed = await self._placement.find(queue, ids)
        for id_ in ids:
            if id_ not in places and failed is not None:
                unsure.append(id_)
            else:
                by_shard.setdefault(places.get(id_, queue.shards[0]), []).append(id_)
        answers = await self.each(queue, lambda store, shard: work(store, by_shard[shard]), by_shard)
        unsure += [id_ for shard in answers.errors for id_ in by_shard[shard]]
        return AtPlaces(answers, by_shard, unsure, answers.failed or failed)

    def _check(self, queue: QueueSpec, at: AtPlaces[T]) -> None:
        """Raises the error of work unless it only is that some shards do not answer, or refuse it, while others may do
        it."""
        shards = [self._shard(queue.name.database, name) for name in queue.shards]
        everywhere = len(at.answers.errors) == len(shards) or all(shard.is_lost for shard in shards)
        if at.error is not None and everywhere:
            raise at.error

    def _leasing(self, queue: QueueSpec) -> Sequence[str]:
        """The shards of a queue without those that rest; all where all do."""
        some = [name for name in queue.shards if not self._shard(queue.name.database, name).rests(queue.name)]
        return some or queue.shards

    def _is_lost(self, queue: QueueSpec, name: str) -> bool:
        shard = self._shards.get(at_shard(queue.name.database, name))
        return shard is not None and shard.is_lost

    def _shard(self, keyspace: str, name: str) -> Shard:
        target = at_shard(keyspace, name)
        shard = self._shards.get(target)
        if shard is None:
            shard = self._shards[target] = Shard(target, self._open(target), self._logger, self._placement.on_missing)
        return shard


@dataclass(frozen=True, slots=True)
class AtPlaces(Generic[T]):
    """What was done on messages at their shards; `by_shard`: which of them. `unsure`: those at shards that have not
    done it, or perhaps there. `error`: why, of the first such shard."""

    answers: Answers[T]
    by_shard: Mapping[str, Sequence[MessageId]]
    unsure: Sequence[MessageId]
    error: BackendError | None


def _check_known(claims: Answers[Claim]) -> None:
    """Raises LeaseUnknown where no part of a claim is known to be made, and one may be. Where a part is, it counts."""
    unknown = [error for error in claims.errors.values() if isinstance(error, LeaseUnknown)]
    if unknown and not claims.results:
        raise LeaseUnknown(unknown[0], [lease for error in unknown for lease in error.leases])


def _purge(store: SqlMessageStore, _: str, *, queue: QueueSpec, limit: int, stuck: Stuck | None) -> Awaitable[int]:
    return store.purge(queue, limit, None, stuck)


async def _release_unknown(store: SqlMessageStore, queue: QueueSpec, leases: Sequence[Release]) -> None:
    await store.release(queue, leases, counted=False)


class ShardedCounts:
    """CountStore of a ShardedStore."""

    def __init__(self, store: ShardedStore, whole: CountStore) -> None:
        self._store, self._whole = store, whole

    async def census(self, queue: QueueSpec) -> Census:
        if not queue.shards:
            return await self._whole.census(queue)
        answers = await self._store.each(queue, lambda store, _: store.counts.census(queue))
        return merged_census(list(answers.some().results.values()), incomplete=answers.failed is not None)

    async def leased_messages(self, queue: QueueSpec, limit: int) -> list[LeasedMessage]:
        if not queue.shards:
            return await self._whole.leased_messages(queue, limit)
        answers = await self._store.each(queue, lambda store, _: store.counts.leased_messages(queue, limit))
        leased = [one for some in answers.some().results.values() for one in some]
        return sorted(leased, key=lambda one: one.until_ns)[:limit]

    async def ranges(self, queue: QueueSpec, ranges: Sequence[KeyRange]) -> list[RangeCount]:
        if not queue.shards:
            return await self._whole.ranges(queue, ranges)
        answers = await self._store.each(queue, lambda store, _: store.counts.ranges(queue, ranges))
        incomplete = answers.failed is not None
        parts = zip(*answers.some().results.values(), strict=True)
        return [merged_range(some, incomplete=incomplete) for some in parts]
