"""MessageStore: the operations that the engine needs from a database. Implemented by sql_store and sharded_store.

Every method is one transaction or one read; `poll_and_claim` is a read and then a transaction. When a method raises
BackendUnavailable, the outcome is unknown. The caller must then treat a settlement as not counted and a claim as not
made, release the leases that may exist (LeaseUnknown), and poll the table again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import NamedTuple, Protocol

from engine.model.errors import BackendError, BackendUnavailable
from engine.model.groups import FindQueue, GroupKey, GroupPage, GroupPlace
from engine.model.key_range import KeyRange
from engine.model.lease_token import NO_TOKEN
from engine.model.queue import (
    Condition,
    Message,
    MessageId,
    MessageKey,
    QueueCatalog,
    QueueName,
    QueueSpec,
    ReceiverIdentity,
    StartAt,
    TextValue,
    TopicSpec,
)
from engine.model.sequence import NumberingResult, Sequencing
from engine.model.states import goes_alone, is_lease_end
from engine.model.topic_partitions import NO_GRACE, Grace
from engine.model.topics import (
    CompactionResult,
    GroupLag,
    GroupPosition,
    Hole,
    RetentionResult,
    SeekResult,
    TopicExtent,
)
from engine.model.trace_event import TraceEvent
from engine.store.census import Census, RangeCount
from engine.store.last_receivers import LastReceivers
from engine.store.schedule_store import ScheduleStore
from engine.store.sharing import UNMARKED, Sharing
from engine.store.zones import Zones


@dataclass(frozen=True, slots=True)
class PollResult:
    """The result of polling a queue: due messages in delivery order, and when to poll next.

    `more`: more messages are due than were requested. `next_due_ns`: when the next message becomes due; None: no
    message waits. `now_ns`: the database's time of the poll. `ahead`: what shards have returned beyond these keys, for
    the next poll.
    """

    now_ns: int
    keys: tuple[MessageKey, ...]
    next_due_ns: int | None
    more: bool
    ahead: Mapping[str, PollResult] = field(default_factory=dict)


NOTHING_AHEAD: Mapping[str, PollResult] = {}


@dataclass(frozen=True, slots=True)
class LimitWait:
    """Why a queue's limits allow no further claim now, and for how long. `for_concurrency`: max_concurrency is reached,
    and the first of those leases ends by then; otherwise max_rate is used up until then."""

    wait_ns: int
    for_concurrency: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """The messages that a claim leased. Requested keys that are missing here were settled, rescheduled, leased
    elsewhere or locked. Those in `deferred` wait for the queue's limits, or for a smaller claim; `limit_wait` is for
    how long, if the limits allow nothing now."""

    now_ns: int
    messages: tuple[Message, ...]
    deferred: tuple[MessageId, ...] = ()
    limit_wait: LimitWait | None = None
    rejected: tuple[MessageId, ...] = ()
    """These have used up their deliveries. They are now set aside for the dead-letter queue."""
    failed: tuple[tuple[BackendError, Sequence[MessageId]], ...] = ()
    """Parts, each of one shard, that have failed as a whole where a smaller one may succeed (fails_as_whole)."""
    now_of: Mapping[MessageId, int] = field(default_factory=dict)
    """The time of the shard of a message, where that is not `now_ns`: the clocks of shards may differ."""

    def ns_left(self, message: Message) -> int:
        """How long its lease is from when it was made."""
        return message.lease_until_ns - self.now_of.get(message.id, self.now_ns)


@dataclass(frozen=True, slots=True)
class ForeseenLease:
    """A lease that ends at `until_ns`, by the caller's estimate of the database's clock. It is only made if that clock
    is between `earliest_ns` and `latest_ns`."""

    until_ns: int
    earliest_ns: int
    latest_ns: int


@dataclass(frozen=True, slots=True)
class PollAndClaim:
    """A poll, and the claim that followed. `requested`: the ids to be claimed; `claim` is None where there are none."""

    poll: PollResult
    requested: tuple[MessageId, ...]
    claim: Claim | None


@dataclass(frozen=True, slots=True)
class Position:
    """How far a scan has come: within the messages of that priority (None: without one), after the message of that
    due time (None: without one) and id. `id` None: at the start of that priority."""

    priority: int | None
    due_ns: int | None = None
    id: MessageId | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """What one step of a scan may do: examine about `span` due messages `after` that position, and return up to
    `limit` that match. `floor_ns`: skip messages that became due earlier, except those without a due time."""

    limit: int
    span: int
    after: Position | None = None
    floor_ns: int | None = None


@dataclass(frozen=True, slots=True)
class ScanResult:
    """One step of a scan. `position`: where to continue, and then `poll.more` is true; None: nothing due is left.
    `places`: the position of each key, which has None where the key has 0. `incomplete`: a shard did not answer."""

    poll: PollResult
    position: Position | None
    places: Mapping[MessageId, Position] = field(default_factory=dict)
    incomplete: bool = False


def first_free(
    poll: PollResult, count: int, blocked: Collection[MessageId], sharing: Sharing = UNMARKED
) -> tuple[MessageId, ...]:
    """The first ids of a poll in delivery order, without the blocked ones, and only those before the first message that
    must be delivered alone."""
    keys: Iterable[MessageKey] = poll.keys
    if sharing.marks:
        keys = takewhile(lambda key: not goes_alone(key.due_ns), keys)
    return tuple(islice((key.id for key in keys if key.id not in blocked), count))


RENEWED = 0
"""In place of the end of a lease: it was renewed, and its new end is not known yet."""


class Release(NamedTuple):
    """A lease to release, only if the row still has exactly this lease. It is identified by its `token`, renewed or
    not; without a token by its end; if the end is RENEWED, by its epoch. `due_ns`: when the message was due; None: as
    its time_scheduled says."""

    id: MessageId
    due_ns: int | None
    lease_until_ns: int
    epoch: int
    token: int = NO_TOKEN


def same_delivery(lease: Release, state: LeaseState) -> bool:
    """Whether the row's current or last lease is this one: if its end differs, it was renewed. Without a token, another
    lease of the same epoch may have followed."""
    # The epoch, too: a proxy of an older version leases without a new token.
    return state.epoch == lease.epoch and (lease.token == NO_TOKEN or state.token == lease.token)


def lease_is_current(lease: Release, state: LeaseState) -> bool:
    """Whether a row in this state still has that lease; as far as it is known."""
    until_ns = state.time_next_ns
    if state is UNKNOWN_STATE:
        return True
    if until_ns is None or not same_delivery(lease, state):
        return False
    known = lease.token != NO_TOKEN or lease.lease_until_ns == RENEWED
    return is_lease_end(until_ns) if known else until_ns == lease.lease_until_ns


def release_of(message: Message) -> Release:
    """The Release for a message's lease."""
    return Release(message.id, message.due_ns, message.lease_until_ns, message.epoch, message.token)


