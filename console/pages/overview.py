"""The overview: what needs attention, then every queue and every topic, with what waits and what moves.

A queue's dead letters are a figure of it, and consumer groups are lines of their topic: neither is a queue in the list.
At most five statements: which queues there are (from the proxy's memory), their counts, the topics, their groups, and
the open streams, if the counts leave open what the receivers do. With more than COUNTED_MAX queues that match the
filter, or so many groups, counts are left out: counting 10,000 tables takes seconds. Then the page does not say that
nothing needs attention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console.charts import thinned
from console.database import name_sql, pattern_of
from console.pages.figures import Figures, Group, TopicFigures, group, topic_figures
from console.pages.problems import Problem, Severity, Streams, group_problems, lately_of, problems, topic_problems
from console.pages.visible_queues import COUNTED_MAX, counted, replace_table, streams_like, visible_queues
from console.rates import Coverage
from console.rendering import link
from console.visits import Page, Parameter, Visit
from engine.model.queue import QueueName, default_dead_letter

ON_A_PAGE = 50
ATTENTION_MAX = 12
"""Lines of what needs attention: more of them would push the queues off the screen."""

SORTS = ("name", "ready", "in_flight", "dead", "oldest", "receivers", "acked")
_SPARK_POINTS = 90  # of three hours, two minutes each
_SPARK_STEPS = 180


@dataclass(frozen=True, slots=True)
class Row:
    """One queue of the overview. `dead_letters`: where its dead letters are, if there is such a queue.
    `acked_per_minute`: in the last minute, None where it is not known. `rate_in` and `rate_out`: enqueued and acked in
    the last three hours, two minutes to a point; None where it is not known."""

    figures: Figures
    dead_letters: QueueName | None
    acked_per_minute: float | None
    rate_in: tuple[float | None, ...]
    rate_out: tuple[float | None, ...]
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
    """What the page shows. `attention`: the first ATTENTION_MAX of `attention_total`, the worst first. `topics`: the
    first ON_A_PAGE of `topics_total`. `matching`: how many queues match the filter; `total`: all that the account may
    see, also those of groups and of dead letters. `counted`: whether queues are counted, `groups_counted` the same of
    groups. `coverage`: of whom rates and receivers are."""

    attention: tuple[Attention, ...]
    attention_total: int
    queues: tuple[Row, ...]
    topics: tuple[TopicRow, ...]
    topics_total: int
    filter: str
    sort: str
    page: int
    pages: int
    matching: int
    total: int
    counted: bool
    groups_counted: bool
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
    topics = await _topics(visit, pattern, figures, streams, names)
    fed = {one.group.queue for topic in topics for one in topic.groups or ()}
    under = fed | {_dead_letters(queue) for queue in (*figures, *fed)}
    rows = [_row(each, visit, streams, names) for each in figures.values() if each.queue not in under]
    rows.sort(key=_order(sort))
    page, pages = _page_of(visit, len(rows))
    attention = attention_of(rows, topics)
    return Overview(
        attention=attention[:ATTENTION_MAX],
        attention_total=len(attention),
        queues=tuple(rows[(page - 1) * ON_A_PAGE : page * ON_A_PAGE]),
        topics=topics[:ON_A_PAGE],
        topics_total=len(topics),
        filter=containing,
        sort=sort,
        page=page,
        pages=pages,
        matching=len(rows),
        total=len(visible),
        counted=is_counted,
        groups_counted=_groups_counted(topics),
        rates_known=visit.rates.is_known(visit.now),
        coverage=visit.rates.coverage,
    )


def _page_of(visit: Visit, lines: int) -> tuple[int, int]:
    """Which page is asked for, and how many there are."""
    pages = max(1, -(-lines // ON_A_PAGE))
    return min(visit.whole("page", 1, 1_000_000), pages), pages


def _groups_counted(topics: Iterable[TopicRow]) -> bool:
    return all(topic.groups is not None for topic in topics)


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
) -> tuple[TopicRow, ...]:
    """Each topic with its groups."""
    lines = (await visit.session.database.read("SHOW TOPICS LIKE %s", pattern)).lowered
    of_groups = sum(int(line["groups"] or 0) for line in lines)
    is_counted = of_groups <= COUNTED_MAX
    groups: dict[QueueName, list[Group]] = {}
    if of_groups and is_counted:
        of = _groups_of([topic_figures(line).topic for line in lines if line["groups"]])
        for line in (await visit.session.database.read(f"SHOW GROUPS{of}")).lowered:
            groups.setdefault(QueueName(line["database"], line["topic"]), []).append(group(line))
    rows = []
    for topic in map(topic_figures, lines):
        own = groups.get(topic.topic, ())
        of_topic = tuple(_group_row(each, visit, figures.get(each.queue, each.figures), streams, names) for each in own)
        rows.append(TopicRow(topic, topic_problems(topic), of_topic if is_counted else None))
    return tuple(rows)


def _groups_of(topics: Sequence[QueueName]) -> str:
    """What a SHOW GROUPS of these topics ends in, so that it counts few others."""
    databases = {topic.database for topic in topics}
    of_one = f" FROM {name_sql(next(iter(databases)))}" if len(databases) == 1 else ""
    return f" ON {name_sql(topics[0].table)}{of_one}" if len(topics) == 1 else of_one


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
    """What a page of all topics shows: `total` of them match the filter."""

    topics: tuple[TopicRow, ...]
    filter: str
    page: int
    pages: int
    total: int
    groups_counted: bool
    rates_known: bool
    coverage: Coverage


async def read_topics(visit: Visit) -> TopicsPage:
    """All topics with their groups. Four statements at most."""
    containing = visit.text("filter", most=100).strip()
    names = frozenset(each.queue for each in await visible_queues(visit))
    pattern = f"%{pattern_of(containing)}%"
    topics = await _topics(visit, pattern, {}, {}, names)
    page, pages = _page_of(visit, len(topics))
    shown = topics[(page - 1) * ON_A_PAGE : page * ON_A_PAGE]
    counted_all, known = _groups_counted(topics), visit.rates.is_known(visit.now)
    return TopicsPage(shown, containing, page, pages, len(topics), counted_all, known, visit.rates.coverage)


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
_OF_TOPICS = (
    Parameter("filter", "only topics whose names contain this"),
    Parameter("page", f"which {ON_A_PAGE} of the topics, from 1 on"),
)

PAGES = (
    Page(read_overview, "All queues and topics", "/", "overview.html", "/queues", _PARAMETERS, nav="Overview"),
    Page(read_overview, "The same, refreshed", "/overview/now", "overview_now.html", refresh=True),
    Page(
        read_topics, "All topics and their consumer groups", "/topics", "topics.html", "/topics",
        _OF_TOPICS, nav="Topics",
    ),
    Page(read_topics, "The same, refreshed", "/topics/now", "topics_now.html", refresh=True),
)  # fmt: skip
