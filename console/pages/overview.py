"""The overview: what needs attention, then every queue and every topic, with what waits and what moves.

A queue's dead letters are a figure of it, and consumer groups are lines of their topic: neither is a queue in the list.
At most five statements: which queues there are (from the proxy's memory), their counts, the topics, their groups, and
the open streams, if the counts leave open what the receivers do. With more than COUNTED_MAX queues that match the
filter, or so many groups, counts are left out: counting 10,000 tables takes seconds.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console.charts import thinned
from console.database import pattern_of
from console.pages.figures import Figures, Group, TopicFigures, group, topic_figures
from console.pages.problems import Problem, Severity, Streams, group_problems, lately_of, problems, topic_problems
from console.pages.visible_queues import COUNTED_MAX, counted, replace_table, streams_like, visible_queues
from console.rates import Coverage
from console.rendering import link
from console.visits import Page, Parameter, Visit
from engine.model.queue import QueueName, default_dead_letter

ON_A_PAGE = 50
TOPICS_MAX = 50
ATTENTION_MAX = 12
"""Lines of what needs attention: more of them would push the queues off the screen."""

SORTS = ("name", "ready", "in_flight", "dead", "oldest", "receivers", "acked")
_SPARK_POINTS = 90  # of three hours, two minutes each
_SPARK_STEPS = 180


@dataclass(frozen=True, slots=True)
class Row:
    """One queue of the overview. `dead_letters`: where its dead letters are, if there is such a queue.
    `acked_per_minute`: in the last minute, None where it is not known. `rate_in` and `rate_out`: enqueued and acked in
    the last three hours, two minutes to a point."""

    figures: Figures
    dead_letters: QueueName | None
    acked_per_minute: float | None
    rate_in: tuple[float, ...]
    rate_out: tuple[float, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A consumer group of a topic. `dead_letters` and `acked_per_minute`: as of a queue."""

    group: Group
    dead_letters: QueueName | None
    acked_per_minute: float | None
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One topic of the overview. `groups`: those that the account may see; None where there are too many to count."""

    figures: TopicFigures
    problems: tuple[Problem, ...]
    groups: tuple[GroupRow, ...] | None


@dataclass(frozen=True, slots=True)
class Attention:
    """The worst problem of a queue or a group. `name`: of the queue, or of the topic with the group; `further`: how
    many problems it has besides."""

    name: str
    address: str
    problem: Problem
    further: int


@dataclass(frozen=True, slots=True)
class Overview:
    """What the page shows. `attention`: the first ATTENTION_MAX of `attention_total`, the worst first. `matching`: how
    many queues match the filter, of `total`. `coverage`: of whom rates and receivers are."""

    attention: tuple[Attention, ...]
    attention_total: int
    queues: tuple[Row, ...]
    topics: tuple[TopicRow, ...]
    filter: str
    sort: str
    page: int
    pages: int
    matching: int
    total: int
    counted: bool
    rates_known: bool
    coverage: Coverage


async def read_overview(visit: Visit) -> Overview:
    """See the module."""
    containing = visit.text("filter", most=100).strip()
    sort = visit.choice("sort", SORTS, "name")
    visible = await visible_queues(visit)
    matching = [each for each in visible if containing.lower() in each.queue.table.lower()]
    figures = {each.queue: each for each in await counted(visit, matching, containing)}
    is_counted = len(matching) <= COUNTED_MAX
    pattern = f"%{pattern_of(containing)}%"
    streams = await streams_like(visit, tuple(figures.values()), pattern) if is_counted else {}
    names = frozenset(each.queue for each in visible)
    topics = tuple([topic async for topic in _topics(visit, pattern, figures, streams, names)])
    fed = {one.group.queue for topic in topics for one in topic.groups or ()}
    under = fed | {_dead_letters(queue) for queue in (*figures, *fed)}
    rows = [_row(each, visit, streams, names) for each in figures.values() if each.queue not in under]
    rows.sort(key=_order(sort))
    pages = max(1, -(-len(rows) // ON_A_PAGE))
    page = min(visit.whole("page", 1, 1_000_000), pages)
    attention = attention_of(rows, topics)
    return Overview(
        attention=attention[:ATTENTION_MAX],
        attention_total=len(attention),
        queues=tuple(rows[(page - 1) * ON_A_PAGE : page * ON_A_PAGE]),
        topics=topics,
        filter=containing,
        sort=sort,
        page=page,
        pages=pages,
        matching=len(rows),
        total=sum(each.queue not in under for each in visible),
        counted=is_counted,
        rates_known=visit.rates.since is not None,
        coverage=visit.rates.coverage,
    )


def _dead_letters(queue: QueueName) -> QueueName:
    """Where the dead letters of a queue are, by default."""
    return replace_table(queue, default_dead_letter(queue.table))


def _order(sort: str) -> Callable[[Row], tuple[Any, ...]]:
    """The key of an order: by name, else the largest first."""

    def key(row: Row) -> tuple[Any, ...]:
        each = row.figures
        values: Mapping[str, float | None] = {
            "ready": each.ready,
            "in_flight": each.in_flight,
            "dead": each.dead,
            "oldest": each.oldest_age,
            "receivers": each.receivers,
            "acked": row.acked_per_minute,
        }
        return (-(values.get(sort) or 0), each.queue.database, each.queue.table)

    return key


def _row(each: Figures, visit: Visit, streams: Mapping[QueueName, Streams], names: frozenset[QueueName]) -> Row:
    rates, now, dead = visit.rates, visit.now, _dead_letters(each.queue)
    dead_letters = dead if dead in names else None
    return Row(
        each,
        dead_letters,
        rates.last_minute(each.queue, "acked", now),
        tuple(thinned(rates.coarse(each.queue, "enqueued", now)[-_SPARK_STEPS:], _SPARK_POINTS)),
        tuple(thinned(rates.coarse(each.queue, "acked", now)[-_SPARK_STEPS:], _SPARK_POINTS)),
        problems(each, streams.get(each.queue, Streams()), lately_of(rates, each.queue, now), dead_letters),
    )


async def _topics(
    visit: Visit,
    pattern: str,
    figures: Mapping[QueueName, Figures],
    streams: Mapping[QueueName, Streams],
    names: frozenset[QueueName],
) -> AsyncIterator[TopicRow]:
    """Each topic with its groups."""
    answer = await visit.session.database.read("SHOW TOPICS LIKE %s", pattern)
    shown = answer.lowered[:TOPICS_MAX]
    of_groups = sum(int(row["groups"] or 0) for row in shown)
    groups: dict[QueueName, list[Group]] = {}
    if 0 < of_groups <= COUNTED_MAX:
        for line in (await visit.session.database.read("SHOW GROUPS")).lowered:
            groups.setdefault(QueueName(line["database"], line["topic"]), []).append(group(line))
    for row in shown:
        topic = topic_figures(row)
        own = groups.get(topic.topic, ())
        rows = tuple(_group_row(each, visit, figures.get(each.queue, each.figures), streams, names) for each in own)
        yield TopicRow(topic, topic_problems(topic), rows if of_groups <= COUNTED_MAX else None)


def _group_row(
    each: Group,
    visit: Visit,
    figures: Figures,
    streams: Mapping[QueueName, Streams],
    names: frozenset[QueueName],
) -> GroupRow:
    dead = _dead_letters(each.queue)
    dead_letters = dead if dead in names else None
    lately = lately_of(visit.rates, each.queue, visit.now)
    lines = group_problems(each, figures, streams.get(each.queue, Streams()), lately, dead_letters)
    return GroupRow(each, dead_letters, visit.rates.last_minute(each.queue, "acked", visit.now), lines)


@dataclass(frozen=True, slots=True)
class TopicsPage:
    """What the page of all topics shows."""

    topics: tuple[TopicRow, ...]
    filter: str
    rates_known: bool
    coverage: Coverage


async def read_topics(visit: Visit) -> TopicsPage:
    """All topics with their groups. Four statements at most."""
    containing = visit.text("filter", most=100).strip()
    names = frozenset(each.queue for each in await visible_queues(visit))
    pattern = f"%{pattern_of(containing)}%"
    topics = tuple([topic async for topic in _topics(visit, pattern, {}, {}, names)])
    return TopicsPage(topics, containing, visit.rates.since is not None, visit.rates.coverage)


def attention_of(rows: Iterable[Row], topics: Iterable[TopicRow]) -> tuple[Attention, ...]:
    """One line for each queue, topic and group that has a problem, the worst first. Pure."""
    lines = [_attention(str(row.figures.queue), row.figures.queue, "/queue", row.problems) for row in rows]
    for topic in topics:
        name = topic.figures.topic
        lines.append(_attention(str(name), name, "/topic", topic.problems))
        for one in topic.groups or ():
            lines.append(_attention(f"{name} group {one.group.name}", one.group.queue, "/queue", one.problems))
    return tuple(sorted((each for each in lines if each is not None), key=lambda each: each.problem.severity))


def _attention(name: str, queue: QueueName, path: str, lines: Sequence[Problem]) -> Attention | None:
    bad = [each for each in lines if each.severity is not Severity.NOTE]
    return Attention(name, link(path, db=queue.database, name=queue.table), bad[0], len(bad) - 1) if bad else None


_PARAMETERS = (
    Parameter("filter", "only queues and topics whose names contain this"),
    Parameter("sort", f"one of {', '.join(SORTS)}"),
    Parameter("page", f"which {ON_A_PAGE} of the queues, from 1 on"),
)

PAGES = (
    Page(read_overview, "All queues and topics", "/", "overview.html", "/queues", _PARAMETERS, nav="Overview"),
    Page(read_overview, "The same, refreshed", "/overview/now", "overview_now.html", refresh=True),
    Page(
        read_topics, "All topics and their consumer groups", "/topics", "topics.html", "/topics",
        (Parameter("filter", "only topics whose names contain this"),), nav="Topics",
    ),
    Page(read_topics, "The same, refreshed", "/topics/now", "topics_now.html", refresh=True),
)  # fmt: skip
