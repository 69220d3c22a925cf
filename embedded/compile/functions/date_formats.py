"""DATE_FORMAT, TIME_FORMAT and STR_TO_DATE: MySQL's format letters."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache

from embedded.compile.functions.calendar_days import week_of
from embedded.compile.functions.context import CallContext
from embedded.compile.functions.scalar import scalar
from embedded.compile.values.temporal import MICROSECONDS, date_text, datetime_text

_LETTER = re.compile(r"%(.)", re.S)


def _suffix(day: int) -> str:
    if 11 <= day <= 13:
        return f"{day}th"
    return f"{day}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(day % 10, 'th') }"


_FORMATS: dict[str, Callable[[datetime], str]] = {
    "a": lambda m: calendar.day_abbr[m.weekday()],
    "b": lambda m: calendar.month_abbr[m.month],
    "c": lambda m: str(m.month),
    "D": lambda m: _suffix(m.day),
    "d": lambda m: f"{m.day:02}",
    "e": lambda m: str(m.day),
    "f": lambda m: f"{m.microsecond:06}",
    "H": lambda m: f"{m.hour:02}",
    "h": lambda m: f"{m.hour % 12 or 12:02}",
    "I": lambda m: f"{m.hour % 12 or 12:02}",
    "i": lambda m: f"{m.minute:02}",
    "j": lambda m: f"{m.timetuple().tm_yday:03}",
    "k": lambda m: str(m.hour),
    "l": lambda m: str(m.hour % 12 or 12),
    "M": lambda m: calendar.month_name[m.month],
    "m": lambda m: f"{m.month:02}",
    "p": lambda m: "AM" if m.hour < 12 else "PM",
    "r": lambda m: f"{m.hour % 12 or 12:02}:{m.minute:02}:{m.second:02} {'AM' if m.hour < 12 else 'PM'}",
    "S": lambda m: f"{m.second:02}",
    "s": lambda m: f"{m.second:02}",
    "T": lambda m: f"{m.hour:02}:{m.minute:02}:{m.second:02}",
    "U": lambda m: f"{week_of(m.date(), 0)[1]:02}",
    "u": lambda m: f"{week_of(m.date(), 1)[1]:02}",
    "V": lambda m: f"{week_of(m.date(), 2)[1]:02}",
    "v": lambda m: f"{week_of(m.date(), 3)[1]:02}",
    "W": lambda m: calendar.day_name[m.weekday()],
    "w": lambda m: str(m.isoweekday() % 7),
    "X": lambda m: f"{week_of(m.date(), 2)[0]:04}",
    "x": lambda m: f"{week_of(m.date(), 3)[0]:04}",
    "Y": lambda m: f"{m.year:04}",
    "y": lambda m: f"{m.year % 100:02}",
}


@scalar(splits=True, large_result=True)
def date_format(context: CallContext, value: object, layout: str) -> str | None:
    """DATE_FORMAT; a letter without a meaning is copied."""
    moment = context.moment(value)
    if moment is None:
        return None
    return _LETTER.sub(lambda match: _FORMATS[match[1]](moment) if match[1] in _FORMATS else match[1], layout)


@scalar(splits=True, large_result=True)
def time_format(context: CallContext, value: object, layout: str) -> str | None:
    """TIME_FORMAT: hours may exceed a day."""
    microseconds = context.span(value)
    if microseconds is None:
        return None
    seconds, fraction = divmod(abs(microseconds), MICROSECONDS)
    hours = seconds // 3600
    moment = datetime(2000, 1, 1, hours % 24, seconds // 60 % 60, seconds % 60, fraction)
    sign = "-" if microseconds < 0 else ""

    def part(match: re.Match[str]) -> str:
        if match[1] == "H":
            return f"{sign}{hours:02}"
        if match[1] == "k":
            return f"{sign}{hours}"
        return _FORMATS[match[1]](moment) if match[1] in _FORMATS else match[1]

    return _LETTER.sub(part, layout)


_LAYOUT_MAX = 1024  # characters of a format; no date has so many


_READ = {
    "Y": r"(?P<Y>\d{1,4}+)",
    "y": r"(?P<y>\d{1,2}+)",
    "m": r"(?P<m>\d{1,2}+)",
    "c": r"(?P<m>\d{1,2}+)",
    "d": r"(?P<d>\d{1,2}+)",
    "e": r"(?P<d>\d{1,2}+)",
    "D": r"(?P<d>\d{1,2}+)(?:st|nd|rd|th)",
    "H": r"(?P<H>\d{1,2}+)",
    "k": r"(?P<H>\d{1,2}+)",
    "h": r"(?P<h>\d{1,2}+)",
    "I": r"(?P<h>\d{1,2}+)",
    "l": r"(?P<h>\d{1,2}+)",
    "i": r"(?P<i>\d{1,2}+)",
    "s": r"(?P<s>\d{1,2}+)",
    "S": r"(?P<s>\d{1,2}+)",
    "f": r"(?P<f>\d{1,6}+)",
    "p": r"(?P<p>[AaPp][Mm])",
    "M": r"(?P<M>[A-Za-z]++)",
    "b": r"(?P<M>[A-Za-z]++)",
    "W": r"[A-Za-z]++",
    "a": r"[A-Za-z]++",
    "j": r"(?P<j>\d{1,3}+)",
    "T": r"(?P<H>\d{1,2}+):(?P<i>\d{1,2}+):(?P<s>\d{1,2}+)",
    "r": r"(?P<h>\d{1,2}+):(?P<i>\d{1,2}+):(?P<s>\d{1,2}+)\s*+(?P<p>[AaPp][Mm])",
    "%": "%",
}


@lru_cache(maxsize=128)
def _reader(layout: str) -> re.Pattern[str] | None:
    pattern, position = "", 0
    if len(layout) > _LAYOUT_MAX:
        return None
    for match in _LETTER.finditer(layout):
        pattern += _literal(layout[position : match.start()])
        if match[1] not in _READ:
            return None
        pattern += _READ[match[1]]
        position = match.end()
    try:
        return re.compile(r"\s*+" + pattern + _literal(layout[position:]), re.S)
    except re.error:
        return None  # the same letter twice


def _literal(text: str) -> str:
    return "".join(r"\s*+" if part.isspace() else re.escape(part) for part in re.split(r"(\s+)", text) if part)


@scalar(splits=True)
def str_to_date(context: CallContext, text: str, layout: str, decimals: int) -> str | None:
    """STR_TO_DATE: NULL where the text does not follow the format."""
    reader = _reader(layout)
    match = reader.match(text) if reader is not None else None
    if match is None:
        return None
    parts = {name: value for name, value in match.groupdict().items() if value is not None}
    try:
        moment = _assembled(parts)
    except (ValueError, StopIteration):
        return None
    return date_text(moment) if decimals == -2 else datetime_text(moment, decimals)


def _assembled(parts: dict[str, str]) -> datetime:
    year = int(parts["Y"]) if "Y" in parts else _century(int(parts["y"])) if "y" in parts else 2000
    month = int(parts.get("m", "1"))
    if "M" in parts:
        abbreviation = parts["M"][:3].lower()
        month = next(i for i in range(1, 13) if calendar.month_abbr[i].lower() == abbreviation)
    hour = int(parts.get("H", "0"))
    if "h" in parts:
        hour = int(parts["h"]) % 12 + (12 if parts.get("p", "AM").upper() == "PM" else 0)
    fraction = int(parts["f"].ljust(6, "0")) if "f" in parts else 0
    return datetime(
        year, month, int(parts.get("d", "1")), hour, int(parts.get("i", "0")), int(parts.get("s", "0")), fraction
    )


def _century(year: int) -> int:
    return year + (1900 if year >= 70 else 2000)
