"""Reading and writing dates and times as MySQL does, on plain Python values."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from math import isfinite
from typing import Any

MICROSECONDS = 1_000_000
MAX_TIME = ((838 * 60 + 59) * 60 + 59) * MICROSECONDS
_TIME_NUMBER_MAX = 10_000_000  # above 838:59:59
_DELIMITED = re.compile(
    r"\s*(\d{4}|\d{1,2})[^\w\s](\d{1,2})[^\w\s](\d{1,2})"
    r"(?:[T\s]+(\d{1,2})(?:[^\w\s](\d{1,2})(?:[^\w\s](\d{1,2})(?:\.(\d*))?)?)?)?\s*([+-]\d{2}:\d{2})?\s*",
    re.ASCII,
)
_COMPACT = re.compile(r"\s*(\d{14}|\d{12}|\d{8}|\d{6})(?:\.(\d*))?\s*", re.ASCII)
_TIME = re.compile(r"\s*(-)?(?:(\d+)\s+)?(\d+)(?::(\d{1,2}))?(?::(\d{1,2}))?(?:\.(\d*))?\s*", re.ASCII)
_SHORT_YEAR_PIVOT = 70  # two-digit years: 70-99 are 19xx, 00-69 are 20xx


def parse_datetime(value: Any, zone: tzinfo | None = None) -> datetime | None:
    """A date and time from what MySQL accepts as one: text, number, date. None if it is not one. A text with an offset
    from UTC is one in `zone`, and none where that is not known."""
    match value:
        case datetime():
            return value.replace(tzinfo=None)
        case date():
            return datetime.combine(value, time())
        case bytes():
            return parse_datetime(value.decode("utf-8", "replace"), zone)
        case int():
            text = str(value)
            return _compact(text.zfill(14 if len(text) > 12 else 12 if len(text) > 8 else 8 if len(text) > 6 else 6))
        case Decimal() if value >= 0:
            moment = parse_datetime(int(value))
            return None if moment is None else moment + timedelta(microseconds=int(value % 1 * MICROSECONDS))
        case float() | Decimal() if isfinite(value):
            return parse_datetime(int(value))
        case str():
            return _parse_text(value, zone)
    return None


def _parse_text(text: str, target: tzinfo | None = None) -> datetime | None:
    match = _DELIMITED.fullmatch(text)
    if match is None:
        return _compact(text)
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    moment = _moment((year, month, day, hour or 0, minute or 0, second or 0), fraction)
    if moment is None or zone is None:
        return moment
    return None if target is None else _moved(moment, zone, target)


def _moved(moment: datetime, offset: str, target: tzinfo) -> datetime | None:
    east = timedelta(hours=int(offset[:3]), minutes=int(offset[0] + offset[4:]))
    try:
        return moment.replace(tzinfo=timezone(east)).astimezone(target).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None


def _compact(text: str) -> datetime | None:
    match = _COMPACT.fullmatch(text)
    if match is None:
        return None
    digits, fraction = match[1], match[2]
    if len(digits) in (6, 12):
        digits = _full_year(digits[:2]) + digits[2:]
    digits = digits.ljust(14, "0")
    parts = (digits[:4], digits[4:6], digits[6:8], digits[8:10], digits[10:12], digits[12:])
    return _moment(parts, fraction)


def _moment(parts: tuple[Any, ...], fraction: str | None) -> datetime | None:
    year = parts[0] if len(str(parts[0])) > 2 else _full_year(str(parts[0]))
    try:
        month, day, hour, minute, second = (int(part) for part in parts[1:])
        moment = datetime(int(year), month, day, hour, minute, second)
        return moment + timedelta(microseconds=_microseconds(fraction))
    except (ValueError, OverflowError):
        return None


def _full_year(text: str) -> str:
    year = int(text)
    return str(year + (1900 if year >= _SHORT_YEAR_PIVOT else 2000))


def _microseconds(fraction: str | None) -> int:
    if not fraction:
        return 0
    return round(int(fraction[:7].ljust(7, "0")) / 10)


def parse_time(value: Any) -> int | None:
    """A TIME in microseconds; None if it is not one or beyond 838:59:59."""
    match value:
        case timedelta():
            return _bounded(round(value / timedelta(microseconds=1)))
        case datetime():
            return _of_day(value)
        case bool() | date():
            return None
        case int() | float() | Decimal():
            return _time_number(Decimal(str(value)))
        case bytes():
            return parse_time(value.decode("utf-8", "replace"))
        case str():
            return _time_text(value)
    return None


def _time_text(text: str) -> int | None:
    match = _TIME.fullmatch(text)
    if match is None:
        moment = _parse_text(text)
        return None if moment is None else _of_day(moment)
    sign, days, first, second, third, fraction = match.groups()
    if second is None and days is None:
        return _time_number(Decimal(text.strip()))
    hours, minutes, seconds = int(first) + 24 * int(days or 0), int(second or 0), int(third or 0)
    if minutes > 59 or seconds > 59:
        return None
    total = ((hours * 60 + minutes) * 60 + seconds) * MICROSECONDS + _microseconds(fraction)
    return _bounded(-total if sign else total)


def _time_number(number: Decimal) -> int | None:
    """HHMMSS[.ffffff] as a number."""
    if abs(number) > _TIME_NUMBER_MAX:
        return None
    whole, fraction = divmod(abs(number), 1)
    hours, rest = divmod(int(whole), 10000)
    minutes, seconds = divmod(rest, 100)
    if minutes > 59 or seconds > 59:
        return None
    total = ((hours * 60 + minutes) * 60 + seconds) * MICROSECONDS + int(fraction * MICROSECONDS)
    return _bounded(-total if number < 0 else total)


def _bounded(microseconds: int) -> int | None:
    return microseconds if abs(microseconds) <= MAX_TIME + MICROSECONDS - 1 else None


def _of_day(moment: datetime) -> int:
    return ((moment.hour * 60 + moment.minute) * 60 + moment.second) * MICROSECONDS + moment.microsecond


def is_timestamp(text: str) -> bool:
    """Whether a date and time in UTC is one that a TIMESTAMP can be."""
    return "1970-01-01 00:00:01" <= text < "2038-01-19 03:14:08"


def date_text(moment: date) -> str:
    return f"{moment.year:04}-{moment.month:02}-{moment.day:02}"


def moment_number(value: date | timedelta) -> int | float:
    """A date, a date and time or a TIME as the number it is in numeric context."""
    if isinstance(value, timedelta):
        return time_number(round(value / timedelta(microseconds=1)))
    return datetime_number(value) if isinstance(value, datetime) else int(value.strftime("%Y%m%d"))


def datetime_text(moment: datetime, decimals: int) -> str:
    """ISO text with exactly `decimals` decimals, rounded half up as MySQL rounds.

    Raises:
        OverflowError: it would be rounded to the year 10000.
    """
    if decimals < 6 and moment.microsecond:
        step = 10 ** (6 - decimals)
        rounded = (moment.microsecond + step // 2) // step * step
        moment = moment.replace(microsecond=0) + timedelta(microseconds=rounded)
    text = f"{date_text(moment)} {moment.hour:02}:{moment.minute:02}:{moment.second:02}"
    return f"{text}.{moment.microsecond:06}"[: 20 + decimals] if decimals else text


def round_time(microseconds: int, decimals: int) -> int:
    """A TIME rounded half up (away from zero) to `decimals` decimals."""
    step = int(10 ** (6 - decimals))
    rounded = (abs(microseconds) + step // 2) // step * step
    return -rounded if microseconds < 0 else rounded


def datetime_number(moment: datetime) -> int:
    """YYYYMMDDHHMMSS, what a date and time is in numeric context."""
    return int(moment.strftime("%Y%m%d%H%M%S"))


def time_number(microseconds: int) -> int:
    """HHMMSS, what a TIME is in numeric context."""
    seconds = abs(microseconds) // MICROSECONDS
    number = seconds // 3600 * 10000 + seconds // 60 % 60 * 100 + seconds % 60
    return -number if microseconds < 0 else number
