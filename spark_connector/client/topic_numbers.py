"""Topics with the option `sequence`: the offset of a message is its number, which the proxy assigns after its commit.

Numbers are assigned in one order, on all nodes of a cluster: a reader that sees one sees all smaller ones that are not
deleted. A message without a number is not read. A reader has the proxy assign the numbers first.
"""

from __future__ import annotations

import pymysql

from spark_connector.client.connection import Client, number
from spark_connector.client.queue import NUMBER, Queue, refresh_catalog
from spark_connector.errors import QueueError

_UNKNOWN_COLUMN = 1054
_BEYOND_ALL = 10**18 - 1  # the largest offset in SQL


def number_all(client: Client, topic: Queue) -> None:
    """Have the proxy assign numbers to all committed messages, except locked ones. A replay in SQL does that before it
    reads, and this one has nothing to read. Raises pymysql's errors."""
    replay = f"SELECT {NUMBER} FROM STREAM {topic.quoted} SINCE OFFSET {_BEYOND_ALL}"
    try:
        client.rows(replay)
    except pymysql.Error as error:
        if number(error) != _UNKNOWN_COLUMN:
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
