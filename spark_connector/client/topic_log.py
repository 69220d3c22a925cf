"""What a reader of a log finds out about it: where a time begins, what was deleted before it was read, and whether ids
tell an order at all."""

from __future__ import annotations

from spark_connector.client.connection import Client
from spark_connector.client.queue import Queue
from spark_connector.errors import QueueError

_STEP = "SELECT @@auto_increment_increment"
_CLUSTER = "SHOW VARIABLES LIKE 'wsrep_on'"
_YOUNG_NS = 60 * 1_000_000_000
_AROUND = 1000  # messages with neighbouring times, among which the smallest id is looked for


def first_since(client: Client, queue: Queue, time: int, option: str) -> int:
    """The smallest id that was made at that time (ns) or later; beyond the end where there is none.

    A topic has an index for it. A queue has none, and is read whole.
    """
    if not queue.has("time_created"):
        raise QueueError(f"{queue.called} does not keep when messages are made: {option} needs that")
    since = f"SELECT id FROM {queue.quoted} WHERE time_created >= {time}"
    if queue.is_topic:
        since = f"{since} ORDER BY time_created LIMIT {_AROUND}"
    first, largest = client.rows(
        f"SELECT (SELECT MIN(id) FROM ({since}) AS since), (SELECT COALESCE(MAX(id), 0) FROM {queue.quoted})"
    )[0]
    return int(largest) + 1 if first is None else int(first)


def deleted_before(client: Client, topic: Queue, offset: int, seen: int, now: int) -> int:
    """How many ids beyond `offset` are not there although the topic had them: it begins with a later one.

    A topic is deleted from its beginning. As long as it begins at `offset` or before, an id that is missing was rolled
    back. Nor does it count while the reader has seen all there was (`seen`, ns) within a minute: who deletes messages
    that young means it.
    """
    if seen > now - _YOUNG_NS:
        return 0
    first = client.value(f"SELECT MIN(id) FROM {topic.quoted}")
    return 0 if first is None else max(0, int(first) - offset - 1)


def insist_on_order(client: Client) -> None:
    """That a topic's ids are given by one server. Raises QueueError."""
    on_a_cluster = any(str(value).upper() in ("ON", "1") for _, value in client.rows(_CLUSTER))
    if on_a_cluster or int(client.value(_STEP)) != 1:
        raise QueueError(
            "several servers give ids here (a Galera cluster, or auto_increment_increment above 1), so a"
            " message with a smaller id may come at any time: topics cannot be read with mode=tail; use a queue"
        )
