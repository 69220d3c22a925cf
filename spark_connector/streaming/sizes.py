"""The sizes of messages in bytes, queried from the database, for micro-batches with a limit in bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spark_connector.client.columns import Field
from spark_connector.client.connection import Client
from spark_connector.client.queue import Queue
from spark_connector.mysql_client.driver import quoted
from spark_connector.streaming.claims import literal

_FIXED = 8  # bytes of a number or a time in Spark, about
_AT_ONCE = 200  # the database reads the messages for their sizes: the maximum to read in vain
_LONG = ("string", "binary")


class Sizes:
    """The sizes of a queue's messages, in these columns."""

    def __init__(self, queue: Queue, fields: Sequence[Field]) -> None:
        self._table, self._by = quoted(queue.name), queue.offset
        long = [quoted(queue.column(field.name).name) for field in fields if field.type in _LONG]
        fixed = _FIXED * (len(fields) - len(long))
        self._size = " + ".join([str(fixed), *(f"COALESCE(LENGTH({name}), 0)" for name in long)])

    def fitting(self, client: Client, ids: Sequence[Any], max_bytes: int) -> tuple[int, int]:
        """How many of these messages, in this order, fit into `max_bytes`; and how many bytes they have.

        `ids`: in a topic with numbers their numbers.
        """
        count, total = 0, 0
        for start in range(0, len(ids), _AT_ONCE):
            some = ids[start : start + _AT_ONCE]
            texts = ", ".join(map(literal, some))
            sql = f"SELECT {self._by}, {self._size} FROM {self._table} WHERE {self._by} IN ({texts})"
            sizes: dict[Any, Any] = dict(client.rows(sql))
            for id_ in some:
                size = int(sizes.get(id_, 0))  # missing: deleted meanwhile
                if total + size > max_bytes:
                    return count, total
                count, total = count + 1, total + size
        return count, total
