"""What a report says, as plain values: no Spark, no text, no page. Times in unix nanoseconds, durations in seconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

NS = 10**9
STATES = ("ready", "in_flight", "retrying", "scheduled", "parked", "acked")
"""Of messages in the table, as SHOW QUEUE STATUS calls them and counts them."""
ARCHIVED = "archived"
"""Of messages in the archive; one that is not purged yet is acked in the table as well."""
TOP = 20  # queues that a report lists
PERCENTILES = (50, 90, 99)
BUCKETS: Mapping[str, int] = {"minute": 60, "hour": 3600, "day": 86_400}
_POINTS_MAX = 120  # more than that no line of a plot shows
ATTEMPTS_SHOWN = 10  # deliveries of more are counted together


@dataclass(frozen=True)
class QueueLine:
    """A queue among the others of its database, as SHOW QUEUE STATUS counts it."""

    queue: str
    ready: int
    in_flight: int
    retrying: int
    scheduled: int
    acked: int
    dead: int  # in its dead-letter queue
    oldest_ready: float | None  # seconds that the oldest due message has waited
    exact: bool = True  # False: of some state there may be more, the proxy does not count further

    @property
    def waiting(self) -> int:
        """All that is in the table and not acked, but for what is set aside."""
        return self.ready + self.in_flight + self.retrying + self.scheduled


@dataclass(frozen=True)
class GroupLine:
    """A consumer group among the others of its database, as SHOW GROUPS counts it."""

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
    exact: bool = True  # False: of some there may be more


@dataclass(frozen=True)
class Latency:
    """How long messages took to their ack, from a moment that `since` names."""

    since: Literal["due", "enqueued"]
    count: int
    p50: float
    p90: float
    p99: float
    longest: float


@dataclass(frozen=True)
class Rate:
    """What happened in one stretch of time."""

    start: int
    enqueued: int
    acked: int
    complete: bool = True  # False: it reaches out of the time of which all messages are known


@dataclass(frozen=True)
class Known:
    """The time of which all messages are known: those before it may be purged, and after it there will be more."""

    since: int
    until: int

    def covers(self, start: int, size: int) -> bool:
        """Whether that stretch is in it."""
        return self.since <= start and start + size <= self.until


@dataclass(frozen=True)
class Counted:
    """A value, and how many messages have it."""

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
    attempts: tuple[tuple[int, int], ...]  # deliveries, and how many messages had so many
    failures: tuple[Counted, ...]  # messages by what NACK or REJECT last gave as a reason
    bucket: str
    rates: tuple[Rate, ...]
    known: Known


@dataclass(frozen=True)
class TopicReport:
    """One topic: what it keeps, and what was written when."""

    topic: str
    messages: int
    first_id: int | None
    last_id: int | None
    oldest: float | None  # seconds since the oldest message was written
    bucket: str
    rates: tuple[Rate, ...]  # nothing is acked
    known: Known


@dataclass(frozen=True)
class Report:
    """All of it."""

    at: int
    database: str
    queues: tuple[QueueLine, ...]
    queue: QueueReport | None
    groups: tuple[GroupLine, ...] = ()
    topic: TopicReport | None = None


def bucket_for(first: int, last: int, wish: str = "auto") -> str:
    """The stretch of time that a rate is over: what was wished for, else the smallest that gives a readable plot."""
    if wish != "auto":
        return wish
    seconds = max(0, last - first) / NS
    return next((name for name, size in BUCKETS.items() if seconds / size <= _POINTS_MAX), "day")


def rates(enqueued: Mapping[int, int], acked: Mapping[int, int], bucket: str, known: Known) -> tuple[Rate, ...]:
    """Counts by number of bucket, with those in between in which nothing happened; the latest where they are many."""
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
    """Attempts from 0 on without gaps; the last stands for as many and more."""
    shown: dict[int, int] = {}
    for attempts, count in counts.items():
        key = min(max(attempts, 0), ATTEMPTS_SHOWN)
        shown[key] = shown.get(key, 0) + count
    return tuple((key, shown.get(key, 0)) for key in range(max(shown, default=-1) + 1))


def as_data(report: Report) -> dict[str, Any]:
    """The report as JSON has it."""
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
    for line in report.queues:
        for name in ("ready", "in_flight", "retrying", "scheduled", "acked", "dead", "oldest_ready"):
            value = getattr(line, name)
            yield Measure("queues", line.queue, name, report.at, None if value is None else float(value))
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
    """A table as text: the first row is its head; `right`: which columns are numbers."""
    widths = [max(len(row[place]) for row in values) for place in range(len(right))]
    made = [
        "  ".join(
            cell.rjust(width) if r else cell.ljust(width) for cell, width, r in zip(row, widths, right, strict=True)
        )
        for row in values
    ]
    return [made[0].rstrip(), "  ".join("-" * width for width in widths), *(line.rstrip() for line in made[1:])]
