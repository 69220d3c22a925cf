"""Date and time functions. Moments come and go as ISO text, TIMEs as microseconds."""

from __future__ import annotations

import calendar
import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from embedded.compile.functions.calendar_days import week
from embedded.compile.functions.context import CallContext
from embedded.compile.functions.scalar import scalar
from embedded.compile.values.store import no_timestamp
from embedded.compile.values.temporal import (
    MAX_TIME,
    MICROSECONDS,
    date_text,
    datetime_number,
    datetime_text,
    is_timestamp,
    parse_datetime,
    round_time,
    time_number,
)
from embedded.database.text_form import time_text as time_as_text

_EPOCH = datetime(1970, 1, 1)
_LAST_SECOND = 32536771199  # since the epoch, that UNIX_TIMESTAMP and FROM_UNIXTIME know
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_MICROS = {
    "MICROSECOND": 1,
    "SECOND": MICROSECONDS,
    "MINUTE": 60 * MICROSECONDS,
    "HOUR": 3600 * MICROSECONDS,
    "DAY": 86400 * MICROSECONDS,
    "WEEK": 7 * 86400 * MICROSECONDS,
}
_TIME_UNITS = ("HOUR", "MINUTE", "SECOND", "MICROSECOND")
_PARTS = ("DAY", "HOUR", "MINUTE", "SECOND", "MICROSECOND")


def _text(moment: datetime, decimals: int, has_time: bool = True) -> str:
    if decimals == -2 or (decimals == -1 and not has_time):
        return date_text(moment)
    return datetime_text(moment, (6 if moment.microsecond else 0) if decimals == -1 else decimals)


@scalar()
def date_add(context: CallContext, base: object, quantity: object, unit: str, sign: int, decimals: int) -> str | None:
    """DATE_ADD and DATE_SUB."""
    moment = context.moment(base)
    if moment is None:
        return None
    text = str(base).strip()
    has_time = (
        ":" in text
        or len(re.sub(r"\D", "", text)) > 8
        or not (unit in _MONTHS or unit in ("DAY", "WEEK", "YEAR_MONTH"))
    )
    try:
        shifted = _shift(moment, quantity, unit, sign)
    except (OverflowError, ValueError):
        context.beyond()
        return None
    return _text(shifted, decimals, has_time)


def _shift(moment: datetime, quantity: object, unit: str, sign: int) -> datetime:
    if unit in _MONTHS:
        return _add_months(moment, sign * _whole(quantity) * _MONTHS[unit])
    if unit == "YEAR_MONTH":
        years, months = _fields(str(quantity), 2)
        return _add_months(moment, sign * (years * 12 + months))
    return moment + sign * timedelta(microseconds=_interval(quantity, unit))


def _whole(quantity: object) -> int:
    return round(Decimal(str(quantity)))


def _interval(quantity: object, unit: str) -> int:
    """An interval of fixed length, in microseconds."""
    if unit == "SECOND":
        return int(Decimal(str(quantity)) * MICROSECONDS)
    if unit in _MICROS:
        return _whole(quantity) * _MICROS[unit]
    first, last = unit.split("_")
    units = _PARTS[_PARTS.index(first) : _PARTS.index(last) + 1]
    text = str(quantity)
    fields = _fields(text, len(units))
    return sum(field * _MICROS[name] for field, name in zip(fields, units, strict=True))


def _fields(text: str, count: int) -> list[int]:
    """The numbers in a compound interval; missing ones on the left are zero."""
    numbers = [int(number) for number in re.findall(r"\d+", text)][:count]
    numbers = [0] * (count - len(numbers)) + numbers
    return [-number for number in numbers] if text.strip().startswith("-") else numbers


def _add_months(moment: datetime, months: int) -> datetime:
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    day = min(moment.day, calendar.monthrange(year, month + 1)[1])
    return moment.replace(year=year, month=month + 1, day=day)


@scalar()
def time_add(context: CallContext, base: int, quantity: object, unit: str, sign: int, decimals: int) -> int:
    return round_time(base + sign * _interval(quantity, unit), decimals)


