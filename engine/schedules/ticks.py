"""When a schedule ticks. Pure: rules and times in, times out.

The fields of CRON are cronsim's, read on a clock that knows no summer time. What a change of the clocks means is
decided here, as Debian's cron does:
- A rule whose minute and hour both name times (`30 2 * * *`) ticks once for each of them on every day. A time that the
  change skips is made up for at the moment of the change; of a time that comes twice the first counts.
- Any other rule, whose minute or hour begins with `*`, follows the clock on the wall: no tick at a time that does not
  exist, two at a time that comes twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from engine.model.errors import EngineError, InvalidOption
from engine.model.option_values import NS_PER_SECOND
from engine.model.queue import SEQUENCE_COLUMN, SOUGHT_COLUMN, SYSTEM_COLUMNS, Layout, QueueSpec, TopicSpec
from engine.model.schedules import (
    CRON_MAX_CHARACTERS,
    LATE_NS,
    Cron,
    Every,
    Insertion,
    InvalidSchedule,
    Missed,
    Number,
    Rule,
    Schedule,
    SpecialValue,
    Value,
)

# What a schedule sends: its values, and the time of the tick in the columns that say when a message is due. Pure.

_RESERVED_COLUMNS = (*(name for name in SYSTEM_COLUMNS if name != "priority"), SEQUENCE_COLUMN, SOUGHT_COLUMN)
"""Columns that no schedule gives: the database or the proxy does."""


def own_columns(target: QueueSpec | TopicSpec) -> tuple[str, ...]:
    """The columns that VALUES without a list of columns is for: the user's own, in the table's order."""
    names = (column.name for column in target.columns)
    return tuple(
        n for n in names if n.lower() not in (*_RESERVED_COLUMNS, "priority") and n.lower() not in target.generated
    )


def check_columns(columns: Sequence[str], values: Sequence[Value]) -> None:
    """Raises InvalidSchedule where such columns cannot be given, or not these values."""
    if len(columns) != len(values):
        raise InvalidSchedule("Column count doesn't match value count at row 1", 1136)
    for column in columns:
        if column.lower() in _RESERVED_COLUMNS:
            raise InvalidSchedule(f"a schedule cannot give {column}: leave it out", 1235)


def insertion(schedule: Schedule, target: QueueSpec | TopicSpec, ticks: Sequence[int], now_ns: int) -> Insertion:
    """The messages of these ticks. Raises InvalidSchedule."""
    check_columns(schedule.columns, schedule.values)
    has = {column.name.lower() for column in target.columns}
    times = [name for name in ("time_scheduled", "time_next") if name in has]
    system_values: dict[str, Value] = {}
    if isinstance(target, QueueSpec) and target.layout is Layout.LEGACY:
        system_values = {"epoch": Number("0"), "time_created": Number(str(now_ns))}
    rows = tuple(
        (*(_at(value, tick) for value in schedule.values), *(Number(str(tick)) for _ in times), *system_values.values())
        for tick in ticks
    )
    return Insertion(target.name, (*schedule.columns, *times, *system_values), rows)


def _at(value: Value, tick_ns: int) -> Value:
    return Number(str(tick_ns)) if value is SpecialValue.TICK else value


MADE_UP_MAX = 1000
"""Ticks that `missed = 'all'` makes up for, the last ones: a minute's schedule that stood still over night."""

_COUNTED = 10  # missed ticks that are looked for where one message or none is sent for them
_FIELDS = 5
_CRON = re.compile(r"[0-9A-Za-z*,/#\- \t]+", re.ASCII)
_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_CHANGE = timedelta(hours=3)  # how far around a change of the clocks times may be out of their order
_TWICE = 2 * 60 + 1  # ticks of an hour that comes twice, in whose middle the last ones may begin; and one in time
_SECOND = timedelta(seconds=1)
_UNKNOWN_ZONE = 1298


@dataclass(frozen=True, slots=True)
class Due:
    """What a schedule is to send now: `ticks`, the oldest first, and the `next_ns` that it waits for after them.
    `missed`: how many ticks, at least, were missed."""

    ticks: tuple[int, ...]
    next_ns: int
    missed: int


def check_rule(rule: Rule) -> None:
    """Raises InvalidOption where nothing is known of such times, or there are none; EngineError: no such time zone."""
    if isinstance(rule, Cron):
        next_tick(rule, 0)