@dataclass(frozen=True, slots=True)
class LeasedMessage:
    """A message in flight, as in its row; `seconds_left`: until its lease expires, as of the read."""

    id: MessageId
    priority: int
    epoch: int
    until_ns: int
    seconds_left: float


class LeaseState(NamedTuple):
    """The lease columns of an unacked message; `time_next_ns` None is "now"."""

    epoch: int
    time_next_ns: int | None
    token: int = NO_TOKEN


UNKNOWN_STATE = LeaseState(-1, None)
"""Of a message in a shard that does not answer: whether its lease is still the same is not known yet."""


class LeaseUnknown(BackendUnavailable):
    """The connection or the answer was lost while `leases` were written and committed. They may exist, and no receiver
    has the messages."""

    def __init__(self, error: BackendError, leases: Sequence[Release]) -> None:
        super().__init__(error.message, error.errno, error.sqlstate)
        self.leases = tuple(leases)


Stuck = dict[MessageId, str]
"""Messages that the database refuses to delete, each with its error."""


@dataclass(frozen=True, slots=True)
class PartitionPurge:
    """The result of a purge by partitions: about how many messages were dropped with their partitions; the partitions
    that have old enough messages and could not be dropped; up to which time_acked; and why the database refused, if it
    did."""

    messages: int
    retained: tuple[str, ...]
    cutoff_ns: int
    refused: str = ""


