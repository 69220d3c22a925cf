"""What the clients of a topic did and what they saw, and the judgement of it.

The topic's own rows decide which messages there are. The clocks of clients, proxies and database are one machine's, and
the groups' backoff is constant, so the beginning of each lease is known exactly. For each transaction: what is known to
be committed is in the topic, what is known to be rolled back is not, and what is unknown is there as a whole or not at
all. For each group:
- it gets the messages of the topic, all of them and no others, as they are;
- none is gone but by an ACK that may hold, or by a REJECT, and what is rejected is a dead letter once;
- no lease begins after an ACK of that message had returned, before the one before it has ended (by its time, a NACK, a
  RELEASE, or a member that hung up), or before the message's time;
- with an order_key, no message is leased before those of its key are acked that were committed when it was inserted.
For each broadcast reader: all messages of the topic; within one stream each once, none before its time, and none before
those that were committed when it was inserted.
"""

from __future__ import annotations

import itertools
import threading
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from faults.leases import ACK_WAIT_NS, BACKOFF_NS
from servers import NS

NEVER = 1 << 63


class Outcome(Enum):
    """Of a transaction, as far as its producer knows: until COMMIT is sent nothing can be committed."""

    ROLLED_BACK = "rolled back"
    UNKNOWN = "unknown"
    COMMITTED = "committed"


@dataclass(eq=False)
class Transaction:
    """What a producer wrote, or tried to.

    `rows`: the key of each message by its number. `scheduled`: the numbers of those that were given a time.
    `undone`: of those that were rolled back to a savepoint. `journaled`: whether the numbers were written into an
    ordinary table, too. `committed_ns`: when COMMIT had returned. `node`: of a cluster, the node where it was; the
    order of messages is promised between those of one node.
    """

    rows: dict[int, int | None]
    journaled: bool
    scheduled: frozenset[int] = frozenset()
    undone: frozenset[int] = frozenset()
    began_ns: int = field(default_factory=time.time_ns)
    ended_ns: int = NEVER
    committed_ns: int = NEVER
    outcome: Outcome = Outcome.ROLLED_BACK
    node: int = 0

    def commits(self) -> None:
        """The statement that commits it is about to be sent."""
        self.outcome = Outcome.UNKNOWN

    def committed(self) -> None:
        self.committed_ns = time.time_ns()
        self.outcome = Outcome.COMMITTED

    def ended(self) -> None:
        """Committed, rolled back, or given up by its producer."""
        self.ended_ns = time.time_ns()

    @property
    def seconds(self) -> float:
        """For how long it was open, or is."""
        return (min(self.ended_ns, time.time_ns()) - self.began_ns) / NS


class Row(NamedTuple):
    """A message in the topic."""

    n: int
    key: int | None
    scheduled_ns: int


@dataclass(eq=False)
class Life:
    """Of a member's stream. `closed_ns`: when the member hung up, whereupon the others may have what it held. A proxy
    that is killed gives nothing back."""

    closed_ns: int = NEVER


@dataclass(frozen=True)
class Delivery:
    """What a member got, and the lease that it was sent under."""

    id: int
    n: int
    key: int | None
    epoch: int
    ends_ns: int
    stream: Life

    @property
    def begins_ns(self) -> int:
        return self.ends_ns - ACK_WAIT_NS - BACKOFF_NS


