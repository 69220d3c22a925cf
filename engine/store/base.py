"""MessageStore: what the engine asks of a database, in the engine's words. Implemented by sql_store.

Every method is one transaction or one read, `look_and_claim` a read and then a transaction. A method that raises
BackendUnavailable leaves the outcome unknown; the caller must then treat a settlement as not counted and a claim as not
made, give back the leases that it may have made (LeaseUnknown), and look at the table again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import NamedTuple, Protocol

from engine.model.errors import BackendError, BackendUnavailable
from engine.model.groups import FindQueue, GroupKey, GroupPage
from engine.model.lease_token import NO_TOKEN
from engine.model.queue import (
    Condition,
    Message,
    MessageId,
    MessageKey,
    QueueCatalog,
    QueueName,
    QueueSpec,
    StartAt,
    SubscribeRequest,
    TextValue,
    TopicSpec,
)
from engine.model.sequence import Numbered, Sequencing
from engine.model.states import goes_alone, is_lease_end
from engine.model.topic_partitions import NO_GRACE, Grace
from engine.model.topics import Compacted, GroupLag, GroupPosition, Hole, Retained, Sought, TopicExtent
from engine.model.traced import Traced
from engine.store.census import Census
from engine.store.last_receivers import LastReceivers
from engine.store.schedule_store import ScheduleStore
from engine.store.sharing import UNMARKED, Sharing
from engine.store.zones import Zones


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at a queue found: due messages in delivery order, and when to look next.

    `more`: further messages are due than were asked for. `next_due_ns`: when the first message not yet due falls due,
    None when none waits. `now_ns`: the database's time of the look.
    """

    now_ns: int
    keys: tuple[MessageKey, ...]
    next_due_ns: int | None
    more: bool


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a queue's limits let no more be claimed now, and for how long. `for_places`: all places of max_concurrency
    are taken, and the first of their leases ends by then; otherwise the rate is used up until then."""

    wait_ns: int
    for_places: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """What a claim leased. Keys asked for and missing here were settled, rescheduled, leased elsewhere or locked, but
    for those in `held_back`: these wait for the queue's limits, and `hold` tells how long, if they let nothing pass."""

    now_ns: int
    messages: tuple[Message, ...]
    held_back: tuple[MessageId, ...] = ()
    hold: Hold | None = None
    rejected: tuple[MessageId, ...] = ()
    """These had been delivered as often as they may be: they are set aside now, for the dead-letter queue."""


@dataclass(frozen=True, slots=True)
class ForeseenLease:
    """A lease that ends at `until_ns`, by the database's clock as the caller believes it to be. It is only made if that
    clock says a time from `earliest_ns` to `latest_ns`."""

    until_ns: int
    earliest_ns: int
    latest_ns: int


@dataclass(frozen=True, slots=True)
class LookAndClaim:
    """A look, and what was leased of it at once. `asked`: the ids that were to be; `claim` is None where none were."""

    look: Look
    asked: tuple[MessageId, ...]
    claim: Claim | None


@dataclass(frozen=True, slots=True)
class Position:
    """How far a scan has come: in the level of that priority (None: messages without one), after the message of that
    due time (None: without one) and id. `id` None: at the level's beginning."""

    priority: int | None
    due_ns: int | None = None
    id: MessageId | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """What one step of a scan may do: examine about `span` due messages `after` that position, and find up to `limit`
    that fit. `floor_ns`: leave out what fell due before, but for messages without a due time."""

    limit: int
    span: int
    after: Position | None = None
    floor_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Scanned:
    """A step of a scan. `position`: where to go on, with which the look says `more`; None when nothing due is left."""

    look: Look
    position: Position | None


def first_free(
    look: Look, count: int, blocked: Collection[MessageId], sharing: Sharing = UNMARKED
) -> tuple[MessageId, ...]:
    """The first ids in delivery order of what a look found, but for the blocked ones; only those before the first that
    is to be handed out alone."""
    keys: Iterable[MessageKey] = look.keys
    if sharing.marks:
        keys = takewhile(lambda key: not goes_alone(key.due_ns), keys)
    return tuple(islice((key.id for key in keys if key.id not in blocked), count))


RENEWED = 0
"""In place of the end of a lease: it was renewed, and until when is not known yet."""


class Release(NamedTuple):
    """A lease to hand back: undone only where the row still holds this very lease. By its `token` it is known, renewed
    or not; without one, by its end, or where that is RENEWED, as a lease of this epoch."""

    id: MessageId
    due_ns: int
    lease_until_ns: int
    epoch: int
    token: int = NO_TOKEN


