"""What is wrong with a queue or a consumer group, in one short line each, the worst first. Pure.

Each line says what can be seen, with its numbers, and leads to the page that shows more. What is only a moment old is
no problem yet: receivers that work are full at times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from console.pages.figures import Figures, Group, TopicFigures
from console.rates import Rates
from console.rendering import age, link, number
from engine.model.queue import QueueName

SHORT_CHARACTERS = 80
"""Of a text that the proxy has written: more would be a second line. The page of the queue has all of it."""

BUSY_SECONDS = 5.0
"""Below this age of the oldest ready message, or unread one, receivers that are full or behind do what they can."""

SLOW_SECONDS = 60.0
"""A message that has waited for so long while receivers have room waits for something else than for them."""

EXPIRED_SECONDS = 600
"""Leases that ran out within this time are told of."""

_UNSERVED = "nobody receives"
_HOLDER_CHARACTERS = 24  # of the name of a receiver


class Severity(IntEnum):
    """How bad it is. A note is no problem by itself."""

    BAD = 0
    WARNING = 1
    NOTE = 2


@dataclass(frozen=True, slots=True)
class Problem:
    """One line. `address`: the page that shows more; `whole`: the text without a limit, where it is longer."""

    text: str
    severity: Severity
    address: str
    whole: str = ""


@dataclass(frozen=True, slots=True)
class Streams:
    """The open streams of one queue. `full`: of so many the window is full; `waiting`: so many would get the next
    message at once. `holder`: the name of the only one that holds messages, empty where several do or none."""

    total: int = 0
    full: int = 0
    waiting: int = 0
    unacked: int = 0
    holder: str = ""


@dataclass(frozen=True, slots=True)
class Lately:
    """What was counted of a queue: `sent` and `acked` in the last minute, `expired` leases in EXPIRED_SECONDS; as far
    as the console counts already, which may be for less than a minute (`whole_minute`). None where it does not."""

    sent: float | None = None
    acked: float | None = None
    expired: float | None = None
    whole_minute: bool = True


def streams_of(rows: Iterable[Mapping[str, Any]]) -> dict[QueueName, Streams]:
    """By queue, of the rows of SHOW SUBSCRIPTIONS, whose names are in lower case."""
    made: dict[QueueName, Streams] = {}
    for row in rows:
        queue, unacked = QueueName(str(row["database"]), str(row["queue"])), int(row["unacked"])
        one = made.get(queue, Streams())
        holder = str(row["consumer"] or f"connection {row['connection_id']}") if unacked else ""
        made[queue] = Streams(
            one.total + 1,
            one.full + bool(row["window_full"]),
            one.waiting + (bool(row["waiting"]) and not row["window_full"]),
            one.unacked + unacked,
            (holder if not one.unacked else "") if unacked else one.holder,
        )
    return made


def lately_of(rates: Rates, queue: QueueName, now: float) -> Lately:
    """What the counters of all processes say."""
    return Lately(
        rates.last_minute(queue, "sent", now),
        rates.last_minute(queue, "acked", now),
        rates.lately(queue, "expired", now, EXPIRED_SECONDS),
        rates.since is not None and now - rates.since >= 60,
    )


def problems(
    of: Figures, streams: Streams, lately: Lately, dead_letters: QueueName | None = None
) -> tuple[Problem, ...]:
    """Of a queue. `dead_letters`: where those of it are, if that is known."""
    return tuple(sorted(_of_queue(of, streams, lately, dead_letters), key=lambda each: each.severity))


def group_problems(
    group: Group, of: Figures, streams: Streams, lately: Lately, dead_letters: QueueName | None = None
) -> tuple[Problem, ...]:
    """Of a consumer group, whose queue has the figures `of`."""
    lines = list(_of_group(group))
    unserved = any(each.text.startswith(_UNSERVED) for each in lines)
    of_queue = _of_queue(of, streams, lately, dead_letters)
    lines += [each for each in of_queue if not (unserved and each.text.startswith(_UNSERVED))]
    return tuple(sorted(lines, key=lambda each: each.severity))


def topic_problems(of: TopicFigures) -> tuple[Problem, ...]:
    """Of a topic itself, without its groups."""
    return (_from_proxy(of.problem, link("/topic", db=of.topic.database, name=of.topic.table)),) if of.problem else ()


def _of_queue(of: Figures, streams: Streams, lately: Lately, dead_letters: QueueName | None) -> Iterator[Problem]:
    where = {"db": of.queue.database, "name": of.queue.table}
    if of.problem:
        yield _from_proxy(of.problem, link("/queue", **where))
    if of.paused:
        waits = f", {number(of.ready)} ready" if of.ready else ""
        yield Problem(f"paused: it delivers nothing{waits}", Severity.WARNING, link("/queue", **where))
    if of.ready and of.dead_letters and not of.receivers:
        text = f"{number(of.ready)} wait to be redriven or discarded"
        yield Problem(text, Severity.NOTE, link("/dead", **where))
    elif of.ready and not of.paused:
        yield from _waiting(of, streams)
    yield from _held(of, streams, lately)
    if of.unmatched:
        text = f"{number(of.unmatched)} ready fit no open stream"
        yield Problem(text, Severity.WARNING, link("/queue/receivers", **where))
    if of.parked:
        text = f"{number(of.parked)} parked"
        yield Problem(text, Severity.NOTE, link("/queue", **where, state="parked") + "#messages")
    if of.dead:
        place = dead_letters or of.queue
        text = f"{number(of.dead)} dead {'letter' if of.dead == 1 else 'letters'}"
        yield Problem(text, Severity.WARNING, link("/dead", db=place.database, name=place.table))


def _waiting(of: Figures, streams: Streams) -> Iterator[Problem]:
    """Why ready messages wait."""
    ready = f"{number(of.ready)}{'' if of.exact else '+'} ready"
    oldest = of.oldest_age or 0.0
    since = f"{ready} for {age(oldest)}" if oldest >= 1 else ready
    address = link("/queue/receivers", db=of.queue.database, name=of.queue.table)
    if not of.receivers and not of.in_flight:
        yield Problem(f"{_UNSERVED}: {since}", Severity.BAD, address)
    elif oldest >= BUSY_SECONDS and of.in_flight and not streams.waiting:
        busy = "full" if streams.total and streams.full == streams.total else "busy"
        text = f"all receivers are {busy}: {since}, {number(of.in_flight)} in flight"
        yield Problem(text, Severity.BAD if oldest >= SLOW_SECONDS else Severity.WARNING, address)
    elif oldest >= SLOW_SECONDS and not of.unmatched:
        room = "while a receiver waits" if streams.waiting else "and no receiver takes them"
        yield Problem(f"{since}, {room}", Severity.WARNING, address)


def _held(of: Figures, streams: Streams, lately: Lately) -> Iterator[Problem]:
    """Whether receivers do anything with what they hold."""
    address = link("/queue/receivers", db=of.queue.database, name=of.queue.table)
    who = shortened(streams.holder, _HOLDER_CHARACTERS) or (
        "the receivers" if (of.receivers or 0) > 1 else "the receiver"
    )
    held = max(of.in_flight or 0, streams.unacked)
    hold = f"{who} {'hold' if who == 'the receivers' else 'holds'} {number(held)} and acked none"
    if of.alarms:
        yield Problem(f"{number(of.alarms)} in flight for longer than alarm_after", Severity.BAD, address)
    if lately.expired:
        leases = f"{number(lately.expired)} {'lease' if lately.expired == 1 else 'leases'} ran out"
        idle = held and lately.acked == 0
        yield Problem(f"{leases}: {hold}" if idle else f"{leases} in 10 min", Severity.BAD, address)
    elif held and lately.whole_minute and lately.acked == 0 and lately.sent == 0:
        yield Problem(f"{hold} in a minute", Severity.NOTE, address)


def _of_group(group: Group) -> Iterator[Problem]:
    where = {"db": group.queue.database, "name": group.queue.table}
    address = link("/queue/receivers", **where)
    if group.problem:
        yield _from_proxy(group.problem, link("/queue", **where))
    if group.lost:
        yield Problem(f"{number(group.lost)} lost: deleted before it read them", Severity.BAD, link("/queue", **where))
    if not group.unread or group.paused:
        return
    oldest = group.oldest_unread_age or 0.0
    unread = f"{number(group.unread)}{'' if group.exact else '+'} unread"
    since = f"{unread} for {age(oldest)}" if oldest >= 1 else unread
    if not group.members:
        yield Problem(f"{_UNSERVED}: {since}", Severity.BAD, address)
    elif oldest >= BUSY_SECONDS:
        severity = Severity.BAD if oldest >= SLOW_SECONDS else Severity.WARNING
        yield Problem(f"behind its topic: {since}", severity, address)


def _from_proxy(text: str, address: str) -> Problem:
    """What the proxy says, up to its first part that fits."""
    short = shortened(text, SHORT_CHARACTERS)
    return Problem(short, Severity.BAD, address, "" if short == text else text)


def shortened(text: str, most: int) -> str:
    """The text, or its beginning."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