@dataclass(frozen=True, slots=True)
class LogPage:
    """Whole rows, in the order of the topic's columns, and the position of a reader that has read them. `now_ns`: the
    database's time."""

    rows: tuple[tuple[TextValue, ...], ...]
    position: GroupPosition
    now_ns: int


class CleanupResult(NamedTuple):
    """The result of one step of cleaning the stored history. `more`: there is more to delete."""

    deleted: int
    more: bool


class TraceStore(Protocol):
    """The stored history of messages: a table in each database that has topics with the option. Raises
    BackendError."""

    async def write(self, database: str, events: Sequence[TraceEvent]) -> None:
        """Write events of messages of that database's topics, all or none; the table is created when it is missing.
        Events may be written again, and stay as they are. On BackendError none was, unless its outcome is unknown."""
        ...

    async def of(self, queue: QueueName, id_: MessageId, limit: int) -> list[TraceEvent]:
        """The last events of a message, at most `limit`."""
        ...

    async def newest(self, queue: QueueName, since_ns: int, limit: int) -> list[TraceEvent]:
        """The last events of a queue or topic since a time, at most `limit`."""
        ...

    async def queues(self, database: str) -> list[QueueName]:
        """The queues and topics that have events; some may be dropped by now."""
        ...

    async def clean(self, queue: QueueName, older_ns: int, limit: int) -> CleanupResult:
        """Delete about `limit` of a queue's events that are older than `older_ns`."""
        ...

    async def ids_follow(self) -> bool:
        """Whether the database gives the rows of one INSERT consecutive ids."""
        ...


@dataclass(frozen=True, slots=True)
class DivideResult:
    """The state of a topic's partitions. `whole`: its first messages are deleted with a whole partition; otherwise row
    by row. `width`: about how many ids a new partition has. `problem`: why it cannot be divided ahead. `waits`: it was
    to be divided, and other sessions used the table for too long."""

    whole: bool
    width: int
    problem: str | None = None
    waits: bool = False


@dataclass(frozen=True, slots=True)
class DropResult:
    """The result of dropping a topic's first partition. `partition`: its name; None: none was dropped. `messages`: how
    many it had. `lost`: by group queue, how many of these the group had not read. `waits`: other sessions used the
    table, or the groups, for too long. `more`: its messages are not all counted yet; call again."""

    partition: str | None = None
    messages: int = 0
    lost: Mapping[QueueName, int] = field(default_factory=dict)
    waits: bool = False
    more: bool = False


class PartitionStore(Protocol):
    """The partitions of topics, by RANGE of their ids."""

    async def divide(self, topic: TopicSpec) -> DivideResult:
        """Create partitions ahead of a topic's ids, where needed. Raises BackendError: the privilege is missing."""
        ...

    async def drop_first(self, topic: TopicSpec, groups: Sequence[QueueSpec]) -> DropResult:
        """Drop a topic's first partition, if nothing in it must be retained. `groups`: all of its consumer groups.
        Raises BackendError: the privilege is missing, or the database failed."""
        ...


