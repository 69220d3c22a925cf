"""TRACE MESSAGE: what the tables say of one message of a topic, for each of its groups. Pure."""

from __future__ import annotations

from engine.model.explanation import Explanation, MessageRow, moment
from engine.model.queue import SubscriptionStatus
from engine.model.topics import Place
from proxy.show.status_tables import Values

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
    group: str, enqueued: str | None, row: MessageRow, explanation: Explanation, holder: SubscriptionStatus | None
) -> Values:
    """Of a message that is in the group's queue."""
    leased = explanation.state == "in_flight" and row.time_next_ns is not None
    until = moment(row.time_next_ns or 0) if leased else None
    who: Values = (None, None) if holder is None else (holder.connection_id, holder.consumer or None)
    return (group, explanation.state, enqueued, row.epoch, until, *who, row.last_error, explanation.text)


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


def not_told(group: str, enqueued: str | None, problem: str) -> Values:
    """Of a group that cannot be asked."""
    return _said(group, None, enqueued, problem)


def _said(group: str, state: str | None, enqueued: str | None, text: str) -> Values:
    return (group, state, enqueued, None, None, None, None, None, text)
