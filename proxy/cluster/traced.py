"""What a process recorded of messages, and how it travels between processes."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable

from engine.model.queue import QueueName, SubscribeRequest
from engine.traces import Traced
from proxy.cluster.messages import id_body, id_of
from proxy.cluster.questions import Item


def own_traced(found: Iterable[Traced]) -> list[Traced]:
    """Records of this process, with its place: the machine and the number of the process."""
    place = f"{socket.gethostname()}:{os.getpid()}"
    return [traced._replace(place=place) for traced in found]


def traced_item(traced: Traced) -> Item:
    """A record as an item."""
    to = traced.receiver
    receiver = None if to is None else [to.connection_id, to.user, to.host, to.consumer, to.pid]
    name = traced.queue
    what = [traced.at_ns, traced.what, traced.epoch]
    return [name.database, name.table, id_body(traced.id), *what, receiver, traced.sure, traced.reason, traced.place]


def traced_of(item: Item) -> Traced:
    """The inverse of `traced_item`. Raises TypeError or ValueError where it is none."""
    database, table, body, at_ns, what, epoch, receiver, sure, reason, place = item
    queue = QueueName(database, table)
    to = None
    if receiver is not None:
        connection_id, user, host, consumer, pid = receiver
        to = SubscribeRequest(queue, connection_id=connection_id, user=user, host=host, consumer=consumer, pid=pid)
    return Traced(queue, id_of(body), int(at_ns), what, epoch, to, bool(sure), reason, place)