class TopicStore(Protocol):
    """Topics, and how far their consumer groups have read. The queue of a group is like any other queue, but each poll
    feeds it first. Every method raises BackendError, and has begun, moved and deleted nothing then; 1235: the topic's
    offsets are numbers, and it lacks their column."""

    @property
    def partitions(self) -> PartitionStore:
        """The operations on partitions of topics."""
        ...

    async def sequencing(self) -> Sequencing:
        """Whether topics can have the option `sequence` in this database, or have to."""
        ...

    async def number(self, topic: TopicSpec) -> NumberingResult:
        """Assign numbers to the next messages of a topic with the option `sequence` that have none."""
        ...

    async def number_all(self, topic: TopicSpec) -> None:
        """The same for all messages that are committed now, except those that clients have locked."""
        ...

    async def begin(self, group: QueueName, topic: TopicSpec, start: StartAt) -> None:
        """Write the position of a new group. Raises InvalidOption where that is beyond the topic's end, GroupNotNew
        where the group reads already."""
        ...

    async def position_at(self, topic: TopicSpec, start: StartAt) -> GroupPosition:
        """The position of a reader that begins there. Raises InvalidOption."""
        ...

    async def seek(self, group: QueueSpec, topic: TopicSpec, start: StartAt) -> SeekResult:
        """Delete the messages in a group's queue, and let it read on from `start`. Raises InvalidOption; BackendError
        1205 where a client's open transaction holds one of the messages."""
        ...

    async def retain(
        self, topic: TopicSpec, groups: Sequence[QueueSpec], limit: int, grace: Grace = NO_GRACE
    ) -> RetentionResult:
        """Delete up to `limit` messages beyond the topic's retention and the grace. `groups`: all of its consumer
        groups."""
        ...

    async def compact(self, topic: TopicSpec, groups: Sequence[QueueSpec], place: int, limit: int) -> CompactionResult:
        """Examine up to `limit` messages beyond a place, and delete the older ones with the same value of the topic's
        `compact` column. `groups`: all of its consumer groups."""
        ...

    async def lag(self, group: QueueSpec, topic: TopicSpec, *, counted: bool = True) -> GroupLag:
        """How far a group is behind. Not `counted`: at a cost that does not grow with the lag."""
        ...

    async def position(self, group: QueueSpec, topic: TopicSpec) -> GroupPosition:
        """How far a group has read."""
        ...

    async def extent(self, topic: TopicSpec) -> TopicExtent:
        """The size and the offsets of a topic."""
        ...

    async def read(
        self, topic: TopicSpec, position: GroupPosition, limit: int, condition: Condition | None = None
    ) -> LogPage:
        """Read up to `limit` messages: those in a reader's holes that are visible now, and the next beyond its offset;
        return those for which the condition is true."""
        ...

    async def rows(
        self, topic: TopicSpec, ids: Sequence[int], condition: Condition | None = None
    ) -> list[tuple[TextValue, ...]]:
        """Those of these messages that exist, and for which the condition is true: whole rows in order."""
        ...

    async def awaited(self, topic: TopicSpec, holes: Sequence[Hole]) -> tuple[Hole, ...]:
        """The holes of a reader that stay: an open transaction may still fill them, or has just done so."""
        ...


class BirthStore(Protocol):
    """Reads of messages that their INSERT has leased, for a queue that `takes_added`. They raise BackendError."""

    async def read(self, queue: QueueSpec, leases: Sequence[Release]) -> Claim | None:
        """Those that have the tokens of these leases, at a first delivery; None where the server may show that late.
        A trigger may have written another end."""
        ...

    async def find(self, queue: QueueSpec, until_ns: int, token: int) -> MessageId | None:
        """The message with this lease; None where there is none."""
        ...


class CountStore(Protocol):
    """What of a queue's table is counted and listed, bounded. They raise BackendError."""

    async def census(self, queue: QueueSpec) -> Census:
        """The number of messages by state; see engine.store.census."""
        ...

    async def leased_messages(self, queue: QueueSpec, limit: int) -> list[LeasedMessage]:
        """Up to `limit` messages in flight, of all receivers; the first to expire first."""
        ...

    async def ranges(self, queue: QueueSpec, ranges: Sequence[KeyRange]) -> list[RangeCount]:
        """The messages of each of these stretches, which in this order are the whole ring of a queue that has one."""
        ...


