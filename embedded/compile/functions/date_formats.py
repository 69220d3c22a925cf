"""DATE_FORMAT, TIME_FORMAT and STR_TO_DATE: MySQL's format letters."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from embedded.compile.functions.calendar_days import new_year, week_of
from embedded.compile.functions.context import CallContext
from embedded.compile.functions.scalar import scalar
from embedded.compile.values.store import shown
from embedded.compile.values.temporal import MICROSECONDS, date_text, datetime_text

_LETTER = re.compile(r"%(.)", re.S)
_ITEM = re.compile(r"%(.)|.", re.S)


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


# STR_TO_DATE

_LAYOUT_MAX = 1024  # characters of a format; no date has so many
_COMPOUND = {"r": "%I:%i:%S %p", "T": "%H:%i:%S"}
_SPACES = re.compile(r"\s*", re.ASCII)
_DIGITS = re.compile(r"\+?[0-9]+")
_WORD = re.compile(r"[A-Za-z]*")
_CLASSES = {".": re.compile(r"[!-/:-@\[-`{-~]*"), "@": _WORD, "#": re.compile(r"[0-9]*")}

# Of a letter that reads a number: what it is of, and its digits at most.
_NUMBERS = {
    **dict.fromkeys("Yy", "year"), **dict.fromkeys("mc", "month"), **dict.fromkeys("deD", "day"),
    **dict.fromkeys("hIlkH", "hour"), "i": "minute", **dict.fromkeys("sS", "second"), "f": "fraction",
    "w": "weekday", "j": "yearday", **dict.fromkeys("UuVv", "week"), **dict.fromkeys("Xx", "week_year"),
}  # fmt: skip
_WIDTHS = {"Y": 4, "f": 6, "w": 1, "j": 3, "X": 4, "x": 4}
_WORDS = {
    "M": ("month", tuple(calendar.month_name)[1:]), "b": ("month", tuple(calendar.month_abbr)[1:]),
    "W": ("weekday", tuple(calendar.day_name)), "a": ("weekday", tuple(calendar.day_abbr)),
}  # fmt: skip
_RANGES = {"day": 31, "hour": 23, "minute": 59, "second": 59}


@scalar(splits=True)
def str_to_date(context: CallContext, text: str, layout: str, decimals: int) -> str | int | None:
    """STR_TO_DATE: NULL where the text does not follow the format. `decimals`: -2 for a date, -3 for a TIME."""
    reading = _Reading(text)
    try:
        reading.follow(layout)
        value = reading.time(reading.parts.get("day", 0)) if decimals == -3 else reading.moment()
    except (ValueError, OverflowError):
        context.lose(1411, f"Incorrect datetime value: '{shown(text)}' for function str_to_date")
        return None
    if reading.rest():
        kind = {-2: "date", -3: "time"}.get(decimals, "datetime")
        context.lose(1292, f"Truncated incorrect {kind} value: '{shown(text)}'")
    if isinstance(value, int):
        return value
    return date_text(value) if decimals == -2 else datetime_text(value, decimals)


@dataclass(slots=True)
class _Reading:
    """A text that is read by a format, and the numbers in it so far. A part that is missing is 0. `week` and
    `week_year`: the letters by which these were read; `noon`: hours that PM adds, or None for hours of 24."""

    text: str
    at: int = 0
    parts: dict[str, int] = field(default_factory=dict)
    week: str = ""
    week_year: str = ""
    noon: int | None = None

    def follow(self, layout: str) -> None:
        """Read what the format says, up to the end of the format or of the text.

        Raises:
            ValueError: the text has something else.
        """
        if len(layout) > _LAYOUT_MAX:
            raise ValueError("too long a format")
        layout = _LETTER.sub(lambda match: _COMPOUND.get(match[1], match[0]), layout)
        for match in _ITEM.finditer(layout):
            self.at = _end(_SPACES, self.text, self.at)
            if self.at == len(self.text):
                break
            letter = match[1]
            if letter is not None:
                self._read(letter)
            elif not match[0].isspace():
                self._expect(match[0])
        if self.noon is not None:
            if not 1 <= self.parts.get("hour", 0) <= 12:
                raise ValueError("no hour of twelve")
            self.parts["hour"] = self.parts["hour"] % 12 + self.noon

    def rest(self) -> str:
        """What the format does not cover."""
        return self.text[self.at :].strip()

    def time(self, days: int = 0) -> int:
        """The time of the day, after so many days, in microseconds."""
        if any(self.parts.get(name, 0) > most for name, most in _RANGES.items()):
            raise ValueError("a part is too large")
        hour, minute, second, fraction = (self.parts.get(name, 0) for name in ("hour", "minute", "second", "fraction"))
        return (((days * 24 + hour) * 60 + minute) * 60 + second) * MICROSECONDS + fraction

    def moment(self) -> datetime:
        """The date and time."""
        return datetime.combine(self._day(), datetime.min.time()) + timedelta(microseconds=self.time())

    def _day(self) -> date:
        """By its week, by its number in the year, or by its month."""
        parts = self.parts
        if "week" in parts and parts.get("weekday"):
            return date.fromordinal(self._day_of_week(parts["week"], parts["weekday"]))
        year = parts.get("year", 0)
        if parts.get("yearday"):
            return date.fromordinal(new_year(year) + parts["yearday"] - 1)
        return date(year, parts.get("month", 0), parts.get("day", 0))

    def _day_of_week(self, week: int, weekday: int) -> int:
        strict, sunday = self.week in "Vv", self.week in "UV"
        if (strict and self.week_year != ("X" if sunday else "x")) or (not strict and self.week_year):
            raise ValueError("a week of another year")
        start = new_year(self.parts.get("week_year" if strict else "year", 0))
        offset = start % 7 if sunday else (start + 6) % 7
        first = start - offset + (7 if offset > (0 if sunday else 3) else 0)
        return first + (week - 1) * 7 + (weekday % 7 if sunday else weekday - 1)

    def _read(self, letter: str) -> None:
        if letter in _CLASSES:
            self.at = _end(_CLASSES[letter], self.text, self.at)
        elif letter in _WORDS:
            self._word(*_WORDS[letter])
        elif letter in _NUMBERS:
            self._number(letter)
        elif letter == "p" and self.noon is not None:
            half = self.text[self.at : self.at + 2].upper()
            self.noon = {"AM": 0, "PM": 12}.get(half, -1)
            if self.noon < 0:
                raise ValueError("neither AM nor PM")
            self.at += 2
        else:
            raise ValueError("no letter of a format")

    def _expect(self, sign: str) -> None:
        if self.text[self.at] != sign:
            raise ValueError("another text")
        self.at += 1

    def _word(self, name: str, words: tuple[str, ...]) -> None:
        """A name, or the beginning of one that no other begins with."""
        end = _end(_WORD, self.text, self.at)
        word = self.text[self.at : end].lower()
        numbers = [number for number, one in enumerate(words, 1) if one.lower().startswith(word)]
        same = [number for number in numbers if len(words[number - 1]) == len(word)]
        if len(same or numbers) != 1:
            raise ValueError("no such name")
        self.parts[name], self.at = (same or numbers)[0], end

    def _number(self, letter: str) -> None:
        match = _DIGITS.match(self.text, self.at, self.at + _WIDTHS.get(letter, 2))
        if match is None:
            raise ValueError("no number")
        number, size = int(match[0]), len(match[0])
        self.at = match.end()
        if letter == "D":
            self.at = min(self.at + 2, len(self.text))  # st, nd, rd, th
        elif letter == "y" or (letter == "Y" and size <= 2):
            number = _century(number)
        elif letter == "f":
            number *= 10 ** (6 - size)
        elif letter in "hIl":
            self.noon = self.noon or 0
        self._check_week(letter, number)
        self.parts[_NUMBERS[letter]] = 7 if letter == "w" and not number else number

    def _check_week(self, letter: str, number: int) -> None:
        if letter in "UuVv":
            self.week = letter
            if number > 53 or (letter in "Vv" and not number):
                raise ValueError("no week")
        elif letter in "Xx":
            self.week_year = letter
        elif letter == "w" and number > 6:
            raise ValueError("no day of the week")


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return at if match is None else match.end()


def _century(year: int) -> int:
    return year + (1900 if year >= 70 else 2000)