@scalar()
def timestampdiff(context: CallContext, unit: str, start: object, end: object) -> int | None:
    """TIMESTAMPDIFF: whole units from start to end."""
    first, last = context.moment(start), context.moment(end)
    if first is None or last is None:
        return None
    if unit in _MONTHS:
        months = _months_between(first, last)
        return int(months / _MONTHS[unit])
    difference = (last - first) // timedelta(microseconds=1)
    quotient = abs(difference) // _MICROS[unit]
    return quotient if difference >= 0 else -quotient


def _months_between(first: datetime, last: datetime) -> int:
    if last < first:
        return -_months_between(last, first)
    months = (last.year - first.year) * 12 + last.month - first.month
    rest_first = (first.day, first.time())
    return months - ((last.day, last.time()) < rest_first)


@scalar()
def extract(context: CallContext, unit: str, value: object) -> int | None:
    """EXTRACT and the functions named for one part."""
    if unit.split("_")[-1] in _TIME_UNITS and ":" in str(value) and "-" not in str(value)[1:]:
        return _extract_time(context, unit, value)
    moment = parse_datetime(value, context.zone)
    if moment is None:
        return _extract_time(context, unit, value)
    if unit == "WEEK":
        return week(context, value, 0)
    if unit == "QUARTER":
        return (moment.month + 2) // 3
    digits = {
        "YEAR": f"{moment.year:04}",
        "MONTH": f"{moment.month:02}",
        "DAY": f"{moment.day:02}",
        "HOUR": f"{moment.hour:02}",
        "MINUTE": f"{moment.minute:02}",
        "SECOND": f"{moment.second:02}",
        "MICROSECOND": f"{moment.microsecond:06}",
    }
    if "_" not in unit:
        return int(digits[unit])
    names = list(digits)
    first, last = unit.split("_")
    return int("".join(digits[name] for name in names[names.index(first) : names.index(last) + 1]))


