"""One topic: what it stores, its consumer groups with how far behind each is, and who reads.

Three statements: SHOW TOPICS, SHOW GROUPS and SHOW CONSUMERS. `seek` moves a group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from console.database import name_sql, pattern_of
from console.pages.figures import Group, TopicFigures, group, topic_figures, whole
from console.pages.problems import Problem, Streams, group_problems, lately_of, topic_problems
from console.visits import QUEUE_PARAMETERS, NotFound, Page, Visit
from engine.model.queue import QueueName

SHOWN_MAX = 200


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
    """What the page shows: the first SHOWN_MAX of `consumers_total`, those that hold most first. `problems`: of the
    topic; `group_problems`: of each group."""

    figures: TopicFigures
    problems: tuple[Problem, ...]
    groups: tuple[Group, ...]
    group_problems: tuple[tuple[Problem, ...], ...]
    consumers: tuple[Consumer, ...]
    consumers_total: int


def consumer(row: Mapping[str, Any]) -> Consumer:
    """Of one row of SHOW CONSUMERS."""
    return Consumer(
        group=row["group"],
        connection=int(row["connection_id"]),
        account=str(row["user"]),
        host=str(row["host"]),
        consumer=row["consumer"],
        pid=whole(row["pid"]),
        in_flight=int(row["in_flight"]),
        sent=int(row["sent"]),
        waits_for=str(row["waits_for"]),
        since=row["since"],
    )


async def read_topic(visit: Visit) -> TopicPage:
    """See the module. Raises NotFound."""
    topic = visit.queue
    figures = await figures_of(visit, topic)
    consumers = sorted(
        (consumer(row) for row in await _rows(visit, f"SHOW CONSUMERS {_of(topic)}")),
        key=lambda each: (-each.in_flight, each.connection),
    )
    groups = await groups_of(visit, topic)
    lines = tuple(
        group_problems(each, each.figures, _streams(each, consumers), lately_of(visit.rates, each.queue, visit.now))
        for each in groups
    )
    return TopicPage(figures, topic_problems(figures), groups, lines, tuple(consumers[:SHOWN_MAX]), len(consumers))


def _streams(group: Group, consumers: Iterable[Consumer]) -> Streams:
    """What the members of a group do."""
    members = [each for each in consumers if each.group == group.name]
    holders = [each.consumer or f"connection {each.connection}" for each in members if each.in_flight]
    return Streams(
        len(members),
        sum(each.waits_for == "acks" for each in members),
        sum(each.waits_for not in ("acks", "client") for each in members),
        sum(each.in_flight for each in members),
        holders[0] if len(holders) == 1 else "",
    )


async def figures_of(visit: Visit, topic: QueueName) -> TopicFigures:
    """What is known of a topic. Raises NotFound."""
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