def same_delivery(lease: Release, standing: LeaseStanding) -> bool:
    """Whether a row is leased, or was last, as that lease has it: if it is leased with another end, it was renewed. Of
    a lease without a token, another of the same epoch may have come after it."""
    # The epoch, too: a proxy of an older version leases without a new token.
    return standing.epoch == lease.epoch and (lease.token == NO_TOKEN or standing.token == lease.token)


def holds(lease: Release, standing: LeaseStanding) -> bool:
    """Whether a row that stands so still holds that lease."""
    until_ns = standing.time_next_ns
    if until_ns is None or not same_delivery(lease, standing):
        return False
    known = lease.token != NO_TOKEN or lease.lease_until_ns == RENEWED
    return is_lease_end(until_ns) if known else until_ns == lease.lease_until_ns


def release_of(message: Message) -> Release:
    """What undoes a message's lease."""
    return Release(message.id, message.due_ns, message.lease_until_ns, message.epoch, message.token)


@dataclass(frozen=True, slots=True)
class Held:
    """A message in flight, as its row says; `seconds_left`: until its lease runs out, when it was read."""

    id: MessageId
    priority: int
    epoch: int
    until_ns: int
    seconds_left: float


class LeaseStanding(NamedTuple):
    """How an unacked message stands in the table; `time_next_ns` None is "now"."""

    epoch: int
    time_next_ns: int | None
    token: int = NO_TOKEN


class LeaseUnknown(BackendUnavailable):
    """The connection, or the answer, was lost while `leases` were written and committed: they may hold, and nobody has
    the messages."""

    def __init__(self, error: BackendError, leases: Sequence[Release]) -> None:
        super().__init__(error.message, error.errno, error.sqlstate)
        self.leases = tuple(leases)


@dataclass(frozen=True, slots=True)
class PartitionPurge:
    """What a purge by partitions came to: about how many messages went with those that were dropped; those that hold
    messages old enough and could not be; until which time_acked it goes; and why the database refused, if it did."""

    messages: int
    kept: tuple[str, ...]
    cutoff_ns: int
    refused: str = ""


@dataclass(frozen=True, slots=True)
class LogPage:
    """Whole rows, in the order of the topic's columns, and the position of a reader that has read them. `now_ns`: the
    database's time."""

    rows: tuple[tuple[TextValue, ...], ...]
    position: GroupPosition
    now_ns: int


class CleanedTraces(NamedTuple):
    """What a step of cleaning the kept history came to. `more`: there is more to delete."""

    deleted: int
    more: bool


class TraceStore(Protocol):
    """The history of messages that outlives the process: a table in each database that has topics with the option."""

    async def write(self, database: str, events: Sequence[Traced]) -> None:
        """Write events of messages of that database's topics, all or none; the table is made when it is not there.
        What has been written before may be written again."""
        ...

    async def of(self, queue: QueueName, id_: MessageId, limit: int) -> list[Traced]:
        """What happened last to a message, up to so much of it."""
        ...

    async def newest(self, queue: QueueName, since_ns: int, limit: int) -> list[Traced]:
        """What happened last to messages of a queue or topic, and since a time, up to so much of it."""
        ...

    async def queues(self, database: str) -> list[QueueName]:
        """The queues and topics of which there is something, perhaps gone by now."""
        ...

    async def clean(self, queue: QueueName, older_ns: int, limit: int) -> CleanedTraces:
        """Delete a queue's events that are older than so much, about `limit` of them."""
        ...

    async def ids_follow(self) -> bool:
        """Whether the database gives the rows of one INSERT ids that follow one another."""
        ...


@dataclass(frozen=True, slots=True)
class Divided:
    """A look at a topic's partitions. `whole`: its first messages go with a whole partition; else row by row. `width`:
    about how many ids a partition has that is made now. `problem`: what keeps it from being divided ahead. `waits`: it
    was to be divided, and others used the table for too long."""

    whole: bool
    width: int
    problem: str | None = None
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Dropped:
    """What dropping a topic's first partition came to. `partition`: its name; None: none was dropped. `messages`: in
    it. `lost`: of each group's queue, how many of these it had not read. `waits`: others used the table, or the groups,
    for too long. `more`: what is in it is not counted to its end; ask again."""

    partition: str | None = None
    messages: int = 0
    lost: Mapping[QueueName, int] = field(default_factory=dict)
    waits: bool = False
    more: bool = False


class PartitionStore(Protocol):
    """The partitions of topics, by RANGE of their ids."""

    async def divide(self, topic: TopicSpec) -> Divided:
        """Make partitions ahead of a topic's ids, where they are needed. Raises BackendError: no right to it."""
        ...

    async def drop_first(self, topic: TopicSpec, groups: Sequence[QueueSpec]) -> Dropped:
        """Drop a topic's first partition, if nothing in it is to be kept. `groups`: all of its consumer groups. Raises
        BackendError: no right to it, or the database failed."""
        ...


