"""A report as text for a terminal, and how times and durations are written there and on the page."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from spark_connector.jobs.report_values import ATTEMPTS_SHOWN, NS, Counted, QueueReport, Report, lines

_RATES_SHOWN = 24


def duration(seconds: float | None) -> str:
    """A duration as people say it: 12 ms, 3.4 s, 5 m 20 s, 2 h 3 m, 4 d 1 h."""
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
    """A time in UTC, as exactly as its bucket is."""
    at = datetime.fromtimestamp(time_ns / NS, UTC)
    return at.strftime("%Y-%m-%d" if bucket == "day" else "%Y-%m-%d %H:%M")


def attempts_name(attempts: int) -> str:
    """As the histogram calls it."""
    return f"{attempts} and more" if attempts >= ATTEMPTS_SHOWN else str(attempts)


def text(report: Report) -> str:
    """All of it."""
    return "\n".join(_all(report))


def _all(report: Report) -> Iterator[str]:
    yield f"Database {report.database}, {moment(report.at)} UTC"
    yield ""
    head = ["queue", "ready", "in flight", "retrying", "scheduled", "acked", "oldest ready"]
    rows = [
        [q.queue, f"{q.ready:,}", f"{q.in_flight:,}", f"{q.retrying:,}", f"{q.scheduled:,}", f"{q.acked:,}",
         duration(q.oldest_ready)]
        for q in report.queues
    ]  # fmt: skip
    yield from lines([head, *rows], [False] + [True] * 6)
    if report.queue is not None:
        yield ""
        yield from _queue(report.queue)


def _queue(of: QueueReport) -> Iterator[str]:
    yield f"Queue {of.queue} ({', '.join(of.sources)})"
    yield ""
    yield from lines([["state", "messages"], *([s, f"{n:,}"] for s, n in of.states.items())], [False, True])
    yield f"oldest due: {duration(of.oldest_due)}"
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
    of_rates = ([moment(r.start, of.bucket), f"{r.enqueued:,}", f"{r.acked:,}"] for r in shown)
    yield from lines([[f"per {of.bucket} (UTC)", "enqueued", "acked"], *of_rates], [False, True, True])


def counted(name: str, values: tuple[Counted, ...]) -> list[str]:
    """A table of values and how often they are."""
    return lines([[name, "messages"], *([_short(v.value), f"{v.count:,}"] for v in values)], [False, True])


def _short(value: str, most: int = 72) -> str:
    line = " ".join(value.split())
    return line if len(line) <= most else line[: most - 3] + "..."
