"""The overview: every queue and every topic, with what waits, what moves, and what is wrong.

At most five statements: which queues there are (from the proxy's memory), their counts, and the topics. With more than
COUNTED_MAX queues that match the filter, counts are left out: counting 10,000 tables takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from console.charts import thinned
from console.database import pattern_of
from console.pages.figures import Figures, problems
from console.pages.visible_queues import COUNTED_MAX, counted, visible_queues
from console.visits import Page, Parameter, Visit
from engine.model.queue import QueueName

ON_A_PAGE = 50
TOPICS_MAX = 50
SORTS = ("name", "ready", "unread", "in_flight", "dead", "oldest", "receivers", "acked")
_SPARK_POINTS = 90  # of three hours, two minutes each
_SPARK_STEPS = 180


@dataclass(frozen=True, slots=True)
class Row:
    """One queue of the overview. `acked_per_minute`: in the last minute, None where it is not known. `rate_in` and
    `rate_out`: enqueued and acked in the last three hours, two minutes to a point."""

    figures: Figures
    acked_per_minute: float | None
    rate_in: tuple[float, ...]
    rate_out: tuple[float, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One topic of the overview."""

    topic: QueueName
    messages: int | None
    groups: int
    readers: int
    last_minute: int | None
    problem: str | None


@dataclass(frozen=True, slots=True)
class Overview:
    """What the page shows. `matching`: how many queues match the filter, of `total`. `processes_missing`: how many
    processes serve this database besides, whose counts the rates lack."""

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
    processes_missing: int


async def read_overview(visit: Visit) -> Overview:
    """See the module."""
    containing = visit.text("filter", most=100).strip()
    sort = visit.choice("sort", SORTS, "name")
    visible = await visible_queues(visit)
    matching = [each for each in visible if containing.lower() in each.queue.table.lower()]
    queues = await counted(visit, matching, containing)
    ordered = sorted(queues, key=_order(sort, visit))
    pages = max(1, -(-len(ordered) // ON_A_PAGE))
    page = min(visit.whole("page", 1, 1_000_000), pages)
    shown = ordered[(page - 1) * ON_A_PAGE : page * ON_A_PAGE]
    return Overview(
        queues=tuple(_row(each, visit) for each in shown),
        topics=await _topics(visit, containing),
        filter=containing,
        sort=sort,
        page=page,
        pages=pages,
        matching=len(matching),
        total=len(visible),
        counted=len(matching) <= COUNTED_MAX,
        rates_known=visit.rates.since is not None,
        processes_missing=visit.rates.missing,
    )


def _order(sort: str, visit: Visit) -> Callable[[Figures], tuple[Any, ...]]:
    """The key of an order: by name, else the largest first."""

    def key(each: Figures) -> tuple[Any, ...]:
        name = (each.queue.database, each.queue.table)
        match sort:
            case "ready":
                value: float = each.ready or 0
            case "unread":
                value = each.unread or 0
            case "in_flight":
                value = each.in_flight or 0
            case "dead":
                value = each.dead or 0
            case "oldest":
                value = each.oldest_age or 0
            case "receivers":
                value = each.receivers or 0
            case "acked":
                value = visit.rates.last_minute(each.queue, "acked", visit.now) or 0
            case _:
                value = 0
        return (-value, *name)

    return key


def _row(each: Figures, visit: Visit) -> Row:
    rates, now = visit.rates, visit.now
    return Row(
        each,
        rates.last_minute(each.queue, "acked", now),
        tuple(thinned(rates.coarse(each.queue, "enqueued", now)[-_SPARK_STEPS:], _SPARK_POINTS)),
        tuple(thinned(rates.coarse(each.queue, "acked", now)[-_SPARK_STEPS:], _SPARK_POINTS)),
        problems(each),
    )


async def _topics(visit: Visit, containing: str) -> tuple[TopicRow, ...]:
    answer = await visit.session.database.read("SHOW TOPICS LIKE %s", f"%{pattern_of(containing)}%")
    return tuple(map(_topic, answer.lowered[:TOPICS_MAX]))


def _topic(row: dict[str, Any]) -> TopicRow:
    def whole(name: str) -> int | None:
        return None if row.get(name) is None else int(row[name])

    return TopicRow(
        QueueName(row["database"], row["topic"]),
        whole("messages"),
        whole("groups") or 0,
        whole("readers") or 0,
        whole("last_minute"),
        row.get("problem") or None,
    )


def worst(rows: Sequence[Row]) -> int:
    """How many of the queues have a problem."""
    return sum(bool(row.problems) for row in rows)


_PARAMETERS = (
    Parameter("filter", "only queues and topics whose names contain this"),
    Parameter("sort", f"one of {', '.join(SORTS)}"),
    Parameter("page", f"which {ON_A_PAGE} of the queues, from 1 on"),
)

PAGES = (
    Page(read_overview, "All queues and topics", "/", "overview.html", "/queues", _PARAMETERS, nav="Overview"),
    Page(read_overview, "The same, refreshed", "/overview/now", "overview_now.html", refresh=True),
)