def _extract_time(context: CallContext, unit: str, value: object) -> int | None:
    microseconds = context.span(value)
    if microseconds is None:
        return None
    seconds, fraction = divmod(abs(microseconds), MICROSECONDS)
    parts = {"HOUR": seconds // 3600, "MINUTE": seconds // 60 % 60, "SECOND": seconds % 60, "MICROSECOND": fraction}
    first, _, last = unit.partition("_")
    if not last:
        return parts.get(unit)
    names = list(parts)
    begin = 0 if first == "DAY" else names.index(first)  # days of a TIME are hours
    shown = [f"{parts[name]:0{6 if name == 'MICROSECOND' else 2}}" for name in names[begin : names.index(last) + 1]]
    return int("".join(shown)) * (-1 if microseconds < 0 else 1)


@scalar("date", splits=True)
def to_date(context: CallContext, value: object) -> str | None:
    moment = context.moment(value)
    return None if moment is None else date_text(moment)


@scalar("datetime", splits=True)
def to_datetime(context: CallContext, value: object, decimals: int) -> str | None:
    moment = context.moment(value)
    try:
        return None if moment is None else datetime_text(moment, decimals)
    except OverflowError:
        context.beyond()
        return None


@scalar(splits=True)
def moment(context: CallContext, value: object) -> str:
    """Text compared with a date and time: what is none counts as the earliest of all."""
    parsed = context.moment(value)
    return "0000-00-00" if parsed is None else datetime_text(parsed, 6)


@scalar(splits=True)
def span(context: CallContext, value: object) -> int:
    """Text compared with a TIME: what is none counts as zero."""
    return context.span(value) or 0


@scalar("time", splits=True)
def to_time(context: CallContext, value: object, decimals: int) -> int | None:
    microseconds = context.span(value)
    return None if microseconds is None else round_time(microseconds, decimals)


@scalar("datetime_number")
def datetime_as_number(context: CallContext, value: str) -> int | None:
    moment = context.moment(value)
    if moment is None:
        return None
    return datetime_number(moment) if len(value) > 10 else int(moment.strftime("%Y%m%d"))


@scalar("time_number")
def time_as_number(context: CallContext, value: int, decimals: int) -> int | float:
    whole, fraction = time_number(value), abs(value) % MICROSECONDS / MICROSECONDS
    return whole if decimals == 0 else whole - fraction if value < 0 else whole + fraction


@scalar()
def dated(context: CallContext, day: str, time: int, decimals: int) -> str:
    """A TIME, which may be negative or longer than a day, of this day."""
    return datetime_text(datetime.fromisoformat(day) + timedelta(microseconds=time), decimals)


@scalar()
def time_text(context: CallContext, value: int, decimals: int) -> str:
    return time_as_text(value, decimals)


@scalar()
def unix_timestamp(context: CallContext, value: object, decimals: int) -> int | float | None:
    moment = context.moment(value)
    if moment is None:
        return None
    try:
        instant = moment_of(moment, context.zone)
    except OverflowError:
        return 0
    microseconds = (instant - _EPOCH.replace(tzinfo=UTC)) // timedelta(microseconds=1)
    if not 0 <= microseconds < (_LAST_SECOND + 1) * MICROSECONDS:
        return 0
    return microseconds // MICROSECONDS if decimals == 0 else round(microseconds / MICROSECONDS, decimals)


@scalar()
def from_unixtime(context: CallContext, seconds: float, decimals: int) -> str | None:
    if seconds < 0 or seconds >= _LAST_SECOND + 1:
        return None
    microseconds = round(Decimal(repr(seconds)) * MICROSECONDS)
    moment = (_EPOCH + timedelta(microseconds=microseconds)).replace(tzinfo=UTC).astimezone(context.zone)
    return datetime_text(moment.replace(tzinfo=None), decimals)


@scalar()
def local(context: CallContext, value: str) -> str:
    """A stored TIMESTAMP (UTC) in the session's time zone. One at an end of the calendar, which can be stored no more,
    is in UTC."""
    try:
        moment = datetime.fromisoformat(value).replace(tzinfo=UTC).astimezone(context.zone).replace(tzinfo=None)
    except OverflowError:
        return value
    return datetime_text(moment, max(0, len(value) - 20))


@scalar()
def to_utc(context: CallContext, value: str, column: str) -> str:
    """A TIMESTAMP of the session's time zone as it is stored in this column."""
    try:
        moment = moment_of(datetime.fromisoformat(value), context.zone)
    except OverflowError:
        raise no_timestamp(value, column) from None
    text = datetime_text(moment.replace(tzinfo=None), max(0, len(value) - 20))
    if not is_timestamp(text):
        raise no_timestamp(value, column)
    return text


def moment_of(local_time: datetime, zone: tzinfo) -> datetime:
    """The moment in UTC of a time of that zone. One that there is not, for clocks were put forward over it, is the
    moment at which they were, as in MariaDB."""
    moment = local_time.replace(tzinfo=zone).astimezone(UTC)
    back = moment.astimezone(zone)
    if back.replace(tzinfo=None) == local_time.replace(fold=0):
        return moment
    before = local_time.replace(tzinfo=zone, fold=0).utcoffset() or timedelta()
    after = local_time.replace(tzinfo=zone, fold=1).utcoffset() or timedelta()
    # Between the readings with either offset the clocks change: search the second in which they do.
    early, late = local_time.replace(tzinfo=UTC) - after, local_time.replace(tzinfo=UTC) - before
    early, late = min(early, late), max(early, late)
    early, late = early.replace(microsecond=0), late.replace(microsecond=0) + timedelta(seconds=1)
    there = late.astimezone(zone).utcoffset()
    while late - early > timedelta(seconds=1):
        middle = early + timedelta(seconds=(late - early) // timedelta(seconds=2))
        if middle.astimezone(zone).utcoffset() == there:
            late = middle
        else:
            early = middle
    return late


@scalar()
def time_to_sec(context: CallContext, value: object) -> int | None:
    microseconds = context.span(value)
    if microseconds is None:
        return None
    seconds = abs(microseconds) // MICROSECONDS
    return seconds if microseconds >= 0 else -seconds


@scalar()
def sec_to_time(context: CallContext, seconds: float, decimals: int) -> int:
    if abs(seconds) > MAX_TIME // MICROSECONDS:
        context.lose(1292, f"Truncated incorrect time value: '{seconds}'")
        return MAX_TIME if seconds > 0 else -MAX_TIME
    return round_time(int(Decimal(repr(seconds)) * MICROSECONDS), decimals)


@scalar()
def maketime(context: CallContext, hour: int, minute: int, second: float, decimals: int) -> int | None:
    if not (0 <= minute < 60 and 0 <= second < 60):
        return None
    microseconds = (abs(hour) * 3600 + minute * 60) * MICROSECONDS + round(second * MICROSECONDS)
    if microseconds > MAX_TIME:
        context.lose(1292, f"Truncated incorrect time value: '{hour}:{minute:02}:{second:02}'")
        microseconds = MAX_TIME
    return round_time(microseconds if hour >= 0 else -microseconds, decimals)


@scalar()
def timediff(context: CallContext, one: str, other: str) -> int | None:
    first, second = _duration(context, one), _duration(context, other)
    return None if first is None or second is None else max(-MAX_TIME, min(MAX_TIME, first - second))


def _duration(context: CallContext, text: str) -> int | None:
    moment = parse_datetime(text, context.zone) if "-" in text[1:] else None
    if moment is not None:
        return (moment - _EPOCH) // timedelta(microseconds=1)
    return context.span(text)


@scalar()
def addtime(context: CallContext, value: str, other: str) -> str | None:
    return _moved(context, value, other, 1)


@scalar()
def subtime(context: CallContext, value: str, other: str) -> str | None:
    return _moved(context, value, other, -1)


def _moved(context: CallContext, value: str, other: str, sign: int) -> str | None:
    difference = context.span(other)
    if difference is None:
        return None
    moment = parse_datetime(value, context.zone) if "-" in value[1:] else None
    if moment is not None:
        try:
            return _text(moment + sign * timedelta(microseconds=difference), -1)
        except OverflowError:
            context.beyond("add_time")
            return None
    start = context.span(value)
    return None if start is None else time_as_text(start + sign * difference)


@scalar()
def convert_tz(context: CallContext, value: object, source: str, target: str, decimals: int) -> str | None:
    moment = context.moment(value)
    one, other = time_zone(source), time_zone(target)
    if moment is None or one is None or other is None:
        return None
    try:
        moment = moment_of(moment, one).astimezone(other).replace(tzinfo=None)
        return datetime_text(moment, decimals)
    except OverflowError:
        return datetime_text(moment.replace(microsecond=0), decimals)


def time_zone(name: str) -> tzinfo | None:
    """A time zone by offset ('+02:00'), name, or SYSTEM (the machine's own)."""
    match = re.fullmatch(r"([+-])(\d{1,2}):(\d{2})", name)
    if match:
        minutes = int(match[2]) * 60 + int(match[3])
        if minutes > 14 * 60 or int(match[3]) > 59:
            return None
        return timezone(timedelta(minutes=-minutes if match[1] == "-" else minutes)) if minutes else UTC
    if name.upper() == "SYSTEM":
        return system_zone()
    if name.upper() in ("UTC", "GMT"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


class _SystemZone(tzinfo):
    """The machine's local time, with its changes over the year."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        return _local(moment).utcoffset() or timedelta()

    def dst(self, moment: datetime | None) -> timedelta | None:
        return None

    def tzname(self, moment: datetime | None) -> str:
        return _local(moment).tzname() or "SYSTEM"

    def fromutc(self, moment: datetime) -> datetime:
        return moment.replace(tzinfo=UTC).astimezone().replace(tzinfo=self)


def _local(moment: datetime | None) -> datetime:
    return (moment.replace(tzinfo=None) if moment is not None else datetime.now()).astimezone()


def system_zone() -> tzinfo:
    """UTC where the machine runs on UTC, so that nothing needs converting."""
    winter, summer = datetime(2024, 1, 15).astimezone(), datetime(2024, 7, 15).astimezone()
    if winter.utcoffset() == summer.utcoffset() == timedelta():
        return UTC
    return _SystemZone()


@scalar()
def period_add(context: CallContext, period: int, months: int) -> int:
    total = _period_months(period) + months
    return total // 12 * 100 + total % 12 + 1


@scalar()
def period_diff(context: CallContext, one: int, other: int) -> int:
    return _period_months(one) - _period_months(other)


def _period_months(period: int) -> int:
    year, month = divmod(period, 100)
    year += 0 if year > 99 else 1900 if year >= 70 else 2000
    return year * 12 + month - 1
