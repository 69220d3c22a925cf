"""One queue: its figures and rates, its messages by state, and the first action, to pause it.

Six statements at most: the queue's figures, its open streams, which queues there are, its columns, the database's time,
and one SELECT of a page of messages, which is shown so that it can be copied. The list is refreshed with the figures,
but not while one selects messages in it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from console.charts import thinned
from console.database import Column, DatabaseError, StatementError, TooSlow, pattern_of, queue_sql
from console.pages.figures import Figures
from console.pages.keyset import Key, after_sql, as_text, from_text, order_sql
from console.pages.messages.message_rows import (
    LISTED_CHARACTERS,
    NOW,
    STATES,
    Message,
    condition,
    is_queue,
    message,
    order,
    select,
    shown,
)
from console.pages.messages.message_verbs import offered_for_state
from console.pages.messages.search import PARAMETERS, Search, requested_search, search_sql, searchable
from console.pages.problems import Problem, Streams, lately_of, problems
from console.pages.visible_queues import dead_letters_of, figures_of, forget_queues, streams_like
from console.rates import COARSE, COARSE_SECONDS, COUNTED, DELAYS, FINE, FINE_SECONDS, Coverage
from console.rendering import link
from console.sessions import Undo
from console.visits import QUEUE_PARAMETERS, Action, BadInput, Done, NotFound, Page, Parameter, Visit
from engine.model.queue import SYSTEM_COLUMNS, QueueName

ON_A_PAGE = 50
SPANS = {"10 min": FINE_SECONDS * FINE, "6 h": COARSE_SECONDS * COARSE}
"""Of what time rates are shown, in seconds."""

_POINTS = 120


@dataclass(frozen=True, slots=True)
class Now:
    """What is true of a queue at this moment. `dead_letters`: where its dead letters are, if there is such a queue.
    `rates`: how often a minute, for each counter, the oldest first, None where it is not known. `delays`: of each of
    DELAYS in seconds, None where no message was delivered for the first time. Both are empty where the counters were
    never known. `rates_known`: whether they are known now."""

    figures: Figures
    dead_letters: QueueName | None
    problems: tuple[Problem, ...]
    per_minute: dict[str, float | None]
    rates: dict[str, tuple[float | None, ...]]
    delays: dict[str, tuple[float | None, ...]]
    span: str
    seconds: int
    rates_known: bool
    coverage: Coverage


@dataclass(frozen=True, slots=True)
class Messages:
    """A page of messages. `sql`: what was run; `after`: where the next page begins; `refused`: why there are none;
    `dead`: they are dead letters. `search`: what was searched for, in one of the `searchable` columns. `verbs`: those
    that change all messages that match."""

    state: str
    rows: tuple[Message, ...] = ()
    columns: tuple[str, ...] = ()
    sql: str = ""
    after: str = ""
    continued: bool = False
    refused: str = ""
    dead: bool = False
    search: Search = field(default=Search())
    searchable: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MessageList:
    """A page of messages, with the figures of all. `after`: where it begins, empty at the first page; `span`: the one
    that the page shows rates of."""

    queue: QueueName
    figures: Figures
    dead_letters: QueueName | None
    messages: Messages
    after: str
    span: str


@dataclass(frozen=True, slots=True)
class QueuePage:
    """What the page shows."""

    queue: QueueName
    now: Now
    messages: Messages
    list: MessageList


async def read_now(visit: Visit) -> Now:
    """The figures and rates of a queue."""
    queue = visit.queue
    span = visit.choice("span", tuple(SPANS), "10 min")
    figures = await figures_of(visit, queue)
    rates, known = visit.rates, visit.rates.since is not None  # charts also show what was known once
    fine = SPANS[span] == FINE_SECONDS * FINE
    series = rates.fine if fine else rates.coarse
    factor = 60 / FINE_SECONDS if fine else 60 / COARSE_SECONDS
    points = {what: tuple(_averages(series(queue, what, visit.now), factor)) for what in (COUNTED if known else ())}
    delays = {
        what: tuple(_longest(rates.delays(queue, what, visit.now, fine=fine))) for what in (DELAYS if known else ())
    }
    minute = {what: rates.last_minute(queue, what, visit.now) for what in COUNTED}
    streams = await streams_like(visit, (figures,), pattern_of(queue.table))
    dead = await dead_letters_of(visit, queue)
    lines = problems(figures, streams.get(queue, Streams()), lately_of(rates, queue, visit.now), dead)
    fresh = rates.is_known(visit.now)
    return Now(figures, dead, lines, minute, points, delays, span, SPANS[span], fresh, rates.coverage)


def _averages(values: list[float | None], factor: float) -> list[float | None]:
    size = -(-len(values) // _POINTS)
    return [None if value is None else value * factor / size for value in thinned(values, _POINTS)]


def _longest(values: list[float | None]) -> Iterator[float | None]:
    """At most _POINTS of them: of each group of neighbours the longest."""
    size = -(-len(values) // _POINTS)
    for start in range(0, len(values), size):
        yield max((value for value in values[start : start + size] if value is not None), default=None)


async def read_queue(visit: Visit) -> QueuePage:
    """See the module."""
    queue = visit.queue
    now, messages = await read_now(visit), await _messages_or_mistake(visit)
    return QueuePage(queue, now, messages, _list_of(visit, now.figures, now.dead_letters, messages))


async def read_list(visit: Visit) -> MessageList:
    """The list of messages by itself, for an open page."""
    figures, dead = await figures_of(visit, visit.queue), await dead_letters_of(visit, visit.queue)
    return _list_of(visit, figures, dead, await _messages_or_mistake(visit))


async def _messages_or_mistake(visit: Visit) -> Messages:
    """A page of messages; where there is none, why, beside what was searched for: the rest of the queue's page is
    shown."""
    state, search = visit.choice("state", STATES, "unacked"), requested_search(visit)
    columns: tuple[Column, ...] = ()
    try:
        columns = await columns_of(visit, visit.queue)
        return await _messages_of(visit, columns)
    except StatementError as error:
        return Messages(state, refused=error.full_message, search=search)
    except TooSlow as error:
        refused = f"{error.message}. Choose a state with fewer messages, or search by a column that has an index"
    except BadInput as error:
        if not search.column:
            raise
        refused = str(error)
    return Messages(state, refused=refused, search=search, searchable=searchable(columns))


def _list_of(visit: Visit, figures: Figures, dead: QueueName | None, messages: Messages) -> MessageList:
    span = visit.choice("span", tuple(SPANS), "10 min")
    return MessageList(visit.queue, figures, dead, messages, visit.text("after", most=8000), span)


async def read_messages(visit: Visit) -> Messages:
    """A page of messages in one state. Raises BadInput, NotFound, DatabaseError."""
    return await _messages_of(visit, await columns_of(visit, visit.queue))


async def _messages_of(visit: Visit, columns: tuple[Column, ...]) -> Messages:
    queue, database = visit.queue, visit.session.database
    state = visit.choice("state", STATES, "unacked")
    after, search = visit.text("after", most=8000), requested_search(visit)
    matching = search_sql(search, columns)
    now_ns = int((await database.read(NOW)).rows[0]["now_ns"])
    listed, by = shown(columns), order(state, columns)
    where = " AND ".join(filter(None, (condition(state, now_ns), matching.sql)))
    values: list[Key] = [*matching.values]
    if after:
        further, keys = after_sql(by, from_text(after, len(by)))
        where, values = f"{where} AND {further}", values + keys
    rest = f"ORDER BY {order_sql(by)} LIMIT {ON_A_PAGE + 1}"
    answer = await database.read(select(queue, listed, LISTED_CHARACTERS, where, rest), *values)
    dead = "time_dead" in {each.name for each in columns}
    rows = answer.rows[:ON_A_PAGE]
    more = len(answer.rows) > ON_A_PAGE
    return Messages(
        state,
        tuple(message(row, now_ns, LISTED_CHARACTERS) for row in rows),
        tuple(each.name for each in listed if each.name not in SYSTEM_COLUMNS),
        answer.sql,
        as_text([rows[-1][each.column] for each in by]) if more else "",
        bool(after),
        dead=dead,
        search=search,
        searchable=searchable(columns),
        verbs=offered_for_state(state, dead=dead),
    )


async def columns_of(visit: Visit, queue: QueueName) -> tuple[Column, ...]:
    """The columns of a queue's table. Raises NotFound."""
    answer = await visit.session.database.read(f"SELECT * FROM {queue_sql(queue)} LIMIT 0")
    if not is_queue(answer.columns):
        raise NotFound(f"{queue} is not a queue")
    return answer.columns


