"""Redrive or discard one dead letter, those with one error, or all: a page that asks for confirmation, and an action in
pieces.

A statement concerns PIECE messages at most: it holds locks, and has a page's seconds. The action leads back to the
page, which says how many are done and continues automatically until the user stops it. Letters that died after the
question are not changed: so it ends, also where messages that are put back fail again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from console.database import Column, StatementError, queue_sql, with_values, without_values
from console.pages.messages.dead_letters import ERROR_CHARACTERS, UNACKED
from console.pages.messages.matching import DONE_MAX, PIECE, TIME_MAX, count_of, made_before
from console.pages.messages.message import ID_MAX
from console.pages.messages.message_rows import NOW, id_value
from console.pages.messages.message_verbs import Statement
from console.pages.queue import columns_of
from console.rendering import link
from console.visits import QUEUE_PARAMETERS, Action, BadInput, Done, Page, Parameter, Visit
from engine.model.queue import QueueName

OF = ("error", "like", "no_error", "id", "all")
WHATS = ("redrive", "discard")
_DONE = {"redrive": "put back into the queue", "discard": "discarded"}


@dataclass(frozen=True, slots=True)
class Selection:
    """Which dead letters. `error`: the first ERROR_CHARACTERS of it, or a pattern that those fit; `id`: of one.
    `at_ns`: when they were counted; 0: it is not known, or does not matter."""

    of: str
    error: str = ""
    id: str = ""
    at_ns: int = 0


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What the page asks. `count`: how many there are, at least so many where it is not `exact`; `piece`: of one
    statement. `going`: it continues automatically."""

    queue: QueueName
    what: str
    chosen: Selection
    count: int
    exact: bool
    piece: int
    sql: str
    done: int
    going: bool
    refused: str = ""


def chosen(visit: Visit) -> Selection:
    """As the parameters say. Raises BadInput."""
    of = visit.choice("of", OF, "")
    id_ = visit.text("id", most=ID_MAX) if of == "id" else ""
    if of == "id" and not id_:
        raise BadInput("id: give the id of a dead letter")
    most = {"error": ERROR_CHARACTERS, "like": 2 * ERROR_CHARACTERS}.get(of)
    at_ns = visit.whole("at", 0, TIME_MAX)
    return Selection(of, "" if most is None else visit.text("error", most=most), id_, at_ns)


async def _timed(visit: Visit, of: Selection) -> Selection:
    """The same as of now, where it is the first question; of one message it does not matter when it died."""
    if of.at_ns or of.of == "id":
        return of
    return replace(of, at_ns=int((await visit.session.database.read(NOW)).rows[0]["now_ns"]))


def condition(of: Selection, columns: Sequence[Column]) -> Statement:
    """As SQL, empty for all of a table that does not have when they died. Raises BadInput."""
    which = _condition(of, columns)
    before = made_before(of.at_ns, {"time_dead"}.intersection(column.name for column in columns)) if of.at_ns else ""
    return Statement(" AND ".join(filter(None, (which.sql, before))), which.values)


def _condition(of: Selection, columns: Sequence[Column]) -> Statement:
    match of.of:
        case "error":
            return Statement(f"SUBSTRING(last_error, 1, {ERROR_CHARACTERS}) = %s", (of.error,))
        case "like":
            return Statement(f"SUBSTRING(last_error, 1, {ERROR_CHARACTERS}) LIKE %s", (of.error,))
        case "no_error":
            return Statement("last_error IS NULL", ())
        case "id":
            return Statement("id = %s", (id_value(of.id, columns),))
        case _:
            return Statement("", ())


def piece(what: str, queue: QueueName, where: Statement) -> Statement:
    """The statement of one piece."""
    if what == "redrive":
        condition = f" WHERE {where.sql}" if where.sql else ""
        return Statement(f"REDRIVE {queue_sql(queue)}{condition} LIMIT {PIECE}", where.values)
    condition = f"{where.sql} AND {UNACKED}" if where.sql else UNACKED
    rest = f"ORDER BY priority, time_next, id LIMIT {PIECE}"
    return Statement(f"UPDATE {queue_sql(queue)} SET state = 'acked' WHERE {condition} {rest}", where.values)


