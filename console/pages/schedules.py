"""The schedules of a queue or a topic, or of all: when each ticks, when it ticked last, what is wrong; run, pause,
resume, drop; and the form that makes one.

One statement, SHOW SCHEDULES; where the queue has none, one or two more: whether there is such a queue or topic.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from console.database import DatabaseError, StatementError, name_sql, queue_sql
from console.pages.visible_queues import check_exists
from console.rendering import link
from console.sessions import Undo
from console.visits import NAME_MAX, QUEUE_PARAMETERS, Action, BadInput, Done, NotFound, Page, Parameter, Visit
from engine.model.queue import QueueName

SHOWN_MAX = 200


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """One schedule. `queue`: None where the row cannot be read. Times are UTC, as the proxy writes them; `next_tick` is
    None while it is paused."""

    name: str
    queue: QueueName | None
    rule: str
    time_zone: str | None
    missed: str
    paused: bool
    last_tick: str | None
    next_tick: str | None
    problem: str | None
    created_by: str | None
    created: str | None


@dataclass(frozen=True, slots=True)
class SchedulesPage:
    """What the page shows: the first SHOWN_MAX of `total`. `unread`: rows of the database that cannot be read, of which
    their queue is not known."""

    queue: QueueName
    schedules: tuple[ScheduleRow, ...]
    total: int
    unread: tuple[ScheduleRow, ...]
    sql: str


def schedule_row(row: Mapping[str, Any]) -> ScheduleRow:
    """Of one row of SHOW SCHEDULES, whose names are in lower case."""
    return ScheduleRow(
        name=str(row["schedule"]),
        queue=None if row["queue"] is None else QueueName(str(row["database"]), str(row["queue"])),
        rule=row["rule"] or "",
        time_zone=row["time_zone"],
        missed=row["missed"] or "",
        paused=bool(row["paused"]),
        last_tick=row["last_tick"],
        next_tick=row["next_tick"],
        problem=row["problem"],
        created_by=row["created_by"],
        created=row["created"],
    )


async def read_schedules(visit: Visit) -> SchedulesPage:
    """See the module. Raises NotFound."""
    queue = visit.queue
    answer = await visit.session.database.read(f"SHOW SCHEDULES FROM {name_sql(queue.database)}")
    rows = answer.lowered
    own = [schedule_row(row) for row in rows if row["queue"] == queue.table]
    unread = [schedule_row(row) for row in rows if row["queue"] is None]
    if not own:
        await check_exists(visit, queue, or_topic=True)
    return SchedulesPage(queue, tuple(own[:SHOWN_MAX]), len(own), tuple(unread[:SHOWN_MAX]), answer.sql)


@dataclass(frozen=True, slots=True)
class AllSchedules:
    """What the page of all schedules shows: the first SHOWN_MAX of `total`, those that tick next first."""

    schedules: tuple[ScheduleRow, ...]
    total: int
    unread: tuple[ScheduleRow, ...]
    sql: str


async def read_all_schedules(visit: Visit) -> AllSchedules:
    """See the module."""
    answer = await visit.session.database.read("SHOW SCHEDULES")
    rows = [schedule_row(row) for row in answer.lowered]
    known = sorted((row for row in rows if row.queue), key=lambda row: (row.next_tick is None, row.next_tick, row.name))
    unread = [row for row in rows if row.queue is None]
    return AllSchedules(tuple(known[:SHOWN_MAX]), len(known), tuple(unread[:SHOWN_MAX]), answer.sql)


async def run(visit: Visit) -> Done:
    """Send the schedule's message now, whatever it waits for."""
    return await _do(visit, "RUN SCHEDULE {}", "has sent its message now")


async def pause(visit: Visit) -> Done:
    """Have it tick no more."""
    return await _do(visit, "ALTER SCHEDULE {} PAUSE", "is paused: it does not tick", "resume")


async def resume(visit: Visit) -> Done:
    """Have it tick again."""
    return await _do(visit, "ALTER SCHEDULE {} RESUME", "ticks again; ticks that it missed are not sent", "pause")


async def drop(visit: Visit) -> Done:
    """End it."""
    queue, name = visit.queue, visit.text("schedule", most=NAME_MAX)
    again = ""
    if name:
        with contextlib.suppress(StatementError):
            sql = f"SHOW CREATE SCHEDULE {queue_sql(QueueName(queue.database, name))}"
            again = str((await visit.session.database.read(sql)).rows[0]["Create Schedule"])
    done = await _do(visit, "DROP SCHEDULE {}", "is dropped")
    return replace(done, again=again)


async def _do(visit: Visit, form: str, done: str, inverse: str = "") -> Done:
    queue, name = visit.queue, visit.text("schedule", most=NAME_MAX)
    if not name:
        raise BadInput("schedule: give the name of a schedule")
    schedule, changes = queue_sql(QueueName(queue.database, name)), True
    if inverse:
        with contextlib.suppress(NotFound, DatabaseError):  # the statement says what is wrong
            listed = (each for each in (await read_schedules(visit)).schedules if each.name == name)
            changes = all(each.paused == (inverse == "pause") for each in listed)
    answer = await visit.session.database.change(form.format(schedule))
    where = {"db": queue.database, "name": queue.table}
    everywhere = visit.choice("list", ("", "all"), "")
    goto = "/schedules" if everywhere else link("/queue/schedules", **where)
    fields = {**where, "schedule": name, "list": everywhere}
    undo = Undo(f"Undo: {inverse}", f"/schedule/{inverse}", fields) if inverse and changes else None
    return Done(f"the schedule {name} {done}{'' if changes else '. It was so before'}", goto, answer.sql, undo=undo)


_ONE = (*QUEUE_PARAMETERS, Parameter("schedule", "the schedule's name, in the database of its queue", required=True))

PAGES = (
    Page(read_all_schedules, "All schedules", "/schedules", "all_schedules.html", "/schedules", nav="Schedules"),
    Page(
        read_schedules, "The schedules of a queue or topic", "/queue/schedules", "schedules.html", "/queue/schedules",
        QUEUE_PARAMETERS,
    ),
)  # fmt: skip
ACTIONS = (
    Action(run, "Send a schedule's message now", "/schedule/run", "/schedule/run", _ONE),
    Action(pause, "Stop the ticks of a schedule", "/schedule/pause", "/schedule/pause", _ONE),
    Action(resume, "Resume the ticks of a paused schedule", "/schedule/resume", "/schedule/resume", _ONE),
    Action(drop, "Drop a schedule", "/schedule/drop", "/schedule/drop", _ONE),
)
