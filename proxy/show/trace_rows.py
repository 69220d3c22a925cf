"""TRACE MESSAGE: what the tables say of one message of a topic, for each of its groups, or of a queue, and what was
recorded of it. And the rows of TRACES. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.history.writer import HistoryState
from engine.model.attempts import failures, in_words
from engine.model.explanation import Explanation, MessageRow, moment
from engine.model.identity import id_text
from engine.model.queue import QueueSpec, SubscribeRequest, SubscriptionStatus
from engine.model.topics import Place
from engine.model.traced import SENT, Traced
from proxy.show.status_tables import Values

SeesUser = Callable[[str], bool]
"""Whether the session may know of the connections of that account."""

_HISTORY_MAX = 30  # of the last things that happened

_NO_MESSAGE = "the topic has no such message: never committed, or deleted"
_PLACES = {
    Place.UNREAD: ("unread", "the group has not read so far"),
    Place.AWAITED: ("awaited", "its id was not visible when the group read beyond it; it is read when it is"),
    Place.READ: (
        "done",
        "the group has read beyond it and holds it no more: acked, or from before the group's beginning or its SEEK",
    ),
}


def in_queue(
    group: str | None,
    enqueued: str | None,
    row: MessageRow,
    explanation: Explanation,
    holder: SubscriptionStatus | None,
) -> Values:
    """Of a message that is in the group's queue, or in a queue: without a group."""
    leased = explanation.state == "in_flight" and row.time_next_ns is not None
    until = moment(row.time_next_ns or 0) if leased else None
    who: Values = (None, None) if holder is None else (holder.connection_id, holder.consumer or None)
    return (group, explanation.state, enqueued, row.epoch, until, *who, row.last_error, _failed(row), explanation.text)


def not_in_queue(group: str, enqueued: str | None, place: Place, dead: bool | None) -> Values:
    """Of a message that is not there. `dead`: it is in the group's dead-letter queue; None: it may not be known."""
    state, text = _PLACES[place]
    if dead:
        state, text = "dead", "in the group's dead-letter queue"
    elif enqueued is None and place is not Place.AWAITED:
        state, text = "unknown", _NO_MESSAGE
    elif dead is None and place is Place.READ:
        text += "; or in its dead-letter queue, which this account may not read"
    return _said(group, state, enqueued, text)


def not_there(group: str | None, explanation: Explanation) -> Values:
    """Of a message that is not in its queue."""
    return _said(group, explanation.state, None, explanation.text)


def not_told(group: str, enqueued: str | None, problem: str) -> Values:
    """Of a group that cannot be asked."""
    return _said(group, None, enqueued, problem)


def _said(group: str | None, state: str | None, enqueued: str | None, text: str) -> Values:
    return (group, state, enqueued, None, None, None, None, None, None, text)


def _failed(row: MessageRow) -> str | None:
    """The failed attempts that the table keeps, in words."""
    kept = failures(row.failed_attempts) if row.failed_attempts else []
    return "; ".join(f"{each.get('attempt')}: {in_words(each)}" for each in kept) or None


def history(found: Sequence[Traced], sees: SeesUser, *, reasons: bool) -> str | None:
    """What happened to a message, in words; None where nothing was recorded. `reasons`: whether the account may read
    them."""
    told = [_told(traced, sees, reasons=reasons) for traced in found[-_HISTORY_MAX:]]
    earlier = len(found) - len(told)
    return "; ".join(([f"{earlier} more before"] if earlier else []) + told) or None


def _told(traced: Traced, sees: SeesUser, *, reasons: bool) -> str:
    perhaps = "" if traced.sure else " perhaps"
    delivery = f", delivery {traced.epoch}" if traced.epoch is not None else ""
    reason = f": {traced.reason}" if traced.reason and reasons else ""
    return f"{moment(traced.at_ns)}{perhaps} {traced.what}{_by(traced, sees)}{delivery}{reason}"


def _by(traced: Traced, sees: SeesUser) -> str:
    to = traced.receiver
    if to is None or not sees(to.user):
        return ""
    name = f"{to.consumer}, " if to.consumer else ""
    direction = "to" if traced.what == SENT else "by"
    return f" {direction} {name}connection {to.connection_id} ({to.user}@{to.host}) at {traced.place}"


def history_problem(state: HistoryState) -> str | None:
    """What is wrong with the history of a topic; None where nothing is."""
    dropped = f"events of its history that were dropped since the start: {state.dropped}" if state.recently else ""
    return "; ".join(text for text in (state.problem, dropped) if text) or None


def trace_values(traced: Traced, queue: QueueSpec | None, sees: SeesUser, *, reasons: bool) -> Values:
    """A row of TRACES. `queue`: None where it is of a topic itself. `reasons`: whether the account may read them."""
    name = traced.queue
    what = (moment(traced.at_ns), traced.what, int(traced.sure), traced.epoch)
    options = None if queue is None else queue.options
    group = (name.table, None) if options is None else (options.topic, options.consumer_group)
    own = (name.table, name.database, *group, id_text(traced.id))
    reason = (traced.reason or None) if reasons else None
    return (*own, *what, *_receiver(traced.receiver, sees), reason, traced.place)


def _receiver(to: SubscribeRequest | None, sees: SeesUser) -> Values:
    if to is None or not sees(to.user):
        return (None,) * 5
    return (to.connection_id, to.user, to.host, to.consumer or None, to.pid)