async def read_confirmation(visit: Visit) -> Confirmation:
    """See the module."""
    queue, of = visit.queue, chosen(visit)
    what = visit.choice("what", WHATS, "")
    done, going = visit.whole("done", 0, DONE_MAX), visit.choice("going", ("", "1"), "") == "1"
    try:
        columns, of = await columns_of(visit, queue), await _timed(visit, of)
        where = condition(of, columns)
        wanted = f"{where.sql} AND {UNACKED}" if where.sql else UNACKED
        count, exact = await count_of(visit, queue, Statement(wanted, where.values))
    except StatementError as error:
        return Confirmation(queue, what, of, 0, True, 0, "", done, False, error.full_message)
    sql = with_values(*piece(what, queue, where))
    return Confirmation(queue, what, of, count, exact, min(count, PIECE), sql, done, going and count > 0)


async def _change(what: str, visit: Visit) -> Done:
    """One piece. Raises BadInput, DatabaseError."""
    queue, of, before = visit.queue, chosen(visit), visit.whole("done", 0, DONE_MAX)
    if before and not of.at_ns:
        raise BadInput("at: give that of the piece before, so that it ends where messages fail again")
    of = await _timed(visit, of)
    statement = piece(what, queue, condition(of, await columns_of(visit, queue)))
    answer = await visit.session.database.change(statement.sql, *statement.values)
    done, more = before + answer.affected, answer.affected >= PIECE
    goto = _page(queue, what, of, done) if more else link("/dead", db=queue.database, name=queue.table)
    letters = "dead letter is" if done == 1 else "dead letters are"
    notice = f"{done} {letters} {_DONE[what]}." if done else "Nothing was changed: another client was first."
    if done and what == "discard" and not more:
        notice = f"{notice} {'It stays' if done == 1 else 'They stay'} in {queue} as acked until purge_after."
    result = {"changed": answer.affected, "done_so_far": done, "more": more, "at": of.at_ns}
    return Done(notice, goto, without_values(statement.sql), result, answer.sql)


def _page(queue: QueueName, what: str, of: Selection, done: int) -> str:
    return link(
        "/dead/ask", db=queue.database, name=queue.table, what=what, of=of.of, error=of.error, id=of.id,
        at=of.at_ns or "", done=done, going=1,
    )  # fmt: skip


_CHOSEN = (
    Parameter("of", f"which dead letters, one of {', '.join(OF)}", required=True),
    Parameter("error", f"with `of` error: its first {ERROR_CHARACTERS} characters; with `like`: a pattern of LIKE"),
    Parameter("id", "with `of` id: the message's id"),
    Parameter(
        "at",
        "only those that died up to this time, in nanoseconds: `at_ns` of /dead/ask, or `at` of the piece"
        " before; by default now",
    ),
    Parameter("done", "how many were done by the pieces before"),
)
_WHAT = Parameter("what", f"one of {', '.join(WHATS)}", required=True)

PAGES = (
    Page(
        read_confirmation, "How many dead letters a redrive or a discard would change", "/dead/ask", "dead_ask.html",
        "/dead/ask", (*QUEUE_PARAMETERS, _WHAT, *_CHOSEN),
    ),
)  # fmt: skip
ACTIONS = (
    Action(
        partial(_change, "redrive"), f"Put dead letters back into their queue, {PIECE} at a time", "/dead/redrive",
        "/dead/redrive", (*QUEUE_PARAMETERS, *_CHOSEN), "/dead/ask",
    ),
    Action(
        partial(_change, "discard"), f"Ack dead letters, {PIECE} at a time", "/dead/discard", "/dead/discard",
        (*QUEUE_PARAMETERS, *_CHOSEN), "/dead/ask",
    ),
)  # fmt: skip
