"""One frame of `queuegate top`: the polled state and the view options, made into lines that fit. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from queuegate.cli.names import QueueRef
from queuegate.cli.queue_figures import Figures, status_object, titled
from queuegate.cli.tables import NONE, age, compact, padded, printable, rate, shortened, shortened_inside

WIDTH_LEAST, HEIGHT_LEAST = 40, 6

KEYS = "q quit; sort by n)ame r)eady f)light l)ater d)ead la(g) re(c)v o)ldest e)nq a)ck"
"""A key of a sort, pressed again, turns the order round."""

_COLUMNS = (
    ("READY", 6), ("LAG", 6), ("FLIGHT", 6), ("LATER", 6), ("DEAD", 5), ("RECV", 4), ("OLDEST", 6), ("ENQ/S", 6),
    ("ACK/S", 6), ("STATE", 6),
)  # fmt: skip
_OF_GROUPS = "LAG"  # left out where no queue is a consumer group's
_NAME_LEAST = 8


_Columns = Sequence[tuple[str, int]]
"""Titles and widths."""


class Style(Enum):
    """How a line is highlighted."""

    PLAIN, TITLE, BAD, WARNING, DIM = range(5)


@dataclass(frozen=True, slots=True)
class StyledLine:
    """One line of a frame, printable, not wider than requested."""

    text: str
    style: Style = Style.PLAIN


@dataclass(frozen=True, slots=True)
class Rates:
    """Messages a second; None where that is not known."""

    enqueued: float | None = None
    acked: float | None = None


@dataclass(frozen=True, slots=True)
class View:
    """The polled state of a proxy. `at`: when, by a monotonic clock; None before the first poll. `lost`: why
    the last poll failed."""

    place: str
    interval: float
    queues: Sequence[Figures] = ()
    rates: Mapping[QueueRef, Rates] = field(default_factory=dict)
    at: float | None = None
    lost: str | None = None

    def polled(self, queues: Sequence[Figures], at: float) -> View:
        """After a poll, with the rates since the one before."""
        before = {queue.name: queue.totals for queue in self.queues}
        elapsed = None if self.at is None else at - self.at
        rates = {queue.name: _rates(before.get(queue.name), queue.totals or {}, elapsed) for queue in queues}
        return replace(self, queues=tuple(queues), rates=rates, at=at, lost=None)

    def failed(self, why: str) -> View:
        """After a poll that failed: the last figures stay, rates are not known."""
        return replace(self, rates={}, lost=why)


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """How the queues are to be shown: by what they are sorted, which way, and how many are passed over."""

    sort: str = "ready"
    reverse: bool = False
    first: int = 0


def _rates(before: Mapping[str, int] | None, now: Mapping[str, int], seconds: float | None) -> Rates:
    if before is None or not seconds:
        return Rates()
    per_second = {}
    for name in ("enqueued", "acked"):
        more = now.get(name, 0) - before.get(name, 0)
        per_second[name] = more / seconds if more >= 0 else None  # less: the proxy has begun to count again
    return Rates(per_second["enqueued"], per_second["acked"])


def _most_first(of: Callable[[Figures, Rates], float | None]) -> Callable[[Figures, Rates], Any]:
    def key(queue: Figures, rates: Rates) -> Any:
        value = of(queue, rates)
        return (value is None, -(value or 0))

    return key


_SORTS: Mapping[str, Callable[[Figures, Rates], Any]] = {
    "name": lambda queue, rates: (),
    "ready": _most_first(lambda queue, rates: queue.ready),
    "flight": _most_first(lambda queue, rates: queue.in_flight),
    "later": _most_first(lambda queue, rates: queue.later),
    "dead": _most_first(lambda queue, rates: queue.dead),
    "lag": _most_first(lambda queue, rates: queue.unread),
    "receivers": _most_first(lambda queue, rates: queue.receivers),
    "oldest": _most_first(lambda queue, rates: queue.oldest_age),
    "enqueued": _most_first(lambda queue, rates: rates.enqueued),
    "acked": _most_first(lambda queue, rates: rates.acked),
}


def in_order(view: View, view_options: ViewOptions) -> list[Figures]:
    """The queues as they are to be shown; those that are equal by their names."""
    key = _SORTS[view_options.sort]
    ordered = sorted(
        view.queues, key=lambda q: (key(q, view.rates.get(q.name, Rates())), q.name.database, q.name.table)
    )
    return ordered[::-1] if view_options.reverse else ordered


def frame(view: View, view_options: ViewOptions, width: int, height: int, now: float, clock: str) -> list[StyledLine]:
    """At most `height` lines of at most `width` columns. `now`: the time by View.at's clock; `clock`: by the wall's."""
    if width < WIDTH_LEAST or height < HEIGHT_LEAST:
        return [StyledLine(shortened(f"The terminal is too small: {WIDTH_LEAST}x{HEIGHT_LEAST} is needed", width))][
            :height
        ]
    queues = in_order(view, view_options)
    shown = rows_shown(height)
    first = max(0, min(view_options.first, len(queues) - shown))
    columns = _columns(queues)
    lines = [*_head(view, view_options, width, now, clock), StyledLine(""), _titles(columns, width)]
    names = dict(zip((queue.name for queue in queues), titled(queues), strict=True))
    for queue in queues[first : first + shown]:
        lines.append(_row(names[queue.name], queue, view.rates.get(queue.name, Rates()), columns, width))
    if not queues and view.at is not None:
        lines.append(StyledLine("There are no queues.", Style.DIM))
    lines += [StyledLine("")] * (height - 1 - len(lines))
    hidden = len(queues) - shown
    foot = KEYS if hidden <= 0 else f"{first + 1}-{first + shown} of {len(queues)}, up and down scroll  {KEYS}"
    return [*lines, StyledLine(shortened(foot, width), Style.DIM)]


def view_object(view: View, view_options: ViewOptions, time: str) -> dict[str, Any]:
    """A poll as JSON, made at that time. The names are stable: programs read them. A failed poll has no queues:
    earlier figures are in earlier objects."""
    return {
        "time": time,
        "proxy": view.place,
        "interval_seconds": view.interval,
        "lost": view.lost,
        "queues": []
        if view.lost is not None
        else [_queue_object(view, queue) for queue in in_order(view, view_options)],
    }


def _queue_object(view: View, queue: Figures) -> dict[str, Any]:
    rates = view.rates.get(queue.name, Rates())
    per_second = {"enqueued_per_second": rates.enqueued, "acked_per_second": rates.acked}
    return {
        **status_object(queue),
        **{key: None if value is None else round(value, 3) for key, value in per_second.items()},
    }


def rows_shown(height: int) -> int:
    """Queues that a frame of this height has room for: two lines of head, a blank one, titles, and the keys."""
    return max(1, height - 5)


def _head(view: View, view_options: ViewOptions, width: int, now: float, clock: str) -> list[StyledLine]:
    count = len(view.queues)
    queues = "1 queue" if count == 1 else f"{count} queues"
    order = f"{view_options.sort}, turned round" if view_options.reverse else view_options.sort
    left = f"queuegate {view.place}  {queues} by {order}, every {view.interval:g} s"
    head = StyledLine(padded(left, width - len(clock) - 1) + " " + clock, Style.TITLE)
    if view.lost is not None:
        known = "" if view.at is None else f"numbers are {age(now - view.at)} old; "
        return [head, StyledLine(shortened(f"LOST, {known}trying again: {printable(view.lost)}", width), Style.BAD)]
    if view.at is None:
        return [head, StyledLine("connecting ...")]
    total = {name: sum(q.counts[name] or 0 for q in view.queues) for name in ("ready", "in_flight", "dead")}
    sums = f"ready {total['ready']}  in flight {total['in_flight']}  later {sum(q.later or 0 for q in view.queues)}"
    receivers = sum(queue.receivers or 0 for queue in view.queues)
    rates = f"enq/s {_sum(view, 'enqueued')}  ack/s {_sum(view, 'acked')}"
    return [head, StyledLine(shortened(f"{sums}  dead {total['dead']}  receivers {receivers}  {rates}", width))]


def _sum(view: View, name: str) -> str:
    known = [value for rates in view.rates.values() if (value := getattr(rates, name)) is not None]
    return rate(sum(known)) if known else NONE


def _columns(queues: Sequence[Figures]) -> _Columns:
    groups = any(queue.unread is not None for queue in queues)
    return tuple(column for column in _COLUMNS if groups or column[0] != _OF_GROUPS)


def _titles(columns: _Columns, width: int) -> StyledLine:
    return StyledLine(_joined("QUEUE", {title: title for title, _ in columns}, columns, width), Style.TITLE)


def _row(title: str, queue: Figures, rates: Rates, columns: _Columns, width: int) -> StyledLine:
    counts = {
        title: NONE if value is None else compact(value) + queue.more(value)
        for title, value in (
            ("READY", queue.ready),
            ("FLIGHT", queue.in_flight),
            ("LATER", queue.later),
            ("DEAD", queue.dead),
        )
    }
    state, style = _state(queue)
    cells = counts | {
        "LAG": compact(queue.unread),
        "RECV": compact(queue.receivers),
        "OLDEST": age(queue.oldest_age),
        "ENQ/S": rate(rates.enqueued),
        "ACK/S": rate(rates.acked),
        "STATE": state,
    }
    return StyledLine(_joined(title, cells, columns, width), style)


def _state(queue: Figures) -> tuple[str, Style]:
    if queue.problem is not None:
        return "error", Style.BAD
    if queue.alarms:
        return "alarm", Style.BAD
    if queue.paused:
        return "paused", Style.DIM
    return "", Style.WARNING if queue.dead else Style.PLAIN


def _joined(name: str, cells: Mapping[str, str], columns: _Columns, width: int) -> str:
    """A line of the table. On a terminal too narrow for all columns the last ones are cut off."""
    fields = [padded(cells[title], size, right=title != "STATE") for title, size in columns]
    fixed = sum(size + 1 for _, size in columns)
    room = max(_NAME_LEAST, width - fixed)
    name = shortened_inside(name, room)
    line = padded(name, room) + " " + " ".join(fields)
    while len(line.rstrip()) > width and len(fields) > 1 and width < fixed + _NAME_LEAST:
        fields.pop()
        line = padded(name, room) + " " + " ".join(fields)
    return shortened(line, width).rstrip()