class GroupRecord:
    """What the members of one group got, and what they said to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.deliveries: list[Delivery] = []
        self.had: set[int] = set()  # ids
        self.sent_ns: dict[int, int] = {}  # id -> when the first ACK was sent that may hold
        self.acked_ns: dict[int, int] = {}  # id -> when the first ACK had returned that holds
        self.freed_ns: dict[int, list[int]] = defaultdict(list)  # id -> when NACK and RELEASE were sent

    def delivered(self, deliveries: Sequence[Delivery]) -> None:
        self.deliveries += deliveries
        self.had.update(one.id for one in deliveries)

    def acks(self, ids: Sequence[int], sent_ns: int) -> None:
        """An ACK that was sent then may hold from now on."""
        with self._lock:
            for id_ in ids:
                self.sent_ns[id_] = min(sent_ns, self.sent_ns.get(id_, sent_ns))

    def acked(self, ids: Sequence[int]) -> None:
        now = time.time_ns()
        with self._lock:
            for id_ in ids:
                self.acked_ns.setdefault(id_, now)

    def frees(self, ids: Sequence[int]) -> None:
        """A statement that ends the leases of these is about to be sent."""
        now = time.time_ns()
        with self._lock:
            for id_ in ids:
                self.freed_ns[id_].append(now)


class Heard(NamedTuple):
    """What a broadcast reader got. `offset`: where it may go on."""

    id: int
    n: int
    key: int | None
    received_ns: int
    offset: int = 0


@dataclass(eq=False)
class Reader:
    """A broadcast reader; for each stream that it opened, what came."""

    streams: list[list[Heard]] = field(default_factory=list)
    had: set[int] = field(default_factory=set)  # ids

    def last_offset(self, before_ns: int) -> int:
        """The largest offset that it had by then."""
        return max((one.offset for stream in self.streams for one in stream if one.received_ns < before_ns), default=0)


def judge_writes(transactions: Sequence[Transaction], table: Mapping[int, Row], journal: Sequence[int]) -> None:
    """What was written is there, as a whole or not at all, and nothing else is."""
    keys = {row.n: row.key for row in table.values()}
    assert len(keys) == len(table), "a message was written twice"
    written, journaled = set[int](), list[int]()
    for one in transactions:
        there = [n for n in one.rows if n in keys]
        wanted = {Outcome.ROLLED_BACK: [0], Outcome.COMMITTED: [len(one.rows)], Outcome.UNKNOWN: [0, len(one.rows)]}
        assert len(there) in wanted[one.outcome], (f"{one.outcome.value}, and {len(there)} are there", one)
        assert all(keys[n] == one.rows[n] for n in there), ("another row than was written", one)
        assert one.undone.isdisjoint(keys), ("rolled back to a savepoint, and there", one)
        written.update(there)
        journaled += there if one.journaled else []
    assert keys.keys() - written == set(), "written by nobody"
    assert Counter(journal) == Counter(journaled), "a message without its business row, or the other way round"


def judge_group(record: GroupRecord, table: Mapping[int, Row], dead: Sequence[int], rejected: set[int]) -> None:
    """`dead`: the ids of its dead letters; `rejected`: those that its members rejected each time."""
    by_id: dict[int, list[Delivery]] = defaultdict(list)
    for one in record.deliveries:
        by_id[one.id].append(one)
    assert table.keys() - by_id.keys() == set(), "committed and never delivered"
    assert by_id.keys() - table.keys() == set(), "delivered and not in the topic"
    assert sorted(dead) == sorted(rejected), "dead letters are what was rejected, each once"
    assert table.keys() - record.sent_ns.keys() - set(dead) == set(), "gone without an ack"
    for id_, deliveries in by_id.items():
        row, acked_ns = table[id_], record.acked_ns.get(id_, NEVER)
        for one in deliveries:
            assert (one.n, one.key) == (row.n, row.key), ("delivered otherwise than written", one, row)
            assert one.begins_ns >= row.scheduled_ns, ("leased before its time", one, row)
            assert one.begins_ns <= acked_ns, ("leased anew after its ack had returned", one, acked_ns)
        _judge_leases(sorted(deliveries, key=lambda one: one.begins_ns), record.freed_ns.get(id_, ()))


def _judge_leases(deliveries: Sequence[Delivery], freed_ns: Sequence[int]) -> None:
    """Of one message, in order."""
    for one, next_ in itertools.pairwise(deliveries):
        assert (one.epoch, one.ends_ns) != (next_.epoch, next_.ends_ns), ("one lease, two deliveries", one, next_)
        freed = one.stream.closed_ns <= next_.begins_ns or any(at <= next_.begins_ns for at in freed_ns)
        assert freed or one.ends_ns <= next_.begins_ns, ("two leases at once", one, next_)


@dataclass(frozen=True)
class Step:
    """A message on its way: `done` has to come before the `begun` of every message that was inserted once this one was
    committed."""

    id: int
    transaction: Transaction
    begun: int
    done: int


def overtaken(steps: Sequence[Step]) -> list[tuple[Step, Step]]:
    """Messages that were begun before one was done that was committed, on the same node, when they were inserted."""
    nodes = {step.transaction.node for step in steps}
    return [pair for node in nodes for pair in _overtaken([one for one in steps if one.transaction.node == node])]


def _overtaken(steps: Sequence[Step]) -> list[tuple[Step, Step]]:
    committed = sorted((one for one in steps), key=lambda one: one.transaction.committed_ns)
    times = [one.transaction.committed_ns for one in committed]
    latest = list(itertools.accumulate(committed, lambda one, two: max(one, two, key=lambda step: step.done)))
    found = []
    for step in steps:
        before = bisect_left(times, step.transaction.began_ns)
        if before and latest[before - 1].done >= step.begun:
            found.append((step, latest[before - 1]))
    return found


def _by_number(transactions: Iterable[Transaction]) -> dict[int, Transaction]:
    return {n: one for one in transactions for n in one.rows}


def judge_order(record: GroupRecord, transactions: Sequence[Transaction]) -> None:
    """Of a group whose order_key is the key. None is no key."""
    of_number = _by_number(transactions)
    first: dict[int, Delivery] = {}
    for one in sorted(record.deliveries, key=lambda one: -one.begins_ns):
        first[one.id] = one
    by_key: dict[int, list[Step]] = defaultdict(list)
    for one in first.values():
        if one.key is not None:
            by_key[one.key].append(Step(one.id, of_number[one.n], one.begins_ns, record.sent_ns[one.id]))
    for key, steps in by_key.items():
        assert not (found := overtaken(steps)), (f"leased before one of its key {key} that was committed", found)


def judge_reader(reader: Reader, table: Mapping[int, Row], transactions: Sequence[Transaction]) -> None:
    of_number = _by_number(transactions)
    assert table.keys() - reader.had == set(), "committed and never broadcast"
    for stream in reader.streams:
        assert len({one.id for one in stream}) == len(stream), "broadcast twice in one stream"
        steps = []
        for place, one in enumerate(stream):
            row = table.get(one.id)
            assert row is not None, ("broadcast and not in the topic", one)
            assert (one.n, one.key) == (row.n, row.key), ("broadcast otherwise than written", one, row)
            assert one.received_ns >= row.scheduled_ns, ("broadcast before its time", one, row)
            if one.n not in of_number[one.n].scheduled:  # which come at their time, after larger ids
                steps.append(Step(one.id, of_number[one.n], place, place))
        assert not (found := overtaken(steps)), ("broadcast before one that was committed when it was inserted", found)
