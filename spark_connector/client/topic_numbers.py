"""Topics with the option `sequence`: the offset of a message is its number, which the proxy gives it after its commit.

Numbers are given in one order, on all nodes of a cluster: whoever sees one sees all smaller ones that are not deleted.
A message that has none yet is not read. Whoever reads has the proxy give the numbers first.
"""

from __future__ import annotations

import pymysql

from spark_connector.client.connection import Client, number
from spark_connector.client.queue import NUMBER, Queue, have_looked_again
from spark_connector.errors import QueueError

FRESH = "SET SESSION wsrep_sync_wait = 1"
"""On a Galera cluster: a SELECT outside of a transaction waits until its node has what all nodes had committed before.
So a task that reads at another node than the driver's finds every message of its micro-batch."""

_UNKNOWN_COLUMN = 1054
_CLUSTER = "SHOW VARIABLES LIKE 'wsrep_on'"
_BEYOND_ALL = 10**18 - 1  # as large as an offset may be in SQL


def number_all(client: Client, topic: Queue) -> None:
    """Have all messages that are committed now numbered, but for those that somebody has locked. A replay in SQL does
    that before it reads, and this one finds nothing to read. Raises pymysql's errors."""
    replay = f"SELECT {NUMBER} FROM STREAM {topic.quoted} SINCE OFFSET {_BEYOND_ALL}"
    try:
        client.rows(replay)
    except pymysql.Error as error:
        if number(error) != _UNKNOWN_COLUMN:
            raise
        have_looked_again(client, topic.name)  # it was given numbers through another proxy, just now
        client.rows(replay)


def on_a_cluster(client: Client) -> bool:
    """Whether the database is a node of a Galera cluster."""
    return any(str(value).upper() in ("ON", "1") for _, value in client.rows(_CLUSTER))


def settings(client: Client, queue: Queue) -> tuple[str, ...]:
    """What each connection begins with that reads by numbers; nothing where the queue or topic has none."""
    return (FRESH,) if queue.sequenced and on_a_cluster(client) else ()


def insist_on_numbers(queue: Queue) -> None:
    """That a topic which is to have numbers can have them. Raises QueueError."""
    if queue.sequenced and (queue.number_key is None or not queue.has(NUMBER)):
        raise QueueError(
            f"{queue.called} has the option sequence, and its column {NUMBER} or the unique key on it is missing:"
            f" ALTER TOPIC {queue.name} SET (sequence = 'on') adds them"
        )
