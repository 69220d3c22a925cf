"""The actions on messages: ack, nack, release, reject, retry and redrive, of one message or of several of a page.

Three statements at most: the queue's columns, which have the type of the id; the verb; and, where it changed nothing,
TRACE MESSAGE, which explains why.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from console.database import Column, StatementError, queue_sql, without_values
from console.pages.keyset import Key
from console.pages.messages.message import ID_MAX, explain
from console.pages.messages.message_rows import STATES, guessed_id, id_value
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
from console.visits import QUEUE_PARAMETERS, Action, Done, Parameter, Visit
from engine.model.queue import QueueName


async def settle(verb: str, visit: Visit) -> Done:
    """Run the verb on the messages of the form. Raises BadInput, DatabaseError."""
    queue, ids = visit.queue, requested_ids(visit, ID_MAX)
    clauses = requested_clauses(visit, verb, len(ids))
    columns = await _columns(visit, queue)
    keys = [id_value(each, columns) if columns else guessed_id(each) for each in ids]
    source = await _source(visit, queue, keys, columns) if verb == "redrive" else None
    what = statement(verb, queue, keys, clauses)
    answer = await visit.session.database.change(what.sql, *what.values)
    why = ""
    if not answer.affected and len(ids) == 1:
        why = await _why(visit, queue, ids[0], keys[0])
    notice = outcome_text(verb, queue, ids, answer.affected, why)
    goto = _goto(visit, queue, ids, source if answer.affected else None)
    return Done(notice, goto, without_values(what.sql), {"changed": answer.affected}, answer.sql)


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
        (*QUEUE_PARAMETERS, *_IDS, *_FURTHER.get(verb, ())),
    )
    for verb in VERBS
)  # fmt: skip
