"""An action on all messages of a state that match a search: a page that asks for confirmation, and the action in
pieces.

A piece reads the ids of at most PIECE messages, in their order, and runs the verb on them with the same condition, so
that a message that another client changes in between is not changed. The next piece begins after the last id, and none
goes beyond the largest id that there was when the page asked: so it ends, also where messages come all the time. An id
that a client makes may be smaller than those before it, so the time of the question bounds the pieces as well: a
message that was made later, or that was in another state at that time, is not changed.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from console.database import Column, queue_sql, with_values, without_values
from console.pages.keyset import key_of
from console.pages.messages.message import ID_MAX
from console.pages.messages.message_rows import NOW, STATES, condition, id_text, id_value
from console.pages.messages.message_verbs import (
    VERBS,
    Clauses,
    Statement,
    all_outcome_text,
    offered_for_state,
    requested_clauses,
    statement_where,
)
from console.pages.messages.search import PARAMETERS, Search, requested_search, search_sql
from console.pages.queue import columns_of
from console.rendering import link
from console.sessions import Undo
from console.visits import QUEUE_PARAMETERS, Action, BadInput, Done, Page, Parameter, Visit
from engine.model.lease_token import TOKEN_COLUMN
from engine.model.queue import QueueName

# Actions on many messages in pieces: how large a piece is, and how many messages are left to do.

PIECE = 500
COUNTED_MAX = 100_000
TIME_MAX = (1 << 63) - 1
DONE_MAX = 999_999_999


class Count(NamedTuple):
    """How many messages fit a condition; at least so many where it is not `exact`."""

    messages: int
    exact: bool


async def count_of(visit: Visit, queue: QueueName, where: Statement) -> Count:
    """Counted up to COUNTED_MAX. Raises DatabaseError."""
    rows = f"SELECT 1 AS one FROM {queue_sql(queue)} WHERE {where.sql} LIMIT {COUNTED_MAX + 1}"
    answer = await visit.session.database.read(f"SELECT COUNT(*) AS n FROM ({rows}) AS counted", *where.values)
    counted = int(answer.rows[0]["n"])
    return Count(min(counted, COUNTED_MAX), counted <= COUNTED_MAX)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which messages: those of a state that match a search, with ids after `after` and up to `until`, as addresses have
    ids. `at_ns`: when they were counted; they were there and in that state then."""

    state: str
    search: Search
    after: str = ""
    until: str = ""
    at_ns: int = 0


@dataclass(frozen=True, slots=True)
class MatchingConfirmation:
    """What the page asks. `count`: how many match, at least so many where it is not `exact`. `done`: how many the
    pieces before have changed, of `seen`. `going`: it continues automatically."""

    queue: QueueName
    verb: str
    chosen: Selection
    clauses: Clauses
    count: int
    exact: bool
    piece: int
    sql: str
    done: int
    seen: int
    going: bool
    bounded: bool = True
    """Whether the table has the time at which a message was made."""

    @property
    def list_address(self) -> str:
        """The list that shows them."""
        return _list(self.queue, self.chosen)

    @property
    def stop_address(self) -> str:
        """This page, without continuing automatically."""
        return _page(self.queue, self.verb, self.chosen, self.clauses, self.done, self.seen, going=False)


def selection_of(visit: Visit) -> Selection:
    """As the parameters say. Raises BadInput."""
    state = visit.choice("state", STATES, "unacked")
    return Selection(
        state, requested_search(visit), visit.text("after", most=ID_MAX), visit.text("until", most=ID_MAX),
        visit.whole("at", 0, TIME_MAX),
    )  # fmt: skip


def _condition(of: Selection, columns: Sequence[Column], now_ns: int) -> Statement:
    """Of the state, now and at the time of the count, and of the search, without the ids. Raises BadInput."""
    search = search_sql(of.search, columns)
    states = dict.fromkeys((condition(of.state, now_ns), condition(of.state, of.at_ns)))
    names = {column.name for column in columns}
    made = made_before(of.at_ns, names)
    leased = f"{TOKEN_COLUMN} <= {of.at_ns // 1000}" if of.state == "in_flight" and TOKEN_COLUMN in names else ""
    return Statement(" AND ".join(filter(None, (*states, made, leased, search.sql))), search.values)


def made_before(at_ns: int, columns: Container[str]) -> str:
    """That a message, or a dead letter, was there at that time; empty where the table does not have it."""
    column = next((name for name in ("time_dead", "time_created") if name in columns), "")
    return f"COALESCE({column}, 0) <= {at_ns}" if column else ""


def _in_range(of: Selection, columns: Sequence[Column], where: Statement) -> Statement:
    """The same of the ids that are left. Raises BadInput."""
    sql, values = where
    for sign, text in ((">", of.after), ("<=", of.until)):
        if text:
            sql, values = f"{sql} AND id {sign} %s", (*values, id_value(text, columns))
    return Statement(sql, values)


def _check(verb: str, of: Selection, columns: Sequence[Column]) -> None:
    # A dead-letter queue that was made by hand may lack that column.
    dead = verb == "redrive" or "time_dead" in {column.name for column in columns}
    if verb not in offered_for_state(of.state, dead=dead):
        raise BadInput(f"state: {verb.upper()} changes no {'dead letters' if dead else 'messages'} that are {of.state}")


