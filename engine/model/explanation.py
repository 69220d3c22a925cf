"""Why a message is not delivered, as text. Pure: from its row and the facts about its queue.

A message may be blocked for several reasons at once: all are listed, the state is that of the first. The order is that
in which the engine would check them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from engine.model.identity import last_epoch
from engine.model.key_range import Keys
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import QueueSpec, SubscriptionStatus
from engine.model.states import PARKED_NS, REJECTED_NS, goes_alone, is_alongside, is_lease_end


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message's row. `slot`: its place on the queue's ring, if it has one. `earlier`, `key_in_flight`: other messages
    of the same order key; see rewriter.plans.explain_delivery."""

    id: str
    now_ns: int
    epoch: int
    time_next_ns: int | None
    time_acked_ns: int | None
    slot: int | None = None
    last_error: str | None = None
    earlier: str | None = None
    key_in_flight: str | None = None
    failed_attempts: str | None = None


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """What is known of the queue: its open streams, on all workers, and the receiver of each message; None: one that
    the requesting account may not see. `fitting`: the messages that at least one stream takes, by its WHERE and its key
    range; None where a stream takes every message. `refused`: messages that the database refuses to lease, with its
    errors."""

    queue: QueueSpec
    subscriptions: Sequence[SubscriptionStatus] = ()
    holders: Mapping[str, SubscriptionStatus | None] = field(default_factory=dict)
    in_flight: int | None = None
    fitting: frozenset[str] | None = None
    dead_letter_queue: str | None = None
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Explanation:
    """One row of EXPLAIN DELIVERY."""

    id: str
    state: str
    text: str


Reason = tuple[str, str]
"""A state and its description."""


def explain(row: MessageRow, facts: QueueFacts) -> Explanation:
    """Why this message is where it is."""
    waits = _settled(row) or _later(row, facts)
    reasons = [waits] if waits is not None else _due(row, facts)
    return Explanation(row.id, reasons[0][0], "; ".join(text for _, text in reasons))


def unknown(id_: str, facts: QueueFacts, *, dead: bool | None) -> Explanation:
    """Of an id that is not in the table; `dead`: it is in the dead-letter queue; None: the account may not know."""
    if dead:
        return Explanation(id_, "dead", f"in the dead-letter queue {facts.dead_letter_queue}")
    days = _span(facts.queue.options.purge_after_ns)
    text = f"no such message: never committed, deleted, or acked more than {days} ago and purged"
    if dead is None:
        text += "; or it is in the dead-letter queue, which this account may not read"
    return Explanation(id_, "unknown", text)


