"""Moving a consumer group to another offset: a page that shows what the seek will do, and the seek.

The page asks what the group has (SHOW TOPICS, SHOW GROUPS), which offset a time has, and how many messages are
between: at most five statements. The page is true at that moment; the seek itself is one statement of the proxy's.
Times are UTC, in which every connection of the console is. The SELECTs have the form that an account which is limited
to its topics may send: no aliases, no subqueries.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from console.database import DatabaseError, name_sql, queue_sql
from console.pages.figures import Group, TopicFigures
from console.pages.topic import figures_of, groups_of
from console.rendering import link
from console.sessions import Undo
from console.visits import NAME_MAX, QUEUE_PARAMETERS, Action, BadInput, Done, NotFound, Page, Parameter, Visit
from engine.model.queue import QueueName

TARGETS = ("earliest", "latest", "offset", "timestamp")
COUNTED_MAX = 100_000
"""Offsets between which messages are counted; between more of them there are at most so many."""

_TIMES_MAX = 1000  # as many times as the proxy looks through for the smallest offset, which is near
_YEARS = (1971, 2037)
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d)(:\d\d)?(\.\d{1,6})?)?Z?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Target:
    """Where to: one of TARGETS, with an offset or a time (UTC) where it is of that kind."""

    kind: str
    offset: int = 0
    moment: str = ""

    @property
    def sql(self) -> str:
        """What stands after SEEK TO."""
        match self.kind:
            case "offset":
                return f"OFFSET {self.offset}"
            case "timestamp":
                return f"TIMESTAMP '{self.moment}'"
            case _:
                return self.kind.upper()

    @property
    def moment_ns(self) -> int:
        """The time, in nanoseconds."""
        at = datetime.fromisoformat(self.moment).replace(tzinfo=UTC)
        return int(at.timestamp()) * 1_000_000_000 + at.microsecond * 1000


@dataclass(frozen=True, slots=True)
class Count:
    """A number of messages, or a bound on it; None: it is not known, for the reason of `why`."""

    number: int | None
    exact: bool = True
    why: str = ""


@dataclass(frozen=True, slots=True)
class SeekPage:
    """What the page shows. `will`: what the seek does, in sentences; `to` and `value` as the form has them, empty
    before anything is chosen. `mistake`: why there is no statement yet."""

    topic: TopicFigures
    group: Group
    to: str
    value: str
    targets: tuple[str, ...]
    sql: str
    will: tuple[str, ...]
    mistake: str


def target_of(kind: str, value: str) -> Target:
    """Of what a form says. Raises BadInput."""
    value = value.strip()
    if kind == "offset":
        if not re.fullmatch(r"[0-9]{1,18}", value, re.ASCII):
            raise BadInput("value: give an offset, a whole number")
        return Target(kind, offset=int(value))
    if kind == "timestamp":
        return Target(kind, moment=_moment(value))
    return Target(kind)


def _moment(value: str) -> str:
    mistake = BadInput(f"value: give a time of {_YEARS[0]} to {_YEARS[1]} in UTC, such as 2026-05-01 12:00:00")
    match = _MOMENT.fullmatch(value)
    if match is None:
        raise mistake
    text = f"{match[1]} {match[2] or '00:00'}{match[3] or ':00'}{match[4] or ''}"
    try:
        year = datetime.fromisoformat(text).year
    except ValueError:
        raise mistake from None
    if not _YEARS[0] <= year <= _YEARS[1]:
        raise mistake
    return text


def consequences(
    topic: TopicFigures, group: Group, target: Target, first: int | None, between: Count
) -> tuple[str, ...]:
    """What a seek will do, in sentences. `first`: the offset from which the group will read; `between`: the messages
    between that and where it is. Pure."""
    sentences = []
    where = "" if first is None else f" from offset {first}"
    about = ", as far as is known" if target.kind in ("latest", "timestamp") else ""
    sentences.append(f"The group continues{where}{about}. It has read up to offset {_offset_text(group.offset)}.")
    if first is not None and topic.last_offset is not None and first > topic.last_offset + 1:
        sentences.append(
            f"That is after the topic's last message, offset {topic.last_offset}: the seek is refused, unless messages"
            " up to there have been deleted."
        )
    if first is not None and group.offset is not None:
        sentences.append(_moved(first - 1 - group.offset, between))
    if group.undone:
        sentences.append(
            f"It drops the messages in its queue that are not acked: {group.ready} ready, {group.waiting} waiting,"
            f" {group.in_flight} in flight. Those before that offset are not delivered again."
        )
    elif group.undone == 0:
        sentences.append("Its queue has no messages to drop.")
    if group.in_flight:
        sentences.append(
            "Messages in flight may be handled twice. After the seek an ack that names its delivery by lease_token"
            " changes 0 rows; one by the id alone ends the message once it is delivered again."
        )
    if group.dead:
        sentences.append(f"Its dead letters stay: {group.dead}.")
    if group.paused:
        sentences.append("It is paused and stays paused: nothing is delivered until it is resumed.")
    return tuple(sentences)


def _offset_text(number: int | None) -> str:
    return "(not known)" if number is None else str(number)


def _moved(by: int, between: Count) -> str:
    if by == 0:
        return "The group is there already: nothing is skipped or delivered again."
    what = "are skipped: the group never gets them" if by > 0 else "are delivered to the group again"
    if between.number is None:
        return f"How many messages {what} is not known: {between.why}."
    if between.number == 0:
        return "There is no message in between: nothing is skipped or delivered again."
    many = str(between.number) if between.exact else f"at most {between.number}"
    return f"Messages that {what}: {many}, without those that its filter excludes."


async def read_seek(visit: Visit) -> SeekPage:
    """See the module. Raises NotFound."""
    topic = await figures_of(visit, visit.queue)
    group = await _group(visit, topic.topic)
    to, value = visit.choice("to", ("", *TARGETS), ""), visit.text("value", most=40)
    if not to:
        return SeekPage(topic, group, to, value, TARGETS, "", (), "")
    try:
        target = target_of(to, value)
    except BadInput as error:
        return SeekPage(topic, group, to, value, TARGETS, "", (), str(error))
    first, why = await _first(visit, topic, target)
    between = await _between(visit, topic, group.offset, first) if first is not None else Count(None, why=why)
    will = consequences(topic, group, target, first, between)
    if why:
        will = (*will, f"The offset of that time is not known: {why}.")
    return SeekPage(
        topic, group, to, value, TARGETS, _sql(topic.topic, group.name, target).replace("%%", "%"), will, ""
    )


def _sql(topic: QueueName, group: str, target: Target) -> str:
    return f"ALTER GROUP {name_sql(group)} ON {queue_sql(topic)} SEEK TO {target.sql}"


async def _group(visit: Visit, topic: QueueName) -> Group:
    name = visit.text("group", most=NAME_MAX)
    for each in await groups_of(visit, topic):
        if each.name == name:
            return each
    raise NotFound(f"the topic {topic} has no consumer group {name}, or this account may not see it")


async def _first(visit: Visit, topic: TopicFigures, target: Target) -> tuple[int | None, str]:
    """The offset from which the group would read, and why it is not known."""
    end = (topic.last_offset or 0) + 1
    match target.kind:
        case "offset":
            return target.offset, ""
        case "earliest":
            return (topic.first_offset or end), ""
        case "latest":
            return end, ""
    column = name_sql(topic.offset_column)
    sql = (
        f"SELECT {column} FROM {queue_sql(topic.topic)} WHERE time_created >= %s"
        f" ORDER BY time_created LIMIT {_TIMES_MAX}"
    )
    try:
        answer = await visit.session.database.read(sql, target.moment_ns)
    except DatabaseError as error:
        return None, error.full_message
    places = [int(place) for row in answer.rows for place in row.values() if place is not None]
    return (min(places) if places else end), ""


async def _between(visit: Visit, topic: TopicFigures, read: int | None, first: int) -> Count:
    """How many messages lie between what the group has read and where it will read on."""
    if read is None:
        return Count(None, why="how far the group has read is not known")
    low, high = sorted((read, first - 1))
    low, high = max(low, (topic.first_offset or 1) - 1), min(high, topic.last_offset or 0)
    if high <= low:
        return Count(0)
    if high - low > COUNTED_MAX:
        return Count(high - low, exact=False)
    column = name_sql(topic.offset_column)
    sql = f"SELECT COUNT(*) FROM {queue_sql(topic.topic)} WHERE {column} > %s AND {column} <= %s"
    try:
        answer = await visit.session.database.read(sql, low, high)
    except DatabaseError:
        return Count(high - low, exact=False)
    (messages,) = answer.rows[0].values()
    return Count(int(messages))


async def seek(visit: Visit) -> Done:
    """Move the group."""
    topic, group = visit.queue, visit.text("group", most=NAME_MAX)
    if not group:
        raise BadInput("group: give the name of a consumer group")
    target = target_of(visit.choice("to", TARGETS, ""), visit.text("value", most=40))
    before = await _before(visit, topic, group)
    answer = await visit.session.database.change(_sql(topic, group, target))
    dropped = (
        f"it drops {answer.affected} messages that were not acked" if answer.affected else "it had nothing to drop"
    )
    where = {"db": topic.database, "name": topic.table}
    notice, undo = f"the group {group} continues from {target.sql.lower()}; {dropped}", None
    if before is not None:
        notice = f"{notice}. Before, it had read up to offset {before.read}"
        fields = {**where, "group": group, "to": "offset", "value": str(before.first)}
        undo = Undo(f"Seek back to offset {before.first}", "/topic/seek", fields)
        if before.first <= before.read:
            notice = f"{notice}, and the first message that was not acked was at offset {before.first}"
    return Done(
        notice,
        link("/topic", **where),
        answer.sql,
        {"dropped": answer.affected, "before": None if before is None else before.read},
        undo=undo,
    )


class _Before(NamedTuple):
    """Where a group was. `first`: the offset from which it would get again all that it had not acked."""

    read: int
    first: int


async def _before(visit: Visit, topic: QueueName, name: str) -> _Before | None:
    """None where it is not known, or this account may not know it: the seek is not refused for that."""
    try:
        figures = await figures_of(visit, topic)
        group = next(each for each in await groups_of(visit, topic) if each.name == name)
        if group.offset is None:
            return None
        column = name_sql(figures.offset_column)
        sql = f"SELECT MIN({column}) FROM {queue_sql(group.queue)} WHERE time_acked IS NULL"
        (first,) = (await visit.session.database.read(sql)).rows[0].values()
    except (DatabaseError, NotFound, StopIteration):
        return None
    return _Before(group.offset, group.offset + 1 if first is None else min(int(first), group.offset + 1))


_PARAMETERS = (
    *QUEUE_PARAMETERS,
    Parameter("group", "the consumer group's name", required=True),
    Parameter("to", f"where to: one of {', '.join(TARGETS)}", required=True),
    Parameter("value", "the offset, or the time in UTC, such as 2026-05-01 12:00:00"),
)

PAGES = (
    Page(read_seek, "What a seek of a consumer group will do", "/topic/seek", "seek.html", "/topic/seek", _PARAMETERS),
)
ACTIONS = (
    Action(seek, "Move a consumer group to another offset", "/topic/seek", "/topic/seek", _PARAMETERS, "/topic/seek"),
)
