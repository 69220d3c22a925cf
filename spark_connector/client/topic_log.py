"""Queries on a log: the first offset of a time, what was deleted before it was read, and whether ids have an order."""

from __future__ import annotations

import pymysql

from spark_connector.client.connection import Client, is_cluster
from spark_connector.client.queue import NUMBER, Queue, refresh_catalog
from spark_connector.errors import QueueError
from spark_connector.mysql_client.driver import error_number

_STEP = "SELECT @@auto_increment_increment"
_YOUNG_NS = 60 * 1_000_000_000
_AROUND = 1000  # messages with neighbouring times, of which the smallest offset is taken
_OFFSETS_AROUND = 100_000  # offsets before that one that are searched too, as by SINCE in SQL


def first_since(client: Client, queue: Queue, time: int, option: str) -> int:
    """The smallest offset of a message created at that time (ns) or later; beyond the end if there is none.

    A topic has an index for it. A queue has none, and is scanned. The orders of offsets and times may differ much,
    because a long statement has early times and late offsets: so the offsets before are searched as well.
    """
    if not queue.has("time_created"):
        raise QueueError(f"{queue.label} does not keep when messages are made: {option} needs that")
    by = queue.offset
    since = f"SELECT {by} FROM {queue.quoted} WHERE time_created >= {time}"
    if queue.is_topic:
        since = f"{since} ORDER BY time_created LIMIT {_AROUND}"
    first, largest = client.rows(
        f"SELECT (SELECT MIN({by}) FROM ({since}) AS since), (SELECT COALESCE(MAX({by}), 0) FROM {queue.quoted})"
    )[0]
    if first is None:
        return int(largest) + 1
    if not queue.is_topic:
        return int(first)
    before = f"SELECT {by}, time_created FROM {queue.log} WHERE {by} < {int(first)}"
    before = f"{before} ORDER BY {by} DESC LIMIT {_OFFSETS_AROUND}"
    earlier = client.value(f"SELECT MIN({by}) FROM ({before}) AS around WHERE time_created >= {time}")
    return int(first if earlier is None else earlier)


def deleted_before(client: Client, topic: Queue, offset: int, seen: int, now: int) -> int:
    """How many offsets beyond `offset` were deleted: the topic starts with a later one.

    Retention deletes from the start of a topic. As long as it starts at `offset` or before, a missing id was rolled
    back, and a missing number was deleted explicitly. Nor does it count if the reader had read everything (`seen`, ns)
    within the last minute: messages that young are only deleted on purpose.
    """
    if seen > now - _YOUNG_NS:
        return 0
    first = client.value(f"SELECT MIN({topic.offset}) FROM {topic.quoted}")
    return 0 if first is None else max(0, int(first) - offset - 1)


def check_order(client: Client, queue: Queue) -> None:
    """Checks that one server assigns the ids. Raises QueueError."""
    if not is_cluster(client) and int(client.value(_STEP)) == 1:
        return
    instead = (
        f"a topic with numbers can be read: ALTER TOPIC {queue.name} SET (sequence = 'on')"
        if queue.is_topic
        else "read the queue with mode=queue, or have a topic with numbers: CREATE TOPIC ... WITH (sequence = 'on')"
    )
    raise QueueError(
        "several servers give ids here (a Galera cluster, or auto_increment_increment above 1), so a message with a"
        f" smaller id may come at any time, and mode=tail cannot read {queue.label} by its ids; {instead}"
    )


# Topics with the option `sequence`: the offset of a message is its number, which the proxy assigns after its commit.
#
# Numbers are assigned in one order, on all nodes of a cluster: a reader that sees one sees all smaller ones that are
# not deleted. A message without a number is not read. A reader has the proxy assign the numbers first.

_UNKNOWN_COLUMN = 1054
_BEYOND_ALL = 10**18 - 1  # the largest offset in SQL


def number_all(client: Client, topic: Queue) -> None:
    """Have the proxy assign numbers to all committed messages, except locked ones. A replay in SQL does that before it
    reads, and this one has nothing to read. Raises pymysql's errors."""
    replay = f"SELECT {NUMBER} FROM STREAM {topic.quoted} SINCE OFFSET {_BEYOND_ALL}"
    try:
        client.rows(replay)
    except pymysql.Error as error:
        if error_number(error) != _UNKNOWN_COLUMN:
            raise
        refresh_catalog(client, topic.name)  # the option was set through another proxy just now
        client.rows(replay)


def check_numbers(queue: Queue) -> None:
    """Checks that a topic with the option `sequence` has its column and key. Raises QueueError."""
    if queue.sequenced and (queue.number_key is None or not queue.has(NUMBER)):
        raise QueueError(
            f"{queue.label} has the option sequence, and its column {NUMBER} or the unique key on it is missing:"
            f" ALTER TOPIC {queue.name} SET (sequence = 'on') adds them"
        )
