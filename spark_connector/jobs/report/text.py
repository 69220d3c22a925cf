"""A report as text for a terminal, and the formatting of times and durations for it and the page."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from spark_connector.jobs.report.values import (
    ATTEMPTS_SHOWN,
    NS,
    Counted,
    GroupSummary,
    QueueReport,
    QueueSummary,
    Report,
    TopicReport,
    lines,
)

_RATES_SHOWN = 24
QUEUE_COLUMNS = ("queue", "ready", "in flight", "retrying", "scheduled", "acked", "dead letters", "oldest ready")
GROUP_COLUMNS = ("topic", "group", "offset", "unread", "lost", "ready", "waiting", "in flight", "dead letters")


def duration(seconds: float | None) -> str:
    """A readable duration: 12 ms, 3.4 s, 5 m 20 s, 2 h 3 m, 4 d 1 h."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    for big, small, size, least in (("d", "h", 86_400, 86_400), ("h", "m", 3600, 3600), ("m", "s", 60, 60)):
        if seconds >= least:
            part = {"d": 3600, "h": 60, "m": 1}[big]
            return f"{int(seconds // size)} {big} {int(seconds % size // part)} {small}"
    raise AssertionError("unreachable")


def moment(time_ns: int, bucket: str = "minute") -> str:
    """A time in UTC, with the precision of its bucket."""
    at = datetime.fromtimestamp(time_ns / NS, UTC)
    return at.strftime("%Y-%m-%d" if bucket == "day" else "%Y-%m-%d %H:%M")


def exactly(time_ns: int) -> str:
    """A time in UTC to the second."""
    return datetime.fromtimestamp(time_ns / NS, UTC).strftime("%Y-%m-%d %H:%M:%S")


def attempts_name(attempts: int) -> str:
    """The label in the histogram."""
    return f"{attempts} and more" if attempts >= ATTEMPTS_SHOWN else str(attempts)


def text(report: Report) -> str:
    """The whole report."""
    return "\n".join(_all(report))


def _all(report: Report) -> Iterator[str]:
    yield f"Database {report.database}, {moment(report.at)} UTC"
    yield ""
    yield from lines([QUEUE_COLUMNS, *map(queue_cells, report.queues)], [False] + [True] * 7)
    yield from queues_note(report)
    if report.groups:
        yield ""
        yield from lines([GROUP_COLUMNS, *map(group_cells, report.groups)], [False, False] + [True] * 7)
    if report.queue is not None:
        yield ""
        yield from _queue(report.queue)
    if report.topic is not None:
        yield ""
        yield from _topic(report.topic)


def queue_cells(line: QueueSummary) -> list[str]:
    """A queue's row in the table of queues."""
    counts = (line.ready, line.in_flight, line.retrying, line.scheduled, line.acked, line.dead)
    return [line.queue if line.exact else f"{line.queue} *", *(f"{n:,}" for n in counts), duration(line.oldest_ready)]


def group_cells(line: GroupSummary) -> list[str]:
    """A consumer group's row in the table of groups."""
    counts = (line.offset, line.unread, line.lost, line.ready, line.waiting, line.in_flight, line.dead)
    return [line.topic, line.group if line.exact else f"{line.group} *", *(f"{n:,}" for n in counts)]


def topic_numbers(of: TopicReport) -> list[tuple[str, str]]:
    """A topic's numbers, by name."""
    ids = "-" if of.first_id is None else f"{of.first_id:,} to {of.last_id or 0:,}"
    return [("messages", f"{of.messages:,}"), ("ids", ids), ("oldest", duration(of.oldest))]


def queues_note(report: Report) -> Iterator[str]:
    """The explanation of the star in these tables, if there is one."""
    if not all([*(summary.exact for summary in report.queues), *(summary.exact for summary in report.groups)]):
        yield "* at least: of each state a million messages are counted, no more"


def coverage_note(of: QueueReport | TopicReport) -> str:
    """The note on rates of buckets that are not completely covered."""
    return f"all messages are known from {exactly(of.known.since)} to {exactly(of.known.until)} UTC only"


def _queue(of: QueueReport) -> Iterator[str]:
    yield f"Queue {of.queue} ({', '.join(of.sources)})"
    yield ""
    yield from lines([["state", "messages"], *([s, f"{n:,}"] for s, n in of.states.items())], [False, True])
    yield ""
    yield f"dead letters: {of.dead:,}"
    yield f"oldest ready: {duration(of.oldest_due)}"
    yield ""
    head = ["to ack, since", "messages", "p50", "p90", "p99", "longest"]
    rows = [
        [x.since, f"{x.count:,}", duration(x.p50), duration(x.p90), duration(x.p99), duration(x.longest)]
        for x in of.latencies
    ]
    yield from lines([head, *rows], [False] + [True] * 5)
    yield ""
    attempts = ([attempts_name(n), f"{count:,}"] for n, count in of.attempts)
    yield from lines([["deliveries", "messages"], *attempts], [False, True])
    yield ""
    yield from counted("last error", of.failures)
    yield ""
    shown = of.rates[-_RATES_SHOWN:]
    of_rates = (
        [moment(r.start, of.bucket) + ("" if r.complete else " *"), f"{r.enqueued:,}", f"{r.acked:,}"] for r in shown
    )
    yield from lines([[f"per {of.bucket} (UTC)", "enqueued", "acked"], *of_rates], [False, True, True])
    if not all(rate.complete for rate in shown):
        yield f"* incomplete: {coverage_note(of)}"


def _topic(of: TopicReport) -> Iterator[str]:
    yield f"Topic {of.topic}"
    yield ""
    yield from (f"{name}: {value}" for name, value in topic_numbers(of))
    yield ""
    shown = of.rates[-_RATES_SHOWN:]
    rates = ([moment(r.start, of.bucket) + ("" if r.complete else " *"), f"{r.enqueued:,}"] for r in shown)
    yield from lines([[f"per {of.bucket} (UTC)", "written"], *rates], [False, True])
    if not all(rate.complete for rate in shown):
        yield f"* incomplete: {coverage_note(of)}"


def counted(name: str, values: tuple[Counted, ...]) -> list[str]:
    """A table of values and their counts."""
    return lines([[name, "messages"], *([_short(v.value), f"{v.count:,}"] for v in values)], [False, True])


def _short(value: str, most: int = 72) -> str:
    line = " ".join(value.split())
    return line if len(line) <= most else line[: most - 3] + "..."