class GroupStore(Protocol):
    """The operations on event groups."""

    async def make(self, group: GroupKey) -> None:
        """Create their table, if it is missing. Raises BackendError."""
        ...

    async def read(self, group: GroupKey, after: GroupPlace | None) -> GroupPage:
        """The next groups, after a value, for which messages are parked, and which of them seem to be done."""
        ...

    async def complete(self, group: GroupKey, value: str, find: FindQueue) -> list[QueueName]:
        """Make the messages that are parked for a group due, if the group is done. Returns their queues."""
        ...


class Placement(Protocol):
    """Where the messages of queues over several shards are. `on_missing` is called while a shard does not answer, or
    refuses what others do: the shards, or the queues, may be others by now. `on_refused`: for each such refusal."""

    on_missing: Callable[[], None]
    on_refused: Callable[[QueueName], None]

    def routes(self, queue: QueueSpec, ids: Collection[MessageId]) -> Mapping[str, str] | None:
        """Of a queue over several shards: for each shard that has some of `ids`, the condition by which a vtgate sends
        a statement on them there. None where that is not known of all of them. Asks nobody."""
        ...

    async def places(self, queue: QueueSpec, ids: Collection[MessageId]) -> dict[MessageId, str]:
        """The shards of those of `ids` that exist, where the queue is in several shards; else nothing. Raises
        BackendError where one is not there and a shard does not answer."""
        ...

    def answering(self, queue: QueueSpec) -> str:
        """A shard of a queue over several, if one answers, as far as it is known. Asks nobody."""
        ...


class InOneShard:
    """Placement of a database without shards."""

    def __init__(self) -> None:
        self.on_missing: Callable[[], None] = lambda: None
        self.on_refused: Callable[[QueueName], None] = lambda queue: None

    def routes(self, queue: QueueSpec, ids: Collection[MessageId]) -> Mapping[str, str] | None:
        return None

    async def places(self, queue: QueueSpec, ids: Collection[MessageId]) -> dict[MessageId, str]:
        return {}

    def answering(self, queue: QueueSpec) -> str:
        return queue.shards[0]


class RejectedStore(Protocol):
    """Messages that are set aside for a dead-letter queue."""

    async def rejected(self, queue: QueueSpec, limit: int) -> list[MessageId]:
        """Up to `limit` messages that are set aside for the dead-letter queue."""
        ...

    async def move_to_dead_letters(self, queue: QueueSpec, dead: QueueSpec, ids: Sequence[MessageId]) -> int:
        """Move these messages into the dead-letter queue, except those that are locked or no longer rejected."""
        ...


