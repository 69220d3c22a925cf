"""The actions on messages: ack, nack, release, reject, retry and redrive, of one message or of several of a page; and
the page that asks before several of them are changed.

Five statements at most: the queue's columns, which have the type of the id; the database's time and the states of the
messages before; the verb; and, where it changed nothing, TRACE MESSAGE, which explains why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from console.database import Column, StatementError, queue_sql, with_values, without_values
from console.pages.keyset import Key
from console.pages.messages.message import ID_MAX, explain
from console.pages.messages.message_rows import NOW, STATES, guessed_id, id_value, system_columns
from console.pages.messages.message_verbs import (
    IDS_MAX,
    VERBS,
    outcome_text,
    requested_clauses,
    requested_ids,
    statement,
)
from console.pages.queue import columns_of
from console.rendering import link
from console.sessions import Undo
from console.visits import QUEUE_PARAMETERS, Action, Done, Page, Parameter, Visit
from engine.model.queue import QueueName
from engine.model.states import state_of


@dataclass(frozen=True, slots=True)
class Question:
    """What the page asks: whether to run `verb` on these messages. `states`: how many of them are in each; `missing`:
    so many are not in the table. `list`: the state whose list the user comes from; `dead`: they are dead letters."""

    queue: QueueName
    verb: str
    ids: tuple[str, ...]
    states: Mapping[str, int]
    missing: int
    sql: str
    list: str
    dead: bool


async def read_question(verb: str, visit: Visit) -> Question:
    """See the module. Raises BadInput, DatabaseError."""
    queue, ids = visit.queue, requested_ids(visit, ID_MAX)
    columns = await _columns(visit, queue)
    keys = [id_value(each, columns) if columns else guessed_id(each) for each in ids]
    states = await _states(visit, queue, keys, columns)
    what = statement(verb, queue, keys, requested_clauses(visit, verb, len(ids)))
    return Question(
        queue, verb, ids, states, len(ids) - sum(states.values()) if columns else 0, with_values(*what),
        visit.choice("list", ("", *STATES), ""), "time_dead" in {column.name for column in columns},
    )  # fmt: skip


async def settle(verb: str, visit: Visit) -> Done:
    """Run the verb on the messages of the form. Raises BadInput, DatabaseError."""
    queue, ids = visit.queue, requested_ids(visit, ID_MAX)
    clauses = requested_clauses(visit, verb, len(ids))
    columns = await _columns(visit, queue)
    keys = [id_value(each, columns) if columns else guessed_id(each) for each in ids]
    source = await _source(visit, queue, keys, columns) if verb == "redrive" else None
    states = await _states(visit, queue, keys, columns)
    what = statement(verb, queue, keys, clauses)
    answer = await visit.session.database.change(what.sql, *what.values)
    why = ""
    if not answer.affected and len(ids) == 1:
        why = await _why(visit, queue, ids[0], keys[0])
    notice = outcome_text(verb, queue, ids, answer.affected, why)
    if answer.affected and states:
        notice = f"{notice} {states_text(states)}"
    goto = _goto(visit, queue, ids, source if answer.affected else None)
    undo = _undo(verb, queue, ids) if answer.affected else None
    return Done(notice, goto, without_values(what.sql), {"changed": answer.affected}, answer.sql, undo)


def states_text(states: Mapping[str, int]) -> str:
    """In which states messages were."""
    if sum(states.values()) == 1:
        return f"It was {next(iter(states)).replace('_', ' ')}."
    return "Before: " + ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in states.items()) + "."


def _undo(verb: str, queue: QueueName, ids: Sequence[str]) -> Undo | None:
    """What undoes it. An ack cannot be undone."""
    where = {"db": queue.database, "name": queue.table}
    if verb == "nack":
        return Undo("Undo: retry now", "/message/retry", {**where, **{f"id{n}": id_ for n, id_ in enumerate(ids, 1)}})
    if verb == "reject":
        return Undo("To the dead letters, to redrive", "/dead", where, link=True)
    return None


async def _states(visit: Visit, queue: QueueName, keys: Sequence[Key], columns: Sequence[Column]) -> Mapping[str, int]:
    """How many of these messages are in each state; nothing where the account may not read them."""
    if not columns:
        return {}
    database = visit.session.database
    now_ns = int((await database.read(NOW)).rows[0]["now_ns"])
    marks = ", ".join(["%s"] * len(keys))
    sql = f"SELECT {system_columns(columns)} FROM {queue_sql(queue)} WHERE id IN ({marks}) LIMIT {len(keys)}"
    return Counter(state_of(row, now_ns) for row in (await database.read(sql, *keys)).rows)


async def _columns(visit: Visit, queue: QueueName) -> tuple[Column, ...]:
    """None where the account may settle and not SELECT."""
    try:
        return await columns_of(visit, queue)
    except StatementError:
        return ()


async def _source(visit: Visit, queue: QueueName, keys: Sequence[Key], columns: Sequence[Column]) -> QueueName | None:
    """Where a dead letter comes from."""
    if len(keys) > 1 or "source" not in {column.name for column in columns}:
        return None
    sql = f"SELECT source FROM {queue_sql(queue)} WHERE id = %s LIMIT 1"
    rows = (await visit.session.database.read(sql, keys[0])).rows
    return QueueName(queue.database, str(rows[0]["source"])) if rows and rows[0]["source"] else None


async def _why(visit: Visit, queue: QueueName, id_: str, key: Key) -> str:
    """What the message is, as TRACE MESSAGE has it; empty where the account may not ask."""
    try:
        explanation = await explain(visit, queue, key)
    except StatementError:
        return ""
    if explanation is None:
        return ""
    return f"Message {id_} of {queue} is {explanation.state.replace('_', ' ')}: {explanation.explanation}"


def _goto(visit: Visit, queue: QueueName, ids: Sequence[str], source: QueueName | None) -> str:
    """The message, where it is now; the list, where the form is one."""
    if state := visit.choice("list", ("", *STATES), ""):
        return link("/queue", db=queue.database, name=queue.table, state=state) + "#messages"
    if len(ids) > 1:
        return link("/queue", db=queue.database, name=queue.table)
    here = source or queue
    return link("/message", db=here.database, name=here.table, id=ids[0])


_IDS = (
    Parameter("id", "the message's id"),
    Parameter("id1", f"of several messages the first, up to id{IDS_MAX}; in place of `id`"),
)
_EPOCH = Parameter("epoch", "the delivery that is meant, by its `epoch`; without it, the current one")
_TOKEN = Parameter("lease_token", "the same, by its `lease_token`: it comes before `epoch`")
_REASON = Parameter("reason", "why, for the failed attempts and the errors of the message")
_DELAY = Parameter("delay", "when it comes again: seconds, or 500ms, 30s, 5m; without it, after the queue's backoff")
_FURTHER = {"nack": (_EPOCH, _TOKEN, _DELAY, _REASON), "release": (_EPOCH, _TOKEN), "reject": (_REASON,)}
_SUMMARIES = {
    "ack": "Ack messages: they are not sent again",
    "nack": "Mark deliveries as failed",
    "release": "Give back messages that are in flight",
    "reject": "Send messages to the dead letters",
    "retry": "Make messages due now that wait for a later time",
    "redrive": "Put dead letters back into their queue",
}

ACTIONS = tuple(
    Action(
        partial(settle, verb), _SUMMARIES[verb], f"/message/{verb}", f"/message/{verb}",
        (*QUEUE_PARAMETERS, *_IDS, *_FURTHER.get(verb, ())), "/message",
    )
    for verb in VERBS
)  # fmt: skip
PARTS_OF_FORMS = tuple(
    Page(partial(read_question, verb), f"Whether to {verb} messages", f"/message/ask/{verb}", "message_ask.html")
    for verb in VERBS
    if verb != "nack"
)
