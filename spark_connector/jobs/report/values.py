"""The data of a report, as plain values: no Spark, no text, no page. Times in unix nanoseconds, durations in
seconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

NS = 10**9
STATES = ("ready", "in_flight", "retrying", "scheduled", "parked", "acked")
"""States of messages in the table, as in SHOW QUEUE STATUS."""
ARCHIVED = "archived"
"""State of messages in the archive; one that is not purged yet is also acked in the table."""
TOP = 20  # queues that a report lists
PERCENTILES = (50, 90, 99)
BUCKETS: Mapping[str, int] = {"minute": 60, "hour": 3600, "day": 86_400}
_POINTS_MAX = 120  # maximum points of a plot
ATTEMPTS_SHOWN = 10  # deliveries of more are counted together


@dataclass(frozen=True)
class QueueSummary:
    """A queue in the list of its database, with the counts of SHOW QUEUE STATUS."""

    queue: str
    ready: int
    in_flight: int
    retrying: int
    scheduled: int
    acked: int
    dead: int  # in its dead-letter queue
    oldest_ready: float | None  # seconds that the oldest due message has waited
    exact: bool = True  # False: some counts are lower bounds, where the proxy stops counting

    @property
    def waiting(self) -> int:
        """Unacked messages in the table, except parked ones."""
        return self.ready + self.in_flight + self.retrying + self.scheduled


@dataclass(frozen=True)
class GroupSummary:
    """A consumer group in the list of its database, with the counts of SHOW GROUPS."""

    topic: str
    group: str
    queue: str
    offset: int
    unread: int  # messages of the topic beyond the offset
    lost: int  # messages that the topic's retention deleted before the group had read them
    ready: int
    waiting: int
    in_flight: int
    dead: int
    exact: bool = True  # False: some counts are lower bounds


@dataclass(frozen=True)
class Latency:
    """The time until the ack of messages, from the moment in `since`."""

    since: Literal["due", "enqueued"]
    count: int
    p50: float
    p90: float
    p99: float
    longest: float


@dataclass(frozen=True)
class Rate:
    """The counts of one bucket of time."""

    start: int
    enqueued: int
    acked: int
    complete: bool = True  # False: it is not completely within the covered time


@dataclass(frozen=True)
class Coverage:
    """The time for which all messages are known: earlier ones may be purged, later ones are still to come."""

    since: int
    until: int

    def covers(self, start: int, size: int) -> bool:
        """Whether the bucket is completely covered."""
        return self.since <= start and start + size <= self.until


@dataclass(frozen=True)
class Counted:
    """A value, and its number of messages."""

    value: str
    count: int


@dataclass(frozen=True)
class QueueReport:
    """One queue, from its table, its archive, or both."""

    queue: str
    sources: tuple[str, ...]
    states: Mapping[str, int]
    dead: int
    oldest_due: float | None
    latencies: tuple[Latency, ...]
    attempts: tuple[tuple[int, int], ...]  # number of deliveries, and number of messages with it
    failures: tuple[Counted, ...]  # messages by their last reason from NACK or REJECT
    bucket: str
    rates: tuple[Rate, ...]
    known: Coverage


@dataclass(frozen=True)
class TopicReport:
    """One topic: its messages, and the rates of writes."""

    topic: str
    messages: int
    first_id: int | None
    last_id: int | None
    oldest: float | None  # seconds since the oldest message was written
    bucket: str
    rates: tuple[Rate, ...]  # nothing is acked
    known: Coverage


@dataclass(frozen=True)
class Report:
    """All of it."""

    at: int
    database: str
    queues: tuple[QueueSummary, ...]
    queue: QueueReport | None
    groups: tuple[GroupSummary, ...] = ()
    topic: TopicReport | None = None


def bucket_for(first: int, last: int, requested: str = "auto") -> str:
    """The bucket of rates: the requested one, or the smallest that gives a readable plot."""
    if requested != "auto":
        return requested
    seconds = max(0, last - first) / NS
    return next((name for name, size in BUCKETS.items() if seconds / size <= _POINTS_MAX), "day")


def rates(enqueued: Mapping[int, int], acked: Mapping[int, int], bucket: str, known: Coverage) -> tuple[Rate, ...]:
    """Rates by bucket number, including empty buckets in between; only the latest if there are many."""
    numbers = enqueued.keys() | acked.keys()
    if not numbers:
        return ()
    last = max(numbers)
    first = max(min(numbers), last - 10 * _POINTS_MAX)
    size = BUCKETS[bucket] * NS
    return tuple(
        Rate(n * size, enqueued.get(n, 0), acked.get(n, 0), known.covers(n * size, size))
        for n in range(first, last + 1)
    )


def histogram(counts: Mapping[int, int]) -> tuple[tuple[int, int], ...]:
    """Attempts from 0 on without gaps; the last one includes all higher counts."""
    shown: dict[int, int] = {}
    for attempts, count in counts.items():
        key = min(max(attempts, 0), ATTEMPTS_SHOWN)
        shown[key] = shown.get(key, 0) + count
    return tuple((key, shown.get(key, 0)) for key in range(max(shown, default=-1) + 1))


def as_data(report: Report) -> dict[str, Any]:
    """The report as data for JSON."""
    return asdict(report)


@dataclass(frozen=True)
class Measure:
    """One number of a report, as a row of a table: the shape of CSV and Parquet."""

    section: str
    queue: str
    name: str
    at: int | None
    value: float | None


def measures(report: Report) -> Iterator[Measure]:
    """The report as rows."""
    for summary in report.queues:
        for name in ("ready", "in_flight", "retrying", "scheduled", "acked", "dead", "oldest_ready"):
            value = getattr(summary, name)
            yield Measure("queues", summary.queue, name, report.at, None if value is None else float(value))
    for group in report.groups:
        for name in ("offset", "unread", "lost", "ready", "waiting", "in_flight", "dead"):
            yield Measure("groups", group.queue, name, report.at, float(getattr(group, name)))
    if report.queue is not None:
        yield from _of_queue(report.queue, report.at)
    if report.topic is not None:
        yield from _of_topic(report.topic, report.at)


def _of_queue(of: QueueReport, at: int) -> Iterator[Measure]:
    for state, count in of.states.items():
        yield Measure("states", of.queue, state, at, float(count))
    yield Measure("dead", of.queue, "dead", at, float(of.dead))
    yield Measure("oldest", of.queue, "oldest_due", at, of.oldest_due)
    for latency in of.latencies:
        for name in ("count", "p50", "p90", "p99", "longest"):
            yield Measure("latency", of.queue, f"{latency.since}_{name}", at, float(getattr(latency, name)))
    for attempts, count in of.attempts:
        yield Measure("attempts", of.queue, str(attempts), at, float(count))
    for failure in of.failures:
        yield Measure("failures", of.queue, failure.value, at, float(failure.count))
    for rate in of.rates:
        name = of.bucket if rate.complete else f"{of.bucket}_incomplete"
        yield Measure("enqueued", of.queue, name, rate.start, float(rate.enqueued))
        yield Measure("acked", of.queue, name, rate.start, float(rate.acked))


def _of_topic(of: TopicReport, at: int) -> Iterator[Measure]:
    for name in ("messages", "first_id", "last_id", "oldest"):
        value = getattr(of, name)
        yield Measure("topic", of.topic, name, at, None if value is None else float(value))
    for rate in of.rates:
        name = of.bucket if rate.complete else f"{of.bucket}_incomplete"
        yield Measure("enqueued", of.topic, name, rate.start, float(rate.enqueued))


def top(counts: Mapping[str, int], most: int) -> tuple[Counted, ...]:
    """The most frequent values."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Counted(value, count) for value, count in ordered[:most])


def lines(values: Sequence[Sequence[str]], right: Sequence[bool]) -> list[str]:
    """A table as text: the first row is its header; `right`: which columns are numbers."""
    widths = [max(len(row[index]) for row in values) for index in range(len(right))]
    rendered = [
        "  ".join(
            cell.rjust(width) if r else cell.ljust(width) for cell, width, r in zip(row, widths, right, strict=True)
        )
        for row in values
    ]
    return [rendered[0].rstrip(), "  ".join("-" * width for width in widths), *(line.rstrip() for line in rendered[1:])]