def next_tick(rule: Rule, after_ns: int) -> int:
    """The first tick after a moment. Raises as `check_rule`."""
    match rule:
        case Every(ns):
            return (after_ns // ns + 1) * ns
        case Cron(text, zone):
            tick = next(_moments(_fields(text), _zone(zone), _moment(after_ns)), None)
            if tick is None:
                raise InvalidOption(f"CRON: '{text}' names no time in the next 50 years")
            return int(tick.timestamp()) * NS_PER_SECOND


def due(rule: Rule, missed: Missed, next_ns: int, now_ns: int) -> Due:
    """What to send of a schedule that waits for the tick `next_ns`. Raises as `check_rule`."""
    if now_ns < next_ns:
        return Due((), next_ns, 0)
    ticks = _last_ticks(rule, next_ns, now_ns, MADE_UP_MAX if missed is Missed.ALL else _COUNTED)
    in_time = tuple(tick for tick in ticks if tick > now_ns - LATE_NS)
    late = ticks[: len(ticks) - len(in_time)]
    match missed:
        case Missed.SKIP:
            made_up: tuple[int, ...] = ()
        case Missed.ONCE:
            made_up = late[-1:]
        case Missed.ALL:
            made_up = late[-MADE_UP_MAX:]
    return Due(made_up + in_time, next_tick(rule, now_ns), len(late))


def _last_ticks(rule: Rule, first_ns: int, now_ns: int, wanted: int) -> tuple[int, ...]:
    """The ticks from `first_ns`, which is one, up to now: all that are not late, and at most `wanted` before them."""
    if isinstance(rule, Every):
        enough = wanted + LATE_NS // NS_PER_SECOND
        begin = max(first_ns, (now_ns // rule.ns - enough) * rule.ns)
        start = begin if begin == first_ns else next_tick(rule, begin - 1)
        return (start, *range(next_tick(rule, start), now_ns + 1, rule.ns))
    enough = wanted + _TWICE
    moments = _last_moments(_fields(rule.text), _zone(rule.zone), _moment(first_ns), _moment(now_ns), enough)
    ticks = tuple(int(moment.timestamp()) * NS_PER_SECOND for moment in moments)
    return ticks if len(ticks) >= enough else (first_ns, *ticks)


# --- CRON


def _fields(text: str) -> str:
    """The five fields. Raises InvalidOption: they are something else."""
    fields = _MACROS.get(text.strip().lower(), text)
    parts = fields.split()
    if len(parts) == _FIELDS + 1:
        raise InvalidOption(f"CRON: '{text}' has six fields; seconds are not supported, say EVERY '10s'")
    if len(text) > CRON_MAX_CHARACTERS or len(parts) != _FIELDS or _CRON.fullmatch(fields) is None:
        raise _no_cron(text, "minute, hour, day of month, month, day of week are wanted")
    return fields


def _no_cron(text: str, why: str) -> InvalidOption:
    return InvalidOption(
        f"CRON: '{text[:CRON_MAX_CHARACTERS]}' is not understood ({why}); for example '0 2 * * MON-FRI'"
    )


@lru_cache(maxsize=256)
def _zone(name: str) -> ZoneInfo:
    """Raises EngineError 1298: it is not known."""
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError):  # not found, a folder, and what is no name
        raise EngineError(
            f"Unknown or incorrect time zone: '{name[:64]}'; give a name such as 'Europe/Berlin'", _UNKNOWN_ZONE
        ) from None


def _moment(ns: int) -> datetime:
    return datetime.fromtimestamp(ns // NS_PER_SECOND, UTC)


def _moments(fields: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """The first moments at which the rule ticks, after one: at least one, where there is one."""
    wall, shift = _wall(after, zone)
    # Where the clocks are changed about now, times on the wall may be out of their order.
    end, ticks = wall + 2 * shift, list[datetime]()
    for time, moments in _walls(fields, zone, wall - shift):
        ticks += [moment for moment in moments if moment > after]
        if ticks and (not shift or time > end):
            break
    yield from sorted(ticks)


def _last_moments(fields: str, zone: ZoneInfo, after: datetime, until: datetime, enough: int) -> Sequence[datetime]:
    """The moments at which the rule ticks after one and up to another; the last ones, if there are more than enough.

    They are looked for from the end, as there may be millions, and each by one step of the same iterator: one for each
    of a thousand ticks would take the event loop a third of a second.
    """
    (first, first_shift), (last, last_shift) = _wall(after, zone), _wall(until, zone)
    ticks = set[datetime]()
    # Where the clocks are changed about now, times on the wall may be out of their order.
    for time, moments in _walls(fields, zone, last + 2 * last_shift + _SECOND, backwards=True):
        if time < first - 2 * first_shift or len(ticks) >= enough:
            break
        ticks.update(moment for moment in moments if after < moment <= until)
    return sorted(ticks)


def _wall(moment: datetime, zone: ZoneInfo) -> tuple[datetime, timedelta]:
    """What the clock on the wall shows at a moment, and by how much it is changed about then."""
    shift = abs(_offset(moment + _CHANGE, zone) - _offset(moment - _CHANGE, zone))
    return moment.astimezone(zone).replace(tzinfo=None), shift


def _walls(
    fields: str, zone: ZoneInfo, wall: datetime, *, backwards: bool = False
) -> Iterator[tuple[datetime, tuple[datetime, ...]]]:
    """Each of the rule's times after one, or before it, on a clock that is never changed; and its moments, none, one or
    two."""
    minute, hour, *_ = fields.split()
    named = not minute.startswith("*") and not hour.startswith("*")
    try:
        times = CronSim(fields, wall, backwards)
    except CronSimError as error:
        raise _no_cron(fields, str(error).lower()) from None
    for time in times:
        first, second = (time.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
        if first == second:
            yield time, (first,)
        elif first < second:  # the time comes twice
            yield time, (first,) if named else (first, second)
        else:  # it does not come: `second` is before the change, `first` after it
            yield time, (_change(zone, second, first),) if named else ()


def _change(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """When the clocks are changed, between two moments."""
    offset = _offset(after, zone)
    while after - before > _SECOND:
        middle = before + timedelta(seconds=(after - before) // _SECOND // 2)
        before, after = (before, middle) if _offset(middle, zone) == offset else (middle, after)
    return after


def _offset(moment: datetime, zone: ZoneInfo) -> timedelta:
    offset = moment.astimezone(zone).utcoffset()
    assert offset is not None
    return offset
