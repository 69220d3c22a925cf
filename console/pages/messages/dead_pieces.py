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

from console.database import Column, queue_sql, with_values, without_values
from console.pages.keyset import Key, key_of
from console.pages.messages.dead_letters import ERROR_CHARACTERS, UNACKED
from console.pages.messages.matching import DONE_MAX, PIECE, TIME_MAX, count_of, made_before
from console.pages.messages.message import ID_MAX
from console.pages.messages.message_rows import NOW, id_value
from console.pages.messages.message_verbs import Statement
from console.pages.queue import columns_of
from console.rendering import link
from console.visits import QUEUE_PARAMETERS, Action, BadInput, Done, Page, Parameter, Visit
from engine.model.key_range import SLOT_COLUMN
from engine.model.queue import QueueName

OF = ("error", "like", "no_error", "id", "all")
WHATS = ("redrive", "discard")
_FIRST = f"ORDER BY priority, time_next, id LIMIT {PIECE}"
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


def piece(what: str, queue: QueueName, where: Statement, *, over_shards: bool = False) -> Statement:
    """The statement of one piece. `over_shards`: a LIMIT would be that of each shard: the condition names ids."""
    if what == "redrive":
        condition, limit = f" WHERE {where.sql}" if where.sql else "", f" LIMIT {PIECE}"
        return Statement(f"REDRIVE {queue_sql(queue)}{condition}{'' if over_shards else limit}", where.values)
    rest = "" if over_shards else f" {_FIRST}"
    return Statement(f"UPDATE {queue_sql(queue)} SET state = 'acked' WHERE {_unacked(where)}{rest}", where.values)


def _unacked(where: Statement) -> str:
    return f"{where.sql} AND {UNACKED}" if where.sql else UNACKED


def _is_over_shards(columns: Sequence[Column]) -> bool:
    """Whether it is the dead-letter queue of a queue over several shards of a Vitess: only there they have a slot."""
    return SLOT_COLUMN in {column.name for column in columns}


async def _first(visit: Visit, where: Statement) -> tuple[Sequence[Key], Statement]:
    """The ids of one piece, and the condition on these alone."""
    sql = f"SELECT id FROM {queue_sql(visit.queue)} WHERE {_unacked(where)} {_FIRST}"
    ids = [key_of(row["id"]) for row in (await visit.session.database.read(sql, *where.values)).rows]
    named = f"id IN ({', '.join(['%s'] * len(ids)) or 'NULL'})"
    return ids, Statement(" AND ".join(filter(None, (named, where.sql))), (*ids, *where.values))


async def read_confirmation(visit: Visit) -> Confirmation:
    """See the module. Raises BadInput, NotFound, DatabaseError."""
    queue, of = visit.queue, chosen(visit)
    what = visit.choice("what", WHATS, "")
    done, going = visit.whole("done", 0, DONE_MAX), visit.choice("going", ("", "1"), "") == "1"
    columns, of = await columns_of(visit, queue), await _timed(visit, of)
    where = condition(of, columns)
    count, exact = await count_of(visit, queue, Statement(_unacked(where), where.values))
    sql = with_values(*piece(what, queue, where, over_shards=_is_over_shards(columns)))
    return Confirmation(queue, what, of, count, exact, min(count, PIECE), sql, done, going and count > 0)


async def _change(what: str, visit: Visit) -> Done:
    """One piece. Raises BadInput, DatabaseError."""
    queue, of, before = visit.queue, chosen(visit), visit.whole("done", 0, DONE_MAX)
    if before and not of.at_ns:
        raise BadInput("at: give that of the piece before, so that it ends where messages fail again")
    of = await _timed(visit, of)
    columns = await columns_of(visit, queue)
    where, over_shards = condition(of, columns), _is_over_shards(columns)
    ids, named = await _first(visit, where) if over_shards else ((), where)
    statement = piece(what, queue, named, over_shards=over_shards)
    answer = await visit.session.database.change(statement.sql, *statement.values)
    done, more = before + answer.affected, max(answer.affected, len(ids)) >= PIECE
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
