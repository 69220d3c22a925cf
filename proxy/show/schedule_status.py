"""Schedules, as SHOW SCHEDULES and the table queuegate.schedules have them, and SHOW CREATE SCHEDULE."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from engine.model.errors import MissingTableAllowed
from engine.model.explanation import moment
from engine.model.pins import Pins
from engine.model.queue import QueueName
from engine.model.schedules import (
    ALL_COLUMNS,
    Cron,
    InvalidSchedule,
    Schedule,
    ScheduleName,
    Unreadable,
    read_schedule,
)
from mysql_wire.errors import ProxyError
from mysql_wire.outcome import number, unhex
from proxy.session.session import ClientSession
from proxy.show.columns import like_pattern
from proxy.show.status_tables import SCHEDULES, Values
from proxy.upstream.base import collected
from rewriter.plan import Show
from rewriter.plans import schedules as sql

UNKNOWN_SCHEDULE = 1539  # MySQL's number for events
_SHOWN_NS_MAX = 253_370_764_800 * 1_000_000_000  # the year 9999; what is beyond it is no time for people


def schedule_values(
    schedules: Iterable[Schedule | Unreadable],
    plan: Show,
    can_see: Callable[[QueueName], bool],
    redact: Callable[[str], str],
) -> list[Values]:
    """The rows of SCHEDULES. An account that may read a database's table of schedules sees all of them, others
    those of the queues that they may see."""
    named = like_pattern("%" if plan.like is None else plan.like)
    rows = []
    for one in schedules:
        name = one.name
        if plan.database not in (None, name.database) or not named(name.name):
            continue
        if can_see(name.table) or (isinstance(one, Schedule) and can_see(one.queue)):
            rows.append(_unreadable(one, redact) if isinstance(one, Unreadable) else _row(one, redact))
    return sorted(rows, key=lambda row: (str(row[1]), str(row[0])))


def fair_share(rows: Sequence[Values], most: int) -> list[Values]:
    """So many of the rows of SCHEDULES at most: of each database as many as there is room for, and a row that says how
    many there are besides. So an account that fills one table of schedules cannot hide the others."""
    if len(rows) <= most:
        return list(rows)
    databases: dict[object, list[Values]] = {}
    for row in rows:
        databases.setdefault(row[1], []).append(row)
    left, shown = most, list[Values]()
    for place, (database, own) in enumerate(sorted(databases.items(), key=lambda item: len(item[1]))):
        room = max(left // (len(databases) - place), 1)
        cut = own if len(own) <= room else own[: room - 1]
        shown += cut
        if len(cut) < len(own):
            reason = f"{len(own) - len(cut)} more are not shown here: SHOW SCHEDULES FROM {database}"
            shown.append(_blank("", str(database), reason))
        left -= min(len(own), room)
    return shown


def _unreadable(one: Unreadable, redact: Callable[[str], str]) -> Values:
    return _blank(one.name.name, one.name.database, redact(one.reason))


def _blank(name: str, database: str, reason: str) -> Values:
    names: Values = (name, database)
    blanks: Values = (None,) * (len(SCHEDULES) - len(names) - 3)
    return (*names, *blanks, reason, None, None)


def _row(one: Schedule, redact: Callable[[str], str]) -> Values:
    return (
        one.name.name,
        one.name.database,
        one.queue.table,
        str(one.rule),
        one.rule.zone if isinstance(one.rule, Cron) else None,
        one.missed.value,
        int(one.paused),
        _moment(one.last_ns),
        None if one.paused else _moment(one.next_ns),
        redact(one.problem) if one.problem else None,
        one.created_by,
        _moment(one.created_ns),
    )


def _moment(time_ns: int | None) -> str | None:
    return None if time_ns is None or not 0 <= time_ns < _SHOWN_NS_MAX else moment(time_ns)


async def create_schedule_values(session: ClientSession, name: ScheduleName) -> Values:
    """The row of SHOW CREATE SCHEDULE. Raises as stored_schedule does."""
    schedule = await stored_schedule(session, name)
    return (name.name, sql.create_schedule_text(schedule, backslash_escapes=not session.no_backslash_escapes))


async def stored_schedule(session: ClientSession, name: ScheduleName, *, lock: bool = False) -> Schedule:
    """A schedule, as the client's transaction sees it. Raises ProxyError 1539: there is none; InvalidSchedule."""
    question = session.pinned(sql.read_sql(name, ALL_COLUMNS, lock=lock), Pins.UNIT)
    rows: Sequence[Sequence[bytes | None]] = ()
    with MissingTableAllowed():
        rows = (await collected(session.upstream, question)).each(len(ALL_COLUMNS))
    if not rows:
        raise unknown_schedule(name)
    values: list[Any] = [
        None if value is None else unhex(value) if column in sql.TEXTS else number(value)
        for column, value in zip(ALL_COLUMNS, rows[0], strict=True)
    ]
    schedule = read_schedule(name.database, tuple(values))
    if isinstance(schedule, Unreadable):
        raise InvalidSchedule(schedule.reason)
    return schedule


def unknown_schedule(name: ScheduleName) -> ProxyError:
    """Error 1539."""
    return ProxyError(UNKNOWN_SCHEDULE, f"Unknown schedule '{name}'")