async def read_confirmation(visit: Visit) -> MatchingConfirmation:
    """See the module. Raises BadInput, NotFound, DatabaseError."""
    queue, of, database = visit.queue, selection_of(visit), visit.session.database
    verb = visit.choice("verb", VERBS, "")
    clauses = requested_clauses(visit, verb, 2)
    done, seen = visit.whole("done", 0, DONE_MAX), visit.whole("seen", 0, DONE_MAX)
    columns = await columns_of(visit, queue)
    _check(verb, of, columns)
    if not of.until:
        newest = (await database.read(f"SELECT MAX(id) AS id FROM {queue_sql(queue)}")).rows[0]["id"]
        of = replace(of, until="" if newest is None else id_text(newest))
    now_ns = int((await database.read(NOW)).rows[0]["now_ns"])
    of = replace(of, at_ns=of.at_ns or now_ns)
    where = _condition(of, columns, now_ns)
    count, exact = await count_of(visit, queue, _in_range(of, columns, where))
    return MatchingConfirmation(
        queue, verb, of, clauses, count, exact, min(count, PIECE),
        with_values(*statement_where(verb, queue, where, clauses)), done, seen,
        visit.choice("going", ("", "1"), "") == "1" and count > 0,
        bounded=bool(made_before(of.at_ns, [column.name for column in columns])),
    )  # fmt: skip


async def _change(verb: str, visit: Visit) -> Done:
    """One piece. Raises BadInput, DatabaseError."""
    queue, of, database = visit.queue, selection_of(visit), visit.session.database
    clauses = requested_clauses(visit, verb, 2)
    before, seen = visit.whole("done", 0, DONE_MAX), visit.whole("seen", 0, DONE_MAX)
    if not of.until or not of.at_ns:
        raise BadInput("until and at: give those of /messages/ask, so that only what was counted is changed")
    columns = await columns_of(visit, queue)
    _check(verb, of, columns)
    where = _condition(of, columns, int((await database.read(NOW)).rows[0]["now_ns"]))
    wanted = _in_range(of, columns, where)
    answer = await database.read(
        f"SELECT id FROM {queue_sql(queue)} WHERE {wanted.sql} ORDER BY id LIMIT {PIECE}", *wanted.values
    )
    ids = [key_of(row["id"]) for row in answer.rows]
    changed = 0
    if ids:
        marks = ", ".join(["%s"] * len(ids))
        piece = statement_where(
            verb, queue, Statement(f"id IN ({marks}) AND {where.sql}", (*ids, *where.values)), clauses
        )
        changed = (await database.change(piece.sql, *piece.values)).affected
    done, seen, more = before + changed, seen + len(ids), len(ids) == PIECE
    further = replace(of, after=id_text(ids[-1]) if ids else of.after)
    result = {
        "changed": changed, "done_so_far": done, "more": more,
        "after": further.after, "until": of.until, "at": of.at_ns,
    }  # fmt: skip
    shown = statement_where(verb, queue, Statement(f"id IN ({len(ids)} ids) AND {where.sql}", where.values), clauses)
    goto = _page(queue, verb, further, clauses, done, seen, going=True) if more else _list(queue, of)
    notice = all_outcome_text(verb, queue, seen, done)
    if done and of.state not in ("all", "unacked"):
        notice = f"{notice} {'It was' if done == 1 else 'They were'} {of.state.replace('_', ' ')}."
    undo = _undo(verb, queue, done, more=more)
    return Done(notice, goto, without_values(shown.sql), result, with_values(*shown), undo)


def _undo(verb: str, queue: QueueName, done: int, *, more: bool) -> Undo | None:
    """Where all of them can be put back, once there are no more to change."""
    if verb != "reject" or not done or more:
        return None
    where = {"db": queue.database, "name": queue.table}
    return Undo("To the dead letters, to redrive", "/dead", where, link=True)


def _parameters(queue: QueueName, of: Selection) -> dict[str, object]:
    search = of.search
    return {
        "db": queue.database, "name": queue.table, "state": of.state,
        "column": search.column, "test": search.test if search.column else "", "value": search.value,
    }  # fmt: skip


def _list(queue: QueueName, of: Selection) -> str:
    return link("/queue", **_parameters(queue, of)) + "#messages"


def _page(queue: QueueName, verb: str, of: Selection, clauses: Clauses, done: int, seen: int, *, going: bool) -> str:
    return link(
        "/messages/ask", **_parameters(queue, of), verb=verb, after=of.after, until=of.until, at=of.at_ns,
        delay=clauses.delay, reason=clauses.reason, done=done or "", seen=seen or "", going=1 if going else "",
    )  # fmt: skip


_CHOSEN = (
    Parameter("state", f"one of {', '.join(STATES)}; unacked by default"),
    *PARAMETERS,
    Parameter("delay", "with nack: when they come again; without it, after the queue's backoff"),
    Parameter("reason", "with nack and reject: why"),
    Parameter("after", "only ids after this one: `after` of the piece before"),
    Parameter("done", "how many were changed by the pieces before"),
    Parameter("seen", "of how many"),
)
_UNTIL, _AT = "only ids up to this one", "only what was there, and in that state, at this time in nanoseconds"

PAGES = (
    Page(
        read_confirmation, "How many messages of a state match a search", "/messages/ask", "messages_ask.html",
        "/messages/ask",
        (*QUEUE_PARAMETERS, Parameter("verb", f"one of {', '.join(VERBS)}", required=True), *_CHOSEN,
         Parameter("until", f"{_UNTIL}; by default the largest that there is"),
         Parameter("at", f"{_AT}; by default now")),
    ),
)  # fmt: skip
ACTIONS = tuple(
    Action(
        partial(_change, verb), f"{verb.capitalize()} all messages of a state that match a search, {PIECE} at a time",
        f"/messages/{verb}", f"/messages/{verb}",
        (*QUEUE_PARAMETERS, *_CHOSEN, Parameter("until", f"{_UNTIL}: `until` of /messages/ask", required=True),
         Parameter("at", f"{_AT}: `at_ns` of /messages/ask", required=True)),
        "/messages/ask",
    )
    for verb in VERBS
)  # fmt: skip