class TopicStore(Protocol):
    """Topics, and how far their consumer groups have read. The queue of a group is a queue as any other, but that a
    look at it feeds it first."""

    @property
    def partitions(self) -> PartitionStore:
        """What is asked of the partitions of topics."""
        ...

    async def sequencing(self) -> Sequencing:
        """Whether topics can have the option `sequence` in this database, or have to."""
        ...

    async def number(self, topic: TopicSpec) -> Numbered:
        """Give the next messages of a topic with the option `sequence` their numbers, if it has some without."""
        ...

    async def number_all(self, topic: TopicSpec) -> None:
        """The same for all messages that are committed now, but for those that clients have locked."""
        ...

    async def begin(self, group: QueueName, topic: TopicSpec, start: StartAt) -> None:
        """Write the position of a new group. Raises InvalidOption where that lies beyond the topic's end."""
        ...

    async def position_at(self, topic: TopicSpec, start: StartAt) -> GroupPosition:
        """The position of a reader that begins there. Raises InvalidOption."""
        ...

    async def seek(self, group: QueueSpec, topic: TopicSpec, start: StartAt) -> Sought:
        """Drop what a group has in its queue, and have it read on from there. Raises InvalidOption."""
        ...

    async def retain(
        self, topic: TopicSpec, groups: Sequence[QueueSpec], limit: int, grace: Grace = NO_GRACE
    ) -> Retained:
        """Delete up to `limit` messages beyond what a topic keeps, and the grace. `groups`: all of its consumer
        groups."""
        ...

    async def compact(self, topic: TopicSpec, groups: Sequence[QueueSpec], place: int, limit: int) -> Compacted:
        """Look at up to `limit` messages beyond a place, and delete the older ones of the same value of the topic's
        `compact`. `groups`: all of its consumer groups."""
        ...

    async def lag(self, group: QueueSpec, topic: TopicSpec, *, counted: bool = True) -> GroupLag:
        """How far a group is behind. Not `counted`: at a cost that does not grow with that."""
        ...

    async def position(self, group: QueueSpec, topic: TopicSpec) -> GroupPosition:
        """How far a group has read."""
        ...

    async def extent(self, topic: TopicSpec) -> TopicExtent:
        """What a topic has."""
        ...

    async def read(
        self, topic: TopicSpec, position: GroupPosition, limit: int, condition: Condition | None = None
    ) -> LogPage:
        """Up to `limit` messages: those in a reader's holes that are visible now, and the next beyond its offset; of
        these, those for which the condition is true."""
        ...

    async def rows(
        self, topic: TopicSpec, ids: Sequence[int], condition: Condition | None = None
    ) -> list[tuple[TextValue, ...]]:
        """Those of these messages that are there, and for which the condition is true: whole rows in order."""
        ...

    async def awaited(self, topic: TopicSpec, holes: Sequence[Hole]) -> tuple[Hole, ...]:
        """Those of a reader's holes that are to be kept: somebody may fill them yet, or has just done so."""
        ...


