"""What a process recorded of messages, and how the history of a topic fares there, as they travel between processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from engine.history.writer import HistoryState, own_place
from engine.model.queue import QueueName, ReceiverIdentity
from engine.model.trace_event import TraceEvent
from proxy.cluster.messages import id_body, id_of
from proxy.cluster.questions import Item


def own_traced(entries: Iterable[TraceEvent]) -> list[TraceEvent]:
    """Records of this process, with its place: the machine and the number of the process."""
    place = own_place()
    return [traced._replace(place=place) for traced in entries]


def traced_item(traced: TraceEvent) -> Item:
    """A record as an item."""
    to = traced.receiver
    receiver = None if to is None else [to.connection_id, to.user, to.host, to.consumer, to.pid]
    name = traced.queue
    what = [traced.at_ns, traced.what, traced.epoch]
    own = [traced.place, traced.process, traced.number]
    return [name.database, name.table, id_body(traced.id), *what, receiver, traced.sure, traced.reason, *own]


def traced_of(item: Item) -> TraceEvent:
    """The inverse of `traced_item`. Raises TypeError or ValueError where it is none."""
    database, table, body, at_ns, what, epoch, receiver, sure, reason, place, process, number = item
    queue = QueueName(database, table)
    to = None
    if receiver is not None:
        connection_id, user, host, consumer, pid = receiver
        to = ReceiverIdentity(connection_id, user, host, consumer, pid)
    own = (place, str(process), int(number))
    return TraceEvent(queue, id_of(body), int(at_ns), what, epoch, to, bool(sure), reason, *own)


def state_item(topic: QueueName, state: HistoryState) -> Item:
    """How the history of a topic fares here, as an item."""
    return [topic.database, topic.table, state.dropped, state.recently, state.problem]


def state_of(item: Item) -> tuple[QueueName, HistoryState]:
    """The inverse of `state_item`. Raises TypeError or ValueError where it is none."""
    database, table, dropped, recently, problem = item
    return QueueName(database, table), HistoryState(int(dropped), bool(recently), str(problem))


def together(states: Iterable[tuple[QueueName, HistoryState]]) -> Mapping[QueueName, HistoryState]:
    """How the histories fare at all processes."""
    by_topic: dict[QueueName, list[HistoryState]] = {}
    for topic, state in states:
        by_topic.setdefault(topic, []).append(state)
    return {topic: _summed(of_one) for topic, of_one in by_topic.items()}


def _summed(states: Sequence[HistoryState]) -> HistoryState:
    problem = next((state.problem for state in states if state.problem), "")
    return HistoryState(sum(state.dropped for state in states), any(state.recently for state in states), problem)