class MessageStore(RejectedStore, Protocol):
    """The database as the engine sees it."""

    @property
    def placement(self) -> Placement:
        """Where messages of queues over several shards are."""
        ...

    @property
    def topics(self) -> TopicStore:
        """The operations on topics."""
        ...

    @property
    def traces(self) -> TraceStore:
        """The operations on the stored history."""
        ...

    @property
    def last_receivers(self) -> LastReceivers:
        """The last receiver of each message. The code that delivers messages writes it, the store reads it."""
        ...

    @property
    def zones(self) -> Zones:
        """The time zones of clients."""
        ...

    @property
    def schedules(self) -> ScheduleStore:
        """The operations on schedules."""
        ...

    @property
    def births(self) -> BirthStore:
        """Reads of messages that their INSERT has leased."""
        ...

    @property
    def counts(self) -> CountStore:
        """What of the tables is counted for those who watch them."""
        ...

    @property
    def groups(self) -> GroupStore:
        """The operations on event groups."""
        ...

    async def load_catalog(self, previous: QueueCatalog, named: Collection[QueueName] | None = None) -> QueueCatalog:
        """Read all tables that have the queue mark; returns `previous` itself when nothing has changed.

        `named`: all that may have changed. Which tables there are, and their options, is read of all.
        """
        ...

    async def poll(self, queue: QueueSpec, limit: int, ahead: Mapping[str, PollResult] = NOTHING_AHEAD) -> PollResult:
        """Up to `limit` due, unacked messages in delivery order. Reads committed rows only, locks nothing.

        For a queue with an order_key: those that it allows next, perhaps fewer than `limit` with `more`.

        `ahead`: that of the last poll, where nothing is known to have come since, and all that it has returned is
        taken. Its shards are not asked. There may be fewer than `limit` with `more` then, too.
        """
        ...

    async def scan(self, queue: QueueSpec, condition: Condition, page: Page) -> ScanResult:
        """Poll for due, unacked messages for which the condition is true, in delivery order, page by page.

        So the cost of one call is bounded, however many messages do not match.
        """
        ...

    async def slots(self, queue: QueueSpec, ids: Sequence[MessageId]) -> dict[MessageId, int]:
        """The places on the queue's ring of those of `ids` that exist and have one; the queue has a ring."""
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

        `delays_ns` maps an epoch before the lease to its delay; its largest key applies to all above it. Rows locked by
        another transaction are skipped, not waited for; so are those for which the condition is not true. The leases
        are committed when this returns.

        Where `sharing` marks, a lease records whether its receiver has only this message. Messages to be delivered
        alone are skipped unless the claim is for them. A lease that expired while its receiver had other messages does
        not count: the epoch stays.

        A queue with limits or an order_key leases only what these allow, even with concurrent claims: the first of
        `ids`, at most one of a key.
        """
        ...

    async def poll_and_claim(
        self,
        queue: QueueSpec,
        limit: int,
        count: int,
        blocked: Collection[MessageId],
        delays_ns: Mapping[int, int],
        sharing: Sharing = UNMARKED,
    ) -> PollAndClaim:
        """`poll` for up to `limit`, then immediately `claim` the first `count` of them that are not `blocked`.

        The poll is as of before the claim: its keys include the claimed ones, and its next due time excludes the new
        leases.
        """
        ...

    async def claim_added(self, queue: QueueSpec, ids: Sequence[MessageId], foreseen: ForeseenLease) -> Claim | None:
        """Lease those of `ids`, which a commit has just added, that are due and unchanged since their INSERT. For a
        queue that `takes_added`. One round trip.

        None where nothing was leased: none of them is due, another transaction has locked one of them, the lease is not
        valid by the database's clock, or the database does not support such claims.
        """
        ...

    async def unsettled(self, queue: QueueSpec, ids: Sequence[MessageId]) -> dict[MessageId, LeaseState]:
        """Those of `ids` that exist, are not acked and not set aside, with their state; UNKNOWN_STATE of those of which
        it cannot be read now, while it can of others."""
        ...

    async def release(
        self,
        queue: QueueSpec,
        leases: Sequence[Release],
        *,
        counted: bool,
        alone: bool = False,
        gone: ReceiverIdentity | None = None,
    ) -> int:
        """Make leased messages due again immediately, first in order; their tokens become invalid. Not `counted` also
        decreases the epoch by one; otherwise messages without attempts left are set aside.
        `alone`: they are to be delivered alone; those that were delivered alone and not begun stay so.
        `gone`: the receiver that had them; its end is stored as a failed attempt of each."""
        ...

    async def purge(
        self, queue: QueueSpec, limit: int, purged: PartitionPurge | None = None, stuck: Stuck | None = None
    ) -> int:
        """Delete up to `limit` messages acked longer than purge_after ago; returns how many were deleted.

        With `purged`, the result of `purge_partitions`: only in the partitions that were retained. Those in `stuck` are
        passed over. Messages that the database does not let go (a foreign key, a trigger) are added to it; without it
        none of their batch is deleted.
        """
        ...

    async def purge_partitions(self, queue: QueueSpec) -> PartitionPurge | None:
        """Drop whole partitions of messages acked longer than purge_after ago; None where there are no partitions."""
        ...

    async def add_tokens(self, queue: QueueSpec) -> None:
        """Add the token column to the table of a queue that `lacks_tokens`, without waiting for its other users. Raises
        BackendError."""
        ...

    async def ping(self) -> None:
        """Return once the database has answered."""
        ...

    async def close(self) -> None:
        """Release every connection. May be called twice."""
        ...
