"""One topic: what it stores, its consumer groups with how far behind each is, and who reads.

Three statements: SHOW TOPICS, SHOW GROUPS and SHOW CONSUMERS. `seek` moves a group.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from console.database import name_sql, pattern_of
from console.visits import QUEUE_PARAMETERS, NotFound, Page, Visit
from engine.model.queue import SEQUENCE_COLUMN, QueueName

SHOWN_MAX = 200
_SEQUENCED = re.compile(r"(?:^|, )sequence = on")


@dataclass(frozen=True, slots=True)
class TopicFigures:
    """A row of SHOW TOPICS. Numbers are None where they are not known."""

    topic: QueueName
    first_offset: int | None
    last_offset: int | None
    messages: int | None
    bytes: int | None
    last_minute: int | None
    readers: int | None
    options: str
    problem: str | None

    @property
    def offset_column(self) -> str:
        """The column of its table that its offsets are in."""
        return SEQUENCE_COLUMN if _SEQUENCED.search(self.options) else "id"


@dataclass(frozen=True, slots=True)
class Group:
    """One consumer group. `queue`: its table. `offset`: up to where it has read. Numbers are None where they are not
    known; `exact`: unread messages were counted to the end."""

    name: str
    queue: QueueName
    paused: bool
    members: int
    offset: int | None
    unread: int | None
    oldest_unread_age: float | None
    holes: int
    lost: int
    ready: int | None
    waiting: int | None
    in_flight: int | None
    dead: int | None
    alarms: int
    exact: bool
    problem: str | None

    @property
    def undone(self) -> int | None:
        """What is in its queue and not done."""
        parts = (self.ready, self.waiting, self.in_flight)
        return None if None in parts else sum(part or 0 for part in parts)


@dataclass(frozen=True, slots=True)
class Consumer:
    """A member of a group, or the reader of a broadcast, whose group is None."""

    group: str | None
    connection: int
    account: str
    host: str
    consumer: str | None
    pid: int | None
    in_flight: int
    sent: int
    waits_for: str
    since: str | None


@dataclass(frozen=True, slots=True)
class TopicPage:
    """What the page shows: the first SHOWN_MAX of `consumers_total`, those that hold most first."""

    figures: TopicFigures
    groups: tuple[Group, ...]
    consumers: tuple[Consumer, ...]
    consumers_total: int


def topic_figures(row: Mapping[str, Any]) -> TopicFigures:
    """Of one row of SHOW TOPICS, whose names are in lower case."""
    return TopicFigures(
        QueueName(row["database"], row["topic"]),
        first_offset=_whole(row["first_offset"]),
        last_offset=_whole(row["last_offset"]),
        messages=_whole(row["messages"]),
        bytes=_whole(row["bytes"]),
        last_minute=_whole(row["last_minute"]),
        readers=_whole(row["readers"]),
        options=row["options"] or "",
        problem=row["problem"] or None,
    )


def group(row: Mapping[str, Any]) -> Group:
    """Of one row of SHOW GROUPS."""
    age = row["oldest_unread_age"]
    return Group(
        name=str(row["group"]),
        queue=QueueName(row["database"], row["queue"]),
        paused=bool(row["paused"]),
        members=_whole(row["members"]) or 0,
        offset=_whole(row["offset"]),
        unread=_whole(row["unread"]),
        oldest_unread_age=None if age is None else float(age),
        holes=_whole(row["holes"]) or 0,
        lost=_whole(row["lost"]) or 0,
        ready=_whole(row["ready"]),
        waiting=_whole(row["waiting"]),
        in_flight=_whole(row["in_flight"]),
        dead=_whole(row["dead"]),
        alarms=_whole(row["alarms"]) or 0,
        exact=row["counted"] != "at least",
        problem=row["problem"] or None,
    )


def consumer(row: Mapping[str, Any]) -> Consumer:
    """Of one row of SHOW CONSUMERS."""
    return Consumer(
        group=row["group"],
        connection=int(row["connection_id"]),
        account=str(row["user"]),
        host=str(row["host"]),
        consumer=row["consumer"],
        pid=_whole(row["pid"]),
        in_flight=int(row["in_flight"]),
        sent=int(row["sent"]),
        waits_for=str(row["waits_for"]),
        since=row["since"],
    )


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


async def read_topic(visit: Visit) -> TopicPage:
    """See the module. Raises NotThere."""
    topic = visit.queue
    figures = await figures_of(visit, topic)
    consumers = sorted(
        (consumer(row) for row in await _rows(visit, f"SHOW CONSUMERS {_of(topic)}")),
        key=lambda each: (-each.in_flight, each.connection),
    )
    return TopicPage(figures, await groups_of(visit, topic), tuple(consumers[:SHOWN_MAX]), len(consumers))


async def figures_of(visit: Visit, topic: QueueName) -> TopicFigures:
    """What is known of a topic. Raises NotThere."""
    rows = await _rows(visit, f"SHOW TOPICS FROM {name_sql(topic.database)} LIKE %s", pattern_of(topic.table))
    for row in rows:
        if row["topic"] == topic.table:
            return topic_figures(row)
    raise NotFound(f"there is no topic {topic}, or this account may not see it")


async def groups_of(visit: Visit, topic: QueueName) -> tuple[Group, ...]:
    """Its groups, by name."""
    groups = (group(row) for row in await _rows(visit, f"SHOW GROUPS {_of(topic)}"))
    return tuple(sorted(groups, key=lambda each: each.name))


def _of(topic: QueueName) -> str:
    return f"ON {name_sql(topic.table)} FROM {name_sql(topic.database)}"


async def _rows(visit: Visit, sql: str, *values: object) -> list[dict[str, Any]]:
    return (await visit.session.database.read(sql, *values)).lowered


PAGES = (
    Page(
        read_topic, "One topic, with its consumer groups and readers", "/topic", "topic.html", "/topic",
        QUEUE_PARAMETERS,
    ),
    Page(read_topic, "The same, refreshed", "/topic/now", "topic_now.html", refresh=True),
)  # fmt: skip
