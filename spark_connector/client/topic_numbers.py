"""Topics with the option `sequence`: the offset of a message is its number, which the proxy gives it after its commit.

Numbers are given in one order, on all nodes of a cluster: whoever sees one sees all smaller ones that are not deleted.
A message that has none yet is not read. Whoever reads has the proxy give the numbers first.
"""

from __future__ import annotations

import pymysql

from spark_connector.client.connection import Client, number
from spark_connector.client.queue import NUMBER, Queue, have_looked_again
from spark_connector.errors import QueueError

_UNKNOWN_COLUMN = 1054
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


def insist_on_numbers(queue: Queue) -> None:
    """That a topic which is to have numbers can have them. Raises QueueError."""
    if queue.sequenced and (queue.number_key is None or not queue.has(NUMBER)):
        raise QueueError(
            f"{queue.called} has the option sequence, and its column {NUMBER} or the unique key on it is missing:"
            f" ALTER TOPIC {queue.name} SET (sequence = 'on') adds them"
        )
