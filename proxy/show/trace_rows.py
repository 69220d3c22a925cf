"""TRACE MESSAGE: what the tables have of one message of a topic, for each of its groups, or of a queue, and what was
recorded of it. And the rows of TRACES. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.history.writer import HistoryState
from engine.model.attempts import describe_failure, failures
from engine.model.explanation import Explanation, MessageRow, moment
from engine.model.identity import id_text
from engine.model.queue import QueueSpec, ReceiverIdentity, SubscriptionStatus
from engine.model.topics import Place
from engine.model.trace_event import SENT, TraceEvent
from proxy.show.status_tables import Values

CanSeeUser = Callable[[str], bool]
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
    who: Values = (None, None)
    if holder is not None:
        who = (holder.receiver.connection_id, holder.receiver.consumer or None)
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
    return _values(group, state, enqueued, text)


def not_there(group: str | None, explanation: Explanation) -> Values:
    """Of a message that is not in its queue."""
    return _values(group, explanation.state, None, explanation.text)


def unknown_group(group: str, enqueued: str | None, problem: str) -> Values:
    """Of a group that cannot be queried."""
    return _values(group, None, enqueued, problem)


def _values(group: str | None, state: str | None, enqueued: str | None, text: str) -> Values:
    return (group, state, enqueued, None, None, None, None, None, None, text)


def _failed(row: MessageRow) -> str | None:
    """The failed attempts that the table stores, as text."""
    attempts = failures(row.failed_attempts) if row.failed_attempts else []
    return "; ".join(f"{each.get('attempt')}: {describe_failure(each)}" for each in attempts) or None


def history(events: Sequence[TraceEvent], can_see: CanSeeUser, *, reasons: bool) -> str | None:
    """The history of a message, as text; None where nothing was recorded. `reasons`: whether the account may read
    them."""
    texts = [_event_text(traced, can_see, reasons=reasons) for traced in events[-_HISTORY_MAX:]]
    earlier = len(events) - len(texts)
    return "; ".join(([f"{earlier} more before"] if earlier else []) + texts) or None


def _event_text(traced: TraceEvent, can_see: CanSeeUser, *, reasons: bool) -> str:
    perhaps = "" if traced.sure else " perhaps"
    delivery = f", delivery {traced.epoch}" if traced.epoch is not None else ""
    reason = f": {traced.reason}" if traced.reason and reasons else ""
    return f"{moment(traced.at_ns)}{perhaps} {traced.what}{_by(traced, can_see)}{delivery}{reason}"


def _by(traced: TraceEvent, can_see: CanSeeUser) -> str:
    to = traced.receiver
    if to is None or not can_see(to.user):
        return ""
    name = f"{to.consumer}, " if to.consumer else ""
    direction = "to" if traced.what == SENT else "by"
    return f" {direction} {name}connection {to.connection_id} ({to.user}@{to.host}) at {traced.place}"


def history_problem(state: HistoryState) -> str | None:
    """What is wrong with the history of a topic; None where nothing is."""
    dropped = f"events of its history that were dropped since the start: {state.dropped}" if state.recently else ""
    return "; ".join(text for text in (state.problem, dropped) if text) or None


def trace_values(traced: TraceEvent, queue: QueueSpec | None, can_see: CanSeeUser, *, reasons: bool) -> Values:
    """A row of TRACES. `queue`: None where it is of a topic itself. `reasons`: whether the account may read them."""
    name = traced.queue
    what = (moment(traced.at_ns), traced.what, int(traced.sure), traced.epoch)
    options = None if queue is None else queue.options
    group = (name.table, None) if options is None else (options.topic, options.consumer_group)
    own = (name.table, name.database, *group, id_text(traced.id))
    reason = (traced.reason or None) if reasons else None
    return (*own, *what, *_receiver(traced.receiver, can_see), reason, traced.place)


def _receiver(to: ReceiverIdentity | None, can_see: CanSeeUser) -> Values:
    if to is None or not can_see(to.user):
        return (None,) * 5
    return (to.connection_id, to.user, to.host, to.consumer or None, to.pid)
