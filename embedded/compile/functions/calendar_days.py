"""Functions of a day: its place in the week, the month and the year, and days counted from the year 0."""

from __future__ import annotations

import calendar
from datetime import date, timedelta

from embedded.compile.functions.context import CallContext
from embedded.compile.functions.scalar import scalar
from embedded.compile.values.temporal import date_text

_ORDINAL_0 = 365  # TO_DAYS counts from year 0, Python from year 1


@scalar()
def datediff(context: CallContext, one: object, other: object) -> int | None:
    first, second = context.moment(one), context.moment(other)
    return None if first is None or second is None else (first.date() - second.date()).days


@scalar()
def dayofweek(context: CallContext, value: object) -> int | None:
    moment = context.moment(value)
    return None if moment is None else moment.isoweekday() % 7 + 1


@scalar()
def weekday(context: CallContext, value: object) -> int | None:
    moment = context.moment(value)
    return None if moment is None else moment.weekday()


@scalar()
def dayofyear(context: CallContext, value: object) -> int | None:
    moment = context.moment(value)
    return None if moment is None else moment.timetuple().tm_yday


@scalar()
def week(context: CallContext, value: object, mode: int = 0) -> int | None:
    moment = context.moment(value)
    return None if moment is None else week_of(moment.date(), mode)[1]


@scalar()
def yearweek(context: CallContext, value: object, mode: int = 0) -> int | None:
    moment = context.moment(value)
    if moment is None:
        return None
    year, number = week_of(moment.date(), mode | 2)
    return year * 100 + number


@scalar()
def weekofyear(context: CallContext, value: object) -> int | None:
    return week(context, value, 3)


def week_of(day: date, mode: int) -> tuple[int, int]:
    """Year and week by MySQL's modes 0-7: bit 0 Monday first, bit 1 weeks 1-53, bit 2 how the first week is found."""
    monday = bool(mode & 1)
    first_weekday = bool(mode & 4) if monday else not mode & 4
    range_1_53 = bool(mode & 2)
    year, number = day.year, day.toordinal()
    start = _first_week(year, monday, first_weekday)
    if number < start:
        if not range_1_53:
            return year, 0
        year -= 1
        start = _first_week(year, monday, first_weekday)
    elif range_1_53 and number >= _first_week(year + 1, monday, first_weekday):
        return year + 1, 1
    return year, (number - start) // 7 + 1


def new_year(year: int) -> int:
    """A year's first day as Python numbers days, for the years 0 and 10000 as well, of which it has no dates."""
    before = year - 1
    return before * 365 + before // 4 - before // 100 + before // 400 + 1


def _first_week(year: int, monday: bool, first_weekday: bool) -> int:
    """The first day of week 1, by the first Sunday or Monday, or by the week with four days or more."""
    first = new_year(year)
    offset = (first + 6) % 7 if monday else first % 7
    start = first - offset
    inside = offset == 0 if first_weekday else offset <= 3
    return start if inside else start + 7


@scalar()
def dayname(context: CallContext, value: object) -> str | None:
    moment = context.moment(value)
    return None if moment is None else calendar.day_name[moment.weekday()]


@scalar()
def monthname(context: CallContext, value: object) -> str | None:
    moment = context.moment(value)
    return None if moment is None else calendar.month_name[moment.month]


@scalar()
def last_day(context: CallContext, value: object) -> str | None:
    moment = context.moment(value)
    if moment is None:
        return None
    return date_text(moment.replace(day=calendar.monthrange(moment.year, moment.month)[1]))


@scalar()
def to_days(context: CallContext, value: object) -> int | None:
    moment = context.moment(value)
    return None if moment is None else moment.toordinal() + _ORDINAL_0


@scalar()
def from_days(context: CallContext, number: int) -> str | None:
    try:
        return date_text(date.fromordinal(number - _ORDINAL_0))
    except (ValueError, OverflowError):
        return None


@scalar()
def to_seconds(context: CallContext, value: object) -> int | None:
    moment = context.moment(value)
    if moment is None:
        return None
    return (moment.toordinal() + _ORDINAL_0) * 86400 + moment.hour * 3600 + moment.minute * 60 + moment.second


@scalar()
def makedate(context: CallContext, year: int, day: int) -> str | None:
    if day < 1:
        return None
    year += 0 if year > 99 else 1900 if year >= 70 else 2000
    try:
        return date_text(date(year, 1, 1) + timedelta(days=day - 1))
    except (ValueError, OverflowError):
        return None