class MessageStore(Protocol):
    """The database as the engine sees it."""

    @property
    def topics(self) -> TopicStore:
        """What is asked of topics."""
        ...

    @property
    def traces(self) -> TraceStore:
        """What is asked of the kept history."""
        ...

    @property
    def last_receivers(self) -> LastReceivers:
        """Who had what; the store asks it, and is told by who hands messages out."""
        ...

    @property
    def zones(self) -> Zones:
        """The time zones of clients."""
        ...

    @property
    def schedules(self) -> ScheduleStore:
        """What is asked of schedules."""
        ...

    async def load_catalog(self, previous: QueueCatalog) -> QueueCatalog:
        """Every table that carries the queue mark, read afresh; `previous` itself when nothing has changed."""
        ...

    async def look(self, queue: QueueSpec, limit: int) -> Look:
        """Up to `limit` due, unacked messages in delivery order. Reads committed rows only, locks nothing.

        Of a queue with an order_key: those that may go next by it, and then perhaps fewer than `limit` with `more`.
        """
        ...

    async def scan(self, queue: QueueSpec, condition: Condition, page: Page) -> Scanned:
        """A look at those due, unacked messages for which the condition is true, in delivery order, page by page.

        So the cost of one call is bounded however many messages there are for which it is not true.
        """
        ...

    async def fitting(self, queue: QueueSpec, condition: Condition, ids: Sequence[MessageId]) -> set[MessageId]:
        """Those of `ids` for which the condition is true."""
        ...

    async def claim(
        self,
        queue: QueueSpec,
        ids: Sequence[MessageId],
        delays_ns: Mapping[int, int],
        condition: Condition | None = None,
        sharing: Sharing = UNMARKED,
    ) -> Claim:
        """Lease those of `ids` that are still due and unacked: epoch + 1, time_next = now + delay of their epoch, a new
        lease_token.

        `delays_ns` maps an epoch before the lease to its delay; its largest key stands for all above it. Rows locked by
        another transaction are passed over, not waited for; so are those for which the condition is not true. The
        leases are committed when this returns.

        Where `sharing` marks, a lease says whether its message is held alone, what is to be handed out alone is passed
        over unless the claim is for that, and a lease that ran out beside others has not counted: the epoch stays.

        A queue with limits or an order_key leases only what these allow, whoever else claims at the same time: the
        first of `ids`, at most one of a key.
        """
        ...

    async def look_and_claim(
        self,
        queue: QueueSpec,
        limit: int,
        count: int,
        blocked: Collection[MessageId],
        delays_ns: Mapping[int, int],
        sharing: Sharing = UNMARKED,
    ) -> LookAndClaim:
        """`look` for up to `limit`, then `claim` the first `count` of them that are not `blocked`, at once.

        The look is as of before the claim: its keys include what was claimed, its next due time none of these leases.
        """
        ...

    async def claim_added(self, queue: QueueSpec, ids: Sequence[MessageId], foreseen: ForeseenLease) -> Claim | None:
        """Lease those of `ids`, which a commit has just added, that are as an INSERT leaves them and due; of a queue
        that `takes_added`. One round trip.

        None where nothing was leased: none of them is due, another has one of them locked, the lease does not hold by
        the database's clock, or the database does not do such claims.
        """
        ...

    async def unsettled(self, queue: QueueSpec, ids: Sequence[MessageId]) -> dict[MessageId, LeaseStanding]:
        """Those of `ids` that exist, are not acked and not set aside, and how they stand."""
        ...

    async def release(
        self,
        queue: QueueSpec,
        leases: Sequence[Release],
        *,
        counted: bool,
        alone: bool = False,
        gone: SubscribeRequest | None = None,
    ) -> int:
        """Make leased messages due again at once, first in line; their tokens are void. Not `counted` also takes the
        epoch back by one; of the others those that are out of their attempts are set aside.
        `alone`: they are to be handed out alone; those that were handed out so, and were not begun, are so again.
        `gone`: the receiver that had them, whose end is kept as a failed attempt of each."""
        ...

    async def make_groups(self, group: GroupKey) -> None:
        """Make the table in which the groups of a queue are kept, if it is not there. Raises BackendError."""
        ...

    async def read_groups(self, group: GroupKey, after: str) -> GroupPage:
        """The next groups, after a value, for which messages are held, and which of them seem to be done."""
        ...

    async def complete_group(self, group: GroupKey, value: str, find: FindQueue) -> list[QueueName]:
        """Make due what is held for a group, if it is done. Returns the queues it went to."""
        ...

    async def rejected(self, queue: QueueSpec, limit: int) -> list[MessageId]:
        """Up to `limit` messages that are set aside for the dead-letter queue."""
        ...

    async def bury(self, queue: QueueSpec, dead: QueueSpec, ids: Sequence[MessageId]) -> int:
        """Move those of these messages that are still rejected, and not locked, into the dead-letter queue."""
        ...

    async def purge(self, queue: QueueSpec, limit: int, found: PartitionPurge | None = None) -> int:
        """Delete up to `limit` messages acked longer than purge_after ago; returns how many went.

        After `purge_partitions` has `found` something: only in the partitions that it kept.
        """
        ...

    async def purge_partitions(self, queue: QueueSpec) -> PartitionPurge | None:
        """Drop whole partitions of messages acked longer than purge_after ago; None where there are no such."""
        ...

    async def census(self, queue: QueueSpec) -> Census:
        """How many messages are in which state; bounded, see engine.store.census."""
        ...

    async def held(self, queue: QueueSpec, limit: int) -> list[Held]:
        """Up to `limit` messages in flight, whoever holds them; the first to run out first."""
        ...

    async def add_tokens(self, queue: QueueSpec) -> None:
        """Give the table of a queue that `lacks_tokens` the column, without waiting for others that use it. Raises
        BackendError."""
        ...

    async def ping(self) -> None:
        """Return once the database has answered."""
        ...

    async def close(self) -> None:
        """Release every connection. May be called twice."""
        ...