async def pause(visit: Visit) -> Done:
    """Have the queue accept messages and deliver none."""
    return await _alter(visit, "PAUSE", "is paused: it accepts messages and delivers none", "resume")


async def resume(visit: Visit) -> Done:
    """Have it deliver again."""
    return await _alter(visit, "RESUME", "delivers again", "pause")


async def _alter(visit: Visit, verb: str, done: str, inverse: str) -> Done:
    queue, changes = visit.queue, True
    with contextlib.suppress(NotFound, DatabaseError):  # the statement says what is wrong
        changes = (await figures_of(visit, queue)).paused == (verb == "RESUME")
    answer = await visit.session.database.change(f"ALTER QUEUE {queue_sql(queue)} {verb}")
    forget_queues(visit)
    where = {"db": queue.database, "name": queue.table}
    undo = Undo(f"Undo: {inverse}", f"/queue/{inverse}", where) if changes else None
    notice = f"{queue} {done}{'' if changes else '. It was so before'}"
    return Done(notice, link("/queue", **where), answer.sql, undo=undo)


_SPAN = Parameter("span", f"of the rates, one of {', '.join(SPANS)}")
_STATE = Parameter("state", f"one of {', '.join(STATES)}; unacked by default")
_AFTER = Parameter("after", "the next page: `after` of the one before")

PAGES = (
    Page(
        read_queue, "One queue, with a page of its messages", "/queue", "queue.html", "/queue",
        (*QUEUE_PARAMETERS, _SPAN, _STATE, *PARAMETERS, _AFTER),
    ),
    Page(
        read_now, "Its figures, refreshed", "/queue/now", "queue_now.html", "/queue/now", (*QUEUE_PARAMETERS, _SPAN),
        refresh=True,
    ),
    Page(read_list, "Its list of messages, refreshed", "/queue/messages/now", "messages_list.html", refresh=True),
    Page(
        read_messages, "A page of a queue's messages", api="/messages",
        parameters=(*QUEUE_PARAMETERS, _STATE, *PARAMETERS, _AFTER),
    ),
)  # fmt: skip
ACTIONS = (
    Action(pause, "Pause a queue: it delivers nothing", "/queue/pause", "/queue/pause", QUEUE_PARAMETERS),
    Action(resume, "Resume a paused queue", "/queue/resume", "/queue/resume", QUEUE_PARAMETERS),
)