def moment(ns: int) -> str:
    """A time in UTC with milliseconds."""
    return datetime.fromtimestamp(ns // 1_000_000 / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def _span(ns: int) -> str:
    seconds = ns / NS_PER_SECOND
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size or seconds == size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def _when(row: MessageRow, ns: int) -> str:
    return f"{moment(ns)} UTC (in {_span(ns - row.now_ns)})"


def _settled(row: MessageRow) -> Reason | None:
    if row.time_acked_ns is not None:
        return "acked", f"acked at {moment(row.time_acked_ns)} UTC after {_deliveries(row.epoch)}"
    if row.time_next_ns == REJECTED_NS:
        return "rejected", f"rejected, and about to be moved to the dead-letter queue{_error(row)}"
    if row.time_next_ns == PARKED_NS:
        return "parked", "set aside by hand (time_next is 2^63-1); UPDATE ... SET time_next = 0 makes it due"
    return None


def _deliveries(count: int) -> str:
    return "1 delivery" if count == 1 else f"{count} deliveries"


def _error(row: MessageRow) -> str:
    return f"; last error: {row.last_error}" if row.last_error else ""


def _later(row: MessageRow, facts: QueueFacts) -> Reason | None:
    """Waiting for a time that has not come."""
    until = row.time_next_ns
    if until is None or until <= row.now_ns:
        return None
    if row.epoch <= 0:
        return "scheduled", f"not due before {_when(row, until)}"
    if is_lease_end(until):
        return "in_flight", f"leased until {_when(row, until)}, delivery {row.epoch}{_holder(row, facts)}{_error(row)}"
    return "retrying", f"waits for a retry until {_when(row, until)} after {_deliveries(row.epoch)}{_error(row)}"


def _holder(row: MessageRow, facts: QueueFacts) -> str:
    if row.id in facts.holders and (holder := facts.holders[row.id]) is None:
        return "; held by a connection of which this account may not know"
    if (holder := facts.holders.get(row.id)) is None:
        return "; held by no open stream: by a result that has ended, or a receiver that is gone"
    receiver = holder.receiver
    return f"; held by connection {receiver.connection_id} ({receiver.user}@{receiver.host})"


def _due(row: MessageRow, facts: QueueFacts) -> list[Reason]:
    """Due: all reasons that prevent its delivery; without any, it is about to be delivered."""
    reasons = [*_blocking_reasons(row, facts), *_no_taker(row, facts), *_alone(row, facts)]
    if (error := facts.refused.get(row.id)) is not None:
        text = f"the database refuses the UPDATE that leases it, which is tried again within ten minutes: {error}"
        reasons.insert(0, ("refused", text))
    if reasons:
        return reasons
    since = "" if not row.time_next_ns else f" since {moment(row.time_next_ns)} UTC"
    return [("ready", f"due{since}; being delivered now, or another transaction holds its row")]


def _attempts(row: MessageRow, facts: QueueFacts) -> int:
    """How many of its deliveries count."""
    alongside = facts.queue.options.tries_alone and is_alongside(row.time_next_ns or 0)
    return row.epoch - 1 if alongside and row.epoch > 0 else row.epoch


def _alone(row: MessageRow, facts: QueueFacts) -> Iterator[Reason]:
    if facts.queue.options.tries_alone and goes_alone(row.time_next_ns or 0):
        yield (
            "alone",
            "its receiver was gone, or its lease ran out: it goes out alone, to a receiver that holds nothing",
        )


def _blocking_reasons(row: MessageRow, facts: QueueFacts) -> Iterator[Reason]:
    options = facts.queue.options
    if options.paused:
        yield "paused", "the queue is paused; ALTER QUEUE ... RESUME goes on"
    if 0 < (last := last_epoch(facts.queue, options.attempts_max)) <= _attempts(row, facts):
        text = f"has had its {_deliveries(last)} and goes to the dead-letter queue at the next look"
        yield "exhausted", text + _error(row)
    if row.key_in_flight is not None:
        yield "blocked", f"key blocked by {row.key_in_flight}, which is in flight"
    elif row.earlier is not None:
        yield "blocked", f"key blocked by {row.earlier}, which comes first and is not acked"
    if options.max_concurrency is not None and (facts.in_flight or 0) >= options.max_concurrency:
        yield "concurrency_limit", f"the queue has its max_concurrency of {options.max_concurrency} in flight"
    if options.max_rate is not None and (waits := _rate_waits(facts)) > 0:
        yield "rate_limited", f"max_rate of {options.max_rate:f} a second: the next may go in {waits:.1f} s"


def _rate_waits(facts: QueueFacts) -> float:
    return max((stream.rate_limited_seconds for stream in facts.subscriptions), default=0.0)


def _takers(streams: Sequence[SubscriptionStatus], slot: int) -> Sequence[SubscriptionStatus]:
    """Those that may get a message of that slot, sooner or later."""
    takers = [stream for stream in streams if stream.slots.covers(slot)]
    if any(stream.keys == Keys.EXCLUSIVE.value for stream in takers):
        return [stream for stream in takers if stream.keys != Keys.STICKY.value]
    return takers


def _no_taker(row: MessageRow, facts: QueueFacts) -> Iterator[Reason]:
    slot = row.slot
    takers = facts.subscriptions if slot is None else _takers(facts.subscriptions, slot)
    if not facts.subscriptions:
        yield "no_subscriber", "no stream is open on the queue"
    elif not takers:
        yield "uncovered", f"its slot is {slot:04x}, and no open stream's key_range covers it"
    elif facts.fitting is not None and row.id not in facts.fitting:
        yield "filtered", f"it fits the WHERE of none of the {len(facts.subscriptions)} open streams"
    elif all(stream.window_full for stream in takers):
        yield "windows_full", "every open stream that may get it holds as many unacked messages as its prefetch allows"
    elif not any(stream.waiting for stream in takers):
        yield (
            "not_reading",
            "no open stream that may get it takes messages now: clients have not read what they were sent",
        )
