"""What may be done to messages: the statement of each verb by ids, and the text of its outcome. Pure.

The statements are those of docs/sql.md. None of them is more than one UPDATE, but for REDRIVE, which holds as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from console.database import queue_sql
from console.pages.keyset import Key
from console.visits import BadInput, Visit
from engine.model.lease_token import TOKEN_MAX
from engine.model.queue import ERROR_CHARACTERS, QueueName

IDS_MAX = 50
"""Of one action: as many as a page of messages has."""

_DELAY_MAX = 40

VERBS = ("ack", "nack", "release", "reject", "retry", "redrive")

_DONE = {
    "ack": ("is acked: it is not sent again", "are acked: they are not sent again"),
    "nack": ("is marked as failed: it comes again after the delay", "are marked as failed: they come again"),
    "release": ("is given back: it is due now, and that delivery does not count", "are given back: they are due now"),
    "reject": ("goes to the dead letters", "go to the dead letters"),
    "retry": ("is due now", "are due now"),
    "redrive": ("is put back into its queue", "are put back into their queue"),
}
_CONCERNED = {
    "ack": "messages that are not acked",
    "nack": "messages that were delivered and are not acked",
    "release": "messages in flight",
    "reject": "messages that are not acked",
    "retry": "messages that wait for a later time",
    "redrive": "dead letters that are not acked",
}
_OFFERED = {
    "ready": ("ack", "reject"),
    "in_flight": ("ack", "nack", "release", "reject"),
    "later": ("retry", "ack", "reject"),
    "retrying": ("retry", "ack", "nack", "reject"),
    "scheduled": ("retry", "ack", "reject"),
    "parked": ("ack",),
    "dead": ("redrive", "ack"),
    "not known": ("ack", "nack", "release", "reject", "retry"),
}


class Clauses(NamedTuple):
    """The clauses of a statement besides the ids. `epoch` or `lease_token`: of one message, the delivery that is meant;
    `delay` and `reason` as in the form, empty by default."""

    epoch: int = 0
    delay: str = ""
    reason: str = ""
    lease_token: int = 0


class Statement(NamedTuple):
    """A statement with its parameters."""

    sql: str
    values: tuple[Key, ...]


def offered(state: str, epoch: int) -> tuple[str, ...]:
    """The verbs that change a message in this state. `epoch`: its deliveries so far."""
    verbs = _OFFERED.get(state, ())
    return (*verbs[:1], "nack", *verbs[1:]) if state == "ready" and epoch else verbs


def offered_for_state(state: str, *, dead: bool) -> tuple[str, ...]:
    """The verbs for all messages of a list, whose state is one of STATES. `dead`: they are dead letters."""
    if state in ("acked", "all"):
        return ()
    if dead:
        return _OFFERED["dead"]
    return _OFFERED["not known" if state == "unacked" else state]


def requested_ids(visit: Visit, most: int) -> tuple[str, ...]:
    """The fields `id`, `id1`, `id2`, ... of a form, each once. Raises BadInput."""
    names = ("id", *(f"id{n}" for n in range(1, IDS_MAX + 1)))
    ids = dict.fromkeys(text for name in names if (text := visit.text(name, most=most)))
    if not ids:
        raise BadInput("id: choose a message, or several")
    if len(ids) > IDS_MAX:
        raise BadInput(f"id: at most {IDS_MAX} messages at a time")
    return tuple(ids)


def requested_clauses(visit: Visit, verb: str, ids: int) -> Clauses:
    """The other fields of the form, as far as the verb has them. Raises BadInput."""
    of_delivery = verb in ("nack", "release")
    epoch = visit.whole("epoch", 0, 999_999_999) if of_delivery else 0
    lease_token = visit.whole("lease_token", 0, TOKEN_MAX + 1) if of_delivery else 0
    for name, number in (("epoch", epoch), ("lease_token", lease_token)):
        if number and ids > 1:
            raise BadInput(f"{name}: of one message only")
    return Clauses(
        epoch,
        visit.text("delay", most=_DELAY_MAX).strip() if verb == "nack" else "",
        visit.text("reason", most=ERROR_CHARACTERS).strip() if verb in ("nack", "reject") else "",
        lease_token,
    )


def statement(verb: str, queue: QueueName, keys: Sequence[Key], clauses: Clauses) -> Statement:
    """What is run."""
    marks = ", ".join(["%s"] * len(keys))
    if verb in ("retry", "redrive"):
        return statement_where(verb, queue, Statement(f"id IN ({marks})", tuple(keys)), clauses)
    if clauses.lease_token:
        where = Statement("id = %s AND lease_token = %s", (*keys, clauses.lease_token))
        return statement_where(verb, queue, where, clauses)
    if clauses.epoch:
        return statement_where(verb, queue, Statement("id = %s AND epoch = %s", (*keys, clauses.epoch)), clauses)
    return _with_clauses(f"{verb.upper()} {queue_sql(queue)} {marks}", keys, clauses)


def statement_where(verb: str, queue: QueueName, where: Statement, clauses: Clauses) -> Statement:
    """The same for the messages that fit a condition."""
    now = " NOW" if verb == "retry" else ""
    return _with_clauses(f"{verb.upper()} {queue_sql(queue)}{now} WHERE {where.sql}", where.values, clauses)


def _with_clauses(sql: str, keys: Sequence[Key], clauses: Clauses) -> Statement:
    values = [*keys]
    for word, value in (("DELAY", clauses.delay), ("REASON", clauses.reason)):
        if value:
            sql += f" {word} %s"
            values.append(value)
    return Statement(sql, tuple(values))


def all_outcome_text(verb: str, queue: QueueName, seen: int, changed: int) -> str:
    """What all that fitted have come to: how many were `seen`, and how many of them changed."""
    one, many = _DONE[verb]
    outcome = "Nothing was changed."
    if changed:
        outcome = f"1 message of {queue} {one}." if changed == 1 else f"{changed} messages of {queue} {many}."
    if seen == changed:
        return outcome
    return f"{outcome} Of {seen} that matched, only {_CONCERNED[verb]} are changed; another client may have been first."


def outcome_text(verb: str, queue: QueueName, ids: Sequence[str], changed: int, why: str = "") -> str:
    """What the statement came to. `why`: of one message that was not changed, what it is."""
    one, many = _DONE[verb]
    if len(ids) == 1:
        if changed:
            return f"Message {ids[0]} of {queue} {one}."
        return f"Nothing was changed. {why or f'Message {ids[0]} of {queue} is none of the {_CONCERNED[verb]}.'}"
    if changed == len(ids):
        return f"{changed} messages of {queue} {many}."
    rest = f"Only {_CONCERNED[verb]} are changed; another client may have been first."
    if not changed:
        return f"Nothing was changed. {rest}"
    return f"{changed} of {len(ids)} messages of {queue} {one if changed == 1 else many}. {rest}"
