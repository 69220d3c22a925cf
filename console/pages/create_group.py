"""The form that makes a consumer group of a topic. It shows the statement as it is filled in, and runs the same.

Where the group begins is one of the targets of a seek; the proxy checks the name, the filter and the options. Two
statements: whether there is such a topic, and CREATE GROUP.
"""

from __future__ import annotations

from dataclasses import dataclass

from console.database import name_sql, queue_sql
from console.pages.create_queue import OPTIONS, Composed, option_settings, so_far
from console.pages.figures import TopicFigures
from console.pages.seek import TARGETS, target_of
from console.pages.topic import figures_of
from console.pages.visible_queues import forget_queues
from console.rendering import link
from console.visits import NAME_MAX, QUEUE_PARAMETERS, Action, BadInput, Done, Page, Parameter, Visit

GROUP_OPTIONS = (("filter", "a condition: the group gets only messages for which it is true", "none"), *OPTIONS)
"""The options of the form: name, meaning, and what holds where the field is left empty."""


@dataclass(frozen=True, slots=True)
class GroupForm:
    """What the form needs. `targets`: where a group can begin."""

    topic: TopicFigures
    targets: tuple[str, ...]
    options: tuple[tuple[str, str, str], ...]


async def read_form(visit: Visit) -> GroupForm:
    """The empty form. Raises NotFound, DatabaseError."""
    return GroupForm(await figures_of(visit, visit.queue), TARGETS, GROUP_OPTIONS)


async def read_composed(visit: Visit) -> Composed:
    """The statement of what is filled in so far."""
    return so_far(composed, visit)


def composed(visit: Visit) -> Composed:
    """The statement of the form. Raises BadInput."""
    topic, group = visit.queue, visit.text("group", most=NAME_MAX).strip()
    if not group:
        raise BadInput("group: give the group a name")
    start = target_of(visit.choice("to", TARGETS, "latest"), visit.text("value", most=40))
    options, values = option_settings(visit, GROUP_OPTIONS)
    ending = f" WITH ({', '.join(options)})" if options else ""
    sql = f"CREATE GROUP {name_sql(group)} ON {queue_sql(topic)} START AT {start.sql}{ending}"
    return Composed(sql, tuple(values))


async def create(visit: Visit) -> Done:
    """Run the statement of the form. Raises BadInput, DatabaseError."""
    topic, what = visit.queue, composed(visit)
    answer = await visit.session.database.change(what.sql, *what.values)
    forget_queues(visit)
    where = link("/topic", db=topic.database, name=topic.table)
    return Done(f"the group {visit.text('group').strip()} of {topic} is created", where, answer.sql)


_PARAMETERS = (
    *QUEUE_PARAMETERS,
    Parameter("group", "the group's name", required=True),
    Parameter("to", f"where it begins: one of {', '.join(TARGETS)}; latest by default"),
    Parameter("value", "the offset, or the time in UTC, such as 2026-05-01 12:00:00"),
    *(Parameter(name, meaning) for name, meaning, _ in GROUP_OPTIONS),
)

PAGES = (Page(read_form, "A form that makes a consumer group", "/topic/group", "create_group.html"),)
PARTS_OF_FORMS = (Page(read_composed, "The statement of the form", "/topic/group/sql", "create_sql.html"),)
ACTIONS = (Action(create, "Make a consumer group", "/topic/group", "/topic/group", _PARAMETERS, "/topic/group"),)
