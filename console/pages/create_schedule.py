"""The form that makes a schedule of a queue or a topic. It shows the statement as it is filled in, and runs the same.

The message is filled in as in the form that publishes one; the proxy checks the rule, the time zone and the values. Two
statements: the columns, and CREATE SCHEDULE.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from console.database import Column, queue_sql, without_values
from console.pages.create_queue import Composed
from console.pages.messages.editable import Editable
from console.pages.messages.message_rows import is_queue
from console.pages.publish import HOW, ROW_PARAMETERS, empty_fields, message_columns, row_of
from console.rendering import link
from console.sessions import Undo
from console.visits import NAME_MAX, QUEUE_PARAMETERS, Action, BadInput, Done, Page, Parameter, Visit
from engine.model.queue import QueueName

RULES = ("cron", "every")
MISSED = ("", "once", "skip", "all")
_RULE_MAX = 256


@dataclass(frozen=True, slots=True)
class ScheduleForm:
    """What the form needs. `topic`: the schedule is of one, whose messages have no priorities."""

    queue: QueueName
    topic: bool
    columns: tuple[Editable, ...]
    how: tuple[tuple[str, str], ...]
    missed: tuple[str, ...]


async def read_form(visit: Visit) -> ScheduleForm:
    """The empty form. Raises NotFound, DatabaseError."""
    queue = visit.queue
    columns = await message_columns(visit, queue)
    topic = bool(columns) and not is_queue(columns)
    return ScheduleForm(queue, topic, empty_fields(columns), tuple(HOW.items()), MISSED)


async def read_composed(visit: Visit) -> Composed:
    """The statement of what is filled in so far."""
    try:
        return composed(visit, await message_columns(visit, visit.queue))
    except BadInput as error:
        return Composed("", (), str(error))


def composed(visit: Visit, columns: Sequence[Column]) -> Composed:
    """The statement of the form. Raises BadInput."""
    queue, name = visit.queue, visit.text("schedule", most=NAME_MAX).strip()
    kind, rule = visit.choice("rule_kind", RULES, RULES[0]), visit.text("rule", most=_RULE_MAX).strip()
    if not name:
        raise BadInput("schedule: give the schedule a name")
    if not rule:
        raise BadInput("rule: say when it ticks, such as 0 2 * * * or 15m")
    zone, missed = visit.text("time_zone", most=NAME_MAX).strip(), visit.choice("missed", MISSED, "")
    if zone and kind != "cron":
        raise BadInput("time_zone: only a CRON has one")
    row = row_of(visit, columns, {})
    sql = f"CREATE SCHEDULE {queue_sql(QueueName(queue.database, name))} ON {queue_sql(queue)} {kind.upper()} %s"
    sql += f"{' TIME ZONE %s' if zone else ''} {row.sql}{' WITH (missed = %s)' if missed else ''}"
    return Composed(sql, (rule, *([zone] if zone else []), *row.values, *([missed] if missed else [])))


async def create(visit: Visit) -> Done:
    """Run the statement of the form. Raises BadInput, NotFound, DatabaseError."""
    queue = visit.queue
    what = composed(visit, await message_columns(visit, queue))
    answer = await visit.session.database.change(what.sql, *what.values)
    name, where = visit.text("schedule", most=NAME_MAX).strip(), {"db": queue.database, "name": queue.table}
    undo = Undo("Undo: drop", "/schedule/drop", {**where, "schedule": name})
    notice = f"the schedule {name} of {queue} is created"
    return Done(notice, link("/queue/schedules", **where), without_values(what.sql), {}, answer.sql, undo)


_PARAMETERS = (
    *QUEUE_PARAMETERS,
    Parameter("schedule", "the schedule's name, in the database of its queue", required=True),
    Parameter("rule_kind", f"one of {', '.join(RULES)}; cron by default"),
    Parameter("rule", "the fields of a CRON, or the time of an EVERY, such as 15m", required=True),
    Parameter("time_zone", "of a CRON; UTC by default"),
    Parameter("missed", "once, skip or all: what becomes of ticks that were missed"),
    *ROW_PARAMETERS,
)

PAGES = (Page(read_form, "A form that makes a schedule", "/schedule/new", "create_schedule.html"),)
PARTS_OF_FORMS = (Page(read_composed, "The statement of the form", "/schedule/new/sql", "create_sql.html"),)
ACTIONS = (Action(create, "Make a schedule", "/schedule/new", "/schedules", _PARAMETERS, "/schedule/new"),)
